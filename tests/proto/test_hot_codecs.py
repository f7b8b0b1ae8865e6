"""Codecs written by hand, against the generated classes, in both directions."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from google.protobuf.message import DecodeError, Message
from hypothesis import given
from hypothesis import strategies as st

from fakes.frames import around, frame_of, frames_of, located
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.acks import Ack, decode_ack, encode_ack
from magnetar_proto.deliveries import (
    decode_flow,
    decode_message,
    encode_flow,
    encode_message,
    encode_messages,
)
from magnetar_proto.entries import verify_checksum
from magnetar_proto.errors import BadCommand, LocalError
from magnetar_proto.frames import Frame
from magnetar_proto.sends import (
    Receipts,
    decode_receipt,
    decode_send,
    encode_receipts,
    encode_send,
)
from magnetar_proto.wire import encode_varint

MAX64 = 2**64 - 1
u64 = st.integers(0, MAX64) | st.integers(0, 300) | st.integers(16_000, 17_000)
u32 = st.integers(0, 2**32 - 1) | st.integers(0, 300)
i31 = st.integers(0, 2**31 - 1) | st.integers(0, 300)
i32 = st.integers(-(2**31), 2**31 - 1) | st.integers(0, 300)
signed_id = st.integers(-1, 2**63 - 1) | st.integers(-1, 300)
word = st.integers(-(2**63), 2**63 - 1)


def maybe(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | values


def fields(**strategies: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Fields by name, those drawn as None left out."""
    return st.fixed_dictionaries(strategies).map(
        lambda drawn: {name: value for name, value in drawn.items() if value is not None}
    )


def body_of(frame: Frame, name: str) -> Any:
    command = pb.BaseCommand.FromString(frame[1][frame[2] : frame[3]])
    assert command.type == frame[0]
    return getattr(command, name)


message_ids = fields(
    ledgerId=u64,
    entryId=u64,
    partition=maybe(i32),
    batch_index=maybe(i32),
    ack_set=st.lists(word, max_size=3),
    batch_size=maybe(i31),
).map(lambda drawn: pb.MessageIdData(**drawn))

sends = fields(
    producer_id=u64,
    sequence_id=u64,
    num_messages=maybe(i32),
    highest_sequence_id=maybe(u64),
    is_chunk=maybe(st.booleans()),
).map(lambda drawn: pb.CommandSend(**drawn))

acks = fields(
    consumer_id=u64,
    ack_type=st.integers(0, 1),
    message_id=st.lists(message_ids, max_size=4),
    validation_error=maybe(st.integers(0, 4)),
    properties=st.lists(
        st.builds(pb.KeyLongValue, key=st.sampled_from("abc"), value=u64), max_size=2
    ),
    txnid_least_bits=maybe(u64),
    txnid_most_bits=maybe(u64),
    request_id=maybe(u64),
).map(lambda drawn: pb.CommandAck(**drawn))

messages = fields(
    consumer_id=u64,
    message_id=message_ids,
    redelivery_count=maybe(u32),
    ack_set=st.lists(word, max_size=3),
    consumer_epoch=maybe(u64),
).map(lambda drawn: pb.CommandMessage(**drawn))

receipts = fields(
    producer_id=u64,
    sequence_id=u64,
    message_id=maybe(message_ids),
    highest_sequence_id=maybe(u64),
).map(lambda drawn: pb.CommandSendReceipt(**drawn))

flows = st.builds(pb.CommandFlow, consumer_id=u64, messagePermits=u32)


def signed(value: int) -> int:
    return value - 2**64 if value >= 2**63 else value


def read_send(send: pb.CommandSend) -> Any:
    if any(map(send.HasField, ("txnid_least_bits", "txnid_most_bits", "marker", "message_id"))):
        return None
    messages = 0 if send.is_chunk else send.num_messages
    return send.producer_id, send.sequence_id, messages, send.highest_sequence_id


def read_receipt(receipt: pb.CommandSendReceipt) -> Any:
    found = receipt.HasField("message_id")
    ledger = signed(receipt.message_id.ledgerId) if found else -1
    entry = signed(receipt.message_id.entryId) if found else -1
    return receipt.producer_id, receipt.sequence_id, receipt.highest_sequence_id, ledger, entry


