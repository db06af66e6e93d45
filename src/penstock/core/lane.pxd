cimport cython
from cpython.ref cimport PyObject
from libc.stdint cimport int64_t, uint64_t

from penstock.core.types cimport ItemC, LaneC

cdef enum:
    OVERFLOW_DROP_OLDEST = 0
    OVERFLOW_DROP_NEWEST = 1
    OVERFLOW_REJECT = 2
    OVERFLOW_COALESCE = 3
    OVERFLOW_BLOCK = 4

cdef enum:
    OFFER_PUSHED = 0            # taken, and nothing else happened
    OFFER_DROPPED_OLDEST = 1    # taken; the oldest is in `displaced`
    OFFER_COALESCED = 2         # taken; the one it replaced is in `displaced`
    OFFER_DROPPED_NEWEST = 3    # not taken
    OFFER_REJECTED = 4          # not taken
    OFFER_FULL = 5              # not taken; who can wait, may

cdef int lane_offer(LaneC* lane, void* item, ItemC* displaced) noexcept nogil
cdef bint lane_take(LaneC* lane, ItemC* out) noexcept nogil
cdef bint lane_drop_denied(LaneC* lane, ItemC* out) noexcept nogil
cdef bint lane_runnable(LaneC* lane, uint64_t turn, uint64_t tick) noexcept nogil
cdef uint64_t lane_close(LaneC* lane) noexcept nogil
cdef uint64_t lane_dropped(const LaneC* lane) noexcept nogil
cdef bint lane_ok(const LaneC* lane) noexcept nogil

@cython.final
cdef class Lane:
    cdef LaneC c
    cdef readonly str name
    cdef readonly object handler
    cdef readonly object merge
    cdef object owner       # a weak reference to its loop, or None
    cdef int offer_object(self, object item) except -1
    cdef object shut(self)
    cdef int _own(self) except -1
    cdef object _merged(self, object item)
