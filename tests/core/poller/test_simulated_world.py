"""The outside world of the simulated kernel: instants, faults, and their limits."""

from __future__ import annotations

import errno

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import limits
from penstock.core.clock import ManualClock
from penstock.core.poller.simulated import SimulatedKernel
from penstock.errors import Overflow, UsageError


def kernel(seed: int = 0) -> SimulatedKernel:
    return SimulatedKernel(ManualClock(), seed)


# ---- the schedule


@given(st.lists(st.integers(0, 20), max_size=40), st.lists(st.integers(0, 8), max_size=10))
def test_actions_run_in_the_order_of_time_and_insertion(times: list[int], steps: list[int]) -> None:
    clock = ManualClock()
    simulated = SimulatedKernel(clock)
    ran: list[tuple[int, int]] = []
    for index, time_ns in enumerate(times):
        simulated.at(time_ns, lambda *what: ran.append(what), time_ns, index)
    planned = sorted((time_ns, index) for index, time_ns in enumerate(times))
    for step in steps:
        clock.advance(step)
        simulated.eventfd()
        assert ran == [(time_ns, index) for time_ns, index in planned if time_ns <= clock.now_ns()]
    assert len(simulated.schedule) == len(planned) - len(ran)


def test_every_call_lets_the_world_catch_up() -> None:
    simulated = kernel()
    one, two = simulated.socketpair()
    simulated.at(10, simulated.write, two, b"x")
    with pytest.raises(BlockingIOError):
        simulated.read(one, 1)
    simulated.clock.advance(10)
    assert simulated.read(one, 1) == b"x"


def test_what_an_action_schedules_happens_when_it_would_have_happened() -> None:
    simulated = kernel()
    instants: list[int] = []

    def beat() -> None:
        instants.append(simulated.schedule.now_ns())
        simulated.at(simulated.schedule.now_ns() + 10, beat)

    simulated.at(5, beat)
    simulated.clock.advance(40)
    simulated.eventfd()
    assert instants == [5, 15, 25, 35]


def test_the_past_is_over() -> None:
    simulated = kernel()
    simulated.clock.advance(10)
    with pytest.raises(UsageError, match="time_ns is 9, but it is 10"):
        simulated.at(9, simulated.eventfd)
    simulated.at(10, simulated.eventfd)


def test_a_call_that_fails_outside_is_counted_and_fails_nobody_inside() -> None:
    simulated = kernel()
    simulated.at(1, simulated.write, 99, b"x")
    simulated.clock.advance(1)
    simulated.eventfd()
    assert simulated.schedule.errors == {"OSError": 1}
    assert simulated.refusals["write", "EBADF"] == 1


