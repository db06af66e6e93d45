"""Damage requests at random for as long as you like, and compare what the parser makes of them with all that we have.

    python tests/http/fuzz_parser.py [--seconds 20] [--rounds N] [--seed N]        (make fuzz ARGS="--seconds 3600")

Each round takes a request of the tables or one of the last rounds, damages it, and looks at it in five ways: the head beside
the slow model, also under small limits and cut to pieces; the content beside its model; the whole beside h11 and httptools,
and cut to pieces. What is found is printed with the seed that finds it again. Exit status: 0 nothing found, 1 something.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.http.body_model import decode_chunked
from tests.http.head_cases import CASES
from tests.http.head_model import judge
from tests.http.peers import PEERS, complaints, ours
from tests.http.test_body import BAD, DONE, GOOD, MORE, WRONG, chunked
from tests.http.test_head import in_pieces, whole
from tests.http.test_parser import CHUNKED, REQUESTS, SIZED, read

VERDICTS = {"more": MORE, "done": DONE, "bad": BAD}
BITS = [
    b"\r\n",
    b"\n",
    b"\r",
    b" ",
    b"\t",
    b":",
    b",",
    b";",
    b"\0",
    b"/",
    b"?",
    b"[",
    b"]",
    b"%",
    b"0",
    b"f",
    b"\xff",
    b"\r\n\r\n",
]
BITS += [
    b"Content-Length: ",
    b"Transfer-Encoding: chunked\r\n",
    b"Host: a\r\n",
    b"Connection: close\r\n",
    b"HTTP/1.1",
    b"http://",
]
KEPT = 500


def seeds() -> list[bytes]:
    """Return what is damaged first."""
    heads = [case.data for case in CASES]
    bodies = [CHUNKED + entry[2] for entry in (*GOOD, *WRONG)]
    return [*heads, *bodies, *REQUESTS, SIZED + b"hello"]


def damage(data: bytes, luck: random.Random, others: list[bytes]) -> bytes:
    """Return the data with something done to it."""
    for _ in range(luck.randint(1, 4)):
        at, end = sorted((luck.randint(0, len(data)), luck.randint(0, len(data))))
        kind = luck.randrange(7)
        if kind == 0:
            data = data[:at] + luck.choice(BITS) + data[at:]
        elif kind == 1:
            data = data[:at] + data[min(end, at + 4) :]
        elif kind == 2:
            data = data[:at] + luck.randbytes(1) + data[at + 1 :]
        elif kind == 3:
            data = data[:end] + data[at:end] + data[end:]
        elif kind == 4:
            other = luck.choice(others)
            data = data[:at] + other[luck.randint(0, len(other)) :]
        elif kind == 5:
            data = data[:at] + data[at:end].swapcase() + data[end:]
        else:
            lines = data.split(b"\r\n")
            luck.shuffle(lines)
            data = b"\r\n".join(lines)
    return data[:2_000]


def cuts(data: bytes, luck: random.Random) -> list[int]:
    return sorted(luck.randint(0, len(data)) for _ in range(luck.randint(0, 5)))


def head(data: bytes, luck: random.Random) -> Iterator[str]:
    expected = judge(data)
    if whole(data) != expected or in_pieces(data, cuts(data, luck)) != expected:
        yield f"the model says {expected}"


def small_limits(data: bytes, luck: random.Random) -> Iterator[str]:
    limits = {"line_max": luck.randint(0, 60), "head_max": luck.randint(1, 120), "fields_max": luck.randint(0, 4)}
    expected = judge(data, **limits)
    if whole(data, **limits) != expected or in_pieces(data, cuts(data, luck), **limits) != expected:
        yield f"with {limits} the model says {expected}"


def content(data: bytes, luck: random.Random) -> Iterator[str]:
    body = data.partition(b"\r\n\r\n")[2] or data
    limits = {
        "body_max": luck.randint(0, 40),
        "chunk_line_max": luck.randint(3, 20),
        "trailer_max": luck.randint(0, 30),
    }
    every: list[dict[str, int]] = [{}, limits]
    for chosen in every:
        verdict, text, size = decode_chunked(body, **chosen)
        expected = (VERDICTS[verdict], text, size)
        if (
            chunked(body, (), **chosen)[:3] != expected
            or chunked(body, tuple(cuts(body, luck)), **chosen)[:3] != expected
        ):
            yield f"with {chosen} the model says {verdict} after {text!r}"


def peers(data: bytes, luck: random.Random) -> Iterator[str]:
    mine = ours(data)
    for name, peer in PEERS.items():
        yield from (f"{name}: {complaint}" for complaint in complaints(data, mine, peer(data)))


def pieces(data: bytes, luck: random.Random) -> Iterator[str]:
    edges = [0, *cuts(data, luck), len(data)]
    if read([data])[:2] != read([data[a:b] for a, b in pairwise(edges)])[:2]:
        yield f"cut at {edges} it is another request"


CHECKS: list[Callable[[bytes, random.Random], Iterator[str]]] = [head, small_limits, content, peers, pieces]


def fuzz(seed: int, seconds: float, rounds: int | None) -> tuple[int, list[str]]:
    """Run rounds until the time is over, something is found, or there are enough. Return how many, and what was found."""
    luck = random.Random(seed)
    first = seeds()
    recent = deque(first, maxlen=KEPT)
    until = time.monotonic() + seconds
    done = 0
    while time.monotonic() < until and done != rounds:
        data = damage(luck.choice(first if luck.random() < 0.5 else recent), luck, first)
        found = [f"{check.__name__}: {line}" for check in CHECKS for line in check(data, luck)]
        done += 1
        if found:
            return done, [repr(data), *found]
        recent.append(data)
    return done, []


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20.0, help="how long (default: 20)")
    parser.add_argument("--rounds", type=int, help="stop after so many")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32), help="to repeat a run")
    chosen = parser.parse_args()
    done, found = fuzz(chosen.seed, chosen.seconds, chosen.rounds)
    for line in found:
        print(line)
    print(f"{done:,} rounds with seed {chosen.seed}: {'something was found' if found else 'nothing was found'}")
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
