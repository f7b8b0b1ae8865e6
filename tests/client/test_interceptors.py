"""What interceptors of producers and consumers see and change, at the real daemon."""

import asyncio
import logging
import uuid
from collections.abc import Sequence

import pytest

import magnetar
from client.receiving import TIMEOUT_S, take, values
from fakes.client_clock import ManualClock
from fakes.waiting import until
from running_broker import RunningBroker


def new_topic() -> str:
    return f"persistent://public/default/intercepted-{uuid.uuid4().hex[:10]}"


class Sent(magnetar.ProducerInterceptor):
    """Marks every message, and keeps what it is told."""

    def __init__(self, mark: bytes) -> None:
        self.mark = mark
        self.receipts: list[tuple[bytes, magnetar.MessageId | None, BaseException | None]] = []
        self.closed = 0

    def before_send(self, topic: str, message: magnetar.Outgoing) -> magnetar.Outgoing:
        return magnetar.Outgoing(message.value + self.mark, key=message.key)

    def on_receipt(
        self,
        topic: str,
        message: magnetar.Outgoing,
        message_id: magnetar.MessageId | None,
        error: BaseException | None,
    ) -> None:
        self.receipts.append((message.value, message_id, error))

    def close(self) -> None:
        self.closed += 1


class Received(magnetar.ConsumerInterceptor):
    """Marks every message, and keeps what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, list[magnetar.MessageId]]] = []

    def before_consume(self, message: magnetar.Message[bytes]) -> magnetar.Message[bytes]:
        message.data += b"!"
        return message

    def on_ack(self, topic: str, ids: Sequence[magnetar.MessageId]) -> None:
        self.told.append(("ack", list(ids)))

    def on_ack_up_to(self, topic: str, message_id: magnetar.MessageId) -> None:
        self.told.append(("ack up to", [message_id]))

    def on_nack(self, topic: str, ids: Sequence[magnetar.MessageId]) -> None:
        self.told.append(("nack", list(ids)))

    def on_ack_timeout(self, topic: str, ids: Sequence[magnetar.MessageId]) -> None:
        self.told.append(("timeout", list(ids)))

    def close(self) -> None:
        self.told.append(("close", []))


class Broken(magnetar.ProducerInterceptor, magnetar.ConsumerInterceptor):
    """Fails in everything."""

    def __getattribute__(self, name: str) -> object:
        if name.startswith(("before", "on_", "close")):

            def fail(*args: object) -> object:
                raise RuntimeError(f"{name} is broken")

            return fail
        return super().__getattribute__(name)


async def test_producers_in_order_with_every_way_to_send(broker: RunningBroker) -> None:
    topic = new_topic()
    first, second = Sent(b"-a"), Sent(b"-b")
    async with magnetar.connect(broker.service_url) as client:
        consumer = await client.subscribe(topic, "s")
        producer = await client.producer(topic, interceptors=[first, second])
        ids = [await producer.send(b"1", key="k")]
        receipt = producer.send_nowait(b"2")
        await producer.flush()
        ids += [await receipt, *await producer.send_batch([b"3", b"4"])]
        ids.append(await producer.send_message(magnetar.Outgoing(b"5")))
        receipt = producer.send_message_nowait(magnetar.Outgoing(b"6"))
        await producer.flush()
        ids.append(await receipt)
        messages = await take(consumer, 6)
        assert values(messages) == [b"%d-a-b" % number for number in range(1, 7)]
        assert messages[0].key == "k"
        await until(lambda: len(second.receipts) == 6, "all receipts are told")
        expected = [(value, sent, None) for value, sent in zip(values(messages), ids, strict=True)]
        assert first.receipts == second.receipts == expected
        await producer.close()
        assert (first.closed, second.closed) == (1, 1)


async def test_failures_are_told(broker: RunningBroker) -> None:
    seen = Sent(b"")
    async with magnetar.connect(broker.service_url) as client:
        producer = await client.producer(new_topic(), interceptors=[seen], max_pending_messages=1)
        producer.send_nowait(b"a")
        with pytest.raises(magnetar.QueueFull):
            producer.send_nowait(b"b")
        await producer.flush()
        with pytest.raises(magnetar.MessageTooLarge):
            await producer.send(bytes(6 * 1024 * 1024))
        await until(lambda: len(seen.receipts) == 3, "all outcomes are told")
        kinds = {type(error) for _, _, error in seen.receipts}
        assert kinds == {type(None), magnetar.QueueFull, magnetar.MessageTooLarge}


async def test_what_is_not_sent_at_all_is_told(broker: RunningBroker) -> None:
    def nowhere(message: magnetar.Outgoing, partitions: int) -> int:
        raise LookupError("nowhere")

    seen, lost = Sent(b""), Sent(b"")
    async with magnetar.connect(broker.service_url) as client:
        producer = await client.producer(new_topic(), interceptors=[seen], max_pending_messages=1)
        producer.send_nowait(b"a")
        sending = asyncio.create_task(producer.send(b"waits for room"))
        await asyncio.sleep(0)
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        [(value, message_id, error)] = seen.receipts
        assert (value, message_id) == (b"waits for room", None)
        assert isinstance(error, asyncio.CancelledError)

        routed = await client.producer(new_topic(), interceptors=[lost], routing=nowhere)
        with pytest.raises(LookupError):
            routed.send_nowait(b"b")
        with pytest.raises(LookupError):
            await routed.send(b"b")
        assert [type(error) for _, _, error in lost.receipts] == [LookupError] * 2


async def test_consumers(broker: RunningBroker, clock: ManualClock) -> None:
    topic = new_topic()
    seen = Received()
    async with magnetar.connect(broker.service_url, clock=clock) as client:
        consumer = await client.subscribe(
            topic, "s", type="shared", interceptors=[seen], nack_delay_s=0,
            ack_timeout_s=1, ack_timeout_tick_s=0.05,
        )  # fmt: skip
        producer = await client.producer(topic, batching=None)
        ids = await producer.send_batch([b"a", b"b"])
        a, b = await take(consumer, 2)
        assert {a.value, b.value} == {b"a!", b"b!"}
        consumer.nack(a)
        consumer.ack(b)
        assert seen.told == [("ack", [b.id])]
        await consumer.flush()
        clock.advance(0.01)
        a = await consumer.receive(TIMEOUT_S)
        assert seen.told[1:] == [("nack", [a.id])]
        clock.advance(1.05)
        a = await consumer.receive(TIMEOUT_S)
        assert seen.told[2:] == [("timeout", [a.id])]
        consumer.ack_id(a.id)
        assert seen.told[-1] == ("ack", [a.id])
        assert {a.id, b.id} == set(ids)
        await consumer.close()
        assert seen.told[-1] == ("close", [])

        ordered = await client.subscribe(
            topic, "o", initial_position="earliest", interceptors=[seen]
        )
        _, last = await take(ordered, 2)
        ordered.ack_up_to(last)
        assert seen.told[-1] == ("ack up to", [last.id])


async def test_an_error_in_one_is_logged_and_ends_nothing(
    broker: RunningBroker, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    topic = new_topic()
    broken, sent, received = Broken(), Sent(b"+"), Received()
    caplog.set_level(logging.ERROR)
    async with magnetar.connect(broker.service_url, clock=clock) as client:
        consumer = await client.subscribe(
            topic, "s", type="shared", interceptors=[broken, received], nack_delay_s=0,
            ack_timeout_s=1, ack_timeout_tick_s=0.05,
        )  # fmt: skip
        producer = await client.producer(topic, interceptors=[broken, sent])
        await producer.send(b"a")
        message = await consumer.receive(TIMEOUT_S)
        assert message.value == b"a+!"
        consumer.nack(message)
        clock.advance(0.01)
        await consumer.receive(TIMEOUT_S)
        clock.advance(1.05)
        message = await consumer.receive(TIMEOUT_S)
        consumer.ack(message)
        await until(lambda: sent.receipts, "the receipt is told")
        await producer.close()
        await consumer.close()
    kinds = [kind for kind, _ in received.told]
    assert {"nack", "timeout", "ack", "close"} == set(kinds)
    for method in ("before_send", "on_receipt", "before_consume", "on_nack", "on_ack", "close"):
        assert f"{method} is broken" in caplog.text


async def test_what_is_no_message_is_not_taken(broker: RunningBroker) -> None:
    class Forgetful(magnetar.ProducerInterceptor, magnetar.ConsumerInterceptor):
        def before_send(self, topic: str, message: magnetar.Outgoing) -> magnetar.Outgoing:
            return None  # type: ignore[return-value]

        def before_consume(self, message: magnetar.Message[bytes]) -> magnetar.Message[bytes]:
            return None  # type: ignore[return-value]

    topic = new_topic()
    async with magnetar.connect(broker.service_url) as client:
        consumer = await client.subscribe(topic, "s", interceptors=[Forgetful()])
        producer = await client.producer(topic, interceptors=[Forgetful()])
        await producer.send(b"a")
        assert (await consumer.receive(TIMEOUT_S)).value == b"a"


@pytest.mark.parametrize("ends", ["close", "abort"])
async def test_the_end_of_the_client_is_told_once(broker: RunningBroker, ends: str) -> None:
    topic = new_topic()
    sent, sent_before, received = Sent(b""), Sent(b""), Received()
    client = magnetar.connect(broker.service_url)
    producer = await client.producer(topic, interceptors=[sent])
    closed_before = await client.producer(topic, interceptors=[sent_before])
    consumer = await client.subscribe(topic, "s", interceptors=[received])
    receipt = producer.send_nowait(b"a")
    await closed_before.close()
    assert (sent.closed, sent_before.closed) == (0, 1)
    await getattr(client, ends)()
    assert receipt.done()
    assert [value for value, *_ in sent.receipts] == [b"a"], "told before the end is"
    await consumer.close()
    await client.close()
    assert (sent.closed, sent_before.closed) == (1, 1)
    assert received.told == [("close", [])]
