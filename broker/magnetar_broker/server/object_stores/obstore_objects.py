"""`Objects` on obstore, by its calls that block."""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

import obstore
from obstore.exceptions import AlreadyExistsError, PreconditionError

from magnetar_broker.server.object_stores.answers import (
    explained,
    is_beyond_end,
    is_refused,
    knows_no_conditions,
)
from magnetar_broker.server.object_stores.places import Place
from magnetar_storage.errors import (
    AccessDenied,
    ConditionsNotKept,
    NoObject,
    ObjectChanged,
    StorageError,
    Unavailable,
)
from magnetar_storage.objects.interfaces import Creation, ListedObject

if TYPE_CHECKING:
    from obstore import ObjectMeta, PutMode
    from obstore.store import ObjectStore

PART_BYTES: Final = 8 << 20
"""The size of the parts of an upload; S3 permits 10,000 parts."""
PARTS_IN_FLIGHT: Final = 4
LIST_CHUNK: Final = 1000
"""The objects of one answer to a listing of S3."""


class ObstoreObjects:
    """The objects of a place; threads may share it."""

    def __init__(
        self,
        place: Place,
        store: "ObjectStore",
        once: "ObjectStore",
        check: Callable[[], None] | None = None,
        settle: Callable[[str], None] | None = None,
    ) -> None:
        """Use `store`, which repeats failed requests, and for conditional writes `once`.

        `once` repeats nothing: the answer to a repetition would say that the object exists, or
        that access is denied, although the first request has written it.  `check` is called
        before each write, and refuses it with `Unavailable`; `settle` is called with the name of
        an object that was written, to make it durable.
        """
        self._place = place
        self._store = store
        self._once = once
        self._check = check
        self._settle = settle

    def __repr__(self) -> str:
        return f"ObstoreObjects({self._place.text})"

    def size(self, name: str) -> int:
        return self._head(name)["size"]

    def tag(self, name: str) -> str:
        found = self._head(name)
        return self._tag_of(name, found["e_tag"], found["version"])

    def read(self, name: str, offset: int, size: int) -> bytes:
        if size <= 0:
            return b""
        try:
            return bytes(obstore.get_range(self._store, name, start=offset, length=size))
        except Exception as error:
            if is_beyond_end(error):
                return b""
            raise self._explained(error, f"read object {name}") from None

    def create(self, name: str, data: Sequence[bytes]) -> Creation:
        self._may_write()
        try:
            obstore.put(self._once, name, b"".join(data), mode="create", use_multipart=False)
            self._written(name)
        except (AlreadyExistsError, PreconditionError):
            return Creation.EXISTS  # of S3's 409, too: nothing was stored then
        except Exception as error:
            if knows_no_conditions(error):
                raise self._not_kept("create an object only if its name is free") from None
            reported = self._explained(error, f"create object {name}")
            # promise[isinstance(reported, AccessDenied) or -> False and]: who creates an object is
            #   told what an operator must correct
            if isinstance(reported, AccessDenied) or is_refused(error, self._place):
                raise reported from None
            # Whoever reads the object next is told why it cannot be reached, if so.
            return Creation.UNKNOWN
        return Creation.CREATED

    def replace(self, name: str, data: Sequence[bytes], tag: str | None) -> str:
        self._may_write()
        mode: PutMode = "overwrite" if tag is None else _expected(tag)
        try:
            written = obstore.put(self._once, name, b"".join(data), mode=mode, use_multipart=False)
            self._written(name)
        except (AlreadyExistsError, PreconditionError):
            raise ObjectChanged(
                f"{self._place.text}: object {name} was not replaced: it has changed, or another"
                " write is in progress"
            ) from None
        except Exception as error:
            if tag is not None and knows_no_conditions(error):
                raise self._not_kept("replace an object by its tag") from None
            raise self._explained(error, f"replace object {name}") from None
        return self._tag_of(name, written["e_tag"], written["version"])

    def upload(self, name: str, size: int, read: Callable[[int, int], bytes]) -> None:
        """Write a large object; see `Objects.upload`.

        Parts of an upload that did not end, because the process was killed, stay in a bucket,
        invisible and paid for, until a rule of the bucket for incomplete uploads removes them.
        """
        self._may_write()
        failures: list[BaseException] = []

        def parts() -> Iterator[bytes]:
            for offset in range(0, size, PART_BYTES):
                try:
                    data = _exactly(read, offset, min(PART_BYTES, size - offset))
                except BaseException as error:
                    failures.append(error)
                    raise
                yield data

        is_large = size > PART_BYTES
        try:
            obstore.put(
                self._store,
                name,
                parts() if is_large else b"".join(parts()),
                use_multipart=is_large,
                chunk_size=PART_BYTES,
                max_concurrency=PARTS_IN_FLIGHT,
            )
            self._written(name)
        except BaseException as error:
            # If giving up the upload fails as well, obstore reports only that.
            if failures:  # promise: an error of the callback is raised, not hidden by the upload
                raise failures[0] from None
            if not isinstance(error, Exception):
                raise
            raise self._explained(error, f"upload object {name}") from None

    def delete(self, name: str) -> None:
        try:
            obstore.delete(self._store, name)
        except Exception as error:
            reported = self._explained(error, f"delete object {name}")
            if not isinstance(reported, NoObject):
                raise reported from None

    def list(self, prefix: str) -> Iterator[ListedObject]:
        assert not prefix or prefix.endswith("/"), prefix
        try:
            for chunk in obstore.list(self._store, prefix or None, chunk_size=LIST_CHUNK):
                for found in chunk:
                    modified_ms = int(found["last_modified"].timestamp() * 1000)
                    yield ListedObject(found["path"], found["size"], modified_ms)
        except Exception as error:
            raise self._explained(error, f"list objects under {prefix or 'the place'}") from None

    def _head(self, name: str) -> "ObjectMeta":
        for _ in range(2):
            try:
                return obstore.head(self._store, name)
            except FileNotFoundError:
                # An answer to HEAD has no body, and does not tell a missing object from a missing
                # bucket: the answer to a read does.
                self.read(name, 0, 1)
            except Exception as error:
                raise self._explained(error, f"look at object {name}") from None
        raise Unavailable(f"{self._place.text}: object {name} is being written: try again")

    def _tag_of(self, name: str, e_tag: str | None, version: str | None) -> str:
        # Google replaces by the version (the generation), the others by the tag.
        if self._place.scheme == "gs":
            e_tag = None
        elif e_tag is not None:
            version = None
        if e_tag is None and version is None:
            raise ConditionsNotKept(f"{self._place.text}: object {name} has no tag")
        return f"tag {e_tag}" if version is None else f"version {version}"

    def _not_kept(self, what: str) -> ConditionsNotKept:
        return ConditionsNotKept(f"{self._place.text}: this kind of store cannot {what}")

    def _may_write(self) -> None:
        if self._check is not None:
            self._check()

    def _written(self, name: str) -> None:
        if self._settle is not None:
            self._settle(name)

    def _explained(self, error: Exception, what: str) -> StorageError:
        return explained(error, what, self._place)


def _expected(tag: str) -> "PutMode":
    kind, _, value = tag.partition(" ")
    return {"e_tag": value} if kind == "tag" else {"version": value}


def _exactly(read: Callable[[int, int], bytes], offset: int, size: int) -> bytes:
    data = read(offset, size)
    if len(data) != size:
        raise ValueError(f"expected {size} bytes at byte {offset}, got {len(data)}")
    return data
