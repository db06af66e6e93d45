"""The programs of `timed_programs.py` for xronos (PyPI). Imported only where xronos is installed."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

import xronos

PIPE_LENGTH = 10


class Ping(xronos.Reactor):
    """Sends, waits for the answer, and sends again."""

    receive = xronos.InputPortDeclaration[int]()
    send = xronos.OutputPortDeclaration[int]()
    serve = xronos.ProgrammableTimerDeclaration[None]()

    def __init__(self, count: int) -> None:
        super().__init__()
        self.left = count

    @xronos.reaction
    def go(self, interface: xronos.ReactionContext) -> Callable[[], None]:
        interface.add_trigger(self.startup)
        interface.add_trigger(self.serve)
        send = interface.add_effect(self.send)

        def handler() -> None:
            send.set(self.left)

        return handler

    @xronos.reaction
    def back(self, interface: xronos.ReactionContext) -> Callable[[], None]:
        interface.add_trigger(self.receive)
        serve = interface.add_effect(self.serve)
        none = datetime.timedelta(0)

        def handler() -> None:
            self.left -= 1
            if self.left > 0:
                serve.schedule(None, none)

        return handler


class Stage(xronos.Reactor):
    """Passes on; also the pong of ping-pong."""

    taken = xronos.InputPortDeclaration[int]()
    out = xronos.OutputPortDeclaration[int]()

    @xronos.reaction
    def go(self, interface: xronos.ReactionContext) -> Callable[[], None]:
        taken = interface.add_trigger(self.taken)
        out = interface.add_effect(self.out)

        def handler() -> None:
            out.set(taken.get())

        return handler


class Source(xronos.Reactor):
    """Counts every millisecond."""

    tick = xronos.PeriodicTimerDeclaration(period=datetime.timedelta(milliseconds=1))
    out = xronos.OutputPortDeclaration[int]()

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    @xronos.reaction
    def go(self, interface: xronos.ReactionContext) -> Callable[[], None]:
        interface.add_trigger(self.tick)
        out = interface.add_effect(self.out)

        def handler() -> None:
            self.count += 1
            out.set(self.count)

        return handler


def ping_pong(rounds: int) -> tuple[int, Callable[[], Any]]:
    """How many reactions will run, and what runs them."""
    environment = xronos.Environment(fast=True)
    ping = environment.create_reactor("ping", Ping, count=rounds)
    pong = environment.create_reactor("pong", Stage)
    environment.connect(ping.send, pong.taken)
    environment.connect(pong.out, ping.receive)
    return 3 * rounds, environment.execute


def pipe(rounds: int) -> tuple[int, Callable[[], Any]]:
    """The same for the pipe."""
    environment = xronos.Environment(fast=True, timeout=datetime.timedelta(milliseconds=rounds - 1))
    out = environment.create_reactor("source", Source).out
    for number in range(PIPE_LENGTH - 1):
        stage = environment.create_reactor(f"stage{number}", Stage)
        environment.connect(out, stage.taken)
        out = stage.out
    return PIPE_LENGTH * rounds, environment.execute
