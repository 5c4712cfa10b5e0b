/* SPDX-License-Identifier: MIT
 *
 * Scenarios of what happens to jobs: retries, timeouts, delays, nesting, and an executor.
 */

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

static void fail_twice_for(int64_t timeout_ns)
{
    world.job[0].run = run_and_fail;
    int error = submit(0, timeout_ns);
    explore_check(error == 0 || error == ESHUTDOWN);
    if (error == 0) {
        explore_check(bulkhead_wait(&world.job[0], PLIM_FOREVER) == 0);
        bulkhead_outcome outcome = world.job[0].outcome;
        explore_check(outcome == BULKHEAD_FAILED || outcome == BULKHEAD_ABORTED);
        explore_check(world.runs[0] == (int)world.job[0].attempt && world.runs[0] <= 2);
    }
    leave_the_scene();
}

static void fail_twice(void)
{
    fail_twice_for(0);
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

/* Nobody waits for a detached job, but for the bulkhead to be quiet. */
static void hear_of_the_end(void *user, const bulkhead_event *event)
{
    (void)user;
    (void)plim_load_relaxed_(&world.b.ready); /* others may go on before it has heard */
    world.told += event->type == BULKHEAD_EVENT_TIMED_OUT || event->type == BULKHEAD_EVENT_FINISHED;
}

static void detached_run_timeout(void)
{
    bulkhead_options options = {.type = BULKHEAD_ASYNC, .on_event = hear_of_the_end};
    explore_check(bulkhead_init(&world.b, &options) == 0);
    world.limit = 1;
    world.left = 1;
    world.job[0].detached = true;
    world.job[0].run_timeout_ns = PLIM_US(10);
}

static void submit_and_hear(void)
{
    explore_check(submit(0, 0) == 0);
    explore_check(bulkhead_wait_idle(&world.b, PLIM_FOREVER) == 0);
    explore_check(world.told == 1 && world.runs[0] == 1);
    leave_the_scene();
}

SCENARIO(timeout_is_heard, "nothing is over before a run timeout was heard of",
         detached_run_timeout, all_given_back, BODIES(submit_and_hear), .spare = 3,
         .preemptions = 2);

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

/* The only worker that can be had needs another job: it is not left without one. */
static int need_another(bulkhead_job *job)
{
    explore_check(submit(1, 0) == 0);
    bulkhead_outcome outcome = see_it_end(1);
    explore_check(outcome == BULKHEAD_ABORTED);
    world.runs[job - world.job]++;
    return 0;
}

static void needy_0(void)
{
    world.job[0].run = need_another;
    job_0();
}

SCENARIO(no_second_worker, "a wait of the only worker does not hang", async_2, all_given_back,
         BODIES(needy_0, enter_and_go), .spare = 1, .preemptions = 2);

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

/* Cancelled before the executor has begun it, or not: then nobody touches the job any more, and
 * what closes the bulkhead waits for the entry that is left. */
static void cancel_and_end(void)
{
    explore_check(submit(0, 0) == 0);
    int error = bulkhead_cancel(&world.b, &world.job[0]);
    explore_check(error == 0 || error == EBUSY || error == EALREADY);
    bulkhead_outcome outcome = see_it_end(0);
    explore_check((outcome == BULKHEAD_CANCELLED) == (error == 0));
    explore_check(outcome == BULKHEAD_CANCELLED || outcome == BULKHEAD_SUCCEEDED);
    explore_free(&world.job[0], sizeof world.job[0]);
    explore_check(bulkhead_close(&world.b, BULKHEAD_ABORT, PLIM_FOREVER) == 0);
    explore_check(bulkhead_destroy(&world.b) == 0);
    world.destroyed = true;
    explore_free(&world.b, sizeof world.b);
}

static void run_a_task(void)
{
    explore_check(plim_acquire_(&world.tasks, PLIM_WAITERS_MAX, PLIM_FOREVER) == 0);
    int next = world.tasks_out++;
    world.run[next](world.arg[next]);
}

SCENARIO(entry_left, "an entry outlives its job, and the bulkhead outlives the entry", executor_1,
         all_given_back, BODIES(cancel_and_end, run_a_task), .preemptions = 3);

/* One submits, the other cancels: the entry runs the job that is left. Each tells the runner when its
 * job has ended. */
static void job_0_or_cancelled(void)
{
    explore_check(submit(0, 0) == 0);
    bulkhead_outcome outcome = see_it_end(0);
    explore_check(outcome == BULKHEAD_SUCCEEDED || outcome == BULKHEAD_CANCELLED);
    plim_release_(&world.tasks, 1);
    leave_the_scene();
}

static void job_1_and_cancel_0(void)
{
    explore_check(submit(1, 0) == 0);
    if (world.submitted[0] == 1) {
        int error = bulkhead_cancel(&world.b, &world.job[0]);
        explore_check(error == 0 || error == EBUSY || error == EALREADY);
    }
    explore_check(see_it_end(1) == BULKHEAD_SUCCEEDED);
    plim_release_(&world.tasks, 1);
    leave_the_scene();
}

static void run_the_tasks(void)
{
    for (int ended = 0; ended < 2;) {
        explore_check(plim_acquire_(&world.tasks, PLIM_WAITERS_MAX, PLIM_FOREVER) == 0);
        if (world.tasks_out < world.tasks_in) {
            int next = world.tasks_out++;
            world.run[next](world.arg[next]);
        } else {
            ended++;
        }
    }
    leave_the_scene();
}

static void executor_for_two(void)
{
    executor_1();
    world.left = 3;
}

SCENARIO(entry_inherited, "of two jobs one is cancelled, and the other is run", executor_for_two,
         all_given_back, BODIES(job_0_or_cancelled, job_1_and_cancel_0, run_the_tasks),
         .preemptions = 1);

/* The worker may leave at any moment at which it sleeps. There are threads for some more. */
static void job_0_twice(void)
{
    submit_and_wait(0);
    world.runs[0] = 0;
    submit_and_wait(0);
    leave_the_scene();
}

static void idle_workers_leave(void)
{
    async_of(1, 0, 1);
    world.idle_ns = PLIM_US(100);
}

SCENARIO(idle_leaves, "an idle worker leaves, and no job is left behind", idle_workers_leave,
         all_given_back, BODIES(job_0_twice), .spare = 2, .preemptions = 3);

/* Both need the supervisor, and one of them makes it. */
static void delayed_both(void)
{
    async_of(1, 0, 2);
    world.job[0].delay_ns = world.job[1].delay_ns = PLIM_US(10);
}

SCENARIO(one_supervisor, "two make one supervisor", delayed_both, all_given_back,
         BODIES(job_0, job_1), .spare = 2, .preemptions = 1);

static void retry_here(void)
{
    bulkhead_options options = {.attempts = 2, .retry_delay_ns = PLIM_US(10)};
    explore_check(bulkhead_init(&world.b, &options) == 0);
    world.limit = 1;
    world.left = 3;
}

static void fail_here(void)
{
    fail_twice_for(PLIM_FOREVER);
}

SCENARIO(retry_here_races_close, "attempts of a sync job race close, and a caller", retry_here,
         all_given_back, BODIES(fail_here, abort_it, enter_and_go), .preemptions = 2);
