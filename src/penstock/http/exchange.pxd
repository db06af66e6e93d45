cimport cython
from cpython.ref cimport PyObject
from libc.stdint cimport uint64_t

from penstock.http.types cimport EngineC, HeadC, HttpC, RequestC, SpanC

cdef RequestC* exchange_new(EngineC* engine, HttpC* conn, const HeadC* head, const char* bytes) noexcept nogil
cdef void exchange_free(RequestC* request) noexcept nogil
cdef int exchange_open(EngineC* engine) noexcept
cdef void exchange_close(EngineC* engine) noexcept nogil
cdef int exchange_keep(RequestC* request, const char* data, size_t size, uint64_t most) noexcept nogil
cdef int exchange_spool(RequestC* request, const char* data, size_t size) noexcept nogil

@cython.final
cdef class Request:
    cdef RequestC* c            # owned
    cdef readonly object engine
    cdef public object context
    cdef readonly str peer
    cdef object on_content      # who streams the content
    cdef object on_gone
    cdef object pieces          # the iterator that makes the answer's content

    cdef object _text(self, SpanC span)

cdef Request request_for(RequestC* c, object engine, str peer)
