/* SPDX-License-Identifier: MIT
 *
 * The fast way of a submit: what holds while a submitter is between its two steps, and that the
 * bounds are exact after a flood. explore_inbox.c has the schedules.
 */

/* The two steps of a submit, for a test that is the submitter: it has a place or a permit, */
static uint64_t step_1(void)
{
    return bulkhead_admit_fast_(&on.b);
}

/* and then its job comes. */
static void step_2(bulkhead_job *job, uint64_t phase)
{
    bulkhead_reset_(&on.b, job, 0);
    plim_store_relaxed_(&job->entry_.phase, phase);
    if (bulkhead_push_(&on.b, job, phase == BULKHEAD_ADMITTED_)) {
        bulkhead_idle_(&on.b);
    }
}

/* There is a worker, and it sleeps. */
static bool make_with_a_worker(int32_t permits, int32_t queue)
{
    on.job[0] = (bulkhead_job){.run = run_nothing};
    return make(&on.b, BULKHEAD_ASYNC, permits, queue) && bulkhead_submit(&on.b, &on.job[0]) == 0 &&
           bulkhead_wait(&on.job[0], PLIM_S(PATIENCE_S)) == 0 &&
           EVENTUALLY(waiters(&on.b.crew.parked) == 1);
}

TEST a_caller_does_not_take_the_permit_of_submitters_on_their_way(void)
{
    ASSERT(make_with_a_worker(1, 1));
    ASSERT_INT(0, bulkhead_enter(&on.b));
    uint64_t first = step_1();
    ASSERT_U64(BULKHEAD_JOINING_, first);
    ASSERT_INT(0, bulkhead_leave(&on.b));
    uint64_t second = step_1(); /* the permit is free, and the first is on its way to it */
    ASSERT_U64(BULKHEAD_JOINING_, second);
    ASSERT_INT(EAGAIN, bulkhead_try_enter(&on.b));
    on.job[1] = on.job[2] = on.job[3] = (bulkhead_job){.run = run_nothing};
    ASSERT_INT(EAGAIN, bulkhead_submit(&on.b, &on.job[3]));
    step_2(&on.job[1], first);
    step_2(&on.job[2], second);
    ASSERT_INT(0, bulkhead_wait(&on.job[1], PLIM_S(PATIENCE_S)));
    ASSERT_INT(0, bulkhead_wait(&on.job[2], PLIM_S(PATIENCE_S)));
    ENDS_WELL();
}

TEST a_job_on_its_way_finds_the_permit_that_came_back(void)
{
    ASSERT(make_with_a_worker(1, 0));
    ASSERT_INT(0, bulkhead_enter(&on.b));
    uint64_t phase = step_1();
    ASSERT_U64(BULKHEAD_JOINING_, phase);
    ASSERT_INT(0, bulkhead_leave(&on.b)); /* everybody sleeps */
    on.job[1] = (bulkhead_job){.run = run_nothing};
    step_2(&on.job[1], phase);
    ASSERT_INT(0, bulkhead_wait(&on.job[1], PLIM_S(PATIENCE_S)));
    ENDS_WELL();
}

TEST a_job_on_its_way_is_aborted_when_it_comes(void)
{
    ASSERT(make_with_a_worker(1, 0));
    ASSERT_INT(0, bulkhead_enter(&on.b));
    uint64_t phase = step_1();
    ASSERT_INT(ETIMEDOUT, bulkhead_close(&on.b, BULKHEAD_ABORT, 0));
    on.job[1] = (bulkhead_job){.run = run_nothing};
    step_2(&on.job[1], phase);
    ASSERT_INT(0, bulkhead_wait(&on.job[1], PLIM_S(PATIENCE_S)));
    ASSERT_INT(BULKHEAD_ABORTED, on.job[1].outcome);
    ASSERT_INT(0, bulkhead_leave(&on.b));
    ENDS_WELL();
}

TEST a_cancel_comes_before_a_submit_that_is_on_its_way(void)
{
    ASSERT(make_with_a_worker(1, 0));
    uint64_t phase = step_1();
    on.job[1] = (bulkhead_job){.run = run_nothing};
    ASSERT_INT(EINVAL, bulkhead_cancel(&on.b, &on.job[1]));
    step_2(&on.job[1], phase);
    ASSERT_INT(0, bulkhead_wait(&on.job[1], PLIM_S(PATIENCE_S)));
    ASSERT_INT(BULKHEAD_SUCCEEDED, on.job[1].outcome);
    ENDS_WELL();
}

TEST a_queue_that_shrinks_under_a_submit_refuses_it(void)
{
    ASSERT(make_with_a_worker(1, 4));
    ASSERT_INT(0, bulkhead_enter(&on.b));
    ASSERT_INT(0, bulkhead_resize(&on.b, PLIM_KEEP, PLIM_NONE));
    ASSERT_U64(BULKHEAD_NEW_, step_1());
    ASSERT_INT(0, bulkhead_resize(&on.b, PLIM_KEEP, 1));
    ASSERT_U64(BULKHEAD_JOINING_, step_1());
    bulkhead_undo_admit_(&on.b, false); /* as after a look at limits that are no more */
    ASSERT_FIGURES(&on.b, 1, 0);
    /* as after a look at limits that are no more; made up for: */
    bulkhead_undo_admit_(&on.b, true);
    ASSERT_INT(0, bulkhead_try_enter(&on.b));
    ASSERT_INT(EAGAIN, bulkhead_try_enter(&on.b));
    ASSERT_INT(0, bulkhead_leave(&on.b));
    ENDS_WELL();
}

