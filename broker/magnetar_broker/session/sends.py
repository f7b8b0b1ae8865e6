"""What a SEND must not contain, because it would be accepted and then not be honoured."""

from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.entries import parse_metadata
from magnetar_proto.errors import BadMetadata

CHECKSUM_MAGIC = b"\x0e\x01"
DELIVER_AT_TAG = b"\x98\x01"
"""Field 19 of the metadata, deliver_at_time, as a varint field: rare, so looked for first."""
HEAD_BYTES = 512
"""Metadata that ends beyond this is parsed at once instead of being searched."""


class SendRefused(Exception):
    """One message is refused; the producer goes on."""

    def __init__(self, code: "pb.ServerError", text: str) -> None:
        super().__init__(text)
        self.code = code


def check_send(entry: bytes, sequence_id: int, highest_id: int) -> None:
    """`SendRefused` if the entry cannot be stored or delivered as its producer means it.

    `BadMetadata` if it is no entry at all: the connection is to be closed.
    """
    if highest_id and sequence_id > highest_id:
        raise SendRefused(
            pb.MetadataError, f"the lowest sequence id {sequence_id} is above {highest_id}"
        )
    at = 6 if entry.startswith(CHECKSUM_MAGIC) else 0
    end = at + 4 + int.from_bytes(entry[at : at + 4], "big")
    if not at + 4 < end <= len(entry):
        raise BadMetadata("a message without metadata")
    if end > HEAD_BYTES or entry.find(DELIVER_AT_TAG, at + 4, end) >= 0:
        _check_metadata(entry)


def _check_metadata(entry: bytes) -> None:
    try:
        metadata, _ = parse_metadata(entry)
    except BadMetadata as error:
        raise SendRefused(pb.MetadataError, str(error)) from error
    if metadata.deliver_at_time:
        raise SendRefused(
            pb.NotAllowedError,
            "delayed delivery is not supported yet; send without deliver_after and deliver_at",
        )
