/* SPDX-License-Identifier: MIT
 *
 * The measured loops of bench_loop_scheduler.c, generated for one contestant; the types before them
 * come once. C11 and C++20. Before each include that is to generate something:
 *
 *   BENCH_ID                          what its contestant is called
 *   BENCH_LABEL                       what the tables call it
 *   BENCH_KIND                        BENCH_LIMIT, BENCH_OURS or BENCH_PEER
 *   BENCH_SCENARIOS                   the scenarios that it takes part in
 *   BENCH_TYPE                        the type of the object
 *   BENCH_CREATE(s, producers)
 *   BENCH_DESTROY(s)                  and the calls, s being a pointer to it
 * and either, of its tasks,
 *   BENCH_TASK                        the type of a task, with a member uint32_t state
 *   BENCH_PREPARE(task, body, where)  before it is posted for the first time; its memory is 0
 *   BENCH_POST(s, task, producer)     producers are numbered from 0
 *   BENCH_CALL(s, task)               of the body CALL_BODY: returns when it was run
 *   BENCH_RUN(s)                      runs the loop on this thread, until
 *   BENCH_END(s)                      is called on another one, when all has run that was posted
 * or, of its timers,
 *   BENCH_TIMER                       the type of a timer
 *   BENCH_PREPARE(s, timer)           before it is started for the first time; its memory is 0
 *   BENCH_ON_LOOP(s, fn, arg)         calls fn(arg) on the loop's thread, which is this one
 *   BENCH_INSERT(s, timer, delay_ns)
 *   BENCH_CANCEL(s, timer)
 *   BENCH_TELL(s, count)              runs the loop until so many know that they were cancelled
 *   BENCH_INSERT_DUE(s, timer, delay_ns)  the same as insert, but for
 *   BENCH_FIRE(s, count)              which runs the loop so late that all are due, until all fired
 *
 * All are undefined again at the end. Every contestant runs exactly these lines.
 */
#ifndef PLIM_BENCH_LOOP_LOOPS_H
#define PLIM_BENCH_LOOP_LOOPS_H

#include "bench.h"

#include <string.h>
#ifdef __linux__
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The scenarios. */
enum { AWAKE = 1, FLOOD = 2, WAKE = 4, WAKE_PINNED = 8, CALL = 16, MALLOCS = 32 };
enum { TIMERS = 64, REMOTE = 128, DEPTH = 256 };
enum { ALL_OF_A_LOOP = AWAKE | FLOOD | WAKE | WAKE_PINNED | CALL | MALLOCS | DEPTH };

/* A flooding producer has a ring of tasks, and uses a quarter of them again when the last one of
 * these has run: that one alone is looked at, because all loops here run the tasks of one producer
 * in order. So none has more than this in its queue, and nobody stops the producers but this. */
enum { PRODUCERS_MAX = 8, RING = 1024, QUARTER = RING / 4 };
enum { BATCH = 256 }; /* posts to a loop that is busy, before it is let go on; or up to */
enum { BATCH_MAX = PRODUCERS_MAX * RING }; /* where the table shows how cost grows with it */
enum { ASLEEP_AFTER_US = 100 };            /* a loop that had nothing to do for so long is asleep */
enum { TASK_WORK = 8 };                    /* rounds of bench_work() in a task */
enum { LOOKS = 100 }; /* before anybody sleeps who may choose: as many as we make */
enum { SAMPLES_MAX = 1 << 16 };

/* Deadlines are spread over a minute. */
static const int64_t DELAY_MIN_NS = 1000000000, DELAY_MAX_NS = 61000000000;

typedef struct loop_samples {
    uint64_t count;
    uint32_t ticks[SAMPLES_MAX];
} loop_samples;

typedef struct timer_plan {
    uint64_t count;
    const int64_t *delay_ns;           /* of each */
    const uint32_t *order;             /* in which they are cancelled */
    double least_ns;                   /* that all passes but the first must take together */
    void (*begin)(void), (*end)(void); /* around them; may be NULL */
} timer_plan;

