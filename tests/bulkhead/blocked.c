/* SPDX-License-Identifier: MIT
 *
 * Threads of a bulkhead that wait for that very bulkhead, with threads in plenty. Workers that wait
 * do not count. If every permit belongs to a thread that waits, that is a deadlock. shortage.c has
 * what happens when no thread can be had.
 */

/* A body, a done or a worker_stop that comes to a point, goes on when it is told to, and waits. */
typedef struct guest {
    bulkhead_job job;
    csem came, go;
    bulkhead_job *awaits;  /* this job, without a limit, */
    bool reclaims;         /* or for its body; */
    bool enters, invokes;  /* or for a permit, or a call; */
    bulkhead_job *submits; /* or for a place, for that one */
    int64_t timeout_ns;    /* 0: none */
    int error;
    atomic_int over;
} guest;

static guest guests[2];

static void come_and_wait(guest *g)
{
    csem_release(&g->came);
    const int64_t timeout_ns = g->timeout_ns == 0 ? PLIM_FOREVER : g->timeout_ns;
    g->error = csem_acquire(&g->go); /* the teardown opens it, if nobody else does */
    if (g->awaits != NULL) {
        g->error = g->reclaims ? bulkhead_reclaim(g->awaits, timeout_ns)
                               : bulkhead_wait(g->awaits, timeout_ns);
    } else if (g->submits != NULL) {
        g->error = bulkhead_submit_for(&on.b, g->submits, timeout_ns);
    } else if (g->invokes) {
        g->error = bulkhead_invoke(&on.b, nothing, NULL, NULL);
    } else if (g->enters) {
        g->error = bulkhead_enter(&on.b);
        if (g->error == 0) {
            g->error = bulkhead_leave(&on.b);
        }
    }
    atomic_store(&g->over, 1);
}

static int body_waits(bulkhead_job *job)
{
    come_and_wait(job->arg);
    return 0;
}

static void done_waits(bulkhead_job *job)
{
    come_and_wait(job->arg);
}

static bool comes(guest *g)
{
    return csem_acquire_for(&g->came, PLIM_S(PATIENCE_S)) == 0;
}

/* Tells it to go on; true when it waits, as the last of n. */
static bool goes_to_wait(guest *g, int n)
{
    csem_release(&g->go);
    return EVENTUALLY(waiters(&on.b.blocked) == n || atomic_load(&g->over) == 1) &&
           atomic_load(&g->over) == 0;
}

static bool is_over(guest *g)
{
    return EVENTUALLY(atomic_load(&g->over) == 1);
}

/* A detached job whose done waits, or a job whose body does. */
static void invite(guest *g, bool detached, bulkhead_job *awaits)
{
    g->job.run = detached ? run_nothing : body_waits;
    g->job.done = detached ? done_waits : NULL;
    g->job.detached = detached;
    g->awaits = awaits;
}

static void set_the_table(void *data) /* a setup */
{
    set_the_stage(data);
    memset((void *)guests, 0, sizeof guests);
    for (int i = 0; i < 2; i++) {
        csem_init(&guests[i].came, 0);
        csem_init(&guests[i].go, 0);
        guests[i].job.arg = &guests[i];
        guests[i].error = -1;
    }
}

static void clear_the_table(void *data) /* a teardown */
{
    for (int i = 0; i < 2; i++) {
        csem_release_n(&guests[i].go, PLENTY);
    }
    clear_the_stage(data);
}

/* ---- a done of a detached job has no permit, and is on a worker ---- */

static int last_until_cancelled(bulkhead_job *job)
{
    return EVENTUALLY(bulkhead_job_cancelled(job)) ? 0 : EIO;
}

/* It is over its time when it returns: its worker was replaced, and ends. */
static void make_late(guest *g)
{
    g->job.run = last_until_cancelled;
    g->job.run_timeout_ns = PLIM_MS(1);
}

