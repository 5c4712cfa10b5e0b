/* SPDX-License-Identifier: MIT
 *
 * semaphore.h beside the bare mechanism and beside its peers.
 *
 *     bench/build.sh && build/bench/bench_semaphore [--quick] [--scenario NAME] [--reps N]
 *                                                   [--ms N] [--json FILE]
 *
 * The method. Nanoseconds of a shared machine mean little, so everything is a ratio within one
 * run: the contestants of a table take turns, round robin, one repetition each, and the next round
 * begins with another one. What is reported is the median over the rounds, and how far the middle
 * half of them spreads. A ratio is the median of the ratios within each round, not that of the
 * medians: a virtual machine has phases of a few seconds, in which its CPUs are near each other or
 * far, and all that contend run at half the speed of the phase before. A repetition during which
 * other processes kept the machine busy is done again, once, and the less disturbed of the two
 * counts; how busy they were over all is printed below each table.
 *
 *   uncontended   one thread takes and gives the only permit; CPU time of the thread per pair
 *   contended     T threads, P permits, about 50 ns of work with the permit held, nothing between
 *   hog           one thread holds the only permit for 2 ms and wants it back at once, one waits
 *   pingpong      two threads wake each other through two semaphores
 *   syscalls      system calls and allocations of a million uncontended pairs of ours
 *
 * The bars at the end are aims, not tests: a miss is printed and does not fail.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "../semaphore.h"
#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- The contestants ------------------------------------------------------------------------ */

/* The least that two atomic counters can do: it limits nothing. The empty asm wants the old value,
 * so that it is the same instruction that a semaphore would need. */
#define BENCH_XADD(call) \
    do { \
        uint64_t old_ = (call); \
        __asm__ volatile("" ::"r"(old_)); \
    } while (0)

#define BENCH_ID bench_limit_xadd
#define BENCH_LABEL "limit: fetch_sub/fetch_add"
#define BENCH_KIND BENCH_LIMIT
#define BENCH_SCENARIOS (BENCH_UNCONTENDED | BENCH_CONTENDED)
#define BENCH_TYPE uint64_t
#define BENCH_CREATE(s, permits) *(s) = (permits)
#define BENCH_DESTROY(s) (void)(s)
#define BENCH_ACQUIRE(s) BENCH_XADD(__atomic_fetch_sub(s, 1, __ATOMIC_ACQUIRE))
#define BENCH_RELEASE(s) BENCH_XADD(__atomic_fetch_add(s, 1, __ATOMIC_RELEASE))
#include "loops.h"

/* The least that a semaphore can do which must look before it takes. It never sleeps, but yields:
 * with more threads than CPUs it would else spin away the time that the holder needs. */
static inline void limit_cas_take(uint64_t *count)
{
    uint64_t seen = __atomic_load_n(count, __ATOMIC_RELAXED);
    for (int looks = 1;; looks++) {
        if (seen != 0) {
            if (__atomic_compare_exchange_n(count, &seen, seen - 1, true, __ATOMIC_ACQUIRE,
                                            __ATOMIC_RELAXED)) {
                return;
            }
            continue;
        }
        if (looks % 64 == 0) {
            sched_yield();
        }
        bench_pause();
        seen = __atomic_load_n(count, __ATOMIC_RELAXED);
    }
}

static inline void limit_cas_give(uint64_t *count)
{
    uint64_t seen = __atomic_load_n(count, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(count, &seen, seen + 1, true, __ATOMIC_RELEASE,
                                        __ATOMIC_RELAXED)) {
        continue;
    }
}

#define BENCH_ID bench_limit_cas
#define BENCH_LABEL "limit: CAS pair"
#define BENCH_KIND BENCH_LIMIT
#define BENCH_SCENARIOS (BENCH_UNCONTENDED | BENCH_CONTENDED)
#define BENCH_TYPE uint64_t
#define BENCH_CREATE(s, permits) *(s) = (permits)
#define BENCH_DESTROY(s) (void)(s)
#define BENCH_ACQUIRE(s) limit_cas_take(s)
#define BENCH_RELEASE(s) limit_cas_give(s)
#include "loops.h"

/* A hand-over without a count: one word says "go", and the other side spins or sleeps for it. */
static inline void limit_spin_wait(uint32_t *go)
{
    while (__atomic_load_n(go, __ATOMIC_ACQUIRE) == 0) {
        bench_pause();
    }
    __atomic_store_n(go, 0, __ATOMIC_RELAXED); /* the only waiter */
}

#define BENCH_ID bench_limit_spin
#define BENCH_LABEL "limit: spin ping-pong"
#define BENCH_KIND BENCH_LIMIT
#define BENCH_SCENARIOS BENCH_PINGPONG
#define BENCH_TYPE uint32_t
#define BENCH_CREATE(s, permits) *(s) = (permits)
#define BENCH_DESTROY(s) (void)(s)
#define BENCH_ACQUIRE(s) limit_spin_wait(s)
#define BENCH_RELEASE(s) __atomic_store_n(s, 1, __ATOMIC_RELEASE)
#include "loops.h"

#ifdef __linux__
#include <linux/futex.h>
#include <sys/syscall.h>

