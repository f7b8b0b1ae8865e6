"""What real clients sent to a real broker, recorded once (see `record`): the seeds of several
targets."""

from collections.abc import Iterator
from pathlib import Path

from magnetar_proto.frames import Frame, FrameDecoder

TRAFFIC = Path(__file__).parent / "traffic"
BIG_FRAME = 1 << 23


def streams() -> list[bytes]:
    """What each recorded connection sent."""
    return [path.read_bytes() for path in sorted(TRAFFIC.glob("*.bin"))]


def frames() -> Iterator[Frame]:
    """All frames that were sent."""
    for stream in streams():
        yield from FrameDecoder(BIG_FRAME).feed(stream)


def commands() -> list[bytes]:
    """Every different command."""
    return sorted({buf[start:mid] for _, buf, start, mid, _ in frames()})


def entries() -> list[bytes]:
    """Every different payload section."""
    return sorted({payload for *_, payload in frames() if payload})
