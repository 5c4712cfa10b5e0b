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

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { PATIENCE_S = 30 }; /* what never happens if the code is right ends a test after this */
enum { LONG_S = 2 };      /* a long loop ends early after this, where others want the CPU as well */

#ifdef _WIN32
enum { THREAD_ENDS_ARE_NOTICED = 0 };
#else
enum { THREAD_ENDS_ARE_NOTICED = 1 };
#endif

/* Sleeps at least so long. Each caller says why, unless it calls this in a loop: then it looks
 * again and again for what it waits for, as EVENTUALLY does. */
static inline void rest(int64_t ns)
{
    plim_nap_(plim_now_() + ns);
}

/* True as soon as the condition is; false if it is not for PATIENCE_S. Looks often at first: most of
 * what tests wait for is about to happen. */
#define EVENTUALLY(condition) \
    __extension__({ \
        int64_t give_up_ = plim_now_() + PLIM_S(PATIENCE_S); \
        bool holds_ = (condition); \
        for (int look_ = 0; !holds_ && plim_now_() < give_up_; look_++) { \
            look_ < 100 ? plim_thread_yield_() : rest(PLIM_US(200)); \
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

/* Loops that look for rare races are short, because the tests run often. In the environment,
 * TEST_SCALE=n makes long loops n times shorter (emulators, valgrind), and TEST_LONG=n makes all of
 * them n times longer. */
static inline int factor(const char *variable)
{
    const char *text = getenv(variable);
    int n = text != NULL ? atoi(text) : 1;
    return n > 0 ? n : 1;
}

/* How often a loop is to run here, instead of n times. */
static inline int scaled(int n)
{
    int64_t times = (int64_t)n * factor("TEST_LONG") / (SLOWER * factor("TEST_SCALE"));
    return times > 0 ? (int)times : 1;
}

/* What runs slowly here needs time for the same number of events. */
static inline bool is_slow(void)
{
    return SLOWER > 1 || factor("TEST_SCALE") > 1;
}

/* For what runs without end. Under valgrind threads take turns at their system calls: one that makes
 * them only while it holds a lock would keep the others from it. */
static inline void give_way(void)
{
    if (is_slow()) {
        rest(PLIM_US(50));
    }
}

/* How long a loop that looks for a rare race may go on, if its rounds do not end before. */
static inline int64_t race_ns(void)
{
    return factor("TEST_LONG") * PLIM_MS(is_slow() ? 800 : 200);
}

#define ASSERT_INT(expected, got) ASSERT_EQ_FMT((int)(expected), (int)(got), "%d")
#define ASSERT_I64(expected, got) ASSERT_EQ_FMT((int64_t)(expected), (int64_t)(got), "%" PRId64)
#define ASSERT_U64(expected, got) ASSERT_EQ_FMT((uint64_t)(expected), (uint64_t)(got), "%" PRIu64)

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
