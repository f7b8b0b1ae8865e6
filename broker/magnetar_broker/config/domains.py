"""What settings may be: the choices, and the kinds of values that several settings share."""

from enum import StrEnum

from magnetar_broker.config.values import Boolean, Integer, Text


class Durability(StrEnum):
    """When a publish or an acknowledgement is answered."""

    FSYNC = "fsync"
    RELAXED = "relaxed"


class TopicType(StrEnum):
    """What auto-creation makes."""

    NON_PARTITIONED = "non-partitioned"
    PARTITIONED = "partitioned"


class SubscriptionType(StrEnum):
    EXCLUSIVE = "Exclusive"
    SHARED = "Shared"
    FAILOVER = "Failover"
    KEY_SHARED = "Key_Shared"


PORT = Integer(0, 65535)
COUNT = Integer(0)
FLAG = Boolean()
HOST = Text(r"[^\s/@,]+", "a host name or an IP address")
NAME = Text(r"[-=:.\w]+", "letters, digits and -_=:.")
NAMESPACE = Text(r"[-=:.\w]+/[-=:.\w]+", "tenant/namespace")
PATH = Text(r"[^\0]+", "a path")
