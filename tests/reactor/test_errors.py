"""What happens to mistakes: those of a program get a clear error at the call, those of handlers are contained, and a
broken invariant is told with the last turns."""

from __future__ import annotations

import decimal
import functools
import logging
import os
import re
import signal
from collections.abc import Callable
from typing import Any

import pytest

from penstock import (
    READABLE,
    WRITABLE,
    BadDescriptor,
    Budget,
    InvariantBroken,
    LaneClosed,
    LoopClosed,
    LoopRunning,
    ManualClock,
    PenstockError,
    Policy,
    Reactor,
    Unsupported,
    UsageError,
)
from penstock.limits import REPORTS_PER_PERIOD
from penstock.stats import ErrorReport
from penstock.testing.native import corrupt
from tests.reactor.conftest import ignore, in_process

Make = Callable[..., Reactor]
Pipe = Callable[[], tuple[int, int]]

MS = 1_000_000


class Odd:
    """An object whose fileno() is what the test wants."""

    def __init__(self, answer: object) -> None:
        self.answer = answer

    def fileno(self) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def __repr__(self) -> str:
        return "<odd>"


# ---- arguments -------------------------------------------------------------------------------------------------------

LONG = "x" * 81


def odd(value: object) -> Any:
    """A value that the type checker would have found out."""
    return value


