"""What one answer of the files' room costs, without a connection around it: nanoseconds per request, the best of some runs.

python bench/http/files.py [--rounds 200000] [--repeat 5]
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path

from penstock.http.files import Files
from penstock.http.handmade import Made
from penstock.testing.serving import drive

BROWSER = [
    (b"Host", b"localhost"),
    (b"User-Agent", b"Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"),
    (b"Accept", b"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"),
    (b"Accept-Language", b"en-GB,en;q=0.5"),
    (b"Accept-Encoding", b"gzip, deflate, br, zstd"),
]


def site(folder: Path) -> None:
    """Make some files that have rested for long."""
    (folder / "assets" / "img").mkdir(parents=True)
    (folder / "index.html").write_bytes(b"x" * 1_300)
    (folder / "assets" / "img" / "logo-light.svg").write_bytes(b"x" * 900)
    (folder / "assets" / "app.js").write_bytes(b"x" * 9_000)
    (folder / "assets" / "app.js.br").write_bytes(b"x" * 3_000)
    (folder / "large.bin").write_bytes(bytes(1_000_000))
    for path in folder.rglob("*"):
        os.utime(path, (1_000_000_000, 1_000_000_000))


def cases(etag: bytes) -> dict[str, tuple[bytes, list[tuple[bytes, bytes]]]]:
    """What is asked for."""
    return {
        "hit, /": (b"/", []),
        "hit, /, a browser's fields": (b"/", BROWSER),
        "hit, /assets/img/logo-light.svg": (b"/assets/img/logo-light.svg", BROWSER),
        "hit, precompressed": (b"/assets/app.js", BROWSER),
        "hit, large": (b"/large.bin", BROWSER),
        "304 by ETag": (b"/", [*BROWSER, (b"If-None-Match", etag)]),
        "304 by date": (b"/", [*BROWSER, (b"If-Modified-Since", b"Sun, 09 Sep 2001 01:46:40 GMT")]),
        "206": (b"/large.bin", [*BROWSER, (b"Range", b"bytes=1000-1999")]),
        "400, malformed": (b"/..%2f..%2fetc/passwd", BROWSER),
        "404, not there": (b"/assets/nothing.png", BROWSER),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=200_000)
    parser.add_argument("--repeat", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        site(folder)
        files = Files(folder)
        head = files.answer("GET", b"/", now_ns=1).head
        etag = next(line[6:] for line in head.split(b"\r\n") if line.startswith(b"ETag: "))
        for title, (path, fields) in cases(etag).items():
            made = Made(b"GET", path, b"", fields)
            drive(files, made, 1, 100)
            best = min(drive(files, made, 1, options.rounds) for _ in range(options.repeat))
            print(f"{title:36} {best / options.rounds:8.1f} ns")


if __name__ == "__main__":
    main()
