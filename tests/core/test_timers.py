"""The heap of timers: (deadline, sequence) is the order, and an identity is good for one life; against a list."""

from __future__ import annotations

import sys
import weakref
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from penstock.core.timers import Timers
from penstock.errors import UsageError
from tests.core.timers_model import TimerModel, TimersModel

# Few different instants, so that equal deadlines are the rule.
INSTANTS = st.integers(0, 12)


class Thing:
    """Something that can be watched when it goes away."""


class AgainstAList(RuleBasedStateMachine):
    """Start, cancel, move, take and fire in any order; identities of every life are tried again."""

    @initialize(capacity=st.integers(1, 12))
    def start(self, capacity: int) -> None:
        self.timers = Timers(capacity)
        self.model = TimersModel(capacity)
        self.now_ns = 0
        # Every timer that there ever was, under the identity that the heap gave it.
        self.known: list[tuple[int, TimerModel]] = []
        self.due: list[tuple[int, TimerModel]] = []
        self.numbers = 0

    @rule(delay=INSTANTS, period=st.sampled_from([0, 0, 1, 3]))
    def set(self, delay: int, period: int) -> None:
        self.numbers += 1
        identity = self.timers.start(self.now_ns + delay, self.numbers, period)
        timer = self.model.start(self.now_ns + delay, self.numbers, period)
        assert (identity is None) == (timer is None)
        if identity is not None and timer is not None:
            assert identity not in {one for one, _ in self.known}
            self.known.append((identity, timer))

    @rule(which=st.integers(0, 1_000))
    def cancel(self, which: int) -> None:
        if self.known:
            identity, timer = self.known[which % len(self.known)]
            assert self.timers.cancel(identity) is self.model.cancel(timer)

    @rule(which=st.integers(0, 1_000), delay=INSTANTS)
    def move(self, which: int, delay: int) -> None:
        if self.known:
            identity, timer = self.known[which % len(self.known)]
            moved = self.model.move(timer, self.now_ns + delay)
            assert self.timers.move(identity, self.now_ns + delay) is moved

    @rule(step=st.integers(0, 15))
    def pass_time(self, step: int) -> None:
        self.now_ns += step

    @rule(most=st.integers(1, 4), back=st.integers(0, 3))
    def take(self, most: int, back: int) -> None:
        barrier = max(0, self.timers.sequence - back)
        assert self.timers.sequence == self.model.sequence
        for _ in range(most):
            identity = self.timers.take(self.now_ns, barrier)
            timer = self.model.take(self.now_ns, barrier)
            assert (identity is None) == (timer is None)
            if identity is None or timer is None:
                return
            assert (identity, timer) in self.known
            self.due.append((identity, timer))

    @rule()
    def fire(self) -> None:
        if self.due:
            identity, timer = self.due.pop(0)
            fires = self.model.fire(timer, self.now_ns)
            assert self.timers.fire(identity, self.now_ns) == ((timer.value,) if fires else None)

    @rule(delay=INSTANTS)
    def a_new_life_of_a_slot_has_another_identity(self, delay: int) -> None:
        """Cancel the last one and start anew: the slot is the same, the old identity finds nothing."""
        live = [(identity, timer) for identity, timer in self.known if timer.state != "over"]
        if live:
            identity, timer = live[-1]
            assert self.timers.cancel(identity) is self.model.cancel(timer) is True
            self.set(delay, 0)
            assert self.timers.cancel(identity) is False
            assert self.timers.deadline_ns(identity) is None

    @invariant()
    def same(self) -> None:
        assert self.timers.ok
        assert len(self.timers) == len(self.model.live)
        assert self.timers.next_ns == self.model.next_ns
        assert self.timers.missed_periods == self.model.missed_periods
        for identity, timer in self.known:
            expected = None if timer.state == "over" else timer.deadline_ns
            assert self.timers.deadline_ns(identity) == expected


TestAgainstAList = AgainstAList.TestCase


@given(deadlines=st.lists(INSTANTS, min_size=1, max_size=200))
def test_the_order_is_the_deadline_and_then_the_order_of_setting(deadlines: list[int]) -> None:
    timers = Timers(200)
    for index, deadline in enumerate(deadlines):
        timers.start(deadline, index)
    fired: list[Any] = []
    while (identity := timers.take(100)) is not None:
        fired += timers.fire(identity, 100) or ()
    assert fired == sorted(range(len(deadlines)), key=lambda index: (deadlines[index], index))


