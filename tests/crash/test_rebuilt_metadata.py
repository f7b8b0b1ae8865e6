"""`magnetar repair` rebuilds a lost metadata.db from the segments: every topic is restored with all
messages, and every subscription continues at its position."""

import asyncio
import re
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from admin_http import Admin
from compacting import compact
from effort import part_of
from fakes.archives import unpack
from magnetar import Client, Consumer, connect
from magnetar.schema import String
from magnetar_broker.commands.repair import repair
from running_broker import RunningBroker

TOPICS = part_of(1000, least=200)
AT_ONCE = 20
MESSAGES = 24
BATCH = 4
TIMEOUT = 120
SAMPLE = Path(__file__).parents[1] / "broker" / "upgrade" / "samples" / "26de619.tar.xz"
WORKERS = pytest.mark.parametrize("workers", ["1", "3"])
SETTINGS = {
    "transactionCoordinatorEnabled": "true",
    "brokerDeduplicationEnabled": "true",
    "managedLedgerMaxEntriesPerLedger": "5",
    "managedLedgerMinLedgerRolloverTimeMinutes": "0",
}


@pytest.fixture
def made(make_broker: Callable[..., RunningBroker]) -> Callable[[str], RunningBroker]:
    return lambda workers: make_broker(magnetarWorkers=workers, **SETTINGS)


async def run(broker: RunningBroker, *options: str) -> Result:
    """Run the command, in a thread, because it has an event loop of its own."""
    result = await asyncio.to_thread(
        CliRunner().invoke, repair, [str(broker.data_dir), *options], catch_exceptions=False
    )
    assert isinstance(result, Result)
    return result


def lose_metadata(broker: RunningBroker) -> None:
    for path in broker.data_dir.glob("metadata.d*"):
        path.unlink()


def files(broker: RunningBroker) -> dict[Path, bytes]:
    paths = (path for path in broker.data_dir.rglob("*") if path.is_file())
    return {path: path.read_bytes() for path in paths if path.name != "LOCK"}


async def in_groups(work: Iterable[Any]) -> None:
    jobs = list(work)
    for at in range(0, len(jobs), AT_ONCE):
        await asyncio.gather(*jobs[at : at + AT_ONCE])


async def fill(client: Client, topic: str) -> None:
    """Create subscriptions with single acks, a cumulative ack, and a part of a batch."""
    single = await client.subscribe(topic, "single", type="shared")
    up_to = await client.subscribe(topic, "up-to")
    part = await client.subscribe(topic, "part", type="shared", ack_delay_ms=0)
    producer = await client.producer(topic, name=f"to {topic}")
    for first in range(0, MESSAGES, BATCH):
        await producer.send_batch([b"%d" % number for number in range(first, first + BATCH)])
    for number in range(MESSAGES):
        message = await single.receive(TIMEOUT)
        if number // BATCH % 2:
            single.ack(message)
        message = await up_to.receive(TIMEOUT)
        if number == MESSAGES // 2:
            up_to.ack_up_to(message)
        message = await part.receive(TIMEOUT)
        if number % BATCH:
            part.ack(message)
    for one in (single, up_to, part, producer):
        await one.close()


def state_of(broker: RunningBroker, topic: str) -> Any:
    """Return the number of entries of a topic, and its cursors with every hole."""
    path = f"persistent/public/default/{topic}/internalStats"
    stats = Admin(broker).get(path).json
    cursors = {
        name: (cursor["markDeletePosition"], cursor["individuallyDeletedMessages"])
        for name, cursor in stats["cursors"].items()
    }
    return stats["numberOfEntries"], cursors


async def left(client: Client, topic: str, subscription: str, count: int) -> list[int]:
    """Return the messages that a subscription has still to receive, without acknowledging any."""
    consumer = await client.subscribe(topic, subscription, type="shared")
    found = sorted([int((await consumer.receive(TIMEOUT)).value) for _ in range(count)])
    await consumer.close()
    return found


