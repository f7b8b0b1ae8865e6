"""The sink of published runs on a non-persistent topic.

It is apart from the topic because it is compiled, as every `RunSink` is.
"""

from magnetar_broker.base.traffic import Traffic
from magnetar_broker.base.transaction_ids import TxnId
from magnetar_broker.producers.appender import PublishRun, RunSink
from magnetar_broker.throttling.rate_limit import RateLimit, throttle
from magnetar_broker.topic.non_persistent_subscriptions import NonPersistentSubscriptions
from magnetar_proto.chunks import chunks_among
from magnetar_proto.sends import encode_receipts


class NonPersistentAppender(RunSink):
    """Gives runs to the subscriptions, where an `Appender` would give them to a log."""

    __slots__ = (
        "_subscriptions",
        "_traffic",
        "bytes_in",
        "chunks_in",
        "last_ms",
        "messages_in",
        "rate_limits",
    )

    def __init__(self, subscriptions: NonPersistentSubscriptions, traffic: Traffic) -> None:
        self._subscriptions = subscriptions
        self._traffic = traffic
        self.rate_limits: tuple[RateLimit, ...] = ()
        """The limits of publishing that are in effect."""
        self.messages_in = self.bytes_in = self.chunks_in = 0
        self.last_ms = 0
        """The time at which the last message was published; 0 if none was since the load."""

    def refusal(self, txn: TxnId) -> str:
        return (
            "messages of a non-persistent topic cannot be in a transaction: publish them outside "
            "of one, or to a persistent topic"
        )

    def append(self, run: PublishRun) -> None:
        """Give every subscription a copy of the run, then answer the producer."""
        if self.rate_limits:
            throttle(run.producer.connection, sum(run.counts), run.size, self.rate_limits)
        subscriptions = list(self._subscriptions.values())
        for payload, messages in zip(run.payloads, run.counts, strict=True):
            for subscription in subscriptions:
                subscription.give(payload, messages)
        self._count(run)
        ids = zip(run.sequence_ids, run.highest_ids, strict=True)
        producer_id = run.producer.id
        run.answer(
            b"".join(encode_receipts(producer_id, (low,), (high,), 0, 0) for low, high in ids)
        )

    def _count(self, run: PublishRun) -> None:
        messages, producer = sum(run.counts), run.producer
        self.messages_in += messages
        self.bytes_in += run.size
        producer.messages_in += messages
        producer.bytes_in += run.size
        if run.chunked:
            chunks = len(chunks_among(run.payloads))
            self._traffic.chunked = True
            self.chunks_in += chunks
            producer.chunks_in += chunks
        self.last_ms = self._traffic.now_ms()
