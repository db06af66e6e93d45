"""What the scripts of this folder share: who takes part, capacity, crowds, probes, and the table.

Every script asks an application of known service time, on the core of the server, from the open-loop generator of
`bench/http`, on the core of the load. This file must not know what a script wants to show.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import importlib
import json
import os
import platform
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "http"))

import load  # noqa: E402
import machine  # noqa: E402
import servers  # noqa: E402
from load import Loads, Report, Running  # noqa: E402
from machine import Failed, Missing  # noqa: E402
from servers import Kind, Place, Server  # noqa: E402

APPS = HERE / "apps"
# How long a client waits for its answer, and what is called good and quick.
PATIENCE_S = 1.0
GOOD_MS, FAST_MS = 100, 50
# A crowd comes from many addresses, so that nobody takes it for one client; the prober and the polite have their own.
CROWD_SOURCES, PROBE_SOURCE = "127.0.1.1-127.0.1.250", "127.0.2.1"
CROWD_MAX = 12_000
PROBE_RATE = 20
# Closed-loop clients that find the capacity: enough to keep the server busy, few enough for no limit to refuse them.
CAPACITY_CLIENTS = 8
SAMPLE_PERIOD_S = 0.5
# Requests that the proxy lets through at once: ten times the service time is what the last of them waits.
LIMIT_CONN = 10

Figures = dict[str, float | str | None]


# ---- who takes part ------------------------------------------------------------------------------------------------


def _threads(place: Place) -> str:
    """Threads of a pool: for an application that waits, eight; burning CPU, more than a few only get in the way."""
    return str(place.settings.get("threads", 4))


def penstock_handler(place: Place) -> list[str]:
    return [sys.executable, str(APPS / "busy_penstock.py"), str(place.port)]


def penstock_wsgi(place: Place) -> list[str]:
    line = ["-m", "penstock", "serve", "busy_wsgi:app", "--wsgi", "--host", "127.0.0.1", "--port", str(place.port)]
    return [sys.executable, *line]


def granian_asgi(place: Place) -> list[str]:
    return _granian(place, "asgi", "--loop", "uvloop", "busy_asgi:app")


def granian_wsgi(place: Place) -> list[str]:
    return _granian(place, "wsgi", "--blocking-threads", _threads(place), "busy_wsgi:app")


def _granian(place: Place, interface: str, *more: str) -> list[str]:
    line = ["-m", "granian", "--interface", interface, "--host", "127.0.0.1", "--port", str(place.port)]
    line += ["--workers", "1", "--http", "1", "--no-ws", "--no-access-log", "--log-level", "critical"]
    return [sys.executable, *line, "--working-dir", str(APPS), *more]


def uvicorn(place: Place) -> list[str]:
    line = ["-m", "uvicorn", "--host", "127.0.0.1", "--port", str(place.port), "--loop", "uvloop", "--lifespan", "off"]
    line += ["--http", "httptools", "--no-access-log", "--log-level", "critical", "--app-dir", str(APPS)]
    return [sys.executable, *line, "--timeout-keep-alive", "30", "busy_asgi:app"]


def gunicorn(place: Place) -> list[str]:
    line = ["-m", "gunicorn", "--bind", f"127.0.0.1:{place.port}", "--workers", "1", "--worker-class", "gthread"]
    line += ["--threads", _threads(place), "--keep-alive", "30", "--worker-connections", "15000"]
    return [sys.executable, *line, "--log-level", "critical", "--chdir", str(APPS), "busy_wsgi:app"]


def nginx_front(place: Place) -> list[str]:
    """nginx that lets few requests at once through to the server behind it and answers 503 to the others."""
    http_part = (
        f"upstream app {{ server 127.0.0.1:{place.settings['behind']}; keepalive 64; }}"
        " limit_conn_zone $server_port zone=all:1m; limit_conn_status 503;"
    )
    server_part = (
        f"location / {{ limit_conn all {LIMIT_CONN}; proxy_pass http://app; proxy_http_version 1.1;"
        ' proxy_set_header Connection ""; }'
    )
    settings = {**place.settings, "nginx_http": http_part, "nginx_server": server_part}
    return servers.nginx(replace(place, settings=settings))


@dataclass(frozen=True)
class Contender:
    """A server with its application, alone or behind nginx, and what its application can do."""

    kind: Kind
    works: tuple[str, ...] = ("burn",)
    behind: Kind | None = None

    @property
    def name(self) -> str:
        return self.kind.name

    def missing(self) -> str | None:
        return self.kind.missing() or (self.behind.missing() if self.behind else None)


def _no_server() -> str | None:
    door = importlib.import_module("penstock.http")
    return None if hasattr(door, "Server") else "this tree has no penstock.http.Server"


UVICORN = Kind("uvicorn", uvicorn, "uvicorn")
BOTH = ("burn", "sleep")
CONTENDERS = {
    contender.name: contender
    for contender in (
        Contender(Kind("penstock handler", penstock_handler, "penstock", trial=_no_server)),
        Contender(Kind("penstock WSGI", penstock_wsgi, "penstock", trial=servers.no_command), BOTH),
        Contender(Kind("granian ASGI", granian_asgi, "granian")),
        Contender(Kind("granian WSGI", granian_wsgi, "granian"), BOTH),
        Contender(UVICORN),
        Contender(Kind("gunicorn", gunicorn, "gunicorn"), BOTH),
        Contender(Kind("nginx limit_conn + uvicorn", nginx_front, "nginx", module=False), behind=UVICORN),
    )
}


# ---- one contender at work -----------------------------------------------------------------------------------------


@dataclass
class Stage:
    """A running contender, its measured capacity, and the ways to load it."""

    name: str
    loads: Loads
    running: list[Server]
    seconds: float
    path: str
    # Requests a second, and per cent of its core that it could have while this was measured.
    capacity: float = 0.0
    cpu_share: float = 0.0
    cpu_ms: float = 0.0

    @property
    def port(self) -> int:
        """Where clients go: the last that was started."""
        return self.running[-1].port

    def memory_kb(self) -> int:
        return sum(server.memory_kb() for server in self.running)

    def cpu_s(self) -> float:
        return sum(server.cpu_s() for server in self.running)

    def find_capacity(self, seconds: float, clients: int = CAPACITY_CLIENTS) -> float:
        """Requests a second that are answered when as many clients ask again as soon as they have their answer."""
        options: dict[str, object] = {"path": self.path, "connections": clients, "patience": 20}
        self.loads.paced(self.port, seconds=0.5, **options).report()
        before_s = self.cpu_s()
        report = self.loads.paced(self.port, seconds=seconds, **options).report()
        used_s = self.cpu_s() - before_s
        self.capacity = float(report["answered"] / report["seconds"])
        self.cpu_share = 100 * used_s / report["seconds"]
        self.cpu_ms = 1000 * used_s / max(1, report["answered"])
        if not report["answered"] or report["failed"]:
            raise Failed(f"capacity: {report['answered']} answered, {report['failed']} failed")
        return self.capacity

    def crowd(self, rate: float, **options: object) -> Running:
        """Many clients, so many that each asks less often than it loses patience: no request waits in a client.

        Each asks at equal gaps from a random instant on; all together are close to a Poisson process.
        """
        connections = min(CROWD_MAX, max(20, int(rate * PATIENCE_S * 1.1)))
        chosen: dict[str, object] = {"connections": connections, "rate": float(rate), "sources": CROWD_SOURCES}
        return self._paced(seconds=self.seconds, **{**chosen, **options})

    def probe(self, seconds: float) -> Running:
        """A new client 20 times a second, each with a connection of its own, every one listed."""
        own: dict[str, object] = {"connections": 200, "rate": float(PROBE_RATE), "new": True, "samples": True}
        return self._paced(seconds=seconds, sources=PROBE_SOURCE, patience=5, **own)

    def polite(self, rate: float, seconds: float, clients: int = 20) -> Running:
        """Some clients with an address and a connection each."""
        sources = f"127.0.3.1-127.0.3.{clients}"
        return self._paced(seconds=seconds, connections=clients, rate=float(rate), sources=sources)

    def _paced(self, seconds: float, **options: object) -> Running:
        usual: dict[str, object] = {"path": self.path, "patience": PATIENCE_S, "good": GOOD_MS, "fast": FAST_MS}
        usual["random_phase"] = True
        return self.loads.paced(self.port, seconds=seconds, **{**usual, **options})

    def work_done(self) -> int:
        """How many requests the application has worked on so far. The server may be slow to tell."""
        for _ in range(20):
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
            try:
                connection.request("GET", "/count")
                answer = connection.getresponse()
                if answer.status == 200:
                    return int(answer.read())
            except (OSError, http.client.HTTPException):
                pass
            finally:
                connection.close()
            time.sleep(0.2)
        raise Failed("the application does not tell its count")

    @contextmanager
    def memory_growth(self) -> Iterator[list[float]]:
        """How much more memory than before was held at most during the block, in MiB: the one item of the list."""
        before_kb = self.memory_kb()
        most, over = [0.0], threading.Event()

        def watch() -> None:
            while not over.wait(SAMPLE_PERIOD_S):
                most[0] = max(most[0], (self.memory_kb() - before_kb) / 1024)

        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            yield most
        finally:
            over.set()
            watcher.join()


def recovery_s(samples: Sequence[tuple[float, str, float]], end_s: float) -> float | None:
    """How long after the end a new client was served well, and the two after it too; None: never."""
    after = [(due_s, outcome == "answered" and took_ms <= GOOD_MS) for due_s, outcome, took_ms in samples]
    after = sorted((due_s, good) for due_s, good in after if due_s >= end_s)
    for place in range(len(after) - 2):
        if all(good for _, good in after[place : place + 3]):
            return after[place][0] - end_s
    return None


def start(command: Sequence[str]) -> subprocess.Popen[str]:
    """Start a load of another kind, on the core of the load; `stop` ends it."""
    return machine.start(command, machine.LOAD_CORE)


def stop(process: subprocess.Popen[str]) -> None:
    machine.stop(process)


def served_share(report: Report, name: str = "answered") -> float:
    """Per cent of what was asked."""
    return 100 * int(report[name]) / max(1, int(report["asked"]))


# ---- one script ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Column:
    """One column of a script's table. `goal` is text; `kept` judges a value."""

    figure: str
    title: str
    goal: str = ""
    kept: Callable[[float], bool] | None = None


