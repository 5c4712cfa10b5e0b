/* SPDX-License-Identifier: MIT
 *
 * What the topics of the weighted semaphore's tests share. Include it after the header under test,
 * support.h and greatest.h.
 */
#ifndef WEIGHTED_SEM_PIECES_H
#define WEIGHTED_SEM_PIECES_H

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
        memset((void *)&g[i], 0, sizeof g[i]);
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
    weighted_sem *w; /* NULL: the one on the stage */
    int call;        /* one of those above */
    uint64_t weight;
    int64_t timeout_ns; /* 0: the form without timeout */
    int (*fn)(void *);
    void *arg;
    int error, result;
    weighted_sem_job job;
    atomic_int *order; /* counts calls that have returned, if not NULL */
    int place;
    atomic_bool done;
    bool started; /* and not yet joined */
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

static bool is_idle(weighted_sem *w)
{
    weighted_sem_stats s = weighted_sem_snapshot(w);
    weighted_sem_section_ section = weighted_sem_lock_(w); /* workers may be about to park */
    bool watched = (section.word & PLIM_WATCHED_) != 0 || w->drains.first != NULL;
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

/* How many drains wait. */
static uint32_t peek_drains(weighted_sem *w)
{
    uint32_t n = 0;
    weighted_sem_section_ s = weighted_sem_lock_(w);
    for (plim_node_ *at = w->drains.first; at != NULL; at = at->next) {
        n++;
    }
    weighted_sem_unlock_(w, &s);
    return n;
}

static plim_waiter_ *peek_first(weighted_sem *w, const plim_list_ *list)
{
    weighted_sem_section_ s = weighted_sem_lock_(w);
    plim_waiter_ *first = (plim_waiter_ *)(void *)list->first;
    weighted_sem_unlock_(w, &s);
    return first;
}

#ifdef _WIN32
#define NEEDS_POSIX() SKIPm("the ends of threads are noticed on POSIX systems only")
#else
#define NEEDS_POSIX() (void)0
#endif

static plim_thread_result finish_it(void *arg)
{
    weighted_sem_finish(arg, 0);
    return 0;
}

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

/* An executor that runs its tasks when it is told to, or at once. */
typedef struct line {
    int refuse; /* the next so many */
    int why;    /* what it answers then; 0: EBUSY */
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
        return l->why != 0 ? l->why : EBUSY;
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

/* ---- the stage: what nearly every test needs, set anew for each ---- */

enum { GATES = 60, CALLERS = 100, JOBS = 40 };

static struct stage {
    weighted_sem w;
    bool alive; /* w is made and not yet destroyed */
    gate g[GATES];
    caller c[CALLERS];
    weighted_sem_job job[JOBS];
    atomic_int runs, order; /* for count; for gates and callers that keep count of each other */
    nested n;
    line line;
    plim_executor executor; /* stands in the line */
} on;

static int make_with(const weighted_sem_options *options)
{
    int error = weighted_sem_init(&on.w, options);
    on.alive = error == 0;
    return error;
}

static int destroy(void)
{
    int error = weighted_sem_destroy(&on.w);
    on.alive = error != 0;
    return error;
}

static bool make(uint64_t total)
{
    weighted_sem_options options = {.total = total};
    return make_with(&options) == 0;
}

static void start_call(caller *c)
{
    c->w = c->w != NULL ? c->w : &on.w;
    c->started = true;
    atomic_init(&c->done, false);
    start(&c->thread, call, c);
}

static void join_call(caller *c)
{
    join(c->thread);
    c->started = false;
    on.alive = on.alive && c->call != DESTROY;
}

static void join_calls(caller *c, int n)
{
    for (int i = 0; i < n; i++) {
        join_call(&c[i]);
    }
}

static bool is_done(caller *c, int n)
{
    bool done = false;
    for (int i = 0; i < n; i++) {
        done = done || atomic_load(&c[i].done);
    }
    return done;
}

/* Starts callers one by one, each when the one before it waits. False if one of them does not wait,
 * or not long enough to see the last one wait. */
static bool queue_up(caller *c, int n)
{
    uint32_t before = weighted_sem_waiting(&on.w);
    for (int i = 0; i < n; i++) {
        bool is_over = false;
        start_call(&c[i]);
        bool waits = EVENTUALLY(weighted_sem_waiting(&on.w) == before + (uint32_t)i + 1 ||
                                (is_over = is_done(c, i + 1)));
        if (!waits || is_over) {
            return false;
        }
    }
    return true;
}

static void set_stage(void *unused)
{
    (void)unused;
    memset((void *)&on, 0, sizeof on);
    gates_init(on.g, GATES);
    csem_init(&on.n.go, 0);
    csem_init(&on.n.done, 0);
    on.n.w = &on.w;
    on.executor = (plim_executor){stand_in_line, &on.line};
    atomic_store(&idle_ns, PLIM_S(60));
}

/* Lets go of bare weight, when all jobs have ended. */
static void give_all_back(void)
{
    weighted_sem_resize(&on.w, WEIGHTED_SEM_MAX); /* so that none is taken beyond the total */
    uint64_t taken = WEIGHTED_SEM_MAX - weighted_sem_available(&on.w);
    if (taken > 0) {
        weighted_sem_release(&on.w, taken);
    }
}

static void must(bool happen)
{
    if (!happen) {
        fprintf(stderr, "a failed test left behind what does not end\n");
        abort();
    }
}

static void join_started(int from, int to)
{
    for (int i = 0; i < CALLERS; i++) {
        caller *c = &on.c[i];
        if (c->started && c->call >= from && c->call <= to) {
            must(EVENTUALLY(atomic_load(&c->done)));
            join_call(c);
            weighted_sem_finish(&c->job, 0);
        }
    }
}

/* After a test that failed half-way: its threads must not go on beside the next test. */
static void clear_stage(void *unused)
{
    (void)unused;
    if (!on.alive) {
        return;
    }
    for (int i = 0; i < GATES; i++) {
        csem_close(&on.g[i].entered);
        csem_close(&on.g[i].exit);
    }
    csem_close(&on.n.go);
    csem_close(&on.n.done);
    join_started(DESTROY, DESTROY);
    if (on.alive) {
        weighted_sem_stats s;
        weighted_sem_close(&on.w);
        run_line(&on.line);
        for (int i = 0; i < JOBS; i++) {
            weighted_sem_finish(&on.job[i], 0);
        }
        join_started(ACQUIRE, BEGIN);
        must(EVENTUALLY((s = weighted_sem_snapshot(&on.w), s.started == s.completed)));
        give_all_back();
        must(weighted_sem_drain_all(&on.w, PLIM_S(PATIENCE_S)) == 0);
        join_started(DRAIN, DRAIN_ALL);
        must(destroy() == 0);
    }
}

/* For a test whose callers must all wait before the first gives up. A slow machine may be too late
 * for that: then the test begins anew, with four times the time. False if that is no use. */
static bool again(int64_t *timeout_ns)
{
    clear_stage(NULL);
    set_stage(NULL);
    *timeout_ns *= 4;
    return *timeout_ns < PLIM_S(PATIENCE_S);
}

/* A rest, because nothing tells when a thread that could go on would have done so by now. What the
 * semaphore itself says of it is asserted besides. */
static bool not_yet(atomic_bool *done)
{
    rest(PLIM_MS(3));
    return !atomic_load(done);
}

/* Nobody has let it go: the semaphore still counts so many drains, and this one does not return. */
static bool still_drains(caller *c, uint32_t draining)
{
    return peek_drains(&on.w) == draining && not_yet(&c->done);
}

/* The end of a test, or of a round of it: nothing is left, and the semaphore can go. */
#define ASSERT_ENDS_WELL() \
    do { \
        ASSERT(is_idle(&on.w)); \
        ASSERT_INT(0, destroy()); \
    } while (0)

#define ENDS_WELL() \
    do { \
        ASSERT_ENDS_WELL(); \
        PASS(); \
    } while (0)

#define ON_STAGE() \
    do { \
        SET_SETUP(set_stage, NULL); \
        SET_TEARDOWN(clear_stage, NULL); \
    } while (0)

#endif
