"""Which URLs may be fetched: none whose host is an address of this machine or its network, however it is spelled. Book chapter 14."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable, Sequence
from typing import TypeAlias
from urllib.parse import SplitResult, quote, urlsplit

from harness_nb.errors import ToolError

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Resolver: TypeAlias = Callable[[str, int], Sequence[str]]
"""Returns the addresses of a host. Raises OSError."""

NAT64 = ipaddress.ip_network("64:ff9b::/96")


def look_up(host: str, port: int) -> list[str]:
    """Return the addresses of a host, by the system's resolver. Raises OSError."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def checked(parts: SplitResult, *, allow_private: bool, resolve: Resolver) -> list[str]:
    """Return the addresses that a URL's host may be reached at. Raises ToolError where one is not public."""
    host = parts.hostname or ""
    try:
        found = [str(literal)] if (literal := _literal(host)) else list(resolve(host, port_of(parts)))
    except (OSError, UnicodeError) as fault:
        raise ToolError(f"`{host[:200]}` can't be found: {reason(fault)}.") from None
    if not found:
        raise ToolError(f"`{host[:200]}` has no address.")
    if not allow_private and (wrong := next((one for one in found if not public(one)), None)):
        raise ToolError(
            f"`{host[:200]}` is {wrong}, an address of this machine or a private network; such addresses are not fetched."
        )
    return found


def public(address: str) -> bool:
    """Tell whether an address is one of the open internet; one that carries an IPv4 address inside is judged by that too."""
    ip: Address = ipaddress.ip_address(address)
    if isinstance(ip, ipaddress.IPv6Address):
        inner = [ip.ipv4_mapped, ip.sixtofour, *(ip.teredo or ())]
        low = ipaddress.IPv4Address(int(ip) & 0xFFFF_FFFF)
        inner += [low] if ip in NAT64 or not int(ip) >> 32 else []
        if any(one is not None and not public(str(one)) for one in inner):
            return False
        if ip.ipv4_mapped is not None or ip in NAT64:
            return True
        if ip.is_site_local:
            return False
    return ip.is_global and not ip.is_multicast and not ip.is_reserved


def _literal(host: str) -> Address | None:
    """Read a host that is an address, in every spelling that a system would take: 127.1, 0x7f000001, 2130706433."""
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        pass
    try:
        return ipaddress.IPv4Address(socket.inet_aton(host))
    except (OSError, UnicodeError):
        return None


def split(url: str) -> SplitResult:
    """Split a URL and spell it so that it can be sent. Raises ToolError."""
    try:
        parts = urlsplit(url.strip())
        host, port = parts.hostname, parts.port
    except ValueError as fault:
        raise ToolError(f"`{url[:200]}` is not a URL: {fault}.") from None
    if parts.scheme not in {"http", "https"} or not host:
        raise ToolError(
            f"`{url[:200]}` is not an http or https URL: give all of it, such as https://example.org/page."
        )
    if "@" in parts.netloc:
        raise ToolError("A URL with a user name or password in it is not fetched.")
    if any(char.isspace() or not char.isprintable() for char in host):
        raise ToolError(f"`{host[:200]!r}` is not the name of a host.")
    try:
        host = host if host.isascii() else host.encode("idna").decode()
    except UnicodeError:
        raise ToolError(f"`{host[:200]}` is not the name of a host.") from None
    place = f"[{host}]" if ":" in host else host
    return SplitResult(
        parts.scheme,
        place if port is None else f"{place}:{port}",
        quote(parts.path or "/", safe="/%:@!$&'()*+,;=~-._"),
        quote(parts.query, safe="/%:@!$&'()*+,;=~-._?"),
        "",
    )


def port_of(parts: SplitResult) -> int:
    """Return the port that a URL means."""
    return parts.port or (443 if parts.scheme == "https" else 80)


def same_host(one: SplitResult, other: SplitResult) -> bool:
    """Tell whether a redirect stays on its host; from http to https is staying, the other way is not."""
    upgraded = (one.scheme, other.scheme) == ("http", "https") and not one.port and not other.port
    return one.hostname == other.hostname and (
        upgraded or (one.scheme, port_of(one)) == (other.scheme, port_of(other))
    )


def reason(fault: BaseException) -> str:
    """Put a fault of the system or the protocol in a few words."""
    return str(getattr(fault, "strerror", None) or str(fault) or type(fault).__name__)
