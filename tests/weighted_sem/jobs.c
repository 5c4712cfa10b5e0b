/* SPDX-License-Identifier: MIT
 *
 * The three ways to run a job: complete, start, and begin with finish.
 */

/* ---- complete ---- */

typedef struct crowd {
    weighted_sem *w;
    uint64_t weight;
    atomic_int inside, most, wrong;
} crowd;

static int be_inside(void *arg)
{
    crowd *c = arg;
    int now = atomic_fetch_add(&c->inside, 1) + 1;
    int most = atomic_load(&c->most);
    while (now > most && !atomic_compare_exchange_weak(&c->most, &most, now)) {
        continue;
    }
    weighted_sem_stats s = weighted_sem_snapshot(c->w);
    if (s.total - s.available != c->weight * s.executing || s.executing == 0) {
        atomic_fetch_add(&c->wrong, 1);
    }
    atomic_fetch_sub(&c->inside, 1);
    return 0;
}

TEST never_more_inside_than_fit(uint64_t total, uint64_t weight, int callers, int at_most)
{
    crowd c = {.w = &on.w, .weight = weight};
    make(total);
    for (int i = 0; i < callers; i++) {
        on.c[i] = (caller){.call = COMPLETE, .weight = weight, .fn = be_inside, .arg = &c};
        start_call(&on.c[i]);
    }
    join_calls(on.c, callers);
    ASSERT_INT(0, atomic_load(&c.wrong));
    ASSERT(atomic_load(&c.most) <= at_most);
    ASSERT_EQ((uint64_t)callers, weighted_sem_snapshot(&on.w).completed);
    ENDS_WELL();
}

TEST a_result_goes_to_the_caller_and_nowhere_else(void)
{
    int value = -1723598, result = 0;
    weighted_sem_error error;
    make(7);
    ASSERT_INT(0, weighted_sem_complete(&on.w, 7, fails_with, &value, &result));
    ASSERT_INT(-1723598, result);
    ASSERT_EQ(7, weighted_sem_available(&on.w));
    ASSERT_INT(0, weighted_sem_complete(&on.w, 3, nothing, NULL, &result));
    ASSERT_INT(0, result);
    ASSERT_INT(0, weighted_sem_complete(&on.w, 3, fails_with, &value, NULL));
    ASSERT_EQ(0, weighted_sem_errors(&on.w));
    ASSERT_EQ(0, weighted_sem_extract_errors(&on.w, &error, 1));
    weighted_sem_stats s = weighted_sem_snapshot(&on.w);
    ASSERT_EQ(3, s.started);
    ASSERT_EQ(3, s.completed);
    ASSERT_EQ(2, s.failed);
    ENDS_WELL();
}

TEST a_failing_job_does_not_disturb_those_that_wait(void)
{
    on.g[0].result = EIO;
    make(3);
    caller *first = &on.c[0], *next = &on.c[1];
    *first = (caller){.call = COMPLETE, .weight = 3, .fn = pass, .arg = &on.g[0]};
    start_call(first);
    csem_acquire(&on.g[0].entered);
    for (int i = 0; i < 3; i++) {
        next[i] = (caller){.call = COMPLETE, .weight = 1, .fn = nothing, .result = -1};
    }
    ASSERT(queue_up(next, 3));
    csem_release(&on.g[0].exit);
    join_call(first);
    join_calls(next, 3);
    ASSERT_INT(EIO, first->result);
    for (int i = 0; i < 3; i++) {
        ASSERT_INT(0, next[i].error);
        ASSERT_INT(0, next[i].result);
    }
    ENDS_WELL();
}

TEST completion_order_is_call_order_when_each_needs_all(void)
{
    enum { N = 20 };
    make(5);
    ASSERT_INT(0, weighted_sem_acquire(&on.w, 5));
    for (int i = 0; i < N; i++) {
        on.g[i].ends = &on.order;
        on.c[i] = (caller){.call = COMPLETE, .weight = 5, .fn = pass, .arg = &on.g[i]};
    }
    ASSERT(queue_up(on.c, N));
    ASSERT_INT(0, weighted_sem_release(&on.w, 5));
    for (int i = 0; i < N; i++) {
        csem_acquire(&on.g[i].entered);
        ASSERT_EQ_FMT(1u, weighted_sem_executing(&on.w), "%u");
        ASSERT_EQ_FMT((uint32_t)(N - 1 - i), weighted_sem_waiting(&on.w), "%u");
        csem_release(&on.g[i].exit);
    }
    join_calls(on.c, N);
    for (int i = 0; i < N; i++) {
        ASSERT_INT(i + 1, atomic_load(&on.g[i].ended_as));
    }
    ENDS_WELL();
}

