"""Faults of names, policies, schemas, compaction, retention and HTTP."""

from mutants.fault import Fault

POLICIES = (
    "tests/broker/names/test_policy_enforcement.py",
    "tests/broker/policies/test_policies.py",
)
SCHEMAS = ("tests/broker/schemas/test_schema_registry.py",)
DELETION = ("tests/broker/names/test_deletion.py",)
COMPACTION = (
    "tests/broker/compaction/test_compaction.py",
    "tests/broker/compaction/test_compaction_crash.py",
)
REGISTRY = "broker/magnetar_broker/schemas/registry.py"
TOPIC_COMPACTION = "broker/magnetar_broker/compaction/topic_compaction.py"

ADMIN_FAULTS: tuple[Fault, ...] = (
    Fault(
        "broker/magnetar_broker/names/policy_enforcement.py",
        "loaded topics do not apply a new policy",
        "            await self._store(subject, values)\n"
        "            await self._enforce(subject)\n",
        "            await self._store(subject, values)\n",
        POLICIES,
    ),
    Fault(
        "broker/magnetar_broker/policies/stored.py",
        "a policy is in effect before it is durable",
        "                version = await self._put(key, changed, stored)\n",
        "                self.learn(subject, StoredPolicies(key, changed, stored.version))\n"
        "                version = await self._put(key, changed, stored)\n",
        POLICIES,
    ),
    Fault(
        REGISTRY,
        "a schema's version is given out before it is stored",
        "if await self._store(name, History(number + 1, grown, history.stored)):",
        "if self._learn(name, History(number + 1, grown, history.stored)):",
        SCHEMAS,
    ),
    Fault(
        REGISTRY,
        "versions whose history is gone already outlive their namespace",
        '        names.update(key.removeprefix(RECORDS).rpartition("/")[0] for key in records)\n',
        "",
        SCHEMAS,
    ),
    Fault(
        "broker/magnetar_broker/names/topic_deletion.py",
        "the policies and the schema of a topic outlive it",
        "        await self._delete_attached(name)\n"
        "        await self._catalogue.delete_partitioned(name)\n",
        "        await self._catalogue.delete_partitioned(name)\n",
        DELETION,
    ),
    Fault(
        "broker/magnetar_broker/names/topic_deletion.py",
        "a deletion ends before everything is deleted",
        "        await for_each(self._runtime, sorted({*members, *family}),",
        "        await self._pending.end(str(name))\n"
        "        await for_each(self._runtime, sorted({*members, *family}),",
        DELETION,
    ),
    Fault(
        "broker/magnetar_broker/names/deletion.py",
        "a crash leaves the policies of a namespace that was not created",
        "                await self.pending.begin(name)\n                await create()\n",
        "                await create()\n",
        ("tests/broker/names/test_creation.py",),
    ),
    Fault(
        TOPIC_COMPACTION,
        "what is being compacted is not held",
        "            await self._hold()\n            self._check_open()\n",
        "            self._check_open()\n",
        COMPACTION,
    ),
    Fault(
        TOPIC_COMPACTION,
        "compacted messages are not found when the log behind them is gone",
        ">= max(self.view.horizon, self._log.first_offset)",
        ">= self.view.horizon",
        COMPACTION,
    ),
    Fault(
        "storage/magnetar_storage/compacted/compacted_writer.py",
        "compacted data is listed before it is durable",
        "        await part.seal()\n",
        "",
        COMPACTION,
    ),
    Fault(
        "broker/magnetar_broker/policies/retention.py",
        "only the fastest subscription keeps its messages",
        "slowest = min((need.mark_delete",
        "slowest = max((need.mark_delete",
        ("tests/broker/policies/test_retention.py",),
    ),
    Fault(
        "broker/magnetar_broker/lifetime/expiry.py",
        "the time to live is half as long",
        "    since_ms = topic.log.engine.clock.now_ms() - seconds * 1000\n",
        "    since_ms = topic.log.engine.clock.now_ms() - seconds * 500\n",
        ("tests/broker/lifetime/test_expiry.py",),
    ),
    Fault(
        "broker/magnetar_broker/server/http/connection.py",
        "an answer without content has a type",
        "            if body:  # a type",
        "            if True:  # a type",
        ("tests/broker/server/test_http_connection.py",),
    ),
    Fault(
        "broker/magnetar_broker/server/http/connection.py",
        "a client of the HTTP port that does not read is answered without a limit",
        "    def pause_writing(self) -> None:\n        self._full = True\n",
        "    def pause_writing(self) -> None:\n        self._full = False\n",
        ("tests/broker/server/test_http_connection.py",),
    ),
    Fault(
        "broker/magnetar_broker/session/producers.py",
        "a full quota does not keep a new producer away",
        "        await admit_producer(topic)\n",
        "        pass\n",
        ("tests/broker/official/test_official_quotas.py",),
    ),
)
