"""The judge of all types of subscriptions finds what it is there to find."""

import time
from collections.abc import Iterable

import pytest

from crash.books import Place, Written
from crash.delivery_books import KINDS, NOWHERE, TICK_MS, Book, Messages, Once, Visit
from crash.record import Message

KEYS = 3


class Case:
    """A subscription to the messages of one producer, which has `sent` and `answered` so many."""

    def __init__(self, kind: str, *spans: tuple[int, int]) -> None:
        self.alarms: list[str] = []
        self.messages = Messages(self.alarms.append)
        self.written = self.messages.writers["p"] = Written("p")
        for sent, answered in spans or ((20, 20),):
            self.written.begin()
            for number in [self.written.send() for _ in range(sent)][:answered]:
                self.written.receipt(number, (1, number))
                self.messages.found(Message("p", number), (1, number))
        self.book = Book(KINDS[kind], self.messages, {"p": KEYS}, self.alarms.append)
        self.visit = self.begin()

    def begin(self) -> Visit:
        return self.book.begin(0)

    def came(
        self, *numbers: int, visit: Visit | None = None, due_ms: int = 0, count: int = 0
    ) -> str:
        """Messages come to the first visit or another one; what is reported of that."""
        before = len(self.alarms)
        for number in numbers:
            message = Message("p", number)
            self.book.came(visit or self.visit, message, (1, number), due_ms, count)
        return "; ".join(self.alarms[before:])

    def acked(self, *numbers: int, answered: bool = True, visit: Visit | None = None) -> None:
        self.book.acked(visit or self.visit, of(numbers))
        if answered:
            self.answered(visit)

    def nacked(self, *numbers: int) -> None:
        self.book.nacked(self.visit, of(numbers))

    def answered(self, visit: Visit | None = None) -> None:
        visit = visit or self.visit
        self.book.answered(visit, visit.requests)

    def leaves(self) -> None:
        self.book.end(self.visit)


def of(numbers: Iterable[int]) -> list[Message]:
    return [Message("p", number) for number in numbers]


# What is stored -------------------------------------------------------------------------------


def test_a_message_has_one_place_and_was_sent() -> None:
    case = Case("shared")
    case.messages.found(Message("p", 3), (1, 3))
    assert not case.alarms
    case.messages.found(Message("p", 3), (2, 0))
    assert "is at (2, 0), and at (1, 3)" in case.alarms.pop()
    case.messages.found(Message("p", 20), (1, 20))
    case.messages.found(Message("q", 0), (1, 21))
    assert len(case.alarms) == 2 and "never sent" in case.alarms[0]


def test_what_is_stored_is_checked_as_a_whole() -> None:
    messages = Case("shared", (3, 2), (2, 2)).messages
    assert list(messages.check()) == []
    del messages.places[Message("p", 1)]
    assert "3 is stored where 1" in "".join(messages.check())


def test_which_messages_must_be_there() -> None:
    written = Case("shared", (5, 2), (5, 2)).written
    assert written.surely_stored(1, later=6) and written.surely_stored(3, later=4)
    assert not written.surely_stored(3, later=6)
    assert written.settled == 7


# Deduplication --------------------------------------------------------------------------------


def once(sent: int, answered: int) -> Once:
    made = Once("p")
    made.begin_at(-1, 0)
    for number in [made.send() for _ in range(sent)][:answered]:
        made.receipt(number, (1, number))
    return made


def stored(numbers: Iterable[int]) -> list[tuple[int, Place]]:
    return [(number, (1, number)) for number in numbers]


def test_copies_are_distinguished_from_messages() -> None:
    made = once(5, 3)
    assert made.begin_at(3, back=2) == range(1, 5)
    for number, place in ((1, NOWHERE), (2, NOWHERE), (3, NOWHERE), (4, (2, 0))):
        made.receipt(number, place)
    assert list(made.check(stored(range(5)))) == []
    assert made.answered == made.settled == 5


@pytest.mark.parametrize(
    ("known", "receipts", "problem"),
    [
        (1, [], "2 are known to the broker; 3 were answered"),
        (5, [], "6 are known to the broker"),
        (2, [(2, (2, 0))], "2 is at (2, 0), 3 were known"),
        (2, [(2, NOWHERE), (3, NOWHERE)], "3 is at (-1, -1), 3 were known"),
        (2, [(3, (2, 0))], "receipt for 3 instead of 2"),
    ],
)
def test_wrong_answers_to_copies(
    known: int, receipts: list[tuple[int, Place]], problem: str
) -> None:
    made = once(5, 3)
    made.begin_at(known, back=1)
    for number, place in receipts:
        made.receipt(number, place)
    assert problem in made.problems[0]


@pytest.mark.parametrize("numbers", [[0, 1, 1, 2], [0, 2], [0, 1], [0, 1, 2, 3], [1, 0, 2]])
def test_exactly_once_and_in_order(numbers: list[int]) -> None:
    assert len(list(once(3, 3).check(stored(numbers)))) == 1


# Acknowledgements -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_acknowledged_with_an_answer_does_not_come_again(kind: str) -> None:
    case = Case(kind)
    assert not case.came(0, 1)
    case.acked(0)
    case.leaves()
    visit = case.begin()
    assert not case.came(1, visit=visit)
    assert "had been answered" in case.came(0, visit=visit)


