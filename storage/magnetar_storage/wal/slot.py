"""One object of a write-ahead log: a slot or a fence (docs/formats.md, "Slot").  Pure.

A slot has a head, a directory of its records, and the records.  They are those of the journal and
of segment files, so that they can be copied to a segment as they are.  Head and directory suffice
to learn which entries of which segments a slot has.
"""

from array import array
from collections.abc import Mapping, Sequence
from struct import Struct
from typing import Final, NamedTuple

from crc32c import crc32c

from magnetar_storage.errors import Corrupt
from magnetar_storage.interfaces import Run, SegmentId
from magnetar_storage.local.record import (
    CRC_BYTES,
    ENTRIES,
    HEADER,
    ORIGIN,
    TABLE_BYTES_PER_ENTRY,
    Buffers,
    Record,
    encode_entries,
    flat,
    from_bytes,
    record_at,
    take_entries,
    to_bytes,
)
from magnetar_storage.objects.creation import NONCE_BYTES
from magnetar_storage.wal.session import WalSession

MAGIC: Final = b"MAGNSLOT"
VERSION: Final = 1
SLOT, FENCE = 1, 2

HEAD: Final = Struct("<16s8sIIQQIIQ")
"""nonce, magic, version, kind, session, slot, records, crc32c of the directory, bytes of all
records."""
CRC: Final = Struct("<I")
HEAD_BYTES: Final = HEAD.size + CRC.size
LINE_BYTES: Final = 36
"""The bytes of the directory for each record."""

MOST_RECORDS: Final = 1 << 18
"""The most records of a slot: two for each run, if all have an origin."""
MOST_BYTES: Final = 1 << 30
"""The most bytes of all records of a slot; more is damage, and is not read."""


class QueuedRun(NamedTuple):
    """Entries of one segment that are to be stored: entry `first + i` is `payloads[i]`."""

    segment: SegmentId
    first: int
    payloads: Sequence[bytes]
    counts: Sequence[int]
    """The number of messages in each entry."""
    origin: bytes | None
    """The ORIGIN record of the segment (`local/segment_origin.py`), with its first run; or None."""


class RecordPlace(NamedTuple):
    """One line of a slot's directory: the place of a record, and the entries that it has."""

    segment: SegmentId
    first: int
    n: int
    """The number of entries; 0 for the ORIGIN record, which precedes the first run."""
    messages: int
    """The number of messages in these entries."""
    at: int
    """The offset of the record in the object."""
    size: int
    """The bytes of the record."""
    crc: int
    """The checksum at the beginning of the record."""

    @property
    def is_origin(self) -> bool:
        return not self.n

    @property
    def payload_bytes(self) -> int:
        """The bytes of the payloads of all entries."""
        return self.size - HEADER.size - TABLE_BYTES_PER_ENTRY * self.n if self.n else 0

    @property
    def end(self) -> int:
        """The offset behind the record."""
        return self.at + self.size

    def damaged(self, name: str) -> Corrupt:
        """Return the error for this record of the object `name`."""
        first, last = (self.first, self.first + self.n - 1) if self.n else (None, None)
        return Corrupt(name, self.at, "the record is damaged", self.segment, first, last)


class Head(NamedTuple):
    """The head of an object of the log; that of a fence has no records."""

    nonce: bytes
    is_fence: bool
    session: int
    slot: int
    records: int
    directory_crc: int
    record_bytes: int

    @property
    def records_at(self) -> int:
        """The offset of the first record, which is the end of the directory."""
        return HEAD_BYTES + LINE_BYTES * self.records

    @property
    def size(self) -> int:
        """The bytes of the object."""
        return self.records_at + self.record_bytes


class EncodedSlot(NamedTuple):
    """A slot as it is stored."""

    places: list[RecordPlace]
    records: list[Buffers]
    """The records, one for each place."""
    front: bytes
    """The head without its nonce, and the directory."""

    def body(self) -> list[bytes]:
        """Return the object without its nonce, in parts to be stored one after the other."""
        return [self.front, *flat(self.records)]


