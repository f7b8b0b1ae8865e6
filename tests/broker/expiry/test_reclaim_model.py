"""Whatever is trimmed and rewritten beside it, unacknowledged entries of a subscription stay."""

from collections.abc import Coroutine
from typing import Any, TypeVar

from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from fakes.topics import EXCLUSIVE, SHARED, TopicWorld, entry
from fakes.world import ManualPromise, run
from magnetar_broker.expiry.trimming import trim_topic
from magnetar_storage.log.roll_limits import RollLimits

T = TypeVar("T")
BY_FIVE = RollLimits(max_entries=5, min_age_ms=0)
NAMES = ("a", "b", "c")


class GatedWorld(TopicWorld):
    """Writes of metadata that are held continue at the latest when something waits for them."""

    def __init__(self) -> None:
        self.gates: list[ManualPromise] = []
        super().__init__(roll=BY_FIVE, cache_bytes=0)

    def do(self, coro: Coroutine[Any, Any, T]) -> T:
        return run(coro, self.clock, self.let_go)

    def let_go(self) -> bool:
        """Release the oldest write that is held; False if there is none."""
        if self.gates:
            self.gates.pop(0).set_result(None)
            return True
        return False


class TrimmedTopic:
    """A topic that is trimmed while other things happen, and what its subscriptions must get."""

    def __init__(self) -> None:
        self.world = GatedWorld()
        self.must: dict[str, set[int]] = {}
        self.put = self.world.metadata.put

    def do(self, what: str, name: str, number: int) -> None:
        log = self.world.topic.log
        if what == "publish":
            first = log.end
            self.world.publish(*(entry(1000 + first + at) for at in range(number + 1)))
            for must in self.must.values():
                must.update(range(first, log.end))
        elif what == "make":
            if name not in self.must:
                self.must[name] = set()
                self.world.subscribe(sub=name, sub_type=SHARED, earliest=number % 2 == 0).close()
        elif name not in self.must:
            self.world_does(what, number)
        elif what == "ack":
            acked = [o for o in range(log.first_offset, log.end) if o % 7 != number]
            self.ack(name, acked[: 3 * number])
        elif what == "ack all":
            self.ack(name, list(range(log.first_offset, max(log.end - number, 0))))
        elif what == "seek":
            to = min(log.first_offset + number * 2, log.end)
            self.world.do(self.world.subscription(name).seek(to))
            self.must[name] = {o for o in self.must[name] if o >= to}
        elif what == "remove":
            self.world.do(self.world.subscription(name).delete())
            del self.must[name]
        else:
            self.world_does(what, number)

    def world_does(self, what: str, number: int) -> None:
        if what == "trim":
            self.hold(number % 4)
            self.world.begin(trim_topic(self.world.topic))
        elif what == "go on":
            self.world.let_go()
            self.world.clock.pump()
        elif what == "step":
            for _ in range(number):
                self.world.clock.step()
        elif what == "crash":
            self.settle()
            self.world.crash()

    def ack(self, name: str, offsets: list[int]) -> None:
        subscription = self.world.subscription(name)
        consumer = self.world.subscribe(sub=name, sub_type=SHARED)
        if offsets:
            self.world.ack(consumer, *offsets, answered=False)
            self.world.do(subscription.settled())
        consumer.close()
        assert self.world.subscription(name) is subscription
        self.must[name].difference_update(offsets)

    def hold(self, behind: int) -> None:
        """Let a later write of metadata wait until the test releases it."""
        gate = self.world.clock.promise()
        left = behind

        async def late(*asked: Any) -> Any:
            nonlocal left
            left -= 1
            if left == -1:
                self.world.metadata.put = self.put  # type: ignore[method-assign]
                self.world.gates.append(gate)
                await gate
            return await self.put(*asked)

        self.world.metadata.put = late  # type: ignore[assignment]

    def settle(self) -> None:
        """Let everything that is under way come to its end."""
        self.world.metadata.put = self.put  # type: ignore[method-assign]
        self.world.clock.pump()
        while self.world.let_go():
            self.world.clock.pump()

    def check(self) -> None:
        self.settle()
        log = self.world.topic.log
        for name, must in self.must.items():
            cursor = self.world.subscription(name).cursor
            assert cursor.mark_delete >= log.first_offset - 1, "holds up trimming for ever"
            consumer = self.world.subscribe(sub=name, sub_type=EXCLUSIVE, permits=1000)
            got = self.world.offsets(consumer)
            assert got == sorted(set(got)) and must <= set(got), "is lost"
            assert not [o for o in got if cursor.is_acked(o)]
            consumer.close()


STEPS = st.tuples(
    st.sampled_from(
        ["publish", "trim", "ack", "ack all", "go on"] * 3
        + ["make", "seek", "step"] * 2
        + ["crash", "remove"]
    ),
    st.sampled_from(NAMES),
    st.integers(0, 9),
)


@settings(max_examples=examples(150))
@given(st.lists(st.lists(STEPS, max_size=25), min_size=1, max_size=3))
def test_whatever_is_given_back_what_is_needed_is_there(
    phases: list[list[tuple[str, str, int]]],
) -> None:
    trimmed = TrimmedTopic()
    trimmed.do("make", "a", 0)
    for steps in phases:
        for step in steps:
            trimmed.do(*step)
        trimmed.check()
