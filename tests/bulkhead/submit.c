/* SPDX-License-Identifier: MIT
 *
 * Jobs: submit, wait, detached jobs, and submitters that wait for a place.
 */

TEST a_job_runs_once_and_is_done_once(void)
{
    on.g[0].result = 42;
    ASSERT(make(&on.b, BULKHEAD_ASYNC, 1, 0));
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[0].job));
    ASSERT(has_entered(&on.g[0]));
    ASSERT_INT(ETIMEDOUT, bulkhead_wait(&on.g[0].job, PLIM_MS(5)));
    ASSERT_INT(ETIMEDOUT, bulkhead_wait(&on.g[0].job, 0));
    ASSERT_INT(ETIMEDOUT, bulkhead_wait(&on.g[0].job, INT64_MIN));
    let_go(&on.g[0]);
    ASSERT(is_done(&on.g[0]));
    ASSERT_INT(1, atomic_load(&on.g[0].dones)); /* wait returns after done has */
    ASSERT_INT(BULKHEAD_FAILED, on.g[0].job.outcome);
    ASSERT_INT(BULKHEAD_FAILED, on.g[0].seen);
    ASSERT_INT(42, on.g[0].job.result);
    ASSERT_INT(1, on.g[0].job.attempt);
    ASSERT_INT(0, in_use(&on.b));
    ASSERT_INT(0, bulkhead_wait(&on.g[0].job, 0)); /* again, and for ever after */
    ASSERT_INT(0, bulkhead_wait(&on.g[0].job, PLIM_FOREVER));
    ASSERT_ENDS_WELL();
    ASSERT_INT(1, atomic_load(&on.g[0].runs));
    ASSERT_INT(1, atomic_load(&on.g[0].dones));
    PASS();
}

TEST bad_jobs_are_refused(void)
{
    ASSERT(make(&on.b, BULKHEAD_ASYNC, 1, 0));
    bulkhead_job bad[] = {
        {.run = NULL},
        {.run = run_nothing, .delay_ns = -1},
        {.run = run_nothing, .delay_ns = INT64_MIN},
        {.run = run_nothing, .start_within_ns = -1},
        {.run = run_nothing, .run_timeout_ns = -2},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        ASSERT_INT(EINVAL, bulkhead_submit(&on.b, &bad[i]));
        ASSERT_INT(EINVAL, bulkhead_submit_for(&on.b, &bad[i], PLIM_MS(1)));
        ASSERT_INT(EINVAL, bulkhead_wait(&bad[i], 0));
    }
    ASSERT_U64(0, bulkhead_snapshot(&on.b).accepted);
    ENDS_WELL();
}

TEST what_was_never_submitted_is_told_so(void)
{
    ASSERT(make(&on.other, BULKHEAD_ASYNC, 1, 0));
    ASSERT(make(&on.b, BULKHEAD_ASYNC, 1, 0));
    on.job[0] = (bulkhead_job){.run = run_nothing};
    ASSERT_INT(EINVAL, bulkhead_wait(&on.job[0], PLIM_FOREVER));
    ASSERT_INT(EINVAL, bulkhead_reclaim(&on.job[0], PLIM_FOREVER));
    ASSERT_INT(EINVAL, bulkhead_cancel(&on.other, &on.job[0]));
    ASSERT_FALSE(bulkhead_job_cancelled(&on.job[0]));
    ASSERT_INT(0, bulkhead_submit(&on.other, &on.g[0].job));
    ASSERT_INT(EINVAL, bulkhead_cancel(&on.b, &on.g[0].job));
    let_go(&on.g[0]);
    ASSERT(is_done(&on.g[0]));
    ASSERT_INT(EINVAL, bulkhead_cancel(&on.b, &on.g[0].job));
    ASSERT_INT(EALREADY, bulkhead_cancel(&on.other, &on.g[0].job));
    ASSERT_ENDS_FIRST();
    ENDS_WELL();
}

