/* SPDX-License-Identifier: MIT
 *
 * Run timeouts: bodies that take too long, and what becomes of their permits and workers.
 */

TEST a_body_that_takes_too_long_times_out_and_keeps_its_permit(bool own)
{
    bulkhead_options options = {
        .type = BULKHEAD_ASYNC, .permits = 2, .attempts = 3, .run_timeout_ns = PLIM_MS(5)};
    if (own) {
        options.run_timeout_ns = 0;
        on.g[0].job.run_timeout_ns = PLIM_MS(5);
    }
    ASSERT_INT(0, make_with(&on.b, &options));
    on.g[0].result = 9;
    on.g[1].job.run_timeout_ns = PLIM_NONE;
    on.g[2].job.run_timeout_ns = PLIM_NONE;
    int64_t from = plim_now_();
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[0].job));
    ASSERT(has_entered(&on.g[0]));
    ASSERT(is_done(&on.g[0]));
    ASSERT(plim_now_() - from >= PLIM_MS(5));
    ASSERT_INT(BULKHEAD_TIMED_OUT, on.g[0].job.outcome);
    ASSERT_INT(0, on.g[0].job.result);
    ASSERT_INT(1, atomic_load(&on.g[0].dones));
    ASSERT(bulkhead_job_cancelled(&on.g[0].job));
    ASSERT_INT(EALREADY, bulkhead_cancel(&on.b, &on.g[0].job));
    bulkhead_stats s = bulkhead_snapshot(&on.b);
    ASSERT_INT(1, s.in_use);
    ASSERT_INT(1, s.workers_stuck);
    ASSERT_U64(1, s.timed_out);
    ASSERT_U64(0, s.late);
    /* Another takes its place, beside it, but there is one permit only. */
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[1].job));
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[2].job));
    ASSERT(has_entered(&on.g[1]));
    ASSERT_FIGURES(&on.b, 2, 1);
    ASSERT_INT(ETIMEDOUT, bulkhead_reclaim(&on.g[0].job, PLIM_MS(1)));
    ASSERT_INT(ETIMEDOUT, bulkhead_reclaim(&on.g[0].job, 0));
    ASSERT_INT(EBUSY, bulkhead_destroy(&on.b));
    let_go(&on.g[0]);
    ASSERT_INT(0, bulkhead_reclaim(&on.g[0].job, PLIM_S(PATIENCE_S)));
    ASSERT(has_entered(&on.g[2])); /* the permit is free now */
    s = bulkhead_snapshot(&on.b);
    ASSERT_U64(1, s.late);
    ASSERT(EVENTUALLY(bulkhead_snapshot(&on.b).workers_stuck == 0));
    ASSERT_INT(BULKHEAD_TIMED_OUT, on.g[0].job.outcome); /* what it returned is dropped */
    ASSERT_INT(0, on.g[0].job.result);
    ASSERT_INT(0, bulkhead_reclaim(&on.g[0].job, 0));
    let_all_go(on.g, 3);
    ASSERT(is_done(&on.g[1]));
    ASSERT(is_done(&on.g[2]));
    ASSERT_INT(0, bulkhead_reclaim(&on.g[1].job, 0)); /* of every other one at once */
    ASSERT_ENDS_WELL();
    ASSERT_INT(1, atomic_load(&on.g[0].runs)); /* is not tried again */
    ASSERT_INT(1, atomic_load(&on.g[0].dones));
    PASS();
}

TEST with_one_permit_a_stuck_body_stops_the_rest_until_a_resize(void)
{
    bulkhead_options options = {.type = BULKHEAD_ASYNC, .permits = 1};
    ASSERT_INT(0, make_with(&on.b, &options));
    on.g[0].job.run_timeout_ns = PLIM_MS(3);
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[0].job));
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[1].job));
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[2].job));
    ASSERT(is_done(&on.g[0]));
    ASSERT_FIGURES(&on.b, 1, 2);
    ASSERT_INT(EAGAIN, bulkhead_try_enter(&on.b));
    ASSERT_INT(ETIMEDOUT, bulkhead_wait_idle(&on.b, PLIM_MS(1)));
    ASSERT_INT(0, bulkhead_resize(&on.b, 2, 0));
    ASSERT(has_entered(&on.g[1]));
    let_go(&on.g[1]);
    ASSERT(has_entered(&on.g[2]));
    let_go(&on.g[2]);
    ASSERT(is_done(&on.g[2]));
    ASSERT_FIGURES(&on.b, 1, 0);
    let_go(&on.g[0]);
    ASSERT_INT(0, bulkhead_reclaim(&on.g[0].job, PLIM_S(PATIENCE_S)));
    ASSERT_INT(0, bulkhead_wait_idle(&on.b, PLIM_S(PATIENCE_S)));
    ASSERT_INT(0, bulkhead_invoke(&on.b, nothing, NULL, NULL));
    ENDS_WELL();
}

