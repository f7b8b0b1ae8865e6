"""A controller and its workers over stores in memory, joined by links that the test can cut."""

from collections.abc import Collection

from fakes.links import Joined
from fakes.world import ManualClock, ManualPromise, start
from magnetar_broker.base.guarded_metadata import NOT_YET, GuardedMetadata
from magnetar_broker.base.runtime import NamesRuntime
from magnetar_broker.broker import Broker
from magnetar_broker.config import Settings
from magnetar_broker.config.listeners import ListenerUrls
from magnetar_broker.ipc.successive import SuccessiveLinks
from magnetar_broker.names.directory import Directory
from magnetar_broker.names.workers.balancing import Balancing
from magnetar_broker.names.workers.distributed_topic_host import DistributedTopicHost
from magnetar_broker.names.workers.draining import Draining
from magnetar_broker.names.workers.remote import RemoteDirectory
from magnetar_broker.names.workers.requests import NameRequests
from magnetar_broker.placement.assignments import Placement
from magnetar_broker.placement.bundle_owners import BundleOwners
from magnetar_broker.placement.stored_bundles import stored_bundles
from magnetar_broker.placement.worker_links import WorkerLinks
from magnetar_broker.policies.shared import SharedPolicies
from magnetar_broker.policies.view import PolicyView
from magnetar_broker.server.admin.linked_owners import serve_operations
from magnetar_broker.server.pages.health import HealthCheck
from magnetar_broker.server.pages.linked_health import serve_health
from magnetar_broker.server.supervision.children import name_of
from magnetar_broker.topic.joining import Joining
from magnetar_broker.topic.load import serve_load
from magnetar_broker.topic.local_topic_host import LocalTopicHost
from magnetar_proto.names import TopicName
from magnetar_storage.log.engine import Engine

SERVICE_URL = "pulsar://here:6650"


class Worker:
    """A process that serves topics, for each controller in turn."""

    def __init__(
        self,
        number: int,
        settings: Settings,
        engine: Engine,
        urls: list[str],
        connected: SuccessiveLinks | None = None,
    ) -> None:
        self.number = number
        self.joined: Joined
        self.owners = BundleOwners(urls)
        self.owners.announce(ListenerUrls(SERVICE_URL))
        self.policies = PolicyView(settings)
        self.topic_host = LocalTopicHost(settings, engine, self.policies, self._new_owner)
        self.joining = Joining(
            connected or SuccessiveLinks("the controller", engine.clock),
            self.topic_host,
            self.policies,
            self.owners,
            engine.clock,
        )
        self.names = RemoteDirectory(settings, self.owners, self.joining.joined, self.join)
        self.broker = Broker(settings, engine, self.topic_host, self.names)
        self.processor_seconds = 0.0
        """The processor time that it reports."""

    def follow(self, joined: Joined) -> None:
        """Serve the controller at the left end of a link that is not connected."""
        self.joined, link = joined, joined.right
        self.joining.serve(link)
        self.names.follow(link)
        health = HealthCheck(self.broker, lambda topic: self.owners.worker_of(topic) == self.number)
        serve_health(health, link)
        serve_operations(self.broker, link)
        serve_load(self.broker.topics, self.owners, self.broker.engine.clock, self._used, link)
        self.joining.connect(link)

    async def join(self) -> None:
        await self.joining.join(self.names)

    def _used(self) -> tuple[float, float]:
        return self.processor_seconds, self.broker.engine.clock.now_ms() / 1000

    def _new_owner(self, topic: TopicName) -> str:
        owner = self.owners.worker_of(topic)
        if owner is None or owner == self.number:
            return ""
        return self.owners.owner(owner).process_url


class Processes:
    """The processes of one broker; call `start` once."""

    def __init__(
        self, settings: Settings, engine: Engine, clock: ManualClock, workers: int = 1
    ) -> None:
        self.settings = settings
        self.engine = engine
        self.clock = clock
        self.urls = [f"pulsar://worker-{number}:1" for number in range(workers)]
        self._begin_controller()
        self.workers = [self.new_worker(number) for number in range(workers)]

    def _begin_controller(self) -> None:
        """Create a controller, in place of the present one."""
        engine, settings, workers = self.engine, self.settings, len(self.urls)
        self.owners = BundleOwners(self.urls)
        self.owners.announce(ListenerUrls(SERVICE_URL))
        metadata = GuardedMetadata(engine.metadata, NOT_YET)
        runtime = NamesRuntime(metadata, engine.clock, engine.tasks)
        self.policies = SharedPolicies(metadata, settings)
        links = WorkerLinks(workers, engine.clock)
        stored = stored_bundles(settings, metadata, workers)
        self.placement = Placement(self.owners, stored, links, engine.clock)
        self.topic_host = DistributedTopicHost(self.placement, links, runtime)
        self.directory = Directory(
            settings, runtime, self.placement, self.topic_host, self.policies
        )
        Balancing(settings, self.directory, self.placement, links).register()
        self.draining = Draining(self.directory.bundles, self.placement)

        async def lead() -> None:
            await metadata.lead(30, lambda: None)

        self.requests = NameRequests(
            self.directory, self.placement, self.topic_host, self.policies, lead
        )

    def new_worker(self, number: int) -> Worker:
        """Create a process in place of this one, without starting it."""
        worker = self.make_worker(number)
        self.link(worker)
        return worker

    def make_worker(self, number: int) -> Worker:
        return Worker(number, self.settings, self.engine, self.urls)

    def link(self, worker: Worker) -> None:
        """Link a worker with the present controller."""
        joined = self.joined()
        joined.left.peer = name_of(worker.number)
        self.requests.serve(worker.number, joined.left)
        worker.follow(joined)
        joined.connect()

    def joined(self) -> Joined:
        return Joined(self.clock)

    def start(self) -> None:
        """Start all processes together."""
        starting = [start(self.requests.start())]
        starting += [start(worker.broker.start()) for worker in self.workers]
        self.clock.pump()
        for one in starting:
            one.result()

    def replace(self, number: int) -> None:
        """End a worker without warning, and start another one in its place."""
        self.workers[number].joined.cut()
        self.clock.pump()
        self.workers[number] = self.new_worker(number)
        starting = start(self.workers[number].broker.start())
        self.clock.pump()
        starting.result()

    def end_controller(self) -> None:
        """End the controller without warning."""
        self.directory.jobs.stop()
        for worker in self.workers:
            worker.joined.cut()

    def begin_controller(self, missing: Collection[int] = ()) -> list[ManualPromise]:
        """Start a controller after the end of the one before, without workers that are missing.

        Returns what is starting: the controller first.
        """
        self._begin_controller()
        starting = [start(self.requests.start())]
        for worker in self.workers:
            if worker.number not in missing:
                self.link(worker)
                starting.append(start(worker.join()))
        return starting

    def replace_controller(self) -> None:
        """End the controller without warning, and start another one in its place."""
        self.end_controller()
        starting = self.begin_controller()
        self.clock.pump()
        for one in starting:
            one.result()

    def of(self, name: TopicName) -> Worker:
        """Return the worker that serves a topic."""
        return self.workers[self.number_of(name)]

    def number_of(self, name: TopicName) -> int:
        """Return the number of the worker of a topic, whose bundle gets an owner if it has none."""
        locating = start(self.placement.worker_of(name))
        self.clock.pump()
        found: int = locating.result()
        return found
