"""The proxy of a server, by the environment's variables: by host, by address, and by range.

HTTP libraries read ``NO_PROXY`` each in its own way; none of ours takes ranges of addresses.
"""

from __future__ import annotations

import ipaddress
import os
import socket
from typing import Any
from urllib.parse import SplitResult, urlsplit

from agents.clients.port import CallFailed

__all__ = ["SOCKET_OPTIONS", "proxy_for"]

_SCHEMES = ("http", "https", "socks5", "socks5h")
SOCKET_OPTIONS: list[Any] = [
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, True),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 60),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 60),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 5),
]
"""So that a reply that takes minutes is not cut by what forgets idle connections."""


def proxy_for(url: str) -> str | None:
    """The proxy through which ``url`` is asked; None: there is none. Raises ``CallFailed``, which
    names the variable that is no use, and never a password."""
    parts = urlsplit(url)
    name, proxy = _variable(f"{parts.scheme}_proxy", "all_proxy")
    if not proxy or _is_excluded(parts):
        return None
    if "://" not in proxy:
        proxy = f"http://{proxy}"
    try:
        named = urlsplit(proxy)
        usable = named.scheme in _SCHEMES and bool(named.hostname) and named.port != 0
        shown = f"{named.scheme}://{named.hostname}"
    except ValueError:
        usable, shown = False, "a URL whose port is no number"
    if not usable:
        raise _useless(name, f"it is {shown}; expected http://HOST:PORT")
    return proxy


def _useless(name: str, why: str) -> CallFailed:
    return CallFailed(
        "connection",
        f"the proxy that the environment names in {name} is no use: {why}",
        retryable=False,
    )


def _variable(*names: str) -> tuple[str, str]:
    """The first of these variables that is set, in small letters or capitals."""
    for name in names:
        for spelling in (name, name.upper()):
            if value := os.environ.get(spelling, "").strip():
                return spelling, value
    return names[0].upper(), ""


def _is_excluded(parts: SplitResult) -> bool:
    name, excluded = _variable("no_proxy")
    host = (parts.hostname or "").lower().rstrip(".")
    entries = excluded.replace(",", " ").split()
    return any(_covers(name, entry.lower(), host, parts.port) for entry in entries)


def _covers(name: str, entry: str, host: str, port: int | None) -> bool:
    """Whether an entry of ``NO_PROXY`` is about this host."""
    if entry == "*":
        return True
    entry = entry.partition("://")[2] or entry
    network = _network(name, entry)
    if network is not None:
        addresses = ["127.0.0.1", "::1"] if host == "localhost" else [host]
        return any(_address_in(address, network) for address in addresses)
    entry, _, wanted = entry.partition(":")
    if wanted and wanted != str(port):
        return False
    domain = entry.removeprefix("*").removeprefix(".").rstrip(".")
    return bool(domain) and (host == domain or host.endswith(f".{domain}"))


_Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def _network(name: str, entry: str) -> _Network | None:
    """The addresses that an entry stands for; None for a name."""
    text = entry.replace("[", "").replace("]", "")
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError:
        if "/" not in text:
            return None
    raise CallFailed(
        "connection",
        f"{name} holds {entry!r}, which is no range of addresses: expected ADDRESS/BITS, such as"
        " 10.0.0.0/8 or fd00::/8",
        retryable=False,
    )


def _address_in(host: str, network: _Network) -> bool:
    try:
        return ipaddress.ip_address(host) in network
    except ValueError:
        return False
