# cython: language_level=3, binding=False
"""The scheduler: whose turn is it at which tag?

    next tag -> wait for physical time -> acquire the tag -> pop its events -> run reactions in order -> clean up
                    (unless fast)          (federations)                       deadline, level, lexical

`step` does this until it has run its share, must wait, has nothing to do, or is done, and returns which; it never blocks.
Who drives it (`environment.py`) does the waiting, on the kernel's loop, and calls again when time has come or something
has arrived.

The reactions of a plan come sorted by (inferred deadline, level, lexical order), which is a topological order: whatever a
reaction triggers within its tag stands behind it. So the reaction queue is a bitmap, read once from front to back.

System events have a queue of their own: at equal tags regular events go first; their handlers are called directly. While
a regular tag waits to be acquired, system events that are due are handled.

This file must not know reactors, ports or loops: it knows numbers, and calls hooks. What it works on is `memory.py`.
"""

import heapq

import cython
from cython.cimports.cpython.pythread import PyThread_get_thread_ident
from cython.cimports.cpython.ref import Py_DECREF, Py_INCREF, PyObject
from cython.cimports.libc.stdint import int64_t, uint32_t, uint64_t
from cython.cimports.penstock.timed.memory import Memory
from cython.cimports.penstock.timed.timeline import line_remove, line_set, pending_at, pending_remove
from cython.cimports.penstock.timed.triggers import (
    trigger_drop,
    trigger_start,
)
from cython.cimports.penstock.timed.types import (
    KIND_SHUTDOWN,
    KIND_STARTUP,
    KIND_TIMER,
    DelayC,
    EventC,
    PendingC,
    PyObject_CallNoArgs,
    ReactionC,
    SlotC,
    TriggerC,
    lowest_bit,
)

from penstock.errors import Overflow, UsageError
from penstock.limits import SYSTEM_EVENTS_MAX
from penstock.timed.errors import SchedulerStopped
from penstock.timed.time import Tag

# What `step` returns.
BUSY, WAIT, IDLE, DONE = range(4)

# The life of a scheduler.
FRESH = cython.declare(cython.int, 0)
RUNNING = cython.declare(cython.int, 1)
STOPPED = cython.declare(cython.int, 2)

# The tag that is never reached: 2 ** 62 ns are 146 years.
NEVER = cython.declare(int64_t, 4611686018427387904)

# Which body of a reaction ran, as it appears in a trace.
HOW = ("", "deadline", "late")


@cython.cfunc
@cython.exceptval(-1, check=False)
def _pending_error() -> cython.int:
    """Let an exception that the C interface has left behind appear here."""
    return -1


@cython.cfunc
@cython.exceptval(check=False)
@cython.inline
def _is_before(a_ns: int64_t, a_step: uint32_t, b_ns: int64_t, b_step: uint32_t) -> cython.bint:
    return a_ns < b_ns or (a_ns == b_ns and a_step < b_step)


