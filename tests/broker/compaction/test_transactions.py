"""Compaction of a topic with transactions: neither aborted nor open ones leave anything in it."""

from fakes.sessions import SessionWorld, produce
from fakes.transactions import ABORT, COMMIT, end_on_partition, none_has_ended
from magnetar_broker.base.transaction_ids import Outcome, TxnId
from magnetar_broker.compaction.topic_compaction import CompactionStatus
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.entries import encode_entry, parse_metadata
from raw_client import metadata, send_frame, send_frame_of

A, B = TxnId(1, 7), TxnId(1, 8)


class Keyed(SessionWorld):
    """A producer of messages with keys, in transactions or not."""

    def __init__(self) -> None:
        super().__init__()
        self.broker.leftovers.ended = none_has_ended
        self.producer = self.client()
        self.producer.ask(produce(1))
        self.sent = 0

    def send(self, key: str, value: bytes, txn: TxnId | None = None) -> None:
        self.sent += 1
        own = metadata(self.sent, partition_key=key)
        if txn is None:
            frame = send_frame(self.sent, value, own_metadata=own)
        else:
            own.txnid_most_bits, own.txnid_least_bits = txn
            bits = {"txnid_most_bits": txn.most, "txnid_least_bits": txn.least}
            frame = send_frame_of(encode_entry(own, value), self.sent, **bits)
        self.producer.send_bytes(frame)
        (answer,) = self.producer.received()
        assert isinstance(answer, pb.CommandSendReceipt), answer

    def end(self, txn: TxnId, outcome: Outcome) -> None:
        assert not self.producer.ask(end_on_partition(1, txn, outcome)).HasField("error")

    def compact(self) -> None:
        topic = self.topic()
        assert self.do(topic.compaction.start())
        self.clock.pump()
        self.clock.advance(3600)
        assert topic.compaction.status is CompactionStatus.SUCCESS, topic.compaction.last_error

    def compacted(self) -> list[bytes]:
        """The payloads of the compacted data."""
        found: list[bytes] = []
        at = 0
        while stretch := self.do(self.topic().compaction.view.read(at, 100, 1 << 20)):
            found += [entry[parse_metadata(entry)[1] :] for entry in stretch.payloads]
            at = stretch.offsets[-1] + 1
        return found

    def last_id(self) -> int:
        """The entry of the last message for a reader of compacted data."""
        last = self.do(self.topic().compaction.last_message_id())
        assert last is not None
        return last.entry


def test_aborted_messages_are_left_out() -> None:
    world = Keyed()
    world.send("k", b"kept")
    world.send("l", b"old")
    world.send("k", b"aborted", A)
    world.send("l", b"new", B)
    world.end(A, ABORT)
    world.end(B, COMMIT)
    world.compact()
    assert world.compacted() == [b"kept", b"new"]
    assert world.last_id() == 3  # the markers behind it are nothing that could be read


def test_compaction_ends_before_an_open_transaction() -> None:
    world = Keyed()
    world.send("k", b"1")
    world.send("k", b"2", A)
    world.send("k", b"3")
    world.compact()
    assert world.compacted() == [b"1"]
    world.end(A, COMMIT)
    world.compact()
    assert world.compacted() == [b"3"]


def test_an_aborted_message_between_two_that_are_read_together() -> None:
    world = Keyed()
    world.send("a", b"1")
    world.send("b", b"2", A)
    world.send("c", b"3")
    world.end(A, ABORT)
    world.send("d", b"4")
    world.compact()
    assert world.compacted() == [b"1", b"3", b"4"]


def test_what_an_open_transaction_holds_back_begins_it_only_once() -> None:
    world = Keyed()
    world.send("a", b"plain")
    for _ in range(5):
        world.send("b", bytes(1000), A)
    topic = world.topic()
    world.do(topic.compaction.set_threshold(300))
    succeeded = []
    for outcome in (None, None, COMMIT):
        if outcome is not None:
            world.end(A, outcome)
        world.do(topic.compact_if_due())
        world.clock.pump()
        world.clock.advance(60)
        succeeded.append(topic.compaction.figures.succeeded)
    assert succeeded == [1, 1, 2]
