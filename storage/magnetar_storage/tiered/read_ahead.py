"""Reads of objects with read-ahead: a request costs more than its bytes.

Sequential reads fetch pieces of growing size; a random read fetches little more than it needs.
The pieces that were read last are kept, up to a limit of bytes.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from magnetar_storage.errors import NoObject, Unavailable
from magnetar_storage.objects.interfaces import ReadableObjects

FIRST_BYTES: Final = 128 << 10
"""The size of the first request of a sequential read."""
MOST_BYTES: Final = 4 << 20
"""The size up to which the reads of one reader grow."""
WHOLE_BYTES: Final = 1 << 20
"""The size up to which an object is read as a whole when it is opened."""
END_BYTES: Final = 256 << 10
"""The bytes at the end of a larger object that are read when it is opened: the trailer and, of most
segments, the index."""
GROWTH: Final = 4
"""The factor by which each read in order is larger than the one before."""


class _Piece(NamedTuple):
    """A part of an object; the next read in order begins at `end`."""

    name: str
    start: int
    data: bytes
    asked: int
    """The bytes requested; the object may have ended before."""

    @property
    def end(self) -> int:
        return self.start + len(self.data)


class Place(Protocol):
    """A store of objects."""

    @property
    def text(self) -> str:
        """The name of the store, for errors."""

    def objects(self) -> ReadableObjects:
        """Return the store; called for each request."""


class ReadAhead:
    """Reads objects, of which no two have the same name; used in one thread."""

    def __init__(self, limit: Callable[[], int]) -> None:
        """Keep pieces of at most `limit()` bytes together."""
        self._limit = limit
        self.kept_bytes = 0
        """The bytes of the pieces in memory."""
        self.read_bytes = self.read_errors = 0
        """The bytes of all answers, and the requests that failed."""
        # By name and end, because that is where a reader in order continues.  The oldest is first.
        self._pieces: OrderedDict[tuple[str, int], _Piece] = OrderedDict()

    def of(self, place: Place) -> "PlaceReads":
        """Return the reads of one place."""
        return PlaceReads(self, place)

    def exceeds_limit(self) -> bool:
        """Return whether `trim` would drop anything; called in any thread."""
        return self.kept_bytes > self._limit() and len(self._pieces) > 1

    def trim(self) -> None:
        """Drop the oldest pieces until the others keep within the limit."""
        # The newest one stays, even if it is larger than the limit: it is about to be read.
        while self.exceeds_limit():
            self._drop(next(iter(self._pieces)))

    def read(self, place: Place, name: str, offset: int, size: int) -> bytes:
        """Read as `PlaceReads` does."""
        piece = self._containing(name, offset, size)
        if piece is None:
            piece = self._fetched(place, name, offset, size)
        start = offset - piece.start
        return piece.data[start : start + size]

    def open(self, place: Place, name: str, size: int) -> None:
        """Read a small object of `size` bytes as a whole, and of a larger one the end, ahead."""
        start = 0 if size <= WHOLE_BYTES else size - END_BYTES
        if self._containing(name, start, size - start) is None:
            data = self._answer(place, name, start, size - start)
            self._keep(_Piece(name, start, data, size - start))

    def _containing(self, name: str, offset: int, size: int) -> _Piece | None:
        for key, piece in reversed(self._pieces.items()):
            is_within = piece.start <= offset and offset + size <= piece.end
            if key[0] == name and is_within:
                self._pieces.move_to_end(key)
                return piece
        return None

    def _fetched(self, place: Place, name: str, offset: int, size: int) -> _Piece:
        """Read a piece that begins with these bytes, and keep it."""
        before = self._before(name, offset)
        ahead = FIRST_BYTES if before is None else min(before.asked * GROWTH, MOST_BYTES)
        asked = max(size, ahead)
        # The rest of the piece before is not requested again.
        kept = b"" if before is None else before.data[offset - before.start :]
        data = kept + self._answer(place, name, offset + len(kept), asked - len(kept))
        piece = _Piece(name, offset, data, asked)
        if before is not None:
            self._drop((name, before.end))
        self._keep(piece)
        return piece

    def _answer(self, place: Place, name: str, offset: int, size: int) -> bytes:
        """Return the answer to one request."""
        try:
            answer = place.objects().read(name, offset, size)
        except NoObject as error:
            self.read_errors += 1
            raise _missing(place, name) from error
        except Unavailable:
            self.read_errors += 1
            raise
        self.read_bytes += len(answer)
        return answer

    def _before(self, name: str, offset: int) -> _Piece | None:
        """Return the piece that a reader has reached the end of; None if there is none."""
        for piece in reversed(self._pieces.values()):
            if piece.name == name and piece.start < offset <= piece.end:
                return piece
        return None

    def _keep(self, piece: _Piece) -> None:
        key = (piece.name, piece.end)
        if key in self._pieces:
            self._drop(key)
        self._pieces[key] = piece
        self.kept_bytes += len(piece.data)
        self.trim()

    def _drop(self, key: tuple[str, int]) -> None:
        self.kept_bytes -= len(self._pieces.pop(key).data)


class PlaceReads:
    """The objects of one place as a `ReadAhead` reads them."""

    __slots__ = ("_ahead", "_place")

    def __init__(self, ahead: ReadAhead, place: Place) -> None:
        self._ahead = ahead
        self._place = place

    def size(self, name: str) -> int:
        """Return the size of an object."""
        try:
            return self._place.objects().size(name)
        except NoObject as error:
            raise _missing(self._place, name) from error

    def read(self, name: str, offset: int, size: int) -> bytes:
        """Read up to `size` bytes; fewer only at the end of the object.

        `Unavailable` if the object is missing: the place may be a wrong one, and what is listed
        there must not be given up for that.
        """
        return self._ahead.read(self._place, name, offset, size)


def _missing(place: Place, name: str) -> Unavailable:
    return Unavailable(
        f"object {name} is missing in {place.text}: check that the place is the right one, "
        "and put the object back from a copy of it"
    )
