/* SPDX-License-Identifier: MIT
 *
 * Waits that could never end return EDEADLK; those that can end do not.
 */

static void nest_in_done(bulkhead_job *job)
{
    nested *n = job->arg;
    n->error = nest(n);
}

TEST a_job_that_would_wait_for_itself_is_told(int what)
{
    ASSERT(make(&on.b, BULKHEAD_ASYNC, 1, 0));
    on.n[0].what = what;
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.n[0].job));
    ASSERT_INT(0, bulkhead_wait(&on.n[0].job, PLIM_S(PATIENCE_S)));
    ASSERT_INT(EDEADLK, on.n[0].error);
    ASSERT_INT(BULKHEAD_SUCCEEDED, on.n[0].job.outcome);
    if (what == NEST_SUBMIT_AND_WAIT) { /* only the wait was in vain */
        ASSERT_INT(0, bulkhead_wait(&on.n[0].inner, PLIM_S(PATIENCE_S)));
        ASSERT_INT(BULKHEAD_SUCCEEDED, on.n[0].inner.outcome);
    }
    /* It changed nothing: also a close has not begun. */
    ASSERT_INT(0, bulkhead_enter(&on.b));
    ASSERT_INT(0, bulkhead_leave(&on.b));
    ENDS_WELL();
}

TEST a_done_that_would_wait_for_itself_is_told(int what)
{
    ASSERT(make(&on.b, BULKHEAD_ASYNC, 1, 0));
    on.n[0].what = what;
    on.n[0].job.run = run_nothing;
    on.n[0].job.done = nest_in_done;
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.n[0].job));
    ASSERT_INT(0, bulkhead_wait(&on.n[0].job, PLIM_S(PATIENCE_S)));
    ASSERT_INT(EDEADLK, on.n[0].error);
    ASSERT_INT(0, bulkhead_enter(&on.b));
    ASSERT_INT(0, bulkhead_leave(&on.b));
    ENDS_WELL();
}

TEST two_jobs_on_two_permits_that_wait_for_a_third_do_not_hang(int what)
{
    for (int round = scaled(20); round > 0; round--) {
        nested *n = on.n;
        ASSERT(make(&on.b, BULKHEAD_ASYNC, 2, 0));
        for (int i = 0; i < 2; i++) {
            n[i] = (nested){.what = what, .meets = true, .peer = &n[1 - i]};
            nested_init(&n[i]);
            ASSERT_INT(0, bulkhead_submit(&on.b, &n[i].job));
        }
        ASSERT_INT(0, csem_acquire(&on.barrier[0]));
        ASSERT_INT(0, csem_acquire(&on.barrier[0]));
        ASSERT_INT(0, csem_release_n(&on.barrier[1], 2));
        ASSERT_INT(0, bulkhead_wait(&n[0].job, PLIM_S(PATIENCE_S)));
        ASSERT_INT(0, bulkhead_wait(&n[1].job, PLIM_S(PATIENCE_S)));
        /* The second to wait is told; then it ends, and the first gets what it waits for. */
        ASSERT_INT(EDEADLK, n[0].error + n[1].error);
        ASSERT(n[0].error == 0 || n[1].error == 0);
        ASSERT_INT(0, bulkhead_wait_idle(&on.b, PLIM_S(PATIENCE_S)));
        ASSERT_ENDS_WELL();
    }
    PASS();
}

TEST a_job_may_wait_for_another_while_a_permit_is_left(int what)
{
    ASSERT(make(&on.b, BULKHEAD_ASYNC, 2, 0));
    on.n[0].what = what;
    for (int i = scaled(200); i > 0; i--) {
        ASSERT_INT(0, bulkhead_submit(&on.b, &on.n[0].job));
        ASSERT_INT(0, bulkhead_wait(&on.n[0].job, PLIM_S(PATIENCE_S)));
        ASSERT_INT(0, on.n[0].error);
    }
    ENDS_WELL();
}

TEST a_full_queue_in_front_of_the_own_job_is_told(void)
{
    ASSERT(make(&on.b, BULKHEAD_ASYNC, 1, 1));
    on.n[0].what = NEST_PLACE;
    on.n[0].meets = true;
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.n[0].job));
    ASSERT_INT(0, csem_acquire(&on.barrier[0]));
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[0].job)); /* now the queue is full */
    ASSERT_INT(0, csem_release(&on.barrier[1]));
    ASSERT_INT(0, bulkhead_wait(&on.n[0].job, PLIM_S(PATIENCE_S)));
    ASSERT_INT(EDEADLK, on.n[0].error);
    let_go(&on.g[0]);
    ENDS_WELL();
}

static int enter_again(void *arg)
{
    bulkhead **b = arg;
    int error = bulkhead_enter(b[1]);
    if (error == 0) {
        error = bulkhead_enter(b[0]);
        bulkhead_leave(b[1]);
    }
    return error;
}

