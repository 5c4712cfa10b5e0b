/* SPDX-License-Identifier: MIT
 *
 * Counts what the header under test allocates, to see that it seldom does and gives all of it back.
 * Include it before that header.
 */
#ifndef PLIM_TEST_COUNTED_MEMORY_H
#define PLIM_TEST_COUNTED_MEMORY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

static atomic_int allocations, blocks; /* successful calls of malloc, and what is not freed */
static atomic_bool memory_is_out;      /* every call fails */

static inline void *counted_malloc(size_t size)
{
    void *memory = atomic_load(&memory_is_out) ? NULL : malloc(size);
    if (memory != NULL) {
        atomic_fetch_add(&allocations, 1);
        atomic_fetch_add(&blocks, 1);
    }
    return memory;
}

static inline void counted_free(void *memory)
{
    if (memory != NULL) {
        atomic_fetch_sub(&blocks, 1);
    }
    free(memory);
}

#define PLIM_MALLOC(size) counted_malloc(size)
#define PLIM_FREE(memory) counted_free(memory)

/* What an earlier test left behind, if it failed, is not the fault of this one. */
static int blocks_before;

static inline void remember_blocks(void *data) /* a setup */
{
    (void)data;
    blocks_before = atomic_load(&blocks);
}

#endif
