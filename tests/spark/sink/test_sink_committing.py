"""Drivers that end the same micro-batch, one behind the other or at once, on a real broker."""

import asyncio
import random
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress

import pytest
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import BinaryType, StructField, StructType

import magnetar
from effort import seeds
from pyspark_magnetar.sink.commit_records import Announcement, Mark, TxnId, decoded, encoded
from pyspark_magnetar.sink.committing import (
    BatchChanged,
    Committing,
    StaleDriver,
    TaskResult,
    abort_all,
)
from pyspark_magnetar.sink.transaction_log import TransactionLog, log_of, resumed
from pyspark_magnetar.sink.write_options import WriteOptions
from pyspark_magnetar.sink.writer import StreamWriter, Written
from running_broker import RunningBroker

QUERY = "query"
PARTITIONS = 3
ROWS = 4


class Query:
    """Runs micro-batches into a topic of its own."""

    def __init__(self, client: magnetar.Client) -> None:
        self.client = client
        name = uuid.uuid4().hex[:10]
        self.topic = f"persistent://public/default/committed-{name}"
        self.log_topic = f"persistent://public/default/log-{name}"

    def log(self) -> TransactionLog:
        return TransactionLog(self.client, self.log_topic, QUERY, 30)

    async def results(
        self, batch: int, partitions: int = PARTITIONS, timeout_s: float = 60
    ) -> list[TaskResult]:
        """What the tasks of an attempt of a batch store: the same rows each time."""
        done = []
        async with await self.client.producer(self.topic) as producer:
            for partition in range(partitions):
                txn = self.client.transaction(timeout_s)
                await txn.begin()
                for row in range(ROWS):
                    value = f"{batch}.{partition}.{row}".encode()
                    producer.send_nowait(value, txn=txn)
                done.append(TaskResult(partition, ROWS, await txn.hand_over()))
        return done

    def committing(
        self, log: TransactionLog, batch: int, results: Sequence[TaskResult]
    ) -> Committing:
        return Committing(log, QUERY, batch, results)

    async def run(self, batch: int) -> None:
        """Run a batch as a driver does that lives."""
        async with self.log() as log:
            await self.committing(log, batch, await self.results(batch)).run()

    async def rows(self) -> Counter[bytes]:
        """All rows that are committed."""
        found: Counter[bytes] = Counter()
        async with await self.client.producer(self.topic) as producer:
            await producer.send(b"end")
        async with await self.client.reader(self.topic, magnetar.EARLIEST) as reader:
            while b"end" not in found:
                found.update(message.data for message in await reader.read_batch(timeout_s=60))
        del found[b"end"]
        return found


def rows_of(batches: int, partitions: int = PARTITIONS) -> Counter[bytes]:
    return Counter(
        f"{batch}.{partition}.{row}".encode()
        for batch in range(batches)
        for partition in range(partitions)
        for row in range(ROWS)
    )


@pytest.fixture
async def query(broker: RunningBroker) -> AsyncIterator[Query]:
    async with magnetar.connect(broker.service_url) as client:
        yield Query(client)


@pytest.mark.parametrize("committed", range(PARTITIONS + 1))
async def test_a_driver_dies_between_commits(query: Query, committed: int) -> None:
    await query.run(0)
    async with query.log() as log:
        dying = query.committing(log, 1, await query.results(1))
        await dying.announce()
        await dying.find_done()
        for partition in range(committed):
            await dying.end(partition)
    await query.run(1)
    await query.run(1)
    assert await query.rows() == rows_of(2)


async def test_a_driver_with_an_earlier_batch_announces_between(query: Query) -> None:
    """The log keeps the marks of a batch, whatever else was announced behind them."""
    await query.run(0)
    async with query.log() as log:
        dying = query.committing(log, 1, await query.results(1))
        await dying.announce()
        await dying.find_done()
        await dying.end(0)
    stale = await query.results(0)
    async with query.log() as log:
        with pytest.raises(StaleDriver):
            await query.committing(log, 0, stale).run()
    await abort_all(query.client, stale)
    await query.run(1)
    await query.run(1)
    assert await query.rows() == rows_of(2)


async def test_many_drivers_die(query: Query) -> None:
    for partition in range(PARTITIONS):
        async with query.log() as log:
            dying = query.committing(log, 0, await query.results(0))
            await dying.announce()
            await dying.find_done()
            await dying.end(partition)
    await query.run(0)
    assert await query.rows() == rows_of(1)


