/* SPDX-License-Identifier: MIT
 *
 * Memory and threads that run out, by macros over the names that the headers use. Also something
 * that happens in the middle of an allocation, or after a thread was created and before its creator
 * knows. Include it before the header under test.
 */
#ifndef PLIM_TEST_SCARCITY_H
#define PLIM_TEST_SCARCITY_H

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <threads.h>

static atomic_int allocations, blocks; /* calls of malloc, and what is not freed */
static atomic_int memory_left;         /* so many more succeed */
static atomic_int threads_left;        /* likewise */
static atomic_int created;             /* threads */

static bool one_of(atomic_int *left)
{
    int n = atomic_load(left);
    while (n > 0 && !atomic_compare_exchange_weak(left, &n, n - 1)) {
        continue;
    }
    return n > 0;
}

/* Done once: in the next allocation; when the next thread has been created. */
typedef void (*deed)(void);
static _Atomic(deed) while_allocating, once_created;

static void do_once(_Atomic(deed) *what)
{
    deed now = atomic_exchange(what, NULL);
    if (now != NULL) {
        now();
    }
}

static void *get_memory(size_t size)
{
    atomic_fetch_add(&allocations, 1);
    do_once(&while_allocating);
    if (!one_of(&memory_left)) {
        return NULL;
    }
    atomic_fetch_add(&blocks, 1);
    return malloc(size);
}

static void give_memory(void *memory)
{
    if (memory != NULL) {
        atomic_fetch_sub(&blocks, 1);
        free(memory);
    }
}

#define PLIM_MALLOC(size) get_memory(size)
#define PLIM_FREE(memory) give_memory(memory)

static int no_threads_error = thrd_error;

__attribute__((unused)) static int create_c11(thrd_t *t, int (*run)(void *), void *arg)
{
    if (!one_of(&threads_left)) {
        return no_threads_error;
    }
    atomic_fetch_add(&created, 1);
    int result = thrd_create(t, run, arg);
    do_once(&once_created); /* before the creator knows of it */
    return result;
}

__attribute__((unused)) static int create_posix(pthread_t *t, const pthread_attr_t *a,
                                                void *(*run)(void *), void *arg)
{
    if (!one_of(&threads_left)) {
        return no_threads_error == thrd_nomem ? ENOMEM : EAGAIN;
    }
    atomic_fetch_add(&created, 1);
    int result = pthread_create(t, a, run, arg);
    do_once(&once_created);
    return result;
}

#define thrd_create create_c11
#define pthread_create create_posix

enum { PLENTY = 1000000000 };

static void plenty(void)
{
    atomic_store(&memory_left, PLENTY);
    atomic_store(&threads_left, PLENTY);
}

#endif
