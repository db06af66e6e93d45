"""One process that serves on one loop, or on several in threads.

The first loop is the keeper's own, in the main thread; the others have threads of their own, and are reached by posts
only. What is done in C for files runs in all of them at once, without the interpreter's lock.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from penstock import limits
from penstock.errors import LoopClosed, Overflow, PenstockError
from penstock.http.configuration import Configuration
from penstock.http.counting import add_up
from penstock.http.handover import Notifier, Place
from penstock.http.keeper import Keeper, Tell, drain_limit
from penstock.http.station import Station
from penstock.reactor import Reactor


class Loops(Keeper):
    """Serves in this process."""

    def __init__(
        self,
        configuration: Configuration,
        load: Callable[[], Configuration],
        tell: Tell,
        *,
        notifier: Notifier | None = None,
    ) -> None:
        super().__init__(configuration, load, tell, notifier=notifier)
        self.station: Station | None = None
        self._others: list[LoopThread] = []
        # How many other loops do not serve yet, and how many loops are not through with what they have accepted.
        self._starting = 0
        self._left = 0
        # Reloads so far, and how many loops still accept for the configuration before the last one.
        self._reloads = 0
        self._unsettled = 0
        self._final: dict[str, Any] = {}

    def loops_of(self, configuration: Configuration) -> int:
        """As many as there are threads."""
        return configuration.threads

    def begin(self) -> None:
        """Begin in this thread, then in the others."""
        self.station = Station(self.configuration, self.reactor, self.place[0].dup())
        self._starting = self.configuration.threads - 1
        for number in range(1, self.configuration.threads):
            other = LoopThread(self, number, self.configuration, self.place[number].dup())
            self._others.append(other)
            other.start()
        if not self._others:
            self.reactor.defer(self.ready)

    def serving(self) -> None:
        """Another loop serves."""
        self._starting -= 1
        if self._starting == 0:
            self.ready()

    def apply(self, configuration: Configuration, place: Place) -> None:
        """Replace the site of each loop."""
        assert self.station is not None
        if configuration.workers != 1 or configuration.threads != self.configuration.threads:
            self.tell(
                f"workers is {configuration.workers} and threads is {configuration.threads} now; "
                "this process keeps its loops until it is restarted"
            )
        settled = partial(self._settle, self._reloads + 1)
        _owning(place[0].dup(), partial(self.station.replace, configuration, on_deaf=settled))
        self._reloads += 1
        self._unsettled = 1 + len(self._others)
        if place is not self.place:
            self.place.refuse()
        for number, other in enumerate(self._others, 1):
            other.post(other.replace, configuration, place[number].dup(), settled)
        self.moved(configuration, place)

    def _settle(self, number: int) -> None:
        """One loop accepts no more for the configuration before a reload; one that came meanwhile waits for its own."""
        if number == self._reloads:
            self._unsettled -= 1
            if self._unsettled == 0:
                self.settled()

    def reopen(self) -> None:
        """Open the log of each loop anew."""
        assert self.station is not None
        for other in self._others:
            other.post(other.reopen)
        self.station.reopen()

    def drain(self) -> None:
        """Drain each loop; the last one stops the reactor."""
        assert self.station is not None
        self.place.close()
        self.reactor.set_timeout(drain_limit(self.configuration), self.reactor.stop)
        self._left = 1 + len(self._others)
        for other in self._others:
            other.post(other.drain)
        self.station.drain(self.drained)

    def drained(self) -> None:
        """One more loop is through."""
        self._left -= 1
        if self._left == 0:
            self._final = self._counted()
            self.reactor.stop()

    def end(self) -> None:
        """End the other loops, then this one."""
        if self.station is not None:
            self._final = self._counted()
            for other in self._others:
                other.stop()
            for other in self._others:
                # One whose handler never returns is left behind; it dies with the process.
                other.join(limits.HTTP_WORKER_KILL_NS / limits.NS_PER_S)
            station, self.station = self.station, None
            station.close()

    def counters(self) -> dict[str, Any]:
        """What was counted: here now, in the other loops when they were asked last."""
        if self.station is None:
            return self._final
        for other in self._others:
            other.post(other.count)
        return self._counted()

    def _counted(self) -> dict[str, Any]:
        assert self.station is not None
        return add_up([self.station.counters(), *(other.counted for other in self._others)])


class LoopThread(threading.Thread):
    """One more loop. Its methods run in its own thread, but for `post` and `stop`."""

    def __init__(self, owner: Loops, number: int, configuration: Configuration, listening: socket.socket) -> None:
        super().__init__(name=f"loop {number}", daemon=True)
        self.counted: dict[str, Any] = {}
        self._owner = owner
        self._configuration = configuration
        self._listening = listening
        self._reactor: Reactor | None = None
        self._opened = threading.Event()

    def run(self) -> None:
        """Serve until stopped."""
        tell = self._owner.reactor.defer_threadsafe
        try:
            with Reactor(name=self.name) as reactor:
                self._station = Station(self._configuration, reactor, self._listening)
                self._reactor = reactor
                self._opened.set()
                tell(self._owner.serving)
                try:
                    reactor.run()
                finally:
                    self.counted = self._station.counters()
                    self._station.close()
        except (PenstockError, OSError) as error:
            tell(self._owner.fail, PenstockError(f"{self.name} cannot serve: {error}"))
        finally:
            self._opened.set()

    def post(self, call: Callable[..., object], *args: object) -> None:
        """Have one of the methods below called in this loop; what is asked of one that has ended is nobody's error."""
        self._opened.wait()
        try:
            if self._reactor is not None:
                self._reactor.defer_threadsafe(call, *args)
        except (LoopClosed, Overflow):
            for each in args:
                if isinstance(each, socket.socket):
                    each.close()

    def stop(self) -> None:
        """Have `run` return."""
        self._opened.wait()
        if self._reactor is not None:
            self._reactor.stop()

    def replace(self, configuration: Configuration, listening: socket.socket, settled: Callable[[], object]) -> None:
        """Serve another configuration; the owner's loop calls `settled` when nothing is accepted for the former one."""
        tell = self._owner.reactor.defer_threadsafe
        try:
            _owning(listening, partial(self._station.replace, configuration, on_deaf=partial(tell, settled)))
        except (PenstockError, OSError) as error:
            tell(self._owner.tell, f"{self.name} keeps its configuration: {error}")
            tell(settled)

    def reopen(self) -> None:
        """Open the log anew."""
        try:
            self._station.reopen()
        except (PenstockError, OSError) as error:
            self._owner.reactor.defer_threadsafe(self._owner.tell, f"the log of {self.name} was not opened: {error}")

    def drain(self) -> None:
        """Answer what was accepted."""
        self._station.drain(self._drained)

    def _drained(self) -> None:
        self.counted = self._station.counters()
        self._owner.reactor.defer_threadsafe(self._owner.drained)

    def count(self) -> None:
        """Leave the counters where the owner finds them."""
        self.counted = self._station.counters()


def _owning(listening: socket.socket, use: Callable[[socket.socket], object]) -> None:
    """Hand a socket over, or close it if it is not taken."""
    try:
        use(listening)
    except BaseException:
        listening.close()
        raise
