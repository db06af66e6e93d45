from libc.stdint cimport uint8_t, uint32_t

from penstock.http.types cimport FIELD_COUNT

cdef enum:                  # what a byte may be part of
    CHAR_TOKEN = 1          # RFC 9110, 5.6.2
    CHAR_PATH = 2           # a target up to its question mark
    CHAR_QUERY = 4          # and after it
    CHAR_NAME = 8           # a registered name: RFC 3986, 3.2.2, without the percent sign
    CHAR_VALUE = 16         # a field's value: RFC 9110, 5.5
    CHAR_DIGIT = 32
    CHAR_HEX = 64

cdef enum:
    FIELD_NAME_BYTES = 20   # the longest name that is known, and a zero
    FIELD_SLOTS = 32
    SLOT_SIZE = 2
    SLOT_FIRST = 1
    SLOT_LAST = 10

# Filled when the module is imported and never changed.
cdef uint8_t chars[256]
cdef uint8_t field_slots[FIELD_SLOTS]
cdef uint8_t field_sizes[FIELD_COUNT]
cdef char field_names[FIELD_COUNT][FIELD_NAME_BYTES]

cdef int method_of(const char* text, uint32_t size) noexcept nogil
cdef int field_of(const char* text, uint32_t size) noexcept nogil
# Whether a text is a word, which is given in lower case and has no control characters.
cdef bint same_word(const char* text, uint32_t size, const char* word, uint32_t word_size) noexcept nogil
# The next item of a list from `at` on, without the white space around it; it may be empty. False: there are no more.
cdef bint next_item(
    const char* value, uint32_t size, uint32_t* at, const char** item, uint32_t* item_size
) noexcept nogil
# Whether a field's value has no control characters but tabulators.
cdef bint clean_value(const char* text, uint32_t size) noexcept nogil
cdef bint is_token(const char* text, uint32_t size) noexcept nogil
cdef int hex_digit(uint8_t char) noexcept nogil
