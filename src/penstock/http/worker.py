"""A worker process: one loop that serves, and a channel on which its parent says what to do.

When the parent is gone, the worker answers what it has accepted and leaves. This file must not know how workers are
started, restarted or counted together.
"""

from __future__ import annotations

import signal
import socket
import sys
import traceback
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from penstock.errors import PenstockError
from penstock.http.channel import Channel
from penstock.http.configuration import Configuration
from penstock.http.keeper import DONE, FAILED, MISUSED, drain_limit
from penstock.http.station import Station
from penstock.reactor import Reactor

# What a worker is told.
DRAIN: Final = "drain"
REOPEN: Final = "reopen"
COUNT: Final = "count"


class Worker:
    """What serves in this process."""

    def __init__(
        self,
        number: int,
        configuration: Configuration,
        listening: socket.socket,
        end: socket.socket,
        unblock: Callable[[], object],
    ) -> None:
        self._configuration = configuration
        self._leaving = False
        self._station: Station | None = None
        self._listening = listening
        self._unblock = unblock
        self._reactor = Reactor(name=f"worker {number}")
        self._channel = Channel(self._reactor, end, self._told, self._orphaned)

    def run(self) -> int:
        """Serve until drained; return the exit status."""
        # Ctrl-C reaches the parent, too, which says what is to be done.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        self._reactor.add_signal(signal.SIGTERM, self._drain)
        self._reactor.add_signal(signal.SIGUSR1, self._reopen)
        self._unblock()
        try:
            self._station = Station(self._configuration, self._reactor, self._listening)
        except (PenstockError, OSError) as error:
            self._channel.say(failed=str(error))
            self._leave()
            self._reactor.run()
            return MISUSED
        self._channel.say(ready=True)
        self._reactor.run()
        self._station.close()
        return DONE

    def _told(self, message: dict[str, Any]) -> None:
        what = message.get("do")
        if what == DRAIN:
            self._drain()
        elif what == REOPEN:
            self._reopen()
        elif what == COUNT:
            self._count()

    def _count(self) -> None:
        if self._station is not None:
            self._channel.say(counters=self._station.counters())

    def _reopen(self) -> None:
        try:
            if self._station is not None:
                self._station.reopen()
        except (PenstockError, OSError) as error:
            self._channel.say(problem=f"the log was not opened anew: {error}")

    def _drain(self) -> None:
        if not self._leaving:
            self._leaving = True
            self._reactor.set_timeout(drain_limit(self._configuration), self._reactor.stop)
            if self._station is not None:
                self._station.drain(self._leave, partial(self._channel.say, deaf=True))

    def _leave(self) -> None:
        """Say the last counts, and stop when the parent has them."""
        self._leaving = True
        if self._channel.ended:
            self._reactor.stop()
        else:
            self._count()
            self._channel.close()

    def _orphaned(self) -> None:
        """The channel has ended: because this worker has closed it, or because the parent is gone."""
        if self._leaving:
            # The drain that runs already goes on if it was the parent that left.
            if self._station is None or self._station.drained:
                self._reactor.stop()
        else:
            self._drain()


def work(
    number: int,
    configuration: Configuration,
    listening: socket.socket,
    end: socket.socket,
    unblock: Callable[[], object],
) -> int:
    """Serve in this process, which was forked for it; return the exit status. `unblock` lets signals through."""
    try:
        return Worker(number, configuration, listening, end, unblock).run()
    except (PenstockError, OSError) as error:
        print(f"penstock: worker {number} cannot go on: {error}", file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    return FAILED
