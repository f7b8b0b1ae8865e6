"""Entries: checksums, metadata and the checks of a SEND against a plain reading of the format.

Input: flags (1: set the checksum right), then the entry.
"""

from collections.abc import Iterator
from typing import Final

from crc32c import crc32c
from google.protobuf.message import DecodeError

from fuzz import traffic
from magnetar_broker.session.entry_checks import refusal_of_entry
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.broker_metadata import (
    broker_metadata_of,
    stored_time,
    without_broker_metadata,
)
from magnetar_proto.entries import encode_entry, parse_metadata, publish_time, verify_checksum
from magnetar_proto.errors import BadMetadata

LONGEST: Final = 4096


def run(data: bytes) -> None:
    entry = data[1:]
    if data and data[0] & 1:
        entry = summed(entry)
    good = intact(entry)
    for before, behind in ((b"", b""), (b"\x0e", b"\x0e\x01")):
        buf = before + entry + behind
        assert verify_checksum(buf, len(before), len(before) + len(entry)) == good
    at = behind_broker_metadata(entry)
    assert without_broker_metadata(entry) == entry[at:]
    expected, added = plain(entry), broker_metadata_of(entry)
    try:
        metadata, at = parse_metadata(entry)
    except BadMetadata:
        assert expected is None, "good metadata is refused"
    else:
        assert expected == (metadata, at), "not the metadata of the entry"
        assert publish_time(entry) == metadata.publish_time
        has_time = added is not None and added.HasField("broker_timestamp")
        assert has_time or stored_time(entry) == metadata.publish_time
        again = encode_entry(metadata, entry[at:])
        assert parse_metadata(again)[0] == metadata and verify_checksum(again, 0, len(again))
        assert again[parse_metadata(again)[1] :] == entry[at:]
    check_refusal(entry, good, expected)


def check_refusal(
    entry: bytes, good: bool, expected: tuple[pb.MessageMetadata, int] | None
) -> None:
    """What the broker checks of a SEND agrees with that."""
    for must_encrypt in (False, True):
        try:
            refused = refusal_of_entry(entry, must_encrypt)
        except BadMetadata:
            known = expected is None or expected[1] == 4 or entry[:2] == b"\x0e\x01"
            assert known, "refused as none"
            continue
        if refused is None:
            assert good, "a damaged entry is taken"
            assert not behind_broker_metadata(entry), "what only brokers add is taken"
            if must_encrypt:
                assert expected is not None and expected[0].encryption_keys, "plaintext is taken"
        elif refused.code == pb.ChecksumError:
            assert not good
        elif refused.code == pb.NotAllowedError:
            assert behind_broker_metadata(entry), "what the producer has not added is refused"
        else:
            assert must_encrypt and expected is not None and not expected[0].encryption_keys


def summed(entry: bytes) -> bytes:
    """The entry with a right checksum, if it has one."""
    at = behind_broker_metadata(entry)
    if entry[at : at + 2] != b"\x0e\x01" or len(entry) < at + 6:
        return entry
    return entry[: at + 2] + crc32c(entry[at + 6 :]).to_bytes(4, "big") + entry[at + 6 :]


def behind_broker_metadata(entry: bytes) -> int:
    if entry[:2] != b"\x0e\x02":
        return 0
    if len(entry) < 6:
        return len(entry)
    return min(len(entry), 6 + int.from_bytes(entry[2:6], "big"))


def intact(entry: bytes) -> bool:
    at = behind_broker_metadata(entry)
    if entry[at : at + 2] != b"\x0e\x01":
        return True
    stored, covered = entry[at + 2 : at + 6], entry[at + 6 :]
    return len(stored) == 4 and int.from_bytes(stored, "big") == crc32c(covered)


def plain(entry: bytes) -> tuple[pb.MessageMetadata, int] | None:
    """Metadata and where the payload begins, if there is such."""
    at = behind_broker_metadata(entry)
    if entry[at : at + 2] == b"\x0e\x01":
        at += 6
    size, at = entry[at : at + 4], at + 4
    end = at + int.from_bytes(size, "big")
    if len(size) < 4 or end > len(entry):
        return None
    try:
        metadata = pb.MessageMetadata.FromString(entry[at:end])
    except DecodeError:
        return None
    return (metadata, end) if metadata.IsInitialized() else None


def seeds() -> Iterator[bytes]:
    for entry in traffic.entries():
        yield b"\x01" + entry
    metadata = pb.MessageMetadata(
        producer_name="p", sequence_id=1, publish_time=2, deliver_at_time=3,
        properties=[pb.KeyValue(key="k", value="v")],
    )  # fmt: skip
    whole = encode_entry(metadata, b"payload")
    yield b"\x01" + whole
    yield b"\x00" + encode_entry(metadata, b"payload", checksum=False)
    brokers = pb.BrokerEntryMetadata(index=7, broker_timestamp=8).SerializeToString()
    yield b"\x01\x0e\x02" + len(brokers).to_bytes(4, "big") + brokers + whole
