# cython: language_level=3
"""One answer about a path, in C: from the cache, from the disk, or the reason why not.

    path --decode--> cache --missed--> disk --> coding --> conditions --> whole | part | 304 | 412 | 416

A hit allocates nothing and asks the system nothing. What is in the cache is looked at again after a second, when it is
asked for; a name that is not there is not remembered, so that nobody can fill the cache with what there is not. If the
system has no descriptor left to look with, what is in the cache stays good.

This file must not know connections or sockets, nor touch an object of the interpreter.
"""

import cython
from cython.cimports.libc.stdint import int64_t, uint32_t
from cython.cimports.penstock.http.answers import (
    answer_part,
    answer_redirect,
    answer_refuse,
    answer_reset,
    answer_same,
    answer_unsatisfiable,
    answer_whole,
)
from cython.cimports.penstock.http.cache import cache_drop, cache_find, cache_hash, cache_put, entry_release
from cython.cimports.penstock.http.codings import CODING_REFUSED, coding_choose
from cython.cimports.penstock.http.conditions import (
    CONDITION_FAILED,
    CONDITION_MET,
    ValidatorsC,
    conditions_judge,
    conditions_range,
    head_has_conditions,
)
from cython.cimports.penstock.http.content import (
    CONTENT_DIRECTORY,
    CONTENT_FOUND,
    content_check_root,
    content_is_same,
    content_load,
)
from cython.cimports.penstock.http.files_system import (
    bytes_t,
    close,
    platform_about,
    platform_about_file,
    platform_wall_ns,
    text_t,
)
from cython.cimports.penstock.http.paths import PATH_BAD, PATH_HIDDEN, PATH_OK, path_decode, path_open
from cython.cimports.penstock.http.ranges import RANGE_IGNORED, RANGE_NONE
from cython.cimports.penstock.http.types import (
    CODING_NONE,
    DENY_ABSENT,
    DENY_CODING,
    DENY_CONDITION,
    DENY_HIDDEN,
    DENY_LONG,
    DENY_MALFORMED,
    DENY_METHOD,
    METHOD_GET,
    METHOD_HEAD,
    SLOW_LISTING,
    SLOW_NOTHING,
    SLOW_RANGES,
    SLOW_REDIRECT,
    TARGET_ABSOLUTE,
    TARGET_ORIGIN,
    AnswerC,
    EntryC,
    FilesC,
    HeadC,
)

from penstock import limits

