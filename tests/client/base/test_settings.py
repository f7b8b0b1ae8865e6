"""Service URLs: which are understood, and how the others are refused."""

import pytest

from magnetar.base.settings import Address, parse_service_url


@pytest.mark.parametrize(
    ("url", "addresses"),
    [
        ("pulsar://localhost", (Address("localhost", 6650),)),
        ("pulsar://10.0.0.1:7000/", (Address("10.0.0.1", 7000),)),
        ("pulsar://a:1,b:2,c", (Address("a", 1), Address("b", 2), Address("c", 6650))),
        ("pulsar://[::1]:6651", (Address("::1", 6651),)),
        ("pulsar://[::1]", (Address("::1", 6650),)),
        ("pulsar+ssl://a,b:7", (Address("a", 6651, is_tls=True), Address("b", 7, is_tls=True))),
    ],
)
def test_addresses(url: str, addresses: tuple[Address, ...]) -> None:
    assert parse_service_url(url) == addresses


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("localhost:6650", "must look like pulsar://"),
        ("http://localhost:8080", "must look like pulsar://"),
        ("pulsar://", "not host:port"),
        ("pulsar://a:1,", "not host:port"),
        ("pulsar://a:x", "not host:port"),
        ("pulsar://a:0", "not host:port"),
        ("pulsar://a:65536", "not host:port"),
    ],
)
def test_refused_with_the_reason(url: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse_service_url(url)
