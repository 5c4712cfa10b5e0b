/* SPDX-License-Identifier: MIT
 *
 * What bulkhead.h promises, claim by claim. Built as it ships, with PLIM_PARK_CND, with POSIX
 * threads, and with PLIM_SPIN=0.
 *
 * Jobs that a test must hold open wait at a gate, a csem of their own; nothing here waits for time
 * to pass, except to see that something does not happen, or not too early. Figures that the lock
 * protects are read through bulkhead_snapshot.
 *
 * The environment variable TEST_SCALE=n makes the long loops n times shorter (valgrind).
 */
#undef NDEBUG
#if !defined(_WIN32) && !defined(_GNU_SOURCE) && !defined(_POSIX_C_SOURCE)
#define _POSIX_C_SOURCE 200809L /* setenv */
#endif

#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>

/* Counts what the header allocates, to see that it seldom does, and gives all of it back. */
static atomic_int allocations, blocks;

static void *counted_malloc(size_t size)
{
    void *memory = malloc(size);
    if (memory != NULL) {
        atomic_fetch_add(&allocations, 1);
        atomic_fetch_add(&blocks, 1);
    }
    return memory;
}

static void counted_free(void *memory)
{
    if (memory != NULL) {
        atomic_fetch_sub(&blocks, 1);
    }
    free(memory);
}

#define PLIM_MALLOC(size) counted_malloc(size)
#define PLIM_FREE(memory) counted_free(memory)

#include "../bulkhead.h"
#include "../semaphore.h"
#include "support.h"
#include "greatest.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#ifndef _WIN32
#include <pthread.h>
#include <signal.h>
#endif

/* ---- pieces ---- */

enum { LOOP_S = 2 }; /* a long loop ends early after this, where others want the CPU as well */

/* What earlier tests have left behind, if they failed, is not the fault of this one. */
static int blocks_before;

static void remember_blocks(void *data)
{
    (void)data;
    blocks_before = atomic_load(&blocks);
}

#ifdef _WIN32
enum { THREAD_ENDS_ARE_NOTICED = 0 };
#else
enum { THREAD_ENDS_ARE_NOTICED = 1 };
#endif

static bool make(bulkhead *b, int type, int32_t permits, int32_t queue)
{
    bulkhead_options options = {.type = type, .permits = permits, .queue = queue};
    return bulkhead_init(b, &options) == 0;
}

/* Something that stays inside until it is told to end: a job, what invoke calls, or a block. */
typedef struct gate {
    bulkhead_job job;
    csem entered, exit;
    int result;
    atomic_int *order; /* counts those who were let in, if not NULL */
    int place;         /* which of them it was */
    atomic_int runs, dones;
    bulkhead_outcome seen; /* by done */
} gate;

static int pass(void *arg)
{
    gate *g = arg;
    if (g->order != NULL) {
        g->place = atomic_fetch_add(g->order, 1);
    }
    atomic_fetch_add(&g->runs, 1);
    csem_release(&g->entered);
    csem_acquire(&g->exit);
    return g->result;
}

static int run_pass(bulkhead_job *job)
{
    return pass(job->arg);
}

static void count_done(bulkhead_job *job)
{
    gate *g = job->arg;
    g->seen = job->outcome;
    atomic_fetch_add(&g->dones, 1);
}

static void gates_init(gate *g, int n)
{
    for (int i = 0; i < n; i++) {
        memset((void *)&g[i], 0, sizeof g[i]);
        csem_init(&g[i].entered, 0);
        csem_init(&g[i].exit, 0);
        g[i].job.run = run_pass;
        g[i].job.arg = &g[i];
        g[i].job.done = count_done;
    }
}

static void let_go(gate *g)
{
    csem_release(&g->exit);
}

static void let_all_go(gate *g, int n)
{
    for (int i = 0; i < n; i++) {
        let_go(&g[i]);
    }
}

static bool has_entered(gate *g)
{
    return csem_acquire_for(&g->entered, PLIM_S(PATIENCE_S)) == 0;
}

static bool is_done(gate *g)
{
    return bulkhead_wait(&g->job, PLIM_S(PATIENCE_S)) == 0;
}

static int run_nothing(bulkhead_job *job)
{
    (void)job;
    return 0;
}

static int run_result(bulkhead_job *job)
{
    return *(int *)job->arg;
}

static int run_count(bulkhead_job *job)
{
    atomic_fetch_add((atomic_int *)job->arg, 1);
    return 0;
}

static int nothing(void *arg)
{
    (void)arg;
    return 0;
}

static int give(void *arg)
{
    return *(int *)arg;
}

static int count(void *arg)
{
    atomic_fetch_add((atomic_int *)arg, 1);
    return 0;
}

enum { ENTER, ENTER_FOR, INVOKE, SUBMIT, SUBMIT_FOR, WAIT, RECLAIM, IDLE, CLOSE };

/* A thread that makes one call, and what came of it. */
typedef struct caller {
    bulkhead *b;
    int call; /* one of those above */
    int how;  /* CLOSE */
    int64_t timeout_ns;
    gate *gate; /* ENTER, INVOKE: where it stays once let in; SUBMIT, WAIT, RECLAIM: whose job */
    int error, result, left;
    int64_t took_ns;
    atomic_int *order; /* counts calls that have returned, if not NULL */
    int place;
    atomic_bool done;
    plim_thread thread;
} caller;

static int make_call(caller *c)
{
    switch (c->call) {
    case ENTER:
        return bulkhead_enter(c->b);
    case ENTER_FOR:
        return bulkhead_enter_for(c->b, c->timeout_ns);
    case INVOKE:
        return c->gate != NULL ? bulkhead_invoke(c->b, pass, c->gate, &c->result)
                               : bulkhead_invoke(c->b, nothing, NULL, &c->result);
    case SUBMIT:
        return bulkhead_submit(c->b, &c->gate->job);
    case SUBMIT_FOR:
        return bulkhead_submit_for(c->b, &c->gate->job, c->timeout_ns);
    case WAIT:
        return bulkhead_wait(&c->gate->job, c->timeout_ns);
    case RECLAIM:
        return bulkhead_reclaim(&c->gate->job, c->timeout_ns);
    case IDLE:
        return bulkhead_wait_idle(c->b, c->timeout_ns);
    default:
        return bulkhead_close(c->b, c->how, c->timeout_ns);
    }
}

static plim_thread_result call(void *arg)
{
    caller *c = arg;
    int64_t from = plim_now_();
    c->error = make_call(c);
    c->took_ns = plim_now_() - from;
    if (c->order != NULL) {
        c->place = atomic_fetch_add(c->order, 1);
    }
    if (c->error == 0 && (c->call == ENTER || c->call == ENTER_FOR)) {
        if (c->gate != NULL) {
            pass(c->gate);
        }
        c->left = bulkhead_leave(c->b);
    }
    atomic_store(&c->done, true);
    return 0;
}

static void start_call(caller *c)
{
    atomic_init(&c->done, false);
    start(&c->thread, call, c);
}

static void join_calls(caller *c, int n)
{
    for (int i = 0; i < n; i++) {
        join(c[i].thread);
    }
}

static uint32_t queued(bulkhead *b)
{
    return bulkhead_snapshot(b).queued;
}

static uint32_t in_use(bulkhead *b)
{
    return bulkhead_snapshot(b).in_use;
}

/* Starts callers one by one, each when the one before it waits. */
static bool queue_up(caller *c, int n)
{
    uint32_t before = queued(c->b);
    for (int i = 0; i < n; i++) {
        start_call(&c[i]);
        if (!EVENTUALLY(queued(c->b) == before + (uint32_t)i + 1)) {
            return false;
        }
    }
    return true;
}

/* Long enough to see that a thread does not go on, were it able to. */
static bool stays_false(atomic_bool *done)
{
    rest(PLIM_MS(20));
    return !atomic_load(done);
}

#define ASSERT_U64(expected, got) ASSERT_EQ_FMT((uint64_t)(expected), (uint64_t)(got), "%" PRIu64)

#define ASSERT_FIGURES(b, running, waiting) \
    do { \
        bulkhead_stats figures_ = bulkhead_snapshot(b); \
        ASSERT_EQ_FMT((uint32_t)(running), figures_.in_use, "%" PRIu32); \
        ASSERT_EQ_FMT((uint32_t)(waiting), figures_.queued, "%" PRIu32); \
    } while (0)

static uint64_t ends_of(const bulkhead_stats *s)
{
    return s->succeeded + s->failed + s->timed_out + s->expired + s->cancelled + s->aborted;
}

/* Nothing is left, every job that was accepted has ended, and no memory is lost. */
static greatest_test_res ends_well(bulkhead *b, bool last)
{
    ASSERT_INT(0, bulkhead_close(b, BULKHEAD_DRAIN, PLIM_S(PATIENCE_S)));
    bulkhead_stats s = bulkhead_snapshot(b);
    ASSERT_INT(0, s.in_use);
    ASSERT_INT(0, s.queued);
    ASSERT_INT(0, s.delayed);
    ASSERT_INT(0, s.workers);
    ASSERT_INT(0, s.workers_idle);
    ASSERT_INT(0, s.workers_stuck);
    ASSERT_U64(s.accepted, ends_of(&s));
    ASSERT_INT(0, bulkhead_destroy(b));
    if (last) {
        ASSERT_INT(blocks_before, atomic_load(&blocks));
    }
    PASS();
}

#define ASSERT_ENDS_WELL(b) CHECK_CALL(ends_well(b, true))
#define ASSERT_ENDS_FIRST(b) CHECK_CALL(ends_well(b, false)) /* another one has its memory yet */

/* Its call returns, and does not wait for ever. */
static bool finished(caller *c)
{
    bool over = EVENTUALLY(atomic_load(&c->done));
    if (over) {
        join(c->thread);
    }
    return over;
}

/* ---- options ---- */

TEST all_zero_options_are_one_permit_and_a_line(void)
{
    bulkhead b;
    ASSERT_INT(0, bulkhead_init(&b, NULL));
    bulkhead_stats s = bulkhead_snapshot(&b);
    ASSERT_INT(1, s.permits);
    ASSERT_INT(BULKHEAD_UNLIMITED, s.queue);
    ASSERT_INT(1, s.available);
    ASSERT_INT(0, s.in_use);
    ASSERT_INT(0, s.workers);
    ASSERT_INT(0, bulkhead_enter(&b));
    caller c = {.b = &b, .call = ENTER};
    ASSERT(queue_up(&c, 1));
    ASSERT_INT(0, bulkhead_leave(&b));
    ASSERT(finished(&c));
    ASSERT_INT(0, c.error);
    ASSERT_ENDS_WELL(&b);

    bulkhead_options zero = {.type = BULKHEAD_SYNC};
    ASSERT_INT(0, bulkhead_init(&b, &zero));
    ASSERT_INT(1, bulkhead_snapshot(&b).permits);
    bulkhead_job job = {.run = run_nothing};
    ASSERT_INT(EINVAL, bulkhead_submit(&b, &job));
    ASSERT_INT(EINVAL, bulkhead_submit_for(&b, &job, PLIM_MS(1)));
    ASSERT_ENDS_WELL(&b);
    PASS();
}

static int refuse(void *ctx, void (*run)(void *), void *arg)
{
    (void)ctx;
    (void)run;
    (void)arg;
    return EAGAIN;
}

TEST bad_options_are_refused(void)
{
    bulkhead b;
    plim_executor none = {NULL, NULL};
    const bulkhead_options bad[] = {
        {.type = 2},
        {.type = -1},
        {.permits = -2},
        {.permits = INT32_MIN},
        {.queue = -2},
        {.queue = INT32_MIN},
        {.timeout_ns = -2},
        {.timeout_ns = INT64_MIN},
        {.type = BULKHEAD_ASYNC, .executor = &none},
        {.type = BULKHEAD_ASYNC, .attempts = 2, .retry_delay_ns = -2},
        {.type = BULKHEAD_ASYNC, .attempts = 2, .retry_delay_max_ns = -2},
        {.type = BULKHEAD_ASYNC, .run_timeout_ns = -2},
        {.flags = 1u << 31},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        if (bulkhead_init(&b, &bad[i]) != EINVAL) {
            printf("option %zu was taken\n", i);
            FAIL();
        }
    }
    PASS();
}

TEST limits_are_reported_as_set(int32_t permits, int32_t queue, int64_t p, int64_t q)
{
    bulkhead b;
    ASSERT(make(&b, BULKHEAD_ASYNC, permits, queue));
    bulkhead_stats s = bulkhead_snapshot(&b);
    ASSERT_U64(p, s.permits);
    ASSERT_U64(q, s.queue);
    ASSERT_INT(0, s.in_use + s.queued + s.delayed);
    ASSERT_INT(0, bulkhead_resize(&b, 3, 4));
    s = bulkhead_snapshot(&b);
    ASSERT_INT(3, s.permits);
    ASSERT_INT(4, s.queue);
    ASSERT_INT(3, s.available);
    ASSERT_INT(0, bulkhead_resize(&b, permits, queue));
    s = bulkhead_snapshot(&b);
    ASSERT_U64(p, s.permits);
    ASSERT_U64(q, s.queue);
    ASSERT_ENDS_WELL(&b);
    PASS();
}

TEST init_starts_no_thread_and_allocates_only_for_timings(void)
{
    bulkhead b;
    int before = atomic_load(&allocations);
    ASSERT(make(&b, BULKHEAD_ASYNC, 8, 0));
    ASSERT_INT(before, atomic_load(&allocations));
    ASSERT_INT(0, bulkhead_snapshot(&b).workers);
    ASSERT_INT(0, bulkhead_destroy(&b));
    bulkhead_options options = {.flags = BULKHEAD_TIMINGS};
    ASSERT_INT(0, bulkhead_init(&b, &options));
    ASSERT(atomic_load(&allocations) > before);
    ASSERT_ENDS_WELL(&b);
    PASS();
}

TEST options_are_copied(void)
{
    bulkhead b;
    char name[] = "short-lived";
    plim_executor executor = {refuse, NULL};
    bulkhead_options options = {
        .type = BULKHEAD_ASYNC, .permits = 2, .executor = &executor, .name = name};
    ASSERT_INT(0, bulkhead_init(&b, &options));
    memset(name, 'x', sizeof name);
    memset((void *)&options, 0xff, sizeof options);
    executor.execute = NULL;
    bulkhead_job job = {.run = run_nothing};
    ASSERT_INT(EAGAIN, bulkhead_submit(&b, &job));
    ASSERT_INT(2, bulkhead_snapshot(&b).permits);
    ASSERT_ENDS_WELL(&b);
    PASS();
}

/* ---- admission ---- */

static int least(int a, int b)
{
    return a < b ? a : b;
}

/* The matrix of Polly's tests: who runs, who waits and who is refused follows from three numbers,
 * at the start and after each end. */
TEST exactly_p_jobs_run_and_q_wait(int p, int q, int n)
{
    enum { MOST = 16 };
    bulkhead b;
    gate g[MOST];
    gates_init(g, MOST);
    ASSERT(make(&b, BULKHEAD_ASYNC, p, q > 0 ? q : PLIM_NONE));
    int accepted = least(n, p + q);
    for (int i = 0; i < n; i++) {
        ASSERT_INT(i < accepted ? 0 : EAGAIN, bulkhead_submit(&b, &g[i].job));
    }
    bulkhead_stats s = bulkhead_snapshot(&b);
    ASSERT_INT(least(n, p), s.in_use);
    ASSERT_INT(p - least(n, p), s.available);
    ASSERT_INT(accepted - least(n, p), s.queued);
    ASSERT_U64(accepted, s.accepted);
    ASSERT_U64(n - accepted, s.rejected);
    for (int i = 0; i < accepted; i++) {
        ASSERT(has_entered(&g[i]));
        let_go(&g[i]);
        ASSERT(is_done(&g[i]));
        int left = accepted - i - 1;
        ASSERT_FIGURES(&b, least(left, p), left - least(left, p));
    }
    s = bulkhead_snapshot(&b);
    ASSERT_U64(accepted, s.succeeded);
    ASSERT(s.workers <= (uint32_t)p);
    ASSERT_INT(least(n, p), s.peak_in_use);
    ASSERT_INT(accepted - least(n, p), s.peak_queued);
    for (int i = accepted; i < n; i++) {
        ASSERT_INT(0, atomic_load(&g[i].runs));
        ASSERT_INT(0, atomic_load(&g[i].dones));
    }
    ASSERT_ENDS_WELL(&b);
    PASS();
}

/* The same with callers on their own threads; type is that of the bulkhead. */
TEST exactly_p_callers_enter_and_q_wait(int type, int how, int p, int q, int n)
{
    enum { MOST = 16 };
    bulkhead b;
    gate g[MOST];
    caller c[MOST];
    gates_init(g, MOST);
    ASSERT(make(&b, type, p, q > 0 ? q : PLIM_NONE));
    int accepted = least(n, p + q);
    for (int i = 0; i < n; i++) {
        c[i] = (caller){.b = &b, .call = how, .gate = &g[i]};
        start_call(&c[i]);
        ASSERT(EVENTUALLY(in_use(&b) == (uint32_t)least(i + 1, p) &&
                          queued(&b) == (uint32_t)(least(i + 1, p + q) - least(i + 1, p))));
        if (i >= accepted) {
            ASSERT(finished(&c[i]));
            ASSERT_INT(EAGAIN, c[i].error);
        }
    }
    ASSERT_U64(n - accepted, bulkhead_snapshot(&b).rejected);
    for (int i = 0; i < accepted; i++) {
        ASSERT(has_entered(&g[i]));
        let_go(&g[i]);
        ASSERT(finished(&c[i]));
        ASSERT_INT(0, c[i].error);
        int left = accepted - i - 1;
        ASSERT_FIGURES(&b, least(left, p), left - least(left, p));
    }
    ASSERT_ENDS_WELL(&b);
    PASS();
}

TEST as_many_as_fit_are_never_refused_and_the_next_always_is(void)
{
    enum { P = 3, Q = 5 };
    bulkhead b;
    gate g[P + Q + 1];
    ASSERT(make(&b, BULKHEAD_ASYNC, P, Q));
    for (int round = scaled(500); round > 0; round--) {
        gates_init(g, P + Q + 1);
        for (int i = 0; i < P + Q; i++) {
            ASSERT_INT(0, bulkhead_submit(&b, &g[i].job));
        }
        ASSERT_INT(EAGAIN, bulkhead_submit(&b, &g[P + Q].job));
        let_all_go(g, P + Q);
        for (int i = 0; i < P + Q; i++) {
            ASSERT(is_done(&g[i]));
        }
    }
    ASSERT_ENDS_WELL(&b);
    PASS();
}

/* Threads that all do the same at once. */
typedef struct crowd {
    bulkhead *b;
    atomic_bool go;
    atomic_int ready, accepted, refused, odd, inside, most, wrong;
    int rounds, kind;
    gate *gates;
} crowd;

typedef struct member {
    crowd *crowd;
    int number;
    plim_thread thread;
} member;

static void wait_for_go(crowd *c)
{
    atomic_fetch_add(&c->ready, 1);
    while (!atomic_load(&c->go)) {
        plim_thread_yield_();
    }
}

static void start_crowd(crowd *c, member *m, int n, plim_thread_result (*run)(void *))
{
    for (int i = 0; i < n; i++) {
        m[i].crowd = c;
        m[i].number = i;
        start(&m[i].thread, run, &m[i]);
    }
    while (atomic_load(&c->ready) < n) {
        plim_thread_yield_();
    }
    atomic_store(&c->go, true);
}

static void join_crowd(member *m, int n)
{
    for (int i = 0; i < n; i++) {
        join(m[i].thread);
    }
}

static void note_inside(crowd *c)
{
    int now = atomic_fetch_add(&c->inside, 1) + 1;
    int most = atomic_load(&c->most);
    while (now > most && !atomic_compare_exchange_weak(&c->most, &most, now)) {}
}

static plim_thread_result submit_once(void *arg)
{
    member *m = arg;
    crowd *c = m->crowd;
    wait_for_go(c);
    int error = bulkhead_submit(c->b, &c->gates[m->number].job);
    atomic_fetch_add(error == 0 ? &c->accepted : error == EAGAIN ? &c->refused : &c->odd, 1);
    return 0;
}

/* Even ones submit, odd ones enter: one decision for both. */
static plim_thread_result submit_or_enter_once(void *arg)
{
    member *m = arg;
    crowd *c = m->crowd;
    gate *g = &c->gates[m->number];
    wait_for_go(c);
    int error = m->number % 2 == 0 ? bulkhead_submit(c->b, &g->job) : bulkhead_enter(c->b);
    atomic_fetch_add(error == 0 ? &c->accepted : error == EAGAIN ? &c->refused : &c->odd, 1);
    if (error == 0 && m->number % 2 == 1) {
        pass(g);
        bulkhead_leave(c->b);
    }
    return 0;
}

TEST the_bound_is_exact_from_many_threads(plim_thread_result (*run)(void *))
{
    enum { P = 3, Q = 4, N = 16 };
    bulkhead b;
    gate g[N];
    member m[N];
    for (int round = scaled(60); round > 0; round--) {
        crowd c = {.b = &b, .gates = g};
        gates_init(g, N);
        ASSERT(make(&b, BULKHEAD_ASYNC, P, Q));
        start_crowd(&c, m, N, run);
        /* Callers that wait do not count before they are let in, so look at the figures. */
        ASSERT(
            EVENTUALLY(in_use(&b) == P && queued(&b) == Q && atomic_load(&c.refused) == N - P - Q));
        ASSERT_U64(N - P - Q, bulkhead_snapshot(&b).rejected);
        let_all_go(g, N);
        join_crowd(m, N);
        ASSERT_INT(0, bulkhead_wait_idle(&b, PLIM_S(PATIENCE_S)));
        ASSERT_INT(P + Q, atomic_load(&c.accepted));
        ASSERT_INT(N - P - Q, atomic_load(&c.refused));
        ASSERT_INT(0, atomic_load(&c.odd));
        ASSERT_ENDS_WELL(&b);
    }
    PASS();
}

static plim_thread_result try_once(void *arg)
{
    crowd *c = ((member *)arg)->crowd;
    wait_for_go(c);
    int error = bulkhead_try_enter(c->b);
    atomic_fetch_add(error == 0 ? &c->accepted : error == EAGAIN ? &c->refused : &c->odd, 1);
    return 0;
}

TEST one_permit_is_taken_by_exactly_one_of_many_tries(int type)
{
    enum { N = 10 };
    bulkhead b;
    member m[N];
    ASSERT(make(&b, type, 1, 0));
    for (int round = scaled(100); round > 0; round--) {
        crowd c = {.b = &b};
        start_crowd(&c, m, N, try_once);
        join_crowd(m, N);
        ASSERT_INT(1, atomic_load(&c.accepted));
        ASSERT_INT(N - 1, atomic_load(&c.refused));
        ASSERT_INT(1, in_use(&b));
        ASSERT_INT(0, bulkhead_leave(&b));
        ASSERT_INT(0, in_use(&b));
    }
    ASSERT_ENDS_WELL(&b);
    PASS();
}

static int be_inside(void *arg)
{
    crowd *c = arg;
    note_inside(c);
    plim_thread_yield_();
    atomic_fetch_sub(&c->inside, 1);
    return 0;
}

static plim_thread_result hammer(void *arg)
{
    member *m = arg;
    crowd *c = m->crowd;
    uint64_t random = (uint64_t)m->number + 1;
    wait_for_go(c);
    for (int i = 0; i < c->rounds; i++) {
        int error;
        switch (c->kind >= 0 ? (uint64_t)c->kind : next_random(&random) % 4) {
        case 0:
            error = bulkhead_enter(c->b);
            break;
        case 1:
            error = bulkhead_try_enter(c->b);
            break;
        case 2:
            error = bulkhead_enter_for(c->b, PLIM_US(50));
            break;
        default:
            error = bulkhead_invoke(c->b, be_inside, c, NULL);
            atomic_fetch_add(error == 0 ? &c->accepted : &c->refused, 1);
            continue;
        }
        if (error == 0) {
            be_inside(c);
            if (bulkhead_leave(c->b) != 0) {
                atomic_fetch_add(&c->wrong, 1);
            }
        }
        atomic_fetch_add(error == 0 ? &c->accepted : &c->refused, 1);
    }
    return 0;
}

TEST never_more_than_the_permits_are_inside(int type, uint32_t flags, int threads, int permits,
                                            int rounds)
{
    bulkhead b;
    bulkhead_options options = {.type = type, .permits = permits, .flags = flags | BULKHEAD_STATS};
    ASSERT_INT(0, bulkhead_init(&b, &options));
    member m[64];
    crowd c = {.b = &b, .rounds = scaled(rounds), .kind = -1};
    start_crowd(&c, m, threads, hammer);
    join_crowd(m, threads);
    ASSERT(atomic_load(&c.most) <= permits);
    ASSERT_INT(0, atomic_load(&c.inside));
    ASSERT_INT(0, atomic_load(&c.wrong));
    bulkhead_stats s = bulkhead_snapshot(&b);
    ASSERT_INT(0, s.in_use);
    ASSERT_INT(0, s.queued);
    ASSERT(s.peak_in_use <= (uint32_t)permits);
    ASSERT_U64(atomic_load(&c.refused), s.rejected);
    ASSERT_INT(0, bulkhead_close(&b, BULKHEAD_DRAIN, PLIM_S(PATIENCE_S)));
    ASSERT_INT(0, bulkhead_destroy(&b));
    ASSERT_INT(blocks_before, atomic_load(&blocks));
    PASS();
}

TEST bulkheads_do_not_share_permits(void)
{
    bulkhead a, b;
    ASSERT(make(&a, BULKHEAD_SYNC, 3, 0));
    ASSERT(make(&b, BULKHEAD_SYNC, 1, 0));
    for (int i = 0; i < 6; i++) {
        ASSERT_INT(i < 3 ? 0 : EAGAIN, bulkhead_try_enter(&a));
    }
    ASSERT_INT(0, bulkhead_try_enter(&b));
    ASSERT_INT(EAGAIN, bulkhead_try_enter(&b));
    ASSERT_U64(3, bulkhead_snapshot(&a).rejected);
    ASSERT_U64(1, bulkhead_snapshot(&b).rejected);
    ASSERT_INT(0, bulkhead_leave(&b));
    for (int i = 0; i < 3; i++) {
        ASSERT_INT(0, bulkhead_leave(&a));
    }
    /* The end of one is nothing to the other. */
    ASSERT_INT(0, bulkhead_close(&a, BULKHEAD_ABORT, PLIM_S(PATIENCE_S)));
    ASSERT_INT(0, bulkhead_destroy(&a));
    ASSERT_INT(0, bulkhead_enter(&b));
    ASSERT_INT(0, bulkhead_leave(&b));
    ASSERT_ENDS_WELL(&b);
    PASS();
}

TEST thirty_jobs_over_ten_permits_all_end(void)
{
    enum { N = 30 };
    bulkhead b;
    atomic_int ran = 0;
    bulkhead_job jobs[N];
    ASSERT(make(&b, BULKHEAD_ASYNC, 10, 20));
    for (int i = 0; i < N; i++) {
        jobs[i] = (bulkhead_job){.run = run_count, .arg = &ran};
        ASSERT_INT(0, bulkhead_submit(&b, &jobs[i]));
    }
    for (int i = 0; i < N; i++) {
        ASSERT_INT(0, bulkhead_wait(&jobs[i], PLIM_S(PATIENCE_S)));
        ASSERT_INT(BULKHEAD_SUCCEEDED, jobs[i].outcome);
    }
    ASSERT_INT(N, atomic_load(&ran));
    ASSERT_ENDS_WELL(&b);
    PASS();
}

TEST without_a_queue_nobody_waits(int type)
{
    bulkhead b;
    ASSERT(make(&b, type, 2, PLIM_NONE));
    ASSERT_INT(0, bulkhead_enter(&b));
    ASSERT_INT(0, bulkhead_enter(&b));
    ASSERT_INT(EAGAIN, bulkhead_enter_for(&b, PLIM_FOREVER));
    ASSERT_INT(EAGAIN, bulkhead_try_enter(&b));
    ASSERT_INT(EAGAIN, bulkhead_invoke(&b, nothing, NULL, NULL));
    bulkhead_stats s = bulkhead_snapshot(&b);
    ASSERT_INT(0, s.queue);
    ASSERT_INT(0, s.queued);
    ASSERT_INT(0, s.available);
    ASSERT_U64(3, s.rejected);
    if (type == BULKHEAD_ASYNC) {
        bulkhead_job job = {.run = run_nothing};
        ASSERT_INT(EAGAIN, bulkhead_submit(&b, &job));
        ASSERT_INT(0, bulkhead_leave(&b));
        ASSERT_INT(0, bulkhead_submit(&b, &job));
        ASSERT_INT(0, bulkhead_wait(&job, PLIM_S(PATIENCE_S)));
    } else {
        ASSERT_INT(0, bulkhead_leave(&b));
    }
    ASSERT_INT(0, bulkhead_leave(&b));
    ASSERT_ENDS_WELL(&b);
    PASS();
}

TEST tries_take_what_is_free_and_leave_gives_back(void)
{
    bulkhead b;
    ASSERT(make(&b, BULKHEAD_SYNC, 2, 0));
    ASSERT_INT(0, bulkhead_try_enter(&b));
    ASSERT_INT(0, bulkhead_try_enter(&b));
    ASSERT_INT(EAGAIN, bulkhead_try_enter(&b));
    ASSERT_INT(0, bulkhead_leave(&b));
    ASSERT_INT(1, bulkhead_snapshot(&b).available);
    ASSERT_INT(0, bulkhead_leave(&b));
    ASSERT_INT(2, bulkhead_snapshot(&b).available);
    ASSERT_INT(0, bulkhead_try_enter(&b));
    ASSERT_INT(0, bulkhead_leave(&b));
    ASSERT_ENDS_WELL(&b);
    PASS();
}

TEST without_permits_nobody_enters_until_a_resize(void)
{
    bulkhead b;
    gate g[3];
    gates_init(g, 3);
    ASSERT(make(&b, BULKHEAD_ASYNC, PLIM_NONE, 8));
    ASSERT_INT(0, bulkhead_snapshot(&b).permits);
    ASSERT_INT(0, bulkhead_snapshot(&b).available);
    ASSERT_INT(EAGAIN, bulkhead_try_enter(&b));
    ASSERT_INT(ETIMEDOUT, bulkhead_enter_for(&b, PLIM_MS(5)));
    ASSERT_INT(ETIMEDOUT, bulkhead_enter_for(&b, 0));
    ASSERT_INT(0, bulkhead_submit(&b, &g[0].job));
    ASSERT_INT(0, bulkhead_submit(&b, &g[1].job));
    caller c = {.b = &b, .call = ENTER, .gate = &g[2]};
    ASSERT(queue_up(&c, 1));
    ASSERT_FIGURES(&b, 0, 3);
    ASSERT_INT(0, bulkhead_resize(&b, 2, 8));
    ASSERT_FIGURES(&b, 2, 1);
    ASSERT(has_entered(&g[0]));
    ASSERT(has_entered(&g[1]));
    let_go(&g[1]);
    ASSERT(has_entered(&g[2]));
    ASSERT_INT(0, bulkhead_resize(&b, PLIM_NONE, 8));
    ASSERT_FIGURES(&b, 2, 0);
    let_all_go(g, 3);
    ASSERT(finished(&c));
    ASSERT(is_done(&g[0]));
    ASSERT_INT(EAGAIN, bulkhead_try_enter(&b));
    ASSERT_ENDS_WELL(&b);
    PASS();
}

/* ---- order ---- */

TEST callers_and_jobs_are_served_in_order_of_arrival(uint32_t flags)
{
    enum { N = 12 };
    bulkhead b;
    gate g[N];
    caller c[N];
    atomic_int order = 0;
    bulkhead_options options = {.type = BULKHEAD_ASYNC, .flags = flags};
    ASSERT_INT(0, bulkhead_init(&b, &options));
    gates_init(g, N);
    ASSERT_INT(0, bulkhead_enter(&b));
    for (int i = 0; i < N; i++) {
        g[i].order = &order;
        c[i] = (caller){.b = &b, .call = i % 3 == 0 ? ENTER : INVOKE, .gate = &g[i]};
        if (i % 3 == 1) {
            ASSERT_INT(0, bulkhead_submit(&b, &g[i].job));
        } else {
            ASSERT(queue_up(&c[i], 1));
        }
    }
    ASSERT_INT(EAGAIN, bulkhead_try_enter(&b));
    ASSERT_INT(0, bulkhead_leave(&b));
    for (int i = 0; i < N; i++) {
        ASSERT(has_entered(&g[i]));
        /* It went from one to the next in one step: a newcomer cannot get between them. */
        ASSERT_INT(EAGAIN, bulkhead_try_enter(&b));
        ASSERT_INT(ETIMEDOUT, bulkhead_enter_for(&b, 0));
        ASSERT_FIGURES(&b, 1, N - i - 1);
        let_go(&g[i]);
    }
    for (int i = 0; i < N; i++) {
        if (i % 3 == 1) {
            ASSERT(is_done(&g[i]));
        } else {
            ASSERT(finished(&c[i]));
            ASSERT_INT(0, c[i].error);
        }
        ASSERT_INT(i, g[i].place);
    }
    ASSERT_ENDS_WELL(&b);
    PASS();
}

