"""Faults of schemas in the asyncio client: values decoded by the wrong schema, or in danger."""

from mutants.fault import Fault

VERSIONS = ("tests/client/schema/test_versions.py",)
AVRO = ("tests/client/schema/test_avro.py",)

SCHEMA_FAULTS: tuple[Fault, ...] = (
    Fault(
        "client/magnetar/schema/versions.py",
        "messages are decoded as if the consumer's own schema had written them",
        "self._schema.reading(await self._versions.get(version))",
        "self._schema",
        VERSIONS,
    ),
    Fault(
        "client/magnetar/schema/versions.py",
        "a schema that could not be had for a moment is never asked for again",
        "                if error.retriable:\n                    raise",
        "                if False:\n                    raise",
        VERSIONS,
    ),
    Fault(
        "client/magnetar/inbox.py",
        "a message whose schema is not there yet is given to the application",
        "                    if waiting is None:\n                        return\n"
        "                    await waiting",
        "                    if waiting is None:\n                        return\n"
        "                    return",
        VERSIONS,
    ),
    Fault(
        "client/magnetar/batching.py",
        "messages of two schema versions are in one batch",
        "            and self.schema_version == version_of(message)\n",
        "",
        ("tests/client/test_batching.py",),
    ),
    Fault(
        "client/magnetar/partition_producer.py",
        "a message with another schema overtakes those of its key",
        "            self.send_batch_now()  # what comes later of the key must not overtake it\n",
        "",
        ("tests/client/schema/test_schemas_broker.py",),
    ),
    Fault(
        "client/magnetar/schema/avro.py",
        "data that nests deeply ends the process",
        "    is_recursive = check(writer)\n",
        "    is_recursive = check(writer) and False\n",
        AVRO,
    ),
    Fault(
        "client/magnetar/schema/avro_limits.py",
        "a few bytes fill the memory with items that have none",
        'raise ValueError("arrays of items without bytes cannot be decoded safely")',
        "return False",
        AVRO,
    ),
)
