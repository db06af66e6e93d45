# cython: language_level=3
"""The Python half of a turn.

turn.py does all that needs no interpreter. What it sets aside for Python is dispatched here in one batch:

    3 inbox       signals, then posts of other threads, up to the budget; those that were there when the step began
    4 timers      what is due, unless an earlier handler has cancelled or moved it
    5 readiness   unless an earlier handler has deregistered it
    6 changes     what handlers of 4 and 5 want to hear of from now on
    7 deferred    completions of operations, then deferred tasks: exactly those that were there when the step began
    8 lanes       by priority, each up to its budget; what was offered during the step waits for the next turn

Work that a handler creates therefore runs in a later step or turn, never in the step that created it. An exception of a
handler is contained and reported, and the loop goes on; KeyboardInterrupt, SystemExit and InvariantBroken leave `run`,
and what the batch still held is dispatched first when the loop is run again.

This file must not know how work enters: that is loop.py.
"""

import os

import cython
from cython.cimports.cpython.exc import (
    PyErr_CheckSignals,
)
from cython.cimports.cpython.ref import (
    Py_DECREF,
    Py_INCREF,
    Py_XDECREF,
    PyObject,
)
from cython.cimports.libc.stdint import (
    INT64_MAX,
    int64_t,
    uint32_t,
    uint64_t,
)
from cython.cimports.penstock.core.budget import (
    UNIT_WORK,
    budget_refill,
    budget_take,
)
from cython.cimports.penstock.core.clock import (
    clock_now,
)
from cython.cimports.penstock.core.inbox import (
    inbox_arrived,
    inbox_publish,
    inbox_take,
)
from cython.cimports.penstock.core.lane import (
    OVERFLOW_BLOCK,
    Lane,
    lane_drop_denied,
    lane_dropped,
    lane_ok,
    lane_take,
)
from cython.cimports.penstock.core.operation import operation_outcome, queue_pop
from cython.cimports.penstock.core.probes import (
    probes_let_go,
    probes_python_turn,
    probes_ran,
)
from cython.cimports.penstock.core.registry import (
    registry_of,
)
from cython.cimports.penstock.core.ring import (
    ring_oldest,
    ring_pop,
    ring_size,
)
from cython.cimports.penstock.core.system import (
    PENSTOCK_PROBES,
    PY_VECTORCALL_ARGUMENTS_OFFSET,
    PyObject_Call,
    PyObject_Vectorcall,
    abort,
    platform_atomic_load,
)
from cython.cimports.penstock.core.timers import (
    timers_fire,
)
from cython.cimports.penstock.core.turn import (
    BROKEN_DEFERRED,
    BROKEN_LANE,
    BROKEN_REGISTRY,
    BROKEN_TIMERS,
    LEFT_INBOX,
    LEFT_LANES,
    turn_account,
    turn_changes,
    turn_check,
    turn_idle,
    turn_native,
    turn_needs_python,
    turn_skips_poll,
)
from cython.cimports.penstock.core.types import (
    ERROR,
    HANGUP,
    POST_LANE,
    ItemC,
    LaneC,
    LoopC,
    OperationC,
    RegistrationC,
)

from penstock import (
    limits,
)
from penstock.core.names import (
    name_of,
    report_error,
)
from penstock.errors import (
    BadDescriptor,
    ForkedLoop,
    InvariantBroken,
)
from penstock.stats import (
    DropReport,
    ErrorReport,
)

_BROKEN = {
    BROKEN_TIMERS: "the timer heap is out of order",
    BROKEN_REGISTRY: "the table of registrations is inconsistent",
    BROKEN_LANE: "a lane's books do not balance, or its budget is out of bounds",
    BROKEN_DEFERRED: "more tasks are deferred than there is room for",
}


@cython.cfunc
@cython.exceptval(-1)
def _reraise() -> cython.int:
    """An exception is set already: let it travel."""
    return -1


@cython.cfunc
@cython.exceptval(check=False)
def _call(callback: cython.pointer[PyObject], args: cython.pointer[PyObject]) -> cython.pointer[PyObject]:
    if args == cython.NULL:
        return PyObject_Vectorcall(callback, cython.NULL, 0, cython.NULL)
    return PyObject_Call(callback, args, cython.NULL)


