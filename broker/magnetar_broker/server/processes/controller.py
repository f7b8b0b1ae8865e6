"""The controller: the process of a broker that has the directory of names, metadata and HTTP."""

import asyncio
import gc
import logging
import os
import signal
from contextlib import suppress
from functools import partial

from magnetar_broker.base.clock_watch import CLOCK, CLOCK_SECONDS, ClockWatch
from magnetar_broker.base.errors import BrokerError
from magnetar_broker.base.guarded_metadata import NOT_YET, GuardedMetadata
from magnetar_broker.base.metadata_keys import STARTS, TOPICS, topic_of_names
from magnetar_broker.base.runtime import NamesRuntime
from magnetar_broker.config.changes import Given
from magnetar_broker.expiry.shared_objects import SharedObjects
from magnetar_broker.expiry.stray_objects import StrayObjects
from magnetar_broker.ipc.link import Link
from magnetar_broker.limits.admission import Admission
from magnetar_broker.limits.reached import ReachedLimits
from magnetar_broker.names.directory import Directory
from magnetar_broker.names.dynamic_settings import DynamicSettings
from magnetar_broker.names.workers.balancing import Balancing
from magnetar_broker.names.workers.distributed_topic_host import DistributedTopicHost
from magnetar_broker.names.workers.draining import Draining
from magnetar_broker.names.workers.requests import NameRequests
from magnetar_broker.placement.assignments import Placement
from magnetar_broker.placement.stored_bundles import stored_bundles
from magnetar_broker.placement.worker_links import WorkerLinks
from magnetar_broker.policies.shared import SharedPolicies
from magnetar_broker.server.admin.context import AdminContext
from magnetar_broker.server.admin.linked_owners import LinkedOwners
from magnetar_broker.server.admin.routes import ROUTES
from magnetar_broker.server.clients.authentication import authenticator_of
from magnetar_broker.server.http.guard import HttpGuard, HttpLimits
from magnetar_broker.server.pages.audit import audit_log
from magnetar_broker.server.pages.http_authentication import http_authentication_of
from magnetar_broker.server.pages.joined_page import JoinedPage
from magnetar_broker.server.pages.linked_health import LinkedHealth
from magnetar_broker.server.pages.metrics_page import MetricsPage
from magnetar_broker.server.pages.web_pages import web_pages_of
from magnetar_broker.server.processes.http_server import HttpServer
from magnetar_broker.server.processes.link_sockets import connect
from magnetar_broker.server.processes.multi_process import Prepared, bundle_owners
from magnetar_broker.server.processes.process import Process
from magnetar_broker.server.runtime.descriptors import Descriptors
from magnetar_broker.server.runtime.garbage import THRESHOLD
from magnetar_broker.server.runtime.ports import of_port
from magnetar_broker.server.storage import ControllerStorage
from magnetar_broker.server.supervision.children import name_of
from magnetar_broker.server.supervision.control import (
    Drain,
    Drained,
    Lost,
    Message,
    Peer,
    Reloaded,
    Undrain,
    Undrained,
)
from magnetar_broker.server.tls.contexts import Contexts
from magnetar_storage.errors import StorageError
from magnetar_storage.log.left_objects import LEFT

logger = logging.getLogger(__name__)


