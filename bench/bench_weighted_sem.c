/* SPDX-License-Identifier: MIT
 *
 * weighted_sem.h beside the bare mechanism and beside its peers.
 *
 *     bench/build.sh && build/bench/bench_weighted_sem [--quick] [--scenario NAME] [--reps N]
 *                                                      [--ms N] [--json FILE]
 *
 * The method is described in report.h. Go, Java and tokio cannot run in this process. They are
 * children that live as long as it does, sleep while it is not their turn, and do one repetition
 * when asked: so they are warm, and take part in the rounds like the others.
 *
 *   uncontended   one thread takes and gives some weight, or runs an empty job; CPU time of it
 *   utilisation   32 callers with jobs of 1 to 4 ms that sleep: how much weight idles, behind a
 *                 first one that does not fit
 *   start         one thread starts empty jobs of weight 1 on warm workers
 *   contended     4 threads, random weights from 1 to 8, about 50 ns of work with the weight held
 *   handover      N threads sleep for the only weight; each hands it on to the next and goes away
 *   waiters       the same by N, from 1 to 10000
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "../weighted_sem.h"
#include "bench.h"
#include "weighted_peers.h"

#include <math.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- The contestants ------------------------------------------------------------------------ */

enum { PAIRS = 1, CONTENDED = 2, STARTS = 4, HANDOVER = 8, HANDOVER_PINNED = 16 };
/* A release that wakes all who wait needs N * N wake-ups for N of them: not with 10000. */
enum { FEW_ONLY = 32 };
/* And one that needs seconds to create them is not measured with that many in a short run. */
enum { FEW_IF_SHORT = 64 };
enum { UTILISED = 128 };

typedef enum order { IN_ORDER, ANY_ORDER } order;

typedef struct contestant {
    const char *label;
    enum bench_kind kind;
    order order;
    int scenarios;
    /* Either these, which weighted_loops.h generates, */
    void *(*create)(uint64_t total);
    void (*destroy)(void *object);
    void (*pairs)(void *object, uint64_t count);
    void (*contend)(bench_thread *self);
    void (*contend_timed)(bench_thread *self);
    void (*occupy)(bench_thread *self);
    void (*starts)(bench_thread *self);
    void (*take)(void *object);
    void (*give)(void *object);
    /* or a child, and what it is to be asked for. */
    bench_child *child;
    const char *variant;
} contestant;

enum { WEIGHT = 3, WEIGHT_MASK = 7 }; /* uncontended; contended: 1 more than what this leaves */

static const volatile uint64_t unknown_weight = WEIGHT; /* to the compiler, that is */

static inline uint64_t random_seed(const bench_thread *self)
{
    return (uint64_t)(self->number + 2) * 0x9e3779b97f4a7c15;
}

static inline uint64_t random_weight(uint64_t *random)
{
    uint64_t x = *random;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    *random = x;
    return (x >> 20 & WEIGHT_MASK) + 1;
}

/* Jobs of a mix, the same ones in the same order for each contestant. */
typedef struct mixed_job {
    uint64_t weight;
    int64_t ns;
} mixed_job;

enum { GPU_GIGABYTES = 180, LARGEST_MODEL = 48 }; /* as in examples/train_models.c */
static bool some_heavy; /* 1 in 10 needs half of it or more, the others a tenth at most */
static uint64_t jobs_made;

static inline mixed_job next_mixed_job(void)
{
    uint64_t x = (__atomic_fetch_add(&jobs_made, 1, __ATOMIC_RELAXED) + 1) * 0x9e3779b97f4a7c15;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    x ^= x >> 31;
    uint64_t a = x & 0xffff, b = x >> 16 & 0xffff, c = x >> 32;
    mixed_job job = {a % LARGEST_MODEL + 1, 1000000 + (int64_t)(c % 3000001)};
    if (some_heavy) {
        job.weight = b % 10 == 0 ? GPU_GIGABYTES / 2 + a % (GPU_GIGABYTES / 2 + 1) : a % 16 + 1;
    }
    return job;
}

enum { PAIRS_OF = 16 }; /* the total where one thread is alone */

