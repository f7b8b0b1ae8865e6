"""The role in a TLS certificate."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from magnetar_broker.authentication.certificates import Certificates
from magnetar_broker.authentication.provider import Credentials, InvalidCredentials

KEY = ec.generate_private_key(ec.SECP256R1())


def certificate(*names: tuple[x509.ObjectIdentifier, str]) -> bytes:
    """Of a subject with these attributes, in the order of the certificate."""
    subject = x509.Name([x509.NameAttribute(kind, value) for kind, value in names])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(subject, subject, KEY.public_key(), 1)
        .not_valid_before(now)
        .not_valid_after(now + timedelta(days=1))
        .sign(KEY, hashes.SHA256())
    )
    return made.public_bytes(Encoding.DER)


def role(der: bytes) -> str:
    return asyncio.run(Certificates().identify(Credentials(b"", der))).role


def test_the_role_is_the_common_name_that_is_written_first() -> None:
    common, unit = NameOID.COMMON_NAME, NameOID.ORGANIZATIONAL_UNIT_NAME
    assert role(certificate((common, "alice"))) == "alice"
    assert role(certificate((unit, "CN=admin"), (common, "alice"))) == "alice"
    assert role(certificate((common, "first"), (unit, "x"), (common, "last"))) == "last"
    assert role(certificate((common, "Doe, Jane=x"))) == "Doe, Jane=x"


@pytest.mark.parametrize(
    "der", [b"", b"nonsense", certificate((NameOID.ORGANIZATION_NAME, "alice"))], ids=range(3)
)
def test_anything_else_proves_nothing(der: bytes) -> None:
    with pytest.raises(InvalidCredentials):
        role(der)
