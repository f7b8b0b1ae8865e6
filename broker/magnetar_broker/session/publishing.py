"""SEND: from received frames to runs that producers publish; back-pressure on the socket.

This is the hot path of publishing.  All SENDs of one producer that arrive together become
one run, so that nothing after this file happens per message.
"""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from crc32c import crc32c

from magnetar_broker.connection import Connection
from magnetar_broker.publishing.producer import Producer, Sends
from magnetar_broker.publishing.publish_budget import PublishBudget
from magnetar_broker.session.read_gate import Reading
from magnetar_broker.session.slots import Slots
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.commands import decode, encode
from magnetar_proto.entries import (
    CHECKED_FROM,
    CHECKED_HEAD,
    CHECKED_MAGIC,
    COPY_LIMIT,
    DELIVER_AT_TAG,
    METADATA_AT,
    deliver_at_ms,
    parse_metadata,
    publish_time,
    verify_checksum,
)
from magnetar_proto.errors import BadCommand, BadMetadata
from magnetar_proto.frames import Frame
from magnetar_proto.sends import decode_send

SEND = pb.BaseCommand.SEND


class Refusal(NamedTuple):
    """Why one message is refused; its producer goes on."""

    code: "pb.ServerError"
    text: str


DAMAGED = Refusal(
    pb.ChecksumError, "the checksum does not match the message: it was damaged; send it again"
)
PLAINTEXT = Refusal(
    pb.MetadataError, "this topic takes encrypted messages only: have the producer encrypt them"
)
UNSUPPORTED = Refusal(
    pb.NotAllowedError,
    "transactions, and messages that bring their id or mark something, are not supported: "
    "send without them",
)


class Publishing:
    """One connection's producers and what they have pending."""

    def __init__(
        self, connection: Connection, reading: Reading, budget: PublishBudget, max_pending: int
    ) -> None:
        self.producers: Slots[Producer] = Slots("producer")
        self.recently_closed: set[int] = set()
        """Producers that the broker closed: what their client sent before it knew is ignored."""
        self.pending_entries = 0
        self.paused = False
        self._connection = connection
        self._reading = reading
        self._budget = budget
        self._max_pending = max_pending

    def receive(self, frames: Sequence[Frame], at: int) -> int:
        """Handle the SENDs from `frames[at]` on; returns where something else begins."""
        runs: dict[int, Sends] = {}
        current_id = -1
        must_encrypt, usual_size, largest = False, COPY_LIMIT, 0
        head = CHECKED_HEAD.unpack_from
        for kind, buf, start, mid, end in frames[at:] if at else frames:
            if kind != SEND:
                break
            at += 1
            send = decode_send(buf, start, mid)
            if send is None:
                self._refuse_unsupported(runs, decode(buf, start, mid).send)
                current_id = -1
                continue
            producer_id, sequence_id, messages, highest_id = send
            if producer_id != current_id:
                found = self._run(runs, producer_id)
                if found is None:
                    continue
                run, current_id = found, producer_id
                must_encrypt = run.producer.must_encrypt
                largest = run.producer.max_message_size
                usual_size = min(COPY_LIMIT, largest) if largest > 0 else COPY_LIMIT
            entry = buf[mid:end]
            # What nearly every message is, decided here: a call for each costs a tenth more.
            usual, refused = False, None
            if METADATA_AT < end - mid < usual_size and not must_encrypt:
                magic, checksum, size = head(entry)
                usual = (
                    magic == CHECKED_MAGIC
                    and crc32c(entry[CHECKED_FROM:]) == checksum
                    and 0 < size <= end - mid - METADATA_AT
                )
            if not usual:
                refused = refusal_of_entry(entry, must_encrypt, largest if messages > 0 else 0)
                if refused is None and deliver_at_ms(entry) is not None:
                    refused = _check_delay(run, entry)
            elif DELIVER_AT_TAG in entry[METADATA_AT : METADATA_AT + size]:
                refused = _check_delay(run, entry)
            if refused is not None:
                self._refuse(runs, run.producer, max(sequence_id, highest_id), refused)
                current_id = -1
                continue
            run.sequence_ids.append(sequence_id)
            # A highest id below the lowest is none: a running Pulsar 4.2.4 ignores it too.
            run.highest_ids.append(highest_id if highest_id >= sequence_id else 0)
            if messages > 0:
                run.counts.append(messages)
            else:
                run.counts.append(1)
                run.chunked = True
            run.payloads.append(entry)
        self._publish(runs)
        return at

    def published(self, entries: int, size: int) -> None:
        """Pending entries were answered."""
        self.pending_entries -= entries
        self._budget.give(size)
        if self.paused:
            self._resume_if_free()

    def lost(self) -> None:
        """The connection is gone, and so are its producers."""
        self._budget.paused.discard(self._resume_if_free)
        self.producers.close_all()

    def _run(self, runs: dict[int, Sends], producer_id: int) -> Sends | None:
        """The producer's run; None if the message is to be ignored."""
        run = runs.get(producer_id)
        if run is None:
            producer = self.producers.get(producer_id)
            if producer is not None and producer.ready:
                run = runs[producer_id] = Sends(producer)
            elif producer_id not in self.recently_closed:
                raise BadCommand(f"SEND by producer {producer_id}, which is not open here")
        return run

    def _publish(self, runs: dict[int, Sends]) -> None:
        """Hand the runs to their producers; stop reading when too much is pending."""
        size = 0
        for run in runs.values():
            run.size = sum(map(len, run.payloads))
            size += run.size
            self.pending_entries += len(run.payloads)
        self._budget.take(size)
        for run in runs.values():
            if run.payloads:
                run.producer.publish(run)
        runs.clear()
        if self.pending_entries >= self._max_pending or self._budget.exhausted:
            self._pause()

    def _pause(self) -> None:
        if not self.paused:
            self.paused = True
            self._reading.pause_reading()
            self._budget.paused.add(self._resume_if_free)

    def _resume_if_free(self) -> None:
        """Read again when half of both limits is free: this connection's and everybody's."""
        if self.pending_entries <= self._max_pending // 2 and self._budget.is_half_free:
            self.paused = False
            self._budget.paused.discard(self._resume_if_free)
            self._reading.resume_reading()

    def _refuse_unsupported(self, runs: dict[int, Sends], send: pb.CommandSend) -> None:
        run = self._run(runs, send.producer_id)
        if run is not None:
            sequence_id = max(send.sequence_id, send.highest_sequence_id)
            self._refuse(runs, run.producer, sequence_id, UNSUPPORTED)

    def _refuse(
        self, runs: dict[int, Sends], producer: Producer, sequence_id: int, refused: Refusal
    ) -> None:
        """Answer one message behind those that came before it; until then it is pending."""
        self._publish(runs)
        error = pb.CommandSendError(
            producer_id=producer.id,
            sequence_id=sequence_id,
            error=refused.code,
            message=refused.text,
        )
        barred = "" if refused.code == pb.ChecksumError else refused.text
        self.pending_entries += 1
        producer.when_answered(partial(self._refused, producer, encode(error), barred))

    def _refused(self, producer: Producer, answer: bytes, barred: str) -> None:
        if not producer.closed:
            self._connection.send(answer)
            if barred:
                producer.bar(barred)
        self.published(1, 0)


