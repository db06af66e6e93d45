"""`penstock run`: run a timed program, record it, replay it, trace it.

This file must not know how programs run: it makes an environment from options, and reports what it counted.
"""

from __future__ import annotations

import argparse
import re
from fractions import Fraction
from pathlib import Path
from typing import Final, TextIO

from penstock.cli.arguments import whole_number, writing
from penstock.cli.program import load
from penstock.errors import UsageError
from penstock.limits import TIMED_SPEED_MAX
from penstock.timed import Duration, Environment

NAME: Final = "run"
SUMMARY: Final = "run a timed program; record, replay or trace it"

_UNITS: Final = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000, "min": 60_000_000_000}

# Any seed will do; a bound keeps a slip of the keyboard from being one.
_SEED_MAX: Final = 2**63 - 1


def duration(text: str) -> Duration:
    """Read `10ms`, `1.5 s`, `2 min`: a number and a unit."""
    match = re.fullmatch(r"([0-9]{1,20}(?:\.[0-9]{1,9})?)\s*(ns|us|ms|s|min)", text.strip())
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no duration; give a number and a unit, such as 10ms or 2s")
    try:
        return Duration(round(Fraction(match[1]) * _UNITS[match[2]]))
    except UsageError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is {error}") from error


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare what the command understands."""
    parser.add_argument("program", metavar="MODULE:MAIN", help="the main reactor's class, or FILE.py:CLASS")
    parser.add_argument("--fast", action="store_true", help="never wait for physical time")
    parser.add_argument(
        "--speed",
        type=whole_number(1, TIMED_SPEED_MAX),
        default=1,
        metavar="N",
        help="let time pass N times as fast",
    )
    parser.add_argument("--timeout", type=duration, metavar="TIME", help="stop at this logical time, such as 10s")
    parser.add_argument("--keep-alive", action="store_true", default=None, help="wait on an empty queue")
    parser.add_argument(
        "--seed",
        type=whole_number(-_SEED_MAX, _SEED_MAX),
        default=0,
        metavar="N",
        help="seed of the program's random numbers",
    )
    parser.add_argument("--debug", action="store_true", default=None, help="check the types of values")
    parser.add_argument("--record", metavar="FILE", type=Path, help="write the physical inputs there")
    parser.add_argument(
        "--replay", metavar="FILE", type=Path, help="take the physical inputs from there, and do not wait"
    )
    parser.add_argument("--trace", metavar="FILE", type=Path, help="write the trace: .txt, or .json for Perfetto")
    parser.add_argument("--figures", action="store_true", help="print what was counted")


def run(options: argparse.Namespace, out: TextIO) -> None:
    """Run to the end."""
    if options.trace is not None and options.trace.suffix not in (".txt", ".json"):
        raise UsageError(f"--trace is {options.trace}; end the file's name in .txt, or .json for Perfetto")
    if options.record is not None and options.replay is not None:
        raise UsageError("--record and --replay were both given; a replay is its own record")
    environment = Environment(
        load(options.program),
        fast=options.fast,
        speed=options.speed,
        timeout=options.timeout,
        keep_alive=options.keep_alive,
        seed=options.seed,
        debug=options.debug,
        record=options.record,
        replay=options.replay,
    )
    trace = None
    if options.trace is not None:
        # Now, not after an hour's run.
        with writing("--trace", options.trace):
            options.trace.open("a").close()
        trace = environment.trace()
    try:
        environment.run()
    finally:
        if trace is not None:
            with writing("--trace", options.trace):
                trace.write(options.trace)
        if options.figures:
            _print(environment.figures(), out)


def _print(figures: dict[str, object], out: TextIO, indent: str = "") -> None:
    for name, value in figures.items():
        if isinstance(value, dict):
            out.write(f"{indent}{name}:\n")
            _print(value, out, indent + "  ")
        else:
            out.write(f"{indent}{name}: {value:,}\n")
