/* SPDX-License-Identifier: MIT
 *
 * Close, wait_idle and destroy.
 */

TEST a_drain_serves_all_who_wait(void)
{
    ASSERT(make(&on.b, BULKHEAD_ASYNC, 1, 0));
    for (int i = 0; i < 3; i++) {
        ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[i].job));
    }
    on.c[0] = (caller){.call = ENTER, .gate = &on.g[4]};
    ASSERT(queue_up(&on.c[0], 1));
    on.g[3].job.delay_ns = PLIM_MS(5); /* after the caller: it joins the queue when it is due */
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[3].job));
    ASSERT_INT(ETIMEDOUT, bulkhead_close(&on.b, BULKHEAD_DRAIN, 0));
    /* A close that does not wait is no deadline: nothing has been sent away. */
    on.c[1] = (caller){.call = CLOSE, .how = BULKHEAD_DRAIN, .timeout_ns = PLIM_FOREVER};
    start_call(&on.c[1]);
    ASSERT_INT(ESHUTDOWN, bulkhead_enter(&on.b));
    ASSERT_INT(ESHUTDOWN, bulkhead_try_enter(&on.b));
    ASSERT_INT(ESHUTDOWN, bulkhead_enter_for(&on.b, 0));
    ASSERT_INT(ESHUTDOWN, bulkhead_submit(&on.b, &on.g[5].job));
    ASSERT_INT(ESHUTDOWN, bulkhead_submit_for(&on.b, &on.g[5].job, PLIM_S(1)));
    ASSERT_INT(ESHUTDOWN, bulkhead_invoke(&on.b, nothing, NULL, NULL));
    ASSERT(waits(&on.c[1], &on.b.ends, 1));
    let_all_go(on.g, 6);
    ASSERT(finished(&on.c[0]));
    ASSERT_INT(0, on.c[0].error);
    ASSERT(finished(&on.c[1]));
    ASSERT_INT(0, on.c[1].error);
    for (int i = 0; i < 4; i++) {
        ASSERT_INT(0, bulkhead_wait(&on.g[i].job, 0));
        ASSERT_INT(BULKHEAD_SUCCEEDED, on.g[i].job.outcome);
    }
    ASSERT_INT(0, atomic_load(&on.g[5].dones));
    ASSERT_U64(6, bulkhead_snapshot(&on.b).rejected);
    ASSERT_ENDS_WELL(); /* once more: nothing to do */
    PASS();
}

TEST a_drain_waits_for_retries(void)
{
    bulkhead_options options = {
        .type = BULKHEAD_ASYNC, .attempts = 3, .retry_delay_ns = PLIM_MS(2)};
    ASSERT_INT(0, make_with(&on.b, &options));
    on.t[0].fail_until = 2;
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.t[0].job));
    ASSERT_ENDS_WELL();
    ASSERT_INT(3, on.t[0].runs);
    ASSERT_INT(BULKHEAD_SUCCEEDED, on.t[0].job.outcome);
    PASS();
}

typedef struct order_note {
    int place;
    bulkhead_outcome outcome;
} order_note;

static void note_order(bulkhead_job *job)
{
    order_note *n = job->arg;
    n->place = atomic_fetch_add(&on.ended, 1);
    n->outcome = job->outcome;
}

