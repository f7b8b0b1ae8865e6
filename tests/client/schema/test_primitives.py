"""Numbers, text and times as bytes: the forms of Java's client, and both ways."""

import struct
from datetime import UTC, date, datetime, time, timedelta, timezone
from typing import Any, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from magnetar import schema
from magnetar.schema import Schema
from magnetar_proto import PulsarApi_pb2 as pb

FORMS: list[tuple[Schema[Any], Any, str]] = [
    (schema.Bytes(), b"\0a", "0061"),
    (schema.String(), "ä", "c3a4"),
    (schema.Bool(), True, "01"),
    (schema.Bool(), False, "00"),
    (schema.Int8(), -8, "f8"),
    (schema.Int16(), 16, "0010"),
    (schema.Int32(), -2, "fffffffe"),
    (schema.Int64(), 64, "0000000000000040"),
    (schema.Float(), 0.5, "3f000000"),
    (schema.Double(), 0.25, "3fd0000000000000"),
    (schema.Date(), datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC), "0000018bcfe56800"),
    (schema.Timestamp(), datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC), "0000018bcfe56800"),
    (schema.Time(), time(0, 0, 1), "00000000000003e8"),
    (
        schema.Instant(),
        datetime(2023, 11, 14, 22, 13, 20, 5, tzinfo=UTC),
        "000000006553f10000001388",
    ),
    (schema.LocalDate(), date(1970, 1, 2), "0000000000000001"),
    (schema.LocalTime(), time(0, 0, 0, 1), "00000000000003e8"),
    (
        schema.LocalDateTime(),
        datetime(1970, 1, 2, 0, 0, 0, 1),
        "000000000000000100000000000003e8",
    ),
]


@pytest.mark.parametrize(("kind", "value", "form"), FORMS, ids=lambda one: type(one).__name__)
def test_forms(kind: Schema[Any], value: Any, form: str) -> None:
    assert kind.encode(value).hex() == form
    assert kind.decode(bytes.fromhex(form)) == value


At = TypeVar("At", datetime, time)


def whole_millis(moment: At) -> At:
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


MOMENTS = st.datetimes(timezones=st.just(UTC))
STRATEGIES: list[tuple[Schema[Any], st.SearchStrategy[Any]]] = [
    (schema.String(), st.text()),
    (schema.Bool(), st.booleans()),
    (schema.Int8(), st.integers(-(2**7), 2**7 - 1)),
    (schema.Int16(), st.integers(-(2**15), 2**15 - 1)),
    (schema.Int32(), st.integers(-(2**31), 2**31 - 1)),
    (schema.Int64(), st.integers(-(2**63), 2**63 - 1)),
    (schema.Float(), st.floats(width=32, allow_nan=False)),
    (schema.Double(), st.floats(allow_nan=False)),
    (schema.Date(), MOMENTS.map(whole_millis)),
    (schema.Timestamp(), MOMENTS.map(whole_millis)),
    (schema.Time(), st.times().map(whole_millis)),
    (schema.Instant(), MOMENTS),
    (schema.LocalDate(), st.dates()),
    (schema.LocalTime(), st.times()),
    (schema.LocalDateTime(), st.datetimes()),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "values"), STRATEGIES, ids=lambda one: type(one).__name__)
def test_what_is_encoded_is_decoded(kind: Schema[Any], values: st.SearchStrategy[Any]) -> None:
    @settings(max_examples=examples(300))
    @given(values)
    def check(value: Any) -> None:
        assert kind.decode(kind.encode(value)) == value

    check()


@pytest.mark.parametrize(("kind", "values"), STRATEGIES, ids=lambda one: type(one).__name__)
def test_other_bytes_are_values_or_errors(kind: Schema[Any], values: object) -> None:
    @settings(max_examples=examples(300))
    @given(st.binary(max_size=20))
    def check(data: bytes) -> None:
        try:
            value = kind.decode(data)
        except (ValueError, OverflowError, struct.error):
            return
        kind.encode(value)

    check()


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (schema.Bytes(), "text"),
        (schema.String(), b"bytes"),
        (schema.Bool(), 1),
        (schema.Int8(), 128),
        (schema.Int32(), -(2**31) - 1),
        (schema.Int64(), True),
        (schema.Int64(), 1.0),
        (schema.Float(), 1e39),
        (schema.Double(), "1"),
        (schema.Instant(), datetime(2024, 1, 1)),
        (schema.Date(), date(2024, 1, 1)),
        (schema.LocalDate(), datetime(2024, 1, 1)),
        (schema.LocalTime(), time(tzinfo=UTC)),
        (schema.LocalDateTime(), datetime(2024, 1, 1, tzinfo=UTC)),
        (schema.Time(), datetime(2024, 1, 1)),
    ],
    ids=repr,
)
def test_what_does_not_fit_is_refused(kind: Schema[Any], value: Any) -> None:
    with pytest.raises(ValueError, match=r"expected | (is|outside|neither) "):
        kind.encode(value)


def test_moments_of_other_zones_are_the_same_moments() -> None:
    moment = datetime(2024, 1, 1, 12, tzinfo=timezone(timedelta(hours=5)))
    assert schema.Instant().decode(schema.Instant().encode(moment)) == moment


def test_the_broker_is_told_the_type() -> None:
    assert schema.Int64.info.to_pb().type == pb.Schema.Int64
    assert schema.Int64.info.type_name == "INT64"
    assert not schema.Bytes().info.is_registered
    info = schema.SchemaInfo(pb.Schema.Avro, b"{}", "n", {"a": "b"})
    assert schema.SchemaInfo.from_pb(info.to_pb()) == info
    assert schema.version_number(bytes(7) + b"\x05") == 5
    assert schema.version_number(b"") is None
