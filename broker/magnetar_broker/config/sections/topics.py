"""Topics, namespaces and their partitions."""

from typing import Annotated

from magnetar_broker.config.domains import COUNT, FLAG, NAMESPACE, TopicType
from magnetar_broker.config.sections.section import section
from magnetar_broker.config.values import Choice, Integer, Key, Texts


@section
class Topics:
    """What is served, and what may be created by using it."""

    enable_persistent_topics: Annotated[
        bool, Key("enablePersistentTopics", FLAG, "Serve persistent topics.")
    ] = True
    enable_non_persistent_topics: Annotated[
        bool, Key("enableNonPersistentTopics", FLAG, "Serve non-persistent topics.")
    ] = True
    allow_auto_topic_creation: Annotated[
        bool,
        Key("allowAutoTopicCreation", FLAG, "A producer or consumer may create its topic."),
    ] = True
    allow_auto_namespace_creation: Annotated[
        bool,
        Key(
            "magnetarAllowAutoNamespaceCreation",
            FLAG,
            "A producer or consumer may create its namespace, and with it the tenant.",
        ),
    ] = True
    allow_auto_topic_creation_type: Annotated[
        TopicType,
        Key("allowAutoTopicCreationType", Choice(TopicType), "What is created then."),
    ] = TopicType.NON_PARTITIONED
    default_num_partitions: Annotated[
        int,
        Key("defaultNumPartitions", Integer(1), "Partitions of a topic that is created then."),
    ] = 1
    max_num_partitions_per_partitioned_topic: Annotated[
        int,
        Key(
            "maxNumPartitionsPerPartitionedTopic",
            Integer(0, 10_000),
            "Partitions of one topic; 0 is 10000, the most there can be.",
        ),
    ] = 0
    max_topics_per_namespace: Annotated[
        int,
        Key("maxTopicsPerNamespace", COUNT, "Topics in one namespace; 0 is no limit."),
    ] = 0
    max_tenants: Annotated[
        int,
        Key("maxTenants", COUNT, "Tenants that may be created; 0 is no limit."),
    ] = 0
    max_namespaces_per_tenant: Annotated[
        int,
        Key("maxNamespacesPerTenant", COUNT, "Namespaces of one tenant; 0 is no limit."),
    ] = 0
    force_delete_tenant_allowed: Annotated[
        bool,
        Key("forceDeleteTenantAllowed", FLAG, "Deleting a tenant may delete its namespaces."),
    ] = False
    force_delete_namespace_allowed: Annotated[
        bool,
        Key("forceDeleteNamespaceAllowed", FLAG, "Deleting a namespace may delete its topics."),
    ] = False
    broker_delete_inactive_partitioned_topic_metadata_enabled: Annotated[
        bool,
        Key(
            "brokerDeleteInactivePartitionedTopicMetadataEnabled",
            FLAG,
            "When the last of its partitions is deleted because nobody used it, so is the "
            "partitioned topic.",
        ),
    ] = False
    default_number_of_namespace_bundles: Annotated[
        int,
        Key(
            "defaultNumberOfNamespaceBundles",
            Integer(1, 128),
            "Bundles of a namespace: the parts of it that brokers own. One broker owns all.",
        ),
    ] = 4
    bootstrap_namespaces: Annotated[
        tuple[str, ...],
        Key("bootstrapNamespaces", Texts(NAMESPACE), "Namespaces to create at the start."),
    ] = ()
    max_concurrent_lookup_request: Annotated[
        int,
        Key(
            "maxConcurrentLookupRequest",
            Integer(1),
            "Lookups at work at once; more are answered TooManyRequests.",
        ),
    ] = 50000
    max_concurrent_topic_load_request: Annotated[
        int,
        Key(
            "maxConcurrentTopicLoadRequest",
            COUNT,
            "Topics that are opened at once; more wait for their turn. 0 is no limit.",
        ),
    ] = 5000
