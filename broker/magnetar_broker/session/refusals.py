"""Translates exceptions into the refusals that clients are sent.

The protocol has no code for storage errors: each request refuses one with the code that clients
expect of that request, unless the error only means that they have to try again.  Any exception that
is not a refusal is a defect, and is raised again.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from magnetar_broker.base.errors import TRANSIENT, BrokerError, PersistenceError, as_refusal
from magnetar_storage.errors import StorageError


def refusal_of(error: Exception, of_storage: type[BrokerError] = PersistenceError) -> BrokerError:
    """Return the refusal to send for an exception; a defect is raised again."""
    # promise[without and not isinstance(error, TRANSIENT)]: what a process that ended leaves open
    #   is refused as transient
    if isinstance(error, StorageError) and not isinstance(error, TRANSIENT):
        return of_storage(str(error))
    refusal = as_refusal(error)
    if refusal is None:
        raise error
    return refusal


@contextmanager
def storage_errors_as(refusal: type[BrokerError]) -> Iterator[None]:
    """Turn storage errors of the body into refusals of this type."""
    try:
        yield
    except StorageError as error:
        raise refusal_of(error, refusal) from error
