# cython: language_level=3, binding=False
"""The scheduler as others see it: begin, schedule, step, stop, and what federations need.

`step` runs tags until it has run its share, must wait, has nothing to do, or is done, and returns which; it never blocks.
Who drives it (`environment.py`) does the waiting, on the kernel's loop, and calls again when time has come or something
has arrived. What moves a running program is called in its own thread only.

This file must not know how a tag is run: that is `steps.py`.
"""

import cython
from cython.cimports.cpython.exc import PyErr_CheckSignals
from cython.cimports.cpython.pythread import PyThread_get_thread_ident
from cython.cimports.libc.stdint import int64_t, uint32_t, uint64_t
from cython.cimports.penstock.timed.steps import Steps
from cython.cimports.penstock.timed.triggers import (
    trigger_start,
)
from cython.cimports.penstock.timed.types import (
    KIND_STARTUP,
    KIND_TIMER,
    TriggerC,
)

from penstock.errors import UsageError, WrongThread
from penstock.limits import TIMED_REACTIONS_PER_TURN as _TIMED_REACTIONS_PER_TURN
from penstock.timed.errors import SchedulerStopped
from penstock.timed.steps import BUSY
from penstock.timed.time import Tag

# The life of a scheduler.
FRESH = cython.declare(cython.int, 0)
RUNNING = cython.declare(cython.int, 1)


