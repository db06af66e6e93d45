"""10,000 connections echoing at once, each byte verified, in at most 45 MB of resident memory."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from common import PATIENCE_S, echo_server, verdict

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from rig import native

CONNECTIONS = 10_000
MESSAGES = 10
RESIDENT_MAX_KB = 45_000


def main() -> int:
    with tempfile.TemporaryDirectory() as folder, echo_server("--mode", *(sys.argv[1:2] or ["lt"])) as server:
        load = native.build("echo_load", Path(folder))
        empty_kb = server.resident_kb()
        arguments = (server.address[1], CONNECTIONS, 64, CONNECTIONS, MESSAGES * CONNECTIONS, PATIENCE_S, 0)
        done = subprocess.run([load, *map(str, arguments)], timeout=PATIENCE_S, check=False)
        peak_kb = server.resident_kb(peak=True)
        print(f"  resident: {empty_kb:,} kB without connections, at most {peak_kb:,} kB")
    return verdict(
        {
            f"{CONNECTIONS:,} connections echo {MESSAGES} messages each, every byte verified": done.returncode == 0,
            f"in at most {RESIDENT_MAX_KB:,} kB": peak_kb <= RESIDENT_MAX_KB,
        }
    )


if __name__ == "__main__":
    sys.exit(main())
