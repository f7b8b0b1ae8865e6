"""Writes past the system's cache: in pieces, and where they are refused through the cache."""

import errno
import fcntl
import os
import random
from contextlib import nullcontext
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples, seeds
from magnetar_storage.errors import DiskFull, Unavailable
from magnetar_storage.runtime.disk import LocalDisk
from magnetar_storage.runtime.local_file import LocalFile
from magnetar_storage.runtime.native_file import (
    ALIGNMENT,
    DIRECT_FROM_BYTES,
    NATIVE_FILE,
    PIECE_BYTES,
    LinuxFile,
)
from magnetar_storage.runtime.pieces import Source, cut

DIRECT = getattr(os, "O_DIRECT", 0)
LARGE = os.urandom(PIECE_BYTES + DIRECT_FROM_BYTES)

linux_only = pytest.mark.skipif(NATIVE_FILE is not LinuxFile, reason="O_DIRECT is Linux's")


@settings(max_examples=examples(300))
@given(st.integers(0, 200), st.integers(0, 500), st.sampled_from([1, 8, 64]), st.integers(1, 4))
def test_pieces_cover_a_write_and_only_the_ends_are_not_aligned(
    offset: int, size: int, alignment: int, pieces: int
) -> None:
    found = list(cut(offset, size, alignment, alignment * pieces))
    at = offset
    for piece in found:
        assert piece.at == at
        assert 0 < piece.size <= alignment * pieces
        assert not piece.aligned or piece.at % alignment == piece.size % alignment == 0
        at += piece.size
    assert at == offset + size
    unaligned = [piece for piece in found if not piece.aligned]
    assert all(piece in (found[0], found[-1]) for piece in unaligned)
    assert sum(piece.size for piece in unaligned) < 2 * alignment


@settings(max_examples=examples(200))
@given(st.lists(st.binary(max_size=40)), st.randoms())
def test_a_source_has_all_bytes_in_order(buffers: list[bytes], dice: random.Random) -> None:
    large = [buffer * (1 if dice.random() < 0.5 else 300) for buffer in buffers]
    whole, source, copied = b"".join(large), Source(large), b""
    while len(copied) < len(whole):
        room = bytearray(dice.randint(0, min(5000, len(whole) - len(copied))))
        source.copy(memoryview(room))
        copied += room
    assert copied == whole


