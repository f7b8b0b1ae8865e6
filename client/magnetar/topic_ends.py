"""What a broker knows of the ends of a topic, and of how far a consumer is."""

from typing import NamedTuple

from magnetar.connection import Connection
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.ids import MessageId


class Ends(NamedTuple):
    """Two ids of one partition."""

    last: MessageId
    """That of the last message; (-1, -1) if there is none."""
    mark: MessageId | None
    """That up to which the consumer gets nothing more; None if there is none, or it is not told."""


async def ask_ends(connection: Connection, consumer_id: int, partition: int) -> Ends:
    """Ask for them; the consumer must be registered on this connection."""
    reply = await connection.request(pb.CommandGetLastMessageId(consumer_id=consumer_id))
    last, mark = MessageId.from_pb(reply.last_message_id), None
    if reply.HasField("consumer_mark_delete_position"):
        mark = MessageId.from_pb(reply.consumer_mark_delete_position)
    return Ends(MessageId(last.ledger, last.entry, last.batch_index, partition), mark)
