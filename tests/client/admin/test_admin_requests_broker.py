"""Typed requests of every kind, on a real broker."""

import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest

import magnetar
from client.admin.test_admin_requests import NAMES, POLICY_VALUES
from client.receiving import TIMEOUT_S, take
from fakes.client_clock import ManualClock
from magnetar.admin.api import AsyncAdmin, Refused, connect, connect_async
from magnetar.admin.requests import (
    brokers,
    dead_letters,
    messages,
    namespaces,
    permissions,
    policies,
    schemas,
    subscriptions,
    tenants,
    topics,
    transactions,
)
from magnetar.admin.requests.messages import StoredMessage
from magnetar.schema import SchemaInfo
from running_broker import RunningBroker


@pytest.fixture
async def admin(broker: RunningBroker) -> AsyncIterator[AsyncAdmin]:
    async with connect_async(broker.http_url) as made:
        yield made


@pytest.fixture
def topic() -> str:
    return f"persistent://public/default/requests-{uuid.uuid4().hex[:10]}"


@pytest.fixture
async def namespace(admin: AsyncAdmin) -> str:
    name = f"public/n-{uuid.uuid4().hex[:10]}"
    await admin(namespaces.create(name))
    return name


@pytest.mark.parametrize("name", NAMES)
async def test_policies_are_answered_as_they_were_set(
    admin: AsyncAdmin, namespace: str, name: str
) -> None:
    policy: Any = NAMES[name]
    value = POLICY_VALUES.get(name, 5)
    topic = f"persistent://{namespace}/one"
    await admin(topics.create(topic))
    for of, segment, removable in zip(
        (namespace, topic), (policy.of_namespace, policy.of_topic), policy.removable, strict=True
    ):
        if segment is None:
            continue
        before = await admin(policy.get(of))
        await admin(policy.set(of, value))
        assert await admin(policy.get(of)) == value != before
        if of == topic:
            assert await admin(policy.get(of, applied=True)) == value
        if removable:
            await admin(policy.remove(of))
            assert await admin(policy.get(of)) == before


async def test_policies_and_where_they_come_from(admin: AsyncAdmin, namespace: str) -> None:
    topic = f"persistent://{namespace}/one"
    await admin(topics.create(topic))
    await admin(policies.MESSAGE_TTL.set(namespace, 60))
    await admin(policies.RETENTION.set(topic, policies.Retention(5, -1)))
    assert await admin(policies.MESSAGE_TTL.get(topic)) is None
    assert await admin(policies.MESSAGE_TTL.get(topic, applied=True)) == 60
    explained = await admin(topics.explain_policies(topic))
    assert explained["retention"]["value"]["retentionTimeInMinutes"] == 5
    assert explained.keys() >= (await admin(namespaces.explain_policies(namespace))).keys() & {
        "retention"
    }
    assert await admin(topics.explain_retention(topic))
    await admin(topics.remove_policies(topic))
    assert await admin(policies.RETENTION.get(topic)) is None


async def test_messages_are_shown(admin: AsyncAdmin, client: magnetar.Client, topic: str) -> None:
    await client.subscribe(topic, "s")
    single = await client.producer(topic, batching=None, name="p", compression="lz4")
    first = await single.send(
        b"one" * 100, key="k", properties={"a": "b"}, event_time_ms=1_700_000_000_123
    )
    batch = await (await client.producer(topic)).send_batch(
        [magnetar.Outgoing(b"", is_null=True, key="x"), b"three"]
    )
    [shown] = await admin(messages.get(topic, first.ledger, first.entry))
    assert shown.publish_time_ms > 1_700_000_000_000
    assert shown == StoredMessage(
        magnetar.MessageId(first.ledger, first.entry), b"one" * 100, "k", {"a": "b"},
        shown.publish_time_ms, 1_700_000_000_123, "p", 0,
    )  # fmt: skip
    assert await admin(messages.peek(topic, "s")) == [shown]
    assert await admin(messages.examine(topic)) == [shown]
    null, three = await admin(messages.examine(topic, from_end=True))
    assert (null.value, null.is_null, null.key) == (b"", True, "x")
    assert (three.value, three.is_null, three.id[:3]) == (b"three", False, batch[1][:3])
    last = await admin(messages.last_id(topic))
    assert (last.ledger, last.entry) == batch[1][:2]
    found = await admin(messages.id_at(topic, shown.publish_time_ms))
    assert (found.ledger, found.entry) == first[:2]
    assert await admin(messages.bytes_from(topic)) > 0
    by_key = await admin(messages.search(topic, key="x"))
    assert [one.id[:3] for one in by_key.messages] == [batch[0][:3]]
    by_property = await admin(messages.search(topic, property="a=b", limit=1, payload=3))
    assert [one.value for one in by_property.messages] == [b"one"]
    assert by_property.next is not None
    rest = await admin(messages.search(topic, property="a=b", start=by_property.next))
    assert (rest.messages, rest.next) == ([], None)


