"""Failure domains of clusters and isolation policies: stored; bundles are placed by their load."""

from collections.abc import Iterator
from typing import Any

import re2

from magnetar_broker.names import clusters as parts
from magnetar_broker.server.admin.brokers.active_brokers import processes_of
from magnetar_broker.server.admin.brokers.clusters import OBJECT, checked_names, name_of, required
from magnetar_broker.server.admin.context import AdminContext, Handler, json_of, parts_of, serving
from magnetar_broker.server.http.contract import CONTROLLER, SUPER_USER, Body
from magnetar_broker.server.http.errors import Refused
from magnetar_broker.server.http.messages import Request, Response, json_response
from magnetar_broker.server.http.table import Route

# Failure domains ---------------------------------------------------------------------------


async def domains(context: AdminContext, request: Request) -> Response:
    """The failure domains of a cluster, by name."""
    return json_response(
        (await required(serving(context), name_of(request))).get(parts.DOMAINS, {})
    )


async def domain(context: AdminContext, request: Request) -> Response:
    """The brokers of one failure domain."""
    return await _shown_one(context, request, parts.DOMAINS, "domain")


async def set_domain(context: AdminContext, request: Request) -> Response:
    """Store which brokers are in a failure domain; bundles are placed without regard to it."""
    directory, name = serving(context), name_of(request)
    await required(directory, name)
    (wanted,) = parts_of(request, "domain")
    body = json_of(request) if request.body.strip() else {}
    if not isinstance(body, dict):
        raise Refused(400, "the body: expected an object with brokers")
    brokers = checked_names(body.get("brokers") or [])

    def changed(known: dict[str, Any] | None) -> dict[str, Any]:
        known = known or {}
        for other, one in known.items():
            both = sorted(set(one["brokers"]) & set(brokers))
            if both and other != wanted:
                raise Refused(409, f"{', '.join(both)} is in domain {other}: remove it there first")
        return {**known, wanted: {"brokers": brokers}}

    await directory.clusters.change(name, parts.DOMAINS, changed)
    return Response(status=204)


async def delete_domain(context: AdminContext, request: Request) -> Response:
    """Delete a failure domain."""
    directory, name = serving(context), name_of(request)
    (wanted,) = parts_of(request, "domain")
    _one_of(await required(directory, name), parts.DOMAINS, wanted)
    await directory.clusters.change(name, parts.DOMAINS, lambda known: _without(known, wanted))
    return Response()


async def _shown_one(
    context: AdminContext, request: Request, part: str, parameter: str
) -> Response:
    stored = await required(serving(context), name_of(request))
    (wanted,) = parts_of(request, parameter)
    return json_response(_one_of(stored, part, wanted))


def _one_of(stored: dict[str, Any], part: str, name: str) -> Any:
    if name not in stored.get(part, {}):
        raise Refused(404, f"{name} does not exist in {part}: check the name, or create it")
    return stored[part][name]


def _without(known: dict[str, Any] | None, name: str) -> dict[str, Any]:
    return {key: one for key, one in (known or {}).items() if key != name}


# Isolation ---------------------------------------------------------------------------------


async def isolation(context: AdminContext, request: Request) -> Response:
    """The isolation policies of a cluster, by name; 404 if it has none."""
    name = name_of(request)
    stored = await required(serving(context), name)
    policies = stored.get(parts.ISOLATION)
    if not policies:
        raise Refused(
            404, f"cluster {name} has no isolation policies: POST .../{{policy}} sets one"
        )
    return json_response(policies)


async def isolation_policy(context: AdminContext, request: Request) -> Response:
    """One isolation policy."""
    return await _shown_one(context, request, parts.ISOLATION, "policy")


async def set_isolation_policy(context: AdminContext, request: Request) -> Response:
    """Store an isolation policy; bundles are placed without regard to it."""
    directory, name = serving(context), name_of(request)
    await required(directory, name)
    (wanted,), policy = parts_of(request, "policy"), _isolation_in(request)
    await directory.clusters.change(
        name, parts.ISOLATION, lambda known: {**(known or {}), wanted: policy}
    )
    why = "bundles are placed by their load"
    warning = f'299 - "the isolation policy is stored without effect: {why}"'
    return Response(status=204, headers={"Warning": warning})


def _isolation_in(request: Request) -> dict[str, Any]:
    body = json_of(request) if request.body.strip() else None
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


async def delete_isolation_policy(context: AdminContext, request: Request) -> Response:
    """Delete an isolation policy; it need not exist."""
    directory, name = serving(context), name_of(request)
    await required(directory, name)
    (wanted,) = parts_of(request, "policy")
    await directory.clusters.change(name, parts.ISOLATION, lambda known: _without(known, wanted))
    return Response(status=204)


async def isolated_brokers(context: AdminContext, request: Request) -> Response:
    """The brokers, each with the namespaces of the isolation policies that name it."""
    directory, name = serving(context), name_of(request)
    stored = await required(directory, name)
    known = processes_of(directory, request) if name == directory.clusters.own else {}
    return json_response([_isolated(broker, stored) for broker in known])


async def isolated_broker(context: AdminContext, request: Request) -> Response:
    """One broker, with the namespaces of the isolation policies that name it."""
    directory, name = serving(context), name_of(request)
    stored = await required(directory, name)
    (broker,) = parts_of(request, "broker")
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
    host = broker.partition(":")[0]
    for pattern in patterns:
        try:
            if re2.fullmatch(pattern, broker) or re2.fullmatch(pattern, host):
                return True
        except re2.error:
            continue  # it was stored as it came, and matches nothing
    return False


# Routes ------------------------------------------------------------------------------------


def routes() -> Iterator[Route[Handler]]:
    """Yield the routes that this module answers."""
    who, where, path = SUPER_USER, CONTROLLER, "/admin/v2/clusters/{cluster}"
    one = f"{path}/failureDomains/{{domain}}"
    yield Route("GET", f"{path}/failureDomains", who, where, domains)
    yield Route("GET", one, who, where, domain)
    yield Route("POST", one, who, where, set_domain, body=Body(OBJECT, "brokers", False))
    yield Route("DELETE", one, who, where, delete_domain, success=(200,))
    policies = f"{path}/namespaceIsolationPolicies"
    yield Route("GET", policies, who, where, isolation)
    yield Route("GET", f"{policies}/brokers", who, where, isolated_brokers)
    yield Route("GET", f"{policies}/brokers/{{broker}}", who, where, isolated_broker)
    yield Route("GET", f"{policies}/{{policy}}", who, where, isolation_policy)
    yield Route(
        "POST", f"{policies}/{{policy}}", who, where, set_isolation_policy, body=Body(OBJECT)
    )
    yield Route("DELETE", f"{policies}/{{policy}}", who, where, delete_isolation_policy)
