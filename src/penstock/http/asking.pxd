from penstock.http.types cimport HeadC, HttpC, RequestC

cdef void ask_plain(HttpC* conn, const HeadC* head, const char* bytes, int status, const char* reason) noexcept nogil
cdef void ask_blindly(HttpC* conn, const HeadC* head, int status, const char* reason) noexcept nogil
cdef void ask_bad(HttpC* conn, const HeadC* head) noexcept nogil
cdef void ask_give_up(HttpC* conn, int status, const char* reason) noexcept nogil
cdef void ask_refuse(RequestC* request, int why) noexcept nogil
cdef void ask_push(HttpC* conn) noexcept nogil
cdef void ask_request(HttpC* conn, HeadC* head, const char* bytes) noexcept nogil
cdef size_t ask_content(HttpC* conn, const char* data, size_t size) noexcept nogil
