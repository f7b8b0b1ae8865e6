"""SEND: from received frames to the runs that producers publish, and back-pressure on the socket.

This is the hot path of publishing.  All SENDs of one producer that arrive together become
one run (`PublishRun`), so that nothing after this module happens per message.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from crc32c import crc32c

from magnetar_broker.base.transaction_ids import TxnId
from magnetar_broker.producers.appender import Publisher, PublishRun
from magnetar_broker.producers.producer import Producer
from magnetar_broker.producers.publish_budget import PublishBudget
from magnetar_broker.producers.publish_rules import PublishRules
from magnetar_broker.session.entry_checks import (
    UNCHECKED,
    UNSUPPORTED,
    Refusal,
    refusal_of_entry,
)
from magnetar_broker.session.handle_table import HandleTable
from magnetar_broker.session.read_gate import Pause, ReadGate
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.commands import decode, encode
from magnetar_proto.entries import (
    CHECKED_FROM,
    CHECKED_HEAD,
    CHECKED_MAGIC,
    DELIVER_AT_TAG,
    METADATA_AT,
    deliver_at_ms,
    publish_time,
)
from magnetar_proto.errors import BadCommand
from magnetar_proto.frames import Frame
from magnetar_proto.sends import TransactionSend, decode_send, decode_transaction_send
from magnetar_proto.transactions import TAGS, with_transaction
from magnetar_storage.runtime.execution import Timer

SEND: Final[int] = pb.BaseCommand.SEND

NO_RULES: Final = PublishRules()
"""The rules before the first producer: every SEND finds the rules of its own producer first."""


class Publishing:
    """One connection's producers, and the limit of their pending entries."""

    __slots__ = (
        "_budget",
        "_gate",
        "_max_pending",
        "_send",
        "drops_damaged",
        "paused",
        "pending_entries",
        "producers",
        "recently_closed",
    )

    def __init__(
        self,
        send: Callable[[bytes], None],
        gate: ReadGate,
        budget: PublishBudget,
        max_pending: int,
        max_producers: Callable[[], int] = lambda: 0,
    ) -> None:
        """`send` queues whole frames for the client."""
        self.producers: HandleTable[Producer] = HandleTable(
            "producer", max_producers, "magnetarMaxProducersPerConnection"
        )
        self.recently_closed: dict[int, Timer] = {}
        """Producers that the broker closed, each with the timer that forgets it: SENDs from before
        the client learned it are ignored."""
        self.drops_damaged = False
        """Whether the client fails a single message only if it is told that it is damaged."""
        self.pending_entries = 0
        self.paused = False
        self._send = send
        self._gate = gate
        self._budget = budget
        self._max_pending = max_pending

    def receive(self, frames: Sequence[Frame], at: int) -> int:
        """Handle the SENDs from `frames[at]` on; returns the index of the first other command."""
        runs: list[PublishRun] = []
        current_id = -1
        rules, transactional = NO_RULES, False
        head, named = CHECKED_HEAD.unpack_from, TAGS.search
        # No slice for the usual read, in which everything is a SEND.
        for kind, buf, start, mid, entry in frames[at:] if at else frames:
            if kind != SEND:
                break
            at += 1
            send = decode_send(buf, start, mid)
            if send is None:
                self._receive_rare(runs, buf, start, mid, entry)
                current_id = -1
                continue
            producer_id, sequence_id, messages, highest_id = send
            if producer_id != current_id:
                # Once for each change of the producer: clients send what they have gathered
                # together.
                found = self._run(runs, producer_id)
                if found is None:
                    continue
                run, current_id = found, producer_id
                rules = run.producer.rules
                transactional = rules.transactional
            entry_size = len(entry)
            # Check the usual message here: a call for each would cost a tenth more.
            usual, refused = False, None
            if METADATA_AT < entry_size < rules.usual_size:
                magic, checksum, size = head(entry)
                # promise[transactional -> False]: usual messages cannot pretend to be in a
                #   transaction
                usual = (
                    magic == CHECKED_MAGIC
                    and crc32c(entry[CHECKED_FROM:]) == checksum
                    and 0 < size <= entry_size - METADATA_AT
                    and not (transactional and named(entry, METADATA_AT, METADATA_AT + size))
                )
            if not usual:
                refused = _refusal(entry, rules, messages > 0)
                # Parsed only here: a large, encrypted or unusual entry is worth it.
                if refused is None and deliver_at_ms(entry) is not None:
                    run.delayed = True
                    refused = _check_delay(entry, rules.max_delay_ms)
            elif entry.find(DELIVER_AT_TAG, METADATA_AT, METADATA_AT + size) >= 0:
                run.delayed = True
                refused = _check_delay(entry, rules.max_delay_ms)
            if refused is not None:
                self._refuse(runs, run.producer, max(sequence_id, highest_id), refused)
                current_id = -1
                continue
            run.sequence_ids.append(sequence_id)
            # A highest id below the lowest is ignored, as in Pulsar 4.2.4.
            run.highest_ids.append(highest_id if highest_id >= sequence_id else 0)
            if messages > 0:
                run.counts.append(messages)
            else:
                # A chunk counts as a message, or quotas of messages would not see it.
                run.counts.append(1)
                run.chunked = True
            run.payloads.append(entry)
            run.size += entry_size
        self._publish(runs)
        return at

    def release_pending(self, entries: int, size: int) -> None:
        """Count pending entries and bytes as answered; resume reading if there is room."""
        self.pending_entries -= entries
        # The limit of all connections, then that of this one: either may resume reading.
        self._budget.give(size)
        if self.paused:
            self._resume_if_free()

    def lost(self) -> None:
        """Close the producers of the connection, which is closed."""
        self._budget.paused.discard(self._resume_if_free)
        self.producers.close_all()

    def _run(self, runs: list[PublishRun], producer_id: int) -> PublishRun | None:
        """Return the producer's run among `runs`; None if the message is to be ignored."""
        producer = self.producers.get(producer_id)
        if producer is None or not producer.takes_runs:
            # Its topic is being closed: the client sends again what is ignored here.
            is_finishing = producer is not None and producer.ready
            if not is_finishing and producer_id not in self.recently_closed:
                raise BadCommand(
                    f"SEND by producer {producer_id}, which is not open on this connection"
                )
            return None
        run = producer.gathering
        # The message is in no transaction.
        # promise: a run never continues one of a transaction
        if run is not None and run.txn is not None:
            self._publish(runs)
            run = None
        if run is None:
            run = producer.gathering = PublishRun(producer)
            runs.append(run)
        return run

    def _publish(self, runs: list[PublishRun]) -> None:
        """Hand the runs to their producers; pause reading at the limits of pending data."""
        size = 0
        for run in runs:
            size += run.size
            self.pending_entries += len(run.payloads)
        self._budget.take(size)
        for run in runs:
            producer = run.producer
            producer.gathering = None
            entries = len(run.payloads)
            if entries:
                producer.entries_published += entries
                producer.sink.append(run)
        # The caller goes on with the same list: a refusal comes between two runs.
        runs.clear()
        # After all of it was handed over: what was received is published, whatever the limits.
        if self.pending_entries >= self._max_pending or self._budget.exhausted:
            self._pause()

    def _pause(self) -> None:
        if not self.paused:
            self.paused = True
            self._gate.pause(Pause.PENDING)
            # Room may come from other connections, which know nothing of this one.
            self._budget.paused.add(self._resume_if_free)

    def _resume_if_free(self) -> None:
        """Resume reading when half of both limits is free: the connection's and the broker's."""
        # Half, so that a client is not paused and resumed for every message.
        if self.pending_entries <= self._max_pending // 2 and self._budget.is_half_free:
            self.paused = False
            self._budget.paused.discard(self._resume_if_free)
            self._gate.resume(Pause.PENDING)

    def _receive_rare(
        self, runs: list[PublishRun], buf: bytes, start: int, mid: int, entry: bytes
    ) -> None:
        """Handle a SEND with other fields than usual: in a transaction, or not supported."""
        send = decode_transaction_send(buf, start, mid)
        if send is not None:
            self._receive_in_transaction(runs, send, entry)
            return
        # Fields in an unusual order, or fields that are not supported: the generated class decides.
        parsed = decode(buf, start, mid).send
        if not parsed.HasField("marker") and not parsed.HasField("message_id"):
            self._receive_in_transaction(runs, _transaction_send(parsed), entry)
            return
        self._publish(runs)
        run = self._run(runs, parsed.producer_id)
        if run is not None:
            sequence_id = max(parsed.sequence_id, parsed.highest_sequence_id)
            self._refuse(runs, run.producer, sequence_id, UNSUPPORTED)

    def _receive_in_transaction(
        self, runs: list[PublishRun], send: TransactionSend, entry: bytes
    ) -> None:
        txn = TxnId(send.most, send.least)
        producer = self.producers.get(send.producer_id)
        # A run has one transaction: several of one producer are several runs.
        gathering = None if producer is None else producer.gathering
        if gathering is not None and gathering.txn == txn:
            run: PublishRun | None = gathering
        else:
            self._publish(runs)
            run = self._run(runs, send.producer_id)
        if run is None:
            return
        sequence_id, highest_id, messages = send.sequence_id, send.highest_id, send.messages
        is_delayed = deliver_at_ms(entry) is not None
        refused = _refusal_in_transaction(entry, run.producer, txn, messages > 0, is_delayed)
        if refused is not None:
            self._refuse(runs, run.producer, max(sequence_id, highest_id), refused)
            return
        run.txn = txn
        if is_delayed:
            run.delayed = True
        if messages <= 0:
            run.chunked = True
        run.sequence_ids.append(sequence_id)
        run.highest_ids.append(highest_id if highest_id >= sequence_id else 0)
        run.counts.append(messages if messages > 0 else 1)
        # promise: a message of a transaction is stored with it
        entry = with_transaction(entry, *txn)  # a load of the topic reads it
        run.payloads.append(entry)
        run.size += len(entry)

    def _refuse(
        self, runs: list[PublishRun], producer: Publisher, sequence_id: int, refused: Refusal
    ) -> None:
        """Refuse one message after those before it are answered; until then it is pending."""
        self._publish(runs)
        code, barred = refused.code, refused.text if refused.for_good else ""
        # At any other error these clients reconnect and send the same message again, for ever.
        if self.drops_damaged and code == pb.NotAllowedError:
            code, barred = pb.ChecksumError, ""
        error = pb.CommandSendError(
            producer_id=producer.id,
            sequence_id=sequence_id,
            error=code,
            message=refused.text,
        )
        # Until its answer is sent: a client that sends only bad messages is paused as any other.
        self.pending_entries += 1
        producer.when_answered(partial(self._refused, producer, encode(error), barred))

    def _refused(self, producer: Publisher, answer: bytes, barred: str) -> None:
        if not producer.closed:
            self._send(answer)
            if barred:
                producer.refuse_next(barred)
        self.release_pending(1, 0)


