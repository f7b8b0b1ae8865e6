"""A broker of several processes: the work that is done before they are forked."""

import gc
import logging
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from magnetar_broker.config import Settings
from magnetar_broker.config.changes import with_reloaded
from magnetar_broker.placement.bundle_owners import BundleOwners
from magnetar_broker.server.clients.authentication import authenticator_of
from magnetar_broker.server.processes.banner import banner
from magnetar_broker.server.processes.reload import Read, reloaded
from magnetar_broker.server.runtime.advertised import advertised
from magnetar_broker.server.runtime.phases import Phases
from magnetar_broker.server.runtime.ports import PortNumbers, open_ports
from magnetar_broker.server.storage import SharedStorage, storage_of
from magnetar_broker.server.supervision.children import Context, name_of
from magnetar_broker.server.supervision.supervisor import Changed, Role, Supervisor
from magnetar_broker.server.tls.contexts import uses_tls
from magnetar_broker.server.tls.files import load

logger = logging.getLogger(__name__)


class Prepared(NamedTuple):
    """The data that every process has besides its `Context`."""

    settings: Settings
    storage: SharedStorage
    ports: PortNumbers
    """The numbers of the broker's ports."""


def bundle_owners(prepared: Prepared, workers: int) -> BundleOwners:
    """Return the initial table of owners, and lookup addresses; the same in all processes."""
    # No client resolves these hosts: it connects to the broker's address, and sends such a name.
    urls = [f"pulsar://{name_of(worker)}:{prepared.ports.for_clients}" for worker in range(workers)]
    owners = BundleOwners(urls)
    owners.announce(*advertised(prepared.settings, prepared.ports))
    return owners


RunPrepared = Callable[[Prepared, Context], None]


class Reload:
    """Reads the configuration again for the supervisor."""

    def __init__(
        self, read: Read, prepared: Prepared, controller: RunPrepared, worker: RunPrepared
    ) -> None:
        self._read = read
        self._prepared = self._next = prepared
        self._controller = controller
        self._worker = worker

    def changed(self) -> Changed | None:
        """Return the changes of the configuration; None if a reload would change nothing."""
        values = reloaded(self._read, self._prepared.settings)
        if values is None:
            return None
        # promise[without and self._next is self._prepared]: a reload counts only when it has
        #   reached all workers
        if not values and self._next is self._prepared:
            logger.info("reload: no setting has changed that a reload changes")
            return None
        if self._next is not self._prepared:
            logger.info("reload: the last one did not reach all workers; all are restarted")
        settings = with_reloaded(self._prepared.settings, values)
        self._next = prepared = self._prepared._replace(settings=settings)
        return Changed(
            partial(self._controller, prepared), partial(self._worker, prepared), dict(values)
        )

    def done(self) -> None:
        """Note that all processes use the configuration that `changed` returned."""
        self._prepared = self._next


def serve_several(
    settings: Settings,
    read: Read,
    workers: int,
    controller: RunPrepared,
    worker: RunPrepared,
    cores: int,
    phases: Phases,
) -> int:
    """Run a broker until a signal stops it, and return the exit code for this process.

    `read` reads the settings again.  Everything that the functions need must already be imported.
    Raises the error that prevents the start.
    """
    authenticator_of(settings)  # for its errors, and for its imports, which all processes share
    storage = storage_of(settings)
    shared = storage.share(workers)
    if uses_tls(settings):
        load(settings)  # for the errors of the files, and for its imports, which are then shared
    ports = open_ports(settings)
    prepared = Prepared(settings, shared, ports.numbers)
    default = advertised(settings, prepared.ports)[0]
    processes = f"{workers} workers on {cores} cores, and a controller"
    supervisor = Supervisor(
        Role(partial(controller, prepared), [*ports.http, *ports.http_tls]),
        Role(partial(worker, prepared), [*ports.clients, *ports.clients_tls]),
        workers,
        settings.broker_shutdown_timeout_ms / 1000,
        settings.metadata_store_session_timeout_millis / 1000,
        Reload(read, prepared, controller, worker),
    )
    gc.freeze()  # a collection in a child would copy the pages that it shares with the others
    phases.end("directories and ports")

    def ready() -> None:
        phases.end("processes")
        logger.info("ready after %s", phases)
        print(banner(settings, default, prepared.ports, storage.described, processes), flush=True)

    storage.announce(prepared.ports)
    try:
        return supervisor.run(ready)
    finally:
        storage.withdraw()
