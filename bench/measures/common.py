"""What several measurements share: the CPU clock, the drain, the usual entries, delays that repeat from run to run."""

from __future__ import annotations

import random
import time
from collections import deque
from collections.abc import Callable

from rig.model import COLUMNS, Entry

LOOPS = tuple(name for name in COLUMNS if name != "raw C")
EVERY_LOOP = tuple(Entry(name) for name in LOOPS)
LOOP_CELLS = {entry.contender: entry for entry in EVERY_LOOP}

# CPU time of the whole process: what another process does on the core is not in it.
cpu_ns = time.process_time_ns

# drain(map(call, arguments)) calls in C: the driver's own share stays small, and is the same for every contender.
drain = deque[object](maxlen=0).extend


def cpu_of(job: Callable[[], object]) -> int:
    """CPU nanoseconds of one call."""
    start = cpu_ns()
    job()
    return cpu_ns() - start


def far_delays(count: int, seed: int) -> list[float]:
    """Delays of 1,000 to 2,000 seconds in no order: none becomes due while anybody measures."""
    source = random.Random(seed)
    return [1_000 + 1_000 * source.random() for _ in range(count)]
