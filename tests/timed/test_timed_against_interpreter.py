"""The scheduler does what the interpreter does: identical traces on random programs."""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from penstock.timed import CausalityCycle
from tests.timed import timed_build as build
from tests.timed import timed_spec as spec
from tests.timed.timed_interpreter import Cycle, Interpreter
from tests.timed.timed_strategies import programs_in_worlds, timeouts

# A longer search, by hand, of which docs/timed.md has an outcome: TIMED_EXAMPLES=1500 and pytest's --hypothesis-seed.
EXAMPLES = int(os.environ.get("TIMED_EXAMPLES", "120"))


def expected(program: spec.Reactor, timeout: int, world: spec.World) -> list[Any]:
    interpreter = Interpreter(program, timeout, world)
    interpreter.run()
    return interpreter.trace


@settings(
    max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
@given(programs_in_worlds(), timeouts)
def test_traces_are_identical(case: tuple[spec.Reactor, spec.World], timeout: int | None) -> None:
    program, world = case
    try:
        wanted = expected(program, timeout or 12, world)
    except Cycle:
        with pytest.raises(CausalityCycle):
            build.run(program, timeout or 12, world)
        return
    assert build.run(program, timeout or 12, world) == wanted
