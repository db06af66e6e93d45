# cython: language_level=3, binding=False
"""What a scheduler holds while a program runs, and the moves that are made on it: write, mark, schedule, look.

One allocation per kind of thing, sized by the plan; nothing grows afterwards but the queues of pending events. Bodies and
names are kept alive by the plan; slots and pending events own their values. `Scheduler` (scheduler.py) is this plus the
order in which things happen. This file must not know that order.
"""

import cython
from cython.cimports.cpython.ref import Py_INCREF, Py_XDECREF, PyObject
from cython.cimports.libc.stdint import int64_t, uint32_t, uint64_t
from cython.cimports.libc.stdlib import calloc, free
from cython.cimports.penstock.core.clock import clock_now
from cython.cimports.penstock.timed.timeline import pending_remove
from cython.cimports.penstock.timed.triggers import (
    trigger_drop,
    trigger_resume,
    trigger_schedule,
    trigger_start,
    trigger_suspend,
)
from cython.cimports.penstock.timed.types import (
    OVERFLOW_BLOCK,
    CopyC,
    DelayC,
    EventC,
    KeyC,
    ReactionC,
    SlotC,
    TriggerC,
)

from penstock.errors import Overflow
from penstock.timed.time import Tag

# The life of a scheduler.
FRESH = cython.declare(cython.int, 0)
RUNNING = cython.declare(cython.int, 1)
STOPPED = cython.declare(cython.int, 2)

# The tag that is never reached: 2 ** 62 ns are 146 years.
NEVER = cython.declare(int64_t, 4611686018427387904)


@cython.cfunc
@cython.exceptval(check=False)
@cython.inline
def _is_before(a_ns: int64_t, a_step: uint32_t, b_ns: int64_t, b_step: uint32_t) -> cython.bint:
    return a_ns < b_ns or (a_ns == b_ns and a_step < b_step)


