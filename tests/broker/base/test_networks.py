"""What limits of one address count."""

import pytest

from magnetar_broker.base.networks import network_of


@pytest.mark.parametrize(
    "host, network",
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::1", "2001:db8:1:2::/64"),
        ("2001:db8:1:3::1", "2001:db8:1:3::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("2001:db8:1:2::/64", "2001:db8:1:2::/64"),
        ("", ""),
        ("?", "?"),
    ],
)
def test_of_ipv6_the_network_counts(host: str, network: str) -> None:
    assert network_of(host) == network
