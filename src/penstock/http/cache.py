# cython: language_level=3
"""What is known of files, within bounds: entries, bytes of memory and open descriptors. What was used least goes first.

    slots[hash & mask] -> entry -chain-> entry       found by path and coding
    newest -older-> entry -older-> oldest            the order of use

Entries are counted: one for the cache itself, one for each answer that is still being sent from it. An entry that is
dropped while it is borrowed lives until it is given back. An entry is one piece of memory with its key, its head and its
content. This file must not know what a file is: it closes descriptors, and that is all.
"""

import cython
from cython.cimports.libc.stdint import int64_t, uint32_t, uint64_t
from cython.cimports.libc.stdlib import calloc, free, malloc
from cython.cimports.libc.string import memcmp, memcpy, memset
from cython.cimports.penstock.http.files_system import close, open, text_t
from cython.cimports.penstock.http.types import ENTRY_FILE, ENTRY_LARGE, CacheC, EntryC

SLOTS_MIN = cython.declare(uint32_t, 16)
MIX = cython.declare(uint64_t, 0x9E3779B97F4A7C15)  # an odd number whose bits are without a pattern


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def cache_open(
    cache: cython.pointer[CacheC], entries_max: uint32_t, bytes_max: uint64_t, open_max: uint32_t
) -> cython.int:
    """An empty cache; -1 if there is no memory for its table."""
    slots: uint32_t = SLOTS_MIN
    memset(cache, 0, cython.sizeof(CacheC))
    while slots < entries_max:
        slots *= 2
    cache.slots = cython.cast(
        cython.pointer[cython.pointer[EntryC]], calloc(slots, cython.sizeof(cython.pointer[EntryC]))
    )
    if cache.slots == cython.NULL:
        return -1
    cache.mask = slots - 1
    cache.entries_max = entries_max
    cache.bytes_max = bytes_max
    cache.open_max = open_max
    return 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def cache_clear(cache: cython.pointer[CacheC]) -> cython.void:
    """Forget everything."""
    while cache.oldest != cython.NULL:
        cache_drop(cache, cache.oldest)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def cache_close(cache: cython.pointer[CacheC]) -> cython.void:
    """Forget everything, and give the table back; only cache_open may follow."""
    cache_clear(cache)
    free(cache.slots)
    cache.slots = cython.NULL


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def cache_hash(key: text_t, size: uint32_t, coding: cython.int) -> uint32_t:
    """Eight bytes at a time. Only names of files that are there get into the table, so nobody outside can choose them."""
    mixed: uint64_t = size * 8 + coding
    word: uint64_t = 0
    while size >= 8:
        memcpy(cython.address(word), key, 8)
        mixed = (mixed ^ word) * MIX
        mixed ^= mixed >> 32
        key += 8
        size -= 8
    if size:
        word = 0
        memcpy(cython.address(word), key, size)
        mixed = (mixed ^ word) * MIX
        mixed ^= mixed >> 32
    return cython.cast(uint32_t, (mixed * MIX) >> 32)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _unlink(cache: cython.pointer[CacheC], entry: cython.pointer[EntryC]) -> cython.void:
    """Take an entry out of the order of use."""
    if entry.newer != cython.NULL:
        entry.newer.older = entry.older
    else:
        cache.newest = entry.older
    if entry.older != cython.NULL:
        entry.older.newer = entry.newer
    else:
        cache.oldest = entry.newer


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _link(cache: cython.pointer[CacheC], entry: cython.pointer[EntryC]) -> cython.void:
    """Make an entry the one used last."""
    entry.newer = cython.NULL
    entry.older = cache.newest
    if cache.newest != cython.NULL:
        cache.newest.newer = entry
    else:
        cache.oldest = entry
    cache.newest = entry


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def cache_find(
    cache: cython.pointer[CacheC], key: text_t, key_size: uint32_t, hash: uint32_t, coding: cython.int
) -> cython.pointer[EntryC]:
    """Look a key up."""
    entry: cython.pointer[EntryC] = cache.slots[hash & cache.mask]
    while entry != cython.NULL:
        same: cython.bint = entry.hash == hash and entry.key_size == key_size and entry.coding == coding
        if same and memcmp(entry.key, key, key_size) == 0:
            if entry.newer != cython.NULL:
                _unlink(cache, entry)
                _link(cache, entry)
            return entry
        entry = entry.chain
    return cython.NULL


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def entry_new(
    key: text_t, key_size: uint32_t, coding: cython.int, head_room: uint32_t, body_room: int64_t
) -> cython.pointer[EntryC]:
    """An entry that its caller owns."""
    weight: cython.size_t = cython.sizeof(EntryC) + key_size + 1 + head_room + body_room
    entry: cython.pointer[EntryC] = cython.cast(cython.pointer[EntryC], malloc(weight))
    if entry == cython.NULL:
        return cython.NULL
    memset(entry, 0, cython.sizeof(EntryC))
    entry.refs = 1
    entry.fd = -1
    entry.coding = coding
    entry.weight = weight
    entry.key = cython.cast(cython.p_char, entry) + cython.sizeof(EntryC)
    entry.key_size = key_size
    memcpy(entry.key, key, key_size)
    entry.key[key_size] = 0
    entry.hash = cache_hash(key, key_size, coding)
    entry.head = entry.key + key_size + 1
    entry.body = entry.head + head_room
    entry.kind = ENTRY_FILE
    return entry


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def entry_release(entry: cython.pointer[EntryC]) -> cython.void:
    """Give a count back; with the last one the entry is gone."""
    entry.refs -= 1
    if entry.refs == 0:
        if entry.fd >= 0:
            close(entry.fd)
        free(entry)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def cache_drop(cache: cython.pointer[CacheC], entry: cython.pointer[EntryC]) -> cython.void:
    """Forget an entry."""
    place: cython.pointer[cython.pointer[EntryC]] = cython.address(cache.slots[entry.hash & cache.mask])
    while place[0] != entry:
        place = cython.address(place[0].chain)
    place[0] = entry.chain
    _unlink(cache, entry)
    entry.cached = False
    cache.entries -= 1
    cache.bytes -= entry.weight
    cache.open_files -= entry.fd >= 0
    entry_release(entry)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _evict_open(cache: cython.pointer[CacheC]) -> cython.void:
    """Drop the entry with a descriptor that was used least. The walk to it is short beside the opening of a file."""
    entry: cython.pointer[EntryC] = cache.oldest
    while entry != cython.NULL and entry.fd < 0:
        entry = entry.newer
    if entry != cython.NULL:
        cache.evicted += 1
        cache_drop(cache, entry)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def cache_put(cache: cython.pointer[CacheC], entry: cython.pointer[EntryC]) -> cython.void:
    """Take an entry in, unless it alone is more than the cache may hold."""
    if entry.weight > cache.bytes_max or cache.entries_max == 0 or (entry.fd >= 0 and cache.open_max == 0):
        return
    while cache.entries >= cache.entries_max or cache.bytes + entry.weight > cache.bytes_max:
        cache.evicted += 1
        cache_drop(cache, cache.oldest)
    if entry.fd >= 0 and cache.open_files >= cache.open_max:
        _evict_open(cache)
    place: uint32_t = entry.hash & cache.mask
    entry.chain = cache.slots[place]
    cache.slots[place] = entry
    _link(cache, entry)
    entry.refs += 1
    entry.cached = True
    cache.entries += 1
    cache.bytes += entry.weight
    cache.open_files += entry.fd >= 0


