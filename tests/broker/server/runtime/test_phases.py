"""The phases of a start and their times, as the log shows them."""

import re
import time
from collections.abc import Callable

from magnetar_broker.server.runtime.phases import Phases, began_at, recovery
from running_broker import RunningBroker

READY = re.compile(
    r"INFO (?:([a-z0-9-]+) )?magnetar\S*: ready after [0-9.]+ s: (.*)$", re.MULTILINE
)


def test_each_phase_has_its_time_and_short_ones_are_left_out() -> None:
    times = iter((10.5, 10.504, 12.0))
    phases = Phases(10.0, lambda: next(times))
    assert str(phases) == "0.00 s"
    phases.end("imports")
    phases.end("ports")
    phases.end(recovery(3 << 19))
    assert str(phases) == "2.00 s: 0.50 s imports, 1.50 s recovery from 1.5 MB of journal"


def test_a_process_began_before_its_imports() -> None:
    assert began_at() <= time.monotonic()


def test_a_start_is_explained(make_broker: Callable[..., RunningBroker]) -> None:
    broker = make_broker(magnetarWorkers="1")
    ((name, phases),) = READY.findall(broker.log)
    assert name == "" and "s interpreter, imports and settings" in phases


def test_a_start_of_several_processes_is_explained_by_each(
    make_broker: Callable[..., RunningBroker],
) -> None:
    broker = make_broker(magnetarWorkers="2")
    names = ["controller", "supervisor", "worker-0", "worker-1"]
    assert sorted(name for name, _ in READY.findall(broker.log)) == names
