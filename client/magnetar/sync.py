"""The client for programs without asyncio: every call waits for its result.

with magnetar.sync.connect("pulsar://localhost:6650") as client:
    producer = client.producer("orders")
    producer.send(b"one")

One loop in one background thread serves all clients of the process.  Objects may be used from any
thread.  A forked child has no such thread: what the parent opened raises Closed there, and the
child opens its own.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Generic, NoReturn, Self, TypeVar

import magnetar
from magnetar.background import Facade, background
from magnetar.closing import Closing
from magnetar.schema.base import Schema
from magnetar.values import V

W = TypeVar("W", bound=Closing)


class _Facade(Facade[W]):
    """What all objects here have: they are closed by `close`, or at the end of a `with`."""

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"a {type(self).__name__} cannot be copied or passed to another process: open one there"
        )

    def close(self) -> None:
        """Finish what is pending and release every resource."""
        self.run(self.wrapped.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *about: object) -> None:
        self.close()


class Transaction(_Facade[magnetar.Transaction]):
    """As `magnetar.Transaction`: committed at the end of a `with`, aborted if it raises."""

    @property
    def id(self) -> tuple[int, int]:
        return self.wrapped.id

    @property
    def state(self) -> str:
        return self.wrapped.state

    def begin(self) -> None:
        """Have a coordinator open it."""
        self.run(self.wrapped.begin)

    def resume(self, txn_id: tuple[int, int]) -> None:
        """Instead of `begin`: go on with one that was handed over."""
        self.do(self.wrapped.resume, txn_id)

    def hand_over(self) -> tuple[int, int]:
        """Wait for all of it, and leave the end to whoever resumes the returned id."""
        return self.run(self.wrapped.hand_over)

    def flush(self) -> None:
        """Wait until the broker has all of it so far; raises the first failure."""
        self.run(self.wrapped.flush)

    def commit(self) -> None:
        """Wait for all of it, then let it take effect."""
        self.run(self.wrapped.commit)

    def abort(self) -> None:
        """Give it up."""
        self.run(self.wrapped.abort)

    def __enter__(self) -> Self:
        self.run(self.wrapped.__aenter__)
        return self

    def __exit__(self, *about: Any) -> None:
        self.run(self.wrapped.__aexit__, *about)


def _of(txn: Transaction | None) -> magnetar.Transaction | None:
    return None if txn is None else txn.wrapped


class Producer(_Facade[magnetar.Producer[V]], Generic[V]):
    """As `magnetar.Producer`."""

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
        """Send one message and wait until it is stored."""
        return self.run(self.wrapped.send, value, txn=_of(txn), **options)

    def send_batch(
        self, messages: Iterable[V | magnetar.Outgoing[V]], txn: Transaction | None = None
    ) -> list[magnetar.MessageId]:
        """Send many in order and wait until all are stored: the fast path."""
        return self.run(self.wrapped.send_batch, messages, _of(txn))

    def send_nowait(self, value: V, *, txn: Transaction | None = None, **options: Any) -> None:
        """Send one message without waiting; `flush` raises what failed.  QueueFull: no room."""
        self.do(self.wrapped.send_nowait, value, txn=_of(txn), **options)

    def flush(self) -> None:
        """Wait until all is stored; raises the first failure that was not seen."""
        self.run(self.wrapped.flush)


class Consumer(_Facade[magnetar.Consumer[V]], Generic[V]):
    """As `magnetar.Consumer`; a loop over it receives without end."""

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
        """The next message; OperationTimeout when none came in time."""
        return self.run(self.wrapped.receive, timeout_s)

    def receive_batch(
        self, max_messages: int = 1000, timeout_s: float | None = None
    ) -> list[magnetar.Message[V]]:
        """All that have arrived, at least one: the fast path."""
        return self.run(self.wrapped.receive_batch, max_messages, timeout_s)

    def __iter__(self) -> Iterator[magnetar.Message[V]]:
        while True:
            yield self.receive()

    def ack(
        self,
        messages: magnetar.Message[Any] | Iterable[magnetar.Message[Any]],
        txn: Transaction | None = None,
    ) -> None:
        """Acknowledge one or many; `flush` waits until the broker has stored it."""
        self.do(self.wrapped.ack, messages, _of(txn))

    def ack_up_to(self, message: magnetar.Message[Any], txn: Transaction | None = None) -> None:
        """Acknowledge all of the message's partition up to it."""
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
        """Acknowledge all of a partition up to the message of an id."""
        self.do(self.wrapped.ack_up_to_id, message_id, topic, _of(txn))

    def nack(self, messages: magnetar.Message[Any] | Iterable[magnetar.Message[Any]]) -> None:
        """Have messages delivered again, later."""
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
        """As `reconsume_later`, and acknowledge all of its partition up to the message."""
        self.run(self.wrapped.reconsume_later_cumulative, message, delay_s, properties)

    def redeliver_all(self) -> None:
        """Have everything delivered again that is not acknowledged."""
        self.do(self.wrapped.redeliver_all)

    def seek(self, target: magnetar.MessageId | int, topic: str | None = None) -> None:
        """Continue with a message, or with what was published since a time (ms)."""
        self.run(self.wrapped.seek, target, topic)

    def last_message_ids(self) -> dict[str, magnetar.MessageId]:
        """By topic or partition the id of its last message."""
        return self.run(self.wrapped.last_message_ids)

    def pause(self) -> None:
        """Ask the broker for nothing more."""
        self.do(self.wrapped.pause)

    def resume(self) -> None:
        """Continue after `pause`."""
        self.do(self.wrapped.resume)

    def flush(self) -> None:
        """Wait until the broker confirmed every acknowledgement."""
        self.run(self.wrapped.flush)

    def unsubscribe(self, force: bool = False) -> None:
        """Delete the subscription, and close."""
        self.run(self.wrapped.unsubscribe, force)


