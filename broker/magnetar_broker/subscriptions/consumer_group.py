"""The consumers connected to one subscription, and the rules for joining them."""

from collections.abc import Iterator

from magnetar_broker.base.errors import ConsumerBusy, ConsumerUnassigned, MetadataError
from magnetar_broker.dispatch.consumer import Consumer, SubscribeRequest
from magnetar_broker.dispatch.key_selection import KeySharedMeta
from magnetar_proto import PulsarApi_pb2 as pb

SubType = pb.CommandSubscribe.SubType
EXCLUSIVE = pb.CommandSubscribe.Exclusive


class ConsumerGroup:
    """All consumers of a subscription; they have one type."""

    def __init__(self, subscription: str, limit: int) -> None:
        self.limit = limit
        """The value of maxConsumersPerSubscription, 0 for none; lowering it disconnects nobody."""
        self._subscription = subscription
        self._members: list[Consumer] = []

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[Consumer]:
        return iter(list(self._members))

    async def admit(self, present_type: int, request: SubscribeRequest) -> None:
        """Wait until one more consumer may join; raise `ConsumerBusy` if none may."""
        wanted_type = request.type
        # The type belongs to the subscription, not to the consumer: it can change only while no
        # consumer is connected, for each type has a dispatcher of its own.
        if self._members and present_type != wanted_type:
            now = SubType.Name(SubType.ValueType(present_type))
            raise ConsumerBusy(
                f"subscription {self._subscription} has connected consumers of type {now}; "
                "close them first or subscribe with the same type"
            )
        while wanted_type == EXCLUSIVE and self._members:
            owner = self._members[0]
            # A client that lost its connection reconnects before we notice that the old
            # connection is dead: ask over that one before refusing the new one.
            if await owner.connection.is_alive():
                raise ConsumerBusy(
                    f"subscription {self._subscription} is Exclusive and has "
                    f"{owner.name or 'a consumer'} from {owner.connection.address}: close that "
                    "one first or use another subscription type"
                )
            owner.disconnect()  # if it is alive after all, it learns that it must reconnect
        # Check this after the loop: a dead predecessor that was just disconnected frees its place.
        if 0 < self.limit <= len(self._members):
            raise ConsumerBusy(
                f"subscription {self._subscription} has its {self.limit} consumers: close one, "
                "or raise maxConsumersPerSubscription"
            )

    def check_key_policy(self, wanted: KeySharedMeta) -> None:
        """Raise `ConsumerBusy` unless all present consumers have the same Key_Shared policy."""
        if any(member.key_shared.policy != wanted.policy for member in self._members):
            raise ConsumerBusy(
                f"subscription {self._subscription} has connected consumers with another "
                "Key_Shared policy; close them first or subscribe with the same policy"
            )

    async def take_over(self, competing: Consumer) -> None:
        """Disconnect a consumer to free its hash ranges; `ConsumerUnassigned` if it is alive."""
        if await competing.connection.is_alive():
            raise ConsumerUnassigned(
                f"{competing.name or 'a consumer'} from {competing.connection.address} has some "
                "of the hash ranges that this consumer asks for: close it or ask for others"
            )
        competing.disconnect()

    def add(self, consumer: Consumer) -> None:
        """Add an admitted consumer."""
        self._members.append(consumer)

    def remove(self, consumer: Consumer) -> None:
        """Remove a consumer that has left."""
        self._members.remove(consumer)

    def disconnect_others(self, consumer: Consumer, force: bool) -> None:
        """Disconnect all but one, for UNSUBSCRIBE; raise `MetadataError` without `force`."""
        others = [member for member in self._members if member is not consumer]
        if others and not force:
            raise MetadataError(
                f"subscription {self._subscription} has {len(others)} other consumers; "
                "close them or unsubscribe with force"
            )
        for other in others:
            other.disconnect()

    def disconnect(self, new_owner: str = "") -> None:
        """Disconnect all consumers; their clients reconnect, to `new_owner` if it is set."""
        for consumer in self:
            consumer.disconnect(new_owner)
