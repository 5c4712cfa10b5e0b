/* SPDX-License-Identifier: MIT
 *
 * What bench_loop_scheduler.c compares with, as far as it is C: the bare mechanisms, a list under a
 * mutex, libuv and GLib.
 */
#ifndef PLIM_BENCH_LOOP_PEERS_H
#define PLIM_BENCH_LOOP_PEERS_H

#include "loop_loops.h"

/* ---- The limits ----------------------------------------------------------------------------- */

/* Tasks that many push and one takes all at once: a stack, so it must be turned round. */
typedef struct limit_stack {
    BENCH_ALIGNED uintptr_t head; /* a task, 0, or SLEEPS, which no task is */
    BENCH_ALIGNED bool over;
    peer_task last;
} limit_stack;

enum { SLEEPS = 1 };

static void limit_nothing(peer_task *task)
{
    (void)task;
}

static inline void limit_stack_create(limit_stack *s)
{
    memset(s, 0, sizeof *s);
    s->last.fn = limit_nothing;
}

/* The least that any of them can do: a load, a store and a compare-and-swap. */
static inline uintptr_t limit_push(limit_stack *s, peer_task *task)
{
    uintptr_t seen = __atomic_load_n(&s->head, __ATOMIC_RELAXED);
    do {
        task->next = (peer_task *)(seen & ~(uintptr_t)SLEEPS);
    } while (!__atomic_compare_exchange_n(&s->head, &seen, (uintptr_t)task, true, __ATOMIC_RELEASE,
                                          __ATOMIC_RELAXED));
    return seen;
}

/* The half of it that tells SLEEPS from any task. */
static inline uint32_t *limit_futex(limit_stack *s)
{
    const uint16_t one = 1;
    bool low_first = *(const unsigned char *)&one == 1;
    return (uint32_t *)(void *)&s->head + (low_first ? 0 : sizeof s->head / 4 - 1);
}

static inline void limit_post(limit_stack *s, peer_task *task)
{
    if (limit_push(s, task) == SLEEPS) {
        futex_wake(limit_futex(s));
    }
}

static inline void limit_run_all(peer_task *newest)
{
    peer_task *first = NULL;
    while (newest != NULL) {
        peer_task *next = newest->next;
        newest->next = first;
        first = newest;
        newest = next;
    }
    while (first != NULL) { /* it may be posted again as soon as it has run */
        peer_task *next = first->next;
        first->fn(first);
        first = next;
    }
}

static inline void limit_sleep(limit_stack *s)
{
    uintptr_t empty = 0;
    for (int looks = 0; looks < LOOKS; looks++) {
        if (__atomic_load_n(&s->head, __ATOMIC_RELAXED) != 0) {
            return;
        }
        bench_pause();
    }
    if (__atomic_compare_exchange_n(&s->head, &empty, SLEEPS, false, __ATOMIC_RELAXED,
                                    __ATOMIC_RELAXED)) {
        while (__atomic_load_n(&s->head, __ATOMIC_RELAXED) == SLEEPS) {
            futex_wait(limit_futex(s), SLEEPS);
        }
    }
}

static inline void limit_run(limit_stack *s)
{
    while (!__atomic_load_n(&s->over, __ATOMIC_RELAXED)) {
        if (__atomic_load_n(&s->head, __ATOMIC_RELAXED) == 0) {
            limit_sleep(s);
        }
        limit_run_all((peer_task *)__atomic_exchange_n(&s->head, 0, __ATOMIC_ACQUIRE));
    }
}

/* For those who push and wake nobody. */
static inline void limit_run_awake(limit_stack *s)
{
    int looks = 0;
    while (!__atomic_load_n(&s->over, __ATOMIC_RELAXED)) {
        while (__atomic_load_n(&s->head, __ATOMIC_RELAXED) == 0) {
            loop_idle(&looks);
        }
        limit_run_all((peer_task *)__atomic_exchange_n(&s->head, 0, __ATOMIC_ACQUIRE));
    }
}

static inline void limit_end(limit_stack *s)
{
    __atomic_store_n(&s->over, true, __ATOMIC_RELAXED);
    limit_post(s, &s->last);
}

static inline void limit_call(limit_stack *s, peer_task *task)
{
    limit_post(s, task);
    await_call(&task->state);
}

/* One thread sleeps on a word until another one wakes it. */
typedef struct limit_word {
    uint32_t go;
    peer_task *task; /* NULL: that was all */
} limit_word;

static inline void limit_word_post(limit_word *w, peer_task *task)
{
    w->task = task;
    become(&w->go, 1);
    futex_wake(&w->go);
}

static inline void limit_word_run(limit_word *w)
{
    for (;;) {
        while (state_of(&w->go) == 0) {
            futex_wait(&w->go, 0);
        }
        if (w->task == NULL) {
            return;
        }
        __atomic_store_n(&w->go, 0, __ATOMIC_RELAXED); /* the next comes when this one has run */
        w->task->fn(w->task);
    }
}

static inline void limit_word_call(limit_word *w, peer_task *task)
{
    limit_word_post(w, task);
    await_call(&task->state);
}

