/* SPDX-License-Identifier: MIT
 *
 * Threads of a bulkhead that wait for that very bulkhead, when no other thread can be had. Jobs
 * that no thread will run end, and nothing else does. Waits with threads in plenty are in
 * blocked.c.
 */

enum { PARTS = 6 };

/* A job of a test, and what it has seen. */
typedef struct part {
    bulkhead_job job;
    csem came, go;
    int submitted, error, result;
    atomic_int over;
} part;

static struct strait {
    bulkhead b;
    bool lives;
    part p[PARTS];
    atomic_int calls;
    int32_t permits; /* a resize to them */
    bool visits;     /* there is a visitor */
    plim_thread visitor;
    csem entered, leave;
} at;

static void scarce(void)
{
    atomic_store(&threads_left, 0);
}

static int run_at_once(bulkhead_job *job)
{
    (void)job;
    return 0;
}

static void set_the_strait(void *data) /* a setup */
{
    (void)data;
    memset((void *)&at, 0, sizeof at);
    for (int i = 0; i < PARTS; i++) {
        part *p = &at.p[i];
        p->job = (bulkhead_job){.run = run_at_once, .arg = p};
        csem_init(&p->came, 0);
        csem_init(&p->go, 0);
        p->submitted = p->error = p->result = -1;
    }
    csem_init(&at.entered, 0);
    csem_init(&at.leave, 0);
    plenty();
}

static void make_with(const bulkhead_options *options)
{
    at.lives = bulkhead_init(&at.b, options) == 0;
}

static void make(int32_t permits)
{
    async_of(&at.b, permits, 0);
    at.lives = true;
}

static bool passes(csem *c)
{
    return csem_acquire_for(c, PLIM_S(PATIENCE_S)) == 0;
}

static bool is_over(part *p)
{
    return EVENTUALLY(atomic_load(&p->over) == 1);
}

static bool ends_as(part *p, bulkhead_outcome outcome)
{
    return bulkhead_wait(&p->job, PLIM_S(PATIENCE_S)) == 0 && p->job.outcome == outcome;
}

/* How many threads wait that others wait for. */
static int blocked(void)
{
    bulkhead_section_ s = bulkhead_lock_(&at.b);
    int n = 0;
    for (const plim_node_ *node = at.b.blocked.first; node != NULL; node = node->next) {
        n++;
    }
    bulkhead_unlock_(&at.b, &s);
    return n;
}

/* How many threads wait for the end of that job. */
static uint32_t waiters_of(const bulkhead_job *job)
{
    uint32_t n = 0;
    bulkhead_section_ s = bulkhead_lock_(&at.b);
    for (const bulkhead_await_ *waiter = job->waiters_; waiter != NULL; waiter = waiter->next) {
        n++;
    }
    bulkhead_unlock_(&at.b, &s);
    return n;
}

static bool is_awaited_by(part *p, uint32_t n)
{
    return EVENTUALLY(waiters_of(&p->job) == n);
}

static plim_thread_result visit_until_told(void *arg)
{
    (void)arg;
    if (bulkhead_enter(&at.b) == 0) {
        csem_release(&at.entered);
        passes(&at.leave);
        bulkhead_leave(&at.b);
    }
    return 0;
}

/* Somebody else, who wants a permit, and is the next in the queue. */
static bool a_visitor_queues_up(void)
{
    uint32_t before = bulkhead_snapshot(&at.b).queued;
    at.visits = true;
    start(&at.visitor, visit_until_told, NULL);
    return EVENTUALLY(bulkhead_snapshot(&at.b).queued == before + 1);
}

static void the_visitor_leaves(void)
{
    csem_release(&at.leave);
    join(at.visitor);
    at.visits = false;
}

static bool strait_ends(void)
{
    at.lives = !comes_to_an_end(&at.b);
    return !at.lives;
}

