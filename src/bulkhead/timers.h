/* Timers: when a job is due, expires, or has run too long. */

/* A job needs one timer at a time, which is part of it: until it is due, until it expires, until
 * its run timeout. src/core/timers.h keeps them. */
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
