"""Lists of clusters in policies: each must be known, and allowed for the tenant."""

from magnetar_broker.names.directory import Directory
from magnetar_broker.names.policy_enforcement import namespace_of
from magnetar_broker.policies.policy import Subject
from magnetar_broker.policies.without_effect import ALLOWED_CLUSTERS, REPLICATION_CLUSTERS
from magnetar_broker.server.http.messages import Refused

Clusters = tuple[str, ...]


async def check_replication(directory: Directory, subject: Subject, clusters: Clusters) -> None:
    """Refuse an empty list with 412, and a cluster that is not allowed for the tenant with 403.

    An unknown cluster is refused with 403 for namespaces, and with 412 for topics.
    """
    if not clusters:
        raise Refused(412, f"the list is empty: expected {directory.clusters.own} at least")
    known = await directory.clusters.names()
    unknown = [cluster for cluster in clusters if cluster not in known]
    if unknown:
        raise Refused(
            403 if isinstance(subject, str) else 412,
            f"no cluster is named {', '.join(unknown)}: expected some of {', '.join(known)}",
        )
    await _check_tenant(directory, subject, clusters)
    allowed = await directory.policies.explicit(ALLOWED_CLUSTERS, namespace_of(subject))
    for cluster in clusters if allowed else ():
        if cluster not in (allowed or ()):
            raise Refused(
                400, f"cluster {cluster} is not in allowedClusters of the namespace: add it there"
            )


async def check_replication_of_topic(
    directory: Directory, topic: Subject, clusters: Clusters
) -> None:
    """Check clusters by `check_replication`; 412 for a list without the broker's cluster."""
    own = directory.clusters.own
    if clusters and own not in clusters:
        raise Refused(412, f"the list has no {own}, the cluster that the topic is in: add it")
    await check_replication(directory, topic, clusters)


async def check_allowed(directory: Directory, namespace: Subject, clusters: Clusters) -> None:
    """Refuse with 403 a cluster that is not allowed for the tenant, and with 400 a list without one
    that the namespace is replicated to."""
    await _check_tenant(directory, namespace, clusters)
    replicated = (await directory.policies.effective(REPLICATION_CLUSTERS, namespace)).value
    for cluster in replicated:
        if cluster not in clusters:
            raise Refused(
                400,
                f"the namespace is replicated to cluster {cluster}, which the list lacks: add it",
            )


async def _check_tenant(directory: Directory, subject: Subject, clusters: Clusters) -> None:
    tenant = namespace_of(subject).partition("/")[0]
    allowed = (await directory.tenants.get(tenant)).allowed_clusters
    for cluster in clusters:
        if cluster not in allowed:
            raise Refused(
                403,
                f"cluster {cluster} is not allowed for tenant {tenant}: expected some of "
                f"{', '.join(allowed)}",
            )
