"""A store of objects that is away or hangs: who waits for it, and who does not."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from http.client import HTTPException
from threading import Thread
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import pulsar
import pytest

import object_servers
from admin_http import Admin
from fakes.waiting import await_true
from gate import Gate
from official import connect, take, texts
from running_broker import RunningBroker
from tiered_broker import (
    LEDGER_ENTRIES,
    at_once,
    await_moved,
    objects_of,
    path_of,
    publish,
    read_all,
)

Make = Callable[..., RunningBroker]
EARLIEST = pulsar.InitialPosition.Earliest
FEW = [f"m{number}" for number in range(3 * LEDGER_ENTRIES + 20)]


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with object_servers.moto() as endpoint:
        yield endpoint


@pytest.fixture
def gate(endpoint: str) -> Iterator[Gate]:
    port = urlsplit(endpoint).port
    assert port is not None
    with Gate(port) as gate:
        yield gate


@pytest.fixture
def prefix() -> str:
    return uuid4().hex


@pytest.fixture(params=["1", "3"])
def broker(
    make_broker: Make, gate: Gate, prefix: str, request: pytest.FixtureRequest
) -> RunningBroker:
    return make_broker(**at_once(gate.endpoint, prefix), magnetarWorkers=request.param)


@pytest.fixture
def client(broker: RunningBroker) -> Iterator[pulsar.Client]:
    client = connect(broker.service_url)
    yield client
    with suppress(pulsar.AlreadyClosed):  # tests that stop the broker close it
        client.close()


@pytest.fixture
def topic() -> str:
    return f"persistent://public/default/{uuid4().hex}"


def why(broker: RunningBroker, topic: str, subscription: str) -> dict[str, Any]:
    """Return why the subscription delivers nothing."""
    path = f"{path_of(topic)}/subscription/{subscription}/whyNotDelivering"
    answer = Admin(broker).get(path)
    assert answer.status == 200, answer.body
    return dict(answer.json)


def await_blocker(
    broker: RunningBroker, topic: str, subscription: str, blocker: str
) -> dict[str, Any]:
    """Wait until this is why the subscription delivers nothing; return what is said about it."""
    found: dict[str, Any] = {}

    def is_found() -> bool:
        found.clear()
        found.update(why(broker, topic, subscription))
        return bool(found["blocker"] == blocker)

    await_true(is_found, f"{blocker} is why nothing is delivered, but {found}")
    return found


def check_all_else_goes_on(
    broker: RunningBroker, client: pulsar.Client, topic: str, count: int
) -> None:
    """Publish, consume what is here, and ask for everything that an operator looks at."""
    other = f"{topic}-other"
    consumer = client.subscribe(other, "sub")
    publish(client, other, FEW)
    assert texts(take(consumer, len(FEW))) == FEW
    consumer.close()
    tail = client.subscribe(topic, f"tail-{count}")
    publish(client, topic, [f"more{count}"])
    assert texts(take(tail, 1)) == [f"more{count}"]
    tail.close()
    admin = Admin(broker)
    assert admin.get("brokers/health").body == b"ok"
    assert admin.get("brokers/ready").status == 200
    assert "brk_ledgeroffloader_offload_error" in broker.metrics
    for page in ("stats?getPreciseBacklog=true", "internalStats", "offload"):
        assert admin.get(f"{path_of(topic)}/{page}").status == 200


@pytest.mark.parametrize("sub_type", [pulsar.ConsumerType.Shared, pulsar.ConsumerType.Exclusive])
def test_a_store_that_refuses_connections(
    broker: RunningBroker, client: pulsar.Client, gate: Gate, topic: str,
    sub_type: pulsar.ConsumerType,
) -> None:  # fmt: skip
    """Delivery of what is there waits, and goes on by itself when the store is back."""
    publish(client, topic, FEW)
    await_moved(broker, topic)
    gate.refuse()
    consumer = client.subscribe(topic, "sub", sub_type, initial_position=EARLIEST)
    said = await_blocker(broker, topic, "sub", "read_error")
    assert str(gate.port) in said["readsFrom"] and str(gate.port) in said["readError"]
    check_all_else_goes_on(broker, client, topic, 1)
    gate.reopen()
    assert texts(take(consumer, len(FEW) + 1)) == [*FEW, "more1"]
    await_true(lambda: why(broker, topic, "sub")["blocker"] != "read_error", "it is read again")
    publish(client, topic, FEW)
    await_moved(broker, topic)
    assert read_all(client, topic) == [*FEW, "more1", *FEW]
    assert "Traceback" not in broker.log


def test_a_store_that_hangs(
    broker: RunningBroker, client: pulsar.Client, gate: Gate, topic: str
) -> None:
    publish(client, topic, FEW)
    await_moved(broker, topic)
    gate.hang()
    consumer = client.subscribe(topic, "sub", initial_position=EARLIEST)
    assert str(gate.port) in await_blocker(broker, topic, "sub", "reading")["readsFrom"]
    check_all_else_goes_on(broker, client, topic, 1)
    gate.reopen()
    assert texts(take(consumer, len(FEW) + 1)) == [*FEW, "more1"]
    assert "Traceback" not in broker.log


def test_a_stop_does_not_wait_for_a_store_that_hangs(
    broker: RunningBroker, client: pulsar.Client, gate: Gate, topic: str
) -> None:
    """Reads, uploads and deletions hang; the next start needs no store either."""
    publish(client, topic, FEW)
    await_moved(broker, topic)
    gate.hang()
    client.subscribe(topic, "sub", initial_position=EARLIEST)
    await_blocker(broker, topic, "sub", "reading")
    before = gate.accepted
    publish(client, f"{topic}-2", FEW)
    await_true(lambda: gate.accepted > before, "an upload hangs")
    client.close()
    assert broker.stop() == 0
    broker.start()
    assert "killed" not in broker.log
    client = connect(broker.service_url)
    check_all_else_goes_on(broker, client, topic, 1)
    gate.reopen()
    assert read_all(client, topic) == [*FEW, "more1"]
    client.close()
    assert "Traceback" not in broker.log


def delete(broker: RunningBroker, topic: str, statuses: list[int]) -> None:
    """Delete a topic, and note the answer; none comes if the broker is stopped before."""
    with suppress(OSError, HTTPException):
        statuses.append(Admin(broker).delete(path_of(topic)).status)


def test_a_topic_is_deleted_although_the_store_refuses_connections(
    broker: RunningBroker, client: pulsar.Client, gate: Gate, endpoint: str, prefix: str,
    topic: str,
) -> None:  # fmt: skip
    """Its name is free at once; its objects are listed, and the log names them."""
    publish(client, topic, FEW)
    moved = await_moved(broker, topic)
    gate.refuse()
    assert Admin(broker).delete(path_of(topic)).status == 204
    publish(client, topic, ["new"])
    assert read_all(client, topic) == ["new"]
    gate.reopen()
    assert len(objects_of(endpoint, prefix, moved)) == len(moved)
    assert f"{len(moved)} objects of" in broker.log and str(gate.port) in broker.log
    broker.restart()
    assert read_all(connect(broker.service_url), topic) == ["new"]
    assert "Traceback" not in broker.log


def test_a_deletion_that_a_stop_interrupts_goes_on_after_the_next_start(
    broker: RunningBroker, client: pulsar.Client, gate: Gate, endpoint: str, prefix: str,
    topic: str,
) -> None:  # fmt: skip
    """Neither the broker nor its stop waits for a store that hangs; nothing is left in the end."""
    publish(client, topic, FEW)
    moved = await_moved(broker, topic)
    assert len(objects_of(endpoint, prefix, moved)) == len(moved)
    gate.hang()
    before, statuses = gate.accepted, list[int]()
    deleting = Thread(target=delete, args=(broker, topic, statuses))
    deleting.start()
    await_true(lambda: gate.accepted > before, "the store is asked to delete")
    check_all_else_goes_on(broker, client, f"{topic}-else", 1)
    client.close()
    assert broker.stop() == 0
    deleting.join()
    gate.reopen()
    broker.start()
    await_true(lambda: not objects_of(endpoint, prefix, moved), "no object is left")
    client = connect(broker.service_url)
    publish(client, topic, ["new"])
    assert read_all(client, topic) == ["new"]
    client.close()
    assert "Traceback" not in broker.log
