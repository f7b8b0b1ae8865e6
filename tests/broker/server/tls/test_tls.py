"""TLS on both ports of a real daemon, with the official client and with raw connections."""

import json
import os
import re
import shutil
import signal
import socket
import ssl
import threading
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pulsar
import pytest
from prometheus_client.parser import text_string_to_metric_families

import official
from certificates import Authority, Files
from fakes.waiting import HANGS_SECONDS, within_limit
from fakes.workers import connect_frame
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.commands import FIELDS, decode
from magnetar_proto.frames import FrameDecoder
from running_broker import RunningBroker

Make = Callable[..., RunningBroker]
WORKERS = pytest.mark.parametrize("workers", ["1", "3"])
TOPICS = [f"persistent://public/default/tls-{number}" for number in range(6)]
"""Topics of which, with three workers, some belong to each, so that every path is tested."""


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def server(authority: Authority) -> Files:
    return authority.server("127.0.0.1", "localhost")


@pytest.fixture
def make(make_broker: Make, authority: Authority, server: Files) -> Make:
    """Return a function that starts brokers with additional TLS ports."""

    def start(certificate: Files = server, **settings: str) -> RunningBroker:
        return make_broker(**tls(certificate, authority, **settings))

    return start


def tls(certificate: Files, authority: Authority, **settings: str) -> dict[str, str]:
    return {
        "brokerServicePortTls": "0",
        "webServicePortTls": "0",
        "tlsCertificateFilePath": certificate.certificate,
        "tlsKeyFilePath": certificate.key,
        "tlsTrustCertsFilePath": authority.trust,
    } | settings


def client_of(broker: RunningBroker, trust: str, **options: Any) -> pulsar.Client:
    options = {"tls_validate_hostname": True} | options
    return official.connect(broker.tls_url, tls_trust_certs_file_path=trust, **options)


def publishes_and_receives(client: pulsar.Client) -> None:
    for topic in TOPICS:
        consumer = client.subscribe(topic, "s")
        official.publish(client.create_producer(topic), "a", "b")
        assert official.texts(official.take(consumer, 2)) == ["a", "b"]
        consumer.close()


def refuses(client: pulsar.Client) -> None:
    """Check that the client does not accept the broker's certificate."""
    with pytest.raises(pulsar.PulsarException) as raised:
        client.create_producer(TOPICS[0])
    assert not isinstance(raised.value, pulsar.Timeout)
    client.close()


def is_refused(broker: RunningBroker, trust: str, certificate: Files | None = None) -> None:
    """Check that the broker refuses a client with this certificate, before any answer."""
    with pytest.raises(OSError), secured(broker, context(trust, certificate)) as connection:
        assert answer_to_connect(connection) is None
        raise ConnectionResetError


def context(trust: str, certificate: Files | None = None) -> ssl.SSLContext:
    made = ssl.create_default_context(cafile=trust)
    if certificate is not None:
        made.load_cert_chain(*certificate)
    return made


def fetch(url: str, trust: ssl.SSLContext | None = None) -> Any:
    with urllib.request.urlopen(url, context=trust, timeout=HANGS_SECONDS) as answer:
        return json.load(answer)


def secured(broker: RunningBroker, made: ssl.SSLContext, url: str = "") -> ssl.SSLSocket:
    port = int((url or broker.tls_url).rpartition(":")[2])
    plain = socket.create_connection(("127.0.0.1", port), HANGS_SECONDS)
    return made.wrap_socket(plain, server_hostname="127.0.0.1")


def serial_of(broker: RunningBroker, trust: str, url: str = "") -> int:
    """Return the serial number of the certificate on a new connection."""
    with secured(broker, context(trust), url) as connection:
        shown: Any = connection.getpeercert()
        return int(shown["serialNumber"], 16)


def answer_to_connect(connection: socket.socket) -> Any:
    connection.sendall(connect_frame())
    decoder = FrameDecoder(1 << 20)
    while data := connection.recv(1 << 16):
        if frames := decoder.feed(data):
            kind, buf, start, mid, _ = frames[0]
            return getattr(decode(buf, start, mid), FIELDS[kind])
    return None


