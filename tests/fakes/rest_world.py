"""The REST API of a broker of one process or several, over stores in memory."""

import json
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any, cast
from urllib.parse import parse_qsl

from fakes.connection import RecordingConnection
from fakes.logs import LogWorld
from fakes.processes import SERVICE_URL, Processes
from fakes.publish_runs import publish
from magnetar_broker.broker import Broker
from magnetar_broker.config import Settings
from magnetar_broker.dispatch.consumer import Consumer, SubscribeRequest
from magnetar_broker.placement.ownership import SoleOwner
from magnetar_broker.producers.appender import PublishRun
from magnetar_broker.producers.producer import ProducerRequest
from magnetar_broker.server.admin.context import AdminContext, Handler, Pages
from magnetar_broker.server.admin.linked_owners import LinkedOwners
from magnetar_broker.server.admin.owners import SoleProcess
from magnetar_broker.server.admin.routes import ROUTES, NamedHandler
from magnetar_broker.server.http.errors import refusal_of
from magnetar_broker.server.http.messages import NO_CONTENT, Request, Response
from magnetar_broker.server.http.table import Route
from magnetar_broker.server.pages.health import HealthCheck
from magnetar_broker.server.pages.linked_health import LinkedHealth
from magnetar_broker.standalone import standalone
from magnetar_proto.names import TopicName

SETTINGS = Settings(default_number_of_namespace_bundles=4)
"""Settings with which the number of bundles does not depend on that of processes."""
TOPIC = "/admin/v2/persistent/public/default/topic"
PARTED = "/admin/v2/persistent/public/default/parted"
VOLATILE = "/admin/v2/non-persistent/public/default/volatile"
SPACE = "/admin/v2/namespaces/public/default"
BROKERS = "/admin/v2/brokers"
NO_PAGES = cast(Pages, None)


def handler_of(route: Route[Handler]) -> Handler:
    """Return the function that answers a route; NamedHandler would need a thread to import it."""
    handler = route.handler
    return handler.load() if isinstance(handler, NamedHandler) else handler


class World(LogWorld):
    """A broker and its REST API, of one process or several."""

    def __init__(self, workers: int, settings: Settings = SETTINGS) -> None:
        super().__init__()
        self.processes: Processes | None = None
        if workers == 1:
            owner = SoleOwner(SERVICE_URL)
            directory, self.sole = standalone(settings, self.engine, owner)
            health = HealthCheck(self.sole)
            self.context = AdminContext(directory, SoleProcess(self.sole), NO_PAGES, health)
            self.do(self.sole.start())
        else:
            several = self.processes = Processes(settings, self.engine, self.clock, workers)
            owners = LinkedOwners(several.topic_host, self.engine)
            linked = LinkedHealth(several.topic_host.links, self.engine)
            self.context = AdminContext(several.directory, owners, NO_PAGES, linked)
            several.start()

    def broker(self, name: TopicName) -> Broker:
        return self.sole if self.processes is None else self.processes.of(name).broker

    def ask(self, line: str, body: Any = None) -> Response:
        """Return the answer to a request, as in `GET /path?query`."""
        method, _, target = line.partition(" ")
        path, _, query = target.partition("?")
        pairs = parse_qsl(query)
        sent = b"" if body is None else json.dumps(body).encode()
        request = Request(method, path, dict(pairs), {}, sent, 8080, pairs=pairs)
        try:
            route, parameters = ROUTES.find(method, path)
            answer = handler_of(route)(self.context, replace(request, parameters=parameters))
            return self.do(cast(Coroutine[Any, Any, Response | None], answer)) or NO_CONTENT
        except Exception as error:
            return refusal_of(request, error)

    def publish(self, text: str, payloads: int) -> None:
        name = TopicName.parse(text)
        topic = self.do(self.broker(name).topic(name, True))
        request = ProducerRequest(1, "producer")
        producer = self.do(topic.producers.add(RecordingConnection(), request))
        sends = PublishRun(producer)
        sends.payloads = [b"x"] * payloads
        sends.counts = [1] * payloads
        sends.sequence_ids = sends.highest_ids = list(range(payloads))
        sends.size = payloads
        publish(sends)
        self.clock.pump()
        producer.close()

    def consumer(self, text: str, subscription: str) -> Consumer:
        name = TopicName.parse(text)
        topic = self.do(self.broker(name).topic(name, True))
        request = SubscribeRequest(subscription, 0, 1, "consumer", earliest=True)
        return self.do(topic.subscriptions.subscribe(RecordingConnection(), request))


def used(workers: int) -> World:
    """Create a world with a topic and a partitioned topic, with messages and subscriptions."""
    world = World(workers)
    assert world.ask(f"PUT {PARTED}/partitions", 3).status == 204
    for text in ("topic", *(f"parted-partition-{index}" for index in range(3))):
        world.consumer(f"persistent://public/default/{text}", "sub").close()
        world.publish(f"persistent://public/default/{text}", 5)
    world.consumer("persistent://public/default/parted-partition-1", "busy")
    world.consumer("non-persistent://public/default/volatile", "sub")
    return world
