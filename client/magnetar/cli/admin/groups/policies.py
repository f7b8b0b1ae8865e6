"""Policies of namespaces and topics: each declaration makes a get, a set and a remove command.

What policies of namespaces and topics share is here: the flags, and the JSON that they make up.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from magnetar.cli.admin.declarations import (
    Command,
    Contradiction,
    Lines,
    Parameter,
    Values,
    chosen,
    flag,
    option,
    whole_body,
)
from magnetar.cli.admin.kinds import (
    MEGABYTES,
    MILLISECONDS,
    MINUTES_OF_SECONDS,
    NAMES,
    NUMBER,
    SECONDS,
    SIZE,
    Kind,
    one_of,
    some_of,
)
from magnetar.cli.admin.showing import policy_lines, rows

Body = Callable[[Values], object]


@dataclass(frozen=True, slots=True)
class Policy:
    """A policy of a namespace or a topic; `names` are the names of its three commands."""

    name: str
    what: str
    segment: str
    parameters: tuple[Parameter, ...] = ()
    body: Body | None = None
    verb: str = "POST"
    readable: bool = True
    removable: bool = True
    applied: bool = False
    """Whether get can return the value in effect."""
    shown_at: str = ""
    """The path segment that get reads, if it is not `segment`."""
    chosen_by: tuple[Parameter, ...] = ()
    """Parameters that get and remove need, too."""
    settable: bool = False
    """Whether there is a set command even without parameters."""
    other_segment: tuple[str, str] | None = None
    """The name of a parameter, and the path segment that takes its value instead."""
    removed_at: str = ""
    """The path segment that remove deletes, if it is not `segment`."""
    get_name: str = ""
    remove_name: str = ""

    def commands(
        self, subject: Parameter, path: str, more: tuple[Parameter, ...]
    ) -> Iterator[Command]:
        """Yield the commands for a namespace or topic; all of them take the parameters `more`."""
        applied = (APPLIED,) if self.applied else ()
        if self.readable:
            chosen_by = () if self.shown_at else self.chosen_by
            yield Command(
                self.get_name or f"get-{self.name}",
                f"Show {self.what}.",
                "GET",
                f"{path}/{self.shown_at or self.segment}",
                (subject, *chosen_by, *applied, *more),
                show=policy_lines,
            )
        if self.parameters or self.settable:
            yield Command(
                f"set-{self.name}",
                f"Set {self.what}.",
                self.verb,
                f"{path}/{self.segment}",
                (subject, *self.chosen_by, *self.parameters, *more),
                body=self.body,
                other_path=self.other_segment
                and (self.other_segment[0], f"{path}/{self.other_segment[1]}"),
            )
        if self.removable:
            yield Command(
                self.remove_name or f"remove-{self.name}",
                f"Remove {self.what}; the next level is in effect again.",
                "DELETE",
                f"{path}/{self.removed_at or self.segment}",
                (subject, *self.chosen_by, *more),
            )


APPLIED = flag("-ap, --applied", "The value in effect, also if set elsewhere.", query="applied")
ENABLE = flag("-e, --enable", "Enable it.")
DISABLE = flag("-d, --disable", "Disable it.")
SWITCH = (ENABLE, DISABLE)


def switched(values: Values) -> bool:
    """Tell whether `enable` or `disable` is given; Contradiction unless exactly one is."""
    return bool(chosen(values, enable=True, disable=False))


def enabled(values: Values) -> bool:
    """Tell whether `enable` is given; Contradiction if `disable` is given as well."""
    if values["enable"] and values["disable"]:
        raise Contradiction("give --enable or --disable, not both")
    return bool(values["enable"])


def limit(name: str, flags: str, what: str, segment: str, **more: Any) -> Policy:
    """Declare a policy whose value is one number; 0 means no limit."""
    parameter = option(flags, "The limit; 0 means none.", NUMBER, required=True)
    return Policy(name, what, segment, (parameter,), whole_body(parameter.name), **more)


def in_query(policy: Policy) -> Policy:
    """Return the same policy with its value in the query instead of the body."""
    (parameter,) = policy.parameters
    return replace(policy, parameters=(replace(parameter, query=policy.segment),), body=no_body)


def no_body(_: Values) -> None:
    """Return an empty body."""


def explained(found: Mapping[str, Mapping[str, Any]]) -> Lines:
    """Return a table of policies with their values, and the source of each."""
    return rows(found, ("value", "source"))


# Time and size ----------------------------------------------------------------------------

RETENTION = Policy(
    "retention",
    "the retention of acknowledged messages",
    "retention",
    (
        option(
            "-t, --time",
            "How long: 120 (seconds), 100m, 3h, 2d; -1 for ever, 0 not at all.",
            MINUTES_OF_SECONDS,
            required=True,
            member="retentionTimeInMinutes",
        ),
        option(
            "-s, --size",
            "How much: 4096 (bytes), 10M, 16G, 3T; -1 without limit, 0 nothing.",
            MEGABYTES,
            required=True,
            member="retentionSizeInMB",
        ),
    ),
)
TYPE = option(
    "-t, --type",
    "What is limited.",
    one_of("destination_storage", "message_age"),
    default="destination_storage",
    query="backlogQuotaType",
)
QUOTA_POLICIES = ("producer_request_hold", "producer_exception", "consumer_backlog_eviction")


def _quota(values: Values) -> object:
    size, time = values["limit"], values["limitTime"]
    if values["type"] == "destination_storage" and size is None:
        raise Contradiction("--type destination_storage needs --limit")
    if values["type"] == "message_age" and time is None:
        raise Contradiction("--type message_age needs --limitTime")
    return {
        "limitSize": -1 if size is None else size,
        "limitTime": -1 if time is None else time,
        "policy": values["policy"],
    }


BACKLOG_QUOTA = Policy(
    "backlog-quota",
    "the limit of backlogs",
    "backlogQuota",
    (
        option("-l, --limit", "The size: 10M, 16G.", SIZE),
        option("-lt, --limitTime", "The age: 3600 (seconds), 3h.", SECONDS),
        option("-p, --policy", "What happens then.", one_of(*QUOTA_POLICIES), required=True),
    ),
    _quota,
    shown_at="backlogQuotaMap",
    chosen_by=(TYPE,),
)


def ttl(flags: str) -> Policy:
    """Declare the policy of the time to live of messages."""
    parameter = option(
        flags, "The age: 60 (seconds), 3h, 2d; 0 means never.", SECONDS, required=True
    )
    return Policy(
        "message-ttl",
        "the time to live of messages",
        "messageTTL",
        (parameter,),
        whole_body(parameter.name),
    )


def expiration(kind: Kind) -> Policy:
    """Declare the policy of the age at which unused subscriptions are deleted."""
    return Policy(
        "subscription-expiration-time",
        "the age at which unused subscriptions are deleted",
        "subscriptionExpirationTime",
        (
            option(
                "-t, --time", "The time: 60 (minutes), 3h, 2d; 0 means never.", kind, required=True
            ),
        ),
        whole_body("time"),
    )


def _inactive(values: Values) -> object:
    return {
        "inactiveTopicDeleteMode": values["delete_mode"],
        "maxInactiveDurationSeconds": values["max_inactive_duration"],
        "deleteWhileInactive": chosen(
            values, enable_delete_while_inactive=True, disable_delete_while_inactive=False
        ),
    }


INACTIVE_TOPICS = Policy(
    "inactive-topic-policies",
    "the deletion of unused topics",
    "inactiveTopicPolicies",
    (
        flag("-e, --enable-delete-while-inactive", "Delete it."),
        flag("-d, --disable-delete-while-inactive", "Keep it."),
        option("-t, --max-inactive-duration", "After this time.", SECONDS, required=True),
        option(
            "-m, --delete-mode",
            "What counts as unused.",
            one_of("delete_when_no_subscriptions", "delete_when_subscriptions_caught_up"),
            required=True,
        ),
    ),
    _inactive,
)
COMPACTION_THRESHOLD = Policy(
    "compaction-threshold",
    "the amount of new data that starts compaction",
    "compactionThreshold",
    (option("-t, --threshold", "The size: 10M, 16G; 0 means never.", SIZE, required=True),),
    whole_body("threshold"),
)


def _delays(values: Values) -> object:
    found = {"active": switched(values), "tickTime": values["time"]}
    if values["maxDelay"] is not None:
        found["maxDeliveryDelayInMillis"] = values["maxDelay"]
    return found


DELAYED_DELIVERY = Policy(
    "delayed-delivery",
    "the rules for delayed messages",
    "delayedDelivery",
    (
        *SWITCH,
        option("-t, --time", "Precision.", MILLISECONDS, default="1s"),
        option("-md, --maxDelay", "The longest delay; 0 means no limit.", MILLISECONDS),
    ),
    _delays,
)

# Rates ------------------------------------------------------------------------------------

DISPATCH_FLAGS = (
    option(
        "-md, --msg-dispatch-rate",
        "Messages in a period; -1 means no limit.",
        NUMBER,
        default="-1",
        member="dispatchThrottlingRateInMsg",
    ),
    option(
        "-bd, --byte-dispatch-rate",
        "Bytes in a period; -1 means no limit.",
        SIZE,
        default="-1",
        member="dispatchThrottlingRateInByte",
    ),
    option(
        "-dt, --dispatch-rate-period",
        "Seconds of a period.",
        NUMBER,
        default="1",
        member="ratePeriodInSecond",
    ),
    flag(
        "-rp, --relative-to-publish-rate",
        "Add the rate of publishing.",
        member="relativeToPublishRate",
    ),
)
DISPATCH_RATE = Policy(
    "dispatch-rate", "the rate limit of delivery", "dispatchRate", DISPATCH_FLAGS
)
SUBSCRIPTION_DISPATCH_RATE = Policy(
    "subscription-dispatch-rate",
    "the rate limit of delivery for subscriptions",
    "subscriptionDispatchRate",
    DISPATCH_FLAGS,
)
REPLICATOR_DISPATCH_RATE = Policy(
    "replicator-dispatch-rate",
    "the rate limit of replication",
    "replicatorDispatchRate",
    DISPATCH_FLAGS,
)
PUBLISH_RATE = Policy(
    "publish-rate",
    "the rate limit of publishing",
    "publishRate",
    (
        option(
            "-m, --msg-publish-rate",
            "Messages a second; -1 means no limit.",
            NUMBER,
            default="-1",
            member="publishThrottlingRateInMsg",
        ),
        option(
            "-b, --byte-publish-rate",
            "Bytes a second; -1 means no limit.",
            SIZE,
            default="-1",
            member="publishThrottlingRateInByte",
        ),
    ),
)
SUBSCRIBE_RATE = Policy(
    "subscribe-rate",
    "the rate limit of subscribing",
    "subscribeRate",
    (
        option(
            "-sr, --subscribe-rate",
            "Times in a period; -1 means no limit.",
            NUMBER,
            default="-1",
            member="subscribeThrottlingRatePerConsumer",
        ),
        option(
            "-st, --subscribe-rate-period",
            "Seconds of a period.",
            NUMBER,
            default="30",
            member="ratePeriodInSecond",
        ),
    ),
)

# Permitted uses ---------------------------------------------------------------------------

SUBSCRIPTION_TYPES = Policy(
    "subscription-types-enabled",
    "the allowed types of subscriptions",
    "subscriptionTypesEnabled",
    (
        option(
            "-t, --types",
            "Exclusive, Shared, Failover, Key_Shared.",
            some_of("Exclusive", "Shared", "Failover", "Key_Shared"),
            required=True,
        ),
    ),
    whole_body("types"),
)
AUTO_SUBSCRIPTION_CREATION = Policy(
    "auto-subscription-creation",
    "the creation of subscriptions by use",
    "autoSubscriptionCreation",
    SWITCH,
    lambda values: {"allowAutoSubscriptionCreation": enabled(values)},
)
STRATEGIES = (
    "UNDEFINED",
    "ALWAYS_INCOMPATIBLE",
    "ALWAYS_COMPATIBLE",
    "BACKWARD",
    "FORWARD",
    "FULL",
    "BACKWARD_TRANSITIVE",
    "FORWARD_TRANSITIVE",
    "FULL_TRANSITIVE",
)


def schema_compatibility(flags: str, removable: bool) -> Policy:
    """Declare the policy of the schema changes that are allowed."""
    parameter = option(flags, "The strategy.", one_of(*STRATEGIES), required=True)
    return Policy(
        "schema-compatibility-strategy",
        "the strategy for changes of schemas",
        "schemaCompatibilityStrategy",
        (parameter,),
        whole_body(parameter.name),
        verb="PUT",
        removable=removable,
    )


SCHEMA_VALIDATION = Policy(
    "schema-validation-enforce",
    "the refusal of producers without a schema",
    "schemaValidationEnforced",
    SWITCH,
    enabled,
    removable=False,
    applied=True,
)
SNAPSHOT_INTERVAL = Policy(
    "deduplication-snapshot-interval",
    "the interval of deduplication snapshots",
    "deduplicationSnapshotInterval",
    (option("-i, --interval", "Seconds; 0 means never by time.", SECONDS, required=True),),
    whole_body("interval"),
)
PERSISTENCE = Policy(
    "persistence",
    "the number of copies, which has no effect here",
    "persistence",
    (
        option(
            "-e, --bookkeeper-ensemble",
            "Number of bookies.",
            NUMBER,
            default="2",
            member="bookkeeperEnsemble",
        ),
        option(
            "-w, --bookkeeper-write-quorum",
            "Copies of an entry.",
            NUMBER,
            default="2",
            member="bookkeeperWriteQuorum",
        ),
        option(
            "-a, --bookkeeper-ack-quorum",
            "Copies to wait for.",
            NUMBER,
            default="2",
            member="bookkeeperAckQuorum",
        ),
        option(
            "-r, --ml-mark-delete-max-rate",
            "How often cursors are stored.",
            Kind("RATE", float),
            default="0",
            member="managedLedgerMaxMarkDeleteRate",
        ),
    ),
)


def replication(name: str) -> Policy:
    """Declare the policy of the clusters to which a topic is replicated."""
    return Policy(
        name,
        "the clusters to replicate to",
        "replication",
        (option("-c, --clusters", "Names of the clusters.", NAMES, required=True),),
        whole_body("clusters"),
    )