def _check_delay(run: Sends, entry: bytes) -> Refusal | None:
    """Mark the run if the entry may be delayed; a refusal if it is so for too long."""
    run.delayed = True
    longest_ms = run.producer.topic.max_delay_ms
    if longest_ms <= 0 or (deliver_at_ms(entry) or 0) - publish_time(entry) <= longest_ms:
        return None
    return Refusal(
        pb.NotAllowedError,
        f"a message may be delayed by {longest_ms} ms at most; send it later, or with less delay",
    )


def refusal_of_entry(entry: bytes, must_encrypt: bool = False, largest: int = 0) -> Refusal | None:
    """Why an entry cannot be stored; one of more than `largest` bytes, unless that is 0.

    `BadMetadata` if it is no entry at all: the connection is to be closed.
    """
    if 0 < largest < len(entry):
        return Refusal(
            pb.NotAllowedError,
            f"a message of {len(entry)} bytes, with its metadata, is larger than this topic takes "
            f"(maxMessageSize {largest}): send it in chunks, or raise the limit",
        )
    if len(entry) < CHECKED_HEAD.size:
        raise BadMetadata("a message without metadata")
    magic, checksum, size = CHECKED_HEAD.unpack_from(entry)
    if magic != CHECKED_MAGIC or must_encrypt:
        return _refusal_of_unusual(entry, must_encrypt)
    small = len(entry) < COPY_LIMIT  # then a copy is cheaper than a view
    if crc32c(entry[CHECKED_FROM:] if small else memoryview(entry)[CHECKED_FROM:]) != checksum:
        return DAMAGED
    metadata_end = METADATA_AT + size
    if not METADATA_AT < metadata_end <= len(entry):
        raise BadMetadata("a message without metadata")
    return None


def _refusal_of_unusual(entry: bytes, must_encrypt: bool) -> Refusal | None:
    """The same for entries whose metadata has to be parsed."""
    if not verify_checksum(entry, 0, len(entry)):
        return DAMAGED
    metadata, _ = parse_metadata(entry)
    if must_encrypt and not metadata.encryption_keys:
        return PLAINTEXT
    return None
