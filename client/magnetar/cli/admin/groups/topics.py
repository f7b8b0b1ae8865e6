"""`magnetar admin topics`."""

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from magnetar.cli.admin.declarations import (
    Command,
    Contradiction,
    Lines,
    Values,
    argument,
    flag,
    option,
    whole_body,
)
from magnetar.cli.admin.groups import (
    damage,
    letters,
    messages,
    stored_policies,
    subscriptions,
    topic_policies,
)
from magnetar.cli.admin.groups.subscriptions import FORCE, PROPERTY
from magnetar.cli.admin.groups.topic_policies import PATH, SUBJECT
from magnetar.cli.admin.kinds import (
    NAMESPACE,
    NUMBER,
    PAIRS,
    one_of,
    some_of,
)
from magnetar.cli.admin.showing import with_tables
from magnetar.cli.admin.stats import topic_lines

if TYPE_CHECKING:
    from magnetar.admin.client import AdminClient

IN_NAMESPACE = argument("namespace", "Name of the namespace, TENANT/NAMESPACE.", NAMESPACE)
SYSTEM = flag("-ist, --include-system-topic", "Also the broker's own.", query="includeSystemTopic")
CURSOR = ("markDeletePosition", "readPosition", "state", "individuallyDeletedMessages")
PARTITIONS = option("-p, --partitions", "Number of partitions.", NUMBER, required=True)
PROPERTIES = option("-m, --metadata", "Properties: a=1,b=2; repeatable.", PAIRS, many=True)
WITH_PROPERTIES = "application/vnd.partitioned-topic-metadata+json"
"""The media type of a body that is an object; without it Pulsar expects a number."""
ROLE = option("-r, --role", "Name of the role.", required=True)
STATS = (
    flag("-gpb, --get-precise-backlog", "Count messages exactly.", query="getPreciseBacklog"),
    flag(
        "-sbs, --get-subscription-backlog-size",
        "Add the size of each backlog.",
        query="subscriptionBacklogSize",
    ),
    flag(
        "-etb, --get-earliest-time-in-backlog",
        "Add the age of each backlog.",
        query="getEarliestTimeInBacklog",
    ),
    flag("-ep, --exclude-publishers", "Without producers.", query="excludePublishers"),
    flag("-ec, --exclude-consumers", "Without consumers.", query="excludeConsumers"),
)
PER_PARTITION = flag(
    "--per-partition", "Also of each partition.", query="perPartition", sends_false=True
)

# Lists and their topics -------------------------------------------------------------------


def _list(admin: "AdminClient", values: Values) -> list[str]:
    """Return the topics of one domain, or of both."""
    domains = [values["topic_domain"]] if values["topic_domain"] else DOMAINS
    query = LIST.query(values)
    found: list[str] = []
    for domain in domains:
        path = f"/admin/v2/{domain.replace('_', '-')}/{values['namespace']}"
        found += admin.ask("GET", path, query=query).value
    return found


DOMAINS = ("persistent", "non_persistent")
LIST = Command(
    "list",
    "List the topics of a namespace, with each partition.",
    "GET",
    "/admin/v2/{persistent|non-persistent}/{namespace}",
    (
        IN_NAMESPACE,
        option("-td, --topic-domain", "Only these.", one_of(*DOMAINS)),
        option("-b, --bundle", "Only those of a bundle.", query="bundle"),
        SYSTEM,
    ),
    run=_list,
)
METADATA = Command(
    "get-partitioned-topic-metadata",
    "Show how many partitions a topic has; 0 if it is not partitioned.",
    "GET",
    f"{PATH}/partitions",
    (SUBJECT,),
)
LISTS = (
    LIST,
    Command(
        "list-partitioned-topics",
        "List the partitioned topics of a namespace.",
        "GET",
        "/admin/v2/persistent/{namespace}/partitioned",
        (IN_NAMESPACE, SYSTEM),
    ),
    Command(
        "create",
        "Create a topic without partitions.",
        "PUT",
        PATH,
        (SUBJECT, PROPERTIES),
        body=whole_body("metadata"),
    ),
    Command(
        "create-partitioned-topic",
        "Create a partitioned topic.",
        "PUT",
        f"{PATH}/partitions",
        (SUBJECT, PARTITIONS, PROPERTIES),
        body=lambda values: {
            "partitions": values["partitions"],
            "properties": values["metadata"] or {},
        },
        media_type=WITH_PROPERTIES,
    ),
    Command(
        "update-partitioned-topic",
        "Add partitions to a topic.",
        "POST",
        f"{PATH}/partitions",
        (
            SUBJECT,
            PARTITIONS,
            flag("-f, --force", "Without checks of the existing partitions.", query="force"),
            flag("-ulo, --update-local-only", "Here only.", query="updateLocalTopicOnly"),
        ),
        body=whole_body("partitions"),
    ),
    Command(
        "create-missed-partitions",
        "Create partitions that are missing.",
        "POST",
        f"{PATH}/createMissedPartitions",
        (SUBJECT,),
    ),
    METADATA,
    Command("delete", "Delete a topic.", "DELETE", PATH, (SUBJECT, FORCE)),
    Command(
        "delete-partitioned-topic",
        "Delete a partitioned topic.",
        "DELETE",
        f"{PATH}/partitions",
        (SUBJECT, FORCE),
    ),
    Command(
        "unload",
        "Close a topic, whose clients connect again.",
        "PUT",
        f"{PATH}/unload",
        (SUBJECT,),
    ),
)

