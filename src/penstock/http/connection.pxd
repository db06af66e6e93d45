# The table as numbers, filled when the module is imported and never changed.
cdef signed char next_states[9][8]

cdef int connection_step(int state, int event) noexcept nogil
