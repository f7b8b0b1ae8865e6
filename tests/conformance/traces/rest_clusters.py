"""Clusters over REST: headers, types and bad input."""

from conformance.differences import differs
from conformance.rest_differences import CLUSTER_MEMBERS, DOMAINS
from conformance.trace import Trace

URLS = {"serviceUrl": "http://one:8080", "brokerServiceUrl": "pulsar://one:6650"}


@differs(CLUSTER_MEMBERS)
def the_own_cluster(t: Trace) -> None:
    t.web("GET", "clusters", types=True)
    t.web("GET", "clusters/", types=True)
    t.web("GET", "clusters/standalone", types=True)
    t.web("PUT", "clusters/standalone", URLS)


def a_cluster_that_is_not_there(t: Trace) -> None:
    t.web("GET", f"clusters/{t.token}")
    t.web("POST", f"clusters/{t.token}", URLS)
    t.web("DELETE", f"clusters/{t.token}")
    t.web("GET", f"clusters/{t.token}/peers")


def a_cluster_comes_and_goes(t: Trace) -> None:
    t.web("PUT", f"clusters/{t.token}", URLS)
    t.web("GET", f"clusters/{t.token}")
    t.web("PUT", f"clusters/{t.token}", URLS)
    t.web("POST", f"clusters/{t.token}", {**URLS, "proxyServiceUrl": "pulsar://p:6650"})
    t.web("GET", f"clusters/{t.token}")
    t.web("GET", f"clusters/{t.token}/peers")
    t.web("DELETE", f"clusters/{t.token}")
    t.web("GET", f"clusters/{t.token}")


def bodies_that_are_no_cluster(t: Trace) -> None:
    t.web("PUT", f"clusters/{t.token}")
    t.web("PUT", f"clusters/{t.token}", b"null")
    t.web("PUT", f"clusters/{t.token}", {})
    t.web("PUT", f"clusters/{t.token}", b"[1]")
    t.web("PUT", f"clusters/{t.token}", b"{")
    t.web("PUT", f"clusters/{t.token}", {"serviceUrl": "nonsense"})
    t.web("GET", f"clusters/{t.token}")
    t.web("DELETE", f"clusters/{t.token}")


def names_that_are_no_clusters(t: Trace) -> None:
    t.web("PUT", "clusters/a%20b", URLS)
    t.web("PUT", "clusters/a*b", URLS)


def domains_of_the_cluster(t: Trace) -> None:
    t.web("GET", "clusters/standalone/failureDomains")
    t.web("GET", f"clusters/standalone/failureDomains/{t.token}")
    t.web("DELETE", f"clusters/standalone/failureDomains/{t.token}")


@differs(DOMAINS)
def domains_of_a_cluster_that_is_not_there(t: Trace) -> None:
    t.web("GET", f"clusters/{t.token}/failureDomains")


def policies_of_isolation(t: Trace) -> None:
    t.web("GET", "clusters/standalone/namespaceIsolationPolicies")
    t.web("GET", f"clusters/standalone/namespaceIsolationPolicies/{t.token}")
