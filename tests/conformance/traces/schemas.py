"""Schemas: versions, what may follow what, who may subscribe, and the admin API of them."""

import json
import struct
from typing import Any

from conformance.differences import Difference, differs
from conformance.rest_differences import REFUSED
from conformance.trace import SHARED, Peer, Trace
from magnetar_proto import PulsarApi_pb2 as pb

UNREADABLE = Difference(
    "a consumer with an invalid schema, on a topic without a schema",
    "subscribes, and nothing is stored; an invalid key-value schema is UnknownError",
    "IncompatibleSchema",
)
DELETED = Difference(
    "GET_SCHEMA of a schema that was deleted",
    "a schema of type None, with the number of the deletion",
    "TopicNotFound, as for a topic that never had one",
)
SYMBOLS = Difference(
    "a symbol added to an enum without a default",
    "is compatible in both directions",
    "is incompatible for readers without the symbol: they could not read such a message",
)
PARTS = Difference(
    "the key's type and the encoding of a key-value schema",
    "do not matter if the data are the same bytes",
    "make it a different schema",
)
LENGTH = Difference(
    "GET_SCHEMA with a version that is not eight bytes long",
    "the connection is closed",
    "IncompatibleSchema",
)


def _field(name: str, kind: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


def _record(*fields: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": fields, **more}


A = _record(_field("a", "int"))
A_B = _record(_field("a", "int"), _field("b", "int"))
A_OR_B = _record(_field("a", "int"), _field("b", "int", default=1))
LONG = _record(_field("a", "long"))


def _schema(kind: pb.Schema.Type, data: bytes = b"", **properties: str) -> pb.Schema:
    pairs = [pb.KeyValue(key=key, value=value) for key, value in properties.items()]
    return pb.Schema(name="", type=kind, schema_data=data, properties=pairs)


def _avro(definition: Any, kind: pb.Schema.Type = pb.Schema.Avro) -> pb.Schema:
    return _schema(kind, json.dumps(definition).encode())


STRING = _schema(pb.Schema.String)


def _gets(a: Peer, topic: str, number: int | None = None) -> Any:
    """GET_SCHEMA."""
    version = {} if number is None else {"schema_version": struct.pack(">q", number)}
    return a.asks(pb.CommandGetSchema(request_id=0, topic=topic, **version))


def _comes_and_goes(a: Peer, brought: pb.Schema, topic: str = "") -> None:
    """A producer that does nothing but bring a schema."""
    if isinstance(a.produces(topic, schema=brought), pb.CommandProducerSuccess):
        a.closes_producer()


def _listens(a: Peer, brought: pb.Schema | None) -> None:
    """A consumer that comes and goes."""
    more: dict[str, Any] = {} if brought is None else {"schema": brought}
    if isinstance(a.subscribes(SHARED, **more), pb.CommandSuccess):
        a.closes_consumer()


def _in_namespace(t: Trace, strategy: str) -> str:
    """A topic whose namespace has a strategy."""
    namespace = t.has_namespace()
    t.rest("PUT", f"namespaces/{namespace}/schemaCompatibilityStrategy", strategy)
    return f"persistent://{namespace}/topic"


def _path(t: Trace, rest: str, topic: str = "") -> str:
    name = topic.partition("://")[2] or f"public/default/{t.token}"
    return f"schemas/{name}/{rest}"


def _body(definition: Any, kind: str = "AVRO") -> dict[str, Any]:
    return {
        "type": kind,
        "schema": definition if isinstance(definition, str) else json.dumps(definition),
    }


# Versions -----------------------------------------------------------------------------------


def versions_of_a_schema(t: Trace) -> None:
    a = t.connects()
    for brought in (A, A, A_OR_B, A):
        _comes_and_goes(a, _avro(brought))
    _gets(a, t.topic)
    for number in (0, 1, 2, -1):
        _gets(a, t.topic, number)


def the_same_schema_in_other_words(t: Trace) -> None:
    a = t.connects()
    _comes_and_goes(a, _avro(A))
    for definition in (
        _record(_field("a", "int", doc="what it is"), doc="what it is"),
        _record(_field("a", {"type": "int"}), aliases=["Old"]),
        {"fields": [{"type": "int", "name": "a"}], "name": "R", "type": "record"},
    ):
        _comes_and_goes(a, _avro(definition))
    _gets(a, t.topic)


def schemas_that_only_look_alike(t: Trace) -> None:
    a = t.connects()
    for definition in (
        A,
        _record(_field("a", "int"), namespace="n"),
        _record(_field("a", "int", default=1)),
        _record(_field("a", "int"), name="Renamed"),
    ):
        _comes_and_goes(a, _avro(definition))


@differs(LENGTH)
def a_version_that_is_too_short(t: Trace) -> None:
    a = t.connects()
    _comes_and_goes(a, STRING)
    a.asks(pb.CommandGetSchema(request_id=0, topic=t.topic, schema_version=b"\0\0\0\0"))


def one_schema_for_all_partitions(t: Trace) -> None:
    t.has_partitions(2)
    a = t.connects()
    _comes_and_goes(a, _avro(A), f"{t.topic}-partition-1")
    _gets(a, t.topic)
    _gets(a, f"{t.topic}-partition-0")
    _comes_and_goes(a, _avro(LONG), f"{t.topic}-partition-0")


def one_schema_for_both_domains(t: Trace) -> None:
    a = t.connects()
    _comes_and_goes(a, _avro(A), f"non-{t.topic}")
    _gets(a, t.topic)
    _comes_and_goes(a, STRING)


def properties_come_back_and_do_not_count(t: Trace) -> None:
    a = t.connects()
    _comes_and_goes(a, _schema(pb.Schema.String, colour="green"))
    _comes_and_goes(a, _schema(pb.Schema.String, colour="red"))
    _gets(a, t.topic)


# Types --------------------------------------------------------------------------------------


def primitive_types(t: Trace) -> None:
    a = t.connects()
    for kind in (pb.Schema.Bool, pb.Schema.Int64, pb.Schema.Double, pb.Schema.LocalDateTime):
        topic = f"{t.topic}-{pb.Schema.Type.Name(kind)}"
        _comes_and_goes(a, _schema(kind), topic)
        _comes_and_goes(a, _schema(kind, b"text"), topic)
        _gets(a, topic)
        _comes_and_goes(a, STRING, topic)


def another_type(t: Trace) -> None:
    a = t.connects()
    _comes_and_goes(a, _avro(A))
    for brought in (STRING, _avro(A, pb.Schema.Json), _schema(pb.Schema.NoSchema)):
        _comes_and_goes(a, brought)
        _listens(a, brought)


def a_producer_that_would_take_anything(t: Trace) -> None:
    a = t.connects()
    _comes_and_goes(a, _schema(pb.Schema.AutoConsume))
    _gets(a, t.topic)


def schemas_that_are_none(t: Trace) -> None:
    a = t.connects()
    for kind in (pb.Schema.Avro, pb.Schema.Json, pb.Schema.Protobuf, pb.Schema.ProtobufNative):
        for data in (b"", b"junk", b"[]" if kind == pb.Schema.Avro else b"{}"):
            _comes_and_goes(a, _schema(kind, data))


def defaults_that_do_not_fit(t: Trace) -> None:
    a = t.connects()
    for kind, default in (("int", "x"), ("int", None), (["null", "int"], 5), ("double", 5)):
        _comes_and_goes(
            a, _avro(_record(_field("a", kind, default=default))), f"{t.topic}-{default}"
        )


def external_schemas(t: Trace) -> None:
    a = t.connects()
    _comes_and_goes(a, _schema(pb.Schema.External, b"one"))
    _comes_and_goes(a, _schema(pb.Schema.External, b"two"))
    _listens(a, _schema(pb.Schema.External, b"three"))


def _key_value(value: Any, key: str = "STRING", encoding: str = "INLINE") -> pb.Schema:
    data = json.dumps(value).encode()
    return _schema(
        pb.Schema.KeyValue,
        struct.pack(">ii", 0, len(data)) + data,
        **{"key.schema.type": key, "value.schema.type": "AVRO", "kv.encoding.type": encoding},
    )


def key_value_schemas(t: Trace) -> None:
    a = t.connects()
    for value in (A, A, A_OR_B, LONG):
        _comes_and_goes(a, _key_value(value))
    _listens(a, _key_value(LONG))
    t.rest("GET", _path(t, "schema/0"))


@differs(PARTS)
def a_key_of_another_type(t: Trace) -> None:
    a = t.connects()
    _comes_and_goes(a, _key_value(A))
    _comes_and_goes(a, _key_value(A, key="INT32"))


# Strategies -----------------------------------------------------------------------------------


def without_a_strategy_both_sides_must_read(t: Trace) -> None:
    a = t.connects()
    for brought in (A, A_B, LONG, A_OR_B, A_B):
        _comes_and_goes(a, _avro(brought))


def _plays(t: Trace, strategy: str, *steps: Any) -> None:
    topic = _in_namespace(t, strategy)
    a = t.connects()
    for brought in steps:
        _comes_and_goes(a, brought if isinstance(brought, pb.Schema) else _avro(brought), topic)


def backward(t: Trace) -> None:
    _plays(t, "BACKWARD", A_B, A, LONG, A, A_B)


def forward(t: Trace) -> None:
    _plays(t, "FORWARD", LONG, A, A_B, LONG, _record())


def backward_through_all_versions(t: Trace) -> None:
    _plays(t, "BACKWARD_TRANSITIVE", A, A_OR_B, LONG, A_B)


def full_through_all_versions(t: Trace) -> None:
    _plays(t, "FULL_TRANSITIVE", A, A_OR_B, A_B, LONG)


def always_compatible(t: Trace) -> None:
    _plays(t, "ALWAYS_COMPATIBLE", A, LONG, STRING, _avro(A, pb.Schema.Json))


def always_incompatible(t: Trace) -> None:
    _plays(t, "ALWAYS_INCOMPATIBLE", A, A, A_OR_B)


@differs(SYMBOLS)
def a_symbol_more(t: Trace) -> None:
    a = t.connects()
    for symbols in (["A"], ["A", "B"]):
        enum = {"type": "enum", "name": "E", "symbols": symbols}
        _comes_and_goes(a, _avro(_record(_field("a", enum))))


# Consumers ------------------------------------------------------------------------------------


def consumers_of_a_topic_with_a_schema(t: Trace) -> None:
    a = t.connects()
    _comes_and_goes(a, _avro(A))
    for definition in (A, A_OR_B, A_B, LONG, _record(_field("a", "string"))):
        _listens(a, _avro(definition))
    _listens(a, None)
    _gets(a, t.topic)


def a_consumer_sets_the_schema_of_an_idle_topic(t: Trace) -> None:
    a = t.connects()
    _listens(a, _avro(A))
    _gets(a, t.topic)
    _comes_and_goes(a, _avro(LONG))


def a_consumer_of_a_topic_that_another_one_reads_as_bytes(t: Trace) -> None:
    a, b = t.connects(), t.connects()
    a.subscribes(SHARED)
    _listens(b, _avro(A))
    _gets(b, t.topic)


def a_consumer_beside_one_that_takes_anything(t: Trace) -> None:
    a, b = t.connects(), t.connects()
    a.subscribes(SHARED, schema=_schema(pb.Schema.AutoConsume))
    _listens(b, _avro(A))
    _gets(b, t.topic)


def a_consumer_of_a_topic_with_a_producer_of_bytes(t: Trace) -> None:
    a, b = t.publisher(), t.connects()
    _listens(b, _avro(A))
    a.closes_producer()
    _listens(b, _avro(A))


def a_consumer_of_a_topic_with_messages(t: Trace) -> None:
    a, b = t.publisher(1), t.connects()
    a.closes_producer()
    _listens(b, _avro(A))


@differs(UNREADABLE)
def a_consumer_with_a_schema_that_is_none(t: Trace) -> None:
    _listens(t.connects(), _schema(pb.Schema.Avro, b"junk"))


# GET_OR_CREATE_SCHEMA ---------------------------------------------------------------------------


def registering_what_is_there_and_what_may_not_be(t: Trace) -> None:
    a = t.publisher()
    for definition in (A, A, LONG, A_OR_B):
        a.asks(pb.CommandGetOrCreateSchema(request_id=0, topic=t.topic, schema=_avro(definition)))


def registering_what_only_clients_know(t: Trace) -> None:
    a = t.publisher()
    anything = _schema(pb.Schema.AutoConsume)
    a.asks(pb.CommandGetOrCreateSchema(request_id=0, topic=t.topic, schema=anything))


# Over REST ----------------------------------------------------------------------------------------


def a_schema_before_its_topic(t: Trace) -> None:
    t.rest("POST", _path(t, "schema"), _body(A))
    a = t.connects()
    _gets(a, t.topic)
    _comes_and_goes(a, _avro(LONG))
    _comes_and_goes(a, _avro(A))


@differs(DELETED)
def a_schema_that_was_deleted(t: Trace) -> None:
    a = t.connects()
    _comes_and_goes(a, _avro(A))
    t.rest("DELETE", _path(t, "schema"))
    _gets(a, t.topic)
    _gets(a, t.topic, 0)
    _comes_and_goes(a, STRING)


def asking_before_one_registers(t: Trace) -> None:
    _comes_and_goes(t.connects(), _avro(A))
    for definition in (A, A_OR_B, LONG):
        t.rest("POST", _path(t, "version"), _body(definition))
    for definition in (A, A_OR_B):
        t.rest("POST", _path(t, "compatibility"), _body(definition))


@differs(REFUSED)
def what_rest_does_not_take(t: Trace) -> None:
    _comes_and_goes(t.connects(), _avro(A))
    t.rest("POST", _path(t, "compatibility"), _body(LONG))
    t.rest("POST", _path(t, "schema"), _body(A, "Avro"))
    t.rest("GET", _path(t, "schema/first"))


def bytes_over_rest(t: Trace) -> None:
    t.rest("POST", _path(t, "schema"), _body("", "BYTES"))
    t.rest("GET", _path(t, "schema"))


def key_and_value_over_rest(t: Trace) -> None:
    properties = {"key.schema.type": "STRING", "value.schema.type": "AVRO"}
    definition = json.dumps({"key": "", "value": A})
    t.rest("POST", _path(t, "schema"), {**_body(definition, "KEY_VALUE"), "properties": properties})
    t.rest("GET", _path(t, "schema"))


# Switches -----------------------------------------------------------------------------------------


def versions_that_clients_may_not_add(t: Trace) -> None:
    namespace = t.has_namespace()
    topic = f"persistent://{namespace}/topic"
    t.rest("POST", f"namespaces/{namespace}/isAllowAutoUpdateSchema", False)
    a = t.connects()
    _comes_and_goes(a, _avro(A), topic)
    t.rest("POST", _path(t, "schema", topic), _body(A))
    _comes_and_goes(a, _avro(A), topic)
    _comes_and_goes(a, _avro(A_OR_B), topic)
    a.produces(topic)


def producers_without_a_schema(t: Trace) -> None:
    namespace = t.has_namespace()
    topic = f"persistent://{namespace}/topic"
    t.rest("POST", f"namespaces/{namespace}/schemaValidationEnforced", True)
    a = t.connects()
    a.produces(topic)
    _comes_and_goes(a, _avro(A), f"{topic}-2")
    a.produces(f"{topic}-2", producer_id=2)
    none = _schema(pb.Schema.NoSchema)
    a.asks(pb.CommandGetOrCreateSchema(request_id=0, topic=f"{topic}-2", schema=none))


def a_topic_that_has_a_strategy_of_its_own(t: Trace) -> None:
    a = t.connects()
    _comes_and_goes(a, _avro(A))
    _comes_and_goes(a, _avro(LONG))
    policy = f"persistent/public/default/{t.token}/schemaCompatibilityStrategy"
    t.rest("PUT", policy, "ALWAYS_COMPATIBLE")
    _comes_and_goes(a, _avro(LONG))
