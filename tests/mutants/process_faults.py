"""Faults of the processes: how they are started, connected and stopped."""

from mutants.fault import Fault

ACKS = "broker/magnetar_broker/session/acks.py"
CHILDREN = "broker/magnetar_broker/server/children.py"
ERRORS = "broker/magnetar_broker/base/errors.py"
PROCESS = "broker/magnetar_broker/server/process.py"
REFUSALS = "broker/magnetar_broker/session/refusals.py"
LIVENESS = "broker/magnetar_broker/server/process_liveness.py"
SHARE = "broker/magnetar_broker/limits/worker_share.py"
SUPERVISOR = "broker/magnetar_broker/server/supervisor.py"
WORKER = "broker/magnetar_broker/server/worker.py"
TESTS = ("tests/broker/server/test_supervisor.py",)

OF_TRANSIENT = ("tests/broker/session/test_transient_errors.py",)
OF_LIVENESS = ("tests/broker/server/test_process_liveness.py",)
OF_SHARE = ("tests/broker/limits/test_worker_share.py",)

ROLLING = ("tests/broker/server/test_rolling_restart.py",)

PROCESS_FAULTS: tuple[Fault, ...] = (
    Fault(
        SUPERVISOR,
        "a reload restarts the next worker before the one before it is ready",
        "worker.generation > generation and (worker.ready or not worker.runs)",
        "worker.generation > generation",
        ROLLING,
    ),
    Fault(
        SUPERVISOR,
        "a reload stops a worker whose bundles nobody else has",
        "        if not self._serve_until(lambda: drained in self._answers):\n",
        "        if not self._goes_on:\n",
        ROLLING,
    ),
    Fault(
        SUPERVISOR,
        "a worker that cannot start with a changed configuration never runs again",
        "            worker.role.run = former\n",
        "",
        ROLLING,
    ),
    Fault(
        "broker/magnetar_broker/server/several.py",
        "a reload that did not reach all workers is taken as done",
        "if not values and self._next is self._prepared:",
        "if not values:",
        ("tests/broker/server/test_reload.py",),
    ),
    Fault(
        "broker/magnetar_broker/names/dynamic_settings.py",
        "a reload that contradicts a changed setting is not followed",
        "await self._follow(self._allowed(self._started_with, self.values))",
        "await self._follow(self.values)",
        ("tests/clients/test_reload.py",),
    ),
    Fault(
        "broker/magnetar_broker/server/reload.py",
        "a reload changes what only a restart can change",
        "        if key.reloads:\n            values",
        "        if True:\n            values",
        ("tests/broker/server/test_reload.py",),
    ),
    Fault(
        "broker/magnetar_broker/names/draining.py",
        "a worker that was restarted does not get its bundles back",
        "self._former.pop(worker, [])",
        "[]",
        ("tests/broker/names/test_draining.py",),
    ),
    Fault(
        "broker/magnetar_broker/names/draining.py",
        "new namespaces go to a worker that is about to be restarted",
        "        placement.drained.add(worker)\n",
        "",
        ("tests/broker/names/test_draining.py",),
    ),
    Fault(
        SUPERVISOR,
        "a process that hangs is not killed",
        "        child.kill()\n\n    # Events",
        "\n    # Events",
        TESTS,
    ),
    Fault(
        LIVENESS,
        "processes are killed for time in which the supervisor did not run",
        "min(now - self._read_at, self.report_seconds)",
        "now - self._read_at",
        (*OF_LIVENESS, *TESTS),
    ),
    Fault(
        LIVENESS,
        "what comes from a process does not end its silence",
        "            self.begin(name)\n",
        "            pass\n",
        OF_LIVENESS,
    ),
    Fault(
        PROCESS,
        "a process that runs does not report it",
        "self.clock.later(self.context.report_seconds, self._report_alive)",
        "self.clock.later(1e9, self._report_alive)",
        ("tests/broker/server/test_hung_worker.py",),
    ),
    Fault(
        SUPERVISOR,
        "a broker that has served ends when it cannot be started again at once",
        "            except (StartFailed, OSError) as error:\n",
        "            except ConnectionError as error:\n",
        TESTS,
    ),
    Fault(
        PROCESS,
        "a start waits for a worker that has ended, until it is killed",
        "            working.cancel()\n",
        "            pass\n",
        ("tests/broker/server/test_worker.py",),
    ),
    Fault(
        SHARE,
        "a publish buffer without limit becomes one of 1 MB with several workers",
        "if limit > 0 else limit",
        "if limit else limit",
        OF_SHARE,
    ),
    Fault(
        SHARE,
        "several workers together publish more than the broker's rate",
        "        broker_publisher_throttling_max_message_rate=part(\n"
        "            settings.broker_publisher_throttling_max_message_rate\n"
        "        ),\n",
        "",
        OF_SHARE,
    ),
    Fault(
        CHILDREN,
        "a terminal's Ctrl-C ends the processes out of order",
        "            signal.signal(number, signal.SIG_IGN)\n",
        "            signal.signal(number, signal.SIG_DFL)\n",
        TESTS,
    ),
    Fault(
        SUPERVISOR,
        "processes keep each other alive when the supervisor is dead",
        "            if child is own or child.runs:\n",
        "            if child is own:\n",
        TESTS,
    ),
    Fault(
        SUPERVISOR,
        "the controller is stopped together with the workers",
        "        self._stop_together(self._workers, reason, deadline)\n"
        "        self._stop_together([self._controller], reason, deadline)\n",
        "        self._stop_together(self._children, reason, deadline)\n",
        TESTS,
    ),
    Fault(
        SUPERVISOR,
        "a worker that is started again is not connected",
        "            if other is not child and other.runs:\n",
        "            if other is not child and other.runs and child.generation == 1:\n",
        TESTS,
    ),
    Fault(
        SUPERVISOR,
        "the broker counts as ready before its last worker is",
        "all(child.ready for child in self._children)",
        "any(child.ready for child in self._children)",
        TESTS,
    ),
    Fault(
        SUPERVISOR,
        "a stop waits for a process that does not end",
        "            deadline,\n        )\n",
        "        )\n",
        TESTS,
    ),
    Fault(
        WORKER,
        "a worker goes on without the controller",
        "        controller.when_ended(self._process.stop)\n",
        "",
        ("tests/broker/server/test_worker_end.py",),
    ),
    Fault(
        ERRORS,
        "clients take the end of a process for a failure of storage",
        "TRANSIENT = (LogClosed, ProcessUnavailable)",
        "TRANSIENT = (LogClosed,)",
        ("tests/broker/server/test_ended_processes.py",),
    ),
    Fault(
        ERRORS,
        "clients take the end of a topic for a failure of storage",
        "TRANSIENT = (LogClosed, ProcessUnavailable)",
        "TRANSIENT = (ProcessUnavailable,)",
        OF_TRANSIENT,
    ),
    Fault(
        REFUSALS,
        "a lookup or a seek that a process has ended is refused as a failure of storage",
        " and not isinstance(error, TRANSIENT)",
        "",
        OF_TRANSIENT,
    ),
    Fault(
        ACKS,
        "an acknowledgement that a process has ended is refused as a failure of storage",
        "as_refusal(error) or PersistenceTrouble(str(error))",
        "PersistenceTrouble(str(error))",
        OF_TRANSIENT,
    ),
)
