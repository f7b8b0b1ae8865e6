"""GET_SCHEMA and GET_OR_CREATE_SCHEMA, and the schemas in PRODUCER and SUBSCRIBE."""

from typing import Any

from magnetar_broker.base.errors import SchemaRefused, TopicNotFound
from magnetar_broker.schemas.registry import schema_name
from magnetar_broker.schemas.types import Schema, SchemaType, schema_of
from magnetar_broker.session.refusals import refusal_of
from magnetar_broker.session.session import Session
from magnetar_broker.topic.non_persistent import NonPersistentTopic
from magnetar_broker.topic.topic import Topic
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.names import TopicName

VERSION_BYTES = 8


def sent_schema(command: Any) -> Schema | None:
    """Return the schema in a PRODUCER or SUBSCRIBE; None if it has no schema."""
    return schema_of(command.schema) if command.HasField("schema") else None


def takes_any(schema: Schema | None) -> bool:
    """Return whether a consumer accepts any schema (AUTO_CONSUME)."""
    return schema is not None and schema.type is SchemaType.AUTO_CONSUME


def is_idle(topic: Topic | NonPersistentTopic) -> bool:
    """Whether a consumer's schema may become the topic's: there are no messages, no producers, and
    no consumers with a schema of their own or none."""
    if isinstance(topic, Topic) and topic.log.end > topic.log.first_offset:
        return False
    return not any((*topic.producers, *topic.producers.waiting)) and all(
        consumer.takes_any_schema
        for subscription in topic.subscriptions.values()
        for consumer in subscription.consumers
    )


async def on_get_schema(session: Session, command: pb.CommandGetSchema) -> None:
    """Answer with a version of a topic's schema, the latest if none is named."""
    answer = pb.CommandGetSchemaResponse(request_id=command.request_id)
    try:
        topic = TopicName.parse(command.topic)
        number = _number(command) if command.HasField("schema_version") else None
        found = await session.broker.names.schema(topic, number)
        if found is None:
            missing = "schema" if number is None else f"schema version {number}"
            raise TopicNotFound(f"{topic} has no {missing}")
    except Exception as error:
        refuse_get_schema(session, command, error)
        return
    answer.schema_version = found.number.to_bytes(VERSION_BYTES, "big")
    answer.schema.CopyFrom(_on_the_wire(schema_name(topic), found.schema))
    session.reply(answer)


def _on_the_wire(name: str, schema: Schema) -> pb.Schema:
    return pb.Schema(
        name=name,
        type=pb.Schema.Type.Name(schema.type),
        schema_data=schema.data,
        properties=[{"key": key, "value": value} for key, value in schema.properties],
    )


def _number(command: pb.CommandGetSchema) -> int:
    if len(command.schema_version) != VERSION_BYTES:
        raise SchemaRefused(
            f"expected a schema version of {VERSION_BYTES} bytes, but got "
            f"{len(command.schema_version)}: leave it out for the latest"
        )
    return int.from_bytes(command.schema_version, "big")


async def on_get_or_create_schema(session: Session, command: pb.CommandGetOrCreateSchema) -> None:
    """Answer with the version of this schema, as for a producer; the topic must exist."""
    answer = pb.CommandGetOrCreateSchemaResponse(request_id=command.request_id)
    try:
        topic = TopicName.parse(command.topic)
        await session.broker.topic(topic, create=False)
        session.check_open()  # promise: no schema is stored for a client that has left
        schema = schema_of(command.schema)
        brought = None if schema.type is SchemaType.NONE else schema
        answer.schema_version = await session.broker.names.producer_schema(topic, brought)
    except Exception as error:
        refuse_get_or_create_schema(session, command, error)
        return
    session.reply(answer)


def refuse_get_schema(session: Session, command: pb.CommandGetSchema, error: Exception) -> None:
    """Answer with the refusal for an error; a defect is raised again."""
    refusal = refusal_of(error)
    session.reply(
        pb.CommandGetSchemaResponse(
            request_id=command.request_id, error_code=refusal.code, error_message=str(refusal)
        )
    )


def refuse_get_or_create_schema(
    session: Session, command: pb.CommandGetOrCreateSchema, error: Exception
) -> None:
    """Answer with the refusal for an error; a defect is raised again."""
    refusal = refusal_of(error)
    session.reply(
        pb.CommandGetOrCreateSchemaResponse(
            request_id=command.request_id, error_code=refusal.code, error_message=str(refusal)
        )
    )
