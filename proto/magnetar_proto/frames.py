"""Frames: cutting a byte stream into located commands.

    u32 total | u32 commandSize | BaseCommand | payload section (SEND and MESSAGE only)

All sizes are big-endian; `total` counts what follows it. The payload section is an entry,
see `entries`.
"""

from collections.abc import Sequence
from struct import Struct
from typing import Final, cast

from google.protobuf.message import DecodeError

from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.errors import BadCommand, BadFrame, FrameTooLarge, RemoteError

Frame = tuple[int, bytes, int, int, bytes]
"""(kind, buf, start, mid, payload): the command of type `kind` is buf[start:mid]; its payload
section is bytes of its own.  Unless `start` is 0, the whole frame is in `buf` too."""

FRAME_PADDING: Final = 10 * 1024
"""The bytes that a whole frame may have above the advertised maximum message size."""

SIZE: Final = Struct(">I")
SIZES: Final = Struct(">II")
FRAME_HEAD: Final = Struct(">IIBB")
"""The sizes, and the first two bytes of the command: nearly always its type."""
TYPE_TAG: Final = 0x08
# A command has at least a type of two bytes, after its own size.
SMALLEST_TOTAL: Final = SIZE.size + 2
TLS_HANDSHAKE: Final = 0x1603
"""The first two bytes that a client with TLS sends."""

LARGE: Final = 16 << 10
"""The payload section of a frame of at least this size is copied only once, from where it was
received, if the frame is whole in one read and only frames of such sizes precede it there."""
VIEW_FROM: Final = 4096
"""The start of a frame of at least this size is kept as a view of the read in which it arrived."""
MAX_PIECES: Final = 64
"""The most pieces of one frame; more are joined, so that tiny pieces take no extra memory."""


def encode_frame(command: bytes, payload: bytes = b"") -> bytes:
    """Encode a frame from an encoded BaseCommand and an optional payload section."""
    return SIZES.pack(4 + len(command) + len(payload), len(command)) + command + payload


def pieces_of(frames: Sequence[Frame]) -> list[bytes]:
    """Return the bytes of frames as they were received, in few pieces."""
    pieces: list[bytes] = []
    whole, begin, end = b"", 0, 0
    for _, buf, start, mid, payload in frames:
        # promise[without and start == end + SIZES.size]: only frames without others between them
        #   are neighbours
        if start and buf is whole and start == end + SIZES.size:
            end = mid + len(payload)
            continue
        if begin < end:
            pieces.append(whole[begin:end])
        if start:
            whole, begin, end = buf, start - SIZES.size, mid + len(payload)
        else:
            begin = end = 0
            pieces += (SIZES.pack(SIZE.size + mid + len(payload), mid) + buf[:mid], payload)
    if begin < end:
        pieces.append(whole[begin:end])
    return pieces


