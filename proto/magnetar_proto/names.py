"""Topic and namespace names: `persistent://tenant/namespace/local`, plain text as on the wire."""

import re
import sys
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final
from urllib.parse import quote_plus

from magnetar_proto.errors import InvalidTopicName

DOMAINS: Final = ("persistent", "non-persistent")
DEFAULT_NAMESPACE: Final = "public/default"
SYSTEM_NAMESPACE: Final = "pulsar/system"
HEARTBEAT: Final = "heartbeat"
"""The topic of the system's namespace that a broker's health check publishes to; in a broker of
several processes, the topics of further ones have a number, `heartbeat-1`."""
PARTITION_SUFFIX: Final = "-partition-"
MAX_PARTITION: Final = (1 << 31) - 1
MAX_NAME: Final = 4096
"""The most characters of the name of a topic or a namespace, in any form: names are kept in memory,
and clients choose them."""

_PLAIN: Final = re.compile(r"[*.\w-]+", re.ASCII)
_PART: Final = re.compile(r"[-=:.\w]+", re.ASCII)
_PARTITION: Final = re.compile(r"(.+)-partition-(0|[1-9][0-9]{0,9})", re.DOTALL)


@dataclass(frozen=True, slots=True, order=True)
class NamespaceName:
    """The name of a namespace: `tenant/namespace`."""

    tenant: str
    namespace: str

    @classmethod
    def parse(cls, text: str) -> "NamespaceName":
        """Parse a name; InvalidTopicName unless it is two parts of letters, digits and -=:._"""
        _check_length(text)
        parts = text.split("/")
        if len(parts) != 2 or not all(map(_PART.fullmatch, parts)):
            raise InvalidTopicName(f"{text!r} is not a namespace: expected tenant/namespace")
        return cls(*parts)

    def __str__(self) -> str:
        return f"{self.tenant}/{self.namespace}"


@dataclass(frozen=True, slots=True, order=True)
class TopicName:
    """The name of a topic, or of one partition of a topic: its local name ends in -partition-N.

    Build it with `parse`, which validates.
    """

    domain: str
    tenant: str
    namespace: str
    local: str
    namespace_name: str = field(init=False, repr=False, compare=False)
    """The namespace, as `tenant/namespace`."""

    def __post_init__(self) -> None:
        # Used often, and equal for many topics: interned, so that they share one string.
        object.__setattr__(self, "namespace_name", sys.intern(f"{self.tenant}/{self.namespace}"))

    @staticmethod
    def parse(text: str) -> "TopicName":
        """Accept `local`, `tenant/namespace/local` or `domain://tenant/namespace/local`.

        InvalidTopicName otherwise, also for names with a cluster part.
        """
        _check_length(text)
        return _parse_topic(text)

    def __str__(self) -> str:
        return f"{self.domain}://{self.tenant}/{self.namespace}/{self.local}"

    @property
    def is_persistent(self) -> bool:
        """Whether messages are stored."""
        return self.domain == "persistent"

    @property
    def partition(self) -> int:
        """The partition's index, -1 when this is not the name of a partition."""
        return _split_partition(self.local)[1]

    @property
    def base(self) -> "TopicName":
        """The partitioned topic of a partition; any other topic is its own base."""
        local, partition = _split_partition(self.local)
        return self if partition < 0 else TopicName(self.domain, self.tenant, self.namespace, local)

    def with_partition(self, index: int) -> "TopicName":
        """Return partition `index` of the topic, or of the topic of which this is a partition."""
        if not 0 <= index <= MAX_PARTITION:
            raise InvalidTopicName(f"{index} is not the index of a partition")
        local = f"{_split_partition(self.local)[0]}{PARTITION_SUFFIX}{index}"
        return TopicName(self.domain, self.tenant, self.namespace, local)

    @property
    def encoded_local(self) -> str:
        """The form-encoded local name, as in storage, schema ids and REST paths."""
        if _PLAIN.fullmatch(self.local):
            return self.local
        return quote_plus(self.local, safe="*").replace("~", "%7E")

    @property
    def is_system(self) -> bool:
        """Whether the broker itself uses the topic: not listed, never deleted as inactive."""
        local = _split_partition(self.local)[0]
        if local in ("__change_events", "__transaction_buffer_snapshot"):
            return True
        if local.endswith("__transaction_pending_ack"):
            return True
        return self.namespace_name == SYSTEM_NAMESPACE and (
            local in (HEARTBEAT, "transaction_coordinator_assign")
            or local.startswith((f"{HEARTBEAT}-", "__transaction_log_"))
        )


def _check_length(text: str) -> None:
    if len(text) > MAX_NAME:  # promise: long names are not kept in memory
        raise InvalidTopicName(
            f"the name that begins with {text[:40]!r} has {len(text)} characters: "
            f"the limit is {MAX_NAME}"
        )


@lru_cache(maxsize=16_384)
def _parse_topic(text: str) -> TopicName:
    domain, separator, path = text.partition("://")
    if not separator:
        path = text if "/" in text else f"{DEFAULT_NAMESPACE}/{text}"
        domain = "persistent"
    parts = path.split("/")
    if domain not in DOMAINS or len(parts) != 3:
        raise InvalidTopicName(
            f"{text!r} is not a topic: expected persistent://tenant/namespace/topic"
        )
    tenant, namespace, local = parts
    if not _PART.fullmatch(tenant) or not _PART.fullmatch(namespace):
        raise InvalidTopicName(
            f"{text!r}: expected letters, digits and -=:._ in tenant and namespace"
        )
    if not local.strip():
        raise InvalidTopicName(f"{text!r} has a blank topic name")
    if not _is_unicode(local):
        raise InvalidTopicName(f"{text!r} has half of a surrogate pair, which UTF-8 cannot carry")
    return TopicName(domain, tenant, namespace, local)


def _is_unicode(text: str) -> bool:
    return not any("\ud800" <= char <= "\udfff" for char in text)


@lru_cache(maxsize=16_384)
def _split_partition(local: str) -> tuple[str, int]:
    """Return the local name without its partition suffix, and the index, -1 without a suffix."""
    match = _PARTITION.fullmatch(local)
    if match is None or int(match[2]) > MAX_PARTITION:
        return local, -1
    return match[1], int(match[2])