TEST an_abort_sends_away_all_who_wait_in_order(bool by_deadline)
{
    enum { N = 5 };
    static order_note notes[N];
    ASSERT(make(&on.b, BULKHEAD_ASYNC, 1, N + 2)); /* full, when all of these wait */
    on.g[0].result = 3;
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[0].job));
    ASSERT(has_entered(&on.g[0]));
    for (int i = 0; i < N; i++) {
        notes[i] = (order_note){.place = -1};
        on.job[i] = (bulkhead_job){.run = run_nothing, .arg = &notes[i], .done = note_order};
        on.job[i].detached = i % 2 == 0;
        ASSERT_INT(0, bulkhead_submit(&on.b, &on.job[i]));
    }
    on.c[0] = (caller){.call = ENTER};
    ASSERT(queue_up(&on.c[0], 1));
    on.g[1].job.delay_ns = PLIM_S(1000);
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[1].job));
    on.c[1] = (caller){.call = SUBMIT_FOR, .gate = &on.g[2], .timeout_ns = PLIM_FOREVER};
    start_call(&on.c[1]);
    ASSERT(waits(&on.c[1], &on.b.room, 1));
    int64_t from = plim_now_();
    if (by_deadline) {
        ASSERT_INT(ETIMEDOUT, bulkhead_close(&on.b, BULKHEAD_DRAIN, PLIM_MS(5)));
        ASSERT(plim_now_() - from >= PLIM_MS(5));
    } else {
        ASSERT_INT(ETIMEDOUT, bulkhead_close(&on.b, BULKHEAD_ABORT, 0));
    }
    ASSERT(finished(&on.c[0]));
    ASSERT_INT(ESHUTDOWN, on.c[0].error);
    ASSERT(finished(&on.c[1]));
    ASSERT_INT(ESHUTDOWN, on.c[1].error);
    for (int i = 0; i < N; i++) {
        ASSERT(EVENTUALLY(atomic_load(&on.ended) == N));
        ASSERT_INT(i, notes[i].place);
        ASSERT_INT(BULKHEAD_ABORTED, notes[i].outcome);
    }
    ASSERT(is_done(&on.g[1]));
    ASSERT_INT(BULKHEAD_ABORTED, on.g[1].job.outcome);
    ASSERT_FIGURES(&on.b, 1, 0);
    ASSERT_INT(EBUSY, bulkhead_destroy(&on.b));
    let_go(&on.g[0]); /* what runs goes on */
    ASSERT_INT(0, bulkhead_close(&on.b, BULKHEAD_ABORT, PLIM_S(PATIENCE_S)));
    ASSERT_INT(0, bulkhead_wait(&on.g[0].job, 0));
    ASSERT_INT(BULKHEAD_FAILED, on.g[0].job.outcome);
    ASSERT_INT(3, on.g[0].job.result);
    ASSERT_U64(N + 1, bulkhead_snapshot(&on.b).aborted);
    ASSERT_ENDS_WELL();
    ASSERT_INT(0, atomic_load(&on.g[2].runs) + atomic_load(&on.g[2].dones));
    PASS();
}

TEST an_abort_does_not_try_again(void)
{
    bulkhead_options options = {.type = BULKHEAD_ASYNC, .attempts = 100};
    ASSERT_INT(0, make_with(&on.b, &options));
    on.g[0].result = EIO;
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[0].job));
    ASSERT(has_entered(&on.g[0]));
    ASSERT_INT(ETIMEDOUT, bulkhead_close(&on.b, BULKHEAD_ABORT, 0));
    for (int i = 0; i < 100; i++) {
        let_go(&on.g[0]);
    }
    ASSERT(is_done(&on.g[0]));
    ASSERT_INT(1, atomic_load(&on.g[0].runs));
    ASSERT(on.g[0].job.outcome == BULKHEAD_FAILED || on.g[0].job.outcome == BULKHEAD_ABORTED);
    ENDS_WELL();
}

TEST an_abort_ends_a_job_that_waits_for_its_retry(void)
{
    static int error = EIO;
    bulkhead_options options = {.type = BULKHEAD_ASYNC,
                                .attempts = 3,
                                .retry_delay_ns = PLIM_S(1000),
                                .retry_delay_max_ns = PLIM_S(1000)};
    ASSERT_INT(0, make_with(&on.b, &options));
    on.job[0] = (bulkhead_job){.run = run_result, .arg = &error};
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.job[0]));
    ASSERT(EVENTUALLY(bulkhead_snapshot(&on.b).delayed == 1));
    ASSERT_INT(0, bulkhead_close(&on.b, BULKHEAD_ABORT, PLIM_S(PATIENCE_S)));
    ASSERT_INT(0, bulkhead_wait(&on.job[0], 0));
    ASSERT_INT(BULKHEAD_ABORTED, on.job[0].outcome);
    ENDS_WELL();
}

