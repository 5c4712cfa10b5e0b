/* An attempt: how it begins, how it ends, and what that means for the job. */

/*
 * The end of an attempt has four steps, in this order, whichever thread runs the job:
 *
 *   1  decide        bulkhead_decide_end_   the job is over, is tried again, or its end is late;
 *                                           under the lock
 *   2  done inside   bulkhead_tell_end_     while the permit covers it; without the lock. Left out
 *                                           if there is no done, and for a detached job
 *   3  the permit    bulkhead_pass_permit_  it is free, with all that follows, and those who wait
 *                                           for the job go on; under the lock
 *   4  done outside  bulkhead_tell_end_     of a detached job, and on_event of a retry; without the
 *                                           lock
 *
 * bulkhead_end_attempt_ makes 1 and 2. Between 2 and 3 the thread decides what it does next, so
 * that no other is woken for what it will take.
 */

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
    if (limit > 0 && worker == NULL) {
        bulkhead_arm_(b, s, job, plim_deadline_(now, limit));
    } else if (limit > 0) {
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
PLIM_SLOW_ bool bulkhead_goes_away_(bulkhead *b, bulkhead_section_ *s, bulkhead_stay_ *stay)
{
    bulkhead_job *job = stay->job;
    if ((job->later_ & BULKHEAD_FINISHED_) != 0) {
        return false;
    }
    const bool stuck = bulkhead_is_stuck_(job);
    job->later_ = BULKHEAD_AWAY_;
    b->stuck -= stuck;
    if (stay->role == BULKHEAD_WORKS_) {
        plim_append_(&b->running, &job->entry_.node);
        if (!stuck && bulkhead_run_limit_(b, job) != 0) {
            bulkhead_arm_(b, s, job, BULKHEAD_WORKER_OF_(stay)->run_until);
        }
    }
    stay->job = NULL;
    return true;
}

/* Does the end of an attempt ask the program? Then not under the lock. */
static inline bool bulkhead_end_asks_(const bulkhead *b, int result)
{
    return result != 0 || (b->fixed.flags & BULKHEAD_LIMITED_) != 0;
}

/* An attempt has ended, and its permit is still held: tells the limiter. May a failed one be
 * followed by another? Both ask the program, so this is not under the lock. */
PLIM_SLOW_ bool bulkhead_may_retry_(bulkhead *b, const bulkhead_job *job, int result)
{
    uint32_t attempts = job->attempts != 0 ? job->attempts : b->fixed.attempts;
    if ((b->fixed.flags & BULKHEAD_LIMITED_) != 0 && (job->detached || !bulkhead_is_stuck_(job))) {
        bulkhead_sample_(b, job->since_, bulkhead_run_limit_(b, job), result);
    }
    return result != 0 && job->attempt < attempts &&
           (b->fixed.retryable == NULL || b->fixed.retryable(b->fixed.user, result, job->attempt));
}

/* How long a job waits for its next attempt. */
PLIM_SLOW_ int64_t bulkhead_back_off_(bulkhead *b, uint32_t attempt)
{
    return bulkhead_backoff(attempt, b->fixed.retry_delay_ns, b->fixed.retry_delay_max_ns,
                            &b->dice);
}

enum { BULKHEAD_OVER_, BULKHEAD_AGAIN_, BULKHEAD_LATE_ }; /* what an attempt's end is for the job */

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
            bulkhead_release_(b, s, job, BULKHEAD_DONE_);
        } else {
            /* Relaxed: the body has ended for those who see DONE. That is said under the lock. */
            plim_store_relaxed_(&job->entry_.phase, BULKHEAD_RETURNED_);
        }
        return BULKHEAD_LATE_;
    }
    if (!again || bulkhead_job_cancelled(job)) { /* by an abort, too */
        bulkhead_end_(b, job, result == 0 ? BULKHEAD_SUCCEEDED : BULKHEAD_FAILED, result);
        return BULKHEAD_OVER_;
    }
    int64_t delay = bulkhead_back_off_(b, job->attempt);
    bulkhead_disarm_(b, job);
    b->totals.retried++;
    job->result = result;
    if (b->fixed.histograms != NULL || delay > 0) {
        job->since_ = bulkhead_now_(s);
    }
    if (delay > 0) {
        bulkhead_delay_(b, s, job, plim_deadline_(job->since_, delay));
    } else {
        plim_store_relaxed_(&job->entry_.phase, BULKHEAD_QUEUED_);
        bulkhead_enqueue_(b, s, &job->entry_);
    }
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

/* An attempt that has ended; on the stack of the thread that has run it. */
typedef struct bulkhead_attempt_end_ {
    bulkhead_job *job; /* may be gone, but for one that is over, until it is released */
    bulkhead_subject_ about;
    uint32_t attempt;
    int result, what;
    bool detached, calls;
} bulkhead_attempt_end_;

/* Runs that code. If the job is detached, it is gone then. */
PLIM_SLOW_ void bulkhead_tell_end_(bulkhead *b, const bulkhead_attempt_end_ *end)
{
    if (end->what == BULKHEAD_OVER_) {
        bulkhead_call_done_(b, end->job);
    } else if (end->what == BULKHEAD_AGAIN_) {
        bulkhead_tell_(b, BULKHEAD_EVENT_RETRIED, end->about, BULKHEAD_PENDING, end->result,
                       end->attempt);
    } else if (end->job->done != NULL) {
        end->job->done(end->job);
    }
}

/* Decides what the end of the attempt means. Runs code of the program that has to run while the
 * permit is still held: done is part of the job. Not if the job is detached: then done may submit
 * it again, and finds the permit free. Nor if there will be another attempt: that may begin, and
 * end the job, while on_event hears of this one. So no event names the job then. */
PLIM_SLOW_ void bulkhead_end_attempt_(bulkhead *b, bulkhead_section_ *s, bulkhead_job *job,
                                      int result, bool again, bulkhead_attempt_end_ *end)
{
    end->job = job;
    end->about = bulkhead_subject_of_(job);
    end->attempt = job->attempt;
    end->result = result;
    end->detached = job->detached;
    end->what = bulkhead_decide_end_(b, s, job, result, again);
    end->calls = bulkhead_end_is_told_(b, job, end->what, end->detached);
    if (end->calls && end->what == BULKHEAD_OVER_ && !end->detached) {
        const bool frozen = s->frozen;
        plim_store_relaxed_(&job->entry_.phase, BULKHEAD_FINISHING_);
        bulkhead_unlock_(b, s);
        bulkhead_tell_end_(b, end);
        *s = bulkhead_hold_(b, PLIM_SOON_);
        if (frozen || b->watched) {
            bulkhead_freeze_(b, s);
        }
        plim_store_relaxed_(&job->entry_.phase, BULKHEAD_ENDING_);
        end->calls = false;
    }
}

/* Frees the permit, with all that follows from it. Threads that wait for the job go on, unless code
 * of the program comes first. */
static inline void bulkhead_pass_permit_(bulkhead *b, bulkhead_section_ *s,
                                         const bulkhead_attempt_end_ *end)
{
    if (s->frozen) {
        s->word += BULKHEAD_PERMIT_ONE_;
        bulkhead_grant_(b, s);
    } else {
        b->spare++;
        bulkhead_reckon_(b);
    }
    if (PLIM_LIKELY_(end->what == BULKHEAD_OVER_ && !end->calls)) {
        bulkhead_release_(b, s, end->job, BULKHEAD_DONE_);
    }
}
