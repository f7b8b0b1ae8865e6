"""Refusals that several handlers give."""

from collections.abc import Iterator
from contextlib import contextmanager

from magnetar_broker.placement.bundles import BundleRefused
from magnetar_broker.server.http.messages import Refused
from magnetar_proto.names import TopicName

MAX_PROPERTIES = 64 * 1024
"""The most characters in the names and values of all properties of an object together."""


def no_namespace(namespace: str) -> Refused:
    """Return the refusal for a namespace that does not exist."""
    create = f"create it with PUT /admin/v2/namespaces/{namespace}"
    return Refused(404, f"namespace {namespace} does not exist: {create}")


def no_topic(topic: TopicName) -> Refused:
    """Return the refusal for a topic, or a partition, that does not exist."""
    if topic.partition >= 0:
        return Refused(404, f"{topic} does not exist: {topic.base} has no such partition")
    return Refused(404, f"topic {topic} does not exist: check the name, or create it")


def no_subscription(name: str, topic: TopicName) -> Refused:
    """Return the refusal for a subscription that does not exist."""
    return Refused(404, f"{topic} has no subscription {name}: check the name, or create it")


def bounded(properties: dict[str, str]) -> dict[str, str]:
    """Return the properties; 412 if they exceed `MAX_PROPERTIES`."""
    size = sum(len(key) + len(value) for key, value in properties.items())
    if size > MAX_PROPERTIES:
        raise Refused(412, f"properties have {size} characters: the limit is {MAX_PROPERTIES}")
    return properties


@contextmanager
def refusing_bundle() -> Iterator[None]:
    """Refuse a bundle that the namespace does not have, or that cannot be divided so, with 412."""
    try:
        yield
    except BundleRefused as error:
        raise Refused(412, str(error)) from error
