"""Schemas of dates and times, in the encodings of the Java client.

Python's times have microseconds: finer parts of a received time are cut off.
"""

import struct
from datetime import UTC, date, datetime, time, timedelta

from magnetar.base.schema_info import SchemaInfo
from magnetar.schema.base import Schema
from magnetar.schema.primitives import sized
from magnetar_proto import PulsarApi_pb2 as pb

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FIRST_DAY = EPOCH.date()
MICROSECOND, MILLISECOND, DAY = timedelta(microseconds=1), timedelta(milliseconds=1), timedelta(1)

_NUMBER = struct.Struct(">q")
_SECONDS = struct.Struct(">qi")
_TWO = struct.Struct(">qq")


def micros_of_day(value: time) -> int:
    """Return the microseconds since midnight."""
    passed = timedelta(
        hours=value.hour,
        minutes=value.minute,
        seconds=value.second,
        microseconds=value.microsecond,
    )
    return passed // MICROSECOND


def time_of_day(micros: int) -> time:
    """Return the time at `micros` microseconds after midnight; ValueError if it is out of range."""
    if not 0 <= micros < DAY // MICROSECOND:
        raise ValueError(f"expected a time of day, got {micros} microseconds after midnight")
    return (datetime.min + timedelta(microseconds=micros)).time()


def aware(value: datetime) -> datetime:
    """Return the datetime; ValueError if it has no time zone."""
    if not isinstance(value, datetime) or value.tzinfo is None:
        raise ValueError(
            f"expected a datetime with a time zone, as datetime.now(UTC), got {value!r}"
        )
    return value


def local_time(value: time) -> time:
    """Return the time of day; ValueError if it is not one, or has a time zone."""
    if not isinstance(value, time) or value.tzinfo is not None:
        raise ValueError(f"expected a datetime.time without a time zone, got {value!r}")
    return value


def day_of(value: date) -> int:
    """Return the days since 1970; ValueError if the value is not a plain date."""
    if not isinstance(value, date) or isinstance(value, datetime):
        raise ValueError(f"expected a datetime.date, got {value!r}")
    return (value - FIRST_DAY) // DAY


class Timestamp(Schema[datetime]):
    """A schema of points in time, in milliseconds since 1970."""

    info = SchemaInfo(pb.Schema.Timestamp, name="Timestamp")

    def encode(self, value: datetime) -> bytes:
        return _NUMBER.pack((aware(value) - EPOCH) // MILLISECOND)

    def decode(self, data: bytes) -> datetime:
        millis: int = _NUMBER.unpack(sized(data, 8))[0]
        return EPOCH + millis * MILLISECOND


class Date(Timestamp):
    """A schema of points in time, as Java's Date: milliseconds since 1970.  Dates: `LocalDate`."""

    info = SchemaInfo(pb.Schema.Date, name="Date")


class Time(Schema[time]):
    """A schema of times of day in UTC, in milliseconds."""

    info = SchemaInfo(pb.Schema.Time, name="Time")

    def encode(self, value: time) -> bytes:
        return _NUMBER.pack(micros_of_day(local_time(value)) // 1000)

    def decode(self, data: bytes) -> time:
        # Java's Time is a point in time, and its day has no meaning.
        millis: int = _NUMBER.unpack(sized(data, 8))[0] % (DAY // MILLISECOND)
        return time_of_day(millis * 1000)


class Instant(Schema[datetime]):
    """A schema of points in time, in seconds since 1970 and nanoseconds."""

    info = SchemaInfo(pb.Schema.Instant, name="Instant")

    def encode(self, value: datetime) -> bytes:
        seconds, micros = divmod((aware(value) - EPOCH) // MICROSECOND, 1_000_000)
        return _SECONDS.pack(seconds, micros * 1000)

    def decode(self, data: bytes) -> datetime:
        seconds, nanos = _SECONDS.unpack(sized(data, 12))
        return EPOCH + timedelta(seconds=seconds, microseconds=nanos // 1000)


class LocalDate(Schema[date]):
    """A schema of dates."""

    info = SchemaInfo(pb.Schema.LocalDate, name="LocalDate")

    def encode(self, value: date) -> bytes:
        return _NUMBER.pack(day_of(value))

    def decode(self, data: bytes) -> date:
        days: int = _NUMBER.unpack(sized(data, 8))[0]
        return FIRST_DAY + days * DAY


class LocalTime(Schema[time]):
    """A schema of times of day without time zone."""

    info = SchemaInfo(pb.Schema.LocalTime, name="LocalTime")

    def encode(self, value: time) -> bytes:
        return _NUMBER.pack(micros_of_day(local_time(value)) * 1000)

    def decode(self, data: bytes) -> time:
        return time_of_day(_NUMBER.unpack(sized(data, 8))[0] // 1000)


class LocalDateTime(Schema[datetime]):
    """A schema of dates with a time of day, without time zone."""

    info = SchemaInfo(pb.Schema.LocalDateTime, name="LocalDateTime")

    def encode(self, value: datetime) -> bytes:
        if not isinstance(value, datetime) or value.tzinfo is not None:
            raise ValueError(f"expected a datetime without a time zone, got {value!r}")
        return _TWO.pack(day_of(value.date()), micros_of_day(value.time()) * 1000)

    def decode(self, data: bytes) -> datetime:
        days, nanos = _TWO.unpack(sized(data, 16))
        return datetime.combine(FIRST_DAY + days * DAY, time_of_day(nanos // 1000))
