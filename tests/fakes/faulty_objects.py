"""A store of objects in memory that loses, delays, doubles and refuses what a test wants."""

import hashlib
import random
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from enum import Enum
from typing import NamedTuple, TypeVar

from magnetar_storage.errors import AccessDenied, NoObject, ObjectChanged, Unavailable
from magnetar_storage.objects.interfaces import Creation, ListedObject

T = TypeVar("T")

PART_BYTES = 1000
"""The size of the parts of uploads: so small that those of tests have several."""


class Fault(Enum):
    """The ways in which a request goes wrong; reads know LOST, BUSY, SLOW, CUT and EXPIRED."""

    LATE = "the write takes place after the answer, at `land`; no answer"
    LOST = "nothing takes place; no answer"
    DOUBLED = "the write takes place twice, with the answer to the second time"
    LANDED = "the write takes place; the answer is a failure"
    CONFLICT = "409: nothing takes place; it is reported like 412"
    PRECONDITION = "412: another writer was faster"
    ERROR = "500: the write takes place or not, as the dice say; no answer"
    BUSY = "503: nothing takes place"
    SLOW = "`wait` is called first, then everything is as usual"
    CUT = "a read answers fewer bytes than there are, which a driver should have noticed"
    EXPIRED = "the credentials have expired: nothing takes place"


WRITES = tuple(fault for fault in Fault if fault is not Fault.CUT)
READS = (Fault.LOST, Fault.BUSY, Fault.SLOW, Fault.CUT, Fault.EXPIRED)

READING = frozenset({"size", "tag", "read", "list"})
"""The operations that write nothing."""

Faults = Callable[[str, str], Fault | None]
"""Returns, for an operation and the name of its object, the fault that it meets."""


class Stored(NamedTuple):
    """The content of an object."""

    data: bytes
    modified_ms: int

    @property
    def tag(self) -> str:
        # As S3 does: equal bytes have equal tags, also if they were written again.
        return hashlib.md5(self.data, usedforsecurity=False).hexdigest()


def seeded(seed: int, share: float = 0.5) -> Faults:
    """Return random faults, which `share` of all operations meet."""
    dice = random.Random(seed)

    def fault(operation: str, name: str) -> Fault | None:
        if dice.random() >= share:
            return None
        return dice.choice(READS if operation in READING else WRITES)

    return fault


