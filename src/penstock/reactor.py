# cython: language_level=3, nonecheck=True
"""The callback API: descriptors, timers, deferred tasks, lanes and signals on one loop.

This file checks what a program says, and says what is wrong with it; everything else is the kernel's. It must not
know a protocol, nor another programming model.
"""

import math

import cython
from cython.cimports.cpython.object import PyCallable_Check
from cython.cimports.libc.stdint import int64_t, uint32_t
from cython.cimports.penstock.core.handle import Timer, owner_of, timer_of
from cython.cimports.penstock.core.lane import Lane
from cython.cimports.penstock.core.loop import Loop

from penstock import limits
from penstock.core.poller.choice import open_poller
from penstock.core.sharedloop import SharedLoop
from penstock.errors import BadDescriptor, UsageError

READABLE = 1
WRITABLE = 2
ERROR = 4
HANGUP = 8

_INTEREST_MAX = cython.declare(uint32_t, 3)
_REPORTED = cython.declare(uint32_t, 12)
_NS_PER_S = cython.declare(int64_t, 1000000000)
_DELAY_MAX_NS = cython.declare(int64_t, limits.TIMER_DELAY_MAX_NS)
_INTERVAL_MIN_NS = cython.declare(int64_t, limits.INTERVAL_MIN_NS)


@cython.cfunc
@cython.exceptval(-1, check=False)
def _nanoseconds(what: str, seconds) -> int64_t:
    """Seconds as nanoseconds, rounded up so that nothing is ever early."""
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)):
        raise UsageError(f"{what} is {seconds!r}; give seconds as a number")
    if not seconds >= 0:
        raise UsageError(f"{what} is {seconds!r} s; give 0 or more")
    if seconds > _DELAY_MAX_NS // _NS_PER_S:
        raise UsageError(f"{what} is {seconds!r} s; give at most {_DELAY_MAX_NS // _NS_PER_S:,} (ten years)")
    if isinstance(seconds, float):
        return math.ceil(seconds * 1e9)
    return seconds * 1000000000


@cython.cfunc
@cython.exceptval(-1, check=False)
def _number(fd) -> cython.int:
    """A descriptor's number, from a number or from an object with `fileno()`."""
    if isinstance(fd, bool):
        raise BadDescriptor(f"descriptor is {fd!r}; give a number, or an object with fileno()")
    if not isinstance(fd, int):
        if not hasattr(fd, "fileno"):
            raise BadDescriptor(f"descriptor is {fd!r}; give a number, or an object with fileno()")
        told = fd.fileno()
        if isinstance(told, bool) or not isinstance(told, int):
            raise BadDescriptor(f"descriptor is {fd!r}, whose fileno() is {told!r}; it must be a number")
        fd = told
    if fd < 0:
        raise BadDescriptor(f"descriptor {fd} is negative: it is closed, or was never open")
    if fd > 0x7FFFFFFF:
        raise BadDescriptor(f"descriptor {fd} is no descriptor; give a number below 2**31")
    return fd


@cython.cfunc
@cython.exceptval(-1, check=False)
def _interest(events) -> cython.int:
    """The events that a registration asks for."""
    bits: cython.int
    if isinstance(events, bool) or not isinstance(events, int):
        raise UsageError(f"events is {events!r}; give READABLE, WRITABLE or both")
    # Errors and hang-ups are reported anyhow; to ask for them is no mistake.
    if not 0 <= events <= (_INTEREST_MAX | _REPORTED):
        raise UsageError(f"events is {events:#x}, which has unknown bits; give READABLE (1), WRITABLE (2) or both")
    bits = events
    return bits & cython.cast(cython.int, _INTEREST_MAX)


@cython.cfunc
def _own(loop: Loop, timer) -> Timer:
    """A timer that was started on this loop."""
    if not isinstance(timer, Timer):
        raise UsageError(f"the timer is {timer!r}; give what set_timeout or set_interval has returned")
    if owner_of(timer) is not loop:
        raise UsageError(f"{timer!r} belongs to {owner_of(timer).name}, not to {loop.name}")
    return timer


@cython.cfunc
@cython.exceptval(-1, check=False)
def _callable(callback) -> cython.int:
    if not PyCallable_Check(callback):
        raise UsageError(f"the callback {callback!r} cannot be called")
    return 0


