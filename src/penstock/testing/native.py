# cython: language_level=3, nonecheck=True
"""Handlers that run without the GIL, for tests and measurements, and as the example of how they are written.

    EchoServer    accepts on a listening socket and echoes what arrives, all in C
    Counter       counts how often descriptors are ready; can claim to be still ready
    NativeTimer   counts how often it fires

`corrupt` breaks an invariant of the kernel on purpose, so that a test can see it noticed.

A handler lives in its object: keep that until its descriptors are deregistered or the reactor is closed.
"""

import cython
from cython.cimports.libc.stdint import int64_t, uint32_t, uint64_t
from cython.cimports.penstock.core.clock import clock_now
from cython.cimports.penstock.core.lane import Lane
from cython.cimports.penstock.core.nogil import (
    native_cancel_timer,
    native_deregister,
    native_register,
    native_start_timer,
)
from cython.cimports.penstock.core.system import EAGAIN, EINTR, close, errno, platform_accept, platform_send, recv
from cython.cimports.penstock.core.types import READABLE, READY_AGAIN, READY_DONE, LoopC
from cython.cimports.penstock.reactor import Reactor

from penstock.errors import BadDescriptor, Overflow, UsageError

# ---- echo ------------------------------------------------------------------------------------------------------------


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _end(loop: cython.pointer[LoopC], fd: cython.int, echo: cython.pointer[EchoC]) -> cython.int:
    echo.closed += 1
    native_deregister(loop, fd)
    close(fd)
    return READY_DONE


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _echo(loop: cython.pointer[LoopC], fd: cython.int, events: uint32_t, context: cython.p_void) -> cython.int:
    """One receive and one send. What the peer does not take is its loss: a real server would wait for it."""
    echo: cython.pointer[EchoC] = cython.cast(cython.pointer[EchoC], context)
    size: cython.Py_ssize_t = recv(fd, echo.buffer, echo.share_bytes, 0)
    if size > 0:
        echo.messages += 1
        echo.received_bytes += size
        sent: cython.Py_ssize_t = platform_send(fd, echo.buffer, size)
        if sent == size:
            return READY_DONE
        echo.short_writes += 1
        return READY_DONE if sent >= 0 or sent == -EAGAIN else _end(loop, fd, echo)
    if size < 0 and errno in (EAGAIN, EINTR):
        return READY_DONE
    return _end(loop, fd, echo)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _accept(loop: cython.pointer[LoopC], fd: cython.int, events: uint32_t, context: cython.p_void) -> cython.int:
    """Take connections up to the budget; the rest is reported again."""
    echo: cython.pointer[EchoC] = cython.cast(cython.pointer[EchoC], context)
    budget: int64_t = echo.accept_budget
    while budget > 0:
        budget -= 1
        peer: cython.int = platform_accept(fd)
        if peer < 0:
            return READY_DONE
        if native_register(loop, peer, READABLE, _echo, context, False) < 0:
            close(peer)
        else:
            echo.accepted += 1
    return READY_DONE


class EchoServer:
    """Echoes everything, without the interpreter. `listener` is a listening, non-blocking socket."""

    def __init__(self, reactor: Reactor, listener: int, *, share_bytes: int = 65536, accept_budget: int = 128):
        if not 1 <= share_bytes <= ECHO_BUFFER_BYTES:
            raise UsageError(f"share_bytes is {share_bytes}; give 1 to {ECHO_BUFFER_BYTES}")
        self.reactor = reactor
        self.listener = listener
        self.c.share_bytes = share_bytes
        self.c.accept_budget = accept_budget
        reactor.loop.check()
        reactor.loop.register_native(listener, READABLE, _accept, cython.address(self.c), False)

    def adopt(self, fd: int):
        """Echo on a connection that exists already; it is closed at its end."""
        self.reactor.loop.check()
        self.reactor.loop.register_native(fd, READABLE, _echo, cython.address(self.c), False)

    def counters(self):
        """What has happened so far."""
        return {
            "accepted": self.c.accepted,
            "closed": self.c.closed,
            "messages": self.c.messages,
            "received_bytes": self.c.received_bytes,
            "short_writes": self.c.short_writes,
        }


