"""Faults of transactions in the asyncio client: what is mixed, early, or not given back."""

from mutants.fault import Fault

PRODUCER = "client/magnetar/partition_producer.py"
TRANSACTION = "client/magnetar/transaction.py"
ACKS = "client/magnetar/transaction_acks.py"
REDELIVERING = "client/magnetar/redelivering.py"
MESSAGES_SENT = ("tests/client/test_client_transactions.py",)
ACKNOWLEDGED = ("tests/client/test_client_transaction_acks.py",)
HANDED_OVER = ("tests/client/test_client_transaction_hand_over.py",)

CLIENT_TRANSACTION_FAULTS: tuple[Fault, ...] = (
    Fault(
        PRODUCER,
        "a batch of a client mixes transactions",
        "        if txn is not self._txn:\n",
        "        if self._txn is None and txn is not None:\n",
        MESSAGES_SENT,
    ),
    Fault(
        PRODUCER,
        "a client sends to a partition before the coordinator knows it to be in the transaction",
        "            if not added.done():\n"
        "                added.add_done_callback(lambda _: self._send_waiting())\n"
        "                return None\n"
        "            if added.cancelled():\n"
        '                raise Closed(f"adding {self.topic} to {batch.txn} was cancelled")\n'
        "            added.result()\n",
        "",
        ACKNOWLEDGED,
    ),
    Fault(
        PRODUCER,
        "a client sends a message again in a transaction that may have it",
        "            self._give_up_in_transactions()\n",
        "            pass\n",
        MESSAGES_SENT,
    ),
    Fault(
        PRODUCER,
        "a client gives up messages of a transaction that it has not sent yet",
        "            if pending.batch.txn is None or not pending.is_written:\n",
        "            if pending.batch.txn is None:\n",
        MESSAGES_SENT,
    ),
    Fault(
        TRANSACTION,
        "a client commits a transaction without waiting for its parts",
        "            await self.flush()\n",
        "            pass\n",
        ACKNOWLEDGED,
    ),
    Fault(
        TRANSACTION,
        "a client commits a transaction of which a part has failed",
        "            self._failure = error\n",
        "            pass\n",
        MESSAGES_SENT,
    ),
    Fault(
        ACKS,
        "a client acknowledges all of a batch in a transaction",
        "((1 << size) - 1) & ~bits",
        "0",
        ACKNOWLEDGED,
    ),
    Fault(
        ACKS,
        "a client acknowledges a message twice in a transaction",
        "        if known & bits:\n",
        "        if False:\n",
        ACKNOWLEDGED,
    ),
    Fault(
        ACKS,
        "a client leaves out what a transaction acknowledged cumulatively and gave back",
        "            self._end.refused([self._up_to], is_cumulative=True)\n",
        "            pass\n",
        ACKNOWLEDGED,
    ),
    Fault(
        ACKS,
        "a lost acknowledgement in a transaction of a client is not sent again",
        "if answer.cancelled() or _is_lost(answer, connection):",
        "if False:",
        ACKNOWLEDGED,
    ),
    Fault(
        ACKS,
        "an id acknowledges the whole batch of its message",
        "self._add(position, 1 << index if index >= 0 else whole)",
        "self._add(position, whole)",
        ("tests/client/test_client_transaction_ids.py",),
    ),
    Fault(
        "client/magnetar/acks.py",
        "an id acknowledges the last part of its message alone",
        "return self._parts.get(position, (position,))",
        "return (position,)",
        ("tests/client/test_client_transaction_ids.py",),
    ),
    Fault(
        "client/magnetar/acking.py",
        "a client takes again what a transaction has acknowledged and not sent",
        "            individual += acks.unconfirmed()\n",
        "            pass\n",
        ACKNOWLEDGED,
    ),
    Fault(
        "client/magnetar/partition_consumer.py",
        "after an abort a client has a part of a batch twice",
        "        if delivery.redelivery_count and self.permits.queued and items:\n",
        "        if False:\n",
        ACKNOWLEDGED,
    ),
    Fault(
        "broker/magnetar_broker/subscribing/transactional_acks.py",
        "a transaction acknowledges a batch of which a part was acknowledged",
        "acked is not None and has_set and",
        "acked is not None and mask and",
        ("tests/broker/session/test_transaction_acks.py",),
    ),
    Fault(
        TRANSACTION,
        "after its timeout a client keeps what a transaction acknowledged",
        "                acks.aborts()\n                acks.aborted()\n",
        "                pass\n",
        ACKNOWLEDGED,
    ),
    Fault(
        TRANSACTION,
        "a transaction is handed over although a part of it has failed",
        "        await self._complete()\n        self._check_no_acks()",
        "        self._check_no_acks()",
        HANDED_OVER,
    ),
    Fault(
        TRANSACTION,
        "a transaction is handed over without what is acknowledged meanwhile",
        "        self._check_no_acks()  # that came meanwhile\n",
        "",
        HANDED_OVER,
    ),
    Fault(
        TRANSACTION,
        "a client commits a transaction of which a part was cancelled",
        "        if done.cancelled():\n            self.failed(",
        "        if done.cancelled():\n            print(",
        MESSAGES_SENT,
    ),
    Fault(
        PRODUCER,
        "an encoded batch is stored outside of its transaction",
        "        self._begin(txn)\n        batch = self._new_batch()\n",
        "        self._begin(None)\n        batch = self._new_batch()\n",
        HANDED_OVER,
    ),
)
