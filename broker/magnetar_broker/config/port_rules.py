"""Ports and TLS settings that contradict each other."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from magnetar_broker.config.values import render

if TYPE_CHECKING:
    from magnetar_broker.config.settings import Settings

Contradiction = tuple[str, str, str]
"""Key, value and reason."""


def contradictory_ports(settings: "Settings") -> Iterator[Contradiction]:
    """Yield combinations of settings with which the ports cannot be opened."""
    clients = (settings.broker_service_port, settings.broker_service_port_tls)
    if clients == (None, None):
        why = "no port is left for clients: set brokerServicePort or brokerServicePortTls"
        yield "brokerServicePort", "", why
    seen: dict[int, str] = {}
    for key, port in (
        ("brokerServicePort", settings.broker_service_port),
        ("brokerServicePortTls", settings.broker_service_port_tls),
        ("webServicePort", settings.web_service_port),
        ("webServicePortTls", settings.web_service_port_tls),
    ):
        if port and port in seen:
            yield key, str(port), f"{seen[port]} is the same"
        elif port:
            seen[port] = key


def contradictory_tls(settings: "Settings") -> Iterator[Contradiction]:
    """Yield combinations of settings with which TLS cannot work, or does not protect."""
    ports = {
        "brokerServicePortTls": settings.broker_service_port_tls,
        "webServicePortTls": settings.web_service_port_tls,
    }
    opened = {key: port for key, port in ports.items() if port is not None}
    if settings.tls_enabled and not opened:
        yield "tlsEnabled", "true", f"set {' or '.join(ports)}, or remove it"
    for key, port in opened.items():
        if settings.tls_certificate_file_path is None or settings.tls_key_file_path is None:
            yield key, str(port), "set tlsCertificateFilePath and tlsKeyFilePath, too"
    if settings.tls_require_trusted_client_cert_on_connect and opened:
        key, value = "tlsRequireTrustedClientCertOnConnect", "true"
        if settings.tls_allow_insecure_connection:
            yield key, value, "tlsAllowInsecureConnection=true verifies nothing; remove one of them"
        elif settings.tls_trust_certs_file_path is None:
            yield key, value, "set tlsTrustCertsFilePath, which clients are verified with"


def doubtful_tls(settings: "Settings") -> Iterator[str]:
    """Yield warnings of values that are allowed but probably not intended."""
    ports = (settings.broker_service_port_tls, settings.web_service_port_tls)
    if settings.tls_allow_insecure_connection and ports != (None, None):
        yield (
            f"tlsAllowInsecureConnection={render(True)}: certificates of clients are not verified, "
            "and none can authenticate with one; remove it, and set tlsTrustCertsFilePath"
        )
