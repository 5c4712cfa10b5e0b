/* SPDX-License-Identifier: MIT
 *
 * Counts the futex wakes that a header makes, in the phase that is measured; where that can be done,
 * COUNTS_WAKES is defined. To be included before the header; #undef syscall comes after it. Wakes
 * that the C library makes are not seen.
 */
#ifndef PLIM_BENCH_WAKES_H
#define PLIM_BENCH_WAKES_H

#include "bench.h"

#ifdef __linux__
#include <sys/syscall.h>
#include <unistd.h>

#ifdef SYS_futex
#define COUNTS_WAKES
static uint64_t wakes;
static const int *wakes_phase; /* of the run; NULL: nothing is counted */

static inline void count_wake(long number, long op)
{
    if (number == SYS_futex && (op & 127) == 1 && wakes_phase != NULL &&
        __atomic_load_n(wakes_phase, __ATOMIC_RELAXED) == BENCH_MEASURE) {
        __atomic_add_fetch(&wakes, 1, __ATOMIC_RELAXED);
    }
}

#define WAKES_OF(number, address, op, ...) count_wake((number), (long)(op))
#define syscall(...) (WAKES_OF(__VA_ARGS__, 0, 0, 0), syscall(__VA_ARGS__))
#endif
#endif
#endif
