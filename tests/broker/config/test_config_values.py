"""Kinds of values: what they take, what they refuse, and that they render back."""

from enum import StrEnum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar_broker.config.values import (
    Boolean,
    Choice,
    Choices,
    Integer,
    IntegerOrAuto,
    Share,
    Text,
    Texts,
    ValueKind,
    render,
)


class Colour(StrEnum):
    RED = "red"
    BLUE = "light-blue"


WORD = Text(r"[a-z]+", "small letters")


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (Integer(-1, 5), "-1", -1),
        (Integer(-1, 5), "+5", 5),
        (Integer(0), "007", 7),
        (Integer(0), "2147483647", 2**31 - 1),
        (IntegerOrAuto(Integer(1, 64)), "64", 64),
        (IntegerOrAuto(Integer(1, 64)), "Auto", "auto"),
        (Share(), "0.16", 0.16),
        (Share(), "1", 1.0),
        (Share(), ".5", 0.5),
        (Boolean(), "TRUE", True),
        (Boolean(), "False", False),
        (Choice(Colour), "light-blue", Colour.BLUE),
        (Choices(Colour), "red , light-blue", frozenset(Colour)),
        (Choices(Colour), "red,red,", frozenset({Colour.RED})),
        (WORD, "abc", "abc"),
        (Texts(WORD), " a , b,", ("a", "b")),
    ],
)
def test_taken(kind: ValueKind, text: str, value: object) -> None:
    assert kind.parse(text) == value


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (Integer(-1, 5), "-2"),
        (Integer(-1, 5), "6"),
        (Integer(0), "1.0"),
        (IntegerOrAuto(Integer(1, 64)), "0"),
        (IntegerOrAuto(Integer(1, 64)), "65"),
        (IntegerOrAuto(Integer(1, 64)), "automatic"),
        (Integer(0), "1_000"),
        (Integer(0), "0x10"),
        (Integer(0), "٣"),
        (Integer(0), "2147483648"),
        (Integer(0), "9" * 5000),
        (Integer(0), "ten"),
        (Share(), "1.1"),
        (Share(), "-0.1"),
        (Share(), "nan"),
        (Share(), "1e-3"),
        (Boolean(), "yes"),
        (Boolean(), "1"),
        (Choice(Colour), "RED"),
        (Choices(Colour), "red,green"),
        (Choices(Colour), ","),
        (WORD, "a b"),
        (Texts(WORD), "a,B"),
    ],
)
def test_refused(kind: ValueKind, text: str) -> None:
    with pytest.raises(ValueError):
        kind.parse(text)


def test_the_allowed_values_are_named_in_words() -> None:
    assert Integer(-1, 5).allowed == "a whole number from -1 to 5"
    assert Choice(Colour).allowed == "red or light-blue"
    assert Choices(Colour).allowed == "one or more of red, light-blue, separated by commas"
    assert Texts(WORD).allowed == "small letters; several are separated by commas"


@given(st.integers(-(2**31), 2**31 - 1))
def test_numbers_render_back(number: int) -> None:
    assert Integer(-(2**31)).parse(render(number)) == number


@given(st.sets(st.sampled_from(Colour), min_size=1))
def test_choices_render_back_in_one_order(colours: set[Colour]) -> None:
    text = render(frozenset(colours))
    assert Choices(Colour).parse(text) == colours
    assert text in ("red", "light-blue", "red,light-blue")


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, ""), (True, "true"), (False, "false"), (("a", "b"), "a,b"), ((), ""), ("x", "x")],
)
def test_render(value: object, text: str) -> None:
    assert render(value) == text
