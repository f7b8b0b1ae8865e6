"""The client's clock: nothing in the client looks at another, and the default is the event loop."""

import ast
import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

import magnetar
from fakes.client_clock import ManualClock
from magnetar.clock import EVENT_LOOP, Clock

PACKAGE = Path(magnetar.__file__).parent
REAL_TIME = ["clock.py", "cli", "testing"]
"""The clock itself, and what a person or a test waits for at a terminal."""
TIMED = {"call_later", "call_at", "sleep", "timeout", "timeout_at", "wait_for"}


def timed(source: str) -> Iterator[str]:
    """What in a module has a time of its own."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.stmt | ast.expr):
            continue
        names: set[str] = set()
        if isinstance(node, ast.Import):
            names = {one.name for one in node.names} & {"time"}
        elif isinstance(node, ast.ImportFrom) and node.module in ("time", "asyncio"):
            found = {one.name for one in node.names}
            names = found if node.module == "time" else found & TIMED
        elif isinstance(node, ast.Call) and _is_timed(node):
            names = {ast.unparse(node)}
        if names:
            yield f"{node.lineno}: {', '.join(names)}"


def _is_timed(call: ast.Call) -> bool:
    owner, _, name = ast.unparse(call.func).rpartition(".")
    if owner.endswith(("loop", "loop()")):
        return name in TIMED | {"time"}
    if owner != "asyncio" or ast.unparse(call) == "asyncio.sleep(0)":
        return False
    return name in TIMED or any(keyword.arg == "timeout" for keyword in call.keywords)


def modules() -> list[Path]:
    found = [path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py")]
    return sorted(path for path in found if path.parts[0] not in REAL_TIME)


@pytest.mark.parametrize("module", modules(), ids=str)
def test_no_module_has_a_time_of_its_own(module: Path) -> None:
    found = list(timed((PACKAGE / module).read_text()))
    # The default of an argument: tokens are fetched in threads, for clients or without one.
    allowed = ["6: time"] if module == Path("security/oauth2.py") else []
    assert found == allowed, "use the clock of the client's settings (magnetar.clock)"


@pytest.mark.parametrize(
    "source",
    [
        "import time", "from time import monotonic", "from asyncio import sleep",
        "self._loop.time()", "asyncio.get_running_loop().call_at(1, f)", "loop.call_later(1, f)",
        "asyncio.sleep(1)", "asyncio.timeout(1)", "asyncio.wait_for(f, 1)",
        "asyncio.wait(f, timeout=1)",
    ],
)  # fmt: skip
def test_what_has_a_time_of_its_own_is_found(source: str) -> None:
    assert len(list(timed(source))) == 1
    assert not list(timed("asyncio.sleep(0); self._clock.sleep(1); asyncio.wait(f)"))


@pytest.mark.parametrize("clock", [EVENT_LOOP, ManualClock()], ids=["event loop", "by hand"])
async def test_clocks(clock: Clock) -> None:
    """Both keep the contract; pauses of no length need no one to move the clock by hand."""

    def moved() -> None:
        if isinstance(clock, ManualClock):
            clock.advance(0)

    called: list[str] = []
    ended = asyncio.Event()
    clock.later(0, lambda: called.append("never")).cancel()
    clock.later(0, lambda: called.append("later"))
    clock.at(clock.now_s(), ended.set)
    moved()
    await ended.wait()
    assert called == ["later"]
    sleeping = asyncio.create_task(clock.sleep(0))
    await asyncio.sleep(0)
    moved()
    await sleeping

    async def too_long() -> None:
        async with clock.timeout(0):
            await asyncio.Event().wait()

    waiting = asyncio.create_task(too_long())
    await asyncio.sleep(0)
    moved()
    with pytest.raises(TimeoutError):
        await waiting
    async with clock.timeout(None):
        await asyncio.sleep(0)
    assert clock.now_ms() > 1_600_000_000_000
