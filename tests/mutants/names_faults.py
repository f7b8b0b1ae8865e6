"""Faults of a directory of names whose topics are loaded in other processes."""

from mutants.fault import Fault

NAMES = "broker/magnetar_broker/names/"
DISTRIBUTED = f"{NAMES}distributed.py"
WORKER_LINKS = f"{NAMES}worker_links.py"
PLACEMENT = f"{NAMES}placement.py"
MOVES = f"{NAMES}bundle_changes.py"
REQUESTS = f"{NAMES}requests.py"
REMOTE = f"{NAMES}remote.py"
SHARED = "broker/magnetar_broker/policies/shared.py"
TESTS = ("tests/broker/names/test_distributed.py", "tests/broker/names/test_bundle_changes.py")
HISTORIES = ("tests/broker/names/test_distributed_histories.py",)
SPLITS = ("tests/broker/names/test_bundle_splits.py",)
PROCESSES = ("tests/broker/server/test_several_processes.py",)
HEALTH = ("tests/broker/server/test_health_of_workers.py",)
OWNED = ("tests/broker/server/test_owned_bundles.py",)

NAMES_FAULTS = (
    Fault(
        DISTRIBUTED,
        "topics are loaded by another worker than the one that serves them",
        "        link = await self._owner_of(name)\n        if self._loaded",
        "        link = self.links.all()[0]\n        if self._loaded",
        HISTORIES,
    ),
    Fault(
        DISTRIBUTED,
        "a change of policies is answered when one worker has applied it",
        "        await for_each(self._runtime, self.links.all(), apply)\n",
        "        await for_each(self._runtime, self.links.all()[:1], apply)\n",
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
        "await for_each(self._runtime, self.links.all(), apply)",
        "await for_each(self._runtime, self.links.all()[:1], apply)",
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
        WORKER_LINKS,
        "a worker that is started again before its end was noticed does not take its place",
        "            self._links[worker].close()  # of the",
        "            pass  # of the",
        TESTS,
    ),
    Fault(
        WORKER_LINKS,
        "a worker that ends keeps those waiting that change policies",
        "        if link.has_ended:\n            return of_ended\n",
        "",
        TESTS,
    ),
    Fault(
        DISTRIBUTED,
        "partitions in use on another worker are deleted",
        "            if not await unless_ended(link, asked, True):\n",
        "            if not await unless_ended(link, asked, True) and not evicted:\n",
        TESTS,
    ),
    Fault(
        WORKER_LINKS,
        "a worker that stops is given topics",
        "return None if link in self._leaving else link",
        "return link",
        TESTS,
    ),
    Fault(
        REQUESTS,
        "two workers load one topic",
        "        if await self._requests.placement.worker_of(name) != self._worker:\n",
        "        if False:\n",
        TESTS,
    ),
    Fault(
        REQUESTS,
        "a worker stops while it is given a topic",
        "        await self._directory.locks.settled(self._is_concerned)\n",
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
        "        if missing:\n",
        "        if False:\n",
        HEALTH,
    ),
    Fault(
        "broker/magnetar_broker/server/linked_health.py",
        "the health check passes although a worker is not healthy",
        "        if trouble is not None:\n",
        "        if False:\n",
        HEALTH,
    ),
    Fault(
        "broker/magnetar_broker/server/linked_health.py",
        "the health check of one worker depends on others",
        "            missing = [name for name in missing if name == process]\n",
        "",
        HEALTH,
    ),
    Fault(
        "broker/magnetar_broker/server/admin/brokers.py",
        "the only process cannot be named as brokers list it",
        "    named = processes.get(text) or (name",
        "    named = (name",
        OWNED,
    ),
    Fault(
        f"{NAMES}ownership.py",
        "the bundles of a deleted namespace are listed as owned",
        "        self._used.discard(namespace)\n",
        "",
        OWNED,
    ),
    Fault(
        f"{NAMES}opening.py",
        "a topic whose bundle moves is used although its former owner has it",
        "            if self._residence.is_in_place(name):\n                return\n",
        "            if self._residence.is_loaded(name):\n                return\n",
        TESTS,
    ),
    Fault(
        DISTRIBUTED,
        "a topic is loaded although its former owner has not closed it",
        "        await self.unload(name)  # by",
        "        # by",
        TESTS,
    ),
    Fault(
        MOVES,
        "a topic that its former owner was loading stays there",
        "            await self._locks.settled(in_bundle)\n",
        "",
        TESTS,
    ),
    Fault(
        MOVES,
        "a moved bundle's topics stay loaded by the former owner",
        "            await for_each(self._runtime, names, self._opening.move)\n",
        "",
        TESTS,
    ),
    Fault(
        MOVES,
        "topics of a bundle that is split stay open although they should be unloaded",
        "            if unload:\n",
        "            if False:\n",
        OWNED,
    ),
    Fault(
        MOVES,
        "topics are closed although their bundle is only split",
        "            if unload:\n",
        "            if True:\n",
        OWNED,
    ),
    Fault(
        PLACEMENT,
        "a split changes what is stored, and not the table of owners",
        "                self._place(namespace, placed.adapted(bundles))\n",
        "                pass\n",
        TESTS,
    ),
    Fault(
        f"{NAMES}bundle_owners.py",
        "the upper part of a split bundle gets another owner",
        "self.workers[self.bundles.index_at(low)] for low in lows",
        "self.workers[index % len(self.workers)] for index, low in enumerate(lows)",
        TESTS,
    ),
    Fault(
        f"{NAMES}bundle_splits.py",
        "a split by the number of topics divides anywhere between two topics",
        "    return min(found)[1]\n",
        "    return found[0][1]\n",
        SPLITS,
    ),
    Fault(
        f"{NAMES}bundle_splits.py",
        "a split by the number of topics counts those of other bundles",
        " if low <= value < end)",
        ")",
        SPLITS,
    ),
    Fault(
        f"{NAMES}bundles.py",
        "a bundle is divided at a position outside of it",
        "            if not low < value < high:\n",
        "            if False:\n",
        SPLITS,
    ),
    Fault(
        PLACEMENT,
        "a move is complete before the workers know it",
        "            await unless_ended(link, answer, None)\n",
        "            pass\n",
        TESTS,
    ),
    Fault(
        PLACEMENT,
        "the owners of a deleted namespace's bundles are kept",
        "        self.owners.forget(namespace)\n",
        "",
        TESTS,
    ),
    Fault(
        DISTRIBUTED,
        "any worker may write the metadata of any topic",
        "return link in (self._loaded.get(name), self._in_change.get(name))",
        "return True",
        TESTS,
    ),
    Fault(
        DISTRIBUTED,
        "a worker that joins does not know the owners of bundles",
        "            link.notify(PLACED, *values_of(namespace, placed))\n        self.links.join",
        "            pass\n        self.links.join",
        TESTS,
    ),
    Fault(
        PLACEMENT,
        "a namespace that is deleted during a move has owners again",
        "            now = self.owners.of(namespace)\n",
        "            now = self.owners.of(namespace) or placed\n",
        TESTS,
    ),
    Fault(
        f"{NAMES}stored_bundles.py",
        "a namespace that does not exist has owners",
        "            raise missing(namespace)\n        return self.within(fields)",
        "            fields = {}\n        return self.within(fields)",
        TESTS,
    ),
    Fault(
        PLACEMENT,
        "a worker that is not there is given bundles that another one could have",
        "self._links.loading(worker) is None, ",
        "False, ",
        TESTS,
    ),
    Fault(
        "broker/magnetar_broker/server/last_ids.py",
        "a worker whose store fails takes bundles over",
        "suppress(ProcessUnavailable):  # it has ended, and joins again, as",
        "suppress(Exception):  # it has ended, and joins again, as",
        ("tests/broker/server/test_last_ids.py",),
    ),
)
