"""A data directory whose metadata is lost finds its offloaded ledgers in a store of objects.

The store is a directory of this machine.
"""

import asyncio
import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from broker.server.data_directory.test_local_storage import runtime
from fakes.logs import numbered
from fakes.runs import append
from magnetar_broker.base.metadata_keys import OBJECTS, topic_key
from magnetar_broker.commands.repair import repair
from magnetar_broker.config import Settings
from magnetar_broker.config.domains import OffloadDriver
from magnetar_broker.server.data_directory import rebuilding
from magnetar_broker.server.data_directory.local_storage import LocalStorage
from magnetar_broker.server.data_directory.lost_objects import Search, place_in
from magnetar_broker.server.data_directory.object_names import decoded, forget_formers
from magnetar_broker.server.data_directory.rebuilding import FILES, Rebuilding, as_text, rebuild
from magnetar_proto.names import TopicName
from magnetar_storage.errors import Unavailable
from magnetar_storage.log.engine import Engine
from magnetar_storage.log.left_objects import LEFT, LeftObjects
from magnetar_storage.log.log import Log
from magnetar_storage.metadata.database import FILE, Database
from magnetar_storage.runtime.disk import LocalDisk

KEY = topic_key(TopicName.parse("persistent://public/default/topic"))


class Directory:
    """A data directory with one topic, and a directory for its objects."""

    def __init__(self, path: Path) -> None:
        self.data = path / "data"
        self.objects = path / "objects"
        self.copy = path / "metadata"
        self.objects.mkdir()
        self.place = f"file://{self.objects}"

    @property
    def settings(self) -> Settings:
        return Settings(
            data_dir=str(self.data),
            managed_ledger_offload_driver=OffloadDriver.FILES,
            file_system_uri=self.place,
        )

    async def offload(self, first: int, stop: int, place: str = "") -> None:
        """Append entries, and move them to the store of objects."""
        async with runtime() as process, LocalStorage(self.settings).open(process) as opened:
            log = await opened_log(opened.engine)
            await log.rollover.start_writing()
            done = opened.engine.clock.promise()
            append(log, numbered(first, stop), [1] * (stop - first), done.set_result)
            assert await done is None
            await log.close()
            log = await opened_log(opened.engine)
            closed = [one.id for one in log.segments if not one.is_remote]
            for segment in closed:
                assert await log.offloading.copy(segment, place or self.place)
            await log.offloading.drop(closed)
            await log.close()

    async def read(self) -> list[bytes]:
        async with runtime() as process, LocalStorage(self.settings).open(process) as opened:
            log = await opened_log(opened.engine)
            found, offset = list[bytes](), log.first_offset
            while (run := await log.entries.read(offset, 100, 1 << 20)).payloads:
                found += run.payloads
                offset += len(run.payloads)
            await log.close()
            return found

    async def forget_formers(self) -> None:
        """Do what a broker does soon after its start, once it has told the originals."""
        async with runtime() as process, LocalStorage(self.settings).open(process) as opened:
            metadata = opened.engine.metadata
            found = await metadata.get(OBJECTS)
            assert found is not None
            await forget_formers(metadata, decoded(found.value))

    def lose_metadata(self) -> None:
        for name in FILES:
            (self.data / name).unlink(missing_ok=True)

    def keep_metadata(self) -> None:
        """Keep a copy of the present metadata, which is an older one soon."""
        shutil.rmtree(self.copy, ignore_errors=True)
        self.copy.mkdir()
        for path in self.data.glob("metadata.d*"):
            shutil.copy(path, self.copy)

    def put_older_metadata_back(self) -> None:
        self.lose_metadata()
        for path in self.copy.iterdir():
            shutil.copy(path, self.data)

    def files(self) -> dict[Path, bytes]:
        """Return the content of the data directory, without the lock."""
        paths = (path for path in self.data.rglob("*") if path.is_file() and path.name != "LOCK")
        return {path: path.read_bytes() for path in paths}

    def names(self) -> list[str]:
        return sorted(str(path.relative_to(self.objects)) for path in self.objects.rglob("*.seg"))

    async def rebuilt(self, apply: bool = True, prefixes: tuple[str, ...] = ()) -> Rebuilding:
        from magnetar_broker.server.data_directory.copies import open_place  # it loads obstore

        search = Search(
            lambda place: open_place(self.settings, place), (place_in(self.settings),), prefixes
        )
        before = self.names()
        # In a thread, because it has an event loop of its own.
        result = await asyncio.to_thread(rebuild, str(self.data), apply, lambda _: None, search)
        assert self.names() == before
        return result


async def opened_log(engine: Engine) -> Log:
    log = await Log.open(KEY, engine, create=True)
    assert log is not None
    return log


@pytest.fixture
def directory(tmp_path: Path) -> Directory:
    return Directory(tmp_path)


