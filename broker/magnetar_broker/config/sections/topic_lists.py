"""Lists of topics, patterns and watchers."""

from typing import Annotated

from magnetar_broker.config.domains import COUNT, FLAG
from magnetar_broker.config.sections.section import section
from magnetar_broker.config.values import Integer, Key


@section
class TopicLists:
    """Settings for clients that subscribe to patterns of names."""

    enable_broker_side_subscription_pattern_evaluation: Annotated[
        bool,
        Key(
            "enableBrokerSideSubscriptionPatternEvaluation",
            FLAG,
            "Match the patterns of clients in the broker. If false, clients get all names.",
            dynamic=True,
        ),
    ] = True
    subscription_pattern_max_length: Annotated[
        int,
        Key(
            "subscriptionPatternMaxLength",
            Integer(0),
            "Longest pattern that the broker matches; longer ones are matched by clients.",
            dynamic=True,
        ),
    ] = 50
    enable_broker_topic_list_watcher: Annotated[
        bool,
        Key(
            "enableBrokerTopicListWatcher",
            FLAG,
            "Notify clients with a pattern of created and deleted topics. If false, they poll.",
            of_workers=True,
        ),
    ] = True
    magnetar_max_topic_watchers_per_connection: Annotated[
        int,
        Key(
            "magnetarMaxTopicWatchersPerConnection",
            COUNT,
            "Maximum number of patterns that a connection watches; 0 means no limit.",
            dynamic=True,
        ),
    ] = 1000
