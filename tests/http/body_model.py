"""Where chunked content ends, said slowly: regular expressions for the lines (RFC 9112, 7.1), and all bytes at once."""

from __future__ import annotations

import re

from tests.http.head_model import FIELD

# Bad white space is allowed before the semicolon only; extensions are not looked at but for control characters.
SIZE_LINE = re.compile(rb"([0-9A-Fa-f]+)(?:[ \t]*;[\t -~\x80-\xff]*)?\r\n")
EXCESS_MAX = 16_384


def decode_chunked(
    data: bytes, body_max: int = 1 << 24, chunk_line_max: int = 256, trailer_max: int = 4_096
) -> tuple[str, bytes, int]:
    """Return a verdict ("more", "done" or "bad"), the content so far, and how many bytes belong to it if it is done."""
    content = b""
    at = 0
    excess = 0
    while True:
        end = data.find(b"\n", at)
        line = data[at:] if end < 0 else data[at : end + 1]
        if len(line) > chunk_line_max:
            return "bad", content, 0
        found = SIZE_LINE.fullmatch(line)
        if not found:
            return "bad" if end >= 0 or not may_become_size_line(line) else "more", content, 0
        size = int(found[1], 16)
        excess = max(0, excess + max(0, len(line) - 16) - size)
        if size >= 1 << 64 or len(content) + size > body_max or excess > EXCESS_MAX:
            return "bad", content, 0
        at = end + 1
        if size == 0:
            return read_trailers(data, at, content, trailer_max)
        content += data[at : at + size]
        at += size
        after = data[at : at + 2]
        if after != b"\r\n":
            return "more" if b"\r\n".startswith(after) else "bad", content, 0
        at += 2


def may_become_size_line(line: bytes) -> bool:
    """Whether more bytes can still make a size line of it."""
    if re.fullmatch(rb"[0-9A-Fa-f]*", line):
        return int(line or b"0", 16) < 1 << 64
    digits = re.match(rb"[0-9A-Fa-f]+", line)
    if digits and int(digits[0], 16) >= 1 << 64:
        return False
    return any(SIZE_LINE.fullmatch(line + rest) for rest in (b"\r\n", b"\n", b";\r\n"))


def read_trailers(data: bytes, at: int, content: bytes, trailer_max: int) -> tuple[str, bytes, int]:
    begin = at
    while True:
        end = data.find(b"\n", at)
        line = data[at:] if end < 0 else data[at : end + 1]
        if line == b"\r\n":
            return "done", content, at + 2
        if b"\r\n".startswith(line):
            return "more", content, 0
        if at - begin + len(line) > trailer_max:
            return "bad", content, 0
        if end < 0:
            rests = (b"\r\n", b"\n", b":\r\n")
            fine = any(FIELD.fullmatch((line + rest)[:-2]) for rest in rests if (line + rest).endswith(b"\r\n"))
            return "more" if fine else "bad", content, 0
        if not line.endswith(b"\r\n") or not FIELD.fullmatch(line[:-2]):
            return "bad", content, 0
        at = end + 1
