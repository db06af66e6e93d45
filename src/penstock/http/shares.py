# cython: language_level=3
"""Who has had how much lately? A bounded table of addresses, and what a fair share is.

An address is heavy when what it has had in about the last second, together with what it waits for, is more than what
each of the active addresses would get if all got the same. So is one whose clients give up more than a third of their
requests before these are begun: what is done for it is likely to be done for nobody. An address that is alone is never
heavy.

The table is a set of four slots per hash. A new address takes the slot of one that has nothing waiting and was not seen
for longest; if all four have something waiting, it shares the slot with the fewest: whoever floods with addresses meets
himself first. Time comes as epochs; a slot that was not touched for a while catches up when it is.

This file must not know queues.
"""

import cython
from cython.cimports.libc.stdint import int64_t, uint32_t, uint64_t
from cython.cimports.libc.stdlib import calloc, free
from cython.cimports.penstock.http.types import SHARE_EPOCHS, SHARE_UNIT, SHARE_WAYS, ShareC, SharesC

from penstock import limits

EPOCH_NS = cython.declare(int64_t, limits.HTTP_SHARE_EPOCH_NS)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def shares_init(shares: cython.pointer[SharesC], slots: uint32_t) -> cython.int:
    """Prepare an empty table of `slots`, a power of two. -1: no memory. The rest of the structure is zero."""
    shares.mask = slots - 1
    shares.slots = cython.cast(cython.pointer[ShareC], calloc(slots, cython.sizeof(ShareC)))
    return -1 if shares.slots == cython.NULL else 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def shares_free(shares: cython.pointer[SharesC]) -> cython.void:
    """Give the table back."""
    free(shares.slots)
    shares.slots = cython.NULL


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _faded(used: uint64_t, epochs: int64_t) -> uint64_t:
    """What is left of a sum after so many epochs."""
    if epochs > 96:
        return 0
    while epochs > 0 and used > 0:
        used -= (used >> 3) + 1
        epochs -= 1
    return used


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _advance(shares: cython.pointer[SharesC], now_ns: int64_t) -> cython.void:
    """Begin the present epoch: sums fade, and who was not seen for long is not active any more."""
    epoch: int64_t = now_ns // EPOCH_NS
    passed: int64_t = epoch - shares.epoch
    if passed <= 0:
        return
    shares.used = _faded(shares.used, passed)
    step: int64_t
    for step in range(1, (passed if passed < SHARE_EPOCHS else SHARE_EPOCHS) + 1):
        place: int64_t = (shares.epoch + step) & (SHARE_EPOCHS - 1)
        shares.active -= shares.fresh[place]
        shares.fresh[place] = 0
    shares.epoch = epoch


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _unsee(shares: cython.pointer[SharesC], share: cython.pointer[ShareC]) -> cython.void:
    """Take an address out of the count of its last epoch, if that still counts."""
    if share.peer != 0 and shares.epoch - share.seen < SHARE_EPOCHS:
        shares.fresh[share.seen & (SHARE_EPOCHS - 1)] -= 1
        shares.active -= 1


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _catch_up(shares: cython.pointer[SharesC], share: cython.pointer[ShareC]) -> cython.void:
    """Let what an address has had fade up to the present epoch."""
    passed: int64_t = shares.epoch - share.epoch
    share.used = _faded(share.used, passed)
    share.gone = _faded(share.gone, passed)
    share.epoch = shares.epoch


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _see(shares: cython.pointer[SharesC], share: cython.pointer[ShareC]) -> cython.void:
    """The address has asked in the present epoch."""
    _catch_up(shares, share)
    share.seen = shares.epoch
    shares.fresh[shares.epoch & (SHARE_EPOCHS - 1)] += 1
    shares.active += 1


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _better_victim(one: cython.pointer[ShareC], other: cython.pointer[ShareC]) -> cython.bint:
    """Whether a slot is rather to be given to somebody else than the other one."""
    if one.waiting != other.waiting:
        return one.waiting < other.waiting
    if (one.peer == 0) != (other.peer == 0):
        return one.peer == 0
    return one.seen < other.seen


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _slot_of(shares: cython.pointer[SharesC], peer: uint64_t) -> cython.pointer[ShareC]:
    """The slot of an address, or the one that is taken or shared for it."""
    # A hash whose low bits are poor is spread by a multiplication; the high bits of the product are the good ones.
    place: uint64_t = (peer * cython.cast(uint64_t, 0x9E3779B97F4A7C15)) >> 32
    first: cython.pointer[ShareC] = cython.address(shares.slots[place & shares.mask & ~cython.cast(uint64_t, 3)])
    victim: cython.pointer[ShareC] = first
    way: cython.int
    for way in range(SHARE_WAYS):
        if first[way].peer == peer:
            return cython.address(first[way])
        if _better_victim(cython.address(first[way]), victim):
            victim = cython.address(first[way])
    if victim.waiting != 0:
        shares.shared += 1
        return victim
    _unsee(shares, victim)
    if victim.peer != 0:
        shares.evicted += 1
    victim.peer = peer
    victim.used = 0
    victim.gone = 0
    victim.epoch = shares.epoch
    victim.seen = shares.epoch - SHARE_EPOCHS
    return victim


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def shares_of(shares: cython.pointer[SharesC], peer: uint64_t, now_ns: int64_t) -> cython.pointer[ShareC]:
    """The slot of an address, which counts as having asked now."""
    _advance(shares, now_ns)
    share: cython.pointer[ShareC] = _slot_of(shares, peer if peer != 0 else 1)
    if share.seen != shares.epoch:
        _unsee(shares, share)
        _see(shares, share)
    return share


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def shares_heavy(
    shares: cython.pointer[cython.const[SharesC]], share: cython.pointer[cython.const[ShareC]]
) -> cython.bint:
    """Whether one more request would be more than a fair share; a quarter and one request more is still fair."""
    if shares.active < 2:
        return False
    if share.gone > SHARE_UNIT and share.gone * 2 > share.used:
        return True
    fair: uint64_t = (shares.used + cython.cast(uint64_t, shares.waiting) * SHARE_UNIT) // shares.active
    return share.used + cython.cast(uint64_t, share.waiting) * SHARE_UNIT > fair + (fair >> 2) + SHARE_UNIT


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def shares_crowds(
    shares: cython.pointer[cython.const[SharesC]], share: cython.pointer[cython.const[ShareC]], places: uint32_t
) -> cython.bint:
    """Whether an address takes its part of so many places, while others wait too."""
    others: uint32_t = shares.contenders - (1 if share.waiting > 0 else 0)
    return others > 0 and cython.cast(uint64_t, share.waiting) * (others + 1) >= places


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def shares_wait(shares: cython.pointer[SharesC], share: cython.pointer[ShareC]) -> cython.void:
    """A request of the address is in the queue."""
    if share.waiting == 0:
        shares.contenders += 1
    share.waiting += 1
    shares.waiting += 1


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def shares_leave(shares: cython.pointer[SharesC], share: cython.pointer[ShareC]) -> cython.void:
    """A request of the address is no longer in the queue."""
    share.waiting -= 1
    shares.waiting -= 1
    if share.waiting == 0:
        shares.contenders -= 1


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def shares_charge(shares: cython.pointer[SharesC], share: cython.pointer[ShareC]) -> cython.void:
    """Work on a request of the address begins: that is what it has had."""
    _catch_up(shares, share)
    share.used += SHARE_UNIT
    shares.used += SHARE_UNIT


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def shares_lose(shares: cython.pointer[SharesC], share: cython.pointer[ShareC]) -> cython.void:
    """The peer of a request that waited has gone away."""
    _catch_up(shares, share)
    share.gone += SHARE_UNIT
