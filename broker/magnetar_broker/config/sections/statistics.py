"""Settings of statistics and metrics."""

from magnetar_broker.config.domains import FLAG
from magnetar_broker.config.sections.section import section, setting
from magnetar_broker.config.values import Integer


@section("Statistics")
class Statistics:
    """Rates and metrics."""

    stats_update_frequency_in_secs: int = setting(
        Integer(1),
        "The window over which rates are measured.",
        default=60,
        unit="s",
        of_workers=True,
    )
    expose_topic_level_metrics_in_prometheus: bool = setting(
        FLAG,
        "Show metrics by topic and subscription. If false, by namespace.",
        default=True,
        dynamic=True,
    )
    expose_consumer_level_metrics_in_prometheus: bool = setting(
        FLAG,
        "Also show metrics of each consumer, if there are metrics by topic.",
        default=False,
    )
    expose_producer_level_metrics_in_prometheus: bool = setting(
        FLAG,
        "Also show metrics of each producer, if there are metrics by topic.",
        default=False,
    )
    split_topic_and_partition_label_in_prometheus: bool = setting(
        FLAG,
        "Show the name of the partitioned topic in the label `topic`, and the number of the "
        "partition in the label `partition`; -1 for a topic without partitions.",
        default=False,
    )
    magnetar_max_metric_series: int = setting(
        Integer(0),
        "Approximate maximum number of series of topics, subscriptions, producers and "
        "consumers in the page for Prometheus; 0 means no limit. Topics beyond it are added up "
        'for each namespace, with the label `topic="other"`. Divided among several workers.',
        default=50_000,
    )
