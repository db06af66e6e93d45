"""The servers that take part: how each is started with its best settings, and when it is ready.

Every server runs as one worker on one core, without an access log, keeping connections alive for longer than any
measurement. Who is not installed is named with the reason and left out. This file must not know what is measured.
"""

from __future__ import annotations

import http.client
import importlib.util
import os
import random
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from subprocess import Popen

import machine
from machine import Failed

APPS = Path(__file__).resolve().parent / "apps"
READY_TIMEOUT_S = 60.0
# Below those that Linux gives to clients.
PORTS, PORT_TRIALS = (12_000, 32_000), 100
BACKLOG = 4096
CONNECTIONS = 16_000
IDLE_S = 120
# Name and size of the served files.
FILES = {"small.bin": 1_300, "100k.bin": 100_000, "1m.bin": 1_000_000}


@dataclass(frozen=True)
class Place:
    """Where one server works: its directory for temporary files, the site, its port, and what is asked of it."""

    directory: Path
    site: Path
    port: int
    # Answers of many segments: nginx then holds back what does not fill a segment.
    large: bool = False
    settings: Mapping[str, object] = field(default_factory=dict)

    def write(self, name: str, text: str) -> str:
        """Write a configuration file; return its path."""
        path = self.directory / name
        path.write_text(text)
        return str(path)


@dataclass(frozen=True)
class Kind:
    """One way to serve: a command, what it needs, and the path below which it serves the site."""

    name: str
    command: Callable[[Place], list[str]]
    needs: str
    module: bool = True
    prefix: str = ""
    # Says what else is missing.
    trial: Callable[[], str | None] | None = None

    def missing(self) -> str | None:
        """Return why it cannot take part, or None."""
        if not self.module:
            return None if tool(self.needs) else f"{self.needs} is not installed (apt install {self.needs})"
        if importlib.util.find_spec(self.needs) is None:
            return f"{self.needs} is not installed (requirements/bench-http.txt)"
        return self.trial() if self.trial else None

    def version(self) -> str:
        """Return the version of a package, or of a program of the system; nothing if it does not tell."""
        if self.module:
            try:
                return metadata.version(self.needs)
            except metadata.PackageNotFoundError:
                return ""
        line = [str(tool(self.needs)), "-v"]
        done = subprocess.run(line, capture_output=True, text=True, timeout=READY_TIMEOUT_S, check=False)
        found = re.search(r"/(\d[\w.]*)", done.stdout + done.stderr)
        return found[1] if found else ""


def tool(name: str) -> str | None:
    """Return the path of a program; servers of the system may be outside PATH."""
    return shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/local/sbin")


