/* SPDX-License-Identifier: MIT
 *
 * Calls from inside: of done, worker_start, jobs and what invoke calls. A wait that can end waits;
 * one that would wait for itself gets EDEADLK.
 */

static int nothing(void *arg)
{
    (void)arg;
    return 0;
}

/* ---- calls from inside callbacks ---- */

static void wait_for_other(bulkhead_job *job)
{
    actor *a = job->arg;
    atomic_store(&a->answer, bulkhead_submit(a->b, &a->other));
    if (atomic_load(&a->answer) == 0) {
        atomic_store(&a->second, bulkhead_wait(&a->other, PLIM_S(PATIENCE_S)));
    }
    atomic_fetch_add(&a->dones, 1);
}

/* With one permit, the worker that is in done is the only one there may be, unless it waits. */
TEST a_detached_done_may_wait(int32_t permits, int workers)
{
    bulkhead b;
    actor a;
    bulkhead_options o = async_of(permits);
    ASSERT_INT(0, bulkhead_init(&b, &o));
    if (workers == 2) {
        actor both[2];
        for (int i = 0; i < 2; i++) {
            actor_init(&both[i], &b);
            ASSERT_INT(0, bulkhead_submit(&b, &both[i].job));
        }
        for (int i = 0; i < 2; i++) {
            csem_release(&both[i].go);
            ASSERT_INT(0, bulkhead_wait(&both[i].job, PLIM_FOREVER));
        }
    }
    actor_init(&a, &b);
    csem_release(&a.go);
    a.job.detached = true;
    a.job.done = wait_for_other;
    a.other.delay_ns = workers == 2 ? PLIM_MS(5) : 0; /* so that it has to be waited for */
    ASSERT_INT(0, bulkhead_submit(&b, &a.job));
    ASSERT(EVENTUALLY(atomic_load(&a.dones) == 1));
    ASSERT_INT(0, atomic_load(&a.answer));
    ASSERT_INT(0, atomic_load(&a.second));
    ASSERT_INT(0, bulkhead_wait(&a.other, PLIM_FOREVER));
    ASSERT(ends_well(&b));
    PASS();
}

static void invoke_in_done(bulkhead_job *job)
{
    actor *a = job->arg;
    atomic_store(&a->answer, bulkhead_invoke(a->b, nothing, NULL, NULL));
    atomic_store(&a->second, bulkhead_wait_idle(a->b, PLIM_S(PATIENCE_S)));
    atomic_fetch_add(&a->dones, 1);
}

TEST an_invoke_in_a_done_is_told(bool detached, int32_t permits, int expected)
{
    bulkhead b;
    actor a;
    bulkhead_options o = async_of(permits);
    ASSERT_INT(0, bulkhead_init(&b, &o));
    actor_init(&a, &b);
    csem_release(&a.go);
    a.job.detached = detached;
    a.job.done = invoke_in_done;
    ASSERT_INT(0, bulkhead_submit(&b, &a.job));
    ASSERT(EVENTUALLY(atomic_load(&a.dones) == 1));
    ASSERT_INT(expected, atomic_load(&a.answer));
    ASSERT_INT(EDEADLK, atomic_load(&a.second));
    ASSERT(ends_well(&b));
    PASS();
}

static void stay_in_done(bulkhead_job *job)
{
    actor *a = job->arg;
    atomic_store(&a->answer, 0);
    csem_acquire(&a->go);
    atomic_fetch_add(&a->dones, 1);
}

/* Two workers are in a done of a detached job. A third runs what one of them calls. */
TEST an_invoke_in_a_done_gets_another_worker(int32_t permits)
{
    bulkhead b;
    actor a, stays;
    bulkhead_options o = async_of(permits);
    ASSERT_INT(0, bulkhead_init(&b, &o));
    actor_init(&stays, &b);
    actor_init(&a, &b);
    stays.job.detached = a.job.detached = true;
    stays.job.done = stay_in_done;
    a.job.done = invoke_in_done;
    ASSERT_INT(0, bulkhead_submit(&b, &stays.job));
    ASSERT_INT(0, bulkhead_submit(&b, &a.job));
    csem_release(&stays.go);
    ASSERT(EVENTUALLY(atomic_load(&stays.answer) == 0));
    csem_release(&a.go);
    ASSERT(EVENTUALLY(atomic_load(&a.dones) == 1));
    ASSERT_INT(0, atomic_load(&a.answer));
    csem_release(&stays.go);
    ASSERT(EVENTUALLY(atomic_load(&stays.dones) == 1));
    ASSERT(ends_well(&b));
    PASS();
}

