"""`magnetar certs`: an authority, and certificates that other programs accept."""

import socket
import ssl
import stat
import threading
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from cryptography import x509
from cryptography.x509.oid import NameOID

from magnetar.cli import main
from magnetar.cli.setup.authority import hosts_of


def certs(*words: str) -> Result:
    return CliRunner().invoke(main, ["certs", *words])


def greeted(directory: Path, host: str, role: str | None = None) -> tuple[str, bytes]:
    """The common name that a server of the certificate sees of a client, and what that receives.

    The server asks for a certificate; the client verifies `host`.
    """
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(directory / "broker.cert.pem", directory / "broker.key.pem")
    serving.load_verify_locations(directory / "ca.cert.pem")
    serving.verify_mode = ssl.CERT_OPTIONAL
    context = ssl.create_default_context(cafile=str(directory / "ca.cert.pem"))
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    if role is not None:
        context.load_cert_chain(directory / f"{role}.cert.pem", directory / f"{role}.key.pem")
    ours, theirs = socket.socketpair()
    seen = []

    def serve() -> None:
        try:
            with serving.wrap_socket(theirs, server_side=True) as end:
                der = end.getpeercert(binary_form=True)
                subject = x509.load_der_x509_certificate(der).subject if der else x509.Name([])
                names = subject.get_attributes_for_oid(NameOID.COMMON_NAME)
                seen.append(str(names[0].value) if names else "")
                end.sendall(b"hello")
        except OSError:
            theirs.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with context.wrap_socket(ours, server_hostname=host) as end:
            received = end.recv(5)
    finally:
        ours.close()
        thread.join()
    return seen[0], received


def test_an_authority_and_its_certificates(tmp_path: Path) -> None:
    result = certs(str(tmp_path / "new"), "--host", "broker.example", "--host", "10.0.0.7",
                   "--client", "app")  # fmt: skip
    assert result.exit_code == 0, result.output
    directory = tmp_path / "new"
    assert f"tlsKeyFilePath={directory}/broker.key.pem" in result.output
    for name in ("ca", "broker", "app"):
        assert stat.S_IMODE((directory / f"{name}.key.pem").stat().st_mode) == 0o600
    hosts = ["broker.example", "10.0.0.7", "localhost", "127.0.0.1", "::1", socket.gethostname()]
    assert hosts_of((directory / "broker.cert.pem").read_bytes()) == list(dict.fromkeys(hosts))
    for host in hosts:
        assert greeted(directory, host) == ("", b"hello")
    assert greeted(directory, "localhost", "app") == ("app", b"hello")
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        greeted(directory, "other.example")


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    words = (str(tmp_path), "--client", "app")
    assert certs(*words).exit_code == 0
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    for again in ((str(tmp_path),), words, (str(tmp_path), "--host", "x", "--client", "b")):
        result = certs(*again)
        assert result.exit_code != 0, result.output
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert certs(str(tmp_path), "--client", "other").exit_code == 0
    assert greeted(tmp_path, "localhost", "other") == ("other", b"hello")


def test_renewal_keeps_hosts_and_key(tmp_path: Path) -> None:
    assert certs(str(tmp_path), "--host", "first.example").exit_code == 0
    path = tmp_path / "broker.cert.pem"
    before, key = path.read_bytes(), (tmp_path / "broker.key.pem").read_bytes()
    result = certs(str(tmp_path), "--renew", "--host", "second.example", "--days", "10")
    assert result.exit_code == 0, result.output
    assert hosts_of(path.read_bytes()) == [*hosts_of(before), "second.example"]
    one, two = x509.load_pem_x509_certificate(before), x509.load_pem_x509_certificate(
        path.read_bytes()
    )  # fmt: skip
    assert one.serial_number != two.serial_number
    assert two.not_valid_after_utc < one.not_valid_after_utc
    assert (tmp_path / "broker.key.pem").read_bytes() == key
    for host in ("first.example", "second.example"):
        assert greeted(tmp_path, host) == ("", b"hello")


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--host", "a b"), "expected a DNS name or an IP address"),
        (("--host", "-x"), "expected a DNS name or an IP address"),
        (("--client", "../x"), "cannot be a file's name"),
        (("--client", "ca"), "cannot be a file's name"),
        (("--renew",), "makes an authority"),
    ],
)
def test_what_is_refused(words: tuple[str, ...], why: str, tmp_path: Path) -> None:
    result = certs(str(tmp_path / "new"), *words)
    assert (result.exit_code, why in result.output) == (1, True), result.output


def test_a_foreign_key_is_no_authority(tmp_path: Path) -> None:
    assert certs(str(tmp_path)).exit_code == 0
    (tmp_path / "ca.key.pem").write_bytes((tmp_path / "broker.key.pem").read_bytes())
    result = certs(str(tmp_path), "--client", "app")
    assert (result.exit_code, "not that of the certificate" in result.output) == (1, True)
