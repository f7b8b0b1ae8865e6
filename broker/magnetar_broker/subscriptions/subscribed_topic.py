"""The interface of a topic for its subscriptions."""

from typing import Protocol

from magnetar_broker.base.traffic import Traffic
from magnetar_broker.compaction.topic_compaction import TopicCompaction
from magnetar_broker.dispatch.base import Delays
from magnetar_broker.dispatch.frames import FrameCache
from magnetar_broker.limits.shared_limits import SharedLimits
from magnetar_broker.limits.topic_limits import TopicLimits
from magnetar_broker.subscriptions.idleness import Idleness
from magnetar_broker.subscriptions.read_history import ReadHistory
from magnetar_broker.throttling.topic_rates import TopicRates
from magnetar_proto.names import TopicName
from magnetar_storage.cursors.cursor_log import CursorLog
from magnetar_storage.cursors.pending_acks import PendingAcks
from magnetar_storage.log.log import Log


class SubscribedTopic(Protocol):
    """The state of a topic that all its subscriptions share.

    `limits` and `rates` are replaced when policies change: read them at each use.  A Protocol,
    because the topic is in a room above this one; and not single values, because subscriptions need
    most of the topic, and two of these change.
    """

    name: TopicName
    log: Log
    frames: FrameCache
    cursors: CursorLog
    limits: TopicLimits
    shared_limits: SharedLimits
    read_history: ReadHistory | None
    idleness: Idleness | None
    pending_acks: PendingAcks | None
    """Pending acknowledgements of transactions; None before the first one."""
    traffic: Traffic
    rates: TopicRates | None

    @property
    def delays(self) -> Delays:
        """The entries of the topic that are delayed."""

    @property
    def compaction(self) -> TopicCompaction:
        """The compacted data of the topic."""

    def check_open(self) -> None:
        """Raise `NotReady` once the topic is being closed."""
