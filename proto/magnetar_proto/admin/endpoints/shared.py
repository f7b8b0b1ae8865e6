"""Parameters that several commands have."""

from magnetar_proto.admin.endpoint import flag, member, option, query
from magnetar_proto.admin.kinds import FLAG, NAMES, NUMBER, POSITION, SECONDS, TEXT, TOPIC

# fmt: off
FORCE = flag("force", "-f, --force", "Also while clients are connected.")
FORCED = query("force", "also if it is in use, or not empty", FLAG)
SYSTEM = flag("includeSystemTopic", "-ist, --include-system-topic", "Also the broker's own.")
BUNDLE = option("bundle", "-b, --bundle", TEXT, "Only this bundle, as 0x00000000_0x40000000.")
METADATA = flag("metadata", "-m, --metadata", "Each segment with its part of the record.")
OF_TOPIC = option("topic", "-t, --topic", TOPIC, "Name of the topic, or of one partition.",
    required=True)
OF_SUBSCRIPTION = option("subscription", "-s, --sub-name", TEXT, "Name of the subscription.",
    required=True)
BEHIND = flag("exclude_reset_position", "-e, --exclude-reset-position",
    "Begin after the message.", local=True)
MESSAGE = option("messageId", "-m, --messageId", POSITION, "The message.", local=True)
OLDER = option("seconds", "-t, --expireTime", SECONDS, "Older than this: 3600 (seconds), 3h.")
RANGE = (
    option("from", "--from", TEXT, "Where to begin, LEDGER:ENTRY; at the beginning if absent."),
    option("limit", "-n, --limit", NUMBER, "How many at most.", default="100"),
    option("scan", "--scan", NUMBER, "The most entries to read; all if absent."),
    option("key", "-k, --key", TEXT, "Only messages with this key."),
    option("property", "-p, --property", TEXT,
        "Only messages with this property: NAME or NAME=VALUE."),
    option("payload", "--payload", NUMBER, "The number of bytes shown of each payload."),
)
FIGURES = (
    flag("getPreciseBacklog", "-gpb, --get-precise-backlog", "Count messages exactly.",
        ignored=True),
    flag("subscriptionBacklogSize", "-sbs, --get-subscription-backlog-size",
        "Add the size of each backlog."),
    flag("getEarliestTimeInBacklog", "-etb, --get-earliest-time-in-backlog",
        "Add the age of each backlog."),
    flag("excludePublishers", "-ep, --exclude-publishers", "Without producers."),
    flag("excludeConsumers", "-ec, --exclude-consumers", "Without consumers."),
)
ROLES = member("adminRoles", "-r, --admin-roles", NAMES, "Roles that administer it.")
CLUSTERS = member("allowedClusters", "-c, --allowed-clusters", NAMES, "Clusters that it may use.")