TEST a_done_may_wait_with_one_permit(bool beside_a_late_one)
{
    guest *late = &guests[0], *waits = &guests[1];
    ASSERT(make(&on.b, BULKHEAD_ASYNC, 1, 0));
    if (beside_a_late_one) {
        invite(late, true, NULL);
        make_late(late);
        ASSERT_INT(0, bulkhead_submit(&on.b, &late->job));
        ASSERT(comes(late));
    }
    invite(waits, true, &on.g[0].job);
    ASSERT_INT(0, bulkhead_submit(&on.b, &waits->job));
    ASSERT(comes(waits));
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[0].job));
    ASSERT(goes_to_wait(waits, 1));
    ASSERT(has_entered(&on.g[0]));
    let_go(&on.g[0]);
    ASSERT(is_over(waits));
    ASSERT_INT(0, waits->error);
    csem_release(&late->go);
    ASSERT(!beside_a_late_one || is_over(late));
    ENDS_WELL();
}

/* The worker that has replaced it will run what its done waits for. */
TEST a_done_of_a_late_job_may_wait(void)
{
    guest *late = &guests[0];
    ASSERT(make(&on.b, BULKHEAD_ASYNC, 1, 0));
    invite(late, true, &on.job[0]);
    make_late(late);
    on.job[0] = (bulkhead_job){.run = run_nothing};
    ASSERT_INT(0, bulkhead_submit(&on.b, &late->job));
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[0].job));
    ASSERT(comes(late));
    ASSERT(has_entered(&on.g[0]));
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.job[0])); /* behind that */
    csem_release(&late->go);
    ASSERT(EVENTUALLY(waiters_of(&on.job[0]) == 1 || atomic_load(&late->over) == 1));
    let_go(&on.g[0]);
    ASSERT(is_over(late));
    ASSERT_INT(0, late->error);
    ENDS_WELL();
}

static int renew_and_return(bulkhead_job *job)
{
    bulkhead_job_renew(job);
    return 0;
}

/* The worker is about to start anew, and yet nobody can count on it as long as done waits. */
TEST a_done_after_a_renew_may_wait(void)
{
    guest *waits = &guests[0];
    ASSERT(make(&on.b, BULKHEAD_ASYNC, 2, 0));
    invite(waits, true, &on.g[0].job);
    waits->job.run = renew_and_return;
    ASSERT_INT(0, bulkhead_submit(&on.b, &waits->job));
    ASSERT(comes(waits));
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[0].job));
    ASSERT(goes_to_wait(waits, 1));
    ASSERT(has_entered(&on.g[0]));
    let_go(&on.g[0]);
    ASSERT(is_over(waits));
    ASSERT_INT(0, waits->error);
    ENDS_WELL();
}

static void stop_waits_once(void *user, unsigned index, void *resource)
{
    (void)index, (void)resource;
    guest *g = user;
    if (atomic_load(&g->over) == 0) {
        come_and_wait(g);
    }
}

TEST a_worker_stop_after_a_renew_may_wait(void)
{
    guest *waits = &guests[0];
    bulkhead_options options = {.type = BULKHEAD_ASYNC, .permits = 2};
    options.worker_stop = stop_waits_once;
    options.user = waits;
    ASSERT_INT(0, make_with(&on.b, &options));
    waits->job.run = renew_and_return;
    waits->awaits = &on.g[0].job;
    ASSERT_INT(0, bulkhead_submit(&on.b, &waits->job));
    ASSERT(comes(waits));
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[0].job));
    ASSERT(goes_to_wait(waits, 1));
    ASSERT(has_entered(&on.g[0]));
    let_go(&on.g[0]);
    ASSERT(is_over(waits));
    ASSERT_INT(0, waits->error);
    ENDS_WELL();
}

