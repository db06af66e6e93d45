# cython: language_level=3
"""What happened, without asking the interpreter: counters, log2 histograms, and the flight recorder of the last turns.

Everything is a plain C field and always on; it may cost 3 % of what it measures. There is no I/O here, and nothing here
decides anything.

Which handler took longest? A look at the clock costs 20 ns, too much after each handler of 40 ns. So a look is taken
every `stride` handlers: while handlers are slow (on average SLOW_HANDLER_NS or more), after each one, so that the
culprit is known exactly; while they are quick, after FAST_STRIDE of them or SUSPECTS different ones, so that a sudden
slow one among them is known to be one of a few. Runs of the same handler count as one suspect: in a lane the name is
always exact. Who ran alone in a quick turn is kept for as long as the loop does not poll: it is likely to be the next.

What happens in every turn, or after every handler, is inline in probes.pxd: there a call would cost as much as the work.
Here is what happens now and then.
"""

import cython
from cython.cimports.cpython.ref import Py_XDECREF, Py_XINCREF, PyObject
from cython.cimports.libc.stdint import int64_t, uint64_t
from cython.cimports.libc.string import memset
from cython.cimports.penstock.core.clock import clock_now
from cython.cimports.penstock.core.types import (
    HISTOGRAM_BUCKETS,
    SUSPECTS,
    HistogramC,
    LongestC,
    LoopC,
    ProbesC,
    SlowC,
)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def probes_init(probes: cython.pointer[ProbesC], now_ns: int64_t) -> cython.void:
    """Everything at zero."""
    memset(probes, 0, cython.sizeof(ProbesC))
    probes.mark_ns = now_ns
    probes.stride = 1
    probes.due_in = 1
    probes.pending_ns = -1
    probes.long_way = True


@cython.cfunc
@cython.exceptval(check=False)
def _forget(slow: cython.pointer[SlowC]) -> cython.void:
    index: cython.int
    count: cython.int = slow.count
    slow.count = 0
    slow.took_ns = 0
    for index in range(count):
        handler: cython.pointer[PyObject] = slow.handlers[index]
        # Out of sight first: a destructor may ask for `stats()`.
        slow.handlers[index] = cython.NULL
        Py_XDECREF(handler)


@cython.cfunc
@cython.exceptval(check=False)
def _hand_over(source: cython.pointer[SlowC], target: cython.pointer[SlowC], took_ns: int64_t) -> cython.void:
    """Move the suspects, with the references to them. Nobody may run in between: what was there goes last."""
    index: cython.int
    before: SlowC = target[0]
    for index in range(source.count):
        target.handlers[index] = source.handlers[index]
        target.fds[index] = source.fds[index]
    target.count = source.count
    target.took_ns = took_ns
    source.count = 0
    _forget(cython.address(before))


@cython.cfunc
@cython.exceptval(check=False)
def probes_suspect(loop: cython.pointer[LoopC], handler: cython.pointer[PyObject], fd: cython.int) -> cython.void:
    """A Python handler has returned: the long way of `probes_ran`. Looks at the clock if it is time."""
    probes: cython.pointer[ProbesC] = cython.address(loop.probes)
    count: cython.int = probes.now.count
    kept: cython.pointer[PyObject] = cython.NULL
    if count and probes.due_in == probes.stride:
        # None has run since the last look: it is kept from a former turn.
        count = 0
        kept = probes.now.handlers[0]
    probes.due_in -= 1
    if count == 0 or probes.now.handlers[count - 1] != handler or probes.now.fds[count - 1] != fd:
        Py_XINCREF(handler)
        probes.now.handlers[count] = handler
        probes.now.fds[count] = fd
        probes.now.count = count + 1
        probes.same = handler if fd < 0 else cython.NULL
        probes.long_way = probes.long_way or count > 0
    if probes.due_in <= 0 or probes.now.count >= SUSPECTS:
        probes.long_way = True
        _mark(probes, clock_now(loop.clock), True)
    # Last, because its destructor may do anything.
    Py_XDECREF(kept)


@cython.cfunc
@cython.exceptval(check=False)
def probes_settle(probes: cython.pointer[ProbesC]) -> cython.void:
    """Let `turn_ns` have the duration that is pending: somebody asks."""
    if probes.pending_ns >= 0:
        histogram_count(cython.address(probes.turn_ns), probes.pending_ns)
    probes.pending_ns = -1
    probes.long_way = True


@cython.cfunc
@cython.exceptval(check=False)
def probes_let_go(probes: cython.pointer[ProbesC]) -> cython.void:
    """The loop sleeps or returns: nobody is kept any longer."""
    probes.same = cython.NULL
    _forget(cython.address(probes.now))