# Owners and permissions -------------------------------------------------------------------


def _lookups(admin: "AdminClient", values: Values) -> dict[str, str]:
    """Return the broker of each partition, or the partitions of each broker."""
    count = admin.get(METADATA.url(values))["partitions"]
    if count == 0:
        raise Contradiction(f"{values['topic']} is not partitioned: use lookup")
    found: dict[str, Any] = {}
    for index in range(count):
        part = values["topic"].with_partition(index)
        broker = admin.get(LOOKUP.url({"topic": part}))["brokerUrl"]
        if values["sort_by_broker"]:
            found.setdefault(broker, []).append(str(part))
        else:
            found[str(part)] = broker
    return found


LOOKUP = Command(
    "lookup",
    "Show which broker serves a topic.",
    "GET",
    "/lookup/v2/topic/{topic}",
    (SUBJECT,),
)
LOOKUP_PARTITIONS = Command(
    "partitioned-lookup",
    "Show which broker serves each partition.",
    "GET",
    "/lookup/v2/topic/{topic}",
    (SUBJECT, flag("-s, --sort-by-broker", "The partitions of each broker.")),
    run=_lookups,
)
PLACES = (
    LOOKUP,
    LOOKUP_PARTITIONS,
    Command(
        "bundle-range",
        "Show the bundle of a topic.",
        "GET",
        "/lookup/v2/topic/{topic}/bundle",
        (SUBJECT,),
        as_text=True,
    ),
    Command(
        "permissions",
        "Show who may use a topic, by its namespace's permissions too.",
        "GET",
        f"{PATH}/permissions",
        (SUBJECT,),
    ),
    Command(
        "grant-permission",
        "Grant a role the right to use a topic.",
        "POST",
        f"{PATH}/permissions/{{role}}",
        (
            SUBJECT,
            ROLE,
            option(
                "-a, --actions",
                "What is granted: produce, consume, functions, sources, sinks, packages.",
                some_of("produce", "consume", "functions", "sources", "sinks", "packages"),
                required=True,
            ),
        ),
        body=whole_body("actions"),
    ),
    Command(
        "revoke-permission",
        "Revoke all rights of a role on a topic.",
        "DELETE",
        f"{PATH}/permissions/{{role}}",
        (SUBJECT, ROLE),
    ),
    Command(
        "get-properties", "Show the properties of a topic.", "GET", f"{PATH}/properties", (SUBJECT,)
    ),
    Command(
        "update-properties",
        "Add or change properties of a topic.",
        "PUT",
        f"{PATH}/properties",
        (SUBJECT, replace(PROPERTY, required=True)),
        body=whole_body("property"),
    ),
    Command(
        "remove-properties",
        "Remove a property of a topic.",
        "DELETE",
        f"{PATH}/properties",
        (SUBJECT, option("-k, --key", "Name of the property.", required=True, query="key")),
    ),
)

# State ------------------------------------------------------------------------------------


def _segments(stats: dict[str, Any]) -> Lines:
    """Show counters, and tables of segments and cursors."""
    return with_tables(stats, ledgers=(), cursors=CURSOR)


def _stored(found: dict[str, Any]) -> Lines:
    return with_tables(found, ledgers=(), cursors=("cursorsLedgerId", "markDelete"))


def _backlogs(found: dict[str, Any]) -> Lines:
    return with_tables(found, dataLedgerDetails=(), cursorDetails=())