@pytest.mark.parametrize("files", [NATIVE_FILE, LocalFile], ids=["native", "portable"])
@pytest.mark.parametrize("seed", seeds(8))
def test_readers_see_what_was_written_last(
    tmp_path: Path, files: type[LocalFile], seed: int
) -> None:
    """Whichever way: what the cache has of the file is never older than the file."""
    dice = random.Random(seed)
    disk = LocalDisk(str(tmp_path), files=files)
    file, reader = disk.open("f", create=True), disk.open("f")
    whole = bytearray()
    for _ in range(20):
        size = dice.choice((100, DIRECT_FROM_BYTES, 300_000, 2_500_000))
        parts = dice.choice((1, 7, 3000))
        offset = dice.randint(0, len(whole))
        buffers = [dice.randbytes(max(1, size // parts)) for _ in range(parts)]
        (file.write if dice.random() < 0.3 else file.write_uncached)(offset, buffers)
        data = b"".join(buffers)
        whole[offset : offset + len(data)] = data
        if dice.random() < 0.3:
            file.sync()
        at = dice.randint(0, len(whole))
        assert reader.read(at, 400_000) == whole[at : at + 400_000]
    assert reader.read(0, len(whole) + 1) == whole
    assert file.size() == len(whole)
    file.close()
    reader.close()


class DirectWrites:
    """The direct writes of all files: they are checked, counted, and refused if wanted."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        self.refusal: int | None = None
        self.at_most: int | None = None
        """More bytes than that are not written at once."""
        self._pwrite = os.pwrite
        monkeypatch.setattr(os, "pwrite", self._write)

    def _write(self, fd: int, data: memoryview, at: int) -> int:
        if not fcntl.fcntl(fd, fcntl.F_GETFL) & DIRECT:
            return self._pwrite(fd, data, at)
        self.count += 1
        assert at % ALIGNMENT == len(data) % ALIGNMENT == 0
        if self.refusal is not None:
            raise OSError(self.refusal, os.strerror(self.refusal))
        return self._pwrite(fd, data[: self.at_most], at)


@pytest.fixture
def direct(monkeypatch: pytest.MonkeyPatch) -> DirectWrites:
    return DirectWrites(monkeypatch)


@linux_only
@pytest.mark.parametrize("refusal", [None, errno.EIO, errno.EINVAL])
def test_behind_an_aligned_direct_write_the_cache_is_used_again(
    tmp_path: Path, direct: DirectWrites, refusal: int | None
) -> None:
    file = LocalDisk(str(tmp_path), files=LinuxFile).open("f", create=True)
    file.write(0, [b"old"])
    direct.refusal = refusal
    with pytest.raises(Unavailable) if refusal == errno.EIO else nullcontext():
        file.write_uncached(0, [bytes(2 * PIECE_BYTES)])
    assert direct.count >= 1
    assert not fcntl.fcntl(file.fileno(), fcntl.F_GETFL) & DIRECT
    file.write(1, [b"new"])
    assert file.read(1, 3) == b"new"
    file.close()


@linux_only
def test_large_writes_go_past_the_cache(tmp_path: Path, direct: DirectWrites) -> None:
    file = LocalDisk(str(tmp_path), files=LinuxFile).open("f", create=True)
    file.write_uncached(1, [LARGE])
    assert direct.count == 2, "two pieces; the ends go through the cache"
    file.write_uncached(1 + len(LARGE), [b"x" * (DIRECT_FROM_BYTES - 1)])
    file.write(0, [LARGE])
    assert direct.count == 2
    assert not fcntl.fcntl(file.fileno(), fcntl.F_GETFL) & DIRECT, "reads go through the cache"
    file.close()


@linux_only
def test_a_large_synced_write_is_durable_on_return(
    tmp_path: Path, direct: DirectWrites, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = LocalDisk(str(tmp_path), files=LinuxFile).open("f", create=True)
    written_before_sync: list[bytes] = []
    sync = os.fdatasync

    def syncing(fd: int) -> None:
        written_before_sync.append(file.read(0, 1 << 30))
        sync(fd)

    monkeypatch.setattr(os, "fdatasync", syncing)
    file.write_through(1, [LARGE])
    assert direct.count == 2
    assert written_before_sync == [b"\0" + LARGE]
    file.close()


@linux_only
def test_without_durability_writes_go_through_the_cache(
    tmp_path: Path, direct: DirectWrites
) -> None:
    file = LocalDisk(str(tmp_path), durable=False, files=LinuxFile).open("f", create=True)
    file.write_uncached(0, [LARGE])
    assert direct.count == 0
    assert file.read(0, len(LARGE)) == LARGE
    file.close()


@linux_only
def test_a_file_system_without_direct_writes_is_asked_once(
    tmp_path: Path, direct: DirectWrites
) -> None:
    file = LocalDisk(str(tmp_path), files=LinuxFile).open("f", create=True)
    direct.refusal = errno.EINVAL
    file.write_uncached(5, [LARGE, LARGE])
    file.write_uncached(5 + 2 * len(LARGE), [LARGE])
    assert direct.count == 1
    assert file.read(5, 3 * len(LARGE)) == LARGE * 3
    file.close()


@linux_only
def test_a_file_system_may_refuse_the_flag_itself(
    tmp_path: Path, direct: DirectWrites, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = LocalDisk(str(tmp_path), files=LinuxFile).open("f", create=True)
    plain = fcntl.fcntl

    def refusing(fd: int, command: int, flags: int = 0) -> int:
        if command == fcntl.F_SETFL and flags & DIRECT:
            raise OSError(errno.EINVAL, "no such flag here")
        return plain(fd, command, flags)

    monkeypatch.setattr(fcntl, "fcntl", refusing)
    file.write_uncached(0, [LARGE])
    assert (direct.count, file.read(0, len(LARGE))) == (0, LARGE)
    file.close()


@linux_only
def test_a_python_without_the_flag_writes_through_the_cache(
    tmp_path: Path, direct: DirectWrites, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "O_DIRECT")
    file = LocalDisk(str(tmp_path), files=LinuxFile).open("f", create=True)
    file.write_uncached(0, [LARGE])
    assert (direct.count, file.read(0, len(LARGE))) == (0, LARGE)
    file.close()


@linux_only
@pytest.mark.parametrize("cut_at", [ALIGNMENT, 1000])
def test_a_direct_write_that_is_cut_short_is_continued(
    tmp_path: Path, direct: DirectWrites, cut_at: int
) -> None:
    file = LocalDisk(str(tmp_path), files=LinuxFile).open("f", create=True)
    direct.at_most = ALIGNMENT
    file.write_uncached(cut_at, [LARGE])
    assert file.read(cut_at, len(LARGE) + 1) == LARGE
    file.close()


@linux_only
@pytest.mark.parametrize(("code", "raised"), [(errno.ENOSPC, DiskFull), (errno.EIO, Unavailable)])
def test_a_direct_write_that_fails_is_not_tried_another_way(
    tmp_path: Path, direct: DirectWrites, code: int, raised: type[Exception]
) -> None:
    file = LocalDisk(str(tmp_path), files=LinuxFile).open("f", create=True)
    direct.refusal = code
    with pytest.raises(raised, match="write"):
        file.write_uncached(0, [LARGE])
    assert (direct.count, file.size()) == (1, 0)
    direct.refusal = None
    file.write_uncached(0, [LARGE])
    assert file.read(0, len(LARGE)) == LARGE
    file.close()
