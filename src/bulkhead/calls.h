/* The calls of the API, each with its fast path. Slow paths are reached through the table in the
 * bulkhead. */

/* Notes the thread that has entered last, or 0 after a leave: if there is one permit, that is who
 * has it. In the line of the word, which the CPU has at that moment: or each enter and leave would
 * move a second line between the CPUs. */
static inline void bulkhead_note_last_(bulkhead *b, uint64_t thread)
{
    plim_store_relaxed_(&b->gate.beside, thread);
}

/* The calling thread is giving a permit back: one of its own, for which it stays, or NULL. */
static inline void bulkhead_forget_(bulkhead *b, const bulkhead_stay_ *stay)
{
    bulkhead_note_last_(b, 0);
    if (stay != NULL) {
        plim_hold_ends_(&stay->hold, b->slow->here());
    }
}

/* The fast way in, if it is open. */
static inline bool bulkhead_enter_fast_(bulkhead *b)
{
    const uint64_t not_now = PLIM_HELD_ | PLIM_WATCHED_ | BULKHEAD_CLOSED_;
    uint64_t word = plim_load_relaxed_(&b->gate.word);
    while (PLIM_LIKELY_((word & not_now) == 0 && bulkhead_available_(word) > 0 &&
                        bulkhead_queued_(word) == 0)) {
        if (PLIM_LIKELY_(plim_cas_acquire_(&b->gate.word, &word, word - BULKHEAD_PERMIT_ONE_))) {
            bulkhead_note_last_(b, plim_thread_id_());
            return true;
        }
    }
    return false;
}

enum { /* it is noted when a run begins */
       BULKHEAD_TIMED_ = (int)BULKHEAD_TIMINGS | (int)BULKHEAD_LIMITED_
};
enum { BULKHEAD_HOOKS_ = BULKHEAD_STATS | BULKHEAD_TIMINGS | BULKHEAD_EVENTS_ };

/* `full` is the error for a wait that ends without a permit: ETIMEDOUT, or EAGAIN for a try. */
static inline int bulkhead_enter_or_(bulkhead *b, int64_t timeout_ns, int full)
{
    if (PLIM_LIKELY_(bulkhead_enter_fast_(b))) {
        if ((b->fixed.flags & BULKHEAD_HOOKS_) != 0) {
            b->slow->entered(b, 0);
        }
        return 0;
    }
    return b->slow->enter(b, timeout_ns, full);
}

static inline int bulkhead_enter_for(bulkhead *b, int64_t timeout_ns)
{
    return bulkhead_enter_or_(b, timeout_ns, ETIMEDOUT);
}

static inline int bulkhead_try_enter(bulkhead *b)
{
    return bulkhead_enter_or_(b, 0, EAGAIN);
}

static inline int bulkhead_enter(bulkhead *b)
{
    int64_t timeout_ns = b->fixed.timeout_ns;
    return timeout_ns < 0 ? bulkhead_try_enter(b)
                          : bulkhead_enter_for(b, timeout_ns == 0 ? PLIM_FOREVER : timeout_ns);
}

/* May a permit be given back? */
static inline bool bulkhead_is_held_(const bulkhead *b, uint64_t word)
{
    return bulkhead_available_(word) < (int64_t)plim_load_relaxed_(&b->permits);
}

static inline int bulkhead_leave_as_(bulkhead *b, int result, bulkhead_stay_ *stay)
{
    if (PLIM_LIKELY_((b->fixed.flags & BULKHEAD_HOOKS_) == 0)) {
        bulkhead_forget_(b, stay);
        uint64_t word = plim_load_relaxed_(&b->gate.word);
        while (PLIM_LIKELY_((word & (PLIM_HELD_ | PLIM_WATCHED_)) == 0 &&
                            bulkhead_queued_(word) == 0 && bulkhead_is_held_(b, word))) {
            if (PLIM_LIKELY_(
                    plim_cas_release_(&b->gate.word, &word, word + BULKHEAD_PERMIT_ONE_))) {
                return 0;
            }
        }
        return b->slow->leave(b);
    }
    return b->slow->leave_hooked(b, result, stay);
}

