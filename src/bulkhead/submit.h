/* Submitting a job: refused, accepted, or in line for a place. */

/* Does the job need the supervisor? */
static inline bool bulkhead_needs_watch_(const bulkhead *b, const bulkhead_job *job)
{
    uint32_t attempts = job->attempts != 0 ? job->attempts : b->fixed.attempts;
    return job->delay_ns != 0 || job->start_within_ns != 0 || bulkhead_run_limit_(b, job) != 0 ||
           (attempts > 1 && b->fixed.retry_delay_ns != 0);
}

/* When a wait of that length is over. */
PLIM_RARE_ int64_t bulkhead_until_(int64_t timeout_ns)
{
    return timeout_ns == PLIM_FOREVER ? PLIM_FOREVER : plim_deadline_(plim_now_(), timeout_ns);
}

/* How long it still is. Looking comes out of its time. */
PLIM_RARE_ int64_t bulkhead_left_(int64_t until)
{
    int64_t left = until == PLIM_FOREVER ? PLIM_FOREVER : until - plim_now_();
    return left > 0 ? left : 0;
}

/* Waits for a place in the queue. The section that frees one accepts the job. `invokes`: then the
 * thread waits for the job, and stays blocked. */
PLIM_RARE_ int bulkhead_await_room_(bulkhead *b, bulkhead_section_ *s, bulkhead_job *job,
                                    int64_t timeout_ns, int64_t since, bulkhead_blocked_ *blocked,
                                    bool invokes)
{
    bulkhead_submitter_ self;
    const uint64_t phase = plim_load_relaxed_(&job->entry_.phase);
    plim_waiter_init_(&self.waiter);
    self.job = job;
    self.since = since;
    plim_store_relaxed_(&job->entry_.phase, BULKHEAD_ROOM_);
    bulkhead_block_(b, s, blocked, invokes ? job : NULL, &self.waiter);
    plim_append_(&b->room, &self.waiter.node);
    bulkhead_unlock_(b, s);
    /* It is the workers who make room, and they may want the CPU: so it is offered to them. */
    const int64_t until = bulkhead_until_(timeout_ns);
    plim_look_at_(&self.waiter.wake.word, PLIM_SPIN / 2, until);
    int error = plim_sleep_(&self.waiter, bulkhead_left_(until), false);
    if (error != 0) {
        *s = bulkhead_lock_(b);
        if (error == ETIMEDOUT) {
            plim_unlink_(&b->room, &self.waiter.node);
        }
        plim_store_relaxed_(&job->entry_.phase, phase);
        bulkhead_unlock_(b, s);
    }
    if (error != 0 || !invokes) {
        bulkhead_unblock_(b, blocked);
    }
    return error;
}

/* Gives the entry of the job that was just accepted to the executor; if that refuses, so do we. */
PLIM_RARE_ int bulkhead_feed_first_(bulkhead *b, const bulkhead_before_ *mine)
{
    int error = b->fixed.executor.execute(b->fixed.executor.ctx, bulkhead_execute_, b);
    error = error != 0 ? bulkhead_entry_refused_(b, mine) : 0;
    bulkhead_idle_(b);
    return error;
}

