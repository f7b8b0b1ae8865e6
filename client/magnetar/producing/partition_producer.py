"""The producer of one partition: registration, and the operations of the application."""

import asyncio
from dataclasses import replace

from magnetar.base.errors import (
    Closed,
    ConnectionLost,
    MagnetarError,
    NotAllowed,
    TopicTerminated,
    broker_error,
)
from magnetar.base.memory import MemoryLimit
from magnetar.base.schema_info import SchemaInfo
from magnetar.base.settings import Settings
from magnetar.base.statistics import ProducerStatistics
from magnetar.connections.connection import Connection
from magnetar.connections.pool import Pool
from magnetar.connections.registration import Registration
from magnetar.connections.retry import Retry
from magnetar.encryption.sending import Encrypting
from magnetar.messages import Outgoing
from magnetar.producing.batching import (
    COMPRESSIONS,
    Packed,
    SameMessages,
    Sender,
)
from magnetar.producing.open_batches import OpenBatches
from magnetar.producing.options import ACCESS_MODES, WAIT_FOR_EXCLUSIVE, ProducerOptions
from magnetar.producing.outbox import Outbox
from magnetar.producing.outcomes import Outcomes
from magnetar.producing.receipts import Receipt
from magnetar.producing.send_room import SendRoom
from magnetar.producing.sent_entries import SentEntries
from magnetar.transactions.transaction import Transaction
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.commands import encode


class PartitionProducer:
    """A producer of an unpartitioned topic or of one partition."""

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
        self.error: MagnetarError | None = None
        """The error that ended the producer; None before."""
        self._settings = settings
        self._id = producer_id
        self._options = options
        self._encrypting = encrypting
        self._epoch = 0
        self._topic_epoch: int | None = None
        clock = settings.clock
        limits = options.max_pending_messages, options.max_pending_bytes
        self._registration = Registration(pool, settings, topic, self._register, self._end)
        self._room = SendRoom(topic, *limits, memory or MemoryLimit())
        self._outcomes = Outcomes(topic, self._room)
        self._sent = SentEntries(self._registration, options.send_timeout_s, self._outcomes, clock)
        self._outbox = Outbox(self._registration, options, self._sent, self._outcomes, clock)
        self._batches = OpenBatches(
            partition, options, self._room, self._outcomes, self._outbox, clock
        )

    # -- for the application's producer

    async def open(self) -> None:
        """Register with the broker; raise the broker's error, or OperationTimeout."""
        await self._registration.open(in_time=self._options.access_mode != WAIT_FOR_EXCLUSIVE)

    @property
    def is_connected(self) -> bool:
        """Whether the producer is registered with a broker now."""
        return self._registration.connection is not None

    @property
    def last_sequence_id(self) -> int:
        """The highest sequence id known to be stored; -1 if none is known."""
        return self._sent.last_sequence_id

    @property
    def statistics(self) -> ProducerStatistics:
        """The counts of this producer."""
        counts = self._outcomes.counts
        return replace(
            counts,
            pending_messages=self._room.messages,
            pending_bytes=self._room.bytes,
            latencies=list(counts.latencies),
        )

    def has_room(self) -> bool:
        """Return whether one more message may become pending."""
        return self._room.is_free()

    async def room(self) -> None:
        """Wait until `has_room`, at most until a pending message times out."""
        while not self.has_room() and self.error is None:
            self._room.expect()
            self.send_batch_now()
            await self._room.changed()

    async def register(self, schema: SchemaInfo) -> bytes:
        """Return the version of a schema on the topic; a new schema is added as the next one."""

        async def ask() -> bytes:
            self._registration.start()  # a lazy producer registers with its first message
            connection = await self._registration.ready()
            command = pb.CommandGetOrCreateSchema(topic=self.topic, schema=schema.to_pb())
            reply: pb.CommandGetOrCreateSchemaResponse = await connection.request(command)
            if reply.HasField("error_code"):
                raise broker_error(reply.error_code, reply.error_message)
            return reply.schema_version

        what = f"registering a schema of {self.topic}"
        return await Retry(self._settings).in_time(ask, what, self._registration)

    def is_between_batches(self) -> bool:
        """Whether the next message would start a new batch."""
        return self._batches.are_empty()

    def add(self, message: bytes | Outgoing, txn: Transaction | None = None) -> Receipt:
        """Queue a message, to be sent in order; QueueFull if there is no room."""
        self._check(txn)
        if not self._room.is_free():
            raise self._room.full()
        return self._batches.add(message, txn)

    def send_packed(
        self, messages: SameMessages | Packed, txn: Transaction | None = None
    ) -> "asyncio.Future[tuple[int, int]]":
        """Send the messages as one batch at once; return the future of the receipt.

        Call it while there is room.  More than `max_pending_messages` may be pending afterwards.
        The batch is sent even if the future is cancelled.
        """
        self._check(txn)
        return self._batches.add_packed(messages, txn)

    def _check(self, txn: Transaction | None) -> None:
        if self.error is not None:
            raise self.error
        if txn is not None:
            txn.check_open()

    def send_batch_now(self) -> None:
        """Send the open batch without waiting for more messages."""
        self._batches.send_batch_now()

    async def flush(self) -> None:
        """Wait for every receipt; raise the first error not seen by the application."""
        self.send_batch_now()
        await self._outcomes.seen([*self._sent.batches(), *self._outbox.waiting()])

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
        is_outcome = self._sent.receipt_rcvd(connection, sequence_id, ledger, entry)
        if is_outcome and not self._sent and not self._batches.are_empty():
            self.send_batch_now()

    def send_error_rcvd(self, connection: Connection, refusal: pb.CommandSendError) -> None:
        error = broker_error(refusal.error, refusal.message)
        if isinstance(error, TopicTerminated):
            self._end(error)
        elif isinstance(error, NotAllowed) and self._sent.is_first(refusal.sequence_id):
            self._sent.give_up_first(error)
        else:
            # The broker's view of this producer is unknown: reconnect and resend pending messages.
            connection.close(ConnectionLost(f"{connection.address} refused a message: {error}"))

    def detached(self, connection: Connection, error: MagnetarError, new_owner: str = "") -> None:
        if self._registration.is_of(connection):
            self._sent.give_up_in_transactions()  # promise: nothing in a transaction is sent twice
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
        if not self._outbox.is_open:
            self._begin(reply, reply.schema_version if command.HasField("schema") else b"")
        self._outbox.max_message_size = connection.max_message_size
        self._sent.send_again(connection)
        self._outbox.send_waiting(connection)

    def _begin(self, reply: pb.CommandProducerSuccess, schema_version: bytes) -> None:
        """Take the name and the first sequence id of the broker's answer."""
        options = self._options
        self.name = reply.producer_name
        last = reply.last_sequence_id
        if options.initial_sequence_id is not None:
            last = options.initial_sequence_id
        self._sent.last_sequence_id = last
        compression = COMPRESSIONS[options.compression]
        sender = Sender(self._id, self.name, compression, schema_version, self._encrypting)
        self._outbox.open(sender, last)

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

    def _end(self, error: MagnetarError) -> None:
        """Fail all pending messages, and refuse later ones, with this error."""
        self.error = error
        self._outbox.end(error)
        self._batches.end(error)
        self._sent.end(error)
        self._room.wake()