TEST a_newcomer_does_not_pass_those_who_wait(void)
{
    bulkhead b;
    gate g;
    gates_init(&g, 1);
    ASSERT(make(&b, BULKHEAD_SYNC, 1, 0));
    for (int round = scaled(200); round > 0; round--) {
        ASSERT_INT(0, bulkhead_enter(&b));
        caller c = {.b = &b, .call = ENTER, .gate = &g};
        ASSERT(queue_up(&c, 1));
        ASSERT_INT(0, bulkhead_leave(&b));
        ASSERT_INT(EAGAIN, bulkhead_try_enter(&b)); /* it belongs to the other one already */
        ASSERT_FIGURES(&b, 1, 0);
        let_go(&g);
        ASSERT(finished(&c));
        ASSERT_INT(0, c.error);
    }
    ASSERT_ENDS_WELL(&b);
    PASS();
}

/* Goes in and out without pause, as long as it is told to. */
static plim_thread_result pester(void *arg)
{
    crowd *c = ((member *)arg)->crowd;
    wait_for_go(c);
    while (atomic_load(&c->wrong) == 0) {
        if (bulkhead_enter(c->b) == 0) {
            bulkhead_leave(c->b);
        }
    }
    return 0;
}

TEST nobody_is_passed_for_ever(uint32_t flags, int type)
{
    bulkhead b;
    member m[3];
    bulkhead_options options = {.type = type, .flags = flags};
    ASSERT_INT(0, bulkhead_init(&b, &options));
    crowd c = {.b = &b};
    start_crowd(&c, m, 3, pester);
    int error = 0;
    for (int i = scaled(100); i > 0 && error == 0; i--) {
        error = bulkhead_enter_for(&b, PLIM_S(PATIENCE_S));
        if (error == 0) {
            error = bulkhead_leave(&b);
        }
        if (error == 0 && type == BULKHEAD_ASYNC) {
            bulkhead_job job = {.run = run_nothing};
            error = bulkhead_submit(&b, &job);
            if (error == 0) {
                error = bulkhead_wait(&job, PLIM_S(PATIENCE_S));
            }
        }
    }
    atomic_store(&c.wrong, 1);
    join_crowd(m, 3);
    ASSERT_INT(0, error);
    ASSERT_ENDS_WELL(&b);
    PASS();
}

/* ---- timeouts ---- */

TEST a_wait_ends_in_time_and_not_early(int type)
{
    bulkhead b;
    ASSERT(make(&b, type, 1, 0));
    ASSERT_INT(0, bulkhead_enter(&b));
    caller c = {.b = &b, .call = ENTER_FOR, .timeout_ns = PLIM_MS(50)};
    start_call(&c);
    ASSERT(finished(&c));
    ASSERT_INT(ETIMEDOUT, c.error);
    ASSERT(c.took_ns >= PLIM_MS(50));
    ASSERT(c.took_ns < PLIM_S(PATIENCE_S));
    ASSERT_FIGURES(&b, 1, 0);
    ASSERT_U64(1, bulkhead_snapshot(&b).rejected);
    ASSERT_INT(0, bulkhead_leave(&b));
    ASSERT_ENDS_WELL(&b);
    PASS();
}

TEST the_timeout_of_the_options_is_that_of_enter_and_invoke(int type, uint32_t flags)
{
    bulkhead b;
    bulkhead_options options = {.type = type, .timeout_ns = PLIM_MS(20), .flags = flags};
    ASSERT_INT(0, bulkhead_init(&b, &options));
    ASSERT_INT(0, bulkhead_enter(&b));
    caller c[2] = {{.b = &b, .call = ENTER}, {.b = &b, .call = INVOKE}};
    for (int i = 0; i < 2; i++) {
        start_call(&c[i]);
        ASSERT(finished(&c[i]));
        ASSERT_INT(ETIMEDOUT, c[i].error);
        ASSERT(c[i].took_ns >= PLIM_MS(20));
    }
    ASSERT_FIGURES(&b, 1, 0);
    ASSERT_U64(2, bulkhead_snapshot(&b).rejected);
    ASSERT_INT(0, bulkhead_leave(&b));
    ASSERT_INT(0, bulkhead_invoke(&b, nothing, NULL, NULL));
    ASSERT_INT(0, bulkhead_close(&b, BULKHEAD_DRAIN, PLIM_S(PATIENCE_S)));
    ASSERT_INT(0, bulkhead_destroy(&b));
    PASS();
}

TEST a_timeout_of_none_never_waits(int type)
{
    bulkhead b;
    bulkhead_options options = {.type = type, .timeout_ns = PLIM_NONE};
    ASSERT_INT(0, bulkhead_init(&b, &options));
    ASSERT_INT(0, bulkhead_enter(&b));
    caller c[2] = {{.b = &b, .call = ENTER}, {.b = &b, .call = INVOKE}};
    for (int i = 0; i < 2; i++) {
        start_call(&c[i]);
        ASSERT(finished(&c[i]));
        ASSERT_INT(EAGAIN, c[i].error);
    }
    ASSERT_FIGURES(&b, 1, 0);
    ASSERT_INT(0, bulkhead_leave(&b));
    ASSERT_ENDS_WELL(&b);
    PASS();
}

TEST odd_timeouts_mean_what_they_say(int64_t timeout_ns)
{
    bulkhead b;
    ASSERT(make(&b, BULKHEAD_SYNC, 1, 0));
    ASSERT_INT(0, bulkhead_enter_for(&b, timeout_ns)); /* free: no wait, whatever the timeout */
    caller c = {.b = &b, .call = ENTER_FOR, .timeout_ns = timeout_ns};
    if (timeout_ns <= 1) {
        start_call(&c);
        ASSERT(finished(&c));
        ASSERT_INT(ETIMEDOUT, c.error);
        ASSERT_INT(0, bulkhead_leave(&b));
    } else {
        ASSERT(queue_up(&c, 1));
        ASSERT(stays_false(&c.done));
        ASSERT_INT(0, bulkhead_leave(&b));
        ASSERT(finished(&c));
        ASSERT_INT(0, c.error);
    }
    ASSERT_ENDS_WELL(&b);
    PASS();
}

TEST waits_that_gave_up_leak_nothing(int type)
{
    bulkhead b;
    caller c[2];
    ASSERT(make(&b, type, 2, 0));
    for (int round = scaled(20); round > 0; round--) {
        ASSERT_INT(0, bulkhead_enter(&b));
        ASSERT_INT(0, bulkhead_enter(&b));
        for (int i = 0; i < 2; i++) {
            c[i] = (caller){.b = &b, .call = ENTER_FOR, .timeout_ns = PLIM_MS(1)};
            start_call(&c[i]);
        }
        join_calls(c, 2);
        ASSERT_INT(ETIMEDOUT, c[0].error);
        ASSERT_INT(ETIMEDOUT, c[1].error);
        ASSERT_INT(0, bulkhead_leave(&b));
        ASSERT_INT(0, bulkhead_leave(&b));
        ASSERT_INT(0, bulkhead_try_enter(&b));
        ASSERT_INT(0, bulkhead_try_enter(&b));
        ASSERT_INT(EAGAIN, bulkhead_try_enter(&b));
        ASSERT_INT(0, bulkhead_leave(&b));
        ASSERT_INT(0, bulkhead_leave(&b));
    }
    ASSERT_ENDS_WELL(&b);
    PASS();
}

TEST timeouts_may_race_with_a_release(int type, uint32_t flags)
{
    enum { N = 10 };
    bulkhead b;
    caller c[N];
    bulkhead_options options = {.type = type, .flags = flags};
    ASSERT_INT(0, bulkhead_init(&b, &options));
    for (int round = scaled(40); round > 0; round--) {
        ASSERT_INT(0, bulkhead_enter(&b));
        int64_t until = plim_now_() + PLIM_MS(2);
        for (int i = 0; i < N; i++) {
            c[i] = (caller){.b = &b, .call = ENTER_FOR, .timeout_ns = until - plim_now_()};
            start_call(&c[i]);
        }
        plim_nap_(until);
        ASSERT_INT(0, bulkhead_leave(&b));
        join_calls(c, N);
        for (int i = 0; i < N; i++) {
            ASSERT(c[i].error == 0 || c[i].error == ETIMEDOUT);
            ASSERT_INT(0, c[i].left);
        }
        ASSERT_FIGURES(&b, 0, 0);
        ASSERT_INT(0, bulkhead_try_enter(&b));
        ASSERT_INT(0, bulkhead_leave(&b));
    }
    ASSERT_ENDS_WELL(&b);
    PASS();
}

TEST a_caller_that_gives_up_makes_room(void)
{
    bulkhead b;
    ASSERT(make(&b, BULKHEAD_SYNC, 1, 1));
    ASSERT_INT(0, bulkhead_enter(&b));
    caller c[2] = {{.b = &b, .call = ENTER_FOR, .timeout_ns = PLIM_MS(200)},
                   {.b = &b, .call = ENTER_FOR, .timeout_ns = PLIM_FOREVER}};
    ASSERT(queue_up(&c[0], 1));
    ASSERT_INT(EAGAIN, bulkhead_enter_for(&b, PLIM_FOREVER)); /* full: at once, not after a wait */
    ASSERT_INT(ETIMEDOUT, bulkhead_enter_for(&b, 0));
    ASSERT(finished(&c[0]));
    ASSERT_INT(ETIMEDOUT, c[0].error);
    ASSERT_INT(0, queued(&b));
    ASSERT(queue_up(&c[1], 1));
    ASSERT_INT(0, bulkhead_leave(&b));
    ASSERT(finished(&c[1]));
    ASSERT_INT(0, c[1].error);
    ASSERT_ENDS_WELL(&b);
    PASS();
}

TEST one_in_the_middle_that_gives_up_disturbs_nobody(void)
{
    bulkhead b;
    gate g[3];
    caller c[3];
    atomic_int order = 0;
    gates_init(g, 3);
    ASSERT(make(&b, BULKHEAD_SYNC, 1, 0));
    ASSERT_INT(0, bulkhead_enter(&b));
    for (int i = 0; i < 3; i++) {
        g[i].order = &order;
        c[i] = (caller){.b = &b,
                        .call = ENTER_FOR,
                        .gate = &g[i],
                        .timeout_ns = i == 1 ? PLIM_MS(100) : PLIM_FOREVER};
        ASSERT(queue_up(&c[i], 1));
    }
    ASSERT(finished(&c[1]));
    ASSERT_INT(ETIMEDOUT, c[1].error);
    ASSERT_FIGURES(&b, 1, 2);
    ASSERT_INT(0, bulkhead_leave(&b));
    let_all_go(g, 3);
    ASSERT(finished(&c[0]));
    ASSERT(finished(&c[2]));
    ASSERT_INT(0, g[0].place);
    ASSERT_INT(1, g[2].place);
    ASSERT_ENDS_WELL(&b);
    PASS();
}

/* ---- enter, leave, scope, invoke ---- */

TEST leave_without_enter_is_refused(int type)
{
    bulkhead b;
    ASSERT(make(&b, type, 2, 0));
    ASSERT_INT(EPERM, bulkhead_leave(&b));
    ASSERT_INT(0, bulkhead_enter(&b));
    ASSERT_INT(0, bulkhead_leave(&b));
    ASSERT_INT(EPERM, bulkhead_leave(&b));
    ASSERT_INT(2, bulkhead_snapshot(&b).available);
    ASSERT_INT(0, bulkhead_close(&b, BULKHEAD_DRAIN, PLIM_S(PATIENCE_S)));
    ASSERT_INT(EPERM, bulkhead_leave(&b));
    ASSERT_INT(0, bulkhead_destroy(&b));
    PASS();
}

static plim_thread_result leave_here(void *arg)
{
    caller *c = arg;
    c->left = bulkhead_leave(c->b);
    return 0;
}

TEST another_thread_may_leave(void)
{
    bulkhead b;
    ASSERT(make(&b, BULKHEAD_SYNC, 1, 0));
    for (int i = 0; i < 3; i++) {
        caller c = {.b = &b, .left = -1};
        ASSERT_INT(0, bulkhead_enter(&b));
        start(&c.thread, leave_here, &c);
        join(c.thread);
        ASSERT_INT(0, c.left);
        ASSERT_INT(0, in_use(&b));
    }
    ASSERT_ENDS_WELL(&b);
    PASS();
}

static int leave_scope(bulkhead *b, int how, uint32_t *inside)
{
    int after = 0;
    BULKHEAD_SCOPE(b)
    {
        *inside = in_use(b);
        if (how == 1) {
            break;
        }
        if (how == 2) {
            return 2;
        }
        if (how == 3) {
            goto out;
        }
        if (how == 4) {
            continue;
        }
        after = 1;
    }
    return after;
out:
    return 3;
}

TEST a_scope_leaves_on_every_way_out(void)
{
    bulkhead b;
    ASSERT(make(&b, BULKHEAD_SYNC, 1, PLIM_NONE));
    const int returned[] = {1, 0, 2, 3, 0};
    for (int how = 0; how < 5; how++) {
        uint32_t inside = 0;
        ASSERT_INT(returned[how], leave_scope(&b, how, &inside));
        ASSERT_INT(1, inside);
        ASSERT_INT(0, in_use(&b));
    }
    ASSERT_ENDS_WELL(&b);
    PASS();
}

TEST a_refused_scope_skips_its_block(void)
{
    bulkhead b;
    ASSERT(make(&b, BULKHEAD_SYNC, 1, PLIM_NONE));
    int ran = 0;
    BULKHEAD_SCOPE(&b)
    {
        BULKHEAD_SCOPE(&b)
        {
            ran++;
        }
        ASSERT_INT(0, ran);
        ASSERT_INT(1, in_use(&b));
    }
    ASSERT_INT(0, in_use(&b));
    ASSERT_INT(0, bulkhead_close(&b, BULKHEAD_DRAIN, 0));
    BULKHEAD_SCOPE(&b)
    {
        ran++;
    }
    ASSERT_INT(0, ran);
    ASSERT_ENDS_WELL(&b);
    PASS();
}

static _Thread_local char here; /* its address tells threads apart */

static int where(void *arg)
{
    *(char **)arg = &here;
    return 7;
}

TEST invoke_gives_what_the_function_returned(int type, uint32_t flags, bool on_caller)
{
    bulkhead b;
    bulkhead_options options = {.type = type, .flags = flags};
    ASSERT_INT(0, bulkhead_init(&b, &options));
    char *thread = NULL;
    int result = -1;
    ASSERT_INT(0, bulkhead_invoke(&b, where, &thread, &result));
    ASSERT_INT(7, result);
    ASSERT_EQ(on_caller, thread == &here);
    ASSERT_INT(0, in_use(&b));
    int values[] = {0, 1, -1, EAGAIN, INT32_MIN, INT32_MAX};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        ASSERT_INT(0, bulkhead_invoke(&b, give, &values[i], &result));
        ASSERT_INT(values[i], result);
        ASSERT_INT(0, bulkhead_invoke(&b, give, &values[i], NULL));
    }
    /* A refused one leaves the result alone. */
    ASSERT_INT(0, bulkhead_close(&b, BULKHEAD_DRAIN, PLIM_S(PATIENCE_S)));
    result = 99;
    ASSERT_INT(ESHUTDOWN, bulkhead_invoke(&b, give, &values[0], &result));
    ASSERT_INT(99, result);
    ASSERT_INT(0, bulkhead_destroy(&b));
    PASS();
}

TEST inline_invoke_goes_to_a_worker_when_no_permit_is_free(void)
{
    bulkhead b;
    bulkhead_options options = {.type = BULKHEAD_ASYNC, .flags = BULKHEAD_INLINE};
    ASSERT_INT(0, bulkhead_init(&b, &options));
    gate g;
    gates_init(&g, 1);
    ASSERT_INT(0, bulkhead_enter(&b));
    caller c = {.b = &b, .call = INVOKE, .gate = &g};
    g.result = 5;
    ASSERT(queue_up(&c, 1));
    ASSERT_INT(0, bulkhead_leave(&b));
    ASSERT(has_entered(&g));
    ASSERT_FIGURES(&b, 1, 0);
    let_go(&g);
    ASSERT(finished(&c));
    ASSERT_INT(0, c.error);
    ASSERT_INT(5, c.result);
    ASSERT_INT(0, bulkhead_close(&b, BULKHEAD_DRAIN, PLIM_S(PATIENCE_S)));
    ASSERT_INT(0, bulkhead_destroy(&b));
    PASS();
}

TEST a_failing_body_gives_its_permit_back(int type)
{
    bulkhead b;
    int result = 0, error = EIO;
    ASSERT(make(&b, type, 1, PLIM_NONE));
    for (int i = 0; i < 10; i++) {
        ASSERT_INT(0, bulkhead_invoke(&b, give, &error, &result));
        ASSERT_INT(EIO, result);
    }
    ASSERT_INT(0, in_use(&b));
    ASSERT_ENDS_WELL(&b);
    PASS();
}

TEST every_refusal_counts_and_admissions_count_if_asked(uint32_t flags)
{
    bulkhead b;
    bulkhead_options options = {.permits = 1, .queue = PLIM_NONE, .flags = flags};
    ASSERT_INT(0, bulkhead_init(&b, &options));
    ASSERT_INT(0, bulkhead_enter(&b));
    ASSERT_INT(EAGAIN, bulkhead_try_enter(&b));
    ASSERT_INT(EAGAIN, bulkhead_enter(&b));
    ASSERT_INT(ETIMEDOUT, bulkhead_enter_for(&b, -5));
    ASSERT_INT(EAGAIN, bulkhead_invoke(&b, nothing, NULL, NULL));
    ASSERT_INT(0, bulkhead_leave(&b));
    ASSERT_INT(0, bulkhead_invoke(&b, nothing, NULL, NULL));
    bulkhead_stats s = bulkhead_snapshot(&b);
    ASSERT_U64(4, s.rejected);
    ASSERT_U64((flags & BULKHEAD_STATS) != 0 ? 2 : 0, s.accepted);
    ASSERT_INT(0, bulkhead_close(&b, BULKHEAD_DRAIN, 0));
    ASSERT_INT(ESHUTDOWN, bulkhead_enter(&b));
    ASSERT_INT(ESHUTDOWN, bulkhead_try_enter(&b));
    ASSERT_INT(ESHUTDOWN, bulkhead_enter_for(&b, PLIM_MS(1)));
    ASSERT_U64(7, bulkhead_snapshot(&b).rejected);
    ASSERT_INT(0, bulkhead_destroy(&b));
    PASS();
}

/* ---- submit and wait ---- */

TEST a_job_runs_once_and_is_done_once(void)
{
    bulkhead b;
    gate g;
    gates_init(&g, 1);
    g.result = 42;
    ASSERT(make(&b, BULKHEAD_ASYNC, 1, 0));
    ASSERT_INT(0, bulkhead_submit(&b, &g.job));
    ASSERT(has_entered(&g));
    ASSERT_INT(ETIMEDOUT, bulkhead_wait(&g.job, PLIM_MS(5)));
    ASSERT_INT(ETIMEDOUT, bulkhead_wait(&g.job, 0));
    ASSERT_INT(ETIMEDOUT, bulkhead_wait(&g.job, INT64_MIN));
    let_go(&g);
    ASSERT(is_done(&g));
    ASSERT_INT(1, atomic_load(&g.dones)); /* wait returns after done has */
    ASSERT_INT(BULKHEAD_FAILED, g.job.outcome);
    ASSERT_INT(BULKHEAD_FAILED, g.seen);
    ASSERT_INT(42, g.job.result);
    ASSERT_INT(1, g.job.attempt);
    ASSERT_INT(0, in_use(&b));
    ASSERT_INT(0, bulkhead_wait(&g.job, 0)); /* again, and for ever after */
    ASSERT_INT(0, bulkhead_wait(&g.job, PLIM_FOREVER));
    ASSERT_ENDS_WELL(&b);
    ASSERT_INT(1, atomic_load(&g.runs));
    ASSERT_INT(1, atomic_load(&g.dones));
    PASS();
}

TEST bad_jobs_are_refused(void)
{
    bulkhead b;
    ASSERT(make(&b, BULKHEAD_ASYNC, 1, 0));
    bulkhead_job bad[] = {
        {.run = NULL},
        {.run = run_nothing, .delay_ns = -1},
        {.run = run_nothing, .delay_ns = INT64_MIN},
        {.run = run_nothing, .start_within_ns = -1},
        {.run = run_nothing, .run_timeout_ns = -2},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        ASSERT_INT(EINVAL, bulkhead_submit(&b, &bad[i]));
        ASSERT_INT(EINVAL, bulkhead_submit_for(&b, &bad[i], PLIM_MS(1)));
        ASSERT_INT(EINVAL, bulkhead_wait(&bad[i], 0));
    }
    ASSERT_U64(0, bulkhead_snapshot(&b).accepted);
    ASSERT_ENDS_WELL(&b);
    PASS();
}

TEST what_was_never_submitted_is_told_so(void)
{
    bulkhead a, b;
    ASSERT(make(&a, BULKHEAD_ASYNC, 1, 0));
    ASSERT(make(&b, BULKHEAD_ASYNC, 1, 0));
    bulkhead_job job = {.run = run_nothing};
    ASSERT_INT(EINVAL, bulkhead_wait(&job, PLIM_FOREVER));
    ASSERT_INT(EINVAL, bulkhead_reclaim(&job, PLIM_FOREVER));
    ASSERT_INT(EINVAL, bulkhead_cancel(&a, &job));
    ASSERT_FALSE(bulkhead_job_cancelled(&job));
    gate g;
    gates_init(&g, 1);
    ASSERT_INT(0, bulkhead_submit(&a, &g.job));
    ASSERT_INT(EINVAL, bulkhead_cancel(&b, &g.job));
    let_go(&g);
    ASSERT(is_done(&g));
    ASSERT_INT(EINVAL, bulkhead_cancel(&b, &g.job));
    ASSERT_INT(EALREADY, bulkhead_cancel(&a, &g.job));
    ASSERT_ENDS_FIRST(&a);
    ASSERT_ENDS_WELL(&b);
    PASS();
}

TEST a_job_in_flight_is_not_taken_again(void)
{
    bulkhead a, b;
    gate g[3];
    gates_init(g, 3);
    ASSERT(make(&a, BULKHEAD_ASYNC, 1, 0));
    ASSERT(make(&b, BULKHEAD_ASYNC, 1, 0));
    g[2].job.delay_ns = PLIM_S(1000);
    for (int i = 0; i < 3; i++) {
        ASSERT_INT(0, bulkhead_submit(&a, &g[i].job)); /* runs; waits; is delayed */
    }
    ASSERT(has_entered(&g[0]));
    for (int i = 0; i < 3; i++) {
        ASSERT_INT(EBUSY, bulkhead_submit(&a, &g[i].job));
        ASSERT_INT(EBUSY, bulkhead_submit(&b, &g[i].job));
        ASSERT_INT(EBUSY, bulkhead_submit_for(&a, &g[i].job, PLIM_MS(1)));
        ASSERT_INT(EBUSY, bulkhead_reclaim(&g[i].job, PLIM_MS(1)));
    }
    ASSERT_INT(0, bulkhead_cancel(&a, &g[2].job));
    let_all_go(g, 2);
    ASSERT(is_done(&g[0]));
    ASSERT(is_done(&g[1]));
    ASSERT_INT(1, atomic_load(&g[0].runs));
    ASSERT_INT(1, atomic_load(&g[1].runs));
    /* Done: it may go again, also to another one, as often as one likes. */
    for (int i = 0; i < 4; i++) {
        let_go(&g[0]);
        ASSERT_INT(0, bulkhead_submit(i % 2 == 0 ? &b : &a, &g[0].job));
        ASSERT(is_done(&g[0]));
        ASSERT_INT(BULKHEAD_SUCCEEDED, g[0].job.outcome);
    }
    ASSERT_INT(5, atomic_load(&g[0].runs));
    ASSERT_INT(5, atomic_load(&g[0].dones));
    ASSERT_ENDS_FIRST(&a);
    ASSERT_ENDS_WELL(&b);
    PASS();
}

TEST many_threads_may_wait_for_one_job(void)
{
    enum { N = 64 };
    bulkhead b;
    gate g;
    static caller c[N];
    gates_init(&g, 1);
    ASSERT(make(&b, BULKHEAD_ASYNC, 1, 0));
    for (int round = scaled(8); round > 0; round--) {
        ASSERT_INT(0, bulkhead_submit(&b, &g.job));
        for (int i = 0; i < N; i++) {
            memset((void *)&c[i], 0, sizeof c[i]);
            c[i].call = WAIT;
            c[i].gate = &g;
            c[i].timeout_ns = i % 4 == 3 ? PLIM_MS(1) : PLIM_FOREVER;
            start_call(&c[i]);
        }
        for (int i = 3; i < N; i += 4) {
            ASSERT(finished(&c[i]));
            ASSERT_INT(ETIMEDOUT, c[i].error);
            ASSERT(c[i].took_ns >= PLIM_MS(1));
        }
        let_go(&g);
        for (int i = 0; i < N; i++) {
            if (i % 4 != 3) {
                ASSERT(finished(&c[i]));
                ASSERT_INT(0, c[i].error);
            }
        }
        for (int i = 0; i < 8; i++) { /* and those who come when it is done */
            c[i].timeout_ns = i % 2 == 0 ? PLIM_FOREVER : 0;
            start_call(&c[i]);
        }
        join_calls(c, 8);
        for (int i = 0; i < 8; i++) {
            ASSERT_INT(0, c[i].error);
        }
    }
    ASSERT_ENDS_WELL(&b);
    PASS();
}

TEST nobody_may_wait_for_a_detached_job(void)
{
    bulkhead b;
    gate g;
    gates_init(&g, 1);
    g.job.detached = true;
    ASSERT(make(&b, BULKHEAD_ASYNC, 1, 0));
    ASSERT_INT(0, bulkhead_submit(&b, &g.job));
    ASSERT(has_entered(&g));
    ASSERT_INT(EINVAL, bulkhead_wait(&g.job, PLIM_FOREVER));
    ASSERT_INT(EINVAL, bulkhead_reclaim(&g.job, PLIM_FOREVER));
    let_go(&g);
    ASSERT(EVENTUALLY(atomic_load(&g.dones) == 1));
    ASSERT_ENDS_WELL(&b);
    PASS();
}

typedef struct chain {
    bulkhead *b;
    atomic_int left, freed, refused;
} chain;

static void free_in_done(bulkhead_job *job)
{
    chain *c = job->arg;
    free(job);
    atomic_fetch_add(&c->freed, 1);
}

TEST a_detached_job_may_be_freed_in_done(void)
{
    bulkhead b;
    chain c = {.b = &b};
    ASSERT(make(&b, BULKHEAD_ASYNC, 2, 0));
    int n = scaled(2000);
    for (int i = 0; i < n; i++) {
        bulkhead_job *job = calloc(1, sizeof *job);
        ASSERT(job != NULL);
        job->run = run_nothing;
        job->arg = &c;
        job->done = free_in_done;
        job->detached = true;
        ASSERT_INT(0, bulkhead_submit(&b, job));
    }
    ASSERT_INT(0, bulkhead_wait_idle(&b, PLIM_S(PATIENCE_S)));
    ASSERT(EVENTUALLY(atomic_load(&c.freed) == n));
    ASSERT_ENDS_WELL(&b);
    PASS();
}

static void again_in_done(bulkhead_job *job)
{
    chain *c = job->arg;
    if (atomic_fetch_sub(&c->left, 1) > 1 && bulkhead_submit(c->b, job) != 0) {
        atomic_fetch_add(&c->refused, 1);
    }
}

TEST a_detached_job_may_be_submitted_again_in_done(void)
{
    bulkhead b;
    chain c = {.b = &b, .left = scaled(2000)};
    bulkhead_job job = {.run = run_nothing, .arg = &c, .done = again_in_done, .detached = true};
    ASSERT(make(&b, BULKHEAD_ASYNC, 1, PLIM_NONE)); /* its permit is free by then: always room */
    ASSERT_INT(0, bulkhead_submit(&b, &job));
    ASSERT(EVENTUALLY(atomic_load(&c.left) == 0));
    ASSERT_INT(0, atomic_load(&c.refused));
    ASSERT_ENDS_WELL(&b);
    PASS();
}

static void try_in_done(bulkhead_job *job)
{
    gate *g = job->arg;
    bulkhead *b = (bulkhead *)(void *)g->order; /* borrowed */
    g->result = bulkhead_try_enter(b);
    if (g->result == 0) {
        bulkhead_leave(b);
    }
    atomic_fetch_add(&g->dones, 1);
}

/* So who waits for it finds it free, and a detached job has room to come again. */
TEST the_permit_is_given_back_after_done_or_before_if_detached(bool detached)
{
    bulkhead b;
    gate g;
    ASSERT(make(&b, BULKHEAD_ASYNC, 1, 0));
    gates_init(&g, 1);
    g.job.run = run_nothing;
    g.job.done = try_in_done;
    g.job.detached = detached;
    g.order = (atomic_int *)(void *)&b;
    g.result = -1;
    ASSERT_INT(0, bulkhead_submit(&b, &g.job));
    if (!detached) {
        ASSERT(is_done(&g));
        ASSERT_INT(0, in_use(&b));
    }
    ASSERT(EVENTUALLY(atomic_load(&g.dones) == 1));
    ASSERT_ENDS_WELL(&b);
    ASSERT_INT(detached ? 0 : EAGAIN, g.result);
    PASS();
}

TEST a_submit_does_not_wait_for_a_place_unless_told(void)
{
    bulkhead b;
    gate g[3];
    gates_init(g, 3);
    ASSERT(make(&b, BULKHEAD_ASYNC, 1, 1));
    ASSERT_INT(0, bulkhead_submit(&b, &g[0].job));
    ASSERT_INT(0, bulkhead_submit(&b, &g[1].job));
    ASSERT_INT(EAGAIN, bulkhead_submit(&b, &g[2].job));
    ASSERT_INT(ETIMEDOUT, bulkhead_submit_for(&b, &g[2].job, 0));
    ASSERT_INT(ETIMEDOUT, bulkhead_submit_for(&b, &g[2].job, INT64_MIN));
    int64_t from = plim_now_();
    ASSERT_INT(ETIMEDOUT, bulkhead_submit_for(&b, &g[2].job, PLIM_MS(30)));
    ASSERT(plim_now_() - from >= PLIM_MS(30));
    ASSERT_U64(4, bulkhead_snapshot(&b).rejected);
    ASSERT_INT(EINVAL, bulkhead_wait(&g[2].job, 0)); /* it never was let in */
    let_all_go(g, 3);
    ASSERT(is_done(&g[0]));
    ASSERT(is_done(&g[1]));
    ASSERT_INT(0, bulkhead_submit_for(&b, &g[2].job, 0));
    ASSERT(is_done(&g[2]));
    ASSERT_ENDS_WELL(&b);
    PASS();
}

TEST the_timeout_of_the_options_is_that_of_submit(int64_t timeout_ns, int expected)
{
    bulkhead b;
    gate g[3];
    gates_init(g, 3);
    bulkhead_options options = {.type = BULKHEAD_ASYNC, .queue = 1, .timeout_ns = timeout_ns};
    ASSERT_INT(0, bulkhead_init(&b, &options));
    ASSERT_INT(0, bulkhead_submit(&b, &g[0].job));
    ASSERT_INT(0, bulkhead_submit(&b, &g[1].job));
    int64_t from = plim_now_();
    ASSERT_INT(expected, bulkhead_submit(&b, &g[2].job));
    ASSERT(plim_now_() - from >= (timeout_ns > 0 ? timeout_ns : 0));
    let_all_go(g, 2);
    ASSERT_ENDS_WELL(&b);
    PASS();
}

enum { BY_END, BY_CANCEL, BY_EXPIRY, BY_GIVING_UP, BY_RESIZE, BY_PERMIT };

