"""Which acks the broker is sent."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes.client_entries import entry_of
from magnetar.consuming.ack_tracker import MAX_SIZES, AckTracker
from magnetar.messages import Message
from magnetar_proto.ids import MessageId, ack_set_to_mask


def batches(*sizes: int) -> list[list[Message]]:
    return [
        entry_of([b"m"] * size, position=(1, index, -1)).messages()
        for index, size in enumerate(sizes)
    ]


def test_a_single_message_is_a_whole_entry() -> None:
    tracker = AckTracker()
    [[message]] = batches(1)
    tracker.ack([message])
    assert len(tracker) == 1
    assert tracker.take() == [(1, 0, ())]
    assert tracker.take() == []


def test_part_of_a_batch_is_sent_as_the_set_that_is_left() -> None:
    tracker = AckTracker()
    [batch] = batches(4)
    tracker.ack([batch[0], batch[2]])
    assert tracker.take() == [(1, 0, (0b1010,))]
    tracker.ack([batch[1]])
    assert tracker.take() == [(1, 0, (0b1000,))]
    tracker.ack([batch[3]])
    assert tracker.take() == [(1, 0, ())]


def test_what_was_acked_before_delivery_needs_no_ack() -> None:
    tracker = AckTracker()
    messages = entry_of([b"m"] * 4, ack_set=(0b0110,)).messages()
    tracker.ack(messages)
    assert tracker.take() == [(3, 4, ())]


def test_lost_acks_are_sent_again_with_what_came_since() -> None:
    tracker = AckTracker()
    first, second = batches(3, 1)
    tracker.ack([first[0], *second])
    lost = tracker.take()
    tracker.ack([first[1]])
    tracker.restore(lost, is_cumulative=False)
    assert tracker.take() == [(1, 1, ()), (1, 0, (0b100,))]


def test_a_lost_part_of_a_batch_that_came_again_is_sent_again() -> None:
    tracker = AckTracker()
    [batch] = batches(3)
    tracker.ack([batch[0]])
    lost = tracker.take()
    tracker.begin_again()
    tracker.ack([batch[1]])
    assert tracker.take() == [(1, 0, (0b101,))]
    tracker.restore(lost, is_cumulative=False)
    assert tracker.take() == [(1, 0, (0b100,))]
    tracker.begin_again()
    tracker.restore([(1, 0, (0b011,))], is_cumulative=False)
    tracker.restore([(1, 0, (0b100,))], is_cumulative=False)
    assert tracker.take() == [(1, 0, ())]


def test_what_is_collected_can_be_looked_at() -> None:
    tracker = AckTracker()
    first, second = batches(2, 1)
    tracker.ack([first[0], *second])
    tracker.ack_up_to(first[0])
    expected = [(1, 1, ()), (1, 0, (0b10,))], (1, 0, (0b10,))
    assert tracker.collected() == expected
    assert (tracker.take(), tracker.take_cumulative()) == expected


def test_a_lost_part_is_not_sent_after_the_whole() -> None:
    tracker = AckTracker()
    [batch] = batches(2)
    tracker.ack([batch[0]])
    lost = tracker.take()
    tracker.ack([batch[1]])
    tracker.restore(lost, is_cumulative=False)
    assert tracker.take() == [(1, 0, ())]


def test_beginning_anew_forgets_only_what_the_broker_knows() -> None:
    tracker = AckTracker()
    sent, unsent = batches(2, 2)
    tracker.ack([sent[0]])
    tracker.take()
    tracker.ack([unsent[0]])
    tracker.begin_again()
    assert tracker.take() == [(1, 1, (0b10,))]
    tracker.ack([sent[1]])
    assert tracker.take() == [(1, 0, (0b01,))], "the broker combines it with what it knows"


def test_cumulative_acks_go_forward_only() -> None:
    tracker = AckTracker()
    first, second = batches(3, 1)
    tracker.ack_up_to(first[1])
    assert tracker.take_cumulative() == (1, 0, (0b100,))
    tracker.ack_up_to(second[0])
    tracker.ack_up_to(first[0])
    assert tracker.take_cumulative() == (1, 1, ())
    assert tracker.take_cumulative() is None


def test_within_a_batch_later_means_fewer_left() -> None:
    tracker = AckTracker()
    [batch] = batches(3)
    tracker.ack_up_to(batch[0])
    tracker.ack_up_to(batch[2])
    tracker.ack_up_to(batch[1])
    assert tracker.take_cumulative() == (1, 0, ())


def test_a_lost_cumulative_ack_does_not_replace_a_later_one() -> None:
    tracker = AckTracker()
    first, second = batches(1, 1)
    tracker.ack_up_to(second[0])
    tracker.restore([(1, 0, ())], is_cumulative=True)
    assert tracker.take_cumulative() == (1, 1, ())
    tracker.restore([(1, 0, ())], is_cumulative=True)
    assert tracker.take_cumulative() == (1, 0, ())
    assert first[0].id < second[0].id


@given(st.lists(st.integers(1, 70), min_size=1, max_size=4), st.data())
def test_the_broker_ends_up_with_what_was_acked(sizes: list[int], data: st.DataObject) -> None:
    """Whatever is acked, taken and lost in whichever order."""
    everything = [message for batch in batches(*sizes) for message in batch]
    left = {index: (1 << size) - 1 for index, size in enumerate(sizes)}
    tracker = AckTracker()
    acked: set[tuple[int, int]] = set()

    def send_due() -> None:
        for _, entry, ack_set in tracker.take():
            left[entry] &= ack_set_to_mask(ack_set)

    for _ in range(data.draw(st.integers(1, 4))):
        some = data.draw(st.lists(st.sampled_from(everything), max_size=100))
        tracker.ack(some)
        acked |= {(m.entry.entry, max(m.batch_index, 0)) for m in some}
        if data.draw(st.booleans()):
            tracker.restore(tracker.take(), is_cumulative=False)
        if data.draw(st.booleans()):
            send_due()
    send_due()
    for index, size in enumerate(sizes):
        unacked = {place for place in range(size) if (index, place) not in acked}
        assert left[index] == sum(1 << place for place in unacked)


@given(st.lists(st.integers(1, 70), min_size=1, max_size=4), st.booleans(), st.data())
def test_ids_acknowledge_what_their_messages_do(
    sizes: list[int], batch_indexes: bool, data: st.DataObject
) -> None:
    everything = [message for batch in batches(*sizes) for message in batch]
    by_message, by_id = AckTracker(batch_indexes), AckTracker(batch_indexes)
    for message in everything:
        if message.batch_index >= 0:
            by_id.delivered(message.entry)
    up_to = data.draw(st.sampled_from(everything))
    by_message.ack_up_to(up_to)
    by_id.ack_up_to_id(up_to.id)
    assert by_id.take_cumulative() == by_message.take_cumulative()
    for message in data.draw(st.lists(st.sampled_from(everything), unique_by=id)):
        by_message.ack([message])
        by_id.ack_id(message.id)
    assert by_id.take() == by_message.take()


def test_what_is_known_of_ids_is_limited() -> None:
    tracker = AckTracker()
    [batch] = batches(3)
    tracker.delivered(batch[0].entry)
    assert tracker.size_of(batch[1].id) == 3
    for number in range(MAX_SIZES):
        tracker.delivered(entry_of([b"m"] * 2, position=(2, number, -1)))
    with pytest.raises(ValueError, match="has not received"):
        tracker.ack_id(batch[0].id)
    with pytest.raises(ValueError, match="has not received"):
        tracker.up_to(batch[0].id)
    assert tracker.entries_of(MessageId(7, 8)) == ((7, 8),)


def test_up_to_an_id_in_a_batch() -> None:
    [batch] = batches(3)
    for batch_indexes, expected in ((True, (1, 0, (0b110,))), (False, (1, -1, ()))):
        tracker = AckTracker(batch_indexes)
        tracker.delivered(batch[0].entry)
        tracker.ack_up_to_id(batch[0].id)
        assert tracker.take_cumulative() == expected
        tracker.ack_up_to_id(batch[2].id)
        assert tracker.take_cumulative() == (1, 0, ())
        tracker.ack_up_to_id(MessageId(5, 6))
        assert tracker.take_cumulative() == (5, 6, ())


@pytest.mark.parametrize("batch_indexes", [True, False])
def test_up_to_an_id_in_a_batch_that_is_not_known(batch_indexes: bool) -> None:
    tracker = AckTracker(batch_indexes)
    for entry in (7, 0):
        tracker.ack_up_to_id(MessageId(1, entry, 2))
        assert tracker.take_cumulative() == (1, entry - 1, ())


def test_an_index_that_a_batch_does_not_have() -> None:
    tracker = AckTracker()
    [batch] = batches(3)
    tracker.delivered(batch[0].entry)
    beyond = MessageId(1, 0, 3)
    for use in (tracker.ack_id, tracker.up_to):
        with pytest.raises(ValueError, match="3 messages"):
            use(beyond)
    tracker.ack_up_to_id(beyond)
    assert (tracker.take(), tracker.take_cumulative()) == ([], (1, -1, ()))


@pytest.mark.parametrize("batch_indexes", [True, False])
def test_ids_of_a_batch_that_was_acknowledged_do_nothing(batch_indexes: bool) -> None:
    tracker = AckTracker(batch_indexes)
    [batch] = batches(3)
    for delivery in range(2):
        tracker.delivered(batch[0].entry)
        for message in batch:
            tracker.ack_id(message.id)
        assert tracker.take()[-1] == (1, 0, ()), f"acknowledged after delivery {delivery}"
        tracker.ack_id(batch[1].id)
        assert tracker.take() == []
    assert tracker.up_to(batch[1].id) == (1, 0, (0b100,))


def test_what_is_known_of_acknowledged_batches_is_limited() -> None:
    tracker = AckTracker()
    for number in range(2 * MAX_SIZES):
        tracker.delivered(entry_of([b"m"] * 2, position=(2, number, -1)))
        tracker.ack_entry((2, number))
        if not number:
            tracker.ack_id(MessageId(2, 0, 1))
    with pytest.raises(ValueError, match="has not received"):
        tracker.ack_id(MessageId(2, 0, 1))
    tracker.ack_id(MessageId(2, 2 * MAX_SIZES - 1, 1))