def await_log(broker: RunningBroker, *texts: str) -> None:
    ended = threading.Event()
    for _ in range(int(HANGS_SECONDS * 20)):
        if all(text in broker.log for text in texts):
            return
        ended.wait(0.05)
    raise AssertionError(f"{texts} are not in the log:\n{broker.log}")


# Clients --------------------------------------------------------------------------------


@WORKERS
def test_official_clients_use_both_ports_side_by_side(
    make: Make, authority: Authority, workers: str
) -> None:
    broker = make(magnetarWorkers=workers)
    client = client_of(broker, authority.trust)
    publishes_and_receives(client)
    plain = official.connect(broker.service_url)
    publishes_and_receives(plain)
    over_https = official.connect(
        broker.https_url, tls_trust_certs_file_path=authority.trust, tls_validate_hostname=True
    )
    publishes_and_receives(over_https)
    for one in (client, plain, over_https):
        one.close()
    assert "TLS         certificates that clients show are verified" in broker.banner
    assert broker.stop() == 0
    assert "Traceback" not in broker.log, broker.log


@WORKERS
def test_a_broker_with_tls_ports_alone_is_ready_and_healthy(
    make: Make, authority: Authority, workers: str
) -> None:
    broker = make(magnetarWorkers=workers, brokerServicePort="")
    assert "pulsar://" not in broker.banner
    client = client_of(broker, authority.trust)
    publishes_and_receives(client)
    client.close()
    trust = context(authority.trust)
    with urllib.request.urlopen(f"{broker.https_url}/admin/v2/brokers/health", context=trust) as ok:
        assert ok.read() == b"ok"
    found = fetch(f"{broker.https_url}/lookup/v2/topic/persistent/public/default/tls-0", trust)
    assert (found["brokerUrl"], found["brokerUrlTls"]) == ("", broker.tls_url)
    assert broker.stop() == 0


@WORKERS
def test_lookups_answer_the_addresses_of_each_port(make: Make, workers: str) -> None:
    broker = make(magnetarWorkers=workers)
    path = "/lookup/v2/topic/persistent/public/default/tls-0"
    for found in (
        fetch(broker.http_url + path),
        fetch(broker.https_url + path, context(broker.settings["tlsTrustCertsFilePath"])),
    ):
        assert found["brokerUrl"] == broker.service_url
        assert found["brokerUrlTls"] == broker.tls_url
        assert found["httpUrl"] == broker.http_url
        assert found["httpUrlTls"] == broker.https_url


def test_listeners_with_and_without_tls(make: Make, authority: Authority) -> None:
    listeners = "in:pulsar://10.0.0.1:1,in:pulsar+ssl://10.0.0.1:2,out:pulsar+ssl://b.test:3"
    broker = make(advertisedListeners=listeners)
    path = "/lookup/v2/topic/persistent/public/default/tls-0"
    found = fetch(broker.http_url + path)
    assert (found["brokerUrl"], found["brokerUrlTls"]) == (
        "pulsar://10.0.0.1:1",
        "pulsar+ssl://10.0.0.1:2",
    )
    found = fetch(f"{broker.http_url}{path}?listenerName=out")
    assert (found["brokerUrl"], found["brokerUrlTls"]) == ("", "pulsar+ssl://b.test:3")


def test_clients_that_do_not_trust_the_broker_do_not_connect(
    make: Make, authority: Authority, tmp_path: Path
) -> None:
    broker = make()
    refuses(client_of(broker, Authority(tmp_path, "other").trust))
    await_log(broker, "does not accept the certificate of this broker")


def test_another_host_name_is_refused(make: Make, authority: Authority) -> None:
    broker = make(authority.server("other.test"))
    refuses(client_of(broker, authority.trust))
    client = client_of(broker, authority.trust, tls_validate_hostname=False)
    client.create_producer(TOPICS[0])
    client.close()


def test_an_expired_certificate_is_refused_and_logged(make: Make, authority: Authority) -> None:
    broker = make(authority.server("127.0.0.1", days=-1))
    assert "has expired" in broker.log
    refuses(client_of(broker, authority.trust))


def test_the_log_warns_before_a_certificate_expires(make: Make, authority: Authority) -> None:
    assert "expires in 9 days" in make(authority.server("127.0.0.1", days=10)).log


