"""One loop that serves what a configuration says, and goes on serving when it is given another one.

A site is a server with its files, its application and its log, made from one configuration. A station is a loop with
its present site, and with former ones that are still answering. This file must not know processes, threads or signals.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from penstock import limits
from penstock.errors import UsageError
from penstock.http.application import application
from penstock.http.configuration import Configuration
from penstock.http.counting import add_up, lasting
from penstock.http.files import Files
from penstock.http.log import Log
from penstock.http.server import Secure, Server
from penstock.reactor import Reactor

if TYPE_CHECKING:
    from penstock.http.wsgi import WsgiHandler


def nothing() -> None:
    """Called where nobody wants to be told."""


class Site:
    """A server as one configuration wants it."""

    def __init__(self, configuration: Configuration, reactor: Reactor, listening: socket.socket) -> None:
        self.configuration = configuration
        self.server: Server | None = None
        self.log: Log | None = None
        self._files: Files | None = None
        self._pool: WsgiHandler | None = None
        # Called when it has accepted its last connection.
        self.on_deaf: Callable[[], object] = nothing
        try:
            self._open(configuration, reactor, listening)
        except BaseException:
            self.close()
            raise

    def _open(self, configuration: Configuration, reactor: Reactor, listening: socket.socket) -> None:
        handler = application(configuration.target, factory=configuration.factory)
        secure = _secure(configuration)
        self._files = _files(configuration, handler is None)
        beside = handler is not None and self._files is not None
        if handler is not None and configuration.wsgi:
            from penstock.http.wsgi import WsgiHandler

            handler = self._pool = WsgiHandler(handler, reactor, threads=configuration.wsgi_threads)
        if configuration.access_log is not None:
            self.log = Log(configuration.access_log, format=configuration.log_format, sample=configuration.log_sample)
        # The listener takes this one; the original outlives it, for the site that comes after.
        own = listening.dup()
        try:
            self.server = Server(
                handler,
                reactor=reactor,
                fd=own,
                files=self._files,
                prefix=configuration.static_prefix if beside else "",
                options=configuration.options(),
                log=self.log,
                secure=secure,
                spooling=configuration.wsgi,
            )
        except BaseException:
            own.close()
            raise

    def counters(self) -> dict[str, Any]:
        """What it has counted."""
        counted = {} if self.server is None else self.server.counters()
        if self._pool is not None:
            counted["wsgi"] = self._pool.counters()
        return counted

    def deaf(self) -> None:
        """It accepts no more: say so once."""
        on_deaf, self.on_deaf = self.on_deaf, nothing
        on_deaf()

    def close(self, *, serving: bool = False) -> None:
        """End everything at once. If the loop goes on `serving`, it does not wait for the disk of the log."""
        if self.server is not None:
            self.server.close()
        if self._files is not None:
            self._files.close()
        if self._pool is not None:
            # Its threads end when the application lets them; nobody waits for that.
            threading.Thread(target=self._pool.close, name="penstock-closing-pool", daemon=True).start()
        if self.log is not None and serving:
            threading.Thread(target=self.log.close, name="penstock-closing-log", daemon=True).start()
        elif self.log is not None:
            self.log.close()


def _files(configuration: Configuration, alone: bool) -> Files | None:
    """The files of the target if that is a directory, and so alone; else those beside the application, if there are any."""
    if alone and configuration.static is not None:
        raise UsageError(f"static is {configuration.static!r}, but TARGET is a directory, too; give one of them")
    root = configuration.target if alone else configuration.static
    if root is None:
        return None
    return Files(
        root,
        index=configuration.index,
        listing=configuration.listing,
        dotfiles=configuration.dotfiles,
        max_age=configuration.max_age,
        expires=configuration.expires,
        precompressed=configuration.precompressed,
    )


def _secure(configuration: Configuration) -> Secure | None:
    if configuration.tls_cert is None:
        return None
    # Only who wants TLS needs the library for it.
    from penstock.http.tls import Tls

    return Tls(configuration.tls_cert, configuration.tls_key, client_ca=configuration.tls_client_ca)


def check(configuration: Configuration) -> None:
    """Find out whether a configuration can be served, as far as that is known without serving it."""
    files = _files(configuration, application(configuration.target) is None)
    if files is not None:
        files.close()
    _secure(configuration)
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

    def replace(
        self, configuration: Configuration, listening: socket.socket, on_deaf: Callable[[], object] = nothing
    ) -> None:
        """Serve another configuration from now on; what the present site has accepted, it answers.

        If the other one cannot be served, nothing changes. `on_deaf` is called when the present one accepts no more.
        """
        site = Site(configuration, self.reactor, listening)
        former, self.site = self.site, site
        former.on_deaf = on_deaf
        if self._listening is not listening and self._listening is not None:
            self._listening.close()
        self._listening = listening
        # Who is connecting where nobody is served any more still gets through.
        self._former.append(former)
        self.reactor.set_timeout(limits.HTTP_HANDSHAKE_NS / limits.NS_PER_S, self._retire, former)
        while len(self._former) > limits.HTTP_WORKER_FORMER_MAX:
            self._gone(self._former[0])

    def drain(self, on_done: Callable[[], object], on_deaf: Callable[[], object] = nothing) -> None:
        """Accept nothing more, call `on_deaf`, answer what was accepted, then call `on_done`."""
        if self._on_done is None:
            self._on_done = on_done
            self.site.on_deaf = on_deaf
            # First this one, so that the server accepts all that has come when it lets go of its own.
            if self._listening is not None:
                self._listening.close()
                self._listening = None
            self._former.append(self.site)
            self._retire(self.site)

    def _retire(self, site: Site) -> None:
        if site.server is not None and site in self._former:
            site.server.drain(lambda: self._drained(site), on_deaf=site.deaf)

    def _drained(self, site: Site) -> None:
        # In a turn of its own: the engine that tells this has not finished yet. A loop that is closed has no more turns.
        if not self.reactor.closed:
            self.reactor.defer(self._gone, site)

    def _gone(self, site: Site) -> None:
        if site in self._former:
            self._former.remove(site)
            site.deaf()
            self._past = add_up([self._past, lasting(site.counters())])
            site.close(serving=self._on_done is None)
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
        return add_up([self._past, *(site.counters() for site in sites)])

    def close(self) -> None:
        """End everything at once."""
        for site in {self.site, *self._former}:
            site.close()
        self._former.clear()
        if self._listening is not None:
            self._listening.close()
            self._listening = None
