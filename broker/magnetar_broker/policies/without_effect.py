"""Policies that are stored and shown, and that have no effect on this engine.

They are for what the original has and this broker has not: other machines, other clusters, other
storage.  Tools and definitions that set them work, and each answer states that the policy has no
effect.
"""

from enum import StrEnum
from typing import Any

from magnetar_broker.policies import values
from magnetar_broker.policies.codecs import (
    ANY_LONG,
    INT,
    Anything,
    Document,
    DocumentField,
    Flag,
    ListOf,
    OneOf,
    Real,
    Text,
    WholeNumber,
)
from magnetar_broker.policies.policy import Member, Policy, RestPath, SpecialPath
from magnetar_broker.policies.values import DispatchRate

BOOKIES = "entries are stored once, in this broker's own files: there are no bookies"
NO_OFFLOADING = "nothing is offloaded: all ledgers stay in this broker's own files"
ONE_CLUSTER = "nothing is replicated: this broker is the only one of its cluster"
DRIVERS = ("S3", "aws-s3", "google-cloud-storage", "filesystem", "azureblob", "aliyun-oss")
QUORUMS = ("bookkeeperEnsemble", "bookkeeperWriteQuorum", "bookkeeperAckQuorum")


class FormerCompatibility(StrEnum):
    """The names of schema compatibilities in releases before 2.4."""

    AUTO_UPDATE_DISABLED = "AutoUpdateDisabled"
    BACKWARD = "Backward"
    FORWARD = "Forward"
    FULL = "Full"
    ALWAYS_COMPATIBLE = "AlwaysCompatible"
    BACKWARD_TRANSITIVE = "BackwardTransitive"
    FORWARD_TRANSITIVE = "ForwardTransitive"
    FULL_TRANSITIVE = "FullTransitive"


def _check_persistence(members: dict[str, Any]) -> None:
    copies, writes, acks = (members[name] for name in QUORUMS)
    if not 0 < copies <= 5:
        raise ValueError(f"bookkeeperEnsemble is {copies}: expected 1 to 5")
    if not copies >= writes >= acks > 0:
        raise ValueError(
            f"expected bookkeeperEnsemble ({copies}) >= bookkeeperWriteQuorum ({writes}) >= "
            f"bookkeeperAckQuorum ({acks}) > 0"
        )


def _check_offload(members: dict[str, Any]) -> None:
    driver = members.get("managedLedgerOffloadDriver")
    if driver not in DRIVERS:
        raise ValueError(f"managedLedgerOffloadDriver is {driver}: expected {' or '.join(DRIVERS)}")


