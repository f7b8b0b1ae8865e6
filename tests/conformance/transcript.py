"""A dialogue, written down so that two brokers can be compared.

What differs from run to run becomes a role: ledgers are A, B, ... in the order in which they
appear, made-up names <generated 1>, ..., the trace's own token T, the broker's address <broker>,
transactions that the broker began t1, t2, ....
Texts of errors, times and rates are left out; a field at its default is not distinguished from
an absent one, as no client can rely on that.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.broker_metadata import broker_metadata_of
from magnetar_proto.entries import parse_metadata
from magnetar_proto.errors import RemoteError
from magnetar_proto.wire import to_signed64

TRANSCRIPTS = Path(__file__).parent / "transcripts"
ORIGINAL, MAGNETAR = "original", "magnetar"
LEFT_OUT = {
    "request_id", "message", "error_message", "server_version", "client_version",
    "address", "connectedSince", "msgRateOut", "msgThroughputOut", "msgRateRedeliver",
    "msgRateExpired", "messageAckRate",
}  # fmt: skip
MADE_UP = {"producer_name", "consumerName"}
TRANSACTION = {"txnid_most_bits", "txnid_least_bits"}
"""The id of a transaction."""
ALWAYS_SHOWN = {"error", "error_code"}
"""Optional, but their presence means that something failed."""
NONE = {"highest_sequence_id": [2**64 - 1]}
"""Further values that mean none: the original alternates between them."""
NO_LEDGERS = {-1, 0, 2**63 - 1}
"""Of "none", of non-persistent messages and of "the latest"."""
SHOWN_BYTES = 40


class Roles:
    """Who is who in one run of one trace."""

    def __init__(self, token: str, addresses: Mapping[str, str]) -> None:
        """`addresses` has the role of each."""
        self._words = [(token, "T"), *addresses.items()]
        self._sent: set[str] = set()
        self._generated: dict[str, str] = {}
        self._ledgers: dict[int, str] = {}
        self._transactions: dict[tuple[int, int], str] = {}

    def knows(self, word: str, role: str) -> None:
        """Give a role to a further text."""
        self._words.append((word, role))

    def sent(self, command: Message) -> str:
        """A command of ours; it makes its names and numbers known."""
        for field, value in command.ListFields():
            if isinstance(value, str):
                self._sent.add(value)
            elif field.name == "message_id" and field.message_type is not None:
                for position in value if field.is_repeated else [value]:
                    self._ledgers.setdefault(position.ledgerId, str(to_signed64(position.ledgerId)))
        return self.fields(command)

    def fields(self, message: Message) -> str:
        """Every field with a value of its own, in the order of the protocol's definition."""
        transaction = self._transaction(message)
        left_out = LEFT_OUT if transaction is None else LEFT_OUT | TRANSACTION
        shown = [
            f"{field.name}={self._value(field, value)}"
            for field, value in message.ListFields()
            if field.name not in left_out and _is_set(field, value)
        ]
        return " ".join(shown if transaction is None else [f"txn={transaction}", *shown])

    def entry(self, entry: bytes) -> str:
        """What a message consists of."""
        try:
            metadata, start = parse_metadata(entry)
        except RemoteError:
            return f"<{len(entry)} bytes that are no message>"
        chosen = ["sequence_id", "num_messages_in_batch", "partition_key", "uuid", "chunk_id"]
        shown = [f"{name}={getattr(metadata, name)}" for name in chosen if metadata.HasField(name)]
        if metadata.compacted_batch_indexes:
            shown.append(f"compacted_batch_indexes={list(metadata.compacted_batch_indexes)}")
        return f"{_added_to(entry)}{{{' '.join(shown)}}} {self._bytes(entry[start:])}"

    def text(self, text: str) -> str:
        """A text without what differs from run to run, in quotes if it is not one word."""
        text = self.plain(text)
        return text if re.fullmatch(r"\S+", text) else repr(text)

    def plain(self, text: str) -> str:
        """A text without quotes, with roles in place of names."""
        for word, role in self._words:
            text = text.replace(word, role)
        return text

    def ledger(self, number: int) -> str:
        """A ledger's letter; a new one for one that has not been seen."""
        signed = to_signed64(number)
        if signed in NO_LEDGERS:
            return str(signed)
        return self._ledgers.setdefault(number, self._next_ledger())

    def _transaction(self, message: Message) -> str | None:
        """The role of the transaction that it names, if the broker began it in this trace."""
        if not TRANSACTION.issubset(message.DESCRIPTOR.fields_by_name):
            return None
        named: Any = message
        id_bits = (named.txnid_most_bits, named.txnid_least_bits)
        if isinstance(message, pb.CommandNewTxnResponse) and not message.HasField("error"):
            self._transactions.setdefault(id_bits, f"t{len(self._transactions) + 1}")
        return self._transactions.get(id_bits)

    def _value(self, field: FieldDescriptor, value: Any) -> str:
        if field.is_repeated:
            if field.name == "topics":  # a set
                value = sorted(value)
            return "[" + ", ".join(self._single(field, each) for each in value) + "]"
        return self._single(field, value)

    def _single(self, field: FieldDescriptor, value: Any) -> str:
        if field.message_type is not None:
            return self._nested(value)
        if field.enum_type is not None:
            return str(field.enum_type.values_by_number[value].name)
        if isinstance(value, bytes):
            return self._bytes(value)
        if isinstance(value, str):
            return self._name(field.name, value)
        if isinstance(value, bool):
            return str(value).lower()
        return str(to_signed64(value) if field.type == FieldDescriptor.TYPE_UINT64 else value)

    def _nested(self, message: Message) -> str:
        if isinstance(message, pb.MessageIdData):
            return self._position(message)
        if isinstance(message, pb.KeyValue):
            return f"{self.text(message.key)}:{self.text(message.value)}"
        return "{" + self.fields(message) + "}"

    def _name(self, field: str, value: str) -> str:
        made_up = field == "topics_hash" or (field in MADE_UP and value not in self._sent)
        if not made_up or not value:
            return self.text(value)
        return self._generated.setdefault(value, f"<generated {len(self._generated) + 1}>")

    def _position(self, position: pb.MessageIdData) -> str:
        role, entry = self.ledger(position.ledgerId), to_signed64(position.entryId)
        rest = [
            f"{field.name}={self._value(field, value)}"
            for field, value in position.ListFields()
            if field.number > 2 and _is_set(field, value)
        ]
        return " ".join([f"{role}:{entry}", *rest])

    def _next_ledger(self) -> str:
        letters = [role for role in self._ledgers.values() if role.isalpha()]
        return chr(ord("A") + len(letters))

    def _bytes(self, value: bytes) -> str:
        if len(value) > SHOWN_BYTES:
            return f"<{len(value)} bytes>"
        return repr(value)[1:]


