/* Entering and leaving, on the thread of the caller. */

PLIM_SLOW_ int bulkhead_reject_(bulkhead *b, bulkhead_subject_ about, int error)
{
    plim_add_relaxed_(&b->rejected, 1);
    if ((b->flags & BULKHEAD_EVENTS_) != 0) {
        bulkhead_tell_(b, BULKHEAD_EVENT_REJECTED, about, BULKHEAD_PENDING, error, 0);
    }
    return error;
}

/* Why a caller who finds this word may not even wait: 0, ESHUTDOWN, ETIMEDOUT, EAGAIN. */
static inline int bulkhead_refusal_(uint64_t word, bool takes, bool room, int64_t timeout_ns)
{
    return (word & BULKHEAD_CLOSED_) != 0 ? ESHUTDOWN
           : takes                        ? 0
           : timeout_ns <= 0              ? ETIMEDOUT
           : room                         ? 0
                                          : EAGAIN;
}

/* May a caller take a permit at once? If one is free, nobody waits; or BULKHEAD_UNFAIR says that it
 * does not matter. */
static inline bool bulkhead_takes_(uint64_t word)
{
    return bulkhead_available_(word) > 0;
}

/* What goes with getting in, besides the permit. */
PLIM_SLOW_ void bulkhead_entered_(bulkhead *b, int64_t since)
{
    if ((b->flags & BULKHEAD_STATS) != 0) {
        plim_add_relaxed_(&b->entered, 1);
    }
    if (b->histograms != NULL) {
        int64_t now = plim_now_();
        bulkhead_section_ s = bulkhead_lock_(b);
        bulkhead_histogram_add(&b->histograms[0], since == 0 ? 0 : now - since);
        bulkhead_unlock_(b, &s);
    }
    bulkhead_tell_(b, BULKHEAD_EVENT_ACCEPTED, bulkhead_no_job_(), BULKHEAD_PENDING, 0, 0);
}

/* Waits in the queue; the permit is taken by whoever lets it in. */
PLIM_CALLED_ int bulkhead_queue_up_(bulkhead *b, bulkhead_caller_ *self, int64_t timeout_ns)
{
    const int64_t deadline =
        timeout_ns == PLIM_FOREVER ? 0 : plim_deadline_(plim_now_(), timeout_ns);
    for (;;) {
        int64_t left = timeout_ns == PLIM_FOREVER ? PLIM_FOREVER : deadline - plim_now_();
        int answer = plim_sleep_(&self->waiter, left, true);
        if (answer != ETIMEDOUT && answer != BULKHEAD_NUDGED_) {
            return answer;
        }
        bulkhead_section_ s = bulkhead_lock_(b);
        if (answer == BULKHEAD_NUDGED_) {
            self->nudged = false;
            answer = b->aborting                       ? ESHUTDOWN
                     : bulkhead_available_(s.word) > 0 ? 0
                                                       : BULKHEAD_NUDGED_;
            if (answer == 0) {
                s.word -= BULKHEAD_PERMIT_ONE_;
            }
        }
        if (answer == BULKHEAD_NUDGED_) {
            self->owed = true; /* somebody was faster: not another time */
            plim_waiter_init_(&self->waiter);
        } else if (!self->gone) {
            bulkhead_dequeue_(b, &s, &self->entry);
        }
        bulkhead_grant_(b, &s); /* our place may be somebody's */
        bulkhead_unlock_(b, &s);
        bulkhead_after_(b, &s);
        if (answer != BULKHEAD_NUDGED_) {
            return answer;
        }
    }
}

/* Gets a permit, if need be after a wait, and tells nobody. `again`: for another attempt of a job
 * that was accepted, which is refused by an abort only. */
PLIM_CALLED_ int bulkhead_get_in_(bulkhead *b, int64_t timeout_ns, int64_t since, bool again)
{
    bulkhead_caller_ self;
    bulkhead_nesting_ nest = bulkhead_no_nesting_();
    uint64_t word = plim_load_relaxed_(&b->gate.word);
    int error = again ? 0
                      : bulkhead_refusal_(word, bulkhead_takes_(word),
                                          bulkhead_may_have_room_(b, word), timeout_ns);
    if (error != 0) {
        return error;
    }
    bulkhead_section_ s = bulkhead_lock_(b);
    bool takes = bulkhead_takes_(s.word);
    error = !again ? bulkhead_refusal_(s.word, takes, bulkhead_has_room_(b, s.word), timeout_ns)
            : b->aborting ? ESHUTDOWN
                          : 0;
    if (error == 0 && takes) {
        s.word -= BULKHEAD_PERMIT_ONE_;
    } else if (error == 0 && bulkhead_nests_too_deep_(b, &nest, timeout_ns)) {
        error = EDEADLK;
    } else if (error == 0) {
        plim_waiter_init_(&self.waiter);
        self.entry.caller = &self;
        self.gone = self.nudged = self.owed = false;
        self.since = since;
        bulkhead_enqueue_(b, &s, &self.entry);
        bulkhead_nest_(b, &s, &nest, NULL, &self.waiter, timeout_ns);
    }
    bulkhead_unlock_(b, &s);
    bulkhead_after_(b, &s);
    if (error == 0 && !takes) {
        error = bulkhead_queue_up_(b, &self, timeout_ns);
        bulkhead_unnest_(b, &nest);
    }
    return error;
}

