"""Ending the leases of others by the clock of this process."""

import pytest

from magnetar_broker.server.metadata_stores.expiring import Expiry, SeenLease, pause_for

TTL = 10.0


def lease(renewals: int, id: int = 1, ttl: float = TTL) -> SeenLease:
    return SeenLease(id, ttl, renewals)


def look(expiry: Expiry, at: float, *leases: SeenLease, took: float = 0.0) -> list[int]:
    return [one.id for one in expiry.ended(leases, at - took, at)]


def test_a_lease_that_is_not_renewed_for_its_time_to_live_ends() -> None:
    expiry = Expiry()
    for at in (0.0, 2.5, 5.0, 7.5, 9.9):
        assert look(expiry, at, lease(3), lease(1, 2, 60)) == []
    assert look(expiry, 10.0, lease(3), lease(1, 2, 60)) == [1]
    assert look(expiry, 11.0, lease(1, 2, 60)) == []


def test_a_renewal_begins_another_time() -> None:
    expiry = Expiry()
    for number in range(40):
        # Renewed every 7.5 s, and seen every 2.5 s.
        assert look(expiry, number * 2.5, lease(number // 3)) == []
    assert look(expiry, 100.0, lease(13)) == []
    assert look(expiry, 102.5, lease(13)) == []
    assert look(expiry, 105.0, lease(13)) == []
    assert look(expiry, 107.5, lease(13)) == [1]


def test_only_what_was_asked_after_the_time_shows_that_it_is_unchanged() -> None:
    expiry = Expiry()
    for at in (0.0, 2.5, 5.0, 7.5):
        look(expiry, at, lease(3))
    assert look(expiry, 10.5, lease(3), took=1.0) == []
    assert look(expiry, 11.0, lease(3), took=0.5) == [1]


@pytest.mark.parametrize("gap", [6.0, 60.0])
def test_a_time_in_which_nothing_could_be_read_does_not_count(gap: float) -> None:
    expiry = Expiry()
    for at in (0.0, 2.5, 5.0):
        look(expiry, at, lease(3))
    back = 5.0 + gap
    for more in (0.0, 2.5, 5.0, 7.5):
        assert look(expiry, back + more, lease(3)) == []
    assert look(expiry, back + 10.0, lease(3)) == [1]


def test_a_lease_that_ended_elsewhere_and_was_made_again_is_another_one() -> None:
    expiry = Expiry()
    for at in (0.0, 2.5, 5.0):
        look(expiry, at, lease(0))
    look(expiry, 7.5)
    assert look(expiry, 10.0, lease(0, 2)) == []
    assert look(expiry, 12.5, lease(0, 2)) == []


def test_looks_are_frequent_enough_and_not_more() -> None:
    expiry = Expiry()
    assert expiry.pause() == 2.5
    look(expiry, 0.0, lease(0, 1, 2.0), lease(0, 2, 60.0))
    assert expiry.pause() == 0.5
    assert pause_for(0.001) == 0.1
