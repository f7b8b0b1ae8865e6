"""Opening a session store: what it needs, and how its parts are put together."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from magnetar_storage.identity import UNKNOWN, Identity
from magnetar_storage.interfaces import Guard, MetadataStore
from magnetar_storage.local.recovery import Finding
from magnetar_storage.objects.interfaces import Objects
from magnetar_storage.runtime.execution import Clock, Tasks, Worker
from magnetar_storage.session_store.limits import DEFAULT, SessionLimits
from magnetar_storage.session_store.own_session import OwnSession
from magnetar_storage.session_store.sessions import Sessions
from magnetar_storage.session_store.settled_files import (
    ObjectNames,
    ReadLane,
    SettledFiles,
    lane_of,
)
from magnetar_storage.session_store.settling import Packing
from magnetar_storage.session_store.store import SessionStore
from magnetar_storage.session_store.takeover import Takeover
from magnetar_storage.wal.slot_writer import StoredSlot


class SessionWorkers(NamedTuple):
    """The threads of a session store; none is used for anything else."""

    uploads: Sequence[Worker]
    """Each uploads one slot of the log at a time: 8 keep a store busy whose answers take 30 ms."""
    background: Sequence[Worker]
    """For packs, manifests, deletions, and the requests of a takeover."""
    reads: Sequence[Worker]
    """For reads of segments; each has a part of what is read ahead."""


async def open_session_store(
    objects: Objects,
    workers: SessionWorkers,
    clock: Clock,
    tasks: Tasks,
    metadata: MetadataStore,
    new_nonce: Callable[[], bytes],
    report: Callable[[Finding], None],
    *,
    prefix: str = "",
    owner: str = "",
    guard: Guard | None = None,
    limits: SessionLimits = DEFAULT,
    may_confirm: Callable[[], bool] = lambda: True,
    identity: Callable[[], Identity] = lambda: UNKNOWN,
    observe: Callable[[StoredSlot], None] = lambda stored: None,
) -> SessionStore:
    """Begin a session, and open the store for it.

    An engine passes:

    - `objects`, which keeps conditions of writes (`objects/probe.py`), and the `prefix` of all
      names in it: empty, or with `/` at its end;
    - `metadata` that finds out the outcome of writes by itself (`RetryingMetadata`), and the
      `guard` of its writes, if there is one;
    - `new_nonce`, which returns `NONCE_BYTES` random bytes, and `owner`, a name of the process;
    - `may_confirm`, which returns False from the moment on at which the lease of the process may
      have ended; the store's `when_ended` tells when the process must end;
    - `identity` for the origins of segments, as for a `LocalStore`;
    - `observe`, called for each slot of the log that is durable, before its entries are reported;
    - `report`, called with damage that is found, and with failures to write packs.

    Then it calls `end_session` for each of `open_sessions` whose process has ended: in a broker of
    one process those are all.  A process that hands topics over to another one calls `settle` when
    it has closed them.
    """
    names = ObjectNames(prefix)
    files = SettledFiles(objects, names)
    worker = workers.background[0]
    sessions = Sessions(objects, names, worker, clock, metadata, guard, files)
    own = await sessions.begin(owner)
    packing = Packing(objects, files, names, worker, sessions)
    takeover = Takeover(
        objects, prefix, names, workers.background, clock, new_nonce, sessions, packing
    )
    lanes = [
        ReadLane(
            files, reads, limits.read_ahead_bytes // len(workers.reads), limits.loaded_segments,
            report,
        )
        for reads in workers.reads
    ]  # fmt: skip

    def failed(what: str, error: BaseException) -> None:
        report(Finding("segments", 0, f"{what} cannot be written at present: {error}"))

    session = OwnSession(
        own, sessions, packing, objects, prefix, workers.uploads, clock, tasks, new_nonce, limits,
        may_confirm, identity, lambda one: lane_of(lanes, one.id).finished.keep(one),
        partial(takeover.discard, own), failed, observe,
    )  # fmt: skip
    store = SessionStore(session, sessions, takeover, lanes, objects, names, worker, clock, report)
    tasks.spawn(store.forget_gone())
    return store
