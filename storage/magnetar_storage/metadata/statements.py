"""The schema of `metadata.db`, and the SQL statements that change it."""

from crc32c import crc32c

SCHEMA_VERSION = 3
KNOWN_SCHEMAS = (0, 2, SCHEMA_VERSION)
"""The schemas that are converted to the present one on opening; 0 is a new database."""
SCHEMA = (
    """CREATE TABLE IF NOT EXISTS entries (
        key TEXT PRIMARY KEY, value BLOB NOT NULL, version INTEGER NOT NULL, lease TEXT,
        crc INTEGER NOT NULL
    ) WITHOUT ROWID""",
    "CREATE INDEX IF NOT EXISTS entries_lease ON entries (lease) WHERE lease IS NOT NULL",
    "CREATE TABLE IF NOT EXISTS writes (last INTEGER NOT NULL)",
    "INSERT INTO writes SELECT 0 WHERE NOT EXISTS (SELECT 1 FROM writes)",
    "CREATE TABLE IF NOT EXISTS directory (id BLOB NOT NULL, starts INTEGER NOT NULL)",
    """INSERT INTO directory SELECT zeroblob(16), 0
        WHERE NOT EXISTS (SELECT 1 FROM directory)""",
)
DAMAGED_ROWS = """SELECT CAST(key AS BLOB) FROM entries
    WHERE typeof(key) != 'text' OR crc IS NOT checksum(CAST(key AS BLOB), value, version, lease)
    LIMIT 1"""
READ_UNDER = """SELECT CAST(key AS BLOB), value, version, lease, crc FROM entries
    WHERE key >= ? AND key < ? AND key > ? ORDER BY key LIMIT ?"""
INSERT = "INSERT INTO entries (value, version, lease, crc, key) VALUES (?, ?, ?, ?, ?)"
# Built from constants only: every value is a parameter.
REPLACE = f"""{INSERT} ON CONFLICT (key) DO UPDATE SET value = excluded.value,
    version = excluded.version, lease = excluded.lease, crc = excluded.crc"""  # nosec B608
ADD = f"{INSERT} ON CONFLICT (key) DO NOTHING"
UPDATE = """UPDATE entries SET value = ?, version = ?, lease = ?, crc = ?
    WHERE key = ? AND version = ?"""


def checksum(key: bytes, value: object, version: object, lease: object) -> int:
    """Return the checksum of a row; -1 if the value is not a blob, as may be in a damaged row."""
    if not isinstance(value, bytes):
        return -1
    if lease is None and isinstance(version, int):
        # The same text, made faster: a start checks every row, and hardly any has a lease.
        return crc32c(value, crc32c(b"%d (%d, None) %b" % (len(key), version, key)))
    return crc32c(value, crc32c(b"%d %a " % (len(key), (version, lease)) + key))
