/* SPDX-License-Identifier: MIT
 *
 * The limiter: what it learns, and that the bulkhead does what it says.
 */

/* One that notes what it is told, and says what it was told to say. */
static struct {
    atomic_int says, calls;
    atomic_int kinds[3];
    atomic_llong took;    /* by the last call, */
    atomic_int in_flight; /* how many it was then, */
    atomic_int most;      /* and at most */
    atomic_bool clock_is_off;
} told;

static uint32_t note(void *ctx, int64_t now_ns, int64_t took_ns, uint32_t in_flight, int kind)
{
    if (ctx != &told || now_ns > plim_now_() || now_ns < plim_now_() - PLIM_S(PATIENCE_S)) {
        atomic_store(&told.clock_is_off, true);
    }
    atomic_store(&told.took, took_ns);
    atomic_store(&told.in_flight, (int)in_flight);
    if ((int)in_flight > atomic_load(&told.most)) {
        atomic_store(&told.most, (int)in_flight);
    }
    atomic_fetch_add(&told.kinds[kind], 1);
    atomic_fetch_add(&told.calls, 1);
    return (uint32_t)atomic_load(&told.says);
}

static int make_limited(bulkhead_options options, int says)
{
    memset((void *)&told, 0, sizeof told);
    atomic_store(&told.says, says);
    plim_limiter limiter = {note, &told}; /* a copy is enough: it need not stay */
    options.limiter = &limiter;
    return make_with(&on.b, &options);
}

static bool was_told(int ok, int overload, int other)
{
    return atomic_load(&told.kinds[PLIM_CALL_OK]) == ok &&
           atomic_load(&told.kinds[PLIM_CALL_OVERLOAD]) == overload &&
           atomic_load(&told.kinds[PLIM_CALL_OTHER]) == other && !atomic_load(&told.clock_is_off);
}

TEST it_is_asked_at_once(void)
{
    ASSERT_INT(0, make_limited((bulkhead_options){.permits = 9}, 3));
    ASSERT_INT(3, bulkhead_snapshot(&on.b).permits);
    ASSERT(was_told(0, 0, 1));
    ASSERT_INT(0, atomic_load(&told.in_flight));
    ASSERT_INT(0, unmake(&on.b));
    ASSERT_INT(0, make_limited((bulkhead_options){.permits = 9}, 30));
    ASSERT_INT(9, bulkhead_snapshot(&on.b).permits);
    ENDS_WELL();
}

TEST without_a_function_it_is_einval(void)
{
    plim_limiter none = {NULL, NULL};
    bulkhead_options options = {.permits = 9, .limiter = &none};
    ASSERT_INT(EINVAL, make_with(&on.b, &options));
    PASS();
}

/* It is asked when a run ends; so a limit of 0 would stay for ever. */
TEST of_0_it_makes_1(void)
{
    ASSERT_INT(0, make_limited((bulkhead_options){.permits = 9}, 0));
    ASSERT_INT(1, bulkhead_snapshot(&on.b).permits);
    atomic_store(&told.says, 3);
    ASSERT_INT(0, bulkhead_invoke(&on.b, nothing, NULL, NULL));
    ASSERT_INT(3, bulkhead_snapshot(&on.b).permits);
    atomic_store(&told.says, 0);
    ASSERT_INT(0, bulkhead_invoke(&on.b, nothing, NULL, NULL));
    ASSERT_INT(1, bulkhead_snapshot(&on.b).permits);
    atomic_store(&told.says, -1); /* 2^32 - 1 */
    ASSERT_INT(0, bulkhead_invoke(&on.b, nothing, NULL, NULL));
    ASSERT_INT(9, bulkhead_snapshot(&on.b).permits);
    ENDS_UNCOUNTED();
}

/* But if there are to be none, there are none. */
TEST none_stays_none(void)
{
    ASSERT_INT(0, make_limited((bulkhead_options){.permits = PLIM_NONE, .queue = PLIM_NONE}, 5));
    ASSERT_INT(0, bulkhead_snapshot(&on.b).permits);
    ASSERT_INT(EAGAIN, bulkhead_try_enter(&on.b));
    ENDS_UNCOUNTED();
}

