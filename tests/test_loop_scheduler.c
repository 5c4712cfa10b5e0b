/* SPDX-License-Identifier: MIT
 *
 * What loop_scheduler.h promises, claim by claim. Built as it ships, with PLIM_PARK_CND, with POSIX
 * threads, and with PLIM_SPIN=0.
 *
 * Most tests run the loop on their own thread, turn by turn, with a clock of their own: nothing is
 * left to chance then. Where other threads matter, tasks that a test must hold open wait at a gate,
 * a csem of their own. Nothing here waits for time to pass, except to see that something does not
 * happen, or not too early.
 *
 * The environment variable TEST_SCALE=n makes the long loops n times shorter (valgrind).
 */
#undef NDEBUG

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

/* Counts what the header allocates, to see that it seldom does, and gives all of it back. */
static atomic_int allocations, blocks;
static atomic_bool memory_is_out;

static void *counted_malloc(size_t size)
{
    void *memory = atomic_load(&memory_is_out) ? NULL : malloc(size);
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

#include "../loop_scheduler.h"
#include "../bulkhead.h"
#include "../semaphore.h"
#include "support.h"
#include "greatest.h"

#include <inttypes.h>
#include <string.h>

/* ---- pieces ---- */

enum { LONG_S = 2 }; /* a long loop ends early after this, where others want the CPU as well */

#ifdef _WIN32
enum { THREAD_ENDS_ARE_NOTICED = 0 };
#else
enum { THREAD_ENDS_ARE_NOTICED = 1 };
#endif

/* What earlier tests have left behind, if they failed, is not the fault of this one. */
static int blocks_before;

static void remember_blocks(void *data)
{
    (void)data;
    blocks_before = atomic_load(&blocks);
}

#define ASSERT_I64(expected, got) ASSERT_EQ_FMT((int64_t)(expected), (int64_t)(got), "%" PRId64)
#define ASSERT_U64(expected, got) ASSERT_EQ_FMT((uint64_t)(expected), (uint64_t)(got), "%" PRIu64)

/* Differs from thread to thread. */
static _Thread_local char here;

static const void *this_thread(void)
{
    return &here;
}

/* A clock that stands still until it is told, and what on_slow was told. */
typedef struct world {
    _Atomic int64_t now;
    int slow;
    loop_scheduler_task *slow_task;
    int64_t slow_ns;
} world;

static int64_t tell_time(void *user)
{
    return atomic_load(&((world *)user)->now);
}

static void pass_time(world *w, int64_t ns)
{
    atomic_store(&w->now, atomic_load(&w->now) + ns);
}

static void set_time(world *w, int64_t now)
{
    atomic_store(&w->now, now);
}

static void note_slow(void *user, loop_scheduler_task *task, int64_t elapsed_ns)
{
    world *w = user;
    w->slow++;
    w->slow_task = task;
    w->slow_ns = elapsed_ns;
}

static bool make(loop_scheduler *l, world *w, uint32_t max_queue)
{
    loop_scheduler_options options = {
        .max_queue = max_queue, .clock = w != NULL ? tell_time : NULL, .user = w};
    if (w != NULL) {
        memset((void *)w, 0, sizeof *w);
    }
    return loop_scheduler_init(l, &options) == 0;
}

static bool make_and_start(loop_scheduler *l, uint32_t max_queue)
{
    return make(l, NULL, max_queue) && loop_scheduler_start(l) == 0;
}

/* What happened on the loop, in order. */
enum { DIARY_MAX = 1024 };
typedef struct diary {
    atomic_int count;
    int number[DIARY_MAX], status[DIARY_MAX];
} diary;

static void enter(diary *d, int number, int status)
{
    int at = atomic_load(&d->count);
    if (at < DIARY_MAX) {
        d->number[at] = number;
        d->status[at] = status;
    }
    atomic_store(&d->count, at + 1);
}

/* "1 x2 t3": one, two with ECANCELED, three with ETIMEDOUT. */
static const char *story(diary *d)
{
    static char text[DIARY_MAX * 12];
    size_t at = 0;
    text[0] = 0;
    for (int i = 0; i < atomic_load(&d->count) && i < DIARY_MAX; i++) {
        const char *mark = d->status[i] == 0           ? ""
                           : d->status[i] == ECANCELED ? "x"
                           : d->status[i] == ETIMEDOUT ? "t"
                                                       : "?";
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%s%d", at > 0 ? " " : "", mark,
                               d->number[i]);
    }
    return text;
}

/* A task, what it does on the loop, and what was seen of it. */
typedef struct spy spy;
struct spy {
    loop_scheduler_task task;
    loop_scheduler *l;
    diary *d; /* NULL: not written down */
    int number;
    void (*act)(spy *s); /* if it is not cancelled */
    void *arg;           /* for act */
    int error, result;   /* by act */
    csem entered, exit;  /* for hold */
    const void *thread;
    bool current;
    atomic_int runs, cancels, odd; /* the last touch */
};

static void run_spy(loop_scheduler_task *task, int status)
{
    spy *s = task->arg;
    s->thread = this_thread();
    s->current = loop_scheduler_is_current(s->l);
    if (s->d != NULL) {
        enter(s->d, s->number, status);
    }
    if (status == 0 && s->act != NULL) {
        s->act(s);
    }
    atomic_fetch_add(status == 0 ? &s->runs : status == ECANCELED ? &s->cancels : &s->odd, 1);
}

static void spies_init(spy *s, int n, loop_scheduler *l, diary *d)
{
    for (int i = 0; i < n; i++) {
        memset((void *)&s[i], 0, sizeof s[i]);
        s[i].task.run = run_spy;
        s[i].task.arg = &s[i];
        s[i].l = l;
        s[i].d = d;
        s[i].number = i + 1;
        csem_init(&s[i].entered, 0);
        csem_init(&s[i].exit, 0);
    }
}

static int runs(spy *s)
{
    return atomic_load(&s->runs);
}

static int cancels(spy *s)
{
    return atomic_load(&s->cancels);
}

/* An act: stays until it is let go. */
static void hold(spy *s)
{
    csem_release(&s->entered);
    csem_acquire_for(&s->exit, PLIM_S(PATIENCE_S));
}

static bool has_entered(spy *s)
{
    return csem_acquire_for(&s->entered, PLIM_S(PATIENCE_S)) == 0;
}

static void let_go(spy *s)
{
    csem_release(&s->exit);
}

/* Makes a loop busy with a task that stays. */
static bool occupy(loop_scheduler *l, spy *s)
{
    spies_init(s, 1, l, NULL);
    s->act = hold;
    return loop_scheduler_post(l, &s->task) == 0 && has_entered(s);
}

/* A timer likewise. */
typedef struct bell bell;
struct bell {
    loop_scheduler_timer timer;
    loop_scheduler *l;
    world *w;
    diary *d;
    int number;
    void (*act)(bell *b);
    void *arg;
    int error, stop_at; /* for act */
    int64_t ns;         /* for act */
    int64_t at;         /* when it last rang */
    bool current;
    atomic_int rings, cancels, odd;
};

static void run_bell(loop_scheduler_timer *timer, int status)
{
    bell *b = timer->arg;
    b->at = b->w != NULL ? tell_time(b->w) : plim_now_();
    b->current = loop_scheduler_is_current(b->l);
    if (b->d != NULL) {
        enter(b->d, b->number, status);
    }
    if (status == 0 && b->act != NULL) {
        b->act(b);
    }
    atomic_fetch_add(status == 0 ? &b->rings : status == ECANCELED ? &b->cancels : &b->odd, 1);
}

static void bells_init(bell *b, int n, loop_scheduler *l, world *w, diary *d)
{
    for (int i = 0; i < n; i++) {
        memset((void *)&b[i], 0, sizeof b[i]);
        b[i].timer.run = run_bell;
        b[i].timer.arg = &b[i];
        b[i].l = l;
        b[i].w = w;
        b[i].d = d;
        b[i].number = i + 1;
    }
}

static int rings(bell *b)
{
    return atomic_load(&b->rings);
}

/* A turn at a time, until there is nothing to do; how many there were. */
static int run_dry(loop_scheduler *l)
{
    int turns = 0;
    while (turns < 10000000 && loop_scheduler_poll(l) == 0) {
        turns++;
    }
    return turns;
}

/* A thread that makes one call, and what came of it. */
enum { POST, POST_FOR, CALL, CALL_FOR, START, RUN, RUN_UNTIL, RUN_ONCE, CLOSE, DESTROY };

typedef struct caller {
    loop_scheduler *l;
    int call; /* one of those above */
    int how;  /* CLOSE */
    int64_t timeout_ns;
    loop_scheduler_task *task; /* POST, POST_FOR */
    int (*fn)(void *);         /* CALL, CALL_FOR */
    bool (*done_when)(void *); /* RUN_UNTIL */
    void *arg;
    int error, result;
    int64_t took_ns;
    const void *self;
    atomic_bool done;
    plim_thread thread;
} caller;

static int make_call(caller *c)
{
    switch (c->call) {
    case POST:
        return loop_scheduler_post(c->l, c->task);
    case POST_FOR:
        return loop_scheduler_post_for(c->l, c->task, c->timeout_ns);
    case CALL:
        return loop_scheduler_call(c->l, c->fn, c->arg, &c->result);
    case CALL_FOR:
        return loop_scheduler_call_for(c->l, c->fn, c->arg, &c->result, c->timeout_ns);
    case START:
        return loop_scheduler_start(c->l);
    case RUN:
        return loop_scheduler_run(c->l);
    case RUN_UNTIL:
        return loop_scheduler_run_until(c->l, c->done_when, c->arg, c->timeout_ns);
    case RUN_ONCE:
        return loop_scheduler_run_once(c->l, c->timeout_ns);
    case CLOSE:
        return loop_scheduler_close(c->l, c->how, c->timeout_ns);
    default:
        return loop_scheduler_destroy(c->l);
    }
}

static plim_thread_result call(void *arg)
{
    caller *c = arg;
    int64_t from = plim_now_();
    c->self = this_thread();
    c->error = make_call(c);
    c->took_ns = plim_now_() - from;
    atomic_store(&c->done, true);
    return 0;
}

static void start_call(caller *c)
{
    atomic_init(&c->done, false);
    start(&c->thread, call, c);
}

/* Its call returns, and does not wait for ever. */
static bool finished(caller *c)
{
    bool over = EVENTUALLY(atomic_load(&c->done));
    if (over) {
        join(c->thread);
    }
    return over;
}

/* Long enough to see that a thread does not go on, were it able to. */
static bool stays_false(atomic_bool *done)
{
    rest(PLIM_MS(20));
    return !atomic_load(done);
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

/* Somebody runs the loop, and does what it is asked. */
static bool serves(loop_scheduler *l)
{
    int seven = 7, result = 0;
    return loop_scheduler_call_for(l, give, &seven, &result, PLIM_S(PATIENCE_S)) == 0 &&
           result == 7;
}

/* Whether it has been closed. The bell never rings. */
static bool is_closed(loop_scheduler *l, bell *b)
{
    return loop_scheduler_timer_start(l, &b->timer, PLIM_FOREVER, 0) == ESHUTDOWN;
}

/* Nothing is left, and all that was accepted has had its one outcome. */
static greatest_test_res ends_well(loop_scheduler *l)
{
    ASSERT_INT(0, loop_scheduler_close(l, LOOP_SCHEDULER_DRAIN, PLIM_S(PATIENCE_S)));
    loop_scheduler_stats s = loop_scheduler_snapshot(l);
    ASSERT_U64(s.posted, s.ran + s.cancelled);
    ASSERT_INT(0, s.queued);
    ASSERT_INT(0, s.timers);
    ASSERT_INT(0, s.offloaded);
    ASSERT_INT(0, s.suspended);
    ASSERT_INT(0, loop_scheduler_destroy(l));
    ASSERT_INT(blocks_before, atomic_load(&blocks));
    PASS();
}

#define ASSERT_ENDS_WELL(l) CHECK_CALL(ends_well(l))

/* Threads that all do the same at once. */
typedef struct crowd {
    loop_scheduler *l;
    atomic_bool go, leave;
    atomic_int ready, accepted, refused, odd;
    int rounds;
    int64_t end; /* when to give up even if there are rounds left */
    void *arg;
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

/* ---- options ---- */

TEST all_zero_options_are_a_loop_with_an_unlimited_queue(void)
{
    enum { N = 10000 };
    loop_scheduler l;
    spy *s = calloc(N, sizeof *s);
    ASSERT(s != NULL);
    for (int zero = 0; zero < 2; zero++) {
        loop_scheduler_options options = {.max_queue = 0};
        ASSERT_INT(0, loop_scheduler_init(&l, zero == 0 ? NULL : &options));
        spies_init(s, N, &l, NULL);
        for (int i = 0; i < N; i++) {
            ASSERT_INT(0, loop_scheduler_post(&l, &s[i].task));
        }
        ASSERT_INT(N, loop_scheduler_snapshot(&l).queued);
        ASSERT_INT(0, loop_scheduler_poll(&l));
        for (int i = 0; i < N; i++) {
            ASSERT_INT(1, runs(&s[i]));
        }
        ASSERT_ENDS_WELL(&l);
    }
    free(s);
    PASS();
}

TEST bad_options_are_refused(void)
{
    loop_scheduler l;
    const loop_scheduler_options bad[] = {{.slow_ns = -1},
                                          {.slow_ns = INT64_MIN},
                                          {.max_queue = 1u << 30},
                                          {.max_queue = UINT32_MAX}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        ASSERT_INT(EINVAL, loop_scheduler_init(&l, &bad[i]));
    }
    PASS();
}

TEST the_largest_queue_is_taken(void)
{
    loop_scheduler l;
    spy s[3];
    ASSERT(make(&l, NULL, (1u << 30) - 1));
    spies_init(s, 3, &l, NULL);
    for (int i = 0; i < 3; i++) {
        ASSERT_INT(0, loop_scheduler_post(&l, &s[i].task));
    }
    ASSERT_INT(1, run_dry(&l));
    ASSERT_INT(1, runs(&s[2]));
    ASSERT_ENDS_WELL(&l);
    PASS();
}

TEST options_are_copied(void)
{
    loop_scheduler l;
    world w = {.now = 5};
    char name[] = "short-lived";
    loop_scheduler_options options = {
        .max_queue = 1, .name = name, .slow_ns = 10, .clock = tell_time, .user = &w};
    ASSERT_INT(0, loop_scheduler_init(&l, &options));
    memset(name, 'x', sizeof name);
    memset((void *)&options, 0xff, sizeof options);
    spy s[2];
    bell b;
    spies_init(s, 2, &l, NULL);
    bells_init(&b, 1, &l, &w, NULL);
    ASSERT_INT(0, loop_scheduler_post(&l, &s[0].task));
    ASSERT_INT(EAGAIN, loop_scheduler_post(&l, &s[1].task));
    ASSERT_INT(0, loop_scheduler_timer_start(&l, &b.timer, 10, 0));
    ASSERT_INT(0, loop_scheduler_poll(&l));
    pass_time(&w, 10);
    ASSERT_INT(0, loop_scheduler_poll(&l));
    ASSERT_INT(1, rings(&b));
    ASSERT_INT(0, loop_scheduler_start(&l));
    ASSERT(serves(&l));
    ASSERT_ENDS_WELL(&l);
    PASS();
}

TEST kin_may_go_first(void)
{
    loop_scheduler l, kin;
    ASSERT(make(&kin, NULL, 0));
    loop_scheduler_options options = {.kin = &kin};
    ASSERT_INT(0, loop_scheduler_init(&l, &options));
    ASSERT_INT(0, loop_scheduler_destroy(&kin));
    memset((void *)&kin, 0xa5, sizeof kin);
    ASSERT_INT(0, loop_scheduler_start(&l));
    ASSERT(serves(&l));
    ASSERT_ENDS_WELL(&l);
    PASS();
}

TEST a_loop_is_small(void)
{
    ASSERT(sizeof(loop_scheduler) <= 6 * 1024);
    PASS();
}

TEST a_loop_can_be_made_and_unmade_again_and_again(void)
{
    loop_scheduler l;
    spy s;
    bell b;
    for (int i = 0; i < 100; i++) {
        ASSERT(make(&l, NULL, (uint32_t)(i % 3)));
        spies_init(&s, 1, &l, NULL);
        bells_init(&b, 1, &l, NULL, NULL);
        if (i % 4 >= 2) {
            ASSERT_INT(0, loop_scheduler_start(&l));
        }
        if (i % 4 >= 1) {
            ASSERT_INT(0, loop_scheduler_post(&l, &s.task));
            ASSERT_INT(0, loop_scheduler_timer_start(&l, &b.timer, PLIM_S(1000), 0));
            ASSERT_INT(0, loop_scheduler_close(&l, LOOP_SCHEDULER_DRAIN, PLIM_S(PATIENCE_S)));
            ASSERT_INT(1, runs(&s));
            ASSERT_INT(1, atomic_load(&b.cancels));
        }
        ASSERT_INT(0, loop_scheduler_destroy(&l));
    }
    PASS();
}

/* ---- posting ---- */

TEST a_task_runs_once_with_0_on_the_thread_that_runs_the_loop(void)
{
    loop_scheduler l;
    spy s;
    ASSERT(make(&l, NULL, 0));
    spies_init(&s, 1, &l, NULL);
    ASSERT_INT(0, loop_scheduler_post(&l, &s.task));
    ASSERT_INT(0, runs(&s));
    ASSERT_INT(0, loop_scheduler_poll(&l));
    ASSERT_INT(1, runs(&s));
    ASSERT(s.current);
    ASSERT(s.thread == this_thread());
    ASSERT_INT(EAGAIN, loop_scheduler_poll(&l));
    ASSERT_INT(1, runs(&s));
    ASSERT_INT(0, cancels(&s));
    ASSERT_INT(0, atomic_load(&s.odd));
    ASSERT_ENDS_WELL(&l);
    PASS();
}

TEST a_started_loop_has_one_thread_of_its_own(void)
{
    enum { N = 50 };
    loop_scheduler l;
    spy s[N];
    ASSERT(make_and_start(&l, 0));
    spies_init(s, N, &l, NULL);
    for (int i = 0; i < N; i++) {
        ASSERT_INT(0, loop_scheduler_post(&l, &s[i].task));
        if (i % 2 == 0) {
            ASSERT(EVENTUALLY(runs(&s[i]) == 1));
        }
    }
    ASSERT(EVENTUALLY(runs(&s[N - 1]) == 1));
    for (int i = 0; i < N; i++) {
        ASSERT_INT(1, runs(&s[i]));
        ASSERT(s[i].thread != this_thread());
        ASSERT(s[i].thread == s[0].thread);
        ASSERT(s[i].current);
    }
    ASSERT_ENDS_WELL(&l);
    PASS();
}

TEST a_task_without_a_function_is_refused_and_nothing_changes(void)
{
    loop_scheduler l;
    spy s[3];
    diary d = {.count = 0};
    ASSERT(make(&l, NULL, 0));
    spies_init(s, 3, &l, &d);
    s[1].task.run = NULL;
    loop_scheduler_task *list[] = {&s[0].task, &s[1].task, &s[2].task};
    ASSERT_INT(EINVAL, loop_scheduler_post(&l, &s[1].task));
    ASSERT_INT(EINVAL, loop_scheduler_post_for(&l, &s[1].task, PLIM_FOREVER));
    ASSERT_INT(EINVAL, loop_scheduler_post_list(&l, list, 3));
    ASSERT_INT(0, loop_scheduler_snapshot(&l).queued);
    ASSERT_U64(0, loop_scheduler_snapshot(&l).posted);
    ASSERT_INT(EAGAIN, loop_scheduler_poll(&l));
    s[1].task.run = run_spy;
    ASSERT_INT(0, loop_scheduler_post_list(&l, list, 3));
    ASSERT_INT(0, loop_scheduler_poll(&l));
    ASSERT_STR_EQ("1 2 3", story(&d));
    ASSERT_ENDS_WELL(&l);
    PASS();
}

TEST a_queued_task_is_not_taken_again(void)
{
    loop_scheduler l;
    spy s[2];
    diary d = {.count = 0};
    ASSERT(make(&l, NULL, 0));
    spies_init(s, 2, &l, &d);
    loop_scheduler_task *list[] = {&s[1].task, &s[0].task};
    ASSERT_INT(0, loop_scheduler_post(&l, &s[0].task));
    ASSERT_INT(EALREADY, loop_scheduler_post(&l, &s[0].task));
    ASSERT_INT(EALREADY, loop_scheduler_post_for(&l, &s[0].task, PLIM_MS(1)));
    ASSERT_INT(EALREADY, loop_scheduler_post_list(&l, list, 2));
    ASSERT_INT(1, loop_scheduler_snapshot(&l).queued);
    ASSERT_INT(1, run_dry(&l));
    ASSERT_STR_EQ("1", story(&d));
    ASSERT_INT(0, loop_scheduler_post_list(&l, list, 2)); /* none of them is queued now */
    ASSERT_INT(1, run_dry(&l));
    ASSERT_STR_EQ("1 2 1", story(&d));
    ASSERT_ENDS_WELL(&l);
    PASS();
}

static void post_itself_again(spy *s)
{
    if (--s->number > 0) {
        s->error = loop_scheduler_post(s->l, &s->task);
        s->result = loop_scheduler_post(s->l, &s->task);
    }
}

TEST a_task_may_be_posted_again_as_soon_as_it_runs(void)
{
    loop_scheduler l;
    spy s;
    ASSERT(make(&l, NULL, 0));
    spies_init(&s, 1, &l, NULL);
    s.act = post_itself_again;
    s.number = 3;
    ASSERT_INT(0, loop_scheduler_post(&l, &s.task));
    ASSERT_INT(0, loop_scheduler_poll(&l));
    ASSERT_INT(1, runs(&s)); /* what it posts waits for the next turn */
    ASSERT_INT(0, s.error);
    ASSERT_INT(EALREADY, s.result);
    ASSERT_INT(2, run_dry(&l));
    ASSERT_INT(3, runs(&s));
    ASSERT_ENDS_WELL(&l);
    PASS();
}

typedef struct parcel {
    loop_scheduler_task task;
    int content;
    atomic_int *opened, *wrong;
} parcel;

static void open_parcel(loop_scheduler_task *task, int status)
{
    parcel *p = task->arg;
    if (p->content != 42) {
        atomic_fetch_add(p->wrong, 1);
    }
    atomic_int *opened = p->opened;
    memset((void *)p, 0xa5, sizeof *p);
    free(p);
    (void)status;
    atomic_fetch_add(opened, 1);
}

typedef struct parcels {
    atomic_int opened, wrong;
} parcels;

static plim_thread_result send_parcels(void *arg)
{
    crowd *c = ((member *)arg)->crowd;
    parcels *shop = c->arg;
    wait_for_go(c);
    for (int i = 0; i < c->rounds; i++) {
        parcel *p = calloc(1, sizeof *p);
        if (p == NULL) {
            break;
        }
        p->task.run = open_parcel;
        p->task.arg = p;
        p->content = 42;
        p->opened = &shop->opened;
        p->wrong = &shop->wrong;
        if (loop_scheduler_post(c->l, &p->task) == 0) {
            atomic_fetch_add(&c->accepted, 1);
        } else {
            free(p);
        }
    }
    return 0;
}

TEST run_may_free_its_task_and_sees_what_was_done_before_the_post(void)
{
    enum { N = 4 };
    loop_scheduler l;
    member m[N];
    parcels shop = {.opened = 0};
    ASSERT(make_and_start(&l, 0));
    crowd c = {.l = &l, .rounds = scaled(20000), .arg = &shop};
    start_crowd(&c, m, N, send_parcels);
    join_crowd(m, N);
    ASSERT_INT(N * c.rounds, atomic_load(&c.accepted));
    ASSERT_ENDS_WELL(&l);
    ASSERT_INT(N * c.rounds, atomic_load(&shop.opened));
    ASSERT_INT(0, atomic_load(&shop.wrong));
    PASS();
}

/* Its thread makes a loop, runs it until a task ends that, and frees it at once. */
typedef struct mayfly {
    _Atomic(loop_scheduler *) l;
    csem born;
    int made, ran, destroyed;
} mayfly;

static plim_thread_result live_and_die(void *arg)
{
    mayfly *f = arg;
    loop_scheduler *l = malloc(sizeof *l);
    f->made = l != NULL ? loop_scheduler_init(l, NULL) : ENOMEM;
    atomic_store(&f->l, l);
    csem_release(&f->born);
    f->ran = loop_scheduler_run(l);
    f->destroyed = loop_scheduler_destroy(l);
    memset((void *)l, 0xa5, sizeof *l);
    free(l);
    return 0;
}

static void stop_it(loop_scheduler_task *task, int status)
{
    (void)status;
    loop_scheduler_stop(task->arg);
}

TEST a_task_may_end_its_loop_and_free_it_before_post_has_returned(void)
{
    uint64_t random = 1;
    int64_t end = plim_now_() + PLIM_S(LONG_S);
    for (int round = scaled(3000); round > 0 && plim_now_() < end; round--) {
        mayfly f = {.l = NULL};
        plim_thread thread;
        csem_init(&f.born, 0);
        start(&thread, live_and_die, &f);
        ASSERT_INT(0, csem_acquire_for(&f.born, PLIM_S(PATIENCE_S)));
        ASSERT_INT(0, f.made);
        loop_scheduler *l = atomic_load(&f.l);
        loop_scheduler_task task = {.run = stop_it, .arg = l};
        dawdle(next_random(&random)); /* sometimes it sleeps by now */
        ASSERT_INT(0, loop_scheduler_post(l, &task));
        join(thread);
        ASSERT_INT(0, f.ran);
        ASSERT_INT(0, f.destroyed);
    }
    PASS();
}

/* ---- lists ---- */

TEST a_list_is_queued_in_order_behind_what_is_there(void)
{
    loop_scheduler l;
    spy s[5];
    diary d = {.count = 0};
    ASSERT(make(&l, NULL, 0));
    spies_init(s, 5, &l, &d);
    loop_scheduler_task *list[] = {&s[3].task, &s[1].task, &s[2].task};
    ASSERT_INT(0, loop_scheduler_post(&l, &s[0].task));
    ASSERT_INT(0, loop_scheduler_post_list(&l, list, 3));
    list[0] = NULL; /* the array is needed no longer than the call */
    ASSERT_INT(0, loop_scheduler_post(&l, &s[4].task));
    ASSERT_INT(5, loop_scheduler_snapshot(&l).queued);
    ASSERT_U64(5, loop_scheduler_snapshot(&l).posted);
    ASSERT_INT(1, run_dry(&l));
    ASSERT_STR_EQ("1 4 2 3 5", story(&d));
    ASSERT_ENDS_WELL(&l);
    PASS();
}

TEST an_empty_list_is_nothing(void)
{
    loop_scheduler l;
    spy s;
    ASSERT(make(&l, NULL, 0));
    spies_init(&s, 1, &l, NULL);
    loop_scheduler_task *list[] = {&s.task};
    ASSERT_INT(0, loop_scheduler_post_list(&l, list, 0));
    ASSERT_INT(0, loop_scheduler_snapshot(&l).queued);
    ASSERT_INT(EAGAIN, loop_scheduler_poll(&l));
    ASSERT_ENDS_WELL(&l);
    PASS();
}

TEST a_list_that_does_not_fit_is_refused_as_a_whole(void)
{
    loop_scheduler l;
    spy s[5];
    diary d = {.count = 0};
    ASSERT(make(&l, NULL, 3));
    spies_init(s, 5, &l, &d);
    loop_scheduler_task *list[] = {&s[1].task, &s[2].task, &s[3].task, &s[4].task};
    ASSERT_INT(EAGAIN, loop_scheduler_post_list(&l, list, 4)); /* it never fits */
    ASSERT_INT(0, loop_scheduler_post(&l, &s[0].task));
    ASSERT_INT(EAGAIN, loop_scheduler_post_list(&l, list, 3));
    ASSERT_INT(1, loop_scheduler_snapshot(&l).queued);
    ASSERT_INT(0, loop_scheduler_post_list(&l, list, 2));
    ASSERT_INT(EAGAIN, loop_scheduler_post_list(&l, list + 2, 1));
    ASSERT_INT(1, run_dry(&l));
    ASSERT_STR_EQ("1 2 3", story(&d));
    ASSERT_INT(0, loop_scheduler_post_list(&l, list, 3));
    ASSERT_INT(0, loop_scheduler_close(&l, LOOP_SCHEDULER_DRAIN, PLIM_S(PATIENCE_S)));
    ASSERT_STR_EQ("1 2 3 2 3 4", story(&d));
    ASSERT_INT(ESHUTDOWN, loop_scheduler_post_list(&l, list, 2));
    ASSERT_ENDS_WELL(&l);
    ASSERT_INT(6, atomic_load(&d.count));
    PASS();
}

static void post_a_list(spy *s)
{
    spy *others = s->arg;
    loop_scheduler_task *list[] = {&others[2].task, &others[3].task};
    s->error = loop_scheduler_post_list(s->l, list, 2);
}

TEST a_task_may_post_a_list(void)
{
    loop_scheduler l;
    spy s[4];
    diary d = {.count = 0};
    ASSERT(make(&l, NULL, 0));
    spies_init(s, 4, &l, &d);
    s[0].act = post_a_list;
    s[0].arg = s;
    ASSERT_INT(0, loop_scheduler_post(&l, &s[0].task));
    ASSERT_INT(0, loop_scheduler_post(&l, &s[1].task));
    ASSERT_INT(2, run_dry(&l));
    ASSERT_INT(0, s[0].error);
    ASSERT_STR_EQ("1 2 3 4", story(&d));
    ASSERT_ENDS_WELL(&l);
    PASS();
}

enum { LIST = 5, LISTS = 4 };

/* On the loop: which task of a list must come next, and how often it did not. */
typedef struct parade {
    spy *expected;
    int broken, whole;
} parade;

static void march(spy *s)
{
    parade *p = s->arg;
    int place = s->number % LIST;
    if (place == 0 ? p->expected != NULL : p->expected != s) {
        p->broken++;
    }
    p->expected = place == LIST - 1 ? NULL : s + 1;
    p->whole += place == LIST - 1;
}

static plim_thread_result post_lists(void *arg)
{
    member *m = arg;
    crowd *c = m->crowd;
    spy s[LIST];
    loop_scheduler_task *list[LIST];
    spies_init(s, LIST, c->l, NULL);
    for (int i = 0; i < LIST; i++) {
        s[i].number = i;
        s[i].act = march;
        s[i].arg = c->arg;
        list[i] = &s[i].task;
    }
    wait_for_go(c);
    int posted = 0;
    while (posted < c->rounds && plim_now_() < c->end) {
        int error = loop_scheduler_post_list(c->l, list, LIST);
        posted += error == 0;
        atomic_fetch_add(error == 0 ? &c->accepted : error == EALREADY ? &c->refused : &c->odd, 1);
        if (error != 0) {
            plim_thread_yield_();
        }
    }
    while (runs(&s[LIST - 1]) < posted) { /* they are on this stack */
        plim_thread_yield_();
    }
    return 0;
}

TEST nothing_gets_between_the_tasks_of_a_list(void)
{
    loop_scheduler l;
    member m[LISTS];
    parade p = {.expected = NULL};
    ASSERT(make_and_start(&l, 0));
    crowd c = {.l = &l, .rounds = scaled(4000), .end = plim_now_() + PLIM_S(LONG_S), .arg = &p};
    start_crowd(&c, m, LISTS, post_lists);
    join_crowd(m, LISTS);
    ASSERT_INT(0, atomic_load(&c.odd));
    ASSERT_ENDS_WELL(&l);
    ASSERT_INT(0, p.broken);
    ASSERT_INT(atomic_load(&c.accepted), p.whole);
    PASS();
}

/* ---- order ---- */

static void post_another(spy *s)
{
    spy *other = s->arg;
    s->error = loop_scheduler_post(s->l, &other->task);
    s->result = runs(other);
}

TEST what_a_task_posts_runs_later_and_behind_what_is_queued(void)
{
    loop_scheduler l;
    spy s[4];
    diary d = {.count = 0};
    ASSERT(make(&l, NULL, 0));
    spies_init(s, 4, &l, &d);
    s[0].act = post_another;
    s[0].arg = &s[3];
    for (int i = 0; i < 3; i++) {
        ASSERT_INT(0, loop_scheduler_post(&l, &s[i].task));
    }
    ASSERT_INT(2, run_dry(&l));
    ASSERT_INT(0, s[0].error);
    ASSERT_INT(0, s[0].result); /* not inside of post */
    ASSERT_STR_EQ("1 2 3 4", story(&d));
    ASSERT_ENDS_WELL(&l);
    PASS();
}

enum { POSTERS = 50, POSTS = 100 };

typedef struct ticket {
    loop_scheduler_task task;
    struct ledger *ledger;
    int poster, number;
} ticket;

typedef struct ledger {
    loop_scheduler *l;
    ticket tickets[POSTERS][POSTS];
    int next[POSTERS];           /* on the loop, without a lock: the number to come */
    int inside, overlaps, wrong; /* likewise */
    const void *thread;
    atomic_int ran;
} ledger;

static void punch(loop_scheduler_task *task, int status)
{
    ticket *t = task->arg;
    ledger *k = t->ledger;
    k->overlaps += k->inside++ != 0;
    k->wrong += status != 0 || k->next[t->poster] != t->number;
    k->wrong += k->thread != NULL && k->thread != this_thread();
    k->thread = this_thread();
    k->next[t->poster] = t->number + 1;
    k->inside--;
    atomic_fetch_add(&k->ran, 1);
}

static plim_thread_result post_tickets(void *arg)
{
    member *m = arg;
    crowd *c = m->crowd;
    ledger *k = c->arg;
    uint64_t random = (uint64_t)m->number + 1;
    wait_for_go(c);
    for (int i = 0; i < POSTS; i++) {
        int error = loop_scheduler_post(c->l, &k->tickets[m->number][i].task);
        atomic_fetch_add(error == 0 ? &c->accepted : &c->odd, 1);
        dawdle(next_random(&random));
    }
    return 0;
}

TEST fifty_threads_post_and_each_keeps_its_order_and_none_overlap(void)
{
    loop_scheduler l;
    static member m[POSTERS];
    ledger *k = calloc(1, sizeof *k);
    ASSERT(k != NULL);
    ASSERT(make_and_start(&l, 0));
    for (int i = 0; i < POSTERS; i++) {
        for (int j = 0; j < POSTS; j++) {
            k->tickets[i][j] = (ticket){.task = {.run = punch, .arg = &k->tickets[i][j]},
                                        .ledger = k,
                                        .poster = i,
                                        .number = j};
        }
    }
    crowd c = {.l = &l, .arg = k};
    start_crowd(&c, m, POSTERS, post_tickets);
    join_crowd(m, POSTERS);
    ASSERT_INT(POSTERS * POSTS, atomic_load(&c.accepted));
    ASSERT(EVENTUALLY(atomic_load(&k->ran) == POSTERS * POSTS));
    ASSERT_U64(POSTERS * POSTS, loop_scheduler_snapshot(&l).posted);
    ASSERT_ENDS_WELL(&l);
    ASSERT_INT(0, k->wrong);
    ASSERT_INT(0, k->overlaps);
    ASSERT_INT(POSTERS * POSTS, atomic_load(&k->ran));
    free(k);
    PASS();
}

/* A second thread, which posts when it is told, and says so. */
typedef struct relay {
    loop_scheduler *l;
    csem go, gone;
    spy *remote;
    int rounds, odd;
    plim_thread thread;
} relay;

static plim_thread_result post_when_told(void *arg)
{
    relay *r = arg;
    for (int i = 0; i < r->rounds; i++) {
        r->odd += csem_acquire_for(&r->go, PLIM_S(PATIENCE_S)) != 0;
        r->odd += loop_scheduler_post(r->l, &r->remote->task) != 0;
        csem_release(&r->gone);
    }
    return 0;
}

static void start_relay(relay *r)
{
    csem_init(&r->go, 0);
    csem_init(&r->gone, 0);
    start(&r->thread, post_when_told, r);
}

static bool let_the_other_post(relay *r)
{
    csem_release(&r->go);
    return csem_acquire_for(&r->gone, PLIM_S(PATIENCE_S)) == 0;
}

typedef struct scene {
    loop_scheduler *l;
    spy s[4];
    relay r;
    int next; /* on the loop */
    int place[4];
    csem over;
    int odd;
} scene;

static void take_place(spy *s)
{
    scene *k = s->arg;
    k->place[s->number - 1] = k->next++;
    if (s->number == 3) {
        csem_release(&k->over);
    }
}

static void post_around_the_other(spy *s)
{
    scene *k = s->arg;
    k->odd += loop_scheduler_post(k->l, &k->s[0].task) != 0;
    k->odd += !let_the_other_post(&k->r); /* the second */
    k->odd += loop_scheduler_post(k->l, &k->s[2].task) != 0;
}

/* The loop's thread posts, tells another thread, which posts, and tells the loop's thread, which
 * posts again: they run in this order. With from_outside, the first thread is not the loop's. */
TEST posts_run_in_the_order_in_which_they_can_have_known_of_each_other(bool from_outside)
{
    loop_scheduler l;
    static scene k;
    memset((void *)&k, 0, sizeof k);
    k.l = &l;
    csem_init(&k.over, 0);
    ASSERT(make_and_start(&l, 0));
    spies_init(k.s, 4, &l, NULL);
    for (int i = 0; i < 3; i++) {
        k.s[i].act = take_place;
        k.s[i].arg = &k;
    }
    k.s[3].act = post_around_the_other;
    k.s[3].arg = &k;
    k.r = (relay){.l = &l, .remote = &k.s[1], .rounds = scaled(4000)};
    start_relay(&k.r);
    int wrong = 0;
    for (int i = 0; i < k.r.rounds; i++) {
        if (from_outside) {
            post_around_the_other(&k.s[3]);
        } else {
            ASSERT_INT(0, loop_scheduler_post(&l, &k.s[3].task));
        }
        ASSERT_INT(0, csem_acquire_for(&k.over, PLIM_S(PATIENCE_S)));
        wrong += k.place[0] != 3 * i || k.place[1] != 3 * i + 1 || k.place[2] != 3 * i + 2;
    }
    join(k.r.thread);
    ASSERT_INT(0, k.odd + k.r.odd);
    ASSERT_INT(0, wrong);
    ASSERT_ENDS_WELL(&l);
    PASS();
}

enum { REPOSTS = 1000 };

static void go_on_for_ever(spy *s)
{
    scene *k = s->arg;
    k->next++;
    if (k->next == REPOSTS) {
        k->odd += !let_the_other_post(&k->r);
    }
    if (k->next < 2 * REPOSTS) {
        k->odd += loop_scheduler_post(s->l, &s->task) != 0;
    } else {
        csem_release(&k->over);
    }
}

static void see_how_far(spy *s)
{
    scene *k = s->arg;
    k->place[0] = k->next;
}

TEST a_task_that_posts_itself_keeps_nobody_waiting(void)
{
    loop_scheduler l;
    static scene k;
    memset((void *)&k, 0, sizeof k);
    csem_init(&k.over, 0);
    ASSERT(make_and_start(&l, 0));
    spies_init(k.s, 2, &l, NULL);
    k.s[0].act = go_on_for_ever;
    k.s[1].act = see_how_far;
    k.s[0].arg = k.s[1].arg = &k;
    k.r = (relay){.l = &l, .remote = &k.s[1], .rounds = 1};
    start_relay(&k.r);
    ASSERT_INT(0, loop_scheduler_post(&l, &k.s[0].task));
    ASSERT_INT(0, csem_acquire_for(&k.over, PLIM_S(PATIENCE_S)));
    join(k.r.thread);
    ASSERT_INT(0, k.odd + k.r.odd);
    ASSERT_INT(REPOSTS, k.place[0]); /* posted in its run 1000, it ran before 1001 */
    ASSERT_ENDS_WELL(&l);
    PASS();
}

/* ---- turns ---- */

TEST a_turn_runs_what_was_queued_when_it_began(void)
{
    loop_scheduler l;
    spy s[6];
    diary d = {.count = 0};
    ASSERT(make(&l, NULL, 0));
    spies_init(s, 6, &l, &d);
    for (int i = 0; i < 3; i++) {
        s[i].act = post_another;
        s[i].arg = &s[i + 3];
        ASSERT_INT(0, loop_scheduler_post(&l, &s[i].task));
    }
    ASSERT_INT(0, loop_scheduler_poll(&l));
    ASSERT_STR_EQ("1 2 3", story(&d));
    ASSERT_INT(3, loop_scheduler_snapshot(&l).queued);
    ASSERT_INT(0, loop_scheduler_poll(&l));
    ASSERT_STR_EQ("1 2 3 4 5 6", story(&d));
    ASSERT_INT(EAGAIN, loop_scheduler_poll(&l));
    ASSERT_ENDS_WELL(&l);
    PASS();
}

TEST timers_and_tasks_take_turns_by_64(void)
{
    enum { N = 300 };
    loop_scheduler l;
    world w;
    static diary d;
    static spy s[N];
    static bell b[N];
    memset((void *)&d, 0, sizeof d);
    ASSERT(make(&l, &w, 0));
    spies_init(s, N, &l, &d);
    bells_init(b, N, &l, &w, &d);
    for (int i = 0; i < N; i++) {
        s[i].number = 1;
        b[i].number = 2;
        ASSERT_INT(0, loop_scheduler_timer_start(&l, &b[i].timer, 1000 + i, 0));
    }
    run_dry(&l); /* now the loop knows them */
    for (int i = 0; i < N; i++) {
        ASSERT_INT(0, loop_scheduler_post(&l, &s[i].task));
    }
    pass_time(&w, 2000);
    ASSERT_INT(0, loop_scheduler_poll(&l));
    ASSERT_INT(2 * N, atomic_load(&d.count)); /* all of it in one turn */
    int in_a_row = 0, seen[3] = {0, 0, 0};
    for (int i = 0; i < 2 * N; i++) {
        in_a_row = i > 0 && d.number[i] == d.number[i - 1] ? in_a_row + 1 : 1;
        seen[d.number[i]]++;
        ASSERT(in_a_row <= 64 || seen[3 - d.number[i]] == N);
    }
    ASSERT_INT(N, seen[1]);
    ASSERT_ENDS_WELL(&l);
    PASS();
}

static void pass_some_time(spy *s)
{
    pass_time(s->arg, 10);
}

TEST a_long_turn_calls_the_timers_that_become_due_meanwhile(void)
{
    enum { N = 300, AT = 100 };
    loop_scheduler l;
    world w;
    static diary d;
    static spy s[N];
    bell b;
    memset((void *)&d, 0, sizeof d);
    ASSERT(make(&l, &w, 0));
    spies_init(s, N, &l, &d);
    bells_init(&b, 1, &l, &w, &d);
    b.number = 0;
    ASSERT_INT(0, loop_scheduler_timer_start(&l, &b.timer, 10, 0));
    s[AT].act = pass_some_time;
    s[AT].arg = &w;
    for (int i = 0; i < N; i++) {
        ASSERT_INT(0, loop_scheduler_post(&l, &s[i].task));
    }
    ASSERT_INT(0, loop_scheduler_poll(&l));
    ASSERT_INT(N + 1, atomic_load(&d.count));
    int place = 0;
    while (d.number[place] != 0) {
        place++;
    }
    ASSERT(place > AT);
    ASSERT(place <= AT + 64);
    ASSERT_ENDS_WELL(&l);
    PASS();
}

static void start_again_at_once(bell *b)
{
    b->error = loop_scheduler_timer_start(b->l, &b->timer, b->ns, 0);
}

TEST a_timer_without_delay_that_starts_itself_runs_once_a_turn(int64_t delay_ns)
{
    loop_scheduler l;
    world w;
    diary d = {.count = 0};
    bell b;
    spy s;
    ASSERT(make(&l, &w, 0));
    bells_init(&b, 1, &l, &w, &d);
    spies_init(&s, 1, &l, &d);
    s.number = 2;
    b.act = start_again_at_once;
    b.ns = delay_ns;
    ASSERT_INT(0, loop_scheduler_timer_start(&l, &b.timer, delay_ns, 0));
    for (int i = 1; i <= 10; i++) {
        ASSERT_INT(0, loop_scheduler_post(&l, &s.task));
        ASSERT_INT(0, loop_scheduler_poll(&l));
        ASSERT_INT(i, rings(&b));
        ASSERT_INT(i, runs(&s));
        ASSERT_INT(0, b.error);
    }
    ASSERT_INT(0, loop_scheduler_timer_cancel(&l, &b.timer));
    ASSERT_ENDS_WELL(&l);
    PASS();
}

static void post_again_for_ever(spy *s)
{
    s->error = loop_scheduler_post(s->l, &s->task);
}

TEST a_flood_of_posts_does_not_hold_up_a_timer(void)
{
    loop_scheduler l;
    world w;
    spy s[100];
    bell b;
    ASSERT(make(&l, &w, 0));
    spies_init(s, 100, &l, NULL);
    bells_init(&b, 1, &l, &w, NULL);
    for (int i = 0; i < 100; i++) {
        s[i].act = post_again_for_ever;
        ASSERT_INT(0, loop_scheduler_post(&l, &s[i].task));
    }
    ASSERT_INT(0, loop_scheduler_timer_start(&l, &b.timer, 10, 10));
    for (int i = 1; i <= 20; i++) {
        pass_time(&w, 10);
        ASSERT_INT(0, loop_scheduler_poll(&l));
        ASSERT_INT(i, rings(&b));
        ASSERT_INT(i, runs(&s[99]));
    }
    ASSERT_INT(0, loop_scheduler_close(&l, LOOP_SCHEDULER_NOW, PLIM_S(PATIENCE_S)));
    for (int i = 0; i < 100; i++) {
        ASSERT_INT(20, runs(&s[i]));
        ASSERT_INT(1, cancels(&s[i]));
    }
    ASSERT_ENDS_WELL(&l);
    PASS();
}

/* ---- wake-ups ---- */

TEST an_awake_loop_is_not_woken(void)
{
    enum { N = 100 };
    loop_scheduler l;
    spy gate, s[N];
    ASSERT(make_and_start(&l, 0));
    ASSERT(occupy(&l, &gate));
    loop_scheduler_stats before = loop_scheduler_snapshot(&l);
    spies_init(s, N, &l, NULL);
    for (int i = 0; i < N; i++) {
        ASSERT_INT(0, loop_scheduler_post(&l, &s[i].task));
    }
    loop_scheduler_stats after = loop_scheduler_snapshot(&l);
    ASSERT_U64(before.wakes, after.wakes);
    ASSERT_U64(before.sleeps, after.sleeps);
    let_go(&gate);
    ASSERT(EVENTUALLY(runs(&s[N - 1]) == 1));
    ASSERT_ENDS_WELL(&l);
    PASS();
}

TEST a_loop_that_nobody_runs_is_not_woken(void)
{
    loop_scheduler l;
    spy s[10];
    ASSERT(make(&l, NULL, 0));
    spies_init(s, 10, &l, NULL);
    for (int i = 0; i < 10; i++) {
        ASSERT_INT(0, loop_scheduler_post(&l, &s[i].task));
    }
    ASSERT_INT(0, loop_scheduler_run_once(&l, PLIM_S(PATIENCE_S)));
    ASSERT_U64(0, loop_scheduler_snapshot(&l).wakes);
    ASSERT_U64(0, loop_scheduler_snapshot(&l).sleeps);
    ASSERT_ENDS_WELL(&l);
    PASS();
}

TEST a_sleeping_loop_is_woken_once(void)
{
    loop_scheduler l;
    ASSERT(make_and_start(&l, 0));
    int woken = 0;
    int64_t give_up = plim_now_() + PLIM_S(PATIENCE_S);
    for (int round = 0; woken < 20; round++) {
        ASSERT(plim_now_() < give_up); /* it never sleeps, or sleeping is not counted */
        spy gate, more[3];
        uint64_t before = loop_scheduler_snapshot(&l).wakes;
        ASSERT(occupy(&l, &gate));
        spies_init(more, 3, &l, NULL);
        for (int i = 0; i < 3; i++) {
            ASSERT_INT(0, loop_scheduler_post(&l, &more[i].task));
        }
        let_go(&gate);
        ASSERT(EVENTUALLY(runs(&more[2]) == 1 && runs(&gate) == 1));
        loop_scheduler_stats s = loop_scheduler_snapshot(&l);
        ASSERT(s.wakes - before <= 1);
        ASSERT(s.wakes <= s.sleeps);
        woken += s.wakes - before == 1;
        rest(PLIM_US(100 * (1 + round % 10))); /* time to fall asleep */
    }
    ASSERT_ENDS_WELL(&l);
    PASS();
}

/* ---- a queue with a limit ---- */

TEST as_many_as_fit_are_accepted_and_no_more(uint32_t limit)
{
    enum { MOST = 51 };
    loop_scheduler l;
    spy s[MOST];
    ASSERT(make(&l, NULL, limit));
    spies_init(s, MOST, &l, NULL);
    for (int round = 0; round < 3; round++) {
        for (uint32_t i = 0; i < limit; i++) {
            ASSERT_INT(0, loop_scheduler_post(&l, &s[i].task));
        }
        ASSERT_INT(EAGAIN, loop_scheduler_post(&l, &s[limit].task));
        ASSERT_INT(limit, loop_scheduler_snapshot(&l).queued);
        ASSERT_U64(round + 1, loop_scheduler_snapshot(&l).rejected);
        ASSERT_INT(1, run_dry(&l));
        ASSERT_INT(round + 1, runs(&s[0]));
    }
    ASSERT_INT(0, runs(&s[limit]));
    ASSERT_ENDS_WELL(&l);
    PASS();
}

TEST the_task_that_runs_takes_no_place(void)
{
    loop_scheduler l;
    spy s[4];
    ASSERT(make_and_start(&l, 2));
    spies_init(s, 4, &l, NULL);
    for (int i = 0; i < 4; i++) {
        s[i].act = hold;
    }
    ASSERT_INT(0, loop_scheduler_post(&l, &s[0].task));
    ASSERT(has_entered(&s[0]));
    ASSERT_INT(0, loop_scheduler_post(&l, &s[1].task));
    ASSERT_INT(0, loop_scheduler_post(&l, &s[2].task));
    ASSERT_INT(EAGAIN, loop_scheduler_post(&l, &s[3].task));
    let_go(&s[0]);
    ASSERT(has_entered(&s[1]));
    ASSERT_INT(0, loop_scheduler_post(&l, &s[3].task));
    ASSERT_INT(EAGAIN, loop_scheduler_post(&l, &s[0].task));
    for (int i = 1; i < 4; i++) {
        let_go(&s[i]);
    }
    ASSERT(EVENTUALLY(runs(&s[3]) == 1));
    ASSERT_ENDS_WELL(&l);
    PASS();
}

static plim_thread_result post_once(void *arg)
{
    member *m = arg;
    crowd *c = m->crowd;
    spy *s = c->arg;
    wait_for_go(c);
    int error = loop_scheduler_post(c->l, &s[m->number].task);
    atomic_fetch_add(error == 0 ? &c->accepted : error == EAGAIN ? &c->refused : &c->odd, 1);
    return 0;
}

TEST the_limit_is_exact_from_many_threads(void)
{
    enum { N = 16, LIMIT = 5 };
    loop_scheduler l;
    member m[N];
    spy s[N];
    for (int round = scaled(100); round > 0; round--) {
        ASSERT(make(&l, NULL, LIMIT));
        spies_init(s, N, &l, NULL);
        crowd c = {.l = &l, .arg = s};
        start_crowd(&c, m, N, post_once);
        join_crowd(m, N);
        ASSERT_INT(LIMIT, atomic_load(&c.accepted));
        ASSERT_INT(N - LIMIT, atomic_load(&c.refused));
        ASSERT_INT(LIMIT, loop_scheduler_snapshot(&l).queued);
        ASSERT_ENDS_WELL(&l);
    }
    PASS();
}

static void fill_the_own_queue(spy *s)
{
    spy *others = s->arg;
    s->error = loop_scheduler_post(s->l, &others[0].task);
    s->result = loop_scheduler_post(s->l, &others[1].task);
}

TEST a_task_is_refused_by_its_own_full_queue(void)
{
    loop_scheduler l;
    spy s[3];
    ASSERT(make(&l, NULL, 1));
    spies_init(s, 3, &l, NULL);
    s[0].act = fill_the_own_queue;
    s[0].arg = &s[1];
    ASSERT_INT(0, loop_scheduler_post(&l, &s[0].task));
    ASSERT_INT(2, run_dry(&l));
    ASSERT_INT(0, s[0].error);
    ASSERT_INT(EAGAIN, s[0].result);
    ASSERT_INT(1, runs(&s[1]));
    ASSERT_INT(0, runs(&s[2]));
    ASSERT_ENDS_WELL(&l);
    PASS();
}

static int add_one(void *arg)
{
    return ++*(int *)arg;
}

static void end_at_once(loop_scheduler_coroutine *co)
{
    ++*(int *)co->arg;
    LOOP_BEGIN(co);
    LOOP_END(co);
}

static int execute_here(void *ctx, void (*run)(void *), void *arg)
{
    (void)ctx;
    run(arg);
    return 0;
}

static void count_then(loop_scheduler_work *work, int status)
{
    *(int *)work->arg += status == 0 ? 10 : 1000;
}

TEST a_full_queue_refuses_posts_and_nothing_else(void)
{
    loop_scheduler l;
    spy s[2];
    bell b;
    int number = 0, begun = 0, called = 0;
    plim_executor on_the_spot = {execute_here, NULL};
    loop_scheduler_work work = {.work = add_one, .then = count_then, .arg = &number};
    loop_scheduler_coroutine co = {.run = end_at_once, .arg = &begun};
    ASSERT(make(&l, NULL, 1));
    spies_init(s, 2, &l, NULL);
    bells_init(&b, 1, &l, NULL, NULL);
    ASSERT_INT(0, loop_scheduler_post(&l, &s[0].task));
    ASSERT_INT(EAGAIN, loop_scheduler_post(&l, &s[1].task));
    ASSERT_INT(0, loop_scheduler_offload(&l, &on_the_spot, &work));
    ASSERT_INT(0, loop_scheduler_spawn(&l, &co));
    ASSERT_INT(0, loop_scheduler_timer_start(&l, &b.timer, 0, 0));
    caller c = {.l = &l, .call = CALL, .fn = add_one, .arg = &called};
    start_call(&c);
    ASSERT(EVENTUALLY(loop_scheduler_snapshot(&l).queued >= 4));
    ASSERT_INT(EAGAIN, loop_scheduler_post(&l, &s[1].task));
    run_dry(&l);
    ASSERT(finished(&c));
    ASSERT_INT(0, c.error);
    ASSERT_INT(1, c.result);
    ASSERT_INT(11, number);
    ASSERT_INT(1, begun);
    ASSERT_INT(1, rings(&b));
    ASSERT_INT(0, loop_scheduler_post(&l, &s[1].task));
    ASSERT_ENDS_WELL(&l);
    PASS();
}

/* ---- post_for ---- */

TEST post_for_does_not_wait_where_there_is_room(void)
{
    loop_scheduler l;
    spy s[3];
    for (uint32_t limit = 0; limit < 4; limit += 3) {
        ASSERT(make(&l, NULL, limit));
        spies_init(s, 3, &l, NULL);
        ASSERT_INT(0, loop_scheduler_post_for(&l, &s[0].task, 0));
        ASSERT_INT(0, loop_scheduler_post_for(&l, &s[1].task, INT64_MIN));
        ASSERT_INT(0, loop_scheduler_post_for(&l, &s[2].task, PLIM_FOREVER));
        ASSERT_INT(1, run_dry(&l));
        ASSERT_INT(1, runs(&s[2]));
        ASSERT_INT(0, loop_scheduler_close(&l, LOOP_SCHEDULER_NOW, PLIM_S(PATIENCE_S)));
        ASSERT_INT(ESHUTDOWN, loop_scheduler_post_for(&l, &s[0].task, PLIM_FOREVER));
        ASSERT_ENDS_WELL(&l);
    }
    PASS();
}

TEST post_for_gives_up_in_time_and_leaves_nothing(int64_t timeout_ns)
{
    loop_scheduler l;
    spy s[2];
    ASSERT(make(&l, NULL, 1));
    spies_init(s, 2, &l, NULL);
    ASSERT_INT(0, loop_scheduler_post(&l, &s[0].task));
    int64_t from = plim_now_();
    ASSERT_INT(ETIMEDOUT, loop_scheduler_post_for(&l, &s[1].task, timeout_ns));
    int64_t took = plim_now_() - from;
    ASSERT(took >= timeout_ns);
    ASSERT(took < PLIM_S(PATIENCE_S));
    ASSERT_INT(1, loop_scheduler_snapshot(&l).queued);
    ASSERT_INT(1, run_dry(&l));
    ASSERT_INT(0, runs(&s[1]));
    ASSERT_INT(0, loop_scheduler_post(&l, &s[1].task)); /* it is ours */
    ASSERT_INT(1, run_dry(&l));
    ASSERT_INT(1, runs(&s[1]));
    ASSERT_ENDS_WELL(&l);
    PASS();
}

TEST post_for_gets_the_place_that_becomes_free(void)
{
    loop_scheduler l;
    spy s[2];
    ASSERT(make(&l, NULL, 1));
    spies_init(s, 2, &l, NULL);
    ASSERT_INT(0, loop_scheduler_post(&l, &s[0].task));
    caller c = {.l = &l, .call = POST_FOR, .task = &s[1].task, .timeout_ns = PLIM_S(PATIENCE_S)};
    start_call(&c);
    ASSERT(stays_false(&c.done));
    ASSERT_INT(0, loop_scheduler_poll(&l));
    ASSERT(finished(&c));
    ASSERT_INT(0, c.error);
    ASSERT_INT(1, run_dry(&l));
    ASSERT_INT(1, runs(&s[1]));
    ASSERT_ENDS_WELL(&l);
    PASS();
}

static void say_so(spy *s)
{
    csem_release(&s->entered);
}

static plim_thread_result post_for_often(void *arg)
{
    member *m = arg;
    crowd *c = m->crowd;
    spy s;
    spies_init(&s, 1, c->l, NULL);
    s.act = say_so;
    wait_for_go(c);
    int accepted = 0;
    for (int i = 0; i < c->rounds && plim_now_() < c->end; i++) {
        int error = loop_scheduler_post_for(c->l, &s.task, PLIM_S(PATIENCE_S));
        accepted += error == 0;
        error = error != 0 ? error : csem_acquire_for(&s.entered, PLIM_S(PATIENCE_S));
        atomic_fetch_add(error == 0 ? &c->accepted : &c->odd, 1);
    }
    while (runs(&s) < accepted) { /* it is on this stack */
        plim_thread_yield_();
    }
    return 0;
}

TEST all_who_wait_for_a_place_get_one(uint32_t limit)
{
    enum { N = 8 };
    loop_scheduler l;
    member m[N];
    ASSERT(make_and_start(&l, limit));
    crowd c = {.l = &l, .rounds = scaled(2000), .end = plim_now_() + PLIM_S(LONG_S)};
    start_crowd(&c, m, N, post_for_often);
    join_crowd(m, N);
    ASSERT_INT(0, atomic_load(&c.odd));
    ASSERT_U64(atomic_load(&c.accepted), loop_scheduler_snapshot(&l).ran);
    ASSERT(loop_scheduler_snapshot(&l).peak_queued <= limit);
    ASSERT_ENDS_WELL(&l);
    PASS();
}

TEST close_sends_away_who_waits_for_a_place(int how)
{
    loop_scheduler l;
    spy s[3], gate;
    caller c[2];
    ASSERT(make_and_start(&l, 1));
    ASSERT(occupy(&l, &gate));
    spies_init(s, 3, &l, NULL);
    ASSERT_INT(0, loop_scheduler_post(&l, &s[0].task));
    for (int i = 0; i < 2; i++) {
        c[i] = (caller){
            .l = &l, .call = POST_FOR, .task = &s[i + 1].task, .timeout_ns = PLIM_S(PATIENCE_S)};
        start_call(&c[i]);
    }
    ASSERT(stays_false(&c[0].done));
    caller closer = {.l = &l, .call = CLOSE, .how = how, .timeout_ns = PLIM_S(PATIENCE_S)};
    start_call(&closer);
    for (int i = 0; i < 2; i++) { /* even while the loop is busy */
        ASSERT(finished(&c[i]));
        ASSERT_INT(ESHUTDOWN, c[i].error);
    }
    let_go(&gate);
    ASSERT(finished(&closer));
    ASSERT_INT(0, closer.error);
    ASSERT_INT(how == LOOP_SCHEDULER_DRAIN, runs(&s[0]));
    ASSERT_INT(how == LOOP_SCHEDULER_NOW, cancels(&s[0]));
    ASSERT_INT(0, runs(&s[1]) + cancels(&s[1]) + runs(&s[2]) + cancels(&s[2]));
    ASSERT_ENDS_WELL(&l);
    PASS();
}

/* ---- cancel ---- */

TEST a_cancelled_task_is_told_in_its_turn(void)
{
    loop_scheduler l;
    spy s[4];
    diary d = {.count = 0};
    ASSERT(make(&l, NULL, 0));
    spies_init(s, 4, &l, &d);
    ASSERT_INT(ENOENT, loop_scheduler_cancel(&l, &s[0].task));
    for (int i = 0; i < 4; i++) {
        ASSERT_INT(0, loop_scheduler_post(&l, &s[i].task));
    }
    ASSERT_INT(0, loop_scheduler_cancel(&l, &s[1].task));
    ASSERT_INT(0, loop_scheduler_cancel(&l, &s[3].task));
    ASSERT_INT(0, atomic_load(&d.count)); /* nothing runs inside of cancel */
    ASSERT_INT(EALREADY, loop_scheduler_cancel(&l, &s[1].task));
    ASSERT_INT(EALREADY, loop_scheduler_post(&l, &s[1].task)); /* it is queued, to be told */
    ASSERT_INT(1, run_dry(&l));
    ASSERT_STR_EQ("1 x2 3 x4", story(&d));
    ASSERT(s[1].current);
    loop_scheduler_stats figures = loop_scheduler_snapshot(&l);
    ASSERT_U64(4, figures.posted);
    ASSERT_U64(2, figures.ran);
    ASSERT_U64(2, figures.cancelled);
    ASSERT_INT(EALREADY, loop_scheduler_cancel(&l, &s[0].task));
    ASSERT_INT(EALREADY, loop_scheduler_cancel(&l, &s[1].task));
    ASSERT_INT(0, loop_scheduler_post(&l, &s[1].task));
    ASSERT_INT(1, run_dry(&l));
    ASSERT_STR_EQ("1 x2 3 x4 2", story(&d));
    ASSERT_ENDS_WELL(&l);
    PASS();
}

static void cancel_another(spy *s)
{
    spy *other = s->arg;
    s->error = loop_scheduler_cancel(s->l, &other->task);
    s->result = cancels(other);
}

TEST a_task_may_cancel_one_that_is_due_in_the_same_turn(void)
{
    loop_scheduler l;
    spy s[3];
    diary d = {.count = 0};
    ASSERT(make(&l, NULL, 0));
    spies_init(s, 3, &l, &d);
    s[0].act = cancel_another;
    s[0].arg = &s[1];
    for (int i = 0; i < 3; i++) {
        ASSERT_INT(0, loop_scheduler_post(&l, &s[i].task));
    }
    ASSERT_INT(1, run_dry(&l));
    ASSERT_INT(0, s[0].error);
    ASSERT_INT(0, s[0].result); /* told later, not inside of cancel */
    ASSERT_STR_EQ("1 x2 3", story(&d));
    ASSERT_ENDS_WELL(&l);
    PASS();
}

TEST a_running_task_cannot_be_cancelled(void)
{
    loop_scheduler l;
    spy s, gate;
    ASSERT(make_and_start(&l, 0));
    ASSERT(occupy(&l, &gate));
    ASSERT_INT(EALREADY, loop_scheduler_cancel(&l, &gate.task));
    let_go(&gate);
    ASSERT(EVENTUALLY(runs(&gate) == 1));
    ASSERT_INT(EALREADY, loop_scheduler_cancel(&l, &gate.task));
    spies_init(&s, 1, &l, NULL);
    s.act = cancel_another;
    s.arg = &s;
    ASSERT_INT(0, loop_scheduler_post(&l, &s.task));
    ASSERT(EVENTUALLY(runs(&s) == 1));
    ASSERT_INT(EALREADY, s.error);
    ASSERT_ENDS_WELL(&l);
    ASSERT_INT(1, runs(&s));
    ASSERT_INT(0, cancels(&s) + cancels(&gate));
    PASS();
}

static void post_again_when_cancelled(loop_scheduler_task *task, int status)
{
    spy *s = task->arg;
    if (status == ECANCELED) {
        s->error = loop_scheduler_post(s->l, task);
    }
    run_spy(task, status);
}

TEST a_cancelled_task_may_be_posted_again_when_it_is_told(void)
{
    loop_scheduler l;
    spy s;
    diary d = {.count = 0};
    ASSERT(make(&l, NULL, 0));
    spies_init(&s, 1, &l, &d);
    s.task.run = post_again_when_cancelled;
    ASSERT_INT(0, loop_scheduler_post(&l, &s.task));
    ASSERT_INT(0, loop_scheduler_cancel(&l, &s.task));
    ASSERT_INT(2, run_dry(&l));
    ASSERT_INT(0, s.error);
    ASSERT_STR_EQ("x1 1", story(&d));
    ASSERT_ENDS_WELL(&l);
    PASS();
}

typedef struct race {
    loop_scheduler_task task;
    loop_scheduler_timer timer;
    loop_scheduler_work work;
    int status;
    csem over;
} race;

static void end_race(loop_scheduler_task *task, int status)
{
    race *r = task->arg;
    r->status = status;
    csem_release(&r->over);
}

TEST a_cancel_races_with_the_run_and_one_of_them_wins(void)
{
    loop_scheduler l;
    race r = {.status = -1};
    uint64_t random = 7;
    int won = 0, lost = 0;
    csem_init(&r.over, 0);
    ASSERT(make_and_start(&l, 0));
    int64_t end = plim_now_() + PLIM_S(LONG_S);
    for (int round = scaled(50000); round > 0 && plim_now_() < end; round--) {
        r.task = (loop_scheduler_task){.run = end_race, .arg = &r};
        ASSERT_INT(0, loop_scheduler_post(&l, &r.task));
        for (uint64_t i = next_random(&random) % 256; i > 0; i--) {
            plim_pause_();
        }
        int error = loop_scheduler_cancel(&l, &r.task);
        ASSERT_INT(0, csem_acquire_for(&r.over, PLIM_S(PATIENCE_S)));
        if (error == 0) {
            ASSERT_INT(ECANCELED, r.status);
            won++;
        } else {
            ASSERT_INT(EALREADY, error);
            ASSERT_INT(0, r.status);
            lost++;
        }
    }
    loop_scheduler_stats s = loop_scheduler_snapshot(&l);
    ASSERT_U64(won, s.cancelled);
    ASSERT_ENDS_WELL(&l);
    PASS();
}

/* A simple account of what tasks must do, kept beside the loop's. */
enum { CARDS = 12 };
typedef struct deck {
    loop_scheduler *l;
    uint32_t limit;
    spy s[CARDS];
    int queue[CARDS]; /* their numbers, in order */
    int length;
    bool queued[CARDS], cancelled[CARDS], ever[CARDS];
    uint64_t random;
    int wrong;
} deck;

static void play_a_card(deck *k)
{
    int i = (int)(next_random(&k->random) % CARDS), j = (i + 1) % CARDS;
    bool full = k->limit != 0 && (uint32_t)k->length >= k->limit;
    bool too_full = k->limit != 0 && (uint32_t)k->length + 2 > k->limit;
    loop_scheduler_task *pair[] = {&k->s[i].task, &k->s[j].task};
    switch (next_random(&k->random) % 4) {
    case 0: {
        int expected = k->cancelled[i] || !k->queued[i] ? (k->ever[i] ? EALREADY : ENOENT) : 0;
        k->wrong += loop_scheduler_cancel(k->l, pair[0]) != expected;
        k->cancelled[i] = k->cancelled[i] || k->queued[i];
        break;
    }
    case 1: {
        int error = loop_scheduler_post_list(k->l, pair, 2);
        bool refused = k->queued[i] || k->queued[j] || too_full;
        k->wrong += refused ? (error != EALREADY || !(k->queued[i] || k->queued[j])) &&
                                  (error != EAGAIN || !too_full)
                            : error != 0;
        for (int n = 0; n < 2 && error == 0; n++) {
            int which = n == 0 ? i : j;
            k->queue[k->length++] = which;
            k->queued[which] = k->ever[which] = true;
        }
        break;
    }
    default: {
        int error = loop_scheduler_post(k->l, pair[0]);
        k->wrong += k->queued[i] || full
                        ? (error != EALREADY || !k->queued[i]) && (error != EAGAIN || !full)
                        : error != 0;
        if (error == 0) {
            k->queue[k->length++] = i;
            k->queued[i] = k->ever[i] = true;
        }
    }
    }
}

/* Run or told: it must be the first of the queue. Then it may do something itself. */
static void turn_a_card(loop_scheduler_task *task, int status)
{
    spy *s = task->arg;
    deck *k = s->arg;
    int i = s->number - 1;
    k->wrong += k->length == 0 || k->queue[0] != i;
    k->wrong += status != (k->cancelled[i] ? ECANCELED : 0);
    k->queued[i] = k->cancelled[i] = false;
    k->length -= k->length > 0;
    memmove(k->queue, k->queue + 1, (size_t)k->length * sizeof k->queue[0]);
    for (uint64_t n = next_random(&k->random) % 3; n > 0; n--) {
        play_a_card(k);
    }
}

TEST tasks_do_as_a_simple_model_says(uint64_t seed, uint32_t limit)
{
    loop_scheduler l;
    static deck k;
    memset((void *)&k, 0, sizeof k);
    k.l = &l;
    k.limit = limit;
    k.random = seed;
    ASSERT(make(&l, NULL, limit));
    spies_init(k.s, CARDS, &l, NULL);
    for (int i = 0; i < CARDS; i++) {
        k.s[i].task.run = turn_a_card;
        k.s[i].arg = &k;
    }
    for (int round = scaled(60000); round > 0; round--) {
        for (uint64_t n = next_random(&k.random) % 6; n > 0; n--) {
            play_a_card(&k);
        }
        int before = k.length;
        ASSERT_INT(before, loop_scheduler_snapshot(&l).queued);
        ASSERT_INT(before > 0 ? 0 : EAGAIN, loop_scheduler_poll(&l));
        ASSERT_INT(0, k.wrong);
    }
    for (int i = 0; i < CARDS; i++) { /* the rest posts nothing any more */
        k.s[i].task.run = run_spy;
    }
    run_dry(&l);
    ASSERT_ENDS_WELL(&l);
    PASS();
}

/* ---- calls ---- */

typedef struct question {
    loop_scheduler *l;
    int answer;
    const void *thread;
    bool current;
    csem entered, exit;
    atomic_int asked;
} question;

static int ask(void *arg)
{
    question *q = arg;
    q->thread = this_thread();
    q->current = loop_scheduler_is_current(q->l);
    atomic_fetch_add(&q->asked, 1);
    return q->answer;
}

static int ask_and_hold(void *arg)
{
    question *q = arg;
    csem_release(&q->entered);
    csem_acquire_for(&q->exit, PLIM_S(PATIENCE_S));
    return ask(arg);
}

static void question_init(question *q, loop_scheduler *l, int answer)
{
    memset((void *)q, 0, sizeof *q);
    q->l = l;
    q->answer = answer;
    csem_init(&q->entered, 0);
    csem_init(&q->exit, 0);
}

TEST a_call_runs_on_the_loop_and_gives_what_the_function_returned(int answer)
{
    loop_scheduler l;
    question q;
    int result = 4711;
    ASSERT(make_and_start(&l, 0));
    question_init(&q, &l, answer);
    ASSERT_INT(0, loop_scheduler_call(&l, ask, &q, &result));
    ASSERT_INT(answer, result);
    ASSERT(q.current);
    ASSERT(q.thread != this_thread());
    result = 4711;
    ASSERT_INT(0, loop_scheduler_call_for(&l, ask, &q, &result, PLIM_S(PATIENCE_S)));
    ASSERT_INT(answer, result);
    ASSERT_INT(0, loop_scheduler_call(&l, ask, &q, NULL));
    ASSERT_INT(0, loop_scheduler_call_for(&l, ask, &q, NULL, PLIM_FOREVER));
    ASSERT_INT(4, atomic_load(&q.asked));
    ASSERT_ENDS_WELL(&l);
    PASS();
}

TEST a_call_of_nothing_is_refused(void)
{
    loop_scheduler l;
    int result = 4711;
    ASSERT(make_and_start(&l, 0));
    ASSERT_INT(EINVAL, loop_scheduler_call(&l, NULL, NULL, &result));
    ASSERT_INT(EINVAL, loop_scheduler_call_for(&l, NULL, NULL, &result, PLIM_MS(1)));
    ASSERT_INT(4711, result);
    ASSERT(serves(&l));
    ASSERT_ENDS_WELL(&l);
    PASS();
}

TEST a_closed_loop_takes_no_calls(void)
{
    loop_scheduler l;
    question q;
    int result = 4711;
    ASSERT(make_and_start(&l, 0));
    question_init(&q, &l, 1);
    ASSERT_INT(0, loop_scheduler_close(&l, LOOP_SCHEDULER_DRAIN, PLIM_S(PATIENCE_S)));
    ASSERT_INT(ESHUTDOWN, loop_scheduler_call(&l, ask, &q, &result));
    ASSERT_INT(ESHUTDOWN, loop_scheduler_call_for(&l, ask, &q, &result, PLIM_FOREVER));
    ASSERT_INT(ESHUTDOWN, loop_scheduler_call_for(&l, ask, &q, &result, 0));
    ASSERT_INT(0, atomic_load(&q.asked));
    ASSERT_INT(4711, result);
    ASSERT_ENDS_WELL(&l);
    PASS();
}

static void call_inline(spy *s)
{
    question *q = s->arg;
    s->error = loop_scheduler_call(s->l, ask, q, &s->result);
    s->number = atomic_load(&q->asked);
}

static void call_inline_for(spy *s)
{
    question *q = s->arg;
    s->error = loop_scheduler_call_for(s->l, ask, q, &s->result, 0);
    s->number = atomic_load(&q->asked);
}

TEST a_call_on_the_loops_own_thread_runs_at_once(void (*act)(spy *))
{
    loop_scheduler l;
    spy s[2];
    question q;
    ASSERT(make(&l, NULL, 0));
    spies_init(s, 2, &l, NULL);
    question_init(&q, &l, 5);
    s[0].act = act;
    s[0].arg = &q;
    s[0].number = 0;
    ASSERT_INT(0, loop_scheduler_post(&l, &s[0].task));
    ASSERT_INT(0, loop_scheduler_post(&l, &s[1].task));
    ASSERT_INT(1, run_dry(&l));
    ASSERT_INT(0, s[0].error);
    ASSERT_INT(5, s[0].result);
    ASSERT_INT(1, s[0].number); /* before the call returned */
    ASSERT(q.current);
    ASSERT_ENDS_WELL(&l);
    PASS();
}

TEST a_call_waits_for_its_turn_and_for_its_end(void)
{
    loop_scheduler l;
    spy gate, s;
    question q;
    ASSERT(make_and_start(&l, 0));
    ASSERT(occupy(&l, &gate));
    spies_init(&s, 1, &l, NULL);
    question_init(&q, &l, 9);
    ASSERT_INT(0, loop_scheduler_post(&l, &s.task));
    caller c = {.l = &l, .call = CALL, .fn = ask_and_hold, .arg = &q};
    start_call(&c);
    ASSERT(stays_false(&c.done));
    let_go(&gate);
    ASSERT_INT(0, csem_acquire_for(&q.entered, PLIM_S(PATIENCE_S)));
    ASSERT_INT(1, runs(&s)); /* it was posted before */
    ASSERT(stays_false(&c.done));
    csem_release(&q.exit);
    ASSERT(finished(&c));
    ASSERT_INT(0, c.error);
    ASSERT_INT(9, c.result);
    ASSERT_ENDS_WELL(&l);
    PASS();
}

TEST a_call_that_does_not_begin_in_time_never_runs(int64_t timeout_ns)
{
    loop_scheduler l;
    spy gate;
    int result = 4711;
    question *q = malloc(sizeof *q);
    ASSERT(q != NULL);
    ASSERT(make_and_start(&l, 0));
    ASSERT(occupy(&l, &gate));
    question_init(q, &l, 1);
    for (int i = 0; i < 3; i++) {
        int64_t from = plim_now_();
        ASSERT_INT(ETIMEDOUT, loop_scheduler_call_for(&l, ask, q, &result, timeout_ns));
        int64_t took = plim_now_() - from;
        ASSERT(took >= timeout_ns);
        ASSERT(took < PLIM_S(PATIENCE_S));
    }
    ASSERT_INT(0, atomic_load(&q->asked));
    memset((void *)q, 0xa5, sizeof *q);
    free(q);
    let_go(&gate);
    ASSERT(serves(&l));
    ASSERT_INT(4711, result);
    ASSERT_U64(3, loop_scheduler_snapshot(&l).cancelled);
    ASSERT_ENDS_WELL(&l);
    PASS();
}

TEST a_call_that_nobody_can_run_times_out(void)
{
    loop_scheduler l;
    question q;
    ASSERT(make(&l, NULL, 0));
    question_init(&q, &l, 1);
    ASSERT_INT(ETIMEDOUT, loop_scheduler_call_for(&l, ask, &q, NULL, PLIM_MS(5)));
    run_dry(&l);
    ASSERT_INT(0, atomic_load(&q.asked));
    ASSERT_ENDS_WELL(&l);
    PASS();
}

TEST a_call_that_has_begun_is_waited_for(void)
{
    loop_scheduler l;
    question q;
    ASSERT(make_and_start(&l, 0));
    ASSERT(serves(&l)); /* it is up and running: this is time enough to begin */
    question_init(&q, &l, 3);
    caller c = {
        .l = &l, .call = CALL_FOR, .fn = ask_and_hold, .arg = &q, .timeout_ns = PLIM_MS(500)};
    int64_t from = plim_now_();
    start_call(&c);
    bool begun = csem_acquire_for(&q.entered, PLIM_S(PATIENCE_S)) == 0;
    if (begun) {
        rest(from + PLIM_MS(550) - plim_now_());
        ASSERT_FALSE(atomic_load(&c.done));
    }
    csem_release(&q.exit);
    ASSERT(finished(&c));
    ASSERT_INT(begun ? 0 : ETIMEDOUT, c.error);
    ASSERT(begun);
    ASSERT_INT(3, c.result);
    ASSERT_ENDS_WELL(&l);
    PASS();
}

TEST a_call_may_run_out_of_time_just_as_it_begins(void)
{
    loop_scheduler l;
    question q;
    uint64_t random = 3;
    ASSERT(make_and_start(&l, 0));
    question_init(&q, &l, 1);
    int called = 0, late = 0;
    int64_t end = plim_now_() + PLIM_S(LONG_S);
    for (int round = scaled(20000); round > 0 && plim_now_() < end; round--) {
        int result = 0;
        int64_t timeout_ns = (int64_t)(next_random(&random) % 40000);
        int error = loop_scheduler_call_for(&l, ask, &q, &result, timeout_ns);
        ASSERT_INT(error == 0, result);
        ASSERT(error == 0 || error == ETIMEDOUT);
        called += error == 0;
        late += error != 0;
    }
    ASSERT(serves(&l));
    ASSERT_INT(called, atomic_load(&q.asked));
    ASSERT_U64(late, loop_scheduler_snapshot(&l).cancelled);
    ASSERT_ENDS_WELL(&l);
    PASS();
}

TEST a_pending_call_ends_when_the_loop_is_closed(int how, bool runs_by_itself)
{
    loop_scheduler l;
    spy gate;
    question q[2];
    caller c[2];
    ASSERT(make(&l, NULL, 0));
    if (runs_by_itself) {
        ASSERT_INT(0, loop_scheduler_start(&l));
        ASSERT(occupy(&l, &gate));
    }
    for (int i = 0; i < 2; i++) {
        question_init(&q[i], &l, 8);
        c[i] = (caller){.l = &l,
                        .call = i == 0 ? CALL : CALL_FOR,
                        .fn = ask,
                        .arg = &q[i],
                        .timeout_ns = PLIM_S(PATIENCE_S)};
        start_call(&c[i]);
    }
    ASSERT(EVENTUALLY(loop_scheduler_snapshot(&l).queued == 2));
    caller closer = {.l = &l, .call = CLOSE, .how = how, .timeout_ns = PLIM_S(PATIENCE_S)};
    start_call(&closer);
    if (runs_by_itself) {
        bell b;
        bells_init(&b, 1, &l, NULL, NULL);
        ASSERT(EVENTUALLY(is_closed(&l, &b)));
        let_go(&gate);
        ASSERT(finished(&closer));
        ASSERT_INT(0, atomic_load(&b.rings));
    } else {
        ASSERT(finished(&closer));
    }
    ASSERT_INT(0, closer.error);
    for (int i = 0; i < 2; i++) {
        ASSERT(finished(&c[i]));
        ASSERT_INT(how == LOOP_SCHEDULER_DRAIN ? 0 : ECANCELED, c[i].error);
        ASSERT_INT(how == LOOP_SCHEDULER_DRAIN, atomic_load(&q[i].asked));
        if (how == LOOP_SCHEDULER_DRAIN && !runs_by_itself) {
            ASSERT(q[i].thread == closer.self);
        }
    }
    ASSERT_ENDS_WELL(&l);
    PASS();
}

TEST a_call_to_a_stopped_loop_waits_until_it_runs_again(void)
{
    loop_scheduler l;
    question q;
    ASSERT(make_and_start(&l, 0));
    ASSERT(serves(&l));
    loop_scheduler_stop(&l);
    ASSERT(EVENTUALLY(loop_scheduler_poll(&l) != EBUSY));
    question_init(&q, &l, 4);
    caller c = {.l = &l, .call = CALL, .fn = ask, .arg = &q};
    start_call(&c);
    ASSERT(EVENTUALLY(loop_scheduler_snapshot(&l).queued == 1));
    ASSERT(stays_false(&c.done));
    ASSERT_INT(0, loop_scheduler_start(&l));
    ASSERT(finished(&c));
    ASSERT_INT(0, c.error);
    ASSERT_INT(4, c.result);
    ASSERT_ENDS_WELL(&l);
    PASS();
}

static plim_thread_result call_often(void *arg)
{
    member *m = arg;
    crowd *c = m->crowd;
    wait_for_go(c);
    int last = 0;
    for (int i = 0; i < c->rounds; i++) {
        int result = 0, error = i % 2 == 0 ? loop_scheduler_call(c->l, add_one, c->arg, &result)
                                           : loop_scheduler_call_for(c->l, add_one, c->arg, &result,
                                                                     PLIM_S(PATIENCE_S));
        atomic_fetch_add(error == 0 && result > last ? &c->accepted : &c->odd, 1);
        last = result;
    }
    return 0;
}

TEST calls_from_many_threads_never_overlap_and_none_is_lost(void)
{
    enum { N = 8 };
    loop_scheduler l;
    member m[N];
    int balance = 0; /* plain: the loop is what protects it */
    ASSERT(make_and_start(&l, 0));
    crowd c = {.l = &l, .rounds = scaled(4000), .arg = &balance};
    start_crowd(&c, m, N, call_often);
    join_crowd(m, N);
    ASSERT_INT(0, atomic_load(&c.odd));
    ASSERT_INT(N * c.rounds, balance);
    ASSERT_ENDS_WELL(&l);
    PASS();
}

TEST each_of_many_short_lived_loops_answers_its_one_call(void)
{
    loop_scheduler l;
    for (int i = scaled(256); i > 0; i--) {
        int result = 0;
        ASSERT(make_and_start(&l, 0));
        ASSERT_INT(0, loop_scheduler_call(&l, give, &i, &result));
        ASSERT_INT(i, result);
        ASSERT_ENDS_WELL(&l);
    }
    PASS();
}

/* ---- waits that could never end ---- */

enum { KNOT = 3 };

/* A call goes round a ring of loops, until it would come back to the first. */
typedef struct knot {
    loop_scheduler l[KNOT];
    int n, depth;
    bool timed;
    int error[KNOT], result[KNOT];
    csem over;
} knot;

static int go_round(void *arg)
{
    knot *k = arg;
    int at = k->depth++;
    loop_scheduler *next = &k->l[(at + 1) % k->n];
    k->error[at] =
        k->timed ? loop_scheduler_call_for(next, go_round, k, &k->result[at], PLIM_S(PATIENCE_S))
                 : loop_scheduler_call(next, go_round, k, &k->result[at]);
    return at + 1;
}

static void go_round_from_a_task(spy *s)
{
    go_round(s->arg);
    csem_release(&((knot *)s->arg)->over);
}

static bool knot_init(knot *k, int n, uint32_t max_queue)
{
    memset((void *)k, 0, sizeof *k);
    k->n = n;
    csem_init(&k->over, 0);
    bool made = true;
    for (int i = 0; i < n; i++) {
        made = make_and_start(&k->l[i], max_queue) && made;
    }
    return made;
}

static greatest_test_res knot_ends_well(knot *k)
{
    for (int i = k->n - 1; i >= 0; i--) {
        ASSERT(serves(&k->l[i]));
        ASSERT_ENDS_WELL(&k->l[i]);
    }
    PASS();
}

TEST a_ring_of_calls_is_refused_where_it_would_close(int n, bool timed)
{
    static knot k;
    spy s;
    ASSERT(knot_init(&k, n, 0));
    for (int round = 0; round < 20; round++) {
        k.timed = timed;
        k.depth = 0;
        spies_init(&s, 1, &k.l[0], NULL);
        s.act = go_round_from_a_task;
        s.arg = &k;
        int64_t from = plim_now_();
        ASSERT_INT(0, loop_scheduler_post(&k.l[0], &s.task));
        ASSERT_INT(0, csem_acquire_for(&k.over, PLIM_S(PATIENCE_S)));
        ASSERT(plim_now_() - from < PLIM_S(PATIENCE_S));
        ASSERT(EVENTUALLY(runs(&s) == 1));
        ASSERT_INT(n, k.depth);
        for (int i = 0; i < n; i++) {
            ASSERT_INT(i == n - 1 ? EDEADLK : 0, k.error[i]);
            ASSERT(i == n - 1 || k.result[i] == i + 2);
        }
    }
    CHECK_CALL(knot_ends_well(&k));
    PASS();
}

/* All tasks of a ring, each on its loop, call the next one once all of them are there. */
typedef struct round_table {
    knot *k;
    atomic_int seated, answered;
    int errors[KNOT];
    csem left;
} round_table;

static void call_the_next(spy *s)
{
    round_table *t = s->arg;
    int64_t give_up = plim_now_() + PLIM_S(PATIENCE_S);
    atomic_fetch_add(&t->seated, 1);
    while (atomic_load(&t->seated) < t->k->n && plim_now_() < give_up) {
        plim_pause_();
    }
    loop_scheduler *next = &t->k->l[s->number % t->k->n];
    t->errors[s->number - 1] = s->number == 2 ? loop_scheduler_call(next, count, &t->answered, NULL)
                                              : loop_scheduler_call_for(next, count, &t->answered,
                                                                        NULL, PLIM_S(PATIENCE_S));
    csem_release(&t->left);
}

TEST of_a_ring_of_loops_that_call_each_other_one_is_told(int n)
{
    static knot k;
    spy s[KNOT];
    ASSERT(knot_init(&k, n, 0));
    int64_t end = plim_now_() + PLIM_S(LONG_S);
    for (int round = scaled(10000); round > 0 && plim_now_() < end; round--) {
        round_table t = {.k = &k};
        csem_init(&t.left, 0);
        spies_init(s, n, NULL, NULL);
        for (int i = 0; i < n; i++) {
            s[i].l = &k.l[i];
            s[i].act = call_the_next;
            s[i].arg = &t;
            ASSERT_INT(0, loop_scheduler_post(&k.l[i], &s[i].task));
        }
        int told = 0;
        for (int i = 0; i < n; i++) {
            ASSERT_INT(0, csem_acquire_for(&t.left, PLIM_S(PATIENCE_S)));
        }
        for (int i = 0; i < n; i++) {
            ASSERT(EVENTUALLY(runs(&s[i]) == 1));
            ASSERT(t.errors[i] == 0 || t.errors[i] == EDEADLK);
            told += t.errors[i] == EDEADLK;
        }
        ASSERT_INT(1, told); /* whoever closed the circle: after that there was none */
        ASSERT_INT(n - 1, atomic_load(&t.answered));
    }
    CHECK_CALL(knot_ends_well(&k));
    PASS();
}

/* Calls only go from a loop to one with a higher number. */
typedef struct stairs {
    knot *k;
    int step;
} stairs;

static int climb(void *arg)
{
    stairs *s = arg;
    if (++s->step == KNOT - 1) {
        return 0;
    }
    int result = 0, error = loop_scheduler_call(&s->k->l[s->step + 1], climb, s, &result);
    return error != 0 ? error : result;
}

static plim_thread_result climb_often(void *arg)
{
    member *m = arg;
    crowd *c = m->crowd;
    wait_for_go(c);
    for (int i = 0; i < c->rounds && plim_now_() < c->end; i++) {
        int first = (m->number + i) % (KNOT - 1);
        stairs s = {.k = c->arg, .step = first - 1};
        int result = 0, error = loop_scheduler_call(&s.k->l[first], climb, &s, &result);
        atomic_fetch_add(error == 0 && result == 0 ? &c->accepted : &c->odd, 1);
    }
    return 0;
}

TEST calls_that_form_no_ring_are_never_refused(void)
{
    enum { N = 6 };
    static knot k;
    member m[N];
    ASSERT(knot_init(&k, KNOT, 0));
    crowd c = {.rounds = scaled(3000), .end = plim_now_() + PLIM_S(LONG_S), .arg = &k};
    start_crowd(&c, m, N, climb_often);
    join_crowd(m, N);
    ASSERT_INT(0, atomic_load(&c.odd));
    CHECK_CALL(knot_ends_well(&k));
    PASS();
}

typedef struct hop {
    loop_scheduler *to;
    atomic_int *landed;
} hop;

static int hop_on(void *arg)
{
    hop *h = arg;
    return loop_scheduler_call(h->to, count, h->landed, NULL);
}

TEST what_is_over_makes_no_ring(void)
{
    static knot k;
    atomic_int landed = 0;
    ASSERT(knot_init(&k, 2, 0));
    int rounds = scaled(5000);
    for (int i = 0; i < rounds; i++) { /* to and fro, but never at once */
        hop h = {.to = &k.l[(i + 1) % 2], .landed = &landed};
        int result = -1;
        ASSERT_INT(0, loop_scheduler_call(&k.l[i % 2], hop_on, &h, &result));
        ASSERT_INT(0, result);
    }
    ASSERT_INT(rounds, atomic_load(&landed));
    CHECK_CALL(knot_ends_well(&k));
    PASS();
}

/* An act: holds, then does something that waits for another loop. */
typedef struct errand {
    loop_scheduler *to;
    loop_scheduler_task *task; /* to be posted there; NULL: a call, or a close */
    bool close;
    int error;
    atomic_int called;
    csem over;
} errand;

static void run_errand(errand *e)
{
    if (e->task != NULL) {
        e->error = loop_scheduler_post_for(e->to, e->task, PLIM_S(PATIENCE_S));
    } else if (e->close) {
        e->error = loop_scheduler_close(e->to, LOOP_SCHEDULER_DRAIN, PLIM_S(PATIENCE_S));
    } else {
        e->error = loop_scheduler_call(e->to, count, &e->called, NULL);
    }
    csem_release(&e->over);
}

static void hold_and_run_errand(spy *s)
{
    hold(s);
    run_errand(s->arg);
}

static int call_errand(void *arg)
{
    run_errand(arg);
    return 0;
}

static bool send_on_errand(loop_scheduler *l, spy *s, errand *e)
{
    spies_init(s, 1, l, NULL);
    csem_init(&e->over, 0);
    s->act = hold_and_run_errand;
    s->arg = e;
    return loop_scheduler_post(l, &s->task) == 0 && has_entered(s);
}

static bool is_back(errand *e)
{
    return csem_acquire_for(&e->over, PLIM_S(PATIENCE_S)) == 0;
}

TEST of_two_loops_that_wait_for_room_in_each_other_one_is_told(void)
{
    static knot k;
    for (int round = scaled(100); round > 0; round--) {
        spy s[2], filler[2], extra[2];
        errand e[2];
        ASSERT(knot_init(&k, 2, 1));
        for (int i = 0; i < 2; i++) {
            spies_init(&filler[i], 1, &k.l[i], NULL);
            spies_init(&extra[i], 1, &k.l[1 - i], NULL);
            e[i] = (errand){.to = &k.l[1 - i], .task = &extra[i].task};
            ASSERT(send_on_errand(&k.l[i], &s[i], &e[i]));
            ASSERT_INT(0, loop_scheduler_post(&k.l[i], &filler[i].task));
        }
        let_go(&s[0]);
        let_go(&s[1]);
        ASSERT(is_back(&e[0]));
        ASSERT(is_back(&e[1]));
        ASSERT_INT(EDEADLK, e[0].error + e[1].error);
        ASSERT(e[0].error == 0 || e[1].error == 0);
        CHECK_CALL(knot_ends_well(&k));
        for (int i = 0; i < 2; i++) {
            ASSERT_INT(1, runs(&filler[i]));
            ASSERT_INT(e[i].error == 0, runs(&extra[i]));
        }
    }
    PASS();
}

static void call_on_errand(spy *s)
{
    s->error = loop_scheduler_call(s->l + 1, call_errand, s->arg, NULL);
}

typedef struct full_house {
    spy filler, extra;
    errand e;
} full_house;

static void fill_up_and_call_on_errand(spy *s)
{
    full_house *h = s->arg;
    s->result = loop_scheduler_post(s->l, &h->filler.task);
    s->error = loop_scheduler_call(s->l + 1, call_errand, &h->e, NULL);
}

TEST a_wait_for_room_that_closes_a_ring_is_refused(void)
{
    static knot k;
    spy s;
    full_house h;
    ASSERT(knot_init(&k, 2, 1));
    spies_init(&h.extra, 1, &k.l[0], NULL);
    spies_init(&h.filler, 1, &k.l[0], NULL);
    h.e = (errand){.to = &k.l[0], .task = &h.extra.task};
    csem_init(&h.e.over, 0);
    spies_init(&s, 1, &k.l[0], NULL);
    s.act = fill_up_and_call_on_errand; /* the second loop then waits for room in the first */
    s.arg = &h;
    ASSERT_INT(0, loop_scheduler_post(&k.l[0], &s.task));
    ASSERT(is_back(&h.e));
    ASSERT_INT(EDEADLK, h.e.error);
    ASSERT(EVENTUALLY(runs(&h.filler) == 1));
    ASSERT_INT(0, s.error);
    ASSERT_INT(0, s.result);
    CHECK_CALL(knot_ends_well(&k));
    ASSERT_INT(0, runs(&h.extra) + cancels(&h.extra));
    PASS();
}

TEST a_close_that_closes_a_ring_is_refused_and_changes_nothing(void)
{
    static knot k;
    spy s;
    ASSERT(knot_init(&k, 2, 0));
    errand e = {.to = &k.l[0], .close = true};
    csem_init(&e.over, 0);
    spies_init(&s, 1, &k.l[0], NULL);
    s.act = call_on_errand; /* the first calls the second, which closes the first */
    s.arg = &e;
    ASSERT_INT(0, loop_scheduler_post(&k.l[0], &s.task));
    ASSERT(is_back(&e));
    ASSERT_INT(EDEADLK, e.error);
    ASSERT(EVENTUALLY(runs(&s) == 1));
    ASSERT_INT(0, s.error);
    CHECK_CALL(knot_ends_well(&k)); /* it still takes calls */
    PASS();
}

TEST a_loop_may_close_another_one_which_may_not_call_it_then(void)
{
    static knot k;
    spy closer, s;
    bell b;
    ASSERT(knot_init(&k, 2, 0));
    errand close = {.to = &k.l[1], .close = true}, call_back = {.to = &k.l[0]};
    ASSERT(send_on_errand(&k.l[1], &s, &call_back));
    ASSERT(send_on_errand(&k.l[0], &closer, &close));
    let_go(&closer);
    bells_init(&b, 1, &k.l[1], NULL, NULL);
    ASSERT(EVENTUALLY(is_closed(&k.l[1], &b)));
    let_go(&s);
    ASSERT(is_back(&call_back));
    ASSERT(is_back(&close));
    ASSERT_INT(EDEADLK, call_back.error);
    ASSERT_INT(0, atomic_load(&call_back.called));
    ASSERT_INT(0, close.error);
    ASSERT(serves(&k.l[0]));
    ASSERT_ENDS_WELL(&k.l[1]);
    ASSERT_ENDS_WELL(&k.l[0]);
    PASS();
}

static void hold_and_start_the_other(spy *s)
{
    hold(s);
    s->error = loop_scheduler_start(s->arg);
}

static void hold_and_destroy_the_other(spy *s)
{
    hold(s);
    s->error = loop_scheduler_destroy(s->arg);
}

/* The thread of the second loop was told to stop, but calls the first, which waits for its end. */
TEST a_wait_for_a_thread_to_stop_that_closes_a_ring_is_refused(void (*act)(spy *))
{
    static knot k;
    spy s, t;
    ASSERT(knot_init(&k, 2, 0));
    errand e = {.to = &k.l[0]};
    spies_init(&s, 1, &k.l[0], NULL);
    s.act = act;
    s.arg = &k.l[1];
    ASSERT_INT(0, loop_scheduler_post(&k.l[0], &s.task));
    ASSERT(has_entered(&s));
    ASSERT(send_on_errand(&k.l[1], &t, &e));
    let_go(&t);
    ASSERT(EVENTUALLY(loop_scheduler_snapshot(&k.l[0]).queued == 1)); /* its call */
    loop_scheduler_stop(&k.l[1]);
    let_go(&s);
    ASSERT(is_back(&e));
    ASSERT(EVENTUALLY(runs(&s) == 1));
    ASSERT_INT(0, e.error);
    ASSERT_INT(EDEADLK, s.error);
    ASSERT_INT(0, loop_scheduler_start(&k.l[1]));
    CHECK_CALL(knot_ends_well(&k));
    PASS();
}

static void wait_for_itself(spy *s)
{
    spy *others = s->arg;
    int wrong = 0;
    wrong += loop_scheduler_close(s->l, LOOP_SCHEDULER_DRAIN, PLIM_FOREVER) != EDEADLK;
    wrong += loop_scheduler_close(s->l, LOOP_SCHEDULER_NOW, 0) != EDEADLK;
    wrong += loop_scheduler_destroy(s->l) != EDEADLK;
    wrong += loop_scheduler_run(s->l) != EDEADLK;
    wrong += loop_scheduler_run_once(s->l, PLIM_FOREVER) != EDEADLK;
    wrong += loop_scheduler_poll(s->l) != EDEADLK;
    wrong += loop_scheduler_post_for(s->l, &others[0].task, PLIM_FOREVER) != 0; /* room for one */
    wrong += loop_scheduler_post_for(s->l, &others[1].task, PLIM_FOREVER) != EDEADLK;
    s->error = wrong;
}

TEST what_a_task_would_wait_for_in_vain_is_refused(bool own_thread)
{
    loop_scheduler l;
    spy s, others[3];
    ASSERT(make(&l, NULL, 1));
    spies_init(&s, 1, &l, NULL);
    spies_init(others, 3, &l, NULL);
    s.act = wait_for_itself;
    s.arg = others;
    if (own_thread) {
        ASSERT_INT(0, loop_scheduler_start(&l));
    }
    ASSERT_INT(0, loop_scheduler_post(&l, &s.task));
    if (own_thread) {
        ASSERT(EVENTUALLY(runs(&others[0]) == 1));
    } else {
        ASSERT_INT(2, run_dry(&l));
    }
    ASSERT_INT(0, s.error);
    ASSERT_INT(1, runs(&s));
    ASSERT_INT(1, runs(&others[0]));
    ASSERT_INT(0, runs(&others[1]));
    ASSERT_INT(0, loop_scheduler_post(&l, &others[2].task)); /* it was not closed */
    ASSERT_ENDS_WELL(&l);
    ASSERT_INT(1, runs(&others[2]));
    PASS();
}

static bool never(void *arg)
{
    (void)arg;
    return false;
}

static void run_until_inside(spy *s)
{
    s->error = loop_scheduler_run_until(s->l, never, NULL, PLIM_FOREVER);
}

TEST run_until_inside_of_run_is_refused(void)
{
    loop_scheduler l;
    spy s;
    ASSERT(make(&l, NULL, 0));
    spies_init(&s, 1, &l, NULL);
    s.act = run_until_inside;
    ASSERT_INT(0, loop_scheduler_post(&l, &s.task));
    ASSERT_INT(1, run_dry(&l));
    ASSERT_INT(EDEADLK, s.error);
    ASSERT_ENDS_WELL(&l);
    PASS();
}

/* A task of one loop may run another one on the same thread. */
typedef struct nest {
    loop_scheduler inner;
    spy s;
    question q;
    errand e;
    int wrong;
} nest;

static void look_both_ways(spy *s)
{
    nest *n = s->arg;
    n->wrong += !loop_scheduler_is_current(&n->inner);
    n->wrong += !loop_scheduler_is_current(n->q.l);
    n->wrong += loop_scheduler_call(n->q.l, ask, &n->q, NULL) != 0; /* inline: the same thread */
    n->wrong += loop_scheduler_poll(&n->inner) != EDEADLK;
}

static void run_the_inner_one(spy *s)
{
    nest *n = s->arg;
    n->wrong += loop_scheduler_is_current(&n->inner);
    n->wrong += loop_scheduler_post(&n->inner, &n->s.task) != 0;
    n->wrong += loop_scheduler_poll(&n->inner) != 0;
    n->wrong += loop_scheduler_is_current(&n->inner);
    n->wrong += !loop_scheduler_is_current(s->l);
}

TEST a_task_may_run_another_loop(void)
{
    loop_scheduler outer;
    static nest n;
    spy s;
    memset((void *)&n, 0, sizeof n);
    ASSERT(make(&outer, NULL, 0));
    ASSERT(make(&n.inner, NULL, 0));
    spies_init(&s, 1, &outer, NULL);
    spies_init(&n.s, 1, &n.inner, NULL);
    question_init(&n.q, &outer, 0);
    s.act = run_the_inner_one;
    n.s.act = look_both_ways;
    s.arg = n.s.arg = &n;
    ASSERT_INT(0, loop_scheduler_post(&outer, &s.task));
    ASSERT_INT(1, run_dry(&outer));
    ASSERT_INT(0, n.wrong);
    ASSERT_INT(1, runs(&n.s));
    ASSERT_INT(1, atomic_load(&n.q.asked));
    ASSERT_ENDS_WELL(&n.inner);
    ASSERT_ENDS_WELL(&outer);
    PASS();
}

static void hold_and_run_the_inner_one(spy *s)
{
    hold(s);
    run_the_inner_one(s);
}

static void errand_from_within(spy *s)
{
    nest *n = s->arg;
    run_errand(&n->e);
}

/* The outer loop's thread, in a task of an inner one, calls a loop that calls the outer one. */
TEST a_ring_through_a_loop_inside_of_another_is_refused(bool outer_last)
{
    loop_scheduler outer, third;
    static nest n;
    spy s, caller_task;
    errand to_outer;
    memset((void *)&n, 0, sizeof n);
    ASSERT(make_and_start(&outer, 0));
    ASSERT(make_and_start(&third, 0));
    ASSERT(make(&n.inner, NULL, 0));
    spies_init(&s, 1, &outer, NULL);
    s.act = hold_and_run_the_inner_one;
    s.arg = &n;
    spies_init(&n.s, 1, &n.inner, NULL);
    n.s.act = errand_from_within;
    n.s.arg = &n;
    n.e = (errand){.to = &third};
    csem_init(&n.e.over, 0);
    ASSERT_INT(0, loop_scheduler_post(&outer, &s.task));
    ASSERT(has_entered(&s));
    to_outer = (errand){.to = &outer};
    ASSERT(send_on_errand(&third, &caller_task, &to_outer));
    let_go(outer_last ? &s : &caller_task);
    ASSERT(EVENTUALLY(loop_scheduler_snapshot(outer_last ? &third : &outer).queued == 1));
    let_go(outer_last ? &caller_task : &s);
    ASSERT(is_back(&n.e));
    ASSERT(is_back(&to_outer));
    ASSERT_INT(outer_last ? 0 : EDEADLK, n.e.error);
    ASSERT_INT(outer_last ? EDEADLK : 0, to_outer.error);
    ASSERT(EVENTUALLY(runs(&s) == 1));
    ASSERT_INT(0, n.wrong);
    ASSERT_ENDS_WELL(&n.inner);
    ASSERT_ENDS_WELL(&outer);
    ASSERT_ENDS_WELL(&third);
    PASS();
}

TEST a_ring_is_seen_among_loops_that_others_run_and_with_kin(void)
{
    static knot k;
    spy s;
    memset((void *)&k, 0, sizeof k);
    k.n = 2;
    csem_init(&k.over, 0);
    loop_scheduler_options options = {.kin = NULL};
    ASSERT_INT(0, loop_scheduler_init(&k.l[0], &options));
    options.kin = &k.l[0];
    ASSERT_INT(0, loop_scheduler_init(&k.l[1], &options));
    caller c[2];
    for (int i = 0; i < 2; i++) {
        c[i] = (caller){.l = &k.l[i], .call = RUN};
        start_call(&c[i]);
    }
    spies_init(&s, 1, &k.l[0], NULL);
    s.act = go_round_from_a_task;
    s.arg = &k;
    ASSERT_INT(0, loop_scheduler_post(&k.l[0], &s.task));
    ASSERT_INT(0, csem_acquire_for(&k.over, PLIM_S(PATIENCE_S)));
    ASSERT(EVENTUALLY(runs(&s) == 1));
    ASSERT_INT(0, k.error[0]);
    ASSERT_INT(EDEADLK, k.error[1]);
    CHECK_CALL(knot_ends_well(&k));
    for (int i = 0; i < 2; i++) {
        ASSERT(finished(&c[i]));
        ASSERT_INT(0, c[i].error);
    }
    PASS();
}

/* ---- timers ---- */

TEST a_timer_is_never_early_by_a_nanosecond_nor_late(int64_t from, int64_t delay_ns)
{
    loop_scheduler l;
    world w;
    bell b;
    ASSERT(make(&l, &w, 0));
    set_time(&w, from);
    bells_init(&b, 1, &l, &w, NULL);
    ASSERT_INT(0, loop_scheduler_timer_start(&l, &b.timer, delay_ns, 0));
    ASSERT_INT(1, loop_scheduler_snapshot(&l).timers);
    ASSERT_INT(EAGAIN, loop_scheduler_poll(&l));
    for (int64_t left = delay_ns / 2; left > 1; left /= 2) {
        set_time(&w, from + delay_ns - left);
        ASSERT_INT(EAGAIN, loop_scheduler_poll(&l));
    }
    set_time(&w, from + delay_ns - 1);
    ASSERT_INT(EAGAIN, loop_scheduler_poll(&l));
    ASSERT_INT(0, rings(&b));
    ASSERT_INT(1, loop_scheduler_snapshot(&l).timers);
    set_time(&w, from + delay_ns);
    ASSERT_INT(0, loop_scheduler_poll(&l));
    ASSERT_INT(1, rings(&b));
    ASSERT(b.current);
    ASSERT_U64(1, loop_scheduler_snapshot(&l).fired);
    ASSERT_INT(0, loop_scheduler_snapshot(&l).timers);
    pass_time(&w, delay_ns);
    ASSERT_INT(EAGAIN, loop_scheduler_poll(&l));
    ASSERT_INT(1, rings(&b)); /* once */
    ASSERT_ENDS_WELL(&l);
    PASS();
}

TEST timers_are_never_early_on_the_real_clock(void)
{
    loop_scheduler l;
    bell b;
    uint64_t random = 99;
    ASSERT(make_and_start(&l, 0));
    bells_init(&b, 1, &l, NULL, NULL);
    int64_t end = plim_now_() + PLIM_S(LONG_S);
    for (int round = 1; round <= scaled(1000) && plim_now_() < end; round++) {
        int64_t delay_ns = (int64_t)(next_random(&random) % 1500000);
        int64_t from = plim_now_();
        ASSERT_INT(0, loop_scheduler_timer_start(&l, &b.timer, delay_ns, 0));
        ASSERT(EVENTUALLY(rings(&b) == round));
        ASSERT(b.at >= from + delay_ns);
    }
    ASSERT_ENDS_WELL(&l);
    PASS();
}

TEST timers_run_in_the_order_of_their_deadlines(void)
{
    loop_scheduler l;
    world w;
    bell b[5];
    diary d = {.count = 0};
    ASSERT(make(&l, &w, 0));
    bells_init(b, 5, &l, &w, &d);
    const int64_t delays[] = {500, 100000, 3, 70, 1};
    for (int i = 0; i < 5; i++) {
        ASSERT_INT(0, loop_scheduler_timer_start(&l, &b[i].timer, delays[i], 0));
    }
    pass_time(&w, 1000000);
    ASSERT_INT(1, run_dry(&l));
    ASSERT_STR_EQ("5 3 4 1 2", story(&d));
    ASSERT_ENDS_WELL(&l);
    PASS();
}

TEST equal_deadlines_run_in_the_order_of_their_starts(void)
{
    enum { N = 6 };
    loop_scheduler l;
    world w;
    bell b[N];
    diary d = {.count = 0};
    ASSERT(make(&l, &w, 0));
    bells_init(b, N, &l, &w, &d);
    for (int i = N - 1; i >= 0; i--) { /* at different times, all for 1000 */
        ASSERT_INT(0, loop_scheduler_timer_start(&l, &b[i].timer, 1000 - tell_time(&w), 0));
        pass_time(&w, 100);
        if (i % 2 == 0) {
            run_dry(&l);
        }
    }
    set_time(&w, 1000);
    ASSERT_INT(1, run_dry(&l));
    ASSERT_STR_EQ("6 5 4 3 2 1", story(&d));
    for (int i = 0; i < N; i++) {
        ASSERT_INT(0, loop_scheduler_timer_start(&l, &b[i].timer, 50, 0));
    }
    /* Armed anew, it has been started last. */
    ASSERT_INT(0, loop_scheduler_timer_start(&l, &b[2].timer, 50, 0));
    pass_time(&w, 50);
    ASSERT_INT(1, run_dry(&l));
    ASSERT_STR_EQ("6 5 4 3 2 1 1 2 4 5 6 3", story(&d));
    ASSERT_ENDS_WELL(&l);
    PASS();
}

typedef struct mixed {
    world *w;
    bell b[3];
    relay r;
} mixed;

static void start_all_three(spy *s)
{
    mixed *m = s->arg;
    for (int i = 0; i < 3; i++) {
        s->error += loop_scheduler_timer_start(s->l, &m->b[i].timer, 10, 0);
    }
}

TEST equal_deadlines_keep_their_order_whoever_starts_them(bool loop_first)
{
    loop_scheduler l;
    world w;
    static mixed m;
    bell outside[2];
    spy s;
    diary d = {.count = 0};
    memset((void *)&m, 0, sizeof m);
    ASSERT(make(&l, &w, 0));
    bells_init(m.b, 3, &l, &w, &d);
    bells_init(outside, 2, &l, &w, &d);
    outside[0].number = 8;
    outside[1].number = 9;
    spies_init(&s, 1, &l, NULL);
    s.act = start_all_three;
    s.arg = &m;
    ASSERT_INT(0, loop_scheduler_post(&l, &s.task));
    if (loop_first) {
        ASSERT_INT(0, loop_scheduler_poll(&l));
    }
    for (int i = 0; i < 2; i++) {
        ASSERT_INT(0, loop_scheduler_timer_start(&l, &outside[i].timer, 10, 0));
    }
    run_dry(&l);
    ASSERT_INT(0, s.error);
    pass_time(&w, 10);
    ASSERT_INT(1, run_dry(&l));
    ASSERT_STR_EQ(loop_first ? "1 2 3 8 9" : "8 9 1 2 3", story(&d));
    ASSERT_ENDS_WELL(&l);
    PASS();
}

TEST a_timer_armed_anew_forgets_its_old_deadline(bool known)
{
    loop_scheduler l;
    world w;
    bell b[2];
    ASSERT(make(&l, &w, 0));
    bells_init(b, 2, &l, &w, NULL);
    ASSERT_INT(0, loop_scheduler_timer_start(&l, &b[0].timer, 100, 0));
    ASSERT_INT(0, loop_scheduler_timer_start(&l, &b[1].timer, 100000, 0));
    if (known) {
        run_dry(&l);
    }
    ASSERT_INT(0, loop_scheduler_timer_start(&l, &b[0].timer, 100000, 0)); /* later */
    ASSERT_INT(0, loop_scheduler_timer_start(&l, &b[1].timer, 50, 0));     /* sooner */
    ASSERT_INT(2, loop_scheduler_snapshot(&l).timers);
    set_time(&w, 99999);
    ASSERT_INT(0, loop_scheduler_poll(&l));
    ASSERT_INT(0, rings(&b[0]));
    ASSERT_INT(1, rings(&b[1]));
    set_time(&w, 100000);
    ASSERT_INT(1, run_dry(&l));
    ASSERT_INT(1, rings(&b[0]));
    set_time(&w, 10000000);
    ASSERT_INT(0, run_dry(&l));
    ASSERT_INT(1, rings(&b[1]));
    ASSERT_INT(0, atomic_load(&b[0].cancels) + atomic_load(&b[1].cancels));
    ASSERT_U64(2, loop_scheduler_snapshot(&l).fired);
    ASSERT_ENDS_WELL(&l);
    PASS();
}

static void start_bell(spy *s)
{
    bell *b = s->arg;
    s->error = loop_scheduler_timer_start(s->l, &b->timer, b->ns, 0);
    s->result = rings(b);
}

TEST without_delay_a_timer_runs_in_the_next_turn(int64_t delay_ns)
{
    loop_scheduler l;
    world w;
    bell b;
    spy s;
    ASSERT(make(&l, &w, 0));
    set_time(&w, 12345);
    bells_init(&b, 1, &l, &w, NULL);
    spies_init(&s, 1, &l, NULL);
    ASSERT_INT(0, loop_scheduler_timer_start(&l, &b.timer, delay_ns, 0));
    ASSERT_INT(0, rings(&b));
    ASSERT_INT(0, loop_scheduler_poll(&l));
    ASSERT_INT(1, rings(&b));
    s.act = start_bell;
    s.arg = &b;
    b.ns = delay_ns;
    ASSERT_INT(0, loop_scheduler_post(&l, &s.task));
    ASSERT_INT(0, loop_scheduler_poll(&l));
    ASSERT_INT(0, s.error);
    ASSERT_INT(1, s.result); /* not inside of start */
    ASSERT_INT(1, rings(&b));
    ASSERT_INT(0, loop_scheduler_poll(&l));
    ASSERT_INT(2, rings(&b));
    ASSERT_ENDS_WELL(&l);
    PASS();
}

TEST a_timer_that_is_for_ever_away_disturbs_nobody(int64_t from)
{
    loop_scheduler l;
    world w;
    bell b[3];
    ASSERT(make(&l, &w, 0));
    set_time(&w, from);
    bells_init(b, 3, &l, &w, NULL);
    ASSERT_INT(0, loop_scheduler_timer_start(&l, &b[0].timer, INT64_MAX, 0));
    ASSERT_INT(0, loop_scheduler_timer_start(&l, &b[1].timer, 1000000, 0));
    ASSERT_INT(0, loop_scheduler_timer_start(&l, &b[2].timer, 1, INT64_MAX));
    pass_time(&w, 1);
    ASSERT_INT(1, run_dry(&l));
    ASSERT_INT(1, rings(&b[2]));
    pass_time(&w, 999999);
    ASSERT_INT(1, run_dry(&l));
    ASSERT_INT(1, rings(&b[1]));
    for (int i = 0; i < 30; i++) {
        pass_time(&w, (INT64_MAX - tell_time(&w)) / 2);
        ASSERT_INT(0, run_dry(&l));
    }
    ASSERT_INT(0, rings(&b[0]));
    ASSERT_INT(1, rings(&b[2]));
    ASSERT_U64(0, b[2].timer.missed);
    ASSERT_INT(2, loop_scheduler_snapshot(&l).timers);
    ASSERT_INT(0, loop_scheduler_timer_cancel(&l, &b[0].timer));
    ASSERT_INT(0, loop_scheduler_timer_cancel(&l, &b[2].timer));
    ASSERT_ENDS_WELL(&l);
    ASSERT_INT(1, atomic_load(&b[0].cancels));
    ASSERT_INT(1, atomic_load(&b[2].cancels));
    PASS();
}

static void pass_time_then_start(spy *s)
{
    bell *b = s->arg;
    pass_time(b->w, PLIM_S(5));
    s->error = loop_scheduler_timer_start(s->l, &b->timer, b->ns, 0);
}

TEST a_delay_begins_when_the_timer_is_started(bool in_a_task)
{
    loop_scheduler l;
    world w;
    bell b;
    spy s;
    ASSERT(make(&l, &w, 0));
    bells_init(&b, 1, &l, &w, NULL);
    b.ns = PLIM_S(1);
    spies_init(&s, 1, &l, NULL);
    s.act = pass_time_then_start;
    s.arg = &b;
    if (in_a_task) {
        ASSERT_INT(0, loop_scheduler_post(&l, &s.task));
        ASSERT_INT(0, loop_scheduler_poll(&l));
    } else {
        ASSERT_INT(EAGAIN, loop_scheduler_poll(&l));
        pass_time_then_start(&s);
    }
    ASSERT_INT(0, s.error);
    ASSERT_INT(0, run_dry(&l)); /* not at once */
    set_time(&w, PLIM_S(6) - 1);
    ASSERT_INT(0, run_dry(&l));
    set_time(&w, PLIM_S(6));
    ASSERT_INT(1, run_dry(&l));
    ASSERT_INT(1, rings(&b));
    ASSERT_ENDS_WELL(&l);
    PASS();
}

TEST bad_timers_are_refused_and_nothing_changes(void)
{
    loop_scheduler l;
    world w;
    bell b;
    ASSERT(make(&l, &w, 0));
    bells_init(&b, 1, &l, &w, NULL);
    loop_scheduler_timer nothing = {.run = NULL};
    ASSERT_INT(EINVAL, loop_scheduler_timer_start(&l, &nothing, 1, 0));
    const int policies[] = {-1, 3, INT32_MAX, INT32_MIN};
    for (int i = 0; i < 4; i++) {
        b.timer.policy = policies[i];
        ASSERT_INT(EINVAL, loop_scheduler_timer_start(&l, &b.timer, 1, 1));
    }
    ASSERT_INT(0, loop_scheduler_snapshot(&l).timers);
    ASSERT_INT(ENOENT, loop_scheduler_timer_cancel(&l, &b.timer));
    b.timer.policy = LOOP_SCHEDULER_BURST;
    ASSERT_INT(0, loop_scheduler_timer_start(&l, &b.timer, 10, 0));
    b.timer.policy = 3;
    ASSERT_INT(EINVAL, loop_scheduler_timer_start(&l, &b.timer, 100, 0));
    b.timer.policy = LOOP_SCHEDULER_BURST;
    pass_time(&w, 10);
    ASSERT_INT(1, run_dry(&l)); /* as it was armed */
    ASSERT_INT(1, rings(&b));
    ASSERT_INT(0, loop_scheduler_close(&l, LOOP_SCHEDULER_DRAIN, PLIM_S(PATIENCE_S)));
    ASSERT_INT(ESHUTDOWN, loop_scheduler_timer_start(&l, &b.timer, 10, 0));
    ASSERT_ENDS_WELL(&l);
    ASSERT_INT(0, atomic_load(&b.cancels));
    PASS();
}

TEST a_cancelled_timer_is_told_on_the_loop(bool known, int64_t period_ns)
{
    loop_scheduler l;
    world w;
    bell b;
    ASSERT(make(&l, &w, 0));
    bells_init(&b, 1, &l, &w, NULL);
    ASSERT_INT(ENOENT, loop_scheduler_timer_cancel(&l, &b.timer)); /* never started */
    ASSERT_INT(0, loop_scheduler_timer_start(&l, &b.timer, 10, period_ns));
    if (known) {
        run_dry(&l);
    }
    pass_time(&w, 10); /* even when it is due */
    ASSERT_INT(0, loop_scheduler_timer_cancel(&l, &b.timer));
    ASSERT_INT(0, atomic_load(&b.cancels)); /* not inside of cancel */
    ASSERT_INT(ENOENT, loop_scheduler_timer_cancel(&l, &b.timer));
    ASSERT_INT(1, run_dry(&l));
    ASSERT_INT(1, atomic_load(&b.cancels));
    ASSERT_INT(0, rings(&b));
    ASSERT(b.current);
    ASSERT_INT(0, loop_scheduler_snapshot(&l).timers);
    ASSERT_INT(ENOENT, loop_scheduler_timer_cancel(&l, &b.timer));
    pass_time(&w, 100);
    ASSERT_INT(0, run_dry(&l));
    ASSERT_INT(0, loop_scheduler_timer_start(&l, &b.timer, 10, 0)); /* it may be started again */
    pass_time(&w, 10);
    ASSERT_INT(1, run_dry(&l));
    ASSERT_INT(1, rings(&b));
    ASSERT_INT(EALREADY, loop_scheduler_timer_cancel(&l, &b.timer)); /* it has fired */
    ASSERT_INT(1, atomic_load(&b.cancels));
    ASSERT_ENDS_WELL(&l);
    PASS();
}

TEST a_timer_started_before_its_cancellation_is_told_is_armed_instead(bool known)
{
    loop_scheduler l;
    world w;
    bell b;
    ASSERT(make(&l, &w, 0));
    bells_init(&b, 1, &l, &w, NULL);
    ASSERT_INT(0, loop_scheduler_timer_start(&l, &b.timer, 10, 10));
    if (known) {
        run_dry(&l);
    }
    ASSERT_INT(0, loop_scheduler_timer_cancel(&l, &b.timer));
    ASSERT_INT(0, loop_scheduler_timer_start(&l, &b.timer, 20, 0));
    ASSERT_INT(0, run_dry(&l));
    set_time(&w, 19);
    ASSERT_INT(0, run_dry(&l));
    ASSERT_INT(1, loop_scheduler_snapshot(&l).timers);
    set_time(&w, 20);
    ASSERT_INT(1, run_dry(&l));
    ASSERT_INT(1, rings(&b));
    ASSERT_INT(0, atomic_load(&b.cancels));
    ASSERT_ENDS_WELL(&l);
    ASSERT_INT(0, atomic_load(&b.cancels));
    PASS();
}

static void cancel_the_other(bell *b)
{
    bell *other = b->arg;
    b->error = loop_scheduler_timer_cancel(b->l, &other->timer);
    b->ns = atomic_load(&other->cancels);
}

TEST a_timer_may_cancel_one_that_is_due_at_the_same_time(void)
{
    loop_scheduler l;
    world w;
    bell b[3];
    diary d = {.count = 0};
    ASSERT(make(&l, &w, 0));
    bells_init(b, 3, &l, &w, &d);
    b[0].act = cancel_the_other;
    b[0].arg = &b[1];
    for (int i = 0; i < 3; i++) {
        ASSERT_INT(0, loop_scheduler_timer_start(&l, &b[i].timer, 10, 0));
    }
    pass_time(&w, 10);
    run_dry(&l);
    ASSERT_INT(0, b[0].error);
    ASSERT_I64(0, b[0].ns); /* not inside of cancel */
    ASSERT_INT(1, rings(&b[0]));
    ASSERT_INT(0, rings(&b[1]));
    ASSERT_INT(1, atomic_load(&b[1].cancels));
    ASSERT_INT(1, rings(&b[2]));
    ASSERT_ENDS_WELL(&l);
    PASS();
}

TEST a_timer_that_fires_once_cannot_be_cancelled_as_it_does(void)
{
    loop_scheduler l;
    world w;
    bell b;
    ASSERT(make(&l, &w, 0));
    bells_init(&b, 1, &l, &w, NULL);
    b.act = cancel_the_other;
    b.arg = &b;
    ASSERT_INT(0, loop_scheduler_timer_start(&l, &b.timer, 10, 0));
    pass_time(&w, 10);
    ASSERT_INT(1, run_dry(&l));
    ASSERT_INT(EALREADY, b.error);
    ASSERT_INT(1, rings(&b));
    ASSERT_INT(0, atomic_load(&b.cancels));
    ASSERT_ENDS_WELL(&l);
    PASS();
}

static void run_and_free_bell(loop_scheduler_timer *timer, int status)
{
    bell *b = timer->arg;
    atomic_int *ended = b->arg;
    bool last = status == ECANCELED || b->ns == 0;
    if (last) {
        memset((void *)b, 0xa5, sizeof *b);
        free(b);
        atomic_fetch_add(ended, 1);
    }
}

TEST a_timer_may_be_freed_when_it_has_fired_or_is_told_of_its_end(void)
{
    enum { N = 40 };
    loop_scheduler l;
    world w;
    bell *b[N];
    atomic_int ended = 0;
    ASSERT(make(&l, &w, 0));
    for (int i = 0; i < N; i++) {
        b[i] = malloc(sizeof *b[i]);
        ASSERT(b[i] != NULL);
        bells_init(b[i], 1, &l, &w, NULL);
        b[i]->timer.run = run_and_free_bell;
        b[i]->arg = &ended;
        b[i]->ns = i % 4 == 0 ? 3 : 0; /* the period */
        ASSERT_INT(0, loop_scheduler_timer_start(&l, &b[i]->timer, 10 + i, b[i]->ns));
    }
    for (int i = 1; i < N; i += 4) {
        ASSERT_INT(0, loop_scheduler_timer_cancel(&l, &b[i]->timer));
    }
    pass_time(&w, 100);
    run_dry(&l);
    ASSERT_INT(N - N / 4, atomic_load(&ended));
    for (int i = 0; i < N / 2; i += 4) {
        ASSERT_INT(0, loop_scheduler_timer_cancel(&l, &b[i]->timer));
    }
    run_dry(&l);
    ASSERT_INT(N - N / 8, atomic_load(&ended));
    ASSERT_ENDS_WELL(&l); /* cancels the others */
    ASSERT_INT(N, atomic_load(&ended));
    PASS();
}

TEST ten_timers_and_one_that_repeats_and_stops_itself(void)
{
    loop_scheduler l;
    world w;
    bell b[11];
    ASSERT(make(&l, &w, 0));
    bells_init(b, 11, &l, &w, NULL);
    for (int i = 0; i < 10; i++) {
        ASSERT_INT(0, loop_scheduler_timer_start(&l, &b[i].timer, PLIM_MS(50) * (i + 1), 0));
    }
    ASSERT_INT(0, loop_scheduler_timer_start(&l, &b[10].timer, PLIM_MS(100), PLIM_MS(100)));
    for (int i = 1; loop_scheduler_snapshot(&l).timers > 0; i++) {
        ASSERT(i < 1000);
        pass_time(&w, PLIM_MS(5));
        run_dry(&l);
        if (rings(&b[10]) == 5 && b[10].stop_at == 0) {
            b[10].stop_at = i;
            ASSERT_INT(0, loop_scheduler_timer_cancel(&l, &b[10].timer));
            run_dry(&l);
        }
    }
    for (int i = 0; i < 10; i++) {
        ASSERT_INT(1, rings(&b[i]));
        ASSERT_I64(PLIM_MS(50) * (i + 1), b[i].at);
    }
    ASSERT_INT(5, rings(&b[10]));
    ASSERT_INT(100, b[10].stop_at);
    ASSERT_I64(PLIM_MS(500), tell_time(&w));
    ASSERT_ENDS_WELL(&l);
    PASS();
}

/* A simple account of what timers must do, kept beside the loop's. */
enum { MODEL = 24 };
typedef struct model {
    loop_scheduler *l;
    world w;
    diary d;
    bell b[MODEL];
    bool armed[MODEL], fired[MODEL], untold[MODEL];
    int64_t deadline[MODEL];
    uint64_t order[MODEL], starts;
    uint64_t random;
    int wrong;
} model;

static int64_t some_time(model *m, int most_bits)
{
    uint64_t bits = next_random(&m->random) % (uint64_t)most_bits;
    return (int64_t)(next_random(&m->random) & (((uint64_t)1 << bits) - 1));
}

static void change_something(model *m)
{
    int i = (int)(next_random(&m->random) % MODEL);
    if (next_random(&m->random) % 3 != 0) {
        int64_t delay_ns = some_time(m, 61);
        delay_ns = next_random(&m->random) % 16 == 0 ? -delay_ns : delay_ns;
        m->wrong += loop_scheduler_timer_start(m->l, &m->b[i].timer, delay_ns, 0) != 0;
        m->armed[i] = true;
        m->untold[i] = m->fired[i] = false;
        m->deadline[i] = tell_time(&m->w) + (delay_ns > 0 ? delay_ns : 0);
        m->order[i] = ++m->starts;
    } else {
        int expected = m->armed[i] ? 0 : m->fired[i] ? EALREADY : ENOENT;
        m->wrong += loop_scheduler_timer_cancel(m->l, &m->b[i].timer) != expected;
        m->untold[i] = m->untold[i] || m->armed[i];
        m->armed[i] = false;
    }
}

static void change_some(spy *s)
{
    model *m = s->arg;
    for (uint64_t i = next_random(&m->random) % 8; i > 0; i--) {
        change_something(m);
    }
}

static int next_due(model *m)
{
    int next = -1;
    for (int i = 0; i < MODEL; i++) {
        if (m->armed[i] && m->deadline[i] <= tell_time(&m->w) &&
            (next < 0 || m->deadline[i] < m->deadline[next] ||
             (m->deadline[i] == m->deadline[next] && m->order[i] < m->order[next]))) {
            next = i;
        }
    }
    return next;
}

/* What ran is what must have, in order; the cancelled ones were told once, in any order. */
static bool agrees(model *m)
{
    bool same = m->wrong == 0;
    for (int i = 0; i < atomic_load(&m->d.count) && same; i++) {
        int which = m->d.number[i] - 1;
        if (m->d.status[i] == 0) {
            same = which == next_due(m);
            m->armed[which] = false;
            m->fired[which] = true;
        } else {
            same = m->d.status[i] == ECANCELED && m->untold[which];
            m->untold[which] = false;
        }
    }
    for (int i = 0; i < MODEL; i++) {
        same = same && !m->untold[i];
    }
    atomic_store(&m->d.count, 0);
    return same && next_due(m) < 0;
}

static uint32_t armed(model *m)
{
    uint32_t n = 0;
    for (int i = 0; i < MODEL; i++) {
        n += m->armed[i];
    }
    return n;
}

TEST timers_do_as_a_simple_model_says(uint64_t seed, int64_t from, int step_bits)
{
    loop_scheduler l;
    static model m;
    spy s;
    memset((void *)&m, 0, sizeof m);
    m.l = &l;
    m.random = seed;
    ASSERT(make(&l, &m.w, 0));
    set_time(&m.w, from);
    bells_init(m.b, MODEL, &l, &m.w, &m.d);
    spies_init(&s, 1, &l, NULL);
    s.act = change_some;
    s.arg = &m;
    for (int round = scaled(60000); round > 0; round--) {
        if (next_random(&m.random) % 2 == 0) {
            change_some(&s); /* from elsewhere */
        } else {
            run_dry(&l);
            ASSERT(agrees(&m)); /* nothing is due, so it does not matter who runs first */
            ASSERT_INT(0, loop_scheduler_post(&l, &s.task));
            run_dry(&l);
            ASSERT(agrees(&m));
        }
        if (next_random(&m.random) % 2 == 0) {
            pass_time(&m.w, some_time(&m, step_bits)); /* often what was started is not yet known */
        }
        if (next_random(&m.random) % 2 == 0) {
            run_dry(&l);
            ASSERT(agrees(&m));
            ASSERT_INT(armed(&m), loop_scheduler_snapshot(&l).timers);
        }
    }
    ASSERT_ENDS_WELL(&l);
    PASS();
}

typedef struct swarm {
    world w;
    int64_t before; /* the time of the turn before */
    int64_t last;   /* the last deadline that came */
    int wrong, rung, told;
} swarm;

typedef struct gnat {
    loop_scheduler_timer timer;
    swarm *swarm;
    int64_t deadline;
    bool cancelled;
} gnat;

static void sting(loop_scheduler_timer *timer, int status)
{
    gnat *g = timer->arg;
    swarm *s = g->swarm;
    if (status == ECANCELED) {
        s->told++;
        s->wrong += !g->cancelled;
        return;
    }
    s->rung++;
    s->wrong += g->cancelled || g->deadline < s->last; /* in order */
    s->wrong += g->deadline > tell_time(&s->w);        /* not early */
    s->wrong += g->deadline <= s->before;              /* nor late */
    s->last = g->deadline;
}

TEST a_hundred_thousand_timers_fire_in_order_but_for_those_cancelled(int64_t span)
{
    loop_scheduler l;
    static swarm s;
    uint64_t random = 17;
    int n = scaled(100000), cancelled = 0;
    gnat *g = calloc((size_t)n, sizeof *g);
    ASSERT(g != NULL);
    memset((void *)&s, 0, sizeof s);
    ASSERT(make(&l, &s.w, 0));
    for (int i = 0; i < n; i++) {
        g[i].timer = (loop_scheduler_timer){.run = sting, .arg = &g[i]};
        g[i].swarm = &s;
        g[i].deadline = 1 + (int64_t)(next_random(&random) % (uint64_t)span);
        ASSERT_INT(0, loop_scheduler_timer_start(&l, &g[i].timer, g[i].deadline, 0));
    }
    ASSERT_INT(n, loop_scheduler_snapshot(&l).timers);
    for (int i = 0; i < n; i += 2, cancelled++) {
        g[i].cancelled = true;
        ASSERT_INT(0, loop_scheduler_timer_cancel(&l, &g[i].timer));
    }
    while (s.before < span) {
        int64_t step = 1 + (int64_t)(next_random(&random) % (uint64_t)(span / 200));
        set_time(&s.w, s.before + step);
        run_dry(&l);
        s.before += step;
    }
    ASSERT_INT(0, s.wrong);
    ASSERT_INT(cancelled, s.told);
    ASSERT_INT(n - cancelled, s.rung);
    ASSERT_ENDS_WELL(&l);
    free(g);
    PASS();
}

TEST a_timer_that_is_sooner_than_the_end_of_the_sleep_wakes_the_loop(void)
{
    loop_scheduler l;
    bell b[2];
    ASSERT(make_and_start(&l, 0));
    bells_init(b, 2, &l, NULL, NULL);
    ASSERT_INT(0, loop_scheduler_timer_start(&l, &b[0].timer, PLIM_S(3600), 0));
    rest(PLIM_MS(5)); /* it sleeps for an hour now */
    for (int i = 1; i <= 5; i++) {
        int64_t from = plim_now_();
        ASSERT_INT(0, loop_scheduler_timer_start(&l, &b[1].timer, PLIM_MS(3), 0));
        ASSERT(EVENTUALLY(rings(&b[1]) == i));
        ASSERT(b[1].at - from >= PLIM_MS(3));
    }
    ASSERT_INT(0, rings(&b[0]));
    ASSERT_ENDS_WELL(&l);
    ASSERT_INT(1, atomic_load(&b[0].cancels));
    PASS();
}

TEST a_cancelled_timer_wakes_the_loop_to_be_told(void)
{
    loop_scheduler l;
    bell b;
    ASSERT(make_and_start(&l, 0));
    bells_init(&b, 1, &l, NULL, NULL);
    for (int i = 1; i <= 5; i++) {
        ASSERT_INT(0, loop_scheduler_timer_start(&l, &b.timer, PLIM_S(3600), 0));
        rest(PLIM_MS(2)); /* it sleeps for an hour now */
        ASSERT_INT(0, loop_scheduler_timer_cancel(&l, &b.timer));
        ASSERT(EVENTUALLY(atomic_load(&b.cancels) == i));
    }
    ASSERT_ENDS_WELL(&l);
    PASS();
}

static void end_timer_race(loop_scheduler_timer *timer, int status)
{
    race *r = timer->arg;
    r->status = status;
    csem_release(&r->over);
}

TEST a_cancel_races_with_the_timer_and_one_of_them_wins(void)
{
    loop_scheduler l;
    race r = {.status = -1};
    uint64_t random = 11;
    csem_init(&r.over, 0);
    ASSERT(make_and_start(&l, 0));
    int64_t end = plim_now_() + PLIM_S(LONG_S);
    uint64_t lost = 0;
    for (int round = scaled(100000); round > 0 && plim_now_() < end; round--) {
        r.timer = (loop_scheduler_timer){.run = end_timer_race, .arg = &r};
        int64_t delay_ns = (int64_t)(next_random(&random) % 4) * 2000;
        ASSERT_INT(0, loop_scheduler_timer_start(&l, &r.timer, delay_ns, 0));
        for (uint64_t i = next_random(&random) % 512; i > 0; i--) {
            plim_pause_();
        }
        int error = loop_scheduler_timer_cancel(&l, &r.timer);
        ASSERT_INT(0, csem_acquire_for(&r.over, PLIM_S(PATIENCE_S)));
        ASSERT_INT(error == 0 ? ECANCELED : 0, r.status);
        ASSERT(error == 0 || error == EALREADY);
        lost += error != 0;
    }
    ASSERT_U64(lost, loop_scheduler_snapshot(&l).fired);
    ASSERT_ENDS_WELL(&l);
    ASSERT_INT(EAGAIN, csem_try_acquire(&r.over)); /* nothing came twice */
    PASS();
}

typedef struct tug_of_war {
    bell b[4];
    atomic_int starts, cancels;
} tug_of_war;

static plim_thread_result start_and_cancel(void *arg)
{
    member *m = arg;
    crowd *c = m->crowd;
    tug_of_war *t = c->arg;
    uint64_t random = (uint64_t)m->number + 5;
    wait_for_go(c);
    for (int i = 0; i < c->rounds && plim_now_() < c->end; i++) {
        loop_scheduler_timer *timer = &t->b[next_random(&random) % 4].timer;
        if (next_random(&random) % 2 == 0) {
            int64_t delay_ns = (int64_t)(next_random(&random) % 8) * 5000;
            int64_t period_ns = (int64_t)(next_random(&random) % 2) * 20000;
            int error = loop_scheduler_timer_start(c->l, timer, delay_ns, period_ns);
            atomic_fetch_add(error == 0 ? &t->starts : &c->odd, 1);
        } else {
            int error = loop_scheduler_timer_cancel(c->l, timer);
            atomic_fetch_add(error == 0                             ? &t->cancels
                             : error == EALREADY || error == ENOENT ? &c->refused
                                                                    : &c->odd,
                             1);
        }
        dawdle(next_random(&random));
    }
    return 0;
}

TEST many_threads_may_start_and_cancel_the_same_timers(void)
{
    enum { N = 4 };
    loop_scheduler l;
    member m[N];
    static tug_of_war t;
    memset((void *)&t, 0, sizeof t);
    ASSERT(make_and_start(&l, 0));
    bells_init(t.b, 4, &l, NULL, NULL);
    t.b[1].timer.policy = LOOP_SCHEDULER_BURST;
    t.b[2].timer.policy = LOOP_SCHEDULER_DELAY;
    crowd c = {.l = &l, .rounds = scaled(20000), .end = plim_now_() + PLIM_S(LONG_S), .arg = &t};
    start_crowd(&c, m, N, start_and_cancel);
    join_crowd(m, N);
    ASSERT_INT(0, atomic_load(&c.odd));
    ASSERT(serves(&l));
    ASSERT(loop_scheduler_snapshot(&l).timers <= 4);
    int still_armed = 0;
    for (int i = 0; i < 4; i++) {
        still_armed += loop_scheduler_timer_cancel(&l, &t.b[i].timer) == 0;
    }
    ASSERT_INT(0, loop_scheduler_close(&l, LOOP_SCHEDULER_DRAIN, PLIM_S(PATIENCE_S)));
    int told = 0;
    for (int i = 0; i < 4; i++) {
        told += atomic_load(&t.b[i].cancels);
        ASSERT_INT(0, atomic_load(&t.b[i].odd));
    }
    /* One that was armed before it was told is not told. */
    ASSERT(told <= atomic_load(&t.cancels) + still_armed);
    ASSERT(told >= still_armed);
    ASSERT_ENDS_WELL(&l);
    PASS();
}

/* A clock that does not keep time with the real one. */
static int64_t tell_fast(void *user)
{
    (void)user;
    return plim_now_() * 8;
}

static int64_t tell_slowly(void *user)
{
    (void)user;
    return plim_now_() / 4;
}

TEST a_clock_that_goes_otherwise_is_asked_again_after_each_sleep(int64_t (*clock)(void *))
{
    loop_scheduler l;
    loop_scheduler_options options = {.clock = clock};
    bell b[3];
    ASSERT_INT(0, loop_scheduler_init(&l, &options));
    ASSERT_INT(0, loop_scheduler_start(&l));
    bells_init(b, 3, &l, NULL, NULL);
    int64_t from = plim_now_(), from_there = clock(NULL);
    for (int i = 0; i < 3; i++) {
        ASSERT_INT(0, loop_scheduler_timer_start(&l, &b[i].timer, PLIM_MS(4) * (i + 1), 0));
    }
    ASSERT(EVENTUALLY(rings(&b[2]) == 1));
    ASSERT(clock(NULL) - from_there >= PLIM_MS(12));
    ASSERT(clock != tell_slowly || plim_now_() - from >= PLIM_MS(12) * 3);
    ASSERT_ENDS_WELL(&l);
    PASS();
}

/* ---- timers again and again ---- */

TEST a_periodic_timer_keeps_its_phase_however_late(int policy)
{
    loop_scheduler l;
    world w;
    bell b;
    uint64_t random = 23;
    ASSERT(make(&l, &w, 0));
    bells_init(&b, 1, &l, &w, NULL);
    b.timer.policy = policy;
    ASSERT_INT(0, loop_scheduler_timer_start(&l, &b.timer, 500, 1000));
    for (int i = 0; i < 1000; i++) {
        int64_t due = 500 + 1000 * (int64_t)i;
        set_time(&w, due - 1);
        ASSERT_INT(EAGAIN, loop_scheduler_poll(&l));
        set_time(&w, due + (int64_t)(next_random(&random) % 999)); /* late, by less than a period */
        ASSERT_INT(0, loop_scheduler_poll(&l));
        ASSERT_INT(i + 1, rings(&b));
        ASSERT_INT(EAGAIN, loop_scheduler_poll(&l));
    }
    ASSERT_U64(0, b.timer.missed);
    ASSERT_U64(1000, loop_scheduler_snapshot(&l).fired);
    ASSERT_INT(1, loop_scheduler_snapshot(&l).timers);
    ASSERT_ENDS_WELL(&l);
    ASSERT_INT(1, atomic_load(&b.cancels));
    PASS();
}

static void take_time(bell *b)
{
    pass_time(b->w, b->ns);
}

TEST a_callback_that_takes_time_makes_no_drift(void)
{
    loop_scheduler l;
    world w;
    bell b;
    ASSERT(make(&l, &w, 0));
    bells_init(&b, 1, &l, &w, NULL);
    b.act = take_time;
    b.ns = PLIM_MS(3);
    ASSERT_INT(0, loop_scheduler_timer_start(&l, &b.timer, PLIM_MS(10), PLIM_MS(10)));
    while (rings(&b) < 100) {
        int64_t sleep = loop_scheduler_next_timeout(&l);
        ASSERT(sleep > 0);
        ASSERT(sleep <= PLIM_MS(10));
        pass_time(&w, sleep);
        run_dry(&l);
    }
    ASSERT_I64(PLIM_MS(1000), b.at);
    ASSERT_U64(0, b.timer.missed);
    ASSERT_ENDS_WELL(&l);
    PASS();
}

TEST skip_leaves_out_what_it_has_missed_and_counts_it(void)
{
    loop_scheduler l;
    world w;
    bell b;
    ASSERT(make(&l, &w, 0));
    bells_init(&b, 1, &l, &w, NULL);
    b.timer.missed = 77;
    ASSERT_INT(0, loop_scheduler_timer_start(&l, &b.timer, 10, 10));
    set_time(&w, 35); /* for 10, 20 and 30 */
    ASSERT_INT(1, run_dry(&l));
    ASSERT_INT(1, rings(&b));
    ASSERT_U64(2, b.timer.missed); /* since it was started */
    set_time(&w, 39);
    ASSERT_INT(0, run_dry(&l));
    set_time(&w, 40);
    ASSERT_INT(1, run_dry(&l));
    ASSERT_INT(2, rings(&b));
    ASSERT_U64(2, b.timer.missed);
    set_time(&w, 60); /* late by exactly a period: for 50 and 60 */
    ASSERT_INT(1, run_dry(&l));
    ASSERT_INT(3, rings(&b));
    ASSERT_U64(3, b.timer.missed);
    set_time(&w, 69);
    ASSERT_INT(0, run_dry(&l));
    set_time(&w, 1000000);
    ASSERT_INT(1, run_dry(&l));
    ASSERT_INT(4, rings(&b));
    ASSERT_U64(3 + (1000000 - 70) / 10, b.timer.missed);
    ASSERT_INT(0, loop_scheduler_timer_start(&l, &b.timer, 10, 10));
    pass_time(&w, 10);
    ASSERT_INT(1, run_dry(&l));
    ASSERT_U64(0, b.timer.missed); /* counted anew */
    ASSERT_ENDS_WELL(&l);
    PASS();
}

TEST burst_makes_up_for_what_it_has_missed(void)
{
    loop_scheduler l;
    world w;
    bell b;
    spy s;
    ASSERT(make(&l, &w, 0));
    bells_init(&b, 1, &l, &w, NULL);
    spies_init(&s, 1, &l, NULL);
    b.timer.policy = LOOP_SCHEDULER_BURST;
    ASSERT_INT(0, loop_scheduler_timer_start(&l, &b.timer, 10, 10));
    set_time(&w, 35);
    run_dry(&l);
    ASSERT_INT(3, rings(&b));
    set_time(&w, 39);
    ASSERT_INT(0, run_dry(&l));
    set_time(&w, 40);
    ASSERT_INT(1, run_dry(&l));
    ASSERT_INT(4, rings(&b));
    set_time(&w, 10000); /* a flood of them lets others run */
    ASSERT_INT(0, loop_scheduler_post(&l, &s.task));
    run_dry(&l);
    ASSERT_INT(1000, rings(&b));
    ASSERT_INT(1, runs(&s));
    ASSERT_U64(0, b.timer.missed);
    ASSERT_ENDS_WELL(&l);
    PASS();
}

TEST delay_begins_the_period_when_the_call_has_returned(void)
{
    loop_scheduler l;
    world w;
    bell b;
    ASSERT(make(&l, &w, 0));
    bells_init(&b, 1, &l, &w, NULL);
    b.timer.policy = LOOP_SCHEDULER_DELAY;
    b.act = take_time;
    b.ns = 7;
    ASSERT_INT(0, loop_scheduler_timer_start(&l, &b.timer, 10, 10));
    set_time(&w, 35);
    ASSERT_INT(1, run_dry(&l));
    ASSERT_I64(42, tell_time(&w)); /* it returned now, so the next is at 52 */
    ASSERT_INT(1, rings(&b));
    set_time(&w, 51);
    ASSERT_INT(0, run_dry(&l));
    set_time(&w, 52);
    ASSERT_INT(1, run_dry(&l));
    ASSERT_INT(2, rings(&b));
    ASSERT_U64(0, b.timer.missed);
    ASSERT_ENDS_WELL(&l);
    PASS();
}

TEST a_periodic_timer_may_be_cancelled_as_it_fires(void)
{
    loop_scheduler l;
    world w;
    bell b;
    diary d = {.count = 0};
    ASSERT(make(&l, &w, 0));
    bells_init(&b, 1, &l, &w, &d);
    b.act = cancel_the_other;
    b.arg = &b;
    ASSERT_INT(0, loop_scheduler_timer_start(&l, &b.timer, 10, 10));
    set_time(&w, 10);
    run_dry(&l);
    ASSERT_INT(0, b.error);
    ASSERT_STR_EQ("1 x1", story(&d));
    set_time(&w, 1000);
    ASSERT_INT(0, run_dry(&l));
    ASSERT_STR_EQ("1 x1", story(&d));
    ASSERT_INT(0, loop_scheduler_snapshot(&l).timers);
    ASSERT_ENDS_WELL(&l);
    PASS();
}

static void change_own_period(bell *b)
{
    if (rings(b) == 0) {
        b->error = loop_scheduler_timer_start(b->l, &b->timer, b->ns, b->ns);
    }
}

TEST a_timer_may_be_armed_anew_as_it_fires(int64_t period_ns)
{
    loop_scheduler l;
    world w;
    bell b;
    ASSERT(make(&l, &w, 0));
    bells_init(&b, 1, &l, &w, NULL);
    b.act = change_own_period;
    b.ns = 100;
    ASSERT_INT(0, loop_scheduler_timer_start(&l, &b.timer, 10, period_ns));
    set_time(&w, 10);
    ASSERT_INT(1, run_dry(&l));
    ASSERT_INT(0, b.error);
    ASSERT_INT(1, loop_scheduler_snapshot(&l).timers);
    set_time(&w, 109);
    ASSERT_INT(0, run_dry(&l));
    set_time(&w, 110);
    ASSERT_INT(1, run_dry(&l));
    ASSERT_INT(2, rings(&b));
    set_time(&w, 210);
    ASSERT_INT(1, run_dry(&l));
    ASSERT_INT(3, rings(&b));
    ASSERT_U64(0, b.timer.missed);
    ASSERT_INT(0, atomic_load(&b.cancels));
    ASSERT_ENDS_WELL(&l);
    PASS();
}

TEST a_period_of_nothing_is_once(int64_t period_ns)
{
    loop_scheduler l;
    world w;
    bell b;
    ASSERT(make(&l, &w, 0));
    bells_init(&b, 1, &l, &w, NULL);
    ASSERT_INT(0, loop_scheduler_timer_start(&l, &b.timer, 10, period_ns));
    set_time(&w, 1000);
    ASSERT_INT(1, run_dry(&l));
    ASSERT_INT(1, rings(&b));
    ASSERT_INT(0, loop_scheduler_snapshot(&l).timers);
    ASSERT_INT(EALREADY, loop_scheduler_timer_cancel(&l, &b.timer));
    ASSERT_ENDS_WELL(&l);
    PASS();
}

/* ---- who runs it ---- */

static void stop_own_loop(spy *s)
{
    loop_scheduler_stop(s->l);
}

TEST stop_ends_run_after_the_current_task_and_the_rest_stays(void)
{
    loop_scheduler l;
    spy s[4];
    diary d = {.count = 0};
    ASSERT(make(&l, NULL, 0));
    spies_init(s, 4, &l, &d);
    s[1].act = s[3].act = stop_own_loop;
    for (int i = 0; i < 4; i++) {
        ASSERT_INT(0, loop_scheduler_post(&l, &s[i].task));
    }
    ASSERT_INT(0, loop_scheduler_run(&l));
    ASSERT_STR_EQ("1 2", story(&d));
    ASSERT_INT(2, loop_scheduler_snapshot(&l).queued);
    ASSERT_INT(0, loop_scheduler_run(&l));
    ASSERT_STR_EQ("1 2 3 4", story(&d));
    ASSERT_ENDS_WELL(&l);
    PASS();
}

static bool always(void *arg)
{
    (void)arg;
    return true;
}

TEST a_stop_before_ends_the_next_run_at_once(int stops)
{
    loop_scheduler l;
    spy s[2];
    ASSERT(make(&l, NULL, 0));
    spies_init(s, 2, &l, NULL);
    s[1].act = stop_own_loop;
    ASSERT_INT(0, loop_scheduler_post(&l, &s[0].task));
    ASSERT_INT(0, loop_scheduler_post(&l, &s[1].task));
    for (int i = 0; i < stops; i++) {
        loop_scheduler_stop(&l);
    }
    ASSERT_INT(0, loop_scheduler_run(&l));
    ASSERT_INT(0, runs(&s[0]));
    loop_scheduler_stop(&l);
    ASSERT_INT(ECANCELED, loop_scheduler_run_until(&l, never, NULL, PLIM_S(PATIENCE_S)));
    loop_scheduler_stop(&l);
    ASSERT_INT(ETIMEDOUT, loop_scheduler_run_once(&l, PLIM_FOREVER));
    ASSERT_INT(0, runs(&s[0]));
    ASSERT_INT(2, loop_scheduler_snapshot(&l).queued);
    ASSERT_INT(0, loop_scheduler_run(&l)); /* that was it: this one runs them */
    ASSERT_INT(1, runs(&s[0]));
    ASSERT_INT(1, runs(&s[1]));
    ASSERT_ENDS_WELL(&l);
    PASS();
}

TEST stop_ends_a_sleep(int call_kind, int expected)
{
    loop_scheduler l;
    ASSERT(make(&l, NULL, 0));
    for (int i = 0; i < 20; i++) {
        caller c = {.l = &l, .call = call_kind, .done_when = never, .timeout_ns = PLIM_FOREVER};
        start_call(&c);
        rest(PLIM_US(50 * i));
        loop_scheduler_stop(&l);
        ASSERT(finished(&c));
        ASSERT_INT(expected, c.error);
    }
    ASSERT_ENDS_WELL(&l);
    PASS();
}

TEST a_loop_may_be_started_and_stopped_again_and_again(void)
{
    loop_scheduler l;
    spy s;
    ASSERT(make(&l, NULL, 0));
    for (int i = 1; i <= 16; i++) {
        spies_init(&s, 1, &l, NULL);
        if (i % 2 == 0) {
            ASSERT_INT(0, loop_scheduler_post(&l, &s.task)); /* kept, or run by the one before */
        }
        ASSERT_INT(0, loop_scheduler_start(&l)); /* waits for the one before, and is not stopped */
        if (i % 2 == 1) {
            ASSERT_INT(0, loop_scheduler_post(&l, &s.task));
        }
        ASSERT(EVENTUALLY(runs(&s) == 1));
        ASSERT(s.thread != this_thread());
        loop_scheduler_stop(&l);
    }
    ASSERT_INT(0, loop_scheduler_destroy(&l)); /* waits likewise */
    ASSERT_INT(blocks_before, atomic_load(&blocks));
    PASS();
}

static void start_again_inside(spy *s)
{
    s->error = loop_scheduler_start(s->l);
}

TEST only_one_thread_may_run_a_loop(bool own_thread)
{
    loop_scheduler l;
    spy gate, s;
    ASSERT(make(&l, NULL, 0));
    caller c = {.l = &l, .call = RUN};
    if (own_thread) {
        ASSERT_INT(0, loop_scheduler_start(&l));
    } else {
        start_call(&c);
    }
    ASSERT(occupy(&l, &gate));
    for (int i = 0; i < 2; i++) { /* while a task runs, and then while it sleeps */
        ASSERT_INT(EBUSY, loop_scheduler_run(&l));
        ASSERT_INT(EBUSY, loop_scheduler_run_until(&l, always, NULL, 0));
        ASSERT_INT(EBUSY, loop_scheduler_run_once(&l, 0));
        ASSERT_INT(EBUSY, loop_scheduler_poll(&l));
        ASSERT_INT(EBUSY, loop_scheduler_start(&l));
        ASSERT_INT(EBUSY, loop_scheduler_destroy(&l));
        let_go(&gate);
        ASSERT(EVENTUALLY(runs(&gate) == 1));
    }
    spies_init(&s, 1, &l, NULL);
    s.act = start_again_inside;
    ASSERT_INT(0, loop_scheduler_post(&l, &s.task));
    ASSERT(EVENTUALLY(runs(&s) == 1));
    ASSERT_INT(EBUSY, s.error);
    ASSERT(serves(&l)); /* unharmed */
    ASSERT_ENDS_WELL(&l);
    if (!own_thread) {
        ASSERT(finished(&c));
        ASSERT_INT(0, c.error); /* closed */
    }
    PASS();
}

TEST a_closed_loop_does_not_run_any_more(void)
{
    loop_scheduler l;
    ASSERT(make(&l, NULL, 0));
    ASSERT_INT(0, loop_scheduler_close(&l, LOOP_SCHEDULER_DRAIN, PLIM_FOREVER));
    ASSERT_INT(ESHUTDOWN, loop_scheduler_run(&l));
    ASSERT_INT(ESHUTDOWN, loop_scheduler_run_until(&l, never, NULL, PLIM_FOREVER));
    ASSERT_INT(ESHUTDOWN, loop_scheduler_run_once(&l, PLIM_FOREVER));
    ASSERT_INT(ESHUTDOWN, loop_scheduler_poll(&l));
    ASSERT_INT(ESHUTDOWN, loop_scheduler_start(&l));
    ASSERT_INT(0, loop_scheduler_destroy(&l));
    PASS();
}

typedef struct plan {
    spy *s;
    int asked, enough;
} plan;

static bool enough_ran(void *arg)
{
    plan *p = arg;
    p->asked++;
    return runs(p->s) >= p->enough;
}

TEST run_until_goes_on_until_it_is_told_that_all_is_done(void)
{
    loop_scheduler l;
    spy s;
    ASSERT(make(&l, NULL, 0));
    spies_init(&s, 1, &l, NULL);
    s.act = post_again_for_ever;
    ASSERT_INT(0, loop_scheduler_post(&l, &s.task));
    plan p = {.s = &s, .enough = 0};
    ASSERT_INT(0, loop_scheduler_run_until(&l, enough_ran, &p, PLIM_FOREVER));
    ASSERT_INT(0, runs(&s)); /* it is asked first */
    ASSERT_INT(1, p.asked);
    p = (plan){.s = &s, .enough = 10};
    ASSERT_INT(0, loop_scheduler_run_until(&l, enough_ran, &p, PLIM_FOREVER));
    ASSERT_INT(10, runs(&s));
    ASSERT_INT(11, p.asked); /* before each turn */
    ASSERT_INT(EINVAL, loop_scheduler_run_until(&l, NULL, NULL, PLIM_FOREVER));
    ASSERT_INT(10, runs(&s));
    ASSERT_INT(0, loop_scheduler_close(&l, LOOP_SCHEDULER_NOW, PLIM_FOREVER));
    ASSERT_ENDS_WELL(&l);
    PASS();
}

TEST run_until_gives_up_in_time(bool busy)
{
    loop_scheduler l;
    spy s;
    ASSERT(make(&l, NULL, 0));
    spies_init(&s, 1, &l, NULL);
    s.act = post_again_for_ever;
    if (busy) {
        ASSERT_INT(0, loop_scheduler_post(&l, &s.task));
    }
    int64_t from = plim_now_();
    ASSERT_INT(ETIMEDOUT, loop_scheduler_run_until(&l, never, NULL, PLIM_MS(20)));
    ASSERT(plim_now_() - from >= PLIM_MS(20));
    ASSERT(plim_now_() - from < PLIM_S(PATIENCE_S));
    ASSERT_INT(busy, runs(&s) > 0);
    ASSERT_INT(0, loop_scheduler_close(&l, LOOP_SCHEDULER_NOW, PLIM_FOREVER));
    ASSERT_ENDS_WELL(&l);
    PASS();
}

TEST a_runner_returns_when_the_loop_is_closed(int call_kind, int expected)
{
    loop_scheduler l;
    spy gate;
    ASSERT(make(&l, NULL, 0));
    caller c = {.l = &l, .call = call_kind, .done_when = never, .timeout_ns = PLIM_S(PATIENCE_S)};
    start_call(&c);
    ASSERT(occupy(&l, &gate));
    let_go(&gate);
    ASSERT_INT(0, loop_scheduler_close(&l, LOOP_SCHEDULER_DRAIN, PLIM_S(PATIENCE_S)));
    ASSERT(finished(&c));
    ASSERT_INT(expected, c.error);
    ASSERT_INT(1, runs(&gate));
    ASSERT_ENDS_WELL(&l);
    PASS();
}

TEST run_once_waits_for_one_turn(void)
{
    loop_scheduler l;
    spy s[2];
    bell b;
    ASSERT(make(&l, NULL, 0));
    spies_init(s, 2, &l, NULL);
    bells_init(&b, 1, &l, NULL, NULL);
    ASSERT_INT(ETIMEDOUT, loop_scheduler_run_once(&l, 0));
    ASSERT_INT(ETIMEDOUT, loop_scheduler_run_once(&l, INT64_MIN));
    int64_t from = plim_now_();
    ASSERT_INT(ETIMEDOUT, loop_scheduler_run_once(&l, PLIM_MS(20)));
    ASSERT(plim_now_() - from >= PLIM_MS(20));
    s[0].act = post_another;
    s[0].arg = &s[1];
    ASSERT_INT(0, loop_scheduler_post(&l, &s[0].task));
    ASSERT_INT(0, loop_scheduler_run_once(&l, PLIM_FOREVER));
    ASSERT_INT(1, runs(&s[0]));
    ASSERT_INT(0, runs(&s[1]));
    ASSERT_INT(0, loop_scheduler_run_once(&l, 0));
    ASSERT_INT(1, runs(&s[1]));
    from = plim_now_();
    ASSERT_INT(0, loop_scheduler_timer_start(&l, &b.timer, PLIM_MS(5), 0));
    ASSERT_INT(0, loop_scheduler_run_once(&l, PLIM_S(PATIENCE_S)));
    ASSERT_INT(1, rings(&b));
    ASSERT(b.at - from >= PLIM_MS(5));
    ASSERT_INT(0, loop_scheduler_timer_start(&l, &b.timer, PLIM_S(3600), 0));
    ASSERT_INT(ETIMEDOUT, loop_scheduler_run_once(&l, PLIM_MS(2)));
    ASSERT_INT(1, rings(&b));
    ASSERT_ENDS_WELL(&l);
    PASS();
}

TEST run_once_ends_its_wait_when_somebody_posts(void)
{
    loop_scheduler l;
    spy s;
    ASSERT(make(&l, NULL, 0));
    spies_init(&s, 1, &l, NULL);
    for (int i = 1; i <= 20; i++) {
        caller c = {.l = &l, .call = RUN_ONCE, .timeout_ns = PLIM_S(PATIENCE_S)};
        start_call(&c);
        rest(PLIM_US(50 * i));
        ASSERT_INT(0, loop_scheduler_post(&l, &s.task));
        ASSERT(finished(&c));
        ASSERT_INT(0, c.error);
        ASSERT_INT(i, runs(&s));
        ASSERT(s.thread == c.self);
    }
    ASSERT_ENDS_WELL(&l);
    PASS();
}

TEST poll_never_waits_and_next_timeout_says_for_how_long_one_may(void)
{
    loop_scheduler l;
    world w;
    bell b;
    spy s;
    ASSERT(make(&l, &w, 0));
    bells_init(&b, 1, &l, &w, NULL);
    spies_init(&s, 1, &l, NULL);
    ASSERT_INT(EAGAIN, loop_scheduler_poll(&l));
    ASSERT_I64(PLIM_FOREVER, loop_scheduler_next_timeout(&l));
    ASSERT_INT(0, loop_scheduler_post(&l, &s.task));
    ASSERT_I64(0, loop_scheduler_next_timeout(&l));
    ASSERT_INT(0, loop_scheduler_poll(&l));
    ASSERT_I64(PLIM_FOREVER, loop_scheduler_next_timeout(&l));
    ASSERT_INT(0, loop_scheduler_timer_start(&l, &b.timer, PLIM_MS(100), 0));
    ASSERT_INT(EAGAIN, loop_scheduler_poll(&l));
    ASSERT_INT(0, rings(&b));
    int turns = 0;
    for (; rings(&b) == 0; turns++) { /* whoever sleeps for so long comes in time */
        int64_t sleep = loop_scheduler_next_timeout(&l);
        ASSERT(sleep > 0);
        ASSERT(tell_time(&w) + sleep <= PLIM_MS(100));
        ASSERT(turns < 100);
        pass_time(&w, sleep);
        if (tell_time(&w) == PLIM_MS(100)) {
            ASSERT_I64(0, loop_scheduler_next_timeout(&l));
        }
        ASSERT_INT(tell_time(&w) == PLIM_MS(100) ? 0 : EAGAIN, loop_scheduler_poll(&l));
    }
    ASSERT_I64(PLIM_MS(100), tell_time(&w));
    ASSERT_I64(PLIM_FOREVER, loop_scheduler_next_timeout(&l));
    ASSERT_INT(0, loop_scheduler_timer_start(&l, &b.timer, 7, 0));
    run_dry(&l);
    ASSERT_I64(7, loop_scheduler_next_timeout(&l));
    ASSERT_INT(0, loop_scheduler_timer_cancel(&l, &b.timer));
    ASSERT_I64(0, loop_scheduler_next_timeout(&l)); /* it is to be told */
    ASSERT_INT(0, loop_scheduler_poll(&l));
    ASSERT_I64(PLIM_FOREVER, loop_scheduler_next_timeout(&l));
    ASSERT_ENDS_WELL(&l);
    PASS();
}

static void look_at_the_other(spy *s)
{
    s->result = loop_scheduler_is_current(s->arg);
}

TEST is_current_is_true_in_the_tasks_of_this_loop_only(void)
{
    loop_scheduler a, b;
    spy s;
    question q;
    bell timer;
    ASSERT(make_and_start(&a, 0));
    ASSERT(make(&b, NULL, 0));
    ASSERT_FALSE(loop_scheduler_is_current(&a));
    ASSERT_FALSE(loop_scheduler_is_current(&b));
    spies_init(&s, 1, &a, NULL);
    s.act = look_at_the_other;
    s.arg = &b;
    ASSERT_INT(0, loop_scheduler_post(&a, &s.task));
    ASSERT(EVENTUALLY(runs(&s) == 1));
    ASSERT(s.current);
    ASSERT_FALSE(s.result);
    question_init(&q, &a, 0);
    ASSERT_INT(0, loop_scheduler_call(&a, ask, &q, NULL));
    ASSERT(q.current);
    bells_init(&timer, 1, &b, NULL, NULL);
    ASSERT_INT(0, loop_scheduler_timer_start(&b, &timer.timer, 0, 0));
    ASSERT_INT(0, loop_scheduler_poll(&b));
    ASSERT(timer.current);
    ASSERT_FALSE(loop_scheduler_is_current(&b)); /* no longer */
    ASSERT_ENDS_WELL(&a);
    ASSERT_ENDS_WELL(&b);
    ASSERT_FALSE(loop_scheduler_is_current(&a));
    PASS();
}

static void end_own_thread(spy *s)
{
    csem_release(&s->entered);
    end_the_thread(NULL);
}

TEST a_loop_whose_thread_a_task_ends_is_one_that_nobody_runs(void)
{
    if (!THREAD_ENDS_ARE_NOTICED) {
        SKIP();
    }
    loop_scheduler l;
    spy s, after;
    bell b;
    ASSERT(make_and_start(&l, 0));
    spies_init(&s, 1, &l, NULL);
    spies_init(&after, 1, &l, NULL);
    bells_init(&b, 1, &l, NULL, NULL);
    s.act = end_own_thread;
    ASSERT_INT(0, loop_scheduler_timer_start(&l, &b.timer, PLIM_S(3600), 0));
    ASSERT_INT(0, loop_scheduler_post(&l, &s.task));
    ASSERT_INT(0, loop_scheduler_post(&l, &after.task));
    ASSERT(has_entered(&s));
    ASSERT(EVENTUALLY(loop_scheduler_poll(&l) != EBUSY));
    run_dry(&l);
    ASSERT_INT(1, runs(&after));
    ASSERT(after.thread == this_thread());
    ASSERT_INT(0, loop_scheduler_start(&l));
    ASSERT(serves(&l));
    ASSERT_INT(0, loop_scheduler_close(&l, LOOP_SCHEDULER_DRAIN, PLIM_S(PATIENCE_S)));
    ASSERT_INT(1, atomic_load(&b.cancels));
    ASSERT_INT(0, loop_scheduler_destroy(&l));
    PASS();
}

/* Threads that all want to run the loop, and to stop it. */
enum { RIVALS = 4 };

typedef struct scramble {
    loop_scheduler l;
    int inside, overlaps; /* on the loop */
    atomic_int accepted, ran, odd;
} scramble;

static void be_alone(loop_scheduler_task *task, int status)
{
    scramble *s = task->arg;
    s->overlaps += s->inside++ != 0 || status != 0;
    plim_pause_();
    s->inside--;
    atomic_fetch_add(&s->ran, 1);
}

static plim_thread_result run_and_stop(void *arg)
{
    member *m = arg;
    scramble *s = m->crowd->arg;
    uint64_t random = (uint64_t)m->number + 41;
    loop_scheduler_task tasks[4];
    memset((void *)tasks, 0, sizeof tasks);
    for (int i = 0; i < 4; i++) {
        tasks[i].run = be_alone;
        tasks[i].arg = s;
    }
    wait_for_go(m->crowd);
    for (int i = 0; i < m->crowd->rounds; i++) {
        int error = loop_scheduler_post(&s->l, &tasks[i % 4]);
        atomic_fetch_add(error == 0 ? &s->accepted : &s->odd, error == 0 || error != EALREADY);
        switch (next_random(&random) % 8) {
        case 0:
            error = loop_scheduler_run_once(&s->l, PLIM_US(50));
            break;
        case 1:
            error = loop_scheduler_run_until(&s->l, never, NULL, PLIM_US(100));
            break;
        case 2:
            error = loop_scheduler_start(&s->l);
            break;
        case 3:
        case 4:
            loop_scheduler_stop(&s->l);
            error = 0;
            break;
        default:
            error = loop_scheduler_poll(&s->l);
        }
        atomic_fetch_add(&s->odd, error != 0 && error != EBUSY && error != EAGAIN &&
                                      error != ETIMEDOUT && error != ECANCELED);
        dawdle(next_random(&random));
    }
    atomic_fetch_add(&m->crowd->ready, 1);   /* once more: done */
    while (!atomic_load(&m->crowd->leave)) { /* the tasks are on this stack */
        rest(PLIM_US(100));
    }
    return 0;
}

TEST however_many_want_to_run_it_one_does_at_a_time(void)
{
    static scramble s;
    member m[RIVALS];
    int64_t end = plim_now_() + PLIM_S(LONG_S);
    for (int round = scaled(40); round > 0 && plim_now_() < end; round--) {
        memset((void *)&s, 0, sizeof s);
        ASSERT(make(&s.l, NULL, 0));
        crowd c = {.arg = &s, .rounds = 100};
        start_crowd(&c, m, RIVALS, run_and_stop);
        bool over = EVENTUALLY(atomic_load(&c.ready) == 2 * RIVALS);
        int error = loop_scheduler_close(&s.l, LOOP_SCHEDULER_DRAIN, PLIM_S(PATIENCE_S));
        loop_scheduler_stats f = loop_scheduler_snapshot(&s.l);
        atomic_store(&c.leave, true);
        join_crowd(m, RIVALS);
        ASSERT(over);
        ASSERT_INT(0, error);
        ASSERT_INT(0, atomic_load(&s.odd));
        ASSERT_INT(0, s.overlaps);
        ASSERT_INT(atomic_load(&s.accepted), atomic_load(&s.ran));
        ASSERT_U64(atomic_load(&s.accepted), f.ran);
        ASSERT_INT(0, loop_scheduler_destroy(&s.l));
    }
    PASS();
}

/* ---- the end ---- */

enum { NOBODY, OWN_THREAD, ANOTHER_THREAD }; /* runs the loop */

typedef struct runner {
    int kind;
    caller c;
} runner;

static bool set_running(loop_scheduler *l, runner *r, int kind)
{
    r->kind = kind;
    r->c = (caller){.l = l, .call = RUN};
    if (kind == ANOTHER_THREAD) {
        start_call(&r->c);
    }
    return (kind != OWN_THREAD || loop_scheduler_start(l) == 0) && (kind == NOBODY || serves(l));
}

static bool has_run(runner *r)
{
    return r->kind != ANOTHER_THREAD || (finished(&r->c) && r->c.error == 0);
}

TEST a_drain_runs_what_is_queued_and_what_that_posts(int kind)
{
    loop_scheduler l;
    spy s[6];
    bell b;
    diary d = {.count = 0};
    runner r;
    ASSERT(make(&l, NULL, 3));
    ASSERT(set_running(&l, &r, kind));
    spy gate;
    if (kind != NOBODY) {
        ASSERT(occupy(&l, &gate));
    }
    spies_init(s, 6, &l, &d);
    bells_init(&b, 1, &l, NULL, NULL);
    s[0].act = post_a_list; /* the third and the fourth */
    s[0].arg = s;
    s[3].act = post_another;
    s[3].arg = &s[4];
    ASSERT_INT(0, loop_scheduler_post(&l, &s[0].task));
    ASSERT_INT(0, loop_scheduler_post(&l, &s[1].task));
    ASSERT_INT(0, loop_scheduler_timer_start(&l, &b.timer, PLIM_S(3600), PLIM_S(1)));
    caller c = {
        .l = &l, .call = CLOSE, .how = LOOP_SCHEDULER_DRAIN, .timeout_ns = PLIM_S(PATIENCE_S)};
    start_call(&c);
    if (kind != NOBODY) {
        bell probe;
        bells_init(&probe, 1, &l, NULL, NULL);
        ASSERT(EVENTUALLY(is_closed(&l, &probe)));
        ASSERT(stays_false(&c.done));
        ASSERT_INT(ESHUTDOWN, loop_scheduler_post(&l, &s[5].task)); /* not ours, while it drains */
        let_go(&gate);
        ASSERT(finished(&c));
    } else {
        ASSERT(finished(&c));
        ASSERT(s[0].thread == c.self); /* whoever closes runs it */
        ASSERT(s[4].thread == c.self);
    }
    ASSERT_INT(0, c.error);
    ASSERT_STR_EQ("1 2 3 4 5", story(&d));
    ASSERT(s[0].current);
    ASSERT_INT(0, s[0].error);
    ASSERT_INT(0, s[3].error);
    ASSERT_INT(1, atomic_load(&b.cancels)); /* timers do not hold it up */
    ASSERT_INT(0, rings(&b));
    ASSERT_INT(ESHUTDOWN, loop_scheduler_post(&l, &s[5].task));
    ASSERT(has_run(&r));
    ASSERT_ENDS_WELL(&l);
    ASSERT_INT(5, atomic_load(&d.count));
    PASS();
}

static void post_again_when_told(loop_scheduler_task *task, int status)
{
    spy *s = task->arg;
    s->error = loop_scheduler_post(s->l, &((spy *)s->arg)->task);
    run_spy(task, status);
}

TEST close_now_tells_what_is_queued_in_order(int kind)
{
    loop_scheduler l;
    spy s[5], gate;
    diary d = {.count = 0};
    runner r;
    bell b;
    ASSERT(make(&l, NULL, 0));
    ASSERT(set_running(&l, &r, kind));
    if (kind != NOBODY) {
        ASSERT(occupy(&l, &gate));
    }
    spies_init(s, 5, &l, &d);
    bells_init(&b, 1, &l, NULL, NULL);
    s[2].task.run = post_again_when_told;
    s[2].arg = &s[4];
    for (int i = 0; i < 4; i++) {
        ASSERT_INT(0, loop_scheduler_post(&l, &s[i].task));
    }
    ASSERT_INT(0, loop_scheduler_cancel(&l, &s[1].task)); /* told once all the same */
    ASSERT_INT(0, loop_scheduler_timer_start(&l, &b.timer, PLIM_S(3600), 0));
    caller c = {
        .l = &l, .call = CLOSE, .how = LOOP_SCHEDULER_NOW, .timeout_ns = PLIM_S(PATIENCE_S)};
    start_call(&c);
    if (kind != NOBODY) {
        bell probe;
        bells_init(&probe, 1, &l, NULL, NULL);
        ASSERT(EVENTUALLY(is_closed(&l, &probe)));
        ASSERT(stays_false(&c.done)); /* what runs is waited for */
        ASSERT_INT(0, atomic_load(&d.count));
        let_go(&gate);
        ASSERT(finished(&c));
        ASSERT_INT(1, runs(&gate));
        for (int i = 0; i < 4; i++) {
            ASSERT(s[i].thread == gate.thread); /* never elsewhere */
        }
    } else {
        ASSERT(finished(&c));
        ASSERT(s[0].thread == c.self);
    }
    ASSERT_INT(0, c.error);
    ASSERT_STR_EQ("x1 x2 x3 x4", story(&d));
    ASSERT(s[0].current);
    ASSERT_INT(ESHUTDOWN, s[2].error);
    ASSERT_INT(1, atomic_load(&b.cancels));
    ASSERT(has_run(&r));
    ASSERT_ENDS_WELL(&l);
    PASS();
}

static void start_a_timer(spy *s)
{
    bell *b = s->arg;
    s->error = loop_scheduler_timer_start(s->l, &b->timer, PLIM_S(3600), 0);
}

TEST timers_are_not_started_while_the_loop_drains(void)
{
    loop_scheduler l;
    spy s;
    bell b;
    ASSERT(make(&l, NULL, 0));
    spies_init(&s, 1, &l, NULL);
    bells_init(&b, 1, &l, NULL, NULL);
    s.act = start_a_timer;
    s.arg = &b;
    ASSERT_INT(0, loop_scheduler_post(&l, &s.task));
    ASSERT_INT(0, loop_scheduler_close(&l, LOOP_SCHEDULER_DRAIN, PLIM_S(PATIENCE_S)));
    ASSERT_INT(1, runs(&s));
    ASSERT_INT(ESHUTDOWN, s.error);
    ASSERT_INT(0, atomic_load(&b.cancels));
    ASSERT_ENDS_WELL(&l);
    PASS();
}

static void rest_a_while(spy *s)
{
    rest(PLIM_MS(20));
    s->result = 1;
}

TEST a_drain_waits_for_a_slow_task_and_those_behind_it(void)
{
    loop_scheduler l;
    spy s[2];
    ASSERT(make_and_start(&l, 0));
    spies_init(s, 2, &l, NULL);
    s[0].act = rest_a_while;
    ASSERT_INT(0, loop_scheduler_post(&l, &s[0].task));
    ASSERT_INT(0, loop_scheduler_post(&l, &s[1].task));
    ASSERT_INT(0, loop_scheduler_close(&l, LOOP_SCHEDULER_DRAIN, PLIM_FOREVER));
    ASSERT_INT(1, s[0].result);
    ASSERT_INT(1, runs(&s[1]));
    ASSERT_INT(0, loop_scheduler_destroy(&l));
    PASS();
}

TEST a_drain_that_would_never_end_becomes_now_when_its_time_is_over(int kind)
{
    loop_scheduler l;
    spy s[2];
    runner r;
    ASSERT(make(&l, NULL, 0));
    ASSERT(set_running(&l, &r, kind));
    spies_init(s, 2, &l, NULL);
    for (int i = 0; i < 2; i++) {
        s[i].act = post_again_for_ever;
        ASSERT_INT(0, loop_scheduler_post(&l, &s[i].task));
    }
    if (kind != NOBODY) {
        ASSERT(EVENTUALLY(runs(&s[0]) > 0 && runs(&s[1]) > 0));
    }
    int64_t from = plim_now_();
    ASSERT_INT(ETIMEDOUT, loop_scheduler_close(&l, LOOP_SCHEDULER_DRAIN, PLIM_MS(20)));
    ASSERT(plim_now_() - from >= PLIM_MS(20));
    ASSERT_INT(0, loop_scheduler_close(&l, LOOP_SCHEDULER_DRAIN, PLIM_S(PATIENCE_S)));
    for (int i = 0; i < 2; i++) {
        ASSERT(cancels(&s[i]) == 1 || s[i].error == ESHUTDOWN); /* posted, or refused at last */
        ASSERT(cancels(&s[i]) <= 1);
    }
    ASSERT(has_run(&r));
    ASSERT_ENDS_WELL(&l);
    PASS();
}

TEST a_task_that_does_not_return_can_be_waited_for_again(int how)
{
    loop_scheduler l;
    spy gate, s[2];
    ASSERT(make_and_start(&l, 0));
    ASSERT(occupy(&l, &gate));
    spies_init(s, 2, &l, NULL);
    ASSERT_INT(0, loop_scheduler_post(&l, &s[0].task));
    ASSERT_INT(0, loop_scheduler_post(&l, &s[1].task));
    int64_t from = plim_now_();
    ASSERT_INT(ETIMEDOUT, loop_scheduler_close(&l, how, PLIM_MS(20)));
    ASSERT(plim_now_() - from >= PLIM_MS(20));
    ASSERT(plim_now_() - from < PLIM_S(PATIENCE_S));
    ASSERT_INT(EBUSY, loop_scheduler_destroy(&l));
    let_go(&gate);
    ASSERT_INT(0, loop_scheduler_close(&l, how, PLIM_S(PATIENCE_S)));
    ASSERT_INT(1, runs(&gate));
    for (int i = 0; i < 2; i++) {
        ASSERT_INT(0, runs(&s[i])); /* it had become NOW */
        ASSERT_INT(1, cancels(&s[i]));
    }
    ASSERT_ENDS_WELL(&l);
    PASS();
}

TEST without_time_a_drain_is_now(void)
{
    loop_scheduler l;
    spy s[3];
    ASSERT(make(&l, NULL, 0));
    spies_init(s, 3, &l, NULL);
    for (int i = 0; i < 3; i++) {
        ASSERT_INT(0, loop_scheduler_post(&l, &s[i].task));
    }
    ASSERT_INT(ETIMEDOUT, loop_scheduler_close(&l, LOOP_SCHEDULER_DRAIN, 0));
    ASSERT_INT(0, loop_scheduler_close(&l, LOOP_SCHEDULER_DRAIN, PLIM_S(PATIENCE_S)));
    for (int i = 0; i < 3; i++) {
        ASSERT_INT(0, runs(&s[i]));
        ASSERT_INT(1, cancels(&s[i]));
    }
    ASSERT_ENDS_WELL(&l);
    PASS();
}

TEST closing_an_idle_loop_is_immediate_and_may_be_repeated(int how)
{
    loop_scheduler l;
    ASSERT(make(&l, NULL, 0));
    ASSERT_INT(0, loop_scheduler_close(&l, how, 0));
    ASSERT_INT(0, loop_scheduler_close(&l, how, PLIM_FOREVER));
    ASSERT_INT(0, loop_scheduler_close(&l, LOOP_SCHEDULER_NOW, INT64_MIN));
    ASSERT_INT(0, loop_scheduler_destroy(&l));
    PASS();
}

TEST close_refuses_what_it_does_not_know(int how)
{
    loop_scheduler l;
    spy s;
    ASSERT(make(&l, NULL, 0));
    spies_init(&s, 1, &l, NULL);
    ASSERT_INT(EINVAL, loop_scheduler_close(&l, how, PLIM_FOREVER));
    ASSERT_INT(0, loop_scheduler_post(&l, &s.task));
    ASSERT_INT(1, run_dry(&l));
    ASSERT_ENDS_WELL(&l);
    PASS();
}

TEST several_may_close_and_all_see_the_same_end(int kind, bool mixed_ways)
{
    enum { N = 4 };
    loop_scheduler l;
    spy gate, s;
    runner r;
    caller c[N];
    ASSERT(make(&l, NULL, 0));
    ASSERT(set_running(&l, &r, kind));
    spies_init(&gate, 1, &l, NULL);
    gate.act = hold;
    spies_init(&s, 1, &l, NULL);
    ASSERT_INT(0, loop_scheduler_post(&l, &gate.task));
    ASSERT_INT(0, loop_scheduler_post(&l, &s.task));
    for (int i = 0; i < N; i++) {
        c[i] = (caller){.l = &l,
                        .call = CLOSE,
                        .how = mixed_ways && i == 1 ? LOOP_SCHEDULER_NOW : LOOP_SCHEDULER_DRAIN,
                        .timeout_ns = PLIM_S(PATIENCE_S)};
        start_call(&c[i]);
        if (i == 0) {
            ASSERT(has_entered(&gate)); /* runs now, at the latest by the first who closes */
        }
    }
    for (int i = 0; i < N; i++) {
        ASSERT(stays_false(&c[i].done));
    }
    let_go(&gate);
    for (int i = 0; i < N; i++) {
        ASSERT(finished(&c[i]));
        ASSERT_INT(0, c[i].error);
    }
    ASSERT_INT(1, runs(&s) + cancels(&s));
    ASSERT(mixed_ways || runs(&s) == 1);
    ASSERT(has_run(&r));
    ASSERT_ENDS_WELL(&l);
    PASS();
}

TEST a_loop_that_drains_is_not_stopped(int kind)
{
    loop_scheduler l;
    spy gate, s[3];
    runner r;
    ASSERT(make(&l, NULL, 0));
    ASSERT(set_running(&l, &r, kind));
    spies_init(&gate, 1, &l, NULL);
    gate.act = hold;
    ASSERT_INT(0, loop_scheduler_post(&l, &gate.task));
    spies_init(s, 3, &l, NULL);
    s[0].act = stop_own_loop;
    for (int i = 0; i < 3; i++) {
        ASSERT_INT(0, loop_scheduler_post(&l, &s[i].task));
    }
    caller c = {
        .l = &l, .call = CLOSE, .how = LOOP_SCHEDULER_DRAIN, .timeout_ns = PLIM_S(PATIENCE_S)};
    start_call(&c);
    ASSERT(has_entered(&gate));
    bell probe;
    bells_init(&probe, 1, &l, NULL, NULL);
    ASSERT(EVENTUALLY(is_closed(&l, &probe)));
    loop_scheduler_stop(&l);
    let_go(&gate);
    ASSERT(finished(&c));
    ASSERT_INT(0, c.error);
    ASSERT_INT(1, runs(&s[2]));
    ASSERT(has_run(&r));
    ASSERT_ENDS_WELL(&l);
    PASS();
}

TEST close_takes_over_from_a_loop_that_was_stopped(bool before)
{
    loop_scheduler l;
    spy s;
    ASSERT(make_and_start(&l, 0));
    ASSERT(serves(&l));
    spies_init(&s, 1, &l, NULL);
    if (before) {
        loop_scheduler_stop(&l);
        ASSERT_INT(0, loop_scheduler_post(&l, &s.task));
    } else {
        ASSERT_INT(0, loop_scheduler_post(&l, &s.task));
        loop_scheduler_stop(&l);
    }
    ASSERT_INT(0, loop_scheduler_close(&l, LOOP_SCHEDULER_DRAIN, PLIM_S(PATIENCE_S)));
    ASSERT_INT(1, runs(&s));
    ASSERT_ENDS_WELL(&l);
    PASS();
}

/* Everything that can be given to a loop, by threads that go on until it is closed. */
enum { CLOSERS = 4, OWN_TASKS = 16 };

typedef struct storm {
    loop_scheduler l;
    atomic_int accepted, outcomes, cancelled, odd, refused;
    plim_executor here;
} storm;

typedef struct drop {
    loop_scheduler_task task;
    storm *storm;
} drop;

static void splash(loop_scheduler_task *task, int status)
{
    storm *st = ((drop *)task->arg)->storm;
    atomic_fetch_add(&st->cancelled, status == ECANCELED);
    atomic_fetch_add(&st->odd, status != 0 && status != ECANCELED);
    atomic_fetch_add(&st->outcomes, 1);
}

static void splash_then(loop_scheduler_work *work, int status)
{
    storm *st = work->arg;
    atomic_fetch_add(&st->odd, status != 0 && status != ECANCELED);
    atomic_fetch_add(&st->outcomes, 1);
}

static int no_work(void *arg)
{
    (void)arg;
    return 0;
}

static int splash_call(void *arg)
{
    storm *st = arg;
    atomic_fetch_add(&st->outcomes, 1);
    return 0;
}

static void splash_end(loop_scheduler_coroutine *co)
{
    storm *st = co->arg;
    atomic_fetch_add(&st->outcomes, 1);
}

static void splash_twice(loop_scheduler_coroutine *co)
{
    LOOP_BEGIN(co);
    LOOP_YIELD(co);
    LOOP_END(co);
}

/* Gives one thing to the loop; false if that is closed. */
static bool rain(storm *st, drop *d, loop_scheduler_work *works, loop_scheduler_coroutine *cos,
                 uint64_t random)
{
    int which = (int)((random >> 32) % OWN_TASKS), accepted = 1, error;
    loop_scheduler_task *pair[] = {&d[which].task, &d[(which + 1) % OWN_TASKS].task};
    switch (random % 8) {
    case 0:
        accepted = 2;
        error = loop_scheduler_post_list(&st->l, pair, 2);
        break;
    case 1:
        error = loop_scheduler_post_for(&st->l, pair[0], PLIM_S(PATIENCE_S));
        break;
    case 2:
        error = loop_scheduler_call_for(&st->l, splash_call, st, NULL, PLIM_S(PATIENCE_S));
        if (error == ECANCELED) {
            error = 0;
            splash_call(st);
        }
        break;
    case 3:
        error = loop_scheduler_spawn(&st->l, &cos[which]);
        break;
    case 4:
        error = loop_scheduler_offload(&st->l, &st->here, &works[which]);
        break;
    default:
        error = loop_scheduler_post(&st->l, pair[0]);
    }
    if (error == 0) {
        atomic_fetch_add(&st->accepted, accepted);
    } else if (error == ESHUTDOWN) {
        atomic_fetch_add(&st->refused, 1);
    } else if (error != EALREADY && error != EAGAIN) {
        atomic_fetch_add(&st->odd, 1);
    }
    return error != ESHUTDOWN;
}

static plim_thread_result rain_until_closed(void *arg)
{
    member *m = arg;
    storm *st = m->crowd->arg;
    uint64_t random = (uint64_t)m->number * 7 + 3;
    drop d[OWN_TASKS];
    loop_scheduler_work works[OWN_TASKS];
    loop_scheduler_coroutine cos[OWN_TASKS];
    memset((void *)works, 0, sizeof works);
    memset((void *)cos, 0, sizeof cos);
    memset((void *)d, 0, sizeof d);
    for (int i = 0; i < OWN_TASKS; i++) {
        d[i] = (drop){.task = {.run = splash, .arg = &d[i]}, .storm = st};
        works[i].work = no_work;
        works[i].then = splash_then;
        works[i].arg = st;
        cos[i].run = splash_twice;
        cos[i].done = splash_end;
        cos[i].arg = st;
    }
    wait_for_go(m->crowd);
    while (rain(st, d, works, cos, next_random(&random))) {
        dawdle(next_random(&random));
    }
    /* What was accepted is on this stack. */
    while (!atomic_load(&m->crowd->leave)) {
        rest(PLIM_US(100));
    }
    return 0;
}

TEST close_races_with_all_that_others_do_and_each_has_one_outcome(int how, int kind, uint32_t limit)
{
    static storm st;
    member m[CLOSERS];
    uint64_t random = 5;
    int64_t end = plim_now_() + PLIM_S(LONG_S) / 2;
    for (int round = scaled(200); round > 0 && plim_now_() < end; round--) {
        runner r;
        memset((void *)&st, 0, sizeof st);
        st.here = (plim_executor){execute_here, NULL};
        ASSERT(make(&st.l, NULL, limit));
        ASSERT(set_running(&st.l, &r, kind));
        crowd c = {.l = &st.l, .arg = &st};
        start_crowd(&c, m, CLOSERS, rain_until_closed);
        rest((int64_t)(next_random(&random) % 300000));
        int error = loop_scheduler_close(&st.l, how, PLIM_S(PATIENCE_S));
        int outcomes = atomic_load(&st.outcomes);
        bool all_refused = EVENTUALLY(atomic_load(&st.refused) == CLOSERS);
        loop_scheduler_stats s = loop_scheduler_snapshot(&st.l);
        int destroyed = loop_scheduler_destroy(&st.l);
        atomic_store(&c.leave, true);
        join_crowd(m, CLOSERS);
        ASSERT_INT(0, error);
        ASSERT(all_refused);
        ASSERT_INT(0, destroyed);
        ASSERT_INT(0, atomic_load(&st.odd));
        ASSERT_INT(atomic_load(&st.accepted), atomic_load(&st.outcomes));
        /* Callers count themselves, when they have returned: up to one each after the end. */
        ASSERT_IN_RANGE(outcomes, atomic_load(&st.outcomes), CLOSERS);
        ASSERT_U64(s.posted, s.ran + s.cancelled);
        ASSERT_INT(0, s.queued + s.timers + s.offloaded + s.suspended);
        ASSERT(how == LOOP_SCHEDULER_NOW || atomic_load(&st.cancelled) == 0);
        ASSERT(has_run(&r));
    }
    PASS();
}

typedef struct busy {
    spy s[8];
    atomic_int refused;
} busy;

static void go_on_posting(spy *s)
{
    busy *b = s->arg;
    s->error = loop_scheduler_post(s->l, &s->task);
    if (s->error != 0) {
        atomic_fetch_add(&b->refused, 1);
    }
}

TEST a_loop_whose_tasks_run_and_post_can_be_closed_at_any_time(void)
{
    loop_scheduler l;
    static busy b;
    uint64_t random = 9;
    for (int round = scaled(300); round > 0; round--) {
        memset((void *)&b, 0, sizeof b);
        ASSERT(make_and_start(&l, 0));
        spies_init(b.s, 8, &l, NULL);
        for (int i = 0; i < 8; i++) {
            b.s[i].act = go_on_posting;
            b.s[i].arg = &b;
            ASSERT_INT(0, loop_scheduler_post(&l, &b.s[i].task));
        }
        dawdle(next_random(&random));
        ASSERT_INT(0, loop_scheduler_close(&l, LOOP_SCHEDULER_NOW, PLIM_S(PATIENCE_S)));
        for (int i = 0; i < 8; i++) {
            ASSERT(cancels(&b.s[i]) == 1 || b.s[i].error == ESHUTDOWN);
        }
        ASSERT_ENDS_WELL(&l);
    }
    PASS();
}

/* ---- destroy ---- */

/* An executor that does nothing until it is told. */
enum { SHELF = 64 };
typedef struct shelf {
    void (*run[SHELF])(void *);
    void *arg[SHELF];
    int used, done;
} shelf;

static int shelve(void *ctx, void (*run)(void *), void *arg)
{
    shelf *s = ctx;
    if (s->used == SHELF) {
        return ENOSPC;
    }
    s->run[s->used] = run;
    s->arg[s->used++] = arg;
    return 0;
}

static bool take_down(shelf *s)
{
    if (s->done == s->used) {
        return false;
    }
    s->run[s->done](s->arg[s->done]);
    s->done++;
    return true;
}

static void await_event(loop_scheduler_coroutine *co)
{
    LOOP_BEGIN(co);
    LOOP_AWAIT(co, (loop_scheduler_event *)co->arg);
    LOOP_END(co);
}

TEST destroy_is_refused_while_anything_is_left(void)
{
    loop_scheduler l;
    world w;
    spy s;
    bell b;
    shelf sh = {.used = 0};
    plim_executor later = {shelve, &sh};
    loop_scheduler_work work = {.work = no_work};
    loop_scheduler_event event;
    memset((void *)&event, 0, sizeof event);
    loop_scheduler_coroutine co = {.run = await_event, .arg = &event};
    ASSERT(make(&l, &w, 0));
    spies_init(&s, 1, &l, NULL);
    bells_init(&b, 1, &l, &w, NULL);

    ASSERT_INT(0, loop_scheduler_post(&l, &s.task)); /* a task is queued */
    ASSERT_INT(EBUSY, loop_scheduler_destroy(&l));
    ASSERT_INT(1, run_dry(&l));
    ASSERT_INT(1, runs(&s));

    ASSERT_INT(0, loop_scheduler_timer_start(&l, &b.timer, 100, 0)); /* a timer is armed */
    ASSERT_INT(EBUSY, loop_scheduler_destroy(&l));
    run_dry(&l);
    ASSERT_INT(EBUSY, loop_scheduler_destroy(&l));
    ASSERT_INT(0, loop_scheduler_timer_cancel(&l, &b.timer)); /* to be told of its end */
    ASSERT_INT(EBUSY, loop_scheduler_destroy(&l));
    ASSERT_INT(1, run_dry(&l));
    ASSERT_INT(1, atomic_load(&b.cancels));

    ASSERT_INT(0, loop_scheduler_offload(&l, &later, &work)); /* a work is not back */
    ASSERT_INT(EBUSY, loop_scheduler_destroy(&l));
    ASSERT(take_down(&sh));
    run_dry(&l);

    ASSERT_INT(0, loop_scheduler_spawn(&l, &co)); /* a coroutine is to begin */
    ASSERT_INT(EBUSY, loop_scheduler_destroy(&l));
    run_dry(&l); /* and is suspended */
    ASSERT_INT(EBUSY, loop_scheduler_destroy(&l));
    loop_scheduler_event_set(&event);
    ASSERT_INT(EBUSY, loop_scheduler_destroy(&l)); /* and is to go on */
    run_dry(&l);

    ASSERT_INT(0, loop_scheduler_destroy(&l));
    ASSERT_INT(blocks_before, atomic_load(&blocks));
    PASS();
}

/* A closing loop does not stop: its thread stays for works, and these may wait for that very call. */
TEST who_waits_for_a_thread_to_stop_is_told_of_a_close(int what)
{
    loop_scheduler l;
    spy gate, s;
    shelf sh = {.used = 0};
    plim_executor later = {shelve, &sh};
    loop_scheduler_work work = {.work = no_work};
    ASSERT(make_and_start(&l, 0));
    spies_init(&s, 1, &l, NULL);
    ASSERT_INT(0, loop_scheduler_offload(&l, &later, &work));
    ASSERT(occupy(&l, &gate));
    loop_scheduler_stop(&l);
    caller waits = {.l = &l, .call = what};
    start_call(&waits);
    ASSERT(stays_false(&waits.done));
    caller closes = {
        .l = &l, .call = CLOSE, .how = LOOP_SCHEDULER_DRAIN, .timeout_ns = PLIM_FOREVER};
    start_call(&closes);
    ASSERT(finished(&waits));
    ASSERT_INT(what == START ? ESHUTDOWN : EBUSY, waits.error);
    ASSERT_INT(ESHUTDOWN, loop_scheduler_post(&l, &s.task));
    let_go(&gate);
    ASSERT(take_down(&sh));
    ASSERT(finished(&closes));
    ASSERT_INT(0, closes.error);
    ASSERT_INT(0, loop_scheduler_destroy(&l));
    PASS();
}

TEST memory_may_go_as_soon_as_destroy_has_returned(int how)
{
    for (int round = scaled(300); round > 0; round--) {
        loop_scheduler *l = malloc(sizeof *l);
        spy *s = malloc(sizeof *s);
        ASSERT(l != NULL && s != NULL);
        ASSERT(make_and_start(l, round % 2 == 0 ? 0 : 4));
        spies_init(s, 1, l, NULL);
        ASSERT_INT(0, loop_scheduler_post(l, &s->task));
        if (round % 3 == 0) {
            loop_scheduler_stop(l);
        }
        ASSERT_INT(0, loop_scheduler_close(l, how, PLIM_S(PATIENCE_S)));
        ASSERT_INT(1, runs(s) + cancels(s));
        ASSERT_INT(0, loop_scheduler_destroy(l));
        memset((void *)l, 0xa5, sizeof *l);
        free(l);
        free(s);
    }
    PASS();
}

/* ---- work elsewhere ---- */

/* An executor with a thread for each. */
typedef struct handoff {
    void (*run)(void *);
    void *arg;
    plim_thread thread;
} handoff;

typedef struct crew {
    handoff h[SHELF];
    atomic_int used;
} crew;

static plim_thread_result run_handoff(void *arg)
{
    handoff *h = arg;
    h->run(h->arg);
    return 0;
}

static int execute_on_a_thread(void *ctx, void (*run)(void *), void *arg)
{
    crew *c = ctx;
    int i = atomic_fetch_add(&c->used, 1);
    if (i >= SHELF) {
        return EAGAIN;
    }
    c->h[i].run = run;
    c->h[i].arg = arg;
    start(&c->h[i].thread, run_handoff, &c->h[i]);
    return 0;
}

static void join_crew(crew *c)
{
    for (int i = 0; i < atomic_load(&c->used) && i < SHELF; i++) {
        join(c->h[i].thread);
    }
}

static int refuse(void *ctx, void (*run)(void *), void *arg)
{
    (void)run;
    (void)arg;
    return *(int *)ctx;
}

typedef struct chore chore;
struct chore {
    loop_scheduler_work work;
    loop_scheduler *l;
    diary *d;
    int number;
    void (*act)(chore *c); /* in then */
    plim_executor *executor;
    int error;
    bool held;
    csem entered, exit;
    int made, found; /* by work, and of it by then */
    int result;
    const void *worker, *home;
    bool current;
    atomic_int works, thens, cancels;
};

static int do_chore(void *arg)
{
    chore *c = arg;
    c->worker = this_thread();
    c->made = 1000 + c->number;
    atomic_fetch_add(&c->works, 1);
    if (c->held) {
        csem_release(&c->entered);
        csem_acquire_for(&c->exit, PLIM_S(PATIENCE_S));
    }
    return c->number;
}

static void chore_done(loop_scheduler_work *work, int status)
{
    chore *c = work->arg;
    c->home = this_thread();
    c->found = c->made;
    c->result = work->result;
    c->current = loop_scheduler_is_current(c->l);
    if (c->d != NULL) {
        enter(c->d, c->number, status);
    }
    if (c->act != NULL) {
        c->act(c);
    }
    atomic_fetch_add(status == 0 ? &c->thens : &c->cancels, 1);
}

static void chores_init(chore *c, int n, loop_scheduler *l, diary *d)
{
    for (int i = 0; i < n; i++) {
        memset((void *)&c[i], 0, sizeof c[i]);
        c[i].work.work = do_chore;
        c[i].work.then = chore_done;
        c[i].work.arg = &c[i];
        c[i].l = l;
        c[i].d = d;
        c[i].number = i + 1;
        csem_init(&c[i].entered, 0);
        csem_init(&c[i].exit, 0);
    }
}

TEST work_runs_elsewhere_and_comes_back_to_the_loop(void)
{
    enum { N = 20 };
    loop_scheduler l;
    chore c[N];
    static crew threads;
    memset((void *)&threads, 0, sizeof threads);
    ASSERT(make_and_start(&l, 1));
    chores_init(c, N, &l, NULL);
    for (int i = 0; i < N; i++) {
        plim_executor executor = {execute_on_a_thread, &threads};
        ASSERT_INT(0, loop_scheduler_offload(&l, &executor, &c[i].work));
        memset((void *)&executor, 0xa5, sizeof executor); /* it is needed no longer */
    }
    for (int i = 0; i < N; i++) {
        ASSERT(EVENTUALLY(atomic_load(&c[i].thens) == 1));
        ASSERT_INT(1, atomic_load(&c[i].works));
        ASSERT_INT(i + 1, c[i].result);
        ASSERT_INT(1001 + i, c[i].found);
        ASSERT(c[i].current);
        ASSERT(c[i].worker != c[i].home);
        ASSERT(c[i].worker != this_thread());
    }
    ASSERT_INT(0, loop_scheduler_snapshot(&l).offloaded);
    ASSERT_ENDS_WELL(&l);
    join_crew(&threads);
    PASS();
}

typedef struct offloader {
    spy s;
    chore c;
    plim_executor executor;
} offloader;

static void offload_from_a_task(spy *s)
{
    offloader *o = s->arg;
    s->error = loop_scheduler_offload(s->l, &o->executor, &o->c.work);
    s->result = atomic_load(&o->c.works) * 10 + atomic_load(&o->c.thens);
}

TEST then_is_always_a_task_of_its_own(void)
{
    loop_scheduler l;
    offloader o;
    spy other;
    diary d = {.count = 0};
    ASSERT(make(&l, NULL, 0));
    spies_init(&o.s, 1, &l, &d);
    spies_init(&other, 1, &l, &d);
    other.number = 2;
    chores_init(&o.c, 1, &l, &d);
    o.c.number = 3;
    o.executor = (plim_executor){execute_here, NULL};
    o.s.act = offload_from_a_task;
    o.s.arg = &o;
    ASSERT_INT(0, loop_scheduler_post(&l, &o.s.task));
    ASSERT_INT(0, loop_scheduler_post(&l, &other.task));
    ASSERT_INT(0, loop_scheduler_poll(&l));
    ASSERT_INT(0, o.s.error);
    ASSERT_INT(10, o.s.result); /* worked on the spot, but `then` was not called there */
    ASSERT_STR_EQ("1 2", story(&d));
    ASSERT_INT(0, loop_scheduler_poll(&l));
    ASSERT_STR_EQ("1 2 3", story(&d));
    ASSERT_INT(3, o.c.result);
    ASSERT_ENDS_WELL(&l);
    PASS();
}

TEST what_the_executor_refuses_is_told_and_never_comes_back(int error)
{
    loop_scheduler l;
    chore c;
    plim_executor nobody = {refuse, &error}, on_the_spot = {execute_here, NULL};
    ASSERT(make(&l, NULL, 0));
    chores_init(&c, 1, &l, NULL);
    ASSERT_INT(error, loop_scheduler_offload(&l, &nobody, &c.work));
    ASSERT_INT(0, run_dry(&l));
    ASSERT_INT(0, atomic_load(&c.works) + atomic_load(&c.thens) + atomic_load(&c.cancels));
    ASSERT_INT(0, loop_scheduler_snapshot(&l).offloaded);
    ASSERT_INT(ENOENT, loop_scheduler_work_cancel(&l, &c.work));
    ASSERT_INT(0, loop_scheduler_offload(&l, &on_the_spot, &c.work));
    ASSERT_INT(1, run_dry(&l));
    ASSERT_INT(1, atomic_load(&c.thens));
    ASSERT_ENDS_WELL(&l);
    PASS();
}

static void offload_again(chore *c)
{
    c->act = NULL;
    c->error = loop_scheduler_offload(c->l, c->executor, &c->work);
}

TEST work_that_is_not_back_is_not_taken_again(void)
{
    loop_scheduler l;
    chore c;
    shelf sh = {.used = 0};
    plim_executor later = {shelve, &sh};
    loop_scheduler_work nothing = {.work = NULL};
    ASSERT(make(&l, NULL, 0));
    chores_init(&c, 1, &l, NULL);
    ASSERT_INT(EINVAL, loop_scheduler_offload(&l, &later, &nothing));
    ASSERT_INT(0, sh.used);
    c.act = offload_again;
    c.executor = &later;
    ASSERT_INT(0, loop_scheduler_offload(&l, &later, &c.work));
    ASSERT_INT(1, loop_scheduler_snapshot(&l).offloaded);
    ASSERT_INT(EALREADY, loop_scheduler_offload(&l, &later, &c.work));
    ASSERT(take_down(&sh));
    ASSERT_INT(EALREADY, loop_scheduler_offload(&l, &later, &c.work)); /* done, but not back */
    ASSERT_INT(1, run_dry(&l));
    ASSERT_INT(1, atomic_load(&c.thens));
    ASSERT_INT(0, c.error); /* in `then` it is */
    ASSERT_INT(1, loop_scheduler_snapshot(&l).offloaded);
    ASSERT(take_down(&sh));
    ASSERT_INT(1, run_dry(&l));
    ASSERT_INT(2, atomic_load(&c.thens));
    ASSERT_INT(0, loop_scheduler_close(&l, LOOP_SCHEDULER_NOW, PLIM_FOREVER));
    ASSERT_INT(ESHUTDOWN, loop_scheduler_offload(&l, &later, &c.work));
    ASSERT_INT(2, sh.used);
    ASSERT_ENDS_WELL(&l);
    PASS();
}

TEST nothing_need_be_called_when_work_is_done(void)
{
    loop_scheduler l;
    chore c;
    plim_executor on_the_spot = {execute_here, NULL};
    ASSERT(make(&l, NULL, 0));
    chores_init(&c, 1, &l, NULL);
    c.work.then = NULL;
    ASSERT_INT(0, loop_scheduler_offload(&l, &on_the_spot, &c.work));
    run_dry(&l);
    ASSERT_INT(1, atomic_load(&c.works));
    ASSERT_INT(1, c.work.result);
    ASSERT_INT(0, loop_scheduler_snapshot(&l).offloaded);
    ASSERT_ENDS_WELL(&l);
    PASS();
}

TEST work_that_has_not_begun_can_be_cancelled(void)
{
    loop_scheduler l;
    chore c;
    shelf sh = {.used = 0};
    plim_executor later = {shelve, &sh};
    ASSERT(make(&l, NULL, 0));
    chores_init(&c, 1, &l, NULL);
    ASSERT_INT(ENOENT, loop_scheduler_work_cancel(&l, &c.work));
    ASSERT_INT(0, loop_scheduler_offload(&l, &later, &c.work));
    ASSERT_INT(0, loop_scheduler_work_cancel(&l, &c.work));
    ASSERT_INT(EALREADY, loop_scheduler_work_cancel(&l, &c.work));
    ASSERT_INT(0, run_dry(&l));
    ASSERT_INT(0, atomic_load(&c.cancels)); /* told when the executor would have run it */
    ASSERT_INT(1, loop_scheduler_snapshot(&l).offloaded);
    ASSERT(take_down(&sh));
    ASSERT_INT(0, atomic_load(&c.cancels)); /* on the loop */
    ASSERT_INT(1, run_dry(&l));
    ASSERT_INT(1, atomic_load(&c.cancels));
    ASSERT_INT(0, atomic_load(&c.works));
    ASSERT_INT(0, atomic_load(&c.thens));
    ASSERT_INT(EALREADY, loop_scheduler_work_cancel(&l, &c.work));
    ASSERT_INT(0, loop_scheduler_offload(&l, &later, &c.work)); /* again */
    ASSERT(take_down(&sh));
    ASSERT_INT(1, run_dry(&l));
    ASSERT_INT(1, atomic_load(&c.thens));
    ASSERT_ENDS_WELL(&l);
    PASS();
}

TEST work_that_runs_or_has_run_cannot_be_cancelled(void)
{
    loop_scheduler l;
    chore c;
    static crew threads;
    plim_executor executor = {execute_on_a_thread, &threads};
    memset((void *)&threads, 0, sizeof threads);
    ASSERT(make(&l, NULL, 0));
    chores_init(&c, 1, &l, NULL);
    c.held = true;
    ASSERT_INT(0, loop_scheduler_offload(&l, &executor, &c.work));
    ASSERT_INT(0, csem_acquire_for(&c.entered, PLIM_S(PATIENCE_S)));
    ASSERT_INT(EALREADY, loop_scheduler_work_cancel(&l, &c.work));
    csem_release(&c.exit);
    join_crew(&threads);
    ASSERT_INT(EALREADY, loop_scheduler_work_cancel(&l, &c.work));
    ASSERT_INT(1, run_dry(&l));
    ASSERT_INT(1, atomic_load(&c.thens));
    ASSERT_INT(0, atomic_load(&c.cancels));
    ASSERT_INT(EALREADY, loop_scheduler_work_cancel(&l, &c.work));
    ASSERT_ENDS_WELL(&l);
    PASS();
}

/* An executor with one thread that looks for work all the time. */
typedef struct hasty {
    _Atomic(void *) arg;
    void (*run)(void *);
    atomic_bool quit;
} hasty;

static int execute_hastily(void *ctx, void (*run)(void *), void *arg)
{
    hasty *h = ctx;
    h->run = run;
    atomic_store(&h->arg, arg);
    return 0;
}

static plim_thread_result be_hasty(void *arg)
{
    hasty *h = arg;
    while (!atomic_load(&h->quit)) {
        void *work = atomic_exchange(&h->arg, NULL);
        if (work != NULL) {
            h->run(work);
        } else {
            plim_thread_yield_();
        }
    }
    return 0;
}

static void end_work_race(loop_scheduler_work *work, int status)
{
    race *r = work->arg;
    r->status = status;
    csem_release(&r->over);
}

static int work_in_a_race(void *arg)
{
    race *r = arg;
    r->status = 1;
    return 0;
}

TEST a_cancel_races_with_the_work_and_one_of_them_wins(void)
{
    loop_scheduler l;
    race r = {.status = -1};
    hasty h = {.run = NULL};
    plim_executor executor = {execute_hastily, &h};
    plim_thread thread;
    uint64_t random = 13;
    csem_init(&r.over, 0);
    ASSERT(make_and_start(&l, 0));
    start(&thread, be_hasty, &h);
    int wrong = 0;
    int64_t end = plim_now_() + PLIM_S(LONG_S);
    for (int round = scaled(20000); round > 0 && plim_now_() < end && wrong == 0; round--) {
        r.work = (loop_scheduler_work){
            .work = work_in_a_race, .then = end_work_race, .arg = &r, .result = -1};
        r.status = -1;
        wrong += loop_scheduler_offload(&l, &executor, &r.work) != 0;
        for (uint64_t i = next_random(&random) % 256; i > 0; i--) {
            plim_pause_();
        }
        int error = loop_scheduler_work_cancel(&l, &r.work);
        wrong += csem_acquire_for(&r.over, PLIM_S(PATIENCE_S)) != 0;
        wrong += r.status != (error == 0 ? ECANCELED : 0);
        wrong += r.work.result != (error == 0 ? -1 : 0); /* it worked, or it did not */
        wrong += error != 0 && error != EALREADY;
    }
    atomic_store(&h.quit, true);
    join(thread);
    ASSERT_INT(0, wrong);
    ASSERT_ENDS_WELL(&l);
    PASS();
}

TEST close_waits_for_work_and_tells_it(int how, bool running)
{
    loop_scheduler l;
    chore c[2];
    static crew threads;
    plim_executor executor = {execute_on_a_thread, &threads};
    memset((void *)&threads, 0, sizeof threads);
    ASSERT(make(&l, NULL, 0));
    if (running) {
        ASSERT_INT(0, loop_scheduler_start(&l));
    }
    chores_init(c, 2, &l, NULL);
    for (int i = 0; i < 2; i++) {
        c[i].held = true;
        ASSERT_INT(0, loop_scheduler_offload(&l, &executor, &c[i].work));
        ASSERT_INT(0, csem_acquire_for(&c[i].entered, PLIM_S(PATIENCE_S)));
    }
    int64_t from = plim_now_();
    ASSERT_INT(ETIMEDOUT, loop_scheduler_close(&l, how, PLIM_MS(20)));
    ASSERT(plim_now_() - from >= PLIM_MS(20));
    ASSERT_INT(EBUSY, loop_scheduler_destroy(&l));
    ASSERT_INT(2, loop_scheduler_snapshot(&l).offloaded);
    caller closer = {.l = &l, .call = CLOSE, .how = how, .timeout_ns = PLIM_S(PATIENCE_S)};
    start_call(&closer);
    csem_release(&c[0].exit);
    ASSERT(EVENTUALLY(loop_scheduler_snapshot(&l).offloaded == 1));
    ASSERT(stays_false(&closer.done));
    csem_release(&c[1].exit);
    ASSERT(finished(&closer));
    ASSERT_INT(0, closer.error);
    for (int i = 0; i < 2; i++) {
        ASSERT_INT(1, atomic_load(&c[i].works));
        ASSERT_INT(1, atomic_load(&c[i].thens) + atomic_load(&c[i].cancels));
        ASSERT_INT(1, atomic_load(&c[i].cancels)); /* its time was over: it had become NOW */
        ASSERT(c[i].current);
    }
    join_crew(&threads);
    ASSERT_ENDS_WELL(&l);
    PASS();
}

TEST a_drain_brings_back_what_its_tasks_offload(int kind)
{
    loop_scheduler l;
    offloader o;
    runner r;
    static crew threads;
    memset((void *)&threads, 0, sizeof threads);
    ASSERT(make(&l, NULL, 0));
    ASSERT(set_running(&l, &r, kind));
    spies_init(&o.s, 1, &l, NULL);
    chores_init(&o.c, 1, &l, NULL);
    o.executor = (plim_executor){execute_on_a_thread, &threads};
    o.s.act = offload_from_a_task;
    o.s.arg = &o;
    spy gate;
    spies_init(&gate, 1, &l, NULL);
    gate.act = hold;
    ASSERT_INT(0, loop_scheduler_post(&l, &gate.task));
    ASSERT_INT(0, loop_scheduler_post(&l, &o.s.task));
    caller c = {
        .l = &l, .call = CLOSE, .how = LOOP_SCHEDULER_DRAIN, .timeout_ns = PLIM_S(PATIENCE_S)};
    start_call(&c);
    ASSERT(has_entered(&gate));
    bell probe;
    bells_init(&probe, 1, &l, NULL, NULL);
    ASSERT(EVENTUALLY(is_closed(&l, &probe)));
    chore late;
    chores_init(&late, 1, &l, NULL);
    ASSERT_INT(ESHUTDOWN, loop_scheduler_offload(&l, &o.executor, &late.work));
    let_go(&gate);
    ASSERT(finished(&c));
    ASSERT_INT(0, c.error);
    ASSERT_INT(0, o.s.error);
    ASSERT_INT(1, atomic_load(&o.c.thens));
    ASSERT_INT(1, o.c.result);
    ASSERT_INT(0, atomic_load(&late.works));
    join_crew(&threads);
    ASSERT(has_run(&r));
    ASSERT_ENDS_WELL(&l);
    PASS();
}

/* An executor that takes its time to refuse. */
typedef struct waverer {
    csem asked, answer;
} waverer;

static int refuse_at_last(void *ctx, void (*run)(void *), void *arg)
{
    waverer *w = ctx;
    (void)run;
    (void)arg;
    csem_release(&w->asked);
    csem_acquire_for(&w->answer, PLIM_S(PATIENCE_S));
    return ENOSPC;
}

typedef struct applicant {
    chore *c;
    plim_executor executor;
    int error;
} applicant;

static plim_thread_result apply(void *arg)
{
    applicant *a = arg;
    a->error = loop_scheduler_offload(a->c->l, &a->executor, &a->c->work);
    return 0;
}

TEST a_loop_that_is_closed_ends_when_the_last_work_is_refused(int how, int kind)
{
    loop_scheduler l;
    chore c;
    waverer w;
    runner r;
    plim_thread thread;
    csem_init(&w.asked, 0);
    csem_init(&w.answer, 0);
    ASSERT(make(&l, NULL, 0));
    ASSERT(set_running(&l, &r, kind));
    chores_init(&c, 1, &l, NULL);
    applicant a = {.c = &c, .executor = {refuse_at_last, &w}};
    start(&thread, apply, &a);
    ASSERT_INT(0, csem_acquire_for(&w.asked, PLIM_S(PATIENCE_S)));
    caller closer = {.l = &l, .call = CLOSE, .how = how, .timeout_ns = PLIM_S(PATIENCE_S)};
    start_call(&closer);
    ASSERT(stays_false(&closer.done)); /* it may come back yet, so the loop sleeps */
    csem_release(&w.answer);
    ASSERT(finished(&closer));
    ASSERT_INT(0, closer.error);
    join(thread);
    ASSERT_INT(ENOSPC, a.error);
    ASSERT_INT(0, atomic_load(&c.works) + atomic_load(&c.thens) + atomic_load(&c.cancels));
    ASSERT(has_run(&r));
    ASSERT_ENDS_WELL(&l);
    PASS();
}

static void free_work(loop_scheduler_work *work, int status)
{
    atomic_int *freed = work->arg;
    (void)status;
    memset((void *)work, 0xa5, sizeof *work);
    free(work);
    atomic_fetch_add(freed, 1);
}

TEST work_may_be_freed_when_it_is_back(void)
{
    enum { N = 40 };
    loop_scheduler l;
    static crew threads;
    plim_executor executor = {execute_on_a_thread, &threads};
    atomic_int freed = 0;
    memset((void *)&threads, 0, sizeof threads);
    ASSERT(make_and_start(&l, 0));
    for (int i = 0; i < N; i++) {
        loop_scheduler_work *work = calloc(1, sizeof *work);
        ASSERT(work != NULL);
        work->work = no_work;
        work->then = free_work;
        work->arg = &freed;
        ASSERT_INT(0, loop_scheduler_offload(&l, &executor, work));
    }
    ASSERT(EVENTUALLY(atomic_load(&freed) == N));
    ASSERT_ENDS_WELL(&l);
    join_crew(&threads);
    PASS();
}

TEST a_bulkhead_does_the_work_of_a_loop(void)
{
    enum { N = 200 };
    loop_scheduler l;
    bulkhead b;
    static chore c[N];
    bulkhead_options options = {.type = BULKHEAD_ASYNC, .permits = 2};
    ASSERT_INT(0, bulkhead_init(&b, &options));
    ASSERT(make_and_start(&l, 0));
    plim_executor executor = bulkhead_executor(&b);
    chores_init(c, N, &l, NULL);
    for (int i = 0; i < N; i++) {
        ASSERT_INT(0, loop_scheduler_offload(&l, &executor, &c[i].work));
    }
    for (int i = 0; i < N; i++) {
        ASSERT(EVENTUALLY(atomic_load(&c[i].thens) == 1));
        ASSERT_INT(i + 1, c[i].result);
    }
    ASSERT_INT(0, bulkhead_close(&b, BULKHEAD_DRAIN, PLIM_S(PATIENCE_S)));
    ASSERT_INT(0, bulkhead_destroy(&b));
    ASSERT_ENDS_WELL(&l);
    PASS();
}

/* ---- the loop as an executor ---- */

typedef struct favour {
    loop_scheduler *l;
    atomic_int done, elsewhere;
} favour;

static void do_favour(void *arg)
{
    favour *f = arg;
    atomic_fetch_add(&f->elsewhere, !loop_scheduler_is_current(f->l));
    atomic_fetch_add(&f->done, 1);
}

TEST a_loop_is_an_executor_for_others(int how)
{
    loop_scheduler l;
    spy gate;
    favour f;
    memset((void *)&f, 0, sizeof f);
    f.l = &l;
    ASSERT(make_and_start(&l, 0));
    ASSERT(occupy(&l, &gate));
    plim_executor executor = loop_scheduler_executor(&l);
    for (int i = 0; i < 10; i++) {
        ASSERT_INT(0, executor.execute(executor.ctx, do_favour, &f));
    }
    ASSERT_INT(0, atomic_load(&f.done));
    caller c = {.l = &l, .call = CLOSE, .how = how, .timeout_ns = PLIM_S(PATIENCE_S)};
    start_call(&c);
    bell probe;
    bells_init(&probe, 1, &l, NULL, NULL);
    ASSERT(EVENTUALLY(is_closed(&l, &probe)));
    ASSERT_INT(ESHUTDOWN, executor.execute(executor.ctx, do_favour, &f));
    let_go(&gate);
    ASSERT(finished(&c));
    ASSERT_INT(0, c.error);
    ASSERT_INT(10, atomic_load(&f.done)); /* all that was accepted, whatever happens */
    ASSERT_INT(0, atomic_load(&f.elsewhere));
    ASSERT_ENDS_WELL(&l);
    PASS();
}

TEST as_an_executor_a_loop_refuses_as_post_does(void)
{
    loop_scheduler l;
    favour f;
    memset((void *)&f, 0, sizeof f);
    f.l = &l;
    ASSERT(make(&l, NULL, 2));
    plim_executor executor = loop_scheduler_executor(&l);
    atomic_store(&memory_is_out, true);
    int error = executor.execute(executor.ctx, do_favour, &f);
    atomic_store(&memory_is_out, false);
    ASSERT_INT(ENOMEM, error);
    ASSERT_INT(0, loop_scheduler_snapshot(&l).queued);
    ASSERT_INT(0, executor.execute(executor.ctx, do_favour, &f));
    ASSERT_INT(0, executor.execute(executor.ctx, do_favour, &f));
    ASSERT_INT(EAGAIN, executor.execute(executor.ctx, do_favour, &f));
    ASSERT_INT(1, run_dry(&l));
    ASSERT_INT(2, atomic_load(&f.done));
    ASSERT_INT(0, executor.execute(executor.ctx, do_favour, &f));
    ASSERT_ENDS_WELL(&l);
    ASSERT_INT(3, atomic_load(&f.done));
    PASS();
}

TEST one_loop_does_the_work_of_another(int how)
{
    enum { N = 50 };
    loop_scheduler front, back;
    chore c[N];
    ASSERT(make_and_start(&front, 0));
    ASSERT(make_and_start(&back, 0));
    plim_executor executor = loop_scheduler_executor(&back);
    chores_init(c, N, &front, NULL);
    for (int i = 0; i < N; i++) {
        ASSERT_INT(0, loop_scheduler_offload(&front, &executor, &c[i].work));
    }
    ASSERT_INT(0, loop_scheduler_close(&front, how, PLIM_S(PATIENCE_S)));
    for (int i = 0; i < N; i++) {
        ASSERT_INT(1, atomic_load(&c[i].thens) + atomic_load(&c[i].cancels));
        ASSERT(how == LOOP_SCHEDULER_NOW || atomic_load(&c[i].thens) == 1);
        ASSERT(c[i].current);
    }
    ASSERT_INT(0, loop_scheduler_destroy(&front));
    ASSERT_ENDS_WELL(&back);
    PASS();
}

/* ---- coroutines ---- */

typedef struct actor actor;
struct actor {
    loop_scheduler_coroutine co;
    loop_scheduler *l;
    diary *d;
    int number, step; /* writes down 10 times its number, and which step it was */
    loop_scheduler_event *event, *next;
    int64_t ns;
    plim_executor *executor;
    csem *consumed;
    void *arg;
    void (*end)(actor *a); /* in done */
    int error, result;
    int status; /* in done */
    int left;
    bool current;
    const void *thread, *worker;
    atomic_int dones; /* the last touch */
};

static void note_step(actor *a)
{
    a->current = loop_scheduler_is_current(a->l);
    a->thread = this_thread();
    if (a->d != NULL) {
        enter(a->d, 10 * a->number + ++a->step, a->co.status);
    }
}

static void actor_done(loop_scheduler_coroutine *co)
{
    actor *a = co->arg;
    a->status = co->status;
    if (a->d != NULL) {
        enter(a->d, 10 * a->number + 9, 0);
    }
    if (a->end != NULL) {
        a->end(a);
    }
    atomic_fetch_add(&a->dones, 1);
}

static void actors_init(actor *a, int n, loop_scheduler *l, diary *d,
                        void (*run)(loop_scheduler_coroutine *))
{
    for (int i = 0; i < n; i++) {
        memset((void *)&a[i], 0, sizeof a[i]);
        a[i].co.run = run;
        a[i].co.arg = &a[i];
        a[i].co.done = actor_done;
        a[i].l = l;
        a[i].d = d;
        a[i].number = i + 1;
    }
}

static void event_init(loop_scheduler_event *event)
{
    memset((void *)event, 0, sizeof *event);
}

static void play_await(loop_scheduler_coroutine *co)
{
    actor *a = co->arg;
    LOOP_BEGIN(co);
    note_step(a);
    LOOP_AWAIT(co, a->event);
    note_step(a);
    LOOP_END(co);
}

TEST a_coroutine_waits_for_an_event(void)
{
    loop_scheduler l;
    actor a;
    loop_scheduler_event event;
    diary d = {.count = 0};
    ASSERT(make(&l, NULL, 0));
    event_init(&event);
    actors_init(&a, 1, &l, &d, play_await);
    a.event = &event;
    ASSERT_INT(0, loop_scheduler_spawn(&l, &a.co));
    ASSERT_INT(0, atomic_load(&d.count)); /* not inside of spawn */
    ASSERT_INT(EALREADY, loop_scheduler_spawn(&l, &a.co));
    ASSERT_INT(0, loop_scheduler_poll(&l));
    ASSERT_STR_EQ("11", story(&d));
    ASSERT(a.current);
    ASSERT_INT(1, loop_scheduler_snapshot(&l).suspended);
    ASSERT_INT(EAGAIN, loop_scheduler_poll(&l));
    ASSERT_INT(EALREADY, loop_scheduler_spawn(&l, &a.co));
    ASSERT_FALSE(loop_scheduler_event_is_set(&event));
    loop_scheduler_event_set(&event);
    ASSERT(loop_scheduler_event_is_set(&event));
    ASSERT_STR_EQ("11", story(&d)); /* not inside of set */
    ASSERT_INT(EALREADY, loop_scheduler_spawn(&l, &a.co));
    ASSERT_INT(0, loop_scheduler_poll(&l));
    ASSERT_STR_EQ("11 12 19", story(&d));
    ASSERT_INT(0, a.status);
    ASSERT_INT(1, atomic_load(&a.dones));
    ASSERT_INT(0, loop_scheduler_snapshot(&l).suspended);
    a.step = 0;
    ASSERT_INT(0, loop_scheduler_spawn(&l, &a.co)); /* from its beginning; the event is set yet */
    ASSERT_INT(0, loop_scheduler_poll(&l));
    ASSERT_STR_EQ("11 12 19 11 12 19", story(&d));
    ASSERT_ENDS_WELL(&l);
    PASS();
}

TEST an_event_stays_set_until_it_is_reset(void)
{
    loop_scheduler l;
    actor a[3];
    loop_scheduler_event event;
    diary d = {.count = 0};
    ASSERT(make(&l, NULL, 0));
    event_init(&event);
    actors_init(a, 3, &l, &d, play_await);
    for (int i = 0; i < 3; i++) {
        a[i].event = &event;
    }
    loop_scheduler_event_reset(&event);
    loop_scheduler_event_set(&event);
    loop_scheduler_event_set(&event);
    ASSERT_INT(0, loop_scheduler_spawn(&l, &a[0].co));
    ASSERT_INT(0, loop_scheduler_poll(&l));
    ASSERT_STR_EQ("11 12 19", story(&d)); /* without a wait */
    loop_scheduler_event_reset(&event);
    ASSERT_FALSE(loop_scheduler_event_is_set(&event));
    ASSERT_INT(0, loop_scheduler_spawn(&l, &a[1].co));
    run_dry(&l);
    ASSERT_STR_EQ("11 12 19 21", story(&d));
    loop_scheduler_event_set(&event);
    loop_scheduler_event_reset(&event); /* who was let go, goes on */
    ASSERT_INT(0, loop_scheduler_spawn(&l, &a[2].co));
    run_dry(&l);
    ASSERT_STR_EQ("11 12 19 21 22 29 31", story(&d));
    ASSERT_FALSE(loop_scheduler_event_is_set(&event));
    loop_scheduler_event_set(&event);
    run_dry(&l);
    ASSERT_STR_EQ("11 12 19 21 22 29 31 32 39", story(&d));
    ASSERT_ENDS_WELL(&l);
    PASS();
}

static void set_event_in_a_task(spy *s)
{
    loop_scheduler_event_set(s->arg);
    enter(s->d, 2, 0);
}

TEST who_awaits_an_event_goes_on_after_the_task_that_sets_it(void)
{
    loop_scheduler l;
    actor a[3];
    spy s[2];
    loop_scheduler_event event;
    diary d = {.count = 0};
    ASSERT(make(&l, NULL, 0));
    event_init(&event);
    actors_init(a, 3, &l, &d, play_await);
    for (int i = 0; i < 3; i++) {
        a[i].event = &event;
        ASSERT_INT(0, loop_scheduler_spawn(&l, &a[i].co));
    }
    run_dry(&l);
    spies_init(s, 2, &l, &d);
    s[0].act = set_event_in_a_task;
    s[0].arg = &event;
    s[1].number = 3;
    ASSERT_INT(0, loop_scheduler_post(&l, &s[0].task));
    ASSERT_INT(0, loop_scheduler_post(&l, &s[1].task));
    ASSERT_INT(0, loop_scheduler_poll(&l));
    ASSERT_STR_EQ("11 21 31 1 2 3", story(&d));
    ASSERT_INT(3, loop_scheduler_snapshot(&l).queued); /* each in a task of its own */
    ASSERT_INT(0, loop_scheduler_poll(&l));
    ASSERT_STR_EQ("11 21 31 1 2 3 12 19 22 29 32 39", story(&d)); /* in the order they came */
    ASSERT_ENDS_WELL(&l);
    PASS();
}

static void play_await_for(loop_scheduler_coroutine *co)
{
    actor *a = co->arg;
    LOOP_BEGIN(co);
    note_step(a);
    LOOP_AWAIT_FOR(co, a->event, a->ns);
    note_step(a);
    LOOP_AWAIT_FOR(co, a->next, a->ns);
    note_step(a);
    LOOP_END(co);
}

TEST awaiting_may_take_too_long(void)
{
    loop_scheduler l;
    world w;
    actor a;
    loop_scheduler_event event[2];
    diary d = {.count = 0};
    ASSERT(make(&l, &w, 0));
    event_init(&event[0]);
    event_init(&event[1]);
    actors_init(&a, 1, &l, &d, play_await_for);
    a.event = &event[0];
    a.next = &event[1];
    a.ns = 1000;
    ASSERT_INT(0, loop_scheduler_spawn(&l, &a.co));
    run_dry(&l);
    set_time(&w, 999);
    ASSERT_INT(0, run_dry(&l));
    ASSERT_INT(1, loop_scheduler_snapshot(&l).suspended);
    set_time(&w, 1000);
    run_dry(&l);
    ASSERT_STR_EQ("11 t12", story(&d));
    loop_scheduler_event_set(&event[0]); /* nobody awaits it any more */
    ASSERT_INT(0, run_dry(&l));
    ASSERT_INT(1, loop_scheduler_snapshot(&l).suspended);
    set_time(&w, 1999);
    ASSERT_INT(0, run_dry(&l));
    loop_scheduler_event_set(&event[1]); /* in time */
    run_dry(&l);
    ASSERT_STR_EQ("11 t12 13 19", story(&d));
    ASSERT_INT(0, loop_scheduler_snapshot(&l).timers);
    ASSERT_I64(PLIM_FOREVER, loop_scheduler_next_timeout(&l));
    set_time(&w, 5000);
    ASSERT_INT(0, run_dry(&l));
    ASSERT_ENDS_WELL(&l);
    PASS();
}

TEST awaiting_without_time_is_only_a_look(int64_t timeout_ns)
{
    loop_scheduler l;
    world w;
    actor a;
    loop_scheduler_event event[2];
    diary d = {.count = 0};
    ASSERT(make(&l, &w, 0));
    event_init(&event[0]);
    event_init(&event[1]);
    loop_scheduler_event_set(&event[1]);
    actors_init(&a, 1, &l, &d, play_await_for);
    a.event = &event[0];
    a.next = &event[1];
    a.ns = timeout_ns;
    ASSERT_INT(0, loop_scheduler_spawn(&l, &a.co));
    run_dry(&l);
    ASSERT_STR_EQ("11 t12 13 19", story(&d));
    ASSERT_ENDS_WELL(&l);
    PASS();
}

TEST awaiting_for_ever_has_no_end(void)
{
    loop_scheduler l;
    world w;
    actor a;
    loop_scheduler_event event;
    diary d = {.count = 0};
    ASSERT(make(&l, &w, 0));
    event_init(&event);
    actors_init(&a, 1, &l, &d, play_await_for);
    a.event = a.next = &event;
    a.ns = PLIM_FOREVER;
    ASSERT_INT(0, loop_scheduler_spawn(&l, &a.co));
    run_dry(&l);
    set_time(&w, INT64_MAX - 1);
    ASSERT_INT(0, run_dry(&l));
    ASSERT_STR_EQ("11", story(&d));
    loop_scheduler_event_set(&event);
    run_dry(&l);
    ASSERT_STR_EQ("11 12 13 19", story(&d));
    ASSERT_ENDS_WELL(&l);
    PASS();
}

static void play_sleep(loop_scheduler_coroutine *co)
{
    actor *a = co->arg;
    LOOP_BEGIN(co);
    note_step(a);
    while (a->left-- > 0) {
        LOOP_SLEEP(co, a->ns);
        note_step(a);
    }
    LOOP_END(co);
}

TEST a_coroutine_never_sleeps_too_short(void)
{
    loop_scheduler l;
    world w;
    actor a;
    diary d = {.count = 0};
    ASSERT(make(&l, &w, 0));
    actors_init(&a, 1, &l, &d, play_sleep);
    a.left = 3;
    a.ns = 1000;
    ASSERT_INT(0, loop_scheduler_spawn(&l, &a.co));
    run_dry(&l);
    ASSERT_INT(EBUSY, loop_scheduler_destroy(&l));
    for (int i = 1; i <= 3; i++) {
        pass_time(&w, 999);
        ASSERT_INT(0, run_dry(&l));
        ASSERT_INT(i, atomic_load(&d.count));
        pass_time(&w, 1);
        run_dry(&l);
        ASSERT_INT(i < 3 ? i + 1 : 5, atomic_load(&d.count));
    }
    ASSERT_STR_EQ("11 12 13 14 19", story(&d));
    ASSERT_ENDS_WELL(&l);
    PASS();
}

TEST a_sleep_of_nothing_is_until_the_next_turn(int64_t ns)
{
    loop_scheduler l;
    world w;
    actor a;
    spy s;
    diary d = {.count = 0};
    ASSERT(make(&l, &w, 0));
    actors_init(&a, 1, &l, &d, play_sleep);
    spies_init(&s, 1, &l, &d);
    a.left = 2;
    a.ns = ns;
    ASSERT_INT(0, loop_scheduler_spawn(&l, &a.co));
    ASSERT_INT(0, loop_scheduler_post(&l, &s.task));
    ASSERT_INT(0, loop_scheduler_poll(&l));
    ASSERT_STR_EQ("11 1", story(&d));
    run_dry(&l);
    ASSERT_STR_EQ("11 1 12 13 19", story(&d));
    ASSERT_ENDS_WELL(&l);
    PASS();
}

static void play_yield(loop_scheduler_coroutine *co)
{
    actor *a = co->arg;
    LOOP_BEGIN(co);
    note_step(a);
    while (a->left-- > 0) {
        LOOP_YIELD(co);
        note_step(a);
    }
    LOOP_END(co);
}

TEST coroutines_that_yield_take_turns(void)
{
    loop_scheduler l;
    actor a[2];
    spy s;
    diary d = {.count = 0};
    ASSERT(make(&l, NULL, 0));
    actors_init(a, 2, &l, &d, play_yield);
    spies_init(&s, 1, &l, &d);
    for (int i = 0; i < 2; i++) {
        a[i].left = 2;
        ASSERT_INT(0, loop_scheduler_spawn(&l, &a[i].co));
    }
    ASSERT_INT(0, loop_scheduler_post(&l, &s.task));
    ASSERT_INT(0, loop_scheduler_poll(&l));
    ASSERT_STR_EQ("11 21 1", story(&d));
    run_dry(&l);
    ASSERT_STR_EQ("11 21 1 12 22 13 19 23 29", story(&d));
    ASSERT_ENDS_WELL(&l);
    PASS();
}

static int triple(void *arg)
{
    actor *a = arg;
    a->worker = this_thread();
    return 3 * a->number;
}

static void play_offload(loop_scheduler_coroutine *co)
{
    actor *a = co->arg;
    LOOP_BEGIN(co);
    while (a->left-- > 0) {
        note_step(a);
        LOOP_OFFLOAD(co, a->executor, triple, a);
        a->result += co->result;
    }
    LOOP_END(co);
}

TEST a_coroutine_may_have_work_done_elsewhere(void)
{
    enum { N = 10, TIMES = 6 };
    loop_scheduler l;
    actor a[N];
    static crew threads;
    plim_executor executor = {execute_on_a_thread, &threads};
    memset((void *)&threads, 0, sizeof threads);
    ASSERT(make_and_start(&l, 1));
    actors_init(a, N, &l, NULL, play_offload);
    for (int i = 0; i < N; i++) {
        a[i].executor = &executor;
        a[i].left = TIMES;
        ASSERT_INT(0, loop_scheduler_spawn(&l, &a[i].co));
    }
    for (int i = 0; i < N; i++) {
        ASSERT(EVENTUALLY(atomic_load(&a[i].dones) == 1));
        ASSERT_INT(TIMES * 3 * (i + 1), a[i].result);
        ASSERT_INT(0, a[i].status);
        ASSERT(a[i].worker != a[i].thread);
    }
    ASSERT_ENDS_WELL(&l);
    join_crew(&threads);
    PASS();
}

TEST a_coroutine_waits_for_its_work_and_no_longer(void)
{
    loop_scheduler l;
    actor a;
    shelf sh = {.used = 0};
    plim_executor later = {shelve, &sh};
    diary d = {.count = 0};
    ASSERT(make(&l, NULL, 0));
    actors_init(&a, 1, &l, &d, play_offload);
    a.executor = &later;
    a.left = 2;
    ASSERT_INT(0, loop_scheduler_spawn(&l, &a.co));
    run_dry(&l);
    ASSERT_INT(1, sh.used);
    ASSERT_INT(1, loop_scheduler_snapshot(&l).offloaded);
    ASSERT_STR_EQ("11", story(&d));
    ASSERT(take_down(&sh));
    ASSERT_STR_EQ("11", story(&d)); /* it goes on on the loop */
    run_dry(&l);
    ASSERT_STR_EQ("11 12", story(&d));
    ASSERT_INT(3, a.result);
    ASSERT(take_down(&sh));
    run_dry(&l);
    ASSERT_INT(6, a.result);
    ASSERT_INT(1, atomic_load(&a.dones));
    ASSERT_ENDS_WELL(&l);
    PASS();
}

static void play_refused_offload(loop_scheduler_coroutine *co)
{
    actor *a = co->arg;
    LOOP_BEGIN(co);
    co->result = 55;
    LOOP_OFFLOAD(co, a->executor, triple, a);
    a->error = co->status;
    a->result = co->result;
    LOOP_YIELD(co);
    a->status = co->status;
    LOOP_END(co);
}

TEST a_refused_offload_does_not_suspend(void)
{
    loop_scheduler l;
    actor a;
    int error = ENOSPC;
    plim_executor nobody = {refuse, &error};
    ASSERT(make(&l, NULL, 0));
    actors_init(&a, 1, &l, NULL, play_refused_offload);
    a.executor = &nobody;
    ASSERT_INT(0, loop_scheduler_spawn(&l, &a.co));
    ASSERT_INT(0, loop_scheduler_poll(&l));
    ASSERT_INT(ENOSPC, a.error);
    ASSERT_INT(0, loop_scheduler_snapshot(&l).offloaded);
    run_dry(&l);
    ASSERT_INT(1, atomic_load(&a.dones));
    ASSERT_INT(0, a.status); /* of the last macro */
    ASSERT_ENDS_WELL(&l);
    PASS();
}

static void play_exit(loop_scheduler_coroutine *co)
{
    actor *a = co->arg;
    LOOP_BEGIN(co);
    for (;;) {
        note_step(a);
        if (a->step == 3) {
            LOOP_EXIT(co);
        }
        LOOP_YIELD(co);
    }
    LOOP_END(co);
}

TEST a_coroutine_may_end_anywhere(void)
{
    loop_scheduler l;
    actor a;
    diary d = {.count = 0};
    ASSERT(make(&l, NULL, 0));
    actors_init(&a, 1, &l, &d, play_exit);
    for (int i = 1; i <= 2; i++) {
        a.step = 0;
        ASSERT_INT(0, loop_scheduler_spawn(&l, &a.co));
        run_dry(&l);
        ASSERT_INT(i, atomic_load(&a.dones));
    }
    ASSERT_STR_EQ("11 12 13 19 11 12 13 19", story(&d));
    ASSERT_ENDS_WELL(&l);
    PASS();
}

TEST bad_coroutines_are_refused(void)
{
    loop_scheduler l;
    actor a;
    loop_scheduler_coroutine nothing = {.run = NULL};
    ASSERT(make(&l, NULL, 0));
    actors_init(&a, 1, &l, NULL, play_yield);
    ASSERT_INT(EINVAL, loop_scheduler_spawn(&l, &nothing));
    ASSERT_INT(0, loop_scheduler_snapshot(&l).queued);
    ASSERT_INT(0, loop_scheduler_close(&l, LOOP_SCHEDULER_DRAIN, PLIM_FOREVER));
    ASSERT_INT(ESHUTDOWN, loop_scheduler_spawn(&l, &a.co));
    ASSERT_INT(0, atomic_load(&a.dones));
    ASSERT_INT(0, loop_scheduler_destroy(&l));
    PASS();
}

static void free_actor(loop_scheduler_coroutine *co)
{
    actor *a = co->arg;
    atomic_int *freed = a->arg;
    memset((void *)a, 0xa5, sizeof *a);
    free(a);
    atomic_fetch_add(freed, 1);
}

TEST a_coroutine_may_be_freed_when_it_is_done(void)
{
    enum { N = 60 };
    loop_scheduler l;
    atomic_int freed = 0;
    plim_executor on_the_spot = {execute_here, NULL};
    loop_scheduler_event event;
    void (*const plays[])(loop_scheduler_coroutine *) = {play_yield, play_exit, play_offload,
                                                         play_await, play_sleep};
    event_init(&event);
    ASSERT(make_and_start(&l, 0));
    for (int i = 0; i < N; i++) {
        actor *a = malloc(sizeof *a);
        ASSERT(a != NULL);
        actors_init(a, 1, &l, NULL, plays[i % 5]);
        a->step = 3;
        a->left = i % 4;
        a->executor = &on_the_spot;
        a->event = &event;
        a->co.done = free_actor;
        a->arg = &freed;
        ASSERT_INT(0, loop_scheduler_spawn(&l, &a->co));
    }
    loop_scheduler_event_set(&event);
    ASSERT_INT(0, loop_scheduler_close(&l, LOOP_SCHEDULER_DRAIN, PLIM_S(PATIENCE_S)));
    ASSERT_INT(N, atomic_load(&freed));
    ASSERT_ENDS_WELL(&l);
    PASS();
}

static void spawn_again(actor *a)
{
    if (atomic_load(&a->dones) < 2) {
        a->left = 1;
        a->error = loop_scheduler_spawn(a->l, &a->co);
    }
}

TEST a_coroutine_may_begin_again_when_it_is_done(void)
{
    loop_scheduler l;
    actor a;
    ASSERT(make(&l, NULL, 0));
    actors_init(&a, 1, &l, NULL, play_yield);
    a.end = spawn_again;
    a.left = 1;
    ASSERT_INT(0, loop_scheduler_spawn(&l, &a.co));
    run_dry(&l);
    ASSERT_INT(0, a.error);
    ASSERT_INT(3, atomic_load(&a.dones));
    ASSERT_ENDS_WELL(&l);
    PASS();
}

static void play_spawn(loop_scheduler_coroutine *co)
{
    actor *a = co->arg;
    LOOP_BEGIN(co);
    note_step(a);
    a->error = loop_scheduler_spawn(a->l, &(a + 1)->co);
    note_step(a);
    LOOP_AWAIT(co, a->event);
    note_step(a);
    LOOP_END(co);
}

static void play_set(loop_scheduler_coroutine *co)
{
    actor *a = co->arg;
    LOOP_BEGIN(co);
    note_step(a);
    loop_scheduler_event_set(a->event);
    note_step(a);
    LOOP_END(co);
}

TEST a_coroutine_may_begin_another_and_wait_for_it(void)
{
    loop_scheduler l;
    actor a[2];
    loop_scheduler_event event;
    diary d = {.count = 0};
    ASSERT(make(&l, NULL, 0));
    event_init(&event);
    actors_init(a, 2, &l, &d, play_spawn);
    a[1].co.run = play_set;
    a[0].event = a[1].event = &event;
    ASSERT_INT(0, loop_scheduler_spawn(&l, &a[0].co));
    run_dry(&l);
    ASSERT_INT(0, a[0].error);
    ASSERT_STR_EQ("11 12 21 22 29 13 19", story(&d));
    ASSERT_ENDS_WELL(&l);
    PASS();
}

TEST a_thousand_coroutines_wait_at_once(void)
{
    enum { N = 1000 };
    loop_scheduler l;
    loop_scheduler_event event;
    actor *a = calloc(N, sizeof *a);
    ASSERT(a != NULL);
    event_init(&event);
    ASSERT(make(&l, NULL, 0));
    actors_init(a, N, &l, NULL, play_await);
    int before = atomic_load(&allocations);
    for (int i = 0; i < N; i++) {
        a[i].event = &event;
        ASSERT_INT(0, loop_scheduler_spawn(&l, &a[i].co));
    }
    run_dry(&l);
    ASSERT_INT(N, loop_scheduler_snapshot(&l).suspended);
    loop_scheduler_event_set(&event);
    ASSERT_INT(1, run_dry(&l));
    for (int i = 0; i < N; i++) {
        ASSERT_INT(1, atomic_load(&a[i].dones));
        ASSERT_INT(0, a[i].status);
    }
    ASSERT_INT(before, atomic_load(&allocations));
    ASSERT_ENDS_WELL(&l);
    free(a);
    PASS();
}

static void play_pass_on(loop_scheduler_coroutine *co)
{
    actor *a = co->arg;
    LOOP_BEGIN(co);
    LOOP_AWAIT(co, a->event);
    if (a->next != NULL) {
        loop_scheduler_event_set(a->next);
    }
    LOOP_END(co);
}

TEST a_long_chain_of_coroutines_needs_no_deep_stack(void)
{
    loop_scheduler l;
    int n = scaled(100000);
    actor *a = calloc((size_t)n, sizeof *a);
    loop_scheduler_event *events = calloc((size_t)n, sizeof *events);
    ASSERT(a != NULL && events != NULL);
    ASSERT(make(&l, NULL, 0));
    actors_init(a, n, &l, NULL, play_pass_on);
    for (int i = 0; i < n; i++) {
        a[i].event = &events[i];
        a[i].next = i + 1 < n ? &events[i + 1] : NULL;
        ASSERT_INT(0, loop_scheduler_spawn(&l, &a[i].co));
    }
    run_dry(&l);
    loop_scheduler_event_set(&events[0]);
    run_dry(&l);
    ASSERT_INT(1, atomic_load(&a[n - 1].dones));
    ASSERT_ENDS_WELL(&l);
    free(a);
    free(events);
    PASS();
}

static void post_the_next(spy *s)
{
    int *left = s->arg;
    if (--*left > 0) {
        s->error = loop_scheduler_post(s->l, &s->task);
    }
}

TEST a_long_chain_of_tasks_needs_no_deep_stack(void)
{
    loop_scheduler l;
    spy s;
    int n = scaled(100000), left = n;
    ASSERT(make(&l, NULL, 0));
    spies_init(&s, 1, &l, NULL);
    s.act = post_the_next;
    s.arg = &left;
    ASSERT_INT(0, loop_scheduler_post(&l, &s.task));
    ASSERT_INT(n, run_dry(&l));
    ASSERT_INT(n, runs(&s));
    ASSERT_ENDS_WELL(&l);
    PASS();
}

TEST close_resumes_who_waits_with_ecanceled(int how, int kind)
{
    enum { N = 4 };
    loop_scheduler l;
    actor a[N];
    loop_scheduler_event event;
    diary d = {.count = 0};
    runner r;
    event_init(&event);
    ASSERT(make(&l, NULL, 0));
    ASSERT(set_running(&l, &r, kind));
    actors_init(a, N, &l, &d, play_await);
    a[1].co.run = play_sleep;
    a[1].left = 1;
    a[2].co.run = play_await_for;
    for (int i = 0; i < N; i++) {
        a[i].event = a[i].next = &event;
        a[i].ns = PLIM_S(3600);
        ASSERT_INT(0, loop_scheduler_spawn(&l, &a[i].co));
    }
    if (kind == NOBODY) {
        run_dry(&l);
    }
    ASSERT(EVENTUALLY(loop_scheduler_snapshot(&l).suspended == 3 && atomic_load(&d.count) == N));
    ASSERT_INT(0, loop_scheduler_close(&l, how, PLIM_S(PATIENCE_S)));
    for (int i = 0; i < N; i++) {
        ASSERT_INT(1, atomic_load(&a[i].dones));
        ASSERT_INT(ECANCELED, a[i].status);
        ASSERT(a[i].current);
    }
    ASSERT(has_run(&r));
    loop_scheduler_event_set(&event); /* it holds nobody any more */
    ASSERT_ENDS_WELL(&l);
    PASS();
}

static void play_stubborn(loop_scheduler_coroutine *co)
{
    actor *a = co->arg;
    LOOP_BEGIN(co);
    while (a->left-- > 0) {
        LOOP_AWAIT(co, a->event);
        a->result += co->status == ECANCELED;
        LOOP_SLEEP(co, PLIM_S(3600));
        a->result += co->status == ECANCELED;
        LOOP_AWAIT_FOR(co, a->event, PLIM_S(3600));
        a->result += co->status == ECANCELED;
    }
    LOOP_END(co);
}

TEST who_waits_again_while_the_loop_is_closed_is_told_again(int how)
{
    loop_scheduler l;
    actor a;
    loop_scheduler_event event;
    event_init(&event);
    ASSERT(make_and_start(&l, 0));
    actors_init(&a, 1, &l, NULL, play_stubborn);
    a.event = &event;
    a.left = 5;
    ASSERT_INT(0, loop_scheduler_spawn(&l, &a.co));
    ASSERT(EVENTUALLY(loop_scheduler_snapshot(&l).suspended == 1));
    ASSERT_INT(0, loop_scheduler_close(&l, how, PLIM_S(PATIENCE_S)));
    ASSERT_INT(1, atomic_load(&a.dones));
    ASSERT_INT(15, a.result);
    ASSERT_ENDS_WELL(&l);
    PASS();
}

TEST a_coroutine_that_has_not_begun_does_so_only_if_the_loop_drains(int how, int kind)
{
    loop_scheduler l;
    actor a;
    spy gate;
    diary d = {.count = 0};
    runner r;
    ASSERT(make(&l, NULL, 0));
    ASSERT(set_running(&l, &r, kind));
    if (kind != NOBODY) {
        ASSERT(occupy(&l, &gate));
    }
    actors_init(&a, 1, &l, &d, play_yield);
    a.left = 1;
    ASSERT_INT(0, loop_scheduler_spawn(&l, &a.co));
    caller c = {.l = &l, .call = CLOSE, .how = how, .timeout_ns = PLIM_S(PATIENCE_S)};
    start_call(&c);
    if (kind != NOBODY) {
        bell probe;
        bells_init(&probe, 1, &l, NULL, NULL);
        ASSERT(EVENTUALLY(is_closed(&l, &probe)));
        let_go(&gate);
        ASSERT(finished(&c));
    } else {
        ASSERT(finished(&c));
    }
    ASSERT_INT(0, c.error);
    ASSERT_STR_EQ(how == LOOP_SCHEDULER_DRAIN ? "11 12 19" : "19", story(&d));
    ASSERT_INT(how == LOOP_SCHEDULER_DRAIN ? 0 : ECANCELED, a.status);
    ASSERT_INT(1, atomic_load(&a.dones));
    ASSERT(has_run(&r));
    ASSERT_ENDS_WELL(&l);
    PASS();
}

static void set_event_at_last(spy *s)
{
    if (--s->number > 0) {
        s->error = loop_scheduler_post(s->l, &s->task);
    } else {
        loop_scheduler_event_set(s->arg);
    }
}

TEST a_drain_waits_for_events_that_its_tasks_will_set(int kind)
{
    loop_scheduler l;
    actor a[2];
    spy s, gate;
    loop_scheduler_event event, nobody_sets;
    runner r;
    event_init(&event);
    event_init(&nobody_sets);
    ASSERT(make(&l, NULL, 0));
    ASSERT(set_running(&l, &r, kind));
    actors_init(a, 2, &l, NULL, play_await);
    a[0].event = &event;
    a[1].event = &nobody_sets;
    for (int i = 0; i < 2; i++) {
        ASSERT_INT(0, loop_scheduler_spawn(&l, &a[i].co));
    }
    if (kind == NOBODY) {
        run_dry(&l);
    } else {
        ASSERT(occupy(&l, &gate));
    }
    ASSERT_INT(2, loop_scheduler_snapshot(&l).suspended);
    spies_init(&s, 1, &l, NULL);
    s.act = set_event_at_last;
    s.arg = &event;
    s.number = 5;
    ASSERT_INT(0, loop_scheduler_post(&l, &s.task));
    caller c = {
        .l = &l, .call = CLOSE, .how = LOOP_SCHEDULER_DRAIN, .timeout_ns = PLIM_S(PATIENCE_S)};
    start_call(&c);
    if (kind != NOBODY) {
        bell probe;
        bells_init(&probe, 1, &l, NULL, NULL);
        ASSERT(EVENTUALLY(is_closed(&l, &probe)));
        let_go(&gate);
        ASSERT(finished(&c));
    } else {
        ASSERT(finished(&c));
    }
    ASSERT_INT(0, c.error);
    ASSERT_INT(5, runs(&s));
    ASSERT_INT(0, a[0].status);
    ASSERT_INT(ECANCELED, a[1].status); /* when nothing else was left */
    ASSERT_INT(2, atomic_load(&a[0].dones) + atomic_load(&a[1].dones));
    ASSERT(has_run(&r));
    ASSERT_ENDS_WELL(&l);
    PASS();
}

TEST coroutines_go_on_while_the_loop_drains(void)
{
    loop_scheduler l;
    actor a[2];
    plim_executor on_the_spot = {execute_here, NULL};
    ASSERT(make(&l, NULL, 0));
    actors_init(a, 2, &l, NULL, play_yield);
    a[1].co.run = play_offload;
    a[1].executor = &on_the_spot;
    a[0].left = a[1].left = 3;
    for (int i = 0; i < 2; i++) {
        ASSERT_INT(0, loop_scheduler_spawn(&l, &a[i].co));
    }
    ASSERT_INT(0, loop_scheduler_poll(&l)); /* they have begun */
    ASSERT_INT(0, loop_scheduler_close(&l, LOOP_SCHEDULER_DRAIN, PLIM_S(PATIENCE_S)));
    for (int i = 0; i < 2; i++) {
        ASSERT_INT(1, atomic_load(&a[i].dones));
        ASSERT_INT(0, a[i].status);
        ASSERT_INT(-1, a[i].left);
    }
    ASSERT_INT(3 * 6, a[1].result);
    ASSERT_ENDS_WELL(&l);
    PASS();
}

TEST a_coroutine_whose_work_is_elsewhere_is_told_of_the_end(int how)
{
    loop_scheduler l;
    actor a;
    shelf sh = {.used = 0};
    plim_executor later = {shelve, &sh};
    ASSERT(make(&l, NULL, 0));
    actors_init(&a, 1, &l, NULL, play_offload);
    a.executor = &later;
    a.left = 1;
    ASSERT_INT(0, loop_scheduler_spawn(&l, &a.co));
    run_dry(&l);
    caller c = {.l = &l, .call = CLOSE, .how = how, .timeout_ns = PLIM_S(PATIENCE_S)};
    start_call(&c);
    bell probe;
    bells_init(&probe, 1, &l, NULL, NULL);
    ASSERT(EVENTUALLY(is_closed(&l, &probe)));
    ASSERT(stays_false(&c.done)); /* works are waited for in any case */
    ASSERT(take_down(&sh));
    ASSERT(finished(&c));
    ASSERT_INT(0, c.error);
    ASSERT_INT(1, atomic_load(&a.dones));
    ASSERT_INT(how == LOOP_SCHEDULER_DRAIN ? 0 : ECANCELED, a.status);
    ASSERT_ENDS_WELL(&l);
    PASS();
}

TEST coroutines_of_two_loops_may_await_one_event(void)
{
    loop_scheduler l[2];
    actor a[2];
    loop_scheduler_event event;
    event_init(&event);
    for (int i = 0; i < 2; i++) {
        ASSERT(make_and_start(&l[i], 0));
        actors_init(&a[i], 1, &l[i], NULL, play_await);
        a[i].event = &event;
        ASSERT_INT(0, loop_scheduler_spawn(&l[i], &a[i].co));
    }
    for (int i = 0; i < 2; i++) {
        ASSERT(EVENTUALLY(loop_scheduler_snapshot(&l[i]).suspended == 1));
    }
    loop_scheduler_event_set(&event);
    for (int i = 0; i < 2; i++) {
        ASSERT(EVENTUALLY(atomic_load(&a[i].dones) == 1));
        ASSERT_INT(0, a[i].status);
        ASSERT(a[i].current);
    }
    ASSERT(a[0].thread != a[1].thread);
    ASSERT_ENDS_WELL(&l[0]);
    ASSERT_ENDS_WELL(&l[1]);
    PASS();
}

static void play_consumer(loop_scheduler_coroutine *co)
{
    actor *a = co->arg;
    LOOP_BEGIN(co);
    while (a->left-- > 0) {
        LOOP_AWAIT(co, a->event);
        a->error += co->status != 0 || *(int *)a->arg != a->left;
        loop_scheduler_event_reset(a->event);
        csem_release(a->consumed);
    }
    LOOP_END(co);
}

TEST no_set_of_an_event_is_ever_lost(void)
{
    loop_scheduler l;
    actor a;
    loop_scheduler_event event;
    csem consumed;
    int product = 0;
    csem_init(&consumed, 0);
    event_init(&event);
    ASSERT(make_and_start(&l, 0));
    actors_init(&a, 1, &l, NULL, play_consumer);
    a.event = &event;
    a.arg = &product; /* plain: what was done before a set is seen */
    a.consumed = &consumed;
    a.left = scaled(20000);
    int rounds = a.left;
    ASSERT_INT(0, loop_scheduler_spawn(&l, &a.co));
    for (int i = rounds - 1; i >= 0; i--) {
        product = i;
        loop_scheduler_event_set(&event);
        ASSERT_INT(0, csem_acquire_for(&consumed, PLIM_S(PATIENCE_S)));
    }
    ASSERT(EVENTUALLY(atomic_load(&a.dones) == 1));
    ASSERT_INT(0, a.error);
    ASSERT_ENDS_WELL(&l);
    PASS();
}

static void play_await_once_for(loop_scheduler_coroutine *co)
{
    actor *a = co->arg;
    LOOP_BEGIN(co);
    LOOP_AWAIT_FOR(co, a->event, a->ns);
    a->step++;
    LOOP_END(co);
}

TEST a_set_races_with_the_timeout_and_one_of_them_wins(void)
{
    loop_scheduler l;
    actor a;
    loop_scheduler_event event;
    uint64_t random = 21;
    int in_time = 0, late = 0;
    ASSERT(make_and_start(&l, 0));
    int64_t end = plim_now_() + PLIM_S(LONG_S);
    for (int round = scaled(10000); round > 0 && plim_now_() < end; round--) {
        event_init(&event);
        actors_init(&a, 1, &l, NULL, play_await_once_for);
        a.event = &event;
        a.ns = (int64_t)(next_random(&random) % 40000);
        ASSERT_INT(0, loop_scheduler_spawn(&l, &a.co));
        for (uint64_t i = next_random(&random) % 2048; i > 0; i--) {
            plim_pause_();
        }
        loop_scheduler_event_set(&event);
        int64_t give_up = plim_now_() + PLIM_S(PATIENCE_S);
        while (atomic_load(&a.dones) == 0 && plim_now_() < give_up) {
            plim_thread_yield_();
        }
        ASSERT_INT(1, atomic_load(&a.dones));
        ASSERT_INT(1, a.step);
        ASSERT(a.status == 0 || a.status == ETIMEDOUT);
        in_time += a.status == 0;
        late += a.status != 0;
    }
    ASSERT(serves(&l));
    ASSERT_INT(0, loop_scheduler_snapshot(&l).suspended);
    ASSERT_INT(0, loop_scheduler_snapshot(&l).timers);
    ASSERT(in_time + late > 0);
    ASSERT_ENDS_WELL(&l);
    PASS();
}

static void play_await_and_free(loop_scheduler_coroutine *co)
{
    actor *a = co->arg;
    LOOP_BEGIN(co);
    LOOP_AWAIT(co, a->event);
    memset((void *)a->event, 0xa5, sizeof *a->event);
    free(a->event);
    LOOP_END(co);
}

TEST an_event_may_be_freed_by_whoever_it_lets_go_on(void)
{
    loop_scheduler l;
    actor a;
    uint64_t random = 31;
    ASSERT(make_and_start(&l, 0));
    int64_t end = plim_now_() + PLIM_S(LONG_S);
    for (int round = scaled(10000); round > 0 && plim_now_() < end; round--) {
        loop_scheduler_event *event = calloc(1, sizeof *event);
        ASSERT(event != NULL);
        actors_init(&a, 1, &l, NULL, play_await_and_free);
        a.event = event;
        ASSERT_INT(0, loop_scheduler_spawn(&l, &a.co));
        dawdle(next_random(&random));
        loop_scheduler_event_set(event);
        int64_t give_up = plim_now_() + PLIM_S(PATIENCE_S);
        while (atomic_load(&a.dones) == 0 && plim_now_() < give_up) {
            plim_thread_yield_();
        }
        ASSERT_INT(1, atomic_load(&a.dones));
    }
    ASSERT_ENDS_WELL(&l);
    PASS();
}

/* ---- health ---- */

static void take_a_while(spy *s)
{
    pass_time(s->arg, s->number);
}

static bool make_watched(loop_scheduler *l, world *w, int64_t slow_ns)
{
    loop_scheduler_options options = {
        .slow_ns = slow_ns, .clock = tell_time, .on_slow = note_slow, .user = w};
    memset((void *)w, 0, sizeof *w);
    return loop_scheduler_init(l, &options) == 0;
}

TEST a_slow_task_is_told_with_its_duration(void)
{
    loop_scheduler l;
    world w;
    spy s[4];
    ASSERT(make_watched(&l, &w, 100));
    spies_init(s, 4, &l, NULL);
    const int durations[] = {99, 100, 5, 250};
    const int told[] = {0, 1, 1, 2};
    for (int i = 0; i < 4; i++) {
        s[i].act = take_a_while;
        s[i].arg = &w;
        s[i].number = durations[i];
        ASSERT_INT(0, loop_scheduler_post(&l, &s[i].task));
        ASSERT_INT(1, run_dry(&l));
        ASSERT_INT(told[i], w.slow);
        if (durations[i] >= 100) {
            ASSERT(w.slow_task == &s[i].task);
            ASSERT_I64(durations[i], w.slow_ns);
        }
    }
    ASSERT_I64(250, loop_scheduler_snapshot(&l).longest_ns);
    for (int i = 0; i < 4; i++) { /* one after the other in one turn */
        ASSERT_INT(0, loop_scheduler_post(&l, &s[i].task));
    }
    ASSERT_INT(1, run_dry(&l));
    ASSERT_INT(4, w.slow);
    ASSERT_I64(250, w.slow_ns);
    ASSERT_ENDS_WELL(&l);
    PASS();
}

static void take_a_while_on_time(bell *b)
{
    pass_time(b->w, b->ns);
}

static int take_a_while_in_a_call(void *arg)
{
    pass_time(arg, 300);
    return 0;
}

TEST a_slow_timer_or_call_is_told_without_a_task(void)
{
    loop_scheduler l;
    world w;
    bell b;
    ASSERT(make_watched(&l, &w, 100));
    bells_init(&b, 1, &l, &w, NULL);
    b.act = take_a_while_on_time;
    b.ns = 200;
    w.slow_task = (loop_scheduler_task *)(void *)&b;
    ASSERT_INT(0, loop_scheduler_timer_start(&l, &b.timer, 0, 0));
    run_dry(&l);
    ASSERT_INT(1, w.slow);
    ASSERT(w.slow_task == NULL);
    ASSERT_I64(200, w.slow_ns);
    w.slow_task = (loop_scheduler_task *)(void *)&b;
    caller c = {.l = &l, .call = CALL, .fn = take_a_while_in_a_call, .arg = &w};
    start_call(&c);
    ASSERT(EVENTUALLY(loop_scheduler_poll(&l) == 0));
    ASSERT(finished(&c));
    ASSERT_INT(0, c.error);
    ASSERT_INT(2, w.slow);
    ASSERT(w.slow_task == NULL);
    ASSERT_I64(300, w.slow_ns);
    ASSERT_ENDS_WELL(&l);
    PASS();
}

TEST a_slow_task_needs_nobody_to_be_told(void)
{
    loop_scheduler l;
    world w = {.now = 0};
    spy s;
    loop_scheduler_options options = {.slow_ns = 10, .clock = tell_time, .user = &w};
    ASSERT_INT(0, loop_scheduler_init(&l, &options));
    spies_init(&s, 1, &l, NULL);
    s.act = take_a_while;
    s.arg = &w;
    s.number = 70;
    ASSERT_INT(0, loop_scheduler_post(&l, &s.task));
    ASSERT_INT(1, run_dry(&l));
    ASSERT_I64(70, loop_scheduler_snapshot(&l).longest_ns);
    ASSERT_ENDS_WELL(&l);
    PASS();
}

TEST stall_tells_what_runs_and_for_how_long(void)
{
    loop_scheduler l;
    world w;
    spy gate;
    loop_scheduler_task *task = NULL;
    int64_t elapsed_ns = -1;
    ASSERT(make_watched(&l, &w, PLIM_S(1)));
    ASSERT_INT(ENOENT, loop_scheduler_stall(&l, &task, &elapsed_ns)); /* nobody runs it */
    ASSERT_INT(0, loop_scheduler_start(&l));
    ASSERT(serves(&l));
    ASSERT(EVENTUALLY(loop_scheduler_stall(&l, NULL, NULL) == ENOENT)); /* it has nothing to do */
    ASSERT(occupy(&l, &gate));
    for (int64_t i = 1; i <= 3; i++) {
        pass_time(&w, 500);
        ASSERT_INT(0, loop_scheduler_stall(&l, &task, &elapsed_ns));
        ASSERT(task == &gate.task);
        ASSERT_I64(500 * i, elapsed_ns);
    }
    ASSERT_INT(0, loop_scheduler_stall(&l, NULL, &elapsed_ns));
    ASSERT_INT(0, loop_scheduler_stall(&l, &task, NULL));
    ASSERT_INT(0, loop_scheduler_stall(&l, NULL, NULL));
    let_go(&gate);
    ASSERT(EVENTUALLY(loop_scheduler_stall(&l, &task, &elapsed_ns) == ENOENT));
    question q;
    question_init(&q, &l, 0);
    caller c = {.l = &l, .call = CALL, .fn = ask_and_hold, .arg = &q};
    start_call(&c);
    ASSERT_INT(0, csem_acquire_for(&q.entered, PLIM_S(PATIENCE_S)));
    pass_time(&w, 40);
    ASSERT_INT(0, loop_scheduler_stall(&l, &task, &elapsed_ns));
    ASSERT(task == NULL); /* it is no task */
    ASSERT_I64(40, elapsed_ns);
    csem_release(&q.exit);
    ASSERT(finished(&c));
    ASSERT_INT(0, w.slow);
    ASSERT_ENDS_WELL(&l);
    PASS();
}

TEST stall_grows_while_a_task_is_stuck_on_the_real_clock(void)
{
    loop_scheduler l;
    spy gate;
    loop_scheduler_task *task = NULL;
    int64_t first = -1, second = -1;
    ASSERT(make_and_start(&l, 0));
    ASSERT(occupy(&l, &gate));
    ASSERT_INT(0, loop_scheduler_stall(&l, &task, &first));
    ASSERT(task == &gate.task);
    ASSERT(first >= 0);
    rest(PLIM_MS(5));
    ASSERT_INT(0, loop_scheduler_stall(&l, &task, &second));
    ASSERT(second - first >= PLIM_MS(5));
    let_go(&gate);
    ASSERT_ENDS_WELL(&l);
    PASS();
}

typedef struct mirror {
    loop_scheduler_stats figures;
    loop_scheduler_task *task;
    int error;
} mirror;

static void look_at_oneself(spy *s)
{
    mirror *m = s->arg;
    m->figures = loop_scheduler_snapshot(s->l);
    m->error = loop_scheduler_stall(s->l, &m->task, NULL);
}

TEST figures_agree_with_what_happened(void)
{
    loop_scheduler l;
    world w;
    spy s[8];
    bell b[2];
    mirror m;
    ASSERT(make(&l, &w, 6));
    spies_init(s, 8, &l, NULL);
    bells_init(b, 2, &l, &w, NULL);
    loop_scheduler_stats f = loop_scheduler_snapshot(&l);
    ASSERT_U64(0, f.posted + f.ran + f.cancelled + f.rejected + f.wakes + f.sleeps + f.fired);
    ASSERT_U64(0, f.queued + f.peak_queued + f.timers + f.offloaded + f.suspended);
    ASSERT_I64(0, f.busy_ns + f.idle_ns + f.longest_ns);
    s[1].act = look_at_oneself;
    s[1].arg = &m;
    for (int i = 0; i < 6; i++) {
        ASSERT_INT(0, loop_scheduler_post(&l, &s[i].task));
    }
    ASSERT_INT(EAGAIN, loop_scheduler_post(&l, &s[6].task));
    ASSERT_INT(EAGAIN, loop_scheduler_post(&l, &s[6].task));
    ASSERT_INT(0, loop_scheduler_cancel(&l, &s[5].task));
    f = loop_scheduler_snapshot(&l);
    ASSERT_U64(6, f.posted);
    ASSERT_INT(6, f.queued); /* the cancelled one waits for its turn */
    ASSERT_U64(0, f.ran + f.cancelled);
    ASSERT_U64(2, f.rejected);
    ASSERT_INT(0, loop_scheduler_poll(&l));
    ASSERT_U64(6, m.figures.posted); /* in the second of them */
    ASSERT_U64(2, m.figures.ran);    /* it runs, so it is called */
    ASSERT_INT(4, m.figures.queued);
    ASSERT_INT(0, m.error);
    ASSERT(m.task == &s[1].task);
    f = loop_scheduler_snapshot(&l);
    ASSERT_U64(5, f.ran);
    ASSERT_U64(1, f.cancelled);
    ASSERT_INT(0, f.queued);
    ASSERT_INT(6, f.peak_queued);
    ASSERT_INT(0, loop_scheduler_post(&l, &s[0].task));
    ASSERT_INT(0, loop_scheduler_timer_start(&l, &b[0].timer, 10, 10));
    ASSERT_INT(0, loop_scheduler_timer_start(&l, &b[1].timer, 10, 0));
    pass_time(&w, 10);
    ASSERT_INT(1, run_dry(&l));
    f = loop_scheduler_snapshot(&l);
    ASSERT_U64(2, f.fired);
    ASSERT_INT(1, f.timers);
    ASSERT_INT(6, f.peak_queued);
    ASSERT_INT(0, loop_scheduler_close(&l, LOOP_SCHEDULER_DRAIN, PLIM_FOREVER));
    ASSERT_INT(ESHUTDOWN, loop_scheduler_post(&l, &s[6].task));
    ASSERT_INT(ESHUTDOWN, loop_scheduler_call(&l, give, NULL, NULL));
    f = loop_scheduler_snapshot(&l);
    ASSERT_U64(4, f.rejected);
    ASSERT_U64(2, f.cancelled); /* and the timer that was armed */
    ASSERT_U64(6, f.ran);
    ASSERT_U64(8, f.posted);
    ASSERT_ENDS_WELL(&l);
    PASS();
}

TEST time_in_tasks_is_busy(void)
{
    loop_scheduler l;
    world w;
    spy s;
    ASSERT(make(&l, &w, 0));
    spies_init(&s, 1, &l, NULL);
    s.act = take_a_while;
    s.arg = &w;
    s.number = 400;
    for (int i = 0; i < 3; i++) {
        pass_time(&w, 10000); /* nobody runs it now */
        ASSERT_INT(0, loop_scheduler_post(&l, &s.task));
        ASSERT_INT(0, loop_scheduler_poll(&l));
    }
    loop_scheduler_stats f = loop_scheduler_snapshot(&l);
    ASSERT_I64(1200, f.busy_ns);
    ASSERT_I64(0, f.idle_ns);
    ASSERT_I64(400, f.longest_ns);
    ASSERT_ENDS_WELL(&l);
    PASS();
}

TEST time_asleep_is_idle(void)
{
    loop_scheduler l;
    spy s;
    ASSERT(make(&l, NULL, 0));
    spies_init(&s, 1, &l, NULL);
    s.act = rest_a_while;
    int64_t from = plim_now_();
    ASSERT_INT(ETIMEDOUT, loop_scheduler_run_once(&l, PLIM_MS(50)));
    int64_t slept = plim_now_() - from;
    loop_scheduler_stats f = loop_scheduler_snapshot(&l);
    ASSERT(f.sleeps >= 1);
    ASSERT_U64(0, f.wakes);
    ASSERT(f.idle_ns >= PLIM_MS(40));
    ASSERT(f.idle_ns + f.busy_ns >= PLIM_MS(49));
    ASSERT(f.idle_ns + f.busy_ns <= slept);
    ASSERT_INT(0, loop_scheduler_post(&l, &s.task));
    ASSERT_INT(0, loop_scheduler_run_once(&l, 0));
    loop_scheduler_stats after = loop_scheduler_snapshot(&l);
    ASSERT_I64(f.idle_ns, after.idle_ns);
    ASSERT(after.busy_ns - f.busy_ns >= PLIM_MS(19));
    ASSERT(after.longest_ns >= PLIM_MS(19));
    ASSERT_ENDS_WELL(&l);
    PASS();
}

typedef struct observer {
    loop_scheduler *l;
    atomic_bool quit;
    int looks, wrong;
    plim_thread thread;
} observer;

static plim_thread_result observe(void *arg)
{
    observer *o = arg;
    uint64_t posted = 0, ended = 0;
    do {
        loop_scheduler_stats s = loop_scheduler_snapshot(o->l);
        o->wrong += s.posted != s.ran + s.cancelled + s.queued;
        o->wrong += s.posted < posted || s.ran + s.cancelled < ended;
        o->wrong += s.wakes > s.sleeps;
        posted = s.posted;
        ended = s.ran + s.cancelled;
        loop_scheduler_stall(o->l, NULL, NULL);
        o->looks++;
        rest(PLIM_US(20));
    } while (!atomic_load(&o->quit));
    return 0;
}

static plim_thread_result post_and_cancel(void *arg)
{
    member *m = arg;
    crowd *c = m->crowd;
    spy s[8];
    uint64_t random = (uint64_t)m->number + 77;
    spies_init(s, 8, c->l, NULL);
    wait_for_go(c);
    int accepted = 0;
    for (int i = 0; i < c->rounds && plim_now_() < c->end; i++) {
        spy *one = &s[next_random(&random) % 8];
        accepted += loop_scheduler_post(c->l, &one->task) == 0;
        if (next_random(&random) % 4 == 0) {
            loop_scheduler_cancel(c->l, &one->task);
        }
        dawdle(next_random(&random));
    }
    atomic_fetch_add(&c->accepted, accepted);
    for (bool over = false; !over; plim_thread_yield_()) { /* they are on this stack */
        int ended = 0;
        for (int i = 0; i < 8; i++) {
            ended += runs(&s[i]) + cancels(&s[i]);
        }
        over = ended == accepted;
    }
    return 0;
}

TEST figures_are_of_one_instant(uint32_t limit)
{
    enum { N = 4 };
    loop_scheduler l;
    member m[N];
    ASSERT(make_and_start(&l, limit));
    observer o = {.l = &l};
    crowd c = {.l = &l, .rounds = scaled(20000), .end = plim_now_() + PLIM_S(LONG_S)};
    start(&o.thread, observe, &o);
    start_crowd(&c, m, N, post_and_cancel);
    join_crowd(m, N);
    ASSERT(EVENTUALLY(loop_scheduler_snapshot(&l).queued == 0));
    atomic_store(&o.quit, true);
    join(o.thread);
    ASSERT_INT(0, o.wrong);
    ASSERT(o.looks > 0);
    ASSERT_U64(atomic_load(&c.accepted), loop_scheduler_snapshot(&l).posted);
    ASSERT_ENDS_WELL(&l);
    PASS();
}

/* ---- what is promised throughout ---- */

#define KEEPS_ERRNO(call) \
    do { \
        errno = 4711; \
        (void)(call); \
        ASSERT_INT(4711, errno); \
    } while (0)

TEST errno_is_left_alone(void)
{
    loop_scheduler l;
    spy s[2], gate;
    bell b;
    actor a;
    loop_scheduler_event event;
    loop_scheduler_task *task;
    int64_t ns;
    int seven = 7;
    plim_executor on_the_spot = {execute_here, NULL};
    loop_scheduler_work work = {.work = no_work};
    loop_scheduler_options options = {.max_queue = 1, .name = "errno"};
    event_init(&event);
    KEEPS_ERRNO(loop_scheduler_init(&l, &options));
    spies_init(s, 2, &l, NULL);
    bells_init(&b, 1, &l, NULL, NULL);
    actors_init(&a, 1, &l, NULL, play_await_once_for);
    a.event = &event;
    loop_scheduler_task *list[] = {&s[0].task, &s[1].task};
    KEEPS_ERRNO(loop_scheduler_post(&l, &s[0].task));
    KEEPS_ERRNO(loop_scheduler_post(&l, &s[1].task));
    KEEPS_ERRNO(loop_scheduler_post_for(&l, &s[1].task, PLIM_MS(1)));
    KEEPS_ERRNO(loop_scheduler_post_list(&l, list, 2));
    KEEPS_ERRNO(loop_scheduler_call_for(&l, give, &seven, NULL, PLIM_MS(1)));
    KEEPS_ERRNO(loop_scheduler_timer_start(&l, &b.timer, PLIM_MS(1), 0));
    KEEPS_ERRNO(loop_scheduler_run_once(&l, PLIM_S(1)));
    KEEPS_ERRNO(loop_scheduler_run_once(&l, PLIM_S(1)));
    KEEPS_ERRNO(loop_scheduler_run_once(&l, PLIM_MS(2)));
    KEEPS_ERRNO(loop_scheduler_run_until(&l, never, NULL, PLIM_MS(2)));
    KEEPS_ERRNO(loop_scheduler_poll(&l));
    KEEPS_ERRNO(loop_scheduler_next_timeout(&l));
    KEEPS_ERRNO(loop_scheduler_offload(&l, &on_the_spot, &work));
    KEEPS_ERRNO(loop_scheduler_work_cancel(&l, &work));
    KEEPS_ERRNO(loop_scheduler_spawn(&l, &a.co));
    KEEPS_ERRNO(loop_scheduler_poll(&l));
    KEEPS_ERRNO(loop_scheduler_start(&l));
    KEEPS_ERRNO(loop_scheduler_event_set(&event));
    KEEPS_ERRNO(loop_scheduler_event_is_set(&event));
    KEEPS_ERRNO(loop_scheduler_event_reset(&event));
    KEEPS_ERRNO(loop_scheduler_call(&l, give, &seven, NULL));
    ASSERT(occupy(&l, &gate));
    KEEPS_ERRNO(loop_scheduler_post(&l, &s[0].task));
    KEEPS_ERRNO(loop_scheduler_cancel(&l, &s[0].task));
    KEEPS_ERRNO(loop_scheduler_timer_start(&l, &b.timer, PLIM_S(1), 0));
    KEEPS_ERRNO(loop_scheduler_timer_cancel(&l, &b.timer));
    KEEPS_ERRNO(loop_scheduler_stall(&l, &task, &ns));
    KEEPS_ERRNO(loop_scheduler_snapshot(&l));
    KEEPS_ERRNO(loop_scheduler_destroy(&l));
    let_go(&gate);
    KEEPS_ERRNO(loop_scheduler_stop(&l));
    KEEPS_ERRNO(loop_scheduler_start(&l));
    KEEPS_ERRNO(loop_scheduler_close(&l, LOOP_SCHEDULER_DRAIN, PLIM_S(PATIENCE_S)));
    KEEPS_ERRNO(loop_scheduler_destroy(&l));
    PASS();
}

TEST nothing_is_allocated_but_for_an_executor(void)
{
    loop_scheduler l;
    spy s[3];
    bell b;
    actor a;
    chore c;
    int seven = 7;
    loop_scheduler_event event;
    plim_executor on_the_spot = {execute_here, NULL};
    int before = atomic_load(&allocations);
    event_init(&event);
    ASSERT(make(&l, NULL, 0));
    spies_init(s, 3, &l, NULL);
    bells_init(&b, 1, &l, NULL, NULL);
    chores_init(&c, 1, &l, NULL);
    loop_scheduler_task *list[] = {&s[0].task, &s[1].task};
    for (int i = 0; i < 100; i++) {
        actors_init(&a, 1, &l, NULL, play_await_once_for);
        a.event = &event;
        a.ns = 100;
        ASSERT_INT(0, loop_scheduler_post_list(&l, list, 2));
        ASSERT_INT(0, loop_scheduler_post(&l, &s[2].task));
        ASSERT_INT(0, loop_scheduler_cancel(&l, &s[1].task));
        ASSERT_INT(0, loop_scheduler_timer_start(&l, &b.timer, PLIM_S(i), PLIM_S(1)));
        ASSERT_INT(0, loop_scheduler_offload(&l, &on_the_spot, &c.work));
        ASSERT_INT(0, loop_scheduler_spawn(&l, &a.co));
        while (atomic_load(&a.dones) == 0) {
            ASSERT_INT(0, loop_scheduler_run_once(&l, PLIM_S(PATIENCE_S)));
        }
        loop_scheduler_snapshot(&l);
    }
    ASSERT_INT(before, atomic_load(&allocations));
    ASSERT_INT(ETIMEDOUT, loop_scheduler_call_for(&l, give, &seven, NULL, PLIM_US(10)));
    ASSERT_INT(before, atomic_load(&allocations));
    plim_executor executor = loop_scheduler_executor(&l);
    ASSERT_INT(before, atomic_load(&allocations));
    favour f;
    memset((void *)&f, 0, sizeof f);
    f.l = &l;
    ASSERT_INT(0, executor.execute(executor.ctx, do_favour, &f));
    ASSERT_INT(before + 1, atomic_load(&allocations));
    ASSERT_ENDS_WELL(&l);
    PASS();
}

TEST a_timeout_is_by_the_real_clock_even_if_the_loops_stands_still(void)
{
    loop_scheduler l;
    world w;
    spy s;
    ASSERT(make(&l, &w, 0));
    caller c = {.l = &l, .call = RUN_ONCE, .timeout_ns = PLIM_MS(10)};
    start_call(&c);
    ASSERT(finished(&c));
    ASSERT_INT(ETIMEDOUT, c.error);
    ASSERT(c.took_ns >= PLIM_MS(10));
    c = (caller){.l = &l, .call = RUN_UNTIL, .done_when = never, .timeout_ns = PLIM_MS(10)};
    start_call(&c);
    ASSERT(finished(&c));
    ASSERT_INT(ETIMEDOUT, c.error);
    spies_init(&s, 1, &l, NULL);
    s.act = post_again_for_ever;
    ASSERT_INT(0, loop_scheduler_post(&l, &s.task));
    c = (caller){.l = &l, .call = CLOSE, .how = LOOP_SCHEDULER_DRAIN, .timeout_ns = PLIM_MS(10)};
    start_call(&c);
    ASSERT(finished(&c));
    ASSERT_INT(ETIMEDOUT, c.error);
    ASSERT_INT(0, loop_scheduler_close(&l, LOOP_SCHEDULER_NOW, PLIM_S(PATIENCE_S)));
    ASSERT_ENDS_WELL(&l);
    PASS();
}

/* ---- nothing is ever lost ---- */

typedef struct rally {
    loop_scheduler *other;
    spy *back;
    int left, wrong;
    int64_t end;
    csem *over;
} rally;

static void hit_back(spy *s)
{
    rally *r = s->arg;
    if (--r->left <= 0 || plim_now_() >= r->end) {
        csem_release(r->over);
    } else {
        r->wrong += loop_scheduler_post(r->other, &r->back->task) != 0;
    }
}

TEST two_loops_play_ping_pong(void)
{
    loop_scheduler l[2];
    spy s[2];
    csem over;
    rally r[2];
    csem_init(&over, 0);
    for (int i = 0; i < 2; i++) {
        ASSERT(make_and_start(&l[i], 0));
        spies_init(&s[i], 1, &l[i], NULL);
        r[i] = (rally){.other = &l[1 - i],
                       .back = &s[1 - i],
                       .left = scaled(20000),
                       .end = plim_now_() + PLIM_S(LONG_S),
                       .over = &over};
        s[i].act = hit_back;
        s[i].arg = &r[i];
    }
    ASSERT_INT(0, loop_scheduler_post(&l[0], &s[0].task));
    ASSERT_INT(0, csem_acquire_for(&over, PLIM_S(PATIENCE_S)));
    for (int i = 0; i < 2; i++) {
        loop_scheduler_stats f = loop_scheduler_snapshot(&l[i]);
        ASSERT(f.wakes <= f.sleeps);
        ASSERT_ENDS_WELL(&l[i]);
        ASSERT_INT(0, r[i].wrong);
    }
    PASS();
}

enum { HAMMERS = 8, NAILS = 32 };

typedef struct nail {
    loop_scheduler_task task;
    struct wall *wall;
    int hammer;
    uint64_t number;
} nail;

typedef struct wall {
    loop_scheduler *l;
    uint64_t last[HAMMERS], wrong, hit; /* on the loop */
} wall;

static void hit_nail(loop_scheduler_task *task, int status)
{
    nail *n = task->arg;
    wall *w = n->wall;
    w->wrong += status != 0 || n->number <= w->last[n->hammer];
    w->last[n->hammer] = n->number;
    w->hit++;
}

static plim_thread_result hammer(void *arg)
{
    member *m = arg;
    crowd *c = m->crowd;
    uint64_t random = (uint64_t)m->number + 1, number = 0;
    nail *n = calloc(NAILS, sizeof *n);
    if (n == NULL) {
        return 0;
    }
    for (int i = 0; i < NAILS; i++) {
        n[i] = (nail){.task = {.run = hit_nail, .arg = &n[i]}, .wall = c->arg, .hammer = m->number};
    }
    wait_for_go(c);
    for (int i = 0; i < c->rounds && plim_now_() < c->end; i += NAILS) {
        for (int j = 0; j < NAILS; j++) { /* all are ours: each was hit in the round before */
            n[j].number = ++number;
            int error = loop_scheduler_post_for(c->l, &n[j].task, PLIM_S(PATIENCE_S));
            atomic_fetch_add(error == 0 ? &c->accepted : &c->odd, 1);
            dawdle(next_random(&random));
        }
        int unused;
        atomic_fetch_add(&c->odd, loop_scheduler_call(c->l, give, &i, &unused) != 0);
    }
    free(n);
    return 0;
}

TEST eight_threads_hammer_and_no_task_is_lost_or_out_of_order(uint32_t limit, int rounds)
{
    loop_scheduler l;
    member m[HAMMERS];
    static wall w;
    memset((void *)&w, 0, sizeof w);
    w.l = &l;
    ASSERT(make_and_start(&l, limit));
    crowd c = {.l = &l, .rounds = scaled(rounds), .end = plim_now_() + PLIM_S(LONG_S), .arg = &w};
    start_crowd(&c, m, HAMMERS, hammer);
    join_crowd(m, HAMMERS);
    ASSERT_INT(0, atomic_load(&c.odd));
    loop_scheduler_stats f = loop_scheduler_snapshot(&l);
    ASSERT(f.wakes <= f.sleeps);
    ASSERT_ENDS_WELL(&l);
    ASSERT_U64(0, w.wrong);
    ASSERT_U64(atomic_load(&c.accepted), w.hit);
    PASS();
}

SUITE(options_suite)
{
    SET_SETUP(remember_blocks, NULL);
    RUN_TEST(all_zero_options_are_a_loop_with_an_unlimited_queue);
    RUN_TEST(bad_options_are_refused);
    RUN_TEST(the_largest_queue_is_taken);
    RUN_TEST(options_are_copied);
    RUN_TEST(kin_may_go_first);
    RUN_TEST(a_loop_is_small);
    RUN_TEST(a_loop_can_be_made_and_unmade_again_and_again);
}

SUITE(posting_suite)
{
    SET_SETUP(remember_blocks, NULL);
    RUN_TEST(a_task_runs_once_with_0_on_the_thread_that_runs_the_loop);
    RUN_TEST(a_started_loop_has_one_thread_of_its_own);
    RUN_TEST(a_task_without_a_function_is_refused_and_nothing_changes);
    RUN_TEST(a_queued_task_is_not_taken_again);
    RUN_TEST(a_task_may_be_posted_again_as_soon_as_it_runs);
    RUN_TEST(run_may_free_its_task_and_sees_what_was_done_before_the_post);
    RUN_TEST(a_task_may_end_its_loop_and_free_it_before_post_has_returned);
    RUN_TEST(a_list_is_queued_in_order_behind_what_is_there);
    RUN_TEST(an_empty_list_is_nothing);
    RUN_TEST(a_list_that_does_not_fit_is_refused_as_a_whole);
    RUN_TEST(a_task_may_post_a_list);
    RUN_TEST(nothing_gets_between_the_tasks_of_a_list);
}

SUITE(order_and_turns_suite)
{
    SET_SETUP(remember_blocks, NULL);
    RUN_TEST(what_a_task_posts_runs_later_and_behind_what_is_queued);
    RUN_TEST(fifty_threads_post_and_each_keeps_its_order_and_none_overlap);
    RUN_TESTp(posts_run_in_the_order_in_which_they_can_have_known_of_each_other, false);
    RUN_TESTp(posts_run_in_the_order_in_which_they_can_have_known_of_each_other, true);
    RUN_TEST(a_task_that_posts_itself_keeps_nobody_waiting);
    RUN_TEST(a_turn_runs_what_was_queued_when_it_began);
    RUN_TEST(timers_and_tasks_take_turns_by_64);
    RUN_TEST(a_long_turn_calls_the_timers_that_become_due_meanwhile);
    RUN_TESTp(a_timer_without_delay_that_starts_itself_runs_once_a_turn, 0);
    RUN_TESTp(a_timer_without_delay_that_starts_itself_runs_once_a_turn, -5);
    RUN_TEST(a_flood_of_posts_does_not_hold_up_a_timer);
}

SUITE(wake_ups_suite)
{
    SET_SETUP(remember_blocks, NULL);
    RUN_TEST(an_awake_loop_is_not_woken);
    RUN_TEST(a_loop_that_nobody_runs_is_not_woken);
    RUN_TEST(a_sleeping_loop_is_woken_once);
}

SUITE(limits_suite)
{
    SET_SETUP(remember_blocks, NULL);
    RUN_TESTp(as_many_as_fit_are_accepted_and_no_more, 1);
    RUN_TESTp(as_many_as_fit_are_accepted_and_no_more, 50);
    RUN_TEST(the_task_that_runs_takes_no_place);
    RUN_TEST(the_limit_is_exact_from_many_threads);
    RUN_TEST(a_task_is_refused_by_its_own_full_queue);
    RUN_TEST(a_full_queue_refuses_posts_and_nothing_else);
    RUN_TEST(post_for_does_not_wait_where_there_is_room);
    RUN_TESTp(post_for_gives_up_in_time_and_leaves_nothing, PLIM_MS(20));
    RUN_TESTp(post_for_gives_up_in_time_and_leaves_nothing, 1);
    RUN_TESTp(post_for_gives_up_in_time_and_leaves_nothing, 0);
    RUN_TESTp(post_for_gives_up_in_time_and_leaves_nothing, INT64_MIN);
    RUN_TEST(post_for_gets_the_place_that_becomes_free);
    RUN_TESTp(all_who_wait_for_a_place_get_one, 1);
    RUN_TESTp(all_who_wait_for_a_place_get_one, 3);
    RUN_TESTp(close_sends_away_who_waits_for_a_place, LOOP_SCHEDULER_DRAIN);
    RUN_TESTp(close_sends_away_who_waits_for_a_place, LOOP_SCHEDULER_NOW);
}

SUITE(cancel_suite)
{
    SET_SETUP(remember_blocks, NULL);
    RUN_TEST(a_cancelled_task_is_told_in_its_turn);
    RUN_TEST(a_task_may_cancel_one_that_is_due_in_the_same_turn);
    RUN_TEST(a_running_task_cannot_be_cancelled);
    RUN_TEST(a_cancelled_task_may_be_posted_again_when_it_is_told);
    RUN_TEST(a_cancel_races_with_the_run_and_one_of_them_wins);
    RUN_TESTp(tasks_do_as_a_simple_model_says, 1, 0);
    RUN_TESTp(tasks_do_as_a_simple_model_says, 2, 1);
    RUN_TESTp(tasks_do_as_a_simple_model_says, 3, 5);
}

SUITE(calls_suite)
{
    SET_SETUP(remember_blocks, NULL);
    RUN_TESTp(a_call_runs_on_the_loop_and_gives_what_the_function_returned, 0);
    RUN_TESTp(a_call_runs_on_the_loop_and_gives_what_the_function_returned, -7);
    RUN_TESTp(a_call_runs_on_the_loop_and_gives_what_the_function_returned, EDEADLK);
    RUN_TEST(a_call_of_nothing_is_refused);
    RUN_TEST(a_closed_loop_takes_no_calls);
    RUN_TESTp(a_call_on_the_loops_own_thread_runs_at_once, call_inline);
    RUN_TESTp(a_call_on_the_loops_own_thread_runs_at_once, call_inline_for);
    RUN_TEST(a_call_waits_for_its_turn_and_for_its_end);
    RUN_TESTp(a_call_that_does_not_begin_in_time_never_runs, PLIM_MS(10));
    RUN_TESTp(a_call_that_does_not_begin_in_time_never_runs, 0);
    RUN_TESTp(a_call_that_does_not_begin_in_time_never_runs, -1);
    RUN_TEST(a_call_that_nobody_can_run_times_out);
    RUN_TEST(a_call_that_has_begun_is_waited_for);
    RUN_TEST(a_call_may_run_out_of_time_just_as_it_begins);
    RUN_TESTp(a_pending_call_ends_when_the_loop_is_closed, LOOP_SCHEDULER_DRAIN, false);
    RUN_TESTp(a_pending_call_ends_when_the_loop_is_closed, LOOP_SCHEDULER_DRAIN, true);
    RUN_TESTp(a_pending_call_ends_when_the_loop_is_closed, LOOP_SCHEDULER_NOW, false);
    RUN_TESTp(a_pending_call_ends_when_the_loop_is_closed, LOOP_SCHEDULER_NOW, true);
    RUN_TEST(a_call_to_a_stopped_loop_waits_until_it_runs_again);
    RUN_TEST(calls_from_many_threads_never_overlap_and_none_is_lost);
    RUN_TEST(each_of_many_short_lived_loops_answers_its_one_call);
}

SUITE(waits_that_could_never_end_suite)
{
    SET_SETUP(remember_blocks, NULL);
    RUN_TESTp(a_ring_of_calls_is_refused_where_it_would_close, 2, false);
    RUN_TESTp(a_ring_of_calls_is_refused_where_it_would_close, 2, true);
    RUN_TESTp(a_ring_of_calls_is_refused_where_it_would_close, 3, false);
    RUN_TESTp(a_ring_of_calls_is_refused_where_it_would_close, 3, true);
    RUN_TESTp(of_a_ring_of_loops_that_call_each_other_one_is_told, 2);
    RUN_TESTp(of_a_ring_of_loops_that_call_each_other_one_is_told, 3);
    RUN_TEST(calls_that_form_no_ring_are_never_refused);
    RUN_TEST(what_is_over_makes_no_ring);
    RUN_TEST(of_two_loops_that_wait_for_room_in_each_other_one_is_told);
    RUN_TEST(a_wait_for_room_that_closes_a_ring_is_refused);
    RUN_TEST(a_close_that_closes_a_ring_is_refused_and_changes_nothing);
    RUN_TEST(a_loop_may_close_another_one_which_may_not_call_it_then);
    RUN_TESTp(a_wait_for_a_thread_to_stop_that_closes_a_ring_is_refused, hold_and_start_the_other);
    RUN_TESTp(a_wait_for_a_thread_to_stop_that_closes_a_ring_is_refused,
              hold_and_destroy_the_other);
    RUN_TESTp(what_a_task_would_wait_for_in_vain_is_refused, false);
    RUN_TESTp(what_a_task_would_wait_for_in_vain_is_refused, true);
    RUN_TEST(run_until_inside_of_run_is_refused);
    RUN_TEST(a_task_may_run_another_loop);
    RUN_TESTp(a_ring_through_a_loop_inside_of_another_is_refused, false);
    RUN_TESTp(a_ring_through_a_loop_inside_of_another_is_refused, true);
    RUN_TEST(a_ring_is_seen_among_loops_that_others_run_and_with_kin);
}

SUITE(timers_suite)
{
    SET_SETUP(remember_blocks, NULL);
    RUN_TESTp(a_timer_is_never_early_by_a_nanosecond_nor_late, 0, 1);
    RUN_TESTp(a_timer_is_never_early_by_a_nanosecond_nor_late, 0, 63);
    RUN_TESTp(a_timer_is_never_early_by_a_nanosecond_nor_late, 0, 64);
    RUN_TESTp(a_timer_is_never_early_by_a_nanosecond_nor_late, 63, 65);
    RUN_TESTp(a_timer_is_never_early_by_a_nanosecond_nor_late, 4095, 4097);
    RUN_TESTp(a_timer_is_never_early_by_a_nanosecond_nor_late, PLIM_S(77), PLIM_MS(3));
    RUN_TESTp(a_timer_is_never_early_by_a_nanosecond_nor_late, PLIM_S(77) + 1, PLIM_S(86400));
    RUN_TESTp(a_timer_is_never_early_by_a_nanosecond_nor_late, INT64_MAX / 2, INT64_MAX / 4);
    RUN_TEST(timers_are_never_early_on_the_real_clock);
    RUN_TEST(timers_run_in_the_order_of_their_deadlines);
    RUN_TEST(equal_deadlines_run_in_the_order_of_their_starts);
    RUN_TESTp(equal_deadlines_keep_their_order_whoever_starts_them, false);
    RUN_TESTp(equal_deadlines_keep_their_order_whoever_starts_them, true);
    RUN_TESTp(a_timer_armed_anew_forgets_its_old_deadline, false);
    RUN_TESTp(a_timer_armed_anew_forgets_its_old_deadline, true);
    RUN_TESTp(without_delay_a_timer_runs_in_the_next_turn, 0);
    RUN_TESTp(without_delay_a_timer_runs_in_the_next_turn, -1);
    RUN_TESTp(without_delay_a_timer_runs_in_the_next_turn, INT64_MIN);
    RUN_TESTp(a_timer_that_is_for_ever_away_disturbs_nobody, 0);
    RUN_TESTp(a_timer_that_is_for_ever_away_disturbs_nobody, PLIM_S(1000000));
    RUN_TESTp(a_delay_begins_when_the_timer_is_started, false);
    RUN_TESTp(a_delay_begins_when_the_timer_is_started, true);
    RUN_TEST(bad_timers_are_refused_and_nothing_changes);
    RUN_TESTp(a_cancelled_timer_is_told_on_the_loop, false, 0);
    RUN_TESTp(a_cancelled_timer_is_told_on_the_loop, true, 0);
    RUN_TESTp(a_cancelled_timer_is_told_on_the_loop, false, 10);
    RUN_TESTp(a_cancelled_timer_is_told_on_the_loop, true, 10);
    RUN_TESTp(a_timer_started_before_its_cancellation_is_told_is_armed_instead, false);
    RUN_TESTp(a_timer_started_before_its_cancellation_is_told_is_armed_instead, true);
    RUN_TEST(a_timer_may_cancel_one_that_is_due_at_the_same_time);
    RUN_TEST(a_timer_that_fires_once_cannot_be_cancelled_as_it_does);
    RUN_TEST(a_timer_may_be_freed_when_it_has_fired_or_is_told_of_its_end);
    RUN_TEST(ten_timers_and_one_that_repeats_and_stops_itself);
    RUN_TESTp(timers_do_as_a_simple_model_says, 1, 0, 12);
    RUN_TESTp(timers_do_as_a_simple_model_says, 2, 1, 30);
    RUN_TESTp(timers_do_as_a_simple_model_says, 3, PLIM_S(1234567), 45);
    RUN_TESTp(a_hundred_thousand_timers_fire_in_order_but_for_those_cancelled, PLIM_S(1000));
    RUN_TESTp(a_hundred_thousand_timers_fire_in_order_but_for_those_cancelled, 5000);
    RUN_TEST(a_timer_that_is_sooner_than_the_end_of_the_sleep_wakes_the_loop);
    RUN_TEST(a_cancelled_timer_wakes_the_loop_to_be_told);
    RUN_TEST(a_cancel_races_with_the_timer_and_one_of_them_wins);
    RUN_TEST(many_threads_may_start_and_cancel_the_same_timers);
    RUN_TESTp(a_clock_that_goes_otherwise_is_asked_again_after_each_sleep, tell_fast);
    RUN_TESTp(a_clock_that_goes_otherwise_is_asked_again_after_each_sleep, tell_slowly);
}

SUITE(periods_suite)
{
    SET_SETUP(remember_blocks, NULL);
    RUN_TESTp(a_periodic_timer_keeps_its_phase_however_late, LOOP_SCHEDULER_SKIP);
    RUN_TESTp(a_periodic_timer_keeps_its_phase_however_late, LOOP_SCHEDULER_BURST);
    RUN_TEST(a_callback_that_takes_time_makes_no_drift);
    RUN_TEST(skip_leaves_out_what_it_has_missed_and_counts_it);
    RUN_TEST(burst_makes_up_for_what_it_has_missed);
    RUN_TEST(delay_begins_the_period_when_the_call_has_returned);
    RUN_TEST(a_periodic_timer_may_be_cancelled_as_it_fires);
    RUN_TESTp(a_timer_may_be_armed_anew_as_it_fires, 0);
    RUN_TESTp(a_timer_may_be_armed_anew_as_it_fires, 10);
    RUN_TESTp(a_period_of_nothing_is_once, 0);
    RUN_TESTp(a_period_of_nothing_is_once, -1);
    RUN_TESTp(a_period_of_nothing_is_once, INT64_MIN);
}

SUITE(running_suite)
{
    SET_SETUP(remember_blocks, NULL);
    RUN_TEST(stop_ends_run_after_the_current_task_and_the_rest_stays);
    RUN_TESTp(a_stop_before_ends_the_next_run_at_once, 1);
    RUN_TESTp(a_stop_before_ends_the_next_run_at_once, 3);
    RUN_TESTp(stop_ends_a_sleep, RUN, 0);
    RUN_TESTp(stop_ends_a_sleep, RUN_UNTIL, ECANCELED);
    RUN_TESTp(stop_ends_a_sleep, RUN_ONCE, ETIMEDOUT);
    RUN_TEST(a_loop_may_be_started_and_stopped_again_and_again);
    RUN_TESTp(only_one_thread_may_run_a_loop, false);
    RUN_TESTp(only_one_thread_may_run_a_loop, true);
    RUN_TEST(a_closed_loop_does_not_run_any_more);
    RUN_TEST(run_until_goes_on_until_it_is_told_that_all_is_done);
    RUN_TESTp(run_until_gives_up_in_time, false);
    RUN_TESTp(run_until_gives_up_in_time, true);
    RUN_TESTp(a_runner_returns_when_the_loop_is_closed, RUN, 0);
    RUN_TESTp(a_runner_returns_when_the_loop_is_closed, RUN_UNTIL, ESHUTDOWN);
    RUN_TEST(run_once_waits_for_one_turn);
    RUN_TEST(run_once_ends_its_wait_when_somebody_posts);
    RUN_TEST(poll_never_waits_and_next_timeout_says_for_how_long_one_may);
    RUN_TEST(is_current_is_true_in_the_tasks_of_this_loop_only);
    RUN_TEST(a_loop_whose_thread_a_task_ends_is_one_that_nobody_runs);
    RUN_TEST(however_many_want_to_run_it_one_does_at_a_time);
}

SUITE(close_suite)
{
    SET_SETUP(remember_blocks, NULL);
    RUN_TESTp(a_drain_runs_what_is_queued_and_what_that_posts, NOBODY);
    RUN_TESTp(a_drain_runs_what_is_queued_and_what_that_posts, OWN_THREAD);
    RUN_TESTp(a_drain_runs_what_is_queued_and_what_that_posts, ANOTHER_THREAD);
    RUN_TESTp(close_now_tells_what_is_queued_in_order, NOBODY);
    RUN_TESTp(close_now_tells_what_is_queued_in_order, OWN_THREAD);
    RUN_TESTp(close_now_tells_what_is_queued_in_order, ANOTHER_THREAD);
    RUN_TEST(timers_are_not_started_while_the_loop_drains);
    RUN_TEST(a_drain_waits_for_a_slow_task_and_those_behind_it);
    RUN_TESTp(a_drain_that_would_never_end_becomes_now_when_its_time_is_over, NOBODY);
    RUN_TESTp(a_drain_that_would_never_end_becomes_now_when_its_time_is_over, OWN_THREAD);
    RUN_TESTp(a_drain_that_would_never_end_becomes_now_when_its_time_is_over, ANOTHER_THREAD);
    RUN_TESTp(a_task_that_does_not_return_can_be_waited_for_again, LOOP_SCHEDULER_DRAIN);
    RUN_TESTp(a_task_that_does_not_return_can_be_waited_for_again, LOOP_SCHEDULER_NOW);
    RUN_TEST(without_time_a_drain_is_now);
    RUN_TESTp(closing_an_idle_loop_is_immediate_and_may_be_repeated, LOOP_SCHEDULER_DRAIN);
    RUN_TESTp(closing_an_idle_loop_is_immediate_and_may_be_repeated, LOOP_SCHEDULER_NOW);
    RUN_TESTp(close_refuses_what_it_does_not_know, 2);
    RUN_TESTp(close_refuses_what_it_does_not_know, -1);
    RUN_TESTp(several_may_close_and_all_see_the_same_end, NOBODY, false);
    RUN_TESTp(several_may_close_and_all_see_the_same_end, OWN_THREAD, false);
    RUN_TESTp(several_may_close_and_all_see_the_same_end, ANOTHER_THREAD, false);
    RUN_TESTp(several_may_close_and_all_see_the_same_end, NOBODY, true);
    RUN_TESTp(several_may_close_and_all_see_the_same_end, OWN_THREAD, true);
    RUN_TESTp(a_loop_that_drains_is_not_stopped, NOBODY);
    RUN_TESTp(a_loop_that_drains_is_not_stopped, OWN_THREAD);
    RUN_TESTp(a_loop_that_drains_is_not_stopped, ANOTHER_THREAD);
    RUN_TESTp(close_takes_over_from_a_loop_that_was_stopped, false);
    RUN_TESTp(close_takes_over_from_a_loop_that_was_stopped, true);
    for (int kind = NOBODY; kind <= ANOTHER_THREAD; kind++) {
        RUN_TESTp(close_races_with_all_that_others_do_and_each_has_one_outcome,
                  LOOP_SCHEDULER_DRAIN, kind, 0);
        RUN_TESTp(close_races_with_all_that_others_do_and_each_has_one_outcome, LOOP_SCHEDULER_NOW,
                  kind, 0);
        RUN_TESTp(close_races_with_all_that_others_do_and_each_has_one_outcome, LOOP_SCHEDULER_NOW,
                  kind, 3);
    }
    RUN_TEST(a_loop_whose_tasks_run_and_post_can_be_closed_at_any_time);
    RUN_TEST(destroy_is_refused_while_anything_is_left);
    RUN_TESTp(who_waits_for_a_thread_to_stop_is_told_of_a_close, START);
    RUN_TESTp(who_waits_for_a_thread_to_stop_is_told_of_a_close, DESTROY);
    RUN_TESTp(memory_may_go_as_soon_as_destroy_has_returned, LOOP_SCHEDULER_DRAIN);
    RUN_TESTp(memory_may_go_as_soon_as_destroy_has_returned, LOOP_SCHEDULER_NOW);
}

SUITE(work_elsewhere_suite)
{
    SET_SETUP(remember_blocks, NULL);
    RUN_TEST(work_runs_elsewhere_and_comes_back_to_the_loop);
    RUN_TEST(then_is_always_a_task_of_its_own);
    RUN_TESTp(what_the_executor_refuses_is_told_and_never_comes_back, EAGAIN);
    RUN_TESTp(what_the_executor_refuses_is_told_and_never_comes_back, ENOSPC);
    RUN_TEST(work_that_is_not_back_is_not_taken_again);
    RUN_TEST(nothing_need_be_called_when_work_is_done);
    RUN_TEST(work_that_has_not_begun_can_be_cancelled);
    RUN_TEST(work_that_runs_or_has_run_cannot_be_cancelled);
    RUN_TEST(a_cancel_races_with_the_work_and_one_of_them_wins);
    RUN_TESTp(close_waits_for_work_and_tells_it, LOOP_SCHEDULER_DRAIN, false);
    RUN_TESTp(close_waits_for_work_and_tells_it, LOOP_SCHEDULER_DRAIN, true);
    RUN_TESTp(close_waits_for_work_and_tells_it, LOOP_SCHEDULER_NOW, false);
    RUN_TESTp(close_waits_for_work_and_tells_it, LOOP_SCHEDULER_NOW, true);
    RUN_TESTp(a_drain_brings_back_what_its_tasks_offload, NOBODY);
    RUN_TESTp(a_drain_brings_back_what_its_tasks_offload, OWN_THREAD);
    RUN_TESTp(a_loop_that_is_closed_ends_when_the_last_work_is_refused, LOOP_SCHEDULER_DRAIN,
              NOBODY);
    RUN_TESTp(a_loop_that_is_closed_ends_when_the_last_work_is_refused, LOOP_SCHEDULER_DRAIN,
              OWN_THREAD);
    RUN_TESTp(a_loop_that_is_closed_ends_when_the_last_work_is_refused, LOOP_SCHEDULER_NOW,
              OWN_THREAD);
    RUN_TEST(work_may_be_freed_when_it_is_back);
    RUN_TEST(a_bulkhead_does_the_work_of_a_loop);
    RUN_TESTp(a_loop_is_an_executor_for_others, LOOP_SCHEDULER_DRAIN);
    RUN_TESTp(a_loop_is_an_executor_for_others, LOOP_SCHEDULER_NOW);
    RUN_TEST(as_an_executor_a_loop_refuses_as_post_does);
    RUN_TESTp(one_loop_does_the_work_of_another, LOOP_SCHEDULER_DRAIN);
    RUN_TESTp(one_loop_does_the_work_of_another, LOOP_SCHEDULER_NOW);
}

SUITE(coroutines_suite)
{
    SET_SETUP(remember_blocks, NULL);
    RUN_TEST(a_coroutine_waits_for_an_event);
    RUN_TEST(an_event_stays_set_until_it_is_reset);
    RUN_TEST(who_awaits_an_event_goes_on_after_the_task_that_sets_it);
    RUN_TEST(awaiting_may_take_too_long);
    RUN_TESTp(awaiting_without_time_is_only_a_look, 0);
    RUN_TESTp(awaiting_without_time_is_only_a_look, INT64_MIN);
    RUN_TEST(awaiting_for_ever_has_no_end);
    RUN_TEST(a_coroutine_never_sleeps_too_short);
    RUN_TESTp(a_sleep_of_nothing_is_until_the_next_turn, 0);
    RUN_TESTp(a_sleep_of_nothing_is_until_the_next_turn, -1);
    RUN_TEST(coroutines_that_yield_take_turns);
    RUN_TEST(a_coroutine_may_have_work_done_elsewhere);
    RUN_TEST(a_coroutine_waits_for_its_work_and_no_longer);
    RUN_TEST(a_refused_offload_does_not_suspend);
    RUN_TEST(a_coroutine_may_end_anywhere);
    RUN_TEST(bad_coroutines_are_refused);
    RUN_TEST(a_coroutine_may_be_freed_when_it_is_done);
    RUN_TEST(a_coroutine_may_begin_again_when_it_is_done);
    RUN_TEST(a_coroutine_may_begin_another_and_wait_for_it);
    RUN_TEST(a_thousand_coroutines_wait_at_once);
    RUN_TEST(a_long_chain_of_coroutines_needs_no_deep_stack);
    RUN_TEST(a_long_chain_of_tasks_needs_no_deep_stack);
    RUN_TESTp(close_resumes_who_waits_with_ecanceled, LOOP_SCHEDULER_DRAIN, NOBODY);
    RUN_TESTp(close_resumes_who_waits_with_ecanceled, LOOP_SCHEDULER_DRAIN, OWN_THREAD);
    RUN_TESTp(close_resumes_who_waits_with_ecanceled, LOOP_SCHEDULER_NOW, NOBODY);
    RUN_TESTp(close_resumes_who_waits_with_ecanceled, LOOP_SCHEDULER_NOW, OWN_THREAD);
    RUN_TESTp(who_waits_again_while_the_loop_is_closed_is_told_again, LOOP_SCHEDULER_DRAIN);
    RUN_TESTp(who_waits_again_while_the_loop_is_closed_is_told_again, LOOP_SCHEDULER_NOW);
    RUN_TESTp(a_coroutine_that_has_not_begun_does_so_only_if_the_loop_drains, LOOP_SCHEDULER_DRAIN,
              NOBODY);
    RUN_TESTp(a_coroutine_that_has_not_begun_does_so_only_if_the_loop_drains, LOOP_SCHEDULER_DRAIN,
              OWN_THREAD);
    RUN_TESTp(a_coroutine_that_has_not_begun_does_so_only_if_the_loop_drains, LOOP_SCHEDULER_NOW,
              NOBODY);
    RUN_TESTp(a_coroutine_that_has_not_begun_does_so_only_if_the_loop_drains, LOOP_SCHEDULER_NOW,
              OWN_THREAD);
    RUN_TESTp(a_drain_waits_for_events_that_its_tasks_will_set, NOBODY);
    RUN_TESTp(a_drain_waits_for_events_that_its_tasks_will_set, OWN_THREAD);
    RUN_TEST(coroutines_go_on_while_the_loop_drains);
    RUN_TESTp(a_coroutine_whose_work_is_elsewhere_is_told_of_the_end, LOOP_SCHEDULER_DRAIN);
    RUN_TESTp(a_coroutine_whose_work_is_elsewhere_is_told_of_the_end, LOOP_SCHEDULER_NOW);
    RUN_TEST(coroutines_of_two_loops_may_await_one_event);
    RUN_TEST(no_set_of_an_event_is_ever_lost);
    RUN_TEST(a_set_races_with_the_timeout_and_one_of_them_wins);
    RUN_TEST(an_event_may_be_freed_by_whoever_it_lets_go_on);
}

SUITE(health_suite)
{
    SET_SETUP(remember_blocks, NULL);
    RUN_TEST(a_slow_task_is_told_with_its_duration);
    RUN_TEST(a_slow_timer_or_call_is_told_without_a_task);
    RUN_TEST(a_slow_task_needs_nobody_to_be_told);
    RUN_TEST(stall_tells_what_runs_and_for_how_long);
    RUN_TEST(stall_grows_while_a_task_is_stuck_on_the_real_clock);
    RUN_TEST(figures_agree_with_what_happened);
    RUN_TEST(time_in_tasks_is_busy);
    RUN_TEST(time_asleep_is_idle);
    RUN_TESTp(figures_are_of_one_instant, 0);
    RUN_TESTp(figures_are_of_one_instant, 4);
}

SUITE(what_is_promised_throughout_suite)
{
    SET_SETUP(remember_blocks, NULL);
    RUN_TEST(errno_is_left_alone);
    RUN_TEST(nothing_is_allocated_but_for_an_executor);
    RUN_TEST(a_timeout_is_by_the_real_clock_even_if_the_loops_stands_still);
    RUN_TEST(two_loops_play_ping_pong);
    RUN_TESTp(eight_threads_hammer_and_no_task_is_lost_or_out_of_order, 0, 100000);
    RUN_TESTp(eight_threads_hammer_and_no_task_is_lost_or_out_of_order, 5, 20000);
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    RUN_SUITE(options_suite);
    RUN_SUITE(posting_suite);
    RUN_SUITE(order_and_turns_suite);
    RUN_SUITE(wake_ups_suite);
    RUN_SUITE(limits_suite);
    RUN_SUITE(cancel_suite);
    RUN_SUITE(calls_suite);
    RUN_SUITE(waits_that_could_never_end_suite);
    RUN_SUITE(timers_suite);
    RUN_SUITE(periods_suite);
    RUN_SUITE(running_suite);
    RUN_SUITE(close_suite);
    RUN_SUITE(work_elsewhere_suite);
    RUN_SUITE(coroutines_suite);
    RUN_SUITE(health_suite);
    RUN_SUITE(what_is_promised_throughout_suite);
    GREATEST_MAIN_END();
}
