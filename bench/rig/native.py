"""Builds the C programs of `native/` when they are needed, and finds the tools that look at a process from outside.

Everything lands in a temporary directory that ends with the run. This file must not know what the programs are for.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

SOURCES = Path(__file__).resolve().parent.parent / "native"
COMPILE_TIMEOUT_S = 60


class Missing(Exception):
    """A tool that this machine does not have, with what to install."""


def compiler() -> str:
    for name in ("cc", "gcc", "clang"):
        if path := shutil.which(name):
            return path
    raise Missing("no C compiler found: install cc, gcc or clang")


def tool(name: str) -> str | None:
    """The path of an optional tool such as valgrind or strace."""
    return shutil.which(name)


def build(name: str, directory: Path, *, shared: bool = False) -> Path:
    """Compile `native/NAME.c` into `directory`, once."""
    target = directory / (f"{name}.so" if shared else name)
    if target.exists():
        return target
    kind = ["-shared", "-fPIC"] if shared else []
    command = [compiler(), "-O2", "-g", "-Wall", *kind, "-o", str(target), str(SOURCES / f"{name}.c")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=COMPILE_TIMEOUT_S, check=False)
    if done.returncode:
        raise Missing(f"{name}.c does not compile here: {done.stderr.strip().splitlines()[-1:]}")
    return target
