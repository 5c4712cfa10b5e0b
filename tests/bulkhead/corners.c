/* SPDX-License-Identifier: MIT
 *
 * bulkhead.h in its corners: arguments that make no sense, combinations that are rare, and calls
 * from inside the callbacks.
 */
#undef NDEBUG
#include "../../bulkhead.h"
#include "../../semaphore.h"
#include "../support.h"
#include "../greatest.h"

/* A job that waits until it is let go, and what a callback of it has seen. */
typedef struct actor {
    bulkhead_job job, other;
    bulkhead *b;
    csem go;
    atomic_int runs, dones, answer, second;
} actor;

static int act(bulkhead_job *job)
{
    actor *a = job->arg;
    atomic_fetch_add(&a->runs, 1);
    csem_acquire(&a->go);
    return 0;
}

static int act_and_fail(bulkhead_job *job)
{
    act(job);
    return EIO;
}

static int run_nothing(bulkhead_job *job)
{
    (void)job;
    return 0;
}

static void actor_init(actor *a, bulkhead *b)
{
    memset((void *)a, 0, sizeof *a);
    a->b = b;
    a->job.run = act;
    a->job.arg = a;
    a->other.run = run_nothing;
    a->other.arg = a;
    csem_init(&a->go, 0);
    atomic_init(&a->answer, -1);
    atomic_init(&a->second, -1);
}

static bulkhead_options async_of(int32_t permits)
{
    bulkhead_options options = {.type = BULKHEAD_ASYNC, .permits = permits};
    return options;
}

static bool ends_well(bulkhead *b)
{
    return bulkhead_close(b, BULKHEAD_DRAIN, PLIM_S(PATIENCE_S)) == 0 && bulkhead_destroy(b) == 0;
}

/* ---- arguments ---- */

static int execute_nothing(void *ctx, void (*run)(void *), void *arg)
{
    (void)ctx, (void)run, (void)arg;
    return EBUSY;
}

static int start_nothing(void *user, unsigned index, void **resource)
{
    (void)user, (void)index, (void)resource;
    return 0;
}

static void stop_nothing(void *user, unsigned index, void *resource)
{
    (void)user, (void)index, (void)resource;
}

TEST options_that_contradict_each_other_are_refused(void)
{
    bulkhead b;
    plim_executor executor = {execute_nothing, NULL}, broken = {NULL, NULL};
    bulkhead_options o = async_of(1);
    ASSERT_INT(EINVAL, bulkhead_init(NULL, &o));
    o.executor = &broken;
    ASSERT_INT(EINVAL, bulkhead_init(&b, &o));
    o.executor = &executor;
    o.worker_start = start_nothing;
    ASSERT_INT(EINVAL, bulkhead_init(&b, &o));
    o.worker_start = NULL;
    o.worker_stop = stop_nothing;
    ASSERT_INT(EINVAL, bulkhead_init(&b, &o));
    o.executor = NULL;
    o.type = BULKHEAD_SYNC;
    ASSERT_INT(EINVAL, bulkhead_init(&b, &o));
    o.worker_stop = NULL;
    o.worker_start = start_nothing;
    ASSERT_INT(EINVAL, bulkhead_init(&b, &o));
    o.worker_start = NULL;
    o.executor = &executor;
    ASSERT_INT(EINVAL, bulkhead_init(&b, &o));
    o = async_of(1);
    o.type = 2;
    ASSERT_INT(EINVAL, bulkhead_init(&b, &o));
    PASS();
}

