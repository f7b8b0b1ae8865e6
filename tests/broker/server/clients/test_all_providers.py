"""All providers and all ports of one broker at once, configured in Pulsar's own standalone.conf."""

import itertools
import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pulsar
import pytest

import credentials
import official
import pulsar_conf
from certificates import Authority, Files
from credentials import PASSWORD, basic, token
from fakes.waiting import within_limit
from issuer import Issuer
from magnetar_proto import PulsarApi_pb2 as pb
from raw_client import Closed, Kind, RawClient
from running_broker import RunningBroker

MakeBroker = Callable[..., RunningBroker]
PACKAGE = "org.apache.pulsar.broker.authentication"
PROVIDERS = ",".join(
    f"{PACKAGE}.{name}"
    for name in (
        "AuthenticationProviderTls",
        "AuthenticationProviderToken",
        "AuthenticationProviderBasic",
        "oidc.AuthenticationProviderOpenID",
    )
)
TOPICS = [f"persistent://public/default/of-all-{number}" for number in range(4)]


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    made = Issuer("of-issuer")
    yield made
    made.close()


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def certificate(authority: Authority) -> Files:
    return authority.client("of-certificate")


def started(
    make_broker: MakeBroker, folder: Path, authority: Authority, issuer: Issuer, workers: str
) -> RunningBroker:
    """Start a broker with Pulsar's standalone.conf, in which an operator has configured them."""
    server = authority.server("127.0.0.1", "localhost")
    configured = {
        **credentials.settings(folder),
        "bindAddress": "127.0.0.1",  # instead of all addresses of the machine that runs the test
        "authenticationProviders": PROVIDERS,
        "brokerServicePortTls": "0",
        "webServicePortTls": "0",
        "tlsCertificateFilePath": server.certificate,
        "tlsKeyFilePath": server.key,
        "tlsTrustCertsFilePath": authority.trust,
        "openIDAllowedTokenIssuers": issuer.url,
        "openIDAllowedAudiences": "broker",
        "openIDRequireIssuersUseHttps": "false",
    }
    conf = folder / "standalone.conf"
    conf.write_text(pulsar_conf.edited(pulsar_conf.standalone(), configured))
    return make_broker(conf, magnetarWorkers=workers)


def roles_of(broker: RunningBroker, topic: str) -> set[str]:
    """Return the roles of the consumers of a topic, from its statistics."""
    path = topic.replace("://", "/")
    request = urllib.request.Request(
        f"{broker.http_url}/admin/v2/{path}/stats",
        headers={"Authorization": basic("alice", PASSWORD)},
    )
    with urllib.request.urlopen(request) as response:
        found = json.load(response)
    return {one["appId"] for group in found["subscriptions"].values() for one in group["consumers"]}


@pytest.mark.parametrize("workers", ["1", "3"])
def test_every_provider_serves_the_official_client(
    make_broker: MakeBroker,
    tmp_path: Path,
    authority: Authority,
    certificate: Files,
    issuer: Issuer,
    workers: str,
) -> None:
    broker = started(make_broker, tmp_path, authority, issuer, workers)
    trusted: dict[str, Any] = {
        "tls_trust_certs_file_path": authority.trust, "tls_validate_hostname": True,
    }  # fmt: skip
    by_role = {
        "of-token": pulsar.AuthenticationToken(token("of-token")),
        "of-issuer": pulsar.AuthenticationToken(issuer.token()),
        "alice": pulsar.AuthenticationBasic("alice", PASSWORD),
        "of-certificate": pulsar.AuthenticationTLS(certificate.certificate, certificate.key),
    }
    for role, authentication in by_role.items():
        for url in (broker.service_url, broker.tls_url):
            if role == "of-certificate" and url == broker.service_url:
                continue
            options = trusted if url == broker.tls_url else {}
            client = official.connect(url, authentication=authentication, **options)
            for topic in TOPICS:
                consumer = client.subscribe(topic, role)
                official.publish(client.create_producer(topic), role)
                assert official.texts(official.take(consumer, 1)) == [role]
                assert roles_of(broker, topic) == {role}
                consumer.close()
            client.close()


def opens_all(client: RawClient, broker: RunningBroker, seconds: float) -> None:
    """Open consumers of all topics with a token of this lifetime; `Closed` if it expires before."""
    data = token("carol", seconds).encode()
    connect = pb.CommandConnect(client_version="x", protocol_version=21, auth_data=data)
    connect.auth_method_name = "token"
    client.send(connect)
    if client.receive().kind != Kind.CONNECTED:
        raise Closed("it is refused")
    for number, topic in enumerate(TOPICS):
        client.request(
            pb.CommandSubscribe(
                topic=topic, subscription="s", subType=pb.CommandSubscribe.Exclusive,
                consumer_id=number, request_id=0,
            )
        )  # fmt: skip
    roles = [roles_of(broker, topic) for topic in TOPICS]
    client.ping()
    assert roles == [{"carol"}] * len(TOPICS)


@pytest.mark.parametrize("workers", ["1", "3"])
def test_a_relayed_client_has_its_role_everywhere_and_is_cut_off_everywhere(
    make_broker: MakeBroker, tmp_path: Path, workers: str
) -> None:
    """The client opens topics of all workers on one connection, without a lookup."""
    broker = make_broker(
        **credentials.settings(tmp_path, authenticationRefreshCheckSeconds="1"),
        magnetarWorkers=workers,
    )
    seconds = itertools.chain([4], itertools.repeat(30))

    def expire() -> None:
        with RawClient(broker.port, handshake=False) as client:
            opens_all(client, broker, next(seconds))
            assert all(frame.kind != Kind.ERROR for frame in client.await_close())

    within_limit(expire, Closed)
    for topic in TOPICS:
        while roles_of(broker, topic):
            pass


@pytest.mark.parametrize("workers", ["1", "3"])
def test_certificates_over_https(
    make_broker: MakeBroker,
    tmp_path: Path,
    authority: Authority,
    certificate: Files,
    issuer: Issuer,
    workers: str,
) -> None:
    broker = started(make_broker, tmp_path, authority, issuer, workers)
    context = ssl.create_default_context(cafile=authority.trust)
    url = f"{broker.https_url}/admin/v2/clusters"
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(url, context=context)
    assert refused.value.code == 401
    refused.value.close()
    context.load_cert_chain(certificate.certificate, certificate.key)
    with urllib.request.urlopen(url, context=context) as response:
        assert response.status == 200
