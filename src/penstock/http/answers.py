# cython: language_level=3
"""The heads of answers about files, and the few words for people that go with an error.

A 200 has its head ready in the entry; a 206 and a 304 take the fields from there that they need. Whatever is written
here fits into AnswerC.head: its parts are bounded, but for the place of a redirect, and that says so.
This file must not know why an answer is given.
"""

import cython
from cython.cimports.penstock.http.files_system import bytes_t, text_t
from cython.cimports.penstock.http.paths import path_encode
from cython.cimports.penstock.http.types import (
    ANSWER_HEAD_BYTES,
    DENY_BUSY,
    DENY_CODING,
    DENY_CONDITION,
    DENY_FORBIDDEN,
    DENY_MALFORMED,
    DENY_METHOD,
    DENY_RANGE,
    ENTRY_LARGE,
    AnswerC,
    EntryC,
    FilesC,
    HeadC,
    RangesC,
)
from cython.cimports.penstock.http.writer import WriterC, put, put_bytes, put_number, writer_begin


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def answer_reset(answer: cython.pointer[AnswerC]) -> cython.void:
    """An answer without anything."""
    answer.status = 0
    answer.python = False
    answer.close = False
    answer.entry = cython.NULL
    answer.shared = cython.NULL
    answer.shared_size = 0
    answer.head_size = 0
    answer.body = cython.NULL
    answer.fd = -1
    answer.offset = 0
    answer.size = 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _words(
    answer: cython.pointer[AnswerC], status: cython.int, line: text_t, fields: text_t, words: text_t
) -> cython.void:
    """An answer that is a sentence: `line` has the status and its phrase."""
    writer: WriterC
    size: cython.uint = 0
    while words[size] != 0:
        size += 1
    writer_begin(cython.address(writer), answer.head, ANSWER_HEAD_BYTES)
    put(cython.address(writer), b"HTTP/1.1 ")
    put(cython.address(writer), line)
    put(cython.address(writer), b"\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: ")
    put_number(cython.address(writer), size)
    put(cython.address(writer), b"\r\n")
    put(cython.address(writer), fields)
    answer.status = status
    answer.head_size = writer.size
    answer.body = words
    answer.size = size


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def answer_refuse(files: cython.pointer[FilesC], answer: cython.pointer[AnswerC], why: cython.int) -> cython.void:
    """An error, counted under its reason. Who must not know what is there is told that nothing is."""
    files.denied[why] += 1
    if why == DENY_MALFORMED:
        _words(answer, 400, b"400 Bad Request", b"", b"The path of this address is malformed.\n")
    elif why == DENY_METHOD:
        _words(answer, 405, b"405 Method Not Allowed", b"Allow: GET, HEAD\r\n", b"Files can only be read.\n")
    elif why == DENY_FORBIDDEN:
        _words(answer, 403, b"403 Forbidden", b"", b"This file may not be read.\n")
    elif why == DENY_BUSY:
        _words(answer, 503, b"503 Service Unavailable", b"Retry-After: 1\r\n", b"The server is busy; try again.\n")
    elif why == DENY_CONDITION:
        _words(answer, 412, b"412 Precondition Failed", b"", b"The file is not as the request expects it.\n")
    elif why == DENY_CODING:
        _words(
            answer, 406, b"406 Not Acceptable", b"Vary: Accept-Encoding\r\n", b"No coding of this file is accepted.\n"
        )
    else:
        _words(answer, 404, b"404 Not Found", b"", b"There is nothing at this address.\n")


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def answer_unsatisfiable(
    files: cython.pointer[FilesC], answer: cython.pointer[AnswerC], entry: cython.pointer[cython.const[EntryC]]
) -> cython.void:
    """416, with the size that the file really has."""
    fields: cython.char[64]
    writer: WriterC
    files.denied[DENY_RANGE] += 1
    writer_begin(cython.address(writer), fields, 63)
    put(cython.address(writer), b"Content-Range: bytes */")
    put_number(cython.address(writer), entry.size)
    put(cython.address(writer), b"\r\n")
    fields[writer.size] = 0
    _words(answer, 416, b"416 Range Not Satisfiable", fields, b"The file has no such part.\n")


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _content(answer: cython.pointer[AnswerC], entry: cython.pointer[EntryC], offset: cython.longlong) -> cython.void:
    """Borrow the entry, and point to its content from a place on."""
    entry.refs += 1
    answer.entry = entry
    if entry.kind == ENTRY_LARGE:
        answer.fd = entry.fd
        answer.offset = offset
    else:
        answer.body = entry.body + offset


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def answer_whole(answer: cython.pointer[AnswerC], entry: cython.pointer[EntryC]) -> cython.void:
    """200, with the head that is ready."""
    _content(answer, entry, 0)
    answer.status = 200
    answer.shared = entry.head
    answer.shared_size = entry.head_size
    answer.size = entry.size


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def answer_same(answer: cython.pointer[AnswerC], entry: cython.pointer[cython.const[EntryC]]) -> cython.void:
    """304, with the fields that say what the client's copy is."""
    writer: WriterC
    writer_begin(cython.address(writer), answer.head, ANSWER_HEAD_BYTES)
    put(cython.address(writer), b"HTTP/1.1 304 Not Modified\r\n")
    put_bytes(cython.address(writer), entry.head + entry.head_kept, entry.head_size - entry.head_kept)
    answer.status = 304
    answer.head_size = writer.size


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def answer_part(
    answer: cython.pointer[AnswerC],
    entry: cython.pointer[EntryC],
    ranges: cython.pointer[cython.const[RangesC]],
) -> cython.void:
    """206 with one part."""
    writer: WriterC
    first: cython.longlong = ranges.first[0]
    last: cython.longlong = ranges.last[0]
    writer_begin(cython.address(writer), answer.head, ANSWER_HEAD_BYTES)
    put(cython.address(writer), b"HTTP/1.1 206 Partial Content\r\nContent-Range: bytes ")
    put_number(cython.address(writer), first)
    put(cython.address(writer), b"-")
    put_number(cython.address(writer), last)
    put(cython.address(writer), b"/")
    put_number(cython.address(writer), entry.size)
    put(cython.address(writer), b"\r\nContent-Length: ")
    put_number(cython.address(writer), last - first + 1)
    put(cython.address(writer), b"\r\n")
    put_bytes(cython.address(writer), entry.head + entry.head_fields, entry.head_size - entry.head_fields)
    _content(answer, entry, first)
    answer.status = 206
    answer.head_size = writer.size
    answer.size = last - first + 1


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _is_visible(text: text_t, size: cython.uint) -> cython.bint:
    i: cython.uint
    for i in range(size):  # noqa: SIM110 - C
        if text[i] <= 32 or text[i] >= 127:
            return False
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def answer_redirect(
    files: cython.pointer[FilesC],
    answer: cython.pointer[AnswerC],
    head: cython.pointer[cython.const[HeadC]],
    bytes: text_t,
) -> cython.bint:
    """301 to the same path with a slash behind it.

    Only a path, so that no Host field can send anybody elsewhere; and as a resolved path has no empty names, it never
    begins with two slashes, which would name a host. A query that is no visible ASCII is not repeated.
    """
    place: cython.char[REDIRECT_BYTES]
    fields: cython.char[REDIRECT_BYTES]
    writer: WriterC
    size: cython.int = path_encode(cython.cast(bytes_t, files.path), files.path_size, place, REDIRECT_BYTES)
    if size < 0:
        return False
    writer_begin(cython.address(writer), fields, REDIRECT_BYTES - 1)
    put(cython.address(writer), b"Location: /")
    put_bytes(cython.address(writer), place, size)
    put(cython.address(writer), b"/")
    if head.query.size and _is_visible(bytes + head.query.start, head.query.size):
        put(cython.address(writer), b"?")
        put_bytes(cython.address(writer), bytes + head.query.start, head.query.size)
    put(cython.address(writer), b"\r\n")
    if writer.full:
        return False
    fields[writer.size] = 0
    _words(answer, 301, b"301 Moved Permanently", fields, b"This directory's address ends with a slash.\n")
    return True