@dataclass(frozen=True)
class Script:
    """What a script measures of one contender, and how its table looks."""

    name: str
    purpose: str
    measure: Callable[[Stage], Figures | list[Figures]]
    columns: tuple[Column, ...]
    needs_capacity: bool = True


def arguments(script: Script, argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog=f"bench/overload/{script.name}.py", description=script.purpose)
    parser.add_argument("--servers", metavar="A,B", help=f"only these of: {', '.join(CONTENDERS)}")
    parser.add_argument(
        "--seconds", type=float, default=10.0, metavar="S", help="length of the overload, 1 to 300 (10)"
    )
    parser.add_argument("--quick", action="store_true", help="3 s: shows that it works, not how well")
    parser.add_argument("--work", choices=("burn", "sleep"), default="burn", help="2 ms of CPU, or 20 ms of waiting")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every figure to FILE")
    chosen = parser.parse_args(argv)
    chosen.servers = chosen.servers.split(",") if chosen.servers else list(CONTENDERS)
    for name in chosen.servers:
        if name not in CONTENDERS:
            parser.error(f"no server is called {name!r}; choose from {', '.join(CONTENDERS)}")
    if not 1 <= chosen.seconds <= 300:
        parser.error(f"--seconds {chosen.seconds}: give 1 to 300")
    chosen.seconds = 3.0 if chosen.quick else chosen.seconds
    return chosen


