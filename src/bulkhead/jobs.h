/* Jobs: what submit, wait, reclaim and cancel do that is not fast. */

/* How long submit waits for a place. */
static inline int64_t bulkhead_patience_(const bulkhead *b)
{
    return b->fixed.timeout_ns > 0 ? b->fixed.timeout_ns : 0;
}

/* How long enter waits for a permit. */
static inline int64_t bulkhead_enter_timeout_(const bulkhead *b)
{
    return b->fixed.timeout_ns == 0 ? PLIM_FOREVER : bulkhead_patience_(b);
}

/* A refusal without a wait is EAGAIN. */
static inline int bulkhead_tried_(int error, int64_t timeout_ns)
{
    return error == ETIMEDOUT && timeout_ns <= 0 ? EAGAIN : error;
}

/* The fast way is not open. Most that are refused are so at once, and that is quick. */
PLIM_CALLED_ int bulkhead_submit_or_(bulkhead *b, bulkhead_job *job, int64_t timeout_ns)
{
    const bool async = b->fixed.type == BULKHEAD_ASYNC, as_set = timeout_ns == BULKHEAD_AS_SET_;
    if (as_set) {
        timeout_ns = async ? bulkhead_patience_(b) : bulkhead_enter_timeout_(b);
    }
    const int full = as_set ? bulkhead_tried_(ETIMEDOUT, timeout_ns) : ETIMEDOUT;
    if (!async) {
        return bulkhead_submit_here_(b, job, timeout_ns, full);
    }
    if (timeout_ns > 0 && bulkhead_submit_soon_(b, job, &timeout_ns)) {
        return 0;
    }
    int error = bulkhead_refuse_early_(b, timeout_ns);
    if (error == 0) {
        error = bulkhead_submit_slow_(b, job, timeout_ns, NULL, 0);
    }
    if (error == 0) {
        return 0;
    }
    bulkhead_subject_ about = bulkhead_no_job_();
    if ((b->fixed.flags & BULKHEAD_EVENTS_) != 0) {
        about = bulkhead_subject_of_(job);
    }
    return bulkhead_reject_(b, about, error == ETIMEDOUT ? full : error);
}

PLIM_CALLED_ int bulkhead_submit_(bulkhead *b, bulkhead_job *job, int64_t timeout_ns)
{
    const int error = bulkhead_may_submit_(job);
    return error != 0                                    ? error
           : PLIM_LIKELY_(bulkhead_submit_fast_(b, job)) ? 0
                                                         : bulkhead_submit_or_(b, job, timeout_ns);
}

static inline void bulkhead_pause_(int pauses)
{
    for (int i = 0; i < pauses; i++) {
        plim_pause_();
    }
}

/* Looks for a while whether the job gets done. Each look takes the job's line away from the worker,
 * which is about to write to it several times. So the first look comes when the job may be done,
 * and they are apart. */
PLIM_CALLED_ bool bulkhead_is_done_soon_(bulkhead_job *job, int64_t until)
{
    bool on = PLIM_SPIN > 0;
    if (on) {
        bulkhead_pause_(4);
    }
    for (int i = 0; on && i < PLIM_SPIN; i++) {
        if (bulkhead_is_done_(job)) {
            return true;
        }
        bulkhead_pause_(i < PLIM_SPIN / 8 ? 1 : 0);
        on = plim_look_on_(i, PLIM_SPIN / 8, until);
    }
    return bulkhead_is_done_(job);
}

/* Is what the caller waits for so? Under the lock. */
static inline bool bulkhead_wait_is_over_(const bulkhead_job *job, bool returned)
{
    uint64_t phase = plim_load_relaxed_(&job->entry_.phase);
    return phase == BULKHEAD_DONE_ || (phase == BULKHEAD_OVERDUE_ && !returned);
}

/* From here on this waits for the end of the job. */
static inline void bulkhead_join_(bulkhead_job *job, bulkhead_await_ *self, plim_place_ *here,
                                  bool returned)
{
    plim_waiter_init_(&self->waiter);
    self->here = here;
    self->returned = returned;
    self->gone = false;
    self->next = job->waiters_;
    job->waiters_ = self;
    PLIM_PROBE_(queue, job, &self->waiter.wake);
}

/* It gives up, and does not wait for the job any more. Under the lock. If its wait was taken off
 * the job already, the job may be gone, and the bulkhead stays for this. Otherwise the job may go
 * after it. */
static inline void bulkhead_leave_job_waiters_(bulkhead *b, bulkhead_job *job,
                                               bulkhead_await_ *self)
{
    bulkhead_await_ **at = &job->waiters_;
    if (self->gone) {
        b->busy--;
        return;
    }
    plim_awaits_(self->here, NULL, NULL);
    while (*at != self) {
        at = &(*at)->next;
    }
    *at = self->next;
}

/* Ends the section, and waits for the end of the job: 0, ETIMEDOUT, EDEADLK. `blocked`: who waits,
 * if that is not known yet, or NULL. If the wait was ended, the job may be gone, and so may the
 * bulkhead. */