class Reactor:
    """One loop: register, time, defer, post, run. For one thread, unless it is `shared`.

    `poller` is "auto", "epoll", "kqueue", "select" or a poller object; `clock` another clock than the system's; `policy` the
    limits; `on_error` is told of handlers that raise, `on_drop` of lanes that drop (at most once a second).

    A `shared` reactor may be run by several threads at once, and called from any: each completion of an operation, timer
    and deferred task runs on exactly one of them. It knows no `register`, no lanes and no streams.
    """

    def __init__(self, poller="auto", *, shared=False, policy=None, clock=None, name=None, on_error=None, on_drop=None):
        if policy is not None and not isinstance(policy, limits.Policy):
            raise UsageError(f"policy is {policy!r}; give a penstock.Policy")
        for hook in (on_error, on_drop):
            if hook is not None:
                _callable(hook)
        opened = open_poller(poller)
        try:
            kind = SharedLoop if shared else Loop
            self.loop = kind(opened, policy=policy, clock=clock, name=name, on_error=on_error, on_drop=on_drop)
        except BaseException:
            opened.close()
            raise

    # ---- descriptors -------------------------------------------------------------------------------------------------

    def register(self, fd, events, callback, edge=False):
        """Have `callback(fd, events)` called whenever the descriptor is ready.

        Registering a number again begins a new life: the old callback is never called again. With `edge` it is called
        once for each change, and must read or write until that would block.
        """
        self.loop.check()
        number: cython.int = _number(fd)
        interest: cython.int = _interest(events)
        _callable(callback)
        self.loop.register_python(number, interest, callback, edge)

    def modify(self, fd, events):
        """Ask for other events of a registered descriptor."""
        self.loop.check()
        self.loop.modify_fd(_number(fd), _interest(events))

    def deregister(self, fd):
        """Watch a descriptor no more; do so before closing it. Its callback is not called again."""
        self.loop.check()
        self.loop.deregister_fd(_number(fd))

    def is_registered(self, fd):
        """Whether a descriptor is registered."""
        self.loop.check()
        return self.loop.is_registered(_number(fd))

    # ---- time --------------------------------------------------------------------------------------------------------

    def now_ns(self):
        """The present of the loop's clock, which all its deadlines refer to."""
        return self.loop.clock.now_ns()

    def set_timeout(self, seconds, callback, *args):
        """Have `callback(*args)` called once, not earlier than after `seconds`. Returns the timer."""
        self.loop.check()
        _callable(callback)
        return timer_of(self.loop, self.loop.start_timer(_nanoseconds("a delay", seconds), 0, callback, args))

    def set_interval(self, seconds, callback, *args):
        """Have `callback(*args)` called every `seconds`, on a grid that does not drift. Returns the timer.

        If the loop is late by whole periods, those are counted as missed and not made up for.
        """
        self.loop.check()
        _callable(callback)
        period: int64_t = _nanoseconds("a period", seconds)
        if period < _INTERVAL_MIN_NS:
            raise UsageError(f"a period is {seconds!r} s; give at least {_INTERVAL_MIN_NS / 1e9:g} s")
        return timer_of(self.loop, self.loop.start_timer(period, period, callback, args))

    def cancel_timer(self, timer):
        """Cancel a timer, also in its own callback. False if it has fired or was cancelled before."""
        self.loop.check()
        return bool(self.loop.cancel_timer(_own(self.loop, timer).identity))

    def move_timer(self, timer, seconds):
        """Let a timer be due `seconds` from now. False if it has fired or was cancelled before."""
        self.loop.check()
        return bool(self.loop.move_timer(_own(self.loop, timer).identity, _nanoseconds("a delay", seconds)))

    # ---- work --------------------------------------------------------------------------------------------------------

    def defer(self, callback, *args):
        """Have `callback(*args)` called after all readiness of this turn; in a deferred task, in the next turn."""
        self.loop.check()
        _callable(callback)
        self.loop.defer_call(callback, args if args else None)

    def lane(
        self,
        name,
        handler,
        *,
        capacity=limits.LANE_CAPACITY,
        overflow="drop-oldest",
        budget=limits.LANE_BUDGET,
        priority=0,
        merge=None,
    ):
        """Make a lane: a bounded queue whose events `handler(event)` gets, up to the budget of each turn or tick.

        `overflow` says what a full lane does; `budget` is a number of events per turn, or a `Budget`; lanes of higher
        `priority` run first; `merge(waiting, new)` makes one event of two for `overflow="coalesce"`.
        """
        self.loop.check()
        if handler is None:
            raise UsageError(f"lane {name!r} has no handler; give it one")
        lane = Lane(name, handler, capacity=capacity, overflow=overflow, budget=budget, priority=priority, merge=merge)
        return self.loop.add_lane(lane)

    def post(self, lane, event):
        """Offer an event to a lane (or to the lane of that name). True if it was taken, False if it was dropped.

        A full lane that rejects raises Overflow.
        """
        self.loop.check()
        target: Lane = lane if isinstance(lane, Lane) else self.loop.find_lane(lane)
        return bool(self.loop.post_event(target, event))

    def post_threadsafe(self, lane, event, timeout=None):
        """Offer an event to a lane from any thread, through the bounded inbox.

        Raises Overflow if the inbox is full. If the lane blocks, the calling thread waits for a place in it, at most
        `timeout` seconds (by default the policy's `block_timeout_ns`); then Overflow is raised.
        """
        self.loop.check_elsewhere()
        target: Lane = lane if isinstance(lane, Lane) else self.loop.find_lane(lane)
        wait_ns: int64_t = self.loop.policy.block_timeout_ns if timeout is None else _nanoseconds("timeout", timeout)
        self.loop.post_threadsafe(target, event, wait_ns)

    def defer_threadsafe(self, callback, *args):
        """Have `callback(*args)` called by the loop, from any thread. Raises Overflow if the inbox is full."""
        _callable(callback)
        self.loop.defer_threadsafe(callback, args if args else None)

    # ---- signals -----------------------------------------------------------------------------------------------------

    def add_signal(self, number, callback, *args):
        """Have `callback(*args)` called in the turn after that signal has arrived; several arrivals may become one
        call.

        Only for the loop of the main thread.
        """
        self.loop.check()
        _callable(callback)
        self.loop.signals.add(number, callback, args)

    def remove_signal(self, number):
        """Put back what handled the signal before. False if this reactor did not handle it."""
        self.loop.check()
        return self.loop.signals.remove(number)

    # ---- running -----------------------------------------------------------------------------------------------------

    def run(self, keep_alive: bool = True):
        """Run until `stop()`; without `keep_alive` also until nothing is registered, armed or queued."""
        self.loop.run(keep_alive)

    def run_once(self, timeout=None):
        """One turn, which waits at most `timeout` seconds for something to do (None: as long as a turn may).

        Returns how many handlers have run.
        """
        wait_ns: int64_t = self.loop.policy.wait_max_ns if timeout is None else _nanoseconds("timeout", timeout)
        return self.loop.run_once(wait_ns)

    def run_one(self):
        """Run until one handler has run, and return 1; 0 if nothing is left to wait for, or on `stop()`.

        An operation that waits is something to wait for; a registration, a timer and a deferred task are, too.
        """
        return self.loop.run_one()

    def poll(self):
        """Run what is ready and what becomes ready by that, without waiting. Returns how many handlers have run."""
        return self.loop.poll_ready()

    def poll_one(self):
        """Run at most one handler that is ready, without waiting. Returns how many have run: 0 or 1."""
        return self.loop.poll_one()

    def restart(self):
        """Forget a `stop()` that came when nothing ran: the next run will not return because of it."""
        self.loop.restart()

    def after_fork(self):
        """Make this reactor usable in a child process: a fresh poller and waker, and everything registered once more.

        Without it a child that uses the reactor gets ForkedLoop. The parent's reactor is not affected.
        """
        self.loop.after_fork()

    def stop(self):
        """Let `run()` return when its turn is through. From any thread, and from signal handlers."""
        self.loop.stop()

    def close(self):
        """Let go of everything; what still waits is dropped and counted. Closing twice changes nothing."""
        self.loop.close()

    def stats(self):
        """Everything that the loop counts, as a frozen record. From the loop's own thread."""
        return self.loop.stats()

    @property
    def name(self):
        """The name that errors and figures use."""
        return self.loop.name

    @property
    def poller(self):
        """The name of the readiness source."""
        return self.loop.poller.name

    @property
    def policy(self):
        """The limits in force."""
        return self.loop.policy

    @property
    def closed(self):
        """Whether `close()` was called."""
        return bool(self.loop.c.closed)

    def __enter__(self):
        return self

    def __exit__(self, *exc_info):
        self.close()

    def __repr__(self):
        state = "closed" if self.loop.c.closed else "running" if self.loop.running else "ready"
        return f"<Reactor {self.loop.name!r} on {self.loop.poller.name}, {state}>"
