"""The declarations of the admin API are complete, and a path is made of its parts."""

from collections import Counter

from magnetar_proto.admin.endpoint import BODY, TENANT_ADMIN, endpoint, option, switch
from magnetar_proto.admin.kinds import TEXT
from magnetar_proto.admin.policies import POLICIES, TABLE
from magnetar_proto.admin.policy import Level
from magnetar_proto.admin.table import all_endpoints, endpoints_named
from magnetar_proto.names import NamespaceName, TopicName

TOPIC = TopicName.parse("persistent://shop/orders/a b")
RENAME = endpoint(
    "topics.rename", "POST {topic}/subscription/{subscription}", TENANT_ADMIN, "Rename it."
)


def test_a_path_in_full_has_every_part_of_a_name() -> None:
    assert RENAME.path == "/admin/v2/{topic}/subscription/{subscription}"
    assert RENAME.pattern == (
        "/admin/v2/{domain:persistent|non-persistent}/{tenant}/{namespace}/{topic}"
        "/subscription/{subscription}"
    )


def test_the_name_of_a_subscription_is_encoded_twice_in_paths_of_topics() -> None:
    parts = {"topic": TOPIC, "subscription": "a/b"}
    assert RENAME.url(parts) == "/admin/v2/persistent/shop/orders/a+b/subscription/a%252Fb"
    of_transactions = endpoint("x.y", "GET v3/{topic:name}/{subscription}", TENANT_ADMIN, "")
    assert of_transactions.url(parts) == "/admin/v3/shop/orders/a+b/a%2Fb"


def test_another_path_is_taken_with_the_parameter_that_it_is_for() -> None:
    unload = endpoint(
        "bundles.unload_namespace", "PUT namespaces/{namespace}/unload", TENANT_ADMIN, "",
        instead=("bundle", "/admin/v2/namespaces/{namespace}/{bundle}/unload"),
    )  # fmt: skip
    namespace = NamespaceName.parse("shop/orders")
    assert unload.url({"namespace": namespace}) == "/admin/v2/namespaces/shop/orders/unload"
    given = {"namespace": namespace, "bundle": "0x0_0x1"}
    assert unload.url(given) == "/admin/v2/namespaces/shop/orders/0x0_0x1/unload"


def test_a_command_has_what_the_path_names_before_its_own_parameters() -> None:
    key = option("force", "-f, --force", TEXT, "")
    names = [one.name for one in RENAME._replace(parameters=(key,)).command_parameters]
    assert names == ["topic", "subscription", "force"]


def test_what_is_in_the_path_or_the_body_is_not_in_the_query() -> None:
    found = RENAME._replace(
        parameters=(
            option("subscription", "-s", TEXT, ""),
            switch(BODY),
            option("old", "-o", TEXT, "", ignored=True),
            option("wait", "-w", TEXT, "", local=True),
            option("key", "-k", TEXT, ""),
        )
    )
    assert [one.name for one in found.query] == ["key"]


def test_each_is_told_in_a_sentence() -> None:
    assert [one.text for one in all_endpoints() if not one.text.endswith((".", "`."))] == []
    assert {one.method for one in all_endpoints()} <= {"GET", "PUT", "POST", "DELETE"}


def test_those_of_one_name_differ_by_the_parts_of_their_paths() -> None:
    for name in {one.name for one in all_endpoints()}:
        parts = Counter(
            tuple(one.in_path) for one in endpoints_named(name) if not one.path.endswith("/")
        )
        aliases = {"brokers.broker_stats.topics"}
        assert name in aliases or max(parts.values(), default=1) == 1, name


def test_every_level_of_a_policy_has_its_requests() -> None:
    assert len(TABLE) == len(POLICIES)
    for policy in POLICIES:
        for name in ("namespace", "topic"):
            level, found = getattr(policy, name), list(policy.endpoints(name))
            if isinstance(level, Level):
                assert len(found) == (3 if level.removable else 2), policy.name
            else:
                assert not found
