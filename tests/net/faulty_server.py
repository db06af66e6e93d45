"""An echo server whose system calls fail: `python faulty_server.py MODE SEED PER_MILLE KINDS`, with faults.c preloaded.

It prints its address; on SIGTERM it ends all streams and prints what it counted, as one line of JSON.
"""

from __future__ import annotations

import ctypes
import json
import signal
import sys
from functools import partial
from typing import Any

from penstock import Reactor
from penstock.net import Listener, Stream, StreamOptions, counters

KINDS = ("interrupt", "block", "short", "reset", "starve", "poll", "refuse")


def serve(mode: Any, seed: int, per_mille: int, kinds: int) -> None:
    library = ctypes.CDLL(None)
    library.faults_arm.argtypes = (ctypes.c_uint64, ctypes.c_int, ctypes.c_int)
    library.faults_struck.restype = ctypes.c_long
    reports: list[object] = []
    with Reactor(on_error=reports.append) as reactor:

        def echo(stream: Stream) -> None:
            stream.on_data = partial(answer, stream)
            stream.on_drain = stream.resume
            stream.on_eof = stream.close

        def answer(stream: Stream, data: bytes) -> None:
            # In two pieces: one sendmsg.
            if not stream.write((data[:1], data[1:]) if len(data) % 2 else data):
                stream.pause()

        options = StreamOptions(mode=mode, high_bytes=4_096, low_bytes=1_024)
        listener = Listener(reactor, ("127.0.0.1", 0), echo, options=options)
        reactor.add_signal(signal.SIGTERM, reactor.stop)
        library.faults_arm(seed, per_mille, kinds)
        assert isinstance(listener.address, tuple)
        print(listener.address[1], flush=True)
        reactor.run()
        library.faults_arm(0, 0, 0)
        counted = counters(reactor)
        counted["struck"] = {kind: library.faults_struck(index) for index, kind in enumerate(KINDS)}
        counted["still"] = listener.open
        counted["reports"] = [str(report) for report in reports]
    print(json.dumps(counted))


if __name__ == "__main__":
    serve(sys.argv[1], *map(int, sys.argv[2:]))
