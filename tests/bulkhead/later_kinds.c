/* SPDX-License-Identifier: MIT
 *
 * bulkhead_finish with events, with resources of workers, on a sync bulkhead, and after a shrink.
 * The jobs are those of later.c.
 */

static void note_last_types(void *user, const bulkhead_event *event)
{
    told_of *t = user;
    atomic_store(&t->types, atomic_load(&t->types) * 10 + (int)event->type);
    atomic_fetch_add(&t->count, 1);
}

TEST events_tell_of_the_end_at_finish(bool executor)
{
    parted p;
    told_of t = {0, 0};
    parted_init(&p);
    ASSERT(make_either((bulkhead_options){.on_event = note_last_types, .user = &t}, executor));
    ASSERT_INT(0, bulkhead_submit(&on.b, &p.job));
    ASSERT(goes_away(&p));
    ASSERT(EVENTUALLY(atomic_load(&t.count) == 2)); /* accepted, started: in either order */
    ASSERT_INT(0, bulkhead_finish(&p.job, 0));
    ASSERT_INT(3, atomic_load(&t.count));
    ASSERT_INT(BULKHEAD_EVENT_FINISHED, atomic_load(&t.types) % 10);
    return ends_either(executor);
}

static int make_resource(void *user, unsigned index, void **resource)
{
    (void)index;
    atomic_fetch_add((atomic_int *)user, 1);
    *resource = user;
    return 0;
}

static int part_and_renew(bulkhead_job *job)
{
    bulkhead_job_renew(job);
    return run_parted(job);
}

TEST a_resource_is_renewed_when_run_has_returned(void)
{
    parted p;
    atomic_int made;
    atomic_init(&made, 0);
    parted_init(&p);
    p.job.run = part_and_renew;
    bulkhead_options options = {
        .type = BULKHEAD_ASYNC, .worker_start = make_resource, .user = &made};
    ASSERT_INT(0, make_with(&on.b, &options));
    ASSERT_INT(0, bulkhead_submit(&on.b, &p.job));
    ASSERT(goes_away(&p));
    ASSERT(EVENTUALLY(atomic_load(&made) == 2)); /* the job goes on */
    ASSERT(EVENTUALLY(bulkhead_snapshot(&on.b).workers_idle == 1));
    ASSERT_INT(0, bulkhead_finish(&p.job, 0));
    ASSERT_INT(BULKHEAD_SUCCEEDED, p.job.outcome);
    ENDS_WELL();
}

static int make_the_first(void *user, unsigned index, void **resource)
{
    (void)index;
    *resource = user;
    return atomic_fetch_add((atomic_int *)user, 1) == 0 ? 0 : EIO;
}

/* Its worker tries in vain to make another, and a close does not wait for that. */
TEST a_resource_that_cannot_be_renewed_keeps_no_close(void)
{
    parted p;
    atomic_int tries;
    atomic_init(&tries, 0);
    parted_init(&p);
    p.job.run = part_and_renew;
    bulkhead_options options = {
        .type = BULKHEAD_ASYNC, .worker_start = make_the_first, .user = &tries};
    ASSERT_INT(0, make_with(&on.b, &options));
    ASSERT_INT(0, bulkhead_submit(&on.b, &p.job));
    ASSERT(goes_away(&p));
    ASSERT(EVENTUALLY(atomic_load(&tries) >= 2));
    ASSERT_INT(0, bulkhead_finish(&p.job, 0));
    ASSERT_INT(BULKHEAD_SUCCEEDED, p.job.outcome);
    ENDS_WELL();
}

static plim_thread_result finish_it(void *arg)
{
    parted *p = arg;
    (void)csem_acquire(&p->begun);
    p->answers[3] = bulkhead_finish(&p->job, 6);
    return 0;
}

TEST a_sync_bulkhead_waits_for_finish(bool inside)
{
    parted p;
    plim_thread thread;
    parted_init(&p);
    p.told[0] = inside ? 1 + 6 : 0;
    ASSERT(make(&on.b, BULKHEAD_SYNC, 1, 0));
    if (!inside) {
        start(&thread, finish_it, &p);
    }
    ASSERT_INT(0, bulkhead_submit(&on.b, &p.job));
    if (!inside) {
        join(thread);
        ASSERT_INT(0, p.answers[3]);
    }
    ASSERT_INT(BULKHEAD_FAILED, p.job.outcome);
    ASSERT_INT(6, p.job.result);
    ASSERT_U64(plim_thread_id_(), p.done_on); /* it is the submitter's job */
    ASSERT_INT(1, atomic_load(&p.dones));
    ASSERT_INT(EPERM, bulkhead_finish(&p.job, 0));
    ENDS_WELL();
}

