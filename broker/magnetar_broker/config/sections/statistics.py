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
            "Metrics by topic. If false, by namespace.",
            dynamic=True,
        ),
    ] = True
