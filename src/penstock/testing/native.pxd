cimport cython
from libc.stdint cimport int64_t, uint64_t

from penstock.reactor cimport Reactor

cdef enum:
    ECHO_BUFFER_BYTES = 65536

cdef struct EchoC:
    int64_t accepted
    int64_t closed
    int64_t messages
    int64_t received_bytes
    int64_t short_writes
    int64_t share_bytes         # what one connection may move in one turn
    int64_t accept_budget       # connections taken in one turn
    char buffer[ECHO_BUFFER_BYTES]

@cython.final
cdef class EchoServer:
    cdef EchoC c
    cdef Reactor reactor
    cdef readonly int listener

cdef struct CountC:
    int64_t calls
    int64_t events              # of the last call
    int64_t again_left          # how often READY_AGAIN is still answered
    int64_t first_ns            # when the first and the last call came
    int64_t last_ns
    bint timed

@cython.final
cdef class Counter:
    cdef CountC c
    cdef Reactor reactor


@cython.final
cdef class NativeTimer:
    cdef CountC c
    cdef Reactor reactor
    cdef uint64_t identity
