/* SPDX-License-Identifier: MIT
 *
 * Scenarios for bulkhead.h. What they must find is in tests/explore/mutants_bulkhead.txt.
 * Most are searched with a bounded number of preemptions: a critical section has many steps at
 * which others could run, to no effect but that they wait for the lock.
 */
#include <stddef.h>
#include <stdint.h>

__attribute__((noinline)) static void *world_memory(size_t size);
#define PLIM_MALLOC(size) world_memory(size)
#define PLIM_FREE(memory) ((void)(memory))
#define PLIM_PLATFORM "platform.h"
#define PLIM_SPIN 1 /* one look before sleeping: more of the same would only cost states */
#ifndef PLIM_HEADER
#define PLIM_HEADER "../../bulkhead.h"
#endif
#include PLIM_HEADER

#include <stdio.h>

enum { JOBS = 3 };

static struct world {
    bulkhead b;
    bulkhead_job job[JOBS];
    int submitted[JOBS];  /* 1 + what submit returned */
    int runs[JOBS], done; /* calls of run and done */
    int inside, limit;    /* bodies and callers, now and at most */
    int left;             /* threads that have not come to their end */
    int refused, told;    /* with EAGAIN, with EDEADLK */
    bool destroyed;
    plim_counter tasks; /* of an executor */
    void (*run[4])(void *);
    void *arg[4];
    int tasks_in, tasks_out;
    void *slot[EXPLORE_THREADS + 2];
    size_t used;
    PLIM_ALIGN8_ char memory[1024];
} world;

