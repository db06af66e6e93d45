"""What is measured: each case asks one running server for something and returns figures by name.

A case never knows which server it asks. This file must not know what a table looks like.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from holding import half_heads, still_open, unread_answers
from load import Loads
from servers import FILES, Server

Figures = dict[str, float]

SMALL = "small.bin"
CROWD = 10_000
DEPTH = 16
PIPELINES = 100
WARM_S = 0.5
# Connections that are held in the middle of something, and how long they are left alone before the memory is looked at.
HELD = 1_000
SETTLE_S = 1.0


@dataclass(frozen=True)
class Amount:
    """How long one measurement lasts, and how many connections a crowd has."""

    flat_s: float
    crowd_s: float
    paced_s: float
    crowd: int


FULL = Amount(flat_s=5.0, crowd_s=30.0, paced_s=30.0, crowd=CROWD)
QUICK = Amount(flat_s=1.0, crowd_s=1.0, paced_s=3.0, crowd=1_000)


@dataclass(frozen=True)
class Row:
    """One figure of a case in the table. `best` says which direction wins; `goal` is what penstock wants."""

    figure: str
    title: str
    least_wins: bool = True
    ratio: bool = True
    goal: str = ""
    # At most this much; of nginx where `of_nginx`. With `at_least`, at least.
    bound: float | None = None
    of_nginx: bool = False
    at_least: bool = False


@dataclass(frozen=True)
class Case:
    """One measurement: how it is done, and which of its figures become rows."""

    name: str
    purpose: str
    measure: Callable[[Loads, Server, Amount], Figures]
    rows: tuple[Row, ...]
    large: bool = False
    # Repeated in rounds; what takes long and judges errors is not.
    rounds: bool = True
    settings: Mapping[str, object] = field(default_factory=dict)


def _flat(name: str, connections: Callable[[Amount], int]) -> Callable[[Loads, Server, Amount], Figures]:
    def measure(loads: Loads, server: Server, amount: Amount) -> Figures:
        path, count = server.path(name), connections(amount)
        loads.paced(server.port, seconds=WARM_S, path=path, connections=10, expect_bytes=FILES[name]).report()
        before_s = server.cpu_s()
        report = loads.flat_out(server.port, path, count, amount.crowd_s if count == CROWD else amount.flat_s)
        used_s = server.cpu_s() - before_s
        rate = report["requests"] / report["seconds"]
        return {
            "rate": rate,
            "cpu_us": used_s / report["requests"] * 1e6,
            "p99_ms": report["p99"],
            "p99_of_floor": report["p99"] / (count / rate * 1000),
            "errors": report["errors"],
            "mb_s": rate * FILES[name] / 1e6,
        }

    return measure


def paced(loads: Loads, server: Server, amount: Amount) -> Figures:
    """Every connection asks once a second."""
    before_s = server.cpu_s()
    running = loads.paced(
        server.port,
        seconds=amount.paced_s,
        path=server.path(SMALL),
        connections=amount.crowd,
        each_rate=1.0,
        patience=10,
        expect_bytes=FILES[SMALL],
    )
    report = running.report()
    latency = report["latency_ms"]
    return {
        "errors": report["failed"] + report["refused"] + report["idle_closes"],
        **{f"{name}_ms": latency["accepted"][name] for name in ("p50", "p99", "p999", "max")},
        "lag_p99_ms": latency["lag"]["p99"],
        "cpu_us": (server.cpu_s() - before_s) / max(1, report["answered"]) * 1e6,
    }


def pipelines(loads: Loads, server: Server, amount: Amount) -> Figures:
    """16 requests in one send, the next 16 when all are answered."""
    options = {"path": server.path(SMALL), "connections": PIPELINES, "pipeline": DEPTH, "expect_bytes": FILES[SMALL]}
    loads.paced(server.port, seconds=WARM_S, **options).report()
    before_s = server.cpu_s()
    report = loads.paced(server.port, seconds=amount.flat_s, **options).report()
    used_s = server.cpu_s() - before_s
    return {
        "rate": report["answered"] / report["seconds"],
        "cpu_us": used_s / max(1, report["answered"]) * 1e6,
        "errors": report["failed"] + report["refused"],
    }


def idle(loads: Loads, server: Server, amount: Amount) -> Figures:
    """Memory of connections that have asked once and are kept alive, above that of the server before them."""
    one = {"path": server.path(SMALL), "expect_bytes": FILES[SMALL]}
    loads.paced(server.port, seconds=WARM_S, connections=1, **one).report()
    base_kb = server.memory_kb()
    running = loads.paced(
        server.port, seconds=30, connections=amount.crowd, rate=5_000, per_connection=1, hold=3, patience=20, **one
    )
    running.wait_until_quiet()
    held_kb = server.memory_kb()
    report = running.report()
    return {
        "base_mb": base_kb / 1024,
        "total_mb": held_kb / 1024,
        "each_kb": (held_kb - base_kb) / amount.crowd,
        "errors": report["failed"] + report["refused"] + report["idle_closes"],
    }


def _holding(
    name: str, hold: Callable[[int, str, int], AbstractContextManager[list[socket.socket]]]
) -> Callable[[Loads, Server, Amount], Figures]:
    """Memory of connections that stop in the middle of something, above that of the server before them."""

    def measure(loads: Loads, server: Server, amount: Amount) -> Figures:
        count, path = min(HELD, amount.crowd), server.path(name)
        loads.paced(server.port, seconds=WARM_S, connections=1, path=path, expect_bytes=FILES[name]).report()
        base_kb = server.memory_kb()
        with hold(server.port, path, count) as opened:
            # Nothing is to come: what the server does about them it has done by then.
            time.sleep(SETTLE_S)
            held_kb = server.memory_kb()
            return {"each_kb": (held_kb - base_kb) / count, "errors": float(count - still_open(opened))}

    return measure


def _small(connections: int) -> Case:
    floor = Row("p99_of_floor", "p99 / (connections / throughput)", ratio=False, goal="<= 1.3", bound=1.3)
    rows = (
        Row("rate", "requests/s", least_wins=False),
        Row("cpu_us", "CPU us per request", goal="<= 0.65 of nginx", bound=0.65, of_nginx=True),
        Row("p99_ms", "p99 ms"),
        *((floor,) if connections == CROWD else ()),
        Row("errors", "errors", ratio=False, goal="0", bound=0),
    )
    return Case(
        f"small-{connections}",
        f"1.3 KB file, {connections:,} connections flat out",
        _flat(SMALL, lambda amount: min(connections, amount.crowd)),
        rows,
    )


def _large(name: str, connections: int) -> Case:
    rows = (
        Row("mb_s", "MB/s", least_wins=False),
        Row("cpu_us", "CPU us per request", goal="<= 1.05 of nginx", bound=1.05, of_nginx=True),
        Row("errors", "errors", ratio=False, goal="0", bound=0),
    )
    title = f"{name.removesuffix('.bin')} file, {connections} connections flat out"
    return Case(f"file-{name.removesuffix('.bin')}", title, _flat(name, lambda _: connections), rows, large=True)


CASES = {
    case.name: case
    for case in (
        _small(100),
        _small(1_000),
        _small(CROWD),
        _large("100k.bin", 50),
        _large("1m.bin", 20),
        Case(
            "pipelines",
            f"{DEPTH}-deep pipelines of the 1.3 KB file, {PIPELINES} connections",
            pipelines,
            (
                Row("rate", "requests/s", least_wins=False, goal=">= 8 x nginx", bound=8, of_nginx=True, at_least=True),
                Row("cpu_us", "CPU us per request"),
                Row("errors", "errors", ratio=False, goal="0", bound=0),
            ),
        ),
        Case(
            "paced",
            "each of 10,000 connections asks once a second",
            paced,
            (
                Row("errors", "errors", ratio=False, goal="0", bound=0),
                Row("p50_ms", "p50 ms"),
                Row("p99_ms", "p99 ms", goal="<= 100", bound=100),
                Row("p999_ms", "p99.9 ms"),
                Row("lag_p99_ms", "of it the generator's own lag, p99 ms", ratio=False),
                Row("cpu_us", "CPU us per request"),
            ),
            rounds=False,
        ),
        Case(
            "idle",
            "memory with 10,000 idle keep-alive connections",
            idle,
            (
                Row("each_kb", "KiB per connection", goal="<= 1", bound=1),
                Row("total_mb", "MiB in all", ratio=False),
                Row("base_mb", "MiB before", ratio=False),
                Row("errors", "errors", ratio=False, goal="0", bound=0),
            ),
            rounds=False,
        ),
        Case(
            "half",
            "memory with 1,000 connections that have sent 4 KiB of a head",
            _holding(SMALL, half_heads),
            (
                Row("each_kb", "KiB per connection", goal="<= 5", bound=5),
                Row("errors", "closed meanwhile", ratio=False, goal="0", bound=0),
            ),
            rounds=False,
        ),
        Case(
            "stalled",
            "memory with 1,000 connections that do not read their 1 MB file",
            _holding("1m.bin", unread_answers),
            (
                Row("each_kb", "KiB per connection", goal="<= 16", bound=16),
                Row("errors", "closed meanwhile", ratio=False, goal="0", bound=0),
            ),
            large=True,
            rounds=False,
        ),
    )
}
