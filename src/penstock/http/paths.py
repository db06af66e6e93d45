# cython: language_level=3
"""From the path of a request to an open file, so that nothing outside of the root can ever be reached.

Three steps, each of which would be enough against most attacks:

1. Percent signs are decoded exactly once. What no honest client sends is refused: a malformed escape, a control
   character, a backslash, a slash in disguise (%2f), bytes that are not UTF-8 (overlong forms are not).
2. Dot segments are resolved, empty ones dropped; a path that climbs above its beginning is refused, not clipped. Names
   that begin with a dot are hidden, except `.well-known` as the first one.
3. What is left is opened beneath the root by the kernel (openat2), or name by name where it has no such call. Both
   follow links that stay inside the root, and refuse all others; an absolute link counts as one that leaves.

A name such as `foo..bar.txt` is a name like any other. This file must not know requests, answers or caches.
"""

import os

import cython
from cython.cimports.libc.stdint import uint32_t
from cython.cimports.libc.string import memcpy, memmove, strlen
from cython.cimports.penstock.http.files_system import (
    ELOOP,
    EMLINK,
    ENAMETOOLONG,
    ENOSYS,
    ENOTDIR,
    EXDEV,
    O_CLOEXEC,
    O_DIRECTORY,
    O_NOCTTY,
    O_NOFOLLOW,
    O_NONBLOCK,
    O_RDONLY,
    PLATFORM_O_SEARCH,
    bytes_t,
    close,
    errno,
    openat,
    platform_open_beneath,
    readlinkat,
    text_t,
)

from penstock import limits
from penstock.errors import UsageError

if limits.HTTP_PATH_MAX_BYTES != DECODED_BYTES or limits.HTTP_NAME_MAX_BYTES != NAME_BYTES:
    raise AssertionError("the sizes in paths.pxd are not those of limits.py")

LINKS_MAX = cython.declare(cython.int, limits.HTTP_LINKS_MAX)
WELL_KNOWN = cython.declare(cython.uint, 11)  # bytes of ".well-known"


@cython.cfunc
def _fill():
    for code in range(256):
        # Bytes that stand for themselves wherever they are: neither an escape, a separator, a control nor above ASCII.
        plain_bytes[code] = 32 <= code < 127 and chr(code) not in "%/\\?#"
        url_bytes[code] = code < 127 and (chr(code).isalnum() or chr(code) in "-._~!$&'()*+,;=:@/")


