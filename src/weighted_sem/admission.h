/* Admission: who is let in, in which order, and who would wait for itself. */

/* What goes with taking a sleeper off the queue. */
static inline void weighted_sem_left_queue_(weighted_sem *w, const weighted_sem_sleeper_ *sleeper)
{
    plim_store_relaxed_(&w->waiting, plim_load_relaxed_(&w->waiting) - sleeper->counted);
    w->favoured = w->favoured == sleeper ? NULL : w->favoured;
}

/* Gives a task to the workers that there are; false if none is free for it. */
static inline bool weighted_sem_hand_over_(weighted_sem *w, weighted_sem_section_ *s,
                                           const weighted_sem_task_ *task)
{
    uint64_t ready = plim_load_relaxed_(&w->ready);
    if (ready == w->searching) {
        plim_node_ *idle = w->parked.first;
        while (idle != NULL &&
               !plim_end_wait_(&s->woken, &w->parked, (plim_waiter_ *)(void *)idle, 0)) {
            idle = idle->next; /* that one is leaving */
        }
        if (idle == NULL) {
            return false;
        }
        w->searching++;
    }
    w->ready_ring[(w->ready_first + (size_t)ready) % w->ready_capacity] = *task;
    plim_store_relaxed_(&w->ready, ready + 1);
    return true;
}

/* Takes the weight for the sleeper's task, and hands the task over if a worker is free for it. */
static inline void weighted_sem_let_in_(weighted_sem *w, weighted_sem_section_ *s,
                                        weighted_sem_sleeper_ *sleeper)
{
    s->word = weighted_sem_taken_(s->word, sleeper->weight, sleeper->job);
    sleeper->task.weight = sleeper->weight;
    sleeper->task.epoch = w->epoch;
    if (sleeper->job) {
        sleeper->task.sequence = plim_add_relaxed_(&w->started, 1) + 1;
    }
    const bool starts = sleeper->task.fn != NULL && w->executor.execute == NULL;
    sleeper->handed = starts && weighted_sem_hand_over_(w, s, &sleeper->task);
}

/* Lets in whoever may. Called in every section that may have changed who does: the one place where
 * the order of the queue is decided. One pass is enough, since each that is let in leaves less. */
PLIM_SLOW_ void weighted_sem_admit_(weighted_sem *w, weighted_sem_section_ *s)
{
    weighted_sem_sleeper_ *head = NULL; /* the first that has to stay */
    uint32_t behind = 0;                /* how many places behind it we are */
    for (plim_node_ *next, *node = w->queue.first; node != NULL; node = next) {
        weighted_sem_sleeper_ *at = (weighted_sem_sleeper_ *)(void *)node;
        next = node->next;
        if (head != NULL && ++behind > w->window) {
            break;
        }
        if (weighted_sem_fits_(s->word, at->weight, at->job) &&
            (head == NULL || at->weight <= w->credit) &&
            plim_end_wait_(&s->woken, &w->queue, &at->waiter, 0)) {
            w->credit -= head == NULL ? 0 : at->weight;
            weighted_sem_left_queue_(w, at);
            weighted_sem_let_in_(w, s, at);
        } else if (head == NULL && plim_load_relaxed_(&at->waiter.state) == PLIM_WAITING_) {
            head = at;
            if (w->favoured != head) {
                w->favoured = head;
                uint64_t total = plim_load_relaxed_(&w->total);
                w->credit = w->budget > UINT64_MAX / total ? UINT64_MAX : w->budget * total;
            }
        }
    }
}

/* Gives the weight of a job back, and all that follows from it. */
static inline void weighted_sem_put_(weighted_sem *w, weighted_sem_section_ *s, uint64_t weight,
                                     uint64_t epoch)
{
    weighted_sem_job_ends_(w, s, weight, epoch);
    weighted_sem_admit_(w, s);
}

/* Where to look for what a thread runs. Multiplied, because the addresses that tell threads apart
 * differ by whole stacks. */
static inline weighted_sem_worker_ **weighted_sem_bucket_(weighted_sem *w, uint64_t runner)
{
    return &w->bucket[runner * 0x9e3779b97f4a7c15u >> 58];
}

/* The weight that the calling thread's background job holds; several, if an executor runs one
 * inside another. */
PLIM_SLOW_ uint64_t weighted_sem_holds_(weighted_sem *w)
{
    uint64_t self = plim_thread_id_(), sum = 0;
    weighted_sem_worker_ *at = *weighted_sem_bucket_(w, self);
    for (; at != NULL; at = at->next_runner) {
        sum += at->runner == self ? at->task.weight : 0;
    }
    return sum;
}

/*
 * Background jobs that wait hold their weight until they are let in, and then those before them in
 * the queue have been. So each that waits has to fit beside what is held by those at its place or
 * behind it. The demand of a queue is the most that one of them needs in this way: its weight and
 * all that is held from its place on. One more, at the end, adds what it holds to each of them;
 * unless it is leaving.
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
PLIM_SLOW_ bool weighted_sem_waits_for_itself_(weighted_sem *w, const weighted_sem_sleeper_ *self)
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

static inline void weighted_sem_leave_queue_(weighted_sem *w, weighted_sem_sleeper_ *sleeper)
{
    plim_unlink_(&w->queue, &sleeper->waiter.node);
    weighted_sem_left_queue_(w, sleeper);
}