def read_message(message: pb.CommandMessage) -> Any:
    return (
        message.consumer_id,
        signed(message.message_id.ledgerId),
        signed(message.message_id.entryId),
        message.message_id.partition,
        message.redelivery_count,
        tuple(word % 2**64 for word in message.ack_set),
        message.consumer_epoch if message.HasField("consumer_epoch") else None,
    )


def read_ack(ack: pb.CommandAck) -> Any:
    txn = ack.HasField("txnid_least_bits") or ack.HasField("txnid_most_bits")
    return Ack(
        consumer_id=ack.consumer_id,
        ack_type=ack.ack_type,
        message_ids=[
            (signed(i.ledgerId), signed(i.entryId), tuple(word % 2**64 for word in i.ack_set))
            for i in ack.message_id
        ],
        request_id=ack.request_id if ack.HasField("request_id") else None,
        validation_error=ack.validation_error if ack.HasField("validation_error") else None,
        txn=(ack.txnid_most_bits, ack.txnid_least_bits) if txn else None,
        properties={item.key: item.value for item in ack.properties},
    )


def read_flow(flow: pb.CommandFlow) -> Any:
    return flow.consumer_id, flow.messagePermits


Decoder = Callable[[bytes, int, int], Any]
HOT: dict[int, tuple[str, Decoder, Callable[[Any], Any]]] = {
    pb.BaseCommand.SEND: ("send", decode_send, read_send),
    pb.BaseCommand.SEND_RECEIPT: ("send_receipt", decode_receipt, read_receipt),
    pb.BaseCommand.MESSAGE: ("message", decode_message, read_message),
    pb.BaseCommand.ACK: ("ack", decode_ack, read_ack),
    pb.BaseCommand.FLOW: ("flow", decode_flow, read_flow),
}
hot = st.one_of(
    *(
        st.tuples(st.just(kind), strategy)
        for kind, strategy in zip(HOT, (sends, receipts, messages, acks, flows), strict=True)
    )
)


def reference(kind: int, command: bytes) -> Any:
    """What the generated classes make of it: a reading, or BadCommand."""
    name, _, read = HOT[kind]
    try:
        parsed = pb.BaseCommand.FromString(command)
    except DecodeError:
        return BadCommand
    if not parsed.IsInitialized() or parsed.type != kind or not parsed.HasField(name):
        return BadCommand
    if not all(isinstance(text, str) for text in texts(parsed)):
        return BadCommand  # it is not UTF-8, and the parser hands out bytes
    return read(getattr(parsed, name))


def texts(message: Message) -> Iterator[object]:
    """What stands in the string fields of a message, at any depth."""
    for descriptor, value in message.ListFields():
        values = value if descriptor.is_repeated else [value]
        if descriptor.type == descriptor.TYPE_STRING:
            yield from values
        elif descriptor.message_type:
            for inner in values:
                yield from texts(inner)


def reading(kind: int, command: bytes) -> Any:
    try:
        return HOT[kind][1](*located(command))
    except BadCommand:
        return BadCommand


# --- decoders written by hand --------------------------------------------------------------------


@given(hot)
def test_hot_decoders_read_what_protobuf_wrote(drawn: tuple[int, Any]) -> None:
    kind, body = drawn
    name, decode, read = HOT[kind]
    command = pb.BaseCommand(type=kind, **{name: body}).SerializeToString()  # type: ignore[arg-type]
    assert decode(*located(command)) == read(body)


@given(hot, st.randoms(use_true_random=False))
def test_hot_decoders_accept_fields_in_any_order(drawn: tuple[int, Any], random: Any) -> None:
    kind, body = drawn
    single = [type(body)() for _ in body.ListFields()]
    for part, (descriptor, value) in zip(single, body.ListFields(), strict=True):
        if descriptor.is_repeated:
            getattr(part, descriptor.name).extend(value)
        elif descriptor.message_type:
            getattr(part, descriptor.name).CopyFrom(value)
        else:
            setattr(part, descriptor.name, value)
    pieces = [part.SerializePartialToString() for part in single]
    random.shuffle(pieces)
    assert reading(kind, around(kind, b"".join(pieces))) == HOT[kind][2](body)


