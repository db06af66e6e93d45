cimport cython
from cpython.ref cimport PyObject
from libc.stdint cimport uint32_t

from penstock.core.loop cimport Loop
from penstock.core.types cimport LoopC
from penstock.net.shared cimport Net
from penstock.net.stream cimport Stream

cdef struct ListenerC:
    LoopC* loop
    PyObject* owner         # borrowed: the object that this structure lives in
    int fd
    uint32_t budget         # connections accepted in one turn
    int* accepted           # their descriptors; next..count wait for Python
    uint32_t next
    uint32_t count
    int error               # errno of the accept call that failed, 0: none

@cython.final
cdef class Listener:
    cdef ListenerC c
    cdef readonly Loop loop
    cdef Net net
    cdef readonly object options
    cdef public object on_accept
    cdef public object on_refuse
    cdef readonly object connections_max
    cdef readonly object per_address_max
    cdef readonly str when_full
    cdef readonly object open
    cdef readonly object accepted
    cdef readonly object refused
    cdef readonly object evicted
    cdef readonly object starved
    cdef list ages              # heap of (when active, number, stream), only for eviction
    cdef dict by_address        # the streams of each peer, only for a limit per address
    cdef object pause_timer
    cdef object reported_ns
    cdef object path
    cdef object __weakref__

    cdef int _begin(self, Loop loop, int fd) except -1
    cdef int _dispatch(self) except -1
    cdef int _admit(self, int fd) except -1
    cdef int _refuse(self, int fd, str why) except -1
    cdef bint _make_room(self, bytes key) except -1
    cdef Stream _oldest(self)
    cdef int _starve(self, int error) except -1
    cdef int _finish(self, bint ours) except -1