def test_other_errors_of_an_action_come_through_and_break_nothing() -> None:
    simulated = kernel()
    simulated.at(1, lambda: 1 // 0)
    simulated.at(1, simulated.eventfd)
    simulated.clock.advance(1)
    with pytest.raises(ZeroDivisionError):
        simulated.eventfd()
    assert simulated.eventfd() == 4


def test_the_schedule_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SIMULATED_SCHEDULE_MAX", 2)
    simulated = kernel()
    simulated.at(1, simulated.eventfd)
    simulated.at(1, simulated.eventfd)
    with pytest.raises(Overflow) as caught:
        simulated.at(1, simulated.eventfd)
    assert (caught.value.limit, caught.value.capacity) == ("SIMULATED_SCHEDULE_MAX", 2)


def test_an_action_that_repeats_itself_at_once_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SIMULATED_ACTIONS_PER_CALL_MAX", 50)
    simulated = kernel()

    def again() -> None:
        simulated.at(simulated.schedule.now_ns(), again)

    again()
    with pytest.raises(Overflow, match="51 scheduled actions"):
        simulated.eventfd()


# ---- faults


def test_planned_failures_strike_in_turn_and_do_nothing_else() -> None:
    simulated = kernel()
    one, two = simulated.socketpair()
    simulated.fail_next("write", two, errno.ENOBUFS, times=2)
    simulated.fail_next("write", None, errno.EINTR)
    for number in (errno.ENOBUFS, errno.ENOBUFS, errno.EINTR):
        with pytest.raises(OSError, match=f"Errno {number}"):
            simulated.write(two, b"x")
    assert simulated.write(two, b"x") == 1
    assert simulated.read(one, 10) == b"x"
    assert simulated.faults.struck == 3
    assert simulated.refusals["write", "ENOBUFS"] == 2


def test_a_fault_of_one_descriptor_leaves_others_alone() -> None:
    simulated = kernel()
    one, two = simulated.socketpair()
    simulated.fail_next("write", one, errno.EIO)
    assert simulated.write(two, b"x") == 1
    with pytest.raises(OSError, match=f"Errno {errno.EIO}"):
        simulated.write(one, b"x")


def test_short_calls() -> None:
    simulated = kernel()
    one, two = simulated.socketpair()
    simulated.short_next("write", two, 3)
    simulated.short_next("read", one, 2)
    simulated.short_next("read", None, 100)
    assert simulated.write(two, b"abcdef") == 3
    assert simulated.read(one, 10) == b"ab"
    assert simulated.read(one, 10) == b"c"
    assert simulated.write(two, b"abcdef") == 6


def test_a_close_that_fails_has_closed() -> None:
    simulated = kernel()
    one, _ = simulated.socketpair()
    simulated.fail_next("close", one, errno.EINTR)
    with pytest.raises(InterruptedError):
        simulated.close(one)
    with pytest.raises(OSError, match=f"Errno {errno.EBADF}"):
        simulated.close(one)


def test_random_faults_come_from_the_seed() -> None:
    def run(seed: int) -> list[int]:
        simulated = kernel(seed)
        one, two = simulated.socketpair()
        simulated.faults.fail_sometimes("write", None, errno.EINTR, 0.3)
        simulated.faults.short_sometimes("write", two, 0.5)
        sizes = []
        for _ in range(100):
            try:
                sizes.append(simulated.write(two, b"0123456789"))
                simulated.read(one, 10)
            except InterruptedError:
                sizes.append(-1)
        return sizes

    sizes = run(7)
    assert sizes == run(7) != run(8)
    assert {-1, 10} < set(sizes) <= {-1, *range(1, 11)}
    assert "seed=7" in repr(kernel(7))


def test_random_faults_can_be_ended() -> None:
    simulated = kernel()
    simulated.faults.fail_sometimes("eventfd", None, errno.ENOMEM, 1.0)
    with pytest.raises(OSError, match=f"Errno {errno.ENOMEM}"):
        simulated.eventfd()
    simulated.faults.fail_sometimes("eventfd", None, errno.ENOMEM, 0.0)
    assert simulated.eventfd() == 3


def test_faults_that_cannot_be_meant_are_refused() -> None:
    simulated = kernel()
    for mistake in (
        lambda: simulated.fail_next("wirte", None, errno.EIO),
        lambda: simulated.fail_next("write", None, 0),
        lambda: simulated.fail_next("write", None, errno.EIO, times=0),
        lambda: simulated.short_next("write", None, 0),
        lambda: simulated.faults.short_sometimes("read", None, 1.5),
    ):
        with pytest.raises(UsageError):
            mistake()


def test_faults_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SIMULATED_FAULTS_MAX", 1)
    simulated = kernel()
    simulated.fail_next("eventfd", None, errno.EIO)
    with pytest.raises(Overflow) as caught:
        simulated.short_next("read", None, 1)
    assert caught.value.limit == "SIMULATED_FAULTS_MAX"
    with pytest.raises(OSError, match=f"Errno {errno.EIO}"):
        simulated.eventfd()
    simulated.short_next("read", None, 1)