TEST close_waits_for_a_stuck_body(int how)
{
    on.g[0].job.run_timeout_ns = PLIM_MS(2);
    ASSERT(make(&on.b, BULKHEAD_ASYNC, 1, 0));
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[0].job));
    ASSERT(is_done(&on.g[0]));
    ASSERT_INT(ETIMEDOUT, bulkhead_close(&on.b, how, PLIM_MS(2)));
    on.c[0] = (caller){.call = CLOSE, .how = how, .timeout_ns = PLIM_FOREVER};
    start_call(&on.c[0]);
    ASSERT(waits(&on.c[0], &on.b.ends, 1));
    let_go(&on.g[0]);
    ASSERT(finished(&on.c[0]));
    ASSERT_INT(0, on.c[0].error);
    ASSERT_INT(0, bulkhead_reclaim(&on.g[0].job, 0));
    ENDS_WELL();
}

TEST the_run_timeout_is_kept_while_closing(void)
{
    on.g[0].job.run_timeout_ns = PLIM_MS(5);
    ASSERT(make(&on.b, BULKHEAD_ASYNC, 1, 0));
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[0].job));
    ASSERT(has_entered(&on.g[0]));
    ASSERT_INT(ETIMEDOUT, bulkhead_close(&on.b, BULKHEAD_ABORT, 0));
    ASSERT(is_done(&on.g[0]));
    ASSERT_INT(BULKHEAD_TIMED_OUT, on.g[0].job.outcome);
    let_go(&on.g[0]);
    ENDS_WELL();
}

/* A leave that needs no lock must not pass one who is about to wait for the end. */
TEST the_last_leave_is_seen_by_who_waits(int type, int what)
{
    for (int round = scaled(400); round > 0; round--) {
        gates_init(on.g, 1);
        ASSERT(make(&on.b, type, 3, 0));
        on.c[0] = (caller){.call = ENTER, .gate = &on.g[0]};
        on.c[1] = (caller){.call = what, .timeout_ns = PLIM_S(PATIENCE_S)};
        start_call(&on.c[0]);
        ASSERT(has_entered(&on.g[0]));
        start_call(&on.c[1]);
        dawdle((uint64_t)round);
        let_go(&on.g[0]);
        ASSERT(finished(&on.c[0]));
        ASSERT(finished(&on.c[1]));
        ASSERT_INT(0, on.c[1].error);
        ASSERT_ENDS_WELL();
    }
    PASS();
}

TEST several_may_close_and_all_see_the_same_end(void)
{
    enum { N = 6 };
    for (int round = scaled(20); round > 0; round--) {
        ASSERT(make(&on.b, BULKHEAD_ASYNC, 1, 0));
        ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[0].job));
        ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[1].job));
        for (int i = 0; i < N; i++) {
            on.c[i] = (caller){.call = CLOSE, .timeout_ns = PLIM_S(PATIENCE_S)};
            on.c[i].how = BULKHEAD_DRAIN;
            start_call(&on.c[i]);
        }
        ASSERT_INT(ETIMEDOUT, bulkhead_close(&on.b, BULKHEAD_DRAIN, 0));
        let_all_go(on.g, 2);
        join_calls(on.c, N);
        for (int i = 0; i < N; i++) {
            ASSERT_INT(0, on.c[i].error);
        }
        ASSERT_INT(BULKHEAD_SUCCEEDED, on.g[1].job.outcome);
        ASSERT_ENDS_WELL();
    }
    PASS();
}

TEST an_abort_beside_a_drain_aborts(void)
{
    ASSERT(make(&on.b, BULKHEAD_ASYNC, 1, 0));
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[0].job));
    ASSERT(has_entered(&on.g[0]));
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[1].job));
    on.c[0] = (caller){.call = CLOSE, .how = BULKHEAD_DRAIN, .timeout_ns = PLIM_FOREVER};
    start_call(&on.c[0]);
    ASSERT(waits(&on.c[0], &on.b.ends, 1));
    ASSERT_INT(ETIMEDOUT, bulkhead_close(&on.b, BULKHEAD_ABORT, PLIM_MS(1)));
    ASSERT(is_done(&on.g[1]));
    ASSERT_INT(BULKHEAD_ABORTED, on.g[1].job.outcome);
    let_go(&on.g[0]);
    ASSERT(finished(&on.c[0]));
    ASSERT_INT(0, on.c[0].error);
    ENDS_WELL();
}

