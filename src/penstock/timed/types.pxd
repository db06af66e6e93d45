# Every C structure of the timed model, nothing else. What each is for is said where its functions live.
from cpython.ref cimport PyObject
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

# ---- timeline.py ----------------------------------------------------------------------------------------------------

cdef enum:
    KIND_TIMER = 0
    KIND_ACTION = 1
    KIND_PHYSICAL = 2
    KIND_DELAY = 3          # a connection with `after`
    KIND_INPUT = 4          # an input of the whole program, fed from outside
    KIND_STARTUP = 5
    KIND_SHUTDOWN = 6
    KIND_RESET = 7

cdef enum:
    POLICY_DEFER = 0
    POLICY_DROP = 1
    POLICY_REPLACE = 2
    POLICY_UPDATE = 3

cdef enum:
    OVERFLOW_DROP_OLDEST = 0
    OVERFLOW_DROP_NEWEST = 1
    OVERFLOW_REJECT = 2
    OVERFLOW_COALESCE = 3
    OVERFLOW_BLOCK = 4      # threads wait at a gate before they come here; whoever comes nevertheless is refused

cdef struct EventC:         # 24 bytes: what a pending event costs beside its value
    int64_t time_ns
    uint32_t microstep
    uint32_t late           # 1: `value` is a tuple of the value and the tag that was intended
    PyObject* value         # owned

cdef struct PendingC:       # the events of one trigger in tag order: a ring that grows up to its capacity
    EventC* events
    uint32_t head
    uint32_t size
    uint32_t allocated      # 0 or a power of two
    uint32_t capacity

cdef struct KeyC:           # one per trigger that has something pending: its earliest tag
    int64_t time_ns
    uint32_t microstep
    uint32_t trigger

cdef struct TriggerC:
    PendingC pending        # unused by timers and built-in triggers, whose key is their event
    int32_t position        # in the heap, or -1
    int32_t kind
    int32_t mode            # -1: in no mode
    int32_t policy
    int32_t overflow
    uint32_t slot
    int64_t offset_ns       # timers; the minimum delay of actions
    int64_t period_ns       # timers; the minimum spacing of actions
    int64_t last_ns         # the tag of the latest scheduled event
    uint32_t last_microstep
    int64_t handled_ns      # the time of the latest event that was handled
    bint scheduled_before
    bint handled_before
    bint suspended          # its mode is inactive: the key is kept below, not in the heap
    KeyC kept
    uint64_t scheduled
    uint64_t dropped_policy
    uint64_t dropped_oldest
    uint64_t dropped_newest
    uint64_t dropped_inactive
    uint64_t dropped_stopped
    uint64_t replaced
    uint64_t coalesced
    uint64_t rejected
    uint64_t late
    uint64_t high_water

cdef struct TimelineC:
    TriggerC* triggers
    KeyC* heap
    uint32_t size
    uint32_t trigger_count

cdef extern from *:
    int lowest_bit "__builtin_ctzll"(unsigned long long word) nogil

cdef extern from "Python.h":
    PyObject* PyObject_CallNoArgs(PyObject* callable)

# ---- memory.py, steps.py, scheduler.py ---------------------------------------------------------------------------------------------------

cdef struct SlotC:          # where a value is: a port with all ports that always show the same, an action, a timer
    PyObject* value         # owned; NULL: never written
    uint8_t present
    uint8_t late
    uint8_t outlet          # somebody outside listens
    uint32_t reactions      # the first in `links`, and how many
    uint32_t reaction_count
    uint32_t copies
    uint32_t copy_count
    uint32_t delays
    uint32_t delay_count
    int64_t intended_ns
    uint32_t intended_microstep

cdef struct CopyC:          # a connection that cannot share a slot, because it works in one mode only
    uint32_t target
    int32_t mode

cdef struct DelayC:         # a connection with `after`, or a physical one
    int64_t delay_ns
    uint32_t trigger
    int32_t mode
    bint physical

cdef struct ReactionC:      # in the order in which they run within a tag
    PyObject* body          # kept alive by the scheduler's plan, as the next two
    PyObject* on_deadline
    PyObject* on_late
    int64_t deadline_ns     # -1: none
    int32_t mode
    uint8_t forced          # runs although its mode is inactive (shutdown)
    uint8_t watched         # something must be looked at before it runs: a deadline or a late input

cdef struct SchedulerC:
    TimelineC line
    SlotC* slots
    uint32_t slot_count
    ReactionC* reactions
    uint32_t reaction_count
    uint32_t* links
    CopyC* copies
    DelayC* delays
    uint64_t* words         # the reactions to run, one bit each, and one bit per word that is not zero
    uint64_t* summary
    uint32_t word_count
    uint32_t summary_count
    uint32_t* present       # the slots to clear at the end of the tag
    uint32_t present_count
    uint8_t* active         # per mode
    uint32_t mode_count
    uint32_t late_slots     # late slots present in this tag
    int64_t now_ns          # the current tag
    uint32_t microstep
    int32_t current         # the reaction that runs, or -1
    int64_t stop_ns
    uint32_t stop_microstep
    int64_t replay_ns       # the next recorded event
    uint32_t replay_microstep
    int deadline_checks     # of the reaction that runs
    int64_t system_ns       # the earliest system event
    uint32_t system_microstep
    int state
    unsigned long owner     # the thread
    bint executing
    bint tracing
    bint fast
    bint sleeping
    uint64_t tags
    uint64_t reactions_run
    uint64_t deadlines_missed
    uint64_t late_unhandled
    uint64_t late_handled
    uint64_t system_events
    uint64_t outside_dropped
    uint64_t errors
