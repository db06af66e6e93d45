# cython: language_level=3
"""The loop: its life, who may call it, what other threads may do, and running it.

What enters on its own thread is intake.py's, the turn is turn.py's and dispatch.py's.

A loop belongs to the thread that made it. Only `stop`, `post_threadsafe` and `defer_threadsafe` may be called from
others. It holds the objects of its handlers in tables that the garbage collector does not see: close it, or use `with`.

This file must not know a programming model or a protocol.
"""

import os

import cython
from cython.cimports.cpython.object import PyTypeObject
from cython.cimports.cpython.ref import Py_DECREF, Py_INCREF, Py_XDECREF, PyObject
from cython.cimports.libc.stdint import INT64_MAX, int64_t, uint32_t, uint64_t
from cython.cimports.libc.stdlib import calloc, free, malloc
from cython.cimports.libc.string import memset
from cython.cimports.penstock.core.clock import Clock, clock_now
from cython.cimports.penstock.core.descriptor import descriptors_after_fork, descriptors_shutdown
from cython.cimports.penstock.core.inbox import (
    POST_CLOSED,
    POST_FULL,
    POST_LANE_CLOSED,
    POST_OK,
    inbox_after_fork,
    inbox_close,
    inbox_close_lane,
    inbox_free,
    inbox_init,
    inbox_post,
    inbox_take,
)
from cython.cimports.penstock.core.intake import Intake
from cython.cimports.penstock.core.lane import OVERFLOW_BLOCK, Lane
from cython.cimports.penstock.core.probes import probes_free, probes_init, probes_let_go
from cython.cimports.penstock.core.records import descriptors_free, descriptors_init, descriptors_reserve
from cython.cimports.penstock.core.registry import registry_at, registry_close, registry_free, registry_init
from cython.cimports.penstock.core.ring import ring_free, ring_init, ring_pop
from cython.cimports.penstock.core.system import (
    PyThread_get_thread_ident,
    close,
    platform_atomic_load,
    platform_atomic_store,
    platform_fork_count,
    platform_fork_counter,
    platform_pipe_open,
    platform_watch_forks,
    read,
)
from cython.cimports.penstock.core.timers import timers_free, timers_init, timers_pop_any
from cython.cimports.penstock.core.turn import turn_idle, turn_reset_poller
from cython.cimports.penstock.core.types import (
    POST_CALL,
    POST_LANE,
    READABLE,
    READY_DONE,
    InboxC,
    ItemC,
    LaneC,
    LoopC,
    ReadyC,
    TurnC,
    native_ready_t,
)
from cython.cimports.penstock.core.waker import waker_close, waker_drain, waker_open, waker_wake

from penstock import limits
from penstock.core.names import thread_name
from penstock.core.signals import Signals
from penstock.errors import ForkedLoop, LaneClosed, LoopClosed, LoopRunning, Overflow, UsageError, WrongThread

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


