/* SPDX-License-Identifier: MIT
 *
 * What the topics of the tests of bulkhead.h share: gates, callers, crowds, the
 * stage that each test finds ready, and how a test ends.
 */
#ifndef PLIM_TEST_BULKHEAD_PIECES_H
#define PLIM_TEST_BULKHEAD_PIECES_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>

#include "../counted_memory.h"

/* How long a worker without a job stays; a test may change it. */
static atomic_llong idle_ns = 10000000000;
#define BULKHEAD_IDLE_NS atomic_load(&idle_ns)
#include "../../bulkhead.h"
#include "../../semaphore.h"
#include "../support.h"
#include "../crowd.h"
#include "../greatest.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#ifndef _WIN32
#include <pthread.h>
#include <signal.h>
#endif

/* When a search for a rare race ends, if its rounds do not end before. */
static int64_t search_ends(void)
{
    return plim_now_() + factor("TEST_LONG") * PLIM_S(LONG_S);
}

/* Something that stays inside until it is told to end: a job, what invoke calls, or a block. */
typedef struct gate {
    bulkhead_job job;
    csem entered, exit;
    int result;
    int place; /* how many gates were passed before it, in this test */
    atomic_int runs, dones;
    bulkhead_outcome seen; /* by done */
} gate;

enum { ENTER, ENTER_FOR, INVOKE, SUBMIT, SUBMIT_FOR, WAIT, RECLAIM, IDLE, CLOSE };

/* A thread that makes one call, and what came of it. */
typedef struct caller {
    int call; /* one of those above */
    int how;  /* CLOSE */
    int64_t timeout_ns;
    gate *gate; /* ENTER, INVOKE: where it stays once let in; SUBMIT, WAIT, RECLAIM: whose job */
    int error, result, left;
    int64_t took_ns;
    int place; /* how many calls returned before it, in this test */
    atomic_bool done;
    csem over;
    bool runs; /* started, and not joined yet */
    plim_thread thread;
} caller;

/* Threads that all do the same at once. */
typedef struct crowd {
    start_line line;
    atomic_int accepted, refused, odd, inside, most, wrong;
    int rounds, kind;
    plim_thread_result (*run)(void *);
    atomic_int gone; /* members that have come to their end */
} crowd;

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
    int what;
    int error;
    int left;
    bool meets; /* at on.barrier: both sides are inside before either waits */
    struct nested *peer;
    bulkhead_job inner;
} nested;

typedef struct timed {
    bulkhead_job job;
    int64_t at[8]; /* when each attempt began */
    int runs;
    int fail_until; /* attempts that fail */
    uint32_t attempts[8];
} timed;

/* What a test has at hand, made anew before each test. All of it is static: what runs on after a
 * test has failed half-way finds it where it was, until clear_the_stage has ended all of that. */
enum { GATES = 16, CALLERS = 64, MEMBERS = 64, JOBS = 64, PLENTY = 1000 };

static struct stage {
    bulkhead b, other;
    bool lives, other_lives; /* is it initialised? */
    gate g[GATES];
    caller c[CALLERS];
    crowd crowd;
    member m[MEMBERS];
    int members; /* so many of them were started and not joined yet */
    bulkhead_job job[JOBS];
    timed t[4];
    nested n[2];
    csem barrier[2];
    atomic_int let_in, returned, ended, ran;
} on;

/* ---- the bulkhead ---- */

static bool *life_of(const bulkhead *b)
{
    return b == &on.b ? &on.lives : &on.other_lives;
}

static int make_with(bulkhead *b, const bulkhead_options *options)
{
    int error = bulkhead_init(b, options);
    *life_of(b) = error == 0;
    return error;
}

static bool make(bulkhead *b, int type, int32_t permits, int32_t queue)
{
    bulkhead_options options = {.type = type, .permits = permits, .queue = queue};
    return make_with(b, &options) == 0;
}

static int unmake(bulkhead *b)
{
    int error = bulkhead_destroy(b);
    if (error == 0) {
        *life_of(b) = false;
    }
    return error;
}

/* ---- gates and callers ---- */

