"""penstock's reactor, used as its documentation tells users to.

Forms of the echo server:

- `sock`: `register(fd, READABLE, callback)`, the callback uses the socket's recv and send;
- `os`: the same with os.read and os.write;
- `stream`: a `penstock.net.Stream` per connection; the callback gets the bytes and writes them back;
- `c`: the compiled echo handler of `penstock.testing.native`, no Python per message.
"""

from __future__ import annotations

import importlib.metadata
import os
import socket
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from contenders.base import RECEIVE_BYTES, Callback, Contender, noop
from contenders.sockets import accept_all, listen_on_loopback, port_of
from penstock import READABLE, Reactor

# How often the compiled server looks whether it has served everybody.
END_LOOK_S = 0.05


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
        if form == "c":
            self._serve_compiled(announce)
        elif form == "stream":
            self._serve_streams(announce)
        else:
            self._serve_python({"sock": self._adopt_socket, "os": self._adopt_number}[form], announce)

    def _serve_python(self, adopt: Callable[[socket.socket], None], announce: Callable[[int], None]) -> None:
        reactor, listener = self.reactor, listen_on_loopback()
        self._open: dict[int, socket.socket] = {}

        def on_accept(_fd: int, _events: int) -> None:
            for connection in accept_all(listener):
                self._open[connection.fileno()] = connection
                adopt(connection)

        reactor.register(listener.fileno(), READABLE, on_accept)
        announce(port_of(listener))
        reactor.run()

    def _serve_streams(self, announce: Callable[[int], None]) -> None:
        from penstock.net import Listener, Stream

        streams = set()

        def on_accept(stream: Stream) -> None:
            write = stream.write
            streams.add(stream)

            def on_data(data: bytes) -> None:
                write(data)

            def on_close(_reason: str) -> None:
                streams.remove(stream)
                if not streams:
                    self.reactor.stop()

            stream.on_data = on_data
            stream.on_close = on_close

        listener = Listener(self.reactor, ("127.0.0.1", 0), on_accept)
        address = listener.address
        assert isinstance(address, tuple)
        announce(address[1])
        self.reactor.run()

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

    def _serve_compiled(self, announce: Callable[[int], None]) -> None:
        from penstock.testing.native import EchoServer

        listener = listen_on_loopback()
        echo = EchoServer(self.reactor, listener.fileno())

        def look() -> None:
            counters = echo.counters()
            if counters["short_writes"]:
                raise SystemExit(f"an answer did not fit into the socket: {counters}")
            if counters["accepted"] and counters["accepted"] == counters["closed"]:
                self.reactor.stop()

        self.reactor.set_interval(END_LOOK_S, look)
        announce(port_of(listener))
        self.reactor.run()

    def count_ready(self, fds: Sequence[int], turns: int, *, timed: bool) -> list[int]:
        """Let a compiled handler count `fds`, all ready all the time, for some turns.

        Returns per turn the nanoseconds between the first call and the last (0 where they are not timed).
        """
        from penstock.testing.native import Counter

        counter, spans = Counter(self.reactor, timed=timed), []
        for fd in fds:
            counter.register(fd)
        for _ in range(turns):
            counter.reset()
            self.reactor.run_once(0)
            if counter.calls != len(fds):
                raise AssertionError(f"{counter.calls} calls in a turn with {len(fds)} ready descriptors")
            spans.append(counter.span_ns)
        return spans
