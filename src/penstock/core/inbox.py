# cython: language_level=3
"""How do other threads hand work to a loop? A bounded ring behind a lock, and just enough waking.

The only room of the kernel that several threads enter. A loop about to block says so under the lock
(`inbox_may_sleep`); whoever posts sees that under the same lock and wakes it, once: a busy loop is never woken, and
no post is overlooked.

Places in a lane that blocks are promised here: an event that waits in the inbox has its place (`in_flight`), so that it
always fits when it arrives. A thread that finds no place waits for one, but never longer than its deadline.

This file must not know what is posted.
"""

import cython
from cython.cimports.cpython.ref import Py_DECREF, Py_INCREF
from cython.cimports.libc.stdint import int64_t, uint64_t
from cython.cimports.penstock.core.ring import ring_free, ring_init, ring_pop, ring_push, ring_size
from cython.cimports.penstock.core.system import (
    platform_atomic_store,
    platform_cond_init,
    platform_cond_wait_until,
    pthread_cond_broadcast,
    pthread_cond_destroy,
    pthread_mutex_destroy,
    pthread_mutex_init,
    pthread_mutex_lock,
    pthread_mutex_unlock,
)
from cython.cimports.penstock.core.types import POST_CALL, InboxC, ItemC, LaneC

from penstock.errors import UsageError


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def inbox_init(inbox: cython.pointer[InboxC], capacity: uint64_t) -> cython.int:
    """Prepare an empty inbox; -1 if there is no memory or no lock for it."""
    inbox.ready = False
    inbox.closed = False
    inbox.sleeping = False
    inbox.filled = 0
    inbox.waiting = 0
    if ring_init(cython.address(inbox.ring), capacity) < 0:
        return -1
    if pthread_mutex_init(cython.address(inbox.lock), cython.NULL) != 0:
        ring_free(cython.address(inbox.ring))
        return -1
    if platform_cond_init(cython.address(inbox.room)) != 0:
        pthread_mutex_destroy(cython.address(inbox.lock))
        ring_free(cython.address(inbox.ring))
        return -1
    inbox.ready = True
    return 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def inbox_after_fork(inbox: cython.pointer[InboxC]) -> cython.int:
    """In the child, whoever held the lock or waited for room does not exist. What was posted stays."""
    inbox.waiting = 0
    inbox.sleeping = False
    if pthread_mutex_init(cython.address(inbox.lock), cython.NULL) != 0:
        return -1
    return platform_cond_init(cython.address(inbox.room))


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def inbox_free(inbox: cython.pointer[InboxC]) -> cython.void:
    """Give everything back. The inbox is closed and empty, and nobody waits any more."""
    if inbox.ready:
        pthread_cond_destroy(cython.address(inbox.room))
        pthread_mutex_destroy(cython.address(inbox.lock))
        ring_free(cython.address(inbox.ring))
        inbox.ready = False


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def _lane_full(lane: cython.pointer[LaneC]) -> cython.bint:
    return lane != cython.NULL and lane.published + lane.in_flight >= lane.ring.capacity


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def _no_place(inbox: cython.pointer[InboxC], lane: cython.pointer[LaneC]) -> cython.bint:
    return _lane_full(lane) or ring_size(cython.address(inbox.ring)) >= inbox.ring.capacity


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def inbox_post(
    inbox: cython.pointer[InboxC],
    first: cython.p_void,
    second: cython.p_void,
    kind: cython.int,
    blocking: cython.pointer[LaneC],
    deadline_ns: int64_t,
    wake: cython.pointer[cython.bint],
) -> cython.int:
    """Hand an item over, waiting for a place in `blocking` until `deadline_ns` if that lane is given and full.

    Returns a POST_ answer; `wake` tells whether the loop sleeps and must be woken by the caller.
    """
    answer: cython.int = POST_OK
    wake[0] = False
    pthread_mutex_lock(cython.address(inbox.lock))
    while blocking != cython.NULL and not inbox.closed and not blocking.closed and _no_place(inbox, blocking):
        inbox.waiting += 1
        inbox.waited += 1
        late: cython.int = platform_cond_wait_until(cython.address(inbox.room), cython.address(inbox.lock), deadline_ns)
        inbox.waiting -= 1
        if late != 0:
            break
    if inbox.closed:
        answer = POST_CLOSED
    elif blocking != cython.NULL and blocking.closed:
        answer = POST_LANE_CLOSED
    elif _lane_full(blocking):
        answer = POST_NO_ROOM
    elif not ring_push(cython.address(inbox.ring), first, second, kind):
        answer = POST_FULL
    else:
        inbox.posted += 1
        platform_atomic_store(cython.address(inbox.filled), 1)
        if ring_size(cython.address(inbox.ring)) > inbox.high_water:
            inbox.high_water = ring_size(cython.address(inbox.ring))
        if blocking != cython.NULL:
            blocking.in_flight += 1
        wake[0] = inbox.sleeping
        inbox.sleeping = False
    if answer != POST_OK:
        inbox.rejected += 1
    pthread_mutex_unlock(cython.address(inbox.lock))
    return answer


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def inbox_take(inbox: cython.pointer[InboxC], out: cython.pointer[ItemC]) -> cython.bint:
    """Take the oldest item; False if there is none."""
    pthread_mutex_lock(cython.address(inbox.lock))
    taken: cython.bint = ring_pop(cython.address(inbox.ring), out)
    if ring_size(cython.address(inbox.ring)) == 0:
        platform_atomic_store(cython.address(inbox.filled), 0)
    if taken and inbox.waiting:
        pthread_cond_broadcast(cython.address(inbox.room))
    pthread_mutex_unlock(cython.address(inbox.lock))
    return taken


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def inbox_may_sleep(inbox: cython.pointer[InboxC]) -> cython.bint:
    """Say that the loop is about to block; False, and nothing said, if there is something to take."""
    pthread_mutex_lock(cython.address(inbox.lock))
    empty: cython.bint = ring_size(cython.address(inbox.ring)) == 0
    inbox.sleeping = empty
    pthread_mutex_unlock(cython.address(inbox.lock))
    return empty


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def inbox_awake(inbox: cython.pointer[InboxC]) -> cython.void:
    """Say that the loop does not block any more."""
    pthread_mutex_lock(cython.address(inbox.lock))
    inbox.sleeping = False
    pthread_mutex_unlock(cython.address(inbox.lock))


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def inbox_close(inbox: cython.pointer[InboxC]) -> cython.void:
    """Take no more, and let everybody go who waits."""
    if inbox.ready:
        pthread_mutex_lock(cython.address(inbox.lock))
        inbox.closed = True
        pthread_cond_broadcast(cython.address(inbox.room))
        pthread_mutex_unlock(cython.address(inbox.lock))


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def inbox_close_lane(inbox: cython.pointer[InboxC], lane: cython.pointer[LaneC]) -> cython.void:
    """Promise no more places in that lane, and let everybody go who waits for one."""
    pthread_mutex_lock(cython.address(inbox.lock))
    lane.closed = True
    if inbox.waiting:
        pthread_cond_broadcast(cython.address(inbox.room))
    pthread_mutex_unlock(cython.address(inbox.lock))


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def inbox_has_place(inbox: cython.pointer[InboxC], lane: cython.pointer[LaneC]) -> cython.bint:
    """Whether a lane that blocks has a place that is not promised to an event in the inbox; for the loop's thread."""
    pthread_mutex_lock(cython.address(inbox.lock))
    free_place: cython.bint = ring_size(cython.address(lane.ring)) + lane.in_flight < lane.ring.capacity
    pthread_mutex_unlock(cython.address(inbox.lock))
    return free_place


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def inbox_arrived(inbox: cython.pointer[InboxC], lane: cython.pointer[LaneC]) -> cython.void:
    """An event's promised place in a lane that blocks is now a real one."""
    pthread_mutex_lock(cython.address(inbox.lock))
    lane.in_flight -= 1
    lane.published = ring_size(cython.address(lane.ring))
    pthread_mutex_unlock(cython.address(inbox.lock))


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def inbox_publish(inbox: cython.pointer[InboxC], lane: cython.pointer[LaneC]) -> cython.void:
    """Tell other threads the present depth of a lane that blocks, and those who wait that there may be a place."""
    pthread_mutex_lock(cython.address(inbox.lock))
    lane.published = ring_size(cython.address(lane.ring))
    if inbox.waiting:
        pthread_cond_broadcast(cython.address(inbox.room))
    pthread_mutex_unlock(cython.address(inbox.lock))


