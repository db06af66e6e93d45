"""What a federation needs: acquired tags, system events, a clock that is stepped, the scheduler's own interface."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import penstock
from penstock import ManualClock, limits
from penstock.errors import Overflow, UsageError, WrongThread
from penstock.timed import (
    Environment,
    Input,
    LogicalAction,
    Mode,
    PhysicalAction,
    Reactor,
    SchedulerStopped,
    Shutdown,
    Startup,
    State,
    Tag,
    Timer,
    ms,
    reaction,
    sec,
)
from penstock.timed.steps import DONE, IDLE, WAIT

GENEROUS_S = 20


class Sensor(Reactor):
    """Waits for what arrives."""

    arrival = PhysicalAction(int)


class Plain(Reactor):
    """Ticks, and says so."""

    tick = Timer(period=ms(5))
    end = Shutdown()
    log = State[list[str]](factory=list)

    @reaction(tick)
    def go(self) -> None:
        self.log.append(str(self.tag))

    @reaction(end)
    def finish(self) -> None:
        self.log.append(f"end {self.tag}")


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


def test_a_tag_is_acquired_before_it_runs() -> None:
    main = Late()
    environment = Environment(main, clock=ManualClock(), timeout=ms(30))
    asked: list[Tag] = []

    def acquire(tag: Tag) -> bool | int | None:
        asked.append(tag)
        return True if environment.scheduler.physical_ns() >= tag.time_ns + ms(5) else tag.time_ns + ms(5)

    environment.scheduler.acquire = acquire
    sent: list[tuple[Tag, int]] = []
    environment.scheduler.schedule_system(Tag(ms(1), 0), lambda _: environment.inject(main.x, 1, Tag(ms(10), 0)))
    # While (10 ms, 0) waits to be acquired, a message for an earlier tag comes in, and is in time.
    environment.scheduler.schedule_system(Tag(ms(12), 0), lambda _: environment.inject(main.x, 2, Tag(ms(8), 0)))
    completed: list[Tag] = []
    environment.scheduler.on_complete = completed.append
    environment.listen(main.x, lambda tag, value: sent.append((tag, value)))
    environment.run()
    assert sent == [((ms(8), 0), 2), ((ms(10), 0), 1)]
    assert completed == [(ms(8), 0), (ms(10), 0), (ms(30), 0)]
    assert (ms(10), 0) in asked


def test_regular_events_go_before_system_events_with_the_same_tag() -> None:
    class Main(Reactor):
        tick = Timer(period=ms(5))
        log = State[list[str]](factory=list)

        @reaction(tick)
        def go(self) -> None:
            self.log.append(str(self.tag))

    main = Main()
    environment = Environment(main, fast=True, clock=ManualClock(), timeout=ms(10))
    for tag in (Tag(ms(5), 0), Tag(ms(4), 0), Tag(ms(5), 0)):
        environment.scheduler.schedule_system(tag, lambda at: main.log.append(f"system {at}"))
    environment.run()
    assert main.log == [
        "(0 s, 0)",
        "system (4 ms, 0)",
        "(5 ms, 0)",
        "system (5 ms, 0)",
        "system (5 ms, 0)",
        "(10 ms, 0)",
    ]


def test_stepping_the_clock_shifts_every_queued_system_event() -> None:
    environment = Environment(Sensor(), clock=ManualClock(), timeout=ms(100))
    seen: list[Tag] = []
    scheduler = environment.scheduler
    for at in (9, 5, 7):
        scheduler.schedule_system(Tag(ms(at), 0), seen.append)
    scheduler.schedule_system(Tag(ms(1), 0), lambda _: scheduler.step_clock(ms(20)))
    environment.run()
    assert seen == [(ms(25), 0), (ms(27), 0), (ms(29), 0)]


def test_an_earlier_stop_is_not_overwritten() -> None:
    environment = Environment(Sensor(), clock=ManualClock(), timeout=ms(5))
    assert environment.scheduler.request_stop(Tag(ms(9), 0)) == (ms(5), 0)
    assert environment.scheduler.request_stop(Tag(ms(3), 0)) == (ms(3), 0)
    environment.run()
    assert environment.scheduler.tag == (ms(3), 0)


def test_system_events_are_bounded() -> None:
    environment = Environment(Sensor(), clock=ManualClock(), timeout=ms(5))
    for _ in range(limits.SYSTEM_EVENTS_MAX):
        environment.scheduler.schedule_system(Tag(0, 0), print)
    with pytest.raises(Overflow, match="system events are pending"):
        environment.scheduler.schedule_system(Tag(0, 0), print)


def test_a_system_event_keeps_a_program_alive_and_may_give_it_work() -> None:
    main = Once()
    environment = Environment(main, clock=ManualClock(), keep_alive=False)
    environment.scheduler.schedule_system(Tag(ms(5), 0), lambda _: environment.inject(main.x, 1, Tag(ms(9), 0)))
    environment.run()
    assert main.log == ["start (0 s, 0)", "1 (9 ms, 0)"]
    assert environment.scheduler.stop_tag == (ms(9), 1)


class Once(Reactor):
    start = Startup()
    x = Input(int)
    log = State[list[str]](factory=list)

    @reaction(start)
    def begin(self) -> None:
        self.log.append(f"start {self.tag}")

    @reaction(x)
    def take(self) -> None:
        self.log.append(f"{self.x.value} {self.tag}")


def test_system_events_after_the_end_are_dropped_and_counted() -> None:
    main = Plain()
    environment = Environment(main, clock=ManualClock(), timeout=ms(7))
    for at in (3, 8, 9):
        assert environment.scheduler.schedule_system(Tag(ms(at), 0), lambda tag: main.log.append(f"system {tag}"))
    environment.run()
    assert main.log == ["(0 s, 0)", "system (3 ms, 0)", "(5 ms, 0)", "end (7 ms, 0)"]
    assert not environment.scheduler.schedule_system(Tag(0, 0), print)
    figures = environment.figures()
    assert (figures["system_events"], figures["system_dropped"]) == (1, 3)


def test_a_system_event_that_raises_stops_the_program() -> None:
    main = Plain()
    environment = Environment(main, clock=ManualClock(), timeout=ms(7))

    def fail(tag: Tag) -> None:
        raise RuntimeError(f"broken at {tag}")

    environment.scheduler.schedule_system(Tag(ms(3), 0), fail)
    with pytest.raises(RuntimeError, match=r"broken at \(3 ms, 0\)"):
        environment.run()
    assert main.log == ["(0 s, 0)"]
    assert not environment.scheduler.running


def test_equal_system_events_are_popped_together_and_the_next_tag_waits() -> None:
    class Main(Reactor):
        again = LogicalAction(int)
        start = Startup()
        log = State[list[str]](factory=list)

        @reaction(start, effects=[again])
        def go(self) -> None:
            self.again.schedule(1, delay=ms(5))
            self.again.schedule(2, delay=ms(5))

        @reaction(again)
        def note(self) -> None:
            self.log.append(f"{self.again.value} {self.tag}")

    main = Main()
    environment = Environment(main, fast=True, clock=ManualClock())
    for tag in (Tag(ms(5), 1), Tag(ms(5), 0), Tag(ms(5), 0), Tag(ms(5), 2)):
        environment.scheduler.schedule_system(tag, lambda at: main.log.append(f"system {at}"))
    environment.run()
    assert main.log == [
        "1 (5 ms, 0)",
        "system (5 ms, 0)",
        "system (5 ms, 0)",
        "2 (5 ms, 1)",
        "system (5 ms, 1)",
        "system (5 ms, 2)",
    ]


def test_a_system_event_needs_no_acquired_tag() -> None:
    main = Plain()
    environment = Environment(main, clock=ManualClock(), timeout=ms(7))
    granted: list[bool] = []
    environment.scheduler.acquire = lambda tag: bool(granted)
    environment.scheduler.schedule_system(Tag(ms(50), 0), lambda _: granted.append(True))
    environment.run()
    assert main.log == ["(0 s, 0)", "(5 ms, 0)", "end (7 ms, 0)"]
    assert environment.scheduler.physical_ns() >= ms(50)


@pytest.mark.parametrize("speed", [1, 10])
def test_stepping_the_clock_wakes_who_sleeps(speed: int) -> None:
    clock = ManualClock()
    loop = penstock.Reactor(clock=clock)
    at: list[int] = []

    class Main(Reactor):
        later = Timer(offset=sec(100))

        @reaction(later)
        def go(self) -> None:
            at.append(clock.now_ns() // sec(1))

    environment = Environment(Main(), loop=loop, timeout=sec(100), speed=speed)
    environment.start(lambda _: loop.stop())
    loop.set_timeout(1, lambda: environment.scheduler.step_clock(int(sec(99))))
    loop.run()
    loop.close()
    assert at == [1]


def test_stepping_the_clock_back_lets_it_sleep_longer() -> None:
    clock = ManualClock()
    main = Plain()
    environment = Environment(main, clock=clock, timeout=ms(5))
    environment.scheduler.schedule_system(Tag(ms(1), 0), lambda _: environment.scheduler.step_clock(-int(ms(20))))
    environment.run()
    assert main.log == ["(0 s, 0)", "(5 ms, 0)", "end (5 ms, 0)"]
    assert clock.now_ns() >= ms(25)


@pytest.mark.parametrize("speed", [1, 10])
def test_what_is_queued_before_the_start_keeps_its_physical_time(speed: int) -> None:
    clock = ManualClock()
    environment = Environment(Sensor(), clock=clock, timeout=sec(100), speed=speed)
    seen: list[int] = []
    environment.scheduler.schedule_system(Tag(speed * sec(6), 0), lambda tag: seen.extend((clock.now_ns(), tag[0])))
    clock.advance(sec(1))
    environment.run()
    assert seen == [sec(6), speed * sec(5)]


# ---- the scheduler's own interface -----------------------------------------------------------------------------------


def begun(main: Reactor, **options: Any) -> Environment:
    environment = Environment(main, **options)
    environment.scheduler.begin(0)
    return environment


def test_run_returns_when_somebody_has_to_wait() -> None:
    main = Plain()
    clock = ManualClock()
    scheduler = begun(main, clock=clock, timeout=ms(12)).scheduler
    assert scheduler.run() == WAIT
    assert (scheduler.wait_ns, scheduler.current_tag, main.log) == (ms(5), (0, 0), ["(0 s, 0)"])
    clock.advance(ms(11))
    assert scheduler.run() == WAIT
    assert scheduler.current_tag == (ms(10), 0)
    clock.advance(ms(1))
    assert scheduler.run() == DONE
    assert main.log[-1] == "end (12 ms, 0)"
    assert begun(Sensor(), fast=True).scheduler.run() == IDLE


def test_nothing_runs_before_the_beginning() -> None:
    with pytest.raises(SchedulerStopped, match="has not begun"):
        Environment(Plain(), fast=True).scheduler.run()


def test_a_timestep_is_prepared_between_tags() -> None:
    main = Plain()
    clock = ManualClock()
    scheduler = begun(main, clock=clock, timeout=ms(12)).scheduler
    scheduler.run()
    scheduler.prepare_timestep(Tag(ms(3), 0))
    assert scheduler.current_tag == (ms(3), 0)
    for wrong, words in ((Tag(ms(3), 0), "does not go back"), (Tag(ms(5), 0), "there is something to do")):
        with pytest.raises(UsageError, match=words):
            scheduler.prepare_timestep(wrong)
    # What is scheduled for an earlier tag now is late.
    clock.advance(ms(5))
    scheduler.run()
    assert main.log == ["(0 s, 0)", "(5 ms, 0)"]


def test_a_shutdown_is_done_at_once_and_counts_what_it_drops() -> None:
    main = Late()
    environment = begun(main, clock=ManualClock())
    scheduler = environment.scheduler
    trigger = environment.program.triggers[main.x]
    assert scheduler.schedule_at(trigger, Tag(ms(10), 0), 1)
    assert scheduler.do_shutdown(Tag(ms(4), 0)) == (ms(4), 0)
    assert (scheduler.current_tag, scheduler.run(), main.log) == ((ms(4), 0), DONE, [])
    assert environment.figures()["queues"]["main.x"]["dropped_stopped"] == 1
    with pytest.raises(SchedulerStopped):
        scheduler.do_shutdown()


def test_a_shutdown_runs_shutdown_reactions_and_ends_a_loop() -> None:
    main = Plain()
    environment = Environment(main, clock=ManualClock())
    environment.scheduler.schedule_system(Tag(ms(7), 0), lambda _: environment.scheduler.do_shutdown())
    environment.run()
    assert main.log == ["(0 s, 0)", "(5 ms, 0)", "end (5 ms, 1)"]


def test_a_shutdown_is_not_done_within_a_tag() -> None:
    class Main(Reactor):
        start = Startup()
        said = State[list[str]](factory=list)

        @reaction(start)
        def go(self) -> None:
            for call in (self.environment.scheduler.do_shutdown, self.environment.scheduler.prepare_timestep):
                with pytest.raises(UsageError) as caught:
                    call(Tag(5, 0))
                self.said.append(str(caught.value))

    main = Main()
    Environment(main, fast=True).run()
    assert [text.partition(" ")[0] for text in main.said] == ["do_shutdown", "prepare_timestep"]


@pytest.mark.parametrize("call", ["schedule_at", "schedule_system", "step_clock", "request_stop", "do_shutdown"])
def test_the_scheduler_belongs_to_one_thread(call: str) -> None:
    environment = begun(Late(), clock=ManualClock())
    arguments: dict[str, tuple[Any, ...]] = {
        "schedule_at": (0, Tag(0, 0), 1),
        "schedule_system": (Tag(0, 0), print),
        "step_clock": (1,),
    }
    raised: list[Exception] = []

    def elsewhere() -> None:
        try:
            getattr(environment.scheduler, call)(*arguments.get(call, ()))
        except Exception as error:
            raised.append(error)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join(GENEROUS_S)
    assert [type(error) for error in raised] == [WrongThread]


# ---- late events and policies ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["replace", "update"])
@pytest.mark.parametrize("late_first", [True, False])
def test_a_late_event_and_one_in_time_may_meet_in_one_tag(policy: Any, late_first: bool) -> None:
    class Main(Reactor):
        arrival = PhysicalAction(int, policy=policy)
        tick = Timer(period=ms(10))
        got = State[list[tuple[int, bool, Tag | None]]](factory=list)

        @reaction(arrival)
        def take(self) -> None:
            self.got.append((self.arrival.value, self.arrival.is_late, self.arrival.intended_tag))

    main = Main()
    environment = Environment(main, fast=True, keep_alive=False, timeout=ms(20), clock=ManualClock())
    trigger = environment.program.triggers[main.arrival]
    offers = [(Tag(ms(3), 0), 7), (Tag(ms(10), 1), 8)]

    def offer(_: Tag) -> None:
        for tag, value in offers if late_first else reversed(offers):
            environment.scheduler.schedule_at(trigger, tag, value)

    environment.scheduler.schedule_system(Tag(ms(10), 0), offer)
    environment.run()
    assert main.got == [(8, False, (ms(10), 1)) if late_first else (7, True, (ms(3), 0))]


def test_a_failed_program_takes_nothing_any_more() -> None:
    class Main(Reactor):
        tick = Timer(period=ms(1))
        arrival = PhysicalAction(int)

        @reaction(tick)
        def go(self) -> None:
            raise ValueError("no")

    main = Main()
    environment = Environment(main, clock=ManualClock())
    with pytest.raises(penstock.timed.ReactionFailed):
        environment.run()
    assert not environment.scheduler.running
    assert not main.arrival.schedule(1)
    assert environment.figures()["queues"]["main.arrival"]["dropped_stopped"] == 1


def test_a_listener_that_raises_stops_the_program() -> None:
    main = Late()
    environment = Environment(main, fast=True, keep_alive=False, timeout=ms(3))

    def fail(tag: Tag, value: int) -> None:
        raise RuntimeError("no")

    environment.listen(main.x, fail)
    environment.scheduler.schedule_system(Tag(0, 0), lambda _: environment.inject(main.x, 1, Tag(ms(1), 0)))
    with pytest.raises(RuntimeError, match="no"):
        environment.run()
    assert (environment.scheduler.running, environment.scheduler.executing) == (False, False)


class Around(Reactor):
    """Hands what it gets to two that tell what is late; to one of them by a connection of a mode."""

    x = Input(int)
    on = Mode(initial=True)

    def __init__(self) -> None:
        self.near, self.far = Late(), Late()
        self.connect(self.x, self.near.x)
        self.connect(self.x, self.far.x, mode=self.on)


def test_an_input_that_is_late_is_late_behind_its_connections() -> None:
    main = Around()
    environment = Environment(main, clock=ManualClock(), timeout=ms(20))
    environment.scheduler.schedule_system(Tag(ms(1), 0), lambda _: environment.inject(main.x, 1, Tag(ms(10), 0)))
    environment.scheduler.schedule_system(Tag(ms(12), 0), lambda _: environment.inject(main.x, 2, Tag(ms(4), 0)))
    environment.run()
    wanted = ["1 at (10 ms, 0)", "also False", "late 2 meant for (4 ms, 0) at (10 ms, 1)", "also True"]
    assert (main.near.log, main.far.log) == (wanted, wanted)
