"""Changes of the properties that users set on topics."""

from collections.abc import Callable

from magnetar_broker.base.topic_properties import INTERNAL, Properties, check_keys, of_users
from magnetar_broker.topic.topic import Topic


async def change_properties(topic: Topic, change: Callable[[Properties], Properties]) -> None:
    """Replace the users' properties by what `change` returns for them; durable on return."""

    def changing(stored: Properties) -> Properties:
        own = {key: value for key, value in stored.items() if key in INTERNAL}
        return check_keys(change(of_users(stored))) | own

    await topic.log.stored_record.change_properties(changing)