_fill()


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _hex(digit: cython.uchar) -> cython.int:
    """The value of a hexadecimal digit, or a negative number that spoils every sum."""
    if 48 <= digit <= 57:
        return digit - 48
    digit |= 32
    return digit - 87 if 97 <= digit <= 102 else -1024


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _continues(text: bytes_t, count: uint32_t) -> cython.bint:
    """Whether that many continuation bytes of UTF-8 follow."""
    i: uint32_t
    for i in range(count):  # noqa: SIM110 - C
        if text[i] & 0xC0 != 0x80:
            return False
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _is_utf8(text: bytes_t, size: uint32_t) -> cython.bint:
    """Whether bytes are UTF-8: shortest forms only, no surrogates, nothing beyond U+10FFFF. A NUL follows the text."""
    i: uint32_t = 0
    while i < size:
        lead: cython.uchar = text[i]
        after: cython.uchar = text[i + 1]
        more: uint32_t
        if lead < 0x80:
            more = 0
        elif 0xC2 <= lead <= 0xDF:
            more = 1
        elif (
            (lead == 0xE0 and after >= 0xA0)
            or (lead == 0xED and after < 0xA0)
            or (0xE1 <= lead <= 0xEF and lead != 0xED)
        ):
            more = 2
        elif (lead == 0xF0 and after >= 0x90) or (lead == 0xF4 and after < 0x90) or 0xF1 <= lead <= 0xF3:
            more = 3
        else:
            return False
        if more and (i + more >= size or not _continues(text + i + 1, more)):
            return False
        i += more + 1
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _end_name(out: cython.p_char, begin: uint32_t, end: uint32_t, failed: cython.pointer[cython.int]) -> uint32_t:
    """A name is complete: the place up to which the path stands, behind a slash or at its very beginning.

    `.` and `..` are resolved; of another name, the slash that follows it is for the caller to write.
    """
    size: uint32_t = end - begin
    if size == 0:
        return begin
    if size > NAME_BYTES:
        failed[0] = PATH_LONG
        return begin
    if out[begin] != b".":
        return end
    if size == 1:
        return begin
    if size == 2 and out[begin + 1] == b".":
        if begin == 0:
            failed[0] = PATH_BAD
            return begin
        begin -= 1
        while begin > 0 and out[begin - 1] != b"/":
            begin -= 1
        return begin
    return end


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _is_hidden(path: cython.p_char, size: uint32_t) -> cython.bint:
    """Whether a resolved path has a name that begins with a dot."""
    i: uint32_t
    known: cython.p_char = b".well-known"
    for i in range(size):
        if path[i] == b"." and (i == 0 or path[i - 1] == b"/"):
            if i > 0 or size < WELL_KNOWN or path[WELL_KNOWN] not in (b"/", b"\0"):
                return True
            k: uint32_t
            for k in range(WELL_KNOWN):
                if path[k] != known[k]:
                    return True
    return False


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _unescape(raw: bytes_t, left: uint32_t) -> cython.int:
    """The byte that an escape stands for; -1 for one that is malformed or disguises something."""
    if left < 3:
        return -1
    code: cython.int = _hex(raw[1]) * 16 + _hex(raw[2])
    if code < 32 or code == 127 or code == b"/" or code == b"\\":
        return -1
    return code


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def path_decode(
    raw: bytes_t, size: uint32_t, dotfiles: cython.bint, out: cython.p_char, out_size: cython.pointer[uint32_t]
) -> cython.int:
    """Decode, resolve and judge. The result has no slash at its beginning; at its end it has, if it names a directory."""
    i: uint32_t = 1
    at: uint32_t = 0
    begin: uint32_t = 0
    end: uint32_t
    code: cython.int
    failed: cython.int = PATH_OK
    beyond: cython.bint = False
    dotted: cython.bint = False
    out[0] = 0
    out_size[0] = 0
    if size == 0:
        return PATH_OK
    if raw[0] != b"/":
        return PATH_BAD
    while i < size:
        code = raw[i]
        if code == b"%":
            code = _unescape(raw + i, size - i)
            if code < 0:
                return PATH_BAD
            i += 2
        elif code == b"/":
            end = _end_name(out, begin, at, cython.address(failed))
            if failed:
                return failed
            if end == at and at != begin:
                if at >= DECODED_BYTES:
                    return PATH_LONG
                out[at] = b"/"
                end += 1
            begin = at = end
            i += 1
            continue
        elif not plain_bytes[code] and code < 128:
            return PATH_BAD
        if at >= DECODED_BYTES:
            return PATH_LONG
        dotted |= code == b"." and at == begin
        beyond |= code >= 128
        out[at] = cython.cast(cython.char, code)
        at += 1
        i += 1
    at = _end_name(out, begin, at, cython.address(failed))
    if failed:
        return failed
    out[at] = 0
    out_size[0] = at
    if beyond and not _is_utf8(cython.cast(bytes_t, out), at):
        return PATH_BAD
    return PATH_HIDDEN if dotted and not dotfiles and _is_hidden(out, at) else PATH_OK


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def path_encode(path: bytes_t, size: uint32_t, out: cython.p_char, room: uint32_t) -> cython.int:
    """Write a path as a part of a URL; the bytes written, or -1 if there is no room."""
    digits: cython.p_char = b"0123456789ABCDEF"
    i: uint32_t
    at: uint32_t = 0
    for i in range(size):
        if at + 3 > room:
            return -1
        if url_bytes[path[i]]:
            out[at] = path[i]
            at += 1
        else:
            out[at] = b"%"
            out[at + 1] = digits[path[i] >> 4]
            out[at + 2] = digits[path[i] & 15]
            at += 3
    return at