void *explore_thread_slot(void)
{
    return &world.slot[explore_thread_id()];
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
    if (word != &world.b.gate.word || world.b.name[0] == 0) {
        return NULL;
    }
    if ((before & BULKHEAD_CLOSED_) != 0 && (after & BULKHEAD_CLOSED_) == 0) {
        return "closed is for ever";
    }
    if ((before & owned) != 0 && plim_available_(world.b.gate.lock.word) != 0) {
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
    if (bulkhead_queued_(after) > world.b.limit) {
        return "more wait than may";
    }
    if (bulkhead_queued_(after) != 0 && (after & PLIM_WATCHED_) == 0) {
        return "somebody waits, and nobody watches";
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
    if (plim_available_(b->gate.lock.word) != 1 || (word & PLIM_HELD_) != 0) {
        return "everybody sleeps, and the lock is held";
    }
    if (b->queue.first != NULL && bulkhead_available_(word) > 0) {
        return "lost wake-up: a permit is free, and the first in the queue waits";
    }
    if (b->ready != 0 && b->parked.first != NULL) {
        return "lost wake-up: a job is ready, and a worker sleeps";
    }
    if (b->room.first != NULL && (bulkhead_has_room_(b, word) || b->closing ||
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
    } else if (word == &world.b.gate.lock.word) {
        printf("lock: available %d, waiters %u", (int)plim_available_(value),
               (unsigned)plim_waiters_(value));
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
    world.told = world.b.aborting;
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

static void all_given_back(void)
{
    bulkhead *b = &world.b;
    explore_check(world.inside == 0);
    if (!world.destroyed) {
        explore_check(bulkhead_available_(b->gate.word) == (int64_t)b->permits);
        explore_check(bulkhead_queued_(b->gate.word) == 0 && b->queue.first == NULL);
        explore_check((b->gate.word & PLIM_HELD_) == 0 && b->nestings.first == NULL);
        explore_check((b->gate.word & PLIM_WATCHED_) == 0 || b->closing);
        explore_check(plim_available_(b->gate.lock.word) == 1 && b->jobs == 0);
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

/* ---- callers ---- */

SCENARIO(two_on_one, "two callers, one permit", sync_1, all_given_back, BODIES(enter, enter),
         .preemptions = 5);

SCENARIO(all_time_out, "a leave races two timeouts", sync_1, all_given_back,
         BODIES(enter, enter_for_a_while, enter_for_a_while), .preemptions = 2);

/* Of three at most one is refused, and only while two are there. */
static void at_most_one_refused(void)
{
    explore_check(world.refused <= 1);
    all_given_back();
}

SCENARIO(exact_queue, "one runs, one waits, one is refused", sync_1_queue_1, at_most_one_refused,
         BODIES(enter, enter, enter), .preemptions = 3);

SCENARIO(unfair, "unfair callers, and one that gives up", unfair_1, all_given_back,
         BODIES(enter, enter, enter_for_a_while), .preemptions = 2);

static void sync_1_taken(void)
{
    sync_1();
    explore_check(bulkhead_enter(&world.b) == 0);
    world.b.last = 0; /* for somebody else: it leaves on another thread */
}

static void leave(void)
{
    explore_check(bulkhead_leave(&world.b) == 0);
}

static void enter_then_leave_both(void)
{
    world.limit = 2;
    enter();
    leave();
}

static void grow(void)
{
    explore_check(bulkhead_resize(&world.b, 2, 0) == 0);
}

SCENARIO(resize_lets_in, "more permits alone let the next in", sync_1_taken, all_given_back,
         BODIES(enter_then_leave_both, grow), .preemptions = 4);

static void grow_and_shrink(void)
{
    world.limit = 2;
    explore_check(bulkhead_resize(&world.b, 2, 0) == 0);
    explore_check(bulkhead_resize(&world.b, 1, 0) == 0);
}

SCENARIO(resize_races, "a resize races a leave", sync_1, all_given_back,
         BODIES(enter, enter, grow_and_shrink), .preemptions = 3);

static void shut(void)
{
    explore_check(bulkhead_close(&world.b, BULKHEAD_ABORT, PLIM_FOREVER) == 0);
    explore_check(bulkhead_try_enter(&world.b) == ESHUTDOWN);
    explore_check(world.inside == 0);
}

SCENARIO(close_races, "close sends away whoever waits, and waits for who is in", sync_1,
         all_given_back, BODIES(enter, enter_for_a_while, shut), .preemptions = 3);

static void sent_away_then_leave(void)
{
    explore_check(bulkhead_enter(&world.b) == ESHUTDOWN);
    leave();
}

SCENARIO(close_lets_go, "close alone lets go whoever waits", sync_1_taken, all_given_back,
         BODIES(sent_away_then_leave, shut), .preemptions = 4);

SCENARIO(close_unfair, "close and a caller that was nudged", unfair_1, all_given_back,
         BODIES(enter, enter, shut), .preemptions = 3);

static void destroy_when_idle(void)
{
    explore_check(bulkhead_wait_idle(&world.b, PLIM_FOREVER) == 0);
    explore_check(bulkhead_destroy(&world.b) == 0);
    world.destroyed = true;
    explore_free(&world.b, sizeof world.b);
}

SCENARIO(last_touch, "a leave does not touch what it let go", sync_1_taken, all_given_back,
         BODIES(leave, destroy_when_idle), .preemptions = 4);

/* ---- jobs ---- */

static void async_1(void)
{
    async_of(1, 0, 2);
}

static void async_2(void)
{
    async_of(2, 0, 2);
}

SCENARIO(submit_races_finish, "a submit races the end of a job: none is stranded", async_1,
         all_given_back, BODIES(job_0, job_1), .spare = 2, .preemptions = 2);

SCENARIO(two_workers, "two jobs, two workers, and the end", async_2, all_given_back,
         BODIES(job_0, job_1), .spare = 2, .preemptions = 1);

static void one_after_the_other(void)
{
    submit_and_wait(0);
    world.runs[0] = 0;
    submit_and_wait(0);
    leave_the_scene();
}

static void async_alone(void)
{
    async_of(1, 0, 1);
}

SCENARIO(reuse, "a job is submitted again when it is done", async_alone, all_given_back,
         BODIES(one_after_the_other), .spare = 1, .preemptions = 4);

static void enter_and_go(void)
{
    enter();
    leave_the_scene();
}

SCENARIO(job_and_caller, "a job and a caller share the permit", async_1, all_given_back,
         BODIES(job_0, enter_and_go), .spare = 1, .preemptions = 2);

static void async_no_queue(void)
{
    async_of(1, PLIM_NONE, 2);
}

static void insist(int i, int64_t timeout_ns)
{
    int error = submit(i, timeout_ns);
    explore_check(error == 0 || (error == ETIMEDOUT && timeout_ns != PLIM_FOREVER));
    if (error == 0) {
        explore_check(see_it_end(i) == BULKHEAD_SUCCEEDED);
    }
    leave_the_scene();
}

static void insist_0(void)
{
    insist(0, PLIM_FOREVER);
}

static void insist_1(void)
{
    insist(1, PLIM_FOREVER);
}

static void insist_1_for_a_while(void)
{
    insist(1, PLIM_US(100));
}

SCENARIO(room, "submitters wait for room, and get it", async_no_queue, all_given_back,
         BODIES(insist_0, insist_1), .spare = 1, .preemptions = 2);

SCENARIO(room_times_out, "a submitter that gives up races the room", async_no_queue, all_given_back,
         BODIES(insist_0, insist_1_for_a_while), .spare = 1, .preemptions = 2);

/* Only a caller holds the permit that the submitter waits for. */
SCENARIO(room_after_a_caller, "a leave lets a submitter in", async_no_queue, all_given_back,
         BODIES(enter_and_go, insist_1), .spare = 1, .preemptions = 2);

/* The place is taken by a caller that gives up, and nothing else happens before it does. */
static void async_queue_1_taken(void)
{
    async_of(1, 1, 2);
    explore_check(bulkhead_enter(&world.b) == 0);
    world.b.last = 0; /* for somebody else: it leaves on another thread */
}

static void enter_for_a_while_and_go(void)
{
    enter_for_a_while();
    leave_the_scene();
}

static void submit_then_leave(void)
{
    explore_check(submit(1, PLIM_FOREVER) == 0);
    explore_check(bulkhead_leave(&world.b) == 0);
    explore_check(see_it_end(1) == BULKHEAD_SUCCEEDED);
    leave_the_scene();
}

SCENARIO(room_of_a_caller, "a caller that gives up makes room for a submitter", async_queue_1_taken,
         all_given_back, BODIES(enter_for_a_while_and_go, submit_then_leave), .spare = 1,
         .preemptions = 2);

static void wait_too(void)
{
    if (world.submitted[0] == 1) {
        see_it_end(0);
    }
    leave_the_scene();
}

SCENARIO(two_waiters, "two wait for the same job", async_1, all_given_back, BODIES(job_0, wait_too),
         .spare = 1, .preemptions = 2);

static void submit_and_see(void)
{
    world.job[0].done = count_done;
    explore_check(submit(0, 0) == 0);
    bulkhead_outcome outcome = see_it_end(0);
    explore_check(outcome == BULKHEAD_SUCCEEDED || outcome == BULKHEAD_CANCELLED);
    explore_check(world.done == 1);
    leave_the_scene();
}

/* The job's memory is not gone: both look at it until the end. */
static void cancel_it(void)
{
    if (world.submitted[0] == 1) {
        int error = bulkhead_cancel(&world.b, &world.job[0]);
        explore_check(error == 0 || error == EBUSY || error == EALREADY);
        if (error == 0) {
            explore_check(bulkhead_wait(&world.job[0], PLIM_FOREVER) == 0);
            explore_check(world.job[0].outcome == BULKHEAD_CANCELLED);
        }
    }
    leave_the_scene();
}

SCENARIO(cancel_races, "a cancel races the start", async_1, all_given_back,
         BODIES(submit_and_see, cancel_it), .spare = 1, .preemptions = 2);

/* Detached: done is the last touch. */
static void done_is_the_end(bulkhead_job *job)
{
    world.done++;
    explore_free(job, sizeof *job);
}

static void submit_and_forget(void)
{
    world.job[0].detached = true;
    world.job[0].done = done_is_the_end;
    explore_check(submit(0, 0) == 0);
    leave_the_scene();
}

static void it_was_done(void)
{
    explore_check(world.done == 1 && world.runs[0] == 1);
    all_given_back();
}

SCENARIO(detached, "nobody touches a detached job after its done", async_alone, it_was_done,
         BODIES(submit_and_forget), .spare = 1, .preemptions = 4);

/* When idle, the memory of all jobs is the caller's, even if nobody waited for them. */
static void idle_then_free(void)
{
    explore_check(submit(0, 0) == 0);
    explore_check(bulkhead_wait_idle(&world.b, PLIM_FOREVER) == 0);
    explore_check(world.runs[0] == 1);
    explore_free(&world.job[0], sizeof world.job[0]);
    leave_the_scene();
}

SCENARIO(idle_is_idle, "wait_idle returns when nobody has to do with a job any more", async_alone,
         all_given_back, BODIES(idle_then_free), .spare = 1, .preemptions = 4);

static void submit_or_not(int i)
{
    int error = submit(i, 0);
    explore_check(error == 0 || error == ESHUTDOWN);
    if (error == 0) {
        bulkhead_outcome outcome = see_it_end(i);
        explore_check(outcome == BULKHEAD_SUCCEEDED || outcome == BULKHEAD_ABORTED);
    }
    leave_the_scene();
}

static void submit_0_or_not(void)
{
    submit_or_not(0);
}

static void abort_it(void)
{
    explore_check(bulkhead_close(&world.b, BULKHEAD_ABORT, PLIM_FOREVER) == 0);
    explore_check(world.inside == 0 && world.b.threads == 0);
    explore_check(world.submitted[0] != 1 || world.job[0].outcome != BULKHEAD_PENDING);
    leave_the_scene();
}

SCENARIO(close_races_submit, "close races submit: every job that was accepted ends", async_1,
         all_given_back, BODIES(submit_0_or_not, abort_it), .spare = 1, .preemptions = 2);

/* The permit is given back only when the job has ended: so nothing but close can end it. */
static void async_1_taken(void)
{
    async_1();
    explore_check(bulkhead_enter(&world.b) == 0);
    world.b.last = 0; /* for somebody else: it leaves on another thread */
}

static void aborted_then_leave(void)
{
    int error = submit(0, 0);
    explore_check(error == 0 || error == ESHUTDOWN);
    explore_check(error != 0 || see_it_end(0) == BULKHEAD_ABORTED);
    explore_check(bulkhead_leave(&world.b) == 0);
    leave_the_scene();
}

SCENARIO(close_ends_jobs, "close alone ends the jobs that wait", async_1_taken, all_given_back,
         BODIES(aborted_then_leave, abort_it), .spare = 1, .preemptions = 2);

static void drain_it(void)
{
    explore_check(bulkhead_close(&world.b, BULKHEAD_DRAIN, PLIM_FOREVER) == 0);
    explore_check(world.submitted[0] != 1 || world.job[0].outcome == BULKHEAD_SUCCEEDED);
    leave_the_scene();
}

SCENARIO(drain_races_submit, "a drain runs what was accepted", async_1, all_given_back,
         BODIES(submit_0_or_not, drain_it), .spare = 1, .preemptions = 2);

static void drain_for_a_while(void)
{
    int error = bulkhead_close(&world.b, BULKHEAD_DRAIN, PLIM_US(100));
    explore_check(error == 0 || error == ETIMEDOUT);
    leave_the_scene();
}

SCENARIO(drain_aborts, "a drain whose time is over sends away what waits", async_1, all_given_back,
         BODIES(submit_0_or_not, drain_for_a_while), .spare = 1, .preemptions = 2);

static void grow_jobs(void)
{
    world.limit = 2;
    explore_check(bulkhead_resize(&world.b, 2, 0) == 0);
    leave_the_scene();
}

static void async_grows(void)
{
    async_of(1, 0, 3);
}

SCENARIO(resize_hires, "more permits get more workers", async_grows, all_given_back,
         BODIES(job_0, job_1, grow_jobs), .spare = 2, .preemptions = 1);

/* The submitter may still be about to learn of the thread whose job has ended. Whoever of the two
 * comes last ends everything, or the other as soon as the job was run. */
static void submit_in_passing(void)
{
    explore_check(submit(0, 0) == 0);
    if (world.told != 0) {
        leave_the_scene();
    }
    world.refused = 1;
}

static void destroy_when_it_ran(void)
{
    if (world.runs[0] == 1 || world.refused == 1) {
        leave_the_scene();
    } else {
        world.told = 1;
    }
}

SCENARIO(destroy_and_hire, "close waits for a worker that is being created", async_alone,
         all_given_back, BODIES(submit_in_passing, destroy_when_it_ran), .spare = 1,
         .preemptions = 3);

static void submit_if_possible(int i)
{
    int error = submit(i, 0);
    explore_check(error == 0 || error == EAGAIN);
    if (error == 0) {
        bulkhead_outcome outcome = see_it_end(i);
        explore_check(outcome == BULKHEAD_SUCCEEDED || outcome == BULKHEAD_ABORTED);
    }
    leave_the_scene();
}

static void job_0_if_possible(void)
{
    submit_if_possible(0);
}

static void job_1_if_possible(void)
{
    submit_if_possible(1);
}

SCENARIO(no_threads, "without a thread a job is refused, and nothing is left", async_2,
         all_given_back, BODIES(job_0_if_possible, job_1_if_possible), .preemptions = 3);

SCENARIO(too_few_threads, "with one thread for two jobs, both end or are refused", async_2,
         all_given_back, BODIES(job_0_if_possible, job_1_if_possible), .spare = 1,
         .preemptions = 2);

/* ---- supervision ---- */

static void retries(int64_t delay_ns)
{
    bulkhead_options options = {.type = BULKHEAD_ASYNC, .attempts = 2};
    options.retry_delay_ns = delay_ns;
    explore_check(bulkhead_init(&world.b, &options) == 0);
    world.limit = 1;
    world.left = 2;
}

static void retry_at_once(void)
{
    retries(0);
}

static void retry_later(void)
{
    retries(PLIM_US(10));
}

static void fail_twice(void)
{
    world.job[0].run = run_and_fail;
    int error = submit(0, 0);
    explore_check(error == 0 || error == ESHUTDOWN);
    if (error == 0) {
        explore_check(bulkhead_wait(&world.job[0], PLIM_FOREVER) == 0);
        bulkhead_outcome outcome = world.job[0].outcome;
        explore_check(outcome == BULKHEAD_FAILED || outcome == BULKHEAD_ABORTED);
        explore_check(world.runs[0] == (int)world.job[0].attempt && world.runs[0] <= 2);
    }
    leave_the_scene();
}

SCENARIO(retry_and_caller, "a retried job frees its permit, and comes back", retry_at_once,
         all_given_back, BODIES(fail_twice, enter_and_go), .spare = 1, .preemptions = 2);

SCENARIO(retry_races_close, "a retry races close", retry_at_once, all_given_back,
         BODIES(fail_twice, abort_it), .spare = 1, .preemptions = 2);

SCENARIO(delayed_retry_races_close, "a retry after a delay races close", retry_later,
         all_given_back, BODIES(fail_twice, abort_it), .spare = 2, .preemptions = 1);

static void submit_timed(void)
{
    explore_check(submit(0, 0) == 0);
    bulkhead_outcome outcome = see_it_end(0);
    explore_check(outcome == BULKHEAD_SUCCEEDED || outcome == BULKHEAD_TIMED_OUT ||
                  outcome == BULKHEAD_EXPIRED);
    explore_check(bulkhead_reclaim(&world.job[0], PLIM_FOREVER) == 0);
    explore_check(world.runs[0] == (outcome != BULKHEAD_EXPIRED));
    explore_free(&world.job[0], sizeof world.job[0]);
    leave_the_scene();
}

static void run_timeout(void)
{
    async_of(1, 0, 1);
    world.job[0].run_timeout_ns = PLIM_US(10);
}

SCENARIO(timeout_races_end, "a run timeout races the end of the body", run_timeout, all_given_back,
         BODIES(submit_timed), .spare = 3, .preemptions = 2);

static void start_within(void)
{
    async_of(1, 0, 1);
    world.job[0].start_within_ns = PLIM_US(10);
}

SCENARIO(expiry_races_start, "an expiry races the start", start_within, all_given_back,
         BODIES(submit_timed), .spare = 2, .preemptions = 2);

static void delayed(void)
{
    async_of(1, 0, 1);
    world.job[0].delay_ns = PLIM_US(10);
}

static void submit_delayed(void)
{
    int64_t began = plim_now_();
    submit_and_wait(0);
    explore_check(plim_now_() - began >= PLIM_US(10));
    leave_the_scene();
}

SCENARIO(delay_wakes, "a delayed job wakes a worker when it is due", delayed, all_given_back,
         BODIES(submit_delayed), .spare = 2, .preemptions = 2);

/* ---- nesting ---- */

static int nothing_to_do(void *arg)
{
    (void)arg;
    return 0;
}

static int nest(bulkhead_job *job)
{
    int error = bulkhead_invoke(&world.b, nothing_to_do, NULL, NULL);
    explore_check(error == 0 || error == EDEADLK);
    world.told += error == EDEADLK;
    world.runs[job - world.job]++;
    return 0;
}

static void nest_0(void)
{
    world.job[0].run = nest;
    job_0();
}

static void nest_1(void)
{
    world.job[1].run = nest;
    job_1();
}

static void one_told(void)
{
    explore_check(world.told <= 1);
    all_given_back();
}

SCENARIO(nested, "of two jobs that wait for their own bulkhead one is told", async_2, one_told,
         BODIES(nest_0, nest_1), .spare = 2, .preemptions = 1);

/* ---- an executor ---- */

static int stand_in_line(void *ctx, void (*run)(void *), void *arg)
{
    (void)ctx;
    if (world.tasks_in == 3) {
        return EBUSY;
    }
    world.run[world.tasks_in] = run;
    world.arg[world.tasks_in++] = arg;
    plim_release_(&world.tasks, 1);
    return 0;
}

static void executor_1(void)
{
    static const plim_executor executor = {stand_in_line, NULL};
    bulkhead_options options = {.type = BULKHEAD_ASYNC, .executor = &executor};
    explore_check(bulkhead_init(&world.b, &options) == 0);
    plim_init_(&world.tasks, 0);
    world.limit = 1;
    world.left = 2;
}

static void run_two_tasks(void)
{
    for (int i = 0; i < 2; i++) {
        explore_check(plim_acquire_(&world.tasks, PLIM_WAITERS_MAX, PLIM_FOREVER) == 0);
        int next = world.tasks_out++;
        world.run[next](world.arg[next]);
    }
}

SCENARIO(executor, "an executor runs two jobs, one at a time", executor_1, all_given_back,
         BODIES(job_0, job_1, run_two_tasks), .preemptions = 2);

const explore_scenario *const explore_scenarios[] = {&two_on_one,
                                                     &all_time_out,
                                                     &exact_queue,
                                                     &unfair,
                                                     &resize_lets_in,
                                                     &resize_races,
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
                                                     &room_after_a_caller,
                                                     &room_of_a_caller,
                                                     &two_waiters,
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
                                                     &retry_and_caller,
                                                     &retry_races_close,
                                                     &delayed_retry_races_close,
                                                     &timeout_races_end,
                                                     &expiry_races_start,
                                                     &delay_wakes,
                                                     &nested,
                                                     &executor,
                                                     NULL};