/* After a test that failed half-way: all that it has started ends before the next one begins. */
static void clear_the_strait(void *data) /* a teardown */
{
    (void)data;
    atomic_store(&idle_ns, PLIM_S(10));
    atomic_store(&while_allocating, NULL);
    plenty();
    for (int i = 0; i < PARTS; i++) {
        csem_release_n(&at.p[i].go, PARTS);
    }
    csem_release(&at.leave);
    bool over = true;
    if (at.lives) {
        (void)bulkhead_close(&at.b, BULKHEAD_ABORT, PLIM_S(1));
        while (bulkhead_leave(&at.b) == 0) {} /* the thread of the test holds permits */
        over = bulkhead_close(&at.b, BULKHEAD_ABORT, PLIM_S(PATIENCE_S)) == 0;
    }
    if (over && at.visits) {
        join(at.visitor);
    }
    if (!over || (at.lives && bulkhead_destroy(&at.b) != 0)) {
        fflush(stdout); /* what the test has printed as it failed */
        fprintf(stderr, "what the test has started does not end\n");
        abort();
    }
}

/* ---- who waits for a body that is over its time ---- */

/* In vain: its worker was to be replaced, and could not. */
static bool is_stuck_and_alone(void)
{
    return EVENTUALLY(bulkhead_snapshot(&at.b).workers_stuck == 1 &&
                      bulkhead_snapshot(&at.b).workers == 2);
}

static int submit_when_stuck(void *arg)
{
    part *p = arg;
    p->error = is_stuck_and_alone() ? 0 : EIO;
    p->submitted = bulkhead_submit(&at.b, &p->job);
    return 0;
}

static int invoke_what_gets_stuck(bulkhead_job *job)
{
    part *p = job->arg;
    p->error = bulkhead_invoke(&at.b, submit_when_stuck, &at.p[1], NULL);
    return 0;
}

/* Its caller is the only other worker, and waits for it, in spite of the timeout. */
TEST a_call_that_is_stuck_cannot_rely_on_its_caller(void)
{
    bulkhead_options options = {.type = BULKHEAD_ASYNC, .permits = 3};
    options.run_timeout_ns = PLIM_MS(1);
    make_with(&options);
    atomic_store(&threads_left, 3); /* two workers, and the supervisor */
    at.p[0].job.run = invoke_what_gets_stuck;
    at.p[0].job.run_timeout_ns = PLIM_NONE;
    ASSERT_EQ_FMT(0, bulkhead_submit(&at.b, &at.p[0].job), "%d");
    ASSERT(ends_as(&at.p[0], BULKHEAD_SUCCEEDED));
    ASSERT_EQ_FMT(ETIMEDOUT, at.p[0].error, "%d");
    ASSERT_EQ_FMT(0, at.p[1].error, "%d");
    ASSERT_EQ_FMT(EAGAIN, at.p[1].submitted, "%d");
    ASSERT(strait_ends());
    PASS();
}

static int submit_when_reclaimed(bulkhead_job *job)
{
    part *p = job->arg;
    p->error = is_stuck_and_alone() && is_over(&at.p[0]) && EVENTUALLY(blocked() == 1) ? 0 : EIO;
    p->submitted = bulkhead_submit(&at.b, &at.p[2].job);
    return 0;
}

static int wait_and_reclaim(bulkhead_job *job)
{
    part *p = job->arg, *other = &at.p[1];
    p->submitted = bulkhead_submit(&at.b, &other->job);
    p->result = bulkhead_wait(&other->job, PLIM_FOREVER);
    atomic_store(&p->over, 1);
    p->error = bulkhead_reclaim(&other->job, PLIM_FOREVER);
    return 0;
}

TEST a_job_that_is_stuck_cannot_rely_on_who_reclaims_it(void)
{
    make(3);
    atomic_store(&threads_left, 3);
    at.p[0].job.run = wait_and_reclaim;
    at.p[1].job.run = submit_when_reclaimed;
    at.p[1].job.run_timeout_ns = PLIM_MS(1);
    ASSERT_EQ_FMT(0, bulkhead_submit(&at.b, &at.p[0].job), "%d");
    ASSERT(ends_as(&at.p[0], BULKHEAD_SUCCEEDED));
    ASSERT_EQ_FMT(0, at.p[0].submitted, "%d");
    ASSERT_EQ_FMT(0, at.p[0].result, "%d");
    ASSERT_EQ_FMT(0, at.p[0].error, "%d");
    ASSERT_EQ_FMT(0, at.p[1].error, "%d");
    ASSERT_EQ_FMT(EAGAIN, at.p[1].submitted, "%d");
    ASSERT(strait_ends());
    PASS();
}

