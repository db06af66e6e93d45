from libc.stdint cimport int64_t

from penstock.http.files_system cimport text_t

cdef enum:
    DATES_BYTES = 29    # what date_format writes

cdef const char* WEEKDAYS
cdef const char* WEEKDAYS_LONG[7]
cdef const char* MONTHS

# Writes the 29 bytes of "Sun, 06 Nov 1994 08:49:37 GMT".
cdef void date_format(int64_t seconds, char* out) noexcept nogil
# Seconds since 1970 of a date in any of the three forms; false if it is none. `now_s` is the present, for years of two digits.
cdef bint date_parse(text_t text, unsigned int size, int64_t now_s, int64_t* seconds) noexcept nogil
