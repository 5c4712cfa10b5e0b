/* Workers: the threads that run background jobs. */

/*
 * Tasks that were let in go through a ring to whichever worker is awake first. To every task in
 * the ring belongs a worker that is searching (awake without a task, or being woken), so none
 * waits for another task to end:
 *
 *   B1   ready <= searching      ready <= ready_capacity, which is at least `threads`
 *
 * A start that would break it wakes a parked worker, which counts as searching from then on; if
 * there is none, all workers have tasks, and it creates a thread, for that very task. A searching
 * worker takes a task (both go down by 1) or parks, but only if there is none. A worker that ends a
 * task takes the next without having searched. So in a busy stretch nobody sleeps or is woken.
 *
 * A start that had to wait is let in by somebody else, who hands its task over in the same section.
 * A worker that has just ended a task counts itself as searching before that: so it wakes nobody
 * for a task that it takes itself.
 */

/* From now on the calling thread runs the worker's task. */
static inline void weighted_sem_run_begins_(weighted_sem *w, weighted_sem_worker_ *worker)
{
    worker->runner = plim_thread_id_();
    weighted_sem_worker_ **bucket = weighted_sem_bucket_(w, worker->runner);
    worker->next_runner = *bucket;
    *bucket = worker;
}

static inline void weighted_sem_store_error_(weighted_sem *w, int code,
                                             const weighted_sem_task_ *task)
{
    uint64_t stored = plim_load_relaxed_(&w->errors);
    plim_add_relaxed_(&w->failed, 1);
    if (stored == w->error_capacity) {
        plim_store_relaxed_(&w->dropped, plim_load_relaxed_(&w->dropped) + 1);
        return;
    }
    weighted_sem_error error = {code, task->arg, task->weight, task->sequence};
    w->error_ring[(w->error_first + (size_t)stored) % w->error_capacity] = error;
    plim_store_relaxed_(&w->errors, stored + 1);
}

/* The task has ended. Counters and the error come first: a drain that this lets go on sees them. */
static inline void weighted_sem_task_ends_(weighted_sem *w, weighted_sem_section_ *s,
                                           const weighted_sem_task_ *task, int result)
{
    plim_add_relaxed_(&w->completed, 1);
    if (result != 0) {
        weighted_sem_store_error_(w, result, task);
    }
    weighted_sem_put_(w, s, task->weight, task->epoch);
}

static inline void weighted_sem_run_ends_(weighted_sem *w, weighted_sem_section_ *s,
                                          weighted_sem_worker_ *worker, int result)
{
    weighted_sem_worker_ **at = weighted_sem_bucket_(w, worker->runner);
    while (*at != worker) {
        at = &(*at)->next_runner;
    }
    *at = worker->next_runner;
    worker->runner = 0;
    weighted_sem_task_ends_(w, s, &worker->task, result);
}

/* A task that was let in and could not be started after all. */
PLIM_SLOW_ void weighted_sem_undo_(weighted_sem *w, const weighted_sem_task_ *task,
                                   weighted_sem_section_ *s)
{
    uint64_t last = task->sequence; /* relaxed: it is a number, and publishes nothing */
    while (last == task->sequence && !plim_cas_relaxed_(&w->started, &last, last - 1)) {
        continue;
    }
    w->refused += last != task->sequence; /* others have started since: it is left out */
    weighted_sem_put_(w, s, task->weight, task->epoch);
}

/* Takes the next task, if there is one. */
static inline bool weighted_sem_pick_(weighted_sem *w, weighted_sem_worker_ *self)
{
    uint64_t ready = plim_load_relaxed_(&w->ready);
    if (ready == 0) {
        return false;
    }
    self->task = w->ready_ring[w->ready_first];
    w->ready_first = (w->ready_first + 1) % w->ready_capacity;
    plim_store_relaxed_(&w->ready, ready - 1);
    weighted_sem_run_begins_(w, self);
    return true;
}

static inline void weighted_sem_vacate_(weighted_sem *w, weighted_sem_worker_ *worker)
{
    worker->next_vacant = w->vacant;
    w->vacant = worker;
}

/*
 * The thread is about to exit, and so is the section. Before it exits, a worker joins the workers
 * that exited earlier, so destroy has at most one left to join. A start never joins: an exiting
 * thread may still run the program's thread-local destructors, and these may block.
 */