TEST a_thread_that_holds_the_last_permit_is_told(int type)
{
    ASSERT(make(&on.other, type, 1, 0));
    ASSERT(make(&on.b, type, 1, 0));
    ASSERT_INT(0, bulkhead_enter(&on.other));
    ASSERT_INT(EDEADLK, bulkhead_enter(&on.other));
    ASSERT_INT(EDEADLK, bulkhead_enter_for(&on.other, PLIM_FOREVER));
    ASSERT_INT(EDEADLK, bulkhead_invoke(&on.other, nothing, NULL, NULL));
    ASSERT_INT(EDEADLK, bulkhead_wait_idle(&on.other, PLIM_FOREVER));
    ASSERT_INT(EDEADLK, bulkhead_close(&on.other, BULKHEAD_DRAIN, PLIM_FOREVER));
    ASSERT_INT(EDEADLK, bulkhead_close(&on.other, BULKHEAD_ABORT, PLIM_FOREVER));
    ASSERT_U64(3, bulkhead_snapshot(&on.other).rejected);
    /* Others in between do not hide it. */
    ASSERT_INT(0, bulkhead_enter(&on.b));
    ASSERT_INT(EDEADLK, bulkhead_enter(&on.other));
    ASSERT_INT(0, bulkhead_leave(&on.b));
    if (type == BULKHEAD_ASYNC) {
        on.job[0] = (bulkhead_job){.run = run_nothing};
        ASSERT_INT(0, bulkhead_submit(&on.other, &on.job[0]));
        ASSERT_INT(EDEADLK, bulkhead_wait(&on.job[0], PLIM_FOREVER));
        ASSERT_INT(0, bulkhead_leave(&on.other));
        ASSERT_INT(0, bulkhead_wait(&on.job[0], PLIM_S(PATIENCE_S)));
    } else {
        ASSERT_INT(0, bulkhead_leave(&on.other));
        /* invoke inside invoke, with another in between: A, B, A */
        bulkhead *both[] = {&on.other, &on.b};
        int result = -1;
        ASSERT_INT(0, bulkhead_invoke(&on.other, enter_again, both, &result));
        ASSERT_INT(EDEADLK, result);
    }
    ASSERT_FIGURES(&on.other, 0, 0);
    ASSERT_ENDS_FIRST();
    ENDS_WELL();
}

/* A permit may be taken twice by one thread, while there are some. */
TEST a_thread_may_hold_several_permits(void)
{
    ASSERT(make(&on.b, BULKHEAD_SYNC, 3, 0));
    for (int i = 0; i < 3; i++) {
        ASSERT_INT(0, bulkhead_enter(&on.b));
    }
    ASSERT_INT(EAGAIN, bulkhead_try_enter(&on.b)); /* does not wait, so is not told EDEADLK */
    ASSERT_INT(ETIMEDOUT, bulkhead_enter_for(&on.b, 0));
    for (int i = 0; i < 3; i++) {
        ASSERT_INT(0, bulkhead_leave(&on.b));
    }
    ASSERT_INT(EPERM, bulkhead_leave(&on.b));
    ENDS_WELL();
}

typedef struct spiral {
    int depth, deepest;
} spiral;

static int wind(void *arg)
{
    spiral *s = arg;
    int result = 0;
    s->deepest = ++s->depth;
    int error = bulkhead_invoke(&on.b, wind, s, &result);
    return error != 0 ? error : result;
}

TEST invokes_nest_as_deep_as_there_are_permits(int type, uint32_t flags)
{
    bulkhead_options options = {.type = type, .permits = 3, .flags = flags};
    ASSERT_INT(0, make_with(&on.b, &options));
    spiral s = {0};
    int result = 0;
    ASSERT_INT(0, bulkhead_invoke(&on.b, wind, &s, &result));
    ASSERT_INT(EDEADLK, result);
    ASSERT_INT(3, s.deepest);
    int scopes = 0;
    BULKHEAD_SCOPE(&on.b)
    {
        BULKHEAD_SCOPE(&on.b)
        {
            BULKHEAD_SCOPE(&on.b)
            {
                scopes = 3;
                ASSERT_INT(EDEADLK, bulkhead_enter(&on.b));
            }
        }
    }
    ASSERT_INT(3, scopes);
    ASSERT_FIGURES(&on.b, 0, 0);
    ENDS_UNCOUNTED();
}

static int close_without_waiting(bulkhead_job *job)
{
    nested *n = job->arg;
    n->error = bulkhead_close(&on.b, BULKHEAD_DRAIN, 0);
    return 0;
}

TEST a_job_may_begin_to_close_its_own_bulkhead(void)
{
    ASSERT(make(&on.b, BULKHEAD_ASYNC, 1, 0));
    on.n[0].job.run = close_without_waiting;
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.n[0].job));
    ASSERT_INT(0, bulkhead_wait(&on.n[0].job, PLIM_S(PATIENCE_S)));
    ASSERT_INT(ETIMEDOUT, on.n[0].error);
    ASSERT_INT(ESHUTDOWN, bulkhead_enter(&on.b));
    ENDS_WELL();
}

