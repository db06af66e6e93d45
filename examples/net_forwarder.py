"""A port forwarder with limits: how many connections in all and from one address, how long each may be silent and last.

    python examples/net_forwarder.py 127.0.0.1:7003=127.0.0.1:80 127.0.0.1:7004=127.0.0.1:443 --per-address 10

It is the proxy of net_proxy.py behind listeners with limits. Who comes when all places are taken is refused, or takes the
place of the connection that was silent for longest (`--when-full evict`). On leaving it says what it has refused and why
connections ended.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections import Counter
from functools import partial
from pathlib import Path
from typing import TextIO

sys.path.insert(0, str(Path(__file__).resolve().parent))
from net_proxy import ended, join

from penstock import Reactor, UsageError
from penstock.cli.arguments import whole_number
from penstock.net import Address, Listener, Stream, StreamOptions, connect, counters, parse, show

DAY_S = 86_400


def rule(text: str) -> tuple[Address, Address]:
    """Read `LISTEN=TARGET`."""
    where, equals, target = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is no rule; give LISTEN=TARGET, as in 127.0.0.1:7003=127.0.0.1:80")
    try:
        return parse(where), parse(target)
    except UsageError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


class Forwarder:
    """One rule: a listener with limits, and the target of its connections."""

    def __init__(self, reactor: Reactor, options: argparse.Namespace, where: Address, target: Address) -> None:
        self.reactor = reactor
        self.target = target
        self.refused: Counter[str] = Counter()
        self.habits = StreamOptions(idle=options.idle or None, deadline=options.lifetime or None)
        self.listener = Listener(
            reactor,
            where,
            self.accept,
            options=self.habits,
            connections_max=options.connections,
            per_address_max=options.per_address,
            when_full=options.when_full,
            on_refuse=self.refuse,
        )

    def refuse(self, limit: str) -> None:
        self.refused[limit] += 1

    def accept(self, client: Stream) -> None:
        server = connect(self.reactor, self.target, options=self.habits, timeout=10)
        server.on_connect = partial(join, client, server)
        server.on_close = partial(ended, client)
        client.on_close = partial(ended, server)


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Forward ports, within limits.")
    parser.add_argument("rules", type=rule, nargs="+", metavar="LISTEN=TARGET", help="what to forward where")
    parser.add_argument(
        "--connections",
        type=whole_number(1, 100_000),
        default=1_000,
        metavar="N",
        help="for each rule (default: %(default)s)",
    )
    parser.add_argument(
        "--per-address", type=whole_number(1, 100_000), metavar="N", help="from one address (default: no limit)"
    )
    parser.add_argument(
        "--when-full",
        choices=("refuse", "evict"),
        default="refuse",
        help="refuse who comes, or evict who was silent for longest (default: %(default)s)",
    )
    parser.add_argument(
        "--idle",
        type=whole_number(0, DAY_S),
        default=300,
        metavar="SECONDS",
        help="of silence; 0: any (default: %(default)s)",
    )
    parser.add_argument(
        "--lifetime",
        type=whole_number(0, DAY_S),
        default=0,
        metavar="SECONDS",
        help="in all; 0: any (default: %(default)s)",
    )
    return parser


def serve(options: argparse.Namespace, out: TextIO) -> None:
    """Serve until SIGTERM or Ctrl-C."""
    with Reactor(name="forwarder") as reactor:
        every = [Forwarder(reactor, options, where, target) for where, target in options.rules]
        for number in (signal.SIGTERM, signal.SIGINT):
            reactor.add_signal(number, reactor.stop)
        for one in every:
            print(f"listening on {show(one.listener.address)}, for {show(one.target)}", file=out, flush=True)
        reactor.run()
        ends = {word: count for word, count in counters(reactor)["ends"].items() if count}
        print(f"refused {dict(sum((one.refused for one in every), Counter()))}, ended {ends}", file=out, flush=True)


if __name__ == "__main__":
    serve(arguments().parse_args(), sys.stdout)
