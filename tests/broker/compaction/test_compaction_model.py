"""Who reads compacted gets what a dict would hold, whatever was trimmed, and a restart between."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from fakes.compacting import Compacting, Sent
from fakes.keyed import Message
from magnetar_broker.expiry.trimming import trim_topic, truncate
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.ids import MessageId
from magnetar_storage.compacted import compacted_part, compacted_writer, latest_keys
from magnetar_storage.log import rewriting

messages = st.builds(
    Message, st.sampled_from(["a", "b", "c", "d", None]), st.sampled_from([b"", b"1", b"22"])
)
kinds = st.sampled_from([pb.NONE, pb.LZ4, pb.ZSTD])
entries = st.one_of(
    messages.map(lambda one: ([one], None)),
    st.tuples(st.lists(messages, min_size=1, max_size=5), kinds),
)
Step = str | int | list[Sent]
"""What to do, which messages another subscription needs, or what to send."""
steps: st.SearchStrategy[Step] = st.one_of(
    st.lists(entries, min_size=1, max_size=8),
    st.sampled_from(["compact", "compact", "trim", "truncate", "reload", "crash"]),
    st.integers(0, 4),
)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """So small that everything is spilled, divided and rolled over."""
    monkeypatch.setattr(rewriting, "NEEDED_OF_WHOLE", 2)
    monkeypatch.setattr(latest_keys, "KEYS_IN_MEMORY", 2)
    monkeypatch.setattr(latest_keys, "SLICE", 2)
    monkeypatch.setattr(compacted_writer, "PART_ENTRIES", 3)
    monkeypatch.setattr(compacted_writer, "APPEND_BYTES", 100)
    monkeypatch.setattr(compacted_part, "ENTRIES_PER_PIECE", 2)


@settings(max_examples=examples(150))
@given(st.lists(steps, max_size=20))
def test_read_compacted_is_the_model(story: list[Step]) -> None:
    world = Compacting()
    for step in story:
        match step:
            case "compact":
                world.compact()
            case "trim":
                world.do(world.topic.log.rollover.start_writing())
                world.clock.advance(3600)
                world.do(trim_topic(world.topic))
            case "truncate":
                world.do(truncate(world.topic))
            case "reload":
                world.do(world.topic.close())
                world.reload()
            case "crash":
                world.crash()
            case int():
                world.hold_few(step)
            case list():
                world.send_all(step)
    expected = world.expected()
    assert world.read() == expected
    assert world.read() == expected, "reading moves nothing"
    last = world.last_id()
    if expected:
        assert (last.ledger, last.entry) == expected[-1][0]
    else:
        assert last.entry == -1


@settings(max_examples=examples(100))
@given(st.lists(st.lists(entries, min_size=1, max_size=8), min_size=1, max_size=4), st.data())
def test_reading_begins_at_any_message_also_where_the_log_is_trimmed(
    rounds: list[list[Sent]], data: st.DataObject
) -> None:
    world = Compacting()
    for sent in rounds:
        world.send_all(sent)
        world.compact()
        world.do(trim_topic(world.topic))
    position = data.draw(st.sampled_from(world.ids))
    expected = [found for found in world.expected() if found[0] >= position]
    assert world.read(start=MessageId(*position)) == expected