TEST close_refuses_what_it_does_not_know(void)
{
    ASSERT(make(&on.b, BULKHEAD_ASYNC, 1, 0));
    ASSERT_INT(EINVAL, bulkhead_close(&on.b, 2, 0));
    ASSERT_INT(EINVAL, bulkhead_close(&on.b, -1, PLIM_S(1)));
    ASSERT_INT(0, bulkhead_enter(&on.b)); /* it is open */
    ASSERT_INT(0, bulkhead_leave(&on.b));
    ENDS_WELL();
}

TEST a_closed_bulkhead_still_takes_permits_back(int type)
{
    ASSERT(make(&on.b, type, 2, 0));
    on.c[0] = (caller){.call = ENTER, .gate = &on.g[0]};
    start_call(&on.c[0]);
    ASSERT(has_entered(&on.g[0]));
    ASSERT_INT(ETIMEDOUT, bulkhead_close(&on.b, BULKHEAD_ABORT, 0));
    ASSERT_INT(ETIMEDOUT, bulkhead_close(&on.b, BULKHEAD_DRAIN, PLIM_MS(1)));
    ASSERT_INT(EBUSY, bulkhead_destroy(&on.b));
    let_go(&on.g[0]);
    ASSERT(finished(&on.c[0]));
    ASSERT_INT(0, on.c[0].left);
    ASSERT_INT(0, bulkhead_close(&on.b, BULKHEAD_DRAIN, 0));
    ENDS_WELL();
}

TEST a_drain_hands_over_to_callers_that_wait(void)
{
    ASSERT(make(&on.b, BULKHEAD_SYNC, 1, 0));
    on.c[0] = (caller){.call = ENTER, .gate = &on.g[0]};
    on.c[1] = (caller){.call = ENTER, .gate = &on.g[1]};
    start_call(&on.c[0]);
    ASSERT(has_entered(&on.g[0]));
    ASSERT(queue_up(&on.c[1], 1));
    ASSERT_INT(ETIMEDOUT, bulkhead_close(&on.b, BULKHEAD_DRAIN, 0));
    ASSERT_FIGURES(&on.b, 1, 1);
    let_go(&on.g[0]);
    ASSERT(has_entered(&on.g[1]));
    let_go(&on.g[1]);
    join_calls(on.c, 2);
    ASSERT_INT(0, on.c[1].error);
    ENDS_WELL();
}

TEST close_without_work_is_immediate(int type)
{
    ASSERT(make(&on.b, type, 4, 0));
    ASSERT_INT(0, bulkhead_close(&on.b, BULKHEAD_DRAIN, 0));
    ASSERT_INT(0, bulkhead_close(&on.b, BULKHEAD_ABORT, 0));
    ASSERT_INT(0, bulkhead_close(&on.b, BULKHEAD_DRAIN, PLIM_FOREVER));
    ASSERT_INT(0, unmake(&on.b));
    PASS();
}

TEST destroy_ends_idle_workers_by_itself(void)
{
    ASSERT(make(&on.b, BULKHEAD_ASYNC, 8, 0));
    for (int i = 0; i < 8; i++) {
        ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[i].job));
    }
    ASSERT(has_entered(&on.g[7]));
    ASSERT_INT(EBUSY, bulkhead_destroy(&on.b));
    let_all_go(on.g, 8);
    ASSERT_INT(0, bulkhead_wait_idle(&on.b, PLIM_S(PATIENCE_S)));
    ASSERT_INT(0, unmake(&on.b));
    ASSERT_INT(blocks_before, atomic_load(&blocks));
    PASS();
}

