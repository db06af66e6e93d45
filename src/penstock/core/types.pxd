# Every C structure of the kernel, nothing else.
#
# State that is touched without the GIL lives here; free functions of the modules named below work on pointers to it, and
# one thin final class per room embeds it for Python. Structures only reach downwards: a ring knows no lane, a lane no loop.
from cpython.ref cimport PyObject
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from penstock.core.system cimport pthread_cond_t, pthread_mutex_t

cdef struct LoopC
cdef struct PollerC
cdef struct OperationC
cdef struct DescriptorC

# ---- words of every room ---------------------------------------------------------------------------------------------

cdef enum:
    # What a descriptor can be ready for; the same numbers as in poller/events.py.
    READABLE = 1
    WRITABLE = 2
    ERROR = 4
    HANGUP = 8
    PRIORITY = 16
    # Above this bit: the errno of a poller that could not watch; it stands for ERROR too.
    FAULT_SHIFT = 16
    # What a native handler answers; READY_PYTHON may be added to either.
    READY_DONE = 0
    READY_AGAIN = 1
    READY_PYTHON = 2
    # What a completion is told when its registration ends without the handler's doing.
    REGISTRATION_OVER = 0x80000000

# ---- what a handler without the GIL looks like ----------------------------------------------------------------------

# Called in the readiness step. Returns READY_DONE, or READY_AGAIN if it stopped at its share and the descriptor is still
# ready: it is then called again in the next turn, behind the others. With READY_PYTHON added, the registration's
# completion is called in this turn's batch.
ctypedef int (*native_ready_t)(LoopC* loop, int fd, uint32_t events, void* context) noexcept nogil
# Called in the timer step; `timer` is the identity that timers_start gave out.
ctypedef void (*native_timer_t)(LoopC* loop, uint64_t timer, void* context) noexcept nogil
# The half of a native handler that needs the GIL: called in step 5 with the events of the handler's call. It contains the
# errors of what it calls; what it raises leaves `run`. REGISTRATION_OVER: the loop closes, or the number was registered
# anew; there is no registration any more, and this is the last call.
ctypedef int (*native_complete_t)(LoopC* loop, int fd, uint32_t events, void* context) except -1

# ---- clock.py -------------------------------------------------------------------------------------------------------

cdef struct ClockC:
    bint manual
    int64_t manual_ns

cdef struct TickC:
    int64_t period_ns
    int64_t next_ns
    uint64_t fired
    uint64_t missed

# ---- ring.py --------------------------------------------------------------------------------------------------------

cdef struct ItemC:
    void* first
    void* second
    int64_t mark            # what the queue's owner wants to remember of the item

cdef struct RingC:
    ItemC* slots
    uint64_t mask
    uint64_t capacity
    uint64_t head           # the next to pop; head and tail only grow, until the ring is empty
    uint64_t tail           # the next to push

# ---- budget.py ------------------------------------------------------------------------------------------------------

cdef struct BudgetC:
    int64_t limit
    int64_t left
    int unit                # UNIT_WORK, UNIT_NS
    int refill              # REFILL_TURN, REFILL_TICK
    bint keep               # a denied event stays (or is dropped)
    uint64_t epoch          # the turn or tick of the last refill
    uint64_t denied_epoch   # ... of the last denial of an event that stayed: counted once per refill
    uint64_t spent
    uint64_t spent_before   # at the last refill
    uint64_t overrun        # what handlers took beyond what was left; never borrowed from the next refill
    uint64_t denied
    uint64_t refills

# ---- lane.py --------------------------------------------------------------------------------------------------------

cdef struct LaneC:
    RingC ring
    BudgetC budget
    int overflow            # OVERFLOW_...
    int32_t priority
    uint32_t index          # the order of creation; the order among equal priorities
    uint32_t in_flight      # a blocking lane's places promised to events that are in the inbox; under the inbox's lock
    uint64_t published      # what other threads may know of its depth; under the inbox's lock
    uint64_t barrier        # the step that runs now must not reach items that were offered later
    bint closed
    uint64_t* pending       # the sums that the owner of several lanes keeps over all of them; never NULL
    uint64_t* drops
    uint64_t own_pending    # ... or the lane itself, while it has no owner
    uint64_t own_drops
    uint64_t offered        # every attempt to push
    uint64_t run
    uint64_t high_water
    uint64_t dropped_oldest
    uint64_t dropped_newest
    uint64_t dropped_denied
    uint64_t dropped_closed
    uint64_t coalesced
    uint64_t rejected
    uint64_t reported       # of all that was dropped: what a hook was told

