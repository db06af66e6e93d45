"""Where somebody is: literal addresses as text and as the system takes them.

An address is `(host, port)` for TCP and UDP, or a path for a Unix socket. Hosts here are literals; names are
`net.resolve`'s. This file must not know streams.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from typing import Any

from penstock.errors import UsageError

Address = tuple[str, int] | str

UNIX_PATH_MAX_BYTES = 107
_HOST_PORT = re.compile(r"(?:\[(?P<six>[^\]]*)\]|(?P<host>[^:\[\]]*)):(?P<port>[0-9]{1,5})")


def parse(text: str) -> Address:
    """Read `host:port`, `[v6]:port` or `unix:PATH` (also a bare path with a slash in it)."""
    if text.startswith("unix:"):
        return _path(text.removeprefix("unix:"))
    if "/" in text and not text.startswith("["):
        return _path(text)
    found = _HOST_PORT.fullmatch(text)
    if found is None:
        raise UsageError(f"address is {text!r}; give host:port, [v6]:port or unix:PATH")
    host = found["six"] if found["six"] is not None else found["host"]
    if found["six"] is not None and not is_literal(host):
        raise UsageError(f"address is {text!r}; {host!r} between brackets is no IPv6 address")
    return host, _port(int(found["port"]), text)


def show(address: Address | None) -> str:
    """Write an address so that `parse` reads it."""
    if address is None:
        return "nobody"
    if isinstance(address, str):
        return f"unix:{address}"
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def is_literal(host: str) -> bool:
    """Whether a host needs no looking up."""
    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True


def _port(port: int, address: object) -> int:
    if not 0 <= port <= 65_535:
        raise UsageError(f"address is {address!r}; give a port from 0 to 65,535")
    return port


def _path(path: str) -> str:
    # An address that begins with a zero byte has no file: Linux's abstract names.
    if not path or len(path.encode(errors="surrogateescape")) > UNIX_PATH_MAX_BYTES:
        raise UsageError(f"address is {path!r}; give a path of 1 to {UNIX_PATH_MAX_BYTES} bytes")
    return path


def system_address(address: Address) -> tuple[socket.AddressFamily, Any]:
    """Return the family, and the address as the socket module takes it."""
    if isinstance(address, str):
        return socket.AF_UNIX, _path(address)
    if not isinstance(address, tuple) or len(address) != 2 or not isinstance(address[0], str):
        raise UsageError(f"address is {address!r}; give (host, port), or a path for a Unix socket")
    host, port = address
    if isinstance(port, bool) or not isinstance(port, int):
        raise UsageError(f"address is {address!r}; give a port from 0 to 65,535")
    _port(port, address)
    if host == "":
        return socket.AF_INET, ("0.0.0.0", port)
    if not is_literal(host):
        raise UsageError(f"host {host!r} is a name; look it up with penstock.net.Resolver first, or give a literal")
    if ":" not in host:
        return socket.AF_INET, (host, port)
    bare, _, scope = host.partition("%")
    return socket.AF_INET6, (bare, port, 0, _scope_number(scope) if scope else 0)


def _scope_number(scope: str) -> int:
    if scope.isdigit():
        return int(scope)
    try:
        return socket.if_nametoindex(scope)
    except OSError:
        raise UsageError(f"scope {scope!r} is no network interface of this machine") from None


def from_system(name: Any) -> Address | None:
    """Return an address from what the socket module gives; None for a peer without a name."""
    if isinstance(name, bytes):
        name = name.decode(errors="surrogateescape")
    if isinstance(name, str):
        return name or None
    host, port = name[0], name[1]
    # A peer that reached a dual-stack socket over IPv4 is the same peer as over IPv4.
    return host.removeprefix("::ffff:") if "." in host else host, port


def name_of(fd: int, remote: bool) -> Address | None:
    """Return the address of an open socket, or of its peer; None if it has none (any more)."""
    handle = socket.socket(fileno=fd)
    try:
        return from_system(handle.getpeername() if remote else handle.getsockname())
    except OSError:
        return None
    finally:
        handle.detach()


def set_keepalive(fd: int, seconds: int, probes: int) -> None:
    """Let the system ask a silent peer after `seconds`, as often again, and give it up after `probes` silences."""
    handle = socket.socket(fileno=fd)
    try:
        if handle.family not in (socket.AF_INET, socket.AF_INET6):
            return
        handle.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        idle = getattr(socket, "TCP_KEEPIDLE", getattr(socket, "TCP_KEEPALIVE", None))
        if idle is not None:
            handle.setsockopt(socket.IPPROTO_TCP, idle, seconds)
        if hasattr(socket, "TCP_KEEPINTVL"):
            handle.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, max(1, seconds // probes))
            handle.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, probes)
    finally:
        handle.detach()