TEST a_job_in_flight_is_not_taken_again(void)
{
    ASSERT(make(&on.other, BULKHEAD_ASYNC, 1, 0));
    ASSERT(make(&on.b, BULKHEAD_ASYNC, 1, 0));
    on.g[2].job.delay_ns = PLIM_S(1000);
    for (int i = 0; i < 3; i++) {
        ASSERT_INT(0, bulkhead_submit(&on.other, &on.g[i].job)); /* runs; waits; is delayed */
    }
    ASSERT(has_entered(&on.g[0]));
    for (int i = 0; i < 3; i++) {
        ASSERT_INT(EBUSY, bulkhead_submit(&on.other, &on.g[i].job));
        ASSERT_INT(EBUSY, bulkhead_submit(&on.b, &on.g[i].job));
        ASSERT_INT(EBUSY, bulkhead_submit_for(&on.other, &on.g[i].job, PLIM_MS(1)));
        ASSERT_INT(EBUSY, bulkhead_reclaim(&on.g[i].job, PLIM_MS(1)));
    }
    ASSERT_INT(0, bulkhead_cancel(&on.other, &on.g[2].job));
    let_all_go(on.g, 2);
    ASSERT(is_done(&on.g[0]));
    ASSERT(is_done(&on.g[1]));
    ASSERT_INT(1, atomic_load(&on.g[0].runs));
    ASSERT_INT(1, atomic_load(&on.g[1].runs));
    /* Done: it may go again, also to another one, as often as one likes. */
    for (int i = 0; i < 4; i++) {
        let_go(&on.g[0]);
        ASSERT_INT(0, bulkhead_submit(i % 2 == 0 ? &on.b : &on.other, &on.g[0].job));
        ASSERT(is_done(&on.g[0]));
        ASSERT_INT(BULKHEAD_SUCCEEDED, on.g[0].job.outcome);
    }
    ASSERT_INT(5, atomic_load(&on.g[0].runs));
    ASSERT_INT(5, atomic_load(&on.g[0].dones));
    ASSERT_ENDS_FIRST();
    ENDS_WELL();
}

TEST many_threads_may_wait_for_one_job(void)
{
    enum { N = 64 };
    ASSERT(make(&on.b, BULKHEAD_ASYNC, 1, 0));
    for (int round = scaled(8); round > 0; round--) {
        ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[0].job));
        for (int i = 0; i < N; i++) {
            memset((void *)&on.c[i], 0, sizeof on.c[i]);
            on.c[i].call = WAIT;
            on.c[i].gate = &on.g[0];
            on.c[i].timeout_ns = i % 4 == 3 ? PLIM_MS(1) : PLIM_FOREVER;
            start_call(&on.c[i]);
        }
        for (int i = 3; i < N; i += 4) {
            ASSERT(finished(&on.c[i]));
            ASSERT_INT(ETIMEDOUT, on.c[i].error);
            ASSERT(on.c[i].took_ns >= PLIM_MS(1));
        }
        let_go(&on.g[0]);
        for (int i = 0; i < N; i++) {
            if (i % 4 != 3) {
                ASSERT(finished(&on.c[i]));
                ASSERT_INT(0, on.c[i].error);
            }
        }
        for (int i = 0; i < 8; i++) { /* and those who come when it is done */
            on.c[i].timeout_ns = i % 2 == 0 ? PLIM_FOREVER : 0;
            start_call(&on.c[i]);
        }
        join_calls(on.c, 8);
        for (int i = 0; i < 8; i++) {
            ASSERT_INT(0, on.c[i].error);
        }
    }
    ENDS_WELL();
}

/* Asks again and again, and counts the times when the job is not done. */
static plim_thread_result ask_whether_it_is_done(void *arg)
{
    member *m = arg;
    crowd *c = m->crowd;
    wait_for_go(c);
    for (int i = 0; i < c->rounds; i++) {
        int64_t timeout_ns = m->number == 0 ? 0 : PLIM_FOREVER;
        bool done = bulkhead_wait(&on.g[0].job, timeout_ns) == 0 &&
                    bulkhead_reclaim(&on.g[0].job, timeout_ns) == 0;
        atomic_fetch_add(&c->wrong, !done);
    }
    return 0;
}

TEST a_job_that_is_done_is_done_for_all_who_ask(bulkhead_outcome outcome)
{
    enum { N = 4 };
    member m[N];
    bulkhead_options options = {.type = BULKHEAD_ASYNC,
                                .run_timeout_ns = outcome == BULKHEAD_TIMED_OUT ? PLIM_MS(1) : 0};
    crowd c = {.rounds = scaled(5000)};
    ASSERT_INT(0, bulkhead_init(&on.b, &options));
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[0].job));
    if (outcome == BULKHEAD_TIMED_OUT) {
        ASSERT(is_done(&on.g[0]));
    }
    let_go(&on.g[0]);
    ASSERT(is_done(&on.g[0]));
    ASSERT_INT(0, bulkhead_reclaim(&on.g[0].job, PLIM_S(PATIENCE_S)));
    ASSERT_INT(outcome, on.g[0].job.outcome);
    start_crowd(&c, m, N, ask_whether_it_is_done);
    join_crowd(m, N);
    ASSERT_INT(0, atomic_load(&c.wrong));
    ENDS_WELL();
}

