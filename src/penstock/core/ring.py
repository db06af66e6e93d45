# cython: language_level=3
"""A fixed ring: first in, first out, a bound, O(1), and no allocation after the start.

Every queue of the system is one of these. A ring knows nothing of overflow: a push on a full ring answers "no", and who
asked decides what that means. It must not know who owns what its slots point at.

`head` and `tail` only grow, so that size is their difference and full and empty cannot be confused; they return to zero
whenever the ring is empty, so that a large ring that is used a little stays in the first few cache lines (and does not
touch, one by one, all the pages it might need one day).
"""

import cython
from cython.cimports.cpython.ref import Py_DECREF, Py_INCREF
from cython.cimports.libc.stdint import int64_t, uint64_t
from cython.cimports.libc.stdlib import free, malloc
from cython.cimports.penstock.core.types import ItemC, RingC

from penstock.errors import UsageError


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def ring_init(ring: cython.pointer[RingC], capacity: uint64_t) -> cython.int:
    """Prepare an empty ring; return -1 if there is no memory for it."""
    slots: uint64_t = 1
    while slots < capacity:
        slots <<= 1
    # Not cleared: a page that is never used is then never touched.
    ring.slots = cython.cast(cython.pointer[ItemC], malloc(slots * cython.sizeof(ItemC)))
    ring.mask = slots - 1
    ring.capacity = capacity
    ring.head = 0
    ring.tail = 0
    return 0 if ring.slots != cython.NULL else -1


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def ring_free(ring: cython.pointer[RingC]) -> cython.void:
    """Give the memory back. What the slots point at is the owner's business, and must be gone already."""
    free(ring.slots)
    ring.slots = cython.NULL
    ring.capacity = 0
    ring.head = 0
    ring.tail = 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def ring_size(ring: cython.pointer[cython.const[RingC]]) -> uint64_t:
    return ring.tail - ring.head


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def ring_push(ring: cython.pointer[RingC], first: cython.p_void, second: cython.p_void, mark: int64_t) -> cython.bint:
    """Append an item; return False, and change nothing, if the ring is full."""
    if ring.tail - ring.head >= ring.capacity:
        return False
    slot: cython.pointer[ItemC] = ring.slots + (ring.tail & ring.mask)
    slot.first = first
    slot.second = second
    slot.mark = mark
    ring.tail += 1
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def ring_pop(ring: cython.pointer[RingC], out: cython.pointer[ItemC]) -> cython.bint:
    """Move the oldest item to `out`; return False if there is none."""
    if ring.tail == ring.head:
        return False
    out[0] = (ring.slots + (ring.head & ring.mask))[0]
    ring.head += 1
    if ring.head == ring.tail:
        ring.head = 0
        ring.tail = 0
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def ring_oldest(ring: cython.pointer[RingC]) -> cython.pointer[ItemC]:
    """The item that a pop would give, in place; NULL if there is none."""
    if ring.tail == ring.head:
        return cython.NULL
    return ring.slots + (ring.head & ring.mask)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def ring_newest(ring: cython.pointer[RingC]) -> cython.pointer[ItemC]:
    """The item that was pushed last, in place; NULL if there is none."""
    if ring.tail == ring.head:
        return cython.NULL
    return ring.slots + ((ring.tail - 1) & ring.mask)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def ring_pop_second(ring: cython.pointer[RingC], out: cython.pointer[ItemC]) -> cython.bint:
    """Take the second-oldest item out and leave the oldest where it is, for an owner whose oldest must not be lost."""
    if ring.tail - ring.head < 2:
        return False
    oldest: ItemC = (ring.slots + (ring.head & ring.mask))[0]
    ring.head += 1
    out[0] = (ring.slots + (ring.head & ring.mask))[0]
    (ring.slots + (ring.head & ring.mask))[0] = oldest
    return True


class Ring:
    """A fixed ring of Python objects."""

    def __cinit__(self, capacity):
        if capacity < 1:
            raise UsageError(f"capacity is {capacity}; a ring holds at least 1 item")
        if ring_init(cython.address(self.c), capacity) < 0:
            raise MemoryError(f"no memory for a ring of {capacity} items")

    def __dealloc__(self):
        if self.c.slots != cython.NULL:
            self._clear()
            ring_free(cython.address(self.c))

    def _clear(self):
        item: ItemC
        while ring_pop(cython.address(self.c), cython.address(item)):
            Py_DECREF(cython.cast(object, item.first))

    def push(self, item):
        """Append `item`; return False, and change nothing, if the ring is full."""
        if not ring_push(cython.address(self.c), cython.cast(cython.p_void, item), cython.NULL, 0):
            return False
        Py_INCREF(item)
        return True

    def pop(self):
        """Take the oldest item out. `IndexError` if the ring is empty."""
        item: ItemC
        if not ring_pop(cython.address(self.c), cython.address(item)):
            raise IndexError("pop from an empty ring")
        taken = cython.cast(object, item.first)
        Py_DECREF(taken)
        return taken

    def pop_second(self):
        """Take the second-oldest item out, past the oldest. `IndexError` if there are fewer than two."""
        item: ItemC
        if not ring_pop_second(cython.address(self.c), cython.address(item)):
            raise IndexError("pop_second from a ring of fewer than 2 items")
        taken = cython.cast(object, item.first)
        Py_DECREF(taken)
        return taken

    def oldest(self):
        """The item that a pop would give. `IndexError` if the ring is empty."""
        slot: cython.pointer[ItemC] = ring_oldest(cython.address(self.c))
        if slot == cython.NULL:
            raise IndexError("oldest of an empty ring")
        return cython.cast(object, slot.first)

    def newest(self):
        """The item that was pushed last. `IndexError` if the ring is empty."""
        slot: cython.pointer[ItemC] = ring_newest(cython.address(self.c))
        if slot == cython.NULL:
            raise IndexError("newest of an empty ring")
        return cython.cast(object, slot.first)

    def clear(self):
        """Take everything out and return how many items that were."""
        count = ring_size(cython.address(self.c))
        self._clear()
        return count

    def __len__(self):
        return ring_size(cython.address(self.c))

    @property
    def capacity(self):
        """How many items the ring holds at most."""
        return self.c.capacity

    @property
    def is_full(self):
        """Whether the next push would be refused."""
        return ring_size(cython.address(self.c)) >= self.c.capacity
