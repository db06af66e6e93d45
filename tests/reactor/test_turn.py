"""The turn: its order, drawn in docs/design.md and asserted here once, and that none of its steps is unbounded."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable
from typing import Any

import pytest

from penstock import READABLE, WRITABLE, Budget, ManualClock, Policy, Reactor
from penstock.core.poller.choice import available
from tests.reactor.conftest import PollInPython, join

Pipe = Callable[[], tuple[int, int]]
Make = Callable[..., Reactor]


class TurnWithEverything:
    """One turn in which every step has work, and everything that it did, in order."""

    def __init__(self, reactor: Reactor, pipe: Pipe, spawn: Callable[..., Any]) -> None:
        self.reactor = reactor
        self.log: list[str] = []
        self.readable, writer = pipe()
        _, self.writable = pipe()
        os.write(writer, b"x")
        # In the reverse of the expected order, so that the order of the calls explains nothing.
        lane = reactor.lane("lane", self.in_lane)
        reactor.post(lane, "event")
        reactor.defer(self.in_deferred)
        reactor.register(self.writable, 0, self.note)
        reactor.register(self.readable, READABLE, self.in_readiness)
        reactor.set_timeout(0, self.in_timer)
        join(spawn(reactor.defer_threadsafe, self.in_inbox))
        reactor.add_signal(signal.SIGUSR1, self.in_signal)
        os.kill(os.getpid(), signal.SIGUSR1)

    def note(self, *_: object) -> None:
        self.log.append("too early")

    def in_signal(self) -> None:
        # Steps 1 and 2 are over when the first handler runs.
        assert self.reactor.stats().polls == 1
        self.log.append("3 inbox: signal")

    def in_inbox(self) -> None:
        self.log.append("3 inbox: post")

    def in_timer(self) -> None:
        self.log.append("4 timers")

    def in_readiness(self, fd: int, events: int) -> None:
        self.log.append("5 readiness")
        self.reactor.modify(self.writable, WRITABLE)
        assert self.reactor.stats().changes == 0

    def in_deferred(self) -> None:
        if self.reactor.stats().changes == 1:
            self.log.append("6 changes")
        self.log.append("7 deferred")

    def in_lane(self, event: object) -> None:
        assert self.reactor.stats().turns == 0
        self.log.append("8 lanes")


@pytest.mark.parametrize("choice", [*available(), "in Python"])
def test_the_order_of_the_turn(choice: str, plain: Make, pipe: Pipe, spawn: Callable[..., Any]) -> None:
    reactor = plain(poller=PollInPython() if choice == "in Python" else choice)
    turn = TurnWithEverything(reactor, pipe, spawn)
    assert reactor.run_once(0) == 6
    assert turn.log == [
        "3 inbox: signal",
        "3 inbox: post",
        "4 timers",
        "5 readiness",
        "6 changes",
        "7 deferred",
        "8 lanes",
    ]
    # 9 account: the books of the turn are closed.
    stats = reactor.stats()
    line = stats.recorder[-1]
    assert (stats.turns, stats.polls) == (1, 1)
    assert (line.posts, line.timers, line.deferred, line.events) == (2, 1, 1, 1)
    assert line.left == ()


def test_work_that_a_handler_creates_runs_in_a_later_step_or_turn(reactor: Reactor, pipe: Pipe) -> None:
    log: list[tuple[int, str]] = []
    reader, writer = pipe()

    def create(step: str) -> None:
        note(step)
        reactor.set_timeout(0, note, f"{step}: timer")
        reactor.defer(note, f"{step}: deferred")
        reactor.post("lane", f"{step}: event")
        reactor.defer_threadsafe(note, f"{step}: post")

    def note(what: str) -> None:
        log.append((reactor.stats().turns, what))

    def readable(fd: int, events: int) -> None:
        os.read(fd, 1)
        create("readiness")

    reactor.lane("lane", lambda event: create("lane") if event == "first" else note(event))
    reactor.post("lane", "first")
    reactor.defer(create, "deferred")
    reactor.register(reader, READABLE, readable)
    os.write(writer, b"x")
    reactor.set_timeout(0, create, "timer")
    reactor.defer_threadsafe(create, "inbox")
    for _ in range(3):
        reactor.run_once(0)

    turns = {what: turn for turn, what in log}
    steps = ["inbox", "timer", "readiness", "deferred", "lane"]
    assert [turns[step] for step in steps] == [0] * 5
    later = {
        "inbox": {"post": 1, "timer": 1, "deferred": 0, "event": 0},
        "timer": {"post": 1, "timer": 1, "deferred": 0, "event": 0},
        "readiness": {"post": 1, "timer": 1, "deferred": 0, "event": 0},
        "deferred": {"post": 1, "timer": 1, "deferred": 1, "event": 0},
        "lane": {"post": 1, "timer": 1, "deferred": 1, "event": 1},
    }
    assert {step: {kind: turns[f"{step}: {kind}"] for kind in kinds} for step, kinds in later.items()} == later


def test_deferred_tasks_run_one_generation_a_turn(reactor: Reactor) -> None:
    generations: list[int] = []

    def again(number: int) -> None:
        generations.append(number)
        reactor.defer(again, number + 1)
        reactor.defer(generations.append, -number)

    reactor.defer(again, 1)
    for expected in ([1], [1, 2, -1], [1, 2, -1, 3, -2]):
        reactor.run_once(0)
        assert sorted(generations) == sorted(expected)


@pytest.mark.parametrize("budget", [1, 3])
def test_the_timer_step_stops_at_its_budget(make: Make, budget: int) -> None:
    reactor = make(policy=Policy(timer_budget=budget), clock=ManualClock())
    fired: list[int] = []
    for number in range(7):
        reactor.set_timeout(0, fired.append, number)
    turns = 0
    while len(fired) < 7:
        assert reactor.run_once(0) <= budget
        turns += 1
        assert len(fired) == min(7, turns * budget)
    assert fired == list(range(7))
    assert reactor.stats().timers_left == -(-7 // budget) - 1


def test_the_inbox_step_stops_at_its_budget(make: Make) -> None:
    reactor = make(policy=Policy(inbox_budget=2))
    seen: list[int] = []
    for number in range(5):
        reactor.defer_threadsafe(seen.append, number)
    assert [reactor.run_once(0) for _ in range(3)] == [2, 2, 1]
    assert seen == [0, 1, 2, 3, 4]
    assert reactor.stats().inbox_left == 2
    assert [line.left for line in reactor.stats().recorder] == [("inbox",), ("inbox",), ()]


def test_the_poll_takes_at_most_a_batch_and_nobody_starves(make: Make, pipe: Pipe) -> None:
    reactor = make(policy=Policy(ready_batch=4))
    called: dict[int, int] = {}

    def ready(fd: int, events: int) -> None:
        called[fd] = called.get(fd, 0) + 1

    for _ in range(10):
        reader, writer = pipe()
        os.write(writer, b"x")
        reactor.register(reader, READABLE, ready)
    for _ in range(5):
        assert reactor.run_once(0) == 4
    # 20 calls: everybody had the first before anybody had the third.
    assert sorted(called.values()) == [2] * 10
    assert reactor.stats().batch.highest == 4


@pytest.mark.parametrize("budget", [1, 4])
def test_a_lane_stops_at_its_budget_and_the_rest_waits(make: Make, budget: int) -> None:
    reactor = make()
    seen: list[int] = []
    lane = reactor.lane("lane", seen.append, budget=budget)
    for number in range(6):
        assert reactor.post(lane, number)
    turns = 0
    while len(seen) < 6:
        reactor.run_once(0)
        turns += 1
        assert len(seen) == min(6, turns * budget)
    assert seen == list(range(6))
    assert reactor.stats().lane("lane").denied == turns - 1
    assert reactor.stats().lanes_left == turns - 1


def test_lanes_run_by_priority_then_in_the_order_of_their_making(reactor: Reactor) -> None:
    order: list[str] = []
    for name, priority in (("low", -5), ("first", 0), ("second", 0), ("high", 5)):
        reactor.lane(name, order.append, priority=priority)
        reactor.post(name, name)
    reactor.run_once(0)
    assert order == ["high", "first", "second", "low"]


def test_a_lane_whose_budget_is_per_tick_waits_for_the_tick(make: Make) -> None:
    clock = ManualClock()
    reactor = make(clock=clock, policy=Policy(tick_period_ns=1_000_000))
    seen: list[tuple[int, int]] = []
    reactor.lane("lane", lambda event: seen.append((event, clock.now_ns())), budget=Budget(2, per="tick"))
    for number in range(5):
        reactor.post("lane", number)
    while len(seen) < 5:
        # With a manual clock the wait for the tick jumps to it: no wait is longer than that.
        assert reactor.run_once(1.0)
    assert seen == [(0, 0), (1, 0), (2, 1_000_000), (3, 1_000_000), (4, 2_000_000)]
    assert reactor.stats().ticks == 2


def test_a_flood_of_deferred_tasks_does_not_keep_timers_waiting(make: Make) -> None:
    clock = ManualClock()
    reactor = make(clock=clock)
    log: list[str] = []

    def chain() -> None:
        log.append("task")
        clock.advance(1_000)
        reactor.defer(chain)

    reactor.defer(chain)
    reactor.set_timeout(5e-6, log.append, "timer")
    for _ in range(8):
        reactor.run_once(0)
    # Due after five tasks, and run before the sixth.
    assert log == ["task"] * 5 + ["timer"] + ["task"] * 3


def test_a_chain_of_deferred_tasks_polls_at_least_every_skip(make: Make, pipe: Pipe) -> None:
    reactor = make(policy=Policy(poll_skip_ns=0))
    for _ in range(10):
        reactor.defer(int)
        reactor.run_once(0)
    assert (reactor.stats().polls, reactor.stats().polls_skipped) == (10, 0)


def test_descriptors_are_seen_while_a_chain_of_deferred_tasks_never_ends(reactor: Reactor, pipe: Pipe) -> None:
    reader, writer = pipe()
    os.write(writer, b"x")

    def chain() -> None:
        reactor.defer(chain)

    reactor.defer(chain)
    reactor.register(reader, READABLE, lambda fd, events: reactor.stop())
    reactor.run()


def test_stop_ends_the_run_when_the_turn_is_through(reactor: Reactor) -> None:
    log: list[str] = []
    reactor.set_timeout(0, reactor.stop)
    reactor.set_timeout(0, log.append, "timer")
    reactor.defer(log.append, "deferred")
    reactor.lane("lane", log.append)
    reactor.post("lane", "event")
    reactor.run()
    assert log == ["timer", "deferred", "event"]


def test_stop_before_the_run_lets_it_return_at_once_and_only_it(reactor: Reactor) -> None:
    ran: list[int] = []
    reactor.defer(ran.append, 1)
    reactor.stop()
    reactor.run()
    assert ran == []
    reactor.run(keep_alive=False)
    assert ran == [1]


def test_without_keep_alive_the_run_ends_when_nothing_is_left(reactor: Reactor, pipe: Pipe) -> None:
    reader, writer = pipe()
    left: list[str] = []
    reactor.run(keep_alive=False)

    def readable(fd: int, events: int) -> None:
        left.append("readiness")
        reactor.deregister(fd)
        reactor.set_timeout(0.001, timer)

    def timer() -> None:
        left.append("timer")
        reactor.defer(left.append, "deferred")
        reactor.post("lane", "event")
        reactor.defer_threadsafe(left.append, "post")

    reactor.lane("lane", left.append)
    reactor.register(reader, READABLE, readable)
    os.write(writer, b"x")
    reactor.run(keep_alive=False)
    assert left == ["readiness", "timer", "deferred", "event", "post"]


def test_run_once_waits_for_nothing_longer_than_asked(make: Make) -> None:
    clock = ManualClock()
    reactor = make(clock=clock)
    reactor.set_timeout(10, int)
    assert reactor.run_once(3) == 0
    assert clock.now_ns() == 3_000_000_000
    assert reactor.run_once() == 1
    assert clock.now_ns() == 10_000_000_000


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_what_an_exception_left_in_the_batch_is_dispatched_first(
    reactor: Reactor, pipe: Pipe, error: type[BaseException]
) -> None:
    log: list[str] = []

    def leave(*_: object) -> None:
        log.append("raised")
        raise error

    def ready(fd: int, events: int) -> None:
        os.read(fd, 1)
        log.append("readiness")

    for _ in range(2):
        reader, writer = pipe()
        reactor.register(reader, READABLE, ready)
        os.write(writer, b"x")
    reactor.set_timeout(0, leave)
    reactor.set_timeout(0, log.append, "timer")
    reactor.defer(log.append, "deferred")
    with pytest.raises(error):
        reactor.run()
    assert log == ["raised"]
    # Arrives later, and comes after what was set aside.
    reactor.set_timeout(0, log.append, "new timer")
    polls = reactor.stats().polls
    reactor.run_once(0)
    assert log == ["raised", "timer", "readiness", "readiness", "deferred"]
    assert reactor.stats().polls == polls
    reactor.run_once(0)
    assert log[-1] == "new timer"


@pytest.mark.parametrize("step", ["inbox", "timer", "readiness", "deferred", "lane", "signal"])
def test_keyboard_interrupt_in_any_step_loses_nothing_else(make: Make, pipe: Pipe, step: str) -> None:
    reactor = make()
    ran: list[int] = []

    def handler(number: int) -> None:
        ran.append(number)
        if number == 1:
            raise KeyboardInterrupt

    def ready(fd: int, events: int) -> None:
        handler(os.read(fd, 1)[0])

    lane = reactor.lane("lane", handler)
    for number in range(3):
        if step == "inbox":
            reactor.defer_threadsafe(handler, number)
        elif step == "timer":
            reactor.set_timeout(0, handler, number)
        elif step == "deferred":
            reactor.defer(handler, number)
        elif step == "lane":
            reactor.post(lane, number)
        elif step == "signal":
            reactor.add_signal(signal.SIGRTMIN + number, handler, number)
            os.kill(os.getpid(), signal.SIGRTMIN + number)
        else:
            reader, writer = pipe()
            reactor.register(reader, READABLE, ready)
            os.write(writer, bytes([number]))
    with pytest.raises(KeyboardInterrupt):
        reactor.run_once(0)
    # What comes before the interrupt in the batch is any order among descriptors.
    for _ in range(3):
        with contextlib.suppress(KeyboardInterrupt):
            reactor.run_once(0)
    assert sorted(ran) == [0, 1, 2]
