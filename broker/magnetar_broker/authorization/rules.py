"""The rules of authorization: super-users first, then admins of the tenant, then grants."""

import logging
import re
from collections.abc import Collection, Iterable, Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from magnetar_broker.base.transaction_ids import COORDINATORS
from magnetar_proto.names import SYSTEM_NAMESPACE, TopicName

logger = logging.getLogger(__name__)

HEARTBEATS = re.compile(r"pulsar/(?:[^/]+/)?[^/:]+:[0-9]+")
"""The namespaces of Pulsar's health checks, one for each broker."""
SYSTEM_TOPIC_PREFIXES = ("__change_events", "__transaction_")
"""The prefixes of topics that brokers keep for themselves in any namespace."""
PENDING_ACKS = "__transaction_pending_ack"
"""The ending of the names of topics with pending acknowledgements."""


class RequiredPermission(StrEnum):
    """The permission that a request needs."""

    PRODUCE = "produce"
    CONSUME = "consume"
    PRODUCE_OR_CONSUME = "produce or consume"
    TENANT_ADMIN = "admin of the tenant"
    SUPER_USER = "super-user"


ACTIONS: Mapping[RequiredPermission, tuple[str, ...]] = {
    RequiredPermission.PRODUCE: ("produce",),
    RequiredPermission.CONSUME: ("consume",),
    RequiredPermission.PRODUCE_OR_CONSUME: ("produce", "consume"),
}
"""The grants, each of which meets a need."""


class AccessRequest(NamedTuple):
    """The access that a request of a client needs."""

    permission: RequiredPermission
    subject: str = ""
    """A tenant, a namespace `tenant/namespace`, or a topic with its domain; blank if not needed."""
    subscription: str = ""
    """The subscription to be used; blank if there is none or its permission need not be checked."""

    @property
    def tenant(self) -> str:
        """The tenant of the subject; blank without a tenant."""
        return self.subject.rpartition("://")[2].partition("/")[0]

    @property
    def namespace(self) -> str:
        """The namespace of the subject; blank if it is a tenant, or none."""
        parts = self.subject.rpartition("://")[2].split("/", 2)
        return "/".join(parts[:2]) if len(parts) > 1 else ""


class Grants(NamedTuple):
    """The stored grants of a tenant and a namespace in it; empty if these do not exist."""

    admins: Collection[str] = ()
    """The roles that administer the tenant."""
    permissions: Mapping[str, Any] = {}
    """Pulsar's `auth_policies`: actions of roles by kind, then by topic, then by role."""
    prefix_mode: bool = False
    """Whether names of subscriptions must begin with the role (`subscription_auth_mode`)."""


class Rules:
    """Decides by stored grants about every command and every request."""

    def __init__(self, super_users: Iterable[str], wildcards: bool) -> None:
        """`wildcards` tells whether grants to `prefix*` and `*suffix` count."""
        self.super_users = frozenset(super_users)
        self._wildcards = wildcards

    def are_super_users(self, roles: Iterable[str]) -> bool:
        """Return whether each of the roles may do everything."""
        # promise[all -> any]: several roles are a super-user only if each of them is
        return all(role in self.super_users for role in roles)

    def refusal(self, roles: Iterable[str], access: AccessRequest, grants: Grants) -> str | None:
        """Return why the first of the roles without permission has none; None if all have it.

        An access that cannot be decided, because stored grants have an unknown form, is refused.
        """
        for role in roles:
            try:
                reason = self._refusal(role, access, grants)
            except (AttributeError, TypeError, ValueError) as error:
                reason = _undecided(role, access)
                logger.error("%s (%s)", reason, error)
            # promise[without if reason is not None:]: each of several roles must be allowed
            if reason is not None:
                return reason
        return None

    def _refusal(self, role: str, access: AccessRequest, grants: Grants) -> str | None:
        if role in self.super_users:
            return None
        # promise[access.permission is RequiredPermission.SUPER_USER -> False]:
        #   an admin of a tenant is not a super-user
        if access.permission is RequiredPermission.SUPER_USER or (
            is_of_system(access.subject) and not _finds_coordinators(access)
        ):
            return _only_super_users(role, access)
        if role in grants.admins:
            return None
        if access.permission is RequiredPermission.TENANT_ADMIN:  # promise: a grant makes no admin
            return _only_admins(role, access)
        if not self._has_grant(role, access, grants.permissions):
            return _no_grant(role, access)
        return _refused_subscription(role, access, grants) if access.subscription else None

    def _has_grant(self, role: str, access: AccessRequest, permissions: Mapping[str, Any]) -> bool:
        kinds = [permissions.get("namespace_auth", {})]
        if "://" in access.subject:
            of_topics = permissions.get("destination_auth", {})
            base = str(TopicName.parse(access.subject).base)
            kinds += [of_topics.get(name, {}) for name in {access.subject, base}]
        wanted = ACTIONS[access.permission]
        return any(self._grants(role, roles, wanted) for roles in kinds)

    def _grants(self, role: str, roles: Mapping[str, list[str]], wanted: tuple[str, ...]) -> bool:
        if any(action in wanted for action in _list(roles.get(role, ()))):
            return True
        # promise[without self._wildcards and]: patterns count only where they are switched on
        return self._wildcards and any(
            matches(pattern, role) and any(action in wanted for action in _list(actions))
            for pattern, actions in roles.items()
        )


