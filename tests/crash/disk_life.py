"""One life of a store with topics and cursors, from opening it to its crash or close.

Every request to it is recorded in the models, and so is every confirmation.
"""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any

from crash.disk_delays import LATEST, Delays
from crash.disk_model import CursorModel, State, TopicModel
from crash.disk_processes import Processes
from crash.disk_world import DurableMetadata, World
from fakes.attached_states import Numbers
from fakes.faulty_disk import FaultyDisk
from fakes.memory_metadata import MemoryMetadata
from fakes.runs import append
from fakes.world import ManualPromise, start
from magnetar_broker.expiry.orphans import present_segments, sweep
from magnetar_broker.policies.retention import CursorPosition, Retention, deletable_to, verdicts
from magnetar_storage.cursors.attached_state import DEDUPLICATION, DELAYS
from magnetar_storage.cursors.cursor_log import CursorLog, DurableCursor
from magnetar_storage.cursors.needed import needed_by
from magnetar_storage.delays.recent_delays import RecentDelays
from magnetar_storage.errors import StorageError
from magnetar_storage.local.limits import Limits
from magnetar_storage.log.log import Log
from magnetar_storage.log.offset_set import OffsetSet
from magnetar_storage.log.roll_limits import RollLimits
from magnetar_storage.runtime.execution import Done

NAMES = ("a", "b", "c")
CURSOR_ROLL_BYTES = 300
LARGEST_MESSAGES = 5


@dataclass
class Topic:
    """A topic that is open, and what must be true of it."""

    model: TopicModel
    log: Log
    cursors: CursorLog
    side: Numbers
    delays: Delays
    process: int
    work: ManualPromise | None = None
    """The last thing that was begun and not waited for."""

    @property
    def idle(self) -> bool:
        return self.work is None or self.work.done()


