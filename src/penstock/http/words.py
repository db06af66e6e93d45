# cython: language_level=3
"""The words of HTTP: which byte may stand where, the methods, and the names of the fields that the server understands.

What a target may contain is what RFC 3986 allows (without the fragment, which no client sends) and `[ ] | ^ { }` and the
back-tick, which browsers and tools leave as they are; after the question mark the backslash too. Refused are `" < > #`,
spaces, control characters and everything beyond ASCII. Whether a percent sign is followed by two digits is a question for
whoever decodes it. This file must not know lines, heads or bodies.
"""

import cython
from cython.cimports.libc.stdint import uint8_t, uint32_t, uint64_t
from cython.cimports.libc.string import memcmp, memcpy
from cython.cimports.penstock.http.types import (
    FIELD_COUNT,
    FIELD_OTHER,
    METHOD_CONNECT,
    METHOD_COUNT,
    METHOD_DELETE,
    METHOD_GET,
    METHOD_HEAD,
    METHOD_OPTIONS,
    METHOD_OTHER,
    METHOD_PATCH,
    METHOD_POST,
    METHOD_PUT,
    METHOD_TRACE,
)
from cython.cimports.penstock.http.words import (
    CHAR_DIGIT,
    CHAR_HEX,
    CHAR_NAME,
    CHAR_PATH,
    CHAR_QUERY,
    CHAR_TOKEN,
    CHAR_VALUE,
    FIELD_NAME_BYTES,
    FIELD_SLOTS,
    SLOT_FIRST,
    SLOT_LAST,
    SLOT_SIZE,
)

# In the order of METHOD_... and FIELD_... of types.pxd.
METHODS = (b"", b"GET", b"HEAD", b"POST", b"PUT", b"DELETE", b"OPTIONS", b"PATCH", b"TRACE", b"CONNECT")
FIELDS = (
    b"",
    b"host",
    b"connection",
    b"content-length",
    b"transfer-encoding",
    b"expect",
    b"upgrade",
    b"if-match",
    b"if-none-match",
    b"if-modified-since",
    b"if-unmodified-since",
    b"if-range",
    b"range",
    b"accept-encoding",
    b"user-agent",
    b"referer",
    b"content-type",
    b"x-forwarded-for",
    b"x-forwarded-proto",
    b"forwarded",
)

DIGITS = b"0123456789"
LETTERS = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
UNRESERVED = LETTERS + DIGITS + b"-._~"
SUB_DELIMITERS = b"!$&'()*+,;="
# Sent by browsers and tools although RFC 3986 wants them encoded.
LENIENT = b"[]|^`{}"


@cython.cfunc
def _mark(text: bytes, what: cython.int):
    for char in text:
        chars[char] = chars[char] | what


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _slot(text: cython.p_const_char, size: uint32_t) -> cython.int:
    """Where a name would be in the table. The numbers are such that no two known names meet; `_fill` makes sure."""
    first: cython.int = cython.cast(uint8_t, text[0]) | 0x20
    last: cython.int = cython.cast(uint8_t, text[size - 1]) | 0x20
    return (cython.cast(cython.int, size) * SLOT_SIZE + first * SLOT_FIRST + last * SLOT_LAST) & (FIELD_SLOTS - 1)


@cython.cfunc
def _fill():
    _mark(LETTERS + DIGITS + b"!#$%&'*+-.^_`|~", CHAR_TOKEN)
    _mark(UNRESERVED + SUB_DELIMITERS + b"%:/@" + LENIENT, CHAR_PATH)
    _mark(UNRESERVED + SUB_DELIMITERS + b"%:/@?\\" + LENIENT, CHAR_QUERY)
    _mark(UNRESERVED + SUB_DELIMITERS, CHAR_NAME)
    _mark(bytes([9, *range(32, 127), *range(128, 256)]), CHAR_VALUE)
    _mark(DIGITS, CHAR_DIGIT | CHAR_HEX)
    _mark(b"abcdefABCDEF", CHAR_HEX)
    if len(METHODS) != METHOD_COUNT or len(FIELDS) != FIELD_COUNT:
        raise AssertionError("the methods and fields of words.py are not those of types.pxd")
    for known in range(1, FIELD_COUNT):
        name: bytes = FIELDS[known]
        size: cython.int = len(name)
        slot: cython.int = _slot(name, size)
        if size >= FIELD_NAME_BYTES or field_slots[slot] != 0:
            raise AssertionError(f"the table of field names has no place for {name!r}; choose other SLOT numbers")
        field_slots[slot] = known
        field_sizes[known] = size
        memcpy(field_names[known], cython.cast(cython.p_const_char, name), size + 1)