class Scheduler(Steps):
    # ---- time --------------------------------------------------------------------------------------------------------

    def begin(self, start_ns):
        """Fix the physical instant of tag (0, 0) and let timers and startup triggers start. Once."""
        if self.c.state != FRESH:
            raise SchedulerStopped("the program has been started before; make a new environment for another run")
        self.rebase(start_ns)
        self.c.state = RUNNING
        self.c.owner = PyThread_get_thread_ident()
        index: uint32_t
        trigger: cython.pointer[TriggerC]
        for index in range(self.c.line.trigger_count):
            trigger = self.c.line.triggers + index
            if trigger.mode < 0 and trigger.kind in (KIND_TIMER, KIND_STARTUP):
                trigger_start(cython.address(self.c.line), index, 0, 0)
        if self.switcher is not None:
            self.switcher.begin(self)

    def rebase(self, start_ns):
        """Before the start: say which physical instant the start is. Queued system events keep their physical time."""
        if self.c.state != FRESH:
            raise SchedulerStopped("the start cannot be moved after the program has begun")
        self._shift_system((self.start_ns - start_ns) * self.speed)
        self.start_ns = start_ns

    def step_clock(self, step_ns):
        """Move the physical clock, and by as much every queued system event. Who sleeps looks at the clock again."""
        self._check_thread("step_clock")
        self.stepped_ns += step_ns
        self._shift_system(step_ns * self.speed)
        self._wake()

    def _shift_system(self, step_ns):
        self.system.shift(step_ns)
        self._check_system()

    def _check_thread(self, what):
        """What moves a running program is called in its thread: another one would not even wake it."""
        if self.c.state == RUNNING and PyThread_get_thread_ident() != self.c.owner:
            raise WrongThread(
                f"{what} was called by thread {PyThread_get_thread_ident()}, but the program runs in thread {self.c.owner}; "
                "let the loop call it (defer_threadsafe), or schedule a physical action instead"
            )

    def _check_between(self, what):
        if self.c.state != RUNNING:
            raise SchedulerStopped(f"{what} needs a program that has begun and has not ended")
        if self.c.executing:
            raise UsageError(f"{what} was called within {self.tag}; a tag is finished before another one begins")

    # ---- scheduling --------------------------------------------------------------------------------------------------

    def schedule_at(self, trigger, tag, value=None):
        """Schedule for a tag chosen from outside: a message of a federation, a recorded input.

        A tag that has passed is delivered at the next microstep as late, with the tag that was intended; one beyond the
        stop tag, or one before the program has begun, is dropped and counted. Returns whether it was taken.
        """
        self._check_thread("schedule_at")
        time_ns: int64_t = tag[0]
        microstep: uint32_t = tag[1]
        if not 0 <= trigger < self.c.line.trigger_count:
            raise UsageError(f"trigger {trigger!r} is none of the {self.c.line.trigger_count} of this program")
        if self.c.line.triggers[trigger].kind == KIND_TIMER or self.c.line.triggers[trigger].kind >= KIND_STARTUP:
            raise UsageError(f"{self.plan.triggers[trigger].name} is not scheduled by anybody but the program")
        if self.c.state != RUNNING or time_ns < 0:
            self.c.outside_dropped += 1
            return False
        late: uint32_t = 0
        if self.c.tags > 0 and Tag(time_ns, microstep) <= self.tag:
            self.c.line.triggers[trigger].late += 1
            value = (value, time_ns, microstep)
            late = 1
            time_ns = self.c.now_ns
            microstep = self.c.microstep + 1
        taken = self.offer(trigger, time_ns, microstep, value, late) < 2
        self._wake()
        return taken

    def schedule_system(self, tag, handler):
        """Call `handler(tag)` when physical time reaches the tag; no level, no acquisition.

        What is queued keeps the program alive. After the end it is dropped and counted; returns whether it was taken.
        """
        self._check_thread("schedule_system")
        taken = self.system.push(tag, handler)
        self._check_system()
        self._wake()
        return taken

    def set_replay(self, events, missed):
        """Take physical inputs from a record: (tag, trigger, value, intended tag or None), in tag order; and missed
        deadlines: (time, microstep, reaction, number of the check). What arrives otherwise is dropped and counted."""
        self.replay = list(events)
        self.missed = set(missed)
        self._check_replay()

    # ---- running -----------------------------------------------------------------------------------------------------

    def run(self):
        """Step as long as something can run. Returns DONE; or WAIT or IDLE, when it is for the caller to wait."""
        status: cython.int = BUSY
        while status == BUSY:
            PyErr_CheckSignals()
            status = self.step(_TIMED_REACTIONS_PER_TURN)
        return status

    def step(self, reactions_max):
        """Run tags until about `reactions_max` reactions have run (or as many tags), or nothing can run now.

        Whatever is raised in here ends the program: its state may be broken in the middle of a tag.
        """
        if self.c.state == FRESH:
            raise SchedulerStopped("the program has not begun; call begin() first, or run its environment")
        try:
            return self._steps(cython.cast(uint64_t, reactions_max))
        except BaseException:
            self._abandon()
            raise

    def prepare_timestep(self, tag):
        """Let logical time be `tag`, at which nothing is to happen: never back, and never past what is pending."""
        self._check_thread("prepare_timestep")
        time_ns: int64_t = tag[0]
        microstep: uint32_t = tag[1]
        self._check_between("prepare_timestep")
        if self.c.tags > 0 and Tag(time_ns, microstep) <= self.tag:
            raise UsageError(
                f"prepare_timestep to {Tag(*tag)}, but the current tag is {self.tag}; time does not go back"
            )
        first: Tag = min(self.next_tag() or self.stop_tag, self.stop_tag)
        if first <= tag:
            raise UsageError(
                f"prepare_timestep to {Tag(*tag)}, but at {first} there is something to do; let that run first"
            )
        self._prepare(time_ns, microstep)
        self.c.executing = False

    # ---- the end -----------------------------------------------------------------------------------------------------

    def request_stop(self, tag=None):
        """Stop at the next microstep, or at `tag` if that is later. Returns the stop tag that now holds."""
        self._check_thread("request_stop")
        time_ns: int64_t = self.c.now_ns
        microstep: uint32_t = self.c.microstep + 1 if self.c.tags > 0 else 0
        outside: cython.bint = not self.c.executing and not self.c.fast and self.c.state == RUNNING and tag is None
        if outside and self.physical() > time_ns:
            # The present, not the past tag at which the program last did something.
            time_ns = self.physical()
            microstep = 0
        if tag is not None and Tag(*tag) > (time_ns, microstep):
            time_ns = tag[0]
            microstep = tag[1]
        self._set_stop(time_ns, microstep)
        self._wake()
        return self.stop_tag

    def do_shutdown(self, tag=None):
        """Stop now, at `tag` or the next microstep: only shutdown reactions run; what is pending is dropped and counted."""
        self._check_thread("do_shutdown")
        self._check_between("do_shutdown")
        least = self.tag.after(0) if self.c.tags > 0 else Tag(0, 0)
        stop = max(least, Tag(*tag)) if tag is not None else least
        self._set_stop(stop[0], stop[1])
        try:
            self._shut_down()
        except BaseException:
            self._abandon()
            raise
        self._wake()
        return self.stop_tag

    def abandon(self):
        self._abandon()

    # ---- looking in --------------------------------------------------------------------------------------------------

    def figures(self):
        """Everything that was counted."""
        return {**Steps.figures(self), "system_dropped": self.system.dropped}
