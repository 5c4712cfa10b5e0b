/* Workers: the threads that run background jobs. */

/*
 * Tasks that were admitted go through a list to the first worker that looks. A worker is idle while
 * it has no task. Of the idle ones some are searching: awake, or being woken. The others are
 * parked.
 *
 *   B1   ready <= idle <= threads <= the slots that there are
 *   B2   ready > 0 only if a worker is on its way: searching, or about to leave after a long sleep
 *
 * B1 gives each task a worker that does nothing else. A start that would break it creates a thread,
 * for that very task. B2 says that the workers come. A section that adds a task, or takes one and
 * leaves others behind, wakes a parked worker if none is searching (weighted_sem_rouse_). A worker
 * does so before it runs its task. So no task waits for the body of another, however long it takes.
 * If many tasks have short bodies, two or three workers do all, while the others sleep.
 *
 * Why B2 holds. The last worker that searches takes a task, and wakes another if there are more; or
 * it parks, but only if there is none. A parked worker whose time is over takes a task, if there is
 * one, before it leaves. So a start may count on it, although it cannot wake it any more.
 *
 * Another thread admits a start that had to wait, and hands its task over in the same section. A
 * worker that has just ended a task counts itself as searching before that. So it wakes no other
 * for a task that it takes itself.
 */

/* Stores the error of a job, or counts it as dropped. */
static inline void weighted_sem_store_error_(weighted_sem *w, int code,
                                             const weighted_sem_task_ *task)
{
    uint64_t stored = plim_load_relaxed_(&w->errors);
    plim_add_relaxed_(&w->failed, 1);
    if (stored == w->fixed.error_capacity) {
        plim_store_relaxed_(&w->dropped, plim_load_relaxed_(&w->dropped) + 1);
        return;
    }
    weighted_sem_error error = {code, task->arg, task->weight, task->sequence};
    w->fixed.error_ring[(w->error_first + (size_t)stored) % w->fixed.error_capacity] = error;
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
    weighted_sem_release_job_(w, s, task->weight, task->epoch);
}

/* Calls the task, and says to the calls that it makes what it holds. */
static inline int weighted_sem_call_task_(weighted_sem_run_ *run)
{
    const weighted_sem_task_ *task = &run->worker->task;
    /* Thread 0: no wait leads here, it only says what is held. */
    plim_hold_begins_(&run->hold, plim_here_(), 0, run->worker->sem, task->weight);
    PLIM_PROBE_(job_start, run->worker->sem, task->arg);
    int result = task->fn(task->arg);
    PLIM_PROBE_(job_end, task->arg, result);
    plim_hold_ends_(&run->hold, plim_here_());
    return result;
}

/* A task that was let in and could not be started after all. */
PLIM_RARE_ void weighted_sem_undo_(weighted_sem *w, const weighted_sem_task_ *task,
                                   weighted_sem_section_ *s)
{
    uint64_t last = task->sequence; /* relaxed: it is a number, and publishes nothing */
    while (last == task->sequence && !plim_cas_relaxed_(&w->started, &last, last - 1)) {
        continue;
    }
    w->refused += last != task->sequence; /* others have started since: it is left out */
    weighted_sem_release_job_(w, s, task->weight, task->epoch);
}

/* Takes the next task, if there is one, for a worker that is idle and does not count as searching.
 * Sees to the other tasks before the worker runs this one. */
static inline bool weighted_sem_pick_(weighted_sem *w, weighted_sem_section_ *s,
                                      weighted_sem_worker_ *self)
{
    uint64_t ready = plim_load_relaxed_(&w->ready);
    if (ready == 0) {
        return false;
    }
    plim_node_ *slot = w->ready_tasks.first;
    self->task = ((weighted_sem_slot_ *)(void *)slot)->task;
    plim_unlink_(&w->ready_tasks, slot);
    slot->next = w->spare;
    w->spare = slot;
    plim_store_relaxed_(&w->ready, ready - 1);
    w->idle--;
    weighted_sem_rouse_(w, s);
    return true;
}

