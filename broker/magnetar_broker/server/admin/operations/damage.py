"""The damaged entries of one topic, and all damage that a process has found."""

from collections.abc import Sequence
from typing import Any

from magnetar_broker.base.metadata_keys import topic_of
from magnetar_broker.broker import Broker
from magnetar_broker.damage.looking import Place, damage_of, look_at
from magnetar_broker.damage.skip_damaged import REQUESTED, skip_damaged
from magnetar_broker.server.admin.operations.loading import loaded
from magnetar_proto.names import TopicName
from magnetar_storage.log.damage import Damage

Json = dict[str, Any]


async def subscriptions(broker: Broker, name: TopicName) -> list[str]:
    """Return the names of the durable subscriptions of a topic."""
    return [one.name for one in (await loaded(broker, name)).subscriptions.values() if one.durable]


async def damaged(
    broker: Broker, name: TopicName, whole: bool, places: Sequence[Place]
) -> list[Json]:
    """Return the entries of a topic that cannot be read; `whole` is as for `damage_of`.

    `places` is the damage that other processes have found.
    """
    topic = await loaded(broker, name)
    await look_at(topic.log, places)
    return [as_json(one) for one in await damage_of(topic, whole)]


async def set_aside(broker: Broker, name: TopicName) -> list[Json]:
    """Return the entries of a topic that were set aside and are still listed."""
    topic = await loaded(broker, name)
    return [
        {
            "topic": str(name),
            "ledgerId": segment.id,
            "firstEntryId": first,
            "lastEntryId": behind - 1,
            "entries": behind - first,
        }
        for segment in topic.log.segments
        for first, behind in segment.lost
    ]


async def skip(broker: Broker, name: TopicName, whole: bool, places: Sequence[Place]) -> list[Json]:
    """Set aside the entries that `damaged` returns, and return them; durable on return."""
    topic = await loaded(broker, name)
    await look_at(topic.log, places)
    skipped = await skip_damaged(topic, whole, REQUESTED)
    return [as_json(one) for one in skipped]


async def known(broker: Broker) -> list[Json]:
    """Return the damage that the process has found since its start, and that was not set aside."""
    return [as_json(one) for one in broker.engine.damage]


def as_json(damage: Damage) -> Json:
    """Return a range of damaged entries in the form of the REST API."""
    return {
        "topic": topic_of(damage.log),
        "ledgerId": damage.segment,
        "firstEntryId": damage.first,
        "lastEntryId": damage.last,
        "entries": damage.entries,
        "why": damage.why,
        "file": damage.file,
        "byte": damage.offset,
        "foundTimestamp": damage.found_ms,
    }
