/* SPDX-License-Identifier: MIT
 *
 * Jobs of a sync bulkhead: submit runs them on the thread that calls it.
 */

typedef struct local_job {
    bulkhead_job job;
    uint64_t thread, done_on;
    int runs, fail_until, error;
    uint32_t in_use;
    bulkhead_outcome seen;
} local_job;

static int run_here(bulkhead_job *job)
{
    local_job *h = job->arg;
    h->thread = plim_thread_id_();
    h->in_use = in_use(&on.b);
    h->runs++;
    return h->runs <= h->fail_until ? 10 * h->runs : 0;
}

static void done_here(bulkhead_job *job)
{
    local_job *h = job->arg;
    h->done_on = plim_thread_id_();
    h->seen = job->outcome;
    h->in_use += 10 * in_use(&on.b);
}

static void here_init(local_job *h)
{
    memset((void *)h, 0, sizeof *h);
    h->job.run = run_here;
    h->job.done = done_here;
    h->job.arg = h;
}

TEST a_sync_bulkhead_runs_a_job_on_its_submitter(bool detached)
{
    local_job h;
    here_init(&h);
    h.job.detached = detached;
    ASSERT(make(&on.b, BULKHEAD_SYNC, 1, 0));
    for (int i = 1; i <= 3; i++) {
        ASSERT_INT(0,
                   i == 2 ? bulkhead_submit_for(&on.b, &h.job, 0) : bulkhead_submit(&on.b, &h.job));
        ASSERT_INT(i, h.runs);
        ASSERT_U64(plim_thread_id_(), h.thread);
        ASSERT_U64(plim_thread_id_(), h.done_on);
        ASSERT_INT(BULKHEAD_SUCCEEDED, h.seen);
        ASSERT_INT(detached ? 1 : 11, h.in_use); /* done has the permit, if it is part of the job */
        ASSERT_INT(detached ? EINVAL : 0, bulkhead_wait(&h.job, PLIM_FOREVER));
        ASSERT_INT(detached ? EINVAL : 0, bulkhead_reclaim(&h.job, PLIM_FOREVER));
        ASSERT_INT(EALREADY, bulkhead_cancel(&on.b, &h.job));
    }
    ASSERT_U64(3, bulkhead_snapshot(&on.b).succeeded);
    ASSERT_INT(0, bulkhead_snapshot(&on.b).workers);
    ENDS_WELL();
}

TEST a_job_of_a_sync_bulkhead_is_tried_again(uint32_t attempts, int64_t delay_ns)
{
    local_job h;
    here_init(&h);
    h.fail_until = 2;
    bulkhead_options options = {.attempts = attempts, .retry_delay_ns = delay_ns};
    ASSERT_INT(0, make_with(&on.b, &options));
    int64_t before = plim_now_();
    ASSERT_INT(0, bulkhead_submit(&on.b, &h.job));
    ASSERT(plim_now_() - before >= 3 * delay_ns * (attempts == 3)); /* once, and twice as long */
    ASSERT_INT(attempts, h.runs);
    ASSERT_INT(attempts, h.job.attempt);
    ASSERT_INT(attempts == 3 ? BULKHEAD_SUCCEEDED : BULKHEAD_FAILED, h.seen);
    ASSERT_INT(attempts == 3 ? 0 : 20, h.job.result);
    ASSERT_U64(attempts - 1, bulkhead_snapshot(&on.b).retried);
    ENDS_WELL();
}

static int take_too_long(bulkhead_job *job)
{
    (void)job;
    rest(PLIM_MS(3)); /* longer than its time, by the real clock: a bulkhead has no other */
    return 5;
}

