/* SPDX-License-Identifier: MIT
 *
 * weighted_sem.h beside the bare mechanism and beside its peers.
 *
 *     bench/build.sh && build/bench/bench_weighted_sem [--quick] [--scenario NAME] [--reps N]
 *                                                      [--ms N] [--json FILE]
 *
 * The method is that of bench_semaphore.c: everything is a ratio within one run, the contestants of
 * a table take turns, round robin, one repetition each, and what is reported is the median over the
 * rounds. Go, Java and tokio cannot run in this process. They are children that live as long as it
 * does, sleep while it is not their turn, and do one repetition when asked: so they are warm, and
 * take part in the rounds like the others.
 *
 *   uncontended   one thread takes and gives some weight, or runs an empty job; CPU time of it
 *   start         one thread starts empty jobs of weight 1 on warm workers
 *   contended     4 threads, random weights from 1 to 8, about 50 ns of work with the weight held
 *   handover      N threads sleep for the only weight; each hands it on to the next and goes away
 *
 * The bars at the end are aims, not tests: a miss is printed and does not fail.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "../weighted_sem.h"
#include "bench.h"
#include "weighted_peers.h"

#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

/* ---- The contestants ------------------------------------------------------------------------ */

enum { PAIRS = 1, CONTENDED = 2, STARTS = 4, HANDOVER = 8, HANDOVER_PINNED = 16 };
/* A release that wakes all who wait needs N * N wake-ups for N of them: not with 10000. */
enum { FEW_ONLY = 32 };
/* And one that needs seconds to create them is not measured with that many in a short run. */
enum { FEW_IF_SHORT = 64 };

typedef enum order { IN_ORDER, ANY_ORDER } order;

/* A peer in a process of its own. */
typedef struct child {
    const char *name, *command[4];
    char version[128];
    pid_t pid; /* 0: it is not there, or has died */
    int to, from;
} child;

typedef struct contestant {
    const char *label;
    enum bench_kind kind;
    order order;
    int scenarios;
    /* Either these, which weighted_loops.h generates, */
    void *(*create)(uint64_t total);
    void (*destroy)(void *object);
    void (*pairs)(void *object, uint64_t weight, uint64_t count);
    void (*contend)(bench_thread *self);
    void (*contend_timed)(bench_thread *self);
    void (*starts)(bench_thread *self);
    void (*take)(void *object);
    void (*give)(void *object);
    /* or a child, and what it is to be asked for. */
    child *child;
    const char *variant;
} contestant;

enum { WEIGHT = 3, WEIGHT_MASK = 7 }; /* uncontended; contended: 1 more than what this leaves */

