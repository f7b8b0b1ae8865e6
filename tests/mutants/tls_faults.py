"""Faults of TLS: each lets in who should not be, keeps what should be replaced, or loses bytes."""

from mutants.fault import Fault

TLS = "broker/magnetar_broker/server/tls"
DAEMON = ("tests/broker/server/test_tls.py",)
PUMP = ("tests/broker/server/test_tls_pump.py",)

TLS_FAULTS: tuple[Fault, ...] = (
    Fault(
        f"{TLS}/files.py",
        "a client needs no certificate though it is required",
        "ssl.CERT_REQUIRED if required else ssl.CERT_OPTIONAL",
        "ssl.CERT_OPTIONAL",
        DAEMON,
    ),
    Fault(
        f"{TLS}/files.py",
        "certificates of clients are not verified",
        "        required = settings.tls_require_trusted_client_cert_on_connect\n",
        "        return\n",
        DAEMON,
    ),
    Fault(
        f"{TLS}/files.py",
        "versions that the settings exclude are spoken",
        "        made.minimum_version = VERSIONS[min(allowed)]\n",
        "",
        DAEMON,
    ),
    Fault(
        f"{TLS}/contexts.py",
        "new files are not used",
        "        if state != self._state:\n",
        "        if state is None:\n",
        DAEMON,
    ),
    Fault(
        f"{TLS}/contexts.py",
        "files that are half written end the check",
        "        except (ConfigError, OSError) as error:\n",
        "        except ZeroDivisionError as error:\n",
        DAEMON,
    ),
    Fault(
        f"{TLS}/pump.py",
        "what waits for a client is in no budget",
        "        self._readers.full(self)\n",
        "        pass\n",
        PUMP,
    ),
    Fault(
        f"{TLS}/pump.py",
        "what waits for a worker is in no budget",
        "        self._receiving.hold(self, self.waiting, begins=True)\n",
        "        pass\n",
        PUMP,
    ),
    Fault(
        f"{TLS}/pump.py",
        "a client keeps what waits for it though others need the memory",
        "        self.client.abort()\n        self.worker.abort()\n",
        "",
        PUMP,
    ),
    Fault(
        f"{TLS}/pump.py",
        "a side that does not read is written to without a limit",
        "            self.other.pause_reading()\n",
        "            pass\n",
        PUMP,
    ),
    Fault(
        f"{TLS}/pump.py",
        "a side is not read from again",
        "            self.other.resume_reading()\n",
        "            pass\n",
        PUMP,
    ),
    Fault(
        f"{TLS}/pump.py",
        "what is written before there is a connection is lost",
        "            self._early.append(data)\n",
        "            pass\n",
        PUMP,
    ),
    Fault(
        f"{TLS}/pump.py",
        "the end of a side is not passed on",
        '            self._run("read", self.other.finish)\n',
        "            pass\n",
        PUMP,
    ),
    Fault(
        f"{TLS}/pump.py",
        "what the worker answers last is lost",
        "        transport.write_eof()\n",
        "        transport.abort()\n",
        PUMP,
    ),
)
