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

/* Is it the calling thread that would have to do what it is about to wait for? The supervisor, that
 * of the executor's loop, or a worker in the done of a detached job when there is no other and may
 * be none. */
PLIM_SLOW_ bool bulkhead_keeps_others_(const bulkhead *b)
{
    uint64_t self = plim_thread_id_();
    uint32_t able = b->threads - b->stuck;
    bool ours = false;
    for (bulkhead_worker_ *at = b->workers; at != NULL; at = at->next) {
        able -= at->in_done;
        ours |= at->in_done && at->id == self;
    }
    return b->supervisor_id == self || (ours && able == 0 && !bulkhead_may_hire_(b)) ||
           bulkhead_is_executor_(b);
}

/* Is the thread a worker that would take another job after this one? One whose job is or was stuck
 * would not. */
PLIM_SLOW_ bool bulkhead_is_worker_(const bulkhead *b, uint64_t thread)
{
    const bulkhead_worker_ *at = b->workers;
    while (at != NULL && at->id != thread) {
        at = at->next;
    }
    return at != NULL && !at->replaced &&
           (at->job == NULL || plim_load_relaxed_(&at->job->phase_) != BULKHEAD_STUCK_);
}

/* A thread that holds permits, or is a worker, and waits for this very bulkhead, without a time
 * limit: for a job, or to be let in. On its stack. */
typedef struct bulkhead_nesting_ {
    plim_node_ node;
    uint64_t held;              /* permits */
    bool serves;                /* it is in the executor's loop, and so holds those of ready jobs */
    bulkhead_job *mine;         /* that the thread runs, or NULL */
    const bulkhead_job *job;    /* that it waits for, */
    const plim_waiter_ *waiter; /* or its wait to be let in */
    uint64_t thread;
    bool listed;
} bulkhead_nesting_;

/* Has what it waits for not happened yet? */
static inline bool bulkhead_nesting_waits_(const bulkhead_nesting_ *nesting)
{
    if (nesting->waiter != NULL) {
        return plim_load_relaxed_(&nesting->waiter->state) == PLIM_WAITING_;
    }
    return plim_load_relaxed_(&nesting->job->phase_) < BULKHEAD_STUCK_;
}

/* Nobody could ever give a permit back, if all who hold one wait. Fills in who the thread is. */
PLIM_SLOW_ bool bulkhead_nests_too_deep_(const bulkhead *b, bulkhead_nesting_ *nesting,
                                         int64_t timeout_ns)
{
    const uint64_t self = plim_thread_id_();
    const uint64_t ready = plim_load_relaxed_(&b->ready);
    nesting->held = bulkhead_holds_(b, &nesting->mine, timeout_ns);
    nesting->serves = bulkhead_is_executor_(b);
    nesting->thread = self;
    uint64_t waiting = nesting->held + (nesting->serves ? ready : 0);
    if (waiting == 0) {
        return false;
    }
    for (plim_node_ *at = b->nestings.first; at != NULL; at = at->next) {
        const bulkhead_nesting_ *other = (const bulkhead_nesting_ *)(const void *)at;
        bool counts = other->thread != self && bulkhead_nesting_waits_(other);
        waiting += counts ? other->held + (other->serves ? ready : 0) : 0;
    }
    return waiting >= plim_load_relaxed_(&b->permits);
}

/* Does every worker wait? Then nobody takes what is ready, unless one more can be created. A worker
 * waits in one place at a time, so it is counted once. */
PLIM_SLOW_ bool bulkhead_all_wait_(const bulkhead *b)
{
    uint32_t waiting = 0;
    for (plim_node_ *at = b->nestings.first; at != NULL; at = at->next) {
        const bulkhead_nesting_ *other = (const bulkhead_nesting_ *)(const void *)at;
        waiting += bulkhead_nesting_waits_(other) && bulkhead_is_worker_(b, other->thread);
    }
    return waiting != 0 && waiting == b->threads - b->stuck;
}

/* The thread, as bulkhead_nests_too_deep_ has seen it, waits: for the job, or by the waiter. If it
 * is the last worker to wait, one more is tried to be had, after the section. */
static inline void bulkhead_nest_(bulkhead *b, bulkhead_section_ *s, bulkhead_nesting_ *nesting,
                                  bulkhead_job *job, const plim_waiter_ *waiter, int64_t timeout_ns)
{
    nesting->job = job;
    nesting->waiter = waiter;
    const bool works = bulkhead_is_worker_(b, nesting->thread);
    nesting->listed =
        (nesting->held != 0 || nesting->serves || works) && timeout_ns == PLIM_FOREVER;
    if (nesting->listed) {
        plim_append_(&b->nestings, &nesting->node);
    }
    if (nesting->listed && works && bulkhead_all_wait_(b)) {
        bulkhead_staff_(b, s);
    }
    if (nesting->listed && nesting->mine != NULL) {
        nesting->mine->waits_for_ = job;
    }
}

PLIM_SLOW_ void bulkhead_unnest_(bulkhead *b, bulkhead_nesting_ *nesting)
{
    if (nesting->listed) {
        bulkhead_section_ s = bulkhead_lock_(b);
        plim_unlink_(&b->nestings, &nesting->node);
        if (nesting->mine != NULL) {
            nesting->mine->waits_for_ = NULL;
        }
        bulkhead_unlock_(b, &s);
    }
}

static inline bulkhead_nesting_ bulkhead_no_nesting_(void)
{
    bulkhead_nesting_ none = {{NULL, NULL}, 0, false, NULL, NULL, NULL, 0, false};
    return none;
}
