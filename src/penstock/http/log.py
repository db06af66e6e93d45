# cython: language_level=3
"""The access log: lines go into a bounded ring without waiting for anything, and a thread writes them.

    loop: log_line  ->  [ ring of bytes ]  ->  thread: write  ->  file

The lock of the ring is held while one line is made or a position is moved, never during a write. The writer sleeps until
there is a first line, gathers for a moment, and writes what is there in one call. If that fails (no space left, a broken
pipe) it tries again later, from the very byte it had come to; meanwhile the ring fills, and lines that find no room are
dropped and counted. So the file never has half a line in its middle, and recovers when the disk has room.

`reopen` is for rotation: what was logged before goes to the old file, then the name is opened anew. `-` is standard
output. A log belongs to the process that made it: a server makes its log after it has forked its workers, and a log
that came along in a fork drops everything and touches nothing.

This file must not know what a line looks like.
"""

import atexit
import os
import stat
import threading

import cython
from cython.cimports.libc.stdint import int64_t, uint32_t, uint64_t
from cython.cimports.libc.stdlib import free, malloc
from cython.cimports.libc.string import memcpy, memset
from cython.cimports.penstock.core.system import (
    CLOCK_MONOTONIC,
    EINTR,
    EIO,
    clock_gettime,
    errno,
    platform_cond_init,
    platform_cond_wait_until,
    platform_fork_count,
    platform_watch_forks,
    pthread_cond_broadcast,
    pthread_cond_destroy,
    pthread_cond_signal,
    pthread_mutex_destroy,
    pthread_mutex_init,
    pthread_mutex_lock,
    pthread_mutex_unlock,
    timespec,
    write,
)
from cython.cimports.penstock.http.lines import format_free, format_init, format_line
from cython.cimports.penstock.http.types import LogC, LogLineC

from penstock import limits
from penstock.errors import UsageError
from penstock.limits import NS_PER_S, require_whole

GATHER_NS = cython.declare(int64_t, limits.HTTP_LOG_GATHER_NS)
RETRY_NS = cython.declare(int64_t, limits.HTTP_LOG_RETRY_NS)
# A sleep without anything to do; a wake-up that got lost would be noticed after it.
SLEEP_NS = cython.declare(int64_t, limits.WAIT_MAX_NS)
CLOSE_TIMEOUT = limits.HTTP_LOG_CLOSE_TIMEOUT_NS / NS_PER_S

# What the writer's loop comes back for.
REOPEN = cython.declare(cython.int, 1)
STOP = cython.declare(cython.int, 2)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _after(delay_ns: int64_t) -> int64_t:
    now: timespec
    clock_gettime(CLOCK_MONOTONIC, cython.address(now))
    return cython.cast(int64_t, now.tv_sec) * 1000000000 + now.tv_nsec + delay_ns


# ---- the loop's end of the ring --------------------------------------------------------------------------------------


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _push(log: cython.pointer[LogC], size: uint64_t) -> cython.bint:
    """Bring the line in `scratch` into the ring. False: no room."""
    if log.capacity - (log.head - log.tail) < size:
        return False
    start: uint64_t = log.head % log.capacity
    first: uint64_t = log.capacity - start
    if first > size:
        first = size
    memcpy(log.data + start, log.scratch, first)
    memcpy(log.data, log.scratch + first, size - first)
    log.head += size
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def log_line(log: cython.pointer[LogC], line: cython.pointer[cython.const[LogLineC]]) -> cython.void:
    """Put a line into the ring; if there is no room it is dropped and counted."""
    if platform_fork_count() != log.forks:
        log.dropped += 1
        return
    wake: cython.bint = False
    pthread_mutex_lock(cython.address(log.lock))
    log.skipped_row += 1
    if log.skipped_row < log.sample:
        log.skipped += 1
    else:
        log.skipped_row = 0
        if not log.stopping and _push(log, format_line(cython.address(log.format), line, log.scratch)):
            log.lines += 1
            wake = log.idle or (log.gathering and (log.head - log.tail) * 2 >= log.capacity)
        else:
            log.dropped += 1
    pthread_mutex_unlock(cython.address(log.lock))
    if wake:
        pthread_cond_signal(cython.address(log.wake))


