"""Run the examples of one page, as a reader would: in a fresh interpreter, from top to bottom, warnings being errors.

    python tests/docs/examples.py PAGE.md

A block fenced as `python` is run; all blocks of a page share their names. A block fenced as `output` right after it is
what it must print. A `python` block whose fence also says `fragment` is shown but not run.
"""

from __future__ import annotations

import contextlib
import io
import re
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path

BLOCK = re.compile(r"^```(?P<info>[^\n]*)\n(?P<body>.*?)^```[ ]*$", re.MULTILINE | re.DOTALL)


def examples(text: str) -> Iterator[tuple[int, str, str | None]]:
    """Yield (line, code, expected output) of each block that is to be run."""
    blocks = list(BLOCK.finditer(text))
    for block, following in zip(blocks, [*blocks, None][1:], strict=True):
        info = block["info"].split()
        if info[:1] != ["python"] or "fragment" in info:
            continue
        expected = None
        if following and following["info"].strip() == "output" and not text[block.end() : following.start()].strip():
            expected = following["body"]
        yield text.count("\n", 0, block.start("body")), block["body"], expected


def run(page: Path) -> str | None:
    """Run the examples of a page. Return what is wrong, or None."""
    names: dict[str, object] = {"__name__": "__main__"}
    for line, code, expected in examples(page.read_text()):
        printed = io.StringIO()
        try:
            # The empty lines make a traceback name the line of the page.
            with contextlib.redirect_stdout(printed):
                exec(compile("\n" * line + code, str(page), "exec"), names)
        except BaseException:
            return f"{page.name}:{line}: the example failed\n{traceback.format_exc()}"
        if expected is not None and printed.getvalue() != expected:
            return f"{page.name}:{line}: the page says\n{expected}but the example prints\n{printed.getvalue()}"
    return None


if __name__ == "__main__":
    sys.exit(run(Path(sys.argv[1])))