PLIM_CALLED_ int bulkhead_enter_slow_(bulkhead *b, int64_t timeout_ns, int full)
{
    int64_t since = b->histograms == NULL ? 0 : plim_now_();
    int error = bulkhead_get_in_(b, timeout_ns, since, false);
    if (error != 0) {
        return bulkhead_reject_(b, bulkhead_no_job_(), error == ETIMEDOUT ? full : error);
    }
    plim_store_relaxed_(&b->last, plim_thread_id_());
    bulkhead_entered_(b, since);
    return 0;
}

/* The fast way in, if it is open. */
static inline bool bulkhead_take_(bulkhead *b)
{
    const uint64_t not_now = PLIM_HELD_ | PLIM_WATCHED_ | BULKHEAD_CLOSED_;
    uint64_t word = plim_load_relaxed_(&b->gate.word);
    while (PLIM_LIKELY_((word & not_now) == 0 && bulkhead_available_(word) > 0)) {
        if (PLIM_LIKELY_(plim_cas_acquire_(&b->gate.word, &word, word - BULKHEAD_PERMIT_ONE_))) {
            plim_store_relaxed_(&b->last, plim_thread_id_());
            return true;
        }
    }
    return false;
}

enum { BULKHEAD_HOOKS_ = BULKHEAD_STATS | BULKHEAD_TIMINGS | BULKHEAD_EVENTS_ };

/* `full` is what a wait that has not been long enough is called: ETIMEDOUT, or EAGAIN for a try. */
static inline int bulkhead_enter_or_(bulkhead *b, int64_t timeout_ns, int full)
{
    if (PLIM_LIKELY_(bulkhead_take_(b))) {
        if ((b->flags & BULKHEAD_HOOKS_) != 0) {
            bulkhead_entered_(b, 0);
        }
        return 0;
    }
    return bulkhead_enter_slow_(b, timeout_ns, full);
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
    int64_t timeout_ns = b->timeout_ns;
    return timeout_ns < 0 ? bulkhead_try_enter(b)
                          : bulkhead_enter_for(b, timeout_ns == 0 ? PLIM_FOREVER : timeout_ns);
}

/* May a permit be given back? */
static inline bool bulkhead_is_held_(const bulkhead *b, uint64_t word)
{
    return bulkhead_available_(word) < (int64_t)plim_load_relaxed_(&b->permits);
}

/* What the fast way could not do, or would not: the limits may change beside it. */
PLIM_CALLED_ int bulkhead_leave_slow_(bulkhead *b)
{
    bulkhead_section_ s = bulkhead_lock_(b);
    int error = bulkhead_is_held_(b, s.word) ? 0 : EPERM;
    if (error == 0) {
        s.word += BULKHEAD_PERMIT_ONE_;
        bulkhead_grant_(b, &s);
    }
    bulkhead_unlock_(b, &s);
    bulkhead_after_(b, &s);
    return error;
}

/* What goes with leaving comes first: with the permit, the bulkhead may go. */
PLIM_SLOW_ int bulkhead_leave_hooked_(bulkhead *b, int result, bool noted)
{
    bulkhead_section_ s = bulkhead_lock_(b);
    bool held = bulkhead_is_held_(b, s.word);
    bulkhead_unlock_(b, &s);
    if (!held) {
        return EPERM;
    }
    if ((b->flags & BULKHEAD_STATS) != 0) {
        plim_add_relaxed_(result == 0 ? &b->left : &b->left_failed, 1);
    }
    bulkhead_tell_(b, BULKHEAD_EVENT_FINISHED, bulkhead_no_job_(),
                   result == 0 ? BULKHEAD_SUCCEEDED : BULKHEAD_FAILED, result, 1);
    bulkhead_forget_(b, noted);
    return bulkhead_leave_slow_(b);
}

static inline int bulkhead_leave_as_(bulkhead *b, int result, bool noted)
{
    if (PLIM_LIKELY_((b->flags & BULKHEAD_HOOKS_) == 0)) {
        bulkhead_forget_(b, noted);
        uint64_t word = plim_load_relaxed_(&b->gate.word);
        while (PLIM_LIKELY_((word & (PLIM_HELD_ | PLIM_WATCHED_)) == 0 &&
                            bulkhead_is_held_(b, word))) {
            if (PLIM_LIKELY_(
                    plim_cas_release_(&b->gate.word, &word, word + BULKHEAD_PERMIT_ONE_))) {
                return 0;
            }
        }
        return bulkhead_leave_slow_(b);
    }
    return bulkhead_leave_hooked_(b, result, noted);
}

static inline int bulkhead_leave(bulkhead *b)
{
    return bulkhead_leave_as_(b, 0, false);
}

static inline bulkhead *bulkhead_scope_enter_(bulkhead *b)
{
    if (bulkhead_enter(b) != 0) {
        return NULL;
    }
    bulkhead_note_(b);
    return b;
}

static inline void bulkhead_scope_leave_(bulkhead **held)
{
    if (*held != NULL) {
        bulkhead_leave_as_(*held, 0, true);
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
    for (bulkhead * held \
             __attribute__((cleanup(bulkhead_scope_leave_))) = bulkhead_scope_enter_(b), \
             *once = held; \
         once != NULL; once = NULL)
#else
#define BULKHEAD_SCOPE_(b, held, once) \
    for (bulkhead *held = bulkhead_scope_enter_(b); held != NULL; \
         bulkhead_scope_leave_(&held), held = NULL)
#endif
