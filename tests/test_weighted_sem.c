/* SPDX-License-Identifier: MIT
 *
 * What weighted_sem.h promises, claim by claim. Built as it ships, with PLIM_PARK_CND, with POSIX
 * threads, and with PLIM_SPIN=0.
 *
 * Jobs that a test must hold open wait at a gate, a csem of their own; nothing here waits for time
 * to pass, except to see that something does not happen.
 */
#undef NDEBUG
#define WEIGHTED_SEM_IDLE_NS atomic_load(&idle_ns)

#include <stdatomic.h>
#include <stdint.h>
static _Atomic(int64_t) idle_ns = 60000000000; /* as long as no test shortens it */

#include "../weighted_sem.h"
#include "../semaphore.h"
#include "support.h"
#include "greatest.h"

#include <string.h>

/* ---- pieces ---- */

static weighted_sem *make(weighted_sem *w, uint64_t total)
{
    weighted_sem_options options = {.total = total};
    return weighted_sem_init(w, &options) == 0 ? w : NULL;
}

/* A job that stays inside until it is told to end. */
typedef struct gate {
    csem entered, exit;
    int result;
    int number;          /* what it was called with, for order */
    atomic_int *ends;    /* counts jobs that have ended, if not NULL */
    atomic_int ended_as; /* which end it was */
} gate;

static void gates_init(gate *g, int n)
{
    for (int i = 0; i < n; i++) {
        memset(&g[i], 0, sizeof g[i]);
        csem_init(&g[i].entered, 0);
        csem_init(&g[i].exit, 0);
        g[i].number = i;
    }
}

static int pass(void *arg)
{
    gate *g = arg;
    csem_release(&g->entered);
    csem_acquire(&g->exit);
    if (g->ends != NULL) {
        atomic_store(&g->ended_as, atomic_fetch_add(g->ends, 1) + 1);
    }
    return g->result;
}

static int nothing(void *arg)
{
    (void)arg;
    return 0;
}

static int fails_with(void *arg)
{
    return *(int *)arg;
}

static int count(void *arg)
{
    atomic_fetch_add((atomic_int *)arg, 1);
    return 0;
}

enum { ACQUIRE, START, COMPLETE, BEGIN, DRAIN, DRAIN_ALL, DESTROY };

/* A thread that makes one call, and what came of it. */
typedef struct caller {
    weighted_sem *w;
    int call; /* one of those above */
    uint64_t weight;
    int64_t timeout_ns; /* 0: the form without timeout */
    int (*fn)(void *);
    void *arg;
    int error, result;
    weighted_sem_job job;
    atomic_int *order; /* counts calls that have returned, if not NULL */
    int place;
    atomic_bool done;
    plim_thread thread;
} caller;

static int make_call(caller *c)
{
    int64_t t = c->timeout_ns != 0 ? c->timeout_ns : PLIM_FOREVER;
    switch (c->call) {
    case ACQUIRE:
        return c->timeout_ns != 0 ? weighted_sem_acquire_for(c->w, c->weight, t)
                                  : weighted_sem_acquire(c->w, c->weight);
    case START:
        return c->timeout_ns != 0 ? weighted_sem_start_for(c->w, c->weight, c->fn, c->arg, t)
                                  : weighted_sem_start(c->w, c->weight, c->fn, c->arg);
    case COMPLETE:
        return c->timeout_ns != 0
                   ? weighted_sem_complete_for(c->w, c->weight, c->fn, c->arg, &c->result, t)
                   : weighted_sem_complete(c->w, c->weight, c->fn, c->arg, &c->result);
    case BEGIN:
        return c->timeout_ns != 0 ? weighted_sem_begin_for(c->w, c->weight, &c->job, t)
                                  : weighted_sem_begin(c->w, c->weight, &c->job);
    case DRAIN:
        return weighted_sem_drain(c->w, t);
    case DRAIN_ALL:
        return weighted_sem_drain_all(c->w, t);
    default:
        return weighted_sem_destroy(c->w);
    }
}

static plim_thread_result call(void *arg)
{
    caller *c = arg;
    c->error = make_call(c);
    if (c->order != NULL) {
        c->place = atomic_fetch_add(c->order, 1);
    }
    atomic_store(&c->done, true);
    return 0;
}

static void start_call(caller *c)
{
    atomic_init(&c->done, false);
    start(&c->thread, call, c);
}

/* Starts callers one by one, each when the one before it waits. */
static bool queue_up(caller *c, int n)
{
    uint32_t before = weighted_sem_waiting(c->w);
    for (int i = 0; i < n; i++) {
        start_call(&c[i]);
        if (!EVENTUALLY(weighted_sem_waiting(c->w) == before + (uint32_t)i + 1)) {
            return false;
        }
    }
    return true;
}

static void join_calls(caller *c, int n)
{
    for (int i = 0; i < n; i++) {
        join(c[i].thread);
    }
}

static bool is_idle(weighted_sem *w)
{
    weighted_sem_stats s = weighted_sem_snapshot(w);
    weighted_sem_section_ section = weighted_sem_lock_(w); /* workers may be about to park */
    bool watched = (section.word & PLIM_WATCHED_) != 0 || w->left_in_all != 0;
    weighted_sem_unlock_(w, &section);
    return s.available == s.total && s.executing == 0 && s.waiting == 0 &&
           s.started == s.completed && !watched;
}

/* What is under the lock is read under the lock. */
static uint32_t peek(weighted_sem *w, const uint32_t *figure)
{
    weighted_sem_section_ s = weighted_sem_lock_(w);
    uint32_t value = *figure;
    weighted_sem_unlock_(w, &s);
    return value;
}

static plim_waiter_ *peek_first(weighted_sem *w, const plim_list_ *list)
{
    weighted_sem_section_ s = weighted_sem_lock_(w);
    plim_waiter_ *first = (plim_waiter_ *)(void *)list->first;
    weighted_sem_unlock_(w, &s);
    return first;
}

#define ASSERT_IDLE_AND_DESTROY(w) \
    do { \
        ASSERT(is_idle(w)); \
        ASSERT_EQ_FMT(0, weighted_sem_destroy(w), "%d"); \
    } while (0)

/* Long enough to see that a thread does not go on, were it able to. */
static bool stays_false(atomic_bool *done)
{
    rest(PLIM_MS(20));
    return !atomic_load(done);
}

/* ---- construction and arguments ---- */

TEST totals_out_of_range_are_refused(void)
{
    weighted_sem w;
    weighted_sem_options options = {.total = 0};
    ASSERT_EQ_FMT(EINVAL, weighted_sem_init(&w, &options), "%d");
    options.total = WEIGHTED_SEM_MAX + 1;
    ASSERT_EQ_FMT(EINVAL, weighted_sem_init(&w, &options), "%d");
    options.total = UINT64_MAX;
    ASSERT_EQ_FMT(EINVAL, weighted_sem_init(&w, &options), "%d");
    ASSERT_EQ_FMT(EINVAL, weighted_sem_init(&w, NULL), "%d");
    ASSERT_EQ_FMT(EINVAL, weighted_sem_init(NULL, &options), "%d");
    plim_executor nothing_to_execute = {NULL, NULL};
    options.total = 1;
    options.executor = &nothing_to_execute;
    ASSERT_EQ_FMT(EINVAL, weighted_sem_init(&w, &options), "%d");
    PASS();
}

TEST smallest_and_largest_total_work(void)
{
    uint64_t totals[] = {1, (uint64_t)1 << 31, WEIGHTED_SEM_MAX};
    for (int i = 0; i < 3; i++) {
        weighted_sem w;
        ASSERT(make(&w, totals[i]) != NULL);
        ASSERT_EQ(totals[i], weighted_sem_total(&w));
        ASSERT_EQ(totals[i], weighted_sem_available(&w));
        ASSERT_EQ_FMT(0, weighted_sem_acquire(&w, totals[i]), "%d");
        ASSERT_EQ(0, weighted_sem_available(&w));
        ASSERT_EQ_FMT(EAGAIN, weighted_sem_try_acquire(&w, 1), "%d");
        ASSERT_EQ_FMT(0, weighted_sem_release(&w, totals[i]), "%d");
        ASSERT_IDLE_AND_DESTROY(&w);
    }
    PASS();
}

TEST impossible_weights_are_refused_at_once(bool while_others_wait)
{
    weighted_sem w;
    weighted_sem_job job;
    atomic_int runs;
    atomic_init(&runs, 0);
    make(&w, 10);
    caller c = {.w = &w, .call = ACQUIRE, .weight = 10};
    if (while_others_wait) {
        ASSERT_EQ_FMT(0, weighted_sem_acquire(&w, 4), "%d");
        ASSERT(queue_up(&c, 1));
    }
    weighted_sem_stats before = weighted_sem_snapshot(&w);
    const uint64_t weights[] = {0, 11, 10 + 341, 57 * 10 + 5, UINT32_MAX, UINT64_MAX};
    for (int i = 0; i < 6; i++) {
        int e = weights[i] == 0 ? EINVAL : ERANGE;
        ASSERT_EQ_FMT(e, weighted_sem_start(&w, weights[i], count, &runs), "%d");
        ASSERT_EQ_FMT(e, weighted_sem_start_for(&w, weights[i], count, &runs, 1), "%d");
        ASSERT_EQ_FMT(e, weighted_sem_try_start(&w, weights[i], count, &runs), "%d");
        ASSERT_EQ_FMT(e, weighted_sem_complete(&w, weights[i], count, &runs, NULL), "%d");
        ASSERT_EQ_FMT(e, weighted_sem_complete_for(&w, weights[i], count, &runs, NULL, 1), "%d");
        ASSERT_EQ_FMT(e, weighted_sem_try_complete(&w, weights[i], count, &runs, NULL), "%d");
        ASSERT_EQ_FMT(e, weighted_sem_begin(&w, weights[i], &job), "%d");
        ASSERT_EQ_FMT(e, weighted_sem_begin_for(&w, weights[i], &job, 1), "%d");
        ASSERT_EQ_FMT(e, weighted_sem_try_begin(&w, weights[i], &job), "%d");
        ASSERT_EQ_FMT(e, weighted_sem_acquire(&w, weights[i]), "%d");
        ASSERT_EQ_FMT(e, weighted_sem_acquire_for(&w, weights[i], 1), "%d");
        ASSERT_EQ_FMT(e, weighted_sem_try_acquire(&w, weights[i]), "%d");
    }
    weighted_sem_stats after = weighted_sem_snapshot(&w);
    ASSERT_MEM_EQ(&before, &after, sizeof before);
    ASSERT_EQ_FMT(0, atomic_load(&runs), "%d");
    if (while_others_wait) {
        ASSERT_EQ_FMT(0, weighted_sem_release(&w, 4), "%d");
        join(c.thread);
        ASSERT_EQ_FMT(0, c.error, "%d");
        ASSERT_EQ_FMT(0, weighted_sem_release(&w, 10), "%d");
    }
    ASSERT_IDLE_AND_DESTROY(&w);
    PASS();
}

TEST missing_functions_and_jobs_are_refused(void)
{
    weighted_sem w;
    make(&w, 1);
    ASSERT_EQ_FMT(EINVAL, weighted_sem_start(&w, 1, NULL, NULL), "%d");
    ASSERT_EQ_FMT(EINVAL, weighted_sem_complete(&w, 1, NULL, NULL, NULL), "%d");
    ASSERT_EQ_FMT(EINVAL, weighted_sem_begin(&w, 1, NULL), "%d");
    ASSERT_IDLE_AND_DESTROY(&w);
    PASS();
}

TEST weights_near_the_maximum_are_served_in_order(void)
{
    weighted_sem w;
    atomic_int order;
    atomic_init(&order, 0);
    make(&w, WEIGHTED_SEM_MAX);
    ASSERT_EQ_FMT(0, weighted_sem_acquire(&w, WEIGHTED_SEM_MAX), "%d");
    caller c[3];
    memset(c, 0, sizeof c);
    for (int i = 0; i < 3; i++) {
        c[i] = (caller){.w = &w, .call = ACQUIRE, .order = &order};
        c[i].weight = i == 1 ? WEIGHTED_SEM_MAX - 1 : WEIGHTED_SEM_MAX;
    }
    ASSERT(queue_up(c, 3));
    ASSERT_EQ_FMT(0, weighted_sem_release(&w, WEIGHTED_SEM_MAX), "%d");
    for (int i = 0; i < 3; i++) {
        join(c[i].thread);
        ASSERT_EQ_FMT(i, c[i].place, "%d");
        ASSERT_EQ_FMT(0, weighted_sem_release(&w, c[i].weight), "%d");
    }
    ASSERT_IDLE_AND_DESTROY(&w);
    PASS();
}

TEST what_is_not_held_cannot_be_given_back(void)
{
    weighted_sem w;
    weighted_sem_job job;
    make(&w, 10);
    ASSERT_EQ_FMT(EPERM, weighted_sem_release(&w, 1), "%d");
    ASSERT_EQ_FMT(EINVAL, weighted_sem_release(&w, 0), "%d");
    ASSERT_EQ_FMT(0, weighted_sem_acquire(&w, 4), "%d");
    ASSERT_EQ_FMT(EPERM, weighted_sem_release(&w, 5), "%d");
    ASSERT_EQ_FMT(EPERM, weighted_sem_release(&w, 3), "%d"); /* not in one piece */
    ASSERT_EQ_FMT(EPERM, weighted_sem_release(&w, UINT64_MAX), "%d");
    ASSERT_EQ_FMT(0, weighted_sem_acquire(&w, 2), "%d");
    ASSERT_EQ_FMT(EPERM, weighted_sem_release(&w, 6), "%d"); /* nothing left for the other */
    ASSERT_EQ(4, weighted_sem_available(&w));
    ASSERT_EQ_FMT(0, weighted_sem_release(&w, 2), "%d");
    ASSERT_EQ_FMT(0, weighted_sem_release(&w, 4), "%d");
    ASSERT_EQ_FMT(EPERM, weighted_sem_release(&w, 4), "%d");

    ASSERT_EQ_FMT(0, weighted_sem_begin(&w, 3, &job), "%d");
    ASSERT_EQ_FMT(0, weighted_sem_finish(&job, 0), "%d");
    ASSERT_EQ_FMT(EPERM, weighted_sem_finish(&job, 0), "%d");
    ASSERT_EQ_FMT(EPERM, weighted_sem_finish(&job, EIO), "%d");
    ASSERT_EQ(0, weighted_sem_errors(&w));
    ASSERT_IDLE_AND_DESTROY(&w);
    PASS();
}

/* ---- complete ---- */

typedef struct crowd {
    weighted_sem *w;
    uint64_t weight;
    atomic_int inside, most, wrong;
} crowd;