class Slot(NamedTuple):
    """A slot that was read as a whole; its head and its directory are intact."""

    name: str
    """The name of the object."""
    number: int
    places: list[RecordPlace]
    data: bytes
    damage: Mapping[int, Corrupt]
    """The records that are damaged, by their offsets; usually empty."""

    def run(self, place: RecordPlace) -> Run:
        """Return the entries of a record of entries; `Corrupt` if it is damaged."""
        record = self._intact(place)
        payloads, counts, _ = take_entries(self.data, record, 0, record.n, place.size)
        return Run(place.first, payloads, counts)

    def record(self, place: RecordPlace) -> bytes:
        """Return a record as it was stored; `Corrupt` if it is damaged.

        An ORIGIN is decoded by `local/segment_origin.py`.
        """
        self._intact(place)
        return self.data[place.at : place.end]

    def _intact(self, place: RecordPlace) -> Record:
        damage = self.damage.get(place.at)
        if damage is not None:
            raise damage.again()
        kind = ORIGIN if place.is_origin else ENTRIES
        return Record(kind, place.segment, place.first, place.n, place.at, place.size)


def encode_fence(nonce: bytes, session: WalSession, slot: int) -> list[bytes]:
    """Encode the object that ends a session, in two parts: the nonce and the rest."""
    return [nonce, _encode_head(nonce, FENCE, session, slot, b"", 0)]


def encode_slot(
    nonce: bytes, session: WalSession, slot: int, runs: Sequence[QueuedRun]
) -> EncodedSlot:
    """Encode runs as a slot; takes time that grows with their bytes, as each is summed once."""
    lines: list[tuple[SegmentId, int, int, int]] = []
    records: list[Buffers] = []
    sizes: list[int] = []
    for segment, first, payloads, counts, origin in runs:
        if origin is not None:
            lines.append((segment, 0, 0, 0))
            records.append(origin)
            sizes.append(len(origin))
        record, size = encode_entries(segment, first, payloads, counts)
        lines.append((segment, first, len(payloads), sum(counts)))
        records.append(record)
        sizes.append(size)
    # A record begins with its checksum: in the directory it tells the record from any other one.
    crcs = [(each if isinstance(each, bytes) else each[0])[:CRC_BYTES] for each in records]
    directory = _encode_directory(lines, sizes, crcs)
    at = HEAD_BYTES + len(directory)
    places = []
    for (segment, first, n, messages), size, crc in zip(lines, sizes, crcs, strict=True):
        places.append(
            RecordPlace(segment, first, n, messages, at, size, int.from_bytes(crc, "little"))
        )
        at += size
    front = _encode_head(nonce, SLOT, session, slot, directory, sum(sizes)) + directory
    return EncodedSlot(places, records, front)


def decode_head(data: bytes, session: WalSession, slot: int) -> Head:
    """Decode the head at the beginning of an object; `Corrupt` unless it is that of this slot.

    Its figures are then within the limits of this module.
    """
    name = session.name(slot)
    if len(data) < HEAD_BYTES:
        raise Corrupt(name, len(data), f"the object has {len(data)} bytes, a head {HEAD_BYTES}")
    nonce, magic, version, kind, *numbers = HEAD.unpack_from(data)
    if magic != MAGIC:
        raise Corrupt(name, NONCE_BYTES, "the object is not part of a write-ahead log")
    if crc32c(data[: HEAD.size]) != CRC.unpack_from(data, HEAD.size)[0]:
        raise Corrupt(name, 0, "the checksum of the head differs")
    if version != VERSION or kind not in (SLOT, FENCE):
        raise Corrupt(
            name, 0, f"a later release wrote it: version {version}, kind {kind}; this one"
            f" reads version {VERSION}, kinds {SLOT} and {FENCE}",
        )  # fmt: skip
    head = Head(nonce, kind == FENCE, *numbers)
    if (head.session, head.slot) != (session.number, slot):
        raise Corrupt(name, 0, f"it is slot {head.slot} of session {head.session}")
    # promise: a wrong figure does not make a reader take gigabytes of memory
    if head.records > MOST_RECORDS or head.record_bytes > MOST_BYTES:
        raise Corrupt(
            name, 0, f"it claims {head.records} records of {head.record_bytes} bytes;"
            f" the limits are {MOST_RECORDS} and {MOST_BYTES}",
        )  # fmt: skip
    return head


