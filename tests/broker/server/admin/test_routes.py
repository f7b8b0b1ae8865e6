"""The table of routes: the declaration in each line matches its handler."""

from collections import Counter
from functools import partial

import pytest

from broker.server.admin.reading_handlers import attributes_of, query_of, reads_body
from fakes.rest_world import handler_of
from magnetar_broker.server.admin.context import AdminContext, Handler
from magnetar_broker.server.admin.owners import Owners
from magnetar_broker.server.admin.routes import ROUTES
from magnetar_broker.server.http.table import Route
from magnetar_proto.admin.endpoint import Permission, Runs
from magnetar_proto.admin.policy import APPLIED, GLOBAL, Level

BY_USE = {
    "owners.ask": Runs.OWNER,
    "owners.ask_all": Runs.ALL,
    "context.page": Runs.ALL,
    "context.health": Runs.ALL,
    "context.snapshots": Runs.ALL,
}
"""The calls by which a handler uses other processes, with the declaration that each requires."""
BOTH = {Runs.OWNER, Runs.ALL}


def name_of(route: Route[Handler]) -> str:
    return f"{route.endpoint.method} {route.endpoint.pattern}"


each_route = partial(pytest.mark.parametrize, "route", ROUTES.routes, ids=name_of)


@each_route()
def test_a_route_says_who_may_use_it(route: Route[Handler]) -> None:
    assert isinstance(route.endpoint.permission, Permission), (
        f"{name_of(route)}: an endpoint has a permission"
    )
    open_to_all = route.endpoint.permission is Permission.OPEN
    assert route.endpoint.refused_with in ((0,) if open_to_all else (401, 403))


@each_route()
def test_a_route_says_where_it_runs(route: Route[Handler]) -> None:
    used = {BY_USE[name] for name in attributes_of(handler_of(route)) if name in BY_USE}
    if used == BOTH:
        used = {Runs.ALL_THEN_OWNER}
    assert len(used) <= 1, f"{name_of(route)} runs in {used}: that needs a value of its own"
    assert route.endpoint.runs is (used.pop() if used else Runs.CONTROLLER)


@each_route()
def test_a_route_says_what_it_reads_from_the_query(route: Route[Handler]) -> None:
    declared = {parameter.name for parameter in route.endpoint.query}
    read = query_of(handler_of(route))
    if "{topic}" not in route.endpoint.pattern:
        # By handlers that namespaces and topics have in common.
        read -= {APPLIED.name, GLOBAL.name} - declared
    assert declared - {_parameter_of_policy(route)} == read


@each_route()
def test_a_route_says_whether_it_reads_the_body(route: Route[Handler]) -> None:
    in_body = reads_body(handler_of(route)) and not _parameter_of_policy(route)
    assert (route.endpoint.body is not None) is in_body


def _parameter_of_policy(route: Route[Handler]) -> str:
    """Return the query parameter that has the value of a policy, if it is in the query."""
    path = getattr(getattr(route.handler, "__self__", None), "path", None)
    return path.segment if isinstance(path, Level) and path.in_query else ""


def test_no_two_routes_are_for_the_same_request() -> None:
    twice = [name for name, times in Counter(map(name_of, ROUTES.routes)).items() if times > 1]
    assert not twice


def test_everything_that_reaches_other_processes_is_known() -> None:
    asking = {name for name in vars(Owners) if name.startswith("ask")}
    assert {f"owners.{name}" for name in asking} <= BY_USE.keys()
    assert AdminContext.__annotations__.keys() == {
        "directory",
        "owners",
        "page",
        "health",
        "metadata_url",
        "reading",
        "shutdown",
        "snapshots",
    }