/* It has been taken off the workers that count once, for its late job: not again since it waits. */
TEST a_late_worker_that_waits_counts_once_when_there_are_too_many(void)
{
    guest *waits = &guests[0];
    ASSERT(make(&on.b, BULKHEAD_ASYNC, 4, 0));
    atomic_store(&idle_ns, PLIM_FOREVER); /* nobody else leaves */
    invite(waits, false, &on.g[0].job);
    waits->job.run_timeout_ns = PLIM_MS(50); /* it waits by then */
    for (int i = 0; i < 3; i++) {
        ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[i].job));
        ASSERT(has_entered(&on.g[i]));
    }
    ASSERT_INT(0, bulkhead_submit(&on.b, &waits->job));
    ASSERT(comes(waits));
    ASSERT(goes_to_wait(waits, 1));
    ASSERT_INT(0, bulkhead_wait(&waits->job, PLIM_S(PATIENCE_S)));
    ASSERT_INT(BULKHEAD_TIMED_OUT, waits->job.outcome);
    ASSERT_INT(0, bulkhead_resize(&on.b, 1, PLIM_KEEP));
    let_go(&on.g[1]);
    let_go(&on.g[2]);
    bool leave = EVENTUALLY(bulkhead_snapshot(&on.b).workers == 2); /* it, and that of the first */
    atomic_store(&idle_ns, PLIM_S(10));
    ASSERT(leave);
    let_go(&on.g[0]);
    ASSERT(is_over(waits));
    ASSERT_INT(0, waits->error);
    ASSERT_INT(0, bulkhead_reclaim(&waits->job, PLIM_S(PATIENCE_S)));
    ENDS_WELL();
}

/* Two permits and two workers. What both wait for has its permit, and gets a worker. */
TEST a_done_and_a_body_may_wait_for_the_same_job(bool body_first)
{
    guest *done = &guests[0], *body = &guests[1];
    ASSERT(make(&on.b, BULKHEAD_ASYNC, 2, 0));
    invite(done, true, &on.g[0].job);
    invite(body, false, &on.g[0].job);
    ASSERT_INT(0, bulkhead_submit(&on.b, &done->job));
    ASSERT(comes(done));
    ASSERT_INT(0, bulkhead_submit(&on.b, &body->job));
    ASSERT(comes(body));
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[0].job));
    ASSERT(goes_to_wait(body_first ? body : done, 1));
    ASSERT(goes_to_wait(body_first ? done : body, 2));
    ASSERT(has_entered(&on.g[0]));
    let_go(&on.g[0]);
    ASSERT(is_over(done) && is_over(body));
    ASSERT_INT(0, done->error);
    ASSERT_INT(0, body->error);
    ENDS_WELL();
}

/* The body wants the permit that the job has for which the done waits. */
TEST a_done_may_wait_beside_a_body_that_enters(void)
{
    guest *done = &guests[0], *body = &guests[1];
    ASSERT(make(&on.b, BULKHEAD_ASYNC, 2, 0));
    invite(done, true, &on.g[0].job);
    invite(body, false, NULL);
    body->enters = true;
    ASSERT_INT(0, bulkhead_submit(&on.b, &done->job));
    ASSERT(comes(done));
    ASSERT_INT(0, bulkhead_submit(&on.b, &body->job));
    ASSERT(comes(body));
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[0].job));
    ASSERT(goes_to_wait(body, 1));
    ASSERT(goes_to_wait(done, 2));
    ASSERT(has_entered(&on.g[0]));
    let_go(&on.g[0]);
    ASSERT(is_over(done) && is_over(body));
    ASSERT_INT(0, done->error);
    ASSERT_INT(0, body->error);
    ENDS_WELL();
}

/* As long as the test holds a permit, the job is in the queue. Nobody begins to wait any more when
 * it gets one. */
TEST a_leave_gets_a_worker_if_all_wait(void)
{
    guest *done = &guests[0], *body = &guests[1];
    ASSERT(make(&on.b, BULKHEAD_ASYNC, 2, 0));
    invite(done, true, &on.g[0].job);
    invite(body, false, NULL);
    body->enters = true;
    ASSERT_INT(0, bulkhead_enter(&on.b));
    ASSERT_INT(0, bulkhead_submit(&on.b, &done->job));
    ASSERT(comes(done));
    ASSERT_INT(0, bulkhead_submit(&on.b, &body->job));
    ASSERT(comes(body));
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[0].job));
    ASSERT(goes_to_wait(done, 1));
    ASSERT(goes_to_wait(body, 2));
    ASSERT_FIGURES(&on.b, 2, 2);
    ASSERT_INT(0, bulkhead_leave(&on.b));
    ASSERT(has_entered(&on.g[0]));
    let_go(&on.g[0]);
    ASSERT(is_over(done) && is_over(body));
    ASSERT_INT(0, done->error);
    ASSERT_INT(0, body->error);
    ENDS_WELL();
}

