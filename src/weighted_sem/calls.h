/* The calls of the API, each with its fast path. Slow paths are reached through the table in the
 * semaphore. */

/* The fast way in, if it is open. */
static inline bool weighted_sem_admit_fast_(weighted_sem *w, uint64_t weight, bool job)
{
    const uint64_t not_now = PLIM_HELD_ | PLIM_WATCHED_ | WEIGHTED_SEM_CLOSED_;
    uint64_t word = plim_load_relaxed_(&w->gate.word);
    while (PLIM_LIKELY_((word & not_now) == 0 && weighted_sem_fits_(word, weight, job))) {
        if (PLIM_LIKELY_(plim_cas_acquire_(&w->gate.word, &word,
                                           weighted_sem_admitted_(word, weight, job)))) {
            return true;
        }
    }
    return false;
}

/* Likewise for a job: it gets its number, and no epoch. */
static inline bool weighted_sem_admit_job_fast_(weighted_sem *w, uint64_t weight,
                                                weighted_sem_task_ *task)
{
    if (PLIM_LIKELY_(weighted_sem_admit_fast_(w, weight, true))) {
        task->epoch = 0;
        task->sequence = plim_add_relaxed_(&w->started, 1) + 1;
        return true;
    }
    return false;
}

/* The fast way out for a job, if it is open. */
static inline bool weighted_sem_release_fast_(weighted_sem *w, uint64_t weight)
{
    uint64_t word = plim_load_relaxed_(&w->gate.word);
    while (PLIM_LIKELY_((word & (PLIM_HELD_ | PLIM_WATCHED_)) == 0)) {
        if (PLIM_LIKELY_(
                plim_cas_release_(&w->gate.word, &word, weighted_sem_released_(word, weight)))) {
            return true;
        }
    }
    return false;
}

/* Gives back the weight of a job. */
static inline void weighted_sem_leave_(weighted_sem *w, uint64_t weight, uint64_t epoch)
{
    if (PLIM_LIKELY_(weighted_sem_release_fast_(w, weight))) {
        return;
    }
    w->slow->leave(w, weight, epoch);
}

/* ETIMEDOUT is what a timed form answers where a try answers EAGAIN. */
static inline int weighted_sem_tried_(int error)
{
    return error == ETIMEDOUT ? EAGAIN : error;
}

/* ---- Jobs ---- */

static inline int weighted_sem_start_for(weighted_sem *w, uint64_t weight, int (*fn)(void *),
                                         void *arg, int64_t timeout_ns)
{
    return w->slow->start_for(w, weight, fn, arg, timeout_ns);
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
    if (!PLIM_LIKELY_(weighted_sem_admit_job_fast_(w, weight, &task))) {
        int error = w->slow->enter(w, weight, timeout_ns, &task);
        if (error != 0) {
            return error;
        }
    }
    PLIM_PROBE_(job_start, w, arg);
    int answer = fn(arg);
    PLIM_PROBE_(job_end, arg, answer);
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

/* Fills in the job of a begin. */
static inline void weighted_sem_begun_(weighted_sem *w, uint64_t weight,
                                       const weighted_sem_task_ *task, weighted_sem_job *job)
{
    job->arg = NULL;
    job->sem_ = w;
    job->weight_ = weight;
    job->sequence_ = task->sequence;
    job->epoch_ = task->epoch;
}

static inline int weighted_sem_begin_for(weighted_sem *w, uint64_t weight, weighted_sem_job *job,
                                         int64_t timeout_ns)
{
    weighted_sem_task_ task;
    if (job == NULL) {
        return EINVAL;
    }
    if (PLIM_LIKELY_(weighted_sem_admit_job_fast_(w, weight, &task))) {
        weighted_sem_begun_(w, weight, &task, job);
        return 0;
    }
    return w->slow->begin(w, weight, job, timeout_ns);
}

static inline int weighted_sem_begin(weighted_sem *w, uint64_t weight, weighted_sem_job *job)
{
    return weighted_sem_begin_for(w, weight, job, PLIM_FOREVER);
}

static inline int weighted_sem_try_begin(weighted_sem *w, uint64_t weight, weighted_sem_job *job)
{
    return weighted_sem_tried_(weighted_sem_begin_for(w, weight, job, 0));
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
        w->slow->fail(w, &task, error);
    }
    return 0;
}

/* ---- Bare weight ---- */

static inline int weighted_sem_acquire_for(weighted_sem *w, uint64_t weight, int64_t timeout_ns)
{
    if (PLIM_LIKELY_(weighted_sem_admit_fast_(w, weight, false))) {
        return 0;
    }
    return w->slow->enter(w, weight, timeout_ns, NULL);
}

static inline int weighted_sem_acquire(weighted_sem *w, uint64_t weight)
{
    return weighted_sem_acquire_for(w, weight, PLIM_FOREVER);
}

static inline int weighted_sem_try_acquire(weighted_sem *w, uint64_t weight)
{
    return weighted_sem_tried_(weighted_sem_acquire_for(w, weight, 0));
}

static inline int weighted_sem_release(weighted_sem *w, uint64_t weight)
{
    uint64_t word = plim_load_relaxed_(&w->gate.word);
    while (PLIM_LIKELY_((word & (PLIM_HELD_ | PLIM_WATCHED_)) == 0 && weight != 0 &&
                        weighted_sem_is_held_(word, plim_load_relaxed_(&w->total), weight))) {
        if (PLIM_LIKELY_(
                plim_cas_release_(&w->gate.word, &word, word + weight * WEIGHTED_SEM_UNIT_))) {
            return 0;
        }
    }
    return w->slow->release(w, weight);
}

/* ---- The whole ---- */

static inline int weighted_sem_drain(weighted_sem *w, int64_t timeout_ns)
{
    return w->slow->drain(w, timeout_ns);
}

static inline int weighted_sem_drain_all(weighted_sem *w, int64_t timeout_ns)
{
    return w->slow->drain_all(w, timeout_ns);
}

static inline size_t weighted_sem_extract_errors(weighted_sem *w, weighted_sem_error *out,
                                                 size_t capacity)
{
    return w->slow->extract_errors(w, out, capacity);
}

static inline int weighted_sem_resize(weighted_sem *w, uint64_t total)
{
    return w->slow->resize(w, total);
}

static inline int weighted_sem_close(weighted_sem *w)
{
    return w->slow->close(w);
}

static inline int weighted_sem_destroy(weighted_sem *w)
{
    return w->slow->destroy(w);
}

static inline weighted_sem_stats weighted_sem_snapshot(weighted_sem *w)
{
    return w->slow->snapshot(w);
}

static inline uint64_t weighted_sem_total(const weighted_sem *w)
{
    return plim_load_relaxed_(&w->total);
}

static inline uint64_t weighted_sem_available(const weighted_sem *w)
{
    int64_t unused = weighted_sem_free_(plim_load_relaxed_(&w->gate.word));
    return unused > 0 ? (uint64_t)unused : 0;
}

static inline uint32_t weighted_sem_executing(const weighted_sem *w)
{
    return weighted_sem_jobs_(plim_load_relaxed_(&w->gate.word));
}

static inline uint32_t weighted_sem_waiting(const weighted_sem *w)
{
    return (uint32_t)plim_load_relaxed_(&w->waiting);
}

static inline uint64_t weighted_sem_errors(const weighted_sem *w)
{
    return plim_load_relaxed_(&w->errors);
}

static inline uint64_t weighted_sem_errors_dropped(const weighted_sem *w)
{
    return plim_load_relaxed_(&w->dropped);
}
