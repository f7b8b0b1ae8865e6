"""Values to encoded commands: what the codecs written by hand write is what the protobuf library
reads.

Input: choices.
"""

from collections.abc import Iterator
from typing import Any, Final

from fuzz.choices import Choices, signed
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto import commands
from magnetar_proto.acks import encode_ack
from magnetar_proto.deliveries import encode_flow, encode_message, encode_messages
from magnetar_proto.entries import verify_checksum
from magnetar_proto.errors import LocalError
from magnetar_proto.frames import FrameDecoder
from magnetar_proto.sends import encode_receipts, encode_send

LONGEST: Final = 1024
MAX64: Final = (1 << 64) - 1
MAX32: Final = (1 << 32) - 1
MAX31: Final = (1 << 31) - 1
SIGNED: Final = (1 << 63) - 1


def run(data: bytes) -> None:
    choices = Choices(data)
    while choices.left:
        choices.pick(ENCODERS)(choices)


def read(frames: bytes, body: bytes | None = None) -> list[tuple[pb.BaseCommand, bytes]]:
    """Every frame as the protobuf library reads it, with its payload section."""
    decoder = FrameDecoder(1 << 20)
    found = decoder.feed(frames if body is None else frames + body)
    assert decoder.error is None
    cut = [(pb.BaseCommand.FromString(b[start:mid]), entry) for _, b, start, mid, entry in found]
    used = sum(mid - start + len(entry) + 8 for _, _, start, mid, entry in found)
    assert used == len(frames) + len(body or b""), "the sizes of the frames are wrong"
    return cut


def send(choices: Choices) -> None:
    producer, sequence = choices.number(), choices.number()
    messages = choices.number(MAX31)
    highest = choices.number() if choices.flag() else None
    metadata, payload = choices.data(), choices.data()
    frame = encode_send(producer, sequence, messages, metadata, payload, highest)
    [(command, entry)] = read(frame)
    expected = pb.CommandSend(producer_id=producer, sequence_id=sequence)
    if messages != 1:
        expected.num_messages = messages
    if highest is not None:
        expected.highest_sequence_id = highest
    same(command, expected)
    assert entry.endswith(len(metadata).to_bytes(4, "big") + metadata + payload)
    assert entry[:2] == b"\x0e\x01" and verify_checksum(frame, len(frame) - len(entry), len(frame))


def receipts(choices: Choices) -> None:
    producer, ledger = choices.number(), signed(choices.number(), 64)
    first = choices.number(SIGNED - 64) if choices.flag() else -1
    pairs = [(choices.number(), choices.number()) for _ in range(choices.below(8))]
    frames = encode_receipts(
        producer, [low for low, _ in pairs], [high for _, high in pairs], ledger, first
    )
    answers = read(frames)
    assert len(answers) == len(pairs)
    for index, ((low, high), (command, payload)) in enumerate(zip(pairs, answers, strict=True)):
        entry = first + index if first >= 0 else MAX64
        place = pb.MessageIdData(ledgerId=ledger & MAX64, entryId=entry)
        same(
            command,
            pb.CommandSendReceipt(
                producer_id=producer, sequence_id=low, message_id=place, highest_sequence_id=high
            ),
        )
        assert payload == b""


def messages(choices: Choices) -> None:
    consumer, ledger = choices.number(), signed(choices.number(), 64)
    first, partition = choices.number(SIGNED - 64), choices.number(MAX31) - 1
    payloads = [choices.data() for _ in range(choices.below(6))]
    answers = read(b"".join(encode_messages(consumer, ledger, first, partition, payloads)))
    for entry, (payload, answer) in enumerate(zip(payloads, answers, strict=True), first):
        same(answer[0], delivered(consumer, ledger, entry, partition))
        assert answer[1] == payload


def message(choices: Choices) -> None:
    consumer, ledger, entry = (signed(choices.number(), 64) for _ in range(3))
    consumer &= MAX64
    partition, count = choices.number(MAX31) - 1, choices.number(MAX32)
    words = [choices.number() for _ in range(choices.below(5))]
    epoch = choices.number() if choices.flag() else None
    payload = choices.data()
    head = encode_message(consumer, ledger, entry, partition, payload, count, words, epoch)
    [(command, found)] = read(head, payload)
    expected = delivered(consumer, ledger, entry, partition)
    if count:
        expected.redelivery_count = count
    expected.ack_set.extend(signed(word, 64) for word in words)
    if epoch is not None:
        expected.consumer_epoch = epoch
    same(command, expected)
    assert found == payload


def delivered(consumer: int, ledger: int, entry: int, partition: int) -> pb.CommandMessage:
    place = pb.MessageIdData(ledgerId=ledger & MAX64, entryId=entry & MAX64)
    if partition >= 0:
        place.partition = partition
    return pb.CommandMessage(consumer_id=consumer, message_id=place)


def ack(choices: Choices) -> None:
    consumer, kind = choices.number(), choices.below(2)
    ids = [
        (
            signed(choices.number(), 64),
            signed(choices.number(), 64),
            [choices.number() for _ in range(choices.below(4))],
        )
        for _ in range(choices.below(6))
    ]
    request = choices.number() if choices.flag() else None
    [(command, payload)] = read(encode_ack(consumer, kind, ids, request))
    expected = pb.CommandAck(consumer_id=consumer, ack_type=pb.CommandAck.AckType.Name(kind))
    for ledger, entry, words in ids:
        expected.message_id.add(
            ledgerId=ledger & MAX64,
            entryId=entry & MAX64,
            ack_set=[signed(word, 64) for word in words],
        )
    if request is not None:
        expected.request_id = request
    same(command, expected)
    assert payload == b""


def flow(choices: Choices) -> None:
    consumer, permits = choices.number(), choices.number(MAX32)
    [(command, payload)] = read(encode_flow(consumer, permits))
    same(command, pb.CommandFlow(consumer_id=consumer, messagePermits=permits))
    assert payload == b""


def impossible(choices: Choices) -> None:
    """Numbers that no field can hold."""
    bad = choices.number() + MAX64 + 1 if choices.flag() else -1 - choices.number()
    for encode in (
        lambda: encode_send(bad, 0, 1, b"", b""),
        lambda: encode_receipts(bad, [0], [0], 0, 0),
        lambda: encode_receipts(0, [bad], [0], 0, 0),
        lambda: encode_ack(bad, 0, []),
        lambda: encode_flow(bad, 1),
        lambda: encode_messages(bad, 0, 0, -1, [b""]),
    ):
        try:
            encode()
        except LocalError:
            continue
        raise AssertionError(f"{bad} was encoded")


def generated(choices: Choices) -> None:
    """Any command, through the generated classes."""
    field = choices.pick([f for f in pb.BaseCommand.DESCRIPTOR.fields if f.message_type])
    assert field.message_type is not None
    part = choices.message(getattr(pb, field.message_type.name))
    frame = commands.encode(part)
    [(command, payload)] = read(frame)
    assert (command.type, payload) == (field.number, b"")
    same(command, part)
    assert commands.decode(frame, 8, len(frame)) == command


def same(command: pb.BaseCommand, part: Any) -> None:
    """The command holds this sub-message and nothing else."""
    assert getattr(command, commands.FIELDS[command.type]) == part
    assert len(command.ListFields()) == 2


ENCODERS: Final = (send, receipts, messages, message, ack, flow, impossible, generated)


def seeds() -> Iterator[bytes]:
    for number in range(len(ENCODERS)):
        yield bytes([number, *range(1, 40)])
        yield bytes([number, *range(160, 240, 3)])
