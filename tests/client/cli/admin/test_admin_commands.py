"""Every command of `magnetar admin` that is not a policy, against a real broker."""

import json
import shlex
from collections.abc import Callable
from typing import NamedTuple

import pytest

from admin_command import Place, admin, answered, done
from magnetar.cli.admin.commands import GROUPS, commands_of
from running_broker import RunningBroker

RECORD = '{"type": "record", "name": "R", "fields": []}'
SCHEMA = json.dumps({"type": "AVRO", "schema": RECORD})


class Case(NamedTuple):
    """A command and its output; an exit code other than 0 is that of a refusal."""

    line: str
    printed: str = ""
    exit_code: int = 0
    stdin: str = ""


CASES = (
    Case("clusters list", "standalone"),
    Case("clusters get standalone", "brokerServiceUrl"),
    Case("clusters create standalone --url http://x:8080", "exists", 1),
    Case("clusters update other --url http://x:8080", "does not exist", 1),
    Case("clusters delete other", "does not exist", 1),
    Case("tenants list", "public"),
    Case("tenants get {tenant}", "boss"),
    Case("tenants create {fresh} -r a,b"),
    Case("tenants update {tenant} -r other"),
    Case("tenants delete {tenant}"),
    Case("namespaces list {tenant}"),
    Case("namespaces create {tenant}/more -b 8 -c standalone"),
    Case("namespaces delete {namespace}"),
    Case("namespaces topics {namespace} -m persistent"),
    Case("namespaces bundles {namespace}", "numBundles"),
    Case("namespaces policies {namespace}", "replication_clusters"),
    Case("namespaces unload {namespace}"),
    Case("namespaces unload {namespace} -b {bundle}"),
    Case("namespaces split-bundle {namespace} -b {bundle} -u"),
    Case("namespaces split-bundle {namespace} -bt LARGEST -san topic_count_equally_divide", "", 1),
    Case("namespaces get-topic-positions {namespace} -b {bundle} -tl {topic}", "namespace"),
    Case("namespaces clear-backlog {namespace} --force"),
    Case("namespaces clear-backlog {inhabited} -s sub", "Skip all", stdin="y\n"),
    Case("namespaces unsubscribe {namespace} -s sub"),
    Case("namespaces set-properties {namespace} -p a=1,b=2 -p c=3"),
    Case("namespaces get-properties {namespace}"),
    Case("namespaces clear-properties {namespace}"),
    Case("namespaces set-property {namespace} -k color -v red/blue"),
    Case("namespaces get-property {namespace} -k color"),
    Case("namespaces remove-property {namespace} -k color"),
    Case("namespaces explain-policies {namespace}", "message_ttl"),
    Case("topics list {namespace}"),
    Case("topics list-partitioned-topics {namespace}"),
    Case("topics create persistent://{namespace}/new -m a=1"),
    Case("topics create-partitioned-topic {namespace}/new -p 3 -m a=1"),
    Case("topics update-partitioned-topic {partitioned} -p 4"),
    Case("topics create-missed-partitions {partitioned}"),
    Case("topics get-partitioned-topic-metadata {partitioned}", "partitions  2"),
    Case("topics delete {topic} -f"),
    Case("topics delete-partitioned-topic {partitioned}"),
    Case("topics unload {topic}"),
    Case("topics lookup {topic}", "pulsar://"),
    Case("topics partitioned-lookup {partitioned}", "-partition-1"),
    Case("topics partitioned-lookup {partitioned} -s", "pulsar://"),
    Case("topics bundle-range {topic}", "0x"),
    Case("topics get-properties {topic}"),
    Case("topics update-properties {topic} -p a=1 -p b=2"),
    Case("topics remove-properties {topic} -k a"),
    Case("topics compact {written}"),
    Case("topics compaction-status {topic} -w", "NOT_RUN"),
    Case("topics offload {topic} -s 10M", "nothing to offload"),
    Case("topics offload {written} -s 1", "offload triggered for messages before"),
    Case("topics offload-status {topic} -w", "NOT_RUN"),
    Case("topics terminate {written}", "ledgerId"),
    Case("topics partitioned-terminate {partitioned}", "0"),
    Case("topics truncate {written}"),
    Case("topics trim-topic {topic}"),
    Case("topics explain-retention {topic}"),
    Case("topics expire-messages-all-subscriptions {written} -t 1h"),
    Case("topics subscriptions {topic}", "sub"),
    Case("topics create-subscription {topic} -s more -m earliest -p a=1"),
    Case("topics unsubscribe {topic} -s sub -f"),
    Case("topics get-subscription-properties {topic} -s sub"),
    Case("topics update-subscription-properties {topic} -s sub -p a=1"),
    Case("topics update-subscription-properties {topic} -s sub -c"),
    Case("topics reset-cursor {written} -s sub -t 1h"),
    Case("topics reset-cursor {written} -s sub -m latest -e"),
    Case("topics skip {written} -s sub -n 1"),
    Case("topics clear-backlog {written} -s sub"),
    Case("topics expire-messages {written} -s sub -t 1h"),
    Case("topics expire-messages {written} -s sub -p latest", "", 1),
    Case("topics backlogs {written}", "cursorDetails\n  NAME"),
    Case("topics peek-messages {written} -s sub -n 3", "value        two"),
    Case("topics examine-messages {written} -i earliest -m 1", "value        one"),
    Case("topics get-message-by-id {written} -l 999999 -e 0", "", 1),
    Case("topics get-message-id {written} -d 2020-01-01T00:00:00Z", "ledgerId"),
    Case("topics get-message-id-by-index {written} -i 1", "ledgerId"),
    Case("topics last-message-id {written}", "ledgerId"),
    Case("topics get-backlog-size {written}"),
    Case("topics damaged {written} --scan", "no damaged entries are known"),
    Case("topics skip-damaged {written} --dry-run", "no damaged entries are known"),
    Case("topics skip-damaged {written} --scan", "no damaged entries are known"),
    Case("topics search {written} -k k", 'properties   {{"a": "b"}}'),
    Case("topics dead-letters {topic} -s sub", ""),
    Case("topics browse-dead-letters {topic} -s sub", "no DLQ topic", 1),
    Case("topics replay-dead-letters {topic} -s sub --dry-run", "no DLQ topic", 1),
    Case("subscriptions dead-letters {topic} sub", ""),
    Case("subscriptions browse-dead-letters {topic} sub --kind RETRY", "no RETRY topic", 1),
    Case("subscriptions replay-dead-letters {topic} sub --kind RETRY", "no RETRY topic", 1),
    Case("topics analyze-backlog {written} -s sub", "entries"),
    Case("subscriptions analyze-backlog {written} sub -p earliest", "entries"),
    Case("subscriptions peek-messages {written} sub", 'properties   {{"a": "b"}}'),
    Case("brokers list-dynamic-config", "dispatchThrottlingRateInMsg"),
    Case("brokers get-all-dynamic-config"),
    Case("brokers get-runtime-config", "clusterName"),
    Case("brokers explain-config", "command line"),
    Case("brokers update-dynamic-config -c noSuchSetting -v 1", "noSuchSetting", 1),
    Case("brokers delete-dynamic-config -c noSuchSetting", "noSuchSetting", 1),
    Case("brokers get-internal-config", "metadataStoreUrl"),
    Case("topics stats {written}", "3 messages"),
    Case("topics partitioned-stats {partitioned} --per-partition", "partitions (2)"),
    Case("topics stats-internal {written}", "ledgers"),
    Case("topics partitioned-stats-internal {partitioned}", "partitions"),
    Case("topics info-internal {written}", "ledgers"),
    Case("topics permissions {topic}"),
    Case("topics grant-permission {topic} -r ann -a produce"),
    Case("topics revoke-permission {topic} -r ann"),
    Case("subscriptions explain-delivery {topic} sub", "sub"),
    Case("subscriptions key-hash {topic} sub -k a", "Key_Shared", 1),
    Case("subscriptions draining-hashes {topic} sub", "Key_Shared", 1),
    Case("broker-stats topics", "TOPIC"),
    Case("broker-stats load-report", "cpu"),
    Case("broker-stats monitoring-metrics"),
    Case("broker-stats mbeans"),
    Case("broker-stats allocator-stats default"),
    Case("transactions coordinators-list", "pulsar://"),
    Case("transactions coordinator-stats -c 3", "lowWaterMark"),
    Case("transactions coordinator-internal-stats -c 3 -m", "managedLedgerName"),
    Case("transactions scale-transactionCoordinators -r 1", "more", 1),
    Case("transactions slow-transactions -t 1h"),
    Case("transactions transaction-metadata -m 3 -l 99", "never was", 1),
    Case("transactions abort-transaction -m 3 -l 99", "never was", 1),
    Case("transactions transaction-buffer-stats -t {topic} -l", "lowWaterMarks"),
    Case("transactions transaction-buffer-internal-stats -t {topic} -m", "managedLedgerName"),
    Case("transactions transaction-in-buffer-stats -m 3 -l 99 -t {topic}", "startPosition"),
    Case("transactions pending-ack-stats -t {topic} -s sub", "ongoingTxnSize"),
    Case("transactions pending-ack-internal-stats -t {topic} -s sub", "managedLedgerName"),
    Case(
        "transactions transaction-in-pending-ack-stats -m 3 -l 99 -t {topic} -s sub", "cumulative"
    ),
    Case("transactions position-stats-in-pending-ack -t {topic} -s sub -l 1 -e 1", "state"),
    Case("clusters list -c", "standalone(*)"),
    Case("clusters get-peer-clusters standalone"),
    Case("clusters update-peer-clusters standalone --peer-clusters nobody", "nobody", 1),
    Case("clusters get-cluster-migration nobody", "nobody", 1),
    Case("clusters update-cluster-migration nobody --migrated --broker-url x", "", 1),
    Case("clusters list-failure-domains standalone"),
    Case("clusters get-failure-domain standalone --domain-name none", "none", 1),
    Case("clusters create-failure-domain nobody --domain-name d --broker-list a", "nobody", 1),
    Case("clusters update-failure-domain nobody --domain-name d --broker-list a", "nobody", 1),
    Case("clusters delete-failure-domain standalone --domain-name none", "none", 1),
    Case("resourcegroups list"),
    Case("resourcegroups get none", "does not exist", 1),
    Case("resourcegroups create {fresh} -mp 10 -bp 1M"),
    Case("resourcegroups update {fresh} -md 20 -bd 2M"),
    Case("resourcegroups delete none", "does not exist", 1),
    Case("namespaces get-resource-group {namespace}"),
    Case("namespaces set-resource-group {namespace} -rgn none", "does not exist", 1),
    Case("namespaces remove-resource-group {namespace}"),
    Case("namespaces permissions {namespace}"),
    Case("namespaces grant-permission {namespace} --role ann --actions produce,consume"),
    Case("namespaces revoke-permission {namespace} --role ann"),
    Case("namespaces subscription-permission {namespace}"),
    Case("namespaces grant-subscription-permission {namespace} -s sub -rs ann,bob"),
    Case("namespaces revoke-subscription-permission {namespace} -s sub -r ann", "sub", 1),
    Case("namespaces update-migration-state {namespace} --migrated"),
    Case("topics get-shadow-topics {topic}", "not set"),
    Case("topics set-shadow-topics {topic} -t other", "", 1),
    Case("topics remove-shadow-topics {topic}"),
    Case("topics get-replicated-subscription-status {topic} -s sub", "false"),
    Case("topics set-replicated-subscription-status {topic} -s sub -d"),
    Case("topicPolicies get-entry-filters-per-topic {topic}", "not set"),
    Case("topicPolicies set-entry-filters-per-topic {topic} -efn a", "", 1),
    Case("topicPolicies remove-entry-filters-per-topic {topic}"),
    Case("namespaces get-entry-filters {namespace}", "not set"),
    Case("namespaces set-entry-filters {namespace} -efn a", "", 1),
    Case("namespaces remove-entry-filters {namespace}"),
    Case("topicPolicies explain-policies {topic}", "broker"),
    Case("topicPolicies delete {topic}"),
    Case("subscriptions list {topic}", "sub"),
    Case("subscriptions create {topic} more"),
    Case("subscriptions delete {topic} sub"),
    Case("subscriptions get-properties {topic} sub"),
    Case("subscriptions update-properties {topic} sub -p a=1"),
    Case("subscriptions reset-cursor {written} sub -m earliest"),
    Case("subscriptions skip {written} sub -n 1"),
    Case("subscriptions clear-backlog {written} sub"),
    Case("subscriptions expire-messages {written} sub -t 1h"),
    Case("schemas get {topic}", "no schema", 1),
    Case("schemas upload {topic} -f -", "version", stdin=SCHEMA),
    Case("schemas compatibility {topic} -f -", "true", stdin=SCHEMA),
    Case("schemas metadata {topic}"),
    Case("schemas delete {topic}", "version"),
    Case("brokers list"),
    Case("brokers list standalone", "{broker_id}"),
    Case("brokers leader-broker", "brokerId"),
    Case("brokers namespaces standalone -u {broker_id}", "NAME"),
    Case("brokers healthcheck", "ok"),
    Case("brokers version"),
    Case("brokers backlog-quota-check"),
)


