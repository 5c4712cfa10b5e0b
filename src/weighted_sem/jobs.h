/* Jobs: start, complete, begin and finish. */

static inline int weighted_sem_start_for(weighted_sem *w, uint64_t weight, int (*fn)(void *),
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

static inline int weighted_sem_start(weighted_sem *w, uint64_t weight, int (*fn)(void *), void *arg)
{
    return weighted_sem_start_for(w, weight, fn, arg, PLIM_FOREVER);
}

static inline int weighted_sem_try_start(weighted_sem *w, uint64_t weight, int (*fn)(void *),
                                         void *arg)
{
    return weighted_sem_tried_(weighted_sem_start_for(w, weight, fn, arg, 0));
}

static inline int weighted_sem_complete_for(weighted_sem *w, uint64_t weight, int (*fn)(void *),
                                            void *arg, int *result, int64_t timeout_ns)
{
    weighted_sem_task_ task;
    if (fn == NULL) {
        return EINVAL;
    }
    if (!PLIM_LIKELY_(weighted_sem_take_job_(w, weight, &task))) {
        int error = weighted_sem_enter_slow_(w, weight, timeout_ns, &task);
        if (error != 0) {
            return error;
        }
    }
    int answer = fn(arg);
    plim_add_relaxed_(&w->completed, 1);
    if (answer != 0) {
        plim_add_relaxed_(&w->failed, 1);
    }
    weighted_sem_leave_(w, weight, task.epoch);
    if (result != NULL) {
        *result = answer;
    }
    return 0;
}

static inline int weighted_sem_complete(weighted_sem *w, uint64_t weight, int (*fn)(void *),
                                        void *arg, int *result)
{
    return weighted_sem_complete_for(w, weight, fn, arg, result, PLIM_FOREVER);
}

static inline int weighted_sem_try_complete(weighted_sem *w, uint64_t weight, int (*fn)(void *),
                                            void *arg, int *result)
{
    return weighted_sem_tried_(weighted_sem_complete_for(w, weight, fn, arg, result, 0));
}

static inline void weighted_sem_begun_(weighted_sem *w, uint64_t weight,
                                       const weighted_sem_task_ *task, weighted_sem_job *job)
{
    job->arg = NULL;
    job->sem_ = w;
    job->weight_ = weight;
    job->sequence_ = task->sequence;
    job->epoch_ = task->epoch;
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

static inline int weighted_sem_begin_for(weighted_sem *w, uint64_t weight, weighted_sem_job *job,
                                         int64_t timeout_ns)
{
    weighted_sem_task_ task;
    if (job == NULL) {
        return EINVAL;
    }
    if (PLIM_LIKELY_(weighted_sem_take_job_(w, weight, &task))) {
        weighted_sem_begun_(w, weight, &task, job);
        return 0;
    }
    return weighted_sem_begin_slow_(w, weight, job, timeout_ns);
}

static inline int weighted_sem_begin(weighted_sem *w, uint64_t weight, weighted_sem_job *job)
{
    return weighted_sem_begin_for(w, weight, job, PLIM_FOREVER);
}

static inline int weighted_sem_try_begin(weighted_sem *w, uint64_t weight, weighted_sem_job *job)
{
    return weighted_sem_tried_(weighted_sem_begin_for(w, weight, job, 0));
}

PLIM_SLOW_ void weighted_sem_fail_(weighted_sem *w, const weighted_sem_task_ *task, int error)
{
    weighted_sem_section_ s = weighted_sem_lock_(w);
    weighted_sem_task_ends_(w, &s, task, error);
    weighted_sem_unlock_(w, &s);
}

static inline int weighted_sem_finish(weighted_sem_job *job, int error)
{
    weighted_sem *w = job->sem_;
    if (w == NULL) {
        return EPERM;
    }
    job->sem_ = NULL;
    if (PLIM_LIKELY_(error == 0)) {
        plim_add_relaxed_(&w->completed, 1);
        weighted_sem_leave_(w, job->weight_, job->epoch_);
    } else {
        weighted_sem_task_ task = {NULL, job->arg, job->weight_, job->sequence_, job->epoch_};
        weighted_sem_fail_(w, &task, error);
    }
    return 0;
}
