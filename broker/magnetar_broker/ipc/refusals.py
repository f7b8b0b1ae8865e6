"""Encodes errors as values, so that the other process raises the same error."""

from collections.abc import Iterator
from typing import Any

from magnetar_broker.base.errors import BrokerError, UnknownError
from magnetar_proto.errors import InvalidTopicName
from magnetar_storage.errors import StorageError

Refusal = tuple[str, str, dict[str, Any]]
"""The name of an error's class, its text, and its fields."""


def _with_subclasses(kind: type[Exception]) -> Iterator[type[Exception]]:
    yield kind
    for narrower in kind.__subclasses__():
        yield from _with_subclasses(narrower)


KINDS = {
    kind.__name__: kind
    for base in (BrokerError, StorageError, InvalidTopicName)
    for kind in _with_subclasses(base)
}
"""The errors that are raised deliberately; any other is a defect."""


def encode_refusal(error: BaseException) -> Refusal | None:
    """Return an error as plain values, without its cause; None if it was caused by a defect."""
    kind = type(error)
    if KINDS.get(kind.__name__) is not kind:
        return None
    return kind.__name__, str(error), vars(error)


def decode_refusal(refusal: Refusal) -> Exception:
    """Return the error again: of the same class, with the same text and fields.

    `UnknownError` if this version has no such class.
    """
    kind, text, fields = refusal
    # promise: an error that only another version has arrives as an unknown one
    if kind not in KINDS:
        return UnknownError(f"{kind}: {text}")
    error = KINDS[kind].__new__(KINDS[kind], text)  # not `__init__`, which may take other arguments
    vars(error).update(fields)
    return error


def is_refusal(value: object) -> bool:
    """Return whether a value that has arrived is a `Refusal`."""
    return (
        isinstance(value, tuple)
        and len(value) == 3
        and all(map(isinstance, value, (str, str, dict)))
    )
