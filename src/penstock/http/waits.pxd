from libc.stdint cimport int64_t

from penstock.http.types cimport WaitC, WorkC

cdef void wait_link(WaitC* wait, WorkC* work) noexcept nogil
cdef void wait_unlink(WaitC* wait, WorkC* work) noexcept nogil
# Somebody looks for work: does the queue stand, or does it no longer?
cdef void wait_look(WaitC* wait, int64_t target_ns, int64_t interval_ns, int64_t now_ns) noexcept nogil
