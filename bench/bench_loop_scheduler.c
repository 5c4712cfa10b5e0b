/* SPDX-License-Identifier: MIT
 *
 * loop_scheduler.h beside the bare mechanism and beside its peers.
 *
 *     bench/build.sh && build/bench/bench_loop_scheduler [--quick] [--scenario NAME] [--reps N]
 *                                                        [--ms N] [--json FILE]
 *
 * The method is described in report.h. Go and Java cannot run in this process: children.h.
 *
 *   awake         one thread posts to a loop that is held in a task, so nobody is woken; what is
 *                 reported is the median of many batches
 *   throughput    producers post tasks that count and work for some nanoseconds; 1024 tasks each,
 *                 which are used again when they have run
 *   wakeup        from the post to the first instruction of the task, when the loop has been idle
 *                 for so long that it sleeps; the thread that posts does not. On two CPUs, of which
 *                 one must be woken first, and on one, where less hides what the loop costs. Go's
 *                 threads cannot be told where to run
 *   call          a thread calls a function on the loop and waits for it
 *   depth         the same as awake, by how many tasks wait
 *   timers        the loop's own thread starts so many timers, with deadlines in the next minute,
 *                 cancels them in random order, starts them again, and calls all of them when they
 *                 are due at once; CPU time of the thread. Where cancelling is told by a call (ours
 *                 and asio) that is part of its cost. So that all are due, we and libuv have the
 *                 clock advanced, GLib and asio get deadlines that have passed, and Java, where a
 *                 delay cannot be negative, is kept busy until delays of up to 10 ms are over
 *   remote        timers started and cancelled by another thread; we alone
 *   allocations   calls of malloc during all of that, once it is warm
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "../loop_scheduler.h"
#include "loop_peers.h"

#include <stdio.h>

/* ---- The limits ----------------------------------------------------------------------------- */

#define BENCH_ID limit_cas
#define BENCH_LABEL "limit: CAS push"
#define BENCH_KIND BENCH_LIMIT
#define BENCH_SCENARIOS (AWAKE | DEPTH)
#define BENCH_TYPE limit_stack
#define BENCH_CREATE(s, producers) limit_stack_create(s)
#define BENCH_DESTROY(s) (void)(s)
#define BENCH_TASK peer_task
#define BENCH_PREPARE(task, body, where) peer_prepare(task, body, where)
#define BENCH_POST(s, task, producer) (void)limit_push(s, task)
#define BENCH_CALL(s, task) limit_call(s, task)
#define BENCH_RUN(s) limit_run_awake(s)
#define BENCH_END(s) limit_end(s)
#include "loop_loops.h"

#define BENCH_ID limit_mpsc
#define BENCH_LABEL "limit: CAS stack + futex"
#define BENCH_KIND BENCH_LIMIT
#define BENCH_SCENARIOS ALL_OF_A_LOOP
#define BENCH_TYPE limit_stack
#define BENCH_CREATE(s, producers) limit_stack_create(s)
#define BENCH_DESTROY(s) (void)(s)
#define BENCH_TASK peer_task
#define BENCH_PREPARE(task, body, where) peer_prepare(task, body, where)
#define BENCH_POST(s, task, producer) limit_post(s, task)
#define BENCH_CALL(s, task) limit_call(s, task)
#define BENCH_RUN(s) limit_run(s)
#define BENCH_END(s) limit_end(s)
#include "loop_loops.h"

#define BENCH_ID limit_wake
#define BENCH_LABEL "limit: futex"
#define BENCH_KIND BENCH_LIMIT
#define BENCH_SCENARIOS (WAKE | WAKE_PINNED | CALL)
#define BENCH_TYPE limit_word
#define BENCH_CREATE(s, producers) (void)(s)
#define BENCH_DESTROY(s) (void)(s)
#define BENCH_TASK peer_task
#define BENCH_PREPARE(task, body, where) peer_prepare(task, body, where)
#define BENCH_POST(s, task, producer) limit_word_post(s, task)
#define BENCH_CALL(s, task) limit_word_call(s, task)
#define BENCH_RUN(s) limit_word_run(s)
#define BENCH_END(s) limit_word_post(s, NULL)
#include "loop_loops.h"

/* The least that timers can cost which start now and may be cancelled: a look at the clock, and a
 * list in no order. As large as ours, because what many of them cost is memory. */
typedef struct limit_timer {
    struct limit_timer *next, *before;
    void (*fn)(struct limit_timer *timer, uint64_t *fired);
    int64_t due;
    char rest[sizeof(loop_scheduler_timer) - 4 * sizeof(int64_t)];
} limit_timer;

typedef struct limit_timers {
    limit_timer all;
    uint64_t fired;
} limit_timers;

static void limit_fired(limit_timer *timer, uint64_t *fired)
{
    (void)timer;
    ++*fired;
}

static void limit_timers_insert(limit_timers *t, limit_timer *timer, int64_t delay_ns)
{
    timer->due = bench_clock(CLOCK_MONOTONIC) + delay_ns;
    timer->next = &t->all;
    timer->before = t->all.before;
    t->all.before->next = timer;
    t->all.before = timer;
}

static void limit_timers_cancel(limit_timer *timer)
{
    timer->before->next = timer->next;
    timer->next->before = timer->before;
}