/* Whatever makes room lets in who waits for it, and the first one first. */
TEST a_submitter_that_waits_for_a_place_gets_it(int how)
{
    bulkhead b;
    gate g[4];
    atomic_int order = 0;
    gates_init(g, 4);
    ASSERT(make(&b, BULKHEAD_ASYNC, 1, 1));
    ASSERT_INT(0, bulkhead_submit(&b, &g[0].job));
    ASSERT(has_entered(&g[0]));
    caller waiter = {.b = &b, .call = ENTER_FOR, .timeout_ns = PLIM_MS(300)};
    if (how == BY_GIVING_UP) {
        ASSERT(queue_up(&waiter, 1));
    } else {
        g[1].job.start_within_ns = how == BY_EXPIRY ? PLIM_MS(300) : 0;
        ASSERT_INT(0, bulkhead_submit(&b, &g[1].job));
    }
    caller c[2];
    for (int i = 0; i < 2; i++) {
        c[i] = (caller){.b = &b,
                        .call = SUBMIT_FOR,
                        .gate = &g[2 + i],
                        .timeout_ns = PLIM_FOREVER,
                        .order = &order};
        start_call(&c[i]);
        ASSERT(stays_false(&c[i].done)); /* no figure tells who waits for a place */
    }
    switch (how) {
    case BY_END:
        let_go(&g[0]);
        break;
    case BY_CANCEL:
        ASSERT_INT(0, bulkhead_cancel(&b, &g[1].job));
        break;
    case BY_RESIZE:
        ASSERT_INT(0, bulkhead_resize(&b, 1, 2));
        break;
    case BY_PERMIT:
        ASSERT_INT(0, bulkhead_resize(&b, 2, 1));
        break;
    default:
        break;
    }
    ASSERT(finished(&c[0]));
    ASSERT_INT(0, c[0].error);
    ASSERT_FALSE(atomic_load(&c[1].done));
    ASSERT_INT(0, c[0].place);
    let_all_go(g, 4);
    ASSERT(finished(&c[1]));
    ASSERT_INT(0, c[1].error);
    if (how == BY_GIVING_UP) {
        ASSERT(finished(&waiter));
        ASSERT_INT(ETIMEDOUT, waiter.error);
    } else {
        ASSERT(is_done(&g[1]));
        ASSERT_INT(how == BY_CANCEL   ? BULKHEAD_CANCELLED
                   : how == BY_EXPIRY ? BULKHEAD_EXPIRED
                                      : BULKHEAD_SUCCEEDED,
                   g[1].job.outcome);
    }
    ASSERT_ENDS_WELL(&b);
    ASSERT_INT(1, atomic_load(&g[2].runs));
    ASSERT_INT(1, atomic_load(&g[3].runs));
    PASS();
}

TEST submitters_for_a_place_give_up_in_time_and_leave_nothing(void)
{
    enum { N = 4 };
    bulkhead b;
    gate g[2 + N];
    caller c[N];
    ASSERT(make(&b, BULKHEAD_ASYNC, 1, 1));
    for (int round = scaled(30); round > 0; round--) {
        gates_init(g, 2 + N);
        ASSERT_INT(0, bulkhead_submit(&b, &g[0].job));
        ASSERT_INT(0, bulkhead_submit(&b, &g[1].job));
        for (int i = 0; i < N; i++) {
            c[i] =
                (caller){.b = &b, .call = SUBMIT_FOR, .gate = &g[2 + i], .timeout_ns = PLIM_MS(2)};
            start_call(&c[i]);
        }
        rest(PLIM_MS(2));
        let_all_go(g, 2 + N); /* race with the timeouts */
        join_calls(c, N);
        ASSERT_INT(0, bulkhead_wait_idle(&b, PLIM_S(PATIENCE_S)));
        for (int i = 0; i < N; i++) {
            ASSERT(c[i].error == 0 || c[i].error == ETIMEDOUT);
            ASSERT_INT(c[i].error == 0, atomic_load(&g[2 + i].runs));
            ASSERT_INT(c[i].error == 0, atomic_load(&g[2 + i].dones));
        }
        ASSERT_FIGURES(&b, 0, 0);
    }
    ASSERT_ENDS_WELL(&b);
    PASS();
}

static int end_thread_job(bulkhead_job *job)
{
    return end_the_thread(job);
}

TEST a_job_may_end_its_thread(void)
{
    if (!THREAD_ENDS_ARE_NOTICED) {
        SKIPm("the end of a thread is noticed on POSIX systems only");
    }
    bulkhead b;
    gate g;
    gates_init(&g, 1);
    g.job.run = end_thread_job;
    ASSERT(make(&b, BULKHEAD_ASYNC, 1, 0));
    for (int i = 1; i <= 5; i++) {
        ASSERT_INT(0, bulkhead_submit(&b, &g.job));
        ASSERT(is_done(&g));
        ASSERT_INT(BULKHEAD_FAILED, g.job.outcome);
        ASSERT_INT(ECANCELED, g.job.result);
        ASSERT_INT(i, atomic_load(&g.dones));
        bulkhead_job next = {.run = run_nothing};
        ASSERT_INT(0, bulkhead_submit(&b, &next));
        ASSERT_INT(0, bulkhead_wait(&next, PLIM_S(PATIENCE_S)));
    }
    ASSERT_ENDS_WELL(&b);
    PASS();
}

/* ---- waits that could never end ---- */

enum {
    NEST_INVOKE,
    NEST_ENTER,
    NEST_SUBMIT_AND_WAIT,
    NEST_SELF,
    NEST_IDLE,
    NEST_DRAIN,
    NEST_ABORT,
    NEST_PEER,
    NEST_PLACE
};

/* A body, or a done, that waits for its own bulkhead. */
typedef struct nested {
    bulkhead_job job;
    bulkhead *b;
    int what;
    int error;
    int left;
    csem *barrier; /* both sides are inside before either waits */
    struct nested *peer;
    bulkhead_job inner;
} nested;

static int nest(nested *n)
{
    switch (n->what) {
    case NEST_INVOKE:
        return bulkhead_invoke(n->b, nothing, NULL, NULL);
    case NEST_ENTER:
        return bulkhead_enter(n->b);
    case NEST_SUBMIT_AND_WAIT:
        n->inner.run = run_nothing;
        n->left = bulkhead_submit(n->b, &n->inner);
        return n->left == 0 ? bulkhead_wait(&n->inner, PLIM_FOREVER) : -2;
    case NEST_SELF:
        return bulkhead_wait(&n->job, PLIM_FOREVER);
    case NEST_IDLE:
        return bulkhead_wait_idle(n->b, PLIM_FOREVER);
    case NEST_PEER:
        return bulkhead_wait(&n->peer->job, PLIM_FOREVER);
    case NEST_PLACE:
        n->inner.run = run_nothing;
        return bulkhead_submit_for(n->b, &n->inner, PLIM_FOREVER);
    default:
        return bulkhead_close(n->b, n->what == NEST_DRAIN ? BULKHEAD_DRAIN : BULKHEAD_ABORT,
                              PLIM_FOREVER);
    }
}

static int run_nested(bulkhead_job *job)
{
    nested *n = job->arg;
    if (n->barrier != NULL) {
        csem_release(&n->barrier[0]);
        csem_acquire(&n->barrier[1]);
    }
    n->error = nest(n);
    if (n->error == 0 && n->what == NEST_ENTER) {
        n->left = bulkhead_leave(n->b);
    }
    return 0;
}

static void nest_in_done(bulkhead_job *job)
{
    nested *n = job->arg;
    n->error = nest(n);
}

TEST a_job_that_would_wait_for_itself_is_told(int what)
{
    bulkhead b;
    ASSERT(make(&b, BULKHEAD_ASYNC, 1, 0));
    nested n = {.b = &b, .what = what, .error = -1};
    n.job.run = run_nested;
    n.job.arg = &n;
    ASSERT_INT(0, bulkhead_submit(&b, &n.job));
    ASSERT_INT(0, bulkhead_wait(&n.job, PLIM_S(PATIENCE_S)));
    ASSERT_INT(EDEADLK, n.error);
    ASSERT_INT(BULKHEAD_SUCCEEDED, n.job.outcome);
    if (what == NEST_SUBMIT_AND_WAIT) { /* only the wait was in vain */
        ASSERT_INT(0, bulkhead_wait(&n.inner, PLIM_S(PATIENCE_S)));
        ASSERT_INT(BULKHEAD_SUCCEEDED, n.inner.outcome);
    }
    /* It changed nothing: also a close has not begun. */
    ASSERT_INT(0, bulkhead_enter(&b));
    ASSERT_INT(0, bulkhead_leave(&b));
    ASSERT_ENDS_WELL(&b);
    PASS();
}

TEST a_done_that_would_wait_for_itself_is_told(int what)
{
    bulkhead b;
    ASSERT(make(&b, BULKHEAD_ASYNC, 1, 0));
    nested n = {.b = &b, .what = what, .error = -1};
    n.job.run = run_nothing;
    n.job.done = nest_in_done;
    n.job.arg = &n;
    ASSERT_INT(0, bulkhead_submit(&b, &n.job));
    ASSERT_INT(0, bulkhead_wait(&n.job, PLIM_S(PATIENCE_S)));
    ASSERT_INT(EDEADLK, n.error);
    ASSERT_INT(0, bulkhead_enter(&b));
    ASSERT_INT(0, bulkhead_leave(&b));
    ASSERT_ENDS_WELL(&b);
    PASS();
}

TEST two_jobs_on_two_permits_that_wait_for_a_third_do_not_hang(int what)
{
    bulkhead b;
    for (int round = scaled(20); round > 0; round--) {
        csem barrier[2] = {CSEM_INIT(0), CSEM_INIT(0)};
        ASSERT(make(&b, BULKHEAD_ASYNC, 2, 0));
        nested n[2];
        for (int i = 0; i < 2; i++) {
            n[i] =
                (nested){.b = &b, .what = what, .error = -1, .barrier = barrier, .peer = &n[1 - i]};
            n[i].job.run = run_nested;
            n[i].job.arg = &n[i];
            ASSERT_INT(0, bulkhead_submit(&b, &n[i].job));
        }
        ASSERT_INT(0, csem_acquire(&barrier[0]));
        ASSERT_INT(0, csem_acquire(&barrier[0]));
        ASSERT_INT(0, csem_release_n(&barrier[1], 2));
        ASSERT_INT(0, bulkhead_wait(&n[0].job, PLIM_S(PATIENCE_S)));
        ASSERT_INT(0, bulkhead_wait(&n[1].job, PLIM_S(PATIENCE_S)));
        /* The second to wait is told; then it ends, and the first gets what it waits for. */
        ASSERT_INT(EDEADLK, n[0].error + n[1].error);
        ASSERT(n[0].error == 0 || n[1].error == 0);
        ASSERT_INT(0, bulkhead_wait_idle(&b, PLIM_S(PATIENCE_S)));
        ASSERT_ENDS_WELL(&b);
    }
    PASS();
}

TEST a_job_may_wait_for_another_while_a_permit_is_left(int what)
{
    bulkhead b;
    ASSERT(make(&b, BULKHEAD_ASYNC, 2, 0));
    nested n = {.b = &b, .what = what, .error = -1};
    n.job.run = run_nested;
    n.job.arg = &n;
    for (int i = scaled(200); i > 0; i--) {
        ASSERT_INT(0, bulkhead_submit(&b, &n.job));
        ASSERT_INT(0, bulkhead_wait(&n.job, PLIM_S(PATIENCE_S)));
        ASSERT_INT(0, n.error);
    }
    ASSERT_ENDS_WELL(&b);
    PASS();
}

TEST a_full_queue_in_front_of_the_own_job_is_told(void)
{
    bulkhead b;
    gate g;
    csem barrier[2] = {CSEM_INIT(0), CSEM_INIT(0)};
    gates_init(&g, 1);
    ASSERT(make(&b, BULKHEAD_ASYNC, 1, 1));
    nested n = {.b = &b, .what = NEST_PLACE, .error = -1, .barrier = barrier};
    n.job.run = run_nested;
    n.job.arg = &n;
    ASSERT_INT(0, bulkhead_submit(&b, &n.job));
    ASSERT_INT(0, csem_acquire(&barrier[0]));
    ASSERT_INT(0, bulkhead_submit(&b, &g.job)); /* now the queue is full */
    ASSERT_INT(0, csem_release(&barrier[1]));
    ASSERT_INT(0, bulkhead_wait(&n.job, PLIM_S(PATIENCE_S)));
    ASSERT_INT(EDEADLK, n.error);
    let_go(&g);
    ASSERT_ENDS_WELL(&b);
    PASS();
}

static int enter_again(void *arg)
{
    bulkhead **b = arg;
    int error = bulkhead_enter(b[1]);
    if (error == 0) {
        error = bulkhead_enter(b[0]);
        bulkhead_leave(b[1]);
    }
    return error;
}

TEST a_thread_that_holds_the_last_permit_is_told(int type)
{
    bulkhead a, b;
    ASSERT(make(&a, type, 1, 0));
    ASSERT(make(&b, type, 1, 0));
    ASSERT_INT(0, bulkhead_enter(&a));
    ASSERT_INT(EDEADLK, bulkhead_enter(&a));
    ASSERT_INT(EDEADLK, bulkhead_enter_for(&a, PLIM_FOREVER));
    ASSERT_INT(EDEADLK, bulkhead_invoke(&a, nothing, NULL, NULL));
    ASSERT_INT(EDEADLK, bulkhead_wait_idle(&a, PLIM_FOREVER));
    ASSERT_INT(EDEADLK, bulkhead_close(&a, BULKHEAD_DRAIN, PLIM_FOREVER));
    ASSERT_INT(EDEADLK, bulkhead_close(&a, BULKHEAD_ABORT, PLIM_FOREVER));
    ASSERT_U64(3, bulkhead_snapshot(&a).rejected);
    /* Others in between do not hide it. */
    ASSERT_INT(0, bulkhead_enter(&b));
    ASSERT_INT(EDEADLK, bulkhead_enter(&a));
    ASSERT_INT(0, bulkhead_leave(&b));
    if (type == BULKHEAD_ASYNC) {
        bulkhead_job job = {.run = run_nothing};
        ASSERT_INT(0, bulkhead_submit(&a, &job));
        ASSERT_INT(EDEADLK, bulkhead_wait(&job, PLIM_FOREVER));
        ASSERT_INT(0, bulkhead_leave(&a));
        ASSERT_INT(0, bulkhead_wait(&job, PLIM_S(PATIENCE_S)));
    } else {
        ASSERT_INT(0, bulkhead_leave(&a));
        /* invoke inside invoke, with another in between: A, B, A */
        bulkhead *both[] = {&a, &b};
        int result = -1;
        ASSERT_INT(0, bulkhead_invoke(&a, enter_again, both, &result));
        ASSERT_INT(EDEADLK, result);
    }
    ASSERT_FIGURES(&a, 0, 0);
    ASSERT_ENDS_FIRST(&a);
    ASSERT_ENDS_WELL(&b);
    PASS();
}

/* A permit may be taken twice by one thread, while there are some. */
TEST a_thread_may_hold_several_permits(void)
{
    bulkhead b;
    ASSERT(make(&b, BULKHEAD_SYNC, 3, 0));
    for (int i = 0; i < 3; i++) {
        ASSERT_INT(0, bulkhead_enter(&b));
    }
    ASSERT_INT(EAGAIN, bulkhead_try_enter(&b)); /* does not wait, so is not told EDEADLK */
    ASSERT_INT(ETIMEDOUT, bulkhead_enter_for(&b, 0));
    for (int i = 0; i < 3; i++) {
        ASSERT_INT(0, bulkhead_leave(&b));
    }
    ASSERT_INT(EPERM, bulkhead_leave(&b));
    ASSERT_ENDS_WELL(&b);
    PASS();
}

typedef struct spiral {
    bulkhead *b;
    int depth, deepest;
} spiral;

static int wind(void *arg)
{
    spiral *s = arg;
    int result = 0;
    s->deepest = ++s->depth;
    int error = bulkhead_invoke(s->b, wind, s, &result);
    return error != 0 ? error : result;
}

TEST invokes_nest_as_deep_as_there_are_permits(int type, uint32_t flags)
{
    bulkhead b;
    bulkhead_options options = {.type = type, .permits = 3, .flags = flags};
    ASSERT_INT(0, bulkhead_init(&b, &options));
    spiral s = {.b = &b};
    int result = 0;
    ASSERT_INT(0, bulkhead_invoke(&b, wind, &s, &result));
    ASSERT_INT(EDEADLK, result);
    ASSERT_INT(3, s.deepest);
    int scopes = 0;
    BULKHEAD_SCOPE(&b)
    {
        BULKHEAD_SCOPE(&b)
        {
            BULKHEAD_SCOPE(&b)
            {
                scopes = 3;
                ASSERT_INT(EDEADLK, bulkhead_enter(&b));
            }
        }
    }
    ASSERT_INT(3, scopes);
    ASSERT_FIGURES(&b, 0, 0);
    ASSERT_INT(0, bulkhead_close(&b, BULKHEAD_DRAIN, PLIM_S(PATIENCE_S)));
    ASSERT_INT(0, bulkhead_destroy(&b));
    PASS();
}

static int close_without_waiting(bulkhead_job *job)
{
    nested *n = job->arg;
    n->error = bulkhead_close(n->b, BULKHEAD_DRAIN, 0);
    return 0;
}

TEST a_job_may_begin_to_close_its_own_bulkhead(void)
{
    bulkhead b;
    ASSERT(make(&b, BULKHEAD_ASYNC, 1, 0));
    nested n = {.b = &b, .error = -1};
    n.job.run = close_without_waiting;
    n.job.arg = &n;
    ASSERT_INT(0, bulkhead_submit(&b, &n.job));
    ASSERT_INT(0, bulkhead_wait(&n.job, PLIM_S(PATIENCE_S)));
    ASSERT_INT(ETIMEDOUT, n.error);
    ASSERT_INT(ESHUTDOWN, bulkhead_enter(&b));
    ASSERT_ENDS_WELL(&b);
    PASS();
}

TEST a_holder_may_wait_for_a_job_while_a_permit_is_left(void)
{
    bulkhead b;
    ASSERT(make(&b, BULKHEAD_ASYNC, 2, 0));
    ASSERT_INT(0, bulkhead_enter(&b));
    for (int i = scaled(100); i > 0; i--) {
        bulkhead_job job = {.run = run_nothing};
        ASSERT_INT(0, bulkhead_submit(&b, &job));
        ASSERT_INT(0, bulkhead_wait(&job, PLIM_S(PATIENCE_S)));
        ASSERT_INT(0, bulkhead_invoke(&b, nothing, NULL, NULL));
    }
    ASSERT_INT(0, bulkhead_leave(&b));
    ASSERT_ENDS_WELL(&b);
    PASS();
}

typedef struct tree {
    bulkhead *b;
    atomic_int ran, refused;
} tree;

typedef struct leaf {
    bulkhead_job job;
    tree *tree;
    int depth;
} leaf;

static int grow(bulkhead_job *job);

static void fell(bulkhead_job *job)
{
    free(job->arg);
}

static void plant(tree *t, int depth)
{
    leaf *l = calloc(1, sizeof *l);
    if (l == NULL) {
        abort();
    }
    l->tree = t;
    l->depth = depth;
    l->job.run = grow;
    l->job.arg = l;
    l->job.done = fell;
    l->job.detached = true;
    if (bulkhead_submit(t->b, &l->job) != 0) {
        atomic_fetch_add(&t->refused, 1);
        free(l);
    }
}

static int grow(bulkhead_job *job)
{
    leaf *l = job->arg;
    atomic_fetch_add(&l->tree->ran, 1);
    if (l->depth > 0) {
        plant(l->tree, l->depth - 1);
        plant(l->tree, l->depth - 1);
    }
    return 0;
}

TEST jobs_may_submit_jobs(void)
{
    bulkhead b;
    ASSERT(make(&b, BULKHEAD_ASYNC, 2, 0));
    tree t = {.b = &b};
    plant(&t, 9);
    ASSERT_INT(0, bulkhead_wait_idle(&b, PLIM_S(PATIENCE_S)));
    ASSERT_INT((1 << 10) - 1, atomic_load(&t.ran));
    ASSERT_INT(0, atomic_load(&t.refused));
    ASSERT_ENDS_WELL(&b);
    PASS();
}

/* ---- cancel ---- */

TEST a_queued_job_is_cancelled_at_once(void)
{
    bulkhead b;
    gate g[3];
    gates_init(g, 3);
    ASSERT(make(&b, BULKHEAD_ASYNC, 1, 1));
    ASSERT_INT(0, bulkhead_submit(&b, &g[0].job));
    ASSERT(has_entered(&g[0]));
    ASSERT_INT(0, bulkhead_submit(&b, &g[1].job));
    ASSERT_INT(EAGAIN, bulkhead_submit(&b, &g[2].job));
    ASSERT_INT(0, bulkhead_cancel(&b, &g[1].job));
    ASSERT_INT(1, atomic_load(&g[1].dones)); /* was called here */
    ASSERT_INT(0, bulkhead_wait(&g[1].job, 0));
    ASSERT_INT(BULKHEAD_CANCELLED, g[1].job.outcome);
    ASSERT_INT(BULKHEAD_CANCELLED, g[1].seen);
    ASSERT_INT(0, g[1].job.result);
    ASSERT_INT(EALREADY, bulkhead_cancel(&b, &g[1].job));
    ASSERT_FIGURES(&b, 1, 0);
    ASSERT_INT(0, bulkhead_submit(&b, &g[2].job)); /* there is room again */
    let_all_go(g, 3);
    ASSERT(is_done(&g[2]));
    ASSERT_INT(0, atomic_load(&g[1].runs));
    ASSERT_INT(1, atomic_load(&g[1].dones));
    ASSERT_U64(1, bulkhead_snapshot(&b).cancelled);
    ASSERT_ENDS_WELL(&b);
    PASS();
}

TEST a_delayed_job_can_be_cancelled(void)
{
    bulkhead b;
    gate g;
    gates_init(&g, 1);
    g.job.delay_ns = PLIM_S(1000);
    ASSERT(make(&b, BULKHEAD_ASYNC, 1, 0));
    ASSERT_INT(0, bulkhead_submit(&b, &g.job));
    ASSERT_INT(1, bulkhead_snapshot(&b).delayed);
    ASSERT_INT(0, bulkhead_cancel(&b, &g.job));
    ASSERT_INT(0, bulkhead_snapshot(&b).delayed);
    ASSERT_INT(BULKHEAD_CANCELLED, g.job.outcome);
    ASSERT_INT(1, atomic_load(&g.dones));
    ASSERT_INT(EALREADY, bulkhead_cancel(&b, &g.job));
    ASSERT_ENDS_WELL(&b);
    PASS();
}

static int until_cancelled(bulkhead_job *job)
{
    gate *g = job->arg;
    atomic_fetch_add(&g->runs, 1);
    csem_release(&g->entered);
    while (!bulkhead_job_cancelled(job)) {
        plim_thread_yield_();
    }
    csem_acquire(&g->exit);
    return g->result;
}

/* The body is told, and keeps its permit until it returns; what it returns then counts. */
TEST a_running_job_is_told_and_not_stopped(int result)
{
    bulkhead b;
    gate g[2];
    gates_init(g, 2);
    bulkhead_options options = {.type = BULKHEAD_ASYNC, .attempts = 5};
    ASSERT_INT(0, bulkhead_init(&b, &options));
    g[0].job.run = until_cancelled;
    g[0].result = result;
    ASSERT_INT(0, bulkhead_submit(&b, &g[0].job));
    ASSERT_INT(0, bulkhead_submit(&b, &g[1].job));
    ASSERT(has_entered(&g[0]));
    ASSERT_FALSE(bulkhead_job_cancelled(&g[0].job));
    ASSERT_INT(EBUSY, bulkhead_cancel(&b, &g[0].job));
    ASSERT(bulkhead_job_cancelled(&g[0].job));
    ASSERT_INT(EBUSY, bulkhead_cancel(&b, &g[0].job));
    ASSERT_INT(ETIMEDOUT, bulkhead_wait(&g[0].job, PLIM_MS(10)));
    ASSERT_FIGURES(&b, 1, 1);
    let_go(&g[0]);
    ASSERT(is_done(&g[0]));
    /* A failure is not tried again. */
    ASSERT_INT(result == 0 ? BULKHEAD_SUCCEEDED : BULKHEAD_FAILED, g[0].job.outcome);
    ASSERT_INT(result, g[0].job.result);
    ASSERT_INT(1, atomic_load(&g[0].runs));
    ASSERT_INT(EALREADY, bulkhead_cancel(&b, &g[0].job));
    /* The one that now runs on that worker has not heard of it. */
    ASSERT(has_entered(&g[1]));
    ASSERT_INT(EALREADY, bulkhead_cancel(&b, &g[0].job));
    ASSERT_FALSE(bulkhead_job_cancelled(&g[1].job));
    let_go(&g[1]);
    ASSERT(is_done(&g[1]));
    ASSERT_U64(0, bulkhead_snapshot(&b).retried);
    /* A new submit is a new beginning. */
    let_go(&g[0]);
    g[0].job.run = run_pass;
    g[0].result = 0;
    ASSERT_INT(0, bulkhead_submit(&b, &g[0].job));
    ASSERT_FALSE(bulkhead_job_cancelled(&g[0].job));
    ASSERT(is_done(&g[0]));
    ASSERT_INT(BULKHEAD_SUCCEEDED, g[0].job.outcome);
    ASSERT_ENDS_WELL(&b);
    PASS();
}

TEST a_job_that_waits_for_its_retry_can_be_cancelled(void)
{
    bulkhead b;
    int error = EIO;
    bulkhead_options options = {
        .type = BULKHEAD_ASYNC, .attempts = 3, .retry_delay_ns = PLIM_S(1000)};
    options.retry_delay_max_ns = PLIM_S(1000);
    ASSERT_INT(0, bulkhead_init(&b, &options));
    bulkhead_job job = {.run = run_result, .arg = &error};
    ASSERT_INT(0, bulkhead_submit(&b, &job));
    ASSERT(EVENTUALLY(bulkhead_snapshot(&b).delayed == 1));
    ASSERT_INT(0, bulkhead_cancel(&b, &job));
    ASSERT_INT(0, bulkhead_wait(&job, 0));
    ASSERT_INT(BULKHEAD_CANCELLED, job.outcome);
    ASSERT_FIGURES(&b, 0, 0);
    ASSERT_ENDS_WELL(&b);
    PASS();
}

/* A job that has a permit, but no worker has it yet. */
TEST a_cancel_races_with_the_start_and_one_of_them_wins(void)
{
    bulkhead b;
    ASSERT(make(&b, BULKHEAD_ASYNC, 1, 0));
    int cancelled = 0;
    for (int round = scaled(3000); round > 0; round--) {
        atomic_int ran = 0;
        bulkhead_job job = {.run = run_count, .arg = &ran};
        ASSERT_INT(0, bulkhead_submit(&b, &job));
        dawdle((uint64_t)round);
        int error = bulkhead_cancel(&b, &job);
        ASSERT(error == 0 || error == EBUSY || error == EALREADY);
        ASSERT_INT(0, bulkhead_wait(&job, PLIM_S(PATIENCE_S)));
        ASSERT_INT(error == 0 ? BULKHEAD_CANCELLED : BULKHEAD_SUCCEEDED, job.outcome);
        ASSERT_INT(error == 0 ? 0 : 1, atomic_load(&ran));
        cancelled += error == 0;
        ASSERT_INT(0, in_use(&b));
    }
    ASSERT_U64(cancelled, bulkhead_snapshot(&b).cancelled);
    ASSERT_ENDS_WELL(&b);
    PASS();
}

TEST one_in_the_middle_of_the_queue_is_cancelled_alone(void)
{
    enum { N = 6 };
    bulkhead b;
    gate g[N];
    atomic_int order = 0;
    gates_init(g, N);
    ASSERT(make(&b, BULKHEAD_ASYNC, 1, 0));
    for (int i = 0; i < N; i++) {
        g[i].order = &order;
        ASSERT_INT(0, bulkhead_submit(&b, &g[i].job));
    }
    ASSERT(has_entered(&g[0]));
    ASSERT_INT(0, bulkhead_cancel(&b, &g[3].job));
    ASSERT_INT(0, bulkhead_cancel(&b, &g[1].job));
    ASSERT_INT(0, bulkhead_cancel(&b, &g[5].job));
    ASSERT_FIGURES(&b, 1, 2);
    let_all_go(g, N);
    ASSERT_INT(0, bulkhead_wait_idle(&b, PLIM_S(PATIENCE_S)));
    ASSERT_INT(0, g[0].place);
    ASSERT_INT(1, g[2].place);
    ASSERT_INT(2, g[4].place);
    for (int i = 0; i < N; i++) {
        ASSERT_INT(1, atomic_load(&g[i].dones));
    }
    ASSERT_ENDS_WELL(&b);
    PASS();
}

/* ---- delays and deadlines ---- */

typedef struct timed {
    bulkhead_job job;
    int64_t at[8]; /* when each attempt began */
    int runs;
    int fail_until; /* attempts that fail */
    uint32_t attempts[8];
} timed;

static int note_time(bulkhead_job *job)
{
    timed *t = job->arg;
    if (t->runs < 8) {
        t->at[t->runs] = plim_now_();
        t->attempts[t->runs] = job->attempt;
    }
    t->runs++;
    return t->runs <= t->fail_until ? t->runs * 10 : 0;
}

static void timed_init(timed *t)
{
    memset((void *)t, 0, sizeof *t);
    t->job.run = note_time;
    t->job.arg = t;
}

TEST a_delayed_job_is_never_early(void)
{
    bulkhead b;
    timed t[4];
    int64_t from[4];
    ASSERT(make(&b, BULKHEAD_ASYNC, 2, 0));
    /* A sleeping worker, to be woken. */
    ASSERT_INT(0, bulkhead_invoke(&b, nothing, NULL, NULL));
    for (int i = 0; i < 4; i++) {
        timed_init(&t[i]);
        t[i].job.delay_ns = PLIM_MS(10 * (4 - i));
        from[i] = plim_now_();
        ASSERT_INT(0, bulkhead_submit(&b, &t[i].job));
    }
    for (int i = 0; i < 4; i++) {
        ASSERT_INT(0, bulkhead_wait(&t[i].job, PLIM_S(PATIENCE_S)));
        ASSERT_INT(BULKHEAD_SUCCEEDED, t[i].job.outcome);
        ASSERT(t[i].at[0] - from[i] >= PLIM_MS(10 * (4 - i)));
    }
    ASSERT_ENDS_WELL(&b);
    PASS();
}

TEST a_delayed_job_has_a_place_but_no_permit(void)
{
    bulkhead b;
    gate g[3];
    gates_init(g, 3);
    ASSERT(make(&b, BULKHEAD_ASYNC, 1, 1));
    g[0].job.delay_ns = PLIM_S(1000);
    ASSERT_INT(0, bulkhead_submit(&b, &g[0].job));
    bulkhead_stats s = bulkhead_snapshot(&b);
    ASSERT_INT(1, s.delayed);
    ASSERT_INT(0, s.queued);
    ASSERT_INT(0, s.in_use);
    ASSERT_INT(1, s.available);
    ASSERT_U64(1, s.accepted);
    ASSERT_INT(0, bulkhead_submit(&b, &g[1].job)); /* there is a permit, */
    ASSERT(has_entered(&g[1]));
    ASSERT_INT(EAGAIN, bulkhead_submit(&b, &g[2].job)); /* but the one place is taken */
    ASSERT_INT(EAGAIN, bulkhead_enter_for(&b, PLIM_S(PATIENCE_S)));
    ASSERT_FIGURES(&b, 1, 0);
    ASSERT_INT(ETIMEDOUT, bulkhead_wait_idle(&b, PLIM_MS(5)));
    let_go(&g[1]);
    ASSERT(is_done(&g[1]));
    ASSERT_INT(ETIMEDOUT, bulkhead_wait_idle(&b, PLIM_MS(5))); /* it still waits for its time */
    ASSERT_INT(EBUSY, bulkhead_destroy(&b));
    ASSERT_INT(0, bulkhead_submit(&b, &g[1].job));
    ASSERT_INT(0, bulkhead_cancel(&b, &g[0].job));
    ASSERT_INT(0, bulkhead_submit(&b, &g[2].job)); /* its place is free */
    ASSERT_FIGURES(&b, 1, 1);
    let_all_go(g, 3);
    ASSERT_INT(0, bulkhead_wait_idle(&b, PLIM_S(PATIENCE_S)));
    ASSERT_ENDS_WELL(&b);
    PASS();
}