TEST jobs_that_make_no_sense_are_refused(void)
{
    bulkhead b, sync;
    bulkhead_options o = async_of(1);
    bulkhead_job job = {.run = run_nothing}, fresh = {.run = run_nothing};
    ASSERT_INT(0, bulkhead_init(&b, &o));
    ASSERT_INT(0, bulkhead_init(&sync, NULL));
    ASSERT_INT(EINVAL, bulkhead_submit(&b, NULL));
    job.delay_ns = -1;
    ASSERT_INT(EINVAL, bulkhead_submit_for(&b, &job, 0));
    job.delay_ns = 0;
    job.start_within_ns = -1;
    ASSERT_INT(EINVAL, bulkhead_submit(&b, &job));
    job.start_within_ns = 0;
    job.run_timeout_ns = -2;
    ASSERT_INT(EINVAL, bulkhead_submit(&b, &job));
    job.run_timeout_ns = PLIM_NONE;
    ASSERT_INT(0, bulkhead_submit(&b, &job));
    ASSERT_INT(0, bulkhead_wait(&job, PLIM_FOREVER));

    ASSERT_INT(EINVAL, bulkhead_wait(NULL, 0));
    ASSERT_INT(EINVAL, bulkhead_wait(&fresh, 0));
    ASSERT_INT(EINVAL, bulkhead_reclaim(NULL, 0));
    ASSERT_INT(EINVAL, bulkhead_reclaim(&fresh, 0));
    ASSERT_INT(EINVAL, bulkhead_cancel(&b, NULL));
    ASSERT_INT(EINVAL, bulkhead_cancel(&b, &fresh));
    ASSERT_INT(EINVAL, bulkhead_cancel(&sync, &job));
    fresh.detached = true;
    ASSERT_INT(0, bulkhead_submit(&b, &fresh));
    ASSERT_INT(EINVAL, bulkhead_wait(&fresh, PLIM_FOREVER));
    ASSERT_INT(EINVAL, bulkhead_reclaim(&fresh, 0));
    ASSERT_INT(0, bulkhead_wait_idle(&b, PLIM_FOREVER));

    ASSERT_INT(EINVAL, bulkhead_invoke(&b, NULL, NULL, NULL));
    ASSERT_INT(EINVAL, bulkhead_invoke(&sync, NULL, NULL, NULL));
    ASSERT_INT(EINVAL, bulkhead_close(&b, 7, 0));
    ASSERT_INT(EINVAL, bulkhead_resize(&b, -2, 0));
    ASSERT_INT(EINVAL, bulkhead_resize(&b, 0, -2));
    ASSERT_INT(EINVAL, bulkhead_options_from_env(NULL, "X_"));
    ASSERT_INT(EINVAL, bulkhead_options_from_env(&o, NULL));
    ASSERT_STR_EQ("unknown", bulkhead_outcome_name((bulkhead_outcome)77));
    ASSERT(ends_well(&b) && ends_well(&sync));
    PASS();
}

TEST times_of_any_length_have_a_bucket(void)
{
    bulkhead_histogram h;
    memset(&h, 0, sizeof h);
    for (int i = 0; i < 3; i++) {
        bulkhead_histogram_add(&h, INT64_MAX);
    }
    bulkhead_histogram_add(&h, -5);
    ASSERT_EQ(INT64_MAX, h.sum_ns);
    ASSERT_EQ(INT64_MAX, h.max_ns);
    ASSERT_EQ(INT64_MAX, bulkhead_histogram_quantile(&h, 1.0));
    ASSERT_EQ(0, bulkhead_histogram_quantile(&h, 0.0));
    for (unsigned i = 0; i < BULKHEAD_BUCKETS; i++) { /* each ends where the next begins */
        uint64_t end = (uint64_t)bulkhead_bucket_end_(i);
        ASSERT_EQ(i, bulkhead_bucket_(end));
        if (i + 1 < BULKHEAD_BUCKETS) {
            ASSERT_EQ(i + 1, bulkhead_bucket_(end + 1));
        }
    }
    PASS();
}

/* ---- retries ---- */

static int count_and_fail(bulkhead_job *job)
{
    atomic_fetch_add((atomic_int *)job->arg, 1);
    return EIO;
}

TEST many_attempts_in_a_row(void)
{
    bulkhead b;
    atomic_int runs;
    atomic_init(&runs, 0);
    bulkhead_options o = async_of(1);
    o.attempts = 200;
    ASSERT_INT(0, bulkhead_init(&b, &o));
    bulkhead_job job = {.run = count_and_fail, .arg = &runs};
    ASSERT_INT(0, bulkhead_submit(&b, &job));
    ASSERT_INT(0, bulkhead_wait(&job, PLIM_FOREVER));
    ASSERT_INT(200, atomic_load(&runs));
    ASSERT_INT(200, job.attempt);
    ASSERT_EQ(199, bulkhead_snapshot(&b).retried);
    ASSERT(ends_well(&b));
    PASS();
}