#define BENCH_ID limit_cas
#define BENCH_LABEL "limit: load+CAS, twice"
#define BENCH_KIND BENCH_LIMIT
#define BENCH_ORDER ANY_ORDER
#define BENCH_SCENARIOS (PAIRS | CONTENDED)
#define BENCH_TYPE uint64_t
#define BENCH_CREATE(s, total) *(s) = (total)
#define BENCH_DESTROY(s) (void)(s)
#define BENCH_ACQUIRE(s, weight) bench_cas_take(s, weight)
#define BENCH_RELEASE(s, weight) bench_cas_give(s, weight)
#include "weighted_loops.h"

#define BENCH_ID limit_known
#define BENCH_LABEL "limit: CAS, twice"
#define BENCH_KIND BENCH_LIMIT
#define BENCH_ORDER ANY_ORDER
#define BENCH_SCENARIOS PAIRS
#define BENCH_TYPE uint64_t
#define BENCH_CREATE(s, total) *(s) = (total)
#define BENCH_DESTROY(s) (void)(s)
#define BENCH_ACQUIRE(s, weight) bench_known_cas(s, PAIRS_OF, PAIRS_OF - (weight))
#define BENCH_RELEASE(s, weight) bench_known_cas(s, PAIRS_OF - (weight), PAIRS_OF)
#include "weighted_loops.h"

#define BENCH_ID limit_spinning_ring
#define BENCH_LABEL "limit: CAS, spinning ring"
#define BENCH_KIND BENCH_LIMIT
#define BENCH_ORDER IN_ORDER
#define BENCH_SCENARIOS STARTS
#define BENCH_TYPE limit_ring
#define BENCH_CREATE(s, total) limit_ring_create(s, total)
#define BENCH_DESTROY(s) limit_ring_destroy(s)
#define BENCH_START(s) limit_ring_start(s)
#include "weighted_loops.h"

#ifdef __linux__
#define BENCH_ID limit_futex_chain
#define BENCH_LABEL "limit: futex chain"
#define BENCH_KIND BENCH_LIMIT
#define BENCH_ORDER IN_ORDER
#define BENCH_SCENARIOS (HANDOVER | HANDOVER_PINNED)
#define BENCH_TYPE limit_chain
#define BENCH_CREATE(s, total) ((void)(total), limit_chain_create(s))
#define BENCH_DESTROY(s) (void)(s)
#define BENCH_ACQUIRE(s, weight) ((void)(weight), limit_chain_take(s))
#define BENCH_RELEASE(s, weight) ((void)(weight), limit_chain_give(s))
#include "weighted_loops.h"
#endif

static void create_ours(weighted_sem *s, uint64_t total, uint32_t window, uint32_t budget)
{
    weighted_sem_options options = {
        .total = total, .bypass_window = window, .bypass_budget = budget};
    must(weighted_sem_init(s, &options));
}

#define BENCH_ID ours
#define BENCH_LABEL "weighted_sem"
#define BENCH_KIND BENCH_OURS
#define BENCH_ORDER IN_ORDER
#define BENCH_SCENARIOS (PAIRS | CONTENDED | STARTS | HANDOVER | HANDOVER_PINNED | UTILISED)
#define BENCH_TYPE weighted_sem
#define BENCH_CREATE(s, total) create_ours(s, total, 0, 0)
#define BENCH_DESTROY(s) must(weighted_sem_destroy(s))
#define BENCH_ACQUIRE(s, weight) (void)weighted_sem_acquire(s, weight)
#define BENCH_RELEASE(s, weight) (void)weighted_sem_release(s, weight)
#define BENCH_START(s) (void)weighted_sem_start(s, 1, unknown_job(), NULL)
#include "weighted_loops.h"

#define BENCH_ID ours_complete
#define BENCH_LABEL "weighted_sem complete"
#define BENCH_KIND BENCH_OURS
#define BENCH_ORDER IN_ORDER
#define BENCH_SCENARIOS PAIRS
#define BENCH_TYPE weighted_sem
#define BENCH_CREATE(s, total) create_ours(s, total, 0, 0)
#define BENCH_DESTROY(s) must(weighted_sem_destroy(s))
#define BENCH_ACQUIRE(s, weight) (void)weighted_sem_complete(s, weight, unknown_job(), NULL, NULL)
#define BENCH_RELEASE(s, weight) ((void)(s), (void)(weight))
#include "weighted_loops.h"

