/* Counts every request to the C allocator of the process that preloads it (LD_PRELOAD).
 *
 * Python's small objects come from its own pools and are not seen here: what is counted are queues that grow, handles
 * of C libraries, and large objects. glibc only: it forwards to glibc's own names.
 */
#include <stddef.h>

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);

static unsigned long requests;

unsigned long count_allocations(void) { return requests; }

void *malloc(size_t bytes) {
    __atomic_add_fetch(&requests, 1, __ATOMIC_RELAXED);
    return __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes) {
    __atomic_add_fetch(&requests, 1, __ATOMIC_RELAXED);
    return __libc_calloc(count, bytes);
}

void *realloc(void *old, size_t bytes) {
    __atomic_add_fetch(&requests, 1, __ATOMIC_RELAXED);
    return __libc_realloc(old, bytes);
}