# ---- timers.py ------------------------------------------------------------------------------------------------------

cdef struct TimerKeyC:      # what the heap compares, so that no comparison follows a pointer
    int64_t deadline_ns
    uint64_t sequence
    uint32_t slot

cdef struct TimerC:
    void* first             # the callable, or a native_timer_t
    void* second            # its arguments, or its context
    int64_t deadline_ns
    int64_t period_ns       # 0: fires once
    uint32_t generation
    uint32_t position       # in the heap, or TIMER_DUE, TIMER_FREE
    uint32_t next_free
    uint8_t native

cdef struct TimersC:
    TimerKeyC* heap
    TimerC* slots
    uint32_t size           # in the heap
    uint32_t live           # in the heap, or due and not run yet; one slot each
    uint32_t used           # slots ever used
    uint32_t allocated
    uint32_t capacity
    uint32_t first_free
    uint64_t sequence
    uint64_t started
    uint64_t cancelled
    uint64_t moved
    uint64_t fired
    uint64_t missed_periods
    uint64_t high_water

# ---- poller/ --------------------------------------------------------------------------------------------------------

cdef struct ReadyC:
    uint64_t token          # generation << 32 | fd
    uint32_t events

ctypedef int (*poller_change_t)(PollerC* poller, int fd, uint32_t interest, bint edge, uint64_t token) noexcept nogil
ctypedef int (*poller_remove_t)(PollerC* poller, int fd) noexcept nogil
ctypedef int (*poller_wait_t)(PollerC* poller, ReadyC* out, int capacity, int64_t timeout_ns) noexcept nogil
ctypedef int64_t (*poller_unread_t)(PollerC* poller, int fd) noexcept nogil
ctypedef int (*poller_reset_t)(PollerC* poller) noexcept nogil

cdef struct PollerC:        # all calls return -errno on failure
    void* state
    poller_change_t add
    poller_change_t modify
    poller_remove_t remove
    poller_wait_t wait
    poller_unread_t unread  # bytes that a read would give now, 0 where unknown
    poller_reset_t reset    # forget everything that was added
    bint edge               # knows edge-triggered registrations
    bint simulated          # moves the clock by itself while it waits
    bint lazy               # descriptors are added when there is something to wait for, interest by interest

# ---- registry.py ----------------------------------------------------------------------------------------------------

cdef struct RegistrationC:
    PyObject* callback      # NULL for a native handler
    PyObject* number        # the descriptor's number as an object, so that a dispatch allocates nothing
    native_ready_t native
    native_complete_t complete  # of a native handler; may be NULL
    void* context
    uint32_t generation
    uint32_t interest       # what is wanted
    uint32_t applied        # what the poller knows
    uint32_t again_events
    int32_t again_next
    bint live
    bint edge
    bint internal           # the loop's own: keeps no loop alive, is not counted
    bint owned              # a descriptor record's: its operations keep the loop alive, not the registration
    bint changed            # waits in the list of changes
    bint again              # waits in the list of those that stopped at their share
    int32_t changed_next

cdef struct RegistryC:
    RegistrationC* table    # by descriptor number
    uint32_t size
    uint32_t capacity
    uint32_t live           # without the internal ones
    uint32_t owned          # of these, those that belong to descriptor records
    uint32_t high_water
    uint32_t generation
    int32_t changed_first, changed_last
    int32_t again_first, again_last
    uint64_t registered
    uint64_t replaced

# ---- waker.py, inbox.py ---------------------------------------------------------------------------------------------

cdef struct WakerC:
    int read_fd
    int write_fd
    uint64_t wakes
    uint64_t drained

cdef enum:
    POST_CALL = 0           # an item of the inbox: a callable and its arguments
    POST_LANE = 1           # ... or a lane and an event

