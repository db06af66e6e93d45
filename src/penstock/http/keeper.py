"""Who keeps a server alive: the signals it answers to, the counters it collects, how it leaves.

There are two kinds: all in this process (`loops.py`), and a parent of worker processes (`workers.py`). Both answer to
the same signals: SIGTERM and SIGINT drain, the second one ends at once; SIGHUP reads the configuration anew; SIGUSR1
opens the log anew. This file must not know how it is served.
"""

from __future__ import annotations

import signal
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Final

from penstock import limits
from penstock.errors import PenstockError
from penstock.http.configuration import Configuration
from penstock.http.handover import Notifier, Place, open_place
from penstock.http.lookout import Lookout
from penstock.reactor import Reactor

Tell = Callable[[str], object]

# How a worker process ends.
DONE: Final = 0
FAILED: Final = 1
MISUSED: Final = 2


class Keeper(ABC):
    """What both kinds have in common.

    `load` reads the configuration anew; `tell` says a sentence to whoever watches over the server.
    """

    def __init__(
        self,
        configuration: Configuration,
        load: Callable[[], Configuration],
        tell: Tell,
        *,
        notifier: Notifier | None = None,
    ) -> None:
        self.configuration = configuration
        self.load = load
        self.tell = tell
        self.notifier = Notifier() if notifier is None else notifier
        # Called when everything serves, the first time.
        self.on_ready: Callable[[], object] | None = None
        self.leaving = False
        # Whether it was Ctrl-C that ended it.
        self.interrupted = False
        self.lookout: Lookout | None = None
        self._failure: PenstockError | None = None
        self.place: Place = open_place(configuration, self.loops_of(configuration))
        # What it was when it was opened: a socket that is closed has none.
        self._address = self.place.address
        self.reactor = Reactor(name="penstock")

    # ---- what the kinds do differently -------------------------------------------------------------------------------

    @abstractmethod
    def loops_of(self, configuration: Configuration) -> int:
        """How many loops a configuration asks for."""

    @abstractmethod
    def begin(self) -> None:
        """Begin to serve; call `ready` when everything does."""

    @abstractmethod
    def apply(self, configuration: Configuration, place: Place) -> None:
        """Serve that from now on."""

    @abstractmethod
    def reopen(self) -> None:
        """Open the logs anew."""

    @abstractmethod
    def drain(self) -> None:
        """Answer what was accepted, then stop the reactor."""

    @abstractmethod
    def end(self) -> None:
        """End everything that serves, now."""

    @abstractmethod
    def counters(self) -> dict[str, Any]:
        """What was counted in all loops."""

    # ---- what they do alike ------------------------------------------------------------------------------------------

    @property
    def address(self) -> object:
        """Where it listens: (host, port) or a path."""
        return self._address

    def run(self) -> None:
        """Serve until told to leave, or until nothing can be served."""
        for number in (signal.SIGTERM, signal.SIGINT):
            self.reactor.add_signal(number, self._leave, number)
        self.reactor.add_signal(signal.SIGHUP, self._reload)
        self.reactor.add_signal(signal.SIGUSR1, self._reopen)
        try:
            self._look_out(self.configuration)
            self.begin()
            self.reactor.run()
        finally:
            self._look_away()
            self.end()
            self.place.close()
            self.reactor.close()
        if self._failure is not None:
            raise self._failure

    def _look_out(self, configuration: Configuration) -> None:
        """Show the counts, if that is wanted."""
        if configuration.status is not None:
            self.lookout = Lookout(configuration.status, self.reactor, self.counters)

    def _look_away(self) -> None:
        lookout, self.lookout = self.lookout, None
        if lookout is not None:
            lookout.close()

    def ready(self) -> None:
        """Everything serves."""
        if self.on_ready is not None and not self.leaving:
            on_ready, self.on_ready = self.on_ready, None
            on_ready()
        self.notifier.ready("serving")

    def fail(self, error: PenstockError) -> None:
        """Give up: nothing can be served. `run` raises the error."""
        self._failure = error
        self.leaving = True
        self.reactor.stop()

    def _leave(self, number: int) -> None:
        self.interrupted = self.interrupted or number == signal.SIGINT
        if self.leaving:
            self.tell("told to leave a second time; everything ends at once")
            self.reactor.stop()
            return
        self.leaving = True
        self.notifier.stopping("answering what was accepted")
        self.place.refuse()
        self.reactor.set_timeout(limits.HTTP_HANDSHAKE_NS / limits.NS_PER_S, self.drain)

    def _reload(self) -> None:
        if self.leaving:
            return
        self.notifier.reloading()
        place = self.place
        try:
            configuration = self.load()
            if configuration.place() != self.configuration.place():
                place = open_place(configuration, self.loops_of(configuration))
            self.apply(configuration, place)
        except (PenstockError, OSError) as error:
            self.kept(place, str(error))

    def kept(self, place: Place, why: str) -> None:
        """A reload has failed: everything stays as it was."""
        if place is not self.place:
            place.close()
        self.tell(f"the configuration was not changed: {why}")
        self.notifier.ready("serving; the last reload has failed")

    def moved(self, configuration: Configuration, place: Place) -> None:
        """A reload has succeeded; `settled` follows."""
        if configuration.status != self.configuration.status:
            self._look_away()
            try:
                self._look_out(configuration)
            except PenstockError as error:
                self.tell(f"the status is not shown any more: {error}")
        self.configuration = configuration
        if place is not self.place:
            former, self.place = self.place, place
            self._address = place.address
            former.close(remove=former.path != place.path)

    def settled(self) -> None:
        """Nobody accepts for a former configuration any more: who connects from now on meets the present one."""
        if not self.leaving:
            self.tell("serving with the configuration as it is now")
            self.notifier.ready("serving")

    def _reopen(self) -> None:
        try:
            self.reopen()
        except (PenstockError, OSError) as error:
            self.tell(f"the log was not opened anew: {error}")


def drain_limit(configuration: Configuration) -> float:
    """Seconds after which a drain must be over, whatever happens."""
    return configuration.drain_timeout + limits.HTTP_WORKER_KILL_NS / limits.NS_PER_S
