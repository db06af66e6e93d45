from penstock.core.types cimport DescriptorsC, OperationC, OperationQueueC

cdef void queue_push(OperationQueueC* queue, OperationC* operation) noexcept nogil
cdef OperationC* queue_pop(OperationQueueC* queue) noexcept nogil
cdef void queue_choose(OperationQueueC* queue, OperationQueueC* chosen) noexcept nogil
cdef OperationC* operation_new(DescriptorsC* owner) noexcept nogil
cdef int operation_destroy(DescriptorsC* owner, OperationC* operation) except -1
cdef void operation_release(DescriptorsC* owner, OperationC* operation)
cdef void operation_detach(DescriptorsC* owner, OperationC* operation, OperationC* held) noexcept nogil
cdef void operation_let_go(OperationC* held)
cdef tuple operation_told(OperationC* held)
cdef tuple operation_outcome(DescriptorsC* owner, OperationC* operation)
cdef int perform_read(OperationC* operation, int fd) noexcept nogil
cdef int perform_read_into(OperationC* operation, int fd) noexcept nogil
cdef int perform_write(OperationC* operation, int fd) noexcept nogil
cdef int perform_wait(OperationC* operation, int fd) noexcept nogil
cdef int perform_python(OperationC* operation, int fd) noexcept nogil
