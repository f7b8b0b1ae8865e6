"""Values of settings that are the content of a file, or its path."""

import base64
import binascii
import re
from collections.abc import Hashable
from typing import Protocol
from urllib.parse import unquote, unquote_to_bytes, urlsplit

_DATA = re.compile(r"data:[^;,]*(;charset=[^;,]+)?(?P<base64>;base64)?,(?P<data>.*)", re.DOTALL)


class Files(Protocol):
    """Reads files; both methods raise `OSError`."""

    def read(self, path: str) -> bytes:
        """Return the content of the file."""

    def stamp(self, path: str) -> Hashable:
        """Return a value that changes whenever the file changes."""


def path_of(text: str) -> str | None:
    """Return the path in a `file:` URL; None if the text is not such a URL."""
    return unquote(urlsplit(text).path) if text.startswith("file:") else None


def file_of(text: str, files: Files) -> str | None:
    """Return the path of the file that the text names, as a URL or a path; None without one."""
    path = path_of(text)
    if path is not None or text.startswith("data:"):
        return path
    try:
        files.stamp(text)
    except OSError:
        return None
    return text


def content_of(text: str, files: Files) -> bytes:
    """Return the content that a `data:` or `file:` URL, a path of a file, or base64 stands for.

    Raises `OSError` or `ValueError`, neither with anything of a content.
    """
    if text.startswith("data:"):
        return _inline(text)
    path = file_of(text, files)
    if path is not None:
        return files.read(path)
    found = _decoded(text)
    if found is None:
        raise ValueError("expected a data: or file: URL, the path of an existing file, or base64")
    return found


def _inline(text: str) -> bytes:
    match = _DATA.fullmatch(text)
    if match is None:
        raise ValueError("expected data:;base64,... for content that stands in the setting")
    if match["base64"] is None:
        return unquote_to_bytes(match["data"])
    found = _decoded(match["data"])
    if found is None:
        raise ValueError("expected base64 after data:;base64,")
    return found


def _decoded(text: str) -> bytes | None:
    """Decode base64 of either alphabet, with or without padding; None if it is malformed."""
    plain = "".join(text.split()).rstrip("=").replace("-", "+").replace("_", "/")
    try:
        return base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    except (binascii.Error, ValueError):
        return None
