"""Open, committed and aborted transactions of an earlier release.

`samples/transactions.tar.xz` was written by `write_sample`, by the build that first had this test:
`python tests/broker/upgrade/test_upgrade_transactions.py FILE.tar.xz`, with `tests` on the path.
It is never changed; a build that writes anything differently adds one.
"""

import sys
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from admin_http import Admin
from fakes.archives import unpack
from magnetar_broker.base.transaction_ids import TxnId
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.entries import parse_metadata
from raw_client import RawClient, Received, metadata, send_frame
from running_broker import RunningBroker

SAMPLE = Path(__file__).parent / "samples" / "transactions.tar.xz"
PLAIN, BATCHES, ENDED = (
    f"persistent://public/default/{name}" for name in ("plain", "batches", "ended")
)
SHARED, CUMULATIVE = pb.CommandSubscribe.Shared, pb.CommandAck.Cumulative
COMMIT, ABORT = pb.COMMIT, pb.ABORT
LONG_MS = 100 * 365 * 24 * 3600 * 1000
OPEN, OPEN_LATER = TxnId(0, 0), TxnId(0, 5)
"""The ids of those that are open in the sample."""


class Client(RawClient):
    """Numbers its messages."""

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self.sent = 0
        self._came: list[Received] = []

    def begin(self) -> TxnId:
        """NEW_TXN at coordinator 0."""
        self.request(pb.CommandTcClientConnectRequest(request_id=0, tc_id=0))
        begun = self.request(pb.CommandNewTxn(request_id=0, txn_ttl_millis=LONG_MS))
        assert not begun.HasField("error"), begun
        return TxnId(begun.txnid_most_bits, begun.txnid_least_bits)

    def concerns(self, txn: TxnId, topic: str, subscription: str = "") -> None:
        """ADD_PARTITION_TO_TXN, or ADD_SUBSCRIPTION_TO_TXN."""
        bits = bits_of(txn)
        if subscription:
            joined = pb.Subscription(topic=topic, subscription=subscription)
            self.asked(pb.CommandAddSubscriptionToTxn(request_id=0, subscription=[joined], **bits))
        else:
            self.asked(pb.CommandAddPartitionToTxn(request_id=0, partitions=[topic], **bits))

    def sends(self, payload: bytes, txn: TxnId | None = None, producer_id: int = 1) -> None:
        """SEND, and wait for the receipt."""
        bits = {} if txn is None else bits_of(txn)
        about = metadata(self.sent, **bits)
        self.send_bytes(send_frame(self.sent, payload, producer_id, about, **bits))
        self.expect(pb.BaseCommand.SEND_RECEIPT)
        self.sent += 1

    def acks_in(self, txn: TxnId, consumer_id: int, *ids: Any, up_to: bool = False) -> None:
        """ACK in a transaction."""
        command = pb.CommandAck(
            request_id=0,
            consumer_id=consumer_id,
            ack_type=CUMULATIVE if up_to else pb.CommandAck.Individual,
            message_id=ids,
            txnid_most_bits=txn.most,
            txnid_least_bits=txn.least,
        )
        self.asked(command)

    def ends(self, txn: TxnId, action: "pb.TxnAction") -> None:
        """END_TXN."""
        self.asked(pb.CommandEndTxn(request_id=0, txn_action=action, **bits_of(txn)))

    def asked(self, command: Any) -> None:
        """Send a request that must succeed."""
        answer = self.request(command)
        assert not isinstance(answer, pb.CommandError), answer
        assert isinstance(answer, pb.CommandSuccess) or not answer.HasField("error"), answer

    def receives(self, consumer_id: int, count: int) -> list[pb.CommandMessage]:
        """So many messages for a consumer, and no more."""
        return [frame.command for frame in self._received(consumer_id, count)]

    def payloads(self, consumer_id: int, count: int) -> list[bytes]:
        """So many messages for a consumer, and no more."""
        entries = [frame.entry for frame in self._received(consumer_id, count)]
        return [entry[parse_metadata(entry)[1] :] for entry in entries]

    def _received(self, consumer_id: int, count: int) -> list[Received]:
        def found() -> list[Received]:
            return [frame for frame in self._came if frame.command.consumer_id == consumer_id]

        self.flow(100, consumer_id)
        while len(found()) < count:
            self._came.append(self.next_message())
        self.ping()
        while self.has_message():
            self._came.append(self.next_message())
        taken = found()
        self._came = [frame for frame in self._came if frame not in taken]
        assert len(taken) == count, taken
        return taken


def bits_of(txn: TxnId) -> dict[str, int]:
    """The fields of commands and of metadata."""
    return {"txnid_most_bits": txn.most, "txnid_least_bits": txn.least}


def write_sample(directory: Path) -> None:
    """Fill a new data directory, with a stop in good order on the way and a kill at the end."""
    broker = RunningBroker(directory).start()
    try:
        with Client(broker.port) as client:
            write_before_a_stop(client, broker)
        broker.restart()
        with Client(broker.port) as client:
            write_before_a_kill(client)
    finally:
        broker.kill()


