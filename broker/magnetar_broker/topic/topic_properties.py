"""The properties that users set on topics, stored beside those that the broker needs itself."""

from collections.abc import Callable

from magnetar_broker.base.errors import InvalidName
from magnetar_broker.publishing.admission import EPOCH
from magnetar_broker.topic.topic import Topic

Properties = dict[str, str]

INTERNAL = frozenset((EPOCH,))


def check_keys(properties: Properties) -> Properties:
    """The properties; `InvalidName` if a key is the broker's own."""
    for key in INTERNAL.intersection(properties):
        raise InvalidName(f"{key} is a property that the broker uses itself: use another key")
    return properties


def of_users(properties: Properties) -> Properties:
    """The properties without the broker's own."""
    return {key: value for key, value in properties.items() if key not in INTERNAL}


async def change_properties(topic: Topic, change: Callable[[Properties], Properties]) -> None:
    """Store what `change` makes of the users' properties; durable on return."""

    def changing(stored: Properties) -> Properties:
        own = {key: value for key, value in stored.items() if key in INTERNAL}
        return check_keys(change(of_users(stored))) | own

    await topic.log.stored.change_properties(changing)