typedef struct contestant {
    const char *label;
    enum bench_kind kind;
    int scenarios;
    /* Either these, or some of them, */
    void *(*create)(int producers);
    void (*destroy)(void *object);
    void (*loop)(bench_thread *self);
    void (*awake)(bench_thread *self);
    void (*flood)(bench_thread *self);
    void (*wake)(bench_thread *self);
    void (*calls)(bench_thread *self);
    void (*timers)(const timer_plan *plan, double out[3]);
    /* or a child, and what it is to be asked for. */
    bench_child *child;
    const char *variant;
    int parameter; /* of us: timers or producers, where the table does not say */
} contestant;

extern const contestant peer_asio, peer_asio_timers, peer_moodycamel;

static inline void loop_idle(int *looks)
{
    if (++*looks % 64 == 0) {
        sched_yield();
    } else {
        bench_pause();
    }
}

static inline void take_sample(bench_thread *self, uint64_t ticks)
{
    loop_samples *samples = (loop_samples *)self->run->second;
    if (bench_phase(self->run) == BENCH_MEASURE && samples->count < SAMPLES_MAX) {
        samples->ticks[samples->count++] = ticks < UINT32_MAX ? (uint32_t)ticks : UINT32_MAX;
    }
}

/* ---- What tasks do -------------------------------------------------------------------------- */

enum { PENDING, AWAITED, ENTERED, OPEN, DONE };

/* Which of the functions below a task is to run. */
enum { COUNT_BODY, STAMP_BODY, GATE_BODY, CALL_BODY };

static inline uint32_t state_of(uint32_t *state)
{
    return __atomic_load_n(state, __ATOMIC_ACQUIRE);
}

static inline void become(uint32_t *state, uint32_t next)
{
    __atomic_store_n(state, next, __ATOMIC_RELEASE);
}

static inline void until(uint32_t *state, uint32_t wanted)
{
    int looks = 0;
    while (state_of(state) != wanted) {
        loop_idle(&looks);
    }
}

/* Sleeps while the word has that value; wakes who sleeps. */
#ifdef __linux__
static inline void futex_wait(uint32_t *word, uint32_t value)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static inline void futex_wake(uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}
#else
static pthread_mutex_t futex_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t futex_woken = PTHREAD_COND_INITIALIZER;

static inline void futex_wait(uint32_t *word, uint32_t value)
{
    pthread_mutex_lock(&futex_mutex);
    if (state_of(word) == value) {
        pthread_cond_wait(&futex_woken, &futex_mutex);
    }
    pthread_mutex_unlock(&futex_mutex);
}

static inline void futex_wake(uint32_t *word)
{
    (void)word;
    pthread_mutex_lock(&futex_mutex);
    pthread_mutex_unlock(&futex_mutex);
    pthread_cond_broadcast(&futex_woken);
}
#endif

static inline void count_body(uint64_t *where, uint32_t *state)
{
    ++*where;
    bench_work(TASK_WORK);
    become(state, DONE);
}

static inline void stamp_body(uint64_t *where, uint32_t *state)
{
    *where = bench_ticks();
    become(state, DONE);
}

/* Keeps the loop awake and busy until somebody opens the gate. */
static inline void gate_body(uint64_t *where, uint32_t *state)
{
    (void)where;
    become(state, ENTERED);
    until(state, OPEN);
    become(state, DONE);
}

/* What a peer that has no calls of its own is given: looks as often as we do before it sleeps, and
 * nobody who is not asleep is woken. It is loops that are compared. */
static inline void call_body(uint64_t *where, uint32_t *state)
{
    ++*where;
    if (__atomic_exchange_n(state, DONE, __ATOMIC_ACQ_REL) == AWAITED) {
        futex_wake(state);
    }
}

static inline void await_call(uint32_t *state)
{
    for (int looks = 0; looks < LOOKS; looks++) {
        if (state_of(state) == DONE) {
            return;
        }
        bench_pause();
    }
    uint32_t pending = PENDING;
    __atomic_compare_exchange_n(state, &pending, AWAITED, false, __ATOMIC_ACQUIRE,
                                __ATOMIC_ACQUIRE);
    while (state_of(state) != DONE) {
        futex_wait(state, AWAITED);
    }
}

