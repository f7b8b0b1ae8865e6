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
            "Metrics by topic and subscription. If false, by namespace.",
            dynamic=True,
        ),
    ] = True
    expose_consumer_level_metrics_in_prometheus: Annotated[
        bool,
        Key(
            "exposeConsumerLevelMetricsInPrometheus",
            FLAG,
            "Also metrics of each consumer, where there are metrics by topic.",
        ),
    ] = False
    expose_producer_level_metrics_in_prometheus: Annotated[
        bool,
        Key(
            "exposeProducerLevelMetricsInPrometheus",
            FLAG,
            "Also metrics of each producer, where there are metrics by topic.",
        ),
    ] = False
    split_topic_and_partition_label_in_prometheus: Annotated[
        bool,
        Key(
            "splitTopicAndPartitionLabelInPrometheus",
            FLAG,
            "In the label `topic` the name of the partitioned topic, and in the label `partition` "
            "the number of the partition; -1 for a topic without partitions.",
        ),
    ] = False
    magnetar_max_metric_series: Annotated[
        int,
        Key(
            "magnetarMaxMetricSeries",
            Integer(0),
            "About how many series of topics, subscriptions, producers and consumers the page for "
            "Prometheus has at most; 0 is no limit. Topics beyond it are added up for each "
            'namespace, with the label `topic="other"`. Several workers share it.',
        ),
    ] = 50_000
