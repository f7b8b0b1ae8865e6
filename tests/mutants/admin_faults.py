"""Faults of names, policies, schemas, compaction and retention."""

from mutants.fault import Fault

POLICIES = ("tests/broker/test_enforcement.py", "tests/broker/test_policies.py")
SCHEMAS = ("tests/broker/test_schema_registry.py",)
DELETION = ("tests/broker/test_deletion.py",)
COMPACTION = ("tests/broker/test_compaction.py", "tests/broker/test_compaction_crash.py")
REGISTRY = "broker/magnetar_broker/schemas/registry.py"
TOPIC_COMPACTION = "broker/magnetar_broker/compaction/topic_compaction.py"

ADMIN_FAULTS: tuple[Fault, ...] = (
    Fault(
        "broker/magnetar_broker/enforcement.py",
        "loaded topics do not keep to a new policy",
        "            await self._store(subject, said)\n            await self._enforce(subject)\n",
        "            await self._store(subject, said)\n",
        POLICIES,
    ),
    Fault(
        "broker/magnetar_broker/policies/resolver.py",
        "a policy holds before it is durable",
        "                version = await self._put(key, values, stored)\n",
        "                self._learn(subject, Stored(key, values, stored.version))\n"
        "                version = await self._put(key, values, stored)\n",
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
        "broker/magnetar_broker/names/deletion.py",
        "what a topic says, and its schema, outlive it",
        "        await self._forget(name)\n"
        "        await self._catalogue.delete_partitioned(name)\n",
        "        await self._catalogue.delete_partitioned(name)\n",
        DELETION,
    ),
    Fault(
        "broker/magnetar_broker/names/deletion.py",
        "a deletion is over before everything is gone",
        "            await for_each(self._engine, await self._catalogue.family(name),",
        "            await self._end(str(name))\n"
        "            await for_each(self._engine, await self._catalogue.family(name),",
        DELETION,
    ),
    Fault(
        TOPIC_COMPACTION,
        "what is being compacted is not held",
        "            await self._hold()\n            self._topic.check_open()\n",
        "            self._topic.check_open()\n",
        COMPACTION,
    ),
    Fault(
        TOPIC_COMPACTION,
        "compacted messages are not found when the log behind them is gone",
        "> max(self.view.horizon, self._topic.log.first_offset)",
        "> self.view.horizon",
        COMPACTION,
    ),
    Fault(
        "storage/magnetar_storage/compacted_writer.py",
        "compacted data is listed, and nobody asks whether it is durable",
        "        await part.seal()\n",
        "",
        COMPACTION,
    ),
    Fault(
        "broker/magnetar_broker/lifetime/retention.py",
        "only the fastest subscription keeps its messages",
        "slowest = min((need.mark_delete",
        "slowest = max((need.mark_delete",
        ("tests/broker/test_retention.py",),
    ),
    Fault(
        "broker/magnetar_broker/lifetime/expiry.py",
        "the time to live is half as long",
        "    since_ms = topic.log.engine.clock.now_ms() - seconds * 1000\n",
        "    since_ms = topic.log.engine.clock.now_ms() - seconds * 500\n",
        ("tests/broker/test_expiry.py",),
    ),
    Fault(
        "broker/magnetar_broker/session/producers.py",
        "a full quota does not keep a new producer away",
        "    await topic.check_quotas()\n",
        "",
        ("tests/broker/test_official_quotas.py",),
    ),
)