TEST destroy_is_refused_while_anything_is_left(void)
{
    ASSERT(make(&on.b, BULKHEAD_ASYNC, 1, 0));
    ASSERT_INT(0, bulkhead_enter(&on.b));
    ASSERT_INT(EBUSY, bulkhead_destroy(&on.b));
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[0].job));
    ASSERT_INT(0, bulkhead_leave(&on.b));
    ASSERT(has_entered(&on.g[0]));
    ASSERT_INT(EBUSY, bulkhead_destroy(&on.b));
    let_go(&on.g[0]);
    ASSERT(is_done(&on.g[0]));
    /* It changed nothing. */
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[1].job));
    let_go(&on.g[1]);
    ASSERT(is_done(&on.g[1]));
    ENDS_WELL();
}

TEST a_thousand_bulkheads_come_and_go(void)
{
    int n = scaled(1000);
    for (int i = 0; i < n; i++) {
        atomic_store(&on.ran, 0);
        ASSERT(make(&on.b, i % 7 == 0 ? BULKHEAD_SYNC : BULKHEAD_ASYNC, 1 + i % 3, 0));
        int k = i % 7 == 0 ? 0 : i % 4;
        for (int j = 0; j < k; j++) {
            on.job[j] = (bulkhead_job){.run = run_count, .arg = &on.ran};
            on.job[j].delay_ns = i % 11 == 0 ? PLIM_US(50) : 0;
            ASSERT_INT(0, bulkhead_submit(&on.b, &on.job[j]));
        }
        int how = i % 2 == 0 ? BULKHEAD_DRAIN : BULKHEAD_ABORT;
        ASSERT_INT(0, bulkhead_close(&on.b, how, PLIM_S(PATIENCE_S)));
        for (int j = 0; j < k; j++) {
            ASSERT_INT(0, bulkhead_wait(&on.job[j], 0));
            ASSERT(on.job[j].outcome == BULKHEAD_SUCCEEDED ||
                   (how == BULKHEAD_ABORT && on.job[j].outcome == BULKHEAD_ABORTED));
        }
        ASSERT_INT(0, unmake(&on.b));
    }
    ASSERT_INT(blocks_before, atomic_load(&blocks));
    PASS();
}

static plim_thread_result submit_until_shut(void *arg)
{
    member *m = arg;
    crowd *c = m->crowd;
    wait_for_go(c);
    for (;;) {
        bulkhead_job job = {.run = run_nothing};
        int error = m->number % 2 == 0 ? bulkhead_submit(&on.b, &job)
                                       : bulkhead_submit_for(&on.b, &job, PLIM_FOREVER);
        if (error == ESHUTDOWN) {
            return 0;
        }
        if (error == 0) {
            atomic_fetch_add(&c->accepted, 1);
            if (bulkhead_wait(&job, PLIM_S(PATIENCE_S)) != 0 ||
                (job.outcome != BULKHEAD_SUCCEEDED && job.outcome != BULKHEAD_ABORTED)) {
                atomic_fetch_add(&c->odd, 1);
                return 0;
            }
        } else if (error != EAGAIN) {
            atomic_fetch_add(&c->odd, 1);
        }
    }
}

TEST close_races_with_submits_and_every_job_ends(int how)
{
    enum { N = 4 };
    for (int round = scaled(60); round > 0; round--) {
        on.crowd = (crowd){0};
        ASSERT(make(&on.b, BULKHEAD_ASYNC, 2, 1));
        gather(N, submit_until_shut);
        rest(PLIM_US(100 * (round % 10))); /* each close finds another moment */
        ASSERT_INT(0, bulkhead_close(&on.b, how, PLIM_S(PATIENCE_S)));
        disperse();
        ASSERT_INT(0, atomic_load(&on.crowd.odd));
        ASSERT_U64(atomic_load(&on.crowd.accepted), bulkhead_snapshot(&on.b).accepted);
        ASSERT_ENDS_WELL();
    }
    PASS();
}

