/* Coroutines of loop_scheduler.h that wait for a permit, or for a job. */

/*
 * They are callers like any other: in the same line, counted by the same rules against a deadlock.
 * But no thread sleeps. The thread that ends the wait calls `resume` after the section, instead of
 * waking a thread. The loop's thread then calls `end`, or `give_up` and `end`: see core/await.h.
 *
 * Only LOOP_ENTER and LOOP_WAIT call these functions. So a file that does not use them does not
 * contain them. They reach the sections through the table: so one that does contains little.
 */
static inline void bulkhead_permit_had_(plim_waiter_ *waiter)
{
    plim_await_ *self =
        (plim_await_ *)(void *)((char *)waiter - offsetof(plim_await_, bulkhead.caller.waiter));
    self->resume(self);
}

static inline void bulkhead_job_ended_(plim_waiter_ *waiter)
{
    plim_await_ *self =
        (plim_await_ *)(void *)((char *)waiter - offsetof(plim_await_, bulkhead.await.waiter));
    self->resume(self);
}

/* Does it work with a permit of this bulkhead that a job has? */
static inline bool bulkhead_lends_(const bulkhead *b, const bulkhead_job *job)
{
    const uint64_t phase =
        job == NULL ? (uint64_t)BULKHEAD_NEW_ : plim_load_relaxed_(&job->entry_.phase);
    return phase >= BULKHEAD_RUNNING_ && phase <= BULKHEAD_OVERDUE_ && job->bulkhead_ == b;
}

/* Tells the waits of coroutines apart, in place of a thread. */
static inline uint64_t bulkhead_await_id_(const plim_await_ *self)
{
    return (uint64_t)(uintptr_t)self;
}

/* Fills in what waits. Its thread goes on with other coroutines: so no thread waits, and no
 * worker. */
static inline void bulkhead_blocked_is_(bulkhead *b, plim_await_ *self, plim_waiter_ *waiter)
{
    bulkhead_blocked_ *blocked = &self->bulkhead.blocked;
    const bool lends = bulkhead_lends_(b, self->job);
    *blocked = bulkhead_not_blocked_();
    blocked->thread = bulkhead_await_id_(self);
    blocked->waiter = waiter;
    blocked->held = self->held + lends;
    blocked->mine = lends ? self->job : NULL;
    blocked->limited = self->timeout_ns != PLIM_FOREVER;
}

/* What goes with the end of any wait. Returns the answer: the bulkhead's if it has ended the wait,
 * or else the one that the loop gives up with. While it is listed it has a permit, so the bulkhead
 * is there. */
PLIM_SLOW_ int bulkhead_await_ends_(plim_await_ *self, int error)
{
    bulkhead_awaits_ *at = &self->bulkhead;
    plim_waiter_ *waiter = at->blocked.waiter;
    const bool ended = plim_load_relaxed_(&waiter->state) == PLIM_ENDED_;
    if (at->blocked.listed) {
        bulkhead_section_ s = at->bulkhead->slow->lock(at->bulkhead);
        plim_unlink_(&at->bulkhead->blocked, &at->blocked.node);
        at->bulkhead->slow->unlock(at->bulkhead, &s);
    }
    return ended ? waiter->answer : error;
}

/* ---- A permit ---- */

static inline int bulkhead_leave_it_(void *b)
{
    return bulkhead_leave((bulkhead *)b);
}

/* Takes its place in the queue back; false if its permit, or a refusal, is on the way. */
PLIM_SLOW_ bool bulkhead_give_up_permit_(plim_await_ *self)
{
    bulkhead *b = self->bulkhead.bulkhead;
    bulkhead_caller_ *caller = &self->bulkhead.caller;
    if (!plim_decide_(&caller->waiter, PLIM_LEAVING_)) {
        return false;
    }
    bulkhead_section_ s = b->slow->lock(b);
    if (!caller->gone) {
        bulkhead_dequeue_(b, &s, &caller->entry);
    }
    b->slow->unlock(b, &s);
    return true;
}

/* What goes with the answer. */
PLIM_RARE_ int bulkhead_answer_(bulkhead *b, int64_t since, int error)
{
    if (error != 0) {
        return bulkhead_reject_(b, bulkhead_no_job_(), error);
    }
    bulkhead_note_last_(b, plim_thread_id_());
    if ((b->fixed.flags & BULKHEAD_HOOKS_) != 0) {
        b->slow->entered(b, since);
    }
    return 0;
}

PLIM_SLOW_ int bulkhead_permit_ends_(plim_await_ *self, int error)
{
    error = bulkhead_await_ends_(self, error);
    return bulkhead_answer_(self->bulkhead.bulkhead, self->bulkhead.caller.since, error);
}

