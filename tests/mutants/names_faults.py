"""Faults of a directory of names whose topics are loaded in other processes."""

from mutants.fault import Fault

NAMES = "broker/magnetar_broker/names/"
DISTRIBUTED = f"{NAMES}distributed.py"
REQUESTS = f"{NAMES}requests.py"
REMOTE = f"{NAMES}remote.py"
SHARED = "broker/magnetar_broker/policies/shared.py"
TESTS = ("tests/broker/names/test_distributed.py",)
HISTORIES = ("tests/broker/names/test_distributed_histories.py",)
PROCESSES = ("tests/broker/server/test_several_processes.py",)

NAMES_FAULTS = (
    Fault(
        DISTRIBUTED,
        "topics are loaded by another worker than the one that serves them",
        'self.link_of(name).request("residence.load"',
        'self.links()[-1 - self._owners.worker_of(name)].request("residence.load"',
        HISTORIES,
    ),
    Fault(
        DISTRIBUTED,
        "a change of policies is answered when one worker has applied it",
        "        await for_each(self._runtime, self.links(), apply)\n",
        "        await for_each(self._runtime, self.links()[:1], apply)\n",
        HISTORIES,
    ),
    Fault(
        SHARED,
        "a worker that is started again does not know the policies",
        "        for subject, stored in self.all():\n            _send(link, subject, stored)\n",
        "",
        TESTS,
    ),
    Fault(
        SHARED,
        "a changed policy is not sent to the workers",
        "which leaves them\n            _send(link, subject, stored)\n",
        "which leaves them\n            pass\n",
        TESTS,
    ),
    Fault(
        DISTRIBUTED,
        "a change of policies is answered before all workers know it",
        "await for_each(self._runtime, self.links(), apply)",
        "await for_each(self._runtime, self.links()[:1], apply)",
        TESTS,
    ),
    Fault(
        DISTRIBUTED,
        "topics of a worker that ended are thought to be loaded",
        "for name in [name for name, owner in self._loaded.items() if owner is link]:",
        "for name in list[TopicName]():",
        TESTS,
    ),
    Fault(
        DISTRIBUTED,
        "a worker that is started again before its end was noticed does not take its place",
        "            self._links[worker].close()  # of the",
        "            pass  # of the",
        TESTS,
    ),
    Fault(
        DISTRIBUTED,
        "a worker that ends keeps those waiting that change policies",
        "        if link.has_ended:\n            return of_ended\n",
        "",
        TESTS,
    ),
    Fault(
        DISTRIBUTED,
        "partitions in use on another worker are deleted",
        "            if not await _answer(link, asked, True):\n",
        "            if not await _answer(link, asked, True) and not evicted:\n",
        TESTS,
    ),
    Fault(
        DISTRIBUTED,
        "a worker that stops is given topics",
        "if link is None or link in self._leaving:",
        "if link is None:",
        TESTS,
    ),
    Fault(
        REQUESTS,
        "two workers load one topic",
        "        if not self._is_served(name):\n",
        "        if False:\n",
        TESTS,
    ),
    Fault(
        REQUESTS,
        "a worker stops while it is given a topic",
        "        await self._directory.locks.settled(self._is_served)\n",
        "",
        TESTS,
    ),
    Fault(
        REQUESTS,
        "the lists of a worker that ended are watched for ever",
        "        link.when_ended(requests.end)\n",
        "",
        TESTS,
    ),
    Fault(
        REMOTE,
        "changes of a list between its answer and its watcher are lost",
        "            self._early.append((changes, new_hash))\n",
        "            pass\n",
        TESTS,
    ),
    Fault(
        f"{NAMES}directory.py",
        "a topic that is deleted gets a schema",
        "        if not self.residence.is_loaded(name):\n            raise NotReady",
        "        if False:\n            raise NotReady",
        TESTS,
    ),
    Fault(
        "broker/magnetar_broker/server/admin/linked_owners.py",
        "a refusal of another process has another status",
        "        return error.status, str(error)",
        "        return 500, str(error)",
        PROCESSES,
    ),
    Fault(
        "broker/magnetar_broker/server/linked_health.py",
        "the health check passes although a worker is not there",
        "        if missing := self._residence.missing():",
        "        if missing := list[int]():",
        PROCESSES,
    ),
    Fault(
        "broker/magnetar_broker/server/linked_health.py",
        "the health check passes although a worker is not healthy",
        "        if trouble is not None:\n",
        "        if False:\n",
        PROCESSES,
    ),
)
