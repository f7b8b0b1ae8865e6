"""The producer of one partition: batches, sequence ids, receipts and resending."""

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace

from magnetar.base.errors import (
    Closed,
    ConnectionLost,
    MagnetarError,
    MessageTooLarge,
    NotAllowed,
    OperationTimeout,
    QueueFull,
    TopicTerminated,
    broker_error,
)
from magnetar.base.memory import MemoryLimit
from magnetar.base.schema_info import SchemaInfo
from magnetar.base.settings import Settings
from magnetar.base.statistics import ProducerStatistics
from magnetar.clock import Timer
from magnetar.connections.connection import DEFAULT_MAX_MESSAGE_SIZE, Connection
from magnetar.connections.pool import Pool
from magnetar.connections.registration import Registration
from magnetar.connections.retry import Retry
from magnetar.encryption.sending import Encrypting
from magnetar.messages import MESSAGE_OVERHEAD, Outgoing
from magnetar.producing.batching import (
    COMPRESSIONS,
    Batch,
    ChunkLimits,
    Packed,
    SameMessages,
    Sender,
    rides_alone,
    size_of,
    version_of,
)
from magnetar.producing.options import ACCESS_MODES, WAIT_FOR_EXCLUSIVE, ProducerOptions
from magnetar.producing.receipts import Receipt
from magnetar.transactions.transaction import Transaction
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.commands import encode

MAX_FAILURES_KEPT = 100
"""The number of failed batches kept: `flush` raises the first error not seen before."""


@dataclass(slots=True)
class _Pending:
    """An entry whose receipt has not arrived."""

    frame: bytes
    sequence_id: int
    highest_sequence_id: int
    batch: Batch
    deadline_s: float
    is_written: bool
    """Whether a broker may have received it."""
    is_last: bool
    """Whether it is the last chunk of its message, which determines the outcome."""


