/* SPDX-License-Identifier: MIT
 *
 * bulkhead.h, as it ships, under the Relacy Race Detector: its fast way through the gate, the way of
 * a job through the inbox to a worker, and its end. test_gate.cc has the gate itself. search.h says
 * how to run it.
 *
 * Relacy's threads are all there from the start, so no bulkhead creates one. Where a scenario needs
 * workers or a supervisor, its first threads run the very functions that those threads would run,
 * from their begin to their end; begin() notes them as a submit that hires would.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <threads.h>
#include <time.h>

#include <relacy/relacy.hpp> /* makes EAGAIN and others its own, for the header and us alike */

#define PLIM_PLATFORM "platform.h"
#define PLIM_SPIN looks_first
static int looks_first; /* before a thread sleeps */
#define PLIM_ASSERT(condition, message) RL_ASSERT((condition) && (message))
#ifndef HEADER
#define HEADER "../../bulkhead.h"
#endif
#include HEADER

/* ---- What a scenario has to play with ------------------------------------------------------- */

struct bench {
    bulkhead b, other; /* the other one is sync */
    bulkhead_job job, jobs[4];
    bulkhead_worker_ crew[2];
    rl::var<int> data;   /* plain memory: every access must be ordered */
    rl::var<int> own[4]; /* likewise, one for each of the jobs */
    /* The checker's own, not watched. */
    int visits;
    unsigned outside; /* threads that are not the bulkhead's, and have not ended */
    bool lingers, left;

    void begin();
    void invariant();
    void end();
};

#include "scenario.h"

/* There is one permit, and `start` of a scenario says whether it is free. */
enum {
    JOBS = OWN,            /* the bulkhead has an executor, and the job is not yet submitted */
    WORKER = OWN << 1,     /* it has own workers: thread 0 is one, */
    WORKER_TOO = OWN << 2, /* and thread 1, too; */
    SUPERVISOR = OWN << 3, /* or that is the supervisor, and jobs have a run timeout */
    TWO = OWN << 4,        /* there are two permits, and `start` says how many are free */
    CREW = WORKER | WORKER_TOO | SUPERVISOR
};

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

/* ---- 3. Jobs on own workers ------------------------------------------------------------------- */

/* The threads that are the bulkhead's own. */
static bool serves(bench &b, unsigned me)
{
    if (me == 0 || (me == 1 && (current->flags & WORKER_TOO) != 0)) {
        bulkhead_thread_(&b.crew[me]);
        return true;
    }
    if (me == 1 && (current->flags & SUPERVISOR) != 0) {
        bulkhead_supervisor_(&b.b);
        return true;
    }
    return false;
}

/* How many jobs came by the inbox, came under the lock, ran on after their time: over all executions. */
static unsigned long mailed, handed, late;

/* The last of the others closes the bulkhead. That ends those. */
static void leaves(bench &b)
{
    if (--b.outside == 0) {
        RL_ASSERT(bulkhead_close(&b.b, BULKHEAD_DRAIN, PLIM_FOREVER) == 0);
    }
}

/* A job sees what was written before its submit; and what those wrote who had the permit before it,
 * if there is one. */
static int relay(bulkhead_job *job)
{
    bench &b = *(bench *)job->arg;
    rl::var<int> &own = b.own[job - b.jobs];
    RL_ASSERT(own($) == 1);
    own($) = 2;
    if ((current->flags & WORKER_TOO) == 0) {
        visit(b);
    }
    return 0;
}

static void send(bench &b, unsigned me)
{
    b.own[me]($) = 1;
    RL_ASSERT(bulkhead_submit(&b.b, &b.jobs[me]) == 0);
}

/* Whoever finds a job done sees what it did: asleep, or by looking. */
static void receive(bench &b, unsigned me)
{
    if (rl::rand(2) == 0) {
        RL_ASSERT(bulkhead_wait(&b.jobs[me], PLIM_FOREVER) == 0);
    } else {
        while (bulkhead_wait(&b.jobs[me], 0) != 0) {
            rl::yield(1, $);
        }
    }
    RL_ASSERT(b.own[me]($) == 2);
    (bulkhead_number_(&b.jobs[me]) == 0 ? mailed : handed)++;
}

static void job_runs(bench &b, unsigned me)
{
    if (!serves(b, me)) {
        send(b, me);
        receive(b, me);
        leaves(b);
    }
}

/* One thread sends two, so the second finds its worker at work, or just done. */
static void jobs_run(bench &b, unsigned me)
{
    if (!serves(b, me)) {
        send(b, me);
        send(b, 3);
        receive(b, 3);
        receive(b, me);
        leaves(b);
    }
}

/* The permit goes from whoever leaves to a job. */
static void leave_runs(bench &b, unsigned me)
{
    if (me == 1) {
        visit(b);
        RL_ASSERT(bulkhead_leave(&b.b) == 0);
        leaves(b);
    } else {
        job_runs(b, me);
    }
}

/* The same while the worker runs another job, from before the leave until after it. So the worker
 * finds the job in the inbox on its way from one to the next, and has seen nothing of the leave. */