TEST times_of_a_job_hold_on_a_sync_bulkhead(void)
{
    ASSERT(make(&on.b, BULKHEAD_SYNC, 1, 0));
    on.job[0] = (bulkhead_job){.run = take_too_long, .run_timeout_ns = PLIM_MS(1)};
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.job[0]));
    ASSERT_INT(BULKHEAD_TIMED_OUT, on.job[0].outcome);
    ASSERT_INT(0, on.job[0].result);
    on.job[1] = (bulkhead_job){.run = run_nothing, .run_timeout_ns = PLIM_S(1000)};
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.job[1]));
    ASSERT_INT(BULKHEAD_SUCCEEDED, on.job[1].outcome);
    ASSERT_INT(0, bulkhead_reclaim(&on.job[0], 0));
    local_job h;
    here_init(&h);
    h.job.delay_ns = PLIM_MS(2);
    int64_t before = plim_now_();
    ASSERT_INT(0, bulkhead_submit(&on.b, &h.job));
    ASSERT(plim_now_() - before >= PLIM_MS(2));
    ASSERT_INT(BULKHEAD_SUCCEEDED, h.seen);
    ASSERT_INT(0, bulkhead_enter(&on.b));
    h.job.delay_ns = 0;
    h.job.start_within_ns = PLIM_MS(1);
    ASSERT_INT(0, bulkhead_submit_for(&on.b, &h.job, PLIM_S(1000))); /* has had its chance */
    ASSERT_INT(BULKHEAD_EXPIRED, h.seen);
    ASSERT_INT(1, h.runs);
    local_job gone;
    here_init(&gone);
    gone.job.start_within_ns = PLIM_MS(1);
    gone.job.detached = true;
    ASSERT_INT(0, bulkhead_submit_for(&on.b, &gone.job, PLIM_S(1000)));
    ASSERT_INT(BULKHEAD_EXPIRED, gone.seen);
    ASSERT_INT(ETIMEDOUT, bulkhead_submit_for(&on.b, &h.job, PLIM_US(500)));
    ASSERT_INT(BULKHEAD_EXPIRED, h.job.outcome); /* refused: as before */
    ASSERT_INT(0, bulkhead_leave(&on.b));
    bulkhead_stats s = bulkhead_snapshot(&on.b);
    ASSERT_U64(1, s.timed_out);
    ASSERT_U64(2, s.expired);
    ASSERT_U64(1, s.rejected);
    ENDS_UNCOUNTED();
}

TEST a_sync_bulkhead_bounds_its_jobs(void)
{
    bulkhead_job *job = &on.g[2].job, before;
    ASSERT(make(&on.b, BULKHEAD_SYNC, 1, 1));
    on.c[0].call = on.c[1].call = SUBMIT;
    on.c[0].gate = &on.g[0];
    on.c[1].gate = &on.g[1];
    start_call(&on.c[0]);
    ASSERT(has_entered(&on.g[0]));
    ASSERT_INT(EBUSY, bulkhead_submit(&on.b, &on.g[0].job));
    ASSERT_INT(EBUSY, bulkhead_cancel(&on.b, &on.g[0].job)); /* it runs */
    ASSERT(bulkhead_job_cancelled(&on.g[0].job));
    ASSERT_INT(ETIMEDOUT, bulkhead_wait(&on.g[0].job, PLIM_MS(1)));
    ASSERT(queue_up(&on.c[1], 1));
    ASSERT_FIGURES(&on.b, 1, 1);
    memcpy((void *)&before, (void *)job, sizeof before);
    ASSERT_INT(EAGAIN, bulkhead_submit(&on.b, job));
    ASSERT_INT(ETIMEDOUT, bulkhead_submit_for(&on.b, job, 0));
    ASSERT_INT(0, memcmp((void *)&before, (void *)job, sizeof before));
    ASSERT_INT(0, atomic_load(&on.g[1].runs));
    let_all_go(on.g, 2);
    ASSERT_INT(0, bulkhead_wait(&on.g[0].job, PLIM_S(PATIENCE_S)));
    join_calls(on.c, 2);
    ASSERT_INT(0, on.c[0].error);
    ASSERT_INT(0, on.c[1].error);
    ASSERT_INT(1, atomic_load(&on.g[1].dones));
    ENDS_WELL();
}

static int wait_for_oneself(bulkhead_job *job)
{
    local_job *h = job->arg;
    bulkhead_job inner = {.run = run_nothing};
    h->error = (bulkhead_enter(&on.b) != EDEADLK) + (bulkhead_submit(&on.b, &inner) != EDEADLK) +
               (bulkhead_wait(job, PLIM_FOREVER) != EDEADLK) +
               (bulkhead_close(&on.b, BULKHEAD_DRAIN, PLIM_FOREVER) != EDEADLK);
    return 0;
}

