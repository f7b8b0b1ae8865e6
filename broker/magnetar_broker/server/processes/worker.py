"""A worker: one of the processes of a broker that serve its topics."""

import asyncio
import time
from collections.abc import Callable, Mapping
from functools import partial

from magnetar_broker.broker import Broker
from magnetar_broker.ipc.link import Handler, Link
from magnetar_broker.ipc.successive import SuccessiveLinks
from magnetar_broker.limits.worker_share import settings_of_worker
from magnetar_broker.names.workers.remote import RemoteDirectory
from magnetar_broker.policies.view import PolicyView
from magnetar_broker.server.admin.linked_owners import serve_operations
from magnetar_broker.server.clients.authentication import authenticator_of
from magnetar_broker.server.clients.listener import Listener
from magnetar_broker.server.clients.socket_handoff import SocketHandoff
from magnetar_broker.server.clients.upstreams import Upstreams
from magnetar_broker.server.pages.broker_page import BrokerPage
from magnetar_broker.server.pages.health import HealthCheck
from magnetar_broker.server.pages.linked_health import serve_health
from magnetar_broker.server.pages.linked_page import LinkedPage
from magnetar_broker.server.processes.controllers import Controllers
from magnetar_broker.server.processes.link_sockets import connect
from magnetar_broker.server.processes.multi_process import Prepared, bundle_owners
from magnetar_broker.server.processes.process import Process
from magnetar_broker.server.runtime.descriptors import Descriptors
from magnetar_broker.server.runtime.garbage import CHECK_SECONDS, CLOSED_TOPICS, Garbage
from magnetar_broker.server.runtime.ports import of_port
from magnetar_broker.server.storage import WorkerStorage
from magnetar_broker.server.supervision.children import name_of
from magnetar_broker.server.supervision.control import Peer
from magnetar_broker.server.tls.contexts import Contexts
from magnetar_broker.session.authorizing import handlers_of
from magnetar_broker.topic.joining import Joining
from magnetar_broker.topic.load import serve_load
from magnetar_broker.topic.local_topic_host import LocalTopicHost
from magnetar_broker.transactions.leftovers import ENDED, LinkedEnded
from magnetar_broker.transactions.participants import LinkedEnding, serving
from magnetar_proto.names import TopicName
from magnetar_storage.errors import ProcessUnavailable


