"""Which handler answers which method and path."""

from collections.abc import Iterable, Iterator
from typing import Generic, NamedTuple, TypeVar
from urllib.parse import unquote

Handler = TypeVar("Handler")


class Segment(NamedTuple):
    """What may stand between two slashes of a path."""

    name: str | None
    """Of the parameter, if it is one."""
    texts: frozenset[str]
    """One of these, decoded; empty is anything but nothing."""


class Route(NamedTuple, Generic[Handler]):
    """A line of the table."""

    method: str
    pattern: str
    """`/` and segments: a text, a parameter `{name}`, or `{name:one|other}`."""
    handler: Handler


class NoRoute(Exception):
    """Nothing answers; `methods` would be answered on this path."""

    def __init__(self, methods: set[str]) -> None:
        super().__init__(methods)
        self.methods = methods


class Table(Generic[Handler]):
    """Finds the route of a request; of several that fit, the first."""

    def __init__(self, routes: Iterable[Route[Handler]]) -> None:
        self._by_length: dict[int, list[tuple[Route[Handler], list[Segment]]]] = {}
        for route in routes:
            pattern = [_segment(text) for text in route.pattern.split("/")]
            self._by_length.setdefault(len(pattern), []).append((route, pattern))

    def find(self, method: str, path: str) -> tuple[Handler, dict[str, str]]:
        """The handler and its parameters; a HEAD is answered as a GET.  Raises `NoRoute`."""
        methods = set()
        for route, parameters in self._fitting(path):
            if route.method == ("GET" if method == "HEAD" else method):
                return route.handler, parameters
            methods.add(route.method)
        raise NoRoute(methods)

    def _fitting(self, path: str) -> Iterator[tuple[Route[Handler], dict[str, str]]]:
        sent = path.split("/")
        for route, pattern in self._by_length.get(len(sent), ()):
            pairs = list(zip(pattern, sent, strict=True))
            if all(_fits(segment, text) for segment, text in pairs):
                yield route, {s.name: text for s, text in pairs if s.name is not None}


def _segment(text: str) -> Segment:
    if not text.startswith("{"):
        return Segment(None, frozenset((text,)))
    name, _, texts = text[1:-1].partition(":")
    return Segment(name, frozenset(texts.split("|")) if texts else frozenset())


def _fits(segment: Segment, sent: str) -> bool:
    return unquote(sent) in segment.texts if segment.texts else bool(sent)