/* ---- start ---- */

TEST start_returns_while_its_job_executes(void)
{
    make(10);
    ASSERT_INT(0, weighted_sem_start(&on.w, 4, pass, &on.g[0]));
    ASSERT_EQ(6, weighted_sem_available(&on.w));
    ASSERT_EQ_FMT(1u, weighted_sem_executing(&on.w), "%u");
    csem_acquire(&on.g[0].entered); /* the function is entered without any further call */
    csem_release(&on.g[0].exit);
    ASSERT_INT(0, weighted_sem_drain(&on.w, PLIM_FOREVER));
    ENDS_WELL();
}

TEST more_jobs_than_expected_all_start_at_once(void)
{
    enum { N = 27 };
    weighted_sem_options options = {.total = N * (N + 1) / 2, .expected_jobs = 1};
    ASSERT_INT(0, make_with(&options));
    uint64_t left = options.total;
    for (int i = 0; i < N; i++) {
        ASSERT_INT(0, weighted_sem_start(&on.w, (uint64_t)i + 1, pass, &on.g[i]));
        left -= (uint64_t)i + 1;
        ASSERT_EQ(left, weighted_sem_available(&on.w));
    }
    ASSERT_EQ(0, weighted_sem_available(&on.w));
    for (int i = 0; i < N; i++) {
        csem_acquire(&on.g[i].entered);
    }
    for (int i = 0; i < N; i++) {
        csem_release(&on.g[i].exit);
        left += (uint64_t)i + 1;
        ASSERT(EVENTUALLY(weighted_sem_available(&on.w) == left));
        ASSERT_EQ_FMT((uint32_t)(N - 1 - i), weighted_sem_executing(&on.w), "%u");
    }
    ENDS_WELL();
}

/* Total 10, weights 6, 5, 1, 2: the 5 does not fit, and holds up the others. */
TEST a_blocked_head_holds_up_even_those_that_fit(void)
{
    const uint64_t weight[] = {6, 5, 1, 2};
    make(10);
    ASSERT_INT(0, weighted_sem_start(&on.w, 6, pass, &on.g[0]));
    for (int i = 0; i < 3; i++) {
        on.c[i] = (caller){.call = START, .weight = weight[i + 1]};
        on.c[i].fn = pass;
        on.c[i].arg = &on.g[i + 1];
    }
    ASSERT(queue_up(on.c, 3));
    ASSERT_EQ(4, weighted_sem_available(&on.w));
    csem_release(&on.g[0].exit);
    join_calls(on.c, 3);
    ASSERT_EQ_FMT(3u, weighted_sem_executing(&on.w), "%u");
    ASSERT_EQ(2, weighted_sem_available(&on.w));
    uint64_t left = 2;
    for (int i = 1; i < 4; i++) {
        csem_release(&on.g[i].exit);
        left += weight[i];
        ASSERT(EVENTUALLY(weighted_sem_available(&on.w) == left));
        ASSERT_EQ_FMT((uint32_t)(3 - i), weighted_sem_executing(&on.w), "%u");
    }
    ENDS_WELL();
}

TEST try_forms_take_what_fits_and_change_nothing_otherwise(void)
{
    int result = 5;
    make(4);
    ASSERT_INT(0, weighted_sem_try_start(&on.w, 3, pass, &on.g[0]));
    weighted_sem_stats before = weighted_sem_snapshot(&on.w);
    ASSERT_INT(EAGAIN, weighted_sem_try_start(&on.w, 2, pass, &on.g[1]));
    ASSERT_INT(EAGAIN, weighted_sem_try_complete(&on.w, 2, nothing, NULL, &result));
    ASSERT_INT(EAGAIN, weighted_sem_try_begin(&on.w, 2, &on.job[0]));
    ASSERT_INT(EAGAIN, weighted_sem_try_acquire(&on.w, 2));
    ASSERT_INT(ETIMEDOUT, weighted_sem_start_for(&on.w, 2, pass, &on.g[1], 0));
    ASSERT_INT(ETIMEDOUT, weighted_sem_complete_for(&on.w, 2, nothing, NULL, NULL, -1));
    ASSERT_INT(ETIMEDOUT, weighted_sem_begin_for(&on.w, 2, &on.job[0], INT64_MIN));
    ASSERT_INT(ETIMEDOUT, weighted_sem_acquire_for(&on.w, 2, 0));
    weighted_sem_stats after = weighted_sem_snapshot(&on.w);
    ASSERT_MEM_EQ(&before, &after, sizeof before);
    ASSERT_INT(5, result);
    ASSERT_INT(0, weighted_sem_try_complete(&on.w, 1, nothing, NULL, &result));
    ASSERT_INT(0, result);
    ASSERT_INT(0, weighted_sem_acquire_for(&on.w, 1, 0)); /* what is free is had in no time */
    ASSERT_INT(0, weighted_sem_release(&on.w, 1));
    csem_release(&on.g[0].exit);
    ASSERT_INT(0, weighted_sem_drain(&on.w, PLIM_FOREVER));
    ASSERT_INT(0, weighted_sem_try_start(&on.w, 4, pass, &on.g[1]));
    csem_release(&on.g[1].exit);
    ASSERT_INT(0, weighted_sem_drain_all(&on.w, PLIM_FOREVER));
    ENDS_WELL();
}