typedef struct begun {
    weighted_sem sem;
    BENCH_ALIGNED weighted_sem_job job;
} begun;

#define BENCH_ID ours_begin
#define BENCH_LABEL "weighted_sem begin+finish"
#define BENCH_KIND BENCH_OURS
#define BENCH_ORDER IN_ORDER
#define BENCH_SCENARIOS PAIRS
#define BENCH_TYPE begun
#define BENCH_CREATE(s, total) create_ours(&(s)->sem, total, 0, 0)
#define BENCH_DESTROY(s) must(weighted_sem_destroy(&(s)->sem))
#define BENCH_ACQUIRE(s, weight) (void)weighted_sem_begin(&(s)->sem, weight, &(s)->job)
#define BENCH_RELEASE(s, weight) (void)weighted_sem_finish(&(s)->job, 0)
#include "weighted_loops.h"

#define BENCH_ID ours_bypass_4
#define BENCH_LABEL "weighted_sem, bypass 8/4"
#define BENCH_KIND BENCH_OURS
#define BENCH_ORDER ANY_ORDER
#define BENCH_SCENARIOS (CONTENDED | UTILISED)
#define BENCH_TYPE weighted_sem
#define BENCH_CREATE(s, total) create_ours(s, total, 8, 4)
#define BENCH_DESTROY(s) must(weighted_sem_destroy(s))
#define BENCH_ACQUIRE(s, weight) (void)weighted_sem_acquire(s, weight)
#define BENCH_RELEASE(s, weight) (void)weighted_sem_release(s, weight)
#include "weighted_loops.h"

#define BENCH_ID ours_bypass_1000
#define BENCH_LABEL "weighted_sem, bypass 8/1000"
#define BENCH_KIND BENCH_OURS
#define BENCH_ORDER ANY_ORDER
#define BENCH_SCENARIOS (CONTENDED | UTILISED)
#define BENCH_TYPE weighted_sem
#define BENCH_CREATE(s, total) create_ours(s, total, 8, 1000)
#define BENCH_DESTROY(s) must(weighted_sem_destroy(s))
#define BENCH_ACQUIRE(s, weight) (void)weighted_sem_acquire(s, weight)
#define BENCH_RELEASE(s, weight) (void)weighted_sem_release(s, weight)
#include "weighted_loops.h"

#define BENCH_ID ours_bypass_1
#define BENCH_LABEL "weighted_sem, bypass 8/1"
#define BENCH_KIND BENCH_OURS
#define BENCH_ORDER ANY_ORDER
#define BENCH_SCENARIOS UTILISED
#define BENCH_TYPE weighted_sem
#define BENCH_CREATE(s, total) create_ours(s, total, 8, 1)
#define BENCH_DESTROY(s) must(weighted_sem_destroy(s))
#define BENCH_ACQUIRE(s, weight) (void)weighted_sem_acquire(s, weight)
#define BENCH_RELEASE(s, weight) (void)weighted_sem_release(s, weight)
#include "weighted_loops.h"

#define BENCH_ID ours_bypass_wide
#define BENCH_LABEL "weighted_sem, bypass 64/4"
#define BENCH_KIND BENCH_OURS
#define BENCH_ORDER ANY_ORDER
#define BENCH_SCENARIOS UTILISED
#define BENCH_TYPE weighted_sem
#define BENCH_CREATE(s, total) create_ours(s, total, 64, 4)
#define BENCH_DESTROY(s) must(weighted_sem_destroy(s))
#define BENCH_ACQUIRE(s, weight) (void)weighted_sem_acquire(s, weight)
#define BENCH_RELEASE(s, weight) (void)weighted_sem_release(s, weight)
#include "weighted_loops.h"

