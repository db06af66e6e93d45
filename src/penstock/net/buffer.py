# cython: language_level=3
"""What waits to be sent: one stretch of memory that grows by doubling, and is given back when nothing waits.

    data     [ consumed | waiting | free ]
             0        start      end   capacity

When the free part is too small, the waiting part moves to the front if more than half of the memory is consumed, which
costs less than one move per byte in all; else the memory doubles.

All buffers of the process add their memory to one sum with one limit. It is the only variable here that several threads
touch, and it belongs to the process because memory does. This file must not know sockets or what a full buffer means.
"""

import cython
from cython.cimports.libc.stdint import int64_t
from cython.cimports.libc.stdlib import free, malloc, realloc
from cython.cimports.libc.string import memcpy, memmove
from cython.cimports.penstock.net.system import ATOMIC_RELAXED, atomic_add, atomic_read
from cython.cimports.penstock.net.types import BufferC, TotalC

from penstock import limits
from penstock.errors import UsageError

FIRST_BYTES = cython.declare(cython.size_t, limits.WRITE_BUFFER_FIRST_BYTES)
process_total.limit_bytes = limits.WRITE_TOTAL_BYTES


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def buffer_total() -> cython.pointer[TotalC]:
    """The sum over all write buffers of the process."""
    return cython.address(process_total)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def buffer_init(buffer: cython.pointer[BufferC], total: cython.pointer[TotalC]) -> cython.void:
    """An empty buffer, which holds no memory."""
    buffer.data = cython.NULL
    buffer.capacity = 0
    buffer.start = 0
    buffer.end = 0
    buffer.total = total


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def buffer_waiting(buffer: cython.pointer[cython.const[BufferC]]) -> cython.size_t:
    """The bytes that wait."""
    return buffer.end - buffer.start


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _wanted(buffer: cython.pointer[cython.const[BufferC]], size: cython.size_t) -> cython.size_t:
    """The capacity that `size` more bytes need: the present one, or a doubling of it."""
    capacity: cython.size_t = buffer.capacity if buffer.capacity else FIRST_BYTES
    waiting: cython.size_t = buffer.end - buffer.start
    if buffer.end + size <= buffer.capacity:
        return capacity
    if buffer.start > buffer.capacity >> 1 and waiting + size <= buffer.capacity:
        return capacity
    # A move to the front comes with the doubling, so that only what waits must fit.
    while capacity < waiting + size or capacity == buffer.capacity:
        capacity <<= 1
    return capacity


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def buffer_may_grow(buffer: cython.pointer[cython.const[BufferC]], size: cython.size_t) -> cython.bint:
    """Whether `size` more bytes keep the sum of all buffers within its limit."""
    more: int64_t = _wanted(buffer, size) - buffer.capacity
    return more == 0 or atomic_read(cython.address(buffer.total.bytes), ATOMIC_RELAXED) + more <= (
        buffer.total.limit_bytes
    )


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _resize(buffer: cython.pointer[BufferC], capacity: cython.size_t) -> cython.int:
    """Bring what waits into more memory. -1: the sum would exceed its limit; -2: there is no memory."""
    more: int64_t = capacity - buffer.capacity
    waiting: cython.size_t = buffer.end - buffer.start
    data: cython.p_void
    total: int64_t = atomic_add(cython.address(buffer.total.bytes), more, ATOMIC_RELAXED)
    if total > buffer.total.limit_bytes:
        atomic_add(cython.address(buffer.total.bytes), -more, ATOMIC_RELAXED)
        return -1
    if buffer.start == 0:
        data = realloc(buffer.data, capacity)
    else:
        data = malloc(capacity)
        if data != cython.NULL:
            memcpy(data, buffer.data + buffer.start, waiting)
            free(buffer.data)
    if data == cython.NULL:
        atomic_add(cython.address(buffer.total.bytes), -more, ATOMIC_RELAXED)
        return -2
    if total > buffer.total.high_water:
        buffer.total.high_water = total
    buffer.data = cython.cast(cython.p_char, data)
    buffer.capacity = capacity
    buffer.start = 0
    buffer.end = waiting
    return 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def buffer_append(
    buffer: cython.pointer[BufferC], data: cython.pointer[cython.const[cython.char]], size: cython.size_t
) -> cython.int:
    """Add bytes, all or none. -1: the sum of all buffers would exceed its limit; -2: there is no memory."""
    if buffer.end + size > buffer.capacity:
        capacity: cython.size_t = _wanted(buffer, size)
        if capacity != buffer.capacity:
            failed: cython.int = _resize(buffer, capacity)
            if failed < 0:
                return failed
        else:
            memmove(buffer.data, buffer.data + buffer.start, buffer.end - buffer.start)
            buffer.end -= buffer.start
            buffer.start = 0
    memcpy(buffer.data + buffer.end, data, size)
    buffer.end += size
    return 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def buffer_consume(buffer: cython.pointer[BufferC], size: cython.size_t) -> cython.void:
    """Forget the first bytes that wait; with the last one the memory is given back."""
    buffer.start += size
    if buffer.start >= buffer.end:
        buffer_free(buffer)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def buffer_free(buffer: cython.pointer[BufferC]) -> cython.void:
    """Forget everything and give the memory back."""
    if buffer.data != cython.NULL:
        free(buffer.data)
        atomic_add(cython.address(buffer.total.bytes), -cython.cast(int64_t, buffer.capacity), ATOMIC_RELAXED)
        buffer.data = cython.NULL
        buffer.capacity = 0
    buffer.start = 0
    buffer.end = 0


def total_bytes():
    """The memory of all write buffers of the process."""
    return atomic_read(cython.address(process_total.bytes), ATOMIC_RELAXED)


def total_limit():
    """What that memory may come to."""
    return process_total.limit_bytes


def set_total_limit(limit_bytes: int):
    """Change what the memory of all write buffers of the process may come to. What waits already stays."""
    if isinstance(limit_bytes, bool) or not isinstance(limit_bytes, int) or limit_bytes < FIRST_BYTES:
        raise UsageError(f"limit_bytes is {limit_bytes!r}; give a whole number of at least {FIRST_BYTES:,}")
    process_total.limit_bytes = limit_bytes


class WriteBuffer:
    """A buffer by itself, with a limit of its own, for tests."""

    def __cinit__(self, limit_bytes: int):
        self.own.limit_bytes = limit_bytes
        buffer_init(cython.address(self.c), cython.address(self.own))

    def __dealloc__(self):
        buffer_free(cython.address(self.c))

    def append(self, data: bytes):
        """Add bytes. False if the limit forbids it: then none was added."""
        failed: cython.int = buffer_append(cython.address(self.c), data, len(data))
        if failed == -2:
            raise MemoryError("no memory for a write buffer")
        return failed == 0

    def consume(self, size: int):
        """Take the first bytes that wait."""
        taken: cython.size_t = min(size, len(self))
        data = self.c.data[self.c.start : self.c.start + taken] if taken else b""
        buffer_consume(cython.address(self.c), taken)
        return data

    def may_grow(self, size: int):
        """Whether an append of that size would be taken."""
        return bool(buffer_may_grow(cython.address(self.c), size))

    def __len__(self):
        return buffer_waiting(cython.address(self.c))

    @property
    def capacity(self):
        """The memory it holds now."""
        return self.c.capacity

    @property
    def total(self):
        """What the sum says, which is its capacity as long as it is the only one."""
        return self.own.bytes
