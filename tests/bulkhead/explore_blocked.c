/* SPDX-License-Identifier: MIT
 *
 * Scenarios of threads of a bulkhead that wait for that very bulkhead, some of them where no other
 * thread can be had.
 */

static void meet(void)
{
    explore_check(plim_acquire_(&world.tasks, PLIM_WAITERS_MAX, PLIM_FOREVER) == 0);
}

static void tell(void)
{
    plim_release_(&world.tasks, 1);
}

static void async_blocked(int32_t permits, int threads)
{
    async_of(permits, 0, threads);
    plim_init_(&world.tasks, 0);
}

static void async_2_alone(void)
{
    async_blocked(2, 1);
}

static void async_3_alone(void)
{
    async_blocked(3, 1);
}

/* Job 0 waits for 2, which is in the queue; 1 waits for 0, which runs. */
static void wait_or_be_told(int i)
{
    int error = bulkhead_wait(&world.job[i], PLIM_FOREVER);
    explore_check(error == 0 || error == EDEADLK);
    world.told += error == EDEADLK;
}

static int wait_for_the_first(bulkhead_job *job)
{
    wait_or_be_told(0);
    world.runs[job - world.job]++;
    return 0;
}

static int wait_for_the_third(bulkhead_job *job)
{
    world.job[1].run = wait_for_the_first;
    explore_check(submit(1, 0) == 0 && submit(2, 0) == 0);
    wait_or_be_told(2);
    world.runs[job - world.job]++;
    return 0;
}

static void chain(void)
{
    world.job[0].run = wait_for_the_third;
    explore_check(submit(0, 0) == 0);
    for (int i = 0; i < 3; i++) {
        explore_check(see_it_end(i) == BULKHEAD_SUCCEEDED);
    }
    leave_the_scene();
}

static void exactly_one_told(void)
{
    explore_check(world.told == 1);
    all_given_back();
}

SCENARIO(chain_told, "of two that wait, one for the other and one for a permit, one is told",
         async_2_alone, exactly_one_told, BODIES(chain), .spare = 3, .preemptions = 2);

/* The done of a detached job waits for job 2, and so does the body of 1. */
static void done_submits_and_waits(bulkhead_job *job)
{
    (void)job;
    explore_check(submit(2, 0) == 0);
    explore_check(see_it_end(2) == BULKHEAD_SUCCEEDED);
    tell();
}

static int wait_for_the_third_too(bulkhead_job *job)
{
    if (world.submitted[2] == 1) {
        see_it_end(2);
    }
    world.runs[job - world.job]++;
    return 0;
}

static void done_and_body(void)
{
    world.job[0].detached = true;
    world.job[0].done = done_submits_and_waits;
    world.job[1].run = wait_for_the_third_too;
    explore_check(submit(0, 0) == 0 && submit(1, 0) == 0);
    explore_check(see_it_end(1) == BULKHEAD_SUCCEEDED);
    meet();
    leave_the_scene();
}

SCENARIO(done_beside_body, "a done and a body wait for the same job", async_2_alone, all_given_back,
         BODIES(done_and_body), .spare = 3, .preemptions = 1);

/* The only worker waits for a job that nobody will run, and somebody cancels it. */
static int need_one_that_is_cancelled(bulkhead_job *job)
{
    explore_check(submit(1, 0) == 0);
    bulkhead_outcome outcome = see_it_end(1);
    explore_check(outcome == BULKHEAD_ABORTED || outcome == BULKHEAD_CANCELLED);
    explore_check(world.done == 1);
    world.runs[job - world.job]++;
    return 0;
}

static void needy_of_a_cancelled_one(void)
{
    world.job[0].run = need_one_that_is_cancelled;
    world.job[1].done = count_done;
    job_0();
}

static void cancel_the_second(void)
{
    if (world.submitted[1] == 1) {
        int error = bulkhead_cancel(&world.b, &world.job[1]);
        explore_check(error == 0 || error == EALREADY);
        bulkhead_outcome outcome = see_it_end(1);
        explore_check((outcome == BULKHEAD_CANCELLED) == (error == 0));
    }
    leave_the_scene();
}

SCENARIO(given_up_or_cancelled, "what the only worker waits for is given up, or cancelled", async_2,
         all_given_back, BODIES(needy_of_a_cancelled_one, cancel_the_second), .spare = 1,
         .preemptions = 3);

/* The only worker is told to look for a permit, and another takes it, until job 1 has ended. */
static void unfair_taken(void)
{
    made(BULKHEAD_ASYNC, 2, 0, BULKHEAD_UNFAIR);
    world.left = 2;
    explore_check(bulkhead_enter(&world.b) == 0);
    world.b.gate.beside = 0; /* for somebody else: it leaves on another thread */
}

