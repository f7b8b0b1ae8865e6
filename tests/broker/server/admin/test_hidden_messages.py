"""Messages of open and aborted transactions are not shown over REST."""

import pytest

from fakes.sessions import TOPIC, SessionWorld
from fakes.transactions import ABORT, COMMIT, Publishing, Reading
from magnetar_broker.base.transaction_ids import TxnId
from magnetar_broker.server.admin.operations.reading import entry_at, examine, peek
from magnetar_broker.server.admin.operations.searching import search
from magnetar_broker.server.http.messages import Refused
from magnetar_proto.entries import parse_metadata
from magnetar_proto.names import TopicName

ABORTED, OPEN = TxnId(1, 7), TxnId(1, 8)
NAME = TopicName.parse(TOPIC)


class World(SessionWorld):
    """A topic of numbered entries: 0 and 3 are plain, 1 was aborted by the marker 2, 4 is open."""

    def __init__(self) -> None:
        super().__init__()
        self.producer, self.reader = Publishing(self), Reading(self)
        self.producer.send(b"first")
        self.producer.send(b"aborted", ABORTED)
        self.producer.end(ABORTED, ABORT)
        self.producer.send(b"second")
        self.producer.send(b"open", OPEN)
        self.producer.send(b"behind")

    def peeked(self, position: int) -> bytes:
        return _payload(self.do(peek(self.broker, NAME, "sub", position))[2])

    def examined(self, latest: bool, position: int) -> bytes:
        return _payload(self.do(examine(self.broker, NAME, latest, position))[2])

    def at(self, offset: int) -> bytes:
        place = self.topic().log.position(offset)
        return _payload(self.do(entry_at(self.broker, NAME, *place))[2])

    def searched(self) -> tuple[list[bytes], bool]:
        """Return all messages found, and whether the search reached the end of the topic."""
        everything = search(self.broker, NAME, (0, 0, 0), (None, None, None), 100, 100, None)
        _, _, found, following = self.do(everything)
        return [message[4] for message in found], following is None


def _payload(entry: bytes) -> bytes:
    return entry[parse_metadata(entry)[1] :]


def test_only_what_can_be_delivered_is_shown() -> None:
    world = World()
    assert [world.peeked(1), world.peeked(2)] == [b"first", b"second"]
    with pytest.raises(Refused, match="2 entries"):
        world.peeked(3)
    assert [world.examined(True, position) for position in (1, 2)] == [b"second", b"first"]
    assert [world.examined(False, position) for position in (1, 2, 9)] == [
        b"first",
        b"second",
        b"second",
    ]
    assert world.searched() == ([b"first", b"second"], True)
    for offset in (1, 2, 4, 5):
        with pytest.raises(Refused, match="transaction"):
            world.at(offset)


def test_what_was_committed_is_shown() -> None:
    world = World()
    world.producer.end(OPEN, COMMIT)
    assert world.searched() == ([b"first", b"second", b"open", b"behind"], True)
    assert world.peeked(4) == world.examined(True, 1) == world.at(5) == b"behind"
