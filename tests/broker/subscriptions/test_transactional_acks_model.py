"""Any history of acknowledgements of batches, within transactions and outside, against a model.

The model has messages by entry and index, without masks, mark-delete position or view.
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from effort import examples
from fakes.sessions import SessionWorld, produce
from fakes.transactions import ABORT, COMMIT, Reading, end_on_subscription
from magnetar_broker.base.transaction_ids import Outcome, TxnId
from magnetar_broker.subscriptions.subscription import Subscription
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_storage.errors import DiskFull
from raw_client import metadata, send_frame

ENTRIES, MESSAGES, OPEN = 4, 3, 3
WHOLE = (1 << MESSAGES) - 1
INDIVIDUAL, CUMULATIVE = pb.CommandAck.Individual, pb.CommandAck.Cumulative

Messages = set[tuple[int, int]]
"""Messages by entry and index in the batch."""
ENTRY = st.integers(0, ENTRIES - 1)
SLOT = st.integers(0, OPEN - 1)


def of_mask(entry: int, left: int) -> Messages:
    """Return the messages of an entry whose bits are clear."""
    return {(entry, index) for index in range(MESSAGES) if not left >> index & 1}


def before(entry: int) -> Messages:
    """Return the messages of the entries before one."""
    return {message for one in range(entry) for message in of_mask(one, 0)}


class BatchAcks(RuleBasedStateMachine):
    """An Exclusive subscription of a topic with some batches."""

    @initialize()
    def begin(self) -> None:
        self.world = SessionWorld()
        producer = self.world.client()
        producer.ask(produce(1))
        for number in range(ENTRIES):
            own = metadata(number)
            own.num_messages_in_batch = MESSAGES
            frame = send_frame(number, b"%d" % number, 1, own, num_messages=MESSAGES)
            producer.send_bytes(frame)
        self.ids = [receipt.message_id for receipt in producer.received()]
        self.acked: Messages = set()
        self.singly: dict[TxnId, Messages] = {}
        self.up_to: dict[TxnId, Messages] = {}
        self.least = OPEN
        self.open = [TxnId(0, least) for least in range(OPEN)]
        self.requests = 100
        self.connect()

    def connect(self) -> None:
        self.consumer = Reading(self.world, subType=pb.CommandSubscribe.Exclusive)

    @property
    def subscription(self) -> Subscription:
        return self.world.topic().subscriptions["sub"]

    def pending(self, but: TxnId | None = None) -> Messages:
        """Return the messages that open transactions hold, or all of them but one."""
        held = [*self.singly.items(), *self.up_to.items()]
        return set[tuple[int, int]]().union(*(some for txn, some in held if txn != but))

    def ack(self, txn: TxnId | None, kind: int, entry: int, left: int) -> bool:
        """Acknowledge; tell whether that was accepted, or is in conflict with another one."""
        self.requests += 1
        command = pb.CommandAck(consumer_id=1, ack_type=kind, request_id=self.requests)  # type: ignore[arg-type]
        command.message_id.add().CopyFrom(self.ids[entry])
        command.message_id[0].ack_set.extend([left] if left else [])
        if txn is not None:
            command.txnid_most_bits, command.txnid_least_bits = txn
        self.consumer.client.send(command)
        received = self.consumer.client.received()
        (answer,) = [one for one in received if isinstance(one, pb.CommandAckResponse)]
        assert not answer.HasField("error") or answer.error == pb.TransactionConflict, answer
        return not answer.HasField("error")

    @rule(entry=ENTRY, left=st.integers(0, WHOLE - 1), cumulative=st.booleans())
    def acknowledge(self, entry: int, left: int, cumulative: bool) -> None:
        assert self.ack(None, CUMULATIVE if cumulative else INDIVIDUAL, entry, left)
        self.acked |= of_mask(entry, left) | (before(entry) if cumulative else set())

    @rule(slot=SLOT, entry=ENTRY, left=st.integers(0, WHOLE - 1))
    def acknowledge_in(self, slot: int, entry: int, left: int) -> None:
        txn, chosen = self.open[slot], of_mask(entry, left)
        # An entry acknowledged in part can still be acknowledged as a whole.
        is_acked = of_mask(entry, 0) <= self.acked or (left and chosen & self.acked)
        # A batch that was not read since loading has an unknown size: two parts of it might have a
        # message in common, so the second one may be refused.
        is_unknown = self.world.topic().log.entries.messages_at(entry) is None
        is_taken = self.ack(txn, INDIVIDUAL, entry, left)
        is_free = not (is_acked or chosen & self.pending(but=txn))
        assert is_taken is is_free or (is_unknown and is_free)
        if is_taken:
            self.singly.setdefault(txn, set()).update(chosen)

    @rule(slot=SLOT, entry=ENTRY, left=st.sampled_from([0, 0b100, 0b110]))
    def acknowledge_up_to_in(self, slot: int, entry: int, left: int) -> None:
        txn, chosen = self.open[slot], before(entry) | of_mask(entry, left)
        if self.ack(txn, CUMULATIVE, entry, left):
            assert all(one == txn or not some & chosen for one, some in self.singly.items())
            assert all(one == txn and some <= chosen for one, some in self.up_to.items())
            self.up_to[txn] = chosen

    @rule(slot=SLOT, outcome=st.sampled_from([COMMIT, ABORT]))
    def end(self, slot: int, outcome: Outcome) -> None:
        txn = self.open[slot]
        answer = self.world.client().ask(end_on_subscription(1, txn, outcome))
        assert not answer.HasField("error"), answer
        held = self.singly.pop(txn, set()) | self.up_to.pop(txn, set())
        self.acked |= held if outcome is COMMIT else set()
        self.least += 1
        self.open[slot] = TxnId(0, self.least)

    @rule()
    def load_again(self) -> None:
        self.world.topic().drop(DiskFull("no room"))
        self.connect()

    @rule(entry=ENTRY, left=st.sampled_from([WHOLE, 0b110, 0b100]))
    def seek(self, entry: int, left: int) -> None:
        self.world.do(self.subscription.seek(entry, None if left == WHOLE else left))
        self.acked = before(entry) | of_mask(entry, left)
        self.connect()

    @rule(entry=ENTRY)
    def skip(self, entry: int) -> None:
        self.subscription.skip(range(entry))
        self.world.do(self.subscription.settled())
        self.acked |= before(entry)

    @rule()
    def consume_again(self) -> None:
        """Check that a new consumer receives what is neither acknowledged nor pending."""
        self.consumer.client.session.lost()
        self.connect()
        delivered = [
            (int(payload), one.ack_set[0] if one.ack_set else WHOLE)
            for one, payload in self.consumer.client.delivered()
        ]
        found = [of_mask(entry, WHOLE & ~left) for entry, left in delivered]
        wanted = before(ENTRIES) - self.acked - self.pending()
        assert set[tuple[int, int]]().union(*found) == wanted

    @invariant()
    def cursor_and_view_have_what_they_should(self) -> None:
        if not hasattr(self, "world"):
            return
        self.world.clock.pump()
        acks, expected = (
            self.subscription.acks.transactional,
            [(self.subscription.cursor, self.acked)],
        )
        if acks is not None:
            expected.append((acks.view, self.acked | self.pending()))
        for cursor, gone in expected:
            for entry in range(ENTRIES):
                left = 0 if cursor.is_acked(entry) else cursor.partial.get(entry, WHOLE)
                assert of_mask(entry, left) == of_mask(entry, 0) & gone


BatchAcks.TestCase.settings = settings(
    max_examples=examples(50), stateful_step_count=30, deadline=None
)
test_batch_acks = BatchAcks.TestCase
