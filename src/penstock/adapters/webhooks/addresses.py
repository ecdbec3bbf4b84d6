"""Which addresses of the network may be called. The courier asks for each address that a name stands for, at the
moment when it connects (`courier.py`). Pure.

Whoever may name an address could otherwise have this server call what only this server can reach: a database, the
address under which a cloud tells credentials, the admin plane.
"""

from collections.abc import Iterable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

TRANSLATED = IPv6Network("64:ff9b::/96")  # RFC 6052: such an address stands for one of IPv4


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


def _is_open(address: Address, private: Sequence[Network]) -> bool:
    if any(address in network for network in private):
        return True
    return address.is_global and not address.is_multicast


def _meant(address: Address) -> Iterable[Address]:
    """Returns all addresses that may be reached by this one."""
    if isinstance(address, IPv4Address):
        return [address]
    inner = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
    if address in TRANSLATED:
        inner.append(IPv4Address(int(address) & 0xFFFFFFFF))
    meant = [each for each in inner if each is not None]
    return meant if address.ipv4_mapped is not None else [address, *meant]
