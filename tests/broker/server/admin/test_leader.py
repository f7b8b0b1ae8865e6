"""Requests that the leader of a cluster answers: sent on to it, as they are."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from fakes.rest_world import World
from fakes.world import ManualClock
from magnetar_broker.base.errors import NotReady
from magnetar_broker.config import Settings
from magnetar_broker.config.listeners import ListenerUrls
from magnetar_broker.limits.reached import ReachedLimits
from magnetar_broker.server.admin.leader import Leader
from magnetar_broker.server.admin.routes import ROUTES
from magnetar_broker.server.http.guard import HttpGuard, HttpLimits
from magnetar_broker.server.http.messages import Redirected, Request, Response
from magnetar_broker.server.pages.audit import AuditLog
from magnetar_broker.server.processes.http_server import HttpServer
from magnetar_broker.server.runtime.descriptors import Descriptors
from magnetar_broker.server.runtime.loop_timer import LoopTimer

LEADER = ListenerUrls("pulsar://b2:6650", "", "http://b2:8080", "https://b2:8443/")
TOPIC = "/admin/v2/persistent/public/default/a%2Fb+c/stats"


def asked(path: str, is_tls: bool = False, *pairs: tuple[str, str]) -> Request:
    return Request("GET", path, dict(pairs), {}, b"", 8080, is_tls=is_tls, pairs=pairs)


def location(urls: ListenerUrls, request: Request) -> str:
    with pytest.raises(Redirected) as refused:
        Leader(lambda: urls).check(request)
    assert refused.value.status == 307
    return refused.value.location


@pytest.mark.parametrize(
    ("request_", "to"),
    [
        (asked(TOPIC), f"http://b2:8080{TOPIC}"),
        (asked(TOPIC, True), f"https://b2:8443{TOPIC}"),
        (asked("/lookup/v2/topic/persistent/t/n/x", False, ("listenerName", "ö&?"), ("a", "")),
         "http://b2:8080/lookup/v2/topic/persistent/t/n/x?listenerName=%C3%B6%26%3F&a="),
        (asked("/admin/v2/clusters", False, ("x", "1"), ("x", "2")),
         "http://b2:8080/admin/v2/clusters?x=1&x=2"),
    ],
)  # fmt: skip
def test_path_and_query_are_sent_on(request_: Request, to: str) -> None:
    assert location(LEADER, request_) == to


def test_the_other_scheme_is_used_if_the_leader_has_no_address_of_one() -> None:
    only_tls, only_plain = LEADER._replace(http=""), LEADER._replace(http_tls="")
    assert location(only_tls, asked(TOPIC)).startswith("https://b2:8443/admin")
    assert location(only_plain, asked(TOPIC, True)).startswith("http://b2:8080/admin")


@pytest.mark.parametrize(
    "path", ["/metrics", "/admin/v2/brokers/ready", "/admin/v2/brokers/health", "/openapi.json"]
)
def test_what_every_broker_answers_for_itself_is_not_sent_on(path: str) -> None:
    Leader(lambda: LEADER).check(asked(path))


def test_the_leader_answers() -> None:
    Leader(lambda: None).check(asked(TOPIC))


def test_without_a_leader_a_client_tries_again() -> None:
    for urls in (ListenerUrls(), ListenerUrls("pulsar://b2:6650")):
        with pytest.raises(NotReady, match="no broker leads the cluster"):
            Leader(lambda urls=urls: urls).check(asked(TOPIC))  # type: ignore[misc]


async def answered(
    request: Request, leader: Callable[[], ListenerUrls | None], **changed: Any
) -> Response:
    """Return the answer of a broker's HTTP port."""
    clock = ManualClock()
    context = World(1).context
    limits = HttpLimits.of(Settings())
    server = HttpServer(
        context, LoopTimer(), Descriptors(), AuditLog(clock, 1), ROUTES,
        guard=HttpGuard(limits, clock, ReachedLimits(clock)), leader=Leader(leader),
    )  # fmt: skip
    answer = await server.answer(replace(request, **changed))
    await server.stop()
    return answer


async def test_the_answer_has_the_location() -> None:
    moved = await answered(asked("/admin/v2/clusters"), lambda: LEADER)
    assert (moved.status, moved.headers) == (307, {"Location": "http://b2:8080/admin/v2/clusters"})
    assert json.loads(moved.body)["reason"].endswith("send it to http://b2:8080/admin/v2/clusters")
    changing = asked("/admin/v2/tenants/t")
    moved = await answered(changing, lambda: LEADER, method="PUT", body=b"{}")
    assert moved.status == 307
    assert (await answered(asked("/admin/v2/clusters"), ListenerUrls)).status == 503
    assert (await answered(asked("/admin/v2/none"), lambda: LEADER)).status == 404


async def test_pages_of_other_sites_are_refused_before() -> None:
    foreign = {"origin": "http://evil.example", "host": "b1:8080"}
    refused = await answered(asked("/admin/v2/clusters"), lambda: LEADER, headers=foreign)
    assert refused.status == 403
