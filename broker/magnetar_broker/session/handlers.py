"""The table of commands.  A command that it lacks ends the connection.

SEND, ACK and FLOW are absent: the session's receive loop handles them.
"""

from collections.abc import Mapping
from typing import Final

from magnetar_broker.session.connecting import on_auth_response, on_connect, on_ping, on_pong
from magnetar_broker.session.consumers import (
    on_close_consumer,
    on_consumer_stats,
    on_last_message_id,
    on_redeliver,
    on_seek,
    on_subscribe,
    on_unsubscribe,
)
from magnetar_broker.session.lookups import (
    on_lookup,
    on_partitioned_metadata,
)
from magnetar_broker.session.producers import on_close_producer, on_producer
from magnetar_broker.session.schemas import on_get_or_create_schema, on_get_schema
from magnetar_broker.session.session import Handler
from magnetar_broker.session.topic_lists import (
    on_topics_of_namespace,
    on_watch_topics,
    on_watch_topics_close,
)
from magnetar_broker.session.transaction_commands import (
    on_add_partitions,
    on_add_subscriptions,
    on_connect_coordinator,
    on_end_transaction,
    on_new_transaction,
)
from magnetar_broker.session.transaction_ends import on_end_on_partition, on_end_on_subscription
from magnetar_proto import PulsarApi_pb2 as pb

Command = pb.BaseCommand

HANDLERS: Final[Mapping[int, Handler]] = {
    Command.CONNECT: on_connect,
    Command.AUTH_RESPONSE: on_auth_response,
    Command.PING: on_ping,
    Command.PONG: on_pong,
    Command.PARTITIONED_METADATA: on_partitioned_metadata,
    Command.LOOKUP: on_lookup,
    Command.GET_TOPICS_OF_NAMESPACE: on_topics_of_namespace,
    Command.PRODUCER: on_producer,
    Command.CLOSE_PRODUCER: on_close_producer,
    Command.SUBSCRIBE: on_subscribe,
    Command.REDELIVER_UNACKNOWLEDGED_MESSAGES: on_redeliver,
    Command.SEEK: on_seek,
    Command.UNSUBSCRIBE: on_unsubscribe,
    Command.GET_LAST_MESSAGE_ID: on_last_message_id,
    Command.CONSUMER_STATS: on_consumer_stats,
    Command.CLOSE_CONSUMER: on_close_consumer,
    Command.GET_SCHEMA: on_get_schema,
    Command.GET_OR_CREATE_SCHEMA: on_get_or_create_schema,
    Command.WATCH_TOPIC_LIST: on_watch_topics,
    Command.WATCH_TOPIC_LIST_CLOSE: on_watch_topics_close,
    Command.TC_CLIENT_CONNECT_REQUEST: on_connect_coordinator,
    Command.NEW_TXN: on_new_transaction,
    Command.ADD_PARTITION_TO_TXN: on_add_partitions,
    Command.ADD_SUBSCRIPTION_TO_TXN: on_add_subscriptions,
    Command.END_TXN: on_end_transaction,
    Command.END_TXN_ON_PARTITION: on_end_on_partition,
    Command.END_TXN_ON_SUBSCRIPTION: on_end_on_subscription,
}