static inline void limit_futex_wait(uint32_t *go)
{
    while (__atomic_exchange_n(go, 0, __ATOMIC_ACQUIRE) == 0) {
        syscall(SYS_futex, go, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
    }
}

static inline void limit_futex_wake(uint32_t *go)
{
    __atomic_store_n(go, 1, __ATOMIC_RELEASE);
    syscall(SYS_futex, go, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

#define BENCH_ID bench_limit_futex
#define BENCH_LABEL "limit: futex ping-pong"
#define BENCH_KIND BENCH_LIMIT
#define BENCH_SCENARIOS BENCH_PINGPONG
#define BENCH_TYPE uint32_t
#define BENCH_CREATE(s, permits) *(s) = (permits)
#define BENCH_DESTROY(s) (void)(s)
#define BENCH_ACQUIRE(s) limit_futex_wait(s)
#define BENCH_RELEASE(s) limit_futex_wake(s)
#include "loops.h"
#endif

#define BENCH_ID bench_csem
#define BENCH_LABEL "csem"
#define BENCH_KIND BENCH_OURS
#define BENCH_SCENARIOS BENCH_ALL
#define BENCH_TYPE csem
#define BENCH_CREATE(s, permits) (void)csem_init(s, permits)
#define BENCH_DESTROY(s) (void)(s)
#define BENCH_ACQUIRE(s) (void)csem_acquire(s)
#define BENCH_RELEASE(s) (void)csem_release(s)
#include "loops.h"

#ifdef HAVE_SEM_T
#include <semaphore.h>

#define BENCH_ID bench_sem_t
#define BENCH_LABEL "sem_t"
#define BENCH_KIND BENCH_PEER
#define BENCH_SCENARIOS BENCH_ALL
#define BENCH_TYPE sem_t
#define BENCH_CREATE(s, permits) sem_init(s, 0, permits)
#define BENCH_DESTROY(s) sem_destroy(s)
#define BENCH_ACQUIRE(s) sem_wait(s)
#define BENCH_RELEASE(s) sem_post(s)
#include "loops.h"
#endif

/* A count under a mutex, as one writes it by hand. The signal is given inside, as the manuals of
 * all three show it: with nsync it then costs least, and only so may the count be freed after. */
typedef struct pthread_sem {
    pthread_mutex_t mutex;
    pthread_cond_t nonzero;
    uint32_t count;
} pthread_sem;

static inline void pthread_sem_create(pthread_sem *s, uint32_t permits)
{
    pthread_mutex_init(&s->mutex, NULL);
    pthread_cond_init(&s->nonzero, NULL);
    s->count = permits;
}

static inline void pthread_sem_destroy(pthread_sem *s)
{
    pthread_cond_destroy(&s->nonzero);
    pthread_mutex_destroy(&s->mutex);
}

static inline void pthread_sem_acquire(pthread_sem *s)
{
    pthread_mutex_lock(&s->mutex);
    while (s->count == 0) {
        pthread_cond_wait(&s->nonzero, &s->mutex);
    }
    s->count--;
    pthread_mutex_unlock(&s->mutex);
}

static inline void pthread_sem_release(pthread_sem *s)
{
    pthread_mutex_lock(&s->mutex);
    s->count++;
    pthread_cond_signal(&s->nonzero);
    pthread_mutex_unlock(&s->mutex);
}

#define BENCH_ID bench_pthread
#define BENCH_LABEL "pthread mutex+cond"
#define BENCH_KIND BENCH_PEER
#define BENCH_SCENARIOS BENCH_ALL
#define BENCH_TYPE pthread_sem
#define BENCH_CREATE(s, permits) pthread_sem_create(s, permits)
#define BENCH_DESTROY(s) pthread_sem_destroy(s)
#define BENCH_ACQUIRE(s) pthread_sem_acquire(s)
#define BENCH_RELEASE(s) pthread_sem_release(s)
#include "loops.h"

#ifdef HAVE_C11_THREADS
#include <threads.h>

typedef struct c11_sem {
    mtx_t mutex;
    cnd_t nonzero;
    uint32_t count;
} c11_sem;

static inline void c11_sem_create(c11_sem *s, uint32_t permits)
{
    mtx_init(&s->mutex, mtx_plain);
    cnd_init(&s->nonzero);
    s->count = permits;
}

static inline void c11_sem_destroy(c11_sem *s)
{
    cnd_destroy(&s->nonzero);
    mtx_destroy(&s->mutex);
}

static inline void c11_sem_acquire(c11_sem *s)
{
    mtx_lock(&s->mutex);
    while (s->count == 0) {
        cnd_wait(&s->nonzero, &s->mutex);
    }
    s->count--;
    mtx_unlock(&s->mutex);
}

static inline void c11_sem_release(c11_sem *s)
{
    mtx_lock(&s->mutex);
    s->count++;
    cnd_signal(&s->nonzero);
    mtx_unlock(&s->mutex);
}

#define BENCH_ID bench_c11
#define BENCH_LABEL "C11 mtx+cnd"
#define BENCH_KIND BENCH_PEER
#define BENCH_SCENARIOS BENCH_ALL
#define BENCH_TYPE c11_sem
#define BENCH_CREATE(s, permits) c11_sem_create(s, permits)
#define BENCH_DESTROY(s) c11_sem_destroy(s)
#define BENCH_ACQUIRE(s) c11_sem_acquire(s)
#define BENCH_RELEASE(s) c11_sem_release(s)
#include "loops.h"
#endif

#ifdef HAVE_NSYNC
#include <nsync.h>

typedef struct nsync_sem {
    nsync_mu mutex;
    nsync_cv nonzero;
    uint32_t count;
} nsync_sem;

static inline void nsync_sem_create(nsync_sem *s, uint32_t permits)
{
    nsync_mu_init(&s->mutex);
    nsync_cv_init(&s->nonzero);
    s->count = permits;
}

static inline void nsync_sem_acquire(nsync_sem *s)
{
    nsync_mu_lock(&s->mutex);
    while (s->count == 0) {
        nsync_cv_wait(&s->nonzero, &s->mutex);
    }
    s->count--;
    nsync_mu_unlock(&s->mutex);
}

static inline void nsync_sem_release(nsync_sem *s)
{
    nsync_mu_lock(&s->mutex);
    s->count++;
    nsync_cv_signal(&s->nonzero);
    nsync_mu_unlock(&s->mutex);
}

#define BENCH_ID bench_nsync
#define BENCH_LABEL "nsync mu+cv"
#define BENCH_KIND BENCH_PEER
#define BENCH_SCENARIOS BENCH_ALL
#define BENCH_TYPE nsync_sem
#define BENCH_CREATE(s, permits) nsync_sem_create(s, permits)
#define BENCH_DESTROY(s) (void)(s)
#define BENCH_ACQUIRE(s) nsync_sem_acquire(s)
#define BENCH_RELEASE(s) nsync_sem_release(s)
#include "loops.h"
#endif

#ifdef HAVE_LIBUV
#include <uv.h>

#define BENCH_ID bench_uv
#define BENCH_LABEL "uv_sem"
#define BENCH_KIND BENCH_PEER
#define BENCH_SCENARIOS BENCH_ALL
#define BENCH_TYPE uv_sem_t
#define BENCH_CREATE(s, permits) uv_sem_init(s, permits)
#define BENCH_DESTROY(s) uv_sem_destroy(s)
#define BENCH_ACQUIRE(s) uv_sem_wait(s)
#define BENCH_RELEASE(s) uv_sem_post(s)
#include "loops.h"
#endif

static const bench_contestant *const contestants[] = {
    &bench_limit_xadd,
    &bench_limit_cas,
    &bench_limit_spin,
#ifdef __linux__
    &bench_limit_futex,
#endif
    &bench_csem,
    &bench_csem_nospin,
#ifdef HAVE_SEM_T
    &bench_sem_t,
#endif
    &bench_pthread,
#ifdef HAVE_C11_THREADS
    &bench_c11,
#endif
#ifdef HAVE_STD_SEMAPHORE
    &bench_std_semaphore,
#endif
#ifdef HAVE_NSYNC
    &bench_nsync,
#endif
#ifdef HAVE_LIGHTWEIGHT
    &bench_lightweight,
#endif
#ifdef HAVE_LIBUV
    &bench_uv,
#endif
};
enum { CONTESTANTS = sizeof contestants / sizeof contestants[0] };

static const char *const skipped[] = {
#ifndef __linux__
    "limit: futex ping-pong (not Linux)",
#endif
#ifndef HAVE_SEM_T
    "sem_t (no unnamed POSIX semaphores)",
#endif
#ifndef HAVE_C11_THREADS
    "C11 mtx+cnd (no <threads.h>)",
#endif
#ifndef HAVE_STD_SEMAPHORE
    "std::counting_semaphore (no C++20 compiler, or no <semaphore> with it)",
#endif
#ifndef HAVE_NSYNC
    "nsync mu+cv (libnsync-dev is not installed)",
#endif
#ifndef HAVE_LIGHTWEIGHT
    "LightweightSemaphore (no C++20 compiler, or libconcurrentqueue-dev is not installed)",
#endif
#ifndef HAVE_LIBUV
    "uv_sem (libuv1-dev is not installed)",
#endif
    NULL,
};

/* ---- The tables ----------------------------------------------------------------------------- */

enum { REPS_MAX = 99, TABLES_MAX = 16, METRICS_MAX = 4, COLUMNS_MAX = 12 };

typedef enum reading { MEDIAN, WORST, SPREAD, TO_LIMIT, TO_SEM_T } reading;

typedef struct column {
    const char *header;
    int metric;
    reading reading;
} column;

typedef struct scenario {
    const char *name, *title;
    const char *note;                 /* below its last table, or NULL */
    const bench_contestant *limit;    /* of TO_LIMIT, or NULL */
    const char *metrics[METRICS_MAX]; /* as the JSON calls them; less is better in all */
    column columns[COLUMNS_MAX];
    column order; /* by which the peers are sorted */
} scenario;

typedef struct row {
    const bench_contestant *who;
    double value[METRICS_MAX][REPS_MAX];
} row;

typedef struct table {
    const scenario *of;
    char config[32];
    int threads, permits;
    int rows, reps;
    row row[CONTESTANTS];
} table;

static table tables[TABLES_MAX];
static int table_count;

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static const row *row_of(const table *t, const char *label)
{
    for (int i = 0; i < t->rows; i++) {
        if (strcmp(t->row[i].who->label, label) == 0) {
            return &t->row[i];
        }
    }
    return NULL;
}

/* The value below which that part of them lies. */
static double quantile_of(const double value[], int count, double part)
{
    double sorted[REPS_MAX];
    memcpy(sorted, value, (size_t)count * sizeof sorted[0]);
    qsort(sorted, (size_t)count, sizeof sorted[0], ascending);
    double at = part * (count - 1);
    int below = (int)at;
    int above = below + 1 < count ? below + 1 : below;
    if (at <= below || sorted[below] >= sorted[above]) {
        return sorted[below]; /* and nothing is computed with what may be infinite */
    }
    return sorted[below] + (at - below) * (sorted[above] - sorted[below]);
}

/* The median of the ratios within each round; not a number if there is no such row. */
static double ratio(const table *t, const row *r, const row *base, int metric)
{
    double ratios[REPS_MAX];
    int count = 0;
    for (int rep = 0; base != NULL && rep < t->reps; rep++) {
        double x = r->value[metric][rep] / base->value[metric][rep];
        if (!isnan(x)) { /* 0 / 0, or neither ever got a turn */
            ratios[count++] = x;
        }
    }
    return count == 0 ? (double)NAN : quantile_of(ratios, count, 0.5);
}

/* A cell. */
static double look(const table *t, const row *r, column c)
{
    const double *value = r->value[c.metric];
    switch (c.reading) {
    case MEDIAN:
        return quantile_of(value, t->reps, 0.5);
    case WORST:
        return quantile_of(value, t->reps, 1.0);
    case SPREAD:
        return 100 * (quantile_of(value, t->reps, 0.75) - quantile_of(value, t->reps, 0.25)) /
               quantile_of(value, t->reps, 0.5);
    case TO_LIMIT:
        return t->of->limit == NULL ? (double)NAN
                                    : ratio(t, r, row_of(t, t->of->limit->label), c.metric);
    case TO_SEM_T:
        return ratio(t, r, row_of(t, "sem_t"), c.metric);
    }
    return (double)NAN;
}

static double median(const table *t, const row *r, int metric)
{
    return look(t, r, (column){NULL, metric, MEDIAN});
}

static const char *number(double x, char text[static 32])
{
    if (isnan(x)) {
        return strcpy(text, "-");
    }
    int decimals = fabs(x) < 10 ? 2 : fabs(x) < 100 ? 1 : 0;
    snprintf(text, 32, "%.*f", decimals, x);
    return text;
}

/* The limits come first, then we, then the peers, best first. */
static bool goes_before(const table *t, const row *a, const row *b)
{
    if (a->who->kind != b->who->kind) {
        return a->who->kind < b->who->kind;
    }
    return a->who->kind == BENCH_PEER && look(t, a, t->of->order) < look(t, b, t->of->order);
}

static void sort_rows(table *t)
{
    for (int i = 1; i < t->rows; i++) {
        for (int j = i; j > 0 && goes_before(t, &t->row[j], &t->row[j - 1]); j--) {
            row swap = t->row[j];
            t->row[j] = t->row[j - 1];
            t->row[j - 1] = swap;
        }
    }
}

static void print_table(const table *t)
{
    const column *columns = t->of->columns;
    char text[32];
    printf("\n%s%s%s (%d repetitions)\n", t->of->title, t->config[0] != '\0' ? ", " : "", t->config,
           t->reps);
    printf("  %-27s", "");
    for (int i = 0; i < COLUMNS_MAX && columns[i].header != NULL; i++) {
        printf(" %11s", columns[i].header);
    }
    printf("\n");
    for (int i = 0; i < t->rows; i++) {
        printf("  %-27s", t->row[i].who->label);
        for (int k = 0; k < COLUMNS_MAX && columns[k].header != NULL; k++) {
            printf(" %11s", number(look(t, &t->row[i], columns[k]), text));
        }
        printf("\n");
    }
    fflush(stdout);
}

/* ---- Running -------------------------------------------------------------------------------- */

static struct {
    int reps, ms;
    const char *scenario, *json;
} options;

static double ns_per_tick = 1;
static uint64_t work_rounds;

/* A contestant that loses a wake-up would hang the run; say which one it was. */
static char now_running[96];

static void give_up(int signal_number)
{
    static const char text[] = "\nbench_semaphore: hangs, a wake-up was lost in: ";
    (void)signal_number;
    ssize_t ignored = write(2, text, sizeof text - 1);
    ignored += write(2, now_running, strlen(now_running));
    ignored += write(2, "\n", 1);
    _exit(ignored > 0 ? 3 : 4);
}

/* The n-th CPU that we may run on, counted from 0, or -1. */
static int nth_cpu(int n)
{
#ifdef __linux__
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) {
        for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
            if (CPU_ISSET((size_t)cpu, &allowed) && n-- == 0) {
                return cpu;
            }
        }
    }
#endif
    (void)n;
    return -1;
}

static void *thread_main(void *arg)
{
    bench_thread *self = arg;
#ifdef __linux__
    if (self->cpu >= 0) {
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET((size_t)self->cpu, &one);
        sched_setaffinity(0, sizeof one, &one);
    }
#endif
    self->body(self);
    return NULL;
}

enum { THREADS_MAX = 16 };
static bench_run run;
static bench_thread threads[THREADS_MAX];

typedef struct window {
    double wall_ns, cpu_ns;
    double ops, most_ops, least_ops; /* of all threads together, and of one */
    double worst_us, most_turns;     /* of one wait */
} window;

/* Runs the threads, whose bodies and objects are set, and looks at them from outside, twice: all
 * that is counted lies between the two looks. */
static window run_threads(int count, int ms)
{
    uint64_t before[THREADS_MAX];
    window w = {0, 0, 0, 0, INFINITY, 0, 0};
    uint64_t worst = 0;

    alarm((unsigned)(60 + 4 * ms / 1000));
    run.phase = BENCH_WARM;
    run.work = work_rounds;
    run.hog_turns = 0;
    run.pong_is_over = 0;
    for (int i = 0; i < count; i++) {
        threads[i].ops = 0;
        memset(threads[i].worst, 0, sizeof threads[i].worst);
        memset(threads[i].most_turns, 0, sizeof threads[i].most_turns);
        threads[i].run = &run;
        if (pthread_create(&threads[i].id, NULL, thread_main, &threads[i]) != 0) {
            fprintf(stderr, "bench_semaphore: no thread to be had\n");
            exit(1);
        }
    }
    bench_sleep((int64_t)ms * 1000000 / 5 + 1000000);
    for (int i = 0; i < count; i++) {
        before[i] = bench_read(&threads[i].ops);
    }
    int64_t wall = bench_clock(CLOCK_MONOTONIC);
    int64_t cpu = bench_clock(CLOCK_PROCESS_CPUTIME_ID);
    __atomic_store_n(&run.phase, BENCH_MEASURE, __ATOMIC_RELAXED);

    bench_sleep((int64_t)ms * 1000000);

    w.wall_ns = (double)(bench_clock(CLOCK_MONOTONIC) - wall);
    w.cpu_ns = (double)(bench_clock(CLOCK_PROCESS_CPUTIME_ID) - cpu);
    for (int i = 0; i < count; i++) {
        double ops = (double)(bench_read(&threads[i].ops) - before[i]);
        w.ops += ops;
        w.most_ops = ops > w.most_ops ? ops : w.most_ops;
        w.least_ops = ops < w.least_ops ? ops : w.least_ops;
    }
    __atomic_store_n(&run.phase, BENCH_STOP, __ATOMIC_RELAXED);
    for (int i = 0; i < count; i++) {
        pthread_join(threads[i].id, NULL);
        for (int phase = BENCH_MEASURE; phase <= BENCH_STOP; phase++) {
            worst = threads[i].worst[phase] > worst ? threads[i].worst[phase] : worst;
            if ((double)threads[i].most_turns[phase] > w.most_turns) {
                w.most_turns = (double)threads[i].most_turns[phase];
            }
        }
    }
    alarm(0);
    w.worst_us = (double)worst * ns_per_tick / 1000;
    return w;
}

static void measure_uncontended(const bench_contestant *who, const table *t, double out[])
{
    double least = (options.ms < 100 ? 2 : 10) * 1e6;
    void *object = who->create(1);
    (void)t;
    alarm(60);
    /* Twice as many until it lasts long enough: the last batch counts, those before warm up. */
    for (uint64_t count = 1024;; count *= 2) {
        int64_t before = bench_clock(CLOCK_THREAD_CPUTIME_ID);
        who->pairs(object, count);
        double spent = (double)(bench_clock(CLOCK_THREAD_CPUTIME_ID) - before);
        if (spent >= least) {
            out[0] = spent / (double)count;
            break;
        }
    }
    alarm(0);
    who->destroy(object);
}

static void measure_contended(const bench_contestant *who, const table *t, double out[])
{
    run.first = who->create((uint32_t)t->permits);
    for (int i = 0; i < t->threads; i++) {
        threads[i].body = who->contend;
        threads[i].cpu = -1;
    }
    window w = run_threads(t->threads, options.ms);
    out[0] = w.wall_ns / w.ops;
    out[1] = w.cpu_ns / w.ops;
    out[2] = w.worst_us;
    out[3] = w.most_ops / w.least_ops;
    who->destroy(run.first);
}

static void measure_hog(const bench_contestant *who, const table *t, double out[])
{
    (void)t;
    run.first = who->create(1);
    threads[0].body = who->hog;
    threads[1].body = who->victim;
    threads[0].cpu = threads[1].cpu = -1;
    /* At least 20 turns of the hog: less would not show how long a victim can starve. */
    window w = run_threads(2, options.ms > 40 ? options.ms : 40);
    out[0] = w.most_turns;
    out[1] = w.worst_us;
    who->destroy(run.first);
}

static void measure_pingpong(const bench_contestant *who, const table *t, double out[])
{
    bool pinned = strcmp(t->config, "two CPUs") == 0;
    run.first = who->create(0);
    run.second = who->create(0);
    threads[0].body = who->ping;
    threads[1].body = who->pong;
    threads[0].cpu = pinned ? nth_cpu(0) : -1;
    threads[1].cpu = pinned ? nth_cpu(1) : -1;
    window w = run_threads(2, options.ms);
    out[0] = w.wall_ns / (2 * w.ops);
    out[1] = w.cpu_ns / (2 * w.ops);
    who->destroy(run.first);
    who->destroy(run.second);
}

/* What the machine did since it started: in ticks of a few milliseconds, so good enough for a long
 * repetition only. All 0 where the system does not tell. */
typedef struct load {
    double wall_ns, own_ns, busy_ns, stolen_ns;
} load;

static load machine_load(void)
{
    double field[8] = {0};
    int got = 0;
    load l = {(double)bench_clock(CLOCK_MONOTONIC), (double)bench_clock(CLOCK_PROCESS_CPUTIME_ID),
              0, 0};
    FILE *stat = fopen("/proc/stat", "r");
    if (stat != NULL) {
        got = fscanf(stat, "cpu %lf %lf %lf %lf %lf %lf %lf %lf", &field[0], &field[1], &field[2],
                     &field[3], &field[4], &field[5], &field[6], &field[7]);
        fclose(stat);
    }
    if (got == 8) { /* all but 3 and 4, idle and waiting for a disk */
        double tick_ns = 1e9 / (double)sysconf(_SC_CLK_TCK);
        l.busy_ns = (field[0] + field[1] + field[2] + field[5] + field[6]) * tick_ns;
        l.stolen_ns = field[7] * tick_ns;
    }
    return l;
}

/* The part of all CPU time since then that other processes used, and that the host took away. */
static double others_since(load then)
{
    load now = machine_load();
    double others = now.busy_ns - then.busy_ns - (now.own_ns - then.own_ns);
    double all = (now.wall_ns - then.wall_ns) * (double)sysconf(_SC_NPROCESSORS_ONLN);
    return now.busy_ns > 0 && others > 0 ? others / all : 0;
}

static double stolen_since(load then)
{
    load now = machine_load();
    return (now.stolen_ns - then.stolen_ns) /
           ((now.wall_ns - then.wall_ns) * (double)sysconf(_SC_NPROCESSORS_ONLN));
}

typedef void measure_function(const bench_contestant *who, const table *t, double out[]);

/* One repetition, or the better of two if others were busy during the first. */
static bool measure_quietly(measure_function *measure, const table *t, row *r, int rep)
{
    enum { TOO_SHORT_TO_TELL_MS = 100 };
    const double too_much = 0.15;
    double least = INFINITY;
    bool again = false;
    do {
        double out[METRICS_MAX] = {0};
        load before = machine_load();
        measure(r->who, t, out);
        double others = options.ms < TOO_SHORT_TO_TELL_MS ? 0 : others_since(before);
        if (others < least) {
            least = others;
            for (int metric = 0; metric < METRICS_MAX; metric++) {
                r->value[metric][rep] = out[metric];
            }
        }
        again = !again && others > too_much;
    } while (again);
    return least <= too_much;
}

static const table *run_table(const scenario *of, int scenario_bit, const char *config, int count,
                              int permits, int reps, measure_function *measure)
{
    table *t = &tables[table_count++];
    int disturbed = 0;
    t->of = of;
    t->threads = count;
    t->permits = permits;
    t->reps = reps < REPS_MAX ? reps : REPS_MAX;
    snprintf(t->config, sizeof t->config, "%s", config);
    for (int i = 0; i < CONTESTANTS; i++) {
        if ((contestants[i]->scenarios & scenario_bit) != 0) {
            t->row[t->rows++].who = contestants[i];
        }
    }

    load before = machine_load();
    for (int rep = 0; rep < t->reps; rep++) {
        for (int i = 0; i < t->rows; i++) {
            row *r = &t->row[(i + rep) % t->rows];
            snprintf(now_running, sizeof now_running, "%s %s %s", of->name, config, r->who->label);
            disturbed += !measure_quietly(measure, t, r, rep);
        }
    }
    double others = others_since(before), stolen = stolen_since(before);

    sort_rows(t);
    print_table(t);
    printf("  others used %.0f %% of the CPUs meanwhile, the host took %.0f %%; %d of %d "
           "repetitions disturbed\n",
           100 * others, 100 * stolen, disturbed, t->rows * t->reps);
    if (of->note != NULL) {
        printf("  %s\n", of->note);
    }
    return t;
}

/* ---- The bars ------------------------------------------------------------------------------- */

typedef struct bar {
    char text[96];
    double reached, aim;
    bool at_least;
} bar;

enum { BARS_MAX = 96 };
static bar bars[BARS_MAX];
static int bar_count;

static bool bar_met(const bar *b)
{
    return b->at_least ? b->reached >= b->aim : b->reached <= b->aim;
}

__attribute__((format(printf, 4, 5))) static void add_bar(double reached, bool at_least, double aim,
                                                          const char *format, ...)
{
    bar *b = &bars[bar_count];
    va_list arguments;
    if (isnan(reached) || bar_count == BARS_MAX) {
        return; /* the peer is not here */
    }
    bar_count++;
    va_start(arguments, format);
    vsnprintf(b->text, sizeof b->text, format, arguments);
    va_end(arguments);
    b->reached = reached;
    b->aim = aim;
    b->at_least = at_least;
}

/* The peer with the least median of the first metric, leaving one out. */
static const row *best_peer(const table *t, const char *but)
{
    const row *best = NULL;
    for (int i = 0; i < t->rows; i++) {
        const row *r = &t->row[i];
        if (r->who->kind == BENCH_PEER && strcmp(r->who->label, but) != 0 &&
            (best == NULL || median(t, r, 0) < median(t, best, 0))) {
            best = r;
        }
    }
    return best;
}

static void print_bars(void)
{
    printf("\nbars\n");
    for (int i = 0; i < bar_count; i++) {
        printf("  %-6s %9.3f  %s %.2f  %s\n", bar_met(&bars[i]) ? "met" : "missed", bars[i].reached,
               bars[i].at_least ? ">=" : "<=", bars[i].aim, bars[i].text);
    }
    if (bar_count == 0) {
        printf("  none of them was measured\n");
    }
}

/* ---- The scenarios -------------------------------------------------------------------------- */

static void run_uncontended(void)
{
    static const scenario uncontended = {
        .name = "uncontended",
        .title = "uncontended pair, CPU time of the thread",
        .limit = &bench_limit_cas,
        .metrics = {"pair_ns"},
        .columns = {{"ns/pair", 0, MEDIAN},
                    {"spread %", 0, SPREAD},
                    {"x CAS pair", 0, TO_LIMIT},
                    {"x sem_t", 0, TO_SEM_T}},
        .order = {NULL, 0, MEDIAN},
    };
    /* Short repetitions, so there can be more of them. */
    const table *t =
        run_table(&uncontended, BENCH_UNCONTENDED, "", 1, 1, 3 * options.reps, measure_uncontended);
    const row *us = row_of(t, "csem");
    add_bar(look(t, us, (column){NULL, 0, TO_LIMIT}), false, 1.15, "uncontended: time x CAS pair");
    add_bar(look(t, us, (column){NULL, 0, TO_SEM_T}), false, 0.9, "uncontended: time x sem_t");
}

static void run_contended(void)
{
    static const scenario contended = {
        .name = "contended",
        .title = "contended, 50 ns of work",
        .limit = &bench_limit_cas,
        .metrics = {"op_ns", "cpu_ns", "worst_us", "share"},
        .columns = {{"ns/op", 0, MEDIAN},
                    {"spread %", 0, SPREAD},
                    {"x CAS pair", 0, TO_LIMIT},
                    {"x sem_t", 0, TO_SEM_T},
                    {"CPU ns/op", 1, MEDIAN},
                    {"x sem_t", 1, TO_SEM_T},
                    {"worst us", 2, MEDIAN},
                    {"of all", 2, WORST},
                    {"max/min", 3, MEDIAN}},
        .order = {NULL, 0, MEDIAN},
    };
    for (int count = 2; count <= THREADS_MAX; count *= 2) {
        for (int half = 0; half <= (count > 2); half++) {
            int permits = half ? count / 2 : 1;
            char config[32];
            snprintf(config, sizeof config, "T=%d P=%d", count, permits);
            const table *t = run_table(&contended, BENCH_CONTENDED, config, count, permits,
                                       options.reps, measure_contended);
            const row *us = row_of(t, "csem"), *sem_t_row = row_of(t, "sem_t");
            const row *best = best_peer(t, "");
            add_bar(1 / look(t, us, (column){NULL, 0, TO_SEM_T}), true, count == 2 ? 1.0 : 1.5,
                    "%s: throughput x sem_t", config);
            if (best != NULL) {
                add_bar(1 / ratio(t, us, best, 0), true, 0.9, "%s: throughput x the best peer, %s",
                        config, best->who->label);
            }
            add_bar(look(t, us, (column){NULL, 1, TO_SEM_T}), false, 1.0,
                    "%s: CPU per operation x sem_t", config);
            add_bar(look(t, us, (column){NULL, 2, TO_SEM_T}), false, 1.0,
                    "%s: worst wait of a repetition x sem_t", config);
            if (sem_t_row != NULL) {
                const column of_all = {NULL, 2, WORST};
                add_bar(look(t, us, of_all) / look(t, sem_t_row, of_all), false, 1.0,
                        "%s: worst wait of all x sem_t", config);
            }
        }
    }
}

static void run_hog(void)
{
    static const scenario hog = {
        .name = "hog",
        .title = "hog that holds 2 ms, against a victim",
        .note = "the end of a repetition ends a wait",
        .metrics = {"turns", "worst_us"},
        .columns = {{"hog's turns", 0, MEDIAN},
                    {"of all", 0, WORST},
                    {"x sem_t", 0, TO_SEM_T},
                    {"worst us", 1, MEDIAN},
                    {"of all", 1, WORST},
                    {"x sem_t", 1, TO_SEM_T}},
        .order = {NULL, 1, MEDIAN},
    };
    const table *t = run_table(&hog, BENCH_HOG, "P=1", 2, 1, options.reps, measure_hog);
    add_bar(look(t, row_of(t, "csem"), (column){NULL, 0, WORST}), false, 5,
            "hog: turns of the hog during one wait");
}

static void run_pingpong(void)
{
    static const scenario pingpong = {
        .name = "pingpong",
        .title = "ping-pong, one way",
#ifdef __linux__
        .limit = &bench_limit_futex,
#endif
        .metrics = {"handoff_ns", "cpu_ns"},
        .columns = {{"ns", 0, MEDIAN},
                    {"spread %", 0, SPREAD},
                    {"x futex", 0, TO_LIMIT},
                    {"x sem_t", 0, TO_SEM_T},
                    {"CPU ns", 1, MEDIAN}},
        .order = {NULL, 0, MEDIAN},
    };
    /* Where the scheduler puts the two decides more than anything else about threads that sleep: on
     * one CPU a hand-over costs a tenth. So it is also measured with a CPU for each. */
    const char *placements[] = {"not pinned", "two CPUs"};
    for (int i = 0; i < 2; i++) {
        if (i == 1 && nth_cpu(1) < 0) {
            printf("\nping-pong on two CPUs: skipped, there is only one, or no way to pin\n");
            break;
        }
        const char *config = placements[i];
        const table *t =
            run_table(&pingpong, BENCH_PINGPONG, config, 2, 0, options.reps, measure_pingpong);
        const row *us = row_of(t, "csem"), *quick = row_of(t, "LightweightSemaphore");
        const row *best = best_peer(t, "LightweightSemaphore");
        add_bar(look(t, row_of(t, "csem, no spin"), (column){NULL, 0, TO_LIMIT}), false, 1.15,
                "ping-pong, %s: no spin, time x futex", config);
        if (quick != NULL) {
            add_bar(ratio(t, us, quick, 0), false, 2.0,
                    "ping-pong, %s: time x LightweightSemaphore", config);
        }
        if (best != NULL) {
            add_bar(ratio(t, us, best, 0), false, 1.0,
                    "ping-pong, %s: time x the best other peer, %s", config, best->who->label);
        }
    }
}

/* Allocations are counted by standing in front of the C library's allocator. */
static uint64_t allocations;
#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define COUNTS_ALLOCATIONS
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *memory, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);

