# cython: language_level=3
"""The loop: the Python half of the turn, and the door through which the rooms above use the kernel.

turn.py does all that needs no interpreter. What it sets aside for Python is dispatched here in one batch:

    3 inbox       signals, then posts of other threads, up to the budget; those that were there when the step began
    4 timers      what is due, unless an earlier handler has cancelled or moved it
    5 readiness   unless an earlier handler has deregistered it
    6 changes     what handlers of 4 and 5 want to hear of from now on
    7 deferred    exactly those that were there when the step began
    8 lanes       by priority, each up to its budget; what was offered during the step waits for the next turn

Work that a handler creates therefore runs in a later step or turn, never in the step that created it. An exception of a
handler is contained and reported, and the loop goes on; KeyboardInterrupt, SystemExit and InvariantBroken leave `run`,
and what the batch still held is dispatched first when the loop is run again.

A loop belongs to one thread. Only `stop`, `post_threadsafe` and `defer_threadsafe` may be called from others.
This file must not know a programming model or a protocol.
"""

import os
import threading

import cython
from cython.cimports.cpython.exc import PyErr_CheckSignals
from cython.cimports.cpython.ref import Py_DECREF, Py_INCREF, Py_XDECREF, PyObject
from cython.cimports.libc.stdint import INT64_MAX, int64_t, uint32_t, uint64_t
from cython.cimports.libc.stdlib import calloc, free, malloc
from cython.cimports.libc.string import memset
from cython.cimports.penstock.core.budget import UNIT_WORK, budget_refill, budget_take
from cython.cimports.penstock.core.clock import Clock, clock_now
from cython.cimports.penstock.core.inbox import (
    POST_CLOSED,
    POST_FULL,
    POST_OK,
    inbox_arrived,
    inbox_close,
    inbox_free,
    inbox_has_place,
    inbox_init,
    inbox_post,
    inbox_publish,
    inbox_take,
)
from cython.cimports.penstock.core.lane import (
    OFFER_COALESCED,
    OFFER_REJECTED,
    OVERFLOW_BLOCK,
    Lane,
    lane_drop_denied,
    lane_ok,
    lane_take,
)
from cython.cimports.penstock.core.poller.interface import Poller
from cython.cimports.penstock.core.probes import probes_free, probes_init, probes_longest, probes_mark, probes_ran
from cython.cimports.penstock.core.registry import (
    registry_at,
    registry_close,
    registry_free,
    registry_init,
    registry_note_change,
    registry_of,
    registry_open,
    registry_token,
)
from cython.cimports.penstock.core.ring import ring_free, ring_init, ring_oldest, ring_pop, ring_push, ring_size
from cython.cimports.penstock.core.system import (
    EBADF,
    EEXIST,
    EINVAL,
    ENOTSUP,
    EPERM,
    PY_VECTORCALL_ARGUMENTS_OFFSET,
    PyObject_Call,
    PyObject_Vectorcall,
    PyThread_get_thread_ident,
    abort,
    close,
    platform_atomic_load,
    platform_atomic_store,
    platform_fork_count,
    platform_pipe_open,
    platform_watch_forks,
    read,
)
from cython.cimports.penstock.core.timers import (
    timers_cancel,
    timers_find,
    timers_fire,
    timers_free,
    timers_init,
    timers_move,
    timers_pop_any,
    timers_start,
)
from cython.cimports.penstock.core.turn import (
    BROKEN_DEFERRED,
    BROKEN_LANE,
    BROKEN_REGISTRY,
    BROKEN_TIMERS,
    LEFT_INBOX,
    LEFT_LANES,
    turn_account,
    turn_changes,
    turn_idle,
    turn_native,
    turn_needs_python,
    turn_skips_poll,
)
from cython.cimports.penstock.core.types import (
    ERROR,
    HANGUP,
    POST_CALL,
    POST_LANE,
    READABLE,
    READY_DONE,
    InboxC,
    ItemC,
    LaneC,
    LoopC,
    ReadyC,
    RegistrationC,
    TimerC,
    native_ready_t,
    native_timer_t,
)
from cython.cimports.penstock.core.waker import waker_close, waker_drain, waker_open, waker_wake

from penstock import limits
from penstock.core.signals import Signals
from penstock.core.names import name_of, report_error, thread_name
from penstock.errors import (
    BadDescriptor,
    ForkedLoop,
    InvariantBroken,
    LaneClosed,
    LoopClosed,
    LoopRunning,
    Overflow,
    Unsupported,
    UsageError,
    WrongThread,
)
from penstock.stats import DropReport, ErrorReport

_BROKEN = {
    BROKEN_TIMERS: "the timer heap is out of order",
    BROKEN_REGISTRY: "the table of registrations is inconsistent",
    BROKEN_LANE: "a lane's books do not balance, or its budget is out of bounds",
    BROKEN_DEFERRED: "more tasks are deferred than there is room for",
}


# ---- the loop's own descriptors --------------------------------------------------------------------------------------


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _woken(loop: cython.pointer[LoopC], fd: cython.int, events: uint32_t, context: cython.p_void) -> cython.int:
    waker_drain(cython.address(loop.waker))
    return READY_DONE


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _signalled(loop: cython.pointer[LoopC], fd: cython.int, events: uint32_t, context: cython.p_void) -> cython.int:
    buffer: cython.char[64]
    # What it says is said better by the notes of the interpreter's handlers; what does not fit keeps it readable.
    if read(fd, buffer, 64) >= 0:
        loop.probes.signals += 1
    loop.signalled = True
    return READY_DONE


@cython.cfunc
@cython.exceptval(-1)
def _reraise() -> cython.int:
    """An exception is set already: let it travel."""
    return -1


