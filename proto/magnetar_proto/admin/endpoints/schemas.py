"""Schemas of topics."""

from magnetar_proto.admin import bodies
from magnetar_proto.admin.endpoint import (
    BODY,
    PRODUCE,
    PRODUCE_OR_CONSUME,
    TENANT_ADMIN,
    endpoint,
    flag,
    option,
)
from magnetar_proto.admin.kinds import NUMBER, SCHEMA_FILE

# fmt: off
FILE = option(BODY, "-f, --filename", SCHEMA_FILE,
    "JSON with type, schema and properties, or an Avro record; - is standard input.", required=True)

ENDPOINTS = (
    endpoint("schemas.latest", "GET schemas/{topic:name}/schema", PRODUCE_OR_CONSUME,
        "Show the schema of a topic.", "schemas get",
        option("version", "-v, --version", NUMBER, "This version instead of the latest.",
            local=True),
        flag("all_version", "-a, --all-version", "All versions.", local=True)),
    endpoint("schemas.post", "POST schemas/{topic:name}/schema", PRODUCE,
        "Add a version to the schema of a topic.", "schemas upload", FILE, body=bodies.SCHEMA,
        success=(200,)),
    endpoint("schemas.delete", "DELETE schemas/{topic:name}/schema", TENANT_ADMIN,
        "Delete the schema of a topic, all versions.", "schemas delete",
        flag("force", "-f, --force", "Forget the version numbers, too."), success=(200,),
        refused=401),
    endpoint("schemas.version", "GET schemas/{topic:name}/schema/{version}", PRODUCE_OR_CONSUME,
        "The version of a topic's schema that the path names."),
    endpoint("schemas.versions", "GET schemas/{topic:name}/schemas", PRODUCE_OR_CONSUME,
        "All versions of a topic's schema, the oldest first."),
    endpoint("schemas.metadata", "GET schemas/{topic:name}/metadata", PRODUCE_OR_CONSUME,
        "List the versions of a schema.", "schemas metadata"),
    endpoint("schemas.compatibility", "POST schemas/{topic:name}/compatibility", TENANT_ADMIN,
        "Check whether a schema could be added.", "schemas compatibility", FILE,
        aliases=("test-compatibility",), body=bodies.SCHEMA, success=(202,), refused=401,
        reads=True),
    endpoint("schemas.number", "POST schemas/{topic:name}/version", PRODUCE_OR_CONSUME,
        "The number of the version with the same schema, -1 if there is none.", body=bodies.SCHEMA,
        success=(200,), reads=True),
)
