"""The list of the objects of deleted logs: its stored form, and its parts."""

import pytest

from fakes.memory_metadata import MemoryMetadata
from fakes.world import ManualClock, run
from magnetar_storage.errors import Corrupt
from magnetar_storage.interfaces import SegmentCopy, Versioned
from magnetar_storage.log.left_objects import LEFT, NAMED, PART, LeftObjects, leave


def test_objects_are_stored_with_their_places() -> None:
    left = LeftObjects("/topics/t", 17, {"s3://a": ["d/1.seg", "d/2.seg"], "s3://b": ["d/3.seg"]})
    assert len(left) == 3
    assert LeftObjects.decode(LEFT, left.encode()) == left


@pytest.mark.parametrize("value", [b"", b"[]", b"{}", b'{"log": "l", "left_ms": 1, "places": 3}'])
def test_a_list_that_is_none_is_corrupt(value: bytes) -> None:
    with pytest.raises(Corrupt):
        LeftObjects.decode(LEFT, value)


def test_a_long_list_has_several_keys(caplog: pytest.LogCaptureFixture) -> None:
    """Repeating it after a crash adds nothing."""
    clock = ManualClock()
    metadata = MemoryMetadata(clock)
    copies = [SegmentCopy(f"s3://{number % 2}", f"{number:04}") for number in range(2 * PART + 1)]
    for _ in range(2):
        run(leave(metadata, "/topics/t", copies, 17, "it is away"), clock)
    found = set[str]()
    listed = run(metadata.read_under(LEFT), clock)
    for key, value in listed:
        assert isinstance(value, Versioned)
        left = LeftObjects.decode(key, value.value)
        assert left.log == "/topics/t" and left.left_ms == 17
        found |= {name for names in left.places.values() for name in names}
    assert len(listed) == 3
    assert found == {copy.name for copy in copies}
    line = caplog.records[0].getMessage()
    assert f"{len(copies)} objects of /topics/t" in line and line.endswith(", ...")
    assert line.count("s3://") == NAMED
