"""An overload of any height, for `twice.py` and `tenfold.py`: a crowd that asks for more than there is, and a prober.

The crowd keeps its connections and asks by a random schedule that does not wait for answers. Beside it a new client
comes 20 times a second, during the overload and after it.
"""

from __future__ import annotations

from common import FAST_MS, GOOD_MS, Column, Figures, Stage, recovery_s, served_share

# How long the prober goes on after the end.
AFTER_S = 6.0


def overload(stage: Stage, factor: float) -> Figures:
    """Ask for `factor` times the capacity; return what came of it."""
    with stage.memory_growth() as growth:
        before_s = stage.cpu_s()
        crowd = stage.crowd(stage.capacity * factor)
        probe = stage.probe(stage.seconds + AFTER_S)
        report = crowd.report()
        used_s = stage.cpu_s() - before_s
        probed = probe.report()
    end_s = report["began_s"] + stage.seconds
    unserved = report["asked"] - report["answered"]
    during = [sample for sample in probed["samples"] if report["began_s"] <= sample[0] < end_s]
    served = [sample for sample in during if sample[1] == "answered" and sample[2] <= GOOD_MS]
    return {
        "goodput": 100 * report["good"] / stage.seconds / stage.capacity,
        "p99_ms": report["latency_ms"]["accepted"]["p99"],
        "fast": 100 * report["refused_fast"] / max(1, unserved),
        "timed_out": served_share(report, "timed_out"),
        "ended": served_share(report, "reset")
        + served_share(report, "closed")
        + served_share(report, "connect_failed"),
        "newcomers": 100 * len(served) / max(1, len(during)),
        "recovery_s": recovery_s(probed["samples"], end_s),
        "memory_mb": growth[0],
        "cpu": 100 * used_s / report["seconds"],
        "asked": report["asked"],
        "ready": report["ready"],
        "lag_p99_ms": report["latency_ms"]["lag"]["p99"],
    }


def columns(goodput: float, fast: float | None) -> tuple[Column, ...]:
    """The table of an overload; `goodput` and `fast` are what is wanted, in per cent."""
    return (
        Column("capacity", "capacity, requests/s"),
        Column("capacity_cpu", "CPU it could have for that, %"),
        Column("cpu", "CPU it could have meanwhile, %"),
        Column(
            "goodput", f"answered within {GOOD_MS} ms, % of capacity", f">= {goodput:g}", lambda value: value >= goodput
        ),
        Column("p99_ms", "p99 of answers, ms", "<= 25", lambda value: value <= 25),
        Column(
            "fast",
            f"refused within {FAST_MS} ms, % of the unserved",
            f">= {fast:g}" if fast else "",
            (lambda value: value >= fast) if fast else None,
        ),
        Column("timed_out", "waited 1 s for nothing, % of all"),
        Column("ended", "connection ended, % of all"),
        Column("newcomers", f"new clients served within {GOOD_MS} ms meanwhile, %"),
        Column("recovery_s", "new clients served again after, s", "<= 0.3", lambda value: value <= 0.3),
        Column("memory_mb", "memory growth, MiB", "<= 16", lambda value: value <= 16),
        Column("lag_p99_ms", "lag of the generator, p99 ms"),
    )