TEST a_try_does_not_overtake(void)
{
    make(10);
    ASSERT_INT(0, weighted_sem_acquire(&on.w, 3));
    on.c[0] = (caller){.call = ACQUIRE, .weight = 8};
    ASSERT(queue_up(on.c, 1));
    ASSERT_INT(EAGAIN, weighted_sem_try_acquire(&on.w, 1));
    ASSERT_INT(EAGAIN, weighted_sem_try_begin(&on.w, 1, &on.job[0]));
    ASSERT_INT(EAGAIN, weighted_sem_try_start(&on.w, 1, nothing, NULL));
    ASSERT_INT(0, weighted_sem_release(&on.w, 3));
    join_call(&on.c[0]);
    ASSERT_INT(0, weighted_sem_try_acquire(&on.w, 1));
    ASSERT_INT(0, weighted_sem_release(&on.w, 1));
    ASSERT_INT(0, weighted_sem_release(&on.w, 8));
    ENDS_WELL();
}

/* A long job must not keep a started one from its thread, whatever the order. */
TEST every_started_job_runs_beside_the_others(void)
{
    enum { N = 40 };
    make(N);
    for (int round = 0; round < 5; round++) {
        gates_init(on.g, N);
        for (int i = 0; i < N; i++) {
            ASSERT_INT(0, weighted_sem_start(&on.w, 1, pass, &on.g[i]));
            if (i % 3 == 0) {
                weighted_sem_start_for(&on.w, 1, nothing, NULL, 0); /* may or may not fit */
            }
        }
        for (int i = 0; i < N; i++) {
            ASSERT_INT(0, csem_acquire_for(&on.g[i].entered, PLIM_S(PATIENCE_S)));
        }
        for (int i = 0; i < N; i++) {
            csem_release(&on.g[i].exit);
        }
        ASSERT_INT(0, weighted_sem_drain(&on.w, PLIM_FOREVER));
    }
    ASSERT(peek(&on.w, &on.w.crew.threads) <= N);
    ENDS_WELL();
}

TEST threads_are_never_more_than_jobs_at_once(void)
{
    make(2);
    for (int i = 0; i < 500; i++) {
        ASSERT_INT(0, weighted_sem_start(&on.w, 1 + (uint64_t)i % 2, count, &on.runs));
    }
    ASSERT_INT(0, weighted_sem_drain(&on.w, PLIM_FOREVER));
    ASSERT_INT(500, atomic_load(&on.runs));
    ASSERT(peek(&on.w, &on.w.crew.threads) <= 2);
    ENDS_WELL();
}

TEST idle_threads_go_away_and_come_back(void)
{
    make(8);
    idle_ns = PLIM_MS(1);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 30; i++) {
            ASSERT_INT(0, weighted_sem_start(&on.w, 1, count, &on.runs));
        }
        ASSERT(EVENTUALLY(peek(&on.w, &on.w.crew.threads) == 0));
    }
    ASSERT_INT(90, atomic_load(&on.runs));
    ENDS_WELL();
}

/* Starts that come just when the threads give up waiting for them. */
TEST idle_threads_and_starts_may_race(void)
{
    make(4);
    idle_ns = PLIM_US(150);
    for (int i = 0; i < 2000; i++) {
        ASSERT_INT(0, weighted_sem_start(&on.w, 1, count, &on.runs));
        if (i % 4 == 0) {
            rest(PLIM_US(i % 300)); /* about as long as a thread stays without a job */
        }
    }
    ASSERT_INT(0, weighted_sem_drain_all(&on.w, PLIM_FOREVER));
    ASSERT_INT(2000, atomic_load(&on.runs));
    ENDS_WELL();
}