# ---- the writer's end ------------------------------------------------------------------------------------------------


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _wait_for_lines(log: cython.pointer[LogC]) -> cython.void:
    """Sleep until there is something to write or to do, then gather more for a moment. The lock is held."""
    while log.head == log.tail and not log.stopping and not log.reopening:
        log.hurry = False
        pthread_cond_broadcast(cython.address(log.written))
        log.idle = True
        platform_cond_wait_until(cython.address(log.wake), cython.address(log.lock), _after(SLEEP_NS))
        log.idle = False
    until_ns: int64_t = _after(GATHER_NS)
    while (log.head - log.tail) * 2 < log.capacity and not log.stopping and not log.reopening and not log.hurry:
        log.gathering = True
        late: cython.int = platform_cond_wait_until(cython.address(log.wake), cython.address(log.lock), until_ns)
        log.gathering = False
        if late != 0:
            break


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _write_some(log: cython.pointer[LogC]) -> cython.int:
    """Write one stretch of the ring. The lock is held, but not during the write. Returns 0 or the error."""
    start: uint64_t = log.tail % log.capacity
    size: uint64_t = log.head - log.tail
    if size > log.capacity - start:
        size = log.capacity - start
    fd: cython.int = log.fd
    pthread_mutex_unlock(cython.address(log.lock))
    count: cython.Py_ssize_t = write(fd, log.data + start, size)
    failed: cython.int = 0 if count > 0 else EIO if count == 0 else errno
    pthread_mutex_lock(cython.address(log.lock))
    if failed == EINTR:
        return 0
    log.error = failed
    if failed != 0:
        log.errors += 1
        return failed
    log.tail += count
    log.written_bytes += count
    log.torn = log.data[(log.tail - 1) % log.capacity] != 10
    if log.hurry:
        pthread_cond_broadcast(cython.address(log.written))
    return 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _work(log: cython.pointer[LogC]) -> cython.int:
    """Write until there is something to do that needs Python: REOPEN or STOP."""
    answer: cython.int = 0
    pthread_mutex_lock(cython.address(log.lock))
    while answer == 0:
        _wait_for_lines(log)
        failed: cython.int = 0
        if log.head != log.tail:
            failed = _write_some(log)
        if log.reopening and (failed != 0 or (log.tail >= log.reopen_at and not log.torn)):
            answer = REOPEN
        if log.stopping and (failed != 0 or log.head == log.tail):
            answer = STOP
        if failed != 0 and answer == 0:
            platform_cond_wait_until(cython.address(log.wake), cython.address(log.lock), _after(RETRY_NS))
    pthread_mutex_unlock(cython.address(log.lock))
    return answer


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _drop_rest_of_line(log: cython.pointer[LogC]) -> cython.void:
    """The file that has the beginning of a line is gone: what is left of that line is nothing. The lock is held."""
    if log.torn:
        while log.tail < log.head and log.data[log.tail % log.capacity] != 10:
            log.tail += 1
        if log.tail < log.head:
            log.tail += 1
        log.torn = False
        log.dropped += 1


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _drop_all(log: cython.pointer[LogC]) -> cython.void:
    """Count the lines that will never be written."""
    while log.tail < log.head:
        if log.data[log.tail % log.capacity] == 10:
            log.dropped += 1
        log.tail += 1


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _ask(log: cython.pointer[LogC], stopping: cython.bint, reopening: cython.bint) -> cython.void:
    """Tell the writer what is wanted."""
    pthread_mutex_lock(cython.address(log.lock))
    log.stopping |= stopping
    if reopening and not log.reopening:
        log.reopening = True
        log.reopen_at = log.head
    pthread_mutex_unlock(cython.address(log.lock))
    pthread_cond_signal(cython.address(log.wake))


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _flush(log: cython.pointer[LogC], timeout_ns: int64_t) -> cython.bint:
    """Wait until what is in the ring now is written and what was asked for is done. False: it was not, in time."""
    until_ns: int64_t = _after(timeout_ns)
    pthread_mutex_lock(cython.address(log.lock))
    goal: uint64_t = log.head
    late: cython.int = 0
    while (log.tail < goal or log.reopening) and late == 0:
        log.hurry = True
        pthread_cond_signal(cython.address(log.wake))
        late = platform_cond_wait_until(cython.address(log.written), cython.address(log.lock), until_ns)
    done: cython.bint = log.tail >= goal and not log.reopening
    pthread_mutex_unlock(cython.address(log.lock))
    return done


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _switch(log: cython.pointer[LogC], fd: cython.int, other: cython.bint) -> cython.void:
    """Go on with a new descriptor; -1: it could not be had, and the old one stays."""
    pthread_mutex_lock(cython.address(log.lock))
    log.reopening = False
    if fd < 0:
        log.reopen_errors += 1
    else:
        log.fd = fd
        log.reopened += 1
        if other:
            _drop_rest_of_line(log)
    pthread_cond_broadcast(cython.address(log.written))
    pthread_mutex_unlock(cython.address(log.lock))