void *malloc(size_t size)
{
    __atomic_fetch_add(&allocations, 1, __ATOMIC_RELAXED);
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    __atomic_fetch_add(&allocations, 1, __ATOMIC_RELAXED);
    return __libc_calloc(count, size);
}

void *realloc(void *memory, size_t size)
{
    __atomic_fetch_add(&allocations, 1, __ATOMIC_RELAXED);
    return __libc_realloc(memory, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
    __atomic_fetch_add(&allocations, 1, __ATOMIC_RELAXED);
    return __libc_memalign(alignment, size);
}
#endif

/* Runs this program again under strace, for that many pairs and nothing else, and returns how many
 * system calls it made from start to end; or -1. */
static long count_system_calls(const char *pairs)
{
    char log[512], self[512];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length <= 0) {
        return -1;
    }
    self[length] = '\0';
    snprintf(log, sizeof log, "%s.strace", options.json);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        int nowhere = open("/dev/null", O_WRONLY);
        dup2(nowhere, 2);
        execlp("strace", "strace", "-f", "-qq", "-o", log, self, "--pairs", pairs, (char *)NULL);
        _exit(127);
    }
    int status = -1;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
        unlink(log);
        return -1;
    }
    long lines = 0;
    FILE *file = fopen(log, "r");
    for (int c = file != NULL ? getc(file) : EOF; c != EOF; c = getc(file)) {
        lines += c == '\n';
    }
    if (file != NULL) {
        fclose(file);
    }
    unlink(log);
    return lines > 0 ? lines : -1;
}

