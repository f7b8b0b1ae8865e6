"""The files of TLS: read together, checked, and made into contexts for new connections."""

import os
import ssl
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from magnetar_broker.config import Settings
from magnetar_broker.config.domains import TlsProtocol
from magnetar_broker.config.load import ConfigError
from magnetar_broker.server.tls.ciphers import divided

VERSIONS = {
    TlsProtocol.TLS_1_2: ssl.TLSVersion.TLSv1_2,
    TlsProtocol.TLS_1_3: ssl.TLSVersion.TLSv1_3,
}
State = tuple[tuple[int, int, int] | None, ...]
"""Modification time, size and inode number of each file; None for one that cannot be read."""


class Certificate(NamedTuple):
    """A certificate of the broker."""

    serial: int
    not_before: datetime
    not_after: datetime
    subject: str


@dataclass(frozen=True)
class Loaded:
    """The contents of the files, ready for use."""

    clients: ssl.SSLContext
    """The context for the binary protocol."""
    http: ssl.SSLContext
    certificate: Certificate


def state_of(settings: Settings) -> State:
    """Return a value that differs from the former one when a file has changed."""
    return tuple(_state(path) for _, path in _paths(settings))


def load(settings: Settings) -> Loaded:
    """Load the files; `ConfigError` names the file that cannot be used, and the reason."""
    certificate_path, key_path = settings.tls_certificate_file_path, settings.tls_key_file_path
    assert certificate_path is not None and key_path is not None
    for key, path in _paths(settings):
        _check_readable(key, path)
    certificate = certificate_of(Path(certificate_path).read_bytes(), certificate_path)
    make = _Making(settings, certificate_path, key_path)
    return Loaded(
        make.context("tlsProtocols", settings.tls_protocols, "tlsCiphers", settings.tls_ciphers),
        make.context(
            "webServiceTlsProtocols",
            settings.web_service_tls_protocols,
            "webServiceTlsCiphers",
            settings.web_service_tls_ciphers,
        ),
        certificate,
    )


def certificate_of(pem: bytes, path: str) -> Certificate:
    """Return the first certificate of a file; `ConfigError` if it has none."""
    from cryptography import x509  # noqa: PLC0415 (heavy: a broker without TLS does without it)

    try:
        found = x509.load_pem_x509_certificate(pem)
    except ValueError as error:
        raise ConfigError(
            f"tlsCertificateFilePath={path}: it has no certificate in PEM form (BEGIN CERTIFICATE)"
        ) from error
    return Certificate(
        found.serial_number,
        found.not_valid_before_utc,
        found.not_valid_after_utc,
        found.subject.rfc4514_string(),
    )


class _Making:
    def __init__(self, settings: Settings, certificate: str, key: str) -> None:
        self._settings = settings
        self._certificate = certificate
        self._key = key

    def context(
        self,
        protocols_key: str,
        protocols: frozenset[TlsProtocol],
        ciphers_key: str,
        ciphers: tuple[str, ...],
    ) -> ssl.SSLContext:
        made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        # Resumption would skip the check of a client's certificate, and renegotiation is a way to
        # make the server work: neither is worth it for connections that stay open.
        made.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_TICKET
        made.num_tickets = 0
        allowed = set(protocols or TlsProtocol)
        if ciphers:
            has_1_3, others = divided(ciphers)
            usable = {TlsProtocol.TLS_1_3: has_1_3, TlsProtocol.TLS_1_2: bool(others)}
            allowed = {version for version in allowed if usable[version]}
            _set_ciphers(made, ciphers_key, others)
        if not allowed:
            named = ",".join(sorted(protocols))
            raise ConfigError(f"{protocols_key}={named}: {ciphers_key} has no suite for it")
        # promise: versions of TLS that the settings exclude are not spoken
        made.minimum_version = VERSIONS[min(allowed)]
        made.maximum_version = VERSIONS[max(allowed)]
        self._load_own(made)
        self._trust(made)
        return made

    def _load_own(self, made: ssl.SSLContext) -> None:
        try:
            made.load_cert_chain(self._certificate, self._key, _Encrypted(self._key))
        except ssl.SSLError as error:
            reason = (
                "it is not the key of the certificate in tlsCertificateFilePath="
                f"{self._certificate}"
                if error.reason == "KEY_VALUES_MISMATCH"
                else f"it has no key in PEM form that can be read ({_reason(error)})"
            )
            raise ConfigError(f"tlsKeyFilePath={self._key}: {reason}") from error

    def _trust(self, made: ssl.SSLContext) -> None:
        settings, path = self._settings, self._settings.tls_trust_certs_file_path
        if path is None or settings.tls_allow_insecure_connection:
            made.verify_mode = ssl.CERT_NONE
            return
        try:
            made.load_verify_locations(path)
        except ssl.SSLError as error:
            raise ConfigError(
                f"tlsTrustCertsFilePath={path}: it has no certificates in PEM form "
                f"({_reason(error)})"
            ) from error
        # As in Java, each certificate of the file is trusted, also without its issuer.
        made.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        # promise[required = settings.tls_require_trusted_client_cert_on_connect -> return]: the
        #   certificates of clients are verified
        required = settings.tls_require_trusted_client_cert_on_connect
        # promise[without CERT_REQUIRED if required else ssl.]: a certificate is required of clients
        #   where settings say so
        made.verify_mode = ssl.CERT_REQUIRED if required else ssl.CERT_OPTIONAL


def _set_ciphers(made: ssl.SSLContext, key: str, names: Iterable[str]) -> None:
    """Set the suites; `ConfigError` names one that is unknown, or that OpenSSL counts as broken."""
    chosen = list(names)
    for name in chosen:
        try:
            made.set_ciphers(name)
        except ssl.SSLError as error:
            raise ConfigError(f"{key}={name}: no cipher suite that OpenSSL allows") from error
    if chosen:
        made.set_ciphers(":".join(chosen))


class _Encrypted:
    """Raises `ConfigError` instead of asking for a password: OpenSSL would ask the terminal.

    It is called only if the key is encrypted.
    """

    def __init__(self, path: str) -> None:
        self._path = path

    def __call__(self) -> str:
        raise ConfigError(
            f"tlsKeyFilePath={self._path}: the key is encrypted; decrypt it "
            "(openssl pkey -in FILE -out FILE), and make it readable for the broker alone"
        )


def _paths(settings: Settings) -> list[tuple[str, str]]:
    found = (
        ("tlsCertificateFilePath", settings.tls_certificate_file_path),
        ("tlsKeyFilePath", settings.tls_key_file_path),
        ("tlsTrustCertsFilePath", settings.tls_trust_certs_file_path),
    )
    return [(key, path) for key, path in found if path is not None]


def _state(path: str) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _check_readable(key: str, path: str) -> None:
    try:
        with open(path, "rb"):
            pass
    except OSError as error:
        raise ConfigError(f"{key}={path}: {(error.strerror or str(error)).lower()}") from error


def _reason(error: ssl.SSLError) -> str:
    return (error.reason or str(error)).replace("_", " ").lower()
