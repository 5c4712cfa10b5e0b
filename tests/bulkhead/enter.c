/* SPDX-License-Identifier: MIT
 *
 * Calls on the thread of the caller: enter, leave, the scope, and invoke.
 */

TEST leave_without_enter_is_refused(int type)
{
    ASSERT(make(&on.b, type, 2, 0));
    ASSERT_INT(EPERM, bulkhead_leave(&on.b));
    ASSERT_INT(0, bulkhead_enter(&on.b));
    ASSERT_INT(0, bulkhead_leave(&on.b));
    ASSERT_INT(EPERM, bulkhead_leave(&on.b));
    ASSERT_INT(2, bulkhead_snapshot(&on.b).available);
    ASSERT_INT(0, bulkhead_close(&on.b, BULKHEAD_DRAIN, PLIM_S(PATIENCE_S)));
    ASSERT_INT(EPERM, bulkhead_leave(&on.b));
    ASSERT_INT(0, unmake(&on.b));
    PASS();
}

static plim_thread_result leave_here(void *arg)
{
    caller *c = arg;
    c->left = bulkhead_leave(&on.b);
    return 0;
}

TEST another_thread_may_leave(void)
{
    ASSERT(make(&on.b, BULKHEAD_SYNC, 1, 0));
    for (int i = 0; i < 3; i++) {
        on.c[0] = (caller){.left = -1};
        ASSERT_INT(0, bulkhead_enter(&on.b));
        start(&on.c[0].thread, leave_here, &on.c[0]);
        join(on.c[0].thread);
        ASSERT_INT(0, on.c[0].left);
        ASSERT_INT(0, in_use(&on.b));
    }
    ENDS_WELL();
}

static int leave_scope(bulkhead *b, int how, uint32_t *inside)
{
    int after = 0;
    BULKHEAD_SCOPE(b)
    {
        *inside = in_use(b);
        if (how == 1) {
            break;
        }
        if (how == 2) {
            return 2;
        }
        if (how == 3) {
            goto out;
        }
        if (how == 4) {
            continue;
        }
        after = 1;
    }
    return after;
out:
    return 3;
}

TEST a_scope_leaves_on_every_way_out(void)
{
    ASSERT(make(&on.b, BULKHEAD_SYNC, 1, PLIM_NONE));
    const int returned[] = {1, 0, 2, 3, 0};
    for (int how = 0; how < 5; how++) {
        uint32_t inside = 0;
        ASSERT_INT(returned[how], leave_scope(&on.b, how, &inside));
        ASSERT_INT(1, inside);
        ASSERT_INT(0, in_use(&on.b));
    }
    ENDS_WELL();
}

TEST a_refused_scope_skips_its_block(void)
{
    ASSERT(make(&on.b, BULKHEAD_SYNC, 1, PLIM_NONE));
    int ran = 0;
    BULKHEAD_SCOPE(&on.b)
    {
        BULKHEAD_SCOPE(&on.b)
        {
            ran++;
        }
        ASSERT_INT(0, ran);
        ASSERT_INT(1, in_use(&on.b));
    }
    ASSERT_INT(0, in_use(&on.b));
    ASSERT_INT(0, bulkhead_close(&on.b, BULKHEAD_DRAIN, 0));
    BULKHEAD_SCOPE(&on.b)
    {
        ran++;
    }
    ASSERT_INT(0, ran);
    ENDS_WELL();
}

TEST invoke_gives_what_the_function_returned(int type, uint32_t flags, bool on_caller)
{
    bulkhead_options options = {.type = type, .flags = flags};
    ASSERT_INT(0, make_with(&on.b, &options));
    char *thread = NULL;
    int result = -1;
    ASSERT_INT(0, bulkhead_invoke(&on.b, where, &thread, &result));
    ASSERT_INT(7, result);
    ASSERT_EQ(on_caller, thread == &here);
    ASSERT_INT(0, in_use(&on.b));
    int values[] = {0, 1, -1, EAGAIN, INT32_MIN, INT32_MAX};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        ASSERT_INT(0, bulkhead_invoke(&on.b, give, &values[i], &result));
        ASSERT_INT(values[i], result);
        ASSERT_INT(0, bulkhead_invoke(&on.b, give, &values[i], NULL));
    }
    /* A refused one leaves the result alone. */
    ASSERT_INT(0, bulkhead_close(&on.b, BULKHEAD_DRAIN, PLIM_S(PATIENCE_S)));
    result = 99;
    ASSERT_INT(ESHUTDOWN, bulkhead_invoke(&on.b, give, &values[0], &result));
    ASSERT_INT(99, result);
    ASSERT_INT(0, unmake(&on.b));
    PASS();
}

