"""Faults of topics and subscriptions in transactions: each marker, record and limit."""

from mutants.fault import Fault

BUFFER = "broker/magnetar_broker/publishing/transaction_buffer.py"
HIDDEN = "broker/magnetar_broker/publishing/hidden_entries.py"
APPENDER = "broker/magnetar_broker/publishing/appender.py"
ENTRY_CHECKS = "broker/magnetar_broker/session/entry_checks.py"
PUBLISHING = "broker/magnetar_broker/session/publishing.py"
TIDYING = "broker/magnetar_broker/lifetime/tidying.py"
SUBSCRIPTION = "broker/magnetar_broker/subscribing/subscription.py"
ACKS = "broker/magnetar_broker/subscribing/transactional_acks.py"
ACKNOWLEDGING = "broker/magnetar_broker/subscribing/acknowledging.py"
PENDING = "storage/magnetar_storage/cursors/pending_acks.py"
VIEW = "storage/magnetar_storage/cursors/delivery_cursor.py"
LOG = "storage/magnetar_storage/log/log.py"
FEED = "broker/magnetar_broker/dispatch/feed.py"
MANY_ACTIVE = "broker/magnetar_broker/dispatch/many_active.py"
COMPACTION = "broker/magnetar_broker/compaction/run.py"

TESTS = (
    "tests/broker/session/test_transaction_publishing.py",
    "tests/broker/session/test_transaction_acks.py",
    "tests/broker/topic/test_transactions_model.py",
)
TOPIC = "broker/magnetar_broker/topic/topic.py"
DEDUPLICATION_TESTS = ("tests/broker/publishing/test_deduplication.py",)
COMPACTING = ("tests/broker/compaction/test_transactions.py",)

