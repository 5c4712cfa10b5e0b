/* Getting in and out, when the fast way does not do. */

/* Before the slow way. The lock is held for a moment only: so look for a moment, whether the fast
 * way opens again. */
static inline void weighted_sem_look_away_(weighted_sem *w)
{
    const uint64_t held = PLIM_HELD_ | PLIM_WATCHED_;
    const int looks = PLIM_SPIN < PLIM_SPIN_UNASKED_ ? PLIM_SPIN : PLIM_SPIN_UNASKED_;
    for (int i = 0; i < looks; i++) {
        if ((plim_load_relaxed_(&w->gate.word) & held) != PLIM_HELD_) {
            break;
        }
        plim_pause_();
    }
}

/* Gets the sleeper's weight, and hands its task over if it has one: 0, or why not. A start whose
 * task is not `handed` afterwards has to hire. */
PLIM_SLOW_ int weighted_sem_enter_(weighted_sem *w, weighted_sem_sleeper_ *self, int64_t timeout_ns)
{
    weighted_sem_section_ s = weighted_sem_lock_(w);
    int error = weighted_sem_refusal_(w, &s, self);
    if (error != 0) {
        weighted_sem_unlock_(w, &s);
        PLIM_PROBE_(reject, w, error);
        return error;
    }
    if (w->queue.first == NULL && weighted_sem_fits_(s.word, self->weight, self->job)) {
        weighted_sem_admit_one_(w, &s, self);
        weighted_sem_unlock_(w, &s);
        return 0;
    }
    plim_append_(&w->queue, &self->waiter.node);
    weighted_sem_admit_(w, &s); /* the bypass may be for us */
    if (plim_load_relaxed_(&self->waiter.state) == PLIM_WAITING_) {
        self->holds = timeout_ns > 0 ? plim_held_(w) : 0;
        error = timeout_ns <= 0 ? ETIMEDOUT : weighted_sem_waits_for_itself_(w, self) ? EDEADLK : 0;
        if (error != 0) {
            weighted_sem_leave_queue_(w, self);
        } else {
            self->counted = true;
            PLIM_PROBE_(queue, w, &self->waiter.wake);
            plim_store_relaxed_(&w->waiting, plim_load_relaxed_(&w->waiting) + 1);
        }
    }
    weighted_sem_unlock_(w, &s);
    if (error != 0) {
        PLIM_PROBE_(reject, w, error);
        return error;
    }
    /* Callers that run their jobs themselves are better off not to look: they would only take
     * turns. The looks of a start count as part of its timeout. */
    const bool start = self->task.fn != NULL;
    int64_t deadline = PLIM_FOREVER;
    if (start && timeout_ns != PLIM_FOREVER) {
        deadline = plim_deadline_(plim_now_(), timeout_ns);
    }
    if (start) {
        plim_look_at_(&self->waiter.wake.word, PLIM_SPIN / 2,
                      deadline); /* the worker may want the CPU */
    }
    timeout_ns = deadline != PLIM_FOREVER ? deadline - plim_now_() : timeout_ns;
    error = plim_sleep_(&self->waiter, timeout_ns, !start);
    if (error == ETIMEDOUT) {
        s = weighted_sem_lock_(w);
        weighted_sem_leave_queue_(w, self);
        weighted_sem_admit_(w, &s); /* those behind us may fit */
        weighted_sem_unlock_(w, &s);
    }
    if (error != 0) {
        PLIM_PROBE_(reject, w, error);
    }
    return error;
}

/* The slow way in without a task to hand over. It is for bare weight, or, if task is not NULL, for
 * a job; then it writes the number and epoch to *task. */
PLIM_SLOW_ int weighted_sem_enter_slow_(weighted_sem *w, uint64_t weight, int64_t timeout_ns,
                                        weighted_sem_task_ *task)
{
    weighted_sem_sleeper_ self;
    if (weight == 0) {
        return EINVAL;
    }
    weighted_sem_look_away_(w);
    if (task != NULL ? weighted_sem_admit_job_fast_(w, weight, task)
                     : weighted_sem_admit_fast_(w, weight, false)) {
        return 0;
    }
    weighted_sem_sleeper_init_(&self);
    self.weight = weight;
    self.job = task != NULL;
    int error = weighted_sem_enter_(w, &self, timeout_ns);
    if (error == 0 && task != NULL) {
        task->sequence = self.task.sequence;
        task->epoch = self.task.epoch;
    }
    return error;
}

/* The end of a job of complete or begin, when the fast way does not do. */
PLIM_SLOW_ void weighted_sem_leave_slow_(weighted_sem *w, uint64_t weight, uint64_t epoch)
{
    weighted_sem_look_away_(w);
    if (weighted_sem_release_fast_(w, weight)) {
        return;
    }
    weighted_sem_section_ s = weighted_sem_lock_(w);
    weighted_sem_release_job_(w, &s, weight, epoch);
    weighted_sem_unlock_(w, &s);
}