TEST nobody_may_wait_for_a_detached_job(void)
{
    on.g[0].job.detached = true;
    ASSERT(make(&on.b, BULKHEAD_ASYNC, 1, 0));
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[0].job));
    ASSERT(has_entered(&on.g[0]));
    ASSERT_INT(EINVAL, bulkhead_wait(&on.g[0].job, PLIM_FOREVER));
    ASSERT_INT(EINVAL, bulkhead_reclaim(&on.g[0].job, PLIM_FOREVER));
    let_go(&on.g[0]);
    ASSERT(EVENTUALLY(atomic_load(&on.g[0].dones) == 1));
    ENDS_WELL();
}

static struct chain {
    atomic_int left, freed, refused;
} chain;

static void set_the_chain(void *data)
{
    memset((void *)&chain, 0, sizeof chain);
    set_the_stage(data);
}

static void free_in_done(bulkhead_job *job)
{
    free(job);
    atomic_fetch_add(&chain.freed, 1);
}

TEST a_detached_job_may_be_freed_in_done(void)
{
    ASSERT(make(&on.b, BULKHEAD_ASYNC, 2, 0));
    int n = scaled(2000);
    for (int i = 0; i < n; i++) {
        bulkhead_job *job = calloc(1, sizeof *job);
        ASSERT(job != NULL);
        job->run = run_nothing;
        job->done = free_in_done;
        job->detached = true;
        ASSERT_INT(0, bulkhead_submit(&on.b, job));
    }
    ASSERT_INT(0, bulkhead_wait_idle(&on.b, PLIM_S(PATIENCE_S)));
    ASSERT(EVENTUALLY(atomic_load(&chain.freed) == n));
    ENDS_WELL();
}

static void again_in_done(bulkhead_job *job)
{
    if (atomic_fetch_sub(&chain.left, 1) > 1 && bulkhead_submit(&on.b, job) != 0) {
        atomic_fetch_add(&chain.refused, 1);
    }
}

TEST a_detached_job_may_be_submitted_again_in_done(void)
{
    atomic_store(&chain.left, scaled(2000));
    on.job[0] = (bulkhead_job){.run = run_nothing, .done = again_in_done, .detached = true};
    ASSERT(make(&on.b, BULKHEAD_ASYNC, 1, PLIM_NONE)); /* its permit is free by then: always room */
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.job[0]));
    ASSERT(EVENTUALLY(atomic_load(&chain.left) == 0));
    ASSERT_INT(0, atomic_load(&chain.refused));
    ENDS_WELL();
}

static void try_in_done(bulkhead_job *job)
{
    gate *g = job->arg;
    g->result = bulkhead_try_enter(&on.b);
    if (g->result == 0) {
        bulkhead_leave(&on.b);
    }
    atomic_fetch_add(&g->dones, 1);
}

/* So who waits for it finds it free, and a detached job has room to come again. */
TEST the_permit_is_given_back_after_done_or_before_if_detached(bool detached)
{
    ASSERT(make(&on.b, BULKHEAD_ASYNC, 1, 0));
    on.g[0].job.run = run_nothing;
    on.g[0].job.done = try_in_done;
    on.g[0].job.detached = detached;
    on.g[0].result = -1;
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[0].job));
    if (!detached) {
        ASSERT(is_done(&on.g[0]));
        ASSERT_INT(0, in_use(&on.b));
    }
    ASSERT(EVENTUALLY(atomic_load(&on.g[0].dones) == 1));
    ASSERT_ENDS_WELL();
    ASSERT_INT(detached ? 0 : EAGAIN, on.g[0].result);
    PASS();
}

