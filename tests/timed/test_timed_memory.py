"""Nothing is kept longer than it is needed, and what is dropped is let go."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

from penstock import ManualClock
from penstock.timed import (
    Environment,
    LogicalAction,
    Output,
    PhysicalAction,
    Reactor,
    Startup,
    Tag,
    ms,
    reaction,
    run,
    us,
)


class Value:
    """Something that can be watched."""


class Keeper(Reactor):
    start = Startup()
    later = LogicalAction[Any](policy="replace")
    y = Output(object)

    def __init__(self) -> None:
        self.watched: list[weakref.ref[Value]] = []

    def fresh(self) -> Value:
        value = Value()
        self.watched.append(weakref.ref(value))
        return value

    @reaction(start, effects=[y, later])
    def go(self) -> None:
        for _ in range(3):
            self.y.set(self.fresh())
            self.later.schedule(self.fresh(), delay=ms(1))
        self.later.schedule(self.fresh(), delay=ms(50))

    def alive(self) -> int:
        gc.collect()
        return sum(one() is not None for one in self.watched)


def test_values_are_let_go() -> None:
    main = Keeper()
    environment = run(main, fast=True, timeout=ms(10))
    # The last value of the port and of the action can still be read; what was replaced or is beyond the stop is gone.
    assert len(main.watched) == 7
    assert main.alive() == 2
    del environment
    main._environment = None
    assert main.later.value is main.watched[5]()


@pytest.mark.parametrize("overflow", ["drop-oldest", "drop-newest", "coalesce"])
def test_an_overflow_lets_go(overflow: Any) -> None:
    class Main(Reactor):
        arrival = PhysicalAction[Any](capacity=2, overflow=overflow)

    main = Main()
    environment = Environment(main, clock=ManualClock(), timeout=ms(3))
    watched: list[weakref.ref[Value]] = []
    alive: list[int] = []

    def flood(_: Tag) -> None:
        for number in range(5):
            value = Value()
            watched.append(weakref.ref(value))
            main.arrival.schedule(value, delay=us(number + 1))
            del value
        alive.append(sum(one() is not None for one in watched))

    environment.scheduler.schedule_system(Tag(ms(1), 0), flood)
    environment.run()
    assert alive == [2]


def test_a_program_is_collected_when_it_is_done() -> None:
    environment = run(Keeper(), fast=True, timeout=ms(10))
    gone = weakref.ref(environment), weakref.ref(environment.main)
    del environment
    gc.collect()
    assert [one() for one in gone] == [None, None]


def test_pending_events_of_a_program_that_never_ran_are_let_go() -> None:
    main = Keeper()
    environment = Environment(main, fast=True, timeout=ms(100))
    environment.scheduler.begin(0)
    environment.scheduler.step(2)
    assert environment.scheduler.pending_count() == 2
    watched = main.watched
    del environment, main
    gc.collect()
    assert [one() for one in watched] == [None] * 7