static void run_syscalls(void)
{
    printf("\nsystem calls and allocations of uncontended pairs of csem\n");
    long few_calls = count_system_calls("10");
    long many_calls = few_calls < 0 ? -1 : count_system_calls("1000000");
    if (many_calls < 0) {
        printf("  system calls: skipped, strace is not installed or may not trace\n");
    } else {
        printf("  system calls: %ld in a process with 10 pairs, %ld in one with 1000000\n",
               few_calls, many_calls);
        add_bar((double)(many_calls - few_calls), false, 0,
                "syscalls: more of them with 10^6 pairs than with 10");
    }
#ifdef COUNTS_ALLOCATIONS
    void *object = bench_csem.create(1);
    uint64_t before = allocations;
    bench_csem.pairs(object, 1000000);
    uint64_t pair_allocations = allocations - before;
    bench_csem.destroy(object);
    printf("  allocations: %llu in 1000000 pairs\n", (unsigned long long)pair_allocations);
    add_bar((double)pair_allocations, false, 0, "syscalls: allocations in 10^6 pairs");
#else
    printf("  allocations: skipped, no way to count them with this C library\n");
#endif
}

/* ---- The machine ---------------------------------------------------------------------------- */

static void calibrate(void)
{
    double best = INFINITY;
    for (int i = 0; i < 7; i++) {
        enum { ROUNDS = 1000000 };
        int64_t before = bench_clock(CLOCK_THREAD_CPUTIME_ID);
        bench_work(ROUNDS);
        double each = (double)(bench_clock(CLOCK_THREAD_CPUTIME_ID) - before) / ROUNDS;
        best = each < best ? each : best;
    }
    work_rounds = (uint64_t)(50 / best + 0.5);

    int64_t before = bench_clock(CLOCK_MONOTONIC);
    uint64_t ticks = bench_ticks();
    bench_sleep(20000000);
    ns_per_tick = (double)(bench_clock(CLOCK_MONOTONIC) - before) / (double)(bench_ticks() - ticks);
}

