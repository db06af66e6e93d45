cimport cython
from libc.stdint cimport int64_t

from penstock.core.loop cimport Loop
from penstock.http.exchange cimport Request
from penstock.http.types cimport EngineC, HttpC

cdef class Answering:
    cdef EngineC c
    cdef readonly Loop loop
    cdef readonly object handler
    cdef public object on_error
    cdef readonly list recent       # what went wrong lately, for the status page
    cdef object work                # the bound method, made once

    cdef int _done(self, Request request) except -1
    cdef int _let_go(self, Request request) except -1
    cdef int _schedule(self) except -1
    cdef int _failed(self, object error, object what) except -1
    cdef bint _begin_answer(self, Request request, object response) except? True
    cdef int _broken(self, Request request, HttpC* conn, int64_t size) except -1
    cdef int _put_content(self, HttpC* conn, object body, int64_t size) except -1
    cdef int _finish(self, Request request) except -1
    cdef int _piece(self, Request request) except -1
    cdef int _pause(self, Request request) except -1
    cdef int _wait(self, HttpC* conn) except -1
    cdef int _send_piece(self, Request request, bytes piece) except -1
    cdef int _too_much(self, Request request, bytes piece) except -1
    cdef int _end_pieces(self, Request request) except -1
    cdef int _abort(self, Request request) except -1
    cdef int _give_content(self, Request request) except -1
