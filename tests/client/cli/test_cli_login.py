"""Commands at a broker with TLS that asks who they are: flags, environment, and client.conf."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import credentials
from admin_command import installed
from certificates import Authority
from credentials import token
from running_broker import RunningBroker

TIMEOUT_S = 60
JAVA_TOKEN = "org.apache.pulsar.client.impl.auth.AuthenticationToken"


class Secured:
    """A broker with TLS and tokens, and the files that clients need."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = Authority(folder)
        files = self.authority.server("localhost", "127.0.0.1")
        self.broker = RunningBroker(
            folder / "data",
            **credentials.settings(folder),
            brokerServicePortTls="0",
            webServicePortTls="0",
            tlsCertificateFilePath=files.certificate,
            tlsKeyFilePath=files.key,
        ).start()

    def conf(self, **others: str) -> str:
        """A client.conf that is complete, with other lines."""
        lines = {
            "webServiceUrl": self.broker.https_url,
            "brokerServiceUrl": self.broker.tls_url,
            "authPlugin": JAVA_TOKEN,
            "authParams": f"token:{token('alice')}",
            "tlsTrustCertsFilePath": self.authority.trust,
            **others,
        }
        file = self.folder / "client.conf"
        file.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
        return str(file)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    made = Secured(tmp_path_factory.mktemp("secured"))
    yield made
    made.broker.close()


def test_every_command_reads_client_conf(secured: Secured) -> None:
    conf = secured.conf()
    for words in (
        ("produce", "--client-conf", conf, "topic", "one"),
        ("consume", "--client-conf", conf, "topic", "-n", "1"),
        ("read", "--client-conf", conf, "topic", "-n", "1"),
        ("perf", "produce", "--client-conf", conf, "topic", "-m", "10", "-r", "0"),
        ("admin", "--client-conf", conf, "tenants", "list"),
        ("snapshot", "--client-conf", conf, "--list"),
    ):
        for result in (
            installed(*words),
            installed(
                *[word for word in words if word not in ("--client-conf", conf)],
                PULSAR_CLIENT_CONF=conf,
            ),
        ):
            assert result.returncode == 0, (words, result.stdout + result.stderr)
    measured = installed("perf", "produce", "--client-conf", conf, "topic", "-m", "1", "-r", "0")
    assert "durability fsync" in measured.stderr, "it asks the HTTP port with the same credentials"


def test_flags_and_environment(secured: Secured) -> None:
    file = secured.folder / "token"
    file.write_text(token("alice"))
    flags = ("--url", secured.broker.tls_url, "--auth-plugin", "token",
             "--auth-params", f"file://{file}", "--tlsTrustCertsFilePath",
             secured.authority.trust)  # fmt: skip
    assert installed("produce", *flags, "flags", "one").returncode == 0
    environment = {
        "MAGNETAR_URL": secured.broker.tls_url,
        "MAGNETAR_ADMIN_URL": secured.broker.https_url,
        "MAGNETAR_AUTH_PLUGIN": JAVA_TOKEN,
        "MAGNETAR_AUTH_PARAMS": f"file://{file}",
        "MAGNETAR_TLS_TRUST_CERT_PATH": secured.authority.trust,
    }
    assert installed("consume", "flags", "-n", "1", **environment).stdout.endswith(" one\n")
    assert installed("admin", "tenants", "list", **environment).returncode == 0
    doctor = installed("doctor", "--data-dir", str(secured.folder / "data"), **environment)
    assert "publishes and consumes" in doctor.stdout, doctor.stdout
    anonymous = installed("doctor", "--admin-url", secured.broker.http_url)
    assert "(status 401)" in anonymous.stdout


def test_flags_win_over_client_conf(secured: Secured) -> None:
    conf = secured.conf(authParams="token:x.y.z", brokerServiceUrl="pulsar://127.0.0.1:1")
    result = installed("produce", "--client-conf", conf, "--url", secured.broker.tls_url,
                      "--auth-params", f"token:{token('alice')}", "topic", "one")  # fmt: skip
    assert result.returncode == 0, result.stderr


def test_use_tls_of_old_files(secured: Secured) -> None:
    address = secured.broker.tls_url.removeprefix("pulsar+ssl://")
    conf = secured.conf(brokerServiceUrl=f"pulsar://{address}", useTls="true")
    assert installed("produce", "--client-conf", conf, "topic", "one").returncode == 0


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ({"authParams": "token:planted-secret.x.y"}, "NotAuthenticated|AuthenticationError"),
        ({"authPlugin": "", "authParams": ""}, "AuthenticationError"),
        ({"authPlugin": "org.example.Mine"}, "is not known"),
        ({"tlsTrustCertsFilePath": ""}, "is not accepted"),
        ({"tlsTrustCertsFilePath": "/does/not/exist"}, "/does/not/exist"),
    ],
)
def test_what_is_wrong_is_said_without_secrets(
    secured: Secured, lines: dict[str, str], why: str
) -> None:
    result = installed("produce", "--client-conf", secured.conf(**lines), "topic", "one")
    assert result.returncode in (1, 2)
    assert any(one in result.stderr for one in why.split("|")), result.stderr
    assert "planted-secret" not in result.stderr and "Traceback" not in result.stderr


def test_what_is_not_checked_is_said_at_each_start(secured: Secured) -> None:
    conf = secured.conf(tlsTrustCertsFilePath="", tlsAllowInsecureConnection="true")
    for words in (("produce", "--client-conf", conf, "topic", "one"),
                  ("admin", "--client-conf", conf, "tenants", "list")):  # fmt: skip
        result = installed(*words)
        assert result.returncode == 0, result.stderr
        assert "any certificate is accepted" in result.stderr
