/* Jobs: what submit, wait, reclaim and cancel do that is not fast. */

PLIM_CALLED_ int bulkhead_submit_for_(bulkhead *b, bulkhead_job *job, int64_t timeout_ns)
{
    int error = bulkhead_may_submit_(job);
    if (error != 0) {
        return error;
    }
    if (b->type == BULKHEAD_SYNC) {
        return bulkhead_submit_here_(b, job, timeout_ns, ETIMEDOUT);
    }
    const bulkhead_subject_ about = bulkhead_subject_of_(job);
    error = bulkhead_submit_slow_(b, job, timeout_ns, NULL, 0);
    return error == 0 ? 0 : bulkhead_reject_(b, about, error);
}

/* How long submit waits for a place. */
static inline int64_t bulkhead_patience_(const bulkhead *b)
{
    return b->timeout_ns > 0 ? b->timeout_ns : 0;
}

/* How long enter waits for a permit. */
static inline int64_t bulkhead_enter_timeout_(const bulkhead *b)
{
    return b->timeout_ns == 0 ? PLIM_FOREVER : bulkhead_patience_(b);
}

/* A refusal without a wait is EAGAIN. */
static inline int bulkhead_tried_(int error, int64_t timeout_ns)
{
    return error == ETIMEDOUT && timeout_ns <= 0 ? EAGAIN : error;
}

PLIM_CALLED_ int bulkhead_submit_(bulkhead *b, bulkhead_job *job)
{
    int64_t patience = bulkhead_patience_(b);
    int error = bulkhead_may_submit_(job);
    if (error != 0) {
        return error;
    }
    if (b->type == BULKHEAD_SYNC) {
        int64_t timeout_ns = bulkhead_enter_timeout_(b);
        return bulkhead_submit_here_(b, job, timeout_ns, bulkhead_tried_(ETIMEDOUT, timeout_ns));
    }
    const bulkhead_subject_ about = bulkhead_subject_of_(job);
    error = bulkhead_tried_(bulkhead_submit_slow_(b, job, patience, NULL, 0), patience);
    return error == 0 ? 0 : bulkhead_reject_(b, about, error);
}

/* Looks for a while whether the job gets done. */
static inline bool bulkhead_is_done_soon_(bulkhead_job *job, int64_t until)
{
    bool on = true;
    for (int i = 0; on && i < PLIM_SPIN; i++) {
        if (bulkhead_is_done_(job)) {
            return true;
        }
        on = plim_look_on_(i, PLIM_SPIN / 2, until);
    }
    return bulkhead_is_done_(job);
}

/* Is the job, or one that it waits for, the one that the calling thread runs? */
static inline bool bulkhead_waits_for_us_(const bulkhead_job *job)
{
    uint64_t self = plim_thread_id_();
    while (job != NULL && plim_load_relaxed_(&job->phase_) != BULKHEAD_DONE_) {
        if (job->runner_ == self) {
            return true;
        }
        job = job->waits_for_;
    }
    return false;
}

PLIM_CALLED_ int bulkhead_wait_slow_(bulkhead_job *job, int64_t timeout_ns)
{
    bulkhead *b = job->bulkhead_;
    const int64_t until = bulkhead_until_(timeout_ns);
    if (bulkhead_is_done_soon_(job, until)) {
        return 0;
    }
    bulkhead_section_ s = bulkhead_lock_(b);
    uint64_t phase = plim_load_relaxed_(&job->phase_);
    bulkhead_blocked_ blocked = bulkhead_blocked_here_(b, timeout_ns);
    bool never = bulkhead_waits_for_us_(job) ||
                 (phase < BULKHEAD_STUCK_ && bulkhead_is_too_deep_(b, &s, &blocked)) ||
                 (phase < BULKHEAD_RUNNING_ && bulkhead_keeps_others_(b)) ||
                 (phase == BULKHEAD_STUCK_ && b->supervisor_id == plim_thread_id_());
    int error = never ? EDEADLK : 0;
    if (error == 0) {
        bulkhead_block_(b, &s, &blocked, job, NULL);
    }
    bulkhead_unlock_(b, &s);
    bulkhead_after_(b, &s);
    if (error == 0) {
        plim_place_ *here = *plim_here_();
        if (plim_may_wait_(here, &job->place_, NULL)) {
            error = bulkhead_await_(&job->over_, bulkhead_left_(until));
            plim_wait_over_(here);
        } else {
            error = EDEADLK;
        }
        bulkhead_unblock_(b, &blocked);
    }
    return error;
}

PLIM_SLOW_ int bulkhead_reclaim_slow_(bulkhead_job *job, int64_t timeout_ns)
{
    if (bulkhead_is_posted_(&job->returned_)) {
        return 0;
    }
    bulkhead *b = job->bulkhead_; /* is there as long as the body runs */
    bulkhead_section_ s = bulkhead_lock_(b);
    bulkhead_blocked_ blocked = bulkhead_blocked_here_(b, timeout_ns);
    blocked.returns = true;
    bool never = job->runner_ == blocked.thread || bulkhead_is_too_deep_(b, &s, &blocked);
    if (!never) {
        bulkhead_block_(b, &s, &blocked, job, NULL);
    }
    bulkhead_unlock_(b, &s);
    bulkhead_after_(b, &s);
    int error = never ? EDEADLK : bulkhead_await_(&job->returned_, timeout_ns);
    bulkhead_unblock_(b, &blocked);
    return error;
}

PLIM_SLOW_ int bulkhead_cancel_(bulkhead *b, bulkhead_job *job)
{
    if (job == NULL) {
        return EINVAL;
    }
    bulkhead_section_ s = bulkhead_lock_(b); /* under which both are set, if it is b's */
    uint64_t phase = plim_load_relaxed_(&job->phase_);
    int error = phase <= BULKHEAD_ROOM_ || job->bulkhead_ != b ? EINVAL
                : phase > BULKHEAD_RUNNING_                    ? EALREADY
                                                               : 0;
    if (error == 0) {
        plim_end_waits_(&s.woken, &b->resting, 0); /* it may be one of a sync bulkhead */
        plim_store_relaxed_(&job->cancelled_, 1);
        error = bulkhead_withdraw_(b, &s, job) ? 0 : EBUSY;
    }
    if (error == 0) {
        bulkhead_end_early_(b, &s, job, BULKHEAD_CANCELLED);
        bulkhead_grant_(b, &s);
    }
    bulkhead_unlock_(b, &s);
    bulkhead_after_(b, &s);
    return error;
}
