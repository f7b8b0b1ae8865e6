"""Any history of transactions on one topic, with crashes: who gets what, against a model.

The model has a list of entries and a set of acknowledged ones; it has no markers, no offsets and
no cursors.
"""

from dataclasses import dataclass, field
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from effort import examples
from fakes.logs import BY_THREE
from fakes.sessions import SessionWorld, produce
from fakes.transactions import (
    ABORT,
    COMMIT,
    Reading,
    end_on_partition,
    end_on_subscription,
    in_transaction,
)
from magnetar_broker.base.transaction_ids import Outcome, TxnId
from magnetar_broker.expiry.trimming import trim_topic
from magnetar_broker.placement.ownership import SoleOwner
from magnetar_broker.standalone import standalone
from magnetar_proto import PulsarApi_pb2 as pb
from raw_client import send_frame

OPEN = 3
"""Transactions that are open at a time."""


class LifeWorld(SessionWorld):
    """A broker that can be killed; its segments have three entries."""

    ROLL = BY_THREE

    def crash(self) -> None:
        """Nothing of the process happens any more, and what is not durable never did."""
        self.clock.forget()
        self.tasks.forget()
        self.store.crash()
        self.directory, self.broker = standalone(
            self.broker.settings, self.engine, SoleOwner("pulsar://here:6650")
        )
        self.do(self.broker.start())
        self.clock.pump()


@dataclass
class Model:
    """What was published and acknowledged."""

    entries: list[tuple[bytes, TxnId | None]] = field(default_factory=list)
    outcomes: dict[TxnId, Outcome] = field(default_factory=dict)
    acked: set[bytes] = field(default_factory=set)
    pending: dict[bytes, TxnId] = field(default_factory=dict)

    def visible(self) -> list[bytes]:
        """Up to the first message of an open transaction, without those of aborted ones."""
        found = []
        for payload, txn in self.entries:
            outcome = COMMIT if txn is None else self.outcomes.get(txn)
            if outcome is None:
                break
            if outcome is COMMIT:
                found.append(payload)
        return found

    def wanted(self) -> list[bytes]:
        """What the subscription is to deliver."""
        held = self.acked | self.pending.keys()
        return [payload for payload in self.visible() if payload not in held]

    def end(self, txn: TxnId, outcome: Outcome) -> None:
        self.outcomes[txn] = outcome

    def end_acks(self, txn: TxnId, outcome: Outcome) -> None:
        of_it = {payload for payload, holder in self.pending.items() if holder == txn}
        if outcome is COMMIT:
            self.acked |= of_it
        self.pending = {p: holder for p, holder in self.pending.items() if holder != txn}


