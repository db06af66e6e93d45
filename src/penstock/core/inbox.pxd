cimport cython
from libc.stdint cimport int64_t, uint64_t

from penstock.core.types cimport InboxC, ItemC, LaneC, LoopC

cdef enum:
    POST_OK = 0
    POST_FULL = 1       # the inbox is full
    POST_NO_ROOM = 2    # the lane that blocks had no room until the deadline
    POST_CLOSED = 3
    POST_LANE_CLOSED = 4

cdef int inbox_init(InboxC* inbox, uint64_t capacity) noexcept nogil
cdef int inbox_after_fork(InboxC* inbox) noexcept nogil
cdef void inbox_free(InboxC* inbox) noexcept nogil
cdef int inbox_post(
    InboxC* inbox, void* first, void* second, int kind, LaneC* blocking, int64_t deadline_ns, bint* wake
) noexcept nogil
cdef bint inbox_take(InboxC* inbox, ItemC* out) noexcept nogil
cdef bint inbox_may_sleep(InboxC* inbox) noexcept nogil
cdef void inbox_awake(InboxC* inbox) noexcept nogil
cdef void inbox_close(InboxC* inbox) noexcept nogil
cdef void inbox_close_lane(InboxC* inbox, LaneC* lane) noexcept nogil
cdef bint inbox_has_place(InboxC* inbox, LaneC* lane) noexcept nogil
cdef void inbox_arrived(InboxC* inbox, LaneC* lane) noexcept nogil
cdef void inbox_publish(InboxC* inbox, LaneC* lane) noexcept nogil

@cython.final
cdef class Inbox:
    cdef InboxC c
