"""A certificate authority for development, and the certificates that it issues.

It is not that of `trustme`, whose certificates serve clients and servers alike, so that a client
could pose as the broker, and which cannot renew a certificate for the same key.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AUTHORITY_DAYS: Final = 3650
EARLIER: Final = timedelta(hours=1)
"""The time by which the validity of certificates begins before their creation: clocks differ."""


@dataclass(frozen=True, slots=True)
class Issued:
    """A certificate and its key, in PEM (PKCS8, not encrypted)."""

    certificate: bytes
    key: bytes


@dataclass(frozen=True, slots=True)
class Authority:
    """Issues certificates."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @classmethod
    def new(cls, name: str) -> "Authority":
        """Create an authority with a key of its own."""
        key = ec.generate_private_key(ec.SECP256R1())
        public = key.public_key()
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        certificate = (
            _begun(subject, subject, public, AUTHORITY_DAYS)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs_certificates=True), critical=True)
            .sign(key, SHA256())
        )
        return cls(certificate, key)

    @classmethod
    def load(cls, certificate: bytes, key: bytes) -> "Authority":
        """Load an authority that `new` has created; ValueError for any other."""
        loaded = _key_of(key)
        found = x509.load_pem_x509_certificate(certificate)
        if found.public_key() != loaded.public_key():
            raise ValueError("the key is not that of the certificate")
        return cls(found, loaded)

    @property
    def as_issued(self) -> Issued:
        """The certificate and the key of the authority itself."""
        return Issued(self.certificate.public_bytes(Encoding.PEM), _pem(self.key))

    def server(self, hosts: Sequence[str], days: int, key: bytes | None = None) -> Issued:
        """Issue a certificate for a broker that is reached by these names and addresses.

        `key` is one that `server` has returned before; ValueError if it is not.
        """
        names = x509.SubjectAlternativeName([_general(host) for host in hosts])
        return self._leaf(hosts[0], ExtendedKeyUsageOID.SERVER_AUTH, days, names, key)

    def client(self, role: str, days: int) -> Issued:
        """Issue a certificate for a client of this role, which is its common name."""
        return self._leaf(role, ExtendedKeyUsageOID.CLIENT_AUTH, days)

    def _leaf(
        self,
        name: str,
        purpose: x509.ObjectIdentifier,
        days: int,
        names: x509.SubjectAlternativeName | None = None,
        former: bytes | None = None,
    ) -> Issued:
        key = _key_of(former) if former else ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        issuer = self.key.public_key()
        builder = (
            _begun(subject, self.certificate.subject, key.public_key(), days)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer), critical=False
            )
        )
        if names is not None:
            builder = builder.add_extension(names, critical=False)
        signed = builder.sign(self.key, SHA256())
        return Issued(signed.public_bytes(Encoding.PEM), _pem(key))


def hosts_of(certificate: bytes) -> list[str]:
    """Return the names and addresses in a server's certificate; ValueError if it has none."""
    found = x509.load_pem_x509_certificate(certificate)
    try:
        names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        raise ValueError("the certificate names no host") from None
    return [str(name.value) for name in names]


def _begun(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, days: int
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - EARLIER)
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _general(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _key_of(pem: bytes) -> ec.EllipticCurvePrivateKey:
    key = load_pem_private_key(pem, None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError("its key is not for an elliptic curve")
    return key


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
