"""Who reads compacted gets what a dict would hold, whatever was trimmed, and a restart between."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fakes.keyed import Message, batch_entry, messages_in, single_entry
from fakes.topics import TopicWorld
from magnetar_broker.compaction.topic_compaction import CompactionStatus
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.ids import MessageId
from magnetar_storage import compacted_part, compacted_writer, latest_keys
from magnetar_storage.log import RollLimits

BY_SEVEN = RollLimits(max_entries=7, min_age_ms=0)
PERMITS = 100_000

messages = st.builds(
    Message, st.sampled_from(["a", "b", "c", "d", None]), st.sampled_from([b"", b"1", b"22"])
)
kinds = st.sampled_from([pb.NONE, pb.LZ4, pb.ZSTD])
entries = st.one_of(
    messages.map(lambda one: ([one], None)),
    st.tuples(st.lists(messages, min_size=1, max_size=5), kinds),
)
Step = str | list[tuple[list[Message], int | None]]
steps: st.SearchStrategy[Step] = st.one_of(
    st.lists(entries, min_size=1, max_size=8),
    st.sampled_from(["compact", "compact", "trim", "reload", "crash"]),
)


class Compacting(TopicWorld):
    """A topic, and what was published to it."""

    def __init__(self) -> None:
        super().__init__(roll=BY_SEVEN, cache_bytes=0)
        self.published: list[list[Message]] = []
        """Entry by entry."""
        self.ids: list[tuple[int, int]] = []
        self.horizon = 0

    def send_all(self, sent: Sequence[tuple[list[Message], int | None]]) -> None:
        for batch, kind in sent:
            payload = single_entry(*batch[0]) if kind is None else batch_entry(batch, kind)
            self.publish(payload, counts=[len(batch)])
            self.published.append(batch)
            self.ids.append(self.topic.log.position(self.topic.log.end - 1))

    def compact(self) -> None:
        end, first = self.topic.log.end, self.topic.log.first_offset
        for offset in range(self.horizon, first):
            self.published[offset] = []  # nobody held it: it was trimmed before
        assert self.do(self.topic.compaction.start())
        self.clock.pump()
        self.clock.advance(3600)
        assert self.topic.compaction.status is CompactionStatus.SUCCESS
        assert self.topic.log.record.compacted is not None
        assert self.topic.log.record.compacted.horizon == end
        assert not self.topic.log.record.trash
        assert self.store.ids() == self.topic.log.record.listed
        self.horizon = end

    def expected(self) -> list[tuple[tuple[int, int], int, Message]]:
        """Position, index and message of everything that must be delivered."""
        last: dict[str, tuple[int, int]] = {}
        for offset, batch in enumerate(self.published[: self.horizon]):
            for index, (key, value) in enumerate(batch):
                if key is not None:
                    last.pop(key, None)
                    if value:
                        last[key] = (offset, index)
        winners = set(last.values())
        return [
            (self.ids[offset], index, message)
            for offset, batch in enumerate(self.published)
            for index, message in enumerate(batch)
            if (offset, index) in winners
            or (self.horizon <= offset and offset >= self.topic.log.first_offset)
        ]

    def read(self, **asked: object) -> list[tuple[tuple[int, int], int, Message]]:
        asked = {"durable": False, "start": MessageId(-1, -1), "earliest": True} | asked
        consumer = self.subscribe(sub="reader", permits=3, read_compacted=True, **asked)
        got = []
        while found := self.got(consumer):
            for one in found:
                for index, message in enumerate(messages_in(one.payload)):
                    if message is not None:
                        got.append(((one.ledger, one.entry), index, message))
            self.flow(consumer, PERMITS)
        consumer.close()
        self.clock.pump()
        return got

    def last_id(self) -> MessageId:
        consumer = self.subscribe(
            sub="asks", durable=False, start=MessageId(-1, -1), read_compacted=True
        )
        last = self.do(self.subscription("asks").last_message_id(read_compacted=True))
        consumer.close()
        return last


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """So small that everything is spilled, divided and rolled over."""
    monkeypatch.setattr(latest_keys, "KEYS_IN_MEMORY", 2)
    monkeypatch.setattr(latest_keys, "SLICE", 2)
    monkeypatch.setattr(compacted_writer, "PART_ENTRIES", 3)
    monkeypatch.setattr(compacted_writer, "APPEND_BYTES", 100)
    monkeypatch.setattr(compacted_part, "ENTRIES_PER_PIECE", 2)


@settings(max_examples=150)
@given(st.lists(steps, max_size=20))
def test_read_compacted_is_the_model(story: list[Step]) -> None:
    world = Compacting()
    for step in story:
        match step:
            case "compact":
                world.compact()
            case "trim":
                world.do(world.topic.log.start_writing())
                world.clock.advance(3600)
                world.do(world.topic.tidy())
            case "reload":
                world.do(world.topic.close())
                world.reload()
            case "crash":
                world.crash()
            case _:
                assert not isinstance(step, str)
                world.send_all(step)
    expected = world.expected()
    assert world.read() == expected
    assert world.read() == expected, "reading moves nothing"
    last = world.last_id()
    if expected:
        assert (last.ledger, last.entry) == expected[-1][0]
    else:
        assert last.entry == -1


@settings(max_examples=100)
@given(st.lists(st.lists(entries, min_size=1, max_size=8), min_size=1, max_size=4), st.data())
def test_reading_begins_at_any_message_also_where_the_log_is_trimmed(
    rounds: list[list[tuple[list[Message], int | None]]], data: st.DataObject
) -> None:
    world = Compacting()
    for sent in rounds:
        world.send_all(sent)
        world.compact()
        world.do(world.topic.tidy())
    position = data.draw(st.sampled_from(world.ids))
    expected = [found for found in world.expected() if found[0] >= position]
    assert world.read(start=MessageId(*position)) == expected
