/* SPDX-License-Identifier: MIT
 *
 * Each as the executor of another: what is refused, called off, and run all the same.
 */

/* ---- a weighted semaphore whose jobs run on a loop ---- */

static int on_the_loop;

static int look_where(void *arg)
{
    (void)arg;
    on_the_loop += loop_scheduler_is_current(&on.l);
    return 0;
}

TEST jobs_of_a_weighted_semaphore_run_on_a_loop(void)
{
    ASSERT(stage_loop(0));
    plim_executor executor = loop_scheduler_executor(&on.l);
    weighted_sem_options options = {.total = 2, .executor = &executor};
    ASSERT_EQ(0, stage_scale(&options));
    on_the_loop = 0;
    for (int i = 0; i < 100; i++) {
        ASSERT_EQ(0, weighted_sem_start(&on.w, 1, look_where, NULL));
    }
    ASSERT_EQ(0, weighted_sem_drain(&on.w, PLIM_S(PATIENCE_S)));
    ASSERT_EQ(100, on_the_loop);
    ENDS_WELL();
}

/* ---- a weighted semaphore whose executor is a bulkhead ---- */

static bool scale_on_pool(uint64_t total, int32_t permits, int32_t queue, int64_t timeout_ns,
                          int held)
{
    gather(held);
    if (!stage_pool(permits, queue, timeout_ns)) {
        return false;
    }
    plim_executor executor = bulkhead_executor(&on.b[0]);
    weighted_sem_options options = {.total = total, .executor = &executor};
    return stage_scale(&options) == 0;
}

/* Both limits hold, and every failure is found. */
TEST the_smaller_of_weight_and_permits_is_the_limit(void)
{
    for (int tight = 0; tight < 2; tight++) {
        ASSERT(scale_on_pool(tight ? 2 : 8, tight ? 8 : 2, 0, 0, 0));
        int failures = 0, n = scaled(2000);
        for (int i = 0; i < n; i++) {
            piece *p = &crew.pieces[i % PIECES];
            ASSERT_INT(0, weighted_sem_start(&on.w, 1, do_piece, p));
        }
        ASSERT_INT(0, weighted_sem_drain_all(&on.w, patience));
        ASSERT_INT(n, runs_of_all());
        ASSERT(crew.most <= 2);
        crew.pieces[1].code = crew.pieces[2].code = EIO;
        for (int i = 0; i < PIECES; i++) {
            ASSERT_INT(0,
                       weighted_sem_start(&on.w, 1 + (uint64_t)(i % 2), do_piece, &crew.pieces[i]));
        }
        ASSERT_INT(0, weighted_sem_drain_all(&on.w, patience));
        weighted_sem_error errors[PIECES];
        size_t count = weighted_sem_extract_errors(&on.w, errors, PIECES);
        for (size_t i = 0; i < count; i++) {
            piece *p = errors[i].arg;
            failures += errors[i].code == EIO && errors[i].weight == 1 + (uint64_t)(p->index % 2);
        }
        ASSERT_INT(2, count);
        ASSERT_INT(2, failures);
        ASSERT(all_end());
    }
    PASS();
}

/* Why the bulkhead refuses does not matter, and the weight is given back: EAGAIN. */
TEST a_start_that_the_bulkhead_refuses_gives_its_weight_back(void)
{
    for (int waits = 0; waits < 2; waits++) {
        ASSERT(scale_on_pool(8, 1, 1, waits ? PLIM_MS(1) : 0, 1));
        piece *p = crew.pieces;
        ASSERT_INT(0, start_piece(&on.w, 3, &p[0]));
        csem_acquire(&crew.begun);
        ASSERT_INT(0, start_piece(&on.w, 1, &p[1]));
        ASSERT_INT(EAGAIN, weighted_sem_start(&on.w, 4, do_piece, &p[2]));
        ASSERT_INT(EAGAIN, weighted_sem_start_for(&on.w, 4, do_piece, &p[2], patience));
        ASSERT_INT(EAGAIN, start_piece(&on.w, 4, &p[2]));
        ASSERT_INT(4, weighted_sem_available(&on.w));
        ASSERT_INT(2, weighted_sem_executing(&on.w));
        ASSERT_INT(3, bulkhead_snapshot(&on.b[0]).rejected);
        /* What needs no executor is not concerned. */
        ASSERT_INT(0, weighted_sem_complete(&on.w, 4, nothing, NULL, NULL));
        ASSERT_INT(ETIMEDOUT, bulkhead_close(&on.b[0], BULKHEAD_DRAIN, 0));
        ASSERT_INT(EAGAIN, start_piece(&on.w, 4, &p[2]));
        ASSERT_INT(4, weighted_sem_available(&on.w));
        csem_release(&crew.gate);
        ASSERT(all_end());
        ASSERT(each_once(false));
        ASSERT_INT(2, runs_of_all());
    }
    PASS();
}

