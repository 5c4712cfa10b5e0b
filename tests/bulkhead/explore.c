/* SPDX-License-Identifier: MIT
 *
 * Scenarios for bulkhead.h. mutants.txt has the faults that they must find. Most are searched with
 * a bounded number of preemptions. A critical section has many steps at which other threads could
 * run, but those would only wait for the lock.
 */
#include <stddef.h>
#include <stdint.h>

__attribute__((noinline)) static void *world_memory(size_t size);
static int64_t world_idle(void);
#define PLIM_MALLOC(size) world_memory(size)
#define PLIM_FREE(memory) ((void)(memory))
#define BULKHEAD_IDLE_NS world_idle()
#define PLIM_PLATFORM "platform.h"
#define PLIM_SPIN 1 /* one look before sleeping: more of the same would only cost states */
#ifndef PLIM_HEADER
#define PLIM_HEADER "../../bulkhead.h"
#endif
#include PLIM_HEADER
#include "../../src/core/operations.h" /* threads tell each other something by counters */

#include <stdio.h>

enum { JOBS = 4 };

static struct world {
    bulkhead b;
    bulkhead_job job[JOBS];
    int submitted[JOBS];  /* 1 + what submit returned */
    int runs[JOBS], done; /* calls of run and done */
    int inside, limit;    /* bodies and callers, now and at most */
    int left;             /* threads that have not come to their end */
    int refused, told;    /* with EAGAIN, with EDEADLK */
    int sampled;          /* calls of a limiter */
    bool destroyed;
    bool queue_moves;   /* a submit may rely on a limit of a moment ago, and takes that back */
    int64_t idle_ns;    /* 0: workers stay for ever */
    plim_counter tasks; /* of an executor; or what threads tell each other */
    plim_counter answers;
    void (*run[4])(void *);
    void *arg[4];
    int tasks_in, tasks_out;
    plim_await_ await[2]; /* of coroutines, and whether they were resumed */
    plim_counter resumed[2];
    void *slot[EXPLORE_THREADS + 2];
    size_t used;
    PLIM_ALIGN8_ char memory[1024];
} world;

void *explore_thread_slot(void)
{
    return &world.slot[explore_thread_id()];
}

static int64_t world_idle(void)
{
    return world.idle_ns == 0 ? PLIM_FOREVER : world.idle_ns;
}

static void *world_memory(size_t size)
{
    void *at = &world.memory[world.used];
    if (size > sizeof world.memory - world.used) {
        explore_fail(__FILE__, __LINE__, "no memory");
        return NULL;
    }
    world.used += (size + 15) / 16 * 16;
    return at;
}

/* ---- what must hold for the word ---- */

const char *explore_bad_step(const uint64_t *word, uint64_t before, uint64_t after)
{
    const uint64_t owned = PLIM_HELD_ | PLIM_WATCHED_;
    if (word != &world.b.gate.word || world.b.fixed.name[0] == 0) {
        return NULL;
    }
    if ((before & BULKHEAD_CLOSED_) != 0 && (after & BULKHEAD_CLOSED_) == 0) {
        return "closed is for ever";
    }
    if ((before & owned) != 0 && world.b.gate.lock == 0) {
        return "while it is held or watched, only the holder of the lock changes the word";
    }
    if ((after & PLIM_HELD_) != 0) {
        return NULL;
    }
    if (bulkhead_available_(after) > (int64_t)world.b.permits) {
        return "more is given back than was taken";
    }
    if (bulkhead_available_(after) < bulkhead_available_(before) && (before & owned) == 0 &&
        bulkhead_available_(after) < 0) {
        return "nobody takes what is not there";
    }
    if (bulkhead_waiting_(after) > world.b.limit && !world.queue_moves) {
        return "more wait than may";
    }
    return NULL;
}

