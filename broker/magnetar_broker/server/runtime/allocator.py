"""The allocator of the C library, from which buffers and payloads come: settings for this process.

glibc gives each thread that allocates memory of its own, and keeps freed buffers of up to 32 MB
for the thread that freed them.  A payload is often allocated in one thread and freed in another, so
memory that nobody uses collects in all of them: after minutes some 60 MB more than with one heap.
Python's threads take turns, so they do not wait for each other when they share one.
"""

import ctypes
import sys

M_TRIM_THRESHOLD = -1
M_MMAP_THRESHOLD = -3
M_ARENA_MAX = -8
"""The parameters of `mallopt` (malloc.h)."""
MMAP_BYTES = 4 << 20
"""The size from which a buffer is returned to the system as soon as it is freed."""
TRIM_BYTES = 16 << 20
"""The amount of free memory that is kept at the end of the heap."""


def share_one_heap() -> bool:
    """Make all threads allocate from one heap from now on; return False if the C library cannot.

    Call it before threads are started: memory that they have already allocated stays where it is.
    """
    if sys.platform != "linux":
        return False
    adjust = getattr(ctypes.CDLL(None), "mallopt", None)
    if adjust is None:  # not glibc
        return False
    wanted = ((M_ARENA_MAX, 1), (M_MMAP_THRESHOLD, MMAP_BYTES), (M_TRIM_THRESHOLD, TRIM_BYTES))
    return sum(int(adjust(parameter, value)) for parameter, value in wanted) == len(wanted)
