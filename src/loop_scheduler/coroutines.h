/* Coroutines, and the events that they await. */

/*
 * A coroutine runs until it waits for something; then its function returns, and is called again
 * when that has come, by a timer, the end of a work, or a task of its own. It jumps to where it was
 * by a switch over the line.
 *
 * One that awaits an event is in the event's list, under its lock. Whoever takes it off, the setter
 * or the loop (a timeout, the end), resumes it; so that happens once. The loop has a list of
 * its own of those that await something, to find them when it is closed.
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

/* No longer awaits its event. */
static inline void loop_scheduler_forget_event_(loop_scheduler_coroutine *co)
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
    co->event_ = NULL;
}

/* Its task: the event was set, or it goes on for another reason. */
static inline void loop_scheduler_resumed_(loop_scheduler_task *task, int status)
{
    loop_scheduler_coroutine *co = (loop_scheduler_coroutine *)task->arg;
    if (co->event_ != NULL) {
        loop_scheduler_forget_event_(co);
    }
    loop_scheduler_resume_(co, status != 0 && !co->told_ ? status : co->next_);
}

/* Queues its task: it goes on with that status. Any thread, once for each wait. */
static inline void loop_scheduler_push_resumed_(loop_scheduler_coroutine *co, int status)
{
    co->next_ = status;
    loop_scheduler_prepare_(&co->resume_, loop_scheduler_resumed_, co);
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

/* The timer of an await is due, or cancelled by close. */
static inline void loop_scheduler_await_timed_out_(loop_scheduler_timer *timer, int status)
{
    loop_scheduler_coroutine *co = (loop_scheduler_coroutine *)timer->arg;
    if (status == 0 && /* else the loop is being closed, which resumes it if the event does not */
        loop_scheduler_unlist_(co)) { /* else its task is on the way */
        loop_scheduler_forget_event_(co);
        loop_scheduler_resume_(co, ETIMEDOUT);
    }
}

/* Awaits an event; false if it need not, or must not, wait for it. */
static inline bool loop_scheduler_await_(loop_scheduler_coroutine *co, loop_scheduler_event *event,
                                         int64_t timeout_ns)
{
    loop_scheduler *l = co->loop_;
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
    if (!waits) {
        return false;
    }
    loop_scheduler_lock_(l);
    plim_append_(&l->suspended_, &co->kept_);
    l->figures_.suspended++;
    loop_scheduler_unlock_(l);
    co->patient_ = false;
    if (timeout_ns != PLIM_FOREVER) {
        co->timer_.run = loop_scheduler_await_timed_out_;
        co->timer_.arg = co;
        /* If it is refused, the end resumes the coroutine. */
        int error = l->slow_->start_timer(l, &co->timer_, timeout_ns, 0, co->told_);
        co->patient_ = co->told_ && error == 0;
    }
    return true;
}

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

static inline void loop_scheduler_end_coroutine_(loop_scheduler_coroutine *co)
{
    void (*done)(loop_scheduler_coroutine *) = co->done;
    plim_store_release_(&co->alive_, 0); /* from here on it may be spawned again */
    if (done != NULL) {
        done(co);
    }
}

/* Its first task. */
static inline void loop_scheduler_spawned_(loop_scheduler_task *task, int status)
{
    loop_scheduler_coroutine *co = (loop_scheduler_coroutine *)task->arg;
    co->status = status;
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
