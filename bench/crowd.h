/* SPDX-License-Identifier: MIT
 *
 * A hand-over from thread to thread while many wait: all sleep for the only permit, and each hands
 * it on to the next. To be included after report.h; a contestant has create(permits), destroy, take
 * and give.
 */
#ifndef PLIM_BENCH_CROWD_H
#define PLIM_BENCH_CROWD_H

#include "report.h"

enum { FEW = 16, MANY = 10000, STACK = 65536 };
static bool pinned; /* to one CPU, all of them */

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

/* From the first release until the last is through, for each of them; not a number if the system
 * does not grant so many threads. */
static double hand_over(const contestant *who, int count, int bursts)
{
    double all = 0;
    for (int i = 0; i < bursts; i++) {
        void *object = who->create(1);
        alarm(120);
        who->take(object);
        int got = gather(who, object, count);
        if (got != count) { /* there were more a moment ago */
            who->give(object);
            disperse(got);
            alarm(0);
            who->destroy(object);
            return (double)NAN;
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

/* How many threads may wait: as many as wanted, or nearly as many as the system grants. */
static inline int crowd_size(int wanted)
{
    int got = gather(NULL, NULL, wanted);
    disperse(got);
    if (got == wanted) {
        return wanted;
    }
    fprintf(stderr, "\n  %s: the system grants %d threads, not %d: at most %d wait\n",
            this_program->name, got, wanted, got * 9 / 10);
    return got * 9 / 10;
}

/* So few of them are over so soon that there must be several. */
static inline int bursts_of(int count)
{
    return count > 1000 ? 1 : count > 100 ? (is_short() ? 1 : 4) : is_short() ? 10 : 40;
}

static scenario waiters = {
    .name = "waiters",
    .title = "hand-over, by those that wait, all on one CPU",
    .metrics = {"handover_ns"},
    .columns = {{"ns", 0, MEDIAN}, {"spread %", 0, SPREAD}, {"x futex", 0, TO_LIMIT}},
};

static inline void run_by_waiters(int scenario_bit, measure_function *measure)
{
    int most = crowd_size(is_short() ? MANY / 10 : MANY);
    pinned = true;
    for (int count = 1, last = 0; last < most; count = count < most / 10 ? 10 * count : most) {
        char config[32];
        snprintf(config, sizeof config, "%d wait%s", count, count == 1 ? "s" : "");
        run_table(&waiters, scenario_bit, config, count, 1, is_short() ? 1 : options.reps, measure);
        last = count;
    }
}

#endif
