"""What every test shares: how hard the property tests look, and what the collector has to look at.

`HYPOTHESIS_PROFILE` chooses: `default`, `ci` (the same examples in every run), `sanitized` (fewer, because each costs
several times as much). A test that sets `max_examples` itself decides for all of them.
"""

from __future__ import annotations

import gc
import os
import signal

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("default", deadline=None, print_blob=True, max_examples=100)
settings.register_profile("ci", settings.get_profile("default"), derandomize=True)
settings.register_profile(
    "sanitized", settings.get_profile("ci"), max_examples=25, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

# Whoever starts the suite in the background of a shell makes it ignore Ctrl-C, and every process that a test starts and
# interrupts would ignore it too, and go on.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def quick_collector() -> None:
    """Leave thousands of tests, and what is known of them, out of what each `gc.collect()` of a test goes through."""
    gc.collect()
    gc.freeze()
