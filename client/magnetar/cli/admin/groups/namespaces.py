"""`magnetar admin namespaces`."""

from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import quote

from magnetar.cli.admin.declarations import (
    Command,
    Contradiction,
    Values,
    argument,
    flag,
    option,
    whole_body,
)
from magnetar.cli.admin.groups import namespace_policies, resourcegroups
from magnetar.cli.admin.groups.namespace_policies import PATH, SUBJECT
from magnetar.cli.admin.kinds import NAMES, NUMBER, PAIRS, Kind, one_of, some_of

if TYPE_CHECKING:
    from magnetar.admin.client import AdminClient

ACTIONS = option(
    "--actions",
    "What is granted: produce, consume, functions, sources, sinks, packages.",
    some_of("produce", "consume", "functions", "sources", "sinks", "packages"),
    required=True,
)
ROLE = option("-r, --role", "Name of the role.", required=True)
SUBSCRIPTION = option("-s, --subscription", "Name of the subscription.", required=True)
BUNDLE = option("-b, --bundle", "Only this bundle, as 0x00000000_0x40000000.")
ALGORITHMS = (
    "range_equally_divide",
    "topic_count_equally_divide",
    "specified_positions_divide",
    "flow_or_qps_equally_divide",
)
PERMISSIONS = f"{PATH}/permissions"
PROPERTY = f"{PATH}/property/{{key}}"
TENANT = argument("tenant", "Name of the tenant.")
SUB = option("-s, --sub", "Name of the subscription.")
KEY = option("-k, --key", "Name of the property.", required=True)


def _new(values: Values) -> object:
    found: dict[str, object] = {}
    if values["clusters"] is not None:
        found["replication_clusters"] = values["clusters"]
    if values["bundles"] is not None:
        found["bundles"] = {"numBundles": values["bundles"]}
    return found or None


def _mode(text: str) -> str:
    mode = text.upper().replace("-", "_")
    if mode not in MODES:
        raise ValueError(f"{text!r} is not one of persistent, non_persistent, all")
    return mode


MODES = ("PERSISTENT", "NON_PERSISTENT", "ALL")
MODE = Kind("persistent|non_persistent|all", _mode, ("persistent", "non_persistent", "all"))


def _where(admin: object, values: Values) -> None:
    """Merge the two flags that name the bundle to split; Contradiction unless one is given."""
    given = [values["bundle"], values["bundle_type"]]
    if given.count(None) != 1:
        raise Contradiction("give --bundle or --bundle-type, one of them")
    values["bundle"] = values["bundle"] or values["bundle_type"]


def _positions(values: Values) -> object:
    if values["split_boundaries"] is None:
        return None
    try:
        return [int(text, 0) for text in values["split_boundaries"]]
    except ValueError:
        raise Contradiction(
            "--split-boundaries: expected hashes such as 0x40000000, separated by commas"
        ) from None


def _needs_bundle(admin: object, values: Values) -> None:
    if values["destinationBroker"] is not None and values["bundle"] is None:
        raise Contradiction("--destinationBroker needs --bundle: one bundle is moved at a time")


def _clear(admin: "AdminClient", values: Values) -> None:
    """Clear a backlog; subscription and bundle are parts of the path if they are given."""
    parts = [f"/admin/v2/namespaces/{values['namespace']}"]
    if values["bundle"] is not None:
        parts.append(quote(values["bundle"], safe=""))
    parts.append("clearBacklog")
    if values["sub"] is not None:
        parts.append(quote(values["sub"], safe=""))
    admin.post("/".join(parts))


LISTS = (
    Command(
        "list",
        "List the namespaces of a tenant.",
        "GET",
        "/admin/v2/namespaces/{tenant}",
        (TENANT,),
    ),
    Command(
        "topics",
        "List the topics of a namespace, with each partition.",
        "GET",
        f"{PATH}/topics",
        (
            SUBJECT,
            option("-m, --mode", "Which.", MODE, default="ALL", query="mode"),
            flag(
                "-ist, --include-system-topic", "Also the broker's own.", query="includeSystemTopic"
            ),
        ),
        aliases=("destinations",),
    ),
    Command("bundles", "Show the bundles of a namespace.", "GET", f"{PATH}/bundles", (SUBJECT,)),
    Command("policies", "Show all policies that a namespace has.", "GET", PATH, (SUBJECT,)),
)


LIFETIME = (
    Command(
        "create",
        "Create a namespace.",
        "PUT",
        PATH,
        (
            SUBJECT,
            option("-c, --clusters", "Clusters that it is in.", NAMES),
            option("-b, --bundles", "Number of its bundles.", NUMBER),
        ),
        body=_new,
    ),
    Command(
        "delete",
        "Delete a namespace.",
        "DELETE",
        PATH,
        (SUBJECT, flag("-f, --force", "With its topics.", query="force")),
    ),
)


