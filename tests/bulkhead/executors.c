/* SPDX-License-Identifier: MIT
 *
 * Executors, both ways: jobs that run on an executor, and the bulkhead as one.
 */

/* Threads that take tasks from a list; or nobody does, and the test runs them; or on the spot. */
typedef struct pool {
    csem lock, work;
    struct task {
        void (*run)(void *);
        void *arg;
    } tasks[64];
    unsigned first, last;
    bool on_the_spot, ending;
    gate *stays;       /* where a call of execute stays once it has run its task on the spot */
    atomic_int refuse; /* so many times; -1: always */
    atomic_int calls;
    plim_thread threads[4];
    int n;
} pool;

static int pool_execute(void *ctx, void (*run)(void *), void *arg)
{
    pool *p = ctx;
    atomic_fetch_add(&p->calls, 1);
    int left = atomic_load(&p->refuse);
    if (left != 0) {
        if (left > 0) {
            atomic_fetch_sub(&p->refuse, 1);
        }
        return ENOBUFS;
    }
    if (p->on_the_spot) {
        run(arg);
        if (p->stays != NULL) {
            pass(p->stays);
        }
        return 0;
    }
    csem_acquire(&p->lock);
    p->tasks[p->last++ % 64] = (struct task){run, arg};
    csem_release(&p->lock);
    csem_release(&p->work);
    return 0;
}

/* Runs the first task, if there is one. */
static bool pool_step(pool *p)
{
    csem_acquire(&p->lock);
    bool some = p->first != p->last;
    struct task t = some ? p->tasks[p->first++ % 64] : (struct task){NULL, NULL};
    csem_release(&p->lock);
    if (some) {
        t.run(t.arg);
    }
    return some;
}

static plim_thread_result pool_thread(void *arg)
{
    pool *p = arg;
    for (;;) {
        csem_acquire(&p->work);
        if (!pool_step(p)) {
            return 0; /* woken without a task: to end */
        }
    }
}

static void pool_end(pool *p)
{
    csem_release_n(&p->work, (uint32_t)p->n);
    for (int i = 0; i < p->n; i++) {
        join(p->threads[i]);
    }
    p->n = 0;
}

static pool hands;

/* A bulkhead on an executor with so many threads; with none, the test itself runs the tasks. */
static bool make_on(int threads, int32_t permits, int32_t queue)
{
    plim_executor executor = {pool_execute, &hands};
    bulkhead_options options = {
        .type = BULKHEAD_ASYNC, .permits = permits, .queue = queue, .executor = &executor};
    for (int i = 0; i < threads; i++) {
        start(&hands.threads[hands.n++], pool_thread, &hands);
    }
    return make_with(&on.b, &options) == 0;
}

/* Others, for whom the bulkhead is an executor. */
static struct client {
    atomic_int ran;
    csem started, go;
} client;

static void client_task(void *arg)
{
    (void)arg;
    atomic_fetch_add(&client.ran, 1);
}

static void client_block(void *arg)
{
    (void)arg;
    csem_release(&client.started);
    csem_acquire(&client.go);
    atomic_fetch_add(&client.ran, 1);
}

static void set_the_hands(void *data)
{
    memset((void *)&hands, 0, sizeof hands);
    csem_init(&hands.lock, 1);
    csem_init(&hands.work, 0);
    memset((void *)&client, 0, sizeof client);
    csem_init(&client.started, 0);
    csem_init(&client.go, 0);
    set_the_stage(data);
}

static void clear_the_hands(void *data)
{
    open_the_gates();
    csem_release_n(&client.go, PLENTY);
    while (hands.n == 0 && pool_step(&hands)) {} /* what a failed test has not run */
    clear_the_stage(data);
    pool_end(&hands);
}

