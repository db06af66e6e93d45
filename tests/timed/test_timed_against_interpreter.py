"""The scheduler does what the interpreter does: identical traces on random programs."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from penstock.timed import CausalityCycle
from tests.timed import timed_build as build
from tests.timed import timed_spec as spec
from tests.timed.timed_interpreter import Cycle, Interpreter
from tests.timed.timed_strategies import programs, timeouts


def expected(program: spec.Reactor, timeout: int | None) -> list[Any]:
    interpreter = Interpreter(program, timeout)
    interpreter.run()
    return interpreter.trace


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(programs, timeouts)
def test_traces_are_identical(program: spec.Reactor, timeout: int | None) -> None:
    try:
        wanted = expected(program, timeout or 12)
    except Cycle:
        with pytest.raises(CausalityCycle):
            build.run(program, timeout or 12)
        return
    assert build.run(program, timeout or 12) == wanted
