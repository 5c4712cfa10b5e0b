/* SPDX-License-Identifier: MIT
 *
 * Retries: how often, when, and where in the queue.
 */

TEST a_failing_job_is_tried_as_often_as_told(uint32_t general, uint32_t own, int fail, int runs)
{
    bulkhead_options options = {.type = BULKHEAD_ASYNC, .attempts = general};
    ASSERT_INT(0, make_with(&on.b, &options));
    on.t[0].fail_until = fail;
    on.t[0].job.attempts = own;
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.t[0].job));
    ASSERT_INT(0, bulkhead_wait(&on.t[0].job, PLIM_S(PATIENCE_S)));
    ASSERT_INT(runs, on.t[0].runs);
    for (int i = 0; i < runs; i++) {
        ASSERT_INT(i + 1, on.t[0].attempts[i]);
    }
    ASSERT_INT(runs, on.t[0].job.attempt);
    ASSERT_INT(fail >= runs ? BULKHEAD_FAILED : BULKHEAD_SUCCEEDED, on.t[0].job.outcome);
    ASSERT_INT(fail >= runs ? runs * 10 : 0, on.t[0].job.result);
    bulkhead_stats s = bulkhead_snapshot(&on.b);
    ASSERT_U64(runs - 1, s.retried);
    ASSERT_U64(1, s.accepted);
    ASSERT_U64(fail >= runs, s.failed);
    ENDS_WELL();
}

TEST retries_keep_their_delays(int64_t most_ns)
{
    bulkhead_options options = {.type = BULKHEAD_ASYNC,
                                .attempts = 5,
                                .retry_delay_ns = PLIM_MS(1),
                                .retry_delay_max_ns = most_ns};
    ASSERT_INT(0, make_with(&on.b, &options));
    on.t[0].fail_until = 100;
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.t[0].job));
    ASSERT_INT(0, bulkhead_wait(&on.t[0].job, PLIM_S(PATIENCE_S)));
    ASSERT_INT(5, on.t[0].runs);
    for (int i = 1; i < 5; i++) {
        int64_t least_ns = PLIM_MS(1) << (i - 1);
        if (most_ns != 0 && least_ns > most_ns) {
            least_ns = most_ns;
        }
        ASSERT(on.t[0].at[i] - on.t[0].at[i - 1] >= least_ns);
    }
    ENDS_WELL();
}

typedef struct judge {
    atomic_int calls, last_result, last_attempt;
    int never; /* this result is not worth another attempt */
} judge;

static bool worth_it(void *user, int result, uint32_t attempt)
{
    judge *j = user;
    atomic_fetch_add(&j->calls, 1);
    atomic_store(&j->last_result, result);
    atomic_store(&j->last_attempt, (int)attempt);
    return result != j->never;
}

TEST a_back_off_doubles_up_to_its_most_and_is_never_the_same(void)
{
    uint64_t dice = 1;
    bool differs = false;
    for (uint32_t attempt = 1; attempt < 70; attempt++) {
        int64_t plain = attempt < 5 ? PLIM_MS(10) << (attempt - 1) : PLIM_MS(100);
        int64_t delay = bulkhead_backoff(attempt, PLIM_MS(10), PLIM_MS(100), &dice);
        ASSERT(delay >= plain && delay <= plain + plain / 4);
        differs = differs || (attempt > 5 && delay % PLIM_MS(1) != 0);
    }
    ASSERT(differs);
    ASSERT_I64(0, bulkhead_backoff(3, 0, PLIM_S(1), &dice));
    ASSERT_I64(0, bulkhead_backoff(3, -5, PLIM_S(1), &dice));
    ASSERT_I64(0, bulkhead_backoff(3, PLIM_S(1), -5, &dice));
    ASSERT_I64(INT64_MAX, bulkhead_backoff(UINT32_MAX, INT64_MAX, INT64_MAX, &dice));
    PASS();
}

