# cython: language_level=3
"""How several threads share one loop: one lock, one leader, and who is called when there is work.

The lock guards everything that a loop is made of. Whoever has nothing to run becomes the leader, which means the native
half of a turn: it polls, without the lock while the poller waits, and performs what is ready. The others follow: they wait
until something is to be handed over or nobody leads. What a turn has found is then taken out under the lock, one piece at
a time, by whichever thread is free, and run without it: so each completion is on exactly one thread, and a slow one
holds up nobody else.

The lock may be entered again by the thread that has it, because performing may run a destructor, which may do anything. Who
waits for it spins first, for as many rounds as its reason for entering allows (a try is a few instructions, to sleep costs
a system call), and never holds the interpreter's lock while it does. Locking can be configured off for each reason; the
program then promises that one thread at a time does that.

Nobody has a crew but a loop that is declared shared. This file must not know what is run, nor touch an object.
"""

import cython
from cython.cimports.libc.stdint import INT64_MAX, int64_t, uint32_t, uint64_t
from cython.cimports.libc.string import memset
from cython.cimports.penstock.core.ring import ring_size
from cython.cimports.penstock.core.sharing import (
    ATOMIC_RELAXED,
    atomic_load,
    atomic_store,
    pthread_mutex_trylock,
    this_thread,
)
from cython.cimports.penstock.core.system import (
    platform_cond_init,
    platform_cond_wait_until,
    pthread_cond_broadcast,
    pthread_cond_destroy,
    pthread_cond_signal,
    pthread_mutex_destroy,
    pthread_mutex_init,
    pthread_mutex_lock,
    pthread_mutex_unlock,
)
from cython.cimports.penstock.core.timers import timers_next
from cython.cimports.penstock.core.types import LoopC, PollerC, ReadyC
from cython.cimports.penstock.core.waker import waker_wake

# ---- the lock --------------------------------------------------------------------------------------------------------


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def _has_lock(crew: cython.pointer[CrewC]) -> cython.bint:
    """Whether this thread has the lock: nobody else ever writes this thread's number there."""
    return atomic_load(cython.address(crew.owner), ATOMIC_RELAXED) == this_thread()


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def _took(crew: cython.pointer[CrewC]) -> cython.void:
    atomic_store(cython.address(crew.owner), this_thread(), ATOMIC_RELAXED)
    crew.depth = 1
    crew.locks += 1


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def _give(crew: cython.pointer[CrewC]) -> cython.void:
    crew.depth = 0
    atomic_store(cython.address(crew.owner), 0, ATOMIC_RELAXED)
    pthread_mutex_unlock(cython.address(crew.lock))


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def crew_lock(crew: cython.pointer[CrewC], reason: cython.int) -> cython.void:
    """Enter, without the interpreter's lock: spin, then wait."""
    left: uint32_t = crew.spins[reason]
    if not crew.locking[reason]:
        return
    if _has_lock(crew):
        crew.depth += 1
        return
    while pthread_mutex_trylock(cython.address(crew.lock)) != 0:
        if left == 0:
            pthread_mutex_lock(cython.address(crew.lock))
            crew.blocked += 1
            break
        left -= 1
    _took(crew)


@cython.cfunc
@cython.exceptval(check=False)
def crew_enter(crew: cython.pointer[CrewC], reason: cython.int) -> cython.void:
    """Enter, with the interpreter's lock, which is given up if the other one is not free: its owner may need it."""
    if not crew.locking[reason]:
        return
    if _has_lock(crew):
        crew.depth += 1
    elif pthread_mutex_trylock(cython.address(crew.lock)) == 0:
        _took(crew)
    else:
        with cython.nogil:
            crew_lock(crew, reason)
        crew.contended += 1


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def crew_leave(crew: cython.pointer[CrewC], reason: cython.int) -> cython.void:
    """Leave; who leaves last calls somebody for what there is to do now."""
    if not crew.locking[reason]:
        return
    if crew.depth > 1:
        crew.depth -= 1
        return
    _call_one(crew)
    _give(crew)


