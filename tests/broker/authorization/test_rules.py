"""What roles may do, by what is stored."""

import pytest

from magnetar_broker.authorization.rules import (
    AccessRequest,
    Grants,
    RequiredPermission,
    Rules,
    is_of_system,
)
from magnetar_broker.base.transaction_ids import COORDINATORS

TOPIC = "persistent://shop/orders/new"
PARTITION = f"{TOPIC}-partition-3"
NAMESPACE = "shop/orders"
RULES = Rules(["root"], wildcards=False)
WILD = Rules(["root"], wildcards=True)
P, C, PC = (
    RequiredPermission.PRODUCE,
    RequiredPermission.CONSUME,
    RequiredPermission.PRODUCE_OR_CONSUME,
)
A, S = RequiredPermission.TENANT_ADMIN, RequiredPermission.SUPER_USER


def may(
    role: str,
    need: RequiredPermission,
    subject: str,
    grants: Grants,
    subscription: str = "",
    rules: Rules = RULES,
) -> bool:
    return rules.refusal([role], AccessRequest(need, subject, subscription), grants) is None


def of_namespace(**roles: list[str]) -> Grants:
    return Grants(["admin"], {"namespace_auth": roles})


def of_topic(name: str, **roles: list[str]) -> Grants:
    return Grants(["admin"], {"destination_auth": {name: roles}})


@pytest.mark.parametrize("subject", ["", "shop", NAMESPACE, TOPIC, PARTITION])
@pytest.mark.parametrize("need", RequiredPermission)
def test_without_a_grant_only_super_users_and_admins_may(
    need: RequiredPermission, subject: str
) -> None:
    grants = of_namespace(other=["produce", "consume"])
    assert may("root", need, subject, grants)
    assert may("admin", need, subject, grants) == (need is not RequiredPermission.SUPER_USER)
    assert not may("someone", need, subject, grants)
    assert not may("", need, subject, grants)


def test_an_admin_administers_only_its_tenant() -> None:
    assert not may("admin", A, TOPIC, Grants(["another"]))


@pytest.mark.parametrize("subject", [NAMESPACE, TOPIC, PARTITION])
def test_a_grant_of_the_namespace_is_for_all_its_topics(subject: str) -> None:
    grants = of_namespace(p=["produce"], c=["consume"], f=["functions", "sinks"])
    assert [may(role, P, subject, grants) for role in "pcf"] == [True, False, False]
    assert [may(role, C, subject, grants) for role in "pcf"] == [False, True, False]
    assert [may(role, PC, subject, grants) for role in "pcf"] == [True, True, False]
    assert not any(may(role, need, subject, grants) for role in "pcf" for need in (A, S))


def test_a_grant_of_a_topic_is_for_it_and_its_partitions() -> None:
    grants = of_topic(TOPIC, p=["produce"])
    assert may("p", P, TOPIC, grants) and may("p", P, PARTITION, grants)
    assert not may("p", C, TOPIC, grants)
    assert not may("p", PC, NAMESPACE, grants)
    assert not may("p", P, f"{TOPIC}er", grants)
    assert not may("p", P, TOPIC.replace("persistent", "non-persistent"), grants)


def test_a_grant_of_a_partition_is_not_for_the_others() -> None:
    grants = of_topic(PARTITION, p=["produce"])
    assert may("p", P, PARTITION, grants)
    assert not may("p", P, TOPIC, grants)
    assert not may("p", P, f"{TOPIC}-partition-4", grants)


@pytest.mark.parametrize("pattern,role,expected", [
    ("app-*", "app-1", True), ("app-*", "app-", True), ("app-*", "ap", False),
    ("*-app", "my-app", True), ("*-app", "my-application", False), ("*", "anyone", True),
    ("a*b", "axb", False), ("a*b", "a*b", True), ("app", "app-1", False),
])  # fmt: skip
def test_wildcards_match_where_they_are_switched_on(
    pattern: str, role: str, expected: bool
) -> None:
    for grants in (
        of_namespace(**{pattern: ["produce"]}),
        of_topic(TOPIC, **{pattern: ["produce"]}),
    ):
        assert may(role, P, TOPIC, grants, rules=WILD) == expected
        assert may(role, P, TOPIC, grants) == (role == pattern)
        assert not may(role, C, TOPIC, grants, rules=WILD)


def test_wildcards_make_nobody_super_user_or_admin() -> None:
    rules = Rules(["ro*"], wildcards=True)
    assert not may("root", S, "", Grants(), rules=rules)
    assert not may("admin", A, TOPIC, Grants(["ad*"]), rules=rules)


