/* A sync bulkhead: jobs on the thread that submits them. */

/* Why the job of a sync bulkhead is not to go on, under the lock: PENDING, it is. */
static inline bulkhead_outcome bulkhead_stopped_(const bulkhead *b, const bulkhead_job *job)
{
    bool cancelled = plim_load_relaxed_(&job->cancelled_) != 0;
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

/* Makes one attempt, with a permit, and says how the job ends; PENDING: there will be another, and
 * the permit was given back. The frame is in `running` as long as the permit is held: so an abort
 * reaches the job, and a wait for the permit that it has is told. */
PLIM_SLOW_ bulkhead_outcome bulkhead_attempt_here_(bulkhead *b, bulkhead_job *job,
                                                   bulkhead_frame_ *frame, int *result)
{
    const int64_t began = plim_now_(), limit = bulkhead_run_limit_(b, job);
    bulkhead_section_ s = bulkhead_lock_(b);
    plim_unlink_(&b->busy, &frame->node);
    plim_append_(&b->running, &frame->node);
    bulkhead_outcome outcome = bulkhead_stopped_(b, job);
    if (outcome == BULKHEAD_PENDING) {
        job->attempt++;
        job->runner_ = frame->thread;
        if (b->histograms != NULL) {
            bulkhead_histogram_add(&b->histograms[0], began - job->since_);
        }
    }
    bulkhead_unlock_(b, &s);
    if (outcome != BULKHEAD_PENDING) {
        return outcome;
    }
    bulkhead_tell_started_(b, job);
    *result = bulkhead_run_body_(job);
    const bool again = bulkhead_may_retry_(b, job, *result);
    const int64_t now = plim_now_();
    s = bulkhead_lock_(b);
    if (b->histograms != NULL) {
        bulkhead_histogram_add(&b->histograms[1], now - began);
    }
    if (limit > 0 && now - began > limit) { /* nobody could tell before */
        outcome = BULKHEAD_TIMED_OUT;
        *result = 0;
        b->late++;
    } else if (!again || plim_load_relaxed_(&job->cancelled_) != 0) {
        outcome = *result == 0 ? BULKHEAD_SUCCEEDED : BULKHEAD_FAILED;
    } else {
        int64_t delay = bulkhead_back_off_(b, job->attempt);
        b->retried++;
        job->result = *result;
        job->runner_ = 0;
        job->timer_.at = plim_deadline_(now, delay); /* it is not armed: when it goes on */
        plim_unlink_(&b->running, &frame->node);
        plim_append_(&b->busy, &frame->node);
        bulkhead_give_back_(b, &s);
    }
    bulkhead_unlock_(b, &s);
    bulkhead_after_(b, &s);
    return outcome;
}

/* The end of the job; `held`: with a permit. The frame keeps the bulkhead there until done has
 * returned, and the last touch of the job is as on a worker. */
PLIM_SLOW_ void bulkhead_end_here_(bulkhead *b, bulkhead_job *job, bulkhead_frame_ *frame,
                                   bulkhead_outcome outcome, int result, bool held)
{
    const bool detached = job->detached;
    bulkhead_section_ s = bulkhead_lock_(b);
    job->runner_ = frame->thread; /* should done wait for it */
    bulkhead_end_(b, job, outcome, result);
    if (detached && held) {
        plim_unlink_(&b->running, &frame->node);
        plim_append_(&b->busy, &frame->node);
        bulkhead_give_back_(b, &s);
        held = false;
    }
    bulkhead_unlock_(b, &s);
    bulkhead_after_(b, &s);
    bulkhead_call_done_(b, job);
    s = bulkhead_lock_(b);
    plim_unlink_(held ? &b->running : &b->busy, &frame->node);
    if (held) {
        bulkhead_give_back_(b, &s);
    }
    bulkhead_unlock_(b, &s);
    bulkhead_after_(b, &s);
    if (!detached) {
        bulkhead_post_(&job->returned_); /* nobody waits for it yet: the job is not over */
        bulkhead_release_waiters_(job);
    }
}

/* Waits for a permit as enter does, and runs the job. Returns when it is done. */
PLIM_SLOW_ int bulkhead_submit_here_(bulkhead *b, bulkhead_job *job, int64_t timeout_ns, int full)
{
    const bulkhead_subject_ about = bulkhead_subject_of_(job);
    const uint64_t phase = plim_load_relaxed_(&job->phase_);
    const bool expires = job->start_within_ns > 0 && job->start_within_ns < timeout_ns;
    bulkhead_frame_ frame = {{NULL, NULL}, plim_thread_id_(), job};
    int result = 0;
    plim_store_relaxed_(&job->phase_, BULKHEAD_ROOM_);
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
        plim_store_relaxed_(&job->phase_, phase);
        bulkhead_unlock_(b, &s);
        return bulkhead_reject_(b, about, error == ETIMEDOUT ? full : error);
    }
    bulkhead_renew_(b, job, since);
    plim_store_relaxed_(&job->phase_, BULKHEAD_RUNNING_);
    job->number_ = ++b->numbers;
    b->accepted++;
    b->jobs++;
    plim_append_(&b->busy, &frame.node);
    bulkhead_unlock_(b, &s);
    bulkhead_tell_(b, BULKHEAD_EVENT_ACCEPTED, about, BULKHEAD_PENDING, 0, 0);
    bulkhead_outcome outcome = expired ? BULKHEAD_EXPIRED : BULKHEAD_PENDING;
    bool held = !expired;
    while (outcome == BULKHEAD_PENDING) {
        outcome = bulkhead_attempt_here_(b, job, &frame, &result);
        if (outcome == BULKHEAD_PENDING) {
            bulkhead_tell_(b, BULKHEAD_EVENT_RETRIED, about, BULKHEAD_PENDING, result,
                           job->attempt);
            bulkhead_rest_(b, job, job->timer_.at, true);
            job->since_ = plim_now_();
            held = bulkhead_get_in_(b, PLIM_FOREVER, job->since_, true) == 0;
            outcome = held ? BULKHEAD_PENDING : BULKHEAD_FAILED; /* aborted meanwhile */
        }
    }
    bulkhead_end_here_(b, job, &frame, outcome, result, held);
    return 0;
}