TEST a_job_of_a_sync_bulkhead_that_waits_for_itself_is_told(void)
{
    local_job h;
    here_init(&h);
    h.job.run = wait_for_oneself;
    ASSERT(make(&on.b, BULKHEAD_SYNC, 1, 0));
    ASSERT_INT(0, bulkhead_submit(&on.b, &h.job));
    ASSERT_INT(0, h.error);
    ENDS_WELL();
}

/* A drain lets the attempts of what was accepted go on, an abort does not. */
TEST a_close_and_the_attempts_of_a_sync_job(int how)
{
    ASSERT(make(&on.b, BULKHEAD_SYNC, 1, 0));
    on.g[0].job.attempts = 3;
    on.g[0].result = EIO;
    on.c[0].call = SUBMIT;
    on.c[0].gate = &on.g[0];
    start_call(&on.c[0]);
    ASSERT(has_entered(&on.g[0]));
    ASSERT_INT(ETIMEDOUT, bulkhead_close(&on.b, how, 0));
    ASSERT_INT(how == BULKHEAD_ABORT, bulkhead_job_cancelled(&on.g[0].job));
    csem_release_n(&on.g[0].exit, 3);
    join_calls(on.c, 1);
    ASSERT_INT(0, on.c[0].error);
    ASSERT_INT(how == BULKHEAD_ABORT ? 1 : 3, atomic_load(&on.g[0].runs));
    ASSERT_INT(BULKHEAD_FAILED, on.g[0].job.outcome);
    ASSERT_INT(EIO, on.g[0].job.result);
    ASSERT_INT(ESHUTDOWN, bulkhead_submit(&on.b, &on.g[1].job));
    ENDS_WELL();
}

/* A thread holds nothing when its submit has returned. */
TEST a_sync_submit_leaves_nothing_behind(void)
{
    ASSERT(make(&on.b, BULKHEAD_SYNC, 1, 0));
    on.job[0] = (bulkhead_job){.run = run_nothing};
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.job[0]));
    ASSERT_INT(0, bulkhead_wait_idle(&on.b, PLIM_FOREVER));
    ASSERT_INT(0, bulkhead_close(&on.b, BULKHEAD_DRAIN, PLIM_FOREVER));
    ENDS_WELL();
}

static int fail_here(bulkhead_job *job)
{
    (void)job;
    return EIO;
}

static plim_thread_result submit_and_fail(void *arg)
{
    crowd *c = ((member *)arg)->crowd;
    wait_for_go(c);
    for (int i = 0; i < c->rounds; i++) {
        bulkhead_job job = {.run = fail_here, .attempts = 3};
        bool right = bulkhead_submit(&on.b, &job) == 0 && job.attempt == 3 &&
                     job.outcome == BULKHEAD_FAILED && job.result == EIO;
        atomic_fetch_add(&c->wrong, !right);
    }
    return 0;
}

TEST sync_jobs_of_many_threads_all_get_their_attempts(void)
{
    ASSERT(make(&on.b, BULKHEAD_SYNC, 1, 0));
    on.crowd.rounds = scaled(1000);
    gather(3, submit_and_fail);
    disperse();
    ASSERT_INT(0, atomic_load(&on.crowd.wrong));
    ENDS_WELL();
}

/* It is closed, or cancelled, when the job has its permit, and the body has not begun. */
static struct {
    int how, error;
} stopper;

static void stop_it(void *user, const bulkhead_event *event)
{
    (void)user;
    if (event->type == BULKHEAD_EVENT_ACCEPTED) {
        stopper.error = stopper.how == BY_CANCEL
                            ? bulkhead_cancel(&on.b, (bulkhead_job *)(uintptr_t)event->job)
                            : bulkhead_close(&on.b, BULKHEAD_ABORT, 0);
    }
}

TEST what_stops_a_sync_job_in_time_stops_it(int how, bulkhead_outcome outcome, int error)
{
    local_job h;
    here_init(&h);
    stopper.how = how;
    bulkhead_options options = {.on_event = stop_it};
    ASSERT_INT(0, make_with(&on.b, &options));
    ASSERT_INT(0, bulkhead_submit(&on.b, &h.job));
    ASSERT_INT(error, stopper.error);
    ASSERT_INT(outcome, h.seen);
    ASSERT_INT(0, h.runs);
    ENDS_WELL();
}

