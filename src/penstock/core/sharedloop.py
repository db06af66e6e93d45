# cython: language_level=3
"""A loop that several threads may run at once. Which of them does what is crew.py's.

    operations, timers, deferred tasks, posts, signals     each runs on exactly one of the threads, and several run at once
    callbacks of readiness, streams, lanes                 belong to one thread, and are refused here

Everything may be called from any thread. `stop` ends the run of every thread, also of those that come later, until
`restart`. What a turn hands over is in order when it is taken out; of what two threads took, either may end first.

A loop that is not shared has none of this: its methods are loop.py's, and take no lock.
"""

import threading

import cython
from cython.cimports.cpython.exc import PyErr_CheckSignals
from cython.cimports.cpython.object import PyTypeObject
from cython.cimports.cpython.ref import Py_INCREF, Py_XDECREF, PyObject
from cython.cimports.libc.stdint import INT64_MAX, int64_t, uint32_t, uint64_t
from cython.cimports.penstock.core.clock import clock_now
from cython.cimports.penstock.core.crew import (
    CREW_IO,
    CREW_REGISTRATION,
    CREW_TURN,
    CrewC,
    crew_after_fork,
    crew_begin,
    crew_call_all,
    crew_enter,
    crew_follow,
    crew_free,
    crew_has_work,
    crew_init,
    crew_leave,
)
from cython.cimports.penstock.core.dispatch import _call
from cython.cimports.penstock.core.inbox import inbox_take
from cython.cimports.penstock.core.lane import Lane
from cython.cimports.penstock.core.loop import Loop
from cython.cimports.penstock.core.operation import operation_detach, operation_told, queue_pop
from cython.cimports.penstock.core.ring import ring_pop
from cython.cimports.penstock.core.system import (
    PyObject_Call,
    PyThread_get_thread_ident,
    platform_atomic_load,
    platform_atomic_store,
)
from cython.cimports.penstock.core.timers import timers_fire
from cython.cimports.penstock.core.turn import turn_account, turn_changes, turn_idle, turn_native
from cython.cimports.penstock.core.types import (
    ItemC,
    LoopC,
    OperationC,
    native_ready_t,
    native_timer_t,
)

from penstock import limits
from penstock.core.poller.epoll import EpollPoller
from penstock.errors import ForkedLoop, LoopRunning, Overflow, Unsupported, UsageError


@cython.cfunc
def crew_of(loop: Loop) -> cython.pointer[CrewC]:
    """The crew of a loop; NULL if one thread owns it."""
    if isinstance(loop, SharedLoop):
        return cython.address(cython.cast(SharedLoop, loop).crew)
    return cython.NULL


