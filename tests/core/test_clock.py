"""Clocks and the tick: never back, never early, at most one tick per period, and never a burst."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.clock import Clock, ManualClock, Tick
from penstock.errors import UsageError


def test_the_systems_clock_never_goes_back() -> None:
    clock = Clock()
    assert clock.manual is False
    instants = [clock.now_ns() for _ in range(1_000)]
    assert instants == sorted(instants)


@given(start=st.integers(0, 1 << 40), moves=st.lists(st.tuples(st.booleans(), st.integers(0, 1 << 40)), max_size=20))
def test_a_manual_clock_moves_only_forward_and_only_when_told(start: int, moves: list[tuple[bool, int]]) -> None:
    clock = ManualClock(start)
    assert clock.manual is True
    now = start
    for by, amount in moves:
        now = now + amount if by else max(now, amount)
        assert (clock.advance(amount) if by else clock.advance_to(amount)) == now
        assert clock.now_ns() == clock.now_ns() == now


def test_a_clock_that_would_go_back_says_so() -> None:
    with pytest.raises(UsageError, match="does not go back"):
        ManualClock().advance(-1)
    with pytest.raises(UsageError, match="starts at 0 or later"):
        ManualClock(-1)
    with pytest.raises(UsageError, match="at least 1"):
        Tick(0, 0)


@given(period=st.integers(1, 1_000), start=st.integers(0, 1_000), steps=st.lists(st.integers(0, 5_000), max_size=50))
def test_a_tick_fires_at_most_once_per_look_and_per_period(period: int, start: int, steps: list[int]) -> None:
    tick = Tick(period, start)
    now = start
    accounted = 0
    fired = 0
    for step in steps:
        now += step
        # The slow way: how many whole periods have passed since the start, less those that were told already.
        elapsed = (now - start) // period - accounted
        accounted += elapsed
        fired += elapsed > 0
        assert tick.advance(now) == elapsed
        assert tick.advance(now) == 0
        assert now < tick.next_ns <= now + period
        assert (tick.next_ns - start) % period == 0
        assert tick.fired == fired
        assert tick.fired + tick.missed == accounted


def test_a_long_stall_gives_one_tick() -> None:
    tick = Tick(10, 0)
    assert [tick.advance(now) for now in (9, 10, 19, 1_000_000, 1_000_009, 1_000_010)] == [0, 1, 0, 99_999, 0, 1]
    assert (tick.fired, tick.missed) == (3, 99_998)