static const char *cpu_model(void)
{
    static char line[256];
    FILE *info = fopen("/proc/cpuinfo", "r");
    while (info != NULL && fgets(line, sizeof line, info) != NULL) {
        char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) == 0 && colon != NULL) {
            fclose(info);
            colon[strcspn(colon, "\n")] = '\0';
            return colon + 2;
        }
    }
    if (info != NULL) {
        fclose(info);
    }
    return "unknown";
}

#ifndef BENCH_FLAGS
#define BENCH_FLAGS "unknown"
#endif
#ifdef __clang__
#define BENCH_COMPILER "clang " __clang_version__
#else
#define BENCH_COMPILER "gcc " __VERSION__
#endif

static void print_machine(void)
{
    struct utsname system;
    uname(&system);
    printf("CPU        %s, %ld CPUs, %s\n", cpu_model(), sysconf(_SC_NPROCESSORS_ONLN),
           system.machine);
    printf("kernel     %s %s\n", system.sysname, system.release);
    printf("compiler   %s, flags %s\n", BENCH_COMPILER, BENCH_FLAGS);
    printf("threads    not pinned, except where a table says so\n");
    printf("run        %d repetitions of %d ms, round robin\n", options.reps, options.ms);
    printf("work       %llu rounds, to take 50 ns\n", (unsigned long long)work_rounds);
    for (int i = 0; skipped[i] != NULL; i++) {
        printf("skipped    %s\n", skipped[i]);
    }
}

