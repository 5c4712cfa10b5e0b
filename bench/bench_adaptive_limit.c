/* SPDX-License-Identifier: MIT
 *
 * adaptive_limit.h beside the bare mechanism, and beside what one writes by hand.
 *
 *     bench/build.sh && build/bench/bench_adaptive_limit [--quick] [--scenario NAME] [--reps N]
 *                                                        [--ms N] [--json FILE]
 *
 * The method is described in report.h.
 *
 *   uncontended   one thread tells of a call, another sleeps; CPU time
 *   contended     T threads tell one limiter of calls, with 50 ns of work between
 *
 * The clock stands still, so nothing changes but for what the calls are. A window ends when it is
 * full, after eight million of them.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "../adaptive_limit.h"
#include "bench.h"

#include <limits.h>
#include <stdio.h>

/* ---- The contestants ------------------------------------------------------------------------ */

/* The old value is wanted, or it would be another instruction. */
#define BENCH_ID bench_limit_add
#define BENCH_LABEL "limit: fetch_add"
#define BENCH_KIND BENCH_LIMIT
#define BENCH_SCENARIOS (BENCH_UNCONTENDED | BENCH_CONTENDED)
#define BENCH_TYPE uint64_t
#define BENCH_CREATE(s, permits) *(s) = (permits)
#define BENCH_DESTROY(s) (void)(s)
#define BENCH_ACQUIRE(s) \
    do { \
        uint64_t old_ = __atomic_fetch_add(s, 1, __ATOMIC_RELAXED); \
        __asm__ volatile("" ::"r"(old_)); \
    } while (0)
#define BENCH_RELEASE(s) (void)(s)
#include "loops.h"

/* A number that the compiler does not know. */
static inline int64_t some(int64_t number)
{
    __asm__ volatile("" : "+r"(number));
    return number;
}

#define BENCH_ID bench_adaptive
#define BENCH_LABEL "adaptive_limit"
#define BENCH_KIND BENCH_OURS
#define BENCH_SCENARIOS (BENCH_UNCONTENDED | BENCH_CONTENDED)
#define BENCH_TYPE adaptive_limit
#define BENCH_CREATE(s, permits) (void)(permits), must(adaptive_limit_init(s, NULL))
#define BENCH_DESTROY(s) (void)(s)
#define BENCH_ACQUIRE(s) \
    some((int64_t)adaptive_limit_sample(s, some(1), some(50000), 4, (int)some(ADAPTIVE_OK)))
#define BENCH_RELEASE(s) (void)(s)
#include "loops.h"

typedef struct by_name {
    adaptive_limit a;
    plim_limiter limiter;
} by_name;

static inline void make_by_name(by_name *b)
{
    must(adaptive_limit_init(&b->a, NULL));
    b->limiter = adaptive_limit_limiter(&b->a);
}

#define BENCH_ID bench_limiter
#define BENCH_LABEL "as a plim_limiter"
#define BENCH_KIND BENCH_OURS
#define BENCH_SCENARIOS (BENCH_UNCONTENDED | BENCH_CONTENDED)
#define BENCH_TYPE by_name
#define BENCH_CREATE(s, permits) (void)(permits), make_by_name(s)
#define BENCH_DESTROY(s) (void)(s)
#define BENCH_ACQUIRE(s) some((int64_t)(s)->limiter.sample((s)->limiter.ctx, 1, 50000, 4, 0))
#define BENCH_RELEASE(s) (void)(s)
#include "loops.h"

/* The least that one would write by hand: count, sum and maximum, under a lock. */
typedef struct locked {
    pthread_mutex_t lock;
    uint64_t count, sum, peak;
    uint32_t limit;
} locked;

static inline uint32_t locked_sample(locked *l, int64_t took_ns, uint32_t in_flight)
{
    pthread_mutex_lock(&l->lock);
    l->count++;
    l->sum += (uint64_t)took_ns;
    l->peak = in_flight > l->peak ? in_flight : l->peak;
    const uint32_t limit = l->limit;
    pthread_mutex_unlock(&l->lock);
    return limit;
}

#define BENCH_ID bench_locked
#define BENCH_LABEL "a mutex, a sum and a count"
#define BENCH_KIND BENCH_PEER
#define BENCH_SCENARIOS (BENCH_UNCONTENDED | BENCH_CONTENDED)
#define BENCH_TYPE locked
#define BENCH_CREATE(s, permits) \
    *(s) = (locked) \
    { \
        PTHREAD_MUTEX_INITIALIZER, 0, 0, 0, permits \
    }
#define BENCH_DESTROY(s) pthread_mutex_destroy(&(s)->lock)
#define BENCH_ACQUIRE(s) some((int64_t)locked_sample(s, some(50000), 4))
#define BENCH_RELEASE(s) (void)(s)
#include "loops.h"

typedef bench_contestant contestant;

static const contestant *const contestants[] = {&bench_limit_add, &bench_adaptive, &bench_limiter,
                                                &bench_locked};
enum { CONTESTANTS = sizeof contestants / sizeof contestants[0] };
static const char *const skipped[] = {NULL};

#include "report.h"

/* ---- The scenarios -------------------------------------------------------------------------- */

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
    who->destroy(run.first);
}

static void run_uncontended(void)
{
    static const scenario uncontended = {
        .name = "uncontended",
        .title = "a sample, beside an idle thread, CPU time",
        .limit = &bench_limit_add,
        .metrics = {"sample_ns"},
        .columns = {{"ns", 0, MEDIAN}, {"spread %", 0, SPREAD}, {"x fetch_add", 0, TO_LIMIT}},
    };
    /* Short repetitions, so there can be more of them. */
    const table *t =
        run_table(&uncontended, BENCH_UNCONTENDED, "", 1, 1, 3 * options.reps, measure_uncontended);
    add_bar(look(t, row_of(t, "adaptive_limit"), 0, TO_LIMIT), false, 3,
            "a sample: time x fetch_add");
}

static void run_contended(void)
{
    static const scenario contended = {
        .name = "contended",
        .title = "samples of several threads, 50 ns of work between",
        .limit = &bench_limit_add,
        .metrics = {"op_ns", "cpu_ns"},
        .columns = {{"ns/op", 0, MEDIAN},
                    {"spread %", 0, SPREAD},
                    {"x fetch_add", 0, TO_LIMIT},
                    {"CPU ns/op", 1, MEDIAN}},
    };
    for (int count = 2; count <= 8; count *= 4) {
        char config[32];
        snprintf(config, sizeof config, "T=%d", count);
        const table *t = run_table(&contended, BENCH_CONTENDED, config, count, 1, options.reps,
                                   measure_contended);
        add_bar(look(t, row_of(t, "adaptive_limit"), 0, TO_LIMIT), false, 3, "%s: time x fetch_add",
                config);
    }
}

static const program bench_adaptive_limit = {
    .name = "bench_adaptive_limit",
    .reps = 7,
    .ms = 200,
    .in_vain_max = INT_MAX,
    .reference = "a mutex, a sum and a count",
    .reference_suffix = "_to_mutex",
    .capacity_key = "limiters",
    .scenarios = {{"uncontended", run_uncontended}, {"contended", run_contended}},
};

int main(int argc, char **argv)
{
    FILE *json = begin_report(&bench_adaptive_limit, argc, argv);
    calibrate();
    print_machine();
    print_skipped();
    run_scenarios();
    end_report(json);
    return 0;
}
