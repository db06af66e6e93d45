cimport cython

from penstock.http.answering cimport Answering
from penstock.http.exchange cimport Request
from penstock.http.types cimport HttpC

@cython.final
cdef class Engine(Answering):
    cdef readonly object files
    cdef readonly object log
    cdef readonly object admission
    cdef readonly object options
    cdef readonly object secure     # makes the TLS half of a connection; None: plain
    cdef readonly object trust      # whose word about other addresses counts; None: nobody's
    cdef public object on_idle      # called when the last connection of a draining engine is over
    cdef object __weakref__

    cdef int _set_times(self) except -1
    cdef int _set_trust(self) except -1
    cdef int _rest_over(self) except -1
    cdef bint _make_room(self) except? True
    cdef int _over(self, HttpC* conn) except -1
    cdef int _end_request(self, Request request) except -1
    cdef str _peer(self, HttpC* conn)
    cdef int _release(self) except -1
    cdef int _tell(self, HttpC* conn) except -1
    cdef int _run(self, Request request) except -1

cdef int engine_receive(HttpC* conn, bytes data) except -1
cdef bytes engine_announced(HttpC* conn, bytes data)
cdef int engine_eof(HttpC* conn) except -1
