"""The Perfetto file of a trace is what the documentation of the trace event format asks for.

`check_document` says the rules of that format as far as they concern a JSON object of complete ("X"), begin and end ("B",
"E") and metadata ("M") events: which keys there must be, of which types, times in microseconds, pairs that match, and events
of one thread that are either apart or inside each other. It is tried on documents that break each rule, too.
"""

from __future__ import annotations

import copy
import json
import math
from collections import defaultdict
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from penstock import ManualClock
from penstock.testing.timed import Arrival, play
from penstock.timed import (
    Environment,
    Input,
    LogicalAction,
    Output,
    PhysicalAction,
    Reactor,
    Startup,
    Timer,
    ms,
    ns,
    reaction,
)
from tests.timed import timed_build as build
from tests.timed import timed_spec as spec
from tests.timed.timed_corpus import CORPUS, WORLDS
from tests.timed.timed_strategies import programs_in_worlds

PHASES = {"X", "B", "E", "M"}
METADATA = {
    "process_name": "name",
    "process_labels": "labels",
    "process_sort_index": "sort_index",
    "thread_name": "name",
    "thread_sort_index": "sort_index",
}


class Malformed(Exception):
    pass


def need(condition: bool, rule: str, event: Any = None) -> None:
    if not condition:
        raise Malformed(f"{rule}: {event!r}")


def is_time(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value) and value >= 0


def check_document(document: Any) -> None:
    need(isinstance(document, dict), "the object format is an object")
    need(isinstance(document.get("traceEvents"), list), "traceEvents is a list")
    need(document.get("displayTimeUnit", "ms") in ("ms", "ns"), "displayTimeUnit is ms or ns")
    for event in document["traceEvents"]:
        check_event(event)
    threads = defaultdict(list)
    for event in document["traceEvents"]:
        threads[event["pid"], event.get("tid")].append(event)
    for events in threads.values():
        check_pairs([event for event in events if event["ph"] in "BE"])
        check_nesting([event for event in events if event["ph"] == "X"])


def check_event(event: Any) -> None:
    need(isinstance(event, dict), "an event is an object", event)
    need(event.get("ph") in PHASES, "the phase is one that we write", event)
    need(isinstance(event.get("name"), str) or event["ph"] == "E", "name is a string", event)
    need(type(event.get("pid")) is int, "pid is an integer", event)
    need(isinstance(event.get("args", {}), dict), "args is an object", event)
    need(isinstance(event.get("cat", ""), str), "cat is a string", event)
    if event["ph"] == "M":
        need(event["name"] in METADATA, "metadata has a known name", event)
        need(METADATA[event["name"]] in event.get("args", {}), "metadata has its argument", event)
        return
    need(type(event.get("tid")) is int, "tid is an integer", event)
    need(is_time(event.get("ts")), "ts is a number of microseconds", event)
    if event["ph"] == "X":
        need(is_time(event.get("dur")), "a complete event has a duration in microseconds", event)


def check_pairs(events: list[dict[str, Any]]) -> None:
    depth = 0
    for event in sorted(events, key=lambda event: event["ts"]):
        depth += 1 if event["ph"] == "B" else -1
        need(depth >= 0, "an end follows its begin", event)
    need(depth == 0, "every begin has an end")


def check_nesting(events: list[dict[str, Any]]) -> None:
    """In nanoseconds, as the viewer reads them."""
    open_until: list[int] = []
    spans = [(round(event["ts"] * 1_000), round(event["dur"] * 1_000)) for event in events]
    for begin, length in sorted(spans, key=lambda span: (span[0], -span[1])):
        while open_until and open_until[-1] <= begin:
            open_until.pop()
        need(not open_until or begin + length <= open_until[-1], "events of a thread do not overlap", (begin, length))
        open_until.append(begin + length)


def strictly_apart(document: dict[str, Any]) -> bool:
    """Ours are never inside each other: in the order of the trace, each begins after the one before has ended."""
    spans = [
        (round(one["ts"] * 1_000), round(one["dur"] * 1_000)) for one in document["traceEvents"] if one["ph"] == "X"
    ]
    return all(before + length <= after for (before, length), (after, _) in pairwise(spans))


# ---- what we write ---------------------------------------------------------------------------------------------------


class Sink(Reactor):
    taken = Input(object)

    @reaction(taken)
    def go(self) -> None:
        pass


class Busy(Reactor):
    """Microsteps, an arrival, a missed deadline with a handler, values of every look, and tags a nanosecond apart."""

    start, tick, close = Startup(), Timer(period=ms(1)), Timer(offset=ns(1), period=ns(2))
    again = LogicalAction(int)
    arrival = PhysicalAction(object)
    out = Output(object)

    def __init__(self, clock: ManualClock) -> None:
        self.clock, self.count = clock, 0

    @reaction(start, again, effects=[again, out])
    def repeat(self) -> None:
        self.count += 1
        self.out.set({"quote": '"', "line": "\n", "snow": "\u2603", "lone": "\ud800", "not a number": float("nan")})
        if self.count < 5:
            self.again.schedule(self.count)

    @reaction(tick)
    def slow(self) -> None:
        self.clock.advance(ms(3))

    def missed(self) -> None:
        self.count += 1

    @reaction(tick, deadline=ms(1), on_deadline=missed)
    def punctual(self) -> None:
        self.count += 1

    @reaction(close)
    def close_together(self) -> None:
        if self.count > 1_000:
            return
        self.count += 1

    @reaction(arrival, effects=[out])
    def take(self) -> None:
        self.out.set(self.arrival.value)


