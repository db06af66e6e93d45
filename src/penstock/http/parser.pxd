cimport cython

from penstock.http.types cimport BodyC, BodyLimitsC, HeadC, HeadLimitsC

@cython.final
cdef class Head:
    cdef readonly bytes method
    cdef readonly bytes target
    cdef readonly bytes path
    cdef readonly bytes query
    cdef readonly object host
    cdef readonly int version_minor
    cdef readonly tuple fields
    cdef readonly bint keep_alive
    cdef readonly bint expect_continue
    cdef readonly object length
    cdef readonly bint chunked

@cython.final
cdef class Content:
    cdef readonly bytes data

@cython.final
cdef class End:
    cdef readonly tuple trailers

@cython.final
cdef class Parser:
    cdef HeadC head
    cdef BodyC body
    cdef HeadLimitsC head_limits
    cdef BodyLimitsC body_limits
    cdef int state
    cdef bint keep_alive
    cdef bytearray trailers
    cdef bytearray partial
    cdef int status
    cdef str reason
    cdef int _complain(self, list events) except -1
    cdef int _refuse(self, int status, const char* reason) except -1
    cdef Py_ssize_t _requests(self, const char* data, Py_ssize_t size, list events) except -1
    cdef Py_ssize_t _take_head(self, const char* data, Py_ssize_t size, list events) except -1
    cdef Py_ssize_t _take_body(self, const char* data, Py_ssize_t size, list events) except -1
    cdef int _end(self, list events) except -1
    cdef Head _event(self, const char* data)
    cdef bint _has_host(self) except -1

cdef End END