@contextmanager
def stage(contender: Contender, directory: Path, options: argparse.Namespace) -> Iterator[Stage]:
    """Start a contender, and what is behind it."""
    settings: dict[str, object] = {"threads": 8 if options.work == "sleep" else 4, "PYTHONPATH": str(APPS)}
    chain = [contender.behind, contender.kind] if contender.behind else [contender.kind]
    with ExitStack() as stack:
        running: list[Server] = []
        for kind in chain:
            own = Path(tempfile.mkdtemp(dir=directory))
            own.chmod(0o755)
            port = servers.free_port()
            place = Place(own, directory / "site", port, settings=dict(settings))
            running.append(stack.enter_context(servers.serve(kind, place, "/count")))
            settings["behind"] = port
        path = "/sleep" if options.work == "sleep" else "/"
        yield Stage(contender.name, Loads(directory), running, options.seconds, path)


def _shown(value: float | str | None) -> str:
    if value is None:
        return "never"
    if isinstance(value, str):
        return value
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.2f}"


def markdown(script: Script, rows: Sequence[Figures]) -> str:
    """Return the table; a figure of penstock that misses its goal is marked."""
    lines = [f"| server | {' | '.join(column.title for column in script.columns)} |"]
    lines.append("|---" * (len(script.columns) + 1) + "|")
    if any(column.goal for column in script.columns):
        lines.append(f"| *goal* | {' | '.join(column.goal for column in script.columns)} |")
    for row in rows:
        cells = []
        for column in script.columns:
            value = row.get(column.figure)
            judged = column.kept and str(row["server"]).startswith("penstock") and not isinstance(value, str)
            kept = not judged or (value is not None and column.kept is not None and column.kept(float(value)))
            cells.append(_shown(value) + ("" if kept else " (missed)"))
        lines.append(f"| {row['server']} | {' | '.join(cells)} |")
    return "\n".join(lines)


