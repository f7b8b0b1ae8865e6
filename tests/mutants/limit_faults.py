"""Faults of the limits that protect the broker: each lets a client do what it should not."""

from mutants.fault import Fault

ADMISSION = "broker/magnetar_broker/limits/admission.py"
LISTENER = "broker/magnetar_broker/server/listener.py"
RECEPTION = "broker/magnetar_broker/server/reception.py"
HELD = "broker/magnetar_broker/limits/held_bytes.py"
SLOW = "broker/magnetar_broker/limits/slow_readers.py"
SESSION = "broker/magnetar_broker/session/session.py"
SLOTS = "broker/magnetar_broker/session/slots.py"
HOLDING = ("tests/broker/limits/test_held_bytes.py",)
CONNECTION = "broker/magnetar_broker/server/http/connection.py"
GUARD = "broker/magnetar_broker/server/http/guard.py"
HTTP = ("tests/broker/server/test_http_connection.py",)
PURE = ("tests/broker/limits/test_admission.py",)
HALF_OPEN = ("tests/broker/server/test_half_open.py",)

LIMIT_FAULTS: tuple[Fault, ...] = (
    Fault(
        "proto/magnetar_proto/names.py",
        "names of any length are kept in memory",
        "    if len(text) > MAX_NAME:\n",
        "    if False:\n",
        ("tests/proto/test_names.py",),
    ),
    Fault(
        ADMISSION,
        "a handshake may take any time",
        "            place.limit_time(self._clock, seconds)\n",
        "            pass\n",
        PURE,
    ),
    Fault(
        ADMISSION,
        "any number of half-open connections of one address",
        "next(iter(own)).give_up(ClientLimit.HALF_OPEN_OF_ADDRESS, name)",
        "pass",
        PURE,
    ),
    Fault(
        ADMISSION,
        "one IPv6 network has as many half-open connections as addresses",
        "        host = network_of(host)\n",
        "",
        PURE,
    ),
    Fault(
        "broker/magnetar_broker/limits/topic_limits.py",
        "one IPv6 network has as many consumers as addresses",
        "        hosts = [network_of(host_of(one.connection.address)) for one in present]\n",
        "        hosts = [host_of(one.connection.address) for one in present]\n",
        ("tests/broker/limits/test_limits_of.py",),
    ),
    Fault(
        GUARD,
        "one IPv6 network has as many HTTP connections as addresses",
        "        host = network_of(host)\n",
        "",
        ("tests/broker/server/test_http_connection.py",),
    ),
    Fault(
        ADMISSION,
        "one address takes the places of others",
        "most = max(self._half_open_from, key=lambda host: len(self._half_open_from[host]))",
        "most = min(self._half_open_from, key=lambda host: len(self._half_open_from[host]))",
        PURE,
    ),
    Fault(
        ADMISSION,
        "an accepted client is disconnected at the end of its handshake's time",
        "            self._accepted = True\n            self._cancel()\n",
        "            self._accepted = True\n",
        PURE,
    ),
    Fault(
        LISTENER,
        "a client is never accepted",
        "            self._place.accept()\n",
        "            pass\n",
        HALF_OPEN,
    ),
    Fault(
        RECEPTION,
        "a client that a worker reads the first frame of has any time",
        "        self._place = admission.enter(host, self.close)\n",
        "        self._place = admission.enter(host, lambda: None)\n",
        HALF_OPEN,
    ),
    Fault(
        HELD,
        "who goes on is disconnected instead of who has waited for longest",
        "        if before is not None and (begins or not size):",
        "        if before is not None and not size:",
        HOLDING,
    ),
    Fault(
        HELD,
        "any number of bytes",
        "        if 0 < self.limit < self.used:",
        "        if False:",
        HOLDING,
    ),
    Fault(
        SLOW,
        "a client that reads is disconnected",
        "        if taken > before:",
        "        if False:",
        HOLDING,
    ),
    Fault(
        SESSION,
        "what is received of a frame counts for nothing",
        "            self.broker.receiving.hold(self, size, begins)",
        "            pass",
        ("tests/broker/session/test_held_input.py",),
    ),
    Fault(
        SLOTS,
        "any number of producers on one connection",
        "        if 0 < limit <= len(self) + len(self._creating):",
        "        if False:",
        ("tests/broker/session/test_slots.py",),
    ),
    Fault(
        CONNECTION,
        "bytes that trickle in extend the time of an HTTP request",
        "            if self.task is None and not self._is_begun:",
        "            if self.task is None:",
        HTTP,
    ),
    Fault(
        CONNECTION,
        "a request with two lengths is taken",
        '            if b"content-length" in names:',
        "            if False:",
        HTTP,
    ),
    Fault(
        CONNECTION,
        "lines that end without CR are taken",
        "            if NOT_OURS.search(head):",
        "            if False:",
        HTTP,
    ),
    Fault(
        CONNECTION,
        "who does not read an answer stays connected",
        "            self._guard.readers.full(self)\n",
        "            pass\n",
        HTTP,
    ),
    Fault(
        GUARD,
        "one HTTP connection too many is refused, though another one waits",
        "            if not self._end_oldest(most):",
        "            if True:",
        ("tests/broker/server/test_health.py",),
    ),
    Fault(
        "broker/magnetar_broker/server/permissions.py",
        "other users of the machine can read what the broker writes",
        "    os.umask(os.umask(PRIVATE_UMASK) | PRIVATE_UMASK)\n",
        "",
        ("tests/broker/server/test_file_permissions.py",),
    ),
)
