"""The destinations of the client's log: a logger of the application, the terminal or a file."""

import logging
import sys
from typing import Final

from magnetar.compat.checks import check
from magnetar.compat.enums import LoggerLevel

LEVELS: Final = {
    LoggerLevel.Debug: logging.DEBUG,
    LoggerLevel.Info: logging.INFO,
    LoggerLevel.Warn: logging.WARNING,
    LoggerLevel.Error: logging.ERROR,
}
FORMAT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class ConsoleLogger:
    """A logger that writes to standard output."""

    def __init__(self, log_level: LoggerLevel = LoggerLevel.Info) -> None:
        check(LoggerLevel, log_level, "log_level")
        self.log_level = log_level


class FileLogger:
    """A logger that appends to a file."""

    def __init__(self, log_level: LoggerLevel, log_file: str) -> None:
        check(LoggerLevel, log_level, "log_level")
        check(str, log_file, "log_file")
        self.log_level = log_level
        self.log_file = log_file


class _Forwarding(logging.Handler):
    def __init__(self, target: logging.Logger) -> None:
        super().__init__()
        self._target = target

    def emit(self, record: logging.LogRecord) -> None:
        if self._target.isEnabledFor(record.levelno):
            self._target.handle(record)


Chosen = logging.Logger | ConsoleLogger | FileLogger


def handler_of(chosen: Chosen | None) -> logging.Handler | None:
    """Return the handler to add to the logger `magnetar`, which all clients of a process share."""
    if chosen is None:
        return None
    if isinstance(chosen, logging.Logger):
        if chosen.name == "magnetar" or chosen.name.startswith("magnetar."):
            return None  # the logger gets the records already
        return _Forwarding(chosen)
    if isinstance(chosen, ConsoleLogger):
        handler: logging.Handler = logging.StreamHandler(sys.stdout)
    else:
        handler = logging.FileHandler(chosen.log_file, delay=True)
    handler.setLevel(LEVELS[chosen.log_level])
    handler.setFormatter(logging.Formatter(FORMAT))
    return handler
