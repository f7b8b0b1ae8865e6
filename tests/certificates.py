"""Certificates for tests: an authority, and what it signs, as PEM files.

They have all that RFC 5280 asks for, which Python verifies from 3.13 on.
"""

import ipaddress
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

DAY = timedelta(days=1)


class Files(NamedTuple):
    """A certificate and its key."""

    certificate: str
    key: str

    @property
    def serial(self) -> int:
        return self._read().serial_number

    @property
    def not_after(self) -> datetime:
        return self._read().not_valid_after_utc

    def _read(self) -> x509.Certificate:
        return x509.load_pem_x509_certificate(Path(self.certificate).read_bytes())


class Authority:
    """Signs certificates of servers and clients; `trust` is the file of its own."""

    def __init__(self, directory: Path, name: str = "authority") -> None:
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(name)
        self._numbers = iter(range(1, 1_000_000))
        certificate = (
            _begin(self._name, self._name, self._key, 3650 * DAY)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(_usage_of_authority(), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.trust = str(directory / f"{name}.pem")
        Path(self.trust).write_bytes(_pem(certificate))

    def server(self, *names: str, days: int = 90) -> Files:
        """Valid for host names and addresses; with negative days it has expired."""
        alternatives = x509.SubjectAlternativeName([_alternative(name) for name in names])
        return self._sign(names[0], days, alternatives, ExtendedKeyUsageOID.SERVER_AUTH)

    def peer(self, *names: str, days: int = 90) -> Files:
        """Valid for a side of a link, which is a server and a client."""
        alternatives = x509.SubjectAlternativeName([_alternative(name) for name in names])
        usages = ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH
        return self._sign(names[0], days, alternatives, *usages)

    def client(self, role: str, days: int = 90) -> Files:
        """Of a client, with the role as common name."""
        usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])
        return self._sign(role, days, usage, ExtendedKeyUsageOID.CLIENT_AUTH)

    def _sign(
        self, name: str, days: int, extension: x509.ExtensionType, *usages: x509.ObjectIdentifier
    ) -> Files:
        key = ec.generate_private_key(ec.SECP256R1())
        building = _begin(_name(name), self._name, key, days * DAY)
        building = building.add_extension(extension, critical=False).add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()),
            critical=False,
        )
        if not isinstance(extension, x509.ExtendedKeyUsage):
            building = building.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        stem = self._directory / f"{name}-{next(self._numbers)}"
        made = Files(f"{stem}.pem", f"{stem}.key.pem")
        Path(made.certificate).write_bytes(_pem(building.sign(self._key, hashes.SHA256())))
        Path(made.key).write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        os.chmod(made.key, 0o600)
        return made


def _begin(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, life: timedelta
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(min(now, now + life) - 10 * DAY)
        .not_valid_after(now + life)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _usage_of_authority() -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=False,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=True,
        crl_sign=True,
        encipher_only=False,
        decipher_only=False,
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
