"""Keys in the metadata store (docs/formats.md, "metadata.db" and "Log record")."""

from urllib.parse import quote_plus, unquote_plus

from magnetar_proto.names import TopicName

TOPICS = "/topics/"
"""The prefix of the keys of log records."""
TENANTS = "/tenants/"
NAMESPACES = "/namespaces/"
PARTITIONS = "/partitions/"
DELETIONS = "/deletions/"
POLICIES = "/policies/"
"""The prefix of the keys of policies."""
CLUSTERS = "/clusters/"
RESOURCE_GROUPS = "/resource-groups/"
STARTS = "/starts"
"""The key of the number of times that a process which serves topics has started."""
DYNAMIC_SETTINGS = "/settings"
"""The key of the settings that were changed while the broker ran."""
DIRECTORY = "/directory"
"""The key, under a lease, of the process that is the directory of names."""
OWNERS = "/owners/"
"""The prefix of the keys of the owners of bundles, by namespace, in a cluster."""
OBJECTS = "/objects"
"""The key of the prefix of the names of objects, once it is not the id of the data directory."""


def tenant_key(tenant: str) -> str:
    """Return the key of a tenant."""
    return f"{TENANTS}{tenant}"


def namespace_key(namespace: str) -> str:
    """Return the key of a namespace."""
    return f"{NAMESPACES}{namespace}"


def owners_key(namespace: str) -> str:
    """Return the key of the owners of a namespace's bundles."""
    return f"{OWNERS}{namespace}"


def deletion_key(name: str) -> str:
    """Return the key of the mark that a topic, namespace or tenant is being deleted."""
    return f"{DELETIONS}{quote_plus(name)}"


def topic_key(topic: TopicName) -> str:
    """Return the key of a topic's log record."""
    return topics_of(topic.namespace_name, topic.domain) + topic.encoded_local


def partitions_key(topic: TopicName) -> str:
    """Return the key of a partitioned topic's record."""
    return partitioned_of(topic.namespace_name, topic.domain) + topic.encoded_local


def namespace_policies_key(namespace: str) -> str:
    """Return the key of the policies of a namespace."""
    return f"{POLICIES}{namespace}"


def namespace_of_policies(key: str) -> str | None:
    """Return the namespace of a key of policies; None if it is a topic's key."""
    name = key.removeprefix(POLICIES)
    return name if name.count("/") == 1 else None


def policies_of_topics(namespace: str) -> str:
    """Return the prefix of policies of a namespace's topics; `topic_of_names` parses the rest."""
    return f"{POLICIES}{namespace}/"


def topic_policies_key(topic: TopicName) -> str:
    """Return the key of the policies of a topic and its partitions."""
    base = topic.base
    return f"{POLICIES}{base.namespace_name}/{base.domain}/{base.encoded_local}"


def topic_of_names(key: str) -> TopicName:
    """Return the topic that a metadata key, given without its prefix, belongs to."""
    tenant, namespace, domain, local = key.split("/", 3)
    return TopicName.parse(f"{domain}://{tenant}/{namespace}/{unquote_plus(local)}")


def topic_of(key: str) -> str:
    """Return the full name of the topic with that log record; other keys are returned unchanged."""
    parts = key.removeprefix(TOPICS).split("/", 3)
    if not key.startswith(TOPICS) or len(parts) < 4:
        return key
    tenant, namespace, domain, local = parts
    return f"{domain}://{tenant}/{namespace}/{unquote_plus(local)}"


def topics_of(namespace: str, domain: str) -> str:
    """Return the prefix of a namespace's log records; encoded local names follow."""
    return f"{TOPICS}{namespace}/{domain}/"


def partitioned_of(namespace: str, domain: str) -> str:
    """Return the prefix of a namespace's partitioned topics; encoded local names follow."""
    return f"{PARTITIONS}{namespace}/{domain}/"
