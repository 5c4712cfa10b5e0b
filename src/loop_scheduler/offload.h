/* Offload: work elsewhere, and back; and the loop as an executor. */

/*
 * figures_.offloaded counts the works in flight. So the loop is neither over nor destroyed before a
 * work is back, and the executor's thread may use the loop. Its state decides once whether it
 * begins.
 */
static inline void loop_scheduler_work_back_(loop_scheduler_task *task, int status)
{
    loop_scheduler_work *work = (loop_scheduler_work *)task->arg;
    loop_scheduler *l = work->loop_;
    loop_scheduler_lock_(l);
    l->figures_.offloaded--;
    loop_scheduler_unlock_(l);
    void (*then)(loop_scheduler_work *, int) = work->then;
    status = work->status_ != 0 ? work->status_ : status;
    plim_store_release_(&work->state_, LOOP_SCHEDULER_BACK_); /* from here on it may be offloaded */
    if (then != NULL) {
        then(work, status);
    }
}

/* Moves a work from one state to another; false if it is in a third one. */
static inline bool loop_scheduler_move_(loop_scheduler_work *work, uint64_t from, uint64_t to)
{
    uint64_t state = from;
    while (!plim_cas_relaxed_(&work->state_, &state, to)) {
        if (state != from) {
            return false;
        }
    }
    return true;
}

/* The executor runs this: the work, unless it was revoked. */
PLIM_CALLED_ void loop_scheduler_work_away_(void *arg)
{
    loop_scheduler_work *work = (loop_scheduler_work *)arg;
    if (loop_scheduler_stage_(work->loop_) >= PLIM_ABORTING_) {
        loop_scheduler_move_(work, LOOP_SCHEDULER_AWAY_, LOOP_SCHEDULER_REVOKED_);
    }
    if (loop_scheduler_move_(work, LOOP_SCHEDULER_AWAY_, LOOP_SCHEDULER_BEGUN_)) {
        work->result = work->work(work->arg);
    } else {
        work->status_ = ECANCELED;
        work->result = -ECANCELED;
    }
    loop_scheduler_prepare_(&work->back_, loop_scheduler_work_back_, work);
    /* The last touch of the work by this thread. */
    work->loop_->slow_->push(work->loop_, &work->back_, true);
}

static inline int loop_scheduler_offload(loop_scheduler *l, const plim_executor *executor,
                                         loop_scheduler_work *work)
{
    if (executor == NULL || executor->execute == NULL || work == NULL || work->work == NULL) {
        return EINVAL;
    }
    uint64_t state = plim_load_acquire_(&work->state_);
    if (state != LOOP_SCHEDULER_HOME_ && state != LOOP_SCHEDULER_BACK_) {
        return EALREADY;
    }
    loop_scheduler_lock_(l);
    int most = loop_scheduler_is_current(l) ? PLIM_DRAINING_ : PLIM_OPEN_;
    bool refused = loop_scheduler_stage_(l) > most;
    l->figures_.offloaded += !refused;
    loop_scheduler_unlock_(l);
    if (refused) {
        return ESHUTDOWN;
    }
    loop_scheduler *loop = work->loop_;
    int status = work->status_;
    work->loop_ = l;
    work->status_ = 0;
    plim_store_relaxed_(&work->state_, LOOP_SCHEDULER_AWAY_);
    int error = executor->execute(executor->ctx, loop_scheduler_work_away_, work);
    if (error != 0) {
        work->loop_ = loop;
        work->status_ = status;
        plim_store_relaxed_(&work->state_, state);
        loop_scheduler_lock_(l);
        l->figures_.offloaded--;
        loop_scheduler_less_is_left_(l);
        loop_scheduler_unlock_(l);
    }
    return error;
}

static inline int loop_scheduler_work_cancel(loop_scheduler *l, loop_scheduler_work *work)
{
    (void)l;
    if (loop_scheduler_move_(work, LOOP_SCHEDULER_AWAY_, LOOP_SCHEDULER_REVOKED_)) {
        return 0;
    }
    return plim_load_relaxed_(&work->state_) == LOOP_SCHEDULER_HOME_ ? ENOENT : EALREADY;
}

/* The loop as an executor: a task in memory of its own for each function. */
typedef struct loop_scheduler_errand_ {
    loop_scheduler_task task;
    void (*run)(void *);
    void *arg;
} loop_scheduler_errand_;

static inline void loop_scheduler_run_errand_(loop_scheduler_task *task, int status)
{
    loop_scheduler_errand_ *errand = (loop_scheduler_errand_ *)task->arg;
    void (*run)(void *) = errand->run;
    void *arg = errand->arg;
    (void)status; /* who gave it to an executor relies on its being called */
    PLIM_FREE(errand);
    run(arg);
}

/* The execute of the loop as an executor. */
PLIM_SLOW_ int loop_scheduler_execute_(void *ctx, void (*run)(void *), void *arg)
{
    loop_scheduler_errand_ *errand = (loop_scheduler_errand_ *)plim_memory_(sizeof *errand);
    if (errand == NULL) {
        return ENOMEM;
    }
    memset((void *)errand, 0, sizeof *errand);
    errand->task.run = loop_scheduler_run_errand_;
    errand->task.arg = errand;
    errand->run = run;
    errand->arg = arg;
    int error = loop_scheduler_post((loop_scheduler *)ctx, &errand->task);
    if (error != 0) {
        PLIM_FREE(errand);
    }
    return error;
}

static inline plim_executor loop_scheduler_executor(loop_scheduler *l)
{
    plim_executor executor = {loop_scheduler_execute_, l};
    return executor;
}
