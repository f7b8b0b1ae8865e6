"""Commands of pulsar-admin, in an order in which each has something to work on.

`!` begins a command that is refused.  Behind `>` is what the answer has, as a regular expression.
Words in braces are filled in by the test.
"""

from collections.abc import Iterator
from typing import NamedTuple

NS = "tools/ns"
TOPIC = f"persistent://{NS}/topic"
PARTS = f"persistent://{NS}/parts"

FAILOVER = (
    "--auto-failover-policy-type min_available "
    "--auto-failover-policy-params min_limit=1,usage_threshold=80"
)
FIRST = f"""
clusters list > standalone
clusters get standalone > serviceUrl
clusters create west --url http://west:8080 --broker-url pulsar://west:6650
! clusters create west --url http://west:8080 --broker-url pulsar://west:6650
clusters update west --url http://west:8081 --broker-url pulsar://west:6650
clusters get west > west:8081
clusters update-peer-clusters west --peer-clusters standalone
clusters get-peer-clusters west > standalone
clusters create-failure-domain west --domain-name rack --broker-list one,two
clusters update-failure-domain west --domain-name rack --broker-list three
clusters get-failure-domain west --domain-name rack > three
clusters list-failure-domains west > rack
clusters delete-failure-domain west --domain-name rack
clusters update-cluster-migration west --migrated --service-url http://x:80 --broker-url pulsar://x:6650
clusters get-cluster-migration west > true
clusters delete west
! clusters get west
ns-isolation-policy set standalone apart --namespaces tools/.* --primary none.* {FAILOVER}
ns-isolation-policy get standalone apart > min_available
ns-isolation-policy list standalone > apart
ns-isolation-policy brokers standalone > brokerName
ns-isolation-policy broker standalone --broker nowhere:1
ns-isolation-policy delete standalone apart
tenants create tools -r boss -c standalone
! tenants create tools
tenants list > tools
tenants get tools > boss
tenants update tools -r boss,deputy -c standalone
tenants get tools > deputy
brokers list standalone > .+:[0-9]+
brokers leader-broker > brokerId
brokers healthcheck > ok
brokers version > [0-9]
brokers list-dynamic-config > maxTenants
brokers update-dynamic-config -c maxTenants -v 44
brokers get-all-dynamic-config > 44
! brokers update-dynamic-config -c maxTenants -v many
brokers delete-dynamic-config -c maxTenants
brokers get-runtime-config > webServicePort
brokers get-internal-config > metadataStoreUrl
brokers backlog-quota-check
namespaces create {NS} -b 4
! namespaces create {NS}
namespaces list tools > {NS}
namespaces bundles {NS} > 0xffffffff
namespaces policies {NS} > bundles
namespaces grant-permission {NS} --role app --actions produce,consume
namespaces permissions {NS} > app
namespaces grant-subscription-permission {NS} -s sub -rs app,other
namespaces subscription-permission {NS} > other
namespaces revoke-subscription-permission {NS} -s sub -r other
namespaces revoke-permission {NS} --role app
namespaces set-properties {NS} -p a=1,b=2
namespaces get-properties {NS} > "?a"?
namespaces set-property {NS} -k c -v 3
namespaces get-property {NS} -k c > 3
namespaces remove-property {NS} -k c
namespaces clear-properties {NS}
topics create {TOPIC}
! topics create {TOPIC}
topics create-partitioned-topic {PARTS} -p 2
topics create-missed-partitions {PARTS}
topics update-partitioned-topic {PARTS} -p 3
topics get-partitioned-topic-metadata {PARTS} > 3
topics list {NS} > topic
topics list-partitioned-topics {NS} > parts
topics lookup {TOPIC} > pulsar://
topics partitioned-lookup {PARTS} > pulsar://
topics bundle-range {TOPIC} > 0x
topics update-properties {TOPIC} -p colour=red
topics get-properties {TOPIC} > red
topics remove-properties {TOPIC} -k colour
topics grant-permission {TOPIC} -r app -a produce
topics permissions {TOPIC} > produce
topics revoke-permission {TOPIC} -r app
topics create-subscription {TOPIC} -s sub -m earliest
! topics create-subscription {TOPIC} -s sub -m earliest
topics update-subscription-properties {TOPIC} -s sub -p team=a
topics get-subscription-properties {TOPIC} -s sub > team
topics subscriptions {TOPIC} > sub
publish
topics stats {TOPIC} > "msgInCounter" *: *12
topics stats {TOPIC} -gpb -sbs -etb > msgBacklog
topics stats-internal {TOPIC} -m > lastConfirmedEntry
topics info-internal {TOPIC} > ledgers
topics partitioned-stats {PARTS} --per-partition > partitions
topics partitioned-stats-internal {PARTS} > partitions
topics last-message-id {TOPIC} > [0-9]+
topics examine-messages {TOPIC} -i earliest -m 1 > payload-0
topics peek-messages {TOPIC} -s sub -n 2 > payload-1
topics get-message-id {TOPIC} -d 2020-01-01T00:00:00Z > [0-9]+
topics get-message-by-id {TOPIC} -l {{ledger}} -e 3 > payload-3
topics get-backlog-size {TOPIC} -m {{ledger}}:2 > [0-9]+
topics analyze-backlog {TOPIC} -s sub > entries
topics skip {TOPIC} -s sub -n 2
topics expire-messages {TOPIC} -s sub -p {{ledger}}:4
topics expire-messages {TOPIC} -s sub -t 86400
topics expire-messages-all-subscriptions {TOPIC} -t 86400
topics reset-cursor {TOPIC} -s sub -m {{ledger}}:0
topics reset-cursor {TOPIC} -s sub -t 1d
topics clear-backlog {TOPIC} -s sub
topics get-replicated-subscription-status {TOPIC} -s sub > false
topics set-replicated-subscription-status {TOPIC} -s sub -d
topics compact {TOPIC}
topics compaction-status {TOPIC} -w > .
topics offload-status {TOPIC} > not been run
topics offload {TOPIC} -s 10M > Nothing
! topics get-shadow-topics {TOPIC} > items.* is null
topics get-shadow-source {TOPIC}
! topics set-shadow-topics {TOPIC} -t persistent://{NS}/shadow
topics remove-shadow-topics {TOPIC}
! topics create-shadow-topic persistent://{NS}/shadow -s {TOPIC}
topics set-schema-validation-enforce {TOPIC} -e
topics get-schema-validation-enforce {TOPIC} > true
topics set-schema-validation-enforce {TOPIC}
topics set-replication-clusters {TOPIC} -c standalone
topics get-replication-clusters {TOPIC} > standalone
topics remove-replication-clusters {TOPIC}
topics get-retention {TOPIC}
schemas upload {TOPIC} -f {{schema}}
schemas get {TOPIC} > age
schemas get {TOPIC} -v 0 > age
schemas get {TOPIC} -a > age
schemas metadata {TOPIC} > version
schemas compatibility {TOPIC} -f {{schema}}
schemas delete {TOPIC} -f
! schemas get {TOPIC}
broker-stats load-report > numTopics
broker-stats topics -i > tools/ns
broker-stats monitoring-metrics -i > metrics
broker-stats mbeans > .
broker-stats allocator-stats default > .
resource-quotas get > msgRateIn
resourcegroups create group -mp 10 -bp 1000 -md 20 -bd 2000
resourcegroups list > group
resourcegroups get group > 1000
resourcegroups update group -mp 11
resourcegroups get group > 11
namespaces set-resource-group {NS} -rgn group
namespaces get-resource-group {NS} > group
! resourcegroups delete group
namespaces remove-resource-group {NS}
resourcegroups delete group
! resourcegroups get group
"""
LAST = f"""
namespaces topics {NS} > topic
namespaces get-topic-positions {NS} -b {{bundle}} > topic
namespaces clear-backlog {NS} -force
namespaces clear-backlog {NS} -s sub -force
namespaces unload {NS}
namespaces unload {NS} -b {{bundle}}
namespaces split-bundle {NS} -b {{bundle}}
namespaces unsubscribe {NS} -s sub
namespaces update-migration-state {NS}
! namespaces get-anti-affinity-namespaces -c standalone -g group -p tools > /admin/namespaces/
topics unload {TOPIC}
topics trim-topic {TOPIC}
topics truncate {TOPIC}
topics create-subscription {TOPIC} -s again
topics unsubscribe {TOPIC} -s again -f
topics terminate {TOPIC}
topics partitioned-terminate {PARTS}
topics delete-partitioned-topic {PARTS} -f
topics delete {TOPIC} -f
! topics stats {TOPIC}
namespaces delete {NS}
tenants delete tools
! tenants get tools
brokers namespaces standalone -u {{broker}}
"""