class SharedLoop(Loop):
    """One turn engine, for several threads."""

    def __init__(self, poller, *, policy=None, clock=None, name=None, on_error=None, on_drop=None):
        if not isinstance(poller, EpollPoller):
            raise Unsupported(
                f"poller {poller.name!r} cannot be told anything while it waits; a shared loop needs poller 'epoll'"
            )
        if clock is not None and clock.manual:
            raise UsageError("a manual clock cannot wake threads that wait; a shared loop needs the system's clock")
        Loop.__init__(self, poller, policy=policy, clock=clock, name=name, on_error=on_error, on_drop=on_drop)
        self.inside = set()
        if crew_init(cython.address(self.crew), cython.address(self.c)) < 0:
            raise MemoryError(f"no lock for {self.name}")
        self.crew.locking[CREW_IO] = self.policy.io_locking
        self.crew.locking[CREW_REGISTRATION] = self.policy.registration_locking
        self.crew.spins[CREW_TURN] = self.crew.spins[CREW_IO] = self.policy.io_spins
        self.crew.spins[CREW_REGISTRATION] = self.policy.registration_spins
        self.signals.noted = self._signal_noted

    # ---- who may call ------------------------------------------------------------------------------------------------

    def check(self):
        """Raise unless this is the process that made the loop, before close()."""
        if self.c.closed or self.c.forks != self.c.fork_count[0]:
            self.check_elsewhere()
        return 0

    def _alone(self, what: str):
        raise Unsupported(
            f"{self.name} is shared between threads, and {what} belongs to one; use operations of penstock.net.Descriptor, "
            "or give each thread a Reactor of its own"
        )

    def register_python(self, fd: cython.int, interest: uint32_t, callback, edge: cython.bint):
        """Refused: while one thread runs the callback, the descriptor would be ready for the others too."""
        return self._alone("a callback of readiness")

    def register_native(
        self, fd: cython.int, interest: uint32_t, handler: native_ready_t, context: cython.p_void, edge: cython.bint
    ):
        """Refused: streams and listeners take no lock."""
        return self._alone("a stream, a listener or a native handler")

    def add_lane(self, lane: Lane):
        """Refused: a lane has one budget and one order."""
        self._alone("a lane")

    # ---- what enters, under the lock -----------------------------------------------------------------------------------

    def start_timer(self, delay_ns: int64_t, period_ns: int64_t, callback, args):
        """As in a loop of one thread."""
        crew_enter(cython.address(self.crew), CREW_REGISTRATION)
        try:
            return Loop.start_timer(self, delay_ns, period_ns, callback, args)
        finally:
            crew_leave(cython.address(self.crew), CREW_REGISTRATION)

    def start_native_timer(
        self, delay_ns: int64_t, period_ns: int64_t, handler: native_timer_t, context: cython.p_void
    ):
        """As in a loop of one thread."""
        crew_enter(cython.address(self.crew), CREW_REGISTRATION)
        try:
            return Loop.start_native_timer(self, delay_ns, period_ns, handler, context)
        finally:
            crew_leave(cython.address(self.crew), CREW_REGISTRATION)

    def cancel_timer(self, identity: uint64_t):
        """As in a loop of one thread."""
        crew_enter(cython.address(self.crew), CREW_REGISTRATION)
        try:
            return Loop.cancel_timer(self, identity)
        finally:
            crew_leave(cython.address(self.crew), CREW_REGISTRATION)

    def move_timer(self, identity: uint64_t, delay_ns: int64_t):
        """As in a loop of one thread."""
        crew_enter(cython.address(self.crew), CREW_REGISTRATION)
        try:
            return Loop.move_timer(self, identity, delay_ns)
        finally:
            crew_leave(cython.address(self.crew), CREW_REGISTRATION)

    def deregister_fd(self, fd: cython.int):
        """As in a loop of one thread."""
        crew_enter(cython.address(self.crew), CREW_REGISTRATION)
        try:
            return Loop.deregister_fd(self, fd)
        finally:
            crew_leave(cython.address(self.crew), CREW_REGISTRATION)

    def defer_call(self, callback, args):
        """As in a loop of one thread."""
        crew_enter(cython.address(self.crew), CREW_IO)
        try:
            return Loop.defer_call(self, callback, args)
        finally:
            crew_leave(cython.address(self.crew), CREW_IO)

    # ---- joining and parting -------------------------------------------------------------------------------------------

    def _join(self):
        """This thread begins to run the loop."""
        me = PyThread_get_thread_ident()
        self.check()
        if me in self.inside:
            raise LoopRunning(f"{self.name} is run by this thread already; a handler cannot run it once more")
        if len(self.inside) >= self.policy.shared_threads_max:
            raise Overflow(
                f"{self.name} is run by {len(self.inside)} threads; run fewer, or raise shared_threads_max in its Policy",
                limit="shared_threads_max",
                capacity=self.policy.shared_threads_max,
            )
        self.signals.lend(self.signal_pipe[1])
        self.inside.add(me)
        self.running = True
        crew_enter(cython.address(self.crew), CREW_TURN)
        if self.crew.threads == 0:
            # Nobody has kept the time.
            self.c.now_ns = clock_now(self.c.clock)
        self.crew.threads += 1
        crew_leave(cython.address(self.crew), CREW_TURN)
        return 0

    def _part(self):
        """This thread runs the loop no more."""
        self.inside.discard(PyThread_get_thread_ident())
        self.running = len(self.inside) > 0
        if self.c.forks == self.c.fork_count[0]:
            crew_enter(cython.address(self.crew), CREW_TURN)
            self.crew.threads -= 1
            crew_leave(cython.address(self.crew), CREW_TURN)
        if threading.current_thread() is threading.main_thread():
            self.signals.take_back()
        return 0

    # ---- one thread's work ---------------------------------------------------------------------------------------------

    def _work(self, wait_cap_ns: int64_t, most: int64_t, stay: cython.bint, turns: cython.int):
        """Lead, follow and run what is taken, until stopped, or until `most` have run, or after so many turns (0: any)."""
        crew: cython.pointer[CrewC] = cython.address(self.crew)
        taken: TakenC
        count: int64_t = 0
        again: cython.bint
        bounded: cython.bint = turns > 0
        self._join()
        try:
            while count < most and not platform_atomic_load(cython.address(self.c.stopping)):
                PyErr_CheckSignals()
                crew_enter(crew, CREW_TURN)
                try:
                    again = True
                    self._take(cython.address(taken))
                    if taken.step == cython.NULL:
                        again = False
                        if not stay and self._over():
                            break
                        if crew.leading:
                            if wait_cap_ns == 0:
                                break
                            self._follow(wait_cap_ns)
                        else:
                            self._lead(wait_cap_ns)
                        if bounded:
                            turns = turns - 1 if crew_has_work(crew) else 0
                finally:
                    crew_leave(crew, CREW_TURN)
                if again:
                    count += 1
                    self._run_taken(cython.address(taken))
                elif bounded and turns == 0:
                    # What it has found is run before this ends.
                    count += self._rest(most - count)
                    break
        finally:
            self._part()
        return count

    def _rest(self, most: int64_t):
        """Run what this turn has found, as far as nobody else does."""
        crew: cython.pointer[CrewC] = cython.address(self.crew)
        taken: TakenC
        count: int64_t = 0
        while count < most:
            crew_enter(crew, CREW_TURN)
            try:
                self._take(cython.address(taken))
            finally:
                crew_leave(crew, CREW_TURN)
            if taken.step == cython.NULL:
                break
            count += 1
            self._run_taken(cython.address(taken))
        return count

    def _over(self):
        """Whether nothing is left that could happen; then everybody is told. With the lock."""
        crew: cython.pointer[CrewC] = cython.address(self.crew)
        if crew.busy or (crew.leading and not crew.sleeping) or not turn_idle(cython.address(self.c)):
            return False
        if len(self.signals):
            return False
        crew_call_all(crew)
        return True

    def _follow(self, wait_cap_ns: int64_t):
        """Wait until there is something to take or nobody leads. With the lock."""
        crew: cython.pointer[CrewC] = cython.address(self.crew)
        wait_ns: int64_t = wait_cap_ns if wait_cap_ns < self.c.wait_max_ns else self.c.wait_max_ns
        deadline_ns: int64_t = clock_now(self.c.clock) + wait_ns
        if not platform_atomic_load(cython.address(self.c.stopping)):
            with cython.nogil:
                crew_follow(crew, deadline_ns)
        return 0

    def _lead(self, wait_cap_ns: int64_t):
        """The end of the last turn, and the native half of the next one. With the lock, and nothing left to take."""
        loop: cython.pointer[LoopC] = cython.address(self.c)
        crew: cython.pointer[CrewC] = cython.address(self.crew)
        crew.leading = True
        with cython.nogil:
            if crew.open:
                turn_changes(loop)
                turn_account(loop, clock_now(loop.clock))
            turn_native(loop, wait_cap_ns)
        crew.leading = False
        crew_begin(crew)
        loop.probes.python_turns += 1
        if loop.signalled:
            # The thread that the interpreter's handlers run in may be one of those that wait.
            loop.signalled = False
            crew_call_all(crew)
        if loop.failed or loop.broken or loop.change_failed:
            self._raise_noted()
        return 0

    # ---- what is taken -------------------------------------------------------------------------------------------------

    def _take(self, taken: cython.pointer[TakenC]):
        """Take one piece of what this turn has found, in the order of its steps. With the lock."""
        taken.step = cython.NULL
        taken.args = cython.NULL
        taken.held.perform = cython.NULL
        if self.signals.pending:
            for callback, args in self.signals.take():
                Py_INCREF(callback)
                Py_INCREF(args)
                taken.callback = cython.cast(cython.pointer[PyObject], callback)
                taken.args = cython.cast(cython.pointer[PyObject], args)
                taken.step = b"signal"
                break
        if taken.step != cython.NULL or self._take_waiting(taken):
            self.crew.busy += 1
            self.crew.handed_over += 1
        return 0

    def _take_waiting(self, taken: cython.pointer[TakenC]):
        """Steps 3, 4 and 7: a post, a timer, a completion, a deferred task."""
        loop: cython.pointer[LoopC] = cython.address(self.c)
        crew: cython.pointer[CrewC] = cython.address(self.crew)
        item: ItemC
        while crew.posts > 0:
            crew.posts -= 1
            if inbox_take(cython.address(loop.inbox), cython.address(item)):
                loop.line.posts += 1
                return _keep(taken, item, b"inbox")
        while loop.due_next < loop.due_count:
            identity: uint64_t = loop.due[loop.due_next]
            loop.due_next += 1
            if timers_fire(cython.address(loop.timers), identity, loop.now_ns, cython.address(item)):
                if not item.mark:
                    # An interval keeps its own; its callback may cancel it.
                    Py_INCREF(cython.cast(object, item.first))
                    Py_INCREF(cython.cast(object, item.second))
                loop.line.timers += 1
                return _keep(taken, item, b"timer")
        while crew.completions > 0:
            crew.completions -= 1
            operation: cython.pointer[OperationC] = queue_pop(cython.address(loop.descriptors.completed))
            if operation == cython.NULL:
                continue
            loop.line.deferred += 1
            if operation.complete != cython.NULL:
                operation.complete(loop, operation)
                continue
            taken.callback = operation.callback
            operation.callback = cython.NULL
            operation_detach(cython.address(loop.descriptors), operation, cython.address(taken.held))
            taken.step = b"completion"
            return True
        while crew.deferred > 0:
            crew.deferred -= 1
            if ring_pop(cython.address(loop.deferred), cython.address(item)):
                loop.line.deferred += 1
                loop.probes.deferred += 1
                return _keep(taken, item, b"deferred")
        return False

    def _run_taken(self, taken: cython.pointer[TakenC]):
        """Run it, without the lock."""
        answer: cython.pointer[PyObject]
        outcome: object = None
        try:
            if taken.held.perform != cython.NULL:
                outcome = operation_told(cython.address(taken.held))
                answer = PyObject_Call(taken.callback, cython.cast(cython.pointer[PyObject], outcome), cython.NULL)
            else:
                answer = _call(taken.callback, taken.args)
            if answer == cython.NULL:
                self._contain(cython.cast(object, taken.callback), taken.step.decode("ascii"))
            Py_XDECREF(answer)
            if self.c.forks != self.c.fork_count[0]:
                raise ForkedLoop(f"{self.name} was made before a fork; make a new loop in the child process")
        finally:
            Py_XDECREF(taken.args)
            Py_XDECREF(taken.callback)
            self._done()
        return 0

    def _done(self):
        """A handler has returned. If that was the last of everything, those who wait for an end are told."""
        if self.c.forks != self.c.fork_count[0]:
            return 0
        crew_enter(cython.address(self.crew), CREW_TURN)
        self.crew.busy -= 1
        if self.crew.busy == 0 and self.crew.sleeping and turn_idle(cython.address(self.c)):
            crew_call_all(cython.address(self.crew))
        crew_leave(cython.address(self.crew), CREW_TURN)
        return 0

    # ---- running -------------------------------------------------------------------------------------------------------

    def run(self, keep_alive: bool = True):
        """Take part until stopped; without `keep_alive` also until nothing is armed, queued or running."""
        self._work(INT64_MAX, INT64_MAX, keep_alive, 0)

    def run_once(self, timeout_ns: int64_t):
        """One turn that waits at most `timeout_ns`, and what of it nobody else runs. Returns how many handlers ran."""
        return self._work(timeout_ns, INT64_MAX, True, 1)

    def run_one(self):
        """Wait until this thread has run one handler; 0 if there is nothing to wait for, or on stop."""
        return self._work(INT64_MAX, 1, False, 0)

    def poll_ready(self):
        """Run what is ready, and what that makes ready, without waiting. Returns how many handlers ran here."""
        return self._work(0, INT64_MAX, True, limits.POLL_TURNS_MAX)

    def poll_one(self):
        """Run one handler if one is ready, without waiting. Returns how many ran."""
        return self._work(0, 1, True, 1)

    def stop(self):
        """Let every run return, also those that begin later, until `restart`. From any thread, or a signal handler."""
        platform_atomic_store(cython.address(self.c.stopping), 1)
        if self.c.closed or self.c.forks != self.c.fork_count[0]:
            return
        crew_enter(cython.address(self.crew), CREW_TURN)
        crew_call_all(cython.address(self.crew))
        crew_leave(cython.address(self.crew), CREW_TURN)

    def _signal_noted(self):
        """The main thread has taken note of a signal: somebody must run its callback."""
        crew_enter(cython.address(self.crew), CREW_TURN)
        crew_call_all(cython.address(self.crew))
        crew_leave(cython.address(self.crew), CREW_TURN)

    # ---- life ----------------------------------------------------------------------------------------------------------

    def after_fork(self):
        """In a child process: as in a loop of one thread; the parent's other threads do not run it there."""
        if self.c.forks != self.c.fork_count[0]:
            self.inside.clear()
            self.running = False
            if crew_after_fork(cython.address(self.crew)) < 0:
                raise MemoryError(f"no lock for {self.name}")
        Loop.after_fork(self)

    def close(self):
        """Let go of everything, when no thread runs it any more."""
        if self.inside and self.c.forks == self.c.fork_count[0]:
            raise LoopRunning(
                f"{self.name} is run by {len(self.inside)} threads; stop it, and close it when they have returned"
            )
        self.signals.noted = None
        Loop.close(self)

    def __dealloc__(self):
        crew_free(cython.address(self.crew))

    def lock_counters(self):
        """How often the lock was taken, and how often somebody had to wait for it or was called."""
        return {
            "threads": self.crew.threads,
            "locks": self.crew.locks,
            "contended": self.crew.contended,
            "blocked": self.crew.blocked,
            "waits": self.crew.waits,
            "calls": self.crew.calls,
            "handed_over": self.crew.handed_over,
        }


@cython.cfunc
@cython.exceptval(check=False)
def _keep(taken: cython.pointer[TakenC], item: ItemC, step: cython.pointer[cython.const[cython.char]]) -> cython.bint:
    taken.callback = cython.cast(cython.pointer[PyObject], item.first)
    taken.args = cython.cast(cython.pointer[PyObject], item.second)
    taken.step = step
    return True


# As for Loop: its attributes must be there until its destructor has run.
cython.cast(cython.pointer[PyTypeObject], cython.cast(cython.p_void, SharedLoop)).tp_clear = cython.NULL