static int be_inside(void *arg)
{
    crowd *c = arg;
    int now = atomic_fetch_add(&c->inside, 1) + 1;
    int most = atomic_load(&c->most);
    while (now > most && !atomic_compare_exchange_weak(&c->most, &most, now)) {
        continue;
    }
    weighted_sem_stats s = weighted_sem_snapshot(c->w);
    if (s.total - s.available != c->weight * s.executing || s.executing == 0) {
        atomic_fetch_add(&c->wrong, 1);
    }
    atomic_fetch_sub(&c->inside, 1);
    return 0;
}

TEST never_more_inside_than_fit(uint64_t total, uint64_t weight, int callers, int at_most)
{
    weighted_sem w;
    crowd c = {.w = &w, .weight = weight};
    caller each[100];
    make(&w, total);
    memset(each, 0, sizeof each);
    for (int i = 0; i < callers; i++) {
        each[i] = (caller){.w = &w, .call = COMPLETE, .weight = weight, .fn = be_inside, .arg = &c};
        start_call(&each[i]);
    }
    join_calls(each, callers);
    ASSERT_EQ_FMT(0, atomic_load(&c.wrong), "%d");
    ASSERT(atomic_load(&c.most) <= at_most);
    ASSERT_EQ((uint64_t)callers, weighted_sem_snapshot(&w).completed);
    ASSERT_IDLE_AND_DESTROY(&w);
    PASS();
}

TEST a_result_goes_to_the_caller_and_nowhere_else(void)
{
    weighted_sem w;
    int value = -1723598, result = 0;
    weighted_sem_error error;
    make(&w, 7);
    ASSERT_EQ_FMT(0, weighted_sem_complete(&w, 7, fails_with, &value, &result), "%d");
    ASSERT_EQ_FMT(-1723598, result, "%d");
    ASSERT_EQ(7, weighted_sem_available(&w));
    ASSERT_EQ_FMT(0, weighted_sem_complete(&w, 3, nothing, NULL, &result), "%d");
    ASSERT_EQ_FMT(0, result, "%d");
    ASSERT_EQ_FMT(0, weighted_sem_complete(&w, 3, fails_with, &value, NULL), "%d");
    ASSERT_EQ(0, weighted_sem_errors(&w));
    ASSERT_EQ(0, weighted_sem_extract_errors(&w, &error, 1));
    weighted_sem_stats s = weighted_sem_snapshot(&w);
    ASSERT_EQ(3, s.started);
    ASSERT_EQ(3, s.completed);
    ASSERT_EQ(2, s.failed);
    ASSERT_IDLE_AND_DESTROY(&w);
    PASS();
}

TEST a_failing_job_does_not_disturb_those_that_wait(void)
{
    weighted_sem w;
    gate g;
    gates_init(&g, 1);
    g.result = EIO;
    make(&w, 3);
    caller first = {.w = &w, .call = COMPLETE, .weight = 3, .fn = pass, .arg = &g};
    caller next[3];
    memset(next, 0, sizeof next);
    start_call(&first);
    csem_acquire(&g.entered);
    for (int i = 0; i < 3; i++) {
        next[i] = (caller){.w = &w, .call = COMPLETE, .weight = 1, .fn = nothing, .result = -1};
    }
    ASSERT(queue_up(next, 3));
    csem_release(&g.exit);
    join(first.thread);
    join_calls(next, 3);
    ASSERT_EQ_FMT(EIO, first.result, "%d");
    for (int i = 0; i < 3; i++) {
        ASSERT_EQ_FMT(0, next[i].error, "%d");
        ASSERT_EQ_FMT(0, next[i].result, "%d");
    }
    ASSERT_IDLE_AND_DESTROY(&w);
    PASS();
}

TEST completion_order_is_call_order_when_each_needs_all(void)
{
    enum { N = 20 };
    weighted_sem w;
    gate g[N];
    caller c[N];
    atomic_int ends;
    atomic_init(&ends, 0);
    gates_init(g, N);
    memset(c, 0, sizeof c);
    make(&w, 5);
    ASSERT_EQ_FMT(0, weighted_sem_acquire(&w, 5), "%d");
    for (int i = 0; i < N; i++) {
        g[i].ends = &ends;
        c[i] = (caller){.w = &w, .call = COMPLETE, .weight = 5, .fn = pass, .arg = &g[i]};
    }
    ASSERT(queue_up(c, N));
    ASSERT_EQ_FMT(0, weighted_sem_release(&w, 5), "%d");
    for (int i = 0; i < N; i++) {
        csem_acquire(&g[i].entered);
        ASSERT_EQ_FMT(1u, weighted_sem_executing(&w), "%u");
        ASSERT_EQ_FMT((uint32_t)(N - 1 - i), weighted_sem_waiting(&w), "%u");
        csem_release(&g[i].exit);
    }
    join_calls(c, N);
    for (int i = 0; i < N; i++) {
        ASSERT_EQ_FMT(i + 1, atomic_load(&g[i].ended_as), "%d");
    }
    ASSERT_IDLE_AND_DESTROY(&w);
    PASS();
}

/* ---- start ---- */

TEST start_returns_while_its_job_executes(void)
{
    weighted_sem w;
    gate g;
    gates_init(&g, 1);
    make(&w, 10);
    ASSERT_EQ_FMT(0, weighted_sem_start(&w, 4, pass, &g), "%d");
    ASSERT_EQ(6, weighted_sem_available(&w));
    ASSERT_EQ_FMT(1u, weighted_sem_executing(&w), "%u");
    csem_acquire(&g.entered); /* the function is entered without any further call */
    csem_release(&g.exit);
    ASSERT_EQ_FMT(0, weighted_sem_drain(&w, PLIM_FOREVER), "%d");
    ASSERT_IDLE_AND_DESTROY(&w);
    PASS();
}

TEST more_jobs_than_expected_all_start_at_once(void)
{
    enum { N = 27 };
    weighted_sem w;
    gate g[N];
    weighted_sem_options options = {.total = N * (N + 1) / 2, .expected_jobs = 1};
    gates_init(g, N);
    ASSERT_EQ_FMT(0, weighted_sem_init(&w, &options), "%d");
    uint64_t left = options.total;
    for (int i = 0; i < N; i++) {
        ASSERT_EQ_FMT(0, weighted_sem_start(&w, (uint64_t)i + 1, pass, &g[i]), "%d");
        left -= (uint64_t)i + 1;
        ASSERT_EQ(left, weighted_sem_available(&w));
    }
    ASSERT_EQ(0, weighted_sem_available(&w));
    for (int i = 0; i < N; i++) {
        csem_acquire(&g[i].entered);
    }
    for (int i = 0; i < N; i++) {
        csem_release(&g[i].exit);
        left += (uint64_t)i + 1;
        ASSERT(EVENTUALLY(weighted_sem_available(&w) == left));
        ASSERT_EQ_FMT((uint32_t)(N - 1 - i), weighted_sem_executing(&w), "%u");
    }
    ASSERT_IDLE_AND_DESTROY(&w);
    PASS();
}

/* Total 10, weights 6, 5, 1, 2: the 5 does not fit, and holds up the others. */
TEST a_blocked_head_holds_up_even_those_that_fit(void)
{
    weighted_sem w;
    gate g[4];
    caller c[3];
    const uint64_t weight[] = {6, 5, 1, 2};
    gates_init(g, 4);
    memset(c, 0, sizeof c);
    make(&w, 10);
    ASSERT_EQ_FMT(0, weighted_sem_start(&w, 6, pass, &g[0]), "%d");
    for (int i = 0; i < 3; i++) {
        c[i] = (caller){.w = &w, .call = START, .weight = weight[i + 1]};
        c[i].fn = pass;
        c[i].arg = &g[i + 1];
    }
    ASSERT(queue_up(c, 3));
    ASSERT_EQ(4, weighted_sem_available(&w));
    csem_release(&g[0].exit);
    join_calls(c, 3);
    ASSERT_EQ_FMT(3u, weighted_sem_executing(&w), "%u");
    ASSERT_EQ(2, weighted_sem_available(&w));
    uint64_t left = 2;
    for (int i = 1; i < 4; i++) {
        csem_release(&g[i].exit);
        left += weight[i];
        ASSERT(EVENTUALLY(weighted_sem_available(&w) == left));
        ASSERT_EQ_FMT((uint32_t)(3 - i), weighted_sem_executing(&w), "%u");
    }
    ASSERT_IDLE_AND_DESTROY(&w);
    PASS();
}

TEST try_forms_take_what_fits_and_change_nothing_otherwise(void)
{
    weighted_sem w;
    gate g[2];
    weighted_sem_job job;
    int result = 5;
    gates_init(g, 2);
    make(&w, 4);
    ASSERT_EQ_FMT(0, weighted_sem_try_start(&w, 3, pass, &g[0]), "%d");
    weighted_sem_stats before = weighted_sem_snapshot(&w);
    ASSERT_EQ_FMT(EAGAIN, weighted_sem_try_start(&w, 2, pass, &g[1]), "%d");
    ASSERT_EQ_FMT(EAGAIN, weighted_sem_try_complete(&w, 2, nothing, NULL, &result), "%d");
    ASSERT_EQ_FMT(EAGAIN, weighted_sem_try_begin(&w, 2, &job), "%d");
    ASSERT_EQ_FMT(EAGAIN, weighted_sem_try_acquire(&w, 2), "%d");
    ASSERT_EQ_FMT(ETIMEDOUT, weighted_sem_start_for(&w, 2, pass, &g[1], 0), "%d");
    ASSERT_EQ_FMT(ETIMEDOUT, weighted_sem_complete_for(&w, 2, nothing, NULL, NULL, -1), "%d");
    ASSERT_EQ_FMT(ETIMEDOUT, weighted_sem_begin_for(&w, 2, &job, INT64_MIN), "%d");
    ASSERT_EQ_FMT(ETIMEDOUT, weighted_sem_acquire_for(&w, 2, 0), "%d");
    weighted_sem_stats after = weighted_sem_snapshot(&w);
    ASSERT_MEM_EQ(&before, &after, sizeof before);
    ASSERT_EQ_FMT(5, result, "%d");
    ASSERT_EQ_FMT(0, weighted_sem_try_complete(&w, 1, nothing, NULL, &result), "%d");
    ASSERT_EQ_FMT(0, result, "%d");
    ASSERT_EQ_FMT(0, weighted_sem_acquire_for(&w, 1, 0), "%d"); /* what is free is had in no time */
    ASSERT_EQ_FMT(0, weighted_sem_release(&w, 1), "%d");
    csem_release(&g[0].exit);
    ASSERT_EQ_FMT(0, weighted_sem_drain(&w, PLIM_FOREVER), "%d");
    ASSERT_EQ_FMT(0, weighted_sem_try_start(&w, 4, pass, &g[1]), "%d");
    csem_release(&g[1].exit);
    ASSERT_EQ_FMT(0, weighted_sem_drain_all(&w, PLIM_FOREVER), "%d");
    ASSERT_IDLE_AND_DESTROY(&w);
    PASS();
}

TEST a_try_does_not_overtake(void)
{
    weighted_sem w;
    weighted_sem_job job;
    make(&w, 10);
    ASSERT_EQ_FMT(0, weighted_sem_acquire(&w, 3), "%d");
    caller c = {.w = &w, .call = ACQUIRE, .weight = 8};
    ASSERT(queue_up(&c, 1));
    ASSERT_EQ_FMT(EAGAIN, weighted_sem_try_acquire(&w, 1), "%d");
    ASSERT_EQ_FMT(EAGAIN, weighted_sem_try_begin(&w, 1, &job), "%d");
    ASSERT_EQ_FMT(EAGAIN, weighted_sem_try_start(&w, 1, nothing, NULL), "%d");
    ASSERT_EQ_FMT(0, weighted_sem_release(&w, 3), "%d");
    join(c.thread);
    ASSERT_EQ_FMT(0, weighted_sem_try_acquire(&w, 1), "%d");
    ASSERT_EQ_FMT(0, weighted_sem_release(&w, 1), "%d");
    ASSERT_EQ_FMT(0, weighted_sem_release(&w, 8), "%d");
    ASSERT_IDLE_AND_DESTROY(&w);
    PASS();
}

/* A long job must not keep a started one from its thread, whatever the order. */
TEST every_started_job_runs_beside_the_others(void)
{
    enum { N = 40 };
    weighted_sem w;
    gate g[N];
    make(&w, N);
    for (int round = 0; round < 5; round++) {
        gates_init(g, N);
        for (int i = 0; i < N; i++) {
            ASSERT_EQ_FMT(0, weighted_sem_start(&w, 1, pass, &g[i]), "%d");
            if (i % 3 == 0) {
                weighted_sem_start_for(&w, 1, nothing, NULL, 0); /* may or may not fit */
            }
        }
        for (int i = 0; i < N; i++) {
            ASSERT_EQ_FMT(0, csem_acquire_for(&g[i].entered, PLIM_S(PATIENCE_S)), "%d");
        }
        for (int i = 0; i < N; i++) {
            csem_release(&g[i].exit);
        }
        ASSERT_EQ_FMT(0, weighted_sem_drain(&w, PLIM_FOREVER), "%d");
    }
    ASSERT(peek(&w, &w.threads) <= N);
    ASSERT_IDLE_AND_DESTROY(&w);
    PASS();
}

TEST threads_are_never_more_than_jobs_at_once(void)
{
    weighted_sem w;
    atomic_int runs;
    atomic_init(&runs, 0);
    make(&w, 2);
    for (int i = 0; i < 500; i++) {
        ASSERT_EQ_FMT(0, weighted_sem_start(&w, 1 + (uint64_t)i % 2, count, &runs), "%d");
    }
    ASSERT_EQ_FMT(0, weighted_sem_drain(&w, PLIM_FOREVER), "%d");
    ASSERT_EQ_FMT(500, atomic_load(&runs), "%d");
    ASSERT(peek(&w, &w.threads) <= 2);
    ASSERT_IDLE_AND_DESTROY(&w);
    PASS();
}

TEST idle_threads_go_away_and_come_back(void)
{
    weighted_sem w;
    atomic_int runs;
    atomic_init(&runs, 0);
    make(&w, 8);
    idle_ns = PLIM_MS(1);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 30; i++) {
            ASSERT_EQ_FMT(0, weighted_sem_start(&w, 1, count, &runs), "%d");
        }
        ASSERT(EVENTUALLY(peek(&w, &w.threads) == 0));
    }
    idle_ns = PLIM_S(60);
    ASSERT_EQ_FMT(90, atomic_load(&runs), "%d");
    ASSERT_IDLE_AND_DESTROY(&w);
    PASS();
}

