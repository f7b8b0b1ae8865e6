"""The errors that the client raises.

MagnetarError
├── Closed                   the client, producer, consumer or reader was closed
├── OperationTimeout         no answer in time, also a TimeoutError; the outcome is unknown
├── ConnectionLost           the connection failed; retried until the operation times out
├── TlsFailed                a certificate is not trusted, or one side alone speaks TLS
├── WrongProtocol            what answers at the address is not a broker, or its HTTP port
├── Insecure                 a broker led from an address with TLS to one without
├── CredentialsError         the token or key cannot be had; nothing was sent
│   └── CredentialsUnavailable   the issuer does not answer: retried
├── QueueFull                the producer has as many pending messages as its options allow
├── MessageTooLarge          nothing was sent; send less, or raise the broker's limit
├── EncryptionFailed         no public key to encrypt with can be had; nothing was sent
├── Damaged                  the broker cannot read stored messages: their bytes are damaged
├── Unreadable               an entry arrived that cannot be decoded; `message_id` names it
│   ├── DecryptionFailed     no private key for it is there, or it is damaged
│   └── Undecodable          a value does not fit its schema; raised by `message.value`
└── BrokerError              the broker refused; `code` is the number on the wire
    ├── NotReady             the topic is moving or loading: retried
    ├── Busy                 another producer or consumer holds the name or subscription
    ├── NotFound             no such topic, subscription or namespace
    ├── Denied               one of:
    │   ├── NotAuthenticated     the broker does not accept the credentials
    │   └── NotAuthorized        the role of these credentials lacks this right
    ├── NotAllowed           the broker's configuration or policies forbid it
    ├── InvalidName          the broker does not accept this name
    ├── IncompatibleSchema   the topic's schema does not allow this one
    ├── QuotaExceeded        the backlog quota of the topic is used up
    ├── TopicTerminated      the topic accepts no more messages, ever
    ├── ProducerFenced       another producer took the topic over
    ├── TransactionConflict  a message is acknowledged already, or in another transaction
    └── TransactionOver      the transaction was ended, or has timed out
"""

import re
from typing import ClassVar

from magnetar.base.base_errors import CredentialsError as CredentialsError  # noqa: PLC0414 (for importers)
from magnetar.base.base_errors import CredentialsUnavailable as CredentialsUnavailable  # noqa: PLC0414 (for importers)
from magnetar.base.base_errors import MagnetarError as MagnetarError  # noqa: PLC0414 (for importers)
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.ids import MessageId

REMEDY = re.compile(
    r"[:;] (add|allow|change|check|choose|close|consume|create|delete|grant|lower|raise|receive|"
    r"restart|retry|send|set|start|stop|try|use|wait)\b"
)
"""Matches a refusal in which the broker gives a remedy."""


class Closed(MagnetarError):
    """The object was closed, by its owner or by the error in the text: open a new one."""


class OperationTimeout(MagnetarError, TimeoutError):
    """No answer arrived in time; whether the broker acted is unknown."""

    retriable = True


class ConnectionLost(MagnetarError):
    """The connection could not be established, or it broke."""

    retriable = True


class TlsFailed(MagnetarError):
    """TLS with the broker failed: a certificate is not trusted, or one side requires more."""


class WrongProtocol(MagnetarError):
    """The server at the address does not speak the protocol of brokers: correct the address."""


class Insecure(MagnetarError):
    """The broker named an address without TLS for a client of pulsar+ssl://."""


class QueueFull(MagnetarError):
    """The queue of `send_nowait` is full: await `send`, which waits for room, or `flush`."""


class MessageTooLarge(MagnetarError):
    """The message is larger than the broker accepts; nothing was sent."""


class EncryptionFailed(MagnetarError):
    """A producer has no data key: correct its key reader, or the names of its keys."""


class Damaged(MagnetarError):
    """The broker cannot read the next stored entries: their bytes on disk are damaged.

    `receive` and `read` raise it once everything before these entries was taken.  Entries after
    them are not delivered until they are set aside or their file is restored.  A consumer that
    shares its subscription gets those after them, and then this error, once.
    """

    def __init__(
        self,
        topic: str,
        message_id: MessageId,
        entries: int,
        why: str,
        stops_delivery: bool = True,
    ) -> None:
        ledger, entry, *_ = message_id
        last = f" to {ledger}:{entry + entries - 1}" if entries > 1 else ""
        stops = ", and delivers nothing after it" if stops_delivery else ""
        super().__init__(
            f"the broker cannot read {ledger}:{entry}{last} of {topic}{stops}: {why}; put its file "
            f"back from a copy, or go on without these messages after "
            f"magnetar admin topics skip-damaged {topic}"
        )
        self.topic = topic
        self.message_id = message_id
        """The id of the first damaged entry."""
        self.entries = entries
        """The number of consecutive entries, including the first."""