/* As enter, for a coroutine: PLIM_AWAITS_ instead of sleeping. `full`: as for enter. */
PLIM_SLOW_ int bulkhead_await_permit_(bulkhead *b, plim_await_ *self, int64_t timeout_ns, int full)
{
    bulkhead_awaits_ *at = &self->bulkhead;
    const int64_t since = b->fixed.histograms == NULL ? 0 : plim_now_();
    self->timeout_ns = timeout_ns;
    self->leave = bulkhead_leave_it_;
    self->give_up = bulkhead_give_up_permit_;
    self->end = bulkhead_permit_ends_;
    at->bulkhead = b;
    at->job = NULL;
    bulkhead_section_ s = b->slow->lock(b);
    const bool takes = bulkhead_enters_(b, s.word);
    int error = bulkhead_refusal_(s.word, takes, bulkhead_has_room_(b, s.word), timeout_ns);
    if (error == 0 && takes) {
        s.word -= BULKHEAD_PERMIT_ONE_;
    } else if (error == 0) {
        bulkhead_blocked_is_(b, self, &at->caller.waiter);
        error = bulkhead_line_up_(b, &s, &at->caller, &at->blocked, since);
        if (error == 0) {
            at->caller.owed = true;
            at->caller.waiter.notify = bulkhead_permit_had_;
            error = PLIM_AWAITS_;
        }
    }
    b->slow->unlock(b, &s);
    return error == PLIM_AWAITS_ ? error
                                 : bulkhead_answer_(b, since, error == ETIMEDOUT ? full : error);
}

static inline int bulkhead_await_enter_for_(bulkhead *b, plim_await_ *self, int64_t timeout_ns)
{
    return self == NULL ? EOVERFLOW : bulkhead_await_permit_(b, self, timeout_ns, ETIMEDOUT);
}

static inline int bulkhead_await_enter_(bulkhead *b, plim_await_ *self)
{
    const int64_t timeout_ns = bulkhead_enter_timeout_(b);
    return self == NULL ? EOVERFLOW
                        : bulkhead_await_permit_(b, self, timeout_ns,
                                                 bulkhead_tried_(ETIMEDOUT, timeout_ns));
}

/* ---- A job ---- */

static inline bulkhead *bulkhead_of_job_(const bulkhead_job *job)
{
    return job == NULL ? NULL : job->bulkhead_;
}

/* No longer waits for the job; false if the job has ended the wait. */
PLIM_SLOW_ bool bulkhead_give_up_job_(plim_await_ *self)
{
    bulkhead_awaits_ *at = &self->bulkhead;
    if (!plim_decide_(&at->await.waiter, PLIM_LEAVING_)) {
        return false;
    }
    bulkhead_section_ s = at->bulkhead->slow->lock(at->bulkhead);
    bulkhead_leave_job_waiters_(at->bulkhead, at->job, &at->await);
    at->bulkhead->slow->unlock(at->bulkhead, &s);
    return true;
}

/* As wait, for a coroutine: PLIM_AWAITS_ instead of sleeping. The job that it works for waits with
 * it, so a circle of jobs that wait for each other is found. */
PLIM_SLOW_ int bulkhead_await_job_(bulkhead_job *job, plim_await_ *self, int64_t timeout_ns)
{
    bulkhead_awaits_ *at = &self->bulkhead;
    int error = bulkhead_wait(job, 0);
    if (error != ETIMEDOUT || timeout_ns <= 0) {
        return error;
    }
    plim_place_init_(&at->place, bulkhead_await_id_(self));
    at->place.carries = self->job != NULL ? &self->job->goal_ : NULL;
    if (!plim_may_wait_at_(&at->place, bulkhead_await_id_(self), &job->goal_, NULL)) {
        return EDEADLK;
    }
    bulkhead *b = job->bulkhead_;
    self->timeout_ns = timeout_ns;
    self->give_up = bulkhead_give_up_job_;
    self->end = bulkhead_await_ends_;
    at->bulkhead = b;
    at->job = job;
    bulkhead_section_ s = bulkhead_lock_to_wait_(b);
    bulkhead_blocked_is_(b, self, &at->await.waiter);
    if (bulkhead_wait_is_over_(job, false)) {
        error = 0;
    } else if (bulkhead_is_too_deep_for_(b, &s, job, &at->blocked)) {
        error = EDEADLK;
    } else {
        bulkhead_join_(job, &at->await, &at->place, false);
        at->await.waiter.notify = bulkhead_job_ended_;
        bulkhead_block_(b, &s, &at->blocked, job, &at->await.waiter);
        error = PLIM_AWAITS_;
    }
    b->slow->unlock(b, &s);
    if (error != PLIM_AWAITS_) {
        plim_wait_over_(&at->place);
    }
    return error;
}