const char *explore_bad_rest(uint64_t word)
{
    bulkhead *b = &world.b;
    bulkhead_section_ s = {.word = word};
    if (world.destroyed) {
        return NULL;
    }
    if (b->gate.lock != 0 || (word & PLIM_HELD_) != 0) {
        return "everybody sleeps, and the lock is held";
    }
    const int64_t available = bulkhead_available_(word) + (int64_t)b->spare;
    if (b->queue.first != NULL && available > 0) {
        return "lost wake-up: a permit is free, and the first in the queue waits";
    }
    for (bulkhead_job *job = bulkhead_job_in_(b->inbox); job != NULL;) {
        if (available > 0 || job->entry_.phase == BULKHEAD_ADMITTED_) {
            return "lost wake-up: a job in the inbox could run";
        }
        job = job->entry_.node.next == NULL ? NULL : BULKHEAD_JOB_OF_(job->entry_.node.next);
    }
    if (b->ready != 0 && b->crew.parked.first != NULL) {
        return "lost wake-up: a job is ready, and a worker sleeps";
    }
    if (b->room.first != NULL && (bulkhead_has_room_(b, word) || b->stage != PLIM_OPEN_ ||
                                  (b->queue.first == NULL && bulkhead_available_(word) > 0))) {
        return "lost wake-up: there is room, and a submitter waits";
    }
    if (b->quiet.first != NULL && bulkhead_is_quiet_(b, &s)) {
        return "lost wake-up: nothing is left, and somebody waits for that";
    }
    return NULL;
}

void explore_print_word(const uint64_t *word, uint64_t value)
{
    if (word == &world.b.gate.word) {
        printf("word: available %d, queued %u%s%s%s", (int)bulkhead_available_(value),
               (unsigned)bulkhead_queued_(value), (value & BULKHEAD_CLOSED_) != 0 ? ", closed" : "",
               (value & PLIM_WATCHED_) != 0 ? ", watched" : "",
               (value & PLIM_HELD_) != 0 ? ", held" : "");
    } else if (word == &world.b.inbox) {
        printf("inbox: %s, summons %u", value > BULKHEAD_SUMMONS_ ? "jobs" : "empty",
               (unsigned)(value & BULKHEAD_SUMMONS_));
    } else if (word == &world.b.gate.lock) {
        printf("lock: %s", value != 0 ? "held" : "free");
    } else {
        printf("other: %llx", (unsigned long long)value);
    }
}

/* ---- pieces ---- */

static void made(int type, int32_t permits, int32_t queue, uint32_t flags)
{
    bulkhead_options options = {.type = type, .permits = permits, .queue = queue, .flags = flags};
    explore_check(bulkhead_init(&world.b, &options) == 0);
    world.limit = permits;
}

static void sync_1(void)
{
    made(BULKHEAD_SYNC, 1, 0, 0);
}

static void sync_1_queue_1(void)
{
    made(BULKHEAD_SYNC, 1, 1, 0);
}

static void unfair_1(void)
{
    made(BULKHEAD_SYNC, 1, 0, BULKHEAD_UNFAIR);
}

static void async_of(int32_t permits, int32_t queue, int threads)
{
    made(BULKHEAD_ASYNC, permits, queue, 0);
    world.left = threads;
}

static void async_1(void)
{
    async_of(1, 0, 2);
}

static void async_2(void)
{
    async_of(2, 0, 2);
}

static void hold(void)
{
    world.inside++;
    explore_check(world.inside <= world.limit);
    (void)explore_load(&world.b.permits); /* a step, at which others may run */
    world.inside--;
}

static void enter_and_leave(int64_t timeout_ns)
{
    int error = bulkhead_enter_for(&world.b, timeout_ns);
    explore_check(error == 0 || error == ESHUTDOWN || error == EAGAIN || error == ETIMEDOUT);
    explore_check(error != ETIMEDOUT || timeout_ns != PLIM_FOREVER);
    world.refused += error == EAGAIN;
    if (error == 0) {
        hold();
        explore_check(bulkhead_leave(&world.b) == 0);
    }
}

static void enter(void)
{
    enter_and_leave(PLIM_FOREVER);
}

static void enter_for_a_while(void)
{
    enter_and_leave(PLIM_US(100));
}

