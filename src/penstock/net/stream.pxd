cimport cython
from cpython.ref cimport PyObject
from libc.stdint cimport uint32_t

from penstock.core.loop cimport Loop
from penstock.net.shared cimport Net
from penstock.net.types cimport StreamC

@cython.final
cdef class Stream:
    cdef StreamC c
    cdef readonly Loop loop
    cdef Net net
    cdef readonly object options
    cdef public object on_connect
    cdef object data_callback
    cdef public object on_eof
    cdef public object on_drain
    cdef public object on_close
    cdef object held
    cdef object listener        # who accepted it, and counts it
    cdef object key             # the listener's word for its peer
    cdef public object context
    cdef object __weakref__

    cdef int _begin(self, Loop loop, int fd, object options, bint connecting) except -1
    cdef bint _written(self, int outcome, size_t size) except? True
    cdef bint _write_pieces(self, tuple pieces) except? True
    cdef int _call(self, object handler, PyObject* argument) except -1
    cdef int _tell_data(self) except -1
    cdef int _tell(self) except -1
    cdef int _dispatch(self) except -1
    cdef int _finish(self, bint ours) except -1
    cdef int _wanted(self) except -1
    cdef int _armed(self) except -1
    cdef int _tell_eof(self) except -1
    cdef int _close_fd(self) except -1
    cdef int _end(self, int end, int error) except -1

cdef Stream stream_adopt(Loop loop, int fd, object options, object listener)
cdef int stream_evict(Stream stream) except -1
cdef int stream_fail(Stream stream) except -1
