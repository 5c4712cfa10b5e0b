/* What a coroutine does: it sleeps, offloads, calls, spawns and ends; and the LOOP_ macros. */

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