TRANSACTION_FAULTS = (
    Fault(
        LOG,
        "what is durable is visible, whatever transaction is open",
        "end if end < log.visible_limit else log.visible_limit",
        "end",
        TESTS,
    ),
    Fault(
        FEED,
        "a subscription reads on behind an open transaction",
        "min(log.segment_end(offset), log.visible_end)",
        "log.segment_end(offset)",
        TESTS,
    ),
    Fault(
        APPENDER,
        "the first transaction of a topic is not stored before its messages",
        "            error = await self._transactions.begin()\n",
        "",
        TESTS,
    ),
    Fault(
        APPENDER,
        "the buffer does not learn of messages in transactions",
        "            self._transactions.appended(sends, sends.txn)\n",
        "            pass\n",
        TESTS,
    ),
    Fault(
        BUFFER,
        "a transaction ends before its marker is durable",
        "        await promise\n\n    def _settle",
        "\n    def _settle",
        TESTS,
    ),
    Fault(
        BUFFER,
        "a commit is marked as an abort",
        "Outcome.COMMIT: COMMIT_MARKER",
        "Outcome.COMMIT: ABORT_MARKER",
        TESTS,
    ),
    Fault(
        BUFFER,
        "an abort is marked as a commit",
        "Outcome.ABORT: ABORT_MARKER",
        "Outcome.ABORT: COMMIT_MARKER",
        TESTS,
    ),
    Fault(
        BUFFER,
        "a marker is delivered",
        "            hidden.add(marker, marker + 1)\n",
        "            pass\n",
        TESTS,
    ),
    Fault(
        BUFFER,
        "aborted messages are not hidden",
        "            hidden = one.entries\n",
        "            pass\n",
        TESTS,
    ),
    Fault(
        BUFFER,
        "what is hidden is not known to new subscriptions",
        "            self._log.hidden = self._hidden.offsets\n",
        "",
        TESTS,
    ),
    Fault(
        BUFFER,
        "what is hidden is not known after a load",
        "            log.hidden = hidden.offsets\n",
        "",
        TESTS,
    ),
    Fault(
        BUFFER,
        "entries are not read when the topic is loaded",
        "            await buffer._replay()\n",
        "",
        TESTS,
    ),
    Fault(
        BUFFER,
        "a topic that is loaded delivers what is in open transactions",
        "        self._limit()\n        self.write()\n",
        "        self.write()\n",
        TESTS,
    ),
    Fault(
        BUFFER,
        "the state covers the entries of open transactions",
        "            self._hidden.cover(self._log.visible_end)\n            self.written_ms",
        "            self._hidden.cover(self._log.end)\n            self.written_ms",
        TESTS,
    ),
    Fault(
        BUFFER,
        "entries of open transactions are deleted",
        "        return min(offset, self._settled)\n",
        "        return offset\n",
        TESTS,
    ),
    Fault(
        TIDYING,
        "entries are deleted that a load would need",
        "        released = await topic.transactions.released_to(released)\n",
        "",
        TESTS,
    ),
    Fault(
        BUFFER,
        "a terminated topic forgets how transactions ended",
        "            self._hidden.end(txn, outcome)\n",
        "",
        TESTS,
    ),
    Fault(
        BUFFER,
        "messages that came too late hold a topic for ever",
        "            await self._end(one, Outcome.ABORT)\n",
        "            pass\n",
        TESTS,
    ),
    Fault(
        BUFFER,
        "a transaction that has ended takes messages",
        "if txn not in self.ended and (one",
        "if (one",
        TESTS,
    ),
    Fault(
        HIDDEN,
        "a change does not have what is hidden",
        "        return [*_ranges(new), *self._ends(self._new_ended), self._cover()]",
        "        return [*self._ends(self._new_ended), self._cover()]",
        TESTS,
    ),
    Fault(
        HIDDEN,
        "a snapshot does not have what is hidden",
        "        pieces = _ranges(ranges)\n",
        "        pieces: list[bytes] = []\n",
        TESTS,
    ),
    Fault(
        ENTRY_CHECKS,
        "metadata may pretend to be in a transaction",
        "    if txn is not UNCHECKED and not _may_be_in(entry, txn):\n        return PRETENDED\n",
        "",
        TESTS,
    ),
    Fault(
        PUBLISHING,
        "the metadata of usual messages may pretend to be in a transaction",
        "not (transactional and named(",
        "not (False and named(",
        TESTS,
    ),
    Fault(
        PUBLISHING,
        "a message of a transaction is stored as it came, without the transaction",
        "        entry = with_transaction(entry, *txn)  # a load of the topic reads it\n",
        "",
        TESTS,
    ),
    Fault(
        PUBLISHING,
        "messages behind those of a transaction join it",
        "        if run is not None and run.txn is not None:",
        "        if False:",
        TESTS,
    ),
    Fault(
        SUBSCRIPTION,
        "an ACK in a transaction is answered before it is durable",
        "            self.topic.cursors.state_changed(PENDING_ACKS, done)\n            return\n",
        "            self.topic.cursors.state_changed(PENDING_ACKS)\n",
        TESTS,
    ),
    Fault(
        SUBSCRIPTION,
        "the end of a transaction at a subscription is not written",
        "        self._store_pending(None)\n        self._write_soon()\n",
        "",
        TESTS,
    ),
    Fault(
        SUBSCRIPTION,
        "the end of a transaction at a subscription is answered before it is durable",
        "            self.notify_end()\n        await self.settled()\n",
        "            self.notify_end()\n",
        TESTS,
    ),
    Fault(
        SUBSCRIPTION,
        "an abort delivers nothing again",
        "            self.dispatcher.restore(again)\n",
        "            pass\n",
        TESTS,
    ),
    Fault(
        SUBSCRIPTION,
        "an abort is no redelivery",
        "        self.cursor.count_redelivery(again)\n",
        "",
        TESTS,
    ),
    Fault(
        SUBSCRIPTION,
        "what is pending is delivered after a load",
        "            self._in_transactions()\n            self.dispatcher.rewind()\n",
        "            pass\n",
        TESTS,
    ),
    Fault(
        SUBSCRIPTION,
        "a deleted subscription leaves its pending acknowledgements",
        "                self.topic.pending_acks.forget(self.cursor.number)\n",
        "                pass\n",
        TESTS,
    ),
    Fault(
        ACKNOWLEDGING,
        "a plain acknowledgement is not known to delivery",
        "            self.view.ack_scattered(offsets)\n",
        "            pass\n",
        TESTS,
    ),
    Fault(
        ACKS,
        "two transactions acknowledge one message",
        "            if other != txn and self._holds(one, offset, mask):",
        "            if False:",
        TESTS,
    ),
    Fault(
        ACKS,
        "an acknowledged message is acknowledged in a transaction",
        "        if self._cursor.is_acked(offset):\n"
        '            self._conflict(txn, offset, "it is acknowledged already")\n'
        "        acked =",
        "        acked =",
        TESTS,
    ),
    Fault(
        ACKS,
        "a commit acknowledges nothing",
        "            found.apply_to(self._cursor)\n",
        "            pass\n",
        TESTS,
    ),
    Fault(
        ACKS,
        "an abort leaves its messages out of delivery",
        "        if not all(self.view.take_back(one) for one in aborted):\n"
        "            self.refresh()\n",
        "",
        TESTS,
    ),
    Fault(
        PENDING,
        "whole entries are not written",
        "            self._new += _entries(number, txn, runs)\n",
        "            pass\n",
        TESTS,
    ),
    Fault(
        PENDING,
        "parts of batches are not written",
        "        self._new.append(_masked(Kind.MASK, number, txn, offset, mask))\n",
        "",
        TESTS,
    ),
    Fault(
        PENDING,
        "cumulative acknowledgements are not written",
        "        self._new.append(_masked(Kind.UP_TO, number, txn, offset, mask))\n",
        "",
        TESTS,
    ),
    Fault(
        PENDING,
        "the end of a transaction is not written",
        "            self._new.append(_HEAD.pack(Kind.ENDED, number, *txn))\n",
        "            pass\n",
        TESTS,
    ),
    Fault(
        VIEW,
        "a view forgets what is pending",
        "        for one in pending:\n            one.apply_to(self)\n",
        "",
        TESTS,
    ),
    Fault(
        MANY_ACTIVE,
        "the rest of a batch is not delivered again",
        "            self._return(consumer, [offset for offset in offsets "
        "if offset in consumer.pending])\n",
        "            pass\n",
        TESTS,
    ),
    Fault(
        COMPACTION,
        "compaction keeps aborted messages",
        "next_in_neither(log.holes, log.hidden, at)",
        "log.holes.next_missing(at)",
        COMPACTING,
    ),
    Fault(
        COMPACTION,
        "compaction reads aborted messages with those before them",
        "        stop = min(stop, self._log.hidden.next_present(at) or stop)\n",
        "",
        COMPACTING,
    ),
    Fault(
        COMPACTION,
        "compaction reads what is in open transactions",
        "self._end = log.visible_end",
        "self._end = log.end",
        COMPACTING,
    ),
    Fault(
        TOPIC,
        "producers and copies that wait for a marker wait for the next message",
        "        self.deduplication.marked()\n",
        "",
        DEDUPLICATION_TESTS,
    ),
)
