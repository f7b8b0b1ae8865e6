"""Statistics of one topic, and of all topics that a process serves."""

import os
import resource
import sys
from typing import Any

from magnetar_broker.broker import Broker
from magnetar_broker.server.admin.operations.loading import loaded, subscription_of
from magnetar_broker.server.http.messages import Refused
from magnetar_broker.statistics.blockers import why_not_delivering
from magnetar_broker.statistics.brief import encoded
from magnetar_broker.statistics.internal import internal_info, internal_stats
from magnetar_broker.statistics.key_hashes import draining_with_ids, hash_of_key, queues_of
from magnetar_broker.statistics.subscription_stats import WantedStatistics
from magnetar_broker.statistics.topic_stats import UNUSED_NON_PERSISTENT, topic_stats
from magnetar_broker.topic.loaded_topics import AnyTopic
from magnetar_proto.names import TopicName
from magnetar_storage.runtime.execution import yield_turn

Json = dict[str, Any]
PAUSE_EVERY = 256
"""The number of topics after which other work of the broker runs."""


async def stats(broker: Broker, name: TopicName, *wanted: bool) -> Json:
    """Return the statistics of a topic; `wanted` are the fields of a `WantedStatistics`."""
    topic = await _present(broker, name)
    if topic is None:
        return UNUSED_NON_PERSISTENT
    return await topic_stats(topic, WantedStatistics(*wanted))


async def internal(broker: Broker, name: TopicName, metadata: bool) -> Json | None:
    """Return segments and cursors; None for a non-persistent topic that is not in use."""
    topic = await _present(broker, name)
    return None if topic is None else internal_stats(topic, metadata)


async def info(broker: Broker, name: TopicName) -> Json:
    """Return the stored record of a persistent topic."""
    return internal_info(await loaded(broker, name))


async def _present(broker: Broker, name: TopicName) -> AnyTopic | None:
    return await loaded(broker, name) if name.is_persistent else broker.topics.get(name)


# Subscriptions ------------------------------------------------------------------------------


async def why(broker: Broker, name: TopicName, subscription: str) -> Json | None:
    """Return why a subscription delivers nothing; None if the subscription does not exist."""
    topic = await loaded(broker, name)
    one = topic.subscriptions.get(subscription)
    if one is None:
        return None
    return await why_not_delivering(topic, one, broker.watchdog.stalled_seconds(one))


async def draining(broker: Broker, name: TopicName, subscription: str) -> Json:
    """Return the draining hashes of a Key_Shared subscription, with the messages that hold them."""
    one = await subscription_of(broker, name, subscription)
    queues = queues_of(one)
    if queues is None:
        raise _not_key_shared(name, subscription)
    return await draining_with_ids(one, queues)


async def key_hash(broker: Broker, name: TopicName, subscription: str, key: bytes) -> Json | None:
    """Return the consumer of a key's messages; None if the subscription does not exist."""
    topic = await loaded(broker, name)
    one = topic.subscriptions.get(subscription)
    if one is None:
        return None
    queues = queues_of(one)
    if queues is None:
        raise _not_key_shared(name, subscription)
    return hash_of_key(one, queues, key)


def _not_key_shared(name: TopicName, subscription: str) -> Refused:
    return Refused(
        412,
        f"subscription {subscription} of {name} is not Key_Shared: name one that has, or had last, "
        "Key_Shared consumers",
    )


# All topics of a process --------------------------------------------------------------------


async def loaded_names(broker: Broker, namespace: str) -> list[str]:
    """Return the names of the loaded topics, of one namespace or, if it is empty, of all."""
    topics = broker.topics.of_namespace(namespace) if namespace else broker.topics
    return [str(topic.name) for topic in topics if not topic.name.is_system]


async def brief(broker: Broker, names: list[str]) -> list[tuple[str, bytes]]:
    """Return some figures, as JSON, of those topics among `names` that this process serves."""
    present = (broker.topics.get(TopicName.parse(each)) for each in names)
    return await encoded((one for one in present if one is not None), broker.engine.clock)


async def load(broker: Broker) -> Json:
    """Return the load of the process: counts, rates of the last window, processor time, memory."""
    found: Json = dict.fromkeys(
        ("numTopics", "numProducers", "numConsumers", "numSubscriptions"), 0
    ) | dict.fromkeys(("msgRateIn", "msgThroughputIn", "msgRateOut", "msgThroughputOut"), 0.0)
    for number, topic in enumerate(broker.topics, 1):
        rates = topic.meter.rates
        found["numTopics"] += 1
        found["numProducers"] += len(topic.producers)
        found["numSubscriptions"] += len(topic.subscriptions)
        found["numConsumers"] += sum(len(one.consumers) for one in topic.subscriptions.values())
        for name, rate in zip(
            ("msgRateIn", "msgThroughputIn", "msgRateOut", "msgThroughputOut"), rates, strict=True
        ):
            found[name] += rate
        if number % PAUSE_EVERY == 0:
            await yield_turn(broker.engine.clock)
    used, times = resource.getrusage(resource.RUSAGE_SELF), os.times()
    unit = 1 if sys.platform == "darwin" else 1024
    return found | {
        "cpuSeconds": times.user + times.system,
        "startedMs": broker.started_ms,
        "nowMs": broker.engine.clock.now_ms(),
        "peakBytes": used.ru_maxrss * unit,
        "connections": broker.connections,
        "connectionsTotal": broker.connections_total,
    }
