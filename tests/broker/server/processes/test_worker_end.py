"""The unexpected end of a worker."""

import asyncio
import socket
from contextlib import closing
from pathlib import Path

from fakes.memory_metadata import MemoryMetadata
from fakes.waiting import HANGS_SECONDS, until
from fakes.workers import listening_socket
from magnetar_broker.config import Settings
from magnetar_broker.ipc.link import Link
from magnetar_broker.ipc.metadata_server import MetadataServer
from magnetar_broker.server.data_directory.engine import data_disk
from magnetar_broker.server.data_directory.shared_storage import LocalSharedStorage
from magnetar_broker.server.processes.link_sockets import connect
from magnetar_broker.server.processes.multi_process import Prepared
from magnetar_broker.server.processes.process import Process
from magnetar_broker.server.processes.worker import Worker
from magnetar_broker.server.runtime.ports import PortNumbers, port_of
from magnetar_broker.server.supervision.children import Context
from magnetar_broker.server.supervision.control import Peer, Ready, control_pair
from magnetar_storage.identity import UNKNOWN
from magnetar_storage.multi_store.belonging import take


async def test_a_worker_without_the_controller_ends(tmp_path: Path) -> None:
    """The worker ends even if the supervisor does not stop it: its link may end alone."""
    settings = Settings(data_dir=str(tmp_path / "data"), broker_service_port=0)
    lock, noted = take(data_disk(settings), 2)
    with closing(lock):
        supervisor, control = control_pair()
        listening = listening_socket()
        ports = PortNumbers(port_of([listening]), None, None, None)
        prepared = Prepared(settings, LocalSharedStorage(lock, noted), ports)
        process = Process(Context(1, 2, 1, 0.0, 60.0, control, [listening]))
        running = asyncio.create_task(Worker(prepared, process).run())
        ours, theirs = socket.socketpair()
        supervisor.send(Peer(None, 1, theirs))
        theirs.close()
        link = Link("worker-1", process.clock, process.tasks)
        link.serve(dict.fromkeys(("names.start", "names.stop"), stub))
        link.serve({"identity": lambda: tuple(UNKNOWN)})
        link.serve({"segments.join": lambda last: (last, tuple(UNKNOWN))})
        metadata = MemoryMetadata(process.clock)
        MetadataServer(link, metadata, lambda key: True, process.clock, process.tasks)
        process.tasks.spawn(connect(link, ours, process.loop_timer))
        await until(
            lambda: any(isinstance(message, Ready) for message in supervisor.receive()),
            "the worker is ready",
        )
        link.close()
        await asyncio.wait_for(running, HANGS_SECONDS)
        process.end()
        supervisor.close()
        control.close()


def stub(*_: object) -> int:
    return 0
