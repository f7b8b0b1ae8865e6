"""The policy of offloading: members of three levels, parts with paths of their own, and rules."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes.logs import LogWorld
from fakes.policy_values import STRATEGIES
from fakes.sessions import TOPIC
from magnetar_broker.base.guarded_metadata import GuardedMetadata
from magnetar_broker.config import Settings
from magnetar_broker.config.domains import OffloadDriver, ReadPriority
from magnetar_broker.policies.codecs import OutOfRange
from magnetar_broker.policies.document import policies_json, values_in_policies_json
from magnetar_broker.policies.offload_values import (
    CREDENTIALS,
    IGNORED,
    OffloadRules,
    merged,
    offload_rules,
    warning,
)
from magnetar_broker.policies.policy import Origin, Policy
from magnetar_broker.policies.stored import Policies
from magnetar_broker.policies.table import (
    OFFLOAD,
    OFFLOAD_DELETION_LAG,
    OFFLOAD_THRESHOLD,
    OFFLOAD_THRESHOLD_SECONDS,
)
from magnetar_proto.names import TopicName

NAME = TopicName.parse(TOPIC)
NAMESPACE = NAME.namespace_name
DEFAULTS = {
    "managedLedgerOffloadThresholdInBytes": -1,
    "managedLedgerOffloadThresholdInSeconds": -1,
    "managedLedgerOffloadDeletionLagInMillis": 14_400_000,
    "managedLedgerOffloadedReadPriority": "bookkeeper-first",
}
S3 = {"managedLedgerOffloadDriver": "aws-s3", "s3ManagedLedgerOffloadBucket": "b"}
SETTINGS = Settings(
    managed_ledger_offload_driver=OffloadDriver.AWS_S3,
    s3_managed_ledger_offload_bucket="all",
    s3_managed_ledger_offload_service_endpoint="http://127.0.0.1:9000",
)


async def explicit(policies: Policies, policy: Policy[Any]) -> Any:
    """The value that is set on the namespace."""
    return await policies.explicit(policy, NAMESPACE)


# Levels -----------------------------------------------------------------------------------------


def test_each_member_is_that_of_the_nearest_level() -> None:
    world = LogWorld()
    found = Policies(GuardedMetadata(world.metadata, None), SETTINGS)
    world.do(found.set(NAMESPACE, {OFFLOAD: {**S3, "managedLedgerOffloadThresholdInBytes": 7}}))
    world.do(found.set(NAME, {OFFLOAD: {"managedLedgerOffloadThresholdInSeconds": 9}}))
    resolved = found.resolve(OFFLOAD, NAME)
    assert resolved.origin is Origin.TOPIC
    assert resolved.value == DEFAULTS | S3 | {
        "s3ManagedLedgerOffloadServiceEndpoint": "http://127.0.0.1:9000",
        "managedLedgerOffloadThresholdInBytes": 7,
        "managedLedgerOffloadThresholdInSeconds": 9,
    }
    assert offload_rules(resolved.value) == OffloadRules(
        "s3://b?endpoint=http://127.0.0.1:9000", "", 7, 9000, 14_400_000, True
    )


def test_the_settings_are_the_lowest_level() -> None:
    found = Policies(GuardedMetadata(LogWorld().metadata, None), SETTINGS)
    assert found.of_namespace(OFFLOAD, NAMESPACE).origin is Origin.BROKER
    rules = offload_rules(found.of_namespace(OFFLOAD, NAMESPACE).value)
    assert rules.place == "s3://all?endpoint=http://127.0.0.1:9000"
    assert (rules.size_threshold, rules.time_threshold_ms) == (-1, -1)


def test_nothing_is_offloaded_by_default() -> None:
    rules = offload_rules(OFFLOAD.default(Settings()))
    assert rules == OffloadRules(deletion_lag_ms=14_400_000)


@pytest.mark.parametrize(
    ("below", "above", "place"),
    [
        (S3, {"managedLedgerOffloadBucket": "c"}, "s3://c"),
        (S3, {"s3ManagedLedgerOffloadBucket": "c"}, "s3://c"),
        (
            {"managedLedgerOffloadDriver": "azureblob", "managedLedgerOffloadBucket": "container"},
            {"managedLedgerOffloadDriver": "S3", "s3ManagedLedgerOffloadRegion": "r"},
            "",
        ),
        (
            S3 | {"managedLedgerOffloadRegion": "r"},
            {"managedLedgerOffloadDriver": "S3"},
            "s3://b?region=r",
        ),
        (
            S3,
            {"managedLedgerOffloadDriver": "filesystem", "fileSystemURI": "file:///d"},
            "file:///d",
        ),
    ],
)
def test_the_place_of_one_level_over_another(
    below: dict[str, Any], above: dict[str, Any], place: str
) -> None:
    """The bucket of a level counts under each of its names, and for its own kind of storage."""
    rules = offload_rules(merged(below, above))
    assert rules.place == place
    assert bool(rules.trouble) == (place == "")


@given(STRATEGIES[OFFLOAD], STRATEGIES[OFFLOAD])
def test_all_members_of_the_upper_level_stay(below: dict[str, Any], above: dict[str, Any]) -> None:
    found = merged(below, above)
    assert above.items() <= found.items()
    assert found.items() <= (below | above).items()
    assert merged(below, {}) == below and merged({}, above) == above


# Parts ------------------------------------------------------------------------------------------


def test_thresholds_are_members_with_paths_of_their_own() -> None:
    world = LogWorld()
    found = Policies(GuardedMetadata(world.metadata, None), Settings())
    world.do(found.set(NAMESPACE, {OFFLOAD: S3}))
    world.do(found.set(NAMESPACE, {OFFLOAD_THRESHOLD: 5, OFFLOAD_THRESHOLD_SECONDS: 6}))
    world.do(found.set(NAMESPACE, {OFFLOAD_DELETION_LAG: 7}))
    assert world.do(explicit(found, OFFLOAD)) == S3 | {
        "managedLedgerOffloadThresholdInBytes": 5,
        "managedLedgerOffloadThresholdInSeconds": 6,
        "managedLedgerOffloadDeletionLagInMillis": 7,
    }
    world.do(found.set(NAMESPACE, {OFFLOAD: {**S3, "managedLedgerOffloadThresholdInBytes": 8}}))
    assert world.do(explicit(found, OFFLOAD_THRESHOLD)) == 8
    assert world.do(explicit(found, OFFLOAD_DELETION_LAG)) is None
    assert found.of_namespace(OFFLOAD_DELETION_LAG, NAMESPACE).value == 14_400_000


def test_without_its_last_member_the_policy_is_unset() -> None:
    world = LogWorld()
    found = Policies(GuardedMetadata(world.metadata, None), Settings())
    world.do(found.set(NAMESPACE, {OFFLOAD_DELETION_LAG: 7}))
    world.do(found.set(NAMESPACE, {OFFLOAD_DELETION_LAG: None, OFFLOAD_THRESHOLD: None}))
    assert world.do(found.values_of(NAMESPACE)) == {}


def test_former_members_of_a_namespace_are_parts() -> None:
    document = {"offload_threshold": 5, "offload_deletion_lag_ms": 7, "offload_policies": S3}
    world = LogWorld()
    found = Policies(GuardedMetadata(world.metadata, None), Settings())
    world.do(found.set(NAMESPACE, values_in_policies_json(document, "here")))
    shown = world.do(policies_json(found, NAMESPACE, "here"))
    assert (shown["offload_threshold"], shown["offload_deletion_lag_ms"]) == (5, 7)
    assert shown["offload_policies"]["managedLedgerOffloadThresholdInBytes"] == 5


# What is refused, and told --------------------------------------------------------------------


@pytest.mark.parametrize("credential", CREDENTIALS)
def test_a_policy_holds_no_credentials(credential: str) -> None:
    with pytest.raises(OutOfRange, match="is a credential, which policies do not hold") as refused:
        OFFLOAD.codec.decode(S3 | {credential: "hush"})
    assert "hush" not in str(refused.value)


@pytest.mark.parametrize(
    ("members", "why"),
    [
        ({}, "is not a driver"),
        ({"managedLedgerOffloadDriver": "x"}, "'x' is not a driver: expected one of S3, aws-s3"),
        ({"managedLedgerOffloadDriver": "aws-s3"}, "needs a bucket"),
        (
            {"managedLedgerOffloadDriver": "azureblob", "s3ManagedLedgerOffloadBucket": "b"},
            "needs a",
        ),
        (S3 | {"s3ManagedLedgerOffloadServiceEndpoint": "host"}, "expected http"),
        (
            {"managedLedgerOffloadDriver": "filesystem", "fileSystemURI": "hdfs://h"},
            "expected file",
        ),
    ],
)
def test_members_that_do_not_go_together(members: dict[str, Any], why: str) -> None:
    assert OFFLOAD.check is not None
    with pytest.raises(OutOfRange, match=why):
        OFFLOAD.check(SETTINGS, OFFLOAD.codec.decode(members))


@pytest.mark.parametrize(
    "members",
    [
        S3,
        {"managedLedgerOffloadDriver": "Filesystem"},
        {"managedLedgerOffloadDriver": "S3", "managedLedgerOffloadBucket": "b"},
    ],
)
def test_members_that_go_together(members: dict[str, Any]) -> None:
    assert OFFLOAD.check is not None
    OFFLOAD.check(SETTINGS, OFFLOAD.codec.decode(members))


def test_members_that_nobody_knows_are_left_out() -> None:
    sent = S3 | {"colour": "green", "s3Driver": True, "managedLedgerOffloadRegion": None}
    assert OFFLOAD.codec.decode(sent) == S3


def test_what_has_no_effect_is_told() -> None:
    assert warning(SETTINGS, S3) == ""
    assert warning(SETTINGS, S3 | IGNORED) == ""
    told = warning(SETTINGS, S3 | {"managedLedgerOffloadMaxThreads": 9})
    assert told.startswith("managedLedgerOffloadMaxThreads: stored without effect")
    files = {"managedLedgerOffloadDriver": "filesystem"}
    assert warning(SETTINGS, files).startswith("nothing is offloaded: the driver filesystem needs")
    assert warning(Settings(file_system_uri="file:///d"), files) == ""


@given(st.sampled_from(ReadPriority))
def test_what_is_read_first(priority: ReadPriority) -> None:
    decoded = OFFLOAD.codec.decode({"managedLedgerOffloadedReadPriority": str(priority)})
    assert offload_rules(decoded).files_first == (priority is ReadPriority.DATA_DIRECTORY)
