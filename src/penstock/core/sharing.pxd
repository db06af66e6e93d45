# What a loop that threads share needs of the system beyond a lock, nothing else.
from penstock.core.system cimport pthread_mutex_t

cdef extern from "pthread.h" nogil:
    int pthread_mutex_trylock(pthread_mutex_t* lock)

cdef extern from "Python.h" nogil:
    unsigned long this_thread "PyThread_get_thread_ident"()

cdef extern from * nogil:
    # A thread reads whether it has the lock while others take it and give it back.
    unsigned long atomic_load "__atomic_load_n"(const unsigned long* value, int order)
    void atomic_store "__atomic_store_n"(unsigned long* value, unsigned long to, int order)
    int ATOMIC_RELAXED "__ATOMIC_RELAXED"
