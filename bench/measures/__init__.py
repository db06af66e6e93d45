"""The measurements, one file each; every file offers `MEASURE`."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rig.model import Measure

# In the order in which they run and appear in the table.
NAMES = (
    "defer_chain",
    "defer_batch",
    "lane",
    "post_burst",
    "timer_cancel",
    "timer_memory",
    "timer_lateness",
    "allocations",
    "c_handler",
    "echo",
)


def load(name: str) -> Measure:
    measure: Measure = importlib.import_module(f"measures.{name}").MEASURE
    return measure
