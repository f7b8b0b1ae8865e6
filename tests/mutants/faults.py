"""Faults of delivery, each a text in one file, and the tests that must notice it.

Most are what makes a subscription fall silent, deliver twice or out of order; that the
model-based test finds them shows what it is worth.
"""

from mutants.admin_faults import ADMIN_FAULTS
from mutants.authentication_faults import AUTHENTICATION_FAULTS
from mutants.authorization_faults import AUTHORIZATION_FAULTS
from mutants.balance_faults import BALANCE_FAULTS
from mutants.client_faults import CLIENT_FAULTS
from mutants.client_transaction_faults import CLIENT_TRANSACTION_FAULTS
from mutants.command_line_faults import COMMAND_LINE_FAULTS
from mutants.coordinator_faults import COORDINATOR_FAULTS
from mutants.directory_faults import DIRECTORY_FAULTS
from mutants.fault import Fault
from mutants.hand_over_faults import HAND_OVER_FAULTS
from mutants.index_file_faults import INDEX_FILE_FAULTS
from mutants.limit_faults import LIMIT_FAULTS
from mutants.link_faults import LINK_FAULTS
from mutants.lost_faults import LOST_FAULTS
from mutants.memory_faults import MEMORY_FAULTS
from mutants.moved_faults import MOVED_FAULTS
from mutants.names_faults import NAMES_FAULTS
from mutants.page_faults import PAGE_FAULTS
from mutants.process_faults import PROCESS_FAULTS
from mutants.reading_faults import READING_FAULTS
from mutants.relay_faults import RELAY_FAULTS
from mutants.rest_faults import REST_FAULTS
from mutants.schema_faults import SCHEMA_FAULTS
from mutants.sink_faults import SINK_FAULTS
from mutants.snapshot_faults import SNAPSHOT_FAULTS
from mutants.source_faults import SOURCE_FAULTS
from mutants.statistics_faults import STATISTICS_FAULTS
from mutants.tls_faults import TLS_FAULTS
from mutants.transaction_faults import TRANSACTION_FAULTS

CHUNKED = ("tests/broker/dispatch/test_chunked.py",)
DEDUPLICATION = ("tests/broker/publishing/test_deduplication.py",)
DELAYS = (
    "tests/storage/delays/test_recent_delays.py",
    "tests/storage/delays/test_delay_index.py",
    "tests/broker/delays/test_delays.py",
)
DELAY_INDEX = "storage/magnetar_storage/delays/delay_index.py"
RATES = ("tests/broker/dispatch/test_throttle.py", "tests/broker/rates/test_rate_limit.py")
KEYS = (
    "tests/broker/dispatch/test_key_shared.py",
    "tests/broker/dispatch/test_key_shared_model.py",
)
KEY_QUEUES = "broker/magnetar_broker/dispatch/key_queues.py"
KEY_SHARED = "broker/magnetar_broker/dispatch/key_shared.py"
SHARED = "broker/magnetar_broker/dispatch/shared.py"
SUBSCRIPTION = "broker/magnetar_broker/subscribing/subscription.py"

