"""Searches and replays: they yield to other work, and text need not be UTF-8."""

import asyncio
from base64 import b64decode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from admin_http import Admin
from fakes.memory_metadata import MemoryMetadata
from fakes.memory_store import MemoryStore
from magnetar_broker.broker import Broker
from magnetar_broker.config import Settings
from magnetar_broker.metrics.journal import JournalStats
from magnetar_broker.placement.ownership import SoleOwner
from magnetar_broker.server.admin.context import AdminContext
from magnetar_broker.server.admin.messages import replays
from magnetar_broker.server.admin.messages.replays import Replay
from magnetar_broker.server.admin.messages.searches import SearchRequest
from magnetar_broker.server.admin.operations import replaying, searching
from magnetar_broker.server.admin.owners import SoleProcess
from magnetar_broker.server.clients.in_process_client import InProcessClient, Unexpected
from magnetar_broker.server.processes.http_server import sole_context
from magnetar_broker.server.runtime.asyncio_runtime import LoopClock, LoopTasks
from magnetar_broker.server.runtime.loop_timer import LoopTimer
from magnetar_broker.standalone import Standalone, standalone
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.batch import encode_batch
from magnetar_proto.compression import compress
from magnetar_proto.entries import encode_entry, parse_metadata, text_bytes
from magnetar_proto.names import TopicName
from magnetar_storage.log.cache import EntryCache
from magnetar_storage.log.engine import Engine
from raw_client import RawClient, metadata, send_frame_of
from running_broker import RunningBroker

ANY = (None, None, None)
TOPIC = TopicName.parse("persistent://public/default/searched")
ONE = pb.MessageMetadata(producer_name="p", sequence_id=7, publish_time=1)


def batch_of(count: int, **fields: Any) -> tuple[pb.MessageMetadata, bytes]:
    body = encode_batch([(pb.SingleMessageMetadata(), b"m%d" % n) for n in range(count)])
    metadata = pb.MessageMetadata(
        producer_name="p", sequence_id=0, publish_time=1, num_messages_in_batch=count, **fields
    )
    if metadata.compression:
        metadata.uncompressed_size = len(body)
        body = compress(metadata.compression, body)
    return metadata, body


class Turns:
    """Counts the turns of the loop within the context."""

    def __init__(self) -> None:
        self.count = 0

    async def __aenter__(self) -> "Turns":
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(0)
            self.count += 1


async def test_others_run_while_a_large_batch_is_searched() -> None:
    clock = LoopClock(asyncio.get_running_loop())
    messages = 20_000
    entry = encode_entry(*batch_of(messages, compression=pb.ZLIB))
    looking = searching.Looking(clock, ("absent", None, None), 100, 10)
    async with Turns() as turns:
        assert await looking.at((0, 0), entry, 0) is None
    assert turns.count >= messages // searching.TURN_MESSAGES


async def test_others_run_while_large_payloads_are_inflated() -> None:
    clock = LoopClock(asyncio.get_running_loop())
    payload = bytes(4 << 20)
    metadata = pb.MessageMetadata(
        producer_name="p", sequence_id=0, publish_time=1, compression=pb.ZLIB,
        uncompressed_size=len(payload),
    )  # fmt: skip
    entry = encode_entry(metadata, compress(pb.ZLIB, payload))
    looking = searching.Looking(clock, ANY, 100, 10)
    async with Turns() as turns:
        for number in range(10):
            await looking.at((0, number), entry, 0)
    assert turns.count >= 10
    found = looking.answer(None)[2]
    assert [(len(one[4]), one[5]) for one in found] == [(10, len(payload))] * 10