/* Starts that come just when the threads give up waiting for them. */
TEST idle_threads_and_starts_may_race(void)
{
    weighted_sem w;
    atomic_int runs;
    atomic_init(&runs, 0);
    make(&w, 4);
    idle_ns = PLIM_US(150);
    for (int i = 0; i < 2000; i++) {
        ASSERT_EQ_FMT(0, weighted_sem_start(&w, 1, count, &runs), "%d");
        if (i % 4 == 0) {
            rest(PLIM_US(i % 300));
        }
    }
    ASSERT_EQ_FMT(0, weighted_sem_drain_all(&w, PLIM_FOREVER), "%d");
    idle_ns = PLIM_S(60);
    ASSERT_EQ_FMT(2000, atomic_load(&runs), "%d");
    ASSERT_IDLE_AND_DESTROY(&w);
    PASS();
}

#ifdef _WIN32
#define NEEDS_POSIX() SKIPm("the ends of threads are noticed on POSIX systems only")
#else
#define NEEDS_POSIX() (void)0
#endif

TEST a_job_may_end_its_thread(void)
{
    NEEDS_POSIX();
    weighted_sem w;
    weighted_sem_error error[9];
    int token;
    make(&w, 5);
    for (int i = 0; i < 9; i++) {
        ASSERT_EQ_FMT(0, weighted_sem_start(&w, 5, end_the_thread, &token), "%d");
        ASSERT_EQ_FMT(0, weighted_sem_start(&w, 2, nothing, NULL), "%d");
    }
    ASSERT_EQ_FMT(0, weighted_sem_drain(&w, PLIM_FOREVER), "%d");
    ASSERT_EQ(9, weighted_sem_extract_errors(&w, error, 9));
    for (int i = 0; i < 9; i++) {
        ASSERT_EQ_FMT(ECANCELED, error[i].code, "%d");
        ASSERT_EQ(&token, error[i].arg);
        ASSERT_EQ(5, error[i].weight);
        ASSERT_EQ(2 * (uint64_t)i + 1, error[i].sequence);
    }
    ASSERT_IDLE_AND_DESTROY(&w);
    PASS();
}

/* ---- begin and finish ---- */

static plim_thread_result finish_it(void *arg)
{
    weighted_sem_finish(arg, 0);
    return 0;
}

TEST a_job_that_was_begun_ends_on_any_thread(void)
{
    weighted_sem w;
    weighted_sem_job job[3];
    make(&w, 6);
    for (int i = 0; i < 3; i++) {
        ASSERT_EQ_FMT(0, weighted_sem_begin(&w, (uint64_t)i + 1, &job[i]), "%d");
        ASSERT(job[i].arg == NULL);
    }
    ASSERT_EQ(0, weighted_sem_available(&w));
    ASSERT_EQ_FMT(3u, weighted_sem_executing(&w), "%u");
    caller c = {.w = &w, .call = COMPLETE, .weight = 5, .fn = nothing};
    ASSERT(queue_up(&c, 1));
    plim_thread thread[3];
    for (int i = 0; i < 3; i++) {
        start(&thread[i], finish_it, &job[i]);
    }
    for (int i = 0; i < 3; i++) {
        join(thread[i]);
    }
    join(c.thread);
    ASSERT_EQ_FMT(0, c.error, "%d");
    ASSERT_IDLE_AND_DESTROY(&w);
    PASS();
}

TEST an_error_of_finish_is_stored_with_its_arg(void)
{
    weighted_sem w;
    weighted_sem_job job;
    weighted_sem_error error;
    int token;
    make(&w, 6);
    ASSERT_EQ_FMT(0, weighted_sem_begin_for(&w, 2, &job, PLIM_S(1)), "%d");
    job.arg = &token;
    ASSERT_EQ_FMT(0, weighted_sem_finish(&job, EIO), "%d");
    ASSERT_EQ(1, weighted_sem_errors(&w));
    ASSERT_EQ(1, weighted_sem_extract_errors(&w, &error, 1));
    ASSERT_EQ_FMT(EIO, error.code, "%d");
    ASSERT_EQ(&token, error.arg);
    ASSERT_EQ(2, error.weight);
    ASSERT_EQ(1, error.sequence);
    ASSERT_IDLE_AND_DESTROY(&w);
    PASS();
}

static weighted_sem_job handed_on;
static int finish_elsewhere(void *arg)
{
    weighted_sem *w = arg;
    (void)w;
    return weighted_sem_finish(&handed_on, 0);
}

/* What begins on one thread may have ended before begin's caller looks again. */
TEST a_finish_may_be_earlier_than_the_next_line(void)
{
    weighted_sem w;
    make(&w, 2);
    for (int i = 0; i < 2000; i++) {
        ASSERT_EQ_FMT(0, weighted_sem_begin(&w, 1, &handed_on), "%d");
        ASSERT_EQ_FMT(0, weighted_sem_start(&w, 1, finish_elsewhere, &w), "%d");
        ASSERT_EQ_FMT(0, weighted_sem_drain(&w, PLIM_FOREVER), "%d");
    }
    ASSERT_EQ(0, weighted_sem_errors(&w));
    ASSERT_IDLE_AND_DESTROY(&w);
    PASS();
}

/* ---- drain ---- */

TEST drain_with_nothing_to_wait_for_returns_at_once(void)
{
    weighted_sem w;
    make(&w, 2);
    ASSERT_EQ_FMT(0, weighted_sem_drain(&w, 0), "%d");
    ASSERT_EQ_FMT(0, weighted_sem_drain(&w, PLIM_FOREVER), "%d");
    ASSERT_EQ_FMT(0, weighted_sem_drain_all(&w, -1), "%d");
    ASSERT_EQ_FMT(0, weighted_sem_drain_all(&w, PLIM_FOREVER), "%d");
    ASSERT_IDLE_AND_DESTROY(&w);
    PASS();
}

/* Which way the jobs end does not matter: the drain lasts until the last of them. */
TEST drain_lasts_until_the_last_job_ends(int n, bool backwards)
{
    weighted_sem w;
    gate *g = malloc((size_t)n * sizeof *g);
    weighted_sem_options options = {.total = (uint64_t)n, .expected_jobs = 1};
    gates_init(g, n);
    ASSERT_EQ_FMT(0, weighted_sem_init(&w, &options), "%d");
    for (int i = 0; i < n; i++) {
        ASSERT_EQ_FMT(0, weighted_sem_start(&w, 1, pass, &g[i]), "%d");
    }
    caller c = {.w = &w, .call = DRAIN};
    start_call(&c);
    ASSERT(EVENTUALLY(peek(&w, &w.closed_epochs) == 1));
    for (int i = 0; i < n; i++) {
        ASSERT_FALSE(atomic_load(&c.done));
        csem_release(&g[backwards ? n - 1 - i : i].exit);
        ASSERT(EVENTUALLY(weighted_sem_executing(&w) == (uint32_t)(n - 1 - i)));
        ASSERT_EQ((uint64_t)i + 1, weighted_sem_available(&w));
    }
    join(c.thread);
    ASSERT_EQ_FMT(0, c.error, "%d");
    free(g);
    ASSERT_IDLE_AND_DESTROY(&w);
    PASS();
}

TEST drain_does_not_wait_for_later_jobs(void)
{
    enum { N = 20 }; /* more drains than there are epochs, with a job started between any two */
    weighted_sem w;
    gate g[N + 1];
    caller c[N];
    gates_init(g, N + 1);
    memset(c, 0, sizeof c);
    make(&w, N + 1);
    for (int i = 0; i < N; i++) {
        ASSERT_EQ_FMT(0, weighted_sem_start(&w, 1, pass, &g[i]), "%d");
        c[i] = (caller){.w = &w, .call = DRAIN};
        start_call(&c[i]);
        uint32_t epochs = i < 15 ? (uint32_t)i + 1 : 15;
        ASSERT(EVENTUALLY(peek(&w, &w.closed_epochs) == epochs));
    }
    ASSERT_EQ_FMT(0, weighted_sem_start(&w, 1, pass, &g[N]), "%d");
    /* The second job ends first: that lets go nobody, */
    csem_release(&g[1].exit);
    ASSERT(EVENTUALLY(weighted_sem_executing(&w) == N));
    for (int i = 0; i < 15; i++) {
        if (i != 1) {
            ASSERT_FALSE(atomic_load(&c[i].done));
            csem_release(&g[i].exit);
        } /* and then the end of the first lets go two. */
        join(c[i].thread);
        ASSERT_EQ_FMT(0, c[i].error, "%d");
    }
    for (int i = 15; i < N; i++) {
        ASSERT_FALSE(atomic_load(&c[i].done));
        csem_release(&g[i].exit);
    }
    csem_release(&g[N].exit); /* those beyond the fifteenth may wait for this one as well */
    join_calls(c + 15, N - 15);
    ASSERT_EQ_FMT(0, weighted_sem_drain_all(&w, PLIM_FOREVER), "%d");
    ASSERT_IDLE_AND_DESTROY(&w);
    PASS();
}

TEST drains_without_jobs_in_between_share_an_epoch(void)
{
    weighted_sem w;
    weighted_sem_job job;
    caller c[30];
    memset(c, 0, sizeof c);
    make(&w, 2);
    ASSERT_EQ_FMT(0, weighted_sem_begin(&w, 1, &job), "%d");
    for (int i = 0; i < 30; i++) {
        c[i] = (caller){.w = &w, .call = i % 2 == 0 ? DRAIN : DRAIN_ALL};
        start_call(&c[i]);
    }
    ASSERT(EVENTUALLY(peek(&w, &w.closed_epochs) == 1));
    ASSERT_EQ_FMT(0, weighted_sem_complete(&w, 1, nothing, NULL, NULL), "%d");
    ASSERT_EQ_FMT(0, weighted_sem_finish(&job, 0), "%d");
    join_calls(c, 30);
    ASSERT_IDLE_AND_DESTROY(&w);
    PASS();
}

/* Bare weight has no identity; a drain waits until it cannot be there any more. */
TEST drain_never_misses_bare_weight(void)
{
    weighted_sem w;
    weighted_sem_job job;
    make(&w, 10);
    ASSERT_EQ_FMT(0, weighted_sem_acquire(&w, 2), "%d");
    caller c = {.w = &w, .call = DRAIN};
    start_call(&c);
    ASSERT(EVENTUALLY(peek(&w, &w.closed_epochs) == 1));
    ASSERT_EQ_FMT(0, weighted_sem_acquire(&w, 2), "%d"); /* a later one, */
    ASSERT_EQ_FMT(0, weighted_sem_begin(&w, 1, &job), "%d");
    ASSERT_EQ_FMT(0, weighted_sem_release(&w, 2), "%d"); /* and one of them is given back: which? */
    ASSERT(stays_false(&c.done));
    ASSERT_EQ_FMT(0, weighted_sem_finish(&job, 0), "%d");
    ASSERT(stays_false(&c.done));
    ASSERT_EQ_FMT(0, weighted_sem_release(&w, 2), "%d");
    join(c.thread);
    ASSERT_EQ_FMT(0, c.error, "%d");
    ASSERT_IDLE_AND_DESTROY(&w);
    PASS();
}

/* Bare weight that is given back may use up the claim of a job that still executes: the job is
 * then charged to an older epoch, and nobody is let go too early. */
TEST drain_survives_mistaken_identity(void)
{
    weighted_sem w;
    weighted_sem_job old, young;
    make(&w, 10);
    ASSERT_EQ_FMT(0, weighted_sem_acquire(&w, 1), "%d");
    ASSERT_EQ_FMT(0, weighted_sem_begin(&w, 1, &old), "%d");
    caller first = {.w = &w, .call = DRAIN}, second = {.w = &w, .call = DRAIN};
    start_call(&first);
    ASSERT(EVENTUALLY(peek(&w, &w.closed_epochs) == 1));
    ASSERT_EQ_FMT(0, weighted_sem_begin(&w, 1, &young), "%d");
    start_call(&second);
    ASSERT(EVENTUALLY(peek(&w, &w.closed_epochs) == 2));
    ASSERT_EQ_FMT(0, weighted_sem_release(&w, 1), "%d"); /* charged to the epoch of `young` */
    ASSERT_EQ_FMT(0, weighted_sem_finish(&old, 0), "%d");
    ASSERT(stays_false(&first.done)); /* late, since nobody knows whose weight that was */
    ASSERT(stays_false(&second.done));
    ASSERT_EQ_FMT(0, weighted_sem_finish(&young, 0), "%d");
    join(first.thread);
    join(second.thread);
    ASSERT_IDLE_AND_DESTROY(&w);
    PASS();
}

TEST drain_may_time_out_and_be_called_again(void)
{
    weighted_sem w;
    gate g;
    gates_init(&g, 1);
    make(&w, 1);
    ASSERT_EQ_FMT(0, weighted_sem_start(&w, 1, pass, &g), "%d");
    ASSERT_EQ_FMT(ETIMEDOUT, weighted_sem_drain(&w, 0), "%d");
    ASSERT_EQ_FMT(ETIMEDOUT, weighted_sem_drain_all(&w, -1), "%d");
    int64_t before = plim_now_();
    ASSERT_EQ_FMT(ETIMEDOUT, weighted_sem_drain(&w, PLIM_MS(3)), "%d");
    ASSERT_EQ_FMT(ETIMEDOUT, weighted_sem_drain_all(&w, PLIM_MS(3)), "%d");
    ASSERT(plim_now_() - before >= PLIM_MS(6));
    csem_release(&g.exit);
    ASSERT_EQ_FMT(0, weighted_sem_drain(&w, PLIM_FOREVER), "%d");
    ASSERT_EQ_FMT(0, weighted_sem_drain_all(&w, PLIM_FOREVER), "%d");
    ASSERT_IDLE_AND_DESTROY(&w);
    PASS();
}

/* The same often, each time with a new job: epochs that nobody waits for any more come to an end
 * with their jobs. */
TEST drains_that_gave_up_leave_nothing_behind(void)
{
    enum { N = 40 };
    weighted_sem w;
    weighted_sem_job job[N];
    make(&w, N);
    for (int i = 0; i < N; i++) {
        ASSERT_EQ_FMT(0, weighted_sem_begin(&w, 1, &job[i]), "%d");
        ASSERT_EQ_FMT(ETIMEDOUT, weighted_sem_drain(&w, PLIM_US(20)), "%d");
    }
    for (int i = 0; i < N; i++) {
        ASSERT_EQ_FMT(0, weighted_sem_finish(&job[(i * 7) % N], 0), "%d");
    }
    ASSERT_EQ_FMT(0, weighted_sem_drain(&w, 0), "%d");
    ASSERT_IDLE_AND_DESTROY(&w);
    PASS();
}

