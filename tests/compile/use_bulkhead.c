/* tests/compile/use_bulkhead.c - uses every name of bulkhead.h, as C11 and as C++11
 * SPDX-License-Identifier: MIT
 *
 * The scripts in this directory include it; use_semaphore.c says how.
 */
#ifndef USE_ONLY
#include "../../bulkhead.h"
#endif
#include <string.h>

#ifdef __cplusplus
#define USE_BULKHEAD use_bulkhead_cxx
extern "C" {
#else
#define USE_BULKHEAD use_bulkhead_c
#endif

extern bulkhead use_bulkhead_shared;
int USE_BULKHEAD(void);

#define USE_BULKHEAD_LAYOUT(ROW) \
    ROW(bulkhead) \
    ROW(bulkhead_options) \
    ROW(bulkhead_job) ROW(bulkhead_event) ROW(bulkhead_stats) ROW(bulkhead_histogram)

#ifndef __cplusplus
bulkhead use_bulkhead_shared;
#endif

static int use_bulkhead_fn(void *arg)
{
    return *(int *)arg;
}

static int use_bulkhead_run(bulkhead_job *job)
{
    bulkhead_job_renew(job);
    return bulkhead_job_cancelled(job) ? -1 : *(int *)job->arg;
}

static int use_bulkhead_later(bulkhead_job *job)
{
    return bulkhead_finish(job, 4) == 0 ? BULKHEAD_LATER : -1;
}

static void use_bulkhead_done(bulkhead_job *job)
{
    ++*(int *)job->arg;
}

static void use_bulkhead_event(void *user, const bulkhead_event *event)
{
    *(bulkhead_event_type *)user = event->type;
}

static int use_bulkhead_sync(bulkhead *b, int *code)
{
    int wrong = 0, result = 0, entered = 0;
    bulkhead_options options;
    memset(&options, 0, sizeof options);
    options.type = BULKHEAD_SYNC;
    options.flags = BULKHEAD_UNFAIR | BULKHEAD_STATS | BULKHEAD_TIMINGS;
    *code = 5;
    bulkhead_names names = {"USE_BULKHEAD_NOT_SET", NULL, NULL};
    const char *offender = NULL;
    int32_t limit = 0;
    wrong += bulkhead_options_from_env(&options, "USE_BULKHEAD_NOT_SET_") != 0;
    wrong += bulkhead_options_from_names(&options, &names, &offender) != 0 || offender != NULL;
    wrong += bulkhead_parse_limit("12", &limit) != 0 || limit != 12;
    wrong += bulkhead_init(b, &options) != 0;
    wrong += bulkhead_enter(b) != 0;
    wrong += bulkhead_enter_for(b, 0) != ETIMEDOUT;
    wrong += bulkhead_try_enter(b) != EAGAIN;
    wrong += bulkhead_leave(b) != 0;
    wrong += bulkhead_leave(b) != EPERM;
    BULKHEAD_SCOPE(b)
    {
        entered++;
    }
    wrong += entered != 1;
    wrong += bulkhead_invoke(b, use_bulkhead_fn, code, &result) != 0 || result != 5;
    bulkhead_stats stats = bulkhead_snapshot(b);
    wrong += stats.accepted != 3 || stats.succeeded != 2 || stats.failed != 1;
    bulkhead_histogram_add(&stats.run, PLIM_S(100));
    wrong += bulkhead_histogram_quantile(&stats.run, 1) != PLIM_S(100);
    uint64_t dice = 1;
    wrong += bulkhead_backoff(1, PLIM_MS(1), PLIM_S(1), &dice) < PLIM_MS(1);
    wrong += bulkhead_close(b, BULKHEAD_ABORT, PLIM_FOREVER) != 0;
    wrong += bulkhead_destroy(b) != 0;
    return wrong;
}

static int use_bulkhead_async(bulkhead *b, int *code)
{
    int wrong = 0, result = 0;
    bulkhead_event_type last = BULKHEAD_EVENT_RESIZED;
    bulkhead_job job;
    bulkhead_options options;
    memset(&options, 0, sizeof options);
    memset((void *)&job, 0, sizeof job);
    options.type = BULKHEAD_ASYNC;
    options.permits = BULKHEAD_UNLIMITED;
    options.on_event = use_bulkhead_event;
    options.user = &last;
    options.flags = BULKHEAD_INLINE;
    options.name = "use";
    *code = 5;
    wrong += bulkhead_init(b, &options) != 0;
    wrong += bulkhead_submit(b, &job) != EINVAL;
    job.run = use_bulkhead_run;
    job.done = use_bulkhead_done;
    job.arg = code;
    wrong += bulkhead_submit_for(b, &job, PLIM_MS(1)) != 0;
    wrong += bulkhead_wait(&job, PLIM_FOREVER) != 0;
    wrong += job.outcome != BULKHEAD_FAILED || job.result != 5 || *code != 6;
    wrong += bulkhead_reclaim(&job, 0) != 0;
    wrong += bulkhead_cancel(b, &job) != EALREADY;
    job.run = use_bulkhead_later;
    job.done = NULL;
    wrong += bulkhead_submit(b, &job) != 0 || bulkhead_wait(&job, PLIM_FOREVER) != 0;
    wrong += job.result != 4 || bulkhead_finish(&job, 4) != EPERM;
    wrong += bulkhead_invoke(b, use_bulkhead_fn, code, &result) != 0 || result != 6;
    wrong += bulkhead_resize(b, 2, PLIM_NONE) != 0 || BULKHEAD_IDLE_NS <= 0;
    wrong += bulkhead_wait_idle(b, PLIM_FOREVER) != 0;
    bulkhead_stats stats = bulkhead_snapshot(b);
    wrong += stats.accepted != 2 || stats.permits != 2 || stats.queue != 0;
    wrong += strcmp(bulkhead_outcome_name(BULKHEAD_ABORTED), "aborted") != 0;
    wrong += bulkhead_close(b, BULKHEAD_DRAIN, PLIM_FOREVER) != 0;
    wrong += bulkhead_executor(b).ctx != b;
    wrong += bulkhead_destroy(b) != 0;
    return wrong;
}

int USE_BULKHEAD(void)
{
    int code = 0;
    return use_bulkhead_sync(&use_bulkhead_shared, &code) +
           use_bulkhead_async(&use_bulkhead_shared, &code);
}

#ifdef __cplusplus
}
#endif
#undef USE_BULKHEAD
