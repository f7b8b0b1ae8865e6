"""The index and the broker's time of messages, as our client and the official one get them."""

import uuid
from collections.abc import Callable

import pulsar

import magnetar
from admin_http import Admin
from magnetar.admin.api import connect_async
from magnetar.admin.requests import messages as stored_messages
from magnetar_broker.config.domains import MetadataInterceptor
from official import connect, publish, take, texts
from running_broker import RunningBroker

TIMEOUT_S = 120.0
INTERCEPTORS = ",".join(MetadataInterceptor)
Make = Callable[..., RunningBroker]


def new_topic() -> str:
    return f"persistent://public/default/t-{uuid.uuid4().hex[:10]}"


def made(make_broker: Make, exposing: bool = True) -> RunningBroker:
    return make_broker(
        brokerEntryMetadataInterceptors=INTERCEPTORS,
        exposingBrokerEntryMetadataToClientEnabled=str(exposing).lower(),
    )


async def read(broker: RunningBroker, topic: str) -> list[magnetar.Message]:
    """Read all messages of a topic."""
    found: list[magnetar.Message] = []
    async with magnetar.connect(broker.service_url) as client:
        reader = await client.reader(topic)
        while await reader.has_message_available():
            found += await reader.read_batch(timeout_s=TIMEOUT_S)
    return found


async def write(broker: RunningBroker, topic: str) -> None:
    """Publish two messages, a batch of three, and one in chunks."""
    async with magnetar.connect(broker.service_url) as client:
        single = await client.producer(topic, batching=None, chunking=True)
        for value in (b"a", b"b"):
            await single.send(value)
        batching = await client.producer(topic)
        await batching.send_batch([b"c", b"d", b"e"])
        await single.send(bytes(6 << 20))


def indexes(messages: list[magnetar.Message]) -> list[int | None]:
    return [message.index for message in messages]


async def test_counting_goes_on_over_restarts_kills_and_unloads(make_broker: Make) -> None:
    broker, topic = made(make_broker), new_topic()
    await write(broker, topic)
    first = [0, 1, 2, 3, 4, 6]  # the last one was two chunks
    assert indexes(await read(broker, topic)) == first
    broker.kill()
    broker.start()
    await write(broker, topic)
    then = [7, 8, 9, 10, 11, 13]
    assert indexes(await read(broker, topic)) == first + then
    path = topic.replace("://", "/")
    assert Admin(broker).put(f"{path}/unload").status == 204
    broker.stop()
    broker.start()
    await write(broker, topic)
    found = await read(broker, topic)
    assert indexes(found) == [*first, *then, 14, 15, 16, 17, 18, 20]
    assert [one.data for one in found[-6:-1]] == [b"a", b"b", b"c", b"d", b"e"]
    times = [one.broker_publish_time_ms for one in found]
    assert None not in times and sorted(times) == times  # type: ignore[type-var]


async def test_messages_are_shown_with_it_over_rest(make_broker: Make) -> None:
    broker, topic = made(make_broker), new_topic()
    await write(broker, topic)
    messages = await read(broker, topic)
    async with connect_async(broker.http_url) as admin:
        for message in messages[:5]:
            shown = await admin(stored_messages.get(topic, message.id.ledger, message.id.entry))
            one = shown[max(message.batch_index, 0)]
            assert (one.index, one.broker_publish_time_ms) == (
                message.index, message.broker_publish_time_ms,
            )  # fmt: skip
            at = await admin(stored_messages.id_of_index(topic, one.index or 0))
            assert (at.ledger, at.entry) == (message.id.ledger, message.id.entry)


async def test_it_can_be_switched_on_off_and_hidden(make_broker: Make) -> None:
    broker, topic = make_broker(), new_topic()
    await write(broker, topic)
    none = [None] * 6
    assert indexes(await read(broker, topic)) == none
    broker.stop()
    broker.settings |= {
        "brokerEntryMetadataInterceptors": MetadataInterceptor.INDEX,
        "exposingBrokerEntryMetadataToClientEnabled": "true",
    }
    broker.start()
    await write(broker, topic)
    found = await read(broker, topic)
    assert indexes(found) == [*none, 7, 8, 9, 10, 11, 13]
    assert [one.broker_publish_time_ms for one in found] == none * 2
    broker.stop()
    broker.settings["exposingBrokerEntryMetadataToClientEnabled"] = "false"
    broker.start()
    hidden = await read(broker, topic)
    assert indexes(hidden) == none * 2
    assert [one.data for one in hidden] == [one.data for one in found]


async def test_the_official_client_gets_what_was_sent(make_broker: Make) -> None:
    broker, topic = made(make_broker), new_topic()
    client = connect(broker.service_url)
    publish(client.create_producer(topic), "one", "two")
    broker.kill()
    broker.start()
    publish(client.create_producer(topic), "three")
    consumer = client.subscribe(topic, "s", initial_position=pulsar.InitialPosition.Earliest)
    assert texts(take(consumer, 3)) == ["one", "two", "three"]
    assert indexes(await read(broker, topic)) == [0, 1, 2]
    client.close()


def test_a_class_that_is_none_stops_the_start(make_broker: Make) -> None:
    broker = make_broker()
    broker.stop()
    broker.settings["brokerEntryMetadataInterceptors"] = "org.example.Mine"
    assert not broker.try_start()
    assert "org.example.Mine" in broker.log_of_start
    assert all(name in broker.log_of_start for name in MetadataInterceptor)