/* The timeout of a start is for its weight; that of the bulkhead, for a place in its queue. */
TEST timeouts_end_the_wait_for_weight_on_this_side_of_the_border(void)
{
    ASSERT(scale_on_pool(2, 1, 0, 0, 1));
    piece *p = crew.pieces;
    ASSERT_INT(0, start_piece(&on.w, 1, &p[0]));
    csem_acquire(&crew.begun);
    ASSERT_INT(0, start_piece(&on.w, 1, &p[1])); /* it executes, and waits in the bulkhead */
    ASSERT_INT(2, weighted_sem_executing(&on.w));
    ASSERT_INT(ETIMEDOUT, weighted_sem_start_for(&on.w, 1, do_piece, &p[2], PLIM_MS(1)));
    ASSERT_INT(ETIMEDOUT, weighted_sem_drain(&on.w, PLIM_MS(1)));
    ASSERT_INT(1, bulkhead_snapshot(&on.b[0]).queued);
    ASSERT_INT(0, weighted_sem_resize(&on.w, 3));
    ASSERT_INT(0, start_piece(&on.w, 1, &p[2]));
    ASSERT_INT(0, bulkhead_resize(&on.b[0], 3, 0)); /* a resize lets those in that wait there */
    ASSERT(EVENTUALLY(runs_of_all() == 2));
    csem_release(&crew.gate);
    ASSERT(all_end());
    ASSERT(each_once(false));
    PASS();
}

static int start_more(void *arg)
{
    *(int *)arg = 1 + weighted_sem_start(&on.w, 1, nothing, NULL);
    return 0;
}

static int invoke_again(void *arg)
{
    *(int *)arg = 1 + bulkhead_invoke(&on.b[0], nothing, NULL, NULL);
    return 0;
}

static int drain_within(void *arg)
{
    *(int *)arg = 1 + weighted_sem_drain(&on.w, PLIM_FOREVER);
    return 0;
}

static int destroy_within(void *arg)
{
    *(int *)arg = 1 + weighted_sem_destroy(&on.w);
    return 0;
}

static int close_within(void *arg)
{
    *(int *)arg = 1 + bulkhead_close(&on.b[0], BULKHEAD_DRAIN, PLIM_FOREVER);
    return 0;
}

/* Each of the two knows its own: a job that waits for its own weight, or its own permit. */
TEST a_job_that_waits_for_itself_is_told_by_either(void)
{
    int (*const jobs[])(void *) = {start_more, invoke_again, drain_within, destroy_within,
                                   close_within};
    for (int i = 0; i < 5; i++) {
        static int told;
        told = 0;
        ASSERT(scale_on_pool(1, 1, 0, 0, 0));
        ASSERT_INT(0, weighted_sem_start(&on.w, 1, jobs[i], &told));
        ASSERT_INT(0, weighted_sem_drain_all(&on.w, patience));
        ASSERT_INT(1 + EDEADLK, told);
        ASSERT(all_end());
    }
    PASS();
}

TEST a_bulkhead_that_is_aborted_runs_what_has_its_weight(void)
{
    ASSERT(scale_on_pool(PIECES, 1, 0, 0, 1));
    for (int i = 0; i < PIECES; i++) {
        ASSERT_INT(0, start_piece(&on.w, 1, &crew.pieces[i]));
    }
    csem_acquire(&crew.begun);
    ASSERT_INT(ETIMEDOUT, bulkhead_close(&on.b[0], BULKHEAD_ABORT, 0));
    ASSERT_INT(PIECES - 1, runs_of_all());
    ASSERT_INT(1, weighted_sem_executing(&on.w));
    csem_release(&crew.gate);
    ASSERT(all_end());
    ASSERT(each_once(false));
    PASS();
}

/* ---- a bulkhead whose executor is a loop ---- */

static bool pool_on_loop(const bulkhead_options *wanted, uint32_t max_queue, int held)
{
    gather(held);
    if (!stage_loop(max_queue)) {
        return false;
    }
    plim_executor executor = loop_scheduler_executor(&on.l);
    bulkhead_options options = *wanted;
    options.type = BULKHEAD_ASYNC;
    options.executor = &executor;
    return stage_bulkhead(0, &options) == 0;
}

static int not_on_the_loop;