TEST inline_invoke_goes_to_a_worker_when_no_permit_is_free(void)
{
    bulkhead_options options = {.type = BULKHEAD_ASYNC, .flags = BULKHEAD_INLINE};
    ASSERT_INT(0, make_with(&on.b, &options));
    ASSERT_INT(0, bulkhead_enter(&on.b));
    on.c[0] = (caller){.call = INVOKE, .gate = &on.g[0]};
    on.g[0].result = 5;
    ASSERT(queue_up(&on.c[0], 1));
    ASSERT_INT(0, bulkhead_leave(&on.b));
    ASSERT(has_entered(&on.g[0]));
    ASSERT_FIGURES(&on.b, 1, 0);
    let_go(&on.g[0]);
    ASSERT(finished(&on.c[0]));
    ASSERT_INT(0, on.c[0].error);
    ASSERT_INT(5, on.c[0].result);
    ENDS_UNCOUNTED();
}

TEST a_failing_body_gives_its_permit_back(int type)
{
    int result = 0, error = EIO;
    ASSERT(make(&on.b, type, 1, PLIM_NONE));
    for (int i = 0; i < 10; i++) {
        ASSERT_INT(0, bulkhead_invoke(&on.b, give, &error, &result));
        ASSERT_INT(EIO, result);
    }
    ASSERT_INT(0, in_use(&on.b));
    ENDS_WELL();
}

TEST every_refusal_counts_and_admissions_count_if_asked(uint32_t flags)
{
    bulkhead_options options = {.permits = 1, .queue = PLIM_NONE, .flags = flags};
    ASSERT_INT(0, make_with(&on.b, &options));
    ASSERT_INT(0, bulkhead_enter(&on.b));
    ASSERT_INT(EAGAIN, bulkhead_try_enter(&on.b));
    ASSERT_INT(EAGAIN, bulkhead_enter(&on.b));
    ASSERT_INT(ETIMEDOUT, bulkhead_enter_for(&on.b, -5));
    ASSERT_INT(EAGAIN, bulkhead_invoke(&on.b, nothing, NULL, NULL));
    ASSERT_INT(0, bulkhead_leave(&on.b));
    ASSERT_INT(0, bulkhead_invoke(&on.b, nothing, NULL, NULL));
    bulkhead_stats s = bulkhead_snapshot(&on.b);
    ASSERT_U64(4, s.rejected);
    ASSERT_U64((flags & BULKHEAD_STATS) != 0 ? 2 : 0, s.accepted);
    ASSERT_INT(0, bulkhead_close(&on.b, BULKHEAD_DRAIN, 0));
    ASSERT_INT(ESHUTDOWN, bulkhead_enter(&on.b));
    ASSERT_INT(ESHUTDOWN, bulkhead_try_enter(&on.b));
    ASSERT_INT(ESHUTDOWN, bulkhead_enter_for(&on.b, PLIM_MS(1)));
    ASSERT_U64(7, bulkhead_snapshot(&on.b).rejected);
    ASSERT_INT(0, unmake(&on.b));
    PASS();
}

SUITE(enter_suite)
{
    SET_SETUP(set_the_stage, NULL);
    SET_TEARDOWN(clear_the_stage, NULL);
    RUN_TESTp(leave_without_enter_is_refused, BULKHEAD_SYNC);
    RUN_TESTp(leave_without_enter_is_refused, BULKHEAD_ASYNC);
    RUN_TEST(another_thread_may_leave);
    RUN_TEST(a_scope_leaves_on_every_way_out);
    RUN_TEST(a_refused_scope_skips_its_block);
    RUN_TESTp(invoke_gives_what_the_function_returned, BULKHEAD_SYNC, 0, true);
    RUN_TESTp(invoke_gives_what_the_function_returned, BULKHEAD_ASYNC, 0, false);
    RUN_TESTp(invoke_gives_what_the_function_returned, BULKHEAD_ASYNC, BULKHEAD_INLINE, true);
    RUN_TESTp(invoke_gives_what_the_function_returned, BULKHEAD_ASYNC, BULKHEAD_TIMINGS, false);
    RUN_TEST(inline_invoke_goes_to_a_worker_when_no_permit_is_free);
    RUN_TESTp(a_failing_body_gives_its_permit_back, BULKHEAD_SYNC);
    RUN_TESTp(a_failing_body_gives_its_permit_back, BULKHEAD_ASYNC);
    RUN_TESTp(every_refusal_counts_and_admissions_count_if_asked, 0);
    RUN_TESTp(every_refusal_counts_and_admissions_count_if_asked, BULKHEAD_STATS);
    RUN_TESTp(every_refusal_counts_and_admissions_count_if_asked, BULKHEAD_STATS | BULKHEAD_UNFAIR);
}
