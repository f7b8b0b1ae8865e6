"""What a forked child inherits of its parent's clients: nothing that it could use.

The sockets and the event loop are the parent's, and what the child did to them would end the
parent's connections.  So in the child every inherited client has ended with an error.
"""

import os
from typing import Protocol
from weakref import WeakSet

from magnetar.errors import Closed


class Inherited(Protocol):
    """What must not be used in a child."""

    def forked(self, error: Closed) -> None:
        """This process is a child: raise the error from now on, and touch no socket or loop."""


_opened: WeakSet[Inherited] = WeakSet()


def end_in_children(client: Inherited) -> None:
    """Call its `forked` in every process that is forked from this one."""
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
