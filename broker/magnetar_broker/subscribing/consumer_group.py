"""The consumers connected to one subscription, and who may join them."""

from collections.abc import Iterator

from magnetar_broker.dispatch.key_selection import KeySharedMeta
from magnetar_broker.errors import ConsumerBusy, ConsumerUnassigned, MetadataTrouble
from magnetar_broker.subscribing.consumer import Consumer, SubscribeRequest
from magnetar_proto import PulsarApi_pb2 as pb

SubType = pb.CommandSubscribe.SubType
EXCLUSIVE = pb.CommandSubscribe.Exclusive


class ConsumerGroup:
    """All of one type."""

    def __init__(self, subscription: str, limit: int) -> None:
        self.limit = limit
        """How many there may be; 0 is no limit.  Those that are there may stay."""
        self._subscription = subscription
        self._members: list[Consumer] = []

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[Consumer]:
        return iter(list(self._members))

    async def admit(self, present_type: int, request: SubscribeRequest) -> None:
        """Make sure that one more consumer may join, else `ConsumerBusy`."""
        wanted_type = request.type
        if self._members and present_type != wanted_type:
            now = SubType.Name(SubType.ValueType(present_type))
            raise ConsumerBusy(
                f"subscription {self._subscription} has connected consumers of type {now}; "
                "close them first or subscribe with the same type"
            )
        while wanted_type == EXCLUSIVE and self._members:
            holder = self._members[0]
            if await holder.connection.is_alive():
                raise ConsumerBusy(
                    f"subscription {self._subscription} is Exclusive and "
                    f"{holder.name or 'a consumer'} from {holder.connection.address} holds it"
                )
            holder.disconnect()  # should it be there after all, it learns to come back
        if 0 < self.limit <= len(self._members):
            raise ConsumerBusy(
                f"subscription {self._subscription} has its {self.limit} consumers: close one, "
                "or raise maxConsumersPerSubscription"
            )

    def check_key_policy(self, wanted: KeySharedMeta) -> None:
        """`ConsumerBusy` unless the keys are divided as the present consumers want it."""
        if any(member.key_shared.policy != wanted.policy for member in self._members):
            raise ConsumerBusy(
                f"subscription {self._subscription} has connected consumers with another "
                "Key_Shared policy; close them first or subscribe with the same policy"
            )

    async def oust(self, rival: Consumer) -> None:
        """Send a consumer away whose hash ranges another one wants; not if it answers."""
        if await rival.connection.is_alive():
            raise ConsumerUnassigned(
                f"{rival.name or 'a consumer'} from {rival.connection.address} has some of the "
                "hash ranges that this consumer wants"
            )
        rival.disconnect()

    def add(self, consumer: Consumer) -> None:
        """An admitted consumer joins."""
        self._members.append(consumer)

    def remove(self, consumer: Consumer) -> None:
        """A consumer left."""
        self._members.remove(consumer)

    def disconnect_others(self, consumer: Consumer, force: bool) -> None:
        """Leave only one, as UNSUBSCRIBE asks; `MetadataTrouble` if `force` is lacking for it."""
        others = [member for member in self._members if member is not consumer]
        if others and not force:
            raise MetadataTrouble(
                f"subscription {self._subscription} has {len(others)} other consumers; "
                "close them or unsubscribe with force"
            )
        for other in others:
            other.disconnect()

    def disconnect(self) -> None:
        """Send all of them away; they come back."""
        for consumer in self:
            consumer.disconnect()