class FaultyObjects:
    """Implements `magnetar_storage.objects.interfaces.Objects`; threads may share it."""

    def __init__(self, now_ms: Callable[[], int] = lambda: 0, seed: int = 0) -> None:
        self.fault: Faults | None = None
        """Called before every operation."""
        self.wait: Callable[[], None] = lambda: None
        """Called for `SLOW`; a test lets its clock advance."""
        self.log: list[str] = []
        """All operations, in order."""
        self.keeps_conditions = True
        """Whether conditions of writes are kept; some stores ignore them."""
        self._now_ms = now_ms
        self._dice = random.Random(seed)
        self._objects: dict[str, Stored] = {}
        self._late: list[Callable[[], object]] = []
        self._one_at_a_time = threading.RLock()

    # Methods for tests.

    def land(self) -> bool:
        """Let the oldest late write take place, under its condition; False if there is none."""
        with self._one_at_a_time:
            if not self._late:
                return False
            self._late.pop(0)()
            return True

    def names(self) -> list[str]:
        return sorted(self._objects)

    def content(self, name: str) -> bytes:
        return self._objects[name].data

    def put(self, name: str, data: bytes) -> None:
        """Write an object as another writer does."""
        self._objects[name] = Stored(data, self._now_ms())

    # The interface.

    def size(self, name: str) -> int:
        self._meets("size", name)
        return len(self._found(name).data)

    def tag(self, name: str) -> str:
        self._meets("tag", name)
        return self._found(name).tag

    def read(self, name: str, offset: int, size: int) -> bytes:
        fault = self._meets("read", name)
        data = self._found(name).data[offset : offset + size]
        return data[: self._dice.randrange(len(data))] if fault is Fault.CUT and data else data

    def create(self, name: str, data: Sequence[bytes]) -> Creation:
        whole = b"".join(data)
        with self._one_at_a_time:
            try:
                created = self._write("create", name, lambda: self._create(name, whole))
            except AccessDenied:
                raise
            except Unavailable:
                return Creation.UNKNOWN
            except ObjectChanged:
                return Creation.EXISTS
        return Creation.CREATED if created else Creation.EXISTS

    def replace(self, name: str, data: Sequence[bytes], tag: str | None) -> str:
        whole = b"".join(data)
        with self._one_at_a_time:
            return self._write("replace", name, lambda: self._replace(name, whole, tag))

    def upload(self, name: str, size: int, read: Callable[[int, int], bytes]) -> None:
        parts = []
        for offset in range(0, size, PART_BYTES):
            expected = min(PART_BYTES, size - offset)
            parts.append(read(offset, expected))
            if len(parts[-1]) != expected:
                raise ValueError(f"{name}: expected {expected} bytes, got {len(parts[-1])}")
        with self._one_at_a_time:
            self._write("upload", name, lambda: self.put(name, b"".join(parts)))

    def delete(self, name: str) -> None:
        with self._one_at_a_time:
            self._write("delete", name, lambda: self._objects.pop(name, None))

    def list(self, prefix: str) -> Iterator[ListedObject]:
        self._meets("list", prefix)
        assert not prefix or prefix.endswith("/")
        found = [name for name in self._objects if name.startswith(prefix)]
        self._dice.shuffle(found)
        for name in found:
            if (stored := self._objects.get(name)) is not None:
                yield ListedObject(name, len(stored.data), stored.modified_ms)

    # How it works.

    def _found(self, name: str) -> Stored:
        found = self._objects.get(name)
        if found is None:
            raise NoObject(f"object {name} does not exist")
        return found

    def _create(self, name: str, data: bytes) -> bool:
        if name in self._objects and self.keeps_conditions:
            return False
        self.put(name, data)
        return True

    def _replace(self, name: str, data: bytes, tag: str | None) -> str:
        found = self._objects.get(name)
        if tag is not None and self.keeps_conditions and (found is None or found.tag != tag):
            raise ObjectChanged(f"object {name} does not have tag {tag}")
        self.put(name, data)
        return self._objects[name].tag

    def _meets(self, operation: str, name: str) -> Fault | None:
        """Count an operation; raise what ends it before anything takes place."""
        self.log.append(f"{operation} {name}")
        fault = None if self.fault is None else self.fault(operation, name)
        if fault is Fault.SLOW:
            self.wait()
        elif fault is Fault.EXPIRED:
            raise AccessDenied(f"{operation} {name}: the credentials have expired")
        elif fault in (Fault.LOST, Fault.BUSY):
            raise Unavailable(f"{operation} {name}: {fault.value}")
        return fault

    def _write(self, operation: str, name: str, act: Callable[[], T]) -> T:
        """Let a write take place, or not, and answer, as the fault wants."""
        fault = self._meets(operation, name)
        no_answer = Unavailable(f"{operation} {name}: {fault.value if fault else ''}")
        match fault:
            case Fault.LATE:
                self._late.append(lambda: _ignoring_refusal(act))
                raise no_answer
            case Fault.LANDED:
                _ignoring_refusal(act)
                raise no_answer
            case Fault.ERROR:
                if self._dice.randrange(2):
                    _ignoring_refusal(act)
                raise no_answer
            case Fault.DOUBLED:
                _ignoring_refusal(act)
            case Fault.CONFLICT | Fault.PRECONDITION if operation in ("create", "replace"):
                is_taken = operation == "create" and name in self._objects
                if fault is Fault.PRECONDITION and not is_taken:
                    self.put(name, b"of another writer %d" % len(self.log))
                raise ObjectChanged(f"{operation} {name}: {fault.value}")
        return act()


def _ignoring_refusal(act: Callable[[], object]) -> None:
    """Act, and tell nobody if a condition did not hold."""
    with suppress(ObjectChanged):
        act()
