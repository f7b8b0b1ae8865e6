"""Links over real sockets: in one process, and to another one that is killed."""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fakes.loop_world import LoopClock, LoopTasks
from magnetar_broker.base.errors import NotReady
from magnetar_broker.ipc.link import Handler, Link
from magnetar_broker.server.processes import link_sockets as links
from magnetar_broker.server.runtime import link_socket
from magnetar_broker.server.runtime.event_loop import loop_factory
from magnetar_storage.errors import ProcessUnavailable

ROOT = Path(__file__).parents[4]


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Callable[[Any], None]:
    """Return a function that runs a coroutine on an event loop of either kind."""
    factory = asyncio.new_event_loop if request.param == "asyncio" else loop_factory()[0]

    def run(work: Any) -> None:
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(asyncio.wait_for(work, 120))

    return run


def link(peer: str = "the peer", handlers: dict[str, Handler] | None = None) -> Link:
    made = Link(peer, LoopClock(), LoopTasks())
    made.serve(handlers or {})
    return made


async def joined(left: dict[str, Handler], right: dict[str, Handler]) -> tuple[Link, Link]:
    ends = socket.socketpair()
    pair = link("the right side", left), link("the left side", right)
    for one, end in zip(pair, ends, strict=True):
        await links.connect(one, end)
    return pair


def test_both_sides_ask(run: Callable[[Any], None]) -> None:
    async def work() -> None:
        async def slowly(value: int) -> int:
            await asyncio.sleep(0)
            return value + 1

        def refuse() -> None:
            raise NotReady("try again")

        left, right = await joined({"refuse": refuse}, {"slowly": slowly})
        answers = await asyncio.gather(*(left.request("slowly", n) for n in range(1000)))
        assert answers == list(range(1, 1001))
        with pytest.raises(NotReady, match="try again"):
            await right.request("refuse")
        left.close()
        await asyncio.gather(left.ended(), right.ended())

    run(work())


def test_large_messages_and_many_of_them(run: Callable[[Any], None]) -> None:
    async def work() -> None:
        left, right = await joined({}, {"echo": lambda value: value})
        values = [os.urandom(1 << 20) for _ in range(8)]
        assert await asyncio.gather(*(left.request("echo", value) for value in values)) == values
        left.close()
        await right.ended()

    run(work())


def test_a_sender_waits_for_room_and_what_it_sent_arrives_before_the_end(
    run: Callable[[Any], None],
) -> None:
    """The data exceed what the sockets hold, the peer does not read yet, and the link closes."""

    async def work() -> None:
        seen: list[int] = []
        mine, theirs = socket.socketpair()
        left, right = link(), link(handlers={"see": lambda number, _: seen.append(number)})
        await links.connect(left, mine)
        sent = 0
        while not left._paused:
            left.notify("see", sent, bytes(100_000))
            sent += 1
            await asyncio.sleep(0)
        waiting = asyncio.create_task(left.room())
        await asyncio.sleep(0)
        assert not waiting.done()
        left.notify("see", sent, b"")
        await links.connect(right, theirs)
        await waiting
        left.notify("see", sent + 1, b"")
        left.close()
        await right.ended()
        assert seen == list(range(sent + 2))

    run(work())


def test_a_peer_that_does_not_read_delays_the_end_only_so_long(
    run: Callable[[Any], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link_socket, "CLOSE_SECONDS", 0.01)

    async def work() -> None:
        mine, theirs = socket.socketpair()
        left = link()
        await links.connect(left, mine)
        left.notify("see", bytes(8 << 20))
        left.close()
        assert left.has_ended
        reader, writer = await asyncio.open_unix_connection(sock=theirs)
        while await reader.read(1 << 16):  # the part that the socket held
            pass
        writer.close()

    run(work())


PEER = """
import asyncio, socket, sys
from fakes.loop_world import LoopClock, LoopTasks
from magnetar_broker.ipc.link import Link
from magnetar_broker.server.processes import link_sockets as links

async def main():
    link = Link("the test", LoopClock(), LoopTasks())
    async def half():
        await link.request("begun")
        await asyncio.Event().wait()
    link.serve({"half": half, "add": lambda a, b: a + b})
    await links.connect(link, socket.socket(fileno=int(sys.argv[1])))
    await link.ended()

asyncio.run(main())
"""


async def started() -> tuple[socket.socket, asyncio.subprocess.Process]:
    """Start another process; return this process's end of the sockets, and the process."""
    mine, theirs = socket.socketpair()
    with theirs:
        peer = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", PEER, str(theirs.fileno())),
            pass_fds=[theirs.fileno()],
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "tests"), *sys.path])},
        )
    return mine, peer


def test_a_request_to_a_killed_process_fails_as_unknown(run: Callable[[Any], None]) -> None:
    async def work() -> None:
        mine, peer = await started()
        begun = asyncio.Event()
        left = link("the other process", {"begun": begun.set})
        await links.connect(left, mine)
        assert await left.request("add", 1, 2) == 3
        half = left.request("half")
        await begun.wait()
        peer.send_signal(signal.SIGKILL)
        with pytest.raises(ProcessUnavailable, match="whether half took place is unknown"):
            await half
        await left.ended()
        with pytest.raises(ProcessUnavailable, match="was not sent"):
            await left.request("add", 1, 2)
        assert await peer.wait() == -signal.SIGKILL

    run(work())


def test_a_process_notices_that_this_one_closed_the_link(run: Callable[[Any], None]) -> None:
    async def work() -> None:
        mine, peer = await started()
        left = link()
        await links.connect(left, mine)
        answer = left.request("add", 1, 2)
        assert await answer == 3
        left.close()
        assert await peer.wait() == 0

    run(work())
