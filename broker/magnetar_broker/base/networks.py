"""Address ranges that count as one client for limits: IPv4 addresses, and networks of IPv6."""

from functools import lru_cache
from ipaddress import AddressValueError, IPv6Address, IPv6Network

PREFIX_BITS = 64
"""The prefix length of IPv6 networks: a customer has at least a /64, and may use all of it."""


@lru_cache(maxsize=4096)
def network_of(host: str) -> str:
    """Return the host of a connection; of IPv6 its network, as in `2001:db8::/64`."""
    if ":" not in host:
        return host
    try:
        address = IPv6Address(host)
    except AddressValueError:  # it is a network already
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(IPv6Network((int(address), PREFIX_BITS), strict=False))
