"""One record as the official Python client declares it, and as a dataclass."""

from dataclasses import dataclass
from enum import Enum

import pulsar.schema as official

from magnetar.schema import FloatField, IntField


class Colour(Enum):
    RED = 1
    GREEN = 2


class Part(official.Record):
    name = official.String(required=True)
    price = official.Double(default=0.5, required=True, required_default=True)


class Order(official.Record):
    truth = official.Boolean(required=True)
    small = official.Integer(required=True)
    whole = official.Long()
    real = official.Float()
    wide = official.Double()
    text = official.String()
    binary = official.Bytes()
    colour = official.CustomEnum(Colour)
    part = Part()
    parts = official.Array(Part())
    counts = official.Map(official.Long())
    note = official.String(required_default=True)
    times = official.Integer(default=3, required=True, required_default=True)


class OurClasses:
    """The same names again."""

    @dataclass
    class Part:
        name: str
        price: float = 0.5

    @dataclass
    class Order:
        truth: bool
        small: IntField
        whole: int | None
        real: FloatField | None
        wide: float | None
        text: str | None
        binary: bytes | None
        colour: Colour | None
        part: "OurClasses.Part | None"
        parts: "list[OurClasses.Part] | None"
        counts: dict[str, int] | None
        note: str | None = None
        times: IntField = 3


def ours() -> OurClasses.Order:
    return OurClasses.Order(
        truth=True,
        small=-5,
        whole=2**40,
        real=0.5,
        wide=0.1,
        text="tëxt",
        binary=b"bytes",
        colour=Colour.GREEN,
        part=OurClasses.Part("a", 2.0),
        parts=[OurClasses.Part("b"), OurClasses.Part("c", 1.0)],
        counts={"a": 1},
        times=4,
    )


def theirs() -> Order:
    return Order(
        truth=True,
        small=-5,
        whole=2**40,
        real=0.5,
        wide=0.1,
        text="tëxt",
        binary=b"bytes",
        colour=Colour.GREEN,
        part=Part(name="a", price=2.0),
        parts=[Part(name="b"), Part(name="c", price=1.0)],
        counts={"a": 1},
        times=4,
    )
