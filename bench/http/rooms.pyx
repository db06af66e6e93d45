# cython: language_level=3, wraparound=False, boundscheck=False, cdivision=True
"""What one line of the log and one admission cost, from C as the server calls them. Built by rooms.py when it runs."""

from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memset

from penstock.core.system cimport CLOCK_MONOTONIC, clock_gettime, timespec
from penstock.http.admission cimport (
    admission_done,
    admission_expired,
    admission_next,
    admission_of,
    admission_offer,
    admission_overloaded,
)
from penstock.http.log cimport log_line, log_of
from penstock.http.types cimport AdmissionC, LogC, LogLineC, WorkC


cdef int64_t now() noexcept nogil:
    cdef timespec at
    clock_gettime(CLOCK_MONOTONIC, &at)
    return <int64_t>at.tv_sec * 1000000000 + at.tv_nsec


def lines(object owner, uint64_t count, bytes target, bytes agent):
    """Nanoseconds per line. The ring has room for all of them."""
    cdef LogC* log = log_of(owner)
    cdef LogLineC line
    cdef uint64_t index
    memset(&line, 0, sizeof(LogLineC))
    line.peer, line.peer_size = b"192.0.2.17", 10
    line.method, line.method_size = b"GET", 3
    line.target, line.target_size = target, <unsigned int>len(target)
    line.agent, line.agent_size = agent, <unsigned int>len(agent)
    line.minor, line.status, line.sent_bytes = 1, 200, 1300
    cdef int64_t begin = now()
    with nogil:
        for index in range(count):
            line.wall_ns = index * 100000
            log_line(log, &line)
    return (now() - begin) / count


def calm(object owner, uint64_t count, uint64_t peers):
    """Nanoseconds per request that comes, is begun and done at once."""
    cdef AdmissionC* admission = admission_of(owner)
    cdef WorkC work
    cdef uint64_t index
    cdef int64_t at = 1000000000
    cdef int why = 0
    memset(&work, 0, sizeof(WorkC))
    cdef int64_t begin = now()
    with nogil:
        for index in range(count):
            at += 20000
            work.arrival_ns = at
            work.peer = 1 + index % peers
            admission_offer(admission, &work, at)
            admission_expired(admission, at, &why)
            admission_next(admission, at)
            admission_done(admission, &work, at + 10000)
    return (now() - begin) / count


cdef WorkC pool[4096]


def overloaded(object owner, uint64_t count, uint64_t peers):
    """Nanoseconds per request when ten come for each that is served, and whether it was overloaded at the end."""
    cdef AdmissionC* admission = admission_of(owner)
    cdef WorkC* work = NULL
    cdef WorkC* running = NULL
    cdef uint64_t index, place = 0
    cdef int64_t at = 1000000000
    cdef int why = 0
    memset(pool, 0, sizeof(pool))
    cdef int64_t begin = now()
    with nogil:
        for index in range(count):
            at += 100000
            while pool[place].queued or pool[place].running:
                place = (place + 1) & 4095
            pool[place].arrival_ns = at
            pool[place].peer = 1 + (index * 7919) % peers
            admission_offer(admission, &pool[place], at)
            place = (place + 1) & 4095
            if index % 10 == 0:
                if running != NULL:
                    admission_done(admission, running, at)
                while admission_expired(admission, at, &why) != NULL:
                    pass
                running = admission_next(admission, at)
    return (now() - begin) / count, bool(admission_overloaded(admission))
