# cython: language_level=3
"""What the streams and listeners of one loop share: the pool of read memory, the counters, and who waits for descriptors.

It hangs off the loop, so that loops of several threads share nothing. This file must not know streams or listeners.
"""

import cython
from cython.cimports.libc.string import memset
from cython.cimports.penstock.core.loop import Loop
from cython.cimports.penstock.net.buffer import buffer_total
from cython.cimports.penstock.net.pool import pool_close, pool_open
from cython.cimports.penstock.net.types import END_COUNT, NetC

from penstock import limits

# In the order of END_ in types.pxd.
REASONS = (
    "closed",
    "eof",
    "aborted",
    "slow peer",
    "write memory",
    "idle",
    "deadline",
    "linger",
    "reset",
    "error",
    "handler failed",
    "evicted",
    "loop closed",
    "not connected",
)
if len(REASONS) != END_COUNT:
    raise AssertionError("REASONS does not have a word for each END_")

ATTACHED = "net"


class Net:
    """The share of a loop."""

    def __cinit__(self):
        memset(cython.address(self.c), 0, cython.sizeof(NetC))
        self.starving = []
        if pool_open(cython.address(self.c.pool), limits.READ_POOL_BYTES) < 0:
            raise MemoryError("no memory for the read pool of a loop")

    def __dealloc__(self):
        pool_close(cython.address(self.c.pool))

    def freed(self):
        """A descriptor is free again: listeners that wait for one go on."""
        if self.starving:
            waiting, self.starving = self.starving, []
            for resume in waiting:
                resume()
        return 0

    def counters(self):
        """Everything that is counted."""
        c: cython.pointer[NetC] = cython.address(self.c)
        return {
            "open": c.opened - c.closed,
            "opened": c.opened,
            "closed": c.closed,
            "received_bytes": c.received_bytes,
            "sent_bytes": c.sent_bytes,
            "receives": c.receives,
            "sends": c.sends,
            "short_sends": c.short_sends,
            "unsent_bytes": c.unsent_bytes,
            "unread_bytes": c.unread_bytes,
            "late_writes": c.late_writes,
            "dropped_writes": c.dropped_writes,
            "rejected_writes": c.rejected_writes,
            "accepted": c.accepted,
            "refused": c.refused,
            "evicted": c.evicted,
            "starved": c.starved,
            "pool_bytes": c.pool.used,
            "pool_high_water": c.pool.high_water,
            "pool_exhausted": c.pool.exhausted,
            "write_buffers_bytes": buffer_total().bytes,
            "ends": {word: c.ends[index] for index, word in enumerate(REASONS)},
        }


@cython.cfunc
def net_of(loop: Loop) -> Net:
    """The share of that loop, made when it is first asked for."""
    net = loop.attached.get(ATTACHED)
    if net is None:
        net = loop.attached[ATTACHED] = Net()
    return net


def counters(reactor):
    """What the streams and listeners of a reactor have counted."""
    return net_of(reactor.loop).counters()
