"""The audit log: who asked for which change over HTTP, and what came of it.

Every request that changes something is in it once, and every one that is refused for lack of a
permission.  A line is one JSON object, so that nothing in a request can forge another line.
"""

import json
import logging
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

from magnetar_broker.config import Settings
from magnetar_broker.server.http.messages import Request, Response
from magnetar_storage.runtime.execution import Clock

logger = logging.getLogger("magnetar.audit")

NO_PERMISSION: Final = (401, 403)
LONGEST: Final = 1000
"""The most characters of a path, a query or a reason that are written; the rest is cut off."""
SECOND_MS: Final = 1000


class AuditLog:
    """Writes to the logger `magnetar.audit`, and so to the broker's log unless there is a file.

    Changes that took place are always written.  Refused requests cost a client nothing, so only
    `refusals_per_second` of them are, and a line with the number of those that are not.
    """

    def __init__(self, clock: Clock, refusals_per_second: int, file: Path | None = None) -> None:
        self._clock = clock
        self._refusals_per_second = refusals_per_second
        self._began_ms = clock.now_ms()
        self._refused = 0
        self._left_out = 0
        self._handler = None if file is None else _to_file(file)

    def close(self) -> None:
        """Write to the broker's log again."""
        self._write_left_out()
        if self._handler is not None:
            logger.removeHandler(self._handler)
            logger.propagate = True
            self._handler.close()

    def record(
        self, request: Request, changes: bool, response: Response | None, why: str = ""
    ) -> None:
        """Write down how a request was answered; `response` is None if it was given up.

        `why` is the reason of a refusal, where it says more than the client is told.
        """
        status = None if response is None else response.status
        # promise[without and status not in NO_PERMISSION]: reads that lack a permission are in the
        #   audit log
        if not changes and status not in NO_PERMISSION:
            return
        refused = status is not None and status >= 400
        # promise[without refused and]: all changes are in the audit log
        if refused and not self._may_write_refusal():
            return
        roles = request.roles
        written = {
            "time": _time(self._clock.now_ms()),
            "method": request.method,
            "path": request.path[:LONGEST],
            "query": urlencode(request.pairs)[:LONGEST],
            "address": request.address,
            "role": None if roles is None else roles.own,
            "status": status,
        }
        if roles is not None and roles.original is not None:
            written["original_role"] = roles.original
        if response is not None and refused:
            written["reason"] = (why or _reason(response))[:LONGEST]
        # promise[json.dumps -> str]: a request cannot forge lines of the audit log
        logger.log(logging.WARNING if refused else logging.INFO, json.dumps(written))

    def _may_write_refusal(self) -> bool:
        if self._clock.now_ms() - self._began_ms >= SECOND_MS:
            self._write_left_out()
            self._began_ms, self._refused = self._clock.now_ms(), 0
        self._refused += 1
        # promise[without <= self._refusals_per_second]: refusals in the audit log are limited
        if self._refused <= self._refusals_per_second:
            return True
        self._left_out += 1
        if self._left_out == 1:
            self._clock.later(SECOND_MS / 1000, self._write_left_out)
        return False

    def _write_left_out(self) -> None:
        if self._left_out:
            left_out, self._left_out = self._left_out, 0
            written = {"time": _time(self._clock.now_ms()), "refusals_left_out": left_out}
            logger.warning(json.dumps(written))


def audit_log(clock: Clock, settings: Settings) -> AuditLog:
    """Return the audit log that the settings describe."""
    file = settings.magnetar_audit_log_file
    limit = settings.magnetar_audit_refusals_per_second
    return AuditLog(clock, limit, None if file is None else Path(file))


def _to_file(file: Path) -> logging.Handler:
    """Make the logger write only to this file, which is opened again after it was moved away."""
    from logging.handlers import WatchedFileHandler  # noqa: PLC0415 (imports much)

    handler = WatchedFileHandler(file, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(message)s"))
    logger.addHandler(handler)
    logger.propagate = False
    return handler


def _time(ms: int) -> str:
    """Return a time in ISO 8601 with a fixed number of digits, so that lines sort by time."""
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds")


def _reason(response: Response) -> str:
    """Return the reason in a refusal, whose body is JSON."""
    found: Any = json.loads(response.body)
    return str(found["reason"])