_fill()


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def same_word(text: cython.p_const_char, size: uint32_t, word: cython.p_const_char, word_size: uint32_t) -> cython.bint:
    """Compare without regard to case. A byte that differs from a letter by 0x20 only is that letter in the other case."""
    at: uint32_t = 0
    if size != word_size:
        return False
    while at < size:
        if (cython.cast(uint8_t, text[at]) | 0x20) != cython.cast(uint8_t, word[at]):
            return False
        at += 1
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def field_of(text: cython.p_const_char, size: uint32_t) -> cython.int:
    """Which field a token names: FIELD_..."""
    known: cython.int = field_slots[_slot(text, size)]
    if known != FIELD_OTHER and same_word(text, size, field_names[known], field_sizes[known]):
        return known
    return FIELD_OTHER


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def method_of(text: cython.p_const_char, size: uint32_t) -> cython.int:
    """Which method a token is: METHOD_... Upper and lower case are different methods."""
    if size == 3:
        if memcmp(text, b"GET", 3) == 0:
            return METHOD_GET
        return METHOD_PUT if memcmp(text, b"PUT", 3) == 0 else METHOD_OTHER
    if size == 4:
        if memcmp(text, b"POST", 4) == 0:
            return METHOD_POST
        return METHOD_HEAD if memcmp(text, b"HEAD", 4) == 0 else METHOD_OTHER
    if size == 5:
        if memcmp(text, b"PATCH", 5) == 0:
            return METHOD_PATCH
        return METHOD_TRACE if memcmp(text, b"TRACE", 5) == 0 else METHOD_OTHER
    if size == 6:
        return METHOD_DELETE if memcmp(text, b"DELETE", 6) == 0 else METHOD_OTHER
    if size == 7:
        if memcmp(text, b"OPTIONS", 7) == 0:
            return METHOD_OPTIONS
        return METHOD_CONNECT if memcmp(text, b"CONNECT", 7) == 0 else METHOD_OTHER
    return METHOD_OTHER


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def next_item(
    value: cython.p_const_char,
    size: uint32_t,
    at: cython.pointer[uint32_t],
    item: cython.pointer[cython.p_const_char],
    item_size: cython.pointer[uint32_t],
) -> cython.bint:
    """Walk a comma-separated list. After the last item `at` is beyond the size, so that "a," has an empty second one."""
    start: uint32_t = at[0]
    end: uint32_t
    if start > size:
        return False
    end = start
    while end < size and value[end] != 44:
        end += 1
    at[0] = end + 1
    while start < end and (value[start] == 32 or value[start] == 9):
        start += 1
    while end > start and (value[end - 1] == 32 or value[end - 1] == 9):
        end -= 1
    item[0] = value + start
    item_size[0] = end - start
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _clean_bytes(text: cython.p_const_char, size: uint32_t) -> cython.bint:
    at: uint32_t = 0
    while at < size:
        if not chars[cython.cast(uint8_t, text[at])] & CHAR_VALUE:
            return False
        at += 1
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _suspicious(word: uint64_t) -> uint64_t:
    """Not 0 if one of eight bytes is below 0x20, or 0x7F: each difference borrows from the top bit of its byte."""
    ones: uint64_t = ~cython.cast(uint64_t, 0) // 255
    delete: uint64_t = word ^ (ones * 0x7F)
    return (((word - ones * 0x20) & ~word) | ((delete - ones) & ~delete)) & (ones << 7)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def clean_value(text: cython.p_const_char, size: uint32_t) -> cython.bint:
    """Eight bytes at a time, the last eight overlapping those before; one by one only if there may be a tabulator."""
    word: uint64_t = 0
    found: uint64_t = 0
    at: uint32_t = 0
    if size < 8:
        return _clean_bytes(text, size)
    while at + 8 <= size:
        memcpy(cython.address(word), text + at, 8)
        found |= _suspicious(word)
        at += 8
    memcpy(cython.address(word), text + size - 8, 8)
    found |= _suspicious(word)
    return found == 0 or _clean_bytes(text, size)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def is_token(text: cython.p_const_char, size: uint32_t) -> cython.bint:
    """Whether a text is a token: RFC 9110, 5.6.2."""
    at: uint32_t = 0
    while at < size:
        if not chars[cython.cast(uint8_t, text[at])] & CHAR_TOKEN:
            return False
        at += 1
    return size > 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def hex_digit(char: uint8_t) -> cython.int:
    """The value of a hexadecimal digit; -1 if it is none."""
    if not chars[char] & CHAR_HEX:
        return -1
    return char - 48 if char < 58 else (char | 0x20) - 87
