from libc.stdint cimport uint32_t

from penstock.core.types cimport (
    DescriptorC, DescriptorsC, LoopC, OperationC, OperationQueueC, RegistrationC
)

cdef void descriptors_init(DescriptorsC* every, uint32_t operations_max, uint32_t queue_max, uint32_t share) noexcept nogil
cdef int descriptors_reserve(DescriptorsC* every, uint32_t count) noexcept nogil
cdef void descriptors_free(DescriptorsC* every) noexcept nogil
cdef DescriptorC* record_take(DescriptorsC* every) noexcept nogil
cdef void record_give_back(DescriptorsC* every, DescriptorC* one) noexcept nogil
cdef void record_complete(LoopC* loop, OperationC* operation) noexcept nogil
cdef void record_refuse(LoopC* loop, OperationC* operation, int kind, int fd, int error) noexcept nogil
cdef OperationC* record_next(LoopC* loop, OperationQueueC* queue) noexcept nogil
cdef RegistrationC* record_registration(LoopC* loop, DescriptorC* one) noexcept nogil
cdef int record_tell(LoopC* loop, DescriptorC* one, uint32_t filters) noexcept nogil
cdef void record_untell(LoopC* loop, DescriptorC* one) noexcept nogil
cdef uint32_t record_bit(int kind) noexcept nogil
cdef int record_arm(LoopC* loop, DescriptorC* one, int kind, bint anew) noexcept nogil
