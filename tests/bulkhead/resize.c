/* SPDX-License-Identifier: MIT
 *
 * Resize: more permits, fewer permits, a longer and a shorter queue.
 */

TEST growing_lets_in_those_who_wait(void)
{
    ASSERT(make(&on.b, BULKHEAD_ASYNC, 1, 0));
    for (int i = 0; i < 4; i++) {
        ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[i].job));
    }
    on.c[0] = (caller){.call = ENTER, .gate = &on.g[4]};
    on.c[1] = (caller){.call = ENTER, .gate = &on.g[5]};
    ASSERT(queue_up(on.c, 2));
    ASSERT_FIGURES(&on.b, 1, 5);
    ASSERT_INT(0, bulkhead_resize(&on.b, 5, 0));
    ASSERT_FIGURES(&on.b, 5, 1);
    for (int i = 0; i < 5; i++) {
        ASSERT(has_entered(&on.g[i]));
    }
    ASSERT_INT(0, bulkhead_resize(&on.b, 100, 0));
    ASSERT(has_entered(&on.g[5]));
    ASSERT_FIGURES(&on.b, 6, 0);
    let_all_go(on.g, 6);
    join_calls(on.c, 2);
    ENDS_WELL();
}

TEST a_shrink_takes_effect_as_jobs_end(void)
{
    ASSERT(make(&on.b, BULKHEAD_ASYNC, 4, 0));
    for (int i = 0; i < 5; i++) {
        ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[i].job));
    }
    ASSERT_INT(0, bulkhead_resize(&on.b, 2, 0));
    bulkhead_stats s = bulkhead_snapshot(&on.b);
    ASSERT_INT(2, s.permits);
    ASSERT_INT(4, s.in_use);
    ASSERT_INT(0, s.available);
    for (int i = 0; i < 2; i++) {
        let_go(&on.g[i]);
        ASSERT(is_done(&on.g[i]));
        ASSERT_FIGURES(&on.b, 3 - i, 1);
    }
    ASSERT_INT(EAGAIN, bulkhead_try_enter(&on.b));
    let_go(&on.g[2]);
    ASSERT(has_entered(&on.g[4]));
    ASSERT_FIGURES(&on.b, 2, 0);
    let_all_go(on.g, 5);
    ASSERT_INT(0, bulkhead_wait_idle(&on.b, PLIM_S(PATIENCE_S)));
    ASSERT_INT(2, bulkhead_snapshot(&on.b).available);
    ASSERT_INT(0, bulkhead_try_enter(&on.b));
    ASSERT_INT(0, bulkhead_try_enter(&on.b));
    ASSERT_INT(EAGAIN, bulkhead_try_enter(&on.b));
    ASSERT_INT(0, bulkhead_leave(&on.b));
    ASSERT_INT(0, bulkhead_leave(&on.b));
    ENDS_WELL();
}

TEST a_shorter_queue_keeps_those_who_are_in_it(void)
{
    ASSERT(make(&on.b, BULKHEAD_ASYNC, 1, 3));
    for (int i = 0; i < 4; i++) {
        ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[i].job));
    }
    ASSERT_INT(0, bulkhead_resize(&on.b, 1, 1));
    ASSERT_FIGURES(&on.b, 1, 3);
    ASSERT_INT(EAGAIN, bulkhead_submit(&on.b, &on.g[4].job));
    for (int i = 0; i < 2; i++) {
        let_go(&on.g[i]);
        ASSERT(is_done(&on.g[i]));
        ASSERT_INT(EAGAIN, bulkhead_submit(&on.b, &on.g[4].job)); /* 2 wait, then 1: still full */
    }
    let_go(&on.g[2]);
    ASSERT(is_done(&on.g[2]));
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[4].job));
    let_all_go(on.g, 5);
    ASSERT(is_done(&on.g[4]));
    ASSERT_INT(0, bulkhead_resize(&on.b, 1, PLIM_NONE));
    ASSERT_INT(0, bulkhead_snapshot(&on.b).queue);
    ENDS_WELL();
}

TEST bad_sizes_are_refused(void)
{
    ASSERT(make(&on.b, BULKHEAD_ASYNC, 3, 4));
    ASSERT_INT(EINVAL, bulkhead_resize(&on.b, -2, 0));
    ASSERT_INT(EINVAL, bulkhead_resize(&on.b, 1, -2));
    ASSERT_INT(EINVAL, bulkhead_resize(&on.b, INT32_MIN, INT32_MIN));
    bulkhead_stats s = bulkhead_snapshot(&on.b);
    ASSERT_INT(3, s.permits);
    ASSERT_INT(4, s.queue);
    ASSERT_INT(0, bulkhead_resize(&on.b, 0, 0)); /* as in the options */
    s = bulkhead_snapshot(&on.b);
    ASSERT_INT(1, s.permits);
    ASSERT_INT(BULKHEAD_UNLIMITED, s.queue);
    ENDS_WELL();
}

