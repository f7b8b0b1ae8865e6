"""Refuses requests that a page in a browser sends without the intent of the user.

A browser sends the requests that any page makes, also to ports that only its own machine reaches,
and with passwords that were typed in for another page.  Its headers tell which page that is.
"""

import socket
from collections.abc import Iterable
from ipaddress import ip_address
from urllib.parse import urlsplit

from magnetar_broker.config import Settings
from magnetar_broker.server.http.messages import Refused, Request
from magnetar_broker.server.runtime.advertised import advertised_host

OWN = ("same-origin", "none")
"""The values of Sec-Fetch-Site for a page of this port, and for an address that was typed."""


class WebPages:
    """Refuses requests that web pages of other sites cause a browser to send."""

    def __init__(self, names: Iterable[str] | None = None) -> None:
        """`names` are the names by which this machine is reached; None for any.

        They count where everyone who can connect may do everything, and only this machine can
        connect.  A page whose own name also leads to this machine must not count as a page of this
        port.
        """
        self._names = None if names is None else frozenset(name.lower() for name in names)

    def check(self, request: Request) -> None:
        """Raise `Refused` if another site's page has sent the request."""
        host = request.headers.get("host", "").lower()
        origin = request.headers.get("origin")
        # promise[origin.lower().partition("://")[2] != host -> not origin]: pages of other sites do
        #   not use the HTTP port
        if origin is not None and origin.lower().partition("://")[2] != host:
            raise Refused(
                403,
                f"a page of {origin} has sent this to {host}: only pages of that address may; if a "
                "proxy is in between, it must pass on the header Host",
            )
        headers = request.headers
        if headers.get("sec-fetch-site", "none") not in OWN and (
            headers.get("sec-fetch-mode") != "navigate"
        ):
            raise Refused(
                403,
                "a page of another site has sent this: send it from a page of this address, or "
                "with a client that is not a browser",
            )
        if self._names is not None and host and not _is_local(host, self._names):
            raise Refused(
                403,
                f"{host} is not known as a name of this machine, and the broker is open to this "
                "machine alone: use localhost, or set advertisedAddress or authenticationEnabled",
            )


ANY_NAME = WebPages()
"""The check of a port whose clients must authenticate, or that was opened to other machines."""


def _is_local(host: str, names: frozenset[str]) -> bool:
    """Return whether Host is an address, which no page can choose, or a name of this machine."""
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return False
    # promise[without in names]: only known names are of this machine
    if name == "localhost" or name.endswith(".localhost") or name in names:
        return True
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def web_pages_of(settings: Settings) -> WebPages:
    """Return the check for the HTTP ports of a broker."""
    if settings.authentication_enabled or not settings.binds_to_loopback:
        return ANY_NAME
    hosts = [urlsplit(entry.url).hostname or "" for entry in settings.advertised_listeners]
    return WebPages([socket.gethostname(), advertised_host(settings), *hosts])
