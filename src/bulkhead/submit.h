/* Submitting a job: refused, accepted, or in line for a place. */

/* Does the job need the supervisor? */
static inline bool bulkhead_needs_watch_(const bulkhead *b, const bulkhead_job *job)
{
    uint32_t attempts = job->attempts != 0 ? job->attempts : b->attempts;
    return job->delay_ns != 0 || job->start_within_ns != 0 || bulkhead_run_limit_(b, job) != 0 ||
           (attempts > 1 && b->retry_delay_ns != 0);
}

/* When a wait of that length is over, and how long it still is: looking comes out of its time. */
static inline int64_t bulkhead_until_(int64_t timeout_ns)
{
    return timeout_ns == PLIM_FOREVER ? PLIM_FOREVER : plim_deadline_(plim_now_(), timeout_ns);
}

static inline int64_t bulkhead_left_(int64_t until)
{
    int64_t left = until == PLIM_FOREVER ? PLIM_FOREVER : until - plim_now_();
    return left > 0 ? left : 0;
}

/* Waits for a place in the queue; whoever frees one accepts the job. `invokes`: then the thread
 * waits for the job, and stays blocked. */
PLIM_CALLED_ int bulkhead_await_room_(bulkhead *b, bulkhead_section_ *s, bulkhead_job *job,
                                      int64_t timeout_ns, int64_t since, bulkhead_blocked_ *blocked,
                                      bool invokes)
{
    bulkhead_submitter_ self;
    const uint64_t phase = plim_load_relaxed_(&job->phase_);
    plim_waiter_init_(&self.waiter);
    self.job = job;
    self.since = since;
    plim_store_relaxed_(&job->phase_, BULKHEAD_ROOM_);
    bulkhead_block_(b, s, blocked, invokes ? job : NULL, &self.waiter);
    plim_append_(&b->room, &self.waiter.node);
    bulkhead_unlock_(b, s);
    bulkhead_after_(b, s);
    /* It is the workers who make room, and they may want the CPU: so it is offered to them. */
    const int64_t until = bulkhead_until_(timeout_ns);
    bool on = true;
    for (int i = 0; on && i < PLIM_SPIN && plim_load_relaxed_(&self.waiter.wake.word) == 0; i++) {
        on = plim_look_on_(i, PLIM_SPIN / 2, until);
    }
    int error = plim_sleep_(&self.waiter, bulkhead_left_(until), false);
    if (error != 0) {
        *s = bulkhead_lock_(b);
        if (error == ETIMEDOUT) {
            plim_unlink_(&b->room, &self.waiter.node);
            bulkhead_grant_(b, s); /* one behind us may need less: a permit, not a place */
        }
        plim_store_relaxed_(&job->phase_, phase);
        bulkhead_unlock_(b, s);
        bulkhead_after_(b, s);
    }
    if (error != 0 || !invokes) {
        bulkhead_unblock_(b, blocked);
    } else if (blocked->listed) { /* it goes on to wait for the job */
        *s = bulkhead_lock_(b);
        blocked->waiter = NULL;
        bulkhead_unlock_(b, s);
    }
    return error;
}

/* Gives the entry of the job that was just accepted to the executor; if that refuses, so do we. */
PLIM_SLOW_ int bulkhead_give_first_(bulkhead *b, bulkhead_section_ *s, const bulkhead_past_ *mine)
{
    int error = b->executor.execute(b->executor.ctx, bulkhead_execute_, b);
    error = error != 0 ? bulkhead_entry_refused_(b, mine) : 0;
    bulkhead_unbusy_(b, &s->frame);
    return error;
}

/* Has somebody to do with the job? Not when the last touch of it has been seen. */
static inline bool bulkhead_in_flight_(bulkhead_job *job)
{
    uint64_t phase = plim_load_relaxed_(&job->phase_);
    if (phase != BULKHEAD_DONE_ || job->was_detached_) {
        return phase != BULKHEAD_NEW_ && phase != BULKHEAD_DONE_;
    }
    return !bulkhead_is_done_(job) ||
           (job->outcome == BULKHEAD_TIMED_OUT && !bulkhead_is_posted_(&job->returned_));
}