class EntryCache:
    """A cache by itself, for tests: content by key."""

    def __cinit__(self, entries_max: int, bytes_max: int, open_max: int):
        if cache_open(cython.address(self.c), entries_max, bytes_max, open_max) < 0:
            raise MemoryError("no memory for a cache")

    def __dealloc__(self):
        if self.c.slots != cython.NULL:
            cache_close(cython.address(self.c))

    def put(self, key: bytes, coding: int, body: bytes, descriptor: bool = False):
        """Put content in, or an open descriptor; it takes the place of what the key had."""
        old: cython.pointer[EntryC] = cache_find(
            cython.address(self.c), key, len(key), cache_hash(key, len(key), coding), coding
        )
        if old != cython.NULL:
            cache_drop(cython.address(self.c), old)
        entry: cython.pointer[EntryC] = entry_new(key, len(key), coding, 0, len(body))
        if entry == cython.NULL:
            raise MemoryError("no memory for an entry")
        memcpy(entry.body, cython.cast(cython.p_char, body), len(body))
        entry.size = len(body)
        if descriptor:
            entry.kind = ENTRY_LARGE
            entry.fd = open(b"/dev/null", 0)
        cache_put(cython.address(self.c), entry)
        weight = entry.weight
        entry_release(entry)
        return weight

    def get(self, key: bytes, coding: int):
        """Return the content of a key; None if there is none."""
        entry: cython.pointer[EntryC] = cache_find(
            cython.address(self.c), key, len(key), cache_hash(key, len(key), coding), coding
        )
        return None if entry == cython.NULL else entry.body[: entry.size]

    def borrow(self, key: bytes, coding: int):
        """Take a count of an entry; return a handle for `body_of` and `give_back`."""
        entry: cython.pointer[EntryC] = cache_find(
            cython.address(self.c), key, len(key), cache_hash(key, len(key), coding), coding
        )
        if entry == cython.NULL:
            raise KeyError(key)
        entry.refs += 1
        return cython.cast(cython.size_t, entry)

    def body_of(self, handle: int):
        """Return the content of a borrowed entry."""
        entry: cython.pointer[EntryC] = cython.cast(
            cython.pointer[EntryC], cython.cast(cython.p_void, cython.cast(cython.size_t, handle))
        )
        return entry.body[: entry.size]

    def give_back(self, handle: int):
        """Give a borrowed entry back."""
        entry_release(
            cython.cast(cython.pointer[EntryC], cython.cast(cython.p_void, cython.cast(cython.size_t, handle)))
        )

    def clear(self):
        """Forget everything."""
        cache_clear(cython.address(self.c))

    def keys(self):
        """Return all keys with their codings, the one used last first."""
        found = []
        entry: cython.pointer[EntryC] = self.c.newest
        while entry != cython.NULL:
            found.append((entry.key[: entry.key_size], int(entry.coding)))
            entry = entry.older
        return found

    @property
    def counters(self):
        """Entries, bytes, open descriptors, evicted."""
        return self.c.entries, self.c.bytes, self.c.open_files, self.c.evicted