/* ---- the done of a job that has ended its thread ---- */

static int quit_when_told(bulkhead_job *job)
{
    part *p = job->arg;
    passes(&p->go);
    return end_the_thread(NULL);
}

static int stay_until_told(bulkhead_job *job)
{
    part *p = job->arg;
    csem_release(&p->came);
    return passes(&p->go) ? 0 : EIO;
}

static void wait_for_part_1(bulkhead_job *job)
{
    part *p = job->arg;
    p->error = bulkhead_wait(&at.p[1].job, PLIM_FOREVER);
    atomic_store(&p->over, 1);
}

/* Its worker counts no more. The other one does: it will run what comes. */
TEST a_done_on_a_worker_that_ends_does_not_count(bool submitted_before)
{
    part *quits = &at.p[0], *runs = &at.p[1], *next = &at.p[2];
    make(3);
    atomic_store(&threads_left, 2);
    quits->job.run = quit_when_told;
    quits->job.done = wait_for_part_1;
    quits->job.detached = true;
    runs->job.run = stay_until_told;
    ASSERT_EQ_FMT(0, bulkhead_submit(&at.b, &quits->job), "%d");
    ASSERT_EQ_FMT(0, bulkhead_submit(&at.b, &runs->job), "%d");
    ASSERT(passes(&runs->came));
    if (submitted_before) {
        ASSERT_EQ_FMT(0, bulkhead_submit(&at.b, &next->job), "%d");
    }
    csem_release(&quits->go);
    ASSERT(is_awaited_by(runs, 1));
    if (!submitted_before) {
        ASSERT_EQ_FMT(0, bulkhead_submit(&at.b, &next->job), "%d");
    }
    csem_release(&runs->go);
    ASSERT(is_over(quits));
    ASSERT_EQ_FMT(0, quits->error, "%d");
    ASSERT(ends_as(next, BULKHEAD_SUCCEEDED));
    ASSERT(strait_ends());
    PASS();
}

static void wait_for_part_2_when_told(bulkhead_job *job)
{
    part *p = job->arg;
    csem_release(&p->came);
    p->error = passes(&p->go) ? bulkhead_wait(&at.p[2].job, PLIM_FOREVER) : -1;
    atomic_store(&p->over, 1);
}

static int wait_for_part_2(bulkhead_job *job)
{
    wait_for_part_2_when_told(job);
    return 0;
}

/* Two threads wait, and one of them is a worker: that is all there are. */
TEST a_done_on_a_worker_that_ends_hides_nobody(void)
{
    part *quits = &at.p[0], *waits = &at.p[1], *other = &at.p[2];
    make(3);
    quits->job.run = quit_when_told;
    quits->job.done = wait_for_part_2_when_told;
    quits->job.detached = true;
    waits->job.run = wait_for_part_2;
    ASSERT_EQ_FMT(0, bulkhead_submit(&at.b, &quits->job), "%d");
    ASSERT_EQ_FMT(0, bulkhead_submit(&at.b, &waits->job), "%d");
    ASSERT(passes(&waits->came));
    ASSERT_EQ_FMT(0, bulkhead_enter(&at.b), "%d");
    csem_release(&quits->go);
    ASSERT(passes(&quits->came));
    ASSERT_EQ_FMT(0, bulkhead_enter(&at.b), "%d"); /* with the permit that this has left */
    scarce();
    ASSERT_EQ_FMT(0, bulkhead_submit(&at.b, &other->job), "%d");
    csem_release(&quits->go);
    csem_release(&waits->go);
    ASSERT(is_awaited_by(other, 2));
    ASSERT_EQ_FMT(0, bulkhead_leave(&at.b), "%d");
    ASSERT(is_over(quits) && is_over(waits));
    ASSERT_EQ_FMT(0, quits->error, "%d");
    ASSERT_EQ_FMT(0, waits->error, "%d");
    ASSERT_EQ_FMT(BULKHEAD_ABORTED, other->job.outcome, "%d");
    ASSERT_EQ_FMT(0, bulkhead_leave(&at.b), "%d");
    ASSERT(strait_ends());
    PASS();
}