async def test_a_search_ends_by_what_it_decodes(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = LoopClock(asyncio.get_running_loop())
    entry = encode_entry(*batch_of(50, compression=pb.ZLIB))
    for limit in ("MOST_MESSAGES", "MOST_BYTES"):
        with monkeypatch.context() as smaller:
            smaller.setattr(searching, limit, 20)
            looking = searching.Looking(clock, ("absent", None, None), 100, 10)
            stopped = await looking.at((0, 0), entry, 0)
            assert looking.ended and stopped
            # The search continues from there, however small the limit is.
            again = searching.Looking(clock, ("absent", None, None), 100, 10)
            further = await again.at((0, 0), entry, stopped)
            assert further is None or further > stopped


@asynccontextmanager
async def running_site() -> AsyncIterator[tuple[AdminContext, Broker]]:
    """Run a broker in this process, with deduplication, and the context of its handlers."""
    loop = asyncio.get_running_loop()
    clock = LoopClock(loop)
    engine = Engine(
        MemoryStore(clock), MemoryMetadata(clock), EntryCache(1 << 20), clock, LoopTasks(loop)
    )
    settings = Settings(broker_deduplication_enabled=True)
    directory, broker = standalone(settings, engine, SoleOwner("pulsar://127.0.0.1:6650"))
    await broker.start()
    try:
        yield sole_context(Standalone(directory, broker), JournalStats(), LoopTimer()), broker
    finally:
        await broker.close()


async def test_replays_to_one_topic_have_one_producer_name_and_take_turns() -> None:
    one = ONE.SerializeToString()
    async with running_site() as (_, broker):
        pages = [replaying.store(broker, TOPIC, [(one, b"m")] * 3) for _ in range(4)]
        assert await asyncio.gather(*pages) == [3, 3, 3, 3]
        scanned, unreadable, found, following = await searching.search(
            broker, TOPIC, (-1, -1, 0), ANY, 100, 100, 10
        )
        assert (scanned, unreadable, following) == (12, 0, None)
        heads = [pb.MessageMetadata.FromString(head) for _, _, _, head, *_ in found]
        written = [(head.producer_name, head.sequence_id) for head in heads]
        assert written == [(replaying.NAME, number) for number in range(12)]

        holder = InProcessClient(broker, "test:0")
        await holder.open_producer(str(TOPIC), "taken")
        other = InProcessClient(broker, "test:1")
        with pytest.raises(Unexpected, match="taken"):
            await other.open_producer(str(TOPIC), "taken")
        await holder.publish(pb.MessageMetadata(), b"it still has its producer")
        holder.leave()
        other.leave()


class Watching(SoleProcess):
    """Records whether a search could start while messages are published."""

    def __init__(self, broker: Broker, reading: asyncio.Semaphore) -> None:
        super().__init__(broker)
        self.free: list[bool] = []
        self._reading = reading

    async def ask(self, operation: Any, topic: TopicName, *args: Any, **named: Any) -> Any:
        if operation is replaying.store:
            self.free.append(not self._reading.locked())
        return await super().ask(operation, topic, *args, **named)


async def test_searches_go_on_while_a_page_is_published(monkeypatch: pytest.MonkeyPatch) -> None:
    dead = TopicName.parse(f"{TOPIC}-sub-DLQ")
    async with running_site() as (context, broker):
        await replaying.store(broker, dead, [(ONE.SerializeToString(), b"m")] * 3)
        reading = asyncio.Semaphore(1)
        owners = Watching(broker, reading)
        watched = replace(context, owners=owners, reading=reading)
        wanted = SearchRequest((-1, -1, 0), 100, 100, ANY)
        replay = Replay(watched, TOPIC, dead, wanted, 1000, False)
        await replay.run()
        assert (replay.answer()["replayed"], owners.free) == (3, [True])

        monkeypatch.setattr(replays, "LONGEST_SECONDS", 0)
        late = Replay(watched, TOPIC, dead, wanted, 1000, False)
        await late.run()
        assert late.answer()["replayed"] == 0 and late.answer()["next"]


NOT_UTF8 = b"\xff\xfe"


def with_key(metadata: Any, tag: bytes) -> Any:
    """Return the metadata with a key, and a property, that are not UTF-8."""
    metadata.MergeFromString(tag + b"\x02" + NOT_UTF8)
    pair = b"\x0a\x02" + NOT_UTF8 + b"\x12\x02" + NOT_UTF8
    metadata.properties.add().MergeFromString(pair)
    return metadata


def test_text_that_is_not_utf8_is_shown_and_published_again(
    broker: RunningBroker, topic: str
) -> None:
    admin = Admin(broker)
    dead = f"{topic}-sub-DLQ"
    single = with_key(pb.SingleMessageMetadata(), b"\x12")
    entries = [
        (with_key(metadata(0), b"\x32"), b"alone"),
        (metadata(1, num_messages_in_batch=1), encode_batch([(single, b"batched")])),
        (metadata(2, num_messages_in_batch=9), b"no batch"),
        (metadata(3), b"after"),
    ]
    with RawClient(broker.port) as client:
        client.subscribe(topic, "all")
        client.flow(10)
        client.produce(dead)
        for number, (head, payload) in enumerate(entries):
            head.MergeFromString(b"\x0a\x02" + NOT_UTF8)  # the name of the producer
            client.send_bytes(send_frame_of(encode_entry(head, payload), number))
            client.expect(pb.BaseCommand.SEND_RECEIPT)
        path = dead.replace("://", "/")
        answer = admin.get(f"{path}/search")
        assert answer.status == 200, answer
        shown = answer.json
        assert shown["entriesUnreadable"] == 1
        found = [(b64decode(one["payload"]), one.get("key")) for one in shown["messages"]]
        key = NOT_UTF8.decode(errors="replace")
        assert found == [(b"alone", key), (b"batched", key), (b"after", None)]
        assert shown["messages"][0]["properties"] == {key: key}
        replayed = admin.post(f"{topic.replace('://', '/')}/subscription/sub/deadLetters/replay")
        assert (replayed.status, replayed.json["replayed"], replayed.json["skipped"]) == (200, 3, 1)
        heads = [parse_metadata(client.next_message().entry)[0] for _ in range(3)]
        assert [text_bytes(head, "partition_key") for head in heads] == [NOT_UTF8, NOT_UTF8, b""]
