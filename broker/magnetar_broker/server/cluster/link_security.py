"""How the two sides of a link between machines know each other: certificates of one authority."""

import ipaddress
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from magnetar_broker.config.load import ConfigError

REASONS: Final = {
    **dict.fromkeys(
        ("HTTP_REQUEST", "WRONG_VERSION_NUMBER", "WRONG_SSL_VERSION", "PACKET_LENGTH_TOO_LONG"),
        "only one of the two sides uses TLS",
    ),
    **dict.fromkeys(
        (
            "TLSV1_ALERT_UNKNOWN_CA",
            "SSLV3_ALERT_BAD_CERTIFICATE",
            "SSLV3_ALERT_CERTIFICATE_UNKNOWN",
            "SSLV3_ALERT_CERTIFICATE_EXPIRED",
            "SSLV3_ALERT_UNSUPPORTED_CERTIFICATE",
        ),
        "it does not accept the certificate of this broker: both must be of one authority, for "
        "servers and clients, and valid now",
    ),
    **dict.fromkeys(
        ("PEER_DID_NOT_RETURN_A_CERTIFICATE", "TLSV13_ALERT_CERTIFICATE_REQUIRED"),
        "a side without a certificate gets no link",
    ),
}
"""The texts for people, by OpenSSL's reasons."""


@dataclass(frozen=True, slots=True)
class LinkSecurity:
    """The certificates of links between machines; the files are read for every new link."""

    certificate: str | None = None
    """The file of this broker's certificate, in PEM form; None for links without TLS."""
    key: str | None = None
    trust: str | None = None
    """The certificates of the authority of both sides.  It signs those of brokers only: whoever
    has one of its certificates can be a broker of the cluster."""
    names: frozenset[str] = frozenset()
    """The names of which the peer's certificate must have one; empty for any."""
    allows_plaintext: bool = False
    """Whether links without TLS may leave the machine."""

    @property
    def uses_tls(self) -> bool:
        """Whether links use TLS."""
        return self.certificate is not None

    def check(self) -> None:
        """Raise `ConfigError` if the files cannot be used."""
        if self.uses_tls:
            self.accepting()
            self.connecting()

    def accepting(self) -> ssl.SSLContext:
        """Return the context of the side that accepts a link; `ConfigError` as `check` does."""
        return self._context(ssl.PROTOCOL_TLS_SERVER)

    def connecting(self) -> ssl.SSLContext:
        """Return the context of the side that connects, which also checks the host name."""
        return self._context(ssl.PROTOCOL_TLS_CLIENT)

    def why_not(self, host: str) -> str:
        """Return why a link without TLS may not lead to an address; blank if it may."""
        # promise: links without TLS stay on the machine
        if self.allows_plaintext or ipaddress.ip_address(host).is_loopback:
            return ""
        return "a link to another machine needs TLS"

    def objection_to(self, certificate: Mapping[str, Any]) -> str:
        """Return why the peer's certificate is not enough; blank if it is."""
        found = names_of(certificate)
        # promise: a certificate of another name gets no link
        if self.names and self.names.isdisjoint(found):
            shown = ", ".join(sorted(found)) or "no name"
            return f"its certificate is of {shown}: expected {' or '.join(sorted(self.names))}"
        return ""

    def _context(self, side: int) -> ssl.SSLContext:
        made = ssl.SSLContext(side)
        made.minimum_version = ssl.TLSVersion.TLSv1_3
        made.options |= ssl.OP_NO_TICKET
        # promise: a side without a certificate gets no link
        made.verify_mode = ssl.CERT_REQUIRED
        assert self.certificate is not None
        own = f"{self.certificate} and its key {self.key}"
        _loaded(own, lambda: made.load_cert_chain(str(self.certificate), self.key, _no_password))
        _loaded(str(self.trust), lambda: made.load_verify_locations(self.trust))
        return made


def _no_password() -> str:
    # Without this, OpenSSL asks for it at the terminal.
    raise ConfigError("the key of a link cannot be encrypted")


def _loaded(what: str, load: Callable[[], None]) -> None:
    try:
        load()
    except (OSError, TypeError) as error:  # TypeError: no file is named
        raise ConfigError(f"links between brokers cannot use {what}: {reason_of(error)}") from error


def names_of(certificate: Mapping[str, Any]) -> set[str]:
    """Return the names in a certificate, as `ssl` gives it: alternative ones and common ones."""
    alternatives = {value for _, value in certificate.get("subjectAltName", ())}
    common = {
        value
        for part in certificate.get("subject", ())
        for key, value in part
        if key == "commonName"
    }
    return alternatives | common


def reason_of(error: Exception) -> str:
    """Return why a connection failed, for people."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted: {error.verify_message}"
    if isinstance(error, ssl.SSLError) and error.reason:
        return REASONS.get(error.reason) or error.reason.replace("_", " ").lower()
    return str(error) or type(error).__name__
