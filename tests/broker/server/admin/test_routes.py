"""The table of routes: the declaration in each line matches its handler."""

from collections import Counter
from collections.abc import Callable

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


def of_each(part: Callable[[Route[Handler]], object]) -> dict[str, object]:
    """Return a part of every route, by its name: where two such tables differ is a wrong route."""
    return {name_of(route): part(route) for route in ROUTES.routes}


def test_a_route_says_who_may_use_it() -> None:
    assert of_each(lambda route: type(route.endpoint.permission)) == of_each(lambda _: Permission)
    wrong = {
        name_of(route): route.endpoint.refused_with
        for route in ROUTES.routes
        if route.endpoint.refused_with
        not in ((0,) if route.endpoint.permission is Permission.OPEN else (401, 403))
    }
    assert wrong == {}


def test_a_route_says_where_it_runs() -> None:
    assert of_each(lambda route: {route.endpoint.runs}) == of_each(_runs_in)


def _runs_in(route: Route[Handler]) -> set[Runs]:
    """Return where a handler runs; two that no declaration stands for need a value of their own."""
    used = {BY_USE[name] for name in attributes_of(handler_of(route)) if name in BY_USE}
    return {Runs.ALL_THEN_OWNER} if used == BOTH else used or {Runs.CONTROLLER}


def test_a_route_says_what_it_reads_from_the_query() -> None:
    assert of_each(lambda route: _declared(route) - {_parameter_of_policy(route)}) == of_each(_read)


def _declared(route: Route[Handler]) -> set[str]:
    return {parameter.name for parameter in route.endpoint.query}


def _read(route: Route[Handler]) -> set[str]:
    read = query_of(handler_of(route))
    if "{topic}" not in route.endpoint.pattern:
        # By handlers that namespaces and topics have in common.
        read -= {APPLIED.name, GLOBAL.name} - _declared(route)
    return read


def test_a_route_says_whether_it_reads_the_body() -> None:
    assert of_each(lambda route: route.endpoint.body is not None) == of_each(
        lambda route: reads_body(handler_of(route)) and not _parameter_of_policy(route)
    )


def _parameter_of_policy(route: Route[Handler]) -> str:
    """Return the query parameter that has the value of a policy, if it is in the query."""
    path = getattr(getattr(handler_of(route), "__self__", None), "path", None)
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
