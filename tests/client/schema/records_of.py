"""Classes that tests send: what a field may be, and two versions of one class."""

from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time
from enum import Enum
from typing import Annotated
from uuid import UUID

from magnetar.schema import AvroType, FloatField, IntField


class Colour(Enum):
    RED = 1
    GREEN = 2


@dataclass
class Item:
    name: str
    price: float = 0.5


@dataclass
class Everything:
    truth: bool
    whole: int
    small: IntField
    real: float
    small_real: FloatField
    text: str
    binary: bytes
    colour: Colour
    item: Item
    maybe: Item | None
    items: list[Item]
    counts: dict[str, int]
    moment: datetime
    day: date
    at: time
    name: UUID
    either: int | str
    note: str | None = None
    times: int = 1
    tags: list[str] = field(default_factory=lambda: ["a"])
    raw: bytes = b"\x01"
    tint: Colour = Colour.GREEN
    label: str | None = "none"


@dataclass
class Tree:
    name: str
    children: list["Tree"]


@dataclass
class Exact:
    amount: Annotated[
        object,
        AvroType({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}),
    ]


def everything() -> Everything:
    return Everything(
        truth=True,
        whole=-(2**63),
        small=2**31 - 1,
        real=0.1,
        small_real=0.5,
        text="tëxt",
        binary=b"bytes",
        colour=Colour.RED,
        item=Item("a", 2),
        maybe=None,
        items=[Item("b"), Item("c", -1.5)],
        counts={"a": 1},
        moment=datetime(2024, 2, 29, 12, 30, 1, 7, tzinfo=UTC),
        day=date(2024, 2, 29),
        at=time(23, 59, 59, 999999),
        name=UUID(int=7),
        either="text",
    )
