"""Which messages are due for redelivery, and which are dropped when they come again."""

from typing import Any

from fakes.client_entries import entry_of
from magnetar.base.statistics import ConsumerStatistics
from magnetar.consuming.ack_tracker import AckTracker
from magnetar.consuming.options import Subscription
from magnetar.consuming.unacked_messages import UnackedMessages
from magnetar.consuming.unconfirmed_acks import UnconfirmedAcks
from magnetar.messages import Message

LATE_S = 1000.0


def unacked(is_kept: bool = True, **options: Any) -> UnackedMessages:
    unconfirmed = UnconfirmedAcks(AckTracker())
    counts = ConsumerStatistics("t", "s")
    return UnackedMessages(Subscription("s", **options), is_kept, unconfirmed, counts)


def batch(entry: int, size: int = 2) -> list[Message]:
    return entry_of([b"m"] * size, position=(1, entry, -1)).messages()


def test_entries_are_due_after_a_nack_and_after_the_ack_timeout() -> None:
    messages = unacked(ack_timeout_s=10, ack_timeout_tick_s=1, nack_delay_s=5)
    messages.taken(batch(0), now_s=0)
    messages.taken(batch(1), now_s=0)
    messages.nack(batch(1), now_s=1)
    assert messages.next_due_s() == 6
    assert messages.take_due(6) == ([(1, 1)], [])
    assert messages.next_due_s() == 10
    assert messages.take_due(10) == ([], [(1, 0)])
    assert messages.next_due_s() is None


def test_without_an_ack_timeout_only_what_was_refused_is_due() -> None:
    messages = unacked(nack_delay_s=5)
    messages.taken(batch(0), now_s=0)
    assert messages.next_due_s() is None
    messages.nack_entry((1, 0), now_s=0)
    assert messages.take_due(LATE_S) == ([(1, 0)], [])


def test_what_is_acknowledged_is_not_due() -> None:
    messages = unacked(ack_timeout_s=10, nack_delay_s=5)
    for entry in range(4):
        messages.taken(batch(entry), now_s=0)
    messages.nack_entry((1, 1), now_s=0)
    messages.acked([(1, 1, ())], is_cumulative=True)
    messages.acked([(1, 2, ())], is_cumulative=False)
    assert messages.take_due(LATE_S) == ([], [(1, 3)])


def test_a_batch_that_is_acknowledged_in_part_stays_due() -> None:
    messages = unacked(ack_timeout_s=10)
    messages.taken(batch(0), now_s=0)
    messages.acked([(1, 0, (0b10,))], is_cumulative=False)
    assert messages.take_due(LATE_S) == ([], [(1, 0)])


def test_the_application_keeps_what_it_has_after_a_reconnect() -> None:
    messages = unacked(ack_timeout_s=10, nack_delay_s=5)
    assert messages.delivered is not None
    messages.taken([*batch(0), *batch(1)], now_s=0)
    messages.nack(batch(1), now_s=0)
    messages.begin_again()
    assert messages.delivered.bits((1, 0)) == 0b11
    assert messages.delivered.bits((1, 1)) == 0, "it was refused"
    assert messages.take_due(LATE_S) == ([], [(1, 0)]), "the broker delivers the other one anyway"


def test_after_a_seek_nothing_is_dropped_or_due() -> None:
    messages = unacked(ack_timeout_s=10)
    assert messages.delivered is not None
    messages.taken(batch(0), now_s=0)
    messages.possibly_lost([(1, 5, ())])
    messages.sought()
    assert not messages.delivered
    assert messages.next_due_s() is None


def test_an_acknowledgement_in_doubt_keeps_its_message_away_until_it_is_refused() -> None:
    messages = unacked(redeliver_on_reconnect=True)
    assert messages.delivered is not None
    messages.possibly_lost([(1, 0, ())])
    assert messages.delivered.bits((1, 0))
    messages.refused([(1, 0, ())], is_cumulative=False)
    assert not messages.delivered.bits((1, 0))


def test_without_persistence_nothing_is_dropped() -> None:
    messages = unacked(is_kept=False)
    assert messages.delivered is None
    assert not messages.holds
    messages.possibly_lost([(1, 0, ())])
    messages.begin_again()
    messages.sought()