TEST an_executor_runs_the_jobs(void)
{
    enum { N = 50 };
    ASSERT(make_on(3, 2, 2));
    for (int i = 0; i < 5; i++) {
        ASSERT_INT(i < 4 ? 0 : EAGAIN, bulkhead_submit(&on.b, &on.g[i].job));
    }
    ASSERT_FIGURES(&on.b, 2, 2);
    ASSERT_INT(0, bulkhead_cancel(&on.b, &on.g[3].job)); /* in the queue: as ever */
    ASSERT_INT(BULKHEAD_CANCELLED, on.g[3].job.outcome);
    let_all_go(on.g, 3);
    for (int i = 0; i < 3; i++) {
        ASSERT(is_done(&on.g[i]));
        ASSERT_INT(BULKHEAD_SUCCEEDED, on.g[i].job.outcome);
    }
    ASSERT_INT(0, bulkhead_resize(&on.b, 2, 0));
    for (int i = 0; i < N; i++) {
        on.job[i] = (bulkhead_job){.run = run_count, .arg = &on.ran};
        ASSERT_INT(0, bulkhead_submit(&on.b, &on.job[i]));
    }
    for (int i = 0; i < N; i++) {
        ASSERT_INT(0, bulkhead_wait(&on.job[i], PLIM_S(PATIENCE_S)));
        ASSERT(on.job[i].resource == NULL);
    }
    int error = 17, result = 0;
    ASSERT_INT(0, bulkhead_invoke(&on.b, give, &error, &result));
    ASSERT_INT(17, result);
    ASSERT_INT(N, atomic_load(&on.ran));
    ASSERT_INT(0, bulkhead_snapshot(&on.b).workers);
    ENDS_WELL();
}

TEST an_executor_may_run_on_the_spot(void)
{
    hands.on_the_spot = true;
    ASSERT(make_on(0, 1, 0));
    char *thread = NULL;
    ASSERT_INT(0, bulkhead_invoke(&on.b, where, &thread, NULL));
    ASSERT(thread == &here);
    on.job[0] = (bulkhead_job){.run = run_nothing};
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.job[0]));
    ASSERT_INT(0, bulkhead_wait(&on.job[0], 0)); /* it is done */
    ASSERT_INT(BULKHEAD_SUCCEEDED, on.job[0].outcome);
    ENDS_WELL();
}

TEST ten_thousand_jobs_on_the_spot_need_no_deep_stack(void)
{
    enum { N = 10001 };
    static bulkhead_job jobs[N];
    hands.on_the_spot = true;
    ASSERT(make_on(0, 1, 0));
    on.c[0] = (caller){.call = SUBMIT, .gate = &on.g[0]};
    start_call(&on.c[0]); /* runs all of them in the end */
    ASSERT(has_entered(&on.g[0]));
    memset((void *)jobs, 0, sizeof jobs);
    for (int i = 0; i < N; i++) {
        jobs[i].run = run_count;
        jobs[i].arg = &on.ran;
        ASSERT_INT(0, bulkhead_submit(&on.b, &jobs[i]));
    }
    ASSERT_FIGURES(&on.b, 1, N);
    let_go(&on.g[0]);
    ASSERT_INT(0, bulkhead_wait(&jobs[N - 1], PLIM_S(PATIENCE_S)));
    ASSERT(finished(&on.c[0]));
    ASSERT_INT(0, on.c[0].error);
    ASSERT_INT(N, atomic_load(&on.ran));
    ENDS_WELL();
}

TEST a_refusal_of_the_executor_at_submit_is_told(void)
{
    ASSERT(make_on(1, 1, 0));
    atomic_store(&hands.refuse, 2);
    ASSERT_INT(EAGAIN, bulkhead_submit(&on.b, &on.g[0].job));
    ASSERT_INT(EAGAIN, bulkhead_invoke(&on.b, nothing, NULL, NULL));
    bulkhead_stats s = bulkhead_snapshot(&on.b);
    ASSERT_INT(0, s.in_use);
    ASSERT_U64(0, s.accepted);
    ASSERT_U64(2, s.rejected);
    ASSERT_INT(0, atomic_load(&on.g[0].dones));
    let_go(&on.g[0]);
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[0].job));
    ASSERT(is_done(&on.g[0]));
    ASSERT_INT(1, atomic_load(&on.g[0].runs));
    ENDS_WELL();
}

TEST a_refusal_of_the_executor_later_aborts_the_job(void)
{
    ASSERT(make_on(1, 1, 0));
    for (int i = 0; i < 4; i++) {
        ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[i].job));
    }
    ASSERT(has_entered(&on.g[0]));
    atomic_store(&hands.refuse, 2);
    let_all_go(on.g, 4);
    for (int i = 0; i < 4; i++) {
        ASSERT(is_done(&on.g[i]));
        ASSERT_INT(1, atomic_load(&on.g[i].dones));
        ASSERT_INT(i == 1 || i == 2 ? BULKHEAD_ABORTED : BULKHEAD_SUCCEEDED, on.g[i].job.outcome);
        ASSERT_INT(i == 1 || i == 2 ? 0 : 1, atomic_load(&on.g[i].runs));
    }
    ASSERT_FIGURES(&on.b, 0, 0);
    ASSERT_U64(2, bulkhead_snapshot(&on.b).aborted);
    ENDS_WELL();
}

