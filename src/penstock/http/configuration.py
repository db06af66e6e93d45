"""Everything that `penstock serve` can be told, in one frozen record, and where each value comes from.

A setting has one name: `header_timeout = 5` in the configuration file, `PENSTOCK_HEADER_TIMEOUT=5` in the environment and
`--header-timeout 5` on the command line are the same, and the later of these wins over the earlier. A mistake is
reported with the place it was made in, what was given and what is allowed, even where a later place overrides it; a name
that does not exist is a mistake, too. This file must not know sockets, processes or argparse.
"""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final

from penstock import limits
from penstock.errors import UsageError
from penstock.http.lookout import parse
from penstock.http.options import DEFAULT, RANGES, HttpOptions
from penstock.http.settings import Flag, Kind, Mode, Names, Seconds, Text, Whole, as_toml

PREFIX: Final = "PENSTOCK_"
# The variable that names the configuration file; the file itself cannot.
CONFIG_VARIABLE: Final = "PENSTOCK_CONFIG"
# What stands for the values of settings that are neither times nor numbers.
METAVARS: Final = {
    "index": "NAME",
    "host": "ADDRESS",
    "unix": "PATH",
    "unix_mode": "DIGITS",
    "access_log": "FILE",
    "tls_cert": "FILE",
    "tls_key": "FILE",
    "tls_client_ca": "FILE",
    "log_format": "FORMAT",
    "static": "DIR",
    "static_prefix": "/NAME/",
    "trusted": "ADDRESSES",
}


@dataclass(frozen=True, slots=True)
class Setting:
    """What is known of one setting besides its value."""

    name: str
    kind: Kind
    help: str
    group: str
    default: object

    @property
    def metavar(self) -> str:
        """What stands for its value in a help text."""
        return METAVARS.get(self.name) or ("SECONDS" if isinstance(self.kind, Seconds) else "N")

    @property
    def option(self) -> str:
        """Its name on the command line."""
        return "--" + self.name.replace("_", "-")

    @property
    def variable(self) -> str:
        """Its name in the environment."""
        return PREFIX + self.name.upper()


def _setting(group: str, default: object, kind: Kind, text: str) -> Any:
    return field(default=default, metadata={"kind": kind, "help": text, "group": group})


def _time(name: str, text: str) -> Any:
    default = getattr(DEFAULT, name, limits.HTTP_DRAIN_TIMEOUT_NS / limits.NS_PER_S)
    kind = Seconds(limits.HTTP_TIMEOUT_MAX_NS, zero=name == "linger", optional=default is None)
    return _setting("times, in seconds", default, kind, text)


