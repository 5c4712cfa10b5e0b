/* SPDX-License-Identifier: MIT
 *
 * Scenarios of coroutines that wait for a bulkhead. A thread plays the loop: it begins the wait,
 * hears of its end or gives up, and ends it. After that the coroutine is gone.
 */

static void resumed(plim_await_ *self)
{
    plim_release_(&world.resumed[self - world.await], 1);
}

/* What a loop does with the answer. */
static int play_loop(plim_await_ *self, int answer, int64_t timeout_ns)
{
    plim_counter *told = &world.resumed[self - world.await];
    if (answer != PLIM_AWAITS_) {
        return answer;
    }
    int error = plim_acquire_(told, PLIM_WAITERS_MAX, timeout_ns);
    if (error != 0 && !self->give_up(self)) {
        explore_check(plim_acquire_(told, PLIM_WAITERS_MAX, PLIM_FOREVER) == 0);
    }
    return self->end(self, error);
}

static int await_enter(int i, uint64_t held, int64_t timeout_ns)
{
    plim_await_ *self = &world.await[i];
    self->resume = resumed;
    self->job = NULL;
    self->held = held;
    return play_loop(self, bulkhead_await_enter_for_(&world.b, self, timeout_ns), timeout_ns);
}

/* The coroutine has ended: nobody may know it. */
static void forget_coroutine(int i)
{
    explore_free(&world.await[i], sizeof world.await[i]);
    explore_free(&world.resumed[i], sizeof world.resumed[i]);
}

static void await_and_leave(int i, int64_t timeout_ns)
{
    const int error = await_enter(i, 0, timeout_ns);
    explore_check(error == 0 || error == ESHUTDOWN || error == EAGAIN || error == ETIMEDOUT);
    explore_check(error != ETIMEDOUT || timeout_ns != PLIM_FOREVER);
    forget_coroutine(i);
    if (error == 0) {
        hold();
        explore_check(bulkhead_leave(&world.b) == 0);
    }
}

static void coroutine_0(void)
{
    await_and_leave(0, PLIM_FOREVER);
}

static void coroutine_1(void)
{
    await_and_leave(1, PLIM_FOREVER);
}

static void coroutine_0_for_a_while(void)
{
    await_and_leave(0, PLIM_US(100));
}

SCENARIO(await_beside_enter, "a coroutine and a caller, one permit", sync_1, all_given_back,
         BODIES(enter, coroutine_0), .preemptions = 4);

SCENARIO(await_two, "two coroutines and a caller, one permit", sync_1, all_given_back,
         BODIES(enter, coroutine_0, coroutine_1), .preemptions = 2);

SCENARIO(await_gives_up, "a leave races a coroutine that gives up", sync_1, all_given_back,
         BODIES(enter, coroutine_0_for_a_while, enter_for_a_while), .preemptions = 2);

SCENARIO(await_unfair, "a coroutine among unfair callers", unfair_1, all_given_back,
         BODIES(enter, coroutine_0, enter_for_a_while), .preemptions = 2);

SCENARIO(await_races_close, "close sends a coroutine away, or it gives up", sync_1, all_given_back,
         BODIES(enter, coroutine_0_for_a_while, shut), .preemptions = 2);

static void coroutine_0_and_go(void)
{
    coroutine_0_for_a_while();
    leave_the_scene();
}

SCENARIO(await_makes_room, "a coroutine gives up its place to a submitter", async_queue_1_taken,
         all_given_back, BODIES(coroutine_0_and_go, submit_then_leave), .spare = 1,
         .preemptions = 2);

/* ---- circles ---- */

static void await_a_second_one(int i)
{
    explore_check(await_enter(i, 0, PLIM_FOREVER) == 0);
    const int error = await_enter(i, 1, PLIM_FOREVER);
    explore_check(error == 0 || error == EDEADLK);
    world.told += error == EDEADLK;
    forget_coroutine(i);
    explore_check(error != 0 || bulkhead_leave(&world.b) == 0);
    explore_check(bulkhead_leave(&world.b) == 0);
}

static void second_of_0(void)
{
    await_a_second_one(0);
}

static void second_of_1(void)
{
    await_a_second_one(1);
}

static void at_most_one_told(void)
{
    all_given_back();
    explore_check(world.told <= 1);
}

SCENARIO(await_circle, "of coroutines that have all permits one is told", sync_2, at_most_one_told,
         BODIES(second_of_0, second_of_1), .preemptions = 3);

