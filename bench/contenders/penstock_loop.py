"""penstock's reactor, used as its documentation tells users to.

Forms of the echo server:

- `sock`: `register(fd, READABLE, callback)`, the callback uses the socket's recv and send;
- `os`: the same with os.read and os.write;
- `c`: the compiled echo handler of `penstock.testing.native`, no Python per message.
"""

from __future__ import annotations

import importlib.metadata
import os
import socket
from collections.abc import Callable, Iterable
from typing import Any

from contenders.base import RECEIVE_BYTES, Callback, Contender, noop
from contenders.sockets import accept_all, listen_on_loopback, port_of
from penstock import READABLE, Reactor


class CONTENDER(Contender):
    name = "penstock"
    version = importlib.metadata.version("penstock")

    def __init__(self) -> None:
        self.reactor = reactor = Reactor()
        self.soon = reactor.defer
        self.later = reactor.set_timeout
        self.post = reactor.defer_threadsafe
        self.post_to_lane = reactor.post
        self.run = reactor.run
        self.stop = reactor.stop
        self.close = reactor.close

    def start_cancel(self, delays: Iterable[float]) -> None:
        later = self.reactor.set_timeout
        for delay in delays:
            later(delay, noop).cancel()

    def lane(self, handler: Callback, budget: int) -> Any:
        return self.reactor.lane("bench", handler, capacity=2 * budget, overflow="drop-oldest", budget=budget)

    def check_lane(self, lane: Any, posted: int) -> None:
        counters = lane.counters()
        if counters["run"] != posted or counters["depth"] or counters["offered"] != posted:
            raise AssertionError(f"the lane should have run {posted:,} events and dropped none: {counters}")

    def serve_echo(self, form: str, announce: Callable[[int], None]) -> None:
        adopt = {"sock": self._adopt_socket, "os": self._adopt_number, "c": self._adopt_compiled}[form]
        reactor, listener = self.reactor, listen_on_loopback()
        self._open: dict[int, socket.socket] = {}

        def on_accept(_fd: int, _events: int) -> None:
            for connection in accept_all(listener):
                self._open[connection.fileno()] = connection
                adopt(connection)

        reactor.register(listener.fileno(), READABLE, on_accept)
        announce(port_of(listener))
        reactor.run()

    def _closed(self, fd: int) -> None:
        self.reactor.deregister(fd)
        self._open.pop(fd).close()
        if not self._open:
            self.reactor.stop()

    def _adopt_socket(self, connection: socket.socket) -> None:
        recv, send, closed = connection.recv, connection.send, self._closed

        def on_readable(fd: int, _events: int) -> None:
            data = recv(RECEIVE_BYTES)
            if data:
                send(data)
            else:
                closed(fd)

        self.reactor.register(connection.fileno(), READABLE, on_readable)

    def _adopt_number(self, connection: socket.socket) -> None:
        read, write, closed = os.read, os.write, self._closed

        def on_readable(fd: int, _events: int) -> None:
            data = read(fd, RECEIVE_BYTES)
            if data:
                write(fd, data)
            else:
                closed(fd)

        self.reactor.register(connection.fileno(), READABLE, on_readable)

    def _adopt_compiled(self, connection: socket.socket) -> None:
        raise NotImplementedError
