"""A controller and its workers over stores in memory, joined by links that the test can cut."""

from fakes.links import Joined
from fakes.world import ManualClock, start
from magnetar_broker.base.guarded_metadata import GuardedMetadata, become_directory
from magnetar_broker.base.runtime import NamesRuntime
from magnetar_broker.broker import Broker
from magnetar_broker.config import Settings
from magnetar_broker.config.listeners import ListenerUrls
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
from magnetar_broker.policies.shared import SharedPolicies, learning
from magnetar_broker.policies.view import PolicyView
from magnetar_broker.server.admin.linked_owners import serve_operations
from magnetar_broker.server.pages.health import HealthCheck
from magnetar_broker.server.pages.linked_health import serve_health
from magnetar_broker.server.supervision.children import name_of
from magnetar_broker.topic.load import serve_load
from magnetar_broker.topic.local_topic_host import LocalTopicHost
from magnetar_broker.topic.requests import serve_topic_host
from magnetar_proto.names import TopicName
from magnetar_storage.log.engine import Engine

SERVICE_URL = "pulsar://here:6650"


class Worker:
    """A process that serves topics."""

    def __init__(
        self, number: int, settings: Settings, engine: Engine, urls: list[str], joined: Joined
    ) -> None:
        self.number = number
        self.joined = joined
        self.owners = BundleOwners(urls)
        self.owners.announce(ListenerUrls(SERVICE_URL))
        self.policies = PolicyView(settings)
        self.topic_host = LocalTopicHost(settings, engine, self.policies, self._new_owner)
        names = RemoteDirectory(settings, self.owners, joined.right)
        serve_topic_host(self.topic_host, joined.right)
        joined.right.serve(learning(self.policies))
        self.broker = Broker(settings, engine, self.topic_host, names)
        health = HealthCheck(self.broker, lambda topic: self.owners.worker_of(topic) == number)
        serve_health(health, joined.right)
        serve_operations(self.broker, joined.right)
        self.processor_seconds = 0.0
        """The processor time that it reports."""
        serve_load(self.broker.topics, self.owners, engine.clock, self._used, joined.right)

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
        self.owners = BundleOwners(self.urls)
        self.owners.announce(ListenerUrls(SERVICE_URL))
        becoming = start(become_directory(engine.metadata, 30, lambda: None))
        clock.pump()
        metadata = GuardedMetadata(engine.metadata, becoming.result())
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
        self.requests = NameRequests(self.directory, self.placement, self.topic_host, self.policies)
        self.workers = [self.new_worker(number) for number in range(workers)]

    def new_worker(self, number: int) -> Worker:
        """Create a process in place of this one, without starting it."""
        joined = Joined(self.clock)
        joined.left.peer = name_of(number)
        self.requests.serve(number, joined.left)
        worker = Worker(number, self.settings, self.engine, self.urls, joined)
        joined.connect()
        return worker

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

    def of(self, name: TopicName) -> Worker:
        """Return the worker that serves a topic."""
        return self.workers[self.number_of(name)]

    def number_of(self, name: TopicName) -> int:
        """Return the number of the worker of a topic, whose bundle gets an owner if it has none."""
        locating = start(self.placement.worker_of(name))
        self.clock.pump()
        found: int = locating.result()
        return found
