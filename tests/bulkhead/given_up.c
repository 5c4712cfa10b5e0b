/* SPDX-License-Identifier: MIT
 *
 * What a bulkhead gives up when no thread can be had, and what it does not. The pieces are in
 * shortage.c.
 */

static int wait_a_moment(bulkhead_job *job)
{
    part *p = job->arg;
    scarce();
    p->submitted = bulkhead_submit(&at.b, &at.p[1].job);
    p->error = bulkhead_wait(&at.p[1].job, PLIM_MS(1));
    return 0;
}

/* It ends by itself, and then its thread can run the job. */
TEST a_wait_with_a_limit_gives_nothing_up(void)
{
    make(2);
    at.p[0].job.run = wait_a_moment;
    ASSERT_EQ_FMT(0, bulkhead_submit(&at.b, &at.p[0].job), "%d");
    ASSERT(ends_as(&at.p[0], BULKHEAD_SUCCEEDED));
    ASSERT_EQ_FMT(0, at.p[0].submitted, "%d");
    ASSERT_EQ_FMT(ETIMEDOUT, at.p[0].error, "%d");
    ASSERT(ends_as(&at.p[1], BULKHEAD_SUCCEEDED));
    ASSERT(strait_ends());
    PASS();
}

static int submit_two_and_wait_for_the_second(bulkhead_job *job)
{
    part *p = job->arg;
    scarce();
    p->submitted = bulkhead_submit(&at.b, &at.p[1].job);
    p->result = bulkhead_submit(&at.b, &at.p[2].job);
    p->error = bulkhead_wait(&at.p[2].job, PLIM_FOREVER);
    return 0;
}

/* With three permits both are ready, and it is enough to end the one that is waited for: then the
 * worker goes on, and runs the other. With two, that one is in the queue until the first has ended.
 */
TEST so_many_jobs_end_until_a_worker_goes_on(int32_t permits, bulkhead_outcome first)
{
    make(permits);
    at.p[0].job.run = submit_two_and_wait_for_the_second;
    ASSERT_EQ_FMT(0, bulkhead_submit(&at.b, &at.p[0].job), "%d");
    ASSERT(ends_as(&at.p[0], BULKHEAD_SUCCEEDED));
    ASSERT_EQ_FMT(0, at.p[0].submitted, "%d");
    ASSERT_EQ_FMT(0, at.p[0].result, "%d");
    ASSERT_EQ_FMT(0, at.p[0].error, "%d");
    ASSERT_EQ_FMT(BULKHEAD_ABORTED, at.p[2].job.outcome, "%d");
    ASSERT(ends_as(&at.p[1], first));
    ASSERT(strait_ends());
    PASS();
}

static int wait_for_part_3(bulkhead_job *job)
{
    part *p = job->arg;
    csem_release(&p->came);
    p->error = passes(&p->go) ? bulkhead_wait(&at.p[3].job, PLIM_FOREVER) : -1;
    return 0;
}

static int wait_for_part_2_and_stay(bulkhead_job *job)
{
    wait_for_part_2(job);
    return passes(&at.p[4].go) ? 0 : EIO;
}

/* Two workers wait. One of them is over its time, and takes no job when it goes on: it is not enough
 * to end what that one waits for. */
TEST a_worker_that_is_stuck_does_not_go_on(void)
{
    part *waits = &at.p[0], *stuck = &at.p[1];
    make(4);
    atomic_store(&threads_left, 3); /* two workers, and the supervisor */
    waits->job.run = wait_for_part_3;
    stuck->job.run = wait_for_part_2_and_stay;
    stuck->job.run_timeout_ns = PLIM_MS(100);
    ASSERT_EQ_FMT(0, bulkhead_submit(&at.b, &waits->job), "%d");
    ASSERT_EQ_FMT(0, bulkhead_submit(&at.b, &stuck->job), "%d");
    ASSERT(passes(&waits->came) && passes(&stuck->came));
    ASSERT_EQ_FMT(0, bulkhead_enter(&at.b), "%d");
    ASSERT_EQ_FMT(0, bulkhead_enter(&at.b), "%d");
    ASSERT_EQ_FMT(0, bulkhead_submit(&at.b, &at.p[2].job), "%d");
    ASSERT_EQ_FMT(0, bulkhead_submit(&at.b, &at.p[3].job), "%d");
    csem_release(&waits->go);
    csem_release(&stuck->go);
    ASSERT(is_stuck_and_alone());
    ASSERT_EQ_FMT(0, bulkhead_leave(&at.b), "%d");
    ASSERT(ends_as(&at.p[2], BULKHEAD_ABORTED));
    ASSERT(ends_as(&at.p[3], BULKHEAD_ABORTED));
    ASSERT(ends_as(waits, BULKHEAD_SUCCEEDED));
    ASSERT_EQ_FMT(0, waits->error, "%d");
    csem_release(&at.p[4].go);
    ASSERT_EQ_FMT(0, bulkhead_reclaim(&stuck->job, PLIM_S(PATIENCE_S)), "%d");
    ASSERT_EQ_FMT(0, bulkhead_leave(&at.b), "%d");
    ASSERT(strait_ends());
    PASS();
}

