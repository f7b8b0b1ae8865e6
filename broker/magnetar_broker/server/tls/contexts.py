"""The contexts of new TLS connections, which follow the files while the broker runs."""

import logging
import ssl
from typing import Final

from magnetar_broker.base.rare_log import RareLog
from magnetar_broker.config import Settings
from magnetar_broker.config.load import ConfigError
from magnetar_broker.metrics.tls import TlsFigures
from magnetar_broker.server.tls.files import Loaded, load, state_of
from magnetar_storage.runtime.execution import Clock, Timer

logger = logging.getLogger(__name__)

WARNING_SECONDS: Final = 30 * 86_400
"""The log warns when the certificate expires in less than this time."""
WARNING_INTERVAL_SECONDS: Final = 86_400


class Contexts:
    """The TLS contexts of one process that accepts connections.

    Files that cannot be used, such as a new certificate whose key is not written yet, change
    nothing: the former contexts stay in use, the log has the reason, and the next check tries
    again.
    """

    def __init__(self, settings: Settings, clock: Clock) -> None:
        """Raises `ConfigError` if the files cannot be used; call `start` once, `stop` once."""
        self._settings = settings
        self._clock = clock
        self._state = state_of(settings)
        self._loaded: Loaded = load(settings)
        self._seconds = settings.tls_cert_refresh_check_duration_sec
        self._timer: Timer | None = None
        self._warned_at: float | None = None
        self._failures = 0
        self._log = RareLog(logger, logging.INFO, clock)

    def start(self) -> None:
        """Begin to check the files at intervals."""
        self._warn_of_expiry()
        if self._seconds:
            self._timer = self._clock.later(self._seconds, self._check_again)

    def stop(self) -> None:
        """Stop checking the files for changes."""
        if self._timer is not None:
            self._timer.cancel()

    @property
    def clients(self) -> ssl.SSLContext:
        """The context of a new connection of the binary protocol."""
        return self._current().clients

    @property
    def http(self) -> ssl.SSLContext:
        """The context of a new connection of HTTPS."""
        return self._current().http

    @property
    def expires_at(self) -> float:
        """The time at which the certificate in use expires, in seconds since 1970."""
        return self._loaded.certificate.not_after.timestamp()

    def check(self) -> None:
        """Load changed files; they are used from now on if they have no errors."""
        state = state_of(self._settings)
        # promise[!= self._state -> is None]: new certificate files are used
        if state != self._state:
            self._state = state  # the state before the files are read: a later change is noticed
            self._renew()
        self._warn_of_expiry()

    def figures(self) -> TlsFigures:
        """Return the figures for metrics."""
        return TlsFigures(self._failures, self.expires_at)

    def failed(self, address: str, reason: str) -> None:
        """Count a handshake that failed; the log gets one line per reason in a while."""
        self._failures += 1
        what = f"TLS cannot be set up: {reason}"
        self._log.write(reason, f"closing a connection from {address}: {what}", what)

    def _current(self) -> Loaded:
        if not self._seconds:
            self.check()
        return self._loaded

    def _check_again(self) -> None:
        self.check()
        self._timer = self._clock.later(self._seconds, self._check_again)

    def _renew(self) -> None:
        try:
            self._loaded = load(self._settings)
        # promise[(ConfigError, OSError) -> ZeroDivisionError]: half-written files do not end the
        #   check
        except (ConfigError, OSError) as error:
            logger.error(
                "TLS: the files have changed and cannot be used; new connections get the former "
                "certificate until this is corrected: %s",
                error,
            )
            return
        certificate = self._loaded.certificate
        self._warned_at = None
        logger.info(
            "TLS: new connections get the certificate with serial number %x of %s, valid until %s",
            certificate.serial,
            certificate.subject,
            certificate.not_after,
        )

    def _warn_of_expiry(self) -> None:
        now = self._clock.now_ms() / 1000
        left = self.expires_at - now
        is_due = self._warned_at is None or now - self._warned_at >= WARNING_INTERVAL_SECONDS
        if left >= WARNING_SECONDS or not is_due:
            return
        self._warned_at = now
        path, until = (
            self._settings.tls_certificate_file_path,
            self._loaded.certificate.not_after,
        )
        if left > 0:
            logger.warning(
                "TLS: the certificate in tlsCertificateFilePath=%s expires in %d days, at %s: "
                "replace it",
                path, left // 86_400, until,
            )  # fmt: skip
        else:
            logger.error(
                "TLS: the certificate in tlsCertificateFilePath=%s has expired at %s, and clients "
                "that verify it do not connect: replace it",
                path, until,
            )  # fmt: skip


def uses_tls(settings: Settings) -> bool:
    """Return whether the broker has a TLS port."""
    return (settings.broker_service_port_tls, settings.web_service_port_tls) != (None, None)
