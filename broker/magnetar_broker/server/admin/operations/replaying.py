"""Storing messages in a topic again."""

from asyncio import Lock
from weakref import WeakValueDictionary

from magnetar_broker.broker import Broker
from magnetar_broker.server.clients.in_process_client import (
    ClientDisconnected,
    InProcessClient,
    Unexpected,
)
from magnetar_broker.server.http.messages import Refused
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.names import TopicName

NAME = "magnetar-replay"
"""The name of the producer.  All replays use one name: with deduplication on, the broker remembers
every producer's name."""
ADDRESS = "replay:0"

_turns: WeakValueDictionary[tuple[int, TopicName], Lock] = WeakValueDictionary()
"""One lock for each broker and topic: only one producer at a time can have the name."""


async def store(broker: Broker, name: TopicName, messages: list[tuple[bytes, bytes]]) -> int:
    """Publish messages (metadata, payload) as a producer of this broker; return how many.

    Each message is durable before the next is published.  All rules for producers apply: if a
    message is refused, those before it stay stored, and 412 is raised if it was the first.
    """
    turn = _turns.setdefault((id(broker), name), Lock())
    async with turn:  # promise[async with turn -> if turn]: replays of one topic take turns
        return await _store(broker, name, messages)


async def _store(broker: Broker, name: TopicName, messages: list[tuple[bytes, bytes]]) -> int:
    client, stored = InProcessClient(broker, ADDRESS), 0
    try:
        await client.open_producer(str(name), NAME)
        for metadata, payload in messages:
            await client.publish(pb.MessageMetadata.FromString(metadata), payload)
            stored += 1
    except (Unexpected, ClientDisconnected) as error:
        if not stored:
            raise Refused(412, f"{name} takes no messages: {error}") from error
    finally:
        client.leave()
    return stored
