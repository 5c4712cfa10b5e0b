/* Deadlock: would a wait be for the thread that waits? */

/* How many permits the calling thread holds, as far as is known, and the job that it runs. Who has
 * entered and now waits for a limited time is not stuck, and will leave. */
PLIM_SLOW_ uint64_t bulkhead_holds_(const bulkhead *b, bulkhead_job **job, int64_t timeout_ns)
{
    uint64_t self = plim_thread_id_(), held = 0;
    *job = NULL;
    for (int i = 0; i < BULKHEAD_HOLDERS_; i++) {
        held += plim_load_relaxed_(&b->holders[i]) == self;
    }
    for (bulkhead_worker_ *at = b->workers; at != NULL; at = at->next) {
        if (at->id == self && at->job != NULL) {
            *job = at->job;
            held++;
        }
    }
    for (plim_node_ *at = b->running.first; at != NULL; at = at->next) {
        bulkhead_frame_ *frame = (bulkhead_frame_ *)(void *)at;
        if (frame->thread == self) {
            *job = frame->job;
            held++;
        }
    }
    bool only = timeout_ns == PLIM_FOREVER && plim_load_relaxed_(&b->permits) == 1 &&
                plim_load_relaxed_(&b->last) == self;
    return held == 0 && only ? 1 : held;
}

/* Is the calling thread inside the event loop that is the executor? Then no job begins before it
 * returns there. */
static inline bool bulkhead_is_executor_(const bulkhead *b)
{
    return b->executor.execute != NULL && plim_serves_(b->executor.ctx);
}

/* Would the end of everything have to wait for the calling thread? */
PLIM_SLOW_ bool bulkhead_inside_(const bulkhead *b, int64_t timeout_ns)
{
    bulkhead_job *job;
    uint64_t self = plim_thread_id_();
    bool holds = bulkhead_holds_(b, &job, timeout_ns) != 0;
    bool inside = (holds && timeout_ns == PLIM_FOREVER) || job != NULL || b->supervisor_id == self;
    inside |= (b->jobs != 0 || b->entries != 0) && bulkhead_is_executor_(b);
    for (bulkhead_worker_ *at = b->workers; at != NULL; at = at->next) {
        inside |= at->id == self;
    }
    for (plim_node_ *at = b->givers.first; at != NULL; at = at->next) {
        inside |= ((bulkhead_giver_ *)(void *)at)->thread == self;
    }
    for (plim_node_ *at = b->busy.first; at != NULL; at = at->next) {
        inside |= ((bulkhead_frame_ *)(void *)at)->thread == self;
    }
    return inside;
}

/* Is it the calling thread that would have to do what it is about to wait for? The supervisor, or
 * that of the executor's loop. */
PLIM_SLOW_ bool bulkhead_keeps_others_(const bulkhead *b)
{
    return b->supervisor_id == plim_thread_id_() || bulkhead_is_executor_(b);
}

/* Is the calling thread a worker that takes another job after this one? Not one whose job is or was
 * stuck. Nor one that is in worker_start: if that waits, so does that of each worker hired instead.
 */
PLIM_SLOW_ bool bulkhead_works_(const bulkhead *b)
{
    const uint64_t self = plim_thread_id_();
    const bulkhead_worker_ *at = b->workers;
    while (at != NULL && at->id != self) {
        at = at->next;
    }
    return at != NULL && at->started && !at->leaves && !bulkhead_is_stuck_(at->job);
}

/* Fills in who the calling thread is. */
PLIM_SLOW_ bulkhead_blocked_ bulkhead_blocked_here_(const bulkhead *b, int64_t timeout_ns)
{
    bulkhead_blocked_ self = bulkhead_not_blocked_();
    self.thread = plim_thread_id_();
    self.held = bulkhead_holds_(b, &self.mine, timeout_ns);
    self.serves = bulkhead_is_executor_(b);
    self.worker = bulkhead_works_(b);
    self.limited = timeout_ns != PLIM_FOREVER;
    return self;
}

/* Would nobody ever give a permit back, if the calling thread waited, too? That is so when every
 * permit is in use, and each belongs to a thread that waits here for ever. */
PLIM_SLOW_ bool bulkhead_is_too_deep_(const bulkhead *b, const bulkhead_section_ *s,
                                      const bulkhead_blocked_ *self)
{
    const int64_t available = bulkhead_available_(s->word);
    const uint64_t ready = plim_load_relaxed_(&b->ready);
    const uint64_t in_use = plim_load_relaxed_(&b->permits) - (uint64_t)available;
    uint64_t waiting = self->held + self->serves * ready;
    if (waiting == 0 || available > 0) {
        return false;
    }
    for (plim_node_ *at = b->blocked.first; at != NULL; at = at->next) {
        const bulkhead_blocked_ *other = (const bulkhead_blocked_ *)(const void *)at;
        bool counts = other->thread != self->thread && bulkhead_is_blocked_(other, true);
        waiting += counts ? other->held + other->serves * ready : 0;
    }
    return waiting >= in_use;
}

/*
 * From here on the calling thread waits: for the job, or by the waiter. If it is a worker, there is
 * one fewer to take what is ready: so others are woken or hired, as B1 asks. bulkhead_unblock_ ends
 * that.
 *
 * A thread may be here twice: when a wait has ended jobs that nobody can run, it calls their done,
 * and that may wait as well. Then only the inner wait counts.
 */
PLIM_SLOW_ void bulkhead_block_(bulkhead *b, bulkhead_section_ *s, bulkhead_blocked_ *self,
                                bulkhead_job *job, const plim_waiter_ *waiter)
{
    if (self->held == 0 && !self->serves && !self->worker) {
        return; /* nothing waits for this thread */
    }
    self->job = job;
    self->waiter = waiter;
    self->listed = true;
    for (plim_node_ *at = b->blocked.first; at != NULL; at = at->next) { /* the last one counts */
        bulkhead_blocked_ *other = (bulkhead_blocked_ *)(void *)at;
        self->outer = other->thread == self->thread ? other : self->outer;
    }
    if (self->outer != NULL) {
        self->outer->covered = true;
    }
    if (self->mine != NULL) {
        self->before = self->mine->waits_for_;
        self->mine->waits_for_ = self->limited && !self->until_begun ? self->before : job;
    }
    plim_append_(&b->blocked, &self->node);
    if (self->worker) {
        bulkhead_staff_(b, s);
    }
}

PLIM_SLOW_ void bulkhead_unblock_(bulkhead *b, bulkhead_blocked_ *self)
{
    if (!self->listed) {
        return;
    }
    bulkhead_section_ s = bulkhead_lock_(b);
    self->listed = false;
    plim_unlink_(&b->blocked, &self->node);
    if (self->mine != NULL) {
        self->mine->waits_for_ = self->before;
    }
    if (self->outer != NULL) { /* it goes on to wait there */
        self->outer->covered = false;
        bulkhead_staff_(b, &s);
    }
    bulkhead_unlock_(b, &s);
    bulkhead_after_(b, &s);
}
