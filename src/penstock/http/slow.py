"""What is made by Python for the files of a directory: listings, answers in several parts, and the checks of options.

A listing shows what a request could get: no dot files, no links that lead out, nothing but files and directories; no
more than HTTP_LISTING_MAX entries. Parts are read from the file in bounded pieces, as fast as they are taken.
This file must not know the cache or connections.
"""

from __future__ import annotations

import html
import os
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from penstock import limits
from penstock.errors import UsageError
from penstock.http.dates import format_date
from penstock.http.message import FilePart, Response
from penstock.http.paths import decode_path, encode_path, open_beneath
from penstock.limits import require_whole

# ---- options ---------------------------------------------------------------------------------------------------------


def checked_root(root: str | os.PathLike[str]) -> str:
    """Return the absolute path of a directory that can be served; say what is wrong with any other."""
    try:
        path = os.path.abspath(os.fspath(root))
    except TypeError:
        raise UsageError(f"root is {root!r}; give the path of a directory") from None
    if not isinstance(path, str) or "\0" in path:
        raise UsageError(f"root is {root!r}; give the path of a directory as text")
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        raise UsageError(f"root is {path!r}, which does not exist; give a directory that does") from None
    except OSError as error:
        raise UsageError(f"root is {path!r}, which cannot be looked at: {error.strerror}") from None
    if not stat.S_ISDIR(mode):
        raise UsageError(f"root is {path!r}, which is not a directory; give the directory that holds what to serve")
    if not os.access(path, os.R_OK | os.X_OK):
        raise UsageError(f"root is {path!r}, which may not be read; change its permissions or the user")
    return path


def checked_index(index: str | None) -> bytes:
    """Return the name of an index file; b"" for none."""
    if index is None or index == "":
        return b""
    if not isinstance(index, str) or not isinstance(decode_path(b"/" + encode_path(index.encode())), bytes):
        raise UsageError(f"index is {index!r}; give the name of a file, or None")
    name = index.encode()
    if b"/" in name or decode_path(b"/" + encode_path(name)) != name:
        raise UsageError(f"index is {index!r}; give a name without slashes, not a path")
    if len(name) > limits.HTTP_NAME_MAX_BYTES - 4:
        raise UsageError(f"index has {len(name)} bytes; give at most {limits.HTTP_NAME_MAX_BYTES - 4}")
    return name


def checked_max_age(max_age: int | None) -> bytes:
    """Return the Cache-Control field for a number of seconds; b"" for none."""
    if max_age is None:
        return b""
    require_whole("max_age", max_age, 0, limits.HTTP_MAX_AGE_MAX_S)
    return f"Cache-Control: max-age={max_age}\r\n".encode()


def checked_expires(expires: object, max_age: int | None) -> int:
    """Return from now until when files may be kept, in seconds; -1 if that is not told."""
    if not isinstance(expires, bool):
        raise UsageError(f"expires is {expires!r}; give True or False")
    if not expires:
        return -1
    if max_age is None:
        raise UsageError("expires is wanted, but not for how long; give max_age, too")
    return max_age


# ---- answers ---------------------------------------------------------------------------------------------------------


class Answer(NamedTuple):
    """What a request is answered with: the head ends behind its last field. A `FilePart` is the caller's to close.

    `python`: nothing of it counts, `Files.slow` makes this answer.
    """

    status: int
    head: bytes
    body: bytes | FilePart
    python: bool = False


def _fields(lines: bytes) -> list[tuple[bytes, bytes]]:
    pairs = (line.split(b": ", 1) for line in lines.split(b"\r\n") if line)
    return [(name, value) for name, value in pairs]


def _expires(expires_s: int) -> list[tuple[bytes, bytes]]:
    return [(b"Expires", format_date(int(time.time()) + expires_s))] if expires_s >= 0 else []