static int look_where_job(bulkhead_job *job)
{
    not_on_the_loop += !loop_scheduler_is_current(&on.l); /* no lock: that is the point */
    return do_job(job);
}

TEST jobs_of_a_bulkhead_run_on_a_loop_one_at_a_time(void)
{
    ASSERT(pool_on_loop(&(bulkhead_options){.permits = 4}, 0, 0));
    not_on_the_loop = 0;
    int n = scaled(500);
    for (int round = 0; round < n; round++) {
        for (int i = 0; i < PIECES; i++) {
            piece *p = &crew.pieces[i];
            p->job = (bulkhead_job){.run = look_where_job, .done = job_done, .arg = p};
            p->code = i % 3 == 1 ? EIO : 0;
            ASSERT_INT(0, bulkhead_submit(&on.b[0], &p->job));
        }
        for (int i = 0; i < PIECES; i++) {
            ASSERT_INT(0, bulkhead_wait(&crew.pieces[i].job, patience));
        }
    }
    ASSERT_INT(0, not_on_the_loop);
    ASSERT_INT(1, crew.most);
    ASSERT_INT(n * PIECES, ends_of_all());
    bulkhead_stats s = bulkhead_snapshot(&on.b[0]);
    ASSERT_INT(n * 3, s.failed);
    ASSERT_INT(n * (PIECES - 3), s.succeeded);
    ASSERT_INT(0, s.workers);
    ENDS_WELL();
}

/* At submit a refusal is EAGAIN; a job that has waited and is refused then has ended, ABORTED. */
TEST a_full_loop_refuses_a_job_of_a_bulkhead(void)
{
    ASSERT(pool_on_loop(&(bulkhead_options){.permits = 2}, 1, 1));
    piece *p = crew.pieces;
    ASSERT_INT(0, submit_piece(&on.b[0], &p[0]));
    csem_acquire(&crew.begun); /* and holds no place in the loop's queue any more */
    ASSERT_INT(0, submit_piece(&on.b[0], &p[1]));
    ASSERT_INT(0, submit_piece(&on.b[0], &p[2])); /* waits for a permit */
    ASSERT_INT(0, bulkhead_resize(&on.b[0], 3, 0));
    ASSERT_INT(0, bulkhead_wait(&p[2].job, patience));
    ASSERT_INT(BULKHEAD_ABORTED, p[2].job.outcome);
    ASSERT_INT(EAGAIN, submit_piece(&on.b[0], &p[3]));
    ASSERT_INT(1, bulkhead_snapshot(&on.b[0]).rejected);
    ASSERT_INT(2, bulkhead_snapshot(&on.b[0]).in_use);
    csem_release(&crew.gate);
    ASSERT_INT(0, bulkhead_wait(&p[1].job, patience));
    ASSERT_INT(BULKHEAD_SUCCEEDED, p[1].job.outcome);
    ASSERT(all_end());
    ASSERT(each_once(true));
    PASS();
}

/* The loop has accepted them, and is busy: what ends them ends them at once. */
TEST cancel_and_expiry_reach_a_job_that_waits_in_a_loop(void)
{
    ASSERT(pool_on_loop(&(bulkhead_options){.permits = 4}, 0, 1));
    piece *p = crew.pieces;
    ASSERT_INT(0, submit_piece(&on.b[0], &p[0]));
    csem_acquire(&crew.begun);
    ASSERT_INT(0, submit_piece(&on.b[0], &p[1]));
    p[2].job = (bulkhead_job){.run = do_job, .done = job_done, .arg = &p[2], .start_within_ns = 1};
    ASSERT_INT(0, bulkhead_submit(&on.b[0], &p[2].job));
    ASSERT_INT(0, submit_piece(&on.b[0], &p[3]));
    ASSERT_INT(0, submit_piece(&on.b[0], &p[4]));
    ASSERT_INT(0, bulkhead_cancel(&on.b[0], &p[1].job));
    ASSERT_INT(BULKHEAD_CANCELLED, p[1].job.outcome);
    ASSERT_INT(0, bulkhead_cancel(&on.b[0], &p[4].job));
    ASSERT_INT(BULKHEAD_CANCELLED, p[4].job.outcome);
    ASSERT_INT(0, bulkhead_wait(&p[2].job, patience));
    ASSERT_INT(3, ends_of_all());
    csem_release(&crew.gate);
    ASSERT(all_end());
    ASSERT_INT(BULKHEAD_SUCCEEDED, p[0].job.outcome);
    ASSERT_INT(BULKHEAD_CANCELLED, p[1].job.outcome);
    ASSERT_INT(BULKHEAD_EXPIRED, p[2].job.outcome);
    ASSERT_INT(BULKHEAD_SUCCEEDED, p[3].job.outcome);
    ASSERT_INT(5, ends_of_all());
    ASSERT_INT(2, runs_of_all());
    PASS();
}

