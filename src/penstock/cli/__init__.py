"""The `penstock` command: reads what the user asked for, calls one command, and answers with an exit status.

    0    done
    1    the command failed while it ran, with one sentence of why; before it the traceback, if what failed is a reaction
    2    the user asked for something that cannot be meant, with one sentence of what to do
    130  the user pressed Ctrl-C
    141  whoever read the output stopped reading

A command is a module here with `NAME`, `SUMMARY`, `add_options(parser)` and `run(options, out)`. It writes to `out`
only, and must not know how it was started, catch what it cannot mend, or exit.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import traceback
from collections.abc import Sequence
from importlib.metadata import version
from typing import NoReturn, Protocol, TextIO

from penstock.cli import budget, echo, graph, limits, run, serve
from penstock.errors import InvariantBroken, PenstockError, UsageError
from penstock.timed import ReactionFailed

DONE = 0
FAILED = 1
MISUSED = 2
INTERRUPTED = 130
READER_GONE = 141


class Command(Protocol):
    """What a module must offer to be a command."""

    NAME: str
    SUMMARY: str

    def add_options(self, parser: argparse.ArgumentParser, /) -> None: ...
    def run(self, options: argparse.Namespace, out: TextIO, /) -> None: ...


COMMANDS: tuple[Command, ...] = (budget, echo, graph, limits, run, serve)


class OneSentenceParser(argparse.ArgumentParser):
    """A parser that answers a mistake with one sentence instead of a page."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong and where help is."""
        self.exit(MISUSED, f"{self.prog}: {message.removeprefix('argument ')} (see {self.prog} --help)\n")


def parser() -> argparse.ArgumentParser:
    """Build the parser of the whole command line."""
    top = OneSentenceParser(
        prog="penstock",
        description="A runtime for event-driven programs that stay correct under pressure.",
        allow_abbrev=False,
    )
    top.add_argument("--version", action="version", version=f"penstock {version('penstock')}")
    commands = top.add_subparsers(dest="command", metavar="COMMAND")
    for command in COMMANDS:
        child = commands.add_parser(command.NAME, help=command.SUMMARY, description=command.SUMMARY, allow_abbrev=False)
        command.add_options(child)
        child.set_defaults(run=command.run)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status."""
    try:
        top = parser()
        options = top.parse_args(arguments)
        if options.command is None:
            top.error(f"name a command: {', '.join(command.NAME for command in COMMANDS)}")
        options.run(options, sys.stdout)
        sys.stdout.flush()
    except BrokenPipeError:
        _silence()
        return READER_GONE
    except KeyboardInterrupt:
        return INTERRUPTED
    except UsageError as mistake:
        return _sentence(str(mistake), MISUSED)
    except (PenstockError, InvariantBroken) as failure:
        if isinstance(failure, ReactionFailed):
            # The program is the user's own: where in it the reaction failed is the first thing to know.
            traceback.print_exception(failure.__cause__)
        return _sentence(str(failure), FAILED)
    except OSError as failure:
        _silence()
        where = f" ({failure.filename})" if failure.filename is not None else ""
        return _sentence(f"cannot go on: {failure.strerror or failure}{where}", FAILED)
    return DONE


def _sentence(text: str, status: int) -> int:
    print(f"penstock: {text}", file=sys.stderr)
    return status


def _silence() -> None:
    """Point standard output at nothing: the interpreter flushes it once more on exit, and would complain again."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