/* Both workers are in a done, and one of them does not return before the other has waited. */
TEST a_done_may_wait_while_another_takes_long(void)
{
    guest *waits = &guests[0], *stays = &guests[1];
    ASSERT(make(&on.b, BULKHEAD_ASYNC, 2, 0));
    invite(waits, true, &on.g[0].job);
    invite(stays, true, NULL);
    ASSERT_INT(0, bulkhead_submit(&on.b, &waits->job));
    ASSERT(comes(waits));
    ASSERT_INT(0, bulkhead_submit(&on.b, &stays->job));
    ASSERT(comes(stays));
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[0].job));
    ASSERT(goes_to_wait(waits, 1));
    ASSERT(has_entered(&on.g[0]));
    let_go(&on.g[0]);
    ASSERT(is_over(waits));
    ASSERT_INT(0, waits->error);
    csem_release(&stays->go);
    ASSERT(is_over(stays));
    ENDS_WELL();
}

/* ---- every permit with one who waits ---- */

/* The first may wait for a permit, since the second may end. Then the second waits for the first,
 * which has begun. */
TEST a_wait_for_one_that_waits_for_a_permit_is_told(bool enters)
{
    guest *first = &guests[0], *second = &guests[1];
    ASSERT(make(&on.b, BULKHEAD_ASYNC, 2, 0));
    on.job[0] = (bulkhead_job){.run = run_nothing};
    invite(first, false, enters ? NULL : &on.job[0]);
    first->enters = enters;
    invite(second, false, &first->job);
    ASSERT_INT(0, bulkhead_submit(&on.b, &first->job));
    ASSERT_INT(0, bulkhead_submit(&on.b, &second->job));
    ASSERT(comes(first) && comes(second));
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.job[0]));
    ASSERT(goes_to_wait(first, 1));
    csem_release(&second->go);
    ASSERT(is_over(second));
    ASSERT_INT(EDEADLK, second->error);
    ASSERT(is_over(first));
    ASSERT_INT(0, first->error);
    ASSERT_INT(0, bulkhead_wait(&on.job[0], PLIM_S(PATIENCE_S)));
    ASSERT_INT(BULKHEAD_SUCCEEDED, on.job[0].outcome);
    ENDS_WELL();
}

/* The body of the first is over its time, but will not return. */
TEST a_reclaim_of_one_that_waits_for_a_permit_is_told(void)
{
    guest *first = &guests[0], *second = &guests[1];
    ASSERT(make(&on.b, BULKHEAD_ASYNC, 2, 0));
    on.job[0] = (bulkhead_job){.run = run_nothing};
    invite(first, false, &on.job[0]);
    first->job.run_timeout_ns = PLIM_MS(1);
    invite(second, false, &first->job);
    second->reclaims = true;
    ASSERT_INT(0, bulkhead_submit(&on.b, &first->job));
    ASSERT_INT(0, bulkhead_submit(&on.b, &second->job));
    ASSERT(comes(first) && comes(second));
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.job[0]));
    ASSERT(goes_to_wait(first, 1));
    ASSERT_INT(0, bulkhead_wait(&first->job, PLIM_S(PATIENCE_S)));
    ASSERT_INT(BULKHEAD_TIMED_OUT, first->job.outcome);
    csem_release(&second->go);
    ASSERT(is_over(second));
    ASSERT_INT(EDEADLK, second->error);
    ASSERT(is_over(first));
    ASSERT_INT(0, first->error);
    ASSERT_INT(0, bulkhead_wait(&on.job[0], PLIM_S(PATIENCE_S)));
    ENDS_WELL();
}