TEST a_delay_too_long_to_add_up_is_for_ever(void)
{
    bulkhead b;
    atomic_int runs;
    atomic_init(&runs, 0);
    bulkhead_options o = async_of(1);
    o.attempts = 5;
    o.retry_delay_ns = o.retry_delay_max_ns = INT64_MAX;
    ASSERT_INT(0, bulkhead_init(&b, &o));
    bulkhead_job job = {.run = count_and_fail, .arg = &runs};
    ASSERT_INT(0, bulkhead_submit(&b, &job));
    ASSERT(EVENTUALLY(bulkhead_snapshot(&b).delayed == 1));
    ASSERT_INT(0, bulkhead_cancel(&b, &job));
    ASSERT_INT(1, atomic_load(&runs));
    for (uint32_t attempt = 1; attempt < 70; attempt++) {
        int64_t delay = bulkhead_back_off_(&b, attempt);
        ASSERT_EQ(INT64_MAX, delay);
    }
    ASSERT(ends_well(&b));
    PASS();
}

/* ---- detached jobs, timeouts, events ---- */

typedef struct seen {
    atomic_int started, retried, finished, timed_out;
} seen;

static void see(void *user, const bulkhead_event *event)
{
    seen *s = user;
    atomic_fetch_add(&s->started, event->type == BULKHEAD_EVENT_STARTED);
    atomic_fetch_add(&s->retried, event->type == BULKHEAD_EVENT_RETRIED);
    atomic_fetch_add(&s->finished, event->type == BULKHEAD_EVENT_FINISHED);
    atomic_fetch_add(&s->timed_out, event->type == BULKHEAD_EVENT_TIMED_OUT);
}

static void count_done(bulkhead_job *job)
{
    actor *a = job->arg;
    atomic_fetch_add(&a->dones, 1);
}

TEST a_timeout_is_told_once(bool events, bool detached, bool with_done)
{
    bulkhead b;
    actor a;
    seen s;
    memset((void *)&s, 0, sizeof s);
    bulkhead_options o = async_of(1);
    o.on_event = events ? see : NULL;
    o.user = &s;
    o.run_timeout_ns = PLIM_MS(1);
    ASSERT_INT(0, bulkhead_init(&b, &o));
    actor_init(&a, &b);
    a.job.detached = detached;
    a.job.done = with_done ? count_done : NULL;
    ASSERT_INT(0, bulkhead_submit(&b, &a.job));
    ASSERT(EVENTUALLY(bulkhead_snapshot(&b).timed_out == 1));
    if (!detached) {
        ASSERT_INT(0, bulkhead_wait(&a.job, PLIM_FOREVER));
        ASSERT_INT(with_done, atomic_load(&a.dones));
        ASSERT_INT(EBUSY, bulkhead_submit(&b, &a.job)); /* the body has it */
        ASSERT_INT(ETIMEDOUT, bulkhead_reclaim(&a.job, 0));
        ASSERT_INT(EALREADY, bulkhead_cancel(&b, &a.job));
    }
    csem_release(&a.go);
    ASSERT_INT(0, bulkhead_wait_idle(&b, PLIM_FOREVER));
    ASSERT_INT(with_done, atomic_load(&a.dones));
    bulkhead_stats figures = bulkhead_snapshot(&b);
    ASSERT(figures.late == 1 && figures.succeeded == 0 && figures.in_use == 0);
    ASSERT(EVENTUALLY(!events || atomic_load(&s.timed_out) == 1));
    ASSERT_INT(0, atomic_load(&s.finished));
    if (!detached) {
        ASSERT_INT(0, bulkhead_reclaim(&a.job, PLIM_FOREVER));
        ASSERT_INT(0, bulkhead_reclaim(&a.job, 0));
    }
    csem_release(&a.go); /* again: now it is free to be */
    a.job.run_timeout_ns = PLIM_NONE;
    a.job.detached = false;
    ASSERT_INT(0, bulkhead_submit(&b, &a.job));
    ASSERT_INT(0, bulkhead_wait(&a.job, PLIM_FOREVER));
    ASSERT_INT(BULKHEAD_SUCCEEDED, a.job.outcome);
    ASSERT(ends_well(&b));
    PASS();
}

