"""Errors that the broker answers requests with, each with its code in the protocol.

    BrokerError                     code = a ServerError of the protocol
    ├── InvalidName
    │   └── BadPattern
    ├── TenantNotFound, NamespaceNotFound, TopicNotFound, SubscriptionNotFound
    │   └── NamespaceClosed         it may be back: it is being created, or deleted
    ├── AlreadyExists, InUse, NotEmpty, LimitReached   over HTTP: what names refuse
    ├── ProducerBusy, ProducerFenced, ConsumerBusy, ConsumerUnassigned
    ├── TopicTerminated             nothing can be published any more
    ├── ProducerBlocked, QuotaExceeded   the backlog has reached its quota
    ├── NoRoom                      the disk has too little free space
    ├── NotReady                    try again: loading, fenced, moving, or its process has ended
    ├── ListenerNotFound            a lookup names a listener that is not configured
    ├── NotAuthenticated            no credentials, or none that prove a role
    │   ├── CredentialsRefused      the credentials prove no role
    │   └── RoleChanged             renewed credentials prove another role
    ├── NotAuthorized               the role may not do this
    ├── NotAllowed                  the feature is off or the request makes no sense
    │   └── PatternUnsupported      the broker cannot match that pattern
    ├── SchemaRefused
    │   └── SchemaInvalid
    ├── TransactionCoordinatorNotFound   this process does not serve that coordinator
    ├── TransactionNotFound, InvalidTransactionStatus, TransactionConflict
    ├── MetadataError, PersistenceError, TooManyRequests, UnknownError

The text names what the user can do; it is sent to the client as it is.
"""

from typing import ClassVar

from magnetar_broker.base.client_texts import UNLOADED
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.errors import InvalidTopicName
from magnetar_storage.errors import DiskLow, LogClosed, ProcessUnavailable, StorageError

ServerError = pb.ServerError


class BrokerError(Exception):
    """A request was refused; nothing changed."""

    code: ClassVar[pb.ServerError] = pb.UnknownError


class InvalidName(BrokerError):
    code = pb.InvalidTopicName


class BadPattern(InvalidName):
    """The pattern is not a regular expression."""


class TenantNotFound(BrokerError):
    code = pb.TopicNotFound


class NamespaceNotFound(BrokerError):
    code = pb.TopicNotFound


class NamespaceClosed(NamespaceNotFound):
    """The creation or deletion of the namespace is in progress, and may fail."""


class TopicNotFound(BrokerError):
    code = pb.TopicNotFound


class SubscriptionNotFound(BrokerError):
    code = pb.SubscriptionNotFound


class AlreadyExists(BrokerError):
    """A tenant, namespace, topic or other object of that name already exists."""


class InUse(BrokerError):
    """The object cannot be deleted while clients are connected to it."""


class NotEmpty(BrokerError):
    """The object cannot be deleted while it is not empty."""


class LimitReached(BrokerError):
    """A configured limit is reached."""

    code = pb.NotAllowedError


class ProducerBusy(BrokerError):
    code = pb.ProducerBusy


class ProducerFenced(BrokerError):
    """The producer has been taken over: its client must not reconnect it."""

    code = pb.ProducerFenced


class ProducerBlocked(BrokerError):
    """A backlog quota is exceeded: the producer can connect when there is room."""

    code = pb.ProducerBlockedQuotaExceededError


class QuotaExceeded(BrokerError):
    """A backlog quota is exceeded, and the application gets an exception."""

    code = pb.ProducerBlockedQuotaExceededException


class NoRoom(BrokerError):
    """The disk has too little free space for an operation that uses more of it."""

    # The only code at which official clients fail what is being sent at once, and stay connected.
    code = pb.ProducerBlockedQuotaExceededException


class TopicTerminated(BrokerError):
    """The topic is terminated: nothing can be published."""

    code = pb.TopicTerminatedError


class ConsumerBusy(BrokerError):
    code = pb.ConsumerBusy


class ConsumerUnassigned(BrokerError):
    """The hash ranges of a Key_Shared consumer are invalid or taken."""

    code = pb.ConsumerAssignError


class NotReady(BrokerError):
    code = pb.ServiceNotReady


def being_unloaded(topic: object) -> NotReady:
    """Return the refusal of a request for a topic that is being closed here."""
    return NotReady(f"{topic} {UNLOADED} from this broker; try again")


class ListenerNotFound(BrokerError):
    """A lookup names a listener that is not in advertisedListeners."""

    code = pb.ServiceNotReady


class NotAuthenticated(BrokerError):
    """The client has not proved a role; the text never contains anything of its credentials."""

    code = pb.AuthenticationError


class CredentialsRefused(NotAuthenticated):
    """The credentials prove no role.  What clients are told does not help those who try."""

    def __init__(self, text: str = "Failed to authenticate", why: str = "") -> None:
        """`why` is for the operator; it has nothing of the credentials."""
        super().__init__(text)
        self.why = why


class RoleChanged(NotAuthenticated):
    """The renewed credentials prove another role."""


class NotAuthorized(BrokerError):
    """The client's role may not do this."""

    code = pb.AuthorizationError


class NotAllowed(BrokerError):
    code = pb.NotAllowedError


class PatternUnsupported(NotAllowed):
    """The pattern cannot be matched in linear time."""


class SchemaRefused(BrokerError):
    code = pb.IncompatibleSchema


class SchemaInvalid(SchemaRefused):
    """The schema is invalid for its type, or too large."""


class TransactionCoordinatorNotFound(BrokerError):
    """This process has no coordinator of that number: the client looks it up again."""

    code = pb.TransactionCoordinatorNotFound


class TransactionNotFound(BrokerError):
    """The coordinator does not know the transaction: it never was, or it has ended."""

    code = pb.TransactionNotFound


class InvalidTransactionStatus(BrokerError):
    """The transaction is past the state that the request needs."""

    code = pb.InvalidTxnStatus


class TransactionConflict(BrokerError):
    """The message is acknowledged already: by another transaction, or without one."""

    code = pb.TransactionConflict


class MetadataError(BrokerError):
    code = pb.MetadataError


class PersistenceError(BrokerError):
    code = pb.PersistenceError


class TooManyRequests(BrokerError):
    code = pb.TooManyRequests


class UnknownError(BrokerError):
    code = pb.UnknownError


# promise[without ProcessUnavailable]: the end of a process is a transient error
# promise[LogClosed, ProcessUnavailable -> ProcessUnavailable,]: the end of a topic is a transient
#   error
TRANSIENT = (LogClosed, ProcessUnavailable)
"""Storage errors that do not concern the stored data: clients have to retry."""


def as_refusal(error: BaseException) -> BrokerError | None:
    """Return the refusal to send for an error; None if the error is a defect of the broker."""
    if isinstance(error, BrokerError):
        return error
    if isinstance(error, InvalidTopicName):
        return InvalidName(str(error))
    if isinstance(error, TRANSIENT):
        return NotReady(str(error))
    if isinstance(error, DiskLow):
        return NoRoom(str(error))
    if isinstance(error, StorageError):
        return PersistenceError(str(error))
    return None