#define BENCH_ID peer_fifo
#define BENCH_LABEL "mutex, FIFO of conds"
#define BENCH_KIND BENCH_PEER
#define BENCH_ORDER IN_ORDER
#define BENCH_SCENARIOS (PAIRS | CONTENDED | HANDOVER | HANDOVER_PINNED | UTILISED)
#define BENCH_TYPE fifo_sem
#define BENCH_CREATE(s, total) fifo_sem_create(s, total)
#define BENCH_DESTROY(s) fifo_sem_destroy(s)
#define BENCH_ACQUIRE(s, weight) fifo_sem_acquire(s, weight)
#define BENCH_RELEASE(s, weight) fifo_sem_release(s, weight)
#include "weighted_loops.h"

#define BENCH_ID peer_broadcast
#define BENCH_LABEL "mutex+cond, broadcast"
#define BENCH_KIND BENCH_PEER
#define BENCH_ORDER ANY_ORDER
#define BENCH_SCENARIOS (PAIRS | CONTENDED | HANDOVER | FEW_ONLY | UTILISED)
#define BENCH_TYPE broadcast_sem
#define BENCH_CREATE(s, total) broadcast_sem_create(s, total)
#define BENCH_DESTROY(s) broadcast_sem_destroy(s)
#define BENCH_ACQUIRE(s, weight) broadcast_sem_acquire(s, weight)
#define BENCH_RELEASE(s, weight) broadcast_sem_release(s, weight)
#include "weighted_loops.h"

#ifdef HAVE_NSYNC
#define BENCH_ID peer_nsync
#define BENCH_LABEL "nsync mu+cv, broadcast"
#define BENCH_KIND BENCH_PEER
#define BENCH_ORDER ANY_ORDER
#define BENCH_SCENARIOS (PAIRS | CONTENDED | HANDOVER | FEW_ONLY)
#define BENCH_TYPE nsync_sem
#define BENCH_CREATE(s, total) nsync_sem_create(s, total)
#define BENCH_DESTROY(s) (void)(s)
#define BENCH_ACQUIRE(s, weight) nsync_sem_acquire(s, weight)
#define BENCH_RELEASE(s, weight) nsync_sem_release(s, weight)
#include "weighted_loops.h"

#define BENCH_ID peer_nsync_wait
#define BENCH_LABEL "nsync mu_wait"
#define BENCH_KIND BENCH_PEER
#define BENCH_ORDER ANY_ORDER
#define BENCH_SCENARIOS (PAIRS | CONTENDED | HANDOVER | FEW_ONLY)
#define BENCH_TYPE nsync_sem
#define BENCH_CREATE(s, total) nsync_sem_create(s, total)
#define BENCH_DESTROY(s) (void)(s)
#define BENCH_ACQUIRE(s, weight) nsync_wait_acquire(s, weight)
#define BENCH_RELEASE(s, weight) nsync_wait_release(s, weight)
#include "weighted_loops.h"
#endif

#define BENCH_ID peer_pool_2
#define BENCH_LABEL "mutex+cond pool of 2"
#define BENCH_KIND BENCH_PEER
#define BENCH_ORDER IN_ORDER
#define BENCH_SCENARIOS STARTS
#define BENCH_TYPE pool
#define BENCH_CREATE(s, total) pool_create(s, total, 2)
#define BENCH_DESTROY(s) pool_destroy(s)
#define BENCH_START(s) pool_start(s, unknown_job(), NULL)
#include "weighted_loops.h"

#define BENCH_ID peer_pool_8
#define BENCH_LABEL "mutex+cond pool of 8"
#define BENCH_KIND BENCH_PEER
#define BENCH_ORDER IN_ORDER
#define BENCH_SCENARIOS STARTS
#define BENCH_TYPE pool
#define BENCH_CREATE(s, total) pool_create(s, total, 8)
#define BENCH_DESTROY(s) pool_destroy(s)
#define BENCH_START(s) pool_start(s, unknown_job(), NULL)
#include "weighted_loops.h"

