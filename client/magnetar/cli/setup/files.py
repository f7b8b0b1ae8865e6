"""Creation of files: secrets are readable by their owner only, and nothing is overwritten."""

import os
from pathlib import Path
from typing import Final

PRIVATE: Final = 0o600
PUBLIC: Final = 0o644


class FileProblem(Exception):
    """A file cannot be read or written; the text has the reason and the remedy."""


def write_new(path: Path, content: bytes, mode: int = PRIVATE) -> None:
    """Create the file, with this mode from the start; FileProblem if it exists."""
    try:
        # promise[without | os.O_EXCL]: a key file that exists is never overwritten
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    except FileExistsError:
        raise FileProblem(
            f"{path} exists, and is not overwritten: move it away, or name another file"
        ) from None
    except OSError as error:
        raise FileProblem(f"{path}: {error.strerror}") from None
    with open(descriptor, "wb") as file:
        file.write(content)


def replace_file(path: Path, content: bytes, mode: int = PRIVATE) -> None:
    """Replace the content of a file atomically: readers see the old or the new one."""
    fresh = path.with_name(f".{path.name}.new")
    fresh.unlink(missing_ok=True)
    write_new(fresh, content, mode)
    fresh.replace(path)


def make_directory(path: Path) -> None:
    """Create the directory with its parents; a new one is accessible by its owner only."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise FileProblem(f"{path}: {error.strerror}") from None
