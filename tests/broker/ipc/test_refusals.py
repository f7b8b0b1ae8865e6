"""Errors travel between processes as what they are."""

from collections.abc import Iterator

import pytest

from magnetar_broker.base.errors import BrokerError, NotReady, TopicNotFound, UnknownError
from magnetar_broker.ipc.refusals import decode_refusal, encode_refusal
from magnetar_broker.ipc.values import decode_value, encode_value
from magnetar_proto.errors import InvalidTopicName
from magnetar_storage.errors import BadVersion, Corrupt, DiskFull, StorageError, Unavailable


def all_of(kind: type[Exception]) -> Iterator[type[Exception]]:
    yield kind
    for narrower in kind.__subclasses__():
        yield from all_of(narrower)


def travelled(error: Exception) -> Exception:
    refusal = encode_refusal(error)
    assert refusal is not None
    return decode_refusal(decode_value(encode_value(refusal)))


KINDS = [*all_of(BrokerError), *all_of(StorageError), InvalidTopicName]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind is not Corrupt])
def test_every_refusal_keeps_its_class_and_text(kind: type[Exception]) -> None:
    found = travelled(kind("do é instead"))
    assert type(found) is kind
    assert str(found) == "do é instead"


def test_damage_keeps_its_place() -> None:
    found = travelled(Corrupt("journal-3", 17, "why", segment=4, first_entry=5, last_entry=6))
    assert found == Corrupt("journal-3", 17, "why", 4, 5, 6)
    assert str(found) == "journal-3 at byte 17: why (segment 4, entries 5 to 6)"


def test_an_error_that_arrived_refuses_further_callers() -> None:
    found = travelled(Corrupt("journal-3", 17, "why", segment=4))
    assert isinstance(found, Corrupt)
    assert found.again() == found
    assert str(found.again()) == str(found) and found.again().__cause__ is found
    full = travelled(DiskFull("full"))
    assert isinstance(full, DiskFull)
    assert str(full.again()) == "full"


def test_the_text_of_an_error_may_be_any_object() -> None:
    found = travelled(TopicNotFound(NotReady("loading")))
    assert type(found) is TopicNotFound and str(found) == "loading"


def test_the_kinds_of_errors_keep_their_order() -> None:
    assert isinstance(travelled(DiskFull("full")), Unavailable)
    assert not isinstance(travelled(BadVersion("old")), Unavailable)


class Private(BrokerError):
    """A class of one module, which the other process may not know."""


@pytest.mark.parametrize("error", [KeyError("x"), RuntimeError("x"), Private("x")])
def test_other_errors_are_defects(error: Exception) -> None:
    assert encode_refusal(error) is None


def test_an_error_of_another_version_arrives_as_an_unknown_one() -> None:
    found = decode_refusal(("MuchLater", "do this instead", {"since": 9}))
    assert type(found) is UnknownError and str(found) == "MuchLater: do this instead"
