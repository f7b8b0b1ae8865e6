"""Connections of clients that have not authenticated yet, and the number of those that have.

A client has no more than a few seconds until it is accepted, and until then it is one of a limited
number.  Who comes beyond that number takes the place of the oldest: a flood of connections that
send nothing, or too slowly, does not keep out clients that complete the handshake at once.
"""

from collections import Counter
from collections.abc import Callable

from magnetar_broker.base.errors import NotAllowed
from magnetar_broker.base.networks import network_of
from magnetar_broker.config import Settings
from magnetar_broker.limits.reached import ClientLimit, ReachedLimits
from magnetar_storage.runtime.execution import Clock, Timer


class Admission:
    """The connections of one process.  Each enters once, may be accepted, and leaves."""

    def __init__(
        self, settings: Callable[[], Settings], clock: Clock, reached: ReachedLimits
    ) -> None:
        """`settings` returns the settings that are in effect now."""
        self.accepted = 0
        """The number of open connections that have been accepted."""
        self.reached = reached
        self._settings = settings
        self._clock = clock
        self._accepted_from: Counter[str] = Counter()
        self._half_open: dict[AdmittedConnection, None] = {}
        """Open connections that have not been accepted, in the order of their arrival."""
        self._half_open_from: dict[str, dict[AdmittedConnection, None]] = {}

    @property
    def half_open(self) -> int:
        """The number of open connections that have not been accepted."""
        return len(self._half_open)

    def enter(
        self, host: str, end: Callable[[], None], is_timed: bool = True
    ) -> "AdmittedConnection":
        """Give a place to a client that has connected from `host`; `end` disconnects it at once.

        `end` is called when others need the place, or when the handshake takes too long.  Call this
        before anything is read from the client, a TLS handshake included.  If it is not `is_timed`,
        the caller limits the time of the handshake.
        """
        # promise: an IPv6 network counts as one address for half-open connections
        host = network_of(host)
        settings = self._settings()
        limit = settings.magnetar_max_unauthenticated_connections_per_ip
        own = self._half_open_from.get(host, {})
        if 0 < limit <= len(own):
            name = "magnetarMaxUnauthenticatedConnectionsPerIp"
            # promise: half-open connections of one address are limited
            next(iter(own)).give_up(ClientLimit.HALF_OPEN_OF_ADDRESS, name)
        limit = settings.magnetar_max_unauthenticated_connections
        if 0 < limit <= len(self._half_open):
            name = "magnetarMaxUnauthenticatedConnections"
            self._oldest_of_most().give_up(ClientLimit.HALF_OPEN, name)
        place = AdmittedConnection(self, host, end)
        seconds = settings.magnetar_handshake_timeout_seconds
        if is_timed and seconds > 0:
            place.limit_time(self._clock, seconds)  # promise: a handshake has limited time
        self._half_open[place] = None
        self._half_open_from.setdefault(host, {})[place] = None
        return place

    def refusal(self, host: str) -> NotAllowed | None:
        """Return why a place's host cannot have one more connection accepted; None if it can."""
        settings = self._settings()
        limit = settings.broker_max_connections
        if 0 < limit <= self.accepted:
            self.reached.count(ClientLimit.CONNECTIONS, "brokerMaxConnections", host)
            return NotAllowed(
                f"{limit} connections are open, which is the limit (brokerMaxConnections): close "
                "one, or raise the limit"
            )
        limit = settings.broker_max_connections_per_ip
        if 0 < limit <= self._accepted_from[host]:
            self.reached.count(
                ClientLimit.CONNECTIONS_OF_ADDRESS, "brokerMaxConnectionsPerIp", host
            )
            return NotAllowed(
                f"{host} has {limit} connections to this broker, which is the limit "
                "(brokerMaxConnectionsPerIp): close one, or raise the limit"
            )
        return None

    def _oldest_of_most(self) -> "AdmittedConnection":
        """Return the oldest place of the address that has most: one address harms itself first."""
        # promise[max -> min]: the address with most half-open connections gives way
        most = max(self._half_open_from, key=lambda host: len(self._half_open_from[host]))
        return next(iter(self._half_open_from[most]))

    def move(self, place: "AdmittedConnection") -> None:
        """Count a place as accepted."""
        self._forget(place)
        self.accepted += 1
        self._accepted_from[place.host] += 1

    def free(self, place: "AdmittedConnection", was_accepted: bool) -> None:
        """Remove a place whose client has left."""
        if not was_accepted:
            self._forget(place)
            return
        self.accepted -= 1
        self._accepted_from[place.host] -= 1
        if not self._accepted_from[place.host]:
            del self._accepted_from[place.host]

    def _forget(self, place: "AdmittedConnection") -> None:
        del self._half_open[place]
        own = self._half_open_from[place.host]
        del own[place]
        if not own:
            del self._half_open_from[place.host]


class AdmittedConnection:
    """The place that one connection has in `Admission`."""

    __slots__ = ("_accepted", "_admission", "_end", "_left", "_timer", "host", "is_taken_over")

    def __init__(self, admission: Admission, host: str, end: Callable[[], None]) -> None:
        self.host = host
        """The client's address, or its network (`network_of`)."""
        self._admission = admission
        self._end = end
        self._timer: Timer | None = None
        self._accepted = self._left = False
        self.is_taken_over = False
        """Whether a later stage of the handshake answers for the connection."""

    def limit_time(self, clock: Clock, seconds: float) -> None:
        """Limit the time until the client is accepted, whatever it sends meanwhile."""
        name = "magnetarHandshakeTimeoutSeconds"
        self._timer = clock.later(seconds, lambda: self.give_up(ClientLimit.HANDSHAKE, name))

    def take_over(self, end: Callable[[], None]) -> None:
        """Call `end` to disconnect the client from now on; the limit of time stays."""
        self._end = end
        self.is_taken_over = True

    def accept(self) -> None:
        """Note that the client has completed its handshake and was let in."""
        if not (self._accepted or self._left):
            self._accepted = True
            self._cancel()  # promise: an accepted client has no limit of time
            self._admission.move(self)

    def leave(self) -> None:
        """Free the place: the connection is closed, or another process has taken it."""
        if not self._left:
            self._left = True
            self._cancel()
            self._admission.free(self, self._accepted)

    def give_up(self, limit: ClientLimit, setting: str) -> None:
        """Disconnect the client because it has reached a limit."""
        self.leave()
        self._admission.reached.count(limit, setting, self.host)
        self._end()

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
