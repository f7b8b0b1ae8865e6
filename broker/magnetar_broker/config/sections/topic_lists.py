"""Lists of topics, patterns and watchers."""

from typing import Annotated

from magnetar_broker.config.domains import COUNT, FLAG
from magnetar_broker.config.sections.section import section
from magnetar_broker.config.values import Integer, Key


@section
class TopicLists:
    """For clients that subscribe to patterns of names."""

    enable_broker_side_subscription_pattern_evaluation: Annotated[
        bool,
        Key(
            "enableBrokerSideSubscriptionPatternEvaluation",
            FLAG,
            "List only the topics of a client's pattern; else clients choose from all.",
        ),
    ] = True
    subscription_pattern_max_length: Annotated[
        int,
        Key(
            "subscriptionPatternMaxLength",
            Integer(0),
            "Characters of such a pattern; longer ones are left to clients.",
        ),
    ] = 50
    enable_broker_topic_list_watcher: Annotated[
        bool,
        Key(
            "enableBrokerTopicListWatcher",
            FLAG,
            "Tell clients that can listen of topics that come and go; else they ask every minute.",
        ),
    ] = True
    magnetar_max_topic_watchers_per_connection: Annotated[
        int,
        Key(
            "magnetarMaxTopicWatchersPerConnection",
            COUNT,
            "Patterns that one connection may watch; 0 is no limit.",
        ),
    ] = 1000
