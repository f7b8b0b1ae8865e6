"""Which messages are left out when they are delivered again."""

from hypothesis import given
from hypothesis import strategies as st

from fakes.client_entries import entry_of
from magnetar.consuming.delivered import ALL, DeliveredMessages
from magnetar.messages import Message
from magnetar_proto.ids import mask_to_ack_set


def batch(entry: int, size: int) -> list[Message]:
    return entry_of([b"m"] * size, position=(1, entry, -1)).messages()


def test_messages_are_held_by_themselves() -> None:
    held = DeliveredMessages()
    held.add(batch(0, 3)[1:])
    held.add(batch(1, 1))
    assert (held.bits((1, 0)), held.bits((1, 1)), held.bits((1, 2))) == (0b110, ALL, 0)
    held.add(batch(0, 3)[:1])
    assert held.bits((1, 0)) == 0b111
    held.release(batch(0, 3)[1:2])
    held.release(batch(1, 1))
    assert (held.bits((1, 0)), held.bits((1, 1)), len(held)) == (0b101, 0, 1)


def test_what_is_confirmed_is_held_no_longer() -> None:
    held = DeliveredMessages()
    held.add([*batch(0, 3), *batch(1, 3), *batch(2, 1)])
    held.acked([(1, 0, mask_to_ack_set(0b101))], is_cumulative=False)
    held.acked([(1, 2, ())], is_cumulative=False)
    assert (held.bits((1, 0)), held.bits((1, 1)), held.bits((1, 2))) == (0b101, 0b111, 0)
    held.acked([(1, 1, mask_to_ack_set(0b100))], is_cumulative=True)
    assert (held.bits((1, 0)), held.bits((1, 1))) == (0, 0b100)


def test_what_is_acknowledged_stays_when_all_is_asked_for() -> None:
    held = DeliveredMessages()
    held.add([message for entry in range(5) for message in batch(entry, 2)])
    held.keep([(1, 4, mask_to_ack_set(0b01))], (1, 1, mask_to_ack_set(0b10)))
    bits = [held.bits((1, entry)) & 0b11 for entry in range(5)]
    assert bits == [0b11, 0b01, 0, 0, 0b10]
    held.keep((), None)
    assert len(held) == 0


def test_the_oldest_are_forgotten_first() -> None:
    held = DeliveredMessages(limit=100)
    for entry in range(250):
        held.add(batch(entry, 1))
        assert len(held) <= 100
        assert all(held.bits((1, kept)) for kept in range(max(entry - 89, 0), entry + 1))


@given(st.lists(st.tuples(st.sampled_from(["add", "ack", "up to"]), st.integers(0, 30))))
def test_a_cumulative_confirmation_finds_all_before_it(steps: list[tuple[str, int]]) -> None:
    """Whatever the order: an operator may have moved the subscription back."""
    held, expected = DeliveredMessages(), set[int]()
    for step, entry in steps:
        if step == "add":
            held.add(batch(entry, 1))
            expected.add(entry)
        elif step == "ack":
            held.acked([(1, entry, ())], is_cumulative=False)
            expected.discard(entry)
        else:
            held.acked([(1, entry, ())], is_cumulative=True)
            expected = {known for known in expected if known > entry}
        assert {entry for entry in range(31) if held.bits((1, entry))} == expected
