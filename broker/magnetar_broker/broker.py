"""The broker: serves topics to sessions, and asks the directory of names which there are."""

from functools import partial
from itertools import count
from uuid import uuid4

from magnetar_broker.authentication.authenticator import Authenticator
from magnetar_broker.authorization.access import Access
from magnetar_broker.base.clock_watch import CLOCK, CLOCK_SECONDS
from magnetar_broker.base.lookup_counts import LookupCounts
from magnetar_broker.base.metadata_keys import STARTS
from magnetar_broker.base.periodic_jobs import PeriodicJobs
from magnetar_broker.base.records import next_number
from magnetar_broker.base.wanted import Check, always
from magnetar_broker.config import Settings
from magnetar_broker.damage.scrubbing import SCRUBBING, Scrubber
from magnetar_broker.damage.skip_damaged import SKIP_SECONDS, SKIPPING, Skipping
from magnetar_broker.expiry.orphans import EXPIRY, EXPIRY_SECONDS, Quarantine, present_segments
from magnetar_broker.limits.admission import Admission
from magnetar_broker.limits.held_bytes import HeldBytes, buffer_bytes
from magnetar_broker.limits.reached import ClientLimit, ReachedLimits
from magnetar_broker.limits.slow_readers import SlowReaders
from magnetar_broker.maintenance import Maintenance
from magnetar_broker.names.interface import Names
from magnetar_broker.producers.publish_budget import PublishBudget
from magnetar_broker.topic.inactive import INACTIVE
from magnetar_broker.topic.loaded_topics import AnyTopic
from magnetar_broker.topic.local_topic_host import LocalTopicHost
from magnetar_broker.transactions.coordinators import LOAD_SECONDS, LOADING, Coordinators
from magnetar_broker.transactions.leftovers import (
    LEFTOVERS,
    LOOK_SECONDS,
    Leftovers,
    ended_here,
)
from magnetar_broker.transactions.participants import LocalEnding
from magnetar_broker.watchdog import Watchdog
from magnetar_proto.names import TopicName
from magnetar_storage.log.engine import Engine

AUTO_BUFFER_MB = 256
"""The limit of held bytes in MB where the memory of the machine is not known."""