/* While it waits for its next attempt, or its first: nobody waits for that time to pass. */
TEST a_sync_job_that_waits_for_its_time_can_be_stopped(int how)
{
    bulkhead_options options = {.attempts = 2, .retry_delay_ns = PLIM_S(1000)};
    options.retry_delay_max_ns = PLIM_S(2000);
    ASSERT_INT(0, make_with(&on.b, &options));
    on.g[0].result = EIO;
    on.c[0].call = SUBMIT;
    on.c[0].gate = &on.g[0];
    start_call(&on.c[0]);
    ASSERT(has_entered(&on.g[0]));
    let_go(&on.g[0]);
    ASSERT(EVENTUALLY(waiters(&on.b.resting) == 1));
    ASSERT_INT(ETIMEDOUT, bulkhead_wait_idle(&on.b, PLIM_MS(1))); /* it is not over */
    if (how == BY_CANCEL) {
        ASSERT_INT(EBUSY, bulkhead_cancel(&on.b, &on.g[0].job));
    } else {
        ASSERT_INT(ETIMEDOUT, bulkhead_close(&on.b, BULKHEAD_DRAIN, 0));
        ASSERT(EVENTUALLY(waiters(&on.b.resting) == 1)); /* it rests on */
        ASSERT_INT(0, bulkhead_close(&on.b, BULKHEAD_ABORT, PLIM_S(PATIENCE_S)));
    }
    join_calls(on.c, 1);
    ASSERT_INT(0, on.c[0].error);
    ASSERT_INT(BULKHEAD_FAILED, on.g[0].job.outcome);
    ASSERT_INT(1, atomic_load(&on.g[0].runs));
    ENDS_WELL();
}

TEST the_delay_of_a_sync_job_ends_with_a_close(bool before)
{
    ASSERT(make(&on.b, BULKHEAD_SYNC, 1, 0));
    on.g[0].job.delay_ns = PLIM_S(1000);
    on.c[0].call = SUBMIT;
    on.c[0].gate = &on.g[0];
    if (!before) {
        start_call(&on.c[0]);
        ASSERT(EVENTUALLY(waiters(&on.b.resting) == 1));
        ASSERT_INT(ETIMEDOUT, bulkhead_wait_idle(&on.b, 0));
    }
    int error = bulkhead_close(&on.b, BULKHEAD_DRAIN, before ? PLIM_S(PATIENCE_S) : 0);
    ASSERT(error == 0 || (!before && error == ETIMEDOUT));
    if (before) {
        start_call(&on.c[0]);
    }
    join_calls(on.c, 1);
    ASSERT_INT(ESHUTDOWN, on.c[0].error);
    ASSERT_INT(0, atomic_load(&on.g[0].dones));
    ENDS_WELL();
}

/* It has not been let in when a drain begins, and expires: nobody waits for it then. */
TEST a_sync_job_that_expires_while_draining_is_refused(void)
{
    ASSERT(make(&on.b, BULKHEAD_SYNC, 1, 0));
    ASSERT_INT(0, bulkhead_enter(&on.b));
    on.g[0].job.start_within_ns = PLIM_MS(50);
    on.c[0].call = SUBMIT;
    on.c[0].gate = &on.g[0];
    ASSERT(queue_up(on.c, 1));
    ASSERT_INT(ETIMEDOUT, bulkhead_close(&on.b, BULKHEAD_DRAIN, 0));
    join_calls(on.c, 1);
    ASSERT_INT(ESHUTDOWN, on.c[0].error);
    ASSERT_INT(0, atomic_load(&on.g[0].dones));
    ASSERT_INT(0, bulkhead_leave(&on.b));
    ENDS_UNCOUNTED();
}

TEST a_sync_submit_waits_as_its_options_say(int64_t timeout_ns, int error)
{
    bulkhead_options options = {.timeout_ns = timeout_ns};
    ASSERT_INT(0, make_with(&on.b, &options));
    ASSERT_INT(0, bulkhead_enter(&on.b));
    on.job[0] = (bulkhead_job){.run = run_nothing};
    ASSERT_INT(error, bulkhead_submit(&on.b, &on.job[0]));
    ASSERT_INT(0, bulkhead_leave(&on.b));
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.job[0]));
    ENDS_UNCOUNTED();
}

