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
PLIM_RARE_ void bulkhead_rest_(bulkhead *b, const bulkhead_job *job, int64_t until, bool accepted)
{
    bool rests = true;
    while (rests && plim_now_() < until) {
        bulkhead_section_ s = bulkhead_lock_(b);
        rests = accepted ? bulkhead_stopped_(b, job) == BULKHEAD_PENDING : b->stage == PLIM_OPEN_;
        if (rests) {
            bulkhead_wait_in_(b, &s, &b->resting, bulkhead_left_(until), false);
        } else {
            bulkhead_unlock_(b, &s);
        }
    }
}

/* Run has returned BULKHEAD_LATER: waits until the job is finished, and returns with what. */
PLIM_RARE_ int bulkhead_await_finish_(bulkhead *b, const bulkhead_job *job)
{
    bulkhead_section_ s = bulkhead_lock_(b);
    while ((job->later_ & BULKHEAD_FINISHED_) == 0) { /* others are woken with it, and look again */
        bulkhead_wait_in_(b, &s, &b->resting, PLIM_FOREVER, true);
        s = bulkhead_lock_(b);
    }
    const int result = job->result;
    bulkhead_unlock_(b, &s);
    return result;
}

/* Makes an attempt, unless there is no point any more, and says what its end is for the job. The
 * thread has a permit, as its stay says, or will not get one for another attempt. */
PLIM_RARE_ int bulkhead_attempt_here_(bulkhead *b, bulkhead_job *job, bulkhead_stay_ *self)
{
    bulkhead_section_ s = bulkhead_lock_(b);
    const bool permit = self->hold.amount != 0;
    const bulkhead_outcome stopped = permit ? bulkhead_stopped_(b, job) : BULKHEAD_FAILED;
    if (stopped != BULKHEAD_PENDING) {
        s.word += permit ? BULKHEAD_PERMIT_ONE_ : 0;
        self->hold.amount = 0;
        bulkhead_end_early_(b, &s, job, stopped);
        bulkhead_unlock_(b, &s);
        return BULKHEAD_OVER_;
    }
    int result = bulkhead_run_listed_(b, &s, self, job);
    if (result == BULKHEAD_LATER) {
        result = bulkhead_await_finish_(b, job);
    }
    return bulkhead_end_listed_(b, self, result);
}

/* The job is accepted: makes its attempts. */
PLIM_RARE_ void bulkhead_run_here_(bulkhead *b, bulkhead_job *job, bulkhead_stay_ *self)
{
    while (bulkhead_attempt_here_(b, job, self) == BULKHEAD_AGAIN_) {
        bulkhead_rest_(b, job, job->timer_.at, true);
        job->since_ = plim_now_();
        self->hold.amount =
            !bulkhead_job_cancelled(job) && /* nor if that is aborted, or never ends */
            bulkhead_get_in_(b, PLIM_FOREVER, job->since_, true) == 0;
    }
}

/* Waits for a permit as enter does, and runs the job. Returns when it is done. */
PLIM_SLOW_ int bulkhead_submit_here_(bulkhead *b, bulkhead_job *job, int64_t timeout_ns, int full)
{
    const bulkhead_subject_ about = bulkhead_subject_of_(job);
    const uint64_t phase = plim_load_relaxed_(&job->entry_.phase);
    const bool expires = job->start_within_ns > 0 && job->start_within_ns < timeout_ns;
    bulkhead_stay_ self;
    plim_store_relaxed_(&job->entry_.phase, BULKHEAD_ROOM_);
    if (job->delay_ns > 0) {
        bulkhead_rest_(b, job, plim_deadline_(plim_now_(), job->delay_ns), false);
    }
    const int64_t since = plim_now_();
    int error = bulkhead_get_in_(b, expires ? job->start_within_ns : timeout_ns, since, false);
    const bool expired = error == ETIMEDOUT && expires;
    bulkhead_section_ s = bulkhead_lock_(b);
    if (expired) {
        error = b->stage != PLIM_OPEN_ ? ESHUTDOWN : 0; /* closed: nobody waits for it any more */
    }
    if (error != 0) {
        plim_store_relaxed_(&job->entry_.phase, phase);
        bulkhead_unlock_(b, &s);
        return bulkhead_reject_(b, about, error == ETIMEDOUT ? full : error);
    }
    bulkhead_reset_(b, job, since);
    job->later_ = BULKHEAD_FINISHED_; /* set except during an attempt: a finish is refused */
    plim_store_relaxed_(&job->entry_.phase, BULKHEAD_RUNNING_);
    bulkhead_number_it_(b, job);
    bulkhead_unlock_(b, &s);
    bulkhead_stay_here_(b, &self, BULKHEAD_RUNS_, job);
    self.hold.amount = !expired;
    bulkhead_tell_(b, BULKHEAD_EVENT_ACCEPTED, about, BULKHEAD_PENDING, 0, 0);
    if (expired) {
        s = bulkhead_lock_(b);
        bulkhead_end_early_(b, &s, job, BULKHEAD_EXPIRED);
        bulkhead_unlock_(b, &s);
    } else {
        bulkhead_run_here_(b, job, &self);
    }
    bulkhead_stay_ends_(&self);
    return 0;
}
