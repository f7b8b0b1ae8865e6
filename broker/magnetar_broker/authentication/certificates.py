"""TLS certificates of clients: the provider of the method `tls`."""

from collections.abc import Mapping
from typing import Final

from cryptography import x509
from cryptography.x509.oid import NameOID

from magnetar_broker.authentication.identity import Identity
from magnetar_broker.authentication.provider import Credentials, InvalidCredentials

NO_CERTIFICATE: Final = "INVALID_CERTS"


class Certificates:
    """Proves roles by certificates, which were verified when the connection was made."""

    name = "AuthenticationProviderTls"
    method = "tls"

    def data_of(self, headers: Mapping[str, str]) -> bytes:
        """Return b"": the certificate of the connection is used instead."""
        return b""

    async def identify(self, credentials: Credentials) -> Identity:
        """Return the identity with the common name in the certificate."""
        return Identity(common_name(credentials.certificate), self.method)


def common_name(certificate: bytes) -> str:
    """Return the last common name of the subject, which RFC 2253 writes first."""
    if not certificate:
        raise InvalidCredentials("the client has no TLS certificate", NO_CERTIFICATE)
    try:
        subject = x509.load_der_x509_certificate(certificate).subject
    except ValueError:
        raise InvalidCredentials(
            "the client's TLS certificate cannot be read", NO_CERTIFICATE
        ) from None
    for part in reversed(subject.rdns):
        for name in part.get_attributes_for_oid(NameOID.COMMON_NAME):
            if isinstance(name.value, str) and name.value.strip():
                return name.value
    raise InvalidCredentials(
        "the subject of the client's TLS certificate has no common name", "INVALID_CN"
    )