/* build.sh says where it has put the programs that it could build. */
static bench_child children[] = {
#ifdef HAVE_GO
    {.name = "Go semaphore.Weighted", .command = {BENCH_DIRECTORY "/weighted_peer_go"}},
#endif
#ifdef HAVE_JAVA
    {.name = "Java Semaphore", .command = {"java", "-cp", BENCH_DIRECTORY "/java", "WeightedPeer"}},
#endif
#ifdef HAVE_TOKIO
    {.name = "tokio Semaphore", .command = {BENCH_DIRECTORY "/weighted_peer_tokio"}},
#endif
    {.name = NULL},
};
enum {
    CHILDREN = sizeof children / sizeof children[0] - 1,
    GO = 0,
#ifdef HAVE_GO
    JAVA = GO + 1,
#else
    JAVA = GO,
#endif
#ifdef HAVE_JAVA
    TOKIO = JAVA + 1,
#else
    TOKIO = JAVA,
#endif
};

#ifdef HAVE_GO
static const contestant go = {
    .label = "Go semaphore.Weighted",
    .kind = BENCH_PEER,
    .order = IN_ORDER,
    .scenarios = PAIRS | CONTENDED | STARTS | HANDOVER,
    .child = &children[GO],
    .variant = "plain",
};
#endif
#ifdef HAVE_JAVA
static const contestant java_fair = {
    .label = "Java Semaphore, fair",
    .kind = BENCH_PEER,
    .order = IN_ORDER,
    .scenarios = PAIRS | CONTENDED | STARTS | HANDOVER | FEW_IF_SHORT,
    .child = &children[JAVA],
    .variant = "fair",
};
static const contestant java_nonfair = {
    .label = "Java Semaphore, nonfair",
    .kind = BENCH_PEER,
    .order = ANY_ORDER,
    .scenarios = PAIRS | CONTENDED | STARTS,
    .child = &children[JAVA],
    .variant = "nonfair",
};
#endif
#ifdef HAVE_TOKIO
static const contestant tokio = {
    .label = "tokio Semaphore",
    .kind = BENCH_PEER,
    .order = IN_ORDER,
    .scenarios = PAIRS | CONTENDED | STARTS | HANDOVER,
    .child = &children[TOKIO],
    .variant = "multi",
};
static const contestant tokio_single = {
    .label = "tokio, all on one thread",
    .kind = BENCH_PEER,
    .order = IN_ORDER,
    .scenarios = STARTS,
    .child = &children[TOKIO],
    .variant = "single",
};
#endif

static const contestant *const contestants[] = {
    &limit_known,
    &limit_cas,
    &limit_spinning_ring,
#ifdef __linux__
    &limit_futex_chain,
#endif
    &ours,
    &ours_complete,
    &ours_begin,
    &ours_bypass_1,
    &ours_bypass_4,
    &ours_bypass_wide,
    &ours_bypass_1000,
    &peer_fifo,
    &peer_broadcast,
#ifdef HAVE_NSYNC
    &peer_nsync,
    &peer_nsync_wait,
#endif
    &peer_pool_2,
    &peer_pool_8,
#ifdef HAVE_GO
    &go,
#endif
#ifdef HAVE_JAVA
    &java_fair,
    &java_nonfair,
#endif
#ifdef HAVE_TOKIO
    &tokio,
    &tokio_single,
#endif
};
enum { CONTESTANTS = sizeof contestants / sizeof contestants[0] };

/* With room for the children that were built, but do not start. */
static const char *skipped[16] = {
#ifndef __linux__
    "limit: futex chain (not Linux)",
#endif
#ifndef HAVE_NSYNC
    "nsync mu+cv and mu_wait (libnsync-dev is not installed)",
#endif
#ifndef HAVE_GO
    "Go semaphore.Weighted (golang-go or golang-golang-x-sync-dev is not installed)",
#endif
#ifndef HAVE_JAVA
    "Java Semaphore (default-jdk-headless is not installed)",
#endif
#ifndef HAVE_TOKIO
    "tokio Semaphore (cargo or librust-tokio-dev is not installed)",
#endif
    NULL,
};

#include "report.h"
#include "children.h"
#include "crowd.h"

/* ---- Repetitions of each scenario ----------------------------------------------------------- */