/* Others are let in before it, one by one, and nothing of that is a deadlock. */
TEST a_call_inside_may_wait_for_a_place(void)
{
    guest *waits = &guests[0];
    bulkhead_options options = {.type = BULKHEAD_ASYNC, .permits = 2, .queue = 1};
    options.timeout_ns = PLIM_S(PATIENCE_S);
    ASSERT_INT(0, make_with(&on.b, &options));
    invite(waits, false, NULL);
    waits->invokes = true;
    ASSERT_INT(0, bulkhead_submit(&on.b, &waits->job));
    ASSERT(comes(waits));
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[0].job));
    ASSERT(has_entered(&on.g[0]));
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[1].job)); /* now the queue is full */
    ASSERT(goes_to_wait(waits, 1));
    ASSERT_FIGURES(&on.b, 2, 1);
    let_go(&on.g[0]);
    ASSERT(has_entered(&on.g[1]));
    ASSERT_INT(0, atomic_load(&waits->over));
    let_go(&on.g[1]);
    ASSERT(is_over(waits));
    ASSERT_INT(0, waits->error);
    ENDS_WELL();
}

/* A job that makes a call, which waits for a third. */
static struct calls {
    int invoked, submitted, waited;
} calls;

static int submit_and_wait_in_call(void *arg)
{
    (void)arg;
    calls.submitted = bulkhead_submit(&on.b, &on.job[1]);
    calls.waited = bulkhead_wait(&on.job[1], PLIM_FOREVER);
    return 0;
}

static int make_that_call(bulkhead_job *job)
{
    (void)job;
    calls.invoked = bulkhead_invoke(&on.b, submit_and_wait_in_call, NULL, NULL);
    return 0;
}

/* An invoke that has a timeout has none any more, once its call has begun. */
TEST a_call_that_its_caller_waits_for_is_told(int64_t timeout_ns)
{
    bulkhead_options options = {.type = BULKHEAD_ASYNC, .permits = 2, .timeout_ns = timeout_ns};
    ASSERT_INT(0, make_with(&on.b, &options));
    calls = (struct calls){-1, -1, -1};
    on.job[0] = (bulkhead_job){.run = make_that_call};
    on.job[1] = (bulkhead_job){.run = run_nothing};
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.job[0]));
    ASSERT_INT(0, bulkhead_wait(&on.job[0], PLIM_S(PATIENCE_S)));
    ASSERT_INT(0, calls.invoked);
    ASSERT_INT(0, calls.submitted);
    ASSERT_INT(EDEADLK, calls.waited);
    ASSERT_INT(0, bulkhead_wait(&on.job[1], PLIM_S(PATIENCE_S)));
    ASSERT_INT(BULKHEAD_SUCCEEDED, on.job[1].outcome);
    ENDS_WELL();
}

SUITE(blocked_suite)
{
    SET_SETUP(set_the_table, NULL);
    SET_TEARDOWN(clear_the_table, NULL);
    RUN_TESTp(a_done_may_wait_with_one_permit, false);
    RUN_TESTp(a_done_may_wait_with_one_permit, true);
    RUN_TEST(a_done_of_a_late_job_may_wait);
    RUN_TEST(a_done_after_a_renew_may_wait);
    RUN_TEST(a_worker_stop_after_a_renew_may_wait);
    RUN_TEST(a_late_worker_that_waits_counts_once_when_there_are_too_many);
    RUN_TESTp(a_done_and_a_body_may_wait_for_the_same_job, false);
    RUN_TESTp(a_done_and_a_body_may_wait_for_the_same_job, true);
    RUN_TEST(a_done_may_wait_beside_a_body_that_enters);
    RUN_TEST(a_leave_gets_a_worker_if_all_wait);
    RUN_TEST(a_done_may_wait_while_another_takes_long);
    RUN_TESTp(a_wait_for_one_that_waits_for_a_permit_is_told, false);
    RUN_TESTp(a_wait_for_one_that_waits_for_a_permit_is_told, true);
    RUN_TEST(a_reclaim_of_one_that_waits_for_a_permit_is_told);
    RUN_TEST(a_call_inside_may_wait_for_a_place);
    RUN_TESTp(a_call_that_its_caller_waits_for_is_told, 0);
    RUN_TESTp(a_call_that_its_caller_waits_for_is_told, PLIM_S(PATIENCE_S));
}