/* Does a thread still use the job? Not when the last touch of it has been seen. */
static inline bool bulkhead_in_flight_(const bulkhead_job *job)
{
    uint64_t phase = plim_load_acquire_(&job->entry_.phase);
    return phase != BULKHEAD_NEW_ && phase != BULKHEAD_DONE_;
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

/* The limits were changed between the look at them and the step that relied on them. */
PLIM_SLOW_ void bulkhead_undo_admit_(bulkhead *b, bool admitted)
{
    bulkhead_section_ s = bulkhead_lock_(b);
    s.word += admitted ? BULKHEAD_PERMIT_ONE_ : 0;
    s.word -= admitted ? 0 : BULKHEAD_QUEUED_ONE_;
    bulkhead_unlock_(b, &s);
}

/* The first step of the fast way: gets a permit, or a place. ADMITTED, JOINING; or NEW if that way
 * is not open. Acquire, as for every thread that takes a permit. */
PLIM_FAST_ uint64_t bulkhead_admit_fast_(bulkhead *b)
{
    const uint64_t open = BULKHEAD_STAFFED_;
    const uint64_t bits = open | PLIM_HELD_ | PLIM_WATCHED_; /* what is closed is watched */
    uint64_t word = plim_load_relaxed_(&b->gate.word), next, room;
    bool admitted;
    do {
        room = bulkhead_most_waiting_(b);
        admitted = bulkhead_available_(word) > 0 && bulkhead_queued_(word) == 0;
        if ((word & bits) != open || (!admitted && bulkhead_waiting_(word) >= room)) {
            return BULKHEAD_NEW_;
        }
        next = admitted ? word - BULKHEAD_PERMIT_ONE_ : word + BULKHEAD_QUEUED_ONE_;
    } while (!plim_cas_acquire_(&b->gate.word, &word, next));
    if (bulkhead_most_waiting_(b) != room) {
        bulkhead_undo_admit_(b, admitted);
        return BULKHEAD_NEW_;
    }
    return admitted ? BULKHEAD_ADMITTED_ : BULKHEAD_JOINING_;
}

/* Looks for a while whether there is room in the queue for some jobs: a worker is about to make it.
 * If another thread waits for that already, we are behind it. */
PLIM_RARE_ bool bulkhead_has_room_soon_(const bulkhead *b, int64_t until)
{
    bool on = true;
    for (int i = 0; on && i < PLIM_SPIN; i++) {
        const uint64_t word = plim_load_relaxed_(&b->gate.word);
        if ((word & (BULKHEAD_STAFFED_ | PLIM_WATCHED_)) != BULKHEAD_STAFFED_) {
            return false;
        }
        if (bulkhead_waiting_(word) + bulkhead_most_unreported_(b) < bulkhead_most_waiting_(b)) {
            return true;
        }
        on = plim_look_on_(i, PLIM_SPIN / 8, until);
    }
    return false;
}

/* Submits on the fast way; false if it is not open for this job. */
PLIM_CALLED_ bool bulkhead_submit_fast_(bulkhead *b, bulkhead_job *job)
{
    if (!b->fixed.crewed || job->delay_ns != 0 || job->start_within_ns != 0 ||
        (bulkhead_needs_watch_(b, job) && plim_load_relaxed_(&b->watch.made) != BULKHEAD_MADE_)) {
        return false;
    }
    const int64_t since = b->fixed.histograms == NULL ? 0 : plim_now_();
    const uint64_t phase = bulkhead_admit_fast_(b);
    if (phase == BULKHEAD_NEW_) {
        return false;
    }
    const bool events = (b->fixed.flags & BULKHEAD_EVENTS_) != 0;
    bulkhead_subject_ about = bulkhead_no_job_();
    if (events) {
        about = bulkhead_subject_of_(job); /* it may be gone after the push */
    }
    bulkhead_reset_(b, job, since);
    plim_store_relaxed_(&job->entry_.phase, phase);
    if (bulkhead_push_(b, job, phase == BULKHEAD_ADMITTED_)) {
        bulkhead_idle_(b); /* sees to what is in the inbox; see_summons_ has counted it in busy */
    }
    if (events) {
        bulkhead_tell_(b, BULKHEAD_EVENT_ACCEPTED, about, BULKHEAD_PENDING, 0, 0);
    }
    return true;
}

/* The fast way was not open: submits after a moment, if it gets so. That comes out of the time. */
PLIM_SLOW_ bool bulkhead_submit_soon_(bulkhead *b, bulkhead_job *job, int64_t *timeout_ns)
{
    const int64_t until = bulkhead_until_(*timeout_ns);
    const bool room = bulkhead_has_room_soon_(b, until);
    *timeout_ns = bulkhead_left_(until);
    return room && bulkhead_submit_fast_(b, job);
}

/* Why a job is refused before anything is done for it: ESHUTDOWN, ETIMEDOUT; else 0. */
static inline int bulkhead_refuse_early_(const bulkhead *b, int64_t timeout_ns)
{
    uint64_t word;
    const bool exact = bulkhead_read_exactly_(b, &word);
    const bool full = bulkhead_available_(word) <= 0 && !bulkhead_may_have_room_(b, word);
    return (word & BULKHEAD_CLOSED_) != 0     ? ESHUTDOWN
           : exact && full && timeout_ns <= 0 ? ETIMEDOUT
                                              : 0;
}

enum { BULKHEAD_RUNS_AT_ONCE_ = -3, BULKHEAD_HAS_A_PLACE_ = -2, BULKHEAD_WANTS_ROOM_ = -1 };

/* The fate of a job, under the lock: one of these, or the error with which it is refused. Changes
 * nothing. A caller that waits for it waits at most wait_ns until it begins; others pass 0. */
static inline int bulkhead_decide_submit_(const bulkhead *b, const bulkhead_section_ *s,
                                          const bulkhead_job *job, int64_t timeout_ns,
                                          int64_t wait_ns)
{
    const bool runs = bulkhead_job_enters_(b, s, job);
    const bool room = b->room.first == NULL && bulkhead_has_room_(b, s->word);
    return (s->word & BULKHEAD_CLOSED_) != 0 ? ESHUTDOWN
           : runs                            ? BULKHEAD_RUNS_AT_ONCE_
           : wait_ns < 0                     ? ETIMEDOUT
           : room                            ? BULKHEAD_HAS_A_PLACE_
           : timeout_ns <= 0                 ? ETIMEDOUT
                                             : BULKHEAD_WANTS_ROOM_;
}

/* Accepts the job, ends the section, and finds a thread that runs it: 0, EAGAIN, ENOMEM. If there
 * is none, it is as if the job had not been submitted. */
PLIM_RARE_ int bulkhead_hand_in_(bulkhead *b, bulkhead_section_ *s, bulkhead_job *job,
                                 int64_t since, bulkhead_blocked_ *blocked)
{
    int error = 0;
    bulkhead_before_ before = bulkhead_before_of_(job);
    bulkhead_accept_(b, s, job, since);
    before.number = bulkhead_number_(job);
    if (blocked != NULL) {
        bulkhead_block_(b, s, blocked, job, NULL);
    }
    if (b->fixed.executor.execute == NULL && b->crew.threads == 0 && bulkhead_is_short_(b)) {
        bulkhead_plan_hire_(b, s); /* better to fail now than when its turn has come */
    }
    /* In place of bulkhead_after_, for the answers. It has ended no job: only an abort would, and
     * then the job was refused. There is one entry at most, that of the job. */
    bulkhead_let_go_(b, s);
    if (s->entries != 0) {
        error = bulkhead_feed_first_(b, &before);
    }
    for (; s->hires != 0; s->hires--) { /* others may have been short of workers, too */
        int failed = bulkhead_hire_(b, &before);
        error = failed != 0 ? failed : error;
    }
    return error;
}

/* Submits, unless the job was refused early. A caller that will wait for the job, at most wait_ns
 * until it begins, gives `blocked`, which it has to undo if this succeeds. */
PLIM_SLOW_ int bulkhead_submit_slow_(bulkhead *b, bulkhead_job *job, int64_t timeout_ns,
                                     bulkhead_blocked_ *blocked, int64_t wait_ns)
{
    bulkhead_blocked_ here, *self = blocked != NULL ? blocked : &here;
    const bulkhead_subject_ about = bulkhead_subject_of_(job); /* it may be gone at the end */
    int error = 0;
    if (bulkhead_needs_watch_(b, job) && plim_load_relaxed_(&b->watch.made) != BULKHEAD_MADE_) {
        error = bulkhead_supervise_(b);
    }
    if (error != 0) {
        return error;
    }
    here = bulkhead_not_blocked_();
    const int64_t since = b->fixed.histograms == NULL ? 0 : plim_now_();
    bulkhead_section_ s = bulkhead_lock_(b);
    const int what = bulkhead_decide_submit_(b, &s, job, timeout_ns, wait_ns);
    error = what > 0 ? what : 0;
    if (error == 0 && (blocked != NULL || what == BULKHEAD_WANTS_ROOM_)) {
        *self = bulkhead_blocked_here_(b, blocked != NULL ? wait_ns : timeout_ns);
        self->owns = blocked != NULL;
        bool deep = what != BULKHEAD_RUNS_AT_ONCE_ && bulkhead_is_too_deep_(b, &s, self);
        error = deep || (blocked != NULL && bulkhead_keeps_others_(b)) ? EDEADLK : 0;
    }
    if (error != 0) {
        bulkhead_unlock_(b, &s);
        return error;
    }
    error = what == BULKHEAD_WANTS_ROOM_
                ? bulkhead_await_room_(b, &s, job, timeout_ns, since, self, blocked != NULL)
                : bulkhead_hand_in_(b, &s, job, since, blocked);
    if (error != 0) {
        bulkhead_unblock_(b, self);
    } else {
        bulkhead_tell_(b, BULKHEAD_EVENT_ACCEPTED, about, BULKHEAD_PENDING, 0, 0);
    }
    return error;
}