/* The supervisor ends the job, and its done would wait for itself: by a call, or for a job that waits
 * in the queue, and may need the supervisor. */
TEST a_done_on_the_supervisor_is_told(void (*done)(bulkhead_job *job), int answer)
{
    bulkhead b;
    actor a, gate;
    bulkhead_options o = async_of(1);
    ASSERT_INT(0, bulkhead_init(&b, &o));
    actor_init(&a, &b);
    actor_init(&gate, &b);
    ASSERT_INT(0, bulkhead_submit(&b, &gate.job));
    a.job.start_within_ns = PLIM_MS(1);
    a.job.done = done;
    ASSERT_INT(0, bulkhead_submit(&b, &a.job));
    ASSERT_INT(0, bulkhead_wait(&a.job, PLIM_FOREVER));
    ASSERT_INT(BULKHEAD_EXPIRED, a.job.outcome);
    ASSERT_INT(answer, atomic_load(&a.answer));
    ASSERT_INT(EDEADLK, atomic_load(&a.second));
    csem_release(&gate.go);
    ASSERT(ends_well(&b));
    PASS();
}

static void idle_in_done(bulkhead_job *job)
{
    actor *a = job->arg;
    atomic_store(&a->answer, bulkhead_wait_idle(a->b, PLIM_S(PATIENCE_S)));
    atomic_store(&a->second, bulkhead_close(a->b, BULKHEAD_ABORT, PLIM_S(PATIENCE_S)));
    atomic_fetch_add(&a->dones, 1);
}

TEST a_done_of_who_cancels_is_told(void)
{
    bulkhead b;
    actor a, gate;
    bulkhead_options o = async_of(1);
    ASSERT_INT(0, bulkhead_init(&b, &o));
    actor_init(&a, &b);
    actor_init(&gate, &b);
    ASSERT_INT(0, bulkhead_submit(&b, &gate.job));
    a.job.done = idle_in_done;
    ASSERT_INT(0, bulkhead_submit(&b, &a.job));
    ASSERT_INT(0, bulkhead_cancel(&b, &a.job));
    ASSERT_INT(EDEADLK, atomic_load(&a.answer));
    ASSERT_INT(EDEADLK, atomic_load(&a.second));
    csem_release(&gate.go);
    ASSERT(ends_well(&b));
    PASS();
}

static actor *starting;

static int enter_in_start(void *user, unsigned index, void **resource)
{
    (void)user, (void)index, (void)resource;
    actor *a = starting;
    atomic_store(&a->answer, bulkhead_wait_idle(a->b, PLIM_S(PATIENCE_S)));
    atomic_store(&a->second, bulkhead_enter_for(a->b, PLIM_MS(1)));
    return 0;
}

TEST a_worker_start_that_would_wait_for_itself_is_told(void)
{
    bulkhead b;
    actor a;
    bulkhead_options o = async_of(1);
    o.worker_start = enter_in_start;
    ASSERT_INT(0, bulkhead_init(&b, &o));
    actor_init(&a, &b);
    csem_release(&a.go);
    starting = &a;
    ASSERT_INT(0, bulkhead_submit(&b, &a.job));
    ASSERT_INT(0, bulkhead_wait(&a.job, PLIM_FOREVER));
    ASSERT_INT(EDEADLK, atomic_load(&a.answer));
    ASSERT_INT(ETIMEDOUT, atomic_load(&a.second)); /* the job has the permit, and waits for us */
    ASSERT(ends_well(&b));
    PASS();
}

/* ---- waits inside jobs ---- */

static int wait_a_while_for_other(bulkhead_job *job)
{
    actor *a = job->arg;
    atomic_store(&a->answer, bulkhead_wait(&a->other, PLIM_MS(5)));
    return 0;
}

TEST a_timed_wait_inside_a_job_gives_up(void)
{
    bulkhead b;
    actor a, gate;
    bulkhead_options o = async_of(2);
    ASSERT_INT(0, bulkhead_init(&b, &o));
    actor_init(&a, &b);
    actor_init(&gate, &b);
    a.job.run = wait_a_while_for_other;
    a.other.run = act;
    a.other.arg = &gate;
    ASSERT_INT(0, bulkhead_submit(&b, &a.other));
    ASSERT(EVENTUALLY(atomic_load(&gate.runs) == 1));
    ASSERT_INT(0, bulkhead_submit(&b, &a.job));
    ASSERT_INT(0, bulkhead_wait(&a.job, PLIM_FOREVER));
    ASSERT_INT(ETIMEDOUT, atomic_load(&a.answer));
    csem_release(&gate.go);
    ASSERT(ends_well(&b));
    PASS();
}

