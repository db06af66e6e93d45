from libc.stdint cimport int64_t, uint32_t, uint64_t

from penstock.http.files_system cimport text_t

cdef struct WriterC:    # text that is put together in a place of fixed size
    char* start
    uint32_t size
    uint32_t room
    bint full           # something did not fit; what follows is not written either

cdef void writer_begin(WriterC* writer, char* start, uint32_t room) noexcept nogil
cdef void put_bytes(WriterC* writer, text_t text, uint32_t size) noexcept nogil
cdef void put(WriterC* writer, text_t text) noexcept nogil
cdef void put_number(WriterC* writer, int64_t number) noexcept nogil
cdef void put_hex(WriterC* writer, uint64_t number) noexcept nogil
