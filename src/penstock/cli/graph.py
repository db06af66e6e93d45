"""`penstock graph`: draw a timed program.

This file must not know how programs run: it assembles one, and prints what was found.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path
from typing import Final, TextIO

from penstock.cli.arguments import writing
from penstock.cli.program import load
from penstock.timed.graph import dot, svg, text

NAME: Final = "graph"
SUMMARY: Final = "draw a timed program: reactors, reactions, connections"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare what the command understands."""
    parser.add_argument("program", metavar="MODULE:MAIN", help="the main reactor's class, or FILE.py:CLASS")
    parser.add_argument(
        "--format",
        choices=("svg", "dot", "text"),
        help="by default svg if graphviz is there and a file is named, else text",
    )
    parser.add_argument("--output", metavar="FILE", type=Path, help="write there instead of to the terminal")


def run(options: argparse.Namespace, out: TextIO) -> None:
    """Assemble and draw."""
    main = load(options.program)
    form = options.format
    if form is None:
        drawable = options.output is not None and shutil.which("dot") is not None
        form = "svg" if drawable else "dot" if options.output is not None else "text"
    drawing = svg(main) if form == "svg" else dot(main).encode() if form == "dot" else text(main).encode()
    if options.output is not None:
        with writing("--output", options.output):
            options.output.write_bytes(drawing)
    else:
        out.write(drawing.decode())
