"""Entries and messages for tests, encoded as by a producer."""

from collections.abc import Sequence
from typing import Any

from magnetar.messages import Entry, Outgoing
from magnetar.producing.batching import Sender
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.frames import FrameDecoder

MIB = 1024 * 1024
TOPIC = "persistent://public/default/t"


def stored(
    messages: Sequence[bytes | Outgoing], sequence_id: int = 0, compression: int = pb.NONE
) -> bytes:
    """Return the bytes that a broker stores for one SEND: those after the command."""
    frame = Sender(7, "p", compression).encode(messages, sequence_id, 1234, 5 * MIB)
    [(kind, _, _, _, entry)] = FrameDecoder(6 * MIB).feed(frame)
    assert kind == pb.BaseCommand.SEND
    return entry


def entry_of(
    messages: Sequence[bytes | Outgoing],
    position: tuple[int, int, int] = (3, 4, -1),
    compression: int = pb.NONE,
    **more: Any,
) -> Entry:
    """Return an entry as a consumer receives it."""
    return Entry(TOPIC, position, stored(messages, compression=compression), **more)
