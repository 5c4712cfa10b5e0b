/* SPDX-License-Identifier: MIT
 *
 * Fewer permits while jobs wait inside of their own bulkhead. When all permits that are left belong
 * to threads that wait here for ever, these get EDEADLK until one goes on. The guests are those of
 * blocked.c.
 */

enum { BY_WAIT, BY_ENTER, BY_INVOKE, BY_INVOKE_WITHOUT_ROOM, BY_SUBMIT, WAYS };

/* Both guests wait, in that way, and rely on a third job, which gives its permit back. The queue is
 * full for those who submit, or invoke without room. */
static bool both_wait(int way)
{
    for (int i = 0; i < 2; i++) {
        invite(&guests[i], false, way == BY_WAIT ? &on.g[1].job : NULL);
        guests[i].enters = way == BY_ENTER;
        guests[i].invokes = way == BY_INVOKE || way == BY_INVOKE_WITHOUT_ROOM;
        guests[i].submits = way == BY_SUBMIT ? &on.job[i] : NULL;
        on.job[i] = (bulkhead_job){.run = run_nothing};
        if (bulkhead_submit(&on.b, &guests[i].job) != 0 || !comes(&guests[i])) {
            return false;
        }
    }
    return bulkhead_submit(&on.b, &on.g[0].job) == 0 && has_entered(&on.g[0]) &&
           bulkhead_submit(&on.b, &on.g[1].job) == 0 && goes_to_wait(&guests[0], 1) &&
           goes_to_wait(&guests[1], 2);
}

/* Of two permits each told guest gives one back, for the other. If there is one left, the first
 * that is told gives it back in vain. */
/* How many wait for the job. It is the last one in the queue, and does not end in between. */
static int awaits_of(bulkhead_job *job)
{
    bulkhead_section_ s = bulkhead_lock_(&on.b);
    int n = 0;
    for (bulkhead_await_ *at = job->waiters_; at != NULL; at = at->next) {
        n++;
    }
    bulkhead_unlock_(&on.b, &s);
    return n;
}

TEST a_shrink_tells_those_who_keep_all_permits(int way, int32_t permits)
{
    bulkhead_options options = {.type = BULKHEAD_ASYNC, .permits = 3};
    options.queue = way >= BY_INVOKE_WITHOUT_ROOM ? 1 : 0;
    options.timeout_ns = way == BY_INVOKE_WITHOUT_ROOM ? PLIM_FOREVER : 0;
    ASSERT_INT(0, make_with(&on.b, &options));
    ASSERT(both_wait(way));
    ASSERT_INT(0, bulkhead_resize(&on.b, permits, PLIM_KEEP));
    ASSERT_INT(0, atomic_load(&guests[0].over) + atomic_load(&guests[1].over));
    let_go(&on.g[0]);
    let_go(&on.g[1]);
    ASSERT(is_over(&guests[0]) && is_over(&guests[1]));
    const int told = (guests[0].error == EDEADLK) + (guests[1].error == EDEADLK);
    ASSERT_INT(3 - permits, told);
    ASSERT_INT(2 - told, (guests[0].error == 0) + (guests[1].error == 0));
    ASSERT(is_done(&on.g[0]) && is_done(&on.g[1]));
    ENDS_WELL();
}

/* Others may wait for the same job, and are told nothing. */
TEST a_thread_outside_waits_on(void)
{
    ASSERT(make(&on.b, BULKHEAD_ASYNC, 3, 0));
    ASSERT(both_wait(BY_WAIT));
    on.c[0] = (caller){.call = WAIT, .gate = &on.g[1], .timeout_ns = PLIM_FOREVER};
    start_call(&on.c[0]);
    ASSERT(EVENTUALLY(awaits_of(&on.g[1].job) == 3));
    ASSERT_INT(0, bulkhead_resize(&on.b, 2, PLIM_KEEP));
    let_go(&on.g[0]);
    ASSERT(has_entered(&on.g[1]));
    ASSERT(!atomic_load(&on.c[0].done));
    ASSERT_INT(EDEADLK, guests[1].error); /* the last that came */
    let_go(&on.g[1]);
    join_calls(on.c, 1);
    ASSERT_INT(0, on.c[0].error);
    ASSERT(is_over(&guests[0]));
    ASSERT_INT(0, guests[0].error);
    ENDS_WELL();
}

/* Permits were free when it began to wait, for a job that is due later; the resize takes them. A
 * done without a permit waits for the same: it is not what keeps the others. */