TEST a_detached_job_is_retried_and_told(bool events, bool with_done)
{
    bulkhead b;
    actor a;
    seen s;
    memset((void *)&s, 0, sizeof s);
    bulkhead_options o = async_of(1);
    o.on_event = events ? see : NULL;
    o.user = &s;
    o.attempts = 3;
    ASSERT_INT(0, bulkhead_init(&b, &o));
    actor_init(&a, &b);
    csem_release_n(&a.go, 3);
    a.job.run = act_and_fail;
    a.job.detached = true;
    a.job.done = with_done ? count_done : NULL;
    ASSERT_INT(0, bulkhead_submit(&b, &a.job));
    ASSERT_INT(0, bulkhead_wait_idle(&b, PLIM_FOREVER));
    ASSERT_INT(3, atomic_load(&a.runs));
    ASSERT_INT(with_done, atomic_load(&a.dones));
    ASSERT_INT(events ? 2 : 0, atomic_load(&s.retried));
    ASSERT_INT(events ? 3 : 0, atomic_load(&s.started));
    ASSERT_INT(events, atomic_load(&s.finished));
    ASSERT(ends_well(&b));
    PASS();
}

/* Another permit is free: nobody has to wait for the end of a callback. */
static void await_second_run(void *user, const bulkhead_event *event)
{
    actor *a = user;
    if (event->type == BULKHEAD_EVENT_RETRIED) {
        atomic_store(&a->answer, EVENTUALLY(atomic_load(&a->runs) == 2));
    }
}

TEST a_retry_begins_while_its_event_is_told(void)
{
    bulkhead b;
    actor a;
    bulkhead_options o = async_of(2);
    o.attempts = 2;
    o.on_event = await_second_run;
    o.user = &a;
    actor_init(&a, &b);
    ASSERT_INT(0, bulkhead_init(&b, &o));
    csem_release_n(&a.go, 2);
    a.job.run = act_and_fail;
    ASSERT_INT(0, bulkhead_submit(&b, &a.job));
    ASSERT_INT(0, bulkhead_wait(&a.job, PLIM_FOREVER));
    ASSERT_INT(0, bulkhead_wait_idle(&b, PLIM_FOREVER));
    ASSERT_INT(true, atomic_load(&a.answer));
    ASSERT(ends_well(&b));
    PASS();
}

/* ---- who has entered ---- */

typedef struct visitor {
    bulkhead *b;
    int answer;
    plim_thread thread;
} visitor;

static plim_thread_result visit(void *arg)
{
    visitor *v = arg;
    v->answer = bulkhead_enter(v->b);
    return 0;
}

/* A wait with a limit is no deadlock: it ends, and then the permit can be given back. */
TEST who_has_entered_may_wait_for_a_while(int type)
{
    bulkhead b;
    bulkhead_options o = {.type = type};
    ASSERT_INT(0, bulkhead_init(&b, &o));
    visitor v = {.b = &b, .answer = -1};
    ASSERT_INT(0, bulkhead_enter(&b));
    int64_t before = plim_now_();
    ASSERT_INT(ETIMEDOUT, bulkhead_enter_for(&b, PLIM_MS(20)));
    ASSERT(plim_now_() - before >= PLIM_MS(20));
    ASSERT_INT(ETIMEDOUT, bulkhead_wait_idle(&b, PLIM_MS(1)));
    ASSERT_INT(EDEADLK, bulkhead_enter(&b));
    ASSERT_INT(EDEADLK, bulkhead_wait_idle(&b, PLIM_FOREVER));
    start(&v.thread, visit, &v);
    ASSERT(EVENTUALLY(bulkhead_snapshot(&b).queued == 1));
    ASSERT_INT(ETIMEDOUT, bulkhead_close(&b, BULKHEAD_ABORT, PLIM_MS(1)));
    join(v.thread);
    ASSERT_INT(ESHUTDOWN, v.answer);
    ASSERT_INT(EBUSY, bulkhead_destroy(&b));
    ASSERT_INT(0, bulkhead_leave(&b));
    ASSERT_INT(EPERM, bulkhead_leave(&b));
    ASSERT(ends_well(&b));
    PASS();
}