static void limit_timers_fire(limit_timers *t, uint64_t count)
{
    for (t->fired = 0; t->all.next != &t->all;) {
        limit_timer *first = t->all.next;
        limit_timers_cancel(first);
        first->fn(first, &t->fired);
    }
    must(t->fired != count);
}

#define BENCH_ID limit_of_timers
#define BENCH_LABEL "limit: clock, bare list"
#define BENCH_KIND BENCH_LIMIT
#define BENCH_SCENARIOS TIMERS
#define BENCH_TYPE limit_timers
#define BENCH_CREATE(s, producers) (s)->all.next = (s)->all.before = &(s)->all
#define BENCH_DESTROY(s) (void)(s)
#define BENCH_TIMER limit_timer
#define BENCH_PREPARE(s, timer) (timer)->fn = limit_fired
#define BENCH_ON_LOOP(s, fn, arg) fn(arg)
#define BENCH_INSERT(s, timer, delay_ns) limit_timers_insert(s, timer, delay_ns)
#define BENCH_CANCEL(s, timer) limit_timers_cancel(timer)
#define BENCH_TELL(s, count) (void)(count)
#define BENCH_INSERT_DUE(s, timer, delay_ns) BENCH_INSERT(s, timer, delay_ns)
#define BENCH_FIRE(s, count) limit_timers_fire(s, count)
#include "loop_loops.h"

/* ---- We ------------------------------------------------------------------------------------- */

typedef struct our_task {
    loop_scheduler_task is;
    uint32_t state;
} our_task;

static void our_count(loop_scheduler_task *task, int status)
{
    must(status);
    count_body(task->arg, &((our_task *)task)->state);
}

static void our_stamp(loop_scheduler_task *task, int status)
{
    must(status);
    stamp_body(task->arg, &((our_task *)task)->state);
}

static void our_gate(loop_scheduler_task *task, int status)
{
    must(status);
    gate_body(task->arg, &((our_task *)task)->state);
}

static void our_prepare(our_task *task, int body, uint64_t *where)
{
    static void (*const bodies[])(loop_scheduler_task *, int) = {
        [COUNT_BODY] = our_count,
        [STAMP_BODY] = our_stamp,
        [GATE_BODY] = our_gate,
        [CALL_BODY] = our_count, /* called, not posted */
    };
    task->is.run = bodies[body];
    task->is.arg = where;
}

static int count_call(void *arg)
{
    ++*(uint64_t *)arg;
    return 0;
}

static void create_ours(loop_scheduler *l, uint32_t max_queue)
{
    loop_scheduler_options wanted = {.max_queue = max_queue};
    must(loop_scheduler_init(l, &wanted));
}

static void destroy_ours(loop_scheduler *l)
{
    must(loop_scheduler_close(l, LOOP_SCHEDULER_DRAIN, PLIM_FOREVER));
    must(loop_scheduler_destroy(l));
}

#define BENCH_ID ours
#define BENCH_LABEL "loop_scheduler"
#define BENCH_KIND BENCH_OURS
#define BENCH_SCENARIOS ALL_OF_A_LOOP
#define BENCH_TYPE loop_scheduler
#define BENCH_CREATE(s, producers) create_ours(s, 0)
#define BENCH_DESTROY(s) destroy_ours(s)
#define BENCH_TASK our_task
#define BENCH_PREPARE(task, body, where) our_prepare(task, body, where)
#define BENCH_POST(s, task, producer) must(loop_scheduler_post(s, &(task)->is))
#define BENCH_CALL(s, task) must(loop_scheduler_call(s, count_call, (task)->is.arg, NULL))
#define BENCH_RUN(s) must(loop_scheduler_run(s))
#define BENCH_END(s) loop_scheduler_stop(s)
#include "loop_loops.h"

#define BENCH_ID ours_bounded
#define BENCH_LABEL "loop_scheduler, max_queue"
#define BENCH_KIND BENCH_OURS
#define BENCH_SCENARIOS (AWAKE | FLOOD | DEPTH)
#define BENCH_TYPE loop_scheduler
#define BENCH_CREATE(s, producers) create_ours(s, 2 * PRODUCERS_MAX * RING) /* never reached */
#define BENCH_DESTROY(s) destroy_ours(s)
#define BENCH_TASK our_task
#define BENCH_PREPARE(task, body, where) our_prepare(task, body, where)
#define BENCH_POST(s, task, producer) must(loop_scheduler_post(s, &(task)->is))
#define BENCH_CALL(s, task) must(loop_scheduler_call(s, count_call, (task)->is.arg, NULL))
#define BENCH_RUN(s) must(loop_scheduler_run(s))
#define BENCH_END(s) loop_scheduler_stop(s)
#include "loop_loops.h"

/* The loop's own thread posts: a task that posts a batch, which runs after it. */
typedef struct burst {
    our_task is;
    ours_object *object;
    bench_thread *self;
} burst;

static void our_burst(loop_scheduler_task *task, int status)
{
    burst *b = (burst *)(void *)task;
    our_task *tasks = b->object->tasks;
    must(status);
    for (int i = 0; i < BATCH; i++) {
        tasks[i].state = PENDING;
    }
    uint64_t before = bench_ticks();
    for (int i = 0; i < BATCH; i++) {
        must(loop_scheduler_post(&b->object->is, &tasks[i].is));
    }
    take_sample(b->self, bench_ticks() - before);
    become(&b->is.state, DONE);
}

