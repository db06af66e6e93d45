"""Ten times as many requests as can be answered: refusing them all must not cost what the few answers need."""

from __future__ import annotations

import sys

from common import Script, main
from overloaded import columns, overload

SCRIPT = Script(
    "tenfold",
    "Ten times the capacity, from a crowd with connections of its own.",
    lambda stage: overload(stage, 10),
    columns(goodput=90, fast=None),
)

if __name__ == "__main__":
    sys.exit(main(SCRIPT))