# The call, and what the error must say of the thing, its value, and the remedy.
MISTAKES: dict[str, tuple[Callable[[Any], object], str]] = {
    "negative": (lambda r: r.register(-3, READABLE, ignore), "descriptor -3 is negative: it is closed"),
    "closed object": (lambda r: r.register(Odd(-1), READABLE, ignore), "descriptor -1 is negative: it is closed"),
    "too large": (lambda r: r.register(1 << 31, READABLE, ignore), "descriptor 2147483648 .* below 2**31"),
    "huge": (lambda r: r.register(1 << 200, READABLE, ignore), "descriptor 160693.* below 2**31"),
    "not open": (lambda r: r.register(987_654, READABLE, ignore), "descriptor 987654 is not open; register it before"),
    "no number": (lambda r: r.register("0", READABLE, ignore), "descriptor is '0'; give a number, or an object with"),
    "none": (lambda r: r.register(None, READABLE, ignore), "descriptor is None; give a number, or an object with"),
    "float": (lambda r: r.register(1.0, READABLE, ignore), "descriptor is 1.0; give a number, or an object with"),
    "bool": (lambda r: r.register(True, READABLE, ignore), "descriptor is True; give a number, or an object with"),
    "odd fileno": (
        lambda r: r.register(Odd(None), READABLE, ignore),
        "descriptor is <odd>, whose fileno.. is None; it",
    ),
    "text fileno": (lambda r: r.register(Odd("7"), READABLE, ignore), "descriptor is <odd>, whose fileno.. is '7'; it"),
    "unknown bit": (lambda r: r.register(0, 32, ignore), "events is 0x20, which has unknown bits; give READABLE"),
    "two bits, one unknown": (lambda r: r.register(0, 17, ignore), "events is 0x11, which has unknown bits; give"),
    "negative events": (lambda r: r.register(0, -1, ignore), "events is -0x1, which has unknown bits; give READABLE"),
    "huge events": (lambda r: r.register(0, 1 << 70, ignore), "events is 0x4000.*, which has unknown bits; give"),
    "events of text": (lambda r: r.register(0, "r", ignore), "events is 'r'; give READABLE, WRITABLE or both"),
    "bool events": (lambda r: r.register(0, True, ignore), "events is True; give READABLE, WRITABLE or both"),
    "no callback": (lambda r: r.register(0, READABLE, 7), "the callback 7 cannot be called"),
    "modify a stranger": (lambda r: r.modify(987_654, READABLE), "descriptor 987654 is not registered .* register it"),
    "deregister a stranger": (lambda r: r.deregister(987_654), "descriptor 987654 is not registered with mine"),
    "negative delay": (lambda r: r.set_timeout(-0.1, int), "a delay is -0.1 s; give 0 or more"),
    "not a number": (lambda r: r.set_timeout(float("nan"), int), "a delay is nan s; give 0 or more"),
    "infinite": (lambda r: r.set_timeout(float("inf"), int), "a delay is inf s; give at most 315,360,000"),
    "minus infinity": (lambda r: r.set_timeout(float("-inf"), int), "a delay is -inf s; give 0 or more"),
    "ages": (lambda r: r.set_timeout(10**30, int), "a delay is 10+ s; give at most 315,360,000"),
    "delay of text": (lambda r: r.set_timeout("1", int), "a delay is '1'; give seconds as a number"),
    "delay of none": (lambda r: r.set_timeout(None, int), "a delay is None; give seconds as a number"),
    "bool delay": (lambda r: r.set_timeout(True, int), "a delay is True; give seconds as a number"),
    "decimal": (lambda r: r.set_timeout(decimal.Decimal(1), int), r"a delay is Decimal\('1'\); give seconds as a num"),
    "timer calls nothing": (lambda r: r.set_timeout(1, None), "the callback None cannot be called"),
    "no period": (lambda r: r.set_interval(0, int), "a period is 0 s; give at least 1e-06 s"),
    "short period": (lambda r: r.set_interval(1e-7, int), "a period is 1e-07 s; give at least 1e-06 s"),
    "interval calls nothing": (lambda r: r.set_interval(1, "f"), "the callback 'f' cannot be called"),
    "move into the past": (lambda r: r.move_timer(r.set_timeout(1, int), -1), "a delay is -1 s; give 0 or more"),
    "defer nothing": (lambda r: r.defer(None), "the callback None cannot be called"),
    "defer nothing from a thread": (lambda r: r.defer_threadsafe(None), "the callback None cannot be called"),
    "negative budget": (lambda r: r.lane("a", int, budget=-1), "a budget of -1 is below zero; give 0"),
    "endless budget": (lambda r: r.lane("a", int, budget=1 << 62), "a budget of 4611.* is no limit; give less than"),
    "bool budget": (lambda r: r.lane("a", int, budget=True), "a budget of True: give a whole number"),
    "odd unit": (lambda r: Budget(1, unit=odd("ms")), "unit is 'ms'; give one of 'work', 'ns'"),
    "odd refill": (lambda r: Budget(1, per=odd("day")), "per is 'day'; give one of 'turn', 'tick'"),
    "odd denial": (lambda r: Budget(1, denied=odd("no")), "denied is 'no'; give one of 'keep', 'drop'"),
    "no capacity": (lambda r: r.lane("a", int, capacity=0), "lane 'a': a capacity of 0; give 1 to 16,777,216"),
    "vast capacity": (lambda r: r.lane("a", int, capacity=1 << 30), "lane 'a': a capacity of 1,073,741,824; give 1 to"),
    "bool capacity": (lambda r: r.lane("a", int, capacity=True), "lane 'a': a capacity of True; give a whole number"),
    "odd overflow": (lambda r: r.lane("a", int, overflow="drop"), "lane 'a': overflow is 'drop'; give one of 'drop-ol"),
    "priority": (lambda r: r.lane("a", int, priority=1_001), "lane 'a': a priority of 1001; give .* -1000 to 1000"),
    "odd priority": (lambda r: r.lane("a", int, priority=1.5), "lane 'a': a priority of 1.5; give a whole number"),
    "lane calls nothing": (lambda r: r.lane("a", 7), "lane 'a': the handler 7 cannot be called"),
    "lane without handler": (lambda r: r.lane("a", None), "lane 'a' has no handler; give it one"),
    "merge calls nothing": (lambda r: r.lane("a", int, overflow="coalesce", merge=7), "lane 'a': merge is 7, which ca"),
    "merge without cause": (lambda r: r.lane("a", int, merge=max), "lane 'a': merge goes with overflow=.coalesce., no"),
    "no name": (lambda r: r.lane("", int), "a lane named ''; give a text that is not empty"),
    "long name": (lambda r: r.lane(LONG, int), "a lane's name of 81 characters; give at most 80"),
    "taken name": (lambda r: [r.lane("a", int) for _ in "ab"], "mine has a lane 'a' already; take another name"),
    "unknown lane": (lambda r: (r.lane("a", int), r.post("b", 1)), "mine has no lane 'b'; its lanes are: 'a'"),
    "no lane": (lambda r: r.post_threadsafe("b", 1), "mine has no lane 'b'; its lanes are: none"),
    "offered past the loop": (lambda r: r.lane("a", int).offer(1), "lane 'a' belongs to a loop; post to it"),
    "taken past the loop": (lambda r: r.lane("a", int).take(1), "lane 'a' belongs to a loop; post to it"),
    "negative wait": (lambda r: r.run_once(-1), "timeout is -1 s; give 0 or more"),
    "wait of text": (lambda r: r.run_once("1"), "timeout is '1'; give seconds as a number"),
    "endless wait for a place": (
        lambda r: r.post_threadsafe(r.lane("a", int), 1, float("nan")),
        "timeout is nan s; gi",
    ),
    "signal calls nothing": (lambda r: r.add_signal(10, None), "the callback None cannot be called"),
    "no timer": (lambda r: r.cancel_timer(None), "the timer is None; give what set_timeout or set_interval has return"),
    "timer of text": (
        lambda r: r.move_timer("t", 1),
        "the timer is 't'; give what set_timeout or set_interval has ret",
    ),
    "signal of text": (lambda r: r.add_signal("INT", int), "signal 'INT' is no number; give one, such as signal.SIGTE"),
    "half a signal": (lambda r: r.add_signal(1.5, int), "signal 1.5 is no number; give one, such as signal.SIGTERM"),
    "bool signal": (lambda r: r.add_signal(True, int), "signal True is no number; give one, such as signal.SIGTERM"),
    "unknown signal": (lambda r: r.add_signal(4_000, int), "signal 4000 does not exist here; give one, such as signal"),
    "vast signal": (lambda r: r.add_signal(1 << 70, int), "signal 118059.* does not exist here; give one, such as sig"),
    "stubborn signal": (lambda r: r.add_signal(9, int), "signal 9 cannot be caught by any program; SIGTERM and SIGI"),
    "remove a text": (lambda r: r.remove_signal("INT"), "signal 'INT' is no number; give one, such as signal.SIGTER"),
    "remove a half": (lambda r: r.remove_signal(10.5), "signal 10.5 is no number; give one, such as signal.SIGTERM"),
    "odd clock": (lambda r: type(r)(clock=7), "clock is 7; give a penstock.Clock or a ManualClock"),
    "odd loop name": (lambda r: type(r)(name=7), "a loop named 7; give a text that is not empty"),
    "odd policy": (lambda r: type(r)(policy={}), "policy is {}; give a penstock.Policy"),
    "odd hook": (lambda r: type(r)(on_error=7), "the callback 7 cannot be called"),
    "odd other hook": (lambda r: type(r)(on_drop=7), "the callback 7 cannot be called"),
    "odd poller": (lambda r: type(r)(7), "poller is 7, which has no name, .*close; give a name or a PollerLike"),
    "loop without name": (lambda r: Reactor(name=""), "a loop's name of 0 characters; give 1 to 80"),
    "loop with long name": (lambda r: Reactor(name=LONG), "a loop's name of 81 characters; give 1 to 80"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_named_at_the_call(plain: Make, name: str) -> None:
    reactor = plain(name="mine")
    call, wanted = MISTAKES[name]
    with pytest.raises(UsageError) as caught:
        call(reactor)
    assert isinstance(caught.value, (PenstockError, ValueError))
    assert re.match(wanted.replace("**", r"\*\*"), str(caught.value)), str(caught.value)
    assert isinstance(caught.value, BadDescriptor) == str(caught.value).startswith("descriptor")
    # And nothing has happened.
    assert reactor.run_once(0) == 0
    assert reactor.stats().registered == 0


def test_a_closed_descriptor_is_named_with_its_number(reactor: Reactor, pipe: Pipe) -> None:
    reader, _ = pipe()
    os.close(reader)
    with pytest.raises(BadDescriptor, match=f"descriptor {reader} is not open; register it before it is closed"):
        reactor.register(reader, READABLE, ignore)
    assert not reactor.is_registered(reader)


def test_a_file_cannot_be_waited_for(reactor: Reactor, tmp_path: Any) -> None:
    with (
        (tmp_path / "file").open("w") as file,
        pytest.raises(BadDescriptor, match=f"descriptor {file.fileno()} is a file that is always ready"),
    ):
        reactor.register(file, READABLE, ignore)


def test_a_fileno_that_raises_is_not_hidden(reactor: Reactor) -> None:
    with pytest.raises(OSError, match="gone"):
        reactor.register(Odd(OSError("gone")), READABLE, ignore)


def test_a_failed_new_life_ends_the_old_one_too(plain: Make, pipe: Pipe) -> None:
    reactor = plain(poller="select")
    reader, writer = pipe()
    os.write(writer, b"x")
    reactor.register(reader, READABLE, ignore)
    with pytest.raises(Unsupported):
        reactor.register(reader, READABLE, ignore, edge=True)
    assert not reactor.is_registered(reader)
    assert reactor.run_once(0) == 0
    # Nothing of it is left in the poller.
    assert reactor.stats().stale == 0


def test_numbers_of_other_kinds_are_numbers(reactor: Reactor, pipe: Pipe) -> None:
    class Number(int):
        pass

    reader, writer = pipe()
    seen: list[int] = []
    reactor.register(Number(reader), Number(READABLE), lambda fd, events: seen.append(fd))
    os.write(writer, b"x")
    reactor.set_timeout(Number(0), seen.append, -1)
    reactor.run_once(0)
    assert seen == [-1, reader]
    assert [type(number) for number in seen] == [int, int]


def test_errors_and_hang_ups_may_be_asked_for(reactor: Reactor, pipe: Pipe) -> None:
    reader, _ = pipe()
    reactor.register(reader, READABLE | 4 | 8, ignore)
    reactor.modify(reader, READABLE | 12)
    reactor.run_once(0)
    assert reactor.stats().changes == 0


def test_a_signal_that_is_refused_keeps_its_handler(plain: Make) -> None:
    before = signal.getsignal(signal.SIGHUP)
    with pytest.raises(UsageError):
        plain().add_signal(odd(signal.SIGHUP + 0.5), ignore)
    assert signal.getsignal(signal.SIGHUP) is before


def test_a_timer_of_another_loop_is_refused(make: Make) -> None:
    mine, other = make(name="mine"), make(name="other")
    timer = other.set_timeout(1, int)
    for call in (mine.cancel_timer, lambda timer: mine.move_timer(timer, 1)):
        with pytest.raises(UsageError, match="belongs to other, not to mine"):
            call(timer)
    assert timer.active


def test_an_unknown_poller_is_named_with_those_there_are() -> None:
    with pytest.raises(Unsupported, match=r"poller is 'devpoll'; available here: 'auto', .*'select'"):
        Reactor("devpoll")


def test_a_table_too_small_for_the_loop_itself_leaves_nothing_open() -> None:
    before = os.listdir("/proc/self/fd") if os.path.isdir("/proc/self/fd") else []
    for _ in range(20):
        with pytest.raises(PenstockError, match="raise descriptors_max in its Policy"):
            Reactor(policy=Policy(descriptors_max=4))
    if before:
        assert len(os.listdir("/proc/self/fd")) == len(before)


# ---- running and closing ---------------------------------------------------------------------------------------------


def test_a_loop_is_not_run_or_closed_by_its_own_handlers(make: Make) -> None:
    errors: list[str] = []
    reactor = make(name="mine", on_error=lambda report: errors.append(f"{report.step}: {report.error}"))
    for call in (reactor.run, lambda: reactor.run_once(0), reactor.close):
        reactor.defer(call)
    reactor.run_once(0)
    assert [error.split(";")[0] for error in errors] == [
        "deferred: mine is running already",
        "deferred: mine is running already",
        "deferred: mine is running",
    ]
    with pytest.raises(LoopRunning):
        raise_in(reactor, reactor.run)


def raise_in(reactor: Reactor, call: Callable[[], object]) -> None:
    caught: list[BaseException] = []

    def inside() -> None:
        try:
            call()
        except LoopRunning as error:
            caught.append(error)

    reactor.defer(inside)
    reactor.run_once(0)
    raise caught[0]


AFTER_CLOSE: dict[str, Callable[[Any], object]] = {
    "register": lambda r: r.register(0, READABLE, ignore),
    "modify": lambda r: r.modify(0, READABLE),
    "deregister": lambda r: r.deregister(0),
    "is_registered": lambda r: r.is_registered(0),
    "set_timeout": lambda r: r.set_timeout(1, int),
    "set_interval": lambda r: r.set_interval(1, int),
    "defer": lambda r: r.defer(int),
    "lane": lambda r: r.lane("b", int),
    "post": lambda r: r.post("a", 1),
    "post_threadsafe": lambda r: r.post_threadsafe("a", 1),
    "defer_threadsafe": lambda r: r.defer_threadsafe(int),
    "add_signal": lambda r: r.add_signal(10, int),
    "remove_signal": lambda r: r.remove_signal(10),
    "run": lambda r: r.run(),
    "run_once": lambda r: r.run_once(0),
}


@pytest.mark.parametrize("call", AFTER_CLOSE)
def test_nothing_works_after_close(make: Make, call: str) -> None:
    reactor = make(name="mine")
    lane = reactor.lane("a", int)
    timer = reactor.set_timeout(1, int)
    reactor.close()
    with pytest.raises(LoopClosed, match="mine is closed; make a new loop"):
        AFTER_CLOSE[call](reactor)
    for late in (lambda: reactor.post(lane, 1), lambda: reactor.post_threadsafe(lane, 1), timer.cancel):
        with pytest.raises(LoopClosed):
            late()
    assert reactor.closed
    assert lane.closed
    assert not timer.active
    with pytest.raises(LaneClosed):
        lane.offer(1)
    reactor.stop()
    reactor.close()
    assert repr(reactor) == f"<Reactor 'mine' on {reactor.poller}, closed>"


# ---- exceptions of handlers ------------------------------------------------------------------------------------------


def failing(step: str) -> Callable[..., None]:
    def fails(*_: object) -> None:
        raise LookupError(step)

    return fails


def test_the_hook_is_told_which_handler_failed_in_which_step(make: Make, pipe: Pipe) -> None:
    reports: list[ErrorReport] = []
    reactor = make(name="mine", on_error=reports.append)
    reader, writer = pipe()
    os.write(writer, b"x")
    reactor.register(reader, READABLE, failing("readiness"))
    reactor.set_timeout(0, functools.partial(failing("timer")))
    reactor.defer(failing("deferred"))
    reactor.defer_threadsafe(failing("inbox"))
    reactor.post(reactor.lane("lane", failing("lane")), 1)
    assert reactor.run_once(0) == 5
    assert [str(report.error) for report in reports] == ["inbox", "timer", "readiness", "deferred", "lane"]
    assert [report.step for report in reports] == ["inbox", "timer", "readiness", "deferred", "lane"]
    assert {report.handler for report in reports} == {"tests.reactor.test_errors.failing.<locals>.fails"}
    assert {report.loop for report in reports} == {"mine"}
    assert reactor.stats().errors == 5


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, InvariantBroken("mine")])
def test_three_exceptions_leave_the_run(make: Make, error: Any) -> None:
    reports: list[ErrorReport] = []
    reactor = make(on_error=reports.append)

    def leave() -> None:
        raise error

    reactor.defer(leave)
    with pytest.raises(error if isinstance(error, type) else type(error)):
        reactor.run()
    assert reports == []
    assert reactor.run_once(0) == 0


