"""The files that `magnetar init --secure` writes: all that a broker open to other hosts needs."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from magnetar.cli.setup import token_keys
from magnetar.cli.setup.cert_files import AUTHORITY, SERVER, CertFiles
from magnetar.cli.setup.certs import DAYS
from magnetar.cli.setup.files import PUBLIC, FileProblem, make_directory, write_new

ADMIN: Final = "admin"
EXAMPLE: Final = "app"
ALGORITHM: Final = "RS256"
BROKER_CONF: Final = """\
# Written by `magnetar init --secure`.  Start the broker with
#   magnetar standalone --conf {directory}/broker.conf

# Only ports with TLS are open.
brokerServicePort=
brokerServicePortTls={port}
webServicePort=
webServicePortTls={http_port}
bindAddress={bind}
advertisedAddress={advertised}
magnetarDataDirectory={directory}/data

# Certificates: renew the broker's with `magnetar certs --renew {directory}/certs`; no restart.
tlsCertificateFilePath={cert}
tlsKeyFilePath={key}
tlsTrustCertsFilePath={trust}

# Clients prove their role by a token, or by a certificate of the authority above.
authenticationEnabled=true
authenticationProviders=org.apache.pulsar.broker.authentication.AuthenticationProviderToken,\
org.apache.pulsar.broker.authentication.AuthenticationProviderTls
tokenPublicKey=file://{public}
tokenPublicAlg={algorithm}
authenticateMetricsEndpoint=true

# Roles may do what they were granted; super users may do everything.
authorizationEnabled=true
superUserRoles={admin}
"""
CLIENT_CONF: Final = """\
# Written by `magnetar init --secure`: for the role {role}.
webServiceUrl={web_url}
brokerServiceUrl={url}
authPlugin=org.apache.pulsar.client.impl.auth.AuthenticationToken
authParams={token}
tlsTrustCertsFilePath={trust}
tlsAllowInsecureConnection=false
tlsEnableHostnameVerification=true
"""


@dataclass(frozen=True, slots=True)
class Address:
    """The address under which clients reach the broker."""

    host: str | None
    """The name for other machines; None: only this machine connects."""
    port: int
    http_port: int

    @property
    def name(self) -> str:
        return self.host or "localhost"

    @property
    def authority(self) -> str:
        """The name in the form of a URL."""
        return f"[{self.name}]" if ":" in self.name else self.name

    @property
    def url(self) -> str:
        return f"pulsar+ssl://{self.authority}:{self.port}"

    @property
    def web_url(self) -> str:
        return f"https://{self.authority}:{self.http_port}"


class SecureDirectory:
    """The files of a secure broker, in one directory."""

    def __init__(self, directory: Path, address: Address) -> None:
        self.directory = directory.absolute()
        self.address = address
        self.certs = CertFiles(self.directory / "certs")
        self.private_key = self.directory / "keys" / "token-private.key"
        self.public_key = self.directory / "keys" / "token-public.key"
        self.broker_conf = self.directory / "broker.conf"

    @property
    def trust(self) -> Path:
        """The path of the certificate that clients trust."""
        return self.certs.cert(AUTHORITY)

    def token(self, role: str) -> Path:
        """Return the path of the token of a role."""
        return self.directory / "tokens" / f"{role}.token"

    def client_conf(self, role: str) -> Path:
        """Return the path of a role's connection settings; the administrator's are client.conf."""
        return self.directory / ("client.conf" if role == ADMIN else f"client-{role}.conf")

    def create(self, days: int = DAYS) -> None:
        """Write all files; FileProblem, and no file is written, if one exists already."""
        self._check()
        for directory in (self.directory, self.private_key.parent, self.token(ADMIN).parent):
            make_directory(directory)
        self.certs.create([self.address.host] if self.address.host else [], days)
        private, public = token_keys.new_pair(ALGORITHM)
        write_new(self.private_key, private)
        write_new(self.public_key, public, PUBLIC)
        expiry = int(time.time()) + days * 86_400
        for role in (ADMIN, EXAMPLE):
            self.certs.add_client(role, days)
            token = token_keys.signed_with_private(private, {"sub": role, "exp": expiry}, {})
            write_new(self.token(role), token.encode())
            write_new(self.client_conf(role), self._client_conf(role).encode())
        write_new(self.broker_conf, self._broker_conf().encode())

    def _check(self) -> None:
        text = str(self.directory)
        if "\n" in text or "%" in text or "," in text or text != text.strip():
            raise FileProblem(f"{text!r} cannot be named in a configuration: use a simpler name")
        if self.directory.exists() and any(self.directory.iterdir()):
            raise FileProblem(
                f"{self.directory} is not empty, and nothing in it is overwritten: name another "
                "directory"
            )

    def _broker_conf(self) -> str:
        return BROKER_CONF.format(
            directory=self.directory,
            port=self.address.port,
            http_port=self.address.http_port,
            bind="0.0.0.0"  # only if a host was given; clients must authenticate
            if self.address.host
            else "127.0.0.1",
            advertised=self.address.name,
            cert=self.certs.cert(SERVER),
            key=self.certs.key(SERVER),
            trust=self.trust,
            public=self.public_key,
            algorithm=ALGORITHM,
            admin=ADMIN,
        )

    def _client_conf(self, role: str) -> str:
        return CLIENT_CONF.format(
            role=role,
            web_url=self.address.web_url,
            url=self.address.url,
            token=self.token(role).as_uri(),
            trust=self.trust,
        )