@given(hot)
def test_hot_decoders_ignore_unknown_fields(drawn: tuple[int, Any]) -> None:
    kind, body = drawn
    unknown = b"\xf8\x07\x05" + b"\xfa\x07\x03abc"
    assert reading(kind, around(kind, body.SerializeToString() + unknown)) == HOT[kind][2](body)


@given(hot)
def test_hot_decoders_accept_a_type_behind_the_command(drawn: tuple[int, Any]) -> None:
    kind, body = drawn
    encoded = around(kind, body.SerializeToString())
    assert reading(kind, encoded[2:] + encoded[:2]) == HOT[kind][2](body)


@given(hot, st.data())
def test_hot_decoders_and_protobuf_agree_on_damage(drawn: tuple[int, Any], data: Any) -> None:
    kind, body = drawn
    command = bytearray(around(kind, body.SerializeToString()))
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(2, len(command) - 1))
        command[place] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(2, len(command)) | st.just(len(command)))
    damaged = bytes(command[:cut])
    assert reading(kind, damaged) == reference(kind, damaged)


@given(st.sampled_from(sorted(HOT)), st.binary(max_size=40))
def test_hot_decoders_and_protobuf_agree_on_noise(kind: int, noise: bytes) -> None:
    command = b"\x08" + bytes((kind,)) + noise
    assert reading(kind, command) == reference(kind, command)


HUGE = encode_varint(2**40 + 5)
BACK_OUT = b"\x1a\x02\x08\x01\x10\x02"  # a message id that ends before its entry
ODD = {
    "is_chunk cut short": (6, b"\x08\x01\x10\x02\x38\x80"),
    "num_messages beyond 32 bits": (6, b"\x08\x01\x10\x02\x18" + HUGE),
    "permits beyond 32 bits": (11, b"\x08\x01\x10" + HUGE),
    "redelivery_count beyond 32 bits": (9, b"\x08\x01\x12\x04\x08\x01\x10\x02\x18" + HUGE),
    "partition beyond 32 bits": (9, b"\x08\x01\x12\x0b\x08\x01\x10\x02\x18" + HUGE),
    "unknown ack type": (10, b"\x08\x01\x10\x02"),
    "id of an ack ends early": (10, b"\x08\x01\x10\x00" + BACK_OUT),
    "id of a receipt ends early": (7, b"\x08\x01\x10\x00" + BACK_OUT),
    "id of a message ends early": (9, b"\x08\x01\x12\x02\x08\x01\x10\x02"),
    "varint longer than needed": (6, b"\x08\x81\x80\x00\x10\x82\x00"),
}


@pytest.mark.parametrize(("kind", "body"), ODD.values(), ids=ODD)
def test_hot_decoders_and_protobuf_agree_on_odd_layouts(kind: int, body: bytes) -> None:
    assert reading(kind, around(kind, body)) == reference(kind, around(kind, body))


def test_a_property_that_is_not_utf_8_is_damage() -> None:
    """A parser in Python takes it, and returns bytes, which no caller could use."""
    ack = pb.CommandAck(consumer_id=1, ack_type=pb.CommandAck.Individual)
    ack.properties.add(key="key", value=1)
    damaged = around(10, ack.SerializeToString().replace(b"key", b"k\xffy"))
    assert pb.BaseCommand.FromString(damaged).ack.consumer_id == 1
    assert reading(10, damaged) is reference(10, damaged) is BadCommand


def test_send_with_further_fields_is_left_to_the_generated_class() -> None:
    for extra in ({"marker": True}, {"txnid_most_bits": 0}, {"message_id": pb.MessageIdData()}):
        send = pb.CommandSend(producer_id=1, sequence_id=2)
        send.MergeFrom(pb.CommandSend(**extra))
        if extra.get("message_id"):
            send.message_id.ledgerId = send.message_id.entryId = 3
        assert decode_send(*located(around(6, send.SerializeToString()))) is None


def test_a_huge_ack_is_read() -> None:
    ids: list[tuple[int, int, tuple[int, ...]]] = [(7, entry, ()) for entry in range(20_000)]
    kind, buf, start, mid, _ = frame_of(encode_ack(1, 0, ids, 9))
    assert kind == pb.BaseCommand.ACK
    assert decode_ack(buf, start, mid) == Ack(1, 0, ids, 9)


# --- encoders written by hand --------------------------------------------------------------------


