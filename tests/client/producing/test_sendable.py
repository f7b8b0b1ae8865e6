"""What cannot be sent is refused with what is wrong with it, and nothing else is lost."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import magnetar
from admin_http import Admin
from effort import examples
from magnetar.producing.batching import Sender
from magnetar.producing.sendable import checked
from running_broker import RunningBroker

BAD: list[tuple[Any, type[Exception], str]] = [
    ("text", TypeError, "must be bytes, but is str"),
    (5, TypeError, "must be bytes, but is int"),
    (bytearray(b"x"), TypeError, "must be bytes, but is bytearray"),
    (None, TypeError, "is_null=True"),
    (magnetar.Outgoing("text"), TypeError, "must be bytes, but is str"),
    (magnetar.Outgoing(None), TypeError, "is_null=True"),
    (magnetar.Outgoing(b"", key=5), TypeError, "key must be str, but is 5"),  # type: ignore[arg-type]
    (magnetar.Outgoing(b"", key="\ud800"), UnicodeEncodeError, "surrogates not allowed"),
    (magnetar.Outgoing(b"", ordering_key="k"), TypeError, "ordering_key must be bytes"),  # type: ignore[arg-type]
    (magnetar.Outgoing(b"", properties={"a": 1}), TypeError, "property 'a' must be str, but is 1"),  # type: ignore[dict-item]
    (magnetar.Outgoing(b"", properties={1: "a"}), TypeError, "name of a property must be str"),  # type: ignore[dict-item]
    (magnetar.Outgoing(b"", properties=["a"]), TypeError, "mapping of str to str"),  # type: ignore[arg-type]
    (magnetar.Outgoing(b"", event_time_ms=-1), ValueError, "event_time_ms must be from 0"),
    (magnetar.Outgoing(b"", event_time_ms=1.5), TypeError, "event_time_ms must be int"),  # type: ignore[arg-type]
    (magnetar.Outgoing(b"", deliver_at_ms=2**63), ValueError, "deliver_at_ms must be from 0"),
    (magnetar.Outgoing(b"", sequence_id=-1), ValueError, "sequence_id must be from 0"),
]


@pytest.mark.parametrize(("message", "kind", "text"), BAD, ids=lambda value: repr(value)[:60])
def test_a_message_that_cannot_be_sent(message: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        checked(message)


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
NUMBERS = st.integers(0, 2**63 - 1)
MESSAGES = st.binary(max_size=5) | st.builds(
    magnetar.Outgoing,
    st.binary(max_size=5),
    key=st.none() | TEXT | st.binary(max_size=5),
    ordering_key=st.none() | st.binary(max_size=5),
    properties=st.dictionaries(TEXT, TEXT, max_size=3),
    event_time_ms=NUMBERS,
    deliver_at_ms=NUMBERS,
    sequence_id=st.none() | NUMBERS,
    is_null=st.booleans(),
)


@settings(max_examples=examples(300))
@given(st.lists(MESSAGES, min_size=1, max_size=3))
def test_what_passes_can_be_encoded(messages: list[bytes | magnetar.Outgoing]) -> None:
    for message in messages:
        assert checked(message) is message
    Sender(1, "producer").encode(messages, 0, 0, 1 << 20)


@pytest.mark.parametrize("partitions", [0, 2])
async def test_other_messages_are_stored(broker: RunningBroker, partitions: int) -> None:
    topic = f"persistent://public/default/sendable-{partitions}"
    async with magnetar.connect(broker.service_url) as client:
        if partitions:
            path = f"{topic.replace('://', '/')}/partitions"
            assert Admin(broker).put(path, partitions).status == 204
        async with await client.producer(topic) as producer:
            receipts = [producer.send_nowait(b"before")]
            for message, kind, _ in BAD:
                with pytest.raises(kind):
                    await producer.send_batch([message])
                with pytest.raises(kind):
                    producer.send_nowait(message)
            receipts.append(producer.send_nowait(b"behind"))
            for receipt in receipts:
                await receipt


class Changing(magnetar.ProducerInterceptor):
    """Breaks each message."""

    def before_send(self, topic: str, message: magnetar.Outgoing) -> magnetar.Outgoing:
        return magnetar.Outgoing(b"", key=5)  # type: ignore[arg-type]


async def test_an_interceptor_that_breaks_messages_changes_none(broker: RunningBroker) -> None:
    topic = "persistent://public/default/sendable-intercepted"
    async with magnetar.connect(broker.service_url) as client:
        reader = await client.reader(topic)
        producer = await client.producer(topic, interceptors=[Changing()])
        await producer.send(b"as it is")
        assert (await reader.read()).data == b"as it is"


async def test_a_batch_that_cannot_be_encoded_fails(broker: RunningBroker) -> None:
    topic = "persistent://public/default/sendable-parts"
    async with magnetar.connect(broker.service_url) as client, await client.producer(topic) as one:
        (partition,) = one.partitions
        receipt = partition.add(magnetar.Outgoing("text"))  # type: ignore[arg-type]
        with pytest.raises(TypeError):
            await receipt
        await one.send(b"behind")


async def test_a_message_that_cannot_be_cut_into_chunks_fails(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> list[bytes]:
        raise ZeroDivisionError

    topic = "persistent://public/default/sendable-chunks"
    async with (
        magnetar.connect(broker.service_url) as client,
        await client.producer(topic, batching=None, chunking=True) as producer,
    ):
        with monkeypatch.context() as patched:
            patched.setattr(Sender, "encode_chunks", broken)
            receipt = producer.send_nowait(bytes(6 << 20))
            with pytest.raises(ZeroDivisionError):
                await receipt
        await producer.send(bytes(6 << 20))