async def check(client: Client, topic: str) -> None:
    """Check that every subscription continues at its position, and the sequence is known."""
    everything = range(MESSAGES)
    singles = [number for number in everything if not number // BATCH % 2]
    parts = [number for number in everything if not number % BATCH]
    behind = list(range(MESSAGES // 2 + 1, MESSAGES))
    for name, wanted in (("single", singles), ("up-to", behind), ("part", parts)):
        assert await left(client, topic, name, len(wanted)) == wanted, (topic, name)
    reader = await client.reader(topic)
    assert [int((await reader.read(TIMEOUT)).value) for _ in everything] == list(everything)
    await reader.close()
    producer = await client.producer(topic, name=f"to {topic}")
    assert producer.last_sequence_id == MESSAGES - 1
    await producer.close()


@WORKERS
async def test_all_topics_are_there_again(
    made: Callable[[str], RunningBroker], workers: str
) -> None:
    broker = made(workers)
    topics = [f"topic-{number}" for number in range(TOPICS)]
    async with connect(broker.service_url) as client:
        await in_groups(fill(client, topic) for topic in topics)
    before = {topic: state_of(broker, topic) for topic in topics}
    if workers == "1":
        broker.stop()
    else:
        broker.kill()
    lose_metadata(broker)
    was = files(broker)
    dry = await run(broker)
    assert dry.exit_code == 1 and "metadata.db is missing" in dry.output, dry.output
    assert files(broker) == was
    repaired = await run(broker, "--apply")
    assert repaired.exit_code == 0 and "no damage" in repaired.output, repaired.output
    broker.start()
    assert {topic: state_of(broker, topic) for topic in topics} == before
    async with connect(broker.service_url) as client:
        await in_groups(check(client, topic) for topic in topics)


async def values(consumer: Consumer[Any], count: int) -> list[str]:
    return sorted([(await consumer.receive(TIMEOUT)).value.decode() for _ in range(count)])


async def test_every_kind_of_data_is_there_again(made: Callable[[str], RunningBroker]) -> None:
    """Partitions, delays, compacted data and transactions are restored after a kill."""
    broker = made("1")
    admin = Admin(broker)
    assert admin.put("persistent/public/default/parted/partitions", 3).status == 204
    async with connect(broker.service_url) as client:
        parted = await client.subscribe("parted", "s", type="shared")
        producer = await client.producer("parted", batching=None)
        for number in range(30):
            await producer.send(b"%02d" % number)
        for _ in range(30):
            message = await parted.receive(TIMEOUT)
            if int(message.value) % 2:
                parted.ack(message)
        await parted.flush()

        await client.subscribe("delayed", "s", type="shared")
        producer = await client.producer("delayed", batching=None)
        await producer.send(b"later", deliver_after_s=3600)
        await producer.send(b"now")

        producer = await client.producer("compacted", batching=None)
        for value in (b"1", b"2", b"3"):
            await producer.send(value, key=f"key-{value[0] % 2}")
        compact(broker, "persistent://public/default/compacted")

        await client.subscribe("atomic", "s", type="shared")
        producer = await client.producer("atomic", batching=None)
        async with client.transaction() as txn:
            await producer.send(b"committed", txn=txn)
        txn = client.transaction()
        await txn.begin()
        await producer.send(b"aborted", txn=txn)
        await txn.abort()
        await producer.send(b"plain")
    broker.kill()
    lose_metadata(broker)
    repaired = await run(broker, "--apply")
    assert repaired.exit_code == 0 and "no damage" in repaired.output, repaired.output
    broker.start()
    assert admin.get("persistent/public/default/parted/partitions").json["partitions"] == 3
    async with connect(broker.service_url) as client:
        parted = await client.subscribe("parted", "s", type="shared")
        assert await values(parted, 15) == [f"{number:02d}" for number in range(0, 30, 2)]

        delayed = await client.subscribe("delayed", "s", type="shared")
        await (await client.producer("delayed")).send(b"soon")
        assert await values(delayed, 2) == ["now", "soon"]

        reader = await client.reader("compacted", read_compacted=True)
        assert [(await reader.read(TIMEOUT)).value for _ in range(2)] == [b"2", b"3"]

        atomic = await client.subscribe("atomic", "s", type="shared")
        await (await client.producer("atomic")).send(b"sent now")
        assert await values(atomic, 3) == ["committed", "plain", "sent now"]
        async with client.transaction() as txn:
            await (await client.producer("atomic")).send(b"again", txn=txn)
        assert await values(atomic, 1) == ["again"]


async def test_an_older_metadata_db_gives_what_segments_do_not_tell(
    made: Callable[[str], RunningBroker],
) -> None:
    """Policies and schemas come from the copy, messages and subscriptions are the latest."""
    broker = made("1")
    async with connect(broker.service_url) as client:
        producer = await client.producer("typed", schema=String())
        await client.subscribe("typed", "s")
        await producer.send("one")
    Admin(broker).post("namespaces/public/default/messageTTL", 77777)
    broker.stop()
    older = shutil.copy(broker.data_dir / "metadata.db", broker.data_dir.with_name("older"))
    broker.start()
    async with connect(broker.service_url) as client:
        await (await client.producer("typed", schema=String())).send("two")
        await (await client.producer("later")).send(b"three")
    broker.stop()
    shutil.copy(older, broker.data_dir / "metadata.db")
    assert not broker.try_start()
    wrong = (broker.data_dir / "metadata.db").read_bytes()
    repaired = await run(broker, "--apply")
    assert repaired.exit_code == 0 and "is older than" in repaired.output, repaired.output
    former = broker.data_dir / "metadata-former-1" / "metadata.db"
    assert former.read_bytes() == wrong
    broker.start()
    assert Admin(broker).get("namespaces/public/default/messageTTL").json == 77777
    async with connect(broker.service_url) as client:
        consumer = await client.subscribe("typed", "s", schema=String())
        assert [(await consumer.receive(TIMEOUT)).value for _ in range(2)] == ["one", "two"]
        reader = await client.reader("later")
        assert (await reader.read(TIMEOUT)).value == b"three"
    broker.stop()
    again = await run(broker, "--apply")
    assert again.exit_code == 0 and "nothing to repair" in again.output


@WORKERS
async def test_metadata_of_another_directory_is_replaced(
    made: Callable[[str], RunningBroker], make_broker: Callable[..., RunningBroker], workers: str
) -> None:
    """A start refuses such metadata, also damaged ones; the former files are kept."""
    broker, other = made(workers), make_broker()
    async with connect(broker.service_url) as client:
        await fill(client, "topic")
    before = state_of(broker, "topic")
    broker.kill()
    other.stop()
    wrong = (other.data_dir / "metadata.db").read_bytes()
    for number, content in ((1, wrong), (2, wrong[:5000] + b"damage" * 100 + wrong[5600:])):
        lose_metadata(broker)
        (broker.data_dir / "metadata.db").write_bytes(content)
        dry = await run(broker)
        assert dry.exit_code == 1 and "persistent://public/default/topic" in dry.output, dry.output
        assert (broker.data_dir / "metadata.db").read_bytes() == content
        repaired = await run(broker, "--apply")
        assert repaired.exit_code == 0 and "no damage" in repaired.output, repaired.output
        former = broker.data_dir / f"metadata-former-{number}" / "metadata.db"
        assert former.read_bytes() == content
        broker.start()
        assert state_of(broker, "topic") == before
        async with connect(broker.service_url) as client:
            await check(client, "topic")
        broker.stop()


async def test_ledgers_of_an_earlier_release_are_topics_by_themselves(
    make_broker: Callable[..., RunningBroker],
) -> None:
    """Such ledgers do not contain the name of their topic."""
    broker = make_broker()
    broker.stop()
    shutil.rmtree(broker.data_dir)
    unpack(SAMPLE, broker.data_dir)
    lose_metadata(broker)
    repaired = await run(broker, "--apply")
    assert repaired.exit_code == 0 and "no damage" in repaired.output, repaired.output
    (name, *_) = re.findall(r"//(recovered/default/segment-\d+): 30 messages", repaired.output)
    broker.start()
    stats = Admin(broker).get(f"persistent/{name}/internalStats").json
    assert stats["numberOfEntries"] == 30
