"""The names of the objects of one write-ahead log."""

from typing import NamedTuple


class WalSession(NamedTuple):
    """One write-ahead log: that of one life of a worker process.

    Its objects are *slots*, numbered from 0 on.  A number is used once and for ever: the object
    there is a slot that the writer stored, or a fence that a recovery stored.
    """

    prefix: str
    """The common beginning of all names of the cluster: empty, or with `/` at its end."""
    number: int
    """The number of the session; never that of another one."""

    @property
    def directory(self) -> str:
        """The beginning of the names of its objects."""
        return f"{self.prefix}wal/{self.number:08x}/"

    def name(self, slot: int) -> str:
        """Return the name of the object of a slot."""
        return f"{self.directory}{slot:012x}"


def session_in(prefix: str, name: str) -> int:
    """Return the number of the session in the name of an object of its log."""
    return int(name.removeprefix(f"{prefix}wal/").partition("/")[0], 16)
