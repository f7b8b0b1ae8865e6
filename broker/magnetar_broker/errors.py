"""What the broker refuses, each with the code that Pulsar clients know.

    BrokerError                     code = a ServerError of the protocol
    ├── InvalidName, TenantMissing, NamespaceMissing, TopicMissing, SubscriptionMissing
    ├── AlreadyExists, InUse, NotEmpty, LimitReached   over HTTP: what names refuse
    ├── ProducerBusy, ProducerFenced, ConsumerBusy, ConsumerUnassigned
    ├── TopicTerminated             nothing can be published any more
    ├── QuotaHolds, QuotaExceeded   the backlog is as large as it may be
    ├── NotReady                    try again: loading, fenced, or moving
    ├── NotAllowed                  the feature is off or the request makes no sense
    ├── SchemaRefused, MetadataTrouble, PersistenceTrouble, TooManyRequests, UnknownTrouble

The text tells the user what to do; it travels to the client as it is.
"""

from typing import ClassVar

from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.errors import InvalidTopicName
from magnetar_storage.errors import StorageError

ServerError = pb.ServerError


class BrokerError(Exception):
    """A request was refused; nothing changed."""

    code: ClassVar[pb.ServerError] = pb.UnknownError


class InvalidName(BrokerError):
    code = pb.InvalidTopicName


class TenantMissing(BrokerError):
    code = pb.TopicNotFound


class NamespaceMissing(BrokerError):
    code = pb.TopicNotFound


class TopicMissing(BrokerError):
    code = pb.TopicNotFound


class SubscriptionMissing(BrokerError):
    code = pb.SubscriptionNotFound


class AlreadyExists(BrokerError):
    """Something of that name is there already."""


class InUse(BrokerError):
    """Clients are connected to what is to be deleted."""


class NotEmpty(BrokerError):
    """What is to be deleted has something in it."""


class LimitReached(BrokerError):
    """There may be no more of it."""

    code = pb.NotAllowedError


class ProducerBusy(BrokerError):
    code = pb.ProducerBusy


class ProducerFenced(BrokerError):
    """A producer has ended for good: its client must not try again."""

    code = pb.ProducerFenced


class QuotaHolds(BrokerError):
    """The backlog is as large as it may be: the producer may come when there is room."""

    code = pb.ProducerBlockedQuotaExceededError


class QuotaExceeded(BrokerError):
    """The same, and the application is to be told."""

    code = pb.ProducerBlockedQuotaExceededException


class TopicTerminated(BrokerError):
    """Nothing can be published any more."""

    code = pb.TopicTerminatedError


class ConsumerBusy(BrokerError):
    code = pb.ConsumerBusy


class ConsumerUnassigned(BrokerError):
    """A Key_Shared consumer cannot have the keys that it wants."""

    code = pb.ConsumerAssignError


class NotReady(BrokerError):
    code = pb.ServiceNotReady


class NotAllowed(BrokerError):
    code = pb.NotAllowedError


class SchemaRefused(BrokerError):
    code = pb.IncompatibleSchema


class MetadataTrouble(BrokerError):
    code = pb.MetadataError


class PersistenceTrouble(BrokerError):
    code = pb.PersistenceError


class TooManyRequests(BrokerError):
    code = pb.TooManyRequests


class UnknownTrouble(BrokerError):
    code = pb.UnknownError


def as_refusal(error: Exception) -> BrokerError | None:
    """The refusal to send for an error that was met on the way; None for a defect of ours."""
    if isinstance(error, BrokerError):
        return error
    if isinstance(error, InvalidTopicName):
        return InvalidName(str(error))
    if isinstance(error, StorageError):
        return PersistenceTrouble(str(error))
    return None