TEST what_a_run_returns_says_what_it_was(int type)
{
    static const int results[] = {0, ETIMEDOUT, EAGAIN, EBUSY, ECANCELED, EINVAL, -1};
    ASSERT_INT(0, make_limited((bulkhead_options){.type = type, .permits = 2}, 2));
    for (int i = 0; i < 7; i++) {
        int result = results[i], got = -2;
        on.job[i] = (bulkhead_job){.run = run_result, .arg = &result};
        ASSERT_INT(0, bulkhead_submit(&on.b, &on.job[i]));
        ASSERT_INT(0, bulkhead_wait(&on.job[i], PLIM_S(PATIENCE_S)));
        ASSERT_INT(0, bulkhead_invoke(&on.b, give, &result, &got));
        ASSERT_INT(result, got);
    }
    ASSERT(was_told(2, 6, 1 + 6));
    /* Of a permit that has come back a worker may not have told yet. */
    ASSERT(atomic_load(&told.most) <= (type == BULKHEAD_SYNC ? 1 : 2));
    ENDS_UNCOUNTED();
}

TEST it_is_told_how_long_the_run_took(int type, uint32_t flags)
{
    int64_t ns = PLIM_MS(3);
    ASSERT_INT(0, make_limited((bulkhead_options){.type = type, .permits = 2, .flags = flags}, 2));
    ASSERT_INT(0, bulkhead_invoke(&on.b, nap, &ns, NULL));
    ASSERT(atomic_load(&told.took) >= PLIM_MS(3) && atomic_load(&told.took) < PLIM_S(PATIENCE_S));
    ASSERT(was_told(1, 0, 1));
    ENDS_UNCOUNTED();
}

/* Not how long it waited for its permit. */
TEST waiting_is_no_part_of_the_time(void)
{
    ASSERT_INT(0, make_limited((bulkhead_options){.type = BULKHEAD_ASYNC, .permits = 1}, 1));
    const int64_t from = plim_now_();
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[0].job));
    on.job[1] = (bulkhead_job){.run = run_nothing};
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.job[1]));
    rest(PLIM_MS(20));
    const int64_t before = plim_now_();
    let_go(&on.g[0]);
    ASSERT_INT(0, bulkhead_wait(&on.job[1], PLIM_S(PATIENCE_S)));
    ASSERT(atomic_load(&told.took) <= plim_now_() - before);
    ASSERT(plim_now_() - from >= PLIM_MS(20));
    ENDS_WELL();
}

TEST it_is_told_how_many_run(void)
{
    ASSERT_INT(0, make_limited((bulkhead_options){.type = BULKHEAD_ASYNC, .permits = 5}, 5));
    for (int i = 0; i < 5; i++) {
        ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[i].job));
        ASSERT(has_entered(&on.g[i]));
    }
    for (int i = 0; i < 5; i++) {
        let_go(&on.g[i]);
        ASSERT(is_done(&on.g[i]));
        /* A permit that has just come back may count still. */
        ASSERT(atomic_load(&told.in_flight) >= 5 - i && atomic_load(&told.in_flight) <= 5);
    }
    ASSERT(was_told(5, 0, 1));
    ENDS_WELL();
}

TEST it_says_how_many_may(void)
{
    ASSERT_INT(0, make_limited((bulkhead_options){.type = BULKHEAD_ASYNC, .permits = 4}, 1));
    for (int i = 0; i < 4; i++) {
        ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[i].job));
    }
    ASSERT(has_entered(&on.g[0]));
    ASSERT_FIGURES(&on.b, 1, 3);
    atomic_store(&told.says, 2);
    let_go(&on.g[0]);
    ASSERT(has_entered(&on.g[1]));
    ASSERT(has_entered(&on.g[2]));
    ASSERT_FIGURES(&on.b, 2, 1);
    atomic_store(&told.says, 1);
    let_go(&on.g[1]);
    ASSERT(is_done(&on.g[1]));
    ASSERT_FIGURES(&on.b, 1, 1);
    ASSERT_INT(1, bulkhead_snapshot(&on.b).permits);
    atomic_store(&told.says, 100);
    let_go(&on.g[2]);
    ASSERT(has_entered(&on.g[3]));
    ASSERT(EVENTUALLY(bulkhead_snapshot(&on.b).permits == 4)); /* never more than were set */
    let_go(&on.g[3]);
    ASSERT(is_done(&on.g[3]));
    ENDS_WELL();
}

