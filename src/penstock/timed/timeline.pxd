from cpython.ref cimport PyObject
from libc.stdint cimport int64_t, uint32_t

from penstock.timed.types cimport EventC, KeyC, PendingC, TimelineC, TriggerC

cdef int pending_insert(PendingC* pending, int64_t time_ns, uint32_t microstep, uint32_t late, PyObject* value) noexcept nogil
cdef EventC* pending_at(PendingC* pending, uint32_t index) noexcept nogil
cdef int64_t pending_find(PendingC* pending, int64_t time_ns, uint32_t microstep) noexcept nogil
cdef EventC pending_remove(PendingC* pending, uint32_t index) noexcept nogil
cdef bint key_before(const KeyC* a, const KeyC* b) noexcept nogil
cdef void line_set(TimelineC* line, uint32_t trigger, int64_t time_ns, uint32_t microstep) noexcept nogil
cdef void line_remove(TimelineC* line, uint32_t trigger) noexcept nogil