TEST a_detached_job_that_timed_out_is_done_when_its_body_is(void)
{
    on.g[0].job.detached = true;
    on.g[0].job.run_timeout_ns = PLIM_MS(2);
    ASSERT(make(&on.b, BULKHEAD_ASYNC, 1, 0));
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[0].job));
    ASSERT(has_entered(&on.g[0]));
    ASSERT(EVENTUALLY(bulkhead_snapshot(&on.b).timed_out == 1));
    rest(PLIM_MS(2)); /* in which done would be called, if it were called too early */
    ASSERT_INT(0, atomic_load(&on.g[0].dones));
    let_go(&on.g[0]);
    ASSERT(EVENTUALLY(atomic_load(&on.g[0].dones) == 1));
    ASSERT_INT(BULKHEAD_TIMED_OUT, on.g[0].seen);
    ASSERT_ENDS_WELL();
    ASSERT_INT(1, atomic_load(&on.g[0].dones));
    PASS();
}

static int reclaim_itself(bulkhead_job *job)
{
    gate *g = job->arg;
    while (!bulkhead_job_cancelled(job)) {
        rest(PLIM_US(100));
    }
    g->result = bulkhead_reclaim(job, PLIM_FOREVER);
    return 0;
}

TEST a_body_cannot_reclaim_itself(void)
{
    on.g[0].result = -1;
    on.g[0].job.run = reclaim_itself;
    on.g[0].job.run_timeout_ns = PLIM_MS(2);
    ASSERT(make(&on.b, BULKHEAD_ASYNC, 1, 0));
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[0].job));
    ASSERT(is_done(&on.g[0]));
    ASSERT_INT(0, bulkhead_reclaim(&on.g[0].job, PLIM_S(PATIENCE_S)));
    ASSERT(on.g[0].result == EDEADLK || on.g[0].result == EBUSY);
    ENDS_WELL();
}

TEST invoke_waits_for_the_end_of_a_body_that_timed_out(void)
{
    bulkhead_options options = {.type = BULKHEAD_ASYNC, .run_timeout_ns = PLIM_MS(2)};
    ASSERT_INT(0, make_with(&on.b, &options));
    on.c[0] = (caller){.call = INVOKE, .gate = &on.g[0], .result = -7};
    start_call(&on.c[0]);
    ASSERT(has_entered(&on.g[0]));
    ASSERT(EVENTUALLY(bulkhead_snapshot(&on.b).timed_out == 1));
    ASSERT(stays_away(&on.c[0]));
    let_go(&on.g[0]);
    ASSERT(finished(&on.c[0]));
    ASSERT_INT(ETIMEDOUT, on.c[0].error);
    ENDS_WELL();
}

TEST short_bodies_do_not_time_out(void)
{
    bulkhead_options options = {.type = BULKHEAD_ASYNC, .permits = 2, .run_timeout_ns = PLIM_S(20)};
    ASSERT_INT(0, make_with(&on.b, &options));
    int n = scaled(1000);
    for (int i = 0; i < n; i++) {
        on.job[0] = (bulkhead_job){.run = run_count, .arg = &on.ran};
        ASSERT_INT(0, bulkhead_submit(&on.b, &on.job[0]));
        ASSERT_INT(0, bulkhead_wait(&on.job[0], PLIM_S(PATIENCE_S)));
        ASSERT_INT(BULKHEAD_SUCCEEDED, on.job[0].outcome);
    }
    ASSERT_INT(n, atomic_load(&on.ran));
    ASSERT_U64(0, bulkhead_snapshot(&on.b).timed_out);
    ENDS_WELL();
}

static int sleep_a_little(bulkhead_job *job)
{
    (void)job;
    rest(PLIM_US(150)); /* about as long as its time */
    return 0;
}

