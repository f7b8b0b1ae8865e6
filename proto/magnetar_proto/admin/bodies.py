"""The JSON bodies of requests, each with its JSON Schema."""

from collections.abc import Mapping
from typing import Any, NamedTuple

Schema = Mapping[str, Any]


class Body(NamedTuple):
    """The JSON body of a request."""

    schema: Schema
    """The JSON Schema of the bodies that are accepted."""
    text: str = ""
    required: bool = True


def integer(minimum: int, maximum: int) -> Schema:
    """Return the schema of whole numbers from `minimum` to `maximum`."""
    return {"type": "integer", "minimum": minimum, "maximum": maximum}


def words(*choices: str) -> Schema:
    """Return the schema of a text that is one of these."""
    return {"type": "string", "enum": list(choices)}


def list_of(items: Schema) -> Schema:
    """Return the schema of lists."""
    return {"type": "array", "items": items}


def object_of(required: tuple[str, ...] = (), /, **members: Schema) -> dict[str, Any]:
    """Return the schema of objects with these members; others are ignored."""
    found: dict[str, Any] = {"type": "object", "properties": members}
    return {**found, "required": list(required)} if required else found


LONG = integer(-(2**63), 2**63 - 1)
STRING: Schema = {"type": "string"}
STRINGS = list_of(STRING)
TEXTS: Schema = {"type": "object", "additionalProperties": STRING}
OBJECT: Schema = {"type": "object"}
FLAG: Schema = {"type": "boolean"}
NOTHING: Schema = {"type": "null"}

NO_BODY = Body(NOTHING, "nothing", False)
PROPERTIES = Body({**TEXTS, "type": ["object", "null"]}, "names and values", False)

# Tenants and namespaces --------------------------------------------------------------------------

MAX_BUNDLES = 1024
"""The most bundles of a namespace."""
ACTIONS = ("produce", "consume", "functions", "sinks", "sources", "packages")
"""The actions that can be permitted, in the order in which they are shown."""
_ACTIONS = list_of(words(*ACTIONS))
_GRANT = {"topic": STRING, "role": STRING, "actions": _ACTIONS}
_GRANTS = "topics, each with a role and its actions"
TENANT = Body(object_of(adminRoles=STRINGS, allowedClusters=STRINGS))
ALLOWED = Body(_ACTIONS, "all that the role may do")
ROLES = Body(STRINGS, "roles")
GRANTS = Body(list_of(object_of(("topic", "role", "actions"), **_GRANT)), _GRANTS)
REVOCATIONS = Body(list_of(object_of(("topic", "role"), **_GRANT)), _GRANTS)
NAMESPACE = Body(
    {
        **object_of(
            bundles=object_of(boundaries=STRINGS, numBundles=integer(0, MAX_BUNDLES)),
            properties=TEXTS,
            replication_clusters=STRINGS,
        ),
        "type": ["object", "null"],
    },
    "bundles, properties and policies, with the names of GET; without a body the default ones",
    False,
)
HASHES = Body(
    {**list_of({"type": "integer"}), "type": ["array", "null"]},
    "positions of specified_positions_divide",
    False,
)

# Clusters ----------------------------------------------------------------------------------------

GROUP_LIMITS = (
    "publishRateInMsgs",
    "publishRateInBytes",
    "dispatchRateInMsgs",
    "dispatchRateInBytes",
    "replicationDispatchRateInMsgs",
    "replicationDispatchRateInBytes",
)
ADDRESSES = Body(OBJECT, "addresses of the cluster")
PEERS = Body(STRINGS, "", False)
DOMAIN = Body(OBJECT, "brokers", False)
ISOLATION = Body(OBJECT)
_LIMIT: Schema = {**integer(-1, 2**63 - 1), "type": ["integer", "null"]}
GROUP = Body(object_of(**dict.fromkeys(GROUP_LIMITS, _LIMIT)), "limits")

# Topics, messages and subscriptions --------------------------------------------------------------

_PLACE: Schema = {
    "anyOf": [
        words("earliest", "latest"),
        object_of(
            ("ledgerId", "entryId"),
            ledgerId=LONG, entryId=LONG, batchIndex=LONG, partitionIndex=LONG, excluded=FLAG,
        ),
    ]
}  # fmt: skip
PARTITIONS = Body(
    {
        "anyOf": [
            {"type": "integer"},
            object_of(("partitions",), partitions={"type": "integer"}, properties=TEXTS),
        ]
    },
    "the number of partitions, or an object with it and properties",
)
PLACE = Body(_PLACE, "the id of a message, or one of the ends of the topic")
BEFORE = Body(
    object_of(ledgerId=LONG, entryId=LONG, batchIndex=LONG, partitionIndex=LONG),
    "the id of a message; the closed ledgers that end before it are meant",
)
FROM = Body(_PLACE, "the message to begin at; empty is the whole backlog", False)
START = Body(
    {"anyOf": [_PLACE, object_of(properties=PROPERTIES.schema), NOTHING]},
    "where it begins: at the end without a body, at the beginning with an object that names no "
    "position; an object may have properties, too",
    False,
)
REPLAY = Body(
    object_of(
        kind=words("DLQ", "RETRY"), topic=STRING, limit=integer(1, 1000), scan=integer(1, 100_000),
        rate=integer(1, 10_000), key=STRING, property=STRING, dryRun=FLAG, **{"from": STRING},
    ),
    "which messages, how many a second, and whether only to count",
    False,
)  # fmt: skip
REPLICATED = Body(FLAG)

# Schemas and transactions ------------------------------------------------------------------------

MAX_COORDINATORS = 1024
"""The most coordinators of transactions: each is a topic that is loaded."""
SCHEMA_TYPES = (
    "NONE", "STRING", "JSON", "PROTOBUF", "AVRO", "BOOLEAN", "INT8", "INT16", "INT32", "INT64",
    "FLOAT", "DOUBLE", "DATE", "TIME", "TIMESTAMP", "KEY_VALUE", "INSTANT", "LOCAL_DATE",
    "LOCAL_TIME", "LOCAL_DATE_TIME", "PROTOBUF_NATIVE", "AUTO_CONSUME", "EXTERNAL", "BYTES", "AUTO",
    "AUTO_PUBLISH",
)  # fmt: skip
SCHEMA = Body(object_of(("type",), type=words(*SCHEMA_TYPES), schema=STRING, properties=TEXTS))
COORDINATORS = Body(integer(1, MAX_COORDINATORS), "how many")

# Policies on paths of their own ------------------------------------------------------------------

QUOTA = Body(
    object_of(
        ("policy",),
        limitSize=LONG,
        limitTime=LONG,
        policy=words("producer_request_hold", "producer_exception", "consumer_backlog_eviction"),
    ),
    "limitSize in bytes or limitTime in seconds, as the type needs; empty deletes that of a topic",
    False,
)
DISPATCH_RATE = Body(
    object_of(
        dispatchThrottlingRateInMsg=integer(-(2**31), 2**31 - 1),
        dispatchThrottlingRateInByte=LONG,
        relativeToPublishRate=FLAG,
        ratePeriodInSecond=integer(-(2**31), 2**31 - 1),
    ),
    "",
    False,
)
