cimport cython
from libc.stdint cimport int64_t, uint64_t

from penstock.core.types cimport BudgetC

cdef enum:
    UNIT_WORK = 0
    UNIT_NS = 1
    REFILL_TURN = 0
    REFILL_TICK = 1

cdef void budget_refill(BudgetC* budget, uint64_t turn, uint64_t tick) noexcept nogil
cdef void budget_take(BudgetC* budget, int64_t amount) noexcept nogil
cdef bint budget_ok(const BudgetC* budget) noexcept nogil

@cython.final
cdef class Budget:
    cdef BudgetC c