@pytest.fixture
def place(broker: RunningBroker) -> Place:
    found = Place(broker)
    found["fresh"] = f"{found['tenant']}x"
    return found


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.line)
def test_command(broker: RunningBroker, place: Place, case: Case) -> None:
    words = shlex.split(case.line.format_map(place))
    result = admin(broker, *words, stdin=case.stdin)
    assert result.exit_code == case.exit_code, result.output
    assert case.printed.format_map(place) in result.output


def test_no_command_is_left_out() -> None:
    declared = {
        (group, one.name) for group in GROUPS for one in commands_of(group) if not one.hidden
    }
    policies = {
        (group, one.name)
        for group in ("namespaces", "topicPolicies")
        for one in commands_of(group)
        if one.endpoint.name.startswith("policies.")
    }
    tried = {tuple(case.line.split()[:2]) for case in CASES} | {("brokers", "shutdown")}
    assert declared - policies == tried - policies


def test_shutdown(make_broker: Callable[..., RunningBroker]) -> None:
    broker = make_broker()
    assert admin(broker, "brokers", "shutdown").exit_code == 0
    assert broker.wait() == 0
    assert admin(broker, "brokers", "healthcheck").exit_code == 3


def test_clusters(make_broker: Callable[..., RunningBroker]) -> None:
    broker = make_broker()
    address = ("--url", "http://far:8080", "--broker-url", "pulsar://far:6650")
    done(broker, "clusters", "create", "far", *address)
    done(broker, "clusters", "update", "far", *address, "--tls-enable")
    assert answered(broker, "clusters", "get", "far")["brokerClientTlsEnabled"] is True
    done(broker, "clusters", "update-peer-clusters", "standalone", "--peer-clusters", "far")
    assert done(broker, "clusters", "get-peer-clusters", "standalone") == "far\n"
    done(broker, "clusters", "update-peer-clusters", "standalone", "--peer-clusters", "")
    assert done(broker, "clusters", "get-peer-clusters", "standalone") == ""
    domain = ("standalone", "--domain-name", "rack")
    done(broker, "clusters", "create-failure-domain", *domain, "--broker-list", "one")
    done(broker, "clusters", "update-failure-domain", *domain, "--broker-list", "one,two")
    assert answered(broker, "clusters", "get-failure-domain", *domain) == {
        "brokers": ["one", "two"]
    }
    done(broker, "clusters", "delete-failure-domain", *domain)
    done(broker, "clusters", "delete", "far")
    assert done(broker, "clusters", "list", "-c") == "standalone(*)\n"


def test_a_setting_is_changed_and_restored(make_broker: Callable[..., RunningBroker]) -> None:
    broker = make_broker()
    setting = ("-c", "dispatchThrottlingRateInMsg")
    done(broker, "brokers", "update-dynamic-config", *setting, "-v", "100")
    assert answered(broker, "brokers", "get-all-dynamic-config") == {setting[1]: "100"}
    done(broker, "brokers", "delete-dynamic-config", *setting)
    assert answered(broker, "brokers", "get-all-dynamic-config") == {}
