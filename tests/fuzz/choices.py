"""Decisions read out of a fuzzer's bytes: every input means something, and small changes of it
mean something similar."""

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from google.protobuf.descriptor import FieldDescriptor as Field
from google.protobuf.message import Message

T = TypeVar("T")

MAX64: Final = (1 << 64) - 1
MAX32: Final = (1 << 32) - 1
EDGES: Final = (
    127, 128, 255, 256, 16383, 16384, (1 << 21) - 1, 1 << 28, (1 << 31) - 1, 1 << 31,
    (1 << 32) - 1, 1 << 32, (1 << 48) - 1, (1 << 63) - 1, 1 << 63, MAX64,
)  # fmt: skip
DEEPEST: Final = 3
"""How far messages within messages are filled."""


class Choices:
    """Reads decisions in turn; when the bytes are used up, each is the first there is."""

    def __init__(self, data: bytes, texts: Sequence[str] = ("",)) -> None:
        self._data = data
        self._at = 0
        self._texts = texts

    @property
    def left(self) -> int:
        """Bytes not used yet."""
        return len(self._data) - self._at

    def byte(self) -> int:
        if self._at >= len(self._data):
            return 0
        self._at += 1
        return self._data[self._at - 1]

    def below(self, limit: int) -> int:
        """One of the first 256 numbers below `limit`."""
        return self.byte() % limit

    def pick(self, options: Sequence[T]) -> T:
        return options[self.below(len(options))]

    def flag(self) -> bool:
        return bool(self.byte() & 1)

    def number(self, most: int = MAX64) -> int:
        """0..most: mostly small, often at an edge, sometimes any."""
        kind = self.byte()
        if kind < 160:
            found = kind % 8
        elif kind < 240:
            found = EDGES[kind % len(EDGES)]
        else:
            found = int.from_bytes(self.take(8), "little")
        return found if found <= most else found % (most + 1)

    def take(self, size: int) -> bytes:
        """The next bytes, fewer at the end."""
        taken = self._data[self._at : self._at + size]
        self._at += len(taken)
        return taken

    def data(self) -> bytes:
        """Up to 65535 bytes behind their size."""
        size = self.byte()
        return self.take(size if size < 255 else self.byte() << 8 | self.byte())

    def rest(self) -> bytes:
        return self.take(self.left)

    def text(self) -> str:
        """One of the given texts, or any."""
        if self.byte() < 224:
            return self.pick(self._texts)
        return self.data().decode("utf-8", "ignore")

    def message(self, kind: type[Message]) -> Any:
        """A protobuf message with its required fields and any of the others."""
        message = kind()
        self._fill(message, 0)
        return message

    def _fill(self, message: Message, depth: int) -> None:
        fields: Sequence[Field] = message.DESCRIPTOR.fields  # type: ignore[assignment]
        present = int.from_bytes(self.take((len(fields) + 7) // 8), "little")
        for index, field in enumerate(fields):
            wanted = present >> index & 1 and depth < DEEPEST
            if field.is_repeated:
                self._repeat(message, field, depth, self.below(4) if wanted else 0)
            elif field.message_type is not None and (wanted or field.is_required):
                part = getattr(message, field.name)
                part.SetInParent()
                self._fill(part, depth + 1)
            elif wanted or field.is_required:
                setattr(message, field.name, self._value(field))

    def _repeat(self, message: Message, field: Field, depth: int, count: int) -> None:
        values = getattr(message, field.name)
        for _ in range(count):
            if field.message_type is not None:
                self._fill(values.add(), depth + 1)
            else:
                values.append(self._value(field))

    def _value(self, field: Field) -> Any:
        if field.type == Field.TYPE_ENUM:
            assert field.enum_type is not None
            return self.pick(field.enum_type.values).number
        return VALUES[field.type](self)


def signed(value: int, bits: int) -> int:
    """A number's 64 bits as a signed one."""
    return value - (1 << bits) if value >> (bits - 1) else value


VALUES: Final[dict[int, Callable[[Choices], Any]]] = {
    Field.TYPE_STRING: Choices.text,
    Field.TYPE_BYTES: Choices.data,
    Field.TYPE_BOOL: Choices.flag,
    Field.TYPE_DOUBLE: lambda choices: float(choices.number()),
    Field.TYPE_UINT64: Choices.number,
    Field.TYPE_UINT32: lambda choices: choices.number(MAX32),
    Field.TYPE_INT32: lambda choices: signed(choices.number(MAX32), 32),
    Field.TYPE_INT64: lambda choices: signed(choices.number(), 64),
}
