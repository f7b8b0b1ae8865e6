"""Opening and closing many times leaves nothing behind, in the client's process or the broker's."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from effort import part_of
from running_broker import RunningBroker

CYCLES = part_of(10_000)
TESTS = Path(__file__).parents[1]


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="descriptors are counted in /proc")
def test_opening_and_closing_leaves_nothing(broker: RunningBroker) -> None:
    # In a process of its own, in which no other test has left objects or taken memory.
    run = subprocess.run(
        [sys.executable, "-m", "client.leaking", broker.service_url, str(broker.pid), str(CYCLES)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
