"""The transaction log: a topic in which the drivers of a query record their commits."""

import asyncio
from collections.abc import AsyncIterator
from typing import Self
from urllib.parse import quote

import magnetar
from magnetar.base.closing import Closing
from magnetar_proto.names import TopicName
from pyspark_magnetar.sink.commit_records import (
    Announcement,
    Mark,
    Record,
    TxnId,
    decoded,
    encoded,
)
from pyspark_magnetar.sink.waiting import when_free
from pyspark_magnetar.sink.write_options import WriteOptions


def owner_of(options: WriteOptions, work_of: str) -> str:
    """Return the owner whose batches are committed once: a query or job, and its topic.

    With a copy of a checkpoint, the same query may write to another topic as well.
    """
    if options.topic is None:
        return work_of
    topic = TopicName.parse(options.topic)
    return f"{work_of}/{topic.namespace_name}/{topic.local}"


def log_of(options: WriteOptions, owner: str) -> str:
    """Return the topic that serves as the log of a query or job."""
    if options.log_topic is not None:
        return options.log_topic
    assert options.topic is not None  # the driver has refused it otherwise
    beside = TopicName.parse(options.topic).namespace_name
    return f"persistent://{beside}/{options.name_prefix}-{quote(owner, safe='')}-commits"


class TransactionLog(Closing):
    """The log of one owner; a driver has it alone until its connection ends."""

    def __init__(self, client: magnetar.Client, topic: str, owner: str, timeout_s: float) -> None:
        """`owner` is the result of `owner_of`; other owners may share the topic.

        A subscription of that name retains records until `forget`.  `timeout_s` limits the wait
        for another driver, and for a transaction to end.
        """
        self._client = client
        self._topic = topic
        self._owner = owner
        self._timeout_s = timeout_s

    async def __aenter__(self) -> Self:
        """Open the log; Busy if another driver keeps it, ValueError if the topic has partitions."""
        if len(await self._client.partitions(self._topic)) > 1:
            raise ValueError(
                f"the transaction log {self._topic} has partitions, and needs one order: name a "
                "topic without partitions (option transactionLogTopic)"
            )
        self._consumer = await when_free(
            lambda: self._client.subscribe(self._topic, self._owner, initial_position="earliest"),
            self._timeout_s,
            f"the transaction log {self._topic}, which another driver of {self._owner} has",
        )
        try:
            # Not in batches, so that a record is an entry, which can be compared and acknowledged.
            self._producer = await self._client.producer(self._topic, batching=None)
        except BaseException:
            await self._consumer.close()
            raise
        return self

    async def read_behind(
        self, announcement: Announcement
    ) -> AsyncIterator[tuple[Record, magnetar.Message]]:
        """Write the announcement, and yield the owner's unread records before it.

        Records after a mark follow once the transaction of the mark has ended.
        """
        end = await self._producer.send(encoded(announcement))
        while True:
            try:
                message = await self._consumer.receive(self._timeout_s)
            except magnetar.OperationTimeout as error:
                error.add_note(f"reading the transaction log {self._topic}")
                raise
            if message.id[:2] >= end[:2]:
                return  # everything that was stored before the announcement has been read
            try:
                record = decoded(message.data)
            except ValueError as error:
                raise ValueError(f"{self._topic}, message {message.id}: {error}") from None
            if record.owner == self._owner:
                yield record, message

    async def commit(self, txn_id: TxnId, mark: Mark) -> None:
        """Commit a transaction that contains its mark."""
        try:
            txn = await self._marked(txn_id, encoded(mark))
            await txn.commit()
        except (magnetar.TransactionOver, magnetar.NotAllowed) as error:
            error.add_note(
                f"the transaction of partition {mark.partition} of batch {mark.batch} was open for "
                "longer than the option transactionTimeout, or another driver has aborted it"
            )
            raise

    async def _marked(self, txn_id: TxnId, mark: bytes) -> magnetar.Transaction:
        deadline_s = asyncio.get_running_loop().time() + self._timeout_s
        while True:
            # Resumed for each attempt: a lost message has failed the transaction on this side only.
            txn = resumed(self._client, txn_id)
            try:
                await self._producer.send(mark, txn=txn)
            except magnetar.ConnectionLost:
                # It may be stored, which cannot be known: a second one says the same.
                if asyncio.get_running_loop().time() >= deadline_s:
                    raise
            else:
                return txn

    async def abort(self, txn_id: TxnId) -> None:
        """Abort a transaction, so that it cannot be committed; one that is committed stays so."""
        await resumed(self._client, txn_id).abort()

    async def forget(self, last: magnetar.Message) -> None:
        """Acknowledge this record and those before it, so that they can be deleted."""
        self._consumer.ack_up_to(last)
        await self._consumer.flush()

    async def close(self) -> None:
        """Close the log, so that the next driver can open it."""
        try:
            await self._consumer.close()
        finally:
            await self._producer.close()


def resumed(client: magnetar.Client, txn_id: TxnId) -> magnetar.Transaction:
    """Return the transaction of a task, to be ended."""
    txn = client.transaction()
    txn.resume(txn_id)
    return txn