def _limit(name: str, text: str) -> Any:
    default = getattr(DEFAULT, name)
    least, most = RANGES[name]
    return _setting("limits of each loop", default, Whole(least, most, optional=default is None), text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """How a server is run. The names, kinds and explanations of the fields are in `SETTINGS`."""

    target: str | None = _setting("what", None, Text(optional=True), "the directory to serve, or module:name")
    index: str | None = _setting(
        "files", "index.html", Text(optional=True), "the file that a directory is answered with"
    )
    listing: bool = _setting("files", False, Flag(), "list directories that have no such file")
    dotfiles: bool = _setting("files", False, Flag(), "show names that begin with a dot")
    max_age: int | None = _setting(
        "files",
        None,
        Whole(0, limits.HTTP_MAX_AGE_MAX_S, optional=True),
        "seconds for which a file may be kept, for Cache-Control",
    )
    expires: bool = _setting(
        "files", False, Flag(), "tell max_age as a date, too: Expires, for those who know nothing else"
    )
    precompressed: bool = _setting("files", True, Flag(), "look for neighbours that end in .br, .zst and .gz")

    wsgi: bool = _setting("applications", False, Flag(), "module:name is a WSGI application")
    factory: bool = _setting(
        "applications", False, Flag(), "module:name makes the application: call it without arguments"
    )
    static: str | None = _setting(
        "applications", None, Text(optional=True), "a directory that is served beside the application"
    )
    static_prefix: str = _setting("applications", "/static/", Text(), "where: what its addresses begin with")
    wsgi_threads: int = _setting(
        "applications", limits.WSGI_THREADS, Whole(1, limits.WSGI_THREADS_MAX), "threads of each loop that ask it"
    )

    host: str = _setting("where", "127.0.0.1", Text(), "the address to listen on")
    port: int = _setting("where", 8_000, Whole(0, 65_535), "the port to listen on; 0 lets the system choose")
    unix: str | None = _setting("where", None, Text(optional=True), "listen on a Unix socket at this path instead")
    unix_mode: int | None = _setting("where", None, Mode(optional=True), "who may use that socket, such as 660")
    fd: int | None = _setting(
        "where", None, Whole(0, limits.DESCRIPTORS_MAX, optional=True), "serve an inherited listening socket instead"
    )

    proxy_protocol: bool = _setting(
        "proxies", False, Flag(), "trusted peers begin connections with a PROXY header (versions 1 and 2)"
    )
    trusted: tuple[str, ...] = _setting(
        "proxies",
        (),
        Names(),
        "addresses and networks whose PROXY headers and Forwarded fields are believed",
    )

    workers: int = _setting("processes", 1, Whole(1, limits.HTTP_WORKERS_MAX), "processes that serve")
    threads: int = _setting("processes", 1, Whole(1, limits.HTTP_THREADS_MAX), "loops in one process that serve")
    worker_lifetime: float | None = _setting(
        "processes",
        None,
        Seconds(limits.HTTP_WORKER_LIFETIME_MAX_NS, optional=True),
        "seconds after which a worker is replaced, give or take a tenth",
    )
    seed: int = _setting("processes", 0, Whole(0, (1 << 63) - 1), "seed of that give or take")

    tls_cert: str | None = _setting(
        "TLS", None, Text(optional=True), "speak TLS, with the certificates of this PEM file"
    )
    tls_key: str | None = _setting("TLS", None, Text(optional=True), "the key, if it is in a file of its own")
    tls_client_ca: str | None = _setting(
        "TLS", None, Text(optional=True), "ask clients for certificates that one of this PEM file has signed"
    )

    first_byte_timeout: float = _time("first_byte_timeout", "until a new connection has sent its first byte")
    header_timeout: float = _time("header_timeout", "for a whole head, however its bytes trickle in")
    body_timeout: float = _time("body_timeout", "in which a body must make its minimum progress")
    send_timeout: float = _time("send_timeout", "in which a peer must take some of what waits for it")
    idle_timeout: float = _time("idle_timeout", "between two requests of a connection")
    work_timeout: float | None = _time("work_timeout", "that an application has for an answer")
    drain_timeout: float = _time("drain_timeout", "that a leaving server gives to what it has accepted")
    linger: float = _time("linger", "for which a connection is read after its last answer")
    deadline: float = _time("deadline", "that a request may have waited when work on it begins")

    max_line: int = _limit("max_line", "bytes of a request line")
    max_head: int = _limit("max_head", "bytes of a head")
    max_fields: int = _limit("max_fields", "fields of a head")
    max_body: int = _limit("max_body", "bytes of a request's content")
    max_body_kept: int = _limit("max_body_kept", "bytes of content that are kept for an application")
    min_body_rate: int = _limit("min_body_rate", "bytes per second that a body must bring")
    max_connections: int = _limit("max_connections", "connections")
    max_connections_per_address: int | None = _limit("max_connections_per_address", "connections of one address")
    max_requests_in_work: int = _limit("max_requests_in_work", "requests that an application has at once")
    max_requests_queued: int = _limit("max_requests_queued", "requests that wait for it")

    status: str | None = _setting(
        "looking in", None, Text(optional=True), "show live counts at this address, such as 127.0.0.1:9000"
    )

    access_log: str | None = _setting("log", None, Text(optional=True), "write a line per request there; - is stdout")
    log_format: str = _setting("log", "combined", Text(), "common, combined, json, or a text with {placeholders}")
    log_sample: int = _setting("log", 1, Whole(1, 1_000_000_000), "log one request of so many")

    def __post_init__(self) -> None:
        if self.workers > 1 and self.threads > 1:
            raise UsageError(f"workers is {self.workers} and threads is {self.threads}; leave one of them at 1")
        if self.unix is not None and self.fd is not None:
            raise UsageError(f"unix is {self.unix!r} and fd is {self.fd}; give one place to listen on")
        if self.unix_mode is not None and self.unix is None:
            raise UsageError(
                f"unix_mode is {self.unix_mode:o}, but there is no Unix socket; give unix, or leave it out"
            )
        for name in ("tls_key", "tls_client_ca"):
            if getattr(self, name) is not None and self.tls_cert is None:
                raise UsageError(f"{name} is {getattr(self, name)!r}, but there is no certificate; give tls_cert, too")
        if self.expires and self.max_age is None:
            raise UsageError("expires is true, but not for how long; give max_age, too")
        if self.status is not None:
            parse(self.status)
        self.options()

    def options(self) -> HttpOptions:
        """The limits and times of each loop."""
        told = {each.name: getattr(self, each.name) for each in fields(HttpOptions)}
        if self.wsgi:
            # More in work than threads would wait behind the admission, where nobody knows their age.
            told["max_requests_in_work"] = min(self.wsgi_threads, self.max_requests_in_work)
        return HttpOptions(**told)

    def place(self) -> tuple[object, ...]:
        """What decides which sockets are needed, their number apart."""
        return self.host, self.port, self.unix, self.unix_mode, self.fd

    def toml(self) -> str:
        """Write it as a configuration file that says everything."""
        lines = [f"{name} = {as_toml(setting.kind.show(getattr(self, name)))}" for name, setting in SETTINGS.items()]
        return "\n".join(lines) + "\n"


SETTINGS: Final[dict[str, Setting]] = {
    each.name: Setting(each.name, each.metadata["kind"], each.metadata["help"], each.metadata["group"], each.default)
    for each in fields(Configuration)
}


def load(
    given: Mapping[str, str | bool] | None = None,
    environment: Mapping[str, str] | None = None,
    path: str | os.PathLike[str] | None = None,
) -> Configuration:
    """Put the configuration together: defaults, the file, the environment, what was given on the command line.

    `given` has what the command line said, by the settings' names; the file is `path`, or what PENSTOCK_CONFIG names.
    """
    environment = os.environ if environment is None else environment
    path = environment.get(CONFIG_VARIABLE) or None if path is None else path
    values = {} if path is None else of_file(path)
    values |= of_environment(environment)
    for name, value in (given or {}).items():
        values[name] = _read(SETTINGS[name], SETTINGS[name].option if name != "target" else "TARGET", value)
    return Configuration(**values)


def of_file(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read the settings of a TOML file."""
    shown = os.fspath(path)
    try:
        with open(path, "rb") as file:
            content = file.read(limits.HTTP_CONFIGURATION_MAX_BYTES + 1)
    except OSError as error:
        raise UsageError(f"the configuration file {shown} cannot be read: {error.strerror}") from None
    if len(content) > limits.HTTP_CONFIGURATION_MAX_BYTES:
        raise UsageError(
            f"the configuration file {shown} has more than {limits.HTTP_CONFIGURATION_MAX_BYTES:,} bytes; "
            "is it the right one?"
        )
    try:
        table = tomllib.loads(content.decode())
    except UnicodeDecodeError as error:
        raise UsageError(f"the configuration file {shown} is not UTF-8 at byte {error.start:,}; write it so") from None
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise UsageError(f"the configuration file {shown} is not TOML: {str(error) or 'too deep'}; mend it") from None
    values = {}
    for name, value in table.items():
        if name not in SETTINGS:
            raise UsageError(f"{shown}: there is no setting {name!r}; {_nearest(name, SETTINGS)}")
        values[name] = _read(SETTINGS[name], f"{shown}: {name}", value)
    return values


def of_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    """Read the settings of the environment. An empty variable counts as none."""
    variables = {setting.variable: setting for setting in SETTINGS.values()}
    values = {}
    for name in sorted(environment):
        if not name.startswith(PREFIX) or name == CONFIG_VARIABLE or not environment[name]:
            continue
        if name not in variables:
            raise UsageError(
                f"{name} in the environment: there is no such setting; {_nearest(name, [*variables, CONFIG_VARIABLE])}"
            )
        values[variables[name].name] = _read(variables[name], f"{name} in the environment", environment[name])
    return values


def _read(setting: Setting, source: str, value: object) -> Any:
    try:
        return setting.kind.read(value)
    except ValueError:
        shown = repr(value) if len(repr(value)) <= limits.HTTP_SHOWN_MAX_CHARACTERS else "very long"
        raise UsageError(f"{source} is {shown}; give {setting.kind.wants}") from None


def _nearest(name: str, names: Iterable[str]) -> str:
    """Return a remedy for a name that is not there."""
    close = difflib.get_close_matches(name, list(names), 1)
    return f"did you mean {close[0]}?" if close else "penstock serve --help lists them"