/* The task of all that have none of their own. */
typedef struct peer_task {
    struct peer_task *next;
    void (*fn)(struct peer_task *task);
    uint64_t *where;
    uint32_t state;
} peer_task;

static inline void peer_count(peer_task *task)
{
    count_body(task->where, &task->state);
}

static inline void peer_stamp(peer_task *task)
{
    stamp_body(task->where, &task->state);
}

static inline void peer_gate(peer_task *task)
{
    gate_body(task->where, &task->state);
}

static inline void peer_call(peer_task *task)
{
    call_body(task->where, &task->state);
}

static inline void peer_prepare(peer_task *task, int body, uint64_t *where)
{
    static void (*const bodies[])(peer_task *) = {peer_count, peer_stamp, peer_gate, peer_call};
    task->fn = bodies[body];
    task->where = where;
}

#ifdef __cplusplus
}
#endif
#endif

#ifdef BENCH_ID
#define BENCH_PASTE2(a, b) a##_##b
#define BENCH_PASTE(a, b) BENCH_PASTE2(a, b)
#define BENCH_F(name) BENCH_PASTE(BENCH_ID, name)

#ifdef BENCH_TASK
typedef struct BENCH_F(object) {
    BENCH_TYPE is;
    BENCH_ALIGNED uint64_t posted; /* by all producers; told when they end, like */
    int producers;                 /* how many of them have not */
    BENCH_ALIGNED uint64_t ran;    /* written by the loop's thread alone */
    BENCH_ALIGNED BENCH_TASK gate;
    BENCH_ALIGNED BENCH_TASK tasks[PRODUCERS_MAX * RING];
} BENCH_F(object);

static void *BENCH_F(create)(int producers)
{
    BENCH_F(object) *o = (BENCH_F(object) *)bench_memory(sizeof(BENCH_F(object)));
    BENCH_TYPE *s = &o->is;
    must(producers > PRODUCERS_MAX);
    memset((void *)o, 0, sizeof *o);
    BENCH_CREATE(s, producers);
    o->producers = producers;
    return o;
}

/* All must have been run, and once. */
static void BENCH_F(destroy)(void *object)
{
    BENCH_F(object) *o = (BENCH_F(object) *)object;
    BENCH_TYPE *s = &o->is;
    must(o->posted != 0 && o->ran != o->posted);
    BENCH_DESTROY(s);
    free(object);
}

static void BENCH_F(loop)(bench_thread *self)
{
    BENCH_TYPE *s = &((BENCH_F(object) *)self->run->first)->is;
    BENCH_RUN(s);
}

static void BENCH_F(leave)(BENCH_F(object) * o, uint64_t posted)
{
    BENCH_TYPE *s = &o->is;
    __atomic_add_fetch(&o->posted, posted, __ATOMIC_RELAXED);
    if (__atomic_sub_fetch(&o->producers, 1, __ATOMIC_ACQ_REL) == 0) {
        BENCH_END(s);
    }
}

static void BENCH_F(flood)(bench_thread *self)
{
    BENCH_F(object) *o = (BENCH_F(object) *)self->run->first;
    BENCH_TYPE *s = &o->is;
    BENCH_TASK *tasks = &o->tasks[self->number * RING];
    uint64_t sent = 0;
    for (int i = 0; i < RING; i++) {
        BENCH_PREPARE(&tasks[i], COUNT_BODY, &o->ran);
    }
    do {
        BENCH_TASK *quarter = &tasks[sent % RING];
        if (sent >= RING) {
            until(&quarter[QUARTER - 1].state, DONE);
        }
        for (int i = 0; i < QUARTER; i++) {
            quarter[i].state = PENDING;
            BENCH_POST(s, &quarter[i], self->number);
        }
        sent += QUARTER;
        bench_publish(&self->ops, sent);
    } while (bench_phase(self->run) != BENCH_STOP);
    until(&tasks[(sent - 1) % RING].state, DONE);
    BENCH_F(leave)(o, sent);
}