static int enter_in_job(bulkhead_job *job)
{
    explore_check(bulkhead_enter(&world.b) == 0);
    explore_check(bulkhead_leave(&world.b) == 0);
    world.runs[job - world.job]++;
    return 0;
}

static void grow_and_wait(void)
{
    world.limit = 4;
    world.job[0].run = enter_in_job;
    explore_check(submit(0, 0) == 0 && submit(1, 0) == 0);
    explore_check(bulkhead_resize(&world.b, 4, 0) == 0);
    bulkhead_outcome outcome = see_it_end(1);
    explore_check(outcome == BULKHEAD_SUCCEEDED || outcome == BULKHEAD_ABORTED);
    explore_check(bulkhead_leave(&world.b) == 0);
    explore_check(see_it_end(0) == BULKHEAD_SUCCEEDED);
    leave_the_scene();
}

static void take_and_wait(void)
{
    int error = bulkhead_try_enter(&world.b);
    explore_check(error == 0 || error == EAGAIN);
    if (error == 0) {
        if (world.submitted[1] == 1) {
            see_it_end(1);
        }
        explore_check(bulkhead_leave(&world.b) == 0);
    }
    leave_the_scene();
}

SCENARIO(nudged_in_vain, "a worker that was told to look waits again, and does not count",
         unfair_taken, all_given_back, BODIES(grow_and_wait, take_and_wait), .spare = 1,
         .preemptions = 2);

/* Nobody will run jobs 1 and 2 while the only worker waits for 2. */
static int need_the_third(bulkhead_job *job)
{
    explore_check(submit(1, 0) == 0 && submit(2, 0) == 0);
    explore_check(see_it_end(2) == BULKHEAD_ABORTED);
    world.runs[job - world.job]++;
    return 0;
}

static void needy_of_the_third(bulkhead_outcome second)
{
    world.job[0].run = need_the_third;
    explore_check(submit(0, 0) == 0);
    explore_check(see_it_end(0) == BULKHEAD_SUCCEEDED);
    explore_check(see_it_end(1) == second);
    leave_the_scene();
}

static void need_and_run_the_rest(void)
{
    needy_of_the_third(BULKHEAD_SUCCEEDED);
}

static void need_and_lose_both(void)
{
    needy_of_the_third(BULKHEAD_ABORTED);
}

SCENARIO(one_given_up, "if a worker goes on by that, a single job is given up", async_3_alone,
         all_given_back, BODIES(need_and_run_the_rest), .spare = 1, .preemptions = 3);

/* With two permits job 2 is in the queue, until 1 was given up. */
SCENARIO(both_given_up, "jobs are given up until a worker goes on", async_2_alone, all_given_back,
         BODIES(need_and_lose_both), .spare = 1, .preemptions = 3);

/* The only worker waits for job 2, which is due later. Job 1 is given up for that, and its done
 * waits for 2 as well, on the same thread: for ever, or less long than the outer wait. It is told if
 * both were given up at once, so that its thread has yet to call the other's done; or if that thread
 * is the supervisor, which alone makes 2 due. There is a thread for the supervisor, and none for
 * another worker. */
static void wait_for_the_late_one(int64_t timeout_ns)
{
    const bool supervises = bulkhead_stay_as_(&world.b, BULKHEAD_SUPERVISES_) != NULL;
    int error = bulkhead_wait(&world.job[2], timeout_ns);
    explore_check(error == 0 || (error == ETIMEDOUT && timeout_ns != PLIM_FOREVER) ||
                  (error == EDEADLK && (supervises || world.job[2].outcome == BULKHEAD_ABORTED)));
}

static void wait_for_it_for_ever(bulkhead_job *job)
{
    (void)job;
    wait_for_the_late_one(PLIM_FOREVER);
}

static void wait_for_it_for_a_while(bulkhead_job *job)
{
    (void)job;
    wait_for_the_late_one(PLIM_US(1));
}

static int need_the_late_one(bulkhead_job *job)
{
    explore_check(submit(2, 0) == 0 && submit(1, 0) == 0);
    explore_check(see_it_end(2) == BULKHEAD_ABORTED);
    world.runs[job - world.job]++;
    return 0;
}

static void needy_twice(void (*done)(bulkhead_job *))
{
    world.job[0].run = need_the_late_one;
    world.job[1].done = done;
    world.job[2].delay_ns = PLIM_US(10);
    explore_check(submit(0, 0) == 0);
    explore_check(see_it_end(0) == BULKHEAD_SUCCEEDED);
    bulkhead_outcome outcome = see_it_end(1);
    explore_check(outcome == BULKHEAD_ABORTED || outcome == BULKHEAD_SUCCEEDED);
    leave_the_scene();
}