TEST a_submit_does_not_wait_for_a_place_unless_told(void)
{
    ASSERT(make(&on.b, BULKHEAD_ASYNC, 1, 1));
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[0].job));
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[1].job));
    ASSERT_INT(EAGAIN, bulkhead_submit(&on.b, &on.g[2].job));
    ASSERT_INT(ETIMEDOUT, bulkhead_submit_for(&on.b, &on.g[2].job, 0));
    ASSERT_INT(ETIMEDOUT, bulkhead_submit_for(&on.b, &on.g[2].job, INT64_MIN));
    int64_t from = plim_now_();
    ASSERT_INT(ETIMEDOUT, bulkhead_submit_for(&on.b, &on.g[2].job, PLIM_MS(4)));
    ASSERT(plim_now_() - from >= PLIM_MS(4));
    ASSERT_U64(4, bulkhead_snapshot(&on.b).rejected);
    ASSERT_INT(EINVAL, bulkhead_wait(&on.g[2].job, 0)); /* it never was let in */
    let_all_go(on.g, 3);
    ASSERT(is_done(&on.g[0]));
    ASSERT(is_done(&on.g[1]));
    ASSERT_INT(0, bulkhead_submit_for(&on.b, &on.g[2].job, 0));
    ASSERT(is_done(&on.g[2]));
    ENDS_WELL();
}

TEST the_timeout_of_the_options_is_that_of_submit(int64_t timeout_ns, int expected)
{
    bulkhead_options options = {.type = BULKHEAD_ASYNC, .queue = 1, .timeout_ns = timeout_ns};
    ASSERT_INT(0, make_with(&on.b, &options));
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[0].job));
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[1].job));
    int64_t from = plim_now_();
    ASSERT_INT(expected, bulkhead_submit(&on.b, &on.g[2].job));
    ASSERT(plim_now_() - from >= (timeout_ns > 0 ? timeout_ns : 0));
    let_all_go(on.g, 2);
    ENDS_WELL();
}

/* What makes room by itself does so after that time; *in_time tells that all waited before that. */
static greatest_test_res both_get_a_place(int how, int64_t ns, bool *in_time)
{
    caller *waiter = &on.c[2];
    *waiter = (caller){.call = ENTER_FOR, .timeout_ns = ns};
    gates_init(on.g, 4);
    ASSERT(make(&on.b, BULKHEAD_ASYNC, 1, 1));
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[0].job));
    ASSERT(has_entered(&on.g[0]));
    if (how == BY_GIVING_UP) {
        start_call(waiter);
        ASSERT(EVENTUALLY(queued(&on.b) == 1 || atomic_load(&waiter->done)));
    } else {
        on.g[1].job.start_within_ns = how == BY_EXPIRY ? ns : 0;
        ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[1].job));
    }
    for (int i = 0; i < 2; i++) {
        on.c[i] = (caller){.call = SUBMIT_FOR, .gate = &on.g[2 + i], .timeout_ns = PLIM_FOREVER};
        start_call(&on.c[i]);
        *in_time = EVENTUALLY(waiters(&on.b.room) == i + 1 || atomic_load(&on.c[0].done)) &&
                   !atomic_load(&on.c[0].done);
        ASSERT(*in_time || how == BY_GIVING_UP || how == BY_EXPIRY);
    }
    switch (how) {
    case BY_END:
        let_go(&on.g[0]);
        break;
    case BY_CANCEL:
        ASSERT_INT(0, bulkhead_cancel(&on.b, &on.g[1].job));
        break;
    case BY_RESIZE:
        ASSERT_INT(0, bulkhead_resize(&on.b, 1, 2));
        break;
    case BY_PERMIT:
        ASSERT_INT(0, bulkhead_resize(&on.b, 2, 1));
        break;
    default:
        break;
    }
    ASSERT(finished(&on.c[0]));
    ASSERT_INT(0, on.c[0].error);
    ASSERT_FALSE(atomic_load(&on.c[1].done));
    let_all_go(on.g, 4);
    ASSERT(finished(&on.c[1]));
    ASSERT_INT(0, on.c[1].error);
    ASSERT(on.c[0].place < on.c[1].place);
    if (how == BY_GIVING_UP) {
        ASSERT(finished(waiter));
        ASSERT_INT(ETIMEDOUT, waiter->error);
    } else {
        ASSERT(is_done(&on.g[1]));
        ASSERT_INT(how == BY_CANCEL   ? BULKHEAD_CANCELLED
                   : how == BY_EXPIRY ? BULKHEAD_EXPIRED
                                      : BULKHEAD_SUCCEEDED,
                   on.g[1].job.outcome);
    }
    ASSERT_ENDS_WELL();
    ASSERT_INT(1, atomic_load(&on.g[2].runs));
    ASSERT_INT(1, atomic_load(&on.g[3].runs));
    PASS();
}