async def test_subscriptions(admin: AsyncAdmin, client: magnetar.Client, topic: str) -> None:
    producer = await client.producer(topic, batching=None)
    ids = await producer.send_batch([b"%d" % number for number in range(5)])
    await admin(subscriptions.create(topic, "all", magnetar.EARLIEST))
    await admin(subscriptions.set_properties(topic, "all", {"owner": "shop"}))
    assert await admin(subscriptions.properties(topic, "all")) == {"owner": "shop"}
    await admin(subscriptions.skip(topic, "all", 2))
    assert (await admin(topics.subscriptions_backlog(topic)))["totalMessages"] == 5
    found = await admin(subscriptions.analyze_backlog(topic, "all"))
    assert found["entries"] == 3
    await admin(subscriptions.reset_to(topic, "all", ids[1]))
    assert (await admin(messages.peek(topic, "all")))[0].value == b"1"
    why = await admin(subscriptions.why_not_delivering(topic, "all"))
    assert "consumer" in why["why"]
    await client.subscribe(topic, "keys", type="key_shared", consumer_name="c")
    found = await admin(subscriptions.consumer_of_key(topic, "keys", "a"))
    assert found["consumer"]["consumerName"] == "c"
    assert await admin(subscriptions.draining_hashes(topic, "keys"))
    nothing: Any = {"damaged": [], "setAside": []}
    assert await admin(topics.damaged(topic, scan=True)) == nothing
    assert await admin(topics.skip_damaged(topic)) == {"setAside": []}
    await admin(subscriptions.expire(topic, "all", 3600))
    await admin(topics.expire(topic, 3600))
    await admin(namespaces.clear_backlog("public/default", "all"))
    assert (await admin(topics.stats(topic)))["subscriptions"]["all"]["msgBacklog"] == 0
    await admin(namespaces.unsubscribe("public/default", "all"))
    assert await admin(subscriptions.names(topic)) == ["keys"]


@pytest.mark.parametrize("name", ["my/sub", "a b", "a+b", "é%x", "%2F", "%252F", "50%"])
async def test_subscriptions_of_any_name(admin: AsyncAdmin, topic: str, name: str) -> None:
    await admin(subscriptions.create(topic, name, magnetar.EARLIEST))
    assert await admin(subscriptions.names(topic)) == [name]
    await admin(subscriptions.set_properties(topic, name, {"a": "b"}))
    assert await admin(subscriptions.properties(topic, name)) == {"a": "b"}
    await admin(subscriptions.delete(topic, name))
    assert await admin(subscriptions.names(topic)) == []


async def test_topics(admin: AsyncAdmin, client: magnetar.Client, topic: str) -> None:
    await (await client.producer(topic)).send(b"one")
    await admin(topics.set_properties(topic, {"a": "b", "c": "d"}))
    await admin(topics.remove_property(topic, "c"))
    assert await admin(topics.properties(topic)) == {"a": "b"}
    assert (await admin(topics.internal_stats(topic)))["numberOfEntries"] == 1
    assert "brokerUrl" in await admin(topics.owner(topic))
    boundaries = (await admin(namespaces.bundles("public/default")))["boundaries"]
    assert set((await admin(topics.bundle(topic))).split("_")) <= set(boundaries)
    assert (await admin(topics.compaction(topic)))["status"] == "NOT_RUN"
    assert (await admin(topics.offloading(topic)))["status"] == "NOT_RUN"
    await admin(topics.offload(topic, magnetar.MessageId(0, 0)))
    assert (await admin(topics.offloading(topic)))["status"] != "NOT_RUN"
    await admin(topics.trim(topic))
    await admin(topics.truncate(topic))
    await admin(topics.create(f"{topic}-p", partitions=2))
    stats = await admin(topics.partitioned_stats(f"{topic}-p", each=True))
    assert len(stats["partitions"]) == 2
    await admin(topics.create_missed_partitions(f"{topic}-p"))


