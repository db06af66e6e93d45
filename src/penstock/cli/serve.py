"""`penstock serve`: serve a directory or an application over HTTP, and say what is going on.

Results go to standard output, what somebody should look at goes to the error output. This file must not know how it is
served, nor what the settings mean: it makes options of them, and words of counters.
"""

from __future__ import annotations

import argparse
import os
import resource
import select
import sys
from collections.abc import Mapping
from typing import Any, Final, TextIO

from penstock import limits
from penstock.http.configuration import SETTINGS, Configuration, load
from penstock.http.keeper import Keeper
from penstock.http.loops import Loops
from penstock.http.settings import Flag
from penstock.http.station import check
from penstock.http.workers import Workers
from penstock.limits import NS_PER_S

NAME: Final = "serve"
SUMMARY: Final = "serve a directory or an application over HTTP"

# What a process has open besides connections: files, logs, its own.
_OTHER_DESCRIPTORS: Final = limits.HTTP_CACHE_OPEN_FILES + 64


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare an option for each setting."""
    parser.epilog = (
        "Each option is also a line of the configuration file (header_timeout = 5) and a variable of the environment "
        "(PENSTOCK_HEADER_TIMEOUT=5); the command line wins over the environment, and that over the file."
    )
    parser.add_argument("target", nargs="?", metavar="TARGET", help=SETTINGS["target"].help)
    parser.add_argument("--config", metavar="FILE", help="read the settings of this TOML file")
    parser.add_argument("--check", action="store_true", help="print the settings as they would be used, and leave")
    groups: dict[str, Any] = {}
    for setting in SETTINGS.values():
        if setting.name == "target":
            continue
        group = groups.get(setting.group)
        if group is None:
            group = groups[setting.group] = parser.add_argument_group(setting.group)
        default = setting.kind.show(setting.default)
        text = setting.help.replace("%", "%%")
        if isinstance(setting.kind, Flag):
            group.add_argument(
                setting.option,
                action=argparse.BooleanOptionalAction,
                default=None,
                help=f"{text} (default: {'yes' if default else 'no'})",
            )
        else:
            group.add_argument(setting.option, metavar=setting.metavar, help=f"{text} (default: {default})")


def run(options: argparse.Namespace, out: TextIO) -> None:
    """Serve until told to leave."""
    given = {name: value for name in SETTINGS if (value := getattr(options, name)) is not None}

    def configured() -> Configuration:
        return load(given, path=options.config)

    configuration = configured()
    if options.check:
        check(configuration)
        out.write(configuration.toml())
        return
    warning = raise_descriptor_limit(configuration)
    face = Face(out)
    kind = Loops if configuration.workers == 1 else Workers
    keeper = kind(configuration, configured, face.tell)
    keeper.on_ready = lambda: face.begin(keeper, warning)
    try:
        keeper.run()
    finally:
        face.end(keeper)
    if keeper.interrupted:
        raise KeyboardInterrupt


class Face:
    """What people see: where it serves, a line that lives while a terminal shows it, and in the end what there was."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        terminal = out.isatty()
        self._colours = terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        self._live = terminal and os.environ.get("TERM") != "dumb"
        self._shown = False
        self._begun = False
        self._requests = 0

    def begin(self, keeper: Keeper, warning: str) -> None:
        """Everything serves."""
        self._begun = True
        if warning:
            self.tell(warning)
        self._out.write(introduction(keeper, self._bold))
        self._out.flush()
        # A log on the terminal is its own progress.
        if self._live and keeper.configuration.access_log != "-":
            keeper.reactor.set_interval(limits.HTTP_SHOW_PERIOD_NS / NS_PER_S, self._show, keeper)

    def end(self, keeper: Keeper) -> None:
        """Nothing serves any more."""
        self._wipe()
        if self._begun:
            self._out.write(summary(keeper.counters()))

    def tell(self, sentence: str) -> None:
        """Say something that somebody should know."""
        self._wipe()
        print(f"penstock: {sentence}", file=sys.stderr, flush=True)

    def _bold(self, text: str) -> str:
        return f"\033[1;36m{text}\033[0m" if self._colours else text

    def _show(self, keeper: Keeper) -> None:
        """Bring the line up to date, unless the terminal is stopped: nobody's Ctrl-S may stop the server."""
        counted = keeper.counters()
        if not select.select([], [self._out], [], 0)[1]:
            return
        requests = counted.get("requests", 0)
        self._shown = True
        self._out.write(f"\r\033[K{live_line(counted, max(0, requests - self._requests))}")
        self._out.flush()
        self._requests = requests

    def _wipe(self) -> None:
        if self._shown:
            self._shown = False
            self._out.write("\r\033[K")
            self._out.flush()


