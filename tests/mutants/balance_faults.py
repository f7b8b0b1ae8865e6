"""Faults of balancing: bundles move although nothing is gained, or too often, or not at all."""

from mutants.fault import Fault

NAMES = "broker/magnetar_broker/names/"
BALANCE = f"{NAMES}balance.py"
BALANCING = f"{NAMES}balancing.py"
DECISIONS = ("tests/broker/names/test_balance.py",)
TESTS = ("tests/broker/names/test_balancing.py",)

BALANCE_FAULTS = (
    Fault(
        BALANCE,
        "a bundle with all the traffic moves back and forth at every round",
        "            if higher < lowest:\n",
        "            if higher <= busiest:\n",
        DECISIONS,
    ),
    Fault(
        BALANCE,
        "a bundle that has just moved moves again",
        "and bundle not in kept",
        "",
        DECISIONS,
    ),
    Fault(
        BALANCING,
        "a short imbalance moves a bundle",
        "            and before.busiest == found.busiest\n",
        "",
        TESTS,
    ),
    Fault(
        BALANCING,
        "the load of a worker that was started again is measured from its predecessor",
        "before.link is link and now.at > before.at",
        "now.at > before.at",
        TESTS,
    ),
    Fault(
        BALANCING,
        "workers are compared although one is not known",
        "        if len(self._loads) < self._owners.workers or self._drained:\n",
        "        if not self._loads or self._drained:\n",
        TESTS,
    ),
    Fault(
        BALANCING,
        "bundles move to a worker that is about to be restarted",
        " or self._drained:\n",
        ":\n",
        TESTS,
    ),
    Fault(
        BALANCING,
        "moves of balancing are not remembered",
        "            self._moved[bundle] = self._clock.now_ms()\n",
        "",
        TESTS,
    ),
    Fault(
        BALANCING,
        "new bundles are given by number though workers are busy",
        "            placement.load_of = self.load_of\n",
        "            pass\n",
        TESTS,
    ),
)
