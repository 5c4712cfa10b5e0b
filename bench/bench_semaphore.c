/* SPDX-License-Identifier: MIT
 *
 * semaphore.h beside the bare mechanism and beside its peers.
 *
 *     bench/build.sh && build/bench/bench_semaphore [--quick] [--scenario NAME] [--reps N]
 *                                                   [--ms N] [--json FILE]
 *
 * The method is described in report.h. A machine that others keep busy makes it take longer: every
 * disturbed repetition is done again.
 *
 *   uncontended   one thread takes and gives the only permit, another sleeps; CPU time per pair
 *   contended     T threads, P permits, about 50 ns of work with the permit held, nothing between
 *   hog           one thread holds the only permit for 2 ms and wants it back at once, one waits
 *   pingpong      two threads wake each other through two semaphores
 *   third         likewise, but each works only while it holds a third one; CPU time
 *   waiters       N threads sleep for the only permit, on one CPU; each hands it on and goes away
 *   syscalls      system calls and allocations of a million uncontended pairs of ours
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "../semaphore.h"
#include "bench.h"
#include "chain.h"

#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
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

#define BENCH_ID bench_limit_cas
#define BENCH_LABEL "limit: load+CAS, twice"
#define BENCH_KIND BENCH_LIMIT
#define BENCH_SCENARIOS (BENCH_UNCONTENDED | BENCH_CONTENDED)
#define BENCH_TYPE uint64_t
#define BENCH_CREATE(s, permits) *(s) = (permits)
#define BENCH_DESTROY(s) (void)(s)
#define BENCH_ACQUIRE(s) bench_cas_take(s, 1)
#define BENCH_RELEASE(s) bench_cas_give(s, 1)
#include "loops.h"

#define BENCH_ID bench_limit_known
#define BENCH_LABEL "limit: CAS, twice"
#define BENCH_KIND BENCH_LIMIT
#define BENCH_SCENARIOS BENCH_UNCONTENDED
#define BENCH_TYPE uint64_t
#define BENCH_CREATE(s, permits) *(s) = (permits)
#define BENCH_DESTROY(s) (void)(s)
#define BENCH_ACQUIRE(s) bench_known_cas(s, 1, 0)
#define BENCH_RELEASE(s) bench_known_cas(s, 0, 1)
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

#ifdef __linux__
#define BENCH_ID bench_limit_chain
#define BENCH_LABEL "limit: futex chain"
#define BENCH_KIND BENCH_LIMIT
#define BENCH_SCENARIOS BENCH_WAITERS
#define BENCH_TYPE limit_chain
#define BENCH_CREATE(s, permits) ((void)(permits), limit_chain_create(s))
#define BENCH_DESTROY(s) (void)(s)
#define BENCH_ACQUIRE(s) limit_chain_take(s)
#define BENCH_RELEASE(s) limit_chain_give(s)
#include "loops.h"
#endif

#define BENCH_ID bench_csem
#define BENCH_LABEL "csem"
#define BENCH_KIND BENCH_OURS
#define BENCH_SCENARIOS (BENCH_ALL | BENCH_WAITERS | BENCH_THIRD)
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
#define BENCH_SCENARIOS (BENCH_ALL | BENCH_WAITERS | BENCH_THIRD)
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
#define BENCH_SCENARIOS (BENCH_ALL | BENCH_WAITERS | BENCH_THIRD)
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

typedef bench_contestant contestant;

static const contestant *const contestants[] = {
    &bench_limit_xadd,
    &bench_limit_known,
    &bench_limit_cas,
    &bench_limit_spin,
#ifdef __linux__
    &bench_limit_futex,
    &bench_limit_chain,
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
    "limit: futex ping-pong and futex chain (not Linux)",
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

#include "report.h"
#include "crowd.h"

/* ---- Repetitions of each scenario ----------------------------------------------------------- */

static void measure_uncontended(const contestant *who, const table *t, double out[])
{
    void *object = who->create((uint32_t)t->capacity);
    out[0] = pair_ns(who->pairs, object);
    who->destroy(object);
}