def _refusal(
    entry: bytes, rules: PublishRules, is_whole: bool, txn: TxnId | None = None
) -> Refusal | None:
    """Return why an entry cannot be stored; `is_whole` means that it is not a chunk."""
    largest = rules.max_message_size if is_whole else 0
    checked = txn if rules.transactional or txn is not None else UNCHECKED
    return refusal_of_entry(entry, rules.must_encrypt, largest, checked)


def _refusal_in_transaction(
    entry: bytes, producer: Publisher, txn: TxnId, is_whole: bool, is_delayed: bool
) -> Refusal | None:
    """Return why a message of a transaction cannot be stored; None if it can."""
    ended = producer.sink.refusal(txn)
    if ended:
        return Refusal(pb.NotAllowedError, ended, for_good=False)
    rules = producer.rules
    refused = _refusal(entry, rules, is_whole, txn)
    return _check_delay(entry, rules.max_delay_ms) if refused is None and is_delayed else refused


def _transaction_send(send: pb.CommandSend) -> TransactionSend:
    return TransactionSend(
        send.producer_id,
        send.sequence_id,
        0 if send.is_chunk else send.num_messages,
        send.highest_sequence_id,
        send.txnid_most_bits,
        send.txnid_least_bits,
    )


def _check_delay(entry: bytes, longest_ms: int) -> Refusal | None:
    """Return a refusal if the entry's delay exceeds the limit; 0 means no limit."""
    if longest_ms <= 0 or (deliver_at_ms(entry) or 0) - publish_time(entry) <= longest_ms:
        return None
    return Refusal(
        pb.NotAllowedError,
        f"the message's delay exceeds {longest_ms} ms (maxDeliveryDelayInMillis): send it "
        "later, or with a shorter delay",
    )