# Certificates of clients ---------------------------------------------------------------------


def certificate_options(files: Files) -> dict[str, Any]:
    return {"authentication": pulsar.AuthenticationTLS(files.certificate, files.key)}


@WORKERS
def test_a_client_certificate_is_verified(
    make: Make, authority: Authority, tmp_path: Path, workers: str
) -> None:
    broker = make(tlsRequireTrustedClientCertOnConnect="true", magnetarWorkers=workers)
    good = client_of(broker, authority.trust, **certificate_options(authority.client("alice")))
    publishes_and_receives(good)
    good.close()
    is_refused(broker, authority.trust)
    stranger = Authority(tmp_path, "stranger").client("alice")
    is_refused(broker, authority.trust, stranger)
    expired = authority.client("alice", days=-1)
    is_refused(broker, authority.trust, expired)
    await_log(broker, "showed no certificate", "its certificate is not accepted")


def test_without_the_requirement_a_client_may_show_none_but_no_bad_one(
    make: Make, authority: Authority, tmp_path: Path
) -> None:
    broker = make()
    with secured(broker, context(authority.trust)) as connection:
        assert isinstance(answer_to_connect(connection), pb.CommandConnected)
    stranger = Authority(tmp_path, "stranger").client("alice")
    is_refused(broker, authority.trust, stranger)


def test_https_verifies_clients_too(make: Make, authority: Authority) -> None:
    broker = make(tlsRequireTrustedClientCertOnConnect="true")
    url = f"{broker.https_url}/admin/v2/clusters"
    assert fetch(url, context(authority.trust, authority.client("alice"))) == ["standalone"]
    with pytest.raises(OSError):
        fetch(url, context(authority.trust))


def test_insecure_connections_are_in_the_banner_and_ask_for_no_certificate(
    make: Make, authority: Authority, tmp_path: Path
) -> None:
    broker = make(tlsAllowInsecureConnection="true")
    assert "INSECURE" in broker.banner and "tlsAllowInsecureConnection" in broker.log
    stranger = Authority(tmp_path, "stranger").client("alice")
    client = client_of(broker, authority.trust, **certificate_options(stranger))
    publishes_and_receives(client)
    client.close()


# New certificates ----------------------------------------------------------------------------


@pytest.fixture
def replaceable(authority: Authority, server: Files, tmp_path: Path) -> Iterator[Files]:
    """Return the files of a certificate that a test replaces."""
    yield replace(server, Files(str(tmp_path / "tls.pem"), str(tmp_path / "tls.key.pem")))


def replace(by: Files, at: Files) -> Files:
    shutil.copy(by.certificate, at.certificate)
    shutil.copy(by.key, at.key)
    return at


@WORKERS
def test_new_connections_get_a_new_certificate_while_clients_go_on(
    make: Make, authority: Authority, replaceable: Files, workers: str
) -> None:
    broker = make(replaceable, magnetarWorkers=workers)
    before, following = replaceable.serial, authority.server("127.0.0.1")
    client = client_of(broker, authority.trust)
    consumer, producer = client.subscribe(TOPICS[0], "s"), client.create_producer(TOPICS[0])
    stop, sent = threading.Event(), 0

    def load() -> None:
        nonlocal sent
        while not stop.is_set():
            producer.send(str(sent).encode())
            sent += 1

    loading = threading.Thread(target=load)
    loading.start()
    try:
        assert serial_of(broker, authority.trust) == before
        replace(following, replaceable)
        broker.reload()
        await_serial(broker, authority.trust, following.serial, int(workers))
    finally:
        stop.set()
        loading.join()
    received = official.texts(official.take(consumer, sent))
    assert received == [str(number) for number in range(sent)] and sent
    client.close()


def await_serial(broker: RunningBroker, trust: str, serial: int, workers: int) -> None:
    """Wait until every process that accepts connections uses the certificate of this serial."""
    await_log(broker, *["new connections get the certificate"])
    for _ in range(int(HANGS_SECONDS * 20)):
        if broker.log.count(f"serial number {serial:x}") >= workers + (workers > 1):
            break
        threading.Event().wait(0.05)
    for url in (broker.tls_url, broker.https_url):
        assert {serial_of(broker, trust, url) for _ in range(10)} == {serial}