CHECK_NS = cython.declare(int64_t, limits.HTTP_FILE_CHECK_NS)
NS_PER_S = cython.declare(int64_t, limits.NS_PER_S)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _entry(
    files: cython.pointer[FilesC],
    now_ns: int64_t,
    coding: cython.int,
    out: cython.pointer[cython.pointer[EntryC]],
) -> cython.int:
    """The entry of files.path in a coding, with a count for the caller. CONTENT_FOUND, CONTENT_DIRECTORY or DENY_..."""
    hash: uint32_t = cache_hash(files.path, files.path_size, coding)
    entry: cython.pointer[EntryC] = cache_find(cython.address(files.cache), files.path, files.path_size, hash, coding)
    if entry != cython.NULL:
        if entry.checked_ns <= now_ns < entry.checked_ns + CHECK_NS:
            files.hits += 1
            entry.refs += 1
            out[0] = entry
            return CONTENT_FOUND
        return _look_again(files, now_ns, entry, out)
    content_check_root(files, now_ns)
    return _load(files, now_ns, coding, out)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _look_again(
    files: cython.pointer[FilesC],
    now_ns: int64_t,
    entry: cython.pointer[EntryC],
    out: cython.pointer[cython.pointer[EntryC]],
) -> cython.int:
    """The same for an entry that may be out of date."""
    coding: cython.int = entry.coding
    entry.refs += 1
    content_check_root(files, now_ns)
    if entry.cached and content_is_same(files, entry, now_ns):
        files.revalidated += 1
        out[0] = entry
        return CONTENT_FOUND
    if entry.cached:
        cache_drop(cython.address(files.cache), entry)
    entry_release(entry)
    return _load(files, now_ns, coding, out)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _load(
    files: cython.pointer[FilesC],
    now_ns: int64_t,
    coding: cython.int,
    out: cython.pointer[cython.pointer[EntryC]],
) -> cython.int:
    """The same from the disk."""
    found: cython.int = content_load(files, coding, now_ns, out)
    if found == CONTENT_FOUND:
        files.misses += 1
        cache_put(cython.address(files.cache), out[0])
    return found


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _names_directory(files: cython.pointer[FilesC]) -> cython.bint:
    """Whether the path ends with a slash, or is the root."""
    return files.path_size == 0 or files.path[files.path_size - 1] == b"/"


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _is_directory(files: cython.pointer[FilesC]) -> cython.bint:
    """Whether there is a directory of that path, which we may read."""
    about: platform_about
    if files.root < 0:
        return False
    fd: cython.int = path_open(files.root, files.path, cython.address(files.walks))
    if fd < 0:
        return False
    failed: cython.int = platform_about_file(fd, cython.address(about))
    close(fd)
    return failed == 0 and about.directory


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _slowly(files: cython.pointer[FilesC], answer: cython.pointer[AnswerC], what: cython.int) -> cython.void:
    files.slow = what
    answer.python = True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _answer_other(
    files: cython.pointer[FilesC],
    head: cython.pointer[cython.const[HeadC]],
    bytes: text_t,
    answer: cython.pointer[AnswerC],
    found: cython.int,
) -> cython.void:
    """There is no such file: a directory, perhaps, or nothing."""
    if found == CONTENT_DIRECTORY and not _names_directory(files):
        if not answer_redirect(files, answer, head, bytes):
            _slowly(files, answer, SLOW_REDIRECT)
        return
    if found == CONTENT_DIRECTORY or found == DENY_ABSENT:
        if files.listing and _names_directory(files) and _is_directory(files):
            _slowly(files, answer, SLOW_LISTING)
            return
        found = DENY_ABSENT
    answer_refuse(files, answer, found)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _answer_conditional(
    files: cython.pointer[FilesC],
    head: cython.pointer[cython.const[HeadC]],
    bytes: text_t,
    answer: cython.pointer[AnswerC],
    entry: cython.pointer[EntryC],
) -> cython.void:
    """There is such a file, and the request says under which conditions it is wanted, or which part."""
    validators: ValidatorsC
    validators.etag = entry.etag
    validators.etag_size = entry.etag_size
    validators.modified_s = entry.modified_s
    validators.exact = entry.settled
    validators.now_s = platform_wall_ns() // NS_PER_S
    verdict: cython.int = conditions_judge(head, bytes, cython.address(validators))
    if verdict == CONDITION_FAILED:
        answer_refuse(files, answer, DENY_CONDITION)
        return
    if verdict != CONDITION_MET:
        answer_same(answer, entry)
        return
    wanted: cython.int = conditions_range(
        head, bytes, cython.address(validators), entry.size, cython.address(files.ranges)
    )
    if wanted == RANGE_IGNORED:
        answer_whole(answer, entry)
    elif wanted == RANGE_NONE:
        answer_unsatisfiable(files, answer, entry)
    elif files.ranges.count == 1:
        answer_part(answer, entry, cython.address(files.ranges))
    else:
        _slowly(files, answer, SLOW_RANGES)
        entry.refs += 1
        answer.entry = entry


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _encoded(
    files: cython.pointer[FilesC],
    now_ns: int64_t,
    head: cython.pointer[cython.const[HeadC]],
    bytes: text_t,
    entry: cython.pointer[EntryC],
) -> cython.pointer[EntryC]:
    """The entry in the coding that the client likes best, in exchange for the one given; NULL: there is none for it."""
    other: cython.pointer[EntryC] = cython.NULL
    coding: cython.int = coding_choose(head, bytes, entry.neighbours)
    if coding == CODING_NONE:
        return entry
    if coding == CODING_REFUSED or _entry(files, now_ns, coding, cython.address(other)) != CONTENT_FOUND:
        if coding != CODING_REFUSED:
            return entry  # the neighbour is gone since somebody looked: what is there is better than nothing
        entry_release(entry)
        return cython.NULL
    entry_release(entry)
    return other


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _decode(files: cython.pointer[FilesC], head: cython.pointer[cython.const[HeadC]], bytes: text_t) -> cython.int:
    """Bring the path of a request into files.path. -1, or DENY_..."""
    raw: bytes_t = cython.cast(bytes_t, bytes + head.path.start)
    failed: cython.int = path_decode(raw, head.path.size, files.dotfiles, files.path, cython.address(files.path_size))
    if failed == PATH_OK:
        return -1
    if failed == PATH_BAD:
        return DENY_MALFORMED
    return DENY_HIDDEN if failed == PATH_HIDDEN else DENY_LONG


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def lookup_answer(
    files: cython.pointer[FilesC],
    now_ns: int64_t,
    head: cython.pointer[cython.const[HeadC]],
    bytes: text_t,
    answer: cython.pointer[AnswerC],
) -> cython.void:
    """Answer. If that is for Python to do, files.slow says what it is, and the answer may still hold an entry."""
    entry: cython.pointer[EntryC] = cython.NULL
    answer_reset(answer)
    files.slow = SLOW_NOTHING
    if head.method != METHOD_GET and head.method != METHOD_HEAD:
        answer_refuse(files, answer, DENY_METHOD)
        return
    if head.form != TARGET_ORIGIN and head.form != TARGET_ABSOLUTE:
        answer_refuse(files, answer, DENY_MALFORMED)
        return
    why: cython.int = _decode(files, head, bytes)
    if why >= 0:
        answer_refuse(files, answer, why)
        return
    found: cython.int = _entry(files, now_ns, CODING_NONE, cython.address(entry))
    if found != CONTENT_FOUND:
        _answer_other(files, head, bytes, answer, found)
        return
    if files.precompressed:
        entry = _encoded(files, now_ns, head, bytes, entry)
        if entry == cython.NULL:
            answer_refuse(files, answer, DENY_CODING)
            return
    if head_has_conditions(head):
        _answer_conditional(files, head, bytes, answer, entry)
    else:
        answer_whole(answer, entry)
    entry_release(entry)