PERMISSION = (
    Command("permissions", "Show who may do what.", "GET", PERMISSIONS, (SUBJECT,)),
    Command(
        "grant-permission",
        "Grant a role the right to act on all topics.",
        "POST",
        f"{PERMISSIONS}/{{role}}",
        (SUBJECT, ROLE, ACTIONS),
        body=whole_body("actions"),
    ),
    Command(
        "revoke-permission",
        "Revoke all rights of a role on the namespace.",
        "DELETE",
        f"{PERMISSIONS}/{{role}}",
        (SUBJECT, ROLE),
    ),
    Command(
        "subscription-permission",
        "Show who may use which subscription.",
        "GET",
        f"{PERMISSIONS}/subscription",
        (SUBJECT,),
    ),
    Command(
        "grant-subscription-permission",
        "Allow a subscription to some roles only.",
        "POST",
        f"{PERMISSIONS}/subscription/{{subscription}}",
        (
            SUBJECT,
            SUBSCRIPTION,
            option("-rs, --roles", "Names of the roles.", NAMES, required=True),
        ),
        body=whole_body("roles"),
    ),
    Command(
        "revoke-subscription-permission",
        "Take a subscription from a role.",
        "DELETE",
        f"{PERMISSIONS}/{{subscription}}/{{role}}",
        (SUBJECT, SUBSCRIPTION, ROLE),
    ),
)


BUNDLES = (
    Command(
        "unload",
        "Close the topics of a namespace or bundle, whose clients connect again.",
        "PUT",
        f"{PATH}/unload",
        (
            SUBJECT,
            BUNDLE,
            option(
                "-d, --destinationBroker",
                "Move the bundle to this broker.",
                query="destinationBroker",
            ),
        ),
        other_path=("bundle", f"{PATH}/{{bundle}}/unload"),
        fill=_needs_bundle,
    ),
    Command(
        "split-bundle",
        "Divide a bundle.",
        "PUT",
        f"{PATH}/{{bundle}}/split",
        (
            SUBJECT,
            BUNDLE,
            option("-bt, --bundle-type", "LARGEST instead of a bundle.", one_of("LARGEST", "HOT")),
            flag("-u, --unload", "Close the topics of the new bundles.", query="unload"),
            option(
                "-san, --split-algorithm-name",
                "Where it is divided.",
                one_of(*ALGORITHMS),
                query="splitAlgorithmName",
            ),
            option("-sb, --split-boundaries", "Hashes at which it is divided.", NAMES),
        ),
        body=_positions,
        fill=_where,
    ),
    Command(
        "update-migration-state",
        "Set whether a namespace moves to another cluster, which has no effect here.",
        "POST",
        f"{PATH}/migration",
        (SUBJECT, flag("--migrated", "It does.")),
        body=whole_body("migrated"),
    ),
    Command(
        "get-topic-positions",
        "Show the hashes of the topics of a bundle.",
        "GET",
        f"{PATH}/{{bundle}}/topicHashPositions",
        (
            SUBJECT,
            option("-b, --bundle", "The bundle.", required=True),
            option("-tl, --topic-list", "Only these topics.", NAMES, query="topics"),
        ),
    ),
)


BACKLOGS = (
    Command(
        "clear-backlog",
        "Skip all messages of a namespace, of one subscription or all.",
        "POST",
        f"{PATH}/clearBacklog",
        (SUBJECT, SUB, BUNDLE),
        run=_clear,
        question="Skip all these messages?",
    ),
    Command(
        "unsubscribe",
        "Delete a subscription on all topics of a namespace.",
        "POST",
        f"{PATH}/unsubscribe/{{sub}}",
        (SUBJECT, replace(SUB, required=True), BUNDLE),
        other_path=("bundle", f"{PATH}/{{bundle}}/unsubscribe/{{sub}}"),
    ),
)


PROPERTIES = (
    Command("get-properties", "Show all properties.", "GET", f"{PATH}/properties", (SUBJECT,)),
    Command(
        "set-properties",
        "Add or change properties.",
        "PUT",
        f"{PATH}/properties",
        (
            SUBJECT,
            option("-p, --properties", "a=1,b=2; repeatable.", PAIRS, many=True, required=True),
        ),
        body=whole_body("properties"),
    ),
    Command(
        "clear-properties", "Remove all properties.", "DELETE", f"{PATH}/properties", (SUBJECT,)
    ),
    Command("get-property", "Show one property.", "GET", PROPERTY, (SUBJECT, KEY), as_text=True),
    Command(
        "set-property",
        "Set one property.",
        "PUT",
        f"{PROPERTY}/{{value}}",
        (SUBJECT, KEY, option("-v, --value", "Its value.", required=True)),
    ),
    Command(
        "remove-property",
        "Remove one property, and show the value it had.",
        "DELETE",
        PROPERTY,
        (SUBJECT, KEY),
        as_text=True,
    ),
)


COMMANDS = (
    *LISTS,
    *LIFETIME,
    *PERMISSION,
    *BUNDLES,
    *BACKLOGS,
    *PROPERTIES,
    *namespace_policies.commands(),
    *resourcegroups.of_namespaces(SUBJECT),
)
