/* Coroutines: what they wait for, and how they go on. */

/*
 * A coroutine runs until it waits for something. Then its function returns. When that has come, its
 * function is called again, by a timer, the end of a work, or a task of its own. It jumps to where
 * it was by a switch over the line.
 *
 * One that awaits an event is in the event's list, under its lock. The setter, or the loop (a
 * timeout, the end), takes it off and resumes it, so that happens once. One that waits for a
 * limiter does so by await_: see core/await.h. The loop has a list of its own of those that wait,
 * to find them when it is closed.
 */
static inline void loop_scheduler_resume_(loop_scheduler_coroutine *co, int status)
{
    co->status = status;
    co->told_ = co->told_ || status == ECANCELED;
    co->run(co);
}

static inline loop_scheduler_coroutine *loop_scheduler_of_node_(plim_node_ *node)
{
    return (loop_scheduler_coroutine *)(void *)((char *)node -
                                                offsetof(loop_scheduler_coroutine, node_));
}

static inline loop_scheduler_coroutine *loop_scheduler_of_kept_(plim_node_ *node)
{
    return (loop_scheduler_coroutine *)(void *)((char *)node -
                                                offsetof(loop_scheduler_coroutine, kept_));
}

/* The limiter has answered: what LOOP_ENTER and the like say to the coroutine. */
static inline void loop_scheduler_answer_(loop_scheduler_coroutine *co, int status)
{
    co->status = status;
    co->result = -status;
    for (int i = 0; i < LOOP_SCHEDULER_HELD_ && status == 0 && co->entering_ != NULL; i++) {
        if (co->held_[i] == NULL) {
            co->held_[i] = co->entering_;
            co->entering_ = NULL;
        }
    }
    co->entering_ = NULL;
}

/* It does not wait any more. `status`: how it goes on, if the limiter has no other answer. */
PLIM_SLOW_ int loop_scheduler_wait_over_(loop_scheduler_coroutine *co, int status)
{
    loop_scheduler *l = co->loop_;
    loop_scheduler_lock_(l);
    plim_unlink_(&l->suspended_, &co->kept_);
    l->figures_.suspended--;
    if (loop_scheduler_is_pending_(&co->timer_)) {
        loop_scheduler_disarm_(l, &co->timer_); /* of the timeout: it need not be told */
    }
    co->timer_.state_ = LOOP_SCHEDULER_IDLE_;
    loop_scheduler_unlock_(l);
    co->waits_ = false;
    if (co->event_ == NULL) {
        status = co->await_.end(&co->await_, status);
        loop_scheduler_answer_(co, status);
    }
    co->event_ = NULL;
    return status;
}

/* Its task: what it waited for has come, or it goes on for another reason. */
static inline void loop_scheduler_resumed_(loop_scheduler_task *task, int status)
{
    loop_scheduler_coroutine *co = (loop_scheduler_coroutine *)task->arg;
    status = status != 0 && !co->told_ ? status : co->next_;
    if (co->waits_) {
        status = loop_scheduler_wait_over_(co, status);
    }
    loop_scheduler_resume_(co, status);
}

/* Queues its task: it goes on with that status. Any thread, once for each wait. The function of the
 * task is set when the coroutine begins, so a file without coroutines does not contain it. */
PLIM_SLOW_ void loop_scheduler_push_resumed_(loop_scheduler_coroutine *co, int status)
{
    co->next_ = status;
    loop_scheduler_prepare_(&co->resume_, co->resume_.run, co);
    co->loop_->slow_->push(co->loop_, &co->resume_, true);
}

/* Takes it off the list of its event; false if somebody else has. */
static inline bool loop_scheduler_unlist_(loop_scheduler_coroutine *co)
{
    loop_scheduler_event *event = co->event_;
    plim_spin_lock_(&event->lock_);
    bool was = co->listed_;
    if (was) {
        plim_unlink_(&event->awaiting_, &co->node_);
        co->listed_ = false;
    }
    plim_spin_unlock_(&event->lock_);
    return was;
}

static inline void loop_scheduler_event_set(loop_scheduler_event *event)
{
    plim_list_ awaiting;
    plim_spin_lock_(&event->lock_);
    awaiting = event->awaiting_;
    event->awaiting_.first = event->awaiting_.last = NULL;
    for (plim_node_ *at = awaiting.first; at != NULL; at = at->next) {
        loop_scheduler_of_node_(at)->listed_ = false;
    }
    plim_store_relaxed_(&event->set_, 1);
    plim_spin_unlock_(&event->lock_);
    for (plim_node_ *next, *at = awaiting.first; at != NULL; at = next) {
        next = at->next; /* before it goes on, and awaits something else */
        loop_scheduler_push_resumed_(loop_scheduler_of_node_(at), 0);
    }
}

static inline void loop_scheduler_event_reset(loop_scheduler_event *event)
{
    plim_spin_lock_(&event->lock_);
    plim_store_relaxed_(&event->set_, 0);
    plim_spin_unlock_(&event->lock_);
}

static inline bool loop_scheduler_event_is_set(loop_scheduler_event *event)
{
    plim_spin_lock_(&event->lock_); /* for what was done before it was set */
    bool is_set = plim_load_relaxed_(&event->set_) != 0;
    plim_spin_unlock_(&event->lock_);
    return is_set;
}

/* Ends its wait; false if somebody else has: then its task is on the way. */
PLIM_RARE_ bool loop_scheduler_give_up_(loop_scheduler_coroutine *co)
{
    return co->event_ != NULL ? loop_scheduler_unlist_(co) : co->await_.give_up(&co->await_);
}

