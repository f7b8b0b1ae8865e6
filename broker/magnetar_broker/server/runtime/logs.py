"""The log: one line a record, on standard error."""

import logging
from typing import Any, Final

_CONTROLS: Final = {
    code: repr(chr(code))[1:-1] for code in (*range(32), *range(127, 160), 0x2028, 0x2029)
}
"""The characters that end a line or control a terminal, and the texts that replace them."""


class OneLine(logging.Formatter):
    """Writes a message on one line, because clients choose names that appear in messages.

    The lines of a traceback follow the line of their record, and are indented.
    """

    def formatMessage(self, record: logging.LogRecord) -> str:
        # promise[without .translate(_CONTROLS)]: names of clients cannot begin lines of the log
        return super().formatMessage(record).translate(_CONTROLS)

    def formatException(self, ei: Any) -> str:
        text = super().formatException(ei)
        return "\n".join(f"  {line.translate(_CONTROLS)}" for line in text.split("\n"))


def log_to_stderr(process: str | None = None) -> None:
    """Log from level INFO on, with the name of the process if the broker has several."""
    name = f"{process} " if process else ""
    handler = logging.StreamHandler()
    handler.setFormatter(OneLine(f"%(asctime)s %(levelname)s {name}%(name)s: %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