class Dispatch:
    """A loop's state, and the steps of its turn that are Python's."""

    def _one_turn(self, wait_cap_ns: int64_t, once: cython.bint, keep_alive: cython.bint):
        """Turns without the GIL until one needs it, and the Python half of that one."""
        loop: cython.pointer[LoopC] = cython.address(self.c)
        self.ran_python = 0
        if turn_skips_poll(loop):
            turn_native(loop, wait_cap_ns)
        else:
            if loop.probes.now.count:
                probes_let_go(cython.address(loop.probes))
            with cython.nogil:
                turn_native(loop, wait_cap_ns)
                while (
                    not once
                    and not turn_needs_python(loop)
                    and not platform_atomic_load(cython.address(loop.stopping))
                    and (keep_alive or not turn_idle(loop))
                ):
                    turn_changes(loop)
                    turn_account(loop, clock_now(loop.clock))
                    turn_native(loop, wait_cap_ns)
            # Whatever the GIL took to come back is not the first handler's fault.
            if PENSTOCK_PROBES:
                loop.probes.mark_ns = clock_now(loop.clock)
        try:
            if turn_needs_python(loop) or loop.poller.simulated:
                loop.probes.python_turns += 1
                self._dispatch()
            elif loop.registry.changed_first >= 0:
                turn_changes(loop)
        finally:
            self._account()
        return 0

    def _account(self):
        """Step 9, for a turn that Python had a part in."""
        loop: cython.pointer[LoopC] = cython.address(self.c)
        end_ns: int64_t = clock_now(loop.clock)
        probes_python_turn(loop, end_ns)
        turn_check(loop)
        loop.now_ns = end_ns
        if loop.drops != self.reported_drops and self.on_drop is not None and loop.report_ns == INT64_MAX:
            due: int64_t = self.last_report_ns + limits.REPORT_PERIOD_NS
            loop.report_ns = due if due > end_ns else end_ns
        if loop.broken:
            self._raise_noted()
        return 0

    # ---- the Python half of a turn -----------------------------------------------------------------------------------

    def _dispatch(self):
        """Steps 3 to 8, as far as they are Python's."""
        loop: cython.pointer[LoopC] = cython.address(self.c)
        if loop.failed or loop.broken or loop.change_failed:
            self._raise_noted()
        if loop.signalled or loop.poller.simulated:
            self._run_signals()
        if platform_atomic_load(cython.address(loop.inbox.filled)):
            self._run_inbox()
        if loop.due_next < loop.due_count:
            self._run_timers()
        if loop.ready_next < loop.ready_count:
            self._run_ready()
        if loop.registry.changed_first >= 0:
            turn_changes(loop)
        if loop.descriptors.completed.size:
            self._run_completions()
        if ring_size(cython.address(loop.deferred)):
            self._run_deferred()
        if loop.lane_pending:
            self._run_lanes()
        if loop.report_ns <= loop.now_ns:
            self._report_drops()
        return 0

    def _settle(self, answer: cython.pointer[PyObject], handler: cython.pointer[PyObject], fd: cython.int, step: str):
        """After a handler: forget its result or contain its exception, and let the probes know."""
        if answer != cython.NULL:
            Py_XDECREF(answer)
        else:
            self._contain(cython.cast(object, handler), step)
        self.allowance -= 1
        if self.c.forks != self.c.fork_count[0]:
            # This handler has forked, and this is the child: the rest of the batch is the parent's.
            raise ForkedLoop(f"{self.name} was made before a fork; make a new loop in the child process")
        probes_ran(cython.address(self.c), handler, fd)
        return 0

    def _contain(self, handler, step: str):
        """A handler has raised: report it and go on, unless it is one of the three that leave `run`."""
        try:
            _reraise()
        except BaseException as error:
            self._report(error, handler, step)
        return 0

    def _report(self, error, handler, step: str):
        if isinstance(error, (KeyboardInterrupt, SystemExit, InvariantBroken)):
            raise error
        self.c.probes.errors += 1
        report = ErrorReport(error, name_of(handler), step, self.name)
        report_error(self.on_error, report, self.reported, self.c.now_ns)
        return 0

    def _run_signals(self):
        """Step 3, first half: the interpreter's own handlers, then the callbacks of `add_signal`."""
        self.c.signalled = False
        PyErr_CheckSignals()
        if self.signals.pending:
            for callback, args in self.signals.take():
                self.c.line.posts += 1
                answer: cython.pointer[PyObject] = PyObject_Call(
                    cython.cast(cython.pointer[PyObject], callback),
                    cython.cast(cython.pointer[PyObject], args),
                    cython.NULL,
                )
                self._settle(answer, cython.cast(cython.pointer[PyObject], callback), -1, "signal")
        return 0

    def _run_inbox(self):
        """Step 3, second half: the posts of other threads that were there when the step began, up to the budget."""
        loop: cython.pointer[LoopC] = cython.address(self.c)
        item: ItemC
        waiting: uint64_t = ring_size(cython.address(loop.inbox.ring))
        if waiting > loop.inbox_budget:
            waiting = loop.inbox_budget
            loop.line.left |= LEFT_INBOX
            loop.probes.inbox_left += 1
        while waiting > 0 and self.allowance > 0 and inbox_take(cython.address(loop.inbox), cython.address(item)):
            waiting -= 1
            loop.line.posts += 1
            first: cython.pointer[PyObject] = cython.cast(cython.pointer[PyObject], item.first)
            second: cython.pointer[PyObject] = cython.cast(cython.pointer[PyObject], item.second)
            try:
                if item.mark == POST_LANE:
                    self._arrive(cython.cast(Lane, cython.cast(object, first)), second)
                else:
                    self._settle(_call(first, second), first, -1, "inbox")
            finally:
                Py_XDECREF(first)
                Py_XDECREF(second)
        return 0

    def _arrive(self, lane: Lane, event: cython.pointer[PyObject]):
        """An event that another thread posted reaches its lane."""
        if lane.c.closed:
            # Closed while it was on its way: nobody is there to be told, so it is counted.
            lane.c.offered += 1
            lane.c.dropped_closed += 1
            self.c.drops += 1
        else:
            try:
                lane.offer_object(cython.cast(object, event))
            except BaseException as error:
                # Its function that merges has failed: the event is lost, and counted.
                lane.c.offered += 1
                lane.c.rejected += 1
                self.c.drops += 1
                self._report(error, lane.merge, "inbox")
        if lane.c.overflow == OVERFLOW_BLOCK:
            inbox_arrived(cython.address(self.c.inbox), cython.address(lane.c))
        return 0

    def _run_timers(self):
        """Step 4: what is due, oldest deadline first."""
        loop: cython.pointer[LoopC] = cython.address(self.c)
        item: ItemC
        while loop.due_next < loop.due_count and self.allowance > 0:
            identity: uint64_t = loop.due[loop.due_next]
            loop.due_next += 1
            if not timers_fire(cython.address(loop.timers), identity, loop.now_ns, cython.address(item)):
                continue
            callback: cython.pointer[PyObject] = cython.cast(cython.pointer[PyObject], item.first)
            args: cython.pointer[PyObject] = cython.cast(cython.pointer[PyObject], item.second)
            if not item.mark:
                # An interval keeps its own; its callback may cancel it.
                Py_INCREF(cython.cast(object, callback))
                Py_INCREF(cython.cast(object, args))
            loop.line.timers += 1
            try:
                self._settle(PyObject_Call(callback, args, cython.NULL), callback, -1, "timer")
            finally:
                Py_XDECREF(args)
                Py_XDECREF(callback)
        return 0

    def _run_ready(self):
        """Step 5: the descriptors of the batch, as far as they are still the ones that the poller meant."""
        loop: cython.pointer[LoopC] = cython.address(self.c)
        args: cython.pointer[PyObject][3]
        while loop.ready_next < loop.ready_count and self.allowance > 0:
            token: uint64_t = loop.ready[loop.ready_next].token
            events: uint32_t = loop.ready[loop.ready_next].events
            loop.ready_next += 1
            one: cython.pointer[RegistrationC] = registry_of(cython.address(loop.registry), token)
            if one == cython.NULL:
                loop.probes.stale += 1
                continue
            if one.complete != cython.NULL:
                self.ran_python += 1
                one.complete(loop, cython.cast(cython.int, cython.cast(uint32_t, token)), events, one.context)
                continue
            # An earlier handler of the batch may have lost interest on its behalf.
            events &= one.interest | ERROR | HANGUP
            if events == 0:
                continue
            callback: cython.pointer[PyObject] = one.callback
            told: object = events
            self.ran_python += 1
            args[0] = cython.NULL
            args[1] = one.number
            args[2] = cython.cast(cython.pointer[PyObject], told)
            # The handler may end its own registration, and with it the last reference to itself.
            Py_INCREF(cython.cast(object, callback))
            Py_INCREF(cython.cast(object, one.number))
            try:
                self._settle(
                    PyObject_Vectorcall(callback, args + 1, 2 | PY_VECTORCALL_ARGUMENTS_OFFSET, cython.NULL),
                    callback,
                    cython.cast(cython.int, cython.cast(uint32_t, token)),
                    "readiness",
                )
            finally:
                Py_XDECREF(args[1])
                Py_XDECREF(callback)
        return 0

    def _run_completions(self):
        """Step 7, first half: exactly the operations that are completed now, in that order."""
        loop: cython.pointer[LoopC] = cython.address(self.c)
        generation: uint32_t = loop.descriptors.completed.size
        while generation > 0 and loop.descriptors.completed.size > 0 and self.allowance > 0:
            generation -= 1
            operation: cython.pointer[OperationC] = queue_pop(cython.address(loop.descriptors.completed))
            fd: cython.int = operation.fd
            loop.line.deferred += 1
            if operation.complete != cython.NULL:
                operation.complete(loop, operation)
                probes_ran(loop, cython.NULL, fd)
                continue
            callback: cython.pointer[PyObject] = operation.callback
            operation.callback = cython.NULL
            try:
                outcome = operation_outcome(cython.address(loop.descriptors), operation)
                args: cython.pointer[PyObject] = cython.cast(cython.pointer[PyObject], outcome)
                self._settle(PyObject_Call(callback, args, cython.NULL), callback, fd, "completion")
            finally:
                Py_XDECREF(callback)
        return 0

    def _run_deferred(self):
        """Step 7: exactly the tasks that are there now; what they defer is the next generation."""
        loop: cython.pointer[LoopC] = cython.address(self.c)
        item: ItemC
        generation: uint64_t = ring_size(cython.address(loop.deferred))
        while generation > 0 and self.allowance > 0 and ring_pop(cython.address(loop.deferred), cython.address(item)):
            generation -= 1
            callback: cython.pointer[PyObject] = cython.cast(cython.pointer[PyObject], item.first)
            args: cython.pointer[PyObject] = cython.cast(cython.pointer[PyObject], item.second)
            loop.line.deferred += 1
            loop.probes.deferred += 1
            try:
                self._settle(_call(callback, args), callback, -1, "deferred")
            finally:
                Py_XDECREF(args)
                Py_XDECREF(callback)
        return 0

    def _run_lanes(self):
        """Step 8: every lane up to its budget, by priority; what is offered meanwhile waits for the next turn."""
        loop: cython.pointer[LoopC] = cython.address(self.c)
        lane: Lane
        lanes: tuple = self.lanes
        self.lanes_running = True
        try:
            for lane in lanes:
                lane.c.barrier = lane.c.offered
            for lane in lanes:
                if ring_size(cython.address(lane.c.ring)):
                    self._run_lane(lane)
        finally:
            self.lanes_running = False
            if self.lanes_changed:
                self._order_lanes()
            if loop.line.left & LEFT_LANES:
                loop.probes.lanes_left += 1
        return 0

    def _run_lane(self, lane: Lane):
        loop: cython.pointer[LoopC] = cython.address(self.c)
        c: cython.pointer[LaneC] = cython.address(lane.c)
        item: ItemC
        oldest: cython.pointer[ItemC]
        args: cython.pointer[PyObject][2]
        handler: cython.pointer[PyObject] = cython.cast(cython.pointer[PyObject], lane.handler)
        budget_refill(cython.address(c.budget), loop.turn, loop.tick.fired)
        try:
            while True:
                oldest = ring_oldest(cython.address(c.ring))
                if oldest == cython.NULL or cython.cast(uint64_t, oldest.mark) > c.barrier or self.allowance <= 0:
                    break
                if c.budget.left <= 0:
                    loop.line.left |= LEFT_LANES
                    if c.budget.keep:
                        if c.budget.denied_epoch != c.budget.epoch:
                            c.budget.denied_epoch = c.budget.epoch
                            c.budget.denied += 1
                        break
                    lane_drop_denied(c, cython.address(item))
                    Py_DECREF(cython.cast(object, item.first))
                    continue
                lane_take(c, cython.address(item))
                loop.line.events += 1
                args[0] = cython.NULL
                args[1] = cython.cast(cython.pointer[PyObject], item.first)
                before_ns: int64_t = 0
                if c.budget.unit == UNIT_WORK:
                    c.budget.left -= 1
                    c.budget.spent += 1
                else:
                    before_ns = clock_now(loop.clock)
                answer: cython.pointer[PyObject] = PyObject_Vectorcall(
                    handler, args + 1, 1 | PY_VECTORCALL_ARGUMENTS_OFFSET, cython.NULL
                )
                if c.budget.unit != UNIT_WORK:
                    budget_take(cython.address(c.budget), clock_now(loop.clock) - before_ns)
                try:
                    self._settle(answer, handler, -1, "lane")
                finally:
                    Py_DECREF(cython.cast(object, item.first))
        finally:
            if c.overflow == OVERFLOW_BLOCK:
                inbox_publish(cython.address(loop.inbox), c)
            if not lane_ok(c):
                loop.broken = BROKEN_LANE
        return 0

    # ---- what must be said -------------------------------------------------------------------------------------------

    def _raise_noted(self):
        """Raise what the native half could only take a note of."""
        loop: cython.pointer[LoopC] = cython.address(self.c)
        if loop.broken:
            what = _BROKEN[loop.broken]
            loop.broken = 0
            return self._broken(what)
        if loop.change_failed:
            fd = loop.change_failed - 1
            loop.change_failed = 0
            error = BadDescriptor(f"descriptor {fd} was closed while it is registered; deregister it before closing it")
            report = ErrorReport(error, "modify", "changes", self.name)
            report_error(self.on_error, report, self.reported, loop.now_ns)
        if loop.failed:
            number = -loop.failed
            loop.failed = 0
            error = self.poller.take_error()
            if error is not None:
                raise error
            raise OSError(number, f"poller {self.poller.name!r} of {self.name} fails: {os.strerror(number)}")
        return 0

    def _broken(self, what: str):
        # Here, because it knows this class.
        from penstock.core.snapshot import describe_turns

        error = InvariantBroken(f"{self.name}: {what}; this is a bug of penstock", describe_turns(self))
        if self.policy.on_invariant == "abort":
            os.write(2, f"penstock: {error}\n".encode(errors="replace"))
            abort()
        raise error

    def _report_drops(self):
        """Tell the hook what was dropped since it was told last."""
        lane: Lane
        self.c.report_ns = INT64_MAX
        self.last_report_ns = self.c.now_ns
        self.reported_drops = self.c.drops
        for lane in self.lanes:
            before: uint64_t = lane.c.reported
            dropped: uint64_t = lane_dropped(cython.address(lane.c))
            if dropped != before and self.on_drop is not None:
                lane.c.reported = dropped
                report = DropReport(self.name, lane.name, lane.overflow, dropped - before, dropped, lane.capacity)
                try:
                    self.on_drop(report)
                except Exception as error:
                    self.c.probes.errors += 1
                    failure = ErrorReport(error, name_of(self.on_drop), "on_drop", self.name)
                    report_error(self.on_error, failure, self.reported, self.c.now_ns)
        return 0

    def _order_lanes(self):
        """Bring the table of lanes in order: without those that were closed, by priority, then by creation.

        Not while their step runs: it goes through a copy, and orders them when it is through.
        """
        lane: Lane
        index: uint32_t = 0
        if self.lanes_running:
            self.lanes_changed = True
            return 0
        stay = []
        parting: uint32_t = 0
        for lane in self.lanes:
            if lane.c.closed:
                lane.c.pending = cython.address(lane.c.own_pending)
                lane.c.drops = cython.address(lane.c.own_drops)
                lane.owner = None
                # What it dropped must still be told; if many go at once, the oldest are only counted.
                if self.on_drop is None or lane.c.reported == lane_dropped(cython.address(lane.c)):
                    continue
                parting += 1
            stay.append(lane)
        excess: int64_t = cython.cast(int64_t, parting) - self.policy.lanes_max
        if excess > 0:
            stay = [lane for lane in stay if not lane.closed] + [lane for lane in stay if lane.closed][excess:]
        self.lanes = tuple(sorted(stay, key=lambda lane: -lane.priority))
        for lane in self.lanes:
            if not lane.c.closed:
                self.c.lanes[index] = cython.address(lane.c)
                index += 1
        self.c.lane_count = index
        self.lanes_changed = False
        return 0
