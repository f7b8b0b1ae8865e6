"""Moves of topics between the workers of a broker, over HTTP as admin tools do."""

from urllib.request import urlopen

from admin_http import TIMEOUT_SECONDS, Admin, Serving
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.names import TopicName
from raw_client import RawClient, process_of


def owner_of(port: int, topic: str) -> int:
    """The number of the worker that serves a topic."""
    with RawClient(port) as client:
        found = process_of(client.request(pb.CommandLookupTopic(topic=topic, request_id=0)))
    assert found is not None, "the broker has one worker"
    return int(found.partition(":")[0].removeprefix("worker-"))


def bundle_of(broker: Serving, topic: str) -> str:
    """The bundle of a topic's namespace that the topic is in."""
    url = f"{broker.http_url}/lookup/v2/topic/{topic.replace('://', '/')}/bundle"
    with urlopen(url, timeout=TIMEOUT_SECONDS) as answer:
        bundle: str = answer.read().decode()
    return bundle


def move(broker: Serving, topic: str, worker: int) -> None:
    """Have a worker serve a topic, and all of its bundle; done on return."""
    namespace = TopicName.parse(topic).namespace_name
    path = f"namespaces/{namespace}/{bundle_of(broker, topic)}/unload"
    answer = Admin(broker).put(f"{path}?destinationBroker=worker-{worker}")
    assert answer.status == 204, answer


def split(broker: Serving, topic: str, query: str = "") -> None:
    """Divide the bundle that a topic is in; done on return."""
    namespace = TopicName.parse(topic).namespace_name
    answer = Admin(broker).put(f"namespaces/{namespace}/{bundle_of(broker, topic)}/split{query}")
    assert answer.status == 204, answer