class Controller:
    """Serves the workers, and HTTP, until the supervisor asks it to stop."""

    def __init__(self, prepared: Prepared, process: Process) -> None:
        self._settings = prepared.settings
        self._storage = prepared.storage
        self._supervisor = os.getppid()
        self._process = process
        self._owners = bundle_owners(prepared, process.context.workers)
        self._is_stopping = False
        self._links: dict[int, Link] = {}
        self._ports = prepared.ports
        self._contexts = None
        if self._ports.http_tls is not None:
            self._contexts = Contexts(prepared.settings, process.clock)
        self._authenticator = authenticator_of(prepared.settings)

    async def run(self) -> None:
        """Open the metadata store and serve; everything is closed on return."""
        process, workers = self._process, self._process.context.workers
        links = WorkerLinks(self._owners.workers, process.clock)
        is_first = process.context.generation == 1
        async with self._storage.controller(
            self._settings, process, links, workers, is_first
        ) as storage:
            await self._serve(storage, links)

    async def _serve(self, storage: ControllerStorage, links: WorkerLinks) -> None:
        process, settings = self._process, self._settings
        metadata = GuardedMetadata(storage.metadata, NOT_YET)
        session_seconds = settings.metadata_store_session_timeout_millis / 1000
        lead = partial(metadata.lead, session_seconds, process.stop)
        runtime = NamesRuntime(metadata, process.clock, process.tasks, storage.space)
        stored = stored_bundles(settings, metadata, self._owners.workers)
        placement = Placement(self._owners, stored, links, process.clock)
        placement.before_giving = storage.before_giving
        topic_host = DistributedTopicHost(placement, links, runtime)
        policies = SharedPolicies(metadata, settings)
        directory = Directory(settings, runtime, placement, topic_host, policies)
        Balancing(settings, directory, placement, links).register()
        requests = NameRequests(directory, placement, topic_host, policies, lead)
        obey = partial(self._obey, Draining(directory.bundles, placement), directory.dynamic)
        process.obey(lambda message: process.tasks.spawn(obey(message)))
        process.meet(partial(self._meet, storage, requests))
        reached = ReachedLimits(process.clock)
        admission = Admission(lambda: settings, process.clock, reached)
        owners = LinkedOwners(topic_host, runtime)
        health = LinkedHealth(links, runtime)
        watch = ClockWatch(process.clock)
        directory.jobs.every(CLOCK_SECONDS, CLOCK, watch.look)
        stray = StrayObjects(settings, metadata, process.clock, watch, storage.objects)
        stray.register(directory.jobs)
        SharedObjects(settings, metadata, storage.objects).register(directory.jobs)
        http = self._http_server(directory, owners, health, storage, reached, stray)
        try:
            sockets = process.context.sockets
            await http.start(of_port(sockets, self._ports.http))
            if self._contexts is not None:
                tls = of_port(sockets, self._ports.http_tls)
                http.start_tls(tls, self._contexts, admission)
                process.check_files = self._contexts.check
                self._contexts.start()
            process.phases.end("HTTP")
            await process.unless_stopped(self._start(requests))
            await process.stopped()
            await self._workers_ended()
        finally:
            self._is_stopping = True
            await storage.stop()  # first: changes of metadata may be waiting for it
            await directory.stop()
            await http.stop()
            if self._contexts is not None:
                self._contexts.stop()
            for link in self._links.values():
                link.close()

    def _http_server(
        self,
        directory: Directory,
        owners: LinkedOwners,
        health: LinkedHealth,
        storage: ControllerStorage,
        reached: ReachedLimits,
        stray: StrayObjects,
    ) -> HttpServer:
        """Return the server of the admin API, of metrics and of health."""
        process, settings = self._process, self._settings
        page = JoinedPage(
            settings.cluster_name,
            process.context.workers,
            self._links,
            process.loop_timer.stats,
            process.clock,
            reached,
            self._authenticator,
            self._contexts.figures if self._contexts is not None else lambda: None,
            directory.schemas.counts,
            storage.space,
            stray,
        )
        context = AdminContext(
            directory,
            owners,
            MetricsPage(page.make),
            health,
            self._stop_all,
            storage.snapshots,
            storage.metadata_url,
        )
        return HttpServer(
            context,
            process.loop_timer,
            Descriptors(),
            audit_log(process.clock, settings),
            ROUTES,
            http_authentication_of(settings, self._authenticator),
            guard=HttpGuard(HttpLimits.of(settings), process.clock, reached),
            pages=web_pages_of(settings),
        )

    async def _workers_ended(self) -> None:
        """Wait until the workers, which stop at the same time, have closed their topics.

        The supervisor stops the workers first.  If it has ended, all processes stop at once.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(self._settings.broker_shutdown_timeout_ms / 1000):
                for link in list(self._links.values()):
                    await link.ended()

    def _stop_all(self) -> None:
        """Ask the supervisor to stop; if it has ended, this process stops anyway."""
        if os.getppid() == self._supervisor:
            os.kill(self._supervisor, signal.SIGTERM)

    async def _start(self, requests: NameRequests) -> None:
        await requests.start()
        self._process.phases.end("names")
        gc.freeze()
        gc.set_threshold(THRESHOLD)
        gc.enable()
        self._process.ready()

    def _meet(self, storage: ControllerStorage, requests: NameRequests, peer: Peer) -> None:
        """Serve a worker that has started, or started again."""
        assert peer.worker is not None
        process, number = self._process, peer.worker
        link = Link(name_of(number), process.clock, process.tasks)
        storage.serve(number, link, partial(_may_write, requests.topic_host, link))
        requests.serve(number, link)
        self._links[number] = link
        link.when_ended(partial(self._lost, number, peer.generation))
        process.tasks.spawn(connect(link, peer.link, process.loop_timer))

    def _lost(self, number: int, generation: int) -> None:
        """Report the end of a worker's link: the worker has ended, or does not read it."""
        if not self._is_stopping:
            self._process.report(Lost(number, generation))

    async def _obey(self, draining: Draining, settings: DynamicSettings, message: Message) -> None:
        """Follow the supervisor's messages during a restart of workers."""
        control = self._process.context.control
        match message:
            case Drain(worker):
                await draining.drain(worker)
                control.send(Drained(worker))
            case Undrain(worker):
                await draining.undrain(worker)
                control.send(Undrained(worker))
            case Reloaded(values):
                try:
                    await settings.reload({name: Given(*value) for name, value in values.items()})
                except (BrokerError, StorageError) as error:
                    logger.error("reload: some topics do not follow it until they close: %s", error)


def _may_write(topic_host: DistributedTopicHost, link: Link, key: str) -> bool:
    """Return whether a worker may write a key: records of its topics' logs, the start count, and
    the objects that its deleted topics leave, whose names no other topic's objects have."""
    if key == STARTS or key.startswith(LEFT):
        return True
    if not key.startswith(TOPICS):
        return False
    return topic_host.may_write(link, topic_of_names(key.removeprefix(TOPICS)))