/* Whatever makes room lets in who waits for it, and the first one first. */
TEST a_submitter_that_waits_for_a_place_gets_it(int how)
{
    bool in_time = false;
    for (int64_t ns = PLIM_MS(4); !in_time; ns *= 4) { /* again, if that was too short */
        ASSERT(ns < PLIM_S(PATIENCE_S));
        CHECK_CALL(both_get_a_place(how, ns, &in_time));
    }
    PASS();
}

TEST submitters_for_a_place_give_up_in_time_and_leave_nothing(void)
{
    enum { N = 4 };
    ASSERT(make(&on.b, BULKHEAD_ASYNC, 1, 1));
    for (int round = scaled(30); round > 0; round--) {
        gates_init(on.g, 2 + N);
        ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[0].job));
        ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[1].job));
        for (int i = 0; i < N; i++) {
            on.c[i] =
                (caller){.call = SUBMIT_FOR, .gate = &on.g[2 + i], .timeout_ns = PLIM_US(500)};
            start_call(&on.c[i]);
        }
        rest(PLIM_US(500));      /* as long as their time */
        let_all_go(on.g, 2 + N); /* race with the timeouts */
        join_calls(on.c, N);
        ASSERT_INT(0, bulkhead_wait_idle(&on.b, PLIM_S(PATIENCE_S)));
        for (int i = 0; i < N; i++) {
            ASSERT(on.c[i].error == 0 || on.c[i].error == ETIMEDOUT);
            ASSERT_INT(on.c[i].error == 0, atomic_load(&on.g[2 + i].runs));
            ASSERT_INT(on.c[i].error == 0, atomic_load(&on.g[2 + i].dones));
        }
        ASSERT_FIGURES(&on.b, 0, 0);
    }
    ENDS_WELL();
}

static int end_thread_job(bulkhead_job *job)
{
    return end_the_thread(job);
}

TEST a_job_may_end_its_thread(void)
{
    if (!THREAD_ENDS_ARE_NOTICED) {
        SKIPm("the end of a thread is noticed on POSIX systems only");
    }
    on.g[0].job.run = end_thread_job;
    ASSERT(make(&on.b, BULKHEAD_ASYNC, 1, 0));
    for (int i = 1; i <= 5; i++) {
        ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[0].job));
        ASSERT(is_done(&on.g[0]));
        ASSERT_INT(BULKHEAD_FAILED, on.g[0].job.outcome);
        ASSERT_INT(ECANCELED, on.g[0].job.result);
        ASSERT_INT(i, atomic_load(&on.g[0].dones));
        on.job[1] = (bulkhead_job){.run = run_nothing};
        ASSERT_INT(0, bulkhead_submit(&on.b, &on.job[1]));
        ASSERT_INT(0, bulkhead_wait(&on.job[1], PLIM_S(PATIENCE_S)));
    }
    ENDS_WELL();
}

/* It would end one thread after the other. */
TEST a_job_that_ends_its_thread_is_not_tried_again(void)
{
    if (!THREAD_ENDS_ARE_NOTICED) {
        SKIPm("the end of a thread is noticed on POSIX systems only");
    }
    bulkhead_options options = {.type = BULKHEAD_ASYNC, .attempts = 3};
    ASSERT_INT(0, make_with(&on.b, &options));
    on.g[0].job.run = end_thread_job;
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[0].job));
    ASSERT(is_done(&on.g[0]));
    ASSERT_INT(BULKHEAD_FAILED, on.g[0].job.outcome);
    ASSERT_INT(ECANCELED, on.g[0].job.result);
    ASSERT_INT(1, on.g[0].job.attempt);
    ASSERT_U64(0, bulkhead_snapshot(&on.b).retried);
    ASSERT_INT(0, bulkhead_close(&on.b, BULKHEAD_DRAIN, PLIM_S(PATIENCE_S)));
    ENDS_WELL();
}

TEST a_call_waits_for_a_place_as_a_submit_does(void)
{
    bulkhead_options options = {
        .type = BULKHEAD_ASYNC, .queue = 1, .timeout_ns = PLIM_S(PATIENCE_S)};
    ASSERT_INT(0, make_with(&on.b, &options));
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[0].job));
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[1].job));
    on.g[2].result = 3;
    on.c[0] = (caller){.call = INVOKE, .gate = &on.g[2]};
    start_call(&on.c[0]);
    ASSERT(waits(&on.c[0], &on.b.room, 1));
    let_all_go(on.g, 3);
    ASSERT(finished(&on.c[0]));
    ASSERT_INT(0, on.c[0].error);
    ASSERT_INT(3, on.c[0].result);
    ASSERT_INT(on.g[1].place + 1, on.g[2].place);
    ENDS_WELL();
}