TEST a_call_whose_entry_is_refused_later_is_refused(void)
{
    ASSERT(make_on(1, 1, 0));
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[0].job));
    ASSERT(has_entered(&on.g[0]));
    on.c[0] = (caller){.call = INVOKE, .gate = &on.g[1]};
    ASSERT(queue_up(&on.c[0], 1));
    atomic_store(&hands.refuse, 1);
    let_go(&on.g[0]);
    ASSERT(finished(&on.c[0]));
    ASSERT_INT(EAGAIN, on.c[0].error);
    ASSERT_INT(0, atomic_load(&on.g[1].runs));
    ENDS_WELL();
}

/* A call of execute still names the bulkhead, although all its jobs are done. */
TEST a_call_of_execute_that_has_not_returned_is_not_idle(void)
{
    hands.on_the_spot = true;
    hands.stays = &on.g[2];
    ASSERT(make_on(0, 1, 0));
    on.c[0] = (caller){.call = ENTER, .gate = &on.g[0]};
    start_call(&on.c[0]);
    ASSERT(has_entered(&on.g[0]));
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[1].job)); /* whoever leaves gives it out */
    let_all_go(on.g, 2);
    ASSERT(has_entered(&on.g[2]));
    ASSERT(is_done(&on.g[1]));
    ASSERT_FIGURES(&on.b, 0, 0);
    ASSERT_INT(ETIMEDOUT, bulkhead_wait_idle(&on.b, 0));
    let_go(&on.g[2]);
    ASSERT(finished(&on.c[0]));
    ASSERT_INT(0, on.c[0].error);
    ASSERT_INT(0, bulkhead_wait_idle(&on.b, 0));
    ENDS_WELL();
}

/* The executor has an entry for it and does not begin: what ends it ends it at once. What is left in
 * the executor does not touch it. */
TEST what_the_executor_has_not_begun_ends_at_once(int how, bulkhead_outcome outcome)
{
    ASSERT(make_on(0, 1, 0)); /* nobody but this test runs tasks */
    on.g[0].job.start_within_ns = how == BY_EXPIRY ? PLIM_MS(1) : 0;
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[0].job));
    ASSERT(how == BY_EXPIRY || in_use(&on.b) == 1); /* it may have expired by now */
    if (how == BY_CANCEL) {
        ASSERT_INT(0, bulkhead_cancel(&on.b, &on.g[0].job));
        ASSERT_INT(EALREADY, bulkhead_cancel(&on.b, &on.g[0].job));
    } else if (how == BY_END) {
        ASSERT_INT(ETIMEDOUT, bulkhead_close(&on.b, BULKHEAD_ABORT, PLIM_MS(1)));
    }
    ASSERT_INT(0, bulkhead_wait(&on.g[0].job, PLIM_S(PATIENCE_S)));
    ASSERT_INT(outcome, on.g[0].job.outcome);
    ASSERT_INT(0, atomic_load(&on.g[0].runs));
    ASSERT_INT(1, atomic_load(&on.g[0].dones));
    ASSERT_INT(0, in_use(&on.b));
    ASSERT_INT(0, bulkhead_wait_idle(&on.b, PLIM_S(PATIENCE_S)));
    ASSERT_INT(EBUSY, bulkhead_destroy(&on.b)); /* the entry is still to come back */
    bulkhead_job after;
    memset((void *)&on.g[0].job, 0xa5, sizeof on.g[0].job); /* it is ours */
    memcpy((void *)&after, (void *)&on.g[0].job, sizeof after);
    ASSERT(pool_step(&hands));
    ASSERT_FALSE(pool_step(&hands));
    ASSERT_INT(0, memcmp((void *)&after, (void *)&on.g[0].job, sizeof after));
    gates_init(on.g, 1);
    ENDS_WELL();
}