static void note_type(void *user, const bulkhead_event *event)
{
    *(bulkhead_event_type *)user = event->type;
}

TEST a_sync_job_that_takes_too_long_is_told_so(void)
{
    bulkhead_event_type last = BULKHEAD_EVENT_RESIZED;
    bulkhead_options options = {.on_event = note_type, .user = &last};
    ASSERT_INT(0, make_with(&on.b, &options));
    on.job[0] = (bulkhead_job){.run = take_too_long, .run_timeout_ns = PLIM_MS(1)};
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.job[0]));
    ASSERT_INT(BULKHEAD_EVENT_TIMED_OUT, last);
    ENDS_WELL();
}

/* Its done has the permit, and is told so. */
static void enter_in_done(bulkhead_job *job)
{
    local_job *h = job->arg;
    h->error = bulkhead_enter_for(&on.b, PLIM_S(1000));
}

TEST the_done_of_a_sync_job_that_waits_for_its_permit_is_told(void)
{
    local_job h;
    here_init(&h);
    h.job.done = enter_in_done;
    ASSERT(make(&on.b, BULKHEAD_SYNC, 1, 0));
    ASSERT_INT(0, bulkhead_submit(&on.b, &h.job));
    ASSERT_INT(EDEADLK, h.error);
    ENDS_WELL();
}

TEST events_tell_the_story_of_a_sync_job(void)
{
    static recorder r;
    memset((void *)&r, 0, sizeof r);
    bulkhead_options options = {.attempts = 2, .on_event = record, .user = &r};
    static const bulkhead_event_type types[] = {BULKHEAD_EVENT_ACCEPTED, BULKHEAD_EVENT_STARTED,
                                                BULKHEAD_EVENT_RETRIED, BULKHEAD_EVENT_STARTED,
                                                BULKHEAD_EVENT_FINISHED};
    local_job h;
    here_init(&h);
    h.fail_until = 1;
    ASSERT_INT(0, make_with(&on.b, &options));
    ASSERT_INT(0, bulkhead_submit(&on.b, &h.job));
    ASSERT_INT(5, atomic_load(&r.n));
    for (int i = 0; i < 5; i++) {
        ASSERT_INT(types[i], r.events[i].type);
        ASSERT(r.events[i].job == &h.job && r.events[i].arg == &h);
    }
    ENDS_WELL();
}

/* On the thread of the submitter, between two attempts: takes the permit. */
static void enter_between(void *user, const bulkhead_event *event)
{
    (void)user;
    if (event->type == BULKHEAD_EVENT_RETRIED) {
        atomic_store(&on.let_in, 1 + bulkhead_try_enter(&on.b));
    }
}

/* Whatever on_event hears of a job on its submitter's thread, the job cannot end before it returns. */
typedef struct waits_in_event {
    bulkhead_event_type type;
    int heard, of_the_job, for_quiet, of_the_whole;
} waits_in_event;

static void wait_in_event(void *user, const bulkhead_event *event)
{
    waits_in_event *w = user;
    if (event->type == w->type && w->heard++ == 0) {
        w->of_the_job = bulkhead_wait(&on.job[0], PLIM_S(1000));
        w->for_quiet = bulkhead_wait_idle(&on.b, PLIM_S(1000));
        w->of_the_whole = bulkhead_close(&on.b, BULKHEAD_DRAIN, PLIM_S(1000));
    }
}

TEST a_wait_in_an_event_of_a_sync_job_is_told(bulkhead_event_type type)
{
    local_job h;
    waits_in_event w = {.type = type};
    bulkhead_options options = {.attempts = 2, .on_event = wait_in_event, .user = &w};
    here_init(&h);
    h.fail_until = 1;
    on.job[0] = (bulkhead_job){.run = run_here, .arg = &h};
    ASSERT_INT(0, make_with(&on.b, &options));
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.job[0]));
    ASSERT_INT(BULKHEAD_SUCCEEDED, on.job[0].outcome);
    ASSERT_INT(2, h.runs);
    ASSERT(w.heard > 0);
    ASSERT_INT(EDEADLK, w.of_the_job);
    ASSERT_INT(EDEADLK, w.for_quiet);
    ASSERT_INT(EDEADLK, w.of_the_whole);
    ENDS_WELL();
}

