"""What a part of a data directory says of the whole (docs/formats.md, "Identity")."""

from typing import NamedTuple

ID_BYTES = 16


class Identity(NamedTuple):
    """Which data directory a part is of, and what the metadata must know at least."""

    directory: bytes = bytes(ID_BYTES)
    """Random; zeros where an earlier release wrote the part."""
    starts: int = 0
    """How often a broker was started on the directory; counted in the metadata."""
    revision: int = 0
    """The number of a write of the metadata that took place before the part was written."""

    def and_later(self, other: "Identity") -> "Identity":
        """The same data directory, of which another part knows as much or more."""
        if UNKNOWN.directory != self.directory != other.directory:
            return self
        starts, revision = max(self.starts, other.starts), max(self.revision, other.revision)
        return Identity(other.directory, starts, revision)


UNKNOWN = Identity()
