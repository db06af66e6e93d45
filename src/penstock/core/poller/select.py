# cython: language_level=3
"""Readiness by POSIX select, for systems without anything better: level-triggered, descriptors below 1024.

select says "readable" where others say "hang-up", so what is ready is asked once more with poll(2), which tells them
apart. A hang-up of a descriptor that nobody wants to read is only seen together with an error; that is select's limit.
A descriptor that was closed without being removed is forgotten, as epoll does.
"""

import cython
from cython.cimports.libc.stdint import int64_t, uint32_t, uint64_t
from cython.cimports.penstock.core.system import (
    EBADF,
    EEXIST,
    EINTR,
    EINVAL,
    ENOENT,
    ENOTSUP,
    FD_CLR,
    FD_ISSET,
    FD_SET,
    FD_ZERO,
    POLLERR,
    POLLHUP,
    POLLIN,
    POLLOUT,
    POLLPRI,
    errno,
    fd_set,
    platform_can_wait,
    platform_unread,
    poll,
    pollfd,
    pselect,
    timespec,
)
from cython.cimports.penstock.core.types import ERROR, HANGUP, PRIORITY, READABLE, WRITABLE, PollerC, ReadyC


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _clear(select: cython.pointer[SelectC]) -> cython.void:
    fd: cython.int
    FD_ZERO(cython.address(select.readable))
    FD_ZERO(cython.address(select.writable))
    FD_ZERO(cython.address(select.exceptional))
    select.highest = -1
    select.count = 0
    select.turn = 0
    for fd in range(SELECT_CAPACITY):
        select.place[fd] = -1


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _want(select: cython.pointer[SelectC], fd: cython.int, interest: uint32_t) -> cython.void:
    FD_CLR(fd, cython.address(select.readable))
    FD_CLR(fd, cython.address(select.writable))
    FD_CLR(fd, cython.address(select.exceptional))
    if interest & READABLE:
        FD_SET(fd, cython.address(select.readable))
    if interest & WRITABLE:
        FD_SET(fd, cython.address(select.writable))
    if interest & PRIORITY:
        FD_SET(fd, cython.address(select.exceptional))


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _forget(select: cython.pointer[SelectC], fd: cython.int) -> cython.void:
    index: cython.int = select.place[fd]
    _want(select, fd, 0)
    select.count -= 1
    select.watches[index] = select.watches[select.count]
    select.place[select.watches[index].fd] = index
    select.place[fd] = -1
    while select.highest >= 0 and select.place[select.highest] < 0:
        select.highest -= 1


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _add(
    c: cython.pointer[PollerC], fd: cython.int, interest: uint32_t, edge: cython.bint, token: uint64_t
) -> cython.int:
    select: cython.pointer[SelectC] = cython.cast(cython.pointer[SelectC], c.state)
    failed: cython.int = platform_can_wait(fd)
    if failed < 0:
        return failed
    if edge:
        return -ENOTSUP
    if fd >= SELECT_CAPACITY:
        return -EINVAL
    if select.place[fd] >= 0:
        return -EEXIST
    index: cython.int = select.count
    select.count += 1
    select.place[fd] = index
    select.watches[index].fd = fd
    select.watches[index].interest = interest
    select.watches[index].token = token
    if fd > select.highest:
        select.highest = fd
    _want(select, fd, interest)
    return 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _modify(
    c: cython.pointer[PollerC], fd: cython.int, interest: uint32_t, edge: cython.bint, token: uint64_t
) -> cython.int:
    select: cython.pointer[SelectC] = cython.cast(cython.pointer[SelectC], c.state)
    failed: cython.int = platform_can_wait(fd)
    if failed < 0:
        return failed
    if edge:
        return -ENOTSUP
    if fd >= SELECT_CAPACITY or select.place[fd] < 0:
        return -ENOENT
    select.watches[select.place[fd]].interest = interest
    select.watches[select.place[fd]].token = token
    _want(select, fd, interest)
    return 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _remove(c: cython.pointer[PollerC], fd: cython.int) -> cython.int:
    select: cython.pointer[SelectC] = cython.cast(cython.pointer[SelectC], c.state)
    if fd < 0:
        return -EBADF
    if fd >= SELECT_CAPACITY or select.place[fd] < 0:
        return -ENOENT
    _forget(select, fd)
    return 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _forget_closed(select: cython.pointer[SelectC]) -> cython.void:
    """pselect refused a set with a closed descriptor in it: take those out."""
    index: cython.int = 0
    while index < select.count:
        if platform_can_wait(select.watches[index].fd) == -EBADF:
            _forget(select, select.watches[index].fd)
        else:
            index += 1


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _classify(
    select: cython.pointer[SelectC], fds: cython.pointer[pollfd], count: cython.int, out: cython.pointer[ReadyC]
) -> cython.int:
    """Ask poll(2) what exactly the descriptors that select found are ready for."""
    index: cython.int
    found: cython.int = 0
    while poll(fds, count, 0) < 0:
        if errno != EINTR:
            return -errno
    for index in range(count):
        events: uint32_t = 0
        if fds[index].revents & POLLIN:
            events |= READABLE
        if fds[index].revents & POLLOUT:
            events |= WRITABLE
        if fds[index].revents & POLLERR:
            events |= ERROR
        if fds[index].revents & POLLHUP:
            events |= HANGUP
        if fds[index].revents & POLLPRI:
            events |= PRIORITY
        if events:
            out[found].events = events
            out[found].token = select.watches[select.place[fds[index].fd]].token
            found += 1
    return found


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _collect(
    select: cython.pointer[SelectC],
    readable: cython.pointer[fd_set],
    writable: cython.pointer[fd_set],
    exceptional: cython.pointer[fd_set],
    fds: cython.pointer[pollfd],
    capacity: cython.int,
) -> cython.int:
    """Gather at most `capacity` descriptors that select found, beginning where the last scan ended."""
    count: cython.int = 0
    step: cython.int
    first: cython.int = select.turn
    for step in range(select.count):
        watch: cython.pointer[WatchC] = cython.address(select.watches[(first + step) % select.count])
        fd: cython.int = watch.fd
        if FD_ISSET(fd, readable) or FD_ISSET(fd, writable) or FD_ISSET(fd, exceptional):
            fds[count].fd = fd
            fds[count].revents = 0
            fds[count].events = 0
            if watch.interest & READABLE:
                fds[count].events |= POLLIN
            if watch.interest & WRITABLE:
                fds[count].events |= POLLOUT
            if watch.interest & PRIORITY:
                fds[count].events |= POLLPRI
            count += 1
            select.turn = (first + step + 1) % select.count
            if count == capacity:
                break
    return count


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _wait(
    c: cython.pointer[PollerC], out: cython.pointer[ReadyC], capacity: cython.int, timeout_ns: int64_t
) -> cython.int:
    select: cython.pointer[SelectC] = cython.cast(cython.pointer[SelectC], c.state)
    readable: fd_set = select.readable
    writable: fd_set = select.writable
    exceptional: fd_set = select.exceptional
    fds: pollfd[SELECT_CAPACITY]
    wait: timespec
    wait.tv_sec = timeout_ns // 1000000000
    wait.tv_nsec = timeout_ns % 1000000000
    count: cython.int = pselect(
        select.highest + 1,
        cython.address(readable),
        cython.address(writable),
        cython.address(exceptional),
        cython.NULL if timeout_ns < 0 else cython.address(wait),
        cython.NULL,
    )
    if count < 0 and errno == EBADF:
        watched: cython.int = select.count
        _forget_closed(select)
        # The others may be ready: look again, unless a descriptor was closed and opened just now.
        return _wait(c, out, capacity, timeout_ns) if select.count < watched else 0
    if count < 0:
        return -errno
    if count == 0:
        return 0
    if capacity > SELECT_CAPACITY:
        capacity = SELECT_CAPACITY
    count = _collect(
        select, cython.address(readable), cython.address(writable), cython.address(exceptional), fds, capacity
    )
    return _classify(select, fds, count, out)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _unread(c: cython.pointer[PollerC], fd: cython.int) -> int64_t:
    return platform_unread(fd)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _reset(c: cython.pointer[PollerC]) -> cython.int:
    _clear(cython.cast(cython.pointer[SelectC], c.state))
    return 0


class SelectPoller(Poller):
    """POSIX select."""

    def __cinit__(self):
        _clear(cython.address(self.select))
        self.c.state = cython.address(self.select)
        self.c.add = _add
        self.c.modify = _modify
        self.c.remove = _remove
        self.c.wait = _wait
        self.c.unread = _unread
        self.c.reset = _reset
        self.c.edge = False

    def __init__(self):
        self.name = "select"
