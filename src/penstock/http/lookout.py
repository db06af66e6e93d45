"""The status of a server at an address of its own: a small server beside it, on the loop of whoever keeps it.

Who asks there sees counts and nothing else; still it should be an address that only those reach who may. This file must
not know how the server that it looks at is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock import limits
from penstock.errors import UsageError
from penstock.http.options import HttpOptions
from penstock.http.server import Server
from penstock.http.status import StatusHandler
from penstock.reactor import Reactor


class Lookout:
    """Shows `figures()` at `address`, which is "host:port", ":port" or "[host]:port"."""

    def __init__(self, address: str, reactor: Reactor, figures: Callable[[], dict[str, Any]]) -> None:
        host, port = parse(address)
        options = HttpOptions(max_connections=limits.STATUS_CONNECTIONS_MAX, drain_timeout=1)
        self._handler = StatusHandler(reactor, figures)
        try:
            self._server = Server(self._handler, reactor=reactor, host=host, port=port, options=options)
        except OSError as error:
            self._handler.close()
            raise UsageError(f"status is {address!r}: {error.strerror}") from None

    @property
    def url(self) -> str:
        """Where a browser finds it."""
        return self._server.url

    def descriptors(self) -> list[int]:
        """What a forked process must not keep."""
        listener = self._server.listener
        own = -1 if listener is None else listener.fileno()
        return [*([own] if own >= 0 else []), *self._server.engine.descriptors()]

    def close(self) -> None:
        """Show nothing any more."""
        self._handler.close()
        self._server.close()


def parse(address: str) -> tuple[str, int]:
    """Take an address apart."""
    host, colon, port = address.rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if not colon or not port.isdecimal() or not port.isascii() or int(port) > 65_535 or (":" in bare and bare == host):
        raise UsageError(f"status is {address!r}; give host:port, such as 127.0.0.1:9000 or [::1]:9000")
    return bare or "127.0.0.1", int(port)
