/* SPDX-License-Identifier: MIT
 *
 * The gate of weighted_sem.h and bulkhead.h (src/core/gate.h), under the Relacy Race Detector, as
 * weighted_sem.h ships it: a word that is changed by one step while nobody waits, and under a lock
 * otherwise. Does what one thread did before it gave reach whoever takes, on every way from the one
 * to the other, and is nobody forgotten? search.h says how to run it.
 *
 * Beyond Relacy's reach: what test_semaphore.cc says of it. Two words meet here, the gate's and its
 * lock's, and load buffering between them would not show. But each store here is made only if a
 * compare-exchange before it has succeeded, and no machine makes it sooner.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <threads.h>
#include <time.h>

#include <relacy/relacy.hpp> /* makes EAGAIN and others its own, for the header and us alike */

#define PLIM_PLATFORM "platform.h"
#define PLIM_SPIN 1
#define PLIM_ASSERT(condition, message) RL_ASSERT((condition) && (message))
#ifndef HEADER
#define HEADER "../../weighted_sem.h"
#endif
#include HEADER

/* ---- What a scenario has to play with ------------------------------------------------------- */

struct bench {
    weighted_sem w;
    weighted_sem_job job; /* begun before the threads, if the scenario starts with JOB */
    rl::var<int> data;    /* plain memory: every access must be ordered */
    rl::var<int> more;
    int visits; /* the checker's own, not watched */

    void begin();
    void invariant();
    void end();
};

#include "scenario.h"

/* `start` of a scenario is the weight that is free; the total is 2. */
enum { JOB = OWN }; /* a job of weight 1 executes, and is part of what is not free */
enum { TOTAL = 2 };

static void give(bench &b, uint64_t weight)
{
    RL_ASSERT(weighted_sem_release(&b.w, weight) == 0);
}

static void take(bench &b, uint64_t weight)
{
    RL_ASSERT(weighted_sem_acquire(&b.w, weight) == 0);
}

static bool take_for(bench &b, uint64_t weight, int64_t timeout)
{
    int error = weighted_sem_acquire_for(&b.w, weight, timeout);
    RL_ASSERT(error == 0 || error == ETIMEDOUT);
    return error == 0;
}

static void try_take(bench &b, uint64_t weight)
{
    while (weighted_sem_try_acquire(&b.w, weight) != 0) {
        rl::yield(1, $);
    }
}

static int64_t some_time()
{
    return rl::rand(2) == 0 ? PLIM_US(100) : PLIM_MS(5);
}

static void send(bench &b)
{
    b.data($) = 1;
    give(b, 1);
}

static void receive(bench &b)
{
    RL_ASSERT(b.data($) == 1);
}

static void visit(bench &b)
{
    b.data($) = b.data($) + 1;
    b.visits++;
}

static void visited(bench &b)
{
    RL_ASSERT(b.data($) == b.visits);
}

/* A section that changes nothing: what it stores back is what it found. */
static void pass_through(bench &b)
{
    weighted_sem_section_ s = weighted_sem_lock_(&b.w);
    weighted_sem_unlock_(&b.w, &s);
}

/* ---- 1. From a giver to a taker ------------------------------------------------------------- */

/* The fast way at both ends, if nobody is in between; a try that finds nothing is a holder. */
static void give_try(bench &b, unsigned me)
{
    if (me == 0) {
        send(b);
    } else {
        try_take(b, 1);
        receive(b);
    }
}

/* The taker waits, and the giver ends its wait under the lock. */
static void give_wait(bench &b, unsigned me)
{
    if (me == 0) {
        send(b);
    } else {
        take(b, 1);
        receive(b);
    }
}

/* The giver is a holder of the lock: what it stores back carries its gift. */
static void give_locked(bench &b, unsigned me)
{
    if (me == 0) {
        b.data($) = 1;
        RL_ASSERT(weighted_sem_release_slow_(&b.w, 1) == 0);
    } else {
        while (!weighted_sem_admit_fast_(&b.w, 1, false)) {
            rl::yield(1, $);
        }
        receive(b);
    }
}

