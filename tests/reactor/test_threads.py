"""Other threads: what they may do, what they may not, and that nothing they hand over is lost."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

import pytest

from penstock import (
    READABLE,
    LaneClosed,
    LoopClosed,
    Overflow,
    PenstockError,
    Policy,
    Reactor,
    UsageError,
    WrongThread,
)
from tests.reactor.conftest import DEADLINE_S, ignore, join

Make = Callable[..., Reactor]
Spawn = Callable[..., threading.Thread]

EVENTS = 10_000


class Outcome:
    """What a call did in another thread."""

    def __init__(self, function: Callable[..., object], *args: object) -> None:
        self.function = function
        self.args = args
        self.error: BaseException | None = None
        self.done = threading.Event()

    def __call__(self) -> None:
        try:
            self.function(*self.args)
        except BaseException as error:
            self.error = error
        self.done.set()


def elsewhere(function: Callable[..., object], *args: object) -> BaseException | None:
    """Call it in another thread, and return what it raised."""
    outcome = Outcome(function, *args)
    thread = threading.Thread(target=outcome, name="stranger")
    thread.start()
    join(thread)
    return outcome.error


def waiting(reactor: Reactor) -> bool:
    """Whether a thread has begun to wait for a place; asked from the loop's thread."""
    return reactor.stats().inbox_waited > 0


def until(condition: Callable[[], bool]) -> None:
    """Wait for something that is sure to happen."""
    pause = threading.Event()
    for _ in range(int(DEADLINE_S * 1000)):
        if condition():
            return
        pause.wait(0.001)
    raise AssertionError("it did not happen")


# ---- what they may not do --------------------------------------------------------------------------------------------


def calls_of_the_owner(reactor: Reactor, fd: int) -> dict[str, Callable[[], object]]:
    timer = reactor.set_timeout(60, int)
    lane = reactor.lane("lane", int)
    return {
        "register": lambda: reactor.register(fd, READABLE, ignore),
        "modify": lambda: reactor.modify(fd, READABLE),
        "deregister": lambda: reactor.deregister(fd),
        "is_registered": lambda: reactor.is_registered(fd),
        "set_timeout": lambda: reactor.set_timeout(1, int),
        "set_interval": lambda: reactor.set_interval(1, int),
        "cancel_timer": lambda: reactor.cancel_timer(timer),
        "move_timer": lambda: reactor.move_timer(timer, 1),
        "timer.cancel": timer.cancel,
        "defer": lambda: reactor.defer(int),
        "lane": lambda: reactor.lane("other", int),
        "lane.close": lane.close,
        "post": lambda: reactor.post(lane, 1),
        "add_signal": lambda: reactor.add_signal(10, int),
        "remove_signal": lambda: reactor.remove_signal(10),
        "run": reactor.run,
        "run_once": lambda: reactor.run_once(0),
        "close": reactor.close,
    }


@pytest.mark.parametrize(
    "call",
    [
        *("register", "modify", "deregister", "is_registered", "set_timeout", "set_interval", "cancel_timer"),
        *("move_timer", "timer.cancel", "defer", "lane", "lane.close", "post", "add_signal", "remove_signal"),
        *("run", "run_once", "close"),
    ],
)
def test_a_call_from_a_wrong_thread_names_both(plain: Make, pipe: Callable[[], tuple[int, int]], call: str) -> None:
    reactor = plain(name="mine")
    error = elsewhere(calls_of_the_owner(reactor, pipe()[0])[call])
    assert isinstance(error, WrongThread), error
    assert isinstance(error, PenstockError)
    me = threading.current_thread()
    assert f"belongs to thread {me.name!r} ({me.ident})" in str(error)
    assert "called from thread 'stranger' (" in str(error)
    assert "use post_threadsafe, defer_threadsafe or stop" in str(error)
    assert reactor.run_once(0) == 0


def test_a_thread_that_has_ended_is_still_named(spawn: Spawn) -> None:
    made: list[Reactor] = []
    thread = spawn(lambda: made.append(Reactor()))
    join(thread)
    with pytest.raises(WrongThread, match=rf"belongs to thread .*{thread.ident}"):
        made[0].run_once(0)


