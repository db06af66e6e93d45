"""A chat server. A reader that is slow loses lines, and is told how many; nobody waits for it, and nobody loses more.

The first line that somebody sends is their name; every other one goes to all the others.

    python examples/net_chat.py --port 7001
    nc 127.0.0.1 7001

A line is written to everybody at once. What one of them does not take waits in that stream's own buffer; above its cap
the stream drops what is newest (`overflow="drop-newest"`), and `write` says so to nobody but the room, which counts.
"""

from __future__ import annotations

import argparse
import signal
import sys
from functools import partial
from typing import TextIO

from penstock import Reactor
from penstock.cli.arguments import whole_number
from penstock.net import Listener, Stream, StreamOptions, show
from penstock.net.address import parse

LINE_MAX_BYTES = 1_024
NAME_MAX_BYTES = 32
HABITS = StreamOptions(cap_bytes=65_536, high_bytes=16_384, low_bytes=4_096, overflow="drop-newest", idle=600)


class Guest:
    """One connection: its name, half a line, and how many lines it has missed."""

    def __init__(self, room: Room, stream: Stream) -> None:
        self.room = room
        self.stream = stream
        self.name = b""
        self.rest = b""
        self.missed = 0
        stream.on_data = self.heard
        stream.on_drain = self.caught_up
        stream.on_close = partial(room.left, self)
        stream.write(b"your name?\n")

    def heard(self, data: bytes) -> None:
        """Take whole lines; a line without an end is an end."""
        *lines, self.rest = (self.rest + data).split(b"\n")
        for line in lines:
            self.said(line.strip()[:LINE_MAX_BYTES])
        if len(self.rest) > LINE_MAX_BYTES:
            self.stream.close()

    def said(self, line: bytes) -> None:
        if self.name:
            self.room.tell(self.name + b": " + line + b"\n", self)
        elif line:
            self.name = line[:NAME_MAX_BYTES]
            self.room.tell(b"* " + self.name + b" is here\n", self)

    def tell(self, line: bytes) -> None:
        """Send a line, unless this reader is behind."""
        if self.stream.congested:
            self.missed += 1
        else:
            self.stream.write(line)

    def caught_up(self) -> None:
        """It reads again."""
        missed, self.missed = self.missed, 0
        if missed:
            self.stream.write(b"* you missed %d lines\n" % missed)


class Room:
    """Everybody who is here."""

    def __init__(self) -> None:
        self.guests: dict[Stream, Guest] = {}

    def came(self, stream: Stream) -> None:
        self.guests[stream] = Guest(self, stream)

    def left(self, guest: Guest, _reason: str) -> None:
        del self.guests[guest.stream]
        if guest.name:
            self.tell(b"* " + guest.name + b" has left\n", guest)

    def tell(self, line: bytes, speaker: Guest) -> None:
        for guest in list(self.guests.values()):
            if guest is not speaker and guest.name:
                guest.tell(line)


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="A chat server that a slow reader does not slow down.")
    parser.add_argument(
        "--host", default="127.0.0.1", metavar="ADDRESS", help="the literal address to listen on (default: %(default)s)"
    )
    parser.add_argument(
        "--port",
        type=whole_number(0, 65_535),
        default=7_001,
        metavar="N",
        help="the port; 0: any (default: %(default)s)",
    )
    parser.add_argument(
        "--guests",
        type=whole_number(1, 100_000),
        default=1_000,
        metavar="N",
        help="at most so many (default: %(default)s)",
    )
    return parser


def serve(options: argparse.Namespace, out: TextIO) -> None:
    """Serve until SIGTERM or Ctrl-C."""
    room = Room()
    with Reactor(name="chat") as reactor:
        where = parse(f"[{options.host}]:{options.port}" if ":" in options.host else f"{options.host}:{options.port}")
        listener = Listener(reactor, where, room.came, options=HABITS, connections_max=options.guests)
        for number in (signal.SIGTERM, signal.SIGINT):
            reactor.add_signal(number, reactor.stop)
        print(f"listening on {show(listener.address)}", file=out, flush=True)
        reactor.run()


if __name__ == "__main__":
    serve(arguments().parse_args(), sys.stdout)