static void measure_contended(const contestant *who, const table *t, double out[])
{
    run.first = who->create((uint32_t)t->capacity);
    window w = run_alike(who->contend, t->threads, options.ms);
    out[0] = w.wall_ns / w.ops;
    out[1] = w.cpu_ns / w.ops;
    out[2] = w.worst_us;
    out[3] = w.most_ops / w.least_ops;
    who->destroy(run.first);
}

static void measure_hog(const contestant *who, const table *t, double out[])
{
    run.first = who->create((uint32_t)t->capacity);
    threads[0].body = who->hog;
    threads[1].body = who->victim;
    threads[0].cpu = threads[1].cpu = -1;
    /* At least 20 turns of the hog: less would not show how long a victim can starve. */
    window w = run_threads(2, options.ms > 40 ? options.ms : 40);
    out[0] = w.most_turns;
    out[1] = w.worst_us;
    who->destroy(run.first);
}

static void measure_pingpong(const contestant *who, const table *t, double out[])
{
    bool on_two = strcmp(t->config, "two CPUs") == 0;
    run.first = who->create((uint32_t)t->capacity);
    run.second = who->create((uint32_t)t->capacity);
    threads[0].body = who->ping;
    threads[1].body = who->pong;
    threads[0].cpu = on_two ? nth_cpu(0) : -1;
    threads[1].cpu = on_two ? nth_cpu(1) : -1;
    window w = run_threads(2, options.ms);
    out[0] = w.wall_ns / (2 * w.ops);
    out[1] = w.cpu_ns / (2 * w.ops);
    who->destroy(run.first);
    who->destroy(run.second);
}

static void measure_third(const contestant *who, const table *t, double out[])
{
    bool on_two = strcmp(t->config, "two CPUs") == 0;
    run.first = who->create(0);
    run.second = who->create(0);
    run.third = who->create((uint32_t)t->capacity);
    threads[0].body = who->ping_third;
    threads[1].body = who->pong_third;
    threads[0].cpu = on_two ? nth_cpu(0) : -1;
    threads[1].cpu = on_two ? nth_cpu(1) : -1;
    window w = run_threads(2, options.ms);
    out[0] = w.cpu_ns / (2 * w.ops);
    out[1] = w.wall_ns / (2 * w.ops);
    who->destroy(run.first);
    who->destroy(run.second);
    who->destroy(run.third);
}

/* ---- The scenarios -------------------------------------------------------------------------- */