def _retention(found: dict[str, Any]) -> Lines:
    return with_tables(found, subscriptions=(), segments=())


def _compaction(admin: "AdminClient", values: Values) -> Any:
    """Return the state of compaction; with a flag, wait for its end."""
    path = COMPACTION.url(values)
    found = admin.get(path)
    if values["wait_complete"] and found.get("status") == "RUNNING":
        click.echo("compaction is running", err=True)
        while found.get("status") == "RUNNING":
            time.sleep(WAIT_S)
            found = admin.get(path)
    return found


WAIT_S = 1.0
COMPACTION = Command(
    "compaction-status",
    "Show whether compaction runs, or how the last one ended.",
    "GET",
    f"{PATH}/compaction",
    (SUBJECT, flag("-w, --wait-complete", "Wait until it does not run.")),
    run=_compaction,
)
STATE = (
    Command(
        "stats",
        "Show rates, backlogs, producers, subscriptions and consumers of a topic.",
        "GET",
        f"{PATH}/stats",
        (SUBJECT, *STATS),
        show=topic_lines,
    ),
    Command(
        "partitioned-stats",
        "Show the same of a partitioned topic.",
        "GET",
        f"{PATH}/partitioned-stats",
        (SUBJECT, PER_PARTITION, *STATS),
        show=topic_lines,
    ),
    Command(
        "stats-internal",
        "Show the segments and cursors of a topic.",
        "GET",
        f"{PATH}/internalStats",
        (SUBJECT, flag("-m, --metadata", "With metadata of the segments.", query="metadata")),
        show=_segments,
    ),
    Command(
        "backlogs",
        "Show what a topic stores, and the backlogs of its subscriptions.",
        "GET",
        f"{PATH}/backlog",
        (SUBJECT,),
        show=_backlogs,
    ),
    Command(
        "partitioned-stats-internal",
        "Show the segments and cursors of all partitions.",
        "GET",
        f"{PATH}/partitioned-internalStats",
        (SUBJECT,),
    ),
    Command(
        "info-internal",
        "Show what is stored about the segments and cursors of a topic.",
        "GET",
        f"{PATH}/internal-info",
        (SUBJECT,),
        show=_stored,
    ),
    Command("compact", "Start the compaction of a topic.", "PUT", f"{PATH}/compaction", (SUBJECT,)),
    COMPACTION,
    Command(
        "terminate",
        "End a topic: nothing can be published to it again.",
        "POST",
        f"{PATH}/terminate",
        (SUBJECT,),
    ),
    Command(
        "partitioned-terminate",
        "End all partitions of a topic.",
        "POST",
        f"{PATH}/terminate/partitions",
        (SUBJECT,),
    ),
    Command(
        "truncate",
        "Skip every message for all subscriptions, and delete what is stored.",
        "DELETE",
        f"{PATH}/truncate",
        (SUBJECT,),
    ),
    Command(
        "trim-topic",
        "Delete now what retention does not keep.",
        "POST",
        f"{PATH}/trim",
        (SUBJECT,),
    ),
    Command(
        "offload-status",
        "Show whether data was offloaded; it never is here.",
        "GET",
        f"{PATH}/offload",
        (SUBJECT,),
    ),
    *stored_policies.SHADOWS.commands(SUBJECT, PATH, ()),
    Command(
        "explain-retention",
        "Show when messages are deleted, and which policy decides it.",
        "GET",
        f"{PATH}/explainRetention",
        (SUBJECT,),
        show=_retention,
    ),
)


def _former() -> Iterator[Command]:
    """Yield the policies of topics under their former names, hidden: topicPolicies has them now."""
    renamed = {
        "backlog-quota": "backlog-quotas",
        "max-producers": "maxProducers",
        "max-subscriptions-per-topic": "max-subscriptions",
        "max-unacked-messages-per-consumer": "max-unacked-messages-on-consumer",
        "max-unacked-messages-per-subscription": "max-unacked-messages-on-subscription",
    }
    for command in topic_policies.COMMANDS:
        verb, separator, policy = command.name.partition("-")
        if separator:
            former = renamed.get(policy)
            aliases = (f"{verb}-{former}",) if former else ()
            yield replace(command, hidden=True, aliases=aliases)


COMMANDS = (
    *LISTS,
    *PLACES,
    *STATE,
    *messages.MESSAGES,
    *damage.COMMANDS,
    letters.SEARCH,
    *subscriptions.OF_TOPICS,
    *letters.OF_SUBSCRIPTIONS,
    *_former(),
)