RATE = "-md 100 -bd 1000 -dt 2"
BOTH: dict[str, tuple[str, str]] = {
    "retention": ("-t 3h -s 10M", "180"),
    "backlog-quota": ("-l 20M -p producer_exception", ""),
    "message-ttl": ("", "77"),
    "deduplication": ("-e", "true"),
    "deduplication-snapshot-interval": ("-i 500", "500"),
    "compaction-threshold": ("-t 5M", "5242880"),
    "delayed-delivery": ("-e -t 2s", "2000"),
    "dispatch-rate": (RATE, "100"),
    "subscription-dispatch-rate": (RATE, "100"),
    "replicator-dispatch-rate": (RATE, "100"),
    "publish-rate": ("-m 100 -b 1000", "1000"),
    "subscribe-rate": ("-sr 9 -st 30", "9"),
    "inactive-topic-policies": ("-e -t 60s -m delete_when_no_subscriptions", "60"),
    "persistence": ("-e 1 -w 1 -a 1 -r 2.5", "2.5"),
    "max-consumers-per-subscription": ("-c 8", "8"),
    "subscription-types-enabled": ("-t Shared,Failover", "Shared"),
    "offload-policies": ("-d aws-s3 -b bucket -r eu", "bucket"),
    "auto-subscription-creation": ("-e", "true"),
}
"""Policies of namespaces and of topics: how they are set, and what is shown then."""
OF_NAMESPACES: dict[str, tuple[str, str]] = {
    "dispatcher-pause-on-ack-state-persistent": ("", "true"),
    "message-ttl": ("-ttl 77", "77"),
    "auto-topic-creation": ("-e -t partitioned -n 2", "partitioned"),
    "subscription-expiration-time": ("-t 5", "5"),
    "max-producers-per-topic": ("-p 9", "9"),
    "max-consumers-per-topic": ("-c 9", "9"),
    "max-subscriptions-per-topic": ("-m 9", "9"),
    "max-topics-per-namespace": ("-t 99", "99"),
    "max-unacked-messages-per-consumer": ("-c 99", "99"),
    "max-unacked-messages-per-subscription": ("-c 99", "99"),
    "encryption-required": ("-d", "false"),
    "is-allow-auto-update-schema": ("-e", "true"),
    "schema-validation-enforce": ("-d", "false"),
    "schema-compatibility-strategy": ("-c BACKWARD", "BACKWARD"),
    "schema-autoupdate-strategy": ("-c BACKWARD", "BACKWARD"),
    "subscription-auth-mode": ("-m None", "None"),
    "anti-affinity-group": ("-g group", "group"),
    "bookie-affinity-group": ("-pg first -sg second", "first"),
    "clusters": ("-c standalone", "standalone"),
    "allowed-clusters": ("-c standalone", "standalone"),
    "offload-threshold": ("-s 10M", "10485760"),
    "offload-deletion-lag": ("-l 1h", "(60|3600)"),
}
OF_TOPICS: dict[str, tuple[str, str]] = {
    "dispatcher-pause-on-ack-state-persistent": ("", "done"),  # release 4.0.6 shows no value
    "message-ttl": ("-t 77", "77"),
    "max-producers": ("-p 9", "9"),
    "max-consumers": ("-c 9", "9"),
    "max-message-size": ("-m 4096", "4096"),
    "max-subscriptions-per-topic": ("-s 9", "9"),
    "max-unacked-messages-per-consumer": ("-m 99", "99"),
    "max-unacked-messages-per-subscription": ("-m 99", "99"),
    "schema-compatibility-strategy": ("-s BACKWARD", "BACKWARD"),
}
READS = {"backlog-quota": {"namespaces": "backlog-quotas"}}
ENDS = {
    "offload-deletion-lag": "clear", "anti-affinity-group": "delete",
    "bookie-affinity-group": "delete",
}  # fmt: skip
"""The verbs of removals that are not `remove`."""
FILTERS = f"""
namespaces get-entry-filters {NS}
! namespaces set-entry-filters {NS} -efn some
namespaces remove-entry-filters {NS}
topicPolicies get-entry-filters-per-topic {TOPIC}
! topicPolicies set-entry-filters-per-topic {TOPIC} -efn some
topicPolicies remove-entry-filters-per-topic {TOPIC}
"""

