"""The route table: from method and path to a handler."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Generic, NamedTuple, TypeVar
from urllib.parse import unquote

from magnetar_broker.server.http.contract import Body, Permission, Query, Runs
from magnetar_broker.server.http.messages import Request

Handler = TypeVar("Handler")


class PathSegment(NamedTuple):
    """One part of a pattern, between two slashes: a parameter, or fixed text."""

    name: str | None
    """The parameter's name; None for fixed text."""
    texts: frozenset[str]
    """The texts that match, decoded; if empty, any text but the empty one matches."""


class Route(NamedTuple, Generic[Handler]):
    """One line of the table."""

    method: str
    pattern: str
    """Segments separated by `/`: text, a parameter `{name}`, or a choice `{name:one|other}`."""
    permission: Permission
    runs: Runs
    handler: Handler
    query: tuple[Query, ...] = ()
    """The parameters of the query that the handler reads."""
    body: Body | None = None
    """The body that the handler reads; None if it reads none."""
    success: tuple[int, ...] = ()
    """The statuses of success; if empty, 200 for a route that only reads and 204 for others."""
    refused: int = 0
    """The status of a refusal for lack of permission; 0 for the status that `permission` has."""
    reads: bool = False
    """Whether the route changes nothing although its method is not GET."""
    acts: bool | str = False
    """Whether a GET can change something, or the flag of the query with which it can."""
    names: Callable[[Request], Sequence[str]] | None = None
    """Returns the topics that a request names outside its path; each needs the permission."""
    text: str = ""
    """A description of the route; if empty, the first paragraph of the handler's docstring."""

    def changes(self, query: Mapping[str, str]) -> bool:
        """Return whether a request with this query can change something."""
        if isinstance(self.acts, str):
            return query.get(self.acts, "").lower() == "true"
        return self.acts or (self.method != "GET" and not self.reads)

    @property
    def refused_with(self) -> int:
        """The status of a refusal for lack of permission; 0 if everyone has the permission."""
        return self.refused or self.permission.refused

    @property
    def succeeds_with(self) -> tuple[int, ...]:
        """The statuses of success."""
        return self.success or (200 if self.method == "GET" or self.reads else 204,)


class NoRoute(Exception):
    """No route matches; `methods` are the methods of the routes with this path."""

    def __init__(self, methods: set[str]) -> None:
        super().__init__(methods)
        self.methods = methods


class Table(Generic[Handler]):
    """Finds the route of a request; the first that matches, in the order of `routes`."""

    def __init__(self, routes: Iterable[Route[Handler]]) -> None:
        self.routes = tuple(routes)
        self._by_length: dict[int, list[tuple[Route[Handler], list[PathSegment]]]] = {}
        for route in self.routes:
            pattern = [_segment(text) for text in route.pattern.split("/")]
            self._by_length.setdefault(len(pattern), []).append((route, pattern))

    def find(self, method: str, path: str) -> tuple[Route[Handler], dict[str, str]]:
        """Return the route and its parameters; a HEAD is answered as a GET.  Raises `NoRoute`."""
        methods = set()
        for route, parameters in self._matching(path):
            if route.method == ("GET" if method == "HEAD" else method):
                return route, parameters
            methods.add(route.method)
        raise NoRoute(methods)

    def _matching(self, path: str) -> Iterator[tuple[Route[Handler], dict[str, str]]]:
        sent = path.split("/")
        for route, pattern in self._by_length.get(len(sent), ()):
            pairs = list(zip(pattern, sent, strict=True))
            if all(_matches(segment, text) for segment, text in pairs):
                yield route, {s.name: text for s, text in pairs if s.name is not None}


def _segment(text: str) -> PathSegment:
    if not text.startswith("{"):
        return PathSegment(None, frozenset((text,)))
    name, _, texts = text[1:-1].partition(":")
    return PathSegment(name, frozenset(texts.split("|")) if texts else frozenset())


def _matches(segment: PathSegment, sent: str) -> bool:
    return unquote(sent) in segment.texts if segment.texts else bool(sent)