TEST where_nobody_may_wait_a_delayed_job_may_not(void)
{
    bulkhead b;
    ASSERT(make(&b, BULKHEAD_ASYNC, 1, PLIM_NONE));
    bulkhead_job job = {.run = run_nothing, .delay_ns = PLIM_MS(1)};
    ASSERT_INT(EAGAIN, bulkhead_submit(&b, &job));
    ASSERT_INT(ETIMEDOUT, bulkhead_submit_for(&b, &job, PLIM_MS(1)));
    ASSERT_ENDS_WELL(&b);
    PASS();
}

TEST a_job_that_is_due_has_its_place_before_later_ones(void)
{
    bulkhead b;
    gate g[4];
    atomic_int order = 0;
    gates_init(g, 4);
    ASSERT(make(&b, BULKHEAD_ASYNC, 1, 3));
    for (int i = 0; i < 4; i++) {
        g[i].order = &order;
    }
    g[1].job.delay_ns = PLIM_MS(100);
    g[2].job.delay_ns = PLIM_MS(10);
    ASSERT_INT(0, bulkhead_submit(&b, &g[0].job));
    ASSERT(has_entered(&g[0]));
    ASSERT_INT(0, bulkhead_submit(&b, &g[1].job));
    ASSERT_INT(0, bulkhead_submit(&b, &g[2].job));
    ASSERT(EVENTUALLY(queued(&b) == 2));
    ASSERT_INT(0, bulkhead_snapshot(&b).delayed);
    ASSERT_INT(0, bulkhead_submit(&b, &g[3].job));
    let_all_go(g, 4);
    ASSERT_INT(0, bulkhead_wait_idle(&b, PLIM_S(PATIENCE_S)));
    ASSERT_INT(0, g[0].place);
    ASSERT_INT(1, g[2].place); /* in the order of their times, not of their submits */
    ASSERT_INT(2, g[1].place);
    ASSERT_INT(3, g[3].place);
    ASSERT_ENDS_WELL(&b);
    PASS();
}

TEST many_delayed_jobs_all_run_in_order_of_their_times(void)
{
    enum { N = 300 };
    bulkhead b;
    static timed t[N];
    static int64_t due[N];
    uint64_t random = 99;
    ASSERT(make(&b, BULKHEAD_ASYNC, 1, 0));
    for (int i = 0; i < N; i++) {
        timed_init(&t[i]);
        t[i].job.delay_ns = PLIM_US(next_random(&random) % 30000);
        due[i] = plim_now_() + t[i].job.delay_ns;
        ASSERT_INT(0, bulkhead_submit(&b, &t[i].job));
        if (i % 10 == 9) { /* some go again, from the middle of whatever holds them */
            int victim = i - (int)(next_random(&random) % 10);
            (void)bulkhead_cancel(&b, &t[victim].job);
        }
    }
    ASSERT_INT(0, bulkhead_wait_idle(&b, PLIM_S(PATIENCE_S)));
    bulkhead_stats s = bulkhead_snapshot(&b);
    ASSERT_U64(N, s.cancelled + s.succeeded);
    for (int i = 0; i < N; i++) {
        ASSERT_INT(0, bulkhead_wait(&t[i].job, 0));
        ASSERT_INT(t[i].job.outcome == BULKHEAD_SUCCEEDED, t[i].runs);
        ASSERT(t[i].runs == 0 || t[i].at[0] >= due[i]);
    }
    ASSERT_ENDS_WELL(&b);
    PASS();
}

TEST huge_delays_do_not_overflow(void)
{
    bulkhead b;
    ASSERT(make(&b, BULKHEAD_ASYNC, 1, 0));
    bulkhead_job job = {.run = run_nothing,
                        .delay_ns = INT64_MAX,
                        .start_within_ns = INT64_MAX,
                        .run_timeout_ns = INT64_MAX};
    ASSERT_INT(0, bulkhead_submit(&b, &job));
    ASSERT_INT(ETIMEDOUT, bulkhead_wait(&job, PLIM_MS(10)));
    ASSERT_INT(1, bulkhead_snapshot(&b).delayed);
    ASSERT_INT(0, bulkhead_cancel(&b, &job));
    job.delay_ns = 0;
    ASSERT_INT(0, bulkhead_submit(&b, &job));
    ASSERT_INT(0, bulkhead_wait(&job, PLIM_S(PATIENCE_S)));
    ASSERT_INT(BULKHEAD_SUCCEEDED, job.outcome);
    ASSERT_ENDS_WELL(&b);
    PASS();
}

/* The worker is busy all the time: somebody else must see to it. */
TEST a_job_that_cannot_begin_in_time_expires(int64_t delay_ns)
{
    bulkhead b;
    gate g[2];
    gates_init(g, 2);
    ASSERT(make(&b, BULKHEAD_ASYNC, 1, 1));
    ASSERT_INT(0, bulkhead_submit(&b, &g[0].job));
    ASSERT(has_entered(&g[0]));
    g[1].job.start_within_ns = PLIM_MS(10);
    g[1].job.delay_ns = delay_ns;
    int64_t from = plim_now_();
    ASSERT_INT(0, bulkhead_submit(&b, &g[1].job));
    ASSERT(is_done(&g[1]));
    ASSERT(plim_now_() - from >= PLIM_MS(10) + delay_ns);
    ASSERT_INT(BULKHEAD_EXPIRED, g[1].job.outcome);
    ASSERT_INT(BULKHEAD_EXPIRED, g[1].seen);
    ASSERT_INT(0, g[1].job.result);
    ASSERT_INT(1, atomic_load(&g[1].dones));
    ASSERT_FIGURES(&b, 1, 0);
    ASSERT_U64(1, bulkhead_snapshot(&b).expired);
    ASSERT_INT(EALREADY, bulkhead_cancel(&b, &g[1].job));
    let_go(&g[0]);
    ASSERT(is_done(&g[0]));
    ASSERT_ENDS_WELL(&b);
    ASSERT_INT(0, atomic_load(&g[1].runs));
    ASSERT_INT(1, atomic_load(&g[1].dones));
    PASS();
}

TEST a_job_that_begins_in_time_does_not_expire(void)
{
    bulkhead b;
    gate g[2];
    gates_init(g, 2);
    ASSERT(make(&b, BULKHEAD_ASYNC, 2, 1));
    g[0].job.start_within_ns = PLIM_S(5);
    g[1].job.start_within_ns = PLIM_S(5);
    g[1].job.delay_ns = PLIM_MS(5);
    ASSERT_INT(0, bulkhead_submit(&b, &g[0].job));
    ASSERT_INT(0, bulkhead_submit(&b, &g[1].job));
    ASSERT(has_entered(&g[0]));
    ASSERT(has_entered(&g[1]));
    let_all_go(g, 2);
    ASSERT(is_done(&g[0]));
    ASSERT(is_done(&g[1]));
    ASSERT_INT(BULKHEAD_SUCCEEDED, g[0].job.outcome);
    ASSERT_INT(BULKHEAD_SUCCEEDED, g[1].job.outcome);
    ASSERT_ENDS_WELL(&b);
    PASS();
}

/* ---- retries ---- */

TEST a_failing_job_is_tried_as_often_as_told(uint32_t general, uint32_t own, int fail, int runs)
{
    bulkhead b;
    bulkhead_options options = {.type = BULKHEAD_ASYNC, .attempts = general};
    ASSERT_INT(0, bulkhead_init(&b, &options));
    timed t;
    timed_init(&t);
    t.fail_until = fail;
    t.job.attempts = own;
    ASSERT_INT(0, bulkhead_submit(&b, &t.job));
    ASSERT_INT(0, bulkhead_wait(&t.job, PLIM_S(PATIENCE_S)));
    ASSERT_INT(runs, t.runs);
    for (int i = 0; i < runs; i++) {
        ASSERT_INT(i + 1, t.attempts[i]);
    }
    ASSERT_INT(runs, t.job.attempt);
    ASSERT_INT(fail >= runs ? BULKHEAD_FAILED : BULKHEAD_SUCCEEDED, t.job.outcome);
    ASSERT_INT(fail >= runs ? runs * 10 : 0, t.job.result);
    bulkhead_stats s = bulkhead_snapshot(&b);
    ASSERT_U64(runs - 1, s.retried);
    ASSERT_U64(1, s.accepted);
    ASSERT_U64(fail >= runs, s.failed);
    ASSERT_ENDS_WELL(&b);
    PASS();
}

TEST retries_keep_their_delays(int64_t most_ns)
{
    bulkhead b;
    bulkhead_options options = {.type = BULKHEAD_ASYNC,
                                .attempts = 5,
                                .retry_delay_ns = PLIM_MS(4),
                                .retry_delay_max_ns = most_ns};
    ASSERT_INT(0, bulkhead_init(&b, &options));
    timed t;
    timed_init(&t);
    t.fail_until = 100;
    ASSERT_INT(0, bulkhead_submit(&b, &t.job));
    ASSERT_INT(0, bulkhead_wait(&t.job, PLIM_S(PATIENCE_S)));
    ASSERT_INT(5, t.runs);
    for (int i = 1; i < 5; i++) {
        int64_t least_ns = PLIM_MS(4) << (i - 1);
        if (most_ns != 0 && least_ns > most_ns) {
            least_ns = most_ns;
        }
        ASSERT(t.at[i] - t.at[i - 1] >= least_ns);
    }
    ASSERT_ENDS_WELL(&b);
    PASS();
}

typedef struct judge {
    atomic_int calls, last_result, last_attempt;
    int never; /* this result is not worth another attempt */
} judge;

static bool worth_it(void *user, int result, uint32_t attempt)
{
    judge *j = user;
    atomic_fetch_add(&j->calls, 1);
    atomic_store(&j->last_result, result);
    atomic_store(&j->last_attempt, (int)attempt);
    return result != j->never;
}

TEST retryable_decides(void)
{
    bulkhead b;
    judge j = {.never = 20};
    bulkhead_options options = {
        .type = BULKHEAD_ASYNC, .attempts = 10, .retryable = worth_it, .user = &j};
    ASSERT_INT(0, bulkhead_init(&b, &options));
    timed t;
    timed_init(&t);
    t.fail_until = 5; /* with 10, 20, ... */
    ASSERT_INT(0, bulkhead_submit(&b, &t.job));
    ASSERT_INT(0, bulkhead_wait(&t.job, PLIM_S(PATIENCE_S)));
    ASSERT_INT(2, t.runs);
    ASSERT_INT(BULKHEAD_FAILED, t.job.outcome);
    ASSERT_INT(20, t.job.result);
    ASSERT_INT(2, atomic_load(&j.calls));
    ASSERT_INT(20, atomic_load(&j.last_result));
    ASSERT_INT(2, atomic_load(&j.last_attempt));
    ASSERT_ENDS_WELL(&b);
    PASS();
}

TEST a_job_holds_no_permit_between_attempts(void)
{
    bulkhead b;
    int error = EIO;
    bulkhead_options options = {.type = BULKHEAD_ASYNC,
                                .queue = PLIM_NONE,
                                .attempts = 2,
                                .retry_delay_ns = PLIM_S(1000),
                                .retry_delay_max_ns = PLIM_S(1000)};
    ASSERT_INT(0, bulkhead_init(&b, &options));
    bulkhead_job job = {.run = run_result, .arg = &error};
    ASSERT_INT(0, bulkhead_submit(&b, &job));
    ASSERT(EVENTUALLY(bulkhead_snapshot(&b).delayed == 1));
    ASSERT_FIGURES(&b, 0, 0);
    ASSERT_INT(ETIMEDOUT, bulkhead_wait(&job, 0));
    ASSERT_INT(0, bulkhead_invoke(&b, nothing, NULL, NULL));
    ASSERT_INT(0, bulkhead_enter(&b));
    ASSERT_INT(0, bulkhead_leave(&b));
    ASSERT_INT(0, bulkhead_cancel(&b, &job));
    ASSERT_ENDS_WELL(&b);
    PASS();
}

static int fail_once(bulkhead_job *job)
{
    gate *g = job->arg;
    pass(g);
    return job->attempt == 1 ? EIO : 0;
}

TEST a_retry_comes_back_at_the_end_of_the_queue(int32_t queue)
{
    bulkhead b;
    gate g[3];
    atomic_int order = 0;
    bulkhead_options options = {.type = BULKHEAD_ASYNC, .queue = queue, .attempts = 2};
    ASSERT_INT(0, bulkhead_init(&b, &options));
    gates_init(g, 3);
    for (int i = 0; i < 3; i++) {
        g[i].order = &order;
        if (i == 0) {
            g[i].job.run = fail_once;
        }
        ASSERT_INT(0, bulkhead_submit(&b, &g[i].job)); /* the queue is full now, if queue is 2 */
    }
    ASSERT(has_entered(&g[0]));
    let_all_go(g, 3);
    let_go(&g[0]);
    for (int i = 0; i < 3; i++) {
        ASSERT(is_done(&g[i]));
        ASSERT_INT(BULKHEAD_SUCCEEDED, g[i].job.outcome);
    }
    ASSERT_INT(1, g[1].place);
    ASSERT_INT(2, g[2].place);
    ASSERT_INT(3, g[0].place); /* of its second attempt */
    ASSERT_INT(2, atomic_load(&g[0].runs));
    ASSERT_INT(1, atomic_load(&g[0].dones));
    ASSERT_ENDS_WELL(&b);
    PASS();
}

/* ---- run timeouts ---- */

TEST a_body_that_takes_too_long_times_out_and_keeps_its_permit(bool own)
{
    bulkhead b;
    gate g[3];
    gates_init(g, 3);
    bulkhead_options options = {
        .type = BULKHEAD_ASYNC, .permits = 2, .attempts = 3, .run_timeout_ns = PLIM_MS(30)};
    if (own) {
        options.run_timeout_ns = 0;
        g[0].job.run_timeout_ns = PLIM_MS(30);
    }
    ASSERT_INT(0, bulkhead_init(&b, &options));
    g[0].result = 9;
    g[1].job.run_timeout_ns = PLIM_NONE;
    g[2].job.run_timeout_ns = PLIM_NONE;
    int64_t from = plim_now_();
    ASSERT_INT(0, bulkhead_submit(&b, &g[0].job));
    ASSERT(has_entered(&g[0]));
    ASSERT(is_done(&g[0]));
    ASSERT(plim_now_() - from >= PLIM_MS(30));
    ASSERT_INT(BULKHEAD_TIMED_OUT, g[0].job.outcome);
    ASSERT_INT(0, g[0].job.result);
    ASSERT_INT(1, atomic_load(&g[0].dones));
    ASSERT(bulkhead_job_cancelled(&g[0].job));
    ASSERT_INT(EALREADY, bulkhead_cancel(&b, &g[0].job));
    bulkhead_stats s = bulkhead_snapshot(&b);
    ASSERT_INT(1, s.in_use);
    ASSERT_INT(1, s.workers_stuck);
    ASSERT_U64(1, s.timed_out);
    ASSERT_U64(0, s.late);
    /* Another takes its place, beside it, but there is one permit only. */
    ASSERT_INT(0, bulkhead_submit(&b, &g[1].job));
    ASSERT_INT(0, bulkhead_submit(&b, &g[2].job));
    ASSERT(has_entered(&g[1]));
    ASSERT_FIGURES(&b, 2, 1);
    ASSERT_INT(ETIMEDOUT, bulkhead_reclaim(&g[0].job, PLIM_MS(5)));
    ASSERT_INT(ETIMEDOUT, bulkhead_reclaim(&g[0].job, 0));
    ASSERT_INT(EBUSY, bulkhead_destroy(&b));
    let_go(&g[0]);
    ASSERT_INT(0, bulkhead_reclaim(&g[0].job, PLIM_S(PATIENCE_S)));
    ASSERT(has_entered(&g[2])); /* the permit is free now */
    s = bulkhead_snapshot(&b);
    ASSERT_U64(1, s.late);
    ASSERT(EVENTUALLY(bulkhead_snapshot(&b).workers_stuck == 0));
    ASSERT_INT(BULKHEAD_TIMED_OUT, g[0].job.outcome); /* what it returned is dropped */
    ASSERT_INT(0, g[0].job.result);
    ASSERT_INT(0, bulkhead_reclaim(&g[0].job, 0));
    let_all_go(g, 3);
    ASSERT(is_done(&g[1]));
    ASSERT(is_done(&g[2]));
    ASSERT_INT(0, bulkhead_reclaim(&g[1].job, 0)); /* of every other one at once */
    ASSERT_ENDS_WELL(&b);
    ASSERT_INT(1, atomic_load(&g[0].runs)); /* is not tried again */
    ASSERT_INT(1, atomic_load(&g[0].dones));
    PASS();
}

TEST with_one_permit_a_stuck_body_stops_the_rest_until_a_resize(void)
{
    bulkhead b;
    gate g[3];
    gates_init(g, 3);
    bulkhead_options options = {.type = BULKHEAD_ASYNC, .permits = 1};
    ASSERT_INT(0, bulkhead_init(&b, &options));
    g[0].job.run_timeout_ns = PLIM_MS(10);
    ASSERT_INT(0, bulkhead_submit(&b, &g[0].job));
    ASSERT_INT(0, bulkhead_submit(&b, &g[1].job));
    ASSERT_INT(0, bulkhead_submit(&b, &g[2].job));
    ASSERT(is_done(&g[0]));
    ASSERT_FIGURES(&b, 1, 2);
    ASSERT_INT(EAGAIN, bulkhead_try_enter(&b));
    ASSERT_INT(ETIMEDOUT, bulkhead_wait_idle(&b, PLIM_MS(5)));
    ASSERT_INT(0, bulkhead_resize(&b, 2, 0));
    ASSERT(has_entered(&g[1]));
    let_go(&g[1]);
    ASSERT(has_entered(&g[2]));
    let_go(&g[2]);
    ASSERT(is_done(&g[2]));
    ASSERT_FIGURES(&b, 1, 0);
    let_go(&g[0]);
    ASSERT_INT(0, bulkhead_reclaim(&g[0].job, PLIM_S(PATIENCE_S)));
    ASSERT_INT(0, bulkhead_wait_idle(&b, PLIM_S(PATIENCE_S)));
    ASSERT_INT(0, bulkhead_invoke(&b, nothing, NULL, NULL));
    ASSERT_ENDS_WELL(&b);
    PASS();
}

TEST a_detached_job_that_timed_out_is_done_when_its_body_is(void)
{
    bulkhead b;
    gate g;
    gates_init(&g, 1);
    g.job.detached = true;
    g.job.run_timeout_ns = PLIM_MS(5);
    ASSERT(make(&b, BULKHEAD_ASYNC, 1, 0));
    ASSERT_INT(0, bulkhead_submit(&b, &g.job));
    ASSERT(has_entered(&g));
    ASSERT(EVENTUALLY(bulkhead_snapshot(&b).timed_out == 1));
    rest(PLIM_MS(10));
    ASSERT_INT(0, atomic_load(&g.dones));
    let_go(&g);
    ASSERT(EVENTUALLY(atomic_load(&g.dones) == 1));
    ASSERT_INT(BULKHEAD_TIMED_OUT, g.seen);
    ASSERT_ENDS_WELL(&b);
    ASSERT_INT(1, atomic_load(&g.dones));
    PASS();
}

static int reclaim_itself(bulkhead_job *job)
{
    gate *g = job->arg;
    while (!bulkhead_job_cancelled(job)) {
        rest(PLIM_US(100));
    }
    g->result = bulkhead_reclaim(job, PLIM_FOREVER);
    return 0;
}

TEST a_body_cannot_reclaim_itself(void)
{
    bulkhead b;
    gate g;
    gates_init(&g, 1);
    g.result = -1;
    g.job.run = reclaim_itself;
    g.job.run_timeout_ns = PLIM_MS(5);
    ASSERT(make(&b, BULKHEAD_ASYNC, 1, 0));
    ASSERT_INT(0, bulkhead_submit(&b, &g.job));
    ASSERT(is_done(&g));
    ASSERT_INT(0, bulkhead_reclaim(&g.job, PLIM_S(PATIENCE_S)));
    ASSERT(g.result == EDEADLK || g.result == EBUSY);
    ASSERT_ENDS_WELL(&b);
    PASS();
}

TEST invoke_waits_for_the_end_of_a_body_that_timed_out(void)
{
    bulkhead b;
    gate g;
    gates_init(&g, 1);
    bulkhead_options options = {.type = BULKHEAD_ASYNC, .run_timeout_ns = PLIM_MS(10)};
    ASSERT_INT(0, bulkhead_init(&b, &options));
    caller c = {.b = &b, .call = INVOKE, .gate = &g, .result = -7};
    start_call(&c);
    ASSERT(has_entered(&g));
    ASSERT(EVENTUALLY(bulkhead_snapshot(&b).timed_out == 1));
    ASSERT(stays_false(&c.done));
    let_go(&g);
    ASSERT(finished(&c));
    ASSERT_INT(ETIMEDOUT, c.error);
    ASSERT_ENDS_WELL(&b);
    PASS();
}

TEST short_bodies_do_not_time_out(void)
{
    bulkhead b;
    atomic_int ran = 0;
    bulkhead_options options = {.type = BULKHEAD_ASYNC, .permits = 2, .run_timeout_ns = PLIM_S(20)};
    ASSERT_INT(0, bulkhead_init(&b, &options));
    int n = scaled(1000);
    for (int i = 0; i < n; i++) {
        bulkhead_job job = {.run = run_count, .arg = &ran};
        ASSERT_INT(0, bulkhead_submit(&b, &job));
        ASSERT_INT(0, bulkhead_wait(&job, PLIM_S(PATIENCE_S)));
        ASSERT_INT(BULKHEAD_SUCCEEDED, job.outcome);
    }
    ASSERT_INT(n, atomic_load(&ran));
    ASSERT_U64(0, bulkhead_snapshot(&b).timed_out);
    ASSERT_ENDS_WELL(&b);
    PASS();
}

static int sleep_a_little(bulkhead_job *job)
{
    (void)job;
    rest(PLIM_MS(1));
    return 0;
}

/* The timeout passes about when the body returns: either way, but one way. */
TEST a_timeout_may_race_with_the_end_of_the_body(void)
{
    bulkhead b;
    ASSERT(make(&b, BULKHEAD_ASYNC, 1, 0));
    int n = scaled(300);
    for (int i = 0; i < n; i++) {
        gate g;
        gates_init(&g, 1);
        g.job.run = sleep_a_little;
        g.job.run_timeout_ns = PLIM_US(1000 + 10 * (i % 20));
        ASSERT_INT(0, bulkhead_submit(&b, &g.job));
        ASSERT(is_done(&g));
        ASSERT_INT(1, atomic_load(&g.dones));
        ASSERT(g.job.outcome == BULKHEAD_SUCCEEDED || g.job.outcome == BULKHEAD_TIMED_OUT);
        ASSERT_INT(0, bulkhead_reclaim(&g.job, PLIM_S(PATIENCE_S)));
        ASSERT_INT(0, bulkhead_wait_idle(&b, PLIM_S(PATIENCE_S)));
    }
    bulkhead_stats s = bulkhead_snapshot(&b);
    ASSERT_U64(n, s.accepted);
    ASSERT_U64(s.timed_out, s.late);
    ASSERT_ENDS_WELL(&b);
    PASS();
}

/* ---- workers and what they own ---- */

typedef struct shed {
    atomic_int starts, stops, wrong, failures;
    int fail; /* so many starts fail; -1: all */
    struct tool {
        char *thread;
        unsigned index;
        bool alive;
        int served;
    } tools[64];
    atomic_int events; /* WORKER_FAILED */
    atomic_int last;   /* the result of the last of them */
} shed;

static int shed_start(void *user, unsigned index, void **resource)
{
    shed *s = user;
    if (s->fail < 0 || atomic_load(&s->failures) < s->fail) {
        return 100 + atomic_fetch_add(&s->failures, 1);
    }
    int n = atomic_fetch_add(&s->starts, 1);
    if (n < 64) {
        s->tools[n].thread = &here;
        s->tools[n].index = index;
        s->tools[n].alive = true;
        *resource = &s->tools[n];
    }
    return 0;
}

static void shed_stop(void *user, unsigned index, void *resource)
{
    shed *s = user;
    struct tool *t = resource;
    if (t == NULL || t->thread != &here || t->index != index || !t->alive) {
        atomic_fetch_add(&s->wrong, 1);
        return;
    }
    t->alive = false;
    atomic_fetch_add(&s->stops, 1);
}

static void shed_event(void *user, const bulkhead_event *event)
{
    shed *s = user;
    if (event->type == BULKHEAD_EVENT_WORKER_FAILED) {
        atomic_fetch_add(&s->events, 1);
        atomic_store(&s->last, event->result);
    }
}

static int use_tool(bulkhead_job *job)
{
    struct tool *t = job->resource;
    if (t == NULL || t->thread != &here || !t->alive) {
        return -1;
    }
    t->served++;
    return 0;
}

TEST each_worker_owns_its_resource(void)
{
    enum { P = 3, N = 40 };
    bulkhead b;
    static shed s;
    memset((void *)&s, 0, sizeof s);
    gate g[P];
    bulkhead_job jobs[N];
    bulkhead_options options = {.type = BULKHEAD_ASYNC,
                                .permits = P,
                                .worker_start = shed_start,
                                .worker_stop = shed_stop,
                                .user = &s};
    ASSERT_INT(0, bulkhead_init(&b, &options));
    ASSERT_INT(0, atomic_load(&s.starts)); /* not before the first job */
    gates_init(g, P);
    for (int i = 0; i < P; i++) {
        ASSERT_INT(0, bulkhead_submit(&b, &g[i].job));
    }
    for (int i = 0; i < P; i++) {
        ASSERT(has_entered(&g[i]));
    }
    ASSERT_INT(P, atomic_load(&s.starts));
    ASSERT_INT(P, bulkhead_snapshot(&b).workers);
    let_all_go(g, P);
    for (int i = 0; i < N; i++) {
        jobs[i] = (bulkhead_job){.run = use_tool};
        ASSERT_INT(0, bulkhead_submit(&b, &jobs[i]));
    }
    for (int i = 0; i < N; i++) {
        ASSERT_INT(0, bulkhead_wait(&jobs[i], PLIM_S(PATIENCE_S)));
        ASSERT_INT(BULKHEAD_SUCCEEDED, jobs[i].outcome);
    }
    ASSERT_INT(0, atomic_load(&s.stops)); /* not before the last */
    ASSERT_ENDS_WELL(&b);
    ASSERT_INT(P, atomic_load(&s.starts));
    ASSERT_INT(P, atomic_load(&s.stops));
    ASSERT_INT(0, atomic_load(&s.wrong));
    int served = 0;
    unsigned seen = 0;
    for (int i = 0; i < P; i++) {
        served += s.tools[i].served;
        seen |= 1u << s.tools[i].index;
    }
    ASSERT_INT(N, served);
    ASSERT_INT(7, seen); /* 0, 1, 2 */
    PASS();
}

TEST workers_are_started_when_needed_and_reused(void)
{
    bulkhead b;
    ASSERT(make(&b, BULKHEAD_ASYNC, 8, 0));
    ASSERT_INT(0, bulkhead_enter(&b)); /* sync calls need none */
    ASSERT_INT(0, bulkhead_leave(&b));
    ASSERT_INT(0, bulkhead_snapshot(&b).workers);
    for (int i = 0; i < 50; i++) {
        ASSERT_INT(0, bulkhead_invoke(&b, nothing, NULL, NULL));
        /* It is back among the idle ones soon, and is taken again. */
        ASSERT(EVENTUALLY(bulkhead_snapshot(&b).workers_idle == bulkhead_snapshot(&b).workers));
    }
    ASSERT_INT(1, bulkhead_snapshot(&b).workers);
    ASSERT_ENDS_WELL(&b);
    PASS();
}

TEST both_the_stuck_worker_and_its_replacement_stop(void)
{
    bulkhead b;
    static shed s;
    memset((void *)&s, 0, sizeof s);
    gate g[2];
    bulkhead_options options = {.type = BULKHEAD_ASYNC,
                                .permits = 2,
                                .worker_start = shed_start,
                                .worker_stop = shed_stop,
                                .user = &s};
    ASSERT_INT(0, bulkhead_init(&b, &options));
    gates_init(g, 2);
    g[0].job.run_timeout_ns = PLIM_MS(5);
    ASSERT_INT(0, bulkhead_submit(&b, &g[0].job));
    ASSERT(is_done(&g[0]));
    bulkhead_job job = {.run = use_tool};
    ASSERT_INT(0, bulkhead_submit(&b, &job));
    ASSERT_INT(0, bulkhead_wait(&job, PLIM_S(PATIENCE_S)));
    ASSERT_INT(BULKHEAD_SUCCEEDED, job.outcome);
    ASSERT_INT(0, atomic_load(&s.stops));
    let_go(&g[0]);
    ASSERT(EVENTUALLY(atomic_load(&s.stops) == 1)); /* it ends when the body does */
    ASSERT_INT(0, bulkhead_submit(&b, &job));
    ASSERT_INT(0, bulkhead_wait(&job, PLIM_S(PATIENCE_S)));
    ASSERT_ENDS_WELL(&b);
    ASSERT_INT(2, atomic_load(&s.starts));
    ASSERT_INT(2, atomic_load(&s.stops));
    ASSERT_INT(0, atomic_load(&s.wrong));
    PASS();
}

TEST a_worker_whose_start_fails_is_tried_again_and_reported(void)
{
    bulkhead b;
    static shed s;
    memset((void *)&s, 0, sizeof s);
    s.fail = 4;
    bulkhead_options options = {.type = BULKHEAD_ASYNC,
                                .worker_start = shed_start,
                                .worker_stop = shed_stop,
                                .on_event = shed_event,
                                .user = &s};
    ASSERT_INT(0, bulkhead_init(&b, &options));
    bulkhead_job job = {.run = use_tool};
    int64_t from = plim_now_();
    ASSERT_INT(0, bulkhead_submit(&b, &job));
    ASSERT_INT(0, bulkhead_wait(&job, PLIM_S(PATIENCE_S)));
    ASSERT(plim_now_() - from >= PLIM_MS(1 + 2 + 4 + 8));
    ASSERT_INT(BULKHEAD_SUCCEEDED, job.outcome);
    ASSERT_INT(4, atomic_load(&s.events));
    ASSERT_INT(103, atomic_load(&s.last));
    ASSERT_INT(1, atomic_load(&s.starts));
    ASSERT_ENDS_WELL(&b);
    ASSERT_INT(1, atomic_load(&s.stops));
    PASS();
}

TEST a_bulkhead_whose_workers_never_start_can_be_closed(int how)
{
    bulkhead b;
    static shed s;
    memset((void *)&s, 0, sizeof s);
    s.fail = -1;
    gate g[3];
    gates_init(g, 3);
    bulkhead_options options = {.type = BULKHEAD_ASYNC,
                                .permits = 2,
                                .worker_start = shed_start,
                                .worker_stop = shed_stop,
                                .on_event = shed_event,
                                .user = &s};
    ASSERT_INT(0, bulkhead_init(&b, &options));
    for (int i = 0; i < 3; i++) {
        ASSERT_INT(0, bulkhead_submit(&b, &g[i].job));
    }
    ASSERT(EVENTUALLY(atomic_load(&s.events) >= 2));
    ASSERT_INT(BULKHEAD_PENDING, g[0].job.outcome);
    int error = bulkhead_close(&b, how, how == BULKHEAD_DRAIN ? PLIM_MS(50) : PLIM_S(PATIENCE_S));
    ASSERT(error == 0 || (how == BULKHEAD_DRAIN && error == ETIMEDOUT));
    ASSERT_ENDS_WELL(&b);
    for (int i = 0; i < 3; i++) {
        ASSERT_INT(0, bulkhead_wait(&g[i].job, 0));
        ASSERT_INT(BULKHEAD_ABORTED, g[i].job.outcome);
        ASSERT_INT(1, atomic_load(&g[i].dones));
        ASSERT_INT(0, atomic_load(&g[i].runs));
    }
    ASSERT_INT(0, atomic_load(&s.starts));
    ASSERT_INT(0, atomic_load(&s.stops)); /* what was not made is not ended */
    PASS();
}

typedef struct slow_start {
    csem begun, go;
    atomic_int stops;
} slow_start;

static int start_slowly(void *user, unsigned index, void **resource)
{
    slow_start *s = user;
    (void)index;
    *resource = s;
    csem_release(&s->begun);
    csem_acquire(&s->go);
    return 0;
}

static void stop_slowly(void *user, unsigned index, void *resource)
{
    slow_start *s = user;
    (void)index;
    (void)resource;
    atomic_fetch_add(&s->stops, 1);
}

