# cython: language_level=3
"""Which of a file and its precompressed neighbours a client gets: Accept-Encoding (RFC 9110, 12.5.3).

The coding with the highest weight wins; among equals the one that usually is the smallest (br, zstd, gzip). The file
as it is is acceptable unless `identity;q=0` (or `*;q=0`, and identity is not named) says otherwise, and preferred only
if it is named with a higher weight. A member that is malformed is overlooked. This file must not know files.
"""

import cython
from cython.cimports.libc.string import memchr, strlen
from cython.cimports.penstock.http.files_system import text_t
from cython.cimports.penstock.http.handmade import Made
from cython.cimports.penstock.http.types import (
    CODING_BR,
    CODING_COUNT,
    CODING_GZIP,
    CODING_NONE,
    CODING_ZSTD,
    FIELD_ACCEPT_ENCODING,
    HeadC,
)

NAMES = ("br", "zstd", "gzip")
SUFFIXES = (".br", ".zst", ".gz")

if (CODING_BR, CODING_ZSTD, CODING_GZIP, CODING_COUNT) != (0, 1, 2, 3):
    raise AssertionError("the codings of codings.py are not those of types.pxd")


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def coding_name(coding: cython.int) -> text_t:
    """As Content-Encoding names it."""
    if coding == CODING_BR:
        return b"br"
    return b"zstd" if coding == CODING_ZSTD else b"gzip"


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def coding_suffix(coding: cython.int) -> text_t:
    """What the neighbour's name ends with."""
    if coding == CODING_BR:
        return b".br"
    return b".zst" if coding == CODING_ZSTD else b".gz"


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _is(text: text_t, size: cython.uint, name: text_t) -> cython.bint:
    """Whether a text is a name in lower case, in any case of letters."""
    i: cython.uint
    if size != strlen(name):
        return False
    for i in range(size):
        code: cython.char = text[i]
        if (code + 32 if 65 <= code <= 90 else code) != name[i]:
            return False
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _weight(text: text_t, size: cython.uint) -> cython.int:
    """The weight (in thousandths) in what follows a name: 1,000 without one, -1 if it is malformed."""
    at: cython.uint = 0
    value: cython.int = 0
    scale: cython.int = 1_000
    while at < size and text[at] in (b" ", b"\t", b";"):
        at += 1
    if at == size:
        return 1_000
    if size - at < 3 or text[at] | 32 != b"q" or text[at + 1] != b"=" or not 48 <= text[at + 2] <= 49:
        return -1
    value = (text[at + 2] - 48) * 1_000
    at += 3
    if at < size and text[at] == b".":
        at += 1
        while at < size and 48 <= text[at] <= 57 and scale > 1:
            scale //= 10
            value += (text[at] - 48) * scale
            at += 1
    while at < size and text[at] in (b" ", b"\t"):
        at += 1
    return value if at == size and value <= 1_000 else -1


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _member(text: text_t, size: cython.uint, weights: cython.pointer[cython.int]) -> cython.void:
    """Note the weight of one member of the list: the codings, behind them identity, and `*`."""
    name: cython.uint = 0
    while name < size and text[name] not in (b";", b" ", b"\t"):
        name += 1
    weight: cython.int = _weight(text + name, size - name)
    which: cython.int = -1
    if weight < 0:
        return
    if _is(text, name, b"gzip") or _is(text, name, b"x-gzip"):
        which = CODING_GZIP
    elif _is(text, name, b"br"):
        which = CODING_BR
    elif _is(text, name, b"zstd"):
        which = CODING_ZSTD
    elif _is(text, name, b"identity"):
        which = CODING_COUNT
    elif _is(text, name, b"*"):
        which = CODING_COUNT + 1
    if which >= 0:
        weights[which] = weight


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _members(text: text_t, size: cython.uint, weights: cython.pointer[cython.int]) -> cython.void:
    """Read a list, or a part of one that is on a line of its own."""
    at: cython.uint = 0
    while at < size:
        while at < size and text[at] in (b" ", b"\t", b","):
            at += 1
        begin: cython.uint = at
        while at < size and text[at] != b",":
            at += 1
        if at > begin:
            _member(text + begin, at - begin, weights)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def coding_choose(head: cython.pointer[cython.const[HeadC]], bytes: text_t, there: cython.uchar) -> cython.int:
    """The coding to send."""
    weights: cython.int[5]
    i: cython.uint = head.first[FIELD_ACCEPT_ENCODING]
    coding: cython.int
    best: cython.int = CODING_NONE
    most: cython.int
    if i == 0:
        return CODING_NONE
    i -= 1
    weighted: cython.bint = (
        head.again[FIELD_ACCEPT_ENCODING] > 1
        or memchr(bytes + head.fields[i].value.start, b";", head.fields[i].value.size) != cython.NULL
    )
    if there == 0 and not weighted:
        return CODING_NONE  # without a weight nothing is refused
    for coding in range(5):
        weights[coding] = -1
    while i < head.field_count:
        if head.fields[i].known == FIELD_ACCEPT_ENCODING:
            _members(bytes + head.fields[i].value.start, head.fields[i].value.size, weights)
        i += 1
    most = max(weights[CODING_COUNT], 0)
    for coding in range(CODING_COUNT):
        weight: cython.int = weights[coding] if weights[coding] >= 0 else weights[CODING_COUNT + 1]
        if there >> coding & 1 and weight > 0 and (weight > most or (weight == most and best == CODING_NONE)):
            best = coding
            most = weight
    if best == CODING_NONE and (
        weights[CODING_COUNT] == 0 or (weights[CODING_COUNT] < 0 and weights[CODING_COUNT + 1] == 0)
    ):
        return CODING_REFUSED
    return best


def choose_coding(accept: list, there: tuple = NAMES):
    """Return the coding to send, or "identity", for these Accept-Encoding fields; None if nothing may be sent."""
    made: Made = Made(b"GET", b"/", b"", [(b"Accept-Encoding", value) for value in accept])
    bits: cython.uchar = sum(1 << NAMES.index(name) for name in there)
    chosen: cython.int = coding_choose(cython.address(made.head), made.text, bits)
    if chosen == CODING_REFUSED:
        return None
    return "identity" if chosen == CODING_NONE else NAMES[chosen]