/* May the job be submitted? 0, EINVAL, EBUSY. Changes nothing: if it is refused, a job that is
 * done stays as it is. */
static inline int bulkhead_may_submit_(bulkhead_job *job)
{
    if (job == NULL || job->run == NULL || job->delay_ns < 0 || job->start_within_ns < 0 ||
        job->run_timeout_ns < PLIM_NONE) {
        return EINVAL;
    }
    return bulkhead_in_flight_(job) ? EBUSY : 0;
}

/* Submits. A caller that will wait for the job, at most wait_ns until it begins, gives `blocked`,
 * which it has to undo if this succeeds. */
PLIM_CALLED_ int bulkhead_submit_slow_(bulkhead *b, bulkhead_job *job, int64_t timeout_ns,
                                       bulkhead_blocked_ *blocked, int64_t wait_ns)
{
    bulkhead_blocked_ here = bulkhead_not_blocked_();
    bulkhead_blocked_ *self = blocked != NULL ? blocked : &here;
    uint64_t word = plim_load_relaxed_(&b->gate.word);
    const bulkhead_subject_ about = bulkhead_subject_of_(job); /* it may be gone at the end */
    const bool events = (b->flags & BULKHEAD_EVENTS_) != 0;
    int error = (word & BULKHEAD_CLOSED_) != 0 ? ESHUTDOWN : 0;
    if (error == 0 && timeout_ns <= 0 && bulkhead_available_(word) <= 0 &&
        !bulkhead_may_have_room_(b, word)) {
        error = ETIMEDOUT;
    }
    if (error == 0 && bulkhead_needs_watch_(b, job) && plim_load_relaxed_(&b->supervised) == 0) {
        error = bulkhead_supervise_(b);
    }
    if (error != 0) {
        return error;
    }
    const int64_t since = b->histograms == NULL ? 0 : plim_now_();
    bulkhead_section_ s = bulkhead_lock_fast_(b, PLIM_SOON_);
    bool runs = bulkhead_runs_(b, &s, job);
    bool admits = runs || (b->room.first == NULL && bulkhead_has_room_(b, s.word));
    error = (s.word & BULKHEAD_CLOSED_) != 0 ? ESHUTDOWN
            : !admits && timeout_ns <= 0     ? ETIMEDOUT
            : !runs && wait_ns < 0           ? ETIMEDOUT
                                             : 0;
    if (error == 0 && (blocked != NULL || !admits)) {
        *self = bulkhead_blocked_here_(b, blocked != NULL ? wait_ns : timeout_ns);
        self->until_begun = self->returns = blocked != NULL;
        bool deep = !runs && bulkhead_is_too_deep_(b, &s, self);
        error = deep || (blocked != NULL && bulkhead_keeps_others_(b)) ? EDEADLK : 0;
    }
    if (error != 0) {
        bulkhead_unlock_(b, &s);
        return error;
    }
    if (!admits) {
        error = bulkhead_await_room_(b, &s, job, timeout_ns, since, self, blocked != NULL);
    } else {
        bulkhead_past_ past = bulkhead_past_of_(job);
        bulkhead_accept_(b, &s, job, since);
        past.number = job->number_;
        if (blocked != NULL) {
            bulkhead_block_(b, &s, blocked, job, NULL);
        }
        if (b->executor.execute == NULL && b->threads == 0 && bulkhead_is_short_(b)) {
            bulkhead_plan_hire_(b, &s); /* better to fail now than when its turn has come */
        }
        bulkhead_unlock_fast_(b, &s);
        if (s.entries != 0) {
            error = bulkhead_give_first_(b, &s, &past);
        }
        for (; s.hires != 0; s.hires--) { /* others may have been short of workers, too */
            int failed = bulkhead_hire_(b, &past);
            error = failed != 0 ? failed : error;
        }
    }
    if (error != 0) {
        bulkhead_unblock_(b, self);
    }
    if (error == 0 && events) {
        bulkhead_tell_(b, BULKHEAD_EVENT_ACCEPTED, about, BULKHEAD_PENDING, 0, 0);
    }
    return error;
}