/* The loop is stuck with it, and there is no cure; but who waits for the job is told in time. */
TEST a_job_that_is_stuck_in_a_loop_times_out(void)
{
    ASSERT(pool_on_loop(&(bulkhead_options){.permits = 2, .run_timeout_ns = PLIM_MS(1)}, 0, 1));
    piece *p = crew.pieces;
    ASSERT_INT(0, submit_piece(&on.b[0], &p[0]));
    ASSERT_INT(0, bulkhead_wait(&p[0].job, patience));
    ASSERT_INT(BULKHEAD_TIMED_OUT, p[0].job.outcome);
    ASSERT_INT(ETIMEDOUT, bulkhead_reclaim(&p[0].job, PLIM_MS(1)));
    ASSERT_INT(0, loop_scheduler_stall(&on.l, NULL, NULL));
    csem_release(&crew.gate);
    ASSERT_INT(0, bulkhead_reclaim(&p[0].job, patience));
    p[1].job =
        (bulkhead_job){.run = do_job, .done = job_done, .arg = &p[1], .run_timeout_ns = PLIM_NONE};
    ASSERT_INT(0, bulkhead_submit(&on.b[0], &p[1].job));
    ASSERT_INT(0, bulkhead_wait(&p[1].job, patience));
    ASSERT_INT(BULKHEAD_SUCCEEDED, p[1].job.outcome);
    ENDS_WELL();
}

/* A retry is given to the loop anew, by the supervisor; a loop that is closed refuses it. */
TEST a_retry_comes_back_to_the_loop_unless_that_is_closed(void)
{
    bulkhead_options options = {.permits = 1, .attempts = 3, .retry_delay_ns = PLIM_US(100)};
    for (int closed = 0; closed < 2; closed++) {
        options.retry_delay_ns = closed ? PLIM_MS(5) : PLIM_US(100);
        ASSERT(pool_on_loop(&options, 0, 0));
        piece *p = crew.pieces;
        p[0].code = EIO;
        ASSERT_INT(0, submit_piece(&on.b[0], &p[0]));
        if (closed) {
            ASSERT(EVENTUALLY(runs_of_all() >= 1));
            ASSERT_INT(0, loop_scheduler_close(&on.l, LOOP_SCHEDULER_DRAIN, patience));
            ASSERT_INT(EAGAIN, submit_piece(&on.b[0], &p[1]));
        }
        ASSERT_INT(0, bulkhead_wait(&p[0].job, patience));
        /* (On a slow machine the retries may be over before the loop is closed.) */
        bool aborted = p[0].job.outcome == BULKHEAD_ABORTED;
        ASSERT(aborted ? closed && runs_of_all() < 3
                       : p[0].job.outcome == BULKHEAD_FAILED && runs_of_all() == 3);
        ASSERT_INT(1, p[0].ends);
        ASSERT(all_end());
    }
    PASS();
}

/* Until it has run, a job that the loop has accepted is the loop's: nobody runs it, so it does not
 * run; and who closes the loop runs it. */
TEST who_closes_a_loop_that_nobody_runs_runs_the_jobs(void)
{
    for (int how = 0; how < 2; how++) {
        gather(0);
        ASSERT_INT(0, loop_scheduler_init(&on.l, NULL));
        on.has_l = true;
        plim_executor executor = loop_scheduler_executor(&on.l);
        bulkhead_options options = {.type = BULKHEAD_ASYNC, .permits = 2, .executor = &executor};
        ASSERT_INT(0, stage_bulkhead(0, &options));
        for (int i = 0; i < PIECES; i++) {
            ASSERT_INT(0, submit_piece(&on.b[0], &crew.pieces[i]));
        }
        ASSERT_INT(ETIMEDOUT, bulkhead_wait_idle(&on.b[0], PLIM_MS(1)));
        ASSERT_INT(EBUSY, bulkhead_destroy(&on.b[0]));
        ASSERT_INT(0, loop_scheduler_close(&on.l, how, patience));
        /* NOW: the loop still calls what it had accepted, but takes no more. */
        ASSERT_INT(how == LOOP_SCHEDULER_DRAIN ? PIECES : 2, runs_of_all());
        for (int i = 0; i < PIECES; i++) {
            ASSERT_INT(0, bulkhead_wait(&crew.pieces[i].job, 0));
        }
        ASSERT(all_end());
        ASSERT(each_once(true));
    }
    PASS();
}

