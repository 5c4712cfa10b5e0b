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
PLIM_SLOW_ bool loop_scheduler_give_up_(loop_scheduler_coroutine *co)
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

/* ---- Time, work, and each other ---- */

/* The timer of a sleep is due, or cancelled by close. */
static inline void loop_scheduler_slept_(loop_scheduler_timer *timer, int status)
{
    loop_scheduler_resume_((loop_scheduler_coroutine *)timer->arg, status);
}

/* Sleeps; if the loop does not allow it any more, goes on in the next turn with ECANCELED. */
static inline void loop_scheduler_sleep_for_(loop_scheduler_coroutine *co, int64_t ns)
{
    co->timer_.run = loop_scheduler_slept_;
    co->timer_.arg = co;
    if (co->loop_->slow_->start_timer(co->loop_, &co->timer_, ns, 0, co->told_) != 0) {
        loop_scheduler_push_resumed_(co, ECANCELED);
    }
}

/* The `then` of a work that a coroutine has offloaded. */
static inline void loop_scheduler_work_done_(loop_scheduler_work *work, int status)
{
    loop_scheduler_coroutine *co =
        (loop_scheduler_coroutine *)(void *)((char *)work -
                                             offsetof(loop_scheduler_coroutine, work_));
    co->result = work->result;
    loop_scheduler_resume_(co, status);
}

/* Offloads a function; false if it was refused, with the reason in status. */
static inline bool loop_scheduler_offload_for_(loop_scheduler_coroutine *co,
                                               const plim_executor *executor, int (*fn)(void *),
                                               void *arg)
{
    co->work_.work = fn;
    co->work_.arg = arg;
    co->work_.then = loop_scheduler_work_done_;
    int error = loop_scheduler_offload(co->loop_, executor, &co->work_);
    bool closed = error == ESHUTDOWN && loop_scheduler_stage_(co->loop_) >= PLIM_ABORTING_;
    co->status = closed ? ECANCELED : error;
    co->told_ = co->told_ || closed;
    if (error != 0) {
        co->result = -co->status; /* that of an earlier one would look like its own */
    }
    return error == 0;
}

/* Leaves all that it has entered. */
static inline void loop_scheduler_leave_all_(loop_scheduler_coroutine *co)
{
    for (int i = LOOP_SCHEDULER_HELD_ - 1; i >= 0; i--) {
        void *held = co->held_[i];
        co->held_[i] = NULL;
        if (held != NULL) {
            co->await_.leave(held);
        }
    }
}

static inline void loop_scheduler_end_coroutine_(loop_scheduler_coroutine *co)
{
    void (*done)(loop_scheduler_coroutine *) = co->done;
    loop_scheduler_coroutine *caller = co->caller_;
    loop_scheduler_leave_all_(co);
    if (caller != NULL) {
        caller->result = co->result;
        caller->next_ = co->told_ && !caller->told_ ? ECANCELED : 0;
        co->caller_ = NULL;
    }
    plim_store_release_(&co->alive_, 0); /* from here on it may be spawned again */
    if (done != NULL) {
        done(co);
    }
    if (caller != NULL && caller->call_ == LOOP_SCHEDULER_CALLS_) {
        caller->call_ = LOOP_SCHEDULER_CALLED_;
    } else if (caller != NULL) {
        loop_scheduler_push_resumed_(caller, caller->next_);
    }
}

/* Calls another coroutine; false if it need not wait for its end. */
static inline bool loop_scheduler_call_coroutine_(loop_scheduler_coroutine *co,
                                                  loop_scheduler_coroutine *child)
{
    co->status = child == NULL || child->run == NULL       ? EINVAL
                 : plim_load_acquire_(&child->alive_) != 0 ? EALREADY
                                                           : 0;
    if (co->status != 0) {
        co->result = -co->status;
        return false;
    }
    plim_store_relaxed_(&child->alive_, 1);
    child->line_ = 0;
    child->loop_ = co->loop_;
    child->told_ = co->told_;
    child->status = 0;
    child->result = 0;
    child->job = co->job;
    child->caller_ = co;
    child->resume_.run = loop_scheduler_resumed_;
    co->call_ = LOOP_SCHEDULER_CALLS_;
    child->run(child);
    bool ended = co->call_ == LOOP_SCHEDULER_CALLED_;
    co->call_ = LOOP_SCHEDULER_NO_CALL_;
    if (ended) {
        co->status = co->next_;
        co->told_ |= co->status == ECANCELED;
    }
    return !ended;
}

/* Its first task. */
static inline void loop_scheduler_spawned_(loop_scheduler_task *task, int status)
{
    loop_scheduler_coroutine *co = (loop_scheduler_coroutine *)task->arg;
    co->status = status;
    task->run = loop_scheduler_resumed_;
    if (status == 0) {
        co->run(co);
    } else {
        loop_scheduler_end_coroutine_(co);
    }
}