/* A runs, B waits; whoever is let go by drain_all must have waited for B too. */
TEST drain_all_waits_for_those_who_wait(int rounds)
{
    weighted_sem w;
    atomic_int runs;
    atomic_init(&runs, 0);
    make(&w, 1);
    for (int i = 0; i < rounds; i++) {
        caller c = {.w = &w, .call = DRAIN_ALL};
        ASSERT_EQ_FMT(0, weighted_sem_start(&w, 1, count, &runs), "%d");
        if (i % 100 == 0) {
            start_call(&c);
        }
        ASSERT_EQ_FMT(0, weighted_sem_start(&w, 1, count, &runs), "%d");
        ASSERT_EQ_FMT(0, weighted_sem_start(&w, 1, count, &runs), "%d");
        ASSERT_EQ_FMT(0, weighted_sem_drain_all(&w, PLIM_FOREVER), "%d");
        ASSERT_EQ_FMT(3 * (i + 1), atomic_load(&runs), "%d");
        if (i % 100 == 0) {
            join(c.thread);
        }
    }
    ASSERT_IDLE_AND_DESTROY(&w);
    PASS();
}

/* Nor do they cost anything afterwards: the fast way is open again, and later drains are exact. */
TEST a_drain_that_gave_up_is_forgotten(void)
{
    enum { N = 40 };
    weighted_sem w;
    weighted_sem_job old, other, late;
    make(&w, 10);
    ASSERT_EQ_FMT(0, weighted_sem_begin(&w, 1, &old), "%d");
    for (int i = 0; i < N; i++) {
        ASSERT_EQ_FMT(0, weighted_sem_begin(&w, 1, &other), "%d");
        ASSERT_EQ_FMT(ETIMEDOUT, weighted_sem_drain(&w, PLIM_US(20)), "%d");
        ASSERT_EQ(0, plim_load_relaxed_(&w.gate.word) & PLIM_WATCHED_);
        ASSERT_EQ_FMT(0, weighted_sem_finish(&other, 0), "%d");
    }
    caller c = {.w = &w, .call = DRAIN};
    start_call(&c);
    ASSERT(EVENTUALLY(peek(&w, &w.closed_epochs) == 1));
    ASSERT_EQ_FMT(0, weighted_sem_begin(&w, 1, &late), "%d");
    ASSERT_FALSE(atomic_load(&c.done));
    ASSERT_EQ_FMT(0, weighted_sem_finish(&old, 0), "%d"); /* whatever its number means by now */
    join(c.thread);
    ASSERT_EQ_FMT(0, weighted_sem_finish(&late, 0), "%d");
    ASSERT_IDLE_AND_DESTROY(&w);
    PASS();
}

/* One drain gives up, another sleeps on: that one must not be let go by it. */
TEST a_drain_that_gives_up_leaves_the_others(void)
{
    weighted_sem w;
    weighted_sem_job first, second;
    make(&w, 10);
    ASSERT_EQ_FMT(0, weighted_sem_begin(&w, 1, &first), "%d");
    caller c = {.w = &w, .call = DRAIN};
    start_call(&c);
    ASSERT(EVENTUALLY(peek(&w, &w.closed_epochs) == 1));
    ASSERT_EQ_FMT(0, weighted_sem_begin(&w, 1, &second), "%d");
    ASSERT_EQ_FMT(ETIMEDOUT, weighted_sem_drain(&w, PLIM_MS(1)), "%d");
    ASSERT_EQ_FMT(0, weighted_sem_finish(&second, 0), "%d");
    ASSERT(stays_false(&c.done));
    ASSERT_EQ_FMT(0, weighted_sem_finish(&first, 0), "%d");
    join(c.thread);
    ASSERT_IDLE_AND_DESTROY(&w);
    PASS();
}

TEST drain_all_covers_what_comes_after_the_call(void)
{
    enum { RUNNING = 4, LATER = 40 };
    weighted_sem w;
    gate g[RUNNING];
    caller c[LATER];
    atomic_int runs;
    atomic_init(&runs, 0);
    gates_init(g, RUNNING);
    memset(c, 0, sizeof c);
    make(&w, RUNNING);
    for (int i = 0; i < RUNNING; i++) {
        ASSERT_EQ_FMT(0, weighted_sem_start(&w, 1, pass, &g[i]), "%d");
    }
    caller drain = {.w = &w, .call = DRAIN_ALL};
    start_call(&drain);
    ASSERT(EVENTUALLY(peek_first(&w, &w.quiet) != NULL));
    for (int i = 0; i < LATER; i++) {
        c[i] = (caller){.w = &w, .call = COMPLETE, .weight = 1 + (uint64_t)i % 4};
        c[i].fn = count;
        c[i].arg = &runs;
    }
    ASSERT(queue_up(c, LATER));
    ASSERT_FALSE(atomic_load(&drain.done));
    for (int i = 0; i < RUNNING; i++) {
        csem_release(&g[i].exit);
    }
    join(drain.thread);
    ASSERT_EQ_FMT((int)LATER, atomic_load(&runs), "%d");
    join_calls(c, LATER);
    ASSERT_IDLE_AND_DESTROY(&w);
    PASS();
}

/* Jobs that are started without end, one always beside the other, do not keep a drain. */
TEST drain_ends_although_jobs_keep_coming(void)
{
    weighted_sem w;
    gate g[2];
    make(&w, 2);
    gates_init(g, 2);
    ASSERT_EQ_FMT(0, weighted_sem_start(&w, 1, pass, &g[0]), "%d");
    caller c = {.w = &w, .call = DRAIN};
    start_call(&c);
    ASSERT(EVENTUALLY(peek(&w, &w.closed_epochs) == 1));
    ASSERT_EQ_FMT(0, weighted_sem_start(&w, 1, pass, &g[1]), "%d");
    csem_release(&g[0].exit);
    join(c.thread); /* while the second is still inside */
    ASSERT_EQ_FMT(1u, weighted_sem_executing(&w), "%u");
    csem_release(&g[1].exit);
    ASSERT_EQ_FMT(0, weighted_sem_drain(&w, PLIM_FOREVER), "%d");
    ASSERT_IDLE_AND_DESTROY(&w);
    PASS();
}

/* ---- errors ---- */

TEST errors_come_in_the_order_of_ends_with_their_start_number(void)
{
    weighted_sem w;
    gate g[3];
    weighted_sem_error e[4];
    const int end[] = {2, 0, 1};
    make(&w, 6);
    gates_init(g, 3);
    for (int i = 0; i < 3; i++) {
        g[i].result = 100 + i;
        ASSERT_EQ_FMT(0, weighted_sem_start(&w, (uint64_t)i + 1, pass, &g[i]), "%d");
    }
    for (int i = 0; i < 3; i++) {
        csem_release(&g[end[i]].exit);
        ASSERT(EVENTUALLY(weighted_sem_errors(&w) == (uint64_t)i + 1));
    }
    ASSERT_EQ(3, weighted_sem_extract_errors(&w, e, 4));
    for (int i = 0; i < 3; i++) {
        ASSERT_EQ_FMT(100 + end[i], e[i].code, "%d");
        ASSERT_EQ(&g[end[i]], e[i].arg);
        ASSERT_EQ((uint64_t)end[i] + 1, e[i].weight);
        ASSERT_EQ((uint64_t)end[i] + 1, e[i].sequence);
    }
    ASSERT_EQ(0, weighted_sem_errors(&w));
    ASSERT_EQ(0, weighted_sem_extract_errors(&w, e, 4));
    ASSERT_EQ_FMT(0, weighted_sem_drain(&w, PLIM_FOREVER), "%d");
    ASSERT_IDLE_AND_DESTROY(&w);
    PASS();
}

TEST errors_are_extracted_in_parts_and_stay_as_they_were(void)
{
    enum { N = 200 };
    weighted_sem w;
    weighted_sem_error e[N], copy;
    int code[N];
    make(&w, 17);
    for (int i = 0; i < N; i++) {
        code[i] = i + 1;
        ASSERT_EQ_FMT(0, weighted_sem_start(&w, 17, fails_with, &code[i]), "%d");
    }
    ASSERT_EQ_FMT(0, weighted_sem_drain(&w, PLIM_FOREVER), "%d");
    ASSERT_EQ(N, weighted_sem_errors(&w));
    ASSERT_EQ(0, weighted_sem_extract_errors(&w, e, 0));
    ASSERT_EQ(10, weighted_sem_extract_errors(&w, e, 10));
    copy = e[0];
    ASSERT_EQ(N - 10, weighted_sem_errors(&w));
    ASSERT_EQ(N - 10, weighted_sem_extract_errors(&w, e + 10, N - 10));
    ASSERT_EQ(0, weighted_sem_extract_errors(&w, e, N));
    ASSERT_EQ_FMT(copy.code, e[0].code, "%d");
    for (int i = 0; i < N; i++) {
        ASSERT_EQ_FMT(i + 1, e[i].code, "%d");
    }
    ASSERT_EQ(N, weighted_sem_snapshot(&w).failed);
    ASSERT_IDLE_AND_DESTROY(&w);
    PASS();
}

TEST a_full_store_keeps_the_oldest_and_counts_the_rest(uint32_t capacity)
{
    weighted_sem w;
    weighted_sem_options options = {.total = 3, .error_capacity = capacity};
    uint64_t kept = capacity == (uint32_t)PLIM_NONE ? 0 : capacity;
    weighted_sem_error e[8];
    int code[8];
    ASSERT_EQ_FMT(0, weighted_sem_init(&w, &options), "%d");
    for (uint64_t round = 1; round <= 2; round++) {
        for (int i = 0; i < 8; i++) {
            code[i] = i + 1;
            ASSERT_EQ_FMT(0, weighted_sem_start(&w, 3, fails_with, &code[i]), "%d");
        }
        ASSERT_EQ_FMT(0, weighted_sem_drain(&w, PLIM_FOREVER), "%d");
        ASSERT_EQ(kept, weighted_sem_errors(&w));
        ASSERT_EQ(round * (8 - kept), weighted_sem_errors_dropped(&w)); /* never reset */
        ASSERT_EQ(kept, weighted_sem_extract_errors(&w, e, 8));
        for (uint64_t i = 0; i < kept; i++) {
            ASSERT_EQ_FMT((int)i + 1, e[i].code, "%d");
        }
    }
    ASSERT_IDLE_AND_DESTROY(&w);
    PASS();
}

typedef struct extractor {
    weighted_sem *w;
    atomic_bool stop;
    atomic_int *seen; /* by code */
    plim_thread thread;
} extractor;

static plim_thread_result extract_often(void *arg)
{
    extractor *x = arg;
    bool last;
    do {
        last = atomic_load(&x->stop);
        weighted_sem_error e[3];
        size_t n = weighted_sem_extract_errors(x->w, e, 3);
        for (size_t i = 0; i < n; i++) {
            atomic_fetch_add(&x->seen[e[i].code], 1);
        }
        last = last && n == 0;
    } while (!last);
    return 0;
}

TEST extraction_beside_failing_jobs_loses_and_doubles_nothing(void)
{
    enum { N = 3000 };
    weighted_sem w;
    static int code[N];
    static atomic_int seen[N + 1];
    extractor x[2];
    make(&w, 8);
    for (int i = 0; i <= N; i++) {
        atomic_init(&seen[i], 0);
    }
    for (int i = 0; i < 2; i++) {
        x[i].w = &w;
        x[i].seen = seen;
        atomic_init(&x[i].stop, false);
        start(&x[i].thread, extract_often, &x[i]);
    }
    for (int i = 0; i < N; i++) {
        code[i] = i + 1;
        ASSERT_EQ_FMT(0, weighted_sem_start(&w, 1 + (uint64_t)i % 8, fails_with, &code[i]), "%d");
    }
    ASSERT_EQ_FMT(0, weighted_sem_drain(&w, PLIM_FOREVER), "%d");
    for (int i = 0; i < 2; i++) {
        atomic_store(&x[i].stop, true);
        join(x[i].thread);
    }
    int wrong = 0;
    uint64_t dropped = weighted_sem_errors_dropped(&w), missing = 0;
    for (int i = 1; i <= N; i++) {
        wrong += atomic_load(&seen[i]) > 1;
        missing += atomic_load(&seen[i]) == 0;
    }
    ASSERT_EQ_FMT(0, wrong, "%d");
    ASSERT_EQ(dropped, missing);
    ASSERT_IDLE_AND_DESTROY(&w);
    PASS();
}

/* ---- order ---- */

TEST starts_happen_in_the_order_of_calls(void)
{
    enum { N = 60 };
    weighted_sem w;
    gate g[N];
    caller c[N];
    uint64_t seed = 4711;
    gates_init(g, N);
    memset(c, 0, sizeof c);
    make(&w, 31);
    ASSERT_EQ_FMT(0, weighted_sem_acquire(&w, 31), "%d");
    for (int i = 0; i < N; i++) {
        c[i] = (caller){.w = &w, .call = i % 2 == 0 ? COMPLETE : START, .fn = pass, .arg = &g[i]};
        c[i].weight = next_random(&seed) % 31 + 1;
    }
    ASSERT(queue_up(c, N));
    ASSERT_EQ_FMT(0, weighted_sem_release(&w, 31), "%d");
    int entered = 0;
    uint64_t inside = 0;
    for (int ended = 0; ended < N; ended++) {
        while (entered < N && inside + c[entered].weight <= 31) {
            inside += c[entered].weight;
            csem_acquire(&g[entered++].entered); /* in that very order, and as soon as it fits */
        }
        ASSERT(EVENTUALLY(weighted_sem_available(&w) ==
                          31 - inside)); /* a job counts before it gives back */
        ASSERT_EQ_FMT((uint32_t)(N - entered), weighted_sem_waiting(&w), "%u");
        csem_release(&g[ended].exit);
        inside -= c[ended].weight;
        ASSERT(EVENTUALLY(weighted_sem_snapshot(&w).completed == (uint64_t)ended + 1));
    }
    join_calls(c, N);
    ASSERT_EQ_FMT(0, weighted_sem_drain(&w, PLIM_FOREVER), "%d");
    ASSERT_IDLE_AND_DESTROY(&w);
    PASS();
}

TEST one_end_may_let_in_several(void)
{
    weighted_sem w;
    make(&w, 2);
    caller c[2];
    memset(c, 0, sizeof c);
    c[0] = c[1] = (caller){.w = &w, .call = ACQUIRE, .weight = 1};
    ASSERT_EQ_FMT(0, weighted_sem_acquire(&w, 2), "%d");
    ASSERT(queue_up(c, 2));
    ASSERT_EQ_FMT(0, weighted_sem_release(&w, 2), "%d");
    join_calls(c, 2);
    ASSERT_EQ_FMT(0, c[0].error + c[1].error, "%d");
    ASSERT_EQ_FMT(2u, weighted_sem_executing(&w), "%u");
    ASSERT_EQ_FMT(0, weighted_sem_release(&w, 1), "%d");
    ASSERT_EQ_FMT(0, weighted_sem_release(&w, 1), "%d");
    ASSERT_IDLE_AND_DESTROY(&w);
    PASS();
}

