/* Starting and cancelling timers. */

/* The cancelled timer gets its ECANCELED. */
static inline void loop_scheduler_tell_timer_(loop_scheduler_task *task, int status)
{
    loop_scheduler_timer *timer =
        (loop_scheduler_timer *)(void *)((char *)task - offsetof(loop_scheduler_timer, told_));
    (void)status; /* and not by arg, which whoever cancels it again writes */
    timer->run(timer, ECANCELED);
}

/* Is it armed, or cancelled and queued for its ECANCELED? */
static inline bool loop_scheduler_is_pending_(const loop_scheduler_timer *timer)
{
    return timer->state_ == LOOP_SCHEDULER_ARMED_ ||
           (timer->state_ == LOOP_SCHEDULER_UNTOLD_ && loop_scheduler_is_queued_(&timer->told_));
}

/* Disarms a timer that is pending, or takes back its ECANCELED. */
PLIM_SLOW_ void loop_scheduler_disarm_(loop_scheduler *l, loop_scheduler_timer *timer)
{
    if (timer->state_ == LOOP_SCHEDULER_ARMED_) {
        plim_timers_disarm_(&l->timers_, &timer->timer_);
    } else {
        loop_scheduler_unlink_(&l->queue_, &timer->told_);
        plim_store_relaxed_(&timer->told_.state_, LOOP_SCHEDULER_TAKEN_);
        l->figures_.posted--;
    }
}

/* Is its run being called, or about to be? */
static inline bool loop_scheduler_is_firing_(const loop_scheduler *l,
                                             const loop_scheduler_timer *timer)
{
    return l->running_ == timer && l->what_ == LOOP_SCHEDULER_TIMER_;
}

/* `closing`: even if the loop is being closed, as long as the thread that closes has time. */
PLIM_CALLED_ int loop_scheduler_start_timer_(loop_scheduler *l, loop_scheduler_timer *timer,
                                             int64_t delay_ns, int64_t period_ns, bool closing)
{
    int64_t deadline = plim_deadline_(loop_scheduler_now_(l), delay_ns > 0 ? delay_ns : 0);
    loop_scheduler_lock_fast_(l);
    if (loop_scheduler_stage_(l) != PLIM_OPEN_ && (!closing || l->until_ == 0)) {
        loop_scheduler_unlock_(l);
        return ESHUTDOWN;
    }
    if (loop_scheduler_is_pending_(timer)) {
        loop_scheduler_disarm_(l, timer);
    }
    if (timer->state_ == LOOP_SCHEDULER_IDLE_ && loop_scheduler_is_firing_(l, timer)) {
        l->what_ = LOOP_SCHEDULER_OTHER_; /* that was another timer, in memory used again */
    }
    timer->state_ = LOOP_SCHEDULER_ARMED_;
    timer->missed = 0;
    timer->period_ = period_ns > 0 ? period_ns : 0;
    bool sooner = deadline < (int64_t)plim_load_relaxed_(&l->next_timer_);
    loop_scheduler_arm_(l, timer, deadline);
    if (sooner) {
        loop_scheduler_rouse_locked_(l);
    }
    loop_scheduler_unlock_(l);
    return 0;
}

/* Queues the ECANCELED of a timer that was armed. */
PLIM_CALLED_ void loop_scheduler_queue_told_(loop_scheduler *l, loop_scheduler_timer *timer)
{
    timer->state_ = LOOP_SCHEDULER_UNTOLD_;
    loop_scheduler_prepare_(&timer->told_, loop_scheduler_tell_timer_, timer);
    plim_store_relaxed_(&timer->told_.state_, LOOP_SCHEDULER_CANCELLED_ | LOOP_SCHEDULER_OURS_);
    loop_scheduler_queue_ours_(l, &timer->told_);
}

PLIM_CALLED_ int loop_scheduler_cancel_timer_(loop_scheduler *l, loop_scheduler_timer *timer)
{
    loop_scheduler_lock_fast_(l);
    int answer = timer->state_ == LOOP_SCHEDULER_ARMED_   ? 0
                 : timer->state_ == LOOP_SCHEDULER_FIRED_ ? EALREADY
                                                          : ENOENT;
    if (answer == 0) {
        plim_timers_disarm_(&l->timers_, &timer->timer_);
        loop_scheduler_queue_told_(l, timer);
        loop_scheduler_rouse_locked_(l);
        /* A call that the loop has decided on may begin after this has returned. On the loop's own
         * thread it has begun. */
        answer = loop_scheduler_is_firing_(l, timer) && !loop_scheduler_is_current(l) ? EBUSY : 0;
    }
    loop_scheduler_unlock_(l);
    return answer;
}
