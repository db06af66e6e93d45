# cython: language_level=3
"""Readiness by Linux's epoll, level- and edge-triggered, with waits in nanoseconds.

Closing a descriptor makes epoll forget it, unless a duplicate is open somewhere: then events of the old token go on
coming, and nobody can remove them by number any more. Whoever sees that calls `reset`, which starts with a fresh epoll.
"""

import os

import cython
from cython.cimports.libc.stdint import int64_t, uint32_t, uint64_t
from cython.cimports.libc.stdlib import free, realloc
from cython.cimports.penstock.core.system import (
    ENOMEM,
    ENOSYS,
    PLATFORM_EPOLL_ADD,
    PLATFORM_EPOLL_DEL,
    PLATFORM_EPOLL_MOD,
    PLATFORM_EPOLLERR,
    PLATFORM_EPOLLET,
    PLATFORM_EPOLLHUP,
    PLATFORM_EPOLLIN,
    PLATFORM_EPOLLOUT,
    PLATFORM_EPOLLPRI,
    close,
    platform_epoll_create,
    platform_epoll_ctl,
    platform_epoll_event_size,
    platform_epoll_events_at,
    platform_epoll_token_at,
    platform_epoll_wait,
    platform_unread,
)
from cython.cimports.penstock.core.types import ERROR, HANGUP, PRIORITY, READABLE, WRITABLE, PollerC, ReadyC

from penstock.errors import Unsupported


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _mask(interest: uint32_t, edge: cython.bint) -> uint32_t:
    mask: uint32_t = PLATFORM_EPOLLET if edge else 0
    if interest & READABLE:
        mask |= PLATFORM_EPOLLIN
    if interest & WRITABLE:
        mask |= PLATFORM_EPOLLOUT
    if interest & PRIORITY:
        mask |= PLATFORM_EPOLLPRI
    return mask


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _events(mask: uint32_t) -> uint32_t:
    events: uint32_t = 0
    if mask & PLATFORM_EPOLLIN:
        events |= READABLE
    if mask & PLATFORM_EPOLLOUT:
        events |= WRITABLE
    if mask & PLATFORM_EPOLLERR:
        events |= ERROR
    if mask & PLATFORM_EPOLLHUP:
        events |= HANGUP
    if mask & PLATFORM_EPOLLPRI:
        events |= PRIORITY
    return events


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _add(
    c: cython.pointer[PollerC], fd: cython.int, interest: uint32_t, edge: cython.bint, token: uint64_t
) -> cython.int:
    epoll: cython.pointer[EpollC] = cython.cast(cython.pointer[EpollC], c.state)
    return platform_epoll_ctl(epoll.fd, PLATFORM_EPOLL_ADD, fd, _mask(interest, edge), token)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _modify(
    c: cython.pointer[PollerC], fd: cython.int, interest: uint32_t, edge: cython.bint, token: uint64_t
) -> cython.int:
    epoll: cython.pointer[EpollC] = cython.cast(cython.pointer[EpollC], c.state)
    return platform_epoll_ctl(epoll.fd, PLATFORM_EPOLL_MOD, fd, _mask(interest, edge), token)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _remove(c: cython.pointer[PollerC], fd: cython.int) -> cython.int:
    epoll: cython.pointer[EpollC] = cython.cast(cython.pointer[EpollC], c.state)
    return platform_epoll_ctl(epoll.fd, PLATFORM_EPOLL_DEL, fd, 0, 0)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _wait(
    c: cython.pointer[PollerC], out: cython.pointer[ReadyC], capacity: cython.int, timeout_ns: int64_t
) -> cython.int:
    epoll: cython.pointer[EpollC] = cython.cast(cython.pointer[EpollC], c.state)
    index: cython.int
    if capacity > epoll.capacity:
        events: cython.p_void = realloc(epoll.events, capacity * platform_epoll_event_size())
        if events == cython.NULL:
            return -ENOMEM
        epoll.events = events
        epoll.capacity = capacity
    count: cython.int = platform_epoll_wait(epoll.fd, epoll.events, capacity, timeout_ns, cython.address(epoll.coarse))
    for index in range(count):
        out[index].token = platform_epoll_token_at(epoll.events, index)
        out[index].events = _events(platform_epoll_events_at(epoll.events, index))
    return count


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _unread(c: cython.pointer[PollerC], fd: cython.int) -> int64_t:
    return platform_unread(fd)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _reset(c: cython.pointer[PollerC]) -> cython.int:
    epoll: cython.pointer[EpollC] = cython.cast(cython.pointer[EpollC], c.state)
    fresh: cython.int = platform_epoll_create()
    if fresh < 0:
        return fresh
    if epoll.fd >= 0:
        close(epoll.fd)
    epoll.fd = fresh
    return 0


class EpollPoller(Poller):
    """Linux's epoll."""

    def __cinit__(self):
        self.epoll.fd = -1
        self.c.state = cython.address(self.epoll)
        self.c.add = _add
        self.c.modify = _modify
        self.c.remove = _remove
        self.c.wait = _wait
        self.c.unread = _unread
        self.c.reset = _reset
        self.c.edge = True

    def __init__(self, *, coarse: bool = False):
        self.name = "epoll"
        self.epoll.coarse = coarse
        fd: cython.int = platform_epoll_create()
        if fd == -ENOSYS:
            raise Unsupported(f"this system has no epoll ({os.strerror(-fd)}); use poller='select'")
        if fd < 0:
            raise OSError(-fd, f"poller 'epoll' cannot be opened: {os.strerror(-fd)}")
        self.epoll.fd = fd

    def __dealloc__(self):
        if self.epoll.fd >= 0:
            close(self.epoll.fd)
        free(self.epoll.events)

    def close(self):
        """Close the epoll descriptor."""
        if self.epoll.fd >= 0:
            close(self.epoll.fd)
            self.epoll.fd = -1

    @property
    def coarse(self):
        """Whether waits are rounded up to milliseconds because the kernel offers nothing finer."""
        return bool(self.epoll.coarse)
