"""Where names are kept in the metadata store (docs/formats.md, "metadata.db" and "Log record")."""

from urllib.parse import quote_plus, unquote_plus

from magnetar_proto.names import TopicName

TOPICS = "/topics/"
"""What the keys of all log records begin with."""
TENANTS = "/tenants/"
NAMESPACES = "/namespaces/"
PARTITIONS = "/partitions/"
DELETIONS = "/deletions/"
POLICIES = "/policies/"
"""What the keys of all that namespaces and topics say begin with."""


def tenant_key(tenant: str) -> str:
    """Of a tenant."""
    return f"{TENANTS}{tenant}"


def namespace_key(namespace: str) -> str:
    """Of a namespace."""
    return f"{NAMESPACES}{namespace}"


def deletion_key(name: str) -> str:
    """Of the deletion of a topic, namespace or tenant that has begun, by its full name."""
    return f"{DELETIONS}{quote_plus(name)}"


def topic_key(topic: TopicName) -> str:
    """Of a topic's log record."""
    return topics_of(topic.namespace_name, topic.domain) + topic.encoded_local


def partitions_key(topic: TopicName) -> str:
    """Of a partitioned topic's number of partitions."""
    return partitioned_of(topic.namespace_name, topic.domain) + topic.encoded_local


def namespace_policies_key(namespace: str) -> str:
    """Of what a namespace says of its topics."""
    return f"{POLICIES}{namespace}"


def namespace_of_policies(key: str) -> str | None:
    """The namespace that says what is under a key of policies; None if it is a topic's."""
    name = key.removeprefix(POLICIES)
    return name if name.count("/") == 1 else None


def policies_of_topics(namespace: str) -> str:
    """What the keys of all that a namespace's topics say begin with; `topic_of_names` reads on."""
    return f"{POLICIES}{namespace}/"


def topic_policies_key(topic: TopicName) -> str:
    """Of what a topic says of itself and its partitions."""
    base = topic.base
    return f"{POLICIES}{base.namespace_name}/{base.domain}/{base.encoded_local}"


def topic_of_names(key: str) -> TopicName:
    """The topic of a key of which what all such keys begin with was taken off."""
    tenant, namespace, domain, local = key.split("/", 3)
    return TopicName.parse(f"{domain}://{tenant}/{namespace}/{unquote_plus(local)}")


def topic_of(key: str) -> str:
    """The full name of the topic with that log record; a key that is none stays as it is."""
    parts = key.removeprefix(TOPICS).split("/", 3)
    if not key.startswith(TOPICS) or len(parts) < 4:
        return key
    tenant, namespace, domain, local = parts
    return f"{domain}://{tenant}/{namespace}/{unquote_plus(local)}"


def topics_of(namespace: str, domain: str) -> str:
    """What the keys of a namespace's log records begin with; the encoded local names follow."""
    return f"{TOPICS}{namespace}/{domain}/"


def partitioned_of(namespace: str, domain: str) -> str:
    """The same for its partitioned topics."""
    return f"{PARTITIONS}{namespace}/{domain}/"
