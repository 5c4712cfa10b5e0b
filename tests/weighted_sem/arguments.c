/* SPDX-License-Identifier: MIT
 *
 * Construction, and arguments that are refused.
 */

TEST totals_out_of_range_are_refused(void)
{
    weighted_sem w;
    weighted_sem_options options = {.total = 0};
    ASSERT_INT(EINVAL, weighted_sem_init(&w, &options));
    options.total = WEIGHTED_SEM_MAX + 1;
    ASSERT_INT(EINVAL, weighted_sem_init(&w, &options));
    options.total = UINT64_MAX;
    ASSERT_INT(EINVAL, weighted_sem_init(&w, &options));
    ASSERT_INT(EINVAL, weighted_sem_init(&w, NULL));
    ASSERT_INT(EINVAL, weighted_sem_init(NULL, &options));
    plim_executor nothing_to_execute = {NULL, NULL};
    options.total = 1;
    options.executor = &nothing_to_execute;
    ASSERT_INT(EINVAL, weighted_sem_init(&w, &options));
    PASS();
}

TEST smallest_and_largest_total_work(void)
{
    uint64_t totals[] = {1, (uint64_t)1 << 31, WEIGHTED_SEM_MAX};
    for (int i = 0; i < 3; i++) {
        ASSERT(make(totals[i]));
        ASSERT_EQ(totals[i], weighted_sem_total(&on.w));
        ASSERT_EQ(totals[i], weighted_sem_available(&on.w));
        ASSERT_INT(0, weighted_sem_acquire(&on.w, totals[i]));
        ASSERT_EQ(0, weighted_sem_available(&on.w));
        ASSERT_INT(EAGAIN, weighted_sem_try_acquire(&on.w, 1));
        ASSERT_INT(0, weighted_sem_release(&on.w, totals[i]));
        ASSERT_ENDS_WELL();
    }
    PASS();
}

TEST impossible_weights_are_refused_at_once(bool while_others_wait)
{
    make(10);
    on.c[0] = (caller){.call = ACQUIRE, .weight = 10};
    if (while_others_wait) {
        ASSERT_INT(0, weighted_sem_acquire(&on.w, 4));
        ASSERT(queue_up(on.c, 1));
    }
    weighted_sem_stats before = weighted_sem_snapshot(&on.w);
    const uint64_t weights[] = {0, 11, 10 + 341, 57 * 10 + 5, UINT32_MAX, UINT64_MAX};
    for (int i = 0; i < 6; i++) {
        int e = weights[i] == 0 ? EINVAL : ERANGE;
        ASSERT_INT(e, weighted_sem_start(&on.w, weights[i], count, &on.runs));
        ASSERT_INT(e, weighted_sem_start_for(&on.w, weights[i], count, &on.runs, 1));
        ASSERT_INT(e, weighted_sem_try_start(&on.w, weights[i], count, &on.runs));
        ASSERT_INT(e, weighted_sem_complete(&on.w, weights[i], count, &on.runs, NULL));
        ASSERT_INT(e, weighted_sem_complete_for(&on.w, weights[i], count, &on.runs, NULL, 1));
        ASSERT_INT(e, weighted_sem_try_complete(&on.w, weights[i], count, &on.runs, NULL));
        ASSERT_INT(e, weighted_sem_begin(&on.w, weights[i], &on.job[0]));
        ASSERT_INT(e, weighted_sem_begin_for(&on.w, weights[i], &on.job[0], 1));
        ASSERT_INT(e, weighted_sem_try_begin(&on.w, weights[i], &on.job[0]));
        ASSERT_INT(e, weighted_sem_acquire(&on.w, weights[i]));
        ASSERT_INT(e, weighted_sem_acquire_for(&on.w, weights[i], 1));
        ASSERT_INT(e, weighted_sem_try_acquire(&on.w, weights[i]));
    }
    weighted_sem_stats after = weighted_sem_snapshot(&on.w);
    ASSERT_MEM_EQ(&before, &after, sizeof before);
    ASSERT_INT(0, atomic_load(&on.runs));
    if (while_others_wait) {
        ASSERT_INT(0, weighted_sem_release(&on.w, 4));
        join_call(&on.c[0]);
        ASSERT_INT(0, on.c[0].error);
        ASSERT_INT(0, weighted_sem_release(&on.w, 10));
    }
    ENDS_WELL();
}