TEST a_resize_sets_the_most(void)
{
    ASSERT_INT(0, make_limited((bulkhead_options){.permits = 4}, 4));
    ASSERT_INT(0, bulkhead_resize(&on.b, 2, PLIM_KEEP));
    ASSERT_INT(0, bulkhead_invoke(&on.b, nothing, NULL, NULL));
    ASSERT_INT(2, bulkhead_snapshot(&on.b).permits);
    ASSERT_INT(0, bulkhead_resize(&on.b, 8, PLIM_KEEP));
    ASSERT_INT(8, bulkhead_snapshot(&on.b).permits);
    ASSERT_INT(0, bulkhead_invoke(&on.b, nothing, NULL, NULL));
    ASSERT_INT(4, bulkhead_snapshot(&on.b).permits);
    ASSERT_INT(0, bulkhead_resize(&on.b, PLIM_KEEP, 7)); /* keeps the most, too */
    atomic_store(&told.says, 9);
    ASSERT_INT(0, bulkhead_invoke(&on.b, nothing, NULL, NULL));
    ASSERT_INT(8, bulkhead_snapshot(&on.b).permits);
    ENDS_UNCOUNTED();
}

static void count_resizes(void *user, const bulkhead_event *event)
{
    atomic_fetch_add((atomic_int *)user, event->type == BULKHEAD_EVENT_RESIZED);
}

TEST only_a_change_is_a_resize(void)
{
    atomic_int resizes = 0;
    ASSERT_INT(
        0, make_limited(
               (bulkhead_options){.permits = 9, .on_event = count_resizes, .user = &resizes}, 12));
    for (int i = 0; i < 20; i++) {
        atomic_store(&told.says, i < 10 ? 12 : 5);
        ASSERT_INT(0, bulkhead_invoke(&on.b, nothing, NULL, NULL));
    }
    ASSERT_INT(1, atomic_load(&resizes));
    ENDS_UNCOUNTED();
}

TEST a_run_timeout_counts_when_it_passes(void)
{
    ASSERT_INT(0, make_limited((bulkhead_options){.type = BULKHEAD_ASYNC,
                                                  .permits = 2,
                                                  .run_timeout_ns = PLIM_MS(2)},
                               2));
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[0].job));
    ASSERT(is_done(&on.g[0]));
    ASSERT_INT(BULKHEAD_TIMED_OUT, on.g[0].job.outcome);
    ASSERT(was_told(0, 1, 1));
    ASSERT(atomic_load(&told.took) >= PLIM_MS(2));
    let_go(&on.g[0]);
    ASSERT_INT(0, bulkhead_reclaim(&on.g[0].job, PLIM_S(PATIENCE_S)));
    ASSERT(was_told(0, 1, 1)); /* and not once more */
    ENDS_WELL();
}

TEST of_a_detached_job_it_counts_when_the_body_returns(void)
{
    ASSERT_INT(0, make_limited((bulkhead_options){.type = BULKHEAD_ASYNC,
                                                  .permits = 2,
                                                  .run_timeout_ns = PLIM_MS(1)},
                               2));
    on.g[0].job.detached = true;
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[0].job));
    ASSERT(EVENTUALLY(bulkhead_snapshot(&on.b).timed_out == 1));
    ASSERT(was_told(0, 0, 1));
    let_go(&on.g[0]);
    ASSERT(EVENTUALLY(atomic_load(&on.g[0].dones) == 1));
    ASSERT(was_told(0, 1, 1));
    ENDS_WELL();
}

static int run_nap(bulkhead_job *job)
{
    return nap(job->arg);
}

TEST of_a_sync_job_it_counts_when_the_body_returns(void)
{
    int64_t ns = PLIM_MS(2);
    ASSERT_INT(0, make_limited((bulkhead_options){.permits = 2}, 2));
    on.job[0] = (bulkhead_job){.run = run_nap, .arg = &ns, .run_timeout_ns = PLIM_MS(1)};
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.job[0]));
    ASSERT_INT(BULKHEAD_TIMED_OUT, on.job[0].outcome);
    ASSERT(was_told(0, 1, 1));
    ENDS_WELL();
}

TEST what_never_ran_is_not_told_of(void)
{
    ASSERT_INT(0, make_limited((bulkhead_options){.type = BULKHEAD_ASYNC,
                                                  .permits = 1,
                                                  .run_timeout_ns = PLIM_S(PATIENCE_S)},
                               1));
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[0].job));
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[1].job));
    ASSERT(has_entered(&on.g[0]));
    ASSERT_INT(0, bulkhead_cancel(&on.b, &on.g[1].job));
    ASSERT(was_told(0, 0, 1));
    let_go(&on.g[0]);
    ASSERT(is_done(&on.g[0]));
    ASSERT(was_told(1, 0, 1)); /* in time, by its run timeout */
    ENDS_WELL();
}

