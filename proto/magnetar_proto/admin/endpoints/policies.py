"""Requests about policies that are not made from the declaration of one policy."""

from magnetar_proto.admin import bodies
from magnetar_proto.admin.endpoint import TENANT_ADMIN, endpoint, option
from magnetar_proto.admin.kinds import SECONDS, SIZE, one_of
from magnetar_proto.admin.policy import APPLIED, GLOBAL

# fmt: off
QUOTA_TYPE = option("backlogQuotaType", "-t, --type", one_of("destination_storage", "message_age"),
    "What is limited.", default="destination_storage")
QUOTA_FLAGS = (
    option("limitSize", "-l, --limit", SIZE, "The size: 10M, 16G.", local=True),
    option("limitTime", "-lt, --limitTime", SECONDS, "The age: 3600 (seconds), 3h.", local=True),
    option("policy", "-p, --policy", one_of("producer_request_hold", "producer_exception",
        "consumer_backlog_eviction"), "What happens then.", required=True, local=True),
)
RATE = "{topic}/{subscription}/dispatchRate"
_OF = "the dispatch rate of one subscription"
_QUOTA = "the limit of backlogs"

ENDPOINTS = (
    endpoint("policies.explain.of_namespace", "GET namespaces/{namespace}/policies/explain",
        TENANT_ADMIN, "Show every policy in effect, and where its value comes from.",
        "namespaces explain-policies"),
    endpoint("policies.explain.of_topic", "GET {topic}/policies/explain", TENANT_ADMIN,
        "Show every policy in effect, and where its value comes from.",
        "topicPolicies explain-policies", GLOBAL._replace(flags="")),
    endpoint("policies.regular.delete_all", "DELETE {topic}/policies", TENANT_ADMIN,
        "Remove all policies of a topic.", "topicPolicies delete", GLOBAL._replace(flags="")),
    endpoint("policies.quotas.on_get", "GET namespaces/{namespace}/backlogQuotaMap", TENANT_ADMIN,
        f"Show {_QUOTA}.", "namespaces get-backlog-quotas", APPLIED._replace(flags="")),
    endpoint("policies.quotas.on_set", "POST namespaces/{namespace}/backlogQuota", TENANT_ADMIN,
        f"Set {_QUOTA}.", "namespaces set-backlog-quota", QUOTA_TYPE, *QUOTA_FLAGS,
        body=bodies.QUOTA),
    endpoint("policies.quotas.on_remove", "DELETE namespaces/{namespace}/backlogQuota",
        TENANT_ADMIN, f"Remove {_QUOTA}; the next level is in effect again.",
        "namespaces remove-backlog-quota", QUOTA_TYPE),
    endpoint("policies.quotas.on_get", "GET {topic}/backlogQuotaMap", TENANT_ADMIN,
        f"Show {_QUOTA}.", "topicPolicies get-backlog-quota", APPLIED, GLOBAL),
    endpoint("policies.quotas.on_set", "POST {topic}/backlogQuota", TENANT_ADMIN, f"Set {_QUOTA}.",
        "topicPolicies set-backlog-quota", QUOTA_TYPE, *QUOTA_FLAGS, GLOBAL, body=bodies.QUOTA),
    endpoint("policies.quotas.on_remove", "DELETE {topic}/backlogQuota", TENANT_ADMIN,
        f"Remove {_QUOTA}; the next level is in effect again.",
        "topicPolicies remove-backlog-quota", QUOTA_TYPE, GLOBAL),
    endpoint("policies.rates.on_get", f"GET {RATE}", TENANT_ADMIN, f"Show {_OF}.", "",
        APPLIED._replace(flags=""), GLOBAL._replace(flags="")),
    endpoint("policies.rates.on_set", f"POST {RATE}", TENANT_ADMIN, f"Set {_OF}.", "",
        GLOBAL._replace(flags=""), body=bodies.DISPATCH_RATE),
    endpoint("policies.rates.on_delete", f"DELETE {RATE}", TENANT_ADMIN, f"Remove {_OF}.", "",
        GLOBAL._replace(flags="")),
)
