from libc.stdint cimport int64_t, uint32_t, uint64_t

from penstock.core.system cimport pthread_cond_t, pthread_mutex_t
from penstock.core.types cimport LoopC, PollerC

cdef enum:
    CREW_TURN = 0           # why somebody enters: to run the loop,
    CREW_IO = 1             # ... to start or cancel operations,
    CREW_REGISTRATION = 2   # ... to open or close descriptors, to start timers
    CREW_REASONS = 3

cdef struct CrewC:
    pthread_mutex_t lock
    pthread_cond_t called       # followers wait for this
    bint ready                  # both exist
    unsigned long owner         # the thread that has the lock; 0: nobody. Atomic
    uint32_t depth              # how often it has entered
    bint locking[CREW_REASONS]
    uint32_t spins[CREW_REASONS]
    LoopC* loop
    PollerC poller              # what the loop polls: the one behind, without the lock while that waits
    PollerC* behind
    bint leading                # somebody is in the native half of a turn
    bint open                   # ... and that turn is not accounted for
    bint sleeping               # ... and waits in the poller, without the lock
    bint woken                  # ... and has been told to come back
    bint calling                # a follower has been called, and is not here yet
    int64_t until_ns            # when the sleep ends
    uint32_t followers
    uint32_t threads            # that run the loop
    uint32_t busy               # of these, in a handler
    uint32_t posts              # what is left of this turn's generation
    uint32_t completions
    uint32_t deferred
    uint64_t locks
    uint64_t contended
    uint64_t blocked
    uint64_t calls
    uint64_t waits
    uint64_t handed_over

cdef int crew_init(CrewC* crew, LoopC* loop) noexcept nogil
cdef void crew_free(CrewC* crew) noexcept nogil
cdef int crew_after_fork(CrewC* crew) noexcept nogil
cdef void crew_lock(CrewC* crew, int reason) noexcept nogil
cdef void crew_leave(CrewC* crew, int reason) noexcept nogil
cdef void crew_enter(CrewC* crew, int reason) noexcept
cdef void crew_follow(CrewC* crew, int64_t deadline_ns) noexcept nogil
cdef void crew_call_all(CrewC* crew) noexcept nogil
cdef bint crew_has_work(CrewC* crew) noexcept nogil
cdef void crew_begin(CrewC* crew) noexcept nogil
