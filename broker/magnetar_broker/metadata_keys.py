"""Where names are kept in the metadata store (docs/formats.md, "metadata.db" and "Log record")."""

from urllib.parse import unquote_plus

from magnetar_proto.names import TopicName

TOPICS = "/topics/"
"""What the keys of all log records begin with."""
POLICIES = "/policies/"
"""What the keys of all that namespaces and topics say begin with."""


def namespace_key(namespace: str) -> str:
    """Of a namespace."""
    return f"/namespaces/{namespace}"


def topic_key(topic: TopicName) -> str:
    """Of a topic's log record."""
    return _topics(topic.namespace_name, topic.domain) + topic.encoded_local


def partitions_key(topic: TopicName) -> str:
    """Of a partitioned topic's number of partitions."""
    return _partitioned(topic.namespace_name, topic.domain) + topic.encoded_local


def namespace_policies_key(namespace: str) -> str:
    """Of what a namespace says of its topics."""
    return f"{POLICIES}{namespace}"


def namespace_of_policies(key: str) -> str | None:
    """The namespace that says what is under a key of policies; None if it is a topic's."""
    name = key.removeprefix(POLICIES)
    return name if name.count("/") == 1 else None


def topic_policies_key(topic: TopicName) -> str:
    """Of what a topic says of itself and its partitions."""
    base = topic.base
    return f"{POLICIES}{base.namespace_name}/{base.domain}/{base.encoded_local}"


def persistent_topics(namespace: str) -> str:
    """What the keys of a namespace's log records begin with; the local names follow."""
    return _topics(namespace, "persistent")


def persistent_partitioned(namespace: str) -> str:
    """The same for its partitioned topics."""
    return _partitioned(namespace, "persistent")


def topic_of(key: str) -> str:
    """The full name of the topic with that log record; a key that is none stays as it is."""
    parts = key.removeprefix(TOPICS).split("/", 3)
    if not key.startswith(TOPICS) or len(parts) < 4:
        return key
    tenant, namespace, domain, local = parts
    return f"{domain}://{tenant}/{namespace}/{unquote_plus(local)}"


def _topics(namespace: str, domain: str) -> str:
    return f"{TOPICS}{namespace}/{domain}/"


def _partitioned(namespace: str, domain: str) -> str:
    return f"/partitions/{namespace}/{domain}/"
