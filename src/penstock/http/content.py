# cython: language_level=3
"""From a file to an entry of the cache: opening, looking, reading, and the head that answers with it begin with.

What is read is a copy: a file that is truncated later does no harm. A file that changes while it is read is read again;
one that never rests is sent as it was found, and not kept. The times that a system keeps for its files come in steps,
so that a file that was changed a moment ago can change once more without a trace: such a one is not trusted until it has
rested for a while, but read again at each look.

A precompressed neighbour counts if it is a regular file and not older, in whole seconds, than the file itself: some
compressors copy the file's time without its fraction. An older one was forgotten when the file was changed, and is not
used.

This file must not know requests.
"""

import cython
from cython.cimports.libc.stdint import int64_t, uint32_t, uint64_t
from cython.cimports.libc.string import memcmp, strlen
from cython.cimports.penstock.http.cache import cache_clear, entry_new, entry_release
from cython.cimports.penstock.http.codings import coding_name, coding_suffix
from cython.cimports.penstock.http.dates import date_format
from cython.cimports.penstock.http.files_system import (
    EACCES,
    EAGAIN,
    EINTR,
    EMFILE,
    ENAMETOOLONG,
    ENFILE,
    ENODEV,
    ENOENT,
    ENOMEM,
    ENOTDIR,
    ENXIO,
    EPERM,
    EWOULDBLOCK,
    EXDEV,
    O_CLOEXEC,
    O_DIRECTORY,
    O_RDONLY,
    close,
    errno,
    open,
    platform_about,
    platform_about_file,
    platform_about_path,
    platform_wall_ns,
    pread,
    text_t,
)
from cython.cimports.penstock.http.mime import mime_of
from cython.cimports.penstock.http.paths import path_open
from cython.cimports.penstock.http.types import (
    CODING_COUNT,
    CODING_NONE,
    DATE_BYTES,
    DENY_ABSENT,
    DENY_BUSY,
    DENY_FORBIDDEN,
    DENY_LONG,
    DENY_OUTSIDE,
    DENY_SPECIAL,
    ENTRY_LARGE,
    ETAG_MAX_BYTES,
    EntryC,
    FilesC,
)
from cython.cimports.penstock.http.writer import WriterC, put, put_bytes, put_hex, put_number, writer_begin

from penstock import limits