async def test_its_ledgers_are_found_by_its_id(directory: Directory) -> None:
    await directory.offload(0, 5)
    await directory.offload(5, 9)
    directory.lose_metadata()
    dry = await directory.rebuilt(apply=False)
    assert "2 ledgers found in stores of objects, 2 of them listed" in as_text(dry)
    assert "FILE" not in as_text(dry) and not list(directory.data.glob("metadata.db*"))
    result = await directory.rebuilt()
    assert result.found.objects == 2 and not result.missing
    assert await directory.read() == numbered(0, 9)


async def test_a_repaired_directory_knows_the_prefixes_that_it_may_not_delete(
    directory: Directory,
) -> None:
    await directory.offload(0, 5)
    first = directory.names()[0].partition("/")[0]
    directory.lose_metadata()
    result = await directory.rebuilt()
    own = json.loads(result.values[OBJECTS])
    assert own["formers"] == [first] and own["prefix"] != first
    await directory.offload(5, 9)
    directory.lose_metadata()
    result = await directory.rebuilt(apply=False)
    (other,) = {name.partition("/")[0] for name in directory.names()} - {first}
    assert other == own["prefix"]
    assert result.objects is not None and result.objects.others == {other: 1}
    assert f"--prefix {other} looks at them, too" in as_text(result)
    result = await directory.rebuilt(prefixes=(other,))
    assert sorted(json.loads(result.values[OBJECTS])["formers"]) == sorted([first, other])
    assert await directory.read() == numbered(0, 9)