def test_a_subscription_that_has_roles_is_for_these_only() -> None:
    permissions = {
        "namespace_auth": {"a": ["consume"], "b": ["consume"]},
        "subscription_auth_roles": {"sub": ["a", "c"], "free": []},
    }
    grants = Grants(["admin"], permissions)
    assert may("a", C, TOPIC, grants, "sub") and not may("b", C, TOPIC, grants, "sub")
    assert may("b", C, TOPIC, grants, "free") and may("b", C, TOPIC, grants, "other")
    assert not may("c", C, TOPIC, grants, "sub")
    assert may("admin", C, TOPIC, grants, "sub") and may("root", C, TOPIC, grants, "sub")


def test_in_prefix_mode_names_of_subscriptions_begin_with_the_role() -> None:
    grants = Grants(["admin"], {"namespace_auth": {"a": ["consume"]}}, prefix_mode=True)
    assert may("a", C, TOPIC, grants, "a-1") and may("a", C, TOPIC, grants, "a")
    assert not may("a", C, TOPIC, grants, "b-a")
    assert may("admin", C, TOPIC, grants, "b") and may("a", C, TOPIC, grants)


def test_each_of_several_roles_must_be_allowed() -> None:
    grants = of_namespace(a=["produce"], b=["consume"])
    for roles in (["a", "b"], ["b", "a"], ["root", "b"], ["b", "root"]):
        assert RULES.refusal(roles, AccessRequest(P, TOPIC), grants) is not None
    assert RULES.refusal(["root", "a"], AccessRequest(P, TOPIC), grants) is None
    assert RULES.refusal(["root", "root"], AccessRequest(S), grants) is None
    assert RULES.refusal(["root", "admin"], AccessRequest(S), grants) is not None
    assert RULES.are_super_users(["root"]) and not RULES.are_super_users(["root", "a"])


def test_coordinators_of_transactions_are_found_by_roles_with_a_grant() -> None:
    permissions = {"namespace_auth": {"a": ["consume"]}}
    grants = Grants(["admin"], permissions)
    for subject in (str(COORDINATORS), str(COORDINATORS.with_partition(3))):
        for role in ("root", "admin", "a"):
            assert may(role, RequiredPermission.PRODUCE_OR_CONSUME, subject, grants)
            assert may(role, RequiredPermission.CONSUME, subject, grants) is (role == "root")
        assert not may("b", RequiredPermission.PRODUCE_OR_CONSUME, subject, grants)


SYSTEM = [
    "pulsar/system", "persistent://pulsar/system/any", "non-persistent://pulsar/system/heartbeat",
    "persistent://shop/orders/__change_events", "persistent://shop/orders/__change_events-partition-0",
    "persistent://shop/orders/__transaction_buffer_snapshot",
    "persistent://shop/orders/__transaction_buffer_snapshot_segments-partition-1",
    "persistent://shop/orders/new-sub__transaction_pending_ack",
    "persistent://pulsar/localhost:8080/healthcheck", "pulsar/localhost:8080",
    "non-persistent://shop/orders/__change_events",
]  # fmt: skip


@pytest.mark.parametrize("subject", SYSTEM)
def test_what_belongs_to_the_system_is_for_super_users_only(subject: str) -> None:
    assert is_of_system(subject)
    permissions = {
        "namespace_auth": {"a": ["produce", "consume"]},
        "destination_auth": {subject: {"a": ["produce", "consume"]}},
    }
    grants = Grants(["admin"], permissions)
    for need in RequiredPermission:
        assert may("root", need, subject, grants)
        assert not may("admin", need, subject, grants) and not may("a", need, subject, grants)


@pytest.mark.parametrize(
    "subject", ["pulsar", "pulsar/other", TOPIC, f"{TOPIC}-DLQ", f"{TOPIC}-RETRY", "", "shop"]
)
def test_what_does_not_belong_to_the_system(subject: str) -> None:
    assert not is_of_system(subject)


def test_refusals_name_role_topic_and_remedy_and_never_others() -> None:
    grants = of_namespace(secret=["produce"])
    why = RULES.refusal(["someone"], AccessRequest(C, TOPIC, "sub"), grants)
    assert why == (
        f"role someone may not consume on {TOPIC}: have it granted there or on namespace "
        f"shop/orders, with pulsar-admin topics grant-permission {TOPIC} --role someone "
        "--actions consume"
    )
