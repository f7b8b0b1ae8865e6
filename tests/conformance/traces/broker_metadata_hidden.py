"""Broker entry metadata that is stored and not sent to clients."""

from conformance.trace import Trace
from conformance.traces.broker_metadata import FIRST, INTERCEPTORS, TAKES_IT

SETTINGS = {"brokerEntryMetadataInterceptors": INTERCEPTORS.format("Index")}


def clients_get_none(t: Trace) -> None:
    a = t.connects(feature_flags=TAKES_IT)
    a.produces()
    a.publishes(2)
    a.subscribes()
    a.permits(10)
    a.receives(2)


def it_is_shown_over_rest(t: Trace) -> None:
    t.publisher(2)
    t.web("PUT", f"{t.path}/subscription/sub", FIRST)
    t.web("GET", f"{t.path}/subscription/sub/position/2")
    t.web("GET", f"{t.path}/getMessageIdByIndex?index=1")
