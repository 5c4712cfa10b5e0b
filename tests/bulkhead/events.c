/* SPDX-License-Identifier: MIT
 *
 * Events: what a listener gets, and what it may do.
 */

typedef struct recorder {
    atomic_int n;
    bulkhead_event events[128];
} recorder;

static void record(void *user, const bulkhead_event *event)
{
    recorder *r = user;
    int n = atomic_fetch_add(&r->n, 1);
    if (n < 128) {
        r->events[n] = *event;
    }
    /* It is under no lock: this would hang otherwise. */
    (void)bulkhead_snapshot(&on.b);
}

/* How many events of a type there are for a job; the last of them in *found. */
static int events_of(recorder *r, bulkhead_event_type type, const bulkhead_job *job,
                     bulkhead_event *found)
{
    int n = 0;
    for (int i = 0; i < atomic_load(&r->n) && i < 128; i++) {
        if (r->events[i].type == type && r->events[i].job == job) {
            *found = r->events[i];
            n++;
        }
    }
    return n;
}

TEST events_tell_the_story_of_a_job(void)
{
    static recorder r;
    memset((void *)&r, 0, sizeof r);
    bulkhead_options options = {
        .type = BULKHEAD_ASYNC, .attempts = 3, .on_event = record, .user = &r};
    ASSERT_INT(0, make_with(&on.b, &options));
    on.t[0].fail_until = 2;
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.t[0].job));
    ASSERT_INT(0, bulkhead_wait(&on.t[0].job, PLIM_S(PATIENCE_S)));
    ASSERT_ENDS_WELL();
    /* All but ACCEPTED come from the one worker, in this order. */
    static const bulkhead_event_type types[] = {BULKHEAD_EVENT_STARTED, BULKHEAD_EVENT_RETRIED,
                                                BULKHEAD_EVENT_STARTED, BULKHEAD_EVENT_RETRIED,
                                                BULKHEAD_EVENT_STARTED, BULKHEAD_EVENT_FINISHED};
    static const uint32_t attempts[] = {1, 1, 2, 2, 3, 3};
    static const int results[] = {0, 10, 0, 20, 0, 0};
    int at = 0, accepted = 0;
    for (int i = 0; i < atomic_load(&r.n); i++) {
        ASSERT(r.events[i].job == &on.t[0].job);
        ASSERT(r.events[i].arg == &on.t[0]);
        if (r.events[i].type == BULKHEAD_EVENT_ACCEPTED) {
            accepted++;
            continue;
        }
        ASSERT(at < 6);
        ASSERT_INT(types[at], r.events[i].type);
        ASSERT_INT(attempts[at], r.events[i].attempt);
        if (types[at] != BULKHEAD_EVENT_STARTED) {
            ASSERT_INT(results[at], r.events[i].result);
        }
        at++;
    }
    ASSERT_INT(6, at);
    ASSERT_INT(1, accepted);
    bulkhead_event e;
    ASSERT_INT(1, events_of(&r, BULKHEAD_EVENT_FINISHED, &on.t[0].job, &e));
    ASSERT_INT(BULKHEAD_SUCCEEDED, e.outcome);
    PASS();
}