def write_site(directory: Path) -> Path:
    """Write the files that are served; every process may read them, whatever user it changes to."""
    site = directory / "site"
    site.mkdir()
    for name, size in FILES.items():
        (site / name).write_bytes(bytes((index * 31 + index // 251) & 0xFF for index in range(size)))
    os.chmod(directory, 0o755)
    return site


def nginx(place: Place) -> list[str]:
    temporary = "\n".join(
        f"  {kind}_temp_path {place.directory}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    configuration = f"""
daemon off; worker_processes 1; pid {place.directory}/nginx.pid; error_log stderr crit;
events {{ worker_connections {CONNECTIONS}; multi_accept on; }}
http {{
{temporary}
  default_type application/octet-stream; access_log off; sendfile on; tcp_nodelay on;
  tcp_nopush {"on" if place.large else "off"};
  open_file_cache max=1000 inactive=60s; open_file_cache_valid 60s; open_file_cache_min_uses 1;
  keepalive_timeout {IDLE_S}; keepalive_requests 1000000000;
  {place.settings.get("nginx_http", "")}
  server {{
    listen 127.0.0.1:{place.port} backlog={BACKLOG};
    root {place.site};
    {place.settings.get("nginx_server", "")}
  }}
}}
"""
    path = place.write("nginx.conf", configuration)
    return [str(tool("nginx")), "-p", str(place.directory), "-e", "stderr", "-c", path]


def lighttpd(place: Place) -> list[str]:
    # It takes no more connections than half of the descriptors it may have.
    descriptors = min(2 * CONNECTIONS, machine.raise_descriptor_limit())
    configuration = f"""
server.document-root = "{place.site}"
server.bind = "127.0.0.1"
server.port = {place.port}
server.max-fds = {descriptors}
server.max-connections = {descriptors // 2}
server.listen-backlog = {BACKLOG}
server.max-keep-alive-requests = 65535
server.max-keep-alive-idle = {IDLE_S}
server.event-handler = "linux-sysepoll"
server.network-backend = "sendfile"
server.stat-cache-engine = "simple"
mimetype.assign = ( ".bin" => "application/octet-stream" )
"""
    return [str(tool("lighttpd")), "-D", "-f", place.write("lighttpd.conf", configuration)]


def _granian(place: Place, interface: str, app: str, *more: str) -> list[str]:
    line = ["-m", "granian", "--interface", interface, "--host", "127.0.0.1", "--port", str(place.port)]
    line += ["--workers", "1", "--http", "1", "--no-ws", "--no-access-log", "--log-level", "error"]
    # Its back-pressure counts connections: by default it would leave all but as many as its backlog to the kernel.
    line += ["--backlog", str(BACKLOG), "--backpressure", str(CONNECTIONS)]
    line += ["--http1-pipeline-flush", "--working-dir", str(APPS)]
    return [sys.executable, *line, *more, app]


def granian_static(place: Place) -> list[str]:
    return _granian(place, "asgi", "hello_asgi:app", "--static-path-mount", str(place.site))


def granian_asgi(place: Place) -> list[str]:
    return _granian(place, "asgi", "hello_asgi:app", "--loop", "uvloop")


def granian_wsgi(place: Place) -> list[str]:
    return _granian(place, "wsgi", "hello_wsgi:app", "--blocking-threads", "1")


def uvicorn(place: Place) -> list[str]:
    line = ["-m", "uvicorn", "--host", "127.0.0.1", "--port", str(place.port), "--loop", "uvloop"]
    line += ["--http", "httptools", "--no-access-log", "--log-level", "error", "--lifespan", "off"]
    line += ["--backlog", str(BACKLOG), "--timeout-keep-alive", str(IDLE_S), "--app-dir", str(APPS)]
    return [sys.executable, *line, "hello_asgi:app"]


def gunicorn(place: Place) -> list[str]:
    line = ["-m", "gunicorn", "--bind", f"127.0.0.1:{place.port}", "--workers", "1", "--worker-class", "gthread"]
    line += ["--threads", "4", "--keep-alive", str(IDLE_S), "--backlog", str(BACKLOG), "--log-level", "error"]
    line += ["--worker-connections", str(CONNECTIONS), "--chdir", str(APPS), "hello_wsgi:app"]
    return [sys.executable, *line]


def aiohttp(place: Place) -> list[str]:
    return [sys.executable, str(APPS / "aiohttp_server.py"), str(place.port), str(BACKLOG), str(IDLE_S)]


def penstock(place: Place) -> list[str]:
    line = ["-m", "penstock", "serve", str(place.site), "--host", "127.0.0.1", "--port", str(place.port)]
    return [sys.executable, *line, "--idle-timeout", str(IDLE_S), "--max-connections", str(CONNECTIONS)]


def no_command() -> str | None:
    """Return why `penstock serve` cannot be used, or None."""
    line = [sys.executable, "-m", "penstock", "serve", "--help"]
    try:
        done = subprocess.run(line, capture_output=True, text=True, timeout=READY_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        return f"`penstock serve --help` did not end within {READY_TIMEOUT_S:.0f} s"
    return None if done.returncode == 0 else "this tree has no `penstock serve`"


KINDS = {
    kind.name: kind
    for kind in (
        Kind("penstock", penstock, "penstock", trial=no_command),
        Kind("nginx", nginx, "nginx", module=False),
        Kind("lighttpd", lighttpd, "lighttpd", module=False),
        Kind("granian static", granian_static, "granian", prefix="/static"),
        Kind("granian ASGI", granian_asgi, "granian"),
        Kind("granian WSGI", granian_wsgi, "granian"),
        Kind("uvicorn", uvicorn, "uvicorn"),
        Kind("aiohttp", aiohttp, "aiohttp"),
        Kind("gunicorn", gunicorn, "gunicorn"),
    )
}


class Server:
    """A server that runs, and what it has used so far."""

    def __init__(self, kind: Kind, process: Popen[str], port: int) -> None:
        self.kind = kind
        self.process = process
        self.port = port

    def path(self, name: str) -> str:
        """Return the path under which it serves a file of the site."""
        return f"{self.kind.prefix}/{name}"

    def cpu_s(self) -> float:
        return machine.cpu_s(self.process.pid)

    def memory_kb(self) -> int:
        return machine.memory_kb(self.process.pid)


def free_port() -> int:
    """Return a port that was free a moment ago: at random, so that two runs on one machine do not meet on it."""
    for _ in range(PORT_TRIALS):
        port = random.randrange(*PORTS)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise Failed(f"none of {PORT_TRIALS} ports from {PORTS[0]} on is free")


@contextmanager
def serve(kind: Kind, place: Place, ready_path: str) -> Iterator[Server]:
    """A running server that has answered 200 once; it ends with the block."""
    log = place.directory / "server.log"
    environment = {"BENCH_SITE": str(place.site), "PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0"}
    environment |= {str(name): str(value) for name, value in place.settings.items() if str(name).isupper()}
    process = machine.start(kind.command(place), machine.SERVER_CORE, log, environment, place.directory)
    try:
        _wait_until_ready(process, place.port, kind.prefix + ready_path, log)
        yield Server(kind, process, place.port)
        if process.poll() is not None:
            raise Failed(f"{kind.name} ended with status {process.returncode}: {_last_words(log)}")
    finally:
        machine.stop(process)


def _wait_until_ready(process: Popen[str], port: int, path: str, log: Path) -> None:
    deadline_s = time.monotonic() + READY_TIMEOUT_S
    answer = "no answer"
    while time.monotonic() < deadline_s:
        if process.poll() is not None:
            raise Failed(f"it ended with status {process.returncode}: {_last_words(log)}")
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        try:
            connection.request("GET", path)
            answer = f"status {connection.getresponse().status}"
            if answer == "status 200":
                return
        except (OSError, http.client.HTTPException) as failure:
            answer = f"{type(failure).__name__}: {failure}"
        finally:
            connection.close()
        time.sleep(0.05)
    raise Failed(f"it was not ready within {READY_TIMEOUT_S:.0f} s ({answer}): {_last_words(log)}")


def _last_words(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines() if log.exists() else []
    return lines[-1][:300] if lines else "it said nothing"
