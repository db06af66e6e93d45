from penstock.core.types cimport LoopC
from penstock.net.system cimport iovec
from penstock.net.types cimport StreamC
from libc.stdint cimport uint32_t, uint64_t

cdef int stream_ready(LoopC* loop, int fd, uint32_t events, void* context) noexcept nogil
cdef void stream_timer(LoopC* loop, uint64_t timer, void* context) noexcept nogil
cdef int stream_write(StreamC* stream, iovec* pieces, int count, size_t size) noexcept nogil
cdef Py_ssize_t stream_send(StreamC* stream, iovec* pieces, int count, int flags) noexcept nogil
cdef void stream_sent(StreamC* stream, size_t size) noexcept nogil
cdef void stream_pull(StreamC* stream) noexcept nogil
cdef void stream_end(StreamC* stream, int end, int error) noexcept nogil
cdef void stream_note(StreamC* stream) noexcept nogil
cdef void stream_interest(StreamC* stream) noexcept nogil
cdef int stream_arm(StreamC* stream) noexcept nogil
cdef void stream_resume(StreamC* stream) noexcept nogil
cdef void stream_park(StreamC* stream) noexcept nogil
cdef size_t stream_discard(StreamC* stream) noexcept nogil
cdef void stream_end_half(StreamC* stream) noexcept nogil
