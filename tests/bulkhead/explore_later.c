/* SPDX-License-Identifier: MIT
 *
 * Scenarios of jobs that go on without a thread, and are finished by another one.
 */

/* A thread that waits for the task may finish it from here on, before this returns or after. */
static int begin_later(bulkhead_job *job)
{
    world.runs[job - world.job]++;
    world.inside++;
    explore_check(world.inside <= world.limit);
    plim_release_(&world.tasks, 1);
    return BULKHEAD_LATER;
}

static void later_of(const bulkhead_options *options, int threads)
{
    explore_check(bulkhead_init(&world.b, options) == 0);
    plim_init_(&world.tasks, 0);
    world.job[0].run = begin_later;
    world.limit = 1;
    world.left = threads;
}

static void later_2(void)
{
    bulkhead_options options = {.type = BULKHEAD_ASYNC};
    later_of(&options, 2);
}

static void later_3(void)
{
    bulkhead_options options = {.type = BULKHEAD_ASYNC};
    later_of(&options, 3);
}

static int finish_one(int result)
{
    explore_check(plim_acquire_(&world.tasks, PLIM_WAITERS_MAX, PLIM_FOREVER) == 0);
    world.inside--;
    return bulkhead_finish(&world.job[0], result);
}

static void finish_0(void)
{
    explore_check(finish_one(0) == 0);
    leave_the_scene();
}

static void later_0(void)
{
    explore_check(submit(0, 0) == 0);
    bulkhead_outcome outcome = see_it_end(0);
    explore_check(outcome == BULKHEAD_SUCCEEDED);
    explore_free(&world.job[0], sizeof world.job[0]);
    leave_the_scene();
}

SCENARIO(finish_races_return, "a finish races the return of run", later_2, all_given_back,
         BODIES(later_0, finish_0), .spare = 1, .preemptions = 3);

SCENARIO(finish_lets_in, "a finish lets the next one in", later_3, all_given_back,
         BODIES(later_0, finish_0, enter_and_go), .spare = 1, .preemptions = 1);

/* Nobody knows the job any more, the worker neither. */
static void later_0_then_abort(void)
{
    explore_check(submit(0, 0) == 0);
    explore_check(see_it_end(0) == BULKHEAD_SUCCEEDED);
    explore_free(&world.job[0], sizeof world.job[0]);
    explore_check(bulkhead_close(&world.b, BULKHEAD_ABORT, PLIM_FOREVER) == 0);
    leave_the_scene();
}

SCENARIO(finish_and_abort, "an abort does not touch a job that was finished", later_2,
         all_given_back, BODIES(later_0_then_abort, finish_0), .spare = 1, .preemptions = 2);

/* The worker leaves one, and takes the other. */
static int part_at_once(bulkhead_job *job)
{
    world.runs[job - world.job]++;
    explore_check(bulkhead_finish(job, 0) == 0);
    return BULKHEAD_LATER;
}

static void later_0_and_1(void)
{
    world.job[1].run = part_at_once;
    explore_check(submit(0, 0) == 0);
    explore_check(submit(1, 0) == 0);
    explore_check(see_it_end(0) == BULKHEAD_SUCCEEDED);
    explore_check(see_it_end(1) == BULKHEAD_SUCCEEDED);
    leave_the_scene();
}

static void later_for_both(void)
{
    bulkhead_options options = {.type = BULKHEAD_ASYNC, .permits = 2};
    later_of(&options, 2);
    world.limit = 2;
}

SCENARIO(later_two, "two jobs go on", later_for_both, all_given_back,
         BODIES(later_0_and_1, finish_0), .spare = 1, .preemptions = 1);

static void later_timed(void)
{
    later_2();
    world.job[0].run_timeout_ns = PLIM_US(10);
}

static void later_0_timed(void)
{
    explore_check(submit(0, 0) == 0);
    const bool late = see_it_end(0) == BULKHEAD_TIMED_OUT;
    explore_check(late || world.job[0].outcome == BULKHEAD_FAILED);
    explore_check(bulkhead_reclaim(&world.job[0], PLIM_FOREVER) == 0);
    explore_check(world.job[0].result == (late ? 0 : 3));
    explore_free(&world.job[0], sizeof world.job[0]);
    leave_the_scene();
}

static void finish_0_in_vain(void)
{
    explore_check(finish_one(3) == 0);
    leave_the_scene();
}

SCENARIO(finish_races_timeout, "a finish races the run timeout", later_timed, all_given_back,
         BODIES(later_0_timed, finish_0_in_vain), .spare = 3, .preemptions = 1);

/* Nobody finishes it before its time is over. */
static void later_0_too_late(void)
{
    explore_check(submit(0, 0) == 0);
    explore_check(see_it_end(0) == BULKHEAD_TIMED_OUT);
    explore_check(finish_one(3) == 0);
    explore_check(bulkhead_reclaim(&world.job[0], PLIM_FOREVER) == 0);
    leave_the_scene();
}

static void later_timed_alone(void)
{
    later_timed();
    world.left = 1;
}

SCENARIO(later_and_late, "a job that goes on for too long is late", later_timed_alone,
         all_given_back, BODIES(later_0_too_late), .spare = 3, .preemptions = 2);

/* Its done frees it: whoever calls it is the last to know it. */
static void done_frees(bulkhead_job *job)
{
    world.told++;
    explore_check(job->outcome == BULKHEAD_TIMED_OUT || job->result == 3);
    explore_free(job, sizeof *job);
}

static void later_timed_detached(void)
{
    later_timed();
    world.job[0].detached = true;
    world.job[0].done = done_frees;
}

static void submit_0_and_go(void)
{
    explore_check(submit(0, 0) == 0);
    leave_the_scene();
}