/* It has its permit, but its worker is still being made: it has not begun. */
TEST a_job_whose_worker_is_being_made_has_not_begun(int how, bulkhead_outcome outcome)
{
    bulkhead b;
    gate g[2];
    gates_init(g, 2);
    slow_start s = {.begun = CSEM_INIT(0), .go = CSEM_INIT(0)};
    bulkhead_options options = {.type = BULKHEAD_ASYNC,
                                .worker_start = start_slowly,
                                .worker_stop = stop_slowly,
                                .user = &s};
    ASSERT_INT(0, bulkhead_init(&b, &options));
    g[0].job.start_within_ns = how == BY_EXPIRY ? PLIM_MS(5) : 0;
    ASSERT_INT(0, bulkhead_submit(&b, &g[0].job));
    ASSERT_INT(0, csem_acquire(&s.begun));
    if (how != BY_EXPIRY) { /* it may have expired by now */
        ASSERT_FIGURES(&b, 1, 0);
    }
    ASSERT_INT(1, bulkhead_snapshot(&b).workers);
    ASSERT_INT(0, bulkhead_snapshot(&b).workers_idle);
    if (how == BY_CANCEL) {
        ASSERT_INT(0, bulkhead_cancel(&b, &g[0].job));
        ASSERT_INT(EALREADY, bulkhead_cancel(&b, &g[0].job));
    } else if (how == BY_END) {
        ASSERT_INT(ETIMEDOUT, bulkhead_close(&b, BULKHEAD_ABORT, 0));
    }
    ASSERT(is_done(&g[0])); /* although nobody could have run it */
    ASSERT_INT(outcome, g[0].job.outcome);
    ASSERT_INT(1, atomic_load(&g[0].dones));
    ASSERT_FIGURES(&b, 0, 0);
    csem_release_n(&s.go, 2);
    if (how != BY_END) { /* the worker, once made, serves the next */
        ASSERT_INT(0, bulkhead_submit(&b, &g[1].job));
        let_go(&g[1]);
        ASSERT(is_done(&g[1]));
        ASSERT_INT(BULKHEAD_SUCCEEDED, g[1].job.outcome);
    }
    ASSERT_ENDS_WELL(&b);
    ASSERT_INT(0, atomic_load(&g[0].runs));
    ASSERT_INT(1, atomic_load(&s.stops));
    PASS();
}

static int end_thread_with_tool(bulkhead_job *job)
{
    gate *g = job->arg;
    if (g != NULL) {
        pass(g);
    }
    return end_the_thread(job);
}

TEST a_worker_whose_thread_a_job_ends_stops_as_others_do(void)
{
    if (!THREAD_ENDS_ARE_NOTICED) {
        SKIPm("the end of a thread is noticed on POSIX systems only");
    }
    bulkhead b;
    static shed s;
    memset((void *)&s, 0, sizeof s);
    bulkhead_options options = {
        .type = BULKHEAD_ASYNC, .worker_start = shed_start, .worker_stop = shed_stop, .user = &s};
    ASSERT_INT(0, bulkhead_init(&b, &options));
    bulkhead_job job = {.run = end_thread_with_tool}, next = {.run = use_tool};
    for (int i = 1; i <= 3; i++) {
        ASSERT_INT(0, bulkhead_submit(&b, &job));
        ASSERT_INT(0, bulkhead_wait(&job, PLIM_S(PATIENCE_S)));
        ASSERT_INT(BULKHEAD_FAILED, job.outcome);
        ASSERT_INT(ECANCELED, job.result);
        ASSERT_INT(0, bulkhead_submit(&b, &next));
        ASSERT_INT(0, bulkhead_wait(&next, PLIM_S(PATIENCE_S)));
        ASSERT_INT(BULKHEAD_SUCCEEDED, next.outcome);
    }
    ASSERT_ENDS_WELL(&b);
    ASSERT_INT(4, atomic_load(&s.starts));
    ASSERT_INT(4, atomic_load(&s.stops));
    ASSERT_INT(0, atomic_load(&s.wrong));
    PASS();
}

TEST a_stuck_body_may_end_its_thread(void)
{
    if (!THREAD_ENDS_ARE_NOTICED) {
        SKIPm("the end of a thread is noticed on POSIX systems only");
    }
    bulkhead b;
    gate g;
    gates_init(&g, 1);
    g.job.run = end_thread_with_tool;
    g.job.run_timeout_ns = PLIM_MS(5);
    ASSERT(make(&b, BULKHEAD_ASYNC, 1, 0));
    ASSERT_INT(0, bulkhead_submit(&b, &g.job));
    ASSERT(is_done(&g));
    ASSERT_INT(BULKHEAD_TIMED_OUT, g.job.outcome);
    let_go(&g);
    ASSERT_INT(0, bulkhead_reclaim(&g.job, PLIM_S(PATIENCE_S)));
    ASSERT_INT(0, g.job.result);
    ASSERT_INT(1, atomic_load(&g.dones));
    ASSERT_INT(0, bulkhead_invoke(&b, nothing, NULL, NULL));
    ASSERT_ENDS_WELL(&b);
    PASS();
}

#ifndef _WIN32
typedef struct habitat {
    char name[32];
    int interrupt, fault; /* is it blocked? */
} habitat;

static int look_around(bulkhead_job *job)
{
    habitat *h = job->arg;
    sigset_t set;
    pthread_sigmask(SIG_BLOCK, NULL, &set);
    h->interrupt = sigismember(&set, SIGINT);
    h->fault = sigismember(&set, SIGSEGV);
    FILE *file = fopen("/proc/thread-self/comm", "r");
    if (file != NULL) {
        if (fgets(h->name, sizeof h->name, file) != NULL) {
            h->name[strcspn(h->name, "\n")] = 0;
        }
        fclose(file);
    }
    return 0;
}

TEST workers_have_a_name_and_leave_signals_to_others(const char *name, const char *expected)
{
    bulkhead b;
    habitat h = {.interrupt = -1, .fault = -1};
    bulkhead_options options = {.type = BULKHEAD_ASYNC, .name = name};
    ASSERT_INT(0, bulkhead_init(&b, &options));
    bulkhead_job job = {.run = look_around, .arg = &h};
    ASSERT_INT(0, bulkhead_submit(&b, &job));
    ASSERT_INT(0, bulkhead_wait(&job, PLIM_S(PATIENCE_S)));
    ASSERT_INT(1, h.interrupt);
    ASSERT_INT(0, h.fault);
    if (h.name[0] != 0) { /* on Linux */
        ASSERT_STR_EQ(expected, h.name);
    }
    ASSERT_ENDS_WELL(&b);
    PASS();
}
#endif

/* ---- executors ---- */

/* Threads that take tasks from a list; or nobody does, and the test runs them; or on the spot. */
typedef struct pool {
    csem lock, work;
    struct task {
        void (*run)(void *);
        void *arg;
    } tasks[64];
    unsigned first, last;
    bool on_the_spot, ending;
    atomic_int refuse; /* so many times; -1: always */
    atomic_int calls;
    plim_thread threads[4];
    int n;
} pool;

static int pool_execute(void *ctx, void (*run)(void *), void *arg)
{
    pool *p = ctx;
    atomic_fetch_add(&p->calls, 1);
    int left = atomic_load(&p->refuse);
    if (left != 0) {
        if (left > 0) {
            atomic_fetch_sub(&p->refuse, 1);
        }
        return ENOBUFS;
    }
    if (p->on_the_spot) {
        run(arg);
        return 0;
    }
    csem_acquire(&p->lock);
    p->tasks[p->last++ % 64] = (struct task){run, arg};
    csem_release(&p->lock);
    csem_release(&p->work);
    return 0;
}

/* Runs the first task, if there is one. */
static bool pool_step(pool *p)
{
    csem_acquire(&p->lock);
    bool some = p->first != p->last;
    struct task t = some ? p->tasks[p->first++ % 64] : (struct task){NULL, NULL};
    csem_release(&p->lock);
    if (some) {
        t.run(t.arg);
    }
    return some;
}

static plim_thread_result pool_thread(void *arg)
{
    pool *p = arg;
    for (;;) {
        csem_acquire(&p->work);
        if (!pool_step(p)) {
            return 0; /* woken without a task: to end */
        }
    }
}

static void pool_init(pool *p, int threads)
{
    memset((void *)p, 0, sizeof *p);
    csem_init(&p->lock, 1);
    csem_init(&p->work, 0);
    p->n = threads;
    for (int i = 0; i < threads; i++) {
        start(&p->threads[i], pool_thread, p);
    }
}

static void pool_end(pool *p)
{
    csem_release_n(&p->work, (uint32_t)p->n);
    for (int i = 0; i < p->n; i++) {
        join(p->threads[i]);
    }
}

static bool make_on(bulkhead *b, pool *p, int32_t permits, int32_t queue)
{
    plim_executor executor = {pool_execute, p};
    bulkhead_options options = {
        .type = BULKHEAD_ASYNC, .permits = permits, .queue = queue, .executor = &executor};
    return bulkhead_init(b, &options) == 0;
}

TEST an_executor_runs_the_jobs(void)
{
    enum { N = 50 };
    bulkhead b;
    static pool p;
    gate g[6];
    bulkhead_job jobs[N];
    atomic_int ran = 0;
    pool_init(&p, 3);
    ASSERT(make_on(&b, &p, 2, 2));
    gates_init(g, 6);
    for (int i = 0; i < 5; i++) {
        ASSERT_INT(i < 4 ? 0 : EAGAIN, bulkhead_submit(&b, &g[i].job));
    }
    ASSERT_FIGURES(&b, 2, 2);
    ASSERT_INT(0, bulkhead_cancel(&b, &g[3].job)); /* in the queue: as ever */
    ASSERT_INT(BULKHEAD_CANCELLED, g[3].job.outcome);
    let_all_go(g, 3);
    for (int i = 0; i < 3; i++) {
        ASSERT(is_done(&g[i]));
        ASSERT_INT(BULKHEAD_SUCCEEDED, g[i].job.outcome);
    }
    ASSERT_INT(0, bulkhead_resize(&b, 2, 0));
    for (int i = 0; i < N; i++) {
        jobs[i] = (bulkhead_job){.run = run_count, .arg = &ran};
        ASSERT_INT(0, bulkhead_submit(&b, &jobs[i]));
    }
    for (int i = 0; i < N; i++) {
        ASSERT_INT(0, bulkhead_wait(&jobs[i], PLIM_S(PATIENCE_S)));
        ASSERT(jobs[i].resource == NULL);
    }
    int error = 17, result = 0;
    ASSERT_INT(0, bulkhead_invoke(&b, give, &error, &result));
    ASSERT_INT(17, result);
    ASSERT_INT(N, atomic_load(&ran));
    ASSERT_INT(0, bulkhead_snapshot(&b).workers);
    ASSERT_ENDS_WELL(&b);
    pool_end(&p);
    PASS();
}

TEST an_executor_may_run_on_the_spot(void)
{
    bulkhead b;
    static pool p;
    pool_init(&p, 0);
    p.on_the_spot = true;
    ASSERT(make_on(&b, &p, 1, 0));
    char *thread = NULL;
    ASSERT_INT(0, bulkhead_invoke(&b, where, &thread, NULL));
    ASSERT(thread == &here);
    bulkhead_job job = {.run = run_nothing};
    ASSERT_INT(0, bulkhead_submit(&b, &job));
    ASSERT_INT(0, bulkhead_wait(&job, 0)); /* it is done */
    ASSERT_INT(BULKHEAD_SUCCEEDED, job.outcome);
    ASSERT_ENDS_WELL(&b);
    PASS();
}

TEST ten_thousand_jobs_on_the_spot_need_no_deep_stack(void)
{
    enum { N = 10001 };
    bulkhead b;
    static pool p;
    static bulkhead_job jobs[N];
    gate g;
    atomic_int ran = 0;
    pool_init(&p, 0);
    p.on_the_spot = true;
    gates_init(&g, 1);
    ASSERT(make_on(&b, &p, 1, 0));
    caller c = {.b = &b, .call = SUBMIT, .gate = &g};
    start_call(&c); /* runs all of them in the end */
    ASSERT(has_entered(&g));
    memset((void *)jobs, 0, sizeof jobs);
    for (int i = 0; i < N; i++) {
        jobs[i].run = run_count;
        jobs[i].arg = &ran;
        ASSERT_INT(0, bulkhead_submit(&b, &jobs[i]));
    }
    ASSERT_FIGURES(&b, 1, N);
    let_go(&g);
    ASSERT_INT(0, bulkhead_wait(&jobs[N - 1], PLIM_S(PATIENCE_S)));
    ASSERT(finished(&c));
    ASSERT_INT(0, c.error);
    ASSERT_INT(N, atomic_load(&ran));
    ASSERT_ENDS_WELL(&b);
    PASS();
}

TEST a_refusal_of_the_executor_at_submit_is_told(void)
{
    bulkhead b;
    static pool p;
    pool_init(&p, 1);
    gate g;
    gates_init(&g, 1);
    ASSERT(make_on(&b, &p, 1, 0));
    atomic_store(&p.refuse, 2);
    ASSERT_INT(EAGAIN, bulkhead_submit(&b, &g.job));
    ASSERT_INT(EAGAIN, bulkhead_invoke(&b, nothing, NULL, NULL));
    bulkhead_stats s = bulkhead_snapshot(&b);
    ASSERT_INT(0, s.in_use);
    ASSERT_U64(0, s.accepted);
    ASSERT_U64(2, s.rejected);
    ASSERT_INT(0, atomic_load(&g.dones));
    let_go(&g);
    ASSERT_INT(0, bulkhead_submit(&b, &g.job));
    ASSERT(is_done(&g));
    ASSERT_INT(1, atomic_load(&g.runs));
    ASSERT_ENDS_WELL(&b);
    pool_end(&p);
    PASS();
}

TEST a_refusal_of_the_executor_later_aborts_the_job(void)
{
    bulkhead b;
    static pool p;
    pool_init(&p, 1);
    gate g[4];
    gates_init(g, 4);
    ASSERT(make_on(&b, &p, 1, 0));
    for (int i = 0; i < 4; i++) {
        ASSERT_INT(0, bulkhead_submit(&b, &g[i].job));
    }
    ASSERT(has_entered(&g[0]));
    atomic_store(&p.refuse, 2);
    let_all_go(g, 4);
    for (int i = 0; i < 4; i++) {
        ASSERT(is_done(&g[i]));
        ASSERT_INT(1, atomic_load(&g[i].dones));
        ASSERT_INT(i == 1 || i == 2 ? BULKHEAD_ABORTED : BULKHEAD_SUCCEEDED, g[i].job.outcome);
        ASSERT_INT(i == 1 || i == 2 ? 0 : 1, atomic_load(&g[i].runs));
    }
    ASSERT_FIGURES(&b, 0, 0);
    ASSERT_U64(2, bulkhead_snapshot(&b).aborted);
    ASSERT_ENDS_WELL(&b);
    pool_end(&p);
    PASS();
}

/* The executor has it and does not begin: what ends it takes effect when the executor gets to it,
 * and not before. */
TEST what_the_executor_has_ends_when_it_gets_to_it(int how, bulkhead_outcome outcome)
{
    bulkhead b;
    static pool p;
    gate g;
    pool_init(&p, 0); /* nobody but this test runs tasks */
    gates_init(&g, 1);
    ASSERT(make_on(&b, &p, 1, 0));
    g.job.start_within_ns = how == BY_EXPIRY ? PLIM_MS(5) : 0;
    ASSERT_INT(0, bulkhead_submit(&b, &g.job));
    ASSERT_FIGURES(&b, 1, 0);
    if (how == BY_CANCEL) {
        ASSERT_INT(EBUSY, bulkhead_cancel(&b, &g.job));
        ASSERT_INT(EBUSY, bulkhead_cancel(&b, &g.job));
    } else if (how == BY_EXPIRY) {
        rest(PLIM_MS(20));
    } else {
        ASSERT_INT(ETIMEDOUT, bulkhead_close(&b, BULKHEAD_ABORT, PLIM_MS(5)));
    }
    ASSERT_INT(0, atomic_load(&g.runs));
    ASSERT_INT(1, in_use(&b));
    ASSERT_INT(EBUSY, bulkhead_destroy(&b));
    ASSERT(pool_step(&p));
    ASSERT_INT(0, bulkhead_wait(&g.job, PLIM_S(PATIENCE_S)));
    ASSERT_INT(outcome, g.job.outcome);
    ASSERT_INT(0, atomic_load(&g.runs));
    ASSERT_INT(1, atomic_load(&g.dones));
    ASSERT_FALSE(pool_step(&p));
    ASSERT_ENDS_WELL(&b);
    PASS();
}

static int fail_always(bulkhead_job *job)
{
    atomic_fetch_add((atomic_int *)job->arg, 1);
    return EIO;
}

TEST retries_delays_and_run_timeouts_work_on_an_executor(void)
{
    bulkhead b;
    static pool p;
    atomic_int ran = 0;
    gate g;
    gates_init(&g, 1);
    pool_init(&p, 2);
    ASSERT(make_on(&b, &p, 2, 0));
    bulkhead_job job = {.run = fail_always, .arg = &ran, .attempts = 3, .delay_ns = PLIM_MS(2)};
    ASSERT_INT(0, bulkhead_submit(&b, &job));
    ASSERT_INT(0, bulkhead_wait(&job, PLIM_S(PATIENCE_S)));
    ASSERT_INT(BULKHEAD_FAILED, job.outcome);
    ASSERT_INT(EIO, job.result);
    ASSERT_INT(3, atomic_load(&ran));
    g.job.run_timeout_ns = PLIM_MS(5);
    ASSERT_INT(0, bulkhead_submit(&b, &g.job));
    ASSERT(is_done(&g));
    ASSERT_INT(BULKHEAD_TIMED_OUT, g.job.outcome);
    ASSERT_INT(1, in_use(&b));
    let_go(&g);
    ASSERT_INT(0, bulkhead_reclaim(&g.job, PLIM_S(PATIENCE_S)));
    ASSERT_ENDS_WELL(&b);
    pool_end(&p);
    PASS();
}

TEST a_job_on_an_executor_that_waits_for_itself_is_told(int what)
{
    bulkhead b;
    static pool p;
    pool_init(&p, 1);
    ASSERT(make_on(&b, &p, 1, 0));
    nested n = {.b = &b, .what = what, .error = -1};
    n.job.run = run_nested;
    n.job.arg = &n;
    ASSERT_INT(0, bulkhead_submit(&b, &n.job));
    ASSERT_INT(0, bulkhead_wait(&n.job, PLIM_S(PATIENCE_S)));
    ASSERT_INT(EDEADLK, n.error);
    ASSERT_ENDS_WELL(&b);
    pool_end(&p);
    PASS();
}

/* ---- the bulkhead as an executor ---- */

typedef struct client {
    atomic_int ran;
    csem started, go;
} client;

static void client_task(void *arg)
{
    client *c = arg;
    atomic_fetch_add(&c->ran, 1);
}

static void client_block(void *arg)
{
    client *c = arg;
    csem_release(&c->started);
    csem_acquire(&c->go);
    atomic_fetch_add(&c->ran, 1);
}

TEST a_bulkhead_is_an_executor_for_others(int how)
{
    bulkhead b;
    client c = {.started = CSEM_INIT(0), .go = CSEM_INIT(0)};
    ASSERT(make(&b, BULKHEAD_ASYNC, 1, 10));
    plim_executor executor = bulkhead_executor(&b);
    ASSERT_INT(0, executor.execute(executor.ctx, client_block, &c));
    ASSERT_INT(0, csem_acquire(&c.started));
    for (int i = 0; i < 10; i++) {
        ASSERT_INT(0, executor.execute(executor.ctx, client_task, &c));
    }
    ASSERT_INT(EAGAIN, executor.execute(executor.ctx, client_task, &c)); /* full: refused */
    ASSERT_FIGURES(&b, 1, 10);
    ASSERT_INT(0, atomic_load(&c.ran));
    if (how == BULKHEAD_ABORT) { /* those in the queue are run by the thread that closes */
        ASSERT_INT(ETIMEDOUT, bulkhead_close(&b, BULKHEAD_ABORT, PLIM_MS(5)));
        ASSERT_INT(10, atomic_load(&c.ran));
    }
    csem_release(&c.go);
    ASSERT_ENDS_WELL(&b);
    ASSERT_INT(11, atomic_load(&c.ran));
    PASS();
}

TEST a_closed_bulkhead_refuses_as_an_executor(void)
{
    bulkhead b;
    client c = {.ran = 0};
    ASSERT(make(&b, BULKHEAD_ASYNC, 1, 0));
    plim_executor executor = bulkhead_executor(&b);
    ASSERT_INT(0, executor.execute(executor.ctx, client_task, &c));
    ASSERT_INT(0, bulkhead_close(&b, BULKHEAD_DRAIN, PLIM_S(PATIENCE_S)));
    ASSERT_INT(1, atomic_load(&c.ran));
    ASSERT_INT(ESHUTDOWN, executor.execute(executor.ctx, client_task, &c));
    ASSERT_INT(1, atomic_load(&c.ran));
    ASSERT_INT(0, bulkhead_destroy(&b));
    ASSERT_INT(blocks_before, atomic_load(&blocks));
    PASS();
}

TEST one_bulkhead_may_be_the_executor_of_another(void)
{
    enum { N = 100 };
    bulkhead outer, inner;
    static bulkhead_job jobs[N];
    atomic_int ran = 0;
    ASSERT(make(&outer, BULKHEAD_ASYNC, 3, 0));
    plim_executor executor = bulkhead_executor(&outer);
    bulkhead_options options = {.type = BULKHEAD_ASYNC, .permits = 2, .executor = &executor};
    ASSERT_INT(0, bulkhead_init(&inner, &options));
    for (int i = 0; i < N; i++) {
        jobs[i] = (bulkhead_job){.run = run_count, .arg = &ran};
        ASSERT_INT(0, bulkhead_submit(&inner, &jobs[i]));
    }
    ASSERT_INT(0, bulkhead_close(&inner, BULKHEAD_DRAIN, PLIM_S(PATIENCE_S)));
    ASSERT_INT(N, atomic_load(&ran));
    ASSERT_INT(0, bulkhead_destroy(&inner));
    ASSERT_ENDS_WELL(&outer);
    PASS();
}

static plim_thread_result client_thread(void *arg)
{
    member *m = arg;
    crowd *c = m->crowd;
    plim_executor executor = bulkhead_executor(c->b);
    wait_for_go(c);
    for (int i = 0; i < c->rounds; i++) {
        int error = executor.execute(executor.ctx, client_task, c->gates);
        atomic_fetch_add(error == 0 ? &c->accepted : error == EAGAIN ? &c->refused : &c->odd, 1);
    }
    return 0;
}

TEST an_executor_runs_each_task_it_took_exactly_once(int how)
{
    enum { N = 4 };
    bulkhead b;
    member m[N];
    client ran = {.ran = 0};
    ASSERT(make(&b, BULKHEAD_ASYNC, 2, 5));
    crowd c = {.b = &b, .rounds = scaled(500), .gates = (gate *)(void *)&ran}; /* borrowed */
    start_crowd(&c, m, N, client_thread);
    join_crowd(m, N);
    ASSERT_INT(0, atomic_load(&c.odd));
    ASSERT_INT(0, bulkhead_close(&b, how, PLIM_S(PATIENCE_S)));
    ASSERT_INT(atomic_load(&c.accepted), atomic_load(&ran.ran));
    ASSERT_ENDS_WELL(&b);
    PASS();
}

/* ---- resize ---- */

TEST growing_lets_in_those_who_wait(void)
{
    bulkhead b;
    gate g[6];
    gates_init(g, 6);
    ASSERT(make(&b, BULKHEAD_ASYNC, 1, 0));
    for (int i = 0; i < 4; i++) {
        ASSERT_INT(0, bulkhead_submit(&b, &g[i].job));
    }
    caller c[2] = {{.b = &b, .call = ENTER, .gate = &g[4]},
                   {.b = &b, .call = ENTER, .gate = &g[5]}};
    ASSERT(queue_up(c, 2));
    ASSERT_FIGURES(&b, 1, 5);
    ASSERT_INT(0, bulkhead_resize(&b, 5, 0));
    ASSERT_FIGURES(&b, 5, 1);
    for (int i = 0; i < 5; i++) {
        ASSERT(has_entered(&g[i]));
    }
    ASSERT_INT(0, bulkhead_resize(&b, 100, 0));
    ASSERT(has_entered(&g[5]));
    ASSERT_FIGURES(&b, 6, 0);
    let_all_go(g, 6);
    join_calls(c, 2);
    ASSERT_ENDS_WELL(&b);
    PASS();
}

TEST a_shrink_takes_effect_as_jobs_end(void)
{
    bulkhead b;
    gate g[5];
    gates_init(g, 5);
    ASSERT(make(&b, BULKHEAD_ASYNC, 4, 0));
    for (int i = 0; i < 5; i++) {
        ASSERT_INT(0, bulkhead_submit(&b, &g[i].job));
    }
    ASSERT_INT(0, bulkhead_resize(&b, 2, 0));
    bulkhead_stats s = bulkhead_snapshot(&b);
    ASSERT_INT(2, s.permits);
    ASSERT_INT(4, s.in_use);
    ASSERT_INT(0, s.available);
    for (int i = 0; i < 2; i++) {
        let_go(&g[i]);
        ASSERT(is_done(&g[i]));
        ASSERT_FIGURES(&b, 3 - i, 1);
    }
    ASSERT_INT(EAGAIN, bulkhead_try_enter(&b));
    let_go(&g[2]);
    ASSERT(has_entered(&g[4]));
    ASSERT_FIGURES(&b, 2, 0);
    let_all_go(g, 5);
    ASSERT_INT(0, bulkhead_wait_idle(&b, PLIM_S(PATIENCE_S)));
    ASSERT_INT(2, bulkhead_snapshot(&b).available);
    ASSERT_INT(0, bulkhead_try_enter(&b));
    ASSERT_INT(0, bulkhead_try_enter(&b));
    ASSERT_INT(EAGAIN, bulkhead_try_enter(&b));
    ASSERT_INT(0, bulkhead_leave(&b));
    ASSERT_INT(0, bulkhead_leave(&b));
    ASSERT_ENDS_WELL(&b);
    PASS();
}

TEST a_shorter_queue_keeps_those_who_are_in_it(void)
{
    bulkhead b;
    gate g[5];
    gates_init(g, 5);
    ASSERT(make(&b, BULKHEAD_ASYNC, 1, 3));
    for (int i = 0; i < 4; i++) {
        ASSERT_INT(0, bulkhead_submit(&b, &g[i].job));
    }
    ASSERT_INT(0, bulkhead_resize(&b, 1, 1));
    ASSERT_FIGURES(&b, 1, 3);
    ASSERT_INT(EAGAIN, bulkhead_submit(&b, &g[4].job));
    for (int i = 0; i < 2; i++) {
        let_go(&g[i]);
        ASSERT(is_done(&g[i]));
        ASSERT_INT(EAGAIN, bulkhead_submit(&b, &g[4].job)); /* 2 wait, then 1: still full */
    }
    let_go(&g[2]);
    ASSERT(is_done(&g[2]));
    ASSERT_INT(0, bulkhead_submit(&b, &g[4].job));
    let_all_go(g, 5);
    ASSERT(is_done(&g[4]));
    ASSERT_INT(0, bulkhead_resize(&b, 1, PLIM_NONE));
    ASSERT_INT(0, bulkhead_snapshot(&b).queue);
    ASSERT_ENDS_WELL(&b);
    PASS();
}

TEST bad_sizes_are_refused(void)
{
    bulkhead b;
    ASSERT(make(&b, BULKHEAD_ASYNC, 3, 4));
    ASSERT_INT(EINVAL, bulkhead_resize(&b, -2, 0));
    ASSERT_INT(EINVAL, bulkhead_resize(&b, 1, -2));
    ASSERT_INT(EINVAL, bulkhead_resize(&b, INT32_MIN, INT32_MIN));
    bulkhead_stats s = bulkhead_snapshot(&b);
    ASSERT_INT(3, s.permits);
    ASSERT_INT(4, s.queue);
    ASSERT_INT(0, bulkhead_resize(&b, 0, 0)); /* as in the options */
    s = bulkhead_snapshot(&b);
    ASSERT_INT(1, s.permits);
    ASSERT_INT(BULKHEAD_UNLIMITED, s.queue);
    ASSERT_ENDS_WELL(&b);
    PASS();
}

static plim_thread_result resize_on_and_on(void *arg)
{
    crowd *c = ((member *)arg)->crowd;
    static const int32_t sizes[] = {10, 5, 15, 1};
    wait_for_go(c);
    for (unsigned i = 0; atomic_load(&c->wrong) == 0; i++) {
        bulkhead_resize(c->b, sizes[i % 4], 0);
        rest(PLIM_US(100));
    }
    return 0;
}

TEST a_resize_under_load_loses_nothing(void)
{
    enum { N = 1000 };
    bulkhead b;
    static bulkhead_job jobs[N];
    atomic_int ran = 0;
    ASSERT(make(&b, BULKHEAD_ASYNC, 10, 0));
    crowd c = {.b = &b};
    member m;
    start_crowd(&c, &m, 1, resize_on_and_on);
    int error = 0;
    for (int i = 0; i < N; i++) {
        jobs[i] = (bulkhead_job){.run = run_count, .arg = &ran};
        error |= bulkhead_submit(&b, &jobs[i]);
        if (i % 3 == 0 && bulkhead_enter(&b) == 0) {
            error |= bulkhead_leave(&b);
        }
    }
    for (int i = 0; i < N; i++) {
        error |= bulkhead_wait(&jobs[i], PLIM_S(PATIENCE_S));
    }
    atomic_store(&c.wrong, 1);
    join(m.thread);
    ASSERT_INT(0, error);
    ASSERT_INT(N, atomic_load(&ran));
    ASSERT(bulkhead_snapshot(&b).peak_in_use <= 16);
    ASSERT_ENDS_WELL(&b);
    PASS();
}

/* ---- close, wait_idle, destroy ---- */

TEST a_drain_serves_all_who_wait(void)
{
    bulkhead b;
    gate g[6];
    gates_init(g, 6);
    ASSERT(make(&b, BULKHEAD_ASYNC, 1, 0));
    for (int i = 0; i < 3; i++) {
        ASSERT_INT(0, bulkhead_submit(&b, &g[i].job));
    }
    caller c = {.b = &b, .call = ENTER, .gate = &g[4]};
    ASSERT(queue_up(&c, 1));
    g[3].job.delay_ns = PLIM_MS(30); /* after the caller: it joins the queue when it is due */
    ASSERT_INT(0, bulkhead_submit(&b, &g[3].job));
    ASSERT_INT(ETIMEDOUT, bulkhead_close(&b, BULKHEAD_DRAIN, 0));
    /* A close that does not wait is no deadline: nothing has been sent away. */
    caller d = {.b = &b, .call = CLOSE, .how = BULKHEAD_DRAIN, .timeout_ns = PLIM_FOREVER};
    start_call(&d);
    ASSERT_INT(ESHUTDOWN, bulkhead_enter(&b));
    ASSERT_INT(ESHUTDOWN, bulkhead_try_enter(&b));
    ASSERT_INT(ESHUTDOWN, bulkhead_enter_for(&b, 0));
    ASSERT_INT(ESHUTDOWN, bulkhead_submit(&b, &g[5].job));
    ASSERT_INT(ESHUTDOWN, bulkhead_submit_for(&b, &g[5].job, PLIM_S(1)));
    ASSERT_INT(ESHUTDOWN, bulkhead_invoke(&b, nothing, NULL, NULL));
    ASSERT(stays_false(&d.done));
    let_all_go(g, 6);
    ASSERT(finished(&c));
    ASSERT_INT(0, c.error);
    ASSERT(finished(&d));
    ASSERT_INT(0, d.error);
    for (int i = 0; i < 4; i++) {
        ASSERT_INT(0, bulkhead_wait(&g[i].job, 0));
        ASSERT_INT(BULKHEAD_SUCCEEDED, g[i].job.outcome);
    }
    ASSERT_INT(0, atomic_load(&g[5].dones));
    ASSERT_U64(6, bulkhead_snapshot(&b).rejected);
    ASSERT_ENDS_WELL(&b); /* once more: nothing to do */
    PASS();
}

TEST a_drain_waits_for_retries(void)
{
    bulkhead b;
    bulkhead_options options = {
        .type = BULKHEAD_ASYNC, .attempts = 3, .retry_delay_ns = PLIM_MS(5)};
    ASSERT_INT(0, bulkhead_init(&b, &options));
    timed t;
    timed_init(&t);
    t.fail_until = 2;
    ASSERT_INT(0, bulkhead_submit(&b, &t.job));
    ASSERT_ENDS_WELL(&b);
    ASSERT_INT(3, t.runs);
    ASSERT_INT(BULKHEAD_SUCCEEDED, t.job.outcome);
    PASS();
}