PLIM_SLOW_ void weighted_sem_retire_(weighted_sem *w, weighted_sem_section_ *s,
                                     weighted_sem_worker_ *self)
{
    weighted_sem_worker_ *gone = w->gone;
    w->threads--;
    w->gone = NULL;
    if (self->joinable) {
        self->next_vacant = NULL;
        w->gone = self;
    } else {
        self->retired = true; /* its creator does that, when it has got hold of the thread */
    }
    weighted_sem_unlock_(w, s);
    for (weighted_sem_worker_ *at = gone; at != NULL; at = at->next_vacant) {
        plim_worker_join_(at->thread);
    }
    *s = weighted_sem_lock_(w);
    for (weighted_sem_worker_ *next, *at = gone; at != NULL; at = next) {
        next = at->next_vacant;
        weighted_sem_vacate_(w, at);
    }
    weighted_sem_unlock_(w, s);
}

/* Looks for a task without the lock, before going to sleep. Those who look give their CPU away
 * between looks: a task that a start has just given to them is then done by whichever of them runs,
 * while the others count as searching and so spare the starts to wake anybody. */
static inline void weighted_sem_look_(weighted_sem *w)
{
    bool on = true;
    for (int i = 0; on && i < PLIM_SPIN && plim_load_relaxed_(&w->ready) == 0; i++) {
        on = plim_look_on_(i, PLIM_SPIN / 5, PLIM_FOREVER);
    }
}

/* After a task has ended with that result: gets the next, or says that the thread should end. */
PLIM_SLOW_ bool weighted_sem_next_task_(weighted_sem_worker_ *self, int result)
{
    weighted_sem *w = self->sem;
    weighted_sem_section_ s = weighted_sem_lock_(w);
    w->searching++;
    weighted_sem_run_ends_(w, &s, self, result);
    bool found = weighted_sem_pick_(w, self);
    w->searching -= found;
    bool look = w->searching <= WEIGHTED_SEM_SEARCHERS_;
    weighted_sem_unlock_(w, &s);
    while (!found) { /* counted as searching */
        plim_waiter_ idle;
        if (look) {
            weighted_sem_look_(w);
        }
        look = true;
        plim_waiter_init_(&idle);
        s = weighted_sem_lock_(w);
        w->searching--;
        found = weighted_sem_pick_(w, self);
        if (!found && w->quit) {
            weighted_sem_retire_(w, &s, self);
            return false;
        }
        if (!found) {
            plim_prepend_(&w->parked, &idle.node);
        }
        weighted_sem_unlock_(w, &s);
        if (!found && plim_sleep_(&idle, WEIGHTED_SEM_IDLE_NS, false) == ETIMEDOUT) {
            s = weighted_sem_lock_(w);
            plim_unlink_(&w->parked, &idle.node);
            weighted_sem_retire_(w, &s, self);
            return false;
        }
    }
    return true;
}

/* A task has ended its thread. */
PLIM_SLOW_ void weighted_sem_thread_ended_(void *arg)
{
    weighted_sem_worker_ *self = (weighted_sem_worker_ *)arg;
    weighted_sem *w = self->sem;
    weighted_sem_section_ s = weighted_sem_lock_(w);
    weighted_sem_run_ends_(w, &s, self, ECANCELED);
    weighted_sem_retire_(w, &s, self);
}

PLIM_SLOW_ void weighted_sem_work_(weighted_sem_worker_ *self)
{
    int result;
    do {
        result = self->task.fn(self->task.arg);
    } while (weighted_sem_next_task_(self, result));
}

PLIM_SLOW_ plim_worker_result weighted_sem_thread_(void *arg)
{
    weighted_sem_worker_ *self = (weighted_sem_worker_ *)arg;
    plim_worker_begins_(self->sem->name);
    weighted_sem_section_ s = weighted_sem_lock_(self->sem);
    weighted_sem_run_begins_(self->sem, self);
    weighted_sem_unlock_(self->sem, &s);
    PLIM_ON_THREAD_EXIT_(weighted_sem_thread_ended_, self)
    weighted_sem_work_(self);
    PLIM_ON_THREAD_EXIT_END_
    return 0;
}
