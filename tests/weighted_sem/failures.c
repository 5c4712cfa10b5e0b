/* SPDX-License-Identifier: MIT
 *
 * weighted_sem.h when memory, threads or the CPU run out, by macros over the names it uses; and
 * that it allocates nothing once it is warm.
 */
#undef NDEBUG
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "../flaky_cas.h"
#include "../scarcity.h"

/* A system that has no attributes of threads left, or wants larger stacks than others. */
static bool no_attributes;
static size_t least_stack, last_stack;

static int init_attributes(pthread_attr_t *a)
{
    return no_attributes ? ENOMEM : pthread_attr_init(a);
}

static int set_stack_size(pthread_attr_t *a, size_t size)
{
    last_stack = size;
    return size < least_stack ? EINVAL : pthread_attr_setstacksize(a, size);
}

#define pthread_attr_init init_attributes
#define pthread_attr_setstacksize set_stack_size

#include "../busy_cpu.h"

#include "../../weighted_sem.h"
#include "../../semaphore.h"
#include "../support.h"
#include "../greatest.h"

#include <string.h>

static int count(void *arg)
{
    atomic_fetch_add((atomic_int *)arg, 1);
    return 0;
}

static int wait_at(void *arg)
{
    csem *gate = arg;
    return csem_acquire(gate);
}

static bool is_idle(weighted_sem *w)
{
    weighted_sem_stats s = weighted_sem_snapshot(w);
    return s.available == s.total && s.executing == 0 && s.waiting == 0 && s.started == s.completed;
}

TEST init_without_memory_leaks_nothing(uint32_t errors, int succeed, int expected)
{
    weighted_sem w, before;
    weighted_sem_options options = {.total = 4, .error_capacity = errors};
    memset((void *)&w, 0x5a, sizeof w);
    memset((void *)&before, 0x5a, sizeof before);
    atomic_store(&memory_left, succeed);
    ASSERT_EQ_FMT(expected, weighted_sem_init(&w, &options), "%d");
    if (expected == 0) {
        ASSERT_EQ_FMT(0, weighted_sem_destroy(&w), "%d");
    } else {
        ASSERT_MEM_EQ(&before, &w, sizeof w);
    }
    ASSERT_EQ_FMT(0, atomic_load(&blocks), "%d");
    plenty();
    PASS();
}

TEST absurd_capacities_are_refused(void)
{
    weighted_sem w;
    weighted_sem_options options = {.total = WEIGHTED_SEM_MAX};
    atomic_store(&memory_left, 0);
    options.expected_jobs = UINT32_MAX;
    ASSERT_EQ_FMT(ENOMEM, weighted_sem_init(&w, &options), "%d");
    options.expected_jobs = 0;
    options.error_capacity = UINT32_MAX - 1;
    ASSERT_EQ_FMT(ENOMEM, weighted_sem_init(&w, &options), "%d");
    plenty();
    ASSERT_EQ_FMT(0, atomic_load(&blocks), "%d");
    PASS();
}

/* Jobs are started, held open, and started on, until something runs out; then there is enough
 * again. Nothing is lost on the way. */
TEST a_start_that_fails_leaves_everything_as_it_was(bool memory, int succeed, int expected)
{
    enum { N = 40 };
    weighted_sem w;
    weighted_sem_options options = {.total = N, .expected_jobs = 1};
    csem gate = CSEM_INIT(0);
    plenty();
    ASSERT_EQ_FMT(0, weighted_sem_init(&w, &options), "%d");
    int running = 0, refused = 0;
    for (int i = 0; i < 3 * N && running < N; i++) {
        atomic_store(memory ? &memory_left : &threads_left, i % 2 == 0 ? succeed : PLENTY);
        weighted_sem_stats before = weighted_sem_snapshot(&w);
        int error = weighted_sem_start(&w, 1, wait_at, &gate);
        ASSERT(error == 0 || error == expected);
        running += error == 0;
        refused += error != 0;
        weighted_sem_stats after = weighted_sem_snapshot(&w);
        ASSERT(error == 0 || memcmp(&before, &after, sizeof before) == 0);
        ASSERT_EQ((uint64_t)running, plim_load_relaxed_(&w.started)); /* no number is left out */
        ASSERT_EQ_FMT((uint32_t)running, weighted_sem_executing(&w), "%u");
        ASSERT_EQ((uint64_t)(N - running), weighted_sem_available(&w));
        ASSERT_EQ((uint64_t)running, weighted_sem_snapshot(&w).started);
    }
    plenty();
    ASSERT_EQ_FMT((int)N, running, "%d");
    ASSERT(refused > 0);
    csem_release_n(&gate, N);
    ASSERT_EQ_FMT(0, weighted_sem_drain(&w, PLIM_FOREVER), "%d");
    ASSERT(is_idle(&w));
    ASSERT_EQ(0, weighted_sem_errors(&w));
    ASSERT_EQ_FMT(0, weighted_sem_destroy(&w), "%d");
    ASSERT_EQ_FMT(0, atomic_load(&blocks), "%d");
    PASS();
}

