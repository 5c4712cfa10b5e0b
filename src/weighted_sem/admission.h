/* Admission: who is let in, in which order, and who would wait for itself. */

/* What goes with taking a sleeper off the queue. */
static inline void weighted_sem_left_queue_(weighted_sem *w, const weighted_sem_sleeper_ *sleeper)
{
    plim_store_relaxed_(&w->waiting, plim_load_relaxed_(&w->waiting) - sleeper->counted);
}

/* Sees to B2: if tasks are ready, a worker is on its way. One that is leaving is, too. */
static inline void weighted_sem_rouse_(weighted_sem *w, weighted_sem_section_ *s)
{
    if (plim_load_relaxed_(&w->ready) != 0) {
        plim_crew_rouse_(&w->crew, &s->woken);
    }
}

/* Gives a task to the workers that there are; false if none is free for it. */
static inline bool weighted_sem_hand_over_(weighted_sem *w, weighted_sem_section_ *s,
                                           const weighted_sem_task_ *task)
{
    uint64_t ready = plim_load_relaxed_(&w->ready);
    if (ready == w->idle) {
        return false;
    }
    plim_node_ *slot = w->spare; /* there is one for each worker */
    w->spare = slot->next;
    ((weighted_sem_slot_ *)(void *)slot)->task = *task;
    plim_append_(&w->ready_tasks, slot);
    plim_store_relaxed_(&w->ready, ready + 1);
    weighted_sem_rouse_(w, s);
    return true;
}

/* Takes the weight for the sleeper's task, and hands the task over if a worker is free for it. */
static inline void weighted_sem_admit_one_(weighted_sem *w, weighted_sem_section_ *s,
                                           weighted_sem_sleeper_ *sleeper)
{
    s->word = weighted_sem_admitted_(s->word, sleeper->weight, sleeper->job);
    sleeper->task.weight = sleeper->weight;
    sleeper->task.epoch = w->epoch;
    if (sleeper->job) {
        sleeper->task.sequence = plim_add_relaxed_(&w->started, 1) + 1;
    }
    const bool starts = sleeper->task.fn != NULL && w->fixed.executor.execute == NULL;
    sleeper->handed = starts && weighted_sem_hand_over_(w, s, &sleeper->task);
}

/* How much weight may bypass a caller that has become the first in the queue. */
static inline uint64_t weighted_sem_credit_(const weighted_sem *w)
{
    const uint64_t total = plim_load_relaxed_(&w->total), budget = w->fixed.budget;
    return budget > UINT64_MAX / total ? UINT64_MAX : budget * total;
}

/* Lets in those who may. Every section calls it that may have changed who they are: the one place
 * where the order of the queue is decided. One pass is enough, since each that is let in leaves
 * less. */
PLIM_RARE_ void weighted_sem_admit_(weighted_sem *w, weighted_sem_section_ *s)
{
    weighted_sem_sleeper_ *head = NULL; /* the first that has to stay */
    uint32_t behind = 0;                /* how many places behind it we are */
    for (plim_node_ *next, *node = w->queue.first; node != NULL; node = next) {
        weighted_sem_sleeper_ *at = (weighted_sem_sleeper_ *)(void *)node;
        next = node->next;
        if (head != NULL && ++behind > w->fixed.window) {
            break;
        }
        if (weighted_sem_fits_(s->word, at->weight, at->job) &&
            (head == NULL || at->weight <= head->credit) &&
            plim_end_wait_(&s->woken, &w->queue, &at->waiter, 0)) {
            if (head != NULL) {
                head->credit -= at->weight;
            }
            weighted_sem_left_queue_(w, at);
            weighted_sem_admit_one_(w, s, at);
        } else if (head == NULL && plim_load_relaxed_(&at->waiter.state) == PLIM_WAITING_) {
            head = at;
            if (!head->was_first) {
                head->was_first = true;
                head->credit = weighted_sem_credit_(w);
            }
        }
    }
}

/* Gives the weight of a job back, and all that follows from it. */
static inline void weighted_sem_release_job_(weighted_sem *w, weighted_sem_section_ *s,
                                             uint64_t weight, uint64_t epoch)
{
    weighted_sem_job_ends_(w, s, weight, epoch);
    weighted_sem_admit_(w, s);
}

/*
 * Background jobs that wait hold their weight until they are let in, and then those before them in
 * the queue have been. So each that waits has to fit beside what is held by those at its place or
 * behind it. The demand of a queue is the most that one of them needs in this way. That is its
 * weight and all that is held from its place on. One more, at the end, adds what it holds to each
 * of them; unless it is leaving.
 */
static inline uint64_t weighted_sem_demand_(uint64_t before, const weighted_sem_sleeper_ *last)
{
    if (plim_load_relaxed_(&last->waiter.state) != PLIM_WAITING_) {
        return before;
    }
    return (last->weight > before ? last->weight : before) + last->holds;
}

/* Could it, at the end of the queue, never be let in before the background job ends that it is part
 * of? */
PLIM_RARE_ bool weighted_sem_waits_for_itself_(weighted_sem *w, const weighted_sem_sleeper_ *self)
{
    uint64_t demand = 0;
    if (self->holds == 0) {
        return false;
    }
    for (plim_node_ *node = w->queue.first; node != NULL; node = node->next) {
        weighted_sem_sleeper_ *at = (weighted_sem_sleeper_ *)(void *)node;
        demand = at != self ? weighted_sem_demand_(demand, at) : demand;
    }
    return weighted_sem_demand_(demand, self) > plim_load_relaxed_(&w->total);
}

/* Why the sleeper may not even wait: 0, ESHUTDOWN, ERANGE. */
static inline int weighted_sem_refusal_(weighted_sem *w, const weighted_sem_section_ *s,
                                        const weighted_sem_sleeper_ *sleeper)
{
    return (s->word & WEIGHTED_SEM_CLOSED_) != 0             ? ESHUTDOWN
           : sleeper->weight > plim_load_relaxed_(&w->total) ? ERANGE
                                                             : 0;
}

/* For one who goes by itself: at its timeout, or because it may not wait. */
static inline void weighted_sem_leave_queue_(weighted_sem *w, weighted_sem_sleeper_ *sleeper)
{
    plim_unlink_(&w->queue, &sleeper->waiter.node);
    weighted_sem_left_queue_(w, sleeper);
}
