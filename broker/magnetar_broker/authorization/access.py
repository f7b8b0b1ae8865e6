"""The clients of one process, and what they have open: checked again when permissions change."""

import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import NamedTuple, Protocol

from magnetar_broker.authorization.rules import AccessRequest, Grants, Rules
from magnetar_broker.config import Settings

logger = logging.getLogger(__name__)

A_TURN = 500
"""The number of checks in one turn of the event loop; they take a few milliseconds."""


class Opened(NamedTuple):
    """An open producer, consumer or watcher of a client, or one that is being opened."""

    access: AccessRequest
    """The permission that the client needs for it."""
    close: Callable[[str], None]
    """A function that closes it for the given reason; calling it again is harmless."""


class Client(Protocol):
    """A connected client."""

    @property
    def roles(self) -> tuple[str, ...]:
        """The client's roles, each of which must be allowed."""

    def opened(self, namespace: str) -> Iterable[Opened]:
        """Yield what the client has open, or is opening, in a namespace."""

    def check(self, command: object) -> None:
        """Raise the refusal if the client may no longer open what this command opens."""


class Access:
    """The access of the clients of one process that serves them."""

    def __init__(self, settings: Settings) -> None:
        self.rules = rules_of(settings)
        """The rules of authorization; None if it is off, which permits everything to everyone."""
        self.clients: set[Client] = set()
        """The clients that may have producers, consumers or watchers open."""

    async def recheck(
        self, namespace: str, grants: Grants, pause: Callable[[], Awaitable[None]]
    ) -> None:
        """Close what the clients have open in a namespace and these grants no longer permit.

        The same grants or later ones decide about anything that is opened meanwhile.  `pause` lets
        other tasks run.
        """
        rules = self.rules
        if rules is None:
            return
        found = [(client, opened) for client in self.clients for opened in client.opened(namespace)]
        errors: list[Exception] = []
        for number, (client, opened) in enumerate(found, 1):
            try:
                why = rules.refusal(client.roles, opened.access, grants)
                if why is not None:
                    opened.close(why)  # promise: a revocation closes what is open
            except Exception as error:  # the others are closed all the same
                logger.exception("what is open in %s could not be checked or closed", namespace)
                errors.append(error)
            if number % A_TURN == 0:
                await pause()
        if errors:
            raise errors[0]


def rules_of(settings: Settings) -> Rules | None:
    """Return the rules in effect; None if authorization is off."""
    if not settings.authorization_enabled:
        return None
    wildcards = settings.authorization_allow_wildcards_matching
    return Rules(settings.super_user_roles, wildcards)
