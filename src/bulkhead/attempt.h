/* An attempt: how it begins, and what its end means for the job. See finish.h for the end itself.
 * */

static inline int64_t bulkhead_run_limit_(const bulkhead *b, const bulkhead_job *job)
{
    int64_t limit = job->run_timeout_ns == 0 ? b->fixed.run_timeout_ns : job->run_timeout_ns;
    return limit > 0 ? limit : 0;
}

/* Notes the beginning of an attempt that is timed, or may have a timer. */
PLIM_CALLED_ void bulkhead_begin_timed_(bulkhead *b, bulkhead_section_ *s, bulkhead_job *job,
                                        bulkhead_worker_ *worker)
{
    const int64_t limit = bulkhead_run_limit_(b, job), now = bulkhead_now_(s);
    if (job->start_within_ns != 0) {
        bulkhead_disarm_(b, job);
    }
    if (b->fixed.histograms != NULL) {
        bulkhead_time_wait_(b, now - job->since_);
    }
    job->since_ = now;
    if (limit > 0 && worker == NULL && b->fixed.type == BULKHEAD_ASYNC) {
        bulkhead_arm_(b, s, job, plim_deadline_(now, limit));
    } else if (limit > 0 && worker != NULL) {
        worker->run_until = plim_deadline_(now, limit);
        if (worker->run_until < b->watch.look) {
            b->watch.look = worker->run_until;
            bulkhead_watch_by_(b, s, b->watch.look);
        }
    }
}

/* The calling thread begins an attempt: a worker, or (NULL) any other. */
PLIM_FAST_ void bulkhead_begin_(bulkhead *b, bulkhead_section_ *s, bulkhead_job *job,
                                bulkhead_worker_ *worker)
{
    plim_store_relaxed_(&job->entry_.phase, BULKHEAD_RUNNING_);
    job->attempt++;
    PLIM_PROBE_(job_start, b, job);
    if (job->renews_ || job->later_ != 0) {
        job->renews_ = false;
        job->later_ = 0;
    }
    if (!PLIM_LIKELY_((b->fixed.run_timeout_ns | job->run_timeout_ns | job->start_within_ns) == 0 &&
                      (b->fixed.flags & BULKHEAD_TIMED_) == 0)) {
        bulkhead_begin_timed_(b, s, job, worker);
    }
}

/* Is that the answer of a body that goes on without its thread? From a function that was given to
 * invoke it is a number like any other. */
static inline bool bulkhead_is_later_(const bulkhead_job *job, int result)
{
    return result == BULKHEAD_LATER && job->run != bulkhead_run_call_;
}

/* Run has returned BULKHEAD_LATER. False if the job was finished before that: then this thread ends
 * the attempt, with job->result. Else it leaves the job in this section. A thread that finishes it
 * comes after, under the lock, too. */
PLIM_RARE_ bool bulkhead_goes_away_(bulkhead *b, bulkhead_section_ *s, bulkhead_stay_ *self)
{
    bulkhead_job *job = self->job;
    if ((job->later_ & BULKHEAD_FINISHED_) != 0) {
        return false;
    }
    const bool stuck = bulkhead_is_stuck_(job);
    job->later_ = BULKHEAD_AWAY_;
    b->stuck -= stuck;
    if (self->role == BULKHEAD_WORKS_) {
        plim_append_(&b->running, &job->entry_.node);
        if (!stuck && bulkhead_run_limit_(b, job) != 0) {
            bulkhead_arm_(b, s, job, BULKHEAD_WORKER_OF_(self)->run_until);
        }
    }
    return true;
}

/* Does the end of an attempt ask the program? Then not under the lock. */
static inline bool bulkhead_end_asks_(const bulkhead *b, int result)
{
    return result != 0 || (b->fixed.flags & BULKHEAD_LIMITED_) != 0;
}

/* An attempt has ended, and its permit is still held: tells the limiter. May a failed one be
 * followed by another? Both ask the program, so this is not under the lock. */
PLIM_RARE_ bool bulkhead_may_retry_(bulkhead *b, const bulkhead_job *job, int result)
{
    uint32_t attempts = job->attempts != 0 ? job->attempts : b->fixed.attempts;
    if ((b->fixed.flags & BULKHEAD_LIMITED_) != 0 && (job->detached || !bulkhead_is_stuck_(job))) {
        bulkhead_sample_(b, job->since_, bulkhead_run_limit_(b, job), result);
    }
    return result != 0 && job->attempt < attempts &&
           (b->fixed.retryable == NULL || b->fixed.retryable(b->fixed.user, result, job->attempt));
}

/* How long a job waits for its next attempt. */
PLIM_RARE_ int64_t bulkhead_back_off_(bulkhead *b, uint32_t attempt)
{
    return bulkhead_backoff(attempt, b->fixed.retry_delay_ns, b->fixed.retry_delay_max_ns,
                            &b->dice);
}

