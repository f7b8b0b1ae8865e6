"""One persistent topic as a whole: compaction, offloading, termination, properties."""

from typing import Any

from magnetar_broker.base.topic_properties import of_users
from magnetar_broker.broker import Broker
from magnetar_broker.server.admin.operations.loading import loaded
from magnetar_broker.server.admin.refusals import bounded
from magnetar_broker.server.http.messages import Refused
from magnetar_broker.tiering.topic_offloading import OffloadRunning
from magnetar_broker.topic.topic_properties import change_properties
from magnetar_proto.names import TopicName

Properties = dict[str, str]


async def start_compaction(broker: Broker, name: TopicName) -> None:
    """Start a compaction; 409 if one is already running."""
    topic = await loaded(broker, name)
    if not await topic.compaction.start():
        raise Refused(409, f"{name} is being compacted: retry when that has ended")


async def compaction_status(broker: Broker, name: TopicName) -> dict[str, Any]:
    """Return the status of the last compaction since the topic was loaded, as JSON."""
    compaction = (await loaded(broker, name)).compaction
    return {"status": str(compaction.status), "lastError": compaction.last_error}


async def start_offload(broker: Broker, name: TopicName, ledger: int, entry: int) -> None:
    """Start to offload the ledgers before a position; 409 if that is already running."""
    topic = await loaded(broker, name)
    try:
        topic.offloading.start((ledger, entry))
    except OffloadRunning as error:
        raise Refused(409, f"{name} is being offloaded: retry when that has ended") from error


async def offload_status(broker: Broker, name: TopicName) -> dict[str, Any]:
    """Return the status of the last offload since the topic was loaded, as JSON."""
    found = (await loaded(broker, name)).offloading.status()
    return {
        "status": str(found.state),
        "lastError": found.last_error,
        "firstUnoffloadedMessage": _message_id(*found.first_not_offloaded),
    }


async def terminate(broker: Broker, name: TopicName) -> dict[str, int]:
    """Terminate the topic, durably; return the id of its last message, as JSON."""
    last = await (await loaded(broker, name)).terminate()
    return _message_id(last.ledger, last.entry)


async def properties(broker: Broker, name: TopicName) -> Properties:
    """Return the properties that users have set."""
    return of_users((await loaded(broker, name)).log.record.properties)


async def add_properties(broker: Broker, name: TopicName, new: Properties) -> None:
    """Add properties; those that exist get the new values."""
    await change_properties(await loaded(broker, name), lambda old: bounded(old | new))


async def remove_property(broker: Broker, name: TopicName, key: str | None) -> None:
    """Remove one property; it need not exist."""
    await change_properties(
        await loaded(broker, name),
        lambda old: {name: value for name, value in old.items() if name != key},
    )


def _message_id(ledger: int, entry: int) -> dict[str, int]:
    """Return the id of a message that is not of a batch, as JSON."""
    return {
        "ledgerId": ledger,
        "entryId": entry,
        "partitionIndex": -1,
        "batchIndex": -1,
        "batchSize": 0,
    }
