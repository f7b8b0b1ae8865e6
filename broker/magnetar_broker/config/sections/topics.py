"""Topics, namespaces and their partitions."""

from typing import Annotated, Literal

from magnetar_broker.config.domains import COUNT, FLAG, NAMESPACE, TopicType
from magnetar_broker.config.sections.section import section
from magnetar_broker.config.values import Choice, Integer, IntegerOrAuto, Key, Texts


@section
class Topics:
    """Kinds of topics, automatic creation, and limits."""

    enable_persistent_topics: Annotated[
        bool, Key("enablePersistentTopics", FLAG, "Serve persistent topics.", dynamic=True)
    ] = True
    enable_non_persistent_topics: Annotated[
        bool, Key("enableNonPersistentTopics", FLAG, "Serve non-persistent topics.", dynamic=True)
    ] = True
    allow_auto_topic_creation: Annotated[
        bool,
        Key(
            "allowAutoTopicCreation",
            FLAG,
            "Producers and consumers create their topic if it does not exist.",
            dynamic=True,
        ),
    ] = True
    allow_auto_namespace_creation: Annotated[
        bool,
        Key(
            "magnetarAllowAutoNamespaceCreation",
            FLAG,
            "Producers, consumers and lookups create their namespace and tenant if they do not "
            "exist. If false they are refused with TopicNotFound.",
        ),
    ] = False
    allow_auto_topic_creation_type: Annotated[
        TopicType,
        Key(
            "allowAutoTopicCreationType",
            Choice(TopicType),
            "The type of topics that are created by use.",
            dynamic=True,
        ),
    ] = TopicType.NON_PARTITIONED
    default_num_partitions: Annotated[
        int,
        Key(
            "defaultNumPartitions",
            Integer(1),
            "Partitions of a partitioned topic created by use.",
            dynamic=True,
        ),
    ] = 1
    max_num_partitions_per_partitioned_topic: Annotated[
        int,
        Key(
            "maxNumPartitionsPerPartitionedTopic",
            Integer(0, 10_000),
            "Maximum number of partitions of one topic; 0 is 10000, the largest possible.",
            dynamic=True,
        ),
    ] = 0
    max_topics_per_namespace: Annotated[
        int,
        Key(
            "maxTopicsPerNamespace",
            COUNT,
            "Maximum number of topics of a namespace; 0 means no limit.",
            dynamic=True,
        ),
    ] = 0
    max_tenants: Annotated[
        int,
        Key("maxTenants", COUNT, "Maximum number of tenants; 0 means no limit.", dynamic=True),
    ] = 0
    max_namespaces_per_tenant: Annotated[
        int,
        Key(
            "maxNamespacesPerTenant",
            COUNT,
            "Maximum number of namespaces of a tenant; 0 means no limit.",
            dynamic=True,
        ),
    ] = 0
    force_delete_tenant_allowed: Annotated[
        bool,
        Key(
            "forceDeleteTenantAllowed",
            FLAG,
            "Allow tenants to be deleted with their namespaces.",
            dynamic=True,
        ),
    ] = False
    force_delete_namespace_allowed: Annotated[
        bool,
        Key(
            "forceDeleteNamespaceAllowed",
            FLAG,
            "Allow namespaces to be deleted with their topics.",
            dynamic=True,
        ),
    ] = False
    broker_delete_inactive_partitioned_topic_metadata_enabled: Annotated[
        bool,
        Key(
            "brokerDeleteInactivePartitionedTopicMetadataEnabled",
            FLAG,
            "Delete a partitioned topic when the last of its partitions is deleted as inactive.",
        ),
    ] = False
    default_number_of_namespace_bundles: Annotated[
        int | Literal["auto"],
        Key(
            "defaultNumberOfNamespaceBundles",
            IntegerOrAuto(Integer(1, 128)),
            "Number of bundles of a new namespace, the parts that workers own and that can be "
            "moved between them. auto is 4 for one worker, and for several the power of two that "
            "gives each at least 4.",
            pulsar="4",
        ),
    ] = "auto"
    bootstrap_namespaces: Annotated[
        tuple[str, ...],
        Key(
            "bootstrapNamespaces",
            Texts(NAMESPACE),
            "Namespaces that are created at the start if they do not exist.",
        ),
    ] = ()
    max_concurrent_lookup_request: Annotated[
        int,
        Key(
            "maxConcurrentLookupRequest",
            Integer(1),
            "Maximum number of concurrent lookups, for each worker if there are several; others "
            "are answered with TooManyRequests.",
        ),
    ] = 50000
    max_concurrent_topic_load_request: Annotated[
        int,
        Key(
            "maxConcurrentTopicLoadRequest",
            COUNT,
            "Maximum number of topics that are opened concurrently; others wait. 0 means no limit.",
        ),
    ] = 5000