/* The timeout passes about when the body returns: either way, but one way. */
TEST a_timeout_may_race_with_the_end_of_the_body(void)
{
    ASSERT(make(&on.b, BULKHEAD_ASYNC, 1, 0));
    int n = scaled(300);
    for (int i = 0; i < n; i++) {
        gates_init(on.g, 1);
        on.g[0].job.run = sleep_a_little;
        on.g[0].job.run_timeout_ns = PLIM_US(150 + 10 * (i % 20));
        ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[0].job));
        ASSERT(is_done(&on.g[0]));
        ASSERT_INT(1, atomic_load(&on.g[0].dones));
        ASSERT(on.g[0].job.outcome == BULKHEAD_SUCCEEDED ||
               on.g[0].job.outcome == BULKHEAD_TIMED_OUT);
        ASSERT_INT(0, bulkhead_reclaim(&on.g[0].job, PLIM_S(PATIENCE_S)));
        ASSERT_INT(0, bulkhead_wait_idle(&on.b, PLIM_S(PATIENCE_S)));
    }
    bulkhead_stats s = bulkhead_snapshot(&on.b);
    ASSERT_U64(n, s.accepted);
    ASSERT_U64(s.timed_out, s.late);
    ENDS_WELL();
}

/* The supervisor calls it, and nobody else says that the job is over. */
static atomic_int told_in_done;

static void wait_in_done(bulkhead_job *job)
{
    atomic_store(&told_in_done, 1 + bulkhead_wait(job, PLIM_S(1000)));
}

TEST the_done_of_a_job_that_timed_out_must_not_wait_for_it(void)
{
    atomic_store(&told_in_done, 0);
    ASSERT(make(&on.b, BULKHEAD_ASYNC, 1, 0));
    on.g[0].job.run_timeout_ns = PLIM_MS(1);
    on.g[0].job.done = wait_in_done;
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[0].job));
    ASSERT(is_done(&on.g[0]));
    ASSERT_INT(1 + EDEADLK, atomic_load(&told_in_done));
    let_go(&on.g[0]);
    ASSERT_INT(0, bulkhead_reclaim(&on.g[0].job, PLIM_S(PATIENCE_S)));
    ENDS_WELL();
}

/* A job that waits for others when it is stuck, and again in its done. */
typedef struct late_waiter {
    bulkhead_job job;
    int errors[4];
    atomic_bool ended;
} late_waiter;

static void submit_and_wait(late_waiter *w, int which)
{
    w->errors[2 * which] = bulkhead_submit(&on.b, &on.g[which].job);
    w->errors[2 * which + 1] = bulkhead_wait(&on.g[which].job, PLIM_FOREVER);
}

static int wait_when_stuck(bulkhead_job *job)
{
    while (!bulkhead_job_cancelled(job)) {
        rest(PLIM_US(100));
    }
    submit_and_wait(job->arg, 0);
    return 0;
}

static void wait_in_late_done(bulkhead_job *job)
{
    late_waiter *w = job->arg;
    submit_and_wait(w, 1);
    atomic_store(&w->ended, true);
}

TEST a_stuck_job_may_wait_for_others(void)
{
    static late_waiter w;
    memset((void *)&w, 0, sizeof w);
    w.job = (bulkhead_job){.run = wait_when_stuck,
                           .done = wait_in_late_done,
                           .arg = &w,
                           .detached = true,
                           .run_timeout_ns = PLIM_MS(1)};
    ASSERT(make(&on.b, BULKHEAD_ASYNC, 2, 0));
    ASSERT_INT(0, bulkhead_submit(&on.b, &w.job));
    for (int i = 0; i < 2; i++) {
        ASSERT(has_entered(&on.g[i]));
        ASSERT(EVENTUALLY(waiters_of(&on.g[i].job) == 1));
        let_go(&on.g[i]);
    }
    ASSERT(EVENTUALLY(atomic_load(&w.ended)));
    for (int i = 0; i < 4; i++) {
        ASSERT_INT(0, w.errors[i]);
    }
    ENDS_WELL();
}

SUITE(run_timeouts_suite)
{
    SET_SETUP(set_the_stage, NULL);
    SET_TEARDOWN(clear_the_stage, NULL);
    RUN_TEST(the_done_of_a_job_that_timed_out_must_not_wait_for_it);
    RUN_TESTp(a_body_that_takes_too_long_times_out_and_keeps_its_permit, false);
    RUN_TESTp(a_body_that_takes_too_long_times_out_and_keeps_its_permit, true);
    RUN_TEST(with_one_permit_a_stuck_body_stops_the_rest_until_a_resize);
    RUN_TEST(a_detached_job_that_timed_out_is_done_when_its_body_is);
    RUN_TEST(a_body_cannot_reclaim_itself);
    RUN_TEST(invoke_waits_for_the_end_of_a_body_that_timed_out);
    RUN_TEST(short_bodies_do_not_time_out);
    RUN_TEST(a_timeout_may_race_with_the_end_of_the_body);
    RUN_TEST(a_stuck_job_may_wait_for_others);
}