class FrameDecoder:
    """Cuts one connection's byte stream into frames.

    `max_frame` bounds a whole frame in bytes, length word included, and with it the memory held;
    it may be changed between feeds.
    """

    __slots__ = ("_have", "_need", "_pieces", "error", "max_frame")

    def __init__(self, max_frame: int) -> None:
        self.max_frame = max_frame
        self.error: RemoteError | None = None
        self._pieces: list[bytes | memoryview] = []  # of a frame that continues in the next feed
        self._have = 0  # bytes in the pieces
        self._need = 0  # size of that frame; 0 while unknown, for lack of its length word

    def feed(self, data: bytes | memoryview) -> list[Frame]:
        """Take received bytes; return the frames that they complete, in order.

        The memory of a view may be used again on return. On a malformed frame the good ones
        before it are returned and `error` is set: the caller handles the frames, then closes the
        connection; later input is ignored.
        """
        frames: list[Frame] = []
        if self.error is not None:
            return frames
        try:
            # First the frame that the last read began: what follows in `data` belongs after it.
            pos = self._complete(data, frames) if self._pieces else 0
            # Large entries are taken out of the buffer of the socket directly; everything else is
            # copied once, as a whole, of which frames are slices.
            if len(data) - pos >= LARGE:
                pos = self._scan_large(data, pos, frames)
            if isinstance(data, bytes):
                self._scan(data, pos, frames)
            elif pos < len(data):
                self._scan(bytes(data[pos:]), 0, frames)
        except RemoteError as error:
            self.error = error
        return frames

    @property
    def held(self) -> int:
        """The bytes of memory that the incomplete frame takes."""
        if not self._pieces:
            return 0
        first = self._pieces[0]
        if isinstance(first, memoryview):  # of a whole read
            return self._have - len(first) + len(cast(bytes, first.obj))
        return self._have

    def drop(self) -> None:
        """Forget the incomplete frame, and the error; nothing may be fed any more."""
        self._pieces.clear()
        self._have = self._need = 0
        self.error = None

    def _scan_large(self, data: bytes | memoryview, pos: int, frames: list[Frame]) -> int:
        """Append leading large frames that are whole; returns the offset of the next frame."""
        size = len(data)
        while size - pos >= LARGE:
            total, command, tag, kind = FRAME_HEAD.unpack_from(data, pos)
            mid, end = pos + 8 + command, pos + 4 + total
            # A malformed or rare frame is left to `_scan`.
            if total < LARGE or end > size or mid > end or command < 2 or not _usual(tag, kind):
                break
            self._checked_total(data, pos)
            command_bytes = bytes(data[pos + 8 : mid])
            frames.append((kind, command_bytes, 0, command, bytes(data[mid:end])))
            pos = end
        return pos

    def _scan(self, data: bytes, pos: int, frames: list[Frame]) -> None:
        """Append the whole frames of data[pos:] and keep the rest."""
        unpack = FRAME_HEAD.unpack_from
        append = frames.append
        largest = self.max_frame - SIZE.size
        size = len(data)
        last = size - FRAME_HEAD.size  # no frame begins after this position and ends in `data`
        while pos <= last:
            total, command, tag, kind = unpack(data, pos)
            if not SMALLEST_TOTAL <= total <= largest:
                raise self._bad_total(total)
            start = pos + 8
            end = pos + 4 + total
            if end > size:
                break
            mid = start + command
            if mid > end or command < 2:
                raise BadFrame(f"a command of {command} bytes in a frame of {total + 4}")
            if tag != TYPE_TAG or kind > 127:
                kind = _find_kind(data, start, mid)
            append((kind, data, start, mid, data[mid:end]))
            pos = end
        if pos < size:
            self._keep(data, pos)

    def _keep(self, data: bytes, pos: int) -> None:
        """Keep data[pos:], the start of a frame; refuse the frame by its length word."""
        self._have = len(data) - pos
        self._need = 0
        if self._have >= SIZE.size:
            self._need = SIZE.size + self._checked_total(data, pos)
        # A small start must not keep the whole read in memory until its frame is complete; of a
        # large one a second copy would cost more.
        self._pieces.append(data[pos:] if self._have < VIEW_FROM else memoryview(data)[pos:])

    def _complete(self, data: bytes | memoryview, frames: list[Frame]) -> int:
        """Add the missing bytes of the started frame from `data`; return the number taken."""
        # The last read ended within the length word: without it nobody knows how much to wait for.
        if not self._need:
            head = b"".join(self._pieces) + bytes(data[: SIZE.size])
            if len(head) < SIZE.size:
                self._pieces, self._have = [head], len(head)
                return len(data)
            self._need = SIZE.size + self._checked_total(head, 0)
        # Never more than the frame lacks: the next frame is cut from `data` itself.
        taken = min(self._need - self._have, len(data))
        self._have += taken
        if self._have < self._need:
            # A copy, since the memory of the read is used again.
            self._pieces.append(bytes(data[:taken]))
            if len(self._pieces) > MAX_PIECES:
                self._pieces = [b"".join(self._pieces)]
            return taken
        # Complete: what is kept from now on is the start of another frame.
        pieces, self._pieces = self._pieces, []
        # The last piece needs no copy, since the frame is joined before this returns.
        pieces.append(memoryview(data)[:taken])
        # A large entry is joined once, straight into its own bytes; a small frame as a whole.
        if self._need < LARGE or not _join_large(pieces, frames):
            self._scan(b"".join(pieces), 0, frames)
        return taken

    def _checked_total(self, data: bytes | memoryview, pos: int) -> int:
        total: int = SIZE.unpack_from(data, pos)[0]
        if not SMALLEST_TOTAL <= total <= self.max_frame - SIZE.size:
            raise self._bad_total(total)
        return total

    def _bad_total(self, total: int) -> BadFrame:
        if total < SMALLEST_TOTAL:
            return BadFrame(f"a frame of {total + 4} bytes cannot hold a command")
        # The usual mistake with ports: say so, instead of a size that means nothing.
        if total >> 16 == TLS_HANDSHAKE:
            return FrameTooLarge("TLS at a port without it: TLS has brokerServicePortTls")
        return FrameTooLarge(f"a frame of {total + 4} bytes, the limit is {self.max_frame}")


def _usual(tag: int, kind: int) -> bool:
    """Return whether a command with these first two bytes begins with its type."""
    return tag == TYPE_TAG and kind <= 127


def _join_large(pieces: list[bytes | memoryview], frames: list[Frame]) -> bool:
    """Append the frame made of the pieces; False if its command is rare, or not in the first."""
    first = pieces[0]
    if len(first) < FRAME_HEAD.size:
        return False
    _, command, tag, kind = FRAME_HEAD.unpack_from(first)
    mid = SIZES.size + command
    # Its command continues in the next piece, or is one that no known client sends.
    if mid > len(first) or command < 2 or not _usual(tag, kind):
        return False
    payload = b"".join((memoryview(first)[mid:], *pieces[1:]))
    frames.append((kind, bytes(first[SIZES.size : mid]), 0, command, payload))
    return True


def _find_kind(buf: bytes, start: int, mid: int) -> int:
    """Return the type of a command whose first field is another one; no known client sends such."""
    try:
        command = pb.BaseCommand.FromString(buf[start:mid])
    except DecodeError as error:
        raise BadCommand("expected a BaseCommand, received bytes that are not one") from error
    if not command.HasField("type"):
        raise BadCommand("received a command whose type is missing or unknown")
    return command.type
