"""The sources of the key pairs of producers and consumers."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

PEM_MARK = "-----BEGIN"


@dataclass(frozen=True, slots=True)
class Key:
    """A key in PEM, and the metadata stored with it in each message that it protects."""

    pem: str | bytes
    metadata: Mapping[str, str] = field(default_factory=dict)
    """Metadata such as a version, which consumers pass to their key reader; it is not secret."""


KeySource = str | bytes | Path | Key
"""PEM, or the path of a PEM file; a str is PEM if it contains the line with which PEM begins."""
FindKey = Callable[[str, Mapping[str, str]], KeySource]
"""Returns the key of this name and metadata; raises LookupError if there is none."""
Keys = KeySource | Mapping[str, KeySource] | FindKey


class KeyReader:
    """Finds keys by name: producers need public keys, consumers private keys.

    `public` and `private` are one key for every name, a mapping of keys, or a function.  Files are
    read when a key is needed: a producer's when it is opened and every four hours, a consumer's for
    each data key that it has not seen.  A function is called as often, and must not block: nothing
    else is received meanwhile.
    """

    def __init__(self, public: Keys | None = None, private: Keys | None = None) -> None:
        self._public = public
        self._private = private

    def public_key(self, name: str) -> Key:
        """Return the public key of this name; LookupError or OSError if it is not available."""
        return _find(self._public, "public", name, {})

    def private_key(self, name: str, metadata: Mapping[str, str]) -> Key:
        """Return the private key of this name; LookupError or OSError if it is not available."""
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