def decode_directory(data: bytes, head: Head, session: WalSession) -> list[RecordPlace]:
    """Decode the directory behind the head; `data` has the object up to `head.records_at`."""
    name = session.name(head.slot)
    directory = data[HEAD_BYTES : head.records_at]
    if len(directory) != head.records_at - HEAD_BYTES:
        raise Corrupt(name, len(data), "the object ends within its directory")
    if crc32c(directory) != head.directory_crc:
        raise Corrupt(name, HEAD_BYTES, "the checksum of the directory differs")
    n = head.records
    words = from_bytes(directory[12 * n :], "Q")
    small = from_bytes(directory[: 12 * n])
    places, at = [], head.records_at
    for i in range(n):
        places.append(
            RecordPlace(
                words[i], words[n + i], small[n + i], words[2 * n + i], at, small[2 * n + i],
                small[i],
            )
        )  # fmt: skip
        at += small[2 * n + i]
    if at != head.size:
        raise Corrupt(name, HEAD_BYTES, "the records of the directory do not fill the object")
    return places


def decode_slot(data: bytes, session: WalSession, slot: int) -> Slot:
    """Decode a whole object; `Corrupt` if its head or directory is damaged, or if it is a fence.

    Damaged records are in `Slot.damage`: the other ones can be used.
    """
    name = session.name(slot)
    head = decode_head(data, session, slot)
    if head.is_fence:
        raise Corrupt(name, 0, "expected a slot, found a fence")
    places = decode_directory(data, head, session)
    if len(data) != head.size:
        raise Corrupt(name, len(data), f"the object has {len(data)} bytes, expected {head.size}")
    damage = {
        place.at: place.damaged(name) for place in places if not is_intact(data, place.at, place)
    }
    return Slot(name, slot, places, data, damage)


def is_intact(data: bytes, at: int, place: RecordPlace) -> bool:
    """Return whether the bytes at an offset are the record of a place of an intact directory."""
    record = record_at(data, at)
    if record is None:
        return False
    found = record.kind, record.segment, record.first, record.n, record.size
    expected = (ORIGIN, place.segment, 0, 0, place.size) if place.is_origin else (
        ENTRIES, place.segment, place.first, place.n, place.size
    )  # fmt: skip
    crc = int.from_bytes(data[at : at + CRC_BYTES], "little")
    # promise[without and crc == place.crc]: an intact record of another slot is not taken for this
    return found == expected and crc == place.crc


def _encode_head(
    nonce: bytes, kind: int, session: WalSession, slot: int, directory: bytes, record_bytes: int
) -> bytes:
    """Encode a head, without the nonce at its beginning."""
    assert len(nonce) == NONCE_BYTES
    packed = HEAD.pack(
        nonce, MAGIC, VERSION, kind, session.number, slot, len(directory) // LINE_BYTES,
        crc32c(directory), record_bytes,
    )  # fmt: skip
    # The nonce is summed, too: a head is intact as a whole or not at all.
    return packed[NONCE_BYTES:] + CRC.pack(crc32c(packed))


def _encode_directory(
    lines: Sequence[tuple[SegmentId, int, int, int]], sizes: Sequence[int], crcs: Sequence[bytes]
) -> bytes:
    # As columns, the checksums of records first: behind what they sum they would cancel out.
    columns = (
        array("I", [line[2] for line in lines]),
        array("I", sizes),
        array("Q", [line[0] for line in lines]),
        array("Q", [line[1] for line in lines]),
        array("Q", [line[3] for line in lines]),
    )
    return b"".join((*crcs, *map(to_bytes, columns)))
