"""A million connects and closes through the simulated kernel: descriptors, operations and memory are where they began."""

from __future__ import annotations

import gc
import re
import sys
from pathlib import Path
from typing import Any

from common import verdict

from penstock import ManualClock, Reactor
from penstock.core.poller.simulated import SimulatedKernel, SimulatedPoller
from penstock.net import Descriptor
from penstock.net.operations import operation_counters

CONNECTIONS = 1_000_000
WARM_UP = 100_000
AT_ONCE = 100
GROWTH_MAX_KB = 600


class Calls:
    """The simulated kernel's calls, as a Descriptor wants them."""

    def __init__(self, kernel: SimulatedKernel) -> None:
        self.read = kernel.read
        self.write = kernel.write
        self.accept = kernel.accept
        self.close = kernel.close
        self.ready = lambda fd: kernel.file("ready", fd).poll()


class Churn:
    """A listener that accepts, reads a byte and closes; clients that come, send a byte and go, some of them at once."""

    def __init__(self) -> None:
        clock = ManualClock()
        self.kernel = SimulatedKernel(clock, 0)
        self.calls: Any = Calls(self.kernel)
        self.reactor = Reactor(SimulatedPoller(self.kernel), clock=clock)
        self.number = self.kernel.listen(AT_ONCE)
        self.listener = Descriptor(self.reactor, self.number, calls=self.calls)
        self.ended = 0
        self.listener.accept(self.accepted)

    def accepted(self, error: OSError | None, accepted: Any) -> None:
        if error is not None:
            return
        fd = accepted[0] if isinstance(accepted, tuple) else accepted
        connection = Descriptor(self.reactor, fd, calls=self.calls)

        def done(_error: OSError | None, _data: bytes | None) -> None:
            connection.close()
            self.ended += 1

        connection.read(10, done)
        self.listener.accept(self.accepted)

    def run(self, count: int) -> None:
        kernel = self.kernel
        goal = self.ended + count
        while self.ended < goal:
            clients = [kernel.connect(self.number) for _ in range(AT_ONCE)]
            for place, client in enumerate(clients):
                if place % 3:
                    kernel.write(client, b"x")
                if place % 2:
                    kernel.reset(client)
                kernel.close(client)
            wanted = self.ended + AT_ONCE
            while self.ended < wanted:
                self.reactor.run_once(0)


def resident_kb() -> int:
    gc.collect()
    found = re.search(r"VmRSS:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found, "this needs /proc"
    return int(found[1])


def main() -> int:
    churn = Churn()
    churn.run(WARM_UP)
    before = (resident_kb(), len(churn.kernel.open_descriptors), operation_counters(churn.reactor)["allocated"])
    churn.run(int(sys.argv[1]) if len(sys.argv) > 1 else CONNECTIONS)
    after = (resident_kb(), len(churn.kernel.open_descriptors), operation_counters(churn.reactor)["allocated"])
    counted = operation_counters(churn.reactor)
    print(f"  {churn.ended:,} connections; (kB, descriptors, records) were {before} and are {after}")
    return verdict(
        {
            "descriptors and records are back to where they began": after[1:] == before[1:],
            "one operation waits, for the next connection": (counted["waiting"], counted["live"]) == (1, 1),
            f"memory is, to {GROWTH_MAX_KB} kB": after[0] - before[0] <= GROWTH_MAX_KB,
        }
    )


if __name__ == "__main__":
    sys.exit(main())
