/* SPDX-License-Identifier: MIT
 *
 * Failures that the system rarely delivers, injected by macros over the C library's names. A
 * compare-exchange fails for no reason, as on ARM and RISC-V. With PLIM_PARK_CND, there is no
 * memory for a mutex or a condition.
 */
#undef NDEBUG
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <threads.h>
#include "../flaky_cas.h"

#ifdef PLIM_PARK_CND
enum { MUTEX, CONDITION, ATTRIBUTES, CLOCK, KINDS };
static atomic_int refusals[KINDS]; /* that many of the next calls fail */
static atomic_int refused;

static bool refuses(int kind)
{
    int left = atomic_load(&refusals[kind]);
    while (left > 0 && !atomic_compare_exchange_strong(&refusals[kind], &left, left - 1)) {
        continue;
    }
    atomic_fetch_add(&refused, left > 0);
    return left > 0;
}

#define mtx_init(m, type) \
    (refuses(MUTEX) ? atomic_load(&refused) % 2 == 0 ? thrd_nomem : thrd_error \
                    : (mtx_init)(m, type))
#define cnd_init(c) (refuses(CONDITION) ? thrd_nomem : (cnd_init)(c))
#define pthread_mutex_init(m, a) (refuses(MUTEX) ? ENOMEM : (pthread_mutex_init)(m, a))
#define pthread_cond_init(c, a) (refuses(CONDITION) ? ENOMEM : (pthread_cond_init)(c, a))
#define pthread_condattr_init(a) (refuses(ATTRIBUTES) ? ENOMEM : (pthread_condattr_init)(a))
#define pthread_condattr_setclock(a, c) \
    (refuses(CLOCK) ? EINVAL : (pthread_condattr_setclock)(a, c))
#endif

#define PLIM_WANTS_THREADS_
#include "../../semaphore.h"
#include "../support.h"
#include "../greatest.h"

typedef struct member {
    csem *s;
    atomic_int *inside;
    int errors;
    plim_thread thread;
} member;

static plim_thread_result take_part(void *arg)
{
    member *m = arg;
    for (int i = 0; i < 2000; i++) {
        int error = i % 3 == 0 ? csem_acquire_for(m->s, PLIM_US(50)) : csem_acquire(m->s);
        if (error == ETIMEDOUT) {
            continue;
        }
        m->errors += error != 0 || atomic_fetch_add(m->inside, 1) >= 2;
        atomic_fetch_sub(m->inside, 1);
        m->errors += csem_release(m->s) != 0;
        m->errors += csem_reduce(m->s, 1) != 0 || csem_release(m->s) != 0;
        m->errors += csem_release_n(m->s, csem_drain(m->s)) != 0;
    }
    return 0;
}

TEST a_compare_exchange_may_fail_for_no_reason(uint64_t every)
{
    enum { N = 4 };
    csem s;
    member m[N];
    atomic_int inside;
    int errors = 0;
    atomic_init(&inside, 0);
    fail_every = every;
    csem_init(&s, 2);
    for (int i = 0; i < N; i++) {
        m[i].s = &s;
        m[i].inside = &inside;
        m[i].errors = 0;
        start(&m[i].thread, take_part, &m[i]);
    }
    for (int i = 0; i < N; i++) {
        join(m[i].thread);
        errors += m[i].errors;
    }
    for (int i = 0; i < 10; i++) {
        csem_try_acquire(&s);
        csem_release(&s);
    }
    int32_t available = csem_available(&s);
    csem_close(&s);
    csem_close(&s);
    fail_every = 0;
    ASSERT_EQ_FMT(0, errors, "%d");
    ASSERT_EQ_FMT(2, available, "%d");
    ASSERT_EQ_FMT(ESHUTDOWN, csem_acquire(&s), "%d");
    PASS();
}

#ifdef PLIM_PARK_CND
TEST no_memory_to_sleep_on_is_a_busy_wait(int kind)
{
    enum { COUNT = 5 };
    csem s;
    csem_init(&s, 0);
    atomic_store(&refused, 0);
    atomic_store(&refusals[kind], COUNT);
    int64_t before = plim_now_();
    ASSERT_EQ_FMT(ETIMEDOUT, csem_acquire_for(&s, PLIM_MS(20)), "%d");
    ASSERT(plim_now_() - before >= PLIM_MS(20));
    ASSERT_EQ_FMT(COUNT, atomic_load(&refused), "%d");
    ASSERT_EQ_FMT(0u, csem_waiters(&s), "%u");
    PASS();
}
#endif

