"""`magnetar admin schemas`."""

from typing import TYPE_CHECKING, Any

from magnetar.cli.admin.declarations import (
    Command,
    Contradiction,
    Values,
    argument,
    flag,
    option,
    whole_body,
)
from magnetar.cli.admin.kinds import NUMBER, SCHEMA_FILE, TOPIC

if TYPE_CHECKING:
    from magnetar.admin.client import AdminClient

PATH = "/admin/v2/schemas/{topic:name}"
NAME = argument("topic", "Name of the topic.", TOPIC)
FILE = option(
    "-f, --filename",
    "JSON with type, schema and properties, or an Avro record; - is standard input.",
    SCHEMA_FILE,
    required=True,
)


def _get(admin: "AdminClient", values: Values) -> Any:
    if values["all_version"] and values["version"] is not None:
        raise Contradiction("give --version or --all-version, not both")
    if values["all_version"]:
        return admin.get(ALL.url(values))["getSchemaResponses"]
    path = GET.url(values)
    return admin.get(path if values["version"] is None else f"{path}/{values['version']}")


ALL = Command("all", "All versions.", "GET", f"{PATH}/schemas")
GET = Command(
    "get",
    "Show the schema of a topic.",
    "GET",
    f"{PATH}/schema",
    (
        NAME,
        option("-v, --version", "This version instead of the latest.", NUMBER),
        flag("-a, --all-version", "All versions."),
    ),
    run=_get,
)
COMMANDS = (
    GET,
    Command(
        "upload",
        "Add a version to the schema of a topic.",
        "POST",
        f"{PATH}/schema",
        (NAME, FILE),
        body=whole_body("filename"),
    ),
    Command(
        "compatibility",
        "Check whether a schema could be added.",
        "POST",
        f"{PATH}/compatibility",
        (NAME, FILE),
        body=whole_body("filename"),
        aliases=("test-compatibility",),
    ),
    Command(
        "metadata",
        "List the versions of a schema.",
        "GET",
        f"{PATH}/metadata",
        (NAME,),
    ),
    Command(
        "delete",
        "Delete the schema of a topic, all versions.",
        "DELETE",
        f"{PATH}/schema",
        (NAME, flag("-f, --force", "Forget the version numbers, too.", query="force")),
    ),
)
