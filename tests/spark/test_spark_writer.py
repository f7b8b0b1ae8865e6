"""Rows become messages."""

from datetime import UTC, datetime

import pyarrow as pa
import pytest

from magnetar.messages import Outgoing
from pyspark_magnetar.writer import to_messages


def test_values_alone_stay_plain() -> None:
    assert to_messages(pa.record_batch({"value": pa.array([b"a", b""])})) == [b"a", b""]
    assert to_messages(pa.record_batch({"value": pa.array(["ä"])})) == ["ä".encode()]


def test_all_columns_arrive() -> None:
    moment = datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=UTC)
    batch = pa.record_batch(
        {
            "__key": pa.array([b"k", None]),
            "value": pa.array([b"v", b"w"]),
            "__eventTime": pa.array([moment, None], pa.timestamp("us", "UTC")),
            "__messageProperties": pa.array(
                [[("a", "b")], None], pa.map_(pa.string(), pa.string())
            ),
        }
    )
    event_time_ms = int(moment.timestamp() * 1000)
    assert to_messages(batch) == [
        Outgoing(b"v", key=b"k", properties={"a": "b"}, event_time_ms=event_time_ms),
        Outgoing(b"w"),
    ]


def test_text_keys_stay_text() -> None:
    batch = pa.record_batch({"value": pa.array([b"v"]), "__key": pa.array(["k"])})
    assert to_messages(batch) == [Outgoing(b"v", key="k")]


def test_a_row_without_value_is_refused() -> None:
    with pytest.raises(ValueError, match="1 rows have no value"):
        to_messages(pa.record_batch({"value": pa.array([b"a", None])}))
