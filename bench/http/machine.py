"""Processes on chosen cores, and what /proc says about them: CPU time and memory of a whole process tree.

The server side runs on the first core that this process may use and the load on the last one. This file must not know
what a server is.
"""

from __future__ import annotations

import os
import re
import resource
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

# Descriptors of one process: 10,000 connections and room for files; a proxy has two for each.
DESCRIPTORS_WANTED = 65_536
END_TIMEOUT_S = 5.0
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
SERVER_CORE, LOAD_CORE = 0, -1


class Missing(Exception):
    """Something that this machine does not have, with what to install."""


class Failed(Exception):
    """A process that did not do its part, with the last words it said."""


def raise_descriptor_limit() -> int:
    """Raise the limit of open files for this process and its children as far as allowed; return it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for wanted in (max(hard, DESCRIPTORS_WANTED), hard):
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), max(hard, wanted)))
            break
        except (ValueError, OSError):
            continue
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def start(
    command: Sequence[str],
    core: int,
    log: Path | None = None,
    environment: Mapping[str, str] | None = None,
    directory: Path | None = None,
) -> subprocess.Popen[str]:
    """Start a process in a group of its own, pinned to one core, which its children inherit."""
    allowed = sorted(os.sched_getaffinity(0))
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {allowed[core]})
    try:
        with open(log or os.devnull, "ab") as complaints:
            return subprocess.Popen(
                command,
                stdout=complaints if log else subprocess.PIPE,
                stderr=complaints if log else subprocess.PIPE,
                text=True,
                env={**os.environ, **(environment or {})},
                cwd=directory,
                start_new_session=True,
            )
    finally:
        os.sched_setaffinity(0, before)


def stop(process: subprocess.Popen[str]) -> None:
    """End a process and its group: politely, then for certain."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            break
        try:
            process.wait(END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            continue
        if not tree(process.pid):
            break
    process.wait()
    for pipe in (process.stdout, process.stderr):
        if pipe:
            pipe.close()


def tree(root: int) -> list[int]:
    """Return the ids of a process and of all that descend from it."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (fields := _stat(int(entry.name))):
            children.setdefault(int(fields[1]), []).append(int(entry.name))
    found, queue = [], [root] if _stat(root) else []
    while queue:
        found.append(queue[-1])
        queue += children.get(queue.pop(), ())
    return found


def cpu_s(root: int) -> float:
    """Return the CPU time, user and system, of a process tree, with that of its children that have ended."""
    ticks = 0
    for pid in tree(root):
        if fields := _stat(pid):
            ticks += sum(map(int, fields[11:15]))
    return ticks / TICKS_PER_S


def memory_kb(root: int) -> int:
    """Return the memory of a process tree; pages that several share count in parts (PSS)."""
    total = 0
    for pid in tree(root):
        try:
            rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
        except OSError:  # it has just ended
            continue
        found = re.search(r"^Pss:\s+(\d+) kB", rollup, re.MULTILINE)
        total += int(found[1]) if found else 0
    return total


def _stat(pid: int) -> list[str] | None:
    """The fields of /proc/PID/stat from the state on; None for a process that has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else fields
