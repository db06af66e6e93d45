"""Timed programs to measure: ping-pong and a timer pipe, on Penstock and on xronos, with the same Python bodies.

This file must not know how they are measured.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.timed import (
    Environment,
    Input,
    LogicalAction,
    Output,
    Reactor,
    Startup,
    Timer,
    ms,
    reaction,
)

PIPE_LENGTH = 10


class Ping(Reactor):
    """Sends, waits for the answer, and sends again at the next microstep."""

    start = Startup()
    receive = Input(int)
    send = Output(int)
    serve = LogicalAction[None]()

    def __init__(self, count: int) -> None:
        self.left = count

    @reaction(start, serve, effects=[send])
    def go(self) -> None:
        self.send.set(self.left)

    @reaction(receive, effects=[serve])
    def back(self) -> None:
        self.left -= 1
        if self.left > 0:
            self.serve.schedule()


class Pong(Reactor):
    """Sends back."""

    receive = Input(int)
    send = Output(int)

    @reaction(receive, effects=[send])
    def echo(self) -> None:
        self.send.set(self.receive.value)


class PingPong(Reactor):
    """Both."""

    def __init__(self, count: int) -> None:
        self.ping, self.pong = Ping(count), Pong()
        self.connect(self.ping.send, self.pong.receive)
        self.connect(self.pong.send, self.ping.receive)


class Source(Reactor):
    """Counts every millisecond."""

    tick = Timer(period=ms(1))
    out = Output(int)

    def __init__(self) -> None:
        self.count = 0

    @reaction(tick, effects=[out])
    def go(self) -> None:
        self.count += 1
        self.out.set(self.count)


class Stage(Reactor):
    """Passes on."""

    taken = Input(int)
    out = Output(int)

    @reaction(taken, effects=[out])
    def go(self) -> None:
        self.out.set(self.taken.value)


class Pipe(Reactor):
    """A timer and nine stages behind it: ten reactions per tag."""

    def __init__(self) -> None:
        self.source = Source()
        self.stages = [Stage() for _ in range(PIPE_LENGTH - 1)]
        outs = [self.source.out, *(stage.out for stage in self.stages[:-1])]
        self.connect(outs, [stage.taken for stage in self.stages])


def penstock_ping_pong(rounds: int) -> tuple[int, Callable[[], object]]:
    """How many reactions will run, and what runs them."""
    return 3 * rounds, Environment(PingPong(rounds), fast=True).run


def penstock_pipe(rounds: int) -> tuple[int, Callable[[], object]]:
    """The same for the pipe."""
    return PIPE_LENGTH * rounds, Environment(Pipe(), fast=True, timeout=ms(rounds - 1)).run
