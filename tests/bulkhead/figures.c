/* SPDX-License-Identifier: MIT
 *
 * Figures: counters, peaks, timings and quantiles.
 */

TEST figures_agree_with_what_happened(void)
{
    bulkhead_options options = {
        .type = BULKHEAD_ASYNC, .permits = 2, .queue = 2, .flags = BULKHEAD_TIMINGS};
    ASSERT_INT(0, make_with(&on.b, &options));
    for (int i = 0; i < 5; i++) {
        ASSERT_INT(i < 4 ? 0 : EAGAIN, bulkhead_submit(&on.b, &on.g[i].job));
    }
    ASSERT(has_entered(&on.g[0]));
    ASSERT(has_entered(&on.g[1]));
    rest(PLIM_MS(2)); /* the waits that are measured */
    bulkhead_stats s = bulkhead_snapshot(&on.b);
    ASSERT_INT(2, s.in_use);
    ASSERT_INT(2, s.queued);
    ASSERT(s.longest_wait_ns >= PLIM_MS(2));
    let_all_go(on.g, 4);
    for (int i = 0; i < 4; i++) {
        ASSERT(is_done(&on.g[i]));
    }
    s = bulkhead_snapshot(&on.b);
    ASSERT_U64(4, s.accepted);
    ASSERT_U64(1, s.rejected);
    ASSERT_U64(4, s.succeeded);
    ASSERT_U64(4, s.wait.count); /* 0 if it did not wait; a refused one is not there */
    ASSERT_U64(4, s.run.count);
    ASSERT_INT(2, s.peak_in_use);
    ASSERT_INT(2, s.peak_queued);
    ASSERT(s.wait.max_ns >= PLIM_MS(2));
    ASSERT(s.run.max_ns >= PLIM_MS(2));
    ASSERT(s.wait.sum_ns >= 2 * PLIM_MS(2));
    ASSERT(s.run.sum_ns >= 2 * PLIM_MS(2));
    ASSERT_U64(0, s.longest_wait_ns);
    uint64_t waited = 0, ran = 0;
    for (int i = 0; i < BULKHEAD_BUCKETS; i++) {
        waited += s.wait.buckets[i];
        ran += s.run.buckets[i];
    }
    ASSERT_U64(4, waited);
    ASSERT_U64(4, ran);
    ENDS_WELL();
}

TEST timings_of_sync_calls(void)
{
    bulkhead_options options = {.flags = BULKHEAD_TIMINGS | BULKHEAD_STATS};
    ASSERT_INT(0, make_with(&on.b, &options));
    ASSERT_INT(0, bulkhead_enter(&on.b));
    on.c[0] = (caller){.call = ENTER, .gate = &on.g[0]};
    ASSERT(queue_up(&on.c[0], 1));
    rest(PLIM_MS(2)); /* the wait that is measured */
    ASSERT(bulkhead_snapshot(&on.b).longest_wait_ns >= PLIM_MS(2));
    ASSERT_INT(0, bulkhead_leave(&on.b));
    let_go(&on.g[0]);
    ASSERT(finished(&on.c[0]));
    bulkhead_stats s = bulkhead_snapshot(&on.b);
    ASSERT_U64(2, s.wait.count);
    ASSERT(s.wait.max_ns >= PLIM_MS(2));
    ENDS_UNCOUNTED();
}

TEST histograms_are_empty_unless_asked_for(void)
{
    ASSERT(make(&on.b, BULKHEAD_ASYNC, 1, 0));
    ASSERT_INT(0, bulkhead_invoke(&on.b, nothing, NULL, NULL));
    bulkhead_stats s = bulkhead_snapshot(&on.b);
    ASSERT_U64(0, s.wait.count);
    ASSERT_U64(0, s.run.count);
    ASSERT_EQ(0, bulkhead_histogram_quantile(&s.wait, 0.5));
    ASSERT_EQ(0, s.longest_wait_ns);
    ENDS_WELL();
}

TEST quantiles_are_at_most_a_quarter_too_long(void)
{
    bulkhead_options options = {.type = BULKHEAD_ASYNC, .flags = BULKHEAD_TIMINGS};
    ASSERT_INT(0, make_with(&on.b, &options));
    int64_t short_ns = PLIM_US(100), long_ns = PLIM_MS(5);
    for (int i = 0; i < 9; i++) {
        ASSERT_INT(0, bulkhead_invoke(&on.b, nap, &short_ns, NULL));
    }
    ASSERT_INT(0, bulkhead_invoke(&on.b, nap, &long_ns, NULL));
    bulkhead_stats s = bulkhead_snapshot(&on.b);
    ASSERT_U64(10, s.run.count);
    ASSERT(s.run.max_ns >= long_ns);
    ASSERT(s.run.sum_ns >= 9 * short_ns + long_ns);
    int64_t q1 = bulkhead_histogram_quantile(&s.run, 1.0);
    ASSERT(q1 >= s.run.max_ns);
    ASSERT(q1 - s.run.max_ns <= s.run.max_ns / 4 + 1);
    int64_t q0 = bulkhead_histogram_quantile(&s.run, 0.0);
    int64_t half = bulkhead_histogram_quantile(&s.run, 0.5);
    ASSERT(q0 >= short_ns);
    ASSERT(q0 <= half);
    ASSERT(half <= bulkhead_histogram_quantile(&s.run, 0.9));
    ASSERT(bulkhead_histogram_quantile(&s.run, 0.99) >= long_ns);
    /* Out of range: the ends, and no harm. */
    ASSERT_EQ(q0, bulkhead_histogram_quantile(&s.run, -1.0));
    ASSERT_EQ(q1, bulkhead_histogram_quantile(&s.run, 2.0));
    (void)bulkhead_histogram_quantile(&s.run, (double)NAN);
    (void)bulkhead_histogram_quantile(&s.run, (double)INFINITY);
    ENDS_WELL();
}