static int wait_for_part_2_meanwhile(bulkhead_job *job)
{
    part *p = job->arg;
    at.p[2].job.delay_ns = PLIM_S(1000); /* until it is cancelled */
    p->result = bulkhead_submit(&at.b, &at.p[2].job);
    scarce();
    p->submitted = bulkhead_submit(&at.b, &at.p[1].job);
    p->error = bulkhead_wait(&at.p[2].job, PLIM_FOREVER);
    return 0;
}

static void wait_in_done_as_well(bulkhead_job *job)
{
    part *p = job->arg;
    csem_release(&p->came);
    passes(&p->go);
    p->submitted = bulkhead_submit(&at.b, &at.p[3].job);
    p->error = bulkhead_wait(&at.p[3].job, PLIM_FOREVER);
    atomic_store(&p->over, 1);
}

/* The only worker waits. For that, a job is given up; its done is called on the same thread, and
 * waits as well. Then a job can rely on it neither during the inner wait nor after that. */
TEST a_thread_that_waits_twice_counts_once(void)
{
    part *waits = &at.p[0], *given_up = &at.p[1], *inner = &at.p[3];
    make(2);
    waits->job.run = wait_for_part_2_meanwhile;
    given_up->job.done = wait_in_done_as_well;
    ASSERT_EQ_FMT(0, bulkhead_submit(&at.b, &waits->job), "%d");
    ASSERT(passes(&given_up->came));
    ASSERT_EQ_FMT(0, waits->result, "%d");
    ASSERT_EQ_FMT(0, waits->submitted, "%d");
    ASSERT_EQ_FMT(0, bulkhead_enter(&at.b), "%d"); /* so that the inner one has to wait */
    csem_release(&given_up->go);
    ASSERT(EVENTUALLY(blocked() == 2));
    ASSERT_EQ_FMT(0, bulkhead_leave(&at.b), "%d");
    ASSERT(is_over(given_up));
    ASSERT_EQ_FMT(0, given_up->submitted, "%d");
    ASSERT_EQ_FMT(0, given_up->error, "%d");
    ASSERT_EQ_FMT(BULKHEAD_ABORTED, inner->job.outcome, "%d");
    ASSERT_EQ_FMT(EAGAIN, bulkhead_submit(&at.b, &at.p[4].job), "%d");
    ASSERT_EQ_FMT(0, bulkhead_cancel(&at.b, &at.p[2].job), "%d");
    ASSERT(ends_as(waits, BULKHEAD_SUCCEEDED));
    ASSERT_EQ_FMT(0, waits->error, "%d");
    ASSERT_EQ_FMT(BULKHEAD_ABORTED, given_up->job.outcome, "%d");
    ASSERT(strait_ends());
    PASS();
}

static int fail_with_a_number(void *arg)
{
    part *p = arg;
    int number = 6 + atomic_fetch_add(&at.calls, 1) + 1;
    csem_release(&p->came);
    passes(&p->go);
    return number;
}

static int invoke_what_fails(bulkhead_job *job)
{
    part *p = job->arg;
    p->error = bulkhead_invoke(&at.b, fail_with_a_number, p, &p->result);
    return 0;
}

/* It has been called once, and waits for its permit again. Its worker has gone, being idle. An
 * invoke that has a timeout does not give up any more, once its call has begun. */
TEST a_call_that_nobody_can_try_again_has_failed(int64_t timeout_ns)
{
    bulkhead_options options = {.type = BULKHEAD_ASYNC, .permits = 2, .attempts = 2};
    part *p = &at.p[0];
    options.timeout_ns = timeout_ns;
    make_with(&options);
    atomic_store(&idle_ns, PLIM_MS(1));
    p->job.run = invoke_what_fails;
    p->job.attempts = 1;
    ASSERT_EQ_FMT(0, bulkhead_submit(&at.b, &p->job), "%d");
    ASSERT(passes(&p->came));
    ASSERT(a_visitor_queues_up());
    csem_release(&p->go);
    ASSERT(passes(&at.entered));
    ASSERT(EVENTUALLY(bulkhead_snapshot(&at.b).workers == 1));
    ASSERT_EQ_FMT(1u, bulkhead_snapshot(&at.b).queued, "%u");
    scarce();
    the_visitor_leaves();
    ASSERT(ends_as(p, BULKHEAD_SUCCEEDED));
    ASSERT_EQ_FMT(0, p->error, "%d");
    ASSERT_EQ_FMT(1, atomic_load(&at.calls), "%d");
    ASSERT_EQ_FMT(7, p->result, "%d");
    ASSERT(strait_ends());
    PASS();
}

