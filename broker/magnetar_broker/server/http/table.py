"""The route table: from method and path to the handler of an endpoint."""

from collections.abc import Iterable, Iterator
from functools import cache
from typing import Generic, NamedTuple, TypeVar
from urllib.parse import unquote

from magnetar_proto.admin.endpoint import Endpoint

Handler = TypeVar("Handler")


class PathSegment(NamedTuple):
    """A segment of a route's path: a parameter, or fixed text."""

    name: str | None
    """The parameter's name; None for fixed text."""
    texts: frozenset[str]
    """The texts that match, decoded; if empty, any text but the empty one matches."""

    @property
    def breadth(self) -> int:
        """The rank by the texts that match: one text, several, or any."""
        return 2 if not self.texts else int(self.name is not None)


class Route(NamedTuple, Generic[Handler]):
    """One entry of the routing table."""

    endpoint: Endpoint
    handler: Handler


class NoRoute(Exception):
    """No route matches; `methods` are the methods of the routes with this path."""

    def __init__(self, methods: set[str]) -> None:
        super().__init__(methods)
        self.methods = methods


class Table(Generic[Handler]):
    """Finds the route of a request; fixed text of a pattern matches before parameters."""

    def __init__(self, routes: Iterable[Route[Handler]]) -> None:
        self.routes = tuple(routes)
        self._by_length: dict[int, list[tuple[Route[Handler], list[PathSegment]]]] = {}
        for route in self.routes:
            pattern = [_segment(text) for text in route.endpoint.pattern.split("/")]
            self._by_length.setdefault(len(pattern), []).append((route, pattern))
        for found in self._by_length.values():
            found.sort(key=lambda one: sum(segment.breadth for segment in one[1]))

    def find(self, method: str, path: str) -> tuple[Route[Handler], dict[str, str]]:
        """Return the route and its parameters; HEAD is answered as GET. Raises `NoRoute`."""
        methods = set()
        for route, parameters in self._matching(path):
            if route.endpoint.method == ("GET" if method == "HEAD" else method):
                return route, parameters
            methods.add(route.endpoint.method)
        raise NoRoute(methods)

    def _matching(self, path: str) -> Iterator[tuple[Route[Handler], dict[str, str]]]:
        sent = path.split("/")
        for route, pattern in self._by_length.get(len(sent), ()):
            pairs = list(zip(pattern, sent, strict=True))
            if all(_matches(segment, text) for segment, text in pairs):
                yield route, {s.name: text for s, text in pairs if s.name is not None}


@cache
def _segment(text: str) -> PathSegment:
    """Return a segment of a pattern, one for all patterns that have it."""
    if not text.startswith("{"):
        return PathSegment(None, frozenset((text,)))
    name, _, texts = text[1:-1].partition(":")
    return PathSegment(name, frozenset(texts.split("|")) if texts else frozenset())


def _matches(segment: PathSegment, sent: str) -> bool:
    return unquote(sent) in segment.texts if segment.texts else bool(sent)
