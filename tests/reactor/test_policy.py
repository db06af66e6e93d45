"""The policy: every limit can be changed, says what it may be, and is in force."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from typing import Any

import pytest

from penstock import LaneClosed, ManualClock, Overflow, Policy, Reactor, UsageError, limits
from penstock.limits import POLICY_RANGES

Make = Callable[..., Reactor]


@pytest.mark.parametrize("name", sorted(POLICY_RANGES))
def test_an_error_names_the_limit_its_value_and_its_range(name: str) -> None:
    least, most = POLICY_RANGES[name]
    policy: Any = Policy
    for value in (least, most):
        assert getattr(policy(**{name: value}), name) == value
    for value in (least - 1, most + 1):
        wanted = f"{name} is {value:,}; give a whole number from {least:,} to {most:,}"
        with pytest.raises(UsageError, match=re.escape(wanted)):
            policy(**{name: value})
    for odd in (None, "7", 7.0, True, [7]):
        wanted = f"{name} is {odd!r}; give a whole number from {least:,} to {most:,}"
        with pytest.raises(UsageError, match=re.escape(wanted)):
            policy(**{name: odd})


@pytest.mark.parametrize("name", limits.POLICY_SWITCHES)
@pytest.mark.parametrize("odd", [None, 1, "yes"])
def test_a_switch_is_on_or_off(name: str, odd: Any) -> None:
    with pytest.raises(UsageError, match=re.escape(f"{name} is {odd!r}; give True or False")):
        Policy(**{name: odd})


@pytest.mark.parametrize("value", ["ignore", None, 1, ""])
def test_what_becomes_of_a_broken_invariant_is_one_of_two(value: Any) -> None:
    with pytest.raises(UsageError, match=re.escape(f'on_invariant is {value!r}; give "raise" or "abort"')):
        Policy(on_invariant=value)


def test_the_defaults_are_the_constants_of_the_same_name() -> None:
    for field in dataclasses.fields(Policy):
        if field.name in limits.POLICY_SWITCHES:
            assert getattr(Policy(), field.name) is True
        elif field.name != "on_invariant":
            assert getattr(Policy(), field.name) == getattr(limits, field.name.upper())


def test_a_policy_does_not_change(plain: Make) -> None:
    policy = Policy(inbox_budget=7)
    reactor = plain(policy=policy)
    assert reactor.policy is policy
    with pytest.raises(dataclasses.FrozenInstanceError):
        policy.inbox_budget = 8  # type: ignore[misc]
    assert dataclasses.replace(policy, inbox_budget=8).inbox_budget == 8


def test_deferred_tasks_are_bounded(make: Make) -> None:
    reactor = make(policy=Policy(deferred_capacity=2))
    ran: list[int] = []
    reactor.defer(ran.append, 1)
    reactor.defer(ran.append, 2)
    with pytest.raises(Overflow, match=r"has 2 tasks deferred; defer less.*deferred_capacity in its Policy") as caught:
        reactor.defer(ran.append, 3)
    assert (caught.value.limit, caught.value.capacity) == ("deferred_capacity", 2)
    reactor.run_once(0)
    reactor.defer(ran.append, 4)
    reactor.run_once(0)
    assert ran == [1, 2, 4]
    assert reactor.stats().deferred_refused == 1
    assert reactor.stats().deferred_high_water == 2


def test_lanes_are_bounded_and_closed_ones_make_room(make: Make) -> None:
    reactor = make(policy=Policy(lanes_max=2))
    first = reactor.lane("first", int)
    reactor.lane("second", int)
    for _ in range(1_000):
        with pytest.raises(Overflow, match=r"has 2 lanes; close one, or raise lanes_max in its Policy"):
            reactor.lane("third", int)
    first.close()
    seen: list[int] = []
    reactor.lane("third", seen.append)
    reactor.post("third", 1)
    reactor.run_once(0)
    assert seen == [1]


def test_lanes_come_and_go(make: Make) -> None:
    reactor = make(policy=Policy(lanes_max=3), on_drop=lambda report: None, clock=ManualClock())
    for number in range(200):
        lane = reactor.lane(f"lane {number}", int, capacity=1)
        reactor.post(lane, 1)
        reactor.post(lane, 2)
        if number % 2:
            reactor.run_once(0)
        lane.close()
    assert len(reactor.stats().lanes) <= 6


def test_a_lane_may_be_made_and_closed_by_its_own_handler(make: Make) -> None:
    reactor = make(policy=Policy(lanes_max=2))
    seen: list[Any] = []

    def handler(event: int) -> None:
        seen.append(event)
        lane.close()
        successor = reactor.lane("lane", lambda event: seen.append(("successor", event)))
        reactor.post(successor, event)

    lane = reactor.lane("lane", handler)
    for number in range(3):
        reactor.post(lane, number)
    reactor.run_once(0)
    reactor.run_once(0)
    assert seen == [0, ("successor", 0)]
    with pytest.raises(LaneClosed):
        reactor.post(lane, 1)


def test_a_tick_is_as_long_as_the_policy_says(make: Make) -> None:
    clock = ManualClock()
    reactor = make(clock=clock, policy=Policy(tick_period_ns=5_000_000))
    clock.advance(4_999_999)
    reactor.run_once(0)
    assert reactor.stats().ticks == 0
    clock.advance(1)
    reactor.run_once(0)
    clock.advance(17_000_000)
    reactor.run_once(0)
    assert (reactor.stats().ticks, reactor.stats().ticks_missed) == (2, 2)