static int go_on(bulkhead_job *job)
{
    (void)job;
    return BULKHEAD_LATER;
}

static int finish_part_0(bulkhead_job *job)
{
    part *p = job->arg;
    csem_release(&p->came);
    p->error = passes(&p->go) ? bulkhead_finish(&at.p[0].job, 0) : -1;
    return 0;
}

/* A worker finishes another job, whose done waits. Then its own job is over its time. So it counts
 * once, as stuck, and nobody is left who will run what comes. */
TEST a_worker_that_is_stuck_in_a_finish_counts_once(void)
{
    part *away = &at.p[0], *finishes = &at.p[1], *other = &at.p[2];
    make(3);
    atomic_store(&threads_left, 2); /* a worker, and the supervisor */
    away->job.run = go_on;
    away->job.done = wait_for_part_2_when_told;
    finishes->job.run = finish_part_0;
    finishes->job.run_timeout_ns = PLIM_MS(500); /* the wait begins before that */
    ASSERT_EQ_FMT(0, bulkhead_enter(&at.b), "%d");
    ASSERT_EQ_FMT(0, bulkhead_submit(&at.b, &away->job), "%d");
    ASSERT(EVENTUALLY(bulkhead_snapshot(&at.b).workers_idle == 1));
    csem_release(&away->go);
    csem_release(&finishes->go);
    ASSERT_EQ_FMT(0, bulkhead_submit(&at.b, &finishes->job), "%d");
    ASSERT_EQ_FMT(0, bulkhead_submit(&at.b, &other->job), "%d");
    ASSERT(is_awaited_by(other, 1));
    ASSERT(ends_as(finishes, BULKHEAD_TIMED_OUT));
    ASSERT_EQ_FMT(0, bulkhead_leave(&at.b), "%d");
    ASSERT(ends_as(other, BULKHEAD_ABORTED));
    ASSERT(ends_as(away, BULKHEAD_SUCCEEDED));
    ASSERT_EQ_FMT(0, bulkhead_reclaim(&finishes->job, PLIM_S(PATIENCE_S)), "%d");
    ASSERT_EQ_FMT(0, away->error, "%d");
    ASSERT_EQ_FMT(0, finishes->error, "%d");
    ASSERT(strait_ends());
    PASS();
}

/* The worker has ended, as it had nothing to do, and the next attempt needs one. */
TEST a_finish_ends_a_job_that_cannot_be_tried_again(void)
{
    part *p = &at.p[0];
    make(1);
    atomic_store(&idle_ns, PLIM_US(100));
    p->job.run = go_on;
    p->job.attempts = 2;
    ASSERT_EQ_FMT(0, bulkhead_submit(&at.b, &p->job), "%d");
    ASSERT(EVENTUALLY(bulkhead_snapshot(&at.b).workers == 0));
    scarce();
    ASSERT_EQ_FMT(0, bulkhead_finish(&p->job, 5), "%d");
    ASSERT_EQ_FMT(0, bulkhead_wait(&p->job, 0), "%d");
    ASSERT_EQ_FMT(BULKHEAD_FAILED, p->job.outcome, "%d");
    ASSERT_EQ_FMT(5, p->job.result, "%d");
    ASSERT(strait_ends());
    PASS();
}

/* ---- there was no thread, and then there is ---- */

static void submit_part_1_in_vain(part *p)
{
    scarce();
    p->submitted = bulkhead_submit(&at.b, &at.p[1].job);
    plenty();
    if (at.permits != PLIM_KEEP) {
        p->result = bulkhead_resize(&at.b, at.permits, PLIM_KEEP);
    }
}

static int wait_for_what_was_in_vain(bulkhead_job *job)
{
    part *p = job->arg;
    submit_part_1_in_vain(p);
    p->error = bulkhead_wait(&at.p[1].job, PLIM_FOREVER);
    return 0;
}

