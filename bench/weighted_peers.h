/* SPDX-License-Identifier: MIT
 *
 * What bench_weighted_sem.c compares with, as far as it is C: the bare mechanisms, and the weighted
 * semaphores and thread pools that one writes by hand with a mutex.
 */
#ifndef PLIM_BENCH_WEIGHTED_PEERS_H
#define PLIM_BENCH_WEIGHTED_PEERS_H

#include "bench.h"
#include "chain.h"

#include <sched.h>
#include <stdbool.h>

/* ---- The limits ----------------------------------------------------------------------------- */

/* The least that starting a job on another thread can cost: the weight is taken with one
 * compare-and-swap, the job goes through a ring, and one worker spins for it. */
enum { LIMIT_RING = 64 };

typedef struct limit_ring {
    BENCH_ALIGNED uint64_t word;
    BENCH_ALIGNED uint64_t tail;                 /* the starter's own */
    BENCH_ALIGNED int (*fn[LIMIT_RING])(void *); /* NULL: free */
    BENCH_ALIGNED bool over;
    pthread_t worker;
} limit_ring;

static void *limit_ring_work(void *arg)
{
    limit_ring *r = arg;
    uint64_t head = 0;
    for (int looks = 1;; looks++) {
        int (*fn)(void *) = __atomic_load_n(&r->fn[head % LIMIT_RING], __ATOMIC_ACQUIRE);
        if (fn != NULL) {
            __atomic_store_n(&r->fn[head++ % LIMIT_RING], NULL, __ATOMIC_RELAXED);
            (void)fn(NULL);
            bench_cas_give(&r->word, 1);
            looks = 0;
        } else if (__atomic_load_n(&r->over, __ATOMIC_RELAXED)) {
            return NULL;
        } else if (looks % 1024 == 0) {
            sched_yield();
        } else {
            bench_pause();
        }
    }
}

static inline void limit_ring_create(limit_ring *r, uint64_t total)
{
    r->word = total;
    r->tail = 0;
    r->over = false;
    must(total > LIMIT_RING);
    for (int i = 0; i < LIMIT_RING; i++) {
        r->fn[i] = NULL;
    }
    must(pthread_create(&r->worker, NULL, limit_ring_work, r));
}

static inline void limit_ring_destroy(limit_ring *r)
{
    __atomic_store_n(&r->over, true, __ATOMIC_RELAXED);
    pthread_join(r->worker, NULL);
}

static inline void limit_ring_start(limit_ring *r)
{
    bench_cas_take(&r->word, 1); /* so there is room: as many places as weight, or more */
    __atomic_store_n(&r->fn[r->tail++ % LIMIT_RING], unknown_job(), __ATOMIC_RELEASE);
}

/* ---- A weight under a mutex, as one writes it by hand: whoever looks first takes it ---------- */

typedef struct broadcast_sem {
    pthread_mutex_t mutex;
    pthread_cond_t more;
    uint64_t available;
} broadcast_sem;

static inline void broadcast_sem_create(broadcast_sem *s, uint64_t total)
{
    pthread_mutex_init(&s->mutex, NULL);
    pthread_cond_init(&s->more, NULL);
    s->available = total;
}

static inline void broadcast_sem_destroy(broadcast_sem *s)
{
    pthread_cond_destroy(&s->more);
    pthread_mutex_destroy(&s->mutex);
}

static inline void broadcast_sem_acquire(broadcast_sem *s, uint64_t weight)
{
    pthread_mutex_lock(&s->mutex);
    while (s->available < weight) {
        pthread_cond_wait(&s->more, &s->mutex);
    }
    s->available -= weight;
    pthread_mutex_unlock(&s->mutex);
}

static inline void broadcast_sem_release(broadcast_sem *s, uint64_t weight)
{
    pthread_mutex_lock(&s->mutex);
    s->available += weight;
    pthread_cond_broadcast(&s->more); /* one might not fit where another would */
    pthread_mutex_unlock(&s->mutex);
}

/* ---- The same, first come, first served: a queue of waiters, each with its own condition ----- */

typedef struct fifo_waiter {
    struct fifo_waiter *next;
    pthread_cond_t granted;
    uint64_t weight;
    bool has_it;
} fifo_waiter;

typedef struct fifo_sem {
    pthread_mutex_t mutex;
    uint64_t available;
    fifo_waiter *first, **last;
} fifo_sem;

static inline void fifo_sem_create(fifo_sem *s, uint64_t total)
{
    pthread_mutex_init(&s->mutex, NULL);
    s->available = total;
    s->first = NULL;
    s->last = &s->first;
}

static inline void fifo_sem_destroy(fifo_sem *s)
{
    pthread_mutex_destroy(&s->mutex);
}

static inline void fifo_sem_acquire(fifo_sem *s, uint64_t weight)
{
    pthread_mutex_lock(&s->mutex);
    if (s->first == NULL && s->available >= weight) {
        s->available -= weight;
    } else {
        fifo_waiter self = {NULL, PTHREAD_COND_INITIALIZER, weight, false};
        *s->last = &self;
        s->last = &self.next;
        while (!self.has_it) {
            pthread_cond_wait(&self.granted, &s->mutex);
        }
        pthread_cond_destroy(&self.granted);
    }
    pthread_mutex_unlock(&s->mutex);
}