typedef struct waiter {
    weighted_sem *w;
    int error;
    plim_thread thread;
} waiter;

static plim_thread_result acquire_all(void *arg)
{
    waiter *v = arg;
    v->error = weighted_sem_acquire(v->w, 2);
    weighted_sem_release(v->w, 2);
    return 0;
}

/* The weight of a start that failed goes to whoever waits for it. */
TEST a_start_that_fails_lets_others_in(void)
{
    weighted_sem w;
    weighted_sem_options options = {.total = 2};
    atomic_int runs;
    atomic_init(&runs, 0);
    ASSERT_EQ_FMT(0, weighted_sem_init(&w, &options), "%d");
    for (int i = 0; i < 50; i++) {
        waiter v = {.w = &w};
        start(&v.thread, acquire_all, &v);
        atomic_store(&threads_left, 0);
        int error = weighted_sem_start(&w, 1, count, &runs);
        plenty();
        ASSERT_EQ_FMT(EAGAIN, error, "%d");
        join(v.thread);
        ASSERT_EQ_FMT(0, v.error, "%d");
    }
    ASSERT_EQ_FMT(0, atomic_load(&runs), "%d");
    ASSERT(is_idle(&w));
    ASSERT_EQ_FMT(0, weighted_sem_destroy(&w), "%d");
    PASS();
}

static int run_at_once(void *ctx, void (*run)(void *), void *arg)
{
    (void)ctx;
    run(arg);
    return 0;
}

TEST an_executor_without_memory_for_the_job(void)
{
    weighted_sem w;
    plim_executor executor = {run_at_once, NULL};
    weighted_sem_options options = {.total = 2, .expected_jobs = 1, .executor = &executor};
    atomic_int runs;
    atomic_init(&runs, 0);
    ASSERT_EQ_FMT(0, weighted_sem_init(&w, &options), "%d");
    ASSERT_EQ_FMT(0, weighted_sem_start(&w, 1, count, &runs), "%d");
    plim_member_ *kept = w.crew.vacant;
    w.crew.vacant = NULL; /* as if it were in use */
    atomic_store(&memory_left, 0);
    ASSERT_EQ_FMT(ENOMEM, weighted_sem_start(&w, 1, count, &runs), "%d");
    plenty();
    ASSERT_EQ_FMT(0, weighted_sem_start(&w, 1, count, &runs), "%d");
    plim_crew_push_(&w.crew.vacant, kept);
    ASSERT_EQ_FMT(2, atomic_load(&runs), "%d");
    ASSERT(is_idle(&w));
    ASSERT_EQ_FMT(0, weighted_sem_destroy(&w), "%d");
    ASSERT_EQ_FMT(0, atomic_load(&blocks), "%d");
    PASS();
}

static weighted_sem *in_use;
static csem held_open;

static void start_another(void)
{
    weighted_sem_start(in_use, 1, wait_at, &held_open);
}

/* While one start allocates its worker, another does so, too: no lock is held. */
TEST two_starts_may_allocate_at_once(void)
{
    weighted_sem w;
    weighted_sem_options options = {.total = 8, .expected_jobs = 1};
    ASSERT_EQ_FMT(0, weighted_sem_init(&w, &options), "%d");
    in_use = &w;
    csem_init(&held_open, 0);
    ASSERT_EQ_FMT(0, weighted_sem_start(&w, 1, wait_at, &held_open), "%d");
    while_allocating = start_another;
    ASSERT_EQ_FMT(0, weighted_sem_start(&w, 1, wait_at, &held_open), "%d");
    ASSERT_EQ_FMT(3u, weighted_sem_executing(&w), "%u");
    csem_release_n(&held_open, 3);
    ASSERT_EQ_FMT(0, weighted_sem_drain(&w, PLIM_FOREVER), "%d");
    ASSERT(is_idle(&w));
    ASSERT_EQ_FMT(0, weighted_sem_destroy(&w), "%d");
    ASSERT_EQ_FMT(0, atomic_load(&blocks), "%d");
    PASS();
}

