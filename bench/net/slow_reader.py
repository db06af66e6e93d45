"""A reader of one byte per second against a writer of megabytes: memory bounded, CPU near zero while it waits."""

from __future__ import annotations

import socket
import sys
import time

from common import HERE, serve, verdict

READERS = 50
SECONDS = 5


def main() -> int:
    with serve(str(HERE / "servers.py"), "pour") as server:
        empty_kb = server.resident_kb()
        readers = [socket.create_connection(server.address) for _ in range(READERS)]
        time.sleep(0.5)
        before_s = server.cpu_s()
        for _ in range(SECONDS):
            for reader in readers:
                assert reader.recv(1) == b"x"
            time.sleep(1)
        cpu_s = server.cpu_s() - before_s
        grown_kb = server.resident_kb(peak=True) - empty_kb
        print(f"  {cpu_s:.2f} s of CPU in {SECONDS} s, {grown_kb:,} kB for {READERS} readers")
        quick = socket.create_connection(server.address)
        got = 0
        while got < 50_000_000:
            got += len(quick.recv(1 << 20))
        for reader in (*readers, quick):
            reader.close()
    return verdict(
        {
            "at most 1 % of a core while it waits": cpu_s <= 0.01 * SECONDS,
            "at most twice the cap for each reader": grown_kb <= READERS * 2 * 256 + 2_000,
            "a quick reader beside them gets megabytes": got >= 50_000_000,
        }
    )


if __name__ == "__main__":
    sys.exit(main())