static inline int loop_scheduler_spawn(loop_scheduler *l, loop_scheduler_coroutine *co)
{
    if (co == NULL || co->run == NULL) {
        return EINVAL;
    }
    if (plim_load_acquire_(&co->alive_) != 0) {
        return EALREADY;
    }
    loop_scheduler_task *resume = &co->resume_;
    void (*run)(loop_scheduler_task *, int) = resume->run;
    void *arg = resume->arg;
    uint64_t line = co->line_, state = plim_load_relaxed_(&resume->state_);
    loop_scheduler *loop = co->loop_;
    bool told = co->told_;
    plim_store_relaxed_(&co->alive_, 1);
    co->line_ = 0;
    co->loop_ = l;
    co->told_ = false;
    co->caller_ = NULL;
    loop_scheduler_prepare_(resume, loop_scheduler_spawned_, co);
    bool own = loop_scheduler_is_current(l);
    int error = own && loop_scheduler_stage_(l) >= PLIM_ABORTING_ ? ESHUTDOWN
                                                                  : l->slow_->push(l, resume, own);
    if (error == 0) {
        return 0;
    }
    co->line_ = line;
    co->loop_ = loop;
    co->told_ = told;
    loop_scheduler_prepare_(resume, run, arg);
    plim_store_relaxed_(&resume->state_, state);
    resume->older_ = NULL;
    plim_store_relaxed_(&co->alive_, 0);
    return loop_scheduler_refuse_(l, error);
}

/* The function of a coroutine was called to go on where there is nothing to go on. */
PLIM_SLOW_ void loop_scheduler_lost_its_way_(loop_scheduler_coroutine *co)
{
    PLIM_ASSERT(co->line_ == 0,
                "LOOP_BEGIN: a LOOP_ macro stands inside a switch of yours; use if and "
                "else there, or choose in a function that you call before");
    co->status = EINVAL;
    loop_scheduler_end_coroutine_(co);
}

/*
 * A coroutine jumps to where it was by a switch over the line, whose cases are its LOOP_ macros. In
 * a switch of the user's they would be cases of that one, and never found. So each of them is two
 * cases, which differ in their upper halves only. In a switch over an int, or anything narrower,
 * both are the same, which no compiler accepts. In one over 64 bits it shows when the coroutine is
 * resumed.
 */
#define LOOP_NOT_INSIDE_OF_YOUR_SWITCH_(n) (((uint64_t)(n) << 32) + __LINE__)

/* clang-format off */
#define LOOP_BEGIN(co) \
    switch ((co)->line_) { \
    default: \
        loop_scheduler_lost_its_way_(co); \
        return; \
    case 0:
#define LOOP_END(co) } loop_scheduler_end_coroutine_(co)
/* clang-format on */

#define LOOP_EXIT(co) \
    do { \
        loop_scheduler_end_coroutine_(co); \
        return; \
    } while (0)

/* Goes on here when `waits` is over; at once if it is false. */
#define LOOP_SUSPEND_(co, waits) \
    do { \
        (co)->line_ = LOOP_NOT_INSIDE_OF_YOUR_SWITCH_(1); \
        if (waits) { \
            return; \
        case LOOP_NOT_INSIDE_OF_YOUR_SWITCH_(1): \
        case LOOP_NOT_INSIDE_OF_YOUR_SWITCH_(2):; \
        } \
    } while (0)

#define LOOP_AWAIT(co, event) LOOP_SUSPEND_(co, loop_scheduler_await_((co), (event), PLIM_FOREVER))
#define LOOP_AWAIT_FOR(co, event, timeout_ns) \
    LOOP_SUSPEND_(co, loop_scheduler_await_((co), (event), (timeout_ns)))

#define LOOP_SLEEP(co, ns) LOOP_SUSPEND_(co, (loop_scheduler_sleep_for_((co), (ns)), true))

#define LOOP_YIELD(co) LOOP_SUSPEND_(co, (loop_scheduler_push_resumed_((co), 0), true))

#define LOOP_OFFLOAD(co, executor, fn, arg) \
    LOOP_SUSPEND_(co, loop_scheduler_offload_for_((co), (executor), (fn), (arg)))

#define LOOP_CALL(co, child) LOOP_SUSPEND_(co, loop_scheduler_call_coroutine_((co), (child)))

/* Those of a limiter need bulkhead.h, too. */
#define LOOP_ENTER(co, b) \
    LOOP_SUSPEND_( \
        co, loop_scheduler_awaits_( \
                (co), bulkhead_await_enter_((b), loop_scheduler_about_to_enter_((co), (b)))))
#define LOOP_ENTER_FOR(co, b, timeout_ns) \
    LOOP_SUSPEND_( \
        co, loop_scheduler_awaits_( \
                (co), bulkhead_await_enter_for_((b), loop_scheduler_about_to_enter_((co), (b)), \
                                                (timeout_ns))))
#define LOOP_LEAVE(co, b) (loop_scheduler_drops_((co), (b)) ? bulkhead_leave(b) : EPERM)

#define LOOP_WAIT(co, job) LOOP_WAIT_FOR(co, job, PLIM_FOREVER)
#define LOOP_WAIT_FOR(co, job, timeout_ns) \
    LOOP_SUSPEND_(co, \
                  loop_scheduler_awaits_( \
                      (co), bulkhead_await_job_( \
                                (job), loop_scheduler_about_to_wait_((co), bulkhead_of_job_(job)), \
                                (timeout_ns))))