static void run_uncontended(void)
{
    static const scenario uncontended = {
        .name = "uncontended",
        .title = "uncontended pair, beside an idle thread, CPU time",
        .limit = &bench_limit_cas,
        .metrics = {"pair_ns"},
        .columns = {{"ns/pair", 0, MEDIAN},
                    {"spread %", 0, SPREAD},
                    {"x load+CAS", 0, TO_LIMIT},
                    {"x sem_t", 0, TO_REFERENCE}},
    };
    /* Short repetitions, so there can be more of them. */
    const table *t =
        run_table(&uncontended, BENCH_UNCONTENDED, "", 1, 1, 3 * options.reps, measure_uncontended);
    const row *us = row_of(t, "csem");
    add_bar(look(t, us, 0, TO_LIMIT), false, 1.15, "uncontended: time x load+CAS, twice");
    add_bar(look(t, us, 0, TO_REFERENCE), false, 0.9, "uncontended: time x sem_t");
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
                    {"x load+CAS", 0, TO_LIMIT},
                    {"x sem_t", 0, TO_REFERENCE},
                    {"CPU ns/op", 1, MEDIAN},
                    {"x sem_t", 1, TO_REFERENCE},
                    {"worst us", 2, MEDIAN},
                    {"of all", 2, WORST},
                    {"max/min", 3, MEDIAN}},
    };
    static const int counts[] = {1, 2, 4, 8, 16, 32, THREADS_MAX}, few[] = {1, 2, 8, THREADS_MAX};
    int sizes = is_short() ? sizeof few / sizeof few[0] : sizeof counts / sizeof counts[0];
    for (int i = 0; i < sizes; i++) {
        int count = is_short() ? few[i] : counts[i];
        for (int half = 0; half <= (count > 2); half++) {
            int permits = half ? count / 2 : 1;
            char config[32];
            snprintf(config, sizeof config, "T=%d P=%d", count, permits);
            const table *t = run_table(&contended, BENCH_CONTENDED, config, count, permits,
                                       options.reps, measure_contended);
            const row *us = row_of(t, "csem"), *sem_t_row = row_of(t, "sem_t");
            const row *best = best_peer(t, "");
            if (count == 1) {
                continue; /* nobody contends */
            }
            add_bar(1 / look(t, us, 0, TO_REFERENCE), true, count == 2 ? 1.0 : 1.5,
                    "%s: throughput x sem_t", config);
            if (best != NULL) {
                add_bar(1 / ratio(t, us, best, 0), true, 0.9, "%s: throughput x the best peer, %s",
                        config, best->who->label);
            }
            add_bar(look(t, us, 1, TO_REFERENCE), false, 1.0, "%s: CPU per operation x sem_t",
                    config);
            add_bar(look(t, us, 2, TO_REFERENCE), false, 1.0,
                    "%s: worst wait of a repetition x sem_t", config);
            if (sem_t_row != NULL) {
                add_bar(look(t, us, 2, WORST) / look(t, sem_t_row, 2, WORST), false, 1.0,
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
                    {"x sem_t", 0, TO_REFERENCE},
                    {"worst us", 1, MEDIAN},
                    {"of all", 1, WORST},
                    {"x sem_t", 1, TO_REFERENCE}},
        .order = 1,
    };
    const table *t = run_table(&hog, BENCH_HOG, "P=1", 2, 1, options.reps, measure_hog);
    add_bar(look(t, row_of(t, "csem"), 0, WORST), false, 5,
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
                    {"x sem_t", 0, TO_REFERENCE},
                    {"CPU ns", 1, MEDIAN}},
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
        add_bar(look(t, row_of(t, "csem, no spin"), 0, TO_LIMIT), false, 1.15,
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

static void run_third(void)
{
    static const scenario third = {
        .name = "third",
        .title = "ping-pong, one way, of threads that need a third one to work",
        .metrics = {"cpu_ns", "handoff_ns"},
        .columns = {{"CPU ns", 0, MEDIAN},
                    {"spread %", 0, SPREAD},
                    {"x sem_t", 0, TO_REFERENCE},
                    {"ns", 1, MEDIAN},
                    {"x sem_t", 1, TO_REFERENCE}},
    };
    const char *placements[] = {"not pinned", "two CPUs"};
    for (int i = 0; i < (nth_cpu(1) < 0 ? 1 : 2); i++) {
        const table *t =
            run_table(&third, BENCH_THIRD, placements[i], 2, 1, options.reps, measure_third);
        add_bar(look(t, row_of(t, "csem"), 0, TO_REFERENCE), false, 1.15,
                "third, %s: CPU per hand-over x sem_t", placements[i]);
    }
}

static void measure_waiters(const contestant *who, const table *t, double out[])
{
    out[0] = hand_over(who, t->threads, bursts_of(t->threads));
}

static void run_waiters(void)
{
#ifdef __linux__
    waiters.limit = &bench_limit_chain;
#endif
    run_by_waiters(BENCH_WAITERS, measure_waiters);
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

/* ---- main ----------------------------------------------------------------------------------- */

static const program bench_semaphore = {
    .name = "bench_semaphore",
    .reps = 7,
    .ms = 200,
    .in_vain_max = INT_MAX,
    .reference = "sem_t",
    .reference_suffix = "_to_sem_t",
    .capacity_key = "permits",
    .scenarios = {{"uncontended", run_uncontended},
                  {"contended", run_contended},
                  {"hog", run_hog},
                  {"pingpong", run_pingpong},
                  {"third", run_third},
                  {"waiters", run_waiters},
                  {"syscalls", run_syscalls}},
};

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "--pairs") == 0) { /* for strace: nothing else happens */
        static csem alone = CSEM_INIT(1);
        bench_csem.pairs(&alone, strtoull(argv[2], NULL, 10));
        return 0;
    }
    FILE *json = begin_report(&bench_semaphore, argc, argv);
    calibrate();
    print_machine();
    print_skipped();
    run_scenarios();
    end_report(json);
    return 0;
}
