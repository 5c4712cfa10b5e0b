/* A sync bulkhead: jobs on the thread that submits them. */

/* Why the job of a sync bulkhead is not to go on, under the lock: PENDING, it is. */
static inline bulkhead_outcome bulkhead_stopped_(const bulkhead *b, const bulkhead_job *job)
{
    bool cancelled = bulkhead_job_cancelled(job);
    return !cancelled && b->stage < PLIM_ABORTING_ ? BULKHEAD_PENDING
           : job->attempt != 0                     ? BULKHEAD_FAILED
           : cancelled                             ? BULKHEAD_CANCELLED
                                                   : BULKHEAD_ABORTED;
}

/* Waits until then, for the time of the job; less if there is no point any more. `accepted`: not by
 * a close, but only by what stops the job. */
PLIM_SLOW_ void bulkhead_rest_(bulkhead *b, const bulkhead_job *job, int64_t until, bool accepted)
{
    for (bool rests = plim_now_() < until; rests; rests = plim_now_() < until) {
        plim_waiter_ self;
        plim_waiter_init_(&self);
        bulkhead_section_ s = bulkhead_lock_(b);
        rests = accepted ? bulkhead_stopped_(b, job) == BULKHEAD_PENDING : b->stage == PLIM_OPEN_;
        if (rests) {
            plim_append_(&b->resting, &self.node);
        }
        bulkhead_unlock_(b, &s);
        if (!rests) {
            return;
        }
        if (plim_sleep_(&self, bulkhead_left_(until), false) == ETIMEDOUT) {
            s = bulkhead_lock_(b);
            plim_unlink_(&b->resting, &self.node);
            bulkhead_unlock_(b, &s);
        }
    }
}

/* Run has returned BULKHEAD_LATER: waits until the job is finished, and returns with what. */
PLIM_SLOW_ int bulkhead_await_finish_(bulkhead *b, const bulkhead_job *job)
{
    for (;;) {
        plim_waiter_ self;
        plim_waiter_init_(&self);
        bulkhead_section_ s = bulkhead_lock_(b);
        const bool finished = (job->later_ & BULKHEAD_FINISHED_) != 0;
        const int result = job->result;
        if (!finished) {
            plim_append_(&b->resting, &self.node);
        }
        bulkhead_unlock_(b, &s);
        if (finished) {
            return result;
        }
        plim_sleep_(&self, PLIM_FOREVER, true); /* others are woken with it, and look again */
    }
}

/* Gives the permit back, if the thread has it. */
PLIM_SLOW_ void bulkhead_return_permit_(bulkhead *b, bulkhead_section_ *s, bulkhead_stay_ *self)
{
    if (self->hold.amount != 0) {
        self->hold.amount = 0;
        s->word += BULKHEAD_PERMIT_ONE_;
        bulkhead_grant_(b, s);
    }
}

/* Makes one attempt, with a permit, and says how the job ends; PENDING: there will be another, and
 * the permit was given back. */
PLIM_SLOW_ bulkhead_outcome bulkhead_attempt_here_(bulkhead *b, bulkhead_job *job,
                                                   bulkhead_stay_ *self, int *result)
{
    const int64_t began = plim_now_(), limit = bulkhead_run_limit_(b, job);
    bulkhead_section_ s = bulkhead_lock_(b);
    bulkhead_outcome outcome = bulkhead_stopped_(b, job);
    if (outcome == BULKHEAD_PENDING) {
        job->attempt++;
        job->later_ = 0;
        plim_append_(&b->running, &job->entry_.node); /* so an abort reaches it */
        if (b->fixed.histograms != NULL) {
            bulkhead_time_wait_(b, began - job->since_);
        }
        job->since_ = began;
    }
    bulkhead_unlock_(b, &s);
    if (outcome != BULKHEAD_PENDING) {
        return outcome;
    }
    bulkhead_tell_started_(b, job);
    *result = bulkhead_run_body_(self, job);
    if (*result == BULKHEAD_LATER) {
        *result = bulkhead_await_finish_(b, job);
    }
    const bool again = bulkhead_may_retry_(b, job, *result);
    const int64_t now = plim_now_();
    s = bulkhead_lock_(b);
    job->later_ = BULKHEAD_FINISHED_;
    plim_unlink_(&b->running, &job->entry_.node);
    if (b->fixed.histograms != NULL) {
        bulkhead_time_run_(b, now - began);
    }
    if (limit > 0 && now - began > limit) { /* nobody could tell before */
        outcome = BULKHEAD_TIMED_OUT;
        *result = 0;
        b->totals.late++;
    } else if (!again || bulkhead_job_cancelled(job)) {
        outcome = *result == 0 ? BULKHEAD_SUCCEEDED : BULKHEAD_FAILED;
    } else {
        int64_t delay = bulkhead_back_off_(b, job->attempt);
        b->totals.retried++;
        job->result = *result;
        job->timer_.at = plim_deadline_(now, delay); /* it is not armed: when it goes on */
        bulkhead_return_permit_(b, &s, self);
    }
    bulkhead_unlock_(b, &s);
    return outcome;
}

