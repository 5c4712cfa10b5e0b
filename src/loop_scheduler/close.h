/* The end: close and destroy. */

/*
 * Closing. It begins under the lock: closing_ is changed and all timers are cancelled in one
 * section, and none is started later, except by coroutines that have been told. So what is armed
 * from then on are waits of coroutines that clean up. They may last until somebody who
 * closes has no time left, and then are cancelled, too, in the section that sets late_.
 */

/* All timers are to be told that they are cancelled, in the order of their deadlines. */
PLIM_SLOW_ void loop_scheduler_cancel_timers_(loop_scheduler *l)
{
    int64_t base = l->timers_.base;
    plim_timer_ *timer = plim_timers_take_due_(&l->timers_, INT64_MAX, UINT64_MAX);
    while (timer != NULL) {
        loop_scheduler_queue_told_(l, loop_scheduler_of_timer_(timer));
        timer = plim_timers_take_due_(&l->timers_, INT64_MAX, UINT64_MAX);
    }
    l->timers_.base = base; /* none is left, so any time will do */
    plim_store_relaxed_(&l->next_timer_, (uint64_t)PLIM_FOREVER);
}

/* Nothing waits to run. On the loop's thread, or when there is none. */
static inline bool loop_scheduler_is_drained_(const loop_scheduler *l)
{
    return l->queue_.count == 0 && plim_load_relaxed_(&l->fresh_count_) == 0 &&
           loop_scheduler_newest_(plim_load_relaxed_(&l->word_.word)) == NULL;
}

static inline bool loop_scheduler_is_bare_(const loop_scheduler *l)
{
    return loop_scheduler_is_drained_(l) && l->timers_.count == 0 && l->offloaded_ == 0 &&
           l->suspended_count_ == 0;
}

/*
 * After a turn of a loop that is being closed: what remains to be done?
 *
 * Why it is over when it is. The word is CLOSED, so what could still come is from the loop's own
 * tasks, of which none runs, from works and from those who set events, and both are counted. A
 * signal handler on this thread may post until over_ is set: so that is looked at once more.
 */
PLIM_SLOW_ void loop_scheduler_wind_up_(loop_scheduler *l)
{
    loop_scheduler_lock_(l);
    l->wound_up_ = loop_scheduler_closing_(l);
    bool late = l->late_;
    bool cancels = l->wound_up_ == PLIM_ABORTING_ ||
                   (loop_scheduler_is_drained_(l) && l->offloaded_ == 0 && l->timers_.count == 0);
    plim_node_ *suspended = cancels ? l->suspended_.first : NULL;
    loop_scheduler_unlock_(l);

    /* The list is this thread's: the lock was for those who count. */
    for (plim_node_ *at = suspended; at != NULL; at = at->next) {
        loop_scheduler_coroutine *co = loop_scheduler_of_kept_(at);
        if ((late || !co->patient_) && loop_scheduler_unlist_(co)) {
            loop_scheduler_push_resumed_(co, ECANCELED);
        }
    }

    loop_scheduler_lock_(l);
    l->over_ = loop_scheduler_is_bare_(l);
    if (l->over_) {
        loop_scheduler_fresh_busy_(l, 0); /* not that it was: to keep these two lines in order */
        l->over_ = loop_scheduler_is_bare_(l);
    }
    loop_scheduler_unlock_(l);
}

/* The time of one who closes is over. Under the lock. */
PLIM_SLOW_ void loop_scheduler_hurry_(loop_scheduler *l)
{
    if (loop_scheduler_closing_(l) == PLIM_DRAINING_) {
        plim_store_relaxed_(&l->closing_, PLIM_ABORTING_);
        l->hurried_ = true;
    }
    if (!l->late_) {
        l->late_ = true;
        loop_scheduler_cancel_timers_(l);
        loop_scheduler_less_is_left_(l);
    }
}

/* How long a closer waits, after its time, for a loop that makes no progress any more; and for one
 * that does, but whose coroutines do not come to their end. */