@pytest.mark.parametrize("seed", seeds(20))
async def test_a_driver_that_counts_as_dead_commits_on(
    query: Query, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    choice = random.Random(seed)
    # Each believes that it has the log: otherwise the second one would wait for the first.
    old_log = query.log()
    subscribe = query.client.subscribe
    monkeypatch.setattr(
        query.client, "subscribe", lambda topic, _, **how: subscribe(topic, "another", **how)
    )
    async with old_log:
        monkeypatch.undo()
        async with query.log() as log:
            old = query.committing(old_log, 0, await query.results(0))
            new = query.committing(log, 0, await query.results(0))
            await old.announce()
            await old.find_done()

            async def commit_on() -> None:
                for partition in range(PARTITIONS):
                    for _ in range(choice.randint(0, 60)):
                        await asyncio.sleep(0)
                    await old.end(partition)

            first, second = await asyncio.gather(commit_on(), new.run(), return_exceptions=True)
    assert isinstance(first, magnetar.TransactionOver | magnetar.NotAllowed | None)
    assert second is None
    assert await query.rows() == rows_of(1)


async def test_the_other_driver_commits_before_it_is_aborted(query: Query) -> None:
    async with query.log() as log:
        old = query.committing(log, 0, await query.results(0))
        await old.announce()

    class LateLog(TransactionLog):
        async def abort(self, txn_id: TxnId) -> None:
            if txn_id == first_txn:
                async with await query.client.producer(query.log_topic) as producer:
                    txn = resumed(query.client, txn_id)
                    mark = Mark(QUERY, 0, 0, ROWS, PARTITIONS)
                    await producer.send(encoded(mark), txn=txn)
                    await txn.commit()
            await super().abort(txn_id)

    first_txn = old.results[0].txn
    async with LateLog(query.client, query.log_topic, QUERY, 30) as log:
        await query.committing(log, 0, await query.results(0)).run()
    assert await query.rows() == rows_of(1)


async def test_the_broker_is_killed(make_broker: Callable[..., RunningBroker]) -> None:
    broker = make_broker()
    async with magnetar.connect(broker.service_url) as client:
        query = Query(client)
        await query.run(0)
        async with query.log() as log:
            one = query.committing(log, 1, await query.results(1))
            await one.announce()
            await one.end(0)
            broker.kill()
            broker.start()
            await one.run()
        broker.kill()
        broker.start()
        await query.run(1)
        assert await query.rows() == rows_of(2)


async def test_what_takes_too_long_has_no_effect(query: Query) -> None:
    async with query.log() as log:
        late = query.committing(log, 0, await filled_in_time(query))
        assert await query.rows() == Counter()  # once the transactions have ended
        with pytest.raises(magnetar.TransactionOver) as raised:
            await late.run()
        assert "transactionTimeout" in "".join(raised.value.__notes__)
    await query.run(0)
    assert await query.rows() == rows_of(1)


async def filled_in_time(query: Query) -> list[TaskResult]:
    """What tasks store before their transactions end, as soon as the machine allows that."""
    for timeout_s in (2, 4, 8, 16, 32):
        with suppress(magnetar.TransactionOver):
            return await query.results(0, timeout_s=timeout_s)
    return await query.results(0, timeout_s=64)


@pytest.mark.parametrize("change", ["rows", "partitions"])
async def test_other_rows_than_before(query: Query, change: str) -> None:
    async with query.log() as log:
        dying = query.committing(log, 0, await query.results(0))
        await dying.announce()
        await dying.end(0)
    again = await query.results(0, PARTITIONS + (change == "partitions"))
    if change == "rows":
        again[0] = TaskResult(0, ROWS + 1, again[0].txn)
    async with query.log() as log:
        with pytest.raises(BatchChanged, match="partition 0 of 3 was committed with 4 rows"):
            await query.committing(log, 0, again).run()


async def test_a_driver_that_has_missed_batches(query: Query) -> None:
    await query.run(0)
    await query.run(1)
    with pytest.raises(StaleDriver, match="batch 1 was announced before"):
        await query.run(0)


async def test_partitions_without_rows(query: Query) -> None:
    results = [*await query.results(0, 2), TaskResult(2, 0, None)]
    async with query.log() as log:
        await query.committing(log, 0, results).run()
    assert await query.rows() == rows_of(1, 2)


async def test_the_log_keeps_the_last_batch(query: Query) -> None:
    for batch in range(3):
        await query.run(batch)
    kept: list[Announcement | Mark] = []
    async with await query.client.subscribe(query.log_topic, QUERY) as consumer:
        while len(kept) < 1 + PARTITIONS:
            kept += [decoded(message.data) for message in await consumer.receive_batch()]
    assert isinstance(kept[0], Announcement)
    assert sorted(one.partition for one in kept[1:] if isinstance(one, Mark)) == [0, 1, 2]
    assert {one.batch for one in kept} == {2}


async def test_another_driver_has_the_log(query: Query) -> None:
    async with query.log():
        waiting = TransactionLog(query.client, query.log_topic, QUERY, 0.1)
        with pytest.raises(magnetar.Busy) as raised:
            await waiting.__aenter__()
    assert raised.value.__notes__ == [
        "waited 0.1 s (producerNameTimeout) for the transaction log "
        f"{query.log_topic}, which another driver of {QUERY} has"
    ]


async def test_two_queries_with_one_log(query: Query) -> None:
    await query.run(0)
    async with TransactionLog(query.client, query.log_topic, "other", 30) as log:
        await Committing(log, "other", 0, await query.results(1)).run()
    await query.run(2)
    assert await query.rows() == rows_of(3)


async def test_a_log_with_something_else(query: Query) -> None:
    async with await query.client.producer(query.log_topic) as producer:
        await producer.send(b"[]")
    with pytest.raises(ValueError, match="expected a record of version 1"):
        await query.run(0)


@pytest.mark.parametrize(
    "record",
    [Announcement("q", 1, [(1, 2), (3, 4)]), Mark("q", 1, 2, 3, 4), Announcement("", 0, [])],
)
def test_records(record: Announcement | Mark) -> None:
    assert decoded(encoded(record)) == record
    with pytest.raises(ValueError, match="expected a record, got"):
        decoded(b'{"v": 1}')


def writer(query: Query, topic: str) -> StreamWriter:
    given = {"service.url": query.client.service_url, "exactlyOnce": "transaction"}
    value = StructType([StructField("value", BinaryType())])
    return StreamWriter(WriteOptions.parse({**given, "topic": topic}), value)


def messages(results: Sequence[TaskResult]) -> list[WriterCommitMessage | None]:
    return [Written({}, "q", one) for one in results]


@pytest.mark.parametrize("batch", [0, 1])
async def test_what_spark_calls(query: Query, batch: int) -> None:
    here = writer(query, query.topic)
    given_up = messages(await query.results(0))
    await asyncio.to_thread(here.abort, [None, *given_up], batch)
    with pytest.raises(magnetar.TransactionOver):
        await asyncio.to_thread(here.commit, given_up, batch)
    for _ in range(2):
        await asyncio.to_thread(here.commit, messages(await query.results(0)), batch)
    assert await query.rows() == rows_of(1)
    # A query that goes on with a copy of the checkpoint, and writes to another topic.
    query.topic += "-copy"
    copy = writer(query, query.topic)
    await asyncio.to_thread(copy.commit, messages(await query.results(0)), batch)
    assert await query.rows() == rows_of(1)


async def test_a_batch_without_rows(query: Query) -> None:
    here = writer(query, query.topic)
    empty = messages([TaskResult(partition, 0, None) for partition in range(PARTITIONS)])
    await asyncio.to_thread(here.commit, empty, 0)
    name = query.topic.rsplit("/", 1)[1]
    assert not await query.client.topics_matching(f".*{name}.*"), "there is no log yet"
    await asyncio.to_thread(here.commit, messages(await query.results(1)), 1)
    with pytest.raises(BatchChanged):
        await asyncio.to_thread(here.commit, empty, 1)
    for batch in (2, 2):
        await asyncio.to_thread(here.commit, empty, batch)
    await asyncio.to_thread(here.commit, messages(await query.results(3)), 3)
    assert await query.rows() == (rows_of(4) - rows_of(3)) + (rows_of(2) - rows_of(1))


async def test_abort_goes_on_behind_a_failure(
    query: Query, caplog: pytest.LogCaptureFixture
) -> None:
    results = await query.results(0)
    no_coordinator = (1 << 40, 1)
    unknown = TaskResult(PARTITIONS, ROWS, no_coordinator)
    async with magnetar.connect(query.client.service_url, operation_timeout_s=20) as client:
        await abort_all(client, [unknown, *results])
    assert f"transaction {no_coordinator} ends by its timeout" in caplog.text
    for one in results:
        assert one.txn is not None
        with pytest.raises(magnetar.TransactionOver):
            await resumed(query.client, one.txn).commit()


def test_where_the_log_is() -> None:
    given = {"service.url": "pulsar://localhost:6650", "topic": "t", "exactlyOnce": "transaction"}
    assert log_of(WriteOptions.parse(given), "a/b") == (
        "persistent://public/default/spark-a%2Fb-commits"
    )
    chosen = WriteOptions.parse({**given, "transactionLogTopic": "a/b/c"})
    assert log_of(chosen, "q") == "persistent://a/b/c"
