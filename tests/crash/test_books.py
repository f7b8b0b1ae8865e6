"""The judge of raw clients finds what it is there to find."""

from collections.abc import Iterable

import pytest

from crash.books import AckBook, Place, Stored, Written, verdict


def written(*spans: tuple[int, int]) -> Written:
    """A producer whose connections sent and were answered so many; its entries are in ledger 1."""
    made = Written("p")
    for sent, answered in spans:
        made.begin()
        numbers = [made.send() for _ in range(sent)]
        for number in numbers[:answered]:
            made.receipt(number, (1, number))
    return made


def problems(made: Written, numbers: Iterable[int]) -> str:
    """What is reported of these numbers, each at its place."""
    return "; ".join(made.check((number, (1, number)) for number in numbers))


@pytest.mark.parametrize(
    "numbers",
    [
        [0, 1, 2, 5, 6],  # only what was answered
        [0, 1, 2, 3, 4, 5, 6, 7],  # all
        [0, 1, 2, 3, 5, 6, 7],  # a beginning of what was not
    ],
)
def test_what_was_promised_is_enough(numbers: list[int]) -> None:
    assert problems(written((5, 3), (3, 2)), numbers) == ""


def test_a_life_of_which_nothing_was_answered_may_be_gone() -> None:
    assert problems(written((2, 2), (3, 0), (1, 1)), [0, 1, 5]) == ""
    assert problems(written((2, 2), (3, 0)), [0, 1]) == ""
    assert problems(written((0, 0), (0, 0)), []) == ""


@pytest.mark.parametrize(
    ("numbers", "problem"),
    [
        ([0, 1, 5, 6], "5 is stored where 2"),  # the last receipt of a life
        ([0, 2, 5, 6], "2 is stored where 1"),  # in the middle
        ([0, 1, 2, 4, 5, 6], "4 is stored where 3"),  # a gap in what was not answered
        ([0, 1, 2, 5], "lost after their receipts: 6"),
        ([0, 1, 2], "lost after their receipts: all of"),
        ([], "lost after their receipts: all of"),
        ([0, 1, 2, 5, 6, 8], "8 is stored where 7"),  # never sent
        ([0, 1, 1, 2, 5, 6], "1 is stored where 2"),  # twice
        ([0, 2, 1, 5, 6], "2 is stored where 1"),  # in another order
    ],
)
def test_everything_else_is_noticed(numbers: list[int], problem: str) -> None:
    assert problem in problems(written((5, 3), (3, 2)), numbers)


def test_a_receipt_names_the_place() -> None:
    made = written((2, 2))
    assert "its receipt named (1, 1)" in "".join(made.check([(0, (1, 0)), (1, (1, 2))]))


def test_receipts_come_in_order() -> None:
    made = Written("p")
    made.begin()
    numbers = [made.send(), made.send()]
    made.receipt(numbers[1], (1, 1))
    assert "receipt for 1 instead of 0" in problems(made, numbers)


FIRST, SECOND, THIRD = (1, 0), (1, 1), (2, 0)


alarms: list[str] = []


def book(*came: Place) -> AckBook:
    alarms.clear()
    made = AckBook("sub", alarms.append)
    for place in came:
        assert not made.came(place, 0b1111, 0)
    return made


def test_what_was_not_answered_may_come_again() -> None:
    made = book(FIRST, THIRD)
    assert made.came(FIRST, 0b1111, 1)
    assert not made.again


def test_acknowledged_individually() -> None:
    made = book(FIRST, SECOND)
    made.acked([(SECOND, 0)])
    made.came(FIRST, 0b1111, 0)
    assert not made.again
    made.came(SECOND, 0b1111, 0)
    assert "(1, 1) came again" in made.again[0]
    made.came(SECOND, 0b1111, 0)
    assert alarms == made.again[:1] and len(made.again) == 2
    assert made.is_acked(SECOND) and not made.is_acked(FIRST)


def test_acknowledged_by_batch_index() -> None:
    made = book(FIRST)
    made.acked([(FIRST, 0b0011)])
    made.came(FIRST, 0b1100, 0)
    assert not made.again
    made.came(FIRST, 0b0110, 0)
    assert len(made.again) == 1 and not made.is_acked(FIRST)


def test_acknowledged_cumulatively_counts_from_the_next_life_on() -> None:
    made = book(FIRST, SECOND, THIRD)
    made.acked_up_to(SECOND, 0, life=0)
    made.came(SECOND, 0b1111, 0)  # another consumer became the active one
    made.came(THIRD, 0b1111, 1)
    assert not made.again
    made.came(FIRST, 0b1111, 1)
    assert len(made.again) == 1


def test_acknowledged_cumulatively_up_to_the_middle_of_a_batch() -> None:
    made = book(FIRST, SECOND)
    made.acked_up_to(SECOND, 0b0011, life=0)
    assert made.is_acked(FIRST) and not made.is_acked(SECOND)
    made.came(SECOND, 0b1100, 1)
    assert not made.again
    made.came(SECOND, 0b1110, 1)
    assert len(made.again) == 1


def test_a_topic_is_judged_as_a_whole() -> None:
    one, sub = written((2, 2)), book((1, 0), (1, 1))
    stored = [Stored("p", 0, (1, 0), 1), Stored("p", 1, (1, 1), 1)]
    assert verdict([one], [sub], stored) == []
    assert (
        "stored by no known producer" in verdict([one], [], [*stored, Stored("q", 0, (1, 2), 1)])[0]
    )
    assert "never came to sub" in verdict([one], [book((1, 0))], stored)[0]


@pytest.mark.parametrize("moves", [1, 300])
def test_a_former_owner_may_have_sent_what_is_acknowledged_to_the_next_one(moves: int) -> None:
    made = book(FIRST, SECOND)
    made.acked([(FIRST, 0), (SECOND, 0b0011)], moves)
    made.came(FIRST, 0b1111, 0, moves - 1)
    made.came(SECOND, 0b1111, 0, moves - 1)
    assert not made.again
    made.came(FIRST, 0b1111, 0, moves)
    assert "individually" in made.again[0]
    made.came(SECOND, 0b1111, 0, moves)
    assert "by batch index" in made.again[1]


def test_what_is_acknowledged_cumulatively_does_not_come_again_after_a_move() -> None:
    made = book(FIRST, SECOND)
    made.acked_up_to(FIRST, 0, 0, moves=1)
    made.came(FIRST, 0b1111, 0, moves=1)  # another consumer became the active one
    made.came(SECOND, 0b1111, 0, moves=2)
    assert not made.again
    made.came(FIRST, 0b1111, 0, moves=2)
    assert "cumulatively" in made.again[0]


def test_what_a_former_connection_has_sent_is_settled_when_the_next_one_has_an_answer() -> None:
    written = Written("p")
    assert written.settled == 0
    written.begin()
    for _ in range(3):
        written.send()
    written.receipt(0, (1, 0))
    assert written.settled == 1
    written.begin()
    assert written.settled == 1, "the other two may be stored later"
    written.send()
    written.receipt(3, (1, 3))
    assert written.settled == 4