def test_files_are_looked_at_from_time_to_time(
    make: Make, authority: Authority, replaceable: Files
) -> None:
    broker = make(replaceable, tlsCertRefreshCheckDurationSec="1")
    following = authority.server("127.0.0.1")
    replace(following, replaceable)
    await_serial(broker, authority.trust, following.serial, 1)


def test_a_broken_file_changes_nothing(
    make: Make, authority: Authority, replaceable: Files
) -> None:
    broker = make(replaceable, tlsCertRefreshCheckDurationSec="0")
    before, following = replaceable.serial, authority.server("127.0.0.1")
    shutil.copy(following.certificate, replaceable.certificate)
    assert serial_of(broker, authority.trust) == before, "the key is still the former one"
    await_log(broker, "is not the key of the certificate", "cannot be used")
    Path(replaceable.certificate).write_text("nothing")
    assert serial_of(broker, authority.trust) == before
    await_log(broker, "has no certificate in PEM form")
    os.unlink(replaceable.key)
    assert serial_of(broker, authority.trust) == before
    replace(following, replaceable)
    assert serial_of(broker, authority.trust) == following.serial


def test_a_new_authority_counts_for_new_connections(
    make: Make, authority: Authority, tmp_path: Path
) -> None:
    trust = tmp_path / "trust.pem"
    shutil.copy(authority.trust, trust)
    broker = make(
        tlsTrustCertsFilePath=str(trust),
        tlsRequireTrustedClientCertOnConnect="true",
        tlsCertRefreshCheckDurationSec="0",
    )
    url = f"{broker.https_url}/admin/v2/clusters"
    client = context(authority.trust, authority.client("alice"))
    fetch(url, client)
    shutil.copy(Authority(tmp_path, "following").trust, trust)
    with pytest.raises(OSError):
        fetch(url, client)


# Refused starts --------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", ["1", "2"])
def test_files_that_cannot_be_used_prevent_the_start(
    authority: Authority, server: Files, tmp_path: Path, workers: str
) -> None:
    other = authority.server("127.0.0.1")
    for files, text in (
        (Files(server.certificate, other.key), "it is not the key of the certificate"),
        (Files(str(tmp_path / "none"), server.key), "tlsCertificateFilePath=.*no such file"),
        (Files(server.key, server.key), "no certificate in PEM form"),
    ):
        settings = tls(files, authority, magnetarWorkers=workers)
        broker = RunningBroker(tmp_path / "data", **settings)
        assert not broker.try_start()
        broker.wait()
        assert re.search(text, broker.log), broker.log
        broker.log_path.unlink()


def test_clients_go_on_while_workers_are_restarted_one_after_another(
    make_broker: Make, authority: Authority, server: Files, tmp_path: Path
) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text("keepAliveIntervalSeconds=30\n")
    broker = make_broker(conf=conf, **tls(server, authority, magnetarWorkers="3"))
    client = client_of(broker, authority.trust)
    consumers = [client.subscribe(topic, "s") for topic in TOPICS]
    producers = [
        client.create_producer(topic, send_timeout_millis=official.TIMEOUT_MS) for topic in TOPICS
    ]
    conf.write_text("keepAliveIntervalSeconds=31\n")
    broker.reload()
    sent = 0
    while "all workers have the changed configuration" not in broker.log:
        for producer in producers:
            official.publish(producer, str(sent))
        sent += 1
    for consumer in consumers:
        seen = -1
        while seen < sent - 1:  # resent messages may arrive twice, and none is skipped
            message = consumer.receive(timeout_millis=official.TIMEOUT_MS)
            number = int(message.data())
            assert number <= seen + 1, (number, seen)
            seen = max(seen, number)
            consumer.acknowledge(message)
    client.close()
    assert "Traceback" not in broker.log, broker.log


# Metrics ---------------------------------------------------------------------------------------


