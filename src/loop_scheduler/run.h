/* Running the loop on the thread of the caller. */

/* Does its own thread run it, or is about to? */
static inline bool loop_scheduler_has_thread_(const loop_scheduler *l)
{
    return l->thread_state_ == LOOP_SCHEDULER_STARTING_ ||
           l->thread_state_ == LOOP_SCHEDULER_RUNNING_;
}

/* The calling thread begins to run the loop. */
PLIM_RARE_ int loop_scheduler_enter_(loop_scheduler *l, bool own_thread)
{
    uint64_t self = plim_thread_id_();
    int64_t now = loop_scheduler_now_(l);
    loop_scheduler_lock_(l);
    uint64_t other = plim_load_relaxed_(&l->place_.goal.thread);
    int error = other == self                                  ? EDEADLK
                : other != 0                                   ? EBUSY
                : loop_scheduler_has_thread_(l) && !own_thread ? EBUSY
                : loop_scheduler_stage_(l) == PLIM_OVER_       ? ESHUTDOWN
                                                               : 0;
    if (error == 0) {
        plim_place_ **here = l->place_.here();
        plim_store_relaxed_(&l->place_.goal.thread, self);
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

/*
 * Waits until something has changed, at most until then. Under the lock, which is released in
 * between. The caller then checks its own condition again, and the clock.
 *
 * Why no change goes unnoticed. Threads wait for one of four things:
 *   1  a closed loop is over, and its thread has left it;
 *   2  no thread runs it;
 *   3  its own thread has left it, or need not do so any more;
 *   4  this thread is joined, or can be.
 * All of them come under the lock, in four sections: a thread leaves the loop; start knows its
 * thread, or that there is none; a thread is joined; closing begins. Each of these sections ends
 * all waits, by unlock_and_wake_. A waiter looks, and joins the list, in one section. So it saw the
 * change, or is woken by it.
 */
PLIM_RARE_ void loop_scheduler_wait_(loop_scheduler *l, int64_t until)
{
    plim_waiter_ self;
    plim_waiter_init_(&self);
    plim_append_(&l->waiters_, &self.node);
    loop_scheduler_unlock_(l);
    int error = plim_sleep_(&self, until == PLIM_FOREVER ? until : until - plim_now_(), true);
    loop_scheduler_lock_(l);
    if (error != 0) {
        plim_unlink_(&l->waiters_, &self.node);
    }
}

/* Ends all waits, and the section. They are woken after it, for that may take a system call. */
PLIM_RARE_ void loop_scheduler_unlock_and_wake_(loop_scheduler *l)
{
    plim_list_ woken = {NULL, NULL};
    if (l->waiters_.first != NULL) {
        plim_end_waits_(&woken, &l->waiters_, 0);
    }
    loop_scheduler_unlock_(l);
    plim_wake_all_(woken.first);
}

/* And stops running it. Once the lock is released, another thread may run, close and destroy it. */
PLIM_RARE_ void loop_scheduler_leave_(loop_scheduler *l, bool own_thread)
{
    int64_t now = loop_scheduler_now_(l);
    loop_scheduler_lock_(l);
    loop_scheduler_count_sleep_(l);
    l->figures_.busy_ns += now - l->marked_;
    l->what_ = LOOP_SCHEDULER_NOTHING_;
    *l->place_.here() = l->place_.outer;
    plim_store_relaxed_(&l->place_.goal.thread, 0);
    plim_store_relaxed_(&l->runner_, 0);
    plim_store_relaxed_(&l->stop_, 0); /* whether it was seen or not: it was for this run */
    if (own_thread) {
        l->thread_state_ = l->thread_state_ == LOOP_SCHEDULER_RUNNING_ ? LOOP_SCHEDULER_LEFT_
                                                                       : LOOP_SCHEDULER_GONE_;
    }
    bool signals = loop_scheduler_watch_fd_(l);
    if (signals) {
        plim_reduce_(&l->wakers_, 1);
    }
    loop_scheduler_unlock_and_wake_(l);
    if (signals) {
        loop_scheduler_signal_fd_(l->fd_write_); /* is there until we give back what we took */
        loop_scheduler_release_(&l->wakers_);
    }
}

PLIM_SLOW_ void loop_scheduler_wind_up_(loop_scheduler *l);

/* A turn, or a sleep until then if there was nothing to do, or closing. Returns 0 something ran;
 * ETIMEDOUT nothing did; ECANCELED stopped; ESHUTDOWN all is over. */
PLIM_CALLED_ int loop_scheduler_step_once_(loop_scheduler *l, int64_t until)
{
    for (;;) {
        if (loop_scheduler_stops_(l)) {
            return ECANCELED;
        }
        bool ran = loop_scheduler_turn_(l);
        if (loop_scheduler_stage_(l) != PLIM_OPEN_) {
            loop_scheduler_wind_up_(l);
        }
        if (ran || loop_scheduler_stage_(l) == PLIM_OVER_) {
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

PLIM_SLOW_ int loop_scheduler_run_(loop_scheduler *l)
{
    int error = loop_scheduler_enter_(l, false);
    if (error == 0) {
        loop_scheduler_run_on_(l);
        loop_scheduler_leave_(l, false);
    }
    return error;
}

/* A turn, and what to say if nothing ran. */
PLIM_SLOW_ int loop_scheduler_run_once_(loop_scheduler *l, int64_t timeout_ns, int nothing)
{
    int64_t until = timeout_ns > 0 ? plim_deadline_(plim_now_(), timeout_ns) : 0;
    int error = loop_scheduler_enter_(l, false);
    if (error != 0) {
        return error;
    }
    int end = loop_scheduler_step_once_(l, until);
    loop_scheduler_leave_(l, false);
    return end == ETIMEDOUT || end == ECANCELED ? nothing : end;
}
