"""Backlog quotas over HTTP: two policies that are set one by one and shown together.

What is retained must be more than the backlog may be: each refuses what does not fit the other.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from magnetar_broker.broker import Broker
from magnetar_broker.policies import (
    BACKLOG_QUOTA_SIZE,
    RETENTION,
    BacklogQuota,
    Origin,
    Policy,
    Retention,
    Subject,
)
from magnetar_broker.policies.document import QUOTA_TYPES, quota_json
from magnetar_broker.server.admin.policies.line import decoded, speaking_topic
from magnetar_broker.server.admin.site import (
    NAMESPACE,
    TOPIC,
    Handler,
    Site,
    existing_namespace,
    flag_of,
    json_of,
    serving,
)
from magnetar_broker.server.http.errors import Refused
from magnetar_broker.server.http.messages import Request, Response, json_response
from magnetar_broker.server.http.table import Route

TYPES: dict[str, Policy[BacklogQuota]] = QUOTA_TYPES
Quotas = Mapping[Policy[BacklogQuota], BacklogQuota | None]


def shown(quotas: Quotas) -> dict[str, Any]:
    """Quotas by type, as they are answered."""
    found = ((kind, policy, quotas.get(policy)) for kind, policy in TYPES.items())
    return {kind: quota_json(policy, quota) for kind, policy, quota in found if quota is not None}


# Retention and quotas ---------------------------------------------------------------------------


async def check_namespace_retention(
    broker: Broker, namespace: Subject, retention: Retention
) -> None:
    """412 unless a namespace's retention is above the quotas that it says itself."""
    for policy in TYPES.values():
        quota = await broker.policies.said(policy, namespace)
        if quota is not None and _is_bounded(retention):
            _check(policy, quota, retention)


async def check_topic_retention(broker: Broker, topic: Subject, retention: Retention) -> None:
    """412 unless a topic's retention is above the quotas that hold for it."""
    for policy in TYPES.values():
        quota = (await broker.policies.holds(policy, topic)).value
        _check(policy, quota, retention)


async def _check_quota(
    broker: Broker, subject: Subject, policy: Policy[BacklogQuota], quota: BacklogQuota
) -> None:
    retention = (await broker.policies.holds(RETENTION, subject)).value
    if not isinstance(subject, str) or _is_bounded(retention):
        _check(policy, quota, retention)


def _is_bounded(retention: Retention) -> bool:
    """Namespaces may combine quotas with a retention that has no limit in one dimension."""
    return retention.minutes > 0 and retention.megabytes > 0


def _check(policy: Policy[BacklogQuota], quota: BacklogQuota, retention: Retention) -> None:
    size = policy is BACKLOG_QUOTA_SIZE
    retained = retention.megabytes << 20 if size else retention.minutes * 60
    if 0 < retained <= quota.limit:
        unit = "bytes" if size else "seconds"
        raise Refused(
            412,
            f"a backlog may have {quota.limit} {unit} and only {retained} would be retained: "
            "raise the retention above the backlog quota, or lower the quota",
        )


# Paths --------------------------------------------------------------------------------------------


async def _subject(broker: Broker, request: Request) -> Subject:
    if "topic" in request.parameters:
        return await speaking_topic(broker, request)
    return await existing_namespace(broker, request)


def _policy(request: Request) -> Policy[BacklogQuota]:
    kind = request.query.get("backlogQuotaType", "destination_storage")
    if kind not in TYPES:
        raise Refused(404, f"backlogQuotaType: expected {' or '.join(TYPES)}, not {kind!r}")
    return TYPES[kind]


async def on_get(site: Site, request: Request) -> Response:
    """The quotas that are said, or those that hold for a topic."""
    broker = serving(site)
    subject = await _subject(broker, request)
    policies = broker.policies
    if not flag_of(request, "applied"):
        said: dict[Policy[BacklogQuota], BacklogQuota | None] = {}
        for policy in TYPES.values():
            quota: BacklogQuota | None = await policies.said(policy, subject)
            said[policy] = quota
        return json_response(shown(said))
    holding = {policy: await policies.holds(policy, subject) for policy in TYPES.values()}
    own = {p: one.value for p, one in holding.items() if one.origin is not Origin.BROKER}
    return json_response(shown(own or {p: one.value for p, one in holding.items()}))


async def on_set(site: Site, request: Request) -> Response:
    """Say one of them; an empty body unsays that of a topic."""
    broker = serving(site)
    policy = _policy(request)
    subject = await _subject(broker, request)
    said = json_of(request) if request.body.strip() else None
    if said is None and isinstance(subject, str):
        raise Refused(400, "the body is empty: expected limitSize or limitTime, and policy")
    quota = None if said is None else decoded(policy.form, said)
    if quota is not None:
        await _check_quota(broker, subject, policy, quota)
    await broker.enforcement.say(subject, {policy: quota})
    return Response(status=204)


async def on_delete(site: Site, request: Request) -> Response:
    """Unsay one of them."""
    broker = serving(site)
    policy = _policy(request)
    await broker.enforcement.say(await _subject(broker, request), {policy: None})
    return Response(status=204)


def routes() -> Iterator[Route[Handler]]:
    """What is answered."""
    for subject in (f"/admin/v2/namespaces/{NAMESPACE}", f"/admin/v2/{TOPIC}"):
        yield Route("GET", f"{subject}/backlogQuotaMap", on_get)
        yield Route("POST", f"{subject}/backlogQuota", on_set)
        yield Route("DELETE", f"{subject}/backlogQuota", on_delete)
