"""Brokers, dynamic configuration and statistics of brokers over REST: headers and types."""

from conformance.differences import differs
from conformance.rest_differences import SETTING, START_SETTING
from conformance.trace import Trace

SETTING_NAME = "forceDeleteNamespaceAllowed"
NUMBER = "ttlDurationDefaultInSeconds"


def which_brokers_there_are(t: Trace) -> None:
    t.web("GET", "brokers", types=True)
    t.web("GET", "brokers/", types=True)
    t.web("GET", "brokers/standalone", types=True)
    t.web("GET", "brokers/leaderBroker", types=True)


def the_state_of_the_broker(t: Trace) -> None:
    t.web("GET", "brokers/health", accept="*/*")
    t.web("GET", "brokers/ready", accept="*/*")
    t.web("GET", "brokers/backlog-quota-check")


def a_broker_that_is_not_there(t: Trace) -> None:
    t.web("GET", f"brokers/standalone/{t.token}/ownedNamespaces")


def methods_that_brokers_do_not_have(t: Trace) -> None:
    t.web("PUT", "brokers")
    t.web("POST", "brokers/health")
    t.web("DELETE", "brokers/version")


def lists_of_settings(t: Trace) -> None:
    t.web("GET", "brokers/configuration/values", types=True)


def the_keys_of_settings(t: Trace) -> None:
    t.web("GET", "brokers/configuration", types=True)
    t.web("GET", "brokers/configuration/", types=True)


def a_setting_that_is_changed(t: Trace) -> None:
    t.web("POST", f"brokers/configuration/{SETTING_NAME}/true")
    t.web("GET", "brokers/configuration/values")
    t.web("DELETE", f"brokers/configuration/{SETTING_NAME}")
    t.web("GET", "brokers/configuration/values")


def settings_that_cannot_be_changed(t: Trace) -> None:
    t.web("POST", "brokers/configuration/webServicePort/8081")
    t.web("POST", f"brokers/configuration/{t.token}/1")
    t.web("DELETE", f"brokers/configuration/{t.token}")


def settings_that_take_effect_in_the_original_alone(t: Trace) -> None:
    for name, value in (
        ("loadBalancerSheddingExcludedNamespaces", "public%2Fdefault"),
        ("loadBalancerBrokerOverloadedThresholdPercentage", "70"),
        ("strictlyVerifySubscriptionName", "true"),
    ):
        t.web("POST", f"brokers/configuration/{name}/{value}")
        t.web("GET", "brokers/configuration/values")
        t.web("DELETE", f"brokers/configuration/{name}")
        t.web("GET", "brokers/configuration/values")


def settings_that_the_original_reads_at_its_start(t: Trace) -> None:
    t.web("POST", "brokers/configuration/zookeeperServers/one")
    t.web("POST", "brokers/configuration/functionsWorkerEnabled/true")
    t.web("DELETE", "brokers/configuration/zookeeperServers")


@differs(START_SETTING)
def settings_that_are_read_at_the_start_here(t: Trace) -> None:
    t.web("POST", "brokers/configuration/managedLedgerCacheSizeMB/100")
    t.web("DELETE", "brokers/configuration/managedLedgerCacheSizeMB")


@differs(SETTING)
def values_that_settings_cannot_have(t: Trace) -> None:
    t.web("POST", f"brokers/configuration/{NUMBER}/many")
    t.web("DELETE", f"brokers/configuration/{NUMBER}")


def where_metadata_is(t: Trace) -> None:
    t.web("GET", "brokers/internal-configuration", types=True)
