/* Running the loop on the thread of the caller. */

/* The calling thread begins to run the loop. */
PLIM_CALLED_ int loop_scheduler_enter_(loop_scheduler *l, bool own_thread)
{
    uint64_t self = plim_thread_id_();
    int64_t now = loop_scheduler_now_(l);
    loop_scheduler_lock_(l);
    uint64_t other = plim_load_relaxed_(&l->place_.thread);
    int error = other == self                                                   ? EDEADLK
                : other != 0                                                    ? EBUSY
                : l->thread_state_ == LOOP_SCHEDULER_HAS_THREAD_ && !own_thread ? EBUSY
                : l->over_                                                      ? ESHUTDOWN
                                                                                : 0;
    if (error == 0) {
        plim_place_ **here = l->place_.here();
        plim_store_relaxed_(&l->place_.thread, self);
        plim_store_relaxed_(&l->runner_, self);
        l->place_.outer = *here;
        *here = &l->place_;
        l->since_ = now > l->since_ ? now : l->since_; /* others may have run it since we read it */
        l->marked_ = l->since_;
        if (l->fd_ >= 0) {
            loop_scheduler_unwatch_fd_(l);
        }
    }
    loop_scheduler_unlock_(l);
    return error;
}

/* Wakes the threads blocked in close. If the loop is over, wakes all of them; otherwise wakes one,
 * which takes over and runs what is left. */
static inline void loop_scheduler_tell_closers_(loop_scheduler *l, plim_list_ *woken)
{
    if (l->over_) {
        plim_end_waits_(woken, &l->closers_, 0);
        return;
    }
    for (plim_node_ *at = l->closers_.first; at != NULL; at = at->next) {
        if (plim_end_wait_(woken, &l->closers_, (plim_waiter_ *)(void *)at, EAGAIN)) {
            return;
        }
    }
}

static inline void loop_scheduler_wake_closers_(plim_list_ *woken)
{
    for (plim_node_ *next, *at = woken->first; at != NULL; at = next) {
        next = at->next; /* before it wakes: then its frame is gone */
        plim_release_(&((plim_waiter_ *)(void *)at)->wake, 1);
    }
}

/* And ends to run it. Once the lock is let go somebody else may run, close and destroy it. */
PLIM_CALLED_ void loop_scheduler_leave_(loop_scheduler *l, bool own_thread)
{
    plim_list_ woken = {NULL, NULL};
    int64_t now = loop_scheduler_now_(l);
    loop_scheduler_lock_(l);
    loop_scheduler_count_sleep_(l);
    l->busy_ += now - l->marked_;
    l->running_ = NULL;
    l->firing_ = NULL;
    l->runs_ = false;
    *l->place_.here() = l->place_.outer;
    plim_store_relaxed_(&l->place_.thread, 0);
    plim_store_relaxed_(&l->runner_, 0);
    plim_store_relaxed_(&l->stop_, 0); /* whether it was seen or not: it was for this run */
    if (own_thread) {
        l->thread_state_ = LOOP_SCHEDULER_ITS_OVER_;
    }
    bool signals = loop_scheduler_watch_fd_(l);
    if (signals) {
        plim_add_relaxed_(&l->wakers_, 1);
    }
    if (loop_scheduler_closing_(l) != PLIM_OPEN_) {
        loop_scheduler_tell_closers_(l, &woken);
    }
    loop_scheduler_unlock_(l);
    loop_scheduler_wake_closers_(&woken);
    if (signals) {
        loop_scheduler_signal_fd_(l->fd_write_); /* is there while we are one of wakers_ */
        loop_scheduler_wakes_no_more_(l);
    }
}

PLIM_SLOW_ void loop_scheduler_wind_up_(loop_scheduler *l);

/* A turn, or a sleep until then if there was nothing to do, or closing. Returns 0 something ran;
 * ETIMEDOUT nothing did; ECANCELED stopped; ESHUTDOWN all is over. */
static inline int loop_scheduler_step_once_(loop_scheduler *l, int64_t until)
{
    for (;;) {
        if (loop_scheduler_stops_(l)) {
            return ECANCELED;
        }
        bool ran = loop_scheduler_turn_(l);
        if (loop_scheduler_closing_(l) != PLIM_OPEN_) {
            loop_scheduler_wind_up_(l);
        }
        if (ran || l->over_) {
            return ran ? 0 : ESHUTDOWN;
        }
        if (until <= 0 || (until != PLIM_FOREVER && plim_now_() >= until)) {
            return ETIMEDOUT;
        }
        if (!loop_scheduler_stops_(l)) {
            loop_scheduler_sleep_(l, until);
        }
    }
}

/* Until it is stopped or over. */
static inline void loop_scheduler_run_on_(loop_scheduler *l)
{
    l->cpus_ = 0;
    while (loop_scheduler_step_once_(l, PLIM_FOREVER) == 0) {
        continue;
    }
}

static inline int loop_scheduler_run(loop_scheduler *l)
{
    int error = loop_scheduler_enter_(l, false);
    if (error == 0) {
        loop_scheduler_run_on_(l);
        loop_scheduler_leave_(l, false);
    }
    return error;
}

/* A turn, and what to say if nothing ran. */
static inline int loop_scheduler_one_turn_(loop_scheduler *l, int64_t until, int nothing)
{
    int error = loop_scheduler_enter_(l, false);
    if (error != 0) {
        return error;
    }
    int end = loop_scheduler_step_once_(l, until);
    loop_scheduler_leave_(l, false);
    return end == ETIMEDOUT || end == ECANCELED ? nothing : end;
}

static inline int loop_scheduler_run_once(loop_scheduler *l, int64_t timeout_ns)
{
    int64_t until = timeout_ns > 0 ? plim_deadline_(plim_now_(), timeout_ns) : 0;
    return loop_scheduler_one_turn_(l, until, ETIMEDOUT);
}

static inline int loop_scheduler_poll(loop_scheduler *l)
{
    return loop_scheduler_one_turn_(l, 0, EAGAIN);
}

static inline void loop_scheduler_stop(loop_scheduler *l)
{
    plim_store_relaxed_(&l->stop_, 1);
    loop_scheduler_rouse_(l, 0); /* see loop_scheduler_sleep_ */
}
