# cython: language_level=3
"""Files beneath one directory: the doors of this room, for the engine in C and for programs in Python.

Everything is answered in C (`lookup.py`), but for what Python makes (`slow.py`): a listing of a directory, several ranges
in one answer, a redirect to a very long place. One object serves one loop: it has no locks. This file must not know
connections or sockets.
"""

import os
import time

import cython
from cython.cimports.libc.stdint import int64_t
from cython.cimports.libc.string import memset
from cython.cimports.penstock.http.cache import cache_clear, cache_close, cache_open, entry_release
from cython.cimports.penstock.http.content import content_check_root
from cython.cimports.penstock.http.files_system import close, text_t
from cython.cimports.penstock.http.handmade import Made
from cython.cimports.penstock.http.lookup import lookup_answer
from cython.cimports.penstock.http.types import (
    DENY_COUNT,
    ENTRY_LARGE,
    FILE_PATH_BYTES,
    SLOW_LISTING,
    SLOW_REDIRECT,
    AnswerC,
    EntryC,
    FilesC,
    HeadC,
)

from penstock import limits
from penstock.errors import UsageError
from penstock.http import slow
from penstock.http.message import FilePart
from penstock.limits import require_whole

# Why there was no content, in the order of DENY_...
REASONS = (
    "malformed",
    "method",
    "long",
    "hidden",
    "outside",
    "special",
    "forbidden",
    "absent",
    "busy",
    "condition",
    "range",
    "coding",
)
CHECK_NS = cython.declare(int64_t, limits.HTTP_FILE_CHECK_NS)

if len(REASONS) != DENY_COUNT or limits.HTTP_PATH_MAX_BYTES + 2 * limits.HTTP_NAME_MAX_BYTES > FILE_PATH_BYTES:
    raise AssertionError("files.py and limits.py do not fit types.pxd")


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def files_answer(
    files: cython.pointer[FilesC],
    now_ns: int64_t,
    head: cython.pointer[cython.const[HeadC]],
    bytes: text_t,
    answer: cython.pointer[AnswerC],
) -> cython.void:
    """Answer a GET or HEAD, and refuse other methods."""
    lookup_answer(files, now_ns, head, bytes, answer)
    if answer.python and answer.entry != cython.NULL:
        entry_release(answer.entry)
        answer.entry = cython.NULL


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def files_release(files: cython.pointer[FilesC], entry: cython.pointer[EntryC]) -> cython.void:
    """Give an entry back."""
    entry_release(entry)


@cython.cfunc
def files_of(files: object) -> cython.pointer[FilesC]:
    """The structure of an object."""
    if not isinstance(files, Files):
        raise UsageError(f"files is {files!r}; give a penstock.http.files.Files")
    return cython.address(cython.cast(Files, files).c)


# ---- for Python ------------------------------------------------------------------------------------------------------


@cython.cfunc
def _head(answer: cython.pointer[AnswerC]):
    """The head as bytes: status line and fields, no empty line."""
    return answer.shared[: answer.shared_size] if answer.shared != cython.NULL else answer.head[: answer.head_size]


@cython.cfunc
def _body(answer: cython.pointer[AnswerC]):
    """The content: bytes, or a part of a file with a descriptor of its own."""
    if answer.fd >= 0:
        return FilePart(os.dup(answer.fd), answer.offset, answer.size)
    return answer.body[: answer.size] if answer.body != cython.NULL else b""


@cython.cfunc
def _respond(files: cython.pointer[FilesC], answer: cython.pointer[AnswerC], query: bytes):
    """A response of an answer that was given, or of what is to be done for it."""
    path = files.path[: files.path_size]
    if not answer.python:
        return slow.plain(answer.status, _head(answer), _body(answer), files.expires_s)
    if files.slow == SLOW_REDIRECT:
        return slow.redirect(path, query)
    if files.slow == SLOW_LISTING:
        return slow.listing(files.root, path, bool(files.dotfiles), bool(files.walks))
    entry: cython.pointer[EntryC] = answer.entry
    ranges = [(files.ranges.first[i], files.ranges.last[i]) for i in range(files.ranges.count)]
    fields = entry.head[entry.head_fields : entry.head_size]
    if entry.kind == ENTRY_LARGE:
        return slow.parts(fields, ranges, entry.size, os.dup(entry.fd), files.expires_s)
    return slow.parts(fields, ranges, entry.size, entry.body[: entry.size], files.expires_s)