class Reader(_Facade[magnetar.Reader[V]], Generic[V]):
    """As `magnetar.Reader`; a loop over it reads without end."""

    @property
    def topic(self) -> str:
        return self.wrapped.topic

    def read(self, timeout_s: float | None = None) -> magnetar.Message[V]:
        """The next message; OperationTimeout when none came in time."""
        return self.run(self.wrapped.read, timeout_s)

    def read_batch(
        self, max_messages: int = 1000, timeout_s: float | None = None
    ) -> list[magnetar.Message[V]]:
        """All that have arrived, at least one."""
        return self.run(self.wrapped.read_batch, max_messages, timeout_s)

    def __iter__(self) -> Iterator[magnetar.Message[V]]:
        while True:
            yield self.read()

    def has_message_available(self) -> bool:
        """Whether there is a message that was not read."""
        return self.run(self.wrapped.has_message_available)

    def seek(self, target: magnetar.MessageId | int) -> None:
        """Continue with a message, or with what was published since a time (ms)."""
        self.run(self.wrapped.seek, target)


class TableView(_Facade[magnetar.TableView[V]], Generic[V]):
    """As `magnetar.TableView`."""

    def get(self, key: str | bytes, default: V | None = None) -> V | None:
        """The value of a key."""
        return self.do(self.wrapped.get, key, default)

    def snapshot(self) -> dict[str | bytes, V]:
        """All keys with their values, as they are now."""
        return self.do(dict, self.wrapped)

    def __len__(self) -> int:
        return len(self.wrapped)

    def refresh(self) -> None:
        """Wait until everything that is in the topic now can be seen."""
        self.run(self.wrapped.refresh)


class Client(_Facade[magnetar.Client]):
    """As `magnetar.Client`; created by `connect`."""

    def producer(
        self, topic: str, *, schema: Schema[V] | None = None, **options: Any
    ) -> Producer[V]:
        """A producer; the options are those of `magnetar.Client.producer`."""
        return Producer(self.run(self.wrapped.producer, topic, schema=schema, **options))

    def subscribe(
        self, topic: str, subscription: str, *, schema: Schema[V] | None = None, **options: Any
    ) -> Consumer[V]:
        """A consumer; the options are those of `magnetar.Client.subscribe`."""
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
        """A consumer of several topics."""
        work = self.wrapped.subscribe_all
        return Consumer(self.run(work, list(topics), subscription, schema=schema, **options))

    def subscribe_matching(
        self, pattern: str, subscription: str, *, schema: Schema[V] | None = None, **options: Any
    ) -> Consumer[V]:
        """A consumer of all topics that match a pattern, now or later."""
        work = self.wrapped.subscribe_matching
        return Consumer(self.run(work, pattern, subscription, schema=schema, **options))

    def reader(
        self,
        topic: str | list[str],
        *start: Any,
        schema: Schema[V] | None = None,
        **options: Any,
    ) -> Reader[V]:
        """A reader; the arguments are those of `magnetar.Client.reader`."""
        return Reader(self.run(self.wrapped.reader, topic, *start, schema=schema, **options))

    def table_view(
        self, topic: str, *, schema: Schema[V] | None = None, **options: Any
    ) -> TableView[V]:
        """A table view; the options are those of `magnetar.Client.table_view`."""
        return TableView(self.run(self.wrapped.table_view, topic, schema=schema, **options))

    def transaction(self, timeout_s: float = 60.0) -> Transaction:
        """A transaction of producers and consumers of this client: use it with `with`."""
        return Transaction(self.do(self.wrapped.transaction, timeout_s))

    def partitions(self, topic: str) -> list[str]:
        """The full names of the topic's partitions: the topic itself when it has none."""
        return self.run(self.wrapped.partitions, topic)


def connect(service_url: str, **options: Any) -> Client:
    """A client; the options are those of `magnetar.connect`.  Use it as `with connect(...)`."""

    async def make() -> magnetar.Client:
        return magnetar.connect(service_url, **options)

    return Client(background.run(make()))
