/* Entering and leaving, when the fast way does not do. */

PLIM_CALLED_ int bulkhead_reject_(bulkhead *b, bulkhead_subject_ about, int error)
{
    plim_add_relaxed_(&b->calls.rejected, 1);
    PLIM_PROBE_(reject, b, error);
    if ((b->fixed.flags & BULKHEAD_EVENTS_) != 0) {
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

/* May a caller take a permit at once? If one is free, and not too many would wait after that. */
static inline bool bulkhead_enters_(const bulkhead *b, uint64_t word)
{
    return bulkhead_available_(word) > 0 && bulkhead_is_to_spare_(b, word);
}

/* What goes with getting in, besides the permit. */
PLIM_SLOW_ void bulkhead_entered_(bulkhead *b, int64_t since)
{
    if ((b->fixed.flags & BULKHEAD_STATS) != 0) {
        plim_add_relaxed_(&b->calls.entered, 1);
    }
    if (b->fixed.histograms != NULL) {
        int64_t now = plim_now_();
        bulkhead_section_ s = bulkhead_lock_(b);
        bulkhead_time_wait_(b, since == 0 ? 0 : now - since);
        bulkhead_unlock_(b, &s);
    }
    bulkhead_tell_(b, BULKHEAD_EVENT_ACCEPTED, bulkhead_no_job_(), BULKHEAD_PENDING, 0, 0);
}

/* Notes the end of a function that was called with a permit (BULKHEAD_TIMINGS, or a limiter). */
PLIM_SLOW_ void bulkhead_ran_(bulkhead *b, int64_t since, int result)
{
    if (b->fixed.histograms != NULL) {
        int64_t now = plim_now_();
        bulkhead_section_ s = bulkhead_lock_(b);
        bulkhead_time_run_(b, now - since);
        bulkhead_unlock_(b, &s);
    }
    if ((b->fixed.flags & BULKHEAD_LIMITED_) != 0) {
        bulkhead_sample_(b, since, 0, result);
    }
}

/* Waits in the queue. The thread that lets it in takes the permit for it. */
PLIM_RARE_ int bulkhead_queue_up_(bulkhead *b, bulkhead_caller_ *self, int64_t timeout_ns)
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
            answer = b->stage >= PLIM_ABORTING_        ? ESHUTDOWN
                     : bulkhead_available_(s.word) > 0 ? 0
                                                       : BULKHEAD_NUDGED_;
            if (answer == 0) {
                s.word -= BULKHEAD_PERMIT_ONE_;
            }
        }
        if (answer == BULKHEAD_NUDGED_) {
            /* Another was faster: not a second time. That one may wait as well by now, and this one
             * did not count while it was awake. */
            self->owed = true;
            b->recheck = true;
            plim_waiter_init_(&self->waiter);
            bulkhead_staff_(b, &s); /* it may be a worker, and waits again */
        } else if (!self->gone) {
            bulkhead_dequeue_(b, &s, &self->entry);
        }
        bulkhead_unlock_(b, &s);
        if (answer != BULKHEAD_NUDGED_) {
            return answer;
        }
    }
}

/* Takes the last place in the queue, unless the wait would never end: 0, EDEADLK. */
static inline int bulkhead_line_up_(bulkhead *b, bulkhead_section_ *s, bulkhead_caller_ *self,
                                    bulkhead_blocked_ *blocked, int64_t since)
{
    if (bulkhead_is_too_deep_(b, s, blocked)) {
        return EDEADLK;
    }
    plim_waiter_init_(&self->waiter);
    plim_store_relaxed_(&self->entry.phase, BULKHEAD_CALLER_);
    self->gone = self->nudged = self->owed = false;
    self->since = since;
    bulkhead_enqueue_(b, s, &self->entry);
    PLIM_PROBE_(queue, b, &self->waiter.wake);
    blocked->queues = true;
    bulkhead_block_(b, s, blocked, NULL, &self->waiter);
    return 0;
}

/* Gets a permit, if need be after a wait, and tells nobody. `again`: for another attempt of a job
 * that was accepted, which is refused by an abort only. */
PLIM_SLOW_ int bulkhead_get_in_(bulkhead *b, int64_t timeout_ns, int64_t since, bool again)
{
    bulkhead_caller_ self;
    bulkhead_blocked_ blocked;
    bulkhead_section_ s = bulkhead_lock_(b);
    const bool takes = bulkhead_enters_(b, s.word);
    int error = !again ? bulkhead_refusal_(s.word, takes, bulkhead_has_room_(b, s.word), timeout_ns)
                : b->stage >= PLIM_ABORTING_ ? ESHUTDOWN
                                             : 0;
    if (error == 0 && takes) {
        s.word -= BULKHEAD_PERMIT_ONE_;
    } else if (error == 0) {
        blocked = bulkhead_blocked_here_(b, timeout_ns);
        error = bulkhead_line_up_(b, &s, &self, &blocked, since);
    }
    bulkhead_unlock_(b, &s);
    if (error == 0 && !takes) {
        error = bulkhead_queue_up_(b, &self, timeout_ns);
        bulkhead_unblock_(b, &blocked);
    }
    return error;
}

/* Most that are refused are so without the lock, and that is quick. */
PLIM_CALLED_ int bulkhead_enter_slow_(bulkhead *b, int64_t timeout_ns, int full)
{
    uint64_t word;
    int error = 0;
    if (PLIM_LIKELY_(bulkhead_read_exactly_(b, &word))) {
        error = bulkhead_refusal_(word, bulkhead_enters_(b, word), bulkhead_may_have_room_(b, word),
                                  timeout_ns);
    }
    const int64_t since = error != 0 || b->fixed.histograms == NULL ? 0 : plim_now_();
    if (error == 0) {
        error = bulkhead_get_in_(b, timeout_ns, since, false);
    }
    if (error != 0) {
        return bulkhead_reject_(b, bulkhead_no_job_(), error == ETIMEDOUT ? full : error);
    }
    bulkhead_note_last_(b, plim_thread_id_());
    bulkhead_entered_(b, since);
    return 0;
}

/* What the fast way could not do, or would not: the limits may change beside it. */
PLIM_SLOW_ int bulkhead_leave_slow_(bulkhead *b)
{
    bulkhead_section_ s = bulkhead_lock_(b);
    int error = bulkhead_is_held_(b, s.word) ? 0 : EPERM;
    if (error == 0) {
        s.word += BULKHEAD_PERMIT_ONE_;
    }
    bulkhead_unlock_(b, &s);
    return error;
}

/* All other work of leaving comes first: once the permit is back, the bulkhead may be gone. */
PLIM_SLOW_ int bulkhead_leave_hooked_(bulkhead *b, int result, bulkhead_stay_ *stay)
{
    bulkhead_section_ s = bulkhead_lock_(b);
    bool held = bulkhead_is_held_(b, s.word);
    bulkhead_unlock_(b, &s);
    if (!held) {
        return EPERM;
    }
    if ((b->fixed.flags & BULKHEAD_STATS) != 0) {
        plim_add_relaxed_(result == 0 ? &b->calls.left : &b->calls.left_failed, 1);
    }
    bulkhead_tell_(b, BULKHEAD_EVENT_FINISHED, bulkhead_no_job_(),
                   result == 0 ? BULKHEAD_SUCCEEDED : BULKHEAD_FAILED, result, 1);
    bulkhead_forget_(b, stay);
    return bulkhead_leave_slow_(b);
}