TEST events_tell_of_every_end_and_refusal(void)
{
    static recorder r;
    memset((void *)&r, 0, sizeof r);
    bulkhead_options options = {.type = BULKHEAD_ASYNC, .queue = 2, .on_event = record, .user = &r};
    ASSERT_INT(0, make_with(&on.b, &options));
    on.g[0].job.run_timeout_ns = PLIM_MS(3);
    on.g[1].job.start_within_ns = PLIM_MS(1);
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[0].job));
    ASSERT(has_entered(&on.g[0]));
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[1].job));
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[2].job));
    ASSERT_INT(EAGAIN, bulkhead_try_enter(&on.b));
    ASSERT_INT(ETIMEDOUT, bulkhead_enter_for(&on.b, 0));
    ASSERT(is_done(&on.g[0]));
    ASSERT(is_done(&on.g[1]));
    ASSERT_INT(0, bulkhead_cancel(&on.b, &on.g[2].job));
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[3].job));
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[4].job));
    ASSERT_INT(EAGAIN, bulkhead_submit(&on.b, &on.g[5].job));
    ASSERT_INT(0, bulkhead_resize(&on.b, 1, 3));
    ASSERT_INT(ETIMEDOUT, bulkhead_close(&on.b, BULKHEAD_ABORT, 0));
    ASSERT_INT(ESHUTDOWN, bulkhead_enter(&on.b));
    let_all_go(on.g, 6);
    ASSERT_ENDS_WELL();

    bulkhead_event e;
    for (int i = 0; i < 5; i++) {
        ASSERT_INT(1, events_of(&r, BULKHEAD_EVENT_ACCEPTED, &on.g[i].job, &e));
        ASSERT(e.arg == &on.g[i]);
    }
    ASSERT_INT(0, events_of(&r, BULKHEAD_EVENT_ACCEPTED, &on.g[5].job, &e));
    ASSERT_INT(1, events_of(&r, BULKHEAD_EVENT_REJECTED, &on.g[5].job, &e));
    ASSERT_INT(EAGAIN, e.result);
    ASSERT_INT(3, events_of(&r, BULKHEAD_EVENT_REJECTED, NULL, &e));
    ASSERT_INT(ESHUTDOWN, e.result);
    ASSERT_INT(1, events_of(&r, BULKHEAD_EVENT_STARTED, &on.g[0].job, &e));
    ASSERT_INT(1, e.attempt);
    ASSERT_INT(1, events_of(&r, BULKHEAD_EVENT_TIMED_OUT, &on.g[0].job, &e));
    ASSERT_INT(BULKHEAD_TIMED_OUT, e.outcome);
    ASSERT_INT(0, events_of(&r, BULKHEAD_EVENT_FINISHED, &on.g[0].job, &e));
    const bulkhead_outcome outcomes[] = {BULKHEAD_TIMED_OUT, BULKHEAD_EXPIRED, BULKHEAD_CANCELLED,
                                         BULKHEAD_ABORTED, BULKHEAD_ABORTED};
    for (int i = 1; i < 5; i++) {
        ASSERT_INT(1, events_of(&r, BULKHEAD_EVENT_FINISHED, &on.g[i].job, &e));
        ASSERT_INT(outcomes[i], e.outcome);
        ASSERT_INT(0, e.attempt);
        ASSERT_INT(0, e.result);
        ASSERT_INT(0, events_of(&r, BULKHEAD_EVENT_STARTED, &on.g[i].job, &e));
        ASSERT_INT(0, events_of(&r, BULKHEAD_EVENT_TIMED_OUT, &on.g[i].job, &e));
    }
    ASSERT_INT(1, events_of(&r, BULKHEAD_EVENT_RESIZED, NULL, &e));
    PASS();
}

/* A listener that is told of a run timeout, and takes long. */
static struct slow_listener {
    csem go;
    atomic_int told, left, done;
} slow_listener;

static void listen_slowly(void *user, const bulkhead_event *event)
{
    (void)user;
    if (event->type == BULKHEAD_EVENT_TIMED_OUT) {
        atomic_store(&slow_listener.told, 1);
        csem_acquire_for(&slow_listener.go, PLIM_S(PATIENCE_S));
        atomic_store(&slow_listener.left, 1);
    }
}

static void note_done(bulkhead_job *job)
{
    (void)job;
    atomic_store(&slow_listener.done, 1);
}

/* The job has ended before the supervisor has told of it. */
TEST the_end_waits_for_who_hears_of_a_run_timeout(void)
{
    bulkhead_options options = {.type = BULKHEAD_ASYNC, .on_event = listen_slowly};
    memset((void *)&slow_listener, 0, sizeof slow_listener);
    ASSERT_INT(0, csem_init(&slow_listener.go, 0));
    ASSERT_INT(0, make_with(&on.b, &options));
    on.g[0].job.detached = true;
    on.g[0].job.done = note_done;
    on.g[0].job.run_timeout_ns = PLIM_MS(1);
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[0].job));
    ASSERT(has_entered(&on.g[0]));
    ASSERT(EVENTUALLY(atomic_load(&slow_listener.told)));
    let_go(&on.g[0]);
    ASSERT(EVENTUALLY(atomic_load(&slow_listener.done)));
    ASSERT_INT(ETIMEDOUT, bulkhead_wait_idle(&on.b, PLIM_MS(20)));
    ASSERT_INT(ETIMEDOUT, bulkhead_close(&on.b, BULKHEAD_DRAIN, PLIM_MS(20)));
    csem_release(&slow_listener.go);
    ASSERT_INT(0, bulkhead_close(&on.b, BULKHEAD_DRAIN, PLIM_S(PATIENCE_S)));
    ASSERT_INT(1, atomic_load(&slow_listener.left));
    ASSERT_ENDS_WELL();
    PASS();
}

typedef struct meddler {
    int type;
    atomic_int depth, calls, odd;
    bulkhead_job extra;
    atomic_int ran;
} meddler;

