"""Where answers of the admin API differ, of more than one group of traces."""

from conformance.differences import Difference

REFUSED = Difference(
    "requests that the admin API refuses",
    "some with 500, some without a reason",
    "all with 4xx and a reason",
)
CONVERTED = Difference(
    "values of a wrong type over REST",
    "some are converted: a number to a flag or to the n-th name of a list, 1.5 to 1",
    "400",
)
BELOW_ZERO = Difference(
    "numbers below zero over REST, where they have no meaning", "some are accepted", "412"
)
HALF_A_POSITION = Difference(
    "a position over REST that has one of `ledgerId` and `entryId`", "the other is 0", "400"
)
ENCODED_ONCE = Difference(
    "a subscription with `%` in its name, which a path of a topic encodes once",
    "500: it is decoded twice",
    "the subscription of that name, where it cannot be decoded a second time",
)
ENDS_OF_EMPTY = Difference(
    "the id of the last message of an empty topic, over REST",
    "has the ledger that the next message gets, or -1:-1",
    "-1:-1: a topic gets its first ledger with its first message",
)
ABSENT = Difference(
    "addresses that are not there, in lookups over HTTP", "are left out", "are empty texts"
)
ROLES = Difference(
    "a tenant without `adminRoles`", "is shown without them", "is shown with an empty list"
)
CONTENT_TYPE = Difference(
    "a body whose content type is not JSON", "415", "read as JSON, as `curl -d` sends it"
)
REDIRECTED = Difference("`GET /admin/v2`", "301 to `/admin/v2/`, which is 404", "404")
NO_DELETE = Difference(
    "DELETE of a policy that has none, such as `encryptionRequired`",
    "412, as of a bundle with this name",
    "405",
)
BUNDLES = Difference(
    "DELETE of a bundle that nothing has used", "412", "204; 405 if it is not a bundle"
)
REPLICATION = Difference(
    "`replicatedSubscriptionStatus` set to true", "204", "412: nothing is replicated"
)
MIDDLE = Difference(
    "`examinemessage` from a position that is neither `earliest` nor `latest`",
    "from the earliest",
    "412",
)
BY_TIME = Difference(
    "`messageid/{timestamp}` with a time before the first message", "-1:-1", "the first message"
)
SCHEMA_NOWHERE = Difference("DELETE of a schema in a namespace that does not exist", "200", "404")
SETTING = Difference(
    "a dynamic setting with a value that it cannot have", "stored, without effect", "412"
)
START_SETTING = Difference(
    "changing a setting at run time that has an effect at the start only here, such as "
    "`managedLedgerCacheSizeMB`",
    "200",
    "412, which says so",
)
CLUSTER_MEMBERS = Difference(
    "the cluster's members for the broker's own TLS clients",
    "stored, and shown with their defaults",
    "shown if they are set; passwords and parameters of authentication are not stored, with a "
    "`Warning`: the broker connects to no other",
)
SYSTEM = Difference(
    "creating a topic with the name of a system topic, such as `__change_events`",
    "400, 409 or 204, as the name and the namespace have it",
    "400",
)
DOMAINS = Difference("failure domains of a cluster that does not exist", "none", "404")