static void measure_uncontended(const contestant *who, const table *t, double out[])
{
    if (who->child != NULL) {
        ask(who, out, "pairs %d %d", WEIGHT, least_batch_ms());
        return;
    }
    void *object = who->create((uint64_t)t->capacity);
    out[0] = pair_ns(who->pairs, object);
    who->destroy(object);
}

static void measure_contended(const contestant *who, const table *t, double out[])
{
    out[2] = out[3] = (double)NAN;
    if (who->child != NULL) {
        ask(who, out, "contended %d %d %d %d", t->threads, WEIGHT_MASK, t->capacity, options.ms);
        return;
    }
    run.first = who->create((uint64_t)t->capacity);
    window w = run_alike(who->contend, t->threads, options.ms);
    out[0] = w.wall_ns / w.ops;
    out[1] = w.cpu_ns / w.ops;
    out[3] = w.most_ops / w.least_ops;
    out[2] = run_alike(who->contend_timed, t->threads, options.ms).worst_us;
    who->destroy(run.first);
}

static void measure_start(const contestant *who, const table *t, double out[])
{
    if (who->child != NULL) {
        ask(who, out, "start %d %d", t->capacity, options.ms);
        return;
    }
    run.first = who->create((uint64_t)t->capacity);
    window w = run_alike(who->starts, 1, options.ms);
    out[0] = w.wall_ns / w.ops;
    out[1] = w.cpu_ns / w.ops;
    who->destroy(run.first);
}

/* Jobs that are cut at the beginning of the window make up for those that are cut at its end. */
static void measure_utilisation(const contestant *who, const table *t, double out[])
{
    jobs_made = 0;
    run.first = who->create((uint64_t)t->capacity);
    window w = run_alike(who->occupy, t->threads, options.ms < 600 ? 600 : options.ms);
    out[0] = 100 - 100 * w.ops / ((double)t->capacity * w.wall_ns);
    out[1] = w.worst_us / 1000;
    who->destroy(run.first);
}

/* ---- Hand-over ------------------------------------------------------------------------------ */

static int many; /* or as many threads as the system grants */

static double hand_over_any(const contestant *who, int count, int bursts)
{
    double out[2];
    if (who->child == NULL) {
        return hand_over(who, count, bursts);
    }
    ask(who, out, "handover %d %d", count, bursts);
    return out[0];
}

static void measure_handover(const contestant *who, const table *t, double out[])
{
    (void)t;
    out[0] = hand_over_any(who, FEW, bursts_of(FEW));
    out[1] = out[2] = (double)NAN;
    if ((who->scenarios & (is_short() ? FEW_ONLY | FEW_IF_SHORT : FEW_ONLY)) == 0) {
        out[1] = hand_over_any(who, many, 1);
        out[2] = out[1] / out[0];
    }
}

/* ---- The scenarios -------------------------------------------------------------------------- */

static void run_uncontended(void)
{
    static const scenario uncontended = {
        .name = "uncontended",
        .title = "uncontended, beside an idle thread, CPU time",
        .limit = &limit_cas,
        .metrics = {"pair_ns"},
        .columns = {{"ns/pair", 0, MEDIAN},
                    {"spread %", 0, SPREAD},
                    {"x load+CAS", 0, TO_LIMIT},
                    {"x ours", 0, TO_REFERENCE}},
    };
    /* Short repetitions, so there can be more of them. */
    const table *t = run_table(&uncontended, PAIRS, "weight 3 of 16", 1, PAIRS_OF, 3 * options.reps,
                               measure_uncontended);
    const row *us = row_of(t, "weighted_sem"), *best = best_peer(t, "");
    add_bar(look(t, us, 0, TO_LIMIT), false, 1.3, "uncontended: time x load+CAS, twice");
    if (best != NULL) {
        add_bar(ratio(t, us, best, 0), false, 1.0, "uncontended: time x the best peer, %s",
                best->who->label);
    }
    add_bar(look(t, row_of(t, "weighted_sem complete"), 0, TO_LIMIT), false, 3,
            "complete of an empty job: time x load+CAS, twice");
    add_bar(look(t, row_of(t, "weighted_sem begin+finish"), 0, TO_LIMIT), false, 3,
            "begin+finish: time x load+CAS, twice");
}

