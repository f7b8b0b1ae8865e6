"""What a scenario in another language plays on, and what it may ask for."""

from collections.abc import Callable
from typing import Protocol
from urllib.request import Request, urlopen

from clients.values import share_value
from compacting import compact

REST_SECONDS = 60


class Broker(Protocol):
    """A broker that runs, Magnetar or the original."""

    @property
    def service_url(self) -> str: ...

    @property
    def http_url(self) -> str: ...

    def kill(self) -> None: ...

    def start(self) -> object: ...


class Stage:
    """A shared broker, and a topic of the scenario's own."""

    def __init__(self, broker: Broker, make_broker: Callable[..., Broker], topic: str) -> None:
        self.broker = broker
        self.topic = topic
        self._make_broker = make_broker
        self._own: Broker | None = None

    def answer(self, question: str) -> str:
        """Do what the scenario asks for.

        That is a `broker KEY=VALUE...` of its own, to `kill` it, to `compact` a topic, a request
        to the admin API: `rest METHOD PATH BODY`, without spaces, or a `value TOPIC KIND` of the
        asyncio client.
        """
        verb, *settings = question.split()
        if verb == "rest":
            self._rest(*settings)
            return "done"
        if verb == "compact":
            compact(self._own or self.broker, *settings)
            return "done"
        if verb == "value":
            share_value((self._own or self.broker).service_url, *settings)
            return "done"
        if verb == "broker":
            self._own = self._make_broker(**dict(pair.split("=", 1) for pair in settings))
            return f"{self._own.service_url} {self._own.http_url}"
        assert verb == "kill" and self._own is not None, question
        self._own.kill()
        self._own.start()
        return "done"

    def _rest(self, method: str, path: str, body: str = "") -> None:
        url = f"{(self._own or self.broker).http_url}/admin/v2/{path}"
        headers = {"Content-Type": "application/json"}
        urlopen(Request(url, body.encode(), headers, method=method), timeout=REST_SECONDS).close()

    def answer_or_failure(self, question: str) -> str:
        """The answer, or what went wrong as one, so that the scenario fails and ends."""
        try:
            return self.answer(question)
        except Exception as failure:
            return f"failed: {failure!r}".replace("\n", " ")