class Main(Reactor):
    def __init__(self, clock: ManualClock) -> None:
        self.busy, self.sink = Busy(clock), Sink()
        self.connect(self.busy.out, self.sink.taken)


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    clock, path = ManualClock(), tmp_path_factory.mktemp("trace") / "t.json"
    environment = Environment(Main(clock), clock=clock, timeout=ns(40))
    trace = play(environment, [Arrival(ns(7), "main.busy.arrival", b"\xff")])
    trace.write(path)
    read: dict[str, Any] = json.loads(path.read_text(encoding="ascii"), parse_constant=refuse_constant)
    return read


def refuse_constant(name: str) -> Any:
    raise Malformed(f"{name} is no JSON")


def test_a_written_trace_follows_the_format(document: dict[str, Any]) -> None:
    check_document(document)
    assert strictly_apart(document)


def test_every_reaction_is_a_complete_event_on_the_thread_of_its_reactor(document: dict[str, Any]) -> None:
    events = document["traceEvents"]
    named = {event["tid"]: event["args"]["name"] for event in events if event["ph"] == "M"}
    assert sorted(named.values()) == ["main.busy", "main.sink"]
    drawn = [(named[event["tid"]], event["name"]) for event in events if event["ph"] == "X"]
    assert {"repeat", "slow", "punctual [deadline]", "close_together"} <= {name for _, name in drawn}
    assert ("main.sink", "go") in drawn
    assert {event["cat"] for event in events if event["ph"] == "X"} == {"reaction", "deadline"}


def test_times_are_microseconds() -> None:
    class Main(Reactor):
        tick = Timer(offset=ms(2), period=ms(3))

        @reaction(tick)
        def go(self) -> None:
            pass

    environment = Environment(Main(), fast=True, timeout=ms(6))
    trace = environment.trace()
    environment.run()
    events = [event for event in trace.perfetto()["traceEvents"] if event["ph"] == "X"]
    assert [(event["ts"], event["dur"]) for event in events] == [(2_000, 0.001), (5_000, 0.001)]


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(programs_in_worlds())
def test_traces_of_random_programs_follow_the_format(case: tuple[spec.Reactor, spec.World]) -> None:
    program, world = case
    _follows(program, world)


@pytest.mark.parametrize("name", CORPUS)
def test_traces_of_the_corpus_follow_the_format(name: str) -> None:
    _follows(CORPUS[name], WORLDS.get(name, spec.World()))


def _follows(program: spec.Reactor, world: spec.World) -> None:
    trace = build.traced(program, 12, world)
    if trace is None:
        return  # a causality cycle has no trace
    written = json.loads(json.dumps(trace.perfetto()), parse_constant=refuse_constant)
    check_document(written)
    assert strictly_apart(written)
    assert sum(event["ph"] == "X" for event in written["traceEvents"]) == len(trace)


def test_a_trace_without_entries_follows_the_format(tmp_path: Path) -> None:
    trace = Environment(Sink(), fast=True, keep_alive=False).trace()
    trace.write(tmp_path / "t.json")
    check_document(json.loads((tmp_path / "t.json").read_text()))


# ---- the checker -----------------------------------------------------------------------------------------------------

GOOD: dict[str, Any] = {
    "displayTimeUnit": "ns",
    "traceEvents": [
        {"name": "thread_name", "ph": "M", "pid": 1, "tid": 1, "args": {"name": "main"}},
        {"name": "a", "ph": "X", "pid": 1, "tid": 1, "ts": 1, "dur": 2.5, "args": {}},
        {"name": "b", "ph": "B", "pid": 1, "tid": 2, "ts": 1},
        {"name": "b", "ph": "E", "pid": 1, "tid": 2, "ts": 4},
    ],
}


def _with(index: int, **changed: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda document: document["traceEvents"][index].update(changed)


def _without(index: int, key: str) -> Callable[[dict[str, Any]], Any]:
    return lambda document: document["traceEvents"][index].pop(key)


BROKEN: dict[str, Callable[[dict[str, Any]], Any]] = {
    "no events": lambda document: document.pop("traceEvents"),
    "another unit": lambda document: document.update(displayTimeUnit="us"),
    "no name": _without(1, "name"),
    "no phase": _without(1, "ph"),
    "an unknown phase": _with(1, ph="Q"),
    "no process": _without(1, "pid"),
    "a process that is text": _with(1, pid="1"),
    "a process that is a truth": _with(1, pid=True),
    "no thread": _without(1, "tid"),
    "no time": _without(1, "ts"),
    "a time that is text": _with(1, ts="1"),
    "a time before the start": _with(1, ts=-1),
    "no duration": _without(1, "dur"),
    "an infinite duration": _with(1, dur=float("inf")),
    "arguments that are a list": _with(1, args=[]),
    "a name of nobody": _without(0, "args"),
    "metadata that nobody knows": _with(0, name="thread"),
    "a begin without end": lambda document: document["traceEvents"].pop(3),
    "an end without begin": lambda document: document["traceEvents"].pop(2),
    "an end before its begin": _with(3, ts=0.5),
    "events across each other": lambda document: document["traceEvents"].append(
        {"name": "c", "ph": "X", "pid": 1, "tid": 1, "ts": 2, "dur": 5}
    ),
}


def test_the_checker_takes_what_is_right() -> None:
    check_document(GOOD)


@pytest.mark.parametrize("name", BROKEN)
def test_the_checker_refuses_what_is_wrong(name: str) -> None:
    document = copy.deepcopy(GOOD)
    BROKEN[name](document)
    with pytest.raises(Malformed):
        check_document(document)