def write_before_a_stop(client: Client, broker: RunningBroker) -> None:
    """One that stays open, one that commits, one that aborts, and one on a terminated topic."""
    client.produce(PLAIN, 1)
    client.produce(ENDED, 3)
    subscribe(client)
    client.sends(b"m0")
    publish_batch(client)
    opened, committed, aborted, late = (client.begin() for _ in range(4))
    assert opened == OPEN
    client.concerns(opened, PLAIN)
    client.concerns(opened, PLAIN, "workers")
    client.concerns(opened, PLAIN, "reader")
    client.concerns(opened, BATCHES, "workers")
    client.sends(b"a1", opened)
    client.sends(b"b2", committed)
    client.sends(b"c3", aborted)
    (first,), (batch,) = client.receives(1, 1), client.receives(3, 1)
    client.receives(2, 1)
    client.acks_in(opened, 1, first.message_id)
    client.acks_in(opened, 2, first.message_id, up_to=True)
    client.acks_in(opened, 3, part_of(batch.message_id, 0b1010))
    for txn, action in ((committed, COMMIT), (aborted, ABORT)):
        client.concerns(txn, PLAIN)
        client.ends(txn, action)
    client.concerns(late, ENDED)
    client.sends(b"f0", late, producer_id=3)
    assert Admin(broker).post("persistent/public/default/ended/terminate").status == 200
    client.ends(late, COMMIT)


def write_before_a_kill(client: Client) -> None:
    """One that aborts, one that stays open."""
    client.sent = 10
    client.produce(PLAIN, 1)
    aborted, opened = client.begin(), client.begin()
    assert opened == OPEN_LATER
    client.concerns(aborted, PLAIN)
    client.sends(b"d4", aborted)
    client.ends(aborted, ABORT)
    client.sends(b"m5")
    client.concerns(opened, PLAIN)
    client.sends(b"e6", opened)
    client.sends(b"m7")


def subscribe(client: Client) -> None:
    """Consumer 1 shares the plain topic, 2 reads it, 3 shares the batch, 4 reads the ended one."""
    client.subscribe(PLAIN, "workers", SHARED, 1)
    client.subscribe(PLAIN, "reader", consumer_id=2)
    client.subscribe(BATCHES, "workers", SHARED, 3)
    client.subscribe(ENDED, "reader", consumer_id=4)


def publish_batch(client: Client) -> None:
    """Four messages."""
    client.produce(BATCHES, 2)
    about = metadata(0, num_messages_in_batch=4)
    client.send_bytes(send_frame(0, b"not read by brokers", 2, about, num_messages=4))
    client.expect(pb.BaseCommand.SEND_RECEIPT)


def part_of(batch: pb.MessageIdData, unacked: int) -> pb.MessageIdData:
    """The messages of a batch whose bits are not set."""
    return pb.MessageIdData(ledgerId=batch.ledgerId, entryId=batch.entryId, ack_set=[unacked])


@pytest.mark.parametrize("outcome", [COMMIT, ABORT])
def test_transactions_go_on(outcome: "pb.TxnAction", tmp_path: Path) -> None:
    directory = tmp_path / "data"
    unpack(SAMPLE, directory)
    broker = RunningBroker(directory).start()
    try:
        with Client(broker.port) as client:
            check(client, outcome)
    finally:
        broker.close()


def check(client: Client, outcome: "pb.TxnAction") -> None:
    """What is open is held back and goes on; what has ended has the effect that it had."""
    committed = outcome == COMMIT
    head = [b"a1"] if committed else [b"m0"]
    subscribe(client)
    # m0 is pending for both subscriptions, and a1 holds the others back.
    assert client.payloads(1, 0) == client.payloads(2, 0) == []
    (batch,) = client.receives(3, 1)
    assert list(batch.ack_set) == [0b1010]
    assert client.payloads(4, 1) == [b"f0"]
    assert client.begin().least > OPEN_LATER.least
    client.concerns(OPEN, PLAIN)  # it is open still
    client.ends(OPEN, outcome)
    assert client.payloads(1, 3) == [*head, b"b2", b"m5"]
    client.ends(OPEN_LATER, COMMIT)
    assert client.payloads(1, 2) == [b"e6", b"m7"]
    again = client.receives(3, 0 if committed else 1)
    assert [list(message.ack_set) for message in again] == ([] if committed else [[]])
    client.asked(pb.CommandCloseConsumer(request_id=0, consumer_id=2))
    client.subscribe(PLAIN, "late", consumer_id=5)
    client.subscribe(PLAIN, "reader", consumer_id=6)
    behind = [b"b2", b"m5", b"e6", b"m7"]
    assert client.payloads(5, 6 if committed else 5) == [
        b"m0",
        *([b"a1"] if committed else []),
        *behind,
    ]
    assert client.payloads(6, 5) == [*head, *behind]


if __name__ == "__main__":
    with TemporaryDirectory() as made:
        write_sample(Path(made, "data"))
        with tarfile.open(sys.argv[1], "x:xz") as archive:
            archive.add(Path(made, "data"), ".")
