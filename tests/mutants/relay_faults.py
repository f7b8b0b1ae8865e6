"""Faults of the relay between workers: each loses, mixes up or keeps what it should not."""

from mutants.fault import Fault

RELAY = "broker/magnetar_broker/session/relay.py"
RELAYING = "broker/magnetar_broker/session/relaying.py"
SESSION = "broker/magnetar_broker/session/session.py"
UPSTREAMS = "broker/magnetar_broker/server/upstreams.py"
PURE = (
    "tests/broker/session/test_relay.py",
    "tests/broker/session/test_relay_model.py",
)
SOCKETS = ("tests/broker/server/test_upstreams.py",)

RELAY_FAULTS: tuple[Fault, ...] = (
    Fault(
        UPSTREAMS,
        "what waits for another worker is in no budget",
        "            self._receiving.hold(self, self._transport.get_write_buffer_size(), begins)\n",
        "            pass\n",
        SOCKETS,
    ),
    Fault(
        UPSTREAMS,
        "a client keeps what waits for another worker though others need the memory",
        '            asyncio.get_running_loop().call_soon(self._run, "read", upstream.give_up)\n',
        "            pass\n",
        SOCKETS,
    ),
    Fault(
        SESSION,
        "a client that breaks the protocol in another process stays connected",
        "        if self.is_upstream and self.connected and not self._closed:\n"
        "            self.refuse(END_OF_CLIENT, NotReady(why))\n",
        "",
        PURE,
    ),
    Fault(
        RELAY,
        "a malformed frame takes those before it with it",
        "        finally:  # `_target` refuses a malformed frame, not those before it\n",
        "        except RuntimeError:\n            pass\n        else:\n",
        PURE,
    ),
    Fault(
        RELAY,
        "an upstream is opened for every producer",
        "        found = self._upstreams.get(worker)\n        if found is None:",
        "        found = None\n        if found is None:",
        PURE,
    ),
    Fault(
        RELAY,
        "a client that does not read is read for",
        "                if client_full:\n                    upstream.channel.pause_reading()",
        "                if client_full:\n                    pass",
        PURE,
    ),
    Fault(
        RELAY,
        "a new upstream is read for a client that does not read",
        "            if self._client_full:\n                found.channel.pause_reading()\n",
        "",
        PURE,
    ),
    Fault(
        RELAY,
        "a client is read whether its process keeps up or not",
        "if self._full or len(self._requests) >= MAX_UNANSWERED:",
        "if False:",
        PURE,
    ),
    Fault(
        RELAY,
        "any number of requests is forwarded",
        "if self._full or len(self._requests) >= MAX_UNANSWERED:",
        "if self._full:",
        PURE,
    ),
    Fault(
        RELAY,
        "a client stays paused when the process that did not read has ended",
        "        self._relay.forget(self)\n        self._let_read()\n",
        "        self._relay.forget(self)\n",
        PURE,
    ),
    Fault(
        RELAY,
        "requests of a process that ended are never answered",
        "            self._client.refuse(request_id, self._refusal)\n",
        "            pass\n",
        PURE,
    ),
    Fault(
        RELAY,
        "what a process that ended had is never closed",
        "                del ids[number]\n                close(number)",
        "                del ids[number]",
        PURE,
    ),
    Fault(
        RELAY,
        "a process that ended is sent what comes next",
        "        self._relay.forget(self)\n        self",
        "        self",
        PURE,
    ),
    Fault(
        RELAY,
        "the relay answers pings for a client that is gone",
        "if self._client.ping_if_read():",
        "if False:",
        PURE,
    ),
    Fault(
        RELAY,
        "a client that is not read from counts as dead",
        "        else:\n            self.channel.write([PONG])",
        "        else:\n            pass",
        PURE,
    ),
    Fault(
        RELAY,
        "ids of refused producers are kept",
        "freed = None if number in ids else _Freed(Command.ERROR, ids, number)",
        "freed = None",
        PURE,
    ),
    Fault(
        RELAY,
        "a refused repetition closes what is open",
        "freed = None if number in ids else _Freed(Command.ERROR, ids, number)",
        "freed = _Freed(Command.ERROR, ids, number)",
        PURE,
    ),
    Fault(
        RELAY,
        "a producer that waits counts as answered",
        "if kind == Command.PRODUCER_SUCCESS and not message.producer_ready:",
        "if False:",
        PURE,
    ),
    Fault(
        RELAY,
        "a close that crosses the client's own is forwarded",
        "if self._relay.producers.get(message.producer_id) is self:\n"
        "            del self._relay.producers[message.producer_id]\n",
        "if self._relay.producers.pop(message.producer_id, self) is self:\n",
        PURE,
    ),
    Fault(
        RELAY,
        "the reason of a refused connection is lost",
        "self._refusal = NotReady(message.message)",
        "pass",
        PURE,
    ),
    Fault(
        RELAY,
        "an acknowledgement that asks for an answer waits forever",
        "                upstream.expect_answer(ack.request_id)\n",
        "                pass\n",
        PURE,
    ),
    Fault(
        RELAY,
        "an answer frees an id that another process has by now",
        " and freed.ids.get(freed.number) is self:",
        " and freed.number in freed.ids:",
        PURE,
    ),
    Fault(
        "broker/magnetar_broker/server/pair.py",
        "upstreams take the descriptors that are reserved for files",
        "if not descriptors.admits(max(own.fileno(), passed.fileno())):",
        "if False:",
        SOCKETS,
    ),
    Fault(
        RELAYING,
        "an id that is here is opened elsewhere too",
        "if upstream is None and not kind.is_here(session, command):",
        "if upstream is None:",
        PURE,
    ),
    Fault(
        SESSION,
        "processes keep what a client had that left",
        "            relay.close()\n",
        "            pass\n",
        PURE,
    ),
    Fault(
        RELAY,
        "what comes behind the command that disconnected a client is handled",
        "                    if self._relay.closed:  # an old client: it was disconnected instead\n"
        "                        return\n",
        "",
        PURE,
    ),
    Fault(
        SESSION,
        "messages for other processes end the connection",
        "            return self.publishing.receive(frames, at)\n"
        "        return at + self.publishing.receive(self.relay.own_sends(frames, at), 0)",
        "            pass\n        return self.publishing.receive(frames, at)",
        PURE,
    ),
    Fault(
        "proto/magnetar_proto/frames.py",
        "frames with others between them are taken for neighbours",
        "if start and buf is whole and start == end + SIZES.size:",
        "if start and buf is whole:",
        ("tests/proto/test_frames.py",),
    ),
    Fault(
        UPSTREAMS,
        "what is written before there is a transport is lost",
        "            self._early += pieces\n",
        "            pass\n",
        SOCKETS,
    ),
    Fault(
        UPSTREAMS,
        "what a client sent before it left is lost",
        "        transport.write_eof()\n",
        "        transport.abort()\n",
        SOCKETS,
    ),
    Fault(
        UPSTREAMS,
        "without descriptors requests wait forever",
        "            self._loop.call_soon(made.connection_lost, None)\n",
        "",
        SOCKETS,
    ),
    Fault(
        UPSTREAMS,
        "a worker that reads nothing is written to without a limit",
        "            self._upstream.wrote(full=True)\n",
        "            pass\n",
        SOCKETS,
    ),
    Fault(
        "broker/magnetar_broker/server/listener.py",
        "upstreams count as clients",
        "        if not self._origin.is_upstream:  # counted where the client is connected",
        "        if self.address:",
        SOCKETS,
    ),
    Fault(
        "broker/magnetar_broker/server/listener.py",
        "a client is authenticated again, or not at all, where its commands are relayed to",
        "            roles=self.session.roles,\n",
        "",
        SOCKETS,
    ),
)
