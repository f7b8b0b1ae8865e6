"""A worker whose controller ends."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

from fakes.memory_metadata import MemoryMetadata
from fakes.waiting import HANGS_SECONDS, until
from fakes.workers import listening_socket
from magnetar_broker.base.errors import NotReady
from magnetar_broker.config import Settings
from magnetar_broker.ipc.link import Link
from magnetar_broker.ipc.metadata_server import MetadataServer
from magnetar_broker.server.data_directory.parts import data_disk
from magnetar_broker.server.data_directory.shared_storage import LocalSharedStorage
from magnetar_broker.server.processes.link_sockets import connect
from magnetar_broker.server.processes.multi_process import Prepared
from magnetar_broker.server.processes.process import Process
from magnetar_broker.server.processes.worker import Worker
from magnetar_broker.server.runtime.ports import PortNumbers, port_of
from magnetar_broker.server.supervision.children import Context
from magnetar_broker.server.supervision.control import Control, Peer, Ready, Stop, control_pair
from magnetar_storage.identity import UNKNOWN
from magnetar_storage.multi_store.belonging import take


class Controller:
    """Answer the requests of a worker as a controller without other work does."""

    def __init__(self, process: Process, supervisor: Control, generation: int) -> None:
        self.joined = False
        ours, theirs = socket.socketpair()
        supervisor.send(Peer(None, generation, theirs))
        theirs.close()
        self.link = link = Link("worker-1", process.clock, process.tasks)
        link.serve(dict.fromkeys(("names.hold", "names.stop", "segments.rejoin"), stub))
        link.serve(
            {"names.join": self._join, "identity": lambda: tuple(UNKNOWN), "objects.prefix": str}
        )
        link.serve({"segments.join": lambda last: (last, tuple(UNKNOWN))})
        metadata = MemoryMetadata(process.clock)
        MetadataServer(link, metadata, lambda key: True, process.clock, process.tasks)
        process.tasks.spawn(connect(link, ours, process.loop_timer))

    def _join(self, loaded: list[str], table: list[object]) -> None:
        self.joined = True


@asynccontextmanager
async def started(data_dir: Path) -> AsyncIterator[tuple[Process, Control, Controller]]:
    """Run a worker, which has ended when the body has."""
    settings = Settings(data_dir=str(data_dir), broker_service_port=0)
    lock, noted = take(data_disk(settings), 2)
    with closing(lock):
        supervisor, control = control_pair()
        listening = listening_socket()
        ports = PortNumbers(port_of([listening]), None, None, None)
        prepared = Prepared(settings, LocalSharedStorage(lock, noted), ports)
        process = Process(Context(1, 2, 1, 0.0, 60.0, control, [listening]))
        running = asyncio.create_task(Worker(prepared, process).run())
        controller = Controller(process, supervisor, 1)
        await until(
            lambda: any(isinstance(message, Ready) for message in supervisor.receive()),
            "the worker is ready",
        )
        yield process, supervisor, controller
        await asyncio.wait_for(running, HANGS_SECONDS)
        process.end()
        supervisor.close()
        control.close()


async def test_a_worker_joins_one_controller_after_the_other(tmp_path: Path) -> None:
    async with started(tmp_path / "data") as (process, supervisor, controller):
        assert controller.joined
        controller.link.close()
        second = Controller(process, supervisor, 2)
        await until(lambda: second.joined, "the second controller is joined")
        third = Controller(process, supervisor, 3)  # the end of the second one was not noticed
        await until(lambda: third.joined, "the third controller is joined")
        await second.link.ended()
        supervisor.send(Stop("the test ends"))


async def test_a_worker_stops_while_there_is_no_controller(tmp_path: Path) -> None:
    async with started(tmp_path / "data") as (_, supervisor, controller):
        controller.link.close()
        supervisor.send(Stop("the test ends"))


async def test_a_worker_that_cannot_join_the_next_controller_ends(tmp_path: Path) -> None:
    async with started(tmp_path / "data") as (process, supervisor, controller):
        controller.link.close()
        link = Controller(process, supervisor, 2).link
        link._handlers["names.join"] = refuse


def refuse(*_: object) -> None:
    raise NotReady("it cannot be joined")


def stub(*_: object) -> int:
    return 0