PERSISTENCE: Policy[dict[str, Any]] = Policy(
    name="persistence",
    codec=Document(
        *(DocumentField(name, WholeNumber(0, INT), 2) for name in QUORUMS),
        DocumentField("managedLedgerMaxMarkDeleteRate", Real(), 0.0),
        DocumentField("managedLedgerStorageClassName", Text()),
        check=_check_persistence,
    ),
    meaning="How many bookies store each entry, and how often cursors are written.",
    no_effect=f"{BOOKIES}; acknowledgements are written within milliseconds",
    namespace=RestPath(segment="persistence"),
    topic=RestPath(segment="persistence"),
    member=Member("persistence"),
)
BOOKIE_AFFINITY: Policy[dict[str, Any]] = Policy(
    name="bookie_affinity",
    codec=Document(
        DocumentField("bookkeeperAffinityGroupPrimary", Text()),
        DocumentField("bookkeeperAffinityGroupSecondary", Text()),
    ),
    meaning="Groups of bookies that store the entries.",
    no_effect=BOOKIES,
    namespace=RestPath(segment="persistence/bookieAffinity", empty_deletes=True),
)
OFFLOAD: Policy[dict[str, Any]] = Policy(
    name="offload",
    codec=Document(
        DocumentField("managedLedgerOffloadDriver", Text()), others=Anything(), check=_check_offload
    ),
    meaning="Where ledgers are offloaded to, and when; any members of Pulsar's.",
    no_effect=NO_OFFLOADING,
    namespace=RestPath(segment="offloadPolicies", removed_at="removeOffloadPolicies"),
    topic=RestPath(segment="offloadPolicies"),
    member=Member("offload_policies"),
)
OFFLOAD_THRESHOLD: Policy[int] = Policy(
    name="offload_threshold",
    codec=ANY_LONG,
    meaning="Bytes of a topic beyond which its oldest ledgers are offloaded; below 0 means never.",
    no_effect=NO_OFFLOADING,
    unset=-1,
    namespace=RestPath(segment="offloadThreshold", verb="PUT", when_unset=-1, removable=False),
    member=Member("offload_threshold", when_unset=-1),
)
OFFLOAD_THRESHOLD_SECONDS: Policy[int] = Policy(
    name="offload_threshold_seconds",
    codec=ANY_LONG,
    meaning="Age of a ledger in seconds after which it is offloaded; below 0 means never.",
    no_effect=NO_OFFLOADING,
    unset=-1,
    namespace=RestPath(
        segment="offloadThresholdInSeconds", verb="PUT", when_unset=-1, removable=False
    ),
    member=Member("offload_threshold_in_seconds", when_unset=-1),
)
OFFLOAD_DELETION_LAG: Policy[int] = Policy(
    name="offload_deletion_lag",
    codec=ANY_LONG,
    meaning="Milliseconds after which an offloaded ledger is deleted from the bookies.",
    no_effect=NO_OFFLOADING,
    namespace=RestPath(segment="offloadDeletionLagMs", verb="PUT"),
    member=Member("offload_deletion_lag_ms"),
)
REPLICATION_CLUSTERS: Policy[tuple[str, ...]] = Policy(
    name="replication_clusters",
    codec=ListOf(Text()),
    meaning="The clusters that have the topics; each must be allowed for the tenant.",
    no_effect=ONE_CLUSTER,
    default=lambda settings: (settings.cluster_name,),
    settings=("cluster_name",),
    namespace=RestPath(segment="replication", shows_default=True, removable=False, set_status=200),
    topic=RestPath(segment="replication"),
    member=Member("replication_clusters"),
)
ALLOWED_CLUSTERS: Policy[tuple[str, ...]] = Policy(
    name="allowed_clusters",
    codec=ListOf(Text()),
    meaning="The clusters that may have the topics; each must be allowed for the tenant.",
    no_effect=ONE_CLUSTER,
    namespace=RestPath(segment="allowedClusters", when_unset=(), removable=False),
    member=Member("allowed_clusters", when_unset=[]),
)
REPLICATOR_DISPATCH_RATE: Policy[DispatchRate] = Policy(
    name="replicator_dispatch_rate",
    codec=values.DISPATCH_RATE,
    meaning="Maximum number of messages and bytes replicated in a period; members as in "
    "`dispatch_rate`.",
    no_effect=ONE_CLUSTER,
    namespace=RestPath(segment="replicatorDispatchRate", empty_deletes=True),
    topic=RestPath(segment="replicatorDispatchRate", empty_deletes=True),
    member=Member("replicatorDispatchRate", by_cluster=True),
)
MIGRATED: Policy[bool] = Policy(
    name="migrated",
    codec=Flag(),
    meaning="Whether the namespace moves to another cluster.",
    no_effect="topics do not move to other clusters",
    unset=False,
    namespace=RestPath(segment="migration", when_unset=False, removable=False),
    member=Member("migrated", when_unset=False),
)
ANTI_AFFINITY: Policy[str] = Policy(
    name="anti_affinity",
    codec=Text(),
    meaning="A group of namespaces whose topics are to be served by different brokers.",
    no_effect="all topics are on this machine; bundles are placed by their load",
    namespace=RestPath(segment="antiAffinity", raw=True),
)
RESOURCE_GROUP: Policy[str] = Policy(
    name="resource_group",
    codec=Text(),
    meaning="The resource group whose limits the namespace shares.",
    no_effect="limits are not shared by groups: set rates of namespaces and topics",
    namespace=SpecialPath("GET, DELETE `resourcegroup`, POST `resourcegroup/{group}`"),
    member=Member("resource_group_name"),
)
PAUSE_ON_UNSTORED_ACKS: Policy[bool] = Policy(
    name="pause_on_unstored_acks",
    codec=Flag(),
    meaning="Whether delivery pauses while more acknowledgements wait than can be stored.",
    no_effect="every acknowledgement is stored, within milliseconds",
    unset=False,
    namespace=RestPath(
        segment="dispatcherPauseOnAckStatePersistent", when_unset=False, implied=True
    ),
    topic=RestPath(segment="dispatcherPauseOnAckStatePersistent", when_unset=False, implied=True),
    member=Member("dispatcherPauseOnAckStatePersistentEnabled"),
)
METRICS_PROPERTIES: Policy[tuple[str, ...]] = Policy(
    name="metrics_properties",
    codec=ListOf(Text()),
    meaning="Properties of topics that become labels of their metrics.",
    no_effect="metrics have no labels from properties",
    namespace=RestPath(segment="allowedTopicPropertyKeysForMetrics", empty_deletes=True),
)
FORMER_SCHEMA_COMPATIBILITY: Policy[FormerCompatibility] = Policy(
    name="former_schema_compatibility",
    codec=OneOf(FormerCompatibility),
    meaning="Which changes of schemas are allowed, in the terms of releases before 2.4.",
    no_effect="`schema_compatibility` decides: set that",
    namespace=RestPath(
        segment="schemaAutoUpdateCompatibilityStrategy",
        verb="PUT",
        unset_status=204,
        empty_deletes=True,
        removable=False,
    ),
    member=Member("schema_auto_update_compatibility_strategy"),
)

WITHOUT_EFFECT: dict[str, Policy[Any]] = {
    policy.name: policy for policy in list(globals().values()) if isinstance(policy, Policy)
}
"""Every policy without effect, by its name."""
