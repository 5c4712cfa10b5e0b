/* Posts, and their cancellation. */

/* Counts a refusal. */
static inline int loop_scheduler_refuse_(loop_scheduler *l, int error)
{
    plim_add_relaxed_(&l->rejected_, 1);
    PLIM_PROBE_(reject, l, error);
    return error;
}

/* Queues a post of the loop's own thread, without an atomic step. */
static inline void loop_scheduler_append_fresh_(loop_scheduler *l, loop_scheduler_task *task)
{
    loop_scheduler_fresh_busy_(l, 1);
    loop_scheduler_append_(&l->fresh_, task, task, 1);
    plim_store_relaxed_(&l->fresh_count_, l->fresh_.count);
    loop_scheduler_fresh_busy_(l, 0);
}

/*
 * A post of the loop's own thread needs no atomic step, unless others have posted in the meantime:
 * then it goes behind theirs. (A signal handler may interrupt this very thread in the middle of it,
 * or when it is about to sleep. Its post goes to the word, too.)
 */
static inline bool loop_scheduler_needs_no_step_(const loop_scheduler *l, uint64_t word)
{
    return (word & ~LOOP_SCHEDULER_CLOSED_) == 0 && plim_load_relaxed_(&l->fresh_busy_) == 0;
}

/* The queue is full: waits for a place in it. */
PLIM_SLOW_ int loop_scheduler_await_room_(loop_scheduler *l, int64_t timeout_ns)
{
    int error;
    if (timeout_ns <= 0) {
        return timeout_ns < 0 ? EAGAIN : ETIMEDOUT;
    }
    if (loop_scheduler_is_current(l)) {
        return EDEADLK;
    }
    plim_place_ *here = *l->place_.here();
    if (!plim_may_wait_(here, &l->place_.goal, &l->room_)) {
        /* There may be room by now. */
        return plim_acquire_(&l->room_, PLIM_WAITERS_MAX, 0) == 0 ? 0 : EDEADLK;
    }
    while ((error = plim_acquire_(&l->room_, PLIM_WAITERS_MAX, timeout_ns)) == EAGAIN) {
        plim_thread_yield_(); /* half a million threads stand there already */
    }
    plim_wait_over_(here);
    return error;
}

enum { LOOP_SCHEDULER_AT_ONCE_ = -1 }; /* a timeout: EAGAIN, and not ETIMEDOUT */

/* Acquires, because the caller may know nothing else of the task: if the answer is no, the loop has
 * released the task. */
static inline bool loop_scheduler_is_queued_(const loop_scheduler_task *task)
{
    uint64_t state = plim_load_acquire_(&task->state_) & LOOP_SCHEDULER_STATE_;
    return state == LOOP_SCHEDULER_QUEUED_ || state == LOOP_SCHEDULER_CANCELLED_;
}

/* Can it be queued? 0, EINVAL, EALREADY. */
static inline int loop_scheduler_may_post_(const loop_scheduler_task *task)
{
    return task == NULL || task->run == NULL ? EINVAL
           : loop_scheduler_is_queued_(task) ? EALREADY
                                             : 0;
}

/* A post that is bounded, or the loop's own, or to a loop that sleeps or is closed. */
PLIM_CALLED_ int loop_scheduler_post_slow_(loop_scheduler *l, loop_scheduler_task *task,
                                           int64_t timeout_ns)
{
    bool own = loop_scheduler_is_current(l);
    /* The loop's own posts are bounded no more while it drains: room_ is closed. */
    bool bounded = l->max_queue_ != 0 && !(own && loop_scheduler_stage_(l) != PLIM_OPEN_);
    int error = loop_scheduler_may_post_(task);
    if (error != 0) {
        return error;
    }
    if (bounded) {
        error = plim_try_acquire_(&l->room_, 1);
        error = error == EAGAIN ? loop_scheduler_await_room_(l, timeout_ns) : error;
    }
    if (error == ESHUTDOWN && own) { /* this very moment */
        bounded = false;
    } else if (error != 0) {
        return loop_scheduler_refuse_(l, error);
    }
    uint64_t before = plim_load_relaxed_(&task->state_);
    plim_store_relaxed_(&task->state_,
                        LOOP_SCHEDULER_QUEUED_ | (bounded ? (uint64_t)LOOP_SCHEDULER_ROOM_ : 0));
    if (own && loop_scheduler_stage_(l) >= PLIM_ABORTING_) {
        error = ESHUTDOWN;
    } else if (own && loop_scheduler_needs_no_step_(l, plim_load_relaxed_(&l->word_.word))) {
        loop_scheduler_append_fresh_(l, task);
        return 0;
    } else {
        error = loop_scheduler_push_(l, task, own);
    }
    if (error == 0) {
        return 0; /* the task may be gone, and so may the loop */
    }
    plim_store_relaxed_(&task->state_, before);
    task->older_ = NULL; /* as of every task that is not queued */
    if (bounded) {
        loop_scheduler_release_(&l->room_);
    }
    return loop_scheduler_refuse_(l, error);
}

PLIM_SLOW_ int loop_scheduler_cancel_(loop_scheduler *l, loop_scheduler_task *task)
{
    loop_scheduler_lock_(l);
    uint64_t state = plim_load_relaxed_(&task->state_);
    int answer = (state & LOOP_SCHEDULER_STATE_) == LOOP_SCHEDULER_NEVER_    ? ENOENT
                 : (state & LOOP_SCHEDULER_STATE_) == LOOP_SCHEDULER_QUEUED_ ? 0
                                                                             : EALREADY;
    if (answer == 0) { /* it stays where it is, and gets ECANCELED in its turn */
        plim_store_relaxed_(&task->state_,
                            (state & ~(uint64_t)LOOP_SCHEDULER_STATE_) | LOOP_SCHEDULER_CANCELLED_);
    }
    loop_scheduler_unlock_(l);
    return answer;
}