/* ---- a refusal while the outer one is being closed ---- */

enum { BY_LOOP, BY_SCALE, BY_BULKHEAD };

typedef struct giving {
    int by; /* one of those above */
    int refusal, closed;
} giving;

static giving given;

static plim_thread_result give_in_vain(void *arg)
{
    giving *g = arg;
    piece *p = &crew.pieces[1];
    g->refusal = g->by == BY_LOOP    ? offload_piece(&on.l, &on.b[0], p)
                 : g->by == BY_SCALE ? weighted_sem_start(&on.w, 1, do_piece, p)
                                     : submit_piece(&on.b[1], p);
    return 0;
}

static plim_thread_result close_outer(void *arg)
{
    giving *g = arg;
    g->closed = g->by == BY_LOOP    ? loop_scheduler_close(&on.l, LOOP_SCHEDULER_DRAIN, patience)
                : g->by == BY_SCALE ? weighted_sem_destroy(&on.w)
                                    : bulkhead_close(&on.b[1], BULKHEAD_DRAIN, patience);
    return 0;
}

static bool is_being_given(giving *g)
{
    return g->by == BY_LOOP    ? loop_scheduler_snapshot(&on.l).offloaded == 1
           : g->by == BY_SCALE ? weighted_sem_executing(&on.w) == 1
                               : bulkhead_snapshot(&on.b[1]).in_use == 1;
}

/* It waits in the executor for a place, and so does the close for it. Then the executor is closed
 * as well: the one is refused, and the other is over. */
TEST a_refusal_lets_the_close_that_waits_for_it_end(void)
{
    for (int by = BY_LOOP; by <= BY_BULKHEAD; by++) {
        giving *g = &given;
        *g = (giving){.by = by, .closed = -1};
        ASSERT(scale_on_pool(1, 1, PLIM_NONE, PLIM_FOREVER, 1));
        ASSERT(stage_loop(0));
        plim_executor executor = bulkhead_executor(&on.b[0]);
        bulkhead_options options = {.type = BULKHEAD_ASYNC, .executor = &executor};
        ASSERT_INT(0, stage_bulkhead(1, &options));
        ASSERT_INT(0, submit_piece(&on.b[0], &crew.pieces[0])); /* takes the only permit */
        csem_acquire(&crew.begun);
        start_helper(0, give_in_vain, g);
        ASSERT(EVENTUALLY(is_being_given(g)));
        on.has_w = by != BY_SCALE; /* that is destroyed there */
        start_helper(1, close_outer, g);
        rest(PLIM_MS(2)); /* that it waits, most likely: not every close can be seen to */
        ASSERT_INT(ETIMEDOUT, bulkhead_close(&on.b[0], BULKHEAD_DRAIN, 0));
        join_helpers();
        ASSERT_INT(by == BY_LOOP ? ESHUTDOWN : EAGAIN, g->refusal);
        ASSERT_INT(0, g->closed);
        csem_release(&crew.gate);
        ASSERT(by == BY_SCALE || destroy_scale() == 0);
        ASSERT_INT(0, destroy_bulkhead(1));
        ASSERT(all_end());
        ASSERT_INT(0, crew.pieces[1].runs + crew.pieces[1].ends);
    }
    PASS();
}

SUITE(composition_executors)
{
    ON_STAGE();
    RUN_TEST(jobs_of_a_weighted_semaphore_run_on_a_loop);
    RUN_TEST(the_smaller_of_weight_and_permits_is_the_limit);
    RUN_TEST(a_start_that_the_bulkhead_refuses_gives_its_weight_back);
    RUN_TEST(timeouts_end_the_wait_for_weight_on_this_side_of_the_border);
    RUN_TEST(a_job_that_waits_for_itself_is_told_by_either);
    RUN_TEST(a_bulkhead_that_is_aborted_runs_what_has_its_weight);
    RUN_TEST(jobs_of_a_bulkhead_run_on_a_loop_one_at_a_time);
    RUN_TEST(a_full_loop_refuses_a_job_of_a_bulkhead);
    RUN_TEST(cancel_and_expiry_reach_a_job_that_waits_in_a_loop);
    RUN_TEST(a_job_that_is_stuck_in_a_loop_times_out);
    RUN_TEST(a_retry_comes_back_to_the_loop_unless_that_is_closed);
    RUN_TEST(who_closes_a_loop_that_nobody_runs_runs_the_jobs);
    RUN_TEST(a_refusal_lets_the_close_that_waits_for_it_end);
}
