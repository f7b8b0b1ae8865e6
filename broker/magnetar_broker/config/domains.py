"""The types of settings' values that several settings share: choices, sizes, names."""

from enum import StrEnum

from magnetar_broker.config.values import Boolean, Integer, IntegerOrAuto, Text, Texts


class Durability(StrEnum):
    """The point at which a publish or an acknowledgement is answered."""

    FSYNC = "fsync"
    RELAXED = "relaxed"


class DamagedEntries(StrEnum):
    """The treatment of stored entries that cannot be read."""

    STOP = "stop"
    SKIP = "skip"


class OffloadDriver(StrEnum):
    """The kinds of storage that sealed ledgers are offloaded to."""

    S3 = "S3"
    AWS_S3 = "aws-s3"
    GOOGLE = "google-cloud-storage"
    AZURE = "azureblob"
    FILES = "filesystem"


class ReadPriority(StrEnum):
    """The copy that is read of a ledger that is both offloaded and in the data directory."""

    TIERED_STORAGE = "tiered-storage-first"
    DATA_DIRECTORY = "bookkeeper-first"


class TopicType(StrEnum):
    """The type of automatically created topics."""

    NON_PARTITIONED = "non-partitioned"
    PARTITIONED = "partitioned"


class SubscriptionType(StrEnum):
    EXCLUSIVE = "Exclusive"
    SHARED = "Shared"
    FAILOVER = "Failover"
    KEY_SHARED = "Key_Shared"


class MetadataInterceptor(StrEnum):
    """The classes that add metadata to each entry that the broker stores."""

    INDEX = "org.apache.pulsar.common.intercept.AppendIndexMetadataInterceptor"
    BROKER_TIMESTAMP = "org.apache.pulsar.common.intercept.AppendBrokerTimestampMetadataInterceptor"


class QuotaAction(StrEnum):
    """The action when a topic's backlog has reached its quota."""

    PRODUCER_REQUEST_HOLD = "producer_request_hold"
    PRODUCER_EXCEPTION = "producer_exception"
    CONSUMER_BACKLOG_EVICTION = "consumer_backlog_eviction"


class InactiveMode(StrEnum):
    """The condition under which a topic without clients is inactive."""

    NO_SUBSCRIPTIONS = "delete_when_no_subscriptions"
    CAUGHT_UP = "delete_when_subscriptions_caught_up"


class SchemaCompatibility(StrEnum):
    """The changes of a schema that are allowed; undefined leaves it to the next level."""

    UNDEFINED = "UNDEFINED"
    ALWAYS_INCOMPATIBLE = "ALWAYS_INCOMPATIBLE"
    ALWAYS_COMPATIBLE = "ALWAYS_COMPATIBLE"
    BACKWARD = "BACKWARD"
    FORWARD = "FORWARD"
    FULL = "FULL"
    BACKWARD_TRANSITIVE = "BACKWARD_TRANSITIVE"
    FORWARD_TRANSITIVE = "FORWARD_TRANSITIVE"
    FULL_TRANSITIVE = "FULL_TRANSITIVE"


class TlsProtocol(StrEnum):
    """Versions of TLS; older ones are broken."""

    TLS_1_3 = "TLSv1.3"
    TLS_1_2 = "TLSv1.2"


MAX_WORKERS = 64
WORKERS = IntegerOrAuto(Integer(1, MAX_WORKERS))
PORT = Integer(0, 65535)
COUNT = Integer(0)
SIGNED_LONG = Integer(-1, 2**63 - 1)
"""The kind of a large number for which -1 has a meaning of its own."""
FLAG = Boolean()
HOST = Text(r"[^\s/@,]+", "a host name or an IP address")
NAME = Text(r"[-=:.\w]+", "letters, digits and -_=:.")
NAMESPACE = Text(r"[-=:.\w]+/[-=:.\w]+", "tenant/namespace")
CIPHER = Text(r"[-\w]+", "names of cipher suites")
PATH = Text(r"[^\0]+", "a path")
TEXT = Text(r".+", "text")
TEXTS = Texts(TEXT)
CLASSES = Texts(Text(r"[\w.$]+", "a word or the name of a class"))
