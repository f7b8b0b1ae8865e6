"""A persistent topic: a log, the producers that append to it, the subscriptions that read it."""

import logging
from collections.abc import Callable, Sequence

from magnetar_broker.base.errors import NotReady, being_unloaded
from magnetar_broker.base.metadata_keys import topic_key
from magnetar_broker.base.meter import Meter
from magnetar_broker.base.traffic import Traffic
from magnetar_broker.base.transaction_ids import Outcome, TxnId
from magnetar_broker.compaction.topic_compaction import CompactionFigures, TopicCompaction
from magnetar_broker.config.offload_places import members_in
from magnetar_broker.dispatch.consumer import Backlog
from magnetar_broker.dispatch.frames import FrameCache
from magnetar_broker.dispatch.topic_delays import TopicDelays
from magnetar_broker.expiry.message_expiry import expire_messages
from magnetar_broker.limits.shared_limits import SharedLimits
from magnetar_broker.limits.topic_limits import TopicLimits, limits_of
from magnetar_broker.policies.compaction_rules import COMPACTION_CURSOR
from magnetar_broker.policies.offload_values import DRIVER, OffloadRules, offload_rules
from magnetar_broker.policies.table import (
    COMPACTION_THRESHOLD,
    DEDUPLICATION,
    DELAYED_DELIVERY,
    ENCRYPTION_REQUIRED,
    OFFLOAD,
)
from magnetar_broker.policies.view import PolicyView
from magnetar_broker.producers.admission import Admission
from magnetar_broker.producers.appender import Appender
from magnetar_broker.producers.broker_metadata import add_broker_metadata
from magnetar_broker.producers.deduplication import Deduplication
from magnetar_broker.producers.hidden_entries import HiddenEntries
from magnetar_broker.producers.publish_rules import PublishRules
from magnetar_broker.producers.sequences import Sequences
from magnetar_broker.producers.topic_producers import Producers
from magnetar_broker.producers.transaction_buffer import TransactionBuffer
from magnetar_broker.subscriptions.idleness import Idleness
from magnetar_broker.subscriptions.read_history import ReadHistory
from magnetar_broker.subscriptions.topic_subscriptions import Subscriptions
from magnetar_broker.throttling.topic_rates import topic_rates
from magnetar_broker.tiering.topic_offloading import OffloadFigures, TopicOffloading
from magnetar_broker.topic.delivery import Delivery
from magnetar_broker.topic.reads import Reads
from magnetar_proto.ids import MessageId
from magnetar_proto.names import SYSTEM_NAMESPACE, TopicName
from magnetar_storage.cursors import attached_state
from magnetar_storage.cursors.cursor_log import CursorLog
from magnetar_storage.cursors.pending_acks import PendingAcks
from magnetar_storage.delays.recent_delays import RecentDelays
from magnetar_storage.errors import StorageError
from magnetar_storage.log.damage import Damage
from magnetar_storage.log.engine import Engine
from magnetar_storage.log.log import Log
from magnetar_storage.log.offset_set import OffsetSet
from magnetar_storage.log.positions import NOWHERE
from magnetar_storage.log.setting_aside import set_aside

logger = logging.getLogger(__name__)


