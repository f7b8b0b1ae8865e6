"""The damaged entries of one topic, and of all that a process has found."""

from collections.abc import Sequence
from typing import Any

from magnetar_broker.base.metadata_keys import topic_of
from magnetar_broker.broker import Broker
from magnetar_broker.damage.looking import Place, damage_of, look_at
from magnetar_broker.damage.skipping import REQUESTED, skip_damaged
from magnetar_broker.server.admin.operations.loading import loaded
from magnetar_proto.names import TopicName
from magnetar_storage.log.damage import Damage

Json = dict[str, Any]


async def subscriptions(broker: Broker, name: TopicName) -> list[str]:
    """The names of the durable subscriptions of a topic."""
    return [one.name for one in (await loaded(broker, name)).subscriptions.values() if one.durable]


async def damaged(
    broker: Broker, name: TopicName, whole: bool, places: Sequence[Place]
) -> list[Json]:
    """The entries of a topic that cannot be read; `whole` as for `damage_of`.

    `places` are what other processes have found.
    """
    topic = await loaded(broker, name)
    await look_at(topic.log, places)
    return [as_json(one) for one in await damage_of(topic, whole)]


async def set_aside(broker: Broker, name: TopicName) -> list[Json]:
    """The entries of a topic that were set aside and are listed still."""
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
    """Set the entries aside that `damaged` names; durable on return, which names them."""
    topic = await loaded(broker, name)
    await look_at(topic.log, places)
    skipped = await skip_damaged(topic, whole, REQUESTED)
    return [as_json(one) for one in skipped]


async def known(broker: Broker) -> list[Json]:
    """The damage that the process has found since its start, and that was not set aside."""
    return [as_json(one) for one in broker.engine.damage]


def as_json(damage: Damage) -> Json:
    """A range of damaged entries, as the REST API names it."""
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