static inline void fifo_sem_release(fifo_sem *s, uint64_t weight)
{
    pthread_mutex_lock(&s->mutex);
    s->available += weight;
    while (s->first != NULL && s->first->weight <= s->available) {
        fifo_waiter *first = s->first;
        s->first = first->next;
        if (s->first == NULL) {
            s->last = &s->first;
        }
        s->available -= first->weight;
        first->has_it = true;
        pthread_cond_signal(&first->granted);
    }
    pthread_mutex_unlock(&s->mutex);
}

/* ---- nsync, with a condition variable, and with its own conditional critical sections -------- */

#ifdef HAVE_NSYNC
#include <nsync.h>

typedef struct nsync_sem {
    nsync_mu mutex;
    nsync_cv more;
    uint64_t available;
} nsync_sem;

static inline void nsync_sem_create(nsync_sem *s, uint64_t total)
{
    nsync_mu_init(&s->mutex);
    nsync_cv_init(&s->more);
    s->available = total;
}

static inline void nsync_sem_acquire(nsync_sem *s, uint64_t weight)
{
    nsync_mu_lock(&s->mutex);
    while (s->available < weight) {
        nsync_cv_wait(&s->more, &s->mutex);
    }
    s->available -= weight;
    nsync_mu_unlock(&s->mutex);
}

static inline void nsync_sem_release(nsync_sem *s, uint64_t weight)
{
    nsync_mu_lock(&s->mutex);
    s->available += weight;
    nsync_cv_broadcast(&s->more);
    nsync_mu_unlock(&s->mutex);
}

typedef struct nsync_wish {
    const nsync_sem *of;
    uint64_t weight;
} nsync_wish;

static int nsync_wish_fits(const void *condition)
{
    const nsync_wish *wish = condition;
    return wish->of->available >= wish->weight;
}

static inline void nsync_wait_acquire(nsync_sem *s, uint64_t weight)
{
    nsync_mu_lock(&s->mutex);
    if (s->available < weight) {
        nsync_wish wish = {s, weight};
        nsync_mu_wait(&s->mutex, nsync_wish_fits, &wish, NULL);
    }
    s->available -= weight;
    nsync_mu_unlock(&s->mutex);
}

static inline void nsync_wait_release(nsync_sem *s, uint64_t weight)
{
    nsync_mu_lock(&s->mutex);
    s->available += weight;
    nsync_mu_unlock(&s->mutex);
}
#endif

/* ---- A thread pool, with as many jobs queued or executing as the total ----------------------- */

enum { POOL_WORKERS_MAX = 8, POOL_JOBS_MAX = 64 };

typedef struct pool {
    pthread_mutex_t mutex;
    pthread_cond_t job, room;
    uint64_t total, in_flight, head, tail;
    struct {
        int (*fn)(void *);
        void *arg;
    } queue[POOL_JOBS_MAX];
    bool starter_waits, over;
    int workers, idle;
    pthread_t worker[POOL_WORKERS_MAX];
} pool;

static void *pool_work(void *arg)
{
    pool *p = arg;
    pthread_mutex_lock(&p->mutex);
    for (;;) {
        while (p->head == p->tail && !p->over) {
            p->idle++;
            pthread_cond_wait(&p->job, &p->mutex);
            p->idle--;
        }
        if (p->head == p->tail) {
            break;
        }
        int (*fn)(void *) = p->queue[p->head % POOL_JOBS_MAX].fn;
        void *fn_arg = p->queue[p->head % POOL_JOBS_MAX].arg;
        p->head++;
        pthread_mutex_unlock(&p->mutex);
        (void)fn(fn_arg);
        pthread_mutex_lock(&p->mutex);
        p->in_flight--;
        if (p->starter_waits) {
            pthread_cond_signal(&p->room);
        }
    }
    pthread_mutex_unlock(&p->mutex);
    return NULL;
}

static inline void pool_create(pool *p, uint64_t total, int workers)
{
    pthread_mutex_init(&p->mutex, NULL);
    pthread_cond_init(&p->job, NULL);
    pthread_cond_init(&p->room, NULL);
    p->total = total;
    p->in_flight = p->head = p->tail = 0;
    p->starter_waits = p->over = false;
    p->workers = workers;
    p->idle = 0;
    must(total > POOL_JOBS_MAX || workers > POOL_WORKERS_MAX);
    for (int i = 0; i < workers; i++) {
        must(pthread_create(&p->worker[i], NULL, pool_work, p));
    }
}

static inline void pool_destroy(pool *p)
{
    pthread_mutex_lock(&p->mutex);
    p->over = true;
    pthread_cond_broadcast(&p->job);
    pthread_mutex_unlock(&p->mutex);
    for (int i = 0; i < p->workers; i++) {
        pthread_join(p->worker[i], NULL);
    }
    pthread_cond_destroy(&p->room);
    pthread_cond_destroy(&p->job);
    pthread_mutex_destroy(&p->mutex);
}

static inline void pool_start(pool *p, int (*fn)(void *), void *arg)
{
    pthread_mutex_lock(&p->mutex);
    while (p->in_flight == p->total) {
        p->starter_waits = true;
        pthread_cond_wait(&p->room, &p->mutex);
        p->starter_waits = false;
    }
    p->in_flight++;
    p->queue[p->tail % POOL_JOBS_MAX].fn = fn;
    p->queue[p->tail % POOL_JOBS_MAX].arg = arg;
    p->tail++;
    if (p->idle > 0) { /* a signal that nobody waits for is cheap, but not free */
        pthread_cond_signal(&p->job);
    }
    pthread_mutex_unlock(&p->mutex);
}

#endif
