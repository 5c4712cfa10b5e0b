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

/* What becomes of every job, once: an outcome. All that counts ends is here. */
PLIM_FAST_ void bulkhead_set_outcome_(bulkhead *b, bulkhead_job *job, bulkhead_outcome outcome,
                                      int result)
{
    job->outcome = outcome;
    job->result = result;
    PLIM_PROBE_(job_end, job, outcome);
    b->totals.ended[outcome]++;
    b->jobs--;
}

/* The job is over. If its runner ends it, it releases it in bulkhead_pass_permit_. Any other thread
 * that ends a job concludes it after the section. */
static inline void bulkhead_end_(bulkhead *b, bulkhead_job *job, bulkhead_outcome outcome,
                                 int result)
{
    bulkhead_disarm_(b, job);
    bulkhead_set_outcome_(b, job, outcome, result);
    plim_store_relaxed_(&job->entry_.phase, BULKHEAD_ENDING_);
}

/* The job that is to be concluded after that one. */
static inline bulkhead_job *bulkhead_after_job_(const bulkhead_job *job)
{
    plim_timer_ *link = job->timer_.next;
    return link != NULL ? bulkhead_job_of_timer_(link) : NULL;
}

/* It is not armed, so the link of its timer is free. */
static inline void bulkhead_add_ended_(bulkhead_section_ *s, bulkhead_job *job)
{
    job->timer_.next = NULL;
    if (s->ended != NULL) {
        s->last_ended->timer_.next = &job->timer_;
    } else {
        s->ended = job;
    }
    s->last_ended = job;
}

/* As bulkhead_end_, by another thread than its runner: it is concluded after the section. If it
 * FAILED, it has been tried, and cannot be tried again. */
static inline void bulkhead_end_early_(bulkhead *b, bulkhead_section_ *s, bulkhead_job *job,
                                       bulkhead_outcome outcome)
{
    bulkhead_end_(b, job, outcome, outcome == BULKHEAD_FAILED ? job->result : 0);
    bulkhead_add_ended_(s, job);
}

/* Ends the wait to which that leads, and takes it off the job; false if it gives up by itself. Its
 * edges end here: the job may go before a thread that is woken has come to it. */
static inline bool bulkhead_end_await_(bulkhead_section_ *s, bulkhead_await_ **link)
{
    bulkhead_await_ *at = *link;
    bool ends = plim_decide_(&at->waiter, PLIM_ENDED_);
    plim_awaits_(at->here, NULL, NULL);
    if (ends) {
        *link = at->next;
        plim_append_(&s->woken, &at->waiter.node);
    }
    return ends;
}

/* Ends the waits for a job: all of them, or those that do not wait for its body to return. A thread
 * that gives up by itself is taken off the job, too, because the job may go. Until it has seen
 * that, the bulkhead stays. */
PLIM_CALLED_ void bulkhead_end_awaits_(bulkhead *b, bulkhead_section_ *s, bulkhead_job *job,
                                       bool returned)
{
    for (bulkhead_await_ **link = &job->waiters_; *link != NULL;) {
        bulkhead_await_ *at = *link;
        if (at->returned && !returned) {
            link = &at->next;
            continue;
        }
        if (!bulkhead_end_await_(s, link)) {
            *link = at->next;
            at->gone = true;
            b->busy++;
        }
    }
}

/* Says that the job is DONE, or OVERDUE: the last touch of it, so a release, for the acquire in
 * bulkhead_is_done_. No waiter is forgotten. A thread joins the waiters under the lock, if the job
 * is not past that phase, and this runs under the lock, too. */
PLIM_FAST_ void bulkhead_release_(bulkhead *b, bulkhead_section_ *s, bulkhead_job *job,
                                  uint64_t phase)
{
    if (!PLIM_LIKELY_(job->waiters_ == NULL)) {
        bulkhead_end_awaits_(b, s, job, phase == BULKHEAD_DONE_);
    }
    plim_store_release_(&job->entry_.phase, phase);
}

static inline uint64_t bulkhead_number_(const bulkhead_job *job)
{
    return plim_load_relaxed_(&job->marks_) / BULKHEAD_NUMBER_ONE_;
}

/* The state of a job before its submit. If no thread is left to run the job, it gets this state
 * back. */
typedef struct bulkhead_past_ {
    uint64_t number; /* that it got by being accepted: it may be gone, and its memory reused */
    bulkhead *where;
    void *resource;
    bulkhead_outcome outcome;
    int result;
    uint32_t attempt;
    bool done, detached;
    uint64_t marks;
} bulkhead_past_;

