"""The policies of namespaces and topics: each is set, shown and removed on a real broker."""

from collections.abc import Iterator

import pytest

from admin_command import Place, admin, answered, done
from magnetar.cli.admin.commands import commands_of
from magnetar.cli.admin.declarations import Command
from running_broker import RunningBroker

RATE = {
    "dispatchThrottlingRateInMsg": 10,
    "dispatchThrottlingRateInByte": 1024,
    "relativeToPublishRate": False,
    "ratePeriodInSecond": 1,
}
EXAMPLES: dict[str, tuple[str, object]] = {
    "retention": ("-t 3h -s 10G", {"retentionTimeInMinutes": 180, "retentionSizeInMB": 10240}),
    "message-ttl": ("--ttl 2h", 7200),
    "subscription-expiration-time": ("-t 1d", 1440),
    "inactive-topic-policies": (
        "-e -t 2d -m delete_when_no_subscriptions",
        {
            "inactiveTopicDeleteMode": "delete_when_no_subscriptions",
            "maxInactiveDurationSeconds": 172_800,
            "deleteWhileInactive": True,
        },
    ),
    "compaction-threshold": ("-t 10M", 10 << 20),
    "delayed-delivery": (
        "-e -t 2s -md 1d",
        {"active": True, "tickTime": 2000, "maxDeliveryDelayInMillis": 86_400_000},
    ),
    "dispatch-rate": ("-md 10 -bd 1K", RATE),
    "subscription-dispatch-rate": ("-md 10 -bd 1K", RATE),
    "publish-rate": (
        "-m 10 -b 1M",
        {"publishThrottlingRateInMsg": 10, "publishThrottlingRateInByte": 1 << 20},
    ),
    "subscribe-rate": (
        "-sr 5 -st 60",
        {"subscribeThrottlingRatePerConsumer": 5, "ratePeriodInSecond": 60},
    ),
    "max-producers": ("-p 7", 7),
    "max-consumers": ("-c 7", 7),
    "max-consumers-per-subscription": ("-c 7", 7),
    "max-subscriptions-per-topic": ("--max-subscriptions-per-topic 7", 7),
    "max-producers-per-topic": ("-p 7", 7),
    "max-consumers-per-topic": ("-c 7", 7),
    "max-topics-per-namespace": ("-t 7", 7),
    "max-unacked-messages-per-consumer": ("-m 7", 7),
    "max-unacked-messages-per-subscription": ("-m 7", 7),
    "max-message-size": ("-m 1M", 1 << 20),
    "subscription-types-enabled": ("-t Shared,Failover", ["Failover", "Shared"]),
    "auto-topic-creation": (
        "-e -t partitioned -n 3",
        {"allowAutoTopicCreation": True, "topicType": "partitioned", "defaultNumPartitions": 3},
    ),
    "auto-subscription-creation": ("-d", {"allowAutoSubscriptionCreation": False}),
    "schema-compatibility-strategy": ("-s BACKWARD", "BACKWARD"),
    "schema-validation-enforce": ("-e", True),
    "is-allow-auto-update-schema": ("-d", False),
    "encryption-required": ("-e", True),
    "deduplication": ("-e", True),
    "replicator-dispatch-rate": ("-md 10 -bd 1K", RATE),
    "persistence": (
        "-e 1 -w 1 -a 1 -r 2",
        {
            "bookkeeperEnsemble": 1,
            "bookkeeperWriteQuorum": 1,
            "bookkeeperAckQuorum": 1,
            "managedLedgerMaxMarkDeleteRate": 2.0,
        },
    ),
    "replication-clusters": ("-c standalone", ["standalone"]),
    "clusters": ("-c standalone", ["standalone"]),
    "allowed-clusters": ("-c standalone", ["standalone"]),
    "subscription-auth-mode": ("-m Prefix", "Prefix"),
    "offload-threshold": ("-s 1G", 1 << 30),
    "offload-deletion-lag": ("-l 1h", 3_600_000),
    "offload-policies": (
        "-d S3 -b things -t 1M",
        {
            "managedLedgerOffloadDriver": "S3",
            "managedLedgerOffloadBucket": "things",
            "managedLedgerOffloadThresholdInBytes": 1 << 20,
        },
    ),
    "dispatcher-pause-on-ack-state-persistent": ("", True),
    "bookie-affinity-group": (
        "-pg a,b",
        {"bookkeeperAffinityGroupPrimary": "a,b", "bookkeeperAffinityGroupSecondary": ""},
    ),
    "anti-affinity-group": ("-g apart", "apart"),
    "schema-autoupdate-strategy": ("-c Backward", "Backward"),
    "deduplication-snapshot-interval": ("-i 5m", 300),
}
OF_NAMESPACES = {
    "message-ttl": "-ttl 2h",
    "offload-policies": "-d S3 -b things -oat 1M",
    "max-unacked-messages-per-consumer": "-c 7",
    "max-unacked-messages-per-subscription": "-c 7",
    "schema-compatibility-strategy": "-c BACKWARD",
}
"""Flags that differ from those of topics."""
APART = {"backlog-quota", "backlog-quotas", "entry-filters", "entry-filters-per-topic"}
"""Tried in tests of their own."""


