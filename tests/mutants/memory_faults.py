"""Faults by which memory grows: of clients that have left, and of segments that grow for ever."""

from mutants.fault import Fault

CURSORS = ("tests/storage/cursors/test_cursor_log.py",)
TESTS = ("tests/broker/server/test_departed_clients.py",)

MEMORY_FAULTS: tuple[Fault, ...] = (
    Fault(
        "broker/magnetar_broker/server/listener.py",
        "a connection keeps its session",
        "        self._transport = None\n        del self.session\n",
        "        self._transport = None\n",
        TESTS,
    ),
    Fault(
        "broker/magnetar_broker/session/session.py",
        "a part of a session keeps the session",
        "self._throttled = Throttled(self._gate, self.clock, self._output.ping)",
        "self._throttled = Throttled(self._gate, self.clock, lambda: self._output.ping())",
        TESTS,
    ),
    Fault(
        "broker/magnetar_broker/session/session.py",
        "watchers keep the session",
        "        self.watchers.clear()\n",
        "",
        TESTS,
    ),
    Fault(
        "storage/magnetar_storage/cursors/cursor_log.py",
        "a cursor segment of small changes grows for hours",
        " or self._written_entries > self._roll_entries",
        "",
        CURSORS,
    ),
    Fault(
        "storage/magnetar_storage/cursors/cursor_log.py",
        "a large state is copied for each few changes",
        "return grown and self._written > 4 * self._snapshot",
        "return grown",
        CURSORS,
    ),
)
