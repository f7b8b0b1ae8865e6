"""Sharing of load among the workers of a broker."""

from typing import Annotated

from magnetar_broker.config.domains import FLAG
from magnetar_broker.config.sections.section import section
from magnetar_broker.config.values import Integer, Key


@section
class LoadBalancing:
    """Placement of bundles on the workers of a broker; without effect with a single process."""

    load_balancer_enabled: Annotated[
        bool,
        Key(
            "loadBalancerEnabled",
            FLAG,
            "Measure the processor time of workers, and move bundles from busy to idle ones. If "
            "new bundles cannot be divided evenly, the workers that use the least get one more.",
        ),
    ] = True
    load_balancer_shedding_enabled: Annotated[
        bool,
        Key(
            "loadBalancerSheddingEnabled",
            FLAG,
            "Move bundles to balance the load. If false, the load only determines where new "
            "bundles go.",
            dynamic=True,
        ),
    ] = True
    load_balancer_shedding_interval_minutes: Annotated[
        int,
        Key(
            "loadBalancerSheddingIntervalMinutes",
            Integer(1),
            "The interval at which loads are compared. At most one bundle moves, if the same "
            "worker was the busiest in two intervals.",
            unit="min",
        ),
    ] = 1
    load_balancer_broker_threshold_shedder_percentage: Annotated[
        int,
        Key(
            "loadBalancerBrokerThresholdShedderPercentage",
            Integer(0, 100),
            "A bundle moves if the busiest worker exceeds the average of all workers by this part "
            "of a core.",
            unit="%",
            dynamic=True,
        ),
    ] = 10
    load_balancer_shedding_grace_period_minutes: Annotated[
        int,
        Key(
            "loadBalancerSheddingGracePeriodMinutes",
            Integer(0),
            "How long a bundle that was moved to balance the load is not moved again.",
            unit="min",
            dynamic=True,
        ),
    ] = 30
