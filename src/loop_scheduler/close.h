/* The end: close and destroy. */

/*
 * Closing. stage_ says how far it is, and nothing else does:
 *
 *   stage      what it means                         moved by, to
 *   OPEN       all is accepted                       close: DRAINING, ABORTING
 *   DRAINING   tasks may still post and offload      close with NOW, or a thread that sees that the
 *                                                    time of a closer is over: ABORTING; the loop,
 *                                                    when nothing is left: OVER
 *   ABORTING   queued tasks get ECANCELED            the loop, when nothing is left: OVER
 *   OVER       nothing is left, nothing is accepted  nobody: the loop's thread leaves it
 *
 * It begins under the lock. One section changes stage_ and cancels all timers, and none is started
 * later. Coroutines are the exception: those that had their ECANCELED, and those that wait for a
 * limiter during a drain. Their waits may last until a thread that closes has no time left. Then
 * the section that makes until_ 0 cancels them, too.
 */

/* Cancels all timers: each is queued for its ECANCELED, in the order of deadlines. */
PLIM_RARE_ void loop_scheduler_cancel_timers_(loop_scheduler *l)
{
    int64_t base = l->timers_.base;
    plim_timer_ *timer;
    while ((timer = plim_timers_take_due_(&l->timers_, INT64_MAX, UINT64_MAX)) != NULL) {
        loop_scheduler_queue_told_(l, loop_scheduler_of_timer_(timer));
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

/* Likewise, and nothing is armed, away or suspended, that could. */
static inline bool loop_scheduler_is_bare_(const loop_scheduler *l)
{
    return loop_scheduler_is_drained_(l) && l->timers_.count == 0 && l->figures_.offloaded == 0 &&
           l->figures_.suspended == 0;
}

/* Does a coroutine wait for a limiter? A drain lets it, and may hear from it. On the loop's thread,
 * or when there is none. */
PLIM_RARE_ bool loop_scheduler_any_waits_for_limiter_(const loop_scheduler *l)
{
    bool any = false;
    for (plim_node_ *at = l->suspended_.first; at != NULL; at = at->next) {
        any |= loop_scheduler_of_kept_(at)->event_ == NULL;
    }
    return any;
}

/*
 * After a turn of a loop that is being closed: what remains to be done?
 *
 * Why it is over when it is. The word is CLOSED, so only three can still bring something: the
 * loop's own tasks, of which none runs, works, and those who set events. The last two are counted.
 * A signal handler on this thread may post until it sees OVER. So the loop looks once more after it
 * has set that, and takes it back if there was a post. Only that handler can have seen it.
 */
PLIM_SLOW_ void loop_scheduler_wind_up_(loop_scheduler *l)
{
    loop_scheduler_lock_(l);
    l->recheck_ = false;
    bool late = l->until_ == 0;
    bool aborts = loop_scheduler_stage_(l) >= PLIM_ABORTING_;
    bool cancels = aborts || (loop_scheduler_is_drained_(l) && l->figures_.offloaded == 0 &&
                              l->timers_.count == 0);
    loop_scheduler_unlock_(l);

    /* The list is this thread's: the lock was for those who count. */
    cancels = cancels && (aborts || !loop_scheduler_any_waits_for_limiter_(l));
    plim_node_ *suspended = cancels ? l->suspended_.first : NULL;
    for (plim_node_ *at = suspended; at != NULL; at = at->next) {
        loop_scheduler_coroutine *co = loop_scheduler_of_kept_(at);
        if ((late || !co->patient_) && loop_scheduler_give_up_(co)) {
            loop_scheduler_push_resumed_(co, ECANCELED);
        }
    }

    loop_scheduler_lock_(l);
    if (loop_scheduler_is_bare_(l)) {
        uint64_t before = plim_load_relaxed_(&l->stage_);
        plim_store_relaxed_(&l->stage_, PLIM_OVER_);
        loop_scheduler_fresh_busy_(l, 0); /* not that it was: to keep these two lines in order */
        if (!loop_scheduler_is_bare_(l)) {
            plim_store_relaxed_(&l->stage_, before);
        }
    }
    loop_scheduler_unlock_(l);
}

/* The time of one who closes is over: what has not begun is ended, and no coroutine waits any more.
 * Under the lock. */
PLIM_SLOW_ void loop_scheduler_hurry_(loop_scheduler *l)
{
    if (loop_scheduler_stage_(l) == PLIM_DRAINING_) {
        plim_store_relaxed_(&l->stage_, PLIM_ABORTING_);
    }
    if (l->until_ != 0 && loop_scheduler_stage_(l) != PLIM_OVER_) {
        l->until_ = 0;
        loop_scheduler_cancel_timers_(l);
        loop_scheduler_less_is_left_(l);
    }
}

/* How many turns a closer whose time is over still runs, without waiting. The first tells what is
 * queued. The others are for coroutines, which may want to wait once more, in vain. */
enum { LOOP_SCHEDULER_LAST_TURNS_ = 64 };

/* Runs what is left on the thread that closes, until its time is over. `until` 0: without waiting
 * for anything, and without an end of the time. */
PLIM_RARE_ void loop_scheduler_close_here_(loop_scheduler *l, int64_t until)
{
    int end, turns = 0;
    bool late;
    do {
        late = until != PLIM_FOREVER && plim_now_() >= until;
        if (late && until > 0) {
            loop_scheduler_lock_(l);
            loop_scheduler_hurry_(l);
            loop_scheduler_unlock_(l);
        }
        turns += late;
        end = loop_scheduler_step_once_(l, late ? 0 : until);
    } while (end == 0 ? turns < LOOP_SCHEDULER_LAST_TURNS_ : end == ETIMEDOUT && !late);
}

/* Does no thread run it, so that the one that closes it may? Under the lock. */
static inline bool loop_scheduler_is_left_alone_(const loop_scheduler *l)
{
    return plim_load_relaxed_(&l->place_.goal.thread) == 0 && !loop_scheduler_has_thread_(l);
}

/* Has it come to its end, and is no thread in it? Under the lock. */
static inline bool loop_scheduler_has_ended_(const loop_scheduler *l)
{
    const uint64_t runs_it = plim_load_relaxed_(&l->place_.goal.thread);
    return loop_scheduler_stage_(l) == PLIM_OVER_ && runs_it == 0;
}

/* Runs what is left, unless another thread was faster. Under the lock, which is released. */
static inline void loop_scheduler_end_here_(loop_scheduler *l, int64_t until)
{
    loop_scheduler_unlock_(l);
    if (loop_scheduler_enter_(l, false) == 0) {
        loop_scheduler_close_here_(l, until);
        loop_scheduler_leave_(l, false);
    }
    loop_scheduler_lock_(l);
}

/* Waits for the end, or runs what is left, until then. When the time is over, what has not begun is
 * ended: by the thread that runs the loop, or here if none does. Under the lock, which is
 * released. */
PLIM_RARE_ void loop_scheduler_wait_for_end_(loop_scheduler *l, int64_t until)
{
    bool late = false;
    while (!late && !loop_scheduler_has_ended_(l)) {
        late = until != PLIM_FOREVER && plim_now_() >= until;
        if (late) {
            loop_scheduler_hurry_(l);
        }
        if (loop_scheduler_is_left_alone_(l)) {
            loop_scheduler_end_here_(l, until);
        } else if (!late) {
            loop_scheduler_wait_(l, until);
        }
    }
}

/* Without waiting for the end. If no thread runs the loop, DRAIN leaves what is queued to the next
 * that does. NOW has nothing to run, but cancels it here. */
static inline void loop_scheduler_look_for_end_(loop_scheduler *l)
{
    if (!loop_scheduler_has_ended_(l) && loop_scheduler_is_left_alone_(l) &&
        (loop_scheduler_stage_(l) == PLIM_ABORTING_ || loop_scheduler_is_bare_(l))) {
        loop_scheduler_end_here_(l, 0);
    }
}

/* Closing begins, or DRAIN becomes NOW. Under the lock, which is let go and taken again: who waits
 * for a thread to stop need not do so any more. */
static inline void loop_scheduler_begin_close_(loop_scheduler *l, int stage, int64_t until)
{
    if (loop_scheduler_stage_(l) == PLIM_OPEN_) {
        loop_scheduler_cancel_timers_(l);
    }
    if (loop_scheduler_stage_(l) < stage) {
        plim_store_relaxed_(&l->stage_, (uint64_t)stage);
        l->recheck_ = true;
    }
    if (until > 0) {
        l->until_ = until < l->until_ ? until : l->until_;
    }
    if (l->max_queue_ != 0) {
        plim_close_(&l->room_); /* those who wait for room: ESHUTDOWN */
    }
    loop_scheduler_rouse_(l, LOOP_SCHEDULER_CLOSED_);
    loop_scheduler_unlock_and_wake_(l);
    loop_scheduler_lock_(l);
}

/*
 * Is this the child of the process that has made the loop? Its threads are not here, and whatever
 * they held they hold for ever. Nothing but a constant is read for that.
 */
static inline bool loop_scheduler_is_inherited_(const loop_scheduler *l)
{
    return l->fixed_.process != plim_process_();
}

PLIM_SLOW_ int loop_scheduler_close_(loop_scheduler *l, int how, int64_t timeout_ns)
{
    int64_t until = timeout_ns > 0 ? plim_deadline_(plim_now_(), timeout_ns) : 0;
    if (how != LOOP_SCHEDULER_DRAIN && how != LOOP_SCHEDULER_NOW) {
        return EINVAL;
    }
    if (loop_scheduler_is_inherited_(l)) {
        return 0;
    }
    bool waits = until > 0;
    plim_place_ *here = *l->place_.here();
    if (waits && (loop_scheduler_is_current(l) || !plim_may_wait_(here, &l->place_.goal, NULL))) {
        return EDEADLK;
    }
    loop_scheduler_lock_(l);
    bool drains = how == LOOP_SCHEDULER_DRAIN && loop_scheduler_stage_(l) < PLIM_ABORTING_;
    loop_scheduler_begin_close_(l, drains ? PLIM_DRAINING_ : PLIM_ABORTING_, until);
    if (waits) {
        loop_scheduler_wait_for_end_(l, until);
    } else {
        loop_scheduler_look_for_end_(l);
    }
    bool ended = loop_scheduler_has_ended_(l);
    /* A drain may have been cut short, and nevertheless be over before this thread woke up. */
    bool cut = drains && waits && l->until_ == 0 && plim_now_() >= until;
    if (ended) {
        loop_scheduler_reap_(l);
    }
    loop_scheduler_unlock_(l);
    if (waits) {
        plim_wait_over_(here);
    }
    return ended && !cut ? 0 : ETIMEDOUT;
}

PLIM_SLOW_ int loop_scheduler_destroy_(loop_scheduler *l)
{
    if (loop_scheduler_is_inherited_(l)) {
        return 0;
    }
    if (loop_scheduler_is_current(l)) {
        return EDEADLK;
    }
    loop_scheduler_lock_(l);
    int error = loop_scheduler_reap_stopped_(l);
    bool busy = !loop_scheduler_is_bare_(l) || plim_load_relaxed_(&l->place_.goal.thread) != 0 ||
                l->thread_state_ != LOOP_SCHEDULER_NO_THREAD_;
    loop_scheduler_unlock_(l);
    if (error != 0 || busy) {
        return error != 0 ? error : EBUSY;
    }
    loop_scheduler_release_(
        &l->wakers_); /* whoever is about to write to the descriptor owes us one */
    plim_acquire_(&l->wakers_, PLIM_WAITERS_MAX, PLIM_FOREVER);
    loop_scheduler_close_fd_(l);
    l->fd_ = l->fd_write_ = -1;
    return 0;
}