class Broker:
    """The broker within one process that serves topics, which `topic_host` loads.

    Call `start` before clients are served, and `close` once at the end.
    """

    def __init__(
        self,
        settings: Settings,
        engine: Engine,
        topic_host: LocalTopicHost,
        names: Names,
        authenticator: Authenticator | None = None,
    ) -> None:
        self.authenticator = authenticator
        """Finds out who clients are; None while authentication is off."""
        self.engine = engine
        self.topic_host = topic_host
        self.topics = topic_host.topics
        self.names = names
        self.publishes = PublishBudget(settings.max_message_publish_buffer_size_in_mb << 20)
        self.ready = False
        self.connections = self.connections_total = 0
        self.connections_accepted = self.connections_refused = 0
        """The numbers of clients that were answered CONNECTED, and that were refused."""
        self.lookups = LookupCounts(engine.clock)
        self.reached = ReachedLimits(engine.clock)
        self.receiving = HeldBytes(
            buffer_bytes(settings.magnetar_receive_buffer_size_in_mb, AUTO_BUFFER_MB),
            self.reached,
            ClientLimit.RECEIVE_BUFFER,
            "magnetarReceiveBufferSizeInMB",
        )
        sending = HeldBytes(
            buffer_bytes(settings.magnetar_send_buffer_size_in_mb, AUTO_BUFFER_MB),
            self.reached,
            ClientLimit.SEND_BUFFER,
            "magnetarSendBufferSizeInMB",
        )
        self.slow_readers = SlowReaders(
            engine.clock, settings.magnetar_slow_reader_timeout_seconds, sending, self.reached
        )
        self.max_producers = lambda: self.settings.magnetar_max_producers_per_connection
        """Returns the most producers of a connection; all connections have this one function."""
        self.max_consumers = lambda: self.settings.magnetar_max_consumers_per_connection
        """Returns the most consumers of a connection."""
        self.admission = Admission(lambda: self.settings, engine.clock, self.reached)
        self.started_ms = engine.clock.now_ms()
        self._start_number = 0
        self._numbers = count()
        self.watchdog = Watchdog(engine, lambda: iter(self.topics))
        self.local_ending = LocalEnding(self.topic)
        self.coordinators = Coordinators(engine, self.topic, self.local_ending)
        """The transaction coordinators of this process."""
        ended = partial(ended_here, self.coordinators)
        self.leftovers = Leftovers(self.topics, engine.clock, ended)
        watch = topic_host.shared_limits.clock_watch
        self.quarantine = Quarantine(engine, settings.magnetar_quarantine_minutes, watch)
        self.skipping = Skipping(settings, engine, lambda: iter(self.topics))
        self.scrubber = Scrubber(settings, engine)
        self.jobs = PeriodicJobs(engine)
        self._register_jobs(settings)

    def _register_jobs(self, settings: Settings) -> None:
        """Register every periodic job; they run from `start` to `close`."""
        seconds = settings.broker_delete_inactive_topics_frequency_seconds
        self.jobs.every(seconds, INACTIVE, self._delete_inactive)
        # This also runs while transactions are off: open ones must end, or readers would hang.
        self.jobs.every(LOAD_SECONDS, LOADING, self.coordinators.load)
        self.jobs.every(LOOK_SECONDS, LEFTOVERS, self.leftovers.look)
        self.jobs.every(EXPIRY_SECONDS, EXPIRY, self.quarantine.expire)
        self.jobs.every(SKIP_SECONDS, SKIPPING, self.skipping.look)
        self.jobs.every(self.scrubber.look_seconds, SCRUBBING, self.scrubber.look)
        shared = self.topic_host.shared_limits
        self.jobs.every(CLOCK_SECONDS, CLOCK, shared.clock_watch.look)
        topics, unread = lambda: iter(self.topics), shared.unread
        Maintenance(settings, self.engine, topics, unread).register(self.jobs)

    @property
    def settings(self) -> Settings:
        """The settings that are in effect in this process."""
        return self.topic_host.settings

    @property
    def access(self) -> Access:
        """The access control of open producers, consumers and watchers."""
        return self.topic_host.access

    async def _delete_inactive(self) -> None:
        await self.topic_host.inactive.look(self.names.delete_inactive)

    async def start(self) -> None:
        """Start the directory of names, then serve; clients can connect on return."""
        # List them before the first topic can create a segment: only these can be orphans.
        present = await present_segments(self.engine)
        await self.names.start()
        self._start_number = await next_number(self.engine.metadata, STARTS, uuid4().hex)
        self.ready = True
        self.jobs.start()
        self.watchdog.start()
        self.engine.tasks.spawn(self.quarantine.fill(present, lambda: not self.ready))

    async def close(self) -> None:
        """Disconnect every producer and consumer, and seal every topic."""
        self.ready = False
        self.jobs.stop()
        self.scrubber.stop()
        self.watchdog.stop()
        await self.names.stop()
        await self.topics.close()

    async def topic(self, name: TopicName, create: bool, check: Check = always) -> AnyTopic:
        """Return a loaded topic; it is created if `create` is set and policies allow it.

        Raises the `BrokerError` that PRODUCER and SUBSCRIBE are answered with.
        """
        while (topic := self.topics.get(name)) is None:
            check()
            await self.names.open(name, create)
        return topic

    def producer_name(self) -> str:
        """Return a producer name that the data directory has never given out, and never will again.

        It is short: each message carries it, and clients reserve few bytes for such things.
        """
        return f"{self.settings.cluster_name}-{self._start_number}-{next(self._numbers)}"

    # Connections ------------------------------------------------------------------------

    def connected(self) -> None:
        """Count a client that has connected; `admission` has the limits."""
        self.connections += 1
        self.connections_total += 1

    def disconnected(self) -> None:
        """Count a client's connection that has ended."""
        self.connections -= 1