/* It waits without a limit, but its loop ends the wait, while a lower limit makes it the last one. */
static void last_that_waits_gives_up(void)
{
    plim_await_ *self = &world.await[0];
    explore_check(await_enter(0, 0, PLIM_FOREVER) == 0);
    self->held = 1;
    const int answer = bulkhead_await_enter_for_(&world.b, self, PLIM_FOREVER);
    const int error = play_loop(self, answer, PLIM_US(1));
    explore_check(error == 0 || error == EDEADLK || error == ETIMEDOUT);
    forget_coroutine(0);
    explore_check(error != 0 || bulkhead_leave(&world.b) == 0);
    explore_check(bulkhead_leave(&world.b) == 0);
}

static void shrink_it_and_leave(void)
{
    explore_check(bulkhead_resize(&world.b, 1, PLIM_KEEP) == 0);
    explore_check(bulkhead_leave(&world.b) == 0);
}

static void sync_2_one_taken(void)
{
    sync_2();
    explore_check(bulkhead_enter(&world.b) == 0);
}

SCENARIO(await_circle_gives_up, "the last of a circle is told, or it gives up", sync_2_one_taken,
         all_given_back, BODIES(last_that_waits_gives_up, shrink_it_and_leave), .preemptions = 2);

/* ---- jobs ---- */

static void await_job_0(int64_t timeout_ns)
{
    plim_await_ *self = &world.await[0];
    self->resume = resumed;
    self->job = NULL;
    self->held = 0;
    const int error =
        play_loop(self, bulkhead_await_job_(&world.job[0], self, timeout_ns), timeout_ns);
    explore_check(error == 0 || (error == ETIMEDOUT && timeout_ns != PLIM_FOREVER));
    explore_check(error != 0 || world.job[0].outcome == BULKHEAD_SUCCEEDED);
    forget_coroutine(0);
}

static void submit_and_await(void)
{
    explore_check(submit(0, 0) == 0);
    await_job_0(PLIM_FOREVER);
    explore_free(&world.job[0], sizeof world.job[0]);
    leave_the_scene();
}

SCENARIO(await_job, "a coroutine waits for a job, and frees it", async_alone, all_given_back,
         BODIES(submit_and_await), .spare = 1, .preemptions = 4);

static void submit_and_await_in_vain(void)
{
    explore_check(submit(0, 0) == 0);
    await_job_0(PLIM_US(1));
    explore_check(see_it_end(0) == BULKHEAD_SUCCEEDED);
    explore_free(&world.job[0], sizeof world.job[0]);
    leave_the_scene();
}

SCENARIO(await_job_gives_up, "the end of a job races a coroutine that gives up", async_alone,
         all_given_back, BODIES(submit_and_await_in_vain), .spare = 1, .preemptions = 3);

/* ---- what edges lead to ---- */

/* Of a sync bulkhead each job has a thread and a place. Job 0 waits for job 1, which ends and goes
 * once it was seen to be waited for. Job 2 waits for job 0, and follows its edges. */
static int wait_for_1(bulkhead_job *job)
{
    world.runs[job - world.job]++;
    const int error = bulkhead_wait(&world.job[1], PLIM_FOREVER);
    explore_check(error == 0 || error == EINVAL); /* not submitted yet */
    return 0;
}

static int is_waited_for(bulkhead_job *job)
{
    world.runs[job - world.job]++;
    world.told = job->waiters_ != NULL;
    return 0;
}

static int wait_for_0(bulkhead_job *job)
{
    world.runs[job - world.job]++;
    (void)bulkhead_wait(&world.job[0], PLIM_US(1));
    return 0;
}

static void sync_3(void)
{
    made(BULKHEAD_SYNC, 3, 0, 0);
    world.limit = 3;
    world.job[0].run = wait_for_1;
    world.job[1].run = is_waited_for;
    world.job[2].run = wait_for_0;
}

static void job_that_waits(void)
{
    explore_check(submit(0, PLIM_FOREVER) == 0);
}

static void job_that_goes(void)
{
    explore_check(submit(1, PLIM_FOREVER) == 0);
    if (world.told != 0) {
        explore_free(&world.job[1], sizeof world.job[1]);
    }
}

static void job_that_follows(void)
{
    explore_check(submit(2, PLIM_FOREVER) == 0);
}

SCENARIO(edges_end, "no edge leads to a job that is gone", sync_3, all_given_back,
         BODIES(job_that_waits, job_that_goes, job_that_follows), .preemptions = 2);