FAULTS: tuple[Fault, ...] = (
    Fault(
        DELAY_INDEX,
        "after a restart the latest delays are over",
        "        self._wait(recent.offsets())\n",
        "",
        DELAYS,
    ),
    Fault(
        DELAY_INDEX,
        "after a crash the entries that the index missed are not read",
        "range(recent.recorded_to, log.end)",
        "range(0)",
        DELAYS,
    ),
    Fault(
        DELAY_INDEX,
        "what is due waits on",
        "self.waiting.remove(start, stop)",
        "pass",
        DELAYS,
    ),
    Fault(
        DELAY_INDEX,
        "a run of delays is deleted too early",
        "if not run.left]",
        "if run.left < self._run]",
        DELAYS,
    ),
    Fault(
        DELAY_INDEX,
        "a run is gone before it is recorded that its entries are unsure",
        "        if damaged:\n            await self._record()\n",
        "",
        DELAYS,
    ),
    Fault(
        "storage/magnetar_storage/delays/recent_delays.py",
        "delays that are being moved to a run are not written again",
        "self._records(Kind.WHOLE, self._moving + self._blocks())",
        "self._records(Kind.WHOLE, self._blocks())",
        DELAYS,
    ),
    Fault(
        "broker/magnetar_broker/delays/topic_delays.py",
        "strict delays end a tick early",
        "0 if self._strict else self.policy.tick_ms",
        "self.policy.tick_ms",
        DELAYS,
    ),
    Fault(
        "broker/magnetar_broker/dispatch/many_active.py",
        "delayed entries are delivered where they are not known yet",
        "        self._delays.catch(run.first, run.payloads)\n",
        "",
        DELAYS,
    ),
    Fault(
        "broker/magnetar_broker/dispatch/many_active.py",
        "who holds an entry gets it again when it is due",
        "[offset for offset in passed if offset not in pending]",
        "passed",
        DELAYS,
    ),
    Fault(
        KEY_QUEUES,
        "a draining slot is never released",
        "draining.entries -= 1",
        "draining.entries -= 0",
        KEYS,
    ),
    Fault(
        KEY_QUEUES,
        "a queue of waiting entries forgets their order",
        "heappush(self._queues[owner], offset)",
        "self._queues[owner].append(offset)",
        KEYS,
    ),
    Fault(
        KEY_QUEUES,
        "slots that moved are not looked for when a consumer joins",
        "        self._queues[consumer] = []\n        self.cleared[consumer] = 0\n"
        "        self._divide()\n",
        "        self._queues[consumer] = []\n        self.cleared[consumer] = 0\n",
        KEYS,
    ),
    Fault(
        KEY_SHARED,
        "a new entry passes those that wait for its consumer",
        "not owner.can_take() or self.queues.first(owner) is not None",
        "not owner.can_take()",
        KEYS,
    ),
    Fault(
        KEY_SHARED,
        "new entries of a draining slot go to its new owner",
        "None if slot in draining else owners[",
        "owners[",
        KEYS,
    ),
    Fault(
        KEY_SHARED,
        "a slot is drained and no waiter is woken",
        "        if drained or len(self.queues.waiting) < waited:  # more may be read ahead\n"
        "            self._wake_soon()\n",
        "",
        KEYS,
    ),
    Fault(
        KEY_SHARED,
        "keys without an owner stay where they are when a consumer takes them",
        "        for start, stop in self.queues.take_unowned():\n"
        "            self._unrouted.add_all(range(start, stop))\n",
        "",
        KEYS,
    ),
    Fault(
        KEY_QUEUES,
        "in the model, too: a draining slot is never released",
        "draining.entries -= 1",
        "draining.entries -= 0",
    ),
    Fault(
        KEY_QUEUES,
        "in the model, too: a queue of waiting entries forgets their order",
        "heappush(self._queues[owner], offset)",
        "self._queues[owner].append(offset)",
    ),
    Fault(
        "storage/magnetar_storage/log/offset_set.py",
        "what is not acknowledged is looked for one bit too far",
        "offset += (free & -free).bit_length() - 1",
        "offset += (free & -free).bit_length()",
    ),
    Fault(
        "broker/magnetar_broker/dispatch/many_active.py",
        "what comes due is forgotten",
        "[offset for offset in passed if offset not in pending]",
        "[]",
    ),
    Fault(
        "broker/magnetar_broker/dispatch/chunked.py",
        "a message stays with a consumer that has left",
        "self._owners.items() if owner != consumer}",
        "self._owners.items()}",
        CHUNKED,
    ),
    Fault(
        "broker/magnetar_broker/dispatch/unacked_messages.py",
        "a consumer's limit is never lifted",
        "consumer.unacked * 2 <= self._per_consumer",
        "consumer.unacked < 0",
    ),
    Fault(
        "broker/magnetar_broker/dispatch/feed.py",
        "entries were read and the dispatcher is not notified",
        "                self._arrived(run, wanted)\n            self._ready()\n",
        "                self._arrived(run, wanted)\n",
    ),
    Fault(
        "broker/magnetar_broker/dispatch/single_active.py",
        "a single consumer that asks for everything again gets what is new",
        "        if consumer is self.active:\n            self.rewind()\n",
        "        if consumer is self.active:\n",
    ),
    Fault(
        SUBSCRIPTION,
        "redelivery counts are not written",
        "            self.dispatcher.redeliver(consumer, None)\n        self._write_soon()\n",
        "            self.dispatcher.redeliver(consumer, None)\n",
    ),
    Fault(
        SUBSCRIPTION,
        "a wake-up is lost: permits arrive and delivery is not resumed",
        "        self.flow_ms = consumer.flow_ms\n        self.dispatcher.dispatch()\n",
        "        self.flow_ms = consumer.flow_ms\n",
    ),
    Fault(
        "broker/magnetar_broker/dispatch/consumer.py",
        "permits leak: an entry costs one more than its messages",
        "self.permits -= messages",
        "self.permits -= messages + 1",
    ),
    Fault(
        "broker/magnetar_broker/publishing/deduplication.py",
        "a copy is answered before the first one is durable",
        "self._held.append((self._log.next_offset, call))",
        "self._held.append((0, call))",
        DEDUPLICATION,
    ),
    Fault(
        "broker/magnetar_broker/publishing/sequences.py",
        "a sequence id is kept as published before it is durable",
        "_NAME.pack(known.stored, known.used_ms",
        "_NAME.pack(known.pushed, known.used_ms",
        ("tests/broker/publishing/test_sequences.py",),
    ),
    Fault(
        "broker/magnetar_broker/publishing/deduplication.py",
        "entries behind what was kept are not counted again",
        "            await self._catch_up()\n",
        "            self._sequences.cover(self._log.end)\n",
        DEDUPLICATION,
    ),
    Fault(
        "broker/magnetar_broker/lifetime/tidying.py",
        "entries go that deduplication has not counted durably",
        "        released = await topic.deduplication.released_to(released)\n",
        "",
        DEDUPLICATION,
    ),
    Fault(
        "broker/magnetar_broker/lifetime/tidying.py",
        "a topic is truncated before all acknowledgements are durable",
        "    await topic.cursors.durable()\n",
        "",
        ("tests/broker/lifetime/test_tidying.py",),
    ),
    Fault(
        "broker/magnetar_broker/subscribing/skipping.py",
        "messages expire, and a crash undoes it",
        "    subscription.skip(*runs)\n    await subscription.settled()\n",
        "    subscription.skip(*runs)\n",
        ("tests/broker/lifetime/test_expiry.py",),
    ),
    Fault(
        "broker/magnetar_broker/publishing/producers.py",
        "rules that change while a producer is opened do not reach it",
        "        producer.rules = self.rules\n",
        "",
        ("tests/broker/publishing/test_producers.py",),
    ),
    Fault(
        "broker/magnetar_broker/session/session.py",
        "resuming to read counts as the answer of a client",
        "ReadGate(outbox, self._liveness.resumed)",
        "ReadGate(outbox, self._liveness.received)",
        ("tests/broker/session/test_slow_clients.py",),
    ),
    Fault(
        "broker/magnetar_broker/publishing/producers.py",
        "a topic's epoch is not stored",
        "await self._admission.store_epoch(epoch)",
        "pass",
        ("tests/broker/publishing/test_producers.py",),
    ),
    Fault(
        "broker/magnetar_broker/rates/rate_limit.py",
        "who still waits when its turn was over is not called again",
        """        if self._queue:
            self._arm()
""",
        "",
        RATES,
    ),
    Fault(
        "broker/magnetar_broker/rates/rate_limit.py",
        "who comes later comes first",
        "(not self._queue or waiter is self._turn)",
        "True",
        RATES,
    ),
    Fault(
        "broker/magnetar_broker/dispatch/single_active.py",
        "no waiter is called when the rate lets something go",
        "not throttle.admit_or_wait()",
        "throttle.is_spent",
    ),
    Fault(
        SHARED,
        "what comes again does not wait for the rate",
        """        if not self._unacked.admit_or_wait():
            return False
""",
        "",
        RATES,
    ),
    Fault(
        "broker/magnetar_broker/topic/topic.py",
        "producers stay at the end of their topic",
        "            self.producers.disconnect()\n",
        "",
        ("tests/broker/topic/test_termination.py",),
    ),
    Fault(
        "storage/magnetar_storage/log/rollover.py",
        "the end of a topic is not durable",
        "lambda record: replace(record, terminated=True, terminated_at=last)",
        "lambda record: record",
        ("tests/storage/log/test_log_termination.py",),
    ),
    Fault(
        "broker/magnetar_broker/publishing/access.py",
        "who waits is not taken before those that come later",
        "return self.exclusive or self._successor is not None or bool(self._waiting)",
        "return self.exclusive or self._successor is not None",
        ("tests/broker/publishing/test_access.py",),
    ),
    *INDEX_FILE_FAULTS,
    *DIRECTORY_FAULTS,
    *ADMIN_FAULTS,
    *AUTHORIZATION_FAULTS,
    *PROCESS_FAULTS,
    *LINK_FAULTS,
    *NAMES_FAULTS,
    *HAND_OVER_FAULTS,
    *PAGE_FAULTS,
    *CLIENT_FAULTS,
    *CLIENT_TRANSACTION_FAULTS,
    *SCHEMA_FAULTS,
    *COMMAND_LINE_FAULTS,
    *BALANCE_FAULTS,
    *LOST_FAULTS,
    *MOVED_FAULTS,
    *READING_FAULTS,
    *LIMIT_FAULTS,
    *TLS_FAULTS,
    *TRANSACTION_FAULTS,
    *COORDINATOR_FAULTS,
    *RELAY_FAULTS,
    *REST_FAULTS,
    *SINK_FAULTS,
    *SOURCE_FAULTS,
    *SNAPSHOT_FAULTS,
    *MEMORY_FAULTS,
    *STATISTICS_FAULTS,
    *AUTHENTICATION_FAULTS,
)
