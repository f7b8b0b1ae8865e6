"""TLS of the client: trusted authorities, and the client's certificate."""

import logging
import ssl
from dataclasses import dataclass, field, replace
from pathlib import Path

logger = logging.getLogger(__name__)

Stamp = tuple[tuple[str, int, int], ...]


@dataclass(frozen=True, slots=True)
class Tls:
    """The TLS settings of connections to pulsar+ssl:// and https:// addresses.

    The files are in PEM, and are read again when they have changed.
    """

    trust_file: str | Path | None = None
    """The certificates of trusted authorities; None for those of the system."""
    cert_file: str | Path | None = None
    """The client's certificate, for brokers that require one."""
    key_file: str | Path | None = None
    """The key of `cert_file`; None if it is in the same file."""
    verify_hostname: bool = True
    """Whether the broker's certificate must name the host of the address."""
    allow_insecure: bool = False
    """Whether to accept any certificate: an attacker on the network can then read everything."""
    context: ssl.SSLContext | None = field(default=None, repr=False)
    """A context to be used unchanged, in place of the settings above."""

    def warn(self) -> None:
        """Log a warning for each disabled check."""
        if self.context is not None:
            return
        if self.allow_insecure:
            logger.warning(
                "TLS without verification: any certificate is accepted, so others can read and "
                "change everything, credentials included. Trust the broker's authority instead "
                "(trust_file)"
            )
        elif not self.verify_hostname:
            logger.warning(
                "TLS without verification of the host name: every holder of a trusted certificate "
                "can pass for the broker. Issue a certificate that names its host instead"
            )

    def with_certificate(self, certificate: tuple[str, str] | None) -> "Tls":
        """Return the settings with these files of certificate and key, if given."""
        if certificate is None:
            return self
        return replace(self, cert_file=certificate[0], key_file=certificate[1])


class TlsContexts:
    """The TLS context of one client, which is renewed when one of its files changes."""

    def __init__(self, tls: Tls) -> None:
        self._tls = tls
        self._made: tuple[Stamp, ssl.SSLContext] | None = None

    def current(self) -> ssl.SSLContext:
        """Return the current context; ValueError names a file that cannot be used."""
        if self._tls.context is not None:
            return self._tls.context
        stamp = tuple(
            _stamp(str(path))
            for path in (self._tls.trust_file, self._tls.cert_file, self._tls.key_file)
            if path
        )
        if self._made is None or self._made[0] != stamp:
            self._made = stamp, context_of(self._tls)
        return self._made[1]


def context_of(tls: Tls) -> ssl.SSLContext:
    """Create a context; ValueError names a file that cannot be used."""
    try:
        context = ssl.create_default_context(cafile=str(tls.trust_file) if tls.trust_file else None)
    except OSError as error:
        raise ValueError(
            f"TLS: cannot use the trusted certificates {tls.trust_file}: {error}"
        ) from None
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if tls.cert_file:
        key = str(tls.key_file) if tls.key_file else None
        try:
            # With a password, OpenSSL does not ask for one on the terminal.
            context.load_cert_chain(str(tls.cert_file), key, password=b"")
        except OSError as error:
            named = f"{tls.cert_file} and its key {key or tls.cert_file}"
            raise ValueError(f"TLS: cannot use the certificate {named}: {error}") from None
    # promise[always]: the client checks the host of a certificate
    if tls.allow_insecure or not tls.verify_hostname:
        context.check_hostname = False
    if tls.allow_insecure:
        context.verify_mode = ssl.CERT_NONE
    return context


def _stamp(path: str) -> tuple[str, int, int]:
    try:
        status = Path(path).stat()
    except OSError:
        return path, 0, 0
    return path, status.st_mtime_ns, status.st_size
