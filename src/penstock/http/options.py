"""What a server may be told about its limits and times: one frozen record with the names of the command's options.

`--header-timeout 5` of the command, `header_timeout = 5` of the configuration file, `PENSTOCK_HEADER_TIMEOUT=5` of the
environment and `HttpOptions(header_timeout=5)` are the same. Times are in seconds. Defaults are in `penstock.limits`.
This file must not know sockets, files or the command line.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, fields

from penstock import limits
from penstock.errors import UsageError
from penstock.limits import NS_PER_S, require_whole
from penstock.net.options import nanoseconds


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpOptions:
    """Limits and times of the connections of one server, for each of its loops."""

    # Times, in seconds.
    first_byte_timeout: float = limits.HTTP_FIRST_BYTE_TIMEOUT_NS / NS_PER_S
    header_timeout: float = limits.HTTP_HEADER_TIMEOUT_NS / NS_PER_S
    body_timeout: float = limits.HTTP_BODY_TIMEOUT_NS / NS_PER_S
    send_timeout: float = limits.HTTP_SEND_TIMEOUT_NS / NS_PER_S
    idle_timeout: float = limits.HTTP_IDLE_TIMEOUT_NS / NS_PER_S
    work_timeout: float | None = None
    drain_timeout: float = limits.HTTP_DRAIN_TIMEOUT_NS / NS_PER_S
    linger: float = limits.HTTP_LINGER_NS / NS_PER_S
    deadline: float = limits.HTTP_DEADLINE_NS / NS_PER_S
    # What a request may be.
    max_line: int = limits.HTTP_LINE_MAX_BYTES
    max_head: int = limits.HTTP_HEAD_MAX_BYTES
    max_fields: int = limits.HTTP_FIELDS_MAX
    max_body: int = limits.HTTP_BODY_MAX_BYTES
    max_body_kept: int = limits.HTTP_BODY_KEPT_MAX_BYTES
    min_body_rate: int = limits.HTTP_BODY_RATE_BYTES
    # How much at once.
    max_connections: int = limits.HTTP_CONNECTIONS_MAX
    max_connections_per_address: int | None = None
    max_requests_in_work: int = limits.HTTP_REQUESTS_IN_WORK_MAX
    max_requests_queued: int = limits.HTTP_QUEUE_CAPACITY
    # Proxies whose word counts about where connections and requests come from: addresses, networks (192.0.2.0/24), "unix".
    # They are believed in X-Forwarded-For and X-Forwarded-Proto or, without both, in Forwarded; a proxy that sets only
    # Forwarded must remove the others. With `proxy_protocol` each of their connections has to begin with a PROXY header.
    trusted: tuple[str, ...] = ()
    proxy_protocol: bool = False

    def __post_init__(self) -> None:
        for name in TIMES:
            value = getattr(self, name)
            if value is None and name == "work_timeout":
                continue
            if nanoseconds(name, value, limits.HTTP_TIMEOUT_MAX_NS) == 0 and name != "linger":
                raise UsageError(f"{name} is {value!r}; give seconds above 0")
        for name, (least, most) in RANGES.items():
            value = getattr(self, name)
            if value is not None or name != "max_connections_per_address":
                require_whole(name, value, least, most)
        self._check_trust()

    def _check_trust(self) -> None:
        if not isinstance(self.trusted, tuple):
            raise UsageError(f"trusted is {self.trusted!r}; give a tuple of addresses and networks")
        if len(self.trusted) > limits.HTTP_TRUSTED_MAX:
            raise UsageError(f"trusted has {len(self.trusted)} networks; give at most {limits.HTTP_TRUSTED_MAX}")
        for text in self.trusted:
            network(text)
        if not isinstance(self.proxy_protocol, bool):
            raise UsageError(f"proxy_protocol is {self.proxy_protocol!r}; give True or False")
        if self.proxy_protocol and not self.trusted:
            raise UsageError("proxy_protocol needs trusted peers to speak it; name them with trusted")

    def ns(self, name: str) -> int:
        """Return one of the times in nanoseconds; 0 for one that is not limited."""
        value = getattr(self, name)
        return 0 if value is None else nanoseconds(name, value, limits.HTTP_TIMEOUT_MAX_NS)


TIMES = (
    "first_byte_timeout",
    "header_timeout",
    "body_timeout",
    "send_timeout",
    "idle_timeout",
    "work_timeout",
    "drain_timeout",
    "linger",
    "deadline",
)

# What each whole number may be.
RANGES: dict[str, tuple[int, int]] = {
    "max_line": (64, limits.HTTP_HEAD_LIMIT_BYTES),
    "max_head": (128, limits.HTTP_HEAD_LIMIT_BYTES),
    "max_fields": (1, limits.HTTP_FIELDS_MAX),
    "max_body": (0, limits.HTTP_BODY_LIMIT_BYTES),
    "max_body_kept": (0, limits.HTTP_BODY_LIMIT_BYTES),
    "min_body_rate": (0, limits.HTTP_BODY_LIMIT_BYTES),
    "max_connections": (1, limits.CONNECTIONS_MAX),
    "max_connections_per_address": (1, limits.CONNECTIONS_MAX),
    "max_requests_in_work": (1, 1 << 20),
    "max_requests_queued": (1, 1 << 20),
}

# What is neither a time nor a whole number.
TRUST = ("trusted", "proxy_protocol")

if {field.name for field in fields(HttpOptions)} != {*TIMES, *RANGES, *TRUST}:  # pragma: no cover
    raise AssertionError("TIMES, RANGES and TRUST do not list every field of HttpOptions")


def network(text: str) -> tuple[bytes | None, int]:
    """Return an address or network as 16 bytes (IPv4 as ::ffff:a.b.c.d) and how many bits count; None for "unix"."""
    if text == "unix":
        return None, 0
    try:
        if not isinstance(text, str):
            raise ValueError
        found = ipaddress.ip_network(text)
    except ValueError:
        raise UsageError(
            f'trusted has {text!r}; give addresses like 192.0.2.1, networks like 198.51.100.0/24 or 2001:db8::/32, or "unix"'
        ) from None
    packed = found.network_address.packed
    if len(packed) == 4:
        return bytes(10) + b"\xff\xff" + packed, 96 + found.prefixlen
    return packed, found.prefixlen


DEFAULT = HttpOptions()