class Life:
    """`open`, then `act` as often as wanted, then nothing or `close`."""

    def __init__(
        self,
        disk: FaultyDisk,
        metadata: MemoryMetadata | None,
        models: list[TopicModel],
        world: World,
        limits: Limits,
        dice: Random,
        uniform: bool = False,
        directories: int = 1,
        actions: "Actions | None" = None,
    ) -> None:
        """`uniform`: all appends of a size, to few segments, so that in files that are used again
        old rounds lie exactly where new ones are written.  `directories`: the most processes.
        `actions`: what is done, and how often; `ACTIONS` if None."""
        self.disk = disk
        self.metadata = DurableMetadata(world.clock, disk, metadata)
        self.models = models
        self.world = world
        self.trouble = False
        """The disk is being troublesome: whatever is asked of the store may fail."""
        self.processes = Processes(disk, world, limits)
        self._limits = limits
        self._directories = directories
        self._actions = actions or ACTIONS
        self._dice = dice
        self._uniform = uniform
        self._topics: list[Topic] = []

    # Opening and checking -------------------------------------------------------

    def open(self, after_close: bool = False) -> None:
        """Recover, and compare everything with the models."""
        alone = self._directories == 1
        count = 1 if alone else self._dice.randint(1, self._directories)
        self._roll = RollLimits(max_entries=1000 if self._uniform else 6, min_age_ms=0)
        self.processes.open(count, alone, self.metadata, self._roll)
        findings = self.processes.findings
        lost = [finding.text for finding in findings if finding.data_lost]
        assert not lost, f"damage where there is none: {lost}"
        assert not (after_close and findings), f"after a stop: {findings}"
        engines = self.processes.engines
        present = [self.world.drive(present_segments(engine)) for engine in engines]
        for model in self.models:
            if not model.deleted:
                self._open_topic(model)
        if self._dice.random() < 0.5:
            for engine, candidates in zip(engines, present, strict=True):
                moved = self.world.drive(sweep(engine, candidates))
                assert not any(end.messages for end in moved.values()), "nobody lists messages"

    def _open_topic(self, model: TopicModel, before: int | None = None) -> None:
        """`before` is the process that has closed it, if one has."""
        engines = self.processes.engines
        process = 0 if self._directories == 1 else self._dice.randrange(len(engines))
        if before is not None:
            self.processes.hand_over(before, process)
        if model.delete_asked:
            self._delete_again(model)
            return
        log = self.world.drive(Log.open(model.key, engines[process], create=True))
        assert log is not None
        side, recent = Numbers(), RecentDelays()
        cursors = self.world.drive(CursorLog.open(log, {DEDUPLICATION: side, DELAYS: recent}))
        cursors._roll_bytes = CURSOR_ROLL_BYTES
        delays = self.world.drive(Delays.open(model, log, cursors, recent))
        topic = Topic(model, log, cursors, side, delays, process)
        self.check(topic)
        if self._dice.random() < 0.7:
            delays.look()
        self._topics.append(topic)

    def _delete_again(self, model: TopicModel) -> None:
        """A deletion that was cut short can be finished."""
        log = self.world.drive(Log.open(model.key, self.processes.engines[-1], create=False))
        if log is not None:
            self.world.drive(log.delete())
        model.deleted = True
        assert self.metadata.now(model.key) is None

    def check(self, topic: Topic) -> None:
        """Compare a topic that was just opened; what is there is durable from now on."""
        log, model = topic.log, topic.model
        found: dict[int, tuple[bytes, int]] = {}
        offset = log.first_offset
        while True:
            run = self.world.drive(log.entries.read(offset, 1 + self._dice.randrange(9), 300))
            if not run.payloads:
                break
            assert run.first >= offset
            found.update(enumerate(zip(run.payloads, run.counts, strict=True), run.first))
            offset = run.first + len(run.payloads)
        assert offset == max(log.end, log.first_offset)
        model.check_ledgers([segment.id for segment in log.segments])
        model.check(log.first_offset, log.end, found, log.messages_end)
        for name in sorted(topic.cursors.cursors.keys() | model.cursors):
            cursor = topic.cursors.cursors.get(name)
            expected = model.cursors.setdefault(name, CursorModel())
            expected.check(_state(cursor, log.end), f"cursor {name} of {model.key}")
        model.side.check(topic.side.all, f"side of {model.key}")
        topic.delays.check()

    # Acting ---------------------------------------------------------------------

    def act(self) -> None:
        """One thing that is asked of the store; its outcome is not waited for."""
        topic = self._dice.choice(self._topics) if self._topics else None
        if topic is None or topic.log.failed is not None:
            return
        weights = self._actions
        if self._directories > 1:
            weights = weights | {Life.reopen: MOVES}
        action = self._dice.choices(tuple(weights), tuple(weights.values()))[0]
        try:
            action(self, topic)
        except StorageError:
            if not self.trouble:
                raise

    def append(self, topic: Topic) -> None:
        """A run of entries, now and then larger than a round of the journal."""
        if not topic.idle:
            return
        if topic.log.writer is None:
            self._begin(topic, topic.log.rollover.start_writing())
            self._finish(topic)
        topic.model.check_ledgers([segment.id for segment in topic.log.segments])
        dice, model = self._dice, topic.model
        size = 1 if self._uniform else _size(dice)
        entries = [self._entry(len(model.appended) + number) for number in range(size)]
        if dice.random() < 0.05 and not self._uniform:
            entries[0] = (entries[0][0] + bytes(dice.randrange(1, 256) for _ in range(700)), 1)
        first, end = len(model.appended), len(model.appended) + len(entries)
        payloads = [payload for payload, _ in entries]

        def appended() -> None:
            assert model.durable < end, "confirmations come in order"
            model.durable = end
            topic.delays.appended(first, payloads)

        append(topic.log, payloads, [n for _, n in entries], self._if_done(appended))
        model.appended += entries

    def _entry(self, offset: int) -> tuple[bytes, int]:
        dice = self._dice
        fill = 0 if self._uniform else dice.randrange(40)
        text = b"%04d:%010d:" % (offset, dice.randrange(1 << 30)) + b"x" * fill
        return text, 1 + dice.randrange(LARGEST_MESSAGES)

    def acknowledge(self, topic: Topic) -> None:
        """Singly, of a batch, or all up to a place."""
        chosen = self._cursor(topic)
        if chosen is None or not topic.model.durable:
            return
        cursor, expected = chosen
        dice, durable = self._dice, topic.model.durable
        offset = dice.randrange(durable)
        kind = dice.randrange(5)
        if kind == 0:
            cursor.ack_up_to(offset)
            number = expected.ack(range(offset + 1))
        elif kind == 1:
            mask = dice.randrange(1 << topic.model.appended[offset][1])
            cursor.ack_batch(offset, mask)
            number = expected.ack_batch(offset, mask)
        else:
            self._acked(topic, cursor, [dice.randrange(durable) for _ in range(_size(dice))])
            return
        topic.cursors.cursor_changed(
            cursor, self._if_done(partial(expected.history.durable, number))
        )

    def _acked(self, topic: Topic, cursor: DurableCursor, offsets: list[int]) -> None:
        expected = topic.model.cursors[cursor.name]
        cursor.ack(offsets)
        number = expected.ack(offsets)
        topic.cursors.cursor_changed(
            cursor, self._if_done(partial(expected.history.durable, number))
        )

    def redeliver(self, topic: Topic) -> None:
        """As a consumer asks that does not acknowledge."""
        chosen = self._cursor(topic)
        if chosen is None or not topic.model.durable:
            return
        cursor, expected = chosen
        dice = self._dice
        offsets = [dice.randrange(topic.model.durable) for _ in range(_size(dice))]
        cursor.count_redelivery(offsets)
        number = expected.count_redelivery(offsets)
        done = self._if_done(partial(expected.history.durable, number))
        topic.cursors.cursor_changed(cursor, done if dice.random() < 0.5 else None)

    def note(self, topic: Topic) -> None:
        """Change a state beside the cursors."""
        dice, model = self._dice, topic.model.side
        key, value = dice.randrange(10), dice.randrange(1000)
        topic.side.put(key, value)
        number = model.put(key, value)
        done = self._if_done(partial(model.history.durable, number))
        topic.cursors.state_changed(DEDUPLICATION, done if dice.random() < 0.5 else None)

    def seek(self, topic: Topic) -> None:
        chosen = self._cursor(topic)
        if chosen is not None:
            cursor, expected = chosen
            mark_delete = self._dice.randrange(-1, topic.model.durable)
            cursor.reset(mark_delete)
            number = expected.reset(mark_delete)
            topic.cursors.cursor_changed(
                cursor, self._if_done(partial(expected.history.durable, number))
            )

    def subscribe(self, topic: Topic) -> None:
        name = self._dice.choice(NAMES)
        if name not in topic.cursors.cursors and topic.idle:
            mark_delete = self._dice.randrange(-1, topic.model.durable)
            expected = topic.model.cursors.setdefault(name, CursorModel())
            number = expected.create(mark_delete)
            work = topic.cursors.create(name, mark_delete, {"made at": str(mark_delete)})
            self._begin(topic, work, partial(expected.history.durable, number))

    def unsubscribe(self, topic: Topic) -> None:
        chosen = self._cursor(topic)
        if chosen is not None and topic.idle:
            cursor, expected = chosen
            number = expected.delete()
            work = topic.cursors.delete(cursor.name)
            self._begin(topic, work, partial(expected.history.durable, number))

    def trim(self, topic: Topic) -> None:
        if topic.idle:
            log, model = topic.log, topic.model
            before = self._dice.randrange(log.first_offset, log.end + 1)
            model.trim_asked = max(model.trim_asked, before)
            self._begin(topic, topic.delays.trim(before), partial(_trimmed, model, log))

    def roll(self, topic: Topic) -> None:
        """The open segment has become old: another one is begun."""
        self.world.clock.set_forward(self._roll.max_age_ms)
        topic.log.rollover.roll_if_due()

    def tidy(self, topic: Topic) -> None:
        """Delete what a broker would that retains nothing."""
        if not topic.idle:
            return
        log, model, cursors = topic.log, topic.model, topic.cursors.cursors
        needs = [CursorPosition(cursor.name, cursor.mark_delete) for cursor in cursors.values()]
        clock, roll = self.world.clock, self._roll
        found = verdicts(
            log.segments, log.first_offset, log.size, needs, Retention(), roll.max_age_ms,
            clock.now_ms(),
        )  # fmt: skip
        before = deletable_to(found, log.first_offset)
        gone = set(range(log.first_offset, before))
        needed = [name for name in cursors if gone - model.cursors[name].acked]
        assert not needed, f"{needed} need what would be deleted"
        model.trim_asked = max(model.trim_asked, before)
        self._begin(topic, topic.delays.trim(before), partial(_trimmed, model, log))

    def truncate(self, topic: Topic) -> None:
        """Everything is acknowledged, and when that is durable every closed segment goes."""
        if not topic.idle:
            return
        log, model, end = topic.log, topic.model, topic.log.end
        for cursor in topic.cursors.cursors.values():
            self._acked(topic, cursor, list(range(end)))

        async def work() -> None:
            await topic.cursors.durable()
            model.trim_asked = max(model.trim_asked, end)
            await topic.delays.trim(end)

        self._begin(topic, work(), partial(_trimmed, model, log))

    def release(self, topic: Topic) -> None:
        """Let time pass."""
        if topic.idle:
            until = self._dice.randint(topic.model.released_to, LATEST)
            self._begin(topic, topic.delays.release(min(until, topic.model.released_to + 10)))

    def thin(self, topic: Topic) -> None:
        """Give back what no cursor needs, even if it is a single entry of a segment."""
        if not topic.idle:
            return
        model, cursors = topic.model, topic.cursors.cursors
        for cursor in cursors.values():
            few = {self._dice.randrange(model.durable + 1) for _ in range(3)}
            self._acked(topic, cursor, [o for o in range(model.durable) if o not in few])

        def needed(start: int, stop: int, limit: int) -> OffsetSet | None:
            found = needed_by(cursors.values())(start, stop, max(limit, stop - start - 1))
            if found is not None:
                model.unneeded.update(
                    offset for offset in range(start, stop) if offset not in found
                )
            return found

        self._begin(topic, topic.log.reclaim(needed, topic.log.end))

    def checkpoint(self, topic: Topic) -> None:
        if topic.idle:
            self._begin(topic, self.processes.checkpoint(topic.process))

    def reopen(self, topic: Topic) -> None:
        """As a broker does when a topic is unloaded, or when its log has failed."""
        self._finish(topic)
        self._topics.remove(topic)
        if topic.log.failed is None:
            self.world.drive(topic.delays.close())
            self.world.drive(topic.cursors.close())
            self.world.drive(topic.log.close())
        self._open_topic(topic.model, topic.process)

    def mend(self) -> None:
        """The trouble is over: whatever failed is opened again."""
        self.world.clock.advance(self._limits.retry_seconds)
        while self.world.step():
            pass
        self.trouble = False
        for topic in [topic for topic in self._topics if topic.log.failed is not None]:
            self.reopen(topic)

    def delete(self, topic: Topic) -> None:
        """The topic and all it has."""
        self._finish(topic)
        topic.model.delete_asked = True
        before, self.trouble = self.trouble, True  # changes of its cursors may still be under way
        self.world.drive(topic.log.delete())
        self.trouble = before
        topic.model.deleted = True
        self._topics.remove(topic)

    def close(self) -> None:
        """Stop in good order; nothing is left behind that is not needed."""
        for topic in self._topics:
            self._finish(topic)
            self.world.drive(topic.delays.close())
            self.world.drive(topic.cursors.close())
            self.world.drive(topic.log.close())
        self.processes.close()

    def _cursor(self, topic: Topic) -> tuple[DurableCursor, CursorModel] | None:
        cursors = list(topic.cursors.cursors.values())
        if not cursors:
            return None
        cursor = self._dice.choice(cursors)
        return cursor, topic.model.cursors[cursor.name]

    def _begin(
        self, topic: Topic, work: Coroutine[Any, Any, Any], then: Callable[[], None] | None = None
    ) -> None:
        """Start something; `then` when it is done, unless it failed."""
        topic.work = outcome = start(work)

        def done() -> None:
            try:
                outcome.result()
            except StorageError:
                if not self.trouble:
                    raise
            else:
                if then is not None:
                    then()

        outcome.when_done(done)

    def _finish(self, topic: Topic) -> None:
        while not topic.idle:
            assert self.world.step(), "it waits for something that will never come"

    def _if_done(self, then: Callable[[], None]) -> Done:
        def done(error: BaseException | None) -> None:
            if error is None:
                then()
            elif not self.trouble:
                raise error

        return done


Actions = dict[Callable[[Life, Topic], None], float]
ACTIONS: Actions = {
    Life.append: 10,
    Life.acknowledge: 8,
    Life.redeliver: 2,
    Life.note: 2,
    Life.seek: 0.5,
    Life.subscribe: 1.5,
    Life.unsubscribe: 0.4,
    Life.trim: 1,
    Life.roll: 1,
    Life.tidy: 2,
    Life.truncate: 0.3,
    Life.thin: 4,
    Life.release: 3,
    Life.checkpoint: 0.7,
    Life.reopen: 0.2,
}
"""How often each is done, compared with the others."""
MOVES = 2.0
"""How often a topic moves between processes, compared with these."""


def _size(dice: Random) -> int:
    return dice.choice((1, 1, 1, 2, 3, 6))


def _trimmed(model: TopicModel, log: Log) -> None:
    model.trimmed = log.first_offset


def _state(cursor: DurableCursor | None, end: int) -> State:
    if cursor is None:
        return None
    acked = frozenset(offset for offset in range(end) if cursor.is_acked(offset))
    return acked, frozenset(cursor.partial.items()), frozenset(cursor.redelivered.items())