/* The time of invoke is that of its wait for a permit. */
TEST a_call_that_has_begun_is_waited_for_beyond_its_time(void)
{
    bulkhead_options options = {.type = BULKHEAD_ASYNC, .timeout_ns = PLIM_MS(1)};
    ASSERT_INT(0, make_with(&on.b, &options));
    do { /* again, if a worker was not there in time */
        on.c[0] = (caller){.call = INVOKE, .gate = &on.g[0]};
        start_call(&on.c[0]);
        ASSERT(EVENTUALLY(atomic_load(&on.g[0].runs) != 0 || atomic_load(&on.c[0].done)));
    } while (atomic_load(&on.c[0].done) && finished(&on.c[0]));
    rest(PLIM_MS(2)); /* its time is over, by the real clock: a bulkhead has no other */
    ASSERT_FALSE(atomic_load(&on.c[0].done));
    on.g[0].result = 4;
    let_go(&on.g[0]);
    ASSERT(finished(&on.c[0]));
    ASSERT_INT(0, on.c[0].error);
    ASSERT_INT(4, on.c[0].result);
    ENDS_WELL();
}

TEST a_call_in_the_queue_is_told_of_an_abort(void)
{
    ASSERT(make(&on.b, BULKHEAD_ASYNC, 1, 0));
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[0].job));
    on.c[0] = (caller){.call = INVOKE};
    ASSERT(queue_up(&on.c[0], 1));
    ASSERT_INT(ETIMEDOUT, bulkhead_close(&on.b, BULKHEAD_ABORT, 0));
    ASSERT(finished(&on.c[0]));
    ASSERT_INT(ESHUTDOWN, on.c[0].error);
    let_go(&on.g[0]);
    ENDS_WELL();
}

SUITE(submit_suite)
{
    SET_SETUP(set_the_chain, NULL);
    SET_TEARDOWN(clear_the_stage, NULL);
    RUN_TEST(a_job_runs_once_and_is_done_once);
    RUN_TEST(bad_jobs_are_refused);
    RUN_TEST(what_was_never_submitted_is_told_so);
    RUN_TEST(a_job_in_flight_is_not_taken_again);
    RUN_TEST(many_threads_may_wait_for_one_job);
    RUN_TESTp(a_job_that_is_done_is_done_for_all_who_ask, BULKHEAD_SUCCEEDED);
    RUN_TESTp(a_job_that_is_done_is_done_for_all_who_ask, BULKHEAD_TIMED_OUT);
    RUN_TEST(nobody_may_wait_for_a_detached_job);
    RUN_TEST(a_detached_job_may_be_freed_in_done);
    RUN_TEST(a_detached_job_may_be_submitted_again_in_done);
    RUN_TESTp(the_permit_is_given_back_after_done_or_before_if_detached, false);
    RUN_TESTp(the_permit_is_given_back_after_done_or_before_if_detached, true);
    RUN_TEST(a_submit_does_not_wait_for_a_place_unless_told);
    RUN_TESTp(the_timeout_of_the_options_is_that_of_submit, 0, EAGAIN);
    RUN_TESTp(the_timeout_of_the_options_is_that_of_submit, PLIM_NONE, EAGAIN);
    RUN_TESTp(the_timeout_of_the_options_is_that_of_submit, PLIM_MS(4), ETIMEDOUT);
    RUN_TESTp(a_submitter_that_waits_for_a_place_gets_it, BY_END);
    RUN_TESTp(a_submitter_that_waits_for_a_place_gets_it, BY_CANCEL);
    RUN_TESTp(a_submitter_that_waits_for_a_place_gets_it, BY_EXPIRY);
    RUN_TESTp(a_submitter_that_waits_for_a_place_gets_it, BY_GIVING_UP);
    RUN_TESTp(a_submitter_that_waits_for_a_place_gets_it, BY_RESIZE);
    RUN_TESTp(a_submitter_that_waits_for_a_place_gets_it, BY_PERMIT);
    RUN_TEST(submitters_for_a_place_give_up_in_time_and_leave_nothing);
    RUN_TEST(a_job_may_end_its_thread);
    RUN_TEST(a_job_that_ends_its_thread_is_not_tried_again);
    RUN_TEST(a_call_waits_for_a_place_as_a_submit_does);
    RUN_TEST(a_call_that_has_begun_is_waited_for_beyond_its_time);
    RUN_TEST(a_call_in_the_queue_is_told_of_an_abort);
}