class Files:
    """A directory whose files are served. One object for each loop; see files.pyi for the options."""

    def __cinit__(self, *args, **options):
        memset(cython.address(self.c), 0, cython.sizeof(FilesC))
        self.c.root = -1

    def __init__(
        self,
        root,
        *,
        index="index.html",
        listing=False,
        dotfiles=False,
        max_age=None,
        expires=False,
        precompressed=True,
        cache_bytes=limits.HTTP_CACHE_BYTES,
        cache_entries=limits.HTTP_CACHE_ENTRIES,
    ):
        if self.c.cache.slots != cython.NULL:
            raise UsageError("this object serves a directory already; make another one")
        self.root = slow.checked_root(root)
        self.root_bytes = os.fsencode(self.root)
        self.index_bytes = slow.checked_index(index)
        self.kept_bytes = slow.checked_max_age(max_age)
        require_whole("cache_bytes", cache_bytes, 0, limits.HTTP_CACHE_BYTES_MAX)
        require_whole("cache_entries", cache_entries, 0, limits.HTTP_CACHE_ENTRIES_MAX)
        if cache_open(cython.address(self.c.cache), cache_entries, cache_bytes, limits.HTTP_CACHE_OPEN_FILES) < 0:
            raise MemoryError("no memory for a cache of files")
        self.c.root_path = self.root_bytes
        self.c.index = self.index_bytes
        self.c.kept = self.kept_bytes
        self.c.expires_s = slow.checked_expires(expires, max_age)
        self.c.listing = listing
        self.c.dotfiles = dotfiles
        self.c.precompressed = precompressed
        self.c.root_checked_ns = -CHECK_NS
        content_check_root(cython.address(self.c), 0)
        if self.c.root < 0:
            raise UsageError(f"root is {self.root!r}, which has just gone; give a directory that stays")
        self.c.root_checked_ns = -CHECK_NS

    def __dealloc__(self):
        if self.c.root >= 0:
            close(self.c.root)
        if self.c.cache.slots != cython.NULL:
            cache_close(cython.address(self.c.cache))

    def answer(self, method: str, path: bytes, query: bytes = b"", fields=(), now_ns: int | None = None):
        """Answer a request as the server would, but for what the server adds: a `slow.Answer`."""
        made: Made = Made(method.encode(), path, query, list(fields))
        answer: AnswerC
        now: int64_t = time.monotonic_ns() if now_ns is None else now_ns
        files_answer(cython.address(self.c), now, cython.address(made.head), made.text, cython.address(answer))
        if answer.python:
            return slow.Answer(0, b"", b"", python=True)
        try:
            return slow.Answer(answer.status, _head(cython.address(answer)), _body(cython.address(answer)))
        finally:
            if answer.entry != cython.NULL:
                files_release(cython.address(self.c), answer.entry)

    def slow(self, method: bytes, path: bytes, query: bytes, fields, now_ns: int | None = None):
        """Answer a request in whatever way it needs: a `Response`."""
        made: Made = Made(method, path, query, list(fields))
        answer: AnswerC
        now: int64_t = time.monotonic_ns() if now_ns is None else now_ns
        lookup_answer(cython.address(self.c), now, cython.address(made.head), made.text, cython.address(answer))
        try:
            return _respond(cython.address(self.c), cython.address(answer), query)
        finally:
            if answer.entry != cython.NULL:
                files_release(cython.address(self.c), answer.entry)

    def counters(self):
        """Return what was counted since the beginning, and what the cache holds now."""
        return {
            "hits": self.c.hits,
            "misses": self.c.misses,
            "revalidated": self.c.revalidated,
            "evicted": self.c.cache.evicted,
            "bytes": self.c.cache.bytes,
            "entries": self.c.cache.entries,
            "open_files": self.c.cache.open_files,
            "denied": {REASONS[i]: self.c.denied[i] for i in range(DENY_COUNT)},
        }

    def close(self):
        """Forget everything; each request is answered with 404 from now on. What is being sent is not disturbed."""
        self.c.closed = True
        if self.c.root >= 0:
            close(self.c.root)
            self.c.root = -1
        if self.c.cache.slots != cython.NULL:
            cache_clear(cython.address(self.c.cache))

    @property
    def walks(self):
        """Whether paths are opened name by name, as where the kernel has no openat2. May be set, to have it so."""
        return bool(self.c.walks)

    @walks.setter
    def walks(self, walks: bool):
        self.c.walks = walks
