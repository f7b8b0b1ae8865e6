"""`magnetar admin brokers`."""

from typing import TYPE_CHECKING, Any

from magnetar.cli.admin.declarations import Command, Lines, Values, argument, flag, option
from magnetar.cli.admin.groups.damage import WHERE
from magnetar.cli.admin.kinds import NUMBER, one_of
from magnetar.cli.admin.showing import rows, table, with_tables

if TYPE_CHECKING:
    from magnetar.admin.client import AdminClient

PATH = "/admin/v2/brokers"
CLUSTER = argument("cluster", "Name of the cluster.")
CONFIG = option("-c, --config", "Name of the setting.", required=True)


def _list(admin: "AdminClient", values: Values) -> object:
    return admin.get(BROKERS.url(values) if values["cluster"] else PATH)


def _explained(found: dict[str, Any]) -> Lines:
    lines = (
        (name, one["value"] or "-", one["default"] or "-", one["source"])
        for name, one in found.items()
    )
    return table(("setting", "value", "default", "source"), lines)


def _health(admin: "AdminClient", values: Values) -> object:
    answer = admin.ask("GET", HEALTH.url(values), query=HEALTH.query(values))
    return answer.value if values["detailed"] else answer.text


def _health_lines(found: Any) -> Lines:
    return iter((found,)) if isinstance(found, str) else with_tables(found, damaged=WHERE)


BROKERS = Command(
    "list",
    "List the brokers.",
    "GET",
    f"{PATH}/{{cluster}}",
    (argument("cluster", "Name of the cluster; the broker's own if absent.", required=False),),
    run=_list,
)
HEALTH = Command(
    "healthcheck",
    "Send a message through the broker, and print ok if it arrives.",
    "GET",
    f"{PATH}/health",
    (
        option("-tv, --topic-version", "Has no effect.", one_of("V1", "V2"), query="topicVersion"),
        option("--broker-id", "Ask this broker only.", query="brokerId"),
        flag(
            "--detailed",
            "Show which stored messages could not be read since the start, too.",
            query="detailed",
        ),
    ),
    run=_health,
    show=_health_lines,
)
COMMANDS = (
    BROKERS,
    Command("leader-broker", "Show the leader.", "GET", f"{PATH}/leaderBroker"),
    Command(
        "namespaces",
        "List the bundles that a broker owns.",
        "GET",
        f"{PATH}/{{cluster}}/{{url}}/ownedNamespaces",
        (CLUSTER, option("-u, --url", "Id of the broker, HOST:PORT.", required=True)),
        show=rows,
    ),
    HEALTH,
    Command("version", "Show the broker's version.", "GET", f"{PATH}/version", as_text=True),
    Command(
        "list-dynamic-config",
        "List the settings that can be changed while the broker runs.",
        "GET",
        f"{PATH}/configuration",
    ),
    Command(
        "get-all-dynamic-config",
        "Show the settings that were changed while the broker ran.",
        "GET",
        f"{PATH}/configuration/values",
    ),
    Command(
        "get-runtime-config",
        "Show all settings in effect.",
        "GET",
        f"{PATH}/configuration/runtime",
    ),
    Command(
        "explain-config",
        "Show all settings in effect, their defaults, and where they were set.",
        "GET",
        f"{PATH}/configuration/explain",
        show=_explained,
    ),
    Command(
        "update-dynamic-config",
        "Change a setting while the broker runs.",
        "POST",
        f"{PATH}/configuration/{{config}}/{{value}}",
        (CONFIG, option("-v, --value", "Its value.", required=True)),
    ),
    Command(
        "delete-dynamic-config",
        "Undo the change of a setting.",
        "DELETE",
        f"{PATH}/configuration/{{config}}",
        (CONFIG,),
    ),
    Command(
        "get-internal-config",
        "Show where the broker keeps its metadata.",
        "GET",
        f"{PATH}/internal-configuration",
    ),
    Command(
        "backlog-quota-check",
        "Check all backlog quotas now.",
        "GET",
        f"{PATH}/backlog-quota-check",
    ),
    Command(
        "shutdown",
        "Stop the broker.",
        "POST",
        f"{PATH}/shutdown",
        (
            option(
                "-m, --max-concurrent-unload-per-sec",
                "Has no effect.",
                NUMBER,
                default="0",
                query="maxConcurrentUnloadPerSec",
            ),
            flag("-f, --forced-terminate-topic", "Has no effect.", query="forcedTerminateTopic"),
        ),
    ),
)
