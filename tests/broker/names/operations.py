"""The operations of a directory of names that change what is stored."""

from collections.abc import Callable, Coroutine
from typing import Any

from broker.names.workers.distributed_worlds import TEXT
from fakes.named_worlds import named
from magnetar_broker.names.catalogue import Partitioned
from magnetar_broker.names.directory import Directory
from magnetar_broker.names.namespaces import Namespace
from magnetar_broker.names.permissions import TopicGrant
from magnetar_broker.names.tenants import Tenant
from magnetar_broker.placement.bundles import Bundles
from magnetar_broker.policies.table import MAX_PRODUCERS, MAX_TOPICS, MESSAGE_TTL
from magnetar_proto.names import NamespaceName

TENANT, SPACE = "tenant", "tenant/space"
PLAIN, PARTED = named("plain", SPACE), named("parted", SPACE)

Operation = Callable[[Directory], Coroutine[Any, Any, Any]]

CREATIONS: dict[str, Operation] = {
    "tenant": lambda at: at.tenants.create(TENANT, Tenant(("admin",))),
    "namespace": lambda at: at.namespaces.create(
        NamespaceName.parse(SPACE), Namespace(Bundles.even(1))
    ),
    "topic": lambda at: at.creation.plain(PLAIN, {"a": "b"}),
    "partitioned topic": lambda at: at.creation.partitioned(PARTED, Partitioned(2)),
    "policies of a namespace": lambda at: at.enforcement.set(SPACE, {MESSAGE_TTL: 10}),
    "policies of a topic": lambda at: at.enforcement.set(PLAIN, {MAX_PRODUCERS: 3}),
    "permissions": lambda at: at.permissions.grant(SPACE, "role", ["produce"]),
    "schema": lambda at: at.schemas.register(PLAIN, TEXT),
    "cluster": lambda at: at.clusters.create("there", {"data": {}}),
    "resource group": lambda at: at.resource_groups.create("group", {"publishRateInMsgs": 1}),
    "setting": lambda at: at.dynamic.set("maxTenants", "100"),
}
"""Operations that succeed in this order."""
CHANGES: dict[str, Operation] = {
    "tenant": lambda at: at.tenants.change(TENANT, Tenant(("other",))),
    "new tenant": lambda at: at.tenants.create("new", Tenant()),
    "properties": lambda at: at.namespaces.change_properties(SPACE, lambda _: {"a": "b"}),
    "new namespace": lambda at: at.creation.namespace(
        NamespaceName.parse(f"{TENANT}/new"), Namespace(), {MESSAGE_TTL: 10}
    ),
    "namespace by use": lambda at: at.namespaces.ensure(NamespaceName.parse("used/space")),
    "bundles": lambda at: at.bundles.split(SPACE, "0x00000000_0xffffffff", lambda _: [1 << 31]),
    "new topic": lambda at: at.creation.plain(named("new", SPACE), {}),
    "new partitioned topic": lambda at: at.creation.partitioned(
        named("more", SPACE), Partitioned(2)
    ),
    "growth": lambda at: at.creation.grow(PARTED, 3),
    "policies of a namespace": lambda at: at.enforcement.set(SPACE, {MESSAGE_TTL: 20}),
    "policies of a topic": lambda at: at.enforcement.set(PLAIN, {MAX_PRODUCERS: 4}),
    "end of policies": lambda at: at.policies.delete(PLAIN),
    "permissions": lambda at: at.permissions.revoke(SPACE, "role"),
    "new schema": lambda at: at.schemas.register(PARTED, TEXT),
    "end of a schema": lambda at: at.schemas.remove(PLAIN),
    "deletion of a schema": lambda at: at.schemas.delete(PLAIN),
    "cluster": lambda at: at.clusters.merge("there", {"data": {"authPlugin": "x"}}),
    "new cluster": lambda at: at.clusters.create("elsewhere", {}),
    "deletion of a cluster": lambda at: at.clusters.delete("there"),
    "resource group": lambda at: at.resource_groups.merge("group", {"publishRateInMsgs": 2}),
    "deletion of a resource group": lambda at: at.resource_groups.delete("group"),
    "limit of topics": lambda at: at.enforcement.set(SPACE, {MAX_TOPICS: 50}),
    "permissions on a topic": lambda at: at.permissions.grant_on_topics(
        [TopicGrant(PLAIN, "other", ["consume"])]
    ),
    "setting": lambda at: at.dynamic.set("maxTenants", "200"),
    "end of a setting": lambda at: at.dynamic.delete("maxTenants"),
    "deletion of a topic": lambda at: at.deletion.topics.delete(PLAIN, force=True),
    "deletion of a partitioned topic": lambda at: at.deletion.topics.delete_partitioned(
        PARTED, force=True
    ),
    "deletion of a namespace": lambda at: at.deletion.namespace(SPACE, force=True),
    "deletion of a tenant": lambda at: at.deletion.tenant(TENANT, force=True),
}
"""Operations that succeed after the creations, and change what is stored."""