# ---- files -----------------------------------------------------------------------------------------------------------


def _open(target, torn=False):
    """Open the log's file; OSError. Never waits: a pipe without a reader is an error."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK
    fd = os.open(target, flags, 0o640)
    try:
        os.set_blocking(fd, True)
        if not torn and stat.S_ISREG(os.fstat(fd).st_mode):
            _end_last_line(target, fd)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _end_last_line(target, fd):
    """Whoever wrote this file before may have been killed in the middle of a line."""
    size = os.fstat(fd).st_size
    if size == 0:
        return
    try:
        other = os.open(target, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:  # a file that may only be written
        return
    try:
        if os.pread(other, 1, size - 1) != b"\n":
            os.write(fd, b"\n")
    except OSError:  # no space left: that is for the writer to find out
        pass
    finally:
        os.close(other)


def _write_on(log: Log):
    """What the writer's thread does."""
    what: cython.int = REOPEN
    while what == REOPEN:
        with cython.nogil:
            what = _work(cython.address(log.c))
        if what == REOPEN:
            _reopen_now(log)


def _reopen_now(log: Log):
    """Open the file's name anew. If it still is the same file, nothing changes."""
    if log.target == "-":
        _switch(cython.address(log.c), log.c.fd, False)
        return
    old = log.c.fd
    try:
        before = os.fstat(old)
        new = _open(log.target, torn=log.c.torn)
    except OSError:
        _switch(cython.address(log.c), -1, False)
        return
    other = not os.path.samestat(before, os.fstat(new))
    _switch(cython.address(log.c), new, other)
    os.close(old)


# ---- the door for Python ---------------------------------------------------------------------------------------------


def log_of(log):
    """The structure inside a Log, for compiled code; it lives as long as the object."""
    if not isinstance(log, Log):
        raise UsageError(f"log is a {type(log).__name__}; give a penstock.http.log.Log")
    return cython.address(cython.cast(Log, log).c)


