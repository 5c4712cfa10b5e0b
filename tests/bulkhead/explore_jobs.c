/* SPDX-License-Identifier: MIT
 *
 * Scenarios of jobs: submit, wait, cancel, close, and workers that come and go.
 */

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

SCENARIO(job_and_caller, "a job and a caller share the permit", async_1, all_given_back,
         BODIES(job_0, enter_and_go), .spare = 1, .preemptions = 2);

static void async_unfair(void)
{
    made(BULKHEAD_ASYNC, 1, 0, BULKHEAD_UNFAIR);
    world.left = 3;
}

SCENARIO(job_and_unfair_callers, "a job and unfair callers share the permit", async_unfair,
         all_given_back, BODIES(job_0, enter_and_go, enter_and_go), .spare = 1, .preemptions = 2);

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

static void wait_until_idle(void)
{
    explore_check(bulkhead_wait_idle(&world.b, PLIM_FOREVER) == 0);
    leave_the_scene();
}

static void async_no_queue_3(void)
{
    async_no_queue();
    world.left = 3;
}

SCENARIO(room_keeps_busy, "a submitter that is about to give up is waited for", async_no_queue_3,
         all_given_back, BODIES(insist_0, insist_1_for_a_while, wait_until_idle), .spare = 1,
         .preemptions = 1);

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
    world.b.gate.beside = 0; /* for somebody else: it leaves on another thread */
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
        explore_check(bulkhead_wait(&world.job[0], 0) == 0); /* whatever the other one does */
    }
    leave_the_scene();
}

SCENARIO(two_waiters, "two wait for the same job", async_1, all_given_back, BODIES(job_0, wait_too),
         .spare = 1, .preemptions = 2);

static void submit_and_give_up(void)
{
    explore_check(submit(0, 0) == 0);
    int error = bulkhead_wait(&world.job[0], PLIM_US(100));
    explore_check(error == 0 || error == ETIMEDOUT);
    if (world.told == 0) {
        leave_the_scene();
    }
}

/* Ends the job; and then everything, if that thread waits, or gives up. */
static void cancel_and_end_all(void)
{
    const bool waits = world.job[0].waiters_ != NULL;
    if (world.submitted[0] == 1) {
        explore_check(bulkhead_cancel(&world.b, &world.job[0]) == 0);
    }
    explore_check(bulkhead_leave(&world.b) == 0);
    if (waits) {
        explore_free(&world.job[0], sizeof world.job[0]);
        world.told = 1;
        world.left = 1;
    }
    leave_the_scene();
}

static void async_taken(void)
{
    async_of(1, 0, 2);
    explore_check(bulkhead_enter(&world.b) == 0);
    world.b.gate.beside = 0; /* for somebody else: it leaves on another thread */
}

static void it_ended(void)
{
    explore_check(world.destroyed);
}

SCENARIO(wait_gives_up, "a wait gives up as the job ends", async_taken, it_ended,
         BODIES(submit_and_give_up, cancel_and_end_all), .spare = 1, .preemptions = 2);

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

SCENARIO(close_races_submit, "close races submit: every job that was accepted ends", async_1,
         all_given_back, BODIES(submit_0_or_not, abort_it), .spare = 1, .preemptions = 2);

/* The permit is given back only when the job has ended: so nothing but close can end it. */
static void async_1_taken(void)
{
    async_1();
    explore_check(bulkhead_enter(&world.b) == 0);
    world.b.gate.beside = 0; /* for somebody else: it leaves on another thread */
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

/* A call that gives up when its time is over, or is run; close may end it as well. */
static void async_1_hasty(void)
{
    bulkhead_options options = {.type = BULKHEAD_ASYNC, .permits = 1, .timeout_ns = PLIM_US(100)};
    explore_check(bulkhead_init(&world.b, &options) == 0);
    world.limit = 1;
    world.left = 2;
}

static int hold_and_count(void *arg)
{
    (void)arg;
    hold();
    world.runs[0]++;
    return 0;
}

static void call_in_time(void)
{
    int error = bulkhead_invoke(&world.b, hold_and_count, NULL, NULL);
    explore_check(error == 0 || error == ETIMEDOUT ||
                  (error == ESHUTDOWN && world.b.stage != PLIM_OPEN_));
    explore_check(world.runs[0] == (error == 0));
    leave_the_scene();
}

SCENARIO(call_times_out, "a call gives up, or is run", async_1_hasty, all_given_back,
         BODIES(call_in_time, enter_and_go), .spare = 1, .preemptions = 2);

SCENARIO(call_races_close, "a call gives up, is run, or is aborted", async_1_hasty, all_given_back,
         BODIES(call_in_time, abort_it), .spare = 1, .preemptions = 2);
