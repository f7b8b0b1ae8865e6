"""What is packed a column at a time is what a client makes of each message."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from magnetar.messages import Outgoing
from magnetar.producing.batching import BatchLimits
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.batch import decode_batch
from pyspark_magnetar.sink.packing import cuts, data_of, offsets_of, outgoing, packed

texts = st.text(st.characters(codec="utf-8"), max_size=200)
COLUMNS: dict[str, tuple[Any, st.SearchStrategy[Any]]] = {
    "__key": (pa.string(), texts),
    "__orderingKey": (pa.binary(), st.binary(min_size=1, max_size=200)),
    "__eventTime": (pa.int64(), st.integers(1, 2**63 - 1)),
    "__messageProperties": (
        pa.map_(pa.string(), pa.string()),
        st.dictionaries(texts, texts, max_size=3).map(lambda pairs: list(pairs.items())),
    ),
}


@st.composite
def messages(draw: st.DrawFn) -> pa.RecordBatch:
    """Messages that are a part of a larger record batch."""
    count = draw(st.integers(1, 12))
    drawn = draw(st.lists(st.none() | st.binary(max_size=300), min_size=count, max_size=count))
    columns = {"value": pa.array(drawn, pa.binary())}
    for name, (kind, values) in COLUMNS.items():
        if draw(st.booleans()):
            drawn = draw(st.lists(st.none() | values, min_size=count, max_size=count))
            columns[name] = pa.array(drawn, kind)
    if "__key" in columns and draw(st.booleans()):
        columns["__key"] = columns["__key"].cast(pa.binary())
    return pa.RecordBatch.from_pydict(columns).slice(draw(st.integers(0, count - 1)))


@settings(max_examples=examples(300), deadline=None)
@given(messages(), st.none() | st.integers(0, 2**62))
def test_each_part_is_what_a_client_makes_of_the_message(
    batch: pa.RecordBatch, first_id: int | None
) -> None:
    ids = None
    if first_id is not None:
        ids = [first_id + 3 * row for row in range(batch.num_rows)]
    parts = packed(batch, None if ids is None else pa.array(ids, pa.int64()))
    expected = []
    for row in range(batch.num_rows):
        message = outgoing(batch, row)
        about = pb.SingleMessageMetadata(payload_size=len(message.value))
        message.describe(about)
        if ids is not None:
            about.sequence_id = ids[row]
        expected.append((about, message.value))
    assert decode_batch(bytes(data_of(parts)), batch.num_rows) == expected


@settings(max_examples=examples(300))
@given(
    st.lists(st.integers(0, 30), min_size=1, max_size=60),
    st.sets(st.integers(0, 60)),
    st.integers(1, 20),
    st.integers(1, 100),
    st.data(),
)
def test_cuts_cover_all_rows_within_the_limits(
    sizes: list[int], borders: set[int], max_messages: int, max_bytes: int, data: st.DataObject
) -> None:
    parts = pa.array([bytes(size) for size in sizes], pa.binary())
    limits = BatchLimits(max_messages, max_bytes)
    inner = sorted(border for border in borders if border <= len(sizes))
    found = list(cuts(parts, inner, limits))
    assert [row for start, end in found for row in range(start, end)] == list(range(len(sizes)))
    for start, end in found:
        assert end - start <= max_messages
        assert end - start == 1 or sum(sizes[start:end]) <= max_bytes
        assert not any(start < border < end for border in inner)
    # From where an entry begins the cuts are the same, whatever was before.
    begin, _ = data.draw(st.sampled_from(found))
    later = [border - begin for border in inner if border >= begin]
    again = [(start + begin, end + begin) for start, end in cuts(parts.slice(begin), later, limits)]
    assert again == [cut for cut in found if cut[0] >= begin]
    assert offsets_of(parts)[len(sizes)] == sum(sizes)


def test_one_message_has_everything() -> None:
    batch = pa.RecordBatch.from_pydict(
        {
            "value": pa.array([None], pa.binary()),
            "__key": pa.array([b"k"]),
            "__orderingKey": pa.array(["o"]),
            "__deliverAt": pa.array([7]),
            "__messageProperties": pa.array([[("a", "b")]], pa.map_(pa.string(), pa.string())),
        }
    )
    assert outgoing(batch, 0, 5) == Outgoing(
        b"",
        key=b"k",
        ordering_key=b"o",
        properties={"a": "b"},
        deliver_at_ms=7,
        sequence_id=5,
        is_null=True,
    )


def test_a_property_without_value_is_refused() -> None:
    batch = pa.RecordBatch.from_pydict(
        {
            "value": pa.array([b""]),
            "__messageProperties": pa.array([[("a", None)]], pa.map_(pa.string(), pa.string())),
        }
    )
    with pytest.raises(ValueError, match="a property without value"):
        packed(batch)
