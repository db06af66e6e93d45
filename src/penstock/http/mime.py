# cython: language_level=3
"""The Content-Type of a file by its name: the table of `types_table.py`, laid out so that C can look into it.

Upper and lower case are the same; only the last ending counts. Each place of the table is found by a hash, and the next
free one is taken when it is occupied; half of the places stay free. This file must not know what is in the table.
"""

import cython
from cython.cimports.libc.stdint import uint32_t
from cython.cimports.libc.string import memcmp, memcpy
from cython.cimports.penstock.http.files_system import text_t

from penstock.http import types_table

_TYPES = {ending.encode(): name.encode() for ending, name in types_table.build().items()}
_NAMES = frozenset(types_table.TEXT_NAMES.encode().split())
_PLAIN = _TYPES[b"txt"]
_OTHERWISE = types_table.OTHERWISE.encode()

if 2 * (len(_TYPES) + len(_NAMES)) > MIME_SLOTS:
    raise AssertionError("the table of types has outgrown MIME_SLOTS in mime.pxd")


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _place(ending: cython.p_char, size: uint32_t) -> uint32_t:
    """Where an ending is, or where it would have to be."""
    hash: uint32_t = size
    i: uint32_t
    for i in range(size):
        hash = hash * 31 + cython.cast(cython.uchar, ending[i])
    hash &= MIME_SLOTS - 1
    while slots[hash].size and (slots[hash].size != size or memcmp(slots[hash].ending, ending, size) != 0):
        hash = (hash + 1) & (MIME_SLOTS - 1)
    return hash


@cython.cfunc
def _add(key: bytes, kind: bytes):
    if len(key) > ENDING_BYTES:
        raise AssertionError(f"the ending {key!r} is longer than ENDING_BYTES in mime.pxd")
    place: uint32_t = _place(key, len(key))
    memcpy(slots[place].ending, cython.cast(cython.p_char, key), len(key))
    slots[place].size = len(key)
    slots[place].type = kind


@cython.cfunc
def _set_otherwise(kind: bytes):
    global otherwise  # noqa: PLW0603 - a variable of C
    otherwise = kind


# The texts stay where they are, because _TYPES holds them. A name without an ending is kept with a slash before it.
for _ending, _type in _TYPES.items():
    _add(_ending, _type)
for _name in _NAMES:
    _add(b"/" + _name, _PLAIN)
_set_otherwise(_OTHERWISE)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def mime_of(name: text_t, size: uint32_t) -> text_t:
    """The type of a file."""
    lower: cython.char[16]
    begin: uint32_t = size
    count: uint32_t = 0
    while begin > 0 and name[begin - 1] != b"." and name[begin - 1] != b"/":
        begin -= 1
    if begin == 0 or name[begin - 1] == b"/":
        lower[0] = b"/"
        count = 1
    while begin < size:
        if count == ENDING_BYTES:
            return otherwise
        lower[count] = name[begin] + 32 if 65 <= name[begin] <= 90 else name[begin]
        count += 1
        begin += 1
    place: uint32_t = _place(lower, count)
    return slots[place].type if slots[place].size else otherwise


def content_type(name: bytes):
    """Return the Content-Type of a file of that name."""
    return bytes(mime_of(name, len(name))).decode()
