/* Deadlock: would a wait be for the thread that waits? */

/* How many permits the calling thread holds, as far as is known, and the job that it runs. A thread
 * that has entered and now waits for a limited time is not stuck, and will leave. */
PLIM_RARE_ uint64_t bulkhead_holds_(const bulkhead *b, bulkhead_job **job, int64_t timeout_ns)
{
    uint64_t held = 0;
    *job = NULL;
    for (bulkhead_stay_ *at = bulkhead_find_stay_(b, *plim_here_()); at != NULL;
         at = bulkhead_find_stay_(b, at->hold.place.outer)) {
        const bool runs = at->job != NULL && at->role != BULKHEAD_ENDS_;
        held += at->role == BULKHEAD_WORKS_ ? runs : at->hold.amount;
        *job = runs && *job == NULL ? at->job : *job;
    }
    bool only = timeout_ns == PLIM_FOREVER && plim_load_relaxed_(&b->permits) == 1 &&
                plim_load_relaxed_(&b->gate.beside) == plim_thread_id_();
    return held == 0 && only ? 1 : held;
}

/* Is the calling thread inside the event loop that is the executor? Then no job begins before it
 * returns there. */
static inline bool bulkhead_is_executor_(const bulkhead *b)
{
    return b->fixed.executor.execute != NULL && plim_serves_(b->fixed.executor.ctx);
}

/* Would the end of everything have to wait for the calling thread? A thread that only holds a
 * permit may wait for a limited time, and leave after that. */
PLIM_RARE_ bool bulkhead_inside_(const bulkhead *b, int64_t timeout_ns)
{
    bulkhead_job *job;
    bool inside = (bulkhead_holds_(b, &job, timeout_ns) != 0 && timeout_ns == PLIM_FOREVER) ||
                  ((b->jobs != 0 || b->entries != 0) && bulkhead_is_executor_(b));
    for (bulkhead_stay_ *at = bulkhead_find_stay_(b, *plim_here_()); at != NULL;
         at = bulkhead_find_stay_(b, at->hold.place.outer)) {
        inside |= at->role != BULKHEAD_CALLS_;
    }
    return inside;
}

/* Is it the calling thread that would have to do what it is about to wait for? The supervisor, or
 * that of the executor's loop. */
PLIM_RARE_ bool bulkhead_keeps_others_(const bulkhead *b)
{
    return bulkhead_stay_as_(b, BULKHEAD_SUPERVISES_) != NULL || bulkhead_is_executor_(b);
}

/* The stay of the calling thread, if it is a worker that takes another job after this one. Not one
 * whose job is or was stuck. Nor one that is in worker_start: if that waits, so does that of each
 * worker hired instead. */
PLIM_RARE_ bulkhead_stay_ *bulkhead_works_(const bulkhead *b)
{
    bulkhead_stay_ *stay = bulkhead_stay_as_(b, BULKHEAD_WORKS_);
    const bulkhead_worker_ *self = stay == NULL ? NULL : BULKHEAD_WORKER_OF_(stay);
    const bool works =
        self != NULL && self->started && !self->leaves && !bulkhead_is_stuck_(stay->job);
    return works ? stay : NULL;
}

/* Fills in who the calling thread is. */
PLIM_RARE_ bulkhead_blocked_ bulkhead_blocked_here_(const bulkhead *b, int64_t timeout_ns)
{
    bulkhead_blocked_ self = bulkhead_not_blocked_();
    self.thread = plim_thread_id_();
    self.held = bulkhead_holds_(b, &self.mine, timeout_ns);
    self.serves = bulkhead_is_executor_(b);
    self.works = bulkhead_works_(b);
    self.limited = timeout_ns != PLIM_FOREVER;
    return self;
}

/* How many permits wait with that thread: those that it holds, and those of jobs that nobody but it
 * can begin. */
static inline uint64_t bulkhead_kept_(const bulkhead *b, const bulkhead_blocked_ *at)
{
    return at->held + at->serves * plim_load_relaxed_(&b->ready);
}

static inline bool bulkhead_keeps_some_(const bulkhead *b, const bulkhead_blocked_ *at)
{
    return bulkhead_is_blocked_(at, true) && bulkhead_kept_(b, at) != 0;
}

/* How many permits wait with threads that wait here for ever, but that one. */
PLIM_RARE_ uint64_t bulkhead_all_kept_(const bulkhead *b, uint64_t but_thread)
{
    uint64_t kept = 0;
    for (plim_node_ *node = b->blocked.first; node != NULL; node = node->next) {
        const bulkhead_blocked_ *at = (const bulkhead_blocked_ *)(const void *)node;
        bool counts = at->thread != but_thread && bulkhead_is_blocked_(at, true);
        kept += counts ? bulkhead_kept_(b, at) : 0;
    }
    return kept;
}

static inline uint64_t bulkhead_in_use_(const bulkhead *b, uint64_t word)
{
    return plim_load_relaxed_(&b->permits) - (uint64_t)bulkhead_available_(word);
}

/* Would nobody ever give a permit back, if the calling thread waited, too? That is so when every
 * permit is in use, and each belongs to a thread that waits here for ever. */
PLIM_RARE_ bool bulkhead_is_too_deep_(const bulkhead *b, const bulkhead_section_ *s,
                                      const bulkhead_blocked_ *self)
{
    const uint64_t kept = bulkhead_kept_(b, self);
    return kept != 0 && bulkhead_available_(s->word) <= 0 &&
           kept + bulkhead_all_kept_(b, self->thread) >= bulkhead_in_use_(b, s->word);
}