TEST wait_idle_waits_for_an_instant_without_anything(void)
{
    ASSERT(make(&on.b, BULKHEAD_ASYNC, 1, 0));
    ASSERT_INT(0, bulkhead_wait_idle(&on.b, 0));
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[0].job));
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[1].job));
    ASSERT_INT(ETIMEDOUT, bulkhead_wait_idle(&on.b, 0));
    int64_t from = plim_now_();
    ASSERT_INT(ETIMEDOUT, bulkhead_wait_idle(&on.b, PLIM_MS(2)));
    ASSERT(plim_now_() - from >= PLIM_MS(2));
    for (int i = 0; i < 3; i++) {
        on.c[i] = (caller){.call = IDLE, .timeout_ns = PLIM_FOREVER};
        start_call(&on.c[i]);
    }
    let_go(&on.g[0]);
    ASSERT(is_done(&on.g[0]));
    ASSERT(waits(&on.c[0], &on.b.quiet, 3));
    let_go(&on.g[1]);
    join_calls(on.c, 3);
    for (int i = 0; i < 3; i++) {
        ASSERT_INT(0, on.c[i].error);
    }
    /* Callers inside count as well. */
    on.c[3] = (caller){.call = ENTER, .gate = &on.g[2]};
    start_call(&on.c[3]);
    ASSERT(has_entered(&on.g[2]));
    ASSERT_INT(ETIMEDOUT, bulkhead_wait_idle(&on.b, PLIM_MS(1)));
    on.c[0] = (caller){.call = IDLE, .timeout_ns = PLIM_FOREVER};
    start_call(&on.c[0]);
    ASSERT(waits(&on.c[0], &on.b.quiet, 1));
    let_go(&on.g[2]);
    ASSERT(finished(&on.c[3]));
    ASSERT(finished(&on.c[0]));
    ASSERT_INT(0, on.c[0].error);
    ASSERT_INT(0, bulkhead_enter(&on.b)); /* it is open all the while */
    ASSERT_INT(0, bulkhead_leave(&on.b));
    ENDS_WELL();
}

/* What runs learns that it is not wanted any more: from an ABORT at once, from a DRAIN when its time
 * has passed. */
static int run_until_cancelled(bulkhead_job *job)
{
    gate *g = job->arg;
    csem_release(&g->entered);
    while (!bulkhead_job_cancelled(job)) {
        rest(PLIM_US(100));
    }
    return ECANCELED;
}

TEST what_runs_learns_of_the_close(int how, bool on_executor)
{
    ASSERT(on_executor ? make_on(1, 1, 0) : make(&on.b, BULKHEAD_ASYNC, 1, 0));
    on.g[0].job.run = run_until_cancelled;
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[0].job));
    ASSERT(has_entered(&on.g[0]));
    ASSERT_INT(ETIMEDOUT, bulkhead_close(&on.b, BULKHEAD_DRAIN, 0));
    ASSERT_FALSE(bulkhead_job_cancelled(&on.g[0].job)); /* a drain lets it end */
    int error = bulkhead_close(&on.b, how, how == BULKHEAD_DRAIN ? PLIM_MS(1) : 0);
    ASSERT(error == ETIMEDOUT || error == 0);
    ASSERT(is_done(&on.g[0]));
    ASSERT_INT(BULKHEAD_FAILED, on.g[0].job.outcome);
    ASSERT_INT(ECANCELED, on.g[0].job.result);
    ENDS_WELL();
}

/* A drain lets nobody in, a done that submits the next job neither: first wait for quiet. */
static void submit_the_next(bulkhead_job *job)
{
    gate *g = job->arg;
    if (g + 1 < on.g + 4) {
        g[1].result = bulkhead_submit(&on.b, &g[1].job);
    }
}

