"""Backlog quotas over HTTP: two policies that are set separately and shown together.

Retention must keep more than the backlog quota allows: a value of either that contradicts the other
is refused.
"""

from collections.abc import Mapping
from typing import Any

from magnetar_broker.names.directory import Directory
from magnetar_broker.policies.document import QUOTA_TYPES, quota_json
from magnetar_broker.policies.policy import Origin, Policy, Subject
from magnetar_broker.policies.retention import Retention
from magnetar_broker.policies.table import BACKLOG_QUOTA_SIZE, RETENTION
from magnetar_broker.policies.values import BacklogQuota
from magnetar_broker.server.admin.context import AdminContext, serving
from magnetar_broker.server.admin.policies.policy_handlers import decoded, subject_of
from magnetar_broker.server.http.messages import Refused, Request, Response, json_response

TYPES: dict[str, Policy[BacklogQuota]] = QUOTA_TYPES
Quotas = Mapping[Policy[BacklogQuota], BacklogQuota | None]


def shown(quotas: Quotas) -> dict[str, Any]:
    """Return quotas by type, as JSON."""
    found = ((kind, policy, quotas.get(policy)) for kind, policy in TYPES.items())
    return {kind: quota_json(policy, quota) for kind, policy, quota in found if quota is not None}


# Retention and quotas ---------------------------------------------------------------------------


async def check_namespace_retention(
    directory: Directory, namespace: Subject, retention: Retention
) -> None:
    """Refuse with 412 unless a namespace's retention exceeds its explicit quotas."""
    for policy in TYPES.values():
        quota = await directory.policies.explicit(policy, namespace)
        if quota is not None and _is_bounded(retention):
            _check(policy, quota, retention)


async def check_topic_retention(directory: Directory, topic: Subject, retention: Retention) -> None:
    """Refuse with 412 unless a topic's retention exceeds its effective quotas."""
    for policy in TYPES.values():
        quota = (await directory.policies.effective(policy, topic)).value
        _check(policy, quota, retention)


async def _check_quota(
    directory: Directory, subject: Subject, policy: Policy[BacklogQuota], quota: BacklogQuota
) -> None:
    retention = (await directory.policies.effective(RETENTION, subject)).value
    if not isinstance(subject, str) or _is_bounded(retention):
        _check(policy, quota, retention)


def _is_bounded(retention: Retention) -> bool:
    """Return whether a retention is limited in both dimensions.

    Namespaces may combine quotas with a retention that has no limit in one dimension.
    """
    return retention.minutes > 0 and retention.megabytes > 0


def _check(policy: Policy[BacklogQuota], quota: BacklogQuota, retention: Retention) -> None:
    size = policy is BACKLOG_QUOTA_SIZE
    retained = retention.megabytes << 20 if size else retention.minutes * 60
    if 0 < retained <= quota.limit:
        unit = "bytes" if size else "seconds"
        raise Refused(
            412,
            f"the backlog quota of {quota.limit} {unit} is not below the retention of {retained}: "
            "raise the retention above the quota, or lower the quota",
        )


# Paths --------------------------------------------------------------------------------------------


def _policy(request: Request) -> Policy[BacklogQuota]:
    kind = request.query.get("backlogQuotaType", "destination_storage")
    if kind not in TYPES:
        raise Refused(404, f"backlogQuotaType: expected {' or '.join(TYPES)}, got {kind!r}")
    return TYPES[kind]


async def on_get(context: AdminContext, request: Request) -> Response:
    """Answer the explicit quotas, or with `?applied=true` the effective ones of a topic."""
    directory = serving(context)
    subject = await subject_of(directory, request)
    policies = directory.policies
    if not request.flag("applied"):
        explicit: dict[Policy[BacklogQuota], BacklogQuota | None] = {}
        for policy in TYPES.values():
            quota: BacklogQuota | None = await policies.explicit(policy, subject)
            explicit[policy] = quota
        return json_response(shown(explicit))
    effective = {policy: await policies.effective(policy, subject) for policy in TYPES.values()}
    own = {p: one.value for p, one in effective.items() if one.origin is not Origin.BROKER}
    return json_response(shown(own or {p: one.value for p, one in effective.items()}))


async def on_set(context: AdminContext, request: Request) -> None:
    """Set one of the backlog quotas; an empty body deletes that of a topic."""
    directory = serving(context)
    policy = _policy(request)
    subject = await subject_of(directory, request)
    value = request.json_or_none()
    if value is None and isinstance(subject, str):
        raise Refused(400, "the body is empty: expected limitSize or limitTime, and policy")
    quota = None if value is None else decoded(policy.codec, value)
    if quota is not None:
        await _check_quota(directory, subject, policy, quota)
    await directory.enforcement.set(subject, {policy: quota})


async def on_remove(context: AdminContext, request: Request) -> None:
    """Delete one of the backlog quotas."""
    directory = serving(context)
    policy = _policy(request)
    await directory.enforcement.set(await subject_of(directory, request), {policy: None})