static inline uint64_t random_seed(const bench_thread *self)
{
    return (uint64_t)(self->cpu + 2) * 0x9e3779b97f4a7c15; /* cpu is its number here */
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

#define BENCH_ID limit_cas
#define BENCH_LABEL "limit: CAS pair"
#define BENCH_KIND BENCH_LIMIT
#define BENCH_ORDER ANY_ORDER
#define BENCH_SCENARIOS (PAIRS | CONTENDED)
#define BENCH_TYPE uint64_t
#define BENCH_CREATE(s, total) *(s) = (total)
#define BENCH_DESTROY(s) (void)(s)
#define BENCH_ACQUIRE(s, weight) cas_take(s, weight)
#define BENCH_RELEASE(s, weight) cas_give(s, weight)
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
#define BENCH_SCENARIOS (PAIRS | CONTENDED | STARTS | HANDOVER | HANDOVER_PINNED)
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
#define BENCH_SCENARIOS CONTENDED
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
#define BENCH_SCENARIOS CONTENDED
#define BENCH_TYPE weighted_sem
#define BENCH_CREATE(s, total) create_ours(s, total, 8, 1000)
#define BENCH_DESTROY(s) must(weighted_sem_destroy(s))
#define BENCH_ACQUIRE(s, weight) (void)weighted_sem_acquire(s, weight)
#define BENCH_RELEASE(s, weight) (void)weighted_sem_release(s, weight)
#include "weighted_loops.h"

#define BENCH_ID peer_fifo
#define BENCH_LABEL "mutex, FIFO of conds"
#define BENCH_KIND BENCH_PEER
#define BENCH_ORDER IN_ORDER
#define BENCH_SCENARIOS (PAIRS | CONTENDED | HANDOVER | HANDOVER_PINNED)
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
#define BENCH_SCENARIOS (PAIRS | CONTENDED | HANDOVER | FEW_ONLY)
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
static child children[] = {
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
    &limit_cas,
    &limit_spinning_ring,
#ifdef __linux__
    &limit_futex_chain,
#endif
    &ours,
    &ours_complete,
    &ours_begin,
    &ours_bypass_4,
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

static void skip(const char *text)
{
    int i = 0;
    while (skipped[i] != NULL) {
        i++;
    }
    skipped[i] = text;
}

/* ---- The children --------------------------------------------------------------------------- */

/* It has died, or might as well have. */
static void give_child_up(child *c)
{
    if (c->pid != 0) {
        kill(c->pid, SIGKILL);
        waitpid(c->pid, NULL, 0);
        c->pid = 0;
    }
    snprintf(c->version, sizeof c->version, "%s (was built, but does not answer)", c->name);
    skip(c->version);
}

/* A line of what it says; false if it says nothing for a minute, or never will. */
static bool hear(child *c, char *line, size_t size)
{
    size_t length = 0;
    while (c->pid != 0 && length + 1 < size) {
        struct pollfd readable = {.fd = c->from, .events = POLLIN};
        char byte;
        if (poll(&readable, 1, 60000) != 1 || read(c->from, &byte, 1) != 1) {
            return false;
        }
        if (byte == '\n') {
            line[length] = '\0';
            return true;
        }
        line[length++] = byte;
    }
    return false;
}

static void start_child(child *c)
{
    int in[2], out[2];
    char line[128];
    if (pipe(in) != 0 || pipe(out) != 0) {
        return;
    }
    for (int i = 0; i < 2; i++) { /* a child must not keep its sister's pipe open */
        fcntl(in[i], F_SETFD, FD_CLOEXEC);
        fcntl(out[i], F_SETFD, FD_CLOEXEC);
    }
    fflush(stdout);
    c->pid = fork();
    if (c->pid == 0) {
#ifdef __linux__
        prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
        signal(SIGPIPE, SIG_DFL);
        dup2(in[0], 0);
        dup2(out[1], 1);
        char *arguments[5] = {NULL};
        for (int i = 0; i < 4 && c->command[i] != NULL; i++) {
            arguments[i] = strdup(c->command[i]);
        }
        execvp(arguments[0], arguments);
        _exit(127);
    }
    close(in[0]);
    close(out[1]);
    c->to = in[1];
    c->from = out[0];
    if (c->pid < 0) {
        c->pid = 0;
    }
    if (hear(c, line, sizeof line) && strncmp(line, "ready ", 6) == 0) {
        snprintf(c->version, sizeof c->version, "%s", line + 6);
    } else {
        give_child_up(c);
    }
}

static void stop_children(void)
{
    for (int i = 0; i < CHILDREN; i++) {
        if (children[i].pid != 0) {
            close(children[i].to); /* nothing more to read: it ends */
            waitpid(children[i].pid, NULL, 0);
            children[i].pid = 0;
        }
    }
}

/* One repetition of a child: up to two numbers, not a number for those that it does not give. */
__attribute__((format(printf, 3, 4))) static void ask(const contestant *who, double out[],
                                                      const char *format, ...)
{
    char line[128];
    va_list arguments;
    child *c = who->child;
    out[0] = out[1] = (double)NAN;
    if (c->pid == 0) {
        return;
    }
    va_start(arguments, format);
    int length = snprintf(line, sizeof line, "%s ", who->variant);
    length += vsnprintf(line + length, sizeof line - (size_t)length - 1, format, arguments);
    va_end(arguments);
    line[length++] = '\n';
    if (write(c->to, line, (size_t)length) == length && hear(c, line, sizeof line) &&
        sscanf(line, "%lf %lf", &out[0], &out[1]) >= 1) {
        return;
    }
    give_child_up(c);
    printf("\n%s does not answer, and is left out from here on\n", c->name);
}

/* CPU time of all children so far. */
static double children_ns(void)
{
    double all = 0;
#ifdef __linux__
    for (int i = 0; i < CHILDREN; i++) {
        clockid_t clock;
        if (children[i].pid != 0 && clock_getcpuclockid(children[i].pid, &clock) == 0) {
            all += (double)bench_clock(clock);
        }
    }
#endif
    return all;
}

/* ---- The tables ----------------------------------------------------------------------------- */

enum { REPS_MAX = 99, TABLES_MAX = 8, METRICS_MAX = 4, COLUMNS_MAX = 12 };

typedef enum reading { MEDIAN, WORST, SPREAD, TO_LIMIT, TO_OURS } reading;

typedef struct column {
    const char *header;
    int metric;
    reading reading;
} column;

typedef struct scenario {
    const char *name, *title;
    const char *note;                 /* below its last table, or NULL */
    const contestant *limit;          /* of TO_LIMIT, or NULL */
    const char *metrics[METRICS_MAX]; /* as the JSON calls them; less is better in all */
    column columns[COLUMNS_MAX];
    column order; /* by which the peers are sorted */
} scenario;

typedef struct row {
    const contestant *who;
    double value[METRICS_MAX][REPS_MAX];
} row;

typedef struct table {
    const scenario *of;
    char config[48];
    int threads, total;
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
    case TO_OURS:
        return ratio(t, r, row_of(t, "weighted_sem"), c.metric);
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
    static const char text[] = "\nbench_weighted_sem: hangs, a wake-up was lost in: ";
    (void)signal_number;
    ssize_t ignored = write(2, text, sizeof text - 1);
    ignored += write(2, now_running, strlen(now_running));
    ignored += write(2, "\n", 1);
    for (int i = 0; i < CHILDREN; i++) {
        if (children[i].pid != 0) {
            kill(children[i].pid, SIGKILL);
        }
    }
    _exit(ignored > 0 ? 3 : 4);
}

static void *thread_main(void *arg)
{
    bench_thread *self = arg;
    self->body(self);
    return NULL;
}

enum { THREADS_MAX = 16 };
static bench_run run;
static bench_thread threads[THREADS_MAX];

typedef struct window {
    double wall_ns, cpu_ns;
    double ops, most_ops, least_ops; /* of all threads together, and of one */
    double worst_us;                 /* of one wait */
} window;

/* Runs the threads, whose bodies and objects are set, and looks at them from outside, twice: all
 * that is counted lies between the two looks. */
static window run_threads(int count, int ms)
{
    uint64_t before[THREADS_MAX];
    window w = {0, 0, 0, 0, INFINITY, 0};
    uint64_t worst = 0;

    alarm((unsigned)(60 + 4 * ms / 1000));
    run.phase = BENCH_WARM;
    run.work = work_rounds;
    for (int i = 0; i < count; i++) {
        threads[i].ops = 0;
        memset(threads[i].worst, 0, sizeof threads[i].worst);
        threads[i].cpu = i;
        threads[i].run = &run;
        if (pthread_create(&threads[i].id, NULL, thread_main, &threads[i]) != 0) {
            fprintf(stderr, "bench_weighted_sem: no thread to be had\n");
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
        }
    }
    alarm(0);
    w.worst_us = (double)worst * ns_per_tick / 1000;
    return w;
}

static void measure_uncontended(const contestant *who, const table *t, double out[])
{
    double least = (options.ms < 100 ? 2 : 10) * 1e6;
    if (who->child != NULL) {
        ask(who, out, "pairs %d %g", WEIGHT, least / 1e6);
        return;
    }
    volatile uint64_t weight = WEIGHT; /* for the compiler to know nothing about it */
    void *object = who->create((uint64_t)t->total);
    alarm(60);
    /* Twice as many until it lasts long enough: the last batch counts, those before warm up. */
    for (uint64_t count = 1024;; count *= 2) {
        int64_t before = bench_clock(CLOCK_THREAD_CPUTIME_ID);
        who->pairs(object, weight, count);
        double spent = (double)(bench_clock(CLOCK_THREAD_CPUTIME_ID) - before);
        if (spent >= least) {
            out[0] = spent / (double)count;
            break;
        }
    }
    alarm(0);
    who->destroy(object);
}

static void measure_contended(const contestant *who, const table *t, double out[])
{
    out[2] = out[3] = (double)NAN;
    if (who->child != NULL) {
        ask(who, out, "contended %d %d %d %d", t->threads, WEIGHT_MASK, t->total, options.ms);
        return;
    }
    run.first = who->create((uint64_t)t->total);
    for (int i = 0; i < t->threads; i++) {
        threads[i].body = who->contend;
    }
    window w = run_threads(t->threads, options.ms);
    out[0] = w.wall_ns / w.ops;
    out[1] = w.cpu_ns / w.ops;
    out[3] = w.most_ops / w.least_ops;
    for (int i = 0; i < t->threads; i++) {
        threads[i].body = who->contend_timed;
    }
    w = run_threads(t->threads, options.ms);
    out[2] = w.worst_us;
    who->destroy(run.first);
}

static void measure_start(const contestant *who, const table *t, double out[])
{
    if (who->child != NULL) {
        ask(who, out, "start %d %d", t->total, options.ms);
        return;
    }
    run.first = who->create((uint64_t)t->total);
    threads[0].body = who->starts;
    window w = run_threads(1, options.ms);
    out[0] = w.wall_ns / w.ops;
    out[1] = w.cpu_ns / w.ops;
    who->destroy(run.first);
}

/* ---- Hand-over ------------------------------------------------------------------------------ */

enum { FEW = 16, MANY = 10000, STACK = 65536 };
static int many = MANY; /* or as many threads as the system grants */
static bool pinned;     /* to one CPU, all of them */

static struct {
    const contestant *who;
    void *object;
    int count, arrived;
    int64_t end;
    BENCH_ALIGNED int through;
    pthread_rwlock_t gate; /* closed until the last is through: the end of a thread is no part of
                              it, and costs more than a hand-over */
} crowd = {.gate = PTHREAD_RWLOCK_INITIALIZER};

static void *crowd_thread(void *arg)
{
    (void)arg;
    __atomic_add_fetch(&crowd.arrived, 1, __ATOMIC_RELAXED);
    if (crowd.who != NULL) {
        crowd.who->take(crowd.object);
        crowd.who->give(crowd.object);
        if (__atomic_add_fetch(&crowd.through, 1, __ATOMIC_RELAXED) == crowd.count) {
            __atomic_store_n(&crowd.end, bench_clock(CLOCK_MONOTONIC), __ATOMIC_RELEASE);
        }
    }
    pthread_rwlock_rdlock(&crowd.gate);
    pthread_rwlock_unlock(&crowd.gate);
    return NULL;
}

static pthread_t crowd_ids[MANY];

/* Creates up to count threads and returns how many there are. */
static int gather(const contestant *who, void *object, int count)
{
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, STACK);
#ifdef __linux__
    if (pinned) {
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET((size_t)sched_getcpu(), &one);
        pthread_attr_setaffinity_np(&small, sizeof one, &one);
    }
#endif
    crowd.who = who;
    crowd.object = object;
    crowd.count = count;
    crowd.arrived = crowd.through = 0;
    crowd.end = 0;
    pthread_rwlock_wrlock(&crowd.gate);
    int got = 0;
    while (got < count && pthread_create(&crowd_ids[got], &small, crowd_thread, NULL) == 0) {
        got++;
    }
    pthread_attr_destroy(&small);
    return got;
}

static void disperse(int count)
{
    pthread_rwlock_unlock(&crowd.gate);
    for (int i = 0; i < count; i++) {
        pthread_join(crowd_ids[i], NULL);
    }
}

/* All have come, and the process does nothing any more: so they sleep, however it is done. */
static void wait_until_all_sleep(int count)
{
    int64_t nap = count > FEW ? 5000000 : 500000;
    int64_t before, spent;
    do {
        before = bench_clock(CLOCK_PROCESS_CPUTIME_ID);
        bench_sleep(nap);
        spent = bench_clock(CLOCK_PROCESS_CPUTIME_ID) - before;
    } while (__atomic_load_n(&crowd.arrived, __ATOMIC_RELAXED) < count || spent > nap / 5);
}

/* From the first release until the last is through, for each of them. */
static double hand_over(const contestant *who, int count, int bursts)
{
    double all = 0;
    if (who->child != NULL) {
        double out[2];
        ask(who, out, "handover %d %d", count, bursts);
        return out[0];
    }
    for (int i = 0; i < bursts; i++) {
        void *object = who->create(1);
        alarm(120);
        who->take(object);
        if (gather(who, object, count) != count) {
            fprintf(stderr, "bench_weighted_sem: no thread to be had\n");
            exit(1);
        }
        wait_until_all_sleep(count);
        int64_t begin = bench_clock(CLOCK_MONOTONIC), end;
        who->give(object);
        while ((end = __atomic_load_n(&crowd.end, __ATOMIC_ACQUIRE)) == 0) {
            bench_sleep(500000);
        }
        disperse(count);
        alarm(0);
        all += (double)(end - begin);
        who->destroy(object);
    }
    return all / bursts / count;
}

static void measure_handover(const contestant *who, const table *t, double out[])
{
    (void)t;
    out[0] = hand_over(who, FEW, options.ms < 100 ? 10 : 40);
    out[1] = out[2] = (double)NAN;
    if ((who->scenarios & (options.ms < 100 ? FEW_ONLY | FEW_IF_SHORT : FEW_ONLY)) == 0) {
        out[1] = hand_over(who, many, 1);
        out[2] = out[1] / out[0];
    }
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
    load l = {(double)bench_clock(CLOCK_MONOTONIC),
              (double)bench_clock(CLOCK_PROCESS_CPUTIME_ID) + children_ns(), 0, 0};
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

typedef void measure_function(const contestant *who, const table *t, double out[]);

/* One repetition, or the better of two if others were busy during the first. On a machine that is
 * busy all the time that is of no use, and would only take twice as long: so it is given up after
 * some in vain, until it is quiet again. */
static bool measure_quietly(measure_function *measure, const table *t, row *r, int rep)
{
    enum { TOO_SHORT_TO_TELL_MS = 100, IN_VAIN_MAX = 5 };
    static int in_vain;
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
        again = !again && others > too_much && in_vain < IN_VAIN_MAX;
    } while (again);
    in_vain = least > too_much ? in_vain + 1 : 0;
    return least <= too_much;
}

/* A child that died on the way has no figures for the rest of it. */
static void leave_out_the_dead(table *t)
{
    int kept = 0;
    for (int i = 0; i < t->rows; i++) {
        const child *c = t->row[i].who->child;
        if (c == NULL || c->pid != 0) {
            t->row[kept++] = t->row[i];
        }
    }
    t->rows = kept;
}

static const table *run_table(const scenario *of, int scenario_bit, const char *config, int count,
                              int total, int reps, measure_function *measure)
{
    table *t = &tables[table_count++];
    int disturbed = 0;
    t->of = of;
    t->threads = count;
    t->total = total;
    t->reps = reps < REPS_MAX ? reps : REPS_MAX;
    snprintf(t->config, sizeof t->config, "%s", config);
    for (int i = 0; i < CONTESTANTS; i++) {
        if ((contestants[i]->scenarios & scenario_bit) != 0 &&
            (contestants[i]->child == NULL || contestants[i]->child->pid != 0)) {
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

    leave_out_the_dead(t);
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

/* The peer with the least median of the first metric. */
static const row *best_peer(const table *t)
{
    const row *best = NULL;
    for (int i = 0; i < t->rows; i++) {
        const row *r = &t->row[i];
        if (r->who->kind == BENCH_PEER && (best == NULL || median(t, r, 0) < median(t, best, 0))) {
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

/* The median of what one takes longer than another, within each round. */
static double difference(const table *t, const row *r, const row *base, int metric)
{
    double differences[REPS_MAX];
    for (int rep = 0; rep < t->reps; rep++) {
        differences[rep] = r->value[metric][rep] - base->value[metric][rep];
    }
    return quantile_of(differences, t->reps, 0.5);
}

static void run_uncontended(void)
{
    static const scenario uncontended = {
        .name = "uncontended",
        .title = "uncontended, CPU time of the thread",
        .limit = &limit_cas,
        .metrics = {"pair_ns"},
        .columns = {{"ns/pair", 0, MEDIAN},
                    {"spread %", 0, SPREAD},
                    {"x CAS pair", 0, TO_LIMIT},
                    {"x ours", 0, TO_OURS}},
        .order = {NULL, 0, MEDIAN},
    };
    /* Short repetitions, so there can be more of them. */
    const table *t = run_table(&uncontended, PAIRS, "weight 3 of 16", 1, 16, 3 * options.reps,
                               measure_uncontended);
    const row *us = row_of(t, "weighted_sem"), *best = best_peer(t);
    add_bar(look(t, us, (column){NULL, 0, TO_LIMIT}), false, 1.3, "uncontended: time x CAS pair");
    if (best != NULL) {
        add_bar(ratio(t, us, best, 0), false, 1.0, "uncontended: time x the best peer, %s",
                best->who->label);
    }
    add_bar(difference(t, row_of(t, "weighted_sem complete"), us, 0), false, 15,
            "complete of an empty job: ns more than acquire+release");
    add_bar(look(t, row_of(t, "weighted_sem begin+finish"), (column){NULL, 0, TO_LIMIT}), false, 3,
            "begin+finish: time x CAS pair");
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
                    {"x ours", 0, TO_OURS},
                    {"CPU ns/job", 1, MEDIAN},
                    {"x ours", 1, TO_OURS}},
        .order = {NULL, 0, MEDIAN},
    };
    static const int totals[] = {8, 64};
    for (int i = 0; i < 2; i++) {
        char config[32];
        snprintf(config, sizeof config, "total %d", totals[i]);
        const table *t =
            run_table(&start, STARTS, config, 1, totals[i], options.reps, measure_start);
        const row *us = row_of(t, "weighted_sem");
        add_bar(median(t, us, 0), false, 300, "start, %s: ns", config);
        static const char *const beaten[] = {"Go semaphore.Weighted", "mutex+cond pool of 2",
                                             "mutex+cond pool of 8"};
        for (int k = 0; k < 3; k++) {
            add_bar(ratio(t, us, row_of(t, beaten[k]), 0), false, 1.0, "start, %s: time x %s",
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
                    {"x CAS pair", 0, TO_LIMIT},
                    {"x ours", 0, TO_OURS},
                    {"CPU ns/op", 1, MEDIAN},
                    {"x ours", 1, TO_OURS},
                    {"worst us", 2, MEDIAN},
                    {"of all", 2, WORST},
                    {"max/min", 3, MEDIAN}},
        .order = {NULL, 0, MEDIAN},
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
        .order = {NULL, 0, MEDIAN},
        .note = "threads in C and Java, goroutines in Go, tasks in tokio; not with many: those that"
                " wake or ask all who wait, and Java in a short run",
    };
    int got = gather(NULL, NULL, MANY);
    disperse(got);
    if (got < MANY) {
        many = got * 9 / 10;
        printf("\nthe system grants %d threads, not %d: hand-over is measured with %d\n", got, MANY,
               many);
        if (many < FEW) {
            return;
        }
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
                                   options.ms < 100 ? 1 : options.reps, measure_handover);
        const row *us = row_of(t, "weighted_sem");
        add_bar(median(t, us, 2), false, 1.5,
                "hand-over, %s: time while %d wait x that while 16 wait", placements[i], many);
        /* The system itself needs longer to wake one thread of many: what we add to that. It can
         * be told from its noise on one CPU only. */
        if (pinned) {
            add_bar(look(t, us, (column){NULL, 2, TO_LIMIT}), false, 1.25,
                    "hand-over, %s: that growth x the growth of the futex chain", placements[i]);
        }
    }
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
    for (int i = 0; i < CHILDREN; i++) {
        if (children[i].pid != 0) {
            printf("peer       %s, %s: a process of its own, that takes its turns\n",
                   children[i].name, children[i].version);
        }
    }
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
    fprintf(out, "{\"scenario\": \"%s\", \"config\": \"%s\", \"threads\": %d, \"total\": %d, ",
            t->of->name, t->config, t->threads, t->total);
    fprintf(out, "\"contestant\": \"%s\", \"kind\": \"%s\", \"process\": \"%s\"", r->who->label,
            kinds[r->who->kind], r->who->child == NULL ? "own" : "child");
    for (int metric = 0; metric < METRICS_MAX && t->of->metrics[metric] != NULL; metric++) {
        const char *name = t->of->metrics[metric];
        static const struct {
            const char *suffix;
            reading reading;
        } readings[] = {
            {"", MEDIAN}, {"_worst", WORST}, {"_to_limit", TO_LIMIT}, {"_to_ours", TO_OURS}};
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
    {"uncontended", run_uncontended},
    {"start", run_start},
    {"contended", run_contended},
    {"handover", run_handover},
};
enum { SCENARIOS = sizeof scenarios / sizeof scenarios[0] };

static int usage(void)
{
    fprintf(stderr, "usage: bench_weighted_sem [--quick] [--scenario NAME] [--reps N] [--ms N]"
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
    options.json = "build/bench_weighted_sem.json";
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
    options.reps = options.reps != 0 ? options.reps : quick ? 3 : 5;
    options.ms = options.ms != 0 ? options.ms : quick ? 10 : 120;

    FILE *json = fopen(options.json, "w"); /* now: it would be a pity to find out at the end */
    if (json == NULL) {
        fprintf(stderr, "bench_weighted_sem: %s: %s\n", options.json, strerror(errno));
        return 1;
    }
    signal(SIGALRM, give_up);
    signal(SIGPIPE, SIG_IGN); /* of a child that has died */
    for (int i = 0; i < CHILDREN; i++) {
        start_child(&children[i]);
    }
    calibrate();
    print_machine();
    for (int i = 0; i < SCENARIOS; i++) {
        if (options.scenario == NULL || strcmp(options.scenario, scenarios[i].name) == 0) {
            scenarios[i].run();
        }
    }
    stop_children();
    print_bars();
    if (!write_json(json)) {
        fprintf(stderr, "bench_weighted_sem: %s: %s\n", options.json, strerror(errno));
        return 1;
    }
    printf("\nwritten to %s\n", options.json);
    return 0;
}