/* ---- A list under a mutex, as one writes it by hand ------------------------------------------ */

typedef struct locked_list {
    pthread_mutex_t mutex;
    peer_task *first, **end;
    bool over;
} locked_list;

static inline void locked_list_create(locked_list *l)
{
    must(pthread_mutex_init(&l->mutex, NULL));
    l->first = NULL;
    l->end = &l->first;
    l->over = false;
}

static inline void locked_list_destroy(locked_list *l)
{
    pthread_mutex_destroy(&l->mutex);
}

/* With the mutex. */
static inline void locked_list_append(locked_list *l, peer_task *task)
{
    task->next = NULL;
    *l->end = task;
    l->end = &task->next;
}

static inline peer_task *locked_list_take(locked_list *l)
{
    peer_task *first = l->first;
    l->first = NULL;
    l->end = &l->first;
    return first;
}

static inline void run_list(peer_task *first)
{
    while (first != NULL) {
        peer_task *next = first->next;
        first->fn(first);
        first = next;
    }
}

typedef struct mutex_loop {
    locked_list list;
    pthread_cond_t more;
    bool asleep;
} mutex_loop;

static inline void mutex_loop_create(mutex_loop *m)
{
    locked_list_create(&m->list);
    must(pthread_cond_init(&m->more, NULL));
    m->asleep = false;
}

static inline void mutex_loop_destroy(mutex_loop *m)
{
    pthread_cond_destroy(&m->more);
    locked_list_destroy(&m->list);
}

/* Signals after the unlock, or who is woken would wait for the mutex; and not if nobody sleeps. */
static inline void mutex_loop_post(mutex_loop *m, peer_task *task)
{
    pthread_mutex_lock(&m->list.mutex);
    bool asleep = m->asleep;
    m->asleep = false;
    locked_list_append(&m->list, task);
    pthread_mutex_unlock(&m->list.mutex);
    if (asleep) {
        pthread_cond_signal(&m->more);
    }
}

static inline void mutex_loop_run(mutex_loop *m)
{
    bool over = false;
    while (!over) {
        pthread_mutex_lock(&m->list.mutex);
        while (m->list.first == NULL && !m->list.over) {
            m->asleep = true;
            pthread_cond_wait(&m->more, &m->list.mutex);
        }
        peer_task *first = locked_list_take(&m->list);
        over = m->list.over;
        pthread_mutex_unlock(&m->list.mutex);
        run_list(first);
    }
}

static inline void mutex_loop_end(mutex_loop *m)
{
    pthread_mutex_lock(&m->list.mutex);
    m->list.over = true;
    pthread_mutex_unlock(&m->list.mutex);
    pthread_cond_signal(&m->more);
}

static inline void mutex_loop_call(mutex_loop *m, peer_task *task)
{
    mutex_loop_post(m, task);
    await_call(&task->state);
}

/* ---- libuv: what comes from other threads goes through a list, and uv_async_send() says so ----- */

#ifdef HAVE_UV_LOOP
#include <uv.h>

typedef struct uv_list_loop {
    uv_loop_t loop;
    uv_async_t async;
    locked_list list;
} uv_list_loop;

static void uv_list_loop_run_list(uv_async_t *async)
{
    uv_list_loop *u = (uv_list_loop *)async->data;
    pthread_mutex_lock(&u->list.mutex);
    peer_task *first = locked_list_take(&u->list);
    bool over = u->list.over;
    pthread_mutex_unlock(&u->list.mutex);
    run_list(first);
    if (over) {
        uv_close((uv_handle_t *)async, NULL);
    }
}

static inline void uv_list_loop_create(uv_list_loop *u)
{
    locked_list_create(&u->list);
    must(uv_loop_init(&u->loop));
    must(uv_async_init(&u->loop, &u->async, uv_list_loop_run_list));
    u->async.data = u;
}

static inline void uv_list_loop_destroy(uv_list_loop *u)
{
    must(uv_loop_close(&u->loop));
    locked_list_destroy(&u->list);
}

/* The one that finds the list empty sends; the others come before it is taken. */
static inline void uv_list_loop_post(uv_list_loop *u, peer_task *task)
{
    pthread_mutex_lock(&u->list.mutex);
    bool first = u->list.first == NULL;
    locked_list_append(&u->list, task);
    pthread_mutex_unlock(&u->list.mutex);
    if (first) {
        must(uv_async_send(&u->async));
    }
}

static inline void uv_list_loop_run(uv_list_loop *u)
{
    must(uv_run(&u->loop, UV_RUN_DEFAULT));
}

static inline void uv_list_loop_end(uv_list_loop *u)
{
    pthread_mutex_lock(&u->list.mutex);
    u->list.over = true;
    pthread_mutex_unlock(&u->list.mutex);
    must(uv_async_send(&u->async));
}

static inline void uv_list_loop_call(uv_list_loop *u, peer_task *task)
{
    uv_list_loop_post(u, task);
    await_call(&task->state);
}

