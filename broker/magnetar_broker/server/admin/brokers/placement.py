"""Failure domains of clusters and isolation policies: stored; bundles are placed by their load."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from magnetar_broker.names import stored_objects as parts
from magnetar_broker.server.admin.brokers.active_brokers import processes_of
from magnetar_broker.server.admin.brokers.clusters import checked_names, name_of, required
from magnetar_broker.server.admin.context import AdminContext, serving
from magnetar_broker.server.admin.policies.policy_handlers import without_effect
from magnetar_broker.server.http.messages import Refused, Request, Response, json_response


@dataclass(frozen=True)
class StoredByName:
    """Objects that are stored for a cluster by name: shown, set and deleted, without effect."""

    part: str
    """The part of the cluster's record that holds the objects."""
    parameter: str
    """The parameter of the path that names one."""
    checked: Callable[[Any, str, dict[str, Any]], dict[str, Any]]
    """Returns the object in a body; it gets the body, the name, and the objects that are stored."""
    without_body: Any = None
    """The value that stands for an empty body."""
    warning: str = ""
    """The header `Warning` of the answer to a change."""
    must_exist: bool = False
    """Whether one that does not exist cannot be deleted."""

    async def show(self, context: AdminContext, request: Request) -> Response:
        """Answer one object; 404 if it does not exist."""
        stored = await required(serving(context), name_of(request))
        return json_response(self._one_of(stored, request))

    async def set(self, context: AdminContext, request: Request) -> Response:
        """Store an object; bundles are placed without regard to it."""
        directory, cluster = serving(context), name_of(request)
        await required(directory, cluster)
        name = request.part(self.parameter)
        body = request.json() if request.body.strip() else self.without_body

        def changed(known: dict[str, Any] | None) -> dict[str, Any]:
            return {**(known or {}), name: self.checked(body, name, known or {})}

        await directory.clusters.change_part(cluster, self.part, changed)
        return Response(status=204, headers={"Warning": self.warning} if self.warning else {})

    async def delete(self, context: AdminContext, request: Request) -> Response:
        """Delete an object."""
        directory, cluster = serving(context), name_of(request)
        stored = await required(directory, cluster)
        name = request.part(self.parameter)
        if self.must_exist:
            self._one_of(stored, request)

        def changed(known: dict[str, Any] | None) -> dict[str, Any]:
            return {key: one for key, one in (known or {}).items() if key != name}

        await directory.clusters.change_part(cluster, self.part, changed)
        return Response(status=200 if self.must_exist else 204)

    def _one_of(self, stored: dict[str, Any], request: Request) -> Any:
        name = request.part(self.parameter)
        if name not in stored.get(self.part, {}):
            raise Refused(
                404, f"{name} does not exist in {self.part}: check the name, or create it"
            )
        return stored[self.part][name]


# Failure domains ---------------------------------------------------------------------------


async def domains(context: AdminContext, request: Request) -> Response:
    """Return the failure domains of a cluster, by name."""
    stored = await required(serving(context), name_of(request))
    return json_response(stored.get(parts.DOMAINS, {}))


def _domain_in(body: Any, name: str, known: dict[str, Any]) -> dict[str, Any]:
    if not isinstance(body, dict):
        raise Refused(400, "the body: expected an object with brokers")
    brokers = checked_names(body.get("brokers") or [])
    for other, one in known.items():
        both = sorted(set(one["brokers"]) & set(brokers))
        if both and other != name:
            raise Refused(409, f"{', '.join(both)} is in domain {other}: remove it there first")
    return {"brokers": brokers}


FAILURE_DOMAINS = StoredByName(
    parts.DOMAINS, "domain", _domain_in, without_body={}, must_exist=True
)
domain, set_domain = FAILURE_DOMAINS.show, FAILURE_DOMAINS.set
delete_domain = FAILURE_DOMAINS.delete


# Isolation ---------------------------------------------------------------------------------


async def isolation(context: AdminContext, request: Request) -> Response:
    """Return the isolation policies of a cluster, by name; 404 if it has none."""
    name = name_of(request)
    stored = await required(serving(context), name)
    policies = stored.get(parts.ISOLATION)
    if not policies:
        raise Refused(
            404, f"cluster {name} has no isolation policies: POST .../{{policy}} sets one"
        )
    return json_response(policies)


def _isolation_in(body: Any, name: str, known: dict[str, Any]) -> dict[str, Any]:
    if not isinstance(body, dict):
        raise Refused(400, "the body: expected an object with namespaces and primary")
    policy: dict[str, Any] = {
        part: checked_names(body.get(part) or []) for part in ("namespaces", "primary", "secondary")
    }
    if not policy["namespaces"] or not policy["primary"]:
        raise Refused(400, "namespaces and primary: expected lists that are not empty")
    failover = body.get("auto_failover_policy")
    if not isinstance(failover, dict) or failover.get("policy_type") != "min_available":
        raise Refused(400, "auto_failover_policy: expected policy_type min_available")
    if not isinstance(failover.get("parameters"), dict):
        raise Refused(400, "auto_failover_policy: expected parameters, an object")
    policy["auto_failover_policy"] = {
        "policy_type": "min_available",
        "parameters": {str(key): str(one) for key, one in failover["parameters"].items()},
    }
    return policy


ISOLATION = StoredByName(
    parts.ISOLATION,
    "policy",
    _isolation_in,
    warning=without_effect("the isolation policy", "bundles are placed by their load"),
)
isolation_policy, set_isolation_policy = ISOLATION.show, ISOLATION.set
delete_isolation_policy = ISOLATION.delete


async def isolated_brokers(context: AdminContext, request: Request) -> Response:
    """Return the brokers, each with the namespaces of the isolation policies that name it."""
    directory, name = serving(context), name_of(request)
    stored = await required(directory, name)
    known = processes_of(directory, request) if name == directory.clusters.own else {}
    return json_response([_isolated(broker, stored) for broker in known])


async def isolated_broker(context: AdminContext, request: Request) -> Response:
    """Return one broker, with the namespaces of the isolation policies that name it."""
    directory, name = serving(context), name_of(request)
    stored = await required(directory, name)
    broker = request.part("broker")
    return json_response(_isolated(broker, stored))


def _isolated(broker: str, stored: dict[str, Any]) -> dict[str, Any]:
    named = [
        (name, policy)
        for name, policy in stored.get(parts.ISOLATION, {}).items()
        if _matches(broker, [*policy["primary"], *policy["secondary"]])
    ]
    return {
        "brokerName": broker,
        "policyName": ", ".join(name for name, _ in named),
        "namespaceRegex": [regex for _, policy in named for regex in policy["namespaces"]],
        "primary": any(_matches(broker, policy["primary"]) for _, policy in named),
    }


def _matches(broker: str, patterns: list[str]) -> bool:
    import re2  # noqa: PLC0415 (not for the first request)

    host = broker.partition(":")[0]
    for pattern in patterns:
        try:
            if re2.fullmatch(pattern, broker) or re2.fullmatch(pattern, host):
                return True
        except re2.error:
            continue  # it was stored as it came, and matches nothing
    return False