/* The loop is held in a task, so it is awake. The tasks are in this thread's cache. */
static void BENCH_F(awake)(bench_thread *self)
{
    BENCH_F(object) *o = (BENCH_F(object) *)self->run->first;
    BENCH_TYPE *s = &o->is;
    const int batch = self->run->batch;
    uint64_t sent = 0;
    BENCH_PREPARE(&o->gate, GATE_BODY, &o->ran);
    for (int i = 0; i < batch; i++) {
        BENCH_PREPARE(&o->tasks[i], COUNT_BODY, &o->ran);
    }
    do {
        o->gate.state = PENDING;
        BENCH_POST(s, &o->gate, 0);
        until(&o->gate.state, ENTERED);
        for (int i = 0; i < batch; i++) {
            o->tasks[i].state = PENDING;
        }
        uint64_t before = bench_ticks();
        for (int i = 0; i < batch; i++) {
            BENCH_POST(s, &o->tasks[i], 0);
        }
        take_sample(self, bench_ticks() - before);
        become(&o->gate.state, OPEN);
        until(&o->tasks[batch - 1].state, DONE);
        sent += (uint64_t)batch;
    } while (bench_phase(self->run) != BENCH_STOP);
    BENCH_F(leave)(o, sent);
}

/* This thread stays awake, so what is measured is the way of the loop's thread out of its sleep. It
 * yields, because both may have the same CPU. */
static void BENCH_F(wake)(bench_thread *self)
{
    BENCH_F(object) *o = (BENCH_F(object) *)self->run->first;
    BENCH_TYPE *s = &o->is;
    BENCH_PREPARE(&o->tasks[0], STAMP_BODY, &o->ran);
    do {
        int64_t asleep = bench_clock(CLOCK_MONOTONIC) + ASLEEP_AFTER_US * 1000;
        while (bench_clock(CLOCK_MONOTONIC) < asleep) {
            bench_pause();
        }
        o->tasks[0].state = PENDING;
        uint64_t before = bench_ticks();
        BENCH_POST(s, &o->tasks[0], 0);
        sched_yield();
        until(&o->tasks[0].state, DONE);
        take_sample(self, o->ran - before);
    } while (bench_phase(self->run) != BENCH_STOP);
    BENCH_F(leave)(o, 0);
}

static void BENCH_F(calls)(bench_thread *self)
{
    BENCH_F(object) *o = (BENCH_F(object) *)self->run->first;
    BENCH_TYPE *s = &o->is;
    uint64_t ops = 0;
    BENCH_PREPARE(&o->tasks[0], CALL_BODY, &o->ran);
    do {
        o->tasks[0].state = PENDING;
        BENCH_CALL(s, &o->tasks[0]);
        bench_publish(&self->ops, ++ops);
    } while (bench_phase(self->run) != BENCH_STOP);
    BENCH_F(leave)(o, ops);
}
#endif

#ifdef BENCH_TIMER
typedef struct BENCH_F(object) {
    BENCH_TYPE is;
    const timer_plan *plan;
    BENCH_TIMER *timers;
} BENCH_F(object);

static void BENCH_F(insert_all)(void *arg)
{
    BENCH_F(object) *o = (BENCH_F(object) *)arg;
    BENCH_TYPE *s = &o->is;
    (void)s;
    for (uint64_t i = 0; i < o->plan->count; i++) {
        BENCH_INSERT(s, &o->timers[i], o->plan->delay_ns[i]);
    }
}

static void BENCH_F(cancel_all)(void *arg)
{
    BENCH_F(object) *o = (BENCH_F(object) *)arg;
    BENCH_TYPE *s = &o->is;
    (void)s;
    for (uint64_t i = 0; i < o->plan->count; i++) {
        BENCH_CANCEL(s, &o->timers[o->plan->order[i]]);
    }
}

static void BENCH_F(insert_all_due)(void *arg)
{
    BENCH_F(object) *o = (BENCH_F(object) *)arg;
    BENCH_TYPE *s = &o->is;
    (void)s;
    for (uint64_t i = 0; i < o->plan->count; i++) {
        BENCH_INSERT_DUE(s, &o->timers[i], o->plan->delay_ns[i]);
    }
}

