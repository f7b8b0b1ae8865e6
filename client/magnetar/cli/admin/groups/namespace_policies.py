"""The policies of `magnetar admin namespaces`."""

from collections.abc import Iterator
from dataclasses import replace

from magnetar.cli.admin.declarations import Command, Values, argument, option, whole_body
from magnetar.cli.admin.groups import policies, stored_policies
from magnetar.cli.admin.groups.policies import SWITCH, Policy, limit
from magnetar.cli.admin.kinds import MINUTES, NAMESPACE, NUMBER, one_of

PATH = "/admin/v2/namespaces/{namespace}"
SUBJECT = argument("namespace", "Name of the namespace, TENANT/NAMESPACE.", NAMESPACE)


def _creation(values: Values) -> object:
    found: dict[str, object] = {"allowAutoTopicCreation": policies.switched(values)}
    if found["allowAutoTopicCreation"]:
        found["topicType"] = values["type"]
        if values["num_partitions"] is not None:
            found["defaultNumPartitions"] = values["num_partitions"]
    return found


POLICIES = (
    policies.RETENTION,
    replace(policies.BACKLOG_QUOTA, get_name="get-backlog-quotas"),
    policies.ttl("-ttl, --messageTTL"),
    policies.expiration(MINUTES),
    policies.INACTIVE_TOPICS,
    replace(policies.COMPACTION_THRESHOLD, verb="PUT"),
    policies.DELAYED_DELIVERY,
    policies.DISPATCH_RATE,
    policies.SUBSCRIPTION_DISPATCH_RATE,
    policies.REPLICATOR_DISPATCH_RATE,
    policies.PUBLISH_RATE,
    policies.SUBSCRIBE_RATE,
    Policy(
        "auto-topic-creation",
        "the creation of topics by use",
        "autoTopicCreation",
        (
            *SWITCH,
            option(
                "-t, --type",
                "Kind of topic.",
                one_of("partitioned", "non-partitioned"),
                default="non-partitioned",
            ),
            option("-n, --num-partitions", "Partitions of a new topic.", NUMBER),
        ),
        _creation,
    ),
    policies.AUTO_SUBSCRIPTION_CREATION,
    policies.SUBSCRIPTION_TYPES,
    limit(
        "max-producers-per-topic",
        "-p, --max-producers-per-topic",
        "the limit of producers of a topic",
        "maxProducersPerTopic",
    ),
    limit(
        "max-consumers-per-topic",
        "-c, --max-consumers-per-topic",
        "the limit of consumers of a topic",
        "maxConsumersPerTopic",
    ),
    limit(
        "max-consumers-per-subscription",
        "-c, --max-consumers-per-subscription",
        "the limit of consumers of a subscription",
        "maxConsumersPerSubscription",
    ),
    limit(
        "max-subscriptions-per-topic",
        "-m, --max-subscriptions-per-topic",
        "the limit of subscriptions of a topic",
        "maxSubscriptionsPerTopic",
    ),
    limit(
        "max-topics-per-namespace",
        "-t, --max-topics-per-namespace",
        "the limit of topics",
        "maxTopicsPerNamespace",
    ),
    limit(
        "max-unacked-messages-per-consumer",
        "-c, --max-unacked-messages-per-topic",
        "the limit of unacknowledged messages of a consumer",
        "maxUnackedMessagesPerConsumer",
    ),
    limit(
        "max-unacked-messages-per-subscription",
        "-c, --max-unacked-messages-per-subscription",
        "the limit of unacknowledged messages of a subscription",
        "maxUnackedMessagesPerSubscription",
    ),
    Policy(
        "deduplication",
        "the deduplication of messages",
        "deduplication",
        SWITCH,
        policies.switched,
    ),
    replace(policies.SNAPSHOT_INTERVAL, removable=False),
    policies.schema_compatibility("-c, --compatibility", removable=False),
    policies.SCHEMA_VALIDATION,
    Policy(
        "is-allow-auto-update-schema",
        "the permission of producers to add schema versions",
        "isAllowAutoUpdateSchema",
        SWITCH,
        policies.switched,
        removable=False,
    ),
    Policy(
        "encryption-required",
        "the requirement of encryption",
        "encryptionRequired",
        SWITCH,
        policies.switched,
        removable=False,
    ),
    Policy(
        "subscription-auth-mode",
        "the authorization mode of subscriptions",
        "subscriptionAuthMode",
        (
            option(
                "-m, --subscription-auth-mode",
                "The mode.",
                one_of("None", "Prefix"),
                required=True,
            ),
        ),
        whole_body("subscription_auth_mode"),
        removable=False,
    ),
    policies.PERSISTENCE,
    replace(policies.replication("clusters"), removable=False),
    *stored_policies.OF_NAMESPACES,
)


def commands() -> Iterator[Command]:
    """Yield the commands of all policies of namespaces."""
    for policy in POLICIES:
        yield from policy.commands(SUBJECT, PATH, ())
    yield Command(
        "explain-policies",
        "Show every policy in effect, and where its value comes from.",
        "GET",
        f"{PATH}/policies/explain",
        (SUBJECT,),
        show=policies.explained,
    )