# ---- who is called ---------------------------------------------------------------------------------------------------


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _generation(crew: cython.pointer[CrewC]) -> cython.bint:
    """Whether this turn has found something that nobody has taken yet."""
    return crew.posts > 0 or crew.completions > 0 or crew.deferred > 0 or crew.loop.due_next < crew.loop.due_count


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def crew_has_work(crew: cython.pointer[CrewC]) -> cython.bint:
    """Whether a turn would find something at once."""
    loop: cython.pointer[LoopC] = crew.loop
    return (
        _generation(crew)
        or loop.descriptors.completed.size > 0
        or ring_size(cython.address(loop.deferred)) > 0
        or loop.registry.again_first >= 0
    )


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _call_one(crew: cython.pointer[CrewC]) -> cython.void:
    """Call a follower if it could do something; else the leader, if it sleeps past what there is to do."""
    if crew.followers > 0 and not crew.calling and (not crew.leading or _generation(crew)):
        crew.calling = True
        crew.calls += 1
        pthread_cond_signal(cython.address(crew.called))
    elif (
        crew.sleeping
        and not crew.woken
        and (crew_has_work(crew) or timers_next(cython.address(crew.loop.timers)) < crew.until_ns)
    ):
        crew.woken = True
        waker_wake(cython.address(crew.loop.waker))


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def crew_call_all(crew: cython.pointer[CrewC]) -> cython.void:
    """Call everybody: to stop, or because nothing is left. With the lock."""
    pthread_cond_broadcast(cython.address(crew.called))
    if crew.sleeping and not crew.woken:
        crew.woken = True
        waker_wake(cython.address(crew.loop.waker))


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def crew_follow(crew: cython.pointer[CrewC], deadline_ns: int64_t) -> cython.void:
    """Wait until called, or until that instant, without the lock. The lock was entered once."""
    crew.followers += 1
    crew.waits += 1
    crew.depth = 0
    atomic_store(cython.address(crew.owner), 0, ATOMIC_RELAXED)
    platform_cond_wait_until(cython.address(crew.called), cython.address(crew.lock), deadline_ns)
    _took(crew)
    crew.followers -= 1
    crew.calling = False


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def crew_begin(crew: cython.pointer[CrewC]) -> cython.void:
    """The native half of a turn is through: this is the generation that it hands over."""
    loop: cython.pointer[LoopC] = crew.loop
    waiting: uint64_t = ring_size(cython.address(loop.inbox.ring))
    crew.posts = cython.cast(uint32_t, waiting if waiting < loop.inbox_budget else loop.inbox_budget)
    crew.completions = loop.descriptors.completed.size
    crew.deferred = cython.cast(uint32_t, ring_size(cython.address(loop.deferred)))
    crew.open = True


# ---- the poller in front ---------------------------------------------------------------------------------------------


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _wait(
    front: cython.pointer[PollerC], out: cython.pointer[ReadyC], capacity: cython.int, timeout_ns: int64_t
) -> cython.int:
    """Wait without the lock. The leader has entered it once."""
    crew: cython.pointer[CrewC] = cython.cast(cython.pointer[CrewC], front.state)
    if timeout_ns == 0:
        return crew.behind.wait(crew.behind, out, capacity, 0)
    crew.sleeping = True
    crew.woken = False
    crew.until_ns = INT64_MAX if timeout_ns < 0 else crew.loop.now_ns + timeout_ns
    _give(crew)
    count: cython.int = crew.behind.wait(crew.behind, out, capacity, timeout_ns)
    crew_lock(crew, CREW_TURN)
    crew.sleeping = False
    return count


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _add(
    front: cython.pointer[PollerC], fd: cython.int, interest: uint32_t, edge: cython.bint, token: uint64_t
) -> cython.int:
    behind: cython.pointer[PollerC] = cython.cast(cython.pointer[CrewC], front.state).behind
    return behind.add(behind, fd, interest, edge, token)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _modify(
    front: cython.pointer[PollerC], fd: cython.int, interest: uint32_t, edge: cython.bint, token: uint64_t
) -> cython.int:
    behind: cython.pointer[PollerC] = cython.cast(cython.pointer[CrewC], front.state).behind
    return behind.modify(behind, fd, interest, edge, token)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _remove(front: cython.pointer[PollerC], fd: cython.int) -> cython.int:
    behind: cython.pointer[PollerC] = cython.cast(cython.pointer[CrewC], front.state).behind
    return behind.remove(behind, fd)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _unread(front: cython.pointer[PollerC], fd: cython.int) -> int64_t:
    behind: cython.pointer[PollerC] = cython.cast(cython.pointer[CrewC], front.state).behind
    return behind.unread(behind, fd)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _reset(front: cython.pointer[PollerC]) -> cython.int:
    behind: cython.pointer[PollerC] = cython.cast(cython.pointer[CrewC], front.state).behind
    return behind.reset(behind)


# ---- life ------------------------------------------------------------------------------------------------------------


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def crew_init(crew: cython.pointer[CrewC], loop: cython.pointer[LoopC]) -> cython.int:
    """A crew for a loop that has its poller, in front of which it steps. -1 if the system has no lock for it."""
    memset(crew, 0, cython.sizeof(CrewC))
    if crew_after_fork(crew) < 0:
        return -1
    crew.loop = loop
    crew.behind = loop.poller
    crew.poller = loop.poller[0]
    crew.poller.state = crew
    crew.poller.add = _add
    crew.poller.modify = _modify
    crew.poller.remove = _remove
    crew.poller.wait = _wait
    crew.poller.unread = _unread
    crew.poller.reset = _reset
    crew.locking[CREW_TURN] = True
    loop.poller = cython.address(crew.poller)
    return 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def crew_after_fork(crew: cython.pointer[CrewC]) -> cython.int:
    """A lock that nobody has. In a child of a fork, who had it or waited for it does not exist. -1 on failure."""
    crew.ready = False
    crew.owner = 0
    crew.depth = 0
    crew.leading = False
    crew.sleeping = False
    crew.calling = False
    crew.followers = 0
    crew.threads = 0
    crew.busy = 0
    if pthread_mutex_init(cython.address(crew.lock), cython.NULL) != 0:
        return -1
    if platform_cond_init(cython.address(crew.called)) != 0:
        pthread_mutex_destroy(cython.address(crew.lock))
        return -1
    crew.ready = True
    return 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def crew_free(crew: cython.pointer[CrewC]) -> cython.void:
    """Give the lock back. Nobody runs the loop any more."""
    if crew.ready:
        pthread_cond_destroy(cython.address(crew.called))
        pthread_mutex_destroy(cython.address(crew.lock))
        crew.ready = False
