"""An environment runs one program: it assembles, starts, waits, stops, and lets people look in.

`run` drives the program on a loop of its own, `start` on a loop that others use, too (coroutines, servers, descriptors).
A `fast` program that nothing can reach from outside needs no loop at all and is stepped directly. This file must not know
how tags are ordered: that is the scheduler's business.
"""

from __future__ import annotations

import logging
import random
import reprlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, TypeVar

from penstock.core.clock import Clock
from penstock.errors import Unsupported, UsageError
from penstock.limits import BLOCK_TIMEOUT_NS, REPORT_PERIOD_NS, REPORTS_PER_PERIOD, TIMED_SPEED_MAX
from penstock.reactor import Reactor as Loop
from penstock.timed.assembly import Program, assemble
from penstock.timed.driver import Driver
from penstock.timed.elements import OVERFLOWS
from penstock.timed.errors import ReactionFailed, ReplayMismatch, SchedulerStopped
from penstock.timed.gate import Gate
from penstock.timed.handles import Action, Port
from penstock.timed.plan import ACTION, INPUT, PHYSICAL
from penstock.timed.reactor import Reactor
from penstock.timed.record import Recorder, Recording
from penstock.timed.scheduler import Scheduler
from penstock.timed.steps import DONE
from penstock.timed.switching import Switcher
from penstock.timed.time import Duration, Tag, require_duration
from penstock.timed.trace import Trace

T = TypeVar("T")
OnError = Literal["stop", "log"] | Callable[[ReactionFailed], object]

log = logging.getLogger("penstock.timed")


