"""Arrivals for tests of timed programs: hypothesis draws when what arrives, and shrinks to the smallest failing schedule.

    @given(arrivals({"main.sensor": st.integers()}, within=ms(50)))
    def test_alarm(schedule):
        environment = Environment(Main(), timeout=ms(60), clock=ManualClock())
        trace = play(environment, schedule)

Nothing is waited for: under a manual clock physical time jumps from one arrival to the next. Needs hypothesis, which is
imported when a strategy is made. This file must not know how tags are ordered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.errors import UsageError
from penstock.timed import Action, Duration, Environment, Port, Tag, Trace

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy


class Arrival(NamedTuple):
    """At the physical time `time_ns` after the start, `name` is given `value`."""

    time_ns: int
    name: str
    value: Any


def arrivals(
    sources: Mapping[str, SearchStrategy[Any]],
    *,
    within: Duration,
    grid: Duration | None = None,
    at_most: int = 10,
) -> SearchStrategy[list[Arrival]]:
    """Draw up to `at_most` arrivals of `sources` (paths of physical actions or main inputs, with what they carry).

    Times lie on `grid` (by default a hundredth of `within`), so that coincidences are drawn, too; equal times keep the
    order in which they were drawn. A failing schedule shrinks to few, early arrivals of simple values.
    """
    from hypothesis import strategies as st

    if not sources:
        raise UsageError("no sources were given; name physical actions or inputs of the main reactor by their paths")
    step_ns = max(1, int(grid) if grid is not None else int(within) // 100)
    times = st.integers(0, int(within) // step_ns).map(lambda place: place * step_ns)
    one = st.sampled_from(sorted(sources)).flatmap(lambda name: st.builds(Arrival, times, st.just(name), sources[name]))
    return st.lists(one, max_size=at_most).map(lambda drawn: sorted(drawn, key=lambda arrival: arrival.time_ns))


def play(environment: Environment, schedule: Sequence[Arrival]) -> Trace:
    """Run the program with these arrivals, and return its trace."""
    handles = {handle.path: handle for handle in environment.program.triggers}
    unknown = sorted({arrival.name for arrival in schedule} - handles.keys())
    if unknown:
        raise UsageError(f"{unknown[0]} is no physical action or input of this program")
    for arrival in schedule:
        environment.scheduler.schedule_system(
            Tag(arrival.time_ns, 0), _Delivery(environment, handles[arrival.name], arrival)
        )
    trace = environment.trace()
    environment.run()
    return trace


class _Delivery:
    """One arrival as a system event: called when physical time has come."""

    def __init__(self, environment: Environment, handle: Any, arrival: Arrival) -> None:
        self.environment = environment
        self.handle = handle
        self.arrival = arrival

    def __call__(self, tag: Tag) -> None:
        if isinstance(self.handle, Port):
            self.environment.inject(self.handle, self.arrival.value)
        elif isinstance(self.handle, Action):
            self.handle.schedule(self.arrival.value)