typedef struct order_note {
    atomic_int *order;
    int place;
    bulkhead_outcome outcome;
} order_note;

static void note_order(bulkhead_job *job)
{
    order_note *n = job->arg;
    n->place = atomic_fetch_add(n->order, 1);
    n->outcome = job->outcome;
}

TEST an_abort_sends_away_all_who_wait_in_order(bool by_deadline)
{
    enum { N = 5 };
    bulkhead b;
    gate g[3];
    gates_init(g, 3);
    atomic_int order = 0;
    order_note notes[N];
    bulkhead_job jobs[N];
    ASSERT(make(&b, BULKHEAD_ASYNC, 1, N + 2)); /* full, when all of these wait */
    g[0].result = 3;
    ASSERT_INT(0, bulkhead_submit(&b, &g[0].job));
    ASSERT(has_entered(&g[0]));
    for (int i = 0; i < N; i++) {
        notes[i] = (order_note){.order = &order};
        jobs[i] = (bulkhead_job){.run = run_nothing, .arg = &notes[i], .done = note_order};
        jobs[i].detached = i % 2 == 0;
        ASSERT_INT(0, bulkhead_submit(&b, &jobs[i]));
    }
    caller c = {.b = &b, .call = ENTER};
    ASSERT(queue_up(&c, 1));
    g[1].job.delay_ns = PLIM_S(1000);
    ASSERT_INT(0, bulkhead_submit(&b, &g[1].job));
    caller s = {.b = &b, .call = SUBMIT_FOR, .gate = &g[2], .timeout_ns = PLIM_FOREVER};
    start_call(&s);
    ASSERT(stays_false(&s.done));
    int64_t from = plim_now_();
    if (by_deadline) {
        ASSERT_INT(ETIMEDOUT, bulkhead_close(&b, BULKHEAD_DRAIN, PLIM_MS(30)));
        ASSERT(plim_now_() - from >= PLIM_MS(30));
    } else {
        ASSERT_INT(ETIMEDOUT, bulkhead_close(&b, BULKHEAD_ABORT, 0));
    }
    ASSERT(finished(&c));
    ASSERT_INT(ESHUTDOWN, c.error);
    ASSERT(finished(&s));
    ASSERT_INT(ESHUTDOWN, s.error);
    for (int i = 0; i < N; i++) {
        ASSERT(EVENTUALLY(atomic_load(&order) == N));
        ASSERT_INT(i, notes[i].place);
        ASSERT_INT(BULKHEAD_ABORTED, notes[i].outcome);
    }
    ASSERT(is_done(&g[1]));
    ASSERT_INT(BULKHEAD_ABORTED, g[1].job.outcome);
    ASSERT_FIGURES(&b, 1, 0);
    ASSERT_INT(EBUSY, bulkhead_destroy(&b));
    let_go(&g[0]); /* what runs goes on */
    ASSERT_INT(0, bulkhead_close(&b, BULKHEAD_ABORT, PLIM_S(PATIENCE_S)));
    ASSERT_INT(0, bulkhead_wait(&g[0].job, 0));
    ASSERT_INT(BULKHEAD_FAILED, g[0].job.outcome);
    ASSERT_INT(3, g[0].job.result);
    ASSERT_U64(N + 1, bulkhead_snapshot(&b).aborted);
    ASSERT_ENDS_WELL(&b);
    ASSERT_INT(0, atomic_load(&g[2].runs) + atomic_load(&g[2].dones));
    PASS();
}

TEST an_abort_does_not_try_again(void)
{
    bulkhead b;
    gate g;
    gates_init(&g, 1);
    bulkhead_options options = {.type = BULKHEAD_ASYNC, .attempts = 100};
    ASSERT_INT(0, bulkhead_init(&b, &options));
    g.result = EIO;
    ASSERT_INT(0, bulkhead_submit(&b, &g.job));
    ASSERT(has_entered(&g));
    ASSERT_INT(ETIMEDOUT, bulkhead_close(&b, BULKHEAD_ABORT, 0));
    for (int i = 0; i < 100; i++) {
        let_go(&g);
    }
    ASSERT(is_done(&g));
    ASSERT_INT(1, atomic_load(&g.runs));
    ASSERT(g.job.outcome == BULKHEAD_FAILED || g.job.outcome == BULKHEAD_ABORTED);
    ASSERT_ENDS_WELL(&b);
    PASS();
}

TEST an_abort_ends_a_job_that_waits_for_its_retry(void)
{
    bulkhead b;
    int error = EIO;
    bulkhead_options options = {.type = BULKHEAD_ASYNC,
                                .attempts = 3,
                                .retry_delay_ns = PLIM_S(1000),
                                .retry_delay_max_ns = PLIM_S(1000)};
    ASSERT_INT(0, bulkhead_init(&b, &options));
    bulkhead_job job = {.run = run_result, .arg = &error};
    ASSERT_INT(0, bulkhead_submit(&b, &job));
    ASSERT(EVENTUALLY(bulkhead_snapshot(&b).delayed == 1));
    ASSERT_INT(0, bulkhead_close(&b, BULKHEAD_ABORT, PLIM_S(PATIENCE_S)));
    ASSERT_INT(0, bulkhead_wait(&job, 0));
    ASSERT_INT(BULKHEAD_ABORTED, job.outcome);
    ASSERT_ENDS_WELL(&b);
    PASS();
}

TEST close_waits_for_a_stuck_body(int how)
{
    bulkhead b;
    gate g;
    gates_init(&g, 1);
    g.job.run_timeout_ns = PLIM_MS(5);
    ASSERT(make(&b, BULKHEAD_ASYNC, 1, 0));
    ASSERT_INT(0, bulkhead_submit(&b, &g.job));
    ASSERT(is_done(&g));
    ASSERT_INT(ETIMEDOUT, bulkhead_close(&b, how, PLIM_MS(5)));
    caller c = {.b = &b, .call = CLOSE, .how = how, .timeout_ns = PLIM_FOREVER};
    start_call(&c);
    ASSERT(stays_false(&c.done));
    let_go(&g);
    ASSERT(finished(&c));
    ASSERT_INT(0, c.error);
    ASSERT_INT(0, bulkhead_reclaim(&g.job, 0));
    ASSERT_ENDS_WELL(&b);
    PASS();
}

TEST the_run_timeout_is_kept_while_closing(void)
{
    bulkhead b;
    gate g;
    gates_init(&g, 1);
    g.job.run_timeout_ns = PLIM_MS(30);
    ASSERT(make(&b, BULKHEAD_ASYNC, 1, 0));
    ASSERT_INT(0, bulkhead_submit(&b, &g.job));
    ASSERT(has_entered(&g));
    ASSERT_INT(ETIMEDOUT, bulkhead_close(&b, BULKHEAD_ABORT, 0));
    ASSERT(is_done(&g));
    ASSERT_INT(BULKHEAD_TIMED_OUT, g.job.outcome);
    let_go(&g);
    ASSERT_ENDS_WELL(&b);
    PASS();
}

/* A leave that needs no lock must not pass one who is about to wait for the end. */
TEST the_last_leave_is_seen_by_who_waits(int type, int what)
{
    bulkhead b;
    gate g;
    for (int round = scaled(400); round > 0; round--) {
        gates_init(&g, 1);
        ASSERT(make(&b, type, 3, 0));
        caller in = {.b = &b, .call = ENTER, .gate = &g};
        caller out = {.b = &b, .call = what, .timeout_ns = PLIM_S(PATIENCE_S)};
        start_call(&in);
        ASSERT(has_entered(&g));
        start_call(&out);
        dawdle((uint64_t)round);
        let_go(&g);
        ASSERT(finished(&in));
        ASSERT(finished(&out));
        ASSERT_INT(0, out.error);
        ASSERT_ENDS_WELL(&b);
    }
    PASS();
}

TEST several_may_close_and_all_see_the_same_end(void)
{
    enum { N = 6 };
    bulkhead b;
    gate g[2];
    caller c[N];
    gates_init(g, 2);
    for (int round = scaled(20); round > 0; round--) {
        ASSERT(make(&b, BULKHEAD_ASYNC, 1, 0));
        ASSERT_INT(0, bulkhead_submit(&b, &g[0].job));
        ASSERT_INT(0, bulkhead_submit(&b, &g[1].job));
        for (int i = 0; i < N; i++) {
            c[i] = (caller){.b = &b, .call = CLOSE, .timeout_ns = PLIM_S(PATIENCE_S)};
            c[i].how = BULKHEAD_DRAIN;
            start_call(&c[i]);
        }
        ASSERT_INT(ETIMEDOUT, bulkhead_close(&b, BULKHEAD_DRAIN, 0));
        let_all_go(g, 2);
        join_calls(c, N);
        for (int i = 0; i < N; i++) {
            ASSERT_INT(0, c[i].error);
        }
        ASSERT_INT(BULKHEAD_SUCCEEDED, g[1].job.outcome);
        ASSERT_ENDS_WELL(&b);
    }
    PASS();
}

TEST an_abort_beside_a_drain_aborts(void)
{
    bulkhead b;
    gate g[2];
    gates_init(g, 2);
    ASSERT(make(&b, BULKHEAD_ASYNC, 1, 0));
    ASSERT_INT(0, bulkhead_submit(&b, &g[0].job));
    ASSERT(has_entered(&g[0]));
    ASSERT_INT(0, bulkhead_submit(&b, &g[1].job));
    caller c = {.b = &b, .call = CLOSE, .how = BULKHEAD_DRAIN, .timeout_ns = PLIM_FOREVER};
    start_call(&c);
    ASSERT(stays_false(&c.done));
    ASSERT_INT(ETIMEDOUT, bulkhead_close(&b, BULKHEAD_ABORT, PLIM_MS(1)));
    ASSERT(is_done(&g[1]));
    ASSERT_INT(BULKHEAD_ABORTED, g[1].job.outcome);
    let_go(&g[0]);
    ASSERT(finished(&c));
    ASSERT_INT(0, c.error);
    ASSERT_ENDS_WELL(&b);
    PASS();
}

TEST close_refuses_what_it_does_not_know(void)
{
    bulkhead b;
    ASSERT(make(&b, BULKHEAD_ASYNC, 1, 0));
    ASSERT_INT(EINVAL, bulkhead_close(&b, 2, 0));
    ASSERT_INT(EINVAL, bulkhead_close(&b, -1, PLIM_S(1)));
    ASSERT_INT(0, bulkhead_enter(&b)); /* it is open */
    ASSERT_INT(0, bulkhead_leave(&b));
    ASSERT_ENDS_WELL(&b);
    PASS();
}

TEST a_closed_bulkhead_still_takes_permits_back(int type)
{
    bulkhead b;
    gate g;
    gates_init(&g, 1);
    ASSERT(make(&b, type, 2, 0));
    caller c = {.b = &b, .call = ENTER, .gate = &g};
    start_call(&c);
    ASSERT(has_entered(&g));
    ASSERT_INT(ETIMEDOUT, bulkhead_close(&b, BULKHEAD_ABORT, 0));
    ASSERT_INT(ETIMEDOUT, bulkhead_close(&b, BULKHEAD_DRAIN, PLIM_MS(5)));
    ASSERT_INT(EBUSY, bulkhead_destroy(&b));
    let_go(&g);
    ASSERT(finished(&c));
    ASSERT_INT(0, c.left);
    ASSERT_INT(0, bulkhead_close(&b, BULKHEAD_DRAIN, 0));
    ASSERT_ENDS_WELL(&b);
    PASS();
}

TEST a_drain_hands_over_to_callers_that_wait(void)
{
    bulkhead b;
    gate g[2];
    gates_init(g, 2);
    ASSERT(make(&b, BULKHEAD_SYNC, 1, 0));
    caller c[2] = {{.b = &b, .call = ENTER, .gate = &g[0]},
                   {.b = &b, .call = ENTER, .gate = &g[1]}};
    start_call(&c[0]);
    ASSERT(has_entered(&g[0]));
    ASSERT(queue_up(&c[1], 1));
    ASSERT_INT(ETIMEDOUT, bulkhead_close(&b, BULKHEAD_DRAIN, 0));
    ASSERT_FIGURES(&b, 1, 1);
    let_go(&g[0]);
    ASSERT(has_entered(&g[1]));
    let_go(&g[1]);
    join_calls(c, 2);
    ASSERT_INT(0, c[1].error);
    ASSERT_ENDS_WELL(&b);
    PASS();
}

TEST close_without_work_is_immediate(int type)
{
    bulkhead b;
    ASSERT(make(&b, type, 4, 0));
    ASSERT_INT(0, bulkhead_close(&b, BULKHEAD_DRAIN, 0));
    ASSERT_INT(0, bulkhead_close(&b, BULKHEAD_ABORT, 0));
    ASSERT_INT(0, bulkhead_close(&b, BULKHEAD_DRAIN, PLIM_FOREVER));
    ASSERT_INT(0, bulkhead_destroy(&b));
    PASS();
}

TEST destroy_ends_idle_workers_by_itself(void)
{
    bulkhead b;
    gate g[8];
    gates_init(g, 8);
    ASSERT(make(&b, BULKHEAD_ASYNC, 8, 0));
    for (int i = 0; i < 8; i++) {
        ASSERT_INT(0, bulkhead_submit(&b, &g[i].job));
    }
    ASSERT(has_entered(&g[7]));
    ASSERT_INT(EBUSY, bulkhead_destroy(&b));
    let_all_go(g, 8);
    ASSERT_INT(0, bulkhead_wait_idle(&b, PLIM_S(PATIENCE_S)));
    ASSERT_INT(0, bulkhead_destroy(&b));
    ASSERT_INT(blocks_before, atomic_load(&blocks));
    PASS();
}

TEST destroy_is_refused_while_anything_is_left(void)
{
    bulkhead b;
    gate g[2];
    gates_init(g, 2);
    ASSERT(make(&b, BULKHEAD_ASYNC, 1, 0));
    ASSERT_INT(0, bulkhead_enter(&b));
    ASSERT_INT(EBUSY, bulkhead_destroy(&b));
    ASSERT_INT(0, bulkhead_submit(&b, &g[0].job));
    ASSERT_INT(0, bulkhead_leave(&b));
    ASSERT(has_entered(&g[0]));
    ASSERT_INT(EBUSY, bulkhead_destroy(&b));
    let_go(&g[0]);
    ASSERT(is_done(&g[0]));
    /* It changed nothing. */
    ASSERT_INT(0, bulkhead_submit(&b, &g[1].job));
    let_go(&g[1]);
    ASSERT(is_done(&g[1]));
    ASSERT_ENDS_WELL(&b);
    PASS();
}

TEST a_thousand_bulkheads_come_and_go(void)
{
    int n = scaled(1000);
    for (int i = 0; i < n; i++) {
        bulkhead b;
        bulkhead_job jobs[3];
        atomic_int ran = 0;
        ASSERT(make(&b, i % 7 == 0 ? BULKHEAD_SYNC : BULKHEAD_ASYNC, 1 + i % 3, 0));
        int k = i % 7 == 0 ? 0 : i % 4;
        for (int j = 0; j < k; j++) {
            jobs[j] = (bulkhead_job){.run = run_count, .arg = &ran};
            jobs[j].delay_ns = i % 11 == 0 ? PLIM_US(50) : 0;
            ASSERT_INT(0, bulkhead_submit(&b, &jobs[j]));
        }
        int how = i % 2 == 0 ? BULKHEAD_DRAIN : BULKHEAD_ABORT;
        ASSERT_INT(0, bulkhead_close(&b, how, PLIM_S(PATIENCE_S)));
        for (int j = 0; j < k; j++) {
            ASSERT_INT(0, bulkhead_wait(&jobs[j], 0));
            ASSERT(jobs[j].outcome == BULKHEAD_SUCCEEDED ||
                   (how == BULKHEAD_ABORT && jobs[j].outcome == BULKHEAD_ABORTED));
        }
        ASSERT_INT(0, bulkhead_destroy(&b));
    }
    ASSERT_INT(blocks_before, atomic_load(&blocks));
    PASS();
}

static plim_thread_result submit_until_shut(void *arg)
{
    member *m = arg;
    crowd *c = m->crowd;
    wait_for_go(c);
    for (;;) {
        bulkhead_job job = {.run = run_nothing};
        int error = m->number % 2 == 0 ? bulkhead_submit(c->b, &job)
                                       : bulkhead_submit_for(c->b, &job, PLIM_FOREVER);
        if (error == ESHUTDOWN) {
            return 0;
        }
        if (error == 0) {
            atomic_fetch_add(&c->accepted, 1);
            if (bulkhead_wait(&job, PLIM_S(PATIENCE_S)) != 0 ||
                (job.outcome != BULKHEAD_SUCCEEDED && job.outcome != BULKHEAD_ABORTED)) {
                atomic_fetch_add(&c->odd, 1);
                return 0;
            }
        } else if (error != EAGAIN) {
            atomic_fetch_add(&c->odd, 1);
        }
    }
}

TEST close_races_with_submits_and_every_job_ends(int how)
{
    enum { N = 4 };
    bulkhead b;
    member m[N];
    for (int round = scaled(60); round > 0; round--) {
        crowd c = {.b = &b};
        ASSERT(make(&b, BULKHEAD_ASYNC, 2, 1));
        start_crowd(&c, m, N, submit_until_shut);
        rest(PLIM_US(100 * (round % 10)));
        ASSERT_INT(0, bulkhead_close(&b, how, PLIM_S(PATIENCE_S)));
        join_crowd(m, N);
        ASSERT_INT(0, atomic_load(&c.odd));
        ASSERT_U64(atomic_load(&c.accepted), bulkhead_snapshot(&b).accepted);
        ASSERT_ENDS_WELL(&b);
    }
    PASS();
}

TEST wait_idle_waits_for_an_instant_without_anything(void)
{
    bulkhead b;
    gate g[2];
    gates_init(g, 2);
    ASSERT(make(&b, BULKHEAD_ASYNC, 1, 0));
    ASSERT_INT(0, bulkhead_wait_idle(&b, 0));
    ASSERT_INT(0, bulkhead_submit(&b, &g[0].job));
    ASSERT_INT(0, bulkhead_submit(&b, &g[1].job));
    ASSERT_INT(ETIMEDOUT, bulkhead_wait_idle(&b, 0));
    int64_t from = plim_now_();
    ASSERT_INT(ETIMEDOUT, bulkhead_wait_idle(&b, PLIM_MS(10)));
    ASSERT(plim_now_() - from >= PLIM_MS(10));
    caller c[3];
    for (int i = 0; i < 3; i++) {
        c[i] = (caller){.b = &b, .call = IDLE, .timeout_ns = PLIM_FOREVER};
        start_call(&c[i]);
    }
    let_go(&g[0]);
    ASSERT(is_done(&g[0]));
    ASSERT(stays_false(&c[0].done));
    let_go(&g[1]);
    join_calls(c, 3);
    for (int i = 0; i < 3; i++) {
        ASSERT_INT(0, c[i].error);
    }
    /* Callers inside count as well. */
    gate h;
    gates_init(&h, 1);
    caller d = {.b = &b, .call = ENTER, .gate = &h};
    start_call(&d);
    ASSERT(has_entered(&h));
    ASSERT_INT(ETIMEDOUT, bulkhead_wait_idle(&b, PLIM_MS(5)));
    c[0] = (caller){.b = &b, .call = IDLE, .timeout_ns = PLIM_FOREVER};
    start_call(&c[0]);
    ASSERT(stays_false(&c[0].done));
    let_go(&h);
    ASSERT(finished(&d));
    ASSERT(finished(&c[0]));
    ASSERT_INT(0, c[0].error);
    ASSERT_INT(0, bulkhead_enter(&b)); /* it is open all the while */
    ASSERT_INT(0, bulkhead_leave(&b));
    ASSERT_ENDS_WELL(&b);
    PASS();
}

/* ---- figures ---- */

TEST figures_agree_with_what_happened(void)
{
    bulkhead b;
    gate g[5];
    gates_init(g, 5);
    bulkhead_options options = {
        .type = BULKHEAD_ASYNC, .permits = 2, .queue = 2, .flags = BULKHEAD_TIMINGS};
    ASSERT_INT(0, bulkhead_init(&b, &options));
    for (int i = 0; i < 5; i++) {
        ASSERT_INT(i < 4 ? 0 : EAGAIN, bulkhead_submit(&b, &g[i].job));
    }
    ASSERT(has_entered(&g[0]));
    ASSERT(has_entered(&g[1]));
    rest(PLIM_MS(5));
    bulkhead_stats s = bulkhead_snapshot(&b);
    ASSERT_INT(2, s.in_use);
    ASSERT_INT(2, s.queued);
    ASSERT(s.longest_wait_ns >= PLIM_MS(5));
    let_all_go(g, 4);
    for (int i = 0; i < 4; i++) {
        ASSERT(is_done(&g[i]));
    }
    s = bulkhead_snapshot(&b);
    ASSERT_U64(4, s.accepted);
    ASSERT_U64(1, s.rejected);
    ASSERT_U64(4, s.succeeded);
    ASSERT_U64(4, s.wait.count); /* 0 if it did not wait; a refused one is not there */
    ASSERT_U64(4, s.run.count);
    ASSERT_INT(2, s.peak_in_use);
    ASSERT_INT(2, s.peak_queued);
    ASSERT(s.wait.max_ns >= PLIM_MS(5));
    ASSERT(s.run.max_ns >= PLIM_MS(5));
    ASSERT(s.wait.sum_ns >= 2 * PLIM_MS(5));
    ASSERT(s.run.sum_ns >= 2 * PLIM_MS(5));
    ASSERT_U64(0, s.longest_wait_ns);
    uint64_t waited = 0, ran = 0;
    for (int i = 0; i < BULKHEAD_BUCKETS; i++) {
        waited += s.wait.buckets[i];
        ran += s.run.buckets[i];
    }
    ASSERT_U64(4, waited);
    ASSERT_U64(4, ran);
    ASSERT_ENDS_WELL(&b);
    PASS();
}

TEST timings_of_sync_calls(void)
{
    bulkhead b;
    bulkhead_options options = {.flags = BULKHEAD_TIMINGS | BULKHEAD_STATS};
    ASSERT_INT(0, bulkhead_init(&b, &options));
    gate g;
    gates_init(&g, 1);
    ASSERT_INT(0, bulkhead_enter(&b));
    caller c = {.b = &b, .call = ENTER, .gate = &g};
    ASSERT(queue_up(&c, 1));
    rest(PLIM_MS(5));
    ASSERT(bulkhead_snapshot(&b).longest_wait_ns >= PLIM_MS(5));
    ASSERT_INT(0, bulkhead_leave(&b));
    let_go(&g);
    ASSERT(finished(&c));
    bulkhead_stats s = bulkhead_snapshot(&b);
    ASSERT_U64(2, s.wait.count);
    ASSERT(s.wait.max_ns >= PLIM_MS(5));
    ASSERT_INT(0, bulkhead_close(&b, BULKHEAD_DRAIN, PLIM_S(1)));
    ASSERT_INT(0, bulkhead_destroy(&b));
    PASS();
}

TEST histograms_are_empty_unless_asked_for(void)
{
    bulkhead b;
    ASSERT(make(&b, BULKHEAD_ASYNC, 1, 0));
    ASSERT_INT(0, bulkhead_invoke(&b, nothing, NULL, NULL));
    bulkhead_stats s = bulkhead_snapshot(&b);
    ASSERT_U64(0, s.wait.count);
    ASSERT_U64(0, s.run.count);
    ASSERT_EQ(0, bulkhead_histogram_quantile(&s.wait, 0.5));
    ASSERT_EQ(0, s.longest_wait_ns);
    ASSERT_ENDS_WELL(&b);
    PASS();
}

static int nap(void *arg)
{
    rest(*(int64_t *)arg);
    return 0;
}

TEST quantiles_are_at_most_a_quarter_too_long(void)
{
    bulkhead b;
    bulkhead_options options = {.type = BULKHEAD_ASYNC, .flags = BULKHEAD_TIMINGS};
    ASSERT_INT(0, bulkhead_init(&b, &options));
    int64_t short_ns = PLIM_US(100), long_ns = PLIM_MS(40);
    for (int i = 0; i < 9; i++) {
        ASSERT_INT(0, bulkhead_invoke(&b, nap, &short_ns, NULL));
    }
    ASSERT_INT(0, bulkhead_invoke(&b, nap, &long_ns, NULL));
    bulkhead_stats s = bulkhead_snapshot(&b);
    ASSERT_U64(10, s.run.count);
    ASSERT(s.run.max_ns >= long_ns);
    ASSERT(s.run.sum_ns >= 9 * short_ns + long_ns);
    int64_t q1 = bulkhead_histogram_quantile(&s.run, 1.0);
    ASSERT(q1 >= s.run.max_ns);
    ASSERT(q1 - s.run.max_ns <= s.run.max_ns / 4 + 1);
    int64_t q0 = bulkhead_histogram_quantile(&s.run, 0.0);
    int64_t half = bulkhead_histogram_quantile(&s.run, 0.5);
    ASSERT(q0 >= short_ns);
    ASSERT(q0 <= half);
    ASSERT(half <= bulkhead_histogram_quantile(&s.run, 0.9));
    ASSERT(bulkhead_histogram_quantile(&s.run, 0.99) >= long_ns);
    /* Out of range: the ends, and no harm. */
    ASSERT_EQ(q0, bulkhead_histogram_quantile(&s.run, -1.0));
    ASSERT_EQ(q1, bulkhead_histogram_quantile(&s.run, 2.0));
    (void)bulkhead_histogram_quantile(&s.run, (double)NAN);
    (void)bulkhead_histogram_quantile(&s.run, (double)INFINITY);
    ASSERT_ENDS_WELL(&b);
    PASS();
}

TEST every_end_is_counted_once(void)
{
    bulkhead b;
    gate g[8];
    gates_init(g, 8);
    ASSERT(make(&b, BULKHEAD_ASYNC, 1, 5));
    g[0].job.run_timeout_ns = PLIM_MS(5);  /* times out */
    g[1].job.start_within_ns = PLIM_MS(1); /* expires */
    g[3].result = 1;                       /* fails */
    g[5].job.delay_ns = PLIM_S(1000);      /* is aborted */
    ASSERT_INT(0, bulkhead_submit(&b, &g[0].job));
    ASSERT(is_done(&g[0]));
    for (int i = 1; i < 6; i++) {
        ASSERT_INT(0, bulkhead_submit(&b, &g[i].job));
    }
    ASSERT(is_done(&g[1]));
    ASSERT_INT(0, bulkhead_cancel(&b, &g[2].job)); /* is cancelled */
    let_all_go(g, 6);
    ASSERT(is_done(&g[4])); /* succeeds */
    bulkhead_stats s = bulkhead_snapshot(&b);
    ASSERT_U64(s.accepted, ends_of(&s) + s.delayed + s.queued + s.in_use);
    ASSERT_INT(0, bulkhead_close(&b, BULKHEAD_ABORT, PLIM_S(PATIENCE_S)));
    s = bulkhead_snapshot(&b);
    ASSERT_U64(6, s.accepted);
    ASSERT_U64(1, s.timed_out);
    ASSERT_U64(1, s.late);
    ASSERT_U64(1, s.expired);
    ASSERT_U64(1, s.cancelled);
    ASSERT_U64(1, s.failed);
    ASSERT_U64(1, s.succeeded);
    ASSERT_U64(1, s.aborted);
    ASSERT_ENDS_WELL(&b);
    PASS();
}

TEST outcomes_have_names(void)
{
    ASSERT_STR_EQ("pending", bulkhead_outcome_name(BULKHEAD_PENDING));
    ASSERT_STR_EQ("succeeded", bulkhead_outcome_name(BULKHEAD_SUCCEEDED));
    ASSERT_STR_EQ("failed", bulkhead_outcome_name(BULKHEAD_FAILED));
    ASSERT_STR_EQ("timed_out", bulkhead_outcome_name(BULKHEAD_TIMED_OUT));
    ASSERT_STR_EQ("expired", bulkhead_outcome_name(BULKHEAD_EXPIRED));
    ASSERT_STR_EQ("cancelled", bulkhead_outcome_name(BULKHEAD_CANCELLED));
    ASSERT_STR_EQ("aborted", bulkhead_outcome_name(BULKHEAD_ABORTED));
    ASSERT(bulkhead_outcome_name((bulkhead_outcome)99) != NULL);
    PASS();
}

/* ---- events ---- */

typedef struct recorder {
    bulkhead *b;
    atomic_int n;
    bulkhead_event events[128];
} recorder;

static void record(void *user, const bulkhead_event *event)
{
    recorder *r = user;
    int n = atomic_fetch_add(&r->n, 1);
    if (n < 128) {
        r->events[n] = *event;
    }
    /* It is under no lock: this would hang otherwise. */
    (void)bulkhead_snapshot(r->b);
}

/* How many events of a type there are for a job; the last of them in *found. */
static int events_of(recorder *r, bulkhead_event_type type, const bulkhead_job *job,
                     bulkhead_event *found)
{
    int n = 0;
    for (int i = 0; i < atomic_load(&r->n) && i < 128; i++) {
        if (r->events[i].type == type && r->events[i].job == job) {
            *found = r->events[i];
            n++;
        }
    }
    return n;
}

TEST events_tell_the_story_of_a_job(void)
{
    bulkhead b;
    static recorder r;
    memset((void *)&r, 0, sizeof r);
    r.b = &b;
    bulkhead_options options = {
        .type = BULKHEAD_ASYNC, .attempts = 3, .on_event = record, .user = &r};
    ASSERT_INT(0, bulkhead_init(&b, &options));
    timed t;
    timed_init(&t);
    t.fail_until = 2;
    ASSERT_INT(0, bulkhead_submit(&b, &t.job));
    ASSERT_INT(0, bulkhead_wait(&t.job, PLIM_S(PATIENCE_S)));
    ASSERT_ENDS_WELL(&b);
    /* All but ACCEPTED come from the one worker, in this order. */
    static const bulkhead_event_type types[] = {BULKHEAD_EVENT_STARTED, BULKHEAD_EVENT_RETRIED,
                                                BULKHEAD_EVENT_STARTED, BULKHEAD_EVENT_RETRIED,
                                                BULKHEAD_EVENT_STARTED, BULKHEAD_EVENT_FINISHED};
    static const uint32_t attempts[] = {1, 1, 2, 2, 3, 3};
    static const int results[] = {0, 10, 0, 20, 0, 0};
    int at = 0, accepted = 0;
    for (int i = 0; i < atomic_load(&r.n); i++) {
        ASSERT(r.events[i].job == &t.job);
        ASSERT(r.events[i].arg == &t);
        if (r.events[i].type == BULKHEAD_EVENT_ACCEPTED) {
            accepted++;
            continue;
        }
        ASSERT(at < 6);
        ASSERT_INT(types[at], r.events[i].type);
        ASSERT_INT(attempts[at], r.events[i].attempt);
        if (types[at] != BULKHEAD_EVENT_STARTED) {
            ASSERT_INT(results[at], r.events[i].result);
        }
        at++;
    }
    ASSERT_INT(6, at);
    ASSERT_INT(1, accepted);
    bulkhead_event e;
    ASSERT_INT(1, events_of(&r, BULKHEAD_EVENT_FINISHED, &t.job, &e));
    ASSERT_INT(BULKHEAD_SUCCEEDED, e.outcome);
    PASS();
}