# ---- counters --------------------------------------------------------------------------------------------------------


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _count(loop: cython.pointer[LoopC], fd: cython.int, events: uint32_t, context: cython.p_void) -> cython.int:
    count: cython.pointer[CountC] = cython.cast(cython.pointer[CountC], context)
    if count.timed:
        count.last_ns = clock_now(loop.clock)
        if count.calls == 0:
            count.first_ns = count.last_ns
    count.calls += 1
    count.events = events
    if count.again_left > 0:
        count.again_left -= 1
        return READY_AGAIN
    return READY_DONE


class Counter:
    """Counts how often its descriptors are found ready. It reads nothing: level-triggered ones stay ready.

    `again` is how often it claims to be still ready; with `timed` it takes note of the first and the last call.
    """

    def __init__(self, reactor: Reactor, *, again: int = 0, timed: bool = False):
        self.reactor = reactor
        self.c.again_left = again
        self.c.timed = timed

    def register(self, fd: int, events: int = 1, edge: bool = False):
        """Count the readiness of this descriptor too."""
        self.reactor.loop.check()
        self.reactor.loop.register_native(fd, events, _count, cython.address(self.c), edge)

    def reset(self):
        """Count from zero."""
        self.c.calls = 0
        self.c.first_ns = 0
        self.c.last_ns = 0

    @property
    def calls(self):
        """How often the handler was called."""
        return self.c.calls

    @property
    def events(self):
        """The events of the last call."""
        return self.c.events

    @property
    def span_ns(self):
        """From the first call to the last."""
        return self.c.last_ns - self.c.first_ns


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _fired(loop: cython.pointer[LoopC], timer: uint64_t, context: cython.p_void) -> cython.void:
    count: cython.pointer[CountC] = cython.cast(cython.pointer[CountC], context)
    count.calls += 1
    count.last_ns = loop.now_ns


class NativeTimer:
    """A timer whose handler runs without the GIL, and counts."""

    def __init__(self, reactor: Reactor, delay_ns: int, period_ns: int = 0):
        self.reactor = reactor
        reactor.loop.check()
        self.identity = native_start_timer(
            cython.address(reactor.loop.c), delay_ns, period_ns, _fired, cython.address(self.c)
        )
        if self.identity == 0:
            raise Overflow("no place for another timer", limit="timers_max", capacity=reactor.policy.timers_max)

    def cancel(self):
        """Cancel; False if it has fired or was cancelled before."""
        self.reactor.loop.check()
        return bool(native_cancel_timer(cython.address(self.reactor.loop.c), self.identity))

    @property
    def calls(self):
        """How often it has fired."""
        return self.c.calls

    @property
    def last_ns(self):
        """What the loop called the present when it fired last."""
        return self.c.last_ns


# ---- faults ----------------------------------------------------------------------------------------------------------


def deregister_native(reactor: Reactor, fd: int):
    """End a native registration as a native handler would."""
    reactor.loop.check()
    if native_deregister(cython.address(reactor.loop.c), fd) < 0:
        raise BadDescriptor(f"descriptor {fd} has no native registration with {reactor.name}")


def corrupt(reactor: Reactor, what: str, lane=None):
    """Break an invariant: "timers", "registry", "deferred", "lane" (its books) or "budget" (below zero)."""
    loop: cython.pointer[LoopC] = cython.address(reactor.loop.c)
    if what == "timers":
        if loop.timers.size < 2:
            raise UsageError("there are fewer than 2 timers; start some before they can be put out of order")
        loop.timers.heap[0].deadline_ns = loop.timers.heap[1].deadline_ns + 1000000000
    elif what == "registry":
        loop.registry.live = loop.registry.size + 1
    elif what == "deferred":
        loop.deferred.capacity = 0
    elif what in ("lane", "budget") and not isinstance(lane, Lane):
        raise UsageError(f"lane is {lane!r}; give the lane whose {what} is to be corrupted")
    elif what == "lane":
        cython.cast(Lane, lane).c.run += 1
    elif what == "budget":
        cython.cast(Lane, lane).c.budget.left = -1
    else:
        raise UsageError(f'what is {what!r}; give "timers", "registry", "deferred", "lane" or "budget"')
