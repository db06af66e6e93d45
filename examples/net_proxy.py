"""A TCP proxy. Whoever is slow slows the sender, through the proxy, and the proxy holds a bounded amount of bytes.

    python examples/net_proxy.py 127.0.0.1:7002 127.0.0.1:80

Each connection is a pair of streams. When one side's write buffer is above its high watermark, nothing is read from the
other side until it has drained: so the kernel's buffers fill up, and the sender has to wait. An end of one direction is
passed on, and the other direction goes on; a failure of one side resets the other.
"""

from __future__ import annotations

import argparse
import signal
import sys
from functools import partial
from typing import TextIO

from penstock import Reactor
from penstock.net import Address, Listener, Stream, StreamOptions, connect, parse, show

HABITS = StreamOptions(high_bytes=65_536, low_bytes=16_384, cap_bytes=262_144)


def pass_on(source: Stream, target: Stream, data: bytes) -> None:
    """What one side sent goes to the other one; if that is behind, the source has to wait."""
    if not target.write(data):
        source.pause()


def join(one: Stream, other: Stream) -> None:
    """Let two streams be one connection."""
    for source, target in ((one, other), (other, one)):
        source.on_data = partial(pass_on, source, target)
        source.on_eof = target.end_writing
        source.on_drain = target.resume
        source.on_close = partial(ended, target)


def ended(other: Stream, reason: str) -> None:
    """One side is over: what waits for the other one is still sent, unless this was a failure."""
    if reason in ("closed", "eof"):
        other.close()
    else:
        other.abort()


class Proxy:
    """Listens, and connects each connection to the target."""

    def __init__(self, reactor: Reactor, where: Address, target: Address, connect_timeout: float) -> None:
        self.reactor = reactor
        self.target = target
        self.connect_timeout = connect_timeout
        self.listener = Listener(reactor, where, self.accept, options=HABITS)

    def accept(self, client: Stream) -> None:
        """Nothing is read from the client before the target is there: without `on_data` it waits in the kernel."""
        server = connect(self.reactor, self.target, options=HABITS, timeout=self.connect_timeout)
        server.on_connect = partial(join, client, server)
        server.on_close = partial(ended, client)
        client.on_close = partial(ended, server)


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Pass TCP connections on, with backpressure through both sides.")
    parser.add_argument("listen", type=parse, help="where to listen: HOST:PORT, [V6]:PORT or unix:PATH; port 0: any")
    parser.add_argument("target", type=parse, help="where to connect to, in the same form")
    parser.add_argument(
        "--connect-timeout", type=float, default=10, metavar="SECONDS", help="for the target (default: %(default)s)"
    )
    return parser


def serve(options: argparse.Namespace, out: TextIO) -> None:
    """Serve until SIGTERM or Ctrl-C."""
    with Reactor(name="proxy") as reactor:
        proxy = Proxy(reactor, options.listen, options.target, options.connect_timeout)
        for number in (signal.SIGTERM, signal.SIGINT):
            reactor.add_signal(number, reactor.stop)
        print(f"listening on {show(proxy.listener.address)}, for {show(options.target)}", file=out, flush=True)
        reactor.run()


if __name__ == "__main__":
    serve(arguments().parse_args(), sys.stdout)
