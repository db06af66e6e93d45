cimport cython
from libc.stdint cimport int64_t, uint64_t

from penstock.http.types cimport AdmissionC, WaitC, WorkC

# A request has arrived completely. REFUSE_NONE: it is queued. Else it is not, and the caller refuses it.
cdef int admission_offer(AdmissionC* admission, WorkC* work, int64_t now_ns) noexcept nogil
# The request to begin with now; NULL: none, or as many are in work as may be. It counts as in work from here on.
cdef WorkC* admission_next(AdmissionC* admission, int64_t now_ns) noexcept nogil
# A request that waits and will not be served any more, with the reason; it is out of the queue. NULL: none (now).
cdef WorkC* admission_expired(AdmissionC* admission, int64_t now_ns, int* why) noexcept nogil
# A queued request is withdrawn: its connection is over.
cdef void admission_withdraw(AdmissionC* admission, WorkC* work) noexcept nogil
# Work on a request has ended, however.
cdef void admission_done(AdmissionC* admission, WorkC* work, int64_t now_ns) noexcept nogil
# The instant at which admission_expired may have something again; INT64_MAX: nothing waits.
cdef int64_t admission_due_ns(AdmissionC* admission) noexcept nogil
# Whether it would be wise to read less for a while: refusing costs as much as serving.
cdef bint admission_throttled(AdmissionC* admission, int64_t now_ns) noexcept nogil
# From now on nothing new is taken; what still waits at `until_ns` is given up.
cdef void admission_drain(AdmissionC* admission, int64_t until_ns) noexcept nogil
# Whether it is overloaded now.
cdef bint admission_overloaded(const AdmissionC* admission) noexcept nogil

cdef AdmissionC* admission_of(object admission) except NULL

@cython.final
cdef class Ticket:
    cdef WorkC c
    cdef public object label

@cython.final
cdef class Admission:
    cdef AdmissionC c
    cdef set tickets        # those that wait, so that they live
    cdef _take(self, WorkC* work)
