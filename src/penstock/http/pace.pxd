from libc.stdint cimport int64_t, uint32_t

from penstock.http.types cimport PaceC

cdef void pace_init(PaceC* pace, uint32_t most) noexcept nogil
cdef void pace_begin(PaceC* pace) noexcept nogil
# Work on a request has ended that took so long; whether more wait.
cdef void pace_done(PaceC* pace, int64_t took_ns, bint backlog, int64_t now_ns) noexcept nogil
