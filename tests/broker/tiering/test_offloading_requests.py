"""Requests to offload a topic, on a broker of one process and of several."""

import json

import pytest

from fakes.rest_world import TOPIC, World
from magnetar_broker.policies.table import OFFLOAD
from magnetar_broker.tiering.topic_offloading import (
    OffloadFigures,
    OffloadRunning,
    OffloadState,
    OffloadStatus,
)
from magnetar_broker.topic.topic import Topic
from magnetar_proto.names import TopicName

NAME = "persistent://public/default/topic"


class Offloader:
    """An offloader that runs until the test ends it."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, int]] = []
        self.now = OffloadStatus()

    def start(self, before: tuple[int, int]) -> None:
        if self.now.state is OffloadState.RUNNING:
            raise OffloadRunning("running")
        self.asked.append(before)
        self.now = OffloadStatus(OffloadState.RUNNING)

    def status(self) -> OffloadStatus:
        return self.now

    def figures(self) -> OffloadFigures:
        return OffloadFigures(7, 5, 6)


@pytest.fixture(params=[1, 3])
def world(request: pytest.FixtureRequest) -> World:
    return World(request.param)


@pytest.fixture
def offloader(world: World) -> Offloader:
    world.publish(NAME, 1)
    name, offloader = TopicName.parse(NAME), Offloader()
    topic = world.do(world.broker(name).topic(name, False))
    assert isinstance(topic, Topic)
    topic._offloading = offloader  # type: ignore[assignment]
    return offloader


def test_a_request_reaches_the_offloader_and_another_one_is_refused_meanwhile(
    world: World, offloader: Offloader
) -> None:
    assert world.ask(f"PUT {TOPIC}/offload", {"ledgerId": 4, "entryId": 2}).status == 204
    refused = world.ask(f"PUT {TOPIC}/offload", {"ledgerId": 5, "entryId": 0})
    assert refused.status == 409
    assert offloader.asked == [(4, 2)]


@pytest.mark.parametrize(
    ("now", "shown"),
    [
        (OffloadStatus(OffloadState.RUNNING), ("RUNNING", "", (-1, -1))),
        (OffloadStatus(OffloadState.ERROR, "why"), ("ERROR", "why", (-1, -1))),
        (OffloadStatus(OffloadState.SUCCESS, "", (9, 0)), ("SUCCESS", "", (9, 0))),
    ],
)
def test_the_status_is_that_of_the_offloader(
    world: World, offloader: Offloader, now: OffloadStatus, shown: tuple[str, str, tuple[int, int]]
) -> None:
    offloader.now = now
    found = json.loads(world.ask(f"GET {TOPIC}/offload").body)
    first = found["firstUnoffloadedMessage"]
    assert (found["status"], found["lastError"], (first["ledgerId"], first["entryId"])) == shown
    assert (first["partitionIndex"], first["batchIndex"], first["batchSize"]) == (-1, -1, 0)


def test_statistics_have_the_figures_of_the_offloader(world: World, offloader: Offloader) -> None:
    found = json.loads(world.ask(f"GET {TOPIC}/stats").body)
    assert found["lastOffloadLedgerId"] == 7
    assert (found["lastOffloadSuccessTimeStamp"], found["lastOffloadFailureTimeStamp"]) == (5, 6)
    assert found["offloadedStorageSize"] == 0
    ledgers = json.loads(world.ask(f"GET {TOPIC}/internalStats").body)["ledgers"]
    assert [ledger["offloaded"] for ledger in ledgers] == [False]


@pytest.mark.parametrize(
    ("stored", "why"),
    [
        (
            {
                "managedLedgerOffloadDriver": "google-cloud-storage",
                "managedLedgerOffloadBucket": "b",
                "managedLedgerOffloadServiceEndpoint": "http://127.0.0.1:9",
            },
            "the service endpoint http://127.0.0.1:9 is not that of the broker's settings",
        ),
        (
            {"managedLedgerOffloadDriver": "filesystem", "fileSystemURI": "file:///tmp"},
            "the directory file:///tmp is neither that of the broker's settings nor below it",
        ),
    ],
)
def test_a_stored_policy_that_would_be_refused_today_is_not_used(
    world: World, stored: dict[str, str], why: str
) -> None:
    world.publish(NAME, 1)
    enforcement = world.context.directory.enforcement
    # Without the check of a request: as it was stored before the settings changed.
    world.do(enforcement.set(TopicName.parse(NAME), {OFFLOAD: stored}))
    assert world.ask(f"PUT {TOPIC}/offload", {"ledgerId": 0, "entryId": 0}).status == 204
    found = json.loads(world.ask(f"GET {TOPIC}/offload").body)
    assert found["status"] == "ERROR"
    assert found["lastError"].startswith(why)
