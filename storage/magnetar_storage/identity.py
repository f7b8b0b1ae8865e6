"""The identity of a data directory, as noted in its parts (docs/formats.md, "Identity")."""

from typing import NamedTuple

ID_BYTES = 16


class Identity(NamedTuple):
    """The data directory that a part belongs to, and the least that its metadata must know."""

    directory: bytes = bytes(ID_BYTES)
    """A random id; zeros if an earlier release wrote the part."""
    starts: int = 0
    """The number of broker starts on the directory; counted in the metadata."""
    revision: int = 0
    """The number of a write of the metadata that took place before the part was written."""

    def and_later(self, other: "Identity") -> "Identity":
        """Merge with the identity in another part; one of another data directory is ignored."""
        if UNKNOWN.directory != self.directory != other.directory:
            return self
        starts, revision = max(self.starts, other.starts), max(self.revision, other.revision)
        return Identity(other.directory, starts, revision)


UNKNOWN = Identity()
