"""Sharing of load among the workers of a broker."""

from magnetar_broker.config.domains import FLAG
from magnetar_broker.config.sections.section import section, setting
from magnetar_broker.config.values import Integer


@section("Load balancing")
class LoadBalancing:
    """Placement of bundles on the workers of a broker; without effect with a single process."""

    load_balancer_enabled: bool = setting(
        FLAG,
        "Measure the processor time of workers, and move bundles from busy to idle ones. If "
        "new bundles cannot be divided evenly, the workers that use the least get one more.",
        default=True,
    )
    load_balancer_shedding_enabled: bool = setting(
        FLAG,
        "Move bundles to balance the load. If false, the load only determines where new "
        "bundles go.",
        default=True,
        dynamic=True,
    )
    load_balancer_shedding_interval_minutes: int = setting(
        Integer(1),
        "The interval at which loads are compared. At most one bundle moves, if the same "
        "worker was the busiest in two intervals.",
        default=1,
        unit="min",
    )
    load_balancer_broker_threshold_shedder_percentage: int = setting(
        Integer(0, 100),
        "A bundle moves if the busiest worker exceeds the average of all workers by this part "
        "of a core.",
        default=10,
        unit="%",
        dynamic=True,
    )
    load_balancer_shedding_grace_period_minutes: int = setting(
        Integer(0),
        "How long a bundle that was moved to balance the load is not moved again.",
        default=30,
        unit="min",
        dynamic=True,
    )