#define LOOP_SCHEDULER_GRACE_NS_ PLIM_MS(100)
#define LOOP_SCHEDULER_GRACES_NS_ PLIM_S(1)

/* Runs what is left on the thread that closes. False if its time is over. `until` 0: without
 * waiting for anything. */
PLIM_SLOW_ bool loop_scheduler_close_here_(loop_scheduler *l, int64_t until)
{
    int64_t now = plim_now_();
    int64_t last = plim_deadline_(now > until ? now : until, LOOP_SCHEDULER_GRACES_NS_);
    int end = 0;
    while (end != ESHUTDOWN) {
        bool late = now >= until;
        if (late && until > 0) { /* whatever comes: what has not begun is ended, and not drained */
            loop_scheduler_lock_(l);
            loop_scheduler_hurry_(l);
            loop_scheduler_unlock_(l);
        }
        if (now >= last) {
            break;
        }
        int64_t grace = until > 0 ? now + LOOP_SCHEDULER_GRACE_NS_ : 0;
        end = loop_scheduler_step_once_(l, late ? grace : until);
        if (end == ETIMEDOUT && late) {
            break;
        }
        now = until == PLIM_FOREVER ? now : plim_now_();
    }
    return end == ESHUTDOWN;
}

/* Does nobody run it, so that whoever closes it may? Under the lock. */
static inline bool loop_scheduler_is_left_alone_(const loop_scheduler *l)
{
    return plim_load_relaxed_(&l->place_.thread) == 0 &&
           l->thread_state_ != LOOP_SCHEDULER_HAS_THREAD_;
}

/* Has it come to its end, and is no thread in it? Under the lock. */
static inline bool loop_scheduler_has_ended_(const loop_scheduler *l)
{
    return l->over_ && plim_load_relaxed_(&l->place_.thread) == 0;
}

/* Likewise; runs what is left until then, if nobody else does. */
static inline bool loop_scheduler_end_here_(loop_scheduler *l, int64_t until)
{
    bool in_time = true;
    loop_scheduler_unlock_(l);
    if (loop_scheduler_enter_(l, false) == 0) {
        in_time = loop_scheduler_close_here_(l, until);
        loop_scheduler_leave_(l, false);
    }
    loop_scheduler_lock_(l);
    return in_time;
}

/* Waits for the end, under the lock, which is let go meanwhile. False if the time is over. */
PLIM_SLOW_ bool loop_scheduler_wait_for_end_(loop_scheduler *l, int64_t until)
{
    int64_t now = plim_now_();
    int64_t last = plim_deadline_(now > until ? now : until, LOOP_SCHEDULER_GRACES_NS_);
    while (!loop_scheduler_has_ended_(l)) {
        uint64_t done = l->ran_ + l->cancelled_ + l->fired_;
        bool late = now >= until;
        if (late) { /* perhaps from the start: what has not begun is ended, and not drained */
            loop_scheduler_hurry_(l);
        }
        plim_waiter_ self;
        if (loop_scheduler_is_left_alone_(l)) {
            if (!loop_scheduler_end_here_(l, until)) {
                return false;
            }
            continue;
        }
        plim_waiter_init_(&self);
        plim_append_(&l->closers_, &self.node);
        loop_scheduler_unlock_(l);
        int64_t ns = late ? LOOP_SCHEDULER_GRACE_NS_ : until - now;
        int error = plim_sleep_(&self, until == PLIM_FOREVER ? until : ns, true);
        now = plim_now_();
        loop_scheduler_lock_(l);
        if (error == ETIMEDOUT) {
            plim_unlink_(&l->closers_, &self.node);
            if (late && (done == l->ran_ + l->cancelled_ + l->fired_ || now >= last)) {
                return false;
            }
        }
    }
    return true;
}

/* Whether the end has come, without waiting for it. If nobody runs the loop, DRAIN leaves what is
 * queued to whoever runs it next; NOW has nothing to run, but tells it here. */