class Scheduler(Memory):
    def __cinit__(self):
        self.system = []
        self.replay = []

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
        self._shift_system(self.start_ns - start_ns)
        self.start_ns = start_ns

    def step_clock(self, step_ns):
        """Move the physical clock, and by as much every queued system event, wherever it is queued."""
        self.stepped_ns += step_ns
        self._shift_system(step_ns * self.speed)

    def _shift_system(self, step_ns):
        # All entries move by the same amount, so the heap stays one; they are replaced in place, never copied away.
        for place in range(len(self.system)):
            entry = self.system[place]
            self.system[place] = (entry[0] + step_ns, entry[1], entry[2], entry[3])
        self._check_system()

    # ---- scheduling --------------------------------------------------------------------------------------------------

    def schedule_at(self, trigger, tag, value=None):
        """Schedule for a tag chosen from outside: a message of a federation, a recorded input.

        A tag that has passed is delivered at the next microstep as late, with the tag that was intended; one beyond the
        stop tag, or one before the program has begun, is dropped and counted. Returns whether it was taken.
        """
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
        if self.c.tags > 0 and not _is_before(self.c.now_ns, self.c.microstep, time_ns, microstep):
            self.c.line.triggers[trigger].late += 1
            value = (value, time_ns, microstep)
            late = 1
            time_ns = self.c.now_ns
            microstep = self.c.microstep + 1
        taken = self.offer(trigger, time_ns, microstep, value, late) < 2
        if self.c.sleeping and self.on_wake is not None:
            self.on_wake()
        return taken

    def schedule_system(self, tag, handler):
        """Call `handler(tag)` when physical time reaches the tag; no level, no acquisition."""
        if len(self.system) >= SYSTEM_EVENTS_MAX:
            raise Overflow(
                f"{SYSTEM_EVENTS_MAX:,} system events are pending",
                limit="SYSTEM_EVENTS_MAX",
                capacity=SYSTEM_EVENTS_MAX,
            )
        self.system_sequence += 1
        heapq.heappush(self.system, (int(tag[0]), int(tag[1]), self.system_sequence, handler))
        self._check_system()
        if self.c.sleeping and self.on_wake is not None:
            self.on_wake()

    def _check_system(self):
        self.c.system_ns = NEVER
        self.c.system_microstep = 0
        if self.system:
            self.c.system_ns = self.system[0][0]
            self.c.system_microstep = self.system[0][1]

    # ---- one step ----------------------------------------------------------------------------------------------------

    def step(self, reactions_max):
        """Run tags until about `reactions_max` reactions have run (or as many tags), or nothing can run now."""
        time_ns: int64_t = 0
        microstep: uint32_t = 0
        limit: uint64_t = (
            self.c.reactions_run + self.c.tags + self.c.system_events + cython.cast(uint64_t, reactions_max)
        )
        shut_down: cython.bint
        while self.c.state == RUNNING:
            if self.c.reactions_run + self.c.tags + self.c.system_events >= limit:
                return BUSY
            shut_down = self._next(cython.address(time_ns), cython.address(microstep)) == 1
            if _is_before(self.c.system_ns, self.c.system_microstep, time_ns, microstep):
                if self._run_system(NEVER if self.c.fast else self.physical()) == 0:
                    self.wait_ns = self.c.system_ns
                    return WAIT
                continue
            if time_ns == NEVER:
                return IDLE
            if not self.c.fast and self.physical() < time_ns:
                self.wait_ns = time_ns
                return WAIT
            if self.acquire is not None and not self._may_run(time_ns, microstep):
                if self._run_system(self.physical()) == 0:
                    return WAIT if self.wait_ns < NEVER else IDLE
                continue
            if shut_down:
                self._shut_down()
            else:
                self._run_tag(time_ns, microstep)
        return DONE

    def _next(self, time_ns: cython.pointer[int64_t], microstep: cython.pointer[uint32_t]):
        """The tag that comes next; return 1 if it is the end of the program."""
        if self.c.line.size > 0 or self.c.replay_ns < NEVER:
            time_ns[0] = self.c.replay_ns
            microstep[0] = self.c.replay_microstep
            if self.c.line.size > 0 and not _is_before(
                time_ns[0], microstep[0], self.c.line.heap[0].time_ns, self.c.line.heap[0].microstep
            ):
                time_ns[0] = self.c.line.heap[0].time_ns
                microstep[0] = self.c.line.heap[0].microstep
            if not _is_before(self.c.stop_ns, self.c.stop_microstep, time_ns[0], microstep[0]):
                return 0
        elif not self.keep_alive:
            self._set_stop(self.c.now_ns, self.c.microstep + 1 if self.c.tags > 0 else 0)
        time_ns[0] = self.c.stop_ns
        microstep[0] = self.c.stop_microstep
        return 1

    def _run_system(self, up_to_ns: int64_t):
        """Handle the earliest system events, all with the same tag, if they are due; return how many ran."""
        ran: cython.int = 0
        if not self.system or self.c.system_ns > up_to_ns:
            return 0
        tag = Tag(self.system[0][0], self.system[0][1])
        while self.system and self.system[0][0] == tag[0] and self.system[0][1] == tag[1]:
            handler = heapq.heappop(self.system)[3]
            self._check_system()
            self.c.system_events += 1
            ran += 1
            handler(tag)
        return ran

    def _may_run(self, time_ns: int64_t, microstep: uint32_t):
        """Ask for the tag. Otherwise `wait_ns` is when to ask again; whatever arrives asks again, too."""
        answer = self.acquire(Tag(time_ns, microstep))
        if answer is True:
            return True
        self.wait_ns = NEVER if answer is None else answer
        self.wait_ns = min(self.wait_ns, self.c.system_ns)
        return False

    def _run_tag(self, time_ns: int64_t, microstep: uint32_t):
        self.c.now_ns = time_ns
        self.c.microstep = microstep
        self.c.tags += 1
        self.c.executing = True
        self._pop()
        self._run_reactions()
        self._clean_up()
        return 0

    def _pop(self):
        """Take every event of the current tag; make its slots present, and their reactions due."""
        line = cython.address(self.c.line)
        trigger: cython.pointer[TriggerC]
        pending: cython.pointer[PendingC]
        head: cython.pointer[EventC]
        index: uint32_t
        event = cython.declare(EventC)
        while line.size > 0 and line.heap[0].time_ns == self.c.now_ns and line.heap[0].microstep == self.c.microstep:
            index = line.heap[0].trigger
            trigger = line.triggers + index
            if trigger.kind == KIND_TIMER or trigger.kind >= KIND_STARTUP:
                if trigger.kind == KIND_TIMER and trigger.period_ns > 0:
                    line_set(line, index, self.c.now_ns + trigger.period_ns, 0)
                else:
                    line_remove(line, index)
                self.write(trigger.slot, cython.NULL)
                continue
            pending = cython.address(trigger.pending)
            event = pending_remove(pending, 0)
            if pending.size > 0:
                head = pending_at(pending, 0)
                line_set(line, index, head.time_ns, head.microstep)
            else:
                line_remove(line, index)
            self._deliver(index, event)
        if self.c.replay_ns == self.c.now_ns and self.c.replay_microstep == self.c.microstep:
            self._pop_replay()
        return 0

    def _pop_replay(self):
        """Deliver what a record says of the current tag; it knows no queues, policies or modes: they were obeyed then."""
        event = cython.declare(EventC)
        while self.c.replay_ns == self.c.now_ns and self.c.replay_microstep == self.c.microstep:
            _, trigger, value, intended = self.replay[self.replayed]
            self.replayed += 1
            self._check_replay()
            if intended is not None:
                value = (value, intended[0], intended[1])
            event.time_ns = self.c.now_ns
            event.microstep = self.c.microstep
            event.late = intended is not None
            Py_INCREF(value)
            event.value = cython.cast(cython.pointer[PyObject], value)
            self._deliver(trigger, event)
        return 0

    def _check_replay(self):
        self.c.replay_ns = NEVER
        self.c.replay_microstep = 0
        if self.replayed < len(self.replay):
            self.c.replay_ns = self.replay[self.replayed][0][0]
            self.c.replay_microstep = self.replay[self.replayed][0][1]

    def set_replay(self, events, missed):
        """Take physical inputs from a record: (tag, trigger, value, intended tag or None), in tag order; and missed
        deadlines: (time, microstep, reaction, number of the check). What arrives otherwise is dropped and counted."""
        self.replay = list(events)
        self.missed = set(missed)
        self._check_replay()

    def _deliver(self, index: uint32_t, event: EventC):
        """Hand the event's value to the slot of its trigger."""
        trigger: cython.pointer[TriggerC] = self.c.line.triggers + index
        slot: cython.pointer[SlotC] = self.c.slots + trigger.slot
        value = cython.cast(object, event.value)
        Py_DECREF(value)
        intended = None
        trigger.handled_before = True
        trigger.handled_ns = event.time_ns
        if event.late:
            intended = Tag(value[1], value[2])
            value = value[0]
            slot.late = True
            slot.intended_ns = intended[0]
            slot.intended_microstep = intended[1]
            self.c.late_slots += 1
        if self.on_handled is not None:
            self.on_handled(index, Tag(event.time_ns, event.microstep), value, intended)
        Py_INCREF(value)
        return self.write(trigger.slot, cython.cast(cython.pointer[PyObject], value))

    def _run_reactions(self):
        """From the front to the back; what a reaction triggers in this tag always stands behind it."""
        block: uint32_t
        word: uint32_t
        rank: uint32_t
        for block in range(self.c.summary_count):
            while self.c.summary[block]:
                word = (block << 6) + lowest_bit(self.c.summary[block])
                while self.c.words[word]:
                    rank = (word << 6) + lowest_bit(self.c.words[word])
                    self.c.words[word] &= self.c.words[word] - 1
                    self._run_reaction(rank)
                self.c.summary[block] &= self.c.summary[block] - 1
        self.c.current = -1
        return 0

    def _run_reaction(self, rank: uint32_t):
        reaction: cython.pointer[ReactionC] = self.c.reactions + rank
        if reaction.mode >= 0 and not self.c.active[reaction.mode] and not reaction.forced:
            return 0
        body: cython.pointer[PyObject] = reaction.body
        how: cython.int = 0
        self.c.current = rank
        self.c.reactions_run += 1
        if reaction.watched or self.c.late_slots:
            self.c.deadline_checks = 0
            body = self._choose(rank, cython.address(how))
        if self.c.tracing:
            self.written = []
        result: cython.pointer[PyObject] = PyObject_CallNoArgs(body)
        if result == cython.NULL:
            return self._failed(rank, how)
        if self.c.tracing:
            self.trace_sink(rank, Tag(self.c.now_ns, self.c.microstep), HOW[how], self.written)
        Py_DECREF(cython.cast(object, result))
        return 0

    def _choose(self, rank: uint32_t, how: cython.pointer[cython.int]):
        """Which body: the handler of late inputs, that of the deadline, or the reaction itself."""
        reaction: cython.pointer[ReactionC] = self.c.reactions + rank
        if self.c.late_slots:
            late = [
                index for index in self.plan.reactions[rank].watches if self.c.slots[cython.cast(uint32_t, index)].late
            ]
            if late and reaction.on_late != cython.NULL:
                self.c.late_handled += 1
                how[0] = 2
                return reaction.on_late
            if late:
                self.c.late_unhandled += 1
                if self.on_late is not None:
                    self.on_late(rank, late)
        if reaction.watched and self._missed_deadline(rank):
            self.c.deadlines_missed += 1
            how[0] = 1
            if reaction.on_deadline != cython.NULL:
                return reaction.on_deadline
        return reaction.body

    def _failed(self, rank: uint32_t, how: cython.int):
        """A reaction has raised: let the hook decide whether the program goes on."""
        self.c.errors += 1
        try:
            _pending_error()
        except Exception as error:
            if self.c.tracing:
                self.trace_sink(rank, Tag(self.c.now_ns, self.c.microstep), HOW[how], self.written)
            if self.on_error is not None and self.on_error(rank, Tag(self.c.now_ns, self.c.microstep), error):
                return 0
            self._abandon()
            raise
        except BaseException:
            self._abandon()
            raise
        return 0

    def _clean_up(self):
        """End the tag: send on what connections delay, clear presence, change modes, say that the tag is complete."""
        place: uint32_t
        slot: cython.pointer[SlotC]
        for place in range(self.c.present_count):
            slot = self.c.slots + self.c.present[place]
            if slot.delay_count or slot.outlet:
                self._send_on(self.c.present[place])
            slot.present = False
            slot.late = False
        self.c.present_count = 0
        self.c.late_slots = 0
        self.c.executing = False
        if self.switcher is not None and self.switcher.requests:
            self.switcher.switch(self)
        if self.on_complete is not None:
            self.on_complete(Tag(self.c.now_ns, self.c.microstep))
        return 0

    def _send_on(self, index: uint32_t):
        slot: cython.pointer[SlotC] = self.c.slots + index
        delay: cython.pointer[DelayC]
        place: uint32_t
        value = None if slot.value == cython.NULL else cython.cast(object, slot.value)
        for place in range(slot.delay_count):
            delay = self.c.delays + slot.delays + place
            if delay.mode >= 0 and not self.c.active[delay.mode]:
                continue
            if delay.physical:
                self.schedule_physical(delay.trigger, self.physical(), delay.delay_ns, value)
            else:
                self.schedule_after(delay.trigger, delay.delay_ns, value)
        if slot.outlet and self.on_outlet is not None:
            self.on_outlet(index, Tag(self.c.now_ns, self.c.microstep), value)
        return 0

    # ---- the end -----------------------------------------------------------------------------------------------------

    def _set_stop(self, time_ns: int64_t, microstep: uint32_t):
        """An earlier stop replaces a later one, never the other way round."""
        if _is_before(time_ns, microstep, self.c.stop_ns, self.c.stop_microstep):
            self.c.stop_ns = time_ns
            self.c.stop_microstep = microstep

    def request_stop(self, tag=None):
        """Stop at the next microstep, or at `tag` if that is later. Returns the stop tag that now holds."""
        time_ns: int64_t = self.c.now_ns
        microstep: uint32_t = self.c.microstep + 1 if self.c.tags > 0 else 0
        outside: cython.bint = not self.c.executing and not self.c.fast and self.c.state == RUNNING and tag is None
        if outside and self.physical() > time_ns:
            # The present, not the past tag at which the program last did something.
            time_ns = self.physical()
            microstep = 0
        if tag is not None and _is_before(time_ns, microstep, tag[0], tag[1]):
            time_ns = tag[0]
            microstep = tag[1]
        self._set_stop(time_ns, microstep)
        if self.c.sleeping and self.on_wake is not None:
            self.on_wake()
        return self.stop_tag

    def _shut_down(self):
        """The stop tag's own pass: shutdown reactions, after the events of that tag; what is later never happens."""
        index: uint32_t
        place: uint32_t
        slot: cython.pointer[SlotC]
        trigger: cython.pointer[TriggerC]
        self.c.now_ns = self.c.stop_ns
        self.c.microstep = self.c.stop_microstep
        self.c.tags += 1
        self.c.executing = True
        for index in range(self.c.line.trigger_count):
            trigger = self.c.line.triggers + index
            if trigger.kind != KIND_SHUTDOWN:
                continue
            if trigger.mode >= 0 and not self.switcher.entered(trigger.mode):
                continue
            slot = self.c.slots + trigger.slot
            for place in range(slot.reaction_count):
                self.c.reactions[self.c.links[slot.reactions + place]].forced = True
            self.write(trigger.slot, cython.NULL)
        self._run_reactions()
        self._clean_up()
        self._drop_all()
        return 0

    def _drop_all(self):
        index: uint32_t
        for index in range(self.c.line.trigger_count):
            self.c.line.triggers[index].dropped_stopped += trigger_drop(cython.address(self.c.line), index)
        self.c.state = STOPPED

    def _abandon(self):
        """Stop in the middle of a tag: no reaction runs any more, not even for shutdown."""
        index: uint32_t
        for index in range(self.c.word_count):
            self.c.words[index] = 0
        for index in range(self.c.summary_count):
            self.c.summary[index] = 0
        for index in range(self.c.present_count):
            self.c.slots[self.c.present[index]].present = False
            self.c.slots[self.c.present[index]].late = False
        self.c.present_count = 0
        self.c.current = -1
        self.c.executing = False
        self._drop_all()

    def abandon(self):
        self._abandon()