static int pass(void *arg)
{
    gate *g = arg;
    g->place = atomic_fetch_add(&on.let_in, 1);
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

static int make_call(caller *c)
{
    switch (c->call) {
    case ENTER:
        return bulkhead_enter(&on.b);
    case ENTER_FOR:
        return bulkhead_enter_for(&on.b, c->timeout_ns);
    case INVOKE:
        return c->gate != NULL ? bulkhead_invoke(&on.b, pass, c->gate, &c->result)
                               : bulkhead_invoke(&on.b, nothing, NULL, &c->result);
    case SUBMIT:
        return bulkhead_submit(&on.b, &c->gate->job);
    case SUBMIT_FOR:
        return bulkhead_submit_for(&on.b, &c->gate->job, c->timeout_ns);
    case WAIT:
        return bulkhead_wait(&c->gate->job, c->timeout_ns);
    case RECLAIM:
        return bulkhead_reclaim(&c->gate->job, c->timeout_ns);
    case IDLE:
        return bulkhead_wait_idle(&on.b, c->timeout_ns);
    default:
        return bulkhead_close(&on.b, c->how, c->timeout_ns);
    }
}

static plim_thread_result call(void *arg)
{
    caller *c = arg;
    int64_t from = plim_now_();
    c->error = make_call(c);
    c->took_ns = plim_now_() - from;
    c->place = atomic_fetch_add(&on.returned, 1);
    if (c->error == 0 && (c->call == ENTER || c->call == ENTER_FOR)) {
        if (c->gate != NULL) {
            pass(c->gate);
        }
        c->left = bulkhead_leave(&on.b);
    }
    atomic_store(&c->done, true);
    csem_release(&c->over);
    return 0;
}

static void start_call(caller *c)
{
    atomic_init(&c->done, false);
    csem_init(&c->over, 0);
    c->runs = true;
    start(&c->thread, call, c);
}

static void join_calls(caller *c, int n)
{
    for (int i = 0; i < n; i++) {
        join(c[i].thread);
        c[i].runs = false;
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
    uint32_t before = queued(&on.b);
    for (int i = 0; i < n; i++) {
        start_call(&c[i]);
        if (!EVENTUALLY(queued(&on.b) == before + (uint32_t)i + 1)) {
            return false;
        }
    }
    return true;
}

/* How many wait for a place, for quiet, or for the end: no figure tells. */
static int waiters(const plim_list_ *list)
{
    bulkhead_section_ s = bulkhead_lock_(&on.b);
    int n = 0;
    for (const plim_node_ *at = list->first; at != NULL; at = at->next) {
        n++;
    }
    bulkhead_unlock_(&on.b, &s);
    return n;
}

/* Its call does not return, but waits there, as the last of n. */
static bool waits(caller *c, const plim_list_ *list, int n)
{
    return EVENTUALLY(waiters(list) == n || atomic_load(&c->done)) && !atomic_load(&c->done);
}

/* Its call has not returned. It is seen where no list tells that a call waits; so this takes time,
 * in which the call would return if it could. */
static bool stays_away(caller *c)
{
    rest(PLIM_MS(2));
    return !atomic_load(&c->done);
}

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

/* Its call returns, and does not wait for ever. */
static bool finished(caller *c)
{
    bool over = csem_acquire_for(&c->over, PLIM_S(PATIENCE_S)) == 0;
    if (over) {
        join_calls(c, 1);
    }
    return over;
}

static _Thread_local char here; /* its address tells threads apart */

static int where(void *arg)
{
    *(char **)arg = &here;
    return 7;
}

enum { BY_END, BY_CANCEL, BY_EXPIRY, BY_GIVING_UP, BY_RESIZE, BY_PERMIT };

static int nest(nested *n)
{
    switch (n->what) {
    case NEST_INVOKE:
        return bulkhead_invoke(&on.b, nothing, NULL, NULL);
    case NEST_ENTER:
        return bulkhead_enter(&on.b);
    case NEST_SUBMIT_AND_WAIT:
        n->inner.run = run_nothing;
        n->left = bulkhead_submit(&on.b, &n->inner);
        return n->left == 0 ? bulkhead_wait(&n->inner, PLIM_FOREVER) : -2;
    case NEST_SELF:
        return bulkhead_wait(&n->job, PLIM_FOREVER);
    case NEST_IDLE:
        return bulkhead_wait_idle(&on.b, PLIM_FOREVER);
    case NEST_PEER:
        return bulkhead_wait(&n->peer->job, PLIM_FOREVER);
    case NEST_PLACE:
        n->inner.run = run_nothing;
        return bulkhead_submit_for(&on.b, &n->inner, PLIM_FOREVER);
    default:
        return bulkhead_close(&on.b, n->what == NEST_DRAIN ? BULKHEAD_DRAIN : BULKHEAD_ABORT,
                              PLIM_FOREVER);
    }
}

static int run_nested(bulkhead_job *job)
{
    nested *n = job->arg;
    if (n->meets) {
        csem_release(&on.barrier[0]);
        csem_acquire(&on.barrier[1]);
    }
    n->error = nest(n);
    if (n->error == 0 && n->what == NEST_ENTER) {
        n->left = bulkhead_leave(&on.b);
    }
    return 0;
}

static void nested_init(nested *n)
{
    n->job.run = run_nested;
    n->job.arg = n;
    n->error = -1;
}

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

static int nap(void *arg)
{
    rest(*(int64_t *)arg);
    return 0;
}

/* ---- crowds ---- */

static plim_thread_result be_a_member(void *arg)
{
    (void)on.crowd.run(arg);
    atomic_fetch_add(&on.crowd.gone, 1);
    return 0;
}

/* Starts the first n members, to run this; returns when all are off. */
static void gather(int n, plim_thread_result (*run)(void *))
{
    on.crowd.run = run;
    on.members = n;
    start_crowd(&on.crowd, on.m, n, be_a_member);
}

static void disperse(void)
{
    join_crowd(on.m, on.members);
    on.members = 0;
}

/* ---- the end of a test ---- */

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
    ASSERT_INT(0, unmake(b));
    if (last) {
        ASSERT_INT(blocks_before, atomic_load(&blocks));
    }
    PASS();
}

#define ASSERT_ENDS_WELL() CHECK_CALL(ends_well(&on.b, true))
#define ASSERT_ENDS_FIRST() CHECK_CALL(ends_well(&on.other, false)) /* on.b has its memory yet */
#define ENDS_WELL() return ends_well(&on.b, true)

/* The same without the books: calls on the thread of a caller are accepted, but have no outcome. */
static greatest_test_res ends_uncounted(void)
{
    ASSERT_INT(0, bulkhead_close(&on.b, BULKHEAD_DRAIN, PLIM_S(PATIENCE_S)));
    ASSERT_FIGURES(&on.b, 0, 0);
    ASSERT_INT(0, unmake(&on.b));
    ASSERT_INT(blocks_before, atomic_load(&blocks));
    PASS();
}

#define ENDS_UNCOUNTED() return ends_uncounted()

/* ---- the stage ---- */

static void set_the_stage(void *data) /* a setup */
{
    memset((void *)&on, 0, sizeof on);
    gates_init(on.g, GATES);
    for (int i = 0; i < 4; i++) {
        timed_init(&on.t[i]);
    }
    for (int i = 0; i < 2; i++) {
        csem_init(&on.barrier[i], 0);
        nested_init(&on.n[i]);
    }
    remember_blocks(data);
}

/* Ends a bulkhead that a failed test has left. */
static bool comes_to_rest(bulkhead *b)
{
    if (bulkhead_close(b, BULKHEAD_ABORT, PLIM_S(1)) != 0) {
        while (bulkhead_leave(b) == 0) {
        } /* jobs have ended: the thread of the test holds permits */
    }
    return bulkhead_close(b, BULKHEAD_ABORT, PLIM_S(PATIENCE_S)) == 0 && unmake(b) == 0;
}

static void open_the_gates(void)
{
    csem_release_n(&on.barrier[1], PLENTY);
    for (int i = 0; i < GATES; i++) {
        csem_release_n(&on.g[i].exit, PLENTY);
        if (on.lives) {
            (void)bulkhead_cancel(&on.b, &on.g[i].job);
        }
    }
}

/* How many threads wait for the end of that job. */
static int waiters_of(const bulkhead_job *job)
{
    int n = 0;
    bulkhead *b = job->bulkhead_;
    bulkhead_section_ s = bulkhead_lock_(b);
    for (const bulkhead_await_ *at = job->waiters_; at != NULL; at = at->next) {
        n++;
    }
    bulkhead_unlock_(b, &s);
    return n;
}

/* After a test that failed half-way: all that it has started ends before the next one begins. */
static void clear_the_stage(void *data) /* a teardown */
{
    (void)data;
    bool over = true;
    open_the_gates();
    atomic_store(&on.crowd.wrong, 1); /* members that go on and on end by this */
    if (on.lives) {
        (void)bulkhead_close(&on.b, BULKHEAD_ABORT, 0); /* sends away those who wait */
    }
    for (int i = 0; i < CALLERS; i++) {
        over = over && (!on.c[i].runs || finished(&on.c[i]));
    }
    if (over && on.members > 0) {
        over = EVENTUALLY(atomic_load(&on.crowd.gone) == on.members);
        if (over) {
            disperse();
        }
    }
    over = over && (!on.lives || comes_to_rest(&on.b));
    over = over && (!on.other_lives || comes_to_rest(&on.other));
    if (!over) {
        fflush(stdout); /* what the test has printed as it failed */
        fprintf(stderr, "what the test has started does not end\n");
        abort();
    }
}

#endif