static int wait_a_while_for_what_was_in_vain(bulkhead_job *job)
{
    part *p = job->arg;
    submit_part_1_in_vain(p);
    p->error = bulkhead_wait(&at.p[1].job, PLIM_S(PATIENCE_S));
    return 0;
}

static int quit_after_what_was_in_vain(bulkhead_job *job)
{
    submit_part_1_in_vain(job->arg);
    return end_the_thread(NULL);
}

/* The job that is ready has its permit already: the limit is not for it. */
TEST a_wait_gets_a_worker_after_a_shrink(int32_t permits)
{
    make(2);
    at.permits = permits;
    at.p[0].job.run = wait_for_what_was_in_vain;
    ASSERT_EQ_FMT(0, bulkhead_submit(&at.b, &at.p[0].job), "%d");
    ASSERT(ends_as(&at.p[0], BULKHEAD_SUCCEEDED));
    ASSERT_EQ_FMT(0, at.p[0].submitted, "%d");
    ASSERT_EQ_FMT(0, at.p[0].result, "%d");
    ASSERT_EQ_FMT(0, at.p[0].error, "%d");
    ASSERT_EQ_FMT(BULKHEAD_SUCCEEDED, at.p[1].job.outcome, "%d");
    ASSERT(strait_ends());
    PASS();
}

TEST a_job_that_is_ready_gets_a_worker_without_permits(void)
{
    make(2);
    at.permits = PLIM_NONE;
    at.p[0].job.run = quit_after_what_was_in_vain;
    ASSERT_EQ_FMT(0, bulkhead_submit(&at.b, &at.p[0].job), "%d");
    ASSERT(ends_as(&at.p[0], BULKHEAD_FAILED));
    ASSERT_EQ_FMT(0, at.p[0].submitted, "%d");
    ASSERT_EQ_FMT(0, at.p[0].result, "%d");
    ASSERT(ends_as(&at.p[1], BULKHEAD_SUCCEEDED));
    ASSERT(strait_ends());
    PASS();
}

TEST a_wait_with_a_limit_gets_a_worker(int32_t permits)
{
    make(2);
    at.permits = permits;
    at.p[0].job.run = wait_a_while_for_what_was_in_vain;
    ASSERT_EQ_FMT(0, bulkhead_submit(&at.b, &at.p[0].job), "%d");
    ASSERT(ends_as(&at.p[0], BULKHEAD_SUCCEEDED));
    ASSERT_EQ_FMT(0, at.p[0].submitted, "%d");
    ASSERT_EQ_FMT(0, at.p[0].error, "%d");
    ASSERT_EQ_FMT(BULKHEAD_SUCCEEDED, at.p[1].job.outcome, "%d");
    ASSERT(strait_ends());
    PASS();
}

SUITE(bulkhead_shortage)
{
    SET_SETUP(set_the_strait, NULL);
    SET_TEARDOWN(clear_the_strait, NULL);
    RUN_TEST(a_call_that_is_stuck_cannot_rely_on_its_caller);
    RUN_TEST(a_job_that_is_stuck_cannot_rely_on_who_reclaims_it);
    RUN_TESTp(a_done_on_a_worker_that_ends_does_not_count, false);
    RUN_TESTp(a_done_on_a_worker_that_ends_does_not_count, true);
    RUN_TEST(a_done_on_a_worker_that_ends_hides_nobody);
    RUN_TEST(a_worker_that_is_stuck_in_a_finish_counts_once);
    RUN_TEST(a_finish_ends_a_job_that_cannot_be_tried_again);
    RUN_TESTp(a_wait_gets_a_worker_after_a_shrink, 1);
    RUN_TESTp(a_wait_gets_a_worker_after_a_shrink, PLIM_NONE);
    RUN_TEST(a_job_that_is_ready_gets_a_worker_without_permits);
    RUN_TESTp(a_wait_with_a_limit_gets_a_worker, PLIM_KEEP);
    RUN_TESTp(a_wait_with_a_limit_gets_a_worker, 1);
}
