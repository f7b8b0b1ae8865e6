"""Asks a client for new credentials when those that it connected with have expired."""

from collections.abc import Callable
from typing import Final

from magnetar_broker.authentication.authenticator import Proof
from magnetar_storage.runtime.execution import Clock, Timer

CHALLENGE: Final = b"PulsarAuthRefresh"
"""The challenge with which Pulsar clients are asked for new credentials."""


class Renewal:
    """Renews the credentials of one connection, which are checked at fixed intervals.

    A client that can renew them is asked at the first check after they expire, and disconnected at
    the next one if it has not answered.  Any other client is disconnected at the first.
    """

    def __init__(
        self,
        clock: Clock,
        seconds: float,
        proof: Proof,
        is_supported: bool,
        ask: Callable[[], None],
        disconnect: Callable[[str], None],
    ) -> None:
        """`is_supported` tells whether the client can renew; `ask` sends it an AUTH_CHALLENGE."""
        self.proof = proof
        self._clock = clock
        self._seconds = seconds
        self._is_supported = is_supported
        self._ask = ask
        self._disconnect = disconnect
        self._is_asked = self._is_over = False
        self._timer: Timer | None = None
        self._watch()

    def answered(self) -> None:
        """Note that the client has sent credentials."""
        self._is_asked = False

    def renewed(self, proof: Proof) -> None:
        """Replace the expired proof by the proof of the new credentials."""
        self.proof = proof  # promise: renewed credentials are looked at again
        if self._timer is None:
            self._watch()

    def end(self) -> None:
        """End the checks: the connection is closed."""
        self._is_over = True
        if self._timer is not None:
            self._timer.cancel()

    def _watch(self) -> None:
        if self.proof.expires_at is not None and not self._is_over:
            self._timer = self._clock.later(self._seconds, self._look)

    def _look(self) -> None:
        self._timer = None
        expires_at = self.proof.expires_at
        if expires_at is None or self._clock.now_ms() / 1000 <= expires_at:
            self._watch()
        elif self.proof.ends_at is not None and self._clock.now_ms() / 1000 > self.proof.ends_at:
            self._disconnect("the credentials of the proxy have expired")
        elif self.proof.refreshed_method is None:
            self._disconnect("the credentials of a proxy's client have expired")
        # promise: a client that cannot renew its credentials ends with them
        elif not self._is_supported:
            self._disconnect("the credentials have expired, and the client cannot renew them")
        elif self._is_asked:  # promise: an answer that does not come ends the connection
            self._disconnect("the credentials have expired, and the client did not renew them")
        else:
            self._is_asked = True
            self._ask()
            self._watch()