@cython.cfunc
@cython.exceptval(check=False)
def _mark(probes: cython.pointer[ProbesC], now_ns: int64_t, matters: cython.bint) -> cython.void:
    """Attribute the time since the last look to the handlers that ran since, and choose the next stride."""
    took: int64_t = now_ns - probes.mark_ns
    ran: cython.int = probes.stride - probes.due_in
    probes.mark_ns = now_ns
    if ran > 0:
        probes.stride = 1 if took >= SLOW_HANDLER_NS * ran else FAST_STRIDE
    probes.due_in = probes.stride
    probes.same = cython.NULL
    if ran > 0 and matters and took > probes.slowest.took_ns:
        _hand_over(cython.address(probes.now), cython.address(probes.slowest), took)
    else:
        _forget(cython.address(probes.now))


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def probes_mark_native(probes: cython.pointer[ProbesC], now_ns: int64_t) -> cython.void:
    """Attribute the time since the last look to the native handlers that ran since."""
    if probes.native_now.count:
        probes.native_now.took_ns = now_ns - probes.mark_ns
        if probes.native_now.took_ns > probes.native_slowest.took_ns:
            probes.native_slowest = probes.native_now
        probes.native_now.count = 0
    probes.mark_ns = now_ns


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def probes_close_native(loop: cython.pointer[LoopC], busy_ns: int64_t) -> cython.void:
    """A turn in which native handlers ran ends: remember it if it is the longest so far, and one of them the slowest."""
    probes: cython.pointer[ProbesC] = cython.address(loop.probes)
    if (
        probes.native_slowest.took_ns > probes.slowest.took_ns
        and busy_ns > probes.native_longest.busy_ns
        and busy_ns > probes.longest.busy_ns
    ):
        probes.native_longest.busy_ns = busy_ns
        probes.native_longest.turn = loop.turn
        probes.native_longest.slow = probes.native_slowest
    probes.native_slowest.took_ns = 0
    probes.native_slowest.count = 0


@cython.cfunc
@cython.exceptval(check=False)
def probes_close_python(loop: cython.pointer[LoopC], end_ns: int64_t) -> cython.void:
    """The long way of `probes_python_turn`: remember the turn if it is the longest so far."""
    probes: cython.pointer[ProbesC] = cython.address(loop.probes)
    longest: cython.pointer[LongestC] = cython.address(probes.longest)
    busy_ns: int64_t = end_ns - loop.woke_ns
    matters: cython.bint = busy_ns > longest.busy_ns and busy_ns > probes.native_longest.busy_ns
    probes_settle(probes)
    probes.pending_ns = busy_ns if busy_ns > 0 else 0
    probes.long_way = False
    if busy_ns > cython.cast(int64_t, probes.turn_ns.highest):
        probes.turn_ns.highest = busy_ns
    loop.line.busy_ns = busy_ns
    # From here on a destructor may run, and ask for `stats()`.
    _mark(probes, end_ns, matters)
    if matters and probes.slowest.took_ns >= probes.native_slowest.took_ns:
        longest.busy_ns = busy_ns
        longest.turn = loop.turn
        _hand_over(cython.address(probes.slowest), cython.address(longest.slow), probes.slowest.took_ns)
    if probes.slowest.count or probes.slowest.took_ns:
        _forget(cython.address(probes.slowest))
    if probes.native_slowest.count:
        probes_close_native(loop, busy_ns)


@cython.cfunc
@cython.exceptval(check=False)
def probes_free(probes: cython.pointer[ProbesC]) -> cython.void:
    """Let go of the handlers that are remembered by name."""
    probes_let_go(probes)
    _forget(cython.address(probes.slowest))
    _forget(cython.address(probes.longest.slow))


class Histogram:
    """A log2 histogram: bucket k counts the values v with 2**(k-1) <= v < 2**k."""

    def add(self, value: int):
        """Count a value; what is negative counts as 0."""
        histogram_add(cython.address(self.c), value)

    @property
    def count(self):
        """How many values."""
        return count_of(cython.address(self.c))

    @property
    def total(self):
        """Their sum."""
        return self.c.total

    @property
    def highest(self):
        """The highest of them, exactly."""
        return self.c.highest

    @property
    def buckets(self):
        """The counts, up to the last bucket that is not empty."""
        return buckets_of(self.c)


@cython.cfunc
@cython.exceptval(check=False)
def count_of(histogram: cython.pointer[HistogramC]) -> uint64_t:
    """How many values. Added up when somebody asks, because values come oftener than questions."""
    count: uint64_t = 0
    index: cython.int
    for index in range(HISTOGRAM_BUCKETS):
        count += histogram.buckets[index]
    return count


@cython.cfunc
def buckets_of(histogram: HistogramC) -> tuple:
    """The counts of a histogram, up to the last bucket that is not empty."""
    used: cython.int = HISTOGRAM_BUCKETS
    while used > 0 and histogram.buckets[used - 1] == 0:
        used -= 1
    return tuple([histogram.buckets[index] for index in range(used)])