/* The timer of a wait is due, or cancelled by close. Then a wait for an event goes on without a
 * limit: the loop ends it when nothing else is left. One for a limiter goes on with its limit
 * during a drain, and else ends. */
PLIM_SLOW_ void loop_scheduler_wait_timed_out_(loop_scheduler_timer *timer, int status)
{
    loop_scheduler_coroutine *co = (loop_scheduler_coroutine *)timer->arg;
    loop_scheduler *l = co->loop_;
    const bool ends = status == 0 || co->event_ == NULL;
    const bool drains = status != 0 && loop_scheduler_stage_(l) < PLIM_ABORTING_;
    if (ends && drains && /* a start takes the time from now */
        l->slow_->start_timer(l, timer, timer->timer_.at - loop_scheduler_now_(l), 0, true) == 0) {
        return;
    }
    if (ends && loop_scheduler_give_up_(co)) {
        status = status == 0 ? ETIMEDOUT : status;
        loop_scheduler_resume_(co, loop_scheduler_wait_over_(co, status));
    }
}

/* It waits from here on; false if a limit was set and cannot be kept, for the loop is being closed.
 * The wait may be over already: then its task is in the queue of this very thread. */
PLIM_SLOW_ bool loop_scheduler_suspend_(loop_scheduler_coroutine *co, int64_t timeout_ns)
{
    loop_scheduler *l = co->loop_;
    loop_scheduler_lock_(l);
    plim_append_(&l->suspended_, &co->kept_);
    l->figures_.suspended++;
    loop_scheduler_unlock_(l);
    co->waits_ = true;
    co->patient_ = false;
    if (timeout_ns == PLIM_FOREVER) {
        return true;
    }
    co->timer_.run = loop_scheduler_wait_timed_out_;
    co->timer_.arg = co;
    const bool drains = co->event_ == NULL && loop_scheduler_stage_(l) < PLIM_ABORTING_;
    int error = l->slow_->start_timer(l, &co->timer_, timeout_ns, 0, co->told_ || drains);
    co->patient_ = co->told_ && error == 0;
    if (error == 0 || co->event_ != NULL || !loop_scheduler_give_up_(co)) {
        return true; /* if it is refused for an event, the end resumes the coroutine */
    }
    loop_scheduler_wait_over_(co, ECANCELED);
    co->told_ = true;
    return false;
}

/* Awaits an event; false if it need not, or must not, wait for it. */
static inline bool loop_scheduler_await_(loop_scheduler_coroutine *co, loop_scheduler_event *event,
                                         int64_t timeout_ns)
{
    plim_spin_lock_(&event->lock_);
    bool waits = plim_load_relaxed_(&event->set_) == 0;
    co->status = waits && timeout_ns <= 0 ? ETIMEDOUT : 0;
    waits = waits && timeout_ns > 0;
    if (waits) {
        co->event_ = event;
        co->listed_ = true;
        plim_append_(&event->awaiting_, &co->node_);
    }
    plim_spin_unlock_(&event->lock_);
    if (waits) {
        loop_scheduler_suspend_(co, timeout_ns);
    }
    return waits;
}

/* ---- Limiters ---- */

/* The limiter has ended the wait. Any thread. */
static inline void loop_scheduler_awaited_(plim_await_ *await)
{
    loop_scheduler_push_resumed_(
        (loop_scheduler_coroutine *)(void *)((char *)await -
                                             offsetof(loop_scheduler_coroutine, await_)),
        0);
}

/* Called before it waits for that limiter, or for one of its jobs: says who it is. Permits of its
 * callers wait with it, since these wait for its end. */
static inline plim_await_ *loop_scheduler_about_to_wait_(loop_scheduler_coroutine *co,
                                                         const void *limiter)
{
    co->await_.resume = loop_scheduler_awaited_;
    co->await_.job = co->job;
    co->await_.held = 0;
    for (const loop_scheduler_coroutine *at = co; at != NULL; at = at->caller_) {
        for (int i = 0; i < LOOP_SCHEDULER_HELD_; i++) {
            co->await_.held += limiter != NULL && at->held_[i] == limiter;
        }
    }
    return &co->await_;
}

/* The same to enter it; NULL if it cannot hold one permit more. */
static inline plim_await_ *loop_scheduler_about_to_enter_(loop_scheduler_coroutine *co,
                                                          void *limiter)
{
    bool room = false;
    for (int i = 0; i < LOOP_SCHEDULER_HELD_; i++) {
        room = room || co->held_[i] == NULL;
    }
    co->entering_ = limiter;
    return room ? loop_scheduler_about_to_wait_(co, limiter) : NULL;
}

/* The limiter's answer; false if it need not wait. */
static inline bool loop_scheduler_awaits_(loop_scheduler_coroutine *co, int answer)
{
    if (answer == PLIM_AWAITS_) {
        return loop_scheduler_suspend_(co, co->await_.timeout_ns);
    }
    loop_scheduler_answer_(co, answer);
    return false;
}

/* Does it have a permit of that limiter? Then it has one fewer. */
static inline bool loop_scheduler_drops_(loop_scheduler_coroutine *co, const void *limiter)
{
    int at = LOOP_SCHEDULER_HELD_ - 1;
    while (at >= 0 && (limiter == NULL || co->held_[at] != limiter)) {
        at--;
    }
    if (at >= 0) {
        co->held_[at] = NULL;
    }
    return at >= 0;
}
