"""The admin API for programs, blocking and with asyncio, on a real broker."""

import uuid
from typing import Any

import pytest

import magnetar
from magnetar.admin.api import NoAnswer, Refused, Request, connect, connect_async
from magnetar.admin.requests import namespaces, subscriptions, tenants, topics
from running_broker import RunningBroker

TIMEOUT_S = 60.0


def new_name() -> str:
    return f"api-{uuid.uuid4().hex[:10]}"


def test_tenants_and_namespaces(broker: RunningBroker) -> None:
    tenant = new_name()
    namespace = f"{tenant}/apps"
    with connect(broker.http_url) as admin:
        admin(tenants.create(tenant))
        assert tenant in admin(tenants.names())
        admin(namespaces.create(namespace))
        assert admin(namespaces.names(tenant)) == [namespace]
        assert isinstance(admin(namespaces.policies(namespace)), dict)
        admin(topics.create(f"{namespace}/one"))
        assert admin(namespaces.topics(namespace)) == [f"persistent://{namespace}/one"]
        with pytest.raises(Refused) as refusal:
            admin(namespaces.delete(namespace))
        assert refusal.value.status == 409
        admin(topics.delete(f"{namespace}/one"))
        admin(namespaces.delete(namespace))
        admin(tenants.delete(tenant))
        assert tenant not in admin(tenants.names())


async def test_topics_and_subscriptions(broker: RunningBroker) -> None:
    topic = f"persistent://public/default/{new_name()}"
    async with (
        connect_async(broker.http_url) as admin,
        magnetar.connect(broker.service_url) as client,
    ):
        await admin(topics.create(topic))
        assert await admin(topics.partitions(topic)) == 0
        await admin(subscriptions.create(topic, "s"))
        assert await admin(subscriptions.names(topic)) == ["s"]
        producer = await client.producer(topic)
        first = await producer.send(b"one")
        last = await producer.send(b"two")
        stats = await admin(topics.stats(topic))
        assert stats["subscriptions"]["s"]["msgBacklog"] == 2
        await admin(subscriptions.skip_all(topic, "s"))
        consumer = await client.subscribe(topic, "s")
        await admin(subscriptions.reset(topic, "s", 0))
        assert (await consumer.receive(TIMEOUT_S)).id == first
        await consumer.close()
        await admin(subscriptions.delete(topic, "s"))
        assert await admin(subscriptions.names(topic)) == []
        ended = await admin(topics.terminate(topic))
        assert (ended.ledger, ended.entry) == (last.ledger, last.entry)
        await producer.close()
        await admin(topics.unload(topic))
        await admin(topics.compact(topic))
        await admin(topics.delete(topic, force=True))


async def test_partitions(broker: RunningBroker) -> None:
    topic = new_name()
    async with connect_async(broker.http_url) as admin:
        await admin(topics.create(topic, partitions=2))
        await admin(topics.grow(topic, 3))
        assert await admin(topics.partitions(topic)) == 3
        path = f"/admin/v2/persistent/public/default/{topic}/partitions"
        assert (await admin(Request[Any]("GET", path)))["partitions"] == 3
        await admin(topics.delete(topic, partitioned=True))
        with pytest.raises(Refused):
            await admin(topics.grow(topic, 4))


def test_nobody_answers() -> None:
    with connect("http://127.0.0.1:1") as admin, pytest.raises(NoAnswer, match="cannot connect"):
        admin(tenants.names())
