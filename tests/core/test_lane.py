"""Lanes: bounded, with an overflow policy, a budget and books that balance; against a list."""

from __future__ import annotations

import itertools
import weakref
from typing import TYPE_CHECKING, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from penstock.core.budget import Budget
from penstock.core.lane import OVERFLOWS, Lane
from penstock.errors import LaneClosed, UsageError
from tests.core.lane_model import BudgetModel, LaneModel

if TYPE_CHECKING:
    from penstock.core.lane import _Overflow as Overflow


class Thing:
    """Something that can be watched when it goes away."""


def add(waiting: int, new: int) -> int:
    return waiting + new


class AgainstAList(RuleBasedStateMachine):
    """Offer, take, pass turns, close: the lane and the list must agree on every answer and every counter."""

    @initialize(
        capacity=st.integers(1, 5),
        overflow=st.sampled_from(OVERFLOWS),
        limit=st.integers(0, 4),
        denied=st.sampled_from(["keep", "drop"]),
        merges=st.booleans(),
    )
    def start(
        self, capacity: int, overflow: Overflow, limit: int, denied: Literal["keep", "drop"], merges: bool
    ) -> None:
        merge = add if merges and overflow == "coalesce" else None
        budget = Budget(limit, denied=denied)
        self.lane = Lane("lane", capacity=capacity, overflow=overflow, budget=budget, merge=merge)
        self.model = LaneModel(capacity, overflow, BudgetModel(limit, denied_policy=denied), merge=merge)
        self.epoch = 1
        self.numbers = itertools.count(1)

    @precondition(lambda self: not self.model.closed)
    @rule(count=st.integers(1, 8))
    def offer(self, count: int) -> None:
        for _ in range(count):
            event = next(self.numbers)
            assert self.lane.offer(event) == self.model.offer(event)

    def expected(self) -> tuple[Any] | None:
        if not self.model.runnable(self.epoch, self.epoch):
            return None
        if self.model.budget.left == 0:
            while self.model.waiting:
                self.model.drop_denied()
            return None
        self.model.budget.take(1)
        return (self.model.take(),)

    @rule(count=st.integers(1, 8))
    def take(self, count: int) -> None:
        for _ in range(count):
            assert self.lane.take(self.epoch) == self.expected()

    @rule()
    def next_turn(self) -> None:
        self.epoch += 1

    @rule()
    def close(self) -> None:
        assert self.lane.close() == self.model.close()
        with pytest.raises(LaneClosed, match="'lane'"):
            self.lane.offer(0)

    @invariant()
    def same(self) -> None:
        assert self.lane.ok
        assert self.lane.closed is self.model.closed
        assert len(self.lane) == len(self.model.waiting)
        counters = self.lane.counters()
        assert counters == self.model.counters()
        lost = sum(counters[name] for name in counters if name.startswith("dropped_"))
        assert counters["offered"] == sum(counters[name] for name in ("run", "depth", "coalesced", "rejected")) + lost


TestAgainstAList = AgainstAList.TestCase


@pytest.mark.parametrize(
    ("overflow", "outcome", "left"),
    [
        ("drop-oldest", "dropped-oldest", [2, 3]),
        ("drop-newest", "dropped-newest", [1, 2]),
        ("reject", "rejected", [1, 2]),
        ("coalesce", "coalesced", [1, 3]),
        ("block", "full", [1, 2]),
    ],
)
def test_what_each_policy_does_when_full(overflow: Overflow, outcome: str, left: list[int]) -> None:
    lane = Lane("lane", capacity=2, overflow=overflow)
    assert [lane.offer(1), lane.offer(2), lane.offer(3)] == ["pushed", "pushed", outcome]
    taken = [lane.take(1), lane.take(1), lane.take(1)]
    assert taken == [*((each,) for each in left), None]


def test_merging_makes_one_event_of_two() -> None:
    lane = Lane("lane", capacity=2, overflow="coalesce", merge=add)
    for event in (1, 10, 100, 1_000):
        lane.offer(event)
    assert [lane.take(1), lane.take(1)] == [(1,), (1_110,)]
    assert lane.counters()["coalesced"] == 2


def test_a_merge_that_raises_changes_nothing_but_says_so() -> None:
    def fail(waiting: int, new: int) -> int:
        raise ZeroDivisionError

    lane = Lane("lane", capacity=1, overflow="coalesce", merge=fail)
    lane.offer(1)
    with pytest.raises(ZeroDivisionError):
        lane.offer(2)
    assert lane.ok
    assert lane.take(1) == (1,)


def test_a_merge_that_posts_to_its_own_lane_loses_nothing_unseen() -> None:
    def post(waiting: int, new: int) -> int:
        if new == 2:
            lane.offer(3)
        return waiting + new

    lane = Lane("lane", capacity=1, overflow="coalesce", merge=post)
    lane.offer(1)
    # While 1 and 2 are merged, 3 is merged with 1: 2 then meets the 4 that this made.
    lane.offer(2)
    assert lane.ok
    assert lane.counters()["coalesced"] == 2
    assert len(lane) == 1


def test_a_merge_that_closes_its_own_lane_leaves_nothing_behind() -> None:
    def close(waiting: int, new: int) -> int:
        lane.close()
        return waiting + new

    lane = Lane("lane", capacity=1, overflow="coalesce", merge=close)
    lane.offer(1)
    lane.offer(2)
    assert lane.ok
    assert len(lane) == 0
    assert lane.counters()["dropped_closed"] == 2


@given(offers=st.integers(0, 40), capacity=st.integers(1, 10), overflow=st.sampled_from(OVERFLOWS))
def test_what_a_lane_lets_go_is_let_go(offers: int, capacity: int, overflow: Overflow) -> None:
    lane = Lane("lane", capacity=capacity, overflow=overflow)
    watched = []
    for _ in range(offers):
        thing = Thing()
        watched.append(weakref.ref(thing))
        lane.offer(thing)
        del thing
    assert sum(each() is not None for each in watched) == len(lane) == min(offers, capacity)
    lane.close()
    assert not any(each() is not None for each in watched)


def test_a_lane_that_goes_away_lets_its_events_go() -> None:
    lane = Lane("lane")
    thing = Thing()
    watched = weakref.ref(thing)
    lane.offer(thing)
    del thing, lane
    assert watched() is None


def test_it_says_what_it_is() -> None:
    lane = Lane("work", capacity=3, overflow="reject", priority=-2)
    assert (lane.name, lane.capacity, lane.overflow, lane.priority) == ("work", 3, "reject", -2)
    assert repr(lane) == "<Lane 'work' 0 of 3, reject>"
    lane.close()
    assert repr(lane) == "<Lane 'work' closed, reject>"


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        ("", {}, "not empty"),
        ("x" * 81, {}, "at most 80"),
        ("lane", {"capacity": 0}, "capacity"),
        ("lane", {"capacity": True}, "whole number"),
        ("lane", {"capacity": 1 << 40}, "capacity"),
        ("lane", {"overflow": "burn"}, "'drop-oldest'"),
        ("lane", {"handler": 3}, "cannot be called"),
        ("lane", {"merge": add}, "coalesce"),
        ("lane", {"priority": 1_001}, "-1000 to 1000"),
        ("lane", {"budget": -1}, "below zero"),
    ],
)
def test_what_cannot_be_meant_is_refused(name: str, options: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        Lane(name, **options)
