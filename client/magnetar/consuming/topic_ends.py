"""The end of a topic and the position of a consumer, as a broker reports them."""

from typing import NamedTuple

from magnetar.connections.connection import Connection
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.ids import MessageId


class Ends(NamedTuple):
    """Two message ids of one partition: the topic's end, and the consumer's position."""

    last: MessageId
    """The id of the last message; (-1, -1) if the topic is empty."""
    mark: MessageId | None
    """The id up to which the consumer receives nothing more; None if it is not reported."""


async def ask_ends(connection: Connection, consumer_id: int, partition: int) -> Ends:
    """Ask the broker for the ends; the consumer must be registered on this connection."""
    reply = await connection.request(pb.CommandGetLastMessageId(consumer_id=consumer_id))
    last, mark = MessageId.from_pb(reply.last_message_id), None
    if reply.HasField("consumer_mark_delete_position"):
        mark = MessageId.from_pb(reply.consumer_mark_delete_position)
    return Ends(MessageId(last.ledger, last.entry, last.batch_index, partition), mark)