def _added_to(entry: bytes) -> str:
    """What a broker has added to a message; of times only that they are there."""
    added = broker_metadata_of(entry)
    if added is None:
        return ""
    time = "time " if added.HasField("broker_timestamp") else ""
    return f"<{time}index={added.index}> " if added.HasField("index") else f"<{time}> "


def _is_set(field: FieldDescriptor, value: Any) -> bool:
    if field.is_required or field.is_repeated or field.message_type is not None:
        return True
    nothing = [field.default_value, *NONE.get(field.name, [])]
    return field.name in ALWAYS_SHOWN or value not in nothing


class Transcripts:
    """Those of one group of traces by one broker, in one file."""

    def __init__(self, side: str, group: str) -> None:
        self.path = TRANSCRIPTS / side / f"{group}.txt"
        self.by_trace: dict[str, str] = {}
        if self.path.exists():
            parts = re.split(r"^== (\w+)\n", self.path.read_text(), flags=re.MULTILINE)
            self.by_trace = dict(zip(parts[1::2], (p.strip() for p in parts[2::2]), strict=True))

    def write(self, head: str) -> None:
        """Write them all; a group without any has no file."""
        if not self.by_trace:
            self.path.unlink(missing_ok=True)
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        sections = [f"\n== {name}\n{text}\n" for name, text in self.by_trace.items()]
        self.path.write_text(f"{head}\n" + "".join(sections))