# ---- opening ---------------------------------------------------------------------------------------------------------


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def path_open(root: cython.int, path: text_t, walks: cython.pointer[cython.bint]) -> cython.int:
    """Open for reading, whatever it is, without waiting for it. `walks` becomes true where the kernel has no openat2."""
    flags: cython.int = O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC
    if path[0] == 0:
        path = b"."
    if not walks[0]:
        fd: cython.int = platform_open_beneath(root, path, flags)
        if fd != -ENOSYS:
            return fd
        walks[0] = True
    return _walk(root, path, flags)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _walk(root: cython.int, path: text_t, flags: cython.int) -> cython.int:
    """Open a path name by name; no name is ever followed without having been looked at."""
    walk: WalkC
    size: cython.size_t = strlen(path)
    if size >= WALK_BYTES:
        return -ENAMETOOLONG
    if path[0] == b"/":
        return -EXDEV
    walk.root = walk.directory = root
    walk.links = walk.ups = walk.done_size = walk.todo_start = 0
    walk.todo_size = size
    memcpy(walk.todo, path, size)
    fd: cython.int = _step(cython.address(walk), flags)
    while fd == WALK_ON:
        fd = _step(cython.address(walk), flags)
    _leave(cython.address(walk), root)
    return fd


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _leave(walk: cython.pointer[WalkC], directory: cython.int) -> cython.void:
    """Go on from another directory."""
    if walk.directory != walk.root:
        close(walk.directory)
    walk.directory = directory


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _next_name(walk: cython.pointer[WalkC]) -> cython.int:
    """Take the next name off the path: its size, 0 at the end."""
    while walk.todo_start < walk.todo_size and walk.todo[walk.todo_start] == b"/":
        walk.todo_start += 1
    size: cython.int = 0
    while walk.todo_start < walk.todo_size and walk.todo[walk.todo_start] != b"/":
        if size == NAME_BYTES:
            return -ENAMETOOLONG
        walk.name[size] = walk.todo[walk.todo_start]
        size += 1
        walk.todo_start += 1
    walk.name[size] = 0
    return size


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _step(walk: cython.pointer[WalkC], flags: cython.int) -> cython.int:
    """One name further. WALK_ON: not there yet; else the descriptor, or what is wrong."""
    fd: cython.int
    size: cython.int = _next_name(walk)
    if size < 0:
        return size
    if size == 0:
        fd = openat(walk.directory, b".", flags)
        return fd if fd >= 0 else -errno
    if size == 1 and walk.name[0] == b".":
        return WALK_ON
    if size == 2 and walk.name[0] == b"." and walk.name[1] == b".":
        return _up(walk)
    if walk.todo_start == walk.todo_size:
        fd = openat(walk.directory, walk.name, flags | O_NOFOLLOW)
        if fd >= 0:
            return fd
    else:
        fd = openat(walk.directory, walk.name, PLATFORM_O_SEARCH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
        if fd >= 0:
            _leave(walk, fd)
            return _remember(walk, size)
    failed: cython.int = errno
    return _follow(walk, failed) if failed in (ELOOP, ENOTDIR, EMLINK) else -failed


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _remember(walk: cython.pointer[WalkC], size: cython.int) -> cython.int:
    """Note the name of a directory that we have gone into."""
    if walk.done_size + size + 1 > WALK_BYTES:
        return -ENAMETOOLONG
    memcpy(walk.done + walk.done_size, walk.name, size)
    walk.done[walk.done_size + size] = b"/"
    walk.done_size += size + 1
    return WALK_ON


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _up(walk: cython.pointer[WalkC]) -> cython.int:
    """A link says `..`: begin again at the root, with the names that have led here less the last one.

    The names are no links, so that this is the parent; and should one of them have become a link meanwhile, it is looked
    at like any other. The kernel's own `..` could lead anywhere if somebody moves the directory.
    """
    if walk.done_size == 0:
        return -EXDEV
    walk.ups += 1
    if walk.ups > LINKS_MAX * UPS_PER_LINK:
        return -ELOOP
    walk.done_size -= 1
    while walk.done_size > 0 and walk.done[walk.done_size - 1] != b"/":
        walk.done_size -= 1
    left: cython.int = walk.todo_size - walk.todo_start
    if walk.done_size + left > WALK_BYTES:
        return -ENAMETOOLONG
    memmove(walk.todo + walk.done_size, walk.todo + walk.todo_start, left)
    memcpy(walk.todo, walk.done, walk.done_size)
    walk.todo_size = walk.done_size + left
    walk.todo_start = walk.done_size = 0
    _leave(walk, walk.root)
    return WALK_ON


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _follow(walk: cython.pointer[WalkC], failed: cython.int) -> cython.int:
    """Put what a link says in front of what is left of the path. If it is no link, it is what failed."""
    size: cython.int = readlinkat(walk.directory, walk.name, walk.link, WALK_BYTES)
    if size <= 0:
        return -failed
    if walk.link[0] == b"/":
        return -EXDEV
    left: cython.int = walk.todo_size - walk.todo_start
    if size + left > WALK_BYTES:
        return -ENAMETOOLONG
    walk.links += 1
    if walk.links > LINKS_MAX:
        return -ELOOP
    memmove(walk.todo + size, walk.todo + walk.todo_start, left)
    memcpy(walk.todo, walk.link, size)
    walk.todo_size = size + left
    walk.todo_start = 0
    return WALK_ON


# ---- for Python ------------------------------------------------------------------------------------------------------

_FAILURES = {PATH_BAD: "malformed", PATH_LONG: "long", PATH_HIDDEN: "hidden"}


def decode_path(raw: bytes, dotfiles: bool = False):
    """Return the resolved path without its first slash, or the word for why it is refused."""
    out: cython.char[2049]
    size: uint32_t = 0
    failed: cython.int = path_decode(raw, len(raw), dotfiles, out, cython.address(size))
    return _FAILURES[failed] if failed else out[:size]


def encode_path(path: bytes):
    """Return a path as a part of a URL."""
    out = bytearray(3 * len(path) + 3)
    size: cython.int = path_encode(path, len(path), out, len(out))
    return bytes(out[:size])


def open_beneath(root: int, path: bytes, walk: bool = False):
    """Open a resolved path beneath the directory `root`, and return the descriptor. OSError if that cannot be done.

    `walk` goes name by name even where the kernel could be asked.
    """
    if b"\0" in path:
        raise UsageError(f"path is {path!r}; give one without NUL")
    walks: cython.bint = walk
    fd: cython.int = path_open(root, path, cython.address(walks))
    if fd < 0:
        raise OSError(-fd, os.strerror(-fd), path)
    return fd