cdef struct InboxC:
    pthread_mutex_t lock
    pthread_cond_t room
    RingC ring
    bint ready              # lock and condition exist
    bint closed
    bint sleeping           # the loop blocks, or is about to
    int filled              # read without the lock: something is there
    uint32_t waiting        # threads that wait for room
    uint64_t posted
    uint64_t rejected
    uint64_t waited
    uint64_t high_water

# ---- probes.py ------------------------------------------------------------------------------------------------------

cdef enum:
    HISTOGRAM_BUCKETS = 48
    RECORDER_TURNS = 64
    SUSPECTS = 16

cdef struct HistogramC:     # bucket k counts the values v with 2^(k-1) <= v < 2^k
    uint64_t total
    uint64_t highest
    uint64_t buckets[HISTOGRAM_BUCKETS]

cdef struct TurnC:          # one line of the flight recorder
    uint64_t number
    int64_t start_ns
    int64_t asleep_ns
    int64_t busy_ns
    uint32_t ready
    uint32_t posts
    uint32_t timers
    uint32_t deferred
    uint32_t events
    uint32_t left           # steps that reached their limit

cdef struct SlowC:           # the handlers between two looks at the clock; see probes.py on strides
    int64_t took_ns
    int count
    int fds[SUSPECTS]
    PyObject* handlers[SUSPECTS]    # owned; NULL for a native handler

cdef struct LongestC:
    int64_t busy_ns
    uint64_t turn
    SlowC slow

cdef struct ProbesC:        # what every turn touches stands together
    int64_t mark_ns         # the last look at the clock
    int stride              # handlers between two looks
    int due_in              # ... of them to come before the next one; `stride` if none has run since the last one
    PyObject* same          # the last handler of `now` if it has no descriptor, borrowed from there; else NULL
    bint long_way           # this turn has several suspects, or had a look at the clock, or nothing is pending
    int64_t pending_ns      # the duration of a turn that is not in `turn_ns` yet; -1 for none
    uint64_t python_turns   # the turns that took the GIL
    uint64_t polls
    uint64_t polls_skipped
    uint64_t deferred
    uint64_t deferred_high_water
    LongestC longest        # of all turns whose slowest handler was Python's
    SlowC now               # since the last look; one may be kept over turns in which it runs alone
    SlowC slowest           # of this turn
    SlowC native_now
    SlowC native_slowest
    LongestC native_longest # of all turns whose slowest handler was native
    uint64_t waits
    uint64_t approaches     # waits that were cut short to be punctual
    uint64_t asleep_ns
    uint64_t ready
    uint64_t ready_native
    uint64_t ready_python
    uint64_t stale
    uint64_t errors
    uint64_t deferred_refused
    uint64_t closed_drops   # what close() found waiting in the inbox and among the deferred
    uint64_t timers_left    # turns whose timer step reached its budget
    uint64_t inbox_left
    uint64_t lanes_left
    uint64_t ready_left
    uint64_t signals
    uint64_t poller_resets
    uint64_t changes
    uint64_t changes_failed
    HistogramC turn_ns
    HistogramC late_ns
    HistogramC batch
    TurnC recorder[RECORDER_TURNS]

# ---- operation.py ---------------------------------------------------------------------------------------------------

cdef enum:
    # The kinds of operations: the index of their queue. A connect is a write.
    OPERATION_READ = 0
    OPERATION_WRITE = 1
    OPERATION_EXCEPT = 2
    OPERATION_KINDS = 3
    # What `perform` answers.
    PERFORM_BLOCKED = 0     # not done: it would block
    PERFORM_DONE = 1
    PERFORM_EXHAUSTED = 2   # done, and the next one of its kind would block
    PERFORM_MORE = 3        # not done, but only because it has had its share
    # What the Python half makes of a result.
    ANSWER_NONE = 0
    ANSWER_BYTES = 1
    ANSWER_COUNT = 2
    ANSWER_VALUE = 3

# Tries the system call. Leaves the result or the error in the operation; must not block.
ctypedef int (*operation_perform_t)(OperationC* operation, int fd) noexcept nogil
# Hands a native operation over, once, in step 7 (or when the loop closes); its memory is its maker's again.
ctypedef void (*operation_complete_t)(LoopC* loop, OperationC* operation) noexcept nogil

