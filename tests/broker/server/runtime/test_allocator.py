"""Memory freed by threads is used by others, and large buffers are returned to the system."""

import platform
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc", reason="only glibc has a heap for each thread"
)

PROGRAM = """
import sys, threading
from magnetar_broker.server.runtime.allocator import share_one_heap

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096

assert sys.argv[1] == "apart" or share_one_heap()
base = resident()

def churn():
    # Small enough to come from a heap, and freed in the order in which they were allocated.
    for _ in range(3):
        kept = [bytes(100_000) for _ in range(300)]
        kept.clear()

barrier = threading.Barrier(4)

def work():
    for turn in range(4):
        barrier.wait()
        if turn == threading.current_thread().number:
            churn()
    barrier.wait()  # all threads are alive while memory is measured

threads = [threading.Thread(target=work) for _ in range(3)]
for number, thread in enumerate(threads):
    thread.number = number
    thread.start()
for _ in range(4):
    barrier.wait()
print((resident() - base) >> 20)
barrier.wait()
"""


def used_mib(how: str) -> int:
    """Return the memory kept after three threads in turn have allocated and freed 30 MB each."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, how], stdout=subprocess.PIPE, text=True, check=True
    )
    return int(done.stdout)


def test_threads_use_again_what_others_freed() -> None:
    assert used_mib("shared") < 20 < used_mib("apart")