class Play:
    """One script in progress: every contender in turn."""

    def __init__(self, script: Script, options: argparse.Namespace, directory: Path) -> None:
        self.script, self.options, self.directory = script, options, directory
        self.rows: list[Figures] = []
        self.absent: dict[str, str] = {}

    def all(self) -> None:
        servers.write_site(self.directory)
        for name in self.options.servers:
            contender = CONTENDERS[name]
            if self.options.work not in contender.works:
                self.absent[name] = f"its application cannot {self.options.work}"
            elif why := contender.missing():
                self.absent[name] = why
            else:
                self._one(contender)

    def _one(self, contender: Contender) -> None:
        began_s = time.monotonic()
        try:
            with stage(contender, self.directory, self.options) as on_stage:
                if self.script.needs_capacity:
                    on_stage.find_capacity(1.0 if self.options.quick else 3.0)
                found = self.script.measure(on_stage)
        except (Failed, OSError, ValueError, KeyError) as failure:
            self.absent[contender.name] = f"FAILED {type(failure).__name__}: {failure}"
            print(f"{self.script.name}: {contender.name}: FAILED {failure}", file=sys.stderr, flush=True)
            return
        for figures in found if isinstance(found, list) else [found]:
            row: Figures = {
                "server": contender.name,
                "capacity": on_stage.capacity,
                "capacity_cpu": on_stage.cpu_share,
                **figures,
            }
            self.rows.append(row)
            shown = ", ".join(f"{name} {_shown(value)}" for name, value in row.items() if name != "server")
            text = f"{self.script.name}: {contender.name}: {time.monotonic() - began_s:.0f} s: {shown}"
            print(text, file=sys.stderr, flush=True)


def main(script: Script, argv: Sequence[str] | None = None) -> int:
    """Run a script. Exit status: 0, or 1 when a server that is here failed, 2 when the load cannot be made."""
    options = arguments(script, argv)
    machine.raise_descriptor_limit()
    with tempfile.TemporaryDirectory(prefix="penstock-overload-") as name:
        play = Play(script, options, Path(name))
        try:
            load.build(Path(name))
        except Missing as missing:
            print(f"bench/overload/{script.name}.py: {missing}", file=sys.stderr)
            return 2
        system = f"{platform.system()} {platform.release()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
        with contextlib.suppress(KeyboardInterrupt):
            play.all()
    facts: dict[str, Any] = {"script": script.name, "machine": system, "seconds": options.seconds, "work": options.work}
    print(f"{script.purpose}\n{system}; {options.seconds:g} s; {options.work}\n\n{markdown(script, play.rows)}")
    for who, why in play.absent.items():
        print(f"- {who}: {why}")
    if options.json:
        options.json.write_text(json.dumps({**facts, "rows": play.rows, "absent": play.absent}, indent=1))
    return 1 if any(why.startswith("FAILED") for why in play.absent.values()) else 0
