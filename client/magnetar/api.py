"""The public names of `import magnetar`, and `connect`, which creates a client."""

from ssl import SSLContext
from typing import Any

from magnetar import auth, schema
from magnetar.base.errors import (
    BrokerError,
    Busy,
    Closed,
    ConnectionLost,
    CredentialsError,
    CredentialsUnavailable,
    Damaged,
    DecryptionFailed,
    Denied,
    EncryptionFailed,
    IncompatibleSchema,
    Insecure,
    InvalidName,
    MagnetarError,
    MessageTooLarge,
    NotAllowed,
    NotAuthenticated,
    NotAuthorized,
    NotFound,
    NotReady,
    OperationTimeout,
    ProducerFenced,
    QueueFull,
    QuotaExceeded,
    TlsFailed,
    TopicTerminated,
    TransactionConflict,
    TransactionOver,
    Undecodable,
    Unreadable,
    WrongProtocol,
)
from magnetar.base.settings import Settings
from magnetar.base.statistics import ConsumerStatistics, ProducerStatistics
from magnetar.client import Client
from magnetar.consumer import Consumer
from magnetar.consuming.due_entries import RedeliveryBackoff
from magnetar.consuming.interceptors import ConsumerInterceptor
from magnetar.consuming.options import DeadLetterPolicy, KeyShared, Subscription
from magnetar.encryption.keys import Key, KeyReader
from magnetar.messages import Entry, Message, Outgoing
from magnetar.producer import Producer
from magnetar.producing.batching import BatchLimits
from magnetar.producing.interceptors import ProducerInterceptor
from magnetar.producing.options import ProducerOptions
from magnetar.producing.receipts import Receipt
from magnetar.reader import EntryReader, Reader
from magnetar.security.authentication import Authentication
from magnetar.security.security import security_of
from magnetar.security.tls import Tls
from magnetar.table_view import TableView
from magnetar.transactions.transaction import Transaction
from magnetar_proto.ids import EARLIEST, LATEST, MessageId

__all__ = [
    "EARLIEST",
    "LATEST",
    "BatchLimits",
    "BrokerError",
    "Busy",
    "Client",
    "Closed",
    "ConnectionLost",
    "Consumer",
    "ConsumerInterceptor",
    "ConsumerStatistics",
    "CredentialsError",
    "CredentialsUnavailable",
    "Damaged",
    "DeadLetterPolicy",
    "DecryptionFailed",
    "Denied",
    "EncryptionFailed",
    "Entry",
    "EntryReader",
    "IncompatibleSchema",
    "Insecure",
    "InvalidName",
    "Key",
    "KeyReader",
    "KeyShared",
    "MagnetarError",
    "Message",
    "MessageId",
    "MessageTooLarge",
    "NotAllowed",
    "NotAuthenticated",
    "NotAuthorized",
    "NotFound",
    "NotReady",
    "OperationTimeout",
    "Outgoing",
    "Producer",
    "ProducerFenced",
    "ProducerInterceptor",
    "ProducerOptions",
    "ProducerStatistics",
    "QueueFull",
    "QuotaExceeded",
    "Reader",
    "Receipt",
    "RedeliveryBackoff",
    "Settings",
    "Subscription",
    "TableView",
    "Tls",
    "TlsFailed",
    "TopicTerminated",
    "Transaction",
    "TransactionConflict",
    "TransactionOver",
    "Undecodable",
    "Unreadable",
    "WrongProtocol",
    "auth",
    "connect",
    "schema",
]


def connect(
    service_url: str,
    *,
    auth: Authentication | None = None,
    tls: Tls | SSLContext | None = None,
    **settings: Any,
) -> Client:
    """Create a client for `pulsar://host:port` or `pulsar+ssl://host:port`.

    It connects when a connection is first needed.  `auth` is one of `magnetar.auth`; `tls` names
    the authorities to trust for pulsar+ssl://, by default those of the system.  `settings` are
    fields of Settings: timeouts, pauses and the listener's name.  Use it as
    `async with connect(...)`.
    """
    return Client(
        service_url,
        Settings(**settings),
        security_of(service_url, auth, tls),
    )
