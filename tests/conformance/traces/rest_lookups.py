"""Lookups over HTTP: headers, types and bad input."""

from conformance.differences import differs
from conformance.rest_differences import ABSENT, REFUSED
from conformance.trace import Trace


@differs(ABSENT)
def the_owner_of_a_topic(t: Trace) -> None:
    t.web("PUT", t.path)
    t.web("GET", f"/lookup/v2/topic/{t.path}")
    t.web("GET", f"/lookup/v2/topic/{t.path}?authoritative=true")
    t.web("GET", f"/lookup/v2/topic/{t.path}?authoritative=perhaps")


def the_bundle_of_a_topic(t: Trace) -> None:
    t.web("PUT", f"namespaces/public/{t.token}", {"bundles": {"numBundles": 1}})
    t.web("GET", f"/lookup/v2/topic/persistent/public/{t.token}/topic/bundle")


@differs(ABSENT)
def a_topic_that_is_not_there(t: Trace) -> None:
    t.web("GET", f"/lookup/v2/topic/{t.path}")
    t.web("GET", f"/lookup/v2/topic/{t.path}%20x")


def names_that_are_none(t: Trace) -> None:
    t.web("GET", f"/lookup/v2/topic/persistent/public/{t.token}/topic")
    t.web("GET", f"/lookup/v2/topic/persistent/{t.token}/ns/topic")
    t.web("GET", "/lookup/v2/topic/persistent/public/default")


@differs(REFUSED)
def a_domain_that_is_none(t: Trace) -> None:
    t.web("GET", "/lookup/v2/topic/permanent/public/default/topic")


@differs(REFUSED)
def listeners_that_are_none(t: Trace) -> None:
    t.web("GET", f"/lookup/v2/topic/{t.path}?listenerName=nobody")


def methods_that_lookups_do_not_have(t: Trace) -> None:
    t.web("PUT", f"/lookup/v2/topic/{t.path}")
    t.web("DELETE", f"/lookup/v2/topic/{t.path}")