class Topic:
    """A persistent topic that this broker has loaded.

    When its log fails it is dropped, and the next request loads it.  Its parts are used directly:
    `producers` and `appender` for publishing, `subscriptions` for consuming, `compaction`,
    `delays`, `deduplication`.
    """

    def __init__(
        self,
        name: TopicName,
        entries: Log,
        cursors: CursorLog,
        delays: TopicDelays,
        sequences: Sequences,
        transactions: TransactionBuffer,
        limits: TopicLimits,
        shared: SharedLimits,
        policies: PolicyView,
        dropped: Callable[["Topic"], None],
    ) -> None:
        clock = entries.engine.clock
        self.name = name
        self.log = entries
        self.cursors = cursors
        self.delays = delays
        self._base_limits = limits
        self.limits = limits_of(limits, policies, name)
        self.shared_limits = shared
        self.policies = policies
        self.closed = False
        self._finishing = False
        self._dropped = dropped
        self.meter = Meter(4)
        self.reads = Reads(entries.entries)
        self.evictions = 0, 0
        """The numbers of times that a quota evicted the backlog, by size and by age."""
        self.traffic = Traffic(clock)
        self.rates = topic_rates(name, policies, shared.rates, self.meter, clock)
        self.idleness = Idleness.stored(cursors)
        self.read_history = ReadHistory.stored(cursors)
        self.pending_acks = PendingAcks.stored(cursors)
        self._compaction: TopicCompaction | None = None
        self._offloading: TopicOffloading | None = None
        # Reading
        self.frames = FrameCache(name.partition)
        self.subscriptions = Subscriptions(self)
        self._delivery = Delivery(self.subscriptions.by_name, self.frames, clock)
        self.transactions = transactions
        self._begin_publishing(sequences)
        delays.on_due = self._delivery.due
        delays.start()
        entries.on_failure = self.drop
        entries.on_reclaimed = self._reclaimed
        self._choose_reads()

    def _begin_publishing(self, sequences: Sequences) -> None:
        """Create the way of messages into the log; reading is there already."""
        entries, transactions = self.log, self.transactions
        clock, tasks = entries.engine.clock, entries.engine.tasks
        self.deduplication = Deduplication(
            entries, self.cursors, sequences, self.limits.deduplication
        )
        self.appender = Appender(
            entries,
            self.delays,
            self.deduplication,
            transactions,
            self._delivery.wake,
            self.drop,
            self.traffic,
        )
        admission = Admission(
            self.name, entries, self.deduplication, self.appender, self.check_open
        )
        self.producers = Producers(
            self.name, clock, tasks, admission, self.appender, self.traffic.change
        )
        self.deduplication.present = self.producers
        transactions.on_begin = self._apply_to_producers
        transactions.on_hidden = self._hidden
        self._apply_to_producers()

    @classmethod
    async def open(
        cls,
        name: TopicName,
        engine: Engine,
        create: bool,
        limits: TopicLimits,
        shared: SharedLimits,
        policies: PolicyView,
        dropped: Callable[["Topic"], None],
    ) -> "Topic | None":
        """Load the topic; None if it does not exist and `create` is not set.

        Its `policies` must be loaded.  `dropped` is called when the topic closes itself because
        its log failed.
        """
        entries = await Log.open(topic_key(name), engine, create)
        if entries is None:
            return None
        add_broker_metadata(entries, limits.metadata_interceptors)
        recent, sequences = RecentDelays(), Sequences(limits.deduplication.max_names)
        hidden = HiddenEntries()
        cursors = await CursorLog.open(
            entries,
            {
                attached_state.DELAYS: recent,
                attached_state.DEDUPLICATION: sequences,
                attached_state.TRANSACTIONS: hidden,
            },
        )
        transactions = await TransactionBuffer.recovered(entries, cursors, hidden)
        policy = policies.value(DELAYED_DELIVERY, name)
        delays = await TopicDelays.open(entries, recent, cursors, policy, limits.strict_delays)
        topic = cls(
            name,
            entries,
            cursors,
            delays,
            sequences,
            transactions,
            limits,
            shared,
            policies,
            dropped,
        )
        try:
            await topic.deduplication.set_enabled(policies.value(DEDUPLICATION, name))
            await topic._compact_at(policies.value(COMPACTION_THRESHOLD, name))
            topic.check_open()
        except (StorageError, NotReady):
            topic.disconnect()
            await entries.close()
            raise
        return topic

    # Publishing and its end ------------------------------------------------------------

    async def terminate(self) -> MessageId:
        """Accept no more messages, ever; return the id of the last one.  Durable on return.

        Runs that were appended before are answered.  Runs that come meanwhile are not: their
        producers are disconnected, and refused with the reason when they reconnect.  If the
        termination cannot be recorded the topic is dropped.
        """
        if not self.log.terminated:
            self.appender.end()
            await self.log.rollover.terminate()
            # promise: producers are disconnected at the end of their topic
            self.producers.disconnect()
            for subscription in list(self.subscriptions.values()):
                subscription.notify_end()
        if self.rates is not None:
            self.rates.release_publishers()
        return MessageId(*(self.log.record.terminated_at or NOWHERE))

    async def end_transaction(self, txn: TxnId, outcome: Outcome, low_watermark: int) -> None:
        """Commit or abort the messages that a transaction has published here; durable on return.

        Repeat the call after an error.  It is not an error if the transaction has published nothing
        here, or has ended already.  `low_watermark` is a number of the same coordinator up to which
        its transactions have ended on all participants; -1 for none.
        """
        self.check_open()
        await self.appender.begun()
        await self.transactions.end(txn, outcome, low_watermark)

    def _hidden(self, offsets: OffsetSet) -> None:
        """Skip the entries that an ended transaction hides, and deliver those it held back."""
        self.traffic.changed = True
        for subscription in list(self.subscriptions.values()):
            subscription.skip_hidden(offsets)
        # promise: producers and copies that wait for a marker go on with it
        self.deduplication.marked()
        self._delivery.wake()

    def totals(self) -> tuple[int, int, int, int]:
        """Return messages and bytes in, messages and bytes out, since the topic was loaded."""
        appender = self.appender
        return (appender.messages_in, appender.bytes_in, *self.subscriptions.sent())

    # Compaction and policies -------------------------------------------------------------

    @property
    def compaction(self) -> TopicCompaction:
        """The topic's compaction; created at first use, for most topics have none."""
        if self._compaction is None:
            self._compaction = TopicCompaction(
                self.name,
                self.log,
                self.cursors,
                self.limits.compaction,
                lambda start: self.subscriptions.create(COMPACTION_CURSOR, start, {}),
                self._held_backlog,
                self.check_open,
            )
        return self._compaction

    @property
    def offloading(self) -> TopicOffloading:
        """The offloading of the topic's ledgers; created at first use."""
        if self._offloading is None:
            self._offloading = TopicOffloading(
                self.log, self._offload_rules, self.shared_limits.clock_watch
            )
        return self._offloading

    def _offload_rules(self) -> OffloadRules:
        # As in Pulsar, nothing of the broker's own topics is offloaded.
        if self.name.namespace_name == SYSTEM_NAMESPACE:
            return OffloadRules()
        members = self.policies.value(OFFLOAD, self.name)
        return offload_rules(members, members_in(self.policies.settings))

    @property
    def may_offload(self) -> bool:
        """Whether a policy may ask for offloading, or copies of ledgers have to be looked after."""
        return self._has_copies or bool(self.policies.value(OFFLOAD, self.name).get(DRIVER))

    @property
    def _has_copies(self) -> bool:
        record = self.log.record
        return bool(record.copy_trash) or any(one.copy is not None for one in record.segments)

    def _choose_reads(self) -> None:
        """Follow the policy that says which of the two is read while a ledger has both."""
        if self._has_copies:
            self.log.entries.prefers_copies = not self._offload_rules().files_first

    @property
    def offload_figures(self) -> OffloadFigures:
        """The figures of offloading; they are those of no offload until there is one."""
        return OffloadFigures() if self._offloading is None else self._offloading.figures()

    async def _held_backlog(self) -> Backlog:
        return await self.subscriptions[COMPACTION_CURSOR].backlog()

    @property
    def compactions(self) -> CompactionFigures | None:
        """The figures of compactions since the topic was loaded; None if there were none."""
        compaction = self._compaction
        if compaction is None or not (compaction.figures.succeeded or compaction.figures.failed):
            return None
        return compaction.figures

    async def compact_if_due(self) -> None:
        """Start a compaction if the backlog exceeds the policy's threshold."""
        if self._compaction is not None:
            await self._compaction.check()

    async def _compact_at(self, threshold: int) -> None:
        if threshold or self._compaction is not None or self.log.record.compacted is not None:
            await self.compaction.set_threshold(threshold)

    async def settings_changed(self, limits: TopicLimits) -> None:
        """Apply changed settings, and the current policies; done on return."""
        self._base_limits = limits
        await self.policies_changed()

    async def policies_changed(self) -> None:
        """Apply the current policies; done on return."""
        self.traffic.changed = True
        effective = self.policies.effective_policies(self.name)
        self.delays.policy_changed(effective.value(DELAYED_DELIVERY))
        self._apply_limits(limits_of(self._base_limits, self.policies, self.name))
        self._apply_to_producers()
        self._choose_reads()
        await self.deduplication.set_enabled(effective.value(DEDUPLICATION))
        await self._compact_at(effective.value(COMPACTION_THRESHOLD))
        await expire_messages(self)

    def _apply_limits(self, limits: TopicLimits) -> None:
        before, clock = self.rates, self.log.engine.clock
        self.rates = topic_rates(
            self.name, self.policies, self.shared_limits.rates, self.meter, clock, before
        )
        if limits is not self.limits or before is not self.rates:
            self.limits = limits
            self.deduplication.rules = limits.deduplication
            for subscription in self.subscriptions.values():
                subscription.limits_changed()

    def _apply_to_producers(self) -> None:
        """Apply the policies to producers, each of which has a copy to check its runs."""
        delays, limits, producers = self.delays.policy, self.limits, self.producers
        self.transactions.allowed = limits.transactions
        producers.limit = limits.max_producers
        producers.limit_of_address = limits.max_producers_of_address
        producers.apply_rules(
            PublishRules(
                self.policies.value(ENCRYPTION_REQUIRED, self.name),
                limits.max_message_size,
                delays.max_delay_ms if delays.active else 0,
                self.transactions.on,
            )
        )
        self.appender.rate_limits = self.rates.publish if self.rates is not None else ()

    # Maintenance and end -------------------------------------------------------------------------

    def _reclaimed(self) -> None:
        """Make reader cursors skip deleted entries; durable cursors no longer need these."""
        self.traffic.changed = True
        for subscription in self.subscriptions.values():
            subscription.skip_missing()
            # Durable cursors needed none of it: it was acknowledged, so nothing of it is pending.
            if not subscription.durable:
                subscription.dispatcher.skipped()

    async def set_aside(self, damage: Sequence[Damage], why: str) -> None:
        """Make all subscriptions and readers skip damaged entries; durable on return."""
        await set_aside(self.log, damage, why)
        self.traffic.changed = True
        for subscription in list(self.subscriptions.values()):
            # promise: consumers that wait at damage go on when it is set aside
            subscription.dispatcher.skipped()
            if self.log.terminated:
                subscription.notify_end()

    def drop(self, error: BaseException) -> None:
        """Disconnect all clients after a failure of the log; their return loads it again."""
        if not self.closed:
            logger.error("%s is closed, to be loaded again: its log failed: %s", self.name, error)
            self.disconnect()
            self._dropped(self)

    @property
    def in_use(self) -> bool:
        """Whether clients are connected."""
        return (
            bool(self.producers)
            or bool(self.producers.waiting)
            or any(subscription.consumers for subscription in self.subscriptions.values())
        )

    async def delete(self) -> None:
        """Disconnect every client and delete all stored data; durable on return."""
        self.disconnect()
        await self.log.delete()

    async def finish(self) -> None:
        """Accept no more messages or clients; returns once everything published has been answered.

        So the clients that are disconnected next do not send stored messages again, and consumers
        do not keep half of a chunked message.
        """
        self._finishing = True  # promise: a topic that is being closed opens no producers
        await self.producers.finish()
        for subscription in list(self.subscriptions.values()):
            await subscription.finish()

    def disconnect(self, new_owner: str = "") -> None:
        """Disconnect every client; the topic accepts none from now on.

        `new_owner` is where its clients find it, if another process serves it from now on.
        """
        self.closed = True
        self.delays.stop()
        # promise[without new_owner]: producers of a moved topic are told where
        self.producers.disconnect(new_owner)
        if self.rates is not None:
            self.rates.release_publishers()
        self.deduplication.close()
        for subscription in list(self.subscriptions.values()):
            # promise[without new_owner]: consumers of a moved topic are told where
            subscription.consumers.disconnect(new_owner)

    async def close(self) -> None:
        """Disconnect every client, write pending data, and seal the log."""
        self.disconnect()
        if self._compaction is not None:
            await self._compaction.stop()
        # A failed log accepts nothing more: unwritten entries are recovered at the next load.
        if self.log.failed is None:
            await self.delays.close()
            self.deduplication.write()
            self.transactions.write()
            if self.idleness is not None:
                self.cursors.state_changed(attached_state.IDLENESS)
            await self.cursors.close()
        await self.log.close()

    def check_open(self) -> None:
        """Raise `NotReady` once the topic is being closed."""
        if self.closed or self._finishing or self.log.failed is not None:
            raise being_unloaded(self.name)
