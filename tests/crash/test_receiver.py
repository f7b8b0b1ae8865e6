"""Messages of an official consumer count for the life in which the broker has sent them."""

from types import SimpleNamespace
from typing import Any, cast

import pulsar
import pytest

from crash.clients import Receiver, with_next
from crash.lives import Lives, Tally
from crash.record import Record

PLACE = SimpleNamespace(ledger_id=lambda: 1, entry_id=lambda: 2, batch_index=lambda: -1)
MESSAGE = SimpleNamespace(message_id=lambda: PLACE)


class Official:
    """A consumer that always has a message; the broker is ready once it was taken."""

    def __init__(self, lives: Lives) -> None:
        self.connected = True
        self._lives = lives

    def is_connected(self) -> bool:
        return self.connected

    def subscription_name(self) -> str:
        return "s"

    def receive(self, timeout_millis: int) -> Any:
        if not self.connected:
            raise pulsar.Timeout
        self._lives.started()
        return MESSAGE


@pytest.fixture
def lives() -> Lives:
    return Lives()


@pytest.fixture
def consumer(lives: Lives) -> Official:
    return Official(lives)


@pytest.fixture
def receiver(lives: Lives, consumer: Official) -> Receiver:
    run: Any = SimpleNamespace(lives=lives, record=Record(lives, Tally(), lambda _: None))
    return Receiver(run, consumer)


def test_what_a_broker_sends_before_it_is_ready_is_of_its_life(
    lives: Lives, consumer: Official, receiver: Receiver
) -> None:
    lives.killed()
    lives.starting()
    consumer.connected = False
    assert receiver.receive() is None
    consumer.connected = True
    assert receiver.receive() == (MESSAGE, 1)


def test_a_client_that_has_not_noticed_the_kill_has_what_the_former_broker_sent(
    lives: Lives, consumer: Official, receiver: Receiver
) -> None:
    lives.killed()
    consumer.connected = False
    assert receiver.receive() is None, "this may be the end of the connection before"
    consumer.connected = True
    lives.starting()
    assert receiver.receive() is None
    assert receiver.receive() is None, "the broker is ready now, and nothing has changed otherwise"
    consumer.connected = False
    assert receiver.receive() is None
    consumer.connected = True
    assert receiver.receive() == (MESSAGE, 1)


def test_a_client_that_has_not_noticed_a_move_has_what_the_former_owner_sent(
    lives: Lives, consumer: Official, receiver: Receiver
) -> None:
    assert receiver.receive() == (MESSAGE, 0)
    lives.move_begins()
    lives.move_ends()
    assert receiver.receive() is None
    consumer.connected = False
    assert receiver.receive() is None
    consumer.connected = True
    assert receiver.receive() == (MESSAGE, 0)


def test_a_new_client_is_of_the_present_life(lives: Lives, consumer: Official) -> None:
    lives.killed()
    lives.starting()
    lives.started()
    run: Any = SimpleNamespace(lives=lives, record=Record(lives, Tally(), lambda _: None))
    assert Receiver(run, cast(pulsar.Consumer, consumer)).receive() == (MESSAGE, 1)


def test_what_the_former_connection_brought_is_not_acknowledged_with_earlier_messages() -> None:
    left, first, second = (7, 9, 3), (7, 2, 0), (7, 2, 1)
    received = with_next([], left)
    received = with_next(received, first)
    assert with_next(received, second) == [first, second]
