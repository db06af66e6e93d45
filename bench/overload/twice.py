"""Twice as many requests as can be answered: who is answered in time, who is refused at once, and who waits in vain."""

from __future__ import annotations

import sys

from common import Script, main
from overloaded import columns, overload

SCRIPT = Script(
    "twice",
    "Twice the capacity, from a crowd with connections of its own.",
    lambda stage: overload(stage, 2),
    columns(goodput=95, fast=99),
)

if __name__ == "__main__":
    sys.exit(main(SCRIPT))