TEST events_tell_of_every_end_and_refusal(void)
{
    bulkhead b;
    static recorder r;
    memset((void *)&r, 0, sizeof r);
    r.b = &b;
    bulkhead_options options = {.type = BULKHEAD_ASYNC, .queue = 2, .on_event = record, .user = &r};
    ASSERT_INT(0, bulkhead_init(&b, &options));
    gate g[6];
    gates_init(g, 6);
    g[0].job.run_timeout_ns = PLIM_MS(20);
    g[1].job.start_within_ns = PLIM_MS(1);
    ASSERT_INT(0, bulkhead_submit(&b, &g[0].job));
    ASSERT(has_entered(&g[0]));
    ASSERT_INT(0, bulkhead_submit(&b, &g[1].job));
    ASSERT_INT(0, bulkhead_submit(&b, &g[2].job));
    ASSERT_INT(EAGAIN, bulkhead_try_enter(&b));
    ASSERT_INT(ETIMEDOUT, bulkhead_enter_for(&b, 0));
    ASSERT(is_done(&g[0]));
    ASSERT(is_done(&g[1]));
    ASSERT_INT(0, bulkhead_cancel(&b, &g[2].job));
    ASSERT_INT(0, bulkhead_submit(&b, &g[3].job));
    ASSERT_INT(0, bulkhead_submit(&b, &g[4].job));
    ASSERT_INT(EAGAIN, bulkhead_submit(&b, &g[5].job));
    ASSERT_INT(0, bulkhead_resize(&b, 1, 3));
    ASSERT_INT(ETIMEDOUT, bulkhead_close(&b, BULKHEAD_ABORT, 0));
    ASSERT_INT(ESHUTDOWN, bulkhead_enter(&b));
    let_all_go(g, 6);
    ASSERT_ENDS_WELL(&b);

    bulkhead_event e;
    for (int i = 0; i < 5; i++) {
        ASSERT_INT(1, events_of(&r, BULKHEAD_EVENT_ACCEPTED, &g[i].job, &e));
        ASSERT(e.arg == &g[i]);
    }
    ASSERT_INT(0, events_of(&r, BULKHEAD_EVENT_ACCEPTED, &g[5].job, &e));
    ASSERT_INT(1, events_of(&r, BULKHEAD_EVENT_REJECTED, &g[5].job, &e));
    ASSERT_INT(EAGAIN, e.result);
    ASSERT_INT(3, events_of(&r, BULKHEAD_EVENT_REJECTED, NULL, &e));
    ASSERT_INT(ESHUTDOWN, e.result);
    ASSERT_INT(1, events_of(&r, BULKHEAD_EVENT_STARTED, &g[0].job, &e));
    ASSERT_INT(1, e.attempt);
    ASSERT_INT(1, events_of(&r, BULKHEAD_EVENT_TIMED_OUT, &g[0].job, &e));
    ASSERT_INT(BULKHEAD_TIMED_OUT, e.outcome);
    ASSERT_INT(0, events_of(&r, BULKHEAD_EVENT_FINISHED, &g[0].job, &e));
    const bulkhead_outcome outcomes[] = {BULKHEAD_TIMED_OUT, BULKHEAD_EXPIRED, BULKHEAD_CANCELLED,
                                         BULKHEAD_ABORTED, BULKHEAD_ABORTED};
    for (int i = 1; i < 5; i++) {
        ASSERT_INT(1, events_of(&r, BULKHEAD_EVENT_FINISHED, &g[i].job, &e));
        ASSERT_INT(outcomes[i], e.outcome);
        ASSERT_INT(0, e.attempt);
        ASSERT_INT(0, e.result);
        ASSERT_INT(0, events_of(&r, BULKHEAD_EVENT_STARTED, &g[i].job, &e));
        ASSERT_INT(0, events_of(&r, BULKHEAD_EVENT_TIMED_OUT, &g[i].job, &e));
    }
    ASSERT_INT(1, events_of(&r, BULKHEAD_EVENT_RESIZED, NULL, &e));
    PASS();
}

typedef struct meddler {
    bulkhead *b;
    int type;
    atomic_int depth, calls, odd;
    bulkhead_job extra;
    atomic_int ran;
} meddler;

/* Does with the bulkhead what one may, while it tells of something. */
static void meddle(void *user, const bulkhead_event *event)
{
    meddler *m = user;
    atomic_fetch_add(&m->calls, 1);
    if (atomic_fetch_add(&m->depth, 1) == 0) {
        int error = bulkhead_try_enter(m->b);
        if (error == 0) {
            error = bulkhead_leave(m->b);
        }
        if (error != 0 && error != EAGAIN && error != ESHUTDOWN) {
            atomic_fetch_add(&m->odd, 1);
        }
        error = bulkhead_resize(m->b, 2, 0);
        if (error != 0) {
            atomic_fetch_add(&m->odd, 1);
        }
        if (m->type == BULKHEAD_ASYNC && event->type == BULKHEAD_EVENT_FINISHED &&
            event->job != &m->extra) {
            error = bulkhead_submit(m->b, &m->extra);
            if (error != 0 && error != EBUSY && error != ESHUTDOWN) {
                atomic_fetch_add(&m->odd, 1);
            }
        }
        if (bulkhead_cancel(m->b, &m->extra) == EPERM) {
            atomic_fetch_add(&m->odd, 1);
        }
    }
    atomic_fetch_sub(&m->depth, 1);
}

TEST a_listener_may_call_back(int type)
{
    bulkhead b;
    static meddler m;
    memset((void *)&m, 0, sizeof m);
    m.b = &b;
    m.type = type;
    m.extra.run = run_count;
    m.extra.arg = &m.ran;
    bulkhead_options options = {.type = type, .permits = 2, .on_event = meddle, .user = &m};
    ASSERT_INT(0, bulkhead_init(&b, &options));
    for (int i = 0; i < 20; i++) {
        ASSERT_INT(0, bulkhead_enter(&b));
        ASSERT_INT(0, bulkhead_leave(&b));
        ASSERT_INT(0, bulkhead_invoke(&b, nothing, NULL, NULL));
    }
    ASSERT(atomic_load(&m.calls) > 0);
    ASSERT_INT(0, atomic_load(&m.odd));
    ASSERT_INT(0, bulkhead_close(&b, BULKHEAD_DRAIN, PLIM_S(PATIENCE_S)));
    ASSERT_FIGURES(&b, 0, 0);
    ASSERT_INT(0, bulkhead_destroy(&b));
    PASS();
}

TEST events_of_sync_calls_come_in_order(void)
{
    bulkhead b;
    static recorder r;
    memset((void *)&r, 0, sizeof r);
    r.b = &b;
    bulkhead_options options = {.permits = 2, .on_event = record, .user = &r};
    ASSERT_INT(0, bulkhead_init(&b, &options));
    ASSERT_INT(0, bulkhead_try_enter(&b));
    ASSERT_INT(0, bulkhead_try_enter(&b));
    ASSERT_INT(EAGAIN, bulkhead_try_enter(&b));
    ASSERT_INT(ETIMEDOUT, bulkhead_enter_for(&b, 0));
    ASSERT_INT(0, bulkhead_leave(&b));
    ASSERT_INT(0, bulkhead_leave(&b));
    ASSERT_INT(0, bulkhead_try_enter(&b));
    ASSERT_INT(0, bulkhead_leave(&b));
    ASSERT_ENDS_WELL(&b);
    static const bulkhead_event_type types[] = {BULKHEAD_EVENT_ACCEPTED, BULKHEAD_EVENT_ACCEPTED,
                                                BULKHEAD_EVENT_REJECTED, BULKHEAD_EVENT_REJECTED,
                                                BULKHEAD_EVENT_FINISHED, BULKHEAD_EVENT_FINISHED,
                                                BULKHEAD_EVENT_ACCEPTED, BULKHEAD_EVENT_FINISHED};
    ASSERT_INT(8, atomic_load(&r.n));
    for (int i = 0; i < 8; i++) {
        ASSERT(r.events[i].job == NULL);
        ASSERT_INT(types[i], r.events[i].type);
    }
    ASSERT_INT(EAGAIN, r.events[2].result);
    ASSERT_INT(ETIMEDOUT, r.events[3].result);
    PASS();
}

/* ---- text ---- */

TEST the_prometheus_text_is_cut_like_snprintf(void)
{
    static bulkhead_stats s;
    memset((void *)&s, 0, sizeof s);
    s.permits = 4;
    s.rejected = UINT64_MAX;
    size_t length = bulkhead_prometheus(&s, "db", NULL, 0);
    ASSERT(length > 100);
    char *whole = malloc(length + 1);
    char *part = malloc(length + 2);
    ASSERT(whole != NULL && part != NULL);
    ASSERT_EQ(length, bulkhead_prometheus(&s, "db", whole, length + 1));
    ASSERT_EQ(length, strlen(whole));
    ASSERT_EQ('\n', whole[length - 1]);
    for (size_t capacity = 1; capacity <= length; capacity += capacity < 50 ? 1 : 97) {
        memset(part, '#', length + 2);
        ASSERT_EQ(length, bulkhead_prometheus(&s, "db", part, capacity));
        ASSERT_EQ(capacity - 1, strlen(part));
        ASSERT(memcmp(whole, part, capacity - 1) == 0);
        ASSERT_EQ('#', part[capacity]);
    }
    free(whole);
    free(part);
    PASS();
}

static char text[65536];

/* What the text is to be, put together in another way. */
static size_t expected_histogram(char *out, size_t room, const char *name, uint64_t n,
                                 const char *sum)
{
    size_t at = (size_t)snprintf(out, room, "# TYPE bulkhead_%s histogram\n", name);
    for (int bits = 10; bits <= 36; bits += 2) { /* a microsecond to a minute */
        int64_t end = ((int64_t)1 << bits) - 1;
        at += (size_t)snprintf(out + at, room - at,
                               "bulkhead_%s_bucket{bulkhead=\"db\",le=\"%" PRId64 ".%09" PRId64
                               "\"} %" PRIu64 "\n",
                               name, end / 1000000000, end % 1000000000, n);
    }
    at += (size_t)snprintf(out + at, room - at,
                           "bulkhead_%s_bucket{bulkhead=\"db\",le=\"+Inf\"} %" PRIu64 "\n"
                           "bulkhead_%s_sum{bulkhead=\"db\"} %s\n"
                           "bulkhead_%s_count{bulkhead=\"db\"} %" PRIu64 "\n",
                           name, n, name, sum, name, n);
    return at;
}

TEST the_prometheus_text_has_all_figures(void)
{
    static const struct {
        const char *name, *type;
        uint64_t value;
    } figures[] = {
        {"permits", "gauge", 4},
        {"queue_limit", "gauge", 16},
        {"in_use", "gauge", 3},
        {"available", "gauge", 1},
        {"queued", "gauge", 2},
        {"delayed", "gauge", 5},
        {"peak_in_use", "gauge", 9},
        {"peak_queued", "gauge", 10},
        {"workers", "gauge", 6},
        {"workers_idle", "gauge", 7},
        {"workers_stuck", "gauge", 8},
        {"accepted_total", "counter", 100},
        {"rejected_total", "counter", UINT64_MAX},
        {"succeeded_total", "counter", 90},
        {"failed_total", "counter", 1},
        {"timed_out_total", "counter", 2},
        {"expired_total", "counter", 3},
        {"cancelled_total", "counter", 4},
        {"aborted_total", "counter", 0},
        {"retried_total", "counter", 11},
        {"late_total", "counter", 12},
    };
    static bulkhead_stats s;
    static char expected[16384];
    memset((void *)&s, 0, sizeof s);
    s.permits = 4;
    s.queue = 16;
    s.in_use = 3;
    s.available = 1;
    s.queued = 2;
    s.delayed = 5;
    s.peak_in_use = 9;
    s.peak_queued = 10;
    s.workers = 6;
    s.workers_idle = 7;
    s.workers_stuck = 8;
    s.longest_wait_ns = INT64_C(1020304050);
    s.accepted = 100;
    s.rejected = UINT64_MAX;
    s.succeeded = 90;
    s.failed = 1;
    s.timed_out = 2;
    s.expired = 3;
    s.cancelled = 4;
    s.aborted = 0;
    s.retried = 11;
    s.late = 12;
    s.wait.count = 3; /* of no time at all */
    s.wait.buckets[0] = 3;
    s.run.sum_ns = INT64_C(12345678901234567);
    size_t at = 0;
    for (size_t i = 0; i < sizeof figures / sizeof figures[0]; i++) {
        at += (size_t)snprintf(expected + at, sizeof expected - at,
                               "# TYPE bulkhead_%s %s\nbulkhead_%s{bulkhead=\"db\"} %" PRIu64 "\n",
                               figures[i].name, figures[i].type, figures[i].name, figures[i].value);
    }
    at += (size_t)snprintf(expected + at, sizeof expected - at,
                           "# TYPE bulkhead_longest_wait_seconds gauge\n"
                           "bulkhead_longest_wait_seconds{bulkhead=\"db\"} 1.020304050\n");
    at += expected_histogram(expected + at, sizeof expected - at, "wait_seconds", 3, "0.000000000");
    at += expected_histogram(expected + at, sizeof expected - at, "run_seconds", 0,
                             "12345678.901234567");
    ASSERT_EQ(at, bulkhead_prometheus(&s, "db", text, sizeof text));
    ASSERT_STR_EQ(expected, text);
    PASS();
}

TEST prometheus_histograms_add_up(void)
{
    bulkhead b;
    bulkhead_options options = {.type = BULKHEAD_ASYNC, .flags = BULKHEAD_TIMINGS};
    ASSERT_INT(0, bulkhead_init(&b, &options));
    int64_t ns = PLIM_MS(2);
    for (int i = 0; i < 20; i++) {
        ASSERT_INT(0, bulkhead_invoke(&b, i % 5 == 0 ? nap : nothing, &ns, NULL));
    }
    bulkhead_stats s = bulkhead_snapshot(&b);
    ASSERT(bulkhead_prometheus(&s, "b", text, sizeof text) < sizeof text);
    /* The buckets of run_seconds: bounds and counts grow, and the last one is the count. */
    static const char bucket[] = "bulkhead_run_seconds_bucket{bulkhead=\"b\",le=\"";
    double bound = -1;
    unsigned long long seen = 0;
    int buckets = 0;
    bool infinite = false;
    for (const char *at = text; (at = strstr(at, bucket)) != NULL;) {
        at += sizeof bucket - 1;
        char *end;
        ASSERT_FALSE(infinite); /* +Inf comes last */
        infinite = *at == '+';
        double next = infinite ? (double)INFINITY : strtod(at, &end);
        ASSERT(next > bound);
        bound = next;
        const char *value = strstr(at, "\"} ");
        ASSERT(value != NULL);
        unsigned long long n = strtoull(value + 3, &end, 10);
        ASSERT(*end == '\n');
        ASSERT(n >= seen);
        seen = n;
        buckets++;
    }
    ASSERT(infinite);
    ASSERT_U64(20, seen);
    ASSERT(buckets > 1);
    const char *sum = strstr(text, "bulkhead_run_seconds_sum{bulkhead=\"b\"} ");
    ASSERT(sum != NULL);
    double seconds = strtod(strchr(sum, ' ') + 1, NULL);
    ASSERT_IN_RANGE((double)s.run.sum_ns / 1e9, seconds, 1e-6);
    ASSERT_ENDS_WELL(&b);
    PASS();
}

TEST labels_are_escaped(void)
{
    static bulkhead_stats s;
    memset((void *)&s, 0, sizeof s);
    ASSERT(bulkhead_prometheus(&s, "a\"b\\c\nd", text, sizeof text) < sizeof text);
    ASSERT(strstr(text, "bulkhead_permits{bulkhead=\"a\\\"b\\\\c\\nd\"} 0\n") != NULL);
    PASS();
}

/* ---- the environment ---- */

#ifndef _WIN32
static void clear_environment(void)
{
    static const char *names[] = {"PERMITS", "QUEUE", "TIMEOUT_MS"};
    for (int i = 0; i < 3; i++) {
        char name[64];
        snprintf(name, sizeof name, "TB_%s", names[i]);
        unsetenv(name);
        snprintf(name, sizeof name, "TB_DEFAULT_%s", names[i]);
        unsetenv(name);
    }
}

TEST options_come_from_the_environment(void)
{
    bulkhead_options o = {.type = BULKHEAD_ASYNC, .permits = 7, .queue = 8, .timeout_ns = 9};
    clear_environment();
    ASSERT_INT(0, bulkhead_options_from_env(&o, "TB_"));
    ASSERT(o.permits == 7 && o.queue == 8 && o.timeout_ns == 9); /* nothing is set */
    setenv("TB_PERMITS", "12", 1);
    setenv("TB_DEFAULT_PERMITS", "99", 1); /* only if the other is not set */
    setenv("TB_DEFAULT_QUEUE", "34", 1);
    setenv("TB_TIMEOUT_MS", "56", 1);
    ASSERT_INT(0, bulkhead_options_from_env(&o, "TB_"));
    ASSERT_INT(12, o.permits);
    ASSERT_INT(34, o.queue);
    ASSERT(o.timeout_ns == PLIM_MS(56));
    ASSERT_INT(BULKHEAD_ASYNC, o.type);
    setenv("TB_QUEUE", "0", 1);
    setenv("TB_TIMEOUT_MS", "0", 1);
    ASSERT_INT(0, bulkhead_options_from_env(&o, "TB_"));
    ASSERT_INT(PLIM_NONE, o.queue);
    ASSERT(o.timeout_ns == PLIM_NONE);
    static const char *none[] = {"unlimited", "null"};
    for (int i = 0; i < 2; i++) {
        setenv("TB_PERMITS", none[i], 1);
        setenv("TB_QUEUE", none[i], 1);
        setenv("TB_TIMEOUT_MS", none[i], 1);
        ASSERT_INT(0, bulkhead_options_from_env(&o, "TB_"));
        ASSERT_INT(BULKHEAD_UNLIMITED, o.permits);
        ASSERT_INT(BULKHEAD_UNLIMITED, o.queue);
        bulkhead b; /* and it is good for an init */
        ASSERT_INT(0, bulkhead_init(&b, &o));
        ASSERT_INT(BULKHEAD_UNLIMITED, bulkhead_snapshot(&b).permits);
        ASSERT_INT(0, bulkhead_invoke(&b, nothing, NULL, NULL));
        ASSERT_ENDS_WELL(&b);
    }
    clear_environment();
    PASS();
}

TEST anything_else_in_the_environment_is_refused(void)
{
    static const char *bad[] = {"",
                                " ",
                                "-1",
                                "+1",
                                "1 ",
                                " 1",
                                "1x",
                                "x",
                                "0x10",
                                "1.5",
                                "1e3",
                                "Unlimited",
                                "NULL",
                                "nul",
                                "12,3",
                                "unlimited ",
                                "2147483648",
                                "4294967297",
                                "18446744073709551617",
                                "99999999999999999999999999"};
    static const char *names[] = {"TB_PERMITS",       "TB_QUEUE",
                                  "TB_TIMEOUT_MS",    "TB_DEFAULT_PERMITS",
                                  "TB_DEFAULT_QUEUE", "TB_DEFAULT_TIMEOUT_MS"};
    clear_environment();
    for (size_t n = 0; n < 6; n++) {
        for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
            bool fits = n % 3 == 2 && (i == 16 || i == 17); /* a long timeout, but one */
            bulkhead_options o = {.permits = 7, .queue = 8, .timeout_ns = 9};
            setenv("TB_DEFAULT_PERMITS", "5", 1);
            setenv("TB_DEFAULT_QUEUE", "5", 1);
            setenv(names[n], bad[i], 1);
            int error = bulkhead_options_from_env(&o, "TB_");
            if (error != (fits ? 0 : EINVAL)) {
                printf("%s=\"%s\" gives %d\n", names[n], bad[i], error);
                FAIL();
            }
            if (!fits) {
                ASSERT(o.permits == 7 && o.queue == 8 && o.timeout_ns == 9);
            }
            clear_environment();
        }
    }
    bulkhead_options o = {.permits = 7};
    setenv("TB_PERMITS", "0", 1); /* an error, there */
    ASSERT_INT(EINVAL, bulkhead_options_from_env(&o, "TB_"));
    ASSERT_INT(7, o.permits);
    clear_environment();
    setenv("TB_DEFAULT_PERMITS", "00", 1);
    ASSERT_INT(EINVAL, bulkhead_options_from_env(&o, "TB_"));
    clear_environment();
    /* The largest that fit. */
    setenv("TB_TIMEOUT_MS", "9223372036854", 1);
    ASSERT_INT(0, bulkhead_options_from_env(&o, "TB_"));
    ASSERT(o.timeout_ns == PLIM_MS(INT64_C(9223372036854)));
    setenv("TB_TIMEOUT_MS", "9223372036855", 1);
    ASSERT_INT(EINVAL, bulkhead_options_from_env(&o, "TB_"));
    clear_environment();
    PASS();
}
#endif

/* ---- what is promised throughout ---- */

#define KEEPS_ERRNO(call) \
    do { \
        errno = 4711; \
        (void)(call); \
        ASSERT_INT(4711, errno); \
    } while (0)

TEST errno_is_left_alone(int type)
{
    bulkhead b;
    bulkhead_options options = {.type = type, .flags = BULKHEAD_TIMINGS, .name = "errno"};
    KEEPS_ERRNO(bulkhead_init(&b, &options));
    KEEPS_ERRNO(bulkhead_enter(&b));
    KEEPS_ERRNO(bulkhead_try_enter(&b));
    KEEPS_ERRNO(bulkhead_enter(&b));
    KEEPS_ERRNO(bulkhead_enter_for(&b, PLIM_MS(2)));
    caller c = {.b = &b, .call = ENTER};
    ASSERT(queue_up(&c, 1));
    KEEPS_ERRNO(bulkhead_leave(&b));
    ASSERT(finished(&c));
    KEEPS_ERRNO(bulkhead_leave(&b));
    KEEPS_ERRNO(bulkhead_invoke(&b, nothing, NULL, NULL));
    bulkhead_job job = {.run = run_nothing, .delay_ns = PLIM_MS(1)};
    KEEPS_ERRNO(bulkhead_submit(&b, &job));
    KEEPS_ERRNO(bulkhead_submit(&b, &job));
    KEEPS_ERRNO(bulkhead_wait(&job, PLIM_US(10)));
    KEEPS_ERRNO(bulkhead_wait(&job, PLIM_S(PATIENCE_S)));
    KEEPS_ERRNO(bulkhead_cancel(&b, &job));
    KEEPS_ERRNO(bulkhead_reclaim(&job, 0));
    KEEPS_ERRNO(bulkhead_resize(&b, 2, 2));
    KEEPS_ERRNO(bulkhead_wait_idle(&b, PLIM_S(PATIENCE_S)));
    KEEPS_ERRNO(bulkhead_snapshot(&b));
    KEEPS_ERRNO(bulkhead_options_from_env(&options, "TB_"));
    KEEPS_ERRNO(bulkhead_close(&b, BULKHEAD_DRAIN, PLIM_S(PATIENCE_S)));
    KEEPS_ERRNO(bulkhead_destroy(&b));
    ASSERT_INT(blocks_before, atomic_load(&blocks));
    PASS();
}

typedef struct ledger {
    bulkhead *b;
    long balance; /* plain: the permit is what protects it */
    int rounds;
    atomic_int lost;
} ledger;

static int book(void *arg)
{
    ((ledger *)arg)->balance++;
    return 0;
}

static plim_thread_result keep_books(void *arg)
{
    ledger *l = arg;
    for (int i = 0; i < l->rounds; i++) {
        int error;
        switch (i % 4) {
        case 0:
            error = bulkhead_enter(l->b);
            break;
        case 1:
            error = bulkhead_enter_for(l->b, PLIM_S(PATIENCE_S));
            break;
        case 2:
            while ((error = bulkhead_try_enter(l->b)) == EAGAIN) {
                plim_thread_yield_();
            }
            break;
        default:
            error = bulkhead_invoke(l->b, book, l, NULL);
            if (error != 0) {
                atomic_fetch_add(&l->lost, 1);
            }
            continue;
        }
        if (error != 0) {
            atomic_fetch_add(&l->lost, 1);
            continue;
        }
        book(l);
        bulkhead_leave(l->b);
    }
    return 0;
}

TEST what_was_done_before_leave_is_seen_by_who_enters(int type, uint32_t flags)
{
    bulkhead b;
    bulkhead_options options = {.type = type, .flags = flags};
    ASSERT_INT(0, bulkhead_init(&b, &options));
    ledger l = {.b = &b, .rounds = scaled(4000)};
    plim_thread threads[4];
    for (int i = 0; i < 4; i++) {
        start(&threads[i], keep_books, &l);
    }
    for (int i = 0; i < 4; i++) {
        join(threads[i]);
    }
    ASSERT_INT(0, atomic_load(&l.lost));
    ASSERT_EQ(4L * l.rounds, l.balance);
    ASSERT_INT(0, bulkhead_close(&b, BULKHEAD_DRAIN, PLIM_S(PATIENCE_S)));
    ASSERT_INT(0, bulkhead_destroy(&b));
    ASSERT_INT(blocks_before, atomic_load(&blocks));
    PASS();
}

typedef struct parcel {
    bulkhead_job job;
    int question, answer, seen_by_done;
} parcel;

static int reply(bulkhead_job *job)
{
    parcel *p = job->arg;
    p->answer = p->question * 2;
    return 0;
}

static void look(bulkhead_job *job)
{
    parcel *p = job->arg;
    p->seen_by_done = p->answer;
}

TEST what_was_done_before_submit_and_in_run_is_seen(void)
{
    bulkhead b;
    ASSERT(make(&b, BULKHEAD_ASYNC, 2, 0));
    for (int i = scaled(2000); i > 0; i--) {
        parcel p = {.question = i};
        p.job.run = reply;
        p.job.done = look;
        p.job.arg = &p;
        ASSERT_INT(0, bulkhead_submit(&b, &p.job));
        ASSERT_INT(0, bulkhead_wait(&p.job, PLIM_S(PATIENCE_S)));
        ASSERT_INT(2 * i, p.answer);
        ASSERT_INT(2 * i, p.seen_by_done);
    }
    ASSERT_ENDS_WELL(&b);
    PASS();
}

TEST nothing_is_allocated_when_the_workers_are_there(void)
{
    bulkhead b;
    gate g[2];
    gates_init(g, 2);
    bulkhead_options options = {
        .type = BULKHEAD_ASYNC, .permits = 2, .attempts = 2, .flags = BULKHEAD_TIMINGS};
    ASSERT_INT(0, bulkhead_init(&b, &options));
    for (int i = 0; i < 2; i++) {
        ASSERT_INT(0, bulkhead_submit(&b, &g[i].job));
    }
    ASSERT(has_entered(&g[0]));
    ASSERT(has_entered(&g[1]));
    let_all_go(g, 2);
    ASSERT_INT(0, bulkhead_wait_idle(&b, PLIM_S(PATIENCE_S)));
    bulkhead_job warm = {.run = run_nothing, .delay_ns = PLIM_US(10)}; /* the supervisor */
    ASSERT_INT(0, bulkhead_submit(&b, &warm));
    ASSERT_INT(0, bulkhead_wait(&warm, PLIM_S(PATIENCE_S)));
    int before = atomic_load(&allocations), error = EIO;
    for (int i = 0; i < 50; i++) {
        bulkhead_job jobs[4] = {{.run = run_nothing},
                                {.run = run_nothing, .delay_ns = PLIM_US(100)},
                                {.run = run_result, .arg = &error},
                                {.run = run_nothing, .start_within_ns = PLIM_S(PATIENCE_S)}};
        for (int j = 0; j < 4; j++) {
            ASSERT_INT(0, bulkhead_submit(&b, &jobs[j]));
        }
        (void)bulkhead_cancel(&b, &jobs[3]);
        for (int j = 0; j < 4; j++) {
            ASSERT_INT(0, bulkhead_wait(&jobs[j], PLIM_S(PATIENCE_S)));
        }
        ASSERT_INT(0, bulkhead_invoke(&b, nothing, NULL, NULL));
        ASSERT_INT(0, bulkhead_enter(&b));
        ASSERT_INT(0, bulkhead_leave(&b));
        (void)bulkhead_snapshot(&b);
        ASSERT_INT(0, bulkhead_wait_idle(&b, PLIM_S(PATIENCE_S)));
    }
    ASSERT_INT(before, atomic_load(&allocations));
    ASSERT_ENDS_WELL(&b);
    PASS();
}

/* ---- no lost wake-up ---- */

TEST no_invoke_is_ever_lost(int type, uint32_t flags, int n)
{
    bulkhead b;
    bulkhead_options options = {.type = type, .flags = flags};
    ASSERT_INT(0, bulkhead_init(&b, &options));
    atomic_int ran = 0;
    n = scaled(n);
    int64_t longest = 0, until = plim_now_() + PLIM_S(LOOP_S);
    int done = 0;
    for (; done < n && plim_now_() < until; done++) {
        int64_t from = plim_now_();
        ASSERT_INT(0, bulkhead_invoke(&b, count, &ran, NULL));
        int64_t took = plim_now_() - from;
        longest = took > longest ? took : longest;
    }
    ASSERT(longest < PLIM_S(PATIENCE_S) / 2); /* none waited until something else came along */
    ASSERT_INT(done, atomic_load(&ran));
    ASSERT_INT(0, bulkhead_close(&b, BULKHEAD_DRAIN, PLIM_S(PATIENCE_S)));
    ASSERT_INT(0, bulkhead_destroy(&b));
    PASS();
}

static plim_thread_result submit_many(void *arg)
{
    member *m = arg;
    crowd *c = m->crowd;
    enum { BATCH = 8 };
    bulkhead_job jobs[BATCH];
    wait_for_go(c);
    int64_t until = plim_now_() + PLIM_S(LOOP_S);
    for (int i = 0; i < c->rounds && plim_now_() < until; i++) {
        for (int j = 0; j < BATCH; j++) {
            jobs[j] = (bulkhead_job){.run = run_count, .arg = &c->inside};
            int error = j % 2 == 0 ? bulkhead_submit_for(c->b, &jobs[j], PLIM_S(PATIENCE_S))
                                   : bulkhead_submit(c->b, &jobs[j]);
            atomic_fetch_add(error == 0        ? &c->accepted
                             : error == EAGAIN ? &c->refused
                                               : &c->odd,
                             1);
            if (error != 0) {
                jobs[j].run = NULL;
            }
        }
        for (int j = 0; j < BATCH; j++) {
            if (jobs[j].run != NULL && (bulkhead_wait(&jobs[j], PLIM_S(PATIENCE_S)) != 0 ||
                                        jobs[j].outcome != BULKHEAD_SUCCEEDED)) {
                atomic_fetch_add(&c->wrong, 1);
            }
        }
    }
    return 0;
}

TEST no_job_is_ever_lost(int threads, int32_t permits, int32_t queue, int rounds)
{
    bulkhead b;
    member m[16];
    ASSERT(make(&b, BULKHEAD_ASYNC, permits, queue));
    crowd c = {.b = &b, .rounds = scaled(rounds)};
    start_crowd(&c, m, threads, submit_many);
    join_crowd(m, threads);
    ASSERT_INT(0, atomic_load(&c.wrong));
    ASSERT_INT(0, atomic_load(&c.odd));
    ASSERT_INT(atomic_load(&c.accepted), atomic_load(&c.inside));
    bulkhead_stats s = bulkhead_snapshot(&b);
    ASSERT_U64(atomic_load(&c.accepted), s.accepted);
    ASSERT_U64(atomic_load(&c.refused), s.rejected);
    ASSERT(s.peak_in_use <= (uint32_t)permits);
    ASSERT(s.workers <= (uint32_t)permits);
    ASSERT_ENDS_WELL(&b);
    PASS();
}

typedef struct chaos_job {
    bulkhead_job job;
    atomic_int runs, dones;
} chaos_job;

static int chaos_run(bulkhead_job *job)
{
    chaos_job *c = job->arg;
    atomic_fetch_add(&c->runs, 1);
    dawdle((uint64_t)(uintptr_t)job / 64 + job->attempt);
    return (int)(job->attempt % 3);
}

static void chaos_done(bulkhead_job *job)
{
    chaos_job *c = job->arg;
    atomic_fetch_add(&c->dones, 1);
}

static plim_thread_result do_anything(void *arg)
{
    member *m = arg;
    crowd *c = m->crowd;
    uint64_t random = 77 + (uint64_t)m->number;
    wait_for_go(c);
    int64_t until = plim_now_() + PLIM_S(LOOP_S);
    for (int i = 0; i < c->rounds && plim_now_() < until; i++) {
        chaos_job j[3];
        bool in[3];
        for (int k = 0; k < 3; k++) {
            uint64_t r = next_random(&random);
            memset((void *)&j[k], 0, sizeof j[k]);
            j[k].job.run = chaos_run;
            j[k].job.done = chaos_done;
            j[k].job.arg = &j[k];
            j[k].job.delay_ns = r % 4 == 0 ? (int64_t)(r / 4 % 200000) : 0;
            j[k].job.start_within_ns = r / 16 % 4 == 0 ? (int64_t)(r / 64 % 200000) + 1 : 0;
            j[k].job.run_timeout_ns = r / 256 % 4 == 0 ? (int64_t)(r / 1024 % 30000) + 1 : 0;
            int error = bulkhead_submit_for(c->b, &j[k].job, PLIM_US(r / 4096 % 100));
            in[k] = error == 0;
            atomic_fetch_add(in[k] ? &c->accepted : &c->refused, 1);
            if (!in[k] && error != ETIMEDOUT && error != EAGAIN) {
                atomic_fetch_add(&c->odd, 1);
            }
        }
        uint64_t r = next_random(&random);
        if (in[r % 3] && r / 3 % 2 == 0) {
            (void)bulkhead_cancel(c->b, &j[r % 3].job);
        }
        if (bulkhead_enter_for(c->b, PLIM_US(r / 8 % 100)) == 0) {
            dawdle(r);
            if (bulkhead_leave(c->b) != 0) {
                atomic_fetch_add(&c->wrong, 1);
            }
        } else {
            atomic_fetch_add(&c->refused, 1);
        }
        if (r / 1024 % 16 == 0) {
            (void)bulkhead_resize(c->b, 1 + (int32_t)(r / 16384 % 4), 1 + (int32_t)(r / 65536 % 4));
        }
        for (int k = 0; k < 3; k++) {
            if (!in[k]) {
                continue;
            }
            if (bulkhead_wait(&j[k].job, PLIM_S(PATIENCE_S)) != 0 ||
                bulkhead_reclaim(&j[k].job, PLIM_S(PATIENCE_S)) != 0 ||
                atomic_load(&j[k].dones) != 1 || j[k].job.outcome == BULKHEAD_PENDING ||
                atomic_load(&j[k].runs) > 4) {
                atomic_fetch_add(&c->wrong, 1);
            }
        }
    }
    return 0;
}