/* Both limits in every kind: what a snapshot says can be given back. */
TEST a_snapshot_given_back_to_resize_changes_nothing(int32_t permits, int32_t limit)
{
    ASSERT(make(&on.b, BULKHEAD_ASYNC, permits, limit));
    bulkhead_stats before = bulkhead_snapshot(&on.b);
    for (int i = 0; i < 2; i++) {
        ASSERT_INT(0, bulkhead_resize(&on.b, (int32_t)before.permits, (int32_t)before.queue));
        bulkhead_stats after = bulkhead_snapshot(&on.b);
        ASSERT_INT(0, memcmp(&before, &after, sizeof after));
    }
    if (permits == 1 && limit == PLIM_NONE) {
        ASSERT_INT(0, bulkhead_enter(&on.b));
        ASSERT_INT(EAGAIN, bulkhead_submit(&on.b, &on.g[0].job)); /* there is still no queue */
        ASSERT_INT(0, bulkhead_leave(&on.b));
    }
    ENDS_UNCOUNTED();
}

TEST a_limit_may_be_kept(void)
{
    ASSERT(make(&on.b, BULKHEAD_ASYNC, 3, 4));
    ASSERT_INT(0, bulkhead_resize(&on.b, PLIM_KEEP, 7));
    ASSERT_INT(3, bulkhead_snapshot(&on.b).permits);
    ASSERT_INT(7, bulkhead_snapshot(&on.b).queue);
    ASSERT_INT(0, bulkhead_resize(&on.b, 5, PLIM_KEEP));
    ASSERT_INT(5, bulkhead_snapshot(&on.b).permits);
    ASSERT_INT(7, bulkhead_snapshot(&on.b).queue);
    ASSERT_INT(0, bulkhead_resize(&on.b, PLIM_KEEP, PLIM_KEEP));
    ASSERT_INT(5, bulkhead_snapshot(&on.b).permits);
    ASSERT_INT(7, bulkhead_snapshot(&on.b).queue);
    ASSERT_INT(0, bulkhead_resize(&on.b, 2, PLIM_NONE));
    ASSERT_INT(0, bulkhead_resize(&on.b, 2, BULKHEAD_UNLIMITED)); /* lifts it, 0 would not */
    ASSERT_INT(BULKHEAD_UNLIMITED, bulkhead_snapshot(&on.b).queue);
    ENDS_WELL();
}

static plim_thread_result resize_on_and_on(void *arg)
{
    crowd *c = ((member *)arg)->crowd;
    static const int32_t sizes[] = {10, 5, 15, 1};
    wait_for_go(c);
    for (unsigned i = 0; atomic_load(&c->wrong) == 0; i++) {
        bulkhead_resize(&on.b, sizes[i % 4], 0);
        rest(PLIM_US(100));
    }
    return 0;
}

TEST a_resize_under_load_loses_nothing(void)
{
    enum { N = 1000 };
    static bulkhead_job jobs[N];
    ASSERT(make(&on.b, BULKHEAD_ASYNC, 10, 0));
    gather(1, resize_on_and_on);
    int error = 0;
    for (int i = 0; i < N; i++) {
        jobs[i] = (bulkhead_job){.run = run_count, .arg = &on.ran};
        error |= bulkhead_submit(&on.b, &jobs[i]);
        if (i % 3 == 0 && bulkhead_enter(&on.b) == 0) {
            error |= bulkhead_leave(&on.b);
        }
    }
    for (int i = 0; i < N; i++) {
        error |= bulkhead_wait(&jobs[i], PLIM_S(PATIENCE_S));
    }
    atomic_store(&on.crowd.wrong, 1);
    disperse();
    ASSERT_INT(0, error);
    ASSERT_INT(N, atomic_load(&on.ran));
    ASSERT(bulkhead_snapshot(&on.b).peak_in_use <= 16);
    ENDS_WELL();
}

SUITE(resize_suite)
{
    SET_SETUP(set_the_stage, NULL);
    SET_TEARDOWN(clear_the_stage, NULL);
    RUN_TEST(growing_lets_in_those_who_wait);
    RUN_TEST(a_shrink_takes_effect_as_jobs_end);
    RUN_TEST(a_shorter_queue_keeps_those_who_are_in_it);
    RUN_TEST(bad_sizes_are_refused);
    RUN_TESTp(a_snapshot_given_back_to_resize_changes_nothing, 1, PLIM_NONE);
    RUN_TESTp(a_snapshot_given_back_to_resize_changes_nothing, PLIM_NONE, 0);
    RUN_TESTp(a_snapshot_given_back_to_resize_changes_nothing, BULKHEAD_UNLIMITED, 3);
    RUN_TESTp(a_snapshot_given_back_to_resize_changes_nothing, 0, BULKHEAD_UNLIMITED);
    RUN_TEST(a_limit_may_be_kept);
    RUN_TEST(a_resize_under_load_loses_nothing);
}
