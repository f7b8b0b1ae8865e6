"""A large segment that was open at a kill is read, by its index file or without."""

from collections.abc import Callable
from pathlib import Path

import pytest
import uvloop

from crash import big
from running_broker import RunningBroker

WANTED_BYTES = 200_000_000
"""Of these so many are in the segment's file, by checkpoints, that there is an index file: no more
than `unwritten_bytes` wait in memory, however slow the disk is."""


def left_alone(path: Path) -> None:
    """The index file is as the kill left it."""


def damaged(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("happens", [left_alone, damaged, Path.unlink])
def test_all_of_an_open_segment_is_delivered_after_a_kill(
    happens: Callable[[Path], None],
    make_broker: Callable[..., RunningBroker],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(big, "LOAD_SECONDS", 0.1)
    broker = make_broker(magnetarCheckpointSizeMB="4")
    frames = big.encode_ring(*big.SHAPES["large"])
    filler = big.Filler("persistent://public/default/open", frames, 50)
    uvloop.run(big.fill(broker, [filler], len(frames[0]), WANTED_BYTES))
    (index,) = (broker.data_dir / "segments").glob("*.idx")
    happens(index)
    broker.start()
    _, problems = uvloop.run(big.compare(broker, [filler]))
    assert not problems
    broker.stop()
    assert not index.exists(), "the segment is finished, and has its index itself"