/* The taker is one: what it finds came with the gift. */
static void take_locked(bench &b, unsigned me)
{
    if (me == 0) {
        send(b);
        return;
    }
    for (;;) {
        weighted_sem_section_ s = weighted_sem_lock_(&b.w);
        bool fits = weighted_sem_fits_(s.word, 1, false);
        weighted_sem_unlock_(&b.w, &s);
        if (fits) {
            receive(b);
            return;
        }
        rl::yield(1, $);
    }
}

/* A holder who neither gives nor takes is between them. */
static void between(bench &b, unsigned me)
{
    if (me == 1) {
        pass_through(b);
    } else {
        give_try(b, me);
    }
}

static void between_waiting(bench &b, unsigned me)
{
    if (me == 1) {
        pass_through(b);
    } else {
        give_wait(b, me);
    }
}

/* Two givers: who has both weights sees what either did. */
static void give_two(bench &b, unsigned me)
{
    if (me == 0) {
        send(b);
    } else if (me == 1) {
        b.more($) = 1;
        give(b, 1);
    } else {
        if (rl::rand(2) == 0) {
            take(b, 2);
        } else {
            try_take(b, 2);
        }
        receive(b);
        RL_ASSERT(b.more($) == 1);
    }
}

/* Two takers, one of whom may go away: nobody behind it is forgotten. */
static void leaver(bench &b, unsigned me)
{
    if (me == 0) {
        send(b);
    } else if (me == 1) {
        if (take_for(b, 2, some_time())) {
            give(b, 2);
        }
    } else {
        take(b, 1);
        receive(b);
        give(b, 1);
    }
}

/* ---- 2. Mutual exclusion -------------------------------------------------------------------- */

static void exclusion(bench &b, unsigned)
{
    take(b, 2);
    visit(b);
    give(b, 2);
}

static int visit_job(void *arg)
{
    visit(*(bench *)arg);
    return 0;
}

/* By jobs, which have a fast way of their own. */
static void exclusion_jobs(bench &b, unsigned me)
{
    if (me == 0) {
        RL_ASSERT(weighted_sem_complete(&b.w, 2, visit_job, &b, NULL) == 0);
    } else {
        weighted_sem_job job;
        RL_ASSERT(weighted_sem_begin(&b.w, 2, &job) == 0);
        visit(b);
        RL_ASSERT(weighted_sem_finish(&job, 0) == 0);
    }
}

/* ---- 3. Drains: waits that are ended under the lock, by something else than a gift ----------- */

static void drain(bench &b, unsigned me)
{
    if (me == 0) {
        b.data($) = 1;
        RL_ASSERT(weighted_sem_finish(&b.job, 0) == 0);
    } else {
        RL_ASSERT(weighted_sem_drain(&b.w, PLIM_FOREVER) == 0);
        receive(b);
    }
}

static void drain_all(bench &b, unsigned me)
{
    if (me == 0) {
        b.data($) = 1;
        RL_ASSERT(weighted_sem_finish(&b.job, 0) == 0);
    } else if (me == 1) {
        b.more($) = 1;
        give(b, 1);
    } else {
        RL_ASSERT(weighted_sem_drain_all(&b.w, PLIM_FOREVER) == 0);
        receive(b);
        RL_ASSERT(b.more($) == 1);
    }
}

/* ---- 4. Close, which ends all waits ---------------------------------------------------------- */

static void close_tells(bench &b, unsigned me)
{
    if (me == 0) {
        b.data($) = 1;
        weighted_sem_close(&b.w);
    } else {
        RL_ASSERT(weighted_sem_acquire(&b.w, 1) == ESHUTDOWN);
        receive(b);
    }
}

/* ---- 5. Everything at once ------------------------------------------------------------------- */

