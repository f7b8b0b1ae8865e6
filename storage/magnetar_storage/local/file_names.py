"""Numbers in the names of files: 16 hexadecimal digits."""

import re

_NUMBER = re.compile(r"[0-9a-f]{16}", re.ASCII)


def number_in(name: str, prefix: str = "", suffix: str = "") -> int | None:
    """Return the number between prefix and suffix; None for the names of other files."""
    if not name.startswith(prefix) or not name.endswith(suffix):
        return None
    digits = name[len(prefix) : len(name) - len(suffix)]
    return int(digits, 16) if _NUMBER.fullmatch(digits) else None
