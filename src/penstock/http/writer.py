# cython: language_level=3
"""Putting text together in a place of fixed size: what does not fit is not written, and is known in the end."""

import cython
from cython.cimports.libc.stdint import int64_t, uint32_t, uint64_t
from cython.cimports.libc.string import memcpy, strlen
from cython.cimports.penstock.http.files_system import text_t


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def writer_begin(writer: cython.pointer[WriterC], start: cython.p_char, room: uint32_t) -> cython.void:
    """Begin with an empty text."""
    writer.start = start
    writer.size = 0
    writer.room = room
    writer.full = False


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def put_bytes(writer: cython.pointer[WriterC], text: text_t, size: uint32_t) -> cython.void:
    """Add bytes, all or none."""
    if writer.full or size > writer.room - writer.size:
        writer.full = True
        return
    memcpy(writer.start + writer.size, text, size)
    writer.size += size


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def put(writer: cython.pointer[WriterC], text: text_t) -> cython.void:
    """Add text that ends with a NUL."""
    put_bytes(writer, text, strlen(text))


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def put_number(writer: cython.pointer[WriterC], number: int64_t) -> cython.void:
    """Add a number that is not negative."""
    digits: cython.char[20]
    at: uint32_t = 20
    while True:
        at -= 1
        digits[at] = cython.cast(cython.char, 48 + number % 10)
        number //= 10
        if number == 0:
            break
    put_bytes(writer, digits + at, 20 - at)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def put_hex(writer: cython.pointer[WriterC], number: uint64_t) -> cython.void:
    """Add a number in hexadecimal digits."""
    digits: cython.char[16]
    letters: text_t = b"0123456789abcdef"
    at: uint32_t = 16
    while True:
        at -= 1
        digits[at] = letters[number & 15]
        number >>= 4
        if number == 0:
            break
    put_bytes(writer, digits + at, 16 - at)


def written(room: int, pieces: list):
    """Return what a place of that size holds after the pieces: bytes as they are, numbers in digits; None if it was full."""
    place = bytearray(room + 1)
    writer: WriterC
    writer_begin(cython.address(writer), place, room)
    for piece in pieces:
        if isinstance(piece, bytes):
            put_bytes(cython.address(writer), piece, len(piece))
        else:
            put_number(cython.address(writer), piece)
            put(cython.address(writer), b"=0x")
            put_hex(cython.address(writer), piece)
    return None if writer.full else bytes(place[: writer.size])