# ---- what they may do ------------------------------------------------------------------------------------------------


def test_stop_from_another_thread(reactor: Reactor, spawn: Spawn) -> None:
    running = threading.Event()

    def stop() -> None:
        running.wait(DEADLINE_S)
        reactor.stop()

    spawn(stop)
    reactor.defer(running.set)
    reactor.run()
    assert reactor.run_once(0) == 0


def test_an_idle_loop_sleeps(reactor: Reactor, pipe: Callable[[], tuple[int, int]], spawn: Spawn) -> None:
    reader, _ = pipe()
    reactor.register(reader, READABLE, ignore)
    reactor.set_timeout(3_000, int)
    reactor.lane("lane", int)
    # A second of real time, in which nothing is to happen.
    threading.Timer(1.0, reactor.stop).start()
    reactor.run()
    stats = reactor.stats()
    assert (stats.waits, stats.polls, stats.wakes) == (1, 1, 1)
    assert stats.turns == 1
    assert stats.python_turns <= 1


@pytest.mark.parametrize("threads", [1, 8])
def test_ten_thousand_posts_of_many_threads_are_not_lost(reactor: Reactor, spawn: Spawn, threads: int) -> None:
    seen: list[tuple[int, int]] = []
    lane = reactor.lane("lane", seen.append, capacity=EVENTS, overflow="reject")
    each = EVENTS // threads

    def post(thread: int) -> None:
        for number in range(each):
            reactor.post_threadsafe(lane, (thread, number))

    workers = [spawn(post, thread) for thread in range(threads)]
    while len(seen) < EVENTS:
        reactor.run_once(DEADLINE_S)
    for worker in workers:
        join(worker)
    assert sorted(seen) == [(thread, number) for thread in range(threads) for number in range(each)]
    # Each thread's own order is kept.
    for thread in range(threads):
        assert [number for owner, number in seen if owner == thread] == list(range(each))
    stats = reactor.stats()
    assert stats.inbox_posted == EVENTS
    assert stats.lane("lane").offered == stats.lane("lane").run == EVENTS
    assert stats.drops == 0


def test_wake_ups_are_coalesced(reactor: Reactor, spawn: Spawn) -> None:
    seen: list[int] = []
    # The loop does not sleep: nobody wakes it.
    for number in range(100):
        reactor.defer_threadsafe(seen.append, number)
    assert reactor.stats().wakes == 0
    reactor.run_once(0)

    def post(burst: int) -> object:
        for number in range(burst):
            reactor.defer_threadsafe(seen.append, number)
        reactor.defer_threadsafe(reactor.stop)
        return None

    asleep = threading.Event()
    worker = spawn(lambda: asleep.wait(DEADLINE_S) and post(1_000))
    reactor.set_timeout(0, asleep.set)
    reactor.run()
    join(worker)
    stats = reactor.stats()
    assert len(seen) == 1_100
    # At most one for each sleep, however many posts there were.
    assert stats.wakes <= stats.waits


def test_a_post_from_a_handler_of_the_loop_itself_goes_through_the_inbox(reactor: Reactor) -> None:
    seen: list[int] = []
    lane = reactor.lane("lane", seen.append)
    reactor.post_threadsafe(lane, 1)
    reactor.post_threadsafe("lane", 2)
    reactor.run_once(0)
    assert seen == [1, 2]


def test_a_full_inbox_refuses(make: Make) -> None:
    reactor = make(policy=Policy(inbox_capacity=2))
    seen: list[int] = []
    lane = reactor.lane("lane", seen.append)
    reactor.post_threadsafe(lane, 1)
    reactor.defer_threadsafe(seen.append, 2)
    for post in (lambda: reactor.post_threadsafe(lane, 3), lambda: reactor.defer_threadsafe(seen.append, 3)):
        with pytest.raises(Overflow, match=r"inbox of .* is full \(2 posts\).*inbox_capacity in its Policy") as caught:
            post()
        assert (caught.value.limit, caught.value.capacity) == ("inbox_capacity", 2)
    reactor.run_once(0)
    assert sorted(seen) == [1, 2]
    assert reactor.stats().inbox_rejected == 2