static inline int bulkhead_leave(bulkhead *b)
{
    return bulkhead_leave_as_(b, 0, NULL);
}

/* Enters; NULL if that is refused. */
static inline bulkhead_stay_ *bulkhead_scope_enter_(bulkhead_stay_ *held, bulkhead *b)
{
    if (bulkhead_enter(b) != 0) {
        held->hold.object = NULL;
        return NULL;
    }
    bulkhead_stay_begins_(b, held, BULKHEAD_CALLS_, b->slow->here());
    return held;
}

static inline void bulkhead_scope_leave_(bulkhead_stay_ *held)
{
    if (held->hold.object != NULL) {
        bulkhead_leave_as_((bulkhead *)held->hold.object, 0, held);
    }
}

#define BULKHEAD_JOIN_(a, b) a##b
#define BULKHEAD_NAME_(a, b) BULKHEAD_JOIN_(a, b)
#define BULKHEAD_SCOPE(b) \
    BULKHEAD_SCOPE_(b, BULKHEAD_NAME_(bulkhead_held_, __LINE__), \
                    BULKHEAD_NAME_(bulkhead_once_, __LINE__))

/* A loop that runs once, or not at all. */
#if defined(__GNUC__) || defined(__clang__)
#define BULKHEAD_SCOPE_(b, held, once) \
    for (bulkhead_stay_ held __attribute__((cleanup(bulkhead_scope_leave_))), \
         *once = bulkhead_scope_enter_(&held, b); \
         once != NULL; once = NULL)
#else
#define BULKHEAD_SCOPE_(b, held, once) \
    for (bulkhead_stay_ held, *once = bulkhead_scope_enter_(&held, b); once != NULL; \
         bulkhead_scope_leave_(&held), once = NULL)
#endif
/* ---- Jobs ---- */

static inline int bulkhead_submit(bulkhead *b, bulkhead_job *job)
{
    return b->slow->submit(b, job, BULKHEAD_AS_SET_);
}

static inline int bulkhead_submit_for(bulkhead *b, bulkhead_job *job, int64_t timeout_ns)
{
    return b->slow->submit(b, job, timeout_ns > 0 ? timeout_ns : 0);
}

/* Is it done, though its body may run on after a run timeout? Acquire, for the release in
 * bulkhead_let_waiters_go_: what the job has done is visible. If its phase is DONE, not OVERDUE,
 * its memory is the caller's. */
static inline bool bulkhead_is_done_(const bulkhead_job *job)
{
    uint64_t phase = plim_load_acquire_(&job->entry_.phase);
    return phase == BULKHEAD_DONE_ || phase == BULKHEAD_OVERDUE_;
}

/* Is it a job that nobody can wait for: never submitted, or detached, now or when it was done? */
static inline bool bulkhead_is_nobodys_(const bulkhead_job *job)
{
    uint64_t phase = plim_load_relaxed_(&job->entry_.phase);
    return job->detached || phase == BULKHEAD_NEW_ ||
           (phase == BULKHEAD_DONE_ && job->was_detached_);
}

static inline int bulkhead_wait(bulkhead_job *job, int64_t timeout_ns)
{
    if (job == NULL || bulkhead_is_nobodys_(job)) {
        return EINVAL;
    }
    if (bulkhead_is_done_(job)) {
        return 0;
    }
    if (plim_load_relaxed_(&job->entry_.phase) == BULKHEAD_ROOM_) {
        return EINVAL; /* its submitter waits: it is not submitted yet */
    }
    return timeout_ns <= 0 ? ETIMEDOUT : job->bulkhead_->slow->wait(job, timeout_ns, false);
}

