"""The result of a check."""

from dataclasses import dataclass
from typing import Literal

Level = Literal["ok", "note", "warning", "error"]


@dataclass(frozen=True)
class Finding:
    """One result of a check; all but `ok` have a remedy, unless there is nothing to do."""

    level: Level
    subject: str
    text: str
    remedy: str = ""
