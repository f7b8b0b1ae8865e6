"""Statistics."""

from typing import Annotated

from magnetar_broker.config.domains import FLAG
from magnetar_broker.config.sections.section import section
from magnetar_broker.config.values import Integer, Key


@section
class Statistics:
    """Rates and metrics."""

    stats_update_frequency_in_secs: Annotated[
        int,
        Key(
            "statsUpdateFrequencyInSecs",
            Integer(1),
            "The window over which rates are measured.",
            unit="s",
            of_workers=True,
        ),
    ] = 60
    expose_topic_level_metrics_in_prometheus: Annotated[
        bool,
        Key(
            "exposeTopicLevelMetricsInPrometheus",
            FLAG,
            "Show metrics by topic and subscription. If false, by namespace.",
            dynamic=True,
        ),
    ] = True
    expose_consumer_level_metrics_in_prometheus: Annotated[
        bool,
        Key(
            "exposeConsumerLevelMetricsInPrometheus",
            FLAG,
            "Also show metrics of each consumer, if there are metrics by topic.",
        ),
    ] = False
    expose_producer_level_metrics_in_prometheus: Annotated[
        bool,
        Key(
            "exposeProducerLevelMetricsInPrometheus",
            FLAG,
            "Also show metrics of each producer, if there are metrics by topic.",
        ),
    ] = False
    split_topic_and_partition_label_in_prometheus: Annotated[
        bool,
        Key(
            "splitTopicAndPartitionLabelInPrometheus",
            FLAG,
            "Show the name of the partitioned topic in the label `topic`, and the number of the "
            "partition in the label `partition`; -1 for a topic without partitions.",
        ),
    ] = False
    magnetar_max_metric_series: Annotated[
        int,
        Key(
            "magnetarMaxMetricSeries",
            Integer(0),
            "Approximate maximum number of series of topics, subscriptions, producers and "
            "consumers in the page for Prometheus; 0 means no limit. Topics beyond it are added up "
            'for each namespace, with the label `topic="other"`. Divided among several workers.',
        ),
    ] = 50_000
