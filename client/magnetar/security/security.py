"""The credentials and TLS of a client."""

import ssl
from typing import Final

from magnetar.base.errors import MagnetarError, TlsFailed
from magnetar.base.settings import Address, parse_service_url
from magnetar.security.authentication import Authentication
from magnetar.security.tls import Tls, TlsContexts


class Security:
    """The credentials and the TLS settings of one client."""

    def __init__(self, auth: Authentication | None = None, tls: Tls | None = None) -> None:
        self._auth = auth
        certificate = None if auth is None else auth.certificate
        self._contexts = TlsContexts((tls or Tls()).with_certificate(certificate))

    @property
    def method(self) -> str:
        """The name of the authentication method; "" without authentication."""
        return "" if self._auth is None else self._auth.method

    async def credentials(self, *, renewed: bool = False) -> bytes | None:
        """Return the credentials for a broker, or None.  May raise CredentialsError."""
        return None if self._auth is None else await self._auth.shown(renewed=renewed)

    def context_for(self, address: Address) -> ssl.SSLContext | None:
        """Return the TLS context of a connection; None if the address has no TLS.

        TlsFailed names the file that cannot be used.
        """
        if not address.is_tls:
            return None
        try:
            return self._contexts.current()
        except ValueError as error:
            raise TlsFailed(str(error)) from error


OPEN: Final = Security()
"""No credentials, and the system's authorities for TLS."""


def security_of(
    service_url: str, auth: Authentication | None, tls: Tls | ssl.SSLContext | None
) -> Security:
    """Return the security of a client; ValueError if it does not fit the URL.  Logs risks."""
    chosen = Tls(context=tls) if isinstance(tls, ssl.SSLContext) else tls or Tls()
    security = Security(auth, chosen)
    first = parse_service_url(service_url)[0]
    if not first.is_tls:
        if auth is not None and auth.certificate is not None:
            raise ValueError(
                f"{service_url}: a client's certificate needs TLS: use a pulsar+ssl:// URL"
            )
        return security
    chosen.warn()
    try:
        security.context_for(first)
    except TlsFailed as error:
        raise ValueError(str(error)) from error
    return security


def tls_failure(address: Address, error: BaseException | None) -> MagnetarError | None:
    """Return the error to raise if TLS failed for a permanent reason; else None."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return TlsFailed(
            f"the certificate of {address} is not accepted: {error.verify_message}; trust its "
            "authority (trust_file, --tls-trust-cert-path), and use a host name that it is issued "
            "for"
        )
    if not isinstance(error, ssl.SSLError) or isinstance(error, ssl.SSLEOFError):
        return None
    reason = (error.reason or str(error)).lower().replace("_", " ")
    hint = _HINTS.get(reason, "")
    return TlsFailed(f"TLS with {address} failed: {reason}{hint and '; ' + hint}")


_HINTS: Final = {
    "wrong version number": "it does not speak TLS: use the broker's port with TLS "
    "(brokerServicePortTls)",
    "tlsv13 alert certificate required": "the broker asks for a certificate (auth.Certificate)",
    "sslv3 alert handshake failure": "the broker may ask for a certificate (auth.Certificate)",
}
