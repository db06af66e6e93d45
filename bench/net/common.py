"""What the scripts of this folder share: servers in processes of their own, and what the system says about them.

Each script proves one promise of `penstock.net` on the real kernel: it prints its figures, says what was promised, and
exits with 1 if that was not kept. Run one as `python bench/net/NAME.py`. This file must not know what is measured.
"""

from __future__ import annotations

import os
import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).resolve().parent
PATIENCE_S = 120


class Server:
    """A process that serves, and what it has used so far."""

    def __init__(self, process: subprocess.Popen[str], address: tuple[str, int]) -> None:
        self.process = process
        self.address = address
        self.leaving = False

    def leave(self) -> None:
        """Ask it to end, once: the second time it may be on its way, with nobody to hear it."""
        if not self.leaving:
            self.leaving = True
            self.process.send_signal(signal.SIGTERM)

    def resident_kb(self, peak: bool = False) -> int:
        """Resident memory, now or at most."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(rf"{'VmHWM' if peak else 'VmRSS'}:\s+(\d+) kB", status)
        assert found, "this needs /proc"
        return int(found[1])

    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def cpu_s(self) -> float:
        """CPU time so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def serve(*command: str, nofile: int | None = None) -> Iterator[Server]:
    """A server that prints `... HOST:PORT ...` first, until the block ends."""

    def limit() -> None:
        if nofile is not None:
            resource.setrlimit(resource.RLIMIT_NOFILE, (nofile, nofile))

    process = subprocess.Popen([sys.executable, *command], stdout=subprocess.PIPE, text=True, preexec_fn=limit)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.search(r"([\d.]+):(\d+)", line)
        assert found, f"the server said {line!r} instead of its address"
        server = Server(process, (found[1], int(found[2])))
        yield server
        server.leave()
        rest = process.communicate(timeout=PATIENCE_S)[0]
        assert process.returncode == 0, f"the server failed: {rest}"
        print(f"  {rest.strip()}")
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()


def echo_server(*options: str, nofile: int | None = None):  # type: ignore[no-untyped-def]
    """`penstock echo` on a port that the system chose."""
    return serve("-m", "penstock", "echo", "--port", "0", *options, nofile=nofile)


def verdict(promises: dict[str, bool]) -> int:
    """Print what was promised and whether it was kept; return the exit status."""
    for promise, kept in promises.items():
        print(f"{'kept  ' if kept else 'BROKEN'}  {promise}")
    return 0 if all(promises.values()) else 1


def wait_for(condition, what: str) -> None:  # type: ignore[no-untyped-def]
    """Look every few milliseconds, with a deadline."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"waited {PATIENCE_S} s for {what}"
        time.sleep(0.005)
