"""The admin API, asked as tests like it."""

import http.client
import json
from http.client import HTTPMessage
from typing import Any, NamedTuple, Protocol
from urllib.parse import urlsplit

from magnetar_broker.server.admin.routes import ROUTES
from magnetar_broker.server.http.table import NoRoute
from running_broker import RunningBroker

TIMEOUT_SECONDS = 60.0


class Serving(Protocol):
    """A broker that runs, Magnetar or the original."""

    @property
    def http_url(self) -> str: ...


class Answer(NamedTuple):
    """What came back."""

    status: int
    body: bytes
    headers: HTTPMessage = HTTPMessage()

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)

    @property
    def reason(self) -> str:
        """Of a refusal."""
        return str(self.json["reason"])


class Admin:
    """One broker's; paths begin behind `/admin/v2/`, or with a slash."""

    def __init__(self, broker: Serving) -> None:
        self._broker = broker

    def get(self, path: str) -> Answer:
        return self.ask("GET", path)

    def put(self, path: str, body: object = None) -> Answer:
        return self.ask("PUT", path, body)

    def post(self, path: str, body: object = None) -> Answer:
        return self.ask("POST", path, body)

    def delete(self, path: str) -> Answer:
        return self.ask("DELETE", path)

    def ask(self, method: str, path: str, body: object = None) -> Answer:
        """Bytes go as they are, other bodies as JSON; None is no body."""
        place = urlsplit(self._broker.http_url).netloc
        connection = http.client.HTTPConnection(place, timeout=TIMEOUT_SECONDS)
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body)
        headers = {"Content-Type": "application/json"}
        try:
            whole = path if path.startswith("/") else f"/admin/v2/{path}"
            connection.request(method, whole, body, headers)
            answer = connection.getresponse()
            if isinstance(self._broker, RunningBroker):
                _check_described(method, whole, answer.status)
            return Answer(answer.status, answer.read(), answer.headers)
        finally:
            connection.close()

    def makes_namespace(self, name: str, body: object = None) -> None:
        """And its tenant."""
        tenant = {"adminRoles": [], "allowedClusters": ["standalone"]}
        assert self.put(f"tenants/{name.split('/', maxsplit=1)[0]}", tenant).status in (204, 409)
        assert self.put(f"namespaces/{name}", body).status == 204


def _check_described(method: str, target: str, status: int) -> None:
    """A success is one that the table of routes has, from which the descriptions are made."""
    try:
        route, _ = ROUTES.find(method, urlsplit(target).path)
    except NoRoute:
        assert status >= 400, f"{method} {target} has no route and was answered with {status}"
        return
    described = route.endpoint.succeeds_with
    assert status >= 300 or status in described, f"{method} {target}: {status}, not {described}"
