"""Authentication on both ports, with the official client."""

import http.client
import itertools
import json
import re
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pulsar
import pytest

import credentials
import official
from credentials import OTHER_PASSWORD, PASSWORD, basic, token
from fakes.waiting import ATTEMPTS
from issuer import SECRET_OF_CLIENT, Issuer
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.commands import encode
from raw_client import Kind, RawClient
from running_broker import RunningBroker

MakeBroker = Callable[..., RunningBroker]
TOPIC = "persistent://public/default/authenticated"
WORKERS = pytest.mark.parametrize("workers", ["1", "3"])


def ask(broker: RunningBroker, path: str = "/admin/v2/tenants", **headers: str) -> tuple[int, Any]:
    """Send a GET, and return status and JSON of the answer."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(f"{broker.http_url}{path}", headers=named)
    try:
        with urllib.request.urlopen(request) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def publishes(broker: RunningBroker, authentication: Any, topic: str = TOPIC) -> None:
    """Publish and receive a message with the official client."""
    client = official.connect(broker.service_url, authentication=authentication)
    try:
        consumer = client.subscribe(topic, "subscription")
        client.create_producer(topic).send(b"here")
        assert consumer.receive(60_000).data() == b"here"
        consumer.close()
    finally:
        client.close()


@WORKERS
def test_official_clients_connect_with_tokens_and_passwords(
    make_broker: MakeBroker, tmp_path: Path, workers: str
) -> None:
    broker = make_broker(**credentials.settings(tmp_path), magnetarWorkers=workers)
    publishes(broker, pulsar.AuthenticationToken(token("alice")))
    publishes(broker, pulsar.AuthenticationBasic("alice", PASSWORD))
    publishes(broker, pulsar.AuthenticationBasic("bob", OTHER_PASSWORD))
    # An official client retries until its timeout.
    for method, wrong in (("token", token("alice", -60)), ("basic", "a:b")):
        with RawClient(broker.port, handshake=False) as client:
            client.send(
                pb.CommandConnect(
                    client_version="x", auth_method_name=method, auth_data=wrong.encode()
                )
            )
            (only,) = client.await_close()
        assert only.kind == Kind.ERROR and only.command.error == pb.AuthenticationError


@WORKERS
def test_requests_over_http_need_a_role(
    make_broker: MakeBroker, tmp_path: Path, workers: str
) -> None:
    broker = make_broker(**credentials.settings(tmp_path), magnetarWorkers=workers)
    bearer = f"Bearer {token('alice')}"
    assert ask(broker, Authorization=bearer)[0] == 200
    assert ask(broker, Authorization=basic("alice", PASSWORD))[0] == 200
    assert ask(broker)[0] == 401
    assert ask(broker, Authorization=basic("alice", "x"))[0] == 401
    assert ask(broker, Authorization=f"Bearer {token('alice', -60)}")[0] == 401
    assert ask(broker, "/admin/v2/no/such/path")[0] == 401
    assert ask(broker, Authorization=bearer, X_Pulsar_Auth_Method_Name="basic")[0] == 401


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    made = Issuer()
    yield made
    made.close()


def of_issuer(issuer: Issuer, **others: str) -> dict[str, str]:
    """Return the settings of a broker that accepts tokens of the issuer."""
    return {
        "authenticationEnabled": "true",
        "authenticationProviders": "oidc",
        "openIDAllowedTokenIssuers": issuer.url,
        "openIDAllowedAudiences": "broker",
        "openIDRequireIssuersUseHttps": "false",
        "openIDKeyIdCacheMissRefreshSeconds": "0",
        **others,
    }


def oauth2(issuer: Issuer, folder: Path) -> Any:
    """Return the official client's authentication, which asks the issuer for a token."""
    key_file = folder / "key.json"
    key_file.write_text(json.dumps({"client_id": "client", "client_secret": SECRET_OF_CLIENT}))
    parameters = {
        "type": "client_credentials",
        "issuer_url": issuer.url,
        "private_key": f"file://{key_file}",
        "audience": "broker",
    }
    return pulsar.AuthenticationOauth2(json.dumps(parameters))


@WORKERS
def test_official_clients_connect_with_tokens_of_an_issuer_whose_keys_rotate(
    make_broker: MakeBroker, tmp_path: Path, issuer: Issuer, workers: str
) -> None:
    broker = make_broker(**of_issuer(issuer), magnetarWorkers=workers)
    publishes(broker, oauth2(issuer, tmp_path))
    publishes(broker, pulsar.AuthenticationToken(issuer.token()))
    old = issuer.token()
    issuer.rotate("second")
    publishes(broker, oauth2(issuer, tmp_path))
    bearer = f"Bearer {issuer.token()}"
    assert ask(broker, Authorization=bearer)[0] == 200
    for wrong in (old, issuer.token(aud="other"), issuer.token(iss="http://127.0.0.1:1")):
        assert ask(broker, Authorization=f"Bearer {wrong}")[0] == 401


def test_tokens_of_a_key_and_of_an_issuer_side_by_side(
    make_broker: MakeBroker, tmp_path: Path, issuer: Issuer
) -> None:
    settings = {**credentials.settings(tmp_path), **of_issuer(issuer)}
    broker = make_broker(**settings | {"authenticationProviders": "token,oidc,basic"})
    for one in (token("alice"), issuer.token()):
        assert ask(broker, Authorization=f"Bearer {one}")[0] == 200
    assert ask(broker, Authorization=basic("alice", PASSWORD))[0] == 200
    issuer.close()
    assert ask(broker, Authorization=f"Bearer {token('alice')}")[0] == 200