def test_the_drops_of_posts_that_arrive_are_counted(reactor: Reactor) -> None:
    seen: list[int] = []
    for overflow in ("drop-oldest", "drop-newest", "reject", "coalesce"):
        reactor.lane(overflow, seen.append, capacity=2, overflow=overflow)
        for number in range(5):
            reactor.post_threadsafe(overflow, number)
    reactor.run_once(0)
    stats = reactor.stats()
    assert seen == [3, 4, 0, 1, 0, 1, 0, 4]
    assert stats.lane("drop-oldest").dropped_oldest == 3
    assert stats.lane("drop-newest").dropped_newest == 3
    assert stats.lane("reject").rejected == 3
    assert stats.lane("coalesce").coalesced == 3
    assert stats.drops == 9


def test_an_event_for_a_lane_that_was_closed_meanwhile_is_counted(reactor: Reactor) -> None:
    lane = reactor.lane("lane", int)
    reactor.post_threadsafe(lane, 1)
    lane.close()
    reactor.run_once(0)
    assert reactor.stats().lane("lane").dropped_closed == 1
    assert reactor.stats().drops == 1
    with pytest.raises(LaneClosed, match="lane 'lane' is closed"):
        reactor.post_threadsafe(lane, 2)


def test_a_lane_of_another_loop_is_refused(make: Make) -> None:
    mine, other = make(name="mine"), make(name="other")
    lane = other.lane("lane", int)
    for post in (mine.post, mine.post_threadsafe):
        with pytest.raises(UsageError, match="lane 'lane' does not belong to mine"):
            post(lane, 1)


# ---- waiting for a place ---------------------------------------------------------------------------------------------


def full_lane(reactor: Reactor, seen: list[Any]) -> Any:
    lane = reactor.lane("lane", seen.append, capacity=2, overflow="block")
    for number in range(2):
        reactor.post(lane, number)
    return lane


def test_a_thread_waits_until_there_is_a_place(reactor: Reactor, spawn: Spawn) -> None:
    seen: list[Any] = []
    lane = full_lane(reactor, seen)
    outcome = Outcome(reactor.post_threadsafe, lane, "late", DEADLINE_S)
    spawn(outcome)
    until(lambda: waiting(reactor))
    assert not outcome.done.is_set()
    while len(seen) < 3:
        reactor.run_once(DEADLINE_S)
    assert seen == [0, 1, "late"]
    assert outcome.done.wait(DEADLINE_S)
    assert outcome.error is None
    assert reactor.stats().lane("lane").high_water <= 2


def test_nothing_is_lost_when_many_threads_wait(reactor: Reactor, spawn: Spawn) -> None:
    seen: list[tuple[int, int]] = []
    lane = reactor.lane("lane", seen.append, capacity=3, overflow="block", budget=2)

    def post(thread: int) -> None:
        for number in range(50):
            reactor.post_threadsafe(lane, (thread, number), DEADLINE_S)

    workers = [spawn(post, thread) for thread in range(6)]
    while len(seen) < 300:
        reactor.run_once(DEADLINE_S)
    for worker in workers:
        join(worker)
    assert len(set(seen)) == 300
    stats = reactor.stats().lane("lane")
    assert (stats.offered, stats.run, stats.dropped) == (300, 300, 0)
    assert stats.high_water <= 3


@pytest.mark.parametrize("timeout", [0, 0.001])
def test_waiting_for_a_place_ends_with_overflow(reactor: Reactor, timeout: float) -> None:
    seen: list[Any] = []
    lane = full_lane(reactor, seen)
    error = elsewhere(reactor.post_threadsafe, lane, "late", timeout)
    assert isinstance(error, Overflow)
    assert f"lane 'lane' was full (2 events) for {timeout:g} s; wait longer" in str(error)
    assert (error.limit, error.capacity) == ("capacity", 2)
    reactor.run_once(0)
    assert seen == [0, 1]
    assert reactor.stats().inbox_rejected == 1