async def test_tenants_and_namespaces(admin: AsyncAdmin, namespace: str) -> None:
    tenant = f"t-{uuid.uuid4().hex[:10]}"
    await admin(tenants.create(tenant, admins=["a"]))
    await admin(tenants.update(tenant, admins=["b", "a"]))
    assert (await admin(tenants.get(tenant))).admins == ["a", "b"]
    await admin(tenants.delete(tenant))
    await admin(namespaces.set_properties(namespace, {"a": "b"}))
    assert await admin(namespaces.properties(namespace)) == {"a": "b"}
    await admin(namespaces.remove_properties(namespace))
    assert await admin(namespaces.properties(namespace)) == {}
    boundaries = (await admin(namespaces.bundles(namespace)))["boundaries"]
    await admin(namespaces.unload(namespace, f"{boundaries[0]}_{boundaries[1]}"))
    await admin(namespaces.unload(namespace))


async def test_brokers(admin: AsyncAdmin) -> None:
    name, *_ = await admin(brokers.names())
    await admin(brokers.health())
    assert (await admin(brokers.health_details()))["status"] == "ok"
    assert await admin(brokers.version())
    assert "brokerId" in await admin(brokers.leader())
    assert await admin(brokers.bundles("standalone", name)) is not None
    setting = "ttlDurationDefaultInSeconds"
    assert setting in await admin(brokers.changeable())
    before = (await admin(brokers.settings()))[setting]
    await admin(brokers.change(setting, "77"))
    assert (await admin(brokers.settings()))[setting] == "77"
    assert (await admin(brokers.changed()))[setting] == "77"
    await admin(brokers.undo_change(setting))
    assert (await admin(brokers.settings()))[setting] == before
    assert (await admin(brokers.explain_settings()))[setting]["default"] == before
    await admin(brokers.check_backlog_quotas())
    with pytest.raises(Refused):
        await admin(brokers.change("noSuchSetting", "1"))


async def test_schemas(admin: AsyncAdmin, topic: str) -> None:
    def record(*fields: dict[str, Any]) -> SchemaInfo:
        return magnetar.schema.Avro(
            definition={"type": "record", "name": "R", "fields": list(fields)}
        ).info

    first = record({"name": "a", "type": "int"})
    second = record({"name": "a", "type": "int"}, {"name": "b", "type": "int", "default": 1})
    assert await admin(schemas.metadata(topic)) is None
    assert await admin(schemas.upload(topic, first)) == 0
    assert await admin(schemas.is_compatible(topic, second))
    with pytest.raises(Refused, match="a"):
        await admin(schemas.is_compatible(topic, record({"name": "a", "type": "string"})))
    assert await admin(schemas.upload(topic, second)) == 1
    assert await admin(schemas.version_of(topic, first)) == 0
    latest = await admin(schemas.get(topic))
    assert (latest.number, latest.schema.type_name, latest.schema.definition) == (
        1, "AVRO", second.definition,
    )  # fmt: skip
    assert latest.time_ms > 1_700_000_000_000
    assert (await admin(schemas.get(topic, 0))).schema.definition == first.definition
    assert [one.number for one in await admin(schemas.versions(topic))] == [0, 1]
    assert await admin(schemas.metadata(topic)) is not None
    with pytest.raises(Refused):
        await admin(schemas.upload(topic, magnetar.schema.String().info))
    await admin(schemas.delete(topic, force=True))
    with pytest.raises(Refused):
        await admin(schemas.get(topic))
    pairs = magnetar.schema.KeyValue(
        magnetar.schema.String(),
        magnetar.schema.Avro(definition={"type": "record", "name": "R", "fields": []}),
    ).info
    await admin(schemas.upload(topic, pairs))
    stored = (await admin(schemas.get(topic))).schema
    assert (stored.type, stored.definition, stored.properties) == (
        pairs.type,
        pairs.definition,
        pairs.properties,
    )