@WORKERS
def test_a_client_with_short_tokens_renews_them_and_loses_nothing(
    make_broker: MakeBroker, tmp_path: Path, workers: str
) -> None:
    """The official client answers every AUTH_CHALLENGE with the result of its supplier."""
    broker = make_broker(
        **credentials.settings(tmp_path, authenticationRefreshCheckSeconds="1"),
        magnetarWorkers=workers,
    )
    attempts = (f"{TOPIC}-{number}" for number in range(ATTEMPTS))
    assert any(renews(broker, topic) for topic in attempts), broker.log
    assert "cannot renew" not in broker.log


def renews(broker: RunningBroker, topic: str) -> bool:
    """Tell whether a client renewed its tokens in time, which a machine that stalls may prevent."""
    log_before, supplied = len(broker.log), 0

    def supply() -> str:
        nonlocal supplied
        supplied += 1
        return token("alice", 2)

    client = official.connect(broker.service_url, authentication=pulsar.AuthenticationToken(supply))
    try:
        consumer = client.subscribe(topic, "subscription")
        producer = client.create_producer(topic)
        connects, found = supplied, list[int]()
        for number in itertools.count():
            producer.send(str(number).encode())
            while number not in found:  # a client that was disconnected receives again
                found.append(int(consumer.receive(60_000).data()))
            if supplied >= connects + 4:
                break
    except pulsar.AuthenticationError:
        return False  # a token has expired on its way
    finally:
        client.close()
    assert list(dict.fromkeys(found)) == list(range(number + 1))
    return found == list(range(number + 1)) and "did not renew" not in broker.log[log_before:]


def test_a_refused_client_gets_one_error_and_nothing_behind_it_is_handled(
    make_broker: MakeBroker, tmp_path: Path
) -> None:
    broker = make_broker(**credentials.settings(tmp_path))
    with RawClient(broker.port, handshake=False) as client:
        connect = pb.CommandConnect(client_version="x", auth_method_name="token", auth_data=b"x")
        ping = pb.CommandPing()
        client.send_bytes(encode(connect) + encode(ping))
        (only,) = client.await_close()
    assert only.kind == Kind.ERROR
    assert only.command.error == pb.AuthenticationError
    assert only.command.message == "Failed to authenticate"


@WORKERS
def test_outcomes_are_counted_and_metrics_are_open_where_they_may_be(
    make_broker: MakeBroker, tmp_path: Path, workers: str
) -> None:
    settings = credentials.settings(tmp_path, authenticateMetricsEndpoint="false")
    broker = make_broker(**settings, magnetarWorkers=workers)
    bearer = f"Bearer {token('alice')}"
    assert ask(broker, Authorization=bearer)[0] == 200
    assert ask(broker, Authorization="Bearer x", X_Pulsar_Auth_Method_Name="token")[0] == 401
    page = broker.metrics
    provider = 'provider_name="AuthenticationProviderToken",auth_method="token"'
    (accepted,) = re.findall(
        rf"^pulsar_authentication_success_total.*{provider}.* (\S+)$", page, re.M
    )
    (refused,) = re.findall(
        rf'^pulsar_authentication_failures_total.*{provider},reason="INVALID_TOKEN".* (\S+)$',
        page,
        re.M,
    )
    assert (float(accepted), float(refused)) == (1, 1)


def test_the_audit_log_has_the_reason_that_a_client_is_not_told(
    make_broker: MakeBroker, tmp_path: Path
) -> None:
    broker = make_broker(**credentials.settings(tmp_path))
    status, answer = ask(broker, Authorization="Bearer x")
    assert (status, answer["reason"]) == (401, "Authentication required")
    (line,) = [line for line in broker.log.splitlines() if "magnetar.audit" in line]
    written = json.loads(line[line.index("{") :])
    assert written["status"] == 401 and "anonymousUserRole is unset" in written["reason"]
    assert "credentials are refused" not in broker.log


@WORKERS
def test_metrics_require_a_role_where_they_must(
    make_broker: MakeBroker, tmp_path: Path, workers: str
) -> None:
    broker = make_broker(
        **credentials.settings(tmp_path, authenticateMetricsEndpoint="true"),
        magnetarWorkers=workers,
    )
    for path in ("/metrics", "/metrics/"):
        assert ask(broker, path)[0] == 401
        request = urllib.request.Request(
            f"{broker.http_url}{path}", headers={"Authorization": f"Bearer {token('alice')}"}
        )
        with urllib.request.urlopen(request) as response:
            assert response.status == 200


def test_every_request_of_a_connection_proves_its_role(
    make_broker: MakeBroker, tmp_path: Path
) -> None:
    broker = make_broker(**credentials.settings(tmp_path))
    connection = http.client.HTTPConnection("127.0.0.1", broker.http_port)
    statuses = []
    for header in (f"Bearer {token('alice')}", None, "Bearer x", f"Bearer {token('alice')}"):
        headers = {} if header is None else {"Authorization": header}
        connection.request("GET", "/admin/v2/clusters", headers=headers)
        response = connection.getresponse()
        response.read()
        statuses.append(response.status)
    connection.close()
    assert statuses == [200, 401, 401, 200]


@WORKERS
def test_the_broker_itself_proves_no_role(
    make_broker: MakeBroker, tmp_path: Path, workers: str
) -> None:
    broker = make_broker(**credentials.settings(tmp_path), magnetarWorkers=workers)
    bearer = f"Bearer {token('alice')}"
    request = urllib.request.Request(
        f"{broker.http_url}/admin/v2/brokers/health", headers={"Authorization": bearer}
    )
    with urllib.request.urlopen(request) as response:
        assert (response.status, response.read()) == (200, b"ok")
