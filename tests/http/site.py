"""Small sites for the tests of files: content that has rested for long, heads taken apart."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from penstock.http.files import Files
from penstock.http.handmade import Made
from penstock.http.message import FilePart
from penstock.http.slow import Answer
from penstock.testing.serving import HeldAnswer

RESTED_S = 1_000_000_000
RESTED = b"Sun, 09 Sep 2001 01:46:40 GMT"
SECOND = 1_000_000_000
SECRET = b"nobody is to read this"


def put(path: Path, content: bytes, modified_s: int = RESTED_S) -> Path:
    """Write a file that was last changed at that time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    os.utime(path, (modified_s, modified_s))
    return path


def fields_of(answer: Answer) -> dict[str, str]:
    """Take a head apart; no field comes twice."""
    lines = answer.head.decode().split("\r\n")
    assert lines[0].startswith(f"HTTP/1.1 {answer.status} ")
    assert lines[-1] == ""
    pairs = [line.partition(": ")[::2] for line in lines[1:-1]]
    fields = dict(pairs)
    assert len(fields) == len(pairs)
    return fields


def content_of(answer: Answer) -> bytes:
    """Return the content, wherever it lies."""
    if isinstance(answer.body, FilePart):
        try:
            return os.pread(answer.body.fd, answer.body.size, answer.body.offset)
        finally:
            os.close(answer.body.fd)
    return answer.body


def get(
    files: Files, path: str | bytes, fields: Sequence[tuple[str, str]] = (), now_s: float = 10.0, method: str = "GET"
) -> Answer:
    """Ask at an instant."""
    raw = path if isinstance(path, bytes) else path.encode()
    raw, _, query = raw.partition(b"?")
    pairs = [(name.encode(), value.encode()) for name, value in fields]
    return files.answer(method, raw, query, pairs, int(now_s * SECOND))


def denied(files: Files) -> dict[str, int]:
    """Return the reasons for which something was denied, with how often."""
    reasons = files.counters()["denied"]
    assert isinstance(reasons, dict)
    return {name: count for name, count in reasons.items() if count}


def open_descriptors() -> set[str]:
    """Return the numbers of all descriptors of this process."""
    return set(os.listdir("/dev/fd"))


LARGE = bytes(range(256)) * 256  # 64 KiB


def make_site(root: Path) -> Path:
    """Make a small site that has rested for long."""
    put(root / "index.html", b"<p>hello")
    put(root / "page.txt", b"0123456789" * 10)
    put(root / "large.bin", LARGE)
    put(root / "sub" / "index.html", b"<p>sub")
    put(root / "bare" / "one.txt", b"one")
    return root


def held(files: Files, path: bytes, now_s: float = 10.0) -> HeldAnswer:
    """Ask as the server does, and keep the answer."""
    return HeldAnswer(files, Made(b"GET", path, b"", []), int(now_s * SECOND))