@cython.cfunc
def timer_of(loop: Loop, identity: uint64_t) -> Timer:
    """The object for a timer that was just started."""
    timer: Timer = Timer.__new__(Timer)
    timer.loop = loop
    timer.identity = identity
    return timer


class Loop:
    """One turn engine, for one thread."""

    def __cinit__(self, *args, **kwargs):
        memset(cython.address(self.c), 0, cython.sizeof(LoopC))
        self.signal_pipe[0] = -1
        self.signal_pipe[1] = -1
        self.c.waker.read_fd = -1
        self.c.waker.write_fd = -1
        self.c.report_ns = INT64_MAX

    def __init__(self, poller, *, policy=None, clock=None, name=None, on_error=None, on_drop=None):
        if self.opened:
            raise LoopRunning("a loop cannot be initialised twice; make a new one")
        self.policy = limits.Policy() if policy is None else policy
        self.clock = Clock() if clock is None else clock
        self.poller = poller
        self.name = f"loop-{threading.get_ident():x}" if name is None else name
        if not 1 <= len(self.name) <= limits.NAME_MAX_CHARACTERS:
            raise UsageError(f"a loop's name of {len(self.name)} characters; give 1 to {limits.NAME_MAX_CHARACTERS}")
        if self.poller.simulated and not self.clock.manual:
            raise UsageError("a simulated poller moves a clock: give the loop the ManualClock of its kernel")
        self.on_error = on_error
        self.on_drop = on_drop
        self.lanes = []
        self.reported = {}
        self.signals = Signals(self.name)
        self._open()

    def _open(self):
        loop: cython.pointer[LoopC] = cython.address(self.c)
        policy = self.policy
        loop.clock = cython.address(self.clock.c)
        loop.poller = cython.address(self.poller.c)
        loop.ready_batch = policy.ready_batch
        loop.timer_budget = policy.timer_budget
        loop.inbox_budget = policy.inbox_budget
        loop.wait_max_ns = policy.wait_max_ns
        loop.poll_skip_ns = policy.poll_skip_ns
        loop.now_ns = clock_now(loop.clock)
        loop.polled_ns = loop.now_ns - policy.poll_skip_ns
        loop.tick.period_ns = policy.tick_period_ns
        loop.tick.next_ns = loop.now_ns + policy.tick_period_ns
        loop.owner = PyThread_get_thread_ident()
        timers_init(cython.address(loop.timers), policy.timers_max)
        registry_init(cython.address(loop.registry), policy.descriptors_max)
        probes_init(cython.address(loop.probes), loop.now_ns)
        # Twice: those that the poller finds, and those that are still ready.
        loop.ready = cython.cast(cython.pointer[ReadyC], malloc(2 * loop.ready_batch * cython.sizeof(ReadyC)))
        loop.due = cython.cast(cython.pointer[uint64_t], malloc(loop.timer_budget * cython.sizeof(uint64_t)))
        loop.lanes = cython.cast(
            cython.pointer[cython.pointer[LaneC]], calloc(policy.lanes_max, cython.sizeof(cython.p_void))
        )
        if (
            loop.ready == cython.NULL
            or loop.due == cython.NULL
            or loop.lanes == cython.NULL
            or ring_init(cython.address(loop.deferred), policy.deferred_capacity) < 0
            or inbox_init(cython.address(loop.inbox), policy.inbox_capacity) < 0
        ):
            raise MemoryError(f"no memory for {self.name}")
        self.opened = True
        failed: cython.int = platform_watch_forks()
        if failed == 0:
            failed = waker_open(cython.address(loop.waker))
        if failed == 0:
            failed = platform_pipe_open(self.signal_pipe)
        if failed < 0:
            raise OSError(-failed, f"{self.name} cannot open its waker: {os.strerror(-failed)}")
        loop.forks = platform_fork_count()
        if not self.poller.simulated:
            self._watch_self(loop.waker.read_fd, _woken)
            self._watch_self(self.signal_pipe[0], _signalled)
        return 0

    def _watch_self(self, fd: cython.int, handler: native_ready_t):
        self._register(fd, READABLE, False, None, handler, cython.NULL)
        registry_at(cython.address(self.c.registry), fd).internal = True
        self.c.registry.live -= 1
        self.c.registry.registered -= 1
        return 0

    # ---- who may call ------------------------------------------------------------------------------------------------

    def check(self):
        """Raise unless the caller is the thread that owns this loop, in the process that made it, before close()."""
        if self.c.owner == PyThread_get_thread_ident() and not self.c.closed and self.c.forks == platform_fork_count():
            return 0
        if self.c.forks != platform_fork_count():
            raise ForkedLoop(f"{self.name} was made before a fork; make a new loop in the child process")
        if self.c.closed:
            raise LoopClosed(f"{self.name} is closed; make a new loop")
        raise WrongThread(
            f"{self.name} belongs to thread {thread_name(self.c.owner)} and was called from thread "
            f"{thread_name(PyThread_get_thread_ident())}; use post_threadsafe, defer_threadsafe or stop from there"
        )

    # ---- descriptors -------------------------------------------------------------------------------------------------

    def register_python(self, fd: cython.int, interest: uint32_t, callback, edge: cython.bint):
        """Watch a descriptor for a Python callback; an earlier life of the number ends."""
        return self._register(fd, interest, edge, callback, cython.NULL, cython.NULL)

    def register_native(
        self, fd: cython.int, interest: uint32_t, handler: native_ready_t, context: cython.p_void, edge: cython.bint
    ):
        """Watch a descriptor for a handler that runs without the GIL."""
        return self._register(fd, interest, edge, None, handler, context)

    def _register(
        self,
        fd: cython.int,
        interest: uint32_t,
        edge: cython.bint,
        callback,
        handler: native_ready_t,
        context: cython.p_void,
    ):
        loop: cython.pointer[LoopC] = cython.address(self.c)
        if registry_at(cython.address(loop.registry), fd) != cython.NULL:
            self._end_registration(fd)
            loop.registry.replaced += 1
        one: cython.pointer[RegistrationC] = registry_open(cython.address(loop.registry), fd)
        if one == cython.NULL:
            raise Overflow(
                f"descriptor {fd} is beyond the {self.policy.descriptors_max:,} that {self.name} may watch; "
                "raise descriptors_max in its Policy",
                limit="descriptors_max",
                capacity=self.policy.descriptors_max,
            )
        one.interest = interest
        one.applied = interest
        one.edge = edge
        one.internal = False
        one.native = handler
        one.context = context
        token: uint64_t = registry_token(one, fd)
        answer: cython.int = loop.poller.add(loop.poller, fd, interest, edge, token)
        if answer == -EEXIST:
            answer = loop.poller.modify(loop.poller, fd, interest, edge, token)
        if answer < 0:
            registry_close(cython.address(loop.registry), fd)
            return self._refuse(fd, -answer, edge)
        if callback is not None:
            number: object = fd
            Py_INCREF(callback)
            Py_INCREF(number)
            one = registry_at(cython.address(loop.registry), fd)
            one.callback = cython.cast(cython.pointer[PyObject], callback)
            one.number = cython.cast(cython.pointer[PyObject], number)
        return 0

    def _refuse(self, fd: cython.int, number: cython.int, edge: cython.bint):
        error = self.poller.take_error()
        if error is not None:
            raise error
        if number == EBADF:
            raise BadDescriptor(f"descriptor {fd} is not open; register it before it is closed")
        if number == EPERM:
            raise BadDescriptor(
                f"descriptor {fd} is a file that is always ready; a poller cannot wait for it: read or write it directly"
            )
        if number == ENOTSUP and edge:
            raise Unsupported(
                f"poller {self.poller.name!r} knows no edge-triggered registration; use edge=False or poller='epoll'"
            )
        if number == EINVAL and self.poller.name == "select":
            raise Unsupported(f"poller 'select' cannot watch descriptor {fd}: it ends at 1,023; use poller='epoll'")
        raise OSError(number, f"poller {self.poller.name!r} refuses descriptor {fd}: {os.strerror(number)}")

    def _end_registration(self, fd: cython.int):
        one: cython.pointer[RegistrationC] = registry_at(cython.address(self.c.registry), fd)
        if one.internal:
            raise BadDescriptor(f"descriptor {fd} belongs to {self.name} itself; it was closed behind its back")
        callback: cython.pointer[PyObject] = one.callback
        number: cython.pointer[PyObject] = one.number
        registry_close(cython.address(self.c.registry), fd)
        # Last, because a destructor may do anything, also register this very number.
        Py_XDECREF(number)
        Py_XDECREF(callback)

    def modify_fd(self, fd: cython.int, interest: uint32_t):
        """Change what is wanted of a descriptor; the poller learns of it in step 6."""
        one: cython.pointer[RegistrationC] = registry_at(cython.address(self.c.registry), fd)
        if one == cython.NULL or one.internal:
            raise BadDescriptor(f"descriptor {fd} is not registered with {self.name}; register it first")
        one.interest = interest
        if one.interest != one.applied:
            registry_note_change(cython.address(self.c.registry), fd)
        return 0

    def deregister_fd(self, fd: cython.int):
        """Watch a descriptor no more; its callback is not called again, whatever is in the batch."""
        one: cython.pointer[RegistrationC] = registry_at(cython.address(self.c.registry), fd)
        if one == cython.NULL or one.internal:
            raise BadDescriptor(f"descriptor {fd} is not registered with {self.name}")
        # The poller has forgotten a number that is closed already; anything else it could say would change nothing.
        self.c.poller.remove(self.c.poller, fd)
        self._end_registration(fd)
        return 0

    def is_registered(self, fd: int):
        """Whether that descriptor is watched."""
        one: cython.pointer[RegistrationC] = registry_at(cython.address(self.c.registry), fd)
        return one != cython.NULL and not one.internal

    # ---- timers ------------------------------------------------------------------------------------------------------

    def _start(
        self,
        delay_ns: int64_t,
        period_ns: int64_t,
        first: cython.p_void,
        second: cython.p_void,
        native: cython.bint,
    ):
        identity: uint64_t = 0
        failed: cython.int = timers_start(
            cython.address(self.c.timers),
            clock_now(self.c.clock) + delay_ns,
            period_ns,
            first,
            second,
            native,
            cython.address(identity),
        )
        if failed == -1:
            raise Overflow(
                f"{self.name} has {self.policy.timers_max:,} timers; cancel some, or raise timers_max in its Policy",
                limit="timers_max",
                capacity=self.policy.timers_max,
            )
        if failed:
            raise MemoryError(f"{self.name} has no memory for another timer")
        return identity

    def start_timer(self, delay_ns: int64_t, period_ns: int64_t, callback, args):
        """Start a timer for a Python callback and its tuple of arguments; returns its identity."""
        identity: uint64_t = self._start(
            delay_ns, period_ns, cython.cast(cython.p_void, callback), cython.cast(cython.p_void, args), False
        )
        Py_INCREF(callback)
        Py_INCREF(args)
        return identity

    def start_native_timer(
        self, delay_ns: int64_t, period_ns: int64_t, handler: native_timer_t, context: cython.p_void
    ):
        """Start a timer whose handler runs without the GIL; returns its identity."""
        return self._start(delay_ns, period_ns, cython.cast(cython.p_void, handler), context, True)

    def cancel_timer(self, identity: uint64_t):
        """Cancel a timer, also in its own callback; False if it has fired or was cancelled before."""
        item: ItemC
        if not timers_cancel(cython.address(self.c.timers), identity, cython.address(item)):
            return False
        if not item.mark:
            Py_DECREF(cython.cast(object, item.first))
            Py_DECREF(cython.cast(object, item.second))
        return True

    def move_timer(self, identity: uint64_t, delay_ns: int64_t):
        """Let a timer be due `delay_ns` from now; False if it has fired or was cancelled before."""
        return timers_move(cython.address(self.c.timers), identity, clock_now(self.c.clock) + delay_ns)

    # ---- deferred tasks and posts ------------------------------------------------------------------------------------

    def defer_call(self, callback, args):
        """Have `callback(*args)` called in step 7; None for no arguments."""
        loop: cython.pointer[LoopC] = cython.address(self.c)
        second: cython.p_void = cython.NULL if args is None else cython.cast(cython.p_void, args)
        if not ring_push(cython.address(loop.deferred), cython.cast(cython.p_void, callback), second, 0):
            loop.probes.deferred_refused += 1
            raise Overflow(
                f"{self.name} has {self.policy.deferred_capacity:,} tasks deferred; defer less in one turn, "
                "or raise deferred_capacity in its Policy",
                limit="deferred_capacity",
                capacity=self.policy.deferred_capacity,
            )
        Py_INCREF(callback)
        if args is not None:
            Py_INCREF(args)
        if ring_size(cython.address(loop.deferred)) > loop.probes.deferred_high_water:
            loop.probes.deferred_high_water = ring_size(cython.address(loop.deferred))
        return 0

    def add_lane(self, lane: Lane):
        """Take a lane over: from now on its events run in step 8."""
        if lane.owner is not None:
            raise UsageError(f"lane {lane.name!r} belongs to a loop already")
        if lane.handler is None:
            raise UsageError(f"lane {lane.name!r} has no handler; give it one")
        present = [other.name for other in self.lanes if not other.closed]
        if lane.name in present:
            raise UsageError(f"{self.name} has a lane {lane.name!r} already; take another name, or close that one")
        if len(self.lanes) >= self.policy.lanes_max:
            self._order_lanes()
        if len(self.lanes) >= self.policy.lanes_max:
            raise Overflow(
                f"{self.name} has {self.policy.lanes_max} lanes; close one, or raise lanes_max in its Policy",
                limit="lanes_max",
                capacity=self.policy.lanes_max,
            )
        lane.owner = True
        lane.c.pending = cython.address(self.c.lane_pending)
        lane.c.drops = cython.address(self.c.drops)
        self.c.lane_pending += ring_size(cython.address(lane.c.ring))
        # A new list: the step that may be running goes through the old one.
        self.lanes = [*self.lanes, lane]
        self._order_lanes()
        return lane

    def find_lane(self, name: str):
        """The open lane of that name."""
        for lane in self.lanes:
            if lane.name == name and not lane.closed:
                return lane
        known = ", ".join(repr(lane.name) for lane in self.lanes if not lane.closed) or "none"
        raise UsageError(f"{self.name} has no lane {name!r}; its lanes are: {known}")

    def _order_lanes(self):
        """Bring the table of lanes in order: without those that were closed, by priority, then by creation.

        Not while their step runs: it goes through a copy, and orders them when it is through.
        """
        lane: Lane
        index: uint32_t = 0
        if self.lanes_running:
            self.lanes_changed = True
            return 0
        for lane in self.lanes:
            if lane.c.closed:
                lane.c.pending = cython.address(lane.c.own_pending)
                lane.c.drops = cython.address(lane.c.own_drops)
        self.lanes = sorted([lane for lane in self.lanes if not lane.closed], key=lambda lane: -lane.priority)
        for lane in self.lanes:
            self.c.lanes[index] = cython.address(lane.c)
            index += 1
        self.c.lane_count = index
        self.lanes_changed = False
        return 0

    def post_event(self, lane: Lane, event):
        """Offer an event to a lane of this loop. True if the lane took it."""
        if lane.c.closed:
            raise LaneClosed(f"lane {lane.name!r} is closed; nothing can be posted to it")
        if lane.c.pending != cython.address(self.c.lane_pending):
            raise UsageError(f"lane {lane.name!r} does not belong to {self.name}")
        if lane.c.overflow == OVERFLOW_BLOCK and not inbox_has_place(
            cython.address(self.c.inbox), cython.address(lane.c)
        ):
            lane.c.offered += 1
            lane.c.rejected += 1
            self.c.drops += 1
            raise Overflow(
                f"lane {lane.name!r} is full ({lane.capacity:,} events) and blocks, but the loop's own thread cannot "
                "wait for itself; post from another thread, or choose another overflow policy",
                limit="capacity",
                capacity=lane.capacity,
            )
        outcome: cython.int = lane.offer_object(event)
        if lane.c.overflow == OVERFLOW_BLOCK:
            inbox_publish(cython.address(self.c.inbox), cython.address(lane.c))
        if outcome == OFFER_REJECTED:
            raise Overflow(
                f"lane {lane.name!r} is full ({lane.capacity:,} events) and rejects; post less, give it more capacity "
                "or budget, or choose another overflow policy",
                limit="capacity",
                capacity=lane.capacity,
            )
        return outcome <= OFFER_COALESCED

    # ---- for other threads -------------------------------------------------------------------------------------------

    def _hand_over(self, first, second, kind: cython.int, lane: Lane, timeout_ns: int64_t):
        """Put an item into the inbox, and wake the loop if it sleeps. From any thread."""
        inbox: cython.pointer[InboxC] = cython.address(self.c.inbox)
        blocking: cython.pointer[LaneC] = cython.NULL
        wake: cython.bint = False
        answer: cython.int
        give: cython.p_void = cython.cast(cython.p_void, first)
        also: cython.p_void = (
            cython.NULL if second is None and kind == POST_CALL else cython.cast(cython.p_void, second)
        )
        if lane is not None and lane.c.overflow == OVERFLOW_BLOCK:
            blocking = cython.address(lane.c)
        if self.c.forks != platform_fork_count():
            raise ForkedLoop(f"{self.name} was made before a fork; make a new loop in the child process")
        real: Clock = Clock()
        deadline_ns: int64_t = clock_now(cython.address(real.c)) + timeout_ns
        Py_INCREF(first)
        if also != cython.NULL:
            Py_INCREF(second)
        if blocking == cython.NULL:
            answer = inbox_post(inbox, give, also, kind, blocking, deadline_ns, cython.address(wake))
        else:
            with cython.nogil:
                answer = inbox_post(inbox, give, also, kind, blocking, deadline_ns, cython.address(wake))
        if answer == POST_OK:
            if wake:
                waker_wake(cython.address(self.c.waker))
            return 0
        Py_DECREF(first)
        if also != cython.NULL:
            Py_DECREF(second)
        if answer == POST_CLOSED:
            raise LoopClosed(f"{self.name} is closed; nothing can be posted to it")
        if answer == POST_FULL:
            raise Overflow(
                f"the inbox of {self.name} is full ({self.policy.inbox_capacity:,} posts); post less, or raise "
                "inbox_capacity in its Policy",
                limit="inbox_capacity",
                capacity=self.policy.inbox_capacity,
            )
        raise Overflow(
            f"lane {lane.name!r} was full ({lane.capacity:,} events) for {timeout_ns / 1e9:g} s; wait longer, give it "
            "more capacity or budget, or choose another overflow policy",
            limit="capacity",
            capacity=lane.capacity,
        )

    def post_threadsafe(self, lane: Lane, event, timeout_ns: int64_t):
        """Post an event from any thread. A lane that blocks makes the caller wait, at most `timeout_ns`."""
        if lane.c.closed:
            raise LaneClosed(f"lane {lane.name!r} is closed; nothing can be posted to it")
        if lane.c.pending != cython.address(self.c.lane_pending):
            raise UsageError(f"lane {lane.name!r} does not belong to {self.name}")
        if lane.c.overflow == OVERFLOW_BLOCK and self.c.owner == PyThread_get_thread_ident():
            # It would wait for itself.
            self.post_event(lane, event)
        else:
            self._hand_over(lane, event, POST_LANE, lane, timeout_ns)

    def defer_threadsafe(self, callback, args):
        """Have `callback(*args)` called in step 3 of a turn. From any thread."""
        self._hand_over(callback, args, POST_CALL, None, 0)

    def stop(self):
        """Let the run that is in progress, or else the next one, return. From any thread, or a signal handler."""
        platform_atomic_store(cython.address(self.c.stopping), 1)
        elsewhere: cython.bint = self.c.owner != PyThread_get_thread_ident()
        if elsewhere and not self.c.closed and self.c.forks == platform_fork_count():
            waker_wake(cython.address(self.c.waker))

    # ---- running -----------------------------------------------------------------------------------------------------

    def run(self, keep_alive: bool = True):
        """Turn until stopped; without `keep_alive` also until nothing is registered, armed or queued."""
        stay: cython.bint = keep_alive
        self._enter()
        try:
            while not platform_atomic_load(cython.address(self.c.stopping)):
                if not stay and turn_idle(cython.address(self.c)) and not len(self.signals):
                    return
                self._one_turn(INT64_MAX, False, stay)
        finally:
            platform_atomic_store(cython.address(self.c.stopping), 0)
            self._leave()

    def run_once(self, timeout_ns: int64_t):
        """One turn that waits at most `timeout_ns` for something to do. Returns how many handlers ran."""
        loop: cython.pointer[LoopC] = cython.address(self.c)
        self._enter()
        before: uint64_t = loop.probes.ready_native
        try:
            self._one_turn(timeout_ns, True, True)
        finally:
            platform_atomic_store(cython.address(self.c.stopping), 0)
            self._leave()
        ran: uint64_t = loop.probes.ready_native - before
        return ran + self.ran_python + loop.posts_run + loop.timers_run + loop.deferred_run + loop.events_run

    def _enter(self):
        self.check()
        if self.running:
            raise LoopRunning(f"{self.name} is running already; a handler cannot run it once more")
        self.running = True
        self.c.now_ns = clock_now(self.c.clock)
        if not self.c.poller.simulated:
            self.signals.lend(self.signal_pipe[1])
        if self.signals.pending:
            self.c.signalled = True
        return 0

    def _leave(self):
        self.running = False
        self.signals.take_back()
        return 0

    def _one_turn(self, wait_cap_ns: int64_t, once: cython.bint, keep_alive: cython.bint):
        """Turns without the GIL until one needs it, and the Python half of that one."""
        loop: cython.pointer[LoopC] = cython.address(self.c)
        self.ran_python = 0
        if turn_skips_poll(loop):
            turn_native(loop, wait_cap_ns)
        else:
            with cython.nogil:
                turn_native(loop, wait_cap_ns)
                while (
                    not once
                    and not turn_needs_python(loop)
                    and not platform_atomic_load(cython.address(loop.stopping))
                    and (keep_alive or not turn_idle(loop))
                ):
                    turn_changes(loop)
                    turn_account(loop, clock_now(loop.clock))
                    turn_native(loop, wait_cap_ns)
            # Whatever the GIL took to come back is not the first handler's fault.
            loop.probes.mark_ns = clock_now(loop.clock)
        try:
            if turn_needs_python(loop) or loop.poller.simulated:
                loop.probes.python_turns += 1
                self._dispatch()
            elif loop.registry.changed_first >= 0:
                turn_changes(loop)
        finally:
            self._account()
        return 0

    def _account(self):
        """Step 9, for a turn that Python had a part in."""
        loop: cython.pointer[LoopC] = cython.address(self.c)
        end_ns: int64_t = clock_now(loop.clock)
        probes_mark(cython.address(loop.probes), end_ns)
        probes_longest(loop, end_ns - loop.woke_ns)
        turn_account(loop, end_ns)
        if loop.drops != self.reported_drops and self.on_drop is not None and loop.report_ns == INT64_MAX:
            due: int64_t = self.last_report_ns + limits.REPORT_PERIOD_NS
            loop.report_ns = due if self.last_report_ns and due > end_ns else end_ns
        if loop.broken:
            self._raise_noted()
        return 0

    # ---- the Python half of a turn -----------------------------------------------------------------------------------

    def _dispatch(self):
        """Steps 3 to 8, as far as they are Python's."""
        loop: cython.pointer[LoopC] = cython.address(self.c)
        if loop.failed or loop.broken or loop.change_failed:
            self._raise_noted()
        if loop.signalled or loop.poller.simulated:
            self._run_signals()
        if platform_atomic_load(cython.address(loop.inbox.filled)):
            self._run_inbox()
        if loop.due_next < loop.due_count:
            self._run_timers()
        if loop.ready_next < loop.ready_count:
            self._run_ready()
        if loop.registry.changed_first >= 0:
            turn_changes(loop)
        if ring_size(cython.address(loop.deferred)):
            self._run_deferred()
        if loop.lane_pending:
            self._run_lanes()
        if loop.report_ns <= loop.now_ns:
            self._report_drops()
        return 0

    def _settle(self, answer: cython.pointer[PyObject], handler: cython.pointer[PyObject], fd: cython.int, step: str):
        """After a handler: forget its result or contain its exception, and let the probes know."""
        if answer != cython.NULL:
            Py_XDECREF(answer)
        else:
            self._contain(cython.cast(object, handler), step)
        probes_ran(cython.address(self.c), handler, fd)
        return 0

    def _contain(self, handler, step: str):
        """A handler has raised: report it and go on, unless it is one of the three that leave `run`."""
        try:
            _reraise()
        except (KeyboardInterrupt, SystemExit, InvariantBroken):
            raise
        except BaseException as error:
            self.c.probes.errors += 1
            report = ErrorReport(error, name_of(handler), step, self.name)
            report_error(self.on_error, report, self.reported, self.c.now_ns)
        return 0

    def _run_signals(self):
        """Step 3, first half: the interpreter's own handlers, then the callbacks of `add_signal`."""
        self.c.signalled = False
        PyErr_CheckSignals()
        if self.signals.pending:
            for callback, args in self.signals.take():
                self.c.posts_run += 1
                answer: cython.pointer[PyObject] = PyObject_Call(
                    cython.cast(cython.pointer[PyObject], callback),
                    cython.cast(cython.pointer[PyObject], args),
                    cython.NULL,
                )
                self._settle(answer, cython.cast(cython.pointer[PyObject], callback), -1, "signal")
        return 0

    def _run_inbox(self):
        """Step 3, second half: the posts of other threads that were there when the step began, up to the budget."""
        loop: cython.pointer[LoopC] = cython.address(self.c)
        item: ItemC
        waiting: uint64_t = ring_size(cython.address(loop.inbox.ring))
        if waiting > loop.inbox_budget:
            waiting = loop.inbox_budget
            loop.left |= LEFT_INBOX
            loop.probes.inbox_left += 1
        while waiting > 0 and inbox_take(cython.address(loop.inbox), cython.address(item)):
            waiting -= 1
            loop.posts_run += 1
            first: cython.pointer[PyObject] = cython.cast(cython.pointer[PyObject], item.first)
            second: cython.pointer[PyObject] = cython.cast(cython.pointer[PyObject], item.second)
            try:
                if item.mark == POST_LANE:
                    self._arrive(cython.cast(Lane, cython.cast(object, first)), second)
                else:
                    self._settle(_call(first, second), first, -1, "inbox")
            finally:
                Py_XDECREF(first)
                Py_XDECREF(second)
        return 0

    def _arrive(self, lane: Lane, event: cython.pointer[PyObject]):
        """An event that another thread posted reaches its lane."""
        if lane.c.closed:
            # Closed while it was on its way: nobody is there to be told, so it is counted.
            lane.c.offered += 1
            lane.c.dropped_closed += 1
            self.c.drops += 1
        else:
            lane.offer_object(cython.cast(object, event))
        if lane.c.overflow == OVERFLOW_BLOCK:
            inbox_arrived(cython.address(self.c.inbox), cython.address(lane.c))
        return 0

    def _run_timers(self):
        """Step 4: what is due, oldest deadline first."""
        loop: cython.pointer[LoopC] = cython.address(self.c)
        item: ItemC
        while loop.due_next < loop.due_count:
            identity: uint64_t = loop.due[loop.due_next]
            loop.due_next += 1
            if not timers_fire(cython.address(loop.timers), identity, loop.now_ns, cython.address(item)):
                continue
            callback: cython.pointer[PyObject] = cython.cast(cython.pointer[PyObject], item.first)
            args: cython.pointer[PyObject] = cython.cast(cython.pointer[PyObject], item.second)
            if not item.mark:
                # An interval keeps its own; its callback may cancel it.
                Py_INCREF(cython.cast(object, callback))
                Py_INCREF(cython.cast(object, args))
            loop.timers_run += 1
            try:
                self._settle(PyObject_Call(callback, args, cython.NULL), callback, -1, "timer")
            finally:
                Py_XDECREF(args)
                Py_XDECREF(callback)
        return 0

    def _run_ready(self):
        """Step 5: the descriptors of the batch, as far as they are still the ones that the poller meant."""
        loop: cython.pointer[LoopC] = cython.address(self.c)
        args: cython.pointer[PyObject][3]
        while loop.ready_next < loop.ready_count:
            token: uint64_t = loop.ready[loop.ready_next].token
            events: uint32_t = loop.ready[loop.ready_next].events
            loop.ready_next += 1
            one: cython.pointer[RegistrationC] = registry_of(cython.address(loop.registry), token)
            if one == cython.NULL:
                loop.probes.stale += 1
                continue
            # An earlier handler of the batch may have lost interest on its behalf.
            events &= one.interest | ERROR | HANGUP
            if events == 0:
                continue
            callback: cython.pointer[PyObject] = one.callback
            told: object = events
            self.ran_python += 1
            args[0] = cython.NULL
            args[1] = one.number
            args[2] = cython.cast(cython.pointer[PyObject], told)
            # The handler may end its own registration, and with it the last reference to itself.
            Py_INCREF(cython.cast(object, callback))
            Py_INCREF(cython.cast(object, one.number))
            try:
                self._settle(
                    PyObject_Vectorcall(callback, args + 1, 2 | PY_VECTORCALL_ARGUMENTS_OFFSET, cython.NULL),
                    callback,
                    cython.cast(cython.int, cython.cast(uint32_t, token)),
                    "readiness",
                )
            finally:
                Py_XDECREF(args[1])
                Py_XDECREF(callback)
        return 0

    def _run_deferred(self):
        """Step 7: exactly the tasks that are there now; what they defer is the next generation."""
        loop: cython.pointer[LoopC] = cython.address(self.c)
        item: ItemC
        generation: uint64_t = ring_size(cython.address(loop.deferred))
        while generation > 0 and ring_pop(cython.address(loop.deferred), cython.address(item)):
            generation -= 1
            callback: cython.pointer[PyObject] = cython.cast(cython.pointer[PyObject], item.first)
            args: cython.pointer[PyObject] = cython.cast(cython.pointer[PyObject], item.second)
            loop.deferred_run += 1
            loop.probes.deferred += 1
            try:
                self._settle(_call(callback, args), callback, -1, "deferred")
            finally:
                Py_XDECREF(args)
                Py_XDECREF(callback)
        return 0

    def _run_lanes(self):
        """Step 8: every lane up to its budget, by priority; what is offered meanwhile waits for the next turn."""
        loop: cython.pointer[LoopC] = cython.address(self.c)
        lane: Lane
        lanes: list = self.lanes
        self.lanes_running = True
        try:
            for lane in lanes:
                lane.c.barrier = lane.c.offered
            for lane in lanes:
                if ring_size(cython.address(lane.c.ring)):
                    self._run_lane(lane)
        finally:
            self.lanes_running = False
            if self.lanes_changed:
                self._order_lanes()
            if loop.left & LEFT_LANES:
                loop.probes.lanes_left += 1
        return 0

    def _run_lane(self, lane: Lane):
        loop: cython.pointer[LoopC] = cython.address(self.c)
        c: cython.pointer[LaneC] = cython.address(lane.c)
        item: ItemC
        oldest: cython.pointer[ItemC]
        args: cython.pointer[PyObject][2]
        handler: cython.pointer[PyObject] = cython.cast(cython.pointer[PyObject], lane.handler)
        budget_refill(cython.address(c.budget), loop.turn, loop.tick.fired)
        try:
            while True:
                oldest = ring_oldest(cython.address(c.ring))
                if oldest == cython.NULL or cython.cast(uint64_t, oldest.mark) > c.barrier:
                    break
                if c.budget.left <= 0:
                    loop.left |= LEFT_LANES
                    if c.budget.keep:
                        if c.budget.denied_epoch != c.budget.epoch:
                            c.budget.denied_epoch = c.budget.epoch
                            c.budget.denied += 1
                        break
                    lane_drop_denied(c, cython.address(item))
                    Py_DECREF(cython.cast(object, item.first))
                    continue
                lane_take(c, cython.address(item))
                loop.events_run += 1
                args[0] = cython.NULL
                args[1] = cython.cast(cython.pointer[PyObject], item.first)
                before_ns: int64_t = 0
                if c.budget.unit == UNIT_WORK:
                    c.budget.left -= 1
                    c.budget.spent += 1
                else:
                    before_ns = clock_now(loop.clock)
                answer: cython.pointer[PyObject] = PyObject_Vectorcall(
                    handler, args + 1, 1 | PY_VECTORCALL_ARGUMENTS_OFFSET, cython.NULL
                )
                if c.budget.unit != UNIT_WORK:
                    budget_take(cython.address(c.budget), clock_now(loop.clock) - before_ns)
                try:
                    self._settle(answer, handler, -1, "lane")
                finally:
                    Py_DECREF(cython.cast(object, item.first))
        finally:
            if c.overflow == OVERFLOW_BLOCK:
                inbox_publish(cython.address(loop.inbox), c)
            if not lane_ok(c):
                loop.broken = BROKEN_LANE
        return 0

    # ---- what must be said -------------------------------------------------------------------------------------------

    def _raise_noted(self):
        """Raise what the native half could only take a note of."""
        loop: cython.pointer[LoopC] = cython.address(self.c)
        if loop.broken:
            what = _BROKEN[loop.broken]
            loop.broken = 0
            return self._broken(what)
        if loop.change_failed:
            fd = loop.change_failed - 1
            loop.change_failed = 0
            error = BadDescriptor(f"descriptor {fd} was closed while it is registered; deregister it before closing it")
            report = ErrorReport(error, "modify", "changes", self.name)
            report_error(self.on_error, report, self.reported, loop.now_ns)
        if loop.failed:
            number = -loop.failed
            loop.failed = 0
            error = self.poller.take_error()
            if error is not None:
                raise error
            raise OSError(number, f"poller {self.poller.name!r} of {self.name} fails: {os.strerror(number)}")
        return 0

    def _broken(self, what: str):
        # Here, because it knows this class.
        from penstock.core.snapshot import describe_turns

        error = InvariantBroken(f"{self.name}: {what}; this is a bug of penstock", describe_turns(self))
        if self.policy.on_invariant == "abort":
            os.write(2, f"penstock: {error}\n".encode(errors="replace"))
            abort()
        raise error

    def _report_drops(self):
        """Tell the hook what was dropped since it was told last."""
        lane: Lane
        self.c.report_ns = INT64_MAX
        self.last_report_ns = self.c.now_ns
        self.reported_drops = self.c.drops
        for lane in self.lanes:
            before = self.reported.get(lane.name, 0)
            dropped = (
                lane.c.dropped_oldest
                + lane.c.dropped_newest
                + lane.c.dropped_denied
                + lane.c.dropped_closed
                + lane.c.rejected
            )
            if dropped != before and self.on_drop is not None:
                self.reported[lane.name] = dropped
                report = DropReport(self.name, lane.name, lane.overflow, dropped - before, dropped, lane.capacity)
                try:
                    self.on_drop(report)
                except Exception as error:
                    self.c.probes.errors += 1
                    failure = ErrorReport(error, name_of(self.on_drop), "on_drop", self.name)
                    report_error(self.on_error, failure, self.reported, self.c.now_ns)
        return 0

    # ---- closing -----------------------------------------------------------------------------------------------------

    def close(self):
        """Let go of everything. What still waits is dropped and counted; closing twice changes nothing."""
        loop: cython.pointer[LoopC] = cython.address(self.c)
        if loop.closed or not self.opened:
            return
        if loop.forks == platform_fork_count():
            self.check()
        if self.running:
            raise LoopRunning(f"{self.name} is running; stop it, and close it when run() has returned")
        loop.closed = True
        self.signals.clear()
        inbox_close(cython.address(loop.inbox))
        self._drop_everything()
        self.poller.close()
        self._close_own()

    def _close_own(self):
        waker_close(cython.address(self.c.waker))
        for index in range(2):
            if self.signal_pipe[index] >= 0:
                close(self.signal_pipe[index])
                self.signal_pipe[index] = -1
        return 0

    def _drop_everything(self):
        loop: cython.pointer[LoopC] = cython.address(self.c)
        lane: Lane
        item: ItemC
        native: cython.bint = False
        fd: cython.int
        for lane in self.lanes:
            lane.close()
        while inbox_take(cython.address(loop.inbox), cython.address(item)):
            loop.probes.closed_drops += 1
            Py_XDECREF(cython.cast(cython.pointer[PyObject], item.first))
            Py_XDECREF(cython.cast(cython.pointer[PyObject], item.second))
        while ring_pop(cython.address(loop.deferred), cython.address(item)):
            loop.probes.closed_drops += 1
            Py_XDECREF(cython.cast(cython.pointer[PyObject], item.first))
            Py_XDECREF(cython.cast(cython.pointer[PyObject], item.second))
        while timers_pop_any(cython.address(loop.timers), cython.address(item), cython.address(native)):
            if not native:
                Py_XDECREF(cython.cast(cython.pointer[PyObject], item.first))
                Py_XDECREF(cython.cast(cython.pointer[PyObject], item.second))
        for fd in range(loop.registry.size):
            if registry_at(cython.address(loop.registry), fd) != cython.NULL:
                loop.registry.table[fd].internal = False
                self._end_registration(fd)
        probes_free(cython.address(loop.probes))
        return 0

    def __dealloc__(self):
        loop: cython.pointer[LoopC] = cython.address(self.c)
        lane: Lane
        if self.opened and not loop.closed:
            # Nobody closed it. The objects it held are let go; a lane may outlive it.
            inbox_close(cython.address(loop.inbox))
            self._drop_everything()
            self._close_own()
        if self.lanes is not None:
            for lane in self.lanes:
                lane.c.pending = cython.address(lane.c.own_pending)
                lane.c.drops = cython.address(lane.c.own_drops)
        ring_free(cython.address(loop.deferred))
        inbox_free(cython.address(loop.inbox))
        timers_free(cython.address(loop.timers))
        registry_free(cython.address(loop.registry))
        free(loop.ready)
        free(loop.due)
        free(loop.lanes)

    def stats(self):
        """Everything that the loop counts."""
        from penstock.core.snapshot import loop_stats

        return loop_stats(self)

    def __repr__(self):
        state = "closed" if self.c.closed else "running" if self.running else "ready"
        return f"<Loop {self.name!r} on {self.poller.name}, {state}>"


@cython.cfunc
@cython.exceptval(check=False)
def _call(callback: cython.pointer[PyObject], args: cython.pointer[PyObject]) -> cython.pointer[PyObject]:
    if args == cython.NULL:
        return PyObject_Vectorcall(callback, cython.NULL, 0, cython.NULL)
    return PyObject_Call(callback, args, cython.NULL)


class Timer:
    """A timer of a loop: cancel it, move it, ask when it is due."""

    def __init__(self):
        raise UsageError("a Timer is made by set_timeout or set_interval")

    def cancel(self):
        """Cancel; False if it has fired or was cancelled before."""
        self.loop.check()
        return bool(self.loop.cancel_timer(self.identity))

    @property
    def active(self):
        """Whether it will still fire."""
        return timers_find(cython.address(self.loop.c.timers), self.identity) != cython.NULL

    @property
    def deadline_ns(self):
        """When it is due, by the loop's clock; None if it has fired or was cancelled."""
        timer: cython.pointer[TimerC] = timers_find(cython.address(self.loop.c.timers), self.identity)
        return None if timer == cython.NULL else timer.deadline_ns

    def __repr__(self):
        deadline = self.deadline_ns
        return "<Timer, over>" if deadline is None else f"<Timer due at {deadline:,} ns>"