static int linger(bulkhead_job *job)
{
    bench &b = *(bench *)job->arg;
    b.lingers = true;
    while (!b.left) {
        rl::yield(1, $);
    }
    for (unsigned more = rl::rand(16); more != 0; more--) {
        rl::yield(1, $);
    }
    return 0;
}

static void leave_follows(bench &b, unsigned me)
{
    if (serves(b, me)) {
        return;
    }
    if (me == 2) {
        b.job.run = linger;
        RL_ASSERT(bulkhead_submit(&b.b, &b.job) == 0);
    }
    while (!b.lingers) {
        rl::yield(1, $);
    }
    if (me == 1) {
        visit(b);
        RL_ASSERT(bulkhead_leave(&b.b) == 0);
        b.left = true;
    } else {
        send(b, me);
        receive(b, me);
        RL_ASSERT(bulkhead_wait(&b.job, PLIM_FOREVER) == 0);
    }
    leaves(b);
}

/* The permit goes from a job to a caller, or from the caller to the job. */
static void job_enters(bench &b, unsigned me)
{
    if (me == 1) {
        if (rl::rand(2) == 0) {
            RL_ASSERT(bulkhead_enter(&b.b) == 0);
        } else {
            while (bulkhead_try_enter(&b.b) != 0) {
                rl::yield(1, $);
            }
        }
        visit(b);
        RL_ASSERT(bulkhead_leave(&b.b) == 0);
        leaves(b);
    } else {
        job_runs(b, me);
    }
}

/* Whoever knows that a job is done is not refused for want of its permit. */
static void job_frees(bench &b, unsigned me)
{
    if (!serves(b, me)) {
        RL_ASSERT(bulkhead_submit(&b.b, &b.job) == 0);
        while (bulkhead_wait(&b.job, 0) != 0) {
            rl::yield(1, $);
        }
        for (unsigned i = rl::rand(2) * 16; i > 0; i--) { /* perhaps the worker sleeps by then */
            rl::yield(1, $);
        }
        RL_ASSERT(bulkhead_try_enter(&b.b) == 0);
        RL_ASSERT(bulkhead_leave(&b.b) == 0);
        leaves(b);
    }
}

/* Whoever can submit a job again knows that it was done: even elsewhere, with another permit. */
static void job_moves(bench &b, unsigned me)
{
    if (!serves(b, me)) {
        RL_ASSERT(bulkhead_submit(&b.b, &b.job) == 0);
        int error;
        while ((error = bulkhead_submit(&b.other, &b.job)) == EBUSY) {
            rl::yield(1, $);
        }
        RL_ASSERT(error == 0 && b.data($) == 2);
        leaves(b);
    }
}

/* The body may run on when its time is over. Whoever has reclaimed the job knows that it does not. */
static int slow_call(void *arg)
{
    bench &b = *(bench *)arg;
    const bool lasts = rl::rand(2) == 0;
    while (lasts && b.crew[0].stay.job->entry_.phase.debug_value() != BULKHEAD_OVERDUE_) {
        rl::yield(1, $);
    }
    visit(b);
    return 0;
}

static int slow_body(bulkhead_job *job)
{
    return slow_call(job->arg);
}

static void job_is_late(bench &b, unsigned me)
{
    if (!serves(b, me)) {
        b.job.run = slow_body;
        RL_ASSERT(bulkhead_submit(&b.b, &b.job) == 0);
        while (b.job.entry_.phase.debug_value() < BULKHEAD_OVERDUE_) {
            rl::yield(1, $); /* the first look comes when there is something to see */
        }
        while (bulkhead_reclaim(&b.job, rl::rand(2) == 0 ? 0 : PLIM_FOREVER) != 0) {
            rl::yield(1, $); /* it is not done, or runs on */
        }
        RL_ASSERT(b.data($) == 1);
        late += b.job.outcome == BULKHEAD_TIMED_OUT;
        leaves(b);
    }
}

static void call_is_late(bench &b, unsigned me)
{
    if (!serves(b, me)) {
        int error = bulkhead_invoke(&b.b, slow_call, &b, NULL);
        RL_ASSERT(error == 0 || error == ETIMEDOUT);
        visited(b);
        leaves(b);
    }
}

/* ---- All of them ------------------------------------------------------------------------------ */