/* Does with the bulkhead what one may, while it tells of something. */
static void meddle(void *user, const bulkhead_event *event)
{
    meddler *m = user;
    atomic_fetch_add(&m->calls, 1);
    if (atomic_fetch_add(&m->depth, 1) == 0) {
        int error = bulkhead_try_enter(&on.b);
        if (error == 0) {
            error = bulkhead_leave(&on.b);
        }
        if (error != 0 && error != EAGAIN && error != ESHUTDOWN) {
            atomic_fetch_add(&m->odd, 1);
        }
        error = bulkhead_resize(&on.b, 2, 0);
        if (error != 0) {
            atomic_fetch_add(&m->odd, 1);
        }
        if (m->type == BULKHEAD_ASYNC && event->type == BULKHEAD_EVENT_FINISHED &&
            event->job != &m->extra) {
            error = bulkhead_submit(&on.b, &m->extra);
            if (error != 0 && error != EBUSY && error != ESHUTDOWN) {
                atomic_fetch_add(&m->odd, 1);
            }
        }
        if (bulkhead_cancel(&on.b, &m->extra) == EPERM) {
            atomic_fetch_add(&m->odd, 1);
        }
    }
    atomic_fetch_sub(&m->depth, 1);
}

TEST a_listener_may_call_back(int type)
{
    static meddler m;
    memset((void *)&m, 0, sizeof m);
    m.type = type;
    m.extra.run = run_count;
    m.extra.arg = &m.ran;
    bulkhead_options options = {.type = type, .permits = 2, .on_event = meddle, .user = &m};
    ASSERT_INT(0, make_with(&on.b, &options));
    for (int i = 0; i < 20; i++) {
        ASSERT_INT(0, bulkhead_enter(&on.b));
        ASSERT_INT(0, bulkhead_leave(&on.b));
        ASSERT_INT(0, bulkhead_invoke(&on.b, nothing, NULL, NULL));
    }
    ASSERT(atomic_load(&m.calls) > 0);
    ASSERT_INT(0, atomic_load(&m.odd));
    ENDS_UNCOUNTED();
}

TEST events_of_sync_calls_come_in_order(void)
{
    static recorder r;
    memset((void *)&r, 0, sizeof r);
    bulkhead_options options = {.permits = 2, .on_event = record, .user = &r};
    ASSERT_INT(0, make_with(&on.b, &options));
    ASSERT_INT(0, bulkhead_try_enter(&on.b));
    ASSERT_INT(0, bulkhead_try_enter(&on.b));
    ASSERT_INT(EAGAIN, bulkhead_try_enter(&on.b));
    ASSERT_INT(ETIMEDOUT, bulkhead_enter_for(&on.b, 0));
    ASSERT_INT(0, bulkhead_leave(&on.b));
    ASSERT_INT(0, bulkhead_leave(&on.b));
    ASSERT_INT(0, bulkhead_try_enter(&on.b));
    ASSERT_INT(0, bulkhead_leave(&on.b));
    ASSERT_ENDS_WELL();
    static const bulkhead_event_type types[] = {BULKHEAD_EVENT_ACCEPTED, BULKHEAD_EVENT_ACCEPTED,
                                                BULKHEAD_EVENT_REJECTED, BULKHEAD_EVENT_REJECTED,
                                                BULKHEAD_EVENT_FINISHED, BULKHEAD_EVENT_FINISHED,
                                                BULKHEAD_EVENT_ACCEPTED, BULKHEAD_EVENT_FINISHED};
    ASSERT_INT(8, atomic_load(&r.n));
    for (int i = 0; i < 8; i++) {
        ASSERT(r.events[i].job == NULL);
        ASSERT_INT(types[i], r.events[i].type);
    }
    ASSERT_INT(EAGAIN, r.events[2].result);
    ASSERT_INT(ETIMEDOUT, r.events[3].result);
    PASS();
}

/* on_event is told of an attempt that will be followed by another, and waits. Meanwhile that other
 * attempt ends the job, whose memory is then used for something else. */
static struct patient_listener {
    csem told, go;
    bulkhead_job *awaits;
    int error;
} listener;

static void wait_when_retried(void *user, const bulkhead_event *event)
{
    (void)user;
    if (event->type == BULKHEAD_EVENT_RETRIED) {
        csem_release(&listener.told);
        csem_acquire(&listener.go);
        listener.error = bulkhead_wait(listener.awaits, PLIM_FOREVER);
    }
}

