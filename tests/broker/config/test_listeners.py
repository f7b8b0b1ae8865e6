"""Advertised listeners: from text to the addresses of each, and back."""

from magnetar_broker.config.listeners import (
    Listeners,
    ListenerUrls,
    default_listener,
    default_urls,
    urls_by_name,
)
from magnetar_broker.config.values import render

TEXT = "in:pulsar://b1:6650,out:pulsar://b.example:6650,out:pulsar+ssl://b.example:6651"


def test_a_listener_has_an_address_of_each_scheme() -> None:
    entries = Listeners().parse(f"{TEXT}, out : http://b.example:80,out:https://b.example:443,")
    assert urls_by_name(entries) == {
        "in": ListenerUrls("pulsar://b1:6650"),
        "out": ListenerUrls(
            "pulsar://b.example:6650",
            "pulsar+ssl://b.example:6651",
            "http://b.example:80",
            "https://b.example:443",
        ),
    }


def test_the_first_is_the_default_unless_another_is_named() -> None:
    entries = Listeners().parse(TEXT)
    assert default_listener(entries, None) == "in"
    assert default_listener(entries, "out") == "out"


def test_a_scheme_that_the_default_lacks_is_of_the_first_that_has_it() -> None:
    entries = Listeners().parse(f"{TEXT},far:pulsar+ssl://c:6651,far:https://c:443,in:http://b1:80")
    assert default_urls(entries, None) == ListenerUrls(
        "pulsar://b1:6650", "pulsar+ssl://b.example:6651", "http://b1:80", "https://c:443"
    )
    assert default_urls(entries, "far") == ListenerUrls(
        "pulsar://b1:6650", "pulsar+ssl://c:6651", "http://b1:80", "https://c:443"
    )


def test_they_render_back() -> None:
    assert render(Listeners().parse(TEXT)) == TEXT