enum {                  /* what the end of an attempt is for the job */
       BULKHEAD_OVER_,  /* it has ended */
       BULKHEAD_AGAIN_, /* it is tried again */
       BULKHEAD_LATE_,  /* it ended before, by its run timeout */
       BULKHEAD_LEFT_   /* it goes on without a thread, and so does the attempt */
};

/* The job will be tried again. A sync one stays with its submitter, which waits for its time. */
PLIM_RARE_ void bulkhead_retry_(bulkhead *b, bulkhead_section_ *s, bulkhead_job *job, int result)
{
    const int64_t delay = bulkhead_back_off_(b, job->attempt);
    bulkhead_disarm_(b, job);
    b->totals.retried++;
    job->result = result;
    if (b->fixed.histograms != NULL || delay > 0) {
        job->since_ = bulkhead_now_(s);
    }
    if (b->fixed.type == BULKHEAD_SYNC) {
        job->later_ = BULKHEAD_FINISHED_;
        job->timer_.at = delay > 0 ? plim_deadline_(job->since_, delay) : 0; /* it is not armed */
    } else if (delay > 0) {
        bulkhead_delay_(b, s, job, plim_deadline_(job->since_, delay));
    } else {
        plim_store_relaxed_(&job->entry_.phase, BULKHEAD_QUEUED_);
        bulkhead_enqueue_(b, s, &job->entry_);
    }
}

/* Has a job of a sync bulkhead run for too long? There nobody can tell before it returns. */
static inline bool bulkhead_ran_over_(const bulkhead *b, bulkhead_section_ *s,
                                      const bulkhead_job *job)
{
    const int64_t limit = b->fixed.type == BULKHEAD_SYNC ? bulkhead_run_limit_(b, job) : 0;
    return limit > 0 && bulkhead_now_(s) - job->since_ > limit;
}

/* An attempt has ended, and what becomes of the job is decided. `again` is the answer of
 * bulkhead_may_retry_. The permit is still held. */
PLIM_FAST_ int bulkhead_decide_end_(bulkhead *b, bulkhead_section_ *s, bulkhead_job *job,
                                    int result, bool again)
{
    if (b->fixed.histograms != NULL) {
        bulkhead_time_run_(b, bulkhead_now_(s) - job->since_);
    }
    if (bulkhead_is_stuck_(job)) {
        b->totals.late++;
        b->stuck -= (job->later_ & BULKHEAD_AWAY_) == 0;
        if (job->detached || plim_load_relaxed_(&job->entry_.phase) == BULKHEAD_OVERDUE_) {
            bulkhead_let_waiters_go_(b, s, job, BULKHEAD_DONE_);
        } else {
            /* Relaxed: the body has ended for those who see DONE. That is said under the lock. */
            plim_store_relaxed_(&job->entry_.phase, BULKHEAD_RETURNED_);
        }
        return BULKHEAD_LATE_;
    }
    if (bulkhead_ran_over_(b, s, job)) {
        b->totals.late++;
        bulkhead_end_(b, job, BULKHEAD_TIMED_OUT, 0);
        return BULKHEAD_OVER_;
    }
    if (!again || bulkhead_job_cancelled(job)) { /* by an abort, too */
        bulkhead_end_(b, job, result == 0 ? BULKHEAD_SUCCEEDED : BULKHEAD_FAILED, result);
        return BULKHEAD_OVER_;
    }
    bulkhead_retry_(b, s, job, result);
    return BULKHEAD_AGAIN_;
}

/* Does the end of an attempt run code of the program? A job that is LATE may be gone, unless it is
 * detached. */
static inline bool bulkhead_end_is_told_(const bulkhead *b, const bulkhead_job *job, int what,
                                         bool detached)
{
    return what == BULKHEAD_LATE_                     ? detached
           : (b->fixed.flags & BULKHEAD_EVENTS_) != 0 ? true
                                                      : what == BULKHEAD_OVER_ && job->done != NULL;
}

/*
 * Calls the body. In the meantime the thread's place carries the job, as it would an event loop of
 * loop_scheduler.h. So a wait in the body that would close a circle finds the loop, or the job of
 * another bulkhead, that waits for this job.
 */
PLIM_FAST_ int bulkhead_run_body_(bulkhead_stay_ *self, bulkhead_job *job)
{
    self->hold.place.carries = &job->goal_;
    int result = job->run(job);
    self->hold.place.carries = NULL;
    return result;
}

/* Takes the first job that is ready. */
PLIM_FAST_ bulkhead_job *bulkhead_pick_(bulkhead *b)
{
    if (b->ready_jobs.first == NULL) {
        return NULL;
    }
    plim_store_relaxed_(&b->ready, plim_load_relaxed_(&b->ready) - 1);
    return BULKHEAD_JOB_OF_(plim_shift_(&b->ready_jobs));
}