static void ours_own_awake(bench_thread *self)
{
    ours_object *o = self->run->first;
    burst b = {.is = {.is = {.run = our_burst}}, .object = o, .self = self};
    uint64_t sent = 0;
    for (int i = 0; i < BATCH; i++) {
        our_prepare(&o->tasks[i], COUNT_BODY, &o->ran);
    }
    do {
        b.is.state = PENDING;
        must(loop_scheduler_post(&o->is, &b.is.is));
        until(&b.is.state, DONE);
        until(&o->tasks[BATCH - 1].state, DONE);
        sent += BATCH;
    } while (bench_phase(self->run) != BENCH_STOP);
    ours_leave(o, sent);
}

static const contestant ours_own = {
    .label = "loop_scheduler, own thread",
    .kind = BENCH_OURS,
    .scenarios = AWAKE,
    .create = ours_create,
    .destroy = ours_destroy,
    .loop = ours_loop,
    .awake = ours_own_awake,
};

/* The clock is the one that we would read, and can be advanced. */
typedef struct our_timers {
    loop_scheduler loop;
    int64_t ahead;
    uint64_t fired, cancelled;
    loop_scheduler_task setter;
    void (*fn)(void *);
    void *arg;
} our_timers;

static int64_t our_timers_clock(void *user)
{
    return bench_clock(CLOCK_MONOTONIC) + ((our_timers *)user)->ahead;
}

static void our_timers_run(loop_scheduler_timer *timer, int status)
{
    our_timers *t = timer->arg;
    if (status == 0) {
        t->fired++;
    } else {
        t->cancelled++;
    }
}

static void our_timers_set(loop_scheduler_task *task, int status)
{
    our_timers *t = task->arg;
    must(status);
    t->fn(t->arg);
}

static void our_timers_create(our_timers *t)
{
    loop_scheduler_options wanted = {.clock = our_timers_clock, .user = t};
    must(loop_scheduler_init(&t->loop, &wanted));
    t->setter.run = our_timers_set;
    t->setter.arg = t;
}

static void our_timers_on_loop(our_timers *t, void (*fn)(void *), void *arg)
{
    t->fn = fn;
    t->arg = arg;
    must(loop_scheduler_post(&t->loop, &t->setter));
    must(loop_scheduler_poll(&t->loop));
}

static void our_timers_turn(our_timers *t, uint64_t *counter, uint64_t count)
{
    while (*counter < count) {
        must(loop_scheduler_poll(&t->loop));
    }
    *counter = 0;
}

#define BENCH_ID ours_timers
#define BENCH_LABEL "loop_scheduler"
#define BENCH_KIND BENCH_OURS
#define BENCH_SCENARIOS TIMERS
#define BENCH_TYPE our_timers
#define BENCH_CREATE(s, producers) our_timers_create(s)
#define BENCH_DESTROY(s) destroy_ours(&(s)->loop)
#define BENCH_TIMER loop_scheduler_timer
#define BENCH_PREPARE(s, timer) ((timer)->run = our_timers_run, (timer)->arg = (s))
#define BENCH_ON_LOOP(s, fn, arg) our_timers_on_loop(s, fn, arg)
#define BENCH_INSERT(s, timer, delay_ns) \
    must(loop_scheduler_timer_start(&(s)->loop, timer, delay_ns, 0))
#define BENCH_CANCEL(s, timer) must(loop_scheduler_timer_cancel(&(s)->loop, timer))
#define BENCH_TELL(s, count) our_timers_turn(s, &(s)->cancelled, count)
#define BENCH_INSERT_DUE(s, timer, delay_ns) BENCH_INSERT(s, timer, delay_ns)
#define BENCH_FIRE(s, count) (s)->ahead += DELAY_MAX_NS, our_timers_turn(s, &(s)->fired, count)
#include "loop_loops.h"

/* ---- The peers ------------------------------------------------------------------------------ */

#define BENCH_ID peer_mutex
#define BENCH_LABEL "mutex+cond list"
#define BENCH_KIND BENCH_PEER
#define BENCH_SCENARIOS ALL_OF_A_LOOP
#define BENCH_TYPE mutex_loop
#define BENCH_CREATE(s, producers) mutex_loop_create(s)
#define BENCH_DESTROY(s) mutex_loop_destroy(s)
#define BENCH_TASK peer_task
#define BENCH_PREPARE(task, body, where) peer_prepare(task, body, where)
#define BENCH_POST(s, task, producer) mutex_loop_post(s, task)
#define BENCH_CALL(s, task) mutex_loop_call(s, task)
#define BENCH_RUN(s) mutex_loop_run(s)
#define BENCH_END(s) mutex_loop_end(s)
#include "loop_loops.h"

#ifdef HAVE_UV_LOOP
#define BENCH_ID peer_uv
#define BENCH_LABEL "libuv uv_async_send"
#define BENCH_KIND BENCH_PEER
#define BENCH_SCENARIOS ALL_OF_A_LOOP
#define BENCH_TYPE uv_list_loop
#define BENCH_CREATE(s, producers) uv_list_loop_create(s)
#define BENCH_DESTROY(s) uv_list_loop_destroy(s)
#define BENCH_TASK peer_task
#define BENCH_PREPARE(task, body, where) peer_prepare(task, body, where)
#define BENCH_POST(s, task, producer) uv_list_loop_post(s, task)
#define BENCH_CALL(s, task) uv_list_loop_call(s, task)
#define BENCH_RUN(s) uv_list_loop_run(s)
#define BENCH_END(s) uv_list_loop_end(s)
#include "loop_loops.h"

