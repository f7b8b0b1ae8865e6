"""The memory of this machine, or of the container, and the limits that follow from it."""

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from magnetar_broker.config import Settings

CGROUP_LIMITS = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)
"""The memory limits of cgroups version 2 and 1; without a limit, each has a number or a text that
does not lower the result."""
PART = 16
LEAST_MB, MOST_MB = 64, 1024


def with_buffer_sizes(settings: Settings, memory: int | None = None) -> Settings:
    """Return the settings with numbers in the place of `auto` for the buffers of clients."""
    if memory is None:
        memory = memory_bytes()
    auto = min(MOST_MB, max(LEAST_MB, (memory >> 20) // PART))
    receive, send = (
        settings.magnetar_receive_buffer_size_in_mb,
        settings.magnetar_send_buffer_size_in_mb,
    )
    return replace(
        settings,
        magnetar_receive_buffer_size_in_mb=auto if receive == "auto" else receive,
        magnetar_send_buffer_size_in_mb=auto if send == "auto" else send,
    )


def memory_bytes(limits: Sequence[Path] = CGROUP_LIMITS) -> int:
    """Return the memory that this process may use: the machine's, or less in a container."""
    found = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for limit in limits:
        with suppress(OSError, ValueError):  # it does not exist, or is "max"
            found = min(found, int(limit.read_text()))
    return found
