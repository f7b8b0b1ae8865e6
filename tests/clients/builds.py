"""Building the programs in other languages: once, until their sources change."""

import hashlib
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent
CACHE = HERE.parents[1] / ".cache" / "clients"


def missing(*programs: str) -> list[str]:
    """Those that are not installed."""
    return [program for program in programs if shutil.which(program) is None]


def sources(language: str, *patterns: str) -> list[Path]:
    """The files of one language, in order."""
    folder = HERE / language
    return sorted(path for pattern in patterns for path in folder.rglob(pattern))


def build(
    language: str,
    files: Sequence[Path],
    command: Sequence[str],
    environment: Mapping[str, str] | None = None,
) -> Path:
    """Run the command in the language's folder unless it was run on just these files.

    `{target}` in the command is the folder, outside the sources, for what it makes.  Returned.
    """
    target = CACHE / language
    stamp = target / "built-from"
    digest = hashlib.sha256("\0".join(command).encode())
    for path in files:
        digest.update(path.read_bytes())
    if not (stamp.exists() and stamp.read_text() == digest.hexdigest()):
        target.mkdir(parents=True, exist_ok=True)
        ready = [part.replace("{target}", str(target)) for part in command]
        done = subprocess.run(
            ready,
            check=False,
            cwd=HERE / language,
            env=os.environ | dict(environment or {}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        if done.returncode:
            raise RuntimeError(f"building the {language} client tests failed:\n{done.stdout}")
        stamp.write_text(digest.hexdigest())
    return target