def introduction(keeper: Keeper, bold: Any = str) -> str:
    """Say what is served where, within which limits, and how to stop it."""
    told = keeper.configuration
    loops = f"{told.workers:,} workers" if told.workers > 1 else f"{told.threads:,} loop{'s' * (told.threads > 1)}"
    per = f" (in each of {loops})" if told.workers * told.threads > 1 else ""
    return (
        f"serving {bold(str(told.target))} at {bold(url(keeper.address, told.tls_cert is not None))}\n"
        f"  at most {told.max_connections:,} connections and {told.max_requests_in_work:,} requests in work{per}\n"
        f"  at most {size(told.max_head)} of head within {told.header_timeout:g} s, {size(told.max_body)} of content, "
        f"{told.idle_timeout:g} s idle\n"
        f"  Ctrl-C stops it; what was accepted is answered, for up to {told.drain_timeout:g} s\n"
    )


def live_line(counted: Mapping[str, Any], per_second: int) -> str:
    """Say in one line how things are."""
    refused = sum(counted.get("refused", {}).values())
    return (
        f"{counted.get('open', 0):,} connections, {counted.get('requests', 0):,} requests ({per_second:,}/s), "
        f"{size(counted.get('sent_content_bytes', 0))} sent, {refused:,} refused"
    )


def summary(counted: Mapping[str, Any]) -> str:
    """Return one line that says what there was."""
    answers = ", ".join(f"{count:,} {word}" for word, count in counted.get("answers", {}).items() if count)
    refused = ", ".join(f"{count:,} {word}" for word, count in counted.get("refused", {}).items() if count)
    return (
        f"served {counted.get('requests', 0):,} requests on {counted.get('connections', 0):,} connections, "
        f"{size(counted.get('sent_content_bytes', 0))} of content (answers: {answers or 'none'}; "
        f"refused: {refused or 'none'})\n"
    )


def url(address: object, secure: bool = False) -> str:
    """Write an address as a browser takes it."""
    if isinstance(address, tuple):
        host, port = address[:2]
        scheme = "https" if secure else "http"
        return f"{scheme}://[{host}]:{port}/" if ":" in host else f"{scheme}://{host}:{port}/"
    return f"unix:{address}"


def size(count: float) -> str:
    """Write bytes as people say them."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if count < 1_024:
            return f"{count:,.0f} {unit}" if unit == "bytes" or count == int(count) else f"{count:,.1f} {unit}"
        count /= 1_024
    return f"{count:,.1f} TiB"


def raise_descriptor_limit(configuration: Configuration) -> str:
    """Let each process have as many descriptors as its connections need; else say what will be."""
    wanted = configuration.max_connections * configuration.threads + _OTHER_DESCRIPTORS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = resource.RLIM_INFINITY
    if soft == unlimited or soft >= wanted:
        return ""
    for limit in ((wanted, wanted if hard not in (unlimited,) and hard < wanted else hard), (hard, hard)):
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, limit)
        except (OSError, ValueError):
            continue
        soft = limit[0]
        break
    connections = configuration.max_connections * configuration.threads
    if soft == unlimited or soft >= connections:
        return ""
    return (
        f"the system allows {soft:,} descriptors, fewer than {connections:,} connections need; what connects beyond "
        "that waits: raise the limit with ulimit -n, or lower max_connections"
    )
