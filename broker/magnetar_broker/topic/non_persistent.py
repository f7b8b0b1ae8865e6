"""Non-persistent topics: a message reaches the consumers that can take it now, and is not kept.

Receipts carry (0, 0) and are sent at once; every message has the id 0:0; nothing is stored,
acknowledged, sought or redelivered.
"""

from collections.abc import Callable

from magnetar_broker.base.errors import being_unloaded
from magnetar_broker.base.meter import Meter
from magnetar_broker.base.traffic import Traffic
from magnetar_broker.limits.shared_limits import SharedLimits
from magnetar_broker.limits.topic_limits import TopicLimits, limits_of
from magnetar_broker.policies.table import ENCRYPTION_REQUIRED
from magnetar_broker.policies.view import PolicyView
from magnetar_broker.producers.producer import Producer
from magnetar_broker.producers.publish_rules import PublishRules
from magnetar_broker.producers.topic_producers import Producers
from magnetar_broker.throttling.topic_rates import topic_rates
from magnetar_broker.topic.non_persistent_appender import NonPersistentAppender
from magnetar_broker.topic.non_persistent_subscriptions import NonPersistentSubscriptions
from magnetar_proto.names import TopicName
from magnetar_storage.runtime.execution import Clock, Tasks


class NonPersistentAdmission:
    """The `ProducerAdmission` of a topic that keeps nothing: its epoch is as short-lived as it."""

    epoch: int | None = None

    def __init__(self, check_open: Callable[[], None]) -> None:
        self._check_open = check_open

    async def store_epoch(self, epoch: int) -> None:
        """Do nothing: `Access` has the epoch in memory."""

    async def prepare(self) -> None:
        self._check_open()

    async def initialize(self, producer: Producer) -> None:
        self._check_open()


class NonPersistentTopic:
    """A topic that delivers to connected clients and stores nothing."""

    def __init__(
        self,
        name: TopicName,
        limits: TopicLimits,
        shared: SharedLimits,
        policies: PolicyView,
        clock: Clock,
        tasks: Tasks,
    ) -> None:
        self.name = name
        self._base_limits = limits
        self.limits = limits_of(limits, policies, name)
        self.shared_limits = shared
        self.policies = policies
        self.closed = False
        self.meter = Meter(4)
        self.traffic = Traffic(clock)
        self.rates = topic_rates(name, policies, shared.rates, self.meter, clock)
        self.subscriptions = NonPersistentSubscriptions(
            name, self.limits, self.rates, self.traffic, self.check_open
        )
        self.appender = NonPersistentAppender(self.subscriptions, self.traffic)
        admission = NonPersistentAdmission(self.check_open)
        self.producers = Producers(
            name, clock, tasks, admission, self.appender, self.traffic.change
        )
        self._clock = clock
        self._apply_to_producers()

    async def settings_changed(self, limits: TopicLimits) -> None:
        """Apply changed settings, and the current policies; done on return."""
        self._base_limits = limits
        await self.policies_changed()

    async def policies_changed(self) -> None:
        """Apply the current policies; done on return."""
        self.traffic.changed = True
        self.limits = limits_of(self._base_limits, self.policies, self.name)
        self.rates = topic_rates(
            self.name, self.policies, self.shared_limits.rates, self.meter, self._clock, self.rates
        )
        self.subscriptions.apply_limits(self.limits, self.rates)
        self._apply_to_producers()

    def _apply_to_producers(self) -> None:
        limits, encrypted = self.limits, self.policies.value(ENCRYPTION_REQUIRED, self.name)
        self.producers.limit = limits.max_producers
        self.producers.limit_of_address = limits.max_producers_of_address
        self.producers.apply_rules(PublishRules(encrypted, limits.max_message_size))
        self.appender.rate_limits = self.rates.publish if self.rates is not None else ()

    def totals(self) -> tuple[int, int, int, int]:
        """Return messages and bytes in, messages and bytes out, since the topic was loaded."""
        appender = self.appender
        return (appender.messages_in, appender.bytes_in, *self.subscriptions.sent())

    @property
    def in_use(self) -> bool:
        """Whether clients are connected."""
        return bool(self.producers) or bool(self.producers.waiting) or bool(self.subscriptions)

    def check_open(self) -> None:
        """Raise `NotReady` once the topic has been closed."""
        if self.closed:
            raise being_unloaded(self.name)

    async def close(self) -> None:
        """Disconnect every client; nothing is left then."""
        self.disconnect()

    async def delete(self) -> None:
        """Disconnect every client: nothing else is to be deleted."""
        self.disconnect()

    def disconnect(self, new_owner: str = "") -> None:
        """Disconnect every client; the topic accepts none from now on.

        `new_owner` is where its clients find it, if another process serves it from now on.
        """
        self.closed = True
        # promise[without new_owner]: producers of a moved topic are told where
        self.producers.disconnect(new_owner)
        if self.rates is not None:
            self.rates.release_publishers()
        for subscription in list(self.subscriptions.values()):
            # promise[without new_owner]: consumers of a moved topic are told where
            subscription.consumers.disconnect(new_owner)
