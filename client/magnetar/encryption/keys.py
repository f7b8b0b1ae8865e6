"""Where the key pairs of producers and consumers come from."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

PEM_MARK = "-----BEGIN"


@dataclass(frozen=True, slots=True)
class Key:
    """A key as PEM, and what is stored with it in each message that it protects."""

    pem: str | bytes
    metadata: Mapping[str, str] = field(default_factory=dict)
    """Such as a version; consumers hand it to their key reader. Everyone can read it."""


KeySource = str | bytes | Path | Key
"""PEM, or the path of a file with it: a text is PEM if it has the line that PEM begins with."""
FindKey = Callable[[str, Mapping[str, str]], KeySource]
"""Called with the name of a key and what is stored with it; LookupError if there is none."""
Keys = KeySource | Mapping[str, KeySource] | FindKey


class KeyReader:
    """Finds keys by name: producers need the public ones, consumers the private ones.

    Each of the two is one key for every name, keys by their names, or a function.  Files are read
    when a key is needed: of a producer when it is opened and every four hours, of a consumer for
    each data key that it has not seen.  A function is called as often: it must not wait for long,
    because nothing else is received meanwhile.
    """

    def __init__(self, public: Keys | None = None, private: Keys | None = None) -> None:
        self._public = public
        self._private = private

    def public_key(self, name: str) -> Key:
        """The public key of this name; LookupError or OSError if it cannot be had."""
        return _find(self._public, "public", name, {})

    def private_key(self, name: str, metadata: Mapping[str, str]) -> Key:
        """The private key of this name; LookupError or OSError if it cannot be had."""
        return _find(self._private, "private", name, metadata)


def _find(keys: Keys | None, kind: str, name: str, metadata: Mapping[str, str]) -> Key:
    if isinstance(keys, Mapping):
        source = keys.get(name)
    elif keys is None or isinstance(keys, str | bytes | Path | Key):
        source = keys
    else:
        source = keys(name, metadata)
    if source is None:
        raise LookupError(f"there is no {kind} key {name!r}")
    if isinstance(source, Key):
        return source
    if isinstance(source, bytes) or (isinstance(source, str) and PEM_MARK in source):
        return Key(source)
    path = Path(source.removeprefix("file://")) if isinstance(source, str) else source
    return Key(path.read_bytes())