/* ---- JSON: a line for each result, so that line-oriented tools can read it ------------------ */

static void json_string(FILE *out, const char *text)
{
    putc('"', out);
    for (; *text != '\0'; text++) {
        if (*text == '"' || *text == '\\') {
            putc('\\', out);
        }
        if ((unsigned char)*text >= ' ') {
            putc(*text, out);
        }
    }
    putc('"', out);
}

static void json_number(FILE *out, double x)
{
    if (isfinite(x)) {
        fprintf(out, "%.6g", x);
    } else {
        fprintf(out, "null");
    }
}

static void json_row(FILE *out, const table *t, const row *r)
{
    static const char *const kinds[] = {"limit", "ours", "peer"};
    fprintf(out, "{\"scenario\": \"%s\", \"config\": \"%s\", \"threads\": %d, \"permits\": %d, ",
            t->of->name, t->config, t->threads, t->permits);
    fprintf(out, "\"contestant\": \"%s\", \"kind\": \"%s\"", r->who->label, kinds[r->who->kind]);
    for (int metric = 0; metric < METRICS_MAX && t->of->metrics[metric] != NULL; metric++) {
        const char *name = t->of->metrics[metric];
        static const struct {
            const char *suffix;
            reading reading;
        } readings[] = {
            {"", MEDIAN}, {"_worst", WORST}, {"_to_limit", TO_LIMIT}, {"_to_sem_t", TO_SEM_T}};
        for (int i = 0; i < 4; i++) {
            fprintf(out, ", \"%s%s\": ", name, readings[i].suffix);
            json_number(out, look(t, r, (column){NULL, metric, readings[i].reading}));
        }
        fprintf(out, ", \"%s_reps\": [", name);
        for (int rep = 0; rep < t->reps; rep++) {
            fprintf(out, rep == 0 ? "" : ", ");
            json_number(out, r->value[metric][rep]);
        }
        fprintf(out, "]");
    }
    fprintf(out, "}");
}

