"""The public names of `import magnetar`."""

from magnetar import auth, schema
from magnetar.batching import BatchLimits
from magnetar.client import Client
from magnetar.connecting import connect
from magnetar.consumer import Consumer
from magnetar.encryption.keys import Key, KeyReader
from magnetar.errors import (
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
from magnetar.interceptors import ConsumerInterceptor, ProducerInterceptor
from magnetar.messages import Entry, Message, Outgoing
from magnetar.producer import Producer
from magnetar.producer_options import ProducerOptions
from magnetar.reader import EntryReader, Reader
from magnetar.receipts import Receipt
from magnetar.redelivery import RedeliveryBackoff
from magnetar.settings import Settings
from magnetar.statistics import ConsumerStatistics, ProducerStatistics
from magnetar.subscription import DeadLetterPolicy, KeyShared, Subscription
from magnetar.table_view import TableView
from magnetar.tls import Tls
from magnetar.transaction import Transaction
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