async def test_older_metadata_tells_the_prefix_and_further_places(
    directory: Directory, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    await directory.offload(0, 5)
    directory.lose_metadata()
    await directory.rebuilt()
    await directory.forget_formers()
    await directory.offload(5, 7, f"file://{other}")
    directory.keep_metadata()
    await directory.offload(7, 9)
    directory.put_older_metadata_back()
    result = await directory.rebuilt()
    assert result.found.objects == 3 and not result.missing
    assert len(json.loads(result.values[OBJECTS])["formers"]) == 2
    assert await directory.read() == numbered(0, 9)


async def test_of_a_forgotten_prefix_only_listed_objects_are_used(directory: Directory) -> None:
    """The directory that has the prefix may go on, and write further ones."""
    await directory.offload(0, 5)
    (first,) = directory.names()
    directory.lose_metadata()
    await directory.rebuilt()
    await directory.forget_formers()
    directory.keep_metadata()
    await directory.offload(5, 9)
    directory.put_older_metadata_back()
    (second,) = set(directory.names()) - {first}
    prefix, number = first.partition("/")[0], second.partition("/")[2]
    (directory.objects / second).rename(directory.objects / prefix / number)
    result = await directory.rebuilt()
    assert result.objects is not None and result.objects.others == {prefix: 1}
    assert await directory.read() == numbered(0, 5)


async def test_objects_that_older_metadata_lists_and_that_are_gone_are_named(
    directory: Directory,
) -> None:
    await directory.offload(0, 5)
    directory.keep_metadata()
    await directory.offload(5, 9)
    directory.put_older_metadata_back()
    (gone,) = [name for name in directory.names() if "0000000000000001-" in name]
    (directory.objects / gone).unlink()
    result = await directory.rebuilt()
    assert [copy.name for copy in result.missing] == [gone]
    assert f"lists 1 ledgers in stores of objects that were not found: {gone}" in as_text(result)
    assert await directory.read() == numbered(5, 9)


async def test_objects_of_a_deleted_topic_are_left_out(directory: Directory) -> None:
    await directory.offload(0, 5)
    await directory.offload(5, 9)
    (doomed,) = [name for name in directory.names() if "0000000000000001-" in name]
    left = LeftObjects(KEY, 7, {directory.place: [doomed]})
    async with runtime() as process, LocalStorage(directory.settings).open(process) as opened:
        await opened.engine.metadata.put(f"{LEFT}{doomed}", left.encode())
        await opened.engine.metadata.put(f"{LEFT}damaged", b"{")
    directory.keep_metadata()
    await directory.offload(9, 12)
    directory.put_older_metadata_back()
    result = await directory.rebuilt()
    assert result.objects is not None and result.objects.stray == 1
    assert "1 objects are left out" in as_text(result)
    assert await directory.read() == numbered(5, 12)


async def test_without_a_search_the_report_says_so(directory: Directory) -> None:
    await directory.offload(0, 5)
    directory.keep_metadata()
    await directory.offload(5, 9)
    directory.put_older_metadata_back()
    result = await asyncio.to_thread(rebuild, str(directory.data), False, lambda _: None)
    assert "No store of objects was asked" in as_text(result)
    assert result.objects is None and "lists 1 such ledgers" not in as_text(result)


async def test_damaged_objects_are_named_and_the_rest_is_listed(directory: Directory) -> None:
    await directory.offload(0, 5)
    await directory.offload(5, 9)
    (damaged,) = [name for name in directory.names() if "0000000000000001-" in name]
    path = directory.objects / damaged
    path.write_bytes(path.read_bytes()[:-1])
    directory.lose_metadata()
    result = await directory.rebuilt()
    assert f"object {damaged} in {directory.place} is not used" in as_text(result)
    assert await directory.read() == numbered(5, 9)


class Killed(BaseException):
    """Ends a repair as a kill would: nothing after it happens."""


@pytest.mark.parametrize("has_log", [False, True])
@pytest.mark.parametrize("stop", ["link", "remove", "rename"])
async def test_a_repair_that_is_killed_can_be_repeated(
    directory: Directory, monkeypatch: pytest.MonkeyPatch, has_log: bool, stop: str
) -> None:
    async with runtime() as process, LocalStorage(directory.settings).open(process) as opened:
        await opened.engine.metadata.put("/told", b"by metadata only")
        if has_log:
            directory.keep_metadata()
            assert (directory.copy / "metadata.db-wal").stat().st_size
    if not has_log:
        directory.keep_metadata()
    await directory.offload(0, 5)
    directory.put_older_metadata_back()
    plain = getattr(LocalDisk, stop)

    def killed(disk: LocalDisk, name: str, *others: str) -> None:
        if name == rebuilding.NEW_FILE and stop == "rename":
            raise Killed
        plain(disk, name, *others)
        if name == {"link": FILE, "remove": f"{FILE}-wal"}.get(stop):
            raise Killed

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(LocalDisk, stop, killed)
        await directory.rebuilt()
    result = await directory.rebuilt()
    assert result.values["/told"] == b"by metadata only"
    former = Database(f"{result.former}{FILE}")
    kept = former.get("/told")
    former.close()
    assert kept is not None and kept.value == b"by metadata only"
    assert await directory.read() == numbered(0, 5)


# The command ----------------------------------------------------------------------------


async def run(directory: Directory, *options: str) -> Result:
    arguments = [str(directory.data), *options]
    result = await asyncio.to_thread(CliRunner().invoke, repair, arguments, catch_exceptions=False)
    assert isinstance(result, Result)
    return result


async def test_the_command_takes_the_place_of_the_settings_or_a_named_one(
    directory: Directory, tmp_path: Path
) -> None:
    await directory.offload(0, 5)
    directory.lose_metadata()
    conf = tmp_path / "broker.conf"
    conf.write_text(f"managedLedgerOffloadDriver=filesystem\nfileSystemURI={directory.place}\n")
    for options in (("--conf", str(conf)), ("--place", directory.place)):
        result = await run(directory, *options)
        assert result.exit_code == 1 and "1 ledgers found in stores" in result.output
    result = await run(directory, "--apply", "--conf", str(conf))
    assert result.exit_code == 0, result.output
    assert "1 segments that are only in a store of objects checked there" in result.output
    assert await directory.read() == numbered(0, 5)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("--place", "file:///missing/directory"), "not a directory"),
        (("--place", "ftp://bucket"), "a place for objects begins with"),
        (("--conf", "/missing/broker.conf"), "broker.conf"),
    ],
)
async def test_a_place_that_cannot_be_searched_is_an_error(
    directory: Directory, options: tuple[str, ...], why: str
) -> None:
    await directory.offload(0, 5)
    directory.lose_metadata()
    result = await run(directory, "--apply", *options)
    assert result.exit_code == 2 and why in result.output, result.output
    assert not list(directory.data.glob("metadata.db*"))


async def test_nothing_is_given_up_if_a_place_cannot_be_searched(directory: Directory) -> None:
    await directory.offload(0, 5)
    async with runtime() as process, LocalStorage(directory.settings).open(process) as opened:
        log = await opened_log(opened.engine)
        await log.rollover.start_writing()
        done = opened.engine.clock.promise()
        append(log, numbered(5, 50), [1] * 45, done.set_result)
        assert await done is None
        await log.close()
    directory.lose_metadata()
    lost = max(path for path in (directory.data / "segments").rglob("*") if path.is_file())
    lost.unlink()
    before = directory.files()
    result = await run(directory, "--apply", "--place", "file:///missing/directory")
    assert result.exit_code == 2 and "not a directory" in result.output, result.output
    assert "1 ledgers lack data" in result.output and "ledgers given up" not in result.output
    assert directory.files() == before
    result = await run(directory, "--apply", "--place", directory.place)
    assert result.exit_code == 0 and "1 ledgers given up" in result.output, result.output
    assert await directory.read() == numbered(0, 5)


def test_settings_with_a_wrong_place_are_refused() -> None:
    settings = Settings(managed_ledger_offload_driver=OffloadDriver.AWS_S3)
    with pytest.raises(Unavailable, match="needs a bucket"):
        place_in(settings)
    assert place_in(Settings()) == ""
