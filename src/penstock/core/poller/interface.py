# cython: language_level=3
"""What every poller offers: a table of C functions for the loop, and the same as methods for tests and tools.

A poller knows numbers, interests and tokens (see events.py). `PythonPoller` puts any object of the shape `PollerLike`
behind that table; it takes the GIL for each call, and keeps an exception that is no OSError until the loop can raise
it.
"""

import os

import cython
from cython.cimports.cpython.ref import PyObject
from cython.cimports.libc.stdint import int64_t, uint32_t, uint64_t
from cython.cimports.penstock.core.system import EIO
from cython.cimports.penstock.core.types import PollerC, ReadyC

from penstock.errors import UsageError


class Poller:
    """A readiness source. Every failing call raises OSError with the kernel's number."""

    def _answer(self, answer: cython.longlong, what: str, fd):
        if self.pending_error is not None:
            error, self.pending_error = self.pending_error, None
            raise error
        if answer < 0:
            number = -answer
            raise OSError(number, f"poller {self.name!r} cannot {what} {fd}: {os.strerror(number)}")
        return answer

    def add(self, fd: int, interest: int, edge: bool, token: int):
        """Watch a descriptor; its events come back with `token`."""
        self._answer(self.c.add(cython.address(self.c), fd, interest, edge, token), "watch descriptor", fd)

    def modify(self, fd: int, interest: int, edge: bool, token: int):
        """Change what is wanted of a descriptor that is watched."""
        self._answer(self.c.modify(cython.address(self.c), fd, interest, edge, token), "change descriptor", fd)

    def remove(self, fd: int):
        """Watch a descriptor no more."""
        self._answer(self.c.remove(cython.address(self.c), fd), "forget descriptor", fd)

    def wait(self, capacity: int, timeout_ns: int):
        """Return at most `capacity` (token, events); a negative timeout waits for ever."""
        if not 1 <= capacity <= 1024:
            raise UsageError(f"capacity is {capacity}; give 1 to 1024")
        ready: ReadyC[1024]
        size: cython.int = capacity
        wait_ns: int64_t = timeout_ns
        count: cython.int
        with cython.nogil:
            count = self.c.wait(cython.address(self.c), ready, size, wait_ns)
        self._answer(count, "wait, in", "the system call")
        return [(ready[index].token, ready[index].events) for index in range(count)]

    def unread(self, fd: int):
        """Bytes that a read would give now, or 0 where that cannot be known."""
        return self._answer(self.c.unread(cython.address(self.c), fd), "measure descriptor", fd)

    def reset(self):
        """Forget everything that is watched."""
        self._answer(self.c.reset(cython.address(self.c)), "be reset, in", "the system call")

    def close(self):
        """Give back what the system lent; a poller is not used afterwards."""

    @property
    def supports_edge(self):
        """Whether it can watch for changes instead of states."""
        return bool(self.c.edge)

    @property
    def simulated(self):
        """Whether it moves a manual clock instead of waiting."""
        return bool(self.c.simulated)

    def take_error(self):
        """The exception that a poller in Python left behind, or None."""
        error, self.pending_error = self.pending_error, None
        return error


@cython.cfunc
def _number_of(poller: PythonPoller, error) -> cython.int:
    """-errno of an OSError; anything else is a bug of the poller, kept for the loop to raise."""
    if isinstance(error, OSError) and error.errno:
        return -error.errno
    poller.pending_error = error
    return -EIO


@cython.cfunc
@cython.with_gil
@cython.exceptval(check=False)
def _python_add(
    c: cython.pointer[PollerC], fd: cython.int, interest: uint32_t, edge: cython.bint, token: uint64_t
) -> cython.int:
    poller = cython.cast(PythonPoller, cython.cast(cython.pointer[PyObject], c.state))
    try:
        poller._add(fd, interest, edge, token)
    except BaseException as error:
        return _number_of(poller, error)
    return 0


@cython.cfunc
@cython.with_gil
@cython.exceptval(check=False)
def _python_modify(
    c: cython.pointer[PollerC], fd: cython.int, interest: uint32_t, edge: cython.bint, token: uint64_t
) -> cython.int:
    poller = cython.cast(PythonPoller, cython.cast(cython.pointer[PyObject], c.state))
    try:
        poller._modify(fd, interest, edge, token)
    except BaseException as error:
        return _number_of(poller, error)
    return 0


@cython.cfunc
@cython.with_gil
@cython.exceptval(check=False)
def _python_remove(c: cython.pointer[PollerC], fd: cython.int) -> cython.int:
    poller = cython.cast(PythonPoller, cython.cast(cython.pointer[PyObject], c.state))
    try:
        poller._remove(fd)
    except BaseException as error:
        return _number_of(poller, error)
    return 0


@cython.cfunc
@cython.with_gil
@cython.exceptval(check=False)
def _python_wait(
    c: cython.pointer[PollerC], out: cython.pointer[ReadyC], capacity: cython.int, timeout_ns: int64_t
) -> cython.int:
    poller = cython.cast(PythonPoller, cython.cast(cython.pointer[PyObject], c.state))
    count: cython.int = 0
    try:
        for token, events in poller._wait(capacity, timeout_ns):
            if count == capacity:
                raise RuntimeError(f"poller {poller.name!r} gave more than the {capacity} events asked for")
            out[count].token = token
            out[count].events = events
            count += 1
    except BaseException as error:
        return _number_of(poller, error)
    return count


@cython.cfunc
@cython.with_gil
@cython.exceptval(check=False)
def _python_unread(c: cython.pointer[PollerC], fd: cython.int) -> int64_t:
    poller = cython.cast(PythonPoller, cython.cast(cython.pointer[PyObject], c.state))
    try:
        return poller._unread(fd)
    except BaseException as error:
        return _number_of(poller, error)


@cython.cfunc
@cython.with_gil
@cython.exceptval(check=False)
def _python_reset(c: cython.pointer[PollerC]) -> cython.int:
    poller = cython.cast(PythonPoller, cython.cast(cython.pointer[PyObject], c.state))
    try:
        poller._reset()
    except BaseException as error:
        return _number_of(poller, error)
    return 0


class PythonPoller(Poller):
    """A poller written in Python, of the shape `PollerLike`, behind the kernel's table."""

    def __init__(self, like):
        self.like = like
        self.name = like.name
        self._add = like.add
        self._modify = like.modify
        self._remove = like.remove
        self._wait = like.wait
        self._unread = like.unread
        self._reset = like.reset
        # Borrowed: the table lives in this object, and dies with it.
        self.c.state = cython.cast(cython.p_void, self)
        self.c.add = _python_add
        self.c.modify = _python_modify
        self.c.remove = _python_remove
        self.c.wait = _python_wait
        self.c.unread = _python_unread
        self.c.reset = _python_reset
        self.c.edge = like.supports_edge
        self.c.simulated = like.simulated
        # Whether it wants to hear of a descriptor only when there is something to wait for.
        self.c.lazy = getattr(like, "lazy", False)

    def close(self):
        """Close the poller behind."""
        self.like.close()
