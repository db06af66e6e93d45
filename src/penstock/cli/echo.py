"""`penstock echo`: a TCP server that sends back what it gets, under backpressure.

It is the smallest complete server on `penstock.net`, and what the echo benchmark drives: a peer that does not read is
not read from, a silent one is closed after `--idle` seconds. This file must not know how streams work: it only connects
them.
"""

from __future__ import annotations

import argparse
import signal
from functools import partial
from typing import Any, Final, TextIO

from penstock.cli.arguments import whole_number
from penstock.net import Listener, Stream, StreamOptions, counters, show
from penstock.reactor import Reactor

NAME: Final = "echo"
SUMMARY: Final = "serve TCP connections and send back what they send"

_DEFAULT_PORT: Final = 7_000
_DEFAULT_IDLE_S: Final = 30
_IDLE_MAX_S: Final = 86_400


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare what the command understands."""
    parser.add_argument(
        "--mode",
        choices=("lt", "et"),
        default="lt",
        help="level- or edge-triggered descriptors (default: %(default)s)",
    )
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        metavar="ADDRESS",
        help="the literal address to listen on (default: %(default)s)",
    )
    parser.add_argument(
        "--port",
        type=whole_number(0, 65_535),
        default=_DEFAULT_PORT,
        metavar="N",
        help="the port to listen on; 0 lets the system choose (default: %(default)s)",
    )
    parser.add_argument(
        "--idle",
        type=whole_number(0, _IDLE_MAX_S),
        default=_DEFAULT_IDLE_S,
        metavar="SECONDS",
        help="close a connection that was silent for so long; 0 never does (default: %(default)s)",
    )


def run(options: argparse.Namespace, out: TextIO) -> None:
    """Serve until SIGTERM or Ctrl-C; print where, and in the end what there was."""
    habits = StreamOptions(mode=options.mode, idle=options.idle or None)
    with Reactor(name="echo") as reactor:
        listener = Listener(reactor, (options.host, options.port), echo, options=habits)
        reactor.add_signal(signal.SIGTERM, reactor.stop)
        try:
            out.write(f"listening on {show(listener.address)} ({options.mode})\n")
            out.flush()
            reactor.run()
        finally:
            out.write(summary(counters(reactor)))


def echo(stream: Stream) -> None:
    """Send back what a connection sends; read no more from a peer that does not read."""
    stream.on_data = partial(answer, stream, stream.write)
    stream.on_drain = stream.resume


def answer(stream: Stream, write: Any, data: bytes) -> None:
    """Send it back; stop reading until what waits is sent."""
    if not write(data):
        stream.pause()


def summary(counted: dict[str, Any]) -> str:
    """Return one line that says what there was."""
    ends = ", ".join(f"{count:,} {word}" for word, count in counted["ends"].items() if count) or "none ended"
    return (
        f"served {counted['accepted']:,} connections, {counted['received_bytes']:,} bytes in, "
        f"{counted['sent_bytes']:,} bytes out ({ends})\n"
    )