class Unreadable(MagnetarError):
    """An entry is damaged, encrypted, chunked or compressed in an unknown way.

    `receive` and `read` raise it once, in the entry's place; the next call continues after it.
    The option `on_unreadable` of consumers and readers skips such entries instead.
    """

    def __init__(self, text: str, message_id: MessageId) -> None:
        super().__init__(text)
        self.message_id = message_id


class DecryptionFailed(Unreadable):
    """An entry is encrypted, and this client has no key for it.

    The option `on_undecryptable` of consumers and readers is the action for such entries.
    """


class Undecodable(Unreadable):
    """The value of a message does not fit the schema; raised by `message.value`.

    The message can be acknowledged; its bytes are in `data`.
    """

    def __init__(self, text: str, message_id: MessageId, schema_version: bytes) -> None:
        super().__init__(text, message_id)
        self.schema_version = schema_version


class BrokerError(MagnetarError):
    """The broker refused; the text is the broker's own, plus a remedy if it names none."""

    remedy: ClassVar[str] = ""

    def __init__(self, code: int, text: str) -> None:
        name = pb.ServerError.Name(code) if code in pb.ServerError.values() else f"error {code}"
        has_remedy = not self.remedy or REMEDY.search(text)
        remedy = "" if has_remedy else f" ({self.remedy})"
        super().__init__(f"{name}: {text}{remedy}")
        self.code = code


class NotReady(BrokerError):
    """The topic is not available at the moment."""

    retriable = True
    remedy = "the client retries this; if it lasts, look at the broker's log"


class Busy(BrokerError):
    """Another producer or consumer holds the name, topic or subscription."""

    remedy = "choose another name, a shared subscription type, or close the other one"


class NotFound(BrokerError):
    """The topic or subscription does not exist, and the broker does not create it."""

    remedy = "create it first, or allow automatic creation in the broker's configuration"


class Denied(BrokerError):
    """The credentials are missing, wrong or lack this right."""

    remedy = "check the credentials, and the permissions of the namespace"


class NotAuthenticated(Denied):
    """The broker does not accept the credentials, or requires some; not retried with the same."""

    remedy = "check the credentials (auth), and that the token has not expired"


class NotAuthorized(Denied):
    """The role of the client lacks a permission."""

    remedy = "grant the role the permission, or use other credentials"


class NotAllowed(BrokerError):
    """The configuration or a policy forbids the operation."""


class InvalidName(BrokerError):
    """The topic name is invalid."""

    remedy = "names look like persistent://tenant/namespace/topic"


class IncompatibleSchema(BrokerError):
    """The schema does not fit the topic's schema."""

    remedy = "use the topic's schema or a compatible one, or another topic"


class QuotaExceeded(BrokerError):
    """The backlog quota is exceeded."""

    remedy = "consume or drop the backlog, or raise the quota"


class TopicTerminated(BrokerError):
    """The topic was terminated; it can be read, but not written."""


class ProducerFenced(BrokerError):
    """An exclusive producer has taken over the topic."""


class TransactionConflict(BrokerError):
    """A message is already acknowledged, perhaps in another transaction."""

    remedy = "the transaction is aborted: receive again, and process in a new one"


class TransactionOver(BrokerError):
    """The broker no longer has the transaction, or is ending it."""

    remedy = "it has probably timed out, and is then aborted: repeat it, with a longer timeout_s"


_BY_CODE: dict[int, type[BrokerError]] = {
    pb.ServiceNotReady: NotReady,
    pb.TooManyRequests: NotReady,
    pb.MetadataError: NotReady,
    pb.PersistenceError: NotReady,
    pb.ConsumerBusy: Busy,
    pb.ProducerBusy: Busy,
    pb.TopicNotFound: NotFound,
    pb.SubscriptionNotFound: NotFound,
    pb.ConsumerNotFound: NotFound,
    pb.AuthenticationError: NotAuthenticated,
    pb.AuthorizationError: NotAuthorized,
    pb.NotAllowedError: NotAllowed,
    pb.ConsumerAssignError: NotAllowed,
    pb.UnsupportedVersionError: NotAllowed,
    pb.InvalidTopicName: InvalidName,
    pb.IncompatibleSchema: IncompatibleSchema,
    pb.ProducerBlockedQuotaExceededError: QuotaExceeded,
    pb.ProducerBlockedQuotaExceededException: QuotaExceeded,
    pb.TopicTerminatedError: TopicTerminated,
    pb.ProducerFenced: ProducerFenced,
    pb.TransactionCoordinatorNotFound: NotReady,
    pb.TransactionConflict: TransactionConflict,
    pb.TransactionNotFound: TransactionOver,
    pb.InvalidTxnStatus: TransactionOver,
}


def broker_error(code: int, text: str) -> BrokerError:
    """Return the exception for an error code of the protocol."""
    return _BY_CODE.get(code, BrokerError)(code, text)