static void run_utilisation(void)
{
    static const scenario utilisation = {
        .name = "utilisation",
        .title = "weight x time that idles while callers wait, jobs of 1 to 4 ms",
        .metrics = {"idle_percent", "worst_ms"},
        .columns = {{"idle %", 0, MEDIAN}, {"spread %", 0, SPREAD}, {"worst wait ms", 1, MEDIAN}},
        .note =
            "a bypass needs several callers: one that starts job after job has nobody behind it",
    };
    static const char *const mixes[] = {"32 callers, 1 to 48 of 180",
                                        "32 callers, 1 in 10 takes 90 to 180"};
    for (int i = 0; i < 2; i++) {
        some_heavy = i == 1;
        const table *t = run_table(&utilisation, UTILISED, mixes[i], 32, GPU_GIGABYTES,
                                   is_short() ? 1 : options.reps, measure_utilisation);
        double strict = 100 - look(t, row_of(t, "weighted_sem"), 0, MEDIAN);
        double bypass = 100 - look(t, row_of(t, "weighted_sem, bypass 8/4"), 0, MEDIAN);
        add_bar(bypass / strict, true, i == 0 ? 1.03 : 1.1,
                "utilisation, %s: in use with bypass 8/4 x in order", mixes[i]);
    }
}

static void run_start(void)
{
    static const scenario start = {
        .name = "start",
        .title = "start of an empty job of weight 1",
        .limit = &limit_spinning_ring,
        .metrics = {"op_ns", "cpu_ns"},
        .columns = {{"ns/job", 0, MEDIAN},
                    {"spread %", 0, SPREAD},
                    {"x limit", 0, TO_LIMIT},
                    {"x ours", 0, TO_REFERENCE},
                    {"CPU ns/job", 1, MEDIAN},
                    {"x ours", 1, TO_REFERENCE}},
    };
    static const int totals[] = {8, 64};
    for (int i = 0; i < 2; i++) {
        char config[32];
        snprintf(config, sizeof config, "total %d", totals[i]);
        const table *t =
            run_table(&start, STARTS, config, 1, totals[i], options.reps, measure_start);
        const row *us = row_of(t, "weighted_sem");
        add_bar(look(t, us, 0, TO_LIMIT), false, 8, "start, %s: time x CAS, spinning ring", config);
        static const char *const beaten[] = {"Go semaphore.Weighted", "tokio Semaphore",
                                             "mutex+cond pool of 2", "mutex+cond pool of 8"};
        for (int k = 0; k < 4; k++) {
            add_bar(ratio(t, us, row_of(t, beaten[k]), 0), false, 1.0, "start, %s: time x %s",
                    config, beaten[k]);
            add_bar(ratio(t, us, row_of(t, beaten[k]), 1), false, 1.0, "start, %s: CPU x %s",
                    config, beaten[k]);
        }
    }
}

static void run_contended(void)
{
    static const scenario contended = {
        .name = "contended",
        .title = "contended, weights 1 to 8, 50 ns of work",
        .limit = &limit_cas,
        .metrics = {"op_ns", "cpu_ns", "worst_us", "share"},
        .columns = {{"ns/op", 0, MEDIAN},
                    {"spread %", 0, SPREAD},
                    {"x load+CAS", 0, TO_LIMIT},
                    {"x ours", 0, TO_REFERENCE},
                    {"CPU ns/op", 1, MEDIAN},
                    {"x ours", 1, TO_REFERENCE},
                    {"worst us", 2, MEDIAN},
                    {"of all", 2, WORST},
                    {"max/min", 3, MEDIAN}},
    };
    /* Two CPUs hold at most 16 at once, so with 16 who waits does so because a holder has lost its
     * CPU, or somebody else waits already. With 8 they truly compete. */
    static const int totals[] = {16, 8};
    for (int i = 0; i < 2; i++) {
        char config[32];
        snprintf(config, sizeof config, "T=4 of %d", totals[i]);
        const table *t =
            run_table(&contended, CONTENDED, config, 4, totals[i], options.reps, measure_contended);
        const row *strict = row_of(t, "weighted_sem");
        const row *loose = row_of(t, "weighted_sem, bypass 8/1000");
        for (int k = 0; i == 0 && k < t->rows; k++) {
            const row *peer = &t->row[k];
            if (peer->who->kind == BENCH_PEER && peer->who->order == IN_ORDER) {
                add_bar(ratio(t, strict, peer, 0), false, 1.0, "contended, in order: time x %s",
                        peer->who->label);
            } else if (peer->who->kind == BENCH_PEER) {
                add_bar(ratio(t, loose, peer, 0), false, 1.0, "contended, bypass 8/1000: time x %s",
                        peer->who->label);
            }
        }
    }
}