class Memory:
    def __init__(self, plan, clock, *, fast=False, keep_alive=False, timeout_ns=None, speed=1):
        self.plan = plan
        self.clock = clock
        self.keep_alive = keep_alive
        self.speed = speed
        self.start_ns = clock.now_ns()
        self.written = []
        self.c.fast = fast
        self.c.current = -1
        self.c.state = FRESH
        self.c.stop_ns = NEVER if timeout_ns is None else timeout_ns
        self.c.system_ns = NEVER
        self.c.replay_ns = NEVER
        self._allocate()
        self._load()

    def __dealloc__(self):
        index: uint32_t
        for index in range(self.c.line.trigger_count):
            if self.c.line.triggers != cython.NULL:
                while self.c.line.triggers[index].pending.size > 0:
                    event: EventC = pending_remove(cython.address(self.c.line.triggers[index].pending), 0)
                    Py_XDECREF(event.value)
                free(self.c.line.triggers[index].pending.events)
        for index in range(self.c.slot_count):
            if self.c.slots != cython.NULL:
                Py_XDECREF(self.c.slots[index].value)
        free(self.c.line.triggers)
        free(self.c.line.heap)
        free(self.c.slots)
        free(self.c.reactions)
        free(self.c.links)
        free(self.c.copies)
        free(self.c.delays)
        free(self.c.words)
        free(self.c.summary)
        free(self.c.present)
        free(self.c.active)

    def _allocate(self):
        plan = self.plan
        c = cython.address(self.c)
        c.line.trigger_count = len(plan.triggers)
        c.slot_count = len(plan.slots)
        c.reaction_count = len(plan.reactions)
        c.mode_count = len(plan.modes)
        c.word_count = c.reaction_count // 64 + 1
        c.summary_count = c.word_count // 64 + 1
        links: cython.size_t = sum(len(slot.reactions) for slot in plan.slots) + 1
        copies: cython.size_t = sum(len(slot.copies) for slot in plan.slots) + 1
        delays: cython.size_t = sum(len(slot.delays) for slot in plan.slots) + 1
        c.line.triggers = cython.cast(
            cython.pointer[TriggerC], calloc(c.line.trigger_count + 1, cython.sizeof(TriggerC))
        )
        c.line.heap = cython.cast(cython.pointer[KeyC], calloc(c.line.trigger_count + 1, cython.sizeof(KeyC)))
        c.slots = cython.cast(cython.pointer[SlotC], calloc(c.slot_count + 1, cython.sizeof(SlotC)))
        c.reactions = cython.cast(cython.pointer[ReactionC], calloc(c.reaction_count + 1, cython.sizeof(ReactionC)))
        c.links = cython.cast(cython.pointer[uint32_t], calloc(links, cython.sizeof(uint32_t)))
        c.copies = cython.cast(cython.pointer[CopyC], calloc(copies, cython.sizeof(CopyC)))
        c.delays = cython.cast(cython.pointer[DelayC], calloc(delays, cython.sizeof(DelayC)))
        c.words = cython.cast(cython.pointer[uint64_t], calloc(c.word_count, cython.sizeof(uint64_t)))
        c.summary = cython.cast(cython.pointer[uint64_t], calloc(c.summary_count, cython.sizeof(uint64_t)))
        c.present = cython.cast(cython.pointer[uint32_t], calloc(c.slot_count + 1, cython.sizeof(uint32_t)))
        c.active = cython.cast(cython.pointer[cython.uchar], calloc(c.mode_count + 1, 1))
        queues: cython.bint = c.line.triggers and c.line.heap and c.words and c.summary and c.present
        places: cython.bint = c.slots and c.reactions and c.links and c.copies and c.delays and c.active
        if not (queues and places):
            raise MemoryError("no memory for the program")
        return 0

    def _load(self):
        index: uint32_t
        trigger: cython.pointer[TriggerC]
        reaction: cython.pointer[ReactionC]
        for index, one in enumerate(self.plan.triggers):
            trigger = self.c.line.triggers + index
            trigger.position = -1
            trigger.kind = one.kind
            trigger.mode = one.mode
            trigger.policy = one.policy
            trigger.overflow = one.overflow
            trigger.slot = one.slot
            trigger.offset_ns = one.offset_ns
            trigger.period_ns = one.period_ns
            trigger.pending.capacity = one.capacity
        for index, one in enumerate(self.plan.reactions):
            reaction = self.c.reactions + index
            reaction.body = cython.cast(cython.pointer[PyObject], one.body)
            reaction.on_deadline = cython.NULL
            reaction.on_late = cython.NULL
            if one.on_deadline is not None:
                reaction.on_deadline = cython.cast(cython.pointer[PyObject], one.on_deadline)
            if one.on_late is not None:
                reaction.on_late = cython.cast(cython.pointer[PyObject], one.on_late)
            reaction.deadline_ns = one.deadline_ns
            reaction.watched = one.deadline_ns >= 0
            reaction.mode = one.mode
        return self._load_links()

    def _load_links(self):
        index: uint32_t
        link: uint32_t = 0
        copy: uint32_t = 0
        delay: uint32_t = 0
        slot: cython.pointer[SlotC]
        for index, one in enumerate(self.plan.slots):
            slot = self.c.slots + index
            slot.outlet = one.outlet
            slot.reactions = link
            slot.reaction_count = len(one.reactions)
            for rank in one.reactions:
                self.c.links[link] = rank
                link += 1
            slot.copies = copy
            slot.copy_count = len(one.copies)
            for target, mode in one.copies:
                self.c.copies[copy].target = target
                self.c.copies[copy].mode = mode
                copy += 1
            slot.delays = delay
            slot.delay_count = len(one.delays)
            for item in one.delays:
                self.c.delays[delay].delay_ns = item.delay_ns
                self.c.delays[delay].trigger = item.trigger
                self.c.delays[delay].physical = item.physical
                self.c.delays[delay].mode = item.mode
                delay += 1
        return 0

    def physical(self):
        """Physical time since the start, on the scale of logical time."""
        return (clock_now(cython.address(self.clock.c)) - self.start_ns + self.stepped_ns) * self.speed

    def physical_ns(self):
        return self.physical()

    def offer(self, index: uint32_t, time_ns: int64_t, microstep: uint32_t, value: object, late: uint32_t):
        """Offer an event to a trigger; return the outcome. Raises if it is refused."""
        if self.c.state == STOPPED or _is_before(self.c.stop_ns, self.c.stop_microstep, time_ns, microstep):
            self.c.line.triggers[index].dropped_stopped += 1
            return 2
        Py_INCREF(value)
        outcome: cython.int = trigger_schedule(
            cython.address(self.c.line),
            index,
            cython.address(time_ns),
            cython.address(microstep),
            cython.cast(cython.pointer[PyObject], value),
            late,
        )
        if outcome == 3:
            plan = self.plan.triggers[index]
            raise Overflow(
                f"{plan.name} has {plan.capacity:,} events pending, which is its capacity; schedule less, or give it more",
                limit=plan.capacity_name,
                capacity=plan.capacity,
            )
        if outcome == 4:
            raise MemoryError("no memory for an event")
        return outcome

    def schedule_after(self, index: uint32_t, delay_ns: int64_t, value: object):
        """Logical: the current tag plus the minimum delay plus `delay_ns`; nothing at all is the next microstep."""
        delay_ns += self.c.line.triggers[index].offset_ns
        if delay_ns > 0:
            return self.offer(index, self.c.now_ns + delay_ns, 0, value, 0)
        return self.offer(index, self.c.now_ns, self.c.microstep + 1, value, 0)

    def schedule_physical(self, index: uint32_t, at_ns: int64_t, delay_ns: int64_t, value: object):
        """Physical: the instant `at_ns` plus delays, but never at or before the current tag."""
        time_ns: int64_t = at_ns + self.c.line.triggers[index].offset_ns + delay_ns
        microstep: uint32_t = 0
        if self.missed is not None or self.c.state == FRESH:
            self.c.outside_dropped += 1
            return 2
        if time_ns <= self.c.now_ns:
            time_ns = self.c.now_ns
            microstep = self.c.microstep + 1
        outcome: cython.int = self.offer(index, time_ns, microstep, value, 0)
        if self.c.sleeping and self.on_wake is not None:
            self.on_wake()
        return outcome

    def write(self, index: uint32_t, value: cython.pointer[PyObject]):
        """Give a slot a value (a reference that is taken over; NULL: none) and make it present. The last write wins."""
        slot: cython.pointer[SlotC] = self.c.slots + index
        old: cython.pointer[PyObject] = slot.value
        place: uint32_t
        copy: cython.pointer[CopyC]
        if value != cython.NULL:
            slot.value = value
        if not slot.present:
            slot.present = True
            self.c.present[self.c.present_count] = index
            self.c.present_count += 1
            self.mark(slot)
        for place in range(slot.copy_count):
            copy = self.c.copies + slot.copies + place
            if copy.mode < 0 or self.c.active[copy.mode]:
                if slot.late and not self.c.slots[copy.target].late:
                    self.c.slots[copy.target].late = True
                    self.c.slots[copy.target].intended_ns = slot.intended_ns
                    self.c.slots[copy.target].intended_microstep = slot.intended_microstep
                    self.c.late_slots += 1
                if value != cython.NULL:
                    Py_INCREF(cython.cast(object, value))
                self.write(copy.target, value)
        if value != cython.NULL:
            Py_XDECREF(old)
        return 0

    def mark(self, slot: cython.pointer[SlotC]):
        """Put the reactions of a slot into the reaction queue."""
        place: uint32_t
        rank: uint32_t
        for place in range(slot.reaction_count):
            rank = self.c.links[slot.reactions + place]
            self.c.words[rank >> 6] |= cython.cast(uint64_t, 1) << (rank & 63)
            self.c.summary[rank >> 12] |= cython.cast(uint64_t, 1) << ((rank >> 6) & 63)

    def _missed_deadline(self, rank: uint32_t):
        """Whether physical time is past the deadline; a replay asks the record instead of the clock."""
        missed: cython.bint
        check: cython.int = self.c.deadline_checks
        self.c.deadline_checks += 1
        if self.missed is not None:
            return (self.c.now_ns, self.c.microstep, rank, check) in self.missed
        missed = self.physical() > self.c.now_ns + self.c.reactions[rank].deadline_ns
        if missed and self.on_deadline is not None:
            self.on_deadline(rank, Tag(self.c.now_ns, self.c.microstep), check)
        return missed

    def set_active(self, mode, active):
        self.c.active[cython.cast(uint32_t, mode)] = bool(active)

    def is_active(self, mode):
        return bool(self.c.active[cython.cast(uint32_t, mode)])

    def suspend(self, index):
        trigger_suspend(cython.address(self.c.line), index)

    def resume(self, index, left):
        trigger_resume(cython.address(self.c.line), index, left[0], left[1], self.c.now_ns, self.c.microstep)

    def restart(self, index):
        """Begin anew: forget what is pending."""
        trigger: cython.pointer[TriggerC] = self.c.line.triggers + cython.cast(uint32_t, index)
        trigger.dropped_inactive += trigger_drop(cython.address(self.c.line), index)
        trigger.suspended = False
        if trigger.overflow == OVERFLOW_BLOCK and self.on_room is not None:
            self.on_room(index)

    def fire(self, index):
        """Start a timer or built-in trigger at the next microstep; before the first tag, at the first tag."""
        microstep: uint32_t = self.c.microstep + 1 if self.c.tags > 0 else 0
        trigger_start(cython.address(self.c.line), index, self.c.now_ns, microstep)

    def check_deadline(self):
        """Whether the deadline of the reaction that runs has passed by now."""
        if self.c.current < 0 or self.c.reactions[self.c.current].deadline_ns < 0:
            return False
        return self._missed_deadline(self.c.current)

    def note_sleeping(self, sleeping):
        self.c.sleeping = sleeping

    def set_tracing(self, sink):
        self.trace_sink = sink
        self.c.tracing = sink is not None

    def set_outlet(self, slot):
        self.c.slots[cython.cast(uint32_t, slot)].outlet = True

    def next_tag(self):
        """The earliest pending regular tag, or None."""
        if self.c.line.size == 0:
            return None
        return Tag(self.c.line.heap[0].time_ns, self.c.line.heap[0].microstep)

    @property
    def tag(self):
        return Tag(self.c.now_ns, self.c.microstep)

    @property
    def current_tag(self):
        """The same under the name that federations use."""
        return self.tag

    @property
    def stop_tag(self):
        return Tag(self.c.stop_ns, self.c.stop_microstep)

    @property
    def owner(self):
        return self.c.owner

    @property
    def executing(self):
        return bool(self.c.executing)

    @property
    def running(self):
        return self.c.state == RUNNING

    @property
    def fast(self):
        return bool(self.c.fast)

    @property
    def current(self):
        """The reaction that runs, or None."""
        return None if self.c.current < 0 else self.plan.reactions[self.c.current]

    def figures(self):
        """Everything that was counted."""
        return {
            "tags": self.c.tags,
            "reactions": self.c.reactions_run,
            "deadlines_missed": self.c.deadlines_missed,
            "late_handled": self.c.late_handled,
            "late_unhandled": self.c.late_unhandled,
            "system_events": self.c.system_events,
            "outside_dropped": self.c.outside_dropped,
            "errors": self.c.errors,
            "pending": self.pending_count(),
        }

    def pending_count(self):
        index: uint32_t
        count: uint64_t = 0
        for index in range(self.c.line.trigger_count):
            count += self.c.line.triggers[index].pending.size
        return count

    def pending_of(self, index):
        """How many events of one trigger are pending."""
        return self.c.line.triggers[cython.cast(uint32_t, index)].pending.size

    def trigger_figures(self, index):
        """What became of the events that were offered to one trigger."""
        trigger: cython.pointer[TriggerC] = self.c.line.triggers + cython.cast(uint32_t, index)
        return {
            "scheduled": trigger.scheduled,
            "pending": trigger.pending.size,
            "high_water": trigger.high_water,
            "dropped_policy": trigger.dropped_policy,
            "dropped_oldest": trigger.dropped_oldest,
            "dropped_newest": trigger.dropped_newest,
            "dropped_inactive": trigger.dropped_inactive,
            "dropped_stopped": trigger.dropped_stopped,
            "replaced": trigger.replaced,
            "coalesced": trigger.coalesced,
            "rejected": trigger.rejected,
            "late": trigger.late,
        }
