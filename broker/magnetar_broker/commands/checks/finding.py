"""The result of a check."""

from dataclasses import dataclass
from typing import Literal

Level = Literal["ok", "note", "warning", "error"]


@dataclass(frozen=True)
class Finding:
    """One result of a check; except for `ok` it has a remedy, unless nothing can be done."""

    level: Level
    subject: str
    text: str
    remedy: str = ""
