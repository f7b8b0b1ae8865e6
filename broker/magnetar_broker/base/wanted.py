"""Checks whether a request is still wanted: a client may leave, or withdraw it, meanwhile."""

from collections.abc import Callable

Check = Callable[[], None]
"""A function that raises `NotReady` once the request is withdrawn or its connection is closed.

A client that has lost its connection sends its request again over the next one, and continues from
there.  What the first request changes after that would take back what the client did since: it
would create the subscription again that the client has deleted.  So a request that has waited calls
this before it creates or changes something that outlasts the connection, and does not wait between
the two.
"""


def always() -> None:
    """A check that always passes, for requests that nobody can withdraw."""
