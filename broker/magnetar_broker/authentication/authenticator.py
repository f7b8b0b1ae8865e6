"""Authenticates the clients of connections and of HTTP requests."""

import logging
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from magnetar_broker.authentication.identity import Identity, Roles
from magnetar_broker.authentication.outcomes import Outcomes
from magnetar_broker.authentication.provider import Credentials, InvalidCredentials, Provider
from magnetar_broker.base.errors import (
    CredentialsRefused,
    NotAuthenticated,
    NotAuthorized,
    RoleChanged,
)
from magnetar_proto import PulsarApi_pb2 as pb

logger = logging.getLogger(__name__)

NONE: Final = "none"
"""The method of clients that name none."""
KNOWN_METHODS: Final = ("token", "tls", "basic", "sasl", "athenz", "ycav1", "athens", NONE, "")
METHOD_HEADER: Final = "x-pulsar-auth-method-name"
ORIGINAL_HEADER: Final = "x-original-principal"
_OLD_METHODS: Final = {
    pb.AuthMethodNone: NONE,
    pb.AuthMethodYcaV1: "ycav1",
    pb.AuthMethodAthens: "athens",
}


class AuthenticationRules(NamedTuple):
    """The rules that apply to every method of authentication."""

    anonymous: str = ""
    """The role of clients that prove none; blank to refuse them."""
    strict: bool = False
    """Whether HTTP requests must name their method."""
    proxies: frozenset[str] = frozenset()
    """The roles of proxies, which must name the role of their client."""
    proves_originals: bool = False
    """Whether the clients of proxies must prove their roles."""
    checks_originals: bool = False
    """Whether a role that is not a proxy is refused when it names the role of a client."""
    refresh_seconds: float = 60.0
    """The seconds between two checks of a connection for expired credentials."""


class Proof(NamedTuple):
    """The roles that a connection has proved, and their expiry."""

    roles: Roles
    method: str
    """The method of the connection's own credentials."""
    expires_at: float | None = None
    refreshed_method: str | None = None
    """The method of the credentials that may be renewed.  None if the protocol has no way for it,
    because they belong to a proxy's client and were not forwarded."""
    ends_at: float | None = None
    """The time at which a proxy's credentials, which cannot be renewed, expire."""