/* The next job takes the place of the one that was cancelled, in order, with either entry. */
TEST an_entry_runs_whatever_job_is_first(void)
{
    ASSERT(make_on(0, 2, 0));
    for (int i = 0; i < 4; i++) {
        let_go(&on.g[i]);
        ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[i].job));
    }
    ASSERT_FIGURES(&on.b, 2, 2);
    ASSERT_INT(0, bulkhead_cancel(&on.b, &on.g[0].job));
    ASSERT_FIGURES(&on.b, 2, 1); /* its permit went to the third */
    ASSERT(pool_step(&hands));
    ASSERT_INT(BULKHEAD_SUCCEEDED, on.g[1].job.outcome);
    ASSERT(pool_step(&hands));
    ASSERT_INT(BULKHEAD_SUCCEEDED, on.g[2].job.outcome);
    ASSERT(pool_step(&hands));
    ASSERT_INT(BULKHEAD_SUCCEEDED, on.g[3].job.outcome);
    while (pool_step(&hands)) { /* what is left does nothing */
    }
    ASSERT_FIGURES(&on.b, 0, 0);
    for (int i = 0; i < 4; i++) {
        ASSERT_INT(i != 0, atomic_load(&on.g[i].runs));
        ASSERT_INT(1, atomic_load(&on.g[i].dones));
    }
    ENDS_WELL();
}

/* An entry that a cancelled job has left is for the next: so entries do not pile up. */
TEST an_entry_that_is_left_is_used_by_the_next_job(void)
{
    ASSERT(make_on(0, 1, 0));
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[0].job));
    ASSERT_INT(0, bulkhead_cancel(&on.b, &on.g[0].job)); /* leaves its entry */
    for (int i = 0; i < 100; i++) {
        ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[0].job));
        ASSERT_INT(0, bulkhead_cancel(&on.b, &on.g[0].job));
    }
    let_go(&on.g[1]);
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[1].job));
    ASSERT_INT(1, atomic_load(&hands.calls));
    ASSERT(pool_step(&hands));
    ASSERT_INT(BULKHEAD_SUCCEEDED, on.g[1].job.outcome);
    ASSERT_FALSE(pool_step(&hands));
    ENDS_WELL();
}

/* The executor refuses an entry after another one has run its job: then the newest has none. */
static struct {
    bool once;
    int error;
} trick;

static int run_others_and_refuse(void *ctx, void (*run)(void *), void *arg)
{
    if (atomic_load(&hands.calls) != 1 || trick.once) {
        return pool_execute(ctx, run, arg);
    }
    trick.once = true;
    pool_step(&hands); /* the first job */
    trick.error = bulkhead_submit(&on.b, &on.g[2].job);
    pool_step(&hands); /* the second, with the third one's entry */
    return EAGAIN;     /* that of the second */
}

TEST a_refused_entry_takes_the_job_that_has_none(void)
{
    plim_executor executor = {run_others_and_refuse, &hands};
    bulkhead_options options = {.type = BULKHEAD_ASYNC, .permits = 3, .executor = &executor};
    trick.once = false;
    trick.error = -1;
    ASSERT_INT(0, make_with(&on.b, &options));
    let_all_go(on.g, 3);
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[0].job));
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[1].job)); /* it has been run */
    ASSERT(trick.once);
    ASSERT_INT(0, trick.error);
    ASSERT_INT(BULKHEAD_SUCCEEDED, on.g[0].job.outcome);
    ASSERT_INT(BULKHEAD_SUCCEEDED, on.g[1].job.outcome);
    ASSERT_INT(BULKHEAD_ABORTED, on.g[2].job.outcome);
    ASSERT_FALSE(pool_step(&hands));
    ENDS_WELL();
}

static int cancel_and_refuse(void *ctx, void (*run)(void *), void *arg)
{
    (void)ctx, (void)run, (void)arg;
    trick.error = bulkhead_cancel(&on.b, &on.g[0].job);
    return ENOBUFS;
}

TEST a_refused_entry_takes_no_job_if_none_waits_for_it(void)
{
    plim_executor executor = {cancel_and_refuse, NULL};
    bulkhead_options options = {.type = BULKHEAD_ASYNC, .executor = &executor};
    trick.error = -1;
    ASSERT_INT(0, make_with(&on.b, &options));
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[0].job)); /* it was accepted, and cancelled */
    ASSERT_INT(0, trick.error);
    ASSERT(is_done(&on.g[0]));
    ASSERT_INT(BULKHEAD_CANCELLED, on.g[0].job.outcome);
    ASSERT_INT(1, atomic_load(&on.g[0].dones));
    ENDS_WELL();
}

TEST a_call_that_does_not_begin_in_time_leaves_nothing_in_the_executor(void)
{
    plim_executor executor = {pool_execute, &hands};
    bulkhead_options options = {
        .type = BULKHEAD_ASYNC, .permits = 1, .timeout_ns = PLIM_MS(1), .executor = &executor};
    ASSERT_INT(0, make_with(&on.b, &options));
    ASSERT_INT(ETIMEDOUT, bulkhead_invoke(&on.b, count, &on.ran, NULL));
    ASSERT_INT(0, in_use(&on.b));
    ASSERT(pool_step(&hands));
    ASSERT_INT(0, atomic_load(&on.ran));
    ENDS_WELL();
}

