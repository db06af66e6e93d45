"""Nanoseconds per line of the access log and per admission, called from C as the server does.

    python bench/http/rooms.py [--count 200000] [--repeat 7]

The measuring loops are compiled when this runs, against the sources of this tree. The best of the repetitions counts:
other processes only make it worse. This file must not know the server.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType

from penstock.http.admission import Admission
from penstock.http.lines import FORMATS
from penstock.http.log import Log

HERE = Path(__file__).resolve().parent
SOURCES = HERE.parents[1] / "src"
AGENT = b"Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"


def build(folder: Path) -> ModuleType:
    """Compile and import the measuring loops."""
    source, library = folder / "rooms.c", folder / f"rooms{sysconfig.get_config_var('EXT_SUFFIX')}"
    python = [sys.executable, "-m", "cython", "-3", "-I", str(SOURCES), "--module-name", "rooms"]
    subprocess.run([*python, str(HERE / "rooms.pyx"), "-o", str(source)], check=True, timeout=300)
    compiler = os.environ.get("CC", "gcc").split()
    include = ["-I", sysconfig.get_paths()["include"], "-I", str(SOURCES / "penstock" / "core")]
    flags = ["-O2", "-shared", "-fPIC", *include]
    subprocess.run([*compiler, *flags, str(source), "-o", str(library)], check=True, timeout=300)
    spec = importlib.util.spec_from_file_location("rooms", library)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def line_cost(rooms: ModuleType, name: str, count: int, target: bytes) -> float:
    """One run of the log, into nowhere."""
    log = Log(os.devnull, name, ring_bytes=1 << 28)
    cost: float = rooms.lines(log, count, target, AGENT)
    log.close()
    if log.counters()["dropped"]:
        sys.exit("rooms: lines were dropped, so this measures nothing; use a smaller --count")
    return cost


def calm_cost(rooms: ModuleType, count: int, peers: int) -> float:
    """One run in which each request is begun at once."""
    return float(rooms.calm(Admission(), count, peers))


def overloaded_cost(rooms: ModuleType, count: int, peers: int) -> float:
    """One run of ten times too much."""
    cost, stood = rooms.overloaded(Admission(), count, peers)
    if not stood:
        sys.exit("rooms: it was not overloaded, so this measures nothing; use a larger --count")
    return float(cost)


def main() -> int:
    """Print one row per figure."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=200_000, help="operations per run (default: %(default)s)")
    parser.add_argument("--repeat", type=int, default=7, help="runs (default: %(default)s)")
    chosen = parser.parse_args()
    count = chosen.count
    with tempfile.TemporaryDirectory() as folder:
        rooms = build(Path(folder))
        rows: dict[str, Callable[[], float]] = {}
        for name in FORMATS:
            rows[f"log line, {name}"] = partial(line_cost, rooms, name, count, b"/articles/2026/index.html?p=1")
        rows["log line, common, 200 bytes to escape"] = partial(line_cost, rooms, "common", count, b"\xff" * 200)
        for peers in (1, 100, 100_000):
            rows[f"admission, calm, {peers:,} addresses"] = partial(calm_cost, rooms, count, peers)
            rows[f"admission, ten times too much, {peers:,} addresses"] = partial(overloaded_cost, rooms, count, peers)
        for title, run in rows.items():
            print(f"{title:<52} {min(run() for _ in range(chosen.repeat)):7.1f} ns", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