static int wait_for_what_is_cancelled(bulkhead_job *job)
{
    part *p = job->arg;
    scarce();
    p->submitted = bulkhead_submit(&at.b, &at.p[1].job);
    csem_release(&p->came);
    p->error = passes(&p->go) ? bulkhead_wait(&at.p[1].job, PLIM_FOREVER) : -1;
    return 0;
}

static void submit_in_done(bulkhead_job *job)
{
    part *p = job->arg;
    csem_release(&at.p[0].go);
    p->error = EVENTUALLY(blocked() == 1) ? 0 : EIO;
    p->submitted = bulkhead_submit(&at.b, &at.p[2].job);
}

/* The job is over, but its done is not: as long as that takes, who waits for it waits. */
TEST a_done_cannot_rely_on_who_waits_for_it(void)
{
    part *waits = &at.p[0], *other = &at.p[1];
    make(3);
    waits->job.run = wait_for_what_is_cancelled;
    other->job.done = submit_in_done;
    ASSERT_EQ_FMT(0, bulkhead_submit(&at.b, &waits->job), "%d");
    ASSERT(passes(&waits->came));
    ASSERT_EQ_FMT(0, waits->submitted, "%d");
    ASSERT_EQ_FMT(0, bulkhead_cancel(&at.b, &other->job), "%d");
    ASSERT_EQ_FMT(0, other->error, "%d");
    ASSERT_EQ_FMT(EAGAIN, other->submitted, "%d");
    ASSERT(ends_as(waits, BULKHEAD_SUCCEEDED));
    ASSERT_EQ_FMT(0, waits->error, "%d");
    ASSERT_EQ_FMT(BULKHEAD_CANCELLED, other->job.outcome, "%d");
    ASSERT(strait_ends());
    PASS();
}

static int enter_in_body(bulkhead_job *job)
{
    part *p = job->arg;
    p->error = bulkhead_enter(&at.b);
    if (p->error == 0) {
        p->error = bulkhead_leave(&at.b);
    }
    return 0;
}

static void take_the_permit(void)
{
    at.p[0].result = bulkhead_try_enter(&at.b);
}

/* The only worker is told to look for a permit. While a worker more is asked for in vain, that
 * permit is taken. If the first one is not faster, it waits again, and then nobody is left. */
TEST a_worker_that_waits_again_does_not_count(void)
{
    for (int round = scaled(40); round > 0; round--) {
        part *waits = &at.p[0], *other = &at.p[1];
        async_of(&at.b, 2, BULKHEAD_UNFAIR);
        at.lives = true;
        waits->job.run = enter_in_body;
        ASSERT_EQ_FMT(0, bulkhead_enter(&at.b), "%d");
        ASSERT_EQ_FMT(0, bulkhead_submit(&at.b, &waits->job), "%d");
        ASSERT(EVENTUALLY(blocked() == 1));
        scarce();
        ASSERT_EQ_FMT(0, bulkhead_submit(&at.b, &other->job), "%d");
        atomic_store(&while_allocating, take_the_permit);
        ASSERT_EQ_FMT(0, bulkhead_resize(&at.b, 4, PLIM_KEEP), "%d");
        bool taken = waits->result == 0;
        ASSERT_EQ_FMT(taken ? 0 : EAGAIN, waits->result, "%d");
        ASSERT_EQ_FMT(0, bulkhead_wait(&other->job, PLIM_S(PATIENCE_S)), "%d");
        if (taken) {
            ASSERT_EQ_FMT(0, bulkhead_leave(&at.b), "%d");
        }
        ASSERT_EQ_FMT(0, bulkhead_leave(&at.b), "%d");
        ASSERT(ends_as(waits, BULKHEAD_SUCCEEDED));
        ASSERT_EQ_FMT(0, waits->error, "%d");
        ASSERT(strait_ends());
    }
    PASS();
}