@given(u64, u64, i31, st.binary(max_size=30), st.binary(max_size=30), maybe(u64))
def test_encode_send(
    producer: int, sequence: int, count: int, metadata: bytes, payload: bytes, highest: int | None
) -> None:
    frame = frame_of(encode_send(producer, sequence, count, metadata, payload, highest))
    send = body_of(frame, "send")
    assert read_send(send) == (producer, sequence, count, highest or 0)
    assert send.HasField("highest_sequence_id") == (highest is not None)
    kind, _, _, _, entry = frame
    assert kind == pb.BaseCommand.SEND
    assert verify_checksum(entry, 0, len(entry))
    assert entry[:2] == b"\x0e\x01"
    assert entry[6:] == len(metadata).to_bytes(4, "big") + metadata + payload


@given(u64, u64, i31, maybe(u64), u64, u64)
def test_encode_send_in_a_transaction(
    producer: int, sequence: int, count: int, highest: int | None, most: int, least: int
) -> None:
    frame = frame_of(encode_send(producer, sequence, count, b"", b"", highest, (most, least)))
    send = body_of(frame, "send")
    assert (send.producer_id, send.sequence_id, send.num_messages) == (producer, sequence, count)
    assert send.highest_sequence_id == (highest or 0)
    assert (send.txnid_most_bits, send.txnid_least_bits) == (most, least)
    command = frame[1][frame[2] : frame[3]]
    in_order = pb.BaseCommand.FromString(command).SerializeToString()
    assert command == in_order


@given(u64, st.lists(st.tuples(u64, u64 | st.just(0)), max_size=8), signed_id, signed_id)
def test_encode_receipts(
    producer: int, pairs: list[tuple[int, int]], ledger: int, first_entry: int
) -> None:
    data = encode_receipts(
        producer, [low for low, _ in pairs], [high for _, high in pairs], ledger, first_entry
    )
    expected = [
        (producer, low, high, ledger, -1 if first_entry < 0 else signed(first_entry + index))
        for index, (low, high) in enumerate(pairs)
    ]
    receipts = Receipts(producer)
    step = 0 if first_entry < 0 else 1
    one_by_one = (
        receipts.one(low, high, ledger, first_entry + step * index)
        for index, (low, high) in enumerate(pairs)
    )
    assert b"".join(one_by_one) == data
    frames = frames_of(data)
    assert [decode_receipt(*frame[1:4]) for frame in frames] == expected
    bodies = [body_of(frame, "send_receipt") for frame in frames]
    assert [read_receipt(body) for body in bodies] == expected
    assert all(body.HasField("highest_sequence_id") for body in bodies)


def test_receipts_across_the_steps_of_a_varint() -> None:
    sequences = list(range(120, 135)) + list(range(16_380, 16_390)) + [2**28 - 1, 2**28, 2**63]
    data = encode_receipts(1, sequences, [0] * len(sequences), 5, 120)
    assert [decode_receipt(*frame[1:4]) for frame in frames_of(data)] == [
        (1, sequence, 0, 5, 120 + index) for index, sequence in enumerate(sequences)
    ]
    receipts = Receipts(1)
    assert data == b"".join(
        receipts.one(sequence, 0, 5, 120 + index) for index, sequence in enumerate(sequences)
    )


steps = st.sampled_from([0, 1, 100, 2**14 - 20, 2**14, 2**21 - 20, 2**28 - 20, 2**64 - 60])


@given(u64, steps, steps, signed_id, st.integers(2, 50), st.integers(0, 3))
def test_receipts_that_count_are_those_that_do_not(
    producer: int, sequence_id: int, entry: int, ledger: int, n: int, more: int
) -> None:
    first, first_entry = sequence_id + more, entry // 2 + more
    counting = list(range(first, first + n))
    one_by_one = [
        encode_receipts(producer, [number], [0], ledger, first_entry + at)
        for at, number in enumerate(counting)
    ]
    zeros = [0] * n
    found = encode_receipts(producer, counting, zeros, ledger, first_entry)
    assert found == b"".join(one_by_one)


