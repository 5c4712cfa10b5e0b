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

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
enum { SLOWER = 4 };
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
enum { SLOWER = 4 };
#else
enum { SLOWER = 1 };
#endif
#else
enum { SLOWER = 1 };
#endif

/* How often a loop is to run here, instead of n times. */
static inline int scaled(int n)
{
    const char *text = getenv("TEST_SCALE");
    int scale = text != NULL ? atoi(text) : 1;
    n /= SLOWER * (scale > 0 ? scale : 1);
    return n > 0 ? n : 1;
}

#define ASSERT_INT(expected, got) ASSERT_EQ_FMT((int)(expected), (int)(got), "%d")

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

/* A job that ends the thread it runs on. */
static inline int end_the_thread(void *arg)
{
    (void)arg;
#ifdef PLIM_USE_PTHREADS
    pthread_exit(NULL);
#else
    thrd_exit(0);
#endif
    return 0;
}

/* Takes a little time, in one of the ways in which a thread can. */
static inline void dawdle(uint64_t random)
{
    switch (random % 32) {
    case 0:
        rest(PLIM_US(20));
        break;
    case 1:
        plim_thread_yield_();
        break;
    default:
        for (uint64_t i = 0; i < random % 64; i++) {
            plim_pause_();
        }
    }
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