#ifdef PLIM_PARK_CND
static plim_thread_result give_one(void *arg)
{
    csem_release(arg);
    return 0;
}

TEST one_that_waits_long_for_the_word_gets_it(void)
{
    csem s;
    plim_thread thread;
    csem_init(&s, 0);
    plim_lock_(&s.counter_);
    start(&thread, give_one, &s);
    rest(PLIM_MS(5)); /* in which it looks often, and naps between */
    ASSERT_EQ_FMT(0, csem_available(&s), "%d");
    plim_unlock_(&s.counter_);
    join(thread);
    ASSERT_EQ_FMT(1, csem_available(&s), "%d");
    PASS();
}
#endif

#if defined(PLIM_PARK_CND) && defined(__linux__)
#include <sched.h>

typedef struct rival {
    csem *s;
    int rounds; /* 0: until told to stop */
    bool first; /* runs before the other whenever it can */
    bool allowed;
    int errors;
    atomic_int *done; /* rounds of the first */
    atomic_bool *stop;
    plim_thread thread;
} rival;

/* Both on one CPU. */
static plim_thread_result compete(void *arg)
{
    rival *r = arg;
    cpu_set_t all, one;
    struct sched_param lowest = {.sched_priority = sched_get_priority_min(SCHED_FIFO)};
    size_t cpu = 0;
    sched_getaffinity(0, sizeof all, &all);
    while (!CPU_ISSET(cpu, &all)) {
        cpu++;
    }
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    sched_setaffinity(0, sizeof one, &one);
    r->allowed = !r->first || sched_setscheduler(0, SCHED_FIFO, &lowest) == 0;
    if (!r->allowed) {
        atomic_store(r->stop, true);
    }
    for (int i = 0; r->allowed && !atomic_load(r->stop) && (r->rounds == 0 || i < r->rounds); i++) {
        if (r->first) {
            rest(PLIM_US(50 + i % 5 * 50)); /* then it interrupts the other, wherever that is */
        }
        r->errors += csem_try_acquire(r->s) != 0;
        r->errors += csem_release(r->s) != 0;
        if (r->first) {
            atomic_fetch_add(r->done, 1);
        }
    }
    return 0;
}

/* A thread that waits for the word by yielding only would wait for ever for one that it keeps from
 * the CPU: the kernel's limit for real-time threads would end that a few times a second at most. */
TEST a_thread_of_high_priority_does_not_keep_the_word_from_itself(void)
{
    const int rounds = scaled(1000);
    csem s;
    atomic_int done;
    atomic_bool stop;
    csem_init(&s, 2);
    atomic_init(&done, 0);
    atomic_init(&stop, false);
    rival first = {.s = &s, .rounds = rounds, .first = true, .done = &done, .stop = &stop};
    rival second = {.s = &s, .done = &done, .stop = &stop};
    start(&second.thread, compete, &second);
    start(&first.thread, compete, &first);
    (void)EVENTUALLY(atomic_load(&done) == rounds || atomic_load(&stop));
    atomic_store(&stop, true);
    join(first.thread);
    join(second.thread);
    if (!first.allowed) {
        SKIPm("this user may not have real-time threads");
    }
    ASSERT_EQ_FMT(rounds, atomic_load(&done), "%d");
    ASSERT_EQ_FMT(0, first.errors + second.errors, "%d");
    ASSERT_EQ_FMT(2, csem_available(&s), "%d");
    PASS();
}
#endif

SUITE(failures)
{
    RUN_TESTp(a_compare_exchange_may_fail_for_no_reason, 2);
    RUN_TESTp(a_compare_exchange_may_fail_for_no_reason, 3);
    RUN_TESTp(a_compare_exchange_may_fail_for_no_reason, 7);
#ifdef PLIM_PARK_CND
    RUN_TEST(one_that_waits_long_for_the_word_gets_it);
#ifdef __linux__
    RUN_TEST(a_thread_of_high_priority_does_not_keep_the_word_from_itself);
#endif
    RUN_TESTp(no_memory_to_sleep_on_is_a_busy_wait, MUTEX);
    RUN_TESTp(no_memory_to_sleep_on_is_a_busy_wait, CONDITION);
#ifdef PLIM_COND_MONOTONIC_
    RUN_TESTp(no_memory_to_sleep_on_is_a_busy_wait, ATTRIBUTES);
    RUN_TESTp(no_memory_to_sleep_on_is_a_busy_wait, CLOCK);
#endif
#endif
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    RUN_SUITE(failures);
    GREATEST_MAIN_END();
}
