"""Clients in a forked child: all inherited clients are closed, and cannot be used.

Their sockets and event loop belong to the parent, and using them in the child would end the
parent's connections.  Every inherited client therefore ends with an error.
"""

import os
from typing import Protocol
from weakref import WeakSet

from magnetar.base.errors import Closed


class Inherited(Protocol):
    """An object that must not be used in a forked child."""

    def forked(self, error: Closed) -> None:
        """Raise the error from now on, and use no socket or loop: this process is a child."""


_opened: WeakSet[Inherited] = WeakSet()


def end_in_children(client: Inherited) -> None:
    """Register a client: its `forked` is called in every process forked from this one."""
    _opened.add(client)


def _forked() -> None:
    error = Closed(
        "this was opened before the process was forked: a child opens its own with magnetar.connect"
    )
    for client in list(_opened):
        client.forked(error)
    _opened.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
