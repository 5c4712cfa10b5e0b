/* An attempt: how it begins, how it ends, and what that means for the job. */

static inline int64_t bulkhead_run_limit_(const bulkhead *b, const bulkhead_job *job)
{
    int64_t limit = job->run_timeout_ns == 0 ? b->run_timeout_ns : job->run_timeout_ns;
    return limit > 0 ? limit : 0;
}

/* The calling thread begins an attempt. */
PLIM_FAST_ void bulkhead_begin_(bulkhead *b, bulkhead_section_ *s, bulkhead_job *job,
                                uint64_t thread)
{
    int64_t limit = bulkhead_run_limit_(b, job);
    plim_store_relaxed_(&job->phase_, BULKHEAD_RUNNING_);
    job->attempt++;
    job->renews_ = false;
    job->runner_ = thread;
    bulkhead_disarm_(b, job);
    if (limit > 0 || b->histograms != NULL) {
        int64_t now = plim_now_();
        if (b->histograms != NULL) {
            bulkhead_histogram_add(&b->histograms[0], now - job->since_);
            job->since_ = now;
        }
        if (limit > 0) {
            bulkhead_arm_(b, s, job, plim_deadline_(now, limit));
        }
    }
}

/* The job is over. What is left is to conclude it, without the lock, by the calling thread. */
static inline void bulkhead_end_(bulkhead *b, bulkhead_job *job, bulkhead_outcome outcome,
                                 int result)
{
    bulkhead_disarm_(b, job);
    job->outcome = outcome;
    job->result = result;
    b->ended[outcome]++;
    b->jobs--;
    plim_store_relaxed_(&job->phase_, BULKHEAD_ENDING_);
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

/* The same for one that somebody else than its runner ends: it is concluded after the section. If
 * it FAILED, it has been tried, and cannot be tried again. */
static inline void bulkhead_end_early_(bulkhead *b, bulkhead_section_ *s, bulkhead_job *job,
                                       bulkhead_outcome outcome)
{
    bulkhead_end_(b, job, outcome, outcome == BULKHEAD_FAILED ? job->result : 0);
    job->runner_ = plim_thread_id_(); /* should done wait for it */
    bulkhead_add_ended_(s, job);
}

/* Says that something is over, once and for all. A thread that waits borrows a permit for a moment
 * (bulkhead_await_); with PLIM_PARK_CND, so does a thread that asks. No system has as many threads
 * as this gives permits, so the counter never reads 0 again. The release in it is the last touch of
 * the job by the thread that posts. It pairs with the acquire in bulkhead_is_posted_ and waits. */
static inline void bulkhead_post_(plim_counter *c)
{
    plim_release_(c, PLIM_PERMITS_MAX);
}

/* What a job was when it was submitted. If there is nobody to run it, it is that again. */
typedef struct bulkhead_past_ {
    uint64_t number; /* that it got by being accepted: it may be gone, and its memory reused */
    bulkhead *where;
    void *resource;
    bulkhead_outcome outcome;
    int result;
    uint32_t attempt;
    bool done, detached, cancelled;
} bulkhead_past_;

static inline bulkhead_past_ bulkhead_past_of_(const bulkhead_job *job)
{
    bulkhead_past_ past = {0,
                           job->bulkhead_,
                           job->resource,
                           job->outcome,
                           job->result,
                           job->attempt,
                           plim_load_relaxed_(&job->phase_) == BULKHEAD_DONE_,
                           job->was_detached_,
                           plim_load_relaxed_(&job->cancelled_) != 0};
    return past;
}

/* Is it that job, as it was accepted? A worker or an entry of others may have run it meanwhile, and
 * it waits for another attempt: then it has begun, and cannot be refused any more. */
static inline bool bulkhead_is_unrun_(const bulkhead_job *job, const bulkhead_past_ *past)
{
    return job->number_ == past->number && job->attempt == 0;
}

/* It was accepted, and cannot be run after all: as if it had not been submitted. The last touch of
 * the job, and the caller's is the only thread that has to do with it. */
PLIM_SLOW_ void bulkhead_refuse_(bulkhead *b, bulkhead_job *job, const bulkhead_past_ *past)
{
    bulkhead_disarm_(b, job);
    b->accepted--;
    b->jobs--;
    job->bulkhead_ = past->where;
    job->resource = past->resource;
    job->outcome = past->outcome;
    job->result = past->result;
    job->attempt = past->attempt;
    job->was_detached_ = past->detached;
    plim_store_relaxed_(&job->cancelled_, past->cancelled);
    plim_store_relaxed_(&job->phase_, past->done ? BULKHEAD_DONE_ : BULKHEAD_NEW_);
    if (past->done && !past->detached) {
        if (past->outcome == BULKHEAD_TIMED_OUT) {
            bulkhead_post_(&job->returned_);
        }
        bulkhead_post_(&job->over_);
    }
}

/* Takes a job that has not begun out of wherever it waits; false if it does not wait. */
PLIM_SLOW_ bool bulkhead_withdraw_(bulkhead *b, bulkhead_section_ *s, bulkhead_job *job)
{
    switch (plim_load_relaxed_(&job->phase_)) {
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

/* The rest of a job's end, under no lock. The last touch of it is done if it is detached, else the
 * permit for those who wait. */
static inline void bulkhead_call_done_(bulkhead *b, bulkhead_job *job)
{
    if ((b->flags & BULKHEAD_EVENTS_) != 0) {
        bulkhead_tell_(b,
                       job->outcome == BULKHEAD_TIMED_OUT ? BULKHEAD_EVENT_TIMED_OUT
                                                          : BULKHEAD_EVENT_FINISHED,
                       bulkhead_subject_of_(job), job->outcome, job->result, job->attempt);
    }
    if (job->detached) {
        plim_store_relaxed_(&job->phase_, BULKHEAD_DONE_);
    }
    if (job->done != NULL) {
        job->done(job);
    }
}

static inline void bulkhead_release_waiters_(bulkhead_job *job)
{
    plim_store_relaxed_(&job->phase_, BULKHEAD_DONE_);
    bulkhead_post_(&job->over_);
}

/* Both, for a job that has no permit. */
PLIM_SLOW_ void bulkhead_conclude_(bulkhead *b, bulkhead_job *job)
{
    const bool detached = job->detached;
    bulkhead_call_done_(b, job);
    if (!detached) {
        bulkhead_release_waiters_(job);
    }
}

/* The run timeout has passed, of a job that is not detached. The body goes on, with its permit, and
 * uses the job's memory: so who waits is released, but the job is not done before it returns. */
PLIM_SLOW_ void bulkhead_conclude_stuck_(bulkhead *b, bulkhead_job *job)
{
    bulkhead_tell_(b, BULKHEAD_EVENT_TIMED_OUT, bulkhead_subject_of_(job), job->outcome, 0,
                   job->attempt);
    if (job->done != NULL) {
        job->done(job);
    }
    bulkhead_post_(&job->over_);
}

/* May a failed attempt be followed by another? Asks the program, so not under the lock. */
static inline bool bulkhead_may_retry_(const bulkhead *b, const bulkhead_job *job, int result)
{
    uint32_t attempts = job->attempts != 0 ? job->attempts : b->attempts;
    return result != 0 && job->attempt < attempts &&
           (b->retryable == NULL || b->retryable(b->user, result, job->attempt));
}

/* How long a job waits for its next attempt: exponential, bounded, and never the same for all. */
PLIM_SLOW_ int64_t bulkhead_back_off_(bulkhead *b, uint32_t attempt)
{
    int64_t most = b->retry_delay_max_ns, delay = b->retry_delay_ns;
    for (uint32_t i = 1; i < attempt && i < 64 && delay < most; i++) {
        delay = delay > most / 2 ? most : delay * 2;
    }
    delay = delay < most ? delay : most;
    b->dice = b->dice * 6364136223846793005u + 1442695040888963407u;
    int64_t jitter = (int64_t)((b->dice >> 33) % ((uint64_t)delay / 4 + 1));
    return delay > INT64_MAX - jitter ? INT64_MAX : delay + jitter;
}

enum { BULKHEAD_OVER_, BULKHEAD_AGAIN_, BULKHEAD_LATE_ }; /* what an attempt's end is for the job */

/* An attempt has ended, and what becomes of the job is decided. `again` is the answer of
 * bulkhead_may_retry_. The permit is still held. */
PLIM_FAST_ int bulkhead_attempt_ends_(bulkhead *b, bulkhead_section_ *s, bulkhead_job *job,
                                      int result, bool again)
{
    if (b->histograms != NULL) {
        bulkhead_histogram_add(&b->histograms[1], plim_now_() - job->since_);
    }
    if (plim_load_relaxed_(&job->phase_) == BULKHEAD_STUCK_) {
        b->late++;
        b->stuck--;
        job->runner_ = 0;
        plim_store_relaxed_(&job->phase_, BULKHEAD_DONE_);
        return BULKHEAD_LATE_;
    }
    if (!again || plim_load_relaxed_(&job->cancelled_) != 0) { /* by an abort, too */
        bulkhead_end_(b, job, result == 0 ? BULKHEAD_SUCCEEDED : BULKHEAD_FAILED, result);
        return BULKHEAD_OVER_;
    }
    int64_t delay = bulkhead_back_off_(b, job->attempt);
    bulkhead_disarm_(b, job);
    b->retried++;
    job->result = result;
    job->runner_ = 0;
    if (b->histograms != NULL || delay > 0) {
        job->since_ = plim_now_();
    }
    if (delay > 0) {
        bulkhead_delay_(b, s, job, plim_deadline_(job->since_, delay));
    } else {
        plim_store_relaxed_(&job->phase_, BULKHEAD_QUEUED_);
        bulkhead_enqueue_(b, s, &job->entry_);
    }
    return BULKHEAD_AGAIN_;
}

/* The permit of an attempt that has ended is free, and all that follows from it. */
static inline void bulkhead_give_back_(bulkhead *b, bulkhead_section_ *s)
{
    s->word += BULKHEAD_PERMIT_ONE_;
    bulkhead_grant_(b, s);
}

/* Does the end of an attempt run code of the program? */
static inline bool bulkhead_calls_out_(const bulkhead *b, const bulkhead_job *job, int what)
{
    return (b->flags & BULKHEAD_EVENTS_) != 0 ? what != BULKHEAD_LATE_ || job->detached
           : what == BULKHEAD_OVER_           ? job->done != NULL
                                              : what == BULKHEAD_LATE_ && job->detached;
}

/* An attempt that has ended; on the stack of whoever has run it. */
typedef struct bulkhead_end_of_run_ {
    bulkhead_job *job; /* if it is retried, or detached and its done was called, it may be gone */
    bulkhead_subject_ about;
    uint32_t attempt;
    int result, what;
    bool detached, calls;
} bulkhead_end_of_run_;

/* Runs that code. If the job is detached, it is gone then. */
PLIM_SLOW_ void bulkhead_call_out_(bulkhead *b, const bulkhead_end_of_run_ *end)
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

/* Decides what the end of the attempt means, and runs code of the program if that is to be done
 * with the permit still held: done is part of the job. Not if it is detached: then done may submit
 * it again, and finds the permit free. Nor if there will be another attempt: that may begin, and
 * end the job, while on_event is told of this one. So nobody names the job then. */
PLIM_FAST_ bulkhead_end_of_run_ bulkhead_end_run_fast_(bulkhead *b, bulkhead_section_ *s,
                                                       bulkhead_job *job, int result, bool again)
{
    bulkhead_end_of_run_ end;
    end.job = job;
    end.about = bulkhead_subject_of_(job);
    end.attempt = job->attempt;
    end.result = result;
    end.detached = job->detached;
    end.what = bulkhead_attempt_ends_(b, s, job, result, again);
    end.calls = bulkhead_calls_out_(b, job, end.what);
    if (end.calls && end.what == BULKHEAD_OVER_ && !end.detached) {
        plim_store_relaxed_(&job->phase_, BULKHEAD_FINISHING_);
        bulkhead_unlock_(b, s);
        bulkhead_after_(b, s);
        bulkhead_call_out_(b, &end);
        *s = bulkhead_lock_(b);
        plim_store_relaxed_(&job->phase_, BULKHEAD_ENDING_);
        end.calls = false;
    }
    return end;
}

/* The same, for all but own workers. */
PLIM_CALLED_ bulkhead_end_of_run_ bulkhead_end_run_(bulkhead *b, bulkhead_section_ *s,
                                                    bulkhead_job *job, int result, bool again)
{
    return bulkhead_end_run_fast_(b, s, job, result, again);
}

/* After the permit was given back: the last touch of the job. */
static inline void bulkhead_ended_run_(bulkhead *b, const bulkhead_end_of_run_ *end)
{
    if (end->calls) {
        bulkhead_call_out_(b, end);
    } else if (end->what == BULKHEAD_OVER_ && end->detached) {
        plim_store_relaxed_(&end->job->phase_, BULKHEAD_DONE_);
    } else if (PLIM_LIKELY_(end->what == BULKHEAD_OVER_)) {
        bulkhead_release_waiters_(end->job);
    } else if (end->what == BULKHEAD_LATE_) {
        bulkhead_post_(&end->job->returned_);
    }
}
