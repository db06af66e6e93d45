from penstock.http.types cimport AnswerC, EntryC, FilesC, HeadC, RangesC

cdef enum:
    REDIRECT_BYTES = 800    # of a Location that is written in C: it fits into AnswerC.head with a status and a length

cdef void answer_reset(AnswerC* answer) noexcept nogil
# The answers that end here: an error with a word for people; nothing has changed; parts; somewhere else.
cdef void answer_refuse(FilesC* files, AnswerC* answer, int why) noexcept nogil
cdef void answer_unsatisfiable(FilesC* files, AnswerC* answer, const EntryC* entry) noexcept nogil
cdef void answer_whole(AnswerC* answer, EntryC* entry) noexcept nogil
cdef void answer_same(AnswerC* answer, const EntryC* entry) noexcept nogil
cdef void answer_part(AnswerC* answer, EntryC* entry, const RangesC* ranges) noexcept nogil
# To the directory whose path is files.path; false if its name does not fit.
cdef bint answer_redirect(FilesC* files, AnswerC* answer, const HeadC* head, const char* bytes) noexcept nogil