TEST a_drain_refuses_what_a_done_submits_and_wait_idle_awaits_it(bool idle_first)
{
    ASSERT(make(&on.b, BULKHEAD_ASYNC, 1, 0));
    for (int i = 0; i < 4; i++) {
        on.g[i].job.done = submit_the_next;
        on.g[i].job.detached = true;
    }
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[0].job));
    ASSERT(has_entered(&on.g[0]));
    if (idle_first) {
        let_all_go(on.g, 4);
        ASSERT_INT(0, bulkhead_wait_idle(&on.b, PLIM_S(PATIENCE_S)));
    } else {
        ASSERT_INT(ETIMEDOUT, bulkhead_close(&on.b, BULKHEAD_DRAIN, 0));
        let_all_go(on.g, 4);
    }
    ASSERT_INT(0, bulkhead_close(&on.b, BULKHEAD_DRAIN, PLIM_S(PATIENCE_S)));
    for (int i = 1; i < 4; i++) {
        ASSERT_INT(idle_first, atomic_load(&on.g[i].runs));
    }
    ASSERT_INT(idle_first ? 0 : ESHUTDOWN, on.g[1].result);
    on.g[1].result = 0;
    ENDS_WELL();
}

SUITE(close_suite)
{
    SET_SETUP(set_the_hands, NULL);
    SET_TEARDOWN(clear_the_hands, NULL);
    RUN_TESTp(what_runs_learns_of_the_close, BULKHEAD_ABORT, false);
    RUN_TESTp(what_runs_learns_of_the_close, BULKHEAD_DRAIN, false);
    RUN_TESTp(what_runs_learns_of_the_close, BULKHEAD_ABORT, true);
    RUN_TESTp(what_runs_learns_of_the_close, BULKHEAD_DRAIN, true);
    RUN_TESTp(a_drain_refuses_what_a_done_submits_and_wait_idle_awaits_it, false);
    RUN_TESTp(a_drain_refuses_what_a_done_submits_and_wait_idle_awaits_it, true);
    RUN_TEST(a_drain_serves_all_who_wait);
    RUN_TEST(a_drain_waits_for_retries);
    RUN_TESTp(an_abort_sends_away_all_who_wait_in_order, false);
    RUN_TESTp(an_abort_sends_away_all_who_wait_in_order, true);
    RUN_TEST(an_abort_does_not_try_again);
    RUN_TEST(an_abort_ends_a_job_that_waits_for_its_retry);
    RUN_TESTp(close_waits_for_a_stuck_body, BULKHEAD_DRAIN);
    RUN_TESTp(close_waits_for_a_stuck_body, BULKHEAD_ABORT);
    RUN_TEST(the_run_timeout_is_kept_while_closing);
    RUN_TESTp(the_last_leave_is_seen_by_who_waits, BULKHEAD_SYNC, IDLE);
    RUN_TESTp(the_last_leave_is_seen_by_who_waits, BULKHEAD_ASYNC, IDLE);
    RUN_TESTp(the_last_leave_is_seen_by_who_waits, BULKHEAD_SYNC, CLOSE);
    RUN_TESTp(the_last_leave_is_seen_by_who_waits, BULKHEAD_ASYNC, CLOSE);
    RUN_TEST(several_may_close_and_all_see_the_same_end);
    RUN_TEST(an_abort_beside_a_drain_aborts);
    RUN_TEST(close_refuses_what_it_does_not_know);
    RUN_TESTp(a_closed_bulkhead_still_takes_permits_back, BULKHEAD_SYNC);
    RUN_TESTp(a_closed_bulkhead_still_takes_permits_back, BULKHEAD_ASYNC);
    RUN_TEST(a_drain_hands_over_to_callers_that_wait);
    RUN_TESTp(close_without_work_is_immediate, BULKHEAD_SYNC);
    RUN_TESTp(close_without_work_is_immediate, BULKHEAD_ASYNC);
    RUN_TEST(destroy_ends_idle_workers_by_itself);
    RUN_TEST(destroy_is_refused_while_anything_is_left);
    RUN_TEST(a_thousand_bulkheads_come_and_go);
    RUN_TESTp(close_races_with_submits_and_every_job_ends, BULKHEAD_DRAIN);
    RUN_TESTp(close_races_with_submits_and_every_job_ends, BULKHEAD_ABORT);
    RUN_TEST(wait_idle_waits_for_an_instant_without_anything);
}