static inline int bulkhead_reclaim(bulkhead_job *job, int64_t timeout_ns)
{
    if (job == NULL || bulkhead_is_nobodys_(job)) {
        return EINVAL;
    }
    if (!bulkhead_is_done_(job)) {
        return EBUSY;
    }
    return plim_load_acquire_(&job->entry_.phase) == BULKHEAD_DONE_
               ? 0
               : job->bulkhead_->slow->wait(job, timeout_ns, true);
}

static inline bool bulkhead_job_cancelled(const bulkhead_job *job)
{
    return (plim_load_relaxed_(&job->marks_) & BULKHEAD_CANCELLED_) != 0;
}

static inline void bulkhead_job_renew(bulkhead_job *job)
{
    job->renews_ = true;
}

static inline int bulkhead_finish(bulkhead_job *job, int result)
{
    if (job == NULL || result == BULKHEAD_LATER) {
        return EINVAL;
    }
    /* A thread that may finish it knows that it runs. A job that does not may have lost its
     * bulkhead. */
    uint64_t phase = plim_load_relaxed_(&job->entry_.phase);
    return phase < BULKHEAD_RUNNING_ || phase > BULKHEAD_OVERDUE_
               ? EPERM
               : job->bulkhead_->slow->finish(job, result);
}

/* ---- Calls of functions ---- */

static inline bool bulkhead_enter_inline_(bulkhead *b)
{
    bool taken = bulkhead_enter_fast_(b) || b->slow->enter_now(b);
    if (taken && (b->fixed.flags & BULKHEAD_HOOKS_) != 0) {
        b->slow->entered(b, 0);
    }
    return taken;
}

/* With a permit: calls fn, and gives it back. */
static inline int bulkhead_call_here_(bulkhead *b, int (*fn)(void *), void *arg, int *result)
{
    const bool timed = (b->fixed.flags & BULKHEAD_TIMED_) != 0;
    int64_t since = timed ? plim_now_() : 0;
    bulkhead_stay_ stay;
    bulkhead_stay_begins_(b, &stay, BULKHEAD_CALLS_, b->slow->here());
    int answer = fn(arg);
    if (timed) {
        b->slow->ran(b, since, answer);
    }
    bulkhead_leave_as_(b, answer, &stay);
    if (result != NULL) {
        *result = answer;
    }
    return 0;
}

static inline int bulkhead_invoke(bulkhead *b, int (*fn)(void *), void *arg, int *result)
{
    if (fn == NULL) {
        return EINVAL;
    }
    if (b->fixed.type == BULKHEAD_SYNC) {
        int error = bulkhead_enter(b);
        return error != 0 ? error : bulkhead_call_here_(b, fn, arg, result);
    }
    if ((b->fixed.flags & BULKHEAD_INLINE) != 0 && bulkhead_enter_inline_(b)) {
        return bulkhead_call_here_(b, fn, arg, result);
    }
    return b->slow->invoke(b, fn, arg, result);
}

/* ---- The whole ---- */

static inline int bulkhead_resize(bulkhead *b, int32_t permits, int32_t queue)
{
    return b->slow->resize(b, permits, queue);
}

static inline int bulkhead_wait_idle(bulkhead *b, int64_t timeout_ns)
{
    return b->slow->wait_idle(b, timeout_ns);
}

static inline int bulkhead_close(bulkhead *b, int how, int64_t timeout_ns)
{
    return b->slow->close(b, how, timeout_ns);
}

static inline int bulkhead_destroy(bulkhead *b)
{
    return b->slow->destroy(b);
}

static inline const char *bulkhead_outcome_name(bulkhead_outcome outcome)
{
    static const char *const names[] = {"pending", "succeeded", "failed", "timed_out",
                                        "expired", "cancelled", "aborted"};
    return (unsigned)outcome < BULKHEAD_OUTCOMES_ ? names[outcome] : "unknown";
}
