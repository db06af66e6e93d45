# cython: language_level=3
"""How is a loop woken that sleeps in its poller? One descriptor that becomes readable.

An eventfd where there is one, else a pipe. However often it is woken before it looks, it wakes once. This file must not
know why somebody wakes it; the inbox decides whether waking is needed at all.
"""

import os

import cython
from cython.cimports.libc.stdint import uint64_t
from cython.cimports.penstock.core.system import (
    EINTR,
    close,
    errno,
    platform_pipe_open,
    platform_waker_open,
    read,
    write,
)
from cython.cimports.penstock.core.types import WakerC


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def waker_open(waker: cython.pointer[WakerC], eventfd: cython.bint) -> cython.int:
    """Open, as an eventfd if that is wished and there is one; returns -errno on failure."""
    ends: cython.int[2]
    waker.read_fd = -1
    waker.write_fd = -1
    waker.wakes = 0
    waker.drained = 0
    failed: cython.int = platform_waker_open(ends) if eventfd else platform_pipe_open(ends)
    if failed == 0:
        waker.read_fd = ends[0]
        waker.write_fd = ends[1]
    return failed


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def waker_wake(waker: cython.pointer[WakerC]) -> cython.void:
    """Make the descriptor readable. From any thread. A full pipe is readable already: that is no failure."""
    one: uint64_t = 1
    waker.wakes += 1
    while write(waker.write_fd, cython.address(one), cython.sizeof(one)) < 0 and errno == EINTR:
        # Not a failure either, but nobody would be woken.
        pass


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def waker_drain(waker: cython.pointer[WakerC]) -> cython.void:
    """Make the descriptor unreadable again. An eventfd takes one read; a pipe that holds more stays readable."""
    buffer: cython.char[512]
    size: cython.size_t = 8 if waker.read_fd == waker.write_fd else 512
    waker.drained += 1
    if read(waker.read_fd, buffer, size) < 0:
        return


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def waker_close(waker: cython.pointer[WakerC]) -> cython.void:
    """Close, once."""
    if waker.read_fd >= 0:
        close(waker.read_fd)
    if waker.write_fd >= 0 and waker.write_fd != waker.read_fd:
        close(waker.write_fd)
    waker.read_fd = -1
    waker.write_fd = -1


class Waker:
    """A descriptor that becomes readable when somebody wakes it."""

    def __cinit__(self, *, eventfd: bool = True):
        failed: cython.int = waker_open(cython.address(self.c), eventfd)
        if failed < 0:
            raise OSError(-failed, f"cannot open a waker: {os.strerror(-failed)}")

    def __dealloc__(self):
        waker_close(cython.address(self.c))

    def fileno(self):
        """The descriptor to wait for."""
        return self.c.read_fd

    def wake(self):
        """Make the descriptor readable. From any thread."""
        waker_wake(cython.address(self.c))

    def drain(self):
        """Make the descriptor unreadable again."""
        waker_drain(cython.address(self.c))

    def close(self):
        """Close, once."""
        waker_close(cython.address(self.c))