TEST each_attempt_is_told_of(void)
{
    ASSERT_INT(0, make_limited((bulkhead_options){.type = BULKHEAD_ASYNC,
                                                  .permits = 1,
                                                  .attempts = 3,
                                                  .retry_delay_ns = PLIM_MS(30)},
                               1));
    on.t[0].fail_until = 2;
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.t[0].job));
    ASSERT_INT(0, bulkhead_wait(&on.t[0].job, PLIM_S(PATIENCE_S)));
    ASSERT(was_told(1, 0, 1 + 2));
    const int64_t took = atomic_load(&told.took);
    ASSERT(took <= plim_now_() - on.t[0].at[2]); /* not the wait for it */
    ENDS_WELL();
}

static int go_on(bulkhead_job *job)
{
    (void)job;
    return BULKHEAD_LATER;
}

TEST a_job_without_a_thread_ends_when_it_is_finished(void)
{
    ASSERT_INT(0, make_limited((bulkhead_options){.type = BULKHEAD_ASYNC, .permits = 1}, 1));
    on.job[0] = (bulkhead_job){.run = go_on};
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.job[0]));
    rest(PLIM_MS(3));
    ASSERT(was_told(0, 0, 1));
    ASSERT(EVENTUALLY(bulkhead_finish(&on.job[0], 0) == 0));
    ASSERT_INT(0, bulkhead_wait(&on.job[0], PLIM_S(PATIENCE_S)));
    ASSERT(was_told(1, 0, 1));
    ENDS_WELL();
}

/* A limit that goes up and down leaves the workers where they are. */
TEST workers_stay_when_the_limit_falls(void)
{
    ASSERT_INT(0, make_limited((bulkhead_options){.type = BULKHEAD_ASYNC, .permits = 3}, 3));
    for (int i = 0; i < 3; i++) {
        ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[i].job));
        ASSERT(has_entered(&on.g[i]));
    }
    atomic_store(&told.says, 1);
    for (int i = 0; i < 3; i++) {
        let_go(&on.g[i]);
        ASSERT(is_done(&on.g[i]));
    }
    ASSERT_INT(1, bulkhead_snapshot(&on.b).permits);
    ASSERT_INT(3, bulkhead_snapshot(&on.b).workers);
    ASSERT(EVENTUALLY(bulkhead_snapshot(&on.b).workers_idle == 3));
    ASSERT_INT(3, bulkhead_snapshot(&on.b).workers);
    ENDS_WELL();
}

SUITE(limiter_suite)
{
    SET_SETUP(set_the_stage, NULL);
    SET_TEARDOWN(clear_the_stage, NULL);
    RUN_TEST(it_is_asked_at_once);
    RUN_TEST(without_a_function_it_is_einval);
    RUN_TEST(of_0_it_makes_1);
    RUN_TEST(none_stays_none);
    RUN_TESTp(what_a_run_returns_says_what_it_was, BULKHEAD_SYNC);
    RUN_TESTp(what_a_run_returns_says_what_it_was, BULKHEAD_ASYNC);
    RUN_TESTp(it_is_told_how_long_the_run_took, BULKHEAD_SYNC, 0);
    RUN_TESTp(it_is_told_how_long_the_run_took, BULKHEAD_SYNC, BULKHEAD_TIMINGS);
    RUN_TESTp(it_is_told_how_long_the_run_took, BULKHEAD_ASYNC, 0);
    RUN_TESTp(it_is_told_how_long_the_run_took, BULKHEAD_ASYNC, BULKHEAD_INLINE);
    RUN_TEST(waiting_is_no_part_of_the_time);
    RUN_TEST(it_is_told_how_many_run);
    RUN_TEST(it_says_how_many_may);
    RUN_TEST(a_resize_sets_the_most);
    RUN_TEST(only_a_change_is_a_resize);
    RUN_TEST(a_run_timeout_counts_when_it_passes);
    RUN_TEST(of_a_detached_job_it_counts_when_the_body_returns);
    RUN_TEST(of_a_sync_job_it_counts_when_the_body_returns);
    RUN_TEST(what_never_ran_is_not_told_of);
    RUN_TEST(each_attempt_is_told_of);
    RUN_TEST(a_job_without_a_thread_ends_when_it_is_finished);
    RUN_TEST(workers_stay_when_the_limit_falls);
}
