from libc.stdint cimport uint32_t, uint64_t

from penstock.core.types cimport DescriptorC, LoopC, OperationC

cdef int descriptors_shutdown(LoopC* loop) except -1
cdef DescriptorC* descriptor_open(LoopC* loop, int fd, bint edge, int* failed) noexcept nogil
cdef DescriptorC* descriptor_open_internal(LoopC* loop, int fd, bint edge, OperationC* operation, int* failed) noexcept nogil
cdef bint descriptor_start(LoopC* loop, DescriptorC* one, OperationC* operation, int kind, bint speculative) noexcept nogil
cdef uint32_t descriptor_cancel(LoopC* loop, DescriptorC* one, int kind) noexcept nogil
cdef uint32_t descriptor_cancel_key(LoopC* loop, DescriptorC* one, int kind, const void* key) noexcept nogil
cdef uint32_t descriptor_cancel_chosen(LoopC* loop, DescriptorC* one, int kind) noexcept nogil
cdef uint32_t descriptor_deregister(LoopC* loop, DescriptorC* one) noexcept nogil
cdef void descriptors_after_fork(LoopC* loop) noexcept nogil
