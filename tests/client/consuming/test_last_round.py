"""Which messages of a batch become dead letters."""

from hypothesis import given
from hypothesis import strategies as st

from fakes.client_entries import entry_of
from magnetar.consuming.delivered import ALL
from magnetar.consuming.last_round import LastRound
from magnetar.messages import Message

SIZE = 4
POSITION = (1, 0)
BITS = st.integers(0, (1 << SIZE) - 1)


def batch(entry: int, size: int) -> list[Message]:
    return entry_of([b"%d" % n for n in range(size)], position=(1, entry, -1)).messages()


def numbers(messages: list[Message]) -> list[int]:
    return [message.batch_index for message in messages]


def of_bits(bits: int) -> list[int]:
    return [index for index in range(SIZE) if bits >> index & 1]


@given(BITS, BITS, BITS)
def test_what_failed_and_is_not_acknowledged_is_taken(failed: int, acked: int, later: int) -> None:
    last, messages = LastRound(), batch(0, SIZE)
    last.add(messages)
    last.fail([messages[index] for index in of_bits(failed)])
    last.acked(POSITION, ~acked)
    left = ~acked & ~later
    if POSITION in last:
        assert numbers(last.take(POSITION, ~later)) == of_bits(failed & left)
    else:
        assert of_bits(~acked) == []
    assert numbers(list(last.of(POSITION))) == of_bits(~failed & left)


def test_a_message_of_its_own_is_taken_whole() -> None:
    last = LastRound()
    last.add(batch(0, 1))
    last.fail(batch(0, 1))
    last.fail(batch(7, 1))
    assert len(last) == 1
    assert len(last.take(POSITION, ALL)) == 1
    assert len(last) == 0


def test_a_timeout_is_of_all_that_is_left() -> None:
    last, messages = LastRound(), batch(0, SIZE)
    last.add(messages)
    last.acked(POSITION, 0b0110)
    last.fail_entry(POSITION)
    last.fail_entry((9, 9))
    assert numbers(last.take(POSITION, ALL)) == [1, 2]


def test_what_comes_in_pieces_or_again_is_known_once() -> None:
    last, messages = LastRound(), batch(0, SIZE)
    last.add(messages[:2])
    last.add(messages[1:])
    assert numbers(list(last.of(POSITION))) == [0, 1, 2, 3]


def test_a_cumulative_acknowledgement_ends_all_before_it() -> None:
    last = LastRound()
    for entry in range(3):
        last.add(batch(entry, 2))
        last.fail(batch(entry, 2))
    last.acked_up_to((1, 1))
    assert (len(last), (1, 2) in last) == (1, True)
    last.clear()
    assert len(last) == 0