static inline bulkhead_past_ bulkhead_past_of_(const bulkhead_job *job)
{
    bulkhead_past_ past = {0,
                           job->bulkhead_,
                           job->resource,
                           job->outcome,
                           job->result,
                           job->attempt,
                           plim_load_relaxed_(&job->entry_.phase) == BULKHEAD_DONE_,
                           job->was_detached_,
                           plim_load_relaxed_(&job->marks_)};
    return past;
}

/* Is it that job, as it was accepted? A worker or an entry of others may have run it in the
 * meantime, and it waits for another attempt. Then it has begun, and cannot be refused any more. */
static inline bool bulkhead_is_unrun_(const bulkhead_job *job, const bulkhead_past_ *past)
{
    return bulkhead_number_(job) == past->number && job->attempt == 0;
}

/* It was accepted, and cannot be run after all: as if it had not been submitted. The last touch of
 * the job, and the caller's is the only thread that has to do with it. */
PLIM_SLOW_ void bulkhead_refuse_(bulkhead *b, bulkhead_section_ *s, bulkhead_job *job,
                                 const bulkhead_past_ *past)
{
    bulkhead_disarm_(b, job);
    b->totals.accepted--;
    b->jobs--;
    job->bulkhead_ = past->where;
    job->resource = past->resource;
    job->outcome = past->outcome;
    job->result = past->result;
    job->attempt = past->attempt;
    job->was_detached_ = past->detached;
    plim_store_relaxed_(&job->marks_, past->marks);
    if (past->done) {
        bulkhead_release_(b, s, job, BULKHEAD_DONE_);
    } else {
        plim_store_relaxed_(&job->entry_.phase, BULKHEAD_NEW_);
    }
}

/* Takes a job that has not begun out of wherever it waits; false if it does not wait. */
PLIM_SLOW_ bool bulkhead_withdraw_(bulkhead *b, bulkhead_section_ *s, bulkhead_job *job)
{
    switch (plim_load_relaxed_(&job->entry_.phase)) {
    case BULKHEAD_DELAYED_:
        plim_unlink_(&b->later, &job->entry_.node);
        plim_store_relaxed_(&b->delayed, plim_load_relaxed_(&b->delayed) - 1);
        return true;
    case BULKHEAD_QUEUED_:
        bulkhead_dequeue_(b, s, &job->entry_);
        return true;
    case BULKHEAD_READY_:
        plim_unlink_(&b->ready_jobs, &job->entry_.node);
        plim_store_relaxed_(&b->ready, plim_load_relaxed_(&b->ready) - 1);
        s->word += BULKHEAD_PERMIT_ONE_;
        return true;
    default:
        return false;
    }
}

/* Tells that the job has ended, under no lock. The last touch of it, if it is detached. */
static inline void bulkhead_call_done_(bulkhead *b, bulkhead_job *job)
{
    if ((b->fixed.flags & BULKHEAD_EVENTS_) != 0) {
        bulkhead_tell_(b,
                       job->outcome == BULKHEAD_TIMED_OUT ? BULKHEAD_EVENT_TIMED_OUT
                                                          : BULKHEAD_EVENT_FINISHED,
                       bulkhead_subject_of_(job), job->outcome, job->result, job->attempt);
    }
    if (job->detached) {
        plim_store_relaxed_(&job->entry_.phase, BULKHEAD_DONE_);
    }
    if (job->done != NULL) {
        job->done(job);
    }
}

/* The rest of the end of a job that another thread than its runner has ended. If its run timeout
 * has passed, its body may go on, with its permit, and use the job's memory. Then those who wait
 * are released, but the job is not done before the body returns. */
PLIM_SLOW_ void bulkhead_conclude_(bulkhead *b, bulkhead_job *job, bulkhead_stay_ *self)
{
    const bool detached = job->detached;
    self->job = detached ? NULL : job; /* if done waits for it, that is EDEADLK */
    if ((b->fixed.flags & BULKHEAD_LIMITED_) != 0 && job->outcome == BULKHEAD_TIMED_OUT) {
        bulkhead_sample_(b, job->since_, 0, ETIMEDOUT);
    }
    bulkhead_call_done_(b, job);
    if (!detached) {
        bulkhead_section_ s = bulkhead_lock_(b);
        const bool runs_on = bulkhead_is_stuck_(job);
        bulkhead_release_(b, &s, job, runs_on ? BULKHEAD_OVERDUE_ : BULKHEAD_DONE_);
        bulkhead_unlock_(b, &s);
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
