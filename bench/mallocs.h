/* SPDX-License-Identifier: MIT
 *
 * Counts the calls of malloc and its like while mallocs_count is set, in the phase that is measured;
 * where that can be done, COUNTS_MALLOCS is defined. To be included after report.h. */
#ifndef PLIM_BENCH_MALLOCS_H
#define PLIM_BENCH_MALLOCS_H

#include "report.h"

#ifdef COUNTS_MALLOCS
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *memory, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

/* Until it is set they only look: peers that allocate must not pay for it. Volatile, because the
 * compiler believes that no function of the C library comes back to this file. */
static volatile bool mallocs_count;
static uint64_t mallocs;

static void count_malloc(void)
{
    if (mallocs_count && bench_phase(&run) == BENCH_MEASURE) {
        __atomic_add_fetch(&mallocs, 1, __ATOMIC_RELAXED);
    }
}

void *malloc(size_t size)
{
    count_malloc();
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    count_malloc();
    return __libc_calloc(count, size);
}

void *realloc(void *memory, size_t size)
{
    count_malloc();
    return __libc_realloc(memory, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
    count_malloc();
    return __libc_memalign(alignment, size);
}

/* A count of 0 is worth something only if it would have been seen: also one in a library. */
static inline void check_that_mallocs_count(void)
{
    __atomic_store_n(&mallocs, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&run.phase, BENCH_MEASURE, __ATOMIC_RELAXED);
    mallocs_count = true;
    char *volatile copy = strdup(this_program->name); /* volatile, or it would not be called */
    mallocs_count = false;
    free(copy);
    must(bench_read(&mallocs) != 1);
}
#endif

#endif