/* A heavy one waits; light ones pass it until its budget is spent, and no further. */
TEST bypass_is_bounded_by_its_budget(uint32_t budget)
{
    weighted_sem w;
    weighted_sem_options options = {.total = 8, .bypass_window = 3, .bypass_budget = budget};
    ASSERT_EQ_FMT(0, weighted_sem_init(&w, &options), "%d");
    ASSERT_EQ_FMT(0, weighted_sem_acquire(&w, 4), "%d");
    caller heavy = {.w = &w, .call = ACQUIRE, .weight = 8};
    ASSERT(queue_up(&heavy, 1));
    uint64_t passed = 0;
    while (weighted_sem_try_acquire(&w, 3) == 0) {
        passed += 3;
        ASSERT_EQ_FMT(0, weighted_sem_release(&w, 3), "%d");
        ASSERT_FALSE(atomic_load(&heavy.done));
    }
    ASSERT_EQ(8 * budget / 3 * 3, passed);
    if (8 * budget - passed >= 1) {
        ASSERT_EQ_FMT(0, weighted_sem_acquire_for(&w, 8 * budget - passed, PLIM_S(1)), "%d");
        ASSERT_EQ_FMT(0, weighted_sem_release(&w, 8 * budget - passed), "%d");
    }
    ASSERT_EQ_FMT(EAGAIN, weighted_sem_try_acquire(&w, 1), "%d");
    ASSERT_EQ_FMT(0, weighted_sem_release(&w, 4), "%d");
    join(heavy.thread);
    ASSERT_EQ_FMT(0, heavy.error, "%d");
    /* The next in its place has a budget of its own. */
    start_call(&heavy);
    ASSERT(EVENTUALLY(weighted_sem_waiting(&w) == 1));
    ASSERT_EQ_FMT(0, weighted_sem_release(&w, 8), "%d");
    join(heavy.thread);
    ASSERT_EQ_FMT(0, weighted_sem_release(&w, 8), "%d");
    ASSERT_IDLE_AND_DESTROY(&w);
    PASS();
}

TEST bypass_is_bounded_by_its_window(void)
{
    weighted_sem w;
    weighted_sem_options options = {.total = 8, .bypass_window = 2, .bypass_budget = 4};
    caller c[4];
    memset(c, 0, sizeof c);
    ASSERT_EQ_FMT(0, weighted_sem_init(&w, &options), "%d");
    ASSERT_EQ_FMT(0, weighted_sem_acquire(&w, 5), "%d");
    for (int i = 0; i < 4; i++) {
        c[i] = (caller){.w = &w, .call = ACQUIRE, .weight = i == 3 ? 1 : 6};
    }
    ASSERT(queue_up(c, 4)); /* 3 are free: the last would fit, but is 3 places behind the first */
    ASSERT_EQ_FMT(EAGAIN, weighted_sem_try_acquire(&w, 1), "%d");
    ASSERT_EQ_FMT(0, weighted_sem_release(&w, 5), "%d"); /* the first goes in, the last bypasses */
    join(c[0].thread);
    join(c[3].thread);
    ASSERT_EQ_FMT(2u, weighted_sem_waiting(&w), "%u");
    ASSERT_EQ_FMT(0, weighted_sem_release(&w, 1), "%d");
    ASSERT_EQ_FMT(0, weighted_sem_release(&w, 6), "%d");
    join(c[1].thread);
    ASSERT_EQ_FMT(0, weighted_sem_release(&w, 6), "%d");
    join(c[2].thread);
    ASSERT_EQ_FMT(0, weighted_sem_release(&w, 6), "%d");
    ASSERT_IDLE_AND_DESTROY(&w);
    PASS();
}

TEST a_huge_budget_is_no_small_one(void)
{
    weighted_sem w;
    weighted_sem_options options = {.total = (uint64_t)1 << 35, .bypass_window = 1};
    options.bypass_budget = (uint32_t)1 << 30;
    ASSERT_EQ_FMT(0, weighted_sem_init(&w, &options), "%d");
    ASSERT_EQ_FMT(0, weighted_sem_acquire(&w, 1), "%d");
    caller c = {.w = &w, .call = ACQUIRE, .weight = options.total};
    ASSERT(queue_up(&c, 1));
    ASSERT_EQ_FMT(0, weighted_sem_try_acquire(&w, 5), "%d");
    ASSERT_EQ_FMT(0, weighted_sem_release(&w, 5), "%d");
    ASSERT_EQ_FMT(0, weighted_sem_release(&w, 1), "%d");
    join(c.thread);
    ASSERT_EQ_FMT(0, weighted_sem_release(&w, options.total), "%d");
    ASSERT_IDLE_AND_DESTROY(&w);
    PASS();
}

/* A head that gives up takes its spent budget along, even if the next stands at the same address. */
TEST a_new_head_has_a_new_budget(void)
{
    weighted_sem w;
    weighted_sem_options options = {.total = 4, .bypass_window = 1, .bypass_budget = 1};
    ASSERT_EQ_FMT(0, weighted_sem_init(&w, &options), "%d");
    ASSERT_EQ_FMT(0, weighted_sem_acquire(&w, 2), "%d");
    for (int i = 0; i < 3; i++) {
        caller c = {.w = &w, .call = ACQUIRE, .weight = 4, .timeout_ns = PLIM_MS(300)};
        ASSERT(queue_up(&c, 1));
        int passed = 0;
        while (weighted_sem_try_acquire(&w, 1) == 0) {
            passed++;
            ASSERT_EQ_FMT(0, weighted_sem_release(&w, 1), "%d");
            if (passed > 4) {
                break; /* it has given up meanwhile */
            }
        }
        ASSERT(passed >= 4);
        join(c.thread);
        ASSERT_EQ_FMT(ETIMEDOUT, c.error, "%d");
    }
    ASSERT_EQ_FMT(0, weighted_sem_release(&w, 2), "%d");
    ASSERT_IDLE_AND_DESTROY(&w);
    PASS();
}

/* ---- timeouts and close ---- */

/* Case 53: the heavy head gives up, and the light one behind it starts without any completion. */
TEST a_head_that_gives_up_lets_the_next_in(int call)
{
    weighted_sem w;
    caller c[2];
    memset(c, 0, sizeof c);
    make(&w, 10);
    ASSERT_EQ_FMT(0, weighted_sem_acquire(&w, 1), "%d");
    c[0] = (caller){.w = &w, .call = call, .weight = 10, .fn = nothing};
    c[0].timeout_ns = PLIM_MS(300); /* enough for the second to queue up on a slow machine */
    c[1] = (caller){.w = &w, .call = ACQUIRE, .weight = 1};
    int64_t before = plim_now_();
    ASSERT(queue_up(c, 2));
    join(c[1].thread);
    ASSERT(plim_now_() - before >= PLIM_MS(300));
    join(c[0].thread);
    ASSERT_EQ_FMT(ETIMEDOUT, c[0].error, "%d");
    ASSERT_EQ_FMT(0, c[1].error, "%d");
    ASSERT_EQ(8, weighted_sem_available(&w));
    ASSERT_EQ_FMT(0, weighted_sem_release(&w, 1), "%d");
    ASSERT_EQ_FMT(0, weighted_sem_release(&w, 1), "%d");
    ASSERT_IDLE_AND_DESTROY(&w);
    PASS();
}

TEST many_timed_out_waiters_leave_nothing(void)
{
    enum { N = 64, ROUNDS = 10 };
    weighted_sem w;
    caller c[N];
    make(&w, 1);
    ASSERT_EQ_FMT(0, weighted_sem_acquire(&w, 1), "%d");
    for (int round = 0; round < ROUNDS; round++) {
        memset(c, 0, sizeof c);
        for (int i = 0; i < N; i++) {
            c[i] = (caller){.w = &w, .call = i % 4, .weight = 1, .fn = nothing};
            c[i].timeout_ns = PLIM_US(1 + 10 * (i % 7));
            start_call(&c[i]);
        }
        join_calls(c, N);
        for (int i = 0; i < N; i++) {
            ASSERT_EQ_FMT(ETIMEDOUT, c[i].error, "%d");
        }
        ASSERT_EQ_FMT(0u, weighted_sem_waiting(&w), "%u");
        ASSERT(peek_first(&w, &w.queue) == NULL);
    }
    ASSERT_EQ_FMT(0, weighted_sem_release(&w, 1), "%d");
    ASSERT_IDLE_AND_DESTROY(&w);
    PASS();
}

/* Five give up in a row, the sixth gets in; the number that wait goes down with each. */
TEST leavers_in_the_middle_of_the_queue(void)
{
    weighted_sem w;
    caller c[6];
    memset(c, 0, sizeof c);
    make(&w, 3);
    ASSERT_EQ_FMT(0, weighted_sem_acquire(&w, 3), "%d");
    for (int i = 0; i < 6; i++) {
        c[i] = (caller){.w = &w, .call = ACQUIRE, .weight = 3};
        c[i].timeout_ns = i < 5 ? PLIM_MS(1500 - 150 * i) : 0; /* the last of the five goes first */
    }
    ASSERT(queue_up(c, 6));
    for (int i = 4; i >= 0; i--) {
        join(c[i].thread);
        ASSERT_EQ_FMT(ETIMEDOUT, c[i].error, "%d");
    }
    ASSERT_EQ_FMT(1u, weighted_sem_waiting(&w), "%u");
    ASSERT_EQ_FMT(0, weighted_sem_release(&w, 3), "%d");
    join(c[5].thread);
    ASSERT_EQ_FMT(0, c[5].error, "%d");
    ASSERT_EQ_FMT(0, weighted_sem_release(&w, 3), "%d");
    ASSERT_IDLE_AND_DESTROY(&w);
    PASS();
}

TEST huge_timeouts_do_not_overflow(void)
{
    weighted_sem w;
    caller c[2];
    memset(c, 0, sizeof c);
    make(&w, 1);
    ASSERT_EQ_FMT(0, weighted_sem_acquire(&w, 1), "%d");
    c[0] = (caller){.w = &w, .call = ACQUIRE, .weight = 1, .timeout_ns = INT64_MAX - 1};
    c[1] = (caller){.w = &w, .call = ACQUIRE, .weight = 1, .timeout_ns = PLIM_FOREVER};
    ASSERT(queue_up(c, 2));
    for (int i = 0; i < 2; i++) {
        ASSERT_EQ_FMT(0, weighted_sem_release(&w, 1), "%d");
        join(c[i].thread);
        ASSERT_EQ_FMT(0, c[i].error, "%d");
    }
    ASSERT_EQ_FMT(0, weighted_sem_release(&w, 1), "%d");
    ASSERT_IDLE_AND_DESTROY(&w);
    PASS();
}

TEST close_sends_waiters_away_and_lets_jobs_end(void)
{
    weighted_sem w;
    gate g;
    caller c[5];
    weighted_sem_job job;
    memset(c, 0, sizeof c);
    gates_init(&g, 1);
    g.result = EIO;
    make(&w, 4);
    ASSERT_EQ_FMT(0, weighted_sem_start(&w, 2, pass, &g), "%d");
    ASSERT_EQ_FMT(0, weighted_sem_acquire(&w, 1), "%d");
    ASSERT_EQ_FMT(0, weighted_sem_begin(&w, 1, &job), "%d");
    for (int i = 0; i < 4; i++) {
        c[i] = (caller){.w = &w, .call = i, .weight = 1, .fn = nothing};
    }
    ASSERT(queue_up(c, 4));
    c[4] = (caller){.w = &w, .call = DRAIN_ALL};
    start_call(&c[4]);
    ASSERT_EQ_FMT(0, weighted_sem_close(&w), "%d");
    ASSERT_EQ_FMT(0, weighted_sem_close(&w), "%d");
    join_calls(c, 4);
    for (int i = 0; i < 4; i++) {
        ASSERT_EQ_FMT(ESHUTDOWN, c[i].error, "%d");
    }
    ASSERT_EQ_FMT(ESHUTDOWN, weighted_sem_acquire(&w, 1), "%d");
    ASSERT_EQ_FMT(ESHUTDOWN, weighted_sem_try_acquire(&w, 1), "%d");
    ASSERT_EQ_FMT(ESHUTDOWN, weighted_sem_start(&w, 1, nothing, NULL), "%d");
    ASSERT_EQ_FMT(ESHUTDOWN, weighted_sem_complete(&w, 1, nothing, NULL, NULL), "%d");
    ASSERT_EQ_FMT(3u, weighted_sem_executing(&w), "%u");
    ASSERT_FALSE(atomic_load(&c[4].done));
    csem_release(&g.exit);
    ASSERT_EQ_FMT(0, weighted_sem_release(&w, 1), "%d");
    ASSERT_EQ_FMT(0, weighted_sem_finish(&job, 0), "%d");
    join(c[4].thread);
    ASSERT_EQ_FMT(0, weighted_sem_drain(&w, PLIM_FOREVER), "%d");
    ASSERT_EQ(1, weighted_sem_errors(&w));
    ASSERT_EQ_FMT(ESHUTDOWN, weighted_sem_try_acquire(&w, 1), "%d");
    ASSERT_IDLE_AND_DESTROY(&w);
    PASS();
}

TEST close_races_with_starts(void)
{
    enum { N = 8 };
    for (int round = 0; round < 100; round++) {
        weighted_sem w;
        caller c[N];
        atomic_int runs;
        atomic_init(&runs, 0);
        memset(c, 0, sizeof c);
        make(&w, 2);
        for (int i = 0; i < N; i++) {
            c[i] = (caller){.w = &w, .call = i % 2 == 0 ? START : COMPLETE, .weight = 1};
            c[i].fn = count;
            c[i].arg = &runs;
            start_call(&c[i]);
        }
        rest(PLIM_US(round % 50));
        ASSERT_EQ_FMT(0, weighted_sem_close(&w), "%d");
        join_calls(c, N);
        ASSERT_EQ_FMT(0, weighted_sem_drain_all(&w, PLIM_FOREVER), "%d");
        int let_in = 0;
        for (int i = 0; i < N; i++) {
            ASSERT(c[i].error == 0 || c[i].error == ESHUTDOWN);
            let_in += c[i].error == 0;
        }
        ASSERT_EQ_FMT(let_in, atomic_load(&runs), "%d");
        ASSERT_IDLE_AND_DESTROY(&w);
    }
    PASS();
}

