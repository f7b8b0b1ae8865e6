"""A client for programs without asyncio: every call blocks until its result is known.

with magnetar.sync.connect("pulsar://localhost:6650") as client:
    producer = client.producer("orders")
    producer.send(b"one")

One loop in one background thread serves all clients of the process.  Objects may be used from any
thread.  A forked child has no such thread: objects of the parent raise Closed there, and the
child opens its own.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Generic, NoReturn, Self, TypeVar

import magnetar
from magnetar.base.background import Facade, background
from magnetar.base.closing import Closing
from magnetar.base.values import V
from magnetar.schema.base import Schema

W = TypeVar("W", bound=Closing)


class _Facade(Facade[W]):
    """The base class of this module's classes; `close`, or leaving a `with`, closes it."""

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"a {type(self).__name__} cannot be copied or passed to another process: open one there"
        )

    def close(self) -> None:
        """Complete pending operations and release every resource."""
        self.run(self.wrapped.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *about: object) -> None:
        self.close()


class Transaction(_Facade[magnetar.Transaction]):
    """The blocking form of `magnetar.Transaction`: `with` commits it, or aborts it on an error."""

    @property
    def id(self) -> tuple[int, int]:
        return self.wrapped.id

    @property
    def state(self) -> str:
        return self.wrapped.state

    def begin(self) -> None:
        """Begin the transaction at a coordinator."""
        self.run(self.wrapped.begin)

    def resume(self, txn_id: tuple[int, int]) -> None:
        """Resume a transaction that was handed over, in place of `begin`."""
        self.do(self.wrapped.resume, txn_id)

    def hand_over(self) -> tuple[int, int]:
        """Wait for all operations, and return the id with which another process can resume."""
        return self.run(self.wrapped.hand_over)

    def flush(self) -> None:
        """Wait until the broker has stored all operations so far; raise the first error."""
        self.run(self.wrapped.flush)

    def commit(self) -> None:
        """Wait for all operations, then commit the transaction."""
        self.run(self.wrapped.commit)

    def abort(self) -> None:
        """Abort the transaction."""
        self.run(self.wrapped.abort)

    def __enter__(self) -> Self:
        self.run(self.wrapped.__aenter__)
        return self

    def __exit__(self, *about: Any) -> None:
        self.run(self.wrapped.__aexit__, *about)


def _of(txn: Transaction | None) -> magnetar.Transaction | None:
    return None if txn is None else txn.wrapped


class Producer(_Facade[magnetar.Producer[V]], Generic[V]):
    """The blocking form of `magnetar.Producer`."""

    @property
    def topic(self) -> str:
        return self.wrapped.topic

    @property
    def last_sequence_id(self) -> int:
        return self.wrapped.last_sequence_id

    @property
    def statistics(self) -> magnetar.ProducerStatistics:
        return self.do(lambda: self.wrapped.statistics)

    def send(
        self, value: V, *, txn: Transaction | None = None, **options: Any
    ) -> magnetar.MessageId:
        """Send one message, and wait until it is stored."""
        return self.run(self.wrapped.send, value, txn=_of(txn), **options)

    def send_batch(
        self, messages: Iterable[V | magnetar.Outgoing[V]], txn: Transaction | None = None
    ) -> list[magnetar.MessageId]:
        """Send many messages in order, and wait until all are stored: the fastest way."""
        return self.run(self.wrapped.send_batch, messages, _of(txn))

    def send_nowait(self, value: V, *, txn: Transaction | None = None, **options: Any) -> None:
        """Send one message without waiting: `flush` raises its error. QueueFull without room."""
        self.do(self.wrapped.send_nowait, value, txn=_of(txn), **options)

    def flush(self) -> None:
        """Wait until all messages are stored; raise the first error not seen by the application."""
        self.run(self.wrapped.flush)