static void run_handover(void)
{
    static const scenario handover = {
        .name = "handover",
        .title = "hand-over while 16 wait, and while many do",
#ifdef __linux__
        .limit = &limit_futex_chain,
#endif
        .metrics = {"few_ns", "many_ns", "growth"},
        .columns = {{"ns, 16", 0, MEDIAN},
                    {"spread %", 0, SPREAD},
                    {"x futex", 0, TO_LIMIT},
                    {"ns, many", 1, MEDIAN},
                    {"spread %", 1, SPREAD},
                    {"x futex", 1, TO_LIMIT},
                    {"many/16", 2, MEDIAN}},
        .note = "threads in C and Java, goroutines in Go, tasks in tokio; not with many: those that"
                " wake or ask all who wait, and Java in a short run",
    };
    many = crowd_size(is_short() ? MANY / 10 : MANY);
    if (many < FEW) {
        return;
    }
    /* What a wake-up costs depends most of all on whether it must reach another CPU, one that
     * sleeps even. On one CPU less of that hides what the semaphore costs. */
#ifdef __linux__
    const char *placements[] = {"not pinned", "one CPU"};
#else
    const char *placements[] = {"not pinned"};
#endif
    for (int i = 0; i < (int)(sizeof placements / sizeof placements[0]); i++) {
        char config[48];
        pinned = i == 1;
        snprintf(config, sizeof config, "many = %d, %s", many, placements[i]);
        const table *t = run_table(&handover, i == 0 ? HANDOVER : HANDOVER_PINNED, config, many, 1,
                                   is_short() ? 1 : options.reps, measure_handover);
        const row *us = row_of(t, "weighted_sem");
        add_bar(look(t, us, 2, MEDIAN), false, 1.5,
                "hand-over, %s: time while %d wait x that while 16 wait", placements[i], many);
        /* The system itself needs longer to wake one thread of many: what we add to that. It can
         * be told from its noise on one CPU only. */
        if (pinned) {
            add_bar(look(t, us, 2, TO_LIMIT), false, 1.25,
                    "hand-over, %s: that growth x the growth of the futex chain", placements[i]);
        }
    }
}

static void measure_waiters(const contestant *who, const table *t, double out[])
{
    out[0] = hand_over(who, t->threads, bursts_of(t->threads));
}

static void run_waiters(void)
{
#ifdef __linux__
    waiters.limit = &limit_futex_chain;
#endif
    run_by_waiters(HANDOVER_PINNED, measure_waiters);
}

/* ---- main ----------------------------------------------------------------------------------- */

static const program bench_weighted_sem = {
    .name = "bench_weighted_sem",
    .reps = 5,
    .ms = 120,
    .in_vain_max = 5,
    .reference = "weighted_sem",
    .reference_suffix = "_to_ours",
    .capacity_key = "total",
    .process_of = process_of,
    .children_ns = children_ns,
    .scenarios = {{"uncontended", run_uncontended},
                  {"utilisation", run_utilisation},
                  {"start", run_start},
                  {"contended", run_contended},
                  {"handover", run_handover},
                  {"waiters", run_waiters}},
};

int main(int argc, char **argv)
{
    FILE *json = begin_report(&bench_weighted_sem, argc, argv);
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