/* It is the number of offers that tells, not the time they took: fifty of them would be 4 ms. */
TEST looks_do_not_outlast_the_timeout(int64_t timeout_ns, int64_t at_most)
{
    weighted_sem w;
    weighted_sem_options options = {.total = 1};
    atomic_int runs;
    atomic_init(&runs, 0);
    ASSERT_EQ_FMT(0, weighted_sem_init(&w, &options), "%d");
    ASSERT_EQ_FMT(0, weighted_sem_acquire(&w, 1), "%d");
    kept_ns = PLIM_US(80); /* less than what ends the looks anyway */
    offers = 0;
    int64_t before = plim_now_();
    int error = weighted_sem_start_for(&w, 1, count, &runs, timeout_ns);
    int64_t took = plim_now_() - before;
    kept_ns = 0;
    ASSERT_EQ_FMT(ETIMEDOUT, error, "%d");
    ASSERT(took >= timeout_ns);
    ASSERT(offers <= at_most);
    ASSERT_EQ_FMT(0, weighted_sem_release(&w, 1), "%d");
    ASSERT_EQ_FMT(0, weighted_sem_start_for(&w, 1, count, &runs, timeout_ns), "%d");
    ASSERT_EQ_FMT(0, weighted_sem_destroy(&w), "%d");
    PASS();
}

TEST a_stack_is_as_large_as_the_system_wants(size_t least, bool none, int expected)
{
    weighted_sem w;
    weighted_sem_options options = {.total = 1, .stack_size = 1};
    atomic_int runs;
    atomic_init(&runs, 0);
    ASSERT_EQ_FMT(0, weighted_sem_init(&w, &options), "%d");
    no_attributes = none;
    least_stack = least;
    int error = weighted_sem_start(&w, 1, count, &runs);
    no_attributes = false;
    least_stack = 0;
    ASSERT_EQ_FMT(expected, error, "%d");
    ASSERT_EQ_FMT(0, weighted_sem_destroy(&w), "%d");
    ASSERT_EQ_FMT(error == 0, atomic_load(&runs), "%d");
    ASSERT(error != 0 || last_stack >= least);
    PASS();
}

static void until_it_is_gone(void)
{
    while (weighted_sem_snapshot(in_use).completed == 0) {
        rest(PLIM_US(100));
    }
}

/* A thread that ends before its creator knows that there is one. */
TEST a_thread_may_be_gone_before_start_returns(void)
{
    weighted_sem w;
    weighted_sem_options options = {.total = 8, .expected_jobs = 1};
    atomic_int runs;
    atomic_init(&runs, 0);
    ASSERT_EQ_FMT(0, weighted_sem_init(&w, &options), "%d");
    in_use = &w;
    once_created = until_it_is_gone;
    ASSERT_EQ_FMT(0, weighted_sem_start(&w, 1, end_the_thread, NULL), "%d");
    ASSERT_EQ(1, weighted_sem_snapshot(&w).errors);
    ASSERT_EQ_FMT(0, weighted_sem_start(&w, 1, count, &runs), "%d"); /* joins it, and reuses it */
    ASSERT_EQ_FMT(0, weighted_sem_drain(&w, PLIM_FOREVER), "%d");
    ASSERT_EQ_FMT(1, atomic_load(&runs), "%d");
    ASSERT_EQ_FMT(0, weighted_sem_destroy(&w), "%d");
    ASSERT_EQ_FMT(0, atomic_load(&blocks), "%d");
    PASS();
}

static void everything_once(weighted_sem *w, atomic_int *runs)
{
    weighted_sem_job job;
    weighted_sem_error errors[4];
    weighted_sem_acquire(w, 3);
    weighted_sem_release(w, 3);
    weighted_sem_complete(w, 2, count, runs, NULL);
    if (weighted_sem_begin(w, 1, &job) == 0) {
        weighted_sem_finish(&job, EIO);
    }
    for (int i = 0; i < 8; i++) {
        weighted_sem_start(w, 1, count, runs);
    }
    if (weighted_sem_acquire_for(w, 4, PLIM_US(10)) == 0) {
        weighted_sem_release(w, 4);
    }
    weighted_sem_drain(w, PLIM_FOREVER);
    weighted_sem_drain_all(w, PLIM_FOREVER);
    weighted_sem_extract_errors(w, errors, 4);
    weighted_sem_resize(w, 4);
    weighted_sem_snapshot(w);
}

static plim_thread_result wait_for_it(void *arg)
{
    weighted_sem *w = arg;
    for (int i = 0; i < 300; i++) {
        if (weighted_sem_acquire_for(w, 4, PLIM_US(i)) == 0) {
            weighted_sem_release(w, 4);
        }
    }
    return 0;
}

