"""Which addresses of the network may be called. The courier asks for each address that a name stands for, at the
moment when it connects (`courier.py`). Pure.

Whoever may name an address could otherwise have this server call what only this server can reach: a database, the
address under which a cloud tells credentials, the admin plane.
"""

import re
from collections.abc import Iterable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

TRANSLATED = IPv6Network("64:ff9b::/96")  # RFC 6052: such an address stands for one of IPv4
# All of IPv6 that is routed in the world. What is outside of it may stand for an address of IPv4 too, as a site, or
# an old way of going from the one to the other, has it.
ROUTED = IPv6Network("2000::/3")
# What Python's own list takes for open.
NOT_OPEN: tuple[Network, ...] = (
    IPv4Network("192.0.0.0/24"),  # for protocols alone; 192.0.0.192 tells credentials of Oracle's cloud
    IPv4Network("192.88.99.0/24"),  # once a relay of 6to4
    IPv4Network("168.63.129.16/32"),  # tells credentials of Azure
    IPv6Network("3fff::/20"),  # for documentation
)
NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*", re.IGNORECASE)


def may_be_called(text: str, private: Sequence[Network]) -> bool:
    """Returns whether an address is open to all the world, or in one of the networks of `private`."""
    address = ip_address(text.partition("%")[0])
    return all(_is_open(each, private) for each in _meant(address))


def literal(host: str) -> str | None:
    """Returns the address if a host is one, and not a name."""
    try:
        return str(ip_address(host.strip("[]")))
    except ValueError:
        return None


def is_number(host: str) -> bool:
    """Whether a host ends in a number, as no name does: 127.1, 0x7f000001 and 2130706433 are 127.0.0.1 for some."""
    last = host.removesuffix(".").rpartition(".")[2]
    return literal(host) is None and NUMBER.fullmatch(last) is not None


def _is_open(address: Address, private: Sequence[Network]) -> bool:
    if any(address in network for network in private):
        return True
    if isinstance(address, IPv6Address) and address not in ROUTED:
        return False
    return (
        address.is_global and not address.is_multicast and not any(address in network for network in NOT_OPEN)
    )


def _meant(address: Address) -> Iterable[Address]:
    """Returns all addresses that may be reached by this one."""
    if isinstance(address, IPv4Address):
        return [address]
    if address.ipv4_mapped is not None or address in TRANSLATED:
        return [IPv4Address(int(address) & 0xFFFFFFFF)]
    inner = [address.sixtofour, *(address.teredo or ())]
    return [address, *(each for each in inner if each is not None)]
