"""Servers that the scripts of this folder start in processes of their own: `python servers.py pour|linger|idle`.

pour     writes to each connection as much as it takes, for ever; a peer that is slow makes it wait
linger   fills each connection until it blocks; closes all with a linger of 1 s when 20 are there
idle     closes connections that were idle for IDLE_S, and tells how exactly
"""

from __future__ import annotations

import signal
import sys
from typing import Any

from penstock import Reactor
from penstock.net import Listener, Stream, StreamOptions, counters, show

PIECE = b"x" * 65_536
LINGERING = 20
IDLE_S = 2.0
# More than the system buffers for a peer that does not read.
MUCH = StreamOptions(cap_bytes=1 << 24, high_bytes=1 << 23)
POUR = StreamOptions(cap_bytes=1 << 18, high_bytes=1 << 17)


def pour(_reactor: Reactor, stream: Stream) -> None:
    def more() -> None:
        while stream.write(PIECE):
            pass

    stream.on_drain = more
    more()


class Lingering:
    """Closes 20 at once, and tells how long that took."""

    def __init__(self) -> None:
        self.streams: list[Stream] = []
        self.gone = 0

    def __call__(self, reactor: Reactor, stream: Stream) -> None:
        while stream.write(PIECE):
            pass
        self.streams.append(stream)
        if len(self.streams) < LINGERING:
            return
        began_ns = reactor.now_ns()

        def closed(reason: str) -> None:
            self.gone += 1
            if self.gone == LINGERING:
                print(f"all {LINGERING} gone after {(reactor.now_ns() - began_ns) / 1e6:.1f} ms ({reason})", flush=True)

        for each in self.streams:
            each.on_close = closed
            each.close(linger=1)


class Idle:
    """Takes note how long each connection was idle when it was closed."""

    def __init__(self) -> None:
        self.late_ns: list[int] = []

    def __call__(self, reactor: Reactor, stream: Stream) -> None:
        stream.on_data = len
        stream.on_close = lambda reason: self.closed(reactor, stream, reason)

    def closed(self, reactor: Reactor, stream: Stream, reason: str) -> None:
        if reason == "idle":
            self.late_ns.append(reactor.now_ns() - stream.active_ns - int(IDLE_S * 1e9))

    def report(self) -> str:
        late = sorted(self.late_ns)
        if not late:
            return "none was idle"
        earliest, p99, latest = (late[place] / 1e3 for place in (0, len(late) * 99 // 100, -1))
        return f"idle {len(late)} earliest_us {earliest:.0f} p99_us {p99:.0f} latest_us {latest:.0f}"


def main() -> None:
    kind = sys.argv[1]
    idle = Idle()
    accepts: dict[str, Any] = {"pour": pour, "linger": Lingering(), "idle": idle}
    accept = accepts[kind]
    options = {"pour": POUR, "linger": MUCH, "idle": StreamOptions(idle=IDLE_S)}[kind]
    with Reactor() as reactor:
        listener = Listener(reactor, ("127.0.0.1", 0), lambda stream: accept(reactor, stream), options=options)
        print(show(listener.address), flush=True)
        reactor.add_signal(signal.SIGTERM, reactor.stop)
        reactor.run()
        if kind == "idle":
            print(idle.report())
        print({word: count for word, count in counters(reactor)["ends"].items() if count})


if __name__ == "__main__":
    main()
