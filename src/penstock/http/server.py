"""A server on one loop: where it listens, what it serves, how it leaves.

```python
from penstock.http import Response, Server

def handler(request):
    return Response(200, f"you asked for {request.path}\\n")

with Server(handler, port=0) as server:
    print(server.url)
    server.run()
```

A server that drains accepts what has connected already, answers everything that was asked, and ends when the last
connection has. This file must not know processes, configuration files or the command line.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from typing import Any, Protocol

from penstock import limits
from penstock.http.admission import Admission
from penstock.http.engine import Engine
from penstock.http.exchange import Request
from penstock.http.files import Files
from penstock.http.log import Log
from penstock.http.message import Response
from penstock.http.options import DEFAULT, HttpOptions
from penstock.net import Listener
from penstock.net.stream import Stream
from penstock.reactor import Reactor

Handler = Callable[[Request], Response | None]
Address = tuple[str, int] | str


class Secure(Protocol):
    """What makes connections private."""

    def begin(self, engine: Engine, stream: Stream) -> None:
        """Take a fresh connection over, and give the engine what it says in clear."""

    def counters(self) -> dict[str, Any]:
        """Everything that is counted."""


class Server:
    """Answers HTTP/1.1 on one loop.

    `handler(request)` returns a `Response`, or None to answer later; `files` is a `Files` or the path of a directory to
    serve, below `prefix` if there is a handler as well. It listens on `host` and `port` (0: the system chooses), or on the
    path `unix`, or on `fd`, a listening socket that was inherited. `health` is the path of health checks, which get a
    place even when the server is overloaded. With `streaming`, requests reach the handler before their content does;
    with `spooling`, content above `max_body_kept` is kept in a file without a name.
    """

    def __init__(
        self,
        handler: Handler | None = None,
        *,
        reactor: Reactor | None = None,
        host: str = "127.0.0.1",
        port: int = 8000,
        unix: str | None = None,
        fd: int | socket.socket | None = None,
        files: Files | str | os.PathLike[str] | None = None,
        prefix: str = "",
        options: HttpOptions = DEFAULT,
        log: Log | None = None,
        health: str = "",
        streaming: bool = False,
        spooling: bool = False,
        secure: Secure | None = None,
        reuse_port: bool = False,
        dual_stack: bool = False,
        on_error: Callable[[Exception, object], object] | None = None,
    ) -> None:
        self.options = options
        self._own_reactor = reactor is None
        opened = Files(files) if isinstance(files, str | os.PathLike) else files
        self.reactor = Reactor() if reactor is None else reactor
        self.listener: Listener | None = None
        self._drained: Callable[[], object] | None = None
        self._timers: list[Any] = []
        self.closed = False
        try:
            self.engine = Engine(
                self.reactor,
                admission=Admission(
                    max_in_work=options.max_requests_in_work,
                    max_queued=options.max_requests_queued,
                    deadline_ns=options.ns("deadline"),
                ),
                files=opened,
                handler=handler,
                log=log,
                options=options,
                prefix=prefix.encode(),
                health=health.encode(),
                streaming=streaming,
                spooling=spooling,
                secure=secure,
                on_error=on_error,
            )
            address: Address = (host, port) if unix is None else unix
            self._listen(None if fd is not None else address, fd, reuse_port, dual_stack)
        except BaseException:
            self._let_go()
            raise

    def _listen(self, address: Address | None, fd: Any, reuse_port: bool, dual_stack: bool) -> None:
        self.listener = Listener(
            self.reactor,
            address,
            self.engine.accept,
            fd=fd,
            reuse_port=reuse_port,
            dual_stack=dual_stack,
            # Behind a proxy everybody has its address here; the engine knows better.
            per_address_max=None if self.options.trusted else self.options.max_connections_per_address,
        )
        self._timers.append(
            self.reactor.set_interval(limits.HTTP_WALL_PERIOD_NS / limits.NS_PER_S, self._look_at_the_wall)
        )

    def _look_at_the_wall(self) -> None:
        """Somebody may have set the clock."""
        self.engine.set_wall_clock(time.time_ns())

    # ---- where ---------------------------------------------------------------------------------------------------------

    @property
    def address(self) -> Any:
        """Where it listens: (host, port), a path, or None when it does not."""
        return None if self.listener is None else self.listener.address

    @property
    def url(self) -> str:
        """The address for a browser; empty when it does not listen."""
        address = self.address
        scheme = "http" if self.engine.secure is None else "https"
        if address is None:
            return ""
        if isinstance(address, str):
            return f"{scheme}+unix://{address}"
        host, port = address[:2]
        return f"{scheme}://[{host}]:{port}/" if ":" in host else f"{scheme}://{host}:{port}/"

    # ---- running -------------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Serve until `stop`, or until a drain has ended."""
        self.reactor.run()

    def stop(self) -> None:
        """Let `run` return. From any thread, and from signal handlers."""
        self.reactor.stop()

    def drain(
        self, on_done: Callable[[], object] | None = None, *, on_deaf: Callable[[], object] | None = None
    ) -> None:
        """Leave: accept nothing more, answer what was asked, then call `on_done` (by default, `stop`).

        `on_deaf` is called when the last connection has been accepted. What is not through after the drain time-out is
        ended.
        """
        if self.engine.draining:
            return
        self._drained = self.stop if on_done is None else on_done
        self.engine.on_idle = self._is_drained
        self._timers.append(self.reactor.set_timeout(self.options.drain_timeout, self._drain_is_over))
        # What has connected is in the listener's queue; it is accepted in the next turns, before the listener closes.
        self.reactor.defer(self._stop_listening, on_deaf)

    def _stop_listening(self, on_deaf: Callable[[], object] | None) -> None:
        if self.listener is not None:
            self.listener.accept_all()
            self.listener.close()
        if on_deaf is not None:
            on_deaf()
        self.engine.drain()

    def _is_drained(self) -> None:
        done, self._drained = self._drained, None
        if done is not None:
            done()

    def _drain_is_over(self) -> None:
        self.engine.abort()

    # ---- looking in, ending --------------------------------------------------------------------------------------------

    def counters(self) -> dict[str, Any]:
        """Everything that is counted: connections, requests, refusals, files, the log."""
        engine = self.engine
        counted = engine.counters()
        counted["admission"] = engine.admission.counters()
        if engine.files is not None:
            counted["files"] = engine.files.counters()
        if engine.log is not None:
            counted["log"] = engine.log.counters()
        if engine.secure is not None:
            counted["tls"] = engine.secure.counters()
        counted["bounds"] = self._bounds(counted)
        counted["loop"] = self._loop_figures()
        return counted

    def _bounds(self, counted: dict[str, Any]) -> dict[str, list[int]]:
        """What is bounded, how much of it there is, and how much there may be."""
        admission, options = counted["admission"], self.options
        return {
            "connections": [counted["open"], options.max_connections],
            "requests waiting": [admission["waiting"], options.max_requests_queued],
            "requests in work": [admission["in_work"], min(admission["limit"], options.max_requests_in_work)],
        }

    def _loop_figures(self) -> dict[str, Any]:
        """What the loop has counted, as far as it tells how the server does."""
        stats = self.reactor.stats()
        return {
            "turns": stats.turns,
            "asleep_s": stats.asleep_ns / limits.NS_PER_S,
            "turn_ns": list(stats.turn_ns.buckets),
            "turn_total_ns": stats.turn_ns.total,
            "errors": stats.errors,
            "lanes": {
                lane.name: {"depth": lane.depth, "capacity": lane.capacity, "run": lane.run, "dropped": lane.dropped}
                for lane in stats.lanes
            },
        }

    def close(self) -> None:
        """End everything at once. Closing twice changes nothing."""
        if not self.closed:
            self.closed = True
            self._let_go()

    def _let_go(self) -> None:
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()
        if self.listener is not None:
            self.listener.close()
        engine = getattr(self, "engine", None)
        if self._own_reactor:
            self.reactor.close()
        elif engine is not None:
            engine.abort()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Server on {self.url or 'nothing'}, {self.engine.open:,} connections>"
