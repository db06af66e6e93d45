"""Sockets that a server gets or makes before it begins, and what it tells the system's service manager.

One process makes the sockets and keeps them while others serve, so that connections which wait in one are not lost with
the process that served it: TCP gets one socket with SO_REUSEPORT per worker, among which the system spreads
connections; a Unix socket and an inherited one are shared. This file must not know processes, signals or HTTP.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import socket
import stat
import struct
import sys
import time
from collections.abc import MutableMapping
from typing import Any

from penstock import limits
from penstock.errors import UsageError
from penstock.http.configuration import Configuration
from penstock.net.address import from_system, is_literal, show, system_address

# The first descriptor that a service manager hands over.
_LISTEN_FDS_START = 3
# Of Linux: the option that gives a socket a filter, and the filter's instructions. It sees a packet from the TCP header on.
_SO_ATTACH_FILTER = 26
_SO_DETACH_FILTER = 27
_BPF_LOAD_BYTE = 0x30
_BPF_JUMP_IF_SET = 0x45
_BPF_RETURN = 0x06
_TCP_FLAGS_AT = 13
_TCP_SYN = 0x02


class Place:
    """Where a server listens: the sockets, and how to let go of them."""

    def __init__(
        self, sockets: list[socket.socket], *, grows: bool = False, own: bool = True, path: str | None = None
    ) -> None:
        self.sockets = sockets
        self.path = path
        # Whether they were made here; else whoever made them may hand them to somebody else, too.
        self._own = own
        # Whether more sockets can be made for more loops; else all loops share what there is.
        self.grows = grows
        self._file = _identity(path)

    @property
    def address(self) -> Any:
        """(host, port) or a path, with the port that the system chose."""
        return from_system(self.sockets[0].getsockname())

    def __getitem__(self, number: int) -> socket.socket:
        """Return the socket for one of the loops."""
        return self.sockets[number % len(self.sockets)]

    def resize(self, count: int) -> None:
        """Make sockets for so many loops, or let go of those that are too many. Whoever serves one has it still."""
        while self.grows and len(self.sockets) < count:
            self.sockets.append(_bind_tcp(self.sockets[0].family, self.sockets[0].getsockname(), shared=True))
        if self.grows:
            while len(self.sockets) > count:
                self.sockets.pop().close()

    def refuse(self, beyond: int = 0) -> None:
        """Let nobody connect any more, to the sockets from number `beyond` on; who has connected waits to be accepted.

        What was inherited goes on: it is not ours.

        Closing alone would reset those who connect after the last accept. With a filter that drops what begins a
        connection, those that have begun it come through, and the others are told after the close that nobody listens.
        """
        for each in self.sockets[beyond:] if self._own else ():
            with contextlib.suppress(OSError):
                if each.family == socket.AF_UNIX:
                    each.shutdown(socket.SHUT_RD)
                elif sys.platform == "linux":
                    _let_no_beginning_through(each)

    def accept_again(self) -> None:
        """Let people connect after all."""
        for each in self.sockets if self._own and sys.platform == "linux" else ():
            with contextlib.suppress(OSError):
                each.setsockopt(socket.SOL_SOCKET, _SO_DETACH_FILTER, 0)

    def close(self, *, remove: bool = True) -> None:
        """Let go; with `remove`, a Unix socket's file goes too if it is still ours."""
        if remove and self.path is not None and _identity(self.path) == self._file:
            with contextlib.suppress(OSError):
                os.unlink(self.path)
        for each in self.sockets:
            each.close()


def open_place(configuration: Configuration, count: int, environment: MutableMapping[str, str] | None = None) -> Place:
    """Open what `count` loops listen on: what was inherited, or a Unix socket, or a port."""
    handed = _handed_over(os.environ if environment is None else environment)
    if configuration.fd is not None:
        return Place([_inherited(configuration.fd)], own=False)
    if handed:
        if configuration.unix is None:
            return Place([_inherited(fd) for fd in handed], own=False)
        raise UsageError(f"unix is {configuration.unix!r}, but a socket was handed over in LISTEN_FDS; leave one out")
    if configuration.unix is not None:
        return Place([_bind_unix(configuration.unix, configuration.unix_mode)], path=configuration.unix)
    return _open_tcp(configuration.host, configuration.port, count)


# ---- what was inherited ----------------------------------------------------------------------------------------------


def _handed_over(environment: MutableMapping[str, str]) -> list[int]:
    """Return the descriptors that a service manager gave to this very process; processes it starts must not find them."""
    count, owner = environment.pop("LISTEN_FDS", ""), environment.pop("LISTEN_PID", "")
    environment.pop("LISTEN_FDNAMES", None)
    if not count or owner != str(os.getpid()):
        return []
    if not (count.isascii() and count.isdigit() and 0 < len(count) < 4):
        raise UsageError(f"LISTEN_FDS in the environment is {count!r}; give the number of sockets that are handed over")
    return list(range(_LISTEN_FDS_START, _LISTEN_FDS_START + int(count)))


