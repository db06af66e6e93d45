"""What asyncio, uvloop and rloop share: the interface of an asyncio event loop, used through its low-level calls.

Forms of the echo server:

- `protocol`: `Protocol.data_received` answers with the transport's `write`, whose bound method is kept
  (`BufferedProtocol` was tried with all three and is slower for messages of this size);
- `reader`: `add_reader` and the socket's own recv and send, no transport at all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from contenders.base import LISTEN_BACKLOG, RECEIVE_BYTES, Contender, noop
from contenders.sockets import accept_all, listen_on_loopback, port_of


class EventLoopContender(Contender):
    """An asyncio event loop made by `factory`."""

    def __init__(self, factory: Callable[[], Any]) -> None:
        self.loop = loop = factory()
        self.soon = loop.call_soon
        self.later = loop.call_later
        self.post = loop.call_soon_threadsafe
        self.run = loop.run_forever
        self.stop = loop.stop
        self.close = loop.close

    def start_cancel(self, delays: Iterable[float]) -> None:
        later = self.later
        for delay in delays:
            later(delay, noop).cancel()

    def serve_echo(self, form: str, announce: Callable[[int], None]) -> None:
        if form == "reader":
            self._serve_reader(announce)
        else:
            self._serve_protocol(announce)

    def _serve_protocol(self, announce: Callable[[int], None]) -> None:
        Echo.all_closed = staticmethod(self.stop)
        starting = self.loop.create_server(Echo, "127.0.0.1", 0, backlog=LISTEN_BACKLOG)
        server = self.loop.run_until_complete(starting)
        announce(server.sockets[0].getsockname()[1])
        self.run()

    def _serve_reader(self, announce: Callable[[int], None]) -> None:
        loop, listener = self.loop, listen_on_loopback()
        open_connections: set[Any] = set()

        def on_readable(connection: Any) -> None:
            try:
                data = connection.recv(RECEIVE_BYTES)
            except BlockingIOError:
                # rloop calls readers of descriptors that have nothing to read.
                return
            if data:
                connection.send(data)
                return
            loop.remove_reader(connection.fileno())
            open_connections.remove(connection)
            connection.close()
            if not open_connections:
                loop.stop()

        def on_accept() -> None:
            for connection in accept_all(listener):
                open_connections.add(connection)
                loop.add_reader(connection.fileno(), on_readable, connection)

        loop.add_reader(listener.fileno(), on_accept)
        announce(port_of(listener))
        self.run()


class Echo(asyncio.Protocol):
    """Stops the loop when the last connection is gone."""

    open_count = 0
    all_closed: Callable[[], Any] = staticmethod(noop)

    def connection_made(self, transport: Any) -> None:
        Echo.open_count += 1
        self.write = transport.write

    def data_received(self, data: bytes) -> None:
        self.write(data)

    def connection_lost(self, exc: BaseException | None) -> None:
        Echo.open_count -= 1
        if not Echo.open_count:
            Echo.all_closed()