TEST destroy_waits_for_jobs_and_sends_waiters_away(void)
{
    weighted_sem w;
    gate g[2];
    caller c[3];
    memset(c, 0, sizeof c);
    gates_init(g, 2);
    make(&w, 2);
    ASSERT_EQ_FMT(0, weighted_sem_start(&w, 1, pass, &g[0]), "%d");
    ASSERT_EQ_FMT(0, weighted_sem_start(&w, 1, pass, &g[1]), "%d");
    c[0] = (caller){.w = &w, .call = START, .weight = 1, .fn = nothing};
    c[1] = (caller){.w = &w, .call = ACQUIRE, .weight = 1, .timeout_ns = PLIM_S(PATIENCE_S)};
    c[2] = (caller){.w = &w, .call = DESTROY};
    ASSERT(queue_up(c, 2));
    start_call(&c[2]);
    join_calls(c, 2);
    ASSERT_EQ_FMT(ESHUTDOWN, c[0].error, "%d");
    ASSERT_EQ_FMT(ESHUTDOWN, c[1].error, "%d");
    ASSERT(stays_false(&c[2].done));
    csem_release(&g[1].exit);
    ASSERT(stays_false(&c[2].done));
    csem_release(&g[0].exit);
    join(c[2].thread);
    ASSERT_EQ_FMT(0, c[2].error, "%d");
    PASS();
}

static plim_thread_result come_and_go(void *arg)
{
    caller *c = arg;
    c->error = weighted_sem_acquire_for(c->w, 1, c->timeout_ns);
    if (c->error == 0) {
        weighted_sem_release(c->w, 1);
    }
    atomic_store(&c->done, true);
    return 0;
}

/* Whoever is inside when destroy begins does not touch the object after destroy has returned. */
TEST destroy_may_race_with_the_ends_of_waits(void)
{
    enum { N = 4 };
    for (int round = 0; round < 300; round++) {
        weighted_sem *w = malloc(sizeof *w);
        caller c[N];
        gate g;
        gates_init(&g, 1);
        memset(c, 0, sizeof c);
        make(w, 1);
        ASSERT_EQ_FMT(0, weighted_sem_start(w, 1, pass, &g), "%d");
        for (int i = 0; i < N; i++) {
            c[i].w = w;
            c[i].timeout_ns = i == 0 ? PLIM_FOREVER : PLIM_US(200 + round % 60 * 5);
            atomic_init(&c[i].done, false);
            start(&c[i].thread, come_and_go, &c[i]);
        }
        ASSERT(EVENTUALLY(atomic_load(&c[0].done) + atomic_load(&c[1].done) +
                              atomic_load(&c[2].done) + atomic_load(&c[3].done) +
                              (int)weighted_sem_waiting(w) >=
                          N));
        csem_release(&g.exit);
        ASSERT_EQ_FMT(0, weighted_sem_destroy(w), "%d");
        memset(w, 0xa5, sizeof *w);
        free(w);
        for (int i = 0; i < N; i++) {
            join(c[i].thread);
            ASSERT(c[i].error == 0 || c[i].error == ETIMEDOUT || c[i].error == ESHUTDOWN);
        }
    }
    PASS();
}

/* ---- resize ---- */

TEST a_larger_total_lets_in_who_fits(void)
{
    weighted_sem w;
    caller c[3];
    memset(c, 0, sizeof c);
    make(&w, 4);
    ASSERT_EQ_FMT(0, weighted_sem_acquire(&w, 4), "%d");
    for (int i = 0; i < 3; i++) {
        c[i] = (caller){.w = &w, .call = ACQUIRE, .weight = (uint64_t)1 << i};
    }
    ASSERT(queue_up(c, 3));
    ASSERT_EQ_FMT(0, weighted_sem_resize(&w, 7), "%d");
    join_calls(c, 2);
    ASSERT_EQ_FMT(1u, weighted_sem_waiting(&w), "%u");
    ASSERT_EQ(0, weighted_sem_available(&w));
    ASSERT_EQ_FMT(0, weighted_sem_release(&w, 4), "%d");
    join(c[2].thread);
    for (int i = 0; i < 3; i++) {
        ASSERT_EQ_FMT(0, weighted_sem_release(&w, c[i].weight), "%d");
    }
    ASSERT_EQ(7, weighted_sem_available(&w));
    ASSERT_IDLE_AND_DESTROY(&w);
    PASS();
}

TEST a_smaller_total_takes_effect_as_jobs_end(void)
{
    weighted_sem w;
    make(&w, 10);
    ASSERT_EQ_FMT(0, weighted_sem_acquire(&w, 5), "%d");
    ASSERT_EQ_FMT(0, weighted_sem_acquire(&w, 3), "%d");
    ASSERT_EQ_FMT(0, weighted_sem_resize(&w, 4), "%d");
    weighted_sem_stats s = weighted_sem_snapshot(&w);
    ASSERT_EQ(4, s.total);
    ASSERT_EQ(0, s.available);
    ASSERT_EQ_FMT(2u, s.executing, "%u");
    ASSERT_EQ_FMT(EAGAIN, weighted_sem_try_acquire(&w, 1), "%d");
    ASSERT_EQ_FMT(ERANGE, weighted_sem_try_acquire(&w, 5), "%d");
    caller c = {.w = &w, .call = ACQUIRE, .weight = 2};
    ASSERT(queue_up(&c, 1));
    ASSERT_EQ_FMT(0, weighted_sem_release(&w, 5), "%d"); /* 3 are taken of 4 */
    ASSERT_EQ_FMT(1u, weighted_sem_waiting(&w), "%u");
    ASSERT_EQ(1, weighted_sem_available(&w));
    ASSERT_EQ_FMT(0, weighted_sem_release(&w, 3), "%d");
    join(c.thread);
    ASSERT_EQ_FMT(0, weighted_sem_release(&w, 2), "%d");
    ASSERT_IDLE_AND_DESTROY(&w);
    PASS();
}

TEST a_waiter_above_the_new_total_is_sent_away(void)
{
    weighted_sem w;
    caller c[4];
    const uint64_t weight[] = {6, 9, 2, 7};
    memset(c, 0, sizeof c);
    make(&w, 10);
    ASSERT_EQ_FMT(0, weighted_sem_acquire(&w, 5), "%d");
    for (int i = 0; i < 4; i++) {
        c[i] = (caller){.w = &w, .call = i, .weight = weight[i], .fn = nothing};
    }
    ASSERT(queue_up(c, 4));
    ASSERT_EQ_FMT(EINVAL, weighted_sem_resize(&w, 0), "%d");
    ASSERT_EQ_FMT(EINVAL, weighted_sem_resize(&w, WEIGHTED_SEM_MAX + 1), "%d");
    ASSERT_EQ_FMT(4u, weighted_sem_waiting(&w), "%u");
    ASSERT_EQ_FMT(0, weighted_sem_resize(&w, 7), "%d"); /* the 9 goes; the 6 still has to wait */
    join(c[1].thread);
    ASSERT_EQ_FMT(ERANGE, c[1].error, "%d");
    ASSERT_EQ_FMT(3u, weighted_sem_waiting(&w), "%u");
    ASSERT_EQ_FMT(0, weighted_sem_resize(&w, 5), "%d");
    join(c[0].thread);
    join(c[3].thread);
    ASSERT_EQ_FMT(ERANGE, c[0].error, "%d");
    ASSERT_EQ_FMT(ERANGE, c[3].error, "%d");
    ASSERT_EQ_FMT(1u, weighted_sem_waiting(&w), "%u"); /* the 2: there is nothing free */
    ASSERT_EQ_FMT(0, weighted_sem_resize(&w, 8), "%d");
    join(c[2].thread);
    ASSERT_EQ_FMT(0, c[2].error, "%d");
    ASSERT_EQ_FMT(0, weighted_sem_release(&w, 5), "%d");
    ASSERT_EQ_FMT(0, weighted_sem_drain_all(&w, PLIM_FOREVER), "%d");
    ASSERT_IDLE_AND_DESTROY(&w);
    PASS();
}

/* ---- inside a background job ---- */

typedef struct nested {
    weighted_sem *w;
    uint64_t weight;
    int64_t timeout_ns;
    int start, start_for, complete, begin, acquire, drain, drain_all, destroy, tried;
    csem go, done;
    weighted_sem_job job;
} nested;

static int use_it_inside(void *arg)
{
    nested *n = arg;
    csem_acquire(&n->go);
    n->start = weighted_sem_start(n->w, n->weight, nothing, NULL);
    n->start_for = weighted_sem_start_for(n->w, n->weight, nothing, NULL, PLIM_S(PATIENCE_S));
    n->complete = weighted_sem_complete(n->w, n->weight, nothing, NULL, NULL);
    n->begin = weighted_sem_begin(n->w, n->weight, &n->job);
    if (n->begin == 0) {
        weighted_sem_finish(&n->job, 0);
    }
    n->acquire = weighted_sem_acquire(n->w, n->weight);
    if (n->acquire == 0) {
        weighted_sem_release(n->w, n->weight);
    }
    n->tried = weighted_sem_try_acquire(n->w, n->weight);
    if (n->tried == 0) {
        weighted_sem_release(n->w, n->weight);
    }
    n->drain = weighted_sem_drain(n->w, PLIM_FOREVER);
    n->drain_all = weighted_sem_drain_all(n->w, 0);
    n->destroy = weighted_sem_destroy(n->w);
    csem_release(&n->done);
    return 0;
}

TEST a_job_that_would_wait_for_itself_is_told(uint64_t weight, int expected)
{
    weighted_sem w;
    nested n = {.w = &w, .weight = weight};
    csem_init(&n.go, 1);
    csem_init(&n.done, 0);
    make(&w, 10);
    ASSERT_EQ_FMT(0, weighted_sem_start(&w, 6, use_it_inside, &n), "%d");
    csem_acquire(&n.done);
    ASSERT_EQ_FMT(0, weighted_sem_drain(&w, PLIM_FOREVER), "%d");
    ASSERT_EQ_FMT(expected, n.start, "%d");
    ASSERT_EQ_FMT(expected, n.start_for, "%d");
    ASSERT_EQ_FMT(expected, n.complete, "%d");
    ASSERT_EQ_FMT(expected, n.begin, "%d");
    ASSERT_EQ_FMT(expected, n.acquire, "%d");
    ASSERT_EQ_FMT(expected == EDEADLK ? EAGAIN : expected, n.tried, "%d");
    ASSERT_EQ_FMT(EDEADLK, n.drain, "%d");
    ASSERT_EQ_FMT(EDEADLK, n.drain_all, "%d");
    ASSERT_EQ_FMT(EDEADLK, n.destroy, "%d");
    ASSERT_IDLE_AND_DESTROY(&w);
    PASS();
}

static int acquire_after_resize(void *arg)
{
    nested *n = arg;
    weighted_sem_resize(n->w, n->weight);
    n->acquire = weighted_sem_acquire(n->w, 1);
    weighted_sem_resize(n->w, 10);
    return n->acquire;
}

TEST a_job_that_holds_more_than_the_total_is_told(void)
{
    weighted_sem w;
    nested n = {.w = &w, .weight = 5};
    weighted_sem_error error;
    make(&w, 10);
    ASSERT_EQ_FMT(0, weighted_sem_start(&w, 6, acquire_after_resize, &n), "%d");
    ASSERT_EQ_FMT(0, weighted_sem_drain(&w, PLIM_FOREVER), "%d");
    ASSERT_EQ(1, weighted_sem_extract_errors(&w, &error, 1));
    ASSERT_EQ_FMT(EDEADLK, error.code, "%d");
    ASSERT_IDLE_AND_DESTROY(&w);
    PASS();
}

/* It would fit beside the job, but somebody stands before it who does not. */
TEST a_job_behind_a_head_that_needs_its_weight_is_told(void)
{
    weighted_sem w;
    nested n = {.w = &w, .weight = 1};
    csem_init(&n.go, 0);
    csem_init(&n.done, 0);
    make(&w, 10);
    ASSERT_EQ_FMT(0, weighted_sem_start(&w, 6, use_it_inside, &n), "%d");
    caller c = {.w = &w, .call = ACQUIRE, .weight = 5};
    ASSERT(queue_up(&c, 1));
    csem_release(&n.go);
    csem_acquire(&n.done);
    ASSERT_EQ_FMT(EDEADLK, n.start, "%d");
    ASSERT_EQ_FMT(EDEADLK, n.acquire, "%d");
    ASSERT_EQ_FMT(EAGAIN, n.tried, "%d");
    join(c.thread);
    ASSERT_EQ_FMT(0, weighted_sem_release(&w, 5), "%d");
    ASSERT_EQ_FMT(0, weighted_sem_drain(&w, PLIM_FOREVER), "%d");
    ASSERT_IDLE_AND_DESTROY(&w);
    PASS();
}

typedef struct greedy {
    weighted_sem *w;
    uint64_t more;
    csem go, entered;
    int error;
} greedy;

static int take_more(void *arg)
{
    greedy *g = arg;
    csem_release(&g->entered);
    csem_acquire(&g->go);
    g->error = weighted_sem_acquire(g->w, g->more);
    if (g->error == 0) {
        weighted_sem_release(g->w, g->more);
    }
    return 0;
}

/* Two jobs that each want what the other holds: the second is told. */
TEST two_jobs_do_not_wait_for_each_other(bool by_resize)
{
    weighted_sem w;
    greedy g[2];
    make(&w, by_resize ? 14 : 10);
    for (int i = 0; i < 2; i++) {
        g[i].w = &w;
        g[i].more = 5;
        csem_init(&g[i].go, 0);
        csem_init(&g[i].entered, 0);
        ASSERT_EQ_FMT(0, weighted_sem_start(&w, by_resize ? 4 : 5, take_more, &g[i]), "%d");
        csem_acquire(&g[i].entered);
    }
    if (by_resize) {
        ASSERT_EQ_FMT(0, weighted_sem_acquire(&w, 5), "%d"); /* so that they have to wait */
    }
    csem_release(&g[0].go);
    ASSERT(EVENTUALLY(weighted_sem_waiting(&w) == 1));
    csem_release(&g[1].go);
    if (by_resize) {
        ASSERT(EVENTUALLY(weighted_sem_waiting(&w) == 2)); /* each will fit beside both */
        ASSERT_EQ_FMT(0, weighted_sem_resize(&w, 12), "%d");
        ASSERT(EVENTUALLY(weighted_sem_waiting(&w) == 1));
        ASSERT_EQ_FMT(0, weighted_sem_release(&w, 5), "%d");
    }
    ASSERT_EQ_FMT(0, weighted_sem_drain_all(&w, PLIM_FOREVER), "%d");
    ASSERT_EQ_FMT(0, g[0].error, "%d");
    ASSERT_EQ_FMT(EDEADLK, g[1].error, "%d");
    ASSERT_IDLE_AND_DESTROY(&w);
    PASS();
}

typedef struct tree {
    weighted_sem *w;
    atomic_int *runs;
    int depth;
} tree;

static tree branches[64];

static int start_two(void *arg)
{
    tree *t = arg;
    int error = 0;
    atomic_fetch_add(t->runs, 1);
    for (int i = 0; i < 2 && t->depth > 0; i++) {
        tree *child = &branches[2 * (t - branches) + 1 + i];
        *child = (tree){t->w, t->runs, t->depth - 1};
        error = weighted_sem_start(t->w, 1, start_two, child);
    }
    return error;
}