def _inherited(fd: int) -> socket.socket:
    try:
        handle = socket.socket(fileno=fd)
    except OSError as error:
        raise UsageError(
            f"fd is {fd}, which is no socket: {error.strerror}; open it before the command starts"
        ) from None
    if handle.type != socket.SOCK_STREAM or not handle.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        handle.detach()
        raise UsageError(f"fd is {fd}, a socket that does not listen; call listen() before it is handed over")
    handle.setblocking(False)
    os.set_inheritable(fd, False)
    return handle


# ---- what is made here -----------------------------------------------------------------------------------------------


def _open_tcp(host: str, port: int, count: int) -> Place:
    family, target = _resolve(host, port)
    if count == 1:
        return Place([_bind_tcp(family, target, shared=False)])
    if port:
        # A socket that shares its port would not notice somebody else's that shares it too.
        _bind_tcp(family, target, shared=False).close()
    first = _bind_tcp(family, target, shared=True)
    place = Place([first], grows=True)
    try:
        place.resize(count)
    except BaseException:
        place.close()
        raise
    return place


def _resolve(host: str, port: int) -> tuple[socket.AddressFamily, object]:
    """Return the family and the address; of a name the first one that it has."""
    if host and not is_literal(host):
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        except (OSError, UnicodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise UsageError(f"host is {host!r}, which has no address: {reason}; give one such as 127.0.0.1") from None
        return found[0][0], found[0][4]
    return system_address((host, port))


def _bind_tcp(family: int, target: object, *, shared: bool) -> socket.socket:
    handle = socket.socket(family, socket.SOCK_STREAM)
    try:
        handle.setblocking(False)
        handle.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            handle.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            # "::" is every address of this machine, as people expect; a literal one is only itself anyway.
            handle.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        handle.bind(target)  # type: ignore[arg-type]
        handle.listen(limits.LISTEN_BACKLOG)
    except OSError as error:
        handle.close()
        remedy = (
            "stop what listens there, or give another port"
            if error.errno == errno.EADDRINUSE
            else "give another host or port"
        )
        raise CannotListen(f"cannot listen on {show(from_system(target))}: {error.strerror}; {remedy}") from None
    return handle


def _bind_unix(path: str, mode: int | None) -> socket.socket:
    _, target = system_address(path)
    handle = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    # The file has its permissions from its first moment on.
    former = None if mode is None else os.umask(~mode & 0o777)
    try:
        handle.setblocking(False)
        _remove_stale(path)
        handle.bind(target)
        handle.listen(limits.LISTEN_BACKLOG)
    except OSError as error:
        handle.close()
        raise CannotListen(
            f"cannot listen on {show(path)}: {error.strerror}; remove the file if nobody uses it, or give another path"
        ) from None
    finally:
        if former is not None:
            os.umask(former)
    return handle


def _remove_stale(path: str) -> None:
    """Remove the file of a Unix socket behind which nobody listens any more."""
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISSOCK(os.stat(path).st_mode):
            return
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.setblocking(False)
            try:
                probe.connect(path)
            except ConnectionRefusedError:
                os.unlink(path)
            except BlockingIOError:
                pass


def _let_no_beginning_through(handle: socket.socket) -> None:
    """Give a listening socket a filter that drops SYN. What is accepted from it inherits that, and has no use for SYN."""
    program = b"".join(
        struct.pack("HBBI", *instruction)
        for instruction in (
            (_BPF_LOAD_BYTE, 0, 0, _TCP_FLAGS_AT),
            (_BPF_JUMP_IF_SET, 0, 1, _TCP_SYN),
            (_BPF_RETURN, 0, 0, 0),
            (_BPF_RETURN, 0, 0, 0xFFFF_FFFF),
        )
    )
    memory = ctypes.create_string_buffer(program)
    handle.setsockopt(
        socket.SOL_SOCKET, _SO_ATTACH_FILTER, struct.pack("HP", len(program) // 8, ctypes.addressof(memory))
    )


def _identity(path: str | None) -> tuple[int, int] | None:
    """Tell a file from another that has taken its place."""
    if path is None:
        return None
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


class CannotListen(UsageError):
    """A place to listen on that the system refuses."""


# ---- the service manager ---------------------------------------------------------------------------------------------


class Notifier:
    """Tells the service manager how things are, if there is one (`NOTIFY_SOCKET`).

    That it cannot be told is nobody's error.
    """

    def __init__(self, environment: MutableMapping[str, str] | None = None) -> None:
        # Taken out, so that no process that is started believes that it speaks for this one.
        path = (os.environ if environment is None else environment).pop("NOTIFY_SOCKET", "")
        self._path = "\0" + path[1:] if path.startswith("@") else path

    def tell(self, **facts: object) -> None:
        """Send facts such as READY=1."""
        if not self._path:
            return
        message = "\n".join(f"{name}={value}" for name, value in facts.items())
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as handle:
            handle.setblocking(False)
            handle.sendto(message.encode(), self._path)

    def ready(self, status: str) -> None:
        """Everything serves."""
        self.tell(READY=1, STATUS=status, MAINPID=os.getpid())

    def reloading(self) -> None:
        """The configuration is being read anew; `ready` ends that."""
        self.tell(RELOADING=1, MONOTONIC_USEC=time.monotonic_ns() // 1_000)

    def stopping(self, status: str) -> None:
        """What was accepted is still answered."""
        self.tell(STOPPING=1, STATUS=status)