TEST a_shrink_that_takes_the_last_free_permit_tells_at_once(int64_t timeout_ns)
{
    ASSERT(make(&on.b, BULKHEAD_ASYNC, 3, 0));
    guest *waits = &guests[0], *done = &guests[1];
    on.job[0] = (bulkhead_job){.run = run_nothing, .delay_ns = PLIM_S(PATIENCE_S) * 4};
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.job[0]));
    invite(waits, false, &on.job[0]);
    ASSERT_INT(0, bulkhead_submit(&on.b, &waits->job));
    ASSERT(comes(waits) && goes_to_wait(waits, 1));
    invite(done, true, &on.job[0]);
    done->timeout_ns = timeout_ns;
    ASSERT_INT(0, bulkhead_submit(&on.b, &done->job));
    ASSERT(comes(done) && goes_to_wait(done, 2));
    ASSERT_INT(0, bulkhead_resize(&on.b, 2, PLIM_KEEP));
    ASSERT_INT(0, atomic_load(&waits->over) + atomic_load(&done->over));
    ASSERT_INT(0, bulkhead_resize(&on.b, 1, PLIM_KEEP));
    ASSERT(is_over(waits));
    ASSERT_INT(EDEADLK, waits->error);
    ASSERT_INT(0, atomic_load(&done->over));
    ASSERT_INT(0, bulkhead_cancel(&on.b, &on.job[0]));
    ASSERT(is_over(done));
    ASSERT_INT(0, done->error);
    ENDS_WELL();
}

/* A wait with a limit ends by itself, so others may rely on it. */
TEST a_shrink_tells_nobody_while_one_wait_has_a_limit(void)
{
    ASSERT(make(&on.b, BULKHEAD_ASYNC, 3, 0));
    guests[0].timeout_ns = PLIM_S(PATIENCE_S);
    ASSERT(both_wait(BY_WAIT));
    ASSERT_INT(0, bulkhead_resize(&on.b, 2, PLIM_KEEP));
    let_go(&on.g[0]);
    ASSERT(is_done(&on.g[0]));
    ASSERT_FIGURES(&on.b, 2, 1);
    ASSERT_INT(0, atomic_load(&guests[0].over) + atomic_load(&guests[1].over));
    ASSERT_INT(0, bulkhead_resize(&on.b, 3, PLIM_KEEP)); /* this is what ends them */
    let_go(&on.g[1]);
    ASSERT(is_over(&guests[0]) && is_over(&guests[1]));
    ASSERT_INT(0, guests[0].error);
    ASSERT_INT(0, guests[1].error);
    ENDS_WELL();
}

/* A call that has failed waits for its second attempt, without a thread, and its caller for it. */
static struct failing_call {
    int error, result;
} failing_call;

static int fail_with_7(void *arg)
{
    (void)arg;
    return 7;
}

static int call_what_fails(bulkhead_job *job)
{
    (void)job;
    failing_call.error = bulkhead_invoke(&on.b, fail_with_7, NULL, &failing_call.result);
    return 0;
}

/* No permit is left for the second attempt, so the first was the last. */
TEST a_shrink_ends_a_call_between_two_attempts(int64_t timeout_ns)
{
    bulkhead_options options = {.type = BULKHEAD_ASYNC, .permits = 2, .timeout_ns = timeout_ns};
    options.attempts = 2;
    options.retry_delay_ns = PLIM_S(PATIENCE_S) * 4;
    options.retry_delay_max_ns = PLIM_S(PATIENCE_S) * 4;
    ASSERT_INT(0, make_with(&on.b, &options));
    failing_call = (struct failing_call){-1, -1};
    on.job[0] = (bulkhead_job){.run = call_what_fails, .attempts = 1};
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.job[0]));
    ASSERT(EVENTUALLY(bulkhead_snapshot(&on.b).delayed == 1));
    ASSERT_INT(0, bulkhead_resize(&on.b, 1, PLIM_KEEP));
    ASSERT_INT(0, bulkhead_wait(&on.job[0], PLIM_S(PATIENCE_S)));
    ASSERT_INT(0, failing_call.error);
    ASSERT_INT(7, failing_call.result);
    ASSERT_INT(1, (int)bulkhead_snapshot(&on.b).failed);
    ENDS_WELL();
}

SUITE(shrink_suite)
{
    SET_SETUP(set_the_table, NULL);
    SET_TEARDOWN(clear_the_table, NULL);
    for (int way = BY_WAIT; way < WAYS; way++) {
        RUN_TESTp(a_shrink_tells_those_who_keep_all_permits, way, 2);
        RUN_TESTp(a_shrink_tells_those_who_keep_all_permits, way, 1);
    }
    RUN_TEST(a_thread_outside_waits_on);
    RUN_TESTp(a_shrink_that_takes_the_last_free_permit_tells_at_once, 0);
    RUN_TESTp(a_shrink_that_takes_the_last_free_permit_tells_at_once, PLIM_S(PATIENCE_S));
    RUN_TEST(a_shrink_tells_nobody_while_one_wait_has_a_limit);
    RUN_TESTp(a_shrink_ends_a_call_between_two_attempts, 0);
    RUN_TESTp(a_shrink_ends_a_call_between_two_attempts, PLIM_S(PATIENCE_S) * 4);
}
