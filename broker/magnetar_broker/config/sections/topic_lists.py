"""Lists of topics, patterns and watchers."""

from magnetar_broker.config.domains import COUNT, FLAG
from magnetar_broker.config.sections.section import section, setting
from magnetar_broker.config.values import Integer


@section("Topic lists and patterns")
class TopicLists:
    """Settings for clients that subscribe to patterns of names."""

    enable_broker_side_subscription_pattern_evaluation: bool = setting(
        FLAG,
        "Match the patterns of clients in the broker. If false, clients get all names.",
        default=True,
        dynamic=True,
    )
    subscription_pattern_max_length: int = setting(
        Integer(0),
        "Longest pattern that the broker matches; longer ones are matched by clients.",
        default=50,
        dynamic=True,
    )
    enable_broker_topic_list_watcher: bool = setting(
        FLAG,
        "Notify clients with a pattern of created and deleted topics. If false, they poll.",
        default=True,
        of_workers=True,
    )
    magnetar_max_topic_watchers_per_connection: int = setting(
        COUNT,
        "Maximum number of patterns that a connection watches; 0 means no limit.",
        default=1000,
        dynamic=True,
    )