def test_without_an_answer_it_may() -> None:
    case = Case("shared")
    case.came(0)
    case.acked(0, answered=False)
    case.leaves()
    assert not case.came(0, visit=case.begin())
    assert not case.book.done


def test_an_answer_confirms_the_requests_before_it() -> None:
    case = Case("shared")
    case.came(0, 1)
    case.acked(0, answered=False)
    requests = case.visit.requests
    case.acked(1, answered=False)
    case.book.answered(case.visit, requests)
    case.leaves()
    visit = case.begin()
    assert not case.came(1, visit=visit)
    assert "had been answered" in case.came(0, visit=visit)


def test_a_former_active_consumer_may_acknowledge_what_the_new_one_gets() -> None:
    case = Case("failover")
    case.came(0)
    other = case.begin()
    case.acked(0)
    assert not case.came(0, visit=other)


# Order ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "step"), [("exclusive", 1), ("failover", 1), ("keys", KEYS)])
def test_nothing_is_left_out(kind: str, step: int) -> None:
    case = Case(kind)
    assert not case.came(*range(step + 1))
    assert "but" in case.came(3 * step) and "never did" in case.alarms[0]


@pytest.mark.parametrize(("kind", "step"), [("exclusive", 1), ("failover", 1), ("keys", KEYS)])
def test_what_a_consumer_left_comes_first(kind: str, step: int) -> None:
    case = Case(kind)
    case.came(*range(step + 1))
    case.acked(*range(1, step))
    case.leaves()
    assert "is not acknowledged" in case.came(step, visit=case.begin())


def test_keys_do_not_wait_for_each_other() -> None:
    case = Case("keys")
    assert not case.came(0, 2, 5, 1, 3)


def test_a_key_is_at_one_consumer() -> None:
    case = Case("keys")
    case.came(0, 1, 2)
    other = case.begin()
    assert "came before Message(producer='p', number=1)" in case.came(1 + KEYS, visit=other)


def test_a_key_moves_when_it_is_acknowledged() -> None:
    case = Case("keys")
    case.came(0, 1, 2)
    case.acked(1, answered=False)
    assert not case.came(1 + KEYS, visit=case.begin())


def test_a_key_waits_for_what_was_asked_for_again() -> None:
    case = Case("keys")
    case.came(0, 1, 2)
    case.nacked(1)
    assert not case.came(1 + KEYS)  # it was on its way
    case.answered()
    assert "came before" in case.came(1 + 2 * KEYS)


def test_active_consumers_hold_together() -> None:
    case = Case("failover")
    case.came(0, 1)
    other = case.begin()
    assert not case.came(0, visit=other)
    assert not case.came(2)  # it was on its way
    assert not case.came(1, 2, visit=other)


def test_what_was_never_stored_is_not_waited_for() -> None:
    case = Case("exclusive", (5, 2), (5, 2))
    assert not case.came(0, 1, 2, 5, 6)
    assert case.came(8)


def test_a_shared_subscription_has_no_order() -> None:
    assert not Case("shared").came(7, 3, 5)


# Counts, delays, beginnings ----------------------------------------------------------------------


def test_a_count_is_at_most_what_was_asked_for() -> None:
    case = Case("shared")
    case.came(0)
    case.nacked(0)
    assert not case.came(0, count=1)
    assert "brings 2 redeliveries; 1 were asked for" in case.came(0, count=2)


def test_a_count_is_not_forgotten_once_an_answer_vouches_for_it() -> None:
    case = Case("shared")
    case.came(0, 1)
    case.nacked(0)
    case.leaves()
    visit = case.begin()
    assert not case.came(0, visit=visit)
    case.answered()
    assert "1 of them with an answer" in case.came(0, visit=visit)
    assert case.book.counts_tested == 1


@pytest.mark.parametrize("kind", ["shared", "keys"])
def test_too_early(kind: str) -> None:
    case = Case(kind)
    now_ms = time.time_ns() // 1_000_000
    assert not case.came(0, due_ms=now_ms + TICK_MS)
    assert "came early" in case.came(1, due_ms=now_ms + TICK_MS + 60_000)


def test_one_consumer_alone_does_not_wait_for_delays() -> None:
    assert not Case("exclusive").came(0, due_ms=1 << 60)


def test_a_subscription_that_begins_later() -> None:
    case = Case("exclusive")
    case.book.begins_between({"p": 5}, {"p": 8})
    assert not case.came(6, 8)
    assert "never did" in case.came(10)
    case = Case("exclusive")
    case.book.begins_between({"p": 5}, {"p": 8})
    assert "older than the subscription" in case.came(4)


# The end ----------------------------------------------------------------------------------------


def test_everything_comes_and_is_acknowledged() -> None:
    case = Case("shared", (3, 3))
    case.came(0, 1)
    assert "1 never came" in "".join(case.book.check())
    case.came(2)
    case.acked(0, 1)
    assert not case.book.is_done
    assert "1 came and cannot be acknowledged" in "".join(case.book.check())
    case.acked(2)
    assert case.book.is_done and not list(case.book.check())
