"""Columns become values that other clients decode."""

import json
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from io import BytesIO
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from effort import examples
from magnetar.schema import primitives
from pyspark_magnetar.sink.values import form_of

longs = st.integers(-(2**63), 2**63 - 1)
moments = st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1)).map(
    lambda moment: moment.replace(tzinfo=UTC)
)
texts = st.text(st.characters(codec="utf-8"), max_size=8)

POINT = StructType([StructField("x", LongType(), False), StructField("name", StringType())])
EVERYTHING = StructType(
    [
        StructField("flag", BooleanType()),
        StructField("tiny", ByteType()),
        StructField("number", LongType()),
        StructField("sure", IntegerType(), False),
        StructField("ratio", DoubleType()),
        StructField("text", StringType()),
        StructField("data", BinaryType()),
        StructField("day", DateType()),
        StructField("moment", TimestampType()),
        StructField("tags", ArrayType(StringType())),
        StructField("counts", MapType(StringType(), LongType())),
        StructField("points", ArrayType(POINT)),
        StructField("point", POINT),
    ]
)


def maybe(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | values


points = st.fixed_dictionaries({"x": longs, "name": maybe(texts)})
rows = st.fixed_dictionaries(
    {
        "flag": maybe(st.booleans()),
        "tiny": maybe(st.integers(-128, 127)),
        "number": maybe(longs),
        "sure": st.integers(-(2**31), 2**31 - 1),
        "ratio": maybe(st.floats(allow_nan=False, allow_infinity=False)),
        "text": maybe(texts),
        "data": maybe(st.binary(max_size=8)),
        "day": maybe(st.dates(date(1900, 1, 1), date(2200, 1, 1))),
        "moment": maybe(moments),
        "tags": maybe(st.lists(maybe(texts), max_size=3)),
        "counts": maybe(st.dictionaries(texts, maybe(longs), max_size=3)),
        "points": maybe(st.lists(maybe(points), max_size=3)),
        "point": maybe(points),
    }
)


def batch_of(schema: StructType, given_rows: list[dict[str, Any]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(given_rows, to_arrow_schema(schema, timezone="UTC"))


def encoded(schema: StructType, given_rows: list[dict[str, Any]], form: str) -> tuple[Any, Any]:
    """The values, and the schema that they are sent with.

    They are a part of a larger record batch, as they are behind others that were skipped.
    """
    found = form_of(schema.fields, form)
    batch = batch_of(schema, [*given_rows, *given_rows]).slice(len(given_rows))
    return found.encode(batch.columns).to_pylist(), found.schema


@settings(max_examples=examples(150), deadline=None)
@given(st.lists(rows, min_size=1, max_size=5))
def test_avro_is_what_another_library_decodes(given_rows: list[dict[str, Any]]) -> None:
    values, info = encoded(EVERYTHING, given_rows, "avro")
    definition = fastavro.parse_schema(json.loads(info.definition))
    assert info.type_name == "AVRO"
    decoded = [fastavro.schemaless_reader(BytesIO(value), definition) for value in values]
    assert decoded == given_rows


@settings(max_examples=examples(150), deadline=None)
@given(st.lists(rows, min_size=1, max_size=5))
def test_json_is_json(given_rows: list[dict[str, Any]]) -> None:
    values, info = encoded(EVERYTHING, given_rows, "json")
    assert info.type_name == "JSON"
    fastavro.parse_schema(json.loads(info.definition))
    assert [json.loads(value) for value in values] == [as_json(row) for row in given_rows]


@pytest.mark.parametrize("text", ["plain ä", 'a"b', "a\\b", "a\nb", "\x1f", "\x00", "\x7f"])
def test_json_escapes_what_cannot_stand_in_a_string(text: str) -> None:
    schema = StructType([StructField("text", StringType())])
    values, _ = encoded(schema, [{"text": text}, {"text": None}], "json")
    assert [json.loads(value) for value in values] == [{"text": text}, {"text": None}]


def as_json(row: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = dict(row)
    if row["data"] is not None:
        import base64

        found["data"] = base64.b64encode(row["data"]).decode()
    if row["day"] is not None:
        found["day"] = (row["day"] - date(1970, 1, 1)).days
    if row["moment"] is not None:
        found["moment"] = (row["moment"] - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(
            microseconds=1
        )
    return found


def test_json_refuses_what_it_cannot_hold() -> None:
    schema = StructType([StructField("a", DoubleType()), StructField("b", LongType())])
    with pytest.raises(ValueError, match="JSON has no NaN"):
        encoded(schema, [{"a": float("nan"), "b": 1}], "json")
    price = StructType([StructField("price", DecimalType(10, 2))])
    with pytest.raises(ValueError, match=r"decimal\(10,2\) has no form in JSON"):
        form_of(price.fields, "json")


def test_decimals_are_avro_decimals() -> None:
    schema = StructType([StructField("price", DecimalType(10, 2)), StructField("n", LongType())])
    given_rows = [{"price": Decimal(price), "n": 1} for price in ("1.25", "-0.01", "99999999.99")]
    values, info = encoded(schema, given_rows, "auto")
    definition = fastavro.parse_schema(json.loads(info.definition))
    decoded = [fastavro.schemaless_reader(BytesIO(value), definition) for value in values]
    assert decoded == given_rows


@pytest.mark.parametrize(
    ("kind", "reader", "values"),
    [
        (StringType(), primitives.String(), ["ä", "", None]),
        (BooleanType(), primitives.Bool(), [True, False, None]),
        (ByteType(), primitives.Int8(), [-128, 127]),
        (ShortType(), primitives.Int16(), [-(2**15), 300]),
        (IntegerType(), primitives.Int32(), [-1, 2**31 - 1, None]),
        (LongType(), primitives.Int64(), [-1, 2**63 - 1]),
        (FloatType(), primitives.Float(), [1.5, -0.0]),
        (DoubleType(), primitives.Double(), [0.1, float("inf")]),
        (BinaryType(), None, [b"", b"raw", None]),
    ],
    ids=lambda value: getattr(value, "typeName", lambda: "")(),
)
def test_a_single_column_is_a_value_of_its_type(
    kind: DataType, reader: Any, values: list[Any]
) -> None:
    schema = StructType([StructField("anything", kind)])
    found, info = encoded(schema, [{"anything": value} for value in values], "auto")
    if reader is None:
        assert info is None
        assert found == values
        return
    assert info.type == reader.info.type
    assert [None if value is None else reader.decode(value) for value in found] == values


def test_a_single_time_is_in_milliseconds() -> None:
    moment = datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)
    schema = StructType([StructField("at", TimestampType())])
    found, info = encoded(schema, [{"at": moment}], "auto")
    assert info.type_name == "TIMESTAMP"
    assert int.from_bytes(found[0], "big", signed=True) == -1


def test_what_has_no_form_is_refused() -> None:
    with pytest.raises(ValueError, match="void has no form in Avro"):
        form_of([StructField("nothing", NullType())])
    with pytest.raises(ValueError, match="column 'a b' is not a valid name in Avro"):
        form_of([StructField("a b", LongType()), StructField("c", LongType())])
    with pytest.raises(ValueError, match="bytes needs one column of type binary or string"):
        form_of([StructField("a", LongType())], "bytes")
