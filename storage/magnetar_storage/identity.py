"""The identity of a data directory, as noted in its parts (docs/formats.md, "Identity")."""

from typing import NamedTuple

ID_BYTES = 16


class Identity(NamedTuple):
    """The data directory that a file belongs to, and the oldest state its metadata may have."""

    directory: bytes = bytes(ID_BYTES)
    """A random id; zeros if an earlier release wrote the part."""
    starts: int = 0
    """The number of broker starts on the directory; counted in the metadata."""
    revision: int = 0
    """The number of the last metadata write before this part was written."""

    def and_later(self, other: "Identity") -> "Identity":
        """Merge with the identity in another part, unless that has another data directory."""
        if UNKNOWN.directory != self.directory != other.directory:
            return self
        starts, revision = max(self.starts, other.starts), max(self.revision, other.revision)
        return Identity(other.directory, starts, revision)


UNKNOWN = Identity()
