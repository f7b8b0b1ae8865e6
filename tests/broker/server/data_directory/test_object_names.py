"""The prefix of objects: a copy of a data directory never has that of the original."""

import asyncio
import shutil
from pathlib import Path

import pytest

from broker.server.data_directory.test_local_storage import runtime, storage_in
from magnetar_broker.base.metadata_keys import OBJECTS
from magnetar_broker.server.data_directory.object_names import COPIED
from magnetar_broker.server.data_directory.rebuilding import as_text, rebuild
from magnetar_broker.server.data_directory.snapshots.files import MANIFEST
from magnetar_broker.server.data_directory.snapshots.restoring import restored
from magnetar_storage.errors import Corrupt


async def prefix_in(data: Path) -> str:
    """Return the prefix of the names of new objects, after a start."""
    async with runtime() as process, storage_in(data).open(process) as opened:
        return opened.engine.copies.new_name(1).partition("/")[0]


async def test_a_data_directory_keeps_its_prefix(tmp_path: Path) -> None:
    first = await prefix_in(tmp_path)
    assert len(first) == 32
    assert await prefix_in(tmp_path) == first


async def as_snapshot(data: Path) -> str:
    """Make a data directory, stopped, look like a snapshot; return its prefix."""
    prefix = await prefix_in(data)
    fields = ("created_ms", "files", "bytes", "copied_bytes")
    numbers = "".join(f', "{field}": 0' for field in fields)
    (data / MANIFEST).write_text(f'{{"name": "one", "version": ""{numbers}}}')
    return prefix


async def test_each_restored_directory_has_a_prefix_of_its_own(tmp_path: Path) -> None:
    snapshot = tmp_path / "snapshot"
    prefixes = [await as_snapshot(snapshot)]
    for name in ("first", "second"):
        restored(str(snapshot), str(tmp_path / name))
        assert (tmp_path / name / COPIED).exists()
        prefixes.append(await prefix_in(tmp_path / name))
        assert not (tmp_path / name / COPIED).exists()
        assert await prefix_in(tmp_path / name) == prefixes[-1]
    assert len(set(prefixes)) == 3


async def test_a_directory_that_replaces_the_original_has_its_prefix(tmp_path: Path) -> None:
    prefix = await as_snapshot(tmp_path / "snapshot")
    restored(str(tmp_path / "snapshot"), str(tmp_path / "data"), replaces_original=True)
    assert await prefix_in(tmp_path / "data") == prefix


async def test_a_snapshot_that_a_broker_starts_on_gets_another_prefix(tmp_path: Path) -> None:
    prefix = await as_snapshot(tmp_path)
    assert (found := await prefix_in(tmp_path)) != prefix
    assert await prefix_in(tmp_path) == found


async def test_a_copy_of_a_copy_has_another_prefix_again(tmp_path: Path) -> None:
    prefixes = {await prefix_in(tmp_path / "0")}
    for number in range(2):
        shutil.copytree(tmp_path / str(number), tmp_path / str(number + 1))
        (tmp_path / str(number + 1) / COPIED).touch()
        prefixes.add(await prefix_in(tmp_path / str(number + 1)))
    assert len(prefixes) == 3


async def test_rebuilt_metadata_has_another_prefix(tmp_path: Path) -> None:
    prefix = await prefix_in(tmp_path)
    for path in tmp_path.glob("metadata.d*"):
        path.unlink()
    result = await asyncio.to_thread(rebuild, str(tmp_path), apply=True, progress=lambda _: None)
    assert "only in a store of objects are not listed again" in as_text(result)
    assert await prefix_in(tmp_path) != prefix


@pytest.mark.parametrize("value", [b"[]", b"{}", b"\xff"])
async def test_a_prefix_that_cannot_be_read_prevents_the_start(
    tmp_path: Path, value: bytes
) -> None:
    async with runtime() as process, storage_in(tmp_path).open(process) as opened:
        await opened.engine.metadata.put(OBJECTS, value)
    with pytest.raises(Corrupt, match="prefix of objects"):
        await prefix_in(tmp_path)