def plain(status: int, head: bytes, body: bytes | FilePart, expires_s: int = -1) -> Response:
    """Return an answer that C has made, as a response."""
    more = _expires(expires_s) if status in (200, 206, 304) else []
    return Response(status, body, _fields(head.partition(b"\r\n")[2]) + more)


def redirect(path: bytes, query: bytes) -> Response:
    """Return a redirect to a directory. Only a path, and never one that begins with two slashes."""
    visible = all(32 < code < 127 for code in query)
    place = b"/" + encode_path(path) + b"/" + (b"?" + query if query and visible else b"")
    return Response(301, "This directory's address ends with a slash.\n", [("Location", place)])


class Parts:
    """The body of an answer with several ranges: multipart/byteranges, read as it is taken.

    It owns the descriptor: it closes it at its end, when it is closed, and when it is forgotten.
    """

    def __init__(self, heads: list[bytes], ranges: list[tuple[int, int]], end: bytes, source: int | bytes) -> None:
        self._source: int | bytes | None = source
        # What is still to be sent, the next one last: text, or the first and last byte of a range.
        self._left: list[bytes | tuple[int, int]] = [end]
        for head, bounds in zip(reversed(heads), reversed(ranges), strict=True):
            self._left += (bounds, head)

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        try:
            return self._take()
        except BaseException:
            self.close()
            raise

    def _take(self) -> bytes:
        if not self._left:
            raise StopIteration
        item = self._left.pop()
        if isinstance(item, bytes):
            return item
        first, last = item
        piece = self._read(first, min(last - first + 1, limits.HTTP_PART_BYTES))
        if first + len(piece) <= last:
            self._left.append((first + len(piece), last))
        return piece

    def _read(self, offset: int, size: int) -> bytes:
        if self._source is None:
            raise ValueError("the parts of this answer were closed")
        if isinstance(self._source, bytes):
            return self._source[offset : offset + size]
        piece = os.pread(self._source, size, offset)
        if not piece:
            raise OSError("the file has become shorter while it was sent")
        return piece

    def close(self) -> None:
        """Close the descriptor; there are no more pieces."""
        source, self._source = self._source, None
        if isinstance(source, int):
            os.close(source)

    def __del__(self) -> None:
        self.close()


def parts(
    fields: bytes, ranges: list[tuple[int, int]], size: int, source: int | bytes, expires_s: int = -1
) -> Response:
    """Return an answer with several ranges of a content of that size, which is in memory or in a descriptor to be owned."""
    pairs = _fields(fields) + _expires(expires_s)
    kind = next(value for name, value in pairs if name == b"Content-Type")
    boundary = os.urandom(15).hex().encode()
    line = b"\r\n--%b\r\nContent-Type: %b\r\nContent-Range: bytes %d-%d/%d\r\n\r\n"
    heads = [line % (boundary, kind, first, last, size) for first, last in ranges]
    end = b"\r\n--%b--\r\n" % boundary
    length = len(end) + sum(len(head) for head in heads) + sum(last - first + 1 for first, last in ranges)
    others = [(name, value) for name, value in pairs if name != b"Content-Type"]
    others.append((b"Content-Length", str(length).encode()))
    body = Parts(heads, ranges, end, source)
    return Response(206, body, others, content_type=f"multipart/byteranges; boundary={boundary.decode()}")


# ---- listings --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a listing."""

    name: str
    folder: bool
    size: int
    modified_s: float


STYLE = """:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.25rem; font-weight: 600; overflow-wrap: anywhere; }
table { border-collapse: collapse; width: 100%; }
th { text-align: left; font-weight: 600; }
th, td { padding: .25rem .5rem; border-bottom: 1px solid #8884; }
td:first-child { overflow-wrap: anywhere; }
td + td, th + th { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
a { text-decoration: none; }
a:hover { text-decoration: underline; }"""