static bool write_json(FILE *out)
{
    struct utsname system;
    uname(&system);
    fprintf(out, "{\n\"cpu\": ");
    json_string(out, cpu_model());
    fprintf(out, ",\n\"cpus\": %ld,\n\"kernel\": ", sysconf(_SC_NPROCESSORS_ONLN));
    json_string(out, system.release);
    fprintf(out, ",\n\"compiler\": ");
    json_string(out, BENCH_COMPILER);
    fprintf(out, ",\n\"flags\": ");
    json_string(out, BENCH_FLAGS);
    fprintf(out, ",\n\"reps\": %d,\n\"ms\": %d,\n\"skipped\": [", options.reps, options.ms);
    for (int i = 0; skipped[i] != NULL; i++) {
        fprintf(out, i == 0 ? "" : ", ");
        json_string(out, skipped[i]);
    }
    fprintf(out, "],\n\"results\": [");
    const char *separator = "\n";
    for (int i = 0; i < table_count; i++) {
        for (int k = 0; k < tables[i].rows; k++) {
            fprintf(out, "%s", separator);
            json_row(out, &tables[i], &tables[i].row[k]);
            separator = ",\n";
        }
    }
    fprintf(out, "\n],\n\"bars\": [");
    for (int i = 0; i < bar_count; i++) {
        fprintf(out, "%s{\"bar\": ", i == 0 ? "\n" : ",\n");
        json_string(out, bars[i].text);
        fprintf(out, ", \"reached\": ");
        json_number(out, bars[i].reached);
        fprintf(out, ", \"aim\": \"%s %.2f\", \"met\": %s}",
                bars[i].at_least ? ">=" : "<=", bars[i].aim, bar_met(&bars[i]) ? "true" : "false");
    }
    fprintf(out, "\n]\n}\n");
    return fclose(out) == 0;
}

