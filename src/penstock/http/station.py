"""One loop that serves what a configuration says, and goes on serving when it is given another one.

A site is a server with its files, its application and its log, made from one configuration. A station is a loop with
its present site, and with former ones that are still answering. This file must not know processes, threads or signals.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from typing import Any

from penstock import limits
from penstock.http.application import application
from penstock.http.configuration import Configuration
from penstock.http.counting import add_up, lasting
from penstock.http.files import Files
from penstock.http.log import Log
from penstock.http.server import Server
from penstock.reactor import Reactor


class Site:
    """A server as one configuration wants it."""

    def __init__(self, configuration: Configuration, reactor: Reactor, listening: socket.socket) -> None:
        self.configuration = configuration
        self.log = _log(configuration)
        try:
            handler, files = _content(configuration)
            # The listener takes this one; the original outlives it, for the site that comes after.
            own = listening.dup()
            try:
                self.server = Server(
                    handler, reactor=reactor, fd=own, files=files, options=configuration.options(), log=self.log
                )
            except BaseException:
                own.close()
                raise
        except BaseException:
            if self.log is not None:
                self.log.close()
            raise

    def close(self) -> None:
        """End everything at once."""
        self.server.close()
        if self.log is not None:
            self.log.close()


def _log(configuration: Configuration) -> Log | None:
    if configuration.access_log is None:
        return None
    return Log(configuration.access_log, format=configuration.log_format, sample=configuration.log_sample)


def _content(configuration: Configuration) -> tuple[Callable[[Any], Any] | None, Files | None]:
    """Return what answers: a handler, or files."""
    handler = application(configuration.target)
    if handler is not None or configuration.target is None:
        return handler, None
    return None, Files(
        configuration.target,
        index=configuration.index,
        listing=configuration.listing,
        dotfiles=configuration.dotfiles,
        max_age=configuration.max_age,
        precompressed=configuration.precompressed,
    )


def check(configuration: Configuration) -> None:
    """Find out whether a configuration can be served, as far as that is known without serving it."""
    _content(configuration)
    # The format is the log's to judge; no file of the user's is made for that.
    Log(os.devnull, format=configuration.log_format, sample=configuration.log_sample).close()


class Station:
    """A loop with a site, which can be replaced and drained."""

    def __init__(self, configuration: Configuration, reactor: Reactor, listening: socket.socket) -> None:
        self.reactor = reactor
        self.site = Site(configuration, reactor, listening)
        self._former: list[Site] = []
        self._listening: socket.socket | None = listening
        self._on_done: Callable[[], object] | None = None
        self._past: dict[str, Any] = {}
        self.drained = False

    def replace(self, configuration: Configuration, listening: socket.socket) -> None:
        """Serve another configuration from now on; what the present one has accepted it answers. Nothing changes on errors."""
        site = Site(configuration, self.reactor, listening)
        former, self.site = self.site, site
        if self._listening is not listening and self._listening is not None:
            self._listening.close()
        self._listening = listening
        self._retire(former)
        while len(self._former) > limits.HTTP_WORKER_FORMER_MAX:
            self._gone(self._former[0])

    def drain(self, on_done: Callable[[], object]) -> None:
        """Accept nothing more, answer what was accepted, then call `on_done`."""
        if self._on_done is None:
            self._on_done = on_done
            # First this one, so that the server accepts all that has come when it lets go of its own.
            if self._listening is not None:
                self._listening.close()
                self._listening = None
            self._retire(self.site)

    def _retire(self, site: Site) -> None:
        self._former.append(site)
        site.server.drain(lambda: self.reactor.defer(self._gone, site))

    def _gone(self, site: Site) -> None:
        if site in self._former:
            self._former.remove(site)
            self._past = add_up([self._past, lasting(site.server.counters())])
            site.close()
            if not self._former and self._on_done is not None:
                self.drained = True
                self._on_done()

    def reopen(self) -> None:
        """Write the log to a file of the same name: somebody has moved the present one away."""
        for site in (self.site, *self._former):
            if site.log is not None:
                site.log.reopen()

    def counters(self) -> dict[str, Any]:
        """What this loop has counted, whichever configuration it served."""
        sites = self._former if self._on_done is not None else [self.site, *self._former]
        return add_up([self._past, *(site.server.counters() for site in sites)])

    def close(self) -> None:
        """End everything at once."""
        for site in {self.site, *self._former}:
            site.close()
        self._former.clear()
        if self._listening is not None:
            self._listening.close()
            self._listening = None
