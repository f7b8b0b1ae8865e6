"""Faults of coordinators of transactions: each record of their log, and each order of steps."""

from mutants.fault import Fault

STATE = "broker/magnetar_broker/transactions/state.py"
COORDINATOR = "broker/magnetar_broker/transactions/coordinator.py"
COORDINATORS = "broker/magnetar_broker/transactions/coordinators.py"
LEFTOVERS = "broker/magnetar_broker/transactions/leftovers.py"
SESSION = "broker/magnetar_broker/session/transactions.py"

STATES = ("tests/broker/transactions/test_state.py",)
TESTS = (
    "tests/broker/transactions/test_coordinator.py",
    "tests/broker/transactions/test_coordinator_crash.py",
)
LATE = ("tests/broker/transactions/test_leftovers.py",)
COMMANDS = ("tests/broker/session/test_transactions.py",)

COORDINATOR_FAULTS = (
    Fault(
        STATE,
        "a number is used again after a crash",
        "                self.next = max(self.next, least + 1)\n",
        "",
        STATES,
    ),
    Fault(
        STATE,
        "a number is used again after a snapshot",
        "        return [*whole, records.counted(self.next)]",
        "        return whole",
        STATES,
    ),
    Fault(
        STATE,
        "a snapshot forgets which topics a transaction concerns",
        "            whole += records.added(one.least, list(one.parts))\n",
        "",
        STATES,
    ),
    Fault(
        STATE,
        "a snapshot forgets that an outcome was decided",
        "            if one.status is not Status.OPEN:\n",
        "            if one.least < 0:\n",
        STATES,
    ),
    Fault(
        STATE,
        "a snapshot forgets the outcomes of transactions that have ended",
        "for least, end in self.remembered.items()]",
        "for least, end in ()]",
        STATES,
    ),
    Fault(
        STATE,
        "the low watermark is that of a transaction that lives",
        "        return next(iter(self.transactions), self.next) - 1",
        "        return next(iter(self.transactions), self.next)",
        STATES,
    ),
    Fault(
        STATE,
        "topics are added to a transaction whose outcome is decided",
        '        """An open transaction concerns these too; False if it did already."""\n'
        "        transaction = self.open_one(least)\n",
        '        """An open transaction concerns these too; False if it did already."""\n'
        "        transaction = self.one(least)\n",
        STATES,
    ),
    Fault(
        STATE,
        "an outcome is decided twice",
        '        """The outcome of an open transaction is this."""\n'
        "        transaction = self.open_one(least)\n",
        '        """The outcome of an open transaction is this."""\n'
        "        transaction = self.one(least)\n",
        STATES,
    ),
    Fault(
        COORDINATOR,
        "a transaction is answered before its beginning is durable",
        "        await self._durable()\n        self.figures.begun += 1\n",
        "        self.figures.begun += 1\n",
        TESTS,
    ),
    Fault(
        COORDINATOR,
        "topics are answered before they are durable",
        "        if self.state.add(least, parts):\n            await self._durable()\n",
        "        if self.state.add(least, parts):\n            self.figures.steps += 1\n",
        TESTS,
    ),
    Fault(
        COORDINATOR,
        "topics are told before the outcome is durable",
        "            await self._durable()\n            await for_each(engine",
        "            await for_each(engine",
        TESTS,
    ),
    Fault(
        COORDINATOR,
        "a transaction counts as ended before its topics are told",
        "            await for_each(engine, list(transaction.parts), end_at)\n"
        "            self._check_served()\n"
        "            self.state.end(least)\n",
        "            parts = list(transaction.parts)\n"
        "            self.state.end(least)\n"
        "            self.topic.cursors.state_changed(attached_state.COORDINATOR)\n"
        "            await for_each(engine, parts, end_at)\n",
        TESTS,
    ),
    Fault(
        COORDINATOR,
        "a decided transaction does not go on after a restart",
        "        self._set_timer()\n        self.resume()\n",
        "        self._set_timer()\n",
        TESTS,
    ),
    Fault(
        COORDINATOR,
        "the timeout of an open transaction is forgotten at a restart",
        "        self._collect_deadlines()\n        self._set_timer()\n        self.resume()\n",
        "        self.resume()\n",
        TESTS,
    ),
    Fault(
        COORDINATOR,
        "the other outcome is answered as if it were this one",
        "        elif OUTCOMES[transaction.status] is not outcome:\n",
        "        elif transaction.least < 0:\n",
        TESTS,
    ),
    Fault(
        COORDINATOR,
        "a topic that cannot be told now is told no more",
        "            await self._pause()\n",
        "            return\n",
        TESTS,
    ),
    Fault(
        COORDINATORS,
        "coordinators wait for a client after a restart",
        "            elif self.serves(COORDINATORS.with_partition(number)):\n",
        "            elif number < 0:\n",
        TESTS,
    ),
    Fault(
        COORDINATORS,
        "a coordinator goes on after its partition was closed",
        "        if loaded is not None and not loaded.is_over:\n            return loaded\n",
        "        if loaded is not None:\n            return loaded\n",
        TESTS,
    ),
    Fault(
        LEFTOVERS,
        "what came after the end of a transaction stays",
        "            for txn in over.intersection(_open_on(topic)):\n",
        "            for txn in over.intersection(()):\n",
        LATE,
    ),
    Fault(
        SESSION,
        "every role ends the transactions of others",
        "    if coordinator.owner_of(least) not in (None, session.app_id):\n",
        "    if least < 0:\n",
        COMMANDS,
    ),
    Fault(
        SESSION,
        "clients do not look up again a coordinator that has moved",
        "        if isinstance(refusal, NotReady):",
        "        if not refusal.args:",
        COMMANDS,
    ),
)
