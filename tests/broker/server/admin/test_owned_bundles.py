"""Moves and splits of bundles over the REST API, and the brokers that own them."""

import json
from typing import Any

import pytest

from fakes.rest_world import BROKERS, SPACE, World, used
from magnetar_broker.placement.bundles import hash_of
from magnetar_proto.names import TopicName


def test_a_bundle_is_unloaded_to_the_process_that_is_named() -> None:
    world = used(3)
    assert world.processes is not None
    name = TopicName.parse("persistent://public/default/topic")
    number = world.processes.number_of(name)
    path = "/lookup/v2/topic/persistent/public/default/topic/bundle"
    bundle = world.ask(f"GET {path}").body.decode()
    unload = f"PUT {SPACE}/{bundle}/unload"
    topic = world.broker(name).topics.get(name)
    assert topic is not None
    assert world.ask(f"{unload}?destinationBroker=worker-{number}").status == 204
    assert not topic.closed, "it is there already"
    assert world.ask(unload).status == 204
    assert topic.closed
    world.consumer(str(name), "sub")
    for other in ((number + 1) % 3, (number + 2) % 3):
        assert world.ask(f"{unload}?destinationBroker=worker-{other}:8080").status == 204
        assert world.processes.number_of(name) == other
        world.consumer(str(name), "sub")
        assert name in world.processes.workers[other].broker.topics
    refused = world.ask(f"{unload}?destinationBroker=elsewhere:8080")
    assert refused.status == 409
    assert b"expected one of worker-0:8080, worker-1:8080, worker-2:8080" in refused.body


def split_of(world: World, name: TopicName, query: str = "") -> None:
    """Split the bundle of a topic."""
    bundle = world.ask(f"GET /lookup/v2/topic/{str(name).replace('://', '/')}/bundle").body
    assert world.ask(f"PUT {SPACE}/{bundle.decode()}/split{query}").status == 204


@pytest.mark.parametrize("workers", [1, 3])
def test_the_topics_of_a_bundle_stay_open_when_it_is_split(workers: int) -> None:
    world = used(workers)
    name = TopicName.parse("persistent://public/default/topic")
    broker = world.broker(name)
    topic = broker.topics.get(name)
    assert topic is not None
    split_of(world, name)
    assert world.broker(name) is broker and broker.topics.get(name) is topic
    others = [one for one in broker.topics if one is not topic]
    split_of(world, name, "?unload=true")
    assert topic.closed
    assert not any(one.closed for one in others if hash_of(one.name) >> 30 != hash_of(name) >> 30)
    world.consumer(str(name), "sub")
    assert world.broker(name) is broker, "the parts keep the owner"


@pytest.mark.parametrize(
    ("workers", "ids"),
    [(1, ["here:8080"]), (3, ["worker-0:8080", "worker-1:8080", "worker-2:8080"])],
)
def test_brokers_are_listed_as_they_are_named_for_a_move(workers: int, ids: list[str]) -> None:
    world = used(workers)
    for path in (BROKERS, f"{BROKERS}/", f"{BROKERS}/standalone"):
        assert json.loads(world.ask(f"GET {path}").body) == ids
    leader = {"brokerId": ids[0], "serviceUrl": "http://here:8080"}
    assert json.loads(world.ask(f"GET {BROKERS}/leaderBroker").body) == leader
    path = "/lookup/v2/topic/persistent/public/default/topic/bundle"
    bundle = world.ask(f"GET {path}").body.decode()
    for destination in ids:
        unload = f"PUT {SPACE}/{bundle}/unload?destinationBroker={destination}"
        assert world.ask(unload).status == 204
        owned = [f"public/default/{bundle}" in owned_by(world, broker) for broker in ids]
        assert owned == [broker == destination for broker in ids]
        assert world.ask(f"GET {BROKERS}/health?brokerId={destination}").body == b"ok"
    everything = [one for broker in ids for one in owned_by(world, broker)]
    assert len(set(everything)) == len(everything)
    assert {one.rpartition("/")[0] for one in everything} >= {"public/default"}


def owned_by(world: World, broker: str) -> dict[str, Any]:
    """Return the bundles that a broker owns."""
    answer = world.ask(f"GET {BROKERS}/standalone/{broker}/ownedNamespaces")
    found: dict[str, Any] = json.loads(answer.body)
    assert {tuple(one.values()) for one in found.values()} <= {("shared", False, True)}
    return found


@pytest.mark.parametrize("workers", [1, 3])
def test_brokers_and_clusters_that_are_not_there(workers: int) -> None:
    world = used(workers)
    for path in (
        "nowhere",
        "nowhere/worker-0/ownedNamespaces",
        "standalone/worker-3:8080/ownedNamespaces",
        "standalone/nonsense/ownedNamespaces",
        "health?brokerId=elsewhere:8080",
    ):
        assert world.ask(f"GET {BROKERS}/{path}").status == 404, path


@pytest.mark.parametrize("workers", [1, 3])
def test_a_deleted_namespace_has_no_owner_until_it_is_made_and_used_again(workers: int) -> None:
    world = World(workers)

    def owned() -> list[str]:
        brokers = [f"worker-{number}" for number in range(workers)]
        found = [one for broker in brokers for one in owned_by(world, broker)]
        return [one for one in found if one.startswith("public/other/")]

    for _ in range(2):
        assert world.ask("PUT /admin/v2/namespaces/public/other").status == 204
        assert not owned()
        world.consumer("non-persistent://public/other/topic", "sub").close()
        assert len(owned()) == 4
        assert world.ask("DELETE /admin/v2/non-persistent/public/other/topic").status == 204
        assert world.ask("DELETE /admin/v2/namespaces/public/other").status == 204
        assert not owned()
