"""Posts from another thread in bursts: what it costs both threads together until the loop has run them all.

The posting thread waits for the end of each burst before it starts the next, so no more than one burst ever waits; the
loop is asleep when a burst begins, so its first post has to wake it.
"""

from __future__ import annotations

import threading
from itertools import repeat

from contenders.base import Contender, noop
from measures.common import EVERY_LOOP, LOOP_CELLS, cpu_of, drain
from rig.model import Amount, Figures, Measure, Row

BURST = 10_000
THREAD_TIMEOUT_S = 60


def bursts(contender: Contender, _form: str, count: int) -> Figures:
    post, stop = contender.post, contender.stop
    done = threading.Semaphore(0)

    def produce() -> None:
        for _ in range(count // BURST):
            drain(map(post, repeat(noop, BURST - 1)))
            post(done.release)
            if not done.acquire(timeout=THREAD_TIMEOUT_S):
                raise AssertionError("a burst was never run to its end")
        post(stop)

    producer = threading.Thread(target=produce, daemon=True)
    contender.soon(producer.start)
    cpu = cpu_of(contender.run)
    producer.join(THREAD_TIMEOUT_S)
    return {"cpu_ns": cpu / count}


MEASURE = Measure(
    name="post_burst",
    purpose="posts from another thread, bursts of 10,000",
    entries=EVERY_LOOP,
    rows=(Row("post from a thread, bursts of 10,000", "ns", "cpu_ns", LOOP_CELLS),),
    amount=Amount(full=300_000, quick=20_000),
    work=bursts,
)
