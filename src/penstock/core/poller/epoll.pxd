from penstock.core.poller.interface cimport Poller
from penstock.core.types cimport PollerC

cdef struct EpollC:
    int fd
    int coarse          # the running kernel has no wait in nanoseconds
    int capacity        # of `events`
    void* events

cdef class EpollPoller(Poller):
    cdef EpollC epoll