class Authenticator:
    """Finds out the roles of clients.  It keeps nothing of what they send."""

    def __init__(self, providers: Iterable[Provider], rules: AuthenticationRules) -> None:
        self.rules = rules
        self.outcomes = Outcomes()
        self._chains: dict[str, list[Provider]] = {}
        for provider in providers:
            self._chains.setdefault(provider.method, []).append(provider)

    # Connections ----------------------------------------------------------------------

    async def of_connect(self, connect: pb.CommandConnect, certificate: bytes) -> Proof:
        """Return the roles that a CONNECT proves; raise `NotAuthenticated` or `NotAuthorized`."""
        method = _method_of(connect)
        original = connect.original_principal
        if method in self._chains:
            own = await self._identify(method, Credentials(connect.auth_data, certificate))
            proof = await self._with_original(own, connect)
            original = proof.roles.original or original  # the one that counts, if it was proved
        else:  # the role that a proxy names does not count without credentials of the proxy
            proof, original = Proof(Roles(self._anonymous(method)), method), ""
        if self.rules.checks_originals:
            self._check_original(proof.roles.own, original)
            if connect.proxy_version and proof.roles.own not in self.rules.proxies:
                raise NotAuthorized("proxy_version is set, but the role is not in proxyRoles")
        return proof

    async def _with_original(self, own: Identity, connect: pb.CommandConnect) -> Proof:
        """Return the proof of a connection; for a proxy's, that of the client behind it."""
        named = connect.original_principal
        if not named:
            return Proof(Roles(own.role), own.method, own.expires_at, own.method)
        if not self.rules.proves_originals:
            is_proxy = own.role in self.rules.proxies
            return Proof(Roles(own.role, named if is_proxy else None), own.method, own.expires_at)
        method = connect.original_auth_method or NONE
        if method not in self._chains:
            roles = Roles(own.role, self._anonymous(method))
            return Proof(roles, own.method, own.expires_at, ends_at=own.expires_at)
        original = await self._identify(method, Credentials(connect.original_auth_data.encode()))
        # promise[original.role -> named]: the role that a client proved counts
        roles = Roles(own.role, original.role)
        ends_at = own.expires_at
        return Proof(roles, own.method, _earlier(original.expires_at, ends_at), method, ends_at)

    async def renewed(self, proof: Proof, data: bytes, certificate: bytes) -> Proof:
        """Return the proof with credentials of an AUTH_RESPONSE, which must prove the same role."""
        if proof.refreshed_method is None:
            raise _refused("credentials of this connection cannot be renewed")
        found = await self._identify(proof.refreshed_method, Credentials(data, certificate))
        expected = proof.roles.own if proof.roles.original is None else proof.roles.original
        if found.role != expected:  # promise: renewed credentials give the same role
            raise RoleChanged(f"the role cannot change from {expected!r} to {found.role!r}")
        return proof._replace(expires_at=_earlier(found.expires_at, proof.ends_at))

    def _check_original(self, own: str, original: str) -> None:
        """Refuse a proxy that names no client's role, and any other role that names one."""
        is_proxy = own in self.rules.proxies
        # promise[without or (is_proxy and original in self.rules.proxies)]: a proxy is not the
        #   client of a proxy
        if is_proxy != bool(original.strip()) or (is_proxy and original in self.rules.proxies):
            logger.info("the role %r may not connect for the role %r", own, original)
            raise NotAuthorized(
                "a role of proxyRoles must name its client's role, and no other role may"
            )

    # Requests over HTTP -----------------------------------------------------------------

    async def of_request(self, headers: Mapping[str, str], certificate: bytes) -> Roles:
        """Return the roles of a request.  Raises `NotAuthenticated`."""
        try:
            own = await self._requester(headers, certificate)
        except CredentialsRefused as error:
            raise CredentialsRefused("Authentication required", error.why) from error
        original = headers.get(ORIGINAL_HEADER, "").strip()
        if not original or (original == own and own not in self.rules.proxies):
            original = ""
        if self.rules.checks_originals:
            try:
                self._check_original(own, original)
            except NotAuthorized as error:
                raise NotAuthenticated(str(error)) from error
        return Roles(own, original if original and own in self.rules.proxies else None)

    async def _requester(self, headers: Mapping[str, str], certificate: bytes) -> str:
        method = headers.get(METHOD_HEADER)
        if method is not None:
            if method not in self._chains:
                known = ", ".join(self._chains)
                raise NotAuthenticated(
                    f"the method in X-Pulsar-Auth-Method-Name has no provider: there is {known}"
                )
            return (await self._of_headers(method, headers, certificate)).role
        if self.rules.strict:
            raise _refused("the request does not name its method (strictAuthMethod)")
        for known in self._chains:
            try:
                return (await self._of_headers(known, headers, certificate)).role
            except CredentialsRefused:
                continue
        return self._anonymous(NONE)

    async def _of_headers(
        self, method: str, headers: Mapping[str, str], certificate: bytes
    ) -> Identity:
        """Return the identity proved by the credentials in these headers, for one method."""
        try:
            data = self._chains[method][0].data_of(headers)
        except InvalidCredentials as error:
            raise _refused(f"{method}: {error}") from error
        return await self._identify(method, Credentials(data, certificate))

    # Both ---------------------------------------------------------------------------------

    async def _identify(self, method: str, credentials: Credentials) -> Identity:
        """Return the identity from the first provider of the method that accepts them."""
        refusals = []
        for provider in self._chains[method]:
            try:
                found = await provider.identify(credentials)
            except InvalidCredentials as error:
                refusals.append((provider, error))
            else:
                self.outcomes.accepted[provider.name, method] += 1
                return found
        for provider, refusal in refusals:
            self.outcomes.refused[provider.name, method, refusal.reason] += 1
        raise _refused("; ".join(f"{method}: {refusal}" for _, refusal in refusals))

    def _anonymous(self, method: str) -> str:
        if not self.rules.anonymous:
            # An unknown name may be anything, for example a password in the wrong field.
            shown = method if method in KNOWN_METHODS else "that the client names"
            raise _refused(f"no provider has the method {shown}, and anonymousUserRole is unset")
        return self.rules.anonymous


def _earlier(one: float | None, other: float | None) -> float | None:
    """Return the earlier of two times, of which each may be never."""
    return min((time for time in (one, other) if time is not None), default=None)


def _refused(why: str) -> CredentialsRefused:
    return CredentialsRefused(why=why)


def _method_of(connect: pb.CommandConnect) -> str:
    """Return the method that a CONNECT names, in the current field or the deprecated one."""
    if connect.HasField("auth_method_name"):
        return connect.auth_method_name
    return _OLD_METHODS[connect.auth_method] if connect.HasField("auth_method") else NONE