static int run_it(bulkhead_job *job)
{
    hold();
    world.runs[job - world.job]++;
    return 0;
}

/* If everything is being aborted when an attempt fails, there is no other. */
static int run_and_fail(bulkhead_job *job)
{
    explore_check(world.told == 0);
    run_it(job);
    world.told = world.b.stage >= PLIM_ABORTING_;
    return EIO;
}

static void count_done(bulkhead_job *job)
{
    (void)job;
    world.done++;
}

/* The last thread ends everything; then nobody may touch it. */
static void leave_the_scene(void)
{
    if (--world.left == 0) {
        explore_check(bulkhead_close(&world.b, BULKHEAD_DRAIN, PLIM_FOREVER) == 0);
        explore_check(world.b.crew.searching == 0 && world.b.starting == 0 && world.b.stuck == 0);
        explore_check(bulkhead_destroy(&world.b) == 0);
        world.destroyed = true;
        explore_free(&world.b, sizeof world.b);
    }
}

static int submit(int i, int64_t timeout_ns)
{
    world.job[i].run = world.job[i].run == NULL ? run_it : world.job[i].run;
    int error = bulkhead_submit_for(&world.b, &world.job[i], timeout_ns);
    world.submitted[i] = 1 + error;
    return error;
}

/* Waits for what was accepted, and looks whether its end fits. */
static bulkhead_outcome see_it_end(int i)
{
    bulkhead_job *job = &world.job[i];
    explore_check(bulkhead_wait(job, PLIM_FOREVER) == 0);
    explore_check(job->outcome != BULKHEAD_PENDING);
    explore_check(job->outcome != BULKHEAD_SUCCEEDED || world.runs[i] == 1);
    explore_check(job->outcome < BULKHEAD_EXPIRED || world.runs[i] == 0);
    return job->outcome;
}

static void submit_and_wait(int i)
{
    explore_check(submit(i, 0) == 0);
    explore_check(see_it_end(i) == BULKHEAD_SUCCEEDED);
}

static void job_0(void)
{
    submit_and_wait(0);
    leave_the_scene();
}

static void job_1(void)
{
    submit_and_wait(1);
    leave_the_scene();
}

static void enter_and_go(void)
{
    enter();
    leave_the_scene();
}

static void abort_it(void)
{
    explore_check(bulkhead_close(&world.b, BULKHEAD_ABORT, PLIM_FOREVER) == 0);
    explore_check(world.inside == 0 && world.b.crew.threads == 0);
    explore_check(world.submitted[0] != 1 || world.job[0].outcome != BULKHEAD_PENDING);
    leave_the_scene();
}

static void all_given_back(void)
{
    bulkhead *b = &world.b;
    explore_check(world.inside == 0);
    if (!world.destroyed) {
        explore_check(bulkhead_available_(b->gate.word) + (int64_t)b->spare == (int64_t)b->permits);
        explore_check(bulkhead_queued_(b->gate.word) == b->unreported && b->queue.first == NULL);
        explore_check((b->gate.word & PLIM_HELD_) == 0 && b->blocked.first == NULL);
        explore_check((b->gate.word & PLIM_WATCHED_) == 0 || b->stage != PLIM_OPEN_);
        explore_check(b->gate.lock == 0 && b->jobs == 0);
    }
}

#define SCENARIO(id, text, first, last, ...) \
    static const explore_scenario id = {.name = text, \
                                        .world = &world, \
                                        .world_size = sizeof world, \
                                        .words = {&world.b.gate.word}, \
                                        .setup = first, \
                                        .check = last, \
                                        __VA_ARGS__}
#define BODIES(...) .body = {__VA_ARGS__}

#include "explore_callers.c"
#include "explore_jobs.c"
#include "explore_inbox.c"
#include "explore_supervision.c"
#include "explore_later.c"
#include "explore_await.c"
#include "explore_blocked.c"
#include "explore_steps.c"