/* ---- main ----------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    void (*run)(void);
} scenarios[] = {
    {"uncontended", run_uncontended}, {"contended", run_contended}, {"hog", run_hog},
    {"pingpong", run_pingpong},       {"syscalls", run_syscalls},
};
enum { SCENARIOS = sizeof scenarios / sizeof scenarios[0] };

static int usage(void)
{
    fprintf(stderr, "usage: bench_semaphore [--quick] [--scenario NAME] [--reps N] [--ms N]"
                    " [--json FILE]\nscenarios:");
    for (int i = 0; i < SCENARIOS; i++) {
        fprintf(stderr, " %s", scenarios[i].name);
    }
    fprintf(stderr, "\n");
    return 2;
}

static bool known_scenario(const char *name)
{
    for (int i = 0; i < SCENARIOS; i++) {
        if (strcmp(scenarios[i].name, name) == 0) {
            return true;
        }
    }
    return false;
}

/* A whole number from 1 to most, or 0. */
static int parse_count(const char *text, long most)
{
    char *end;
    long value = strtol(text, &end, 10);
    return *text != '\0' && *end == '\0' && value >= 1 && value <= most ? (int)value : 0;
}

int main(int argc, char **argv)
{
    bool quick = false;
    if (argc == 3 && strcmp(argv[1], "--pairs") == 0) { /* for strace: nothing else happens */
        static csem alone = CSEM_INIT(1);
        bench_csem.pairs(&alone, strtoull(argv[2], NULL, 10));
        return 0;
    }
    options.json = "build/bench_semaphore.json";
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(argv[i], "--quick") == 0) {
            quick = true;
            continue;
        } else if (strcmp(argv[i], "--scenario") == 0 && known_scenario(value)) {
            options.scenario = value;
        } else if (strcmp(argv[i], "--reps") == 0 && parse_count(value, REPS_MAX) != 0) {
            options.reps = parse_count(value, REPS_MAX);
        } else if (strcmp(argv[i], "--ms") == 0 && parse_count(value, 60000) != 0) {
            options.ms = parse_count(value, 60000);
        } else if (strcmp(argv[i], "--json") == 0 && *value != '\0') {
            options.json = value;
        } else {
            return usage();
        }
        i++;
    }
    options.reps = options.reps != 0 ? options.reps : quick ? 3 : 7;
    options.ms = options.ms != 0 ? options.ms : quick ? 10 : 200;

    FILE *json = fopen(options.json, "w"); /* now: it would be a pity to find out at the end */
    if (json == NULL) {
        fprintf(stderr, "bench_semaphore: %s: %s\n", options.json, strerror(errno));
        return 1;
    }
    signal(SIGALRM, give_up);
    calibrate();
    print_machine();
    for (int i = 0; i < SCENARIOS; i++) {
        if (options.scenario == NULL || strcmp(options.scenario, scenarios[i].name) == 0) {
            scenarios[i].run();
        }
    }
    print_bars();
    if (!write_json(json)) {
        fprintf(stderr, "bench_semaphore: %s: %s\n", options.json, strerror(errno));
        return 1;
    }
    printf("\nwritten to %s\n", options.json);
    return 0;
}
