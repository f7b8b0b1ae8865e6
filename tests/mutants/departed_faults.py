"""Faults by which a client that has left stays in memory until garbage is collected."""

from mutants.fault import Fault

TESTS = ("tests/broker/server/test_departed_clients.py",)

DEPARTED_FAULTS: tuple[Fault, ...] = (
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
)
