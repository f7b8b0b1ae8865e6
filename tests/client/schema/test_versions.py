"""Schemas of writers: asked for once, waited for without loss, and forgotten if there are many."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import pytest

from fakes.client_entries import TOPIC, stored
from magnetar.base.errors import Closed, ConnectionLost, NotFound, OperationTimeout, Undecodable
from magnetar.consuming.inbox import Inbox
from magnetar.messages import Entry, Message
from magnetar.producing.batching import Sender
from magnetar.schema import Avro, SchemaInfo
from magnetar.schema.versions import MAX_BYTES, SchemaVersions, WriterSchemas
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.frames import FrameDecoder

OLD = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}
NEW = {"type": "record", "name": "R", "fields": [
    {"name": "b", "type": "string", "default": "new"}, {"name": "a", "type": "int"},
]}  # fmt: skip
VERSIONS = {b"0": OLD, b"1": NEW}


class Source:
    def taken(self, permits: int) -> None: ...


class Broker:
    """Answers questions about versions, when it is told to."""

    def __init__(self, failures: Sequence[Exception] = ()) -> None:
        self.asked: list[tuple[str, bytes]] = []
        self.may_answer = asyncio.Event()
        self._failures = list(failures)

    async def ask(self, topic: str, version: bytes) -> SchemaInfo:
        self.asked.append((topic, version))
        await self.may_answer.wait()
        if self._failures:
            raise self._failures.pop(0)
        return SchemaInfo(pb.Schema.Avro, json.dumps(VERSIONS[version]).encode())


def received(version: bytes, value: dict[str, Any], topic: str = TOPIC) -> list[Message[Any]]:
    encoded = Avro(definition=VERSIONS[version]).encode(value)
    frame = Sender(1, "p", schema_version=version).encode([encoded], 0, 1, 1 << 20)
    [(_, _, _, _, data)] = FrameDecoder(1 << 20).feed(frame)
    return Entry(topic, (1, 2, -1), data, source=Source()).messages()


def receiving(broker: Broker) -> Inbox[Message[Any]]:
    inbox: Inbox[Message[Any]] = Inbox()
    inbox.prepare = WriterSchemas(Avro(definition=NEW), SchemaVersions(broker.ask)).prepare
    return inbox


async def test_each_message_is_decoded_by_the_schema_it_was_written_with() -> None:
    broker = Broker()
    broker.may_answer.set()
    inbox = receiving(broker)
    for _ in range(2):
        inbox.put(received(b"0", {"a": 1}))
        inbox.put(received(b"1", {"a": 2, "b": "x"}, f"{TOPIC}-partition-3"))
        inbox.put(received(b"0", {"a": 3}, f"{TOPIC}-partition-4"))
        values = [message.value for message in await inbox.take(10, None)]
        assert values == [{"a": 1, "b": "new"}, {"a": 2, "b": "x"}, {"a": 3, "b": "new"}]
    assert sorted(broker.asked) == [(TOPIC, b"0"), (TOPIC, b"1")]


async def test_what_waits_for_its_schema_is_not_lost() -> None:
    broker = Broker()
    inbox = receiving(broker)
    inbox.put(received(b"0", {"a": 1}))
    with pytest.raises(OperationTimeout, match=r"schemas .* did not arrive within 0\.01 s"):
        await inbox.take(1, 0.01)
    waiting = asyncio.create_task(inbox.take(1, None))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    broker.may_answer.set()
    assert [message.value["a"] for message in await inbox.take(1, None)] == [1]


async def test_what_is_delivered_again_meanwhile_is_waited_for() -> None:
    broker = Broker()
    inbox = receiving(broker)
    [message] = received(b"0", {"a": 1})
    inbox.put([message])
    waiting = asyncio.create_task(inbox.take(1, None))
    await asyncio.sleep(0)
    inbox.drop(message.source)
    broker.may_answer.set()
    await asyncio.sleep(0)
    inbox.put(received(b"0", {"a": 2}))
    assert [one.value["a"] for one in await waiting] == [2]
    inbox.put(received(b"0", {"a": 3}))
    inbox.fail(Closed("over"))
    assert len(await inbox.take(1, None)) == 1
    with pytest.raises(Closed):
        await inbox.take(1, None)


async def test_failures_that_pass_are_raised_once_and_others_at_the_value() -> None:
    broker = Broker([ConnectionLost("gone"), NotFound(pb.TopicNotFound, "no such version")])
    broker.may_answer.set()
    inbox = receiving(broker)
    inbox.put(received(b"0", {"a": 1}))
    with pytest.raises(ConnectionLost):
        await inbox.take(1, None)
    [message] = await inbox.take(1, None)
    with pytest.raises(Undecodable, match="no such version"):
        _ = message.value
    inbox.put(received(b"1", {"a": 2, "b": ""}))
    assert [one.value["a"] for one in await inbox.take(1, None)] == [2]


async def test_definitions_that_are_too_many_are_forgotten() -> None:
    asked = []

    async def ask(topic: str, version: bytes) -> SchemaInfo:
        asked.append(version)
        return SchemaInfo(pb.Schema.Avro, bytes(MAX_BYTES // 2))

    versions = SchemaVersions(ask)
    for version in (b"0", b"1", b"0", b"2", b"0", b"1"):
        await versions.get((TOPIC, version))
    assert asked == [b"0", b"1", b"2", b"1"]


def test_messages_without_version_are_decoded_by_the_consumers_own() -> None:
    async def ask(topic: str, version: bytes) -> SchemaInfo:
        raise AssertionError("nothing to ask")

    schemas = WriterSchemas(Avro(definition=OLD), SchemaVersions(ask))
    messages = Entry(TOPIC, (1, 2, -1), stored([Avro(definition=OLD).encode({"a": 1})])).messages()
    assert schemas.prepare(messages) is None
    assert [message.value for message in messages] == [{"a": 1}]


def test_optional_packages_are_imported_when_they_are_used() -> None:
    program = (
        "import sys; from magnetar import schema; import magnetar.client; from dataclasses import "
        "make_dataclass; schema.Json(make_dataclass('R', [('a', int)])); "
        "assert not {'pydantic', 'fastavro'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