class Reports:
    """Log lines of one kind: at most REPORTS_PER_PERIOD per REPORT_PERIOD_NS; the others are added up."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until_ns = 0
        self._left = 0
        self.suppressed = 0

    def warn(self, message: str) -> None:
        """Log, or count that nothing was logged."""
        now_ns = self._clock.now_ns()
        if now_ns >= self._until_ns:
            self._until_ns, self._left = now_ns + REPORT_PERIOD_NS, REPORTS_PER_PERIOD
        if self._left == 0:
            self.suppressed += 1
            return
        self._left -= 1
        log.warning("%s (%d more were not shown)" if self.suppressed else "%s%.0s", message, self.suppressed)
        self.suppressed = 0


class Environment:
    """A program and the time it runs in."""

    def __init__(
        self,
        main: Reactor,
        *,
        fast: bool = False,
        keep_alive: bool | None = None,
        timeout: Duration | None = None,
        workers: int = 1,
        clock: Clock | None = None,
        seed: int = 0,
        speed: int = 1,
        debug: bool | None = None,
        on_error: OnError = "stop",
        loop: Loop | None = None,
        record: str | Path | None = None,
        replay: str | Path | None = None,
    ) -> None:
        """Assemble `main`.

        `fast` never waits for physical time; `speed` lets time pass that many times as fast. `keep_alive` waits on an empty
        queue (by default if there is a physical action or an input). `timeout` sets the stop tag. `debug` checks the types
        of values (by default in Python's development mode). `on_error`: what a reaction that raises does to the program.
        """
        _check_options(main, workers, speed, on_error, clocks=(clock is not None) + (loop is not None))
        self.main = main
        self.program: Program = assemble(main)
        self.seed = seed
        self.debug = sys.flags.dev_mode if debug is None else debug
        self._on_error = on_error
        self._loop = loop
        self._own_clock = clock
        clock = loop.loop.clock if loop is not None else clock if clock is not None else Clock()
        self._reports = Reports(clock)
        self._trace: Trace | None = None
        self._driver: Driver | None = None
        self._recorder: Recorder | None = None
        self._error: BaseException | None = None
        self._posted_too_early = 0
        self._gates: dict[int, Gate] = {}
        self._on_done: Callable[[BaseException | None], object] | None = None
        self._outlets: dict[int, list[Callable[[Tag, Any], object]]] = {}
        self._random: dict[str, random.Random] = {}
        recording = Recording.read(replay) if replay is not None else None
        self._reachable = any(trigger.kind in (PHYSICAL, INPUT) for trigger in self.program.plan.triggers)
        if recording is not None:
            fast, keep_alive, self.seed = True, False, recording.seed
        self.scheduler = Scheduler(
            self.program.plan,
            clock,
            fast=fast,
            keep_alive=self._reachable if keep_alive is None else keep_alive,
            timeout_ns=None if timeout is None else require_duration("timeout", timeout),
            speed=speed,
        )
        self.switcher = Switcher(self.program.plan)
        self._bind()
        if record is not None:
            self._start_recording(record)
        if recording is not None:
            self._load(recording, str(replay))

    # ---- making ready ------------------------------------------------------------------------------------------------

    def _bind(self) -> None:
        """Attach reactors, handles and modes to the scheduler."""
        scheduler, program = self.scheduler, self.program
        if program.plan.modes:
            scheduler.switcher = self.switcher
        scheduler.on_error = self._reaction_failed
        scheduler.on_late = self._late_unhandled
        for node in program.nodes:
            node.reactor._environment = self
        for handle, slot in program.slots.items():
            handle.bind(scheduler, slot)
            if self.debug and isinstance(handle, (Port, Action)):
                handle.check_types()
        for handle, trigger in program.triggers.items():
            if isinstance(handle, Action):
                handle.bind_trigger(trigger)
                handle.poster = self._post
                if program.plan.triggers[trigger].overflow == OVERFLOWS.index("block"):
                    self._add_gate(handle, trigger)
        if self._gates:
            scheduler.on_room = lambda index: self._gates[index].room()
            scheduler.on_end = self._close_gates
        for index, mode in program.modes.items():
            mode.bind(scheduler, self.switcher, index)

    def _add_gate(self, action: Action[Any], trigger: int) -> None:
        plan = self.program.plan.triggers[trigger]
        scheduler = self.scheduler
        action.gate = self._gates[trigger] = Gate(plan.name, plan.capacity, lambda: scheduler.pending_of(trigger))
        action.gate.timeout_ns = BLOCK_TIMEOUT_NS if self._loop is None else self._loop.loop.policy.block_timeout_ns

    def _close_gates(self) -> None:
        for gate in self._gates.values():
            gate.close()

    def _start_recording(self, path: str | Path) -> None:
        recorder = self._recorder = Recorder(path, self.seed)
        plan = self.program.plan

        def handled(index: int, tag: Tag, value: Any, intended: Tag | None) -> None:
            if plan.triggers[index].recorded:
                recorder.event(plan.triggers[index].name, tag, value, intended)

        self.scheduler.on_handled = handled
        self.scheduler.on_deadline = lambda rank, tag, check: recorder.missed(
            plan.reactions[rank].full_name, tag, check
        )

    def _load(self, recording: Recording, path: str) -> None:
        """Let the record take the place of the outside world."""
        plan = self.program.plan
        triggers = {trigger.name: index for index, trigger in enumerate(plan.triggers) if trigger.recorded}
        ranks = {reaction.full_name: rank for rank, reaction in enumerate(plan.reactions)}
        for names, known, what in (
            ((name for _, name, _, _ in recording.events), triggers, "physical input"),
            ((name for _, name, _ in recording.missed), ranks, "reaction"),
        ):
            unknown = sorted(set(names) - known.keys())
            if unknown:
                raise ReplayMismatch(
                    f"{path} names the {what} {reprlib.repr(unknown[0])}, which this program does not have"
                )
        self.scheduler.set_replay(
            [(tag, triggers[name], value, intended) for tag, name, value, intended in recording.events],
            [(*tag, ranks[name], check) for tag, name, check in recording.missed],
        )
        if recording.stop is not None:
            self.scheduler.request_stop(recording.stop)

    # ---- running -----------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Run the program to its end. Raises `ReactionFailed` if a reaction raised and nobody took care of it."""
        if self.scheduler.fast and self._loop is None and not (self._reachable and self.scheduler.keep_alive):
            self._run_alone()
        else:
            self._run_on_loop()
        if self._error is not None:
            raise self._error

    def _run_alone(self) -> None:
        """Without a loop: nothing can arrive, and nothing is waited for."""
        try:
            self.scheduler.begin(self._clock_now())
            if self.scheduler.run() != DONE:
                self._run_on_loop(begun=True)
                return
        except BaseException as error:
            self._finished(error)
            raise
        self._finished(None)

    def _run_on_loop(self, *, begun: bool = False) -> None:
        loop = self._loop
        own = loop is None
        if loop is None:
            loop = Loop(clock=self._own_clock, name="timed") if self._own_clock is not None else Loop(name="timed")
        try:
            self._start_on(loop, lambda _: loop.stop(), begun=begun)
            loop.run(keep_alive=True)
        except BaseException:
            self.scheduler.abandon()
            self._close_record()
            raise
        finally:
            if own:
                loop.close()

    def start(self, on_done: Callable[[BaseException | None], object] | None = None) -> None:
        """Begin on the loop that was given to the environment; `on_done(error)` is called at the end."""
        if self._loop is None:
            raise UsageError("start() needs a loop that somebody runs: Environment(main, loop=reactor); or call run()")
        self._start_on(self._loop, on_done, begun=False)

    def _start_on(self, loop: Loop, on_done: Callable[[BaseException | None], object] | None, *, begun: bool) -> None:
        self._on_done = on_done
        self._driver = Driver(self.scheduler, loop, self._finished)
        if not begun:
            self.scheduler.begin(self._clock_now())
        self._driver.start()

    def _clock_now(self) -> int:
        scheduler = self.scheduler
        return scheduler.start_ns + scheduler.physical_ns() // scheduler.speed - scheduler.stepped_ns

    def _finished(self, error: BaseException | None) -> None:
        self._error = error
        self._close_record()
        if self._on_done is not None:
            self._on_done(error)
        elif isinstance(error, Exception) and self._driver is not None:
            # Nobody asked to be told: the loop's exception hook is.
            raise error

    def _close_record(self) -> None:
        if self._recorder is not None:
            # Only a stop that was reached; a program that failed has none, and a replay will fail where it failed.
            self._recorder.close(self.scheduler.stop_tag if self._error is None else None)

    def request_stop(self) -> Tag:
        """Stop at the next microstep of the present tag; from outside a reaction: at the present physical time."""
        return self.scheduler.request_stop()

    def request_stop_threadsafe(self) -> None:
        """The same, from any thread."""
        driver = self._driver
        if driver is None:
            raise SchedulerStopped("the program is not running on a loop; call request_stop()")
        driver.loop.defer_threadsafe(self.request_stop)

    # ---- outside -----------------------------------------------------------------------------------------------------

    def _post(self, action: Action[Any], value: Any, delay_ns: int, at_ns: int) -> bool:
        if self._driver is None:
            # Another thread was quicker than the program, or the program has no loop.
            self._posted_too_early += 1
            return False
        return self._driver.post(action, value, delay_ns, at_ns)

    def inject(self, port: Port[T], value: T, tag: tuple[int, int] | None = None) -> bool:
        """Give the main reactor's input a value at `tag` (by default now). A tag that has passed arrives late.

        In the loop's thread, while the program runs. Returns whether the event was taken.
        """
        trigger = self.program.triggers.get(port)
        if trigger is None:
            raise UsageError(f"{port!r} is no input of the main reactor")
        port.check(value)
        return self.scheduler.schedule_at(trigger, tag if tag is not None else self._present(), value)

    def _present(self) -> Tag:
        """The first tag that has not begun: of the physical clock, or the next microstep if that is behind."""
        tag = self.scheduler.tag.after(0)
        return tag if self.scheduler.fast else max(tag, Tag(self.scheduler.physical_ns(), 0))

    def listen(self, port: Port[T], callback: Callable[[Tag, T], object]) -> None:
        """Call `callback(tag, value)` at the end of every tag at which `port` is present."""
        slot = self.program.slots.get(port)
        if slot is None:
            raise UsageError(f"{port!r} is no port of this program")
        self._outlets.setdefault(slot, []).append(callback)
        self.scheduler.set_outlet(slot)
        self.scheduler.on_outlet = self._send_out

    def _send_out(self, slot: int, tag: Tag, value: Any) -> None:
        for callback in self._outlets.get(slot, ()):
            callback(tag, value)

    # ---- what goes wrong ---------------------------------------------------------------------------------------------

    def _reaction_failed(self, rank: int, tag: Tag, error: Exception) -> bool:
        """Apply the policy; False stops the program."""
        failed = ReactionFailed(self.program.plan.reactions[rank].full_name, tag, error)
        failed.__cause__ = error
        if self._on_error == "stop":
            raise failed
        if self._on_error == "log":
            log.error("%s", failed, exc_info=error)
        elif callable(self._on_error):
            self._on_error(failed)
        return True

    def _late_unhandled(self, rank: int, slots: list[int]) -> None:
        names = ", ".join(self.program.plan.slots[slot].name for slot in slots)
        reaction = self.program.plan.reactions[rank].full_name
        self._reports.warn(f"{reaction} ran at {self.scheduler.tag} with late {names}; give it on_late= to handle that")

    # ---- looking in --------------------------------------------------------------------------------------------------

    def trace(self) -> Trace:
        """The trace of this environment. Ask for it before `run`: nothing is recorded for those who do not."""
        if self._trace is None:
            if self.scheduler.figures()["tags"]:
                raise SchedulerStopped("the program has begun without a trace; call trace() before run()")
            self._trace = Trace(self.program.plan.reactions)
            self.scheduler.set_tracing(self._trace.note)
        return self._trace

    def random_for(self, reactor: Reactor) -> random.Random:
        """The source of random numbers of one reactor: its own stream, from the seed and its path."""
        if reactor.path not in self._random:
            self._random[reactor.path] = random.Random(f"{self.seed}/{reactor.path}")
        return self._random[reactor.path]

    def figures(self) -> dict[str, Any]:
        """Everything that was counted, in all and for each thing that queues events."""
        queues = {
            trigger.name: self._queue_figures(index)
            for index, trigger in enumerate(self.program.plan.triggers)
            if ACTION <= trigger.kind <= INPUT
        }
        return {
            **self.scheduler.figures(),
            "mode_transitions": self.switcher.transitions,
            "arrivals_refused": self._posted_too_early + (0 if self._driver is None else self._driver.arrivals_refused),
            "arrivals_dropped": 0 if self._driver is None else self._driver.arrivals_dropped,
            "reports_suppressed": self._reports.suppressed,
            "trace_dropped": 0 if self._trace is None else self._trace.dropped,
            "queues": queues,
        }

    def _queue_figures(self, index: int) -> dict[str, int]:
        figures = self.scheduler.trigger_figures(index)
        gate = self._gates.get(index)
        if gate is not None:
            figures["blocked"] = gate.blocked
            figures["rejected"] += gate.refused
        return figures


def _check_options(main: object, workers: int, speed: int, on_error: object, *, clocks: int) -> None:
    if not isinstance(main, Reactor):
        raise UsageError(f"the main reactor is {main!r}; give an instance of a penstock.timed.Reactor")
    if workers != 1:
        raise Unsupported(
            f"workers is {workers!r}; reactions run in one thread (the GIL would serialise more); start one process per core"
        )
    if isinstance(speed, bool) or not isinstance(speed, int) or not 1 <= speed <= TIMED_SPEED_MAX:
        raise UsageError(f"speed is {speed!r}; give a whole number from 1 to {TIMED_SPEED_MAX:,}")
    if on_error not in ("stop", "log") and not callable(on_error):
        raise UsageError(f'on_error is {on_error!r}; give "stop", "log" or a callable')
    if clocks > 1:
        raise UsageError("clock and loop were both given; the loop has a clock, give one of the two")


def run(main: Reactor, **options: Any) -> Environment:
    """Make an environment for `main` with `options`, run it, and return it."""
    environment = Environment(main, **options)
    environment.run()
    return environment
