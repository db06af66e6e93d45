"""Programs in time: waiting, waking, physical actions, deadlines, late inputs, records, system events."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock
from penstock import ManualClock, limits
from penstock.errors import Overflow, UsageError
from penstock.testing.timed import Arrival, arrivals, play
from penstock.timed import (
    Environment,
    Input,
    LogicalAction,
    Output,
    PhysicalAction,
    ReactionFailed,
    Reactor,
    Shutdown,
    Startup,
    State,
    Tag,
    Timer,
    child,
    ms,
    ns,
    reaction,
    run,
    sec,
)
from penstock.timed.environment import log as timed_log

GENEROUS_S = 20


class Sensor(Reactor):
    """Counts what arrives; stops at the third."""

    arrival = PhysicalAction(int)
    total = State(0)
    out = Output(int)

    @reaction(arrival, effects=[out])
    def take(self) -> None:
        self.total += self.arrival.value
        self.out.set(self.total)
        if self.total >= 6:
            self.request_stop()


# ---- waiting and waking ----------------------------------------------------------------------------------------------


def test_time_is_waited_for() -> None:
    class Main(Reactor):
        tick = Timer(period=ms(20))

        def __init__(self) -> None:
            self.lags: list[int] = []

        @reaction(tick)
        def go(self) -> None:
            self.lags.append(self.lag)

    clock = ManualClock()
    main = Main()
    run(main, clock=clock, timeout=ms(100))
    assert len(main.lags) == 6
    assert min(main.lags) >= 0
    assert clock.now_ns() >= ms(100)


def test_speed_divides_the_waiting() -> None:
    class Main(Reactor):
        tick = Timer(period=sec(1))

    clock = ManualClock()
    run(Main(), clock=clock, timeout=sec(100), speed=1_000)
    assert ms(100) <= clock.now_ns() < ms(101)


def _start(threads: list[threading.Thread], target: Any) -> None:
    threads.append(threading.Thread(target=target))
    threads[0].start()


def test_a_stop_is_asked_for_by_another_thread() -> None:
    environment = Environment(Sensor())
    threads: list[threading.Thread] = []
    environment.scheduler.schedule_system(Tag(0, 0), lambda _: _start(threads, environment.request_stop_threadsafe))
    environment.run()
    threads[0].join(GENEROUS_S)


def test_physical_tags_follow_the_physical_clock() -> None:
    main = Sensor()
    schedule = [Arrival(ms(3), "main.arrival", 1), Arrival(ms(3), "main.arrival", 2), Arrival(ms(7), "main.arrival", 3)]
    trace = play(Environment(main, clock=ManualClock()), schedule)
    times = [entry.tag for entry in trace]
    assert times == sorted(set(times))
    assert [tag.time_ns // ms(1) for tag in times] == [3, 3, 7]


def test_a_physical_connection_gets_the_physical_time() -> None:
    class Main(Reactor):
        sensor = child(Sensor)
        x = Output(int)

        def __init__(self) -> None:
            self.echo = Echo()
            self.connect(self.sensor.out, self.echo.x, after=ms(2), physical=True)

    class Echo(Reactor):
        x = Input(int)

        @reaction(x)
        def take(self) -> None:
            self.tag_seen = self.tag

    main = Main()
    play(Environment(main, clock=ManualClock(), timeout=ms(50)), [Arrival(ms(3), "main.sensor.arrival", 1)])
    assert ms(5) <= main.echo.tag_seen.time_ns < ms(6)


# ---- deadlines and late inputs ---------------------------------------------------------------------------------------


class Hurried(Reactor):
    tick = Timer(period=ms(10))

    def __init__(self, clock: ManualClock, work_ms: int) -> None:
        self._clock, self._work_ms = clock, work_ms
        self.log: list[str] = []

    @reaction(tick)
    def work(self) -> None:
        self._clock.advance(ms(self._work_ms))

    def missed(self) -> None:
        self.log.append("missed")

    @reaction(tick, deadline=ms(5), on_deadline=missed)
    def act(self) -> None:
        before = self.check_deadline()
        self._clock.advance(ms(4))
        self.log.append(f"{before} {self.check_deadline()}")


@pytest.mark.parametrize(("work_ms", "log"), [(1, ["False False"]), (3, ["False True"]), (6, ["missed"])])
def test_a_missed_deadline_runs_the_handler(work_ms: int, log: list[str]) -> None:
    clock = ManualClock()
    main = Hurried(clock, work_ms)
    environment = run(main, clock=clock, timeout=ns(1))
    assert main.log == log
    assert environment.figures()["deadlines_missed"] == (1 if log == ["missed"] else 0)


class Late(Reactor):
    x = Input(int)
    log = State[list[str]](factory=list)

    def too_late(self) -> None:
        self.log.append(f"late {self.x.value} meant for {self.x.intended_tag} at {self.tag}")

    @reaction(x, on_late=too_late)
    def take(self) -> None:
        self.log.append(f"{self.x.value} at {self.tag}")

    @reaction(x)
    def also(self) -> None:
        self.log.append(f"also {self.x.is_late}")


def test_a_late_input_runs_its_handler_and_is_reported_where_there_is_none(caplog: pytest.LogCaptureFixture) -> None:
    main = Late()
    environment = Environment(main, clock=ManualClock(), timeout=ms(20))

    def inject(_: Tag) -> None:
        assert environment.inject(main.x, 1, Tag(ms(10), 0))

    def inject_late(_: Tag) -> None:
        assert environment.inject(main.x, 2, Tag(ms(4), 0))
        assert not environment.inject(main.x, 3, Tag(ms(21), 0))

    environment.scheduler.schedule_system(Tag(ms(2), 0), inject)
    environment.scheduler.schedule_system(Tag(ms(12), 0), inject_late)
    with caplog.at_level("WARNING", logger=timed_log.name):
        environment.run()
    assert main.log == ["1 at (10 ms, 0)", "also False", "late 2 meant for (4 ms, 0) at (10 ms, 1)", "also True"]
    figures = environment.figures()
    assert (figures["late_handled"], figures["late_unhandled"]) == (1, 1)
    assert figures["queues"]["main.x"]["dropped_stopped"] == 1
    assert "main.also ran at (10 ms, 1) with late main.x" in caplog.text


# ---- the end ---------------------------------------------------------------------------------------------------------


def test_shutdown_comes_after_the_events_of_the_stop_tag() -> None:
    class Main(Reactor):
        end = Shutdown()
        tick = Timer(period=ms(5))
        again = LogicalAction[None]()
        log = State[list[str]](factory=list)

        @reaction(end, effects=[again])
        def finish(self) -> None:
            self.log.append(f"end {self.tag}")
            self.again.schedule()

        @reaction(tick)
        def go(self) -> None:
            self.log.append(f"tick {self.tag}")

    main = Main()
    environment = run(main, fast=True, timeout=ms(5))
    assert main.log == ["tick (0 s, 0)", "tick (5 ms, 0)", "end (5 ms, 0)"]
    assert environment.figures()["queues"]["main.again"]["dropped_stopped"] == 1


# ---- arrivals --------------------------------------------------------------------------------------------------------


def test_hypothesis_shrinks_to_the_smallest_schedule() -> None:
    class Main(Reactor):
        a = PhysicalAction(int)
        b = PhysicalAction(int)
        last = State(0)

        @reaction(a)
        def one(self) -> None:
            self.last = self.a.value

        @reaction(b)
        def two(self) -> None:
            assert self.b.value <= self.last + 3

    drawn = arrivals({"main.a": st.integers(0, 9), "main.b": st.integers(0, 9)}, within=ms(10))
    failing: list[list[Arrival]] = []

    @settings(max_examples=300, deadline=None, database=None, derandomize=True)
    @given(drawn)
    def check(schedule: list[Arrival]) -> None:
        try:
            play(Environment(Main(), clock=ManualClock(), timeout=ms(11)), schedule)
        except ReactionFailed:
            failing.append(schedule)
            raise

    with pytest.raises(ReactionFailed):
        check()
    assert failing[-1] == [Arrival(0, "main.b", 4)]


# ---- traces ----------------------------------------------------------------------------------------------------------


def test_a_trace_is_written_as_text_and_for_perfetto(tmp_path: Path) -> None:
    environment = Environment(Sensor(), clock=ManualClock(), timeout=ms(5))
    trace = play(environment, [Arrival(ms(1), "main.arrival", 1)])
    trace.write(tmp_path / "t.txt")
    trace.write(tmp_path / "t.json")
    assert (tmp_path / "t.txt").read_text().endswith("main.take -> main.out\n")
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    assert [event["name"] for event in events] == ["thread_name", "take"]
    assert events[1]["args"]["written"] == {"main.out": "1"}
    with pytest.raises(UsageError):
        trace.write(tmp_path / "t.xml")


# ---- what goes wrong -------------------------------------------------------------------------------------------------


class Broken(Reactor):
    tick = Timer(period=ms(1))

    @reaction(tick)
    def go(self) -> None:
        raise ValueError("no")


def test_an_error_on_a_shared_loop_is_handed_over_or_goes_to_the_hook() -> None:
    for told in (True, False):
        hooked: list[BaseException] = []
        ended: list[BaseException | None] = []
        loop = penstock.Reactor(on_error=lambda report, hooked=hooked: hooked.append(report.error))  # type: ignore[misc]
        try:
            Environment(Broken(), loop=loop).start(ended.append if told else None)
            loop.set_timeout(0.01, loop.stop)
            loop.run()
        finally:
            loop.close()
        assert [type(error) for error in (ended if told else hooked)] == [ReactionFailed]


def test_logging_an_error_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("ERROR", logger=timed_log.name):
        environment = run(Broken(), fast=True, timeout=ms(3), on_error="log")
    assert environment.figures()["errors"] == 4
    assert caplog.text.count("main.go raised ValueError") == 4


def test_microsteps_without_end_are_stopped() -> None:
    class Main(Reactor):
        sensor = Input(int)

    main = Main()
    environment = Environment(main, fast=True, keep_alive=False, timeout=ms(1))
    environment.scheduler.begin(0)
    environment.inject(main.sensor, 1, Tag(0, limits.MICROSTEPS_MAX + 1))
    with pytest.raises(Overflow, match="time does not go on"):
        environment.scheduler.step(10)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 40), st.booleans()), max_size=60))
def test_events_of_one_action_come_out_in_order(delays: list[tuple[int, bool]]) -> None:
    """The ring of pending events against a sorted list: insertion at both ends and in the middle, and pile-ups."""

    class Main(Reactor):
        start = Startup()
        later = LogicalAction(int)
        seen = State[list[tuple[Tag, int]]](factory=list)

        @reaction(start, later, effects=[later])
        def go(self) -> None:
            if self.start.is_present:
                for number, (delay, _) in enumerate(delays):
                    self.later.schedule(number, delay=ms(delay))
            else:
                self.seen.append((self.tag, self.later.value))

    expected: dict[Tag, int] = {}
    for number, (delay, _) in enumerate(delays):
        tag = Tag(0, 0).after(ms(delay))
        while tag in expected:
            tag = tag.after(0)
        expected[tag] = number
    main = Main()
    run(main, fast=True)
    assert main.seen == sorted(expected.items())