TEST missing_functions_and_jobs_are_refused(void)
{
    make(1);
    ASSERT_INT(EINVAL, weighted_sem_start(&on.w, 1, NULL, NULL));
    ASSERT_INT(EINVAL, weighted_sem_complete(&on.w, 1, NULL, NULL, NULL));
    ASSERT_INT(EINVAL, weighted_sem_begin(&on.w, 1, NULL));
    ENDS_WELL();
}

TEST weights_near_the_maximum_are_served_in_order(void)
{
    make(WEIGHTED_SEM_MAX);
    ASSERT_INT(0, weighted_sem_acquire(&on.w, WEIGHTED_SEM_MAX));
    for (int i = 0; i < 3; i++) {
        on.c[i] = (caller){.call = ACQUIRE, .order = &on.order};
        on.c[i].weight = i == 1 ? WEIGHTED_SEM_MAX - 1 : WEIGHTED_SEM_MAX;
    }
    ASSERT(queue_up(on.c, 3));
    ASSERT_INT(0, weighted_sem_release(&on.w, WEIGHTED_SEM_MAX));
    for (int i = 0; i < 3; i++) {
        join_call(&on.c[i]);
        ASSERT_INT(i, on.c[i].place);
        ASSERT_INT(0, weighted_sem_release(&on.w, on.c[i].weight));
    }
    ENDS_WELL();
}

TEST what_is_not_held_cannot_be_given_back(void)
{
    make(10);
    ASSERT_INT(EPERM, weighted_sem_release(&on.w, 1));
    ASSERT_INT(EINVAL, weighted_sem_release(&on.w, 0));
    ASSERT_INT(0, weighted_sem_acquire(&on.w, 4));
    ASSERT_INT(EPERM, weighted_sem_release(&on.w, 5));
    ASSERT_INT(EPERM, weighted_sem_release(&on.w, UINT64_MAX));
    ASSERT_INT(0, weighted_sem_begin(&on.w, 1, &on.job[0]));
    ASSERT_INT(EPERM, weighted_sem_release(&on.w, 5)); /* one of these is the job's */
    ASSERT_EQ(5, weighted_sem_available(&on.w));
    ASSERT_INT(0, weighted_sem_release(&on.w, 4));
    ASSERT_INT(EPERM, weighted_sem_release(&on.w, 1));
    ASSERT_INT(0, weighted_sem_finish(&on.job[0], 0));

    ASSERT_INT(0, weighted_sem_begin(&on.w, 3, &on.job[0]));
    ASSERT_INT(0, weighted_sem_finish(&on.job[0], 0));
    ASSERT_INT(EPERM, weighted_sem_finish(&on.job[0], 0));
    ASSERT_INT(EPERM, weighted_sem_finish(&on.job[0], EIO));
    ASSERT_EQ(0, weighted_sem_errors(&on.w));
    ENDS_WELL();
}

SUITE(weighted_sem_arguments)
{
    ON_STAGE();
    RUN_TEST(totals_out_of_range_are_refused);
    RUN_TEST(smallest_and_largest_total_work);
    RUN_TESTp(impossible_weights_are_refused_at_once, false);
    RUN_TESTp(impossible_weights_are_refused_at_once, true);
    RUN_TEST(missing_functions_and_jobs_are_refused);
    RUN_TEST(weights_near_the_maximum_are_served_in_order);
    RUN_TEST(what_is_not_held_cannot_be_given_back);
}