def test_the_policy_says_how_long_a_thread_waits(make: Make) -> None:
    reactor = make(policy=Policy(block_timeout_ns=0))
    error = elsewhere(reactor.post_threadsafe, full_lane(reactor, []), "late")
    assert isinstance(error, Overflow)


def test_close_lets_those_go_who_wait(make: Make, spawn: Spawn) -> None:
    reactor = make()
    lane = full_lane(reactor, [])
    outcomes = [Outcome(reactor.post_threadsafe, lane, number, DEADLINE_S) for number in range(3)]
    for outcome in outcomes:
        spawn(outcome)
    until(lambda: reactor.stats().inbox_waited >= 3)
    reactor.close()
    for outcome in outcomes:
        assert outcome.done.wait(DEADLINE_S)
        assert isinstance(outcome.error, LoopClosed)


def test_closing_the_lane_lets_those_go_who_wait(reactor: Reactor, spawn: Spawn) -> None:
    lane = full_lane(reactor, [])
    outcome = Outcome(reactor.post_threadsafe, lane, "late", DEADLINE_S)
    spawn(outcome)
    until(lambda: waiting(reactor))
    assert lane.close() == 2
    assert outcome.done.wait(DEADLINE_S / 4)
    assert isinstance(outcome.error, LaneClosed)


def test_the_loops_own_thread_does_not_wait_for_itself(reactor: Reactor) -> None:
    seen: list[Any] = []
    lane = full_lane(reactor, seen)
    for post in (reactor.post, reactor.post_threadsafe):
        with pytest.raises(Overflow, match=r"lane 'lane' is full .* cannot wait for itself"):
            post(lane, "late")
    reactor.run_once(0)
    assert seen == [0, 1]
    assert reactor.stats().lane("lane").rejected == 2


def test_a_place_that_is_promised_is_not_given_away(reactor: Reactor) -> None:
    seen: list[Any] = []
    lane = reactor.lane("lane", seen.append, capacity=2, overflow="block")
    reactor.post(lane, "mine")
    assert elsewhere(reactor.post_threadsafe, lane, "promised", 0) is None
    with pytest.raises(Overflow):
        reactor.post(lane, "greedy")
    assert isinstance(elsewhere(reactor.post_threadsafe, lane, "too late", 0), Overflow)
    reactor.run_once(0)
    assert seen == ["mine", "promised"]


@pytest.mark.parametrize("closed", ["before", "meanwhile"])
def test_posts_to_a_closed_loop(make: Make, spawn: Spawn, closed: str) -> None:
    reactor = make()
    lane = reactor.lane("lane", int)
    rounds: list[int] = []
    started = threading.Event()

    def post() -> None:
        while True:
            reactor.post_threadsafe(lane, 1)
            reactor.defer_threadsafe(int)
            rounds.append(1)
            started.set()

    outcome = Outcome(post)
    if closed == "before":
        reactor.close()
    spawn(outcome)
    if closed == "meanwhile":
        while not started.is_set():
            reactor.run_once(0.001)
        reactor.close()
    assert outcome.done.wait(DEADLINE_S)
    assert isinstance(outcome.error, (LoopClosed, LaneClosed, Overflow))
    reactor.stop()


def test_one_loop_per_thread(spawn: Spawn) -> None:
    counts: list[int] = []

    def work() -> None:
        with Reactor() as reactor:
            reader, writer = os.pipe()
            seen: list[int] = []

            def ready(fd: int, events: int) -> None:
                seen.append(os.read(fd, 1)[0])
                if len(seen) == 100:
                    reactor.stop()
                else:
                    os.write(writer, b"x")

            reactor.register(reader, READABLE, ready)
            os.write(writer, b"x")
            reactor.run()
            counts.append(len(seen))
            os.close(reader)
            os.close(writer)

    for worker in [spawn(work) for _ in range(4)]:
        join(worker)
    assert counts == [100] * 4