cdef struct OperationC:
    OperationC* next
    operation_perform_t perform
    operation_complete_t complete   # NULL: Python's, with the fields below, from the pool
    int kind
    int answer
    int fd                  # for reports
    int error               # errno, 0: none
    bint socket             # send(2) rather than write(2)
    bint chosen             # a mark of cancel by key
    bint internal           # no work: it keeps no loop alive
    int64_t result
    char* data              # what is written, or what was read
    size_t size
    uint32_t wanted         # by a wait: READABLE, WRITABLE, PRIORITY
    void* key               # NULL: none. Compared by address; an owned object if it is Python's
    PyObject* callback
    PyObject* owner         # kept alive while this waits
    PyObject* subject       # what `perform` calls, or whose memory it uses
    PyObject* value         # what that returned
    PyObject* failure       # ... or raised
    Py_buffer view
    bint viewed

cdef struct OperationQueueC:
    OperationC* first
    OperationC* last
    uint32_t size

# ---- descriptor.py --------------------------------------------------------------------------------------------------

cdef struct DescriptorC:
    DescriptorC* previous   # in the list of live ones
    DescriptorC* next       # ... or of free ones
    OperationQueueC queues[OPERATION_KINDS]
    bint speculative[OPERATION_KINDS]   # a try might succeed: not exhausted since the last readiness
    uint32_t generation     # of this record's lives
    uint32_t registration   # the generation of its registration; 0: none
    int fd
    uint32_t filters        # the interest that the poller knows
    bint live
    bint watched            # the poller knows it
    bint refused            # the poller cannot wait for it: a regular file
    bint edge
    bint lazy

cdef struct DescriptorsC:
    DescriptorC* live_first
    DescriptorC* free_first
    OperationC* operations_free
    OperationQueueC completed
    bint shut
    uint32_t live
    uint32_t allocated
    uint32_t high_water
    uint32_t operations     # of the pool, in use
    uint32_t operations_allocated
    uint32_t operations_high_water
    uint32_t operations_max
    uint32_t queue_max      # operations of one kind that may wait at one descriptor
    uint32_t waiting        # operations in queues that count as work
    uint32_t share          # operations that one descriptor may perform in one turn
    uint64_t started
    uint64_t speculated
    uint64_t performed
    uint64_t blocked
    uint64_t completed_all
    uint64_t cancelled
    uint64_t faults
    uint64_t refusals       # operations that were refused for want of room
    uint64_t tells          # calls of the poller
    uint64_t shares_used    # turns in which a descriptor reached its share

# ---- loop.py --------------------------------------------------------------------------------------------------------

cdef struct LoopC:
    ClockC* clock
    TickC tick
    TimersC timers
    RegistryC registry
    DescriptorsC descriptors
    PollerC* poller
    InboxC inbox
    WakerC waker
    RingC deferred
    ProbesC probes
    LaneC** lanes           # by priority, then by creation
    uint32_t lane_count
    uint64_t lane_pending   # events in all lanes
    uint64_t drops          # of all lanes
    # limits, copied from the policy once
    uint32_t ready_batch
    uint32_t timer_budget
    uint32_t inbox_budget
    int64_t wait_max_ns
    int64_t poll_skip_ns
    # the turn
    uint64_t turn
    int64_t now_ns          # what this turn calls the present
    int64_t woke_ns         # when its work began
    int64_t polled_ns       # the last poll
    int64_t report_ns       # when a report of drops is due; INT64_MAX: none
    TurnC* line             # its line in the flight recorder, filled in while it runs
    uint32_t stale_polls    # polls in a row that saw an event of no live registration
    ReadyC* ready           # the batch: what is for Python moves to the front
    uint32_t ready_count
    uint32_t ready_next
    uint64_t* due           # identities of timers that are due and belong to Python
    uint32_t due_count
    uint32_t due_next
    # notes between the halves of a turn, and from elsewhere
    int stopping            # set from any thread
    int signalled           # the interpreter should be asked for signals
    int failed              # -errno of the poller, to be raised
    int change_failed       # a descriptor whose change of interest failed, plus 1; 0: none
    int broken              # which invariant did not hold
    bint closed
    unsigned long owner     # the thread
    uint32_t forks          # how many forks there had been at birth
    const uint32_t* fork_count      # ... and how many there are now