class PartitionProducer:
    """One producer of a topic that is not partitioned, or of one partition."""

    def __init__(
        self,
        pool: Pool,
        settings: Settings,
        producer_id: int,
        topic: str,
        partition: int,
        options: ProducerOptions,
        encrypting: Encrypting | None = None,
        memory: MemoryLimit | None = None,
    ) -> None:
        self.topic = topic
        self.name = options.name
        self._settings = settings
        self._id = producer_id
        self._partition = partition
        self._options = options
        self._encrypting = encrypting
        self._memory = memory or MemoryLimit()
        self._is_limited = self._memory.limit > 0
        self._limits = options.batching
        self._by_key = options.key_batching
        self._loop = asyncio.get_running_loop()
        self._clock = settings.clock
        self._registration = Registration(pool, settings, topic, self._register, self._end)
        self._sender: Sender | None = None
        self._epoch = 0
        self._topic_epoch: int | None = None
        self.last_sequence_id = -1
        """The highest sequence id known to be stored; -1 if none is known."""
        self._next_sequence_id = 0
        self._max_message_size = DEFAULT_MAX_MESSAGE_SIZE
        self._txn: Transaction | None = None
        """The transaction of the batches that are being filled."""
        self._batch = self._new_batch()
        self._keyed: dict[object, Batch] = {}
        """The batches that are being filled, by key, with key_batching."""
        self._keyed_messages = self._keyed_bytes = 0
        self._batch_timer: Timer | None = None
        self._waiting: deque[Batch] = deque()
        """The batches to send once the producer, or its partition in a transaction, is registered.

        Further batches queue behind them, to keep the order."""
        self._pending: deque[_Pending] = deque()
        self._pending_messages = 0
        self._pending_bytes = 0
        self._room = asyncio.Event()
        self._room.set()
        self._expiry: Timer | None = None
        self.error: MagnetarError | None = None
        """The error after which it sends nothing; None before."""
        self._failed: deque[Batch] = deque(maxlen=MAX_FAILURES_KEPT)
        self._counts = ProducerStatistics(topic)

    # -- for the application's producer

    async def open(self) -> None:
        """Register with the broker; raise the broker's error, or OperationTimeout."""
        await self._registration.open(in_time=self._options.access_mode != WAIT_FOR_EXCLUSIVE)

    @property
    def is_connected(self) -> bool:
        """Whether it is registered with a broker at the moment."""
        return self._registration.connection is not None

    @property
    def statistics(self) -> ProducerStatistics:
        """The counts of this producer."""
        return replace(
            self._counts,
            pending_messages=self._pending_messages,
            pending_bytes=self._pending_bytes,
            latencies=list(self._counts.latencies),
        )

    def has_room(self) -> bool:
        """Tell whether one more message may become pending."""
        return (
            self._pending_messages < self._options.max_pending_messages
            and self._pending_bytes < self._options.max_pending_bytes
            and (not self._is_limited or self._memory.has_room())
        )

    async def room(self) -> None:
        """Wait until `has_room`, at most until a pending message times out."""
        while not self.has_room() and self.error is None:
            self._room.clear()
            self.send_batch_now()
            with self._memory.waking(self._room.set):
                await self._room.wait()

    async def register(self, schema: SchemaInfo) -> bytes:
        """Return the version of a schema on the topic; a new schema is added as the next one."""

        async def ask() -> bytes:
            self._registration.start()  # of a lazy producer
            connection = await self._registration.ready()
            command = pb.CommandGetOrCreateSchema(topic=self.topic, schema=schema.to_pb())
            reply: pb.CommandGetOrCreateSchemaResponse = await connection.request(command)
            if reply.HasField("error_code"):
                raise broker_error(reply.error_code, reply.error_message)
            return reply.schema_version

        return await Retry(self._settings).in_time(ask, f"registering a schema of {self.topic}")

    def is_between_batches(self) -> bool:
        """Whether the next message would start a new batch."""
        return not self._batch.messages and not self._keyed

    def add(self, message: bytes | Outgoing, txn: Transaction | None = None) -> Receipt:
        """Queue a message, to be sent in order; QueueFull if there is no room."""
        if self.error is not None:
            raise self.error
        if txn is not None:
            txn.check_open()
        if not self.has_room():
            limited = "" if self._memory.has_room() else ", and memory_limit is reached"
            raise QueueFull(
                f"{self._pending_messages} messages to {self.topic} have no receipt{limited}"
            )
        # promise[txn is not self._txn -> self._txn is None and txn is not None]: batches never mix
        if txn is not self._txn:
            self._begin(txn)
        alone = rides_alone(message)
        if self._by_key and not alone:
            return self._add_keyed(message)
        if alone or not self._batch.has_room(message, self._limits):
            self.send_batch_now()
        batch = self._batch
        if not isinstance(message, bytes) and message.sequence_id is not None:
            batch = self._batch_before(message.sequence_id)
        receipt = Receipt(batch, batch.add(message), self._partition)
        if txn is not None:
            txn.adds(batch.done, self)
        size = size_of(message)
        self._pending_messages += 1
        self._pending_bytes += size
        if self._is_limited:
            self._memory.sends(size)
        if alone or batch.is_full(self._limits):
            self.send_batch_now()
        elif self._batch_timer is None:
            self._schedule_batch()
        return receipt

    def _begin(self, txn: Transaction | None) -> None:
        """Start batches of this transaction, or of none: no batch mixes transactions."""
        self.send_batch_now()
        self._txn = self._batch.txn = txn

    def _batch_before(self, sequence_id: int) -> Batch:
        """Return the batch for a message with this id: the ids in a batch ascend."""
        last = self._batch.ids(self._next_sequence_id)[-1:]
        if last and sequence_id <= last[0]:
            self.send_batch_now()
        self._batch.has_ids = True
        return self._batch

    def _add_keyed(self, message: bytes | Outgoing) -> Receipt:
        key = None if isinstance(message, bytes) else message.ordering_key or message.key
        batch = self._keyed.get(key)
        if batch is not None and batch.schema_version != version_of(message):
            self.send_batch_now()  # promise: what comes later of the key does not overtake it
            batch = None
        if batch is None:
            batch = self._keyed[key] = self._new_batch()
            if self._txn is not None:
                self._txn.adds(batch.done, self)
        if not isinstance(message, bytes) and message.sequence_id is not None:
            raise ValueError("with key_batching the application cannot choose sequence ids")
        receipt = Receipt(batch, batch.add(message), self._partition)
        size = size_of(message)
        self._count(1, size)
        self._keyed_messages += 1
        self._keyed_bytes += size
        limits = self._limits
        if self._keyed_messages >= limits.max_messages or self._keyed_bytes >= limits.max_bytes:
            self.send_batch_now()
        elif self._batch_timer is None:
            self._schedule_batch()
        return receipt

    def send_packed(
        self, messages: SameMessages | Packed, txn: Transaction | None = None
    ) -> "asyncio.Future[tuple[int, int]]":
        """Send all messages at once as one batch; return the future of its receipt.

        Call it while there is room.  More than `max_pending_messages` may be pending afterwards.
        The batch is sent even if the future is cancelled.
        """
        if self.error is not None:
            raise self.error
        if txn is not None:
            txn.check_open()
        self._begin(txn)  # promise[txn -> None]: an encoded batch is in its transaction
        batch = self._new_batch()
        batch.messages = messages
        if isinstance(messages, Packed):
            batch.has_ids = bool(messages.ids)
            batch.size = len(messages) * MESSAGE_OVERHEAD + len(messages.encoded)
        else:
            batch.size = len(messages) * size_of(messages.value)
        batch.is_noticed = True
        if txn is not None:
            txn.adds(batch.done, self)
        self._count(len(messages), batch.size)
        self._send(batch)
        return batch.done

    def send_batch_now(self) -> None:
        """Send the batch that is being filled without waiting for more messages."""
        if self._batch_timer is not None:
            self._batch_timer.cancel()
            self._batch_timer = None
        if self._batch.messages:
            batch, self._batch = self._batch, self._new_batch()
            self._send(batch)
        if self._keyed:
            keyed, self._keyed = self._keyed, {}
            self._keyed_messages = self._keyed_bytes = 0
            for batch in keyed.values():
                self._send(batch)

    async def flush(self) -> None:
        """Wait for every receipt; raise the first error not seen by the application."""
        self.send_batch_now()
        waiting = [pending.batch.done for pending in self._pending]
        waiting += [batch.done for batch in self._waiting]
        if waiting:
            await asyncio.wait(waiting)
        unseen = [batch for batch in self._failed if not batch.is_noticed]
        self._failed.clear()
        if unseen:
            unseen[0].done.result()

    async def close(self) -> None:
        """Flush, then deregister; raise the error of `flush`."""
        try:
            if self.error is None:
                await self.flush()
        finally:
            connection = await self._registration.close()
            self._end(self.error or Closed(f"the producer on {self.topic} is closed"))
            if connection is not None:
                connection.remove_producer(self._id)
                await self._deregister(connection)

    def forked(self, error: Closed) -> None:
        """Close in a forked child; pending messages are the parent's."""
        self._registration.forked(error)
        self._end(error)

    async def _deregister(self, connection: Connection) -> None:
        try:
            await connection.request(pb.CommandCloseProducer(producer_id=self._id))
        except ConnectionLost:
            return  # which ends the registration as well

    # -- for the connection

    def receipt_rcvd(
        self, connection: Connection, sequence_id: int, ledger: int, entry: int
    ) -> None:
        if not self._pending or sequence_id < self._pending[0].sequence_id:
            return  # of a batch that was sent twice, or that timed out
        if sequence_id > self._pending[0].sequence_id:
            connection.close(
                ConnectionLost(
                    f"{connection.address} answered {sequence_id} on {self.topic} before "
                    f"{self._pending[0].sequence_id}"
                )
            )
            return
        pending = self._pending.popleft()
        if not pending.is_last:
            pending.batch.chunk_stored(ledger, entry)
            return
        batch = pending.batch
        took_s = self._clock.now_s() - pending.deadline_s + self._options.send_timeout_s
        self._counts.stored(len(batch.messages), batch.size, took_s)
        self._release(batch)
        self.last_sequence_id = pending.highest_sequence_id
        batch.stored(ledger, entry)
        if not self._pending and (self._batch.messages or self._keyed):
            self.send_batch_now()

    def send_error_rcvd(self, connection: Connection, refusal: pb.CommandSendError) -> None:
        error = broker_error(refusal.error, refusal.message)
        if isinstance(error, TopicTerminated):
            self._end(error)
        elif isinstance(error, NotAllowed) and self._is_first(refusal.sequence_id):
            self._give_up_first(error)
        else:
            # The broker's view of this producer is unknown: reconnect and resend pending messages.
            connection.close(ConnectionLost(f"{connection.address} refused a message: {error}"))

    def detached(self, connection: Connection, error: MagnetarError, new_owner: str = "") -> None:
        if self._registration.is_of(connection):
            self._give_up_in_transactions()  # promise: nothing in a transaction is sent twice
        self._registration.detached(connection, new_owner)

    # -- registration

    async def _register(self, connection: Connection) -> None:
        connection.add_producer(self._id, self)
        command = pb.CommandProducer(
            topic=self.topic,
            producer_id=self._id,
            producer_name=self.name,
            user_provided_producer_name=self._options.name is not None,
            epoch=self._epoch,
        )
        self._describe(command)
        try:
            reply: pb.CommandProducerSuccess = await self._ask(connection, command)
        except BaseException:
            connection.remove_producer(self._id)
            connection.send_only(pb.CommandCloseProducer(producer_id=self._id))
            raise
        self._epoch += 1
        if reply.HasField("topic_epoch"):
            self._topic_epoch = reply.topic_epoch
        if self._sender is None:
            self.name = reply.producer_name
            self.last_sequence_id = reply.last_sequence_id
            if self._options.initial_sequence_id is not None:
                self.last_sequence_id = self._options.initial_sequence_id
            self._next_sequence_id = self.last_sequence_id + 1
            self._sender = Sender(
                self._id,
                reply.producer_name,
                COMPRESSIONS[self._options.compression],
                reply.schema_version if command.HasField("schema") else b"",
                self._encrypting,
            )
        self._max_message_size = connection.max_message_size
        for pending in self._pending:
            pending.is_written = True
            connection.write(pending.frame)
        self._send_waiting(connection)

    def _describe(self, command: pb.CommandProducer) -> None:
        """Add the optional fields of the command."""
        options = self._options
        if options.schema is not None and options.schema.info.is_registered:
            command.schema.CopyFrom(options.schema.info.to_pb())
        if options.encryption_keys:
            command.encrypted = True
        mode = ACCESS_MODES[options.access_mode]
        if mode != pb.Shared:
            command.producer_access_mode = mode  # type: ignore[assignment]
        if self._topic_epoch is not None:
            command.topic_epoch = self._topic_epoch
        if options.initial_subscription is not None:
            command.initial_subscription_name = options.initial_subscription
        for name, text in options.properties.items():
            command.metadata.add(key=name, value=text)

    async def _ask(
        self, connection: Connection, command: pb.CommandProducer
    ) -> pb.CommandProducerSuccess:
        if self._options.access_mode != WAIT_FOR_EXCLUSIVE:
            return await connection.request(command)  # type: ignore[no-any-return]
        command.request_id, answer = connection.expect()
        connection.write(encode(command))
        return await answer  # type: ignore[no-any-return]

    # -- sending

    def _new_batch(self) -> Batch:
        return Batch(self._loop.create_future(), self._txn)

    def _schedule_batch(self) -> None:
        # If nothing is in flight, waiting gains nothing: send at the end of this turn.
        if self._pending:
            delay_s = self._limits.max_delay_ms / 1000
            self._batch_timer = self._clock.later(delay_s, self.send_batch_now)
        else:
            self._batch_timer = self._loop.call_soon(self.send_batch_now)

    def _send(self, batch: Batch) -> None:
        self._waiting.append(batch)
        if len(self._waiting) == 1:
            self._send_waiting()

    def _send_waiting(self, registered_on: Connection | None = None) -> None:
        while self._waiting:
            try:
                sender = self._sender_of(self._waiting[0])
            except MagnetarError as error:
                self._reject(self._waiting.popleft(), error)
                continue
            if sender is None:
                return
            self._send_by(sender, self._waiting.popleft(), registered_on)

    def _sender_of(self, batch: Batch) -> Sender | None:
        """Return the encoder of the batch; None if it must wait until `_send_waiting` is called.

        Raises the error for which its transaction cannot accept it.
        """
        sender = self._sender
        if sender is None:
            self._registration.start()  # of a lazy producer
            return None
        if batch.txn is not None:
            added = batch.txn.partition(self.topic)
            if not added.done():
                added.add_done_callback(lambda _: self._send_waiting())
                return None
            if added.cancelled():
                raise Closed(f"adding {self.topic} to {batch.txn} was cancelled")
            added.result()
            sender = replace(sender, txn=batch.txn.id)
        if batch.schema_version is not None:
            sender = replace(sender, schema_version=batch.schema_version)
        return sender

    def _send_by(
        self, sender: Sender, batch: Batch, registered_on: Connection | None = None
    ) -> None:
        now_ms = self._clock.now_ms()
        ids = batch.ids(self._next_sequence_id) if batch.has_ids else ()
        first = ids[0] if ids else self._next_sequence_id
        highest = ids[-1] if ids else first + len(batch.messages) - 1
        try:
            frames = self._frames(sender, batch, first, now_ms, ids)
        except Exception as error:  # its receipts must fail, or be awaited for ever
            self._reject(batch, error)
            return
        self._next_sequence_id = highest + 1
        deadline_s = self._clock.now_s() + self._options.send_timeout_s
        connection = registered_on or self._registration.connection
        left = len(frames)
        is_written = connection is not None
        for frame in frames:
            left -= 1
            pending = _Pending(frame, first, highest, batch, deadline_s, is_written, left == 0)
            self._pending.append(pending)
            if connection is not None:
                connection.write(frame)
        if self._expiry is None:
            self._expiry = self._clock.at(deadline_s, self._expire)

    def _frames(
        self, sender: Sender, batch: Batch, first: int, now_ms: int, ids: Sequence[int]
    ) -> list[bytes]:
        """Return the frames of a batch: several if it is one message that is sent in chunks."""
        messages = batch.messages
        try:
            return [sender.encode(messages, first, now_ms, self._max_message_size, ids)]
        except MessageTooLarge:
            if not self._options.chunking or isinstance(messages, Packed) or len(messages) > 1:
                raise
        limits = ChunkLimits(self._max_message_size, self._options.max_chunk_bytes)
        return sender.encode_chunks(messages[0], first, now_ms, limits)

    def _is_first(self, sequence_id: int) -> bool:
        if not self._pending:
            return False
        first = self._pending[0]
        return first.sequence_id <= sequence_id <= first.highest_sequence_id

    def _give_up_first(self, error: MagnetarError) -> None:
        pending = self._pending.popleft()
        while not pending.is_last:
            pending = self._pending.popleft()  # the other chunks of the message
        self._reject(pending.batch, error)

    def _give_up_in_transactions(self) -> None:
        """Give up batches that a broker may have stored for a transaction, which is then aborted.

        Without deduplication a resent batch would be stored twice, and committed twice.
        """
        kept: deque[_Pending] = deque()
        for pending in self._pending:
            # promise[without or not pending.is_written]: what was not sent is kept
            if pending.batch.txn is None or not pending.is_written:
                kept.append(pending)
            elif pending.is_last:
                error = ConnectionLost(
                    f"{self.topic}: the connection broke before the receipt of a message of "
                    f"{pending.batch.txn}, which cannot be committed any more: begin another one"
                )
                self._reject(pending.batch, error)
        self._pending = kept

    def _reject(self, batch: Batch, error: Exception) -> None:
        self._release(batch)
        self._counts.failed_messages += len(batch.messages)
        if batch.txn is None:  # a transaction raises the failures of its messages
            self._failed.append(batch)
        batch.failed(error)

    def _release(self, batch: Batch) -> None:
        self._count(-len(batch.messages), -batch.size)
        self._room.set()

    def _count(self, messages: int, size: int) -> None:
        self._pending_messages += messages
        self._pending_bytes += size
        if self._is_limited:
            self._memory.sends(size)

    def _expire(self) -> None:
        self._expiry = None
        now_s = self._clock.now_s()
        while self._pending and self._pending[0].deadline_s <= now_s:
            self._give_up_first(
                OperationTimeout(
                    f"no receipt from {self.topic} within {self._options.send_timeout_s:g} s; "
                    "whether the message was stored is unknown"
                )
            )
        if self._pending:
            self._expiry = self._clock.at(self._pending[0].deadline_s, self._expire)

    def _end(self, error: MagnetarError) -> None:
        """Fail every pending message, and refuse all later ones, with this error."""
        self.error = error
        for timer in filter(None, (self._batch_timer, self._expiry)):
            timer.cancel()
        unsent = [*self._waiting, *self._keyed.values()]
        if self._batch.messages:
            unsent.append(self._batch)
        self._batch, self._keyed = self._new_batch(), {}
        self._waiting.clear()
        for batch in unsent:
            self._reject(batch, error)
        while self._pending:
            self._give_up_first(error)
        self._room.set()
