"""The schemas of the topics of a query, and the versions with which messages were written."""

from collections.abc import Callable
from dataclasses import replace

import magnetar
from magnetar.base.concurrency import gather_all
from magnetar.base.schema_info import SchemaInfo
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.names import TopicName
from pyspark_magnetar.bridge import Bridge, bridge_to
from pyspark_magnetar.rows.value_schema import ValueSchema, value_schema
from pyspark_magnetar.source.read_options import ReadOptions
from pyspark_magnetar.source.tail import find_partitions

AUTO = "auto"


def resolved(options: ReadOptions) -> ReadOptions:
    """Add the topics' schema to the options if values become columns; raises ValueError."""
    if options.values.mode != AUTO:
        return options
    bridge = bridge_to(options.connecting)
    found = bridge.run(_schema(bridge.client, options))
    return options if found is None else replace(options, value_schema=found)


def version_finder(bridge: Bridge) -> Callable[[str, bytes], SchemaInfo]:
    """Return a function that asks the broker for versions of schemas, once for each."""
    known: dict[tuple[str, bytes], SchemaInfo] = {}

    def find(topic: str, version: bytes) -> SchemaInfo:
        name = str(TopicName.parse(topic).base)
        if (name, version) not in known:
            known[name, version] = bridge.run(bridge.client.schema(name, version))
        return known[name, version]

    return find


async def _schema(client: magnetar.Client, options: ReadOptions) -> ValueSchema | None:
    partitions = await find_partitions(client, options.topics)
    names = sorted({str(TopicName.parse(partition).base) for partition in partitions})
    infos = await gather_all(_latest(client, name) for name in names)
    first = infos[0] if infos else None
    for name, info in zip(names, infos, strict=True):
        if _identity(info) != _identity(first):
            if options.values.may_differ:
                return None
            raise ValueError(
                f"{names[0]} and {name} have different schemas: read them as bytes (option "
                "'schemaMode' bytes, or 'allowDifferentTopicSchemas' true)"
            )
    return None if first is None or not first.is_registered else value_schema(first)


async def _latest(client: magnetar.Client, topic: str) -> SchemaInfo | None:
    try:
        return await client.schema(topic)
    except magnetar.NotFound:
        return None


def _identity(info: SchemaInfo | None) -> tuple[int, bytes]:
    return (pb.Schema.NoSchema, b"") if info is None else (info.type, info.definition)