TEST a_listener_that_waits_touches_no_job_that_is_gone(bool on_executor)
{
    plim_executor executor = {pool_execute, &hands};
    bulkhead_options options = {
        .type = BULKHEAD_ASYNC, .permits = 2, .attempts = 2, .on_event = wait_when_retried};
    bulkhead_job gone;
    csem_init(&listener.told, 0);
    csem_init(&listener.go, 0);
    listener.awaits = &on.g[0].job;
    listener.error = -1;
    if (on_executor) {
        options.executor = &executor;
        for (int i = 0; i < 2; i++) {
            start(&hands.threads[hands.n++], pool_thread, &hands);
        }
    }
    ASSERT_INT(0, make_with(&on.b, &options));
    on.t[0].fail_until = 1;
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.t[0].job));
    ASSERT_INT(0, csem_acquire_for(&listener.told, PLIM_S(PATIENCE_S)));
    ASSERT_INT(0, bulkhead_wait(&on.t[0].job, PLIM_S(PATIENCE_S))); /* by the other thread */
    memset((void *)&on.t[0].job, 0xa5, sizeof gone);
    memcpy((void *)&gone, (void *)&on.t[0].job, sizeof gone);
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[0].job));
    ASSERT(has_entered(&on.g[0]));
    csem_release(&listener.go);
    /* It waits: what it has left behind then would be seen now. */
    ASSERT(EVENTUALLY(waiters_of(&on.g[0].job) == 1));
    ASSERT_INT(0, memcmp((void *)&gone, (void *)&on.t[0].job, sizeof gone));
    let_go(&on.g[0]);
    ASSERT_INT(0, bulkhead_wait_idle(&on.b, PLIM_S(PATIENCE_S)));
    ASSERT_INT(0, memcmp((void *)&gone, (void *)&on.t[0].job, sizeof gone));
    ASSERT_INT(0, listener.error);
    memset((void *)&on.t[0], 0, sizeof on.t[0]);
    ENDS_WELL();
}

/* Calls and the work of others are jobs inside, which is nobody's business. */
static void no_work(void *arg)
{
    (void)arg;
}

TEST events_of_calls_and_of_others_work_name_no_job(void)
{
    static recorder r;
    int mark = 0;
    memset((void *)&r, 0, sizeof r);
    bulkhead_options options = {
        .type = BULKHEAD_ASYNC, .on_event = record, .user = &r, .queue = PLIM_NONE};
    ASSERT_INT(0, make_with(&on.b, &options));
    plim_executor executor = bulkhead_executor(&on.b);
    ASSERT_INT(0, bulkhead_invoke(&on.b, nothing, &mark, NULL));
    ASSERT_INT(0, bulkhead_wait_idle(&on.b, PLIM_S(PATIENCE_S)));
    ASSERT_INT(3, atomic_load(&r.n)); /* accepted, started, finished */
    for (int i = 0; i < 3; i++) {
        ASSERT(r.events[i].job == NULL && r.events[i].arg == NULL);
    }
    ASSERT_INT(0, executor.execute(executor.ctx, no_work, &mark));
    ASSERT_INT(0, bulkhead_wait_idle(&on.b, PLIM_S(PATIENCE_S)));
    ASSERT_INT(0, bulkhead_enter(&on.b));                               /* 7 */
    ASSERT_INT(EAGAIN, executor.execute(executor.ctx, no_work, &mark)); /* 8: rejected */
    ASSERT_INT(8, atomic_load(&r.n));
    for (int i = 3; i < 8; i++) {
        ASSERT(r.events[i].job == NULL);
        ASSERT(r.events[i].arg == (i == 6 ? NULL : &mark));
    }
    ASSERT_INT(0, bulkhead_leave(&on.b));
    ENDS_UNCOUNTED();
}

TEST a_call_that_fails_is_told_and_counted(void)
{
    static recorder r;
    bulkhead_event e;
    int given = 7, result = 0;
    memset((void *)&r, 0, sizeof r);
    bulkhead_options options = {.on_event = record, .user = &r, .flags = BULKHEAD_STATS};
    ASSERT_INT(0, make_with(&on.b, &options));
    ASSERT_INT(0, bulkhead_invoke(&on.b, give, &given, &result));
    ASSERT_INT(7, result);
    ASSERT_INT(1, events_of(&r, BULKHEAD_EVENT_FINISHED, NULL, &e));
    ASSERT_INT(BULKHEAD_FAILED, e.outcome);
    ASSERT_INT(7, e.result);
    ASSERT_U64(1, bulkhead_snapshot(&on.b).failed);
    ASSERT_U64(0, bulkhead_snapshot(&on.b).succeeded);
    ENDS_WELL();
}

SUITE(events_suite)
{
    SET_SETUP(set_the_hands, NULL);
    SET_TEARDOWN(clear_the_hands, NULL);
    RUN_TESTp(a_listener_that_waits_touches_no_job_that_is_gone, false);
    RUN_TESTp(a_listener_that_waits_touches_no_job_that_is_gone, true);
    RUN_TEST(events_of_calls_and_of_others_work_name_no_job);
    RUN_TEST(events_tell_the_story_of_a_job);
    RUN_TEST(events_tell_of_every_end_and_refusal);
    RUN_TEST(the_end_waits_for_who_hears_of_a_run_timeout);
    RUN_TESTp(a_listener_may_call_back, BULKHEAD_SYNC);
    RUN_TESTp(a_listener_may_call_back, BULKHEAD_ASYNC);
    RUN_TEST(events_of_sync_calls_come_in_order);
    RUN_TEST(a_call_that_fails_is_told_and_counted);
}
