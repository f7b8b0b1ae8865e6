"""A broker of several processes: what is done before they are forked."""

import gc
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from magnetar_broker.config import Settings
from magnetar_broker.server.advertised import advertised
from magnetar_broker.server.banner import banner
from magnetar_broker.server.children import Context
from magnetar_broker.server.engine import data_disk
from magnetar_broker.server.ports import client_sockets, http_sockets, port_of
from magnetar_broker.server.supervisor import Role, Supervisor
from magnetar_storage.local import directories, layout
from magnetar_storage.world.disk import Lock


class Prepared(NamedTuple):
    """What every process has besides its `Context`."""

    settings: Settings
    lock: Lock
    """Of the data directory; held until the last process that has it open has ended."""


RunPrepared = Callable[[Prepared, Context], None]


def serve_several(
    settings: Settings, workers: int, controller: RunPrepared, worker: RunPrepared, cores: int
) -> int:
    """Run a broker until a signal stops it, and return the exit code for this process.

    All that the functions need must be imported already.  Raises the error that prevents the start.
    """
    disk = data_disk(settings)
    prepared = Prepared(settings, disk.lock(layout.LOCK_FILE))
    directories.prepare(disk, workers)
    clients, http = client_sockets(settings), http_sockets(settings)
    url = advertised(settings, port_of(clients))[0].pulsar
    processes = f"{workers} workers on {cores} cores, and a controller"
    supervisor = Supervisor(
        Role(partial(controller, prepared), http),
        Role(partial(worker, prepared), clients),
        workers,
        settings.broker_shutdown_timeout_ms / 1000,
    )
    gc.freeze()  # a collection in a child would copy the pages that it shares with the others
    return supervisor.run(lambda: print(banner(settings, url, http, processes), flush=True))
