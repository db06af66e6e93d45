# What every turn and every handler pays for the probes, inline because a call from another module costs as much as the
# work; what happens now and then is in probes.py. A build without probes compiles none of it.
cimport cython
from cpython.ref cimport Py_INCREF, Py_XDECREF, PyObject
from libc.stdint cimport int64_t, uint64_t

from penstock.core.system cimport PENSTOCK_PROBES, clz64
from penstock.core.types cimport HISTOGRAM_BUCKETS, RECORDER_TURNS, HistogramC, LoopC, ProbesC, SlowC, TurnC

cdef enum:
    FAST_STRIDE = 256
    SLOW_HANDLER_NS = 700

cdef void probes_init(ProbesC* probes, int64_t now_ns) noexcept nogil
cdef void probes_suspect(LoopC* loop, PyObject* handler, int fd) noexcept
cdef void probes_mark_native(ProbesC* probes, int64_t now_ns) noexcept nogil
cdef void probes_close_native(LoopC* loop, int64_t busy_ns) noexcept nogil
cdef void probes_close_python(LoopC* loop, int64_t end_ns) noexcept
cdef void probes_settle(ProbesC* probes) noexcept
cdef void probes_let_go(ProbesC* probes) noexcept
cdef void probes_free(ProbesC* probes) noexcept


# Count a value, which is neither negative nor the highest so far, in the bucket of its highest bit.
cdef inline void histogram_count(HistogramC* histogram, int64_t value) noexcept nogil:
    # The highest bit of 2v + 1 stands one higher than that of v, and 0 needs no way of its own.
    cdef int bucket = 63 - clz64(2 * <uint64_t>value + 1)
    if bucket >= HISTOGRAM_BUCKETS:
        bucket = HISTOGRAM_BUCKETS - 1
    histogram.buckets[bucket] += 1
    histogram.total += value


# Count any value; what is negative counts as 0.
cdef inline void histogram_add(HistogramC* histogram, int64_t value) noexcept nogil:
    if not PENSTOCK_PROBES:
        return
    if value < 0:
        value = 0
    histogram_count(histogram, value)
    if <uint64_t>value > histogram.highest:
        histogram.highest = value


# A turn begins: its line in the flight recorder, which the steps fill in. Without probes it is filled in too, because
# `run_once` adds it up.
cdef inline void probes_begin(LoopC* loop) noexcept nogil:
    cdef TurnC* line = &loop.probes.recorder[loop.turn % RECORDER_TURNS]
    loop.line = line
    line.number = loop.turn
    line.start_ns = loop.now_ns
    line.asleep_ns = 0
    line.busy_ns = 0
    line.ready = 0
    line.posts = 0
    line.timers = 0
    line.deferred = 0
    line.events = 0
    line.left = 0


# A Python handler has returned.
cdef inline void probes_ran(LoopC* loop, PyObject* handler, int fd) noexcept:
    cdef ProbesC* probes = &loop.probes
    if not PENSTOCK_PROBES:
        return
    if probes.same == handler and fd < 0 and probes.due_in > 1:
        # Another run of the same one.
        probes.due_in -= 1
    else:
        probes_suspect(loop, handler, fd)


# Close the books of a turn: its duration, and its line in the flight recorder.
cdef inline void probes_turn(LoopC* loop, int64_t end_ns) noexcept nogil:
    cdef int64_t busy_ns = end_ns - loop.woke_ns
    if not PENSTOCK_PROBES:
        return
    loop.line.busy_ns = busy_ns
    histogram_add(&loop.probes.turn_ns, busy_ns)
    if loop.probes.native_slowest.count:
        probes_close_native(loop, busy_ns)


# The same for a turn in which Python ran. Most turns are not the longest so far, and who was slow in those is nobody's
# question; most of these had one quick suspect, who is kept, because it is likely to be the next one too.
cdef inline void probes_python_turn(LoopC* loop, int64_t end_ns) noexcept:
    cdef ProbesC* probes = &loop.probes
    cdef int64_t busy_ns = end_ns - loop.woke_ns
    if not PENSTOCK_PROBES:
        return
    if (
        probes.long_way
        or end_ns - probes.mark_ns >= SLOW_HANDLER_NS
        or busy_ns > probes.longest.busy_ns
        or probes.native_slowest.count
    ):
        probes_close_python(loop, end_ns)
        return
    probes.due_in = probes.stride
    loop.line.busy_ns = busy_ns
    # Not the highest, as there was a longer one. One turn late: a place in memory that depends on a look at the clock that
    # was taken just now makes the processor wait for it.
    histogram_count(&probes.turn_ns, probes.pending_ns)
    probes.pending_ns = busy_ns


cdef uint64_t count_of(HistogramC* histogram) noexcept
cdef tuple buckets_of(HistogramC histogram)

@cython.final
cdef class Histogram:
    cdef HistogramC c
