"""Runs one contender in a fresh process of its own: pinned, bounded in time, and if wanted watched by a tool.

The server side runs on the first core that this process may use and the load on the last one. This file must not know
what is measured.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rig import native
from rig.model import Entry, Figures

WORKER = Path(__file__).resolve().parent.parent / "worker.py"
# One run. The longest, a server under callgrind, takes about ten seconds on a slow machine.
RUN_TIMEOUT_S = 120
SERVER_LIFETIME_S = 60
RAW = Entry("raw C")


class RunFailed(Exception):
    """A process that did not give its figures, with the last words it said."""


def cores() -> tuple[int, int] | None:
    """The core of the server and the core of the load; None where processes cannot be pinned."""
    if not hasattr(os, "sched_setaffinity"):
        return None
    allowed = sorted(os.sched_getaffinity(0))
    return allowed[0], allowed[-1]


class Rig:
    """A directory for what is built and written, an interpreter, and the ways to start a process."""

    def __init__(self, directory: Path, python: str = sys.executable) -> None:
        self.directory = directory
        self.python = python
        self.cores = cores()

    def start(self, command: Sequence[str], core: int, preload: Path | None = None) -> subprocess.Popen[str]:
        """Start pinned to the server's (0) or the load's (1) core: a child inherits the affinity of its thread."""
        environment = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}
        if preload is not None:
            # In front of what is there already, such as the libraries of a sanitizer.
            environment["LD_PRELOAD"] = " ".join((str(preload), *environment.get("LD_PRELOAD", "").split()))
        before = os.sched_getaffinity(0) if self.cores else set()
        if self.cores:
            os.sched_setaffinity(0, {self.cores[core]})
        try:
            return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
        finally:
            if self.cores:
                os.sched_setaffinity(0, before)

    def finish(self, process: subprocess.Popen[str]) -> str:
        """Wait for the end and return what was printed."""
        try:
            out, complaints = process.communicate(timeout=RUN_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise RunFailed(f"no end after {RUN_TIMEOUT_S} s") from None
        if process.returncode:
            last_words = complaints.strip().splitlines()[-1:] or [f"exit code {process.returncode}"]
            raise RunFailed(last_words[0])
        return out

    def worker(self, *arguments: str, preload: str | None = None, tool: Sequence[str] = ()) -> Any:
        """The answer of `worker.py` to `arguments`."""
        library = native.build(preload, self.directory, shared=True) if preload else None
        process = self.start([*tool, self.python, str(WORKER), *arguments], core=0, preload=library)
        answer = self.finish(process).strip().splitlines()[-1:]
        if not answer:
            raise RunFailed("the process printed no figures")
        return json.loads(answer[0])

    # ---- an echo server and its load --------------------------------------------------------------------------------

    def server_command(self, entry: Entry) -> list[str]:
        if entry == RAW:
            return [str(native.build("raw_echo", self.directory)), str(SERVER_LIFETIME_S)]
        return [self.python, str(WORKER), "serve", entry.contender, entry.form]

    @contextmanager
    def server(self, entry: Entry, tool: Sequence[str] = ()) -> Iterator[tuple[int, int]]:
        """A running server: its port and process id. It ends by itself when the load has closed its connections."""
        process = self.start([*tool, *self.server_command(entry)], core=0)
        try:
            assert process.stdout is not None
            words = process.stdout.readline().split()
            if len(words) != 2 or words[0] != "port":
                self.finish(process)
                raise RunFailed(f"the server said {words} instead of its port")
            yield int(words[1]), process.pid
            self.finish(process)
        finally:
            if process.poll() is None:
                process.kill()
                process.communicate()

    def load(self, port: int, *, connections: int, size: int, warmup: int, messages: int, server: int) -> Figures:
        """Drive an echo server; `server` is the process whose CPU time is wanted, or 0."""
        numbers = (port, connections, size, warmup, messages, SERVER_LIFETIME_S // 2, server)
        command = [str(native.build("echo_load", self.directory)), *map(str, numbers)]
        figures: Figures = json.loads(self.finish(self.start(command, core=1)))
        return figures
