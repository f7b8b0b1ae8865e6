"""Lookups over HTTP: headers, types and bad input."""

from conformance.trace import Trace


def the_owner_of_a_topic(t: Trace) -> None:
    t.web("PUT", t.path)
    t.web("GET", f"/lookup/v2/topic/{t.path}")
    t.web("GET", f"/lookup/v2/topic/{t.path}?authoritative=true")
    t.web("GET", f"/lookup/v2/topic/{t.path}?authoritative=perhaps")
    t.web("GET", f"/lookup/v2/topic/{t.path}/bundle")


def a_topic_that_is_not_there(t: Trace) -> None:
    t.web("GET", f"/lookup/v2/topic/{t.path}")
    t.web("GET", f"/lookup/v2/topic/{t.path}/bundle")


def names_that_are_none(t: Trace) -> None:
    t.web("GET", f"/lookup/v2/topic/{t.path}%20x")
    t.web("GET", "/lookup/v2/topic/permanent/public/default/topic")
    t.web("GET", f"/lookup/v2/topic/persistent/public/{t.token}/topic")
    t.web("GET", f"/lookup/v2/topic/persistent/{t.token}/ns/topic")
    t.web("GET", "/lookup/v2/topic/persistent/public/default")


def listeners_that_are_none(t: Trace) -> None:
    t.web("GET", f"/lookup/v2/topic/{t.path}?listenerName=nobody")


def methods_that_lookups_do_not_have(t: Trace) -> None:
    t.web("PUT", f"/lookup/v2/topic/{t.path}")
    t.web("DELETE", f"/lookup/v2/topic/{t.path}")