TEST jobs_may_start_jobs(void)
{
    weighted_sem w;
    atomic_int runs;
    atomic_init(&runs, 0);
    make(&w, 63);
    branches[0] = (tree){&w, &runs, 5};
    ASSERT_EQ_FMT(0, weighted_sem_start(&w, 1, start_two, &branches[0]), "%d");
    ASSERT_EQ_FMT(0, weighted_sem_drain_all(&w, PLIM_FOREVER), "%d");
    ASSERT_EQ_FMT(63, atomic_load(&runs), "%d");
    ASSERT_EQ(0, weighted_sem_errors(&w));
    ASSERT_IDLE_AND_DESTROY(&w);
    PASS();
}

/* ---- executors ---- */

typedef struct line {
    int refuse; /* the next so many */
    int held;   /* tasks that were accepted and wait for run_line */
    bool at_once;
    struct {
        void (*run)(void *);
        void *arg;
    } task[32];
} line;

static int stand_in_line(void *ctx, void (*run)(void *), void *arg)
{
    line *l = ctx;
    if (l->refuse > 0) {
        l->refuse--;
        return EBUSY;
    }
    if (l->at_once) {
        run(arg);
        return 0;
    }
    l->task[l->held].run = run;
    l->task[l->held++].arg = arg;
    return 0;
}

static void run_line(line *l)
{
    for (int i = 0; i < l->held; i++) {
        l->task[i].run(l->task[i].arg);
    }
    l->held = 0;
}

TEST an_executor_runs_what_it_accepts(bool at_once)
{
    weighted_sem w;
    line l = {.at_once = at_once};
    plim_executor executor = {stand_in_line, &l};
    weighted_sem_options options = {.total = 10, .executor = &executor, .expected_jobs = 2};
    atomic_int runs;
    int code = 77;
    weighted_sem_error error;
    atomic_init(&runs, 0);
    ASSERT_EQ_FMT(0, weighted_sem_init(&w, &options), "%d");
    executor.execute = NULL; /* it was copied */
    for (int i = 0; i < 4; i++) {
        ASSERT_EQ_FMT(0, weighted_sem_start(&w, 2, count, &runs), "%d");
        ASSERT_EQ(at_once ? 10 : 8 - 2 * (uint64_t)i, weighted_sem_available(&w));
    }
    ASSERT_EQ_FMT(0, weighted_sem_start(&w, 2, fails_with, &code), "%d");
    ASSERT_EQ_FMT(at_once ? 0u : 5u, weighted_sem_executing(&w), "%u");
    run_line(&l);
    ASSERT_EQ_FMT(4, atomic_load(&runs), "%d");
    ASSERT_EQ(1, weighted_sem_extract_errors(&w, &error, 1));
    ASSERT_EQ_FMT(77, error.code, "%d");
    ASSERT_EQ(5, error.sequence);
    ASSERT_EQ_FMT(0u, peek(&w, &w.threads), "%u");
    ASSERT_IDLE_AND_DESTROY(&w);
    PASS();
}

TEST a_refusal_gives_the_weight_back(void)
{
    weighted_sem w;
    line l = {.refuse = 1};
    plim_executor executor = {stand_in_line, &l};
    weighted_sem_options options = {.total = 10, .executor = &executor, .expected_jobs = 1};
    atomic_int runs;
    atomic_init(&runs, 0);
    ASSERT_EQ_FMT(0, weighted_sem_init(&w, &options), "%d");
    ASSERT_EQ_FMT(EAGAIN, weighted_sem_start(&w, 10, count, &runs), "%d");
    ASSERT(is_idle(&w));
    ASSERT_EQ(0, weighted_sem_snapshot(&w).started);
    ASSERT_EQ_FMT(0, weighted_sem_start(&w, 10, count, &runs), "%d");
    /* And if somebody waits for that weight, he gets it. */
    l.refuse = 0;
    run_line(&l);
    l.refuse = 1;
    ASSERT_EQ_FMT(0, weighted_sem_acquire(&w, 10), "%d");
    caller c[2];
    memset(c, 0, sizeof c);
    c[0] = (caller){.w = &w, .call = START, .weight = 10, .fn = count, .arg = &runs};
    c[1] = (caller){.w = &w, .call = ACQUIRE, .weight = 10};
    ASSERT(queue_up(c, 2));
    ASSERT_EQ_FMT(0, weighted_sem_release(&w, 10), "%d");
    join_calls(c, 2);
    ASSERT_EQ_FMT(EAGAIN, c[0].error, "%d");
    ASSERT_EQ_FMT(0, c[1].error, "%d");
    ASSERT_EQ_FMT(0, weighted_sem_release(&w, 10), "%d");
    ASSERT_EQ_FMT(1, atomic_load(&runs), "%d");
    ASSERT_IDLE_AND_DESTROY(&w);
    PASS();
}

TEST a_job_of_an_executor_that_waits_for_itself_is_told(void)
{
    weighted_sem w;
    line l = {.at_once = true};
    plim_executor executor = {stand_in_line, &l};
    weighted_sem_options options = {.total = 10, .executor = &executor};
    nested n = {.w = &w, .weight = 5};
    csem_init(&n.go, 1);
    csem_init(&n.done, 0);
    ASSERT_EQ_FMT(0, weighted_sem_init(&w, &options), "%d");
    ASSERT_EQ_FMT(0, weighted_sem_start(&w, 6, use_it_inside, &n), "%d");
    ASSERT_EQ_FMT(EDEADLK, n.start, "%d");
    ASSERT_EQ_FMT(EDEADLK, n.drain, "%d");
    ASSERT_IDLE_AND_DESTROY(&w);
    PASS();
}

static plim_thread_result run_task(void *arg)
{
    line *l = arg;
    run_line(l);
    return 0;
}

TEST a_job_may_end_the_thread_of_an_executor(void)
{
    NEEDS_POSIX();
    weighted_sem w;
    line l = {.at_once = false};
    plim_executor executor = {stand_in_line, &l};
    weighted_sem_options options = {.total = 10, .executor = &executor};
    weighted_sem_error error;
    plim_thread thread;
    ASSERT_EQ_FMT(0, weighted_sem_init(&w, &options), "%d");
    ASSERT_EQ_FMT(0, weighted_sem_start(&w, 6, end_the_thread, NULL), "%d");
    start(&thread, run_task, &l);
    join(thread);
    ASSERT_EQ_FMT(0, weighted_sem_drain(&w, PLIM_FOREVER), "%d");
    ASSERT_EQ(1, weighted_sem_extract_errors(&w, &error, 1));
    ASSERT_EQ_FMT(ECANCELED, error.code, "%d");
    ASSERT_IDLE_AND_DESTROY(&w);
    PASS();
}

/* ---- moments that are hard to meet: made by hand, under the lock ---- */

TEST a_place_for_one_more_job_is_needed_too(void)
{
    weighted_sem w;
    make(&w, WEIGHTED_SEM_MAX);
    uint64_t word = plim_load_relaxed_(&w.gate.word);
    plim_store_relaxed_(&w.gate.word, word + WEIGHTED_SEM_JOBS_MAX * WEIGHTED_SEM_JOB_ONE_ -
                                          WEIGHTED_SEM_JOBS_MAX * WEIGHTED_SEM_UNIT_);
    ASSERT_EQ_FMT(WEIGHTED_SEM_JOBS_MAX, weighted_sem_executing(&w), "%u");
    ASSERT_EQ_FMT(EAGAIN, weighted_sem_try_acquire(&w, 1), "%d");
    caller c = {.w = &w, .call = ACQUIRE, .weight = 1};
    ASSERT(queue_up(&c, 1));
    ASSERT_EQ_FMT(0, weighted_sem_release(&w, 1), "%d");
    join(c.thread);
    ASSERT_EQ_FMT(0, c.error, "%d");
    plim_store_relaxed_(&w.gate.word, word);
    ASSERT_IDLE_AND_DESTROY(&w);
    PASS();
}

/* One who is leaving by itself is neither let in nor sent away, and does not hold up others. */
TEST whoever_is_leaving_is_left_alone(void)
{
    weighted_sem w;
    weighted_sem_sleeper_ leaving;
    make(&w, 5);
    weighted_sem_sleeper_init_(&leaving);
    leaving.weight = 4;
    plim_store_relaxed_(&leaving.waiter.state, PLIM_LEAVING_);
    ASSERT_EQ_FMT(0, weighted_sem_acquire(&w, 3), "%d");
    weighted_sem_section_ s = weighted_sem_lock_(&w);
    plim_append_(&w.queue, &leaving.waiter.node);
    plim_store_relaxed_(&w.waiting, 1);
    weighted_sem_unlock_(&w, &s);

    ASSERT_EQ_FMT(0, weighted_sem_acquire(&w, 1), "%d");
    ASSERT_EQ_FMT(0, weighted_sem_release(&w, 1), "%d");
    weighted_sem_sleeper_ job; /* that holds 2, and would wait for ever if the 4 stayed */
    weighted_sem_sleeper_init_(&job);
    job.weight = 1;
    job.holds = 2;
    ASSERT_FALSE(weighted_sem_waits_for_itself_(&w, &job));
    plim_store_relaxed_(&leaving.waiter.state, PLIM_WAITING_);
    ASSERT(weighted_sem_waits_for_itself_(&w, &job));
    plim_store_relaxed_(&leaving.waiter.state, PLIM_LEAVING_);
    ASSERT_EQ_FMT(0, weighted_sem_release(&w, 3), "%d");
    ASSERT_EQ_FMT(0, weighted_sem_resize(&w, 3), "%d");
    ASSERT_EQ_FMT(0, weighted_sem_resize(&w, 5), "%d");
    ASSERT_EQ_FMT(0, weighted_sem_close(&w), "%d");
    ASSERT(w.queue.first == &leaving.waiter.node && w.queue.last == &leaving.waiter.node);
    ASSERT_EQ_FMT(ETIMEDOUT, weighted_sem_drain_all(&w, 0), "%d"); /* destroy would wait for it */
    ASSERT_EQ_FMT(ETIMEDOUT, weighted_sem_drain_all(&w, PLIM_US(10)), "%d");

    s = weighted_sem_lock_(&w);
    weighted_sem_leave_queue_(&w, &leaving);
    weighted_sem_unlock_(&w, &s);
    ASSERT_EQ_FMT(0, weighted_sem_drain_all(&w, 0), "%d");
    ASSERT_IDLE_AND_DESTROY(&w);
    PASS();
}

TEST a_worker_that_is_leaving_gets_no_task(void)
{
    weighted_sem w;
    atomic_int runs;
    atomic_init(&runs, 0);
    make(&w, 5);
    ASSERT_EQ_FMT(0, weighted_sem_start(&w, 1, count, &runs), "%d");
    ASSERT(EVENTUALLY(peek_first(&w, &w.parked) != NULL));
    plim_waiter_ *worker = peek_first(&w, &w.parked);
    plim_store_relaxed_(&worker->state, PLIM_LEAVING_);
    ASSERT_EQ_FMT(0, weighted_sem_start(&w, 1, count, &runs), "%d");
    ASSERT_EQ_FMT(0, weighted_sem_drain(&w, PLIM_FOREVER), "%d");
    ASSERT_EQ_FMT(2u, peek(&w, &w.threads), "%u");
    plim_store_relaxed_(&worker->state, PLIM_WAITING_);
    ASSERT_EQ_FMT(2, atomic_load(&runs), "%d");
    ASSERT_IDLE_AND_DESTROY(&w);
    PASS();
}

TEST a_long_held_lock_delays_but_loses_nothing(void)
{
    weighted_sem w;
    caller c[4];
    memset(c, 0, sizeof c);
    make(&w, 5);
    weighted_sem_job job;
    ASSERT_EQ_FMT(0, weighted_sem_begin(&w, 2, &job), "%d");
    weighted_sem_section_ s = weighted_sem_lock_(&w);
    for (int i = 0; i < 3; i++) {
        c[i] = (caller){.w = &w, .call = i, .weight = 1, .fn = nothing};
        start_call(&c[i]);
    }
    plim_thread thread;
    start(&thread, finish_it, &job);
    ASSERT(EVENTUALLY(plim_waiters_(plim_load_relaxed_(&w.gate.lock.word)) == 4)); /* all asleep */
    weighted_sem_unlock_(&w, &s);
    join(thread);
    join_calls(c, 3);
    ASSERT_EQ_FMT(0, weighted_sem_release(&w, 1), "%d");
    ASSERT_EQ_FMT(0, weighted_sem_drain_all(&w, PLIM_FOREVER), "%d");
    ASSERT_IDLE_AND_DESTROY(&w);
    PASS();
}

TEST quiet_means_that_no_thread_is_being_created_either(void)
{
    weighted_sem w;
    make(&w, 1);
    w.hiring = 1;
    ASSERT_EQ_FMT(ETIMEDOUT, weighted_sem_drain_all(&w, 0), "%d");
    ASSERT_EQ_FMT(ETIMEDOUT, weighted_sem_drain_all(&w, PLIM_US(10)), "%d");
    w.hiring = 0;
    ASSERT_IDLE_AND_DESTROY(&w);
    PASS();
}

/* ---- the ends of threads ---- */

typedef struct starter {
    weighted_sem *w;
    int error;
    plim_thread thread;
} starter;

static plim_thread_result start_the_end(void *arg)
{
    starter *v = arg;
    v->error = -1;
    v->error = weighted_sem_start(v->w, 6, end_the_thread, NULL);
    return 0;
}

/* An executor may run the job inside start; then the job ends the thread that called it. */
TEST a_job_may_end_the_thread_that_started_it(void)
{
    NEEDS_POSIX();
    weighted_sem w;
    line l = {.at_once = true};
    plim_executor executor = {stand_in_line, &l};
    weighted_sem_options options = {.total = 10, .executor = &executor};
    weighted_sem_error error;
    starter v = {.w = &w};
    ASSERT_EQ_FMT(0, weighted_sem_init(&w, &options), "%d");
    start(&v.thread, start_the_end, &v);
    join(v.thread);
    ASSERT_EQ_FMT(-1, v.error, "%d"); /* it never returned */
    ASSERT_EQ_FMT(0, weighted_sem_drain_all(&w, PLIM_S(PATIENCE_S)), "%d");
    ASSERT_EQ(1, weighted_sem_extract_errors(&w, &error, 1));
    ASSERT_EQ_FMT(ECANCELED, error.code, "%d");
    ASSERT_IDLE_AND_DESTROY(&w);
    PASS();
}

#ifdef PLIM_USE_PTHREADS
#define KEY pthread_key_t
#define KEY_CREATE(key, destructor) pthread_key_create(key, destructor)
#define KEY_SET pthread_setspecific
#define KEY_DELETE pthread_key_delete
#else
#define KEY tss_t
#define KEY_CREATE(key, destructor) tss_create(key, destructor)
#define KEY_SET tss_set
#define KEY_DELETE tss_delete
#endif