class Transactions(RuleBasedStateMachine):
    """One producer, one Shared subscription, and readers of everything."""

    @initialize()
    def begin(self) -> None:
        self.world = LifeWorld()
        self.model = Model()
        self.least = OPEN
        self.open = [TxnId(0, least) for least in range(OPEN)]
        self.published = 0
        self.sequence_id = 0
        self.requests = 10
        self.trimmed = False
        self.connect()

    def connect(self) -> None:
        """The clients connect, as at first or after a crash."""
        self.producer = self.world.client()
        self.producer.ask(produce(1))
        self.consumer = Reading(self.world, subType=pb.CommandSubscribe.Shared)
        self.positions: dict[bytes, tuple[int, int]] = {}
        self.receive()

    def receive(self) -> list[bytes]:
        delivered = self.consumer.client.delivered()
        for command, payload in delivered:
            self.positions[payload] = (command.message_id.ledgerId, command.message_id.entryId)
        return [payload for _, payload in delivered]

    def frame(self, slot: int | None) -> tuple[bytes, bytes, TxnId | None]:
        self.published += 1
        self.sequence_id += 1
        payload, txn = b"%d" % self.published, None if slot is None else self.open[slot]
        if txn is None:
            return send_frame(self.sequence_id, payload), payload, None
        return in_transaction(txn, self.sequence_id, payload), payload, txn

    SLOTS = st.one_of(st.none(), st.integers(0, OPEN - 1))
    OUTCOMES = st.sampled_from((COMMIT, ABORT))

    @rule(slots=st.lists(SLOTS, min_size=1, max_size=5))
    def publish(self, slots: list[int | None]) -> None:
        frames = [self.frame(slot) for slot in slots]
        self.producer.send_bytes(b"".join(frame for frame, _, _ in frames))
        receipts = self.producer.received()
        assert [type(one) for one in receipts] == [pb.CommandSendReceipt] * len(slots), receipts
        self.model.entries += [(payload, txn) for _, payload, txn in frames]

    @rule(slot=SLOTS)
    def publish_and_crash(self, slot: int | None) -> None:
        frame, _, _ = self.frame(slot)
        self.producer.send_bytes(frame)
        self.crash()

    @rule(slot=st.integers(0, OPEN - 1), outcome=OUTCOMES, crashes=st.sampled_from("----abc"))
    def end(self, slot: int, outcome: Outcome, crashes: str) -> None:
        txn, self.requests = self.open[slot], self.requests + 2
        low = min(one.least for one in self.open) - 1
        fields: dict[str, Any] = {} if low < 0 else {"txnid_least_bits_of_low_watermark": low}
        coordinator = self.world.client()
        partition = end_on_partition(self.requests, txn, outcome, **fields)
        subscription = end_on_subscription(self.requests + 1, txn, outcome, **fields)
        if crashes == "a":  # its end is under way, and is repeated after the crash
            coordinator.send(partition, subscription)
            self.crash()
            coordinator = self.world.client()
        answer = coordinator.ask(partition)
        assert not answer.HasField("error"), answer
        self.model.end(txn, outcome)
        if crashes == "b":
            self.crash()
            coordinator = self.world.client()
        answer = coordinator.ask(subscription)
        assert not answer.HasField("error"), answer
        self.model.end_acks(txn, outcome)
        if crashes == "c":
            self.crash()
        self.least += 1
        self.open[slot] = TxnId(0, self.least)

    @rule(slot=SLOTS, data=st.data())
    def acknowledge(self, slot: int | None, data: st.DataObject) -> None:
        self.receive()
        free = [one for one in self.model.wanted() if one in self.positions]
        held = [one for one in self.model.pending if one in self.positions]
        if not free and not held:
            return
        payload = data.draw(st.sampled_from(free + held))
        txn = None if slot is None else self.open[slot]
        self.requests += 1
        ack = pb.CommandAck(consumer_id=1, ack_type="Individual", request_id=self.requests)
        ledger, entry = self.positions[payload]
        ack.message_id.add(ledgerId=ledger, entryId=entry)
        if txn is not None:
            ack.txnid_most_bits, ack.txnid_least_bits = txn
        self.consumer.client.send(ack)
        (answer,) = [
            one for one in self.consumer.client.received() if isinstance(one, pb.CommandAckResponse)
        ]
        holder = self.model.pending.get(payload)
        if txn is None:
            assert not answer.HasField("error")
            self.model.pending.pop(payload, None)
            self.model.acked.add(payload)
        elif holder is not None and holder != txn:
            assert answer.error == pb.TransactionConflict
        else:
            assert not answer.HasField("error")
            self.model.pending[payload] = txn

    @rule()
    def crash(self) -> None:
        self.world.crash()
        self.connect()

    @rule()
    def close(self) -> None:
        """As before a move: another owner loads it."""
        topic = self.world.topic()
        self.world.do(self.world.directory.opening.unload(topic.name))
        self.connect()

    @rule()
    def trim_topic(self) -> None:
        self.trimmed = True
        self.world.do(trim_topic(self.world.topic()))

    @rule()
    def read_everything(self) -> None:
        """A new reader gets what is visible, but for what was deleted."""
        reader = Reading(self.world, subscription="reader", durable=False)
        found, visible = reader.payloads(), self.model.visible()
        if self.trimmed:
            assert set(self.model.wanted()) <= set(found)
            assert found == [one for one in visible if one in set(found)]
        else:
            assert found == visible
        reader.client.close()
        reader.client.session.lost()

    @rule()
    def consume_again(self) -> None:
        """A new consumer of the subscription gets what is neither acknowledged nor pending."""
        self.consumer.client.send(pb.CommandCloseConsumer(consumer_id=1, request_id=3))
        self.consumer.client.received()
        self.consumer = Reading(self.world, subType=pb.CommandSubscribe.Shared)
        assert self.receive() == self.model.wanted()

    @invariant()
    def backlogs_end(self) -> None:
        """Nothing of what nobody gets is left once everything has ended."""
        if not hasattr(self, "world"):
            return
        self.world.clock.pump()
        log = self.world.topic().log
        assert log.visible_end <= log.end
        if all(txn is None or txn in self.model.outcomes for _, txn in self.model.entries):
            assert log.visible_end == log.end
            subscription = self.world.topic().subscriptions["sub"]
            left = len(self.model.wanted()) + len(self.model.pending)
            assert self.world.do(subscription.backlog()).messages == left


Transactions.TestCase.settings = settings(
    max_examples=examples(300), stateful_step_count=40, deadline=None
)
test_transactions = Transactions.TestCase