/* Everything at once, from several threads: the books balance in the end. */
TEST whatever_happens_every_job_ends_once(uint32_t flags)
{
    enum { N = 4 };
    bulkhead b;
    member m[N];
    bulkhead_options options = {.type = BULKHEAD_ASYNC,
                                .permits = 2,
                                .queue = 3,
                                .attempts = 4,
                                .retry_delay_ns = PLIM_US(20),
                                .flags = flags};
    ASSERT_INT(0, bulkhead_init(&b, &options));
    crowd c = {.b = &b, .rounds = scaled(2000)};
    start_crowd(&c, m, N, do_anything);
    join_crowd(m, N);
    ASSERT_INT(0, atomic_load(&c.wrong));
    ASSERT_INT(0, atomic_load(&c.odd));
    ASSERT_INT(0, bulkhead_wait_idle(&b, PLIM_S(PATIENCE_S)));
    bulkhead_stats s = bulkhead_snapshot(&b);
    ASSERT_U64(atomic_load(&c.accepted), s.accepted);
    ASSERT_U64(atomic_load(&c.refused), s.rejected);
    ASSERT(s.peak_in_use <= 4 + 0);
    ASSERT_ENDS_WELL(&b);
    PASS();
}

/* ---- all of them ---- */

SUITE(options_suite)
{
    SET_SETUP(remember_blocks, NULL);
    RUN_TEST(all_zero_options_are_one_permit_and_a_line);
    RUN_TEST(bad_options_are_refused);
    RUN_TESTp(limits_are_reported_as_set, 1, PLIM_NONE, 1, 0);
    RUN_TESTp(limits_are_reported_as_set, 5, 7, 5, 7);
    RUN_TESTp(limits_are_reported_as_set, PLIM_NONE, 0, 0, BULKHEAD_UNLIMITED);
    RUN_TESTp(limits_are_reported_as_set, BULKHEAD_UNLIMITED, BULKHEAD_UNLIMITED,
              BULKHEAD_UNLIMITED, BULKHEAD_UNLIMITED);
    RUN_TESTp(limits_are_reported_as_set, 0, 0, 1, BULKHEAD_UNLIMITED);
    RUN_TEST(init_starts_no_thread_and_allocates_only_for_timings);
    RUN_TEST(options_are_copied);
}

SUITE(admission_suite)
{
    SET_SETUP(remember_blocks, NULL);
    RUN_TESTp(exactly_p_jobs_run_and_q_wait, 1, 2, 4);
    RUN_TESTp(exactly_p_jobs_run_and_q_wait, 5, 0, 3);
    RUN_TESTp(exactly_p_jobs_run_and_q_wait, 16, 0, 3);
    RUN_TESTp(exactly_p_jobs_run_and_q_wait, 3, 0, 4);
    RUN_TESTp(exactly_p_jobs_run_and_q_wait, 3, 1, 5);
    RUN_TESTp(exactly_p_jobs_run_and_q_wait, 6, 3, 9);
    RUN_TESTp(exactly_p_jobs_run_and_q_wait, 5, 3, 8);
    RUN_TESTp(exactly_p_jobs_run_and_q_wait, 1, 6, 5);
    RUN_TESTp(exactly_p_callers_enter_and_q_wait, BULKHEAD_SYNC, ENTER, 3, 0, 4);
    RUN_TESTp(exactly_p_callers_enter_and_q_wait, BULKHEAD_SYNC, ENTER, 3, 1, 5);
    RUN_TESTp(exactly_p_callers_enter_and_q_wait, BULKHEAD_SYNC, ENTER, 6, 3, 9);
    RUN_TESTp(exactly_p_callers_enter_and_q_wait, BULKHEAD_SYNC, ENTER, 1, 6, 5);
    RUN_TESTp(exactly_p_callers_enter_and_q_wait, BULKHEAD_ASYNC, ENTER, 3, 0, 4);
    RUN_TESTp(exactly_p_callers_enter_and_q_wait, BULKHEAD_ASYNC, ENTER, 3, 1, 5);
    RUN_TESTp(exactly_p_callers_enter_and_q_wait, BULKHEAD_ASYNC, ENTER, 6, 3, 9);
    RUN_TESTp(exactly_p_callers_enter_and_q_wait, BULKHEAD_ASYNC, ENTER, 1, 6, 5);
    RUN_TESTp(exactly_p_callers_enter_and_q_wait, BULKHEAD_SYNC, INVOKE, 3, 0, 4);
    RUN_TESTp(exactly_p_callers_enter_and_q_wait, BULKHEAD_SYNC, INVOKE, 3, 1, 5);
    RUN_TESTp(exactly_p_callers_enter_and_q_wait, BULKHEAD_SYNC, INVOKE, 6, 3, 9);
    RUN_TESTp(exactly_p_callers_enter_and_q_wait, BULKHEAD_SYNC, INVOKE, 1, 6, 5);
    RUN_TESTp(exactly_p_callers_enter_and_q_wait, BULKHEAD_ASYNC, INVOKE, 3, 0, 4);
    RUN_TESTp(exactly_p_callers_enter_and_q_wait, BULKHEAD_ASYNC, INVOKE, 3, 1, 5);
    RUN_TESTp(exactly_p_callers_enter_and_q_wait, BULKHEAD_ASYNC, INVOKE, 6, 3, 9);
    RUN_TESTp(exactly_p_callers_enter_and_q_wait, BULKHEAD_ASYNC, INVOKE, 1, 6, 5);
    RUN_TEST(as_many_as_fit_are_never_refused_and_the_next_always_is);
    RUN_TESTp(the_bound_is_exact_from_many_threads, submit_once);
    RUN_TESTp(the_bound_is_exact_from_many_threads, submit_or_enter_once);
    RUN_TESTp(one_permit_is_taken_by_exactly_one_of_many_tries, BULKHEAD_SYNC);
    RUN_TESTp(one_permit_is_taken_by_exactly_one_of_many_tries, BULKHEAD_ASYNC);
    RUN_TESTp(never_more_than_the_permits_are_inside, BULKHEAD_SYNC, 0, 64, 10, 200);
    RUN_TESTp(never_more_than_the_permits_are_inside, BULKHEAD_SYNC, BULKHEAD_UNFAIR, 64, 10, 200);
    RUN_TESTp(never_more_than_the_permits_are_inside, BULKHEAD_ASYNC, 0, 16, 3, 200);
    RUN_TESTp(never_more_than_the_permits_are_inside, BULKHEAD_ASYNC,
              BULKHEAD_UNFAIR | BULKHEAD_INLINE, 16, 3, 200);
    RUN_TESTp(never_more_than_the_permits_are_inside, BULKHEAD_SYNC, BULKHEAD_TIMINGS, 8, 2, 500);
    RUN_TEST(bulkheads_do_not_share_permits);
    RUN_TEST(thirty_jobs_over_ten_permits_all_end);
    RUN_TESTp(without_a_queue_nobody_waits, BULKHEAD_SYNC);
    RUN_TESTp(without_a_queue_nobody_waits, BULKHEAD_ASYNC);
    RUN_TEST(tries_take_what_is_free_and_leave_gives_back);
    RUN_TEST(without_permits_nobody_enters_until_a_resize);
}

SUITE(order_suite)
{
    SET_SETUP(remember_blocks, NULL);
    RUN_TESTp(callers_and_jobs_are_served_in_order_of_arrival, 0);
    RUN_TESTp(callers_and_jobs_are_served_in_order_of_arrival, BULKHEAD_INLINE);
    RUN_TESTp(callers_and_jobs_are_served_in_order_of_arrival, BULKHEAD_TIMINGS | BULKHEAD_STATS);
    RUN_TEST(a_newcomer_does_not_pass_those_who_wait);
    RUN_TESTp(nobody_is_passed_for_ever, 0, BULKHEAD_SYNC);
    RUN_TESTp(nobody_is_passed_for_ever, BULKHEAD_UNFAIR, BULKHEAD_SYNC);
    RUN_TESTp(nobody_is_passed_for_ever, 0, BULKHEAD_ASYNC);
    RUN_TESTp(nobody_is_passed_for_ever, BULKHEAD_UNFAIR, BULKHEAD_ASYNC);
}

SUITE(timeouts_suite)
{
    SET_SETUP(remember_blocks, NULL);
    RUN_TESTp(a_wait_ends_in_time_and_not_early, BULKHEAD_SYNC);
    RUN_TESTp(a_wait_ends_in_time_and_not_early, BULKHEAD_ASYNC);
    RUN_TESTp(the_timeout_of_the_options_is_that_of_enter_and_invoke, BULKHEAD_SYNC, 0);
    RUN_TESTp(the_timeout_of_the_options_is_that_of_enter_and_invoke, BULKHEAD_ASYNC, 0);
    RUN_TESTp(the_timeout_of_the_options_is_that_of_enter_and_invoke, BULKHEAD_ASYNC,
              BULKHEAD_INLINE);
    RUN_TESTp(the_timeout_of_the_options_is_that_of_enter_and_invoke, BULKHEAD_SYNC,
              BULKHEAD_UNFAIR);
    RUN_TESTp(a_timeout_of_none_never_waits, BULKHEAD_SYNC);
    RUN_TESTp(a_timeout_of_none_never_waits, BULKHEAD_ASYNC);
    RUN_TESTp(odd_timeouts_mean_what_they_say, 0);
    RUN_TESTp(odd_timeouts_mean_what_they_say, -1);
    RUN_TESTp(odd_timeouts_mean_what_they_say, INT64_MIN);
    RUN_TESTp(odd_timeouts_mean_what_they_say, 1);
    RUN_TESTp(odd_timeouts_mean_what_they_say, INT64_MAX - 1);
    RUN_TESTp(odd_timeouts_mean_what_they_say, INT64_MAX);
    RUN_TESTp(waits_that_gave_up_leak_nothing, BULKHEAD_SYNC);
    RUN_TESTp(waits_that_gave_up_leak_nothing, BULKHEAD_ASYNC);
    RUN_TESTp(timeouts_may_race_with_a_release, BULKHEAD_SYNC, 0);
    RUN_TESTp(timeouts_may_race_with_a_release, BULKHEAD_ASYNC, 0);
    RUN_TESTp(timeouts_may_race_with_a_release, BULKHEAD_SYNC, BULKHEAD_UNFAIR);
    RUN_TEST(a_caller_that_gives_up_makes_room);
    RUN_TEST(one_in_the_middle_that_gives_up_disturbs_nobody);
}

SUITE(enter_leave_scope_invoke_suite)
{
    SET_SETUP(remember_blocks, NULL);
    RUN_TESTp(leave_without_enter_is_refused, BULKHEAD_SYNC);
    RUN_TESTp(leave_without_enter_is_refused, BULKHEAD_ASYNC);
    RUN_TEST(another_thread_may_leave);
    RUN_TEST(a_scope_leaves_on_every_way_out);
    RUN_TEST(a_refused_scope_skips_its_block);
    RUN_TESTp(invoke_gives_what_the_function_returned, BULKHEAD_SYNC, 0, true);
    RUN_TESTp(invoke_gives_what_the_function_returned, BULKHEAD_ASYNC, 0, false);
    RUN_TESTp(invoke_gives_what_the_function_returned, BULKHEAD_ASYNC, BULKHEAD_INLINE, true);
    RUN_TESTp(invoke_gives_what_the_function_returned, BULKHEAD_ASYNC, BULKHEAD_TIMINGS, false);
    RUN_TEST(inline_invoke_goes_to_a_worker_when_no_permit_is_free);
    RUN_TESTp(a_failing_body_gives_its_permit_back, BULKHEAD_SYNC);
    RUN_TESTp(a_failing_body_gives_its_permit_back, BULKHEAD_ASYNC);
    RUN_TESTp(every_refusal_counts_and_admissions_count_if_asked, 0);
    RUN_TESTp(every_refusal_counts_and_admissions_count_if_asked, BULKHEAD_STATS);
    RUN_TESTp(every_refusal_counts_and_admissions_count_if_asked, BULKHEAD_STATS | BULKHEAD_UNFAIR);
}

SUITE(submit_and_wait_suite)
{
    SET_SETUP(remember_blocks, NULL);
    RUN_TEST(a_job_runs_once_and_is_done_once);
    RUN_TEST(bad_jobs_are_refused);
    RUN_TEST(what_was_never_submitted_is_told_so);
    RUN_TEST(a_job_in_flight_is_not_taken_again);
    RUN_TEST(many_threads_may_wait_for_one_job);
    RUN_TEST(nobody_may_wait_for_a_detached_job);
    RUN_TEST(a_detached_job_may_be_freed_in_done);
    RUN_TEST(a_detached_job_may_be_submitted_again_in_done);
    RUN_TESTp(the_permit_is_given_back_after_done_or_before_if_detached, false);
    RUN_TESTp(the_permit_is_given_back_after_done_or_before_if_detached, true);
    RUN_TEST(a_submit_does_not_wait_for_a_place_unless_told);
    RUN_TESTp(the_timeout_of_the_options_is_that_of_submit, 0, EAGAIN);
    RUN_TESTp(the_timeout_of_the_options_is_that_of_submit, PLIM_NONE, EAGAIN);
    RUN_TESTp(the_timeout_of_the_options_is_that_of_submit, PLIM_MS(20), ETIMEDOUT);
    RUN_TESTp(a_submitter_that_waits_for_a_place_gets_it, BY_END);
    RUN_TESTp(a_submitter_that_waits_for_a_place_gets_it, BY_CANCEL);
    RUN_TESTp(a_submitter_that_waits_for_a_place_gets_it, BY_EXPIRY);
    RUN_TESTp(a_submitter_that_waits_for_a_place_gets_it, BY_GIVING_UP);
    RUN_TESTp(a_submitter_that_waits_for_a_place_gets_it, BY_RESIZE);
    RUN_TESTp(a_submitter_that_waits_for_a_place_gets_it, BY_PERMIT);
    RUN_TEST(submitters_for_a_place_give_up_in_time_and_leave_nothing);
    RUN_TEST(a_job_may_end_its_thread);
}

SUITE(waits_that_could_never_end_suite)
{
    SET_SETUP(remember_blocks, NULL);
    RUN_TESTp(a_job_that_would_wait_for_itself_is_told, NEST_INVOKE);
    RUN_TESTp(a_job_that_would_wait_for_itself_is_told, NEST_ENTER);
    RUN_TESTp(a_job_that_would_wait_for_itself_is_told, NEST_SUBMIT_AND_WAIT);
    RUN_TESTp(a_job_that_would_wait_for_itself_is_told, NEST_SELF);
    RUN_TESTp(a_job_that_would_wait_for_itself_is_told, NEST_IDLE);
    RUN_TESTp(a_job_that_would_wait_for_itself_is_told, NEST_DRAIN);
    RUN_TESTp(a_job_that_would_wait_for_itself_is_told, NEST_ABORT);
    RUN_TESTp(a_done_that_would_wait_for_itself_is_told, NEST_SELF);
    RUN_TESTp(a_done_that_would_wait_for_itself_is_told, NEST_IDLE);
    RUN_TESTp(a_done_that_would_wait_for_itself_is_told, NEST_DRAIN);
    RUN_TESTp(a_done_that_would_wait_for_itself_is_told, NEST_ABORT);
    RUN_TESTp(two_jobs_on_two_permits_that_wait_for_a_third_do_not_hang, NEST_INVOKE);
    RUN_TESTp(two_jobs_on_two_permits_that_wait_for_a_third_do_not_hang, NEST_ENTER);
    RUN_TESTp(two_jobs_on_two_permits_that_wait_for_a_third_do_not_hang, NEST_SUBMIT_AND_WAIT);
    RUN_TESTp(two_jobs_on_two_permits_that_wait_for_a_third_do_not_hang, NEST_PEER);
    RUN_TESTp(a_job_may_wait_for_another_while_a_permit_is_left, NEST_INVOKE);
    RUN_TESTp(a_job_may_wait_for_another_while_a_permit_is_left, NEST_ENTER);
    RUN_TESTp(a_job_may_wait_for_another_while_a_permit_is_left, NEST_SUBMIT_AND_WAIT);
    RUN_TEST(a_full_queue_in_front_of_the_own_job_is_told);
    RUN_TESTp(a_thread_that_holds_the_last_permit_is_told, BULKHEAD_SYNC);
    RUN_TESTp(a_thread_that_holds_the_last_permit_is_told, BULKHEAD_ASYNC);
    RUN_TEST(a_thread_may_hold_several_permits);
    RUN_TESTp(invokes_nest_as_deep_as_there_are_permits, BULKHEAD_SYNC, 0);
    RUN_TESTp(invokes_nest_as_deep_as_there_are_permits, BULKHEAD_ASYNC, 0);
    RUN_TESTp(invokes_nest_as_deep_as_there_are_permits, BULKHEAD_ASYNC, BULKHEAD_INLINE);
    RUN_TEST(a_job_may_begin_to_close_its_own_bulkhead);
    RUN_TEST(a_holder_may_wait_for_a_job_while_a_permit_is_left);
    RUN_TEST(jobs_may_submit_jobs);
}

SUITE(cancel_suite)
{
    SET_SETUP(remember_blocks, NULL);
    RUN_TEST(a_queued_job_is_cancelled_at_once);
    RUN_TEST(a_delayed_job_can_be_cancelled);
    RUN_TESTp(a_running_job_is_told_and_not_stopped, 0);
    RUN_TESTp(a_running_job_is_told_and_not_stopped, EIO);
    RUN_TEST(a_job_that_waits_for_its_retry_can_be_cancelled);
    RUN_TEST(a_cancel_races_with_the_start_and_one_of_them_wins);
    RUN_TEST(one_in_the_middle_of_the_queue_is_cancelled_alone);
}

SUITE(delays_and_deadlines_suite)
{
    SET_SETUP(remember_blocks, NULL);
    RUN_TEST(a_delayed_job_is_never_early);
    RUN_TEST(a_delayed_job_has_a_place_but_no_permit);
    RUN_TEST(where_nobody_may_wait_a_delayed_job_may_not);
    RUN_TEST(a_job_that_is_due_has_its_place_before_later_ones);
    RUN_TEST(many_delayed_jobs_all_run_in_order_of_their_times);
    RUN_TEST(huge_delays_do_not_overflow);
    RUN_TESTp(a_job_that_cannot_begin_in_time_expires, 0);
    RUN_TESTp(a_job_that_cannot_begin_in_time_expires, PLIM_MS(20));
    RUN_TEST(a_job_that_begins_in_time_does_not_expire);
}

SUITE(retries_suite)
{
    SET_SETUP(remember_blocks, NULL);
    RUN_TESTp(a_failing_job_is_tried_as_often_as_told, 0, 0, 9, 1);
    RUN_TESTp(a_failing_job_is_tried_as_often_as_told, 3, 0, 9, 3);
    RUN_TESTp(a_failing_job_is_tried_as_often_as_told, 3, 0, 1, 2);
    RUN_TESTp(a_failing_job_is_tried_as_often_as_told, 3, 1, 9, 1);
    RUN_TESTp(a_failing_job_is_tried_as_often_as_told, 2, 5, 9, 5);
    RUN_TESTp(a_failing_job_is_tried_as_often_as_told, 0, 4, 3, 4);
    RUN_TESTp(retries_keep_their_delays, 0);
    RUN_TESTp(retries_keep_their_delays, PLIM_MS(6));
    RUN_TEST(retryable_decides);
    RUN_TEST(a_job_holds_no_permit_between_attempts);
    RUN_TESTp(a_retry_comes_back_at_the_end_of_the_queue, 0);
    RUN_TESTp(a_retry_comes_back_at_the_end_of_the_queue, 2);
}

SUITE(run_timeouts_suite)
{
    SET_SETUP(remember_blocks, NULL);
    RUN_TESTp(a_body_that_takes_too_long_times_out_and_keeps_its_permit, false);
    RUN_TESTp(a_body_that_takes_too_long_times_out_and_keeps_its_permit, true);
    RUN_TEST(with_one_permit_a_stuck_body_stops_the_rest_until_a_resize);
    RUN_TEST(a_detached_job_that_timed_out_is_done_when_its_body_is);
    RUN_TEST(a_body_cannot_reclaim_itself);
    RUN_TEST(invoke_waits_for_the_end_of_a_body_that_timed_out);
    RUN_TEST(short_bodies_do_not_time_out);
    RUN_TEST(a_timeout_may_race_with_the_end_of_the_body);
}

SUITE(workers_and_what_they_own_suite)
{
    SET_SETUP(remember_blocks, NULL);
    RUN_TEST(each_worker_owns_its_resource);
    RUN_TEST(workers_are_started_when_needed_and_reused);
    RUN_TEST(both_the_stuck_worker_and_its_replacement_stop);
    RUN_TEST(a_worker_whose_start_fails_is_tried_again_and_reported);
    RUN_TESTp(a_bulkhead_whose_workers_never_start_can_be_closed, BULKHEAD_DRAIN);
    RUN_TESTp(a_bulkhead_whose_workers_never_start_can_be_closed, BULKHEAD_ABORT);
    RUN_TESTp(a_job_whose_worker_is_being_made_has_not_begun, BY_CANCEL, BULKHEAD_CANCELLED);
    RUN_TESTp(a_job_whose_worker_is_being_made_has_not_begun, BY_EXPIRY, BULKHEAD_EXPIRED);
    RUN_TESTp(a_job_whose_worker_is_being_made_has_not_begun, BY_END, BULKHEAD_ABORTED);
    RUN_TEST(a_worker_whose_thread_a_job_ends_stops_as_others_do);
    RUN_TEST(a_stuck_body_may_end_its_thread);
#ifndef _WIN32
    RUN_TESTp(workers_have_a_name_and_leave_signals_to_others, NULL, "bulkhead-0");
    RUN_TESTp(workers_have_a_name_and_leave_signals_to_others, "db", "db-0");
#endif
}

SUITE(executors_suite)
{
    SET_SETUP(remember_blocks, NULL);
    RUN_TEST(an_executor_runs_the_jobs);
    RUN_TEST(an_executor_may_run_on_the_spot);
    RUN_TEST(ten_thousand_jobs_on_the_spot_need_no_deep_stack);
    RUN_TEST(a_refusal_of_the_executor_at_submit_is_told);
    RUN_TEST(a_refusal_of_the_executor_later_aborts_the_job);
    RUN_TESTp(what_the_executor_has_ends_when_it_gets_to_it, BY_CANCEL, BULKHEAD_CANCELLED);
    RUN_TESTp(what_the_executor_has_ends_when_it_gets_to_it, BY_EXPIRY, BULKHEAD_EXPIRED);
    RUN_TESTp(what_the_executor_has_ends_when_it_gets_to_it, BY_END, BULKHEAD_ABORTED);
    RUN_TEST(retries_delays_and_run_timeouts_work_on_an_executor);
    RUN_TESTp(a_job_on_an_executor_that_waits_for_itself_is_told, NEST_INVOKE);
    RUN_TESTp(a_job_on_an_executor_that_waits_for_itself_is_told, NEST_ENTER);
    RUN_TESTp(a_job_on_an_executor_that_waits_for_itself_is_told, NEST_SELF);
    RUN_TESTp(a_job_on_an_executor_that_waits_for_itself_is_told, NEST_IDLE);
    RUN_TESTp(a_job_on_an_executor_that_waits_for_itself_is_told, NEST_DRAIN);
}

SUITE(the_bulkhead_as_an_executor_suite)
{
    SET_SETUP(remember_blocks, NULL);
    RUN_TESTp(a_bulkhead_is_an_executor_for_others, BULKHEAD_DRAIN);
    RUN_TESTp(a_bulkhead_is_an_executor_for_others, BULKHEAD_ABORT);
    RUN_TEST(a_closed_bulkhead_refuses_as_an_executor);
    RUN_TEST(one_bulkhead_may_be_the_executor_of_another);
    RUN_TESTp(an_executor_runs_each_task_it_took_exactly_once, BULKHEAD_DRAIN);
    RUN_TESTp(an_executor_runs_each_task_it_took_exactly_once, BULKHEAD_ABORT);
}

SUITE(resize_suite)
{
    SET_SETUP(remember_blocks, NULL);
    RUN_TEST(growing_lets_in_those_who_wait);
    RUN_TEST(a_shrink_takes_effect_as_jobs_end);
    RUN_TEST(a_shorter_queue_keeps_those_who_are_in_it);
    RUN_TEST(bad_sizes_are_refused);
    RUN_TEST(a_resize_under_load_loses_nothing);
}

SUITE(close_wait_idle_destroy_suite)
{
    SET_SETUP(remember_blocks, NULL);
    RUN_TEST(a_drain_serves_all_who_wait);
    RUN_TEST(a_drain_waits_for_retries);
    RUN_TESTp(an_abort_sends_away_all_who_wait_in_order, false);
    RUN_TESTp(an_abort_sends_away_all_who_wait_in_order, true);
    RUN_TEST(an_abort_does_not_try_again);
    RUN_TEST(an_abort_ends_a_job_that_waits_for_its_retry);
    RUN_TESTp(close_waits_for_a_stuck_body, BULKHEAD_DRAIN);
    RUN_TESTp(close_waits_for_a_stuck_body, BULKHEAD_ABORT);
    RUN_TEST(the_run_timeout_is_kept_while_closing);
    RUN_TESTp(the_last_leave_is_seen_by_who_waits, BULKHEAD_SYNC, IDLE);
    RUN_TESTp(the_last_leave_is_seen_by_who_waits, BULKHEAD_ASYNC, IDLE);
    RUN_TESTp(the_last_leave_is_seen_by_who_waits, BULKHEAD_SYNC, CLOSE);
    RUN_TESTp(the_last_leave_is_seen_by_who_waits, BULKHEAD_ASYNC, CLOSE);
    RUN_TEST(several_may_close_and_all_see_the_same_end);
    RUN_TEST(an_abort_beside_a_drain_aborts);
    RUN_TEST(close_refuses_what_it_does_not_know);
    RUN_TESTp(a_closed_bulkhead_still_takes_permits_back, BULKHEAD_SYNC);
    RUN_TESTp(a_closed_bulkhead_still_takes_permits_back, BULKHEAD_ASYNC);
    RUN_TEST(a_drain_hands_over_to_callers_that_wait);
    RUN_TESTp(close_without_work_is_immediate, BULKHEAD_SYNC);
    RUN_TESTp(close_without_work_is_immediate, BULKHEAD_ASYNC);
    RUN_TEST(destroy_ends_idle_workers_by_itself);
    RUN_TEST(destroy_is_refused_while_anything_is_left);
    RUN_TEST(a_thousand_bulkheads_come_and_go);
    RUN_TESTp(close_races_with_submits_and_every_job_ends, BULKHEAD_DRAIN);
    RUN_TESTp(close_races_with_submits_and_every_job_ends, BULKHEAD_ABORT);
    RUN_TEST(wait_idle_waits_for_an_instant_without_anything);
}

SUITE(figures_suite)
{
    SET_SETUP(remember_blocks, NULL);
    RUN_TEST(figures_agree_with_what_happened);
    RUN_TEST(timings_of_sync_calls);
    RUN_TEST(histograms_are_empty_unless_asked_for);
    RUN_TEST(quantiles_are_at_most_a_quarter_too_long);
    RUN_TEST(every_end_is_counted_once);
    RUN_TEST(outcomes_have_names);
}

SUITE(events_suite)
{
    SET_SETUP(remember_blocks, NULL);
    RUN_TEST(events_tell_the_story_of_a_job);
    RUN_TEST(events_tell_of_every_end_and_refusal);
    RUN_TESTp(a_listener_may_call_back, BULKHEAD_SYNC);
    RUN_TESTp(a_listener_may_call_back, BULKHEAD_ASYNC);
    RUN_TEST(events_of_sync_calls_come_in_order);
}

SUITE(text_suite)
{
    SET_SETUP(remember_blocks, NULL);
    RUN_TEST(the_prometheus_text_is_cut_like_snprintf);
    RUN_TEST(the_prometheus_text_has_all_figures);
    RUN_TEST(prometheus_histograms_add_up);
    RUN_TEST(labels_are_escaped);
}

SUITE(the_environment_suite)
{
    SET_SETUP(remember_blocks, NULL);
#ifndef _WIN32
    RUN_TEST(options_come_from_the_environment);
    RUN_TEST(anything_else_in_the_environment_is_refused);
#endif
}

SUITE(what_is_promised_throughout_suite)
{
    SET_SETUP(remember_blocks, NULL);
    RUN_TESTp(errno_is_left_alone, BULKHEAD_SYNC);
    RUN_TESTp(errno_is_left_alone, BULKHEAD_ASYNC);
    RUN_TESTp(what_was_done_before_leave_is_seen_by_who_enters, BULKHEAD_SYNC, 0);
    RUN_TESTp(what_was_done_before_leave_is_seen_by_who_enters, BULKHEAD_ASYNC, 0);
    RUN_TESTp(what_was_done_before_leave_is_seen_by_who_enters, BULKHEAD_SYNC, BULKHEAD_UNFAIR);
    RUN_TESTp(what_was_done_before_leave_is_seen_by_who_enters, BULKHEAD_ASYNC, BULKHEAD_INLINE);
    RUN_TEST(what_was_done_before_submit_and_in_run_is_seen);
    RUN_TEST(nothing_is_allocated_when_the_workers_are_there);
}

SUITE(no_lost_wake_up_suite)
{
    SET_SETUP(remember_blocks, NULL);
    RUN_TESTp(no_invoke_is_ever_lost, BULKHEAD_SYNC, 0, 1000000);
    RUN_TESTp(no_invoke_is_ever_lost, BULKHEAD_ASYNC, 0, 150000);
    RUN_TESTp(no_invoke_is_ever_lost, BULKHEAD_ASYNC, BULKHEAD_INLINE, 500000);
    RUN_TESTp(no_invoke_is_ever_lost, BULKHEAD_SYNC, BULKHEAD_TIMINGS, 200000);
    RUN_TESTp(no_job_is_ever_lost, 1, 1, 0, 5000);
    RUN_TESTp(no_job_is_ever_lost, 8, 1, 0, 1500);
    RUN_TESTp(no_job_is_ever_lost, 8, 5, 0, 1500);
    RUN_TESTp(no_job_is_ever_lost, 8, 2, 3, 1500);
    RUN_TESTp(no_job_is_ever_lost, 16, 3, 1, 500);
    RUN_TESTp(whatever_happens_every_job_ends_once, 0);
    RUN_TESTp(whatever_happens_every_job_ends_once, BULKHEAD_UNFAIR | BULKHEAD_TIMINGS);
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    RUN_SUITE(options_suite);
    RUN_SUITE(admission_suite);
    RUN_SUITE(order_suite);
    RUN_SUITE(timeouts_suite);
    RUN_SUITE(enter_leave_scope_invoke_suite);
    RUN_SUITE(submit_and_wait_suite);
    RUN_SUITE(waits_that_could_never_end_suite);
    RUN_SUITE(cancel_suite);
    RUN_SUITE(delays_and_deadlines_suite);
    RUN_SUITE(retries_suite);
    RUN_SUITE(run_timeouts_suite);
    RUN_SUITE(workers_and_what_they_own_suite);
    RUN_SUITE(executors_suite);
    RUN_SUITE(the_bulkhead_as_an_executor_suite);
    RUN_SUITE(resize_suite);
    RUN_SUITE(close_wait_idle_destroy_suite);
    RUN_SUITE(figures_suite);
    RUN_SUITE(events_suite);
    RUN_SUITE(text_suite);
    RUN_SUITE(the_environment_suite);
    RUN_SUITE(what_is_promised_throughout_suite);
    RUN_SUITE(no_lost_wake_up_suite);
    GREATEST_MAIN_END();
}
