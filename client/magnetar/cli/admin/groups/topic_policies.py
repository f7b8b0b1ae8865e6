"""`magnetar admin topicPolicies`."""

from collections.abc import Iterator
from dataclasses import replace

from magnetar.cli.admin.declarations import Command, argument, flag, option
from magnetar.cli.admin.groups import policies, stored_policies
from magnetar.cli.admin.groups.policies import (
    SWITCH,
    Policy,
    in_query,
    limit,
)
from magnetar.cli.admin.kinds import MINUTES, SIZE, TOPIC

PATH = "/admin/v2/{topic}"
SUBJECT = argument("topic", "Name of the topic.", TOPIC)
GLOBAL = flag("-g, --global", "Of all clusters.", query="isGlobal")
SUBSCRIPTION = option("-s, --subscription", "Only of this subscription.")

POLICIES = (
    policies.RETENTION,
    policies.BACKLOG_QUOTA,
    in_query(policies.ttl("-t, --ttl")),
    in_query(policies.expiration(MINUTES)),
    policies.INACTIVE_TOPICS,
    policies.COMPACTION_THRESHOLD,
    policies.DELAYED_DELIVERY,
    policies.DISPATCH_RATE,
    policies.REPLICATOR_DISPATCH_RATE,
    policies.PUBLISH_RATE,
    policies.SUBSCRIBE_RATE,
    limit("max-producers", "-p, --max-producers", "the limit of producers", "maxProducers"),
    limit("max-consumers", "-c, --max-consumers", "the limit of consumers", "maxConsumers"),
    limit(
        "max-consumers-per-subscription",
        "-c, --max-consumers-per-subscription",
        "the limit of consumers of a subscription",
        "maxConsumersPerSubscription",
    ),
    limit(
        "max-subscriptions-per-topic",
        "-s, --max-subscriptions-per-topic",
        "the limit of subscriptions",
        "maxSubscriptionsPerTopic",
    ),
    limit(
        "max-unacked-messages-per-consumer",
        "-m, --maxNum",
        "the limit of unacknowledged messages of a consumer",
        "maxUnackedMessagesOnConsumer",
    ),
    limit(
        "max-unacked-messages-per-subscription",
        "-m, --maxNum",
        "the limit of unacknowledged messages of a subscription",
        "maxUnackedMessagesOnSubscription",
    ),
    Policy(
        "max-message-size",
        "the largest size of a message",
        "maxMessageSize",
        (
            option(
                "-m, --max-message-size",
                "The size: 4096, 1M; 0 is the broker's limit.",
                SIZE,
                required=True,
            ),
        ),
        lambda values: values["max_message_size"],
    ),
    policies.SUBSCRIPTION_TYPES,
    policies.AUTO_SUBSCRIPTION_CREATION,
    policies.schema_compatibility("-s, --strategy", removable=True),
    policies.SCHEMA_VALIDATION,
    Policy(
        "deduplication",
        "the deduplication of messages",
        "deduplicationEnabled",
        SWITCH,
        policies.switched,
    ),
    policies.SNAPSHOT_INTERVAL,
    policies.PERSISTENCE,
    policies.replication("replication-clusters"),
    *stored_policies.OF_TOPICS,
)
"""All but the dispatch rate of subscriptions, which is at one of two paths."""


def commands(policy: Policy) -> Iterator[Command]:
    """Return the commands of one policy."""
    return replace(policy, applied=True).commands(SUBJECT, PATH, (GLOBAL,))


def _dispatch_rates() -> Iterator[Command]:
    """Yield the commands for the dispatch rate of all subscriptions, or with a flag of one."""
    for command in commands(policies.SUBSCRIPTION_DISPATCH_RATE):
        subject, *others = command.parameters
        yield replace(
            command,
            parameters=(subject, SUBSCRIPTION, *others),
            other_path=(SUBSCRIPTION.name, f"{PATH}/{{subscription:twice}}/dispatchRate"),
        )


COMMANDS = (
    *(command for policy in POLICIES for command in commands(policy)),
    *_dispatch_rates(),
    Command(
        "explain-policies",
        "Show every policy in effect, and where its value comes from.",
        "GET",
        f"{PATH}/policies/explain",
        (SUBJECT,),
        show=policies.explained,
    ),
    Command(
        "delete",
        "Remove all policies of a topic.",
        "DELETE",
        f"{PATH}/policies",
        (SUBJECT,),
    ),
)