@given(data=st.data(), deadlines=st.lists(st.integers(0, 1_000), min_size=1, max_size=200))
def test_cancelling_any_leaves_the_others_in_order(data: st.DataObject, deadlines: list[int]) -> None:
    timers = Timers(200)
    identities = {index: timers.start(deadline, index) for index, deadline in enumerate(deadlines)}
    gone = data.draw(st.sets(st.sampled_from(sorted(identities))))
    for index in gone:
        assert timers.cancel(identities[index] or 0)
        assert timers.ok
    fired: list[Any] = []
    while (identity := timers.take(1_000)) is not None:
        fired += timers.fire(identity, 1_000) or ()
    rest = [index for index in range(len(deadlines)) if index not in gone]
    assert fired == sorted(rest, key=lambda index: (deadlines[index], index))


@given(deadline=st.integers(0, 100), period=st.integers(1, 50), instants=st.lists(st.integers(0, 5_000), max_size=20))
def test_an_interval_stays_on_its_grid_and_counts_what_it_missed(
    deadline: int, period: int, instants: list[int]
) -> None:
    timers = Timers(1)
    identity = timers.start(deadline, "tick", period)
    assert identity is not None
    fired = 0
    for now in sorted(instants):
        while timers.take(now) is not None:
            assert timers.fire(identity, now) == ("tick",)
            fired += 1
        next_ns = timers.deadline_ns(identity)
        assert next_ns is not None
        assert next_ns > now
        assert (next_ns - deadline) % period == 0
        assert (next_ns - deadline) // period == fired + timers.missed_periods


def test_between_taken_and_fired_a_timer_can_be_cancelled_or_moved() -> None:
    timers = Timers(4)
    cancelled, moved = timers.start(1, "cancelled"), timers.start(1, "moved")
    assert cancelled is not None
    assert moved is not None
    assert [timers.take(1), timers.take(1)] == [cancelled, moved]
    assert timers.cancel(cancelled)
    assert timers.move(moved, 5)
    assert timers.fire(cancelled, 1) is None
    assert timers.fire(moved, 1) is None
    assert timers.take(4) is None
    assert timers.take(5) == moved
    assert timers.fire(moved, 5) == ("moved",)
    assert timers.fire(moved, 5) is None


def test_what_is_over_is_let_go() -> None:
    timers = Timers(8)
    watched = {}
    for name in ("fired", "cancelled", "interval", "left"):
        thing = Thing()
        watched[name] = weakref.ref(thing)
        identity = timers.start(0, thing, 5 if name == "interval" else 0)
        assert identity is not None
        if name == "cancelled":
            timers.cancel(identity)
        elif name != "left":
            assert timers.take(0) == identity
            timers.fire(identity, 0)
    del thing
    assert {name: each() is None for name, each in watched.items()} == {
        "fired": True,
        "cancelled": True,
        "interval": False,
        "left": False,
    }
    del timers
    assert all(each() is None for each in watched.values())


def test_slots_are_used_again() -> None:
    timers = Timers(3)
    for _ in range(1_000):
        identities = [timers.start(0, None) for _ in range(3)]
        assert timers.start(0, None) is None
        for identity in identities:
            assert identity is not None
            assert (identity & 0xFFFFFFFF) < 3
            timers.cancel(identity)


def test_it_allocates_nothing_once_it_has_grown() -> None:
    timers = Timers(256)
    for _ in range(256):
        timers.start(0, None)
    while (identity := timers.take(0)) is not None:
        timers.fire(identity, 0)
    before = sys.getallocatedblocks()
    for now in range(2_000):
        timers.start(now, None)
        identity = timers.take(now)
        assert identity is not None
        timers.fire(identity, now)
    assert sys.getallocatedblocks() - before <= 4


@pytest.mark.parametrize("capacity", [0, (1 << 28) + 1])
def test_a_capacity_that_cannot_be_is_refused(capacity: int) -> None:
    with pytest.raises(UsageError, match="capacity is"):
        Timers(capacity)