TEST times_of_ones_own_fill_a_histogram(void)
{
    bulkhead_histogram h;
    memset(&h, 0, sizeof h);
    for (int ms = 1; ms <= 100; ms++) {
        bulkhead_histogram_add(&h, PLIM_MS(ms));
    }
    bulkhead_histogram_add(&h, -1); /* counts as 0 */
    ASSERT_U64(101, h.count);
    ASSERT_I64(PLIM_MS(5050), h.sum_ns);
    ASSERT_I64(PLIM_MS(100), h.max_ns);
    ASSERT_I64(0, bulkhead_histogram_quantile(&h, 0));
    ASSERT_I64(PLIM_MS(100), bulkhead_histogram_quantile(&h, 1));
    int64_t half = bulkhead_histogram_quantile(&h, 0.5);
    ASSERT(half >= PLIM_MS(50) && half <= PLIM_MS(50) * 5 / 4);
    PASS();
}

TEST every_end_is_counted_once(void)
{
    ASSERT(make(&on.b, BULKHEAD_ASYNC, 1, 5));
    on.g[0].job.run_timeout_ns = PLIM_MS(2);  /* times out */
    on.g[1].job.start_within_ns = PLIM_MS(1); /* expires */
    on.g[3].result = 1;                       /* fails */
    on.g[5].job.delay_ns = PLIM_S(1000);      /* is aborted */
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[0].job));
    ASSERT(is_done(&on.g[0]));
    for (int i = 1; i < 6; i++) {
        ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[i].job));
    }
    ASSERT(is_done(&on.g[1]));
    ASSERT_INT(0, bulkhead_cancel(&on.b, &on.g[2].job)); /* is cancelled */
    let_all_go(on.g, 6);
    ASSERT(is_done(&on.g[4])); /* succeeds */
    bulkhead_stats s = bulkhead_snapshot(&on.b);
    ASSERT_U64(s.accepted, ends_of(&s) + s.delayed + s.queued + s.in_use);
    ASSERT_INT(0, bulkhead_close(&on.b, BULKHEAD_ABORT, PLIM_S(PATIENCE_S)));
    s = bulkhead_snapshot(&on.b);
    ASSERT_U64(6, s.accepted);
    ASSERT_U64(1, s.timed_out);
    ASSERT_U64(1, s.late);
    ASSERT_U64(1, s.expired);
    ASSERT_U64(1, s.cancelled);
    ASSERT_U64(1, s.failed);
    ASSERT_U64(1, s.succeeded);
    ASSERT_U64(1, s.aborted);
    ENDS_WELL();
}

TEST outcomes_have_names(void)
{
    ASSERT_STR_EQ("pending", bulkhead_outcome_name(BULKHEAD_PENDING));
    ASSERT_STR_EQ("succeeded", bulkhead_outcome_name(BULKHEAD_SUCCEEDED));
    ASSERT_STR_EQ("failed", bulkhead_outcome_name(BULKHEAD_FAILED));
    ASSERT_STR_EQ("timed_out", bulkhead_outcome_name(BULKHEAD_TIMED_OUT));
    ASSERT_STR_EQ("expired", bulkhead_outcome_name(BULKHEAD_EXPIRED));
    ASSERT_STR_EQ("cancelled", bulkhead_outcome_name(BULKHEAD_CANCELLED));
    ASSERT_STR_EQ("aborted", bulkhead_outcome_name(BULKHEAD_ABORTED));
    ASSERT(bulkhead_outcome_name((bulkhead_outcome)99) != NULL);
    PASS();
}

SUITE(figures_suite)
{
    SET_SETUP(set_the_stage, NULL);
    SET_TEARDOWN(clear_the_stage, NULL);
    RUN_TEST(figures_agree_with_what_happened);
    RUN_TEST(timings_of_sync_calls);
    RUN_TEST(histograms_are_empty_unless_asked_for);
    RUN_TEST(quantiles_are_at_most_a_quarter_too_long);
    RUN_TEST(times_of_ones_own_fill_a_histogram);
    RUN_TEST(every_end_is_counted_once);
    RUN_TEST(outcomes_have_names);
}
