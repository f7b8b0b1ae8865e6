"""Where published runs go on a non-persistent topic.

Apart from the topic because it is compiled, as every `RunSink` is.
"""

from magnetar_broker.publishing.producer import RunSink, Sends
from magnetar_broker.publishing.throttling import throttle
from magnetar_broker.rates.rate_limit import RateLimit
from magnetar_broker.topic.non_persistent_subscriptions import NonPersistentSubscriptions
from magnetar_proto.sends import encode_receipts


class NonPersistentAppender(RunSink):
    """In the place of an `Appender`: gives runs to the subscriptions instead of a log."""

    __slots__ = ("_subscriptions", "bytes_in", "messages_in", "rate_limits")

    def __init__(self, subscriptions: NonPersistentSubscriptions) -> None:
        self._subscriptions = subscriptions
        self.rate_limits: tuple[RateLimit, ...] = ()
        """The limits of publishing that are in effect."""
        self.messages_in = self.bytes_in = 0

    def append(self, sends: Sends) -> None:
        """Give every subscription its copy, and answer."""
        if self.rate_limits:
            throttle(sends, self.rate_limits)
        subscriptions = list(self._subscriptions.values())
        for payload, messages in zip(sends.payloads, sends.counts, strict=True):
            for subscription in subscriptions:
                subscription.give(payload, messages)
        self.messages_in += sum(sends.counts)
        self.bytes_in += sends.size
        ids = zip(sends.sequence_ids, sends.highest_ids, strict=True)
        producer_id = sends.producer.id
        sends.answer(
            b"".join(encode_receipts(producer_id, (low,), (high,), 0, 0) for low, high in ids)
        )