class Inbox:
    """A bounded queue that any thread may post to, for one taker."""

    def __cinit__(self, capacity: int):
        if capacity < 1:
            raise UsageError(f"capacity is {capacity}; an inbox holds at least 1 item")
        if inbox_init(cython.address(self.c), capacity) < 0:
            raise MemoryError(f"no memory for an inbox of {capacity} items")

    def __dealloc__(self):
        item: ItemC
        if self.c.ready:
            while inbox_take(cython.address(self.c), cython.address(item)):
                Py_DECREF(cython.cast(object, item.first))
            inbox_free(cython.address(self.c))

    def post(self, item):
        """Hand `item` over: "full", "closed", "wake" if the taker sleeps and must be woken, else "posted"."""
        wake: cython.bint = False
        first: cython.p_void = cython.cast(cython.p_void, item)
        Py_INCREF(item)
        answer: cython.int = inbox_post(
            cython.address(self.c), first, cython.NULL, POST_CALL, cython.NULL, 0, cython.address(wake)
        )
        if answer != POST_OK:
            Py_DECREF(item)
            return "closed" if answer == POST_CLOSED else "full"
        return "wake" if wake else "posted"

    def take(self):
        """Take the oldest item, in a tuple; None if there is none."""
        item: ItemC
        if not inbox_take(cython.address(self.c), cython.address(item)):
            return None
        taken = cython.cast(object, item.first)
        Py_DECREF(taken)
        return (taken,)

    def may_sleep(self):
        """Say that the taker is about to block; False if there is something to take."""
        return bool(inbox_may_sleep(cython.address(self.c)))

    def awake(self):
        """Say that the taker does not block any more."""
        inbox_awake(cython.address(self.c))

    def close(self):
        """Take no more."""
        inbox_close(cython.address(self.c))

    def __len__(self):
        return ring_size(cython.address(self.c.ring))