def listing(root: int, path: bytes, dotfiles: bool, walk: bool) -> Response:
    """Return the listing of a directory beneath the root; its path has no slash at its beginning."""
    try:
        descriptor = open_beneath(root, path, walk)
    except OSError:
        return Response(404, "There is nothing at this address.\n")
    try:
        with os.scandir(descriptor) as found:
            entries = list(islice(found, limits.HTTP_LISTING_MAX + 1))
        rows = [row for entry in entries[: limits.HTTP_LISTING_MAX] if (row := _row(root, path, entry, dotfiles, walk))]
    except OSError:
        return Response(404, "There is nothing at this address.\n")
    finally:
        os.close(descriptor)
    rows.sort(key=lambda row: (not row.folder, row.name.casefold(), row.name))
    fields = [
        ("Cache-Control", "no-cache"),
        ("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'"),
        ("X-Content-Type-Options", "nosniff"),
    ]
    text = _page(path.decode(), rows, len(entries) > limits.HTTP_LISTING_MAX)
    return Response(200, text.encode(), fields, content_type="text/html; charset=utf-8")


def _row(root: int, path: bytes, entry: os.DirEntry[str], dotfiles: bool, walk: bool) -> Row | None:
    """Return what to show of an entry; None for what no request could get."""
    name = os.fsencode(entry.name)
    if decode_path(b"/" + encode_path(name), True) != name or (name.startswith(b".") and not dotfiles):
        return None
    try:
        about = entry.stat(follow_symlinks=False)
        if stat.S_ISLNK(about.st_mode):
            descriptor = open_beneath(root, path + name, walk)
            try:
                about = os.fstat(descriptor)
            finally:
                os.close(descriptor)
    except OSError:
        return None
    folder = stat.S_ISDIR(about.st_mode)
    if not folder and not stat.S_ISREG(about.st_mode):
        return None
    return Row(name.decode(), folder, about.st_size, about.st_mtime)


def _page(path: str, rows: list[Row], more: bool) -> str:
    title = html.escape("/" + path)
    lines = [
        "<!DOCTYPE html>",
        '<html lang="en">',
        '<meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{title}</title>",
        f"<style>{STYLE}</style>",
        f"<h1>{_trail(path)}</h1>",
        "<table>",
        "<thead><tr><th>Name</th><th>Size</th><th>Changed (UTC)</th></tr></thead>",
        "<tbody>",
    ]
    if path:
        lines.append('<tr><td><a href="../">../</a></td><td></td><td></td></tr>')
    lines.extend(_line(row) for row in rows)
    lines.append("</tbody>\n</table>")
    if more:
        lines.append(f"<p>There are more; the first {limits.HTTP_LISTING_MAX:,} that were found are shown.</p>")
    elif not rows:
        lines.append("<p>There is nothing here.</p>")
    return "\n".join(lines) + "\n</html>\n"


def _trail(path: str) -> str:
    """Return the path as links to each of its folders."""
    links = ['<a href="/">/</a>']
    names = path.split("/")[:-1]
    for depth, name in enumerate(names, 1):
        place = encode_path("/".join(names[:depth]).encode()).decode()
        links.append(f'<a href="/{html.escape(place)}/">{html.escape(name)}/</a>')
    return "".join(links)


def _line(row: Row) -> str:
    slash = "/" if row.folder else ""
    # Behind "./" no name is taken for a scheme.
    place = html.escape("./" + encode_path(row.name.encode()).decode() + slash)
    size = "" if row.folder else human(row.size)
    day, month, year, clock = format_date(int(row.modified_s)).decode()[5:25].split(" ")
    when = f"{day} {month} {year} {clock[:5]}"
    return f'<tr><td><a href="{place}">{html.escape(row.name)}{slash}</a></td><td>{size}</td><td>{when}</td></tr>'


def human(size: int) -> str:
    """Return a size as people read it: bytes as they are, then with one digit behind the point."""
    if size < 1_024:
        return f"{size} B"
    value = size / 1_024
    units = ["KiB", "MiB", "GiB", "TiB", "PiB"]
    while value >= 1_023.95 and len(units) > 1:
        value /= 1_024
        units.pop(0)
    return f"{value:.1f} {units[0]}"