IN_MEMORY = cython.declare(int64_t, limits.HTTP_FILE_IN_MEMORY_BYTES)
SETTLED_NS = cython.declare(int64_t, limits.HTTP_FILE_SETTLED_NS)
CHECK_NS = cython.declare(int64_t, limits.HTTP_FILE_CHECK_NS)
READ_TRIES = cython.declare(cython.int, limits.HTTP_FILE_READ_TRIES)
NS_PER_S = cython.declare(int64_t, limits.NS_PER_S)
HEAD_ROOM = cython.declare(
    uint32_t, 448
)  # every part of a head that _write_head writes is bounded, and their sum is less


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _denied(failed: cython.int) -> cython.int:
    """Why a file could not be opened."""
    if failed in (ENOENT, ENOTDIR):
        return DENY_ABSENT
    if failed in (EACCES, EPERM):
        return DENY_FORBIDDEN
    if failed in (EMFILE, ENFILE, ENOMEM, EAGAIN, EWOULDBLOCK, EINTR):
        return DENY_BUSY
    if failed in (ENXIO, ENODEV):
        return DENY_SPECIAL
    if failed == ENAMETOOLONG:
        return DENY_LONG
    return DENY_OUTSIDE if failed == EXDEV else DENY_ABSENT


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _open(
    files: cython.pointer[FilesC],
    path: text_t,
    size: uint32_t,
    coding: cython.int,
    about: cython.pointer[platform_about],
) -> cython.int:
    """Open the file that is sent for a path in a coding, and look at it: the descriptor, or -errno."""
    writer: WriterC
    if files.root < 0:
        return -ENOENT
    writer_begin(cython.address(writer), files.name, cython.sizeof(files.name) - 1)
    put_bytes(cython.address(writer), path, size)
    if size == 0 or path[size - 1] == b"/":
        put(cython.address(writer), files.index)
    if coding != CODING_NONE:
        put(cython.address(writer), coding_suffix(coding))
    if writer.full:
        return -ENAMETOOLONG
    files.name[writer.size] = 0
    fd: cython.int = path_open(files.root, files.name, cython.address(files.walks))
    if fd < 0:
        return fd
    failed: cython.int = platform_about_file(fd, about)
    if failed < 0:
        close(fd)
        return failed
    return fd


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _neighbours(files: cython.pointer[FilesC], path: text_t, size: uint32_t, modified_ns: int64_t) -> cython.uchar:
    """The codings in which a file is there as well, and at least as new."""
    found: cython.uchar = 0
    coding: cython.int
    about: platform_about
    if not files.precompressed:
        return 0
    for coding in range(CODING_COUNT):
        suffix: text_t = coding_suffix(coding)
        length: cython.uint = strlen(suffix)
        if size > length and memcmp(path + size - length, suffix, length) == 0:
            return 0  # it is one itself
    for coding in range(CODING_COUNT):
        fd: cython.int = _open(files, path, size, coding, cython.address(about))
        if fd >= 0:
            close(fd)
            if about.regular and about.modified_ns // NS_PER_S >= modified_ns // NS_PER_S:
                found |= 1 << coding
    return found


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _write_etag(entry: cython.pointer[EntryC]) -> cython.void:
    """A strong one: time, size and number of the file, and the coding, so that no two representations share it."""
    writer: WriterC
    writer_begin(cython.address(writer), entry.etag, ETAG_MAX_BYTES)
    put(cython.address(writer), b'"')
    put_hex(cython.address(writer), cython.cast(uint64_t, entry.modified_ns))
    put(cython.address(writer), b"-")
    put_hex(cython.address(writer), entry.size)
    put(cython.address(writer), b"-")
    put_hex(cython.address(writer), entry.inode)
    if entry.coding != CODING_NONE:
        put(cython.address(writer), b"-")
        put(cython.address(writer), coding_name(entry.coding))
    put(cython.address(writer), b'"')
    entry.etag_size = writer.size


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _write_head(files: cython.pointer[FilesC], entry: cython.pointer[EntryC], kind: text_t) -> cython.void:
    """The head of a 200: what only that has, then what a 206 has too, then what even a 304 has."""
    date: cython.char[DATE_BYTES]
    w: WriterC
    writer_begin(cython.address(w), entry.head, HEAD_ROOM)
    put(cython.address(w), b"HTTP/1.1 200 OK\r\nContent-Length: ")
    put_number(cython.address(w), entry.size)
    put(cython.address(w), b"\r\n")
    entry.head_fields = w.size
    put(cython.address(w), b"Content-Type: ")
    put(cython.address(w), kind)
    if entry.coding != CODING_NONE:
        put(cython.address(w), b"\r\nContent-Encoding: ")
        put(cython.address(w), coding_name(entry.coding))
    put(cython.address(w), b"\r\nAccept-Ranges: bytes\r\nLast-Modified: ")
    date_format(entry.modified_s, date)
    put_bytes(cython.address(w), date, DATE_BYTES)
    put(cython.address(w), b"\r\n")
    entry.head_kept = w.size
    put(cython.address(w), b"ETag: ")
    put_bytes(cython.address(w), entry.etag, entry.etag_size)
    put(cython.address(w), b"\r\n")
    put(cython.address(w), files.kept)
    if entry.neighbours or entry.coding != CODING_NONE:
        put(cython.address(w), b"Vary: Accept-Encoding\r\n")
    entry.head_size = w.size


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _is_as(entry: cython.pointer[EntryC], about: cython.pointer[platform_about]) -> cython.bint:
    """Whether a file has not changed, as far as one can see."""
    return (
        about.regular
        and entry.device == about.device
        and entry.inode == about.inode
        and entry.size == about.size
        and entry.modified_ns == about.modified_ns
    )


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _copy(entry: cython.pointer[EntryC], about: cython.pointer[platform_about]) -> cython.void:
    """Note what a file is."""
    wall_ns: int64_t = platform_wall_ns()
    entry.device = about.device
    entry.inode = about.inode
    entry.size = about.size
    entry.modified_ns = about.modified_ns
    entry.settled = wall_ns - about.modified_ns >= SETTLED_NS
    # No Last-Modified lies in the future (RFC 9110, 8.8.2.1). The division is to round down, also before 1970.
    modified_ns: int64_t = min(about.modified_ns, wall_ns)
    entry.modified_s = (modified_ns - ((modified_ns % NS_PER_S) + NS_PER_S) % NS_PER_S) // NS_PER_S


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _read(fd: cython.int, entry: cython.pointer[EntryC]) -> cython.int:
    """Read content into an entry, as much of it as there is; 0, or -errno."""
    got: int64_t = 0
    while got < entry.size:
        count: cython.Py_ssize_t = pread(fd, entry.body + got, entry.size - got, got)
        if count < 0 and errno != EINTR:
            return -errno
        if count == 0:
            break
        if count > 0:
            got += count
    entry.size = got
    return 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _make(
    files: cython.pointer[FilesC], fd: cython.int, coding: cython.int, about: cython.pointer[platform_about]
) -> cython.pointer[EntryC]:
    """An entry with content of an open regular file, which is closed unless the entry keeps it. NULL: it cannot be read."""
    entry: cython.pointer[EntryC]
    large: cython.bint = about.size > IN_MEMORY
    entry = entry_new(files.path, files.path_size, coding, HEAD_ROOM, 0 if large else about.size)
    if entry == cython.NULL:
        close(fd)
        return cython.NULL
    _copy(entry, about)
    if large:
        entry.kind = ENTRY_LARGE
        entry.fd = fd
        return entry
    failed: cython.int = _read(fd, entry)
    if failed == 0:
        failed = platform_about_file(fd, about)
    close(fd)
    if failed < 0:
        entry_release(entry)
        return cython.NULL
    return entry


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def content_load(
    files: cython.pointer[FilesC],
    coding: cython.int,
    now_ns: int64_t,
    out: cython.pointer[cython.pointer[EntryC]],
) -> cython.int:
    """Read a file. CONTENT_FOUND, CONTENT_DIRECTORY or DENY_..."""
    about: platform_about
    entry: cython.pointer[EntryC] = cython.NULL
    for _ in range(READ_TRIES):
        fd: cython.int = _open(files, files.path, files.path_size, coding, cython.address(about))
        if fd < 0:
            return _denied(-fd)
        if not about.regular:
            close(fd)
            return CONTENT_DIRECTORY if about.directory else DENY_SPECIAL
        if entry != cython.NULL:
            entry_release(entry)
        entry = _make(files, fd, coding, cython.address(about))
        if entry == cython.NULL:
            return DENY_BUSY
        if _is_as(entry, cython.address(about)):
            break
    # What has changed while it was read is not believed for a moment.
    rested: cython.bint = _is_as(entry, cython.address(about))
    entry.checked_ns = now_ns if rested else now_ns - CHECK_NS
    entry.settled = entry.settled and rested
    if coding == CODING_NONE:
        entry.neighbours = _neighbours(files, files.path, files.path_size, entry.modified_ns)
    kind: text_t = mime_of(files.path, files.path_size)
    if files.path_size == 0 or files.path[files.path_size - 1] == b"/":
        kind = mime_of(files.index, strlen(files.index))
    _write_etag(entry)
    _write_head(files, entry, kind)
    out[0] = entry
    return CONTENT_FOUND


