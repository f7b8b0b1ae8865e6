"""No secret of the settings or of a client is visible anywhere: planted secrets are searched."""

import base64
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from passlib.hash import apr_md5_crypt

import credentials
from credentials import basic, in_setting, token
from magnetar_broker.config.settings import KEYS
from magnetar_proto import PulsarApi_pb2 as pb
from raw_client import Closed, RawClient
from running_broker import RunningBroker

PASSWORD = "planted-password-of-carol"
HASH = apr_md5_crypt.hash(PASSWORD)
OTHERS = {
    name: f"planted-in-{name}"
    for name in (
        "brokerClientAuthenticationParameters",
        "brokerClientTlsKeyStorePassword",
        "bookkeeperTLSKeyStorePasswordPath",
        "tlsKeyStorePassword",
        "tlsTrustStorePassword",
    )
}
"""Pulsar's keys for secrets that have no effect here."""
SETTINGS = {
    "authenticationEnabled": "true",
    "authenticationProviders": "token,basic",
    "tokenSecretKey": in_setting(credentials.SECRET),
    "basicAuthConf": in_setting(f"carol:{HASH}\n".encode()),
    **OTHERS,
}
PAGES = (
    "/admin/v2/brokers/configuration",
    "/admin/v2/brokers/configuration/values",
    "/admin/v2/brokers/configuration/runtime",
    "/admin/v2/brokers/configuration/explain",
    "/admin/v2/brokers/internal-configuration",
    "/admin/v2/broker-stats/topics",
    "/admin/v2/broker-stats/metrics",
    "/admin/v2/persistent/public/default/planted/stats",
    "/admin/v2/persistent/public/default/planted/internalStats",
    "/metrics",
)


def parts_of(secrets: list[str]) -> list[str]:
    """Return the texts to search for: each secret, also in base64, and the signatures of tokens."""
    found = []
    for secret in secrets:
        encoded = base64.b64encode(secret.encode()).decode().rstrip("=")
        found += [secret, encoded, *(part for part in secret.split(".")[1:] if len(part) > 8)]
    return found


def ask(broker: RunningBroker, method: str, path: str, **headers: str) -> str:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(f"{broker.http_url}{path}", method=method, headers=named)
    try:
        with urllib.request.urlopen(request) as response:
            return f"{response.headers}{response.read().decode()}"
    except urllib.error.HTTPError as error:
        return f"{error.headers}{error.read().decode()}"


def connect(broker: RunningBroker, **fields: Any) -> str:
    """Return the answers to a CONNECT and the opening of a consumer."""
    with RawClient(broker.port, handshake=False) as client:
        client.send(pb.CommandConnect(client_version="x", protocol_version=21, **fields))
        try:
            answer = client.receive()
            if isinstance(answer.command, pb.CommandConnected):
                client.produce("persistent://public/default/planted")
                client.send(
                    pb.CommandAuthResponse(
                        response=pb.AuthData(auth_method_name="token", auth_data=b"planted-renewal")
                    )
                )
                return str([answer, *client.await_close()])
            return str(answer)
        except Closed as error:
            return str(error)


@pytest.mark.parametrize("workers", ["1", "3"])
def test_planted_secrets_are_nowhere(tmp_path: Path, workers: str) -> None:
    audit = tmp_path / "audit.log"
    broker = RunningBroker(
        tmp_path / "data", **SETTINGS, magnetarWorkers=workers, magnetarAuditLogFile=str(audit)
    )
    good, expired, forged = token("carol"), token("carol", -60), token("carol")[:-9] + "planted-x"
    planted = [
        SETTINGS["tokenSecretKey"], credentials.SECRET.decode(), HASH, PASSWORD, good, expired,
        forged, "planted-method", "planted-wrong", "planted-renewal", "planted-original",
        *OTHERS.values(),
    ]  # fmt: skip
    planted.append(SETTINGS["basicAuthConf"].partition(",")[2])
    seen = []
    try:
        broker.start()
        for data in (good, expired, forged, "planted-wrong"):
            bearer = f"Bearer {data}"
            seen.append(connect(broker, auth_method_name="token", auth_data=data.encode()))
            seen.append(ask(broker, "PUT", "/admin/v2/tenants/planted", Authorization=bearer))
            seen.append(ask(broker, "GET", "/admin/v2/no/path", Authorization=bearer))
        for password in (PASSWORD, "planted-wrong"):
            data = f"carol:{password}"
            seen.append(connect(broker, auth_method_name="basic", auth_data=data.encode()))
            header = basic("carol", password)
            seen.append(ask(broker, "DELETE", "/admin/v2/tenants/x", Authorization=header))
        seen.append(connect(broker, auth_method_name="planted-method", auth_data=good.encode()))
        original = {"original_principal": "carol", "original_auth_data": "planted-original"}
        seen.append(connect(broker, auth_method_name="token", auth_data=good.encode(), **original))
        named = {"X_Pulsar_Auth_Method_Name": "planted-method"}
        seen.append(ask(broker, "PUT", "/admin/v2/tenants/x", **named))
        seen += [ask(broker, "GET", path, Authorization=f"Bearer {good}") for path in PAGES]
        if workers != "1":
            broker.settings["tokenSecretKey"] = "planted-and-reloaded"
            broker.reload()
        broker.stop()
        seen += [broker.log, audit.read_text(), broker.banner]
    finally:
        broker.close()
    assert '"tokenSecretKey": "*****"' in "".join(seen)
    assert '"role": "carol"' in audit.read_text()
    for part in parts_of([*planted, "planted-and-reloaded"]):
        assert not [text for text in seen if part in text], part


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("tokenSecretKey", "planted"),
        ("tokenSecretKey", "data:;base64,cGxhbnRlZA=="),
        ("tokenSecretKey", "file:///planted-path-that-is-none"),
        ("basicAuthConf", "data:;base64,cGxhbnRlZA=="),
        ("basicAuthConf", "data:planted"),
    ],
)
def test_a_start_that_fails_for_a_secret_does_not_show_it(
    tmp_path: Path, key: str, value: str
) -> None:
    broker = RunningBroker(tmp_path / "data", **SETTINGS | {key: value})
    assert not broker.try_start()
    broker.close()
    assert key in broker.log
    assert "cGxhbnRl" not in broker.log
    assert "planted" not in broker.log.replace("planted-path-that-is-none", "")


def test_doctor_shows_no_secret(tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text(
        "".join(f"{name}={value}\n" for name, value in SETTINGS.items())
        + "tokenSecretKeyy=planted-typo\nmaxMessageSize=x\n"
    )
    for arguments in (["doctor", "--conf", str(conf)], ["doctor", "--conf", str(conf), "--json"]):
        program = Path(sys.executable).with_name("magnetar")
        ran = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
        shown = ran.stdout + ran.stderr
        assert "maxMessageSize" in shown
        for part in parts_of([*SETTINGS.values(), "planted-typo", HASH]):
            assert part in ("true", "token,basic") or part not in shown, part


def test_every_key_whose_name_sounds_secret_is_marked() -> None:
    unmarked = {
        key.name
        for key in KEYS.values()
        if not key.secret and any(word in key.name.lower() for word in ("secret", "password"))
    }
    assert not unmarked
