/* SPDX-License-Identifier: MIT
 *
 * What the tests share: threads, and waiting for something to become true. Include it after the
 * header under test, which must have been told PLIM_WANTS_THREADS_.
 *
 * Threads that a test starts never assert (the framework is not thread-safe): they record what
 * they saw in memory of the test, which joins them and asserts itself.
 */
#ifndef PLIM_TEST_SUPPORT_H
#define PLIM_TEST_SUPPORT_H

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { PATIENCE_S = 30 }; /* what never happens if the code is right ends a test after this */

/* Sleeps at least so long. */
static inline void rest(int64_t ns)
{
    plim_nap_(plim_now_() + ns);
}

/* True as soon as the condition is; false if it is not for PATIENCE_S. */
#define EVENTUALLY(condition) \
    __extension__({ \
        int64_t give_up_ = plim_now_() + PLIM_S(PATIENCE_S); \
        bool holds_ = (condition); \
        while (!holds_ && plim_now_() < give_up_) { \
            rest(PLIM_US(200)); \
            holds_ = (condition); \
        } \
        holds_; \
    })

static inline void start(plim_thread *thread, plim_thread_result (*run)(void *), void *arg)
{
    if (plim_thread_create_(thread, run, arg) != 0) {
        fprintf(stderr, "cannot create a thread\n");
        abort();
    }
}

static inline void join(plim_thread thread)
{
    plim_thread_join_(thread);
}

/* A small generator, for tests that want numbers: xorshift64, never 0. */
static inline uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

#endif
