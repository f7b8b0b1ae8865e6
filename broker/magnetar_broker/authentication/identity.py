"""The results of authenticating a client."""

from typing import NamedTuple


class Identity(NamedTuple):
    """A role that a client has proved to have."""

    role: str
    method: str
    """The method that proved the role, such as `token`; empty for the anonymous role."""
    expires_at: float | None = None
    """The time at which the proof expires, in seconds since 1970; None if it does not."""


class Roles(NamedTuple):
    """The roles of a request or a connection, all of which need the permission.

    A client that a proxy connects has two: the role of the proxy, and the role of the client.
    """

    own: str
    """The role that the connection proved to have."""
    original: str | None = None
    """The client's role (`original_principal`), where `own` is one of `proxyRoles`."""

    @property
    def all(self) -> tuple[str, ...]:
        """Each role that must be allowed."""
        return (self.own,) if self.original is None else (self.own, self.original)