/* Ends that wait with EDEADLK. It has no limit, so no thread leaves by itself. A coroutine may when
 * its loop is closed: then that ends the circle. A call that waits for its own job may be about to
 * sleep: it looks at `told` before. */
PLIM_RARE_ void bulkhead_end_blocked_(bulkhead *b, bulkhead_section_ *s, bulkhead_blocked_ *at)
{
    const bool no_job = at->job == NULL;
    at->told = at->owns;
    if (no_job ? !at->queues : plim_load_relaxed_(&at->job->entry_.phase) == BULKHEAD_ROOM_) {
        plim_end_wait_(&s->woken, &b->room, at->waiter, EDEADLK);
    } else if (!no_job) {
        bulkhead_await_ **link = &at->job->waiters_;
        while (!at->owns && &(*link)->waiter != at->waiter) {
            link = &(*link)->next;
        }
        if (*link != NULL) {
            (*link)->waiter.answer = EDEADLK;
            bulkhead_end_await_(s, link);
        }
    } else if (plim_decide_(at->waiter, PLIM_ENDED_)) {
        bulkhead_dequeue_(b, s, &((bulkhead_caller_ *)(void *)at->waiter)->entry);
        at->waiter->answer = EDEADLK;
        plim_append_(&s->woken, &at->waiter->node);
    }
}

/*
 * Threads that could rely on another when they began to wait may have none left. There are three
 * ways to that:
 *   - The limit was lowered just now, or permits have come back that it keeps.
 *   - A nudged caller waits again. While it was awake it did not count, and another may have begun
 *     to wait.
 *   - So does a call that was told, and whose job has begun all the same.
 * Then the wait of one of them ends, the last that came. It does not count any more, and goes on
 * with its permits. Other changes pass a permit on to a thread that does not wait, and need not
 * look.
 *
 * A call whose own job has begun is never the last: its job's thread waits, too, and came later.
 */
PLIM_RARE_ void bulkhead_break_(bulkhead *b, bulkhead_section_ *s)
{
    const uint64_t kept = bulkhead_all_kept_(b, 0);
    if (kept != 0 && bulkhead_available_(s->word) <= 0 && kept >= bulkhead_in_use_(b, s->word)) {
        plim_node_ *node = b->blocked.last;
        while (node != NULL && !bulkhead_keeps_some_(b, (bulkhead_blocked_ *)(void *)node)) {
            node = node->prev;
        }
        if (node != NULL) { /* else it was a coroutine, which has given up this very moment */
            bulkhead_end_blocked_(b, s, (bulkhead_blocked_ *)(void *)node);
        }
    }
    b->recheck = bulkhead_available_(s->word) < 0;
}

/*
 * From here on the calling thread waits: for the job, or by the waiter. If it is a worker, one
 * fewer is there to take ready jobs. So others are woken or hired, as B1 asks. bulkhead_unblock_
 * ends that.
 *
 * A thread may be here twice. When a wait has ended jobs that no thread can run, it calls their
 * done, and a done may wait as well. Then only the inner wait counts.
 */
PLIM_RARE_ void bulkhead_block_(bulkhead *b, bulkhead_section_ *s, bulkhead_blocked_ *self,
                                bulkhead_job *job, plim_waiter_ *waiter)
{
    if (self->held == 0 && !self->serves && self->works == NULL) {
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
    plim_append_(&b->blocked, &self->node);
    if (self->works != NULL) {
        bulkhead_staff_(b, s);
    }
}

/* Returns the job that the body of that job waits for, if it is one of this bulkhead; else NULL. */
PLIM_RARE_ const bulkhead_job *bulkhead_awaited_by_(const bulkhead *b, const bulkhead_job *job)
{
    const bulkhead_job *awaited = NULL;
    for (plim_node_ *node = b->blocked.first; node != NULL; node = node->next) {
        const bulkhead_blocked_ *at = (const bulkhead_blocked_ *)(const void *)node;
        const bool ends = at->limited & !at->owns;
        if (at->mine == job && !ends && bulkhead_still_waits_(at)) {
            awaited = at->job;
        }
    }
    return awaited;
}

/* Does the calling thread run that job, or has it ended it, and done has not returned? */
PLIM_RARE_ bool bulkhead_is_ours_(const bulkhead *b, const bulkhead_job *job)
{
    bool ours = false;
    for (bulkhead_stay_ *at = bulkhead_find_stay_(b, *plim_here_()); at != NULL;
         at = bulkhead_find_stay_(b, at->hold.place.outer)) {
        ours |= at->job == job;
        bulkhead_job *next = at->role == BULKHEAD_ENDS_ ? at->more.rest : NULL;
        for (; next != NULL; next = bulkhead_after_job_(next)) {
            ours |= next == job;
        }
    }
    return ours;
}

/* Is the job, or one that it waits for, the one that the calling thread runs? */
PLIM_RARE_ bool bulkhead_waits_for_us_(const bulkhead *b, const bulkhead_job *job)
{
    while (job != NULL && !bulkhead_is_ours_(b, job)) {
        job = bulkhead_awaited_by_(b, job);
    }
    return job != NULL;
}

PLIM_RARE_ void bulkhead_unblock_(bulkhead *b, bulkhead_blocked_ *self)
{
    if (!self->listed) {
        return;
    }
    bulkhead_section_ s = bulkhead_lock_(b);
    self->listed = false;
    plim_unlink_(&b->blocked, &self->node);
    if (self->outer != NULL) { /* it goes on to wait there */
        self->outer->covered = false;
        bulkhead_staff_(b, &s);
    }
    bulkhead_unlock_(b, &s);
}