static void wait_inside_for_ever(void)
{
    needy_twice(wait_for_it_for_ever);
}

static void wait_inside_for_a_while(void)
{
    needy_twice(wait_for_it_for_a_while);
}

SCENARIO(waits_twice, "a thread that waits inside of a wait counts once", async_2_alone,
         all_given_back, BODIES(wait_inside_for_ever), .spare = 2, .preemptions = 2);

SCENARIO(waits_on, "a thread that goes on with an outer wait counts again", async_2_alone,
         all_given_back, BODIES(wait_inside_for_a_while), .spare = 2, .preemptions = 2);

/* The worker of job 0 may have been replaced when it calls the done. There is a thread for one
 * other, which runs job 2, and then what that done waits for. */
static void late_done_submits_and_waits(bulkhead_job *job)
{
    (void)job;
    explore_check(submit(1, 0) == 0);
    explore_check(see_it_end(1) == BULKHEAD_SUCCEEDED);
    tell();
}

static void late_and_another(void)
{
    world.job[0].detached = true;
    world.job[0].run_timeout_ns = PLIM_US(10);
    world.job[0].done = late_done_submits_and_waits;
    explore_check(submit(0, 0) == 0 && submit(2, 0) == 0);
    explore_check(see_it_end(2) == BULKHEAD_SUCCEEDED);
    meet();
    leave_the_scene();
}

SCENARIO(late_done, "a worker that ends, and waits before, hides nobody", async_2_alone,
         all_given_back, BODIES(late_and_another), .spare = 3, .preemptions = 1);

/* A worker that makes its resource anew, and waits as it gives up the old one. */
static void stop_submits_and_waits(void *user, unsigned index, void *resource)
{
    (void)user, (void)index, (void)resource;
    if (world.done++ == 0) {
        explore_check(submit(1, 0) == 0);
        explore_check(see_it_end(1) == BULKHEAD_SUCCEEDED);
        tell();
    }
}

static int renew_it(bulkhead_job *job)
{
    bulkhead_job_renew(job);
    return run_it(job);
}

static void async_renews(void)
{
    bulkhead_options options = {.type = BULKHEAD_ASYNC, .permits = 2};
    options.worker_stop = stop_submits_and_waits;
    explore_check(bulkhead_init(&world.b, &options) == 0);
    plim_init_(&world.tasks, 0);
    world.limit = 2;
    world.left = 1;
}

static void renew_and_meet(void)
{
    world.job[0].run = renew_it;
    submit_and_wait(0);
    meet();
    leave_the_scene();
}

SCENARIO(stop_waits, "a worker that begins anew may wait before", async_renews, all_given_back,
         BODIES(renew_and_meet), .spare = 2, .preemptions = 2);

/* Job 0 waits inside of the bulkhead, and relies on a caller, who lowers the limit and leaves. */
static void told_or_not(int error)
{
    explore_check(error == 0 || error == EDEADLK);
    world.told += error == EDEADLK;
}

static int rely_on_the_caller(bulkhead_job *job)
{
    world.runs[job - world.job]++;
    explore_check(submit(1, 0) == 0);
    told_or_not(bulkhead_wait(&world.job[1], PLIM_FOREVER));
    return 0;
}

static int enter_beside_the_caller(bulkhead_job *job)
{
    world.runs[job - world.job]++;
    int error = bulkhead_enter_for(&world.b, PLIM_FOREVER);
    told_or_not(error);
    return error == 0 ? bulkhead_leave(&world.b) : 0;
}

static int count_call(void *arg)
{
    (void)arg;
    world.runs[1]++;
    return 0;
}

static int invoke_beside_the_caller(bulkhead_job *job)
{
    world.runs[job - world.job]++;
    told_or_not(bulkhead_invoke(&world.b, count_call, NULL, NULL));
    return 0;
}

static void shrink_and_leave(int (*run)(bulkhead_job *))
{
    explore_check(bulkhead_try_enter(&world.b) == 0);
    world.job[0].run = run;
    explore_check(submit(0, 0) == 0);
    explore_check(bulkhead_resize(&world.b, 1, PLIM_KEEP) == 0);
    explore_check(bulkhead_leave(&world.b) == 0);
    explore_check(see_it_end(0) == BULKHEAD_SUCCEEDED);
    if (world.submitted[1] == 1) {
        explore_check(see_it_end(1) == BULKHEAD_SUCCEEDED);
    }
    leave_the_scene();
}

static void shrink_under_a_wait(void)
{
    shrink_and_leave(rely_on_the_caller);
}

