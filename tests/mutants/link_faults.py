"""Faults of the links between the processes of one broker."""

from mutants.fault import Fault

LINK = "broker/magnetar_broker/links/link.py"
SERVER = "broker/magnetar_broker/links/metadata_server.py"
LEASES = "broker/magnetar_broker/links/leases.py"
METADATA = ("tests/broker/links/test_metadata.py",)
LOSS = ("tests/broker/links/test_metadata_loss.py",)
TESTS = ("tests/broker/links/test_link.py",)

LINK_FAULTS = (
    Fault(
        LINK,
        "notices overtake the requests before them",
        'begin(self._tasks, self._answer(number, name, args), "link")',
        'self._tasks.spawn(self._answer(number, name, args), "link")',
        TESTS,
    ),
    Fault(
        LINK,
        "requests wait for a peer that is gone",
        "        for name, promise in under_way.values():\n            if not promise.done():",
        "        for name, promise in under_way.values():\n            if promise.done():",
        TESTS,
    ),
    Fault(
        LINK,
        "requests are sent to a peer that is gone",
        "if self._has_ended or len(self._under_way) >= REQUESTS:",
        "if len(self._under_way) >= REQUESTS:",
        TESTS,
    ),
    Fault(
        LINK,
        "a link has no limit of requests under way",
        "if self._has_ended or len(self._under_way) >= REQUESTS:",
        "if self._has_ended:",
        TESTS,
    ),
    Fault(
        LINK,
        "a request whose handler is cancelled waits for ever",
        "            self._send(encode((_REFUSAL, number, encode_refusal(cancelled))))\n",
        "",
        TESTS,
    ),
    Fault(
        LINK,
        "a notice that fails ends what handles notices",
        "        except Exception:  # the peer does not wait",
        "        except KeyError:  # the peer does not wait",
        TESTS,
    ),
    Fault(
        LINK,
        "every frame of a link is a write of its own",
        "            self._flushing = True\n            self._clock.soon(self._flush, \"link\")",
        "            self._flush()",
        TESTS,
    ),
    Fault(
        LINK,
        "what was sent is lost when the link is closed",
        "            self._paused = False\n            self._flush()\n",
        "            self._paused = False\n",
        TESTS,
    ),
    Fault(
        LINK,
        "a peer that does not read is sent more and more",
        "        if self._output_bytes > OUTPUT_BYTES:",
        "        if not self._output:",
        TESTS,
    ),
    Fault(
        LINK,
        "a peer that is given up is sent what it did not read",
        "        self._output.clear()\n        self.close()\n",
        "        self.close()\n",
        TESTS,
    ),
    Fault(
        "storage/magnetar_storage/errors.py",
        "an error of another process cannot refuse a second caller",
        "fresh = type(self).__new__(type(self), *self.args)",
        "fresh = type(self)(*self.args)",
        ("tests/broker/links/test_refusals.py",),
    ),
    Fault(
        SERVER,
        "a process writes the metadata of a topic that it does not own",
        "if not self._may_write(key):",
        "if not key:",
        METADATA,
    ),
    Fault(
        SERVER,
        "what a process watches waits in the link, without a limit",
        "            await self._link.room()\n",
        "",
        METADATA,
    ),
    Fault(
        SERVER,
        "watches of a process that is gone stay",
        "        link.when_ended(self._end_watches)\n",
        "",
        METADATA,
    ),
    Fault(
        SERVER,
        "a process sees less than the one before it wrote",
        "        await store.delete(NO_KEY)\n",
        "        pass\n",
        METADATA,
    ),
    Fault(
        SERVER,
        "a process goes on while the one before it may still write",
        "    await link.ended()\n",
        "",
        METADATA,
    ),
    Fault(
        LEASES,
        "the leases of a process that is gone stay",
        "        link.when_ended(self._end_all)\n",
        "",
        (*METADATA, *LOSS),
    ),
    Fault(
        LEASES,
        "a lease that is made as its process ends stays",
        "        if self._link.has_ended:\n            self._expire(lease.id)\n",
        "",
        LOSS,
    ),
    Fault(
        LEASES,
        "a lease that could not be ended stays",
        "            self._clock.later(RETRY_SECONDS, lambda: self._expire(lease))\n",
        "",
        METADATA,
    ),
    Fault(
        LEASES,
        "a lease that was revoked is still held",
        "            self._release(lease)\n\n    def held",
        "\n    def held",
        METADATA,
    ),
    Fault(
        "broker/magnetar_broker/links/metadata.py",
        "a lease ends although its process lives",
        "        self._renew_later(lease, seconds)\n\n    def _changed",
        "\n    def _changed",
        METADATA,
    ),
)  # fmt: skip
