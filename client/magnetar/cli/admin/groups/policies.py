"""Special steps of the commands of policies."""

from collections.abc import Mapping
from typing import Any

from magnetar.cli.admin.declarations import Command, Contradiction, Lines, Special, Values
from magnetar.cli.admin.showing import policy_lines, rows


def _explained(found: Mapping[str, Mapping[str, Any]]) -> Lines:
    """Return a table of policies with their values, and the source of each."""
    return rows(found, ("value", "source"))


def _quota(command: Command, values: Values) -> object:
    size, time = values["limitSize"], values["limitTime"]
    if values["backlogQuotaType"] == "destination_storage" and size is None:
        raise Contradiction("--type destination_storage needs --limit")
    if values["backlogQuotaType"] == "message_age" and time is None:
        raise Contradiction("--type message_age needs --limitTime")
    return {
        "limitSize": -1 if size is None else size,
        "limitTime": -1 if time is None else time,
        "policy": values["policy"],
    }


def _creation(command: Command, values: Values) -> object:
    """Return the rule for new topics, with their kind only where they are created."""
    found: dict[str, object] = {"allowAutoTopicCreation": values["allowAutoTopicCreation"]}
    if found["allowAutoTopicCreation"]:
        found["topicType"] = values["topicType"]
        if values["defaultNumPartitions"] is not None:
            found["defaultNumPartitions"] = values["defaultNumPartitions"]
    return found


def _threshold(command: Command, values: Values) -> object:
    return values["size"] if values["time"] is None else values["time"]


def _strategy(command: Command, values: Values) -> object:
    if (values["compatibility"] is None) == (not values["disabled"]):
        raise Contradiction("give either --compatibility or --disabled")
    return values["compatibility"] or "AutoUpdateDisabled"


SPECIALS = {
    "policies.explain.of_namespace": Special(show=_explained),
    "policies.explain.of_topic": Special(show=_explained),
    "policies.quotas.on_set": Special(body=_quota),
    "policies.auto_topic_creation.set": Special(body=_creation),
    "policies.offload_threshold.set": Special(body=_threshold),
    "policies.former_schema_compatibility.set": Special(body=_strategy),
    "brokers.absent.filters": Special(show=policy_lines),
}