@given(
    u64,
    signed_id,
    st.integers(0, 2**62) | st.integers(120, 130),
    st.integers(-1, 2**31 - 1),
    st.lists(st.binary(max_size=20), max_size=6) | st.lists(st.just(b"same size"), max_size=6),
    maybe(u64),
)
def test_encode_messages(
    consumer: int,
    ledger: int,
    first_entry: int,
    partition: int,
    payloads: list[bytes],
    epoch: int | None,
) -> None:
    out = encode_messages(consumer, ledger, first_entry, partition, payloads, epoch)
    frames = frames_of(b"".join(out))
    assert [payload for *_, payload in frames] == payloads
    for entry, frame in enumerate(frames, first_entry):
        expected = (consumer, ledger, entry, partition, 0, (), epoch)
        assert decode_message(*frame[1:4]) == expected
        body = body_of(frame, "message")
        assert read_message(body) == expected
        assert body.message_id.HasField("partition") == (partition >= 0)
        single = encode_message(consumer, ledger, entry, partition, b"p" * 9, consumer_epoch=epoch)
        assert body_of(frame_of(single + b"p" * 9), "message") == body


@pytest.mark.parametrize("step", [128, 1 << 14, 2 << 14, 1 << 28, 1 << 42])
def test_messages_across_the_steps_of_an_entry_id(step: int) -> None:
    payloads = [b"%d" % index for index in range(20)]
    frames = frames_of(b"".join(encode_messages(1, 2, step - 10, -1, payloads)))
    assert [decode_message(*frame[1:4]).entry for frame in frames] == [
        step - 10 + index for index in range(20)
    ]
    assert [payload for *_, payload in frames] == payloads


def test_small_messages_are_one_buffer_and_large_payloads_are_not_copied() -> None:
    assert len(encode_messages(1, 2, 3, -1, [b"a", b"bc", b"def"])) == 1
    payloads = [bytes(100_000), bytes(7), bytes(200_000)]
    out = encode_messages(1, 2, 3, -1, payloads)
    assert [id(buffer) for buffer in out[1::2]] == list(map(id, payloads))
    assert [payload for *_, payload in frames_of(b"".join(out))] == payloads


@given(u64, signed_id, signed_id, u32, st.lists(word, max_size=12), maybe(u64), st.binary())
def test_encode_message(
    consumer: int,
    ledger: int,
    entry: int,
    redeliveries: int,
    ack_set: list[int],
    epoch: int | None,
    payload: bytes,
) -> None:
    head = encode_message(consumer, ledger, entry, 4, payload, redeliveries, ack_set, epoch)
    frame = frame_of(head + payload)
    words = tuple(word % 2**64 for word in ack_set)
    expected = (consumer, ledger, entry, 4, redeliveries, words, epoch)
    assert read_message(body_of(frame, "message")) == expected
    assert decode_message(*frame[1:4]) == expected
    assert frame[4] == payload


@given(
    u64,
    st.integers(0, 1),
    st.lists(st.tuples(signed_id, signed_id, st.lists(word, max_size=20).map(tuple)), max_size=4),
    maybe(u64),
)
def test_encode_ack(
    consumer: int,
    ack_type: int,
    ids: list[tuple[int, int, tuple[int, ...]]],
    request: int | None,
) -> None:
    frame = frame_of(encode_ack(consumer, ack_type, ids, request))
    unsigned = [(ledger, entry, tuple(w % 2**64 for w in words)) for ledger, entry, words in ids]
    expected = Ack(consumer, ack_type, unsigned, request)
    assert decode_ack(*frame[1:4]) == expected
    assert read_ack(body_of(frame, "ack")) == expected


@given(u64, u32)
def test_encode_flow(consumer: int, permits: int) -> None:
    frame = frame_of(encode_flow(consumer, permits))
    assert decode_flow(*frame[1:4]) == (consumer, permits)
    assert read_flow(body_of(frame, "flow")) == (consumer, permits)


def test_ids_that_do_not_fit_are_our_fault() -> None:
    with pytest.raises(LocalError):
        encode_flow(-1, 1)
    with pytest.raises(LocalError):
        encode_receipts(1, [-1], [0], 1, 1)
    with pytest.raises(LocalError):
        encode_receipts(1, [-2, -1], [0, 0], 1, 1)
    with pytest.raises(LocalError):
        encode_receipts(1, [2**64 - 1, 2**64], [0, 0], 1, 1)
    with pytest.raises(LocalError):
        encode_messages(1, 1, -1, -1, [b""])
    with pytest.raises(LocalError):
        encode_send(1, 2**64, 1, b"", b"")
