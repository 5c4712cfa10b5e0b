/* Jobs: start; and begin, complete and finish when the fast way does not do. */

/* All of a start: there is no fast way, since its task has to be handed over. */
PLIM_CALLED_ int weighted_sem_start_for_(weighted_sem *w, uint64_t weight, int (*fn)(void *),
                                         void *arg, int64_t timeout_ns)
{
    weighted_sem_sleeper_ self;
    if (weight == 0 || fn == NULL) {
        return EINVAL;
    }
    weighted_sem_sleeper_init_(&self);
    self.weight = weight;
    self.job = true;
    self.task.fn = fn;
    self.task.arg = arg;
    int error = weighted_sem_enter_(w, &self, timeout_ns);
    return error != 0 || self.handed ? error : weighted_sem_hire_(w, &self.task);
}

PLIM_SLOW_ int weighted_sem_begin_slow_(weighted_sem *w, uint64_t weight, weighted_sem_job *job,
                                        int64_t timeout_ns)
{
    weighted_sem_task_ task;
    int error = weighted_sem_enter_slow_(w, weight, timeout_ns, &task);
    if (error == 0) {
        weighted_sem_begun_(w, weight, &task, job);
    }
    return error;
}

/* The end of a job of begin that has failed. */
PLIM_SLOW_ void weighted_sem_fail_(weighted_sem *w, const weighted_sem_task_ *task, int error)
{
    weighted_sem_section_ s = weighted_sem_lock_(w);
    weighted_sem_task_ends_(w, &s, task, error);
    weighted_sem_unlock_(w, &s);
}