PLIM_RARE_ int bulkhead_sleep_(bulkhead *b, bulkhead_section_ *s, bulkhead_job *job,
                               int64_t timeout_ns, bool returned, plim_place_ *here,
                               bulkhead_blocked_ *blocked)
{
    bulkhead_await_ self;
    bulkhead_join_(job, &self, here, returned);
    if (blocked != NULL) {
        bulkhead_block_(b, s, blocked, job, &self.waiter);
    }
    bulkhead_unlock_(b, s);
    const int error = plim_sleep_(&self.waiter, timeout_ns, false);
    if (error == ETIMEDOUT) {
        *s = bulkhead_lock_(b);
        bulkhead_leave_job_waiters_(b, job, &self);
        bulkhead_unlock_(b, s);
    }
    if (blocked != NULL) {
        bulkhead_unblock_(b, blocked);
    }
    return error;
}

/* A section to wait for a job. If it came too late for an abort, the jobs that the abort left are
 * ours to finish. This very job may be among them. So that is done before, and once more. */
PLIM_RARE_ bulkhead_section_ bulkhead_lock_to_wait_(bulkhead *b)
{
    bulkhead_section_ s = b->slow->lock(b);
    while (s.ended != NULL) {
        b->slow->unlock(b, &s);
        s = b->slow->lock(b);
    }
    return s;
}

/* Would nobody be left to go on, if that waited for the job? Not if the job has timed out, and its
 * done is being called. */
PLIM_RARE_ bool bulkhead_is_too_deep_for_(const bulkhead *b, const bulkhead_section_ *s,
                                          const bulkhead_job *job, const bulkhead_blocked_ *self)
{
    return plim_load_relaxed_(&job->entry_.phase) < BULKHEAD_STUCK_ &&
           bulkhead_is_too_deep_(b, s, self);
}

/* Would that thread wait for itself, if it waited for the job, or (`returned`) for its body? */
PLIM_RARE_ bool bulkhead_never_ends_(const bulkhead *b, const bulkhead_section_ *s,
                                     const bulkhead_job *job, const bulkhead_blocked_ *self,
                                     bool returned)
{
    const uint64_t phase = plim_load_relaxed_(&job->entry_.phase);
    return bulkhead_waits_for_us_(b, job) ||
           (returned ? bulkhead_is_too_deep_(b, s, self)
                     : bulkhead_is_too_deep_for_(b, s, job, self)) ||
           (phase < BULKHEAD_RUNNING_ && bulkhead_keeps_others_(b)) ||
           (phase == BULKHEAD_RUNNING_ && bulkhead_is_executor_(b)); /* it is away */
}

/* Waits for the end of the job, or (`returned`) of its body: 0, ETIMEDOUT, EDEADLK. */
PLIM_SLOW_ int bulkhead_wait_slow_(bulkhead_job *job, int64_t timeout_ns, bool returned)
{
    bulkhead *b = job->bulkhead_; /* is there as long as the body runs */
    const int64_t until = bulkhead_until_(timeout_ns);
    if (!returned && bulkhead_is_done_soon_(job, until)) {
        return 0;
    }
    /* Before we sleep on the job, while it cannot go: a thread that nobody waits for has none. */
    plim_place_ *here = *plim_here_();
    if (!plim_may_wait_(here, &job->goal_, NULL)) {
        return EDEADLK;
    }
    bulkhead_section_ s = bulkhead_lock_to_wait_(b);
    bulkhead_blocked_ blocked = bulkhead_blocked_here_(b, timeout_ns);
    const bool over = bulkhead_wait_is_over_(job, returned);
    int error = 0;
    if (over || bulkhead_never_ends_(b, &s, job, &blocked, returned)) {
        bulkhead_unlock_(b, &s);
        error = over ? 0 : EDEADLK;
    } else {
        error = bulkhead_sleep_(b, &s, job, bulkhead_left_(until), returned, here, &blocked);
    }
    plim_wait_over_(here);
    return error;
}

/* Is in the file that calls it, and reaches the sections through the table. */
static inline int bulkhead_cancel(bulkhead *b, bulkhead_job *job)
{
    if (job == NULL) {
        return EINVAL;
    }
    bulkhead_section_ s = b->slow->lock(b); /* a job that comes by the inbox is in it by now */
    uint64_t phase = plim_load_relaxed_(&job->entry_.phase);
    int error = phase < BULKHEAD_DELAYED_ || job->bulkhead_ != b ? EINVAL
                : phase > BULKHEAD_RUNNING_                      ? EALREADY
                                                                 : 0;
    if (error == 0) {
        plim_end_waits_(&s.woken, &b->resting, 0); /* it may be one of a sync bulkhead */
        bulkhead_mark_cancelled_(job);
        error = bulkhead_withdraw_(b, &s, job) ? 0 : EBUSY;
    }
    if (error == 0) {
        bulkhead_end_early_(b, &s, job, BULKHEAD_CANCELLED);
    }
    b->slow->unlock(b, &s);
    return error;
}
