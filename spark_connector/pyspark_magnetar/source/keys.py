"""Private keys for encrypted messages, from files of the executor."""

from collections.abc import Mapping
from pathlib import Path

from magnetar.encryption.keys import KeyReader


def key_reader(place: str | None) -> KeyReader | None:
    """Create a key reader of a directory with NAME.pem files, or of one file for all names."""
    if place is None:
        return None
    path = Path(place.removeprefix("file://"))

    def find(name: str, _metadata: Mapping[str, str]) -> Path:
        if path.is_file():
            return path
        found = path / f"{name}.pem"
        # The sender chose the name: it must not lead outside the directory.
        if found.parent != path or not found.is_file():
            raise LookupError(f"there is no key {name!r} in {path}")
        return found

    return KeyReader(private=find)
