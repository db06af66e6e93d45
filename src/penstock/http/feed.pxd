from libc.stdint cimport uint64_t

from penstock.core.types cimport LoopC
from penstock.http.types cimport EngineC, HttpC, RequestC
from penstock.net.types cimport StreamC

cdef void feed_bytes(HttpC* conn, const char* data, size_t size) noexcept nogil
cdef void feed_rest(HttpC* conn) noexcept nogil
cdef void feed_settle(HttpC* conn) noexcept nogil
cdef void feed_ended(HttpC* conn) noexcept nogil
cdef void feed_done(HttpC* conn, RequestC* request) noexcept nogil
cdef void feed_refuse(RequestC* request, int why) noexcept nogil
cdef void feed_rested(LoopC* loop, uint64_t timer, void* context) noexcept nogil
cdef void feed_expired(EngineC* engine) noexcept nogil
cdef bint feed_data(StreamC* stream, const char* data, size_t size, void* context) noexcept nogil
cdef bint feed_eof(StreamC* stream, void* context) noexcept nogil
cdef int feed_pull(StreamC* stream, void* context) noexcept nogil
cdef bint feed_deadline(StreamC* stream, void* context) noexcept nogil