static int fail_always(bulkhead_job *job)
{
    atomic_fetch_add((atomic_int *)job->arg, 1);
    return EIO;
}

TEST retries_delays_and_run_timeouts_work_on_an_executor(void)
{
    ASSERT(make_on(2, 2, 0));
    on.job[0] =
        (bulkhead_job){.run = fail_always, .arg = &on.ran, .attempts = 3, .delay_ns = PLIM_MS(2)};
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.job[0]));
    ASSERT_INT(0, bulkhead_wait(&on.job[0], PLIM_S(PATIENCE_S)));
    ASSERT_INT(BULKHEAD_FAILED, on.job[0].outcome);
    ASSERT_INT(EIO, on.job[0].result);
    ASSERT_INT(3, atomic_load(&on.ran));
    on.g[0].job.run_timeout_ns = PLIM_MS(2);
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[0].job));
    ASSERT(is_done(&on.g[0]));
    ASSERT_INT(BULKHEAD_TIMED_OUT, on.g[0].job.outcome);
    ASSERT_INT(1, in_use(&on.b));
    let_go(&on.g[0]);
    ASSERT_INT(0, bulkhead_reclaim(&on.g[0].job, PLIM_S(PATIENCE_S)));
    ENDS_WELL();
}

TEST a_job_on_an_executor_that_waits_for_itself_is_told(int what)
{
    ASSERT(make_on(1, 1, 0));
    on.n[0].what = what;
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.n[0].job));
    ASSERT_INT(0, bulkhead_wait(&on.n[0].job, PLIM_S(PATIENCE_S)));
    ASSERT_INT(EDEADLK, on.n[0].error);
    ENDS_WELL();
}

TEST a_bulkhead_is_an_executor_for_others(int how)
{
    ASSERT(make(&on.b, BULKHEAD_ASYNC, 1, 10));
    plim_executor executor = bulkhead_executor(&on.b);
    ASSERT_INT(0, executor.execute(executor.ctx, client_block, NULL));
    ASSERT_INT(0, csem_acquire(&client.started));
    for (int i = 0; i < 10; i++) {
        ASSERT_INT(0, executor.execute(executor.ctx, client_task, NULL));
    }
    ASSERT_INT(EAGAIN, executor.execute(executor.ctx, client_task, NULL)); /* full: refused */
    ASSERT_FIGURES(&on.b, 1, 10);
    ASSERT_INT(0, atomic_load(&client.ran));
    if (how == BULKHEAD_ABORT) { /* those in the queue are run by the thread that closes */
        ASSERT_INT(ETIMEDOUT, bulkhead_close(&on.b, BULKHEAD_ABORT, PLIM_MS(1)));
        ASSERT_INT(10, atomic_load(&client.ran));
    }
    csem_release(&client.go);
    ASSERT_ENDS_WELL();
    ASSERT_INT(11, atomic_load(&client.ran));
    PASS();
}

TEST a_closed_bulkhead_refuses_as_an_executor(void)
{
    ASSERT(make(&on.b, BULKHEAD_ASYNC, 1, 0));
    plim_executor executor = bulkhead_executor(&on.b);
    ASSERT_INT(0, executor.execute(executor.ctx, client_task, NULL));
    ASSERT_INT(0, bulkhead_close(&on.b, BULKHEAD_DRAIN, PLIM_S(PATIENCE_S)));
    ASSERT_INT(1, atomic_load(&client.ran));
    ASSERT_INT(ESHUTDOWN, executor.execute(executor.ctx, client_task, NULL));
    ASSERT_INT(1, atomic_load(&client.ran));
    ASSERT_INT(0, unmake(&on.b));
    ASSERT_INT(blocks_before, atomic_load(&blocks));
    PASS();
}

