"""The interface of a store of objects: S3 and what is like it.

An object is bytes under a name, written as a whole.  Names are relative to the place that the
store was opened with, with `/` between parts; no part is empty, `.` or `..`, and where `a/b` is a
name, `a` is none, since some stores are directories.  One conformance suite
(`tests/storage/objects/test_conformance.py`) runs against every driver:

1. an object is visible whole or not at all, and what was written is read at once;
2. of several `create` of one name at most one is ever stored, also if none was reported;
3. `EXISTS` does not mean that the name is taken: read the object (`objects/creation.py`);
4. missing (`NoObject`) and unknown (`Unavailable`) are two answers: an object that cannot be read
   now is never reported as missing;
5. a call that failed with `Unavailable` may have taken place, or may take place later;
6. errors name the object and the place, and never contain credentials.

All calls block: make them in the threads of a `Worker`.  They may be made in several threads at
a time.  Each ends by itself, since drivers limit the time of a request.
"""

from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from typing import NamedTuple, Protocol


class Creation(Enum):
    """The answer to `Objects.create`."""

    CREATED = "created"
    """This call stored the object."""
    EXISTS = "exists"
    """The store refused: the name is taken, by an earlier attempt of the caller or by another
    object, or another write was in progress, which may fail.  Read the object to find out."""
    UNKNOWN = "unknown"
    """The object may be stored now or later."""


class ListedObject(NamedTuple):
    """An object in a listing."""

    name: str
    size: int
    modified_ms: int
    """The time at which it was written, by the clock of the store."""


class ReadableObjects(Protocol):
    """The part of a store of objects that reading a known object needs."""

    def size(self, name: str) -> int:
        """Return the size of an object; `NoObject` if it does not exist."""

    def read(self, name: str, offset: int, size: int) -> bytes:
        """Read up to `size` bytes at `offset`; `NoObject` if the object does not exist.

        Fewer are returned only at the end of the object, and none beyond it.
        """


class Objects(ReadableObjects, Protocol):
    """A store of objects.  Every method may raise `Unavailable`, of which `AccessDenied` is one."""

    def tag(self, name: str) -> str:
        """Return the tag of an object for `replace`; `NoObject` if it does not exist.

        A caller that reads the object asks for the tag before: then a change in between makes
        `replace` fail.  An object that is written again with equal bytes may keep its tag.
        """

    def create(self, name: str, data: Sequence[bytes]) -> Creation:
        """Store an object if the name is free.

        An outcome that is not known is `UNKNOWN` and raises nothing.  A request that the store
        refuses, such as one for a missing bucket, raises `Unavailable`, and one without
        permission `AccessDenied`: then nothing was stored.  A store that does not know the
        condition raises `ConditionsNotKept`.
        """

    def replace(self, name: str, data: Sequence[bytes], tag: str | None) -> str:
        """Write an object whose tag is `tag`, and return its new tag; else `ObjectChanged`.

        With None the object is written unconditionally.  After `Unavailable` the outcome is
        unknown: read the object.
        A store that does not know conditions raises `ConditionsNotKept`, and nothing is written.
        """

    def upload(self, name: str, size: int, read: Callable[[int, int], bytes]) -> None:
        """Write a large object of `size` bytes, replacing any object of that name.

        `read(offset, size)` returns the bytes; it is called in order, in the calling thread.
        An error that it raises ends the upload and is raised; a result that is too short raises
        `ValueError`.  Nothing is visible before everything is written.
        """

    def delete(self, name: str) -> None:
        """Delete an object; a missing object is not an error."""

    def list(self, prefix: str) -> Iterator[ListedObject]:
        """Iterate over the objects whose names begin with `prefix`, in no particular order.

        `prefix` ends with `/`, or is empty: then all objects of the place are listed.
        Objects that are written or deleted meanwhile may be missing or listed.  Each step may
        block, and raise like any other method.
        """