static const scenario scenarios[] = {
    {"give_try", 2, 0, 0, 0, give_try, NULL},
    {"give_wait", 2, 0, 0, 0, give_wait, NULL},
    {"give_wait of 3, time passes", 3, 0, TIME, 0, give_wait, NULL},
    {"exclusion", 3, 1, TIME | TIMER_OF_1, 0, exclusion, visited},
    {"job_ends", 2, 1, JOBS, 0, job_ends, visited},
    {"job_runs", 2, 1, WORKER, 0, job_runs, visited},
    {"job_runs, two submit", 3, 1, WORKER, 0, job_runs, visited},
    {"jobs_run", 2, 1, WORKER, 0, jobs_run, visited},
    {"jobs_run, two workers", 3, 2, WORKER | WORKER_TOO | TWO, 0, jobs_run, visited},
    {"leave_runs", 3, 0, WORKER, 0, leave_runs, visited},
    {"leave_runs, two submit", 4, 0, WORKER, 0, leave_runs, visited},
    {"leave_follows", 3, 1, WORKER | TWO, 0, leave_follows, visited},
    {"job_enters", 3, 1, WORKER, 0, job_enters, visited},
    {"job_frees", 2, 1, WORKER, 0, job_frees, NULL},
    {"job_moves", 2, 1, WORKER, 0, job_moves, visited},
    {"job_is_late", 3, 1, WORKER | SUPERVISOR | TIMER_OF_1, 0, job_is_late, visited},
    {"call_is_late", 3, 1, WORKER | SUPERVISOR | TIMER_OF_1, 0, call_is_late, visited},
};

static void prepare(bench &b, bulkhead_job *job, int (*run)(bulkhead_job *))
{
    memset((void *)job, 0, sizeof *job);
    job->run = run;
    job->arg = &b;
}

/* Workers that were just hired, and a supervisor that was just created, if there are any. */
static void staff(bench &b)
{
    const bool served[] = {true, (current->flags & WORKER_TOO) != 0,
                           (current->flags & SUPERVISOR) != 0};
    bulkhead_section_ s = bulkhead_lock_(&b.b);
    for (unsigned i = 0; i < 2 && served[i]; i++) {
        bulkhead_worker_init_(&b.crew[i], &b.b);
        b.crew[i].member.parted = false;
        b.crew[i].index = b.b.indices++;
        b.crew[i].next = b.b.workers;
        b.b.workers = &b.crew[i];
        b.b.crew.threads++;
        b.b.starting++;
    }
    plim_store_relaxed_(&b.b.watch.made, served[2] ? BULKHEAD_MADE_ : BULKHEAD_NOT_MADE_);
    bulkhead_unlock_(&b.b, &s);
    b.outside = current->threads - served[0] - served[1] - served[2];
}

void bench::begin()
{
    const plim_executor executor = {execute_here, NULL};
    bulkhead_options options = bulkhead_options();
    looks_first = (current->flags & SUPERVISOR) != 0 ? 100 : 1;
    RL_ASSERT(bulkhead_init(&other, &options) == 0);
    options.permits = (current->flags & TWO) != 0 ? 2 : 1;
    if ((current->flags & (JOBS | CREW)) != 0) {
        options.type = BULKHEAD_ASYNC;
        options.executor = (current->flags & JOBS) != 0 ? &executor : NULL;
        options.run_timeout_ns = (current->flags & SUPERVISOR) != 0 ? PLIM_US(10) : 0;
    }
    RL_ASSERT(bulkhead_init(&b, &options) == 0);
    if ((current->flags & CREW) != 0) {
        staff(*this);
    }
    if (current->start < (uint32_t)options.permits) {
        RL_ASSERT(bulkhead_enter(&b) == 0);
        /* it was none of the threads that may wait for it */
        plim_store_relaxed_(&b.gate.beside, 0);
    }
    prepare(*this, &job, body);
    for (unsigned i = 0; i < 4; i++) {
        prepare(*this, &jobs[i], relay);
    }
    data($) = 0;
    visits = 0;
    lingers = left = false;
}

/* HELD is set and cleared by who has the lock. */
void bench::invariant()
{
    RL_ASSERT((b.gate.word.debug_value() & PLIM_HELD_) == 0 || b.gate.lock.debug_value() != 0);
}

/* With own workers, it is closed by now, and so stays WATCHED. */
void bench::end()
{
    const uint64_t word = b.gate.word.debug_value();
    const bool crewed = (current->flags & CREW) != 0;
    RL_ASSERT((word & (PLIM_HELD_ | BULKHEAD_STAFFED_)) == 0);
    RL_ASSERT((word & PLIM_WATCHED_) == (crewed ? PLIM_WATCHED_ : 0));
    RL_ASSERT(b.gate.lock.debug_value() == 0);
    RL_ASSERT(bulkhead_available_(word) == (int64_t)b.permits.debug_value());
    RL_ASSERT(bulkhead_queued_(word) == 0 && b.spare == 0 && b.unreported == 0);
    RL_ASSERT(b.inbox.debug_value() <= BULKHEAD_SUMMONS_);
    RL_ASSERT(b.jobs == 0 && b.busy == 0 && b.crew.threads == 0 && b.crew.searching == 0);
    for (bulkhead_worker_ *next, *at = b.workers; at != NULL; at = next) {
        next = at->next;
        if (at != &crew[0] && at != &crew[1]) { /* it was to stand in, and could not be created */
            PLIM_FREE(at);
        }
    }
}

static bool reached()
{
    return world::seen.slept[1] != 0 && world::seen.woken[1] != 0 && world::seen.timeouts != 0 &&
           mailed != 0 && handed != 0 && late != 0;
}

#ifndef RANDOM_ONLY /* there are too many steps for more than that */
#define RANDOM_ONLY
#endif
#include "search.h"