@pytest.mark.parametrize("error", [GeneratorExit, MemoryError, RecursionError, BaseException, StopIteration])
def test_all_others_are_contained(make: Make, error: type[BaseException]) -> None:
    reports: list[ErrorReport] = []
    reactor = make(on_error=reports.append)

    def fail() -> None:
        raise error

    reactor.defer(fail)
    reactor.run(keep_alive=False)
    assert [type(report.error) for report in reports] == [error]


def test_a_handler_that_hides_its_name_is_contained_too(make: Make) -> None:
    class Hidden:
        def __call__(self) -> None:
            raise LookupError

        def __getattribute__(self, name: str) -> Any:
            raise RuntimeError(name)

        def __repr__(self) -> str:
            raise RuntimeError("no name")

    class Nameless:
        def __call__(self) -> None:
            raise LookupError

        def __repr__(self) -> str:
            return "<nameless>"

    reports: list[ErrorReport] = []
    reactor = make(on_error=reports.append)
    reactor.defer(Hidden())
    reactor.defer(Nameless())
    reactor.run(keep_alive=False)
    assert [report.handler for report in reports] == ["a handler of type Hidden", "<nameless>"]
    assert reactor.stats().errors == 2


def test_a_hook_that_fails_does_not_end_the_loop(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    def hook(report: ErrorReport) -> None:
        raise RuntimeError("the hook")

    reactor = make(on_error=hook)
    reactor.defer(failing("deferred"))
    with caplog.at_level(logging.ERROR, "penstock"):
        reactor.run(keep_alive=False)
    assert "the on_error hook of" in caplog.text
    assert "RuntimeError: the hook" in caplog.text


def test_a_hook_may_leave_the_run(make: Make) -> None:
    def hook(report: ErrorReport) -> None:
        raise SystemExit(3)

    reactor = make(on_error=hook)
    ran: list[int] = []
    reactor.defer(failing("deferred"))
    reactor.defer(ran.append, 1)
    with pytest.raises(SystemExit):
        reactor.run()
    reactor.run_once(0)
    assert ran == [1]


def test_without_a_hook_errors_are_logged_at_a_bounded_rate(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    reactor = make(clock=clock, name="mine")
    with caplog.at_level(logging.ERROR, "penstock"):
        for _ in range(REPORTS_PER_PERIOD + 7):
            reactor.defer(failing("deferred"))
        reactor.run_once(0)
        assert len(caplog.records) == REPORTS_PER_PERIOD
        assert "mine: handler tests.reactor.test_errors.failing.<locals>.fails failed in the deferred" in caplog.text
        caplog.clear()
        clock.advance(1_000 * MS)
        reactor.defer(failing("deferred"))
        reactor.run_once(0)
    assert [record.getMessage().split(" failed")[0] for record in caplog.records] == [
        "mine: 7 more errors of handlers were not shown",
        "mine: handler tests.reactor.test_errors.failing.<locals>.fails",
    ]
    assert reactor.stats().errors == REPORTS_PER_PERIOD + 8


def test_a_failing_merge_is_an_error_of_the_caller_or_contained(make: Make) -> None:
    reports: list[ErrorReport] = []

    def merge(waiting: object, new: object) -> object:
        raise LookupError(new)

    seen: list[int] = []
    reactor = make(on_error=reports.append)
    lane = reactor.lane("lane", seen.append, capacity=1, overflow="coalesce", merge=merge)
    reactor.post(lane, 1)
    with pytest.raises(LookupError, match="2"):
        reactor.post(lane, 2)
    reactor.post_threadsafe(lane, 3)
    reactor.run_once(0)
    assert [(report.step, str(report.error)) for report in reports] == [("inbox", "3")]
    assert seen == [1]
    stats = reactor.stats().lane("lane")
    assert (stats.offered, stats.run, stats.rejected) == (2, 1, 1)
    assert lane.ok


# ---- broken invariants -----------------------------------------------------------------------------------------------

BROKEN = {
    "timers": "the timer heap is out of order",
    "registry": "the table of registrations is inconsistent",
    "deferred": "more tasks are deferred than there is room for",
    "lane": "a lane's books do not balance",
    "budget": "a lane's books do not balance, or its budget is out of bounds",
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_invariant_leaves_the_run_with_the_last_turns(make: Make, what: Any) -> None:
    reactor = make(name="mine")
    lane = reactor.lane("lane", lambda event: corrupt(reactor, what, lane))
    for _ in range(2):
        reactor.set_timeout(60, int)
    for _ in range(3):
        reactor.run_once(0)
    # From inside a handler, and with work left: that is where it would happen.
    if what == "deferred":
        reactor.lane("later", lambda event: reactor.defer(int), priority=1)
        reactor.post("later", 1)
    reactor.post(lane, 1)
    with pytest.raises(InvariantBroken, match=f"mine: {BROKEN[what]}.*this is a bug of penstock") as caught:
        reactor.run()
    assert not isinstance(caught.value, Exception)
    assert [turn.split(":")[0] for turn in caught.value.turns] == ["turn 1", "turn 2", "turn 3", "turn 4"]
    assert "events " in caught.value.turns[-1]
    assert str(caught.value).count("\n") == 4


def test_no_handler_can_swallow_a_broken_invariant(make: Make) -> None:
    reactor = make(on_error=lambda report: None)
    lane = reactor.lane("lane", lambda event: corrupt(reactor, "budget", lane))
    reactor.post(lane, 1)
    with pytest.raises(InvariantBroken):
        reactor.run_once(0)


def test_a_broken_invariant_aborts_the_process_if_that_is_the_policy() -> None:
    done = in_process(
        """
        from penstock import Policy, Reactor
        from penstock.testing.native import corrupt
        reactor = Reactor(name="mine", policy=Policy(on_invariant="abort"))
        lane = reactor.lane("lane", lambda event: corrupt(reactor, "budget", lane))
        reactor.post(lane, 1)
        try:
            reactor.run()
        finally:
            print("still here", flush=True)
        """
    )
    assert done.returncode == -6
    assert done.stdout == ""
    assert done.stderr.startswith("penstock: mine: a lane's books do not balance")
    assert "\n  turn 1: " in done.stderr


def test_what_can_be_corrupted_is_named(plain: Make) -> None:
    reactor = plain()
    what: Any
    for what, wanted in (
        ("weather", 'what is .weather.; give "timers"'),
        ("timers", "fewer than 2 timers"),
        ("lane", "lane is None; give the lane"),
        ("budget", "lane is None; give the lane"),
    ):
        with pytest.raises(UsageError, match=wanted):
            corrupt(reactor, what)
    reactor.set_timeout(WRITABLE, int)
    assert reactor.run_once(0) == 0
