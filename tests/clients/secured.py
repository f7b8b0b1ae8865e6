"""A broker with TLS, every method of authentication and authorization, for other clients."""

import json
import urllib.request
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Protocol

import credentials
from certificates import Authority
from clients.stage import Broker, Stage
from issuer import SECRET_OF_CLIENT, Issuer

ROLE = "alice"
"""What every method proves; it may produce and consume in public/default."""
SUPER_USER = "root"
SHORT_SECONDS = 5
PACKAGE = "org.apache.pulsar.broker.authentication"
PROVIDERS = (
    "AuthenticationProviderToken",
    "AuthenticationProviderBasic",
    "AuthenticationProviderTls",
    "oidc.AuthenticationProviderOpenID",
)


def only(scenarios: Iterable[str]) -> list[str]:
    """Those that need a secured broker, by their names."""
    return [name for name in scenarios if name.removeprefix("Test").startswith("Secure")]


def without(scenarios: Iterable[str]) -> list[str]:
    """The others."""
    return [name for name in scenarios if not only([name])]


class SecuredBroker(Broker, Protocol):
    """One with ports for TLS."""

    @property
    def tls_url(self) -> str: ...

    @property
    def https_url(self) -> str: ...


class Secured:
    """Certificates, issuers and key files, and the settings of a broker that accepts them."""

    def __init__(self, folder: Path) -> None:
        other = folder / "other"
        other.mkdir()
        authority, stranger = Authority(folder), Authority(other, "stranger")
        server, client = authority.server("127.0.0.1", "localhost"), authority.client(ROLE)
        unknown, expired = stranger.client(ROLE), authority.client(ROLE, days=-1)
        self._other_name = authority.server("other.test")
        self._issuers = Issuer(ROLE), Issuer(ROLE, SHORT_SECONDS)
        self.settings = {
            **credentials.settings(folder),
            "authenticationProviders": ",".join(f"{PACKAGE}.{name}" for name in PROVIDERS),
            "authenticationRefreshCheckSeconds": str(SHORT_SECONDS),
            "authorizationEnabled": "true",
            "superUserRoles": SUPER_USER,
            "brokerServicePortTls": "0",
            "webServicePortTls": "0",
            "tlsCertificateFilePath": server.certificate,
            "tlsKeyFilePath": server.key,
            "tlsTrustCertsFilePath": authority.trust,
            "openIDAllowedTokenIssuers": ",".join(one.url for one in self._issuers),
            "openIDAllowedAudiences": "broker",
            "openIDRequireIssuersUseHttps": "false",
        }
        self._details = {
            "trust": authority.trust,
            "otherTrust": stranger.trust,
            "cert": client.certificate,
            "key": client.key,
            "strangerCert": unknown.certificate,
            "strangerKey": unknown.key,
            "expiredCert": expired.certificate,
            "expiredKey": expired.key,
            "secret": credentials.SECRET.decode(),
            "password": credentials.PASSWORD,
            "issuer": self._issuers[0].url,
            "shortIssuer": self._issuers[1].url,
            "audience": "broker",
            "clientSecretFile": str(_key_file(folder / "client.json", SECRET_OF_CLIENT)),
            "wrongSecretFile": str(_key_file(folder / "wrong.json", "wrong")),
        }

    def prepare(self, broker: SecuredBroker) -> None:
        """Grant the role what it may do, of a broker that runs with the settings."""
        self._grant(broker)
        self._details |= {
            "plainUrl": broker.service_url,
            "url": broker.tls_url,
            "webUrl": broker.https_url,
        }

    @property
    def settings_of_another_name(self) -> dict[str, str]:
        """Those of a broker whose certificate is for a host of another name."""
        return self.settings | {
            "tlsCertificateFilePath": self._other_name.certificate,
            "tlsKeyFilePath": self._other_name.key,
        }

    def close(self) -> None:
        for issuer in self._issuers:
            issuer.close()

    @property
    def details(self) -> str:
        """What a scenario has to know, as words NAME=VALUE."""
        assert not any(" " in value for value in self._details.values())
        return " ".join(f"{name}={value}" for name, value in self._details.items())

    def _grant(self, broker: Broker) -> None:
        request = urllib.request.Request(
            f"{broker.http_url}/admin/v2/namespaces/public/default/permissions/{ROLE}",
            json.dumps(["produce", "consume"]).encode(),
            {
                "Content-Type": "application/json",
                "Authorization": f"Bearer {credentials.token(SUPER_USER)}",
                "X-Pulsar-Auth-Method-Name": "token",
            },
        )
        urllib.request.urlopen(request).close()


class SecuredStage(Stage):
    """A stage whose broker is secured; says how, and starts `another-name` whose name is wrong."""

    def __init__(
        self,
        broker: Broker,
        make_broker: Callable[..., SecuredBroker],
        topic: str,
        secured: Secured,
    ) -> None:
        super().__init__(broker, make_broker, topic)
        self._make_secured = make_broker
        self._secured = secured

    def answer(self, question: str) -> str:
        what = question.strip()
        if what == "secured":
            return self._secured.details
        if what == "another-name":
            broker = self._make_secured(**self._secured.settings_of_another_name)
            return f"url={broker.tls_url} webUrl={broker.https_url}"
        return super().answer(question)


def _key_file(path: Path, secret: str) -> Path:
    """What the official clients read the credentials of a client of an issuer from."""
    path.write_text(
        json.dumps({"type": "client_credentials", "client_id": "client", "client_secret": secret})
    )
    return path
