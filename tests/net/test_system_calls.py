"""Every system call that core and net make: made to fail on purpose by faults.c, or named here with the reason why not.

What compiled modules call is read from what they ask of the C library; what the interpreter calls for them, from the
sources. So a call that somebody adds must be put into one of the lists.
"""

from __future__ import annotations

import ast
import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import penstock

HERE = Path(__file__).resolve().parent
SOURCES = HERE.parents[1] / "src" / "penstock"

# Asks or tells the system something: does not wait, move bytes or take a descriptor.
TELLS = {
    *("fstat", "stat", "fcntl", "ioctl", "getsockopt", "setsockopt", "getpeername", "getsockname", "shutdown"),
    *("clock_gettime", "getpid", "get_blocking", "set_blocking", "bind", "listen", "unlink"),
}
# Must not be made to fail: whether the descriptor is then open is known to nobody (close(2)).
CLOSES = {"close"}
# Regular files, which are always ready: they are read from a name or a place, and tell what they tell.
FILES = {"pread"}
# The C library itself, without the system or with a promise not to fail once they were made.
LIBRARY = {
    *("malloc", "calloc", "realloc", "free", "memcpy", "memmove", "memset", "memcmp", "memchr", "strlen", "strrchr"),
    *("abort", "snprintf", "inet_ntop", "strcmp", "strncmp", "memcpy_chk", "memset_chk", "bcmp", "inet_pton"),
    *("strcpy", "strcat", "stpcpy", "getenv", "errno_location", "strerror", "sysconf"),
    # What the generated code asserts where it is built for debugging, as it is for the sanitizers.
    "assert_fail",
}
# What an object file has for its own loading, and for the sanitizers.
OWN = re.compile(r"_*(Py|cxa|gmon_start|ITM|asan|ubsan|sanitizer|gcov|register_atfork|pthread|stack_chk_fail)")
EXEMPT = TELLS | CLOSES | FILES | LIBRARY

# What the interpreter calls for a function of os, socket or select, or for a method of a socket. None: nothing.
PYTHON = {
    "os.read": "read",
    "os.write": "write",
    "os.pread": "pread",
    "os.sendfile": "sendfile",
    "os.close": "close",
    "os.fstat": "fstat",
    "os.stat": "stat",
    "os.unlink": "unlink",
    "os.getpid": "getpid",
    "os.get_blocking": "get_blocking",
    "os.set_blocking": "set_blocking",
    "os.strerror": None,
    "os.fspath": None,
    "os.fsdecode": None,
    "os.fsencode": None,
    "os.register_at_fork": None,
    "socket.socket": "socket",
    "socket.inet_pton": None,
    "socket.inet_ntop": None,
    "socket.inet_aton": None,
    "socket.CMSG_SPACE": None,
    # Names are resolved in threads of their own, where calls may block and fail as they like; see resolve.py.
    "socket.getaddrinfo": None,
    "socket.if_nametoindex": None,
    "socket.if_indextoname": None,
    "select.poll": "poll",
}
METHODS = {
    "accept": "accept4",
    "bind": "bind",
    "connect": "connect",
    "connect_ex": "connect",
    "getpeername": "getpeername",
    "getsockname": "getsockname",
    "listen": "listen",
    "recv": "recv",
    "recv_into": "recv",
    "recvfrom": "recvfrom",
    "recvfrom_into": "recvfrom",
    "recvmsg": "recvmsg",
    "recvmsg_into": "recvmsg",
    "send": "send",
    "sendall": "send",
    "sendmsg": "sendmsg",
    "sendto": "sendto",
    "setsockopt": "setsockopt",
    "getsockopt": "getsockopt",
}


def struck() -> set[str]:
    listed = (HERE / "faults.c").read_text().partition("#define CALLS(X)")[2].partition("#define AS_NUMBER")[0]
    return set(re.findall(r"X\((\w+)\)", listed))


def sources() -> list[Path]:
    """Of core and net, without the simulated kernel, whose calls reach no system."""
    found = [*(SOURCES / "core").rglob("*.py"), *(SOURCES / "net").rglob("*.py")]
    return sorted(path for path in found if not path.name.startswith("simulated"))


def asked_of_the_library(path: Path) -> set[str]:
    """The functions of the C library that a compiled module calls, by their plain names."""
    printed = subprocess.run(["nm", "-D", "--undefined-only", path], capture_output=True, text=True, check=True).stdout
    names = {line.split()[-1].partition("@")[0] for line in printed.splitlines()}
    return {re.sub(r"(64|_chk)?$", "", name).lstrip("_") for name in names if not OWN.match(name)}


def called(path: Path) -> set[str]:
    """What a source calls of os, socket and select, and what looks like a socket's method."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            owner = node.func.value.id if isinstance(node.func.value, ast.Name) else ""
            if owner in ("os", "socket", "select"):
                names.add(f"{owner}.{node.func.attr}")
            elif node.func.attr in METHODS:
                names.add(node.func.attr)
    return names


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the list is that of Linux")
@pytest.mark.skipif(shutil.which("nm") is None, reason="what a module calls is read by nm, which is not here")
def test_what_compiled_modules_call_is_struck_or_exempt() -> None:
    looked_at = 0
    seen: set[str] = set()
    for path in sources():
        name = ".".join((penstock.__name__, *path.relative_to(SOURCES).with_suffix("").parts))
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.origin is not None and spec.origin.endswith(".so"):
            looked_at += 1
            asked = asked_of_the_library(Path(spec.origin))
            # epoll_pwait2 has no function in older libraries, and is called by its number.
            asked = {"epoll_pwait2" if each == "syscall" else each for each in asked}
            assert asked - struck() - EXEMPT == set(), name
            seen |= asked
    assert looked_at > 20
    assert {"recv", "send", "sendmsg", "read", "write", "epoll_ctl", "epoll_wait", "epoll_pwait2", "accept4"} <= seen


@pytest.mark.parametrize("path", sources(), ids=lambda path: path.relative_to(SOURCES).as_posix())
def test_what_the_interpreter_calls_for_them_is_struck_or_exempt(path: Path) -> None:
    for name in called(path):
        call = PYTHON[name] if "." in name else METHODS[name]
        assert call is None or call in struck() | EXEMPT, name
