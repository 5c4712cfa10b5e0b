/* The calls of the API, each with its fast path. Slow paths are reached through the table in the
 * loop. */

static inline int loop_scheduler_post(loop_scheduler *l, loop_scheduler_task *task)
{
    uint64_t word = plim_load_relaxed_(&l->word_.word);
    if (PLIM_LIKELY_(l->max_queue_ == 0 && loop_scheduler_may_post_(task) == 0)) {
        if (loop_scheduler_is_current(l)) {
            if (word == 0 && plim_load_relaxed_(&l->fresh_busy_) == 0) {
                plim_store_relaxed_(&task->state_, LOOP_SCHEDULER_QUEUED_);
                loop_scheduler_append_fresh_(l, task);
                return 0;
            }
        } else {
            /* The usual case: the loop is awake and open, and nothing but the word is needed. */
            uint64_t state = plim_load_relaxed_(&task->state_);
            plim_store_relaxed_(&task->state_, LOOP_SCHEDULER_QUEUED_);
            while (PLIM_LIKELY_((word & LOOP_SCHEDULER_BITS_) == 0)) {
                task->older_ = loop_scheduler_newest_(word);
                if (PLIM_LIKELY_(plim_commit_release_(
                        &l->word_, &word, loop_scheduler_step_(0, (uint64_t)(uintptr_t)task)))) {
                    return 0;
                }
            }
            plim_store_relaxed_(&task->state_, state);
            task->older_ = NULL;
        }
    }
    return l->slow_->post(l, task, LOOP_SCHEDULER_AT_ONCE_);
}

static inline int loop_scheduler_post_for(loop_scheduler *l, loop_scheduler_task *task,
                                          int64_t timeout_ns)
{
    return l->slow_->post(l, task, timeout_ns > 0 ? timeout_ns : 0);
}

static inline int loop_scheduler_cancel(loop_scheduler *l, loop_scheduler_task *task)
{
    return l->slow_->cancel(l, task);
}

static inline int loop_scheduler_call_for(loop_scheduler *l, int (*fn)(void *), void *arg,
                                          int *result, int64_t timeout_ns)
{
    return l->slow_->call(l, fn, arg, result, timeout_ns);
}

static inline int loop_scheduler_call(loop_scheduler *l, int (*fn)(void *), void *arg, int *result)
{
    return l->slow_->call(l, fn, arg, result, PLIM_FOREVER);
}

static inline int loop_scheduler_timer_start(loop_scheduler *l, loop_scheduler_timer *timer,
                                             int64_t delay_ns, int64_t period_ns)
{
    if (timer == NULL || timer->run == NULL) {
        return EINVAL;
    }
    return l->slow_->start_timer(l, timer, delay_ns, period_ns, false);
}

static inline int loop_scheduler_timer_cancel(loop_scheduler *l, loop_scheduler_timer *timer)
{
    return l->slow_->cancel_timer(l, timer);
}

static inline int loop_scheduler_start(loop_scheduler *l)
{
    return l->slow_->start(l);
}

static inline int loop_scheduler_run(loop_scheduler *l)
{
    return l->slow_->run(l);
}

static inline int loop_scheduler_run_once(loop_scheduler *l, int64_t timeout_ns)
{
    return l->slow_->run_once(l, timeout_ns, ETIMEDOUT);
}

static inline int loop_scheduler_poll(loop_scheduler *l)
{
    return l->slow_->run_once(l, 0, EAGAIN);
}

static inline void loop_scheduler_stop(loop_scheduler *l)
{
    plim_store_relaxed_(&l->stop_, 1);
    l->slow_->rouse(l, 0); /* see loop_scheduler_sleep_ */
}

static inline int loop_scheduler_close(loop_scheduler *l, int how, int64_t timeout_ns)
{
    return l->slow_->close(l, how, timeout_ns);
}

static inline int loop_scheduler_destroy(loop_scheduler *l)
{
    return l->slow_->destroy(l);
}
