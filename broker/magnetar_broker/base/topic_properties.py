"""The keys of topic properties: those that users set, and those that the broker needs itself."""

from magnetar_broker.base.errors import InvalidName

Properties = dict[str, str]

EPOCH = "topicEpoch"
"""The property that holds the topic's epoch, which identifies its exclusive producer."""
INTERNAL = frozenset((EPOCH,))


def check_keys(properties: Properties) -> Properties:
    """Return the properties; `InvalidName` if a key is the broker's own."""
    for key in INTERNAL.intersection(properties):
        raise InvalidName(f"{key} is a property that the broker uses itself: use another key")
    return properties


def of_users(properties: Properties) -> Properties:
    """Return the properties without the broker's own."""
    return {key: value for key, value in properties.items() if key not in INTERNAL}
