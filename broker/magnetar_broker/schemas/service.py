"""Schemas of topics for producers, consumers and the admin API, as policies allow."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

from magnetar_broker.base.errors import SchemaInvalid, SchemaRefused
from magnetar_broker.base.guarded_metadata import GuardedMetadata
from magnetar_broker.config import Settings
from magnetar_broker.config.domains import SchemaCompatibility
from magnetar_broker.policies.table import (
    SCHEMA_AUTO_UPDATE,
    SCHEMA_COMPATIBILITY,
    SCHEMA_VALIDATION_ENFORCED,
)
from magnetar_broker.policies.view import PolicyView
from magnetar_broker.schemas.compatibility import (
    FOR_CONSUMERS,
    FOR_PRODUCERS,
    KnownSchema,
    Rule,
    objection,
)
from magnetar_broker.schemas.counts import SchemaCounts, Work
from magnetar_broker.schemas.registry import History, Registered, Registry, schema_name
from magnetar_broker.schemas.types import InvalidSchema, Schema
from magnetar_proto.names import TopicName
from magnetar_storage.runtime.execution import Clock

Check = Callable[[], None]
NO_VERSION: Final = b""
MAX_UNDERSTOOD: Final = 1024
MAX_UNDERSTOOD_BYTES: Final = 4 << 20
"""The most bytes of schemas that are kept parsed in memory."""


@dataclass(frozen=True)
class SchemaLimits:
    """The limits that apply to the schemas of one topic."""

    max_bytes: int
    max_versions: int
    of_system_topics: SchemaCompatibility


def schema_limits(settings: Settings) -> SchemaLimits:
    """Return the limits in the settings."""
    return SchemaLimits(
        settings.magnetar_max_schema_size_in_bytes,
        settings.magnetar_max_schema_versions,
        settings.system_topic_schema_compatibility_strategy,
    )


class AcceptedSchema(NamedTuple):
    """A valid schema within the limits, with its digest."""

    known: KnownSchema
    digest: str


class Schemas:
    """Registers and checks the schemas of topics, whose policies must be loaded before."""

    def __init__(
        self, metadata: GuardedMetadata, clock: Clock, policies: PolicyView, limits: SchemaLimits
    ) -> None:
        self.counts = SchemaCounts(clock)
        self._registry = Registry(metadata, clock)
        self._policies = policies
        self._limits = limits
        self._accepted: OrderedDict[Schema, AcceptedSchema] = OrderedDict()
        self._accepted_bytes = 0

    # Clients ------------------------------------------------------------------------------

    async def for_producer(
        self, topic: TopicName, schema: Schema | None, check_open: Check
    ) -> bytes:
        """Return the version in which a producer publishes, encoded as in the protocol.

        Adds the version if it is new and allowed, else raises `SchemaRefused`.  Without a schema
        the version is empty.  `check_open` raises if the topic was closed or deleted meanwhile:
        a deleted topic must not get a schema.
        """
        if schema is None:
            await self._check_without(topic)
            return NO_VERSION
        number = await self.number_of(topic, schema)
        if number is None:
            if not self._policies.value(SCHEMA_AUTO_UPDATE, topic):
                raise SchemaRefused(
                    f"this {schema.type.name} schema is not a version of {topic}, and clients must "
                    "not add any (isAllowAutoUpdateSchema): register it with the admin API, or "
                    "enable the policy"
                )
            number = await self.register(topic, schema, check_open)
        return number.to_bytes(8, "big")

    async def for_consumer(
        self, topic: TopicName, schema: Schema, idle: bool, check_open: Check
    ) -> None:
        """Make sure that a consumer with this schema can read the topic; `SchemaRefused` otherwise.

        A topic that has no schema gets this one if it is `idle`: it never had messages, and no
        client uses it without a schema.
        """
        from magnetar_broker.schemas.parsing import for_reading  # noqa: PLC0415 (not for the start)

        schema = for_reading(schema)
        history = await self._registry.history(schema_name(topic))
        if not history.digests and idle:
            await self.for_producer(topic, schema, check_open)
            return
        if not history.digests:
            raise SchemaRefused(
                f"{topic} is in use without a schema, and a consumer cannot add one of type "
                f"{schema.type.name}: subscribe without a schema, or add it with a producer"
            )
        strategy = self.strategy(topic)
        if strategy is SchemaCompatibility.ALWAYS_COMPATIBLE:
            return
        accepted = self._accept(schema)
        rule = FOR_CONSUMERS.get(strategy)
        if rule is not None:
            await self._check(topic, accepted.known, history, rule, strategy)
        elif history.number_of(accepted.digest) is None:
            raise _never(topic)

    async def _check_without(self, topic: TopicName) -> None:
        if self._policies.value(SCHEMA_VALIDATION_ENFORCED, topic) and await self.has(topic):
            raise SchemaRefused(
                f"{topic} has a schema, and producers without one are refused "
                "(schemaValidationEnforced): give the producer the topic's schema"
            )

    # Versions -----------------------------------------------------------------------------

    async def has(self, topic: TopicName) -> bool:
        """Return whether the topic has a schema."""
        return bool((await self._registry.history(schema_name(topic))).digests)

    async def get(self, topic: TopicName, number: int | None = None) -> Registered | None:
        """Return one version of a topic's schema, or the latest one; None if it does not exist."""
        name = schema_name(topic)
        with self.counts.doing(Work.GET, topic.namespace_name):
            if number is None:
                number = (await self._registry.history(name)).latest
            return None if number is None else await self._registry.version(name, number)

    async def versions(self, topic: TopicName) -> list[Registered]:
        """Return all versions of a topic's schema, oldest first."""
        history = await self._registry.history(schema_name(topic))
        found = [await self.get(topic, number) for number, _ in history.digests]
        return [version for version in found if version is not None]

    async def number_of(self, topic: TopicName, schema: Schema) -> int | None:
        """Return the number of an equal version; None without one."""
        digest = self._accept(schema).digest
        return (await self._registry.history(schema_name(topic))).number_of(digest)

    async def register(
        self, topic: TopicName, schema: Schema, check_open: Check = lambda: None
    ) -> int:
        """Register a schema unless it is known, and return its version number; durable on return.

        `SchemaRefused` if it is incompatible or invalid, or beyond a limit.
        """
        with self.counts.doing(Work.PUT, topic.namespace_name):
            return await self._add(topic, schema, check_open)

    async def _add(self, topic: TopicName, schema: Schema, check_open: Check) -> int:
        accepted = self._accept(schema)

        async def agree(history: History) -> None:
            check_open()
            if len(history.digests) >= self._limits.max_versions:
                raise SchemaRefused(
                    f"{topic} has reached its limit of {self._limits.max_versions} schema versions "
                    "(magnetarMaxSchemaVersions): delete its schema, or raise the limit"
                )
            await self._check_new(topic, accepted.known, history)

        return await self._registry.add(schema_name(topic), schema, accepted.digest, agree)

    async def check(self, topic: TopicName, schema: Schema) -> None:
        """Raise `SchemaRefused` if the strategy does not allow this schema to be added."""
        history = await self._registry.history(schema_name(topic))
        accepted = self._accept(schema)
        if history.number_of(accepted.digest) != history.latest or history.latest is None:
            await self._check_new(topic, accepted.known, history)

    async def remove(self, topic: TopicName) -> int:
        """Remove the topic's schema; return the number that the deletion itself takes."""
        with self.counts.doing(Work.DEL, topic.namespace_name):
            return await self._registry.remove(schema_name(topic))

    async def delete(self, topic: TopicName) -> None:
        """Remove all versions of the schema of a deleted topic; may be repeated."""
        await self._registry.purge(schema_name(topic))

    async def delete_namespace(self, namespace: str) -> None:
        """Remove all schemas of a namespace that is being deleted; may be repeated."""
        for name in await self._registry.names(namespace):
            await self._registry.purge(name)

    def forget(self) -> None:
        """Read the versions of topics again, before their next use."""
        self._registry.forget()

    # Rules --------------------------------------------------------------------------------

    def strategy(self, topic: TopicName) -> SchemaCompatibility:
        """Return the compatibility strategy of a topic, which defines the allowed changes."""
        if topic.is_system:
            return self._limits.of_system_topics
        strategy = self._policies.value(SCHEMA_COMPATIBILITY, topic)
        if strategy is SchemaCompatibility.UNDEFINED:
            return SchemaCompatibility.FULL
        return strategy

    async def _check_new(self, topic: TopicName, new: KnownSchema, history: History) -> None:
        strategy = self.strategy(topic)
        if not history.digests or strategy is SchemaCompatibility.ALWAYS_COMPATIBLE:
            return
        rule = FOR_PRODUCERS.get(strategy)
        if rule is None:
            raise _never(topic)
        await self._check(topic, new, history, rule, strategy)

    async def _check(
        self,
        topic: TopicName,
        new: KnownSchema,
        history: History,
        rule: Rule,
        strategy: SchemaCompatibility,
    ) -> None:
        numbers = [number for number, _ in reversed(history.digests)]
        for number in numbers if rule.all_versions else numbers[:1]:
            old = await self.get(topic, number)
            if old is None:
                continue  # removed meanwhile
            why = objection(rule, new, number, self._parse(old.schema).known)
            if why is not None:
                self.counts.of(topic.namespace_name).incompatible += 1
                raise SchemaRefused(
                    f"the schema is incompatible with {topic} under {strategy}: {why}.  Change the "
                    "schema, or the strategy (schemaCompatibilityStrategy)"
                )
        self.counts.of(topic.namespace_name).compatible += 1

    def _accept(self, schema: Schema) -> AcceptedSchema:
        """Check the size of a client's schema, and parse it."""
        size = len(schema.data) + sum(len(key) + len(value) for key, value in schema.properties)
        if size > self._limits.max_bytes:
            raise SchemaInvalid(
                f"the schema has {size} bytes and exceeds the limit of {self._limits.max_bytes} "
                "(magnetarMaxSchemaSizeInBytes)"
            )
        return self._parse(schema)

    def _parse(self, schema: Schema) -> AcceptedSchema:
        from magnetar_broker.schemas.parsing import digest_of, parsed_schema  # noqa: PLC0415 (as above)

        accepted = self._accepted.get(schema)
        if accepted is not None:
            self._accepted.move_to_end(schema)
            return accepted
        try:
            parsed = parsed_schema(schema)
        except InvalidSchema as error:
            raise SchemaInvalid(f"invalid {schema.type.name} schema: {error}") from error
        except RecursionError as error:
            raise SchemaInvalid(
                f"invalid {schema.type.name} schema: it is nested too deeply"
            ) from error
        accepted = AcceptedSchema(KnownSchema(schema.type, parsed), digest_of(schema, parsed))
        self._accepted[schema] = accepted
        self._accepted_bytes += len(schema.data)
        while len(self._accepted) > MAX_UNDERSTOOD or self._accepted_bytes > MAX_UNDERSTOOD_BYTES:
            oldest, _ = self._accepted.popitem(last=False)
            self._accepted_bytes -= len(oldest.data)
        return accepted


def _never(topic: TopicName) -> SchemaRefused:
    return SchemaRefused(
        f"the schema of {topic} cannot be changed, since its strategy is ALWAYS_INCOMPATIBLE: use "
        "one of its versions, or change the strategy (schemaCompatibilityStrategy)"
    )
