"""Features that the broker does not have, answered as if nobody used them."""

from magnetar_proto.admin import bodies
from magnetar_proto.admin.endpoint import (
    BODY,
    CONSUME,
    OWNER,
    TENANT_ADMIN,
    endpoint,
    flag,
    member,
    option,
    switch,
)
from magnetar_proto.admin.kinds import CSV, NAMES

# fmt: off
FILTERS = member("entryFilterNames", "-efn, --entry-filters-name", CSV, "Names of classes.",
    required=True)

ENDPOINTS = (
    endpoint("brokers.absent.shadow_topics", "GET {topic}/shadowTopics", TENANT_ADMIN,
        "Show the shadows of a topic, which do not exist here.", "topics get-shadow-topics"),
    endpoint("brokers.absent.set_shadow_topics", "PUT {topic}/shadowTopics", TENANT_ADMIN,
        "Set the shadows of a topic, which do not exist here.", "topics set-shadow-topics",
        option(BODY, "-t, --topics", NAMES, "Names of the topics.", required=True)),
    endpoint("brokers.absent.delete_shadow_topics", "DELETE {topic}/shadowTopics", TENANT_ADMIN,
        "Remove the shadows of a topic, which do not exist here.",
        "topics remove-shadow-topics"),
    endpoint("brokers.absent.filters", "GET {topic}/entryFilters", TENANT_ADMIN,
        "Show the filters of entries, which do not exist here.",
        "topicPolicies get-entry-filters-per-topic",
        flag("applied", "-ap, --applied", "The value in effect, also if set elsewhere.",
            ignored=True),
        flag("isGlobal", "-g, --global", "Of all clusters.", ignored=True)),
    endpoint("brokers.absent.set_filters", "POST {topic}/entryFilters", TENANT_ADMIN,
        "Set the filters of entries, which do not exist here.",
        "topicPolicies set-entry-filters-per-topic", FILTERS,
        flag("isGlobal", "-g, --global", "Of all clusters.", ignored=True), body=bodies.NO_BODY),
    endpoint("brokers.absent.delete_filters", "DELETE {topic}/entryFilters", TENANT_ADMIN,
        "Remove the filters of entries, which do not exist here.",
        "topicPolicies remove-entry-filters-per-topic",
        flag("isGlobal", "-g, --global", "Of all clusters.", ignored=True)),
    endpoint("brokers.absent.filters", "GET namespaces/{namespace}/entryFilters", TENANT_ADMIN,
        "Show the filters of entries, which do not exist here.",
        "namespaces get-entry-filters"),
    endpoint("brokers.absent.set_filters", "POST namespaces/{namespace}/entryFilters", TENANT_ADMIN,
        "Set the filters of entries, which do not exist here.", "namespaces set-entry-filters",
        FILTERS, body=bodies.NO_BODY),
    endpoint("brokers.absent.delete_filters", "DELETE namespaces/{namespace}/entryFilters",
        TENANT_ADMIN, "Remove the filters of entries, which do not exist here.",
        "namespaces remove-entry-filters"),
    endpoint("brokers.absent.replicated",
        "GET {topic}/subscription/{subscription}/replicatedSubscriptionStatus", CONSUME,
        "Show whether a subscription is replicated, of each partition.",
        "topics get-replicated-subscription-status", runs=OWNER),
    endpoint("brokers.absent.set_replicated",
        "POST {topic}/subscription/{subscription}/replicatedSubscriptionStatus", CONSUME,
        "Set whether a subscription is replicated.", "topics set-replicated-subscription-status",
        switch(BODY), body=bodies.REPLICATED, runs=OWNER),
)