/* ---- an executor that runs jobs on the spot ---- */

static int on_the_spot(void *ctx, void (*run)(void *), void *arg)
{
    actor *a = ctx;
    if (a != NULL) {
        atomic_store(&a->answer, bulkhead_wait_idle(a->b, PLIM_S(PATIENCE_S)));
    }
    run(arg);
    return 0;
}

static int invoke_once_more(void *arg)
{
    actor *a = arg;
    return atomic_fetch_add(&a->runs, 1) < 2 ? bulkhead_invoke(a->b, invoke_once_more, a, NULL) : 0;
}

TEST an_executor_on_the_spot_nests_as_deep_as_there_are_permits(int32_t permits, int runs)
{
    bulkhead b;
    actor a;
    int result = -1;
    plim_executor executor = {on_the_spot, NULL};
    bulkhead_options o = async_of(permits);
    o.executor = &executor;
    ASSERT_INT(0, bulkhead_init(&b, &o));
    actor_init(&a, &b);
    ASSERT_INT(0, bulkhead_invoke(&b, invoke_once_more, &a, &result));
    ASSERT_INT(permits == 1 ? EDEADLK : 0, result);
    ASSERT_INT(runs, atomic_load(&a.runs));
    ASSERT(ends_well(&b));
    PASS();
}

TEST execute_itself_may_not_wait(void)
{
    bulkhead b;
    actor a;
    plim_executor executor = {on_the_spot, &a};
    bulkhead_options o = async_of(1);
    o.executor = &executor;
    ASSERT_INT(0, bulkhead_init(&b, &o));
    actor_init(&a, &b);
    ASSERT_INT(0, bulkhead_enter(&b));
    ASSERT_INT(0, bulkhead_submit(&b, &a.other)); /* in the queue: given out by leave */
    ASSERT_INT(-1, atomic_load(&a.answer));
    ASSERT_INT(0, bulkhead_leave(&b));
    ASSERT_INT(EDEADLK, atomic_load(&a.answer));
    ASSERT_INT(BULKHEAD_SUCCEEDED, a.other.outcome);
    ASSERT(ends_well(&b));
    PASS();
}

SUITE(bulkhead_corners)
{
    RUN_TEST(options_that_contradict_each_other_are_refused);
    RUN_TEST(jobs_that_make_no_sense_are_refused);
    RUN_TEST(times_of_any_length_have_a_bucket);
    RUN_TEST(many_attempts_in_a_row);
    RUN_TEST(a_delay_too_long_to_add_up_is_for_ever);
    for (int i = 0; i < 8; i++) {
        RUN_TESTp(a_timeout_is_told_once, (i & 1) != 0, (i & 2) != 0, (i & 4) != 0);
    }
    for (int i = 0; i < 4; i++) {
        RUN_TESTp(a_detached_job_is_retried_and_told, (i & 1) != 0, (i & 2) != 0);
    }
    RUN_TEST(a_retry_begins_while_its_event_is_told);
    RUN_TESTp(who_has_entered_may_wait_for_a_while, BULKHEAD_SYNC);
    RUN_TESTp(who_has_entered_may_wait_for_a_while, BULKHEAD_ASYNC);
    RUN_TESTp(an_executor_on_the_spot_nests_as_deep_as_there_are_permits, 1, 1);
    RUN_TESTp(an_executor_on_the_spot_nests_as_deep_as_there_are_permits, 3, 3);
    RUN_TEST(execute_itself_may_not_wait);
}

#include "inside.c"

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    RUN_SUITE(bulkhead_corners);
    RUN_SUITE(bulkhead_inside);
    GREATEST_MAIN_END();
}
