"""An overlay behaves as a disk does, and what lies under it stays as it is."""

from collections.abc import Callable

from hypothesis import example, given
from hypothesis import strategies as st

from fakes.faulty_disk import FaultyDisk
from magnetar_storage.runtime.disk import Disk
from magnetar_storage.verify.overlay import Overlay

NAMES = ("journal/1.wal", "journal/1.spare", "segments/1.seg", "FORMAT")
Step = Callable[[Disk], object]


def outcome(step: Step, disk: Disk) -> object:
    """What a step returns, or the kind of its error."""
    try:
        return step(disk)
    except FileNotFoundError:
        return FileNotFoundError


def read(name: str, at: int, size: int) -> Step:
    return lambda disk: disk.open(name).read(at, size)


def write(name: str, at: int, data: bytes) -> Step:
    return lambda disk: disk.open(name, create=True).write(at, [data, b"!"])


def write_through(name: str, at: int, data: bytes) -> Step:
    return lambda disk: disk.open(name).write_through(at, [data])


def truncate(name: str, size: int) -> Step:
    return lambda disk: disk.open(name).truncate(size)


def allocate(name: str, size: int) -> Step:
    return lambda disk: disk.open(name).allocate(size)


def rename(old: str, new: str) -> Step:
    def step(disk: Disk) -> None:
        disk.open(old)  # there must be one
        disk.rename(old, new)

    return step


def remove(name: str) -> Step:
    return lambda disk: disk.remove(name)


def look(name: str) -> Step:
    """A file's size, and the files beside it; a directory without files may be listed or not."""
    directory = name.rpartition("/")[0]
    prefix = f"{directory}/" if directory else ""

    def step(disk: Disk) -> object:
        beside = [name for name in disk.list(directory) if prefix + name in NAMES]
        return disk.open(name).size(), beside

    return step


names, places = st.sampled_from(NAMES), st.integers(0, 40)
data = st.binary(max_size=12)
steps = st.one_of(
    st.builds(read, names, places, places),
    st.builds(write, names, places, data),
    st.builds(write_through, names, places, data),
    st.builds(truncate, names, places),
    st.builds(allocate, names, places),
    st.sampled_from([rename(*NAMES[:2]), rename(*NAMES[1::-1])]),
    st.builds(remove, names),
    st.builds(look, names),
)


def contents(disk: Disk) -> dict[str, bytes]:
    """Of every file there is."""
    found: dict[str, bytes] = {}
    for name in NAMES:
        directory, _, own = name.rpartition("/")
        if own in disk.list(directory):
            found[name] = disk.open(name).read(0, 1000)
    return found


@given(st.dictionaries(names, st.binary(max_size=30)), st.lists(steps, max_size=20))
@example({NAMES[0]: b""}, [write_through(NAMES[0], 1, b"")])
def test_it_is_like_the_disk_which_does_not_change(
    files: dict[str, bytes], steps: list[Step]
) -> None:
    below, disk = FaultyDisk(), FaultyDisk()
    for name, content in files.items():
        for each in (below, disk):
            each.open(name, create=True).write(0, [content])
    before, operations = contents(below), below.operations
    overlay = Overlay(below)
    for step in steps:
        assert outcome(step, overlay) == outcome(step, disk)
    assert contents(overlay) == contents(disk)
    assert contents(below) == before and below.operations == operations


def test_it_is_locked_where_the_disk_is() -> None:
    below = FaultyDisk()
    Overlay(below).lock("LOCK")
    assert below.locks


def test_a_directory_is_listed_when_a_file_is_made_in_it() -> None:
    disk = Overlay(FaultyDisk())
    disk.open("workers/1/FORMAT", create=True)
    assert disk.list("") == ["workers"] and disk.list("workers") == ["1"]
