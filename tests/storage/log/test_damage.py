"""Damage that a process has found: recorded once, limited, and forgotten when it is gone."""

import logging

import pytest

from fakes.logs import BY_THREE, KEY, LogWorld, numbered
from magnetar_storage.errors import Corrupt, Unavailable
from magnetar_storage.log import damage as damage_module
from magnetar_storage.log.damage import Damage, FoundDamage


def logged(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in caplog.records if one.name == damage_module.__name__]


def rotten_log(world: LogWorld) -> None:
    """Create a log of six entries, with the first segment of three unreadable."""
    log = world.open()
    for payload in numbered(0, 6):
        world.append(log, payload)
    world.store.rotten.add(log.segments[0].id)


def test_a_read_that_meets_damage_notes_it_once(caplog: pytest.LogCaptureFixture) -> None:
    world = LogWorld(BY_THREE, cache_bytes=0)
    rotten_log(world)
    log = world.open()
    for _ in range(3):
        with pytest.raises(Corrupt):
            world.do(log.entries.read(1, 1, 1))
    (found,) = world.engine.damage
    segment = log.segments[0].id
    assert found[:4] == (segment, 1, 1, "rot")
    assert (found.log, found.file, found.entries) == (KEY, "file", 1)
    (line,) = logged(caplog)
    assert (
        line == f"damaged entries: segment {segment}, entries 1 to 1 of {KEY} (file at byte 0): rot"
    )


def test_trouble_that_passes_is_no_damage() -> None:
    world = LogWorld(cache_bytes=0)
    log = world.open()
    world.append(log, b"0")
    world.store.read_failure = Unavailable("busy")
    with pytest.raises(Unavailable):
        world.do(log.entries.read(0, 1, 1))
    assert not len(world.engine.damage)


def test_a_missing_file_is_damage_of_the_whole_segment() -> None:
    world = LogWorld(BY_THREE, cache_bytes=0)
    log = world.open()
    for payload in numbered(0, 6):
        world.append(log, payload)
    segment = log.segments[0].id
    del world.store._segments[segment]
    with pytest.raises(Exception, match="no segment"):
        world.do(log.entries.read(1, 1, 1))
    (found,) = world.engine.damage
    assert (found[:3], found.file) == ((segment, 0, 2), "")


def test_what_is_trimmed_or_deleted_is_forgotten() -> None:
    world = LogWorld(BY_THREE, cache_bytes=0)
    rotten_log(world)
    log = world.open()
    with pytest.raises(Corrupt):
        world.do(log.entries.read(0, 1, 1))
    assert world.engine.damage.entries == 1
    world.do(log.trim(3))
    assert world.engine.damage.entries == 0
    world.store.rotten.add(log.segments[0].id)
    with pytest.raises(Corrupt):
        world.do(log.entries.read(3, 1, 1))
    assert world.engine.damage.entries == 1
    world.do(log.delete())
    assert world.engine.damage.entries == 0


def test_the_topic_of_damage_may_be_learned_later() -> None:
    found = FoundDamage()
    found.add(Damage(1, 0, 3, "rot"))
    found.add(Damage(1, 0, 3, "rot", log="a"))
    found.add(Damage(1, 0, 3, "rot"))
    assert [one.log for one in found] == ["a"]


def test_who_wants_to_know_is_called_once_for_each_range() -> None:
    found, told = FoundDamage(), list[Damage]()
    found.on_found = told.append
    for _ in range(2):
        found.add(Damage(1, 0, 3, "rot"))
        found.add(Damage(2, 0, 0, "rot"))
    assert [one.segment for one in told] == [1, 2]


def test_no_more_ranges_than_the_limit_are_remembered(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(damage_module, "MOST", 2)
    caplog.set_level(logging.ERROR)
    found = FoundDamage()
    for entry in range(5):
        found.add(Damage(1, entry, entry, "rot"))
    assert (len(found), found.entries, found.is_full) == (2, 2, True)
    assert len(logged(caplog)) == 3
    found.forget_segments([1])
    assert (len(found), found.is_full) == (0, False)