/* It needs no worker before the test leaves, and perhaps a visitor. By then there is one. */
TEST a_submit_in_vain_leaves_the_queue_as_it_is(bool visited)
{
    make(1);
    atomic_store(&idle_ns, PLIM_MS(1));
    ASSERT_EQ_FMT(0, bulkhead_enter(&at.b), "%d");
    ASSERT(!visited || a_visitor_queues_up());
    ASSERT_EQ_FMT(0, bulkhead_submit(&at.b, &at.p[0].job), "%d");
    ASSERT(EVENTUALLY(bulkhead_snapshot(&at.b).workers == 0));
    scarce();
    ASSERT_EQ_FMT(EAGAIN, bulkhead_submit(&at.b, &at.p[1].job), "%d");
    ASSERT_EQ_FMT(visited ? 2u : 1u, bulkhead_snapshot(&at.b).queued, "%u");
    plenty();
    ASSERT_EQ_FMT(0, bulkhead_leave(&at.b), "%d");
    if (visited) {
        the_visitor_leaves();
    }
    ASSERT(ends_as(&at.p[0], BULKHEAD_SUCCEEDED));
    ASSERT(strait_ends());
    PASS();
}

static int wait_for_a_late_one(bulkhead_job *job)
{
    part *p = job->arg;
    at.p[1].job.delay_ns = PLIM_S(1000); /* until it is cancelled */
    p->submitted = bulkhead_submit(&at.b, &at.p[1].job);
    p->error = bulkhead_wait(&at.p[1].job, PLIM_FOREVER);
    return 0;
}

/* Two jobs in the queue, and perhaps a visitor between them. The first gets a permit and no worker,
 * since the only one waits. Then the permit is the visitor's, and by the time it leaves there is a
 * worker; or it is the other job's, which has none either. */
TEST what_has_no_permit_yet_needs_no_worker(bool visited)
{
    part *waits = &at.p[0], *first = &at.p[2], *second = &at.p[3];
    make(3);
    waits->job.run = wait_for_a_late_one;
    ASSERT_EQ_FMT(0, bulkhead_enter(&at.b), "%d");
    ASSERT_EQ_FMT(0, bulkhead_enter(&at.b), "%d");
    ASSERT_EQ_FMT(0, bulkhead_submit(&at.b, &waits->job), "%d");
    ASSERT(EVENTUALLY(blocked() == 1));
    ASSERT_EQ_FMT(0, bulkhead_submit(&at.b, &first->job), "%d");
    ASSERT(!visited || a_visitor_queues_up());
    ASSERT_EQ_FMT(0, bulkhead_submit(&at.b, &second->job), "%d");
    scarce();
    ASSERT_EQ_FMT(0, bulkhead_leave(&at.b), "%d");
    ASSERT(ends_as(first, BULKHEAD_ABORTED));
    plenty();
    if (visited) {
        ASSERT(passes(&at.entered));
        ASSERT_EQ_FMT(1u, bulkhead_snapshot(&at.b).queued, "%u");
        the_visitor_leaves();
    }
    ASSERT(ends_as(second, visited ? BULKHEAD_SUCCEEDED : BULKHEAD_ABORTED));
    ASSERT_EQ_FMT(0, bulkhead_leave(&at.b), "%d");
    ASSERT_EQ_FMT(0, bulkhead_cancel(&at.b, &at.p[1].job), "%d");
    ASSERT(ends_as(waits, BULKHEAD_SUCCEEDED));
    ASSERT_EQ_FMT(0, waits->submitted, "%d");
    ASSERT_EQ_FMT(0, waits->error, "%d");
    ASSERT(strait_ends());
    PASS();
}

SUITE(bulkhead_given_up)
{
    SET_SETUP(set_the_strait, NULL);
    SET_TEARDOWN(clear_the_strait, NULL);
    RUN_TEST(a_wait_with_a_limit_gives_nothing_up);
    RUN_TESTp(so_many_jobs_end_until_a_worker_goes_on, 3, BULKHEAD_SUCCEEDED);
    RUN_TESTp(so_many_jobs_end_until_a_worker_goes_on, 2, BULKHEAD_ABORTED);
    RUN_TEST(a_worker_that_is_stuck_does_not_go_on);
    RUN_TEST(a_thread_that_waits_twice_counts_once);
    RUN_TESTp(a_call_that_nobody_can_try_again_has_failed, 0);
    RUN_TESTp(a_call_that_nobody_can_try_again_has_failed, PLIM_S(PATIENCE_S));
    RUN_TEST(a_done_cannot_rely_on_who_waits_for_it);
    RUN_TEST(a_worker_that_waits_again_does_not_count);
    RUN_TESTp(a_submit_in_vain_leaves_the_queue_as_it_is, false);
    RUN_TESTp(a_submit_in_vain_leaves_the_queue_as_it_is, true);
    RUN_TESTp(what_has_no_permit_yet_needs_no_worker, false);
    RUN_TESTp(what_has_no_permit_yet_needs_no_worker, true);
}