TEST a_job_may_end_its_thread(void)
{
    NEEDS_POSIX();
    weighted_sem_error error[9];
    int token;
    make(5);
    for (int i = 0; i < 9; i++) {
        ASSERT_INT(0, weighted_sem_start(&on.w, 5, end_the_thread, &token));
        ASSERT_INT(0, weighted_sem_start(&on.w, 2, nothing, NULL));
    }
    ASSERT_INT(0, weighted_sem_drain(&on.w, PLIM_FOREVER));
    ASSERT_EQ(9, weighted_sem_extract_errors(&on.w, error, 9));
    for (int i = 0; i < 9; i++) {
        ASSERT_INT(ECANCELED, error[i].code);
        ASSERT_EQ(&token, error[i].arg);
        ASSERT_EQ(5, error[i].weight);
        ASSERT_EQ(2 * (uint64_t)i + 1, error[i].sequence);
    }
    ENDS_WELL();
}

/* ---- begin and finish ---- */

TEST a_job_that_was_begun_ends_on_any_thread(void)
{
    make(6);
    for (int i = 0; i < 3; i++) {
        ASSERT_INT(0, weighted_sem_begin(&on.w, (uint64_t)i + 1, &on.job[i]));
        ASSERT(on.job[i].arg == NULL);
    }
    ASSERT_EQ(0, weighted_sem_available(&on.w));
    ASSERT_EQ_FMT(3u, weighted_sem_executing(&on.w), "%u");
    on.c[0] = (caller){.call = COMPLETE, .weight = 5, .fn = nothing};
    ASSERT(queue_up(on.c, 1));
    plim_thread thread[3];
    for (int i = 0; i < 3; i++) {
        start(&thread[i], finish_it, &on.job[i]);
    }
    for (int i = 0; i < 3; i++) {
        join(thread[i]);
    }
    join_call(&on.c[0]);
    ASSERT_INT(0, on.c[0].error);
    ENDS_WELL();
}

TEST an_error_of_finish_is_stored_with_its_arg(void)
{
    weighted_sem_error error;
    int token;
    make(6);
    ASSERT_INT(0, weighted_sem_begin_for(&on.w, 2, &on.job[0], PLIM_S(1)));
    on.job[0].arg = &token;
    ASSERT_INT(0, weighted_sem_finish(&on.job[0], EIO));
    ASSERT_EQ(1, weighted_sem_errors(&on.w));
    ASSERT_EQ(1, weighted_sem_extract_errors(&on.w, &error, 1));
    ASSERT_INT(EIO, error.code);
    ASSERT_EQ(&token, error.arg);
    ASSERT_EQ(2, error.weight);
    ASSERT_EQ(1, error.sequence);
    ENDS_WELL();
}

static int finish_elsewhere(void *job)
{
    return weighted_sem_finish(job, 0);
}

/* What begins on one thread may have ended before begin's caller looks again. */
TEST a_finish_may_be_earlier_than_the_next_line(void)
{
    make(2);
    for (int i = 0; i < 2000; i++) {
        ASSERT_INT(0, weighted_sem_begin(&on.w, 1, &on.job[0]));
        ASSERT_INT(0, weighted_sem_start(&on.w, 1, finish_elsewhere, &on.job[0]));
        ASSERT_INT(0, weighted_sem_drain(&on.w, PLIM_FOREVER));
    }
    ASSERT_EQ(0, weighted_sem_errors(&on.w));
    ENDS_WELL();
}

SUITE(weighted_sem_jobs)
{
    ON_STAGE();
    RUN_TESTp(never_more_inside_than_fit, 5, 5, 20, 1);
    RUN_TESTp(never_more_inside_than_fit, 45, 9, 84, 5);
    RUN_TEST(a_result_goes_to_the_caller_and_nowhere_else);
    RUN_TEST(a_failing_job_does_not_disturb_those_that_wait);
    RUN_TEST(completion_order_is_call_order_when_each_needs_all);
    RUN_TEST(start_returns_while_its_job_executes);
    RUN_TEST(more_jobs_than_expected_all_start_at_once);
    RUN_TEST(a_blocked_head_holds_up_even_those_that_fit);
    RUN_TEST(try_forms_take_what_fits_and_change_nothing_otherwise);
    RUN_TEST(a_try_does_not_overtake);
    RUN_TEST(every_started_job_runs_beside_the_others);
    RUN_TEST(threads_are_never_more_than_jobs_at_once);
    RUN_TEST(idle_threads_go_away_and_come_back);
    RUN_TEST(idle_threads_and_starts_may_race);
    RUN_TEST(a_job_may_end_its_thread);
    RUN_TEST(a_job_that_was_begun_ends_on_any_thread);
    RUN_TEST(an_error_of_finish_is_stored_with_its_arg);
    RUN_TEST(a_finish_may_be_earlier_than_the_next_line);
}
