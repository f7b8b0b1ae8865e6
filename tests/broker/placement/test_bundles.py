"""Bundles of namespaces."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar_broker.placement.bundles import MAX_BUNDLES, Bundles
from magnetar_proto.names import TopicName


def topic(name: str) -> TopicName:
    return TopicName.parse(f"persistent://tenant/space/{name}")


@given(st.text("abcdefghij", min_size=1, max_size=8), st.integers(1, MAX_BUNDLES))
def test_every_topic_is_in_one_of_them(name: str, number: int) -> None:
    bundles = Bundles.even(number)
    assert len(bundles) == number
    assert bundles.of(topic(name)) in bundles
    assert Bundles.parse(bundles.texts) == bundles


def test_they_are_of_one_size() -> None:
    texts = ["0x00000000", "0x40000000", "0x80000000", "0xc0000000", "0xffffffff"]
    assert Bundles.even(4).texts == texts
    assert Bundles.even(1).of(topic("any")) == "0x00000000_0xffffffff"
    assert Bundles.even(3).texts[1] == "0x55555555"


def test_partitions_spread_over_them() -> None:
    bundles, base = Bundles.even(8), topic("orders")
    assert len({bundles.of(base.with_partition(index)) for index in range(64)}) == 8


def test_what_is_none_of_them() -> None:
    bundles = Bundles.even(4)
    assert "0x40000000_0x80000000" in bundles
    for other in ("0x00000000_0xffffffff", "0x40000000", "rubbish", ""):
        assert other not in bundles


@pytest.mark.parametrize("number", [0, -1, MAX_BUNDLES + 1, 10**9])
def test_there_are_not_any_number_of_them(number: int) -> None:
    with pytest.raises(ValueError, match=f"expected 1 to {MAX_BUNDLES}"):
        Bundles.even(number)


@pytest.mark.parametrize(
    "texts",
    [
        [],
        ["0x00000000"],
        ["0x00000000", "0x40000000"],
        ["0x10000000", "0xffffffff"],
        ["0x00000000", "0x40000000", "0x40000000", "0xffffffff"],
        ["0x00000000", "0x80000000", "0x40000000", "0xffffffff"],
        ["0x00000000", "0x1ffffffff"],
        ["zero", "0xffffffff"],
    ],
)
def test_boundaries_that_do_not_tile(texts: list[str]) -> None:
    with pytest.raises(ValueError, match=r"boundaries|invalid literal"):
        Bundles.parse(texts)


def test_too_many_boundaries_are_refused() -> None:
    marks = [f"0x{mark:08x}" for mark in range(MAX_BUNDLES + 1)]
    with pytest.raises(ValueError, match=f"limit of {MAX_BUNDLES}"):
        Bundles.parse([*marks, "0xffffffff"])
