/* Timers: when a job is due, expires, or has run too long. */

/*
 * A job needs one timer at a time, which is part of it: for its delay, its expiry or its run
 * timeout. src/core/timers.h keeps them.
 *
 * The run timeout of a job that a worker runs needs none, as arming one takes longer than most
 * jobs. The worker notes when it would pass (run_until). `look` is not after any of these times, so
 * the supervisor wakes when the first of them may have come. It ends the runs that have lasted for
 * too long, and looks again when the next of those that run now would pass. Most of these will have
 * ended by then. A worker whose job is to be looked at before `look` sets that, and wakes it.
 */
static inline bulkhead_job *bulkhead_job_of_timer_(plim_timer_ *timer)
{
    return (bulkhead_job *)(void *)((char *)timer - offsetof(bulkhead_job, timer_));
}

PLIM_SLOW_ void bulkhead_disarm_slow_(bulkhead *b, bulkhead_job *job)
{
    plim_timers_disarm_(&b->timers, &job->timer_);
}

static inline void bulkhead_disarm_(bulkhead *b, bulkhead_job *job)
{
    if (plim_timer_is_armed_(&job->timer_)) {
        bulkhead_disarm_slow_(b, job);
    }
}
