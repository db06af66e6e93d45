"""The whole reactor against a slow, obvious model, on every poller: random programs whose callbacks do random things.

Both sides follow the same program, turn by turn. A callback carries actions of its own, which it follows when it is first
called: it deregisters others of its batch, closes them and opens their numbers again, cancels and moves timers that are
due, defers, posts. After each turn both must have called the same things in the same order, with the same events.

Edges are not in here: what a poller says of them is compared with a model in tests/core/poller.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import BadDescriptor, Budget, Overflow, Policy, Reactor
from tests.core.lane_model import BudgetModel, LaneModel
from tests.core.worlds import POLLERS, World, drain, open_world
from tests.reactor.reactor_model import Action, Model, Refused

PLACES = 4
SECOND = 1_000_000_000
# Every overflow policy and every kind of budget: capacity, overflow, limit, per, what becomes of the denied. By priority.
LANES: dict[str, tuple[int, Any, int, Any, Any]] = {
    "drops": (3, "drop-oldest", 2, "turn", "keep"),
    "refuses": (2, "reject", 1, "tick", "keep"),
    "merges": (2, "coalesce", 1, "turn", "drop"),
    "waits": (2, "block", 1, "tick", "drop"),
    "forgets": (2, "drop-newest", 5, "turn", "keep"),
}

place = st.integers(0, PLACES - 1)
interest = st.integers(0, 3)
delay = st.sampled_from((0, 0, 1, 2, 5))
index = st.integers(0, 40)
lane = st.sampled_from(tuple(LANES))


def actions(script: st.SearchStrategy[tuple[Action, ...]]) -> st.SearchStrategy[Action]:
    """One thing that a program or a callback does; callbacks that it makes follow `script`."""
    return st.one_of(
        st.tuples(st.just("open"), place),
        st.tuples(st.just("register"), place, interest, script),
        st.tuples(st.just("feed"), place, st.integers(1, 9)),
        st.tuples(st.just("modify"), place, interest),
        st.tuples(st.just("timer"), delay, st.sampled_from((0, 0, 1, 3)), script),
        st.tuples(st.just("defer"), script),
        st.tuples(st.just("post"), lane),
        st.tuples(st.just("flood"), lane, st.integers(2, 5)),
        st.tuples(st.just("post_call"), script),
        st.tuples(st.just("deregister"), place),
        st.tuples(st.just("close"), place),
        st.tuples(st.just("drain"), place),
        st.tuples(st.just("hang_up"), place),
        st.tuples(st.just("cancel"), index),
        st.tuples(st.just("move"), index, delay),
        st.tuples(st.just("advance"), st.sampled_from((0, 1, 2, 7))),
    )


nothing: st.SearchStrategy[tuple[Action, ...]] = st.just(())
inner = st.lists(actions(nothing), max_size=3).map(tuple)
outer = st.lists(actions(inner), max_size=4).map(tuple)
# Most of what can go wrong needs descriptors that are watched: a program begins with some.
watched = st.tuples(*(st.tuples(interest, outer, st.integers(0, 3), st.booleans()) for _ in range(PLACES)))
# Often enough that budgets of ticks run out and are refilled.
flood = st.tuples(st.just("flood"), lane, st.integers(2, 5))
steps = st.lists(st.one_of(actions(outer), st.sampled_from([("turn",), ("turn",), ("advance", 1)]), flood), max_size=24)


def beginning(places: tuple[tuple[int, tuple[Action, ...], int, bool], ...]) -> list[Action]:
    """Open, register, feed and hang up each place."""
    program: list[Action] = []
    for where, (events, script, fed, gone) in enumerate(places):
        program += [("open", where), ("register", where, events, script)]
        program += [("feed", where, fed)] if fed else []
        program += [("hang_up", where)] if gone else []
    return program


programs = st.builds(lambda places, rest: beginning(places) + rest, watched, steps)


class Real:
    """The reactor, with the calls that the model has."""

    def __init__(self, kind: str) -> None:
        self.world: World = open_world(kind)
        self.reactor = Reactor(self.world.poller, clock=self.world.clock, policy=Policy(poll_skip_ns=0))
        self.others: dict[int, int] = {}
        self.timers: dict[int, Any] = {}
        self.log: list[tuple[Any, ...]] = []
        self.serial = 0
        self.lanes = {name: self._lane(name, -place) for place, name in enumerate(LANES)}

    def _lane(self, name: str, priority: int) -> Any:
        capacity, overflow, limit, per, denied = LANES[name]
        return self.reactor.lane(
            name,
            lambda event: self.log.append(("lane", name, event)),
            capacity=capacity,
            overflow=overflow,
            budget=Budget(limit, per, denied=denied),
            priority=priority,
        )

    def end(self) -> None:
        self.reactor.close()
        self.world.close_all()

    def _next(self) -> int:
        self.serial += 1
        return self.serial

    def _follow_once(self, script: tuple[Action, ...]) -> Any:
        """Follow the script at the first call only."""
        left = [script]

        def follow_it() -> None:
            if left:
                follow(self, left.pop())

        return follow_it

    def open(self, where: int) -> None:
        if where not in self.others:
            self.others[where] = self.world.open(where)

    def close(self, where: int) -> None:
        if where in self.others:
            if self.reactor.is_registered(self.world.number(where)):
                self.reactor.deregister(self.world.number(where))
            self.world.close(self.world.number(where))
            other = self.others.pop(where)
            if other >= 0:
                self.world.close(other)

    def feed(self, where: int, size: int) -> None:
        if self.others.get(where, -1) >= 0:
            self.world.write(self.others[where], b"x" * size)

    def drain(self, where: int) -> None:
        if where in self.others:
            drain(self.world, self.world.number(where))

    def hang_up(self, where: int) -> None:
        if self.others.get(where, -1) >= 0:
            self.world.close(self.others[where])
            self.others[where] = -1

    def advance(self, seconds: int) -> None:
        self.world.clock.advance(seconds * SECOND)

    def register(self, where: int, events: int, script: tuple[Action, ...]) -> None:
        life, then = self._next(), self._follow_once(script)

        def called(fd: int, told: int) -> None:
            assert fd == self.world.number(where)
            self.log.append(("ready", where, life, told))
            then()

        self.reactor.register(self.world.number(where), events, called)

    def modify(self, where: int, events: int) -> None:
        self.reactor.modify(self.world.number(where), events)

    def deregister(self, where: int) -> None:
        self.reactor.deregister(self.world.number(where))

    def _caller(self, kind: str, script: tuple[Action, ...]) -> tuple[int, Any]:
        serial, then = self._next(), self._follow_once(script)

        def called() -> None:
            self.log.append((kind, serial))
            then()

        return serial, called

    def timer(self, seconds: int, period: int, script: tuple[Action, ...]) -> None:
        serial, called = self._caller("timer", script)
        if period:
            # The first round is not the period's: an interval that is moved.
            self.timers[serial] = self.reactor.set_interval(period, called)
            self.reactor.move_timer(self.timers[serial], seconds)
        else:
            self.timers[serial] = self.reactor.set_timeout(seconds, called)

    def cancel(self, number: int) -> bool:
        timer = self.timers.get(number % (self.serial + 1))
        return timer is not None and self.reactor.cancel_timer(timer)

    def move(self, number: int, seconds: int) -> bool:
        timer = self.timers.get(number % (self.serial + 1))
        return timer is not None and self.reactor.move_timer(timer, seconds)

    def defer(self, script: tuple[Action, ...]) -> None:
        self.reactor.defer(self._caller("deferred", script)[1])

    def post_call(self, script: tuple[Action, ...]) -> None:
        self.reactor.defer_threadsafe(self._caller("post", script)[1])

    def post(self, name: str) -> bool:
        return self.reactor.post(self.lanes[name], self._next())

    def flood(self, name: str, count: int) -> list[object]:
        return [answer for _ in range(count) for answer in follow(self, (("post", name),))]


def follow(side: Real | Model, script: tuple[Action, ...]) -> list[object]:
    """Do what a script says; return what each call answered, an error by one word."""
    answers: list[object] = []
    for name, *arguments in script:
        try:
            answers.append(getattr(side, name)(*arguments))
        except (Refused, BadDescriptor, Overflow):
            answers.append("refused")
    return answers


def one_turn(real: Real, model: Model) -> None:
    """A turn on both sides, which must call the same things in the same order."""
    real.log.clear()
    model.log.clear()
    real.reactor.run_once(0)
    model.turn([(entry[1], entry[2]) for entry in real.log if entry[0] == "ready"])
    assert real.log == model.log


def balance(real: Real, model: Model) -> None:
    """What is left, and what was counted."""
    stats = real.reactor.stats()
    assert stats.timers == len(model.alarms)
    assert stats.timers_missed_periods == model.missed
    assert stats.ticks == model.ticks
    for name, lane in model.lanes.items():
        counters, wanted = real.lanes[name].counters(), lane.counters()
        # That an event stays is counted when the step looks at its lane; a turn without Python work has no such step.
        denied, most = counters.pop("denied"), wanted.pop("denied")
        assert denied <= most if LANES[name][3:] == ("tick", "keep") else denied == most
        assert counters == wanted


@pytest.mark.parametrize("kind", POLLERS)
@given(program=programs)
def test_a_random_program_does_what_the_model_does(kind: str, program: list[Action]) -> None:
    real = Real(kind)
    try:
        lanes = {
            name: LaneModel(capacity, overflow, BudgetModel(limit, per, denied_policy=denied))
            for name, (capacity, overflow, limit, per, denied) in LANES.items()
        }
        model = Model(real.world.clock.now_ns() // SECOND, PLACES, lanes, follow, idle_hang_ups=kind != "select")
        for step in [*program, ("turn",), ("turn",)]:
            if step == ("turn",):
                one_turn(real, model)
            else:
                assert follow(real, (step,)) == follow(model, (step,)), step
        balance(real, model)
    finally:
        real.end()
