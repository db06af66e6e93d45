# cython: language_level=3, binding=False
"""The steps of a scheduler: whose turn is it at which tag?

    next tag -> wait for physical time -> acquire the tag -> pop its events -> run reactions in order -> clean up
                    (unless fast)          (federations)                       deadline, level, lexical

The reactions of a plan come sorted by (inferred deadline, level, lexical order), which is a topological order: whatever a
reaction triggers within its tag stands behind it. So the reaction queue is a bitmap, read once from front to back.

System events have a queue of their own: at equal tags regular events go first; their handlers are called directly. While
a regular tag waits to be acquired, system events that are due are handled.

This file must not know reactors, ports or loops: it knows numbers, and calls hooks. What it works on is `memory.py`; who
may ask for a step, and for what else, is said in `scheduler.py`.
"""

import cython
from cython.cimports.cpython.ref import Py_DECREF, Py_INCREF, PyObject
from cython.cimports.libc.stdint import int64_t, uint32_t, uint64_t
from cython.cimports.penstock.timed.memory import Memory
from cython.cimports.penstock.timed.timeline import line_remove, line_set, pending_at, pending_remove
from cython.cimports.penstock.timed.triggers import (
    trigger_drop,
)
from cython.cimports.penstock.timed.types import (
    KIND_SHUTDOWN,
    KIND_STARTUP,
    KIND_TIMER,
    OVERFLOW_BLOCK,
    DelayC,
    EventC,
    PendingC,
    PyObject_CallNoArgs,
    ReactionC,
    SlotC,
    TriggerC,
    lowest_bit,
)

from penstock.errors import Overflow
from penstock.limits import MICROSTEPS_MAX as _MICROSTEPS_MAX
from penstock.timed.system import SystemQueue
from penstock.timed.time import Tag

MICROSTEPS = cython.declare(uint32_t, _MICROSTEPS_MAX)

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


class Steps(Memory):
    def __cinit__(self):
        self.system = SystemQueue()
        self.replay = []

    def _wake(self):
        if self.c.sleeping and self.on_wake is not None:
            self.on_wake()

    def _check_system(self):
        first = self.system.first()
        self.c.system_ns = first[0]
        self.c.system_microstep = first[1]

    # ---- one step ----------------------------------------------------------------------------------------------------

    def _steps(self, share: uint64_t):
        time_ns: int64_t = 0
        microstep: uint32_t = 0
        limit: uint64_t = self.c.reactions_run + self.c.tags + self.c.system_events + share
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
        elif not self.keep_alive and self.c.system_ns == NEVER:
            self._set_stop(self.c.now_ns, self.c.microstep + 1 if self.c.tags > 0 else 0)
        time_ns[0] = self.c.stop_ns
        microstep[0] = self.c.stop_microstep
        return 1

    def _run_system(self, up_to_ns: int64_t):
        """Handle the earliest system events, all with the same tag, if they are due; return how many ran."""
        ran: cython.int = 0
        if self.c.system_ns == NEVER or self.c.system_ns > up_to_ns:
            return 0
        tag = self.system.first()
        while len(self.system) and self.system.first() == tag:
            handler = self.system.pop()
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
        self.wait_ns = NEVER if answer is None or answer is False else answer
        self.wait_ns = min(self.wait_ns, self.c.system_ns)
        return False

    def _run_tag(self, time_ns: int64_t, microstep: uint32_t):
        if microstep > MICROSTEPS:
            raise Overflow(
                f"the program took {_MICROSTEPS_MAX:,} microsteps at {Tag(time_ns, 0)} and time does not go on; "
                "give an action or a connection in the circle a delay",
                limit="MICROSTEPS_MAX",
                capacity=_MICROSTEPS_MAX,
            )
        self._prepare(time_ns, microstep)
        self._pop()
        self._run_reactions()
        self._clean_up()
        return 0

    def _prepare(self, time_ns: int64_t, microstep: uint32_t):
        self.c.now_ns = time_ns
        self.c.microstep = microstep
        self.c.tags += 1
        self.c.executing = True

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

    def _deliver(self, index: uint32_t, event: EventC):
        """Hand the event's value to the slot of its trigger."""
        trigger: cython.pointer[TriggerC] = self.c.line.triggers + index
        slot: cython.pointer[SlotC] = self.c.slots + trigger.slot
        value = cython.cast(object, event.value)
        Py_DECREF(value)
        intended = None
        trigger.handled_before = True
        trigger.handled_ns = event.time_ns
        if trigger.overflow == OVERFLOW_BLOCK and self.on_room is not None:
            self.on_room(index)
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

    def _shut_down(self):
        """The stop tag's own pass: shutdown reactions, after the events of that tag; what is later never happens."""
        index: uint32_t
        place: uint32_t
        slot: cython.pointer[SlotC]
        trigger: cython.pointer[TriggerC]
        self._prepare(self.c.stop_ns, self.c.stop_microstep)
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
        self.system.close()
        self._check_system()
        self.c.state = STOPPED
        if self.on_end is not None:
            self.on_end()

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
        self.c.late_slots = 0
        self.c.current = -1
        self.c.executing = False
        self._drop_all()
