"""The inbox: bounded, first in first out per thread, and its taker is woken exactly when it sleeps; against a deque."""

from __future__ import annotations

import itertools
import threading
import time
import weakref
from collections import deque
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from penstock.core.inbox import Inbox
from penstock.errors import UsageError


class Thing:
    """Something that can be watched when it goes away."""


class AgainstADeque(RuleBasedStateMachine):
    """Post, take, fall asleep, wake and close in any order."""

    @initialize(capacity=st.integers(1, 4))
    def start(self, capacity: int) -> None:
        self.inbox = Inbox(capacity)
        self.model: deque[int] = deque()
        self.capacity = capacity
        self.sleeping = self.closed = False
        self.numbers = itertools.count()

    @rule()
    def post(self) -> None:
        item = next(self.numbers)
        if self.closed:
            expected = "closed"
        elif len(self.model) == self.capacity:
            expected = "full"
        else:
            expected = "wake" if self.sleeping else "posted"
            self.model.append(item)
            # Woken once: whoever posts next need not do it again.
            self.sleeping = False
        assert self.inbox.post(item) == expected

    @rule()
    def take(self) -> None:
        assert self.inbox.take() == ((self.model.popleft(),) if self.model else None)

    @rule()
    def fall_asleep(self) -> None:
        self.sleeping = not self.model
        assert self.inbox.may_sleep() is self.sleeping

    @rule()
    def awake(self) -> None:
        self.inbox.awake()
        self.sleeping = False

    @rule()
    def close(self) -> None:
        self.inbox.close()
        self.closed = True

    @invariant()
    def same(self) -> None:
        assert len(self.inbox) == len(self.model)


TestAgainstADeque = AgainstADeque.TestCase


@pytest.mark.parametrize("capacity", [1, 7, 1_024])
def test_threads_lose_nothing_and_keep_their_order(capacity: int) -> None:
    """Four threads push against a bound, and say themselves when they were refused."""
    inbox = Inbox(capacity)
    refused = [0] * 4
    count = 500

    def post(number: int) -> None:
        for index in range(count):
            while inbox.post((number, index)) == "full":
                refused[number] += 1
                time.sleep(0)

    threads = [threading.Thread(target=post, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    seen: dict[int, list[int]] = {number: [] for number in range(4)}
    while sum(map(len, seen.values())) < 4 * count:
        assert len(inbox) <= capacity
        taken = inbox.take()
        if taken is not None:
            number, index = taken[0]
            seen[number].append(index)
        else:
            time.sleep(0)
    for thread in threads:
        thread.join()
    assert seen == {number: list(range(count)) for number in range(4)}
    assert inbox.take() is None


def test_a_taker_that_sleeps_is_always_woken() -> None:
    """A taker that may only sleep until it is woken, and a thread that posts as fast as it can."""
    inbox = Inbox(4)
    bell = threading.Semaphore(0)
    count = 1_000

    def post() -> None:
        for index in range(count):
            while (answer := inbox.post(index)) == "full":
                time.sleep(0)
            if answer == "wake":
                bell.release()

    thread = threading.Thread(target=post)
    thread.start()
    seen: list[Any] = []
    while len(seen) < count:
        taken = inbox.take()
        if taken is not None:
            seen.append(taken[0])
        elif inbox.may_sleep():
            assert bell.acquire(timeout=30), "nobody woke the taker"
            inbox.awake()
    thread.join()
    assert seen == list(range(count))


def test_what_is_refused_or_left_is_let_go() -> None:
    inbox = Inbox(1)
    kept, refused = Thing(), Thing()
    watched = [weakref.ref(kept), weakref.ref(refused)]
    assert inbox.post(kept) == "posted"
    assert inbox.post(refused) == "full"
    del kept, refused
    assert [each() is None for each in watched] == [False, True]
    del inbox
    assert watched[0]() is None


def test_an_inbox_of_nothing_is_refused() -> None:
    with pytest.raises(UsageError, match="at least 1"):
        Inbox(0)