class Worker:
    """Serves its topics until the supervisor asks it to stop."""

    def __init__(self, prepared: Prepared, process: Process) -> None:
        context = process.context
        assert context.worker is not None
        self._number = context.worker
        self._workers = context.workers
        self._others = [number for number in range(context.workers) if number != self._number]
        self._storage = prepared.storage
        self._of_broker = prepared.settings
        self._part = partial(settings_of_worker, workers=context.workers)
        self._settings = self._part(prepared.settings)
        self._owners = bundle_owners(prepared, context.workers)
        self._process = process
        self._descriptors = Descriptors()
        self._controllers = SuccessiveLinks("the controller", process.clock)
        """The links to the present controller and its former processes."""
        self._links = {n: SuccessiveLinks(name_of(n), process.clock) for n in self._others}
        """The links to the present processes of the other workers, by worker number."""
        settings, ports = self._settings, prepared.ports
        self._contexts = None
        if ports.clients_tls is not None:
            self._contexts = Contexts(settings, process.clock)
        self._handoff = SocketHandoff(
            of_port(context.sockets, ports.clients),
            self._others,
            self._descriptors,
            process.loop_timer,
            (of_port(context.sockets, ports.clients_tls), self._contexts),
        )

    async def run(self) -> None:
        """Open the store and serve; everything is closed on return."""
        async with self._storage.worker(
            self._settings, self._process, self._number, self._controllers, self._links
        ) as storage:
            await self._serve(storage)

    async def _serve(self, storage: WorkerStorage) -> None:
        process, engine = self._process, storage.engine
        policies = PolicyView(self._settings)
        topic_host = LocalTopicHost(self._of_broker, engine, policies, self._new_owner, self._part)
        joining = Joining(self._controllers, topic_host, policies, self._owners, process.clock)
        names = RemoteDirectory(
            self._settings, self._owners, joining.joined, lambda: joining.join(names)
        )
        broker = Broker(
            self._settings,
            engine,
            topic_host,
            names,
            authenticator_of(self._settings),
        )
        ending = LinkedEnding(broker.local_ending, self._other, self._links)
        broker.coordinators.ending, broker.coordinators.serves = ending, self._serves
        ended = broker.leftovers.ended
        broker.leftovers.ended = LinkedEnded(ended, self._other, self._links)
        upstreams = Upstreams(
            self._other,
            self._handoff.send,
            self._descriptors,
            process.tasks,
            process.loop_timer,
            broker.receiving,
            handlers_of(topic_host.access),
        )
        listener = Listener(broker, process.loop_timer, self._descriptors, upstreams)
        serve = [storage.serve_controller, names.follow, joining.serve]
        controllers = Controllers(
            process,
            self._controllers,
            joining,
            names,
            [*serve, self._answers(broker, storage)],
            storage.rejoin,
        )
        serves = {**serving(broker.local_ending), ENDED: ended}
        process.meet(partial(self._meet, storage, serves, controllers))
        try:
            await process.unless_stopped(self._start(storage, broker, listener, controllers))
            await process.stopped()
        finally:
            joining.stop()
            storage.stop()
            # A topic that is being deleted may wait for a store of objects.
            process.threads.abandon_transfers()
            self._handoff.stop()
            # First: a topic that is being opened may wait for another worker, which also stops.
            for links in self._links.values():
                links.close()
            await broker.close()
            listener.disconnect()
            await asyncio.gather(listener.ended(), self._handoff.ended())
            if self._contexts is not None:
                self._contexts.stop()
            self._controllers.close()

    def _answers(self, broker: Broker, storage: WorkerStorage) -> Callable[[Link], None]:
        """Return the function that prepares a link for the requests of a controller."""
        process, contexts = self._process, self._contexts
        health = HealthCheck(broker, self._serves)
        page = BrokerPage(
            broker,
            self._owners,
            storage.journal,
            process.loop_timer.stats,
            is_joined=True,
            tls=contexts.figures if contexts is not None else lambda: None,
        )

        def serve(link: Link) -> None:
            serve_load(broker.topics, self._owners, process.clock, _used, link)
            serve_operations(broker, link)
            serve_health(health, link)
            LinkedPage(page.make, link, process.loop_timer)

        return serve

    async def _start(
        self,
        storage: WorkerStorage,
        broker: Broker,
        listener: Listener,
        controllers: Controllers,
    ) -> None:
        controller, phases = await self._controllers.present(), self._process.phases
        await storage.join()
        await broker.start()
        phases.end("names")
        if controller.has_ended:
            raise ProcessUnavailable("the controller has ended while this worker started")
        controllers.has_started = True
        self._accept(broker, listener)
        self._process.ready()

    def _accept(self, broker: Broker, listener: Listener) -> None:
        """Begin to serve clients: those that connect, and those that other workers pass on."""
        garbage = Garbage(broker.topics)
        broker.jobs.every(CHECK_SECONDS, CLOSED_TOPICS, garbage.collect_closed)
        garbage.start()
        addresses = {number: self._owners.address_of(number) for number in self._others}
        if self._contexts is not None:
            self._process.check_files = self._contexts.check
            self._contexts.start()
        own = self._owners.address_of(self._number)
        self._handoff.start(
            broker.admission,
            listener.adopt,
            listener.serve,
            own,
            addresses,
            broker.receiving,
            broker.slow_readers,
        )

    def _meet(
        self,
        storage: WorkerStorage,
        serves: Mapping[str, Handler],
        controllers: Controllers,
        peer: Peer,
    ) -> None:
        """Connect to another process that has started, or started again."""
        if peer.worker is None:
            controllers.meet(peer)
            return
        process = self._process
        link = Link(name_of(peer.worker), process.clock, process.tasks)
        storage.serve(link)
        link.serve(serves)
        self._links[peer.worker].replace(link)
        self._handoff.connect(peer)
        process.tasks.spawn(connect(link, peer.link, process.loop_timer))

    def _serves(self, topic: TopicName) -> bool:
        return self._owners.worker_of(topic) == self._number

    def _other(self, topic: TopicName) -> int | None:
        """Return the number of this broker's worker that serves a topic, if it is another one.

        If it is this one, or not known, the request goes to the controller, which lets this worker
        load the topic only if it is the owner.
        """
        owner = self._owners.worker_here(topic)
        return None if owner == self._number else owner

    def _new_owner(self, topic: TopicName) -> str:
        """Return the URL that stands for the worker that serves a topic; "" if it is this one."""
        other = self._other(topic)
        return "" if other is None else f"pulsar://{self._owners.address_of(other)}"


def _used() -> tuple[float, float]:
    """Return the processor time that this process has used, and the current time, in seconds."""
    return time.process_time(), time.monotonic()