TEST a_holder_may_wait_for_a_job_while_a_permit_is_left(void)
{
    ASSERT(make(&on.b, BULKHEAD_ASYNC, 2, 0));
    ASSERT_INT(0, bulkhead_enter(&on.b));
    for (int i = scaled(100); i > 0; i--) {
        on.job[0] = (bulkhead_job){.run = run_nothing};
        ASSERT_INT(0, bulkhead_submit(&on.b, &on.job[0]));
        ASSERT_INT(0, bulkhead_wait(&on.job[0], PLIM_S(PATIENCE_S)));
        ASSERT_INT(0, bulkhead_invoke(&on.b, nothing, NULL, NULL));
    }
    ASSERT_INT(0, bulkhead_leave(&on.b));
    ENDS_WELL();
}

static struct tree {
    atomic_int ran, refused;
} tree;

typedef struct leaf {
    bulkhead_job job;
    int depth;
} leaf;

static int grow(bulkhead_job *job);

static void fell(bulkhead_job *job)
{
    free(job->arg);
}

static void plant(int depth)
{
    leaf *l = calloc(1, sizeof *l);
    if (l == NULL) {
        abort();
    }
    l->depth = depth;
    l->job.run = grow;
    l->job.arg = l;
    l->job.done = fell;
    l->job.detached = true;
    if (bulkhead_submit(&on.b, &l->job) != 0) {
        atomic_fetch_add(&tree.refused, 1);
        free(l);
    }
}

static int grow(bulkhead_job *job)
{
    leaf *l = job->arg;
    atomic_fetch_add(&tree.ran, 1);
    if (l->depth > 0) {
        plant(l->depth - 1);
        plant(l->depth - 1);
    }
    return 0;
}

TEST jobs_may_submit_jobs(void)
{
    ASSERT(make(&on.b, BULKHEAD_ASYNC, 2, 0));
    atomic_store(&tree.ran, 0);
    atomic_store(&tree.refused, 0);
    plant(9);
    ASSERT_INT(0, bulkhead_wait_idle(&on.b, PLIM_S(PATIENCE_S)));
    ASSERT_INT((1 << 10) - 1, atomic_load(&tree.ran));
    ASSERT_INT(0, atomic_load(&tree.refused));
    ENDS_WELL();
}

SUITE(deadlock_suite)
{
    SET_SETUP(set_the_stage, NULL);
    SET_TEARDOWN(clear_the_stage, NULL);
    RUN_TESTp(a_job_that_would_wait_for_itself_is_told, NEST_INVOKE);
    RUN_TESTp(a_job_that_would_wait_for_itself_is_told, NEST_ENTER);
    RUN_TESTp(a_job_that_would_wait_for_itself_is_told, NEST_SUBMIT_AND_WAIT);
    RUN_TESTp(a_job_that_would_wait_for_itself_is_told, NEST_SELF);
    RUN_TESTp(a_job_that_would_wait_for_itself_is_told, NEST_IDLE);
    RUN_TESTp(a_job_that_would_wait_for_itself_is_told, NEST_DRAIN);
    RUN_TESTp(a_job_that_would_wait_for_itself_is_told, NEST_ABORT);
    RUN_TESTp(a_done_that_would_wait_for_itself_is_told, NEST_SELF);
    RUN_TESTp(a_done_that_would_wait_for_itself_is_told, NEST_IDLE);
    RUN_TESTp(a_done_that_would_wait_for_itself_is_told, NEST_DRAIN);
    RUN_TESTp(a_done_that_would_wait_for_itself_is_told, NEST_ABORT);
    RUN_TESTp(two_jobs_on_two_permits_that_wait_for_a_third_do_not_hang, NEST_INVOKE);
    RUN_TESTp(two_jobs_on_two_permits_that_wait_for_a_third_do_not_hang, NEST_ENTER);
    RUN_TESTp(two_jobs_on_two_permits_that_wait_for_a_third_do_not_hang, NEST_SUBMIT_AND_WAIT);
    RUN_TESTp(two_jobs_on_two_permits_that_wait_for_a_third_do_not_hang, NEST_PEER);
    RUN_TESTp(a_job_may_wait_for_another_while_a_permit_is_left, NEST_INVOKE);
    RUN_TESTp(a_job_may_wait_for_another_while_a_permit_is_left, NEST_ENTER);
    RUN_TESTp(a_job_may_wait_for_another_while_a_permit_is_left, NEST_SUBMIT_AND_WAIT);
    RUN_TEST(a_full_queue_in_front_of_the_own_job_is_told);
    RUN_TESTp(a_thread_that_holds_the_last_permit_is_told, BULKHEAD_SYNC);
    RUN_TESTp(a_thread_that_holds_the_last_permit_is_told, BULKHEAD_ASYNC);
    RUN_TEST(a_thread_may_hold_several_permits);
    RUN_TESTp(invokes_nest_as_deep_as_there_are_permits, BULKHEAD_SYNC, 0);
    RUN_TESTp(invokes_nest_as_deep_as_there_are_permits, BULKHEAD_ASYNC, 0);
    RUN_TESTp(invokes_nest_as_deep_as_there_are_permits, BULKHEAD_ASYNC, BULKHEAD_INLINE);
    RUN_TEST(a_job_may_begin_to_close_its_own_bulkhead);
    RUN_TEST(a_holder_may_wait_for_a_job_while_a_permit_is_left);
    RUN_TEST(jobs_may_submit_jobs);
}