/* CPU time, of one timer, of an insert, a cancel and a call when it is due. */
static void BENCH_F(timers)(const timer_plan *plan, double out[3])
{
    BENCH_F(object) *o = (BENCH_F(object) *)bench_memory(sizeof(BENCH_F(object)));
    BENCH_TYPE *s = &o->is;
    double sum[3] = {0, 0, 0};
    uint64_t passes = 0;
    memset((void *)o, 0, sizeof *o);
    o->plan = plan;
    o->timers = (BENCH_TIMER *)bench_memory(plan->count * sizeof(BENCH_TIMER));
    memset((void *)o->timers, 0, plan->count * sizeof(BENCH_TIMER));
    BENCH_CREATE(s, 1);
    for (uint64_t i = 0; i < plan->count; i++) {
        BENCH_PREPARE(s, &o->timers[i]);
    }
    for (bool warm = false; !warm || sum[0] + sum[1] + sum[2] < plan->least_ns; warm = true) {
        int64_t at[6];
        if (warm && passes == 0 && plan->begin != NULL) {
            plan->begin();
        }
        at[0] = bench_clock(CLOCK_THREAD_CPUTIME_ID);
        BENCH_ON_LOOP(s, BENCH_F(insert_all), o);
        at[1] = bench_clock(CLOCK_THREAD_CPUTIME_ID);
        BENCH_ON_LOOP(s, BENCH_F(cancel_all), o);
        BENCH_TELL(s, plan->count);
        at[2] = bench_clock(CLOCK_THREAD_CPUTIME_ID);
        BENCH_ON_LOOP(s, BENCH_F(insert_all_due), o);
        at[3] = bench_clock(CLOCK_THREAD_CPUTIME_ID);
        BENCH_FIRE(s, plan->count);
        at[4] = bench_clock(CLOCK_THREAD_CPUTIME_ID);
        if (warm) {
            sum[0] += (double)(at[1] - at[0]);
            sum[1] += (double)(at[2] - at[1]);
            sum[2] += (double)(at[4] - at[3]);
            passes++;
        }
    }
    if (plan->end != NULL) {
        plan->end();
    }
    for (int i = 0; i < 3; i++) {
        out[i] = sum[i] / (double)(passes * plan->count);
    }
    BENCH_DESTROY(s);
    free(o->timers);
    free(o);
}
#endif

/* Declared first, or a C++ constant would be private to its file. */
extern const contestant BENCH_ID;
const contestant BENCH_ID = {
    .label = BENCH_LABEL,
    .kind = BENCH_KIND,
    .scenarios = BENCH_SCENARIOS,
#ifdef BENCH_TASK
    .create = BENCH_F(create),
    .destroy = BENCH_F(destroy),
    .loop = BENCH_F(loop),
    .awake = BENCH_F(awake),
    .flood = BENCH_F(flood),
    .wake = BENCH_F(wake),
    .calls = BENCH_F(calls),
    .timers = NULL,
#else
    .create = NULL,
    .destroy = NULL,
    .loop = NULL,
    .awake = NULL,
    .flood = NULL,
    .wake = NULL,
    .calls = NULL,
    .timers = BENCH_F(timers),
#endif
    .child = NULL,
    .variant = NULL,
    .parameter = 0,
};

#undef BENCH_PASTE2
#undef BENCH_PASTE
#undef BENCH_F
#undef BENCH_ID
#undef BENCH_LABEL
#undef BENCH_KIND
#undef BENCH_SCENARIOS
#undef BENCH_TYPE
#undef BENCH_CREATE
#undef BENCH_DESTROY
#undef BENCH_TASK
#undef BENCH_PREPARE
#undef BENCH_POST
#undef BENCH_CALL
#undef BENCH_RUN
#undef BENCH_END
#undef BENCH_TIMER
#undef BENCH_ON_LOOP
#undef BENCH_INSERT
#undef BENCH_CANCEL
#undef BENCH_TELL
#undef BENCH_INSERT_DUE
#undef BENCH_FIRE
#endif
