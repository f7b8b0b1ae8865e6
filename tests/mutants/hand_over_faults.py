"""Faults of the hand-over of clients between workers: each loses clients, or serves one twice."""

from mutants.fault import Fault

SERVER = "broker/magnetar_broker/server"
TESTS = (
    "tests/broker/server/test_outgoing.py",
    "tests/broker/server/test_reception.py",
    "tests/broker/server/test_hand_over.py",
)

HAND_OVER_FAULTS: tuple[Fault, ...] = (
    Fault(
        f"{SERVER}/listener.py",
        "what was read before there is a session is dropped",
        '            self._run("read", self.session.receive, self._early)\n',
        "",
        TESTS,
    ),
    Fault(
        f"{SERVER}/reception.py",
        "bytes behind the first frame are read and dropped",
        "data = self._client.recv(size)",
        "data = self._client.recv(1 << 16)[:size]",
        TESTS,
    ),
    Fault(
        f"{SERVER}/reception.py",
        "who names an unknown broker is served",
        "self._destinations.get(name)",
        'self._destinations.get(name, self._destinations[""])',
        TESTS,
    ),
    Fault(
        f"{SERVER}/departure.py",
        "a client that was passed on is shut down",
        "            for one in self._outgoing.acknowledged(len(data)):\n"
        "                one.close()",
        "            for one in self._outgoing.acknowledged(len(data)):\n"
        "                one.client.shutdown(socket.SHUT_RDWR)",
        TESTS,
    ),
    Fault(
        f"{SERVER}/departure.py",
        "any number of clients of an address wait for a worker that does not run",
        "            if not self._outgoing.is_ready:\n                self._count(one)\n",
        "",
        TESTS,
    ),
    Fault(
        f"{SERVER}/departure.py",
        "clients that a dead worker has not taken count for nothing",
        "        for one in self._outgoing.items():\n            self._count(one)\n",
        "",
        TESTS,
    ),
    Fault(
        f"{SERVER}/departure.py",
        "a client that a worker has taken is counted for ever",
        "            self.place.leave()\n",
        "            pass\n",
        TESTS,
    ),
    Fault(
        f"{SERVER}/departure.py",
        "the rest of a frame is not sent",
        "self._rest = following.data[count:]",
        'self._rest = b""',
        TESTS,
    ),
    Fault(
        f"{SERVER}/departure.py",
        "the next process is sent the rest of a frame that the last one has begun",
        '        self._rest = b""\n        self._outgoing.lost()\n',
        "        self._outgoing.lost()\n",
        TESTS,
    ),
    Fault(
        f"{SERVER}/departure.py",
        "a replaced channel is not read to its end",
        "        self._drain()\n        self._close()\n        channel",
        "        self._close()\n        channel",
        TESTS,
    ),
    Fault(
        f"{SERVER}/departure.py",
        "the end of a channel is noticed late",
        '            except ConnectionError:\n                data = b""\n',
        "            except ConnectionError:\n                return\n",
        TESTS,
    ),
    Fault(
        f"{SERVER}/outgoing.py",
        "what a dead worker has not acknowledged is forgotten",
        "        self._waiting.extendleft(reversed(self._sent))\n",
        "",
        TESTS,
    ),
    Fault(
        f"{SERVER}/outgoing.py",
        "clients are sent to a worker that is not ready",
        "if self._ready and self._waiting",
        "if self._waiting",
        TESTS,
    ),
    Fault(
        f"{SERVER}/outgoing.py",
        "any number of clients is kept",
        "if len(self) >= self._limit:",
        "if False:",
        TESTS,
    ),
    Fault(
        f"{SERVER}/arrival.py",
        "a client is served before it is acknowledged",
        "        self._acknowledge()\n        if client is None:",
        "        self._loop.call_soon(self._acknowledge)\n        if client is None:",
        TESTS,
    ),
    Fault(
        f"{SERVER}/arrival.py",
        "a child of the broker keeps a client's connection open",
        "            os.set_inheritable(number, False)\n",
        "",
        TESTS,
    ),
)