class Loop(Intake):
    """One turn engine, for one thread."""

    def __cinit__(self, *args, **kwargs):
        memset(cython.address(self.c), 0, cython.sizeof(LoopC))
        self.allowance = INT64_MAX
        self.signal_pipe[0] = -1
        self.signal_pipe[1] = -1
        self.c.waker.read_fd = -1
        self.c.waker.write_fd = -1
        self.c.report_ns = INT64_MAX

    def __init__(self, poller, *, policy=None, clock=None, name=None, on_error=None, on_drop=None):
        if self.opened:
            raise LoopRunning("a loop cannot be initialised twice; make a new one")
        if clock is not None and not isinstance(clock, Clock):
            raise UsageError(f"clock is {clock!r}; give a penstock.Clock or a ManualClock")
        if name is not None and not isinstance(name, str):
            raise UsageError(f"a loop named {name!r}; give a text that is not empty")
        self.policy = limits.Policy() if policy is None else policy
        self.clock = Clock() if clock is None else clock
        self.poller = poller
        self.name = f"loop-{id(self):x}" if name is None else name
        if not 1 <= len(self.name) <= limits.NAME_MAX_CHARACTERS:
            raise UsageError(f"a loop's name of {len(self.name)} characters; give 1 to {limits.NAME_MAX_CHARACTERS}")
        if self.poller.simulated and not self.clock.manual:
            raise UsageError("a simulated poller moves a clock: give the loop the ManualClock of its kernel")
        self.on_error = on_error
        self.on_drop = on_drop
        self.lanes = ()
        self.reported = {}
        self.attached = {}
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
        self.last_report_ns = loop.now_ns - limits.REPORT_PERIOD_NS
        loop.owner = PyThread_get_thread_ident()
        timers_init(cython.address(loop.timers), policy.timers_max)
        registry_init(cython.address(loop.registry), policy.descriptors_max)
        descriptors_init(
            cython.address(loop.descriptors),
            policy.operations_max,
            policy.operations_per_queue_max,
            policy.operations_share,
        )
        probes_init(cython.address(loop.probes), loop.now_ns)
        # Twice: those that the poller finds, and those that are still ready.
        loop.ready = cython.cast(cython.pointer[ReadyC], malloc(2 * loop.ready_batch * cython.sizeof(ReadyC)))
        loop.due = cython.cast(cython.pointer[uint64_t], malloc(loop.timer_budget * cython.sizeof(uint64_t)))
        loop.lanes = cython.cast(
            cython.pointer[cython.pointer[LaneC]], calloc(policy.lanes_max, cython.sizeof(cython.p_void))
        )
        if (
            loop.ready == cython.NULL
            or descriptors_reserve(cython.address(loop.descriptors), policy.preallocated_descriptors) < 0
            or loop.due == cython.NULL
            or loop.lanes == cython.NULL
            or ring_init(cython.address(loop.deferred), policy.deferred_capacity) < 0
            or inbox_init(cython.address(loop.inbox), policy.inbox_capacity) < 0
        ):
            raise MemoryError(f"no memory for {self.name}")
        self.opened = True
        failed: cython.int = platform_watch_forks()
        if failed == 0:
            failed = waker_open(cython.address(loop.waker), self.policy.use_eventfd)
        if failed == 0:
            failed = platform_pipe_open(self.signal_pipe)
        if failed < 0:
            raise OSError(-failed, f"{self.name} cannot open its waker: {os.strerror(-failed)}")
        loop.forks = platform_fork_count()
        loop.fork_count = platform_fork_counter()
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
        self.check_elsewhere()
        raise WrongThread(
            f"{self.name} belongs to thread {thread_name(self.c.owner)} and was called from thread "
            f"{thread_name(PyThread_get_thread_ident())}; use post_threadsafe, defer_threadsafe or stop from there"
        )

    def check_elsewhere(self):
        """Raise unless another thread may hand work to this loop: in the process that made it, before close()."""
        if not self.opened:
            raise LoopClosed("this loop was never opened; let __init__ of its reactor run first")
        if self.c.forks != platform_fork_count():
            raise ForkedLoop(f"{self.name} was made before a fork; make a new loop in the child process")
        if self.c.closed:
            raise LoopClosed(f"{self.name} is closed; make a new loop")
        return 0

    def closing_lane(self, lane: Lane):
        """A lane of this loop is about to close: only in the loop's thread, and nobody goes on waiting for a place."""
        self.check()
        inbox_close_lane(cython.address(self.c.inbox), cython.address(lane.c))

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
        self.check_elsewhere()
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
        if answer == POST_LANE_CLOSED:
            raise LaneClosed(f"lane {lane.name!r} is closed; nothing can be posted to it")
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
        self.check_elsewhere()
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
        line: cython.pointer[TurnC] = loop.line
        return ran + self.ran_python + line.posts + line.timers + line.deferred + line.events

    def _turns(self, wait_cap_ns: int64_t, allowance: int64_t, turns: cython.int):
        """Turns until a handler of Python has run, or for ever (`turns` is 0) until nothing is left to do."""
        loop: cython.pointer[LoopC] = cython.address(self.c)
        count: int64_t = 0
        self._enter()
        try:
            while not platform_atomic_load(cython.address(loop.stopping)):
                if turn_idle(loop) and not len(self.signals):
                    break
                self.allowance = allowance
                self._one_turn(wait_cap_ns, True, True)
                ran: int64_t = allowance - self.allowance
                count += ran
                turns -= 1
                if turns == 0 or (wait_cap_ns == 0 and ran == 0) or (wait_cap_ns > 0 and ran > 0):
                    break
        finally:
            self.allowance = INT64_MAX
            platform_atomic_store(cython.address(loop.stopping), 0)
            self._leave()
        return count

    def run_one(self):
        """Wait until one handler of Python has run; 0 if there is nothing to wait for, or on stop."""
        return self._turns(INT64_MAX, 1, 0)

    def poll_ready(self):
        """Run what is ready, and what that makes ready, without waiting. Returns how many handlers ran."""
        return self._turns(0, INT64_MAX, limits.POLL_TURNS_MAX)

    def poll_one(self):
        """Run one handler if one is ready, without waiting. Returns how many ran."""
        return self._turns(0, 1, 1)

    def restart(self):
        """Forget a `stop` that no run has seen."""
        self.check()
        platform_atomic_store(cython.address(self.c.stopping), 0)

    # ---- forks -------------------------------------------------------------------------------------------------------

    def after_fork(self):
        """In a child process: a fresh poller and waker, everything registered once more, and this thread as owner.

        The parent's poller is not touched. What the parent had queued is queued here too.
        """
        loop: cython.pointer[LoopC] = cython.address(self.c)
        if loop.closed:
            raise LoopClosed(f"{self.name} is closed; make a new loop")
        if loop.forks == platform_fork_count():
            raise UsageError(f"{self.name} was made in this process; after_fork() is for the child, after a fork")
        if not self.poller.simulated:
            self._forget_self(loop.waker.read_fd)
            self._forget_self(self.signal_pipe[0])
        self._close_own()
        failed: cython.int = inbox_after_fork(cython.address(loop.inbox))
        if failed == 0:
            failed = waker_open(cython.address(loop.waker), self.policy.use_eventfd)
        if failed == 0:
            failed = platform_pipe_open(self.signal_pipe)
        if failed < 0:
            raise OSError(-failed, f"{self.name} cannot open its waker: {os.strerror(-failed)}")
        loop.forks = platform_fork_count()
        loop.owner = PyThread_get_thread_ident()
        turn_reset_poller(loop)
        descriptors_after_fork(loop)
        if loop.failed:
            self._raise_noted()
        if not self.poller.simulated:
            self._watch_self(loop.waker.read_fd, _woken)
            self._watch_self(self.signal_pipe[0], _signalled)

    def _forget_self(self, fd: cython.int):
        """End a registration of the loop's own."""
        self.c.registry.table[fd].internal = False
        self.c.registry.live += 1
        registry_close(cython.address(self.c.registry), fd)
        return 0

    def _enter(self):
        self.check()
        if self.running:
            raise LoopRunning(f"{self.name} is running already; a handler cannot run it once more")
        self.c.now_ns = clock_now(self.c.clock)
        if not self.c.poller.simulated:
            self.signals.lend(self.signal_pipe[1])
        # Last: what is interrupted above has not begun.
        self.running = True
        if self.signals.pending:
            self.c.signalled = True
        return 0

    def _leave(self):
        self.running = False
        self.signals.take_back()
        # Last, because a destructor may do anything.
        probes_let_go(cython.address(self.c.probes))
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
        self._shut_down()
        self.poller.close()

    def _shut_down(self):
        """Let everybody go who waits, drop what was taken in, close the loop's own descriptors."""
        loop: cython.pointer[LoopC] = cython.address(self.c)
        if loop.forks != platform_fork_count():
            inbox_after_fork(cython.address(loop.inbox))
        inbox_close(cython.address(loop.inbox))
        self._drop_everything()
        self._close_own()
        return 0

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
            if not lane.c.closed:
                lane.shut()
            # It may outlive this loop.
            lane.c.pending = cython.address(lane.c.own_pending)
            lane.c.drops = cython.address(lane.c.own_drops)
            lane.owner = None
        descriptors_shutdown(loop)
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
                self._retire(fd)
        probes_free(cython.address(loop.probes))
        return 0

    def __dealloc__(self):
        loop: cython.pointer[LoopC] = cython.address(self.c)
        if self.opened and not loop.closed:
            # Nobody closed it. The objects it held are let go.
            self._shut_down()
        ring_free(cython.address(loop.deferred))
        inbox_free(cython.address(loop.inbox))
        timers_free(cython.address(loop.timers))
        registry_free(cython.address(loop.registry))
        descriptors_free(cython.address(loop.descriptors))
        free(loop.ready)
        free(loop.due)
        free(loop.lanes)

    def stats(self):
        """Everything that the loop counts."""
        from penstock.core.snapshot import loop_stats

        return loop_stats(self)

    @cython.nonecheck(True)
    def __repr__(self):
        state = "closed" if self.c.closed else "running" if self.running else "ready"
        return f"<Loop {self.name!r} on {self.poller.name}, {state}>"


# A loop's attributes must be there until its destructor has run, also when the collector finds it in a cycle: it may
# not take them away one by one. (The directive `no_gc_clear` says so for classes that are not declared in a .pxd.)
cython.cast(cython.pointer[PyTypeObject], cython.cast(cython.p_void, Loop)).tp_clear = cython.NULL