#define BENCH_ID peer_uv_timers
#define BENCH_LABEL "libuv uv_timer"
#define BENCH_KIND BENCH_PEER
#define BENCH_SCENARIOS TIMERS
#define BENCH_TYPE uv_timers
#define BENCH_CREATE(s, producers) uv_timers_create(s)
#define BENCH_DESTROY(s) uv_timers_destroy(s)
#define BENCH_TIMER uv_timer_t
#define BENCH_PREPARE(s, timer) uv_timers_prepare(s, timer)
#define BENCH_ON_LOOP(s, fn, arg) fn(arg)
#define BENCH_INSERT(s, timer, delay_ns) uv_timers_insert(timer, delay_ns)
#define BENCH_CANCEL(s, timer) must(uv_timer_stop(timer))
#define BENCH_TELL(s, count) (void)(count) /* it tells nobody */
#define BENCH_INSERT_DUE(s, timer, delay_ns) uv_timers_insert_due(s, timer, delay_ns)
#define BENCH_FIRE(s, count) uv_timers_fire(s, count)
#include "loop_loops.h"
#endif

#ifdef HAVE_GLIB
#define BENCH_ID peer_glib
#define BENCH_LABEL "GLib main context"
#define BENCH_KIND BENCH_PEER
#define BENCH_SCENARIOS ALL_OF_A_LOOP
#define BENCH_TYPE glib_loop
#define BENCH_CREATE(s, producers) glib_loop_create(s)
#define BENCH_DESTROY(s) glib_loop_destroy(s)
#define BENCH_TASK peer_task
#define BENCH_PREPARE(task, body, where) peer_prepare(task, body, where)
#define BENCH_POST(s, task, producer) glib_loop_post(s, task)
#define BENCH_CALL(s, task) glib_loop_call(s, task)
#define BENCH_RUN(s) g_main_loop_run((s)->loop)
#define BENCH_END(s) g_main_loop_quit((s)->loop)
#include "loop_loops.h"

#define BENCH_ID peer_glib_timers
#define BENCH_LABEL "GLib timeout source"
#define BENCH_KIND BENCH_PEER
#define BENCH_SCENARIOS TIMERS
#define BENCH_TYPE glib_timers
#define BENCH_CREATE(s, producers) glib_timers_create(s)
#define BENCH_DESTROY(s) glib_timers_destroy(s)
#define BENCH_TIMER glib_timer
#define BENCH_PREPARE(s, timer) (timer)->all = (s)
#define BENCH_ON_LOOP(s, fn, arg) fn(arg)
#define BENCH_INSERT(s, timer, delay_ns) glib_timers_insert(timer, delay_ns)
#define BENCH_CANCEL(s, timer) glib_timers_cancel(timer)
#define BENCH_TELL(s, count) (void)(count) /* it tells nobody */
#define BENCH_INSERT_DUE(s, timer, delay_ns) glib_timers_insert_due(timer, delay_ns)
#define BENCH_FIRE(s, count) glib_timers_fire(s, count)
#include "loop_loops.h"
#endif

/* build.sh says where it has put the programs that it could build. */
static bench_child children[] = {
#ifdef HAVE_GO_LOOP
    {.name = "Go channel", .command = {BENCH_DIRECTORY "/loop_peer_go"}},
#endif
#ifdef HAVE_JAVA_LOOP
    {.name = "Java single-thread executor",
     .command = {"java", "-cp", BENCH_DIRECTORY "/java", "LoopPeer"}},
#endif
    {.name = NULL},
};
enum {
    CHILDREN = sizeof children / sizeof children[0] - 1,
    GO = 0,
#ifdef HAVE_GO_LOOP
    JAVA = GO + 1,
#else
    JAVA = GO,
#endif
};

#ifdef HAVE_GO_LOOP
static const contestant go = {
    .label = "Go channel",
    .kind = BENCH_PEER,
    .scenarios = AWAKE | FLOOD | WAKE | CALL,
    .child = &children[GO],
    .variant = "plain",
};
#endif
#ifdef HAVE_JAVA_LOOP
static const contestant java = {
    .label = "Java executor",
    .kind = BENCH_PEER,
    .scenarios = AWAKE | FLOOD | WAKE | WAKE_PINNED | CALL,
    .child = &children[JAVA],
    .variant = "plain",
};
static const contestant java_timers = {
    .label = "Java scheduled executor",
    .kind = BENCH_PEER,
    .scenarios = TIMERS,
    .child = &children[JAVA],
    .variant = "plain",
};
#endif

/* We against ourselves: a row is a number of timers, */
#define SIZE(text, size) \
    { \
        .label = text, .kind = BENCH_OURS, .scenarios = REMOTE, .parameter = size \
    }
