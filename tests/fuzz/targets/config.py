"""Configuration files: settings, or a list of all problems; nothing else.

Input: the file's bytes.
"""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Final

from magnetar_broker.config import properties
from magnetar_broker.config.load import ConfigError, interpret
from magnetar_broker.config.settings import KEYS
from magnetar_broker.config.values import render

LONGEST: Final = 512
CONF: Final = Path(__file__).parents[3] / "conf"


def run(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    parsed = list(properties.parse(text))
    lines = len(text.splitlines())
    assert [p.line for p in parsed] == sorted({p.line for p in parsed})
    assert all(1 <= p.line <= lines for p in parsed)
    for _, key, value, _ in parsed:
        if key and value == value.strip():
            again = list(properties.parse(f"{escaped(key)} = {escaped(value)}"))
            assert again == [(1, key, value, True)]
    try:
        settings = interpret("file", text, {}, {}).settings
    except ConfigError as error:
        assert error.problems and all(error.problems)
        return
    # The printed settings must be read as the same settings.
    printed = "\n".join(
        f"{key.name}={escaped(render(getattr(settings, name)))}" for name, key in KEYS.items()
    )
    assert interpret("printed", printed, {}, {}).settings == settings


def escaped(text: str) -> str:
    """Return the text in Java's syntax."""
    return "".join(
        char if char.isalnum() and char.isascii() else f"\\u{ord(char):04x}" if ord(char) < 1 << 16
        else char for char in text
    )  # fmt: skip


def seeds() -> Iterator[bytes]:
    for path in sorted(CONF.glob("*.conf")):
        lines = iter(path.read_bytes().splitlines())
        while part := list(islice(lines, 8)):
            yield b"\n".join(part)[:LONGEST]
    yield b"a\\\n  b : c\\u0041\\t\n! comment\n# comment\nkey value\nblank=\n = x\n"
    yield b"brokerServicePort=0\nwebServicePort=\nbindAddress=::1\nallowAutoTopicCreation=TRUE"