class Log:
    """An access log that is being written. Make it after forking, and close it."""

    def __cinit__(
        self,
        target: object,
        format: object = "common",
        sample: object = 1,
        ring_bytes: object = limits.HTTP_LOG_RING_BYTES,
        query: bool = True,
    ):
        memset(cython.address(self.c), 0, cython.sizeof(LogC))
        self.c.fd = -1
        self.closed = True
        if not isinstance(target, str) or not target or "\0" in target:
            raise UsageError(f"target is {target!r}; give the name of a file, or - for standard output")
        require_whole("sample", sample, 1, limits.HTTP_LOG_SAMPLE_MAX)
        require_whole("ring_bytes", ring_bytes, limits.HTTP_LOG_RING_MIN_BYTES, limits.HTTP_LOG_RING_MAX_BYTES)
        self.target = target
        self.c.sample = sample
        self.c.capacity = ring_bytes
        platform_watch_forks()
        self.c.forks = platform_fork_count()
        format_init(cython.address(self.c.format), format, query)
        self.c.data = cython.cast(cython.p_char, malloc(self.c.capacity))
        self.c.scratch = cython.cast(cython.p_char, malloc(self.c.format.line_max))
        if self.c.data == cython.NULL or self.c.scratch == cython.NULL:
            raise MemoryError(f"no memory for a log's ring of {ring_bytes:,} bytes")
        if pthread_mutex_init(cython.address(self.c.lock), cython.NULL) != 0:
            raise MemoryError("no lock for a log")
        platform_cond_init(cython.address(self.c.wake))
        platform_cond_init(cython.address(self.c.written))
        self.c.ready = True
        try:
            self.c.fd = os.dup(1) if target == "-" else _open(target)
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise UsageError(f"the access log {target!r} cannot be written: {reason}; give a file that can") from None
        self.thread = threading.Thread(target=_write_on, args=(self,), name="penstock-log", daemon=True)
        self.thread.start()
        self.closed = False
        atexit.register(self.close)

    def __dealloc__(self):
        # The thread holds a reference, so it has ended; what was never closed had never begun.
        if self.c.ready:
            pthread_cond_destroy(cython.address(self.c.wake))
            pthread_cond_destroy(cython.address(self.c.written))
            pthread_mutex_destroy(cython.address(self.c.lock))
        format_free(cython.address(self.c.format))
        free(self.c.data)
        free(self.c.scratch)

    def foreign(self):
        """Whether this process got the log in a fork."""
        return platform_fork_count() != self.c.forks

    def put(
        self,
        peer: bytes = b"",
        method: bytes = b"",
        target: bytes = b"",
        referer: bytes = b"",
        agent: bytes = b"",
        minor: uint32_t = 1,
        status: uint32_t = 200,
        sent_bytes: uint64_t = 0,
        wall_ns: int64_t = 0,
        took_ns: int64_t = 0,
    ):
        """Log one request."""
        line: LogLineC
        line.peer, line.peer_size = peer, len(peer)
        line.method, line.method_size = method, len(method)
        line.target, line.target_size = target, len(target)
        line.referer, line.referer_size = referer, len(referer)
        line.agent, line.agent_size = agent, len(agent)
        line.minor, line.status = minor, status
        line.sent_bytes, line.wall_ns, line.took_ns = sent_bytes, wall_ns, took_ns
        if self.closed:
            self.c.dropped += 1
        else:
            log_line(cython.address(self.c), cython.address(line))

    def reopen(self):
        """Have the writer open the file anew, after what was logged before. Returns at once."""
        if not self.closed and not self.foreign():
            _ask(cython.address(self.c), False, True)

    def flush(self, timeout: float = CLOSE_TIMEOUT):
        """Wait until what was logged before is written and the file is reopened. False: that took too long."""
        if self.closed or self.foreign():
            return False
        timeout_ns: int64_t = int(timeout * NS_PER_S)
        done: cython.bint
        with cython.nogil:
            done = _flush(cython.address(self.c), timeout_ns)
        return bool(done)

    def close(self, timeout: float = CLOSE_TIMEOUT):
        """Write what is left and close the file. False: that took too long, or some of it could not be written."""
        if self.closed:
            return True
        self.closed = True
        atexit.unregister(self.close)
        if self.foreign():
            os.close(self.c.fd)
            return False
        _ask(cython.address(self.c), True, False)
        self.thread.join(timeout)
        if self.thread.is_alive():
            return False
        os.close(self.c.fd)
        complete = self.c.head == self.c.tail
        _drop_all(cython.address(self.c))
        return complete

    def counters(self):
        """What has happened so far."""
        return {
            "lines": self.c.lines,
            "skipped": self.c.skipped,
            "dropped": self.c.dropped,
            "written_bytes": self.c.written_bytes,
            "waiting_bytes": self.c.head - self.c.tail,
            "errors": self.c.errors,
            "error": self.c.error,
            "reopened": self.c.reopened,
            "reopen_errors": self.c.reopen_errors,
        }
