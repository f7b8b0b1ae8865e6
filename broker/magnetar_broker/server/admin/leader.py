"""Requests for the directory of names, which only the leader of a cluster can answer."""

from collections.abc import Callable
from urllib.parse import urlencode

from magnetar_broker.base.errors import NotReady
from magnetar_broker.config.listeners import ListenerUrls
from magnetar_broker.server.http.messages import Redirected, Request

DIRECTORY = ("/admin/", "/lookup/")
"""The beginnings of paths that only the leader answers, but for `OWN`."""
OWN = ("/admin/v2/brokers/ready", "/admin/v2/brokers/health")
"""The paths that every broker answers for itself."""


class Leader:
    """Redirects requests to the leader, as Pulsar does: status 307, for the same method and body.

    The client's credentials are checked before.  A client sends them again to the leader if it
    trusts that host.
    """

    def __init__(self, urls: Callable[[], ListenerUrls | None]) -> None:
        """`urls` returns the addresses of the leader, blank if none leads; None for this broker."""
        self._urls = urls

    def check(self, request: Request) -> None:
        """Raise `Redirected` if the leader answers the request; `NotReady` if there is none."""
        urls = self._urls()
        # promise[without or request.path in OWN]: every broker answers for its own health
        if urls is None or request.path in OWN or not request.path.startswith(DIRECTORY):
            return
        # promise[if request.is_tls else -> or]: a request that came without TLS is sent on without
        web = urls.http_tls or urls.http if request.is_tls else urls.http or urls.http_tls
        if not web:
            raise NotReady("no broker leads the cluster, or its HTTP address is unknown: retry")
        query = f"?{urlencode(request.pairs)}" if request.pairs else ""
        raise Redirected(f"{web.rstrip('/')}{request.path}{query}")
