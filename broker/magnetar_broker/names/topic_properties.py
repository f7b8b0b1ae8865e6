"""What users mark topics with; it is kept beside the properties that the broker needs itself."""

from collections.abc import Callable

from magnetar_broker.errors import InvalidName
from magnetar_broker.topic import EPOCH, Topic

Properties = dict[str, str]

INTERNAL = frozenset((EPOCH,))


def check_keys(properties: Properties) -> Properties:
    """These properties, unless a key is not for users."""
    for key in INTERNAL.intersection(properties):
        raise InvalidName(f"{key} is a property that the broker uses itself: use another key")
    return properties


def of_users(properties: Properties) -> Properties:
    """Without the broker's own."""
    return {key: value for key, value in properties.items() if key not in INTERNAL}


async def change_properties(topic: Topic, change: Callable[[Properties], Properties]) -> None:
    """Store what `change` makes of the users' properties; durable on return."""

    def changing(stored: Properties) -> Properties:
        own = {key: value for key, value in stored.items() if key in INTERNAL}
        return check_keys(change(of_users(stored))) | own

    await topic.log.change_properties(changing)