const explore_scenario *const explore_scenarios[] = {&two_on_one,
                                                     &all_time_out,
                                                     &exact_queue,
                                                     &unfair,
                                                     &resize_lets_in,
                                                     &resize_races,
                                                     &limiter_races,
                                                     &close_races,
                                                     &close_lets_go,
                                                     &close_unfair,
                                                     &last_touch,
                                                     &submit_races_finish,
                                                     &two_workers,
                                                     &reuse,
                                                     &job_and_caller,
                                                     &room,
                                                     &room_times_out,
                                                     &room_keeps_busy,
                                                     &room_after_a_caller,
                                                     &room_of_a_caller,
                                                     &two_waiters,
                                                     &wait_gives_up,
                                                     &quiet_and_callers,
                                                     &job_and_unfair_callers,
                                                     &two_fast_submits,
                                                     &fast_submits_of_two,
                                                     &fast_submit_and_caller,
                                                     &fast_is_exact,
                                                     &fast_submit_and_cancel,
                                                     &fast_submit_and_abort,
                                                     &fast_submit_and_drain,
                                                     &fast_submit_and_idle,
                                                     &fast_submit_and_growth,
                                                     &fast_submit_and_shrink,
                                                     &refused_exactly,
                                                     &free_when_it_has_ended,
                                                     &summoned_too_late,
                                                     &summoned_alone,
                                                     &needs_the_next,
                                                     &needs_a_late_one,
                                                     &detached_needs_next,
                                                     &detached_again,
                                                     &cancel_races,
                                                     &detached,
                                                     &idle_is_idle,
                                                     &close_races_submit,
                                                     &close_ends_jobs,
                                                     &drain_races_submit,
                                                     &drain_aborts,
                                                     &resize_hires,
                                                     &destroy_and_hire,
                                                     &no_threads,
                                                     &too_few_threads,
                                                     &call_times_out,
                                                     &call_races_close,
                                                     &retry_and_caller,
                                                     &retry_races_close,
                                                     &delayed_retry_races_close,
                                                     &timeout_races_end,
                                                     &timeout_is_heard,
                                                     &expiry_races_start,
                                                     &delay_wakes,
                                                     &nested,
                                                     &no_second_worker,
                                                     &executor,
                                                     &entry_left,
                                                     &entry_inherited,
                                                     &idle_leaves,
                                                     &chain_told,
                                                     &done_beside_body,
                                                     &given_up_or_cancelled,
                                                     &nudged_in_vain,
                                                     &one_given_up,
                                                     &both_given_up,
                                                     &waits_twice,
                                                     &waits_on,
                                                     &late_done,
                                                     &stop_waits,
                                                     &shrink_tells_a_wait,
                                                     &shrink_tells_an_enter,
                                                     &shrink_tells_a_call,
                                                     &shrink_ends_a_call,
                                                     &aborted_late,
                                                     &aborted_by_a_worker,
                                                     &late_beside_admitted,
                                                     &comes_in_a_section,
                                                     &two_after_a_done,
                                                     &idle_after_a_done,
                                                     &await_beside_enter,
                                                     &await_two,
                                                     &await_gives_up,
                                                     &await_unfair,
                                                     &await_races_close,
                                                     &await_makes_room,
                                                     &await_circle,
                                                     &await_circle_gives_up,
                                                     &await_job,
                                                     &await_job_gives_up,
                                                     &edges_end,
                                                     &three_after_a_done,
                                                     &comes_for_a_spare_one,
                                                     &left_and_short,
                                                     &stuck_and_short,
                                                     &late_after_another,
                                                     &waits_and_short,
                                                     &finish_races_return,
                                                     &finish_lets_in,
                                                     &later_two,
                                                     &finish_and_abort,
                                                     &finish_races_timeout,
                                                     &later_and_late,
                                                     &finish_detached,
                                                     &two_finish,
                                                     &finish_races_close,
                                                     &abort_tells_later,
                                                     &finish_each_attempt,
                                                     &cancel_and_finish,
                                                     &finish_sync,
                                                     &finish_on_executor,
                                                     &one_supervisor,
                                                     &retry_here_races_close,
                                                     &told_and_begun,
                                                     &nudged_and_deep,
                                                     NULL};
