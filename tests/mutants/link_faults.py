"""Faults of the links between the processes of one broker."""

from mutants.fault import Fault

LINK = "broker/magnetar_broker/links/link.py"
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
)  # fmt: skip
