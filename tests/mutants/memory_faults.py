"""Faults by which memory grows: of clients that have left, and of segments that grow for ever."""

from mutants.fault import Fault

CURSORS = ("tests/storage/cursors/test_cursor_log.py",)
TESTS = ("tests/broker/server/test_departed_clients.py",)
RELAY = "broker/magnetar_broker/session/relay.py"
UPSTREAMS = "broker/magnetar_broker/server/upstreams.py"

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
        "broker/magnetar_broker/session/session.py",
        "a session keeps its relay, which refers to it",
        "        relay, self.relay = self.relay, None\n",
        "        relay = self.relay\n",
        TESTS,
    ),
    Fault(
        "broker/magnetar_broker/session/session.py",
        "the timer of a client that was paused keeps its connection",
        "        self._throttled.end()\n",
        "",
        TESTS,
    ),
    Fault(
        RELAY,
        "a relay keeps its upstreams, which refer to it",
        "        upstreams, self._upstreams = self._upstreams, {}\n",
        "        upstreams = self._upstreams\n",
        TESTS,
    ),
    Fault(
        RELAY,
        "a relay keeps the ids of a client that has left",
        "        self.producers, self.consumers = {}, {}\n",
        "",
        TESTS,
    ),
    Fault(
        RELAY,
        "a relay keeps the upstreams that wait for a sign of life of a client that has left",
        "        self.pinged.clear()\n        for upstream",
        "        for upstream",
        TESTS,
    ),
    Fault(
        RELAY,
        "an upstream keeps the requests of a client that has left",
        "        self._requests.clear()  # some refer to ids, which refer to upstreams\n",
        "",
        TESTS,
    ),
    Fault(
        UPSTREAMS,
        "a socket keeps the upstream that has ended",
        "        upstream, self._upstream = self._upstream, None\n",
        "        upstream = self._upstream\n",
        TESTS,
    ),
    Fault(
        UPSTREAMS,
        "a socket keeps its upstream until the worker has read what the client sent",
        "            self._closing = True\n            self._upstream = None\n",
        "            self._closing = True\n",
        TESTS,
    ),
    Fault(
        UPSTREAMS,
        "a socket that was never opened keeps its upstream",
        "            self._loop.call_soon(made.connection_lost, None)\n",
        "            self._loop.call_soon(upstream.ended)\n",
        TESTS,
    ),
    Fault(
        "broker/magnetar_broker/server/in_process_client.py",
        "the client of a health check keeps its session",
        "        session, self._session = self._session, None\n",
        "        session = self._session\n",
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
