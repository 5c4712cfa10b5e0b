/* SPDX-License-Identifier: MIT
 *
 * bulkhead.h, as it ships, under the Relacy Race Detector: its fast way through the gate, and the
 * end of a job. test_gate.cc has the gate itself. search.h says how to run it.
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
#define HEADER "../../bulkhead.h"
#endif
#include HEADER

/* ---- What a scenario has to play with ------------------------------------------------------- */

struct bench {
    bulkhead b;
    bulkhead_job job;
    rl::var<int> data; /* plain memory: every access must be ordered */
    int visits;        /* the checker's own, not watched */

    void begin();
    void invariant();
    void end();
};

#include "scenario.h"

/* There is one permit, and `start` of a scenario says whether it is free. */
enum { JOBS = OWN }; /* the bulkhead has an executor, and the job is not yet submitted */

static void visit(bench &b)
{
    b.data($) = b.data($) + 1;
    b.visits++;
}

static void visited(bench &b)
{
    RL_ASSERT(b.data($) == b.visits);
}

/* ---- 1. Permits ------------------------------------------------------------------------------ */

static void give(bench &b)
{
    b.data($) = 1;
    RL_ASSERT(bulkhead_leave(&b.b) == 0);
}

static void give_try(bench &b, unsigned me)
{
    if (me == 0) {
        give(b);
        return;
    }
    while (bulkhead_try_enter(&b.b) != 0) {
        rl::yield(1, $);
    }
    RL_ASSERT(b.data($) == 1);
    RL_ASSERT(bulkhead_leave(&b.b) == 0);
}

static void give_wait(bench &b, unsigned me)
{
    if (me == 0) {
        give(b);
        return;
    }
    RL_ASSERT(bulkhead_enter(&b.b) == 0);
    RL_ASSERT(b.data($) == 1);
    RL_ASSERT(bulkhead_leave(&b.b) == 0);
}

static void exclusion(bench &b, unsigned me)
{
    int error = me == 1 ? bulkhead_enter_for(&b.b, PLIM_US(100)) : bulkhead_enter(&b.b);
    RL_ASSERT(error == 0 || (me == 1 && error == ETIMEDOUT));
    if (error == 0) {
        visit(b);
        RL_ASSERT(bulkhead_leave(&b.b) == 0);
    }
}

/* ---- 2. The end of a job ---------------------------------------------------------------------- */

static int body(bulkhead_job *job)
{
    visit(*(bench *)job->arg);
    return 0;
}

static int execute_here(void *ctx, void (*run)(void *), void *arg)
{
    (void)ctx;
    run(arg);
    return 0;
}

/* Who finds the job done, with or without a wait, sees what it did. */
static void job_ends(bench &b, unsigned me)
{
    if (me == 0) {
        RL_ASSERT(bulkhead_submit(&b.b, &b.job) == 0);
        return;
    }
    while (bulkhead_wait(&b.job, rl::rand(2) == 0 ? 0 : PLIM_FOREVER) != 0) {
        rl::yield(1, $); /* it is not submitted, or not done */
    }
    RL_ASSERT(b.data($) == 1);
}

/* ---- All of them ------------------------------------------------------------------------------ */

static const scenario scenarios[] = {
    {"give_try", 2, 0, 0, 0, give_try, NULL},
    {"give_wait", 2, 0, 0, 0, give_wait, NULL},
    {"give_wait of 3, time passes", 3, 0, TIME, 0, give_wait, NULL},
    {"exclusion", 3, 1, TIME | TIMER_OF_1, 0, exclusion, visited},
    {"job_ends", 2, 1, JOBS, 0, job_ends, visited},
};

void bench::begin()
{
    const plim_executor executor = {execute_here, NULL};
    bulkhead_options options = bulkhead_options();
    if ((current->flags & JOBS) != 0) {
        options.type = BULKHEAD_ASYNC;
        options.executor = &executor;
    }
    RL_ASSERT(bulkhead_init(&b, &options) == 0);
    if (current->start == 0) {
        RL_ASSERT(bulkhead_enter(&b) == 0);
        plim_store_relaxed_(&b.last, 0); /* it was none of the threads that may wait for it */
    }
    memset((void *)&job, 0, sizeof job);
    job.run = body;
    job.arg = this;
    data($) = 0;
    visits = 0;
}

/* HELD is set and cleared by who has the lock. */
void bench::invariant()
{
    RL_ASSERT((b.gate.word.debug_value() & PLIM_HELD_) == 0 ||
              plim_available_(b.gate.lock.word.debug_value()) == 0);
}

void bench::end()
{
    RL_ASSERT((b.gate.word.debug_value() & (PLIM_HELD_ | PLIM_WATCHED_)) == 0);
    RL_ASSERT(plim_available_(b.gate.lock.word.debug_value()) == 1);
    RL_ASSERT(bulkhead_available_(b.gate.word.debug_value()) == 1);
}

static bool reached()
{
    return world::seen.slept[0] != 0 && world::seen.woken[0] != 0 && world::seen.timeouts != 0;
}

#ifndef RANDOM_ONLY /* there are too many steps for more than that */
#define RANDOM_ONLY
#endif
#include "search.h"