TEST nothing_is_allocated_once_it_is_warm(bool with_waiters)
{
    weighted_sem w;
    weighted_sem_options options = {.total = 4};
    atomic_int runs;
    csem gate = CSEM_INIT(0);
    plim_thread thread;
    atomic_init(&runs, 0);
    ASSERT_EQ_FMT(0, weighted_sem_init(&w, &options), "%d");
    for (int i = 0; i < 4; i++) { /* warm: as many jobs at once as there will ever be */
        ASSERT_EQ_FMT(0, weighted_sem_start(&w, 1, wait_at, &gate), "%d");
    }
    csem_release_n(&gate, 4);
    ASSERT_EQ_FMT(0, weighted_sem_drain(&w, PLIM_FOREVER), "%d");
    if (with_waiters) {
        start(&thread, wait_for_it, &w);
    }
    int before = atomic_load(&allocations), threads = atomic_load(&created);
    for (int i = 0; i < 300; i++) {
        everything_once(&w, &runs);
    }
    ASSERT_EQ_FMT(before, atomic_load(&allocations), "%d");
    ASSERT_EQ_FMT(threads, atomic_load(&created), "%d");
    if (with_waiters) {
        join(thread);
    }
    ASSERT_EQ_FMT(300 * 9, atomic_load(&runs), "%d");
    ASSERT(is_idle(&w));
    ASSERT_EQ_FMT(0, weighted_sem_destroy(&w), "%d");
    ASSERT_EQ_FMT(0, atomic_load(&blocks), "%d");
    PASS();
}

TEST a_wait_is_ended_once(void)
{
    plim_waiter_ sleeper;
    for (int i = 0; i < 10; i++) {
        plim_waiter_init_(&sleeper);
        fail_every = 2;
        ASSERT(plim_decide_(&sleeper, PLIM_ENDED_));
        ASSERT_FALSE(plim_decide_(&sleeper, PLIM_LEAVING_));
        ASSERT_EQ((uint64_t)PLIM_ENDED_, plim_load_relaxed_(&sleeper.state));
        fail_every = 0;
    }
    PASS();
}

TEST a_compare_exchange_may_fail_for_no_reason(uint64_t every)
{
    weighted_sem w;
    weighted_sem_options options = {.total = 4};
    atomic_int runs;
    plim_thread thread;
    atomic_init(&runs, 0);
    ASSERT_EQ_FMT(0, weighted_sem_init(&w, &options), "%d");
    fail_every = every;
    start(&thread, wait_for_it, &w);
    for (int i = 0; i < 100; i++) {
        everything_once(&w, &runs);
    }
    join(thread);
    fail_every = 0;
    ASSERT_EQ_FMT(100 * 9, atomic_load(&runs), "%d");
    ASSERT(is_idle(&w));
    ASSERT_EQ_FMT(0, weighted_sem_destroy(&w), "%d");
    PASS();
}

SUITE(weighted_failures)
{
    plenty();
    RUN_TESTp(init_without_memory_leaks_nothing, 0, 0, ENOMEM);
    RUN_TESTp(init_without_memory_leaks_nothing, 0, 1, ENOMEM);
    RUN_TESTp(init_without_memory_leaks_nothing, 0, 2, 0);
    RUN_TESTp(init_without_memory_leaks_nothing, (uint32_t)PLIM_NONE, 0, ENOMEM);
    RUN_TESTp(init_without_memory_leaks_nothing, (uint32_t)PLIM_NONE, 1, 0);
    RUN_TEST(absurd_capacities_are_refused);
    RUN_TESTp(a_start_that_fails_leaves_everything_as_it_was, true, 0, ENOMEM);
    RUN_TESTp(a_start_that_fails_leaves_everything_as_it_was, false, 0, EAGAIN);
    no_threads_error = thrd_nomem;
    RUN_TESTp(a_start_that_fails_leaves_everything_as_it_was, false, 0, ENOMEM);
    no_threads_error = thrd_error;
    RUN_TEST(a_start_that_fails_lets_others_in);
    RUN_TEST(an_executor_without_memory_for_the_job);
    RUN_TEST(two_starts_may_allocate_at_once);
    RUN_TESTp(a_stack_is_as_large_as_the_system_wants, 0, false, 0);
    RUN_TESTp(a_stack_is_as_large_as_the_system_wants, 300000, false, 0);
    RUN_TESTp(a_stack_is_as_large_as_the_system_wants, SIZE_MAX, false, EAGAIN);
    RUN_TESTp(a_stack_is_as_large_as_the_system_wants, 0, true, ENOMEM);
    RUN_TESTp(looks_do_not_outlast_the_timeout, PLIM_US(10), 0);
    RUN_TESTp(looks_do_not_outlast_the_timeout, PLIM_US(400), 4);
    RUN_TESTp(looks_do_not_outlast_the_timeout, PLIM_MS(10), 50);
    RUN_TEST(a_thread_may_be_gone_before_start_returns);
    RUN_TESTp(nothing_is_allocated_once_it_is_warm, false);
    RUN_TESTp(nothing_is_allocated_once_it_is_warm, true);
    RUN_TEST(a_wait_is_ended_once);
    RUN_TESTp(a_compare_exchange_may_fail_for_no_reason, 2);
    RUN_TESTp(a_compare_exchange_may_fail_for_no_reason, 7);
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    RUN_SUITE(weighted_failures);
    GREATEST_MAIN_END();
}
