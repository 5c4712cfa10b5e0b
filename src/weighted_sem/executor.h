/* Background jobs on an executor; and how a job gets its worker or its place there. */

/* What an executor is given to run. */
PLIM_SLOW_ void weighted_sem_executed_task_ends_(weighted_sem_worker_ *self, int result)
{
    weighted_sem *w = self->sem;
    weighted_sem_section_ s = weighted_sem_lock_(w);
    weighted_sem_run_ends_(w, &s, self, result);
    weighted_sem_vacate_(w, self);
    weighted_sem_unlock_(w, &s);
}

PLIM_SLOW_ void weighted_sem_executor_thread_ended_(void *arg)
{
    weighted_sem_executed_task_ends_((weighted_sem_worker_ *)arg, ECANCELED);
}

PLIM_SLOW_ void weighted_sem_execute_(void *arg)
{
    weighted_sem_worker_ *self = (weighted_sem_worker_ *)arg;
    weighted_sem *w = self->sem;
    int result;
    weighted_sem_section_ s = weighted_sem_lock_(w);
    weighted_sem_run_begins_(w, self);
    weighted_sem_unlock_(w, &s);
    PLIM_ON_THREAD_EXIT_(weighted_sem_executor_thread_ended_, self)
    result = self->task.fn(self->task.arg);
    PLIM_ON_THREAD_EXIT_END_
    weighted_sem_executed_task_ends_(self, result);
}

/* A worker without thread and task, or NULL if memory is needed for one. */
static inline weighted_sem_worker_ *weighted_sem_vacancy_(weighted_sem *w)
{
    weighted_sem_worker_ *worker = w->vacant;
    if (worker != NULL) {
        w->vacant = worker->next_vacant;
    } else if (w->block_used < w->block_size) {
        worker = &w->block[w->block_used++];
        worker->allocated = false;
        worker->next = w->workers;
        w->workers = worker;
    }
    return worker;
}

/* Makes the ring of tasks large enough for all threads; false if there is no memory. */
PLIM_SLOW_ bool weighted_sem_grow_ring_(weighted_sem *w, weighted_sem_section_ *s)
{
    while (w->threads > w->ready_capacity) {
        size_t size = 2 * (size_t)w->threads;
        weighted_sem_unlock_(w, s); /* your allocator may take its time, or use this semaphore */
        weighted_sem_task_ *ring = (weighted_sem_task_ *)weighted_sem_memory_(size * sizeof *ring);
        *s = weighted_sem_lock_(w);
        if (ring == NULL) {
            return false;
        }
        weighted_sem_task_ *old = ring;
        if (size > w->ready_capacity) { /* or another thread has been here */
            for (size_t i = 0; i < w->ready_capacity; i++) {
                ring[i] = w->ready_ring[(w->ready_first + i) % w->ready_capacity];
            }
            old = w->ready_ring;
            w->ready_ring = ring;
            w->ready_capacity = size;
            w->ready_first = 0;
        }
        weighted_sem_unlock_(w, s);
        PLIM_FREE(old);
        *s = weighted_sem_lock_(w);
    }
    return true;
}

/* The executor has run the task on the spot, and that has ended the thread. */
PLIM_SLOW_ void weighted_sem_hiring_thread_ended_(void *arg)
{
    weighted_sem *w = (weighted_sem *)arg;
    weighted_sem_section_ s = weighted_sem_lock_(w);
    w->hiring--;
    weighted_sem_unlock_(w, &s);
}

PLIM_SLOW_ int weighted_sem_give_to_executor_(weighted_sem *w, weighted_sem_worker_ *worker)
{
    int error;
    PLIM_ON_THREAD_EXIT_(weighted_sem_hiring_thread_ended_, w)
    error = w->executor.execute(w->executor.ctx, weighted_sem_execute_, worker);
    PLIM_ON_THREAD_EXIT_END_
    return error;
}

/* Gets a worker for a task that was let in and found none: 0, EAGAIN, ENOMEM. */
PLIM_SLOW_ int weighted_sem_hire_(weighted_sem *w, const weighted_sem_task_ *task)
{
    const bool own = w->executor.execute == NULL;
    weighted_sem_section_ s = weighted_sem_lock_(w);
    if (own && weighted_sem_hand_over_(w, &s, task)) {
        weighted_sem_unlock_(w, &s); /* there is one by now */
        return 0;
    }
    w->hiring++; /* from here on destroy waits for us */
    w->threads += own;
    bool room = !own || weighted_sem_grow_ring_(w, &s);
    weighted_sem_worker_ *worker = room ? weighted_sem_vacancy_(w) : NULL;
    weighted_sem_unlock_(w, &s);
    if (room && worker == NULL) {
        worker = (weighted_sem_worker_ *)weighted_sem_memory_(sizeof *worker);
        if (worker != NULL) {
            worker->allocated = true;
            s = weighted_sem_lock_(w);
            worker->next = w->workers;
            w->workers = worker;
            weighted_sem_unlock_(w, &s);
        }
    }
    int error = worker == NULL ? ENOMEM : 0;
    if (error == 0) {
        worker->sem = w;
        worker->task = *task;
        worker->runner = 0;
        worker->joinable = worker->retired = false;
        error =
            own ? plim_worker_create_(&worker->thread, w->stack_size, weighted_sem_thread_, worker)
                : weighted_sem_give_to_executor_(w, worker);
        error = error != 0 && error != ENOMEM ? EAGAIN : error;
    }
    s = weighted_sem_lock_(w);
    w->hiring--;
    if (error == 0) {
        if (own) {
            worker->joinable = true;
            if (worker->retired) {
                worker->next_vacant = w->gone;
                w->gone = worker;
            }
        }
    } else {
        if (worker != NULL) {
            weighted_sem_vacate_(w, worker);
        }
        w->threads -= own;
        weighted_sem_undo_(w, task, &s);
    }
    weighted_sem_unlock_(w, &s);
    return error;
}