/* Ends the section. The thread exits after this. */
PLIM_RARE_ void weighted_sem_retire_(weighted_sem *w, weighted_sem_section_ *s,
                                     weighted_sem_worker_ *self)
{
    w->crew.threads--;
    plim_member_ *gone = plim_crew_retire_(&w->crew, &self->member);
    weighted_sem_unlock_(w, s);
    plim_crew_join_(gone);
    *s = weighted_sem_lock_(w);
    plim_crew_vacate_(&w->crew, gone);
    weighted_sem_unlock_(w, s);
}

/* Sleeps, and has the lock again afterwards: 0 if the worker was woken, and counts as searching
 * since then; ETIMEDOUT. */
PLIM_RARE_ int weighted_sem_park_(weighted_sem *w, weighted_sem_section_ *s)
{
    plim_waiter_ self;
    plim_crew_park_(&w->crew, &self);
    weighted_sem_unlock_(w, s);
    int error = plim_sleep_(&self, WEIGHTED_SEM_IDLE_NS, false);
    *s = weighted_sem_lock_(w);
    if (error == ETIMEDOUT) {
        plim_unlink_(&w->crew.parked, &self.node);
    }
    return error;
}

/* Gets a task for a worker that is idle and has found none, or says that its thread has retired.
 * Called under the lock, which it leaves. */
PLIM_RARE_ bool weighted_sem_search_(weighted_sem *w, weighted_sem_section_ *s,
                                     weighted_sem_worker_ *self)
{
    bool looked = false, slept = false; /* that long, in vain */
    do {
        if (slept || w->quit) {
            w->idle--;
            weighted_sem_retire_(w, s, self);
            return false;
        }
        if (!looked && w->crew.searching < WEIGHTED_SEM_SEARCHERS_) {
            w->crew.searching++;
            weighted_sem_unlock_(w, s);
            /* Offers its CPU between looks: the start that it waits for may need it. */
            plim_look_at_(&w->ready, PLIM_SPIN / 5, PLIM_FOREVER);
            *s = weighted_sem_lock_(w);
            w->crew.searching--;
            looked = true;
        } else {
            slept = weighted_sem_park_(w, s) == ETIMEDOUT;
            w->crew.searching -= !slept;
            looked = false;
        }
    } while (!weighted_sem_pick_(w, s, self));
    weighted_sem_unlock_(w, s);
    return true;
}

/* After a task has ended with that result: gets the next, or says that the thread should end. */
PLIM_RARE_ bool weighted_sem_next_task_(weighted_sem_worker_ *self, int result)
{
    weighted_sem *w = self->sem;
    weighted_sem_section_ s = weighted_sem_lock_(w);
    w->idle++;
    w->crew.searching++;
    weighted_sem_task_ends_(w, &s, &self->task, result);
    w->crew.searching--;
    if (!weighted_sem_pick_(w, &s, self)) {
        return weighted_sem_search_(w, &s, self);
    }
    weighted_sem_unlock_(w, &s);
    return true;
}

/* A task has ended its thread. */
PLIM_SLOW_ void weighted_sem_thread_ended_(void *arg)
{
    weighted_sem_run_ *run = (weighted_sem_run_ *)arg;
    weighted_sem *w = run->worker->sem;
    plim_hold_ends_(&run->hold, plim_here_());
    weighted_sem_section_ s = weighted_sem_lock_(w);
    weighted_sem_task_ends_(w, &s, &run->worker->task, ECANCELED);
    weighted_sem_retire_(w, &s, run->worker);
}

/* The life of a thread: the task that it was created for, and others until there are none. */
PLIM_RARE_ void weighted_sem_work_(weighted_sem_run_ *run)
{
    int result;
    do {
        result = weighted_sem_call_task_(run);
    } while (weighted_sem_next_task_(run->worker, result));
}

PLIM_SLOW_ plim_worker_result weighted_sem_thread_(void *arg)
{
    weighted_sem_run_ run;
    run.worker = (weighted_sem_worker_ *)arg;
    plim_worker_begins_(run.worker->sem->fixed.name);
    PLIM_ON_THREAD_EXIT_(weighted_sem_thread_ended_, &run)
    weighted_sem_work_(&run);
    PLIM_ON_THREAD_EXIT_END_
    return 0;
}