static void medley(bench &b, unsigned)
{
    for (int i = 0; i < 2; i++) {
        weighted_sem_job job;
        switch (rl::rand(5)) {
        case 0:
            take(b, 2);
            visit(b);
            give(b, 2);
            break;
        case 1:
            if (take_for(b, 2, some_time())) {
                visit(b);
                give(b, 1);
                give(b, 1);
            }
            break;
        case 2:
            if (weighted_sem_try_begin(&b.w, 2, &job) == 0) {
                visit(b);
                RL_ASSERT(weighted_sem_finish(&job, 0) == 0);
            }
            break;
        case 3:
            RL_ASSERT(weighted_sem_complete(&b.w, 2, visit_job, &b, NULL) == 0);
            break;
        default:
            pass_through(b);
            break;
        }
    }
}

/* ---- All of them ---------------------------------------------------------------------------- */

static const scenario scenarios[] = {
    {"give_try", 2, 0, 0, 0, give_try, NULL},
    {"give_wait", 2, 0, 0, 0, give_wait, NULL},
    {"give_wait, time passes", 2, 0, TIME, 0, give_wait, NULL},
    {"give_locked", 2, 0, 0, 0, give_locked, NULL},
    {"take_locked", 2, 0, 0, 0, take_locked, NULL},
    {"between", 3, 0, 0, 0, between, NULL},
    {"between_waiting", 3, 0, 0, 0, between_waiting, NULL},
    {"give_two", 3, 0, 0, 0, give_two, NULL},
    {"leaver", 3, 0, TIME | TIMER_OF_1, 0, leaver, NULL},
    {"exclusion", 2, 2, 0, 0, exclusion, visited},
    {"exclusion of 3", 3, 2, 0, 0, exclusion, visited},
    {"exclusion of 3, time passes", 3, 2, TIME, 0, exclusion, visited},
    {"exclusion_jobs", 2, 2, 0, 0, exclusion_jobs, visited},
    {"exclusion_jobs of 3, time passes", 3, 2, TIME, 0, exclusion_jobs, visited},
    {"drain", 2, 0, JOB, 0, drain, NULL},
    {"drain_all", 3, 0, JOB, 0, drain_all, NULL},
    {"close_tells", 3, 0, 0, 0, close_tells, NULL},
    {"medley", 3, 2, 0, 0, medley, visited},
    {"medley, time passes", 3, 2, TIME | TIMER_OF_1, 0, medley, visited},
};

void bench::begin()
{
    weighted_sem_options options = weighted_sem_options();
    options.total = TOTAL;
    options.expected_jobs = 1;
    options.error_capacity = (uint32_t)PLIM_NONE;
    RL_ASSERT(weighted_sem_init(&w, &options) == 0);
    uint64_t taken = TOTAL - current->start;
    if ((current->flags & JOB) != 0) {
        RL_ASSERT(weighted_sem_begin(&w, 1, &job) == 0);
        taken--;
    }
    if (taken != 0) {
        RL_ASSERT(weighted_sem_acquire(&w, taken) == 0);
    }
    data($) = 0;
    more($) = 0;
    visits = 0;
}

/* HELD is set and cleared by who has the lock. */
void bench::invariant()
{
    RL_ASSERT((w.gate.word.debug_value() & PLIM_HELD_) == 0 || w.gate.lock.debug_value() != 0);
}

void bench::end()
{
    RL_ASSERT((w.gate.word.debug_value() & (PLIM_HELD_ | PLIM_WATCHED_)) == 0);
    RL_ASSERT(w.gate.lock.debug_value() == 0);
    RL_ASSERT(weighted_sem_waiting(&w) == 0 && weighted_sem_executing(&w) == 0);
    uint64_t taken = TOTAL - weighted_sem_available(&w);
    if (taken != 0) {
        RL_ASSERT(weighted_sem_release(&w, taken) == 0);
    }
    RL_ASSERT(weighted_sem_destroy(&w) == 0);
}

static bool reached()
{
    return world::seen.slept[1] != 0 && world::seen.refused != 0 && world::seen.woken[1] != 0 &&
           world::seen.timeouts != 0 && world::seen.spurious != 0;
}

#ifndef RANDOM_ONLY /* there are too many steps for more than that */
#define RANDOM_ONLY
#endif
#include "search.h"
