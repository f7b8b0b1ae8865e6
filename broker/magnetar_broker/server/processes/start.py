"""Starts a broker, in one process or in several."""

import logging
import os
import sys
from functools import partial

from magnetar_broker.config import Settings
from magnetar_broker.config.domains import MAX_WORKERS
from magnetar_broker.config.load import Loaded
from magnetar_broker.config.offload_places import place_in
from magnetar_broker.server.data_directory.file_permissions import protect_files
from magnetar_broker.server.processes.reload import Read
from magnetar_broker.server.runtime.allocator import share_one_heap
from magnetar_broker.server.runtime.descriptors import raise_limit
from magnetar_broker.server.runtime.event_loop import loop_factory
from magnetar_broker.server.runtime.logs import log_to_stderr
from magnetar_broker.server.runtime.memory import with_buffer_sizes
from magnetar_broker.server.runtime.phases import Phases, began_at

logger = logging.getLogger(__name__)

IMPORTS = "interpreter, imports and settings"
"""The name of the first phase of a start."""
SWITCH_INTERVAL_SECONDS = 0.0005
"""The time for which the loop may keep the interpreter lock from a thread that returned from the
disk. Python's default of 5 ms would be added to every fsync."""


def start(read: Read) -> int:
    """Run a broker until a signal stops it, and return the exit code for this process.

    `read` reads its settings.  Raises the error that prevents the start.
    """
    phases = Phases(began_at())
    settings, warnings = (read := partial(_with_buffer_sizes, read))()
    workers = worker_count(settings)
    log_to_stderr("supervisor" if workers > 1 else None)
    sys.setswitchinterval(SWITCH_INTERVAL_SECONDS)
    raise_limit()
    share_one_heap()
    factory, slower = loop_factory()
    warnings += protect_files(settings)
    warnings += [
        warning
        for warning in (
            slower,
            warning_of_few_bundles(settings, workers),
            warning_of_offload_place(settings),
        )
        if warning
    ]
    for warning in warnings:
        logger.warning("%s", warning)
    if workers > 1:
        # Only these processes need the imports: a broker of one process does without them.
        from magnetar_broker.server.processes.controller import Controller  # noqa: PLC0415
        from magnetar_broker.server.processes.multi_process import serve_several  # noqa: PLC0415
        from magnetar_broker.server.processes.process import run  # noqa: PLC0415
        from magnetar_broker.server.processes.worker import Worker  # noqa: PLC0415

        phases.end(IMPORTS)
        return serve_several(
            settings,
            read,
            workers,
            partial(run, Controller, factory),
            partial(run, Worker, factory),
            usable_cores(),
            phases,
        )
    from magnetar_broker.server.processes.daemon import serve_alone  # noqa: PLC0415 (heavy)

    phases.end(IMPORTS)
    serve_alone(settings, factory, phases)
    return 0


def _with_buffer_sizes(read: Read) -> Loaded:
    loaded = read()
    return loaded._replace(settings=with_buffer_sizes(loaded.settings))


def warning_of_few_bundles(settings: Settings, workers: int) -> str | None:
    """Return a warning if a namespace has too few bundles for all workers to serve it."""
    bundles = settings.default_number_of_namespace_bundles
    if bundles == "auto" or bundles >= workers:
        return None
    return (
        f"defaultNumberOfNamespaceBundles={bundles}: at most {bundles} of the {workers} workers "
        "serve the topics of a new namespace; set it to auto"
    )


def warning_of_offload_place(settings: Settings) -> str:
    """Return why ledgers cannot be offloaded from this machine, or "" if no reason is known."""
    place = place_in(settings)
    if not place:
        return ""
    # Here: most brokers have no place, and do without the import.
    from magnetar_broker.server.object_stores.opening import trouble_with  # noqa: PLC0415

    trouble = trouble_with(place)
    return trouble and f"ledgers cannot be offloaded: {trouble}"


def worker_count(settings: Settings) -> int:
    """Return the number of workers; with `auto`, the number of usable cores up to `MAX_WORKERS`."""
    workers = settings.magnetar_workers
    return min(usable_cores(), MAX_WORKERS) if workers == "auto" else workers


def usable_cores() -> int:
    """Return the number of cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
