from libc.stdint cimport uint32_t, uint64_t

from penstock.core.poller.interface cimport Poller
from penstock.core.system cimport fd_set, pollfd

cdef enum:
    SELECT_CAPACITY = 1024      # FD_SETSIZE of every system that we know

cdef struct WatchC:
    int fd
    uint32_t interest
    uint64_t token

cdef struct SelectC:
    fd_set readable
    fd_set writable
    fd_set exceptional
    int highest                         # the highest descriptor watched
    int count
    int turn                            # where the next scan begins, so that a small batch starves nobody
    WatchC watches[SELECT_CAPACITY]     # dense, in no order
    int place[SELECT_CAPACITY]          # descriptor -> index in `watches`, or -1

cdef class SelectPoller(Poller):
    cdef SelectC select
