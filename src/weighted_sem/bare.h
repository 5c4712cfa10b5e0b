/* Bare weight, and drains. */

/* What the fast way could not do, or would not: the total may change beside it. There, a total that
 * was read between two resizes can hide that too much is given back; here, nothing can. */
PLIM_SLOW_ int weighted_sem_release_slow_(weighted_sem *w, uint64_t weight)
{
    if (weight == 0) {
        return EINVAL;
    }
    weighted_sem_section_ s = weighted_sem_lock_(w);
    int error = weighted_sem_is_held_(s.word, plim_load_relaxed_(&w->total), weight) ? 0 : EPERM;
    if (error == 0) {
        s.word += weight * WEIGHTED_SEM_UNIT_;
        weighted_sem_admit_(w, &s);
    }
    weighted_sem_unlock_(w, &s);
    return error;
}

/* Waits for the jobs that execute now. */
PLIM_SLOW_ int weighted_sem_drain_(weighted_sem *w, int64_t timeout_ns)
{
    weighted_sem_sleeper_ self;
    if (plim_held_(w) != 0) {
        return EDEADLK;
    }
    weighted_sem_section_ s = weighted_sem_lock_(w);
    bool over = weighted_sem_jobs_(s.word) == 0;
    int error = !over && timeout_ns <= 0 ? ETIMEDOUT : 0;
    if (error != 0 || over) {
        weighted_sem_unlock_(w, &s);
        return error;
    }
    weighted_sem_sleeper_init_(&self);
    weighted_sem_join_drains_(w, &s, &self);
    weighted_sem_unlock_(w, &s);
    error = plim_sleep_(&self.waiter, timeout_ns, true);
    if (error == ETIMEDOUT) {
        s = weighted_sem_lock_(w);
        weighted_sem_leave_drains_(w, &self);
        weighted_sem_unlock_(w, &s);
    }
    return error;
}

/* Waits for quiet: see weighted_sem_is_quiet_. */
PLIM_SLOW_ int weighted_sem_drain_all_(weighted_sem *w, int64_t timeout_ns)
{
    plim_waiter_ self;
    if (plim_held_(w) != 0) {
        return EDEADLK;
    }
    weighted_sem_section_ s = weighted_sem_lock_(w);
    bool over = weighted_sem_is_quiet_(w, &s);
    int error = !over && timeout_ns <= 0 ? ETIMEDOUT : 0;
    if (error != 0 || over) {
        weighted_sem_unlock_(w, &s);
        return error;
    }
    plim_waiter_init_(&self);
    plim_append_(&w->quiet, &self.node);
    weighted_sem_unlock_(w, &s);
    error = plim_sleep_(&self, timeout_ns, true);
    if (error == ETIMEDOUT) {
        s = weighted_sem_lock_(w);
        plim_unlink_(&w->quiet, &self.node);
        weighted_sem_unlock_(w, &s);
    }
    return error;
}
