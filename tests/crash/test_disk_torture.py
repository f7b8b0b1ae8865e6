"""Power losses on a simulated disk lose nothing, and the torture would notice if they did."""

from collections.abc import Callable

import pytest

from crash.disk_torture import History, torture
from effort import seeds
from fakes.faulty_disk import FaultyDisk

POINTS = 300


@pytest.mark.parametrize("seed", seeds(15, least=2))
def test_power_losses_lose_nothing_and_invent_nothing(seed: int) -> None:
    total = torture(1000 * seed, POINTS, jobs=1, progress=lambda _: None)
    assert not total.failures, total.failures[0]
    assert total.points == POINTS < total.crashes


@pytest.mark.parametrize(
    ("what", "prefix"),
    [
        ("sync", "FORMAT"),
        ("sync", "checkpoint-"),
        ("sync", "journal/"),
        ("sync", "segments/"),
        ("sync_dir", ""),
        ("sync_dir", "journal"),
        ("sync_dir", "segments"),
    ],
)
def test_a_sync_that_does_nothing_is_noticed(what: str, prefix: str) -> None:
    def lies(asked: str, name: str) -> bool:
        return asked == what and (name == prefix if what == "sync_dir" else name.startswith(prefix))

    assert any(failures_on_a_disk_that(lies, seed) for seed in range(20))


def failures_on_a_disk_that(lies: Callable[[str, str], bool], seed: int) -> list[str]:
    disk = FaultyDisk()
    disk.lies = lies
    return History(seed, points=200, disk=disk).run().failures


def test_a_point_can_be_repeated_alone() -> None:
    def lies(asked: str, name: str) -> bool:
        return name.startswith("segments/")

    def disk() -> FaultyDisk:
        made = FaultyDisk()
        made.lies = lies
        return made

    seed = next(seed for seed in range(20) if failures_on_a_disk_that(lies, seed))
    (first,) = failures_on_a_disk_that(lies, seed)
    point = int(first.split("--point ")[1].split(",")[0])
    again = History(seed, only=point, disk=disk()).run()
    assert (again.points, again.failures) == (1, [first])