TEST one_bulkhead_may_be_the_executor_of_another(void)
{
    enum { N = 100 };
    static bulkhead_job jobs[N];
    ASSERT(make(&on.other, BULKHEAD_ASYNC, 3, 0));
    plim_executor executor = bulkhead_executor(&on.other);
    bulkhead_options options = {.type = BULKHEAD_ASYNC, .permits = 2, .executor = &executor};
    ASSERT_INT(0, make_with(&on.b, &options));
    for (int i = 0; i < N; i++) {
        jobs[i] = (bulkhead_job){.run = run_count, .arg = &on.ran};
        ASSERT_INT(0, bulkhead_submit(&on.b, &jobs[i]));
    }
    ASSERT_INT(0, bulkhead_close(&on.b, BULKHEAD_DRAIN, PLIM_S(PATIENCE_S)));
    ASSERT_INT(N, atomic_load(&on.ran));
    ASSERT_INT(0, unmake(&on.b));
    return ends_well(&on.other, true);
}

static plim_thread_result client_thread(void *arg)
{
    member *m = arg;
    crowd *c = m->crowd;
    plim_executor executor = bulkhead_executor(&on.b);
    wait_for_go(c);
    for (int i = 0; i < c->rounds; i++) {
        int error = executor.execute(executor.ctx, client_task, NULL);
        atomic_fetch_add(error == 0 ? &c->accepted : error == EAGAIN ? &c->refused : &c->odd, 1);
    }
    return 0;
}

TEST an_executor_runs_each_task_it_took_exactly_once(int how)
{
    enum { N = 4 };
    ASSERT(make(&on.b, BULKHEAD_ASYNC, 2, 5));
    on.crowd = (crowd){.rounds = scaled(500)};
    gather(N, client_thread);
    disperse();
    ASSERT_INT(0, atomic_load(&on.crowd.odd));
    ASSERT_INT(0, bulkhead_close(&on.b, how, PLIM_S(PATIENCE_S)));
    ASSERT_INT(atomic_load(&on.crowd.accepted), atomic_load(&client.ran));
    ENDS_WELL();
}

SUITE(executors_suite)
{
    SET_SETUP(set_the_hands, NULL);
    SET_TEARDOWN(clear_the_hands, NULL);
    RUN_TEST(an_executor_runs_the_jobs);
    RUN_TEST(an_executor_may_run_on_the_spot);
    RUN_TEST(ten_thousand_jobs_on_the_spot_need_no_deep_stack);
    RUN_TEST(a_refusal_of_the_executor_at_submit_is_told);
    RUN_TEST(a_refusal_of_the_executor_later_aborts_the_job);
    RUN_TEST(a_call_whose_entry_is_refused_later_is_refused);
    RUN_TEST(a_call_of_execute_that_has_not_returned_is_not_idle);
    RUN_TESTp(what_the_executor_has_not_begun_ends_at_once, BY_CANCEL, BULKHEAD_CANCELLED);
    RUN_TESTp(what_the_executor_has_not_begun_ends_at_once, BY_EXPIRY, BULKHEAD_EXPIRED);
    RUN_TESTp(what_the_executor_has_not_begun_ends_at_once, BY_END, BULKHEAD_ABORTED);
    RUN_TEST(an_entry_runs_whatever_job_is_first);
    RUN_TEST(an_entry_that_is_left_is_used_by_the_next_job);
    RUN_TEST(a_refused_entry_takes_the_job_that_has_none);
    RUN_TEST(a_refused_entry_takes_no_job_if_none_waits_for_it);
    RUN_TEST(a_call_that_does_not_begin_in_time_leaves_nothing_in_the_executor);
    RUN_TEST(retries_delays_and_run_timeouts_work_on_an_executor);
    RUN_TESTp(a_job_on_an_executor_that_waits_for_itself_is_told, NEST_INVOKE);
    RUN_TESTp(a_job_on_an_executor_that_waits_for_itself_is_told, NEST_ENTER);
    RUN_TESTp(a_job_on_an_executor_that_waits_for_itself_is_told, NEST_SELF);
    RUN_TESTp(a_job_on_an_executor_that_waits_for_itself_is_told, NEST_IDLE);
    RUN_TESTp(a_job_on_an_executor_that_waits_for_itself_is_told, NEST_DRAIN);
    RUN_TESTp(a_bulkhead_is_an_executor_for_others, BULKHEAD_DRAIN);
    RUN_TESTp(a_bulkhead_is_an_executor_for_others, BULKHEAD_ABORT);
    RUN_TEST(a_closed_bulkhead_refuses_as_an_executor);
    RUN_TEST(one_bulkhead_may_be_the_executor_of_another);
    RUN_TESTp(an_executor_runs_each_task_it_took_exactly_once, BULKHEAD_DRAIN);
    RUN_TESTp(an_executor_runs_each_task_it_took_exactly_once, BULKHEAD_ABORT);
}
