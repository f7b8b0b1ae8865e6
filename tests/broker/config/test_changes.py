"""Changes of settings that are allowed over those with which the broker was started."""

import pytest

from magnetar_broker.config import ConfigError, Settings
from magnetar_broker.config.changes import allowed_changes, with_changes, without_effect

PARTITIONS, MOST = "defaultNumPartitions", "maxNumPartitionsPerPartitionedTopic"
FEW = Settings(max_num_partitions_per_partitioned_topic=4)


def test_changes_that_are_allowed_together_stay_in_any_order() -> None:
    changed = {PARTITIONS: "10", MOST: "30"}
    assert allowed_changes(FEW, changed) == (changed, [])
    turned = dict(reversed(changed.items()))
    assert allowed_changes(FEW, turned) == (turned, [])


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        (PARTITIONS, "10", f"{PARTITIONS}=10: expected at most {MOST}, 4"),
        (PARTITIONS, "many", f"{PARTITIONS}=many: expected a whole number"),
        ("clusterName", "other", "clusterName is read at the start only"),
        ("nothing", "1", "nothing is not a setting"),
        ("zookeeperServers", "one", "zookeeperServers cannot be changed: it has no effect here"),
    ],
)
def test_what_is_not_allowed_any_more_is_left_out_alone(name: str, text: str, why: str) -> None:
    others = {"ttlDurationDefaultInSeconds": "7", "maxTenants": "5"}
    for changed in ({name: text, **others}, {**others, name: text}):
        with pytest.raises(ConfigError):
            with_changes(FEW, changed)
        allowed, (problem,) = allowed_changes(FEW, changed)
        assert allowed == others
        assert problem.startswith(why)
    assert with_changes(FEW, allowed).ttl_duration_default_in_seconds == 7


def test_what_takes_effect_in_pulsar_alone_changes_nothing() -> None:
    changed = {"loadBalancerSheddingExcludedNamespaces": "public/default", "maxTenants": "5"}
    assert allowed_changes(FEW, changed) == (changed, [])
    made = with_changes(FEW, changed)
    assert made.origins.keys() == {"max_tenants"}
    assert {key: without_effect(key, text) is not None for key, text in changed.items()} == {
        "loadBalancerSheddingExcludedNamespaces": True,
        "maxTenants": False,
    }
    assert without_effect("loadBalancerDebugModeEnabled", "false") is None, "as Pulsar ships it"
