from libc.stdint cimport int32_t, uint32_t, uint64_t

from penstock.core.types cimport RegistrationC, RegistryC

cdef void registry_init(RegistryC* registry, uint32_t capacity) noexcept nogil
cdef void registry_free(RegistryC* registry) noexcept nogil
cdef RegistrationC* registry_at(RegistryC* registry, int fd) noexcept nogil
cdef RegistrationC* registry_of(RegistryC* registry, uint64_t token) noexcept nogil
cdef RegistrationC* registry_open(RegistryC* registry, int fd) noexcept nogil
cdef void registry_close(RegistryC* registry, int fd) noexcept nogil
cdef uint64_t registry_token(const RegistrationC* registration, int fd) noexcept nogil
cdef void registry_note_change(RegistryC* registry, int fd) noexcept nogil
cdef int registry_next_change(RegistryC* registry) noexcept nogil
cdef void registry_note_again(RegistryC* registry, int fd, uint32_t events) noexcept nogil
cdef int registry_next_again(RegistryC* registry) noexcept nogil
cdef bint registry_ok(const RegistryC* registry) noexcept nogil
