"""Timers on real pollers: never early, first come first served, on a grid that does not drift."""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable

import pytest

from penstock import ManualClock, Overflow, Policy, Reactor, Timer
from penstock.core.poller.epoll import EpollPoller
from tests.reactor.conftest import in_process

Make = Callable[..., Reactor]

MS = 1_000_000


def test_equal_deadlines_fire_in_the_order_in_which_they_were_set(make: Make) -> None:
    reactor = make(clock=ManualClock())
    fired: list[int] = []
    for number in range(100):
        reactor.set_timeout(0.005, fired.append, number)
    moved = reactor.set_timeout(0.001, fired.append, -1)
    assert reactor.move_timer(moved, 0.005)
    assert reactor.run_once(1) == 101
    assert fired == [*range(100), -1]


def test_the_oldest_deadline_comes_first(make: Make) -> None:
    clock = ManualClock()
    reactor = make(clock=clock)
    fired: list[float] = []
    for delay in (0.003, 0.001, 0.002, 0.0):
        reactor.set_timeout(delay, fired.append, delay)
    clock.advance(10 * MS)
    assert reactor.run_once(0) == 4
    assert fired == [0.0, 0.001, 0.002, 0.003]


@pytest.mark.parametrize("coarse", [False, True])
def test_no_timer_is_early(plain: Make, coarse: bool) -> None:
    # Coarse: what a kernel without epoll_pwait2 gets, waits in milliseconds.
    poller = EpollPoller(coarse=coarse)
    reactor = plain(poller=poller)
    early: list[int] = []

    def check(due_ns: int) -> None:
        if reactor.now_ns() < due_ns:
            early.append(due_ns - reactor.now_ns())

    for delay_ns in (0, 1, 999, 50_000, 333_333, 999_999, 1_000_001, 2_500_000, 7_777_777):
        reactor.set_timeout(delay_ns / 1e9, check, reactor.now_ns() + delay_ns)
    reactor.run(keep_alive=False)
    assert early == []
    assert poller.coarse == coarse
    # Without rounding down, no wait ends before its timer: there is nothing to wait for twice.
    stats = reactor.stats()
    assert stats.waits <= 9
    assert stats.late_ns.count == 9


# A filter in the kernel: system call 441, epoll_pwait2 on every machine, answers ENOSYS as an old kernel would.
WITHOUT_PWAIT2 = """
    import ctypes, struct
    from penstock import Reactor
    from penstock.core.poller.epoll import EpollPoller

    rules = ((0x20, 0, 0, 0), (0x15, 0, 1, 441), (0x06, 0, 0, 0x00050000 | 38), (0x06, 0, 0, 0x7FFF0000))
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *rule) for rule in rules))
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(rules), ctypes.addressof(code)))
    libc = ctypes.CDLL(None, use_errno=True)
    pointer, none = ctypes.c_void_p(ctypes.addressof(program)), ctypes.c_ulong(0)
    if libc.prctl(38, ctypes.c_ulong(1), none, none, none) or libc.prctl(22, ctypes.c_ulong(2), pointer, none, none):
        raise SystemExit(f"no filter: {ctypes.get_errno()}")
    poller = EpollPoller()
    with Reactor(poller) as reactor:
        early = []
        def due(at_ns):
            if reactor.now_ns() < at_ns:
                early.append(at_ns)
        for step in range(20):
            reactor.set_timeout(step * 0.0003, due, reactor.now_ns() + step * 300_000)
        before = poller.coarse
        reactor.run(keep_alive=False)
        print(before, poller.coarse, early)
"""


@pytest.mark.skipif(sys.platform != "linux" or struct.calcsize("P") != 8, reason="filters of Linux on 64 bits")
def test_a_kernel_without_epoll_pwait2_is_found_out_and_no_timer_is_early() -> None:
    done = in_process(WITHOUT_PWAIT2)
    assert (done.stdout.strip(), done.stderr) == ("False True []", "")


def test_no_timer_is_early_on_any_poller(reactor: Reactor) -> None:
    early: list[int] = []

    def check(due_ns: int) -> None:
        if reactor.now_ns() < due_ns:
            early.append(due_ns)

    for step in range(20):
        delay_ns = step * 123_456
        reactor.set_timeout(delay_ns / 1e9, check, reactor.now_ns() + delay_ns)
    reactor.run(keep_alive=False)
    assert early == []


