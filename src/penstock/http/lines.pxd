from libc.stdint cimport uint32_t

from penstock.http.types cimport FormatC, LogLineC

cdef int format_init(FormatC* format, object text, bint query) except -1
cdef void format_free(FormatC* format) noexcept nogil
# Write a line with its end; `out` has at least `line_max` bytes. Returns its size.
cdef uint32_t format_line(FormatC* format, const LogLineC* line, char* out) noexcept nogil
