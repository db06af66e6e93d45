"""Deferred callbacks in batches of a thousand per turn: the cost of one callback when the turn is shared."""

from __future__ import annotations

from itertools import repeat

from contenders.base import Contender, noop
from measures.common import EVERY_LOOP, LOOP_CELLS, cpu_of, drain
from rig.model import Amount, Figures, Goal, Measure, Row

BATCH = 1_000


def batches(contender: Contender, _form: str, count: int) -> Figures:
    soon, stop, left = contender.soon, contender.stop, count

    def turn() -> None:
        nonlocal left
        drain(map(soon, repeat(noop, BATCH)))
        left -= BATCH
        soon(turn if left > 0 else stop)

    soon(turn)
    cpu = cpu_of(contender.run)
    if left > 0:
        raise AssertionError(f"{left} of {count} callbacks were never deferred")
    return {"cpu_ns": cpu / count}


MEASURE = Measure(
    name="defer_batch",
    purpose="deferred callbacks, 1,000 per turn",
    entries=EVERY_LOOP,
    rows=(
        Row("deferred, 1,000 per turn", "ns", "cpu_ns", LOOP_CELLS, Goal("<= 80 ns", at_most=80)),
        Row("deferred, 1,000 per turn", "instructions", "instructions", LOOP_CELLS),
    ),
    amount=Amount(full=1_000_000, quick=100_000, counted=(2_000, 22_000)),
    work=batches,
)
