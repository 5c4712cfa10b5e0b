/* SPDX-License-Identifier: MIT
 *
 * How many at once? A service that only computes is offered five times what this machine's CPUs can
 * do, and nobody says how many CPUs there are. A bulkhead with an adaptive_limit finds it.
 *
 *   cc -std=c11 -O2 -pthread find_limit.c && ./a.out [fast]
 *
 * A line a second says what the limit is and why, what a call takes if it is alone, what it takes
 * now, and how many were answered. With two CPUs the limit is 3 or 4 in the end: both are busy, and
 * the next call is there when one ends. On a machine that is busy otherwise it is less, and rightly
 * so. Nothing of that is judged: the exit status is 1 only if a job was lost, or a bound exceeded.
 */
#define _POSIX_C_SOURCE 200809L /* the monotonic clock, nanosleep, sysconf */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "../adaptive_limit.h"
#include "../bulkhead.h"

enum { MOST = 64, QUEUE = 16 }; /* whatever the limiter says; and so many wait */
enum { JOBS = 2 * (MOST + QUEUE) };
#define WORK PLIM_MS(5) /* of a CPU, for a call */
#define OFFERED 5       /* times what the CPUs can do */

static adaptive_limit limit;
static bulkhead service;
static uint64_t rounds; /* that is so much work */
static atomic_int inside, too_many;

typedef struct call {
    bulkhead_job job;
    atomic_bool used;
} call;

static call calls[JOBS];

static int64_t now_on(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return PLIM_S((int64_t)t.tv_sec) + t.tv_nsec;
}

static unsigned compute(uint64_t count)
{
    volatile unsigned sum = 1;
    for (uint64_t i = 0; i < count; i++) {
        sum = sum * 1664525u + 1013904223u;
    }
    return sum;
}

static int answer(bulkhead_job *job)
{
    (void)job;
    if (atomic_fetch_add(&inside, 1) >= MOST) {
        atomic_store(&too_many, 1);
    }
    compute(rounds);
    atomic_fetch_sub(&inside, 1);
    return 0;
}

static void answered(bulkhead_job *job)
{
    atomic_store(&((call *)job->arg)->used, false);
}

static void arrive(size_t *next)
{
    call *c = &calls[(*next)++ % JOBS];
    if (!atomic_exchange(&c->used, true)) { /* else it is under way still */
        c->job = (bulkhead_job){.run = answer, .arg = c, .done = answered, .detached = true};
        if (bulkhead_submit(&service, &c->job) != 0) {
            atomic_store(&c->used, false); /* refused */
        }
    }
}

static void show(int second)
{
    adaptive_limit_state s = adaptive_limit_read(&limit);
    printf("%3d s  limit %2u  %-10s  alone %5.1f ms  now %5.1f ms  answered %llu\n", second,
           (unsigned)s.limit, adaptive_reason_name(s.reason), (double)s.baseline_ns / 1e6,
           (double)s.sample_ns / 1e6, (unsigned long long)bulkhead_snapshot(&service).succeeded);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    const int seconds = argc > 1 && strcmp(argv[1], "fast") == 0 ? 1 : 20;
    const int64_t cpus = sysconf(_SC_NPROCESSORS_ONLN) > 0 ? sysconf(_SC_NPROCESSORS_ONLN) : 1;
    const int64_t gap = WORK / (OFFERED * cpus);
    size_t next = 0;
    int second = 0;

    int64_t before = now_on(CLOCK_THREAD_CPUTIME_ID);
    compute(1000000);
    rounds = (uint64_t)(1e6 * (double)WORK / (double)(now_on(CLOCK_THREAD_CPUTIME_ID) - before));

    int error = adaptive_limit_init(&limit, &(adaptive_limit_options){.max = MOST});
    plim_limiter limiter = adaptive_limit_limiter(&limit);
    bulkhead_options options = {
        .type = BULKHEAD_ASYNC, .permits = MOST, .queue = QUEUE, .limiter = &limiter};
    if (error != 0 || bulkhead_init(&service, &options) != 0) {
        return 1;
    }
    printf("calls of %d ms of a CPU, %.0f of them a second; there are %d CPUs\n",
           (int)(WORK / PLIM_MS(1)), 1e9 / (double)gap, (int)cpus);
    const int64_t began = now_on(CLOCK_MONOTONIC);
    for (int64_t due = began; second < seconds; due += gap) {
        const int64_t wait = due - now_on(CLOCK_MONOTONIC); /* late ones are due all the same */
        if (wait > 0) {
            nanosleep(&(struct timespec){wait / PLIM_S(1), wait % PLIM_S(1)}, NULL);
        }
        arrive(&next);
        if (due - began >= PLIM_S(second + 1)) {
            show(++second);
        }
    }
    const bool closed = bulkhead_close(&service, BULKHEAD_DRAIN, PLIM_S(60)) == 0;
    const bulkhead_stats end = bulkhead_snapshot(&service);
    bool right = closed && atomic_load(&too_many) == 0 && end.accepted == end.succeeded;
    for (const call *c = calls; c < calls + JOBS; c++) {
        right = right && !atomic_load(&c->used);
    }
    right = bulkhead_destroy(&service) == 0 && right;
    printf("%s\n", right ? "Every call ended once, and no limit was exceeded." : "WRONG");
    return right ? 0 : 1;
}
