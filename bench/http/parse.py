"""What parsing a head costs: in C, through the parser's door for Python, and with h11 and httptools if they are there.

    python bench/http/parse.py [--repeat 7] [--count] [--json FILE]

CPU time in ns per head, the best of interleaved rounds; the machine's mood strikes all. `--count` adds instructions of our
own parser (valgrind), which hardly change from run to run. Exit status: 0 the goal for the browser's head is reached, 1 not.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from penstock.http.head import HeadReader
from penstock.http.parser import Parser

GOAL_NS = 1_000
COUNTED = (2_000, 22_000)


def lines(*parts: str) -> bytes:
    return "\r\n".join((*parts, "", "")).encode()


HEADS = {
    "shortest": lines("GET / HTTP/1.1", "Host: a"),
    "wrk": lines("GET /index.html HTTP/1.1", "Host: 127.0.0.1:8080"),
    "browser": lines(
        "GET /assets/application.js?v=3f2a9c HTTP/1.1",
        "Host: www.example.org",
        "User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
        "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8",
        "Accept-Language: en-GB,en;q=0.7,de;q=0.3",
        "Accept-Encoding: gzip, deflate, br, zstd",
        "Referer: https://www.example.org/articles/index.html",
        "Connection: keep-alive",
        "Cookie: session=8c1f2b7e55a04b6f9d3c; theme=dark; consent=necessary",
        "If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT",
        'If-None-Match: "5f3c-61a8b2c4"',
    ),
    "large": lines(
        "GET /api/v2/things/4711/parts?sort=name&page=3 HTTP/1.1",
        "Host: api.example.org",
        *(f"X-Forwarded-Header-{number}: {'value ' * 12}" for number in range(30)),
        "Authorization: Bearer " + "eyJhbGciOiJ" * 60,
    ),
}

Work = Callable[[bytes, int], object]


def in_c(head: bytes, times: int) -> None:
    if HeadReader().repeat(head, times) != 1:
        raise ValueError("the head was not taken")


def through_the_door(head: bytes, times: int) -> None:
    feed = Parser().feed
    for _ in range(times):
        feed(head)


def with_h11(head: bytes, times: int) -> None:
    import h11

    for _ in range(times):
        connection = h11.Connection(h11.SERVER)
        connection.receive_data(head)
        connection.next_event()


class Nothing:
    """Takes what httptools tells, as cheaply as it can be had."""

    def on_url(self, url: bytes) -> None: ...
    def on_header(self, name: bytes, value: bytes) -> None: ...


def with_httptools(head: bytes, times: int) -> None:
    import httptools

    feed = httptools.HttpRequestParser(Nothing()).feed_data
    for _ in range(times):
        feed(head)


# Each with the number of heads of a round.
WORKS: dict[str, tuple[Work, int]] = {
    "C": (in_c, 100_000),
    "door": (through_the_door, 20_000),
    "httptools": (with_httptools, 20_000),
    "h11": (with_h11, 500),
}


def present() -> dict[str, tuple[Work, int]]:
    return {name: work for name, work in WORKS.items() if name in ("C", "door") or importlib.util.find_spec(name)}


def measure(repeat: int) -> dict[str, dict[str, float]]:
    """The best time of each work for each head, in ns."""
    best: dict[str, dict[str, float]] = {head: {} for head in HEADS}
    for _ in range(repeat):
        for name, data in HEADS.items():
            for work, (run, times) in present().items():
                began = time.thread_time_ns()
                run(data, times)
                took = (time.thread_time_ns() - began) / times
                best[name][work] = min(took, best[name].get(work, took))
    return best


def instructions(name: str, times: int) -> int:
    """What a process executes that parses a head so many times."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "counts"
        tool = ["valgrind", "--tool=callgrind", "--quiet", f"--callgrind-out-file={report}"]
        command = [*tool, sys.executable, __file__, "--only", name, str(times)]
        subprocess.run(command, check=True, env={"PYTHONHASHSEED": "0", "MESONPY_EDITABLE_VERBOSE": ""})
        found = re.search(r"^totals: (\d+)", report.read_text(errors="replace"), re.MULTILINE)
    if not found:
        raise ValueError("callgrind did not end properly")
    return int(found[1])


def count() -> dict[str, float]:
    few, many = COUNTED
    return {name: (instructions(name, many) - instructions(name, few)) / (many - few) for name in HEADS}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=7, help="rounds (default: 7)")
    parser.add_argument("--count", action="store_true", help="count instructions of the parser in C, with valgrind")
    parser.add_argument("--json", type=Path, help="write the figures there")
    parser.add_argument(
        "--only", nargs=2, metavar=("HEAD", "TIMES"), help="parse this head so often, and print nothing"
    )
    chosen = parser.parse_args()
    if chosen.only:
        in_c(HEADS[chosen.only[0]], int(chosen.only[1]))
        return 0
    if chosen.count and not shutil.which("valgrind"):
        parser.error("--count needs valgrind; install it, or leave --count out")
    times = measure(chosen.repeat)
    counted = count() if chosen.count else {}
    columns = list(present())
    print(f"{'ns per head':12} {'bytes':>6} " + " ".join(f"{name:>10}" for name in columns) + "  instructions")
    for name, data in HEADS.items():
        figures = " ".join(f"{times[name][column]:10,.0f}" for column in columns)
        print(f"{name:12} {len(data):6,} {figures}  {format(counted[name], '12,.0f') if counted else '':>12}")
    if chosen.json:
        chosen.json.write_text(json.dumps({"ns": times, "instructions": counted}, indent=1) + "\n")
    reached = times["browser"]["C"] < GOAL_NS
    print(f"goal: a browser's head below {GOAL_NS:,} ns: {'reached' if reached else 'not reached'}")
    return 0 if reached else 1


if __name__ == "__main__":
    raise SystemExit(main())