/* The end of the job, with its permit or without. The thread is busy until done has returned, so
 * the bulkhead stays; and the last touch of the job is as on a worker. */
PLIM_SLOW_ void bulkhead_end_here_(bulkhead *b, bulkhead_job *job, bulkhead_stay_ *self,
                                   bulkhead_outcome outcome, int result)
{
    const bool detached = job->detached;
    bulkhead_section_ s = bulkhead_lock_(b);
    bulkhead_end_(b, job, outcome, result);
    if (detached) {
        bulkhead_return_permit_(b, &s, self);
    }
    bulkhead_unlock_(b, &s);
    bulkhead_call_done_(b, job);
    s = bulkhead_lock_(b);
    bulkhead_return_permit_(b, &s, self);
    b->busy--;
    if (!detached) {
        bulkhead_release_(b, &s, job, BULKHEAD_DONE_);
    }
    bulkhead_unlock_(b, &s);
}

/* Waits for a permit as enter does, and runs the job. Returns when it is done. */
PLIM_SLOW_ int bulkhead_submit_here_(bulkhead *b, bulkhead_job *job, int64_t timeout_ns, int full)
{
    const bulkhead_subject_ about = bulkhead_subject_of_(job);
    const uint64_t phase = plim_load_relaxed_(&job->entry_.phase);
    const bool expires = job->start_within_ns > 0 && job->start_within_ns < timeout_ns;
    bulkhead_stay_ self;
    int result = 0;
    plim_store_relaxed_(&job->entry_.phase, BULKHEAD_ROOM_);
    if (job->delay_ns > 0) {
        bulkhead_rest_(b, job, plim_deadline_(plim_now_(), job->delay_ns), false);
    }
    const int64_t since = plim_now_();
    int error = bulkhead_get_in_(b, expires ? job->start_within_ns : timeout_ns, since, false);
    const bool expired = error == ETIMEDOUT && expires;
    bulkhead_section_ s = bulkhead_lock_(b);
    if (expired && b->stage != PLIM_OPEN_) {
        error = ESHUTDOWN; /* nobody waits for it any more */
    }
    if (error != 0 && (!expired || error == ESHUTDOWN)) {
        plim_store_relaxed_(&job->entry_.phase, phase);
        bulkhead_unlock_(b, &s);
        return bulkhead_reject_(b, about, error == ETIMEDOUT ? full : error);
    }
    bulkhead_renew_(b, job, since);
    job->later_ = BULKHEAD_FINISHED_; /* but during an attempt */
    plim_store_relaxed_(&job->entry_.phase, BULKHEAD_RUNNING_);
    bulkhead_number_it_(b, job);
    b->busy++;
    bulkhead_unlock_(b, &s);
    bulkhead_stay_begins_(b, &self, BULKHEAD_RUNS_, plim_here_());
    self.job = job;
    self.hold.amount = !expired;
    bulkhead_tell_(b, BULKHEAD_EVENT_ACCEPTED, about, BULKHEAD_PENDING, 0, 0);
    bulkhead_outcome outcome = expired ? BULKHEAD_EXPIRED : BULKHEAD_PENDING;
    while (outcome == BULKHEAD_PENDING) {
        outcome = bulkhead_attempt_here_(b, job, &self, &result);
        if (outcome == BULKHEAD_PENDING) {
            bulkhead_tell_(b, BULKHEAD_EVENT_RETRIED, about, BULKHEAD_PENDING, result,
                           job->attempt);
            bulkhead_rest_(b, job, job->timer_.at, true);
            job->since_ = plim_now_();
            self.hold.amount = bulkhead_get_in_(b, PLIM_FOREVER, job->since_, true) == 0;
            outcome = self.hold.amount != 0 ? BULKHEAD_PENDING : BULKHEAD_FAILED; /* aborted */
        }
    }
    bulkhead_end_here_(b, job, &self, outcome, result);
    plim_hold_ends_(&self.hold, plim_here_());
    return 0;
}
