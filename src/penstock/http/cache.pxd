cimport cython
from libc.stdint cimport int64_t, uint32_t, uint64_t

from penstock.http.files_system cimport text_t
from penstock.http.types cimport CacheC, EntryC

cdef int cache_open(CacheC* cache, uint32_t entries_max, uint64_t bytes_max, uint32_t open_max) noexcept nogil
cdef void cache_close(CacheC* cache) noexcept nogil
cdef void cache_clear(CacheC* cache) noexcept nogil
# The entry of a key and coding, which becomes the one used last; NULL: there is none.
cdef EntryC* cache_find(CacheC* cache, text_t key, uint32_t key_size, uint32_t hash, int coding) noexcept nogil
cdef uint32_t cache_hash(text_t key, uint32_t size, int coding) noexcept nogil
# An entry with room behind it for a key, a head and content; its caller owns it. NULL: there is no memory.
cdef EntryC* entry_new(text_t key, uint32_t key_size, int coding, uint32_t head_room, int64_t body_room) noexcept nogil
cdef void entry_release(EntryC* entry) noexcept nogil
# Take an entry into the cache, which keeps a count of its own; what was used least makes room for it.
cdef void cache_put(CacheC* cache, EntryC* entry) noexcept nogil
# Forget an entry; who has borrowed it keeps it.
cdef void cache_drop(CacheC* cache, EntryC* entry) noexcept nogil

@cython.final
cdef class EntryCache:
    cdef CacheC c
