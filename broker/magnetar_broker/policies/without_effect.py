"""Policies that are stored and shown, and that have no effect on this engine.

They are for what the original has and this broker has not: other machines and other clusters.
Tools and definitions that set them work, and each answer states that the policy has no
effect.
"""

from enum import StrEnum
from typing import Any

from magnetar_broker.policies import values
from magnetar_broker.policies.codecs import (
    INT,
    Document,
    DocumentField,
    Flag,
    ListOf,
    OneOf,
    Real,
    Text,
    WholeNumber,
)
from magnetar_broker.policies.policy import Policy, policy
from magnetar_broker.policies.values import DispatchRate

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


PERSISTENCE: Policy[dict[str, Any]] = policy(
    "persistence",
    Document(
        *(DocumentField(name, WholeNumber(0, INT), 2) for name in QUORUMS),
        DocumentField("managedLedgerMaxMarkDeleteRate", Real(), 0.0),
        DocumentField("managedLedgerStorageClassName", Text()),
        check=_check_persistence,
    ),
)
BOOKIE_AFFINITY: Policy[dict[str, Any]] = policy(
    "bookie_affinity",
    Document(
        DocumentField("bookkeeperAffinityGroupPrimary", Text()),
        DocumentField("bookkeeperAffinityGroupSecondary", Text()),
    ),
)
REPLICATION_CLUSTERS: Policy[tuple[str, ...]] = policy(
    "replication_clusters", ListOf(Text()), lambda name: (name,)
)
ALLOWED_CLUSTERS: Policy[tuple[str, ...]] = policy("allowed_clusters", ListOf(Text()))
REPLICATOR_DISPATCH_RATE: Policy[DispatchRate] = policy(
    "replicator_dispatch_rate", values.DISPATCH_RATE
)
MIGRATED = policy("migrated", Flag(), unset=False)
ANTI_AFFINITY = policy("anti_affinity", Text())
RESOURCE_GROUP = policy("resource_group", Text())
PAUSE_ON_UNSTORED_ACKS = policy("pause_on_unstored_acks", Flag(), unset=False)
METRICS_PROPERTIES: Policy[tuple[str, ...]] = policy("metrics_properties", ListOf(Text()))
FORMER_SCHEMA_COMPATIBILITY = policy("former_schema_compatibility", OneOf(FormerCompatibility))

WITHOUT_EFFECT: dict[str, Policy[Any]] = {
    one.name: one for one in list(globals().values()) if isinstance(one, Policy)
}
"""Every policy without effect, by its name."""
