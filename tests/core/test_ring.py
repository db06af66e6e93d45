"""The ring: first in, first out, a bound, and nothing kept or lost; against a deque."""

from __future__ import annotations

import itertools
import sys
import weakref
from collections import deque

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from penstock.core.ring import Ring
from penstock.errors import UsageError


class Thing:
    """Something that can be watched when it goes away."""


class AgainstADeque(RuleBasedStateMachine):
    """Every call, in any order, on a ring and on a deque of the same bound."""

    @initialize(capacity=st.integers(1, 9))
    def start(self, capacity: int) -> None:
        self.ring: Ring[int] = Ring(capacity)
        self.model: deque[int] = deque()
        self.capacity = capacity
        self.numbers = itertools.count()

    @rule(count=st.integers(1, 12))
    def push(self, count: int) -> None:
        for _ in range(count):
            item = next(self.numbers)
            fits = len(self.model) < self.capacity
            assert self.ring.push(item) is fits
            if fits:
                self.model.append(item)

    @rule(count=st.integers(1, 12))
    def pop(self, count: int) -> None:
        for _ in range(min(count, len(self.model))):
            assert self.ring.pop() == self.model.popleft()

    @precondition(lambda self: not self.model)
    @rule()
    def empty_gives_nothing(self) -> None:
        for call in (self.ring.pop, self.ring.oldest, self.ring.newest):
            with pytest.raises(IndexError):
                call()

    @rule()
    def pop_second(self) -> None:
        if len(self.model) < 2:
            with pytest.raises(IndexError):
                self.ring.pop_second()
            return
        oldest = self.model.popleft()
        assert self.ring.pop_second() == self.model.popleft()
        self.model.appendleft(oldest)

    @rule()
    def clear(self) -> None:
        assert self.ring.clear() == len(self.model)
        self.model.clear()

    @invariant()
    def same(self) -> None:
        assert len(self.ring) == len(self.model)
        assert self.ring.capacity == self.capacity
        assert self.ring.is_full is (len(self.model) == self.capacity)
        if self.model:
            assert self.ring.oldest() == self.model[0]
            assert self.ring.newest() == self.model[-1]


TestAgainstADeque = AgainstADeque.TestCase


def test_what_leaves_or_is_left_behind_is_let_go() -> None:
    ring: Ring[Thing] = Ring(3)
    watched = []
    for _ in range(3):
        thing = Thing()
        watched.append(weakref.ref(thing))
        assert ring.push(thing)
    del thing
    ring.pop()
    assert [each() is None for each in watched] == [True, False, False]
    ring.pop_second()
    assert [each() is None for each in watched] == [True, False, True]
    del ring
    assert [each() is None for each in watched] == [True, True, True]


def test_a_refused_push_keeps_nothing() -> None:
    ring: Ring[object] = Ring(1)
    ring.push(None)
    refused = Thing()
    before = sys.getrefcount(refused)
    assert ring.push(refused) is False
    assert sys.getrefcount(refused) == before


def test_it_allocates_nothing_after_the_start() -> None:
    ring: Ring[None] = Ring(64)
    ring.push(None)
    ring.pop()
    before = sys.getallocatedblocks()
    for _ in range(1_000):
        while ring.push(None):
            pass
        while len(ring):
            ring.pop()
    assert sys.getallocatedblocks() - before <= 2


@pytest.mark.parametrize("capacity", [0, -1])
def test_a_ring_of_nothing_is_refused(capacity: int) -> None:
    with pytest.raises(UsageError, match="at least 1"):
        Ring(capacity)
