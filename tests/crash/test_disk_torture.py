"""Power losses on a simulated disk lose nothing, and the torture would notice if they did."""

from collections.abc import Callable

import pytest

from crash.disk_life import Actions, Life
from crash.disk_torture import History, torture
from effort import part_of, seeds
from fakes.faulty_disk import FaultyDisk
from magnetar_storage.local.store import LocalStore

POINTS = part_of(900)
COMING_AND_GOING: Actions = {
    Life.append: 5,
    Life.acknowledge: 3,
    Life.subscribe: 6,
    Life.unsubscribe: 6,
    Life.checkpoint: 1,
    Life.reopen: 1,
}
"""What is done to subscriptions that never stay for long."""


@pytest.mark.parametrize("directories", [1, 2])
@pytest.mark.parametrize("seed", seeds(15, least=1))
def test_power_losses_lose_nothing_and_invent_nothing(seed: int, directories: int) -> None:
    total = torture(1000 * seed, POINTS, 1, lambda _: None, directories)
    assert not total.failures, total.failures[0]
    assert total.points == POINTS < total.crashes


@pytest.mark.parametrize("directories", [1, 3])
@pytest.mark.parametrize("seed", seeds(30, least=2))
def test_a_subscription_that_comes_and_goes_is_there_only_while_it_was_not_deleted(
    seed: int, directories: int
) -> None:
    found = History(
        seed, points=part_of(300), directories=directories, actions=COMING_AND_GOING
    ).run()
    assert not found.failures, found.failures[0]
    assert found.points > 0


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


@pytest.mark.parametrize("what", ["sync", "sync_dir"])
def test_a_sync_that_does_nothing_in_a_further_directory_is_noticed(what: str) -> None:
    def lies(asked: str, name: str) -> bool:
        return asked == what and name.startswith("workers/1/")

    assert any(failures_on_a_disk_that(lies, seed, 2) for seed in range(20))


async def nothing(store: LocalStore, segment: int) -> None:
    """Instead of a promise of the store."""


@pytest.mark.parametrize("promise", ["advance_beyond", "finish"])
def test_a_promise_to_other_processes_that_is_not_kept_is_noticed(
    monkeypatch: pytest.MonkeyPatch, promise: str
) -> None:
    monkeypatch.setattr(LocalStore, promise, nothing)
    assert any(History(seed, points=200, directories=2).run().failures for seed in range(20))


def failures_on_a_disk_that(
    lies: Callable[[str, str], bool], seed: int, directories: int = 1
) -> list[str]:
    disk = FaultyDisk()
    disk.lies = lies
    return History(seed, points=200, disk=disk, directories=directories).run().failures


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