def test_a_long_wait_is_approached_and_not_early(reactor: Reactor) -> None:
    fired: list[bool] = []
    due_ns = reactor.now_ns() + 60 * MS
    reactor.set_timeout(0.06, lambda: fired.append(reactor.now_ns() >= due_ns))
    reactor.run(keep_alive=False)
    assert fired == [True]
    assert reactor.stats().approaches == 1


def test_an_interval_does_not_drift_and_counts_what_it_missed(make: Make) -> None:
    clock = ManualClock()
    reactor = make(clock=clock)
    seen: list[int] = []

    def slow() -> None:
        seen.append(clock.now_ns() // MS)
        # The third call takes two and a half periods.
        clock.advance(25 * MS if len(seen) == 3 else 3 * MS)

    timer = reactor.set_interval(0.01, slow)
    while len(seen) < 6:
        reactor.run_once(1)
    # Due at 10, 20, 30; then 40 is late and 50 is missed; the grid stays.
    assert seen == [10, 20, 30, 55, 60, 70]
    assert reactor.stats().timers_missed_periods == 1
    assert timer.deadline_ns == 80 * MS


def test_a_timer_is_cancelled_in_its_own_callback(make: Make) -> None:
    reactor = make(clock=ManualClock())
    answers: list[bool] = []
    once: Timer = reactor.set_timeout(0.001, lambda: answers.append(reactor.cancel_timer(once)))
    reactor.run_once(1)
    assert answers == [False]
    often: Timer = reactor.set_interval(0.001, lambda: answers.append(reactor.cancel_timer(often)))
    reactor.run(keep_alive=False)
    assert answers == [False, True]
    assert not often.active
    assert often.deadline_ns is None
    assert not often.cancel()


def test_a_timer_is_cancelled_by_another_that_is_due_at_the_same_instant(make: Make) -> None:
    reactor = make(clock=ManualClock())
    fired: list[str] = []

    def first() -> None:
        assert victim.cancel()

    reactor.set_timeout(0.001, first)
    victim: Timer = reactor.set_timeout(0.001, fired.append, "victim")
    reactor.set_timeout(0.001, fired.append, "bystander")
    reactor.run(keep_alive=False)
    assert fired == ["bystander"]
    assert reactor.stats().timers_cancelled == 1


def test_a_timer_that_is_due_is_moved_away_by_another(make: Make) -> None:
    clock = ManualClock()
    reactor = make(clock=clock)
    fired: list[int] = []
    reactor.set_timeout(0.001, lambda: reactor.move_timer(other, 0.005))
    other: Timer = reactor.set_timeout(0.001, lambda: fired.append(clock.now_ns()))
    reactor.run(keep_alive=False)
    assert fired == [6 * MS]
    assert reactor.stats().timers_moved == 1


def test_an_interval_moves_itself(make: Make) -> None:
    clock = ManualClock()
    reactor = make(clock=clock)
    fired: list[int] = []

    def callback() -> None:
        fired.append(clock.now_ns() // MS)
        if len(fired) == 1:
            assert reactor.move_timer(timer, 0.007)
        if len(fired) == 3:
            timer.cancel()

    timer = reactor.set_interval(0.01, callback)
    reactor.run(keep_alive=False)
    assert fired == [10, 17, 27]


def test_timers_are_bounded(make: Make) -> None:
    reactor = make(policy=Policy(timers_max=3))
    timers = [reactor.set_timeout(60, int) for _ in range(3)]
    with pytest.raises(Overflow, match=r"has 3 timers; cancel some, or raise timers_max") as caught:
        reactor.set_timeout(60, int)
    assert (caught.value.limit, caught.value.capacity) == ("timers_max", 3)
    timers[0].cancel()
    reactor.set_timeout(60, int)
    assert reactor.stats().timers == 3
    assert reactor.stats().timers_high_water == 3


def test_arguments_are_handed_over_as_they_are(make: Make) -> None:
    reactor = make(clock=ManualClock())
    seen: list[tuple[object, ...]] = []

    def callback(*args: object) -> None:
        seen.append(args)

    reactor.set_timeout(0, callback)
    reactor.set_timeout(0, callback, None, 1, [2])
    reactor.defer(callback)
    reactor.defer(callback, None)
    reactor.defer_threadsafe(callback)
    reactor.defer_threadsafe(callback, None, 1)
    reactor.run_once(0)
    assert seen == [(), (None, 1), (), (None, 1, [2]), (), (None,)]
