"""Does the body of a reaction touch what it did not declare? Looked up in its bytecode before anything runs.

Only what stands in the body itself as `self.name` is seen; helper methods are checked when they run (`handles.py`). A
construct that is not recognised is passed over: this is the early half of the check, never the only one. This file must
not know instances.
"""

from __future__ import annotations

import dis
from collections.abc import Callable, Iterator
from typing import Any


def touched(function: Callable[..., Any]) -> Iterator[tuple[str, str]]:
    """Pairs of an attribute of `self` and the attribute that is taken from it (or "")."""
    code = getattr(function, "__code__", None)
    if code is None or not code.co_varnames:
        return
    this = code.co_varnames[0]
    instructions = [
        item for item in dis.get_instructions(code) if item.opname not in ("CACHE", "PRECALL", "EXTENDED_ARG")
    ]
    for place, item in enumerate(instructions[:-1]):
        loads_self = item.opname.startswith("LOAD_FAST") and item.argval == this
        following = instructions[place + 1]
        if loads_self and following.opname in ("LOAD_ATTR", "LOAD_METHOD"):
            after = instructions[place + 2] if place + 2 < len(instructions) else None
            taken = after.argval if after is not None and after.opname in ("LOAD_ATTR", "LOAD_METHOD") else ""
            yield str(following.argval), str(taken)
