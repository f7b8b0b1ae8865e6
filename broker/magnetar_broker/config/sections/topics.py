"""Topics, namespaces and their partitions."""

from typing import Literal

from magnetar_broker.config.domains import COUNT, FLAG, NAMESPACE, TopicType
from magnetar_broker.config.sections.section import section, setting
from magnetar_broker.config.values import Choice, Integer, IntegerOrAuto, Texts


@section("Topics and namespaces")
class Topics:
    """Kinds of topics, automatic creation, and limits."""

    enable_persistent_topics: bool = setting(
        FLAG,
        "Serve persistent topics.",
        default=True,
        dynamic=True,
    )
    enable_non_persistent_topics: bool = setting(
        FLAG,
        "Serve non-persistent topics.",
        default=True,
        dynamic=True,
    )
    allow_auto_topic_creation: bool = setting(
        FLAG,
        "Producers and consumers create their topic if it does not exist.",
        default=True,
        dynamic=True,
    )
    allow_auto_namespace_creation: bool = setting(
        FLAG,
        "Producers, consumers and lookups create their namespace and tenant if they do not "
        "exist. If false they are refused with TopicNotFound.",
        default=False,
        name="magnetarAllowAutoNamespaceCreation",
    )
    allow_auto_topic_creation_type: TopicType = setting(
        Choice(TopicType),
        "The type of topics that are created by use.",
        default=TopicType.NON_PARTITIONED,
        dynamic=True,
    )
    default_num_partitions: int = setting(
        Integer(1),
        "Partitions of a partitioned topic created by use.",
        default=1,
        dynamic=True,
    )
    max_num_partitions_per_partitioned_topic: int = setting(
        Integer(0, 10_000),
        "Maximum number of partitions of one topic; 0 is 10000, the largest possible.",
        default=0,
        dynamic=True,
    )
    max_topics_per_namespace: int = setting(
        COUNT,
        "Maximum number of topics of a namespace; 0 means no limit.",
        default=0,
        dynamic=True,
    )
    max_tenants: int = setting(
        COUNT,
        "Maximum number of tenants; 0 means no limit.",
        default=0,
        dynamic=True,
    )
    max_namespaces_per_tenant: int = setting(
        COUNT,
        "Maximum number of namespaces of a tenant; 0 means no limit.",
        default=0,
        dynamic=True,
    )
    force_delete_tenant_allowed: bool = setting(
        FLAG,
        "Allow tenants to be deleted with their namespaces.",
        default=False,
        dynamic=True,
    )
    force_delete_namespace_allowed: bool = setting(
        FLAG,
        "Allow namespaces to be deleted with their topics.",
        default=False,
        dynamic=True,
    )
    broker_delete_inactive_partitioned_topic_metadata_enabled: bool = setting(
        FLAG,
        "Delete a partitioned topic when the last of its partitions is deleted as inactive.",
        default=False,
    )
    default_number_of_namespace_bundles: int | Literal["auto"] = setting(
        IntegerOrAuto(Integer(1, 128)),
        "Number of bundles of a new namespace, the parts that workers own and that can be "
        "moved between them. auto is 4 for one worker, and for several the power of two that "
        "gives each at least 4.",
        default="auto",
        pulsar="4",
    )
    bootstrap_namespaces: tuple[str, ...] = setting(
        Texts(NAMESPACE),
        "Namespaces that are created at the start if they do not exist.",
        default=(),
    )
    max_concurrent_lookup_request: int = setting(
        Integer(1),
        "Maximum number of concurrent lookups, for each worker if there are several; others "
        "are answered with TooManyRequests.",
        default=50000,
    )
    max_concurrent_topic_load_request: int = setting(
        COUNT,
        "Maximum number of topics that are opened concurrently; others wait. 0 means no limit.",
        default=5000,
    )