static inline bool loop_scheduler_looks_for_end_(loop_scheduler *l)
{
    if (!loop_scheduler_has_ended_(l) && loop_scheduler_is_left_alone_(l) &&
        (loop_scheduler_closing_(l) == PLIM_ABORTING_ || loop_scheduler_is_bare_(l))) {
        loop_scheduler_end_here_(l, 0);
    }
    return loop_scheduler_has_ended_(l);
}

/* Closing begins, or DRAIN becomes NOW. Under the lock. */
static inline void loop_scheduler_begin_close_(loop_scheduler *l, bool drains, int64_t until)
{
    if (loop_scheduler_closing_(l) == PLIM_OPEN_) {
        loop_scheduler_cancel_timers_(l);
    }
    plim_store_relaxed_(&l->closing_, drains ? PLIM_DRAINING_ : PLIM_ABORTING_);
    if (drains && until > 0) {
        l->drain_until_ = until < l->drain_until_ ? until : l->drain_until_;
    }
    if (l->max_queue_ != 0) {
        plim_close_(&l->room_); /* those who wait for room: ESHUTDOWN */
    }
    loop_scheduler_rouse_(l, LOOP_SCHEDULER_CLOSED_);
}

/*
 * Is this the child of the process that has made the loop? Its threads are not here, and whatever
 * they held they hold for ever. Nothing but a constant is read for that.
 */
static inline bool loop_scheduler_is_inherited_(const loop_scheduler *l)
{
    return l->process_ != plim_process_();
}

static inline int loop_scheduler_close(loop_scheduler *l, int how, int64_t timeout_ns)
{
    int64_t until = timeout_ns > 0 ? plim_deadline_(plim_now_(), timeout_ns) : 0;
    if (how != LOOP_SCHEDULER_DRAIN && how != LOOP_SCHEDULER_NOW) {
        return EINVAL;
    }
    if (loop_scheduler_is_inherited_(l)) {
        return 0;
    }
    bool waits = until > 0, in_time;
    plim_place_ *here = *l->place_.here();
    if (waits && (loop_scheduler_is_current(l) || !plim_may_wait_(here, &l->place_, NULL))) {
        return EDEADLK;
    }
    loop_scheduler_lock_(l);
    bool drains = how == LOOP_SCHEDULER_DRAIN && loop_scheduler_closing_(l) != PLIM_ABORTING_;
    loop_scheduler_begin_close_(l, drains, until);
    if (waits) {
        in_time = loop_scheduler_wait_for_end_(l, until) && !(drains && l->hurried_);
    } else {
        in_time = loop_scheduler_looks_for_end_(l);
    }
    if (loop_scheduler_has_ended_(l)) {
        loop_scheduler_reap_(l);
    }
    loop_scheduler_unlock_(l);
    if (waits) {
        plim_wait_over_(here);
    }
    return in_time ? 0 : ETIMEDOUT;
}

static inline int loop_scheduler_destroy(loop_scheduler *l)
{
    if (loop_scheduler_is_inherited_(l)) {
        return 0;
    }
    if (loop_scheduler_is_current(l)) {
        return EDEADLK;
    }
    loop_scheduler_lock_(l);
    int error = loop_scheduler_reap_stopped_(l);
    bool busy = !loop_scheduler_is_bare_(l) || plim_load_relaxed_(&l->place_.thread) != 0 ||
                l->thread_state_ != LOOP_SCHEDULER_NO_THREAD_;
    loop_scheduler_unlock_(l);
    if (error != 0 || busy) {
        return error != 0 ? error : EBUSY;
    }
    while (plim_load_acquire_(&l->wakers_) != 0) { /* they are about to write to the descriptor */
        plim_nap_(plim_now_() + PLIM_NAP_NS_);
    }
    loop_scheduler_close_fd_(l);
    l->fd_ = l->fd_write_ = -1;
    return 0;
}