TEST each_attempt_of_a_sync_job_is_finished(void)
{
    parted p;
    parted_init(&p);
    p.told[0] = 1 + 6;
    p.told[1] = 1;
    p.job.attempts = 3;
    ASSERT(make(&on.b, BULKHEAD_SYNC, 1, 0));
    ASSERT_INT(0, bulkhead_submit(&on.b, &p.job));
    ASSERT_INT(2, atomic_load(&p.runs));
    ASSERT_INT(BULKHEAD_SUCCEEDED, p.job.outcome);
    ENDS_WELL();
}

/* What a finish at each event of a job is told. */
typedef struct finishes_at {
    bulkhead_job *job;
    int answers[8]; /* by type: 1 + what it returned */
} finishes_at;

static void finish_at_event(void *user, const bulkhead_event *event)
{
    finishes_at *at = user;
    if (event->type != BULKHEAD_EVENT_STARTED) {
        at->answers[event->type] = 1 + bulkhead_finish(at->job, 0);
    }
}

TEST a_sync_job_that_waits_for_an_attempt_does_not_run(void)
{
    parted p;
    finishes_at at = {&p.job, {0}};
    parted_init(&p);
    p.told[1] = 1;
    p.returns = 5;
    p.job.attempts = 2;
    bulkhead_options options = {.on_event = finish_at_event, .user = &at};
    ASSERT_INT(0, make_with(&on.b, &options));
    ASSERT_INT(0, bulkhead_submit(&on.b, &p.job));
    ASSERT_INT(2, atomic_load(&p.runs));
    ASSERT_INT(0, p.answers[1]);
    ASSERT_INT(1 + EPERM, at.answers[BULKHEAD_EVENT_ACCEPTED]);
    ASSERT_INT(1 + EPERM, at.answers[BULKHEAD_EVENT_RETRIED]);
    ASSERT_INT(1 + EPERM, at.answers[BULKHEAD_EVENT_FINISHED]);
    ASSERT_INT(BULKHEAD_FAILED, p.job.outcome);
    ASSERT_INT(5, p.job.result);
    ENDS_WELL();
}

static int return_later(void *arg)
{
    (void)arg;
    return BULKHEAD_LATER;
}

TEST to_a_function_that_is_invoked_it_is_a_number(int type, uint32_t flags)
{
    int result = 0;
    bulkhead_options options = {.type = type, .flags = flags};
    ASSERT_INT(0, make_with(&on.b, &options));
    ASSERT_INT(0, bulkhead_invoke(&on.b, return_later, NULL, &result));
    ASSERT_INT(BULKHEAD_LATER, result);
    ENDS_UNCOUNTED();
}

/* With fewer permits than are in use, a finish gives back what the limit keeps. */
TEST a_shrink_takes_effect_as_jobs_are_finished(void)
{
    parted p[3];
    ASSERT(make(&on.b, BULKHEAD_ASYNC, 3, 0));
    for (int i = 0; i < 3; i++) {
        parted_init(&p[i]);
        ASSERT_INT(0, bulkhead_submit(&on.b, &p[i].job));
        ASSERT(goes_away(&p[i]));
    }
    ASSERT_INT(0, bulkhead_resize(&on.b, 1, PLIM_KEEP));
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[0].job));
    ASSERT_INT(0, bulkhead_finish(&p[1].job, 0));
    ASSERT_INT(0, bulkhead_finish(&p[0].job, 0));
    ASSERT_FIGURES(&on.b, 1, 1);
    ASSERT_INT(0, bulkhead_finish(&p[2].job, 0));
    ASSERT(has_entered(&on.g[0]));
    let_go(&on.g[0]);
    ASSERT(is_done(&on.g[0]));
    ENDS_WELL();
}

SUITE(later_kinds_suite)
{
    SET_SETUP(set_the_stage, NULL);
    SET_TEARDOWN(clear_the_stage, NULL);
    for (int executor = 0; executor <= 1; executor++) {
        RUN_TESTp(events_tell_of_the_end_at_finish, executor);
    }
    RUN_TEST(a_resource_is_renewed_when_run_has_returned);
    RUN_TEST(a_resource_that_cannot_be_renewed_keeps_no_close);
    RUN_TESTp(a_sync_bulkhead_waits_for_finish, false);
    RUN_TESTp(a_sync_bulkhead_waits_for_finish, true);
    RUN_TEST(each_attempt_of_a_sync_job_is_finished);
    RUN_TEST(a_sync_job_that_waits_for_an_attempt_does_not_run);
    RUN_TESTp(to_a_function_that_is_invoked_it_is_a_number, BULKHEAD_SYNC, 0);
    RUN_TESTp(to_a_function_that_is_invoked_it_is_a_number, BULKHEAD_ASYNC, 0);
    RUN_TESTp(to_a_function_that_is_invoked_it_is_a_number, BULKHEAD_ASYNC, BULKHEAD_INLINE);
    RUN_TEST(a_shrink_takes_effect_as_jobs_are_finished);
}