/* Fewer permits than are in use: the job that waits may hold them all, and yet the other runs. */
static int shrink_and_wait(bulkhead_job *job)
{
    actor *a = job->arg;
    atomic_store(&a->second, bulkhead_resize(a->b, 1, 0));
    atomic_fetch_add(&a->runs, 1);
    atomic_store(&a->answer, bulkhead_wait(&a->other, PLIM_FOREVER));
    return 0;
}

TEST a_job_may_wait_for_one_that_runs_after_a_shrink(void)
{
    bulkhead b;
    actor a, gate;
    bulkhead_options o = async_of(2);
    ASSERT_INT(0, bulkhead_init(&b, &o));
    actor_init(&a, &b);
    actor_init(&gate, &b);
    a.job.run = shrink_and_wait;
    a.other.run = act;
    a.other.arg = &gate;
    ASSERT_INT(0, bulkhead_submit(&b, &a.other));
    ASSERT(EVENTUALLY(atomic_load(&gate.runs) == 1));
    ASSERT_INT(0, bulkhead_submit(&b, &a.job));
    ASSERT(EVENTUALLY(atomic_load(&a.runs) == 1));
    rest(PLIM_MS(20)); /* for the wait to be a real one, usually */
    csem_release(&gate.go);
    ASSERT_INT(0, bulkhead_wait(&a.job, PLIM_FOREVER));
    ASSERT_INT(0, atomic_load(&a.second));
    ASSERT_INT(0, atomic_load(&a.answer));
    ASSERT(ends_well(&b));
    PASS();
}

static int act_slowly(bulkhead_job *job)
{
    act(job);
    rest(PLIM_MS(20)); /* long enough for others to fall asleep */
    return 0;
}

/* A thread inside invoke is no job; it waits for one without a limit, and may. */
static int wait_for_job(void *arg)
{
    actor *a = arg;
    csem_release(&a->go);
    return bulkhead_wait(&a->job, PLIM_FOREVER);
}

TEST a_call_inside_may_wait_for_a_job_that_runs(void)
{
    bulkhead b;
    actor a;
    int result = -1;
    bulkhead_options o = async_of(2);
    o.flags = BULKHEAD_INLINE;
    ASSERT_INT(0, bulkhead_init(&b, &o));
    actor_init(&a, &b);
    a.job.run = act_slowly;
    ASSERT_INT(0, bulkhead_submit(&b, &a.job));
    ASSERT(EVENTUALLY(atomic_load(&a.runs) == 1));
    ASSERT_INT(0, bulkhead_invoke(&b, wait_for_job, &a, &result));
    ASSERT_INT(0, result);
    ASSERT(ends_well(&b));
    PASS();
}

SUITE(bulkhead_inside)
{
    RUN_TESTp(a_detached_done_may_wait, 1, 1);
    RUN_TESTp(a_detached_done_may_wait, 2, 1);
    RUN_TESTp(a_detached_done_may_wait, 2, 2);
    RUN_TESTp(an_invoke_in_a_done_is_told, true, 1, 0);
    RUN_TESTp(an_invoke_in_a_done_is_told, true, 2, 0);
    RUN_TESTp(an_invoke_in_a_done_is_told, false, 1, EDEADLK);
    RUN_TESTp(an_invoke_in_a_done_is_told, false, 2, 0);
    RUN_TESTp(an_invoke_in_a_done_gets_another_worker, 2);
    RUN_TESTp(an_invoke_in_a_done_gets_another_worker, 3);
    RUN_TESTp(a_done_on_the_supervisor_is_told, invoke_in_done, EDEADLK);
    RUN_TESTp(a_done_on_the_supervisor_is_told, wait_for_other, 0);
    RUN_TEST(a_done_of_who_cancels_is_told);
    RUN_TEST(a_worker_start_that_would_wait_for_itself_is_told);
    RUN_TEST(a_timed_wait_inside_a_job_gives_up);
    RUN_TEST(a_job_may_wait_for_one_that_runs_after_a_shrink);
    RUN_TEST(a_call_inside_may_wait_for_a_job_that_runs);
}