# ---- looking again ---------------------------------------------------------------------------------------------------


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def content_is_same(files: cython.pointer[FilesC], entry: cython.pointer[EntryC], now_ns: int64_t) -> cython.bint:
    """Look at a file again."""
    about: platform_about
    fd: cython.int = _open(files, entry.key, entry.key_size, entry.coding, cython.address(about))
    if fd < 0:
        if _denied(-fd) != DENY_BUSY:
            return False
        entry.checked_ns = now_ns
        return True
    close(fd)
    if not entry.settled or not _is_as(entry, cython.address(about)):
        return False
    plain: cython.bint = entry.coding == CODING_NONE
    if plain and entry.neighbours != _neighbours(files, entry.key, entry.key_size, entry.modified_ns):
        return False
    entry.checked_ns = now_ns
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def content_check_root(files: cython.pointer[FilesC], now_ns: int64_t) -> cython.void:
    """Look whether the root is another directory by now (a release that was switched by a link), or none."""
    about: platform_about
    if files.closed or (now_ns - files.root_checked_ns < CHECK_NS and now_ns >= files.root_checked_ns):
        return
    files.root_checked_ns = now_ns
    failed: cython.int = platform_about_path(files.root_path, cython.address(about))
    if failed == 0 and files.root >= 0 and about.device == files.root_device and about.inode == files.root_inode:
        return
    if failed not in (0, -ENOENT, -ENOTDIR):
        return  # the way to it is barred by now, or the system is out of something: what is open stays good
    fd: cython.int = open(files.root_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) if failed == 0 else -1
    if failed == 0 and (fd < 0 or platform_about_file(fd, cython.address(about)) < 0):
        if fd >= 0:
            close(fd)
        return
    if files.root >= 0:
        close(files.root)
    files.root = fd
    files.root_device = about.device if fd >= 0 else 0
    files.root_inode = about.inode if fd >= 0 else 0
    cache_clear(cython.address(files.cache))
