"""What clients make a process hold: received and not complete, sent and not read."""

from dataclasses import dataclass, field

from fakes.world import ManualClock
from magnetar_broker.limits.held_bytes import HeldBytes
from magnetar_broker.limits.reached import ClientLimit, ReachedLimits
from magnetar_broker.limits.slow_readers import SlowReaders


@dataclass(eq=False)
class Client:
    address: str = "client"
    taken: int = 0
    waiting: int = 0
    ended: list[str] = field(default_factory=list)

    def unread(self) -> tuple[int, int]:
        return self.taken, self.waiting

    def give_up(self) -> None:
        self.ended.append(self.address)


class Held(HeldBytes):
    def __init__(self, limit: int) -> None:
        self.clock = ManualClock()
        self.reached = ReachedLimits(self.clock)
        super().__init__(limit, self.reached, ClientLimit.SEND_BUFFER, "setting")


def test_the_sum_is_of_what_is_held_now() -> None:
    held, one, other = Held(100), Client(), Client()
    held.hold(one, 40)
    held.hold(other, 30)
    held.hold(one, 60)
    assert held.used == 90
    held.hold(one, 0)
    held.hold(one, 0)
    assert held.used == 30 and not one.ended and not other.ended


def test_above_the_limit_those_who_hold_for_longest_are_ended_and_no_more() -> None:
    held = Held(100)
    clients = [Client(f"{number}") for number in range(6)]
    for client in clients[:5]:
        held.hold(client, 20)
    held.hold(clients[5], 30)
    assert [len(client.ended) for client in clients] == [1, 1, 0, 0, 0, 0]
    assert held.used == 90 and held.reached.counts[ClientLimit.SEND_BUFFER] == 2
    held.hold(clients[0], 0)  # its connection is lost in the end
    assert held.used == 90


def test_who_goes_on_is_never_the_one_that_waits_for_longest() -> None:
    held, honest = Held(100), Client()
    hostile = [Client() for _ in range(50)]
    for client in hostile:
        held.hold(honest, 10, begins=True)  # a frame is complete, and the next one begins
        held.hold(client, 20)
    assert not honest.ended and sum(len(client.ended) for client in hostile) == 46


def test_more_of_the_same_frame_is_no_new_beginning() -> None:
    held, slow, quick = Held(100), Client(), Client()
    held.hold(slow, 50)
    held.hold(quick, 40)
    held.hold(slow, 70)
    assert slow.ended and not quick.ended


def test_without_a_limit_nobody_is_ended() -> None:
    held, client = Held(0), Client()
    held.hold(client, 1 << 40)
    assert not client.ended


def slow_readers(seconds: int = 60, limit: int = 0) -> tuple[SlowReaders, Held]:
    held = Held(limit)
    return SlowReaders(held.clock, seconds, held, held.reached), held


def test_a_client_that_takes_nothing_in_time_is_ended() -> None:
    readers, held = slow_readers()
    silent, slow, quick = Client(waiting=9), Client(waiting=9), Client(waiting=9)
    for client in (silent, slow, quick):
        readers.full(client)
    assert held.used == 27
    held.clock.advance(59)
    readers.drained(quick)
    slow.taken = 1
    held.clock.advance(1)
    assert silent.ended and not slow.ended and not quick.ended
    assert held.reached.counts[ClientLimit.SLOW_READER] == 1 and held.used == 9
    held.clock.advance(60)
    assert slow.ended and held.used == 0
    held.clock.advance(600)
    assert not quick.ended


def test_another_process_may_take_any_time() -> None:
    readers, held = slow_readers()
    client = Client(waiting=1)
    readers.full(client, may_wait=True)
    held.clock.advance(600)
    assert not client.ended and held.used == 1


def test_there_is_no_time_limit_with_0() -> None:
    readers, held = slow_readers(seconds=0)
    client = Client(waiting=1)
    readers.full(client)
    held.clock.advance(6000)
    assert not client.ended


def test_what_is_added_counts() -> None:
    readers, held = slow_readers(limit=100)
    first, second = Client(waiting=50), Client(waiting=40)
    readers.full(first)
    readers.full(second)
    second.waiting = 60
    readers.grew(second)
    assert first.ended and not second.ended and held.used == 60
