# cython: language_level=3
"""How does work enter a loop, on its own thread? Registrations, timers, deferred tasks, lanes and their events.

Every entrance is bounded by the policy, and says which limit it is when it refuses. The objects that enter are owned
from here on, and given back when they leave: the tables below the interpreter only know pointers.

This file must not know when anything runs: that is dispatch.py. Who may call is checked by loop.py.
"""

import os

import cython
from cython.cimports.cpython.ref import (
    Py_DECREF,
    Py_INCREF,
    Py_XDECREF,
    PyObject,
)
from cython.cimports.libc.stdint import (
    int64_t,
    uint32_t,
    uint64_t,
)
from cython.cimports.penstock.core.clock import (
    clock_now,
)
from cython.cimports.penstock.core.dispatch import Dispatch
from cython.cimports.penstock.core.inbox import (
    inbox_has_place,
    inbox_publish,
)
from cython.cimports.penstock.core.lane import (
    OFFER_COALESCED,
    OFFER_REJECTED,
    OVERFLOW_BLOCK,
    Lane,
)
from cython.cimports.penstock.core.registry import (
    registry_at,
    registry_close,
    registry_note_change,
    registry_open,
    registry_token,
)
from cython.cimports.penstock.core.ring import (
    ring_push,
    ring_size,
)
from cython.cimports.penstock.core.system import (
    EBADF,
    EEXIST,
    EINVAL,
    ENOTSUP,
    EPERM,
)
from cython.cimports.penstock.core.timers import (
    timers_cancel,
    timers_move,
    timers_start,
)
from cython.cimports.penstock.core.types import (
    REGISTRATION_OVER,
    ItemC,
    LoopC,
    RegistrationC,
    native_complete_t,
    native_ready_t,
    native_timer_t,
)

from penstock.errors import (
    BadDescriptor,
    LaneClosed,
    Overflow,
    Unsupported,
    UsageError,
)


class Intake(Dispatch):
    """A loop as far as it takes work in."""

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
                f"descriptor {fd} is a file that is always ready; a poller cannot wait for it: read or write it "
                "directly"
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
        complete: native_complete_t = one.complete
        context: cython.p_void = one.context
        registry_close(cython.address(self.c.registry), fd)
        # Last, because a destructor may do anything, also register this very number.
        Py_XDECREF(number)
        Py_XDECREF(callback)
        if complete != cython.NULL:
            complete(cython.address(self.c), fd, REGISTRATION_OVER, context)

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
