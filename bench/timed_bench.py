"""How many reactions per second, how many bytes per pending event, how late in real time.

    python bench/timed_bench.py [--rounds 100000] [--repeat 5]

Each round interleaves Penstock with xronos (if it is installed), so that the machine's mood strikes both; the best round of
each counts. CPU time of the process is measured: other processes do not matter much. This file must not know the programs.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from penstock.timed import Duration, Environment, LogicalAction, Reactor, Startup, Timer, minutes, ms, ns, reaction, sec
from timed_programs import penstock_ping_pong, penstock_pipe

Maker = Callable[[int], tuple[int, Callable[[], object]]]


def makers() -> dict[str, Maker]:
    """What is compared."""
    found: dict[str, Maker] = {"ping-pong, penstock": penstock_ping_pong, "pipe of ten, penstock": penstock_pipe}
    if importlib.util.find_spec("xronos") is not None:
        import timed_xronos

        found |= {"ping-pong, xronos": timed_xronos.ping_pong, "pipe of ten, xronos": timed_xronos.pipe}
    return found


def rates(rounds: int, repeat: int) -> dict[str, float]:
    """The best number of reactions per second of CPU time."""
    best: dict[str, float] = {}
    for _ in range(repeat):
        for name, make in makers().items():
            count, run = make(rounds)
            begin = time.process_time()
            run()
            best[name] = max(best.get(name, 0.0), count / (time.process_time() - begin))
    return best


class Hoard(Reactor):
    """Schedules many events far in the future."""

    start = Startup()
    later = LogicalAction(object, capacity=1_000_000)

    def __init__(self, count: int) -> None:
        self.count = count

    @reaction(start, effects=[later])
    def go(self) -> None:
        for number in range(self.count):
            self.later.schedule(None, Duration(number + 1))


def bytes_per_event(count: int) -> float:
    """Resident memory that pending events take, beside their values (they all carry the same one)."""
    environment = Environment(Hoard(count), fast=True, timeout=minutes(1))
    before = resident()
    environment.scheduler.begin(0)
    environment.scheduler.step(1)
    after = resident()
    assert environment.scheduler.pending_count() == count
    environment.scheduler.abandon()
    return (after - before) / count


def resident() -> int:
    """Bytes of this process in memory (Linux; elsewhere what Python itself has allocated)."""
    status = Path("/proc/self/statm")
    if status.exists():
        return int(status.read_text().split()[1]) * 4_096
    return tracemalloc.get_traced_memory()[0]


class Punctual(Reactor):
    """Notes how late it runs."""

    tick = Timer(period=ms(5))

    def __init__(self) -> None:
        self.lags: list[int] = []

    @reaction(tick)
    def go(self) -> None:
        self.lags.append(self.lag)


def lateness_ns() -> dict[str, int]:
    """How long after its tag a reaction runs, in real time."""
    main = Punctual()
    Environment(main, timeout=sec(2)).run()
    lags = sorted(main.lags)
    return {"median": lags[len(lags) // 2], "p99": lags[len(lags) * 99 // 100], "worst": lags[-1]}


class Day(Reactor):
    """A timer for `simulated_day`."""

    def __init__(self, stages: int) -> None:
        self.tickers = [Ticker() for _ in range(stages)]


class Ticker(Reactor):
    """Ticks ten times a second."""

    tick = Timer(period=ms(100), offset=ns(0))

    def __init__(self) -> None:
        self.count = 0

    @reaction(tick)
    def go(self) -> None:
        self.count += 1


def simulated_day() -> float:
    """Seconds that a day of ten reactors, each ticking ten times a second, takes in a fast run."""
    begin = time.perf_counter()
    Environment(Day(10), fast=True, timeout=minutes(24 * 60)).run()
    return time.perf_counter() - begin


def main() -> int:
    """Measure everything and print it as JSON."""
    parser = argparse.ArgumentParser(description="Timed programs: speed, memory, lateness.")
    parser.add_argument("--rounds", type=int, default=100_000)
    parser.add_argument("--repeat", type=int, default=5)
    options = parser.parse_args()
    result: dict[str, object] = {
        "bytes_per_pending_event": round(bytes_per_event(600_000), 1),
        "reactions_per_s": {name: round(rate) for name, rate in rates(options.rounds, options.repeat).items()},
        "lateness_ns": lateness_ns(),
        "simulated_day_s": round(simulated_day(), 2),
    }
    print(json.dumps(result, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