def names_of(commands: Iterator[Command], verb: str) -> list[str]:
    prefix = f"{verb}-"
    return [one.name.removeprefix(prefix) for one in commands if one.name.startswith(prefix)]


GROUPS = {
    group: tuple(one for one in commands_of(group) if one.endpoint.name.startswith("policies."))
    for group in ("namespaces", "topicPolicies")
}
SETTABLE = [
    (group, name)
    for group, commands in GROUPS.items()
    for name in names_of(iter(commands), "set")
    if name not in APART
]


@pytest.mark.parametrize(("group", "policy"), SETTABLE)
def test_policy(broker: RunningBroker, group: str, policy: str) -> None:
    place = Place(broker)
    subject = place["namespace" if group == "namespaces" else "topic"]
    flags, value = EXAMPLES[policy]
    if group == "namespaces":
        flags = OF_NAMESPACES.get(policy, flags)
    unset = answered(broker, group, f"get-{policy}", subject)
    assert done(broker, group, f"set-{policy}", subject, *flags.split()) == ""
    found = answered(broker, group, f"get-{policy}", subject)
    assert (sorted(found) if isinstance(found, list) else found) == value
    assert done(broker, group, f"get-{policy}", subject) != "not set\n"
    if policy in names_of(iter(GROUPS[group]), "remove"):
        assert done(broker, group, f"remove-{policy}", subject) == ""
        assert answered(broker, group, f"get-{policy}", subject) == unset


@pytest.mark.parametrize("group", GROUPS)
def test_backlog_quotas(broker: RunningBroker, group: str) -> None:
    place = Place(broker)
    subject = place["namespace" if group == "namespaces" else "topic"]
    get = "get-backlog-quotas" if group == "namespaces" else "get-backlog-quota"
    done(broker, group, "set-retention", subject, "-t", "-1", "-s", "-1")
    both = ("set-backlog-quota", subject, "-p", "producer_exception")
    done(broker, group, *both, "-l", "1G")
    done(broker, group, *both, "-t", "message_age", "-lt", "3h")
    found = answered(broker, group, get, subject)
    assert found["destination_storage"]["limitSize"] == 1 << 30
    assert found["message_age"]["limitTime"] == 10_800
    done(broker, group, "remove-backlog-quota", subject, "-t", "message_age")
    assert list(answered(broker, group, get, subject)) == ["destination_storage"]
    missing = admin(broker, group, *both, "-t", "message_age")
    assert (missing.exit_code, "needs --limitTime" in missing.output) == (2, True)


def test_the_value_in_effect(broker: RunningBroker) -> None:
    place = Place(broker)
    done(broker, "namespaces", "set-max-producers-per-topic", place["namespace"], "-p", "3")
    get = ("topicPolicies", "get-max-producers", place["topic"])
    assert done(broker, *get) == "not set\n"
    assert done(broker, *get, "-ap") == "3\n"
    shown = done(broker, "topicPolicies", "explain-policies", place["topic"])
    assert f"namespace {place['namespace']}" in shown


def test_the_dispatch_rate_of_one_subscription(broker: RunningBroker) -> None:
    place = Place(broker)
    of = ("topicPolicies", "get-subscription-dispatch-rate", place["topic"])
    one = ("topicPolicies", "set-subscription-dispatch-rate", place["topic"], "-s", "sub")
    done(broker, *one, "-md", "5")
    assert done(broker, *of) == "not set\n"
    assert answered(broker, *of, "-s", "sub")["dispatchThrottlingRateInMsg"] == 5
    done(broker, "topicPolicies", "remove-subscription-dispatch-rate", *one[2:])
    assert done(broker, *of, "-s", "sub") == "not set\n"


def test_offloading_by_age_has_a_path_of_its_own(broker: RunningBroker) -> None:
    namespace = Place(broker)["namespace"]
    done(broker, "namespaces", "set-offload-threshold", namespace, "-t", "1h")
    policies = answered(broker, "namespaces", "policies", namespace)
    assert (policies["offload_threshold"], policies["offload_threshold_in_seconds"]) == (-1, 3600)


def test_former_names_among_the_commands_of_topics(broker: RunningBroker) -> None:
    place = Place(broker)
    done(broker, "topics", "set-maxProducers", place["topic"], "-p", "4")
    assert done(broker, "topics", "get-max-producers", place["topic"]) == "4\n"
    assert "maxProducers" not in admin(broker, "topics", "--help").output


def test_no_policy_is_left_out() -> None:
    settable = {name for _, name in SETTABLE}
    assert settable == set(EXAMPLES)
    for commands in GROUPS.values():
        for verb in ("get", "set", "remove"):
            others = set(names_of(iter(commands), verb)) - settable - APART
            assert not others
