"""The two loads: `paced`, the open-loop generator of this folder, and wrk where it is installed.

Both run on the core of the load, are bounded in time, and give plain dictionaries. This file must not know which server
it is that answers.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import machine
from machine import Failed, Missing

HERE = Path(__file__).resolve().parent
SOURCES = ("paced.c", "paced_answer.c", "paced_options.c", "paced_report.c")
COMPILE_TIMEOUT_S = 60
# Beyond the time that a load was given: opening connections, patience, and a slow machine.
GRACE_S = 120.0
FAILURES = ("wrong", "reset", "closed", "connect_failed", "timed_out", "abandoned")

Report = dict[str, Any]


def build(directory: Path) -> Path:
    """Compile the generator into a directory, once; return its path."""
    target = directory / "paced"
    if target.exists():
        return target
    compiler = next((path for name in ("cc", "gcc", "clang") if (path := shutil.which(name))), None)
    if compiler is None:
        raise Missing("no C compiler found: install cc, gcc or clang")
    command = [compiler, "-O2", "-g", "-Wall", "-Wextra", "-o", str(target), *(str(HERE / name) for name in SOURCES)]
    done = subprocess.run([*command, "-lm"], capture_output=True, text=True, timeout=COMPILE_TIMEOUT_S, check=False)
    if done.returncode:
        raise Missing(f"the generator does not compile here: {(done.stderr.strip().splitlines() or ['?'])[-1]}")
    return target


def words(options: dict[str, object]) -> list[str]:
    """Return options as the generator's command line has them; None and False leave one out."""
    line: list[str] = []
    for name, value in options.items():
        if value is None or value is False:
            continue
        line.append("--" + name.replace("_", "-"))
        if value is not True:
            line.append(f"{value:.6f}" if isinstance(value, float) else str(value))
    return line


class Running:
    """A generator that is at work."""

    def __init__(self, command: Sequence[str], seconds: float) -> None:
        self.seconds = seconds
        self.process = machine.start(command, machine.LOAD_CORE)

    def wait_until_quiet(self) -> None:
        """Wait until every request has ended; the connections are still open (`hold`)."""
        assert self.process.stderr is not None
        line = self.process.stderr.readline()
        if line.strip() != "quiet":
            raise Failed(f"the generator said {line.strip() or 'nothing'!r}")

    def report(self) -> Report:
        """Wait for the end and return the counts."""
        try:
            out, complaints = self.process.communicate(timeout=self.seconds + GRACE_S)
        except subprocess.TimeoutExpired:
            machine.stop(self.process)
            raise Failed(f"the generator did not end within {self.seconds + GRACE_S:.0f} s") from None
        if self.process.returncode:
            raise Failed((complaints.strip().splitlines() or [f"exit status {self.process.returncode}"])[-1])
        report: Report = json.loads(out)
        report["failed"] = sum(report[name] for name in FAILURES)
        return report


@dataclass(frozen=True)
class Loads:
    """The loads of one run: where the generator is, and whether wrk is there."""

    directory: Path

    def paced(self, port: int, *, seconds: float, **options: object) -> Running:
        """Start the generator; every option of its command line may be given by name."""
        allowance = sum(float(str(options.get(name) or 0)) for name in ("hold", "patience", "ramp"))
        line = words({"port": port, "seconds": float(seconds), **options})
        return Running([str(build(self.directory)), *line], seconds + allowance)

    def flat_out(self, port: int, path: str, connections: int, seconds: float) -> Report:
        """Ask as fast as answers come: requests a second, latencies in ms, errors. By wrk, or by the generator."""
        if shutil.which("wrk"):
            return _wrk(port, path, connections, seconds)
        report = self.paced(port, seconds=seconds, path=path, connections=connections).report()
        return {
            "tool": "paced",
            "requests": report["answered"],
            "seconds": report["seconds"],
            "errors": report["failed"] + report["refused"],
            **{name: report["latency_ms"]["accepted"][name] for name in ("p50", "p90", "p99")},
        }


def _wrk(port: int, path: str, connections: int, seconds: float) -> Report:
    target = f"http://127.0.0.1:{port}{path}"
    line = ["-t1", f"-c{connections}", f"-d{max(1, round(seconds))}s", "--timeout", "20s", "--latency", target]
    process = machine.start([str(shutil.which("wrk")), *line], machine.LOAD_CORE)
    try:
        out, complaints = process.communicate(timeout=seconds + GRACE_S)
    except subprocess.TimeoutExpired:
        raise Failed(f"wrk did not end within {seconds + GRACE_S:.0f} s") from None
    finally:
        machine.stop(process)
    return read_wrk(out, complaints)


UNITS_MS = {"us": 0.001, "ms": 1.0, "s": 1000.0, "m": 60_000.0}


def read_wrk(out: str, complaints: str = "") -> Report:
    """Return the figures that wrk printed."""
    total = re.search(r"(\d+) requests in ([\d.]+)(us|ms|s|m),", out)
    if total is None or not int(total[1]):
        raise Failed(f"wrk gave no figures: {(complaints or out).strip().splitlines()[-1:]}")
    percentiles = re.findall(r"^\s+(\d+)%\s+([\d.]+)(us|ms|s|m)\s*$", out, re.MULTILINE)
    sockets = re.search(r"Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)", out)
    others = re.search(r"Non-2xx or 3xx responses: (\d+)", out)
    return {
        "tool": "wrk",
        "requests": int(total[1]),
        "seconds": float(total[2]) * UNITS_MS[total[3]] / 1000,
        "errors": sum(map(int, sockets.groups() if sockets else ())) + (int(others[1]) if others else 0),
        **{f"p{share}": float(value) * UNITS_MS[unit] for share, value, unit in percentiles},
    }
