"""Advertised listeners: the addresses of one broker, each set of them under a name.

Clients inside and outside of a network reach the same broker at different addresses.  A client
names the listener whose addresses it can use, and its lookups are answered with those.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple

_ENTRY = re.compile(
    r"(?P<name>[-\w.]+)\s*:\s*"
    r"(?P<url>(?P<scheme>pulsar|pulsar\+ssl|https?)://"
    r"(?:\[[0-9A-Fa-f:.]+\]|[^\s/@,:\[\]]+):(?P<port>[0-9]{1,5}))"
)
MAX_PORT = 65535


class AdvertisedListener(NamedTuple):
    """One address of a listener; a listener has at most one of each scheme."""

    name: str
    scheme: str
    url: str

    def __str__(self) -> str:
        return f"{self.name}:{self.url}"


class ListenerUrls(NamedTuple):
    """The addresses of a listener; "" for a scheme without one.

    The two for TLS belong to the broker's TLS ports, or to a proxy that ends TLS in front of it.
    """

    pulsar: str = ""
    pulsar_tls: str = ""
    http: str = ""
    http_tls: str = ""


_FIELDS = {"pulsar": "pulsar", "pulsar+ssl": "pulsar_tls", "http": "http", "https": "http_tls"}


class Listeners:
    """The kind of the setting `advertisedListeners`."""

    allowed = (
        "name:scheme://host:port with scheme pulsar, pulsar+ssl, http or https; several are "
        "separated by commas"
    )

    def parse(self, text: str) -> tuple[AdvertisedListener, ...]:
        return tuple(_entry(word.strip()) for word in text.split(",") if word.strip())


def _entry(text: str) -> AdvertisedListener:
    found = _ENTRY.fullmatch(text)
    if found is None or not 0 < int(found["port"]) <= MAX_PORT:
        raise ValueError(text)
    return AdvertisedListener(found["name"], found["scheme"], found["url"])


def urls_by_name(entries: Iterable[AdvertisedListener]) -> dict[str, ListenerUrls]:
    """Return every listener's addresses, in the order of the setting."""
    found: dict[str, ListenerUrls] = {}
    for name, scheme, url in entries:
        found[name] = found.get(name, ListenerUrls())._replace(**{_FIELDS[scheme]: url})
    return found


def over_tls(process_url: str) -> str:
    """Return the URL that stands for a process of the broker, for clients that use TLS."""
    return process_url.replace("pulsar://", "pulsar+ssl://")


def default_listener(entries: tuple[AdvertisedListener, ...], internal: str | None) -> str:
    """Return the listener for lookups without a name: `internal`, or the first if unset."""
    return internal or entries[0].name


def default_urls(entries: tuple[AdvertisedListener, ...], internal: str | None) -> ListenerUrls:
    """Return the addresses for lookups without a listener name.

    Each is the default listener's; where that has none of a scheme, the first listener's that has
    one, so that clients of every kind reach the broker.
    """
    listeners = urls_by_name(entries)
    chosen = listeners[default_listener(entries, internal)]
    for others in listeners.values():
        chosen = ListenerUrls(*(mine or other for mine, other in zip(chosen, others, strict=True)))
    return chosen


def problem_of(entries: tuple[AdvertisedListener, ...]) -> str | None:
    """Return the conflict between entries that are valid alone; None if they agree."""
    seen: set[tuple[str, str]] = set()
    for name, scheme, _ in entries:
        if (name, scheme) in seen:
            return f"listener {name} has more than one {scheme} address; keep one"
        seen.add((name, scheme))
    return None


def problem_of_internal(
    entries: tuple[AdvertisedListener, ...], internal: str | None
) -> str | None:
    """Return why `internal` cannot be the default listener; None if it can."""
    if not entries:
        return "advertisedListeners is not set; set it, or leave internalListenerName unset"
    urls, name = urls_by_name(entries), default_listener(entries, internal)
    if name not in urls:
        return f"expected a listener of advertisedListeners: {', '.join(urls)}"
    if not urls[name].pulsar and not urls[name].pulsar_tls:
        return (
            f"listener {name} has no pulsar:// and no pulsar+ssl:// address, and the default "
            "listener needs one of them; add it"
        )
    return None