def _list(value: object) -> Collection[str]:
    """Return a stored list; `TypeError` for anything else, even a text, which has parts, too."""
    # promise: the roles of a subscription are a list, not a text
    if not isinstance(value, list | tuple):
        raise TypeError(f"{type(value).__name__} is stored instead of a list")
    return value


def matches(pattern: str, role: str) -> bool:
    """Return whether a role matches `prefix*` or `*suffix`; others match nothing."""
    if pattern.endswith("*") and role.startswith(pattern[:-1]):
        return True
    return pattern.startswith("*") and role.endswith(pattern[1:])


def is_of_system(subject: str) -> bool:
    """Return whether a topic or namespace is reserved for brokers."""
    namespace = AccessRequest(RequiredPermission.SUPER_USER, subject).namespace
    if namespace == SYSTEM_NAMESPACE or HEARTBEATS.fullmatch(namespace):
        return True
    if "://" not in subject:
        return False
    local = TopicName.parse(subject).base.local
    return local.startswith(SYSTEM_TOPIC_PREFIXES) or local.endswith(PENDING_ACKS)


def _finds_coordinators(access: AccessRequest) -> bool:
    """Return whether a request looks up transaction coordinators, as all clients may."""
    if (
        access.permission is not RequiredPermission.PRODUCE_OR_CONSUME
        or "://" not in access.subject
    ):
        return False
    return TopicName.parse(access.subject).base == COORDINATORS


def _refused_subscription(role: str, access: AccessRequest, grants: Grants) -> str | None:
    name = access.subscription
    allowed = _list(grants.permissions.get("subscription_auth_roles", {}).get(name, ()))
    where = f"subscription {name} of {access.subject}"
    # promise: a subscription with roles is for those roles only
    if allowed and role not in allowed:
        return (
            f"role {role} may not use {where}: have it granted with pulsar-admin namespaces "
            f"grant-subscription-permission {access.namespace} --subscription {name} "
            f"--roles {role}"
        )
    # promise: in prefix mode a subscription begins with the role
    if grants.prefix_mode and not name.startswith(role):
        return (
            f"role {role} may not use {where}: its name must begin with the role "
            f"(subscriptionAuthMode=Prefix): use a name such as {role}-{name}"
        )
    return None


def _undecided(role: str, access: AccessRequest) -> str:
    where = access.namespace or access.subject
    return (
        f"role {role} may not {access.permission} on {access.subject}: the stored permissions of "
        f"{where} cannot be read; have a super-user revoke them and grant them again"
    )


def _only_super_users(role: str, access: AccessRequest) -> str:
    what = f" with {access.subject}" if access.subject else ""
    return (
        f"role {role} may not do this{what}: only super-users may; ask one, or add the role to "
        "superUserRoles"
    )


def _only_admins(role: str, access: AccessRequest) -> str:
    if not access.tenant:
        return _only_super_users(role, access)
    return (
        f"role {role} may not do this with {access.subject}: only admins of tenant "
        f"{access.tenant} may; ask one, or have the role added with pulsar-admin tenants update "
        f"{access.tenant} --admin-roles {role}"
    )


def _no_grant(role: str, access: AccessRequest) -> str:
    is_topic = "://" in access.subject
    kind, action = "topics" if is_topic else "namespaces", ACTIONS[access.permission][0]
    also = f" or on namespace {access.namespace}" if is_topic else ""
    return (
        f"role {role} may not {access.permission} on {access.subject}: have it granted there"
        f"{also}, with pulsar-admin {kind} grant-permission {access.subject} --role {role} "
        f"--actions {action}"
    )