async def test_permissions(admin: AsyncAdmin, namespace: str) -> None:
    topic = f"persistent://{namespace}/one"
    await admin(topics.create(topic))
    await admin(permissions.grant(namespace, "clerk", ["produce", "consume"]))
    assert await admin(permissions.of_namespace(namespace)) == {"clerk": ["consume", "produce"]}
    await admin(permissions.grant_on_topic(topic, "guest", ["consume"]))
    assert (await admin(permissions.of_topic(topic)))["guest"] == ["consume"]
    await admin(permissions.revoke_on_topic(topic, "guest"))
    await admin(permissions.revoke(namespace, "clerk"))
    assert await admin(permissions.of_topic(topic)) == {}
    await admin(permissions.grant_subscription(namespace, "billing", ["b", "a"]))
    assert await admin(permissions.of_subscriptions(namespace)) == {"billing": ["a", "b"]}
    await admin(permissions.revoke_subscription(namespace, "billing", "a"))
    assert await admin(permissions.of_subscriptions(namespace)) == {"billing": ["b"]}


async def test_transactions(admin: AsyncAdmin, client: magnetar.Client, topic: str) -> None:
    assert await admin(transactions.coordinators())
    assert await admin(transactions.coordinator_stats())
    producer = await client.producer(topic)
    message_id = await producer.send(b"one")
    consumer = await client.subscribe(topic, "s", initial_position="earliest")
    [message] = await take(consumer, 1)
    txn = client.transaction()
    await txn.begin()
    consumer.ack(message, txn=txn)
    await producer.send(b"two", txn=txn)
    await txn.flush()
    assert topic in (await admin(transactions.get(txn.id)))["producedPartitions"]
    assert "({},{})".format(*txn.id) in await admin(transactions.slow(0))
    assert (await admin(transactions.of_topic(topic)))["state"]
    assert await admin(transactions.in_topic(topic, txn.id))
    assert (await admin(transactions.of_subscription(topic, "s")))["state"]
    assert await admin(transactions.in_subscription(topic, "s", txn.id))
    at = (message_id.ledger, message_id.entry)
    assert (await admin(transactions.of_entry(topic, "s", *at)))["state"]
    await admin(transactions.abort(txn.id))
    with pytest.raises(magnetar.TransactionOver):
        await txn.commit()


async def test_dead_letters(
    admin: AsyncAdmin, broker: RunningBroker, clock: ManualClock, topic: str
) -> None:
    async with magnetar.connect(broker.service_url, clock=clock) as client:
        await become_dead_letters_and_come_back(admin, client, clock, topic)


async def become_dead_letters_and_come_back(
    admin: AsyncAdmin, client: magnetar.Client, clock: ManualClock, topic: str
) -> None:
    policy = magnetar.DeadLetterPolicy(max_redeliveries=1, initial_subscription="kept")
    consumer = await client.subscribe(
        topic, "s", type="shared", dead_letter=policy, nack_delay_s=0.01
    )
    await (await client.producer(topic)).send(b"poison", key="k")
    kept = None
    while kept is None:
        [message] = await take(consumer, 1)
        consumer.nack(message)
        clock.advance(0.02)
        if message.redelivery_count == 1:
            kept = await client.subscribe(f"{topic}-s-DLQ", "kept", initial_position="earliest")
    assert (await kept.receive(TIMEOUT_S)).value == b"poison"
    [letters] = await admin(dead_letters.topics(topic, "s"))
    assert (letters["kind"], letters["messages"]) == ("DLQ", 1)
    found = await admin(dead_letters.messages(topic, "s", key="k"))
    assert [one.value for one in found.messages] == [b"poison"]
    counted = await admin(dead_letters.replay(topic, "s", dry_run=True))
    assert (counted["matched"], counted["replayed"]) == (1, 0)
    replayed = await admin(dead_letters.replay(topic, "s", key="k"))
    assert replayed["replayed"] == 1
    assert (await take(consumer, 1))[0].value == b"poison"


def test_blocking(broker: RunningBroker, topic: str) -> None:
    with connect(broker.http_url) as admin:
        admin(topics.create(topic))
        admin(policies.DEDUPLICATION.set(topic, True))
        assert admin(policies.DEDUPLICATION.get(topic)) is True
        assert admin(messages.search(topic)).messages == []