static void told_when_all_is_over(void)
{
    explore_check(world.told == 1 && world.destroyed);
    all_given_back();
}

SCENARIO(finish_detached, "a finish races the run timeout of a detached job", later_timed_detached,
         told_when_all_is_over, BODIES(submit_0_and_go, finish_0_in_vain), .spare = 3,
         .preemptions = 1);

static void later_0_for_two(void)
{
    explore_check(submit(0, 0) == 0);
    explore_check(see_it_end(0) == BULKHEAD_SUCCEEDED);
    leave_the_scene();
}

/* The memory of the job stays: one of them may come when all is over. */
static void finish_as_well(void)
{
    explore_check(plim_acquire_(&world.answers, PLIM_WAITERS_MAX, PLIM_FOREVER) == 0);
    const int error = bulkhead_finish(&world.job[0], 0);
    explore_check(error == 0 || error == EPERM);
    world.told += error == 0;
    leave_the_scene();
}

static int begin_for_two(bulkhead_job *job)
{
    world.runs[job - world.job]++;
    plim_release_(&world.answers, 2);
    return BULKHEAD_LATER;
}

static void later_twice(void)
{
    later_3();
    plim_init_(&world.answers, 0);
    world.job[0].run = begin_for_two;
}

static void told_once(void)
{
    explore_check(world.told == 1);
    all_given_back();
}

SCENARIO(two_finish, "of two who finish a job one is told", later_twice, told_once,
         BODIES(later_0_for_two, finish_as_well, finish_as_well), .spare = 1, .preemptions = 1);

static void later_or_not(void)
{
    int error = submit(0, 0);
    explore_check(error == 0 || error == ESHUTDOWN);
    bulkhead_outcome outcome = error == 0 ? see_it_end(0) : BULKHEAD_ABORTED;
    explore_check(outcome == BULKHEAD_SUCCEEDED || outcome == BULKHEAD_ABORTED);
    if (world.runs[0] == 0) {
        world.inside++;
        plim_release_(&world.tasks, 1);
    }
    leave_the_scene();
}

static void finish_if_begun(void)
{
    const int error = finish_one(0);
    explore_check(error == (world.runs[0] == 0 ? EPERM : 0));
    leave_the_scene();
}

static void close_it(void)
{
    explore_check(bulkhead_close(&world.b, BULKHEAD_ABORT, PLIM_FOREVER) == 0);
    explore_check(world.submitted[0] != 1 || world.job[0].outcome != BULKHEAD_PENDING);
    leave_the_scene();
}

SCENARIO(finish_races_close, "a finish races close, which waits for it", later_3, all_given_back,
         BODIES(later_or_not, finish_if_begun, close_it), .spare = 1, .preemptions = 1);

/* The abort is through when the job is finished. */
static void finish_what_was_told(void)
{
    explore_check(plim_acquire_(&world.answers, PLIM_WAITERS_MAX, PLIM_FOREVER) == 0);
    explore_check(world.runs[0] == 0 || bulkhead_job_cancelled(&world.job[0]));
    finish_if_begun();
}

static void abort_and_say_so(void)
{
    int error = bulkhead_close(&world.b, BULKHEAD_ABORT, 0);
    explore_check(error == 0 || error == ETIMEDOUT);
    plim_release_(&world.answers, 1);
    leave_the_scene();
}

static void later_and_answers(void)
{
    later_3();
    plim_init_(&world.answers, 0);
}

SCENARIO(abort_tells_later, "an abort tells a job that goes on", later_and_answers, all_given_back,
         BODIES(later_or_not, finish_what_was_told, abort_and_say_so), .spare = 1,
         .preemptions = 1);

static void cancel_later(void)
{
    if (world.runs[0] == 1 && world.left == 3) {
        int error = bulkhead_cancel(&world.b, &world.job[0]);
        explore_check(error == EBUSY || error == EALREADY);
    }
    leave_the_scene();
}

static void later_0_kept(void)
{
    explore_check(submit(0, 0) == 0);
    bulkhead_outcome outcome = see_it_end(0);
    explore_check(outcome == BULKHEAD_FAILED && world.runs[0] >= 1);
    explore_check(world.job[0].result == 5);
    leave_the_scene();
}

/* Each attempt fails. */
static void finish_attempts(void)
{
    explore_check(finish_one(4 + (world.runs[0] == 2)) == 0);
    explore_check(finish_one(5) == 0);
    leave_the_scene();
}

static void later_tried_again(void)
{
    bulkhead_options options = {.type = BULKHEAD_ASYNC, .attempts = 2};
    later_of(&options, 2);
}

SCENARIO(finish_each_attempt, "each attempt is finished", later_tried_again, all_given_back,
         BODIES(later_0_kept, finish_attempts), .spare = 1, .preemptions = 2);

SCENARIO(cancel_and_finish, "a cancel races a finish", later_3, all_given_back,
         BODIES(later_0_for_two, finish_0, cancel_later), .spare = 1, .preemptions = 1);

static void later_sync(void)
{
    later_of(NULL, 2);
}

SCENARIO(finish_sync, "the submitter of a sync bulkhead waits for finish", later_sync,
         all_given_back, BODIES(later_0, finish_0), .preemptions = 3);

static int run_at_once(void *ctx, void (*run)(void *), void *arg)
{
    (void)ctx;
    run(arg);
    return 0;
}

static void later_on_the_spot(void)
{
    static const plim_executor at_once = {run_at_once, NULL};
    bulkhead_options options = {.type = BULKHEAD_ASYNC, .executor = &at_once};
    later_of(&options, 2);
}

SCENARIO(finish_on_executor, "a finish races the return of run on an executor", later_on_the_spot,
         all_given_back, BODIES(later_0, finish_0), .preemptions = 3);
