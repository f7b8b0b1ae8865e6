"""The first frame of a connection: a CONNECT, which may name a process of the broker."""

from contextlib import suppress

from magnetar_broker.session.session import MAX_FRAME_BEFORE_CONNECT
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.commands import decode
from magnetar_proto.errors import BadCommand
from magnetar_proto.frames import SIZE, SMALLEST_TOTAL, FrameDecoder


class FirstFrame:
    """Collects one frame and no byte after it: read at most `lacks` bytes, and `add` them."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._size = 0  # the bytes of the frame; 0 until its length word has arrived

    @property
    def data(self) -> bytes:
        """The bytes that were added so far."""
        return bytes(self._data)

    @property
    def lacks(self) -> int:
        """The number of bytes to read next; 0 if the frame is complete, or its size is refused."""
        return (self._size or SIZE.size) - len(self._data)

    def add(self, data: bytes) -> None:
        """Append bytes that were read."""
        self._data += data
        if not self._size and len(self._data) == SIZE.size:
            total: int = SIZE.unpack(self._data)[0]
            fits = SMALLEST_TOTAL <= total <= MAX_FRAME_BEFORE_CONNECT - SIZE.size
            self._size = SIZE.size + total if fits else SIZE.size


def named_broker(frame: bytes) -> str:
    """Return the host and port that a CONNECT names in `proxy_to_broker_url`, without a scheme.

    Return "" if it names none, and for anything but a valid CONNECT, which a session refuses.
    """
    return _connect_of(frame).proxy_to_broker_url.rpartition("://")[2]


def _connect_of(frame: bytes) -> pb.CommandConnect:
    """Return the CONNECT of a frame; an empty one for any other frame."""
    frames = FrameDecoder(MAX_FRAME_BEFORE_CONNECT).feed(frame)
    if frames and frames[0][0] == pb.BaseCommand.CONNECT:
        _, buf, start, mid, _ = frames[0]
        with suppress(BadCommand):
            return decode(buf, start, mid).connect
    return pb.CommandConnect()