static KEY linger;

static void linger_until(void *gate_)
{
    csem_acquire(gate_);
}

static int linger_afterwards(void *arg)
{
    KEY_SET(linger, arg);
    return 0;
}

/* A thread that has left may still be busy with the program's destructors: no start waits for it. */
TEST a_start_does_not_wait_for_a_thread_that_has_left(void)
{
    NEEDS_POSIX();
    weighted_sem w;
    weighted_sem_options options = {.total = 4, .expected_jobs = 1};
    csem gate_ = CSEM_INIT(0);
    atomic_int runs;
    atomic_init(&runs, 0);
    ASSERT_EQ_FMT(0, KEY_CREATE(&linger, linger_until), "%d");
    ASSERT_EQ_FMT(0, weighted_sem_init(&w, &options), "%d");
    idle_ns = PLIM_MS(1);
    ASSERT_EQ_FMT(0, weighted_sem_start(&w, 1, linger_afterwards, &gate_), "%d");
    ASSERT(EVENTUALLY(peek(&w, &w.threads) == 0));
    for (int i = 0; i < 3; i++) {
        ASSERT_EQ_FMT(0, weighted_sem_start(&w, 1, count, &runs), "%d");
        ASSERT(EVENTUALLY(peek(&w, &w.threads) == 0));
    }
    ASSERT_EQ_FMT(3, atomic_load(&runs), "%d");
    idle_ns = PLIM_S(60);
    csem_release(&gate_);
    ASSERT_IDLE_AND_DESTROY(&w);
    KEY_DELETE(linger);
    PASS();
}

/* Many are let in at once by the end of a job: a start among them is not held up by the others. */
TEST a_start_among_many_is_started_too(void)
{
    enum { N = 30 };
    weighted_sem w;
    gate g;
    caller c[N];
    atomic_int runs;
    atomic_init(&runs, 0);
    gates_init(&g, 1);
    memset(c, 0, sizeof c);
    make(&w, N);
    ASSERT_EQ_FMT(0, weighted_sem_start(&w, N, pass, &g), "%d");
    for (int i = 0; i < N; i++) {
        c[i] = (caller){.w = &w, .call = i % 2 == 0 ? START : ACQUIRE, .weight = 1};
        c[i].fn = count;
        c[i].arg = &runs;
    }
    ASSERT(queue_up(c, N));
    csem_release(&g.exit);
    join_calls(c, N);
    for (int i = 1; i < N; i += 2) {
        ASSERT_EQ_FMT(0, weighted_sem_release(&w, 1), "%d");
    }
    ASSERT_EQ_FMT(0, weighted_sem_drain_all(&w, PLIM_FOREVER), "%d");
    ASSERT_EQ_FMT(N / 2, atomic_load(&runs), "%d");
    ASSERT_IDLE_AND_DESTROY(&w);
    PASS();
}

/* ---- figures ---- */

TEST figures_agree_with_each_other(void)
{
    weighted_sem w;
    weighted_sem_job job;
    make(&w, 9);
    ASSERT_EQ_FMT(0, weighted_sem_acquire(&w, 2), "%d");
    ASSERT_EQ_FMT(0, weighted_sem_begin(&w, 3, &job), "%d");
    caller c = {.w = &w, .call = ACQUIRE, .weight = 9};
    ASSERT(queue_up(&c, 1));
    weighted_sem_stats s = weighted_sem_snapshot(&w);
    ASSERT_EQ(9, s.total);
    ASSERT_EQ(4, s.available);
    ASSERT_EQ_FMT(2u, s.executing, "%u");
    ASSERT_EQ_FMT(1u, s.waiting, "%u");
    ASSERT_EQ(1, s.started); /* bare weight is not a job */
    ASSERT_EQ(0, s.completed);
    ASSERT_EQ(weighted_sem_total(&w), s.total);
    ASSERT_EQ(weighted_sem_available(&w), s.available);
    ASSERT_EQ_FMT(weighted_sem_executing(&w), s.executing, "%u");
    ASSERT_EQ_FMT(weighted_sem_waiting(&w), s.waiting, "%u");
    ASSERT_EQ(weighted_sem_errors(&w), s.errors);
    ASSERT_EQ(weighted_sem_errors_dropped(&w), s.errors_dropped);
    ASSERT_EQ_FMT(0, weighted_sem_finish(&job, ENOENT), "%d");
    ASSERT_EQ_FMT(0, weighted_sem_release(&w, 2), "%d");
    join(c.thread);
    s = weighted_sem_snapshot(&w);
    ASSERT_EQ(1, s.completed);
    ASSERT_EQ(1, s.failed);
    ASSERT_EQ(1, s.errors);
    ASSERT_EQ_FMT(0, weighted_sem_release(&w, 9), "%d");
    ASSERT_IDLE_AND_DESTROY(&w);
    PASS();
}

typedef struct ledger {
    weighted_sem *w;
    int plain; /* changed by whoever holds all the weight, by whatever means */
    int way;
    plim_thread thread;
} ledger;

static ledger books;

static int add_one(void *arg)
{
    ledger *l = arg;
    l->plain++;
    return 0;
}

static plim_thread_result keep_books(void *arg)
{
    ledger *l = arg;
    weighted_sem_job job;
    for (int i = 0; i < 500; i++) {
        switch ((i + l->way) % 4) {
        case 0:
            weighted_sem_acquire(l->w, 3);
            books.plain++;
            weighted_sem_release(l->w, 3);
            break;
        case 1:
            weighted_sem_start(l->w, 3, add_one, &books);
            break;
        case 2:
            weighted_sem_complete(l->w, 3, add_one, &books, NULL);
            break;
        default:
            weighted_sem_begin(l->w, 3, &job);
            books.plain++;
            weighted_sem_finish(&job, 0);
        }
    }
    return 0;
}

/* Nobody waits, so most of it goes the fast way. */
static plim_thread_result keep_books_by_tries(void *arg)
{
    ledger *l = arg;
    weighted_sem_job job;
    for (int i = 0; i < 500;) {
        int error;
        switch ((i + l->way) % 3) {
        case 0:
            error = weighted_sem_try_acquire(l->w, 3);
            if (error == 0) {
                books.plain++;
                weighted_sem_release(l->w, 3);
            }
            break;
        case 1:
            error = weighted_sem_try_complete(l->w, 3, add_one, &books, NULL);
            break;
        default:
            error = weighted_sem_try_begin(l->w, 3, &job);
            if (error == 0) {
                books.plain++;
                weighted_sem_finish(&job, 0);
            }
        }
        i += error == 0;
    }
    return 0;
}

TEST what_was_written_before_is_seen_by_whoever_is_let_in(plim_thread_result (*keep)(void *))
{
    enum { N = 4 };
    weighted_sem w;
    ledger l[N];
    make(&w, 3);
    books.plain = 0;
    for (int i = 0; i < N; i++) {
        l[i] = (ledger){.w = &w, .way = i};
        start(&l[i].thread, keep, &l[i]);
    }
    for (int i = 0; i < N; i++) {
        join(l[i].thread);
    }
    ASSERT_EQ_FMT(0, weighted_sem_drain(&w, PLIM_FOREVER), "%d");
    ASSERT_EQ_FMT(N * 500, books.plain, "%d");
    ASSERT_IDLE_AND_DESTROY(&w);
    PASS();
}

TEST errno_is_left_alone(void)
{
    weighted_sem w;
    make(&w, 1);
    errno = 4242;
    weighted_sem_start(&w, 1, nothing, NULL);
    weighted_sem_drain(&w, PLIM_FOREVER);
    weighted_sem_acquire(&w, 1);
    weighted_sem_acquire_for(&w, 1, PLIM_US(100));
    weighted_sem_release(&w, 1);
    weighted_sem_snapshot(&w);
    int after = errno;
    ASSERT_EQ_FMT(4242, after, "%d");
    ASSERT_IDLE_AND_DESTROY(&w);
    PASS();
}

SUITE(weighted_sem_suite)
{
    RUN_TEST(totals_out_of_range_are_refused);
    RUN_TEST(smallest_and_largest_total_work);
    RUN_TESTp(impossible_weights_are_refused_at_once, false);
    RUN_TESTp(impossible_weights_are_refused_at_once, true);
    RUN_TEST(missing_functions_and_jobs_are_refused);
    RUN_TEST(weights_near_the_maximum_are_served_in_order);
    RUN_TEST(what_is_not_held_cannot_be_given_back);

    RUN_TESTp(never_more_inside_than_fit, 5, 5, 20, 1);
    RUN_TESTp(never_more_inside_than_fit, 45, 9, 84, 5);
    RUN_TEST(a_result_goes_to_the_caller_and_nowhere_else);
    RUN_TEST(a_failing_job_does_not_disturb_those_that_wait);
    RUN_TEST(completion_order_is_call_order_when_each_needs_all);

    RUN_TEST(start_returns_while_its_job_executes);
    RUN_TEST(more_jobs_than_expected_all_start_at_once);
    RUN_TEST(a_blocked_head_holds_up_even_those_that_fit);
    RUN_TEST(try_forms_take_what_fits_and_change_nothing_otherwise);
    RUN_TEST(a_try_does_not_overtake);
    RUN_TEST(every_started_job_runs_beside_the_others);
    RUN_TEST(threads_are_never_more_than_jobs_at_once);
    RUN_TEST(idle_threads_go_away_and_come_back);
    RUN_TEST(idle_threads_and_starts_may_race);
    RUN_TEST(a_job_may_end_its_thread);

    RUN_TEST(a_job_that_was_begun_ends_on_any_thread);
    RUN_TEST(an_error_of_finish_is_stored_with_its_arg);
    RUN_TEST(a_finish_may_be_earlier_than_the_next_line);

    RUN_TEST(drain_with_nothing_to_wait_for_returns_at_once);
    RUN_TESTp(drain_lasts_until_the_last_job_ends, 57, false);
    RUN_TESTp(drain_lasts_until_the_last_job_ends, 45, true);
    RUN_TEST(drain_does_not_wait_for_later_jobs);
    RUN_TEST(drains_without_jobs_in_between_share_an_epoch);
    RUN_TEST(drain_never_misses_bare_weight);
    RUN_TEST(drain_survives_mistaken_identity);
    RUN_TEST(drain_may_time_out_and_be_called_again);
    RUN_TEST(drains_that_gave_up_leave_nothing_behind);
    RUN_TEST(a_drain_that_gave_up_is_forgotten);
    RUN_TEST(a_drain_that_gives_up_leaves_the_others);
    RUN_TESTp(drain_all_waits_for_those_who_wait, 2000);
    RUN_TEST(drain_all_covers_what_comes_after_the_call);
    RUN_TEST(drain_ends_although_jobs_keep_coming);

    RUN_TEST(errors_come_in_the_order_of_ends_with_their_start_number);
    RUN_TEST(errors_are_extracted_in_parts_and_stay_as_they_were);
    RUN_TESTp(a_full_store_keeps_the_oldest_and_counts_the_rest, 3);
    RUN_TESTp(a_full_store_keeps_the_oldest_and_counts_the_rest, (uint32_t)PLIM_NONE);
    RUN_TEST(extraction_beside_failing_jobs_loses_and_doubles_nothing);

    RUN_TEST(starts_happen_in_the_order_of_calls);
    RUN_TEST(one_end_may_let_in_several);
    RUN_TESTp(bypass_is_bounded_by_its_budget, 1);
    RUN_TESTp(bypass_is_bounded_by_its_budget, 4);
    RUN_TEST(bypass_is_bounded_by_its_window);
    RUN_TEST(a_huge_budget_is_no_small_one);
    RUN_TEST(a_new_head_has_a_new_budget);

    RUN_TESTp(a_head_that_gives_up_lets_the_next_in, ACQUIRE);
    RUN_TESTp(a_head_that_gives_up_lets_the_next_in, START);
    RUN_TESTp(a_head_that_gives_up_lets_the_next_in, COMPLETE);
    RUN_TESTp(a_head_that_gives_up_lets_the_next_in, BEGIN);
    RUN_TEST(many_timed_out_waiters_leave_nothing);
    RUN_TEST(leavers_in_the_middle_of_the_queue);
    RUN_TEST(huge_timeouts_do_not_overflow);
    RUN_TEST(close_sends_waiters_away_and_lets_jobs_end);
    RUN_TEST(close_races_with_starts);
    RUN_TEST(destroy_waits_for_jobs_and_sends_waiters_away);
    RUN_TEST(destroy_may_race_with_the_ends_of_waits);

    RUN_TEST(a_larger_total_lets_in_who_fits);
    RUN_TEST(a_smaller_total_takes_effect_as_jobs_end);
    RUN_TEST(a_waiter_above_the_new_total_is_sent_away);

    RUN_TESTp(a_job_that_would_wait_for_itself_is_told, 5, EDEADLK);
    RUN_TESTp(a_job_that_would_wait_for_itself_is_told, 4, 0);
    RUN_TEST(a_job_that_holds_more_than_the_total_is_told);
    RUN_TEST(a_job_behind_a_head_that_needs_its_weight_is_told);
    RUN_TESTp(two_jobs_do_not_wait_for_each_other, false);
    RUN_TESTp(two_jobs_do_not_wait_for_each_other, true);
    RUN_TEST(jobs_may_start_jobs);

    RUN_TESTp(an_executor_runs_what_it_accepts, false);
    RUN_TESTp(an_executor_runs_what_it_accepts, true);
    RUN_TEST(a_refusal_gives_the_weight_back);
    RUN_TEST(a_job_of_an_executor_that_waits_for_itself_is_told);
    RUN_TEST(a_job_may_end_the_thread_of_an_executor);

    RUN_TEST(a_place_for_one_more_job_is_needed_too);
    RUN_TEST(whoever_is_leaving_is_left_alone);
    RUN_TEST(a_worker_that_is_leaving_gets_no_task);
    RUN_TEST(a_long_held_lock_delays_but_loses_nothing);
    RUN_TEST(quiet_means_that_no_thread_is_being_created_either);

    RUN_TEST(a_job_may_end_the_thread_that_started_it);
    RUN_TEST(a_start_does_not_wait_for_a_thread_that_has_left);
    RUN_TEST(a_start_among_many_is_started_too);

    RUN_TEST(figures_agree_with_each_other);
    RUN_TESTp(what_was_written_before_is_seen_by_whoever_is_let_in, keep_books);
    RUN_TESTp(what_was_written_before_is_seen_by_whoever_is_let_in, keep_books_by_tries);
    RUN_TEST(errno_is_left_alone);
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    RUN_SUITE(weighted_sem_suite);
    GREATEST_MAIN_END();
}