@WORKERS
def test_failed_handshakes_and_the_expiry_are_in_the_metrics(
    make: Make, server: Files, workers: str
) -> None:
    broker = make(magnetarWorkers=workers)
    for url in (broker.tls_url, broker.https_url):
        with socket.create_connection(
            ("127.0.0.1", int(url.rpartition(":")[2])), HANGS_SECONDS
        ) as connection:
            connection.sendall(b"no TLS, whatever it is")
            await_end(connection)
    await_log(broker, "it speaks no TLS")
    families = {one.name: one for one in text_string_to_metric_families(broker.metrics)}
    failures = families["magnetar_tls_handshake_failures"].samples
    assert sum(sample.value for sample in failures) == 2
    expiry = families["magnetar_tls_certificate_expiry_timestamp_seconds"].samples
    assert {sample.value for sample in expiry} == {server.not_after.timestamp()}
    assert len(failures) == len(expiry) == int(workers) + (workers != "1")


# Protocol violations -----------------------------------------------------------------------


def test_other_protocols_at_the_tls_ports_are_named_in_the_log(make: Make) -> None:
    broker = make()
    port = int(broker.tls_url.rpartition(":")[2])
    for data in (connect_frame(), b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"):
        with socket.create_connection(("127.0.0.1", port), HANGS_SECONDS) as connection:
            connection.sendall(data)
            await_end(connection)
    await_log(broker, "it speaks no TLS")


@WORKERS
def test_tls_at_a_port_without_it_is_named_in_the_log(
    make: Make, authority: Authority, workers: str
) -> None:
    broker = make(magnetarWorkers=workers)
    for url in (broker.service_url, broker.http_url):
        with pytest.raises(OSError):
            secured(broker, context(authority.trust), url).close()
    await_log(broker, "TLS has brokerServicePortTls", "TLS has webServicePortTls")


def test_a_handshake_that_stalls_is_ended(make: Make) -> None:
    broker = make(magnetarHandshakeTimeoutSeconds="1")
    port = int(broker.tls_url.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), HANGS_SECONDS) as connection:
        connection.sendall(b"\x16\x03\x01\x02\x00")  # only the header of a record
        await_end(connection)


@pytest.mark.parametrize("workers", ["1", "3"])
def test_a_client_that_says_nothing_after_its_handshake_is_ended(
    make: Make, authority: Authority, workers: str
) -> None:
    broker = make(magnetarHandshakeTimeoutSeconds="1", magnetarWorkers=workers)
    with within_limit(lambda: secured(broker, context(authority.trust)), OSError) as connection:
        await_end(connection)


@pytest.mark.parametrize("workers", ["1", "3"])
def test_a_client_counts_once_while_it_is_not_accepted(
    make: Make, authority: Authority, workers: str
) -> None:
    broker = make(magnetarMaxUnauthenticatedConnectionsPerIp="1", magnetarWorkers=workers)
    publishes_and_receives(client_of(broker, authority.trust))


def await_end(connection: socket.socket) -> None:
    """Read until the broker closes the connection; the timeout of the socket is an error."""
    try:
        while connection.recv(1 << 16):
            pass
    except ConnectionError:
        pass


def test_no_version_before_1_2_is_spoken(make: Make, authority: Authority) -> None:
    broker = make(tlsProtocols="TLSv1.3")
    old = context(authority.trust)
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises(OSError):
        secured(broker, old)
    with secured(broker, context(authority.trust)) as connection:
        assert connection.version() == "TLSv1.3"
    with secured(broker, old, broker.https_url) as connection:
        assert connection.version() == "TLSv1.2"


def test_cipher_suites_can_be_chosen_by_their_standard_names(
    make: Make, authority: Authority
) -> None:
    broker = make(tlsCiphers="TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384")
    with secured(broker, context(authority.trust)) as connection:
        assert connection.cipher() == ("ECDHE-ECDSA-AES256-GCM-SHA384", "TLSv1.2", 256)


def test_a_graceful_stop_ends_tls(make: Make, authority: Authority) -> None:
    broker = make()
    with secured(broker, context(authority.trust)) as connection:
        assert isinstance(answer_to_connect(connection), pb.CommandConnected)
        os.kill(broker.pid, signal.SIGTERM)
        # An end without close_notify would raise SSLEOFError.
        assert connection.recv(1 << 16) == b""
    assert broker.wait() == 0