TEST a_sync_job_whose_next_attempt_can_never_begin_fails(void)
{
    local_job h;
    here_init(&h);
    h.fail_until = 2;
    bulkhead_options options = {.attempts = 3, .on_event = enter_between};
    ASSERT_INT(0, make_with(&on.b, &options));
    ASSERT_INT(0, bulkhead_submit(&on.b, &h.job));
    ASSERT_INT(1, atomic_load(&on.let_in));
    ASSERT_INT(1, h.runs);
    ASSERT_INT(BULKHEAD_FAILED, h.seen);
    ASSERT_INT(10, h.job.result);
    ASSERT_U64(1, bulkhead_snapshot(&on.b).in_use);
    ASSERT_INT(0, bulkhead_leave(&on.b));
    ENDS_WELL();
}

SUITE(sync_suite)
{
    SET_SETUP(set_the_stage, NULL);
    SET_TEARDOWN(clear_the_stage, NULL);
    RUN_TESTp(a_sync_bulkhead_runs_a_job_on_its_submitter, false);
    RUN_TESTp(a_sync_bulkhead_runs_a_job_on_its_submitter, true);
    RUN_TESTp(a_job_of_a_sync_bulkhead_is_tried_again, 3, 0);
    RUN_TESTp(a_job_of_a_sync_bulkhead_is_tried_again, 3, PLIM_MS(1));
    RUN_TESTp(a_job_of_a_sync_bulkhead_is_tried_again, 2, 0);
    RUN_TEST(times_of_a_job_hold_on_a_sync_bulkhead);
    RUN_TEST(a_sync_bulkhead_bounds_its_jobs);
    RUN_TEST(a_job_of_a_sync_bulkhead_that_waits_for_itself_is_told);
    RUN_TESTp(a_close_and_the_attempts_of_a_sync_job, BULKHEAD_DRAIN);
    RUN_TESTp(a_close_and_the_attempts_of_a_sync_job, BULKHEAD_ABORT);
    RUN_TEST(a_sync_submit_leaves_nothing_behind);
    RUN_TEST(sync_jobs_of_many_threads_all_get_their_attempts);
    RUN_TESTp(what_stops_a_sync_job_in_time_stops_it, BY_CANCEL, BULKHEAD_CANCELLED, EBUSY);
    RUN_TESTp(what_stops_a_sync_job_in_time_stops_it, BY_END, BULKHEAD_ABORTED, ETIMEDOUT);
    RUN_TESTp(a_sync_job_that_waits_for_its_time_can_be_stopped, BY_CANCEL);
    RUN_TESTp(a_sync_job_that_waits_for_its_time_can_be_stopped, BY_END);
    RUN_TESTp(the_delay_of_a_sync_job_ends_with_a_close, false);
    RUN_TESTp(the_delay_of_a_sync_job_ends_with_a_close, true);
    RUN_TEST(a_sync_job_that_expires_while_draining_is_refused);
    RUN_TESTp(a_sync_submit_waits_as_its_options_say, PLIM_NONE, EAGAIN);
    RUN_TESTp(a_sync_submit_waits_as_its_options_say, PLIM_MS(1), ETIMEDOUT);
    RUN_TEST(a_sync_job_that_takes_too_long_is_told_so);
    RUN_TEST(the_done_of_a_sync_job_that_waits_for_its_permit_is_told);
    RUN_TEST(events_tell_the_story_of_a_sync_job);
    RUN_TESTp(a_wait_in_an_event_of_a_sync_job_is_told, BULKHEAD_EVENT_ACCEPTED);
    RUN_TESTp(a_wait_in_an_event_of_a_sync_job_is_told, BULKHEAD_EVENT_STARTED);
    RUN_TESTp(a_wait_in_an_event_of_a_sync_job_is_told, BULKHEAD_EVENT_RETRIED);
    RUN_TESTp(a_wait_in_an_event_of_a_sync_job_is_told, BULKHEAD_EVENT_FINISHED);
    RUN_TEST(a_sync_job_whose_next_attempt_can_never_begin_fails);
}