enum { TIMERS_MAX = 1000000 };
static const contestant by_count[] = {
    SIZE("1000 timers", 1000),
    SIZE("10000 timers", 10000),
    SIZE("100000 timers", 100000),
    SIZE("1000000 timers", TIMERS_MAX),
};
/* or another of the things that must not allocate, with one producer. */
static const contestant mallocs_of_wake = {
    .label = "loop_scheduler, asleep",
    .kind = BENCH_OURS,
    .scenarios = MALLOCS,
    .create = ours_create,
    .destroy = ours_destroy,
    .loop = ours_loop,
    .flood = ours_wake,
    .parameter = 1,
};
static const contestant mallocs_of_calls = {
    .label = "loop_scheduler, call",
    .kind = BENCH_OURS,
    .scenarios = MALLOCS,
    .create = ours_create,
    .destroy = ours_destroy,
    .loop = ours_loop,
    .flood = ours_calls,
    .parameter = 1,
};
static const contestant mallocs_of_timers = {
    .label = "loop_scheduler, timers",
    .kind = BENCH_OURS,
    .scenarios = MALLOCS,
    .timers = ours_timers_timers,
};

static const contestant *const contestants[] = {
    &limit_cas,
    &limit_mpsc,
    &limit_wake,
    &limit_of_timers,
    &ours,
    &ours_bounded,
    &ours_own,
    &ours_timers,
    &peer_mutex,
#ifdef HAVE_UV_LOOP
    &peer_uv,
    &peer_uv_timers,
#endif
#ifdef HAVE_GLIB
    &peer_glib,
    &peer_glib_timers,
#endif
#ifdef HAVE_ASIO
    &peer_asio,
    &peer_asio_timers,
#endif
#ifdef HAVE_MOODYCAMEL
    &peer_moodycamel,
#endif
#ifdef HAVE_GO_LOOP
    &go,
#endif
#ifdef HAVE_JAVA_LOOP
    &java,
    &java_timers,
#endif
    &by_count[0],
    &by_count[1],
    &by_count[2],
    &by_count[3],
    &mallocs_of_wake,
    &mallocs_of_calls,
    &mallocs_of_timers,
};
enum { CONTESTANTS = sizeof contestants / sizeof contestants[0] };

/* With room for the children that were built, but do not start. */
static const char *skipped[16] = {
#ifndef HAVE_UV_LOOP
    "libuv (libuv1-dev is not installed)",
#endif
#ifndef HAVE_GLIB
    "GLib main context (libglib2.0-dev is not installed)",
#endif
#ifndef HAVE_ASIO
    "asio (libasio-dev is not installed)",
#endif
#ifndef HAVE_MOODYCAMEL
    "BlockingConcurrentQueue (libconcurrentqueue-dev is not installed)",
#endif
#ifndef HAVE_GO_LOOP
    "Go channel (golang-go is not installed)",
#endif
#ifndef HAVE_JAVA_LOOP
    "Java executors (default-jdk-headless is not installed)",
#endif
#ifndef COUNTS_MALLOCS
    "allocations (only glibc's malloc can be counted)",
#endif
    NULL,
};

#include "report.h"
#include "children.h"
#include "mallocs.h"

/* ---- Repetitions of each scenario ----------------------------------------------------------- */

static loop_samples samples;

typedef void (*body_of)(bench_thread *self);

/* Where the producers run, and where the loop does: CPUs, counted from 0, or anywhere. */
typedef struct placement {
    int producers, loop;
} placement;

static const placement anywhere = {-1, -1};

/* Each alone; anywhere if there is but one CPU. */
static placement apart(void)
{
    return nth_cpu(1) < 0 ? anywhere : (placement){nth_cpu(0), nth_cpu(1)};
}

static placement together(void)
{
    return (placement){nth_cpu(0), nth_cpu(0)};
}

/* The producers, and the loop on a thread of its own. */
static window run_loop(const contestant *who, body_of body, int producers, placement at, int ms)
{
    run.phase = BENCH_WARM; /* nothing that create does is counted */
    run.first = who->create(producers);
    run.second = &samples;
    samples.count = 0;
    for (int i = 0; i <= producers; i++) {
        threads[i].body = i < producers ? body : who->loop;
        threads[i].cpu = i < producers ? at.producers : at.loop;
    }
    window w = run_threads(producers + 1, ms);
    who->destroy(run.first);
    return w;
}

/* The same of a child. */
static void ask_loop(const contestant *who, const char *what, int producers, int parameter,
                     placement at, double out[])
{
    ask(who, out, "%s %d %d %d %d %d", what, producers, parameter, at.producers, at.loop,
        options.ms);
}