class Consumer(_Facade[magnetar.Consumer[V]], Generic[V]):
    """The blocking form of `magnetar.Consumer`; a loop over it receives until it is closed."""

    @property
    def topic(self) -> str:
        return self.wrapped.topic

    @property
    def subscription(self) -> str:
        return self.wrapped.subscription

    @property
    def statistics(self) -> magnetar.ConsumerStatistics:
        return self.do(lambda: self.wrapped.statistics)

    def receive(self, timeout_s: float | None = None) -> magnetar.Message[V]:
        """Return the next message; OperationTimeout if none comes in time."""
        return self.run(self.wrapped.receive, timeout_s)

    def receive_batch(
        self, max_messages: int = 1000, timeout_s: float | None = None
    ) -> list[magnetar.Message[V]]:
        """Return all messages that have arrived, at least one: the fastest way."""
        return self.run(self.wrapped.receive_batch, max_messages, timeout_s)

    def __iter__(self) -> Iterator[magnetar.Message[V]]:
        while True:
            yield self.receive()

    def ack(
        self,
        messages: magnetar.Message[Any] | Iterable[magnetar.Message[Any]],
        txn: Transaction | None = None,
    ) -> None:
        """Acknowledge messages individually; `flush` waits until the broker has stored this."""
        self.do(self.wrapped.ack, messages, _of(txn))

    def ack_up_to(self, message: magnetar.Message[Any], txn: Transaction | None = None) -> None:
        """Acknowledge all messages of the partition up to and including this one."""
        self.do(self.wrapped.ack_up_to, message, _of(txn))

    def ack_id(
        self,
        message_id: magnetar.MessageId,
        topic: str | None = None,
        txn: Transaction | None = None,
    ) -> None:
        """Acknowledge a message by its id."""
        self.do(self.wrapped.ack_id, message_id, topic, _of(txn))

    def ack_up_to_id(
        self,
        message_id: magnetar.MessageId,
        topic: str | None = None,
        txn: Transaction | None = None,
    ) -> None:
        """Acknowledge all messages of a partition up to and including the one with this id."""
        self.do(self.wrapped.ack_up_to_id, message_id, topic, _of(txn))

    def nack(self, messages: magnetar.Message[Any] | Iterable[magnetar.Message[Any]]) -> None:
        """Let messages be redelivered later."""
        self.do(self.wrapped.nack, messages)

    def reconsume_later(
        self,
        message: magnetar.Message[Any],
        delay_s: float,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        """Move a message to the retry topic."""
        self.run(self.wrapped.reconsume_later, message, delay_s, properties)

    def reconsume_later_cumulative(
        self,
        message: magnetar.Message,
        delay_s: float,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        """Move a message like `reconsume_later`, and acknowledge its partition up to it."""
        self.run(self.wrapped.reconsume_later_cumulative, message, delay_s, properties)

    def redeliver_all(self) -> None:
        """Request the redelivery of all unacknowledged messages."""
        self.do(self.wrapped.redeliver_all)

    def seek(self, target: magnetar.MessageId | int, topic: str | None = None) -> None:
        """Continue with a message, or with messages published at a time (ms) or later."""
        self.run(self.wrapped.seek, target, topic)

    def last_message_ids(self) -> dict[str, magnetar.MessageId]:
        """Return the id of the last message of each topic or partition."""
        return self.run(self.wrapped.last_message_ids)

    def pause(self) -> None:
        """Stop asking the broker for messages."""
        self.do(self.wrapped.pause)

    def resume(self) -> None:
        """Continue after `pause`."""
        self.do(self.wrapped.resume)

    def flush(self) -> None:
        """Wait until the broker has confirmed every acknowledgement."""
        self.run(self.wrapped.flush)

    def unsubscribe(self, force: bool = False) -> None:
        """Delete the subscription, and close."""
        self.run(self.wrapped.unsubscribe, force)


class Reader(_Facade[magnetar.Reader[V]], Generic[V]):
    """The blocking form of `magnetar.Reader`; a loop over it reads until it is closed."""

    @property
    def topic(self) -> str:
        return self.wrapped.topic

    def read(self, timeout_s: float | None = None) -> magnetar.Message[V]:
        """Return the next message; OperationTimeout if none comes in time."""
        return self.run(self.wrapped.read, timeout_s)

    def read_batch(
        self, max_messages: int = 1000, timeout_s: float | None = None
    ) -> list[magnetar.Message[V]]:
        """Return all messages that have arrived, at least one."""
        return self.run(self.wrapped.read_batch, max_messages, timeout_s)

    def __iter__(self) -> Iterator[magnetar.Message[V]]:
        while True:
            yield self.read()

    def has_message_available(self) -> bool:
        """Return whether a message remains to be read."""
        return self.run(self.wrapped.has_message_available)

    def seek(self, target: magnetar.MessageId | int) -> None:
        """Continue with a message, or with messages published at a time (ms) or later."""
        self.run(self.wrapped.seek, target)


class TableView(_Facade[magnetar.TableView[V]], Generic[V]):
    """The blocking form of `magnetar.TableView`."""

    def get(self, key: str | bytes, default: V | None = None) -> V | None:
        """Return the value of a key, or the default."""
        return self.do(self.wrapped.get, key, default)

    def snapshot(self) -> dict[str | bytes, V]:
        """Return a copy of all keys with their present values."""
        return self.do(dict, self.wrapped)

    def __len__(self) -> int:
        return len(self.wrapped)

    def refresh(self) -> None:
        """Wait until the view has all messages that are in the topic now."""
        self.run(self.wrapped.refresh)


class Client(_Facade[magnetar.Client]):
    """The blocking form of `magnetar.Client`; created by `connect`."""

    def producer(
        self, topic: str, *, schema: Schema[V] | None = None, **options: Any
    ) -> Producer[V]:
        """Create a producer; the options are those of `magnetar.Client.producer`."""
        return Producer(self.run(self.wrapped.producer, topic, schema=schema, **options))

    def subscribe(
        self, topic: str, subscription: str, *, schema: Schema[V] | None = None, **options: Any
    ) -> Consumer[V]:
        """Create a consumer; the options are those of `magnetar.Client.subscribe`."""
        work = self.wrapped.subscribe
        return Consumer(self.run(work, topic, subscription, schema=schema, **options))

    def subscribe_all(
        self,
        topics: Iterable[str],
        subscription: str,
        *,
        schema: Schema[V] | None = None,
        **options: Any,
    ) -> Consumer[V]:
        """Create a consumer of several topics."""
        work = self.wrapped.subscribe_all
        return Consumer(self.run(work, list(topics), subscription, schema=schema, **options))

    def subscribe_matching(
        self, pattern: str, subscription: str, *, schema: Schema[V] | None = None, **options: Any
    ) -> Consumer[V]:
        """Create a consumer of all topics that match a pattern, now or later."""
        work = self.wrapped.subscribe_matching
        return Consumer(self.run(work, pattern, subscription, schema=schema, **options))

    def reader(
        self,
        topic: str | list[str],
        *start: Any,
        schema: Schema[V] | None = None,
        **options: Any,
    ) -> Reader[V]:
        """Create a reader; the arguments are those of `magnetar.Client.reader`."""
        return Reader(self.run(self.wrapped.reader, topic, *start, schema=schema, **options))

    def table_view(
        self, topic: str, *, schema: Schema[V] | None = None, **options: Any
    ) -> TableView[V]:
        """Create a table view; the options are those of `magnetar.Client.table_view`."""
        return TableView(self.run(self.wrapped.table_view, topic, schema=schema, **options))

    def transaction(self, timeout_s: float = 60.0) -> Transaction:
        """Create a transaction of producers and consumers of this client; use `with`."""
        return Transaction(self.do(self.wrapped.transaction, timeout_s))

    def partitions(self, topic: str) -> list[str]:
        """Return the full names of the topic's partitions; its own name if it has none."""
        return self.run(self.wrapped.partitions, topic)


def connect(service_url: str, **options: Any) -> Client:
    """Create a client; the options are those of `magnetar.connect`.  Use `with connect(...)`."""

    async def make() -> magnetar.Client:
        return magnetar.connect(service_url, **options)

    return Client(background.run(make()))
