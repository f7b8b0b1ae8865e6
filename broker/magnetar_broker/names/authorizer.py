"""Decides what roles may do, from the tenants and namespaces that are stored."""

import logging
from collections.abc import Iterable, Sequence

from magnetar_broker.authorization.access import rules_of
from magnetar_broker.authorization.rules import AccessRequest, Grants
from magnetar_broker.base.errors import NamespaceNotFound, NotAuthorized, TenantNotFound
from magnetar_broker.config import Settings
from magnetar_broker.names.namespaces import Namespaces
from magnetar_broker.names.tenants import Tenants
from magnetar_broker.names.topic_host import TopicHost
from magnetar_broker.policies.stored import Policies
from magnetar_broker.policies.table import SUBSCRIPTION_AUTH_MODE, SubscriptionAuthMode

logger = logging.getLogger(__name__)

KEPT = 10_000
"""Namespaces whose grants are kept in memory."""


class Authorizer:
    """Caches grants of roles; code that changes stored grants calls `changed` before answering."""

    def __init__(
        self,
        settings: Settings,
        tenants: Tenants,
        namespaces: Namespaces,
        policies: Policies,
        topic_host: TopicHost,
    ) -> None:
        self.rules = rules_of(settings)
        """The rules of authorization; None if it is off, which permits everything to everyone."""
        self._tenants = tenants
        self._namespaces = namespaces
        self._policies = policies
        self._topic_host = topic_host
        self._is_checked = True
        """Whether everything open has been checked since a super-user was removed."""
        self._changes = 0
        self._known: dict[str, Grants] = {}

    async def authorize(self, roles: Sequence[str], accesses: Sequence[AccessRequest]) -> None:
        """Check that each role has every permission asked for; raise `NotAuthorized` if not.

        The refusal does not tell whether the subject of an access exists.
        """
        rules = self.rules
        if rules is None or (roles and rules.are_super_users(roles)):
            return
        if not roles:  # promise: who has no role may do nothing
            raise NotAuthorized("no role has been authenticated: send credentials")
        for access in accesses:
            grants = await self._grants(access.tenant, access.namespace)
            why = rules.refusal(roles, access, grants)
            if why is not None:
                raise NotAuthorized(why)

    async def changed(self, namespace: str) -> None:
        """Check what clients have open in a namespace after its permissions may have changed.

        On return no client has anything open there that it may not have.
        """
        self.forget()
        if self.rules is not None:
            try:
                grants = await self._grants(namespace.partition("/")[0], namespace)
            except Exception:  # unknown is nothing: what is open could be of a role without grants
                await self._topic_host.reauthorize(namespace, Grants())
                raise
            await self._topic_host.reauthorize(namespace, grants)

    async def tenant_changed(self, tenant: str) -> None:
        """Call `changed` for a tenant's namespaces: its admins have changed, or may have."""
        self.forget()
        if self.rules is not None:
            await self._changed(await self._namespaces.of_tenant(tenant))

    async def settings_changed(self, settings: Settings) -> None:
        """Apply settings that all processes already have, and check all namespaces."""
        before, self.rules = self.rules, rules_of(settings)
        if before is not None and before.super_users - set(settings.super_user_roles):
            self._is_checked = False
        if not self._is_checked:
            # promise: who ceases to be a super-user loses what is open
            await self.check_all()
            self._is_checked = True

    async def check_all(self) -> None:
        """Call `changed` for all namespaces, if authorization is on."""
        if self.rules is not None:
            await self._changed(await self._namespaces.names())

    async def _changed(self, namespaces: Iterable[str]) -> None:
        """Call `changed` for each namespace; raise the first of several errors after all calls."""
        errors: list[Exception] = []
        for namespace in namespaces:
            try:
                await self.changed(namespace)
            except Exception as error:  # whatever it is, it is raised
                logger.error("what is open in %s could not all be checked: %s", namespace, error)
                errors.append(error)
        if errors:
            raise errors[0]

    def forget(self) -> None:
        """Read the grants again, before the next use."""
        self._changes += 1
        self._known.clear()  # promise: a change ends what is known of grants

    async def _grants(self, tenant: str, namespace: str) -> Grants:
        """Return the stored grants; empty ones for a tenant or namespace that does not exist."""
        key = namespace or tenant
        found = self._known.get(key)
        if found is None:
            changes = self._changes
            found = await self._read(tenant, namespace)
            # promise[always]: grants that were read before a change are not kept
            if changes == self._changes:  # else the grants may be those from before a change
                if len(self._known) >= KEPT:
                    self._known.clear()
                self._known[key] = found
        return found

    async def _read(self, tenant: str, namespace: str) -> Grants:
        if not tenant:
            return Grants()
        try:
            admins = (await self._tenants.get(tenant)).admin_roles
            if not namespace:
                return Grants(admins)
            permissions = (await self._namespaces.get(namespace)).permissions
        except TenantNotFound:
            return Grants()
        except NamespaceNotFound:
            return Grants(admins)
        mode = await self._policies.explicit(SUBSCRIPTION_AUTH_MODE, namespace)
        return Grants(admins, permissions, mode is SubscriptionAuthMode.PREFIX)
