"""SQLite's log: rot in it is distinguished from the torn end after a crash."""

import shutil
from pathlib import Path

import pytest

from fakes.world import InlineWorker, ManualClock, run
from magnetar_storage.errors import Corrupt
from magnetar_storage.metadata.database import Database
from magnetar_storage.metadata.sqlite import SqliteMetadata
from magnetar_storage.metadata.sqlite_wal import FRAME, HEADER, damaged_frame
from magnetar_storage.metadata.writes import Put
from magnetar_storage.runtime.disk import LocalDisk

FRAME_BYTES = FRAME.size + 4096
WRITES = 8


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    """Create a database whose process died: its writes are in the log."""
    (tmp_path / "live").mkdir()
    database = Database(str(tmp_path / "live" / "metadata.db"))
    for number in range(WRITES):
        database.write([Put(f"/{number}", b"value", None, None)])
    shutil.copytree(tmp_path / "live", tmp_path / "killed")
    database.close()
    return tmp_path / "killed"


def log_of(directory: Path) -> bytes:
    return (directory / "metadata.db-wal").read_bytes()


def frames(log: bytes) -> list[int]:
    return list(range(HEADER.size, len(log), FRAME_BYTES))


def keys(directory: Path) -> list[str]:
    clock = ManualClock()
    opening = SqliteMetadata.open(LocalDisk(str(directory)), InlineWorker(clock), clock)
    store = run(opening, clock)
    found = run(store.list("/"), clock)
    run(store.close(), clock)
    return found


def test_an_intact_log_is_used(killed: Path) -> None:
    assert damaged_frame(log_of(killed)) is None
    assert keys(killed) == [f"/{number}" for number in range(WRITES)]


@pytest.mark.parametrize("at", [0, 5, 8, 13, 16, 23, 24, 1000, FRAME_BYTES - 1])
def test_rot_in_front_of_later_commits_is_refused(killed: Path, at: int) -> None:
    log = log_of(killed)
    commits = [place for place in frames(log) if FRAME.unpack_from(log, place)[1]]
    early = [place for place in frames(log) if place < commits[-3]]
    assert len(early) > 10
    for place in early:
        rotten = bytearray(log)
        rotten[place + at] ^= 0x20
        assert damaged_frame(bytes(rotten)) == place
    (killed / "metadata.db-wal").write_bytes(rotten)
    with pytest.raises(Corrupt, match="restore the database") as refused:
        keys(killed)
    assert (refused.value.file, refused.value.offset) == ("metadata.db-wal", early[-1])


def test_the_torn_end_of_a_crash_is_not_refused(killed: Path) -> None:
    log = log_of(killed)
    before = [place for place in frames(log) if FRAME.unpack_from(log, place)[1]][-2]
    last = [place for place in frames(log) if place > before]
    assert len(last) >= 2
    stale = log[HEADER.size : HEADER.size + FRAME_BYTES]
    for size in range(last[0], len(log), 97):
        assert damaged_frame(log[:size]) is None
        assert damaged_frame(log[:size] + bytes(len(log) - size)) is None
        assert damaged_frame(log[:size] + (stale * len(last))[: len(log) - size]) is None
    for place in last:
        missing = log[:place] + bytes(FRAME_BYTES) + log[place + FRAME_BYTES :]
        assert damaged_frame(missing) is None
    (killed / "metadata.db-wal").write_bytes(log[: last[-1]])
    assert keys(killed) == [f"/{number}" for number in range(WRITES - 1)]


def test_what_is_no_log_is_left_to_sqlite() -> None:
    assert damaged_frame(b"") is None
    assert damaged_frame(b"x" * 5000) is None