static int ascending_ticks(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* In nanoseconds; what lasted longer than the repetition has no sample, and no number. */
static double sample_at(double part)
{
    if (samples.count == 0) {
        return (double)NAN;
    }
    qsort(samples.ticks, samples.count, sizeof samples.ticks[0], ascending_ticks);
    return samples.ticks[(uint64_t)(part * (double)(samples.count - 1))] * ns_per_tick;
}

static void measure_awake(const contestant *who, const table *t, double out[])
{
    if (who->child != NULL) {
        ask_loop(who, "awake", t->threads, t->capacity, anywhere, out);
        return;
    }
    run.batch = t->capacity;
    run_loop(who, who->awake, t->threads, anywhere, options.ms);
    out[0] = sample_at(0.5) / t->capacity;
}

/* One producer and the loop have a CPU each. A wake-up might else put both on the same one, and
 * leave them there for long. */
static void measure_flood(const contestant *who, const table *t, double out[])
{
    placement at = t->threads == 1 ? apart() : anywhere;
    if (who->child != NULL) {
        ask_loop(who, "flood", t->threads, RING, at, out);
        return;
    }
    window w = run_loop(who, who->flood, t->threads, at, options.ms);
    out[0] = w.wall_ns / w.ops;
    out[1] = w.cpu_ns / w.ops;
}

static void measure_wake(const contestant *who, const table *t, double out[])
{
    placement at = t->capacity == 1 ? together() : apart();
    if (who->child != NULL) {
        ask_loop(who, "wake", t->threads, ASLEEP_AFTER_US, at, out);
        return;
    }
    run_loop(who, who->wake, t->threads, at, options.ms);
    out[0] = sample_at(0.5);
    out[1] = sample_at(0.99);
}

static void measure_calls(const contestant *who, const table *t, double out[])
{
    if (who->child != NULL) {
        ask_loop(who, "call", t->threads, 1, anywhere, out);
        return;
    }
    window w = run_loop(who, who->calls, t->threads, anywhere, options.ms);
    out[0] = w.wall_ns / w.ops;
    out[1] = w.cpu_ns / w.ops;
}

/* ---- Timers --------------------------------------------------------------------------------- */

static uint64_t next_random(uint64_t *state)
{
    uint64_t x = *state += 0x9e3779b97f4a7c15;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return x ^ x >> 31;
}

static int timers_max(void)
{
    return is_short() ? TIMERS_MAX / 10 : TIMERS_MAX;
}

/* The same for everybody, and in each repetition. */
static timer_plan plan_timers(int count)
{
    static int64_t delay[TIMERS_MAX];
    static uint32_t order[TIMERS_MAX];
    uint64_t random = 1;
    for (uint32_t i = 0; i < (uint32_t)count; i++) {
        uint64_t spread = (uint64_t)(DELAY_MAX_NS - DELAY_MIN_NS);
        delay[i] = DELAY_MIN_NS + (int64_t)(next_random(&random) % spread);
        uint32_t k = (uint32_t)(next_random(&random) % (i + 1));
        order[i] = order[k];
        order[k] = i;
    }
    return (timer_plan){.count = (uint64_t)count,
                        .delay_ns = delay,
                        .order = order,
                        .least_ns = least_batch_ms() * 1e6};
}

static void measure_timers(const contestant *who, const table *t, double out[])
{
    if (who->child != NULL) {
        double fire[2];
        ask(who, out, "cancel %d %d", t->capacity, least_batch_ms());
        ask(who, fire, "fire %d %d", t->capacity, least_batch_ms());
        out[2] = fire[0];
        return;
    }
    timer_plan plan = plan_timers(t->capacity);
    alarm(120);
    who->timers(&plan, out);
    alarm(0);
}

typedef struct remote {
    loop_scheduler loop;
    BENCH_ALIGNED uint64_t cancelled;
} remote;

static void remote_run(loop_scheduler_timer *timer, int status)
{
    must(status != ECANCELED);
    ((remote *)timer->arg)->cancelled++;
}

static int remote_cancelled(void *arg)
{
    return (int)((remote *)arg)->cancelled;
}

/* What the calls cost their thread, and the time until the loop has done its part of it. */
static void measure_remote(const contestant *who, const table *t, double out[])
{
    if (who->parameter > timers_max()) {
        out[0] = out[1] = out[2] = out[3] = (double)NAN;
        return;
    }
    timer_plan plan = plan_timers(who->parameter);
    remote *r = bench_memory(sizeof *r);
    loop_scheduler_timer *timers = bench_memory(plan.count * sizeof timers[0]);
    double sum[4] = {0}, passes = 0;
    (void)t;
    memset(timers, 0, plan.count * sizeof timers[0]);
    for (uint64_t i = 0; i < plan.count; i++) {
        timers[i].run = remote_run;
        timers[i].arg = r;
    }
    create_ours(&r->loop, 0);
    must(loop_scheduler_start(&r->loop));
    alarm(120);
    for (bool warm = false; !warm || sum[1] + sum[3] < plan.least_ns; warm = true) {
        int64_t at[5];
        int cancelled = 0;
        r->cancelled = 0;
        at[0] = bench_clock(CLOCK_MONOTONIC);
        for (uint64_t i = 0; i < plan.count; i++) {
            must(loop_scheduler_timer_start(&r->loop, &timers[i], plan.delay_ns[i], 0));
        }
        at[1] = bench_clock(CLOCK_MONOTONIC);
        must(loop_scheduler_call(&r->loop, remote_cancelled, r, &cancelled));
        must(cancelled != 0);
        at[2] = bench_clock(CLOCK_MONOTONIC);
        for (uint64_t i = 0; i < plan.count; i++) {
            must(loop_scheduler_timer_cancel(&r->loop, &timers[plan.order[i]]));
        }
        at[3] = bench_clock(CLOCK_MONOTONIC);
        while (cancelled < who->parameter) {
            must(loop_scheduler_call(&r->loop, remote_cancelled, r, &cancelled));
        }
        at[4] = bench_clock(CLOCK_MONOTONIC);
        if (warm) {
            sum[0] += (double)(at[1] - at[0]);
            sum[1] += (double)(at[2] - at[0]);
            sum[2] += (double)(at[3] - at[2]);
            sum[3] += (double)(at[4] - at[2]);
            passes++;
        }
    }
    alarm(0);
    for (int i = 0; i < 4; i++) {
        out[i] = sum[i] / passes / (double)plan.count;
    }
    destroy_ours(&r->loop);
    free(timers);
    free(r);
}

/* ---- Calls of malloc ------------------------------------------------------------------------ */

#ifdef COUNTS_MALLOCS
static void begin_counting(void)
{
    __atomic_store_n(&run.phase, BENCH_MEASURE, __ATOMIC_RELAXED);
    mallocs_count = true;
}

static void end_counting(void)
{
    mallocs_count = false;
}

static void measure_mallocs(const contestant *who, const table *t, double out[])
{
    __atomic_store_n(&mallocs, 0, __ATOMIC_RELAXED);
    if (who->timers != NULL) {
        timer_plan plan = plan_timers(1000);
        plan.begin = begin_counting;
        plan.end = end_counting;
        who->timers(&plan, out);
        out[0] = (double)bench_read(&mallocs);
        out[1] = out[0] / (double)plan.count;
        return;
    }
    int producers = who->parameter != 0 ? who->parameter : t->threads;
    mallocs_count = true;
    window w = run_loop(who, who->flood, producers, anywhere, options.ms / 2 + 1);
    mallocs_count = false;
    out[0] = (double)bench_read(&mallocs);
    out[1] = w.ops > 0 ? out[0] / w.ops : (double)NAN;
}
#endif

/* ---- The scenarios -------------------------------------------------------------------------- */

static void add_peer_bars(const table *t, int metric, const char *what)
{
    const row *us = row_of(t, "loop_scheduler");
    for (int i = 0; i < t->rows; i++) {
        if (t->row[i].who->kind == BENCH_PEER) {
            add_bar(ratio(t, us, &t->row[i], metric), false, 1.0, "%s: time x %s", what,
                    t->row[i].who->label);
        }
    }
}

static void run_awake(void)
{
    static const scenario awake = {
        .name = "awake",
        .title = "a post to a loop that is awake and busy",
        .limit = &limit_cas,
        .metrics = {"post_ns"},
        .columns = {{"ns/post", 0, MEDIAN},
                    {"spread %", 0, SPREAD},
                    {"x CAS push", 0, TO_LIMIT},
                    {"x ours", 0, TO_REFERENCE}},
    };
    const table *t = run_table(&awake, AWAKE, "P=1", 1, BATCH, options.reps, measure_awake);
    add_bar(look(t, row_of(t, "loop_scheduler"), 0, TO_LIMIT), false, 1.3,
            "post while awake: time x CAS push");
}

/* Not of the children: a channel has places, and its sender would wait. */
static void run_depth(void)
{
    static const scenario depth = {
        .name = "depth",
        .title = "posts to a loop that is busy, by those that wait in the end",
        .limit = &limit_cas,
        .metrics = {"post_ns"},
        .columns = {{"ns/post", 0, MEDIAN},
                    {"spread %", 0, SPREAD},
                    {"x CAS push", 0, TO_LIMIT},
                    {"x ours", 0, TO_REFERENCE}},
    };
    for (int count = 32; count <= BATCH_MAX; count *= is_short() ? 16 : 4) {
        char config[32];
        snprintf(config, sizeof config, "%d tasks", count);
        run_table(&depth, DEPTH, config, 1, count, is_short() ? 2 : options.reps, measure_awake);
    }
}

static void run_throughput(void)
{
    static const scenario throughput = {
        .name = "throughput",
        .title = "tasks posted and run",
        .limit = &limit_mpsc,
        .metrics = {"task_ns", "cpu_ns"},
        .columns = {{"ns/task", 0, MEDIAN},
                    {"spread %", 0, SPREAD},
                    {"x limit", 0, TO_LIMIT},
                    {"x ours", 0, TO_REFERENCE},
                    {"CPU ns/task", 1, MEDIAN},
                    {"x ours", 1, TO_REFERENCE}},
    };
    const int producers[] = {1, 2, 8};
    for (int i = 0; i < 3; i++) {
        char config[32], what[48];
        snprintf(what, sizeof what, "throughput, P=%d", producers[i]);
        snprintf(config, sizeof config, "P=%d%s", producers[i],
                 producers[i] == 1 && nth_cpu(1) >= 0 ? ", two CPUs" : "");
        const table *t =
            run_table(&throughput, FLOOD, config, producers[i], RING, options.reps, measure_flood);
        add_bar(look(t, row_of(t, "loop_scheduler"), 0, TO_LIMIT), false, 1.5,
                "%s: time x CAS stack + futex", what);
        add_peer_bars(t, 0, what);
    }
}

static void run_wakeup(void)
{
    static const scenario wakeup = {
        .name = "wakeup",
        .title = "from the post to the run, the loop being asleep",
        .limit = &limit_wake,
        .metrics = {"p50_ns", "p99_ns"},
        .columns = {{"p50 ns", 0, MEDIAN},
                    {"spread %", 0, SPREAD},
                    {"x futex", 0, TO_LIMIT},
                    {"x ours", 0, TO_REFERENCE},
                    {"p99 ns", 1, MEDIAN},
                    {"x futex", 1, TO_LIMIT},
                    {"x ours", 1, TO_REFERENCE}},
    };
    for (int cpus = nth_cpu(1) < 0 ? 1 : 2; cpus > 0; cpus--) {
        const char *config = cpus == 1 ? "one CPU" : "two CPUs";
        char what[48];
        const table *t = run_table(&wakeup, cpus == 1 ? WAKE_PINNED : WAKE, config, 1, cpus,
                                   options.reps, measure_wake);
        snprintf(what, sizeof what, "wake-up, %s, p50", config);
        add_bar(look(t, row_of(t, "loop_scheduler"), 0, TO_LIMIT), false, 1.15, "%s: time x futex",
                what);
        add_peer_bars(t, 0, what);
    }
}

static void run_call(void)
{
    static const scenario call = {
        .name = "call",
        .title = "an empty function called on the loop and waited for",
        .limit = &limit_mpsc,
        .metrics = {"call_ns", "cpu_ns"},
        .columns = {{"ns/call", 0, MEDIAN},
                    {"spread %", 0, SPREAD},
                    {"x limit", 0, TO_LIMIT},
                    {"x ours", 0, TO_REFERENCE},
                    {"CPU ns/call", 1, MEDIAN},
                    {"x ours", 1, TO_REFERENCE}},
        .note = "goroutines take turns on one thread, so Go wakes none",
    };
    run_table(&call, CALL, "P=1", 1, 1, options.reps, measure_calls);
}

static void run_timers(void)
{
    static const scenario timers = {
        .name = "timers",
        .title = "timers, CPU time of the loop's thread (Java: wall time)",
        .limit = &limit_of_timers,
        .metrics = {"insert_ns", "cancel_ns", "fire_ns"},
        .columns = {{"ns/insert", 0, MEDIAN},
                    {"spread %", 0, SPREAD},
                    {"x limit", 0, TO_LIMIT},
                    {"x ours", 0, TO_REFERENCE},
                    {"ns/cancel", 1, MEDIAN},
                    {"spread %", 1, SPREAD},
                    {"x limit", 1, TO_LIMIT},
                    {"x ours", 1, TO_REFERENCE},
                    {"ns/fire", 2, MEDIAN},
                    {"spread %", 2, SPREAD},
                    {"x limit", 2, TO_LIMIT},
                    {"x ours", 2, TO_REFERENCE}},
    };
    static const char *const operations[] = {"insert", "cancel", "fire"};
    for (int count = 1000; count <= timers_max(); count *= 10) {
        char config[32], what[48];
        snprintf(config, sizeof config, "%d of them", count);
        const table *t = run_table(&timers, TIMERS, config, 1, count, options.reps, measure_timers);
        for (int metric = 0; metric < 3 && count >= TIMERS_MAX / 10; metric++) {
            snprintf(what, sizeof what, "timers, %d, %s", count, operations[metric]);
            add_peer_bars(t, metric, what);
        }
    }
    if (is_short()) {
        printf("\n%d timers are left out, being not quick\n", TIMERS_MAX);
    }
}

static void run_remote(void)
{
    static const scenario remotely = {
        .name = "remote",
        .title = "loop_scheduler, timers of another thread",
        .limit = &by_count[0],
        .metrics = {"start_ns", "started_ns", "cancel_ns", "cancelled_ns"},
        .columns = {{"ns/start", 0, MEDIAN},
                    {"spread %", 0, SPREAD},
                    {"until done", 1, MEDIAN},
                    {"x with 1000", 1, TO_LIMIT},
                    {"ns/cancel", 2, MEDIAN},
                    {"spread %", 2, SPREAD},
                    {"until told", 3, MEDIAN},
                    {"x with 1000", 3, TO_LIMIT}},
        .note = "ns of the thread that calls, and until the loop has done its part of all",
    };
    run_table(&remotely, REMOTE, "", 1, 1, options.reps, measure_remote);
}

static void run_allocations(void)
{
#ifdef COUNTS_MALLOCS
    static const scenario allocations = {
        .name = "allocations",
        .title = "calls of malloc and its like, once it is warm",
        .metrics = {"mallocs", "mallocs_per_task"},
        .columns = {{"calls", 0, MEDIAN}, {"worst", 0, WORST}, {"per task", 1, MEDIAN}},
    };
    check_that_mallocs_count();
    const table *t = run_table(&allocations, MALLOCS, "P=2", 2, RING,
                               options.reps < 3 ? options.reps : 3, measure_mallocs);
    for (int i = 0; i < t->rows; i++) {
        if (t->row[i].who->kind == BENCH_OURS) {
            add_bar(look(t, &t->row[i], 0, WORST), false, 0, "allocations: calls of malloc by %s",
                    t->row[i].who->label);
        }
    }
#endif
}

/* ---- main ----------------------------------------------------------------------------------- */

static const program bench_loop_scheduler = {
    .name = "bench_loop_scheduler",
    .reps = 5,
    .ms = 120,
    .in_vain_max = 5,
    .reference = "loop_scheduler",
    .reference_suffix = "_to_ours",
    .capacity_key = "size",
    .process_of = process_of,
    .children_ns = children_ns,
    .scenarios = {{"awake", run_awake},
                  {"throughput", run_throughput},
                  {"wakeup", run_wakeup},
                  {"call", run_call},
                  {"depth", run_depth},
                  {"timers", run_timers},
                  {"remote", run_remote},
                  {"allocations", run_allocations}},
};

int main(int argc, char **argv)
{
    FILE *json = begin_report(&bench_loop_scheduler, argc, argv);
    start_children();
    calibrate();
    print_machine();
    print_children();
    print_skipped();
    run_scenarios();
    stop_children();
    end_report(json);
    return 0;
}