WITHOUT: dict[str, str] = {
    "brokers shutdown": "it ends the broker that all commands play on",
    "schemas extract": "it reads a class out of a JAR file, and sends what `upload` sends",
    "resource-quotas set": "there are no quotas of bundles here",
    "resource-quotas reset-namespace-bundle-quota": "there are no quotas of bundles here",
}
"""Commands of these groups that are not played, and why."""
GROUPS = (
    "clusters", "tenants", "namespaces", "topics", "topicPolicies", "schemas", "brokers",
    "broker-stats", "ns-isolation-policy", "resourcegroups", "resource-quotas",
)  # fmt: skip


class Line(NamedTuple):
    """One command."""

    words: str
    works: bool
    shows: str
    """A regular expression; empty for anything."""

    @property
    def name(self) -> str:
        """The group and the command."""
        return " ".join(self.words.split()[:2])


def script(known: frozenset[str]) -> Iterator[Line]:
    """All commands, of those that are known."""
    yield from _lines(FIRST)
    yield from _policies(known)
    yield from _lines(FILTERS)
    yield from _lines(LAST)


def _policies(known: frozenset[str]) -> Iterator[Line]:
    for group, subject, own in (
        ("namespaces", NS, OF_NAMESPACES), ("topicPolicies", TOPIC, OF_TOPICS),
    ):  # fmt: skip
        for policy, (options, shown) in (BOTH | own).items():
            read = READS.get(policy, {}).get(group, policy)
            yield Line(f"{group} set-{policy} {subject} {options}", True, "")
            yield Line(f"{group} get-{read} {subject}", True, shown)
            end = f"{group} {ENDS.get(policy, 'remove')}-{policy}"
            if end in known:
                yield Line(f"{end} {subject}", True, "")
                yield Line(f"{group} get-{read} {subject}", True, "")


def _lines(text: str) -> Iterator[Line]:
    for line in text.strip().splitlines():
        words, _, shows = line.partition(" > ")
        yield Line(words.removeprefix("! "), not words.startswith("! "), shows)