/* A leave that nobody may make finds a permit between two jobs; it must not become one more. */
TEST a_leave_by_mistake_makes_no_permit(void)
{
    ASSERT(make_with_a_worker(1, 0));
    for (int round = scaled(200); round > 0; round--) {
        on.job[1] = (bulkhead_job){.run = run_nothing};
        ASSERT_INT(0, bulkhead_submit(&on.b, &on.job[1]));
        ASSERT_INT(0, bulkhead_wait(&on.job[1], PLIM_S(PATIENCE_S)));
        (void)bulkhead_leave(&on.b);
        ASSERT(EVENTUALLY(bulkhead_snapshot(&on.b).available == 1));
        ASSERT_INT(0, bulkhead_try_enter(&on.b));
        ASSERT_INT(EAGAIN, bulkhead_try_enter(&on.b));
        ASSERT_INT(0, bulkhead_leave(&on.b));
    }
    ENDS_WELL();
}

static plim_thread_result flood_it(void *arg)
{
    member *m = arg;
    crowd *c = m->crowd;
    bulkhead_job jobs[8];
    wait_for_go(c);
    for (int i = 0; i < 200; i++) {
        bulkhead_job *job = &jobs[i % 8];
        if (i >= 8 && bulkhead_wait(job, PLIM_S(PATIENCE_S)) != 0) {
            atomic_fetch_add(&c->odd, 1);
        }
        *job = (bulkhead_job){.run = run_nothing};
        if (bulkhead_submit_for(&on.b, job, PLIM_S(PATIENCE_S)) != 0) {
            atomic_fetch_add(&c->odd, 1);
        }
    }
    for (int i = 0; i < 8; i++) {
        if (bulkhead_wait(&jobs[i], PLIM_S(PATIENCE_S)) != 0) {
            atomic_fetch_add(&c->odd, 1);
        }
    }
    return 0;
}

TEST the_bounds_are_exact_after_a_flood(void)
{
    enum { P = 3, Q = 9 };
    ASSERT(make(&on.b, BULKHEAD_ASYNC, P, Q));
    for (int round = scaled(30); round > 0; round--) {
        on.crowd = (crowd){0};
        gather(3, flood_it);
        disperse();
        ASSERT_INT(0, atomic_load(&on.crowd.odd));
        gates_init(on.g, P + Q + 1); /* whatever the counts owe to the flood */
        for (int i = 0; i < P + Q; i++) {
            ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[i].job));
        }
        ASSERT_INT(EAGAIN, bulkhead_submit(&on.b, &on.g[P + Q].job));
        ASSERT_INT(EAGAIN, bulkhead_try_enter(&on.b));
        ASSERT_FIGURES(&on.b, P, Q);
        let_all_go(on.g, P + Q);
        for (int i = 0; i < P + Q; i++) {
            ASSERT(is_done(&on.g[i]));
        }
    }
    ENDS_WELL();
}

static atomic_int turn;

static int note_turn(bulkhead_job *job)
{
    return atomic_fetch_add(&turn, 1) == (int)(job - on.job) ? 0 : EIO;
}

TEST jobs_begin_in_the_order_in_which_they_came(void)
{
    enum { N = 8 };
    ASSERT(make_with_a_worker(1, 0));
    for (int round = scaled(300); round > 0; round--) {
        atomic_store(&turn, 0);
        for (int i = 0; i < N; i++) {
            on.job[i] = (bulkhead_job){.run = note_turn};
            ASSERT_INT(0, bulkhead_submit(&on.b, &on.job[i]));
        }
        for (int i = 0; i < N; i++) {
            ASSERT_INT(0, bulkhead_wait(&on.job[i], PLIM_S(PATIENCE_S)));
            ASSERT_INT(0, on.job[i].result);
        }
    }
    ENDS_WELL();
}

SUITE(inbox_suite)
{
    SET_SETUP(set_the_stage, NULL);
    SET_TEARDOWN(clear_the_stage, NULL);
    RUN_TEST(a_caller_does_not_take_the_permit_of_submitters_on_their_way);
    RUN_TEST(a_job_on_its_way_finds_the_permit_that_came_back);
    RUN_TEST(a_job_on_its_way_is_aborted_when_it_comes);
    RUN_TEST(a_cancel_comes_before_a_submit_that_is_on_its_way);
    RUN_TEST(a_queue_that_shrinks_under_a_submit_refuses_it);
    RUN_TEST(a_leave_by_mistake_makes_no_permit);
    RUN_TEST(the_bounds_are_exact_after_a_flood);
    RUN_TEST(jobs_begin_in_the_order_in_which_they_came);
}