static void shrink_under_an_enter(void)
{
    shrink_and_leave(enter_beside_the_caller);
}

static void shrink_under_a_call(void)
{
    shrink_and_leave(invoke_beside_the_caller);
}

SCENARIO(shrink_tells_a_wait, "a lower limit leaves a permit to one who waits for a job",
         async_2_alone, all_given_back, BODIES(shrink_under_a_wait), .spare = 2, .preemptions = 2);
SCENARIO(shrink_tells_an_enter, "a lower limit leaves a permit to one who wants another",
         async_2_alone, all_given_back, BODIES(shrink_under_an_enter), .spare = 2,
         .preemptions = 2);
SCENARIO(shrink_tells_a_call, "a lower limit leaves a permit to one who makes a call",
         async_2_alone, all_given_back, BODIES(shrink_under_a_call), .spare = 2, .preemptions = 2);

/* The call fails. A lower limit may leave no permit for its second attempt, or for the first. */
static int fail_and_count(void *arg)
{
    (void)arg;
    world.runs[1]++;
    return 7;
}

static int call_what_fails(bulkhead_job *job)
{
    int result = 0;
    world.runs[job - world.job]++;
    const int error = bulkhead_invoke(&world.b, fail_and_count, NULL, &result);
    told_or_not(error);
    explore_check(error == 0 ? result == 7 : world.runs[1] == 0);
    return 0;
}

static void shrink_under_a_call_that_fails(void)
{
    world.job[0].attempts = 1;
    world.job[0].run = call_what_fails;
    explore_check(submit(0, 0) == 0);
    explore_check(bulkhead_resize(&world.b, 1, PLIM_KEEP) == 0);
    explore_check(see_it_end(0) == BULKHEAD_SUCCEEDED);
    leave_the_scene();
}

static void async_2_twice(void)
{
    bulkhead_options options = {.type = BULKHEAD_ASYNC, .permits = 2, .attempts = 2};
    explore_check(bulkhead_init(&world.b, &options) == 0);
    plim_init_(&world.tasks, 0);
    world.limit = 2;
    world.left = 1;
}

SCENARIO(shrink_ends_a_call, "a lower limit ends a call between two attempts", async_2_twice,
         all_given_back, BODIES(shrink_under_a_call_that_fails), .spare = 2, .preemptions = 2);

/* The call is told that it will never begin, and then it begins all the same. Its function waits
 * for a permit: now nobody is left to give one back. */
static int enter_in_the_call(void *arg)
{
    (void)arg;
    world.runs[1]++;
    int error = bulkhead_enter_for(&world.b, PLIM_FOREVER);
    told_or_not(error);
    return error == 0 ? bulkhead_leave(&world.b) : 0;
}

static int invoke_one_that_enters(bulkhead_job *job)
{
    world.runs[job - world.job]++;
    told_or_not(bulkhead_invoke(&world.b, enter_in_the_call, NULL, NULL));
    return 0;
}

static void shrink_and_grow(void)
{
    explore_check(bulkhead_try_enter(&world.b) == 0);
    world.job[0].run = invoke_one_that_enters;
    explore_check(submit(0, 0) == 0);
    explore_check(bulkhead_resize(&world.b, 1, PLIM_KEEP) == 0);
    explore_check(bulkhead_leave(&world.b) == 0);
    explore_check(bulkhead_resize(&world.b, 2, PLIM_KEEP) == 0);
    explore_check(see_it_end(0) == BULKHEAD_SUCCEEDED);
    leave_the_scene();
}

SCENARIO(told_and_begun, "a call that was told, and begins all the same, counts again",
         async_2_alone, all_given_back, BODIES(shrink_and_grow), .spare = 2, .preemptions = 2);

/* A nudged caller does not count as one that waits. If another was faster, and waits, too, for what
 * both have, it has to be seen when the nudged one waits again. */
static void unfair_2(void)
{
    made(BULKHEAD_SYNC, 2, 0, BULKHEAD_UNFAIR);
}

static void enter_twice(void)
{
    BULKHEAD_SCOPE(&world.b)
    {
        int error = bulkhead_enter_for(&world.b, PLIM_FOREVER);
        told_or_not(error);
        explore_check(error != 0 || bulkhead_leave(&world.b) == 0);
    }
}

static void enter_once_and_twice(void)
{
    BULKHEAD_SCOPE(&world.b)
    {
        (void)explore_load(&world.b.permits);
    }
    enter_twice();
}

SCENARIO(nudged_and_deep, "a nudged caller that waits again may close a circle", unfair_2,
         all_given_back, BODIES(enter_twice, enter_once_and_twice), .preemptions = 2);
