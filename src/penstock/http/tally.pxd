from penstock.http.types cimport EngineC

cdef dict tally(EngineC* c)
cdef dict tally_again(EngineC* c)
