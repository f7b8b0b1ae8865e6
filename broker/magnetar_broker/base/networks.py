"""What limits of one address count: IPv4 addresses, and networks of IPv6."""

from functools import lru_cache
from ipaddress import AddressValueError, IPv6Address, IPv6Network

PREFIX_BITS = 64
"""Of IPv6, what one customer of a network has at least: any of its addresses is one client's."""


@lru_cache(maxsize=4096)
def network_of(host: str) -> str:
    """The host of a connection; of IPv6 its network, as in `2001:db8::/64`."""
    if ":" not in host:
        return host
    try:
        address = IPv6Address(host)
    except AddressValueError:  # it is a network already
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(IPv6Network((int(address), PREFIX_BITS), strict=False))