/* Timers of uv_timer_start(), in milliseconds, as it wants them. */
typedef struct uv_timers {
    uv_loop_t loop;
    uint64_t fired;
} uv_timers;

static void uv_timers_fired(uv_timer_t *timer)
{
    ((uv_timers *)timer->data)->fired++;
}

static inline void uv_timers_create(uv_timers *u)
{
    must(uv_loop_init(&u->loop));
    u->fired = 0;
}

static inline void uv_timers_prepare(uv_timers *u, uv_timer_t *timer)
{
    must(uv_timer_init(&u->loop, timer));
    timer->data = u;
}

static void uv_timers_close(uv_handle_t *handle, void *arg)
{
    (void)arg;
    uv_close(handle, NULL);
}

static inline void uv_timers_destroy(uv_timers *u)
{
    uv_walk(&u->loop, uv_timers_close, NULL);
    must(uv_run(&u->loop, UV_RUN_DEFAULT));
    must(uv_loop_close(&u->loop));
}

static inline void uv_timers_insert(uv_timer_t *timer, int64_t delay_ns)
{
    must(uv_timer_start(timer, uv_timers_fired, (uint64_t)(delay_ns / 1000000), 0));
}

/* It counts from the time of the loop's last turn, and that is set back: so it is due. */
static inline void uv_timers_insert_due(uv_timers *u, uv_timer_t *timer, int64_t delay_ns)
{
    uint64_t now = u->loop.time;
    u->loop.time -= (uint64_t)(DELAY_MAX_NS / 1000000);
    uv_timers_insert(timer, delay_ns);
    u->loop.time = now;
}

static inline void uv_timers_fire(uv_timers *u, uint64_t count)
{
    u->fired = 0;
    while (u->fired < count) {
        uv_run(&u->loop, UV_RUN_NOWAIT);
    }
}
#endif

/* ---- GLib: a source for each task, as g_main_context_invoke() makes it, or for each timer ------ */

#ifdef HAVE_GLIB
#include <glib.h>

typedef struct glib_loop {
    GMainContext *context;
    GMainLoop *loop;
} glib_loop;

static inline void glib_loop_create(glib_loop *g)
{
    g->context = g_main_context_new();
    g->loop = g_main_loop_new(g->context, FALSE);
}

static inline void glib_loop_destroy(glib_loop *g)
{
    g_main_loop_unref(g->loop);
    g_main_context_unref(g->context);
}

static gboolean glib_loop_run_task(gpointer task)
{
    ((peer_task *)task)->fn((peer_task *)task);
    return G_SOURCE_REMOVE;
}

static inline void glib_loop_post(glib_loop *g, peer_task *task)
{
    GSource *source = g_idle_source_new();
    g_source_set_priority(source, G_PRIORITY_DEFAULT);
    g_source_set_callback(source, glib_loop_run_task, task, NULL);
    g_source_attach(source, g->context);
    g_source_unref(source);
}

static inline void glib_loop_call(glib_loop *g, peer_task *task)
{
    glib_loop_post(g, task);
    await_call(&task->state);
}

typedef struct glib_timers {
    GMainContext *context;
    uint64_t fired;
    gint64 now_us;
} glib_timers;

typedef struct glib_timer {
    glib_timers *all;
    GSource *source;
} glib_timer;

/* Acquired, or each turn would do that anew. */
static inline void glib_timers_create(glib_timers *g)
{
    g->context = g_main_context_new();
    must(!g_main_context_acquire(g->context));
    g->fired = 0;
    g->now_us = g_get_monotonic_time();
}

static inline void glib_timers_destroy(glib_timers *g)
{
    g_main_context_release(g->context);
    g_main_context_unref(g->context);
}

static gboolean glib_timers_fired(gpointer arg)
{
    glib_timer *timer = arg;
    timer->all->fired++;
    g_source_unref(timer->source);
    return G_SOURCE_REMOVE;
}

static inline void glib_timers_insert(glib_timer *timer, int64_t delay_ns)
{
    timer->source = g_timeout_source_new((guint)(delay_ns / 1000000));
    g_source_set_callback(timer->source, glib_timers_fired, timer, NULL);
    g_source_attach(timer->source, timer->all->context);
}

static inline void glib_timers_cancel(glib_timer *timer)
{
    g_source_destroy(timer->source);
    g_source_unref(timer->source);
}

/* At a time before this one. */
static inline void glib_timers_insert_due(glib_timer *timer, int64_t delay_ns)
{
    glib_timers *g = timer->all;
    timer->source = g_timeout_source_new(1);
    g_source_set_ready_time(timer->source, g->now_us + (delay_ns - DELAY_MAX_NS) / 1000);
    g_source_set_callback(timer->source, glib_timers_fired, timer, NULL);
    g_source_attach(timer->source, g->context);
}

/* It has no order to keep: a turn looks at all sources, and calls those that are due as it finds
 * them. That all are due at once is the best case for it. */
static inline void glib_timers_fire(glib_timers *g, uint64_t count)
{
    g->fired = 0;
    while (g->fired < count) {
        g_main_context_iteration(g->context, FALSE);
    }
}
#endif

#endif
