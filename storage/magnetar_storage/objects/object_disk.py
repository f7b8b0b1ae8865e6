"""Files of a disk that are in a store of objects: for reading finished segments."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, NoReturn

from magnetar_storage.errors import Corrupt, NoObject, NoSegment, Unavailable
from magnetar_storage.objects.interfaces import ReadableObjects


class StoredFile(NamedTuple):
    """A file as an object."""

    name: str
    """The name of the object."""
    size: int
    """The size of the object, which is known: asking the store would cost a request a read."""


class ObjectDisk:
    """The `ReadableDisk` of files that do not change; `files` has them by their name.

    The owner may change `files` at any time; each call looks its file up once.
    """

    def __init__(self, objects: ReadableObjects, files: Mapping[str, StoredFile]) -> None:
        self._objects = objects
        self._files = files

    def open(self, name: str) -> "ObjectFile":
        """Open a file without a request; whether the object exists is seen by `read`."""
        found = self._files.get(name)
        if found is None:
            raise FileNotFoundError(name)
        return ObjectFile(self._objects, name, found)

    def list(self, directory: str) -> list[str]:
        prefix = f"{directory}/" if directory else ""
        # A copy: the calls are made in threads, and the owner changes the files.
        inside = [name for name in tuple(self._files) if name.startswith(prefix)]
        return sorted({name.removeprefix(prefix).partition("/")[0] for name in inside})

    def sizes(self, directory: str) -> dict[str, int]:
        prefix = f"{directory}/" if directory else ""
        return {
            name.removeprefix(prefix): file.size
            for name, file in tuple(self._files.items())
            if name.startswith(prefix) and "/" not in name.removeprefix(prefix)
        }

    def lock(self, name: str) -> "_NoLock":
        """Return a lock that excludes no one: files that do not change need none."""
        return _NoLock()

    def path_of(self, name: str) -> str:
        """Return the name of the object; no other library can open it by that."""
        found = self._files.get(name)
        return name if found is None else found.name


class ObjectFile:
    """A `File` that is read by parts of its object, and cannot be written."""

    def __init__(self, objects: ReadableObjects, name: str, stored: StoredFile) -> None:
        self._objects = objects
        self._name = name
        self._stored = stored

    def read(self, offset: int, size: int) -> bytes:
        """Read up to `size` bytes; fewer only at the end of the file.

        `NoSegment` if the object is missing, `Corrupt` if it does not have the size of the file.
        """
        expected = min(size, self._stored.size - offset)
        if expected <= 0:
            return b""
        try:
            data = self._objects.read(self._stored.name, offset, expected)
            if len(data) != expected:
                self._refuse(offset, len(data), expected)
        except NoObject as error:
            raise NoSegment(f"{self._name}: {error}") from error
        return data

    def _refuse(self, offset: int, got: int, expected: int) -> NoReturn:
        """Raise the error for a read of a wrong size: the object is damaged, or the answer."""
        stored = self._objects.size(self._stored.name)
        # promise: an answer that was cut off is not taken for a damaged object
        if stored == self._stored.size:
            raise Unavailable(
                f"the store of objects answered {got} bytes of {self._stored.name}"
                f" at byte {offset}: expected {expected}"
            )
        raise Corrupt(
            self._name,
            min(offset + got, stored),
            f"object {self._stored.name} has {stored} bytes: expected {self._stored.size}",
        )

    def size(self) -> int:
        return self._stored.size

    def close(self) -> None:
        """Do nothing: nothing is open between two reads."""

    def write(self, offset: int, buffers: Sequence[bytes]) -> None:
        self._refuse_writing()

    def write_uncached(self, offset: int, buffers: Sequence[bytes]) -> None:
        self._refuse_writing()

    def write_through(self, offset: int, buffers: Sequence[bytes]) -> None:
        self._refuse_writing()

    def sync(self) -> None:
        """Do nothing: an object is durable since it was written."""

    def truncate(self, size: int) -> None:
        self._refuse_writing()

    def allocate(self, size: int) -> None:
        self._refuse_writing()

    def _refuse_writing(self) -> NoReturn:
        raise Unavailable(f"{self._name} is in a store of objects and cannot be written")


class _NoLock:
    """A lock that nobody has to wait for."""

    def close(self) -> None:
        """Do nothing: no lock is held."""