TEST retryable_decides(void)
{
    static judge j;
    j = (judge){.never = 20};
    bulkhead_options options = {
        .type = BULKHEAD_ASYNC, .attempts = 10, .retryable = worth_it, .user = &j};
    ASSERT_INT(0, make_with(&on.b, &options));
    on.t[0].fail_until = 5; /* with 10, 20, ... */
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.t[0].job));
    ASSERT_INT(0, bulkhead_wait(&on.t[0].job, PLIM_S(PATIENCE_S)));
    ASSERT_INT(2, on.t[0].runs);
    ASSERT_INT(BULKHEAD_FAILED, on.t[0].job.outcome);
    ASSERT_INT(20, on.t[0].job.result);
    ASSERT_INT(2, atomic_load(&j.calls));
    ASSERT_INT(20, atomic_load(&j.last_result));
    ASSERT_INT(2, atomic_load(&j.last_attempt));
    ENDS_WELL();
}

TEST a_job_holds_no_permit_between_attempts(void)
{
    static int error = EIO;
    bulkhead_options options = {.type = BULKHEAD_ASYNC,
                                .queue = PLIM_NONE,
                                .attempts = 2,
                                .retry_delay_ns = PLIM_S(1000),
                                .retry_delay_max_ns = PLIM_S(1000)};
    ASSERT_INT(0, make_with(&on.b, &options));
    on.job[0] = (bulkhead_job){.run = run_result, .arg = &error};
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.job[0]));
    ASSERT(EVENTUALLY(bulkhead_snapshot(&on.b).delayed == 1));
    ASSERT_FIGURES(&on.b, 0, 0);
    ASSERT_INT(ETIMEDOUT, bulkhead_wait(&on.job[0], 0));
    ASSERT_INT(0, bulkhead_invoke(&on.b, nothing, NULL, NULL));
    ASSERT_INT(0, bulkhead_enter(&on.b));
    ASSERT_INT(0, bulkhead_leave(&on.b));
    ASSERT_INT(0, bulkhead_cancel(&on.b, &on.job[0]));
    ENDS_WELL();
}

static int fail_once(bulkhead_job *job)
{
    gate *g = job->arg;
    pass(g);
    return job->attempt == 1 ? EIO : 0;
}

TEST a_retry_comes_back_at_the_end_of_the_queue(int32_t queue)
{
    bulkhead_options options = {.type = BULKHEAD_ASYNC, .queue = queue, .attempts = 2};
    ASSERT_INT(0, make_with(&on.b, &options));
    on.g[0].job.run = fail_once;
    for (int i = 0; i < 3; i++) {
        ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[i].job));
    } /* the queue is full now, if queue is 2 */
    ASSERT(has_entered(&on.g[0]));
    let_all_go(on.g, 3);
    let_go(&on.g[0]);
    for (int i = 0; i < 3; i++) {
        ASSERT(is_done(&on.g[i]));
        ASSERT_INT(BULKHEAD_SUCCEEDED, on.g[i].job.outcome);
    }
    ASSERT_INT(1, on.g[1].place);
    ASSERT_INT(2, on.g[2].place);
    ASSERT_INT(3, on.g[0].place); /* of its second attempt */
    ASSERT_INT(2, atomic_load(&on.g[0].runs));
    ASSERT_INT(1, atomic_load(&on.g[0].dones));
    ENDS_WELL();
}

SUITE(retries_suite)
{
    SET_SETUP(set_the_stage, NULL);
    SET_TEARDOWN(clear_the_stage, NULL);
    RUN_TESTp(a_failing_job_is_tried_as_often_as_told, 0, 0, 9, 1);
    RUN_TESTp(a_failing_job_is_tried_as_often_as_told, 3, 0, 9, 3);
    RUN_TESTp(a_failing_job_is_tried_as_often_as_told, 3, 0, 1, 2);
    RUN_TESTp(a_failing_job_is_tried_as_often_as_told, 3, 1, 9, 1);
    RUN_TESTp(a_failing_job_is_tried_as_often_as_told, 2, 5, 9, 5);
    RUN_TESTp(a_failing_job_is_tried_as_often_as_told, 0, 4, 3, 4);
    RUN_TESTp(retries_keep_their_delays, 0);
    RUN_TESTp(retries_keep_their_delays, PLIM_US(1500));
    RUN_TEST(a_back_off_doubles_up_to_its_most_and_is_never_the_same);
    RUN_TEST(retryable_decides);
    RUN_TEST(a_job_holds_no_permit_between_attempts);
    RUN_TESTp(a_retry_comes_back_at_the_end_of_the_queue, 0);
    RUN_TESTp(a_retry_comes_back_at_the_end_of_the_queue, 2);
}
