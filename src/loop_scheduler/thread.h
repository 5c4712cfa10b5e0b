/* The loop's own thread; and living in another loop. */

/* A task has ended the loop's own thread. */
PLIM_SLOW_ void loop_scheduler_thread_lost_(void *arg)
{
    loop_scheduler_leave_((loop_scheduler *)arg, true);
}

/* What the loop's own thread runs. */
PLIM_SLOW_ plim_worker_result loop_scheduler_thread_(void *arg)
{
    loop_scheduler *l = (loop_scheduler *)arg;
    plim_worker_begins_(l->fixed_.name);
    loop_scheduler_enter_(l, true); /* cannot fail: the place is kept for us */
    PLIM_ON_THREAD_EXIT_(loop_scheduler_thread_lost_, l)
    loop_scheduler_run_on_(l);
    PLIM_ON_THREAD_EXIT_END_
    loop_scheduler_leave_(l, true);
    return 0;
}

/* Was the loop's own thread stopped, and has it not left the loop yet? */
static inline bool loop_scheduler_is_stopping_(const loop_scheduler *l)
{
    return loop_scheduler_has_thread_(l) && loop_scheduler_stops_(l);
}

/* Joins the loop's own thread, if it has left the loop, or waits until another thread has. Under
 * the lock, which is released in between. This is not a wait for the loop: another thread may run
 * that by now. */
PLIM_RARE_ void loop_scheduler_reap_(loop_scheduler *l)
{
    while (l->thread_state_ > LOOP_SCHEDULER_RUNNING_) {
        if (l->thread_state_ != LOOP_SCHEDULER_LEFT_) {
            loop_scheduler_wait_(l, PLIM_FOREVER);
            continue;
        }
        l->thread_state_ = LOOP_SCHEDULER_JOINING_; /* so that nobody else does */
        loop_scheduler_unlock_(l);
        plim_worker_join_(l->thread_);
        loop_scheduler_lock_(l);
        l->thread_state_ = LOOP_SCHEDULER_NO_THREAD_;
        loop_scheduler_unlock_and_wake_(l);
        loop_scheduler_lock_(l);
    }
}

/* The same, and before that waits for a thread that was stopped: 0, EDEADLK. Not by a join, for the
 * loop may be closed in the meantime. Then the thread stays, for works that may wait for us. */
PLIM_RARE_ int loop_scheduler_reap_stopped_(loop_scheduler *l)
{
    if (loop_scheduler_is_stopping_(l)) {
        plim_place_ *here = *l->place_.here();
        loop_scheduler_unlock_(l);
        bool may = plim_may_wait_(here, &l->place_.goal, NULL);
        loop_scheduler_lock_(l);
        if (!may) {
            return EDEADLK;
        }
        while (loop_scheduler_is_stopping_(l)) {
            loop_scheduler_wait_(l, PLIM_FOREVER);
        }
        loop_scheduler_unlock_(l);
        plim_wait_over_(here);
        loop_scheduler_lock_(l);
    }
    loop_scheduler_reap_(l);
    return 0;
}

PLIM_SLOW_ int loop_scheduler_start_(loop_scheduler *l)
{
    plim_worker_thread thread;
    if (loop_scheduler_is_current(l)) {
        return EBUSY;
    }
    loop_scheduler_lock_(l);
    int error = loop_scheduler_reap_stopped_(l);
    error = error != 0                               ? error
            : loop_scheduler_stage_(l) != PLIM_OPEN_ ? ESHUTDOWN
            : l->thread_state_ != LOOP_SCHEDULER_NO_THREAD_ ||
                    plim_load_relaxed_(&l->place_.goal.thread) != 0
                ? EBUSY
                : 0;
    if (error == 0) {
        l->thread_state_ = LOOP_SCHEDULER_STARTING_;
    }
    loop_scheduler_unlock_(l);
    if (error != 0) {
        return error;
    }
    error = plim_worker_create_(&thread, l->fixed_.stack_size, loop_scheduler_thread_, l);
    loop_scheduler_lock_(l);
    if (error == 0) {
        l->thread_ = thread;
        l->thread_state_ = l->thread_state_ == LOOP_SCHEDULER_GONE_ ? LOOP_SCHEDULER_LEFT_
                                                                    : LOOP_SCHEDULER_RUNNING_;
    } else {
        l->thread_state_ = LOOP_SCHEDULER_NO_THREAD_;
    }
    loop_scheduler_unlock_and_wake_(l);
    return error;
}

static inline int loop_scheduler_fd(loop_scheduler *l)
{
    bool signals = false;
    loop_scheduler_lock_(l);
    if (l->fd_ < 0) {
        loop_scheduler_open_fd_(l);
        signals = plim_load_relaxed_(&l->place_.goal.thread) == 0 && loop_scheduler_watch_fd_(l);
    }
    int fd = l->fd_;
    if (signals) {
        loop_scheduler_signal_fd_(l->fd_write_);
    }
    loop_scheduler_unlock_(l);
    return fd;
}

static inline int64_t loop_scheduler_next_timeout(loop_scheduler *l)
{
    int64_t now = loop_scheduler_now_(l);
    loop_scheduler_lock_(l);
    loop_scheduler_look_ahead_(l);
    int64_t next = (int64_t)plim_load_relaxed_(&l->next_timer_);
    bool ready = l->queue_.count != 0 || plim_load_relaxed_(&l->fresh_count_) != 0 ||
                 loop_scheduler_newest_(plim_load_relaxed_(&l->word_.word)) != NULL ||
                 l->recheck_ || loop_scheduler_stage_(l) == PLIM_OVER_;
    loop_scheduler_unlock_(l);
    return ready || next <= now ? 0 : next == PLIM_FOREVER ? next : next - now;
}
