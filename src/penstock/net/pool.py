# cython: language_level=3
"""Where received bytes stay between the receive call and the program: memory that idle connections do not hold.

One stretch per loop, filled from the front. A stream asks for room, receives into it, and keeps exactly what it
received; the next stream continues behind that. When the last piece of a batch has been handed over, the whole stretch
is free again. Small messages of a thousand connections so lie side by side in a few pages, and a turn cannot receive
more than the stretch holds: who finds no room is served in the next turn.

This file must not know streams.
"""

import cython
from cython.cimports.libc.stdlib import free, malloc
from cython.cimports.libc.string import memcpy, memset
from cython.cimports.penstock.net.types import PoolC


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def pool_open(pool: cython.pointer[PoolC], capacity: cython.size_t) -> cython.int:
    """An empty pool; -1 if there is no memory. Pages are only used once they are filled."""
    memset(pool, 0, cython.sizeof(PoolC))
    pool.data = cython.cast(cython.p_char, malloc(capacity))
    if pool.data == cython.NULL:
        return -1
    pool.capacity = capacity
    return 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def pool_close(pool: cython.pointer[PoolC]) -> cython.void:
    """Give the memory back; nobody may hold a piece any more."""
    free(pool.data)
    pool.data = cython.NULL
    pool.capacity = 0
    pool.used = 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def pool_room(
    pool: cython.pointer[PoolC], wanted: cython.size_t, least: cython.size_t, out: cython.pointer[cython.p_char]
) -> cython.size_t:
    """How much of `wanted` may be received at `out`; 0 if less than `least` (and less than wanted) is free."""
    room: cython.size_t = pool.capacity - pool.used
    if room >= wanted:
        room = wanted
    elif room < least:
        pool.exhausted += 1
        return 0
    out[0] = pool.data + pool.used
    return room


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def pool_lend(pool: cython.pointer[PoolC], size: cython.size_t) -> cython.void:
    """Keep the first `size` bytes of the room that was offered last, until they are given back."""
    pool.lent += 1
    pool.used += (size + 15) & ~cython.cast(cython.size_t, 15)
    if pool.used > pool.capacity:
        pool.used = pool.capacity
    if pool.used > pool.high_water:
        pool.high_water = pool.used


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def pool_give_back(pool: cython.pointer[PoolC]) -> cython.void:
    """One piece is handed over. With the last one all is free again."""
    pool.lent -= 1
    if pool.lent == 0:
        pool.used = 0


class ReadPool:
    """A pool by itself, for tests."""

    def __cinit__(self, capacity: int):
        if pool_open(cython.address(self.c), capacity) < 0:
            raise MemoryError("no memory for a read pool")

    def __dealloc__(self):
        pool_close(cython.address(self.c))

    def fill(self, data: bytes, wanted: int, least: int):
        """Receive `data` into room for `wanted` bytes, and return its place and what was taken; None without room."""
        out: cython.p_char = cython.NULL
        room: cython.size_t = pool_room(cython.address(self.c), wanted, least, cython.address(out))
        if room == 0:
            return None
        size: cython.size_t = min(room, len(data))
        memcpy(out, cython.cast(cython.p_char, data), size)
        pool_lend(cython.address(self.c), size)
        return out - self.c.data, size

    def read(self, place: int, size: int):
        """What lies at a place."""
        start: cython.size_t = place
        return self.c.data[start : start + size]

    def give_back(self):
        """Give one piece back."""
        pool_give_back(cython.address(self.c))

    @property
    def lent(self):
        """How many pieces are out."""
        return self.c.lent

    @property
    def used(self):
        """Bytes that are not free."""
        return self.c.used

    @property
    def exhausted(self):
        """How often there was no room."""
        return self.c.exhausted
